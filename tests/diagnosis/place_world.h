/* SPDX-License-Identifier: MIT
 * A message as a run would print it, and the search for its place: what the tests of places share. */
#ifndef VR_PLACE_WORLD_H
#define VR_PLACE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "../support/hook.h"
#include "diagnosis/place.h"

#define MOST_FACTS 8

typedef struct place_world {
    hook h;
    vram_ctx *ctx;
    vram_model *model;
    vram_workload *work;
    vr_fact facts[MOST_FACTS];
    vr_text_row row;
    vr_incident event;
    vr_finding finding;
    struct vram_diagnosis d;
} place_world;

static inline void open_place(place_world *p, const char *model, const char *engine)
{
    vram_checkpoint *ck;
    memset(p, 0, sizeof *p);
    assert_int_equal(vram_open(&p->ctx, hook_alloc, &p->h), VRAM_OK);
    assert_int_equal(vram_checkpoint_catalogue(&ck, p->ctx, model), VRAM_OK);
    assert_int_equal(vram_model_new(&p->model, ck), VRAM_OK);
    assert_int_equal(vram_workload_new(&p->work, p->ctx, engine), VRAM_OK);
    p->d.ctx = p->ctx;
    vr_arena_init(&p->d.arena, p->ctx);
    p->row = (vr_text_row){ .id = "test" };
    p->event.sign.row = &p->row;
    p->event.sign.facts.f = p->facts;
    p->event.sign.rank = -1;
    p->finding.event = &p->event;
    p->d.list = &p->finding;
    p->d.n = 1;
}

static inline void close_place(place_world *p)
{
    vr_arena_free(&p->d.arena);
    vram_close(p->ctx);
    assert_int_equal(p->h.live_bytes, 0);
}

static inline void say(place_world *p, vr_fact_id id, uint64_t value, uint64_t slack)
{
    assert_true(p->event.sign.facts.n < MOST_FACTS);
    p->facts[p->event.sign.facts.n++] = (vr_fact){ .id = (uint8_t)id, .value = value, .slack = slack };
}

/* As PyTorch prints it: hundredths of the largest unit that it reaches, so that much is unknown of it. */
static inline void say_printed(place_world *p, vr_fact_id id, uint64_t bytes)
{
    uint64_t unit = bytes >= VR_GIB ? VR_GIB : bytes >= VR_MIB ? VR_MIB : bytes >= VR_KIB ? VR_KIB : 1;
    uint64_t hundredths = vr_mul_div(bytes, 100, unit);
    say(p, id, vr_mul_div(hundredths, unit, 100), unit == 1 ? 0 : unit / 200 + 1);
}

static inline void look(place_world *p)
{
    vram_status s = vr_diagnose_place(&p->d, &p->finding, p->model, p->work);
    if (s != VRAM_OK)
        fail_msg("vr_diagnose_place: %s", vram_last_error(p->ctx)->text);
}

#define HUNDREDTHS(x, unit) ((uint64_t)((x)*100.0 + 0.5) * (unit) / 100)

static inline void say_in(place_world *p, vr_fact_id id, double x, uint64_t unit)
{
    say(p, id, HUNDREDTHS(x, unit), unit / 200 + 1);
}

/* The published run of Qwen2.5-Coder-7B on an RTX 3060, whose own traceback names the tensor. */
static inline void published(place_world *p)
{
    open_place(p, "qwen2.5-7b-instruct", NULL);
    say_in(p, VR_FACT_REQUEST, 130.00, VR_MIB);
    say_in(p, VR_FACT_TOTAL, 11.63, VR_GIB);
    say_in(p, VR_FACT_FREE, 30.88, VR_MIB);
    say_in(p, VR_FACT_THIS_PROCESS, 11.54, VR_GIB);
    say_in(p, VR_FACT_ALLOCATED, 11.34, VR_GIB);
    say_in(p, VR_FACT_IDLE, 105.47, VR_MIB);
}

#endif
