/* SPDX-License-Identifier: MIT
 * Attention: its inputs, the caches as it reads and fills them, and the scores.
 *
 * Source: llama.cpp b10470, src/llama-graph.cpp: build_attn, build_attn_mha, build_qkv, and
 * src/llama-kv-cache.cpp: get_k, get_v, cpy_k, cpy_v, build_input_k_rot. */
#include "llama/graph.h"

static bool quantised(uint8_t type)
{
    return vr_dtype_ggml((vr_dtype)type);
}

static bool slides(const vr_lm_graph *c, int il)
{
    return c->lm->layers[il].swa;
}

/* ---- inputs ---- */

static uint64_t most_values(const vr_lm *lm)
{
    uint64_t most = 0;
    for (uint32_t il = 0; il < lm->n_layer_all; il++) {
        uint64_t n = (uint64_t)lm->layers[il].n_head_kv * lm->layers[il].head_v;
        most = n > most ? n : most;
    }
    return most;
}

/* The head size of all layers whose cache is of the kind `swa`; 0: there is none, or they differ. */
static uint64_t common_head(const vr_lm_graph *c, bool swa, bool of_values)
{
    uint64_t common = 0;
    for (uint32_t il = 0; il < c->lm->n_layer_all; il++) {
        const vr_lm_layer *l = &c->lm->layers[il];
        if (c->plan->caches[il].cells == 0 || c->plan->caches[il].reuses != 0 || l->swa != swa)
            continue;
        uint64_t head = of_values ? l->head_v : l->head_k;
        if (common != 0 && common != head)
            return 0;
        common = head;
    }
    return common;
}

/* Quantised caches keep keys and values turned by a Hadamard matrix. */
static void add_rotations(vr_lm_graph *c, vr_lm_attn *in, bool swa)
{
    if (c->lm->n_layer_all == 0 || c->plan->rules.rotated == 0)
        return;
    const vr_lm_layer *first = &c->lm->layers[0];
    uint64_t head = common_head(c, swa, false);
    if (head > 0 && quantised(c->p->type_k) && first->head_k % 64 == 0) {
        uint64_t n = 64;
        while (head % (2 * n) == 0)
            n *= 2;
        in->k_rot = vr_gg_input(c->g, "attn_inp_k_rot", VR_F32, n, n, 1, 1);
    }
    if (common_head(c, swa, true) > 0 && quantised(c->p->type_v) && first->head_v % 64 == 0)
        in->v_rot = vr_gg_input(c->g, "attn_inp_v_rot", VR_F32, 64, 64, 1, 1);
}

static bool values_transposed(const vr_lm_graph *c)
{
    for (uint32_t il = 0; il < c->lm->n_layer_all; il++)
        if (c->plan->caches[il].cells > 0)
            return c->plan->caches[il].v_transposed;
    return false;
}

/* Before build 9410 it came in 32 bits, and the device made the 16 that flash attention wants. */
static vr_t inp_mask(vr_lm_graph *c, uint64_t n_kv, uint64_t n_stream)
{
    const vr_lm_rules *r = &c->plan->rules;
    bool halves = c->settled.flash_attn;
    uint64_t rows = vr_round_up(c->n_tokens / n_stream, r->mask_rows > 0 ? r->mask_rows : 1);
    vr_dtype t = halves && r->mask_f16 != 0 ? VR_F16 : VR_F32;
    vr_t mask = vr_gg_input(c->g, "attn_inp_kq_mask", t, n_kv, rows, 1, n_stream);
    return halves && t == VR_F32 ? vr_gg_cast(c->g, mask, VR_F16) : mask;
}

static void inp_of_cache(vr_lm_graph *c, vr_lm_attn *in, uint64_t cells, bool values)
{
    uint64_t stream = c->plan->n_stream > 0 ? c->plan->n_stream : 1;
    in->k_idxs = vr_gg_input(c->g, "k_idxs", VR_I64, c->n_tokens, 1, 1, 1);
    if (values) {
        uint64_t each = values_transposed(c) ? most_values(c->lm) : 1;
        in->v_idxs = vr_gg_input(c->g, "v_idxs", VR_I64, vr_mul_sat(c->n_tokens, each), 1, 1, 1);
    }
    in->mask = inp_mask(c, cells, stream);
}

