/* SPDX-License-Identifier: MIT
 * The ordered set of free blocks; see order.h for the choice and the invariant.
 *
 * The order itself is PyTorch's BlockComparatorSize (c10/cuda/CUDACachingAllocator.cpp): stream, then size,
 * then address; each stream has a set of its own here. */
#include "rehearsal/order.h"

#include <string.h>

#define NONE UINT32_MAX
#define STEP 8u /* of the search; divides VR_LEAF */

void vr_leaves_init(vr_leaves *l, vr_arena *arena)
{
    *l = (vr_leaves){ .arena = arena, .spare = NONE };
}

void vr_leaves_reset(vr_leaves *l)
{
    l->n = 0;
    l->spare = NONE;
}

/* The sizes behind the last key. */
static void pad(uint64_t *sizes, uint32_t from, uint32_t room)
{
    memset(sizes + from, 0xff, (room - from) * sizeof(*sizes));
}

static uint32_t up_to_step(uint32_t n)
{
    return (n + STEP - 1) / STEP * STEP;
}

void vr_order_reset(vr_order *o)
{
    o->n = 0;
    if (o->room > 0)
        pad(o->size, 0, o->room);
}

/* Two neighbours hold at least VR_LEAF / 2 + 1 entries, so 2 / (VR_LEAF / 2 + 1) leaves an entry suffice; one
 * more for an odd one out, one for a split before its halves are counted. */
static uint64_t leaves_for(uint64_t entries)
{
    return entries / (VR_LEAF / 4) + 2;
}

static vram_status reserve_leaves(vr_leaves *l, uint64_t count)
{
    if (count <= l->room)
        return VRAM_OK;
    uint64_t room = vr_add_sat(count, count / 2);
    if (room >= NONE)
        return vr_fail(l->arena->ctx, VRAM_ELIMIT, T("more free blocks than can be numbered"));
    vr_leaf *leaf = vr_arena_grow(l->arena, l->leaf, l->room, (size_t)room, sizeof(*leaf));
    if (leaf == NULL)
        return VRAM_ENOMEM;
    l->leaf = leaf;
    l->room = (uint32_t)room;
    return VRAM_OK;
}

static vram_status reserve_directory(vr_order *o, vr_arena *arena, uint32_t count)
{
    if (count <= o->room)
        return VRAM_OK;
    /* each is kept at once: what it was is void when a later one fails */
    uint64_t *size = vr_arena_grow(arena, o->size, o->room, count, sizeof(*size));
    o->size = size != NULL ? size : o->size;
    uint64_t *address =
        size != NULL ? vr_arena_grow(arena, o->address, o->room, count, sizeof(*address)) : NULL;
    o->address = address != NULL ? address : o->address;
    uint32_t *leaf = address != NULL ? vr_arena_grow(arena, o->leaf, o->room, count, sizeof(*leaf)) : NULL;
    if (leaf == NULL)
        return VRAM_ENOMEM;
    o->leaf = leaf;
    o->room = count;
    pad(o->size, o->n, count);
    return VRAM_OK;
}

vram_status vr_order_reserve(vr_order *o, vr_leaves *l, uint64_t entries)
{
    if (entries <= o->promised)
        return VRAM_OK;
    uint64_t before = o->promised == 0 ? 0 : leaves_for(o->promised);
    uint64_t promised = l->promised - before + leaves_for(entries);
    VR_TRY(reserve_leaves(l, promised));
    VR_TRY(
        reserve_directory(o, l->arena, up_to_step((uint32_t)leaves_for(entries)))); /* fits: promised does */
    l->promised = promised;
    o->promised = entries;
    return VRAM_OK;
}

/* Keys are compared without branches: the outcome cannot be predicted here, and a wrong guess costs more than
 * the search. Every STEP-th key is counted first, then the keys of one step; unlike in a binary search no
 * load waits for another. */
static uint32_t count_below(const uint64_t *keys, uint32_t stride, uint32_t n, uint64_t key)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += (uint32_t)(keys[i * stride + stride - 1] < key);
    return count;
}

/* How many sizes lie below `size`. n is a multiple of STEP and not 0; UINT64_MAX stands behind the last of
 * them. */
