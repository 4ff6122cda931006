/* SPDX-License-Identifier: MIT
 * A plan of a model of which only config.json is there. */
#ifndef VR_TEST_PLANNED_H
#define VR_TEST_PLANNED_H

#include "made.h"

typedef struct planned {
    world w;
    vr_plan plan;
    vr_arena arena;
} planned;

static inline void open_config(world *w, const char *config)
{
    *w = (world){ .h = { 0 } };
    assert_true(strlen(config) < sizeof w->config);
    strcpy(w->config, config);
    open_config_alone(w);
    set(w, "dtype", "bf16");
}

static inline void plan_it(planned *p, const char *version, unsigned long long tokens,
                           unsigned long long decode)
{
    set(&p->w, "engine_version", version);
    set_number(&p->w, "context", tokens);
    set_number(&p->w, "decode", decode);
    if (make_plan(&p->w, &ampere, &p->plan, &p->arena) != VRAM_OK)
        fail_msg("%s", vram_last_error(p->w.ctx)->text);
}

static inline void close_planned(planned *p)
{
    vr_arena_free(&p->arena);
    close_world(&p->w);
}

static inline uint64_t kv_at_end(const vr_tape *t, vr_moment_id at)
{
    uint64_t live = 0;
    uint64_t *bytes = calloc(t->n_blocks + 1, sizeof *bytes);
    assert_non_null(bytes);
    for (size_t i = 0; i < t->n; i++) {
        const vr_event *e = &t->events[i];
        if (e->kind == VR_EV_MARK && e->bytes == at)
            break;
        if (e->kind == VR_EV_ALLOC) {
            bytes[e->block] = e->item == VR_ITEM_KV ? e->bytes : 0;
            live += bytes[e->block];
        }
        if (e->kind == VR_EV_RELEASE)
            live -= bytes[e->block];
    }
    free(bytes);
    return live;
}

#endif
