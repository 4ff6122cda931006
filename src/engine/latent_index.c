/* SPDX-License-Identifier: MIT
 * DeepSeek's sparse attention: an index with heads of its own scores every earlier token, the best are kept,
 * and the mask leaves out the others: all keys and values are there all the same (GlmMoeDsaIndexer and
 * DeepseekV32Indexer in modeling_glm_moe_dsa.py and modeling_deepseek_v32.py of transformers 5.17, 5.24).
 * What topk takes inside on a card while it sorts is left out. */
#include "engine/latent.h"

static vr_block piece(vr_pass *p, uint64_t bytes)
{
    return vr_take(p, bytes, VR_ITEM_SCORES, VR_STEP_INDEX);
}

static uint64_t tokens(const vr_pass *p)
{
    return p->group->past + p->q;
}

/* ---- queries and keys ---- */

/* F.layer_norm over the index's key; in CUDA mean and deviation are in 32 bits */
static vr_block key_normalised(vr_pass *p, vr_block key)
{
    vr_block out = piece(p, p->rows * vr_layer_of(p)->index_dim * p->width);
    vr_block mean = vr_take_at(p, p->rows * 4, VR_ITEM_HIDDEN, VR_PLACE_STATISTICS);
    vr_block deviation = vr_take_at(p, p->rows * 4, VR_ITEM_HIDDEN, VR_PLACE_STATISTICS);
    vr_drop(p, deviation);
    vr_drop(p, mean);
    vr_drop(p, key);
    return out;
}

/* DynamicIndexedLayer.update_indexer */
static void keep_keys(vr_pass *p, vr_block fresh)
{
    vr_kv *kv = &p->group->layers[p->layer];
    uint64_t bytes = p->batch * tokens(p) * vr_layer_of(p)->index_dim * p->width;
    vr_block all = vr_take(p, bytes, VR_ITEM_KV, VR_STEP_INDEX_KEYS);
    vr_drop(p, kv->index);
    vr_drop(p, fresh);
    kv->index = all;
}

typedef struct index_states {
    vr_block q, k, rotated_q, rotated_k, turned_q, weights, scores, masked;
} index_states;

static void project(vr_pass *p, index_states *s)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t heads = l->index_heads, dim = l->index_dim;
    vr_block (*rotate)(vr_pass *, uint64_t) = p->m->family->index_shared ? vr_rotate_pairs : vr_rotate_halves;
    s->q = vr_linear(p, l->query_latent, heads * dim, false, VR_ITEM_SCORES, VR_STEP_INDEX);
    s->k = key_normalised(p, vr_linear(p, p->m->hidden, dim, false, VR_ITEM_SCORES, VR_STEP_INDEX));
    s->rotated_q = rotate(p, heads);
    s->rotated_k = rotate(p, 1);
    s->turned_q = piece(p, p->rows * heads * dim * p->width);
    keep_keys(p, piece(p, p->rows * dim * p->width));
}

/* ---- scores ---- */

/* relu(q.float() @ k.float()^T * scale): one key serves all heads of a token; over several sequences it is
 * copied for each token. */
static vr_block scored(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t n = p->rows * l->index_heads * tokens(p) * 4;
    bool copies = p->width != 4;
    vr_block q = copies ? piece(p, p->rows * l->index_heads * l->index_dim * 4) : VR_NONE;
    vr_block k = copies ? piece(p, p->batch * tokens(p) * l->index_dim * 4) : VR_NONE;
    vr_block spread = p->batch > 1 && p->q > 1 ? piece(p, p->rows * tokens(p) * l->index_dim * 4) : VR_NONE;
    vr_block product = piece(p, n);
    vr_gemm(p, false);
    vr_drop(p, spread);
    vr_drop(p, q);
    vr_drop(p, k);
    vr_block scaled = piece(p, n);
    vr_drop(p, product);
    vr_block out = piece(p, n);
    vr_drop(p, scaled);
    return out;
}

static vr_block weighted_heads(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    vr_block projected = vr_linear(p, p->m->hidden, l->index_heads, false, VR_ITEM_SCORES, VR_STEP_INDEX);
    vr_block wide = p->width != 4 ? piece(p, p->rows * l->index_heads * 4) : VR_NONE;
    vr_drop(p, p->width != 4 ? projected : VR_NONE);
    vr_block out = piece(p, p->rows * l->index_heads * 4);
    vr_drop(p, p->width != 4 ? wide : projected);
    return out;
}

/* The sum over heads, -infinity or the least number where the mask says so. */
static vr_block masked(vr_pass *p)
{
    uint64_t n = p->rows * tokens(p) * 4;
    vr_block sum = piece(p, n);
    vr_gemm(p, false);
    vr_block turned = p->w->attention != VR_IMPL_EAGER ? piece(p, p->rows * tokens(p)) : VR_NONE;
    vr_block out = piece(p, n);
    vr_drop(p, turned);
    vr_drop(p, sum);
    return out;
}

static vr_block best(vr_pass *p)
{
    uint64_t n = vr_layer_of(p)->index_topk;
    n = p->rows * (n < tokens(p) ? n : tokens(p));
    vr_block values = piece(p, n * 4), places = piece(p, n * 8);
    vr_drop(p, values);
    vr_block out = piece(p, n * 4);
    vr_drop(p, places);
    return out;
}

static vr_block run_index(vr_pass *p)
{
    index_states s;
    project(p, &s);
    s.scores = scored(p);
    s.weights = weighted_heads(p);
    s.masked = masked(p);
    vr_block out = best(p);
    const vr_block held[] = { s.q, s.k, s.rotated_q, s.rotated_k, s.turned_q, s.weights, s.scores, s.masked };
    vr_drop_all(p, held, sizeof(held) / sizeof(held[0]));
    return out;
}

/* ---- the mask ---- */

static vr_block new_mask(vr_pass *p)
{
    uint64_t n = p->batch * p->q * tokens(p);
    if (p->w->attention == VR_IMPL_EAGER)
        return piece(p, n * p->width);
    vr_block others = piece(p, n), out = piece(p, n);
    vr_drop(p, others);
    return out;
}

vr_chosen vr_choose_tokens(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    vr_chosen c;
    uint64_t chosen = l->index_topk < tokens(p) ? l->index_topk : tokens(p);
    if (l->index_heads != 0)
        p->chosen_now = run_index(p);
    vr_block all = piece(p, p->rows * tokens(p)), places = piece(p, p->rows * chosen * 8);
    c.flags = piece(p, p->rows * tokens(p));
    vr_drop(p, places);
    vr_drop(p, all);
    c.mask = new_mask(p);
    return c;
}
