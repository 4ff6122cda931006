/* SPDX-License-Identifier: MIT
 *
 * What a text says in which nothing failed.
 */
#include "diagnosis/order.h"

#define LAST_LINES 4 /* a log that ends so soon behind a step ended in it */

/* A start that ends in the middle of a step was cut off there. Serving, training: a run may end as it likes.
 */
static bool ended_in(const vr_findings *found, const vr_sign *s)
{
    uint8_t phase = s->row->phase;

    return s->row->kind == VR_TEXT_STEP && found->n_files <= 1 && found->lines < s->line + LAST_LINES &&
           (phase == VR_PHASE_LOAD || phase == VR_PHASE_PROFILE || phase == VR_PHASE_KV_CACHE ||
            phase == VR_PHASE_CAPTURE);
}

#define EXCERPT_LINES 60 /* of a longer log in which nothing failed nothing is wrong with its figures */

/* Somebody asks about lines with figures of the card. */
static bool is_figure(const vr_findings *found, const vr_sign *s)
{
    static const uint8_t shares[] = { VR_FACT_WEIGHTS,        VR_FACT_MODEL_BUFFER, VR_FACT_KV_CACHE,
                                      VR_FACT_KV_BUFFER,      VR_FACT_GRAPHS,       VR_FACT_ACTIVATION_PEAK,
                                      VR_FACT_COMPUTE_BUFFER, VR_FACT_POOL_USED,    VR_FACT_KV_TOKENS,
                                      VR_FACT_CARD_USED,      VR_FACT_RESERVED,     VR_FACT_PROJECTED };

    if (s->row->kind != VR_TEXT_INFO || found->lines > EXCERPT_LINES)
        return false;
    for (size_t i = 0; i < sizeof shares; i++)
        if (vr_fact_of(&s->facts, (vr_fact_id)shares[i]) != NULL)
            return true;
    return false;
}

/* How telling a sign is when there is nothing better: a warning before a frame before a step. 0: not at all.
 */
static unsigned weight(const vr_findings *found, const vr_sign *s)
{
    /* Where something follows from a failure that is not in the text, it did not just end. */
    if (found->n_events == 0 && ended_in(found, s))
        return 2;
    if (found->n_events == 0 && is_figure(found, s))
        return 1;
    if (s->row->kind == VR_TEXT_WARNING)
        return 100 + s->row->rank + (s->row->cause != VR_CAUSE_UNKNOWN ? 100 : 0);
    if (s->row->cause == VR_CAUSE_UNKNOWN)
        return 0;
    return s->row->kind == VR_TEXT_FRAME ? s->row->rank + 2u : 0;
}

/* Of several steps the last is the one in which the text ends. */
static bool more_telling(const vr_findings *found, const vr_sign *s, const vr_sign *than)
{
    unsigned a = weight(found, s), b = than != NULL ? weight(found, than) : 0;

    return a > b || (a != 0 && a == b && s->row->kind == VR_TEXT_STEP && s->line >= than->line);
}

vram_status vr_take_seen(struct vram_diagnosis *d)
{
    const vr_findings *found = &d->found;
    const vr_sign *best = NULL;
    vr_incident *made;

    for (size_t i = 0; i < found->n_seen; i++)
        if (more_telling(found, &found->seen[i], best))
            best = &found->seen[i];
    if (best == NULL)
        return VRAM_OK;
    made = VR_NEW(&d->arena, vr_incident);
    if (made == NULL)
        return VRAM_ENOMEM;
    made->sign = *best;
    made->block = best->text;
    d->list[d->n++].event = made;
    return VRAM_OK;
}
