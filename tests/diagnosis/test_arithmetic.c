/* SPDX-License-Identifier: MIT
 * What figures of one message say by arithmetic, on both sides of each threshold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "diagnosis/arithmetic.h"
#include "made.h"

#define CHECK(m, name, expected)                                                                             \
    do {                                                                                                     \
        made made_ = made_of(&(m));                                                                          \
        vr_reckoning r_;                                                                                     \
        made_.list.f = made_.facts;                                                                          \
        vr_reckon(&made_.list, &r_);                                                                         \
        assert_int_equal(r_.rule[VR_RULE_##name], expected);                                                 \
    } while (0)

/* A card of 16 GiB that one process fills, 300 MiB short of nothing in particular. */
static message full(void)
{
    return (message){ .request = "200.00 MiB",
                      .total = "15.70 GiB",
                      .left = "40.00 MiB",
                      .allocated = "15.00 GiB",
                      .idle = "150.00 MiB",
                      .this_process = "15.60 GiB" };
}

static void free_and_request(void **state)
{
    message m = full();

    (void)state;
    CHECK(m, FREE_SUFFICES, VR_NO); /* 40 < 200 */
    m.left = "200.02 MiB";          /* surely more: the digits end at a hundredth */
    CHECK(m, FREE_SUFFICES, VR_YES);
    m.left = "200.00 MiB"; /* the same digits: either may be the larger by half a hundredth */
    CHECK(m, FREE_SUFFICES, VR_MAYBE);
    m.request = "2.00 GiB";
    m.left = "2.00 GiB"; /* a hundredth of a GiB is 10 MiB */
    CHECK(m, FREE_SUFFICES, VR_MAYBE);
    m.left = "2.02 GiB";
    CHECK(m, FREE_SUFFICES, VR_YES);
    m.left = NULL; /* not printed: nothing follows */
    CHECK(m, FREE_SUFFICES, VR_UNTOLD);
}

static void request_and_card(void **state)
{
    message m = full();

    (void)state;
    CHECK(m, LARGER_THAN_CARD, VR_NO);
    m.request = "15.68 GiB";
    CHECK(m, LARGER_THAN_CARD, VR_NO);
    m.request = "15.70 GiB"; /* equal as printed */
    CHECK(m, LARGER_THAN_CARD, VR_MAYBE);
    m.request = "15.72 GiB";
    CHECK(m, LARGER_THAN_CARD, VR_YES);
    m.request = "99999999999.00 GiB"; /* beyond what 64 bits hold of bytes: still larger, no wrap */
    CHECK(m, LARGER_THAN_CARD, VR_YES);
    CHECK(m, PACKING_FAILS, VR_YES);
}

static void a_limit_of_its_own(void **state)
{
    message m = full();

    (void)state;
    CHECK(m, OWN_LIMIT, VR_UNTOLD);
    m.allowed = "15.00 GiB"; /* 15.00 + 0.20 > 15.00 */
    CHECK(m, OWN_LIMIT, VR_YES);
    m.allowed = "15.30 GiB";
    CHECK(m, OWN_LIMIT, VR_NO);
}

static void idle_memory(void **state)
{
    message m = {
        .request = "1.00 GiB", .total = "100.00 GiB", .left = "0.90 GiB", .allocated = "90.00 GiB"
    };

    (void)state;
    m.idle = "1.90 GiB"; /* 1.9 % of the card */
    CHECK(m, IDLE_LITTLE, VR_YES);
    m.idle = "2.10 GiB";
    CHECK(m, IDLE_LITTLE, VR_NO);
    CHECK(m, IDLE_MUCH, VR_NO);
    m.idle = "7.90 GiB";
    CHECK(m, IDLE_MUCH, VR_NO);
    m.idle = "8.10 GiB";
    CHECK(m, IDLE_MUCH, VR_YES);
    CHECK(m, IDLE_SUFFICES, VR_YES);
    CHECK(m, PACKING_FAILS, VR_NO);
    m.idle = "0.05 GiB"; /* 0.90 + 0.05 < 1.00 by more than the digits can hide */
    CHECK(m, PACKING_FAILS, VR_YES);
    CHECK(m, IDLE_SUFFICES, VR_NO);
    m.idle = "0.10 GiB"; /* sums to what was asked for, as far as printed */
    CHECK(m, PACKING_FAILS, VR_MAYBE);
}

