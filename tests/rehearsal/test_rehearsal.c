/* SPDX-License-Identifier: MIT
 * Whole rehearsals against published figures, the invariant of the ledger at every event, failures, and
 * hostile tapes.
 *
 * Published: Qwen2.5-1.5B and Qwen2.5-Coder-7B in bf16 on an RTX 3060 (12,490,457,088 bytes usable): 2,945.3
 * / 3,134.0 MiB allocated and reserved after loading, 4,254.4 / 4,722.0 after a pass of 4,096 tokens, 2,954.4
 * / 3,156.0 after deleting its results and empty_cache; driver 102, 3,236, 4,856, 3,290 MiB. The 7B model
 * died in loading: "Tried to allocate 130.00 MiB ... 11.63 GiB of which 30.88 MiB is free ... 11.54 GiB
 * memory in use ... 11.34 GiB is allocated by PyTorch, and 105.47 MiB is reserved by PyTorch but
 * unallocated". */
#include "qwen.h"

static const uint64_t rtx_3060 = UINT64_C(12490457088);

static vr_stage stage_of(uint64_t available)
{
    return (vr_stage){
        .usable = rtx_3060, .available = available, .context = 102 * VR_MIB, .kernels = 32 * VR_MIB
    };
}

static void play(bench *b, vr_rehearsal *r, const vr_tape *t, const vr_stage *stage)
{
    vr_arena scratch;
    vr_arena_init(&scratch, b->ctx);
    assert_int_equal(t->status, VRAM_OK);
    assert_int_equal(vr_rehearse(r, t, stage, &scratch), VRAM_OK);
    vr_arena_free(&scratch);
}

/* One decimal, as printed. */
static void printed(uint64_t bytes, double mebibytes)
{
    char ours[32], theirs[32];
    snprintf(ours, sizeof(ours), "%.1f", (double)bytes / (double)VR_MIB);
    snprintf(theirs, sizeof(theirs), "%.1f", mebibytes);
    assert_string_equal(ours, theirs);
}

static void moment(const vr_rehearsal *r, vr_moment_id id, double allocated, double reserved, double driver)
{
    for (size_t i = 0; i < r->n_moments; i++) {
        if (r->moments[i].id != id)
            continue;
        printed(r->moments[i].allocated, allocated);
        printed(r->moments[i].reserved, reserved);
        printed(r->moments[i].driver, driver);
        return;
    }
    fail_msg("no moment %s", vr_moment_name(id));
}

static void published_load_and_pass(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_rehearsal r;
    vr_stage stage = stage_of(rtx_3060);
    vr_tape_init(&t, &b->arena);
    qwen_load(&t, &b->arena, &qwen_1_5b);
    qwen_pass(&t, &qwen_1_5b, 4096);
    play(b, &r, &t, &stage);
    assert_false(r.failed);
    assert_int_equal(r.n_moments, 4);
    moment(&r, VR_AT_CONTEXT, 0, 0, 102);
    moment(&r, VR_AT_LOADED, 2945.3, 3134.0, 3236);
    moment(&r, VR_AT_PREFILL, 4254.4, 4722.0, 4856);
    moment(&r, VR_AT_RELEASED, 2954.4, 3156.0, 3290);
    printed(r.peak.driver, 4856);
    assert_int_equal(r.peak.items[VR_ITEM_PARAMETERS], UINT64_C(1543714304) * 2);
    printed(r.peak.items[VR_ITEM_PARAMETERS], 2944.4);
    assert_int_equal(r.n_events, t.n);
}

