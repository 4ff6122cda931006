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

/* Operating system under which the total was read. */
typedef enum vr_gpu_os {
    VR_OS_NONE,
    VR_OS_LINUX,
    VR_OS_WINDOWS,
    VR_OS_TEGRA,
    VR_OS_METAL,
    VR_OS_UNKNOWN
} vr_gpu_os;
typedef enum vr_gpu_ecc { VR_ECC_UNKNOWN, VR_ECC_ON, VR_ECC_OFF } vr_gpu_ecc;

/* Row of data/gpus.tsv. 0 = unknown in every column. */
typedef struct vr_gpu {
    const char *id, *vendor, *name, *arch, *source, *notes;
    unsigned cc_major, cc_minor;
    unsigned memories;    /* devices on one card; 0: one */
    bool unified;         /* memory shared with the CPU */
    uint64_t marketed_gb; /* of the whole card */
    uint64_t smi_total_bytes;
    uint64_t cuda_total_bytes, cuda_total_low, cuda_total_high; /* as read; to plan with: vr_gpu_usable */
    bool cuda_total_measured; /* read on a system whose figure counts; false: vr_gpu_usable derives one */
    uint8_t os, ecc;          /* vr_gpu_os, vr_gpu_ecc */
    unsigned sm_count;
    uint64_t context_bytes; /* measured per-process context; 0: by formula */
} vr_gpu;

const vr_gpu *vr_gpus(size_t *n);
/* What CUDA (or the platform's like) reports as the total of one device: read, or by the rules of
 * data/README.md. bytes 0: nothing is known. */
vr_range vr_gpu_usable(const vr_gpu *gpu);
/* Memory of a process that has a CUDA context and nothing in it; bytes 0: not an NVIDIA card. */
vr_range vr_gpu_context(const vr_gpu *gpu);
/* The cards of the table whose id or name contains every word of `search`, in table order; NULL: all, a text
 * without a letter or a digit: none. The array lives in the arena. */
vram_status vr_gpu_search(const char *search, vr_arena *a, const vr_gpu *const **out, size_t *n);

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
    bool free_given; /* --free */
    bool host;       /* no GPU: the computer's own memory; available UINT64_MAX: nobody said how much */
    vr_device_facts facts;
};

/* As vram_device_new, but in the caller's place and not registered; for trying many cards. Sets no error
 * text: VRAM_EUNSUPPORTED when nothing is known of the card's size or it is not NVIDIA's, VRAM_ESETTING when
 * free_bytes is over. */
vram_status vr_device_of_gpu(vram_device *out, const vr_gpu *gpu, uint64_t count, uint64_t free_bytes);

#endif
