/* SPDX-License-Identifier: MIT
 *
 * Levers of `vram fit`: single changes of the workload, each planned and rehearsed anew; the smallest card
 * that holds it; and pairs where no single change does. What to type is written as transformers and PyTorch
 * spell it. Cost classes: 0 nothing is lost, 1 less at once, 2 shorter, 3 and 4 quality (8 and 4 bits), 5
 * other hardware. */
#include <string.h>

#include "ledger/solver.h"

#define LEAST_CONTEXT 256 /* tokens; below, the change would make the run useless */
#define LITTLE 16         /* of all that is needed, the part that a cache of another kind has to save */
#define MOST_PAIRS 3      /* shown */
#define MOST_TRIES 6      /* pairs rehearsed */

/* What a change is made of: w is the workload as the user gave it and is changed; now is what it was resolved
 * to. */
typedef struct change {
    vram_workload *w;
    const vram_workload *now;
    const vram_model *m;
    size_t n_gpus;
    vr_arena *arena;
} change;

/* ---- the changes: *applies; words come after ---- */

static void set(change *c, vr_setting s)
{
    c->w->set_by[s] = VR_BY_USER;
}

static bool version_from(const vram_workload *w, unsigned major, unsigned minor)
{
    return w->version_major > major || (w->version_major == major && w->version_minor >= minor);
}

/* transformers computed all logits in every prefill before 4.45 (pull request 31292). */
static vram_status logits_last(change *c, bool *applies)
{
    bool can = c->m->source_positions == 0; /* Whisper's forward gives all of them */
    *applies = can && c->now->logits != VR_LOGITS_LAST && version_from(c->now, 4, 45);
    c->w->logits = VR_LOGITS_LAST;
    set(c, VR_SET_LOGITS);
    return VRAM_OK;
}

/* sdpa knows no soft-capped scores. */
static vram_status attention_sdpa(change *c, bool *applies)
{
    *applies = c->now->attention == VR_IMPL_EAGER && c->m->attention_softcap == 0;
    c->w->attention = VR_IMPL_SDPA;
    set(c, VR_SET_ATTENTION);
    return VRAM_OK;
}

static bool stored_in_16(const vram_model *m)
{
    return m->dtype == VR_BF16 || m->dtype == VR_F16;
}

static vram_status dtype_16(change *c, bool *applies)
{
    *applies = c->now->dtype == VR_F32;
    c->w->dtype = stored_in_16(c->m) ? c->m->dtype : VR_BF16;
    c->w->dtype_auto = false;
    set(c, VR_SET_DTYPE);
    return VRAM_OK;
}

/* What is set already stays. */
static vram_status expandable(change *c, bool *applies)
{
    const char *had = c->now->alloc_text != NULL && *c->now->alloc_text != '\0' ? c->now->alloc_text : NULL;
    const char *text = vr_text(c->arena, T(had != NULL ? had : ""), T(had != NULL ? "," : ""),
                               T("expandable_segments:True"));
    *applies = !c->now->alloc.expandable_segments;
    if (text == NULL)
        return VRAM_ENOMEM;
    c->w->alloc_text = text;
    set(c, VR_SET_ALLOC_CONF);
    return *applies ? vr_alloc_conf_parse(&c->w->alloc, c->w->ctx, vr_str_of(text)) : VRAM_OK;
}

static vram_status half_sequences(change *c, bool *applies)
{
    *applies = c->now->sequences >= 2;
    c->w->sequences = c->now->sequences / 2;
    if (c->w->prefill_batch > c->w->sequences)
        c->w->prefill_batch = c->w->sequences;
    set(c, VR_SET_SEQUENCES);
    return VRAM_OK;
}

static vram_status half_context(change *c, bool *applies)
{
    *applies = c->now->context / 2 >= LEAST_CONTEXT;
    c->w->context = c->now->context / 2;
    set(c, VR_SET_CONTEXT);
    return VRAM_OK;
}

static vram_status map_auto(change *c, bool *applies)
{
    const vr_engine *e = c->now->engine;
    bool known = e->place != NULL && (e->places == NULL || e->places(c->m, c->now));
    *applies = c->n_gpus > 1 && !vr_spreads(c->now) && known;
    c->w->device_map = VR_MAP_AUTO;
    set(c, VR_SET_DEVICE_MAP);
    return VRAM_OK;
}

