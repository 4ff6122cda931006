/* SPDX-License-Identifier: MIT
 * One model, one card, every engine. */
#ifndef VR_COMPARISON_H
#define VR_COMPARISON_H

#include "ledger/fit.h"

/* One engine's part. */
typedef struct vr_compared {
    const vr_engine *engine;
    vram_fit *fit;       /* NULL: it refuses */
    const char *refused; /* why, one sentence */
} vr_compared;

struct vram_comparison {
    vr_object object;
    vram_ctx *ctx;
    vr_arena arena;
    const vram_model *model;
    const vram_workload *asked;
    vr_compared *list;
    size_t n;
    vram_verdict verdict;
    /* Of tokens and sequences of the fits, in 16 bits, sliding layers with no token more than they attend to;
     * 0: not known, or no layer slides. */
    uint64_t least_kv;
};

#endif
