/* SPDX-License-Identifier: MIT
 * An attention module: projections, rotary embedding, the cache's update, the kernel, the output projection
 * (modeling_*.py, apply_rotary_pos_emb; cache_utils.py, DynamicLayer and DynamicSlidingWindowLayer). */
#include "engine/caches.h"

typedef struct states {
    vr_block q, k, v;
    vr_block gate;    /* of the output, copied from beside the queries, or VR_NONE */
    vr_block whole;   /* of a fused projection, whose parts are views; otherwise VR_NONE */
    vr_block kept[2]; /* until the attention returns */
} states;

/* Early versions keep the first keys and values themselves: what becomes the cache belongs to it from the
 * start. */
static bool keeps_states(const vr_pass *p)
{
    return p->rules->appends && p->group->layers[p->layer].k == VR_NONE;
}

static vr_item kv_item(const vr_pass *p)
{
    return keeps_states(p) ? VR_ITEM_KV : VR_ITEM_HIDDEN;
}

/* Of each head, or of all together. */
static void normalise(vr_pass *p, vr_block *x, uint64_t heads)
{
    uint64_t size = vr_layer_of(p)->key_dim, rows = p->rows;
    if (p->m->family->qk_norm_whole)
        size *= heads;
    else
        rows *= heads;
    vr_replace(p, x, vr_norm(p, rows, size, VR_STEP_QK_NORM));
}

static void multiply(vr_pass *p, vr_block *x, uint64_t bytes, vr_step step)
{
    vr_replace(p, x, vr_take(p, bytes, VR_ITEM_HIDDEN, step));
}

/* Qwen3 normalises each projection at once, Gemma3 after all three, Hunyuan after the rotation. */
static void project(vr_pass *p, states *s)
{
    const vram_model *m = p->m;
    const vr_family *f = m->family;
    const vr_layer *l = vr_layer_of(p);
    uint64_t q = (uint64_t)l->heads * l->key_dim, kv = (uint64_t)l->kv_heads * l->key_dim;
    uint64_t values = (uint64_t)l->kv_heads * l->value_dim;
    bool at_once = f->qk_norm && !f->qk_norm_after && !f->qk_norm_rotated;
    *s = (states){ VR_NONE, VR_NONE, VR_NONE, VR_NONE, VR_NONE, { VR_NONE, VR_NONE } };
    if (m->modules[VR_MODULE_QKV].n != 0) {
        s->whole = vr_linear(p, m->hidden, q + 2 * kv, m->qkv_bias, kv_item(p), VR_STEP_QKV);
        return;
    }
    s->q = vr_linear(p, m->hidden, l->output_gate ? 2 * q : q, m->qkv_bias, VR_ITEM_HIDDEN, VR_STEP_Q);
    if (l->output_gate)
        s->gate = vr_take(p, p->rows * q * p->width, VR_ITEM_HIDDEN, VR_STEP_GATE_OF_OUTPUT);
    if (f->query_multiplied)
        multiply(p, &s->q, p->rows * q * p->width, VR_STEP_Q);
    if (at_once)
        normalise(p, &s->q, l->heads);
    s->k =
        vr_linear(p, m->hidden, kv, m->qkv_bias, l->rotary_dim != 0 ? VR_ITEM_HIDDEN : kv_item(p), VR_STEP_K);
    if (at_once)
        normalise(p, &s->k, l->kv_heads);
    s->v = vr_linear(p, m->hidden, values, m->qkv_bias, kv_item(p), VR_STEP_V);
    if (f->values_scaled)
        multiply(p, &s->v, p->rows * values * p->width, VR_STEP_V);
    if (f->qk_norm && f->qk_norm_after) {
        normalise(p, &s->q, l->heads);
        normalise(p, &s->k, l->kv_heads);
    }
}

/* Gemma4TextAttention: queries, keys and values one after the other, each until it is done; a layer that uses
 * another's cache has queries alone. */
static void project_in_turn(vr_pass *p, states *s, vr_rotated *r)
{
    const vram_model *m = p->m;
    const vr_layer *l = vr_layer_of(p);
    uint64_t kv = (uint64_t)l->kv_heads * l->key_dim;
    *s = (states){ VR_NONE, VR_NONE, VR_NONE, VR_NONE, VR_NONE, { VR_NONE, VR_NONE } };
    *r = (vr_rotated){ VR_NONE, VR_NONE, { VR_NONE, VR_NONE } };
    vr_block q =
        vr_linear(p, m->hidden, (uint64_t)l->heads * l->key_dim, m->qkv_bias, VR_ITEM_HIDDEN, VR_STEP_Q);
    normalise(p, &q, l->heads);
    r->q = vr_rotate_one(p, l->heads, VR_ITEM_HIDDEN);
    vr_drop(p, q);
    if (l->kv_from != 0)
        return;
    vr_block k = vr_linear(p, m->hidden, kv, m->qkv_bias, VR_ITEM_HIDDEN, VR_STEP_K), v = k;
    if (!l->key_is_value)
        v = vr_linear(p, m->hidden, kv, m->qkv_bias, VR_ITEM_HIDDEN, VR_STEP_V);
    vr_block normed = vr_norm(p, p->rows * l->kv_heads, l->key_dim, VR_STEP_QK_NORM);
    vr_drop(p, v != k ? k : VR_NONE);
    r->k = vr_rotate_one(p, l->kv_heads, VR_ITEM_HIDDEN);
    vr_drop(p, normed);
    s->v = vr_norm_bare(p, p->rows * l->kv_heads, l->key_dim, VR_STEP_QK_NORM);
    vr_drop(p, v);
}

