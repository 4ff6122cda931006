/* SPDX-License-Identifier: MIT
 * Gemma 3n and Gemma 4: an embedding for each layer, caches that later layers use, experts beside an FFN.
 *
 * Source: llama.cpp b10470, src/models/gemma3n.cpp, gemma4.cpp. */
#include "llama/archs_more.h"
#include "llama/arch.h"

/* The i-th of the matrices that lie behind one another. */
static vr_t slice(vr_lm_graph *c, vr_t x, uint64_t i)
{
    if (i >= x->ne[2]) {
        vr_lm_broken(c, "a layer has no embedding of its own");
        return x;
    }
    uint64_t e = x->nb[0];
    return vr_gg_view_2d(c->g, x, x->ne[0], x->ne[1], vr_mul_sat(x->ne[0], e),
                         vr_mul_sat(vr_mul_sat(i, vr_mul_sat(x->ne[0], x->ne[1])), e));
}

static vr_t rms_outside(vr_lm_graph *c, vr_t x, const char *name)
{
    return vr_lm_build_norm(c, x, vr_lm_outside(c, name), NULL, VR_LM_NORM_RMS, -1);
}

/* Embeddings of all layers: [width, tokens, layers]. */
static vr_t per_layer(vr_lm_graph *c, vr_t embd, uint64_t width)
{
    vr_gg *g = c->g;
    uint64_t layers = c->lm->n_layer;
    vr_t tokens = vr_gg_input(g, "inp_tokens", VR_I32, c->n_tokens, 1, 1, 1);
    vr_t x = vr_gg_get_rows(g, vr_lm_outside(c, "per_layer_token_embd.weight"), tokens);
    x = vr_gg_scale(g, vr_gg_reshape_3d(g, x, width, layers, c->n_tokens));
    vr_gg_build_forward_expand(g, x);
    vr_t projected = vr_gg_mul_mat(g, vr_lm_outside(c, "per_layer_model_proj.weight"), embd);
    projected = vr_gg_reshape_3d(g, vr_gg_scale(g, projected), width, layers, c->n_tokens);
    projected = rms_outside(c, projected, "per_layer_proj_norm.weight");
    x = vr_gg_scale(g, vr_gg_add(g, projected, x));
    return vr_gg_cont(g, vr_gg_permute(g, x, 0, 2, 1, 3));
}

static bool has_kv(const vr_lm_graph *c, int il)
{
    return c->plan->caches[il].reuses == 0;
}

static vr_t gated_by_layer(vr_lm_graph *c, vr_t x, vr_t per_layer_all, int il)
{
    vr_gg *g = c->g;
    x = vr_gg_unary_of(g, vr_lm_bare_mm(c, il, "inp_gate", x), VR_GG_GELU);
    x = vr_gg_mul(g, x, slice(c, per_layer_all, (uint64_t)il));
    return vr_lm_rms(c, vr_lm_bare_mm(c, il, "proj", x), il, "post_norm");
}

static vr_t query(vr_lm_graph *c, vr_t x, int il, vr_t factors, bool scaled)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_t q = scaled ? vr_lm_scaled_mm(c, il, "attn_q", x) : vr_lm_bare_mm(c, il, "attn_q", x);
    q = vr_lm_rms(c, vr_gg_reshape_3d(c->g, q, l->head_k, l->n_head, c->n_tokens), il, "attn_q_norm");
    return vr_lm_rope(c, q, factors);
}

/* ---- gemma3n ---- */

#define N_ALTUP 4 /* hparams.n_altup; the first is active */
#define N_ALTUP_WIDTH 256
#define N_SPARSE 10 /* layers whose FFN keeps the largest only */

static vr_t magnitude(vr_lm_graph *c, vr_t x)
{
    return vr_gg_sqrt(c->g, vr_gg_sum_rows(c->g, vr_gg_sqr(c->g, x)));
}

/* All but the first. */
static vr_t others(vr_lm_graph *c, vr_t x)
{
    uint64_t e = x->nb[0], row = vr_mul_sat(x->ne[0], e), one = vr_mul_sat(row, x->ne[1]);
    return vr_gg_view_3d(c->g, x, x->ne[0], x->ne[1], N_ALTUP - 1, row, one, one);
}

/* x projected, as large as `like` was. */
static vr_t as_large(vr_lm_graph *c, vr_t like, const char *name, vr_t x)
{
    vr_gg *g = c->g;
    vr_t size = magnitude(c, like);
    x = vr_gg_mul_mat(g, vr_lm_outside(c, name), x);
    vr_t own = magnitude(c, x);
    return vr_gg_div(g, vr_gg_mul(g, x, size), own);
}

static vr_t modalities(vr_lm_graph *c, vr_t x, int il)
{
    x = vr_gg_scale(c->g, vr_lm_rms(c, x, il, "altup_router_norm"));
    return vr_gg_unary_of(c->g, vr_lm_bare_mm(c, il, "altup_router", x), VR_GG_TANH);
}

