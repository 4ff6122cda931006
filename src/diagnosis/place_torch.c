/* SPDX-License-Identifier: MIT
 *
 * Places of PyTorch's failures. What the process could take of the card is what it had taken, and what was
 * still free: with that room the run is rehearsed and dies where it died. Since the printed figures are
 * rounded, the room is known within some MiB; all rooms in between are gone through, one refused request
 * after the other.
 */
#include "diagnosis/place.h"
#include "ledger/memories.h"

#define MOST_ROUNDS 32
#define MOST_SETTLES 3 /* of a load that sizes its first block by what is free */

/* What is rehearsed. */
typedef struct scene {
    vr_seeker *s;
    vr_plan *plan;
    const vram_workload *w; /* resolved */
    bool late;              /* kernels are loaded when it dies */
    uint64_t usable;        /* total of the card, of which the message says two decimals */
} scene;

static void spend(vr_seeker *s, uint64_t events)
{
    s->budget = vr_sub_floor(s->budget, events);
}

static uint64_t outside(const scene *x)
{
    return vr_add_sat(x->s->card->context.bytes, x->late ? x->s->card->kernels.bytes : 0);
}

vr_stage vr_stage_of(const vr_seeker *s, const vram_workload *w)
{
    return (vr_stage){ .alloc = &w->alloc,
                       .available = UINT64_MAX,
                       .usable = s->card->usable.bytes,
                       .context = s->card->context.bytes,
                       .kernels = s->card->kernels.bytes };
}

static vram_status play(vr_rehearsal *out, const scene *x, const vr_alloc_conf *alloc, uint64_t available)
{
    const vram_device *card = x->s->card;
    vr_stage stage = { .alloc = alloc,
                       .available = available,
                       .usable = x->usable,
                       .context = card->context.bytes,
                       .kernels = card->kernels.bytes };
    VR_TRY(vr_rehearse_in(out, &x->plan->tape, &stage, &x->s->hall));
    spend(x->s, out->n_events);
    return VRAM_OK;
}

static bool is_late(const vr_rehearsal *r)
{
    return r->before_kernels.driver != 0;
}

static bool agrees(const vr_rehearsal *r, const vr_torch_figures *g)
{
    const vr_live *live = &r->failure.live;
    return r->failed && !r->failure.outside && vr_bounds_have(g->request, r->failure.tried) &&
           vr_bounds_have(g->allocated, live->allocated) && vr_bounds_have(g->reserved, live->reserved) &&
           vr_bounds_have(g->idle, live->reserved - live->allocated);
}

/* What was free, as far as it counts: where the driver had more than was asked for, something else refused
 * (a limit, a hole too small), and all that is known is that the segment found no room. */
static vr_bounds room_left(const vr_torch_figures *g)
{
    if (g->left.known && g->left.low < g->request.high)
        return g->left;
    return (vr_bounds){ true, vr_sub_floor(g->request.low, VR_PAGE), vr_sub_floor(g->request.low, 1) };
}

/* The room that the run has there by the message's figures. */
static uint64_t room_there(const vr_rehearsal *run, const vr_torch_figures *g)
{
    uint64_t rest = vr_bounds_middle(room_left(g));
    if (rest >= run->failure.tried)
        rest = vr_sub_floor(run->failure.tried, 1);
    return vr_add_sat(run->failure.live.driver, rest);
}

/* The room with which it dies there and leaves as much as the message says. */
static vram_status settle(bool *same, vr_rehearsal *run, uint64_t *available, const scene *x)
{
    const vr_torch_figures *g = &x->s->figures;
    *same = false;
    for (int i = 0; i < MOST_SETTLES && !*same; i++) {
        *available = room_there(run, g);
        VR_TRY(play(run, x, &x->w->alloc, *available));
        if (!run->failed)
            return VRAM_OK;
        *same = agrees(run, g);
        if (!run->cut)
            return VRAM_OK;
    }
    return VRAM_OK;
}

/* A loader's first block is sized by the card's total, of which two decimals are known: what is left of it
 * when the last tensor went in depends on the others. */
static bool is_cut_by_total(const scene *x, const vr_rehearsal *r)
{
    return r->whole_from > x->usable;
}

static vram_status settle_total(bool *same, vr_rehearsal *run, uint64_t *available, scene *x)
{
    const vr_torch_figures *g = &x->s->figures;
    uint64_t usable = x->usable;
    *available = room_there(run, g);
    for (x->usable = g->total.low; x->usable <= g->total.high; x->usable += VR_MIB) {
        VR_TRY(play(run, x, &x->w->alloc, *available));
        if (run->failed && !agrees(run, g)) /* more may be reserved now */
            VR_TRY(play(run, x, &x->w->alloc, room_there(run, g)));
        if (!run->failed || !agrees(run, g))
            continue;
        *available = room_there(run, g);
        *same = true;
        return VRAM_OK;
    }
    x->usable = usable;
    return VRAM_OK;
}

/* A first block that is sized by what the card has leaves other bytes idle on a card of a little more. */
static bool may_agree(const scene *x, const vr_rehearsal *r)
{
    const vr_torch_figures *g = &x->s->figures;
    bool cut = r->cut || is_cut_by_total(x, r);
    return agrees(r, g) ||
           (cut && !r->failure.outside && vr_bounds_have(g->allocated, r->failure.live.allocated) &&
            vr_bounds_have(g->request, r->failure.tried));
}

static void keep(vr_hit *out, const scene *x, const vr_rehearsal *run, uint64_t available)
{
    if (out->places != 0 && out->run.failure.event == run->failure.event)
        return;
    if (out->places++ != 0)
        return;
    out->run = *run;
    out->available = available;
    out->usable = x->usable;
}

