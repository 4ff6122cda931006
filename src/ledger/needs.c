/* SPDX-License-Identifier: MIT
 *
 * What a run takes on a card, and what it would need where it dies.
 *
 * A run without a limit keeps whatever it has once taken; one that is short gives idle memory back. What it
 * needs to live is therefore found by raising: rehearsed with room for the weights, each request that fails
 * after the allocator gave back what it could is given just what it lacks. The highest figure of that is then
 * a limit to live in, which one more rehearsal confirms (or goes on raising from), since with more room the
 * allocator acts otherwise. The answer depends on the tape and not on the card.
 *
 * Rehearsals are remembered: all happens the same on every device that grants and refuses the same requests,
 * which the figures `asked` of a rehearsal decide. */
#include "ledger/answer.h"

#define MOST_ROUNDS 12              /* of raising; then the figure without a limit is taken */
#define STEP (20 * VR_MIB)          /* PyTorch's segment for requests below 10 MiB (kLargeBuffer) */
#define ENDLESS (UINT64_C(1) << 60) /* total of a device without limit, where a memory fraction needs one */

/* Uncertain inputs in figures. */
typedef struct figures {
    uint64_t context, kernels;
    unsigned permille;
} figures;

static uint64_t at_end(const vr_range *r, vr_inputs inputs)
{
    return inputs == VR_LOW ? r->low : inputs == VR_HIGH ? r->high : r->bytes;
}

static figures figures_of(const vr_scene *s, vr_inputs inputs)
{
    uint64_t uncertain = s->here->plan.uncertain_permille;
    unsigned band = uncertain > 1000 ? 1000 : (unsigned)uncertain;
    unsigned above = (unsigned)s->here->plan.above_permille;
    figures f = { .permille = inputs == VR_LOW    ? 1000 - band
                              : inputs == VR_HIGH ? 1000 + band + above
                                                  : 1000 };
    if (s->device != NULL) {
        f.context = at_end(&s->device->context, inputs);
        f.kernels = at_end(&s->device->kernels, inputs);
    }
    return f;
}

static bool knows_a_limit(const vr_scene *s)
{
    return s->workload->alloc.memory_fraction_permille != 0;
}

/* Total of the device; 0: no matter. */
static uint64_t total_for(const vr_scene *s, uint64_t limit)
{
    if (limit == UINT64_MAX || s->device == NULL)
        return knows_a_limit(s) ? ENDLESS : 0;
    return s->device->usable.bytes;
}

/* ---- what is remembered ---- */

static vr_live live_with(const vr_live *live, const figures *f)
{
    vr_live with = *live;
    uint64_t *context = &with.items[VR_ITEM_CONTEXT], *kernels = &with.items[VR_ITEM_KERNELS];
    with.driver -= *context + *kernels;
    *context = *context == 0 ? 0 : f->context;
    *kernels = *kernels == 0 ? 0 : f->kernels;
    with.driver = vr_add_sat(with.driver, vr_add_sat(*context, *kernels));
    return with;
}

/* Of two peaks the one that counts; the earlier one among equals. */
static const vr_live *fuller(const vr_live *earlier, const vr_live *later)
{
    bool more = later->driver > earlier->driver ||
                (later->driver == earlier->driver && later->allocated > earlier->allocated);
    return more ? later : earlier;
}

/* Expandable segments reserve 9/8 of the total each: no matter while they are not mapped that far. */
static bool total_is_same(const vr_scene *s, const struct vr_played *p, uint64_t usable)
{
    uint64_t reach = usable == 0 ? UINT64_MAX : vr_add_sat(usable, usable / 8),
             own = p->usable == 0 ? UINT64_MAX : vr_add_sat(p->usable, p->usable / 8);
    if (p->usable == usable)
        return true;
    if ((p->usable != 0 && p->usable < p->run.whole_from) || (usable != 0 && usable < p->run.whole_from))
        return false;
    if (knows_a_limit(s))
        return false;
    return !s->workload->alloc.expandable_segments ||
           (!p->run.failed && p->run.span <= reach && p->run.span <= own);
}

