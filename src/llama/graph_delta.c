/* SPDX-License-Identifier: MIT
 * Gated delta nets, with one gate a head (qwen3next, qwen35) or one a channel (kimi-linear): as one operation
 * where it runs on the layer's device, spelled out by chunks of tokens or for one token where not.
 *
 * Source: llama.cpp b10470, src/models/delta-net-base.cpp. */
#include "llama/arch.h"

/* Shapes: keys [width, key heads, tokens, sequences], values [width, heads, tokens, sequences]. */
typedef struct widths {
    uint64_t key, key_heads, value, heads, tokens, seqs;
} widths;

static widths widths_of(const vr_lm_delta *d)
{
    return (widths){ .key = d->q->ne[0],
                     .key_heads = d->q->ne[1],
                     .value = d->v->ne[0],
                     .heads = d->v->ne[1],
                     .tokens = d->q->ne[2],
                     .seqs = d->q->ne[3] };
}

/* ---- one operation ---- */

static vr_t fused(vr_lm_graph *c, vr_lm_delta *d, int il)
{
    vr_gg *g = c->g;
    widths w = widths_of(d);
    vr_t all = vr_gg_gated_delta_net(g, d->q, d->k, d->v, d->gate, d->beta, d->state);
    vr_lm_fused(c, w.tokens == 1 ? VR_LM_FUSED_GDN_AR : VR_LM_FUSED_GDN_CH, all, il);
    uint64_t e = all->nb[0], row = vr_mul_sat(w.value, e), token = vr_mul_sat(row, w.heads);
    uint64_t seq = vr_mul_sat(token, w.tokens);
    vr_t out = vr_gg_view_4d(g, all, w.value, w.heads, w.tokens, w.seqs, row, token, seq, 0);
    uint64_t head = vr_mul_sat(row, w.value);
    d->state = vr_gg_view_4d(g, all, w.value, w.value, w.heads, w.seqs, row, head, vr_mul_sat(head, w.heads),
                             vr_mul_sat(seq, w.seqs));
    return out;
}

/* ---- one token ---- */

static vr_t one_token(vr_lm_graph *c, vr_lm_delta *d)
{
    vr_gg *g = c->g;
    widths w = widths_of(d);
    vr_t q = vr_gg_permute(g, vr_gg_scale(g, d->q), 0, 2, 1, 3);
    vr_t k = vr_gg_permute(g, d->k, 0, 2, 1, 3), v = vr_gg_permute(g, d->v, 0, 2, 1, 3);
    vr_t gate = vr_gg_reshape_4d(g, d->gate, 1, d->gate->ne[0], w.heads, w.seqs);
    vr_t beta = vr_gg_reshape_4d(g, d->beta, 1, 1, w.heads, w.seqs);
    vr_t s = vr_gg_mul(g, d->state, vr_gg_unary_of(g, gate, VR_GG_EXP));
    vr_t sk = vr_gg_sum_rows(g, vr_gg_mul(g, s, k));
    vr_t delta = vr_gg_mul(g, vr_gg_sub(g, v, vr_gg_transpose(g, sk)), beta);
    vr_t turned = vr_gg_transpose(g, delta);
    s = vr_gg_add(g, s, vr_gg_mul(g, vr_gg_repeat(g, k, s), turned));
    d->state = s;
    return vr_gg_permute(g, vr_gg_sum_rows(g, vr_gg_mul(g, s, q)), 2, 0, 1, 3);
}

/* ---- by chunks ---- */

#define CHUNKS_MOST 4096 /* a quarter of a million tokens in one micro batch */

typedef struct chunked {
    widths w;
    bool by_channel;
    uint64_t size, n;                  /* of a chunk; chunks */
    uint64_t rows, key_rows;           /* heads and key heads of all sequences */
    vr_t q, k, v, v_b, k_b, gate, sum; /* sum: of the gate over a chunk's tokens */
    vr_t kb, kq;
} chunked;

/* Heads first, filled up to whole chunks: [width, padded tokens, heads, sequences]. */
static vr_t padded(vr_lm_graph *c, vr_t x, uint64_t pad)
{
    return vr_gg_pad(c->g, vr_gg_permute(c->g, x, 0, 2, 1, 3), 0, pad, 0, 0);
}

static vr_t in_chunks(vr_lm_graph *c, const chunked *h, vr_t x, uint64_t rows)
{
    return vr_gg_reshape_4d(c->g, x, x->ne[0], h->size, h->n, rows);
}

