/* SPDX-License-Identifier: MIT
 * Private to the room: decoders that differ in little from Llama, told as a row of differences. */
#ifndef VR_LLAMA_PLAIN_H
#define VR_LLAMA_PLAIN_H

#include "llama/arch.h"
#include "llama/archs.h"

/* Norms of queries and keys. They are there where the file has them. */
typedef enum vr_lm_head_norms {
    VR_LM_HEADS,        /* of each head, before it is turned */
    VR_LM_HEADS_TURNED, /* of each head, behind that */
    VR_LM_HEADS_WHOLE   /* of all heads as one row */
} vr_lm_head_norms;

typedef struct vr_lm_plain {
    vr_lm_norm norm;
    /* Names of norms without ".weight"; NULL: there is none. */
    const char *before, *behind_attention, *ffn, *behind_ffn;
    bool weightless;       /* the norms have no weights */
    bool behind_ffn_is_of; /* llama.cpp says of which layer the last of them is */
    vr_lm_head_norms heads;
    bool (*turns)(const vr_lm_graph *c, int il); /* rope is applied; NULL: always */
    bool factors;                                /* rope has factors, where the file has them */
    bool scaled_queries;
    bool no_output_bias; /* the file may have one, which is not used */
    bool residual_scale; /* f_residual_scale is not 0 */
    /* Instead of rope: what becomes of queries and keys. */
    void (*queries)(vr_lm_graph *c, vr_lm_qkv *x, int il, vr_t scale);
    bool attn_scale;                                  /* build_inp_attn_scale is made, for `queries` */
    vr_t (*feed)(vr_lm_graph *c, vr_t cur, int il);   /* NULL: gated SiLU */
    vr_t (*behind)(vr_lm_graph *c, vr_t cur, int il); /* what each layer ends with; NULL: nothing */
    bool no_cache;                                    /* all tokens are there at once */
} vr_lm_plain;

/* All layers, from embeddings to what the last norm is applied to. */
vr_t vr_lm_plain_layers(vr_lm_graph *c, const vr_lm_plain *d, vr_t inp);
/* With vr_lm_inp_embd before and vr_lm_finish behind. */
void vr_lm_plain_build(vr_lm_graph *c, const vr_lm_plain *d);

/* How the three terms of a parallel layer are added, ((first + second) + third), or its mirror image. */
typedef enum vr_lm_sum {
    VR_LM_SUM_ATTENTION_FED_INPUT,
    VR_LM_SUM_FED_ATTENTION_INPUT,
    VR_LM_SUM_FED_INPUT_ATTENTION,
    VR_LM_SUM_FED_TO_ATTENTION_INPUT /* fed + (attention + input) */
} vr_lm_sum;

/* Layers whose feed-forward part reads what attention reads. */
typedef struct vr_lm_parallel {
    vr_lm_norm norm;
    bool (*turns)(const vr_lm_graph *c, int il);
    bool factors, scaled_queries;
    vr_lm_sum sum;
    vr_t (*feed)(vr_lm_graph *c, vr_t cur, int il); /* NULL: gated SiLU */
    bool rows_behind;                               /* rows are chosen behind all layers */
} vr_lm_parallel;
vr_t vr_lm_parallel_layers(vr_lm_graph *c, const vr_lm_parallel *d, vr_t inp);

/* For .turns: no layer does. */
bool vr_lm_never(const vr_lm_graph *c, int il);

/* ---- feed-forward parts ---- */

vr_t vr_lm_feed_silu(vr_lm_graph *c, vr_t cur, int il);      /* gated */
vr_t vr_lm_feed_silu_bare(vr_lm_graph *c, vr_t cur, int il); /* without the biases that the file may have */
vr_t vr_lm_feed_gelu(vr_lm_graph *c, vr_t cur, int il);      /* not gated */
vr_t vr_lm_feed_relu_sqr(vr_lm_graph *c, vr_t cur, int il);  /* not gated */
vr_t vr_lm_feed_swiglu(vr_lm_graph *c, vr_t cur, int il);    /* gate and up in one */
/* Experts chosen by softmax, or a dense part where the layer has no router; beside a shared expert where
 * there is one. */
vr_t vr_lm_feed_experts(vr_lm_graph *c, vr_t cur, int il);       /* weights add up to one */
vr_t vr_lm_feed_experts_plain(vr_lm_graph *c, vr_t cur, int il); /* they do not */
vr_t vr_lm_feed_experts_file(vr_lm_graph *c, vr_t cur,
                             int il); /* as the file says, and how they are chosen */

#endif
