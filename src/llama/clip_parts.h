/* SPDX-License-Identifier: MIT
 * Private to the projectors: a graph in the making, and what the graphs of several kinds are built with.
 *
 * Source: llama.cpp b10470, tools/mtmd/clip.cpp (clip_graph). */
#ifndef VR_CLIP_PARTS_H
#define VR_CLIP_PARTS_H

#include "llama/clip.h"

typedef vr_gg_tensor *vr_t;

struct vr_clip_kind;

/* A tensor, by its name behind "v.blk.N." or its whole name. */
typedef struct vr_clip_weight {
    vr_str name;
    size_t tensor; /* of the file */
} vr_clip_weight;

typedef struct vr_clip_layer {
    const vr_clip_weight *weights;
    size_t n;
} vr_clip_layer;

/* What the file says of pictures; tensors of sound are only counted. */
typedef struct vr_clip_tower {
    const struct vr_clip_kind *kind; /* NULL: unknown */
    vr_str type;
    uint64_t n_embd, n_head, n_head_kv, head, n_layer, projection, image, patch, merge, pattern;
    int64_t last_feature;        /* deepest of clip.vision.feature_layer; -1: none is named */
    uint64_t features;           /* how many are */
    const vr_clip_layer *layers; /* n_layer, and behind them tensors of none */
} vr_clip_tower;

struct vr_clip {
    const vram_model *model;
    bool sees, hears, speaks; /* encoders that the file has */
    vr_clip_tower tower;
    vr_str audio_type;
};

/* One graph. Numbers are those of the file; px and py count patches. */
typedef struct vr_cg {
    vr_gg *g;
    const vr_clip_tower *tower;
    const vram_checkpoint *file;
    vr_t *made; /* by tensor of the file */
    uint8_t buft;
    bool flash;
    uint64_t side, px, py, patches; /* side: pixels */
    uint64_t n_embd, n_head, n_head_kv, head, n_layer, patch, merge, projection, pattern;
    vr_t result;    /* rows for the text model */
    vr_t attention; /* one of the FLASH_ATTN_EXT there are, or NULL */
} vr_cg;

/* A kind of projector. */
typedef struct vr_clip_kind {
    const char *type;        /* clip.projector_type */
    vr_t (*build)(vr_cg *c); /* NULL: its graph is not known here */
    const char *merge_key;   /* where the file says `merge`; NULL: nowhere */
    uint32_t merge;          /* where it does not */
    uint32_t side;           /* tokens along a side of the first picture; 0: as the file's image_size */
    uint32_t most_tokens;    /* of a picture, where --image-max-tokens decides the first one; or 0 */
    bool swapped;            /* old files have ffn_up and ffn_down the wrong way round */
    const char *outside;     /* names of what is loaded beside the layers, a space behind each: "mm.0." */
} vr_clip_kind;
/* NULL: there is none of that name. */
const vr_clip_kind *vr_clip_kind_of(vr_str type);

/* ---- weights ---- */

/* Tensor of layer il by its name behind "v.blk.N.", or of none (-1) by its whole name; NULL: there is none.
 */
vr_t vr_cg_w(vr_cg *c, int il, const char *name);
/* NAME.weight and NAME.bias */
vr_t vr_cg_weight(vr_cg *c, int il, const char *name);
vr_t vr_cg_bias(vr_cg *c, int il, const char *name);

/* ---- building blocks ---- */

vr_t vr_cg_input(vr_cg *c, const char *name, vr_dtype t, uint64_t n); /* a row of numbers */
vr_t vr_cg_raw(vr_cg *c);                                             /* build_inp_raw */
vr_t vr_cg_conv_2d(vr_cg *c, vr_t kernel, vr_t a, uint64_t stride);
vr_t vr_cg_patches(vr_cg *c);                /* build_inp */
vr_t vr_cg_plus(vr_cg *c, vr_t cur, vr_t b); /* b may be NULL */
vr_t vr_cg_norm_of(vr_cg *c, vr_t cur, int il, const char *name, bool rms);
vr_t vr_cg_linear(vr_cg *c, vr_t cur, int il, const char *name); /* with its bias, where there is one */

typedef enum vr_cg_act { VR_CG_GELU, VR_CG_SILU, VR_CG_RELU_SQR } vr_cg_act;
/* up, activation, down; each with its bias. */
vr_t vr_cg_mlp(vr_cg *c, vr_t cur, const char *up, const char *down, vr_cg_act act);
vr_t vr_cg_layer_ffn(vr_cg *c, vr_t cur, int il, vr_cg_act act);

typedef struct vr_cg_qkv {
    vr_t q, k, v;
} vr_cg_qkv;
/* build_attn with what layer il has; mask may be NULL. */
vr_t vr_cg_attend_layer(vr_cg *c, vr_cg_qkv x, vr_t mask, int il);

typedef struct vr_cg_vit {
    uint64_t n_pos;
    bool rms;
    vr_cg_act act;
    vr_t positions;                                     /* learned, are added; NULL: none */
    vr_t (*turn)(vr_cg *c, vr_t cur, const void *with); /* queries and keys; NULL: not */
    const void *with;
    bool norm_values;
    bool no_end; /* no norm behind the last layer */
    vr_t mask;
} vr_cg_vit;
vr_t vr_cg_build_vit(vr_cg *c, vr_t inp, const vr_cg_vit *v);
vr_t vr_cg_rope_2d(vr_cg *c, vr_t cur, vr_t first, vr_t second);
vr_t vr_cg_resized_positions(vr_cg *c);                    /* resize_position_embeddings */
vr_t vr_cg_unshuffle(vr_cg *c, vr_t cur, uint64_t factor); /* build_patch_merge_permute */

#endif
