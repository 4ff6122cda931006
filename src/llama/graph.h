/* SPDX-License-Identifier: MIT
 * Private to the room: what the graphs of all architectures are built with. Each architecture is one function
 * in an arch_*.c that calls these as its graph in llama.cpp calls llm_graph_context's of the same name.
 *
 * Source: llama.cpp b10470, src/llama-graph.cpp, and for the caches src/llama-kv-cache.cpp. */
#ifndef VR_LLAMA_GRAPH_H
#define VR_LLAMA_GRAPH_H

#include "llama/place.h"

typedef vr_gg_tensor *vr_t;

typedef struct vr_lm_kept_compressed {
    vr_t k, keys, scores; /* keys, scores: the state */
} vr_lm_kept_compressed;

/* Tensors of the caches of one layer, whole; NULL: it has none. */
typedef struct vr_lm_kept {
    vr_t k, v;  /* of llama_kv_cache: [width, cells, streams] */
    vr_t r, s;  /* of llama_memory_recurrent: [width, rows] */
    vr_t index; /* keys of llama_kv_cache_dsa's second cache */
    vr_lm_kept_compressed compressed[2];
    bool made;
} vr_lm_kept;

/* Inputs of attention over one cache (llm_graph_input_attn_kv); made once a graph. */
typedef struct vr_lm_attn {
    vr_t k_idxs, v_idxs, mask; /* v_idxs NULL: only keys are kept, values are views of them (MLA) */
    vr_t k_rot, v_rot;         /* NULL: not rotated */
} vr_lm_attn;

/* Operations whose being fused depends on where they land: llama_context::resolve_fused_ops. */
typedef enum vr_lm_fused_kind {
    VR_LM_FUSED_FLASH,
    VR_LM_FUSED_GDN_AR,
    VR_LM_FUSED_GDN_CH,
    VR_LM_FUSED_LID,
    VR_LM_FUSED_HC_PRE,
    VR_LM_FUSED_HC_COMB,
    VR_LM_FUSED_HC_POST
} vr_lm_fused_kind;
typedef struct vr_lm_fused_node {
    vr_t t;
    int il;
    vr_lm_fused_kind kind;
} vr_lm_fused_node;

/* What a context has settled when a graph is made: llama_cparams. */
typedef struct vr_lm_settled {
    bool flash_attn, fused_gdn_ar, fused_gdn_ch, fused_lid, fused_hc_pre, fused_hc_comb, fused_hc_post;
} vr_lm_settled;

/* One graph in the making: llm_graph_context. */
typedef struct vr_lm_graph {
    vr_gg *g;
    vr_arena *arena; /* of this graph */
    const vr_lm *lm;
    const vr_lm_params *p;
    const vr_lm_plan *plan; /* where everything lies */
    vr_lm_settled settled;
    bool pins;         /* norms and the like are pinned to a back end: not when sizes are asked for only */
    bool full_offload; /* all layers and the output are on GPUs */
    /* the micro batch: n_seqs sequences of n_seq_tokens each */
    uint64_t n_tokens, n_seqs, n_seq_tokens, n_outputs;
    /* what the architecture's function may set before anything else */
    bool soft_cap;          /* scores are capped: hparams.attn_soft_cap */
    bool score_scaled;      /* scores pass a tanh of their own first (grok) */
    bool alibi;             /* hparams.f_max_alibi_bias is not 0 */
    uint64_t pos_per_token; /* hparams.n_pos_per_embd(): 1, or 4 with sections of rope */
    uint64_t n_deepstack;   /* hparams.n_deepstack_layers */
    bool embedding_scaled;  /* hparams.f_embedding_scale is not 0 */
    bool no_head_bias;      /* output.bias is not used */
    bool hands_on;          /* to a second context: all rows, behind the last layer (embeddings_nextn) */
    /* made on first use */
    vr_t **layer_weights;  /* by layer, as its weights are ordered */
    vr_t *outside_weights; /* as vr_lm.outside */
    vr_t head, *copies;    /* copies: of outside weights, one on each buffer type: [outside][buft] */
    vr_lm_kept *kept;      /* by layer */
    vr_lm_attn full, swa, none;
    vr_t inp_tokens, inp_pos, inp_out_ids, rs_copy, rs_main, rs_extra;
    vr_t inp_rows;     /* t_inp_embd: embeddings as they came, with what is stacked behind them */
    vr_t embd;         /* t_embd */
    vr_t logits;       /* t_logits */
    bool controlled;   /* vr_lm_control is called at the layers' ends */
    vr_t **adapted;    /* tensors of adapters: [adapter][pair x 2] */
    size_t adapted_at; /* the pair that was found last */
    vr_lm_fused_node *fused;
    size_t n_fused, fused_room;
} vr_lm_graph;

