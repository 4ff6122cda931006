/* SPDX-License-Identifier: MIT
 * The allocator of one buffer type, by hand. Addresses in the comments are offsets of chunk 0. */
#include "support.h"

#include "ggml/space.h"

static vr_gg_space *space_of(bench *b, uint64_t alignment, uint64_t chunk_size)
{
    vr_gg_space *s = VR_NEW(&b->scratch, vr_gg_space);
    assert_non_null(s);
    vr_gg_space_init(s, alignment, chunk_size, &b->scratch);
    return s;
}

static void takes(vr_gg_space *s, uint64_t size, uint32_t chunk, uint64_t offset)
{
    vr_gg_address at;
    assert_int_equal(vr_gg_space_take(s, size, &at), VRAM_OK);
    assert_int_equal(at.chunk, chunk);
    assert_int_equal(at.offset, offset);
}

static void gives(vr_gg_space *s, uint64_t offset, uint64_t size)
{
    assert_int_equal(vr_gg_space_give(s, (vr_gg_address){ 0, offset }, size), VRAM_OK);
}

static void best_fit(void **state)
{
    vr_gg_space *s = space_of(*state, 32, UINT64_MAX);
    takes(s, 100, 0, 0); /* 128 after rounding */
    takes(s, 256, 0, 128);
    takes(s, 32, 0, 384);
    takes(s, 64, 0, 416);
    takes(s, 32, 0, 480);
    assert_int_equal(vr_gg_space_bytes(s), 512);
    gives(s, 128, 256);
    gives(s, 416, 64);
    takes(s, 64, 0, 416);  /* the smaller hole */
    takes(s, 64, 0, 128);  /* the only one */
    takes(s, 300, 0, 512); /* 320 fit in no hole (192 are left), so behind all */
    assert_int_equal(vr_gg_space_bytes(s), 832);
}

static void equal_holes(void **state)
{
    vr_gg_space *s = space_of(*state, 32, UINT64_MAX);
    for (unsigned i = 0; i < 6; i++)
        takes(s, 64, 0, 64 * i);
    gives(s, 64, 64);
    gives(s, 192, 64);
    takes(s, 64, 0, 192); /* the last of them */
    takes(s, 64, 0, 64);
}

static void holes_join(void **state)
{
    vr_gg_space *s = space_of(*state, 32, UINT64_MAX);
    for (unsigned i = 0; i < 6; i++)
        takes(s, 64, 0, 64 * i);
    gives(s, 64, 64);
    gives(s, 192, 64);
    gives(s, 128, 64); /* between two holes: 64 to 256 is one */
    takes(s, 192, 0, 64);
    gives(s, 320, 64); /* the last tensor: what is behind all begins there */
    takes(s, 128, 0, 320);
    assert_int_equal(vr_gg_space_bytes(s), 448);
    gives(s, 0, 64);
    gives(s, 64, 192); /* before and behind */
    takes(s, 256, 0, 0);
}

/* What fits behind all is taken there only when no hole is large enough, whatever is wasted. */
static void holes_first(void **state)
{
    vr_gg_space *s = space_of(*state, 32, UINT64_MAX);
    takes(s, 4096, 0, 0);
    takes(s, 32, 0, 4096);
    gives(s, 0, 4096);
    takes(s, 32, 0, 0);
    takes(s, 4096, 0, 4128); /* 4064 are left in the hole */
    assert_int_equal(vr_gg_space_bytes(s), 8224);
}

static void chunks(void **state)
{
    vr_gg_space *s = space_of(*state, 32, 1024);
    takes(s, 600, 0, 0); /* 608 of 1024 */
    takes(s, 600, 1, 0);
    takes(s, 2000, 2, 0); /* a chunk of its own size, 2016 */
    takes(s, 400, 0,
          608); /* 416: two ends have just that, and either chunk would grow by as much: the first */
    assert_int_equal(vr_gg_space_bytes(s), 1024 + 608 + 2016);
}

/* With the 16th chunk there is no limit any more. */
static void last_chunk(void **state)
{
    vr_gg_space *s = space_of(*state, 32, 64);
    for (uint32_t i = 0; i < 15; i++)
        takes(s, 64, i, 0);
    takes(s, 32, 15, 0);
    takes(s, 1 << 20, 15, 32);
    assert_int_equal(vr_gg_space_bytes(s), 15 * 64 + 32 + (1 << 20));
}

static void no_end(void **state)
{
    bench *b = *state;
    vr_gg_space *s = space_of(b, 128, UINT64_MAX);
    vr_gg_address at;
    assert_int_equal(vr_gg_space_take(s, UINT64_MAX, &at), VRAM_EUNSUPPORTED);
    assert_int_equal(vr_gg_space_take(s, UINT64_MAX / 2 + 2, &at), VRAM_EUNSUPPORTED);
}

static void too_many_holes(void **state)
{
    bench *b = *state;
    vr_gg_space *s = space_of(b, 32, UINT64_MAX);
    for (unsigned i = 0; i < 600; i++)
        takes(s, 32, 0, 32 * i);
    /* one free block is behind all, so 255 holes fit */
    for (unsigned i = 0; i < 255; i++)
        gives(s, 64 * i, 32);
    assert_int_equal(vr_gg_space_give(s, (vr_gg_address){ 0, 64 * 255 }, 32), VRAM_EUNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(best_fit), TEST(equal_holes), TEST(holes_join), TEST(holes_first),
        TEST(chunks),   TEST(last_chunk),  TEST(no_end),     TEST(too_many_holes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
