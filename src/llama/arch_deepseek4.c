/* SPDX-License-Identifier: MIT
 * DeepSeek-V4: attention over a window, and over keys of 4 or 128 tokens in one, of which an indexer chooses.
 *
 * Source: llama.cpp b10470, src/models/deepseek4.cpp, src/llama-kv-cache-dsv4.cpp
 * (dsv4_build_reserve_comp_plan), src/llama-graph.cpp (build_inp_dsv4). */
#include "llama/archs_more.h"
#include "llama/hyper.h"

#define CHOSEN_RATIO 4 /* tokens in a key that the indexer chooses; their windows overlap */

/* Keys of several tokens in one: numbers and inputs. */
typedef struct compressor {
    uint64_t ratio, head, blocks, rows; /* rows of the state, all sequences */
    bool overlaps;
    vr_t position, persist_from, persist_to, read, write, write_position, mask, rot;
} compressor;

typedef struct model {
    uint64_t head, rope, nope, heads, groups, lora;
    uint64_t index_heads, index_top;
    vr_t idxs, mask, rot; /* of the window */
    compressor chosen, index, long_ones;
} model;

/* ---- inputs ---- */

static vr_t rotation(vr_lm_graph *c, uint64_t head, bool always)
{
    uint64_t n = 64;
    if (!always && (!vr_dtype_ggml((vr_dtype)c->p->type_k) || head % 64 != 0))
        return NULL;
    while (head % (2 * n) == 0 && head != 0)
        n *= 2;
    return vr_gg_input(c->g, "attn_inp_k_rot", VR_F32, n, n, 1, 1);
}

static void inputs_of(vr_lm_graph *c, compressor *x, uint64_t state, uint64_t cells, bool half, bool rotates)
{
    vr_gg *g = c->g;
    uint64_t n = c->n_tokens, each = vr_round_up(c->n_seq_tokens, x->ratio) / x->ratio;
    x->blocks = vr_mul_sat(c->n_seqs, each);
    if (c->plan->rules.clamp_apart != 0) /* for any shares of sequences */
        x->blocks = vr_add_sat(n / x->ratio, c->n_seqs);
    x->rows = vr_mul_sat(state, c->plan->n_seq_max);
    uint64_t kept = n < x->rows ? n : x->rows;
    x->position = vr_gg_input(g, "state_pos", VR_I32, n, 1, 1, 1);
    x->persist_from = vr_gg_input(g, "state_persist_src_idxs", VR_I32, kept, 1, 1, 1);
    x->persist_to = vr_gg_input(g, "state_persist_dst_idxs", VR_I32, kept, 1, 1, 1);
    uint64_t read = vr_mul_sat(vr_mul_sat(x->overlaps ? 2 : 1, x->ratio), x->blocks);
    x->read = vr_gg_input(g, "state_read_idxs", VR_I32, read, 1, 1, 1);
    x->write = vr_gg_input(g, "state_write_idxs", VR_I64, x->blocks, 1, 1, 1);
    x->write_position = vr_gg_input(g, "state_write_pos", VR_I32, x->blocks, 1, 1, 1);
    x->mask = vr_gg_input(g, "kq_mask", half ? VR_F16 : VR_F32, cells, n / c->n_seqs, 1, c->n_seqs);
    x->rot = rotation(c, x->head, rotates);
}

static bool sane(vr_lm_graph *c, const model *m)
{
    uint64_t all = vr_mul_sat(m->heads, m->head);
    if (m->rope > m->head || m->rope > m->index.head || m->groups == 0 || m->heads % m->groups != 0)
        vr_lm_broken(c, "more of a head is turned than it has, or its groups do not divide the heads");
    else if (m->index.head == 0 || m->index_heads == 0 || m->index_top == 0 || all == 0)
        vr_lm_broken(c, "heads of no width");
    return !vr_lm_stopped(c) && vr_lm_hyper_sane(c);
}