void vr_lm_inp_attn_kv(vr_lm_graph *c)
{
    inp_of_cache(c, &c->full, c->plan->cells, true);
    add_rotations(c, &c->full, false);
}

void vr_lm_inp_attn_k(vr_lm_graph *c)
{
    inp_of_cache(c, &c->full, c->plan->cells, false);
}

void vr_lm_inp_attn_iswa(vr_lm_graph *c)
{
    inp_of_cache(c, &c->full, c->plan->cells, true);
    inp_of_cache(c, &c->swa, c->plan->swa_cells, true);
    add_rotations(c, &c->full, false);
    add_rotations(c, &c->swa, true);
}

void vr_lm_inp_attn(vr_lm_graph *c)
{
    if (c->lm->n_swa > 0)
        vr_lm_inp_attn_iswa(c);
    else
        vr_lm_inp_attn_kv(c);
}

void vr_lm_inp_attn_no_cache(vr_lm_graph *c)
{
    c->none.mask = inp_mask(c, c->n_tokens, 1);
    if (c->lm->n_swa > 0)
        c->swa.mask = inp_mask(c, c->n_tokens, 1);
}

/* ---- caches ---- */

static vr_t kept_tensor(vr_lm_graph *c, const vr_lm_cache *k, uint8_t type, uint64_t width, bool state)
{
    uint64_t ne[VR_GG_DIMS] = { width, state ? vr_mul_sat(k->r_rows, k->r_kept) : k->cells,
                                state ? 1 : k->streams, 1 };
    uint8_t buft = k->device != VR_LM_HOST ? c->plan->device_buft[k->device] : c->plan->host_buft;
    return vr_gg_placed(c->g, NULL, (vr_dtype)type, ne, buft, false);
}

static void make_compressed(vr_lm_graph *c, vr_lm_kept *kept, const vr_lm_cache *from, int i)
{
    const vr_lm_compressed *x = &from->compressed[i];
    uint8_t buft = from->device != VR_LM_HOST ? c->plan->device_buft[from->device] : c->plan->host_buft;
    uint64_t k[VR_GG_DIMS] = { x->width, x->cells, from->streams, 1 };
    uint64_t state[VR_GG_DIMS] = { x->state_width, x->state_rows, from->streams, 1 };
    if (x->width == 0)
        return;
    kept->compressed[i] = (vr_lm_kept_compressed){
        .k = vr_gg_placed(c->g, NULL, (vr_dtype)c->p->type_k, k, buft, false),
        .keys = vr_gg_placed(c->g, NULL, VR_F32, state, buft, false),
        .scores = vr_gg_placed(c->g, NULL, VR_F32, state, buft, false),
    };
}

static void make_kept(vr_lm_graph *c, vr_lm_kept *kept, const vr_lm_cache *from)
{
    if (from->cells > 0 && from->k_width > 0)
        kept->k = kept_tensor(c, from, c->p->type_k, from->k_width, false);
    if (from->cells > 0 && from->v_width > 0)
        kept->v = kept_tensor(c, from, c->p->type_v, from->v_width, false);
    if (from->cells > 0 && from->index_width > 0)
        kept->index = kept_tensor(c, from, c->p->type_k, from->index_width, false);
    make_compressed(c, kept, from, 0);
    make_compressed(c, kept, from, 1);
    if (from->r_width == 0 && from->s_width == 0)
        return;
    /* either may be of no elements */
    kept->r = kept_tensor(c, from, VR_F32, from->r_width, true);
    kept->s = kept_tensor(c, from, VR_F32, from->s_width, true);
}

vr_lm_kept *vr_lm_kept_of(vr_lm_graph *c, int il)
{
    if (c->plan->caches[il].reuses != 0 && c->plan->caches[il].reuses - 1 < c->lm->n_layer_all)
        il = (int)(c->plan->caches[il].reuses - 1);
    vr_lm_kept *kept = &c->kept[il];
    if (!kept->made)
        make_kept(c, kept, &c->plan->caches[il]);
    kept->made = true;
    return kept;
}

