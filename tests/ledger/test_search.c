/* SPDX-License-Identifier: MIT
 * Searches against all there is: every answer is compared with a walk over all numbers or all cuts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "../support/hook.h"
#include "ledger/search.h"

static uint64_t dice;

static uint64_t draw(uint64_t sides) /* Knuth's MMIX */
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (dice >> 33) % sides;
}

/* ---- the largest number ---- */

#define MOST 4096

static int64_t table[MOST];
static unsigned tries;

static vram_status from_table(void *ud, uint64_t x, int64_t *left)
{
    tries++;
    assert_true(x < *(uint64_t *)ud);
    *left = table[x];
    return VRAM_OK;
}

static vr_solved solve_from(uint64_t start, uint64_t count)
{
    vr_solved s;
    tries = 0;
    assert_int_equal(vr_solve(&s, count, start, from_table, &count), VRAM_OK);
    if (s.found) {
        assert_true(table[s.x] >= 0);
        assert_int_equal(table[s.x], s.left);
        assert_int_equal(s.top, s.x == count - 1);
        assert_true(s.top || (table[s.x + 1] < 0 && table[s.x + 1] == s.next_left));
    }
    return s;
}

static vr_solved solve(uint64_t count)
{
    return solve_from(0, count);
}

/* left(x) = room - x * each: the largest is room / each. */
static void test_even(void **state)
{
    (void)state;
    for (uint64_t fits = 0; fits <= 81; fits++) {
        for (uint64_t x = 0; x < 82; x++)
            table[x] = (int64_t)(1000 * fits + 500) - (int64_t)(1000 * x);
        vr_solved s = solve(82);
        assert_true(s.found);
        assert_int_equal(s.x, fits);
        assert_in_range(tries, 1, 6); /* the two ends, the guess, its neighbours, a near one */
        for (uint64_t start = 1; start < 82; start++)
            assert_int_equal(solve_from(start, 82).x, fits);
    }
    table[0] = 0;
    assert_true(solve(1).found);
    table[0] = -1;
    assert_false(solve(1).found);
    for (uint64_t x = 0; x < 82; x++)
        table[x] = -1 - (int64_t)x;
    assert_false(solve(82).found);
}

/* It only falls, in leaps that no line follows. */
static void test_falling(void **state)
{
    (void)state;
    dice = 1;
    for (int round = 0; round < 2000; round++) {
        uint64_t count = 1 + draw(200), largest = 0;
        int64_t left = (int64_t)draw(1000000);
        for (uint64_t x = 0; x < count; x++) {
            table[x] = left;
            largest = left >= 0 ? x : largest;
            left -= draw(3) == 0 ? (int64_t)draw(500000) : (int64_t)draw(3);
        }
        vr_solved s = solve(count);
        assert_true(s.found);
        assert_int_equal(s.x, largest);
        assert_in_range(tries, 1, 40);
        assert_int_equal(solve_from(draw(count), count).x, largest);
    }
}

/* It rises now and then: what comes out fits, its neighbour does not, and neither does the one behind. */
static void test_uneven(void **state)
{
    (void)state;
    dice = 2;
    for (int round = 0; round < 2000; round++) {
        uint64_t count = 2 + draw(300);
        int64_t left = (int64_t)draw(100000);
        for (uint64_t x = 0; x < count; x++) {
            table[x] = left;
            left -= (int64_t)draw(2000) - 300;
        }
        table[0] = table[0] < 0 ? 0 : table[0];
        vr_solved s = solve(count);
        assert_true(s.found);
        for (uint64_t x = s.x + 1; x < count && x < s.x + 3 && !s.top; x++)
            assert_true(table[x] < 0);
    }
}

/* The first of all does not fit, one behind it does. */
static void test_first_not(void **state)
{
    (void)state;
    for (uint64_t x = 0; x < 50; x++)
        table[x] = x == 1 ? 5 : -1;
    vr_solved s = solve(50);
    assert_true(s.found);
    assert_int_equal(s.x, 1);
    for (uint64_t x = 0; x < 50; x++)
        table[x] = x == 0 || x == 49 ? INT64_MIN : INT64_MIN + 1;
    assert_false(solve(50).found);
    for (uint64_t x = 0; x < 50; x++) /* the last does though most do not */
        table[x] = x == 49 ? 0 : INT64_MIN;
    assert_true(solve(50).top);
    for (uint64_t x = 0; x < 50; x++)
        table[x] = x <= 31 ? INT64_MAX : INT64_MIN;
    assert_int_equal(solve(50).x, 31);
}

