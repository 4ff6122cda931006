/* SPDX-License-Identifier: MIT
 * Rules of PyTorch's caching allocator one by one, on examples worked by hand from
 * c10/cuda/CUDACachingAllocator.cpp. */
#include "support.h"

static void best_fit_split_and_stranded_tails(void **state)
{
    vr_allocator *a = allocator(*state, NULL, NULL);
    vr_allocator_release(a, take(a, mib(30)));
    figures(a, mib(30), 0);
    uint32_t twelve = take(a, mib(12)); /* 30 is split: 12 + 18 */
    figures(a, mib(30), mib(12));
    take(a, mib(19)); /* 18 does not do: a segment of 20, and 1 MiB is not split off */
    figures(a, mib(50), mib(32));
    assert_int_equal(vr_allocator_stats(a)->requested, mib(31));
    take(a, mib(17.5)); /* all of the 18 */
    figures(a, mib(50), mib(50));
    vr_allocator_release(a, twelve);
    take(a, mib(13)); /* a segment of 14, all of it */
    figures(a, mib(64), mib(52));
    assert_int_equal(vr_allocator_stats(a)->n_segments, 3);
}

/* Takes n blocks of `size`, n and m of them; the first lot is freed before the second comes. */
static uint64_t reserved_by_order(bench *b, const vr_alloc_conf *conf, size_t n, double size, size_t m,
                                  double then)
{
    vr_allocator *a = allocator(b, conf, NULL);
    uint32_t blocks[16];
    for (size_t i = 0; i < n; i++)
        blocks[i] = take(a, mib(size));
    for (size_t i = 0; i < n; i++)
        vr_allocator_release(a, blocks[i]);
    for (size_t i = 0; i < m; i++)
        take(a, mib(then));
    return vr_allocator_stats(a)->reserved;
}

static void order_decides_what_is_reserved(void **state)
{
    static const vr_alloc_conf expandable = { .expandable_segments = true };
    assert_int_equal(reserved_by_order(*state, NULL, 4, 32, 8, 16), mib(128));
    assert_int_equal(reserved_by_order(*state, NULL, 8, 16, 4, 32), mib(256));
    /* 128 MiB in pages of 20 MiB: 140, whichever way; 4 x 32 first reaches 40, 80, 100, 140 as well */
    assert_int_equal(reserved_by_order(*state, &expandable, 8, 16, 4, 32), mib(140));
    assert_int_equal(reserved_by_order(*state, &expandable, 4, 32, 8, 16), mib(140));
}

/* PyTorch's developer log: eight tensors of 16 MiB */
static void expandable_segments_grow_by_pages(void **state)
{
    static const double reserved[] = { 20, 40, 60, 80, 80, 100, 120, 140 };
    static const vr_alloc_conf expandable = { .expandable_segments = true };
    vr_allocator *a = allocator(*state, &expandable, NULL);
    uint32_t blocks[8];
    for (size_t i = 0; i < COUNT(blocks); i++) {
        blocks[i] = take(a, mib(16));
        figures(a, mib(reserved[i]), mib(16) * (i + 1));
        assert_int_equal(vr_allocator_address(a, blocks[i]),
                         vr_allocator_address(a, blocks[0]) + i * mib(16));
    }
    assert_int_equal(vr_allocator_stats(a)->n_segments, 1);
    vr_allocator_release(a, blocks[2]); /* from 32 to 48 MiB: no page lies wholly inside */
    assert_int_equal(vr_allocator_empty_cache(a), VRAM_OK);
    figures(a, mib(140), mib(112));
    vr_allocator_release(a, blocks[3]); /* to 64 MiB: one page, from 40 to 60 */
    assert_int_equal(vr_allocator_empty_cache(a), VRAM_OK);
    figures(a, mib(120), mib(96));
    take(a, mib(32)); /* the hole, mapped again, comes before the end */
    figures(a, mib(140), mib(128));
}

