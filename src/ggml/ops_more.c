/* SPDX-License-Identifier: MIT
 * What few models have: sorting, triangles, padding, recurrent layers, convolutions.
 * Source: ggml 0.20, ggml/src/ggml.c. */
#include "ggml/parts.h"

static vr_gg_tensor *like(vr_gg *g, vr_gg_op op, vr_gg_tensor *a)
{
    return vr_gg_by(vr_gg_make(g, a->type, a->ne), op, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_pad(vr_gg *g, vr_gg_tensor *a, uint64_t p0, uint64_t p1, uint64_t p2, uint64_t p3)
{
    a = vr_gg_given(g, a);
    vr_gg_tensor *t = vr_gg_new_4d(g, a->type, vr_add_sat(a->ne[0], p0), vr_add_sat(a->ne[1], p1),
                                   vr_add_sat(a->ne[2], p2), vr_add_sat(a->ne[3], p3));
    return vr_gg_by(t, VR_GG_PAD, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_arange(vr_gg *g, uint64_t n)
{
    vr_gg_rule(g, n > 0, "arange: empty");
    return vr_gg_by(vr_gg_new_1d(g, VR_F32, n), VR_GG_ARANGE, NULL, NULL, NULL);
}

vr_gg_tensor *vr_gg_argsort(vr_gg *g, vr_gg_tensor *a)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, a->ne[0] <= INT32_MAX, "argsort: rows too long");
    return vr_gg_by(vr_gg_make(g, VR_I32, a->ne), VR_GG_ARGSORT, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_argsort_top_k(vr_gg *g, vr_gg_tensor *a, uint64_t k)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, a->ne[0] >= k, "argsort_top_k: more than there are");
    vr_gg_tensor *t = vr_gg_argsort(g, a);
    return vr_gg_view_4d(g, t, k, t->ne[1], t->ne[2], t->ne[3], t->nb[1], t->nb[2], t->nb[3], 0);
}

vr_gg_tensor *vr_gg_top_k(vr_gg *g, vr_gg_tensor *a, uint64_t k)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, a->ne[0] >= k, "top_k: more than there are");
    return vr_gg_by(vr_gg_new_4d(g, VR_I32, k, a->ne[1], a->ne[2], a->ne[3]), VR_GG_TOP_K, a, NULL, NULL);
}

/* ---- triangles ---- */

vr_gg_tensor *vr_gg_tri(vr_gg *g, vr_gg_tensor *a)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, a->type == VR_F32 && vr_gg_is_contiguous(a) && a->ne[0] == a->ne[1],
               "tri: no square of F32");
    return like(g, VR_GG_TRI, a);
}

vr_gg_tensor *vr_gg_diag(vr_gg *g, vr_gg_tensor *a)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, a->ne[1] == 1, "diag: no vector");
    vr_gg_tensor *t = vr_gg_new_4d(g, a->type, a->ne[0], a->ne[0], a->ne[2], a->ne[3]);
    return vr_gg_by(t, VR_GG_DIAG, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_fill(vr_gg *g, vr_gg_tensor *a)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, (a->type == VR_F32 || a->type == VR_F16) && vr_gg_is_contiguous(a), "fill: type or gaps");
    return like(g, VR_GG_FILL, a);
}

vr_gg_tensor *vr_gg_solve_tri(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b)
{
    a = vr_gg_given(g, a);
    b = vr_gg_given(g, b);
    vr_gg_rule(g, a->type == VR_F32 && b->type == VR_F32, "solve_tri: no F32");
    vr_gg_rule(g,
               a->ne[0] == a->ne[1] && a->ne[1] == b->ne[1] && a->ne[2] == b->ne[2] && a->ne[3] == b->ne[3],
               "solve_tri: shapes differ");
    vr_gg_rule(g, vr_gg_is_contiguous(a) && vr_gg_is_contiguous(b), "solve_tri: not contiguous");
    return vr_gg_by(vr_gg_make(g, VR_F32, b->ne), VR_GG_SOLVE_TRI, a, b, NULL);
}

/* ---- recurrent layers ---- */

