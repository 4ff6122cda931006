/* SPDX-License-Identifier: MIT
 * Decoders with experts and windows, each with its own attention.
 *
 * Source: llama.cpp b10470, src/models/mellum.cpp, hy-v3.cpp, mimo2.cpp, step35.cpp, laguna.cpp,
 * smallthinker.cpp, cohere2moe.cpp. */
#include "llama/arch.h"
#include "llama/archs_more.h"
#include "llama/predicted.h"

typedef vr_t (*block)(vr_lm_graph *c, vr_t x, int il);
/* Where rows of which nothing is wanted are left out: in the last layer, behind the last norm, before it. */
typedef enum leave { IN_LAST_LAYER, BEHIND_NORM, BEFORE_NORM } leave;

static void finish(vr_lm_graph *c, vr_t cur, leave at)
{
    if (at == BEHIND_NORM) {
        vr_lm_finish_wanted(c, cur);
        return;
    }
    if (at == BEFORE_NORM) {
        vr_gg_set_output(cur);
        cur = vr_gg_get_rows(c->g, cur, vr_lm_inp_out_ids(c));
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

static void build(vr_lm_graph *c, block attention, block ffn, leave at)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_inp_embd(c);
    at = at == IN_LAST_LAYER && c->hands_on ? BEFORE_NORM : at;
    vr_lm_inp_attn(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = attention(c, vr_lm_rms(c, cur, il, "attn_norm"), il);
        if (at == IN_LAST_LAYER)
            vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = vr_gg_add(g, ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il), residual);
    }
    finish(c, cur, at);
}

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

/* ---- mellum ---- */

static vr_t mellum_attention(vr_lm_graph *c, vr_t x, int il)
{
    vr_lm_qkv qkv = heads_normed(c, vr_lm_qkv_of(c, x, il), il);
    return vr_lm_attn_of(c, turned(c, qkv, NULL), il);
}

static vr_t mellum_ffn(vr_lm_graph *c, vr_t x, int il)
{
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, true, VR_LM_SOFTMAX);
    m.gate_inp_b = m.up_b = m.gate_b = m.down_b = m.probs_b = m.gate_up = m.gate_up_b = NULL;
    return vr_lm_build_moe(c, x, &m);
}

void vr_lm_build_mellum(vr_lm_graph *c)
{
    build(c, mellum_attention, mellum_ffn, IN_LAST_LAYER);
}

/* ---- hy_v3 ---- */

static vr_t hy_attention(vr_lm_graph *c, vr_t x, int il)
{
    vr_t factors = vr_lm_rope_factors(c, il);
    vr_lm_qkv qkv = heads_normed(c, vr_lm_qkv_of(c, x, il), il);
    return vr_lm_attn_of(c, turned(c, qkv, factors), il);
}

static vr_t hy_ffn(vr_lm_graph *c, vr_t x, int il)
{
    if (!vr_lm_opt(c, il, "ffn_gate_inp.weight"))
        return vr_lm_ffn_simple(c, x, il, VR_LM_SILU, VR_LM_FFN_PAR);
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, norm_w, vr_lm_gating_of(c->lm, VR_LM_SIGMOID));
    m.gate_inp_b = m.up_b = m.gate_b = m.down_b = m.gate_up_b = NULL;
    m.probs_b = vr_lm_opt(c, il, "exp_probs_b"); /* without ".bias" in these files */
    vr_t out = vr_lm_build_moe(c, x, &m);
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR);
    f.up_b = f.gate_b = f.down_b = NULL;
    return vr_gg_add(c->g, out, vr_lm_build_ffn(c, x, &f));
}

void vr_lm_build_hy_v3(vr_lm_graph *c)
{
    build(c, hy_attention, hy_ffn, BEHIND_NORM);
}

void vr_lm_predict_hy_v3(vr_lm_graph *c)
{
    vr_lm_inp_attn_kv(c);
    vr_lm_predicted(c, hy_attention, hy_ffn, VR_LM_WANTED_BEHIND_NORM);
}

/* ---- mimo2 and step35: heads of keys and values differ in width ---- */

typedef vr_t (*project)(vr_lm_graph *c, int il, const char *name, vr_t x);

