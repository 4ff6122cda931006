/* SPDX-License-Identifier: MIT
 * Keys and values in 8-bit floating point with one scale for all (transformers 5.24, cache_utils.py,
 * Fp8QuantizedLayer): the scale is that of the prompt, what comes later is appended. For each token all of a
 * layer is widened to 32 bits, multiplied, and narrowed to the model's dtype; until the update returns its
 * variables hold what there was before, too. */
#include "engine/caches.h"

static const vr_step kept[2] = { VR_STEP_KEYS, VR_STEP_VALUES };
static const vr_step whole[2] = { VR_STEP_WHOLE_KEYS, VR_STEP_WHOLE_VALUES };

static uint64_t elements_of(const vr_pass *p, int side, uint64_t tokens)
{
    const vr_layer *l = vr_layer_of(p);
    return p->batch * l->kv_heads * (side == 0 ? l->key_dim : l->value_dim) * tokens;
}

static vr_block passing(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_HIDDEN, VR_PLACE_PACKING);
}

/* (x.float() / scale).to(float8), which stays or is appended to what there is */
static vr_block narrowed(vr_pass *p, uint64_t elements, bool stays, int side)
{
    vr_block wide = p->width == 4 ? VR_NONE : passing(p, elements * 4);
    vr_block quotient = passing(p, elements * 4);
    vr_drop(p, wide);
    vr_block out = stays ? vr_take(p, elements, VR_ITEM_KV, kept[side]) : passing(p, elements);
    vr_drop(p, quotient);
    return out;
}

/* The most of all numbers, divided and bounded. */
static vr_block scale(vr_pass *p, uint64_t elements, int side)
{
    vr_block x = passing(p, elements * p->width), most = passing(p, p->width);
    vr_drop(p, x);
    vr_block wide = p->width == 4 ? most : passing(p, 4);
    if (wide != most)
        vr_drop(p, most);
    vr_block divided = passing(p, 4);
    vr_drop(p, wide);
    vr_block out = vr_take(p, 4, VR_ITEM_KV, kept[side]);
    vr_drop(p, divided);
    return out;
}

static void begin(vr_pass *p, vr_kv *kv)
{
    for (int side = 0; side < 2; side++) {
        uint64_t elements = elements_of(p, side, p->q);
        kv->packed[side].scale = scale(p, elements, side);
        kv->packed[side].data = narrowed(p, elements, true, side);
    }
    kv->packed_tokens = p->q;
}

static vr_block widened(vr_pass *p, int side, uint64_t tokens)
{
    uint64_t elements = elements_of(p, side, tokens);
    vr_block wide = passing(p, elements * 4), product = passing(p, elements * 4);
    vr_drop(p, wide);
    if (p->width == 4)
        return product;
    vr_block out = vr_take(p, elements * p->width, VR_ITEM_HIDDEN, whole[side]);
    vr_drop(p, product);
    return out;
}

void vr_fp8_update(vr_pass *p, vr_block *keys, vr_block *values)
{
    vr_kv *kv = &p->group->layers[p->layer];
    vr_block *given[2] = { keys, values }, fresh[2], old[2], all[2];
    uint64_t tokens = p->group->past + p->q;
    if (kv->packed_tokens == 0) {
        begin(p, kv);
        return;
    }
    for (int side = 0; side < 2; side++)
        fresh[side] = narrowed(p, elements_of(p, side, p->q), false, side);
    for (int side = 0; side < 2; side++) {
        old[side] = kv->packed[side].data;
        kv->packed[side].data = vr_take(p, elements_of(p, side, tokens), VR_ITEM_KV, kept[side]);
    }
    kv->packed_tokens = tokens;
    for (int side = 0; side < 2; side++)
        all[side] = widened(p, side, tokens);
    for (int side = 0; side < 2; side++) {
        vr_drop(p, old[side]);
        vr_drop(p, fresh[side]);
        vr_drop(p, *given[side]);
        *given[side] = all[side];
    }
}