typedef struct vr_lm_arch {
    const char *name;
    void (*build)(vr_lm_graph *c);
} vr_lm_arch;

/* NULL: its graph is not known here. */
const vr_lm_arch *vr_lm_arch_find(vr_str name);
/* Of its second context, on the layers that predict (predicted.c). */
const vr_lm_arch *vr_lm_predicted_find(vr_str name);
/* What keys and tensors say differently, where llama.cpp would not load the file; or NULL in *why. */
bool vr_lm_has_split_experts(const vr_lm *lm);
vram_status vr_lm_agree(const char **why, const vr_lm *lm, vr_arena *a);

/* ---- weights ----
 * By their GGUF names, as the graph reads them: "attn_q.weight" of layer il, "output_norm.weight" outside. */

/* Needed: where the file has none the graph is broken, and what is returned stands for it. */
vr_t vr_lm_w(vr_lm_graph *c, int il, const char *name);
vr_t vr_lm_outside(vr_lm_graph *c, const char *name);
/* NULL: the file has none. */
vr_t vr_lm_opt(vr_lm_graph *c, int il, const char *name);
vr_t vr_lm_outside_opt(vr_lm_graph *c, const char *name);
vr_t vr_lm_head(vr_lm_graph *c); /* output.weight, or the copy of the embedding */
/* An outside tensor that each layer has on its own device (TENSOR_DUPLICATED); NULL: there is none. */
vr_t vr_lm_shared(vr_lm_graph *c, int il, const char *name);
void vr_lm_broken(vr_lm_graph *c, const char *rule); /* the first is kept */

/* ---- inputs ---- */

vr_t vr_lm_inp_embd(vr_lm_graph *c);    /* build_inp_embd: rows of token_embd.weight */
vr_t vr_lm_inp_pos(vr_lm_graph *c);     /* made once */
vr_t vr_lm_inp_out_ids(vr_lm_graph *c); /* made once */
vr_t vr_lm_inp_attn_scale(vr_lm_graph *c);
void vr_lm_inp_attn(vr_lm_graph *c); /* build_attn_inp_kv, or ..._iswa where the model slides */
void vr_lm_inp_attn_kv(vr_lm_graph *c);
void vr_lm_inp_attn_k(vr_lm_graph *c);    /* keys only: MLA */
void vr_lm_inp_attn_iswa(vr_lm_graph *c); /* both caches */
void vr_lm_inp_attn_no_cache(vr_lm_graph *c);

/* ---- building blocks; il is -1 where llama.cpp's is ---- */

typedef enum vr_lm_norm { VR_LM_NORM, VR_LM_NORM_RMS, VR_LM_NORM_GROUP } vr_lm_norm;
vr_t vr_lm_build_norm(vr_lm_graph *c, vr_t cur, vr_t w, vr_t b, vr_lm_norm kind, int il);
/* It runs on its layer's device, where llama.cpp pins it. */
void vr_lm_pin(vr_lm_graph *c, vr_t t, int il);
/* With the layer's weight `name`.weight and, where there is one, `name`.bias. */
vr_t vr_lm_norm_of(vr_lm_graph *c, vr_t cur, int il, const char *name, vr_lm_norm kind);

/* build_lora_mm, build_lora_mm_id; scale may be NULL. */
vr_t vr_lm_mm(vr_lm_graph *c, vr_t w, vr_t cur, vr_t scale);
vr_t vr_lm_mm_id(vr_lm_graph *c, vr_t w, vr_t cur, vr_t ids, vr_t scale);
/* The layer's `name`.weight times cur, with `name`.scale and `name`.bias where there are. */
vr_t vr_lm_linear(vr_lm_graph *c, int il, const char *name, vr_t cur);

