/* SPDX-License-Identifier: MIT
 *
 * `vram fit`: the answer for one model, workload and card, or for all cards of the table. A model is judged
 * whole on one card; splitting it over several is not computed here, which a warning says. */
#include "ledger/answer.h"

static void release(vr_object *self)
{
    vr_arena arena = ((vram_fit *)(void *)self)->arena;
    vr_arena_free(&arena);
}

static vram_status make(vram_fit **out, const vram_model *m)
{
    vr_arena arena;
    vr_arena_init(&arena, m->ctx);
    vram_fit *f = VR_NEW(&arena, vram_fit);
    if (f == NULL) {
        vr_arena_free(&arena);
        return VRAM_ENOMEM;
    }
    f->ctx = m->ctx;
    f->model = m;
    f->arena = arena;
    f->verdict = VRAM_UNKNOWN;
    vr_object_register(m->ctx, &f->object, release);
    *out = f;
    return VRAM_OK;
}

static vram_status take_answer(vram_fit *f, vr_rooms *rooms)
{
    vr_answer answer;
    VR_TRY(vr_answer_new(&answer, f->model, f->workload, f->device, &f->arena, &rooms->hall));
    f->plan = answer.plan;
    f->large = answer.large;
    f->run = answer.run;
    f->needs = answer.needs;
    f->ledger = answer.ledger;
    f->verdict = answer.verdict;
    f->verdict_reason = answer.reason;
    f->headroom = answer.headroom;
    return VRAM_OK;
}

