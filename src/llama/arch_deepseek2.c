/* SPDX-License-Identifier: MIT
 * Latent attention (MLA): deepseek2 and those built alike. With absorbed matrices (attn_k_b, attn_v_b) only
 * the latent is kept; old files without them keep whole keys and values.
 *
 * Source: llama.cpp b10470, src/models/deepseek2.cpp. */
#include "llama/archs_more.h"
#include "llama/mla.h"
#include "llama/predicted.h"

static vr_t queries(vr_lm_graph *c, vr_t x, int il)
{
    if (vr_lm_opt(c, il, "attn_q.weight"))
        return vr_lm_bare_mm(c, il, "attn_q", x);
    x = vr_lm_bare_mm(c, il, "attn_q_a", x);
    return vr_lm_bare_mm(c, il, "attn_q_b", vr_lm_rms(c, x, il, "attn_q_a_norm"));
}

static vr_t warmed(vr_lm_graph *c, vr_t temperature, vr_t q)
{
    return temperature ? vr_gg_mul(c->g, q, temperature) : q;
}

/* temperature: queries are scaled by position; NULL: they are not. */
static vr_t attend(vr_lm_graph *c, const vr_lm_mla *m, vr_t temperature, vr_t x, int il)
{
    vr_lm_halves h = vr_lm_mla_halves(c, m, queries(c, x, il), x, il, true);
    if (m->absorbed) {
        vr_lm_attention a = vr_lm_mla_absorbed(c, m, &h, il);
        a.q = warmed(c, temperature, a.q);
        return vr_lm_build_attn(c, &a, il);
    }
    if (m->whole_q)
        h.q = vr_lm_rope(c, h.q, NULL);
    vr_lm_qkv a = vr_lm_mla_whole(c, m, &h, il);
    a.q = warmed(c, temperature, a.q);
    return vr_lm_attend(c, a, il);
}

static vr_t experts(vr_lm_graph *c, vr_t x, int il, bool norm_w, vr_lm_gate_fn gating)
{
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, norm_w, gating);
    vr_t out = vr_lm_build_moe(c, x, &m);
    return vr_gg_add(c->g, out, vr_lm_bare_ffn(c, x, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR));
}

/* Files of DeepSeek-V2 do not say how experts are chosen; GLM 4.7 Flash neither, and does it otherwise. */
static vr_lm_gate_fn gating_of(const vr_lm *lm)
{
    bool glm = (lm->n_layer == 47 || lm->n_layer == 48) && lm->n_vocab == 154880;
    return vr_lm_gating_of(lm, glm ? VR_LM_SIGMOID : VR_LM_SOFTMAX);
}

void vr_lm_build_deepseek2(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_lm_mla m;
    vr_t temperature = NULL;
    if (!vr_lm_mla_of(c, &m))
        return;
    m.whole_q = c->plan->rules.rope_part != 0;
    uint64_t dense = vr_lm_number(c->lm, "leading_dense_block_count", 0);
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_gate_fn gating = gating_of(c->lm);
    vr_t cur = vr_lm_inp_embd(c);
    if (vr_lm_nonzero(c, "attention.temperature_scale"))
        temperature = vr_lm_inp_attn_scale(c);
    if (m.absorbed)
        vr_lm_inp_attn_k(c);
    else
        vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = attend(c, &m, temperature, vr_lm_rms(c, cur, il, "attn_norm"), il);
        vr_lm_select_unless_handed(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = vr_lm_rms(c, residual, il, "ffn_norm");
        cur = (uint64_t)il < dense ? vr_lm_bare_ffn(c, cur, il, "", VR_LM_SILU, VR_LM_FFN_PAR)
                                   : experts(c, cur, il, norm_w, gating);
        cur = vr_gg_add(g, cur, residual);
    }
    vr_lm_finish_handed(c, cur);
}

