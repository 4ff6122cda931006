/* SPDX-License-Identifier: MIT
 * Between the files of this folder: the steps from a plan to an answer. */
#ifndef VR_ANSWER_H
#define VR_ANSWER_H

#include "ledger/fit.h"

/* All uncertain inputs (context, kernels, activations that no real engine has confirmed) at one end of their
 * range. */
typedef enum vr_inputs { VR_LOW, VR_NOMINAL, VR_HIGH } vr_inputs;

/* A plan with what it is played on. */
typedef struct vr_scene {
    const vr_plan *plan;
    const vram_workload *workload;
    const vram_device *device;
    vr_arena *scratch;
} vr_scene;

vr_device_facts vr_facts_of(const vram_device *d); /* NULL: a card of unknown kind without limits */
/* limit UINT64_MAX: without one. */
vram_status vr_play(vr_rehearsal *out, const vr_scene *s, vr_inputs inputs, uint64_t limit);
/* Peak without limit with inputs at one end: from `needs` (the nominal one) by arithmetic where that is
 * exact. */
vram_status vr_peak(vr_live *out, const vr_scene *s, vr_inputs inputs, const vr_rehearsal *needs);
/* What was asked for and is live at a peak: no allocator makes do with less. */
uint64_t vr_least_of(const vr_live *live);
/* Does it live in `limit` bytes? peak: that of vr_peak for these inputs. */
vram_status vr_lives(bool *out, const vr_scene *s, vr_inputs inputs, const vr_live *peak, uint64_t limit);
/* A peak as it is with other figures for what lies outside the allocator. */
vr_live vr_live_with(const vr_live *live, uint64_t context, uint64_t kernels);

/* Nothing is missing that could matter: neither a category nor a file of the checkpoint. */
bool vr_all_counted(const vr_plan *p, const vram_model *m);

/* low and high are peaks of their own; bounds never cross the nominal figure. */
vram_status vr_ledger_new(vr_ledger *out, const vr_scene *s, const vr_live *nominal, const vr_live *low,
                          const vr_live *high, vr_arena *texts);

/* What a workload needs and whether it fits with the inputs high: for levers. */
typedef struct vr_trial {
    uint64_t required;
    bool fits;
    uint8_t basis;
} vr_trial;
/* Memory that is used again from one rehearsal to the next. */
typedef struct vr_rooms {
    vr_arena kept;    /* plans that are looked at again */
    vr_arena trial;   /* one plan; emptied by each use */
    vr_arena scratch; /* of a rehearsal */
} vr_rooms;
void vr_rooms_open(vr_rooms *r, vram_ctx *ctx);
void vr_rooms_close(vr_rooms *r);

vram_status vr_try(vr_trial *out, const vram_model *m, const vram_workload *w, const vram_device *d,
                   vr_rooms *rooms);

/* Message, shortage and number of cards of a fit that has its answer and a device. */
vram_status vr_fit_failure(vram_fit *f);
void vr_fit_count(vram_fit *f);

#define VR_DECK_KINDS 16

/* Cards of the table, judged for one model and workload. */
typedef struct vr_deck {
    const vram_model *model;
    const vram_workload *workload;
    vr_rooms *rooms;
    vram_device *devices; /* smallest first; not registered */
    size_t n;
    struct vr_class {
        bool known, low_known, high_known;
        vr_plan plan;
        vr_rehearsal needs;
        vr_live low, high;
    } classes[VR_DECK_KINDS]; /* by kind of card: a plan does not depend on anything else but a card's limits
                               */
} vr_deck;

vram_status vr_deck_new(vr_deck *out, const vram_model *m, const vram_workload *w, vr_arena *a,
                        vr_rooms *rooms);
/* What is known already of cards like d; nothing happens where a plan depends on the card's size. */
void vr_deck_know(vr_deck *deck, const vram_device *d, const vr_plan *plan, const vr_rehearsal *needs);
/* False: certain not to be judged VRAM_FITS; told with little work. */
vram_status vr_deck_promising(vr_deck *deck, size_t i, bool *promising);
/* required of a card that does not hold it is that of an endless one of its kind. */
vram_status vr_deck_judge(vr_deck *deck, size_t i, vram_verdict *verdict, uint64_t *required);

#endif
