/* SPDX-License-Identifier: MIT
 * MiniMax-M3: attention over blocks of tokens that keys of their own choose (MSA).
 *
 * Source: llama.cpp b10470, src/models/minimax-m3.cpp, src/llama-kv-cache-msa.cpp. */
#include "llama/arch.h"
#include "llama/archs_more.h"

/* Streams are attended to one by one. */
#define STREAMS_MOST 256

/* Numbers and inputs of the choice. */
typedef struct msa {
    uint64_t block, head, heads, top, n_blocks, n_pos, cells, streams, each; /* each: tokens of a stream */
    vr_t idxs, bias, pos_mask, slot, slot_f, cell_block, mask;               /* mask: as 32-bit floats */
} msa;

static bool makes_sense(vr_lm_graph *c, const msa *m)
{
    if (m->block == 0 || m->head == 0 || m->heads == 0 || m->top == 0 || m->block > UINT32_MAX)
        vr_lm_broken(c, "blocks of tokens without a size, or chosen by no heads");
    else if (m->streams > STREAMS_MOST || m->streams == 0 || c->n_tokens % m->streams != 0)
        vr_lm_broken(c, "more sequences than are looked at");
    return !vr_lm_stopped(c);
}

/* Blocks are of positions; a cache that is empty has as many as its padding. */
static void make_inputs(vr_lm_graph *c, msa *m)
{
    vr_gg *g = c->g;
    uint64_t n = c->n_tokens;
    m->n_pos = vr_round_up(256, m->block);
    m->n_blocks = m->n_pos / m->block;
    m->idxs = vr_gg_input(g, "index_k_idxs", VR_I64, n, 1, 1, 1);
    m->bias = vr_gg_input(g, "msa_bias", VR_F32, m->n_blocks, n, 1, 1);
    m->pos_mask = vr_gg_input(g, "msa_pos_mask", VR_F32, m->n_pos, n, 1, 1);
    m->slot = vr_gg_input(g, "msa_pos_slot_i", VR_I32, m->n_pos, m->streams, 1, 1);
    if (m->each == 1) {
        m->slot_f = vr_gg_input(g, "msa_pos_slot_f", VR_F32, m->n_pos, m->streams, 1, 1);
        return;
    }
    m->cell_block = vr_gg_input(g, "msa_cell_blk", VR_I32, m->cells, m->streams, 1, 1);
    m->mask = vr_gg_cast(g, c->full.mask, VR_F32);
}

/* false: attention is over everything. */
static bool msa_of(vr_lm_graph *c, msa *m)
{
    const vr_lm *lm = c->lm;
    bool apart = c->plan->n_seq_max == 1 || c->plan->n_stream > 1;
    *m = (msa){ .block = vr_lm_number(lm, "attention.indexer.block_size", 0),
                .head = vr_lm_number(lm, "attention.indexer.key_length", 0),
                .heads = vr_lm_number(lm, "attention.indexer.head_count", 0),
                .top = vr_lm_number(lm, "attention.indexer.top_k", 0),
                .cells = c->full.mask->ne[0],
                .each = c->full.mask->ne[1],
                .streams = c->full.mask->ne[3] };
    if (!c->settled.flash_attn || !apart || !makes_sense(c, m))
        return false;
    make_inputs(c, m);
    return true;
}

/* What one layer works on. */
typedef struct sparse {
    vr_t iq, index; /* queries of the choice, kept keys: [head, 1, cells, streams] */
    vr_t q, k, v;   /* k and v: the caches */
    uint64_t top;
    int il;
} sparse;

/* ---- the choice's keys ---- */

static vr_t kept_index(vr_lm_graph *c, const msa *m, vr_t ik, int il)
{
    vr_gg *g = c->g;
    vr_t cache = vr_lm_kept_of(c, il)->index;
    if (cache == NULL) {
        vr_lm_broken(c, "blocks are to be chosen without keys");
        return ik;
    }
    vr_t rows = vr_gg_view_2d(g, ik, m->head, c->n_tokens, ik->nb[2], 0), to = cache;
    if (cache->ne[2] > 1)
        to = vr_gg_reshape_2d(g, cache, m->head, vr_mul_sat(cache->ne[1], cache->ne[2]));
    vr_gg_build_forward_expand(g, vr_gg_set_rows(g, to, rows, m->idxs));
    uint64_t row = vr_gg_row_size(cache->type, cache->ne[0]);
    return vr_gg_view_4d(g, cache, m->head, 1, cache->ne[1], cache->ne[2], row, row,
                         vr_mul_sat(row, cache->ne[1]), 0);
}

