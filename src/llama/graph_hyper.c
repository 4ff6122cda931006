/* SPDX-License-Identifier: MIT
 * Hyper connections: a token has four residuals, mixed before and behind each part of a layer.
 *
 * Source: llama.cpp b10470, src/models/deepseek4.cpp: build_hc_pre, build_hc_post, build_hc_sinkhorn,
 * build_hc_head. */
#include "llama/hyper.h"

#define RESIDUALS 4
#define ITERATIONS_MOST 256 /* that are written out where the operation is not fused */

static uint64_t iterations(const vr_lm_graph *c)
{
    return vr_lm_number(c->lm, "hyper_connection.sinkhorn_iterations", 0);
}

bool vr_lm_hyper_sane(vr_lm_graph *c)
{
    if (vr_lm_number(c->lm, "hyper_connection.count", 0) != RESIDUALS)
        vr_lm_broken(c, "a token has other than four residuals");
    else if (iterations(c) == 0 || iterations(c) > ITERATIONS_MOST)
        vr_lm_broken(c, "more iterations to mix residuals than are looked at, or none");
    return !vr_lm_stopped(c);
}

static vr_t part_1d(vr_lm_graph *c, vr_t t, uint64_t n, uint64_t from)
{
    return vr_gg_view_1d(c->g, t, n, vr_gg_row_size((vr_dtype)t->type, from));
}

static vr_t part_2d(vr_lm_graph *c, vr_t t, uint64_t n, uint64_t from)
{
    return vr_gg_view_2d(c->g, t, n, t->ne[1], t->nb[1], vr_gg_row_size((vr_dtype)t->type, from));
}

static vr_t affine(vr_lm_graph *c, vr_t x, vr_t scale, vr_t base)
{
    return vr_gg_add(c->g, vr_gg_mul(c->g, x, scale), base);
}

static vr_t squashed(vr_lm_graph *c, vr_t x)
{
    return vr_gg_scale(c->g, vr_gg_unary_of(c->g, x, VR_GG_SIGMOID));
}

/* One residual of all tokens; one column of weights. */
static vr_t residual(vr_lm_graph *c, vr_t x, uint64_t i)
{
    return vr_gg_view_2d(c->g, x, x->ne[0], x->ne[2], x->nb[2], vr_mul_sat(i, x->nb[1]));
}

static vr_t weighted_sum(vr_lm_graph *c, vr_t x, vr_t weights, int il)
{
    vr_gg *g = c->g;
    if (c->settled.fused_hc_pre && il >= 0) {
        vr_t fused = vr_gg_dsv4_hc_pre(g, x, weights);
        vr_lm_fused(c, VR_LM_FUSED_HC_PRE, fused, il);
        return fused;
    }
    vr_t sum = NULL;
    for (uint64_t i = 0; i < RESIDUALS; i++) {
        vr_t w = vr_gg_view_2d(g, weights, 1, x->ne[2], weights->nb[1], i * weights->nb[0]);
        vr_t t = vr_gg_mul(g, residual(c, x, i), w);
        sum = sum != NULL ? vr_gg_add(g, sum, t) : t;
    }
    return sum;
}

static vr_t columns_normed(vr_lm_graph *c, vr_t x, vr_t eps)
{
    vr_gg *g = c->g;
    vr_t sum = vr_gg_sum_rows(g, vr_gg_cont(g, vr_gg_permute(g, x, 1, 0, 2, 3)));
    return vr_gg_div(g, x, vr_gg_permute(g, vr_gg_add(g, sum, eps), 1, 0, 2, 3));
}

static vr_t sinkhorn(vr_lm_graph *c, vr_t x)
{
    vr_gg *g = c->g;
    x = vr_gg_soft_max(g, x);
    vr_t eps = vr_gg_fill(g, vr_gg_new_1d(g, VR_F32, 1));
    x = columns_normed(c, vr_gg_add(g, x, eps), eps);
    for (uint64_t i = 1; i < iterations(c); i++) {
        x = vr_gg_div(g, x, vr_gg_add(g, vr_gg_sum_rows(g, x), eps));
        x = columns_normed(c, x, eps);
    }
    return x;
}

