/* SPDX-License-Identifier: MIT
 * Multi-head latent attention: projections through short vectors, the rotated part, the cache, keys and
 * values of all heads, the kernel (models/deepseek_v2, deepseek_v3, minicpm3: modeling_*.py of transformers
 * 4.57, 5.14, 5.15, 5.17, 5.24).
 *
 * Up to 5.14 keys and values of all heads are cached; from 5.15 on the short vector and the shared rotated
 * key, of which keys and values of all tokens are made anew in every call. */
#include "engine/latent.h"

/* Sparse attention cached keys and values of all heads for longer. */
static bool is_small(const vr_layer *l, const vr_rules *rules)
{
    return l->index_topk != 0 ? rules->sparse_latent_cache : rules->latent_cache;
}

vr_kept vr_kept_of(const vr_layer *l, const vr_rules *rules)
{
    if (l->attention == VR_ATTENTION_LATENT && is_small(l, rules))
        return (vr_kept){ l->latent, l->rotary_dim, l->index_dim };
    if (l->all_heads_cached)
        return (vr_kept){ (uint64_t)l->heads * l->key_dim, (uint64_t)l->heads * l->value_dim, l->index_dim };
    return (vr_kept){ l->key_elements, l->value_elements, l->index_dim };
}

/* What the module's variables hold until it returns. */
typedef struct states {
    vr_block small_q;              /* normalised, of sparse attention: the index reads it too */
    vr_block q, rotated_q;         /* of q only the rotated part is new */
    vr_block compressed;           /* short vector and shared key, before either is changed */
    vr_block latent, rotated_k;    /* these after it */
    vr_block expanded, query, key; /* values are a part of `expanded`, or in the cache */
} states;

static vr_block state(vr_pass *p, uint64_t elements, vr_step step)
{
    return vr_take(p, elements * p->width, VR_ITEM_HIDDEN, step);
}

static vr_block normalised(vr_pass *p, vr_block *x, uint64_t size)
{
    vr_block out = vr_norm(p, p->rows, size, VR_STEP_QK_NORM);
    if (x != NULL)
        vr_drop(p, *x);
    return out;
}

/* ---- projections ---- */

static vr_block queries(vr_pass *p, vr_block *kept)
{
    const vram_model *m = p->m;
    const vr_layer *l = vr_layer_of(p);
    uint64_t width = (uint64_t)l->heads * l->key_dim;
    if (l->query_latent == 0)
        return vr_linear(p, m->hidden, width, false, VR_ITEM_HIDDEN, VR_STEP_Q);
    vr_block small = vr_linear(p, m->hidden, l->query_latent, m->qkv_bias, VR_ITEM_HIDDEN, VR_STEP_Q_SMALL);
    small = normalised(p, &small, l->query_latent);
    vr_block q = vr_linear(p, l->query_latent, width, false, VR_ITEM_HIDDEN, VR_STEP_Q);
    if (l->index_topk != 0)
        *kept = small;
    else
        vr_drop(p, small);
    return q;
}

/* kv_b_proj over `tokens` of each sequence */
static vr_block expand(vr_pass *p, uint64_t tokens)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t rows = p->rows, width = (uint64_t)l->heads * (l->key_dim - l->rotary_dim + l->value_dim);
    p->rows = p->batch * tokens;
    vr_block out = vr_linear(p, l->latent, width, false, VR_ITEM_HIDDEN, VR_STEP_KV);
    p->rows = rows;
    return out;
}

/* ---- the rotated part ---- */

static uint64_t rotated_elements(const vr_pass *p, uint64_t heads)
{
    return p->rows * heads * vr_layer_of(p)->rotary_dim;
}

/* (x * cos) + (rotate_half(x) * sin) */
vr_block vr_rotate_halves(vr_pass *p, uint64_t heads)
{
    uint64_t n = rotated_elements(p, heads);
    vr_block a = state(p, n, VR_STEP_ROPE);
    vr_block negated = state(p, n / 2, VR_STEP_ROPE), half = state(p, n, VR_STEP_ROPE);
    vr_drop(p, negated);
    vr_block b = state(p, n, VR_STEP_ROPE);
    vr_drop(p, half);
    vr_block sum = state(p, n, VR_STEP_ROPE);
    vr_drop(p, a);
    vr_drop(p, b);
    return sum;
}

