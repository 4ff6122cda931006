/* SPDX-License-Identifier: MIT
 * Sorting and the map of names. */
#include "support.h"

typedef struct entry {
    uint32_t key, order;
    char pad[5]; /* an odd size: elements need no alignment of their own */
} entry;

typedef struct counted {
    size_t comparisons;
} counted;

static bool key_less(void *ud, const void *x, const void *y)
{
    entry a, b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, y, sizeof b);
    ((counted *)ud)->comparisons++;
    return a.key < b.key;
}

static void sorts_stably(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    uint64_t seed = 4;
    for (size_t n = 0; n < 300; n = n < 70 ? n + 1 : n + 37) {
        for (uint32_t range = 1; range < 2000; range *= 7) {
            entry list[300];
            counted c = { 0 };
            for (size_t i = 0; i < n; i++)
                list[i] = (entry){ .key = (uint32_t)next_random(&seed) % range, .order = (uint32_t)i };
            assert_int_equal(vr_sort(ctx, list, n, sizeof *list, key_less, &c), VRAM_OK);
            for (size_t i = 1; i < n; i++) {
                assert_true(list[i - 1].key <= list[i].key);
                assert_true(list[i - 1].key < list[i].key || list[i - 1].order < list[i].order);
            }
        }
    }
    close_context(ctx, &h);
}

static void sorted_input_costs_one_pass(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    static entry list[10000];
    counted c = { 0 };
    for (uint32_t i = 0; i < COUNT(list); i++)
        list[i] = (entry){ .key = i / 2 };
    size_t calls = h.n_calls;
    assert_int_equal(vr_sort(ctx, list, COUNT(list), sizeof *list, key_less, &c), VRAM_OK);
    assert_int_equal(c.comparisons, COUNT(list) - 1);
    assert_int_equal(h.n_calls, calls);
    for (uint32_t i = 0; i < COUNT(list); i++)
        list[i].key = (uint32_t)COUNT(list) - i; /* backwards: the worst order for many a sort */
    c.comparisons = 0;
    assert_int_equal(vr_sort(ctx, list, COUNT(list), sizeof *list, key_less, &c), VRAM_OK);
    assert_true(c.comparisons < COUNT(list) * 15); /* n log2 n */
    for (uint32_t i = 0; i < COUNT(list); i++)
        assert_int_equal(list[i].key, i + 1);
    close_context(ctx, &h);
}

static vram_status sort_something(vram_ctx *ctx)
{
    entry list[3] = { { .key = 3 }, { .key = 2 }, { .key = 1 } };
    counted c = { 0 };
    VR_TRY(vr_sort(ctx, list, 3, sizeof *list, key_less, &c));
    assert_int_equal(list[0].key, 1);
    return VRAM_OK;
}

static void maps_names_to_numbers(void **state)
{
    (void)state;
    enum { N = 50000 };
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_map m;
    bool was;
    uint32_t value;
    assert_int_equal(vr_map_init(&m, &ctx->arena, 0, 42), VRAM_OK);
    vr_str *keys = VR_ARRAY(&ctx->arena, vr_str, N);
    for (uint32_t i = 0; i < N; i++) {
        keys[i] =
            vr_str_of(vr_text(&ctx->arena, T("model.layers."), U(i / 100), T(".mlp.experts."), U(i % 100)));
        assert_int_equal(vr_map_put(&m, keys[i], i, &was, &value), VRAM_OK);
        assert_false(was);
        assert_int_equal(value, i);
    }
    assert_int_equal(m.n, N);
    for (uint32_t i = 0; i < N; i += 7) {
        char again[64];
        memcpy(again, keys[i].s, keys[i].n); /* the same bytes elsewhere */
        vr_str key = { again, keys[i].n };
        assert_true(vr_map_get(&m, key, &value));
        assert_int_equal(value, i);
        assert_int_equal(vr_map_put(&m, key, 1, &was, &value), VRAM_OK);
        assert_true(was);
        assert_int_equal(value, i);
        key.n--;
        value = 77;
        if (i % 100 >= 10)
            continue;
        assert_false(vr_map_get(&m, key, &value)); /* "...experts." is nobody's name */
        assert_int_equal(value, 77);
    }
    assert_int_equal(m.n, N);
    close_context(ctx, &h);
}

static void maps_odd_names(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_map m;
    bool was;
    uint32_t value;
    vr_str keys[] = { { NULL, 0 },       { "\0", 1 },         { "\0\0", 2 },
                      { "12345678", 8 }, { "12345678\0", 9 }, { "a", 1 } };
    assert_int_equal(vr_map_init(&m, &ctx->arena, 1, 0), VRAM_OK);
    for (uint32_t i = 0; i < COUNT(keys); i++) {
        assert_int_equal(vr_map_put(&m, keys[i], i, &was, &value), VRAM_OK);
        assert_false(was);
    }
    for (uint32_t i = 0; i < COUNT(keys); i++) {
        assert_true(vr_map_get(&m, keys[i], &value));
        assert_int_equal(value, i);
    }
    close_context(ctx, &h);
}

static void expected_names_need_no_growing(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_map m;
    bool was;
    uint32_t value;
    assert_int_equal(vr_map_init(&m, &ctx->arena, 1000, 1), VRAM_OK);
    size_t room = m.room;
    static char names[1000][2];
    for (uint32_t i = 0; i < 1000; i++) {
        names[i][0] = (char)(i / 256);
        names[i][1] = (char)i;
        assert_int_equal(vr_map_put(&m, (vr_str){ names[i], 2 }, i, &was, &value), VRAM_OK);
    }
    assert_int_equal(m.room, room);
    assert_int_equal(vr_map_init(&m, &ctx->arena, SIZE_MAX, 1), VRAM_ENOMEM);
    close_context(ctx, &h);
}

static vram_status map_something(vram_ctx *ctx)
{
    static const char names[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
    vr_map m;
    bool was;
    uint32_t value;
    VR_TRY(vr_map_init(&m, &ctx->arena, 0, 1));
    for (uint32_t i = 0; i + 8 < sizeof names; i++) {
        for (uint32_t n = 1; n <= 8; n++)
            VR_TRY(vr_map_put(&m, (vr_str){ names + i, n }, i, &was, &value));
    }
    return VRAM_OK;
}

static void sort_and_map_survive_failures(void **state)
{
    (void)state;
    assert_int_equal(survives_failures(sort_something), 2);
    assert_true(survives_failures(map_something) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_stably),
        cmocka_unit_test(sorted_input_costs_one_pass),
        cmocka_unit_test(maps_names_to_numbers),
        cmocka_unit_test(maps_odd_names),
        cmocka_unit_test(expected_names_need_no_growing),
        cmocka_unit_test(sort_and_map_survive_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
