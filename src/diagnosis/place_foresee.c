/* SPDX-License-Identifier: MIT
 *
 * A message without figures of a card, and a card that was named beside it: what becomes there of the run as
 * it was given. That is foreseen and not read, so it is held against where the text says that it died.
 */
#include "ledger/answer.h"

#include "diagnosis/place.h"

#define MOST_CARDS 16

/* What a rehearsal of a run could have to do with. */
static bool may_be_run(const vr_finding *f)
{
    bool memory = f->memory == VR_MEMORY_GPU || f->memory == VR_MEMORY_POOL;
    return memory && (f->cause <= VR_CAUSE_DEVICE_PLACEMENT);
}

static bool in_load(const vr_rehearsal *r)
{
    return r->failure.next_moment <= VR_AT_LOADED;
}

static bool is_load(uint8_t phase)
{
    return phase == VR_PHASE_LOAD || phase == VR_PHASE_START || phase == VR_PHASE_UNKNOWN;
}

static bool is_pass(uint8_t phase)
{
    return phase != VR_PHASE_LOAD && phase != VR_PHASE_START;
}

static vram_status not_found(vr_seeker *s, const char *why)
{
    s->f->spot.not_found = why;
    return why != NULL ? VRAM_OK : VRAM_ENOMEM;
}

static const char *label_of(vr_seeker *s, const vram_fit *fit)
{
    const vr_tape *t = &fit->plan.tape;
    const vr_event *e = &t->events[fit->run.failure.event];
    if (fit->run.failure.label != 0)
        return vr_arena_copy(&s->d->arena, t->labels[fit->run.failure.label]);
    return vr_item_screen((vr_item)e->item);
}

/* The run has room, so the text tells of another one, or of less room. */
static vram_status tell_room(vr_seeker *s, const vram_fit *fit)
{
    vr_finding *f = s->f;
    uint64_t left = fit->headroom > 0 ? (uint64_t)fit->headroom : 0;
    f->n_remedies = 0; /* nothing has to change for this run */
    if (f->cause == VR_CAUSE_WEIGHTS && f->phase == VR_PHASE_LOAD) {
        f->certainty = VR_CERTAINTY_POSSIBLE;
        f->summary = "this model alone has room on the card that was named";
    }
    return not_found(s,
                     vr_text(&s->d->arena, T("as it was given it has room on "), T(s->card->name), T(", "),
                             BYTES(left), T(" to spare: say how it ran (-c, --sequences, --dtype, --free)")));
}

/* It dies elsewhere than the text says. */
static vram_status tell_elsewhere(vr_seeker *s, const char *label, bool load)
{
    return not_found(s, vr_text(&s->d->arena, T("as it was given it would die "),
                                T(load ? "in the load" : "after the load"), T(" on "), T(s->card->name),
                                T(", at "), T(label), T(": say how it ran (-c, --sequences, --dtype)")));
}

/* By the text something failed that no rehearsal has: the run would have died with another message. */
static bool is_beside_run(const vr_finding *f)
{
    return f->cause == VR_CAUSE_OTHER_PROCESS || f->cause == VR_CAUSE_RUNTIME_OVERHEAD;
}

static vram_status tell_beside(vr_seeker *s, const char *label, bool load)
{
    return not_found(s, vr_text(&s->d->arena, T("as it was given it would die "),
                                T(load ? "in the load" : "after the load"), T(" on "), T(s->card->name),
                                T(" too, at "), T(label), T(", and the message would have figures")));
}