/* x1 * cos - x2 * sin, or the other way round with + */
static vr_block turned(vr_pass *p, uint64_t n)
{
    vr_block a = state(p, n, VR_STEP_ROPE), b = state(p, n, VR_STEP_ROPE), out = state(p, n, VR_STEP_ROPE);
    vr_drop(p, a);
    vr_drop(p, b);
    return out;
}

vr_block vr_rotate_pairs(vr_pass *p, uint64_t heads)
{
    uint64_t n = rotated_elements(p, heads);
    vr_block first = turned(p, n / 2), second = turned(p, n / 2);
    vr_block out = state(p, n, VR_STEP_ROPE);
    vr_drop(p, first);
    vr_drop(p, second);
    return out;
}

/* deepseek_v2: a product of complex numbers, two floats each; in 32 bits it stays as it is */
static vr_block rotate_complex(vr_pass *p, uint64_t heads)
{
    uint64_t n = rotated_elements(p, heads);
    vr_block product = vr_take(p, n * 4, VR_ITEM_HIDDEN, VR_STEP_ROPE);
    if (p->width == 4)
        return product;
    vr_block out = state(p, n, VR_STEP_ROPE);
    vr_drop(p, product);
    return out;
}

/* Queries first, then the key that all heads share; what is copied before stays until both are done. */
static void rotate(vr_pass *p, states *s)
{
    const vr_layer *l = vr_layer_of(p);
    bool pairs = p->m->family->rope == VR_ROPE_PAIRS, complex = p->m->family->rope == VR_ROPE_PAIRS_COMPLEX;
    bool copies = complex ? p->width != 4 : pairs && !p->rules->latent_cache; /* .float(), .reshape() */
    unsigned width = complex ? 4 : p->width;
    vr_block q = VR_NONE, k = VR_NONE;
    if (copies) {
        q = vr_take(p, rotated_elements(p, l->heads) * width, VR_ITEM_HIDDEN, VR_STEP_ROPE);
        k = vr_take(p, rotated_elements(p, 1) * width, VR_ITEM_HIDDEN, VR_STEP_ROPE);
    }
    vr_block (*turn)(vr_pass *, uint64_t) = complex                           ? rotate_complex
                                            : pairs && p->rules->latent_cache ? vr_rotate_pairs
                                                                              : vr_rotate_halves;
    s->rotated_q = turn(p, l->heads);
    s->rotated_k = turn(p, 1);
    vr_drop(p, q);
    vr_drop(p, k);
}

/* ---- the cache ---- */

static vr_block grown(vr_pass *p, uint64_t elements, vr_step step)
{
    return vr_take(p, p->batch * (p->group->past + p->q) * elements * p->width, VR_ITEM_KV, step);
}

/* torch.cat makes the new storage while the old one lives. */
static void concatenate(vr_pass *p)
{
    vr_kv *kv = &p->group->layers[p->layer];
    vr_kept kept = vr_kept_of(vr_layer_of(p), p->rules);
    vr_replace(p, &kv->k, grown(p, kept.keys, VR_STEP_KEYS));
    vr_replace(p, &kv->v, grown(p, kept.values, VR_STEP_VALUES));
}

static vr_block joined_query(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    return state(p, p->rows * l->heads * l->key_dim, VR_STEP_QUERY);
}

/* From 5.15 on: the cache holds what keys and values are made of. */
static void project_and_keep(vr_pass *p, states *s)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t tokens = p->group->past + p->q;
    s->latent = normalised(p, NULL, l->latent);
    rotate(p, s);
    concatenate(p);
    vr_drop(p, s->latent);
    vr_drop(p, s->rotated_k);
    s->latent = s->rotated_k = VR_NONE;
    s->query = joined_query(p);
    if (p->m->family->query_scaled)
        vr_scale_query(p, &s->query);
    s->expanded = expand(p, tokens);
    s->key = state(p, p->batch * tokens * l->heads * l->key_dim, VR_STEP_KEY);
}

/* Before: keys and values of all heads. The first cache of early versions keeps them without a copy, the
 * values as a part of what was expanded. */
