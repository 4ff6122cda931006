/* SPDX-License-Identifier: MIT
 * A diagnosis of a text, with all that the reports do not show. */
#ifndef VR_TEST_READ_H
#define VR_TEST_READ_H

#include <stdlib.h>
#include <string.h>

#include "../support/hook.h"
#include "diagnosis/diagnosis.h"

typedef struct world {
    hook hook;
    vram_ctx *ctx;
} world;

static inline struct vram_diagnosis *diagnosis_of(world *w, const char *text)
{
    vram_log *log;
    vram_diagnosis *d;

    assert_int_equal(vram_log_new(&log, w->ctx), VRAM_OK);
    assert_int_equal(vram_log_feed(log, text, strlen(text)), VRAM_OK);
    assert_int_equal(vram_diagnosis_new(&d, log, NULL, NULL), VRAM_OK);
    return d;
}

static inline int open_world(void **state)
{
    world *w = calloc(1, sizeof *w);

    *state = w;
    return vram_open(&w->ctx, hook_alloc, &w->hook) == VRAM_OK ? 0 : 1;
}

static inline int close_world(void **state)
{
    world *w = *state;

    vram_close(w->ctx);
    assert_int_equal(w->hook.live_bytes, 0);
    free(w);
    return 0;
}

#endif