static bool granted_same(const struct vr_asked *asked, uint64_t limit, uint64_t taken)
{
    if (limit != UINT64_MAX && limit < taken)
        return false;
    uint64_t room = limit == UINT64_MAX ? UINT64_MAX : limit - taken;
    return asked->granted <= room && (room < asked->refused || asked->refused == UINT64_MAX);
}

static bool takes_kernels(const vr_rehearsal *r)
{
    return r->before_kernels.driver != 0;
}

/* Other figures outside the allocator leave everything inside as it was, and the peak where it was. */
static bool shifts(const struct vr_played *p, const figures *f)
{
    if (p->context == f->context && p->kernels == f->kernels)
        return true;
    if (p->run.odd || p->context == 0 || f->context == 0)
        return false;
    return p->kernels == f->kernels || !takes_kernels(&p->run) || p->run.failed ||
           (p->run.peak.items[VR_ITEM_KERNELS] != 0 && f->kernels != 0);
}

/* Would it happen as in p? Where something was cut, only the very same would. */
static bool same(const vr_scene *s, const struct vr_played *p, const figures *f, uint64_t limit,
                 uint64_t usable)
{
    if (p->permille != f->permille || !total_is_same(s, p, usable))
        return false;
    if (p->limit == limit && p->context == f->context && p->kernels == f->kernels)
        return true;
    return !p->run.odd && !p->run.cut && !p->run.failure.outside && shifts(p, f) &&
           granted_same(&p->run.asked[0], limit, f->context) &&
           (!takes_kernels(&p->run) ||
            granted_same(&p->run.asked[1], limit, vr_add_sat(f->context, f->kernels)));
}

/* What happened in p, with these figures. */
static void retell(vr_rehearsal *out, const struct vr_played *p, const figures *f, uint64_t limit)
{
    *out = p->run;
    vr_live before = live_with(&p->run.before_kernels, f), peak = live_with(&p->run.peak, f);
    out->peak = *fuller(&before, &peak);
    if (out->failed) {
        out->failure.live = live_with(&p->run.failure.live, f);
        out->failure.driver_free = vr_sub_floor(limit, out->failure.live.driver);
    }
    if (p->context != f->context || p->kernels != f->kernels)
        out->n_moments = 0; /* not worth the effort: only the peak is asked for */
}

static void remember(vr_rehearsed *of, const struct vr_played *p)
{
    size_t at = of->n < VR_MOST_PLAYED ? of->n++ : of->next++ % VR_MOST_PLAYED;
    if (of->list[at].tight)
        at = of->next++ % VR_MOST_PLAYED;
    of->list[at] = *p;
}

static vram_status rehearse(struct vr_played *p, const vr_scene *s, const figures *f, bool raise)
{
    vr_stage stage = { .alloc = &s->workload->alloc,
                       .available = p->limit,
                       .usable = p->usable,
                       .context = f->context,
                       .kernels = f->kernels,
                       .activation_permille = f->permille,
                       .raise = raise };
    p->context = f->context;
    p->kernels = f->kernels;
    p->permille = f->permille;
    return vr_rehearse_in(&p->run, &s->here->plan.tape, &stage, s->hall);
}

/* usable: total of the device, as total_for has it. */
static vram_status play(vr_rehearsal *out, const vr_scene *s, vr_inputs inputs, uint64_t limit,
                        uint64_t usable)
{
    figures f = figures_of(s, inputs);
    struct vr_played p = { .limit = limit, .usable = usable };
    vr_rehearsed *of = s->here;
    for (size_t i = 0; i < of->n; i++) {
        if (same(s, &of->list[i], &f, limit, usable)) {
            retell(out, &of->list[i], &f, limit);
            return VRAM_OK;
        }
    }
    VR_TRY(rehearse(&p, s, &f, false));
    remember(of, &p);
    *out = p.run;
    return VRAM_OK;
}

/* ---- what it needs ---- */