static vram_status quantise(change *c, bool *applies, vr_weight_quant to)
{
    *applies = c->now->weight_quant == VR_QUANT_NONE && !c->m->quantised;
    c->w->weight_quant = (uint8_t)to;
    set(c, VR_SET_WEIGHT_QUANT);
    return VRAM_OK;
}

static vram_status weights_8(change *c, bool *applies)
{
    return quantise(c, applies, VR_QUANT_BNB_8BIT);
}

static vram_status weights_4(change *c, bool *applies)
{
    return quantise(c, applies, VR_QUANT_BNB_4BIT);
}

/* Where the engine's tape is known with it: caches have layers since 4.56, and those of one kind. */
static bool can_move_cache(const change *c)
{
    bool plain = c->m->structure == VR_DECODER && c->m->n_layers != 0;
    for (uint64_t i = 0; plain && i < c->m->n_layers; i++)
        plain = c->m->layers[i].attention == VR_ATTENTION_FULL ||
                c->m->layers[i].attention == VR_ATTENTION_SLIDING;
    return plain && c->now->cache == VR_CACHE_DYNAMIC && c->now->beams <= 1 && c->now->images == 0 &&
           c->now->drafts == 0 && version_from(c->now, 4, 56);
}

static vram_status cache_offloaded(change *c, bool *applies)
{
    *applies = can_move_cache(c);
    c->w->cache = VR_CACHE_OFFLOADED;
    set(c, VR_SET_CACHE);
    return VRAM_OK;
}

/* Layers that slide are refused when the workload is resolved. */
static vram_status cache_quantized(change *c, bool *applies)
{
    *applies = can_move_cache(c) && version_from(c->now, 5, 0);
    c->w->cache = VR_CACHE_QUANTIZED;
    set(c, VR_SET_CACHE);
    return VRAM_OK;
}

/* flag, option: "%" stands for the setting's new value; NULL: nothing to type. */
static const struct row {
    const char *id;
    vram_status (*apply)(change *c, bool *applies);
    vr_setting setting;
    unsigned cost_class;
    const char *change, *flag, *older_flag; /* before transformers older_major.older_minor */
    unsigned older_major, older_minor;
    const char *option, *cost;
} ROWS[] = {
    { "logits_last", logits_last, VR_SET_LOGITS, 0, "logits of the last position only",
      "logits_to_keep=1 (generate() does it by itself)",
      "num_logits_to_keep=1 (generate() does it by itself)", 4, 50, "--logits last",
      "nothing, unless every position's logits are needed" },
    { "attention_sdpa", attention_sdpa, VR_SET_ATTENTION, 0, "sdpa instead of eager attention",
      "attn_implementation=\"sdpa\"", NULL, 0, 0, "--attention sdpa",
      "nothing; attention weights cannot be returned" },
    { "dtype_16bit", dtype_16, VR_SET_DTYPE, 0, "16-bit weights instead of fp32", "dtype=torch.%",
      "torch_dtype=torch.%", 4, 56, "--dtype %", NULL },
    { "expandable_segments", expandable, VR_SET_ALLOC_CONF, 0, "expandable segments in PyTorch's allocator",
      "PYTORCH_CUDA_ALLOC_CONF=%", NULL, 0, 0, "--alloc-conf %",
      "nothing; set it before the process starts" },
    { "device_map_auto", map_auto, VR_SET_DEVICE_MAP, 0, "the layers spread over all cards",
      "device_map=\"%\"", NULL, 0, 0, "--device-map %", "one card works at a time" },
    { "half_sequences", half_sequences, VR_SET_SEQUENCES, 1, "% sequences at once", NULL, NULL, 0, 0,
      "--sequences %", "less at once: more passes for the same work" },
    { "cache_offloaded", cache_offloaded, VR_SET_CACHE, 1, "keys and values in host memory",
      "generate(..., cache_implementation=\"%\")", NULL, 0, 0, "--cache %",
      "slower: a layer's keys and values come to the card for each token" },
    { "half_context", half_context, VR_SET_CONTEXT, 2, "a context of % tokens",
      "tokenizer(..., truncation=True, max_length=%)", NULL, 0, 0, "--context %", "shorter prompts" },
    { "weights_8bit", weights_8, VR_SET_WEIGHT_QUANT, 3, "weights in 8 bits (bitsandbytes)",
      "quantization_config=BitsAndBytesConfig(load_in_8bit=True)", NULL, 0, 0, "--quantization %",
      "a small loss of quality" },
    { "cache_quantized", cache_quantized, VR_SET_CACHE, 4, "keys and values in 4 bits (quanto)",
      "generate(..., cache_implementation=\"%\")", NULL, 0, 0, "--cache %",
      "some loss of quality, and slower" },
    { "weights_4bit", weights_4, VR_SET_WEIGHT_QUANT, 4, "weights in 4 bits (bitsandbytes)",
      "quantization_config=BitsAndBytesConfig(load_in_4bit=True)", NULL, 0, 0, "--quantization %",
      "some loss of quality" },
};
#define N_ROWS (sizeof(ROWS) / sizeof(ROWS[0]))
#define CARD_CLASS 5