static vr_t altup_predict(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    vr_t by = vr_lm_bare_mm(c, il, "altup_predict_coef", modalities(c, slice(c, cur, 0), il));
    by = vr_gg_reshape_3d(g, by, N_ALTUP, N_ALTUP, c->n_tokens);
    vr_t turned = vr_gg_cont(g, vr_gg_permute(g, cur, 1, 2, 0, 3));
    vr_t x = vr_gg_mul_mat(g, turned, by);
    x = vr_gg_cont(g, vr_gg_permute(g, x, 0, 2, 1, 3));
    return vr_gg_add(g, x, cur);
}

static vr_t altup_correct(vr_lm_graph *c, vr_t predictions, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t by = modalities(c, x, il);
    vr_t news = vr_gg_sub(g, x, slice(c, predictions, 0));
    by = vr_gg_scale(g, vr_lm_bare_mm(c, il, "altup_correct_coef", by));
    by = vr_gg_cont_3d(g, vr_gg_transpose(g, by), 1, c->n_tokens, N_ALTUP);
    news = vr_gg_repeat_4d(g, news, c->lm->n_embd, c->n_tokens, N_ALTUP, 1);
    return vr_gg_add(g, vr_gg_mul(g, news, by), predictions);
}

static vr_t laurel(vr_lm_graph *c, vr_t x, int il)
{
    vr_t y = vr_lm_bare_mm(c, il, "laurel_r", vr_lm_bare_mm(c, il, "laurel_l", x));
    return vr_gg_add(c->g, vr_lm_rms(c, y, il, "laurel_post_norm"), x);
}

static vr_t largest(vr_lm_graph *c, vr_t x)
{
    vr_gg *g = c->g;
    vr_t mean = vr_gg_mean(g, x), away = vr_gg_sub(g, x, mean);
    vr_t spread = vr_gg_sqrt(g, vr_gg_scale(g, vr_gg_sum_rows(g, vr_gg_sqr(g, away))));
    vr_t cut = vr_gg_add(g, mean, vr_gg_scale(g, spread));
    return vr_gg_unary_of(g, vr_gg_sub(g, x, cut), VR_GG_RELU);
}

static vr_t attention3n(vr_lm_graph *c, vr_t x, int il)
{
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale") };
    if (!has_kv(c, il)) {
        a.q = query(c, x, il, NULL, false);
        return vr_lm_build_attn(c, &a, il);
    }
    vr_lm_qkv qkv = vr_lm_qkv_of(c, x, il);
    a.q = vr_lm_rms(c, qkv.q, il, "attn_q_norm");
    a.k = vr_lm_rms(c, qkv.k, il, "attn_k_norm");
    a.v = vr_gg_rms_norm(c->g, qkv.v);
    a.q = vr_lm_rope(c, a.q, NULL);
    a.k = vr_lm_rope(c, a.k, NULL);
    return vr_lm_build_attn(c, &a, il);
}