static vram_status not_endless(const vr_scene *s)
{
    return vr_fail(s->workload->ctx, VRAM_EINTERNAL, T("a rehearsal without a limit ran out of memory"));
}

static vram_status endless(vr_rehearsal *out, const vr_scene *s, vr_inputs inputs)
{
    VR_TRY(play(out, s, inputs, UINT64_MAX, total_for(s, UINT64_MAX)));
    return out->failed ? not_endless(s) : VRAM_OK;
}

/* All that was granted for however short a moment, with what it was to leave free. */
static uint64_t held_at_most(const struct vr_played *p)
{
    const struct vr_asked *asked = p->run.asked;
    uint64_t before = vr_add_sat(asked[0].granted, p->context),
             then = vr_add_sat(asked[1].granted, vr_add_sat(p->context, p->kernels));
    return takes_kernels(&p->run) && then > before ? then : before;
}

/* With just its peak it would live: nothing was held for a moment that the peak does not show, as happens
 * when pages are mapped for a request and given back because the next ones are refused, and nothing was cut.
 */
static bool settled(const struct vr_played *p)
{
    return !p->run.raised && !p->run.cut && held_at_most(p) <= p->run.peak.driver;
}

static void widen(vr_live *peak, uint64_t driver)
{
    uint64_t more = vr_sub_floor(driver, peak->driver);
    peak->items[VR_ITEM_IDLE] += more;
    peak->reserved += more;
    peak->driver += more;
}

/* Where a request is cut to what is free, each limit makes another run, and the right one is looked for
 * between what it died with (0: nothing yet) and what it lives with (UINT64_MAX). */
static uint64_t next_limit(const struct vr_played *p, uint64_t dies, uint64_t lives)
{
    uint64_t peak = p->run.peak.driver;
    if (!p->run.cut || (dies == 0 && lives != UINT64_MAX))
        return peak;
    return lives == UINT64_MAX ? vr_add_sat(peak, STEP) : dies + (lives - dies) / 2;
}

/* A limit that it lives with, looked for by raising from p's: the peak, or the limit itself where with the
 * peak it would be another run. Less may be enough, and a little more too little: the allocator's figures do
 * not grow evenly with what it is given. */
static vram_status raise(bool *found, struct vr_played *lived, const vr_scene *s, const figures *f,
                         struct vr_played p)
{
    uint64_t dies = 0, lives = UINT64_MAX;
    *found = false;
    for (int round = 0; round < MOST_ROUNDS && p.limit < lives && lives - dies > STEP; round++) {
        VR_TRY(rehearse(&p, s, f, true));
        if (p.run.failed)
            return VRAM_OK;
        if (p.run.raised)
            dies = p.limit;
        else
            lives = p.limit;
        if (!p.run.raised)
            *lived = p;
        *found = lives != UINT64_MAX;
        if (settled(&p))
            return VRAM_OK;
        p.limit = next_limit(&p, dies, lives);
    }
    if (*found)
        widen(&lived->run.peak, lives);
    return VRAM_OK;
}

static vram_status raised_from(vr_rehearsal *out, const vr_scene *s, vr_inputs inputs, uint64_t limit,
                               bool is_tight)
{
    figures f = figures_of(s, inputs);
    struct vr_played p = { .limit = limit, .usable = total_for(s, UINT64_MAX), .tight = is_tight };
    bool found;
    VR_TRY(raise(&found, &p, s, &f, p));
    if (!found) {
        p.limit = UINT64_MAX;
        VR_TRY(rehearse(&p, s, &f, false));
        widen(&p.run.peak, held_at_most(&p));
    }
    remember(s->here, &p);
    *out = p.run;
    return out->failed ? not_endless(s) : VRAM_OK;
}