static vram_status go_through(vr_hit *out, scene *x)
{
    const vr_torch_figures *g = &x->s->figures;
    vr_bounds room = vr_bounds_sum(g->reserved, room_left(g));
    uint64_t available = vr_add_sat(room.low, outside(x)), most = vr_add_sat(room.high, outside(x)), next;
    for (int i = 0; i < MOST_ROUNDS && available <= most; i++) {
        vr_rehearsal run, there;
        bool same;
        uint64_t at;
        VR_TRY(play(&run, x, &x->w->alloc, available));
        if (!run.failed || (is_late(&run) && !x->late))
            return VRAM_OK;
        next = vr_add_sat(run.failure.live.driver, run.failure.tried);
        if (may_agree(x, &run)) {
            there = run;
            VR_TRY(settle(&same, &there, &at, x));
            if (!same && is_cut_by_total(x, &there))
                VR_TRY(settle_total(&same, &there, &at, x));
            if (same)
                keep(out, x, &there, at);
        }
        available = next > available ? next : vr_add_sat(available, VR_PAGE);
    }
    return VRAM_OK;
}

/* What an engine prepares is of the model and the version alone. */
static const void *prepared_for(const vr_seeker *s, const vram_workload *w)
{
    bool same = w->engine == s->asked->engine && w->version_major == s->asked->version_major &&
                w->version_minor == s->asked->version_minor;
    return same ? s->prepared : NULL;
}

/* Before the run had its context; what others hold is off. */
static uint64_t free_before(const vr_seeker *s)
{
    const vr_torch_figures *g = &s->figures;
    uint64_t left = g->left.known ? vr_bounds_middle(g->left) : 0;
    uint64_t own = vr_add_sat(vr_bounds_middle(g->reserved), s->card->context.bytes);
    return vr_add_sat(left, vr_add_sat(own, s->card->kernels.bytes));
}

/* Where a device map puts the pieces. The other cards are taken to be empty. */
static vram_status placed(vr_device_facts *facts, vr_seeker *s, const vram_workload *w)
{
    vr_placement *placement = VR_NEW(&s->plans, vr_placement);
    vr_device_facts *all = VR_ARRAY(&s->plans, vr_device_facts, s->cards);
    if (placement == NULL || all == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < s->cards; i++) {
        all[i] = s->card->facts;
        all[i].rank = i;
        if (i == s->rank)
            all[i].available = free_before(s);
    }
    *facts = all[s->rank];
    VR_TRY(w->engine->place(placement, s->model, w, all, s->cards, &s->plans));
    if (placement->unknown == NULL)
        facts->placement = placement;
    return VRAM_OK;
}

vram_status vr_plan_of_run(vr_plan *out, const vram_workload **w, vr_seeker *s, const vram_workload *asked)
{
    vram_workload given = *asked, *resolved;
    vr_device_facts facts = s->card->facts;
    vr_arena_reset(&s->plans);
    *out = (vr_plan){ .stops = NULL };
    given.prepared = prepared_for(s, asked);
    VR_TRY(vr_workload_resolve(&resolved, &given, s->model, &s->plans));
    *w = resolved;
    if (vr_spreads(resolved))
        VR_TRY(placed(&facts, s, resolved));
    VR_TRY(resolved->engine->plan(out, s->model, resolved, &facts, &s->plans));
    spend(s, vr_mul_sat(out->tape.n, 4)); /* writing takes longer than playing */
    return out->tape.status;
}

bool vr_is_rehearsed(const vr_plan *p)
{
    return !p->sums_only && !p->outside_only && !p->as_stored && p->refused == NULL && p->doubt == NULL &&
           p->stops == NULL;
}

vram_status vr_seek(vr_hit *out, vr_seeker *s, const vram_workload *asked)
{
    scene x = { .s = s, .usable = s->card->usable.bytes };
    *out = (vr_hit){ .asked = asked };
    if (s->budget == 0)
        return VRAM_OK;
    VR_TRY(vr_plan_of_run(&out->plan, &x.w, s, asked));
    x.plan = &out->plan;
    if (!vr_is_rehearsed(&out->plan))
        return VRAM_OK;
    VR_TRY(go_through(out, &x));
    x.late = true;
    return out->places != 0 ? VRAM_OK : go_through(out, &x);
}

/* ---- expandable segments ---- */

static bool is_weight(const vr_event *e)
{
    return e->kind == VR_EV_ALLOC && e->label != 0 && vr_item_category((vr_item)e->item) == VR_WEIGHTS;
}

vram_status vr_seek_expandable(vr_further *out, vr_seeker *s, const vr_hit *hit)
{
    vram_workload *w;
    vr_plan plan = hit->plan;
    vr_rehearsal run;
    const vr_tape *t = &plan.tape;
    *out = (vr_further){ .known = false };
    VR_TRY(vr_workload_resolve(&w, hit->asked, s->model, &s->plans));
    if (w->alloc.expandable_segments)
        return VRAM_OK;
    w->alloc.expandable_segments = true;
    VR_TRY(play(&run, &(scene){ .s = s, .plan = &plan, .w = w, .usable = hit->usable }, &w->alloc,
                hit->available));
    out->known = true;
    out->lives = !run.failed || run.failure.next_moment > VR_AT_LOADED;
    size_t end = run.failed ? run.failure.event : t->n;
    for (size_t i = hit->run.failure.event; i < end; i++) {
        if (!is_weight(&t->events[i]))
            continue;
        out->bytes = vr_add_sat(out->bytes, t->events[i].bytes);
        out->matrices += t->events[i].bytes > VR_MIB;
    }
    if (out->lives || run.failure.label == 0)
        return VRAM_OK;
    out->next = vr_arena_copy(&s->d->arena, t->labels[run.failure.label]);
    return out->next != NULL ? VRAM_OK : VRAM_ENOMEM;
}
