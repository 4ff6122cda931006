/* SPDX-License-Identifier: MIT
 * A cache whose storages are taken once, for all tokens there will be, at the first update (transformers 5,
 * cache_utils.py: StaticLayer and StaticSlidingWindowLayer). */
#include "engine/caches.h"

bool vr_cache_fixed(const vram_workload *w)
{
    return w->cache == VR_CACHE_STATIC || w->cache == VR_CACHE_OFFLOADED_STATIC;
}

uint64_t vr_static_room(const vram_workload *w, uint64_t window)
{
    uint64_t tokens = vr_add_sat(w->context, w->decode);
    return window != 0 && window < tokens ? window : tokens;
}

/* get_mask_sizes */
uint64_t vr_static_length(const vr_pass *p, uint64_t window)
{
    uint64_t room = vr_static_room(p->w, window), past = p->group->past;
    if (window == 0)
        return room;
    if (past >= room)
        return room - 1 + p->q;
    return past + p->q > room ? past + p->q : room;
}

static uint64_t bytes_of(const vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    return p->batch * l->kv_heads * vr_static_room(p->w, vr_window(p)) * l->key_dim * p->width;
}

static vr_block passing(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_KV, VR_PLACE_CACHE);
}

/* A full window: everything moves by one place, in copies that are written back. */
static void roll(vr_pass *p)
{
    vr_block k = passing(p, bytes_of(p)), v = passing(p, bytes_of(p));
    vr_block last = vr_take_at(p, 8, VR_ITEM_KV, VR_PLACE_LENGTH);
    vr_drop(p, last);
    vr_drop(p, v);
    vr_drop(p, k);
}

/* index_copy_ at arange + length, where the length is a tensor on the card */
static void write_at(vr_pass *p)
{
    vr_block range = passing(p, p->q * 8), at = passing(p, p->q * 8);
    vr_drop(p, range);
    vr_drop(p, at);
}

bool vr_static_update(vr_pass *p)
{
    vr_kv *kv = &p->group->layers[p->layer];
    uint64_t window = vr_window(p), room = vr_static_room(p->w, window), past = p->group->past;
    if (kv->k == VR_NONE) {
        kv->k = vr_take(p, bytes_of(p), VR_ITEM_KV, VR_STEP_KEYS);
        kv->v = vr_take(p, bytes_of(p), VR_ITEM_KV, VR_STEP_VALUES);
        kv->window = vr_take_at(p, 8, VR_ITEM_KV, VR_PLACE_LENGTH);
    }
    if (window != 0 && past >= room)
        roll(p);
    else if (past + p->q > room)
        return true; /* the prompt is longer than the window: its end is copied */
    else
        write_at(p);
    return false;
}