/* What it needs to live, on whatever card. */
static vram_status tight(vr_rehearsal *out, const vr_scene *s, vr_inputs inputs)
{
    figures f = figures_of(s, inputs);
    for (size_t i = 0; i < s->here->n; i++) {
        const struct vr_played *p = &s->here->list[i];
        uint64_t limit = live_with(&p->run.peak, &f).driver;
        if (p->tight && same(s, p, &f, limit, p->usable)) {
            retell(out, p, &f, limit);
            return VRAM_OK;
        }
    }
    return raised_from(out, s, inputs,
                       vr_add_sat(s->here->plan.weight_bytes, vr_add_sat(f.context, f.kernels)), true);
}

/* What was asked for and is live at a peak: no allocator makes do with less. A warm-up block would be cut. */
static uint64_t least_of(const vr_live *live)
{
    const uint64_t *items = live->items;
    return live->driver - items[VR_ITEM_ROUNDING] - items[VR_ITEM_IDLE] - items[VR_ITEM_WARMUP];
}

/* Told without a rehearsal. */
static bool dies_for_certain(const vr_scene *s, vr_inputs inputs, uint64_t limit)
{
    figures f = figures_of(s, inputs);
    if (vr_add_sat(s->here->plan.weight_bytes, f.context) > limit)
        return true;
    for (size_t i = 0; i < s->here->n; i++) {
        const struct vr_played *p = &s->here->list[i];
        vr_live peak = live_with(&p->run.peak, &f);
        if (p->permille == f.permille && shifts(p, &f) && least_of(&peak) > limit)
            return true;
    }
    return false;
}

vr_device_facts vr_facts_of(const vram_device *d)
{
    if (d == NULL)
        return (vr_device_facts){ .usable = UINT64_MAX, .available = UINT64_MAX };
    return d->facts;
}

vram_status vr_planned(vr_rehearsed **out, const vr_scene *s, const vr_device_facts *facts)
{
    vr_rehearsed *r = VR_NEW(s->plans, vr_rehearsed);
    if (r == NULL)
        return VRAM_ENOMEM;
    *out = r;
    return s->workload->engine->plan(&r->plan, s->model, s->workload, facts, s->plans);
}

vram_status vr_need(vr_rehearsal *needs, vr_rehearsal *run, vr_scene *s, vr_inputs inputs, uint64_t limit)
{
    uint64_t tried = 0;
    if (limit == UINT64_MAX) {
        VR_TRY(endless(needs, s, inputs));
        if (run != NULL)
            *run = *needs;
        return VRAM_OK;
    }
    if (run != NULL || !dies_for_certain(s, inputs, limit)) {
        VR_TRY(play(needs, s, inputs, limit, total_for(s, limit)));
        if (run != NULL)
            *run = *needs;
        if (!needs->failed)
            return VRAM_OK;
        tried = needs->failure.tried;
    }
    VR_TRY(tight(needs, s, inputs));
    if (needs->peak.driver <= limit)
        VR_TRY(raised_from(needs, s, inputs, limit, false));
    /* It died with the limit although it would live with less or with none: the allocator is like that. At
     * least what it tried last was missing. */
    if (needs->peak.driver <= limit)
        widen(&needs->peak, vr_add_sat(limit, tried == 0 ? 1 : tried));
    return VRAM_OK;
}

vram_status vr_need_nominal(vr_rehearsal *needs, vr_rehearsal *run, vr_scene *s)
{
    const vram_device *d = s->device;
    bool lives = false;
    if (d == NULL)
        return vr_need(needs, run, s, VR_NOMINAL, UINT64_MAX);
    if (d->available.low < d->available.bytes)
        VR_TRY(vr_lives(&lives, s, VR_NOMINAL, d->available.low));
    return vr_need(needs, run, s, VR_NOMINAL, lives ? d->available.low : d->available.bytes);
}

vram_status vr_lives(bool *out, vr_scene *s, vr_inputs inputs, uint64_t limit)
{
    vr_rehearsal run;
    *out = false;
    if (dies_for_certain(s, inputs, limit))
        return VRAM_OK;
    VR_TRY(play(&run, s, inputs, limit, total_for(s, limit)));
    *out = !run.failed;
    return VRAM_OK;
}