vr_gg_tensor *vr_gg_ssm_conv(vr_gg *g, vr_gg_tensor *sx, vr_gg_tensor *c)
{
    sx = vr_gg_given(g, sx);
    c = vr_gg_given(g, c);
    vr_gg_rule(g, sx->ne[3] == 1 && c->ne[2] == 1 && c->ne[3] == 1, "ssm_conv: too many axes");
    vr_gg_rule(g, vr_add_sat(sx->ne[0], 1) >= c->ne[0] && sx->ne[1] == c->ne[1], "ssm_conv: shapes differ");
    uint64_t tokens = vr_sub_floor(vr_add_sat(sx->ne[0], 1), c->ne[0]);
    return vr_gg_by(vr_gg_new_3d(g, VR_F32, c->ne[1], tokens, sx->ne[2]), VR_GG_SSM_CONV, sx, c, NULL);
}

/* Rows without gaps, one after the other. */
static bool rows_packed(const vr_gg_tensor *t)
{
    return t->nb[0] == vr_gg_element_size(t) && t->nb[1] == vr_mul_sat(t->ne[0], t->nb[0]);
}

static void check_scan_memory(vr_gg *g, vr_gg_tensor *const src[7])
{
    vr_gg_rule(g, vr_gg_is_contiguous(src[0]) && vr_gg_is_contiguous(src[2]) && vr_gg_is_contiguous(src[3]),
               "ssm_scan: not contiguous");
    vr_gg_rule(g, rows_packed(src[1]) && rows_packed(src[4]) && rows_packed(src[5]),
               "ssm_scan: rows have gaps");
}

static void check_scan(vr_gg *g, vr_gg_tensor *const src[7], uint64_t kept)
{
    const vr_gg_tensor *s = src[0], *x = src[1], *dt = src[2], *a = src[3], *b = src[4], *c = src[5],
                       *ids = src[6];
    vr_gg_rule(g, vr_gg_is_shape(dt, x->ne[1], x->ne[2], x->ne[3]) && dt->ne[3] == 1, "ssm_scan: dt");
    vr_gg_rule(g, s->ne[1] == x->ne[0] && s->ne[2] == x->ne[1], "ssm_scan: state");
    vr_gg_rule(g, b->ne[0] == s->ne[0] && b->ne[2] == x->ne[2] && b->ne[3] == x->ne[3], "ssm_scan: B");
    vr_gg_rule(g, vr_gg_same_shape(b, c), "ssm_scan: C");
    vr_gg_rule(g, ids->type == VR_I32 && vr_gg_is_shape(ids, x->ne[3], 1, 1) && ids->ne[3] == 1,
               "ssm_scan: sequences");
    vr_gg_rule(g, vr_gg_is_shape(a, a->ne[0], x->ne[1], 1) && a->ne[3] == 1, "ssm_scan: A");
    vr_gg_rule(g, a->ne[0] == 1 || (a->ne[0] == s->ne[0] && kept == 1), "ssm_scan: A's rows");
}

vr_gg_tensor *vr_gg_ssm_scan_kept(vr_gg *g, vr_gg_tensor *s, vr_gg_tensor *x, vr_gg_tensor *dt,
                                  vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_tensor *c, vr_gg_tensor *ids,
                                  uint64_t kept)
{
    vr_gg_tensor *src[7] = { s, x, dt, a, b, c, ids };
    for (int i = 0; i < 7; i++)
        src[i] = vr_gg_given(g, src[i]);
    check_scan_memory(g, src);
    check_scan(g, src, kept);
    uint64_t state = vr_mul_sat(vr_mul_sat(src[0]->ne[0], src[0]->ne[1]), src[0]->ne[2]);
    uint64_t states = vr_mul_sat(vr_mul_sat(kept, state), src[6]->ne[0]);
    vr_gg_tensor *t = vr_gg_new_1d(g, VR_F32, vr_add_sat(vr_gg_nelements(src[1]), states));
    t->op = VR_GG_SSM_SCAN;
    t->detail = kept > 1;
    for (int i = 0; i < 7; i++)
        t->src[i] = src[i];
    return t;
}

vr_gg_tensor *vr_gg_ssm_scan(vr_gg *g, vr_gg_tensor *s, vr_gg_tensor *x, vr_gg_tensor *dt, vr_gg_tensor *a,
                             vr_gg_tensor *b, vr_gg_tensor *c, vr_gg_tensor *ids)
{
    return vr_gg_ssm_scan_kept(g, s, x, dt, a, b, c, ids, 1);
}

/* The linear attentions of RWKV and its kin: outputs and the states behind them. src: n operands of the shape
 * of src[shaped], then the state; the operand `free_shape` (or -1) may have another shape. */
