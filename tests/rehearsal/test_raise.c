/* SPDX-License-Identifier: MIT
 * Rehearsals that raise what is available, what a rehearsal knows of other devices, and rehearsals one after
 * the other in the same memory. */
#include "qwen.h"

static vr_stage stage_of(const vr_alloc_conf *conf, uint64_t available)
{
    return (vr_stage){ .alloc = conf,
                       .usable = 64 * VR_GIB,
                       .available = available,
                       .context = 102 * VR_MIB,
                       .kernels = 32 * VR_MIB };
}

static vr_rehearsal play(bench *b, vr_hall *hall, const vr_tape *t, const vr_stage *stage)
{
    vr_rehearsal r;
    (void)b;
    assert_int_equal(t->status, VRAM_OK);
    assert_int_equal(vr_rehearse_in(&r, t, stage, hall), VRAM_OK);
    return r;
}

/* 80 MiB of a segment of 100 are asked for, and 60 lie idle: what lacks is told to the byte. */
static void raises_by_what_lacks(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_hall hall;
    vr_stage stage = { .available = 100 * VR_MIB, .raise = true };
    vr_hall_open(&hall, b->ctx);
    vr_tape_init(&t, &b->arena);
    vr_tape_release(&t, vr_tape_alloc(&t, 60 * VR_MIB, VR_ITEM_HIDDEN, 0));
    vr_tape_alloc(&t, 80 * VR_MIB, VR_ITEM_KV, 0); /* fits once the 60 are given back */
    vr_tape_alloc(&t, 30 * VR_MIB, VR_ITEM_KV, 0); /* 10 lack */
    vr_tape_alloc(&t, 5 * VR_MIB, VR_ITEM_KV, 0);  /* a segment of 20 */
    vr_rehearsal r = play(b, &hall, &t, &stage);
    assert_false(r.failed);
    assert_true(r.raised);
    assert_int_equal(r.peak.driver, 130 * VR_MIB);
    stage = (vr_stage){ .available = 130 * VR_MIB, .raise = true };
    r = play(b, &hall, &t, &stage);
    assert_false(r.raised);
    assert_int_equal(r.peak.driver, 130 * VR_MIB);
    stage.available--;
    assert_true(play(b, &hall, &t, &stage).raised);
    vr_hall_close(&hall);
}

/* What lies outside the allocator is made room for as well; a memory fraction cannot be raised. */
static void raises_outside_and_not_a_fraction(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_hall hall;
    vr_alloc_conf half = { .memory_fraction_permille = 500 };
    vr_stage stage = { .context = 50 * VR_MIB, .kernels = 7, .raise = true };
    vr_hall_open(&hall, b->ctx);
    vr_tape_init(&t, &b->arena);
    vr_tape_outside(&t, VR_ITEM_CONTEXT, 0);
    vr_tape_outside(&t, VR_ITEM_KERNELS, 0);
    vr_tape_alloc(&t, 12 * VR_MIB, VR_ITEM_KV, 0);
    vr_rehearsal r = play(b, &hall, &t, &stage);
    assert_false(r.failed);
    assert_int_equal(r.peak.driver, 62 * VR_MIB + 7);
    stage.alloc = &half;
    stage.usable = 20 * VR_MIB;
    r = play(b, &hall, &t, &stage);
    assert_true(r.failed);
    assert_int_equal(r.failure.event, 2);
    assert_false(r.failure.outside);
    vr_hall_close(&hall);
}

static const vr_alloc_conf confs[] = {
    { 0 },
    { .expandable_segments = true },
    { .max_split_bytes = 64 * VR_MIB },
    { .max_split_bytes = 128 * VR_MIB, .expandable_segments = true },
    { .roundup_divisions = { 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8 } },
};

static void two_passes(vr_tape *t, bench *b)
{
    vr_tape_init(t, &b->arena);
    qwen_load(t, &b->arena, &qwen_1_5b);
    qwen_pass(t, &qwen_1_5b, 4000);
    qwen_pass(t, &qwen_1_5b, 5777);
}

/* Raised from nothing and again from there until nothing is raised: it lives in that, and in far less than
 * without a limit. */
static void lives_in_what_was_raised(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_hall hall;
    vr_hall_open(&hall, b->ctx);
    two_passes(&t, b);
    for (size_t i = 0; i < COUNT(confs); i++) {
        vr_stage stage = stage_of(&confs[i], UINT64_MAX);
        uint64_t endless = play(b, &hall, &t, &stage).peak.driver;
        vr_rehearsal r;
        stage.available = 0;
        stage.raise = true;
        for (int round = 0; round < 9; round++) {
            r = play(b, &hall, &t, &stage);
            assert_false(r.failed);
            if (!r.raised)
                break;
            stage.available = r.peak.driver;
        }
        assert_false(r.raised);
        assert_true(r.peak.driver <= stage.available && r.peak.driver <= endless);
    }
    vr_hall_close(&hall);
}