static vr_t turned(vr_lm_graph *c, vr_t x)
{
    return vr_gg_cont(c->g, vr_gg_transpose(c->g, x));
}

static bool into_chunks(vr_lm_graph *c, chunked *h, const vr_lm_delta *d)
{
    vr_gg *g = c->g;
    h->w = widths_of(d);
    h->by_channel = d->gate->ne[0] == h->w.key && d->gate->ne[1] == h->w.key_heads;
    h->size = h->by_channel ? 16 : 64;
    uint64_t pad = (h->size - h->w.tokens % h->size) % h->size;
    h->n = (h->w.tokens + pad) / h->size;
    if (h->n > CHUNKS_MOST) {
        vr_lm_broken(c, "a delta net over a micro batch of so many tokens");
        return false;
    }
    h->rows = vr_mul_sat(h->w.heads, h->w.seqs);
    h->key_rows = vr_mul_sat(h->w.key_heads, h->w.seqs);
    h->q = padded(c, vr_gg_scale(g, d->q), pad);
    h->k = padded(c, d->k, pad);
    h->v = padded(c, d->v, pad);
    h->gate = padded(c, d->gate, pad);
    vr_t beta = padded(c, d->beta, pad);
    h->v_b = vr_gg_mul(g, h->v, beta);
    h->k_b = vr_gg_mul(g, h->k, beta);
    h->q = in_chunks(c, h, h->q, h->key_rows);
    h->k = in_chunks(c, h, h->k, h->key_rows);
    h->k_b = in_chunks(c, h, h->k_b, h->rows);
    h->v_b = in_chunks(c, h, h->v_b, h->rows);
    h->gate = in_chunks(c, h, h->gate, h->rows);
    h->sum = vr_gg_cumsum(g, turned(c, h->gate));
    return true;
}

static vr_t decay(vr_lm_graph *c, vr_t j, vr_t i)
{
    vr_gg *g = c->g;
    return vr_gg_unary_of(g, vr_gg_tri(g, vr_gg_sub(g, j, i)), VR_GG_EXP);
}

static void products_by_head(vr_lm_graph *c, chunked *h)
{
    vr_gg *g = c->g;
    vr_t j = vr_gg_reshape_4d(g, h->sum, 1, h->size, h->n, h->rows);
    j = vr_gg_repeat_4d(g, j, h->size, h->size, h->n, h->rows);
    vr_t mask = decay(c, j, h->sum);
    h->kb = vr_gg_mul(g, vr_gg_mul_mat(g, h->k, h->k_b), mask);
    h->kq = vr_gg_mul(g, vr_gg_mul_mat(g, h->k, h->q), mask);
}

static void products_by_channel(vr_lm_graph *c, chunked *h)
{
    vr_gg *g = c->g;
    uint64_t n = vr_mul_sat(h->n, h->key_rows), size = h->size, key = h->w.key;
    vr_t i = vr_gg_reshape_4d(g, h->sum, size, 1, key, n), j = vr_gg_reshape_4d(g, h->sum, 1, size, key, n);
    vr_t mask = decay(c, vr_gg_repeat_4d(g, j, size, size, key, n), i);
    mask = vr_gg_cont_4d(g, vr_gg_permute(g, mask, 2, 1, 0, 3), key, size, size, n);
    vr_t k_b = vr_gg_reshape_4d(g, h->k_b, key, size, 1, n), k = vr_gg_reshape_4d(g, h->k, key, 1, size, n);
    vr_t q = vr_gg_reshape_4d(g, h->q, key, size, 1, n);
    vr_t by_k = vr_gg_mul(g, mask, k_b), by_q = vr_gg_mul(g, mask, q);
    vr_t kb = vr_gg_mul_mat(g, by_k, k), kq = vr_gg_mul_mat(g, by_q, k);
    h->kb = turned(c, vr_gg_reshape_4d(g, kb, size, size, h->n, h->rows));
    h->kq = turned(c, vr_gg_reshape_4d(g, kq, size, size, h->n, h->rows));
}

/* The inverse of a triangle of each chunk. */
static vr_t solved(vr_lm_graph *c, const chunked *h)
{
    vr_gg *g = c->g;
    vr_t x = vr_gg_tri(g, h->kb);
    vr_t one = vr_gg_diag(g, vr_gg_fill(g, vr_gg_view_1d(g, x, h->size, 0)));
    vr_t left = vr_gg_add(g, x, one);
    vr_t right = vr_gg_unary_of(g, x, VR_GG_NEG);
    return vr_gg_add(g, vr_gg_solve_tri(g, left, right), one);
}

