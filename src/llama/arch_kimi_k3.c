/* SPDX-License-Identifier: MIT
 * Kimi K3: delta nets and latent attention as in Kimi Linear, what goes into a layer mixed from what went
 * into earlier ones, and experts in a narrower space.
 *
 * Source: llama.cpp b10470, src/models/kimi-k3.cpp. */
#include "llama/archs_more.h"
#include "llama/mla.h"

/* ---- what earlier layers were given ---- */

static vr_t bank(vr_lm_graph *c, vr_t stack, vr_t x)
{
    vr_t one = vr_gg_reshape_3d(c->g, x, c->lm->n_embd, 1, c->n_tokens);
    return stack != NULL ? vr_gg_concat(c->g, stack, one, 1) : one;
}

static vr_t scores(vr_lm_graph *c, vr_t x, vr_t by)
{
    return vr_gg_sum_rows(c->g, vr_gg_mul(c->g, vr_gg_rms_norm(c->g, x), by));
}

static vr_t mixed(vr_lm_graph *c, vr_t stack, vr_t x, vr_t by)
{
    vr_gg *g = c->g;
    if (stack == NULL)
        return x;
    uint64_t n = stack->ne[1];
    vr_t banked = vr_gg_reshape_2d(g, scores(c, stack, by), n, c->n_tokens);
    vr_t probs = vr_gg_soft_max(g, vr_gg_concat(g, banked, scores(c, x, by), 0));
    vr_t of_stack = vr_gg_cont(g, vr_gg_view_2d(g, probs, n, c->n_tokens, probs->nb[1], 0));
    vr_t of_x =
        vr_gg_cont(g, vr_gg_view_2d(g, probs, 1, c->n_tokens, probs->nb[1], vr_mul_sat(probs->nb[0], n)));
    return vr_gg_add(g, vr_gg_dsv4_hc_pre(g, stack, of_stack), vr_gg_mul(g, x, of_x));
}

/* ---- layers ---- */

static vr_t query(vr_lm_graph *c, vr_t x, int il)
{
    if (!vr_lm_opt(c, il, "attn_q_a_norm.weight"))
        return vr_lm_bare_mm(c, il, "attn_q", x);
    x = vr_lm_rms(c, vr_lm_bare_mm(c, il, "attn_q_a", x), il, "attn_q_a_norm");
    return vr_lm_bare_mm(c, il, "attn_q_b", x);
}

static vr_t attention(vr_lm_graph *c, const vr_lm_mla *m, vr_t x, int il)
{
    vr_gg *g = c->g;
    if (vr_lm_opt(c, il, "attn_kv_b.weight"))
        vr_lm_broken(c, "llama.cpp keeps only the latent of such a file and asks for whole keys");
    vr_lm_halves h = vr_lm_mla_halves(c, m, query(c, x, il), x, il, false);
    vr_lm_attention a = vr_lm_mla_absorbed(c, m, &h, il);
    a.wo = a.wo_s = NULL;
    vr_t out = vr_lm_build_attn(c, &a, il);
    if (vr_lm_opt(c, il, "attn_gate.weight"))
        out = vr_gg_mul(g, out, vr_gg_unary_of(g, vr_lm_bare_mm(c, il, "attn_gate", x), VR_GG_SIGMOID));
    return vr_lm_bare_mm(c, il, "attn_output", out);
}

static vr_t experts(vr_lm_graph *c, vr_t x, int il)
{
    vr_t in = vr_lm_opt(c, il, "ffn_routed_down.weight") ? vr_lm_bare_mm(c, il, "ffn_routed_down", x) : x;
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SITU, norm_w, vr_lm_gating_of(c->lm, VR_LM_SOFTMAX));
    m.gate_up = NULL;
    m.probs_in = vr_gg_mul_mat(c->g, m.gate_inp, x);
    vr_t out = vr_lm_build_moe(c, in, &m);
    if (vr_lm_opt(c, il, "ffn_routed_norm.weight"))
        out = vr_lm_rms(c, out, il, "ffn_routed_norm");
    if (vr_lm_opt(c, il, "ffn_routed_up.weight"))
        out = vr_lm_bare_mm(c, il, "ffn_routed_up", out);
    if (!vr_lm_opt(c, il, "ffn_gate_shexp.weight"))
        return out;
    return vr_gg_add(c->g, out, vr_lm_bare_ffn(c, x, il, "_shexp", VR_LM_SITU, VR_LM_FFN_PAR));
}

/* x is what went into the layer; returned is what goes into the next. */
static vr_t layer(vr_lm_graph *c, const vr_lm_mla *m, vr_t *stack, uint64_t each, vr_t x, int il)
{
    vr_gg *g = c->g;
    bool banks = each > 0 && (uint64_t)il % each == 0, dense;
    vr_t cur = each > 0 ? mixed(c, *stack, x, vr_lm_w(c, il, "attn_res_score.weight")) : x;
    if (banks)
        *stack = bank(c, *stack, x);
    cur = vr_lm_rms(c, cur, il, "attn_norm");
    vr_gg_build_forward_expand(g, cur);
    cur = c->lm->layers[il].recurrent ? vr_lm_kda_layer(c, cur, il, true) : attention(c, m, cur, il);
    x = banks ? cur : vr_gg_add(g, x, cur);
    cur = each > 0 ? mixed(c, *stack, x, vr_lm_w(c, il, "ffn_res_score.weight")) : x;
    cur = vr_lm_rms(c, cur, il, "ffn_norm");
    dense = (uint64_t)il < vr_lm_number(c->lm, "leading_dense_block_count", 0);
    cur = dense ? vr_lm_bare_ffn(c, cur, il, "", VR_LM_SITU, VR_LM_FFN_PAR) : experts(c, cur, il);
    return vr_gg_add(g, x, cur);
}

void vr_lm_build_kimi_k3(vr_lm_graph *c)
{
    uint64_t each = vr_lm_number(c->lm, "attn_res.block_size", 0);
    vr_lm_mla m;
    if (!vr_lm_mla_of(c, &m))
        return;
    vr_t cur = vr_lm_inp_embd(c), stack = NULL;
    vr_lm_rs_inp(c);
    vr_lm_inp_attn_k(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = layer(c, &m, &stack, each, cur, il);
    if (each > 0)
        cur = mixed(c, stack, cur, vr_lm_outside(c, "output_res_score.weight"));
    cur = vr_gg_get_rows(c->g, cur, vr_lm_inp_out_ids(c));
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    vr_lm_logits(c, vr_gg_mul_mat(c->g, vr_lm_head(c), cur));
}
