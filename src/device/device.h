/* SPDX-License-Identifier: MIT
 * One GPU: usable bytes, what is taken already, context size; from the table or from a bare size. */
#ifndef VR_DEVICE_H
#define VR_DEVICE_H

#include "base/base.h"
#include "engine/engine.h"

/* nominal with bounds */
typedef struct vr_range {
    uint64_t bytes, low, high;
    uint8_t basis; /* vr_basis */
} vr_range;

/* Row of data/gpus.tsv. 0 = unknown in every column. */
typedef struct vr_gpu {
    const char *id, *vendor, *name, *arch, *source, *notes;
    unsigned cc_major, cc_minor;
    uint64_t marketed_gb;
    uint64_t smi_total_bytes;
    uint64_t cuda_total_bytes, cuda_total_low, cuda_total_high;
    bool cuda_total_measured; /* false: by the rules of data/README.md */
    unsigned sm_count;
    uint64_t context_bytes;   /* measured per-process context; 0: by formula */
} vr_gpu;

const vr_gpu *vr_gpus(size_t *n);

struct vram_device {
    vr_object object;
    vram_ctx *ctx;
    vr_arena arena;
    const vr_gpu *gpu; /* NULL: a bare size */
    const char *id, *name;
    uint64_t count;
    vr_range usable;
    vr_range available; /* free before our context */
    vr_range context, kernels;
    bool free_given;    /* --free */
    vr_device_facts facts;
};

/* As vram_device_new, but in an arena and not registered; for trying many cards. */
vram_status vr_device_of_gpu(vram_device *out, const vr_gpu *gpu, uint64_t count, uint64_t free_bytes);

#endif
