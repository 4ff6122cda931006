/* SPDX-License-Identifier: MIT
 *
 * From model, workload and device to an answer: the engine's plan is rehearsed on the device with the inputs
 * as they are likely, with all uncertain ones low in the most that may be available, and with all high in the
 * least. The verdict is what these three figures say:
 *     fits            required_high <= available.low
 *     does not fit    required_low > available.high
 *     tight           otherwise */
#include "ledger/answer.h"

static bool whole(const vram_model *m)
{
    return m->checkpoint == NULL || !m->checkpoint->incomplete;
}

/* Nothing is missing that could matter: neither a category nor a file of the checkpoint. */
static bool all_counted(const vr_plan *p, const vram_model *m)
{
    if (p->refused != NULL || p->doubt != NULL)
        return false;
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        if (!p->counted[c])
            return false;
    }
    return whole(m);
}

/* Of what is counted. */
static uint64_t counted_sum(const vr_live *live, const vr_plan *p)
{
    uint64_t sum = 0;
    for (int i = 0; i < VR_ITEM_COUNT; i++) {
        if (p->counted[vr_item_category((vr_item)i)])
            sum += live->items[i];
    }
    return sum;
}

/* set_per_process_memory_fraction: of the total, for what the allocator takes. */
static uint64_t capped(uint64_t available, const vr_alloc_conf *c, uint64_t total, uint64_t context,
                       uint64_t kernels)
{
    uint64_t most = vr_add_sat(vr_alloc_conf_allowed(c, total), vr_add_sat(context, kernels));
    return most < available ? most : available;
}

static uint32_t share_of(const vram_workload *w, const vram_device *d)
{
    return w->engine->share != NULL ? w->engine->share(w, d->usable.bytes) : 1000;
}

bool vr_is_capped(const vram_workload *w, const vram_device *d)
{
    return w->alloc.memory_fraction_permille != 0 || share_of(w, d) < 1000;
}

static uint64_t shared(uint64_t available, uint64_t usable, uint32_t share)
{
    uint64_t most = vr_mul_div(usable, share, 1000);
    return most < available ? most : available;
}

static void cap_by_share(vram_device *d, uint32_t share)
{
    vr_range *r = &d->available;
    r->low = shared(r->low, d->usable.low, share);
    r->bytes = shared(r->bytes, d->usable.bytes, share);
    r->high = shared(r->high, d->usable.high, share);
}

void vr_cap(vram_device *d, const vram_workload *w)
{
    const vr_alloc_conf *c = &w->alloc;
    vr_range *r = &d->available;
    if (!vr_is_capped(w, d) || d->usable.bytes == UINT64_MAX)
        return;
    cap_by_share(d, share_of(w, d));
    if (c->memory_fraction_permille == 0)
        return;
    r->low = capped(r->low, c, d->usable.bytes, d->context.low, d->kernels.low);
    r->bytes = capped(r->bytes, c, d->usable.bytes, d->context.bytes, d->kernels.bytes);
    r->high = capped(r->high, c, d->usable.bytes, d->context.high, d->kernels.high);
}

/* ---- the verdict ---- */

/* With the weights that are there whatever else is not counted. */
static bool more_than(const vram_device *d, const vr_plan *p, uint64_t counted)
{
    return p->weights_at_least != 0 && vr_add_sat(counted, p->weights_at_least) > d->available.high;
}

static vram_status fits_at_worst(bool *out, vr_scene *s, uint64_t required)
{
    *out = s->device == NULL || required <= s->device->available.low;
    if (!*out || s->device == NULL)
        return VRAM_OK;
    return vr_lives(out, s, VR_HIGH, s->device->available.low);
}

vram_status vr_fits(bool *fits, uint64_t *required, vr_scene *s)
{
    const vr_plan *p = &s->here->plan;
    uint64_t low = s->device->available.low;
    vr_rehearsal run;
    VR_TRY(vr_lives(fits, s, VR_NOMINAL, low));
    if (!*fits)
        return VRAM_OK;
    VR_TRY(vr_need(&run, NULL, s, VR_NOMINAL, low));
    *required = counted_sum(&run.peak, p);
    VR_TRY(fits_at_worst(fits, s, *required));
    *fits = *fits && all_counted(p, s->model);
    return VRAM_OK;
}

vram_status vr_judge(vram_verdict *verdict, uint64_t *required, vr_scene *s)
{
    vr_rehearsal needs;
    bool fits, lives_at_best = true;
    VR_TRY(vr_need_nominal(&needs, NULL, s));
    *required = counted_sum(&needs.peak, &s->here->plan);
    VR_TRY(fits_at_worst(&fits, s, *required));
    if (more_than(s->device, &s->here->plan, *required))
        lives_at_best = false;
    else if (*required > s->device->available.high)
        VR_TRY(vr_lives(&lives_at_best, s, VR_LOW, s->device->available.high));
    if (!lives_at_best && s->here->plan.refused == NULL && s->here->plan.doubt == NULL)
        *verdict = VRAM_DOES_NOT_FIT;
    else if (!all_counted(&s->here->plan, s->model))
        *verdict = VRAM_UNKNOWN;
    else
        *verdict = fits ? VRAM_FITS : VRAM_TIGHT;
    return VRAM_OK;
}

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

