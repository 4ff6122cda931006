/* SPDX-License-Identifier: MIT
 *
 * The card that a message tells of: its total is printed with two decimals, which mostly is one card of the
 * table; and the one that was named beside it.
 */
#include "device/gpus.h"
#include "diagnosis/place.h"

#define LEAST_SIZE (256 * VR_MIB) /* as device.c has it */
#define MOST_SIZE (UINT64_C(64) << 40)

bool vr_is_size_of_card(vr_bounds total)
{
    return total.known && total.low >= LEAST_SIZE && total.high <= MOST_SIZE;
}

/* A total that was read counts before one that follows from a rule. What is stored in 8 bits or less may be
 * unpacked on older cards: of several the newest is taken then, for it ran. */
static const vr_gpu *of_table(vr_bounds total, bool newest)
{
    size_t n;
    const vr_gpu *g = vr_gpus(&n), *best = NULL;
    bool read = false;
    for (size_t i = 0; i < n; i++) {
        vr_range r = vr_gpu_usable(&g[i]);
        bool table = r.basis == VR_BASIS_TABLE;
        if (!vr_gpu_is_nvidia(&g[i]) || !vr_bounds_have(total, r.bytes))
            continue;
        if (best != NULL && newest && vr_gpu_capability(&g[i]) <= vr_gpu_capability(best))
            continue;
        if (best != NULL && !newest && (read || !table))
            continue;
        best = &g[i];
        read = table;
    }
    return best;
}

/* By the middle of what the total can have been. */
static vram_status of_size(vram_device *out, vr_bounds total, struct vram_diagnosis *d)
{
    vram_device *bare;
    uint64_t bytes = vr_bounds_middle(total);
    const char *size = vr_text(&d->arena, U(bytes / VR_MIB), T("MiB"));
    if (size == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vram_device_new(&bare, d->ctx, size, 0));
    *out = *bare;
    out->usable = (vr_range){ bytes, total.low, total.high, VR_BASIS_MEASURED };
    return VRAM_OK;
}

/* ---- the card that was named ---- */

const vram_device *vr_named_card(const vr_seeker *s)
{
    const vram_device *card = s->d->card;
    return card != NULL && !card->host && card->usable.bytes != 0 ? card : NULL;
}

vr_bounds vr_named_total(const vr_seeker *s)
{
    const vram_device *card = vr_named_card(s);
    if (card == NULL)
        return (vr_bounds){ .known = false };
    return (vr_bounds){ true, card->usable.low, card->usable.high };
}

uint64_t vr_named_free(const vr_seeker *s)
{
    const vram_device *card = vr_named_card(s);
    return card != NULL && card->free_given ? card->available.bytes : 0;
}

static bool agrees(const vram_device *card, vr_bounds total)
{
    return !total.known || (card->usable.low <= total.high && card->usable.high >= total.low);
}

/* The text was printed by what failed: it wins. */
static vram_status tell_apart(vr_seeker *s, const vram_device *card, vr_bounds total)
{
    s->warning =
        vr_text(&s->d->arena, T("the text tells of a card of "), BYTES(vr_bounds_middle(total)), T(", and "),
                T(card->name), T(" has "), BYTES(card->usable.bytes), T(": the text's figure counts"));
    return s->warning != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* Its context and its kernels are better known than those of any card of that size. */
static vram_status as_named(vram_device **out, const vram_device *named, vr_bounds total, vr_arena *a)
{
    vram_device *card = VR_NEW(a, vram_device);
    *out = card;
    if (card == NULL)
        return VRAM_ENOMEM;
    *card = *named;
    card->count = 1;
    card->free_given = false;
    if (!vr_bounds_have(total, card->usable.bytes))
        card->usable.bytes = vr_bounds_middle(total);
    card->available = card->usable;
    card->facts.usable = card->facts.available = card->usable.bytes;
    return VRAM_OK;
}

vram_status vr_card_of_text(vr_seeker *s, vr_bounds total)
{
    const vram_device *named = vr_named_card(s);
    if (named != NULL && agrees(named, total))
        return as_named(&s->card, named, total, &s->d->arena);
    if (named != NULL)
        VR_TRY(tell_apart(s, named, total));
    return vr_card_of_total(&s->card, total, s->model->quantised, s->d);
}

vram_status vr_card_of_total(vram_device **out, vr_bounds total, bool newest, struct vram_diagnosis *d)
{
    const vr_gpu *gpu = of_table(total, newest);
    vram_device *card = VR_NEW(&d->arena, vram_device);
    *out = card;
    if (card == NULL)
        return VRAM_ENOMEM;
    if (gpu == NULL || vr_device_of_gpu(card, gpu, 1, 0) != VRAM_OK)
        VR_TRY(of_size(card, total, d));
    card->ctx = d->ctx;
    card->facts.usable = card->usable.bytes;
    return VRAM_OK;
}

void vr_card_leaves(vram_device *card, uint64_t available)
{
    card->available = (vr_range){ available, available, available, VR_BASIS_MEASURED };
    card->free_given = true;
    card->facts.available = available;
}
