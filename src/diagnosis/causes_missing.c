/* SPDX-License-Identifier: MIT
 *
 * Who has which share of the card, and how much is missing at least.
 */
#include "diagnosis/causes.h"

void vr_set_shares(vr_view *v)
{
    const vr_reckoning *sum = &v->sum;
    vr_shares *s = &v->f->shares;

    if (!sum->total.known || !sum->left.known || !sum->allocated.known)
        return;
    *s = (vr_shares){ .known = true,
                      .total = vr_span_middle(sum->total),
                      .allocated = vr_span_middle(sum->allocated),
                      .idle = vr_span_middle(sum->idle),
                      .left = vr_span_middle(sum->left) };
    s->outside = sum->outside.known ? sum->outside.low / 2 + sum->outside.high / 2 : 0;
    if (!sum->own_process.known || !sum->outside.known)
        return;
    s->outside_is_split = true;
    s->own_outside = vr_span_middle(sum->own_outside);
    s->others = vr_span_middle(sum->others);
}

/* Two figures whose difference is what lacks, and of what. NONE: the first alone. */
typedef struct difference {
    uint8_t needed, there; /* vr_fact_id */
    const char *of;
} difference;

#define NONE VR_FACT_COUNT

static const difference lacks[] = {
    { VR_FACT_SHORT, NONE, "by the program's own word" },
    { VR_FACT_KV_NEEDED, VR_FACT_KV_AVAILABLE, "for one request of full length" },
    { VR_FACT_WANTED_FREE, VR_FACT_FREE, "of what the engine wants to find free" },
    { VR_FACT_HOST_NEEDED, VR_FACT_HOST_AVAILABLE, "of the computer's memory" },
    { VR_FACT_PROJECTED, VR_FACT_FREE, "for the whole run" },
};

static vr_span event_span(const vr_view *v, unsigned id)
{
    return vr_span_of(vr_fact_of(&v->event->sign.facts, (vr_fact_id)id));
}

static bool set_at_least(vr_view *v, vr_span lack, const char *of)
{
    if (!lack.known || lack.high <= 0)
        return false;
    v->f->missing_known = true;
    /* The printed digits are the word of the program that knows; the least is only for sums of our own. */
    v->f->missing_at_least = vr_span_middle(lack);
    v->f->missing_note = of;
    return true;
}

static bool stated(vr_view *v)
{
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++) {
        vr_span needed = event_span(v, lacks[i].needed);
        vr_span there = lacks[i].there == NONE ? (vr_span){ .known = true } : event_span(v, lacks[i].there);
        if (set_at_least(v, vr_span_sub(needed, there), lacks[i].of))
            return true;
    }
    return false;
}

/* A budget that came out below zero lacks at least that. */
static bool negative_budget(vr_view *v)
{
    vr_span left = event_span(v, VR_FACT_KV_AVAILABLE);

    if (!left.known || left.low >= 0 || left.high > 0)
        return false;
    return set_at_least(v, vr_span_sub((vr_span){ .known = true }, left),
                        "before the first token of the cache");
}

/* What a shared memory's limit lacks: A + O + R - M. */
static vr_span over_watermark(const vr_reckoning *sum)
{
    vr_span taken = vr_span_add(sum->allocated, sum->other_allocations);

    return vr_span_sub(vr_span_add(taken, sum->request), sum->max_allowed);
}

static vr_span over_limit(const vr_reckoning *sum)
{
    return vr_span_sub(vr_span_add(sum->allocated, sum->request), sum->allowed);
}

/* CuPy, TensorFlow, ONNX Runtime: what the pool has in use, its limit and the request, which TensorFlow
 * prints in lines of one report. */
static vr_span over_pool(const vr_view *v)
{
    vr_span used = vr_span_of(vr_finding_fact(v->d, v->f, VR_FACT_POOL_USED));
    vr_span limit = vr_span_of(vr_finding_fact(v->d, v->f, VR_FACT_POOL_LIMIT));

    if (v->has[VR_BY_PYTORCH])
        return (vr_span){ 0 };
    return vr_span_sub(vr_span_add(used, v->sum.request), limit);
}

static const char *beyond_request(const vr_view *v)
{
    switch (v->f->phase) {
    case VR_PHASE_LOAD:
        return v->has[VR_BY_MERGE] ? "for this one piece" : "for this piece alone, more weights follow";
    case VR_PHASE_OPTIMIZER_STEP:
        return "for this piece alone, more states follow";
    default:
        return "for this one piece";
    }
}

