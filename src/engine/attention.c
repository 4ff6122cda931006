/* SPDX-License-Identifier: MIT
 * An attention module: projections, rotary embedding, the cache's update, the kernel, the output projection
 * (modeling_*.py, apply_rotary_pos_emb; cache_utils.py, DynamicLayer and DynamicSlidingWindowLayer). */
#include "engine/pass.h"

typedef struct states {
    vr_block q, k, v;
    vr_block gate;  /* of the output, copied from beside the queries, or VR_NONE */
    vr_block whole; /* of a fused projection, whose parts are views; otherwise VR_NONE */
} states;

static uint64_t head_bytes(const vr_pass *p, uint64_t heads)
{
    return p->rows * heads * vr_layer_of(p)->key_dim * p->width;
}

/* The rotated part and the one that is not, put together. */
static vr_block joined(vr_pass *p, uint64_t heads, vr_item item, vr_block rotated)
{
    vr_block whole = vr_take(p, head_bytes(p, heads), item, VR_STEP_ROPE);
    vr_drop(p, rotated);
    return whole;
}

/* (x * cos) + (rotate_half(x) * sin); phi3 puts the part that is not rotated behind it, empty or not. */
static vr_block rotate(vr_pass *p, uint64_t heads, vr_item item)
{
    uint64_t rotated = p->rows * heads * vr_layer_of(p)->rotary_dim * p->width;
    vr_block a = vr_take(p, rotated, VR_ITEM_HIDDEN, VR_STEP_ROPE);
    vr_block negated = vr_take(p, rotated / 2, VR_ITEM_HIDDEN, VR_STEP_ROPE);
    vr_block half = vr_take(p, rotated, VR_ITEM_HIDDEN, VR_STEP_ROPE);
    vr_drop(p, negated);
    vr_block b = vr_take(p, rotated, VR_ITEM_HIDDEN, VR_STEP_ROPE);
    vr_drop(p, half);
    vr_block sum = vr_take(p, rotated, item, VR_STEP_ROPE);
    vr_drop(p, a);
    vr_drop(p, b);
    return p->m->modules[VR_MODULE_QKV].n == 0 ? sum : joined(p, heads, item, sum);
}

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

static void normalise(vr_pass *p, vr_block *x, uint64_t heads)
{
    vr_block out = vr_norm(p, p->rows * heads, vr_layer_of(p)->key_dim, VR_STEP_QK_NORM);
    vr_drop(p, *x);
    *x = out;
}

/* Qwen3 normalises each projection at once, Gemma3 after all three. */
static void project(vr_pass *p, states *s)
{
    const vram_model *m = p->m;
    const vr_family *f = m->family;
    const vr_layer *l = vr_layer_of(p);
    uint64_t q = (uint64_t)l->heads * l->key_dim, kv = (uint64_t)l->kv_heads * l->key_dim;
    bool at_once = f->qk_norm && (f->norm == VR_NORM_RMS || l->output_gate), after = f->qk_norm && !at_once;
    *s = (states){ VR_NONE, VR_NONE, VR_NONE, VR_NONE, VR_NONE };
    if (m->modules[VR_MODULE_QKV].n != 0) {
        s->whole = vr_linear(p, m->hidden, q + 2 * kv, m->qkv_bias, kv_item(p), VR_STEP_QKV);
        return;
    }
    s->q = vr_linear(p, m->hidden, l->output_gate ? 2 * q : q, m->qkv_bias, VR_ITEM_HIDDEN, VR_STEP_Q);
    if (l->output_gate)
        s->gate = vr_take(p, p->rows * q * p->width, VR_ITEM_HIDDEN, VR_STEP_GATE_OF_OUTPUT);
    if (at_once)
        normalise(p, &s->q, l->heads);
    s->k = vr_linear(p, m->hidden, kv, m->qkv_bias, VR_ITEM_HIDDEN, VR_STEP_K);
    if (at_once)
        normalise(p, &s->k, l->kv_heads);
    s->v = vr_linear(p, m->hidden, kv, m->qkv_bias, kv_item(p), VR_STEP_V);
    if (after) {
        normalise(p, &s->q, l->heads);
        normalise(p, &s->k, l->kv_heads);
    }
}

/* ---- the cache ---- */

static vr_block grown(vr_pass *p, uint64_t tokens, vr_step step)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t bytes = p->batch * l->kv_heads * tokens * l->key_dim * p->width;
    return vr_take(p, bytes, VR_ITEM_KV, step);
}

/* torch.cat makes the new storage while the old one lives; a sliding layer makes both before it lets go of
 * either, and then keeps the last window - 1 tokens as a view of the whole. */
static void concatenate(vr_pass *p, vr_kv *kv, uint64_t window)
{
    uint64_t tokens = vr_kv_length(p, window);
    bool slides = window != 0 && !p->rules->appends;
    vr_block k = grown(p, tokens, VR_STEP_KEYS), v = VR_NONE;
    if (!slides)
        vr_drop(p, kv->k);
    v = grown(p, tokens, VR_STEP_VALUES);
    if (slides)
        vr_drop(p, kv->k);
    vr_drop(p, kv->v);
    kv->k = k;
    kv->v = v;
}

/* Takes the new keys (rotated) and values. */
static void update(vr_pass *p, states *s, vr_block keys)
{
    vr_kv *kv = &p->group->layers[p->layer];
    uint64_t window = vr_window(p);
    bool first = kv->k == VR_NONE;
    if (first && window != 0 && p->rules->window_tensor)
        kv->window = vr_take_at(p, 8, VR_ITEM_KV, VR_PLACE_WINDOW);
    if (keeps_states(p)) {
        kv->k = keys;
        kv->v = s->v != VR_NONE ? s->v : s->whole; /* a view holds the whole */
        s->whole = VR_NONE;
        return;
    }
    concatenate(p, kv, window);
    vr_drop(p, keys);
    vr_drop(p, s->v);
}

/* ---- the module ---- */

/* Only a part of a head is rotated: queries and keys are put together from both parts, head by head. */
static bool rotates_part(const vr_pass *p)
{
    return p->m->modules[VR_MODULE_QKV].n == 0 && vr_layer_of(p)->rotary_dim < vr_layer_of(p)->key_dim;
}

static vr_block run_kernel(vr_pass *p, vr_block *probabilities)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t window = vr_window(p);
    vr_heads h = { .q = l->heads,
                   .kv = l->kv_heads,
                   .groups = l->heads / l->kv_heads,
                   .size = l->key_dim,
                   .kv_tokens = vr_kv_length(p, window),
                   .packed = p->m->modules[VR_MODULE_QKV].n != 0 || rotates_part(p),
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
    *probabilities = VR_NONE;
    project(p, &s);
    vr_block q = rotate(p, l->heads, VR_ITEM_HIDDEN), k = rotate(p, l->kv_heads, kv_item(p));
    if (rotates_part(p)) {
        q = joined(p, l->heads, VR_ITEM_HIDDEN, q);
        k = joined(p, l->kv_heads, kv_item(p), k);
    }
    vr_drop(p, s.q);
    vr_drop(p, s.k);
    update(p, &s, k);
    vr_block mixed = run_kernel(p, probabilities);
    if (s.gate != VR_NONE)
        mixed = gated(p, mixed);
    vr_block out = vr_linear(p, (uint64_t)l->heads * l->value_dim, p->m->hidden, p->m->o_bias, VR_ITEM_HIDDEN,
                             VR_STEP_O);
    vr_drop(p, mixed);
    vr_drop(p, s.whole);
    vr_drop(p, s.gate);
    vr_drop(p, q);
    vr_drop(p, normed);
    return out;
}
