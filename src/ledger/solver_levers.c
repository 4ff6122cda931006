/* SPDX-License-Identifier: MIT
 *
 * What the solver's answers are used for: when a run does not fit, the settings with which it does, each the
 * most that fits, cheapest first; when it fits, the context that would; and the answer to --solve. */
#include "ledger/solver.h"

#define LEAST_CONTEXT 2048 /* tokens: shorter ones are no answer to anybody */

/* In the order in which they are sought, and offered: by cost. */
static const struct {
    vr_goal goal;
    const char *id;
} offers[] = {
    { VR_GOAL_SPLIT, "tensor_split" },  { VR_GOAL_UBATCH, "ubatch_size" },  { VR_GOAL_EXPERTS, "n_cpu_moe" },
    { VR_GOAL_CACHE, "cache_type" },    { VR_GOAL_SEQUENCES, "sequences" }, { VR_GOAL_CONTEXT, "context" },
    { VR_GOAL_LAYERS, "n_gpu_layers" },
};
#define N_OFFERS (sizeof(offers) / sizeof(offers[0]))

static const char *id_of(vr_goal g)
{
    for (size_t i = 0; i < N_OFFERS; i++) {
        if (offers[i].goal == g)
            return offers[i].id;
    }
    return "";
}

static vram_status add(vram_fit *f, vr_solver *s, vr_goal g, const vram_workload *from)
{
    return vr_solver_seek(&f->solutions[f->n_solutions++], s, g, from);
}

/* Not even with all experts on the CPU: then fewer layers beside. */
static vram_status after_experts(vram_fit *f, vr_solver *s)
{
    const vr_solution *experts = &f->solutions[f->n_solutions - 1];
    if (experts->found)
        return VRAM_OK;
    VR_TRY(add(f, s, VR_GOAL_LAYERS, experts->given));
    f->solutions[f->n_solutions - 1].with_experts = true;
    return VRAM_OK;
}

static uint64_t bytes_of(const vram_fit *f, vr_category c)
{
    return f->ledger.category[c].counted ? f->ledger.category[c].high : 0;
}

/* What a setting can take off at most. */
static uint64_t at_stake(const vram_fit *f, vr_goal g)
{
    uint64_t kept = bytes_of(f, VR_KV_CACHE), computed = bytes_of(f, VR_ACTIVATIONS);
    switch (g) {
    case VR_GOAL_UBATCH:
        return computed;
    case VR_GOAL_CACHE:
        return kept;
    case VR_GOAL_SEQUENCES:
    case VR_GOAL_CONTEXT:
        return vr_add_sat(kept, computed);
    default:
        return UINT64_MAX;
    }
}

/* Without all that it changes it would be enough. Of several cards that is not looked at, nor where not all
 * is counted. */
static bool could_help(const vram_fit *f, vr_goal g)
{
    const vram_workload *w = f->workload;
    uint64_t over = vr_sub_floor(f->ledger.required_high, f->device->available.low);
    bool open = w->slots || w->sequences < 2; /* nobody asked for several */
    if (g == VR_GOAL_SEQUENCES && open)
        return false;
    return f->slow || f->n_ranks != 0 || f->ledger.partial || over <= at_stake(f, g);
}

/* Whole layers on the CPU are slower than their experts alone; with them, that was sought already. */
static bool experts_moved(const vram_fit *f)
{
    for (size_t i = 0; i < f->n_solutions; i++) {
        if (f->solutions[i].goal == VR_GOAL_EXPERTS)
            return true;
    }
    return false;
}

static vram_status seek_all(vram_fit *f, vr_solver *s)
{
    for (size_t i = 0; i < N_OFFERS; i++) {
        if (vr_solver_count(s, offers[i].goal, f->workload) == 0 || !could_help(f, offers[i].goal) ||
            (offers[i].goal == VR_GOAL_LAYERS && experts_moved(f)))
            continue;
        VR_TRY(add(f, s, offers[i].goal, s->asked));
        if (offers[i].goal == VR_GOAL_EXPERTS)
            VR_TRY(after_experts(f, s));
        if (offers[i].goal == VR_GOAL_SPLIT && f->solutions[f->n_solutions - 1].found)
            return VRAM_OK; /* it costs nothing */
    }
    return VRAM_OK;
}

/* More than what does not fit anyway is none. */
static bool helps(const vram_fit *f, const vr_solution *x)
{
    if (!x->found)
        return false;
    if (x->goal == VR_GOAL_CONTEXT)
        return x->number >= LEAST_CONTEXT && x->number < f->workload->context;
    return true;
}

/* By cost; keys and values in 4 bits come behind a shorter context. */
static size_t place_of(const vr_solution *x)
{
    bool coarse = x->goal == VR_GOAL_CACHE && x->number < 8;
    size_t i = 0;
    while (i < N_OFFERS && offers[i].goal != (coarse ? VR_GOAL_CONTEXT : x->goal))
        i++;
    return 2 * i + coarse;
}

static vr_lever lever_of(const vram_fit *f, const vr_solution *x)
{
    vr_lever v = { .ids = { id_of(x->goal) },
                   .change = x->words,
                   .flag = x->command,
                   .is_command = true,
                   .rank = (unsigned)f->n_levers,
                   .option = x->option,
                   .cost = x->cost,
                   .required = x->required,
                   .saved = vr_diff(f->ledger.required, x->required),
                   .fits = x->sure,
                   .basis = f->ledger.partial ? VR_BASIS_FORMULA : VR_BASIS_SIMULATED };
    if (x->with_experts)
        v.ids[1] = id_of(VR_GOAL_EXPERTS);
    return v;
}

