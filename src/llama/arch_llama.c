/* SPDX-License-Identifier: MIT
 * Llama and Mixtral.
 *
 * Source: llama.cpp b10470, src/models/llama.cpp. */
#include "llama/archs.h"

static vr_t feed_forward(vr_lm_graph *c, vr_t cur, int il)
{
    if (vr_lm_opt(c, il, "ffn_gate_inp.weight") == NULL)
        return vr_lm_ffn_simple(c, cur, il, VR_LM_SILU, VR_LM_FFN_PAR);
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, true, VR_LM_SOFTMAX);
    return vr_lm_build_moe(c, cur, &m);
}

void vr_lm_build_llama(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t residual = inp, cur = vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS);
        vr_t factors = vr_lm_rope_factors(c, il);
        vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
        x.q = vr_lm_rope(c, x.q, factors);
        x.k = vr_lm_rope(c, x.k, factors);
        cur = vr_lm_attn_of(c, x, il);
        vr_lm_select_rows(c, il, &cur, &residual);
        vr_t ffn_inp = vr_gg_add(g, cur, residual);
        cur = vr_lm_norm_of(c, ffn_inp, il, "ffn_norm", VR_LM_NORM_RMS);
        inp = vr_lm_control(c, vr_gg_add(g, feed_forward(c, cur, il), ffn_inp), il);
    }
    vr_lm_finish(c, inp, VR_LM_NORM_RMS);
}