static vr_gg_tensor *linear(vr_gg *g, vr_gg_op op, vr_gg_tensor **src, int n, int shaped, int free_shape)
{
    for (int i = 0; i < n; i++) {
        src[i] = vr_gg_given(g, src[i]);
        vr_gg_rule(g, vr_gg_is_contiguous(src[i]), "linear attention: not contiguous");
    }
    uint64_t width = src[shaped]->ne[0], heads = src[shaped]->ne[1], tokens = src[shaped]->ne[2];
    const vr_gg_tensor *state = src[n - 1];
    uint64_t seqs = state->ne[1], row = vr_mul_sat(width, heads), states = vr_mul_sat(width, seqs);
    for (int i = 0; i < n - 1; i++)
        vr_gg_rule(g, i == free_shape || vr_gg_is_shape(src[i], width, heads, tokens),
                   "linear attention: shapes differ");
    vr_gg_rule(g, vr_gg_nelements(state) == vr_mul_sat(row, states), "linear attention: state");
    vr_gg_tensor *t = vr_gg_new_2d(g, VR_F32, row, vr_add_sat(tokens, states));
    t->op = (uint8_t)op;
    for (int i = 0; i < n; i++)
        t->src[i] = src[i];
    return t;
}

vr_gg_tensor *vr_gg_rwkv_wkv6(vr_gg *g, vr_gg_tensor *k, vr_gg_tensor *v, vr_gg_tensor *r, vr_gg_tensor *tf,
                              vr_gg_tensor *td, vr_gg_tensor *state)
{
    return linear(g, VR_GG_RWKV_WKV6, (vr_gg_tensor *[]){ k, v, r, tf, td, state }, 6, 0, 3);
}

vr_gg_tensor *vr_gg_rwkv_wkv7(vr_gg *g, vr_gg_tensor *r, vr_gg_tensor *w, vr_gg_tensor *k, vr_gg_tensor *v,
                              vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_tensor *state)
{
    return linear(g, VR_GG_RWKV_WKV7, (vr_gg_tensor *[]){ r, w, k, v, a, b, state }, 7, 2, 0);
}

vr_gg_tensor *vr_gg_gated_linear_attn(vr_gg *g, vr_gg_tensor *k, vr_gg_tensor *v, vr_gg_tensor *q,
                                      vr_gg_tensor *gate, vr_gg_tensor *state)
{
    return linear(g, VR_GG_GATED_LINEAR_ATTN, (vr_gg_tensor *[]){ k, v, q, gate, state }, 5, 0, -1);
}

static void check_delta(vr_gg *g, vr_gg_tensor *const src[6])
{
    for (int i = 0; i < 6; i++) {
        vr_gg_rule(g, src[i]->type == VR_F32, "gated_delta_net: no F32");
        vr_gg_rule(g, i < 3 ? vr_gg_contiguous_rows(src[i]) : vr_gg_is_contiguous(src[i]),
                   "gated_delta_net: gaps");
    }
    uint64_t width = src[2]->ne[0];
    vr_gg_rule(g, (src[3]->ne[0] == 1 || src[3]->ne[0] == width) && src[4]->ne[0] == 1,
               "gated_delta_net: gate");
    vr_gg_rule(g, vr_gg_is_shape(src[5], width, width, src[2]->ne[1]) && src[5]->ne[3] == src[2]->ne[3],
               "gated_delta_net: state");
}

vr_gg_tensor *vr_gg_gated_delta_net_kept(vr_gg *g, vr_gg_tensor *q, vr_gg_tensor *k, vr_gg_tensor *v,
                                         vr_gg_tensor *gate, vr_gg_tensor *beta, vr_gg_tensor *state,
                                         uint64_t kept)
{
    vr_gg_tensor *src[6] = { q, k, v, gate, beta, state };
    for (int i = 0; i < 6; i++)
        src[i] = vr_gg_given(g, src[i]);
    check_delta(g, src);
    v = src[2];
    uint64_t states = vr_mul_sat(vr_mul_sat(kept, v->ne[0]), v->ne[3]);
    vr_gg_tensor *t = vr_gg_new_2d(g, VR_F32, vr_mul_sat(v->ne[0], v->ne[1]),
                                   vr_add_sat(vr_mul_sat(v->ne[2], v->ne[3]), states));
    t->op = VR_GG_GATED_DELTA_NET;
    for (int i = 0; i < 6; i++)
        t->src[i] = src[i];
    return t;
}

