/* SPDX-License-Identifier: MIT
 *
 * Which cards of the table hold it: a plan for each kind of card, whose rehearsals are remembered; a plan and
 * rehearsals for a card of its own only where an engine plans by size. */
#include "ledger/answer.h"

/* Kinds by what an engine's plan may depend on: the compute capability's first figure (kernels of the
 * attention, cuBLAS's workspaces), of what is stored quantised also the second (whether the card can do with
 * it); 0 is unknown. */
static size_t kind_of(const vr_deck *deck, const vram_device *d)
{
    size_t kind = d->facts.cc_major * 10 + (deck->model->quantised ? d->facts.cc_minor : 0);
    return kind < VR_DECK_KINDS ? kind : 0;
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
        if (status != VRAM_OK || d->available.bytes == 0) /* nothing is known of its size */
            continue;
        vr_cap(d, w);
        out->n++;
    }
    return vr_sort(w->ctx, out->devices, out->n, sizeof(out->devices[0]), smaller, NULL);
}

static vram_status kind_for(vr_deck *deck, const vram_device *d, vr_rehearsed **out)
{
    vr_rehearsed **kind = &deck->kinds[kind_of(deck, d)];
    vr_scene s = { .model = deck->model, .workload = deck->workload, .plans = &deck->rooms->kept };
    if (*kind == NULL)
        VR_TRY(vr_planned(kind, &s, &d->facts));
    *out = *kind;
    return VRAM_OK;
}

void vr_deck_know(vr_deck *deck, const vram_device *d, vr_rehearsed *here)
{
    deck->kinds[kind_of(deck, d)] = here;
}

static vram_status scene_for(vr_scene *s, vr_deck *deck, size_t i)
{
    const vram_device *d = &deck->devices[i];
    *s = (vr_scene){ .model = deck->model,
                     .workload = deck->workload,
                     .device = d,
                     .plans = &deck->rooms->trial,
                     .hall = &deck->rooms->hall };
    if (!deck->workload->engine->plans_by_size)
        return kind_for(deck, d, &s->here);
    vr_arena_reset(&deck->rooms->trial); /* of sums: another card's is of no use */
    return vr_planned(&s->here, s, &d->facts);
}

vram_status vr_deck_fits(vr_deck *deck, size_t i, bool *fits, uint64_t *required)
{
    vr_scene s;
    VR_TRY(scene_for(&s, deck, i));
    return vr_fits(fits, required, &s);
}

vram_status vr_deck_judge(vr_deck *deck, size_t i, vram_verdict *verdict, uint64_t *required)
{
    vr_scene s;
    VR_TRY(scene_for(&s, deck, i));
    return vr_judge(verdict, required, &s);
}
