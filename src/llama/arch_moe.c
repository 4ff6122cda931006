/* SPDX-License-Identifier: MIT
 * Decoders with experts that differ in few things: a row of a table each.
 *
 * Source: llama.cpp b10470, src/models/minimax-m2.cpp, bailingmoe.cpp, bailingmoe2.cpp, dots1.cpp,
 * hunyuan-moe.cpp, ernie4-5-moe.cpp, deepseek.cpp, phi3.cpp (phimoe), dbrx.cpp. */
#include "llama/arch.h"

/* Whether queries and keys are normed: not, all heads in one, each before or after it is turned. */
typedef enum qk_norm { QK_NONE, QK_WHOLE, QK_HEAD, QK_TURNED } qk_norm;
/* Yes, no, or as the file says. */
typedef enum answer { NO, YES, FILE_SAYS } answer;

typedef struct style {
    const char *second; /* the norm in front of the experts */
    vr_lm_norm norm;
    qk_norm qk;
    bool factors;  /* rope factors of the file */
    bool o_bias;   /* attn_output.bias is read */
    bool scaled_q; /* queries are scaled before attention */
    bool probs_b;  /* experts are chosen with a bias */
    answer norm_w; /* weights of the chosen add up to 1 */
    vr_lm_gate_fn gating;
    answer gating_of; /* FILE_SAYS: expert_gating_func */
    answer shared;    /* there is a shared expert; FILE_SAYS: where its width is not 0 */
    bool dense;       /* the first layers have none, and where there is a step, those between */
} style;

static vr_lm_qkv whole_normed(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_t q = vr_lm_bare_mm(c, il, "attn_q", cur), k = vr_lm_bare_mm(c, il, "attn_k", cur);
    vr_t v = vr_lm_bare_mm(c, il, "attn_v", cur);
    q = vr_lm_rms(c, q, il, "attn_q_norm");
    k = vr_lm_rms(c, k, il, "attn_k_norm");
    return (vr_lm_qkv){ vr_gg_reshape_3d(g, q, l->head_v, l->n_head, c->n_tokens),
                        vr_gg_reshape_3d(g, k, l->head_v, l->n_head_kv, c->n_tokens),
                        vr_gg_reshape_3d(g, v, l->head_v, l->n_head_kv, c->n_tokens) };
}

static vr_t attention(vr_lm_graph *c, const style *s, vr_t cur, int il)
{
    vr_lm_qkv x = s->qk == QK_WHOLE ? whole_normed(c, cur, il) : vr_lm_qkv_of(c, cur, il);
    vr_t factors = s->factors ? vr_lm_rope_factors(c, il) : NULL;
    if (s->qk == QK_HEAD) {
        x.q = vr_lm_rms(c, x.q, il, "attn_q_norm");
        x.k = vr_lm_rms(c, x.k, il, "attn_k_norm");
    }
    x.q = vr_lm_rope(c, x.q, factors);
    x.k = vr_lm_rope(c, x.k, factors);
    if (s->qk == QK_TURNED) {
        x.k = vr_lm_rms(c, x.k, il, "attn_k_norm");
        x.q = vr_lm_rms(c, x.q, il, "attn_q_norm");
    }
    if (s->scaled_q)
        x.q = vr_gg_scale(c->g, x.q);
    return s->o_bias ? vr_lm_attn_of(c, x, il) : vr_lm_attend(c, x, il);
}

static bool has_shared(vr_lm_graph *c, const style *s)
{
    if (s->shared == FILE_SAYS)
        return vr_lm_number(c->lm, "expert_shared_feed_forward_length", 0) != 0;
    return s->shared == YES;
}

static vr_t experts(vr_lm_graph *c, const style *s, vr_t cur, int il)
{
    bool norm_w = s->norm_w == FILE_SAYS ? vr_lm_flag(c, "expert_weights_norm") : s->norm_w == YES;
    vr_lm_gate_fn gating = s->gating_of == FILE_SAYS ? vr_lm_gating_of(c->lm, s->gating) : s->gating;
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, norm_w, gating);
    m.gate_up = NULL;
    if (!s->probs_b)
        m.probs_b = NULL;
    vr_t out = vr_lm_build_moe(c, cur, &m);
    if (!has_shared(c, s))
        return out;
    return vr_gg_add(c->g, out, vr_lm_bare_ffn(c, cur, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR));
}

static bool is_dense(vr_lm_graph *c, const style *s, int il)
{
    uint64_t step = vr_lm_number(c->lm, "interleave_moe_layer_step", 1);
    return s->dense && ((uint64_t)il < vr_lm_number(c->lm, "leading_dense_block_count", 0) || step == 0 ||
                        ((uint64_t)il + 1) % step != 0);
}

static void build(vr_lm_graph *c, const style *s)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = attention(c, s, vr_lm_norm_of(c, cur, il, "attn_norm", s->norm), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = vr_lm_norm_of(c, residual, il, s->second, s->norm);
        cur = is_dense(c, s, il) ? vr_lm_bare_ffn(c, cur, il, "", VR_LM_SILU, VR_LM_FFN_PAR)
                                 : experts(c, s, cur, il);
        cur = vr_gg_add(g, cur, residual);
    }
    vr_lm_finish(c, cur, s->norm);
}

void vr_lm_build_minimax_m2(vr_lm_graph *c)
{
    build(c, &(style){ .second = "ffn_norm",
                       .norm = VR_LM_NORM_RMS,
                       .qk = QK_WHOLE,
                       .probs_b = true,
                       .norm_w = YES,
                       .gating_of = FILE_SAYS });
}