static vr_lm_qkv widths_apart(vr_lm_graph *c, vr_t x, int il, project by)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_t q = by(c, il, "attn_q", x), k = by(c, il, "attn_k", x);
    vr_t v = by(c, il, "attn_v", x);
    return (vr_lm_qkv){ vr_gg_reshape_3d(g, q, l->head_k, l->n_head, c->n_tokens),
                        vr_gg_reshape_3d(g, k, l->head_k, l->n_head_kv, c->n_tokens),
                        vr_gg_reshape_3d(g, v, l->head_v, l->n_head_kv, c->n_tokens) };
}

static vr_lm_qkv widths_joint(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_t all = vr_lm_bare_mm(c, il, "attn_qkv", x);
    uint64_t k = vr_gg_row_size(all->type, l->head_k), v = vr_gg_row_size(all->type, l->head_v);
    uint64_t k_at = vr_mul_sat(k, l->n_head), v_at = vr_add_sat(k_at, vr_mul_sat(k, l->n_head_kv));
    return (vr_lm_qkv){
        vr_gg_view_3d(g, all, l->head_k, l->n_head, c->n_tokens, k, all->nb[1], 0),
        vr_gg_view_3d(g, all, l->head_k, l->n_head_kv, c->n_tokens, k, all->nb[1], k_at),
        vr_gg_view_3d(g, all, l->head_v, l->n_head_kv, c->n_tokens, v, all->nb[1], v_at),
    };
}

static bool scales_values(const vr_lm_graph *c)
{
    double scale;
    return vr_lm_float(c->lm, "attention.value_scale", &scale) && (scale < 0 || scale > 0) &&
           (scale < 1 || scale > 1);
}

static vr_t mimo_attention(vr_lm_graph *c, vr_t x, int il)
{
    bool joint = vr_lm_opt(c, il, "attn_qkv.weight") != NULL;
    vr_lm_qkv qkv = turned(c, joint ? widths_joint(c, x, il) : widths_apart(c, x, il, vr_lm_bare_mm), NULL);
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                          .sinks = vr_lm_opt(c, il, "attn_sinks.weight"),
                          .q = qkv.q,
                          .k = qkv.k,
                          .v = qkv.v };
    vr_t out = vr_lm_build_attn(c, &a, il);
    return scales_values(c) ? vr_gg_scale(c->g, out) : out;
}

static vr_t biased_ffn(vr_lm_graph *c, vr_t x, int il)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    f.up_s = f.gate_s = f.down_s = NULL;
    return vr_lm_build_ffn(c, x, &f);
}

static vr_t mimo_ffn(vr_lm_graph *c, vr_t x, int il)
{
    if (!vr_lm_opt(c, il, "ffn_gate_inp.weight"))
        return biased_ffn(c, x, il);
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, true, VR_LM_SIGMOID);
    m.gate_up = NULL;
    return vr_lm_build_moe(c, x, &m);
}

void vr_lm_build_mimo2(vr_lm_graph *c)
{
    build(c, mimo_attention, mimo_ffn, IN_LAST_LAYER);
}

void vr_lm_predict_mimo2(vr_lm_graph *c)
{
    if (!vr_lm_opt(c, (int)c->lm->n_layer, "attn_qkv.weight"))
        vr_lm_broken(c, "llama.cpp stops: layers that predict need attn_qkv in one matrix");
    if (vr_lm_stopped(c))
        return;
    vr_lm_inp_attn_iswa(c);
    vr_lm_predicted(c, mimo_attention, biased_ffn, VR_LM_WANTED_BEFORE_NORM);
}

/* One gate for each head. */
static vr_t gated_by_head(vr_lm_graph *c, vr_t out, vr_t gate, uint64_t head, uint64_t heads)
{
    vr_gg *g = c->g;
    out = vr_gg_reshape_3d(g, out, head, heads, c->n_tokens);
    gate = vr_gg_reshape_3d(g, gate, 1, heads, c->n_tokens);
    return vr_gg_reshape_2d(g, vr_gg_mul(g, out, gate), vr_mul_sat(head, heads), c->n_tokens);
}

