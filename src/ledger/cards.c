/* SPDX-License-Identifier: MIT
 *
 * Which cards of the table hold it: one rehearsal without limit for each kind of card, and a rehearsal on a
 * card only where that does not decide. */
#include "ledger/answer.h"

/* Kinds by what an engine's plan may depend on: unknown, up to Ada, Hopper, Blackwell (cuBLAS's workspaces).
 */
static size_t kind_of(const vram_device *d)
{
    if (d->facts.cc_major == 0)
        return 0;
    return d->facts.cc_major < 9 ? 1 : d->facts.cc_major == 9 ? 2 : 3;
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
    vram_device endless = *d;
    vr_scene s = { &k->plan, deck->workload, &endless, &deck->rooms->scratch };
    endless.facts.usable = endless.facts.available = UINT64_MAX;
    VR_TRY(deck->workload->engine->plan(&k->plan, deck->model, deck->workload, &endless.facts,
                                        &deck->rooms->kept));
    VR_TRY(vr_play(&k->needs, &s, VR_NOMINAL, UINT64_MAX));
    VR_TRY(vr_peak(&k->low, &s, VR_LOW, &k->needs));
    VR_TRY(vr_peak(&k->high, &s, VR_HIGH, &k->needs));
    k->known = true;
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

static bool roomy(const vr_deck *deck, const struct vr_class *k, const vram_device *d)
{
    uint64_t margin = deck->workload->device_map == VR_MAP_NONE ? 0 : CAP_MARGIN;
    vr_live high = vr_live_with(&k->high, d->context.high, d->kernels.high);
    return vr_add_sat(high.driver, margin) <= d->available.low &&
           deck->workload->alloc.memory_fraction_permille == 0;
}

vram_status vr_deck_roomy(vr_deck *deck, size_t i, bool *out)
{
    struct vr_class *k;
    VR_TRY(class_of(deck, &deck->devices[i], &k));
    *out = roomy(deck, k, &deck->devices[i]) && vr_all_counted(&k->plan, deck->model);
    return VRAM_OK;
}

vram_status vr_deck_judge(vr_deck *deck, size_t i, vram_verdict *verdict, uint64_t *required)
{
    const vram_device *d = &deck->devices[i];
    struct vr_class *k;
    VR_TRY(class_of(deck, d, &k));
    vr_live nominal = vr_live_with(&k->needs.peak, d->context.bytes, d->kernels.bytes);
    vr_live low = vr_live_with(&k->low, d->context.low, d->kernels.low);
    *required = nominal.driver;
    if (roomy(deck, k, d))
        *verdict = vr_all_counted(&k->plan, deck->model) ? VRAM_FITS : VRAM_UNKNOWN;
    else if (vr_least_of(&low) > d->available.high)
        *verdict = VRAM_DOES_NOT_FIT;
    else
        return judge_closely(deck, d, verdict, required);
    return VRAM_OK;
}
