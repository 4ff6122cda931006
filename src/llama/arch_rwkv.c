/* SPDX-License-Identifier: MIT
 * RWKV 6 and 7, and Qwen2 with their time mix in the place of attention.
 *
 * Source: llama.cpp b10470, src/models/rwkv6-base.cpp, rwkv6.cpp, rwkv6qwen2.cpp, rwkv7-base.cpp, rwkv7.cpp,
 * arwkv7.cpp. */
#include "llama/archs_more.h"
#include "llama/arch.h"

/* What a time mix needs: tokens and widths, and the first layer's values. */
typedef struct mix {
    uint64_t embd, head, heads, tokens;
    vr_t first_v;
} mix;

static bool mix_of(vr_lm_graph *c, mix *m)
{
    m->embd = c->lm->n_embd;
    m->head = vr_lm_number(c->lm, "wkv.head_size", 0);
    m->tokens = c->n_tokens;
    m->first_v = NULL;
    if (m->head == 0 || m->embd % m->head)
        vr_lm_broken(c, "heads do not divide the width");
    else
        m->heads = m->embd / m->head;
    return !vr_lm_stopped(c);
}

static vr_t unary(vr_lm_graph *c, vr_t x, vr_gg_unary kind)
{
    return vr_gg_unary_of(c->g, x, kind);
}

static vr_t by_head(vr_lm_graph *c, const mix *m, vr_t x)
{
    return vr_gg_reshape_3d(c->g, x, m->head, m->heads, m->tokens);
}

/* One of several mixtures that lie behind one another. */
static vr_t mixture(vr_lm_graph *c, const mix *m, vr_t x, uint64_t which)
{
    return vr_gg_view_2d(c->g, x, m->embd, m->tokens, x->nb[1],
                         vr_mul_sat(vr_mul_sat(vr_mul_sat(m->embd, m->tokens), which), 4));
}

/* x * weight + cur */
static vr_t lerp(vr_lm_graph *c, vr_t x, vr_t w, vr_t cur)
{
    return vr_gg_add(c->g, vr_gg_mul(c->g, x, w), cur);
}

/* The result's front is the output, its end the states, which go back. */
static vr_t keep_state(vr_lm_graph *c, const mix *m, vr_t all, vr_t kept)
{
    vr_gg *g = c->g;
    uint64_t n = vr_mul_sat(m->embd, m->tokens), states = vr_mul_sat(vr_mul_sat(m->embd, m->head), c->n_seqs);
    vr_t out = vr_gg_view_1d(g, all, n, 0), state = vr_gg_view_1d(g, all, states, vr_mul_sat(n, 4));
    vr_t place = vr_gg_view_1d(g, kept, vr_mul_sat(kept->ne[0], c->n_seqs), 0);
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, state, place));
    return out;
}

static vr_t normed_by_head(vr_lm_graph *c, const mix *m, vr_t x, int il)
{
    vr_gg *g = c->g;
    x = vr_gg_norm(g, by_head(c, m, x));
    x = vr_gg_reshape_2d(g, x, m->embd, m->tokens);
    x = vr_gg_mul(g, x, vr_lm_w(c, il, "time_mix_ln.weight"));
    return vr_gg_add(g, x, vr_lm_w(c, il, "time_mix_ln.bias"));
}

/* ---- 6 ---- */

typedef struct five {
    vr_t w, k, v, r, g;
} five;

static five split(vr_lm_graph *c, const mix *m, vr_t x)
{
    return (five){ mixture(c, m, x, 0), mixture(c, m, x, 1), mixture(c, m, x, 2), mixture(c, m, x, 3),
                   mixture(c, m, x, 4) };
}

static vr_t lerp_of(vr_lm_graph *c, vr_t x, int il, const char *name, vr_t sx, vr_t cur)
{
    return lerp(c, vr_gg_add(c->g, x, vr_lm_w(c, il, name)), sx, cur);
}