static void index_of(vr_lm_graph *c, const msa *m, sparse *x, vr_t cur)
{
    vr_gg *g = c->g;
    vr_t iq = vr_lm_bare_mm(c, x->il, "indexer.q_proj", cur);
    vr_t ik = vr_lm_bare_mm(c, x->il, "indexer.k_proj", cur);
    iq = vr_gg_reshape_3d(g, iq, m->head, m->heads, c->n_tokens);
    ik = vr_gg_reshape_3d(g, ik, m->head, 1, c->n_tokens);
    iq = vr_lm_rms(c, iq, x->il, "indexer.q_norm");
    ik = vr_lm_rms(c, ik, x->il, "indexer.k_norm");
    x->iq = vr_lm_rope(c, iq, NULL);
    x->index = kept_index(c, m, vr_lm_rope(c, ik, NULL), x->il);
}

/* ---- attention, groups of heads beside one another ---- */

static vr_t attend(vr_lm_graph *c, vr_t q, vr_t k, vr_t v, vr_t mask, uint64_t group)
{
    vr_gg *g = c->g;
    uint64_t head = q->ne[0], heads = q->ne[1], n = q->ne[2], apart = k->ne[3];
    uint64_t both = vr_mul_sat(group, apart);
    q = vr_gg_reshape_4d(g, q, head, group, apart, both > 0 ? vr_mul_sat(heads, n) / both : 0);
    vr_t o = vr_gg_flash_attn_ext(g, vr_gg_permute(g, q, 0, 2, 3, 1), k, v, mask);
    o = vr_gg_permute(g, o, 0, 1, 3, 2);
    if (!vr_gg_is_contiguous(o))
        o = vr_gg_cont(g, o);
    return vr_gg_reshape_2d(g, o, vr_mul_sat(head, heads), n);
}

/* ---- one token of each sequence: what is chosen is gathered ---- */

static vr_t best_of_each(vr_lm_graph *c, const msa *m, const sparse *x)
{
    vr_gg *g = c->g;
    uint64_t s = m->streams;
    vr_t ik = vr_gg_view_3d(g, x->index, m->head, m->cells, s, x->index->nb[2], x->index->nb[3], 0);
    ik = vr_gg_get_rows(g, ik, m->slot);
    vr_t iq = vr_gg_reshape_4d(g, x->iq, m->head, m->heads, 1, s);
    vr_t sc = vr_gg_mul_mat(g, vr_gg_reshape_4d(g, ik, m->head, m->n_pos, 1, s), iq);
    sc = vr_gg_add_inplace(g, sc, vr_gg_reshape_4d(g, m->pos_mask, m->n_pos, 1, 1, s));
    vr_t best = vr_gg_pool_2d(g, sc, m->block, 1, m->block, 1);
    best = vr_gg_add(g, best, vr_gg_reshape_4d(g, m->bias, m->n_blocks, 1, 1, s));
    return vr_gg_top_k(g, best, x->top);
}

/* Positions of all tokens in the chosen blocks, as 32-bit floats. */
static vr_t positions(vr_lm_graph *c, const msa *m, const sparse *x, vr_t chosen)
{
    vr_gg *g = c->g;
    vr_t first = vr_gg_scale(g, vr_gg_cast(g, chosen, VR_F32));
    first = vr_gg_reshape_4d(g, first, 1, x->top, m->heads, m->streams);
    first = vr_gg_repeat_4d(g, first, m->block, x->top, m->heads, m->streams);
    return vr_gg_add(g, first, vr_gg_reshape_3d(g, vr_gg_arange(g, m->block), m->block, 1, 1));
}

static vr_t gathered(vr_lm_graph *c, const msa *m, vr_t cache, vr_t rows, uint64_t n)
{
    vr_gg *g = c->g;
    vr_t flat = vr_gg_view_3d(g, cache, cache->ne[0], vr_mul_sat(m->heads, m->cells), m->streams,
                              cache->nb[1], cache->nb[3], 0);
    vr_t t = vr_gg_get_rows(g, flat, rows);
    t = vr_gg_reshape_4d(g, t, cache->ne[0], n, 1, vr_mul_sat(m->heads, m->streams));
    uint8_t type = vr_dtype_ggml((vr_dtype)cache->type) ? (uint8_t)VR_F16 : cache->type;
    return t->type != type ? vr_gg_cast(g, t, (vr_dtype)type) : t;
}