static vram_status broken(void *ud, uint64_t x, int64_t *left)
{
    *left = -(int64_t)x;
    return ++*(int *)ud == 3 ? VRAM_ENOMEM : VRAM_OK;
}

static void test_failure(void **state)
{
    int n = 0;
    vr_solved s;
    (void)state;
    assert_int_equal(vr_solve(&s, 100, 0, broken, &n), VRAM_ENOMEM);
}

/* ---- cuts ---- */

typedef struct machine {
    uint64_t bytes[64], room[8], fixed[8];
    uint64_t last, beside; /* more for the last unit's GPU; for each that has a unit before it */
    size_t n, units;
    unsigned tries;
} machine;

static vram_status left_on(void *ud, const uint64_t *shares, int64_t *left)
{
    machine *m = ud;
    uint64_t from = 0;
    m->tries++;
    for (size_t k = 0; k < m->n; k++) {
        int64_t all = (int64_t)m->room[k];
        for (uint64_t i = 0; i < shares[k]; i++)
            all -= (int64_t)m->bytes[from + i];
        from += shares[k];
        if (shares[k] != 0)
            all -= (int64_t)(m->fixed[k] + (from == m->units ? m->last : m->beside));
        left[k] = all;
    }
    assert_int_equal(from, m->units);
    return VRAM_OK;
}

static int64_t least_left(machine *m, const uint64_t *shares)
{
    int64_t left[8], least = INT64_MAX;
    left_on(m, shares, left);
    for (size_t k = 0; k < m->n; k++)
        least = (shares[k] != 0 || left[k] < 0) && left[k] < least ? left[k] : least;
    return least;
}

/* The best of all cuts, one GPU after the other. */
static int64_t best_of(machine *m, uint64_t *shares, size_t k, uint64_t rest)
{
    int64_t best = INT64_MIN;
    if (k + 1 == m->n) {
        shares[k] = rest;
        return least_left(m, shares);
    }
    for (uint64_t n = 0; n <= rest; n++) {
        shares[k] = n;
        int64_t b = best_of(m, shares, k + 1, rest - n);
        best = b > best ? b : best;
    }
    return best;
}

static vr_cut cut_of(machine *m, const uint64_t *guessed, bool enough, vr_arena *a)
{
    vr_cut_question q = { .n = m->n,
                          .units = m->units,
                          .bytes = guessed,
                          .room = m->room,
                          .enough = enough,
                          .left = left_on,
                          .ud = m };
    vr_cut c;
    m->tries = 0;
    assert_int_equal(vr_cut_units(&c, &q, a), VRAM_OK);
    assert_int_equal(c.tries, m->tries);
    assert_in_range(c.tries, 1, 48);
    assert_true(c.least == least_left(m, c.shares));
    return c;
}

static void draw_machine(machine *m, size_t n, size_t units)
{
    uint64_t sum = 0;
    *m = (machine){ .n = n, .units = units, .last = draw(3000), .beside = draw(500) };
    bool even = draw(2);
    for (size_t i = 0; i < units; i++) {
        m->bytes[i] =
            even ? 1000 : 100 + draw(i < units / 3 ? 300 : 2000); /* experts of the first elsewhere */
        sum += m->bytes[i];
    }
    m->bytes[units - 1] += draw(3000);
    for (size_t k = 0; k < n; k++) {
        m->fixed[k] = draw(1500);
        m->room[k] = sum / n / 2 + draw(sum * 2 / n);
    }
}

static void test_cuts(void **state)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vr_arena a;
    machine m;
    unsigned same = 0, missed = 0;
    (void)state;
    assert_int_equal(vram_open(&ctx, hook_alloc, &h), VRAM_OK);
    vr_arena_init(&a, ctx);
    dice = 3;
    tries = 0;
    for (int round = 0; round < 400; round++) {
        uint64_t shares[8], largest = 0;
        draw_machine(&m, 2 + draw(2), 4 + draw(20));
        vr_cut c = cut_of(&m, m.bytes, false, &a);
        int64_t best = best_of(&m, shares, 0, m.units);
        for (size_t i = 0; i < m.units; i++)
            largest = m.bytes[i] > largest ? m.bytes[i] : largest;
        assert_true(c.least <= best);
        assert_true(best - c.least <= (int64_t)(largest + m.last)); /* never far off */
        same += c.least == best;
        tries += c.tries;
        c = cut_of(&m, m.bytes, true, &a);
        missed += best >= 0 && c.least < 0;
    }
    assert_in_range(same, 380, 400);
    assert_in_range(tries, 400, 4 * 400);
    assert_in_range(missed, 0, 4); /* a cut that fits */
    vr_arena_free(&a);
    vram_close(ctx);
}