static five mixtures6(vr_lm_graph *c, const mix *m, vr_t sx, vr_t cur, int il)
{
    vr_gg *g = c->g;
    vr_t x = lerp(c, sx, vr_lm_w(c, il, "time_mix_lerp_x.weight"), cur);
    vr_t w1 = vr_lm_w(c, il, "time_mix_w1.weight"), w2 = vr_lm_w(c, il, "time_mix_w2.weight");
    x = unary(c, vr_gg_mul_mat(g, w1, x), VR_GG_TANH);
    x = vr_gg_reshape_4d(g, x, w1->ne[1] / 5, 1, 5, m->tokens);
    x = vr_gg_cont(g, vr_gg_permute(g, x, 0, 1, 3, 2));
    x = vr_gg_mul_mat(g, vr_gg_reshape_4d(g, w2, w2->ne[0], w2->ne[1], 1, 5), x);
    vr_t fused = vr_lm_opt(c, il, "time_mix_lerp_fused.weight");
    if (fused) {
        sx = vr_gg_reshape_3d(g, sx, m->embd, 1, m->tokens);
        cur = vr_gg_reshape_3d(g, cur, m->embd, 1, m->tokens);
        return split(c, m, lerp(c, vr_gg_add(g, x, fused), sx, cur));
    }
    five f = split(c, m, x);
    f.w = lerp_of(c, f.w, il, "time_mix_lerp_w.weight", sx, cur);
    f.k = lerp_of(c, f.k, il, "time_mix_lerp_k.weight", sx, cur);
    f.v = lerp_of(c, f.v, il, "time_mix_lerp_v.weight", sx, cur);
    f.r = lerp_of(c, f.r, il, "time_mix_lerp_r.weight", sx, cur);
    f.g = lerp_of(c, f.g, il, "time_mix_lerp_g.weight", sx, cur);
    return f;
}

/* Keys or values of fewer heads, as often as there are heads. */
static vr_t repeated(vr_lm_graph *c, const mix *m, vr_t x, uint64_t heads_kv)
{
    vr_gg *g = c->g;
    if (heads_kv == 0 || heads_kv == m->heads)
        return by_head(c, m, x);
    x = vr_gg_reshape_4d(g, x, m->head, 1, heads_kv, m->tokens);
    x = vr_gg_repeat_4d(g, x, m->head, m->heads / heads_kv, heads_kv, m->tokens);
    return by_head(c, m, x);
}

static vr_t decay6(vr_lm_graph *c, const mix *m, vr_t x, int il)
{
    vr_gg *g = c->g;
    x = unary(c, vr_lm_bare_mm(c, il, "time_mix_decay_w1", x), VR_GG_TANH);
    x = vr_gg_add(g, vr_lm_bare_mm(c, il, "time_mix_decay_w2", x), vr_lm_w(c, il, "time_mix_decay.weight"));
    x = unary(c, unary(c, unary(c, x, VR_GG_EXP), VR_GG_NEG), VR_GG_EXP);
    return by_head(c, m, x);
}

static vr_t biased(vr_lm_graph *c, vr_t x, int il, const char *name)
{
    vr_t y = vr_lm_bare_mm(c, il, name, x), b = vr_lm_part(c, il, name, "bias");
    return b ? vr_gg_add(c->g, y, b) : y;
}

static vr_t time_mix6(vr_lm_graph *c, mix *m, vr_t cur, vr_t before, int il)
{
    vr_gg *g = c->g;
    vr_t first = vr_lm_opt(c, il, "time_mix_first.weight"), kept = vr_lm_kept_of(c, il)->s;
    uint64_t heads_kv = c->lm->layers[il].n_head_kv;
    vr_t sx = vr_gg_reshape_2d(g, vr_gg_sub(g, before, cur), m->embd, m->tokens);
    cur = vr_gg_reshape_2d(g, cur, m->embd, m->tokens);
    five f = mixtures6(c, m, sx, cur, il);
    vr_t r = biased(c, f.r, il, "time_mix_receptance"), k = biased(c, f.k, il, "time_mix_key");
    vr_t v = biased(c, f.v, il, "time_mix_value");
    vr_t gate = unary(c, vr_lm_bare_mm(c, il, "time_mix_gate", f.g), first ? VR_GG_SILU : VR_GG_SIGMOID);
    k = repeated(c, m, k, heads_kv);
    v = repeated(c, m, v, heads_kv);
    r = by_head(c, m, r);
    vr_t w = decay6(c, m, f.w, il);
    if (!first)
        k = vr_gg_sub(g, k, vr_gg_mul(g, k, w));
    vr_t state = vr_lm_build_rs(c, kept, kept->ne[0], c->n_seqs, NULL, NULL);
    vr_t all =
        first ? vr_gg_rwkv_wkv6(g, k, v, r, first, w, state) : vr_gg_gated_linear_attn(g, k, v, r, w, state);
    vr_t out = keep_state(c, m, all, kept);
    out = first ? normed_by_head(c, m, out, il) : vr_gg_reshape_2d(g, out, m->embd, m->tokens);
    out = vr_lm_bare_mm(c, il, "time_mix_output", vr_gg_mul(g, out, gate));
    return vr_gg_reshape_3d(g, out, m->embd, c->n_seq_tokens, c->n_seqs);
}