static vr_t attend_gathered(vr_lm_graph *c, const msa *m, const sparse *x)
{
    vr_gg *g = c->g;
    uint64_t n = vr_mul_sat(m->block, x->top), all = vr_mul_sat(n, m->heads), s = m->streams;
    vr_t pos = positions(c, m, x, best_of_each(c, m, x));
    pos = vr_gg_cast(g, vr_gg_reshape_2d(g, pos, all, s), VR_I32);
    vr_t cells = vr_gg_get_rows(g, vr_gg_reshape_3d(g, m->slot_f, 1, m->n_pos, s), pos);
    cells = vr_gg_reshape_4d(g, cells, m->block, x->top, m->heads, s);
    vr_t head = vr_gg_reshape_3d(g, vr_gg_arange(g, m->heads), 1, 1, m->heads);
    vr_t rows = vr_gg_add(g, vr_gg_scale(g, cells), head);
    rows = vr_gg_cast(g, vr_gg_reshape_2d(g, rows, all, s), VR_I32);
    vr_t k = gathered(c, m, x->k, rows, n), v = gathered(c, m, x->v, rows, n);
    vr_t mask = vr_gg_get_rows(g, vr_gg_reshape_3d(g, m->pos_mask, 1, m->n_pos, s), pos);
    mask = vr_gg_reshape_4d(g, mask, n, 1, 1, vr_mul_sat(m->heads, s));
    return attend(c, x->q, k, v, vr_gg_cast(g, mask, VR_F16), x->q->ne[1] / m->heads);
}

/* ---- many tokens: what is not chosen is shut in the mask ---- */

/* Scores of the blocks: [blocks, heads, tokens]. */
static vr_t block_scores(vr_lm_graph *c, const msa *m, const sparse *x, uint64_t stream, vr_t bias)
{
    vr_gg *g = c->g;
    uint64_t n = m->each, from = vr_mul_sat(stream, n);
    vr_t iq = vr_gg_view_3d(g, x->iq, m->head, m->heads, n, x->iq->nb[1], x->iq->nb[2],
                            vr_mul_sat(x->iq->nb[2], from));
    vr_t ik =
        vr_gg_view_2d(g, x->index, m->head, m->cells, x->index->nb[2], vr_mul_sat(x->index->nb[3], stream));
    vr_t slot = vr_gg_view_1d(g, m->slot, m->n_pos, vr_mul_sat(m->slot->nb[1], stream));
    uint64_t line = m->pos_mask->nb[1];
    vr_t shut = vr_gg_view_3d(g, m->pos_mask, m->n_pos, 1, n, line, line, vr_mul_sat(line, from));
    vr_t sc = vr_gg_mul_mat(g, vr_gg_get_rows(g, ik, slot),
                            vr_gg_reshape_2d(g, iq, m->head, vr_mul_sat(m->heads, n)));
    sc = vr_gg_add_inplace(g, vr_gg_reshape_3d(g, sc, m->n_pos, m->heads, n), shut);
    return vr_gg_add(g, vr_gg_pool_2d(g, sc, m->block, 1, m->block, 1), bias);
}

/* Blocks that are chosen open, the rest shut: [blocks, tokens, heads]. */
static vr_t block_mask(vr_lm_graph *c, const msa *m, const sparse *x, vr_t chosen, vr_t bias)
{
    vr_gg *g = c->g;
    uint64_t n = m->each, rows = vr_mul_sat(m->heads, n);
    vr_t shut = vr_gg_cast(g, vr_gg_scale(g, bias), VR_F16);
    shut = vr_gg_repeat_4d(g, shut, m->n_blocks, m->heads, n, 1);
    vr_t open = vr_gg_scale(g, vr_gg_cast(g, chosen, VR_F32));
    vr_t t =
        vr_gg_set_rows(g, vr_gg_reshape_3d(g, shut, 1, m->n_blocks, rows),
                       vr_gg_reshape_3d(g, open, 1, x->top, rows), vr_gg_reshape_2d(g, chosen, x->top, rows));
    t = vr_gg_reshape_3d(g, t, m->n_blocks, m->heads, n);
    return vr_gg_cont(g, vr_gg_permute(g, t, 0, 2, 1, 3));
}

/* The same by cells, with what the mask itself shuts. */
static vr_t cell_mask(vr_lm_graph *c, const msa *m, vr_t blocks, uint64_t stream)
{
    vr_gg *g = c->g;
    uint64_t n = m->each, rows = vr_mul_sat(m->heads, n);
    vr_t which = vr_gg_view_1d(g, m->cell_block, m->cells, vr_mul_sat(m->cell_block->nb[1], stream));
    vr_t mask = vr_gg_view_3d(g, m->mask, m->cells, n, 1, m->mask->nb[1], m->mask->nb[3],
                              vr_mul_sat(m->mask->nb[3], stream));
    vr_t t = vr_gg_cont(g, vr_gg_transpose(g, vr_gg_reshape_2d(g, blocks, m->n_blocks, rows)));
    t = vr_gg_cont(g, vr_gg_transpose(g, vr_gg_get_rows(g, t, which)));
    t = vr_gg_add_inplace(g, vr_gg_reshape_3d(g, t, m->cells, n, m->heads), mask);
    return vr_gg_cast(g, vr_gg_reshape_4d(g, t, m->cells, n, 1, m->heads), VR_F16);
}