static bool model_of(vr_lm_graph *c, model *m)
{
    const vr_lm *lm = c->lm;
    const vr_lm_layer *l = &lm->layers[0];
    *m = (model){ .head = l->head_k,
                  .rope = l->n_rot,
                  .heads = l->n_head,
                  .groups = vr_lm_number(lm, "attention.output_group_count", 0),
                  .lora = vr_lm_number(lm, "attention.output_lora_rank", 0),
                  .index_heads = vr_lm_number(lm, "attention.indexer.head_count", 0),
                  .index_top = vr_lm_number(lm, "attention.indexer.top_k", 0) };
    m->nope = vr_sub_floor(m->head, m->rope);
    m->chosen = (compressor){ .ratio = CHOSEN_RATIO, .head = m->head, .overlaps = true };
    m->index = m->chosen;
    m->index.head = vr_lm_number(lm, "attention.indexer.key_length", 0);
    m->long_ones = (compressor){ .ratio = VR_LM_LONG_RATIO, .head = m->head };
    return sane(c, m);
}

static void make_inputs(vr_lm_graph *c, model *m)
{
    vr_gg *g = c->g;
    bool flash = c->settled.flash_attn, same = m->head == m->index.head;
    uint64_t cells = vr_lm_compressed_cells(c->plan, CHOSEN_RATIO);
    m->idxs = vr_gg_input(g, "k_idxs", VR_I64, c->n_tokens, 1, 1, 1);
    m->mask = vr_gg_input(g, "attn_inp_kq_mask", flash ? VR_F16 : VR_F32, c->plan->caches[0].cells,
                          c->n_tokens / c->n_seqs, 1, c->n_seqs);
    m->rot = rotation(c, m->head, same);
    inputs_of(c, &m->chosen, 2 * CHOSEN_RATIO, cells, flash, same);
    inputs_of(c, &m->long_ones, VR_LM_LONG_RATIO, vr_lm_compressed_cells(c->plan, VR_LM_LONG_RATIO), flash,
              same);
    inputs_of(c, &m->index, 2 * CHOSEN_RATIO, cells, c->settled.fused_lid, true);
}

/* ---- heads, a part of which is turned ---- */

static vr_t part(vr_lm_graph *c, vr_t x, uint64_t width, uint64_t from)
{
    uint64_t row = vr_gg_row_size(VR_F32, x->ne[0]);
    return vr_gg_view_3d(c->g, x, width, x->ne[1], x->ne[2], row, vr_mul_sat(row, x->ne[1]),
                         vr_gg_row_size(VR_F32, from));
}

static vr_t turned_by(vr_lm_graph *c, const model *m, vr_t x, vr_t positions)
{
    if (c->plan->rules.rope_part != 0)
        return vr_gg_rope(c->g, x, positions, NULL);
    uint64_t still = vr_sub_floor(x->ne[0], m->rope);
    vr_t nope = part(c, x, still, 0), pe = part(c, x, m->rope, still);
    return vr_gg_concat(c->g, nope, vr_gg_rope(c->g, pe, positions, NULL), 0);
}

static vr_t turned_back(vr_lm_graph *c, const model *m, vr_t x)
{
    if (c->plan->rules.rope_part != 0)
        return vr_gg_rope_back(c->g, x, vr_lm_inp_pos(c), NULL);
    vr_t nope = part(c, x, m->nope, 0), pe = part(c, x, m->rope, m->nope);
    return vr_gg_concat(c->g, nope, vr_gg_rope_back(c->g, pe, vr_lm_inp_pos(c), NULL), 0);
}

static vr_t turned(vr_lm_graph *c, const model *m, vr_t x)
{
    return turned_by(c, m, x, vr_lm_inp_pos(c));
}

/* ---- several tokens in one key ---- */

/* Names of what makes it. */
typedef struct maker {
    const char *keys, *gate, *place, *norm;
} maker;