/* ministral3, mistral4: times 1 + beta * log(1 + floor(position / length)) (get_llama_4_attn_scale) */
void vr_scale_query(vr_pass *p, vr_block *q)
{
    vr_block x = VR_NONE;
    for (int i = 0; i < 6; i++) {
        vr_replace(p, &x, vr_take(p, p->q * 4, VR_ITEM_HIDDEN, VR_STEP_ROPE));
    }
    if (p->width != 4) {
        vr_replace(p, &x, vr_take(p, p->q * p->width, VR_ITEM_HIDDEN, VR_STEP_ROPE));
    }
    multiply(p, q, p->rows * vr_layer_of(p)->heads * vr_layer_of(p)->key_dim * p->width, VR_STEP_ROPE);
    vr_drop(p, x);
}

/* Llama4TextAttention: log1p(floor((positions + 1) / length)) * a + 1, in fp32, as long as the module runs */
static void temper(vr_pass *p, vr_block *q, states *s)
{
    uint64_t n = p->rows * vr_layer_of(p)->heads * vr_layer_of(p)->key_dim;
    if (p->rules->plain_masks) {
        vr_block range = vr_take(p, p->q * 8, VR_ITEM_HIDDEN, VR_STEP_ROPE);
        s->kept[0] = vr_take(p, p->q * 8, VR_ITEM_HIDDEN, VR_STEP_ROPE);
        vr_drop(p, range);
    }
    for (int i = 0; i < 7; i++)
        multiply(p, &s->kept[1], p->q * 4, VR_STEP_ROPE);
    vr_block wide = vr_take(p, n * 4, VR_ITEM_HIDDEN, VR_STEP_ROPE);
    vr_block out = p->width != 4 ? vr_take(p, n * p->width, VR_ITEM_HIDDEN, VR_STEP_ROPE) : wide;
    vr_drop(p, out != wide ? wide : VR_NONE);
    vr_drop(p, *q);
    *q = out;
}

static void normalise_bare(vr_pass *p, vr_block *x, uint64_t heads)
{
    vr_block out = vr_norm_bare(p, p->rows * heads, vr_layer_of(p)->key_dim, VR_STEP_QK_NORM);
    vr_drop(p, *x);
    *x = out;
}

/* The queries and keys that attend: turned, or as they are. What the function's variables hold until it
 * returns stays in *s and r->kept. */
static void turn(vr_pass *p, states *s, vr_rotated *r)
{
    const vr_family *f = p->m->family;
    const vr_layer *l = vr_layer_of(p);
    *r = (vr_rotated){ s->q, s->k, { VR_NONE, VR_NONE } };
    if (l->rotary_dim != 0) {
        *r = vr_rotate(p, kv_item(p));
        if (f->rope == VR_ROPE_HALF_KEPT) { /* what was not turned is a view of them */
            s->kept[0] = s->q;
            s->kept[1] = s->k;
        } else {
            vr_drop(p, s->q);
            vr_drop(p, s->k);
        }
    }
    s->q = s->k = VR_NONE;
    if (l->bare_qk_norm) {
        normalise_bare(p, &r->q, l->heads);
        normalise_bare(p, &r->k, l->kv_heads);
    }
    if (f->query_scaled)
        vr_scale_query(p, &r->q);
    if (l->query_tempered)
        temper(p, &r->q, s);
    if (f->qk_norm && f->qk_norm_rotated) {
        normalise(p, &r->q, l->heads);
        normalise(p, &r->k, l->kv_heads);
    }
}

/* ---- the cache ---- */

void vr_cache_start(vr_pass *p)
{
    static const vr_packed none = { VR_NONE, VR_NONE, VR_NONE };
    const vr_kv empty = { VR_NONE, VR_NONE, VR_NONE, VR_NONE, VR_NONE, VR_NONE, { none, none }, 0 };
    for (uint64_t i = 0; i < p->m->n_layers && !p->group->started; i++)
        p->group->layers[i] = empty;
    p->group->started = true;
}

static vr_block grown(vr_pass *p, uint64_t tokens, uint64_t width, vr_step step)
{
    uint64_t bytes = p->batch * vr_layer_of(p)->kv_heads * tokens * width * p->width;
    return vr_take(p, bytes, VR_ITEM_KV, step);
}

/* torch.cat makes the new storage while the old one lives; a sliding layer makes both before it lets go of
 * either, and then keeps the last window - 1 tokens as a view of the whole. */
