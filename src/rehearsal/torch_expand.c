/* SPDX-License-Identifier: MIT
 * Expandable segments: address space for more than the whole device is reserved once for a pool and stream,
 * and pages of memory are mapped into it as requests need them: 2 MiB in the small pool, large_segment_size
 * (20 MiB) in the large one.
 *
 * Source of truth: find_expandable_block, map_block, try_allocate_expandable_block, unmap_block and
 * release_expandable_segment in c10/cuda/CUDACachingAllocator.cpp. */
#include "rehearsal/torch.h"

/* Stands for 1 1/8 of a device of unknown size: above every storage that can be rehearsed (2^58 bytes, and
 * what is uncertain of it), and small enough that the address space holds one for each stream and pool. */
#define UNKNOWN_DEVICE (UINT64_C(1) << 60)

static uint64_t page_size(const vr_allocator *a, const vr_group *g)
{
    return g->small ? VR_SMALL_BUFFER : a->large_segment;
}

static void add_unmapped(vr_allocator *a, uint32_t block)
{
    a->blocks[block].state = VR_UNMAPPED;
    vr_order_insert(&a->groups[a->blocks[block].group].unmapped, &a->leaves, 0, a->blocks[block].address,
                    block);
}

static void remove_unmapped(vr_allocator *a, uint32_t block)
{
    vr_order_remove(&a->groups[a->blocks[block].group].unmapped, &a->leaves, 0, a->blocks[block].address);
}

static bool is_idle(const vr_allocator *a, uint32_t block)
{
    return block != VR_NONE && a->blocks[block].state == VR_IDLE;
}

/* Idle and unmapped blocks in a row from `block` on hold `size` bytes. */
static bool has_space(const vr_allocator *a, uint32_t block, uint64_t size)
{
    uint64_t bytes = 0;
    while (bytes < size && block != VR_NONE && a->blocks[block].state != VR_LIVE) {
        bytes = vr_add_sat(bytes, a->blocks[block].size);
        block = a->blocks[block].next;
    }
    return bytes >= size;
}

static vram_status take_space_number(vr_allocator *a, uint32_t *space)
{
    *space = a->spare_space;
    if (*space != VR_NONE) {
        a->spare_space = a->spaces[*space].chain;
        return VRAM_OK;
    }
    if (a->n_spaces == a->spaces_room) {
        uint32_t room =
            a->spaces_room < 4 ? 4 : a->spaces_room * 2; /* one for each group and full device: few */
        vr_space *spaces = vr_arena_grow(a->arena, a->spaces, a->n_spaces, room, sizeof(*spaces));
        if (spaces == NULL)
            return VRAM_ENOMEM;
        a->spaces = spaces;
        a->spaces_room = room;
    }
    *space = a->n_spaces++;
    return VRAM_OK;
}

/* A new reservation, all of it unmapped; *block VR_NONE when no address space is left or the request is
 * larger than any. */
static vram_status reserve_space(vr_allocator *a, uint32_t group, uint64_t size, uint32_t *block)
{
    uint64_t page = page_size(a, &a->groups[group]), total = a->driver.total, bytes, address;
    bytes = vr_round_up(total != 0 ? vr_add_sat(total, total / 8) : UNKNOWN_DEVICE, page);
    *block = VR_NONE;
    if (bytes % page != 0 || bytes < size || !vr_torch_address(a, bytes, page, &address))
        return VRAM_OK;
    uint32_t space;
    VR_TRY(take_space_number(a, &space));
    a->spaces[space] = (vr_space){ .address = address, .size = bytes };
    *block = vr_torch_node(a, group);
    a->blocks[*block].address = address;
    a->blocks[*block].size = bytes;
    a->blocks[*block].space = space;
    add_unmapped(a, *block);
    a->stats.n_segments++;
    return VRAM_OK;
}

/* The lowest address where `size` bytes can be had by mapping; an idle block right before counts too. */
static vram_status find_space(vr_allocator *a, uint32_t group, uint64_t size, uint32_t *block)
{
    const vr_group *g = &a->groups[group];
    vr_place p;
    for (bool more = vr_order_first(&g->unmapped, &p); more;
         more = vr_order_next(&g->unmapped, &a->leaves, &p)) {
        *block = vr_order_block(&g->unmapped, &a->leaves, p);
        if (is_idle(a, a->blocks[*block].prev))
            *block = a->blocks[*block].prev;
        if (has_space(a, *block, size))
            return VRAM_OK;
    }
    return reserve_space(a, group, size, block);
}

/* Maps the first `size` bytes, in whole pages, of an unmapped block, which becomes idle and merges with idle
 * neighbours. */
