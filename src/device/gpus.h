/* SPDX-License-Identifier: MIT
 * Private to the room: the generated table of data/gpus.tsv, and the figures that are not in it. */
#ifndef VR_GPUS_H
#define VR_GPUS_H

#include "device/device.h"

extern const vr_gpu vr_gpu_table[];
extern const size_t vr_gpu_table_n;

/* The usable total by rule, whether it has been read or not; bytes 0: no rule. */
vr_range vr_gpu_derived(const vr_gpu *gpu);
/* Context of a card of which only the size is known. */
vr_range vr_context_of_size(uint64_t usable_bytes);
vr_range vr_kernels(const vr_gpu *gpu); /* NULL: not known which */
/* Compute capability as one number: 860. */
unsigned vr_gpu_capability(const vr_gpu *gpu);
bool vr_gpu_is_nvidia(const vr_gpu *gpu);
bool vr_gpu_has_hbm(const vr_gpu *gpu);

/* ---- names ---- */

typedef enum vr_match { VR_MATCH_ONE, VR_MATCH_NONE, VR_MATCH_SEVERAL } vr_match;

#define VR_CANDIDATES 6

typedef struct vr_found {
    vr_match match;
    const vr_gpu *gpu[VR_CANDIDATES]; /* the one, the first of several, or the nearest ids */
    size_t n;                         /* in gpu */
    size_t total;                     /* how many matched */
} vr_found;

void vr_gpu_find(vr_found *out, vr_str query);
bool vr_gpu_has_words(const vr_gpu *gpu, vr_str search);

#endif