/* Qwen2.5-1.5B's embedding: 445.125 MiB in a segment of 446, the rest is allocated */
static void unsplit_rest_is_allocated(void **state)
{
    vr_allocator *a = allocator(*state, NULL, NULL);
    take(a, UINT64_C(151936) * 1536 * 2);
    figures(a, mib(446), mib(446));
    assert_int_equal(vr_allocator_stats(a)->requested, mib(445.125));
}

/* Four tensors of 4.5 MiB leave 2 MiB of a segment of 20 */
static void tensors_below_ten_mib_share_segments(void **state)
{
    vr_allocator *a = allocator(*state, NULL, NULL);
    for (int i = 0; i < 4; i++)
        take(a, mib(4.5));
    figures(a, mib(20), mib(18));
    take(a, mib(4.5));
    figures(a, mib(40), mib(22.5));
}

typedef struct size_row {
    uint64_t bytes, block, reserved;
} size_row;

static void check_sizes(bench *b, const vr_alloc_conf *conf, const size_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        vr_allocator *a = allocator(b, conf, NULL);
        uint32_t block = take(a, rows[i].bytes);
        assert_int_equal(vr_allocator_size(a, block), rows[i].block);
        figures(a, rows[i].reserved, rows[i].block);
        assert_int_equal(vr_allocator_stats(a)->requested, rows[i].bytes);
    }
}

#define M VR_MIB

static void sizes_are_rounded(void **state)
{
    static const size_row rows[] = {
        { 1, 512, 2 * M },
        { 511, 512, 2 * M },
        { 512, 512, 2 * M },
        { 513, 1024, 2 * M },
        { M - 1, M, 2 * M },
        { M, M, 2 * M },
        { M + 1, M + 512, 20 * M },     /* the large pool */
        { 10 * M - 1, 10 * M, 10 * M }, /* rounded up before it is looked at */
        { 10 * M - 512, 10 * M - 512, 20 * M },
        { 10 * M, 10 * M, 10 * M },
        { 10 * M + 1, 12 * M - (M + M - 512),
          12 * M },                 /* 10 MiB + 512; 2 MiB - 512 is more than 1 MiB and split off */
        { 11 * M, 12 * M, 12 * M }, /* exactly 1 MiB is not split off */
        { 11 * M - 512, 11 * M - 512, 12 * M },
        { 19 * M, 20 * M, 20 * M },
    };
    check_sizes(*state, NULL, rows, COUNT(rows));
}

/* roundup_power2_divisions:4, PyTorch's own example: 1200 lies between 1024 and 2048, the next of four steps
 * is 1280. That is in units of 512 here, since smaller sizes are not divided. */
static void sizes_are_rounded_to_divisions(void **state)
{
    static const vr_alloc_conf four = { .roundup_divisions = { 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
                                                               4 } };
    static const size_row rows[] = {
        { 1200, 1536, 2 * M }, /* not above 4 x 512: as ever */
        { 2048, 2048, 2 * M },
        { 2049, 2560, 2 * M },
        { 1200 * 512, 1280 * 512, 2 * M },
        { 1024 * 512, 1024 * 512, 2 * M },
        { 1800 * 512, 2048 * 512, 2 * M },
        { 34 * M, 40 * M, 40 * M },
        { 32 * M, 32 * M, 32 * M },
        { 33 * M, 40 * M, 40 * M },
        { 63 * M, 64 * M, 64 * M },
    };
    check_sizes(*state, &four, rows, COUNT(rows));
    /* Buckets: [5] holds 32 to 64 MiB, [0] everything below 2 MiB, [15] everything from 32 GiB */
    static const vr_alloc_conf some = { .roundup_divisions = { [0] = 2, [5] = 8, [15] = 2 } };
    static const size_row bucket_rows[] = {
        { 300 * 1024, 384 * 1024, 2 * M },
        { 3 * M - 1, 3 * M, 20 * M },
        { 34 * M, 36 * M, 36 * M },
        { 68 * M - 1, 68 * M, 68 * M },
        { UINT64_C(80) << 30, UINT64_C(96) << 30, UINT64_C(96) << 30 },
    };
    check_sizes(*state, &some, bucket_rows, COUNT(bucket_rows));
}