static vr_t needed(vr_lm_graph *c, vr_t t)
{
    if (t != NULL)
        return t;
    vr_lm_broken(c, "a layer that attends keeps no keys or values");
    return vr_gg_new_1d(c->g, VR_F32, 1);
}

vr_t vr_lm_get_k(vr_lm_graph *c, int il)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_t k = needed(c, vr_lm_kept_of(c, il)->k);
    vr_dtype t = (vr_dtype)k->type;
    uint64_t row = vr_gg_row_size(t, k->ne[0]);
    return vr_gg_view_4d(c->g, k, l->head_k, l->n_head_kv, k->ne[1], k->ne[2], vr_gg_row_size(t, l->head_k),
                         row, vr_mul_sat(row, k->ne[1]), 0);
}

vr_t vr_lm_get_v(vr_lm_graph *c, int il)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_t v = needed(c, vr_lm_kept_of(c, il)->v);
    vr_dtype t = (vr_dtype)v->type;
    uint64_t cells = v->ne[1], row = vr_gg_row_size(t, v->ne[0]), all = vr_mul_sat(row, cells);
    if (!values_transposed(c))
        return vr_gg_view_4d(c->g, v, l->head_v, l->n_head_kv, cells, v->ne[2], vr_gg_row_size(t, l->head_v),
                             row, all, 0);
    uint64_t line = vr_gg_row_size(t, cells);
    return vr_gg_view_4d(c->g, v, cells, l->n_head_kv, l->head_v, v->ne[2], vr_mul_sat(line, l->head_v), line,
                         all, 0);
}

/* A cache of several streams as one: rows are counted over all of them. */
static vr_t one_stream(vr_lm_graph *c, vr_t cache, uint64_t width)
{
    if (cache->ne[2] <= 1)
        return cache;
    return vr_gg_reshape_2d(c->g, cache, width, vr_mul_sat(cache->ne[1], cache->ne[2]));
}

/* Before build 6071 what is new went into a view of the first cells. */
static vr_t put_in_view(vr_lm_graph *c, vr_t cache, vr_t rows)
{
    vr_gg *g = c->g;
    uint64_t n = vr_gg_nelements(rows);
    return vr_gg_cpy(g, rows, vr_gg_view_1d(g, cache, n, 0));
}

static vr_t put_in_columns(vr_lm_graph *c, vr_t cache, vr_t v, uint64_t width)
{
    vr_gg *g = c->g;
    uint64_t column = vr_mul_sat(cache->ne[1], vr_gg_element_size(cache));
    vr_t view = vr_gg_view_2d(g, cache, v->ne[2], width, column, 0);
    return vr_gg_cpy(g, vr_gg_transpose(g, vr_gg_reshape_2d(g, v, width, v->ne[2])), view);
}

vr_t vr_lm_cpy_k(vr_lm_graph *c, vr_t k, vr_t idxs, int il)
{
    uint64_t width = vr_mul_sat(k->ne[0], k->ne[1]);
    vr_t cache = one_stream(c, needed(c, vr_lm_kept_of(c, il)->k), width);
    if (c->plan->rules.set_rows == 0)
        return put_in_view(c, cache, k);
    return vr_gg_set_rows(c->g, cache, vr_gg_view_2d(c->g, k, width, k->ne[2], k->nb[2], 0), idxs);
}

/* Transposed values are put one element at a time. */
static vr_t put_transposed(vr_lm_graph *c, vr_t v, vr_t cache, vr_t idxs, uint64_t width)
{
    vr_gg *g = c->g;
    uint64_t n_tokens = v->ne[2];
    bool whole = vr_gg_row_size((vr_dtype)v->type, width) == v->nb[2];
    v = whole ? vr_gg_reshape_2d(g, v, width, n_tokens) : vr_gg_cont_2d(g, v, width, n_tokens);
    if (width < cache->ne[0])
        v = vr_gg_pad(g, v, cache->ne[0] - width, 0, 0, 0);
    cache = vr_gg_reshape_2d(g, cache, 1, vr_gg_nelements(cache));
    return vr_gg_set_rows(g, cache, vr_gg_reshape_2d(g, v, 1, vr_gg_nelements(v)), idxs);
}

