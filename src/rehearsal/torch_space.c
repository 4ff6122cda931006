/* SPDX-License-Identifier: MIT
 * What PyTorch's caching allocator does when no idle block serves: garbage collection, a new segment, and,
 * when the driver refuses, giving back what is idle and asking again, in this order:
 *
 *   garbage collection, when a threshold and a memory fraction are set
 *   a new segment
 *   the smallest oversize idle block that covers the request, or several from the largest down, when
 * max_split_size is set all idle memory of the ordinary pool, but not while a CUDA graph is being captured
 * (cudaFree would break it)
 *
 * Source of truth: malloc, garbage_collect_cached_blocks, alloc_block, release_available_cached_blocks and
 * release_cached_blocks in c10/cuda/CUDACachingAllocator.cpp; that collection and oversize release pass over
 * expandable segments is pull request 134338. */
#include "rehearsal/torch.h"

/* cudaFree */
static void free_segment(vr_allocator *a, uint32_t block)
{
    vr_torch_unidle(a, block);
    a->stats.reserved -= a->blocks[block].size;
    a->stats.n_segments--;
    vr_torch_drop(a, block);
}

/* Chains the idle blocks of a group that can go back: whole segments, or blocks of expandable segments. */
static uint32_t chain_idle(vr_allocator *a, const vr_group *g, bool expandable, uint32_t head)
{
    vr_place p;
    if (!expandable && g->n_whole == 0) /* on a full card every request asks, over thousands of remainders */
        return head;
    for (bool more = vr_order_first(&g->idle, &p); more; more = vr_order_next(&g->idle, &a->leaves, &p)) {
        uint32_t i = vr_order_block(&g->idle, &a->leaves, p);
        if (expandable ? a->blocks[i].space != VR_NONE : vr_torch_is_whole(&a->blocks[i])) {
            a->blocks[i].chain = head;
            head = i;
        }
    }
    return head;
}

vram_status vr_torch_give_back(vr_allocator *a)
{
    for (uint32_t g = 0; g < a->n_groups; g++) {
        if (a->groups[g].pool != 0)
            continue;
        uint32_t next, i = chain_idle(a, &a->groups[g], false, VR_NONE);
        for (; i != VR_NONE; i = next) {
            next = a->blocks[i].chain;
            free_segment(a, i);
        }
        i = a->expandable ? chain_idle(a, &a->groups[g], true, VR_NONE) : VR_NONE;
        for (; i != VR_NONE; i = next) {
            next = a->blocks[i].chain;
            VR_TRY(vr_torch_unmap(a, i));
        }
    }
    return VRAM_OK;
}

typedef struct collection {
    uint64_t total_age, count, freed;
} collection;

/* One pass: frees what is at least as old as the mean age. Returns the chain of what stays. */
static uint32_t collect_old(vr_allocator *a, uint32_t head, collection *c)
{
    double mean = (double)c->total_age / (double)c->count;
    uint32_t next, kept = VR_NONE;
    for (uint32_t i = head; i != VR_NONE; i = next) {
        next = a->blocks[i].chain;
        uint64_t age = a->n_searches - a->blocks[i].searched;
        if ((double)age < mean) {
            a->blocks[i].chain = kept;
            kept = i;
            continue;
        }
        c->freed += a->blocks[i].size;
        c->total_age -= age;
        c->count--;
        free_segment(a, i);
    }
    return kept;
}

/* garbage_collect_cached_blocks: only whole segments of the large ordinary pool, of all streams. Does not
 * stop at the target, so that it is not called often. */
static void collect_garbage(vr_allocator *a)
{
    if (a->stats.reserved <= a->gc_from)
        return;
    uint64_t target = a->stats.reserved - a->gc_from, freed_before;
    uint32_t head = VR_NONE;
    for (uint32_t g = 0; g < a->n_groups; g++) {
        if (a->groups[g].pool == 0 && !a->groups[g].small)
            head = chain_idle(a, &a->groups[g], false, head);
    }
    collection c = { 0 };
    for (uint32_t i = head; i != VR_NONE; i = a->blocks[i].chain) {
        c.total_age += a->n_searches - a->blocks[i].searched;
        c.count++;
    }
    do {
        freed_before = c.freed;
        if (c.count > 0)
            head = collect_old(a, head, &c);
    } while (c.freed < target && c.freed > freed_before && c.count > 0);
}

/* cudaMalloc */
static vram_status new_segment(vr_allocator *a, uint32_t group, uint64_t want, uint32_t *block)
{
    VR_TRY(vr_torch_room(a, group, 2)); /* and one for the remainder that is split off */
    uint64_t address;
    if (!vr_torch_granted(a, want) || !vr_torch_address(a, want, VR_ROUND_LARGE, &address))
        return VRAM_OK;
    *block = vr_torch_node(a, group);
    a->blocks[*block].address = address;
    a->blocks[*block].size = want;
    a->stats.reserved += want;
    a->stats.n_segments++;
    return VRAM_OK;
}

/* alloc_block */
static vram_status new_space(vr_allocator *a, uint32_t group, uint64_t size, uint64_t want, uint32_t *block)
{
    *block = VR_NONE;
    if (vr_add_sat(a->stats.reserved, want) > a->allowed)
        return VRAM_OK;
    return a->expandable ? vr_torch_expand(a, group, size, block) : new_segment(a, group, want, block);
}

/* Oversize blocks from the largest below `p` down, until `target` is covered. */
static bool release_several(vr_allocator *a, vr_group *g, vr_place p, uint64_t target)
{
    uint64_t released = 0;
    while (released < target && vr_order_prev(&g->idle, &a->leaves, &p)) {
        uint32_t i = vr_order_block(&g->idle, &a->leaves, p);
        if (a->blocks[i].size < a->max_split)
            break;
        if (!vr_torch_is_whole(&a->blocks[i]))
            continue;
        uint64_t size = a->blocks[i].size;
        released += size;
        free_segment(a, i);
        (void)vr_order_seek(&g->idle, &a->leaves, size, a->blocks[i].address, &p);
    }
    return released >= target;
}

/* release_available_cached_blocks; false: not enough, ask no more. */
static bool release_oversize(vr_allocator *a, uint32_t group, uint64_t size)
{
    if (a->max_split == UINT64_MAX)
        return false;
    vr_group *g = &a->groups[group];
    uint64_t target = size < a->max_split ? a->max_split : size;
    vr_place p;
    if (!vr_order_seek(&g->idle, &a->leaves, target, 0, &p) ||
        !vr_torch_is_whole(&a->blocks[vr_order_block(&g->idle, &a->leaves, p)]))
        return release_several(a, g, p, target);
    free_segment(a, vr_order_block(&g->idle, &a->leaves, p));
    return true;
}

vram_status vr_torch_grow(vr_allocator *a, uint32_t group, uint64_t size, uint64_t want, uint32_t *block)
{
    if (a->gc)
        collect_garbage(a);
    VR_TRY(new_space(a, group, size, want, block));
    if (*block == VR_NONE && release_oversize(a, group, size))
        VR_TRY(new_space(a, group, size, want, block));
    if (*block == VR_NONE && a->groups[group].pool == 0) {
        VR_TRY(vr_torch_give_back(a));
        a->stats.n_retries++;
        VR_TRY(new_space(a, group, size, want, block));
    }
    return VRAM_OK;
}
