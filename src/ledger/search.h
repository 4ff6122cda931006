/* SPDX-License-Identifier: MIT
 * Searches for settings, of which neither knows what a setting is: the largest number that fits, and the best
 * cut of a row of layers over several GPUs. What they return was tried, as was what lies next to it. */
#ifndef VR_SEARCH_H
#define VR_SEARCH_H

#include "engine/engine.h"

/* ---- the largest that fits ---- */

/* Bytes left by the x-th of the settings; negative: it does not fit. Larger x take more as a rule, and
 * roughly evenly, but neither is relied on. */
typedef vram_status (*vr_left_fn)(void *ud, uint64_t x, int64_t *left);

typedef struct vr_solved {
    bool found; /* one fits; without it the rest is void */
    bool top;   /* the last of all does, so there is no next one */
    uint64_t x;
    int64_t left, next_left; /* of x; of x + 1, which was tried and does not fit */
} vr_solved;

/* Of 0 to count - 1 (count not 0) one that fits while the next does not. Where several are such, the higher
 * one near to it is looked at as well. start: the search begins there; 0, or one that probably fits. */
vram_status vr_solve(vr_solved *out, uint64_t count, uint64_t start, vr_left_fn left, void *ud);

/* ---- the best cut ---- */

typedef struct vr_cut_question {
    size_t n;              /* GPUs, no more than VR_MOST_GPUS */
    size_t units;          /* layers in a row, with the output behind them */
    const uint64_t *bytes; /* about what each unit takes: where the search starts, no more */
    const uint64_t *room;  /* of each GPU, in the same sense */
    bool enough;           /* the first cut that fits will do */
    /* What is left on each GPU when GPU k has the next shares[k] units. */
    vram_status (*left)(void *ud, const uint64_t *shares, int64_t *left);
    void *ud;
} vr_cut_question;

typedef struct vr_cut {
    uint64_t shares[VR_MOST_GPUS];
    int64_t left[VR_MOST_GPUS];
    int64_t least; /* left on the GPU that is worst off; one without layers counts only when it is short */
    unsigned tries;
} vr_cut;

/* The cut that leaves most on the GPU that is worst off: moving one unit from that one to another, which was
 * tried, leaves no more. */
vram_status vr_cut_units(vr_cut *out, const vr_cut_question *q, vr_arena *a);

#endif
