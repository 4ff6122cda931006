/* SPDX-License-Identifier: MIT
 * A tape played on an allocator on one device: a timeline, a peak, or the request that fails. All in bytes.
 *
 * Three ways of counting, never mixed: `allocated` (live blocks), `reserved` (taken by the allocator),
 * `driver` (reserved and what lies outside the allocator: what nvidia-smi shows for the process). Figures
 * hold after an event. */
#ifndef VR_REHEARSAL_H
#define VR_REHEARSAL_H

#include "rehearsal/allocator.h"
#include "rehearsal/tape.h"

/* The device on which a tape is played. */
typedef struct vr_stage {
    const vr_alloc_conf *alloc; /* NULL: the defaults */
    /* Total that CUDA reports: for the error text, the memory fraction, expandable segments; 0: unknown */
    uint64_t usable;
    uint64_t available;        /* free before our context exists; UINT64_MAX: no limit */
    uint64_t context, kernels; /* bytes of these items where the tape says "the device's figure" */
    /* Activation requests are scaled by this and rounded half up to bytes; 1000 or 0: as on the tape */
    unsigned activation_permille;
    /* What still fails after the allocator gave back what it could raises `available` to just what it lacks,
     * and is asked for again. */
    bool raise;
} vr_stage;

/* What is live at one event. items[] holds requested bytes by item; what the tape took outside the allocator
 * is in its item too. ROUNDING is allocated minus requested, IDLE reserved minus allocated, so that the sum
 * over all items is `driver`. */
typedef struct vr_live {
    uint64_t items[VR_ITEM_COUNT];
    uint64_t allocated, reserved, driver;
    size_t event; /* index on the tape */
} vr_live;

typedef struct vr_moment {
    vr_moment_id id;
    uint64_t allocated, reserved, driver;
} vr_moment;

typedef struct vr_rehearsal {
    vr_moment moments[VR_MOMENT_COUNT]; /* in the order in which the tape marks them first */
    size_t n_moments;
    /* The highest driver figure, with what was live at the fullest event (most allocated, the first of
     * equals): `driver` and `reserved` are those of the highest, items and `allocated` those of the fullest,
     * and IDLE is what of `reserved` was not in use then. Of an empty tape all 0. */
    vr_live peak;
    vr_live before_kernels;  /* the peak until the device's figure for kernels was taken; all 0: it was not */
    uint64_t peak_allocated; /* highest figure of its own */
    /* Until the device's figure for kernels is taken ([0]) and from then on ([1]): the largest sum of what
     * the tape has taken so far and wants more, less the device's own figures, that was granted, and the
     * least that was refused (UINT64_MAX: none). On any device that leaves that much room, granted <= room <
     * refused, everything happens the same. */
    struct vr_asked {
        uint64_t granted, refused;
    } asked[2];
    bool odd;    /* the device's figures do not stand on the tape as usual, context first, kernels once */
    bool raised; /* vr_stage.raise took effect */
    bool cut;    /* a request was cut to what was free: with other room it would have been another */
    uint64_t whole_from; /* total of a device from which on no request is cut by it; 0: none would be */
    uint64_t span;       /* vr_alloc_stats */
    bool failed;
    struct {
        size_t event;
        bool outside;       /* it is not the allocator's */
        uint32_t label;     /* of the failing request; 0: none */
        uint64_t requested; /* by the tape, scaled */
        /* The segment the driver refused, as in the error text; outside the allocator the bytes themselves */
        uint64_t tried;
        uint64_t driver_free; /* what the driver still has: available - outside - reserved */
        /* vr_moment_id that was being worked towards; VR_MOMENT_COUNT: the tape marks none after it */
        unsigned next_moment;
        /* What is live without the failing request, after the allocator gave back what it could: the figures
         * of the error text. When a memory fraction refused, driver_free may be larger than tried. */
        vr_live live;
    } failure;          /* all 0 unless failed */
    uint64_t n_retries; /* times that the allocator gave back everything idle because the driver refused */
    uint64_t n_events;  /* played, the failing one included */
} vr_rehearsal;

/* scratch is reset by this function (it must not hold the tape); *out holds no pointer into it. VRAM_OK also
 * when the tape fails on the device (failed); the tape's own status when it is not VRAM_OK; VRAM_ENOMEM;
 * VRAM_EINTERNAL for a tape that contradicts itself; VRAM_ESETTING for a memory fraction on a device of
 * unknown size. */
vram_status vr_rehearse(vr_rehearsal *out, const vr_tape *tape, const vr_stage *stage, vr_arena *scratch);

/* The same for many rehearsals one after the other, which use memory again. */
typedef struct vr_hall {
    vr_arena arena;
    vr_allocator *allocator; /* or NULL */
    void *blocks;            /* or NULL */
    uint32_t n_blocks;
} vr_hall;
void vr_hall_open(vr_hall *h, vram_ctx *ctx);
void vr_hall_close(vr_hall *h);
vram_status vr_rehearse_in(vr_rehearsal *out, const vr_tape *tape, const vr_stage *stage, vr_hall *hall);

/* The same, one event at a time: for tests and for those who want every step. */
typedef struct vr_player vr_player;
/* *player lies in the arena, which is not reset, and borrows the tape. *out is filled as it goes on. */
vram_status vr_player_new(vr_player **player, vr_rehearsal *out, const vr_tape *tape, const vr_stage *stage,
                          vr_arena *arena);
/* Plays the next event; *more false: the tape has ended or failed. */
vram_status vr_player_step(vr_player *p, bool *more);
/* What is live now. */
void vr_player_live(const vr_player *p, vr_live *live);

#endif
