/* SPDX-License-Identifier: MIT
 *
 * llama.cpp and what stands on it ask the driver for one buffer each of weights, caches and results. The
 * bytes of the one that was refused say which it is: they are the model's own, to the byte, with the settings
 * that ran.
 */
#include "diagnosis/place.h"

#define ENDLESS (UINT64_C(1) << 45) /* of a card whose size is not told: all of it fits */
#define ROUNDING 256                /* tokens, which llama.cpp fills a context up to */

typedef enum buffer_kind { NONE, WEIGHTS, KEPT, COMPUTE } buffer_kind;

typedef struct seen {
    vr_seeker *s;
    vr_bounds bytes;    /* of the refused buffer */
    buffer_kind only;   /* the text says which it was; NONE: it does not */
    size_t rank, cards; /* the card that refused, of so many */
    const vram_workload *w;
    buffer_kind found;
    const vram_workload *asked; /* then */
    uint64_t exact, tokens;
    const char *assumed;
} seen;

static buffer_kind by_phase(uint8_t phase)
{
    switch (phase) {
    case VR_PHASE_LOAD:
        return WEIGHTS;
    case VR_PHASE_KV_CACHE:
        return KEPT;
    case VR_PHASE_COMPUTE_BUFFERS:
        return COMPUTE;
    default:
        return NONE;
    }
}

/* *known false: the engine does not know where things go. Of seen.rank. */
static vram_status buffers_of(vr_buffers *out, bool *known, seen *x, const vram_workload *asked)
{
    vr_seeker *s = x->s;
    vr_device_facts facts[VR_MOST_CARDS];
    vr_placement placement = { .n_gpus = x->cards };
    vram_workload *w;
    *known = false;
    vr_arena_reset(&s->plans);
    VR_TRY(vr_workload_resolve(&w, asked, s->model, &s->plans));
    if (w->engine->place == NULL || !w->engine->always_spreads || !s->model->gguf)
        return VRAM_OK;
    for (size_t i = 0; i < x->cards; i++) {
        facts[i] = s->card->facts;
        facts[i].rank = i;
    }
    VR_TRY(w->engine->place(&placement, s->model, w, facts, x->cards, &s->plans));
    *known = vr_placement_buffers(out, &placement, x->rank);
    x->tokens = vr_mul_sat(w->context, w->slots ? 1 : w->sequences);
    return VRAM_OK;
}

static bool is_wanted(const seen *x, buffer_kind k)
{
    return x->only == NONE || x->only == k;
}

/* A refused cache is the whole of it, or that of the layers that slide, or of those that do not. */
static uint64_t kept_like(const seen *x, const vr_buffers *b)
{
    for (size_t i = 0; i < sizeof b->kept / sizeof *b->kept; i++)
        if (b->kept[i] != 0 && vr_bounds_have(x->bytes, b->kept[i]))
            return b->kept[i];
    return 0;
}

static void hold_against(seen *x, const vr_buffers *b)
{
    uint64_t kept = is_wanted(x, KEPT) ? kept_like(x, b) : 0;
    if (is_wanted(x, WEIGHTS) && b->weights != 0 && vr_bounds_have(x->bytes, b->weights)) {
        x->found = WEIGHTS;
        x->exact = b->weights;
    } else if (kept != 0) {
        x->found = KEPT;
        x->exact = kept;
    } else if (is_wanted(x, COMPUTE) && b->compute != 0 && vr_bounds_have(x->bytes, b->compute)) {
        x->found = COMPUTE;
        x->exact = b->compute;
    }
}

static vram_status try_run(seen *x, const vram_workload *asked, const char *assumed)
{
    vr_buffers buffers;
    bool known;
    vram_status status = buffers_of(&buffers, &known, x, asked);
    if (status != VRAM_OK || !known)
        return vr_is_refusal(status) ? VRAM_OK : status;
    hold_against(x, &buffers);
    if (x->found != NONE) {
        x->asked = asked;
        x->assumed = assumed;
    }
    return VRAM_OK;
}

/* ---- what was not said ---- */

static bool is_open(const seen *x, vr_setting s)
{
    return x->w->set_by[s] != VR_BY_USER && vr_engine_has(x->w->engine, s);
}

static vram_workload *changed(const seen *x, vr_setting s)
{
    vram_workload *w = vr_workload_copy(x->asked, &x->s->d->arena);
    if (w != NULL)
        w->set_by[s] = VR_BY_USER;
    return w;
}

