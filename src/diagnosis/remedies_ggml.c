/* SPDX-License-Identifier: MIT
 *
 * What fits of llama.cpp's context and layers, by its buffers, each of which it asks for in one piece.
 */
#include "diagnosis/levers.h"

#define LEAST_CONTEXT 512 /* tokens; below, the run would be of no use */

static bool figure(const vr_case *c, vr_fact_id id, uint64_t *out)
{
    const vr_fact *fact = vr_finding_fact(c->d, c->f, id);

    if (fact == NULL || fact->negative)
        return false;
    *out = fact->value;
    return true;
}

/* The buffer that was refused. */
static bool refused(const vr_case *c, uint64_t *buffer)
{
    return c->f->event != NULL && (vr_fact_value(&c->f->event->sign.facts, VR_FACT_BUFFER, buffer) ||
                                   vr_fact_value(&c->f->event->sign.facts, VR_FACT_REQUEST, buffer));
}

/* How much of it there was room for: by what lacks, else by what was free before the weights. */
static bool room_for(const vr_case *c, uint64_t buffer, uint64_t *room)
{
    uint64_t left, weights = 0;

    if (c->f->missing_known) {
        *room = vr_sub_floor(buffer, c->f->missing_at_least);
        return *room < buffer;
    }
    if (!figure(c, VR_FACT_FREE, &left))
        return false;
    if (c->f->cause != VR_CAUSE_WEIGHTS && !figure(c, VR_FACT_MODEL_BUFFER, &weights))
        return false;
    *room = vr_sub_floor(left, weights);
    return *room < buffer;
}

/* Whole thousands of 1024 where there is room for them. */
static uint64_t rounded_context(uint64_t n)
{
    return n >= 2048 ? n / 1024 * 1024 : n;
}

/* The context whose cache, of that share of its bytes in 32nds, takes four fifths of the room. */
static bool context_that_fits(const vr_case *c, uint64_t share, uint64_t *out)
{
    uint64_t full, cache, room;

    if (c->f->cause != VR_CAUSE_KV_CACHE || !figure(c, VR_FACT_CONTEXT, &full) || full > UINT32_MAX ||
        !refused(c, &cache) || !room_for(c, cache, &room) || cache < 32)
        return false;
    *out = vr_mul_div(full, room / 5 * 4, cache / 32 * share);
    *out = rounded_context(*out < full ? *out : full);
    return true;
}

/* The context that fits, where the cache's size is known; else half of one that may do. */
bool vr_put_smaller_context(const vr_case *c, vr_buf *b)
{
    uint64_t n;

    if (!context_that_fits(c, 32, &n)) {
        if (!figure(c, VR_FACT_CONTEXT, &n) || n > 65536)
            return false;
        n = rounded_context(n / 2);
    }
    if (n < LEAST_CONTEXT)
        return false;
    vr_put(b, U(n));
    return true;
}

/* " -c N" where q8_0, of 34 bytes for 32 values of 2, is not enough alone. */
bool vr_put_context_in_8_bits(const vr_case *c, vr_buf *b)
{
    uint64_t n, full;

    if (!context_that_fits(c, 17, &n) || !figure(c, VR_FACT_CONTEXT, &full) || n >= rounded_context(full))
        return true;
    if (n < LEAST_CONTEXT)
        return false;
    vr_put(b, T(" -c "), U(n));
    return true;
}

#define MOST_LAYERS 98 /* 99 and more are said for "all", not counted */

static bool layers_tried(const vr_case *c, uint64_t *out)
{
    uint64_t asked = UINT64_MAX, all = UINT64_MAX;

    (void)figure(c, VR_FACT_LAYERS_ON_GPU, &asked);
    (void)figure(c, VR_FACT_LAYERS, &all);
    *out = asked < all ? asked : all;
    return *out >= 4 && (*out == all ? *out <= 4096 : *out <= MOST_LAYERS);
}

/* a * b / c, rounded down. */
static uint64_t share_down(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t n = vr_mul_div(a, b, c);

    return vr_mul_sat(n, c) > vr_mul_sat(a, b) ? vr_sub_floor(n, 1) : n;
}

/* Of a cache that was refused: each layer left out takes its weights along. */
static uint64_t layers_beside_cache(const vr_case *c, uint64_t layers, uint64_t cache, uint64_t room)
{
    uint64_t weights = 0, lack = vr_sub_floor(cache, room - room / 8);

    (void)figure(c, VR_FACT_MODEL_BUFFER, &weights);
    return vr_sub_floor(layers, vr_mul_div(lack, layers, vr_add_sat(cache, weights)) + 1);
}

/* Layers that fit: as many of those that were tried as there is room for in the refused buffer; else fewer by
 * a quarter. */
bool vr_put_fewer_layers(const vr_case *c, vr_buf *b)
{
    uint64_t layers, buffer, room;

    if (!layers_tried(c, &layers))
        return false;
    if (refused(c, &buffer) && room_for(c, buffer, &room) && c->f->cause == VR_CAUSE_KV_CACHE)
        layers = layers_beside_cache(c, layers, buffer, room);
    else if (refused(c, &buffer) && room_for(c, buffer, &room))
        layers = share_down(layers, room - room / 8, buffer);
    else
        layers -= layers / 4;
    if (layers == 0)
        return false;
    vr_put(b, U(layers));
    return true;
}
