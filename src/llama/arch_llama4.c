/* SPDX-License-Identifier: MIT
 * Llama 4, EXAONE and AFMoE with experts: windows in most layers, positions not in all.
 *
 * Source: llama.cpp b10470, src/models/llama4.cpp, exaone-moe.cpp, afmoe.cpp. */
#include "llama/archs_more.h"
#include "llama/arch.h"

static vr_lm_qkv turned(vr_lm_graph *c, vr_lm_qkv x, vr_t factors)
{
    x.q = vr_lm_rope(c, x.q, factors);
    x.k = vr_lm_rope(c, x.k, factors);
    return x;
}

static vr_lm_qkv heads_normed(vr_lm_graph *c, vr_lm_qkv x, int il)
{
    x.q = vr_lm_rms(c, x.q, il, "attn_q_norm");
    x.k = vr_lm_rms(c, x.k, il, "attn_k_norm");
    return x;
}

static vr_t with_shared(vr_lm_graph *c, vr_t x, const vr_lm_moe *m, int il)
{
    vr_t out = vr_lm_build_moe(c, x, m);
    return vr_gg_add(c->g, out, vr_lm_bare_ffn(c, x, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR));
}

/* ---- llama4 ---- */

typedef struct llama4 {
    vr_t by_position;
    uint64_t step; /* each step-th layer has no positions */
    bool kq_norm;
} llama4;

static vr_t attention(vr_lm_graph *c, const llama4 *m, vr_t cur, int il)
{
    vr_gg *g = c->g;
    vr_t factors = vr_lm_rope_factors(c, il);
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    bool turns = ((uint64_t)il + 1) % m->step != 0;
    if (turns)
        x = turned(c, x, factors);
    else
        x.q = vr_gg_mul(g, x.q, m->by_position);
    if (turns && m->kq_norm) {
        x.q = vr_gg_rms_norm(g, x.q);
        x.k = vr_gg_rms_norm(g, x.k);
    }
    return vr_lm_attn_of(c, x, il);
}

static vr_t llama4_ffn(vr_lm_graph *c, vr_t x, int il)
{
    if (!vr_lm_opt(c, il, "ffn_gate_inp.weight")) {
        vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
        f.up_s = f.gate_s = f.down_s = NULL;
        return vr_lm_build_ffn(c, x, &f);
    }
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, false, VR_LM_SIGMOID);
    m.probs_b = m.gate_up = NULL;
    m.weight_before_ffn = true;
    return with_shared(c, x, &m, il);
}

static llama4 llama4_of(vr_lm_graph *c)
{
    uint64_t window;
    llama4 m = { .step = 4, .kq_norm = c->lm->n_expert != 128 };
    /* a window of 0 says that there is none, and all layers but the last have positions */
    if (vr_lm_u64(c->lm, "attention.sliding_window", 0, &window) && window == 0)
        m.step = c->lm->n_layer ? c->lm->n_layer : 1;
    return m;
}

void vr_lm_build_llama4(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    llama4 m = llama4_of(c);
    vr_t cur = vr_lm_inp_embd(c);
    m.by_position = vr_lm_inp_attn_scale(c);
    vr_lm_inp_attn(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = attention(c, &m, vr_lm_rms(c, cur, il, "attn_norm"), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = vr_gg_add(g, llama4_ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il), residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- exaone-moe ---- */

static vr_t exaone_ffn(vr_lm_graph *c, vr_t x, int il)
{
    if (!vr_lm_opt(c, il, "ffn_gate_inp.weight"))
        return vr_lm_bare_ffn(c, x, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, norm_w, vr_lm_gating_of(c->lm, VR_LM_SOFTMAX));
    m.gate_up = NULL;
    return with_shared(c, x, &m, il);
}

void vr_lm_build_exaone_moe(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur, factors = vr_lm_rope_factors(c, il);
        vr_lm_qkv x = vr_lm_qkv_of(c, vr_lm_rms(c, cur, il, "attn_norm"), il);
        x = heads_normed(c, x, il);
        cur = vr_lm_attend(c, c->lm->layers[il].swa ? turned(c, x, factors) : x, il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = vr_gg_add(g, exaone_ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il), residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- afmoe ---- */

static vr_t afmoe_attention(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    vr_t gate = vr_lm_bare_mm(c, il, "attn_gate", cur);
    x = heads_normed(c, x, il);
    if ((il + 1) % 4 != 0) /* hparams.n_no_rope_layer_step */
        x = turned(c, x, NULL);
    vr_lm_attention a = { .q = x.q, .k = x.k, .v = x.v };
    cur = vr_gg_mul(g, vr_lm_build_attn(c, &a, il), vr_gg_unary_of(g, gate, VR_GG_SIGMOID));
    return vr_lm_rms(c, vr_lm_scaled_mm(c, il, "attn_output", cur), il, "post_attention_norm");
}

static vr_t afmoe_ffn(vr_lm_graph *c, vr_t x, int il)
{
    if ((uint64_t)il < vr_lm_number(c->lm, "leading_dense_block_count", 0))
        return vr_lm_bare_ffn(c, x, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, norm_w, vr_lm_gating_of(c->lm, VR_LM_SIGMOID));
    m.gate_up = NULL;
    return vr_lm_flag(c, "expert_shared_count") ? with_shared(c, x, &m, il) : vr_lm_build_moe(c, x, &m);
}

void vr_lm_build_afmoe(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t cur = vr_gg_scale(g, vr_lm_inp_embd(c));
    vr_lm_inp_attn_iswa(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = afmoe_attention(c, vr_lm_rms(c, cur, il, "attn_norm"), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = afmoe_ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il);
        cur = vr_gg_add(g, vr_lm_rms(c, cur, il, "post_ffw_norm"), residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}
