/* SPDX-License-Identifier: MIT
 * What the tests of src/ggml share. */
#ifndef VR_TEST_GGML_SUPPORT_H
#define VR_TEST_GGML_SUPPORT_H

#include "../base/support.h"
#include "ggml/parts.h"

/* A graph, the machine it is reserved on, and scratch memory. */
typedef struct bench {
    hook h;
    vram_ctx *ctx;
    vr_arena arena, scratch;
    vr_gg g;
    vr_gg_machine m;
    uint8_t card[4], pinned, pageable;
    vr_gg_reserved r;
} bench;

static inline int bench_open(void **state)
{
    bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    b->ctx = open_context(&b->h);
    vr_arena_init(&b->arena, b->ctx);
    vr_arena_init(&b->scratch, b->ctx);
    vr_gg_init(&b->g, &b->arena);
    *state = b;
    return 0;
}

static inline int bench_close(void **state)
{
    bench *b = *state;
    vr_arena_free(&b->arena);
    vr_arena_free(&b->scratch);
    close_context(b->ctx, &b->h);
    free(b);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_open, bench_close)

static inline void machine_of(bench *b, unsigned cards)
{
    static const char *const names[] = { "CUDA0", "CUDA1", "CUDA2", "CUDA3" };
    memset(&b->m, 0, sizeof(b->m));
    b->m.op_offload = true;
    b->m.copies = 1;
    b->m.cc = 89;
    for (unsigned i = 0; i < cards; i++)
        vr_gg_add_cuda(&b->m, names[i], &b->card[i]);
    vr_gg_add_cpu(&b->m, &b->pinned, &b->pageable);
}

static inline vr_gg_tensor *weight(bench *b, vr_dtype t, uint64_t ne0, uint64_t ne1, uint8_t buft)
{
    return vr_gg_placed(&b->g, "w", t, (const uint64_t[]){ ne0, ne1, 1, 1 }, buft, true);
}

static inline vr_gg_tensor *cache(bench *b, vr_dtype t, uint64_t ne0, uint64_t ne1, uint8_t buft)
{
    return vr_gg_placed(&b->g, "cache", t, (const uint64_t[]){ ne0, ne1, 1, 1 }, buft, false);
}

static inline vr_gg_tensor *input(bench *b, uint64_t ne0, uint64_t ne1)
{
    return vr_gg_input(&b->g, "x", VR_F32, ne0, ne1, 1, 1);
}

/* Expands t and reserves the graph; it must work. */
static inline void reserve(bench *b, vr_gg_tensor *t)
{
    vr_gg_build_forward_expand(&b->g, t);
    if (vr_gg_reserve(&b->r, &b->g, &b->m, &b->scratch) != VRAM_OK)
        fail_msg("%s", vram_last_error(b->ctx)->text);
}

#endif