static vr_t predicting_attention(vr_lm_graph *c, vr_t x, int il)
{
    vr_lm_mla m;
    if (!vr_lm_mla_of(c, &m))
        return x;
    m.whole_q = c->plan->rules.rope_part != 0;
    if (!m.absorbed)
        vr_lm_broken(c, "layers that predict need absorbed matrices");
    return vr_lm_stopped(c) ? x : attend(c, &m, NULL, x, il);
}

static vr_t predicting_ffn(vr_lm_graph *c, vr_t x, int il)
{
    return experts(c, x, il, vr_lm_flag(c, "expert_weights_norm"), gating_of(c->lm));
}

void vr_lm_predict_deepseek2(vr_lm_graph *c)
{
    vr_lm_inp_attn_k(c);
    vr_lm_predicted(c, predicting_attention, predicting_ffn, VR_LM_WANTED_BEHIND_NORM);
}

/* ---- deepseek2-ocr: the same experts, plain attention ---- */

static vr_t ocr_attend(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    uint64_t heads = c->lm->layers[0].n_head, head = heads != 0 ? c->lm->n_embd / heads : 0;
    vr_t q = vr_lm_qkv_mm(c, il, "attn_q", x), k = vr_lm_qkv_mm(c, il, "attn_k", x);
    vr_t v = vr_lm_qkv_mm(c, il, "attn_v", x);
    vr_lm_qkv a = { vr_gg_reshape_3d(g, q, head, heads, c->n_tokens),
                    vr_gg_reshape_3d(g, k, head, heads, c->n_tokens),
                    vr_gg_reshape_3d(g, v, head, heads, c->n_tokens) };
    a.q = vr_lm_rope(c, a.q, NULL);
    a.k = vr_lm_rope(c, a.k, NULL);
    return vr_lm_attend(c, a, il);
}

void vr_lm_build_deepseek2_ocr(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    uint64_t dense = vr_lm_number(c->lm, "leading_dense_block_count", 0);
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_gate_fn gating = vr_lm_gating_of(c->lm, VR_LM_SOFTMAX);
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = ocr_attend(c, vr_lm_rms(c, cur, il, "attn_norm"), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = vr_lm_rms(c, residual, il, "ffn_norm");
        cur = (uint64_t)il < dense ? vr_lm_bare_ffn(c, cur, il, "", VR_LM_SILU, VR_LM_FFN_PAR)
                                   : experts(c, cur, il, norm_w, gating);
        cur = vr_gg_add(g, cur, residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- minicpm3: latent queries, whole keys and values ---- */

static vr_t minicpm_attend(vr_lm_graph *c, const vr_lm_mla *m, vr_t x, int il)
{
    vr_t factors = vr_lm_rope_factors(c, il);
    vr_t q = vr_lm_rms(c, vr_lm_bare_mm(c, il, "attn_q_a", x), il, "attn_q_a_norm");
    vr_lm_halves h = vr_lm_mla_halves(c, m, vr_lm_bare_mm(c, il, "attn_q_b", q), x, il, false);
    if (m->whole_q)
        h.q = vr_lm_rope(c, h.q, factors);
    else
        h.q_pe = vr_lm_rope(c, h.q_pe, factors);
    h.k_pe = vr_lm_rope(c, h.k_pe, factors);
    return vr_lm_attend(c, vr_lm_mla_whole(c, m, &h, il), il);
}

void vr_lm_build_minicpm3(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_lm_mla m;
    if (!vr_lm_mla_of(c, &m))
        return;
    m.whole_q = c->plan->rules.rope_part != 0;
    vr_t cur = vr_gg_scale(g, vr_lm_inp_embd(c));
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = minicpm_attend(c, &m, vr_lm_rms(c, cur, il, "attn_norm"), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, vr_gg_scale(g, cur), residual);
        cur = vr_lm_bare_ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il, "", VR_LM_SILU, VR_LM_FFN_PAR);
        cur = vr_gg_add(g, vr_gg_scale(g, cur), residual);
    }
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    vr_lm_logits(c, vr_lm_head_mm(c, vr_gg_scale(g, cur)));
}
