/* SPDX-License-Identifier: MIT
 * The rules by which a framework turns requests into device memory. One file per allocator behind this interface. */
#ifndef VR_ALLOCATOR_H
#define VR_ALLOCATOR_H

#include "base/base.h"

/* PYTORCH_ALLOC_CONF, parsed. Fields that are 0 stand for the default. */
typedef struct vr_alloc_conf {
    bool expandable_segments;
    uint64_t max_split_bytes;          /* 0: unlimited */
    uint64_t large_segment_bytes;      /* 0: 20 MiB */
    uint64_t max_non_split_rounding;   /* 0: 20 MiB */
    uint8_t roundup_divisions[16];     /* per power of two from 1 MiB to 32 GiB; 0 and 1: none */
    unsigned gc_threshold_permille;    /* 0: off */
    unsigned memory_fraction_permille; /* 0: none set; gc works only with it */
} vr_alloc_conf;

/* "expandable_segments:True,max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4]". ESETTING otherwise. */
vram_status vr_alloc_conf_parse(vr_alloc_conf *out, vram_ctx *ctx, vr_str text);
bool vr_alloc_conf_is_default(const vr_alloc_conf *c);

typedef struct vr_alloc_stats {
    uint64_t allocated; /* sum of live blocks, unsplit remainders included */
    uint64_t requested; /* sum of what was asked for */
    uint64_t reserved;  /* sum of segments */
    uint64_t n_segments, n_retries;
} vr_alloc_stats;

typedef struct vr_allocator vr_allocator;

#define VR_NO_BLOCK UINT32_MAX

/* May the driver give `bytes` more? room(ud, reserved, bytes) of NULL: always. For expandable segments likewise. */
typedef struct vr_driver {
    bool (*room)(void *ud, uint64_t reserved, uint64_t bytes);
    /* Address of the next new segment, for replays of recorded runs; NULL: ascending addresses of our own. */
    uint64_t (*address)(void *ud, uint64_t bytes);
    void *ud;
} vr_driver;

vram_status vr_allocator_new(vr_allocator **out, vr_arena *arena, const vr_alloc_conf *conf, const vr_driver *driver);
/* As new, but keeps the memory of its nodes. */
void vr_allocator_reset(vr_allocator *a, const vr_alloc_conf *conf, const vr_driver *driver);
/* VRAM_OK and *block; VRAM_END: out of device memory, *tried is then the segment the driver refused (what PyTorch prints
 * as "Tried to allocate"); VRAM_ENOMEM. */
vram_status vr_allocator_alloc(vr_allocator *a, uint64_t bytes, unsigned stream, unsigned pool, uint32_t *block,
                               uint64_t *tried);
void vr_allocator_release(vr_allocator *a, uint32_t block);
void vr_allocator_empty_cache(vr_allocator *a);
const vr_alloc_stats *vr_allocator_stats(const vr_allocator *a);
uint64_t vr_allocator_address(const vr_allocator *a, uint32_t block);
uint64_t vr_allocator_size(const vr_allocator *a, uint32_t block); /* of the block, remainder included */

/* A known state to start from (recorded runs): segments with their blocks, in any order, before the first alloc. */
vram_status vr_allocator_add_segment(vr_allocator *a, uint64_t address, uint64_t bytes, bool small, unsigned stream,
                                     uint32_t *first_block);
/* Cuts `bytes` off the front of a free block and makes it live (requested bytes given); *rest is the free remainder or
 * VR_NO_BLOCK. live false: cuts it off as a free block that does not merge now. */
vram_status vr_allocator_cut(vr_allocator *a, uint32_t block, uint64_t bytes, uint64_t requested, bool live,
                             uint32_t *rest);

#endif