vr_t vr_lm_cpy_v(vr_lm_graph *c, vr_t v, vr_t idxs, int il)
{
    uint64_t width = vr_mul_sat(v->ne[0], v->ne[1]);
    vr_t cache = needed(c, vr_lm_kept_of(c, il)->v);
    bool by_rows = c->plan->rules.set_rows != 0;
    if (values_transposed(c))
        return by_rows ? put_transposed(c, v, cache, idxs, width) : put_in_columns(c, cache, v, width);
    if (!by_rows)
        return put_in_view(c, cache, v);
    vr_t rows = vr_gg_view_2d(c->g, v, width, v->ne[2], v->nb[2], 0);
    return vr_gg_set_rows(c->g, one_stream(c, cache, width), rows, idxs);
}

/* ---- queries, keys, values ---- */

typedef struct heads {
    uint64_t k, v, n, n_kv; /* sizes, then numbers */
} heads;

/* One product cut in three. */
static vr_lm_qkv split_qkv(vr_lm_graph *c, vr_t qkv, const heads *h)
{
    vr_gg *g = c->g;
    vr_dtype t = (vr_dtype)qkv->type;
    uint64_t each = vr_gg_row_size(t, h->k), q = vr_mul_sat(h->k, h->n), k = vr_mul_sat(h->k, h->n_kv);
    return (vr_lm_qkv){
        .q = vr_gg_view_3d(g, qkv, h->k, h->n, c->n_tokens, each, qkv->nb[1], 0),
        .k = vr_gg_view_3d(g, qkv, h->k, h->n_kv, c->n_tokens, each, qkv->nb[1], vr_gg_row_size(t, q)),
        .v = vr_gg_view_3d(g, qkv, h->v, h->n_kv, c->n_tokens, vr_gg_row_size(t, h->v), qkv->nb[1],
                           vr_gg_row_size(t, vr_add_sat(q, k))),
    };
}

/* Before build 6410 the three were copies. */
static vr_lm_qkv copied(vr_lm_graph *c, vr_lm_qkv x, const heads *h)
{
    vr_gg *g = c->g;
    return (vr_lm_qkv){ .q = vr_gg_cont_3d(g, x.q, h->k, h->n, c->n_tokens),
                        .k = vr_gg_cont_3d(g, x.k, h->k, h->n_kv, c->n_tokens),
                        .v = vr_gg_cont_3d(g, x.v, h->v, h->n_kv, c->n_tokens) };
}

static vr_lm_qkv queries(vr_lm_graph *c, vr_t cur, const heads *h, int il)
{
    vr_gg *g = c->g;
    double limit = 0;
    bool clamped = vr_lm_float(c->lm, "attention.clamp_kqv", &limit) && limit > 0;
    if (vr_lm_opt(c, il, "attn_qkv.weight") != NULL) {
        vr_t qkv = vr_lm_linear(c, il, "attn_qkv", cur);
        vr_lm_qkv x = split_qkv(c, clamped ? vr_gg_clamp(g, qkv) : qkv, h);
        return c->plan->rules.fused_qkv_views != 0 ? x : copied(c, x, h);
    }
    static const char *const name[3] = { "attn_q", "attn_k", "attn_v" };
    vr_t x[3];
    for (int i = 0; i < 3; i++) {
        vr_t t = vr_lm_linear(c, il, name[i], cur);
        x[i] = clamped ? vr_gg_clamp(g, t) : t;
    }
    return (vr_lm_qkv){ .q = vr_gg_reshape_3d(g, x[0], h->k, h->n, c->n_tokens),
                        .k = vr_gg_reshape_3d(g, x[1], h->k, h->n_kv, c->n_tokens),
                        .v = vr_gg_reshape_3d(g, x[2], h->v, h->n_kv, c->n_tokens) };
}

vr_lm_qkv vr_lm_build_qkv(vr_lm_graph *c, vr_t cur, uint64_t head, uint64_t n_head, uint64_t n_head_kv,
                          int il)
{
    return queries(c, cur, &(heads){ head, head, n_head, n_head_kv }, il);
}

