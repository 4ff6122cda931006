/* SPDX-License-Identifier: MIT
 * PyTorch's caching allocator: requests served from idle blocks, releases, and the state that recorded runs
 * start from.
 *
 * Source of truth: malloc, get_free_block, should_split, alloc_found_block, free_block and try_merge_blocks
 * in c10/cuda/CUDACachingAllocator.cpp. What happens when no idle block serves is in torch_space.c. */
#include "rehearsal/torch.h"

#include <string.h>

/* Our own addresses: above zero, and segments never touch, so that a mistake in merging would show. */
#define FIRST_ADDRESS (UINT64_C(1) << 32)
#define ADDRESS_GAP VR_ROUND_LARGE

/* ---- nodes ---- */

static vram_status more_nodes(vr_allocator *a, uint32_t count)
{
    uint64_t room = vr_add_sat((uint64_t)a->blocks_room * 2, count);
    if (room < 256)
        room = 256;
    if (room >= VR_NONE)
        return vr_fail(a->arena->ctx, VRAM_ELIMIT, T("more blocks than can be numbered"));
    vr_block *blocks = vr_arena_grow(a->arena, a->blocks, a->blocks_room, (size_t)room, sizeof(*blocks));
    if (blocks == NULL)
        return VRAM_ENOMEM;
    a->blocks = blocks;
    a->blocks_room = (uint32_t)room;
    return VRAM_OK;
}

static vram_status more_group_room(vr_allocator *a, vr_group *g, uint64_t entries)
{
    uint64_t room = entries < 64 ? 64 : vr_mul_sat(entries, 2);
    VR_TRY(vr_order_reserve(&g->idle, &a->leaves, room));
    if (a->expandable)
        VR_TRY(vr_order_reserve(&g->unmapped, &a->leaves, room));
    g->room = room;
    return VRAM_OK;
}

vram_status vr_torch_room(vr_allocator *a, uint32_t group, uint32_t count)
{
    vr_group *g = &a->groups[group];
    if (a->n_spare < count && a->blocks_room - a->n_blocks < count - a->n_spare)
        VR_TRY(more_nodes(a, count));
    if (g->n_blocks + count > g->room)
        VR_TRY(more_group_room(a, g, g->n_blocks + count));
    return VRAM_OK;
}

uint32_t vr_torch_node(vr_allocator *a, uint32_t group)
{
    uint32_t i = a->spare;
    if (i == VR_NONE) {
        i = a->n_blocks++;
    } else {
        a->spare = a->blocks[i].chain;
        a->n_spare--;
    }
    a->blocks[i] = (vr_block){ .group = group, .prev = VR_NONE, .next = VR_NONE, .space = VR_NONE };
    a->groups[group].n_blocks++;
    return i;
}

void vr_torch_drop(vr_allocator *a, uint32_t block)
{
    vr_block *b = &a->blocks[block];
    b->state = VR_SPARE;
    b->chain = a->spare;
    a->spare = block;
    a->n_spare++;
    a->groups[b->group].n_blocks--;
}

void vr_torch_idle(vr_allocator *a, uint32_t block)
{
    vr_block *b = &a->blocks[block];
    b->state = VR_IDLE;
    b->searched = a->n_searches;
    a->groups[b->group].n_whole += vr_torch_is_whole(b);
    vr_order_insert(&a->groups[b->group].idle, &a->leaves, b->size, b->address, block);
}

void vr_torch_unidle(vr_allocator *a, uint32_t block)
{
    const vr_block *b = &a->blocks[block];
    a->groups[b->group].n_whole -= vr_torch_is_whole(b);
    vr_order_remove(&a->groups[b->group].idle, &a->leaves, b->size, b->address);
}

void vr_torch_link(vr_allocator *a, uint32_t before, uint32_t block, uint32_t after)
{
    a->blocks[block].prev = before;
    a->blocks[block].next = after;
    if (before != VR_NONE)
        a->blocks[before].next = block;
    if (after != VR_NONE)
        a->blocks[after].prev = block;
}

