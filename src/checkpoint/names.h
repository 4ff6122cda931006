/* SPDX-License-Identifier: MIT
 * Table from names to tensors, small enough (8 bytes a slot) to stay in the cache with 90,000 of them. */
#ifndef VR_NAMES_H
#define VR_NAMES_H

#include "base/base.h"

#define VR_NO_NAME UINT32_MAX
#define VR_NAMES_MANY                                                                                        \
    32 /* taken together, because each name is somewhere else in memory and memory is slow */

struct vr_tensor;

typedef struct vr_names {
    uint64_t *slots; /* 0: free; otherwise 32 bits of the hash over the tensor's number plus one */
    size_t mask;
    uint64_t seed;
} vr_names;

/* At most `most` names will be put. */
vram_status vr_names_init(vr_names *t, vr_arena *a, size_t most, uint64_t seed);
/* Puts tensors[number] and the n - 1 after it under their names, n <= VR_NAMES_MANY. Returns how many were
 * put: under n when the name of the next one is there already, at tensors[*other]. */
size_t vr_names_put(vr_names *t, const struct vr_tensor *tensors, uint32_t number, size_t n, uint32_t *other);
/* VR_NO_NAME when it is not there. */
uint32_t vr_names_get(const vr_names *t, const struct vr_tensor *tensors, vr_str name);

/* Several names at once, n <= VR_NAMES_MANY. */
void vr_names_get_many(const vr_names *t, const struct vr_tensor *tensors, const vr_str *names, size_t n,
                       uint32_t *numbers);

#endif