typedef struct vr_lm_qkv {
    vr_t q, k, v; /* [head, heads, tokens] */
} vr_lm_qkv;
vr_lm_qkv vr_lm_build_qkv(vr_lm_graph *c, vr_t cur, uint64_t head, uint64_t n_head, uint64_t n_head_kv,
                          int il);
vr_lm_qkv vr_lm_qkv_of(vr_lm_graph *c, vr_t cur, int il); /* with the layer's own numbers */

typedef enum vr_lm_act {
    VR_LM_SILU,
    VR_LM_GELU,
    VR_LM_RELU,
    VR_LM_RELU_SQR,
    VR_LM_SWIGLU,
    VR_LM_GEGLU,
    VR_LM_REGLU,
    VR_LM_SWIGLU_OAI_MOE,
    VR_LM_SITU /* only with a gate */
} vr_lm_act;
typedef enum vr_lm_gating { VR_LM_FFN_SEQ, VR_LM_FFN_PAR } vr_lm_gating;
typedef struct vr_lm_ffn {
    vr_t up, up_b, up_s, gate, gate_b, gate_s, down, down_b, down_s, act_scales; /* NULL: none */
    vr_lm_act act;
    vr_lm_gating gating;
    bool clamped; /* hparams.swiglu_clamp_shexp[il] is not 0 */
} vr_lm_ffn;
vr_t vr_lm_build_ffn(vr_lm_graph *c, vr_t cur, const vr_lm_ffn *f);
/* What a matrix of an FFN is scaled by, in architectures that read it. */
vr_t vr_lm_ffn_scale(vr_lm_graph *c, int il, const char *name, const char *suffix);
/* The layer's ffn_up, ffn_gate, ffn_down, with `suffix` ("", "_shexp", "_chexp") behind, with what biases and
 * scales there are. */
vr_lm_ffn vr_lm_ffn_of(vr_lm_graph *c, int il, const char *suffix, vr_lm_act act, vr_lm_gating gating);
vr_t vr_lm_ffn_simple(vr_lm_graph *c, vr_t cur, int il, vr_lm_act act, vr_lm_gating gating);

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
    bool norm_w, scaled;    /* scaled: w_scale is neither 0 nor 1 */
    bool weight_before_ffn; /* and experts are chosen by the logits (llama4) */
    bool clamped;           /* hparams.swiglu_clamp_exp[il] is not 0 */
    uint64_t n_probs; /* experts the router knows, where these are fewer: groups of it (grovemoe); or 0 */
    uint64_t n_groups, n_group_used; /* hparams.n_expert_groups; the file's */
    vr_lm_gate_fn gating;
} vr_lm_moe;
vr_t vr_lm_build_moe(vr_lm_graph *c, vr_t cur, const vr_lm_moe *m);
/* The layer's expert tensors by their usual names, the file's counts, and `scaled` from expert_weights_scale.
 */
vr_lm_moe vr_lm_moe_of(vr_lm_graph *c, int il, vr_lm_act act, bool norm_w, vr_lm_gate_fn gating);
/* By the number in the file (expert_gating_func), `otherwise` where it has none. */
vr_lm_gate_fn vr_lm_gating_of(const vr_lm *lm, vr_lm_gate_fn otherwise);

typedef struct vr_lm_attention {
    vr_t wo, wo_b, wo_s;
    vr_t q, k, v; /* k and v NULL: the layer uses an earlier one's cache */
    vr_t kq_b, sinks, v_mla;
} vr_lm_attention;
vr_t vr_lm_build_attn(vr_lm_graph *c, const vr_lm_attention *a, int il);
vr_t vr_lm_build_attn_no_cache(vr_lm_graph *c, const vr_lm_attention *a, int il);
/* With the layer's attn_output. */
vr_t vr_lm_attn_of(vr_lm_graph *c, vr_lm_qkv x, int il);
/* build_attn_mha */
vr_t vr_lm_attn_mha(vr_lm_graph *c, vr_t q, vr_t k, vr_t v, vr_t mask, const vr_lm_attention *a, int il);