static vram_status try_context(seen *x, uint64_t tokens)
{
    vram_workload *w = changed(x, VR_SET_CONTEXT);
    if (w == NULL)
        return VRAM_ENOMEM;
    w->context = tokens;
    return try_run(x, w, vr_text(&x->s->d->arena, T("a context of "), GROUPED(tokens), T(" tokens")));
}

static vram_status try_contexts(seen *x)
{
    static const uint64_t usual[] = { 2048, 8192, 16384, 32768, 65536, 131072, 262144 };
    uint64_t trained = x->s->model->max_context;
    if (!is_open(x, VR_SET_CONTEXT))
        return VRAM_OK;
    if (trained != 0)
        VR_TRY(try_context(x, trained));
    for (size_t i = 0; i < sizeof usual / sizeof *usual && x->found == NONE; i++)
        if (usual[i] < trained || trained == 0)
            VR_TRY(try_context(x, usual[i]));
    return VRAM_OK;
}

/* A cache that grows evenly tells its tokens. */
static vram_status try_tokens_of_cache(seen *x)
{
    vr_buffers buffers;
    bool known;
    uint64_t tokens;
    if (!is_open(x, VR_SET_CONTEXT) || !is_wanted(x, KEPT))
        return VRAM_OK;
    VR_TRY(buffers_of(&buffers, &known, x, x->asked));
    if (!known || buffers.token == 0)
        return VRAM_OK;
    tokens = vr_add_sat(vr_bounds_middle(x->bytes) / buffers.token, ROUNDING / 2) / ROUNDING * ROUNDING;
    return tokens != 0 && tokens <= UINT32_MAX ? try_context(x, tokens) : VRAM_OK;
}

