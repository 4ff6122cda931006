/* SPDX-License-Identifier: MIT
 * One vector of a text, behind the graph of a model that is asked for embeddings.
 *
 * Source: llama.cpp b10470, src/llama-graph.cpp (build_pooling, build_dense_out). */
#include "llama/arch.h"

/* enum llama_pooling_type */
enum { POOL_NONE, POOL_MEAN, POOL_CLS, POOL_LAST, POOL_RANK };

static vr_t mean_of(vr_lm_graph *c, vr_t x)
{
    vr_t mean = vr_gg_input(c->g, "inp_mean", VR_F32, c->n_tokens, c->n_seqs, 1, 1);
    return vr_gg_mul_mat(c->g, vr_gg_cont(c->g, vr_gg_transpose(c->g, x)), mean);
}

static vr_t one_of(vr_lm_graph *c, vr_t x)
{
    return vr_gg_get_rows(c->g, x, vr_gg_input(c->g, "inp_cls", VR_I32, c->n_seqs, 1, 1, 1));
}

static vr_t plus(vr_lm_graph *c, vr_t x, const char *name)
{
    vr_t b = vr_lm_outside_opt(c, name);
    return b ? vr_gg_add(c->g, x, b) : x;
}

/* A head that says how well two texts go together. */
static vr_t rank_of(vr_lm_graph *c, vr_t x)
{
    vr_gg *g = c->g;
    bool modern = vr_str_is(c->lm->name, "modern-bert");
    vr_t cur = modern ? mean_of(c, x) : one_of(c, x);
    vr_t cls = vr_lm_outside_opt(c, "cls.weight"), norm = vr_lm_outside_opt(c, "cls.norm.weight");
    vr_t out = vr_lm_outside_opt(c, "cls.output.weight");
    if (cls) {
        cur = plus(c, vr_gg_mul_mat(g, cls, cur), "cls.bias");
        cur = vr_gg_unary_of(g, cur, modern ? VR_GG_GELU : VR_GG_TANH);
        if (norm)
            cur = vr_lm_build_norm(c, cur, norm, NULL, VR_LM_NORM, -1);
    }
    if (out)
        cur = plus(c, vr_gg_mul_mat(g, out, cur), "cls.output.bias");
    if (vr_str_is(c->lm->name, "qwen3") || vr_str_is(c->lm->name, "qwen3vl"))
        cur = vr_gg_soft_max(g, cur);
    return cur;
}

static vr_t pooled(vr_lm_graph *c, vr_t x)
{
    switch (vr_lm_number(c->lm, "pooling_type", POOL_NONE)) {
    case POOL_MEAN:
        return mean_of(c, x);
    case POOL_CLS:
    case POOL_LAST:
        return one_of(c, x);
    case POOL_RANK:
        return rank_of(c, x);
    default:
        return x;
    }
}

/* Matrices of sentence-transformers behind it. */
static vr_t dense(vr_lm_graph *c, vr_t cur)
{
    vr_t second = vr_lm_outside_opt(c, "dense_2.weight"), third = vr_lm_outside_opt(c, "dense_3.weight");
    vr_t bias = vr_lm_outside_opt(c, "dense_2.bias");
    if (second)
        cur = vr_gg_mul_mat(c->g, second, cur);
    if (bias)
        cur = vr_gg_add(c->g, cur, bias);
    return third ? vr_gg_mul_mat(c->g, third, cur) : cur;
}

void vr_lm_build_pooling(vr_lm_graph *c)
{
    if (!c->p->embeddings || !c->embd || vr_lm_stopped(c))
        return;
    vr_t cur = pooled(c, c->embd);
    vr_gg_build_forward_expand(c->g, cur);
    cur = dense(c, cur);
    vr_gg_build_forward_expand(c->g, cur);
    vr_gg_set_output(cur);
}