/* A row of zeros behind the others stands for tokens before the first. */
static vr_t with_zeros(vr_lm_graph *c, vr_t x)
{
    vr_gg *g = c->g;
    vr_t row = vr_gg_scale(g, vr_gg_view_1d(g, x, x->ne[0], 0));
    return vr_gg_concat(g, x, vr_gg_reshape_2d(g, row, x->ne[0], 1), 1);
}

static vr_t half(vr_lm_graph *c, const compressor *x, vr_t rows, uint64_t from)
{
    uint64_t n = vr_mul_sat(x->ratio, x->blocks);
    vr_t t = vr_gg_cont(c->g, vr_gg_view_2d(c->g, rows, x->head, n, rows->nb[1], from));
    return vr_gg_reshape_3d(c->g, t, x->head, x->ratio, x->blocks);
}

/* The rows of each window: [head, rows of a window, windows]. The first half of a row is for the window
 * behind it, the second for its own. */
static vr_t windows(vr_lm_graph *c, const compressor *x, vr_t state)
{
    vr_gg *g = c->g;
    if (!x->overlaps)
        return vr_gg_reshape_3d(g, vr_gg_get_rows(g, state, x->read), x->head, x->ratio, x->blocks);
    vr_t rows = vr_gg_get_rows(g, with_zeros(c, state), x->read);
    uint64_t behind = vr_mul_sat(vr_mul_sat(x->ratio, x->blocks), rows->nb[1]);
    vr_t before = half(c, x, rows, 0);
    return vr_gg_concat(g, before, half(c, x, rows, vr_add_sat(behind, vr_gg_row_size(VR_F32, x->head))), 1);
}

static vr_t compressed(vr_lm_graph *c, const model *m, const compressor *x, vr_t keys, vr_t scores,
                       const char *norm, int il)
{
    vr_gg *g = c->g;
    keys = vr_gg_cont(g, vr_gg_permute(g, windows(c, x, keys), 1, 0, 2, 3));
    scores = vr_gg_cont(g, vr_gg_permute(g, windows(c, x, scores), 1, 0, 2, 3));
    vr_t sum = vr_gg_sum_rows(g, vr_gg_mul(g, keys, vr_gg_soft_max(g, scores)));
    sum = vr_gg_cont(g, vr_gg_permute(g, sum, 1, 0, 2, 3));
    return turned_by(c, m, vr_lm_rms(c, sum, il, norm), x->write_position);
}

/* All rows of a state. */
static vr_t state_rows(vr_lm_graph *c, const compressor *x, vr_t state)
{
    return vr_gg_view_2d(c->g, state, state->ne[0], x->rows, state->nb[1], 0);
}

static vr_t before_and(vr_lm_graph *c, const compressor *x, vr_t state, vr_t now)
{
    vr_t all = state_rows(c, x, state);
    vr_t base = vr_gg_view_2d(c->g, all, all->ne[0], x->rows, all->nb[1], 0);
    return vr_gg_concat(c->g, base, now, 1);
}

static vr_t persisted(vr_lm_graph *c, const compressor *x, vr_t state, vr_t now)
{
    vr_t rows = vr_gg_get_rows(c->g, now, x->persist_from);
    return vr_gg_set_rows(c->g, state_rows(c, x, state), rows, x->persist_to);
}

static void keep_keys(vr_lm_graph *c, vr_t cache, vr_t k, vr_t idxs)
{
    vr_gg *g = c->g;
    vr_t rows = vr_gg_view_2d(g, k, vr_mul_sat(k->ne[0], k->ne[1]), k->ne[2], k->nb[2], 0);
    if (cache->ne[2] > 1)
        cache = vr_gg_reshape_2d(g, cache, cache->ne[0], vr_mul_sat(cache->ne[1], cache->ne[2]));
    vr_gg_build_forward_expand(g, vr_gg_set_rows(g, cache, rows, idxs));
}

