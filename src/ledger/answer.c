/* SPDX-License-Identifier: MIT
 *
 * From model, workload and device to an answer: the engine's plan is rehearsed without a limit, on the
 * device, and with all uncertain inputs at both ends of their range. A rehearsal is left out only where its
 * outcome is certain: below its limit the allocator never learns that there is one; and weights that exceed
 * the card cannot live on it. */
#include "ledger/answer.h"

vr_device_facts vr_facts_of(const vram_device *d)
{
    if (d == NULL)
        return (vr_device_facts){ .usable = UINT64_MAX, .available = UINT64_MAX };
    return d->facts;
}

static uint64_t at_end(const vr_range *r, vr_inputs inputs)
{
    return inputs == VR_LOW ? r->low : inputs == VR_HIGH ? r->high : r->bytes;
}

static unsigned permille(const vr_plan *p, vr_inputs inputs)
{
    unsigned band = p->uncertain_permille > 1000 ? 1000 : (unsigned)p->uncertain_permille;
    return inputs == VR_LOW ? 1000 - band : inputs == VR_HIGH ? 1000 + band : 1000;
}

/* With a memory fraction the allocator knows of a limit of its own and gives memory back early. */
static bool knows_a_limit(const vr_scene *s)
{
    return s->workload->alloc.memory_fraction_permille != 0;
}

#define ENDLESS (UINT64_C(1) << 60) /* total of a device without limit, where a memory fraction needs one */

vram_status vr_play(vr_rehearsal *out, const vr_scene *s, vr_inputs inputs, uint64_t limit)
{
    vr_stage stage = { .alloc = &s->workload->alloc,
                       .available = limit,
                       .activation_permille = permille(s->plan, inputs) };
    if (s->device != NULL) {
        stage.context = at_end(&s->device->context, inputs);
        stage.kernels = at_end(&s->device->kernels, inputs);
        stage.usable = limit != UINT64_MAX ? s->device->usable.bytes : knows_a_limit(s) ? ENDLESS : 0;
    }
    return vr_rehearse(out, &s->plan->tape, &stage, s->scratch);
}

vr_live vr_live_with(const vr_live *live, uint64_t context, uint64_t kernels)
{
    vr_live with = *live;
    with.items[VR_ITEM_CONTEXT] = live->items[VR_ITEM_CONTEXT] == 0 ? 0 : context;
    with.items[VR_ITEM_KERNELS] = live->items[VR_ITEM_KERNELS] == 0 ? 0 : kernels;
    with.driver = live->driver - live->items[VR_ITEM_CONTEXT] - live->items[VR_ITEM_KERNELS];
    with.driver =
        vr_add_sat(with.driver, vr_add_sat(with.items[VR_ITEM_CONTEXT], with.items[VR_ITEM_KERNELS]));
    return with;
}

vram_status vr_peak(vr_live *out, const vr_scene *s, vr_inputs inputs, const vr_rehearsal *needs)
{
    vr_rehearsal own;
    if (s->plan->uncertain_permille == 0 || inputs == VR_NOMINAL) {
        *out = needs->peak;
        if (s->device != NULL)
            *out =
                vr_live_with(out, at_end(&s->device->context, inputs), at_end(&s->device->kernels, inputs));
        return VRAM_OK;
    }
    VR_TRY(vr_play(&own, s, inputs, UINT64_MAX));
    *out = own.peak;
    return VRAM_OK;
}

uint64_t vr_least_of(const vr_live *live)
{
    return live->driver - live->items[VR_ITEM_ROUNDING] - live->items[VR_ITEM_IDLE];
}

vram_status vr_lives(bool *out, const vr_scene *s, vr_inputs inputs, const vr_live *peak, uint64_t limit)
{
    vr_rehearsal run;
    uint64_t least = vr_least_of(peak);
    *out = peak->driver <= limit;
    if ((*out && !knows_a_limit(s)) || least > limit) {
        *out = *out && least <= limit;
        return VRAM_OK;
    }
    VR_TRY(vr_play(&run, s, inputs, limit));
    *out = !run.failed;
    return VRAM_OK;
}

static bool whole(const vram_model *m)
{
    return m->checkpoint == NULL || !m->checkpoint->incomplete;
}

bool vr_all_counted(const vr_plan *p, const vram_model *m)
{
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        if (!p->counted[c])
            return false;
    }
    return whole(m);
}

/* ---- the verdict ---- */

static const char *first_not_counted(const vr_plan *p, vr_arena *a)
{
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        if (!p->counted[c])
            return vr_text(a, T(vr_category_screen((vr_category)c)), T(" not counted: "),
                           T(p->why_not[c] != NULL ? p->why_not[c] : "not understood"));
    }
    return NULL;
}

static const char *why_tight(const vr_ledger *l, const vram_device *d, vr_arena *a)
{
    return vr_text(a, T("needs "), BYTES(l->required_low), T(" to "), BYTES(l->required_high), T(", and "),
                   BYTES(d->available.low), T(d->available.low == d->available.high ? "" : " to "),
                   d->available.low == d->available.high ? T("") : BYTES(d->available.high),
                   T(" is available"));
}

