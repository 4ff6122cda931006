/* SPDX-License-Identifier: MIT
 *
 * Training is not rehearsed, but what it keeps of each parameter is known. At the first step of the optimizer
 * all gradients are there and activations are gone: what is live then lies between weights with gradients
 * and the same with Adam's states, in one of the usual ways to hold numbers.
 */
#include "diagnosis/place.h"

typedef struct recipe {
    const char *words;
    unsigned weights, gradients,
        states; /* bytes a parameter; weights with a copy in fp32 where there is one */
} recipe;

static const recipe RECIPES[] = {
    { "16-bit weights and gradients, Adam in 16 bits", 2, 2, 4 },
    { "fp32 weights and gradients, Adam in fp32", 4, 4, 8 },
    { "16-bit weights and gradients with a copy of the weights in fp32, Adam in fp32", 6, 2, 8 },
};

#define N_RECIPES (sizeof RECIPES / sizeof *RECIPES)

typedef struct sums {
    uint64_t parameters, before, all; /* before: weights and gradients */
    const recipe *is;
} sums;

/* Where the rest is over several cards, or part of it on none, one card tells nothing of the sums. */
static bool is_whole(const vr_finding *f)
{
    return f->program != VR_PROGRAM_DEEPSPEED && f->program != VR_PROGRAM_FSDP &&
           f->program != VR_PROGRAM_MEGATRON;
}

static bool holds(sums *x, const recipe *r, const vr_torch_figures *g)
{
    uint64_t before = vr_mul_sat(x->parameters, r->weights + r->gradients),
             all = vr_add_sat(before, vr_mul_sat(x->parameters, r->states));
    if (g->allocated.high < before || g->allocated.low > all)
        return false;
    x->before = before;
    x->all = all;
    x->is = r;
    return true;
}

static vram_status tell(vr_seeker *s, const sums *x, uint64_t n)
{
    vr_spot *spot = &s->f->spot;
    vr_arena *a = &s->d->arena;
    const vr_torch_figures *g = &s->figures;
    uint64_t live = vr_bounds_middle(g->allocated), left = vr_sub_floor(x->all, live);
    uint64_t room = vr_add_sat(g->left.known ? g->left.high : 0, g->idle.high);
    spot->found = true;
    spot->places = n;
    spot->label = "Adam's states, at the first step";
    spot->matched = vr_text(a, BYTES(live), T(" live lies between weights with gradients, "),
                            BYTES(x->before), T(", and the same with Adam's states, "), BYTES(x->all));
    spot->assumed = x->is->words;
    spot->short_bytes = vr_sub_floor(left, room);
    if (spot->matched == NULL)
        return VRAM_ENOMEM;
    vr_lead_with(s->d, s->f,
                 vr_text(&s->d->arena, GROUPED(x->parameters), T(" parameters x "),
                         U(x->is->weights + x->is->gradients + x->is->states), T(" bytes are "),
                         BYTES(x->all), T(": "), BYTES(left), T(" of Adam's states were still to come")));
    if (spot->short_bytes == 0)
        return VRAM_OK;
    s->f->missing_known = true;
    s->f->missing_at_least = spot->short_bytes;
    s->f->missing_note = "of the optimizer's states";
    return VRAM_OK;
}

static vram_status seek_step(vr_seeker *s, sums *x)
{
    uint64_t n = 0;
    for (size_t i = N_RECIPES; i > 0 && x->parameters != 0; i--)
        n += holds(x, &RECIPES[i - 1], &s->figures);
    if (n != 0)
        return tell(s, x, n);
    s->f->spot.not_found =
        vr_text(&s->d->arena, BYTES(vr_bounds_middle(s->figures.allocated)),
                T(" live is not what training all "), GROUPED(x->parameters),
                T(" parameters with Adam holds at its first step: perhaps only a part of them is trained"));
    return s->f->spot.not_found != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* Elsewhere in training activations are there too, and nothing follows from what is live. */
void vr_tell_training(vr_seeker *s, uint64_t parameters)
{
    const recipe *least = &RECIPES[0];
    unsigned bytes = least->weights + least->gradients + least->states;
    uint64_t all = vr_mul_sat(parameters, bytes);
    s->f->spot.not_found = "training is not rehearsed request by request";
    if (all <= s->card->usable.bytes)
        return;
    vr_lead_with(s->d, s->f,
                 vr_text(&s->d->arena, T("training all parameters with Adam keeps at least "), BYTES(all),
                         T(" ("), U(bytes), T(" bytes each), the card has "), BYTES(s->card->usable.bytes)));
    if (s->f->missing_known)
        return;
    s->f->missing_known = true;
    s->f->missing_at_least = all - s->card->usable.bytes;
    s->f->missing_note = "of weights, gradients and Adam's states, if all is trained";
}

bool vr_is_training(const vr_finding *f)
{
    return f->phase == VR_PHASE_OPTIMIZER_STEP || f->phase == VR_PHASE_BACKWARD ||
           f->phase == VR_PHASE_TRAINING;
}

vram_status vr_seek_training(bool *is_one, vr_seeker *s)
{
    vr_plan plan;
    const vram_workload *w;
    sums x = { .parameters = 0 };
    bool step = s->f->phase == VR_PHASE_OPTIMIZER_STEP;
    *is_one = is_whole(s->f) && vr_is_training(s->f);
    if (!*is_one)
        return VRAM_OK;
    VR_TRY(vr_plan_of_run(&plan, &w, s, s->asked));
    x.parameters = plan.n_parameters;
    if (step)
        return seek_step(s, &x);
    vr_tell_training(s, x.parameters);
    return VRAM_OK;
}