void vr_torch_absorb(vr_allocator *a, uint32_t block, uint32_t neighbour)
{
    vr_block *b = &a->blocks[block], *n = &a->blocks[neighbour];
    b->size += n->size;
    if (b->prev == neighbour) {
        b->address = n->address;
        vr_torch_link(a, n->prev, block, b->next);
    } else {
        vr_torch_link(a, b->prev, block, n->next);
    }
    vr_torch_drop(a, neighbour);
}

/* ---- groups ---- */

static uint32_t hash_of(unsigned pool, unsigned stream, bool small)
{
    uint64_t x = ((uint64_t)pool << 33 | (uint64_t)stream << 1 | small) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x >> 32);
}

static bool is_group(const vr_group *g, unsigned pool, unsigned stream, bool small)
{
    return g->pool == pool && g->stream == stream && g->small == small;
}

/* The slot that holds the group, or the empty one where it belongs. */
static uint32_t slot_of(const vr_allocator *a, unsigned pool, unsigned stream, bool small)
{
    uint32_t i = hash_of(pool, stream, small) & (a->n_slots - 1);
    while (a->slots[i] != VR_NONE && !is_group(&a->groups[a->slots[i]], pool, stream, small))
        i = (i + 1) & (a->n_slots - 1);
    return i;
}

static vram_status more_groups(vr_allocator *a)
{
    if (a->groups_room > VR_NONE / 8)
        return vr_fail(a->arena->ctx, VRAM_ELIMIT, T("more streams and pools than can be numbered"));
    uint32_t room = a->groups_room == 0 ? 4 : a->groups_room * 2;
    uint32_t *slots = VR_ARRAY(a->arena, uint32_t, (size_t)room * 2);
    vr_group *groups =
        slots != NULL ? vr_arena_grow(a->arena, a->groups, a->groups_room, room, sizeof(*groups)) : NULL;
    if (groups == NULL)
        return VRAM_ENOMEM;
    memset(slots, 0xff, (size_t)room * 2 * sizeof(*slots));
    a->groups = groups;
    a->groups_room = room;
    a->slots = slots;
    a->n_slots = room * 2;
    for (uint32_t i = 0; i < a->n_groups; i++)
        slots[slot_of(a, groups[i].pool, groups[i].stream, groups[i].small)] = i;
    return VRAM_OK;
}

static vram_status find_group(vr_allocator *a, unsigned pool, unsigned stream, bool small, uint32_t *group)
{
    *group = a->last[small];
    if (*group != VR_NONE && is_group(&a->groups[*group], pool, stream, small))
        return VRAM_OK;
    uint32_t slot = a->n_slots == 0 ? 0 : slot_of(a, pool, stream, small);
    if (a->n_slots == 0 || a->slots[slot] == VR_NONE) {
        if (a->n_groups == a->groups_room)
            VR_TRY(more_groups(a));
        slot = slot_of(a, pool, stream, small);
        a->groups[a->n_groups] = (vr_group){ .pool = pool, .stream = stream, .small = small };
        a->slots[slot] = a->n_groups++;
    }
    *group = a->last[small] = a->slots[slot];
    return VRAM_OK;
}

/* ---- sizes ---- */

static unsigned log2_of(uint64_t x)
{
    unsigned n = 0;
    for (unsigned step = 32; step > 0; step /= 2) {
        if (x >> step != 0) {
            x >>= step;
            n += step;
        }
    }
    return n;
}

static uint64_t up(uint64_t x, uint64_t power_of_two)
{
    uint64_t low = power_of_two - 1;
    return x > UINT64_MAX - low ? UINT64_MAX & ~low : (x + low) & ~low;
}

/* roundup_power2_divisions: up to the next of `divisions` equal steps between two powers of two. */
static uint64_t round_divisions(const vr_allocator *a, uint64_t bytes)
{
    unsigned log = log2_of(bytes), bucket = log < 20 ? 0 : log - 20;
    uint32_t divisions = a->divisions[bucket < VR_ROUNDUP_BUCKETS ? bucket : VR_ROUNDUP_BUCKETS - 1];
    if (divisions <= 1 || bytes <= VR_MIN_BLOCK * divisions)
        return up(bytes, VR_MIN_BLOCK);
    return up(bytes, (UINT64_C(1) << log) / divisions);
}