static void check_same(const vr_rehearsal *r, const vr_rehearsal *other)
{
    assert_int_equal(other->failed, r->failed);
    assert_int_equal(other->n_events, r->n_events);
    assert_int_equal(other->n_retries, r->n_retries);
    assert_int_equal(other->peak_allocated, r->peak_allocated);
    assert_memory_equal(other->asked, r->asked, sizeof(r->asked));
    if (r->failed)
        assert_int_equal(other->failure.live.reserved, r->failure.live.reserved);
    else
        assert_int_equal(other->moments[2].reserved, r->moments[2].reserved);
}

static void one_pass(vr_tape *t, bench *b)
{
    vr_tape_init(t, &b->arena);
    qwen_load(t, &b->arena, &qwen_1_5b);
    qwen_pass(t, &qwen_1_5b, 5777);
}

/* With any room from what was granted up to what was refused all happens the same; with less or as much as
 * was refused it does not. */
static void asked_bounds_the_same(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_hall hall;
    uint64_t random = 7, outside = 134 * VR_MIB;
    vr_hall_open(&hall, b->ctx);
    one_pass(&t, b);
    for (size_t i = 0; i < 60; i++) {
        const vr_alloc_conf *conf = &confs[i % COUNT(confs)];
        vr_stage stage = stage_of(conf, 3000 * VR_MIB + next_random(&random) % (3500 * VR_MIB));
        vr_rehearsal r = play(b, &hall, &t, &stage);
        struct vr_asked early = r.asked[0], late = r.asked[1];
        uint64_t low = late.granted + outside, high = late.refused;
        if (early.granted + outside > low)
            low = early.granted + outside; /* more than enough for the loading */
        high = high == UINT64_MAX ? stage.available + VR_GIB : high + outside - 1;
        if (late.granted == 0 || early.refused != UINT64_MAX) /* died while loading, or gave back there */
            continue;
        assert_false(r.odd);
        assert_true(stage.available <= high);
        vr_stage at = stage;
        at.available = low;
        vr_rehearsal other = play(b, &hall, &t, &at);
        check_same(&r, &other);
        at.available = high;
        other = play(b, &hall, &t, &at);
        check_same(&r, &other);
        at.available = high + 1;
        if (late.refused != UINT64_MAX) {
            other = play(b, &hall, &t, &at);
            assert_memory_not_equal(other.asked, r.asked, sizeof(r.asked));
        }
    }
    vr_hall_close(&hall);
}

/* The device's figures out of place: no word about other devices. */
static void odd_tapes(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_hall hall;
    vr_stage stage = stage_of(NULL, UINT64_MAX);
    vr_hall_open(&hall, b->ctx);
    vr_tape_init(&t, &b->arena);
    vr_tape_outside(&t, VR_ITEM_CONTEXT, 0);
    vr_tape_outside(&t, VR_ITEM_KERNELS, 0);
    assert_false(play(b, &hall, &t, &stage).odd);
    vr_tape_outside(&t, VR_ITEM_KERNELS, 0);
    assert_true(play(b, &hall, &t, &stage).odd);
    vr_tape_init(&t, &b->arena);
    assert_true(play(b, &hall, &t, &stage).odd);
    vr_tape_outside(&t, VR_ITEM_KERNELS, 0);
    vr_tape_outside(&t, VR_ITEM_CONTEXT, 0);
    assert_true(play(b, &hall, &t, &stage).odd);
    vr_hall_close(&hall);
}

/* A rehearsal in used memory is the same as one in fresh memory, whatever was rehearsed before. */
static void halls_remember_nothing(void **state)
{
    bench *b = *state;
    vr_tape t, small;
    vr_hall hall;
    vr_arena scratch;
    vr_hall_open(&hall, b->ctx);
    vr_arena_init(&scratch, b->ctx);
    two_passes(&t, b);
    vr_tape_init(&small, &b->arena);
    vr_tape_alloc_on(&small, 3 * VR_MIB, VR_ITEM_KV, 0, 5, 2);
    for (size_t i = 0; i < 2 * COUNT(confs); i++) {
        vr_stage stage = stage_of(&confs[i % COUNT(confs)], i < COUNT(confs) ? UINT64_MAX : 4600 * VR_MIB);
        vr_rehearsal fresh, used = play(b, &hall, &t, &stage);
        assert_int_equal(vr_rehearse(&fresh, &t, &stage, &scratch), VRAM_OK);
        check_same(&fresh, &used);
        assert_int_equal(fresh.peak.driver, used.peak.driver);
        assert_int_equal(fresh.peak.event, used.peak.event);
        play(b, &hall, &small, &stage);
    }
    vr_arena_free(&scratch);
    vr_hall_close(&hall);
}

