/* SPDX-License-Identifier: MIT
 * What the tests of src/rehearsal share. */
#ifndef VR_TEST_REHEARSAL_SUPPORT_H
#define VR_TEST_REHEARSAL_SUPPORT_H

#include "../base/support.h"
#include "rehearsal/allocator.h"
#include "rehearsal/rehearsal.h"
#include "rehearsal/tape.h"

/* A context with an arena, for tests that need no more. */
typedef struct bench {
    hook h;
    vram_ctx *ctx;
    vr_arena arena;
} bench;

static inline int bench_open(void **state)
{
    bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    b->ctx = open_context(&b->h);
    vr_arena_init(&b->arena, b->ctx);
    *state = b;
    return 0;
}

static inline int bench_close(void **state)
{
    bench *b = *state;
    vr_arena_free(&b->arena);
    close_context(b->ctx, &b->h);
    free(b);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_open, bench_close)

static inline uint64_t mib(double n)
{
    return (uint64_t)(n * (double)VR_MIB);
}

static inline vr_allocator *allocator(bench *b, const vr_alloc_conf *conf, const vr_driver *driver)
{
    vr_allocator *a = NULL;
    assert_int_equal(vr_allocator_new(&a, &b->arena, conf, driver), VRAM_OK);
    return a;
}

/* A request that must succeed. */
static inline uint32_t take(vr_allocator *a, uint64_t bytes)
{
    uint32_t block = VR_NO_BLOCK;
    uint64_t tried = 1;
    assert_int_equal(vr_allocator_alloc(a, bytes, 0, 0, &block, &tried), VRAM_OK);
    assert_int_equal(tried, 0);
    return block;
}

static inline void figures(const vr_allocator *a, uint64_t reserved, uint64_t allocated)
{
    assert_int_equal(vr_allocator_stats(a)->reserved, reserved);
    assert_int_equal(vr_allocator_stats(a)->allocated, allocated);
}

#endif