static vram_status unknown(vr_answer *out, const char *reason)
{
    if (reason == NULL)
        return VRAM_ENOMEM;
    out->verdict = VRAM_UNKNOWN;
    out->reason = reason;
    return VRAM_OK;
}

static vram_status judge(vr_answer *out, const vram_model *m, const vr_scene *s, const vr_live *low,
                         const vr_live *high, vr_arena *a)
{
    const vram_device *d = s->device;
    bool low_lives = true, high_lives = true;
    if (d != NULL && out->run.failed)
        VR_TRY(vr_lives(&low_lives, s, VR_LOW, low, d->available.high));
    if (!low_lives) { /* whatever is not counted only adds to it */
        out->verdict = VRAM_DOES_NOT_FIT;
        return VRAM_OK;
    }
    if (!vr_all_counted(&out->plan, m))
        return unknown(out,
                       whole(m) ? first_not_counted(&out->plan, a) : "files of the checkpoint are missing");
    if (d != NULL)
        VR_TRY(vr_lives(&high_lives, s, VR_HIGH, high, d->available.low));
    out->verdict = high_lives && !out->run.failed ? VRAM_FITS : VRAM_TIGHT;
    if (out->verdict == VRAM_FITS)
        return VRAM_OK;
    out->reason = why_tight(&out->ledger, d, a);
    return out->reason == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* ---- the answer ---- */

static vram_status rehearse_without_limit(vr_rehearsal *needs, const vr_scene *s)
{
    VR_TRY(vr_play(needs, s, VR_NOMINAL, UINT64_MAX));
    if (needs->failed)
        return vr_fail(s->workload->ctx, VRAM_EINTERNAL, T("a rehearsal without a limit ran out of memory"));
    return VRAM_OK;
}

static vram_status rehearse_on_device(vr_rehearsal *run, const vr_rehearsal *needs, const vr_scene *s)
{
    if (s->device == NULL || (needs->peak.driver <= s->device->available.bytes && !knows_a_limit(s))) {
        *run = *needs;
        return VRAM_OK;
    }
    return vr_play(run, s, VR_NOMINAL, s->device->available.bytes);
}

vram_status vr_answer_new(vr_answer *out, const vram_model *m, const vram_workload *resolved,
                          const vram_device *d, vr_arena *a, vr_arena *scratch)
{
    vr_device_facts facts = vr_facts_of(d);
    vr_scene s = { &out->plan, resolved, d, scratch };
    vr_live low, high;
    *out = (vr_answer){ .verdict = VRAM_UNKNOWN };
    VR_TRY(resolved->engine->plan(&out->plan, m, resolved, &facts, a));
    VR_TRY(rehearse_without_limit(&out->needs, &s));
    VR_TRY(rehearse_on_device(&out->run, &out->needs, &s));
    if (!out->run.failed)
        out->needs = out->run;
    VR_TRY(vr_peak(&low, &s, VR_LOW, &out->needs));
    VR_TRY(vr_peak(&high, &s, VR_HIGH, &out->needs));
    VR_TRY(vr_ledger_new(&out->ledger, &s, &out->needs.peak, &low, &high, a));
    if (d != NULL)
        out->headroom = vr_diff(d->available.bytes, out->ledger.required);
    return judge(out, m, &s, &low, &high, a);
}

static uint8_t basis_of(const vr_plan *p)
{
    return p->basis[VR_WEIGHTS] == VR_BASIS_FORMULA ? VR_BASIS_FORMULA : VR_BASIS_SIMULATED;
}

void vr_rooms_open(vr_rooms *r, vram_ctx *ctx)
{
    vr_arena_init(&r->kept, ctx);
    vr_arena_init(&r->trial, ctx);
    vr_arena_init(&r->scratch, ctx);
}

void vr_rooms_close(vr_rooms *r)
{
    vr_arena_free(&r->kept);
    vr_arena_free(&r->trial);
    vr_arena_free(&r->scratch);
}

vram_status vr_try(vr_trial *out, const vram_model *m, const vram_workload *w, const vram_device *d,
                   vr_rooms *rooms)
{
    vr_device_facts facts = vr_facts_of(d);
    vr_plan plan = { .weight_bytes = 0 };
    vr_scene s = { &plan, w, d, &rooms->scratch };
    vr_rehearsal needs, run;
    vr_live high;
    vr_arena_reset(&rooms->trial);
    VR_TRY(w->engine->plan(&plan, m, w, &facts, &rooms->trial));
    VR_TRY(rehearse_without_limit(&needs, &s));
    out->fits = vr_least_of(&needs.peak) <= d->available.low; /* otherwise it does not with higher inputs */
    if (out->fits) {
        VR_TRY(vr_peak(&high, &s, VR_HIGH, &needs));
        VR_TRY(vr_lives(&out->fits, &s, VR_HIGH, &high, d->available.low));
    }
    out->required = needs.peak.driver;
    out->basis = basis_of(&plan);
    if (needs.peak.driver > d->available.bytes && out->fits) { /* lives by giving idle memory back */
        VR_TRY(vr_play(&run, &s, VR_NOMINAL, d->available.bytes));
        out->required = run.failed ? out->required : run.peak.driver;
    }
    out->fits = out->fits && vr_all_counted(&plan, m);
    return VRAM_OK;
}