static vr_t channel_mix6(vr_lm_graph *c, vr_t cur, vr_t before, int il)
{
    vr_gg *g = c->g;
    vr_t sx = vr_gg_sub(g, before, cur);
    vr_t xk = lerp(c, sx, vr_lm_w(c, il, "channel_mix_lerp_k.weight"), cur);
    vr_t xr = lerp(c, sx, vr_lm_w(c, il, "channel_mix_lerp_r.weight"), cur);
    vr_t r = unary(c, vr_lm_bare_mm(c, il, "channel_mix_receptance", xr), VR_GG_SIGMOID);
    vr_t k = vr_gg_sqr(g, unary(c, vr_lm_bare_mm(c, il, "channel_mix_key", xk), VR_GG_RELU));
    return vr_gg_mul(g, r, vr_lm_bare_mm(c, il, "channel_mix_value", k));
}

/* ---- 7 ---- */

/* weight2 * (weight1 * x) + weight0, with something in between. */
static vr_t low_rank(vr_lm_graph *c, vr_t x, int il, const char *w1, const char *w2)
{
    return vr_lm_bare_mm(c, il, w2, vr_lm_bare_mm(c, il, w1, x));
}

static vr_t decay7(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    x = vr_lm_bare_mm(c, il, "time_mix_w2", unary(c, vr_lm_bare_mm(c, il, "time_mix_w1", x), VR_GG_TANH));
    x = unary(c, vr_gg_add(g, x, vr_lm_w(c, il, "time_mix_w0.weight")), VR_GG_SIGMOID);
    return unary(c, vr_gg_scale(g, x), VR_GG_EXP);
}

static vr_t values7(vr_lm_graph *c, mix *m, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t v = vr_lm_bare_mm(c, il, "time_mix_value", x);
    if (!m->first_v) {
        m->first_v = v;
        return v;
    }
    vr_t away = vr_gg_sub(g, m->first_v, v), by = low_rank(c, x, il, "time_mix_v1", "time_mix_v2");
    by = unary(c, vr_gg_add(g, by, vr_lm_w(c, il, "time_mix_v0.weight")), VR_GG_SIGMOID);
    return vr_gg_add(g, v, vr_gg_mul(g, away, by));
}

typedef struct seven {
    vr_t r, w, k, v, a, kk, gate;
} seven;

static seven read7(vr_lm_graph *c, mix *m, vr_t x, int il, bool gated)
{
    vr_gg *g = c->g;
    seven s = { .r = vr_lm_bare_mm(c, il, "time_mix_receptance", mixture(c, m, x, 0)) };
    s.w = decay7(c, mixture(c, m, x, 1), il);
    s.k = vr_lm_bare_mm(c, il, "time_mix_key", mixture(c, m, x, 2));
    s.v = values7(c, m, mixture(c, m, x, 3), il);
    if (gated) {
        vr_t y = unary(c, vr_lm_bare_mm(c, il, "time_mix_g1", mixture(c, m, x, 5)), VR_GG_SIGMOID);
        s.gate = vr_lm_bare_mm(c, il, "time_mix_g2", y);
    }
    s.a = low_rank(c, mixture(c, m, x, 4), il, "time_mix_a1", "time_mix_a2");
    s.a = unary(c, vr_gg_add(g, s.a, vr_lm_w(c, il, "time_mix_a0.weight")), VR_GG_SIGMOID);
    s.kk = vr_gg_l2_norm(g, by_head(c, m, vr_gg_mul(g, s.k, vr_lm_w(c, il, "time_mix_k_k.weight"))));
    vr_t ka = vr_gg_mul(g, s.k, vr_lm_w(c, il, "time_mix_k_a.weight"));
    s.k = vr_gg_add(g, s.k, vr_gg_sub(g, vr_gg_mul(g, s.a, ka), ka));
    s.r = by_head(c, m, s.r);
    s.w = by_head(c, m, s.w);
    s.k = by_head(c, m, s.k);
    s.v = by_head(c, m, s.v);
    s.a = by_head(c, m, s.a);
    return s;
}