static void lowest_address_among_equals(void **state)
{
    vr_allocator *a = allocator(*state, NULL, NULL);
    uint32_t blocks[200];
    uint64_t address[200];
    for (size_t i = 0; i < COUNT(blocks); i++) {
        blocks[i] = take(a, mib(12));
        address[i] = vr_allocator_address(a, blocks[i]);
    }
    for (size_t i = COUNT(blocks); i-- > 0;)
        vr_allocator_release(a, blocks[(i * 77) % COUNT(blocks)]);
    for (size_t i = 0; i < COUNT(blocks); i++)
        assert_int_equal(vr_allocator_address(a, take(a, mib(12))), address[i]);
}

static void streams_and_pools_do_not_share(void **state)
{
    vr_allocator *a = allocator(*state, NULL, NULL);
    uint32_t block;
    uint64_t tried;
    vr_allocator_release(a, take(a, mib(40)));
    assert_int_equal(vr_allocator_alloc(a, mib(40), 1, 0, &block, &tried), VRAM_OK);
    figures(a, mib(80), mib(40));
    vr_allocator_release(a, block);
    assert_int_equal(vr_allocator_alloc(a, mib(40), 0, 3, &block, &tried), VRAM_OK);
    figures(a, mib(120), mib(40));
    vr_allocator_release(a, block);
    /* A captured graph keeps its memory */
    assert_int_equal(vr_allocator_empty_cache(a), VRAM_OK);
    figures(a, mib(40), 0);
    assert_int_equal(vr_allocator_alloc(a, mib(30), 0, 3, &block, &tried), VRAM_OK);
    figures(a, mib(40), mib(30));
}

static bool limited(void *ud, uint64_t reserved, uint64_t bytes)
{
    return bytes <= *(uint64_t *)ud && reserved <= *(uint64_t *)ud - bytes;
}

static uint64_t refused(vr_allocator *a, uint64_t bytes)
{
    uint32_t block = 0;
    uint64_t tried = 0;
    assert_int_equal(vr_allocator_alloc(a, bytes, 0, 0, &block, &tried), VRAM_OK);
    assert_int_equal(block, VR_NO_BLOCK);
    return tried;
}

static void out_of_memory_names_the_segment(void **state)
{
    uint64_t limit = mib(100);
    vr_driver driver = { .room = limited, .ud = &limit };
    vr_allocator *a = allocator(*state, NULL, &driver);
    take(a, mib(90));
    assert_int_equal(refused(a, mib(11)), mib(12));
    assert_int_equal(refused(a, mib(2)), mib(20));
    assert_int_equal(refused(a, mib(129.5)), mib(130));
    take(a, 4096); /* 2 MiB are there */
    figures(a, mib(92), mib(90) + 4096);
    assert_int_equal(vr_allocator_stats(a)->n_retries, 3);
}

/* Segments of 14 MiB that have 1.5 MiB left over: none can go back, and looking at all of them at each
 * request would take minutes. */
static void full_of_remainders(void **state)
{
    enum { MANY = 100000 };
    uint64_t limit = mib(14) * MANY;
    vr_driver driver = { .room = limited, .ud = &limit };
    vr_allocator *a = allocator(*state, NULL, &driver);
    uint32_t last = VR_NO_BLOCK;
    for (size_t i = 0; i < MANY; i++)
        last = take(a, mib(12.5));
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(refused(a, mib(12.5)), mib(14));
    assert_int_equal(vr_allocator_stats(a)->n_retries, MANY);
    vr_allocator_release(a, last); /* whole again */
    take(a, mib(13.5));            /* all of it */
    figures(a, limit, mib(12.5) * (MANY - 1) + mib(14));
}

/* max_split_size 64: first the smallest oversize block that covers the request goes back, then the largest
 * few */