typedef struct candidate {
    const struct row *rows[2]; /* both NULL: another card */
    const vram_workload *workload;
    const vram_device *card;
    vr_trial trial;
    unsigned cost_class;
    uint64_t estimate; /* of a pair, from its singles */
} candidate;

typedef struct search {
    vram_fit *f;
    const vram_workload *asked; /* as the user gave it */
    const vr_memories *gpus;
    vr_rooms rooms;
    candidate found[N_ROWS + 1 + MOST_PAIRS];
    size_t n, n_singles; /* singles come first */
} search;

/* ---- trying ---- */

/* What the engine refuses or what would not fit a number is no lever. */
static bool is_refusal(vram_status status)
{
    return status == VRAM_ESETTING || status == VRAM_EUNSUPPORTED || status == VRAM_ELIMIT;
}

static vram_status applied(change *c, const struct row *const rows[2], bool *applies)
{
    *applies = true;
    for (size_t i = 0; i < 2 && rows[i] != NULL && *applies; i++)
        VR_TRY(rows[i]->apply(c, applies));
    return VRAM_OK;
}

/* On all GPUs of the run, spread as this workload has it: the figures of the one that is worst off. */
static vram_status try_cards_of_run(vr_trial *out, search *q, const vram_workload *w)
{
    vr_memories gpus = *q->gpus;
    int64_t least = INT64_MAX;
    bool fits = true;
    gpus.gpus = VR_ARRAY(&q->f->arena, vram_device, gpus.n);
    if (gpus.gpus == NULL)
        return VRAM_ENOMEM;
    memcpy(gpus.gpus, q->gpus->gpus, gpus.n * sizeof(*gpus.gpus));
    VR_TRY(vr_memories_place(&gpus, q->f->model, w, &q->f->arena));
    for (size_t i = 0; i < gpus.used; i++) {
        vr_trial one;
        VR_TRY(vr_try(&one, q->f->model, w, &gpus.gpus[i], &q->rooms));
        int64_t left = vr_diff(gpus.gpus[i].available.bytes, one.required);
        fits = fits && one.fits;
        if (i == 0 || left < least)
            *out = one;
        least = left < least ? left : least;
    }
    out->fits = fits && gpus.placement.refused == NULL &&
                vr_add_sat(gpus.placement.host_bytes, gpus.placement.disk_bytes) == 0;
    return VRAM_OK;
}

/* The change is made to what the user gave, and what was left open is filled anew: so it is what the option
 * does when it is typed. */
static vram_status resolved(candidate *c, search *q, bool *applies)
{
    change x = { .w = vr_workload_copy(q->asked, &q->f->arena),
                 .now = q->f->workload,
                 .n_gpus = q->gpus->n,
                 .m = q->f->model,
                 .arena = &q->f->arena };
    vram_workload *w;
    if (x.w == NULL)
        return VRAM_ENOMEM;
    VR_TRY(applied(&x, c->rows, applies));
    if (!*applies)
        return VRAM_OK;
    x.w->prepared = q->f->workload->prepared; /* no lever changes the engine's version */
    VR_TRY(vr_workload_resolve(&w, x.w, q->f->model, &q->f->arena));
    c->workload = w;
    return try_cards_of_run(&c->trial, q, w);
}

