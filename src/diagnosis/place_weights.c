/* SPDX-License-Identifier: MIT
 *
 * A message whose figures are at no place of the run: why not, as far as it can be told, and what the bytes
 * of the weights say by themselves.
 */
#include "diagnosis/place.h"

typedef struct nearest {
    const char *label; /* where the run has as much live; NULL: nowhere */
    uint64_t requested, live, idle, most;
} nearest;

/* Plays the run as it was given without a limit, up to where as much is live. */
static vram_status go_there(nearest *out, vr_seeker *s, const vr_plan *plan, const vram_workload *w)
{
    vr_player *p;
    vr_rehearsal run;
    vr_live live = { .allocated = 0 };
    bool more = true;
    vr_stage stage = vr_stage_of(s, w);
    VR_TRY(vr_player_new(&p, &run, &plan->tape, &stage, &s->plans));
    while (more && live.allocated < s->figures.allocated.low) {
        VR_TRY(vr_player_step(p, &more));
        if (run.peak_allocated < s->figures.allocated.low)
            continue;
        vr_player_live(p, &live);
    }
    out->most = run.peak_allocated;
    if (live.allocated < s->figures.allocated.low || run.n_events >= plan->tape.n)
        return VRAM_OK;
    const vr_event *e = &plan->tape.events[run.n_events];
    out->requested = e->bytes;
    out->live = live.allocated;
    out->idle = live.reserved - live.allocated;
    out->label = vr_arena_copy(&s->d->arena, plan->tape.labels[e->label]);
    return out->label != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* It asks for as much, and as much is live: idle bytes are what differs. */
static bool differs_in_idle(const vr_seeker *s, const nearest *n)
{
    const vr_torch_figures *g = &s->figures;
    return n->requested <= g->request.high && n->requested > vr_sub_floor(g->request.low, VR_PAGE) &&
           vr_bounds_have(g->allocated, n->live);
}

static const char *more_words(vr_seeker *s, const nearest *n, const vram_workload *w)
{
    return vr_text(&s->d->arena, BYTES(vr_bounds_middle(s->figures.allocated)),
                   T(" live is more than this model ever holds with "), GROUPED(w->context),
                   T(" tokens and "), U(w->sequences), T(w->sequences == 1 ? " sequence" : " sequences"),
                   T(", which is "), BYTES(n->most), T(": say what ran (-c, --sequences, --dtype)"));
}

static const char *why_words(vr_seeker *s, const nearest *n, const vram_workload *w)
{
    vr_arena *a = &s->d->arena;
    uint64_t live = vr_bounds_middle(s->figures.allocated), tried = vr_bounds_middle(s->figures.request);
    if (s->tokens_high != 0)
        return vr_text(a, T("not with "), GROUPED(w->context), T(" tokens; a pass over "),
                       GROUPED(s->tokens_low), T(" to "), GROUPED(s->tokens_high),
                       T(" would ask for that: say how many it were (-c)"));
    if (n->label == NULL)
        return more_words(s, n, w);
    if (*n->label == '\0')
        return vr_text(a, T("with "), BYTES(live), T(" live this model's run asks for nothing of "),
                       BYTES(tried));
    if (differs_in_idle(s, n))
        return vr_text(a, T("with "), BYTES(live), T(" live this model's run is at "), T(n->label),
                       T(" and has "), BYTES(n->idle),
                       T(" idle: another program loads it, or another version"));
    return vr_text(a, T("with "), BYTES(n->live), T(" live this model's run is at "), T(n->label), T(", of "),
                   BYTES(n->requested), T("; with "), BYTES(live), T(" it never asks for "), BYTES(tried));
}

/* Split over two cards or more, each would have half of the weights at most, and tables that all have. */
static bool is_on_one_card(const vr_seeker *s, const vr_plan *plan)
{
    return s->figures.allocated.low > plan->weight_bytes / 2 + plan->weight_bytes / 8;
}

/* True of whatever runs it, as long as it is not split over cards. */
static void tell_weights(vr_seeker *s, const vr_plan *plan)
{
    vr_finding *f = s->f;
    uint64_t total = s->card->usable.bytes;
    if (plan->weight_bytes <= total)
        return;
    vr_lead_with(s->d, f,
                 vr_text(&s->d->arena, T("this model's weights are "), BYTES(plan->weight_bytes),
                         T(", the card has "), BYTES(total)));
    if (f->phase != VR_PHASE_LOAD || !is_on_one_card(s, plan))
        return;
    f->spot.short_bytes = plan->weight_bytes - total;
    f->spot.weights_alone = true;
    f->missing_known = true;
    f->missing_at_least = f->spot.short_bytes;
    f->missing_note = "of the weights alone, in the type that is stored";
    f->cause = VR_CAUSE_WEIGHTS;
    if (f->certainty < VR_CERTAINTY_LIKELY)
        f->certainty = VR_CERTAINTY_LIKELY;
    f->summary = "the weights alone are larger than the card";
}

vram_status vr_tell_no_place(vr_seeker *s)
{
    vr_plan plan;
    const vram_workload *w;
    nearest n = { .label = NULL };
    vr_spot *spot = &s->f->spot;
    vram_status status = vr_plan_of_run(&plan, &w, s, s->asked);
    if (status != VRAM_OK) {
        spot->not_found = "this model is not rehearsed with these settings";
        return vr_is_refusal(status) ? VRAM_OK : status;
    }
    tell_weights(s, &plan);
    VR_TRY(vr_rethink_load(s, &plan));
    if (!vr_is_rehearsed(&plan) || (vr_runs_otherwise(s->f) && !s->asked->engine_given)) {
        spot->not_found = "what this engine asks for is not rehearsed request by request";
        return VRAM_OK;
    }
    VR_TRY(go_there(&n, s, &plan, w));
    spot->not_found = why_words(s, &n, w);
    return spot->not_found != NULL ? VRAM_OK : VRAM_ENOMEM;
}