vr_lm_qkv vr_lm_qkv_of(vr_lm_graph *c, vr_t cur, int il)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    return queries(c, cur, &(heads){ l->head_k, l->head_v, l->n_head, l->n_head_kv }, il);
}

/* ---- scores ---- */

static vr_t with_flash(vr_lm_graph *c, vr_t q, vr_t k, vr_t v, vr_t mask, const vr_lm_attention *a, int il)
{
    vr_gg *g = c->g;
    if (k->type == VR_F32)
        k = vr_gg_cast(g, k, VR_F16);
    if (v->type == VR_F32)
        v = vr_gg_cast(g, v, VR_F16);
    vr_t cur = vr_gg_flash_attn_ext(g, q, k, v, mask);
    if (c->alibi)
        vr_gg_flash_attn_ext_set_bias(cur);
    vr_lm_fused(c, VR_LM_FUSED_FLASH, cur, il);
    if (a->sinks != NULL)
        vr_gg_flash_attn_ext_add_sinks(cur, a->sinks);
    if (a->v_mla != NULL) {
        cur = vr_gg_mul_mat(g, a->v_mla, vr_gg_permute(g, cur, 0, 2, 1, 3));
        cur = vr_gg_cont(g, vr_gg_permute(g, cur, 0, 2, 1, 3));
    }
    return vr_gg_reshape_2d(g, cur, vr_mul_sat(cur->ne[0], cur->ne[1]), vr_mul_sat(cur->ne[2], cur->ne[3]));
}

static vr_t scores(vr_lm_graph *c, vr_t q, vr_t k, vr_t mask, const vr_lm_attention *a)
{
    vr_gg *g = c->g;
    vr_t kq = vr_gg_mul_mat(g, k, q);
    if (c->score_scaled)
        kq = vr_gg_scale(g, vr_gg_unary_of(g, vr_gg_scale(g, kq), VR_GG_TANH));
    if (c->soft_cap)
        kq = vr_lm_logit_cap(c, kq);
    if (a->kq_b != NULL)
        kq = vr_gg_add(g, kq, a->kq_b);
    kq = vr_gg_soft_max_ext(g, kq, mask, c->alibi);
    if (a->sinks != NULL)
        vr_gg_soft_max_add_sinks(kq, a->sinks);
    return kq;
}

static vr_t without_flash(vr_lm_graph *c, vr_t q, vr_t k, vr_t v, bool v_trans, vr_t mask,
                          const vr_lm_attention *a)
{
    vr_gg *g = c->g;
    vr_t kq = scores(c, q, k, mask, a);
    if (!v_trans)
        v = vr_gg_cont(g, vr_gg_transpose(g, v));
    vr_t kqv = vr_gg_mul_mat(g, v, kq);
    if (a->v_mla != NULL)
        kqv = vr_gg_mul_mat(g, a->v_mla, kqv);
    vr_t cur = vr_gg_permute(g, kqv, 0, 2, 1, 3);
    cur = vr_gg_cont_2d(g, cur, vr_mul_sat(cur->ne[0], cur->ne[1]), vr_mul_sat(cur->ne[2], cur->ne[3]));
    if (!c->p->offload_kqv && c->pins)
        cur->backend = (int8_t)(c->plan->machine.n_backends - 1);
    return cur;
}

vr_t vr_lm_attn_mha(vr_lm_graph *c, vr_t q, vr_t k, vr_t v, vr_t mask, const vr_lm_attention *a, int il)
{
    vr_gg *g = c->g;
    bool v_trans = v->nb[1] > v->nb[2];
    uint64_t n = k->ne[3] > 0 ? k->ne[3] : 1;
    q = vr_gg_view_4d(g, q, q->ne[0], q->ne[1], q->ne[2] / n, n, q->nb[1], q->nb[2], q->nb[3] / n, 0);
    q = vr_gg_permute(g, q, 0, 2, 1, 3);
    k = vr_gg_permute(g, k, 0, 2, 1, 3);
    v = vr_gg_permute(g, v, 0, 2, 1, 3);
    vr_t cur;
    if (c->settled.flash_attn && a->kq_b == NULL)
        cur = with_flash(c, q, k, v_trans ? vr_gg_transpose(g, v) : v, mask, a, il);
    else
        cur = without_flash(c, q, k, v, v_trans, mask, a);
    vr_gg_build_forward_expand(g, cur);
    return cur;
}

