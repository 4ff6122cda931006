/* SPDX-License-Identifier: MIT
 * Checked arithmetic at its edges. */
#include "support.h"

static void adds_and_multiplies_or_refuses(void **state)
{
    (void)state;
    uint64_t v = 7;
    assert_true(vr_add(UINT64_MAX - 1, 1, &v));
    assert_true(v == UINT64_MAX);
    v = 7;
    assert_false(vr_add(UINT64_MAX, 1, &v));
    assert_int_equal(v, 7);
    assert_true(vr_mul(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &v));
    assert_true(v == UINT64_MAX - (UINT64_C(1) << 32) + 1);
    v = 7;
    assert_false(vr_mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &v));
    assert_int_equal(v, 7);
    assert_true(vr_mul(0, UINT64_MAX, &v));
    assert_int_equal(v, 0);
}

static void saturates(void **state)
{
    (void)state;
    assert_true(vr_add_sat(UINT64_MAX, 1) == UINT64_MAX);
    assert_int_equal(vr_add_sat(1, 2), 3);
    assert_true(vr_mul_sat(UINT64_MAX, 2) == UINT64_MAX);
    assert_int_equal(vr_mul_sat(6, 7), 42);
    assert_int_equal(vr_sub_floor(3, 5), 0);
    assert_int_equal(vr_sub_floor(5, 3), 2);
}

static void rounds_up_to_multiples(void **state)
{
    (void)state;
    /* PyTorch rounds requests to 512 and segments to 2 MiB (c10/cuda/CUDACachingAllocator.cpp,
     * kMinBlockSize). */
    assert_int_equal(vr_round_up(0, 512), 0);
    assert_int_equal(vr_round_up(1, 512), 512);
    assert_int_equal(vr_round_up(512, 512), 512);
    assert_int_equal(vr_round_up(136314880 + 1, 2097152), 136314880 + 2097152);
    assert_int_equal(vr_round_up(10, 3), 12);
    assert_int_equal(vr_round_up(10, 0), 10);
    assert_true(vr_round_up(UINT64_MAX - 5, 512) == UINT64_MAX);
}

static void multiplies_then_divides_in_128_bits(void **state)
{
    (void)state;
    assert_int_equal(vr_mul_div(7, 1, 2), 4); /* 3.5 */
    assert_int_equal(vr_mul_div(5, 1, 3), 2); /* 1.67 */
    assert_int_equal(vr_mul_div(4, 1, 3), 1); /* 1.33 */
    assert_true(vr_mul_div(UINT64_MAX, UINT64_MAX, UINT64_MAX) == UINT64_MAX);
    assert_true(vr_mul_div(UINT64_MAX, 3, 2) == UINT64_MAX);
    assert_true(vr_mul_div(UINT64_MAX, 2, 4) == UINT64_C(1) << 63);
    assert_true(vr_mul_div(1, 1, 0) == UINT64_MAX);
    /* 16,777,216 tokens of 7e9 * 2 bytes over 1e9: beyond 64 bits on the way */
    assert_true(vr_mul_div(UINT64_C(14000000000), UINT64_C(16777216) * 1000, UINT64_C(1000000000000)) ==
                UINT64_C(234881024));
}

static void differences_are_clamped(void **state)
{
    (void)state;
    assert_int_equal(vr_diff(5, 3), 2);
    assert_int_equal(vr_diff(3, 5), -2);
    assert_true(vr_diff(UINT64_MAX, 0) == INT64_MAX);
    assert_true(vr_diff(0, UINT64_MAX) == INT64_MIN);
    assert_true(vr_diff(0, UINT64_C(1) << 63) == INT64_MIN);
    assert_true(vr_diff(0, (UINT64_C(1) << 63) - 1) == INT64_MIN + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_and_multiplies_or_refuses),
        cmocka_unit_test(saturates),
        cmocka_unit_test(rounds_up_to_multiples),
        cmocka_unit_test(multiplies_then_divides_in_128_bits),
        cmocka_unit_test(differences_are_clamped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