/* Three cards of 24, 24 and 16 GiB and 80 layers of 840 MiB with an output of 1,000: 61 GiB of layers do not
 * go, 70 do. 24 GiB less 600 MiB hold 28 layers, 16 GiB hold 17 with the output and 500. */
static void test_cards(void **state)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vr_arena a;
    machine m = { .n = 3, .units = 63, .last = 0, .beside = 0 };
    (void)state;
    assert_int_equal(vram_open(&ctx, hook_alloc, &h), VRAM_OK);
    vr_arena_init(&a, ctx);
    for (size_t i = 0; i < m.units; i++)
        m.bytes[i] = 840;
    m.bytes[m.units - 1] = 1000;
    for (size_t k = 0; k < 3; k++) {
        m.room[k] = k < 2 ? 24576 : 16384;
        m.fixed[k] = 600;
    }
    /* 24576 - 600 - 28 * 840 = 456; 16384 - 600 - 1000 - 17 * 840 = 504; 28 + 28 + 18 = 74 units in all */
    vr_cut c = cut_of(&m, m.bytes, false, &a);
    /* 63 units: 24576 - 600 - 24 * 840 = 3816 and 16384 - 600 - 1000 - 14 * 840 = 3024, or 25, 24 and 13
     * before the output with 2976 on the first: 24 + 24 + 15 */
    assert_true(c.least == 3024);
    assert_int_equal(c.shares[0], 24);
    assert_int_equal(c.shares[1], 24);
    assert_int_equal(c.shares[2], 15);
    vr_arena_free(&a);
    vram_close(ctx);
}

/* llama.cpp puts unit i of n on the first GPU k with i/n < (s_0 + ... + s_k)/(s_0 + ...), in floats
 * (src/llama-model.cpp, load_tensors): counts of units as shares give just those counts. */
static void test_shares_as_typed(void **state)
{
    (void)state;
    dice = 4;
    for (int round = 0; round < 3000; round++) {
        uint64_t shares[16], n = 1 + draw(16), units = 0, got[16] = { 0 };
        float sums[16], sum = 0;
        for (size_t k = 0; k < n; k++)
            units += shares[k] = draw(4) == 0 ? 0 : draw(round % 2 ? 12 : 130);
        for (size_t k = 0; k < n; k++)
            sums[k] = sum += (float)shares[k];
        for (size_t k = 0; k < n; k++)
            sums[k] /= sum;
        for (uint64_t i = 0; i < units; i++) {
            size_t k = 0;
            while (k < n && !((float)i / (float)units < sums[k]))
                k++;
            assert_true(k < n);
            got[k]++;
        }
        assert_memory_equal(got, shares, n * sizeof(*got));
    }
}

/* Numbers from a file may be anything. */
static void test_hostile_cut(void **state)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vr_arena a;
    (void)state;
    assert_int_equal(vram_open(&ctx, hook_alloc, &h), VRAM_OK);
    vr_arena_init(&a, ctx);
    machine m = { .n = 2, .units = 3, .bytes = { 1, 2, 3 }, .room = { 2, 4 } };
    uint64_t wild[] = { UINT64_MAX, UINT64_MAX, UINT64_MAX };
    assert_true(cut_of(&m, wild, false, &a).least <= 0);
    m.room[0] = (uint64_t)INT64_MAX;
    (void)cut_of(&m, m.bytes, false, &a);
    m = (machine){ .n = 1, .units = 1, .bytes = { 5 }, .room = { 4 } };
    assert_true(cut_of(&m, m.bytes, false, &a).least == -1);
    h.fail_at = h.n_calls + 1;
    h.fail_after = true;
    vr_arena b;
    vr_arena_init(&b, ctx);
    vr_cut_question q = { .n = 1, .units = 1, .bytes = m.bytes, .room = m.room, .left = left_on, .ud = &m };
    vr_cut c;
    assert_int_equal(vr_cut_units(&c, &q, &b), VRAM_ENOMEM);
    vr_arena_free(&a);
    vr_arena_free(&b);
    vram_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_even),        cmocka_unit_test(test_falling),
        cmocka_unit_test(test_uneven),      cmocka_unit_test(test_first_not),
        cmocka_unit_test(test_failure),     cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_cards),       cmocka_unit_test(test_shares_as_typed),
        cmocka_unit_test(test_hostile_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
