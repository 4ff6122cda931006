/* SPDX-License-Identifier: MIT
 * Layers that choose the tokens they attend to (DSA): what DeepSeek-V3.2, GLM and DeepSeek-V4 share.
 *
 * Source: llama.cpp b10470, src/models/deepseek32.cpp, deepseek4.cpp, src/llama-graph.cpp. */
#include "llama/arch.h"

static vr_t scores_apart(vr_lm_graph *c, vr_t q, vr_t k, vr_t weights, vr_t mask)
{
    vr_gg *g = c->g;
    q = vr_gg_permute(g, q, 0, 2, 1, 3);
    vr_t kq = vr_gg_mul_mat(g, vr_gg_permute(g, k, 0, 2, 1, 3), q);
    kq = vr_gg_cont(g, vr_gg_permute(g, kq, 2, 1, 0, 3));
    kq = vr_gg_mul(g, vr_gg_unary_of(g, kq, VR_GG_RELU), weights);
    kq = vr_gg_cont(g, vr_gg_permute(g, vr_gg_sum_rows(g, kq), 2, 1, 0, 3));
    return vr_gg_add(g, kq, mask);
}

vr_t vr_lm_index_scores(vr_lm_graph *c, vr_t q, vr_t k, vr_t weights, vr_t mask, int il)
{
    if (!c->settled.fused_lid)
        return scores_apart(c, q, k, weights, mask);
    vr_t t = vr_gg_lightning_indexer(c->g, q, k, weights, mask);
    vr_lm_fused(c, VR_LM_FUSED_LID, t, il);
    return t;
}

vr_t vr_lm_chosen_mask(vr_lm_graph *c, vr_dtype type, vr_t mask, vr_t top)
{
    vr_gg *g = c->g;
    vr_t all = vr_gg_fill(g, mask);
    all = vr_gg_view_4d(g, all, 1, all->ne[0], all->ne[1], all->ne[3], all->nb[0], all->nb[1], all->nb[2], 0);
    vr_t at = vr_gg_view_4d(g, top, top->ne[0], top->ne[1], top->ne[3], 1, top->nb[1], top->nb[2],
                            vr_mul_sat(top->ne[3], top->nb[3]), 0);
    vr_t open = vr_gg_fill(g, vr_gg_new_4d(g, type, 1, at->ne[0], at->ne[1], at->ne[2]));
    vr_t chosen = vr_gg_set_rows(g, all, open, at);
    chosen = vr_gg_view_4d(g, chosen, chosen->ne[1], chosen->ne[2], 1, chosen->ne[3], chosen->nb[2],
                           chosen->nb[3], chosen->nb[3], 0);
    return vr_gg_add(g, chosen, mask);
}
