/* SPDX-License-Identifier: MIT
 *
 * A run that a device map spreads over several cards, of which one was full. How many there were is not
 * printed: some numbers are tried, of cards like the one that the message tells of.
 */
#include "diagnosis/place.h"
#include "ledger/memories.h"

/* How many were named beside the text; 0: that is not told. */
static size_t named_cards(const vr_seeker *s)
{
    const vram_device *card = vr_named_card(s);
    return card != NULL && card->count > 1 && card->count <= VR_MOST_CARDS ? (size_t)card->count : 0;
}

static bool may_spread(const vr_seeker *s)
{
    const vram_workload *w = s->asked;
    if (w->engine->place == NULL || w->engine->always_spreads)
        return false;
    if (w->set_by[VR_SET_DEVICE_MAP] == VR_BY_USER)
        return vr_spreads(w);
    if (s->f->event->sign.rank >= 0) /* of a job: each process has a card and the whole model */
        return false;
    return s->rank > 0 || named_cards(s) != 0 || vr_seen(&s->d->found, s->f->event, "opt-device-map");
}

static vram_status seek_over(vr_hit *out, vr_seeker *s, size_t cards)
{
    vr_tokens likely;
    s->cards = cards;
    VR_TRY(vr_seek(out, s, s->asked));
    if (out->places == 0)
        VR_TRY(vr_seek_tokens(out, &likely, s));
    if (out->places == 0)
        return VRAM_OK;
    out->assumed =
        vr_text(&s->d->arena, T("device_map=\"auto\" over "), U(cards), T(cards == 1 ? " card" : " cards"),
                T(out->assumed != NULL ? ", " : ""), T(out->assumed != NULL ? out->assumed : ""));
    return VRAM_OK;
}

vram_status vr_seek_cards(vr_hit *out, vr_seeker *s)
{
    static const uint8_t numbers[] = { 2, 4, 3, 8, 1, 5, 6, 7 };
    const size_t told = named_cards(s), n = told != 0 ? sizeof numbers : 5; /* five to seven are rare */
    const vram_workload *given = s->asked;
    vram_workload *w;
    vr_bounds rank = vr_bounds_of(s->f, VR_FACT_GPU);
    s->rank = rank.known && rank.low < VR_MOST_CARDS ? (size_t)rank.low : 0;
    out->places = 0;
    w = may_spread(s) ? vr_workload_copy(given, &s->d->arena) : NULL;
    for (size_t i = 0; i < n && w != NULL && out->places == 0; i++) {
        if (numbers[i] <= s->rank || (told != 0 && told != numbers[i]))
            continue;
        if (!vr_spreads(w))
            w->device_map = VR_MAP_AUTO;
        w->set_by[VR_SET_DEVICE_MAP] = VR_BY_USER;
        s->asked = w;
        vram_status status = seek_over(out, s, numbers[i]);
        s->asked = given;
        if (status != VRAM_OK)
            return vr_is_refusal(status) ? VRAM_OK : status;
    }
    if (out->places == 0) {
        s->cards = 1;
        s->rank = 0;
    }
    return VRAM_OK;
}
