/* SPDX-License-Identifier: MIT
 *
 * Seeks a setting: each value is a workload as the user would have typed it, planned, placed and judged as
 * `vram fit` judges it, so that what comes out fits and what comes next does not. Over several GPUs each
 * value is tried with the best cut of its layers. */
#include "ledger/solver.h"

#include <string.h>

#include "ledger/search.h"

typedef struct left {
    int64_t on[VR_MOST_GPUS], least;
    uint64_t required; /* where least is */
    bool counted;
} left;

/* ---- one trial ---- */

static bool is_refusal(vram_status status)
{
    return status == VRAM_ESETTING || status == VRAM_EUNSUPPORTED || status == VRAM_ELIMIT;
}

static void none_left(left *out, size_t n)
{
    *out = (left){ .least = INT64_MIN };
    for (size_t i = 0; i < n; i++)
        out->on[i] = INT64_MIN;
}

static vram_status resolved(vram_workload **out, const vr_solver *s, const vram_workload *given, vr_arena *a)
{
    vram_workload *w = vr_workload_copy(given, a);
    if (w == NULL)
        return VRAM_ENOMEM;
    w->prepared = s->f->workload->prepared;
    return vr_workload_resolve(out, w, s->f->model, a);
}

static const vr_solvable *solvable(const vr_solver *s)
{
    return s->f->workload->engine->solvable;
}

bool vr_leaves_off(const vram_workload *w, const vr_placement *p)
{
    return w->engine->solvable != NULL && w->engine->solvable->whole && p != NULL &&
           vr_add_sat(p->layers_off, p->experts_off) != 0;
}

/* Of an engine that leaves on the CPU what does not fit, that is what lacks. */
static int64_t lacking(const vr_placement *p)
{
    uint64_t off = vr_add_sat(vr_add_sat(p->host.weights, p->host.kv), 1);
    return off < (uint64_t)(INT64_MAX / 4) ? -(int64_t)off : -(INT64_MAX / 4);
}

/* GPUs that take no part keep all they have. */
static vram_status judge(left *out, vr_solver *s, const vram_workload *given)
{
    vr_memories gpus = *s->gpus;
    vram_workload *w;
    VR_TRY(resolved(&w, s, given, &s->trial));
    gpus.gpus = VR_ARRAY(&s->trial, vram_device, gpus.n);
    if (gpus.gpus == NULL)
        return VRAM_ENOMEM;
    memcpy(gpus.gpus, s->gpus->gpus, gpus.n * sizeof(*gpus.gpus));
    VR_TRY(vr_memories_place(&gpus, s->f->model, w, &s->trial));
    if (gpus.placement.refused != NULL || gpus.placement.unknown != NULL)
        return VRAM_EUNSUPPORTED;
    *out = (left){ .least = INT64_MAX, .counted = true };
    for (size_t i = 0; i < gpus.n; i++) {
        vr_trial_left t = { .left = INT64_MAX, .counted = true };
        if (i < gpus.used)
            VR_TRY(vr_try_left(&t, s->f->model, w, &gpus.gpus[i], s->rooms));
        out->on[i] = t.left;
        out->counted = out->counted && t.counted;
        if (t.left >= out->least)
            continue;
        out->least = t.left;
        out->required = t.required;
    }
    if (out->least >= 0 && vr_leaves_off(w, &gpus.placement))
        out->least = lacking(&gpus.placement);
    return VRAM_OK;
}

/* What the engine refuses does not fit; warnings are about what was asked for. */
static vram_status try_given(left *out, vr_solver *s, const vram_workload *given)
{
    size_t warned = s->f->ctx->n_warnings;
    vr_arena_reset(&s->trial);
    vram_status status = judge(out, s, given);
    s->f->ctx->n_warnings = warned;
    if (!is_refusal(status))
        return status;
    none_left(out, s->gpus->n);
    return VRAM_OK;
}

/* ---- with a cut ---- */

typedef struct cutter {
    vr_solver *s;
    const vram_workload *given;
    left last;
} cutter;

static vram_status with_shares(vram_workload **out, const cutter *c, const uint64_t *shares, vr_arena *a)
{
    *out = vr_workload_copy(c->given, a);
    return *out == NULL ? VRAM_ENOMEM : solvable(c->s)->cut(*out, shares, c->s->gpus->n, a);
}

static vram_status left_with(void *ud, const uint64_t *shares, int64_t *on)
{
    cutter *c = ud;
    vram_workload *w;
    VR_TRY(with_shares(&w, c, shares, &c->s->step));
    VR_TRY(try_given(&c->last, c->s, w));
    memcpy(on, c->last.on, c->s->gpus->n * sizeof(*on));
    return VRAM_OK;
}