static void expand_and_keep(vr_pass *p, states *s)
{
    const vr_layer *l = vr_layer_of(p);
    vr_kv *kv = &p->group->layers[p->layer];
    bool keeps = p->rules->appends && kv->k == VR_NONE;
    s->latent = normalised(p, NULL, l->latent);
    s->expanded = expand(p, p->q);
    vr_drop(p, s->latent);
    s->latent = VR_NONE;
    rotate(p, s);
    s->query = joined_query(p);
    vr_block key = vr_take(p, p->rows * l->heads * l->key_dim * p->width, keeps ? VR_ITEM_KV : VR_ITEM_HIDDEN,
                           VR_STEP_KEY);
    if (keeps) {
        kv->k = key;
        kv->v = s->expanded;
        s->expanded = VR_NONE;
        return;
    }
    concatenate(p);
    vr_drop(p, key);
}

/* Sparse attention before it cached the short vectors: keys and values of the new tokens are cached. */
static void project_and_keep_all(vr_pass *p, states *s)
{
    const vr_layer *l = vr_layer_of(p);
    s->latent = normalised(p, NULL, l->latent);
    rotate(p, s);
    s->query = joined_query(p);
    vr_block expanded = expand(p, p->q);
    vr_block key = state(p, p->rows * l->heads * l->key_dim, VR_STEP_KEY);
    concatenate(p);
    vr_drop(p, key);
    vr_drop(p, expanded);
}

/* ---- the module ---- */

/* The flash_attn package knows one width: values are padded to that of the keys, and what comes out is cut
 * (integrations/flash_attention.py; before, in the module). */
static vr_block padded_flash(vr_pass *p, vr_heads h)
{
    uint64_t value = h.value;
    if (value == h.size)
        return vr_kernel_flash(p, &h);
    vr_block padded = state(p, p->batch * h.q * h.kv_tokens * h.size, VR_STEP_REPEATED);
    h.value = h.size;
    vr_block wide = vr_kernel_flash(p, &h);
    vr_drop(p, padded);
    vr_block out = state(p, p->rows * h.q * value, VR_STEP_ATTENTION);
    vr_drop(p, wide);
    return out;
}

static vr_block run_kernel(vr_pass *p, vr_block mask, vr_block *probabilities)
{
    const vr_layer *l = vr_layer_of(p);
    vr_heads h = { .q = l->heads,
                   .kv = l->heads,
                   .groups = 1,
                   .size = l->key_dim,
                   .value = l->value_dim,
                   .kv_tokens = p->group->past + p->q,
                   .packed = true,
                   .scattered = is_small(l, p->rules),
                   .mask = mask };
    if (p->w->attention == VR_IMPL_EAGER)
        return vr_kernel_eager(p, &h, probabilities);
    return p->w->attention == VR_IMPL_FLASH ? padded_flash(p, h) : vr_kernel_sdpa(p, &h);
}

static void make_states(vr_pass *p, states *s)
{
    const vr_layer *l = vr_layer_of(p);
    *s = (states){
        .small_q = VR_NONE, .latent = VR_NONE, .rotated_k = VR_NONE, .expanded = VR_NONE, .key = VR_NONE
    };
    s->q = queries(p, &s->small_q);
    s->compressed = vr_linear(p, p->m->hidden, (uint64_t)l->latent + l->rotary_dim, p->m->qkv_bias,
                              VR_ITEM_HIDDEN, VR_STEP_KV_SMALL);
    if (is_small(l, p->rules))
        project_and_keep(p, s);
    else if (p->rules->latent_cache)
        project_and_keep_all(p, s);
    else
        expand_and_keep(p, s);
}

vr_block vr_attention_latent(vr_pass *p, vr_block normed, vr_block *probabilities)
{
    const vram_model *m = p->m;
    const vr_layer *l = vr_layer_of(p);
    states s;
    vr_chosen chosen = { VR_NONE, VR_NONE };
    *probabilities = VR_NONE;
    make_states(p, &s);
    if (l->index_topk != 0)
        chosen = vr_choose_tokens(p);
    vr_block mixed = run_kernel(p, chosen.mask != VR_NONE ? chosen.mask : p->full_mask, probabilities);
    vr_block out =
        vr_linear(p, (uint64_t)l->heads * l->value_dim, m->hidden, m->o_bias, VR_ITEM_HIDDEN, VR_STEP_O);
    const vr_block held[] = { mixed,      s.small_q, s.q,   s.rotated_q,  s.compressed, s.latent, s.rotated_k,
                              s.expanded, s.query,   s.key, chosen.flags, chosen.mask,  normed };
    vr_drop_all(p, held, sizeof(held) / sizeof(held[0]));
    if (!m->family->index_shared) {
        vr_drop(p, p->chosen_now);
        p->chosen_now = VR_NONE;
    }
    return out;
}