static vr_t ffn3n(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t up = vr_lm_bare_mm(c, il, "ffn_up", x), gate = vr_lm_bare_mm(c, il, "ffn_gate", x);
    if (il < N_SPARSE)
        gate = largest(c, gate);
    gate = vr_gg_unary_of(g, gate, VR_GG_GELU);
    x = vr_lm_bare_mm(c, il, "ffn_down", vr_gg_mul(g, up, gate));
    return vr_lm_build_norm(c, x, vr_lm_w(c, il, "post_ffw_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
}

static vr_t layer3n(vr_lm_graph *c, vr_t all, vr_t per_layer_all, int il)
{
    vr_gg *g = c->g;
    vr_t predictions = altup_predict(c, all, il), active = slice(c, predictions, 0);
    vr_t cur = vr_lm_rms(c, active, il, "attn_norm");
    vr_t beside = laurel(c, cur, il);
    cur = vr_lm_rms(c, attention3n(c, cur, il), il, "post_attention_norm");
    cur = vr_gg_add(g, cur, active);
    vr_t residual = vr_gg_scale(g, vr_gg_add(g, cur, beside));
    cur = vr_gg_add(g, ffn3n(c, vr_lm_rms(c, residual, il, "ffn_norm"), il), residual);
    vr_t corrected = altup_correct(c, predictions, cur, il);
    vr_t first = vr_gg_mul(g, slice(c, corrected, 0), vr_lm_w(c, il, "altup_correct_scale.weight"));
    first = gated_by_layer(c, first, per_layer_all, il);
    vr_t front = slice(c, corrected, 0), rest = others(c, corrected);
    return vr_gg_concat(g, front, vr_gg_add(g, rest, first), 2);
}

/* From several to one, of as large a magnitude. */
static vr_t merged(vr_lm_graph *c, vr_t all)
{
    vr_gg *g = c->g;
    vr_t size = slice(c, all, 0);
    vr_t rest = as_large(c, size, "altup_unembd_proj.weight", others(c, all));
    vr_t cur = slice(c, all, 0);
    for (uint64_t i = 0; i + 1 < N_ALTUP; i++)
        cur = vr_gg_add(g, cur, slice(c, rest, i));
    return vr_gg_scale(g, cur);
}

void vr_lm_build_gemma3n(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t cur = vr_gg_scale(g, vr_lm_inp_embd(c));
    vr_lm_inp_attn(c);
    vr_t layers = per_layer(c, cur, N_ALTUP_WIDTH);
    vr_t more = vr_gg_repeat_4d(g, cur, c->lm->n_embd, c->n_tokens, N_ALTUP - 1, 1);
    cur = vr_gg_concat(g, cur, as_large(c, cur, "altup_proj.weight", more), 2);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = layer3n(c, cur, layers, il);
    if (vr_lm_stopped(c))
        return;
    cur = vr_gg_get_rows(g, merged(c, cur), vr_lm_inp_out_ids(c));
    cur = rms_outside(c, cur, "output_norm.weight");
    vr_lm_embd(c, cur);
    vr_lm_logits(c, vr_lm_logit_cap(c, vr_lm_head_mm(c, cur)));
}

/* ---- gemma4 ---- */

static vr_t attention4(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_t factors = l->swa ? NULL : vr_lm_shared(c, il, "rope_freqs.weight");
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                          .q = query(c, x, il, factors, true) };
    if (!has_kv(c, il))
        return vr_lm_build_attn(c, &a, il);
    vr_t k = vr_lm_scaled_mm(c, il, "attn_k", x);
    vr_t v = vr_lm_opt(c, il, "attn_v.weight") ? vr_lm_scaled_mm(c, il, "attn_v", x) : k;
    k = vr_gg_reshape_3d(g, k, l->head_k, l->n_head_kv, c->n_tokens);
    v = vr_gg_reshape_3d(g, v, l->head_k, l->n_head_kv, c->n_tokens);
    a.k = vr_lm_rms(c, k, il, "attn_k_norm");
    a.v = vr_gg_rms_norm(g, v);
    a.k = vr_lm_rope(c, a.k, factors);
    return vr_lm_build_attn(c, &a, il);
}

static vr_t dense4(vr_lm_graph *c, vr_t x, int il)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_GELU, VR_LM_FFN_PAR);
    f.up_b = f.gate_b = f.down_b = NULL;
    return vr_lm_build_ffn(c, vr_lm_rms(c, x, il, "ffn_norm"), &f);
}

static vr_t experts4(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t dense = vr_lm_rms(c, dense4(c, x, il), il, "post_ffw_norm_1");
    vr_t cur = vr_lm_rms(c, x, il, "pre_ffw_norm_2");
    vr_t to = vr_gg_mul(g, vr_gg_scale(g, vr_gg_rms_norm(g, x)), vr_lm_w(c, il, "ffn_gate_inp.scale"));
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_GELU, true, VR_LM_SOFTMAX);
    m.probs_in = vr_lm_bare_mm(c, il, "ffn_gate_inp", to);
    m.gate_inp = m.gate_inp_b = m.probs_b = m.up_b = m.gate_b = m.down_b = m.gate_up_b = NULL;
    m.scaled = false;
    return vr_gg_add(g, dense, vr_lm_rms(c, vr_lm_build_moe(c, cur, &m), il, "post_ffw_norm_2"));
}

static vr_t layer4(vr_lm_graph *c, vr_t x, vr_t per_layer_all, int il)
{
    vr_gg *g = c->g;
    vr_t cur = attention4(c, vr_lm_rms(c, x, il, "attn_norm"), il);
    vr_t residual = vr_gg_add(g, vr_lm_rms(c, cur, il, "post_attention_norm"), x);
    cur = vr_lm_opt(c, il, "ffn_gate_inp.weight") ? experts4(c, residual, il) : dense4(c, residual, il);
    cur = vr_lm_build_norm(c, cur, vr_lm_w(c, il, "post_ffw_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    cur = vr_gg_add(g, cur, residual);
    if (per_layer_all)
        cur = vr_gg_add(g, cur, gated_by_layer(c, cur, per_layer_all, il));
    vr_t scale = vr_lm_opt(c, il, "layer_output_scale.weight");
    return scale ? vr_gg_mul(g, cur, scale) : cur;
}

void vr_lm_build_gemma4(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    uint64_t width = vr_lm_number(c->lm, "embedding_length_per_layer_input", 0);
    vr_t cur = vr_gg_scale(g, vr_lm_inp_embd(c));
    vr_lm_inp_attn(c);
    vr_t layers = width ? per_layer(c, cur, width) : NULL;
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = layer4(c, cur, layers, il);
    cur = rms_outside(c, cur, "output_norm.weight");
    vr_gg_set_output(cur); /* what a draft head would start from */
    cur = vr_gg_get_rows(g, cur, vr_lm_inp_out_ids(c));
    vr_lm_embd(c, cur);
    cur = vr_lm_head_mm(c, cur);
    vr_lm_logits(c, vr_lm_nonzero(c, "final_logit_softcapping") ? vr_lm_logit_cap(c, cur) : cur);
}