/* The next search begins where this one ended. */
static void learn(vr_solver *s, const vr_cut *cut, const uint64_t *bytes)
{
    size_t from = 0;
    for (size_t k = 0; k < s->gpus->n; k++) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < cut->shares[k]; i++)
            sum = vr_add_sat(sum, bytes[from + i]);
        from += (size_t)cut->shares[k];
        if (cut->left[k] > -(INT64_MAX / 2) && cut->left[k] < INT64_MAX / 2)
            s->room[k] = cut->left[k] >= 0 ? vr_add_sat(sum, (uint64_t)cut->left[k])
                                           : vr_sub_floor(sum, (uint64_t)-cut->left[k]);
    }
}

static vram_status cut_best(vr_cut *out, vr_solver *s, const vram_workload *given, bool enough)
{
    cutter c = { .s = s, .given = given };
    vr_cut_question q = { .n = s->gpus->n, .room = s->room, .enough = enough, .left = left_with, .ud = &c };
    vram_workload *w;
    uint64_t *bytes;
    VR_TRY(resolved(&w, s, given, &s->step));
    VR_TRY(solvable(s)->units(&bytes, &q.units, s->f->model, w, &s->step));
    q.bytes = bytes;
    VR_TRY(vr_cut_units(out, &q, &s->step));
    learn(s, out, bytes);
    return VRAM_OK;
}

/* ---- one goal ---- */

#define MOST_KEPT 24

typedef struct seeking {
    vr_solver *s;
    vr_goal goal;
    const vram_workload *from, *resolved;
    uint64_t own; /* value that `from` has */
    bool cuts;    /* over several GPUs, which the engine can be told */
    unsigned tries;
    struct {
        uint64_t x;
        left l;
    } kept[MOST_KEPT]; /* trials without a cut */
    size_t n_kept;
} seeking;

static const left *known(const seeking *k, uint64_t x)
{
    for (size_t i = 0; i < k->n_kept; i++) {
        if (k->kept[i].x == x)
            return &k->kept[i].l;
    }
    return NULL;
}

static void keep(seeking *k, uint64_t x, const left *l)
{
    if (k->n_kept == MOST_KEPT)
        return;
    k->kept[k->n_kept].x = x;
    k->kept[k->n_kept++].l = *l;
}

static vram_status given_at(vram_workload **out, const seeking *k, uint64_t x, vr_arena *a)
{
    *out = vr_workload_copy(k->from, a);
    if (*out == NULL)
        return VRAM_ENOMEM;
    return solvable(k->s)->set(*out, k->goal, x, k->s->f->model, k->resolved, a);
}

static vram_status try_cut_value(seeking *k, const vram_workload *w, int64_t *least)
{
    vr_cut cut = { .least = 0 };
    vram_status status = cut_best(&cut, k->s, w, true);
    k->tries += cut.tries;
    *least = is_refusal(status) ? INT64_MIN : cut.least;
    return is_refusal(status) ? VRAM_OK : status;
}

static vram_status try_value(void *ud, uint64_t x, int64_t *least)
{
    seeking *k = ud;
    vram_workload *w;
    const left *before = known(k, x);
    left l;
    if (before != NULL) {
        *least = before->least;
        return VRAM_OK;
    }
    vr_arena_reset(&k->s->step);
    VR_TRY(given_at(&w, k, x, &k->s->step));
    if (k->cuts)
        return try_cut_value(k, w, least);
    VR_TRY(try_given(&l, k->s, w));
    k->tries++;
    keep(k, x, &l);
    *least = l.least;
    return VRAM_OK;
}

/* The workload of the answer, with the best of all cuts. */
static vram_status take_value(vr_solution *out, seeking *k, uint64_t x)
{
    vr_arena *a = &k->s->f->arena;
    vram_workload *w;
    left l;
    vr_arena_reset(&k->s->step);
    VR_TRY(given_at(&w, k, x, a));
    if (k->cuts) {
        cutter c = { .s = k->s, .given = w };
        vr_cut cut;
        VR_TRY(cut_best(&cut, k->s, w, false));
        VR_TRY(with_shares(&w, &c, cut.shares, a));
        out->n_shares = k->s->gpus->n;
        memcpy(out->shares, cut.shares, out->n_shares * sizeof(*out->shares));
        k->tries += cut.tries;
    }
    if (!k->cuts && known(k, x) != NULL)
        l = *known(k, x);
    else
        VR_TRY(try_given(&l, k->s, w));
    out->given = w;
    out->left = l.least;
    out->required = l.required;
    out->sure = l.counted;
    return VRAM_OK;
}