static uint64_t round_size(const vr_allocator *a, uint64_t bytes)
{
    if (bytes <= VR_MIN_BLOCK)
        return VR_MIN_BLOCK;
    return a->roundup ? round_divisions(a, bytes) : up(bytes, VR_MIN_BLOCK);
}

/* get_allocation_size: what is asked of the driver, and what the error text names. */
static uint64_t segment_size(const vr_allocator *a, uint64_t size)
{
    if (size <= VR_SMALL_SIZE)
        return VR_SMALL_BUFFER;
    return size < VR_MIN_LARGE_ALLOC ? a->large_segment : up(size, VR_ROUND_LARGE);
}

bool vr_torch_granted(const vr_allocator *a, uint64_t bytes)
{
    uint64_t sum;
    if (!vr_add(a->stats.reserved, bytes, &sum))
        return false;
    return a->driver.room == NULL || a->driver.room(a->driver.ud, a->stats.reserved, bytes);
}

bool vr_torch_address(vr_allocator *a, uint64_t bytes, uint64_t multiple, uint64_t *address)
{
    uint64_t end;
    bool own = a->driver.address == NULL;
    *address = own ? vr_round_up(a->next_address, multiple) : a->driver.address(a->driver.ud, bytes);
    if (!vr_add(*address, bytes, &end) || !vr_add(end, ADDRESS_GAP, &end))
        return false;
    if (own)
        a->next_address = end;
    return true;
}

/* ---- requests ---- */

/* With expandable segments a block that borders unmapped space counts as large as it can grow, so that
 * ordinary fits are taken first: passes on to the next block while that one reaches less far. */
static void skip_growing(const vr_allocator *a, const vr_group *g, vr_place *p)
{
    vr_place next = *p;
    while (a->blocks[vr_order_block(&g->idle, &a->leaves, *p)].space != VR_NONE &&
           vr_order_next(&g->idle, &a->leaves, &next) &&
           vr_torch_reach(a, vr_order_block(&g->idle, &a->leaves, next)) <
               vr_torch_reach(a, vr_order_block(&g->idle, &a->leaves, *p)))
        *p = next;
}

/* get_free_block: best fit, lowest address among equals; the block leaves its set. VR_NONE: none serves. */
static uint32_t take_idle(vr_allocator *a, uint32_t group, uint64_t size)
{
    vr_group *g = &a->groups[group];
    vr_place p;
    if (a->gc && g->pool == 0 && !g->small)
        a->n_searches++;
    if (!vr_order_seek(&g->idle, &a->leaves, size, 0, &p))
        return VR_NONE;
    if (a->expandable)
        skip_growing(a, g, &p);
    uint32_t block = vr_order_block(&g->idle, &a->leaves, p);
    uint64_t found = a->blocks[block].size;
    if (size < a->max_split && found >= a->max_split)
        return VR_NONE;
    if (size >= a->max_split && found >= vr_add_sat(size, a->non_split_rounding))
        return VR_NONE;
    g->n_whole -= vr_torch_is_whole(&a->blocks[block]);
    vr_order_remove_at(&g->idle, &a->leaves, p);
    return block;
}

static bool splits(const vr_allocator *a, bool small, uint64_t size, uint64_t rest)
{
    if (small || a->expandable)
        return rest >= VR_MIN_BLOCK;
    return size < a->max_split && rest > VR_SMALL_SIZE;
}

/* The part of `block` from `size` on becomes a block of its own, in no set yet. */
static uint32_t split(vr_allocator *a, uint32_t block, uint64_t size)
{
    uint32_t rest = vr_torch_node(a, a->blocks[block].group);
    vr_block *b = &a->blocks[block], *r = &a->blocks[rest];
    r->address = b->address + size;
    r->size = b->size - size;
    r->space = b->space;
    b->size = size;
    vr_torch_link(a, block, rest, b->next);
    return rest;
}

static void hand_out(vr_allocator *a, uint32_t block, uint64_t requested)
{
    vr_block *b = &a->blocks[block];
    b->state = VR_LIVE;
    b->requested = requested;
    a->stats.allocated += b->size;
    a->stats.requested += requested;
}

