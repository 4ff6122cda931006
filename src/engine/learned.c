/* SPDX-License-Identifier: MIT
 * Positions that are learned: rows of a table, added to the embeddings (modeling_gpt2.py; modeling_opt.py,
 * OPTDecoder.forward, which finds them by counting a mask of ones, and until transformers 5 had a mask of its
 * own). */
#include "engine/pass.h"

static vr_block input(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_INPUTS, VR_PLACE_POSITIONS);
}

static vr_block flags(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_SCORES, VR_PLACE_MASK);
}

static vr_block rows(vr_pass *p, uint64_t sequences)
{
    uint64_t bytes = sequences * p->q * p->m->hidden * p->width;
    return vr_take_at(p, bytes, VR_ITEM_HIDDEN, VR_PLACE_EMBEDDING);
}

static void hold(vr_learned *l, vr_block block)
{
    l->list[l->n++] = block;
}

static uint64_t all_tokens(const vr_pass *p)
{
    return p->group->past + p->q;
}

void vr_learned_ones(vr_pass *p, vr_learned *l)
{
    hold(l, input(p, p->batch * all_tokens(p) * 4));
}

/* (cumsum(ones) * ones - 1).long() */
void vr_learned_count(vr_pass *p, vr_learned *l)
{
    uint64_t n = p->batch * all_tokens(p);
    vr_block total = input(p, n * 4), product = input(p, n * 4), less = input(p, n * 4);
    vr_drop(p, product);
    hold(l, input(p, n * 8));
    vr_drop(p, less);
    vr_drop(p, total);
}

vr_block vr_learned_add(vr_pass *p, vr_learned *l)
{
    bool moves = p->m->family->position_offset != 0;
    uint64_t sequences = moves || vr_beams(p->w) > 1 ? p->batch : 1;
    vr_block moved = moves ? input(p, sequences * p->q * 8) : VR_NONE;
    hold(l, rows(p, sequences));
    vr_drop(p, moved);
    return rows(p, p->batch);
}

/* sdpa: are all of them ones? Then no mask is needed. */
static void ask_for_all(vr_pass *p)
{
    vr_block ones = flags(p, p->batch * all_tokens(p)), all = flags(p, 1);
    vr_drop(p, ones);
    vr_drop(p, all);
}

/* masking_utils.py, where the ones are given as a mask of padding; sdpa finds that it needs none. */
static vr_block padded_mask(vr_pass *p)
{
    uint64_t kv = all_tokens(p), n = p->q * kv;
    vr_block given = flags(p, p->batch * kv), mask = VR_NONE;
    if (p->w->attention == VR_IMPL_SDPA) {
        vr_block sum = flags(p, 8), is_all = flags(p, 1);
        vr_drop(p, sum);
        vr_drop(p, is_all);
    } else if (p->w->attention == VR_IMPL_EAGER) {
        vr_block batch = input(p, p->batch * 8), head = input(p, 8);
        vr_block first = input(p, p->q * 8), queries = input(p, p->q * 8);
        vr_drop(p, first);
        first = input(p, kv * 8);
        vr_block keys = input(p, kv * 8);
        vr_drop(p, first);
        vr_block ones = flags(p, 1), before = flags(p, n), causal = flags(p, n);
        vr_drop(p, ones);
        vr_drop(p, before);
        vr_block there = flags(p, p->batch * kv), both = flags(p, p->batch * n);
        const vr_block found[] = { batch, head, queries, keys, causal, there };
        vr_drop_all(p, found, sizeof(found) / sizeof(found[0]));
        vr_block zero = flags(p, p->width), least = flags(p, p->width);
        mask = flags(p, p->batch * n * p->width);
        vr_drop(p, least);
        vr_drop(p, zero);
        vr_drop(p, both);
    }
    vr_drop(p, given);
    return mask;
}

/* Of opt; in 4.5x _prepare_4d_causal_attention_mask_with_cache_position */
vr_block vr_learned_mask(vr_pass *p)
{
    uint64_t kv = all_tokens(p), n = p->q * kv, many = p->batch * n;
    if (p->rules->plain_masks)
        return padded_mask(p);
    if (p->w->attention != VR_IMPL_EAGER) {
        if (p->w->attention == VR_IMPL_SDPA)
            ask_for_all(p);
        return VR_NONE;
    }
    vr_block least = flags(p, n * p->width);
    if (p->q != 1) { /* triu */
        vr_replace(p, &least, flags(p, n * p->width));
    }
    vr_block keys = input(p, kv * 8), later = flags(p, n);
    vr_drop(p, keys);
    vr_drop(p, later);
    vr_block mask = flags(p, many * p->width);
    vr_drop(p, least);
    vr_block sum = flags(p, many * 4), zero = flags(p, many);
    vr_drop(p, sum);
    vr_block filled = flags(p, many * p->width);
    vr_drop(p, filled);
    vr_drop(p, zero);
    return mask;
}
