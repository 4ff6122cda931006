/* SPDX-License-Identifier: MIT
 * Arctic and Grok: experts beside a dense FFN.
 *
 * Source: llama.cpp b10470, src/models/arctic.cpp, grok.cpp. */
#include "llama/archs_more.h"
#include "llama/arch.h"

static vr_lm_qkv turned(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    x.q = vr_lm_rope(c, x.q, NULL);
    x.k = vr_lm_rope(c, x.k, NULL);
    return x;
}

static vr_t experts(vr_lm_graph *c, vr_t cur, int il, vr_lm_act act)
{
    vr_lm_moe m = vr_lm_bare_moe(c, il, act, true, VR_LM_SOFTMAX);
    m.probs_b = m.gate_up = NULL;
    return vr_lm_build_moe(c, cur, &m);
}

/* ---- arctic ---- */

static vr_t arctic_layer(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_attend(c, turned(c, vr_lm_rms(c, x, il, "attn_norm"), il), il);
    vr_lm_select_rows(c, il, &cur, &x);
    vr_t residual = vr_gg_add(g, cur, x);
    cur = vr_lm_rms(c, residual, il, "ffn_norm");
    vr_t out = vr_gg_add(g, vr_lm_bare_ffn(c, cur, il, "", VR_LM_SILU, VR_LM_FFN_PAR), residual);
    return vr_gg_add(g, experts(c, vr_lm_rms(c, x, il, "ffn_norm_exps"), il, VR_LM_SILU), out);
}

void vr_lm_build_arctic(vr_lm_graph *c)
{
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = arctic_layer(c, cur, il);
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- grok ---- */

static vr_t grok_ffn(vr_lm_graph *c, vr_t cur, int il)
{
    vr_t out = experts(c, cur, il, VR_LM_GELU);
    if (!vr_lm_opt(c, il, "ffn_up.weight"))
        return out;
    vr_t dense = vr_lm_bare_ffn(c, cur, il, "", VR_LM_GELU, VR_LM_FFN_PAR);
    return vr_gg_scale(c->g, vr_gg_add(c->g, dense, out));
}

static vr_t grok_layer(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_attn_of(c, turned(c, vr_lm_rms(c, x, il, "attn_norm"), il), il);
    vr_lm_select_rows(c, il, &cur, &x);
    vr_t residual = vr_gg_add(g, vr_lm_rms(c, cur, il, "attn_output_norm"), x);
    cur = grok_ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il);
    const char *after = vr_lm_opt(c, il, "layer_output_norm.weight") ? "layer_output_norm" : "post_ffw_norm";
    return vr_gg_add(g, vr_lm_rms(c, cur, il, after), residual);
}

void vr_lm_build_grok(vr_lm_graph *c)
{
    double scale;
    c->score_scaled = true;
    c->embedding_scaled = !vr_lm_float(c->lm, "embedding_scale", &scale) || scale < 0 || scale > 0;
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = grok_layer(c, cur, il);
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    cur = vr_gg_scale(c->g, vr_lm_head_mm(c, cur));
    vr_lm_logits(c, vr_lm_nonzero(c, "final_logit_softcapping") ? vr_lm_logit_cap(c, cur) : cur);
}
