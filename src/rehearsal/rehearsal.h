/* SPDX-License-Identifier: MIT
 * A tape played on an allocator on one device: a timeline, a peak, or the request that fails. */
#ifndef VR_REHEARSAL_H
#define VR_REHEARSAL_H

#include "rehearsal/allocator.h"
#include "rehearsal/tape.h"

typedef struct vr_stage {
    const vr_alloc_conf *alloc;
    uint64_t usable;    /* total that CUDA reports, for the error text */
    uint64_t available; /* free before our context exists; UINT64_MAX: no limit */
    uint64_t context, kernels; /* bytes of these items where the tape says "the device's figure" */
    unsigned activation_permille; /* activation requests are scaled by this (1000: as on the tape) */
} vr_stage;

/* What is live at one event. items[] holds requested bytes by item; CONTEXT, KERNELS, ROUNDING and IDLE too, so that the
 * sum over all items is `driver`. */
typedef struct vr_live {
    uint64_t items[VR_ITEM_COUNT];
    uint64_t allocated, reserved, driver;
    size_t event;
} vr_live;

typedef struct vr_moment {
    vr_moment_id id;
    uint64_t allocated, reserved, driver;
} vr_moment;

typedef struct vr_rehearsal {
    vr_moment moments[VR_MOMENT_COUNT];
    size_t n_moments;
    vr_live peak;            /* at the first event of the highest driver figure */
    uint64_t peak_allocated; /* highest figure of its own */
    bool failed;
    struct {
        size_t event;
        uint32_t label;
        uint64_t requested, tried, driver_free; /* what the driver still has */
        unsigned next_moment; /* vr_moment_id that was being worked towards */
        vr_live live;         /* at the failing request, before it */
        uint64_t loaded_bytes; /* weights live then */
    } failure;
    uint64_t n_retries, n_events;
} vr_rehearsal;

/* scratch is reset by this function; *out holds no pointer into it. */
vram_status vr_rehearse(vr_rehearsal *out, const vr_tape *tape, const vr_stage *stage, vr_arena *scratch);

#endif
