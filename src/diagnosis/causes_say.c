/* SPDX-License-Identifier: MIT
 *
 * Sentences with figures: "{request} was asked for" becomes "130.00 MiB was asked for".
 */
#include "diagnosis/causes.h"

/* Names of what is computed. All others are figures of the message by their names in facts.h. */
typedef struct derived {
    const char *name;
    size_t offset; /* of a vr_span in vr_reckoning */
} derived;

static const derived spans[] = {
    { "outside", offsetof(vr_reckoning, outside) },
    { "reserved", offsetof(vr_reckoning, reserved) },
    { "idle", offsetof(vr_reckoning, idle) },
    { "own_process", offsetof(vr_reckoning, own_process) },
    { "own_outside", offsetof(vr_reckoning, own_outside) },
    { "others", offsetof(vr_reckoning, others) },
    { "shortfall", offsetof(vr_reckoning, shortfall) },
};

static const vr_span *derived_span(const vr_view *v, vr_str name)
{
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
        if (vr_str_is(name, spans[i].name))
            return (const vr_span *)(const void *)((const char *)&v->sum + spans[i].offset);
    return NULL;
}

static const vr_fact *named_fact(const vr_view *v, vr_str name)
{
    for (size_t i = 0; i < VR_FACT_COUNT; i++)
        if (vr_str_is(name, vr_fact_kinds[i].name))
            return vr_finding_fact(v->d, v->f, (vr_fact_id)i);
    return NULL;
}

static void put_fact(vr_buf *b, const vr_fact *fact)
{
    if (fact->negative)
        vr_put(b, T("-"));
    if (vr_fact_kinds[fact->id].unit == VR_UNIT_BYTES)
        vr_put(b, BYTES(fact->value));
    else if (vr_fact_kinds[fact->id].unit == VR_UNIT_MICRO)
        vr_put(b, FIXED(fact->value, 1000000, 2));
    else
        vr_put(b, GROUPED(fact->value));
}

static const vr_fact *total_fact(const vr_view *v)
{
    return vr_fact_of(&v->event->sign.facts, VR_FACT_TOTAL);
}

/* "{idle%}": of the card. */
static bool put_share(const vr_view *v, vr_buf *b, vr_str name)
{
    const vr_span *span = derived_span(v, name);
    const vr_fact *fact = span == NULL ? named_fact(v, name) : NULL, *total = total_fact(v);
    uint64_t part = span != NULL ? vr_span_middle(*span) : fact != NULL ? fact->value : 0;

    if ((span == NULL || !span->known) && fact == NULL)
        return false;
    if (total == NULL || total->value == 0)
        return false;
    vr_put(b, FIXED(vr_mul_div(part, 1000, total->value), 10, 1), T(" %"));
    return true;
}

static bool put_figure(const vr_view *v, vr_buf *b, vr_str name)
{
    const vr_span *span;
    const vr_fact *fact;

    if (name.n != 0 && name.s[name.n - 1] == '%')
        return put_share(v, b, (vr_str){ name.s, name.n - 1 });
    span = derived_span(v, name);
    fact = named_fact(v, name);
    if (span != NULL && span->known)
        vr_put(b, BYTES(vr_span_middle(*span)));
    else if (fact != NULL)
        put_fact(b, fact);
    else
        return false;
    return true;
}

static bool put_sentence(const vr_view *v, vr_buf *b, vr_str text)
{
    size_t open, close;

    while (vr_str_find(text, "{", &open)) {
        vr_put(b, S(((vr_str){ text.s, open })));
        text = (vr_str){ text.s + open + 1, text.n - open - 1 };
        if (!vr_str_find(text, "}", &close) || !put_figure(v, b, (vr_str){ text.s, close }))
            return false;
        text = (vr_str){ text.s + close + 1, text.n - close - 1 };
    }
    vr_put(b, S(text));
    return !b->failed;
}

const char *vr_say(const vr_view *v, const char *text)
{
    vr_buf b;
    const char *said = NULL;

    if (text == NULL)
        return NULL;
    vr_buf_init(&b, v->d->ctx, 4096);
    if (put_sentence(v, &b, vr_str_of(text)))
        said = vr_arena_copy(&v->d->arena, (vr_str){ b.p, b.n });
    if (b.failed && v->d->ctx->error.code == VRAM_ENOMEM)
        v->d->arena.starved = true;
    vr_buf_free(&b);
    return said;
}
