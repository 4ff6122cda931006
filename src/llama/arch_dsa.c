/* SPDX-License-Identifier: MIT
 * DeepSeek-V3.2 and GLM-5: latent attention over the tokens that an indexer with keys of its own chose.
 *
 * Source: llama.cpp b10470, src/models/deepseek32.cpp, glm-dsa.cpp, src/llama-graph.cpp
 * (build_attn_inp_k_dsa, build_attn), src/llama-kv-cache-dsa.cpp. */
#include "llama/archs_more.h"
#include "llama/mla.h"
#include "llama/predicted.h"

/* The indexer: its widths and inputs. */
typedef struct indexer {
    uint64_t head, heads, top;
    vr_t idxs, mask, rot;
} indexer;

static bool indexer_of(vr_lm_graph *c, indexer *x)
{
    const vr_lm *lm = c->lm;
    x->head = vr_lm_number(lm, "attention.indexer.key_length", 0);
    x->heads = vr_lm_number(lm, "attention.indexer.head_count", 0);
    x->top = vr_lm_number(lm, "attention.indexer.top_k", 0);
    if (x->head == 0 || x->heads == 0 || x->top == 0 || x->head % 64 != 0)
        vr_lm_broken(c, "an indexer without heads, or with heads that are no multiple of 64");
    return !vr_lm_stopped(c);
}

static void make_inputs(vr_lm_graph *c, indexer *x)
{
    vr_gg *g = c->g;
    uint64_t streams = c->plan->n_stream > 0 ? c->plan->n_stream : 1, n = 64;
    vr_lm_inp_attn_k(c);
    x->idxs = vr_gg_input(g, "index_k_idxs", VR_I64, c->n_tokens, 1, 1, 1);
    x->mask = vr_gg_input(g, "index_mask", c->settled.fused_lid ? VR_F16 : VR_F32, c->plan->cells,
                          c->n_tokens / streams, 1, streams);
    while (x->head % (2 * n) == 0)
        n *= 2;
    x->rot = vr_gg_input(g, "index_k_rot", VR_F32, n, n, 1, 1);
}

/* ---- which tokens ---- */

/* The kept keys, all of them: [head, 1, cells, streams]. */
static vr_t kept_keys(vr_lm_graph *c, const indexer *x, vr_t cache)
{
    uint64_t row = vr_gg_row_size(cache->type, cache->ne[0]);
    return vr_gg_view_4d(c->g, cache, x->head, 1, cache->ne[1], cache->ne[2],
                         vr_gg_row_size(cache->type, x->head), row, vr_mul_sat(row, cache->ne[1]), 0);
}

static void keep_keys(vr_lm_graph *c, const indexer *x, vr_t cache, vr_t k)
{
    vr_gg *g = c->g;
    vr_t rows = vr_gg_view_2d(g, k, x->head, c->n_tokens, k->nb[2], 0);
    if (cache->ne[2] > 1)
        cache = vr_gg_reshape_2d(g, cache, x->head, vr_mul_sat(cache->ne[1], cache->ne[2]));
    vr_gg_build_forward_expand(g, vr_gg_set_rows(g, cache, rows, x->idxs));
}

static vr_t scores(vr_lm_graph *c, const indexer *x, vr_t q, vr_t k, vr_t weights, int il)
{
    vr_gg *g = c->g;
    uint64_t s = k->ne[3] > 0 ? k->ne[3] : 1;
    q = vr_gg_view_4d(g, q, q->ne[0], q->ne[1], q->ne[2] / s, s, q->nb[1], q->nb[2], q->nb[3] / s, 0);
    weights = vr_gg_view_4d(g, weights, weights->ne[0], weights->ne[1] / s, weights->ne[2], s, weights->nb[1],
                            weights->nb[2] / s, weights->nb[3] / s, 0);
    weights = vr_gg_scale(g, weights);
    return vr_lm_index_scores(c, q, k, weights, x->mask, il);
}

/* latent: of the query. */
static vr_t choose(vr_lm_graph *c, const indexer *x, vr_t latent, vr_t cur, int il)
{
    vr_gg *g = c->g;
    vr_t cache = vr_lm_kept_of(c, il)->index;
    if (cache == NULL) {
        vr_lm_broken(c, "an indexer without keys");
        return latent;
    }
    vr_t q = vr_lm_bare_mm(c, il, "indexer.attn_q_b", latent);
    q = vr_lm_rope(c, vr_gg_reshape_3d(g, q, x->head, x->heads, c->n_tokens), NULL);
    vr_t k = vr_lm_bare_mm(c, il, "indexer.attn_k", cur);
    k = vr_lm_build_norm(c, k, vr_lm_opt(c, il, "indexer.k_norm.weight"),
                         vr_lm_opt(c, il, "indexer.k_norm.bias"), VR_LM_NORM, il);
    k = vr_lm_rope(c, vr_gg_reshape_3d(g, k, x->head, 1, c->n_tokens), NULL);
    q = vr_gg_mul_mat(g, x->rot, q);
    k = vr_gg_mul_mat(g, x->rot, k);
    keep_keys(c, x, cache, k);
    vr_t weights = vr_lm_bare_mm(c, il, "indexer.proj", cur);
    vr_t all = scores(c, x, q, kept_keys(c, x, cache), weights, il);
    return vr_gg_cont(g, vr_gg_top_k(g, all, all->ne[0] < x->top ? all->ne[0] : x->top));
}