static void oversize_blocks_go_back_first(void **state)
{
    uint64_t limit = mib(500);
    vr_alloc_conf conf = { .max_split_bytes = mib(64) };
    vr_driver driver = { .room = limited, .ud = &limit };
    vr_allocator *a = allocator(*state, &conf, &driver);
    uint32_t blocks[] = { take(a, mib(70)), take(a, mib(120)), take(a, mib(200)), take(a, mib(80)) };
    for (size_t i = 0; i < COUNT(blocks); i++)
        vr_allocator_release(a, blocks[i]);
    figures(a, mib(470), 0);
    take(a, mib(40)); /* no oversize block serves it; 70 goes back for it (at least 64), 120, 200, 80 stay */
    figures(a, mib(440), mib(40));
    assert_int_equal(vr_allocator_stats(a)->n_retries, 0);
    take(a, mib(250)); /* no block covers 250: 200 and 120 go back, 80 stays */
    figures(a, mib(370), mib(290));
    assert_int_equal(vr_allocator_stats(a)->n_retries, 0);
    uint32_t close = take(a, mib(70)); /* 80 is less than 20 MiB too large, and not split */
    assert_int_equal(vr_allocator_size(a, close), mib(80));
    figures(a, mib(370), mib(370));
}

/* The threshold of 0.5 of an allowance of 400 MiB: segments at least as old as the mean go, before the driver
 * is asked */
static void garbage_is_collected_by_age(void **state)
{
    vr_alloc_conf conf = { .memory_fraction_permille = 400, .gc_threshold_permille = 500 };
    vr_driver driver = { .total = mib(1000) };
    vr_allocator *a = allocator(*state, &conf, &driver);
    vr_allocator_release(a, take(a, mib(100)));
    take(a, mib(20)); /* of the 100 that are idle */
    figures(a, mib(100), mib(20));
    vr_allocator_reset(a, &conf, &driver);
    uint32_t old = take(a, mib(100));
    take(a, mib(20));
    vr_allocator_release(a, old);
    for (int i = 0; i < 10; i++)
        vr_allocator_release(a, take(a, mib(150)));
    figures(a, mib(270), mib(20));
    take(a, mib(160)); /* 270 > 200: the 100 goes, idle for longer than the mean; it alone covers the 70 too
                          many */
    figures(a, mib(330), mib(180));
    take(a, mib(60)); /* 330 > 200, but an idle block serves: nothing is collected */
    figures(a, mib(330), mib(240));
}

static void asks_again_after_reset(void **state)
{
    static const vr_alloc_conf expandable = { .expandable_segments = true };
    vr_allocator *a = allocator(*state, NULL, NULL);
    for (int round = 0; round < 4; round++) {
        uint64_t first = 0;
        for (int i = 0; i < 300; i++) {
            uint32_t block = take(a, mib(1) + (uint64_t)i * 4096);
            first = i == 0 ? vr_allocator_address(a, block) : first;
            if (i % 3 == 0)
                vr_allocator_release(a, block);
        }
        assert_true(first != 0);
        vr_allocator_reset(a, round % 2 == 0 ? &expandable : NULL, NULL);
        figures(a, 0, 0);
        assert_int_equal(vr_allocator_stats(a)->n_segments, 0);
    }
}

static void known_state(void **state)
{
    vr_allocator *a = allocator(*state, NULL, NULL);
    uint32_t block, rest;
    assert_int_equal(vr_allocator_add_segment(a, mib(1000), mib(20), false, 0, &block), VRAM_OK);
    assert_int_equal(vr_allocator_cut(a, block, mib(4), mib(3.5), true, &rest), VRAM_OK);
    uint32_t idle = rest;
    assert_int_equal(vr_allocator_cut(a, rest, mib(6), 0, false, &rest), VRAM_OK);
    uint32_t tail = rest;
    assert_int_equal(vr_allocator_cut(a, tail, mib(10), mib(10), true, &rest), VRAM_OK);
    assert_int_equal(rest, VR_NO_BLOCK);
    figures(a, mib(20), mib(14));
    assert_int_equal(vr_allocator_stats(a)->requested, mib(13.5));
    uint32_t five = take(a, mib(5)); /* 1 MiB is not split off */
    assert_int_equal(five, idle);
    assert_int_equal(vr_allocator_address(a, five), mib(1004));
    figures(a, mib(20), mib(20));
    vr_allocator_release(a, block);
    vr_allocator_release(a, tail);
    vr_allocator_release(a, five);
    assert_int_equal(vr_allocator_empty_cache(a), VRAM_OK);
    figures(a, 0, 0);
}

