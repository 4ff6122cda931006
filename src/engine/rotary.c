/* SPDX-License-Identifier: MIT
 * Queries and keys turned by their position: apply_rotary_pos_emb of modeling_*.py, of which there are as
 * many as ways to narrow, to split and to put together again. */
#include "engine/pass.h"

typedef struct turn {
    vr_pass *p;
    const vr_layer *l;
    vr_item item;     /* of the keys' result */
    unsigned in, out; /* bytes of an element before and after the product with cos and sin */
} turn;

static uint64_t elements(const turn *t, uint64_t heads, uint64_t width)
{
    return t->p->rows * heads * width;
}

static vr_block take(const turn *t, uint64_t bytes, vr_item item)
{
    return vr_take(t->p, bytes, item, VR_STEP_ROPE);
}

/* (x * cos) + (rotate_half(x) * sin); of pairs, torch.stack takes what torch.cat does. */
static vr_block turned(const turn *t, uint64_t heads, vr_item item)
{
    uint64_t n = elements(t, heads, t->l->rotary_dim);
    vr_block a = take(t, n * t->out, VR_ITEM_HIDDEN);
    vr_block negated = take(t, n / 2 * t->in, VR_ITEM_HIDDEN);
    vr_block half = take(t, n * t->in, VR_ITEM_HIDDEN);
    vr_drop(t->p, negated);
    vr_block b = take(t, n * t->out, VR_ITEM_HIDDEN);
    vr_drop(t->p, half);
    vr_block sum = take(t, n * t->out, item);
    vr_drop(t->p, a);
    vr_drop(t->p, b);
    return sum;
}

/* (x.float() * cos) + (rotate_half(x).float() * sin) (ernie4_5) */
static vr_block turned_widened(const turn *t, uint64_t heads)
{
    uint64_t n = elements(t, heads, t->l->rotary_dim);
    bool widens = t->in != 4;
    vr_block x = widens ? take(t, n * 4, VR_ITEM_HIDDEN) : VR_NONE;
    vr_block a = take(t, n * 4, VR_ITEM_HIDDEN);
    vr_drop(t->p, x);
    vr_block negated = take(t, n / 2 * t->in, VR_ITEM_HIDDEN);
    vr_block half = take(t, n * t->in, VR_ITEM_HIDDEN);
    vr_drop(t->p, negated);
    vr_block wide = widens ? take(t, n * 4, VR_ITEM_HIDDEN) : VR_NONE;
    if (widens)
        vr_drop(t->p, half);
    vr_block b = take(t, n * 4, VR_ITEM_HIDDEN);
    vr_drop(t->p, widens ? wide : half);
    vr_block sum = take(t, n * 4, VR_ITEM_HIDDEN);
    vr_drop(t->p, a);
    vr_drop(t->p, b);
    return sum;
}

/* torch.cat of the turned part and the rest, or a copy in the model's width */
static vr_block whole(const turn *t, uint64_t heads, vr_item item)
{
    return take(t, elements(t, heads, t->l->key_dim) * t->p->width, item);
}

static vr_rotated both(const turn *t)
{
    vr_rotated r = { VR_NONE, VR_NONE, { VR_NONE, VR_NONE } };
    r.q = turned(t, t->l->heads, VR_ITEM_HIDDEN);
    r.k = turned(t, t->l->kv_heads, t->item);
    return r;
}

/* phi3: each is put together at once */
static vr_rotated each_whole(const turn *t)
{
    vr_rotated r = { VR_NONE, VR_NONE, { VR_NONE, VR_NONE } };
    vr_block q = turned(t, t->l->heads, VR_ITEM_HIDDEN);
    r.q = whole(t, t->l->heads, VR_ITEM_HIDDEN);
    vr_drop(t->p, q);
    vr_block k = turned(t, t->l->kv_heads, t->item);
    r.k = whole(t, t->l->kv_heads, t->item);
    vr_drop(t->p, k);
    return r;
}

/* first * cos - second * sin, second * cos + first * sin, both put together (gpt_oss) */
static vr_block in_chunks(const turn *t, uint64_t heads, vr_item item)
{
    uint64_t n = elements(t, heads, t->l->rotary_dim) / 2 * t->out;
    vr_block parts[2];
    for (int i = 0; i < 2; i++) {
        vr_block a = take(t, n, VR_ITEM_HIDDEN), b = take(t, n, VR_ITEM_HIDDEN);
        parts[i] = take(t, n, VR_ITEM_HIDDEN);
        vr_drop(t->p, a);
        vr_drop(t->p, b);
    }
    vr_block all = take(t, 2 * n, item);
    vr_drop(t->p, parts[0]);
    vr_drop(t->p, parts[1]);
    return all;
}

/* Both are turned, then both put together. phi keeps the turned parts in variables until it returns;
 * gpt_neox assigns them anew; nemotron returns them as they come. */
static vr_rotated both_whole(const turn *t, uint8_t kind)
{
    vr_rotated parts = both(t), r = parts;
    r.q = whole(t, t->l->heads, VR_ITEM_HIDDEN);
    if (kind == VR_ROPE_HALF_THEN || kind == VR_ROPE_PAIRS)
        vr_drop(t->p, parts.q);
    r.k = whole(t, t->l->kv_heads, t->item);
    if (kind == VR_ROPE_HALF_KEPT) {
        r.kept[0] = parts.q;
        r.kept[1] = parts.k;
        return r;
    }
    if (kind == VR_ROPE_HALF_RETURNED)
        vr_drop(t->p, parts.q);
    vr_drop(t->p, parts.k);
    return r;
}

