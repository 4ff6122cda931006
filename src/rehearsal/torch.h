/* SPDX-License-Identifier: MIT
 * The insides of PyTorch's caching allocator, shared by torch.c (requests and releases), torch_space.c (whole
 * segments) and torch_expand.c (expandable segments). Every link is an index; a copy of the arrays is a copy
 * of the allocator. */
#ifndef VR_TORCH_H
#define VR_TORCH_H

#include "rehearsal/allocator.h"
#include "rehearsal/order.h"

/* c10/core/AllocatorConfig.h; unchanged from PyTorch 1.10 to 2.15 */
#define VR_MIN_BLOCK UINT64_C(512)       /* kMinBlockSize */
#define VR_SMALL_SIZE VR_MIB             /* kSmallSize: the largest request of the small pool */
#define VR_SMALL_BUFFER (2 * VR_MIB)     /* kSmallBuffer: its segments, and pages when expandable */
#define VR_LARGE_BUFFER (20 * VR_MIB)    /* kLargeBuffer, large_segment_size_mb */
#define VR_MIN_LARGE_ALLOC (10 * VR_MIB) /* kMinLargeAlloc: from here a segment of its own */
#define VR_ROUND_LARGE (2 * VR_MIB)      /* kRoundLarge */

#define VR_NONE UINT32_MAX

typedef enum vr_block_state {
    VR_SPARE, /* a node without a block */
    VR_IDLE,  /* free, in its group's idle set */
    VR_LIVE,
    VR_UNMAPPED /* address space without memory behind it, in its group's unmapped set */
} vr_block_state;

typedef struct vr_block {
    uint64_t address, size;
    union {
        uint64_t requested; /* of a live block */
        uint64_t searched;  /* of an idle one: count of searches when it became idle (gc_count_base) */
    };
    uint32_t prev, next; /* neighbours by address in the same segment */
    uint32_t group;
    uint32_t space; /* index of the expandable segment, or VR_NONE */
    uint32_t chain; /* spare nodes; blocks being given back */
    uint32_t state; /* vr_block_state */
} vr_block;

/* Blocks that may serve the same requests: one pool, one stream, one size class. */
typedef struct vr_group {
    vr_order idle;
    vr_order unmapped;       /* by address alone: the size of the key is 0 */
    uint64_t n_blocks, room; /* of any state; certain to fit */
    uint32_t pool, stream;
    uint32_t n_whole; /* idle blocks that are a segment each: what can go back */
    bool small;
} vr_group;

/* Address space of one expandable segment. */
typedef struct vr_space {
    uint64_t address, size;
    uint32_t chain; /* spare ones */
} vr_space;

struct vr_allocator {
    vr_arena *arena;
    vr_driver driver;
    /* settings with the defaults filled in; UINT64_MAX: no limit */
    bool expandable, gc;
    bool roundup; /* any of the divisions is above 1 */
    uint32_t divisions[VR_ROUNDUP_BUCKETS];
    uint64_t max_split, large_segment, non_split_rounding;
    uint64_t allowed; /* by the memory fraction */
    uint64_t gc_from; /* garbage collection starts above this figure */

    vr_block *blocks;
    uint32_t n_blocks, blocks_room; /* ever used; had */
    uint32_t spare, n_spare;        /* chain of spare nodes below n_blocks */
    vr_space *spaces;
    uint32_t n_spaces, spaces_room, spare_space;
    vr_leaves leaves;
    vr_group *groups;
    uint32_t n_groups, groups_room;
    uint32_t *slots; /* open addressing: group numbers; a power of two, at least twice the groups */
    uint32_t n_slots;
    uint32_t last[2]; /* the group found last, large and small */
    uint64_t next_address;
    uint64_t n_searches; /* of the large pool 0, while gc is on (get_free_blocks_call_count) */
    vr_alloc_stats stats;
};

/* A segment that is one block. Does not change while it is idle: what would split it or join it takes it out
 * of its set first. */
static inline bool vr_torch_is_whole(const vr_block *b)
{
    return b->prev == VR_NONE && b->next == VR_NONE && b->space == VR_NONE;
}

/* Room for `count` more blocks of a group; VRAM_ENOMEM leaves everything as it was. May move a->blocks and
 * the sets. */
vram_status vr_torch_room(vr_allocator *a, uint32_t group, uint32_t count);
uint32_t vr_torch_node(vr_allocator *a, uint32_t group); /* a node of a group; room must have been made */
void vr_torch_drop(vr_allocator *a, uint32_t block);     /* gives a node back */
void vr_torch_idle(vr_allocator *a, uint32_t block);     /* marks a block idle and puts it into its set */
void vr_torch_unidle(vr_allocator *a, uint32_t block);   /* takes it out again */
void vr_torch_link(vr_allocator *a, uint32_t before, uint32_t block, uint32_t after);
/* Merges an idle or unmapped neighbour, already out of its set, into `block`, which keeps its number. */
void vr_torch_absorb(vr_allocator *a, uint32_t block, uint32_t neighbour);
bool vr_torch_granted(const vr_allocator *a, uint64_t bytes); /* the driver gives this much more */
/* Address of `bytes` of new address space, a multiple of `multiple` when it is ours to choose; false: none is
 * left. */
bool vr_torch_address(vr_allocator *a, uint64_t bytes, uint64_t multiple, uint64_t *address);

/* torch_space.c: what a request does that no idle block can serve. *block VR_NONE: out of device memory. */
vram_status vr_torch_grow(vr_allocator *a, uint32_t group, uint64_t size, uint64_t want, uint32_t *block);
vram_status vr_torch_give_back(vr_allocator *a); /* release_cached_blocks */

/* torch_expand.c. *block is mapped, idle and out of its set, or VR_NONE. */
vram_status vr_torch_expand(vr_allocator *a, uint32_t group, uint64_t size, uint32_t *block);
/* Gives back the whole pages inside an idle block, and the address space once all of it is unmapped. */
vram_status vr_torch_unmap(vr_allocator *a, uint32_t block);
/* What counts as the size of an idle block for best fit when segments expand. */
static inline uint64_t vr_torch_reach(const vr_allocator *a, uint32_t block)
{
    const vr_block *b = &a->blocks[block];
    bool border = b->next != VR_NONE && a->blocks[b->next].state == VR_UNMAPPED;
    return b->size + (border ? a->blocks[b->next].size : 0);
}

#endif