/* Tokens that a pool has not: figures in words, for they are no bytes. */
static const char *tokens_short(const vr_view *v)
{
    static const uint8_t pairs[][2] = { { VR_FACT_MODEL_LENGTH, VR_FACT_KV_TOKENS },
                                        { VR_FACT_TOKENS_TRIED, VR_FACT_TOKENS_LEFT } };
    const vr_fact_list *facts = &v->event->sign.facts;
    uint64_t wanted, there;

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (vr_fact_value(facts, (vr_fact_id)pairs[i][0], &wanted) &&
            vr_fact_value(facts, (vr_fact_id)pairs[i][1], &there) && wanted > there)
            return vr_text(&v->d->arena, GROUPED(wanted - there), T(" tokens: "), GROUPED(wanted),
                           T(" asked for, "), GROUPED(there), T(" are there"));
    return NULL;
}

/* ggml asks for all of a device's weights, cache or pass at once. */
static const char *whole_buffer(const vr_view *v)
{
    const vr_fact *buffer = vr_fact_of(&v->event->sign.facts, VR_FACT_BUFFER);

    if (buffer == NULL)
        buffer = vr_fact_of(&v->event->sign.facts, VR_FACT_REQUEST);
    if (!v->has[VR_BY_GGML] || buffer == NULL)
        return NULL;
    return vr_text(&v->d->arena, T("up to "), BYTES(buffer->value), T(", the whole buffer in one piece"));
}

static const char *not_said(const vr_view *v)
{
    const char *said = tokens_short(v);

    if (said == NULL)
        said = whole_buffer(v);
    if (said != NULL)
        return said;
    if (v->f->phase == VR_PHASE_LOAD && v->f->memory == VR_MEMORY_GPU)
        return "not printed: what was still to load (--model tells)";
    return v->sum.request.known ? "not printed: the request is only the last piece" : NULL;
}

/* Of ggml's device while its weights are loaded: what was free before. */
static vr_span over_device(const vr_view *v)
{
    return v->has[VR_BUFFER_OVER_FREE]
               ? vr_span_sub(event_span(v, VR_FACT_BUFFER), vr_span_of(vr_device_free(v)))
               : (vr_span){ 0 };
}

/* By the sum of Ollama or llama.cpp before it loaded, in a line of its own. */
static vr_span over_projected(const vr_view *v)
{
    if (!v->has[VR_BY_GGML] || v->f->phase != VR_PHASE_LOAD)
        return (vr_span){ 0 };
    return vr_span_sub(vr_span_of(vr_finding_fact(v->d, v->f, VR_FACT_PROJECTED)),
                       vr_span_of(vr_finding_fact(v->d, v->f, VR_FACT_FREE)));
}

/* Allocators without idle memory of their own: request and free say it all. */
static vr_span plain_shortfall(const vr_view *v)
{
    bool plain = !v->sum.idle.known && !v->has[VR_BY_GGML] && v->row->program != VR_PROGRAM_PYTORCH;

    return plain ? vr_span_sub(v->sum.request, v->sum.left) : (vr_span){ 0 };
}

static bool of_ggml(vr_view *v)
{
    return set_at_least(v, over_device(v), "of this device's weights") ||
           set_at_least(v, over_projected(v), "for the whole run, by the program's own sum");
}

void vr_set_missing(vr_view *v)
{
    vr_span lack = v->sum.shortfall;

    if (v->f->cause == VR_CAUSE_NOT_CAPACITY || v->f->cause == VR_CAUSE_DRIVER_OR_HARDWARE ||
        v->f->memory == VR_MEMORY_ON_CHIP || (v->has[VR_RULED(FREE_SUFFICES)] && !v->has[VR_BY_GGML]))
        return;
    if (stated(v) || negative_budget(v) ||
        set_at_least(v, over_watermark(&v->sum), "of what the process may hold") ||
        set_at_least(v, over_limit(&v->sum), "of the limit that the program set itself") ||
        set_at_least(v, over_pool(v), "of the pool's limit") || of_ggml(v) ||
        set_at_least(v, plain_shortfall(v), "for this piece alone"))
        return;
    /* The least that the printed digits allow, with perfect packing. */
    if (lack.known && lack.low > 0) {
        v->f->missing_known = true;
        v->f->missing_at_least = (uint64_t)lack.low;
        v->f->missing_note = beyond_request(v);
        return;
    }
    v->f->missing_note = not_said(v);
}