/* Warnings are about what was asked for, not about what could be. */
static vram_status try_change(candidate *c, search *q, bool *applies)
{
    size_t warned = q->f->ctx->n_warnings;
    vram_status status = resolved(c, q, applies);
    q->f->ctx->n_warnings = warned;
    if (!is_refusal(status))
        return status;
    *applies = false;
    return VRAM_OK;
}

static vram_status try_single(search *q, const struct row *row)
{
    candidate c = { .rows = { row, NULL }, .cost_class = row->cost_class };
    bool applies;
    if (!vr_engine_has(q->f->workload->engine, row->setting))
        return VRAM_OK;
    VR_TRY(try_change(&c, q, &applies));
    if (!applies)
        return VRAM_OK;
    if (row->apply == dtype_16 && !stored_in_16(q->f->model))
        c.cost_class = 3; /* rounds what is stored in more bits */
    bool little = vr_sub_floor(q->f->ledger.required, c.trial.required) < q->f->ledger.required / LITTLE;
    if (row->setting == VR_SET_CACHE && little && !(c.trial.fits && q->f->verdict != VRAM_FITS))
        return VRAM_OK; /* not worth a slower run */
    if (c.trial.required < q->f->ledger.required || (c.trial.fits && q->f->verdict != VRAM_FITS))
        q->found[q->n++] = c;
    return VRAM_OK;
}

static bool one_fits(const search *q)
{
    for (size_t i = 0; i < q->n; i++) {
        if (q->found[i].trial.fits)
            return true;
    }
    return false;
}

/* ---- pairs ---- */

static bool cheaper_pair(void *ud, const void *x, const void *y)
{
    const candidate *a = x, *b = y;
    (void)ud;
    return a->cost_class != b->cost_class ? a->cost_class < b->cost_class : a->estimate < b->estimate;
}

/* Pairs that could reach the card if their savings add up, with a twentieth to spare: they seldom do exactly.
 */
static size_t list_pairs(const search *q, candidate *pairs)
{
    uint64_t enough = vr_add_sat(q->f->device->available.high, q->f->device->available.high / 20);
    size_t n = 0;
    for (size_t i = 0; i < q->n_singles; i++) {
        for (size_t j = i + 1; j < q->n_singles; j++) {
            const candidate *a = &q->found[i], *b = &q->found[j];
            uint64_t saved = vr_add_sat(vr_sub_floor(q->f->ledger.required, a->trial.required),
                                        vr_sub_floor(q->f->ledger.required, b->trial.required));
            uint64_t estimate = vr_sub_floor(q->f->ledger.required, saved);
            if (a->rows[0]->setting == b->rows[0]->setting || estimate > enough)
                continue;
            pairs[n++] = (candidate){ .rows = { a->rows[0], b->rows[0] },
                                      .cost_class = a->cost_class + b->cost_class,
                                      .estimate = estimate };
        }
    }
    return n;
}

static vram_status try_pairs(search *q)
{
    candidate pairs[N_ROWS * (N_ROWS - 1) / 2];
    size_t n = list_pairs(q, pairs), most = q->n + MOST_PAIRS;
    VR_TRY(vr_sort(q->f->ctx, pairs, n, sizeof(pairs[0]), cheaper_pair, NULL));
    for (size_t i = 0; i < n && i < MOST_TRIES && q->n < most; i++) {
        bool applies;
        VR_TRY(try_change(&pairs[i], q, &applies));
        if (applies && pairs[i].trial.fits)
            q->found[q->n++] = pairs[i];
    }
    return VRAM_OK;
}

/* ---- another card ---- */

/* No card makes do with less: weights and cache are there at once, and they are the same on every card. */
static uint64_t least_anywhere(const vram_fit *f)
{
    uint64_t least = 0;
    for (int i = 0; i < VR_ITEM_COUNT; i++) {
        vr_category c = vr_item_category((vr_item)i);
        if (c == VR_WEIGHTS || c == VR_KV_CACHE)
            least += f->needs.peak.items[i];
    }
    return least > f->plan.weight_bytes ? least : f->plan.weight_bytes;
}