/* ---- attention over them ---- */

static vr_t attend_chosen(vr_lm_graph *c, const vr_lm_attention *a, vr_t top, int il)
{
    vr_gg *g = c->g;
    vr_gg_build_forward_expand(g, a->q);
    vr_gg_build_forward_expand(g, a->v);
    vr_gg_build_forward_expand(g, a->k);
    vr_gg_build_forward_expand(g, vr_lm_cpy_k(c, a->k, c->full.k_idxs, il));
    vr_t mask = vr_lm_chosen_mask(c, VR_F32, c->full.mask, top), k = vr_lm_get_k(c, il);
    vr_t v = vr_gg_view_4d(g, k, a->v->ne[0], k->ne[1], k->ne[2], k->ne[3], k->nb[1], k->nb[2], k->nb[3], 0);
    return vr_lm_mm(c, a->wo, vr_lm_attn_mha(c, a->q, k, v, mask, a, il), a->wo_s);
}

/* *top: what the layer before chose, then what this one has. */
static vr_t attention(vr_lm_graph *c, const vr_lm_mla *m, const indexer *x, vr_t cur, vr_t *top, int il)
{
    vr_t latent = vr_lm_rms(c, vr_lm_bare_mm(c, il, "attn_q_a", cur), il, "attn_q_a_norm");
    if (vr_lm_chooses_itself(c->lm, (uint32_t)il))
        *top = choose(c, x, latent, cur, il);
    if (*top == NULL)
        vr_lm_broken(c, "the first layer chooses no tokens");
    if (vr_lm_stopped(c))
        return cur;
    vr_lm_halves h = vr_lm_mla_halves(c, m, vr_lm_bare_mm(c, il, "attn_q_b", latent), cur, il, true);
    vr_lm_attention a = vr_lm_mla_absorbed(c, m, &h, il);
    return attend_chosen(c, &a, *top, il);
}

/* ---- the rest ---- */

static vr_t ffn(vr_lm_graph *c, vr_t cur, int il, bool dense)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, dense ? "" : "_shexp", VR_LM_SILU, VR_LM_FFN_PAR);
    f.up_b = f.gate_b = f.down_b = NULL;
    if (dense)
        return vr_lm_build_ffn(c, cur, &f);
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, norm_w, vr_lm_gating_of(c->lm, VR_LM_SIGMOID));
    m.gate_inp_b = m.up_b = m.gate_b = m.down_b = m.gate_up_b = NULL;
    vr_t out = vr_lm_build_moe(c, cur, &m);
    return vr_gg_add(c->g, out, vr_lm_build_ffn(c, cur, &f));
}

void vr_lm_build_dsa(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_lm_mla m;
    indexer x;
    vr_t top = NULL;
    uint64_t dense = vr_lm_number(c->lm, "leading_dense_block_count", 0);
    if (!vr_lm_mla_of(c, &m) || !indexer_of(c, &x))
        return;
    vr_t cur = vr_lm_inp_embd(c);
    make_inputs(c, &x);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = attention(c, &m, &x, vr_lm_rms(c, cur, il, "attn_norm"), &top, il);
        vr_lm_select_unless_handed(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il, (uint64_t)il < dense);
        cur = vr_gg_add(g, cur, residual);
    }
    vr_lm_finish_handed(c, cur);
}

/* ---- what predicts: attention to all tokens ---- */

static vr_t to_all(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_mla m;
    if (!vr_lm_mla_of(c, &m))
        return cur;
    vr_t latent = vr_lm_rms(c, vr_lm_bare_mm(c, il, "attn_q_a", cur), il, "attn_q_a_norm");
    vr_lm_halves h = vr_lm_mla_halves(c, &m, vr_lm_bare_mm(c, il, "attn_q_b", latent), cur, il, true);
    vr_lm_attention a = vr_lm_mla_absorbed(c, &m, &h, il);
    return vr_lm_build_attn(c, &a, il);
}

static vr_t experts(vr_lm_graph *c, vr_t cur, int il)
{
    return ffn(c, cur, il, false);
}

void vr_lm_predict_dsa(vr_lm_graph *c)
{
    vr_lm_inp_attn_k(c);
    vr_lm_predicted(c, to_all, experts, VR_LM_WANTED_BEHIND_NORM);
}