static uint32_t sizes_below(const uint64_t *sizes, uint32_t n, uint64_t size)
{
    uint32_t base = 0;
    while (n > STEP * STEP) {
        uint32_t half = n / (2 * STEP) * STEP;
        base += (0u - (uint32_t)(sizes[base + half - 1] < size)) & half;
        n -= half;
    }
    uint32_t step = count_below(sizes + base, STEP, n / STEP, size);
    if (step == n / STEP)
        step--; /* all are below; counts them once more */
    base += step * STEP;
    return base + count_below(sizes + base, 1, STEP, size);
}

static uint32_t addresses_below(const uint64_t *addresses, uint32_t n, uint64_t address)
{
    uint32_t base = 0;
    while (n > 1) {
        uint32_t half = n / 2;
        base += (0u - (uint32_t)(addresses[base + half - 1] < address)) & half;
        n -= half;
    }
    return base + (uint32_t)(addresses[base] < address);
}

/* How many of n keys lie below (size, address). room: n up to a multiple of STEP. Addresses are looked at
 * only among equal sizes, which saves half the memory. */
static uint32_t below(const uint64_t *sizes, const uint64_t *addresses, uint32_t n, uint32_t room,
                      uint64_t size, uint64_t address)
{
    uint32_t low = sizes_below(sizes, room, size);
    if (address == 0 || low >= n || sizes[low] != size || addresses[low] >= address)
        return low;
    return low + addresses_below(addresses + low, sizes_below(sizes, room, size + 1) - low, address);
}

bool vr_order_seek(const vr_order *o, const vr_leaves *l, uint64_t size, uint64_t address, vr_place *p)
{
    uint32_t leaf = o->n <= 1 ? 0 : below(o->size, o->address, o->n, up_to_step(o->n), size, address);
    if (leaf < o->n) {
        const vr_leaf *f = &l->leaf[o->leaf[leaf]];
        *p = (vr_place){ leaf, below(f->size, f->address, f->n, VR_LEAF, size, address) };
        if (p->at < f->n)
            return true;
    }
    *p = (vr_place){ o->n, 0 };
    return false;
}

bool vr_order_first(const vr_order *o, vr_place *p)
{
    *p = (vr_place){ 0, 0 };
    return o->n > 0;
}

bool vr_order_next(const vr_order *o, const vr_leaves *l, vr_place *p)
{
    if (p->leaf < o->n && ++p->at == l->leaf[o->leaf[p->leaf]].n)
        *p = (vr_place){ p->leaf + 1, 0 };
    return p->leaf < o->n;
}

bool vr_order_prev(const vr_order *o, const vr_leaves *l, vr_place *p)
{
    if (p->at > 0) {
        p->at--;
        return true;
    }
    if (p->leaf == 0)
        return false;
    p->leaf--;
    p->at = l->leaf[o->leaf[p->leaf]].n - 1;
    return true;
}

static uint32_t take_leaf(vr_leaves *l)
{
    uint32_t i = l->spare;
    if (i == NONE)
        i = l->n++;
    else
        l->spare = l->leaf[i].chain;
    l->leaf[i].n = 0;
    pad(l->leaf[i].size, 0, VR_LEAF);
    return i;
}

/* Directory entry i from the last key of its leaf. */
static void note_last(vr_order *o, const vr_leaves *l, uint32_t i)
{
    const vr_leaf *f = &l->leaf[o->leaf[i]];
    o->size[i] = f->size[f->n - 1];
    o->address[i] = f->address[f->n - 1];
}

static void open_directory(vr_order *o, uint32_t i)
{
    size_t rest = o->n - i;
    memmove(o->size + i + 1, o->size + i, rest * sizeof(*o->size));
    memmove(o->address + i + 1, o->address + i, rest * sizeof(*o->address));
    memmove(o->leaf + i + 1, o->leaf + i, rest * sizeof(*o->leaf));
    o->n++;
}

static void drop_leaf(vr_order *o, vr_leaves *l, uint32_t i)
{
    l->leaf[o->leaf[i]].chain = l->spare;
    l->spare = o->leaf[i];
    size_t rest = o->n - i - 1;
    memmove(o->size + i, o->size + i + 1, rest * sizeof(*o->size));
    memmove(o->address + i, o->address + i + 1, rest * sizeof(*o->address));
    memmove(o->leaf + i, o->leaf + i + 1, rest * sizeof(*o->leaf));
    o->n--;
    o->size[o->n] = UINT64_MAX;
}