/* What the loop over chunks reads. */
typedef struct walk {
    vr_t k_decayed, v_t, kq, q, kg_t, last;
} walk;

static vr_t slice(vr_lm_graph *c, vr_t t, uint64_t chunk)
{
    return vr_gg_view_4d(c->g, t, t->ne[0], t->ne[1], 1, t->ne[3], t->nb[1], t->nb[2], t->nb[3],
                         vr_mul_sat(t->nb[2], chunk));
}

static void step(vr_lm_graph *c, const walk *w, uint64_t chunk, vr_t *v, vr_t *s)
{
    vr_gg *g = c->g;
    vr_t k = slice(c, w->k_decayed, chunk), v_t = slice(c, w->v_t, chunk), kq = slice(c, w->kq, chunk);
    vr_t q = slice(c, w->q, chunk), kg = slice(c, w->kg_t, chunk);
    vr_t v_new = vr_gg_sub(g, v_t, vr_gg_mul_mat(g, k, *s));
    vr_t within = vr_gg_mul_mat(g, v_new, kq), before = vr_gg_mul_mat(g, *s, q);
    *v = vr_gg_set_inplace(g, *v, vr_gg_add(g, before, within));
    vr_t gained = vr_gg_mul_mat(g, kg, v_new);
    *s = vr_gg_add(g, vr_gg_mul(g, *s, slice(c, w->last, chunk)), gained);
}

/* The part of the chunks' products that does not depend on the state. */
static vr_t before_walk(vr_lm_graph *c, const chunked *h, walk *w)
{
    vr_gg *g = c->g;
    w->kq = vr_gg_tri(g, h->kq);
    vr_t inverse = solved(c, h);
    vr_t v = vr_gg_mul_mat(g, turned(c, h->v_b), inverse);
    vr_t grown = vr_gg_unary_of(g, h->sum, VR_GG_EXP);
    vr_t k_b = turned(c, h->k_b);
    w->k_decayed = vr_gg_mul_mat(g, vr_gg_mul(g, k_b, grown), inverse);
    w->q = vr_gg_mul(g, h->q, turned(c, grown));
    vr_t s = h->sum;
    vr_t last = vr_gg_view_4d(g, s, 1, s->ne[1], s->ne[2], s->ne[3], s->nb[1], s->nb[2], s->nb[3],
                              vr_mul_sat(s->ne[0] - 1, s->nb[0]));
    last = vr_gg_cont(g, last);
    w->last = vr_gg_transpose(g, vr_gg_unary_of(g, last, VR_GG_EXP));
    vr_t left = vr_gg_unary_of(g, vr_gg_sub(g, s, last), VR_GG_NEG);
    vr_t kg = vr_gg_mul(g, h->k, turned(c, vr_gg_unary_of(g, left, VR_GG_EXP)));
    w->kg_t = turned(c, kg);
    return v;
}

static vr_t by_chunks(vr_lm_graph *c, vr_lm_delta *d)
{
    vr_gg *g = c->g;
    chunked h;
    if (!into_chunks(c, &h, d))
        return d->v;
    if (h.by_channel)
        products_by_channel(c, &h);
    else
        products_by_head(c, &h);
    walk w;
    vr_t v = before_walk(c, &h, &w);
    vr_t s = vr_gg_reshape_4d(g, d->state, h.w.value, h.w.value, 1, h.rows);
    w.v_t = turned(c, v);
    for (uint64_t chunk = 0; chunk < h.n && !vr_lm_stopped(c); chunk++)
        step(c, &w, chunk, &v, &s);
    uint64_t row = vr_gg_row_size(v->type, h.w.value), head = vr_mul_sat(row, h.size * h.n);
    vr_t out = vr_gg_view_4d(g, v, h.w.value, h.w.tokens, h.w.heads, h.w.seqs, row, head,
                             vr_mul_sat(head, h.w.heads), 0);
    d->state = vr_gg_reshape_4d(g, s, h.w.value, h.w.value, h.w.heads, h.w.seqs);
    return vr_gg_permute(g, out, 0, 2, 1, 3);
}

/* ---- all three ---- */

vr_t vr_lm_delta_norm(vr_lm_graph *c, vr_t x)
{
    return c->plan->rules.delta_rms != 0 ? vr_gg_scale(c->g, vr_gg_rms_norm(c->g, x))
                                         : vr_gg_l2_norm(c->g, x);
}