/* Of one card a larger one. */
static vram_status offer_card(vram_fit *f, vr_solver *s)
{
    const vram_device *card = NULL;
    uint64_t required = 0;
    if (s->gpus->n != 1 || f->ledger.partial || f->device->host)
        return VRAM_OK;
    VR_TRY(vr_larger_card(&card, &required, f, s->rooms));
    if (card == NULL)
        return VRAM_OK;
    vr_lever *v = &f->levers[f->n_levers++];
    *v = (vr_lever){ .rank = (unsigned)f->n_levers,
                     .required = required,
                     .saved = vr_diff(f->ledger.required, required),
                     .fits = true,
                     .basis = VR_BASIS_SIMULATED };
    return vr_card_words(v, f, card);
}

static vram_status write_levers(vram_fit *f)
{
    f->levers = VR_ARRAY(&f->arena, vr_lever, f->n_solutions + 1);
    if (f->levers == NULL)
        return VRAM_ENOMEM;
    for (size_t place = 0; place < 2 * N_OFFERS; place++) {
        for (size_t k = 0; k < f->n_solutions; k++) {
            const vr_solution *x = &f->solutions[k];
            if (place_of(x) != place || !helps(f, x))
                continue;
            f->n_levers++;
            f->levers[f->n_levers - 1] = lever_of(f, x);
        }
    }
    f->ranked_by =
        "cost: none, slower prompts, experts on the CPU, less exact keys and values, less at once, a "
        "shorter context, layers on the CPU, other hardware";
    return VRAM_OK;
}

static vram_status offer(vram_fit *f, vr_solver *s)
{
    bool fits = f->verdict == VRAM_FITS;
    if (f->verdict == VRAM_UNKNOWN)
        return VRAM_OK;
    f->slow = fits && vr_leaves_off(f->workload, f->placement);
    if (f->slow) {
        VR_TRY(seek_all(f, s));
        return write_levers(f);
    }
    if (fits && vr_solver_count(s, VR_GOAL_CONTEXT, f->workload) != 0)
        VR_TRY(add(f, s, VR_GOAL_CONTEXT, s->asked));
    if (fits)
        return VRAM_OK;
    VR_TRY(seek_all(f, s));
    VR_TRY(write_levers(f));
    return offer_card(f, s);
}

vram_status vr_solver_levers(vram_fit *f, const vram_workload *asked, const vr_memories *gpus,
                             vr_rooms *rooms)
{
    vr_solver s;
    f->solutions = VR_ARRAY(&f->arena, vr_solution, N_OFFERS + 1);
    if (f->solutions == NULL)
        return VRAM_ENOMEM;
    vr_solver_open(&s, f, asked, gpus, rooms);
    vr_solver_know(&s);
    vram_status status = offer(f, &s);
    vr_solver_close(&s);
    return status;
}

/* ---- what was asked for ---- */

static vram_status cannot(const vram_fit *f, vr_goal g, size_t n_gpus)
{
    const vram_workload *w = f->workload;
    const char *word = vr_goal_word(g);
    if (n_gpus == 0)
        return vr_fail(f->ctx, VRAM_ESETTING, T("--solve "), T(word),
                       T(": what fits depends on the card, and no --gpu is given"));
    if (w->engine->solvable == NULL)
        return vr_fail(f->ctx, VRAM_ESETTING, T("--solve "), T(word), T(": nothing can be sought of "),
                       T(w->engine->name));
    if (g == VR_GOAL_SPLIT)
        return vr_fail(f->ctx, VRAM_ESETTING, T("--solve split: there is one card, or the split is given"));
    if (g == VR_GOAL_EXPERTS && f->model->experts == 0)
        return vr_fail(f->ctx, VRAM_ESETTING, T("--solve experts: "), T(f->model->checkpoint->name),
                       T(" has no experts; --solve ngl moves whole layers"));
    return vr_fail(f->ctx, VRAM_ESETTING, T("--solve "), T(word), T(": there is nothing to choose of "),
                   T(f->model->checkpoint->name));
}

static vram_status answer(vram_fit *f, vr_solver *s, const vram_workload **asked)
{
    vr_goal g = (vr_goal)(s->asked->solve - 1);
    vram_workload *w;
    if (s->gpus->n == 0 || vr_solver_count(s, g, f->workload) == 0)
        return cannot(f, g, s->gpus->n);
    VR_TRY(add(f, s, g, s->asked));
    *asked = f->solutions[0].given;
    w = vr_workload_copy(*asked, &f->arena);
    if (w == NULL)
        return VRAM_ENOMEM;
    w->prepared = f->workload->prepared;
    VR_TRY(vr_workload_resolve(&w, w, f->model, &f->arena));
    f->workload = w;
    f->solved = true;
    return VRAM_OK;
}

vram_status vr_solver_answer(vram_fit *f, const vram_workload **asked, const vr_memories *gpus,
                             vr_rooms *rooms)
{
    vr_solver s;
    f->solutions = VR_ARRAY(&f->arena, vr_solution, 1);
    if (f->solutions == NULL)
        return VRAM_ENOMEM;
    vr_solver_open(&s, f, *asked, gpus, rooms);
    vram_status status = answer(f, &s, asked);
    vr_solver_close(&s);
    return status;
}
