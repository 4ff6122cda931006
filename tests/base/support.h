/* SPDX-License-Identifier: MIT
 * What the tests of src/base share: a context over the counting hook, and the loop that fails every
 * allocation. */
#ifndef VR_TEST_BASE_SUPPORT_H
#define VR_TEST_BASE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "base/base.h"
#include "base/json.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* A vr_str in a static table, where VR_LIT is no constant expression. */
/* clang-format off */
#define LITERAL(text) { (text), sizeof(text) - 1 }
/* clang-format on */

static inline vram_ctx *open_context(hook *h)
{
    vram_ctx *ctx = NULL;
    assert_int_equal(vram_open(&ctx, hook_alloc, h), VRAM_OK);
    assert_non_null(ctx);
    return ctx;
}

static inline void close_context(vram_ctx *ctx, hook *h)
{
    vram_close(ctx);
    assert_int_equal(h->live_bytes, 0);
    assert_int_equal(h->live_blocks, 0);
}

/* One run that may allocate; must be repeatable. */
typedef vram_status (*faulty_fn)(vram_ctx *ctx);

/* Fails the n-th allocation for n = 1, 2, ... until a run meets no failure: every other run must report
 * ENOMEM and leave nothing behind. Returns how many allocations there are. */
static inline size_t fail_every_allocation(faulty_fn run, bool every_later_one)
{
    for (size_t n = 1;; n++) {
        hook h = { .fail_at = n, .fail_after = every_later_one };
        vram_ctx *ctx = NULL;
        vram_status status = vram_open(&ctx, hook_alloc, &h);
        bool opened = status == VRAM_OK;
        if (opened) {
            status = run(ctx);
            assert_int_equal(status, vram_last_error(ctx)->code);
        } else {
            assert_null(ctx);
        }
        bool failed = h.n_calls >= n;
        assert_int_equal(status, failed ? VRAM_ENOMEM : VRAM_OK);
        assert_string_equal(vram_last_error(ctx)->text, failed ? "out of host memory" : "no error");
        vram_close(ctx);
        assert_int_equal(h.live_bytes, 0);
        assert_int_equal(h.live_blocks, 0);
        if (!failed)
            return n - 1;
    }
}

static inline size_t survives_failures(faulty_fn run)
{
    size_t n = fail_every_allocation(run, false);
    assert_int_equal(fail_every_allocation(run, true), n);
    return n;
}

/* A small generator with a fixed seed (splitmix64, Steele et al. 2014), so that a failure repeats. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

#endif
