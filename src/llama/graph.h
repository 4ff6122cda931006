/* SPDX-License-Identifier: MIT
 * Private to the room: what the graphs of all architectures are built with. Each architecture is one function
 * in an arch_*.c that calls these as its graph in llama.cpp calls llm_graph_context's of the same name.
 *
 * Source: llama.cpp b10470, src/llama-graph.cpp. */
#ifndef VR_LLAMA_GRAPH_H
#define VR_LLAMA_GRAPH_H

#include "llama/place.h"

typedef vr_gg_tensor *vr_t;

/* Tensors of the caches of one layer, whole; NULL: it has none. */
typedef struct vr_lm_kept {
    vr_gg_tensor *k, *v; /* of llama_kv_cache: [width, cells, streams] */
    vr_gg_tensor *r, *s; /* of llama_memory_recurrent */
} vr_lm_kept;

/* Inputs of attention over one cache (llm_graph_input_attn_kv); made once a graph. */
typedef struct vr_lm_attn {
    vr_t k_idxs, v_idxs, mask, mask_cnv, k_rot, v_rot;
    uint64_t n_kv, n_stream;
} vr_lm_attn;

/* One graph in the making: llm_graph_context. */
typedef struct vr_lm_graph {
    vr_gg *g;
    const vr_lm *lm;
    const vr_lm_params *p;
    const vr_lm_plan *plan; /* where everything lies */
    /* the micro batch */
    uint64_t n_tokens, n_seqs, n_seq_tokens, n_outputs;
    uint64_t n_ctx, n_ctx_seq;
    vr_t *layer_weights; /* made on first use, as vr_lm.layers and their weights are ordered */
    vr_t *outside_weights;
    vr_lm_kept *kept;     /* by layer */
    vr_lm_attn full, swa; /* k_idxs NULL: not made yet */
    vr_t inp_tokens, inp_pos, inp_out_ids, rs_copy, rs_main, rs_extra;
    int32_t layer; /* that the tensors made now belong to */
} vr_lm_graph;

typedef struct vr_lm_arch {
    const char *name;
    void (*build)(vr_lm_graph *c);
} vr_lm_arch;

const vr_lm_arch *vr_lm_arch_find(vr_str name);

/* Weights by their GGUF name, NULL when the file has none: the model's tensor as the graph reads it. */
vr_t vr_lm_w(vr_lm_graph *c, uint32_t il, const char *name);
vr_t vr_lm_outside(vr_lm_graph *c, const char *name);
vr_t vr_lm_head(vr_lm_graph *c); /* output.weight, or the copy of the embedding */

vr_t vr_lm_inp_embd(vr_lm_graph *c);
vr_t vr_lm_inp_pos(vr_lm_graph *c);
vr_t vr_lm_inp_out_ids(vr_lm_graph *c); /* NULL: all are wanted */

typedef enum vr_lm_norm { VR_LM_NORM, VR_LM_NORM_RMS, VR_LM_NORM_GROUP } vr_lm_norm;
vr_t vr_lm_build_norm(vr_lm_graph *c, vr_t cur, vr_t w, vr_t b, vr_lm_norm kind, int il);
/* build_lora_mm, build_lora_mm_id; scale may be NULL. */
vr_t vr_lm_mm(vr_lm_graph *c, vr_t w, vr_t cur, vr_t scale);
vr_t vr_lm_mm_id(vr_lm_graph *c, vr_t w, vr_t cur, vr_t ids, vr_t scale);

typedef struct vr_lm_qkv {
    vr_t q, k, v;
} vr_lm_qkv;
vr_lm_qkv vr_lm_build_qkv(vr_lm_graph *c, vr_t cur, uint64_t head, uint64_t n_head, uint64_t n_head_kv,
                          int il);

typedef enum vr_lm_act {
    VR_LM_SILU,
    VR_LM_GELU,
    VR_LM_RELU,
    VR_LM_RELU_SQR,
    VR_LM_SWIGLU,
    VR_LM_GEGLU,
    VR_LM_REGLU,
    VR_LM_SWIGLU_OAI_MOE
} vr_lm_act;
typedef enum vr_lm_gating { VR_LM_FFN_SEQ, VR_LM_FFN_PAR } vr_lm_gating;
typedef struct vr_lm_ffn {
    vr_t up, up_b, up_s, gate, gate_b, gate_s, down, down_b, down_s, act_scales;
    vr_lm_act act;
    vr_lm_gating gating;
} vr_lm_ffn;
vr_t vr_lm_build_ffn(vr_lm_graph *c, vr_t cur, const vr_lm_ffn *f, int il);
/* The layer's ffn_up, ffn_gate, ffn_down with what biases and scales there are. */
vr_lm_ffn vr_lm_ffn_of(vr_lm_graph *c, uint32_t il, vr_lm_act act, vr_lm_gating gating);

typedef enum vr_lm_gate_fn {
    VR_LM_SOFTMAX,
    VR_LM_SIGMOID,
    VR_LM_SOFTMAX_WEIGHT,
    VR_LM_SQRT_SOFTPLUS
} vr_lm_gate_fn;
typedef struct vr_lm_moe {
    vr_t gate_inp, gate_inp_b, up, up_b, gate, gate_b, down, down_b, probs_b;
    vr_t gate_up, gate_up_b, up_s, gate_s, down_s, probs_in, selected_in;
    uint64_t n_expert, n_used;
    vr_lm_act act;
    bool norm_w, scaled; /* scaled: w_scale is neither 0 nor 1 */
    vr_lm_gate_fn gating;
} vr_lm_moe;
vr_t vr_lm_build_moe(vr_lm_graph *c, vr_t cur, const vr_lm_moe *m, int il);
/* The layer's expert tensors by their usual names, and the file's counts. */
vr_lm_moe vr_lm_moe_of(vr_lm_graph *c, uint32_t il, vr_lm_act act, bool norm_w, bool scaled,
                       vr_lm_gate_fn gating);

/* build_attn_inp_kv, ..._kv_iswa (both caches), ..._no_cache. */
void vr_lm_attn_inp_kv(vr_lm_graph *c);
void vr_lm_attn_inp_iswa(vr_lm_graph *c);
void vr_lm_attn_inp_no_cache(vr_lm_graph *c);

typedef struct vr_lm_attention {
    vr_t wo, wo_b, wo_s;
    vr_t q, k, v; /* k and v NULL: the layer uses an earlier one's cache */
    vr_t kq_b, sinks, v_mla;
    bool no_cache;
} vr_lm_attention;
vr_t vr_lm_build_attn(vr_lm_graph *c, const vr_lm_attention *a, int il);

vr_t vr_lm_rope(vr_lm_graph *c, vr_t x, vr_t factors);
vr_t vr_lm_rope_factors(vr_lm_graph *c, uint32_t il); /* NULL: none */

/* Recurrent layers: build_rs_inp, build_rs, ... */
void vr_lm_rs_inp(vr_lm_graph *c);
vr_t vr_lm_build_rs(vr_lm_graph *c, vr_t states, uint64_t width, uint64_t n_seqs);

/* What all graphs end with: the norm, the head where logits are wanted, the whole expanded. */
void vr_lm_finish(vr_lm_graph *c, vr_t cur, vr_lm_norm kind);

#endif