vram_status vr_allocator_alloc(vr_allocator *a, uint64_t bytes, unsigned stream, unsigned pool,
                               uint32_t *block, uint64_t *tried)
{
    *block = VR_NO_BLOCK;
    *tried = 0;
    if (bytes == 0)
        return VRAM_OK;
    uint64_t size = round_size(a, bytes);
    bool small = size <= VR_SMALL_SIZE;
    uint32_t group, found;
    VR_TRY(find_group(a, pool, stream, small, &group));
    VR_TRY(vr_torch_room(a, group, 1));
    found = take_idle(a, group, size);
    if (found == VR_NONE) {
        VR_TRY(vr_torch_grow(a, group, size, segment_size(a, size), &found));
        if (found == VR_NONE) {
            *tried = segment_size(a, size);
            return VRAM_OK;
        }
    }
    if (splits(a, small, size, a->blocks[found].size - size))
        vr_torch_idle(a, split(a, found, size));
    hand_out(a, found, bytes);
    *block = found;
    return VRAM_OK;
}

void vr_allocator_release(vr_allocator *a, uint32_t block)
{
    if (block >= a->n_blocks || a->blocks[block].state != VR_LIVE)
        return;
    vr_block *b = &a->blocks[block];
    a->stats.allocated -= b->size;
    a->stats.requested -= b->requested;
    const uint32_t neighbours[] = { b->prev, b->next };
    for (size_t i = 0; i < 2; i++) {
        if (neighbours[i] == VR_NONE || a->blocks[neighbours[i]].state != VR_IDLE)
            continue;
        vr_torch_unidle(a, neighbours[i]);
        vr_torch_absorb(a, block, neighbours[i]);
    }
    vr_torch_idle(a, block);
}

vram_status vr_allocator_empty_cache(vr_allocator *a)
{
    return vr_torch_give_back(a);
}

/* ---- making, reading ---- */

/* In double, as setMemoryFraction and garbage_collect_cached_blocks do, to be right to the byte */
uint64_t vr_alloc_conf_allowed(const vr_alloc_conf *c, uint64_t total)
{
    if (c->memory_fraction_permille == 0)
        return UINT64_MAX;
    return (uint64_t)(c->memory_fraction_permille / 1000.0 * (double)total);
}

static void settle(vr_allocator *a, const vr_alloc_conf *conf, const vr_driver *driver)
{
    static const vr_alloc_conf defaults;
    const vr_alloc_conf *c = conf != NULL ? conf : &defaults;
    a->driver = driver != NULL ? *driver : (vr_driver){ 0 };
    a->expandable = c->expandable_segments;
    a->max_split = c->max_split_bytes != 0 ? c->max_split_bytes : UINT64_MAX;
    a->large_segment = c->large_segment_bytes != 0 ? c->large_segment_bytes : VR_LARGE_BUFFER;
    a->non_split_rounding = c->max_non_split_rounding != 0 ? c->max_non_split_rounding : a->large_segment;
    a->roundup = false;
    for (size_t i = 0; i < VR_ROUNDUP_BUCKETS; i++) {
        a->divisions[i] = c->roundup_divisions[i];
        a->roundup = a->roundup || a->divisions[i] > 1;
    }
    bool limited = c->memory_fraction_permille != 0 && a->driver.total != 0;
    double threshold = c->gc_threshold_permille / 1000.0;
    a->allowed = limited ? vr_alloc_conf_allowed(c, a->driver.total) : UINT64_MAX;
    a->gc = limited && c->gc_threshold_permille != 0;
    a->gc_from = a->gc ? (uint64_t)(threshold * (double)a->allowed) : UINT64_MAX;
}

vram_status vr_allocator_new(vr_allocator **out, vr_arena *arena, const vr_alloc_conf *conf,
                             const vr_driver *driver)
{
    vr_allocator *a = VR_NEW(arena, vr_allocator);
    if (a == NULL)
        return VRAM_ENOMEM;
    a->arena = arena;
    vr_leaves_init(&a->leaves, arena);
    vr_allocator_reset(a, conf, driver);
    *out = a;
    return VRAM_OK;
}

