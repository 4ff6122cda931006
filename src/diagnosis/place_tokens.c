/* SPDX-License-Identifier: MIT
 *
 * A pass over another number of tokens than was said. What a pass holds and asks for grows with its tokens,
 * so the figures say with how many a request of the run could be the one that was refused; these are tried.
 */
#include "diagnosis/place.h"

#define MOST_TRIES 96
#define MOST_RANGES 6
#define UNEVEN (4 * VR_MIB) /* live bytes count what is not worth splitting off */

/* What one event of the pass has, of two runs that differ in tokens only. */
typedef struct at {
    uint64_t bytes[2], live[2]; /* asked for, and live before it */
} at;

typedef struct passes {
    at *list;
    size_t n[2];
    uint64_t tokens[2];
    vr_tokens ranges[MOST_RANGES];
    size_t n_ranges;
    size_t tries; /* left */
} passes;

static void add_range(passes *p, vr_tokens r)
{
    for (size_t i = 0; i < p->n_ranges; i++) {
        vr_tokens *known = &p->ranges[i];
        if (r.low > known->high || r.high < known->low)
            continue;
        known->low = r.low < known->low ? r.low : known->low;
        known->high = r.high > known->high ? r.high : known->high;
        return;
    }
    if (p->n_ranges < MOST_RANGES)
        p->ranges[p->n_ranges++] = r;
}

/* Of which tokens the figure is between low and high, when it grows evenly from y[0] to y[1]. */
static vr_tokens between(const passes *p, const uint64_t y[2], uint64_t low, uint64_t high)
{
    uint64_t slope = y[1] > y[0] ? y[1] - y[0] : 0, step = p->tokens[1] - p->tokens[0];
    vr_tokens r = { 1, 0 };
    if (slope == 0 || low > high)
        return r;
    uint64_t fixed = vr_sub_floor(y[0], vr_mul_div(slope, p->tokens[0], step));
    r.low = vr_mul_div(vr_sub_floor(low, fixed), step, slope);
    r.high = high < fixed ? 0 : vr_add_sat(vr_mul_div(high - fixed, step, slope), 1);
    return r;
}

/* By the request, and by what is live. */
static void consider(passes *p, const at *e, const vr_torch_figures *g)
{
    vr_tokens r = between(p, e->bytes, vr_sub_floor(g->request.low, VR_PAGE), g->request.high);
    vr_tokens live =
        between(p, e->live, vr_sub_floor(g->allocated.low, UNEVEN), vr_add_sat(g->allocated.high, UNEVEN));
    r.low = r.low > live.low ? r.low : live.low;
    r.high = r.high < live.high ? r.high : live.high;
    if (r.low <= r.high && r.high != 0)
        add_range(p, r);
}

static bool is_pass(const vr_rehearsal *run)
{
    return run->n_moments != 0 && run->moments[run->n_moments - 1].id == VR_AT_LOADED;
}

static bool is_after(const vr_rehearsal *run)
{
    return run->n_moments != 0 && run->moments[run->n_moments - 1].id > VR_AT_LOADED;
}

/* Plays the run with so many tokens to the end of its pass; which: 0 or 1. */
static vram_status go_along(passes *p, size_t which, vr_seeker *s, const vr_plan *plan,
                            const vram_workload *w)
{
    vr_player *player;
    vr_rehearsal run;
    bool more = true;
    vr_stage stage = vr_stage_of(s, w);
    if (p->list == NULL)
        p->list = VR_ARRAY(&s->d->arena, at, plan->tape.n);
    if (p->list == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_player_new(&player, &run, &plan->tape, &stage, &s->plans));
    while (more && !is_after(&run)) {
        const vr_event *e = &plan->tape.events[run.n_events];
        if (is_pass(&run) && e->kind == VR_EV_ALLOC && (which == 0 || p->n[1] < p->n[0])) {
            vr_live live;
            at *to = &p->list[p->n[which]++];
            vr_player_live(player, &live);
            to->bytes[which] = e->bytes;
            to->live[which] = live.allocated;
        }
        VR_TRY(vr_player_step(player, &more));
    }
    return VRAM_OK;
}