static void outside_of_pytorch(void **state)
{
    message m = { .request = "1.00 GiB", .total = "40.00 GiB", .left = "0.50 GiB", .idle = "0.50 GiB" };

    (void)state;
    m.allocated = "37.75 GiB"; /* 40 - 0.5 - 38.25 = 1.25 */
    CHECK(m, OUTSIDE_SMALL, VR_YES);
    m.allocated = "37.65 GiB"; /* 1.35 */
    CHECK(m, OUTSIDE_SMALL, VR_NO);
    CHECK(m, OUTSIDE_LARGE, VR_NO);
    m.allocated = "36.45 GiB"; /* 2.55 */
    CHECK(m, OUTSIDE_LARGE, VR_YES);
    CHECK(m, OUTSIDE_DOMINATES, VR_NO);
    m.allocated = "10.00 GiB"; /* 29.0 of 40 belongs to someone else */
    CHECK(m, OUTSIDE_DOMINATES, VR_YES);
}

static void reserved_in_each_wording(void **state)
{
    made m = { 0 };
    vr_reckoning r;

    (void)state;
    /* 1.4 and later print what is reserved, which holds what is allocated: idle is the difference. */
    made_add(&m, VR_FACT_TOTAL, "8.00 GiB");
    made_add(&m, VR_FACT_FREE, "1.00 GiB");
    made_add(&m, VR_FACT_ALLOCATED, "5.00 GiB");
    made_add(&m, VR_FACT_RESERVED, "6.00 GiB");
    vr_reckon(&m.list, &r);
    assert_int_equal(vr_span_middle(r.idle), VR_GIB);
    assert_int_equal(vr_span_middle(r.outside), VR_GIB);
    /* 1.0 and 2.x print what is idle: reserved is the sum. */
    m.facts[3] = printed(VR_FACT_IDLE, "1.00 GiB");
    vr_reckon(&m.list, &r);
    assert_int_equal(vr_span_middle(r.reserved), 6 * VR_GIB);
}

static void itself_in_the_list(void **state)
{
    message m = { .request = "1.00 GiB",
                  .total = "80.00 GiB",
                  .left = "0.50 GiB",
                  .allocated = "60.00 GiB",
                  .idle = "1.00 GiB",
                  .others = { { "900", "17.00 GiB" }, { "4242", "61.50 GiB" } } };
    made facts = made_of(&m);
    vr_reckoning r;

    (void)state;
    facts.list.f = facts.facts;
    vr_reckon(&facts.list, &r);
    /* 61.5 is PyTorch's 61.0 and a context: in a container a process does not know its own number. */
    assert_true(r.own_by_size);
    assert_int_equal(vr_span_middle(r.own_outside) / VR_MIB, 512);
    assert_int_equal(vr_span_middle(r.others), 18 * VR_GIB);
    /* Named, it is not looked for. */
    m.this_process = "61.50 GiB";
    facts = made_of(&m);
    facts.list.f = facts.facts;
    vr_reckon(&facts.list, &r);
    assert_false(r.own_by_size);
    /* Some containers print 0 bytes for the process itself: that is no figure. */
    m.this_process = "0 bytes";
    facts = made_of(&m);
    facts.list.f = facts.facts;
    vr_reckon(&facts.list, &r);
    assert_true(r.own_by_size);
}

static void somebody_else(void **state)
{
    message m = { .request = "100.00 MiB",
                  .total = "24.00 GiB",
                  .left = "0.10 GiB",
                  .allocated = "7.00 GiB",
                  .idle = "0.10 GiB",
                  .this_process = "7.60 GiB",
                  .others = { { "77", "16.20 GiB" } } };

    (void)state;
    CHECK(m, OTHERS_DOMINATE, VR_YES); /* 16.3 of 24 GiB, more than ours */
    m.others[0].bytes = "3.20 GiB";
    m.this_process = "20.60 GiB";
    m.allocated = "20.00 GiB";
    CHECK(m, OTHERS_DOMINATE, VR_NO);
    CHECK(m, OTHERS_MATTER, VR_NO); /* 3.3 is 14 % */
}