vr_t vr_lm_build_delta_net(vr_lm_graph *c, vr_lm_delta *d, int il)
{
    widths w = widths_of(d);
    if (w.key != w.value || w.key_heads == 0 || w.heads % w.key_heads || w.tokens == 0)
        vr_lm_broken(c, "widths of a delta net do not match");
    if (vr_lm_stopped(c))
        return d->v;
    if (w.tokens == 1 ? c->settled.fused_gdn_ar : c->settled.fused_gdn_ch)
        return fused(c, d, il);
    return w.tokens == 1 ? one_token(c, d) : by_chunks(c, d);
}

/* Always in one operation, which gives the states behind each of the last tokens. */
static vr_t kept_states(vr_lm_graph *c, vr_lm_delta *d, vr_t kept, uint64_t n, int il)
{
    vr_gg *g = c->g;
    widths w = widths_of(d);
    vr_t all = vr_gg_gated_delta_net_kept(g, d->q, d->k, d->v, d->gate, d->beta, d->state, n);
    vr_lm_fused(c, w.tokens == 1 ? VR_LM_FUSED_GDN_AR : VR_LM_FUSED_GDN_CH, all, il);
    uint64_t e = all->nb[0], row = vr_mul_sat(w.value, e), token = vr_mul_sat(row, w.heads);
    uint64_t seq = vr_mul_sat(token, w.tokens), width = vr_mul_sat(vr_mul_sat(w.value, w.value), w.heads);
    uint64_t state = vr_mul_sat(width, e), written = w.tokens < n ? w.tokens : n;
    vr_t out = vr_gg_view_4d(g, all, w.value, w.heads, w.tokens, w.seqs, row, token, seq, 0);
    vr_t from = vr_gg_view_3d(g, all, width, w.seqs, written, state, vr_mul_sat(state, w.seqs),
                              vr_mul_sat(seq, w.seqs));
    vr_t place = vr_gg_view_3d(g, kept, width, w.seqs, written, kept->nb[1],
                               vr_mul_sat(c->plan->caches[il].r_rows, kept->nb[1]), 0);
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, from, place));
    return out;
}

vr_t vr_lm_build_recurrent_attn(vr_lm_graph *c, vr_lm_delta *d, int il)
{
    vr_gg *g = c->g;
    uint64_t seqs = d->state->ne[3], n = c->plan->caches[il].r_kept;
    vr_t kept = vr_lm_kept_of(c, il)->s;
    if (kept && n > 1 && !vr_lm_stopped(c))
        return kept_states(c, d, kept, n, il);
    vr_t out = vr_lm_build_delta_net(c, d, il);
    if (!kept || vr_lm_stopped(c))
        return out;
    vr_t place = vr_gg_view_2d(g, kept, kept->ne[0], seqs, kept->nb[1], 0);
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, d->state, place));
    return out;
}

vr_t vr_lm_build_conv_state(vr_lm_graph *c, vr_t mixed, uint64_t kernel, uint64_t channels, int il)
{
    vr_gg *g = c->g;
    vr_t kept = vr_lm_kept_of(c, il)->r;
    if (!kept || kernel == 0) {
        vr_lm_broken(c, "a convolution without a state");
        return mixed;
    }
    vr_t states = vr_lm_build_rs(c, kept, kept->ne[0], c->n_seqs, NULL, NULL);
    states = vr_gg_reshape_3d(g, states, kernel - 1, channels, c->n_seqs);
    vr_t input = vr_gg_concat(g, states, vr_gg_transpose(g, mixed), 0);
    uint64_t n = c->plan->caches[il].r_kept, end = input->ne[0] - states->ne[0];
    uint64_t row = vr_mul_sat(kernel - 1, channels);
    for (uint64_t back = n; back-- > 0 && !vr_lm_stopped(c);) {
        vr_t last = vr_gg_view_3d(g, input, kernel - 1, channels, c->n_seqs, input->nb[1], input->nb[2],
                                  vr_mul_sat(vr_sub_floor(end, back), input->nb[0]));
        vr_t place = vr_gg_view_2d(g, kept, row, c->n_seqs, kept->nb[1],
                                   vr_mul_sat(vr_mul_sat(back, c->plan->caches[il].r_rows), kept->nb[1]));
        vr_gg_build_forward_expand(g, vr_gg_cpy(g, last, place));
    }
    return input;
}
