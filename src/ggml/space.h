/* SPDX-License-Identifier: MIT
 * Private to the room: the memory of one buffer type as the graph allocator keeps it (ggml_dyn_tallocr). */
#ifndef VR_GGML_SPACE_H
#define VR_GGML_SPACE_H

#include "base/base.h"

#define VR_GG_MOST_CHUNKS 16
#define VR_GG_MOST_HOLES 256

typedef struct vr_gg_hole {
    uint64_t offset, size;
} vr_gg_hole;

typedef struct vr_gg_chunk {
    vr_gg_hole holes[VR_GG_MOST_HOLES]; /* by offset; the last is what was never used */
    size_t n_holes;
    uint64_t top; /* bytes that were ever in use */
} vr_gg_chunk;

typedef struct vr_gg_space {
    vr_arena *arena;
    uint64_t alignment, chunk_size;
    vr_gg_chunk *chunks[VR_GG_MOST_CHUNKS];
    size_t n_chunks;
} vr_gg_space;

typedef struct vr_gg_address {
    uint32_t chunk;
    uint64_t offset;
} vr_gg_address;

void vr_gg_space_init(vr_gg_space *s, uint64_t alignment, uint64_t chunk_size, vr_arena *a);
/* VRAM_EUNSUPPORTED: where ggml gives up. */
vram_status vr_gg_space_take(vr_gg_space *s, uint64_t size, vr_gg_address *at);
vram_status vr_gg_space_give(vr_gg_space *s, vr_gg_address at, uint64_t size);
uint64_t vr_gg_space_bytes(const vr_gg_space *s); /* of all chunks */

#endif