/* llama_mul_mat_hadamard */
vr_t vr_lm_rotated(vr_lm_graph *c, vr_t x, vr_t rot)
{
    vr_gg *g = c->g;
    if (rot == NULL || x == NULL)
        return x;
    uint64_t n = rot->ne[0], rows = vr_gg_nelements(x) / (n > 0 ? n : 1);
    vr_t t = vr_gg_is_contiguous(x) ? vr_gg_reshape_2d(g, x, n, rows) : vr_gg_cont_2d(g, x, n, rows);
    t = vr_gg_mul_mat(g, rot, t);
    return vr_gg_reshape_4d(g, t, x->ne[0], x->ne[1], x->ne[2], x->ne[3]);
}

static vr_t output(vr_lm_graph *c, vr_t cur, const vr_lm_attention *a)
{
    if (a->wo != NULL)
        cur = vr_lm_mm(c, a->wo, cur, a->wo_s);
    return a->wo_b != NULL ? vr_gg_add(c->g, cur, a->wo_b) : cur;
}

static void expand(vr_lm_graph *c, vr_t t)
{
    if (t != NULL)
        vr_gg_build_forward_expand(c->g, t);
}

/* Put into the graph before the caches are written, so that splits stay few. With one cache the keys come
 * last: turning them and storing them can be one kernel then. */
static void expand_all(vr_lm_graph *c, const vr_lm_attention *a, bool two_caches)
{
    expand(c, a->q);
    expand(c, two_caches ? a->k : a->v);
    expand(c, two_caches ? a->v : a->k);
}

vr_t vr_lm_build_attn(vr_lm_graph *c, const vr_lm_attention *given, int il)
{
    if (c->none.mask != NULL)
        return vr_lm_build_attn_no_cache(c, given, il);
    bool two_caches = c->swa.mask != NULL;
    const vr_lm_attn *in = two_caches && slides(c, il) ? &c->swa : &c->full;
    if (in->mask == NULL) {
        vr_lm_broken(c, "attention without its inputs");
        return given->q;
    }
    vr_lm_attention a = *given;
    a.q = vr_lm_rotated(c, a.q, in->k_rot);
    a.k = vr_lm_rotated(c, a.k, in->k_rot);
    a.v = vr_lm_rotated(c, a.v, in->v_rot);
    expand_all(c, &a, two_caches || c->plan->rules.keys_last == 0);
    if (a.k != NULL)
        expand(c, vr_lm_cpy_k(c, a.k, in->k_idxs, il));
    if (a.v != NULL && in->v_idxs != NULL)
        expand(c, vr_lm_cpy_v(c, a.v, in->v_idxs, il));
    vr_t k = vr_lm_get_k(c, il), v;
    if (in->v_idxs != NULL)
        v = vr_lm_get_v(c, il);
    else /* values are the first part of the keys */
        v = vr_gg_view_4d(c->g, k, a.v != NULL ? a.v->ne[0] : k->ne[0], k->ne[1], k->ne[2], k->ne[3],
                          k->nb[1], k->nb[2], k->nb[3], 0);
    vr_t cur = vr_lm_attn_mha(c, a.q, k, v, in->mask, &a, il);
    return output(c, vr_lm_rotated(c, cur, in->v_rot), &a);
}

vr_t vr_lm_build_attn_no_cache(vr_lm_graph *c, const vr_lm_attention *a, int il)
{
    vr_t mask = slides(c, il) && c->swa.mask != NULL ? c->swa.mask : c->none.mask;
    expand_all(c, a, true);
    return output(c, vr_lm_attn_mha(c, a->q, a->k, a->v, mask, a, il), a);
}

vr_t vr_lm_attn_of(vr_lm_graph *c, vr_lm_qkv x, int il)
{
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_b = vr_lm_opt(c, il, "attn_output.bias"),
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                          .q = x.q,
                          .k = x.k,
                          .v = x.v };
    return vr_lm_build_attn(c, &a, il);
}
