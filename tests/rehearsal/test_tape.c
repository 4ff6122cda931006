/* SPDX-License-Identifier: MIT
 * Writing tapes: numbers, labels, the limit, sticky failures, and the names of what is on them. */
#include "support.h"

static void numbers_are_dense_and_used_again(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_tape_init(&t, &b->arena);
    assert_int_equal(vr_tape_alloc(&t, 10, VR_ITEM_KV, 0), 0);
    assert_int_equal(vr_tape_alloc(&t, 20, VR_ITEM_LOGITS, 0), 1);
    vr_tape_release(&t, 0);
    assert_int_equal(vr_tape_alloc_on(&t, 30, VR_ITEM_STATES, 0, 3, 7), 0);
    assert_int_equal(vr_tape_alloc(&t, 40, VR_ITEM_KV, 0), 2);
    assert_int_equal(t.n_blocks, 3);
    assert_int_equal(t.n, 5);
    assert_int_equal(t.status, VRAM_OK);
    const vr_event *e = &t.events[3];
    assert_int_equal(e->kind, VR_EV_ALLOC);
    assert_int_equal(e->item, VR_ITEM_STATES);
    assert_int_equal(e->bytes, 30);
    assert_int_equal(e->stream, 3);
    assert_int_equal(e->pool, 7);
    assert_int_equal(t.events[2].kind, VR_EV_RELEASE);
    assert_int_equal(t.events[2].block, 0);
}

static void other_events(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_tape_init(&t, &b->arena);
    vr_tape_outside(&t, VR_ITEM_KERNELS, 99);
    vr_tape_empty_cache(&t);
    vr_tape_mark(&t, VR_AT_PREFILL);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.events[0].kind, VR_EV_OUTSIDE);
    assert_int_equal(t.events[0].item, VR_ITEM_KERNELS);
    assert_int_equal(t.events[0].bytes, 99);
    assert_int_equal(t.events[1].kind, VR_EV_EMPTY_CACHE);
    assert_int_equal(t.events[2].kind, VR_EV_MARK);
    assert_int_equal(t.events[2].bytes, VR_AT_PREFILL);
}

static void labels_are_numbered_from_one(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_tape_init(&t, &b->arena);
    static const char name[] = "model.norm.weight";
    for (uint32_t i = 1; i <= 1000; i++)
        assert_int_equal(vr_tape_label(&t, vr_str_of(name)), i);
    assert_ptr_equal(t.labels[1000].s, name); /* borrowed */
    assert_int_equal(t.labels[0].n, 0);
    uint32_t block = vr_tape_alloc(&t, 1, VR_ITEM_PARAMETERS, 1000);
    assert_int_equal(t.events[block].label, 1000);
}

static void the_limit_is_an_error(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_tape_init(&t, &b->arena);
    assert_int_equal(t.limit, VR_TAPE_LIMIT);
    t.limit = 1000;
    for (int i = 0; i < 1000; i++)
        vr_tape_alloc(&t, 1, VR_ITEM_KV, 0);
    assert_int_equal(t.status, VRAM_OK);
    vr_tape_mark(&t, VR_AT_LOADED);
    assert_int_equal(t.status, VRAM_ELIMIT);
    assert_non_null(strstr(vram_last_error(b->ctx)->text, "1,000"));
    assert_int_equal(t.n, 1000);
    vr_tape_init(&t, &b->arena);
    t.limit = 10;
    for (int i = 0; i < 11; i++)
        vr_tape_label(&t, VR_LIT("x"));
    assert_int_equal(t.status, VRAM_ELIMIT);
}

static void failures_are_sticky(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_tape_init(&t, &b->arena);
    uint32_t block = vr_tape_alloc(&t, 1, VR_ITEM_KV, 0);
    vr_tape_release(&t, block);
    vr_tape_release(&t, block);
    assert_int_equal(t.status, VRAM_EINTERNAL);
    assert_int_equal(vram_last_error(b->ctx)->code, VRAM_EINTERNAL);
    size_t n = t.n;
    vr_tape_alloc(&t, 1, VR_ITEM_KV, 0);
    vr_tape_release(&t, 0);
    vr_tape_outside(&t, VR_ITEM_CONTEXT, 1);
    vr_tape_empty_cache(&t);
    vr_tape_mark(&t, VR_AT_LOADED);
    assert_int_equal(vr_tape_label(&t, VR_LIT("x")), 0);
    assert_int_equal(t.n, n);
    assert_int_equal(t.status, VRAM_EINTERNAL);
    vr_tape_init(&t, &b->arena);
    vr_tape_release(&t, 4);
    assert_int_equal(t.status, VRAM_EINTERNAL);
}