/* Appends the entries of `from` starting at `first` to `to`. */
static void append(vr_leaf *to, const vr_leaf *from, uint32_t first)
{
    uint32_t n = from->n - first;
    memcpy(to->size + to->n, from->size + first, n * sizeof(*to->size));
    memcpy(to->address + to->n, from->address + first, n * sizeof(*to->address));
    memcpy(to->block + to->n, from->block + first, n * sizeof(*to->block));
    to->n += n;
}

static void split_leaf(vr_order *o, vr_leaves *l, uint32_t i)
{
    uint32_t upper = take_leaf(l);
    open_directory(o, i + 1);
    o->leaf[i + 1] = upper;
    append(&l->leaf[upper], &l->leaf[o->leaf[i]], VR_LEAF / 2);
    l->leaf[o->leaf[i]].n = VR_LEAF / 2;
    pad(l->leaf[o->leaf[i]].size, VR_LEAF / 2, VR_LEAF);
    note_last(o, l, i);
    note_last(o, l, i + 1);
}

/* Where a new key goes; makes the first leaf and splits a full one. */
static vr_place place_for(vr_order *o, vr_leaves *l, uint64_t size, uint64_t address)
{
    vr_place p;
    if (vr_order_seek(o, l, size, address, &p)) {
        if (l->leaf[o->leaf[p.leaf]].n < VR_LEAF)
            return p;
        split_leaf(o, l, p.leaf);
        (void)vr_order_seek(o, l, size, address, &p);
        return p;
    }
    if (o->n == 0) {
        o->leaf[0] = take_leaf(l);
        o->n = 1;
    }
    if (l->leaf[o->leaf[o->n - 1]].n == VR_LEAF)
        split_leaf(o, l, o->n - 1);
    return (vr_place){ o->n - 1, l->leaf[o->leaf[o->n - 1]].n };
}

void vr_order_insert(vr_order *o, vr_leaves *l, uint64_t size, uint64_t address, uint32_t block)
{
    vr_place p = place_for(o, l, size, address);
    vr_leaf *f = &l->leaf[o->leaf[p.leaf]];
    size_t rest = f->n - p.at;
    memmove(f->size + p.at + 1, f->size + p.at, rest * sizeof(*f->size));
    memmove(f->address + p.at + 1, f->address + p.at, rest * sizeof(*f->address));
    memmove(f->block + p.at + 1, f->block + p.at, rest * sizeof(*f->block));
    f->size[p.at] = size;
    f->address[p.at] = address;
    f->block[p.at] = block;
    f->n++;
    if (rest == 0)
        note_last(o, l, p.leaf);
}

/* Keeps the invariant: leaf i and the one after it hold more than VR_LEAF / 2 entries together. */
static void join(vr_order *o, vr_leaves *l, uint32_t i)
{
    if (i + 1 >= o->n)
        return;
    vr_leaf *low = &l->leaf[o->leaf[i]], *high = &l->leaf[o->leaf[i + 1]];
    if (low->n + high->n > VR_LEAF / 2)
        return;
    append(low, high, 0);
    drop_leaf(o, l, i + 1);
    note_last(o, l, i);
}

void vr_order_remove_at(vr_order *o, vr_leaves *l, vr_place p)
{
    vr_leaf *f = &l->leaf[o->leaf[p.leaf]];
    size_t rest = f->n - p.at - 1;
    memmove(f->size + p.at, f->size + p.at + 1, rest * sizeof(*f->size));
    memmove(f->address + p.at, f->address + p.at + 1, rest * sizeof(*f->address));
    memmove(f->block + p.at, f->block + p.at + 1, rest * sizeof(*f->block));
    f->size[--f->n] = UINT64_MAX;
    if (f->n == 0) {
        drop_leaf(o, l, p.leaf);
    } else {
        if (rest == 0)
            note_last(o, l, p.leaf);
        if (f->n <= VR_LEAF / 2)
            join(o, l, p.leaf);
    }
    if (p.leaf > 0)
        join(o, l, p.leaf - 1);
}

void vr_order_remove(vr_order *o, vr_leaves *l, uint64_t size, uint64_t address)
{
    vr_place p;
    if (vr_order_seek(o, l, size, address, &p))
        vr_order_remove_at(o, l, p);
}