vram_status vr_larger_card(const vram_device **out, uint64_t *required, vram_fit *f, vr_rooms *rooms)
{
    vr_deck deck;
    uint64_t least = least_anywhere(f);
    *out = NULL;
    VR_TRY(vr_deck_new(&deck, f->model, f->workload, &f->arena, rooms));
    if (f->device->facts.placement == NULL) /* of a card of its own */
        vr_deck_know(&deck, f->device, f->here);
    for (size_t i = 0; i < deck.n && *out == NULL; i++) {
        const vram_device *card = &deck.devices[i];
        bool fits;
        if (vr_add_sat(least, card->context.low) > card->available.low ||
            card->available.bytes <= f->device->available.bytes ||
            card->gpu->unified) /* a computer of its own, not a card to put in */
            continue;
        VR_TRY(vr_deck_fits(&deck, i, &fits, required));
        *out = fits ? card : NULL;
    }
    return VRAM_OK;
}

static vram_status try_cards(search *q)
{
    const vram_device *card;
    uint64_t required;
    VR_TRY(vr_larger_card(&card, &required, q->f, &q->rooms));
    if (card != NULL)
        q->found[q->n++] = (candidate){ .card = card,
                                        .cost_class = CARD_CLASS,
                                        .workload = q->f->workload,
                                        .trial = { required, true, VR_BASIS_SIMULATED } };
    return VRAM_OK;
}

/* ---- ranking and words ---- */

static bool ranks_before(void *ud, const void *x, const void *y)
{
    const candidate *a = x, *b = y;
    (void)ud;
    if (a->trial.fits != b->trial.fits)
        return a->trial.fits;
    if (a->cost_class != b->cost_class)
        return a->cost_class < b->cost_class;
    return a->trial.required < b->trial.required;
}

/* In a sentence: 2,048 rather than 2048. */
static const char *value_to_read(const vram_workload *w, const struct row *row, vr_arena *a)
{
    if (row->setting == VR_SET_CONTEXT || row->setting == VR_SET_SEQUENCES)
        return vr_text(a, GROUPED(row->setting == VR_SET_CONTEXT ? w->context : w->sequences));
    return "";
}

/* The pattern with the value in the place of "%". */
static const char *put_in(vr_arena *a, const char *pattern, const char *value)
{
    size_t at;
    vr_str p = vr_str_of(pattern);
    if (!vr_str_find(p, "%", &at))
        return pattern;
    return vr_text(a, S(((vr_str){ p.s, at })), T(value), T(pattern + at + 1));
}

static const char *value_to_type(const vram_workload *w, const struct row *row, bool to_engine, vr_arena *a)
{
    if (to_engine && row->apply == dtype_16)
        return w->dtype == VR_F16 ? "float16" : "bfloat16";
    return vr_workload_value(w, row->setting, a);
}

/* A batch that was given and would be more than the sequences has to follow. */
static const char *option_of(const search *q, const candidate *c, const struct row *row, const char *value)
{
    const char *option = put_in(&q->f->arena, row->option, value);
    if (option == NULL || row->apply != half_sequences || q->asked->prefill_batch <= c->workload->sequences)
        return option;
    return vr_text(&q->f->arena, T(option), T(" --prefill-batch "), U(c->workload->prefill_batch));
}

static const char *cost_of(const search *q, const struct row *row)
{
    if (row->cost != NULL)
        return row->cost;
    return stored_in_16(q->f->model) ? "nothing: the checkpoint is stored in 16 bits"
                                     : "rounding that is rarely seen";
}

static bool join(vr_arena *a, const char **to, const char *separator, const char *more)
{
    if (more == NULL)
        return false;
    *to = *to == NULL ? more : vr_text(a, T(*to), T(separator), T(more));
    return *to != NULL;
}