static vr_t after7(vr_lm_graph *c, const mix *m, vr_t out, const seven *s, int il)
{
    vr_gg *g = c->g;
    if (vr_lm_opt(c, il, "time_mix_ln.weight") && vr_lm_opt(c, il, "time_mix_ln.bias"))
        out = normed_by_head(c, m, out, il);
    else
        out = vr_gg_reshape_2d(g, out, m->embd, m->tokens);
    vr_t by = vr_gg_reshape_2d(g, vr_lm_w(c, il, "time_mix_r_k.weight"), m->head, m->heads);
    vr_t rk = vr_gg_sum_rows(g, vr_gg_mul(g, vr_gg_mul(g, s->k, s->r), by));
    vr_t more = vr_gg_reshape_2d(g, vr_gg_mul(g, s->v, rk), m->embd, m->tokens);
    out = vr_gg_add(g, out, more);
    return s->gate ? vr_gg_mul(g, out, s->gate) : out;
}

static vr_t time_mix7(vr_lm_graph *c, mix *m, vr_t cur, vr_t before, int il)
{
    vr_gg *g = c->g;
    vr_t kept = vr_lm_kept_of(c, il)->s;
    bool gated = vr_lm_opt(c, il, "time_mix_g1.weight") && vr_lm_opt(c, il, "time_mix_g2.weight");
    vr_t sx = vr_gg_sub(g, before, cur);
    sx = vr_gg_repeat_4d(g, sx, m->embd, c->n_seq_tokens, c->n_seqs, gated ? 6 : 5);
    vr_t x = lerp(c, sx, vr_lm_w(c, il, "time_mix_lerp_fused.weight"), cur);
    seven s = read7(c, m, x, il, gated);
    vr_t state = vr_lm_build_rs(c, kept, kept->ne[0], c->n_seqs, NULL, NULL);
    vr_t minus = unary(c, s.kk, VR_GG_NEG), ka = vr_gg_mul(g, s.kk, s.a);
    vr_t all = vr_gg_rwkv_wkv7(g, s.r, s.w, s.k, s.v, minus, ka, state);
    vr_t out = after7(c, m, keep_state(c, m, all, kept), &s, il);
    out = vr_lm_bare_mm(c, il, "time_mix_output", out);
    return vr_gg_reshape_3d(g, out, m->embd, c->n_seq_tokens, c->n_seqs);
}

static vr_t channel_mix7(vr_lm_graph *c, vr_t cur, vr_t before, int il)
{
    vr_gg *g = c->g;
    vr_t sx = vr_gg_sub(g, before, cur);
    vr_t xk = lerp(c, sx, vr_lm_w(c, il, "channel_mix_lerp_k.weight"), cur);
    vr_t k = vr_gg_sqr(g, unary(c, vr_lm_bare_mm(c, il, "channel_mix_key", xk), VR_GG_RELU));
    return vr_lm_bare_mm(c, il, "channel_mix_value", k);
}

/* ---- the layers ---- */

/* One column of x: [width, 1, sequences]. */
static vr_t column(vr_lm_graph *c, const mix *m, vr_t x, uint64_t at)
{
    return vr_gg_view_3d(c->g, x, m->embd, 1, c->n_seqs, x->nb[1], x->nb[2],
                         vr_mul_sat(vr_mul_sat(at, m->embd), x->nb[0]));
}

/* x as it was one token before: the kept column in front. */
static vr_t token_before(vr_lm_graph *c, const mix *m, vr_t x, vr_t kept)
{
    vr_t others = vr_gg_view_3d(c->g, x, m->embd, c->n_seq_tokens - 1, c->n_seqs, x->nb[1], x->nb[2], 0);
    return vr_gg_concat(c->g, kept, others, 1);
}

static vr_t load_shift(vr_lm_graph *c, const mix *m, int il, uint64_t count)
{
    vr_t kept = vr_lm_kept_of(c, il)->r;
    if (!kept || !vr_lm_kept_of(c, il)->s) {
        vr_lm_broken(c, "a layer without a state");
        return NULL;
    }
    vr_t shift = vr_lm_build_rs(c, kept, kept->ne[0], c->n_seqs, NULL, NULL);
    return vr_gg_reshape_3d(c->g, shift, m->embd, count, c->n_seqs);
}

static void store_shift(vr_lm_graph *c, const mix *m, vr_t shift, int il, uint64_t count)
{
    vr_gg *g = c->g;
    vr_t kept = vr_lm_kept_of(c, il)->r;
    vr_t from = vr_gg_view_1d(g, shift, vr_mul_sat(vr_mul_sat(m->embd, c->n_seqs), count), 0);
    vr_t to = vr_gg_view_1d(g, kept, vr_mul_sat(kept->ne[0], c->n_seqs), 0);
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, from, to));
}

