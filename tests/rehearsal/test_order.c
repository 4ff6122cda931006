/* SPDX-License-Identifier: MIT
 * The ordered set of free blocks against a sorted array, and that room made beforehand suffices. */
#include "rehearsal/order.h"
#include "support.h"

#define MOST 4000

typedef struct key {
    uint64_t size, address;
} key;

typedef struct pair {
    vr_leaves leaves;
    vr_order order;
    key keys[MOST]; /* sorted */
    uint32_t n;
} pair;

static bool is_below(key a, uint64_t size, uint64_t address)
{
    return a.size < size || (a.size == size && a.address < address);
}

static uint32_t place_of(const pair *p, uint64_t size, uint64_t address)
{
    uint32_t i = 0;
    while (i < p->n && is_below(p->keys[i], size, address))
        i++;
    return i;
}

static void insert_key(pair *p, uint64_t size, uint64_t address)
{
    uint32_t i = place_of(p, size, address);
    memmove(&p->keys[i + 1], &p->keys[i], (p->n - i) * sizeof(key));
    p->keys[i] = (key){ size, address };
    p->n++;
    vr_order_insert(&p->order, &p->leaves, size, address, (uint32_t)(size * 31 + address));
}

static void remove_key(pair *p, uint32_t i)
{
    vr_order_remove(&p->order, &p->leaves, p->keys[i].size, p->keys[i].address);
    memmove(&p->keys[i], &p->keys[i + 1], (p->n - i - 1) * sizeof(key));
    p->n--;
}

/* Both in the same order, forwards and backwards; leaves within what was promised, none empty. */
static void same(const pair *p)
{
    vr_place at;
    uint32_t i = 0;
    for (bool more = vr_order_first(&p->order, &at); more;
         more = vr_order_next(&p->order, &p->leaves, &at), i++) {
        assert_true(i < p->n);
        assert_int_equal(vr_order_block(&p->order, &p->leaves, at),
                         (uint32_t)(p->keys[i].size * 31 + p->keys[i].address));
    }
    assert_int_equal(i, p->n);
    while (vr_order_prev(&p->order, &p->leaves, &at)) {
        i--;
        assert_int_equal(vr_order_block(&p->order, &p->leaves, at),
                         (uint32_t)(p->keys[i].size * 31 + p->keys[i].address));
    }
    assert_int_equal(i, 0);
    assert_true(p->order.n <= p->order.room && p->leaves.n <= p->leaves.room);
    for (uint32_t k = 0; k + 1 < p->order.n; k++)
        assert_true(p->leaves.leaf[p->order.leaf[k]].n + p->leaves.leaf[p->order.leaf[k + 1]].n >
                    VR_LEAF / 2);
}

static void seeks(const pair *p, uint64_t size, uint64_t address)
{
    vr_place at;
    uint32_t i = place_of(p, size, address);
    assert_int_equal(vr_order_seek(&p->order, &p->leaves, size, address, &at), i < p->n);
    if (i < p->n)
        assert_int_equal(vr_order_block(&p->order, &p->leaves, at),
                         (uint32_t)(p->keys[i].size * 31 + p->keys[i].address));
}

static pair *new_pair(bench *b, uint64_t entries)
{
    pair *p = VR_NEW(&b->arena, pair);
    vr_leaves_init(&p->leaves, &b->arena);
    assert_int_equal(vr_order_reserve(&p->order, &p->leaves, entries), VRAM_OK);
    return p;
}

/* sizes: how many different ones; 1 is the set of unmapped blocks. */
static void random_keys(bench *b, uint64_t sizes, uint32_t most)
{
    pair *p = new_pair(b, most);
    uint64_t random = sizes;
    for (int i = 0; i < 6000; i++) {
        bool grows = (i / 1500) % 2 == 0; /* fills, drains, and again */
        uint64_t x = next_random(&random);
        if (p->n < most && (p->n == 0 || x % 8 < (grows ? 6u : 2u)))
            insert_key(p, x / 8 % sizes, next_random(&random) % (UINT64_C(1) << 40));
        else
            remove_key(p, (uint32_t)(x / 8 % p->n));
        seeks(p, next_random(&random) % sizes, next_random(&random) % (UINT64_C(1) << 40));
        seeks(p, next_random(&random) % (sizes + 2), 0);
        if (i % 101 == 0)
            same(p);
    }
    while (p->n > 0)
        remove_key(p, p->n / 2);
    same(p);
    seeks(p, 0, 0);
}

static void against_a_sorted_array(void **state)
{
    static const uint64_t sizes[] = { 1, 3, 50, UINT64_C(1) << 50 };
    for (size_t i = 0; i < COUNT(sizes); i++) {
        random_keys(*state, sizes[i], 40);
        random_keys(*state, sizes[i], 1000);
    }
}

/* The worst for the number of leaves: full ones, thinned out evenly. */
static void thinned_out(void **state)
{
    pair *p = new_pair(*state, MOST);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < MOST; i++)
            insert_key(p, i, (uint64_t)round + 1);
        same(p);
        for (uint32_t keep = 2; keep < 100; keep *= 3) {
            for (uint32_t i = p->n; i-- > 0;) {
                if (i % keep != 0)
                    remove_key(p, i);
            }
            same(p);
        }
        while (p->n > 0)
            remove_key(p, p->n - 1);
        same(p);
    }
}

static void reset_forgets(void **state)
{
    pair *p = new_pair(*state, 1000);
    for (uint64_t i = 0; i < 1000; i++)
        insert_key(p, i, 1);
    vr_leaves_reset(&p->leaves);
    vr_order_reset(&p->order);
    p->n = 0;
    same(p);
    for (uint64_t i = 0; i < 1000; i++)
        insert_key(p, 1000 - i, 1);
    same(p);
}

static void no_room_changes_nothing(void **state)
{
    bench *b = *state;
    pair *p = new_pair(b, 100);
    for (uint64_t i = 0; i < 100; i++)
        insert_key(p, i, 1);
    b->h.fail_at = b->h.n_calls + 1;
    b->h.fail_after = true;
    assert_int_equal(vr_order_reserve(&p->order, &p->leaves, UINT64_C(1) << 28), VRAM_ENOMEM);
    assert_int_equal(vr_order_reserve(&p->order, &p->leaves, UINT64_C(1) << 60), VRAM_ELIMIT);
    assert_int_equal(vr_order_reserve(&p->order, &p->leaves, 100), VRAM_OK);
    b->h.fail_at = 0;
    same(p);
    assert_int_equal(vr_order_reserve(&p->order, &p->leaves, 200), VRAM_OK);
    for (uint64_t i = 100; i < 200; i++)
        insert_key(p, i, 1);
    same(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(against_a_sorted_array),
        TEST(thinned_out),
        TEST(reset_forgets),
        TEST(no_room_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