static void published_death(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_rehearsal r;
    /* What others held, implied by the message: the total less 30.875 MiB free, 11,720 reserved and 102 of
     * context */
    vr_stage stage = stage_of(rtx_3060 - mib(58.953125));
    vr_tape_init(&t, &b->arena);
    qwen_load(&t, &b->arena, &qwen_7b);
    play(b, &r, &t, &stage);
    assert_true(r.failed);
    vr_str label = t.labels[r.failure.label];
    assert_true(vr_str_is(label, "model.layers.23.mlp.down_proj.weight"));
    assert_int_equal(r.failure.requested, 3584 * 18944 * 2);
    assert_string_equal(vr_text(&b->arena, BYTES(r.failure.tried)), "130.00 MiB");
    assert_int_equal(r.failure.tried, 136314880);
    assert_string_equal(vr_text(&b->arena, BYTES(r.failure.live.allocated)), "11.34 GiB");
    assert_string_equal(vr_text(&b->arena, BYTES(r.failure.live.reserved - r.failure.live.allocated)),
                        "105.47 MiB");
    assert_string_equal(vr_text(&b->arena, BYTES(r.failure.driver_free)), "30.88 MiB");
    assert_string_equal(vr_text(&b->arena, BYTES(r.failure.live.driver)), "11.54 GiB");
    assert_int_equal(r.failure.next_moment, VR_AT_LOADED);
    /* Of the 15,231,233,024 bytes of the checkpoint 79.7 % are loaded and take 80.0 % in the allocator */
    uint64_t loaded = r.failure.live.items[VR_ITEM_PARAMETERS] + r.failure.live.items[VR_ITEM_BUFFERS];
    assert_int_equal(vr_mul_div(loaded, 1000, UINT64_C(15231233024)), 797);
    assert_int_equal(vr_mul_div(r.failure.live.allocated, 1000, UINT64_C(15231233024)), 800);
    assert_int_equal(r.n_moments, 1);
    assert_int_equal(r.n_retries, 1);
    assert_int_equal(t.events[r.failure.event].label, r.failure.label);
    assert_int_equal(r.n_events, r.failure.event + 1);
}

/* The same death on the whole card: what others hold only shifts the free figure. */
static void death_without_others(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_rehearsal r;
    vr_stage stage = stage_of(rtx_3060);
    vr_tape_init(&t, &b->arena);
    qwen_load(&t, &b->arena, &qwen_7b);
    play(b, &r, &t, &stage);
    assert_true(r.failed);
    assert_true(vr_str_is(t.labels[r.failure.label], "model.layers.23.mlp.down_proj.weight"));
    assert_string_equal(vr_text(&b->arena, BYTES(r.failure.driver_free)), "89.83 MiB");
    stage.available = UINT64_MAX;
    play(b, &r, &t, &stage);
    assert_false(r.failed);
    assert_int_equal(r.moments[1].allocated - r.peak.items[VR_ITEM_ROUNDING] - r.peak.items[VR_ITEM_BUFFERS],
                     UINT64_C(15231233024));
}

static uint64_t sum_of(const vr_live *live)
{
    uint64_t sum = 0;
    for (int i = 0; i < VR_ITEM_COUNT; i++)
        sum += live->items[i];
    return sum;
}

/* Plays step by step: the items add up to the driver figure after every event, and the peak is the
 * highest figure with what was live at the fullest event, the first of equals. */
static void check_every_event(bench *b, const vr_tape *t, const vr_stage *stage)
{
    vr_rehearsal r;
    vr_player *p;
    vr_live live;
    bool more = true;
    uint64_t driver = 0, allocated = 0;
    vr_live fullest = { .event = 0 };
    size_t at = 0, steps = 0;
    assert_int_equal(vr_player_new(&p, &r, t, stage, &b->arena), VRAM_OK);
    while (more) {
        assert_int_equal(vr_player_step(p, &more), VRAM_OK);
        vr_player_live(p, &live);
        assert_int_equal(sum_of(&live), live.driver);
        assert_true(live.allocated <= live.reserved && live.reserved <= live.driver);
        assert_true(live.driver <= stage->available);
        driver = live.driver > driver ? live.driver : driver;
        if (live.allocated > allocated) {
            at = steps;
            fullest = live;
        }
        allocated = live.allocated > allocated ? live.allocated : allocated;
        steps++;
    }
    assert_int_equal(r.peak.driver, driver);
    assert_int_equal(r.peak.event, at);
    assert_int_equal(r.peak.allocated, allocated);
    assert_int_equal(r.peak.items[VR_ITEM_PARAMETERS], fullest.items[VR_ITEM_PARAMETERS]);
    assert_int_equal(r.peak.items[VR_ITEM_HIDDEN], fullest.items[VR_ITEM_HIDDEN]);
    assert_int_equal(sum_of(&r.peak), r.peak.driver);
    assert_int_equal(r.peak_allocated, allocated);
    if (r.failed)
        assert_int_equal(sum_of(&r.failure.live), r.failure.live.driver);
}

static void items_add_up(void **state)
{
    bench *b = *state;
    static const vr_alloc_conf confs[] = {
        { 0 },
        { .expandable_segments = true },
        { .max_split_bytes = 64 * VR_MIB },
        { .memory_fraction_permille = 400, .gc_threshold_permille = 500 },
        { .roundup_divisions = { 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8 } },
    };
    vr_tape t;
    vr_tape_init(&t, &b->arena);
    qwen_load(&t, &b->arena, &qwen_1_5b);
    qwen_pass(&t, &qwen_1_5b, 1000);
    qwen_pass(&t, &qwen_1_5b, 1777);
    for (size_t i = 0; i < COUNT(confs); i++) {
        for (uint64_t available = UINT64_MAX, n = 0; n < 5;
             n++, available = 3000 * VR_MIB + n * 150 * VR_MIB) {
            vr_stage stage = stage_of(available);
            stage.alloc = &confs[i];
            check_every_event(b, &t, &stage);
        }
    }
}