/* A device's total is no matter for expandable segments as long as none is mapped further than it reserves.
 */
static void span_bounds_the_total(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_hall hall;
    vr_hall_open(&hall, b->ctx);
    two_passes(&t, b);
    vr_stage stage = stage_of(&confs[1], UINT64_MAX);
    stage.usable = 0;
    vr_rehearsal r = play(b, &hall, &t, &stage);
    assert_true(r.span > 0);
    stage.usable = r.span * 8 / 9 + 9; /* 9/8 of it are reserved */
    vr_rehearsal other = play(b, &hall, &t, &stage);
    check_same(&r, &other);
    stage.usable = r.span / 2;
    other = play(b, &hall, &t, &stage);
    assert_true(other.span < r.span);
    stage.alloc = NULL;
    assert_int_equal(play(b, &hall, &t, &stage).span, 0);
    vr_hall_close(&hall);
}

/* A request that leaves 40 MiB: of 200 of which 50 are taken, and of what is less than those. */
static void cuts_to_what_is_free(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_hall hall;
    vr_stage stage = { .context = 50 * VR_MIB };
    vr_hall_open(&hall, b->ctx);
    vr_tape_init(&t, &b->arena);
    vr_tape_outside(&t, VR_ITEM_CONTEXT, 0);
    vr_tape_release(&t, vr_tape_alloc_cut(&t, 120 * VR_MIB, VR_ITEM_WARMUP, 0, 40 * VR_MIB, false));
    stage.available = 210 * VR_MIB;
    vr_rehearsal r = play(b, &hall, &t, &stage);
    assert_false(r.cut);
    assert_int_equal(r.peak.driver, 170 * VR_MIB);
    assert_int_equal(r.asked[0].granted, 160 * VR_MIB); /* less would have cut it */
    stage.available = 200 * VR_MIB;
    r = play(b, &hall, &t, &stage);
    assert_true(r.cut);
    assert_int_equal(r.peak.items[VR_ITEM_WARMUP], 110 * VR_MIB);
    stage.available = 200 * VR_MIB - 1; /* to an even number */
    r = play(b, &hall, &t, &stage);
    assert_int_equal(r.peak.items[VR_ITEM_WARMUP], 110 * VR_MIB - 2);
    stage.available = 80 * VR_MIB;
    r = play(b, &hall, &t, &stage);
    assert_false(r.failed);
    assert_int_equal(r.peak.driver, 50 * VR_MIB);
    vr_hall_close(&hall);
}

/* The card's total decides, whatever is free; a total that is not known cuts nothing. */
static void cuts_to_the_total(void **state)
{
    bench *b = *state;
    static const struct {
        uint64_t total, takes;
    } cases[] = { { 0, 120 }, { 160, 120 }, { 159, 119 }, { 40, 0 }, { 30, 0 } };
    vr_tape t;
    vr_hall hall;
    vr_hall_open(&hall, b->ctx);
    vr_tape_init(&t, &b->arena);
    vr_tape_alloc_cut(&t, 120 * VR_MIB, VR_ITEM_WARMUP, 0, 40 * VR_MIB, true);
    for (size_t i = 0; i < COUNT(cases); i++) {
        vr_stage stage = { .usable = cases[i].total * VR_MIB, .available = 130 * VR_MIB };
        vr_rehearsal r = play(b, &hall, &t, &stage);
        assert_int_equal(r.peak.items[VR_ITEM_WARMUP], cases[i].takes * VR_MIB);
        assert_int_equal(r.whole_from, 160 * VR_MIB);
        assert_false(r.failed || r.cut);
    }
    vr_hall_close(&hall);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(raises_by_what_lacks),
        TEST(raises_outside_and_not_a_fraction),
        TEST(lives_in_what_was_raised),
        TEST(asked_bounds_the_same),
        TEST(odd_tapes),
        TEST(halls_remember_nothing),
        TEST(span_bounds_the_total),
        TEST(cuts_to_what_is_free),
        TEST(cuts_to_the_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