/* New tokens go into the state, and full windows of it become keys. */
static void compress(vr_lm_graph *c, const model *m, const compressor *x, const maker *by,
                     const vr_lm_kept_compressed *kept, vr_t cur, int il)
{
    vr_gg *g = c->g;
    if (kept->k == NULL) {
        vr_lm_broken(c, "keys of several tokens are kept nowhere");
        return;
    }
    vr_t keys = vr_lm_bare_mm(c, il, by->keys, cur), scores = vr_lm_bare_mm(c, il, by->gate, cur);
    scores = vr_gg_add(g, scores, vr_gg_get_rows(g, vr_lm_w(c, il, by->place), x->position));
    vr_t all = before_and(c, x, kept->keys, keys), all_scores = before_and(c, x, kept->scores, scores);
    vr_t made = compressed(c, m, x, all, all_scores, by->norm, il);
    keep_keys(c, kept->k, vr_lm_rotated(c, made, x->rot), x->write);
    vr_t new_keys = persisted(c, x, kept->keys, keys), new_scores = persisted(c, x, kept->scores, scores);
    vr_gg_build_forward_expand(g, new_keys);
    vr_gg_build_forward_expand(g, new_scores);
}

/* ---- which of them ---- */

static vr_t kept_keys(vr_lm_graph *c, const compressor *x, vr_t cache)
{
    vr_gg *g = c->g;
    vr_dtype t = (vr_dtype)cache->type;
    uint64_t row = vr_gg_row_size(t, cache->ne[0]), heads = x->head > 0 ? cache->ne[0] / x->head : 0;
    vr_t k = vr_gg_view_4d(g, cache, x->head, heads, cache->ne[1], cache->ne[2], vr_gg_row_size(t, x->head),
                           row, vr_mul_sat(row, cache->ne[1]), 0);
    return vr_gg_view_4d(g, k, k->ne[0], k->ne[1], x->mask->ne[0], k->ne[3], k->nb[1], k->nb[2], k->nb[3], 0);
}

static vr_t best(vr_lm_graph *c, const model *m, vr_t latent, vr_t cur, int il)
{
    vr_gg *g = c->g;
    const compressor *x = &m->index;
    vr_t q = vr_lm_bare_mm(c, il, "indexer.attn_q_b", latent);
    q = turned(c, m, vr_gg_reshape_3d(g, q, x->head, m->index_heads, c->n_tokens));
    q = vr_lm_rotated(c, q, x->rot);
    vr_t w = vr_gg_scale(g, vr_lm_bare_mm(c, il, "indexer.proj", cur));
    vr_t k = kept_keys(c, x, vr_lm_kept_of(c, il)->compressed[1].k);
    uint64_t s = k->ne[3] > 0 ? k->ne[3] : 1;
    q = vr_gg_view_4d(g, q, q->ne[0], q->ne[1], q->ne[2] / s, s, q->nb[1], q->nb[2], q->nb[3] / s, 0);
    w = vr_gg_view_4d(g, w, w->ne[0], w->ne[1] / s, w->ne[2], s, w->nb[1], w->nb[2] / s, w->nb[3] / s, 0);
    vr_t scores = vr_lm_index_scores(c, q, k, w, x->mask, il);
    return vr_gg_cont(g, vr_gg_top_k(g, scores, scores->ne[0] < m->index_top ? scores->ne[0] : m->index_top));
}

static vr_t chosen_mask(vr_lm_graph *c, vr_t mask, vr_t top)
{
    return vr_lm_chosen_mask(c, c->settled.flash_attn ? VR_F16 : VR_F32, mask, top);
}

/* ---- attention ---- */

/* What a layer attends with. */
typedef struct heads {
    vr_t latent, q, kv, cur;
} heads;

