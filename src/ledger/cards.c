/* SPDX-License-Identifier: MIT
 *
 * Which cards of the table hold it: one rehearsal without limit for each kind of card, and a rehearsal on a
 * card only where that does not decide. */
#include "ledger/answer.h"

/* Kinds by what an engine's plan may depend on: the compute capability's first figure (kernels of the
 * attention, cuBLAS's workspaces); 0 is unknown. */
static size_t kind_of(const vram_device *d)
{
    return d->facts.cc_major < VR_DECK_KINDS ? d->facts.cc_major : 0;
}

static bool smaller(void *ud, const void *x, const void *y)
{
    const vram_device *a = x, *b = y;
    (void)ud;
    if (a->usable.bytes != b->usable.bytes)
        return a->usable.bytes < b->usable.bytes;
    return vr_str_cmp(vr_str_of(a->name), vr_str_of(b->name)) < 0;
}

vram_status vr_deck_new(vr_deck *out, const vram_model *m, const vram_workload *w, vr_arena *a,
                        vr_rooms *rooms)
{
    size_t n_gpus;
    const vr_gpu *gpus = vr_gpus(&n_gpus);
    *out = (vr_deck){ .model = m, .workload = w, .rooms = rooms };
    out->devices = VR_ARRAY(a, vram_device, n_gpus);
    if (out->devices == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n_gpus; i++) {
        vram_device *d = &out->devices[out->n];
        if (!vr_str_is(vr_str_of(gpus[i].vendor), "NVIDIA"))
            continue;
        vram_status status = vr_device_of_gpu(d, &gpus[i], 1, 0);
        if (status == VRAM_ENOMEM)
            return status;
        if (status == VRAM_OK && d->available.bytes > 0) /* otherwise nothing is known of its size */
            out->n++;
    }
    return vr_sort(w->ctx, out->devices, out->n, sizeof(out->devices[0]), smaller, NULL);
}

/* The facts of a kind without its limits: the plan of a card that is large enough. */
static vram_status plan_kind(const vr_deck *deck, struct vr_class *k, const vram_device *d)
{
    vr_device_facts facts = d->facts;
    vr_scene s = { &k->plan, deck->workload, d, &deck->rooms->scratch };
    facts.usable = facts.available = UINT64_MAX;
    VR_TRY(deck->workload->engine->plan(&k->plan, deck->model, deck->workload, &facts, &deck->rooms->kept));
    VR_TRY(vr_play(&k->needs, &s, VR_NOMINAL, UINT64_MAX));
    k->known = true;
    return VRAM_OK;
}

void vr_deck_know(vr_deck *deck, const vram_device *d, const vr_plan *plan, const vr_rehearsal *needs)
{
    struct vr_class *k = &deck->classes[kind_of(d)];
    if (deck->workload->device_map != VR_MAP_NONE)
        return;
    k->plan = *plan;
    k->needs = *needs;
    k->known = true;
}

/* The peak at one end of the inputs, on card d: rehearsed once for its kind. */
static vram_status end_of(vr_live *out, const vr_deck *deck, struct vr_class *k, const vram_device *d,
                          vr_inputs inputs)
{
    vr_scene s = { &k->plan, deck->workload, d, &deck->rooms->scratch };
    vr_live *end = inputs == VR_LOW ? &k->low : &k->high;
    bool *known = inputs == VR_LOW ? &k->low_known : &k->high_known;
    const vr_range *context = &d->context, *kernels = &d->kernels;
    if (!*known)
        VR_TRY(vr_peak(end, &s, inputs, &k->needs));
    *known = true;
    *out = inputs == VR_LOW ? vr_live_with(end, context->low, kernels->low)
                            : vr_live_with(end, context->high, kernels->high);
    return VRAM_OK;
}

/* Near the edge only a rehearsal on the card tells. */
static vram_status judge_closely(const vr_deck *deck, const vram_device *d, vram_verdict *verdict,
                                 uint64_t *required)
{
    vr_answer answer;
    vr_arena_reset(&deck->rooms->trial);
    VR_TRY(
        vr_answer_new(&answer, deck->model, deck->workload, d, &deck->rooms->trial, &deck->rooms->scratch));
    *verdict = answer.verdict;
    *required = answer.ledger.required;
    return VRAM_OK;
}

static vram_status class_of(vr_deck *deck, const vram_device *d, struct vr_class **out)
{
    *out = &deck->classes[kind_of(d)];
    return (*out)->known ? VRAM_OK : plan_kind(deck, *out, d);
}

