/* SPDX-License-Identifier: MIT
 * Ordered set of blocks by (size, address), the order in which PyTorch keeps its free blocks. Best fit is the
 * first entry not below (size, 0).
 *
 * Sorted leaves of up to VR_LEAF entries under one sorted directory: two short searches over keys that lie
 * side by side, and a move of a few hundred bytes. Everything is an index, so that copying the arrays copies
 * the set. Neighbouring leaves always hold more than VR_LEAF / 2 entries together; that bounds their number,
 * so room can be made beforehand (vr_order_reserve) and inserting and removing never fail. */
#ifndef VR_ORDER_H
#define VR_ORDER_H

#include "base/base.h"

#define VR_LEAF 32u

typedef struct vr_leaf {
    uint64_t
        size[VR_LEAF]; /* UINT64_MAX behind the last, so that a search need not know how many there are */
    uint64_t address[VR_LEAF];
    uint32_t block[VR_LEAF];
    uint32_t n;
    uint32_t chain; /* the next spare leaf */
} vr_leaf;

/* The leaves of all sets of one allocator. */
typedef struct vr_leaves {
    vr_arena *arena;
    vr_leaf *leaf;
    uint32_t n, room;  /* ever used; had */
    uint32_t spare;    /* head of the chain of spare leaves; UINT32_MAX: none */
    uint64_t promised; /* how many the sets may need at most */
} vr_leaves;

/* The directory: of each leaf its last key and its number. */
typedef struct vr_order {
    uint64_t *size; /* UINT64_MAX behind the last, up to room */
    uint64_t *address;
    uint32_t *leaf;
    uint32_t n, room;
    uint64_t promised; /* entries that fit for certain */
} vr_order;

/* A place in a set; valid until the set changes. */
typedef struct vr_place {
    uint32_t leaf, at; /* index into the directory, index into that leaf */
} vr_place;

void vr_leaves_init(vr_leaves *l, vr_arena *arena);
/* Forget all entries, keep the memory; all sets of one allocator together. */
void vr_leaves_reset(vr_leaves *l);
void vr_order_reset(vr_order *o);

/* Makes room so that the set can hold `entries`. VRAM_ENOMEM or VRAM_ELIMIT, nothing changed then. */
vram_status vr_order_reserve(vr_order *o, vr_leaves *l, uint64_t entries);
/* The key must not be there yet; room must have been reserved. */
void vr_order_insert(vr_order *o, vr_leaves *l, uint64_t size, uint64_t address, uint32_t block);
void vr_order_remove(vr_order *o, vr_leaves *l, uint64_t size, uint64_t address); /* the key must be there */
void vr_order_remove_at(vr_order *o, vr_leaves *l, vr_place p);

/* The first entry not below (size, address); false: there is none, *p is then the end. */
bool vr_order_seek(const vr_order *o, const vr_leaves *l, uint64_t size, uint64_t address, vr_place *p);
bool vr_order_first(const vr_order *o, vr_place *p);
bool vr_order_next(const vr_order *o, const vr_leaves *l, vr_place *p);
bool vr_order_prev(const vr_order *o, const vr_leaves *l, vr_place *p); /* also from the end */
static inline uint32_t vr_order_block(const vr_order *o, const vr_leaves *l, vr_place p)
{
    return l->leaf[o->leaf[p.leaf]].block[p.at];
}

#endif