static void activations_are_scaled(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_rehearsal whole, half;
    vr_stage stage = stage_of(UINT64_MAX);
    vr_tape_init(&t, &b->arena);
    vr_tape_alloc(&t, 100 * VR_MIB, VR_ITEM_PARAMETERS, 0);
    vr_tape_alloc(&t, 60 * VR_MIB, VR_ITEM_HIDDEN, 0);
    vr_tape_alloc(&t, 40 * VR_MIB, VR_ITEM_KV, 0);
    vr_tape_alloc(&t, 20 * VR_MIB, VR_ITEM_LOGITS, 0);
    play(b, &whole, &t, &stage);
    stage.activation_permille = 500;
    play(b, &half, &t, &stage);
    assert_int_equal(whole.peak.driver, 220 * VR_MIB);
    assert_int_equal(half.peak.driver, 180 * VR_MIB);
    assert_int_equal(half.peak.items[VR_ITEM_HIDDEN], 30 * VR_MIB);
    assert_int_equal(half.peak.items[VR_ITEM_LOGITS], 10 * VR_MIB);
    assert_int_equal(half.peak.items[VR_ITEM_PARAMETERS], 100 * VR_MIB);
}

/* A device too small for the context itself: nothing of the allocator is involved. */
static void context_does_not_fit(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_rehearsal r;
    vr_stage stage = stage_of(101 * VR_MIB);
    vr_tape_init(&t, &b->arena);
    qwen_load(&t, &b->arena, &qwen_1_5b);
    play(b, &r, &t, &stage);
    assert_true(r.failed);
    assert_int_equal(r.failure.event, 0);
    assert_int_equal(r.failure.tried, 102 * VR_MIB);
    assert_int_equal(r.failure.driver_free, 101 * VR_MIB);
    assert_int_equal(r.failure.next_moment, VR_AT_CONTEXT);
    assert_int_equal(r.peak.driver, 0);
    assert_int_equal(r.n_retries, 0);
}

/* The driver can only be satisfied after the allocator gave back a whole idle segment. */
static void gives_back_before_it_fails(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_rehearsal r;
    vr_stage stage = { .available = 100 * VR_MIB };
    vr_tape_init(&t, &b->arena);
    vr_tape_release(&t, vr_tape_alloc(&t, 60 * VR_MIB, VR_ITEM_HIDDEN, 0));
    vr_tape_alloc(&t, 80 * VR_MIB, VR_ITEM_KV, 0);
    vr_tape_alloc(&t, 30 * VR_MIB, VR_ITEM_KV, 0);
    play(b, &r, &t, &stage);
    assert_true(r.failed);
    assert_int_equal(r.failure.event, 3);
    assert_int_equal(r.failure.driver_free, 20 * VR_MIB);
    assert_int_equal(r.failure.live.reserved, 80 * VR_MIB);
    assert_int_equal(r.failure.next_moment, VR_MOMENT_COUNT);
    assert_int_equal(r.n_retries, 2);
    assert_int_equal(r.peak.driver, 80 * VR_MIB);
    assert_int_equal(r.peak.event, 2);
}

/* A fraction refuses although the driver has room. */
static void memory_fraction_refuses(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_rehearsal r;
    vr_arena scratch;
    vr_alloc_conf conf = { .memory_fraction_permille = 500 };
    vr_stage stage = { .alloc = &conf, .usable = 200 * VR_MIB, .available = UINT64_MAX };
    vr_tape_init(&t, &b->arena);
    vr_tape_alloc(&t, 90 * VR_MIB, VR_ITEM_KV, 0);
    vr_tape_alloc(&t, 12 * VR_MIB, VR_ITEM_KV, 0);
    play(b, &r, &t, &stage);
    assert_true(r.failed);
    assert_int_equal(r.failure.event, 1);
    assert_true(r.failure.driver_free > r.failure.tried);
    stage.usable = 0;
    vr_arena_init(&scratch, b->ctx);
    assert_int_equal(vr_rehearse(&r, &t, &stage, &scratch), VRAM_ESETTING);
    vr_arena_free(&scratch);
}

