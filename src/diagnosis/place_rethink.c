/* SPDX-License-Identifier: MIT
 *
 * A message of a load that is at no place of the model's run: where the bytes of the weights and of the card
 * contradict what the text alone made likely, something else is likelier, and nothing is certain.
 */
#include "diagnosis/place.h"

#define BEFORE "print(torch.cuda.memory_allocated() / 2**30)"
#define FP32 4 /* bytes, the widest type in which weights are held */

typedef struct sizes {
    uint64_t weights, widest, total, outside; /* outside: context and kernels */
} sizes;

static void conclude(vr_seeker *s, uint8_t cause, uint8_t certainty, const char *finer, const char *summary)
{
    vr_finding *f = s->f;
    f->cause = cause;
    f->certainty = certainty;
    f->sub_cause = finer;
    f->summary = summary;
}

/* It cannot have been said before: nothing was left to ask. */
static void ask_before(vr_finding *f)
{
    f->tell = BEFORE;
    f->tell_why = "right before it is loaded: above 0, something else was there already";
}

/* More is live than the model is in the widest type. */
static void is_other(vr_seeker *s, const sizes *x)
{
    vr_arena *a = &s->d->arena;
    uint64_t live = vr_bounds_middle(s->figures.allocated);
    conclude(s, VR_CAUSE_WEIGHTS, VR_CERTAINTY_POSSIBLE, NULL,
             vr_text(a, T("not of this model alone, all of it is "), BYTES(x->widest), T(" in fp32")));
    vr_lead_with(s->d, s->f,
                 vr_text(a, BYTES(live), T(" is live, and all weights of this model are "), BYTES(x->widest),
                         T(" even in fp32: another model ran, or it was loaded more than once")));
    ask_before(s->f);
}

/* The log shows in which type they are loaded. */
static bool is_narrow(const vr_seeker *s)
{
    static const char *const signs[] = { "opt-bf16", "opt-fp16", "opt-8bit", "opt-4bit" };
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (vr_seen(&s->d->found, s->f->event, signs[i]))
            return true;
    return false;
}

/* More is live than the weights are as they were asked for, which have room on the card. */
static void is_wider(vr_seeker *s, const sizes *x)
{
    vr_arena *a = &s->d->arena;
    uint64_t live = vr_bounds_middle(s->figures.allocated);
    bool wide = !is_narrow(s) && x->widest > vr_add_sat(x->weights, x->weights / 2) && x->widest > x->total;
    if (wide)
        conclude(s, VR_CAUSE_WEIGHTS, VR_CERTAINTY_LIKELY, "fp32_or_upcast",
                 vr_text(a, T("in fp32 they are "), BYTES(x->widest), T(", more than the card has")));
    else
        conclude(s, VR_CAUSE_WEIGHTS, VR_CERTAINTY_POSSIBLE, NULL,
                 is_narrow(s) ? "loaded more than once, or beside another model"
                              : "loaded more than once, in a wider type, or beside another model");
    vr_lead_with(s->d, s->f,
                 vr_text(a, BYTES(live), T(" is live, and the weights of this model are "), BYTES(x->weights),
                         T(", which the card has room for")));
    if (!wide)
        ask_before(s->f);
}

/* The card has room for all of it: who has that room? */
static void has_room(vr_seeker *s, const sizes *x)
{
    vr_arena *a = &s->d->arena;
    const vr_torch_figures *g = &s->figures;
    uint64_t own = vr_add_sat(g->reserved.high, x->outside),
             others = vr_sub_floor(x->total, vr_add_sat(own, g->left.high));
    const char *fits = vr_text(a, T("the weights of this model are "), BYTES(x->weights),
                               T(", the card has "), BYTES(x->total));
    vr_lead_with(s->d, s->f, fits);
    if (g->left.known && vr_add_sat(vr_add_sat(x->weights, x->outside), others) > x->total)
        conclude(s, VR_CAUSE_OTHER_PROCESS, VR_CERTAINTY_LIKELY, NULL,
                 vr_text(a, T("this model has room on an empty card; others hold "), BYTES(others)));
    else if (g->allowed.known)
        conclude(s, VR_CAUSE_LIMIT, VR_CERTAINTY_LIKELY, NULL,
                 "this model has room on the card, and a limit was set");
    else
        conclude(s, s->f->cause, VR_CERTAINTY_POSSIBLE, NULL, "this model alone has room on the card");
}

/* Of one card: over several each has a part, and what is live says little. */
static bool may_judge(const vr_seeker *s, const vr_plan *plan)
{
    const vr_finding *f = s->f;
    return (f->phase == VR_PHASE_LOAD || (f->cause == VR_CAUSE_WEIGHTS && f->phase == VR_PHASE_UNKNOWN)) &&
           plan->weight_bytes != 0 && s->figures.allocated.known && s->card->usable.bytes != 0;
}

vram_status vr_rethink_load(vr_seeker *s, const vr_plan *plan)
{
    uint64_t n = plan->n_parameters > s->model->parameters ? plan->n_parameters : s->model->parameters;
    const vr_bounds *live = &s->figures.allocated;
    sizes x = { .weights = plan->weight_bytes, .total = s->card->usable.bytes };
    if (!may_judge(s, plan))
        return VRAM_OK;
    x.outside = s->card->context.bytes;
    x.widest = vr_mul_sat(n, FP32);
    if (x.widest < x.weights)
        x.widest = x.weights;
    bool roomy = vr_add_sat(x.weights, x.outside) <= x.total;
    if (live->low > vr_add_sat(x.widest, x.widest / 64))
        is_other(s, &x);
    else if (roomy && live->low > vr_add_sat(x.weights, x.weights / 64))
        is_wider(s, &x);
    else if (roomy)
        has_room(s, &x);
    return s->d->arena.starved ? VRAM_ENOMEM : VRAM_OK;
}