void vr_allocator_reset(vr_allocator *a, const vr_alloc_conf *conf, const vr_driver *driver)
{
    settle(a, conf, driver);
    vr_leaves_reset(&a->leaves);
    for (uint32_t i = 0; i < a->n_groups; i++) {
        vr_group *g = &a->groups[i];
        vr_order_reset(&g->idle);
        vr_order_reset(&g->unmapped);
        g->n_whole = 0;
        g->n_blocks = g->room = 0; /* room: the unmapped set may be needed now and not have been before */
    }
    a->n_blocks = a->n_spare = a->n_spaces = 0;
    a->spare = a->spare_space = VR_NONE;
    a->last[0] = a->last[1] = VR_NONE;
    a->next_address = FIRST_ADDRESS;
    a->n_searches = 0;
    a->stats = (vr_alloc_stats){ 0 };
}

const vr_alloc_stats *vr_allocator_stats(const vr_allocator *a)
{
    return &a->stats;
}

uint64_t vr_allocator_address(const vr_allocator *a, uint32_t block)
{
    return block < a->n_blocks ? a->blocks[block].address : 0;
}

uint64_t vr_allocator_size(const vr_allocator *a, uint32_t block)
{
    return block < a->n_blocks ? a->blocks[block].size : 0;
}

bool vr_allocator_each(const vr_allocator *a, uint32_t *cursor, vr_alloc_block *out)
{
    while (*cursor < a->n_blocks) {
        uint32_t i = (*cursor)++;
        const vr_block *b = &a->blocks[i];
        if (b->state != VR_LIVE && b->state != VR_IDLE)
            continue;
        const vr_group *g = &a->groups[b->group];
        *out = (vr_alloc_block){ .block = i,
                                 .address = b->address,
                                 .size = b->size,
                                 .requested = b->state == VR_LIVE ? b->requested : 0,
                                 .live = b->state == VR_LIVE,
                                 .small = g->small,
                                 .first = b->prev == VR_NONE || a->blocks[b->prev].state == VR_UNMAPPED,
                                 .stream = g->stream,
                                 .pool = g->pool };
        return true;
    }
    return false;
}

/* ---- a known state ---- */

vram_status vr_allocator_add_segment(vr_allocator *a, uint64_t address, uint64_t bytes, bool small,
                                     unsigned stream, uint32_t *first_block)
{
    uint64_t end, reserved;
    if (bytes == 0 || !vr_add(address, bytes, &end) || !vr_add(a->stats.reserved, bytes, &reserved))
        return vr_fail(a->arena->ctx, VRAM_EFORMAT, T("a recorded segment of "), U(bytes), T(" bytes at "),
                       U(address), T(" is not possible"));
    uint32_t group;
    VR_TRY(find_group(a, 0, stream, small, &group));
    VR_TRY(vr_torch_room(a, group, 1));
    *first_block = vr_torch_node(a, group);
    a->blocks[*first_block].address = address;
    a->blocks[*first_block].size = bytes;
    vr_torch_idle(a, *first_block);
    a->stats.reserved = reserved;
    a->stats.n_segments++;
    return VRAM_OK;
}

vram_status vr_allocator_cut(vr_allocator *a, uint32_t block, uint64_t bytes, uint64_t requested, bool live,
                             uint32_t *rest)
{
    *rest = VR_NO_BLOCK;
    if (block >= a->n_blocks || a->blocks[block].state != VR_IDLE || bytes == 0 ||
        bytes > a->blocks[block].size || requested > bytes)
        return vr_fail(a->arena->ctx, VRAM_EFORMAT, T("a recorded block of "), U(bytes),
                       T(" bytes does not fit there"));
    VR_TRY(vr_torch_room(a, a->blocks[block].group, 1));
    vr_torch_unidle(a, block);
    if (bytes < a->blocks[block].size) {
        *rest = split(a, block, bytes);
        vr_torch_idle(a, *rest);
    }
    if (live)
        hand_out(a, block, requested);
    else
        vr_torch_idle(a, block);
    return VRAM_OK;
}