static bool map(vr_allocator *a, uint32_t block, uint64_t size)
{
    uint32_t group = a->blocks[block].group;
    uint64_t bytes = vr_round_up(size, page_size(a, &a->groups[group]));
    if (!vr_torch_granted(a, bytes))
        return false;
    uint64_t end = a->blocks[block].address + bytes - a->spaces[a->blocks[block].space].address;
    a->stats.span = end > a->stats.span ? end : a->stats.span;
    remove_unmapped(a, block);
    if (bytes < a->blocks[block].size) {
        uint32_t rest = vr_torch_node(a, group);
        vr_block *b = &a->blocks[block], *r = &a->blocks[rest];
        r->address = b->address + bytes;
        r->size = b->size - bytes;
        r->space = b->space;
        b->size = bytes;
        vr_torch_link(a, block, rest, b->next);
        add_unmapped(a, rest);
    }
    const uint32_t neighbours[] = { a->blocks[block].prev, a->blocks[block].next };
    for (size_t i = 0; i < 2; i++) {
        if (is_idle(a, neighbours[i])) {
            vr_torch_unidle(a, neighbours[i]);
            vr_torch_absorb(a, block, neighbours[i]);
        }
    }
    vr_torch_idle(a, block);
    a->stats.reserved += bytes;
    return true;
}

static uint64_t least(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

vram_status vr_torch_expand(vr_allocator *a, uint32_t group, uint64_t size, uint32_t *block)
{
    /* a reservation, an unmapped rest, and the remainder that the caller splits off */
    VR_TRY(vr_torch_room(a, group, 3));
    uint32_t at;
    *block = VR_NONE;
    VR_TRY(find_space(a, group, size, &at));
    if (at == VR_NONE)
        return VRAM_OK;
    if (a->blocks[at].state == VR_UNMAPPED && !map(a, at, least(a->blocks[at].size, size)))
        return VRAM_OK;
    /* An idle block is followed by an unmapped one as long as it is too small. What was mapped before a
     * refusal stays. */
    while (a->blocks[at].size < size) {
        uint32_t next = a->blocks[at].next;
        if (!map(a, next, least(a->blocks[next].size, size - a->blocks[at].size)))
            return VRAM_OK;
        at = next;
    }
    vr_torch_unidle(a, at);
    *block = at;
    return VRAM_OK;
}

/* Cuts `bytes` off the front of a block that is in no set, as an idle block. */
static void cut_front(vr_allocator *a, uint32_t block, uint64_t bytes)
{
    uint32_t front = vr_torch_node(a, a->blocks[block].group);
    vr_block *b = &a->blocks[block], *f = &a->blocks[front];
    f->address = b->address;
    f->size = bytes;
    f->space = b->space;
    b->address += bytes;
    b->size -= bytes;
    vr_torch_link(a, b->prev, front, block);
    vr_torch_idle(a, front);
}

static void cut_back(vr_allocator *a, uint32_t block, uint64_t bytes)
{
    uint32_t back = vr_torch_node(a, a->blocks[block].group);
    vr_block *b = &a->blocks[block], *k = &a->blocks[back];
    b->size -= bytes;
    k->address = b->address + b->size;
    k->size = bytes;
    k->space = b->space;
    vr_torch_link(a, block, back, b->next);
    vr_torch_idle(a, back);
}

static void merge_unmapped(vr_allocator *a, uint32_t block, uint32_t neighbour)
{
    if (neighbour == VR_NONE || a->blocks[neighbour].state != VR_UNMAPPED)
        return;
    remove_unmapped(a, neighbour);
    vr_torch_absorb(a, block, neighbour);
}

static void release_space(vr_allocator *a, uint32_t block)
{
    uint32_t space = a->blocks[block].space;
    remove_unmapped(a, block);
    a->spaces[space].chain = a->spare_space;
    a->spare_space = space;
    a->stats.n_segments--;
    vr_torch_drop(a, block);
}

vram_status vr_torch_unmap(vr_allocator *a, uint32_t block)
{
    VR_TRY(vr_torch_room(a, a->blocks[block].group, 2));
    const vr_block *b = &a->blocks[block];
    uint64_t page = page_size(a, &a->groups[b->group]), base = a->spaces[b->space].address;
    uint64_t begin = vr_round_up(b->address - base, page), end = b->address + b->size - base;
    end -= end % page;
    if (begin >= end)
        return VRAM_OK;
    uint64_t before = begin - (b->address - base), after = b->address + b->size - base - end;
    vr_torch_unidle(a, block);
    if (before > 0)
        cut_front(a, block, before);
    if (after > 0)
        cut_back(a, block, after);
    a->stats.reserved -= end - begin;
    a->blocks[block].state = VR_UNMAPPED; /* and in its set once it has its final address */
    merge_unmapped(a, block, a->blocks[block].prev);
    merge_unmapped(a, block, a->blocks[block].next);
    add_unmapped(a, block);
    if (a->blocks[block].prev == VR_NONE && a->blocks[block].next == VR_NONE)
        release_space(a, block);
    return VRAM_OK;
}
