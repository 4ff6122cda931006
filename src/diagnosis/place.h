/* SPDX-License-Identifier: MIT
 * Between the files that look for the place of a failure in a rehearsal of the model. All in bytes. */
#ifndef VR_PLACE_H
#define VR_PLACE_H

#include "diagnosis/diagnosis.h"
#include "ledger/fit.h"

#define VR_PAGE (2 * VR_MIB)          /* the driver's; PyTorch asks for no less */
#define VR_SAYS_NOTHING (20 * VR_MIB) /* segments up to this hold requests of any size */
#define VR_MOST_CARDS 8               /* over which a run is tried */

/* What a printed figure can have been: both ends belong to it. */
typedef struct vr_bounds {
    bool known;
    uint64_t low, high;
} vr_bounds;

vr_bounds vr_bounds_of(const vr_finding *f, vr_fact_id id); /* of the event's own figures */
/* Of several such figures of the event the one that is printed most exactly. */
vr_bounds vr_bounds_finest(const vr_finding *f, vr_fact_id id);
bool vr_bounds_have(vr_bounds s, uint64_t x); /* true of what is not known */
uint64_t vr_bounds_middle(vr_bounds s);
vr_bounds vr_bounds_sum(vr_bounds a, vr_bounds b); /* known when both are */

/* The figures of a message of PyTorch's allocator. */
typedef struct vr_torch_figures {
    vr_bounds total, left, allocated, idle, reserved, request, allowed;
} vr_torch_figures;

/* named: the total of a card that was named, for a message without one. False: too few of them for a place.
 */
bool vr_torch_figures_of(vr_torch_figures *out, const vr_finding *f, vr_bounds named);

/* The program of the message loads and runs a model otherwise than transformers does. */
bool vr_runs_otherwise(const vr_finding *f);

/* A reason, before those that are there: what a rehearsal shows weighs more than a frame. */
void vr_lead_with(struct vram_diagnosis *d, vr_finding *f, const char *text);

/* Who looks, and what is used again from one rehearsal to the next. */
typedef struct vr_seeker {
    struct vram_diagnosis *d;
    vr_finding *f;
    const vram_model *model;
    const vram_workload *asked; /* as the user gave it */
    const void *prepared;       /* of it, for all that is of the same version; or NULL */
    vr_torch_figures figures;
    vram_device *card;  /* that the message tells of, with nothing taken; in d->arena */
    size_t rank, cards; /* it is the rank-th of so many like it, over which a device map may spread the run */
    vr_arena plans;     /* of one variant of the run; emptied for the next */
    vr_hall hall;
    uint64_t budget;     /* events that may still be planned and played: a large model has fewer tries */
    bool near;           /* idle bytes may differ a little: see place.c */
    const char *warning; /* about what was said beside the text; or NULL */
    uint64_t tokens_low, tokens_high; /* that one pass may have had, where no place was found; or 0 */
} vr_seeker;

/* A place whose figures are those of the message. */
typedef struct vr_hit {
    uint64_t places;            /* how many there are; 0: none, the rest is void then */
    vr_rehearsal run;           /* that dies there */
    vr_plan plan;               /* lies in vr_seeker.plans */
    uint64_t available, usable; /* of the card */
    const vram_workload *asked; /* the run as it would have been typed */
    const char *assumed;        /* what of it was not said, in words; or NULL */
} vr_hit;

/* ---- place_device.c ---- */

/* False: a figure that is no card's. */
bool vr_is_size_of_card(vr_bounds total);
/* The card with that total, which must be one: of the table, or by its size; newest: of several. In d->arena.
 */
vram_status vr_card_of_total(vram_device **out, vr_bounds total, bool newest, struct vram_diagnosis *d);
/* The card that was named beside the text, and what of it; NULL, not known, 0: nothing was. */
const vram_device *vr_named_card(const vr_seeker *s);
vr_bounds vr_named_total(const vr_seeker *s);
uint64_t vr_named_free(const vr_seeker *s);
/* Sets s->card by the total of the text, or where it prints none (not known) as it was named, which must be
 * so then. What was named and is another card is warned of. */
vram_status vr_card_of_text(vr_seeker *s, vr_bounds total);
/* So much is free before the run has its context. */
void vr_card_leaves(vram_device *card, uint64_t available);

/* ---- place_torch.c ---- */