static vr_t of_stream(vr_lm_graph *c, const msa *m, vr_t cache, uint64_t stream)
{
    vr_t t = vr_gg_view_4d(c->g, cache, cache->ne[0], m->heads, m->cells, 1, cache->nb[1], cache->nb[2],
                           cache->nb[3], vr_mul_sat(cache->nb[3], stream));
    return vr_gg_permute(c->g, t, 0, 3, 1, 2);
}

static vr_t attend_masked(vr_lm_graph *c, const msa *m, const sparse *x, uint64_t stream)
{
    vr_gg *g = c->g;
    uint64_t n = m->each, line = m->bias->nb[1], from = vr_mul_sat(stream, n);
    vr_t bias = vr_gg_view_3d(g, m->bias, m->n_blocks, 1, n, line, line, vr_mul_sat(line, from));
    vr_t q = vr_gg_view_3d(g, x->q, x->q->ne[0], x->q->ne[1], n, x->q->nb[1], x->q->nb[2],
                           vr_mul_sat(x->q->nb[2], from));
    vr_t chosen = vr_gg_top_k(g, block_scores(c, m, x, stream, bias), x->top);
    vr_t mask = cell_mask(c, m, block_mask(c, m, x, chosen, bias), stream);
    return attend(c, q, of_stream(c, m, x->k, stream), of_stream(c, m, x->v, stream), mask,
                  q->ne[1] / m->heads);
}

/* ---- layers ---- */

static void keep(vr_lm_graph *c, sparse *x, vr_lm_qkv qkv)
{
    vr_gg *g = c->g;
    x->q = vr_lm_rotated(c, qkv.q, c->full.k_rot);
    vr_t k = vr_lm_rotated(c, qkv.k, c->full.k_rot), v = vr_lm_rotated(c, qkv.v, c->full.v_rot);
    vr_gg_build_forward_expand(g, x->q);
    vr_gg_build_forward_expand(g, k);
    vr_gg_build_forward_expand(g, v);
    vr_gg_build_forward_expand(g, vr_lm_cpy_k(c, k, c->full.k_idxs, x->il));
    vr_gg_build_forward_expand(g, vr_lm_cpy_v(c, v, c->full.v_idxs, x->il));
    x->k = vr_lm_get_k(c, x->il);
    x->v = vr_lm_get_v(c, x->il);
}

static vr_t sparse_attention(vr_lm_graph *c, const msa *m, vr_lm_qkv qkv, vr_t cur, int il)
{
    if (c->lm->layers[il].n_head_kv != m->heads) {
        vr_lm_broken(c, "blocks are chosen for other groups of heads than there are");
        return cur;
    }
    sparse x = { .il = il, .top = m->top < m->n_blocks ? m->top : m->n_blocks };
    index_of(c, m, &x, cur);
    keep(c, &x, qkv);
    if (vr_lm_stopped(c))
        return cur;
    vr_t out = m->each == 1 ? attend_gathered(c, m, &x) : attend_masked(c, m, &x, 0);
    for (uint64_t s = 1; s < m->streams && m->each > 1 && !vr_lm_stopped(c); s++)
        out = vr_gg_concat(c->g, out, attend_masked(c, m, &x, s), 1);
    out = vr_lm_rotated(c, out, c->full.v_rot);
    return vr_lm_scaled_mm(c, il, "attn_output", out);
}

static vr_t attention(vr_lm_graph *c, const msa *m, vr_t cur, int il, bool chosen)
{
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    x.q = vr_lm_rope(c, vr_lm_rms(c, x.q, il, "attn_q_norm"), NULL);
    x.k = vr_lm_rope(c, vr_lm_rms(c, x.k, il, "attn_k_norm"), NULL);
    return chosen ? sparse_attention(c, m, x, cur, il) : vr_lm_attend(c, x, il);
}

static vr_t ffn(vr_lm_graph *c, vr_t x, int il, bool dense)
{
    if (dense)
        return vr_lm_bare_ffn(c, x, il, "", VR_LM_SWIGLU_OAI_MOE, VR_LM_FFN_PAR);
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SWIGLU_OAI_MOE, norm_w, vr_lm_gating_of(c->lm, VR_LM_SOFTMAX));
    m.gate_up = NULL;
    vr_t out = vr_lm_build_moe(c, x, &m);
    return vr_gg_add(c->g, out, vr_lm_bare_ffn(c, x, il, "_shexp", VR_LM_SWIGLU_OAI_MOE, VR_LM_FFN_PAR));
}

void vr_lm_build_minimax_m3(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    uint64_t dense = vr_lm_number(c->lm, "leading_dense_block_count", 0);
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    msa m;
    bool chosen = msa_of(c, &m);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        bool is_dense = (uint64_t)il < dense;
        cur = attention(c, &m, vr_lm_rms(c, cur, il, "attn_norm"), il, chosen && !is_dense);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = vr_gg_add(g, ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il, is_dense), residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}
