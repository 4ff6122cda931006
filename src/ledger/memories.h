/* SPDX-License-Identifier: MIT
 * Between the files of this folder: the GPUs of one run. */
#ifndef VR_MEMORIES_H
#define VR_MEMORIES_H

#include "ledger/answer.h"

/* Each GPU as a device of its own, with its rank and with where the engine puts the pieces. */
typedef struct vr_memories {
    vram_device *gpus;
    size_t n;    /* all cards of the run */
    size_t used; /* the first of them take part; the others stay empty */
    vr_placement placement;
} vr_memories;

/* cards: one or more, each with its count. Lives in `a`. VRAM_ELIMIT: too many. */
vram_status vr_memories_of(vr_memories *out, const vram_device *const *cards, size_t n, vram_ctx *ctx,
                           vr_arena *a);
/* The workload says how the model is spread over what there is. */
bool vr_spreads(const vram_workload *w);
/* Where the workload's device map puts things; to be called again for another workload. */
vram_status vr_memories_place(vr_memories *out, const vram_model *m, const vram_workload *w, vr_arena *a);

#endif
