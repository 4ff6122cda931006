/* SPDX-License-Identifier: MIT
 *
 * `vram fit`: the answer for one model, workload and the cards of one run, or for all cards of the table,
 * each alone. */
#include "ledger/solver.h"

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
    f->here = answer.here;
    f->run = answer.run;
    f->needs = answer.needs;
    f->ledger = answer.ledger;
    f->verdict = answer.verdict;
    f->verdict_reason = answer.reason;
    f->headroom = answer.headroom;
    return VRAM_OK;
}

/* ---- on cards ---- */

static bool spreads(const vram_fit *f)
{
    return f->workload->engine->place != NULL && !f->foreign && !f->model->foreign;
}

/* One card alone is not enough, and how the model is split over several or over card and CPU is not known. */
static vram_status not_spread(vram_fit *f)
{
    bool unknown = f->placement != NULL && f->placement->unknown != NULL && f->stops == NULL;
    bool several = f->n_gpus > 1 && !spreads(f);
    if ((!several && !unknown) || f->verdict != VRAM_DOES_NOT_FIT)
        return VRAM_OK;
    f->verdict = VRAM_UNKNOWN;
    if (f->n_gpus == 1) {
        f->verdict_reason =
            "it does not fit on the card, and what the device map leaves to the CPU is not computed";
        return VRAM_OK;
    }
    f->verdict_reason = vr_text(&f->arena, T("it does not fit on one card, and splitting it over "),
                                U(f->n_gpus), T(" is not computed yet"));
    return f->verdict_reason == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status warn_not_spread(const vram_fit *f)
{
    const char *why = f->placement != NULL ? f->placement->unknown : NULL;
    if (why != NULL && f->workload->engine->always_spreads && f->model->gguf)
        return VRAM_OK; /* the ledger says so */
    if (f->n_gpus == 1 && why != NULL && !f->workload->engine->always_spreads)
        return vr_warn(f->ctx, NULL, T("where the device map puts the pieces is not computed here ("), T(why),
                       T("), the answer is for the whole model on the card"));
    if (f->n_gpus < 2 || (spreads(f) && why == NULL))
        return VRAM_OK;
    return vr_warn(f->ctx, NULL, U(f->n_gpus), T(" cards: splitting a model over cards is not computed here"),
                   T(why != NULL ? " (" : ""), T(why != NULL ? why : ""), T(why != NULL ? ")" : ""),
                   T(", the answer is for the whole model on one of them"));
}

/* The card with the most room. */
static const vram_device *roomiest(const vr_memories *gpus)
{
    const vram_device *best = &gpus->gpus[0];
    for (size_t i = 1; i < gpus->n; i++)
        best = gpus->gpus[i].available.bytes > best->available.bytes ? &gpus->gpus[i] : best;
    return best;
}

/* How bad, from the best to the worst. */
static unsigned rank_of(vram_verdict v)
{
    switch (v) {
    case VRAM_FITS:
        return 0;
    case VRAM_TIGHT:
        return 1;
    case VRAM_UNKNOWN:
        return 2;
    default:
        return 3;
    }
}

static bool worse(const vram_fit *a, const vram_fit *b)
{
    bool idle = a->plan.weight_bytes == 0;
    if (rank_of(a->verdict) != rank_of(b->verdict))
        return rank_of(a->verdict) > rank_of(b->verdict);
    if (a->verdict == VRAM_FITS && idle != (b->plan.weight_bytes == 0))
        return !idle; /* it has no part of the model */
    if (a->run.failed && b->run.failed && a->run.failure.next_moment != b->run.failure.next_moment)
        return a->run.failure.next_moment < b->run.failure.next_moment; /* the run ends there */
    return a->headroom < b->headroom;
}

static vram_status judge_rank(vram_fit *out, vram_fit *f, const vram_device *device, vr_rooms *rooms)
{
    *out = *f;
    out->device = device;
    vram_status status = take_answer(out, rooms);
    if (status == VRAM_OK)
        status = vr_fit_failure(out);
    f->arena = out->arena; /* it is one and the same */
    return status;
}

static void take_worst(vram_fit *f)
{
    const vram_fit *worst = &f->ranks[0];
    for (size_t i = 1; i < f->n_ranks; i++)
        worst = worse(&f->ranks[i], worst) ? &f->ranks[i] : worst;
    vram_fit merged = *worst;
    merged.object = f->object;
    merged.arena = f->arena;
    merged.ranks = f->ranks;
    merged.n_ranks = f->n_ranks;
    *f = merged;
}

static vram_status judge_ranks(vram_fit *f, const vr_memories *gpus, vr_rooms *rooms)
{
    vram_fit *ranks = VR_ARRAY(&f->arena, vram_fit, gpus->used);
    if (ranks == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < gpus->used; i++)
        VR_TRY(judge_rank(&ranks[i], f, &gpus->gpus[i], rooms));
    f->ranks = ranks;
    f->n_ranks = gpus->used;
    take_worst(f);
    f->count_note = "of a model that is spread over several cards the number is not computed";
    return VRAM_OK;
}

/* Nothing is loaded: the engine stops with an error of its own. */
static void stop(vram_fit *f)
{
    f->stops = f->placement != NULL && f->placement->refused != NULL ? f->placement->refused : f->plan.stops;
    if (f->stops == NULL)
        return;
    for (size_t i = 0; i < f->n_ranks; i++)
        f->ranks[i].stops = f->stops;
    f->verdict = VRAM_DOES_NOT_FIT;
    if (f->workload->engine->always_spreads)
        f->verdict_reason = "it does not start with these settings";
    else
        f->verdict_reason = f->stops == f->plan.stops
                                ? "transformers refuses these weights on this card"
                                : "the loader puts a part on the CPU or the disk, which bitsandbytes refuses";
}

/* Layers or experts of an engine that says where each is. */
static bool leaves_some(const vram_fit *f)
{
    const vr_placement *p = f->placement;
    return f->verdict == VRAM_FITS && p != NULL && p->unknown == NULL && p->host.told &&
           vr_add_sat(p->layers_off, p->experts_off) != 0;
}

/* It lives, but not on the cards alone. */
static vram_status tell_offload(vram_fit *f)
{
    const vr_placement *p = f->placement;
    if (f->slow || leaves_some(f)) {
        uint64_t n = p->layers_off != 0 ? p->layers_off : p->experts_off;
        f->verdict_reason = vr_text(&f->arena, T("but "), T(p->layers_off != 0 ? "" : "the experts of "),
                                    U(n), T(n == 1 ? " layer stays" : " layers stay"), T(" on the CPU"));
        return f->verdict_reason == NULL ? VRAM_ENOMEM : VRAM_OK;
    }
    if (f->verdict != VRAM_FITS || p == NULL || p->unknown != NULL ||
        vr_add_sat(p->host_bytes, p->disk_bytes) == 0)
        return VRAM_OK;
    f->verdict_reason = vr_text(&f->arena, T("but "), BYTES(vr_add_sat(p->host_bytes, p->disk_bytes)),
                                T(" of the weights stay on the CPU"));
    return f->verdict_reason == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* Where nobody said how much there is, the need is all that can be told. */
static void judge_without(vram_fit *f)
{
    if (!f->device->host)
        return;
    f->run.failed = false; /* nothing dies at a known place: pages are swapped, or read again */
    f->message = f->message_version = NULL;
    if (f->verdict == VRAM_DOES_NOT_FIT && f->stops == NULL)
        f->verdict_reason = "weights that find no room are read from the disk again for each token";
    if (f->device->available.bytes != UINT64_MAX)
        return;
    f->headroom = 0;
    if (f->verdict != VRAM_FITS)
        return;
    f->verdict = VRAM_UNKNOWN;
    f->verdict_reason = "whether the computer has that is not said (--host-memory SIZE)";
}

/* Of the memory that the computer was said to have. */
static vram_status judge_host(vram_fit *f)
{
    const vr_placement *p = f->placement;
    uint64_t need, has = f->workload->host_memory;
    if (p == NULL || p->unknown != NULL || !p->host.told || has == 0)
        return VRAM_OK;
    need = vr_host_bytes(&p->host);
    if (need <= has || f->stops != NULL)
        return VRAM_OK;
    f->verdict = VRAM_DOES_NOT_FIT;
    f->verdict_reason =
        vr_text(&f->arena, T("but the computer's memory is "), BYTES(need - has), T(" short"));
    return f->verdict_reason == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status fit_on_cards(vram_fit *f, const vram_workload *asked, vr_memories *gpus, vr_rooms *rooms)
{
    VR_TRY(vr_memories_place(gpus, f->model, f->workload, &f->arena));
    f->placement = vr_spreads(f->workload) && spreads(f) ? &gpus->placement : NULL;
    f->device = spreads(f) ? &gpus->gpus[0] : roomiest(gpus);
    VR_TRY(warn_not_spread(f));
    if (gpus->used > 1) {
        VR_TRY(judge_ranks(f, gpus, rooms));
    } else {
        VR_TRY(take_answer(f, rooms));
        VR_TRY(vr_fit_failure(f));
        if (f->device->host)
            f->count_note = "there is no GPU";
        else
            vr_fit_count(f);
    }
    if (f->plan.says != NULL)
        f->says = f->plan.says;
    if (f->plan.notice != NULL && *f->plan.notice != '\0')
        VR_TRY(vr_warn(f->ctx, NULL, T(f->plan.notice)));
    if (f->device->available.bytes != UINT64_MAX)
        VR_TRY(vr_levers(f, asked, gpus));
    stop(f);
    VR_TRY(tell_offload(f));
    judge_without(f);
    VR_TRY(judge_host(f));
    return not_spread(f);
}

/* .to("cuda") is cuda:0, whatever else there is. */
static vram_status warn_all_on_first(const vram_fit *f)
{
    if (f->n_gpus < 2 || !spreads(f) || vr_spreads(f->workload))
        return VRAM_OK;
    const char *to = f->workload->device_map == VR_MAP_CUDA ? "device_map=\"cuda\"" : ".to(\"cuda\")";
    if (f->n_gpus == 2)
        return vr_warn(f->ctx, NULL, T(to),
                       T(" puts the whole model on GPU 0, and GPU 1 stays empty: "
                         "device_map=\"auto\" spreads it (here --device-map auto)"));
    return vr_warn(f->ctx, NULL, T(to), T(" puts the whole model on GPU 0, and the other "), U(f->n_gpus - 1),
                   T(" stay empty: device_map=\"auto\" spreads it (here --device-map auto)"));
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

/* Of llama.cpp where --fit was asked for. */
static bool left_to_cards(const vram_fit *f)
{
    const vram_workload *w = f->workload;
    bool fit = !vr_engine_has(w->engine, VR_SET_FIT) || w->set_by[VR_SET_FIT] == VR_BY_USER;
    return w->engine->by_cards != NULL && fit && !w->compared && f->model->gguf &&
           w->set_by[VR_SET_CONTEXT] != VR_BY_USER;
}

static vram_status fit_on_any(vram_fit *f, vr_rooms *rooms)
{
    vr_deck deck;
    size_t first_fit;
    if (vr_spreads(f->workload) && !f->workload->engine->always_spreads)
        VR_TRY(vr_warn(
            f->ctx, NULL,
            T("a device map fills a single card to nine tenths: on the smallest of the cards that fit "
              "a part stays on the CPU, which --gpu shows")));
    if (left_to_cards(f))
        VR_TRY(vr_warn(f->ctx, NULL, T("the context that "), T(f->workload->engine->name),
                       T(" takes by itself depends on the card (--gpu); "), GROUPED(f->workload->context),
                       T(" tokens are counted here (-c)")));
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

/* --gpu none stands alone, and for an engine that runs so. */
static vram_status check_host(const vram_fit *f, vr_memories *gpus)
{
    const vr_engine *e = f->workload->engine;
    for (size_t i = 0; i < gpus->n; i++) {
        vram_device *d = &gpus->gpus[i];
        if (!d->host)
            continue;
        if (gpus->n > 1)
            return vr_fail(f->ctx, VRAM_ESETTING, T("--gpu none is no card beside others"));
        if (!e->runs_on_host)
            return vr_fail(f->ctx, VRAM_ESETTING, T("--gpu none: "), T(e->name),
                           T(" is computed on GPUs here; llama.cpp and ollama also run without"));
        if (f->workload->host_memory == 0 && !d->free_given && f->asked->solve != 0)
            return vr_fail(f->ctx, VRAM_ESETTING,
                           T("what fits depends on how much memory there is: --host-memory says it"));
        if (f->workload->host_memory == 0)
            return VRAM_OK;
        d->usable.bytes = d->usable.low = d->usable.high = f->workload->host_memory;
        d->available = d->usable;
        d->facts.usable = d->facts.available = d->usable.bytes;
        d->free_given = true;
    }
    return VRAM_OK;
}

/* Of each card, what a memory fraction or the engine's share leaves. */
static void cap_all(vram_fit *f, vr_memories *gpus)
{
    for (size_t i = 0; i < gpus->n; i++) {
        uint64_t before = gpus->gpus[i].available.bytes;
        if (!vr_is_capped(f->workload, &gpus->gpus[i]))
            continue;
        vr_cap(&gpus->gpus[i], f->workload);
        gpus->gpus[i].free_given = true; /* what it has is not its total */
        if (i == 0)
            f->kept_free = before - gpus->gpus[i].available.bytes;
    }
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

/* What the engine takes by the cards stands as if it had been given, but for who gave it. */
static vram_status take_by_cards(vram_fit *f, const vram_workload **asked, const vr_memories *gpus)
{
    const vr_engine *e = f->workload->engine;
    vr_device_facts facts[VR_MOST_GPUS];
    vram_workload *given, *resolved;
    if (e->by_cards == NULL || gpus->n == 0 || f->foreign || (*asked)->compared)
        return VRAM_OK;
    for (size_t i = 0; i < gpus->n; i++)
        facts[i] = gpus->gpus[i].facts;
    given = vr_workload_copy(*asked, &f->arena);
    if (given == NULL)
        return VRAM_ENOMEM;
    given->prepared = f->workload->prepared;
    VR_TRY(e->by_cards(given, &f->says, f->workload, f->model, facts, gpus->n, &f->arena));
    VR_TRY(vr_workload_resolve(&resolved, given, f->model, &f->arena));
    f->workload = resolved;
    *asked = f->asked = given;
    return VRAM_OK;
}

/* Of `asked`, which take_by_cards made of `typed`. */
static vram_status name_setters(vram_fit *f, const vram_workload *typed, const vram_workload *asked)
{
    vram_workload *w;
    if (typed == asked)
        return VRAM_OK;
    w = vr_workload_copy(f->workload, &f->arena);
    if (w == NULL)
        return VRAM_ENOMEM;
    for (int i = 0; i < VR_SETTING_COUNT; i++) {
        vr_setting s = (vr_setting)i;
        if (asked->set_by[s] == typed->set_by[s] || w->set_by[s] != VR_BY_USER)
            continue;
        if (vr_workload_same(w, asked, s, &f->arena))
            w->set_by[s] =
                s == VR_SET_CONTEXT && w->context == f->model->max_context ? VR_BY_MODEL : VR_BY_DEFAULT;
    }
    f->workload = w;
    return VRAM_OK;
}

vram_status vram_fit_new(vram_fit **out, const vram_model *m, const vram_workload *w,
                         const vram_device *const *devices, size_t n)
{
    vr_rooms rooms;
    vram_fit *f;
    vram_workload *resolved;
    vr_memories *gpus;
    VR_TRY(make(&f, m));
    VR_TRY(vr_workload_resolve(&resolved, w, m, &f->arena));
    f->workload = resolved;
    f->asked = w;
    f->foreign = no_engine_for(m) && !resolved->engine_given;
    VR_TRY(warn_fp32(m, resolved));
    gpus = VR_NEW(&f->arena, vr_memories);
    if (gpus == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_memories_of(gpus, devices, n, m->ctx, &f->arena));
    f->n_gpus = gpus->n;
    VR_TRY(check_host(f, gpus));
    cap_all(f, gpus);
    VR_TRY(warn_all_on_first(f));
    const vram_workload *typed = w;
    VR_TRY(take_by_cards(f, &w, gpus));
    const vram_workload *given = w;
    vr_rooms_open(&rooms, m->ctx);
    vram_status status = w->solve != 0 ? vr_solver_answer(f, &w, gpus, &rooms) : VRAM_OK;
    if (status == VRAM_OK)
        status = name_setters(f, typed, given);
    if (status == VRAM_OK)
        status = gpus->n != 0 ? fit_on_cards(f, w, gpus, &rooms) : fit_on_any(f, &rooms);
    bool starved = f->arena.starved || rooms.kept.starved || rooms.trial.starved;
    vr_rooms_close(&rooms);
    if (status == VRAM_OK && starved)
        return VRAM_ENOMEM;
    if (status == VRAM_OK)
        *out = f;
    return status;
}

vram_verdict vram_fit_verdict(const vram_fit *f)
{
    return f->verdict;
}

int64_t vram_fit_headroom(const vram_fit *f)
{
    return f->headroom;
}

bool vram_fit_may(const vram_fit *f)
{
    if (vr_leaves_off(f->workload, f->placement))
        return false;
    return f->verdict == VRAM_FITS || (f->verdict == VRAM_UNKNOWN && f->device != NULL && f->headroom >= 0);
}

vram_status vram_fit_quants(vram_fit *f, const vram_quant *list, size_t n, size_t chosen)
{
    vram_quant *copy = VR_ARRAY(&f->arena, vram_quant, n);
    if (copy == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        copy[i] = list[i];
        copy[i].name = vr_arena_copy(&f->arena, vr_str_of(list[i].name));
        if (copy[i].name == NULL)
            return VRAM_ENOMEM;
    }
    f->quants = copy;
    f->n_quants = n;
    f->quant = chosen;
    return VRAM_OK;
}
