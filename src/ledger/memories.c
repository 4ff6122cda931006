/* SPDX-License-Identifier: MIT
 *
 * The GPUs of one run: the cards that were given, one by one, and where the engine puts the model's pieces.
 */
#include "ledger/memories.h"

vram_status vr_memories_of(vr_memories *out, const vram_device *const *cards, size_t n, vram_ctx *ctx,
                           vr_arena *a)
{
    uint64_t total = 0;
    *out = (vr_memories){ .n = 0 };
    for (size_t i = 0; i < n; i++)
        total = vr_add_sat(total, cards[i]->count);
    if (total > VR_MOST_GPUS)
        return vr_fail(ctx, VRAM_ELIMIT, GROUPED(total), T(" GPUs are more than "), U(VR_MOST_GPUS),
                       T(", the most that one run is rehearsed on"));
    out->gpus = VR_ARRAY(a, vram_device, (size_t)total);
    if (out->gpus == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        for (uint64_t k = 0; k < cards[i]->count; k++) {
            vram_device *d = &out->gpus[out->n];
            *d = *cards[i];
            d->count = 1;
            d->facts.rank = out->n++;
        }
    }
    out->used = out->n > 0 ? 1 : 0;
    return VRAM_OK;
}

bool vr_spreads(const vram_workload *w)
{
    if (w->engine->place != NULL && w->engine->always_spreads)
        return true;
    return w->engine->place != NULL && w->device_map != VR_MAP_NONE && w->device_map != VR_MAP_CUDA;
}

vram_status vr_memories_place(vr_memories *out, const vram_model *m, const vram_workload *w, vr_arena *a)
{
    vr_device_facts facts[VR_MOST_GPUS];
    out->used = out->n > 0 ? 1 : 0;
    out->placement = (vr_placement){ .n_gpus = out->used };
    for (size_t i = 0; i < out->n; i++) {
        out->gpus[i].facts.placement = NULL;
        facts[i] = out->gpus[i].facts;
    }
    if (!vr_spreads(w) || out->n == 0)
        return VRAM_OK;
    VR_TRY(w->engine->place(&out->placement, m, w, facts, out->n, a));
    if (out->placement.unknown != NULL)
        return VRAM_OK;
    out->used = out->n;
    for (size_t i = 0; i < out->n; i++)
        out->gpus[i].facts.placement = &out->placement;
    return VRAM_OK;
}