/* The numbers of random writing stay dense: never more than were held at once. */
static void numbers_never_run_away(void **state)
{
    bench *b = *state;
    vr_tape t;
    uint32_t held[100];
    size_t n = 0, most = 0;
    uint64_t random = 3;
    vr_tape_init(&t, &b->arena);
    for (int i = 0; i < 20000; i++) {
        size_t at = (size_t)(next_random(&random) % COUNT(held));
        if (at < n) {
            vr_tape_release(&t, held[at]);
            held[at] = held[--n];
        } else {
            held[n++] = vr_tape_alloc(&t, 1, VR_ITEM_KV, 0);
            most = n > most ? n : most;
        }
    }
    assert_int_equal(t.status, VRAM_OK);
    assert_int_equal(t.n, 20000);
    assert_int_equal(t.n_blocks, most);
}

/* DESIGN's words, in its order. */
static void names(void **state)
{
    (void)state;
    static const char *const json[] = { "weights",  "gradients",   "optimizer_states",
                                        "kv_cache", "activations", "runtime_overhead" };
    static const char *const moments[] = { "context", "loaded", "prefill", "decode", "released" };
    assert_int_equal(VR_CATEGORY_COUNT, COUNT(json));
    for (int i = 0; i < VR_CATEGORY_COUNT; i++)
        assert_string_equal(vr_category_json((vr_category)i), json[i]);
    assert_string_equal(vr_category_screen(VR_KV_CACHE), "KV cache");
    for (int i = 0; i < VR_MOMENT_COUNT; i++)
        assert_string_equal(vr_moment_name((vr_moment_id)i), moments[i]);
    for (int i = 0; i < VR_ITEM_COUNT; i++) {
        assert_true(vr_item_json((vr_item)i)[0] != 0 && vr_item_screen((vr_item)i)[0] != 0);
        assert_true(vr_item_category((vr_item)i) < VR_CATEGORY_COUNT);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(vr_item_json((vr_item)i), vr_item_json((vr_item)k));
    }
    assert_int_equal(vr_item_category(VR_ITEM_BUFFERS), VR_WEIGHTS);
    assert_int_equal(vr_item_category(VR_ITEM_IDLE), VR_OVERHEAD);
    assert_string_equal(vr_item_json((vr_item)VR_ITEM_COUNT), "");
    assert_string_equal(vr_category_json((vr_category)VR_CATEGORY_COUNT), "");
    assert_string_equal(vr_category_screen((vr_category)VR_CATEGORY_COUNT), "");
    assert_string_equal(vr_moment_name((vr_moment_id)VR_MOMENT_COUNT), "");
    assert_string_equal(vr_item_screen((vr_item)VR_ITEM_COUNT), "");
    assert_int_equal(vr_item_category((vr_item)VR_ITEM_COUNT), VR_OVERHEAD);
}

static vram_status write_tape(vram_ctx *ctx)
{
    vr_arena arena;
    vr_tape t;
    vr_arena_init(&arena, ctx);
    vr_tape_init(&t, &arena);
    for (int i = 0; i < 3000; i++) {
        uint32_t label = vr_tape_label(&t, VR_LIT("x"));
        uint32_t block = vr_tape_alloc(&t, 1, VR_ITEM_KV, label);
        if (i % 2 == 0)
            vr_tape_release(&t, block);
    }
    vram_status status = t.status;
    vr_arena_free(&arena);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(survives_failures(write_tape) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_are_dense_and_used_again),
        TEST(other_events),
        TEST(labels_are_numbered_from_one),
        TEST(the_limit_is_an_error),
        TEST(failures_are_sticky),
        TEST(numbers_never_run_away),
        cmocka_unit_test(names),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
