/* SPDX-License-Identifier: MIT
 * Between the files of this folder: the steps from a plan to an answer. */
#ifndef VR_ANSWER_H
#define VR_ANSWER_H

#include "ledger/fit.h"

/* All uncertain inputs (context, kernels, activations that no real engine has confirmed) at one end of their
 * range. */
typedef enum vr_inputs { VR_LOW, VR_NOMINAL, VR_HIGH } vr_inputs;

#define VR_MOST_PLAYED 12

/* A plan and rehearsals of it, which answer for every device on which all would happen the same. */
typedef struct vr_rehearsed {
    vr_plan plan;
    struct vr_played {
        vr_rehearsal run;
        uint64_t limit, usable, context, kernels;
        unsigned permille; /* of the activations */
        bool tight;        /* what it needs to live, whatever the device */
    } list[VR_MOST_PLAYED];
    size_t n, next; /* next: to be overwritten once all are in use */
} vr_rehearsed;

/* What is asked of which device. */
typedef struct vr_scene {
    const vram_model *model;
    const vram_workload *workload;
    const vram_device *device; /* NULL: none */
    vr_rehearsed *here;        /* the plan on this device */
    vr_arena *plans;
    vr_hall *hall;
} vr_scene;

vr_device_facts vr_facts_of(const vram_device *d); /* NULL: a card of unknown kind without limits */
/* Plans for `facts`, in the arena. */
vram_status vr_planned(vr_rehearsed **out, const vr_scene *s, const vr_device_facts *facts);

/* What a run takes on a device with `limit` bytes (UINT64_MAX: without one); if it dies there, what it would
 * need to live, which is more than the limit. run: what happens on the device, or NULL. */
vram_status vr_need(vr_rehearsal *needs, vr_rehearsal *run, vr_scene *s, vr_inputs inputs, uint64_t limit);
/* The same with nominal inputs in what is available: in the least of it, if it lives there. */
vram_status vr_need_nominal(vr_rehearsal *needs, vr_rehearsal *run, vr_scene *s);
vram_status vr_lives(bool *out, vr_scene *s, vr_inputs inputs, uint64_t limit);

/* required: with nominal inputs. *fits: it would be judged VRAM_FITS. */
vram_status vr_fits(bool *fits, uint64_t *required, vr_scene *s);
/* The verdict alone, without words. */
vram_status vr_judge(vram_verdict *verdict, uint64_t *required, vr_scene *s);
/* What a process may take of a card: a memory fraction or the engine's share limits it. */
bool vr_is_capped(const vram_workload *w, const vram_device *d);
void vr_cap(vram_device *d, const vram_workload *w);

/* low and high are peaks of their own; bounds never cross the nominal figure. tape: of the nominal one. */
vram_status vr_ledger_new(vr_ledger *out, const vr_scene *s, const vr_tape *tape, const vr_live *nominal,
                          const vr_live *low, const vr_live *high, vr_arena *texts);

/* What a workload needs and whether it fits with the inputs high: for levers. */
typedef struct vr_trial {
    uint64_t required;
    bool fits;
    uint8_t basis;
} vr_trial;
/* Memory that is used again from one rehearsal to the next. */
typedef struct vr_rooms {
    vr_arena kept;  /* plans that are looked at again */
    vr_arena trial; /* one plan; emptied by each use */
    vr_hall hall;
} vr_rooms;
void vr_rooms_open(vr_rooms *r, vram_ctx *ctx);
void vr_rooms_close(vr_rooms *r);

vram_status vr_try(vr_trial *out, const vram_model *m, const vram_workload *w, const vram_device *d,
                   vr_rooms *rooms);

/* Message, shortage and number of cards of a fit that has its answer and a device. */
vram_status vr_fit_failure(vram_fit *f);
void vr_fit_count(vram_fit *f);
struct vr_memories; /* memories.h */
/* asked: the workload as the user gave it; gpus: of the run, as the workload spreads the model over them. */
vram_status vr_levers(vram_fit *f, const vram_workload *asked, const struct vr_memories *gpus);

/* What the inputs at their highest leave of the least that may be available; negative: it does not fit.
 * required: with nominal inputs. counted: nothing is missing in these. */
typedef struct vr_trial_left {
    int64_t left;
    uint64_t required;
    bool counted;
} vr_trial_left;
vram_status vr_try_left(vr_trial_left *out, const vram_model *m, const vram_workload *w, const vram_device *d,
                        vr_rooms *rooms);

/* The smallest card of the table that is larger than the fit's and holds its run; *out NULL: there is none.
 */
vram_status vr_larger_card(const vram_device **out, uint64_t *required, vram_fit *f, vr_rooms *rooms);
vram_status vr_card_words(vr_lever *v, vram_fit *f, const vram_device *card);

#define VR_DECK_KINDS 160

/* Cards of the table, judged for one model and workload. */
typedef struct vr_deck {
    const vram_model *model;
    const vram_workload *workload;
    vr_rooms *rooms;
    vram_device *devices; /* smallest first; not registered */
    size_t n;
    vr_rehearsed *kinds[VR_DECK_KINDS]; /* plans by kind of card */
} vr_deck;

vram_status vr_deck_new(vr_deck *out, const vram_model *m, const vram_workload *w, vr_arena *a,
                        vr_rooms *rooms);
/* What is known already of cards like d. */
void vr_deck_know(vr_deck *deck, const vram_device *d, vr_rehearsed *here);
/* Would it be judged VRAM_FITS? */
vram_status vr_deck_fits(vr_deck *deck, size_t i, bool *fits, uint64_t *required);
vram_status vr_deck_judge(vr_deck *deck, size_t i, vram_verdict *verdict, uint64_t *required);

#endif
