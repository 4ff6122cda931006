/* SPDX-License-Identifier: MIT
 * The mask of layers that attend within a chunk (Llama-4; masking_utils.py of transformers 5). */
#include "engine/pass.h"

static vr_block input(vr_pass *p, uint64_t bytes, vr_place place)
{
    return vr_take_at(p, bytes, VR_ITEM_INPUTS, place);
}

static vr_block flags(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_SCORES, VR_PLACE_MASK);
}

/* (positions - padding) // length, of keys and of queries */
static vr_block chunk_of(vr_pass *p, uint64_t n)
{
    vr_block padding = input(p, p->batch * 8, VR_PLACE_POSITIONS);
    vr_block from = input(p, p->batch * n * 8, VR_PLACE_POSITIONS);
    vr_drop(p, padding);
    vr_block chunk = input(p, p->batch * n * 8, VR_PLACE_POSITIONS);
    vr_drop(p, from);
    return chunk;
}

/* new_ones() & (chunk of kv == chunk of q) & (kv <= q): chunked_causal_mask_function */
vr_block vr_causal_in_chunk(vr_pass *p, uint64_t kv)
{
    uint64_t n = p->batch * p->q * kv;
    vr_block ones = flags(p, 1), keys = chunk_of(p, kv), queries = chunk_of(p, p->q);
    vr_block inside = flags(p, n);
    vr_drop(p, keys);
    vr_drop(p, queries);
    vr_block both = flags(p, n);
    vr_drop(p, inside);
    vr_drop(p, ones);
    vr_block before = flags(p, p->q * kv), all = flags(p, n);
    vr_drop(p, before);
    vr_drop(p, both);
    return all;
}