static void concatenate(vr_pass *p, vr_kv *kv, uint64_t window)
{
    uint64_t tokens = vr_kv_length(p, window);
    bool slides = window != 0 && !p->rules->appends;
    vr_block k = grown(p, tokens, vr_layer_of(p)->key_dim, VR_STEP_KEYS), v = VR_NONE;
    if (!slides)
        vr_drop(p, kv->k);
    v = grown(p, tokens, vr_layer_of(p)->value_dim, VR_STEP_VALUES);
    if (slides)
        vr_drop(p, kv->k);
    vr_drop(p, kv->v);
    kv->k = k;
    kv->v = v;
}

/* The attention's variables name what the cache has, and no longer what was projected. */
static void replace_by_cached(vr_pass *p, states *s, vr_block keys)
{
    vr_block values = s->v;
    s->v = VR_NONE;
    if (vr_cache_offloads(p->w))
        vr_offload(p, &s->k, &s->v);
    vr_drop(p, keys);
    vr_drop(p, values);
}

void vr_append(vr_pass *p)
{
    concatenate(p, &p->group->layers[p->layer], 0);
}

/* Takes the new keys (rotated) and values. */
static void update(vr_pass *p, states *s, vr_block keys)
{
    vr_kv *kv = &p->group->layers[p->layer];
    uint64_t window = vr_window(p);
    bool first = kv->k == VR_NONE;
    if (p->w->cache == VR_CACHE_QUANTIZED) {
        s->k = keys;
        vr_quantized_update(p, &s->k, &s->v);
        return;
    }
    if (vr_cache_offloads(p->w))
        vr_prefetch(p);
    if (vr_cache_fixed(p->w)) {
        if (vr_static_update(p)) {
            s->k = keys;
            return;
        }
        replace_by_cached(p, s, keys);
        return;
    }
    if (first && window != 0 && p->rules->window_tensor)
        kv->window = vr_take_at(p, 8, VR_ITEM_KV, VR_PLACE_WINDOW);
    if (keeps_states(p)) {
        kv->k = keys;
        kv->v = s->v != VR_NONE ? s->v : s->whole; /* a view holds the whole */
        s->v = s->whole = VR_NONE;
        return;
    }
    concatenate(p, kv, window);
    replace_by_cached(p, s, keys);
}

/* ---- the module ---- */

static vr_block run_kernel(vr_pass *p, vr_block *probabilities)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t window = vr_window(p);
    vr_heads h = { .q = l->heads,
                   .kv = l->kv_heads,
                   .groups = l->heads / l->kv_heads,
                   .size = l->key_dim,
                   .value = l->value_dim,
                   .kv_tokens = vr_kv_length(p, window),
                   .packed = l->rotary_dim != 0 && vr_rotary_packs(p->m->family->rope),
                   .inside = p->m->modules[VR_MODULE_QKV].n != 0,
                   .sinks = l->sinks,
                   .mask = window != 0 ? p->sliding_mask : p->full_mask };
    switch (p->w->attention) {
    case VR_IMPL_EAGER:
        return vr_kernel_eager(p, &h, probabilities);
    case VR_IMPL_FLASH:
        return vr_kernel_flash(p, &h);
    default:
        return vr_kernel_sdpa(p, &h);
    }
}

/* mixed * sigmoid(gate) */
static vr_block gated(vr_pass *p, vr_block mixed)
{
    uint64_t bytes = p->rows * vr_layer_of(p)->heads * vr_layer_of(p)->value_dim * p->width;
    vr_block share = vr_take(p, bytes, VR_ITEM_HIDDEN, VR_STEP_GATE_OF_OUTPUT);
    vr_block out = vr_take(p, bytes, VR_ITEM_HIDDEN, VR_STEP_GATE_OF_OUTPUT);
    vr_drop(p, share);
    vr_drop(p, mixed);
    return out;
}

vr_block vr_attention(vr_pass *p, vr_block normed, vr_block *probabilities)
{
    const vr_layer *l = vr_layer_of(p);
    states s;
    vr_rotated r;
    *probabilities = VR_NONE;
    if (p->m->family->turned_at_once) {
        project_in_turn(p, &s, &r);
    } else {
        project(p, &s);
        turn(p, &s, &r);
    }
    if (l->kv_from == 0)
        update(p, &s, r.k);
    vr_block mixed = run_kernel(p, probabilities);
    if (s.gate != VR_NONE)
        mixed = gated(p, mixed);
    vr_block out = vr_linear(p, (uint64_t)l->heads * l->value_dim, p->m->hidden, p->m->o_bias, VR_ITEM_HIDDEN,
                             VR_STEP_O);
    const vr_block held[] = { mixed, s.k,       s.v,       s.whole,   s.gate,
                              r.q,   s.kept[0], s.kept[1], r.kept[0], r.kept[1] };
    vr_drop_all(p, held, sizeof(held) / sizeof(held[0]));
    if (p->m->family->position_offset != 0 && !p->rules->plain_masks) { /* opt of version 4 returns none */
        vr_drop(p, *probabilities);
        *probabilities = VR_NONE;
    }
    vr_drop(p, normed);
    return out;
}