/* llama_mul_mat_hadamard; rot NULL: x itself. */
vr_t vr_lm_rotated(vr_lm_graph *c, vr_t x, vr_t rot);

/* The layer's cache as attention reads it, and what puts new keys and values there. */
vr_t vr_lm_get_k(vr_lm_graph *c, int il);
vr_t vr_lm_get_v(vr_lm_graph *c, int il);
vr_t vr_lm_cpy_k(vr_lm_graph *c, vr_t k, vr_t idxs, int il);
vr_t vr_lm_cpy_v(vr_lm_graph *c, vr_t v, vr_t idxs, int il);
vr_lm_kept *vr_lm_kept_of(vr_lm_graph *c, int il); /* never NULL */

vr_t vr_lm_rope(vr_lm_graph *c, vr_t x, vr_t factors); /* over inp_pos */
vr_t vr_lm_rope_factors(vr_lm_graph *c, int il);       /* get_rope_factors; NULL: none */

/* At the last layer only the rows that are wanted go on: get_rows of both. residual may be NULL. */
void vr_lm_select_rows(vr_lm_graph *c, int il, vr_t *cur, vr_t *residual);
/* The same, but for graphs that hand all rows on; and what these end with. */
void vr_lm_select_unless_handed(vr_lm_graph *c, int il, vr_t *cur, vr_t *residual);
void vr_lm_finish_handed(vr_lm_graph *c, vr_t cur);

/* ---- recurrent layers ---- */

void vr_lm_rs_inp(vr_lm_graph *c);
/* build_rs over a state of `width` floats a sequence. rows: what reads the states at rs_main, NULL:
 * get_rows. */
typedef vr_t (*vr_lm_rows)(vr_lm_graph *c, vr_t states, vr_t ids, void *with);
vr_t vr_lm_build_rs(vr_lm_graph *c, vr_t s, uint64_t width, uint64_t n_seqs, vr_lm_rows rows, void *with);

/* build_cvec: what each layer ends with. */
vr_t vr_lm_control(vr_lm_graph *c, vr_t cur, int il);

/* ---- the end ---- */

void vr_lm_fused(vr_lm_graph *c, vr_lm_fused_kind kind, vr_t t, int il);
/* t_embd: what the head is applied to; it is an output. */
void vr_lm_embd(vr_lm_graph *c, vr_t cur);
/* The head with scale and bias. */
vr_t vr_lm_head_mm(vr_lm_graph *c, vr_t cur);
/* scale, tanh, scale: f_final_logit_softcapping. */
vr_t vr_lm_logit_cap(vr_lm_graph *c, vr_t cur);
/* t_logits, and the whole expanded. */
void vr_lm_logits(vr_lm_graph *c, vr_t cur);
/* What most graphs end with: output_norm, embd, head_mm, logits. */
void vr_lm_finish(vr_lm_graph *c, vr_t cur, vr_lm_norm kind);

/* build_sampling: behind that, where drafts are chosen, the ten likeliest tokens of each sequence. */
void vr_lm_build_sampling(vr_lm_graph *c);
/* build_pooling, build_dense_out: behind the whole graph, where embeddings are asked for. */
void vr_lm_build_pooling(vr_lm_graph *c);

/* ---- the context ---- */

/* Adds the compute buffers: llama_context::sched_reserve. */
vram_status vr_lm_compute(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p, const vr_lm_plan *plan,
                          vr_arena *a);
/* A micro batch that a graph is made for. */
typedef struct vr_lm_batch {
    uint64_t n_tokens, n_seqs, n_outputs;
    bool pins, hands_on; /* of vr_lm_graph */
} vr_lm_batch;
/* One graph into g, which is emptied before. */
vram_status vr_lm_graph_make(vr_lm_graph *c, vr_gg *g, const vr_lm *lm, const vr_lm_params *p,
                             const vr_lm_plan *plan, vr_lm_settled settled, vr_lm_batch batch);

#endif
