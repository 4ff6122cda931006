/* SPDX-License-Identifier: MIT
 * Qwen2, Qwen3 and their mixtures of experts.
 *
 * Source: llama.cpp b10470, src/models/qwen2.cpp, qwen2moe.cpp, qwen3.cpp, qwen3moe.cpp. */
#include "llama/archs.h"

typedef vr_t (*after_attention)(vr_lm_graph *c, vr_t cur, int il);

static vr_t dense(vr_lm_graph *c, vr_t cur, int il)
{
    return vr_lm_ffn_simple(c, cur, il, VR_LM_SILU, VR_LM_FFN_PAR);
}

static vr_t experts(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, true, VR_LM_SOFTMAX);
    return vr_lm_build_moe(c, cur, &m);
}

/* The shared expert has a gate of its own, a sigmoid made of silu(x) / x. */
static vr_t experts_and_shared(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, false, VR_LM_SOFTMAX);
    vr_t out = vr_lm_build_moe(c, cur, &m);
    vr_t gate_inp = vr_lm_mm(c, vr_lm_w(c, il, "ffn_gate_inp_shexp.weight"), cur, NULL);
    vr_t gate = vr_gg_div(g, vr_gg_unary_of(g, gate_inp, VR_GG_SILU), gate_inp);
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR);
    vr_t shared = vr_lm_build_ffn(c, cur, &f);
    return vr_gg_add(g, out, vr_gg_mul(g, shared, gate));
}

static void build(vr_lm_graph *c, bool head_norms, after_attention feed_forward)
{
    vr_gg *g = c->g;
    vr_t inp = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t residual = inp, cur = vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS);
        vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
        if (head_norms) {
            x.q = vr_lm_norm_of(c, x.q, il, "attn_q_norm", VR_LM_NORM_RMS);
            x.k = vr_lm_norm_of(c, x.k, il, "attn_k_norm", VR_LM_NORM_RMS);
        }
        x.q = vr_lm_rope(c, x.q, NULL);
        x.k = vr_lm_rope(c, x.k, NULL);
        cur = vr_lm_attn_of(c, x, il);
        vr_lm_select_rows(c, il, &cur, &residual);
        vr_t ffn_inp = vr_gg_add(g, cur, residual);
        cur = vr_lm_norm_of(c, ffn_inp, il, "ffn_norm", VR_LM_NORM_RMS);
        inp = vr_lm_control(c, vr_gg_add(g, feed_forward(c, cur, il), ffn_inp), il);
    }
    vr_lm_finish(c, inp, VR_LM_NORM_RMS);
}

void vr_lm_build_qwen2(vr_lm_graph *c)
{
    build(c, false, dense);
}

void vr_lm_build_qwen2moe(vr_lm_graph *c)
{
    build(c, false, experts_and_shared);
}

void vr_lm_build_qwen3(vr_lm_graph *c)
{
    build(c, true, dense);
}

void vr_lm_build_qwen3moe(vr_lm_graph *c)
{
    build(c, true, experts);
}
