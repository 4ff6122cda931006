/* SPDX-License-Identifier: MIT
 * From vectors of tokens to what embedding and reranking servers return.
 *
 * Source: llama.cpp b10470, src/llama-graph.cpp: build_pooling, build_dense_out. */
#include "llama/graph.h"

static vr_lm_pooling pooling_of(const vr_lm_graph *c)
{
    if (c->p->pooling != VR_LM_POOL_FILE)
        return (vr_lm_pooling)c->p->pooling;
    uint64_t n = vr_lm_number(c->lm, "pooling_type", 0);
    return n <= 4 ? (vr_lm_pooling)(n + VR_LM_POOL_NONE) : VR_LM_POOL_NONE;
}

static vr_t mean(vr_lm_graph *c, vr_t rows)
{
    vr_gg *g = c->g;
    vr_t shares = vr_gg_input(g, "inp_mean", VR_F32, c->n_tokens, c->n_seqs, 1, 1);
    return vr_gg_mul_mat(g, vr_gg_cont(g, vr_gg_transpose(g, rows)), shares);
}

static vr_t one_token(vr_lm_graph *c, vr_t rows)
{
    return vr_gg_get_rows(c->g, rows, vr_gg_input(c->g, "inp_cls", VR_I32, c->n_seqs, 1, 1, 1));
}

static vr_t plus(vr_lm_graph *c, vr_t cur, const char *bias)
{
    vr_t b = vr_lm_outside_opt(c, bias);
    return b != NULL ? vr_gg_add(c->g, cur, b) : cur;
}

/* The head that says how well two texts go together. */
static vr_t rank(vr_lm_graph *c, vr_t rows)
{
    vr_gg *g = c->g;
    bool modern = vr_str_is(c->lm->name, "modern-bert");
    bool qwen = vr_str_is(c->lm->name, "qwen3") || vr_str_is(c->lm->name, "qwen3vl");
    vr_t cur = modern ? mean(c, rows) : one_token(c, rows);
    vr_t w = vr_lm_outside_opt(c, "cls.weight"), norm = vr_lm_outside_opt(c, "cls.norm.weight");
    if (w != NULL) {
        cur = plus(c, vr_gg_mul_mat(g, w, cur), "cls.bias");
        cur = vr_gg_unary_of(g, cur, modern ? VR_GG_GELU : VR_GG_TANH);
        if (norm != NULL)
            cur = vr_lm_build_norm(c, cur, norm, NULL, VR_LM_NORM, -1);
    }
    w = vr_lm_outside_opt(c, "cls.output.weight");
    if (w != NULL)
        cur = plus(c, vr_gg_mul_mat(g, w, cur), "cls.output.bias");
    return qwen ? vr_gg_soft_max(g, cur) : cur;
}

static vr_t pooled(vr_lm_graph *c, vr_t rows)
{
    switch (pooling_of(c)) {
    case VR_LM_POOL_MEAN:
        return mean(c, rows);
    case VR_LM_POOL_CLS:
    case VR_LM_POOL_LAST:
        return one_token(c, rows);
    case VR_LM_POOL_RANK:
        return rank(c, rows);
    default:
        return rows;
    }
}

void vr_lm_build_pooling(vr_lm_graph *c)
{
    if (!c->p->embeddings || c->embd == NULL)
        return;
    vr_gg *g = c->g;
    vr_t cur = pooled(c, c->embd);
    vr_gg_build_forward_expand(g, cur);
    vr_t second = vr_lm_outside_opt(c, "dense_2.weight"), third = vr_lm_outside_opt(c, "dense_3.weight");
    if (second != NULL)
        cur = plus(c, vr_gg_mul_mat(g, second, cur), "dense_2.bias");
    if (third != NULL)
        cur = vr_gg_mul_mat(g, third, cur);
    vr_gg_set_output(cur);
    vr_gg_build_forward_expand(g, cur);
}
