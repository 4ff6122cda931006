/* SPDX-License-Identifier: MIT
 * One call of an encoder of text: BertModel(ids) and its kin, without padding (modeling_bert.py,
 * modeling_xlm_roberta.py of transformers 5.17 and 5.24). Nothing is cached; what lives on are the last
 * hidden states and what the pooler makes of them. */
#include "engine/pass.h"

static vr_block wide(vr_pass *p, vr_step step)
{
    return vr_take(p, p->rows * p->m->hidden * p->width, VR_ITEM_HIDDEN, step);
}

static vr_block at(vr_pass *p, uint64_t rows)
{
    return vr_take_at(p, rows * p->m->hidden * p->width, VR_ITEM_HIDDEN, VR_PLACE_EMBEDDING);
}

static vr_block ids(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_INPUTS, VR_PLACE_POSITIONS);
}

/* ---- embeddings ---- */

/* RoBERTa counts the tokens that are no padding (create_position_ids_from_input_ids). */
static vr_block counted_positions(vr_pass *p)
{
    uint64_t n = p->rows;
    vr_block unlike = ids(p, n), mask = ids(p, n * 4);
    vr_drop(p, unlike);
    vr_block sum = ids(p, n * 8), narrow = ids(p, n * 4);
    vr_drop(p, sum);
    vr_block plus = ids(p, n * 4);
    vr_drop(p, narrow);
    vr_block product = ids(p, n * 4);
    vr_drop(p, plus);
    vr_block wide_ids = ids(p, n * 8), moved = ids(p, n * 8);
    vr_drop(p, wide_ids);
    vr_drop(p, product);
    vr_drop(p, mask);
    return moved;
}

static vr_block embed(vr_pass *p)
{
    bool counts = !vr_str_is(vr_str_of(p->m->family->model_type), "bert");
    vr_block positions = counts ? counted_positions(p) : VR_NONE;
    uint64_t rows = counts ? p->rows : p->q;
    vr_block types = ids(p, rows * 8);
    vr_block words = at(p, p->rows);
    /* of one sequence, seen by all: embedding.cpp, indices.reshape(-1) */
    vr_block spread = !counts && p->batch > 1 ? ids(p, p->rows * 8) : VR_NONE;
    vr_block kinds = at(p, p->rows);
    vr_drop(p, spread);
    vr_block both = at(p, p->rows), places = at(p, rows);
    vr_block all = at(p, p->rows);
    vr_drop(p, both);
    vr_block out = vr_norm_at(p, p->rows, p->m->hidden, VR_PLACE_EMBEDDING);
    vr_block rest[] = { all, words, types, kinds, places, positions };
    vr_drop_all(p, rest, sizeof(rest) / sizeof(rest[0]));
    return out;
}

/* ---- a layer ---- */

/* The layer keeps *weights until it returns. */
static vr_block attend(vr_pass *p, vr_block *weights)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t hidden = p->m->hidden, width = (uint64_t)l->heads * l->key_dim;
    vr_heads h = { .q = l->heads,
                   .kv = l->heads,
                   .groups = 1,
                   .size = l->key_dim,
                   .value = l->value_dim,
                   .kv_tokens = p->q,
                   .fresh = true,
                   .mask = VR_NONE };
    vr_block q = vr_linear(p, hidden, width, true, VR_ITEM_HIDDEN, VR_STEP_Q);
    vr_block k = vr_linear(p, hidden, width, true, VR_ITEM_HIDDEN, VR_STEP_K);
    vr_block v = vr_linear(p, hidden, width, true, VR_ITEM_HIDDEN, VR_STEP_V);
    vr_block out = p->w->attention == VR_IMPL_EAGER   ? vr_kernel_eager(p, &h, weights)
                   : p->w->attention == VR_IMPL_FLASH ? vr_kernel_flash(p, &h)
                                                      : vr_kernel_sdpa(p, &h);
    vr_drop(p, q);
    vr_drop(p, k);
    vr_drop(p, v);
    return out;
}

/* LayerNorm(dense(x) + residual); gives up neither x nor the residual */
static vr_block dense_and_norm(vr_pass *p, uint64_t in, vr_step step, vr_step norm)
{
    vr_block dense = vr_linear(p, in, p->m->hidden, true, VR_ITEM_HIDDEN, step);
    vr_block sum = wide(p, norm);
    vr_block out = vr_norm(p, p->rows, p->m->hidden, norm);
    vr_drop(p, sum);
    vr_drop(p, dense);
    return out;
}

static vr_block layer(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    vr_block weights = VR_NONE, mixed = attend(p, &weights);
    vr_block middle = dense_and_norm(p, (uint64_t)l->heads * l->value_dim, VR_STEP_O, VR_STEP_NORM_ATTENTION);
    vr_drop(p, mixed);
    vr_block up = vr_linear(p, p->m->hidden, l->ffn, true, VR_ITEM_HIDDEN, VR_STEP_UP);
    vr_block act = vr_activate(p);
    vr_drop(p, up);
    vr_block out = dense_and_norm(p, l->ffn, VR_STEP_DOWN, VR_STEP_OUTPUT);
    vr_block rest[] = { act, middle, weights };
    vr_drop_all(p, rest, sizeof(rest) / sizeof(rest[0]));
    return out;
}

/* tanh(dense(first token of each)) */
static vr_block pool(vr_pass *p)
{
    uint64_t rows = p->rows;
    p->rows = p->batch;
    vr_block dense = vr_linear(p, p->m->hidden, p->m->hidden, true, VR_ITEM_HIDDEN, VR_STEP_OUTPUT);
    vr_block out = wide(p, VR_STEP_OUTPUT);
    vr_drop(p, dense);
    p->rows = rows;
    return out;
}

vr_encoded vr_encode(vr_pass *p, uint64_t sequences, uint64_t tokens)
{
    p->batch = sequences;
    p->q = tokens;
    p->rows = sequences * tokens;
    vr_block embeddings = embed(p), x = embeddings;
    for (p->layer = 0; p->layer < p->m->n_layers; p->layer++) {
        vr_block next = layer(p);
        if (x != embeddings)
            vr_drop(p, x);
        x = next;
    }
    p->layer = p->m->n_layers - 1;
    vr_encoded out = { .hidden = x, .pooled = pool(p) };
    vr_drop(p, embeddings);
    return out;
}
