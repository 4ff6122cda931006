/* SPDX-License-Identifier: MIT
 * The rules by which a framework turns requests into device memory: PyTorch's caching allocator, native and
 * with expandable segments. Bytes everywhere. One allocator stands for one GPU of one process.
 *
 * Source of the rules: c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.{h,cpp} of PyTorch 2.7
 * to 2.15. Not modelled, because a tape cannot know them: blocks that wait for another stream
 * (record_stream), which are released here when the tape releases them; and callbacks that free memory on
 * demand. */
#ifndef VR_ALLOCATOR_H
#define VR_ALLOCATOR_H

#include "base/base.h"

#define VR_ROUNDUP_BUCKETS 16 /* kRoundUpPowerOfTwoIntervals */

/* PYTORCH_ALLOC_CONF, parsed. Fields that are 0 stand for the default. */
typedef struct vr_alloc_conf {
    bool expandable_segments;
    uint64_t max_split_bytes;        /* 0: unlimited */
    uint64_t large_segment_bytes;    /* 0: 20 MiB */
    uint64_t max_non_split_rounding; /* 0: large_segment_bytes */
    /* Per power of two of the request: [0] below 2 MiB, [1] from 2 MiB, ... [15] from 32 GiB; a power of two;
     * 0, 1: none */
    uint32_t roundup_divisions[VR_ROUNDUP_BUCKETS];
    unsigned gc_threshold_permille;    /* of what the memory fraction allows; 0: off */
    unsigned memory_fraction_permille; /* of vr_driver.total; 0: none set; gc works only with it */
} vr_alloc_conf;

/* "expandable_segments:True,max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4]", as PyTorch
 * reads it, but nothing is skipped in silence: VRAM_ESETTING names what is not understood, VRAM_EUNSUPPORTED
 * a backend that is not this allocator; keys that change no byte on the device are accepted with a warning.
 * *out is set on VRAM_OK only. */
vram_status vr_alloc_conf_parse(vr_alloc_conf *out, vram_ctx *ctx, vr_str text);
bool vr_alloc_conf_is_default(const vr_alloc_conf *c);
/* What the allocator may take of a device of this total (not 0): UINT64_MAX without a memory fraction. */
uint64_t vr_alloc_conf_allowed(const vr_alloc_conf *c, uint64_t total);
/* Held against recorded runs of real GPUs; figures made with other settings are not `verified`. */
bool vr_alloc_conf_verified(const vr_alloc_conf *c);

typedef struct vr_alloc_stats {
    uint64_t allocated;  /* sum of live blocks, unsplit remainders included: torch.cuda.memory_allocated */
    uint64_t requested;  /* sum of what was asked for and is live */
    uint64_t reserved;   /* sum of segments, or of mapped pages: torch.cuda.memory_reserved */
    uint64_t n_segments; /* from the driver and not given back; an expandable segment counts once */
    uint64_t n_retries;  /* times that all idle memory was given back after a refusal: num_alloc_retries */
    uint64_t span;       /* of expandable segments: the farthest end of mapped pages from a segment's start */
} vr_alloc_stats;

typedef struct vr_allocator vr_allocator;

#define VR_NO_BLOCK UINT32_MAX

/* Where segments come from. All zero: endless memory. */
typedef struct vr_driver {
    /* May the driver give `bytes` more when the allocator holds `reserved`? Asked once per segment, and for
     * expandable segments once per run of pages. NULL: always. */
    bool (*room)(void *ud, uint64_t reserved, uint64_t bytes);
    /* Address of the next new segment, for replays of recorded runs; for expandable segments of the next
     * reservation of address space. NULL: ascending addresses of our own. */
    uint64_t (*address)(void *ud, uint64_t bytes);
    void *ud;
    uint64_t total; /* of the device as CUDA reports it; 0: unknown, then a memory fraction limits nothing */
} vr_driver;

/* *out lies in the arena and dies with it, and nothing of it is freed before. conf is copied, NULL stands for
 * the defaults; driver is copied, NULL for endless memory. VRAM_ENOMEM. */
vram_status vr_allocator_new(vr_allocator **out, vr_arena *arena, const vr_alloc_conf *conf,
                             const vr_driver *driver);
/* As new, but keeps the memory of its nodes. Block numbers given out before are void. */
void vr_allocator_reset(vr_allocator *a, const vr_alloc_conf *conf, const vr_driver *driver);
/* VRAM_OK: *block is live, or it is VR_NO_BLOCK: then either *tried != 0 and the device is out of memory
 * (*tried is the segment that PyTorch prints as "Tried to allocate", and all that could be given back was),
 * or bytes was 0, for which PyTorch allocates nothing. VRAM_ENOMEM, VRAM_ELIMIT (more than 4 billion blocks):
 * some idle memory may have been given back. pool 0 is the ordinary one; any other is the private pool of
 * CUDA graphs (mempool id), whose memory is never given back, since no event of a tape destroys a graph. */
vram_status vr_allocator_alloc(vr_allocator *a, uint64_t bytes, unsigned stream, unsigned pool,
                               uint32_t *block, uint64_t *tried);
/* The number may be given out again. Nothing happens for VR_NO_BLOCK and for a block that is not live. */
void vr_allocator_release(vr_allocator *a, uint32_t block);
/* torch.cuda.empty_cache(). VRAM_ENOMEM: some was given back, the rest is idle as before. */
vram_status vr_allocator_empty_cache(vr_allocator *a);
const vr_alloc_stats *vr_allocator_stats(const vr_allocator *a); /* kept up to date, valid as long as a */
uint64_t vr_allocator_address(const vr_allocator *a, uint32_t block); /* of a live block; 0 for VR_NO_BLOCK */
/* Of the block, unsplit remainder included; 0 for VR_NO_BLOCK */
uint64_t vr_allocator_size(const vr_allocator *a, uint32_t block);

typedef struct vr_alloc_block {
    uint32_t block;
    uint64_t address, size, requested; /* requested: 0 unless live */
    bool live, small;
    bool first; /* of its segment, or of a run of mapped pages */
    unsigned stream, pool;
} vr_alloc_block;

/* Every block that has memory behind it, in no certain order. *cursor starts at 0; false: no more. */
bool vr_allocator_each(const vr_allocator *a, uint32_t *cursor, vr_alloc_block *out);

/* A known state to start from (recorded runs): segments with their blocks, in any order, before the first
 * alloc. They must not overlap. Errors: VRAM_EFORMAT when the figures contradict each other, VRAM_ENOMEM. */
vram_status vr_allocator_add_segment(vr_allocator *a, uint64_t address, uint64_t bytes, bool small,
                                     unsigned stream, uint32_t *first_block);
/* Cuts `bytes` off the front of a free block and makes it live (requested bytes given); *rest is the free
 * remainder or VR_NO_BLOCK. live false: cuts it off as a free block that does not merge now. The front keeps
 * the number. */
vram_status vr_allocator_cut(vr_allocator *a, uint32_t block, uint64_t bytes, uint64_t requested, bool live,
                             uint32_t *rest);

#endif