static vram_status with_reason(vr_answer *out, vram_verdict verdict, const char *reason)
{
    out->verdict = verdict;
    out->reason = reason;
    return reason == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* Of figures that may be another model's only what is stored and kept counts against it. */
static vram_verdict doubted(const vr_ledger *l, const vram_device *d)
{
    uint64_t sure = vr_add_sat(l->category[VR_WEIGHTS].low, l->category[VR_KV_CACHE].low);
    return d != NULL && sure > d->available.high ? VRAM_DOES_NOT_FIT : VRAM_UNKNOWN;
}

static vram_status judge(vr_answer *out, const vr_scene *s, vr_arena *a)
{
    const vram_device *d = s->device;
    const vr_ledger *l = &out->ledger;
    if (out->plan.refused != NULL)
        return with_reason(out, VRAM_UNKNOWN, out->plan.refused);
    if (out->plan.doubt != NULL)
        return with_reason(out, doubted(l, d), out->plan.doubt);
    if (d != NULL && l->required_low > d->available.high) { /* whatever is not counted only adds to it */
        out->verdict = VRAM_DOES_NOT_FIT;
        return VRAM_OK;
    }
    if (d != NULL && more_than(d, &out->plan, l->required_low))
        return with_reason(out, VRAM_DOES_NOT_FIT, first_not_counted(&out->plan, a));
    if (!whole(s->model))
        return with_reason(out, VRAM_UNKNOWN, "files of the checkpoint are missing");
    if (!all_counted(&out->plan, s->model))
        return with_reason(out, VRAM_UNKNOWN, first_not_counted(&out->plan, a));
    out->verdict = VRAM_FITS;
    if (d == NULL || l->required_high <= d->available.low)
        return VRAM_OK;
    return with_reason(out, VRAM_TIGHT, why_tight(l, d, a));
}

/* ---- the answer ---- */

vram_status vr_answer_new(vr_answer *out, const vram_model *m, const vram_workload *resolved,
                          const vram_device *d, vr_arena *a, vr_hall *hall)
{
    vr_device_facts facts = vr_facts_of(d);
    vr_scene s = { .model = m, .workload = resolved, .device = d, .plans = a, .hall = hall };
    vr_rehearsal low, high;
    *out = (vr_answer){ .verdict = VRAM_UNKNOWN };
    VR_TRY(vr_planned(&s.here, &s, &facts));
    VR_TRY(vr_need_nominal(&out->needs, &out->run, &s));
    VR_TRY(vr_need(&low, NULL, &s, VR_LOW, d != NULL ? d->available.high : UINT64_MAX));
    VR_TRY(vr_need(&high, NULL, &s, VR_HIGH, d != NULL ? d->available.low : UINT64_MAX));
    out->plan = s.here->plan;
    out->here = s.here;
    VR_TRY(vr_ledger_new(&out->ledger, &s, &out->plan.tape, &out->needs.peak, &low.peak, &high.peak, a));
    if (d != NULL)
        out->headroom =
            vr_diff(d->available.bytes, vr_add_sat(out->ledger.required, out->plan.weights_at_least));
    return judge(out, &s, a);
}

static uint8_t basis_of(const vr_plan *p)
{
    return p->basis[VR_WEIGHTS] == VR_BASIS_FORMULA ? VR_BASIS_FORMULA : VR_BASIS_SIMULATED;
}

void vr_rooms_open(vr_rooms *r, vram_ctx *ctx)
{
    vr_arena_init(&r->kept, ctx);
    vr_arena_init(&r->trial, ctx);
    vr_hall_open(&r->hall, ctx);
}

void vr_rooms_close(vr_rooms *r)
{
    vr_arena_free(&r->kept);
    vr_arena_free(&r->trial);
    vr_hall_close(&r->hall);
}

vram_status vr_try(vr_trial *out, const vram_model *m, const vram_workload *w, const vram_device *d,
                   vr_rooms *rooms)
{
    vr_device_facts facts = vr_facts_of(d);
    vr_scene s = { .model = m, .workload = w, .device = d, .plans = &rooms->trial, .hall = &rooms->hall };
    vr_rehearsal needs;
    vr_arena_reset(&rooms->trial);
    VR_TRY(vr_planned(&s.here, &s, &facts));
    VR_TRY(vr_need_nominal(&needs, NULL, &s));
    out->required = counted_sum(&needs.peak, &s.here->plan);
    out->basis = basis_of(&s.here->plan);
    VR_TRY(fits_at_worst(&out->fits, &s, out->required));
    out->fits = out->fits && all_counted(&s.here->plan, m);
    return VRAM_OK;
}

vram_status vr_try_left(vr_trial_left *out, const vram_model *m, const vram_workload *w, const vram_device *d,
                        vr_rooms *rooms)
{
    vr_device_facts facts = vr_facts_of(d);
    vr_scene s = { .model = m, .workload = w, .device = d, .plans = &rooms->trial, .hall = &rooms->hall };
    vr_rehearsal needs, high;
    vr_arena_reset(&rooms->trial);
    VR_TRY(vr_planned(&s.here, &s, &facts));
    const vr_plan *p = &s.here->plan;
    VR_TRY(vr_need_nominal(&needs, NULL, &s));
    VR_TRY(vr_need(&high, NULL, &s, VR_HIGH, d->available.low));
    uint64_t most = vr_add_sat(counted_sum(&high.peak, p), p->weights_at_least);
    out->required = counted_sum(&needs.peak, p);
    out->counted = all_counted(p, m);
    out->left = p->stops != NULL || p->refused != NULL ? INT64_MIN : vr_diff(d->available.low, most);
    return VRAM_OK;
}
