/* SPDX-License-Identifier: MIT
 * Private to the room: latent attention (MLA), which several architectures have. */
#ifndef VR_LLAMA_MLA_H
#define VR_LLAMA_MLA_H

#include "llama/arch.h"

/* Widths of a head: what is turned of a key, what is not, and its value; of the latent. */
typedef struct vr_lm_mla {
    uint64_t heads, key, rope, nope, value, lora;
    bool whole_q;  /* queries are turned whole, but for an offset */
    bool absorbed; /* only the latent is kept: the file has attn_k_b and attn_v_b */
} vr_lm_mla;

/* Halves of a query, the latent (normed) and the part of the key that is turned. */
typedef struct vr_lm_halves {
    vr_t q, q_nope, q_pe, latent, k_pe; /* q: whole, turned */
} vr_lm_halves;

/* false: the numbers make no sense, and the graph is broken. */
bool vr_lm_mla_of(vr_lm_graph *c, vr_lm_mla *m);
/* q: projected; x: what the latent comes of; both turned where `turns`. */
vr_lm_halves vr_lm_mla_halves(vr_lm_graph *c, const vr_lm_mla *m, vr_t q, vr_t x, int il, bool turns);
/* One key and value for all heads: what attention then takes. */
vr_lm_attention vr_lm_mla_absorbed(vr_lm_graph *c, const vr_lm_mla *m, const vr_lm_halves *h, int il);
/* A key and a value for each head. */
vr_lm_qkv vr_lm_mla_whole(vr_lm_graph *c, const vr_lm_mla *m, const vr_lm_halves *h, int il);

#endif