static void impossible_states_are_refused(void **state)
{
    vr_allocator *a = allocator(*state, NULL, NULL);
    uint32_t block, rest;
    assert_int_equal(vr_allocator_add_segment(a, 1, 0, false, 0, &block), VRAM_EFORMAT);
    assert_int_equal(vr_allocator_add_segment(a, UINT64_MAX, 2, false, 0, &block), VRAM_EFORMAT);
    assert_int_equal(vr_allocator_add_segment(a, 0, UINT64_MAX - 1, false, 0, &block), VRAM_OK);
    assert_int_equal(vr_allocator_add_segment(a, 0, 2, false, 0, &rest),
                     VRAM_EFORMAT); /* more reserved than can be counted */
    assert_int_equal(vr_allocator_cut(a, block, 0, 0, true, &rest), VRAM_EFORMAT);
    assert_int_equal(vr_allocator_cut(a, block, UINT64_MAX, 0, true, &rest), VRAM_EFORMAT);
    assert_int_equal(vr_allocator_cut(a, block, 512, 513, true, &rest), VRAM_EFORMAT);
    assert_int_equal(vr_allocator_cut(a, 77, 512, 512, true, &rest), VRAM_EFORMAT);
    assert_int_equal(vr_allocator_cut(a, block, 512, 512, true, &rest), VRAM_OK);
    assert_int_equal(vr_allocator_cut(a, block, 512, 512, true, &rest), VRAM_EFORMAT); /* live already */
}

static void nothing_is_nothing(void **state)
{
    vr_allocator *a = allocator(*state, NULL, NULL);
    assert_int_equal(take(a, 0), VR_NO_BLOCK);
    vr_allocator_release(a, VR_NO_BLOCK);
    vr_allocator_release(a, 12345);
    uint32_t block = take(a, 1);
    vr_allocator_release(a, block);
    vr_allocator_release(a, block);
    figures(a, mib(2), 0);
    assert_int_equal(vr_allocator_address(a, VR_NO_BLOCK), 0);
    assert_int_equal(vr_allocator_size(a, VR_NO_BLOCK), 0);
}

/* Many streams and pools: each finds its own again. */
static void many_groups(void **state)
{
    vr_allocator *a = allocator(*state, NULL, NULL);
    uint32_t block;
    uint64_t tried;
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 3000; i++) {
            assert_int_equal(vr_allocator_alloc(a, 4096, i % 300, i / 300, &block, &tried), VRAM_OK);
            vr_allocator_release(a, block);
        }
        figures(a, mib(2) * 3000, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(best_fit_split_and_stranded_tails),
        TEST(order_decides_what_is_reserved),
        TEST(expandable_segments_grow_by_pages),
        TEST(unsplit_rest_is_allocated),
        TEST(tensors_below_ten_mib_share_segments),
        TEST(sizes_are_rounded),
        TEST(sizes_are_rounded_to_divisions),
        TEST(lowest_address_among_equals),
        TEST(streams_and_pools_do_not_share),
        TEST(out_of_memory_names_the_segment),
        TEST(full_of_remainders),
        TEST(oversize_blocks_go_back_first),
        TEST(garbage_is_collected_by_age),
        TEST(asks_again_after_reset),
        TEST(known_state),
        TEST(impossible_states_are_refused),
        TEST(nothing_is_nothing),
        TEST(many_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