void vr_lm_build_bailingmoe2(vr_lm_graph *c)
{
    build(c, &(style){ .second = "ffn_norm",
                       .norm = VR_LM_NORM_RMS,
                       .qk = QK_HEAD,
                       .o_bias = true,
                       .probs_b = true,
                       .norm_w = FILE_SAYS,
                       .gating_of = FILE_SAYS,
                       .shared = YES,
                       .dense = true });
}

void vr_lm_build_dots1(vr_lm_graph *c)
{
    vr_lm_build_bailingmoe2(c);
}

void vr_lm_build_bailingmoe(vr_lm_graph *c)
{
    build(c, &(style){ .second = "ffn_norm",
                       .norm = VR_LM_NORM_RMS,
                       .factors = true,
                       .o_bias = true,
                       .norm_w = FILE_SAYS,
                       .shared = YES });
}

void vr_lm_build_deepseek(vr_lm_graph *c)
{
    build(c, &(style){ .second = "ffn_norm",
                       .norm = VR_LM_NORM_RMS,
                       .factors = true,
                       .o_bias = true,
                       .shared = YES,
                       .dense = true });
}

void vr_lm_build_ernie4_5_moe(vr_lm_graph *c)
{
    build(c, &(style){ .second = "ffn_norm",
                       .norm = VR_LM_NORM_RMS,
                       .probs_b = true,
                       .norm_w = YES,
                       .shared = FILE_SAYS,
                       .dense = true });
}

void vr_lm_build_phimoe(vr_lm_graph *c)
{
    build(c, &(style){ .second = "ffn_norm",
                       .norm = VR_LM_NORM_RMS,
                       .factors = true,
                       .o_bias = true,
                       .scaled_q = true,
                       .norm_w = YES });
}

void vr_lm_build_dbrx(vr_lm_graph *c)
{
    build(c, &(style){ .second = "attn_output_norm", .norm = VR_LM_NORM, .norm_w = YES });
}

/* ---- hunyuan-moe: the shared expert comes first ---- */

static vr_t hunyuan_ffn(vr_lm_graph *c, vr_t cur, int il)
{
    vr_t shared = vr_lm_bare_ffn(c, cur, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR);
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, true, VR_LM_SOFTMAX);
    m.probs_b = m.gate_up = NULL;
    return vr_gg_add(c->g, vr_lm_build_moe(c, cur, &m), shared);
}

void vr_lm_build_hunyuan_moe(vr_lm_graph *c)
{
    static const style s = { .qk = QK_TURNED, .factors = true, .o_bias = true };
    vr_gg *g = c->g;
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = attention(c, &s, vr_lm_rms(c, cur, il, "attn_norm"), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = vr_gg_add(g, hunyuan_ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il), residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- arctic: experts beside attention and a dense FFN ---- */

static vr_t arctic_layer(vr_lm_graph *c, const style *s, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t cur = attention(c, s, vr_lm_rms(c, x, il, "attn_norm"), il);
    vr_lm_select_rows(c, il, &cur, &x);
    vr_t residual = vr_gg_add(g, cur, x);
    cur = vr_lm_rms(c, residual, il, "ffn_norm");
    vr_t out = vr_gg_add(g, vr_lm_bare_ffn(c, cur, il, "", VR_LM_SILU, VR_LM_FFN_PAR), residual);
    return vr_gg_add(g, experts(c, s, vr_lm_rms(c, x, il, "ffn_norm_exps"), il), out);
}

void vr_lm_build_arctic(vr_lm_graph *c)
{
    static const style s = { .norm_w = YES };
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = arctic_layer(c, &s, cur, il);
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- grok ---- */

static vr_t grok_ffn(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_GELU, true, VR_LM_SOFTMAX);
    m.probs_b = m.gate_up = NULL;
    vr_t out = vr_lm_build_moe(c, cur, &m);
    if (!vr_lm_opt(c, il, "ffn_up.weight"))
        return out;
    vr_t dense = vr_lm_bare_ffn(c, cur, il, "", VR_LM_GELU, VR_LM_FFN_PAR);
    return vr_gg_scale(g, vr_gg_add(g, dense, out));
}

static vr_t grok_layer(vr_lm_graph *c, const style *s, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t cur = attention(c, s, vr_lm_rms(c, x, il, "attn_norm"), il);
    vr_lm_select_rows(c, il, &cur, &x);
    vr_t residual = vr_gg_add(g, vr_lm_rms(c, cur, il, "attn_output_norm"), x);
    cur = grok_ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il);
    const char *after = vr_lm_opt(c, il, "layer_output_norm.weight") ? "layer_output_norm" : "post_ffw_norm";
    return vr_gg_add(g, vr_lm_rms(c, cur, il, after), residual);
}

void vr_lm_build_grok(vr_lm_graph *c)
{
    static const style s = { .o_bias = true };
    c->score_scaled = true;
    double scale;
    c->embedding_scaled = !vr_lm_float(c->lm, "embedding_scale", &scale) || scale != 0;
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = grok_layer(c, &s, cur, il);
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    cur = vr_gg_scale(c->g, vr_lm_head_mm(c, cur));
    vr_lm_logits(c, vr_lm_nonzero(c, "final_logit_softcapping") ? vr_lm_logit_cap(c, cur) : cur);
}