static vr_t step_attention(vr_lm_graph *c, vr_t x, int il)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_lm_qkv qkv = widths_apart(c, x, il, vr_lm_qkv_mm);
    if (vr_lm_opt(c, il, "attn_q_norm.weight"))
        qkv.q = vr_lm_rms(c, qkv.q, il, "attn_q_norm");
    if (vr_lm_opt(c, il, "attn_k_norm.weight"))
        qkv.k = vr_lm_rms(c, qkv.k, il, "attn_k_norm");
    qkv = turned(c, qkv, l->swa ? NULL : vr_lm_rope_factors(c, il));
    vr_lm_attention a = { .q = qkv.q, .k = qkv.k, .v = qkv.v };
    vr_t out = vr_lm_build_attn(c, &a, il);
    if (vr_lm_opt(c, il, "attn_gate.weight")) {
        vr_t gate = vr_gg_unary_of(c->g, vr_lm_bare_mm(c, il, "attn_gate", x), VR_GG_SIGMOID);
        out = gated_by_head(c, out, gate, l->head_v, l->n_head);
    }
    return vr_lm_scaled_mm(c, il, "attn_output", out);
}

/* The limit of the shared expert holds for dense layers too. */
static vr_t step_dense(vr_lm_graph *c, vr_t x, int il, const char *suffix)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, suffix, VR_LM_SILU, VR_LM_FFN_PAR);
    f.up_s = f.gate_s = f.down_s = NULL;
    if (suffix[0] != '\0')
        f.up_b = f.gate_b = f.down_b = NULL;
    f.clamped = vr_lm_limited(c, "swiglu_clamp_shexp", il);
    return vr_lm_build_ffn(c, x, &f);
}

static vr_t step_ffn(vr_lm_graph *c, vr_t x, int il)
{
    if (!vr_lm_opt(c, il, "ffn_gate_inp.weight"))
        return step_dense(c, x, il, "");
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, norm_w, vr_lm_gating_of(c->lm, VR_LM_SIGMOID));
    m.gate_up = NULL;
    m.clamped = vr_lm_limited(c, "swiglu_clamp_exp", il);
    vr_t out = vr_lm_build_moe(c, x, &m);
    return vr_gg_add(c->g, out, step_dense(c, x, il, "_shexp"));
}

void vr_lm_build_step35(vr_lm_graph *c)
{
    build(c, step_attention, step_ffn, BEFORE_NORM);
}

void vr_lm_predict_step35(vr_lm_graph *c)
{
    vr_lm_inp_attn_iswa(c);
    vr_lm_predicted(c, step_attention, step_ffn, VR_LM_WANTED_BEFORE_NORM);
}

/* ---- laguna ---- */

static vr_t laguna_attention(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_lm_qkv qkv = vr_lm_qkv_of(c, x, il);
    vr_t gate = vr_lm_bare_mm(c, il, "attn_gate", x);
    qkv = turned(c, heads_normed(c, qkv, il), NULL);
    vr_lm_attention a = { .q = qkv.q, .k = qkv.k, .v = qkv.v };
    vr_t out = vr_lm_build_attn(c, &a, il);
    gate = vr_gg_unary_of(g, gate, VR_GG_SOFTPLUS);
    out = gate->ne[0] == l->n_head ? gated_by_head(c, out, gate, l->head_v, l->n_head)
                                   : vr_gg_mul(g, out, gate);
    return vr_lm_scaled_mm(c, il, "attn_output", out);
}

static vr_t laguna_ffn(vr_lm_graph *c, vr_t x, int il)
{
    if ((uint64_t)il < vr_lm_number(c->lm, "leading_dense_block_count", 0))
        return vr_lm_bare_ffn(c, x, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, norm_w, vr_lm_gating_of(c->lm, VR_LM_SIGMOID));
    m.gate_up = NULL;
    vr_t out = vr_lm_build_moe(c, x, &m);
    return vr_gg_add(c->g, out, vr_lm_bare_ffn(c, x, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR));
}

void vr_lm_build_laguna(vr_lm_graph *c)
{
    build(c, laguna_attention, laguna_ffn, IN_LAST_LAYER);
}

/* ---- smallthinker: experts are chosen before attention ---- */