static void siblings(void **state)
{
    message m = { .request = "40.00 MiB",
                  .total = "22.00 GiB",
                  .left = "20.00 MiB",
                  .allocated = "0.90 GiB",
                  .idle = "0.10 GiB",
                  .this_process = "1.30 GiB",
                  .others = { { "701", "1.20 GiB" }, { "702", "1.10 GiB" }, { "703", "1.25 GiB" } } };

    (void)state;
    CHECK(m, SIBLINGS, VR_YES);
    m.others[1].pid = "90000"; /* numbers far apart: not of one launch */
    m.others[2].pid = "50000";
    CHECK(m, SIBLINGS, VR_UNTOLD);
}

static void shared_memory_of_a_mac(void **state)
{
    made m = { 0 };
    vr_reckoning r;

    (void)state;
    made_add(&m, VR_FACT_ALLOCATED, "6.00 GiB");
    made_add(&m, VR_FACT_OTHER_ALLOCATIONS, "9.50 GiB");
    made_add(&m, VR_FACT_MAX_ALLOWED, "18.13 GiB");
    made_add(&m, VR_FACT_REQUEST, "3.00 GiB");
    vr_reckon(&m.list, &r);
    assert_int_equal(r.rule[VR_RULE_OVER_WATERMARK], VR_YES); /* 18.5 > 18.13 */
    assert_int_equal(r.rule[VR_RULE_OTHER_ALLOCATOR], VR_YES);
    m.facts[3] = printed(VR_FACT_REQUEST, "2.00 GiB");
    vr_reckon(&m.list, &r);
    assert_int_equal(r.rule[VR_RULE_OVER_WATERMARK], VR_NO);
}

static void rounding_steps(void **state)
{
    message m = full();

    (void)state;
    m.request = "2.00 MiB";
    CHECK(m, REQUEST_ROUNDED, VR_YES); /* requests up to 1 MiB take a step of 2 */
    m.request = "20.00 MiB";           /* up to 10 MiB: one of 20 */
    CHECK(m, REQUEST_ROUNDED, VR_YES);
    m.request = "22.00 MiB";
    CHECK(m, REQUEST_ROUNDED, VR_NO);
}

static void graph_pools(void **state)
{
    message m = full();

    (void)state;
    m.pools = "100.00 MiB"; /* less than the request and than a twentieth of the card */
    CHECK(m, GRAPH_POOLS, VR_NO);
    m.pools = "210.00 MiB";
    CHECK(m, GRAPH_POOLS, VR_YES);
}

static void the_least_that_lacks(void **state)
{
    message m = full(); /* 200 - 40 - 150 = 10 MiB, each printed to a hundredth of a MiB */
    made facts = made_of(&m);
    vr_reckoning r;

    (void)state;
    facts.list.f = facts.facts;
    vr_reckon(&facts.list, &r);
    assert_true(r.shortfall.low < 10 * (int64_t)VR_MIB && r.shortfall.low > 9 * (int64_t)VR_MIB);
    assert_true(r.shortfall.high > 10 * (int64_t)VR_MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_and_request),
        cmocka_unit_test(request_and_card),
        cmocka_unit_test(a_limit_of_its_own),
        cmocka_unit_test(idle_memory),
        cmocka_unit_test(outside_of_pytorch),
        cmocka_unit_test(reserved_in_each_wording),
        cmocka_unit_test(itself_in_the_list),
        cmocka_unit_test(somebody_else),
        cmocka_unit_test(siblings),
        cmocka_unit_test(shared_memory_of_a_mac),
        cmocka_unit_test(rounding_steps),
        cmocka_unit_test(graph_pools),
        cmocka_unit_test(the_least_that_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