static vram_status add_words(vr_solution *out, const seeking *k)
{
    const vr_solvable *of = solvable(k->s);
    vr_arena *a = &k->s->f->arena;
    vram_workload *w;
    size_t warned = k->s->f->ctx->n_warnings;
    VR_TRY(resolved(&w, k->s, out->given, a));
    k->s->f->ctx->n_warnings = warned;
    out->words = of->words(k->goal, k->s->f->model, w, k->s->gpus->n, a);
    out->cost = of->cost(k->goal, w);
    out->option = vr_workload_typed_beside(w, k->s->asked, a);
    out->command = of->command(k->s->f->model, w, a);
    return out->words == NULL || out->option == NULL || out->command == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* Where the run fits, its own value. Of a card that lacks something for all layers about as many fit as its
 * room is of both together, which spares the trial of none. 0: nothing is known. */
static uint64_t first_try(const seeking *k, uint64_t count)
{
    const vr_solver *s = k->s;
    if (s->fits)
        return k->own < count ? k->own : 0;
    if (k->goal != VR_GOAL_LAYERS || solvable(s)->whole || s->gpus->n != 1 || k->from != s->asked ||
        !s->known || s->left >= 0 || s->left == INT64_MIN)
        return 0;
    return vr_mul_div(k->own, s->room[0], vr_add_sat(s->room[0], 0 - (uint64_t)s->left));
}

static vram_status seek(vr_solution *out, seeking *k, uint64_t count)
{
    const vr_solvable *of = solvable(k->s);
    const vram_model *m = k->s->f->model;
    vr_solved solved;
    VR_TRY(vr_solve(&solved, count, first_try(k, count), try_value, k));
    uint64_t x = solved.found ? solved.x : 0;
    *out = (vr_solution){ .goal = k->goal, .found = solved.found, .whole = of->whole };
    VR_TRY(take_value(out, k, x));
    out->tries = k->tries;
    out->top = x == count - 1;
    out->number = of->number(k->goal, x, m, k->resolved);
    out->most = of->number(k->goal, count - 1, m, k->resolved);
    out->next = out->top ? out->number : of->number(k->goal, x + 1, m, k->resolved);
    out->next_left = solved.next_left;
    return add_words(out, k);
}

static bool cuts(const vr_solver *s, const vram_workload *w)
{
    return s->gpus->n > 1 && solvable(s)->count(VR_GOAL_SPLIT, s->f->model, w) != 0;
}

uint64_t vr_solver_count(const vr_solver *s, vr_goal g, const vram_workload *w)
{
    if (solvable(s) == NULL || (g == VR_GOAL_SPLIT && s->gpus->n < 2))
        return 0;
    return solvable(s)->count(g, s->f->model, w);
}

vram_status vr_solver_seek(vr_solution *out, vr_solver *s, vr_goal g, const vram_workload *from)
{
    seeking k = { .s = s, .goal = g, .from = from };
    vram_workload *w;
    size_t warned = s->f->ctx->n_warnings;
    VR_TRY(resolved(&w, s, from, &s->f->arena));
    s->f->ctx->n_warnings = warned;
    k.resolved = w;
    k.cuts = cuts(s, w);
    k.own = solvable(s)->own(g, s->f->model, w);
    uint64_t count = vr_solver_count(s, g, w);
    if (s->known && !s->fits && k.own < count) /* more than what does not fit is none */
        count = k.own + 1;
    if (!k.cuts && from == s->asked && s->known)
        keep(&k, k.own, &(left){ .least = s->left, .required = s->required, .counted = s->counted });
    return seek(out, &k, count);
}

/* Of the fit as it was asked for. */
void vr_solver_know(vr_solver *s)
{
    const vram_fit *f = s->f;
    bool off = vr_leaves_off(f->workload, f->placement);
    s->known = true;
    s->fits = f->verdict == VRAM_FITS && !off;
    s->counted = f->verdict != VRAM_UNKNOWN && !f->ledger.partial;
    s->required = f->ledger.required;
    s->left =
        vr_diff(f->device->available.low, vr_add_sat(f->ledger.required_high, f->plan.weights_at_least));
    if (f->plan.stops != NULL || (f->placement != NULL && f->placement->refused != NULL))
        s->left = INT64_MIN;
    else if (off)
        s->left = lacking(f->placement);
}

void vr_solver_open(vr_solver *s, vram_fit *f, const vram_workload *asked, const vr_memories *gpus,
                    vr_rooms *rooms)
{
    *s = (vr_solver){ .f = f, .asked = asked, .gpus = gpus, .rooms = rooms };
    vr_arena_init(&s->step, f->ctx);
    vr_arena_init(&s->trial, f->ctx);
    for (size_t i = 0; i < gpus->n; i++)
        s->room[i] = vr_sub_floor(gpus->gpus[i].available.low, gpus->gpus[i].context.high);
}

void vr_solver_close(vr_solver *s)
{
    s->f->arena.starved = s->f->arena.starved || s->step.starved || s->trial.starved;
    vr_arena_free(&s->step);
    vr_arena_free(&s->trial);
}