/* Several cards, and one alone is not enough: how a model is split over them is not computed. */
static vram_status judge_several(vram_fit *f, uint64_t n_cards)
{
    if (n_cards < 2 || f->verdict != VRAM_DOES_NOT_FIT)
        return VRAM_OK;
    f->verdict = VRAM_UNKNOWN;
    f->verdict_reason = vr_text(&f->arena, T("it does not fit on one card, and splitting it over "),
                                U(n_cards), T(" is not computed yet"));
    return f->verdict_reason == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status fit_on_card(vram_fit *f, const vram_workload *asked, uint64_t n_cards, vr_rooms *rooms)
{
    VR_TRY(take_answer(f, rooms));
    VR_TRY(vr_fit_failure(f));
    vr_fit_count(f);
    VR_TRY(vr_levers(f, asked));
    return judge_several(f, n_cards);
}

/* ---- without a card: all of the table ---- */

static vram_status judge_cards(vram_fit *f, vr_deck *deck, size_t *first_fit)
{
    vram_verdict best = VRAM_DOES_NOT_FIT;
    f->cards = VR_ARRAY(&f->arena, struct vr_card, deck->n);
    if (f->cards == NULL)
        return VRAM_ENOMEM;
    *first_fit = deck->n;
    for (size_t i = 0; i < deck->n; i++) {
        struct vr_card *c = &f->cards[i];
        VR_TRY(vr_deck_judge(deck, i, &c->verdict, &c->required));
        c->gpu = deck->devices[i].gpu;
        c->headroom = vr_diff(deck->devices[i].available.bytes, c->required);
        if (c->verdict != VRAM_DOES_NOT_FIT && *first_fit == deck->n)
            *first_fit = i;
        if (c->verdict == VRAM_UNKNOWN || (best != VRAM_UNKNOWN && c->verdict < best))
            best = c->verdict;
    }
    f->n_cards = deck->n;
    f->verdict = best;
    return VRAM_OK;
}

/* Stands for all cards: the context of one, its range over all of them. */
static vram_device of_no_kind(const vr_deck *deck, size_t like)
{
    vram_device d = deck->devices[like];
    d.gpu = NULL;
    d.id = d.name = NULL;
    d.usable = d.available = (vr_range){ UINT64_MAX, UINT64_MAX, UINT64_MAX, VR_BASIS_ASSUMED };
    d.facts.usable = d.facts.available = UINT64_MAX;
    d.context.basis = VR_BASIS_ASSUMED;
    for (size_t i = 0; i < deck->n; i++) {
        const vr_range *c = &deck->devices[i].context;
        d.context.low = c->low < d.context.low ? c->low : d.context.low;
        d.context.high = c->high > d.context.high ? c->high : d.context.high;
    }
    return d;
}

static vram_status fit_on_any(vram_fit *f, vr_rooms *rooms)
{
    vr_deck deck;
    size_t first_fit;
    VR_TRY(vr_deck_new(&deck, f->model, f->workload, &f->arena, rooms));
    VR_TRY(judge_cards(f, &deck, &first_fit));
    if (deck.n == 0)
        return take_answer(f, rooms);
    vram_verdict verdict = f->verdict;
    vram_device stand_in = of_no_kind(&deck, first_fit < deck.n ? first_fit : deck.n - 1);
    f->device = &stand_in;
    vram_status status = take_answer(f, rooms);
    f->device = NULL;
    VR_TRY(status);
    f->headroom = 0;
    f->verdict = f->verdict == VRAM_UNKNOWN ? VRAM_UNKNOWN : verdict;
    return VRAM_OK;
}

/* ---- the whole ---- */

/* The card with the most room: the model goes there whole. Of it, what a memory fraction leaves. */
static vram_status take_roomiest(vram_fit *f, const vram_device *const *devices, size_t n)
{
    const vram_device *best = n > 0 ? devices[0] : NULL;
    for (size_t i = 1; i < n; i++) {
        if (devices[i]->available.bytes > best->available.bytes)
            best = devices[i];
    }
    f->device = best;
    if (best == NULL || f->workload->alloc.memory_fraction_permille == 0)
        return VRAM_OK;
    vram_device *capped = VR_NEW(&f->arena, vram_device);
    if (capped == NULL)
        return VRAM_ENOMEM;
    *capped = *best;
    vr_cap(capped, &f->workload->alloc);
    capped->free_given = true; /* what it has is not its total */
    f->device = capped;
    f->kept_free = best->available.bytes - capped->available.bytes;
    return VRAM_OK;
}

static vram_status count_cards(uint64_t *count, vram_ctx *ctx, const vram_device *const *devices, size_t n)
{
    *count = 0;
    for (size_t i = 0; i < n; i++)
        *count = vr_add_sat(*count, devices[i]->count);
    if (*count < 2)
        return VRAM_OK;
    return vr_warn(ctx, NULL, U(*count),
                   T(" cards: splitting a model over cards is not computed yet, the answer is for the "
                     "whole model on one of them"));
}

/* Files of another program, parts of a pipeline, and what is loaded on top of a model. */
static bool no_engine_for(const vram_model *m)
{
    return m->foreign || m->adapter != NULL || (m->checkpoint != NULL && m->checkpoint->pipeline != NULL);
}

/* Only of weights that are loaded as they are stored. */
static vram_status warn_fp32(const vram_model *m, const vram_workload *w)
{
    if (!m->fp32 || m->family == NULL || w->dtype != VR_F32 || w->weight_quant != VR_QUANT_NONE)
        return VRAM_OK;
    return vr_warn(m->ctx, NULL,
                   T("the checkpoint is in fp32 and loaded as that: twice the memory of bf16, which --dtype "
                     "bf16 takes"));
}

vram_status vram_fit_new(vram_fit **out, const vram_model *m, const vram_workload *w,
                         const vram_device *const *devices, size_t n)
{
    vr_rooms rooms;
    vram_fit *f;
    vram_workload *resolved;
    uint64_t n_cards;
    VR_TRY(make(&f, m));
    VR_TRY(vr_workload_resolve(&resolved, w, m, &f->arena));
    f->workload = resolved;
    f->foreign = no_engine_for(m) && !resolved->engine_given;
    VR_TRY(warn_fp32(m, resolved));
    VR_TRY(take_roomiest(f, devices, n));
    VR_TRY(count_cards(&n_cards, m->ctx, devices, n));
    vr_rooms_open(&rooms, m->ctx);
    vram_status status = f->device != NULL ? fit_on_card(f, w, n_cards, &rooms) : fit_on_any(f, &rooms);
    vr_rooms_close(&rooms);
    if (status == VRAM_OK)
        *out = f;
    return status;
}

vram_verdict vram_fit_verdict(const vram_fit *f)
{
    return f->verdict;
}