static vram_status tell_there(vr_seeker *s, const vram_fit *fit, const char *label)
{
    vr_spot *spot = &s->f->spot;
    bool load = in_load(&fit->run);
    spot->found = true;
    spot->places = 1;
    spot->label = label;
    spot->matched = "nothing of the text: it has no figures";
    spot->assumed = vr_text(&s->d->arena, T("the run as it was given, on "), T(s->card->name),
                            T(vr_named_free(s) == 0 ? " with all of it free" : ""));
    if (load) {
        spot->to_come = vr_sub_floor(fit->plan.weight_bytes, fit->run.failure.live.items[VR_ITEM_PARAMETERS]);
        spot->loaded_permille = fit->loaded_permille;
        vr_conclude_load(s, fit, false);
    }
    vr_lead_with(s->d, s->f,
                 vr_text(&s->d->arena, T("on "), T(s->card->name), T(" this run dies "),
                         T(load ? "in the load" : "after the load"), T(", at "), T(label)));
    return spot->assumed != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* Engines of which sums are known and no order. */
static vram_status tell_sums(vr_seeker *s, const vram_fit *fit)
{
    vr_finding *f = s->f;
    uint64_t lacks = fit->headroom < 0 ? (uint64_t)-fit->headroom : fit->short_bytes;
    if (!f->missing_known && lacks != 0) {
        f->missing_known = true;
        f->missing_at_least = lacks;
        f->missing_note = "of what the whole run needs";
    }
    vr_lead_with(s->d, s->f,
                 vr_text(&s->d->arena, T("on "), T(s->card->name), T(" this run needs "),
                         BYTES(fit->ledger.required), T(", "), BYTES(lacks), T(" more than there is")));
    if (fit->weights_over_usable != 0 && is_load(s->f->phase) && !is_beside_run(s->f))
        vr_conclude_load(s, fit, false);
    return not_found(s, "what this engine asks for is not rehearsed request by request");
}

static vram_status tell_fit(vr_seeker *s, const vram_fit *fit)
{
    bool known = fit->run.failed && vr_is_rehearsed(&fit->plan), load = known && in_load(&fit->run);
    if (fit->n_ranks != 0)
        known = false; /* which of the cards it was is not told */
    if (fit->verdict != VRAM_DOES_NOT_FIT)
        return tell_room(s, fit);
    if (!known)
        return tell_sums(s, fit);
    const char *label = label_of(s, fit);
    if (label == NULL)
        return VRAM_ENOMEM;
    if (is_beside_run(s->f))
        return tell_beside(s, label, load);
    if (load ? is_load(s->f->phase) : is_pass(s->f->phase))
        return tell_there(s, fit, label);
    return tell_elsewhere(s, label, load);
}

static vram_status foresee_training(vr_seeker *s)
{
    vr_plan plan;
    const vram_workload *w;
    VR_TRY(vr_plan_of_run(&plan, &w, s, s->asked));
    vr_tell_training(s, plan.n_parameters);
    if (plan.n_parameters == 0)
        return VRAM_OK;
    s->f->tell = vr_text(&s->d->arena, T("vram ledger --params "), U(plan.n_parameters),
                         T(" --mode train --gpu-memory-gib "),
                         FIXED(vr_mul_div(s->card->usable.bytes, 100, VR_GIB), 100, 2));
    s->f->tell_why = "weights, gradients and Adam's states of this model, against the card";
    return s->f->tell != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* What the text itself says to be missing stands. */
static vram_status foresee_run(vr_seeker *s, const vram_workload *w)
{
    vr_finding *f = s->f;
    const vram_fit *fit;
    vr_finding text = *f;
    uint64_t available = vr_named_free(s) != 0 ? vr_named_free(s) : s->card->usable.bytes;
    VR_TRY(vr_tell_fit(&fit, s, w, available));
    if (fit == NULL)
        return not_found(s, "this model is not rehearsed with these settings");
    if (text.missing_known) {
        f->missing_known = true;
        f->missing_at_least = text.missing_at_least;
        f->missing_note = text.missing_note;
    }
    return tell_fit(s, fit);
}

vram_status vr_foresee(vr_seeker *s)
{
    const vram_workload *w;
    const vram_device *named = vr_named_card(s);
    if (named == NULL || !may_be_run(s->f))
        return VRAM_OK;
    s->f->spot.tried = true;
    VR_TRY(vr_card_of_text(s, (vr_bounds){ .known = false }));
    if (vr_is_training(s->f))
        return foresee_training(s);
    s->cards = named->count < MOST_CARDS ? (size_t)named->count : MOST_CARDS;
    VR_TRY(vr_workload_of_program(&w, s));
    return w != NULL ? foresee_run(s, w) : not_found(s, "this engine is not rehearsed");
}