static void moments_keep_their_order(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_rehearsal r;
    vr_stage stage = { .available = UINT64_MAX };
    vr_tape_init(&t, &b->arena);
    vr_tape_mark(&t, VR_AT_LOADED);
    vr_tape_alloc(&t, 2 * VR_MIB, VR_ITEM_KV, 0);
    vr_tape_mark(&t, VR_AT_DECODE);
    vr_tape_alloc(&t, 2 * VR_MIB, VR_ITEM_KV, 0);
    vr_tape_mark(&t, VR_AT_DECODE);
    play(b, &r, &t, &stage);
    assert_int_equal(r.n_moments, 2);
    assert_int_equal(r.moments[0].id, VR_AT_LOADED);
    assert_int_equal(r.moments[0].reserved, 0);
    assert_int_equal(r.moments[1].id, VR_AT_DECODE);
    assert_int_equal(r.moments[1].allocated, 4 * VR_MIB);
}

static void blocks_of_no_bytes(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_rehearsal r;
    vr_stage stage = { .available = 0 };
    vr_tape_init(&t, &b->arena);
    vr_tape_release(&t, vr_tape_alloc(&t, 0, VR_ITEM_KV, 0));
    vr_tape_outside(&t, VR_ITEM_CONTEXT, 0);
    play(b, &r, &t, &stage);
    assert_false(r.failed);
    assert_int_equal(r.peak.driver, 0);
    assert_int_equal(r.n_events, 3);
}

static void sizes_beyond_the_number_range(void **state)
{
    bench *b = *state;
    static const uint64_t sizes[] = { UINT64_MAX, UINT64_MAX - 511, UINT64_MAX - 512, UINT64_MAX / 2,
                                      UINT64_C(1) << 62 };
    static const vr_alloc_conf confs[] = {
        { 0 },
        { .expandable_segments = true },
        { .max_split_bytes = UINT64_MAX - 5,
          .roundup_divisions = { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 } },
        { .large_segment_bytes = UINT64_MAX, .expandable_segments = true },
    };
    for (size_t i = 0; i < COUNT(sizes) * COUNT(confs); i++) {
        vr_tape t;
        vr_stage stage = { .alloc = &confs[i / COUNT(sizes)], .available = UINT64_MAX };
        vr_tape_init(&t, &b->arena);
        for (int n = 0; n < 5; n++) {
            vr_tape_alloc(&t, sizes[i % COUNT(sizes)], VR_ITEM_HIDDEN, 0);
            vr_tape_alloc(&t, 3 * VR_MIB, VR_ITEM_HIDDEN, 0);
        }
        vr_tape_outside(&t, VR_ITEM_KERNELS, UINT64_MAX);
        check_every_event(b, &t, &stage);
        stage.activation_permille = 1500;
        check_every_event(b, &t, &stage);
    }
}

static void tapes_that_contradict_themselves(void **state)
{
    bench *b = *state;
    static const vr_event bad[] = {
        { .kind = VR_EV_ALLOC, .block = 0, .bytes = 1 },
        { .kind = VR_EV_ALLOC, .block = 7, .bytes = 1 },
        { .kind = VR_EV_RELEASE, .block = 1 },
        { .kind = VR_EV_RELEASE, .block = 9 },
        { .kind = VR_EV_MARK, .bytes = VR_MOMENT_COUNT },
        { .kind = VR_EV_ALLOC, .block = 1, .item = VR_ITEM_COUNT },
        { .kind = VR_EV_MARK + 1 },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        vr_event events[] = { { .kind = VR_EV_ALLOC, .block = 0, .bytes = 1 }, bad[i] };
        vr_tape t = { .arena = &b->arena, .events = events, .n = 2, .n_blocks = 2 };
        vr_stage stage = { .available = UINT64_MAX };
        vr_rehearsal r;
        vr_arena scratch;
        vr_arena_init(&scratch, b->ctx);
        assert_int_equal(vr_rehearse(&r, &t, &stage, &scratch), VRAM_EINTERNAL);
        assert_int_equal(vram_last_error(b->ctx)->code, VRAM_EINTERNAL);
        vr_arena_free(&scratch);
    }
}

static void a_failed_tape_is_not_played(void **state)
{
    bench *b = *state;
    vr_tape t;
    vr_rehearsal r;
    vr_stage stage = { .available = UINT64_MAX };
    vr_arena scratch;
    vr_tape_init(&t, &b->arena);
    t.limit = 1;
    vr_tape_mark(&t, VR_AT_LOADED);
    vr_tape_mark(&t, VR_AT_LOADED);
    vr_arena_init(&scratch, b->ctx);
    assert_int_equal(vr_rehearse(&r, &t, &stage, &scratch), VRAM_ELIMIT);
    vr_arena_free(&scratch);
}