static vr_t attend(vr_lm_graph *c, const model *m, const heads *h, uint64_t ratio, int il)
{
    vr_gg *g = c->g;
    vr_t top = ratio == CHOSEN_RATIO ? best(c, m, h->latent, h->cur, il) : NULL;
    vr_t q = vr_lm_rotated(c, h->q, m->rot), kv = vr_lm_rotated(c, h->kv, m->rot);
    vr_gg_build_forward_expand(g, q);
    vr_gg_build_forward_expand(g, kv);
    vr_gg_build_forward_expand(g, vr_lm_cpy_k(c, kv, m->idxs, il));
    vr_t k = vr_lm_get_k(c, il), mask = m->mask;
    if (ratio != 0) {
        const compressor *x = ratio == CHOSEN_RATIO ? &m->chosen : &m->long_ones;
        k = vr_gg_concat(g, k, kept_keys(c, x, vr_lm_kept_of(c, il)->compressed[0].k), 2);
        mask = vr_gg_concat(g, mask, top != NULL ? chosen_mask(c, x->mask, top) : x->mask, 0);
    }
    vr_lm_attention a = { .sinks = vr_lm_w(c, il, "attn_sinks.weight") };
    return vr_lm_rotated(c, vr_lm_attn_mha(c, q, k, k, mask, &a, il), m->rot);
}

/* The output's first matrix is read as one for each group of heads, whatever its shape in the file. */
static vr_t by_group(vr_lm_graph *c, const model *m, int il)
{
    vr_t w = vr_lm_w(c, il, "attn_output_a.weight");
    if (vr_mul_sat(w->ne[1], w->ne[2]) != vr_mul_sat(m->lora, m->groups))
        vr_lm_broken(c, "attn_output_a has another shape than its groups");
    w->ne[1] = m->lora;
    w->ne[2] = m->groups;
    w->nb[2] = vr_mul_sat(w->nb[1], m->lora);
    w->nb[3] = vr_mul_sat(w->nb[2], m->groups);
    return w;
}

static vr_t output(vr_lm_graph *c, const model *m, vr_t out, int il)
{
    vr_gg *g = c->g;
    out = turned_back(c, m, vr_gg_reshape_3d(g, out, m->head, m->heads, c->n_tokens));
    uint64_t each = vr_mul_sat(m->heads / m->groups, m->head);
    out = vr_gg_permute(g, vr_gg_reshape_3d(g, out, each, m->groups, c->n_tokens), 0, 2, 1, 3);
    out = vr_gg_permute(g, vr_gg_mul_mat(g, by_group(c, m, il), out), 0, 2, 1, 3);
    out = vr_gg_cont_2d(g, out, vr_mul_sat(m->lora, m->groups), c->n_tokens);
    return vr_lm_bare_mm(c, il, "attn_output_b", out);
}

static vr_t attention(vr_lm_graph *c, const model *m, vr_t cur, int il)
{
    static const maker keys = { "attn_compressor_kv", "attn_compressor_gate", "attn_compressor_ape.weight",
                                "attn_compressor_norm" };
    static const maker index = { "indexer_compressor_kv", "indexer_compressor_gate",
                                 "indexer_compressor_ape.weight", "indexer_compressor_norm" };
    vr_gg *g = c->g;
    uint64_t ratio = vr_lm_compress_ratio(c->lm, (uint32_t)il);
    const vr_lm_kept_compressed *kept = vr_lm_kept_of(c, il)->compressed;
    heads h = { .cur = cur };
    h.latent = vr_lm_rms(c, vr_lm_bare_mm(c, il, "attn_q_a", cur), il, "attn_q_a_norm");
    h.q = vr_gg_reshape_3d(g, vr_lm_bare_mm(c, il, "attn_q_b", h.latent), m->head, m->heads, c->n_tokens);
    h.q = turned(c, m, vr_gg_rms_norm(g, h.q));
    h.kv = vr_lm_rms(c, vr_lm_bare_mm(c, il, "attn_kv", cur), il, "attn_kv_a_norm");
    h.kv = turned(c, m, vr_gg_reshape_3d(g, h.kv, m->head, 1, c->n_tokens));
    if (ratio != 0)
        compress(c, m, ratio == CHOSEN_RATIO ? &m->chosen : &m->long_ones, &keys, &kept[0], cur, il);
    if (ratio == CHOSEN_RATIO)
        compress(c, m, &m->index, &index, &kept[1], cur, il);
    return vr_lm_stopped(c) ? cur : output(c, m, attend(c, m, &h, ratio, il), il);
}