static vram_status add_words(vr_lever *v, const search *q, const candidate *c, const struct row *row)
{
    vr_arena *a = &q->f->arena;
    bool older = row->older_flag != NULL && !version_from(c->workload, row->older_major, row->older_minor);
    const char *flag = older ? row->older_flag : row->flag;
    const char *engine = value_to_type(c->workload, row, true, a),
               *here = value_to_type(c->workload, row, false, a);
    const char *read = value_to_read(c->workload, row, a), *pattern = row->change;
    if (row->apply == half_sequences && c->workload->sequences == 1)
        pattern = "one sequence at a time";
    if (engine == NULL || here == NULL || read == NULL ||
        !join(a, &v->change, ", ", put_in(a, pattern, read)) ||
        !join(a, &v->option, " ", option_of(q, c, row, here)) || !join(a, &v->cost, ", ", cost_of(q, row)))
        return VRAM_ENOMEM;
    if (flag != NULL && !join(a, &v->flag, ", ", put_in(a, flag, engine)))
        return VRAM_ENOMEM;
    return VRAM_OK;
}

vram_status vr_card_words(vr_lever *v, vram_fit *f, const vram_device *card)
{
    vr_arena *a = &f->arena;
    bool larger = card->usable.bytes > f->device->usable.bytes;
    v->ids[0] = "another_gpu";
    v->change =
        vr_text(a, T(larger ? "a larger card: " : "another card, with nothing else on it: "), T(card->name));
    v->option = vr_text(a, T("--gpu "), T(card->id));
    v->cost = "other hardware";
    return v->change == NULL || v->option == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status write_out(vr_lever *v, const search *q, const candidate *c, unsigned rank)
{
    *v = (vr_lever){
        .rank = rank, .required = c->trial.required, .fits = c->trial.fits, .basis = c->trial.basis
    };
    v->saved = vr_diff(q->f->ledger.required, c->trial.required);
    if (c->card != NULL)
        return vr_card_words(v, q->f, c->card);
    for (size_t i = 0; i < 2 && c->rows[i] != NULL; i++) {
        v->ids[i] = c->rows[i]->id;
        VR_TRY(add_words(v, q, c, c->rows[i]));
    }
    return VRAM_OK;
}

static vram_status find(search *q)
{
    for (size_t i = 0; i < N_ROWS; i++)
        VR_TRY(try_single(q, &ROWS[i]));
    q->n_singles = q->n;
    if (q->f->verdict == VRAM_FITS || q->f->ledger.partial)
        return VRAM_OK;
    if (!one_fits(q))
        VR_TRY(try_pairs(q));
    return q->gpus->used == 1 ? try_cards(q) : VRAM_OK;
}

static vram_status write_all(search *q)
{
    vram_fit *f = q->f;
    VR_TRY(vr_sort(f->ctx, q->found, q->n, sizeof(q->found[0]), ranks_before, NULL));
    f->levers = VR_ARRAY(&f->arena, vr_lever, q->n);
    if (f->levers == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < q->n; i++)
        VR_TRY(write_out(&f->levers[i], q, &q->found[i], (unsigned)i + 1));
    f->n_levers = q->n;
    f->ranked_by = "what makes it fit first, then by cost: nothing, less at once, shorter, 8 bits, 4 bits, "
                   "other hardware; "
                   "then by bytes saved";
    return VRAM_OK;
}

static vram_status find_settings(vram_fit *f, const vram_workload *asked, const vr_memories *gpus)
{
    vr_rooms rooms;
    vr_rooms_open(&rooms, f->ctx);
    vram_status status = vr_solver_levers(f, asked, gpus, &rooms);
    vr_rooms_close(&rooms);
    return status;
}

vram_status vr_levers(vram_fit *f, const vram_workload *asked, const vr_memories *gpus)
{
    search q = { .f = f, .asked = asked, .gpus = gpus };
    if (f->solved)
        return VRAM_OK;
    if (!f->foreign && f->workload->engine->solvable != NULL && f->plan.counted[VR_WEIGHTS])
        return find_settings(f, asked, gpus);
    /* the changes are written for engines whose runs are rehearsed */
    if (f->foreign || f->plan.sums_only || !f->plan.counted[VR_WEIGHTS])
        return VRAM_OK;
    vr_rooms_open(&q.rooms, f->ctx);
    vram_status status = find(&q);
    if (status == VRAM_OK)
        status = write_all(&q);
    vr_rooms_close(&q.rooms);
    return status;
}
