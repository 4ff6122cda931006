/* SPDX-License-Identifier: MIT
 * A context with one scenario, for tests; include cmocka.h first. */
#ifndef VR_TEST_SCENARIO_WORLD_H
#define VR_TEST_SCENARIO_WORLD_H

#include <string.h>

#include "../support/hook.h"
#include "ledger/scenario.h"

typedef struct world {
    hook h;
    vram_ctx *ctx;
    vram_scenario *s;
} world;

static inline void open_world(world *w)
{
    memset(w, 0, sizeof(*w));
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->h), VRAM_OK);
    assert_int_equal(vram_scenario_new(&w->s, w->ctx), VRAM_OK);
}

static inline void close_world(world *w)
{
    vram_close(w->ctx);
    assert_int_equal(w->h.live_bytes, 0);
}

#endif