/* ---- the rest ---- */

/* The shared expert's limit is that of the others where it has none of its own. */
static bool limits_shared(vr_lm_graph *c, int il)
{
    double limit;
    bool own = vr_lm_float_at(c->lm, "swiglu_clamp_shexp", (uint32_t)il, &limit);
    return vr_lm_limited(c, own ? "swiglu_clamp_shexp" : "swiglu_clamp_exp", il);
}

static vr_t ffn(vr_lm_graph *c, vr_t x, int il)
{
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, norm_w, VR_LM_SQRT_SOFTPLUS);
    m.gate_up = NULL;
    m.clamped = vr_lm_limited(c, "swiglu_clamp_exp", il);
    if ((uint64_t)il < vr_lm_number(c->lm, "hash_layer_count", 0)) {
        m.selected_in = vr_gg_get_rows(c->g, vr_lm_w(c, il, "ffn_gate_tid2eid.weight"), c->inp_tokens);
        m.probs_b = NULL;
    }
    vr_t out = vr_lm_build_moe(c, x, &m);
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR);
    f.up_b = f.up_s = f.gate_b = f.gate_s = f.down_b = f.down_s = NULL;
    f.clamped = limits_shared(c, il);
    return vr_gg_add(c->g, out, vr_lm_build_ffn(c, x, &f));
}

static vr_t layer(vr_lm_graph *c, const model *m, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_lm_hyper h =
        vr_lm_hyper_pre(c, x, il, "hc_attn_fn.weight", "hc_attn_scale.weight", "hc_attn_base.weight");
    vr_t cur = attention(c, m, vr_lm_rms(c, h.cur, il, "attn_norm"), il);
    x = vr_lm_hyper_post(c, cur, x, &h, il);
    h = vr_lm_hyper_pre(c, x, il, "hc_ffn_fn.weight", "hc_ffn_scale.weight", "hc_ffn_base.weight");
    vr_gg_build_forward_expand(g, x);
    vr_gg_build_forward_expand(g, h.post);
    vr_gg_build_forward_expand(g, h.comb);
    cur = ffn(c, vr_lm_rms(c, h.cur, il, "ffn_norm"), il);
    x = vr_lm_hyper_post(c, cur, x, &h, il);
    vr_lm_pin(c, x, il);
    return x;
}

void vr_lm_build_deepseek4(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    model m;
    if (!model_of(c, &m))
        return;
    uint64_t n = c->lm->n_embd, many = vr_lm_number(c->lm, "hyper_connection.count", 0);
    vr_t cur = vr_lm_inp_embd(c);
    make_inputs(c, &m);
    vr_gg_build_forward_expand(g, m.mask);
    cur = vr_gg_repeat_4d(g, vr_gg_reshape_3d(g, cur, n, 1, c->n_tokens), n, many, c->n_tokens, 1);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = layer(c, &m, cur, il);
    cur = vr_gg_reshape_2d(g, cur, vr_mul_sat(n, many), c->n_tokens);
    cur = vr_gg_get_rows(g, cur, vr_lm_inp_out_ids(c));
    cur = vr_lm_hyper_head(c, vr_gg_reshape_3d(g, cur, n, many, c->n_outputs));
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    vr_lm_logits(c, vr_gg_mul_mat(g, vr_lm_head(c), cur));
}