/* The fewer layers are on the card, the smaller its buffer of weights. */
static vram_status try_layers(seen *x)
{
    uint64_t low = 1, high = vr_add_sat(x->s->model->n_layers, 1);
    if (!is_open(x, VR_SET_GPU_LAYERS) || !is_wanted(x, WEIGHTS) || high > UINT16_MAX)
        return VRAM_OK;
    while (low <= high && x->found == NONE) {
        uint64_t middle = low + (high - low) / 2;
        vr_buffers buffers;
        bool known;
        vram_workload *w = changed(x, VR_SET_GPU_LAYERS);
        if (w == NULL)
            return VRAM_ENOMEM;
        w->gpu_layers = middle;
        VR_TRY(buffers_of(&buffers, &known, x, w));
        if (!known)
            return VRAM_OK;
        if (vr_bounds_have(x->bytes, buffers.weights))
            return try_run(x, w, vr_text(&x->s->d->arena, U(middle), T(" layers on the cards")));
        if (buffers.weights < x->bytes.low)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return VRAM_OK;
}

static vram_status try_caches(seen *x)
{
    static const struct {
        uint8_t type;
        const char *words;
    } types[] = { { VR_Q8_0, "a cache in q8_0" }, { VR_Q4_0, "a cache in q4_0" } };
    const vram_workload *given = x->asked;
    if (!is_open(x, VR_SET_CACHE_TYPE_K) || !is_wanted(x, KEPT))
        return VRAM_OK;
    for (size_t i = 0; i < sizeof types / sizeof *types && x->found == NONE; i++) {
        vram_workload *w = changed(x, VR_SET_CACHE_TYPE_K);
        if (w == NULL)
            return VRAM_ENOMEM;
        w->cache_k = w->cache_v = types[i].type;
        w->set_by[VR_SET_CACHE_TYPE_V] = VR_BY_USER;
        VR_TRY(try_run(x, w, types[i].words));
        x->asked = w;
        if (x->found == NONE)
            VR_TRY(try_tokens_of_cache(x));
        if (x->found == NONE)
            x->asked = given;
        else if (x->assumed != types[i].words)
            x->assumed = vr_text(&x->s->d->arena, T(x->assumed), T(", "), T(types[i].words));
    }
    return VRAM_OK;
}

static vram_status try_all(seen *x)
{
    static vram_status (*const tries[])(seen *) = { try_layers, try_tokens_of_cache, try_caches,
                                                    try_contexts };
    size_t least = x->rank + 1;
    for (x->cards = least; x->cards <= least + 1 && x->cards <= VR_MOST_CARDS && x->found == NONE;
         x->cards++) {
        x->asked = x->w;
        VR_TRY(try_run(x, x->w, NULL));
        for (size_t i = 0; i < sizeof tries / sizeof *tries && x->found == NONE; i++)
            VR_TRY(tries[i](x));
        if (x->found != NONE)
            return VRAM_OK;
    }
    x->cards = least;
    return VRAM_OK;
}

/* ---- the answer ---- */

static const char *label_of(const seen *x)
{
    vr_arena *a = &x->s->d->arena;
    switch (x->found) {
    case WEIGHTS:
        return vr_text(a, T("the buffer of weights, "), BYTES(x->exact));
    case KEPT:
        return vr_text(a, T("KV cache of "), GROUPED(x->tokens), T(" tokens"));
    default:
        return vr_text(a, T("compute buffer at a context of "), GROUPED(x->tokens), T(" tokens"));
    }
}

static const struct {
    uint8_t phase, cause;
    const char *what;
} CAUSES[] = {
    [NONE] = { VR_PHASE_UNKNOWN, VR_CAUSE_UNKNOWN, "" },
    [WEIGHTS] = { VR_PHASE_LOAD, VR_CAUSE_WEIGHTS, "the buffer of this model's weights" },
    [KEPT] = { VR_PHASE_KV_CACHE, VR_CAUSE_KV_CACHE, "this model's KV cache" },
    [COMPUTE] = { VR_PHASE_COMPUTE_BUFFERS, VR_CAUSE_ACTIVATIONS, "this model's compute buffer" },
};

/* More than was free before anything was loaded. */
static void tell_short(const seen *x, uint64_t left)
{
    vr_finding *f = x->s->f;
    if (f->missing_known || x->exact <= left)
        return;
    f->spot.short_bytes = x->exact - left;
    f->missing_known = true;
    f->missing_at_least = f->spot.short_bytes;
    f->missing_note = "of this buffer";
}

/* Of the log's figures of a card those of the one that refused. */
static const vr_fact *fact_of_card(const seen *x, vr_fact_id id)
{
    const vr_findings *found = &x->s->d->found;
    const vr_fact *own = vr_fact_of(&x->s->f->event->sign.facts, id);
    for (size_t i = found->n_seen; i > 0 && own == NULL; i--) {
        const vr_fact_list *facts = &found->seen[i - 1].facts;
        uint64_t device = 0;
        bool named =
            vr_fact_value(facts, VR_FACT_DEVICE, &device) || vr_fact_value(facts, VR_FACT_GPU, &device);
        if (!named || device == x->rank)
            own = vr_fact_of(facts, id);
    }
    return own;
}

/* Free before the run has its context, in *available: by the log, or as it was named. */
static vram_status card_of(bool *known, uint64_t *available, const seen *x)
{
    vr_seeker *s = x->s;
    const vr_fact *total = fact_of_card(x, VR_FACT_TOTAL), *left = fact_of_card(x, VR_FACT_FREE);
    vr_bounds size = { .known = false };
    if (left != NULL && left->negative)
        left = NULL;
    if (total == NULL || (left != NULL && total->value < left->value))
        total = vr_named_card(s) != NULL ? NULL : left;
    if (total != NULL)
        size = (vr_bounds){ true, vr_sub_floor(total->value, total->slack),
                            vr_add_sat(total->value, total->slack) };
    *known = (left != NULL || vr_named_card(s) != NULL) &&
             (size.known ? vr_is_size_of_card(size) : vr_named_card(s) != NULL);
    if (!*known)
        return VRAM_OK;
    VR_TRY(vr_card_of_text(s, size));
    if (left != NULL)
        *available = vr_add_sat(left->value, s->card->context.bytes);
    else
        *available = vr_named_free(s) != 0 ? vr_named_free(s) : s->card->usable.bytes;
    return VRAM_OK;
}

/* Where it is known what the card had. */
static vram_status tell_card(const seen *x)
{
    vr_seeker *s = x->s;
    const vram_fit *fit;
    uint64_t available = 0;
    bool known = false;
    if (x->cards > 1)
        return VRAM_OK;
    VR_TRY(card_of(&known, &available, x));
    if (!known)
        return VRAM_OK;
    uint64_t left = vr_sub_floor(available, s->card->context.bytes);
    if (left <= s->card->usable.bytes)
        VR_TRY(vr_tell_fit(&fit, s, x->asked, available));
    tell_short(x, left);
    return VRAM_OK;
}

/* Bytes that are those of one buffer to the last leave no other reading; rounded to hundredths of a MiB they
 * are near to it. */
static void conclude(const seen *x)
{
    vr_finding *f = x->s->f;
    bool exact = x->bytes.low == x->bytes.high;
    f->phase = CAUSES[x->found].phase;
    if (f->cause == CAUSES[x->found].cause && f->certainty == VR_CERTAINTY_CERTAIN)
        return;
    if (f->certainty == VR_CERTAINTY_CERTAIN && !exact)
        return;
    f->cause = CAUSES[x->found].cause;
    f->certainty = exact ? VR_CERTAINTY_CERTAIN : VR_CERTAINTY_LIKELY;
}

static vram_status tell(const seen *x)
{
    vr_finding *f = x->s->f;
    vr_spot *spot = &f->spot;
    vr_arena *a = &x->s->d->arena;
    const char *cards = x->cards == 1 ? NULL : vr_text(a, U(x->cards), T(" cards"));
    spot->found = true;
    spot->places = 1;
    spot->label = label_of(x);
    spot->matched = vr_text(a, GROUPED(x->exact), T(" bytes are those of "), T(CAUSES[x->found].what));
    spot->assumed = x->assumed == NULL ? cards
                    : cards == NULL    ? x->assumed
                                       : vr_text(a, T(x->assumed), T(", "), T(cards));
    if (spot->label == NULL || spot->matched == NULL)
        return VRAM_ENOMEM;
    conclude(x);
    vr_lead_with(x->s->d, f,
                 vr_text(&x->s->d->arena, T(spot->matched), T(spot->assumed != NULL ? ", with " : ""),
                         T(spot->assumed != NULL ? spot->assumed : "")));
    return tell_card(x);
}

static vram_status tell_none(const seen *x)
{
    vr_buffers buffers = { 0 };
    bool known = false;
    vr_seeker *s = x->s;
    seen own = *x;
    if (!s->model->gguf) {
        s->f->spot.not_found = "name the GGUF file that ran: its headers have the sizes of the buffers";
        return VRAM_OK;
    }
    vram_status status = buffers_of(&buffers, &known, &own, x->w);
    if (status != VRAM_OK || !known) {
        s->f->spot.not_found = "where llama.cpp puts the pieces of this model is not known";
        return vr_is_refusal(status) ? VRAM_OK : status;
    }
    s->f->spot.not_found = vr_text(
        &s->d->arena, T("none of this model's buffers is "), BYTES(vr_bounds_middle(x->bytes)), T(": with "),
        GROUPED(own.tokens), T(" tokens its weights are "), BYTES(buffers.weights), T(", its cache "),
        BYTES(buffers.kept[0]), T(", its compute buffer "), BYTES(buffers.compute));
    return s->f->spot.not_found != NULL ? VRAM_OK : VRAM_ENOMEM;
}

static bool is_ggml(uint8_t program)
{
    return program == VR_PROGRAM_LLAMACPP || program == VR_PROGRAM_OLLAMA || program == VR_PROGRAM_KOBOLDCPP;
}

vram_status vr_seek_buffer(bool *is_one, vr_seeker *s)
{
    seen x = { .s = s,
               .bytes = vr_bounds_finest(s->f, VR_FACT_BUFFER),
               .only = by_phase(s->f->event->sign.row->phase) };
    vr_bounds device = vr_bounds_of(s->f, VR_FACT_DEVICE);
    *is_one = is_ggml(s->f->program) && x.bytes.known && x.bytes.low != 0;
    if (!*is_one)
        return VRAM_OK;
    s->f->spot.tried = true;
    if (device.known && device.low < VR_MOST_CARDS)
        x.rank = (size_t)device.low;
    VR_TRY(vr_card_of_total(&s->card, (vr_bounds){ true, VR_GIB, VR_GIB }, false, s->d));
    s->card->facts = (vr_device_facts){ .usable = ENDLESS, .available = ENDLESS };
    VR_TRY(vr_workload_of_program(&x.w, s));
    if (s->model->gguf)
        VR_TRY(try_all(&x));
    return x.found != NONE ? tell(&x) : tell_none(&x);
}
