/* SPDX-License-Identifier: MIT
 * What a checkpoint computes: layers, attention kind of each, vocabulary; each fact checked against tensor shapes. */
#ifndef VR_MODEL_H
#define VR_MODEL_H

#include "base/base.h"
#include "checkpoint/checkpoint.h"

typedef enum vr_attention_kind {
    VR_ATTENTION_FULL,
    VR_ATTENTION_SLIDING /* the last `window` tokens */
} vr_attention_kind;

typedef enum vr_norm_kind {
    VR_NORM_RMS,      /* LlamaRMSNorm: fp32 inside, weight times the narrowed result */
    VR_NORM_RMS_GEMMA /* Gemma*RMSNorm: (1 + weight) in fp32, narrowed last */
} vr_norm_kind;

typedef enum vr_mlp_kind {
    VR_MLP_GATED,      /* gate_proj, up_proj, down_proj */
    VR_MLP_GATED_FUSED /* gate_up_proj, down_proj */
} vr_mlp_kind;

/* Row of data/architectures.tsv: a plain dense decoder. */
typedef struct vr_family {
    const char *model_type;     /* "qwen2" */
    const char *class_name;     /* "Qwen2ForCausalLM" */
    bool fused_qkv;             /* one qkv_proj */
    bool qkv_bias, o_bias, mlp_bias; /* defaults of the class; config's attention_bias / mlp_bias override where the class reads them */
    bool qk_norm;               /* q_norm, k_norm over head_dim */
    bool sandwich_norms;        /* gemma2/3: four norms a layer */
    uint8_t norm, mlp;          /* vr_norm_kind, vr_mlp_kind */
    bool tied_default;          /* tie_word_embeddings when the config is silent */
    bool embedding_scaled;      /* gemma: hidden states times sqrt(hidden) */
    bool logit_softcap;         /* gemma2: final_logit_softcapping, attn_logit_softcapping */
    bool local_rope;            /* gemma3: second rotary table for sliding layers */
    uint32_t head_dim_default;  /* when the config is silent; 0: hidden / heads */
    uint32_t sliding_pattern;   /* every n-th layer is full when layer_types is absent; 0: see window rule of the row's class */
    const char *source;
} vr_family;

typedef struct vr_layer {
    uint8_t attention; /* vr_attention_kind */
    uint32_t window;   /* tokens; 0 for full */
} vr_layer;

struct vram_model {
    vr_object object;
    vram_ctx *ctx;
    vr_arena arena;
    const vram_checkpoint *checkpoint;
    const char *architecture; /* "Qwen2ForCausalLM"; NULL unknown */
    const char *model_type;   /* NULL unknown */
    const vr_family *family;  /* NULL: not understood, then only the weights are counted */
    const char *not_understood; /* sentence why, when family is NULL */
    const char *uncounted_part; /* a component beside the decoder that is not understood (vision tower), or NULL */
    vr_dtype dtype;             /* of the config, or of the first floating tensor */
    bool quantised;             /* quantization_config present or packed tensors */
    const char *prefix;         /* "model." or "" or "language_model.model." as in the checkpoint's names */
    uint64_t n_layers, hidden, heads, kv_heads, head_dim, ffn, vocab, max_context;
    bool tied, qkv_bias, o_bias, mlp_bias;
    uint64_t attention_softcap, final_softcap; /* 1: there is one, 0: none */
    vr_layer *layers;
    size_t kv_bytes_per_token_16bit; /* all layers, one sequence, full length, 2 bytes an element */
};

const vr_family *vr_families(size_t *n);
const vr_family *vr_family_find(vr_str model_type);

/* Which tensors belong together in reports: component ("embeddings", "layer 0", ..., "head", "norm", "other"). */
typedef struct vr_component {
    const char *name;
    uint64_t layer; /* or UINT64_MAX */
    uint64_t bytes, elements;
    uint32_t n_tensors;
} vr_component;
vram_status vr_model_components(const vram_model *m, vr_arena *a, vr_component **out, size_t *n);

#endif
