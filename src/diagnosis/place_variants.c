/* SPDX-License-Identifier: MIT
 *
 * What people leave out when they say which model ran: type, how it is put on the card, version. Each is
 * tried in turn, and what made the figures agree is said.
 */
#include "diagnosis/place.h"

#define KEYS 3

typedef struct variant {
    const char *words;
    const char *keys[KEYS], *values[KEYS]; /* of vram_workload_set; a later one that the user said stays so */
} variant;

static const variant VARIANTS[] = {
    { "loaded straight onto the card (device_map)", { "device_map" }, { "cuda" } },
    { "loaded straight onto the card by transformers 4.57 in 16 bits",
      { "device_map", "engine_version", "dtype" },
      { "cuda", "4.57", "bfloat16" } },
    { "loaded straight onto the card by transformers before 4.50 in 16 bits",
      { "device_map", "engine_version", "dtype" },
      { "cuda", "4.49", "bfloat16" } },
    { "in fp32", { "dtype" }, { "float32" } },
    { "in fp32, loaded straight onto the card (device_map)",
      { "dtype", "device_map" },
      { "float32", "cuda" } },
    { "in 16 bits", { "dtype" }, { "bfloat16" } },
    { "in 16 bits, loaded straight onto the card (device_map)",
      { "dtype", "device_map" },
      { "bfloat16", "cuda" } },
    { "with expandable segments", { "alloc_conf" }, { "expandable_segments:True" } },
    { "with expandable segments, loaded straight onto the card (device_map)",
      { "alloc_conf", "device_map" },
      { "expandable_segments:True", "cuda" } },
    { "quantised to 8 bits while loading", { "quantization" }, { "bnb-8bit" } },
    { "quantised to 4 bits while loading", { "quantization" }, { "bnb-4bit" } },
};

#define N_VARIANTS (sizeof VARIANTS / sizeof *VARIANTS)

static bool is_open_setting(const vram_workload *w, const char *key)
{
    vr_setting s = vr_setting_of(key);
    return s != VR_SETTING_COUNT && w->set_by[s] != VR_BY_USER && vr_engine_has(w->engine, s);
}

static vram_status set_open(vram_workload *w, const variant *v)
{
    for (size_t i = 0; i < KEYS && v->keys[i] != NULL; i++)
        if (is_open_setting(w, v->keys[i]))
            VR_TRY(vram_workload_set(w, v->keys[i], v->values[i]));
    return VRAM_OK;
}

/* Settings that the log itself shows. */
static const struct {
    const char *sign, *key, *value;
} SHOWN[] = {
    { "opt-4bit", "quantization", "bnb-4bit" },
    { "opt-8bit", "quantization", "bnb-8bit" },
    { "opt-fp32", "dtype", "float32" },
    { "opt-fp16", "dtype", "float16" },
    { "opt-bf16", "dtype", "bfloat16" },
    { "opt-expandable", "alloc_conf", "expandable_segments:True" },
};

#define N_SHOWN (sizeof SHOWN / sizeof *SHOWN)

/* The first of each setting counts; what the user said stands. */
static vram_status as_shown(const vram_workload **out, const char **words, vr_seeker *s)
{
    vram_workload *w = NULL;
    *words = NULL;
    for (size_t i = 0; i < N_SHOWN; i++) {
        const vram_workload *now = w != NULL ? w : s->asked;
        if (!vr_seen(&s->d->found, s->f->event, SHOWN[i].sign) || !is_open_setting(now, SHOWN[i].key))
            continue;
        if (w == NULL)
            w = vr_workload_copy(s->asked, &s->d->arena);
        if (w == NULL)
            return VRAM_ENOMEM;
        VR_TRY(vram_workload_set(w, SHOWN[i].key, SHOWN[i].value));
        *words = vr_text(&s->d->arena, T(*words != NULL ? *words : "as the log shows: "),
                         T(*words != NULL ? ", " : ""), T(SHOWN[i].value));
    }
    *out = w;
    return VRAM_OK;
}

/* What the log shows may be of another program than the one that failed. */
static vram_status seek_shown(vr_hit *out, vr_seeker *s)
{
    const vram_workload *w;
    const char *words;
    vram_status status = as_shown(&w, &words, s);
    if (status == VRAM_OK && w == NULL)
        return VRAM_OK;
    if (status == VRAM_OK)
        status = vr_seek(out, s, w);
    if (status == VRAM_OK && out->places != 0)
        out->assumed = words;
    if (vr_is_refusal(status))
        out->places = 0;
    return vr_is_refusal(status) ? VRAM_OK : status;
}

static vram_status seek_variant(vr_hit *out, vr_seeker *s, const variant *v)
{
    vram_workload *w = vr_workload_copy(s->asked, &s->d->arena);
    if (w == NULL)
        return VRAM_ENOMEM;
    w->prepared = NULL;
    VR_TRY(set_open(w, v));
    VR_TRY(vr_seek(out, s, w));
    out->assumed = v->words;
    return VRAM_OK;
}

vram_status vr_seek_given(vr_hit *out, vr_seeker *s)
{
    VR_TRY(vr_seek(out, s, s->asked));
    return out->places == 0 ? seek_shown(out, s) : VRAM_OK;
}

/* A variant that has such a place, and how many others have another one. */
typedef struct best {
    const variant *v; /* NULL: none has */
    bool tuned;       /* its idle bytes depend on what the card had to the MiB, so they agree more easily */
    const char *label;
    uint64_t rivals;
} best;

static vram_status weigh(best *b, const variant *v, const vr_hit *hit, const vr_seeker *s)
{
    bool tuned = hit->run.cut || hit->run.whole_from > hit->usable;
    const char *label = vr_arena_copy(&s->d->arena, hit->plan.tape.labels[hit->run.failure.label]);
    if (label == NULL)
        return VRAM_ENOMEM;
    if (b->v != NULL && !vr_str_is(vr_str_of(label), b->label))
        b->rivals++;
    if (b->v != NULL && (!b->tuned || tuned))
        return VRAM_OK;
    b->v = v;
    b->tuned = tuned;
    b->label = label;
    return VRAM_OK;
}

/* All are tried: where two have different places, neither is sure. */
vram_status vr_seek_variants(vr_hit *out, vr_seeker *s)
{
    best b = { .v = NULL };
    out->places = 0;
    for (size_t i = 0; i < N_VARIANTS; i++) {
        if (!is_open_setting(s->asked, VARIANTS[i].keys[0]))
            continue;
        vram_status status = seek_variant(out, s, &VARIANTS[i]);
        if (status != VRAM_OK && !vr_is_refusal(status))
            return status;
        if (status == VRAM_OK && out->places != 0)
            VR_TRY(weigh(&b, &VARIANTS[i], out, s));
    }
    out->places = 0;
    if (b.v == NULL)
        return VRAM_OK;
    s->budget = vr_add_sat(s->budget, 1); /* this one is known */
    VR_TRY(seek_variant(out, s, b.v));
    out->places = vr_add_sat(out->places, b.rivals);
    return VRAM_OK;
}