/* Fills the first chunk of an arena to a different point each time, so that other requests meet its end. */
static size_t padding;

/* Everything that allocates, in one run. */
static vram_status whole_run(vram_ctx *ctx)
{
    vr_arena arena, scratch;
    vr_tape t;
    vr_rehearsal r;
    vr_alloc_conf conf = { 0 };
    vr_arena_init(&arena, ctx);
    vr_arena_init(&scratch, ctx);
    vr_tape_init(&t, &arena);
    if (vr_arena_alloc(&arena, padding) == NULL)
        t.status = VRAM_ENOMEM;
    qwen_load(&t, &arena, &qwen_1_5b);
    qwen_pass(&t, &qwen_1_5b, 512);
    uint32_t blocks[400];
    for (uint64_t i = 0; i < 400; i++) /* sets with many leaves */
        blocks[i] =
            vr_tape_alloc_on(&t, VR_MIB + i * 4096, VR_ITEM_KV, 0, (uint8_t)(i % 3), (uint8_t)(i % 2));
    for (uint32_t i = 0; i < 400; i += 2)
        vr_tape_release(&t, blocks[i]);
    vram_status status =
        vr_alloc_conf_parse(&conf, ctx, VR_LIT("expandable_segments:True,pinned_num_register_threads:8"));
    vr_stage stage = { .alloc = &conf, .usable = rtx_3060, .available = 3400 * VR_MIB };
    if (status == VRAM_OK)
        status = vr_rehearse(&r, &t, &stage, &scratch);
    if (status == VRAM_OK)
        status = vr_rehearse(&r, &t, &(vr_stage){ .available = UINT64_MAX }, &scratch);
    vr_arena_free(&arena);
    vr_arena_free(&scratch);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (padding = 0; padding < 40000; padding += 2777)
        assert_true(survives_failures(whole_run) > 10);
}

/* The allocator alone, with a hook that fails the n-th time: what it says afterwards must still be
 * consistent. */
static void allocator_survives_failures(void **state)
{
    (void)state;
    for (size_t n = 1; n < 40; n++) {
        hook h = { .fail_at = n, .fail_after = n % 2 == 0 };
        vram_ctx *ctx;
        vr_arena arena;
        vr_allocator *a = NULL;
        vr_alloc_conf conf = { .expandable_segments = n % 4 < 2 };
        uint64_t random = n, tried;
        uint32_t blocks[512];
        memset(blocks, 0xff, sizeof(blocks));
        if (vram_open(&ctx, hook_alloc, &h) != VRAM_OK)
            continue;
        vr_arena_init(&arena, ctx);
        vram_status status = vr_allocator_new(&a, &arena, &conf, NULL);
        assert_true(status == VRAM_OK || status == VRAM_ENOMEM);
        for (int i = 0; status == VRAM_OK && i < 5000; i++) {
            uint32_t *b = &blocks[next_random(&random) % 512];
            vr_allocator_release(a, *b);
            vram_status s =
                vr_allocator_alloc(a, next_random(&random) % (4 * VR_MIB), i % 7 == 0, 0, b, &tried);
            assert_true(s == VRAM_OK || (s == VRAM_ENOMEM && *b == VR_NO_BLOCK));
            if (i % 100 == 0)
                (void)vr_allocator_empty_cache(a);
        }
        for (int i = 0; status == VRAM_OK && i < 512; i++)
            vr_allocator_release(a, blocks[i]);
        if (status == VRAM_OK) {
            h.fail_at = 0;
            assert_int_equal(vr_allocator_empty_cache(a), VRAM_OK);
            figures(a, 0, 0);
            assert_int_equal(vr_allocator_stats(a)->n_segments, 0);
        }
        vr_arena_free(&arena);
        close_context(ctx, &h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(published_load_and_pass),
        TEST(published_death),
        TEST(death_without_others),
        TEST(items_add_up),
        TEST(activations_are_scaled),
        TEST(context_does_not_fit),
        TEST(gives_back_before_it_fails),
        TEST(memory_fraction_refuses),
        TEST(moments_keep_their_order),
        TEST(blocks_of_no_bytes),
        TEST(sizes_beyond_the_number_range),
        TEST(tapes_that_contradict_themselves),
        TEST(a_failed_tape_is_not_played),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(allocator_survives_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