static vr_t combination(vr_lm_graph *c, vr_t mixes, vr_t scale, vr_t base, int il)
{
    vr_gg *g = c->g;
    if (c->settled.fused_hc_comb) {
        vr_t fused = vr_gg_dsv4_hc_comb(g, mixes, scale, base);
        vr_lm_fused(c, VR_LM_FUSED_HC_COMB, fused, il);
        return fused;
    }
    uint64_t square = RESIDUALS * RESIDUALS, from = 2 * RESIDUALS;
    vr_t scale_part = part_1d(c, scale, 1, 2), base_part = part_1d(c, base, square, from);
    vr_t t = affine(c, part_2d(c, mixes, square, from), scale_part, base_part);
    return sinkhorn(c, vr_gg_reshape_3d(g, t, RESIDUALS, RESIDUALS, mixes->ne[1]));
}

static vr_t mixes_of(vr_lm_graph *c, vr_t x, vr_t fn)
{
    vr_t flat = vr_gg_reshape_2d(c->g, x, vr_mul_sat(x->ne[0], x->ne[1]), x->ne[2]);
    return vr_gg_mul_mat(c->g, fn, vr_gg_rms_norm(c->g, flat));
}

vr_lm_hyper vr_lm_hyper_pre(vr_lm_graph *c, vr_t x, int il, const char *fn, const char *scale_name,
                            const char *base_name)
{
    vr_t mixes = mixes_of(c, x, vr_lm_w(c, il, fn)), scale = vr_lm_w(c, il, scale_name);
    vr_t base = vr_lm_w(c, il, base_name);
    vr_t pre = part_2d(c, mixes, RESIDUALS, 0), post = part_2d(c, mixes, RESIDUALS, RESIDUALS);
    pre = squashed(c, affine(c, pre, part_1d(c, scale, 1, 0), part_1d(c, base, RESIDUALS, 0)));
    post = squashed(c, affine(c, post, part_1d(c, scale, 1, 1), part_1d(c, base, RESIDUALS, RESIDUALS)));
    vr_lm_hyper h = { .post = post, .comb = combination(c, mixes, scale, base, il) };
    h.cur = weighted_sum(c, x, pre, il);
    return h;
}

/* One of the new residuals. */
static vr_t mixed(vr_lm_graph *c, vr_t x, vr_t residuals, const vr_lm_hyper *h, uint64_t to)
{
    vr_gg *g = c->g;
    uint64_t n = x->ne[1];
    vr_t post = vr_gg_view_2d(g, h->post, 1, n, h->post->nb[1], vr_mul_sat(to, h->post->nb[0]));
    vr_t cur = vr_gg_mul(g, x, post);
    for (uint64_t from = 0; from < RESIDUALS; from++) {
        uint64_t at = vr_add_sat(vr_mul_sat(to, h->comb->nb[0]), vr_mul_sat(from, h->comb->nb[1]));
        vr_t w = vr_gg_view_2d(g, h->comb, 1, n, h->comb->nb[2], at);
        cur = vr_gg_add(g, cur, vr_gg_mul(g, residual(c, residuals, from), w));
    }
    return vr_gg_reshape_3d(g, cur, x->ne[0], 1, n);
}

vr_t vr_lm_hyper_post(vr_lm_graph *c, vr_t x, vr_t residuals, const vr_lm_hyper *h, int il)
{
    vr_gg *g = c->g;
    if (c->settled.fused_hc_post) {
        vr_t fused = vr_gg_dsv4_hc_post(g, x, residuals, h->post, h->comb);
        vr_lm_fused(c, VR_LM_FUSED_HC_POST, fused, il);
        return fused;
    }
    vr_t out = mixed(c, x, residuals, h, 0);
    for (uint64_t to = 1; to < RESIDUALS; to++)
        out = vr_gg_concat(g, out, mixed(c, x, residuals, h, to), 1);
    return out;
}

vr_t vr_lm_hyper_head(vr_lm_graph *c, vr_t x)
{
    vr_t mixes = mixes_of(c, x, vr_lm_outside(c, "output_hc_fn.weight"));
    vr_t scale = vr_lm_outside(c, "output_hc_scale.weight"), base = vr_lm_outside(c, "output_hc_base.weight");
    return weighted_sum(c, x, squashed(c, affine(c, mixes, scale, base)), -1);
}
