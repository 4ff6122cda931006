/* SPDX-License-Identifier: MIT
 * Private to the room: what several arch_*.c files share, on top of graph.h. */
#ifndef VR_LLAMA_ARCH_H
#define VR_LLAMA_ARCH_H

#include "llama/graph.h"

/* The layer's NAME.weight times cur, with NAME.scale where there is one but no bias (build_lora_mm). */
vr_t vr_lm_scaled_mm(vr_lm_graph *c, int il, const char *name, vr_t cur);
/* The same without the scale (ggml_mul_mat, or a weight whose scale is not read). */
vr_t vr_lm_bare_mm(vr_lm_graph *c, int il, const char *name, vr_t cur);
/* One of attn_q, attn_k, attn_v where the graph took the bare matrix before v0.5.0, and takes bias and scale
 * since. */
vr_t vr_lm_qkv_mm(vr_lm_graph *c, int il, const char *name, vr_t cur);
/* NAME.weight, .scale or .bias; NULL: there is none. */
vr_t vr_lm_part(vr_lm_graph *c, int il, const char *name, const char *part);
vr_t vr_lm_rms(vr_lm_graph *c, vr_t cur, int il, const char *name); /* RMS norm with NAME.weight */

/* Layer norm with NAME of all heads of a token together. */
vr_t vr_lm_norm_whole(vr_lm_graph *c, vr_t x, int il, const char *name);

/* A gated or plain FFN without biases and scales, whatever the file has. */
vr_t vr_lm_bare_ffn(vr_lm_graph *c, vr_t cur, int il, const char *suffix, vr_lm_act act, vr_lm_gating gating);
/* Experts of which the scales are not read. */
vr_lm_moe vr_lm_bare_moe(vr_lm_graph *c, int il, vr_lm_act act, bool norm_w, vr_lm_gate_fn gating);

bool vr_lm_flag(const vr_lm_graph *c, const char *key);    /* a number that is not 0 */
bool vr_lm_nonzero(const vr_lm_graph *c, const char *key); /* a float that is there and not 0 */
/* swiglu_clamp_exp or swiglu_clamp_shexp of the layer is a limit. */
bool vr_lm_limited(const vr_lm_graph *c, const char *key, int il);
bool vr_lm_stopped(const vr_lm_graph *c); /* broken or out of memory */

/* attn_output with its scale and no bias; qkv as given. */
vr_t vr_lm_attend(vr_lm_graph *c, vr_lm_qkv x, int il);
/* Ends a graph whose last layer keeps all rows: norm, the rows that are wanted, head. */
void vr_lm_finish_wanted(vr_lm_graph *c, vr_t cur);
/* build_inp_mem_hybrid */
void vr_lm_inp_hybrid(vr_lm_graph *c);

/* ---- state spaces (graph_ssm.c) ---- */

vr_t vr_lm_mamba_layer(vr_lm_graph *c, vr_t cur, int il);
vr_t vr_lm_mamba2_layer(vr_lm_graph *c, vr_t cur, int il);

/* ---- delta nets (graph_delta.c) ---- */

typedef struct vr_lm_delta {
    vr_t q, k, v, gate, beta, state;
} vr_lm_delta;
/* What comes of them, and the new state in d->state. */
/* Keys and queries of a delta net: by RMS and a factor from v0.5.0 on. */
vr_t vr_lm_delta_norm(vr_lm_graph *c, vr_t x);
vr_t vr_lm_build_delta_net(vr_lm_graph *c, vr_lm_delta *d, int il);
/* The same, the new state put back where it lies. */
vr_t vr_lm_build_recurrent_attn(vr_lm_graph *c, vr_lm_delta *d, int il);
/* The last columns go back to where the state lies; returned is what the convolution reads. */
vr_t vr_lm_build_conv_state(vr_lm_graph *c, vr_t mixed, uint64_t kernel, uint64_t channels, int il);

/* ---- tokens that are chosen (graph_index.c) ---- */

/* How well each token of k goes with q, as one node where that runs. */
vr_t vr_lm_index_scores(vr_lm_graph *c, vr_t q, vr_t k, vr_t weights, vr_t mask, int il);
/* The mask with all but the tokens of `top` shut; `type`: what opens it. */
vr_t vr_lm_chosen_mask(vr_lm_graph *c, vr_dtype type, vr_t mask, vr_t top);

/* Kimi's, with a gate for each channel (arch_kimi_linear.c); whole_gate: as in Kimi K3. */
vr_t vr_lm_kda_layer(vr_lm_graph *c, vr_t x, int il, bool whole_gate);

#endif