vr_gg_tensor *vr_gg_gated_delta_net(vr_gg *g, vr_gg_tensor *q, vr_gg_tensor *k, vr_gg_tensor *v,
                                    vr_gg_tensor *gate, vr_gg_tensor *beta, vr_gg_tensor *state)
{
    return vr_gg_gated_delta_net_kept(g, q, k, v, gate, beta, state, 1);
}

vr_gg_tensor *vr_gg_lightning_indexer(vr_gg *g, vr_gg_tensor *q, vr_gg_tensor *k, vr_gg_tensor *weights,
                                      vr_gg_tensor *mask)
{
    q = vr_gg_given(g, q);
    k = vr_gg_given(g, k);
    weights = vr_gg_given(g, weights);
    mask = vr_gg_given(g, mask);
    vr_gg_rule(g, q->type == VR_F32 && weights->type == VR_F32 && mask->type == VR_F16,
               "lightning_indexer: type");
    vr_gg_rule(g, q->ne[0] == k->ne[0] && k->ne[1] == 1 && q->ne[3] == k->ne[3], "lightning_indexer: keys");
    vr_gg_rule(g, vr_gg_is_shape(weights, q->ne[1], q->ne[2], 1) && weights->ne[3] == k->ne[3],
               "lightning_indexer: weights");
    vr_gg_rule(g, vr_gg_is_shape(mask, k->ne[2], q->ne[2], 1) && vr_gg_divides(mask->ne[3], weights->ne[3]),
               "lightning_indexer: mask");
    vr_gg_tensor *t = vr_gg_new_4d(g, VR_F32, k->ne[2], q->ne[2], 1, q->ne[3]);
    t->src[3] = mask;
    return vr_gg_by(t, VR_GG_LIGHTNING_INDEXER, q, k, weights);
}

/* ---- hyper-connections ---- */

#define STREAMS 4 /* ggml takes no other number: mixes are of 4 * 4 + 2 * 4 */

static bool is_vector_of(const vr_gg_tensor *t, uint64_t ne0)
{
    return vr_gg_is_shape(t, ne0, 1, 1) && t->ne[3] == 1;
}

vr_gg_tensor *vr_gg_dsv4_hc_comb(vr_gg *g, vr_gg_tensor *mixes, vr_gg_tensor *scale, vr_gg_tensor *base)
{
    mixes = vr_gg_given(g, mixes);
    scale = vr_gg_given(g, scale);
    base = vr_gg_given(g, base);
    vr_gg_rule(g, mixes->type == VR_F32 && scale->type == VR_F32 && base->type == VR_F32,
               "dsv4_hc_comb: no F32");
    vr_gg_rule(g,
               vr_gg_is_shape(mixes, STREAMS * STREAMS + 2 * STREAMS, mixes->ne[1], 1) && mixes->ne[3] == 1,
               "dsv4_hc_comb: mixes");
    vr_gg_rule(g, scale->ne[0] >= 3 && is_vector_of(scale, scale->ne[0]), "dsv4_hc_comb: scale");
    vr_gg_rule(g, is_vector_of(base, mixes->ne[0]), "dsv4_hc_comb: base");
    return vr_gg_by(vr_gg_new_3d(g, VR_F32, STREAMS, STREAMS, mixes->ne[1]), VR_GG_DSV4_HC_COMB, mixes, scale,
                    base);
}

vr_gg_tensor *vr_gg_dsv4_hc_pre(vr_gg *g, vr_gg_tensor *x, vr_gg_tensor *weights)
{
    x = vr_gg_given(g, x);
    weights = vr_gg_given(g, weights);
    vr_gg_rule(g, x->type == VR_F32 && weights->type == VR_F32, "dsv4_hc_pre: no F32");
    vr_gg_rule(g, x->ne[1] > 0 && x->ne[3] == 1, "dsv4_hc_pre: streams");
    vr_gg_rule(g, vr_gg_is_shape(weights, x->ne[1], x->ne[2], 1) && weights->ne[3] == 1,
               "dsv4_hc_pre: weights");
    return vr_gg_by(vr_gg_new_2d(g, VR_F32, x->ne[0], x->ne[2]), VR_GG_DSV4_HC_PRE, x, weights, NULL);
}