/* With a device map the loader's warm-up block is capped 1.2 GiB below what is free (transformers 4.50): near
 * that the plan of an endless card is not this card's. */
#define CAP_MARGIN (2 * VR_GIB)

static vram_status roomy(const vr_deck *deck, struct vr_class *k, const vram_device *d, bool *out)
{
    uint64_t margin = deck->workload->device_map == VR_MAP_NONE ? 0 : CAP_MARGIN;
    vr_live nominal = vr_live_with(&k->needs.peak, d->context.bytes, d->kernels.bytes), high;
    *out = deck->workload->alloc.memory_fraction_permille == 0 &&
           vr_add_sat(nominal.driver, margin) <= d->available.low;
    if (!*out)
        return VRAM_OK;
    VR_TRY(end_of(&high, deck, k, d, VR_HIGH));
    *out = vr_add_sat(high.driver, margin) <= d->available.low;
    return VRAM_OK;
}

/* The plan of the kind is the card's, and without limit it stays below what the card has: it lives as it is.
 */
static bool lives_as_it_is(const vr_deck *deck, const struct vr_class *k, const vram_device *d)
{
    vr_live nominal = vr_live_with(&k->needs.peak, d->context.bytes, d->kernels.bytes);
    return deck->workload->device_map == VR_MAP_NONE && deck->workload->alloc.memory_fraction_permille == 0 &&
           nominal.driver <= d->available.bytes;
}

static vram_status lives_at_worst(const vr_deck *deck, struct vr_class *k, const vram_device *d, bool *out)
{
    vr_live high;
    vr_scene s = { &k->plan, deck->workload, d, &deck->rooms->scratch };
    VR_TRY(end_of(&high, deck, k, d, VR_HIGH));
    return vr_lives(out, &s, VR_HIGH, &high, d->available.low);
}

vram_status vr_deck_promising(vr_deck *deck, size_t i, bool *out)
{
    const vram_device *d = &deck->devices[i];
    struct vr_class *k;
    VR_TRY(class_of(deck, d, &k));
    vr_live nominal = vr_live_with(&k->needs.peak, d->context.bytes, d->kernels.bytes);
    *out = vr_all_counted(&k->plan, deck->model) && vr_least_of(&nominal) <= d->available.low;
    if (!*out || lives_as_it_is(deck, k, d))
        return VRAM_OK;
    if (deck->workload->device_map != VR_MAP_NONE) { /* the plan of this very card may be another */
        vr_trial trial;
        VR_TRY(vr_try(&trial, deck->model, deck->workload, d, deck->rooms));
        *out = trial.fits;
        return VRAM_OK;
    }
    return lives_at_worst(deck, k, d, out);
}

static vram_status judge_by_kind(const vr_deck *deck, struct vr_class *k, const vram_device *d,
                                 vram_verdict *verdict, bool *sure)
{
    vr_live low;
    bool counted = vr_all_counted(&k->plan, deck->model), lives;
    *sure = true;
    VR_TRY(roomy(deck, k, d, &lives));
    *verdict = counted ? VRAM_FITS : VRAM_UNKNOWN;
    if (lives)
        return VRAM_OK;
    *verdict = VRAM_DOES_NOT_FIT;
    if (vr_add_sat(k->needs.peak.items[VR_ITEM_PARAMETERS], d->context.low) > d->available.high)
        return VRAM_OK;
    if (counted && lives_as_it_is(deck, k, d)) {
        VR_TRY(lives_at_worst(deck, k, d, &lives));
        *verdict = lives ? VRAM_FITS : VRAM_TIGHT;
        return VRAM_OK;
    }
    VR_TRY(end_of(&low, deck, k, d, VR_LOW));
    *sure = vr_least_of(&low) > d->available.high;
    return VRAM_OK;
}

vram_status vr_deck_judge(vr_deck *deck, size_t i, vram_verdict *verdict, uint64_t *required)
{
    const vram_device *d = &deck->devices[i];
    struct vr_class *k;
    bool sure;
    VR_TRY(class_of(deck, d, &k));
    *required = vr_live_with(&k->needs.peak, d->context.bytes, d->kernels.bytes).driver;
    VR_TRY(judge_by_kind(deck, k, d, verdict, &sure));
    return sure ? VRAM_OK : judge_closely(deck, d, verdict, required);
}