/* Of the run as transformers has it, in s->plans; *w is resolved. */
vram_status vr_plan_of_run(vr_plan *out, const vram_workload **w, vr_seeker *s, const vram_workload *asked);
/* s->card as if it had no end. */
vr_stage vr_stage_of(const vr_seeker *s, const vram_workload *w);
/* Its requests are known one by one. */
bool vr_is_rehearsed(const vr_plan *p);
/* All places of this variant of the run. */
vram_status vr_seek(vr_hit *out, vr_seeker *s, const vram_workload *asked);
/* What a load that dies would get further with expandable segments. */
typedef struct vr_further {
    bool known, lives; /* lives: it would not die in the load */
    uint64_t bytes;    /* of weights, the tensor's that it died at included */
    uint64_t matrices; /* of these the tensors over 1 MiB; smaller ones find room in any case */
    const char *next;  /* it would die there; or NULL */
} vr_further;
vram_status vr_seek_expandable(vr_further *out, vr_seeker *s, const vr_hit *hit);

/* One change that would do, on the card or in the pool of the message. Texts in d->arena or constant. */
vram_status vr_add_sized(vr_seeker *s, const vr_remedy *r);

/* ---- place_pool.c ---- */

/* Of an engine that sizes its KV cache before it serves: does it say the model's own bytes of a token? False
 * in *is_one: the message is not of that kind. */
vram_status vr_seek_pool(bool *is_one, vr_seeker *s);

/* ---- place_tokens.c ---- */

/* Tokens that one pass may have had; 0 and 0: nothing is known. */
typedef struct vr_tokens {
    uint64_t low, high;
} vr_tokens;
/* A pass over a number of tokens that was not said. *likely: where none was found at which all agrees. */
vram_status vr_seek_tokens(vr_hit *out, vr_tokens *likely, vr_seeker *s);

/* ---- place_cards.c ---- */

/* Over several cards, where something speaks for that; sets s->cards and s->rank. */
vram_status vr_seek_cards(vr_hit *out, vr_seeker *s);

/* ---- place_ggml.c ---- */

/* Of llama.cpp and what stands on it: which of the model's buffers was refused? *is_one as above. */
vram_status vr_seek_buffer(bool *is_one, vr_seeker *s);

/* ---- place_training.c ---- */

/* Where training dies or its phase is not told apart. */
bool vr_is_training(const vr_finding *f);
void vr_tell_training(vr_seeker *s, uint64_t parameters);

/* Of a step of the optimizer: do live bytes lie between the sums of a full fine-tuning? */
vram_status vr_seek_training(bool *is_one, vr_seeker *s);

/* ---- place_foresee.c ---- */

/* A message without figures, and a card that was named: what becomes of the run as it was given there. */
vram_status vr_foresee(vr_seeker *s);

/* The user's own where it is of that engine, or else one of its defaults, with the type that the user gave.
 */
vram_status vr_workload_of_engine(const vram_workload **out, vr_seeker *s, const char *engine);
/* As if the engine had been typed that printed the message, unless another was; *out NULL: none here runs as
 * that does. */
vram_status vr_workload_of_program(const vram_workload **out, vr_seeker *s);

/* ---- place_weights.c ---- */

/* Why there is no place, and what the weights alone say. */
vram_status vr_tell_no_place(vr_seeker *s);

/* ---- place_rethink.c ---- */

/* What was concluded from the text alone, where the named model contradicts it. */
vram_status vr_rethink_load(vr_seeker *s, const vr_plan *plan);

/* ---- place_variants.c ---- */

/* The run as it was given, or as the log shows it. */
vram_status vr_seek_given(vr_hit *out, vr_seeker *s);
/* With what people leave out: the first that has such a place. */
vram_status vr_seek_variants(vr_hit *out, vr_seeker *s);

/* ---- place_tell.c ---- */

/* What the engine refuses: such a run is none. */
bool vr_is_refusal(vram_status s);
/* The run on s->card with so much free: fills what is missing and what would fit. *out lives as long as the
 * context; NULL: the engine refuses it. */
vram_status vr_tell_fit(const vram_fit **out, vr_seeker *s, const vram_workload *asked, uint64_t available);
vram_status vr_tell_place(vr_seeker *s, const vr_hit *hit);
/* Of weights that exceed the whole card. */
void vr_conclude_load(vr_seeker *s, const vram_fit *fit, bool sure);

#endif