typedef vr_t (*time_mix)(vr_lm_graph *c, mix *m, vr_t cur, vr_t before, int il);
typedef vr_t (*channel_mix)(vr_lm_graph *c, vr_t cur, vr_t before, int il);

static vr_t flat(vr_lm_graph *c, const mix *m, vr_t x)
{
    return vr_gg_reshape_2d(c->g, x, m->embd, m->tokens);
}

static vr_t rwkv_layer(vr_lm_graph *c, mix *m, vr_t x, int il, time_mix mixes, channel_mix channels)
{
    vr_gg *g = c->g;
    x = vr_gg_reshape_3d(g, x, m->embd, c->n_seq_tokens, c->n_seqs);
    vr_t shift = load_shift(c, m, il, 2);
    if (!shift)
        return x;
    vr_t att_shift = column(c, m, shift, 0), ffn_shift = column(c, m, shift, 1);
    vr_t att = vr_lm_norm_of(c, x, il, "attn_norm", VR_LM_NORM);
    vr_t cur = mixes(c, m, att, token_before(c, m, att, att_shift), il);
    vr_t residual = vr_gg_add(g, cur, x);
    vr_t ffn = vr_lm_norm_of(c, residual, il, "attn_norm_2", VR_LM_NORM);
    vr_t before = token_before(c, m, ffn, ffn_shift);
    uint64_t last = c->n_seq_tokens - 1;
    shift = vr_gg_concat(g, column(c, m, att, last), column(c, m, ffn, last), 1);
    store_shift(c, m, shift, il, 2);
    residual = flat(c, m, residual);
    ffn = flat(c, m, ffn);
    before = flat(c, m, before);
    vr_lm_select_rows(c, il, &residual, &ffn);
    vr_lm_select_rows(c, il, &before, NULL);
    return vr_gg_add(g, channels(c, ffn, before, il), residual);
}

static void build_rwkv(vr_lm_graph *c, time_mix mixes, channel_mix channels)
{
    mix m = { 0 };
    if (!mix_of(c, &m))
        return;
    uint64_t every = channels == channel_mix6 ? vr_lm_number(c->lm, "rescale_every_n_layers", 0) : 0;
    vr_t cur = vr_lm_inp_embd(c);
    vr_t w = vr_lm_outside(c, "token_embd_norm.weight"), b = vr_lm_outside(c, "token_embd_norm.bias");
    cur = vr_lm_build_norm(c, cur, w, b, VR_LM_NORM, 0);
    vr_lm_rs_inp(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        cur = rwkv_layer(c, &m, cur, il, mixes, channels);
        if (every && ((uint64_t)il + 1) % every == 0)
            cur = vr_gg_scale(c->g, cur);
    }
    vr_lm_finish(c, cur, VR_LM_NORM);
}

void vr_lm_build_rwkv6(vr_lm_graph *c)
{
    build_rwkv(c, time_mix6, channel_mix6);
}

void vr_lm_build_rwkv7(vr_lm_graph *c)
{
    build_rwkv(c, time_mix7, channel_mix7);
}

static vr_t qwen_layer(vr_lm_graph *c, mix *m, vr_t x, int il, time_mix mixes)
{
    vr_gg *g = c->g;
    x = vr_gg_reshape_3d(g, x, m->embd, c->n_seq_tokens, c->n_seqs);
    vr_t shift = load_shift(c, m, il, vr_lm_number(c->lm, "token_shift_count", 2));
    if (!shift)
        return x;
    vr_t att = vr_lm_norm_of(c, x, il, "attn_norm", VR_LM_NORM_RMS);
    vr_t cur = mixes(c, m, att, token_before(c, m, att, shift), il);
    store_shift(c, m, column(c, m, att, c->n_seq_tokens - 1), il, 1);
    vr_t residual = flat(c, m, vr_gg_add(g, cur, x));
    vr_lm_select_rows(c, il, &residual, NULL);
    cur = vr_lm_bare_ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    return vr_gg_add(g, cur, residual);
}

static void build_qwen(vr_lm_graph *c, time_mix mixes)
{
    mix m = { 0 };
    if (!mix_of(c, &m))
        return;
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_rs_inp(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = qwen_layer(c, &m, cur, il, mixes);
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

void vr_lm_build_rwkv6qwen2(vr_lm_graph *c)
{
    build_qwen(c, time_mix6);
}

void vr_lm_build_arwkv7(vr_lm_graph *c)
{
    build_qwen(c, time_mix7);
}