static vram_workload *with_tokens(vr_seeker *s, uint64_t tokens)
{
    vram_workload *w = vr_workload_copy(s->asked, &s->d->arena);
    if (w == NULL)
        return NULL;
    w->context = tokens;
    w->set_by[VR_SET_CONTEXT] = VR_BY_USER;
    return w;
}

/* False in *known: they are not the same requests. */
static vram_status compare(passes *p, bool *known, vr_seeker *s)
{
    vr_plan plan;
    const vram_workload *w;
    vram_workload *longer;
    *known = false;
    VR_TRY(vr_plan_of_run(&plan, &w, s, s->asked));
    p->tokens[0] = w->context;
    if (!vr_is_rehearsed(&plan) || w->context == 0 || s->model->source_positions != 0)
        return VRAM_OK;
    VR_TRY(go_along(p, 0, s, &plan, w));
    longer = with_tokens(s, vr_mul_sat(p->tokens[0], 2));
    if (longer == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_plan_of_run(&plan, &w, s, longer));
    p->tokens[1] = w->context;
    VR_TRY(go_along(p, 1, s, &plan, w));
    p->tries = MOST_TRIES;
    *known = p->n[0] == p->n[1] && p->tokens[1] > p->tokens[0];
    return VRAM_OK;
}

/* Round numbers are likelier: the largest power of two that has a multiple there is where to begin. */
static uint64_t first_step(vr_tokens r)
{
    uint64_t step = 1;
    while (step < UINT32_MAX && r.high / (step * 2) * (step * 2) >= r.low && r.high >= step * 2)
        step *= 2;
    return step;
}

/* A token more changes what is idle by some KiB: in GiB that is not seen. */
static bool is_fine(const vr_seeker *s)
{
    return s->figures.idle.high - s->figures.idle.low < VR_MIB;
}

static vram_status try_tokens(vr_hit *out, vr_seeker *s, uint64_t tokens)
{
    vram_workload *w = with_tokens(s, tokens);
    if (w == NULL)
        return VRAM_ENOMEM;
    vram_status status = vr_seek(out, s, w);
    if (vr_is_refusal(status)) {
        out->places = 0;
        return VRAM_OK;
    }
    VR_TRY(status);
    if (out->places != 0)
        out->assumed = vr_text(&s->d->arena, T("a pass over "), T(is_fine(s) ? "" : "about "),
                               GROUPED(tokens), T(" tokens"));
    return VRAM_OK;
}

static vram_status try_range(vr_hit *out, vr_seeker *s, vr_tokens r, size_t *tries)
{
    uint64_t tried = 0;
    for (uint64_t step = first_step(r); step != 0; step /= 2) {
        for (uint64_t x = vr_round_up(r.low != 0 ? r.low : 1, step); x <= r.high; x += step) {
            if (tried != 0 && x % tried == 0)
                continue;
            if (*tries == 0 || s->budget == 0)
                return VRAM_OK;
            (*tries)--;
            VR_TRY(try_tokens(out, s, x));
            if (out->places != 0)
                return VRAM_OK;
        }
        tried = step;
    }
    return VRAM_OK;
}

vram_status vr_seek_tokens(vr_hit *out, vr_tokens *likely, vr_seeker *s)
{
    passes p = { .list = NULL };
    bool known;
    *out = (vr_hit){ .places = 0 };
    *likely = (vr_tokens){ 0, 0 };
    if (s->asked->set_by[VR_SET_CONTEXT] == VR_BY_USER || s->figures.request.low <= VR_SAYS_NOTHING)
        return VRAM_OK;
    VR_TRY(compare(&p, &known, s));
    for (size_t i = 0; i < p.n[0] && known; i++)
        consider(&p, &p.list[i], &s->figures);
    for (size_t i = 0; i < p.n_ranges && out->places == 0; i++)
        VR_TRY(try_range(out, s, p.ranges[i], &p.tries));
    if (p.n_ranges == 1)
        *likely = p.ranges[0];
    return VRAM_OK;
}