static vr_t small_layer(vr_lm_graph *c, vr_t x, int il, uint64_t step)
{
    vr_gg *g = c->g;
    vr_t probs = vr_lm_bare_mm(c, il, "ffn_gate_inp", x);
    vr_lm_qkv qkv = vr_lm_qkv_of(c, vr_lm_rms(c, x, il, "attn_norm"), il);
    if (step == c->lm->n_layer || (uint64_t)il % step != 0)
        qkv = turned(c, qkv, NULL);
    vr_t cur = vr_lm_attn_of(c, qkv, il);
    vr_lm_select_rows(c, il, &cur, &x);
    vr_lm_select_rows(c, il, &probs, NULL);
    x = vr_gg_add(g, cur, x);
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_RELU, true, vr_lm_gating_of(c->lm, VR_LM_SOFTMAX));
    m.gate_up = m.probs_b = m.gate_inp = NULL;
    m.probs_in = probs;
    return vr_gg_add(g, vr_lm_build_moe(c, vr_lm_rms(c, x, il, "ffn_norm"), &m), x);
}

void vr_lm_build_smallthinker(vr_lm_graph *c)
{
    uint64_t step = c->lm->n_swa > 0 ? 4 : c->lm->n_layer; /* hparams.n_no_rope_layer_step */
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = small_layer(c, cur, il, step);
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- cohere2moe: attention and experts beside one another ---- */

static vr_t cohere_ffn(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    bool moe = vr_lm_opt(c, il, "ffn_gate_inp.weight") != NULL, norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_ffn f = vr_lm_ffn_of(c, il, moe ? "_shexp" : "", VR_LM_SILU, VR_LM_FFN_PAR);
    f.up_b = f.gate_b = f.down_b = NULL;
    if (!moe)
        return vr_lm_build_ffn(c, x, &f);
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, norm_w, vr_lm_gating_of(c->lm, VR_LM_SIGMOID));
    m.gate_inp_b = m.up_b = m.gate_b = m.down_b = m.probs_b = m.gate_up_b = NULL;
    vr_t out = vr_lm_build_moe(c, x, &m);
    if (!vr_lm_opt(c, il, "ffn_up_shexp.weight"))
        return out;
    return vr_gg_scale(g, vr_gg_add(g, out, vr_lm_build_ffn(c, x, &f)));
}

static vr_t cohere_layer(vr_lm_graph *c, vr_t x, int il, vr_lm_norm norm, uint64_t dense)
{
    vr_gg *g = c->g;
    vr_t normed = vr_lm_build_norm(c, x, vr_lm_w(c, il, "attn_norm.weight"), NULL, norm, il);
    vr_lm_qkv qkv = vr_lm_qkv_of(c, normed, il);
    if (c->lm->layers[il].swa || (uint64_t)il < dense)
        qkv = turned(c, qkv, vr_lm_rope_factors(c, il));
    vr_t attended = vr_lm_attn_of(c, qkv, il);
    return vr_gg_add(g, vr_gg_add(g, cohere_ffn(c, normed, il), x), attended);
}

void vr_lm_build_cohere2moe(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    uint64_t dense = vr_lm_number(c->lm, "leading_dense_block_count", 0);
    bool rms = vr_lm_nonzero(c, "attention.layer_norm_rms_epsilon");
    vr_lm_norm norm = rms ? VR_LM_NORM_RMS : VR_LM_NORM;
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_iswa(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = cohere_layer(c, cur, il, norm, dense);
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, norm, -1);
    vr_gg_set_output(cur); /* what a draft head would start from */
    cur = vr_gg_get_rows(g, cur, vr_lm_inp_out_ids(c));
    vr_lm_embd(c, cur);
    cur = vr_gg_mul_mat(g, vr_lm_head(c), cur);
    vr_lm_logits(c, vr_lm_nonzero(c, "logit_scale") ? vr_gg_scale(g, cur) : cur);
}

/* Turned whether the layer slides or not. */
void vr_lm_predict_cohere2moe(vr_lm_graph *c)
{
    int il = (int)c->lm->n_layer;
    vr_lm_inp_attn_iswa(c);
    vr_t cur = vr_lm_predicted_begin(c);
    cur = cohere_layer(c, cur, il, vr_lm_predicted_norm(c), UINT64_MAX);
    vr_lm_predicted_end(c, cur, VR_LM_WANTED_BEHIND_NORM);
}