/* The wide results are narrowed both before they go. */
static vr_rotated narrowed(const turn *t, vr_rotated wide)
{
    vr_rotated r = wide;
    if (t->p->width == 4)
        return r;
    r.q = whole(t, t->l->heads, VR_ITEM_HIDDEN);
    r.k = whole(t, t->l->kv_heads, t->item);
    vr_drop(t->p, wide.q);
    vr_drop(t->p, wide.k);
    return r;
}

/* cohere: q.float(), k.float() first */
static vr_rotated in_floats(const turn *t)
{
    bool widens = t->p->width != 4;
    vr_block q = widens ? take(t, elements(t, t->l->heads, t->l->key_dim) * 4, VR_ITEM_HIDDEN) : VR_NONE;
    vr_block k = widens ? take(t, elements(t, t->l->kv_heads, t->l->key_dim) * 4, VR_ITEM_HIDDEN) : VR_NONE;
    vr_rotated r = narrowed(t, both(&(turn){ t->p, t->l, t->item, 4, 4 }));
    vr_drop(t->p, k);
    vr_drop(t->p, q);
    return r;
}

/* cos and sin of single angles are made those of pairs in each layer: repeat_interleave(2) */
static vr_rotated in_pairs(const turn *t, uint8_t kind)
{
    unsigned width = kind == VR_ROPE_PAIRS_WIDE ? 4 : t->p->width;
    uint64_t table = t->p->q * t->l->rotary_dim * width;
    vr_block cos = take(t, table, VR_ITEM_HIDDEN), sin = take(t, table, VR_ITEM_HIDDEN);
    vr_rotated r = { VR_NONE, VR_NONE, { VR_NONE, VR_NONE } };
    if (kind == VR_ROPE_PAIRS_WIDE) {
        r.q = turned_widened(t, t->l->heads);
        r.k = turned_widened(t, t->l->kv_heads);
        r = narrowed(t, r);
    } else {
        r = kind == VR_ROPE_PAIRS ? both_whole(t, kind) : both(t);
    }
    vr_drop(t->p, cos);
    vr_drop(t->p, sin);
    return r;
}

/* llama4: what is widened is viewed as complex numbers, times a table of these */
static vr_rotated as_complex(const turn *t)
{
    uint64_t q = elements(t, t->l->heads, t->l->key_dim), k = elements(t, t->l->kv_heads, t->l->key_dim);
    bool widens = t->p->width != 4;
    vr_block wide_q = widens ? take(t, q * 4, VR_ITEM_HIDDEN) : VR_NONE;
    vr_block wide_k = widens ? take(t, k * 4, VR_ITEM_HIDDEN) : VR_NONE;
    vr_rotated r = { VR_NONE, VR_NONE, { VR_NONE, VR_NONE } };
    r.q = take(t, q * 4, VR_ITEM_HIDDEN);
    r.k = take(t, k * 4, widens ? VR_ITEM_HIDDEN : t->item);
    r = narrowed(t, r);
    vr_drop(t->p, wide_q);
    vr_drop(t->p, wide_k);
    return r;
}

vr_rotated vr_rotate(vr_pass *p, vr_item item)
{
    uint8_t kind = p->m->family->rope;
    const turn t = { p, vr_layer_of(p), item, p->width, p->width };
    switch (kind) {
    case VR_ROPE_CHUNKS:
        return (vr_rotated){ in_chunks(&t, t.l->heads, VR_ITEM_HIDDEN),
                             in_chunks(&t, t.l->kv_heads, item),
                             { VR_NONE, VR_NONE } };
    case VR_ROPE_HALF_EACH:
        return each_whole(&t);
    case VR_ROPE_HALF_THEN:
    case VR_ROPE_HALF_KEPT:
    case VR_ROPE_HALF_RETURNED:
        return both_whole(&t, kind);
    case VR_ROPE_HALF_WIDE:
        return narrowed(&t, both(&(turn){ p, t.l, item, p->width, 4 }));
    case VR_ROPE_PAIRS_FLOAT:
        return in_floats(&t);
    case VR_ROPE_PAIRS_COMPLEX:
        return as_complex(&t);
    case VR_ROPE_PAIRS:
    case VR_ROPE_PAIRS_ALL:
    case VR_ROPE_PAIRS_WIDE:
        return in_pairs(&t, kind);
    default:
        return both(&t);
    }
}

vr_block vr_rotate_one(vr_pass *p, uint64_t heads, vr_item item)
{
    return turned(&(turn){ p, vr_layer_of(p), item, p->width, p->width }, heads, item);
}

bool vr_rotary_packs(uint8_t kind)
{
    return kind == VR_ROPE_CHUNKS || kind == VR_ROPE_HALF_EACH || kind == VR_ROPE_HALF_THEN ||
           kind == VR_ROPE_HALF_KEPT || kind == VR_ROPE_HALF_RETURNED || kind == VR_ROPE_PAIRS;
}

bool vr_rotary_is_wide(uint8_t kind)
{
    return kind == VR_ROPE_HALF_WIDE || kind == VR_ROPE_PAIRS_WIDE || kind == VR_ROPE_PAIRS_COMPLEX;
}