vr_gg_tensor *vr_gg_dsv4_hc_post(vr_gg *g, vr_gg_tensor *x, vr_gg_tensor *residual, vr_gg_tensor *post,
                                 vr_gg_tensor *comb)
{
    vr_gg_tensor *src[4] = { x, residual, post, comb };
    for (int i = 0; i < 4; i++) {
        src[i] = vr_gg_given(g, src[i]);
        vr_gg_rule(g, src[i]->type == VR_F32 && src[i]->ne[3] == 1, "dsv4_hc_post: no F32, or too many axes");
    }
    uint64_t width = src[0]->ne[0], tokens = src[0]->ne[1], streams = src[1]->ne[1];
    vr_gg_rule(g, streams > 0 && src[0]->ne[2] == 1, "dsv4_hc_post: streams");
    vr_gg_rule(g, vr_gg_is_shape(src[1], width, streams, tokens), "dsv4_hc_post: residual");
    vr_gg_rule(g, vr_gg_is_shape(src[2], streams, tokens, 1), "dsv4_hc_post: post");
    vr_gg_rule(g, vr_gg_is_shape(src[3], streams, streams, tokens), "dsv4_hc_post: comb");
    vr_gg_tensor *t = vr_gg_new_3d(g, VR_F32, width, streams, tokens);
    t->src[3] = src[3];
    return vr_gg_by(t, VR_GG_DSV4_HC_POST, src[0], src[1], src[2]);
}

/* ---- convolutions ---- */

/* Places of a kernel, as ggml's division counts them: a kernel that is too large by less than a step has one.
 * 0: it does not fit. */
static uint64_t places(uint64_t length, uint64_t kernel, uint64_t stride, uint64_t pad, uint64_t dilate)
{
    uint64_t padded = vr_add_sat(vr_add_sat(length, vr_mul_sat(2, pad)), dilate);
    int64_t free_steps = vr_diff(padded, vr_add_sat(vr_mul_sat(dilate, kernel), 1));
    if (stride == 0 || stride > INT32_MAX)
        return 0;
    int64_t n = free_steps / (int64_t)stride + 1;
    return n > 0 ? (uint64_t)n : 0;
}

vr_gg_tensor *vr_gg_im2col(vr_gg *g, vr_gg_tensor *kernel, vr_gg_tensor *a, uint64_t stride0,
                           uint64_t stride1, uint64_t pad0, uint64_t pad1, uint64_t dilate0, uint64_t dilate1,
                           bool two_d, vr_dtype type)
{
    kernel = vr_gg_given(g, kernel);
    a = vr_gg_given(g, a);
    vr_gg_rule(g, two_d ? kernel->ne[2] == a->ne[2] : a->ne[1] == kernel->ne[1] && a->ne[3] == 1,
               "im2col: channels differ");
    uint64_t wide = places(a->ne[0], kernel->ne[0], stride0, pad0, dilate0);
    uint64_t high = two_d ? places(a->ne[1], kernel->ne[1], stride1, pad1, dilate1) : a->ne[2];
    vr_gg_rule(g, wide > 0 && high > 0, "im2col: smaller than the kernel");
    uint64_t row = vr_mul_sat(kernel->ne[0], kernel->ne[1]);
    vr_gg_tensor *t =
        vr_gg_new_4d(g, type, two_d ? vr_mul_sat(row, kernel->ne[2]) : row, wide, high, two_d ? a->ne[3] : 1);
    return vr_gg_by(t, VR_GG_IM2COL, kernel, a, NULL);
}

vr_gg_tensor *vr_gg_pool_2d(vr_gg *g, vr_gg_tensor *a, uint64_t kernel0, uint64_t kernel1, uint64_t step0,
                            uint64_t step1)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, kernel0 > 0 && kernel1 > 0 && a->ne[0] >= kernel0 && a->ne[1] >= kernel1,
               "pool_2d: smaller than the window");
    vr_gg_tensor *t = vr_gg_new_4d(g, VR_F32, places(a->ne[0], kernel0, step0, 0, 1),
                                   places(a->ne[1], kernel1, step1, 0, 1), a->ne[2], a->ne[3]);
    return vr_gg_by(t, VR_GG_POOL_2D, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_interpolate(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                uint64_t ne3)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, a->type == VR_F32, "interpolate: no F32");
    return vr_gg_by(vr_gg_new_4d(g, VR_F32, ne0, ne1, ne2, ne3), VR_GG_UPSCALE, a, NULL, NULL);
}
