/* SPDX-License-Identifier: MIT
 * Random requests and releases, played by the allocator and by a slow one that is written to be obviously
 * right: one list of regions in address order, searched from end to end for everything. Same addresses, same
 * figures, after every event. */
#include "support.h"

typedef enum state_of { FREE, LIVE, UNMAPPED } state_of;

typedef struct region {
    uint64_t address, size, requested;
    state_of state;
    unsigned stream;
    bool small;
    uint64_t segment; /* address of the segment's first byte */
} region;

/* As few rules as possible: no garbage collection, one pool. */
typedef struct plain {
    region list[8192];
    size_t n;
    bool expandable;
    uint64_t max_split, limit, total; /* UINT64_MAX: none */
    uint64_t next, reserved, allocated, requested, retries;
} plain;

static plain the_plain;

#define NOWHERE SIZE_MAX

static uint64_t up_to(uint64_t x, uint64_t multiple)
{
    return (x + multiple - 1) / multiple * multiple;
}

static void insert_region(plain *p, size_t at, region r)
{
    assert_true(p->n < COUNT(p->list));
    memmove(&p->list[at + 1], &p->list[at], (p->n - at) * sizeof(r));
    p->list[at] = r;
    p->n++;
}

static void remove_region(plain *p, size_t at)
{
    memmove(&p->list[at], &p->list[at + 1], (p->n - at - 1) * sizeof(region));
    p->n--;
}

/* Cuts region i in two; the second part starts at `size`. */
static void cut_region(plain *p, size_t i, uint64_t size)
{
    if (size == 0 || size >= p->list[i].size)
        return;
    region rest = p->list[i];
    rest.address += size;
    rest.size -= size;
    p->list[i].size = size;
    insert_region(p, i + 1, rest);
}

/* Joins what can be joined, everywhere. */
static void join_all(plain *p, state_of state)
{
    for (size_t i = 0; i + 1 < p->n;) {
        region *a = &p->list[i], *b = &p->list[i + 1];
        if (a->state == state && b->state == state && a->segment == b->segment) {
            a->size += b->size;
            remove_region(p, i + 1);
        } else {
            i++;
        }
    }
}

static uint64_t page_of(const region *r)
{
    return r->small ? 2 * VR_MIB : 20 * VR_MIB;
}

/* What counts as its size for best fit. */
static uint64_t reach(const plain *p, size_t i)
{
    bool grows = p->expandable && i + 1 < p->n && p->list[i + 1].segment == p->list[i].segment &&
                 p->list[i + 1].state == UNMAPPED;
    return p->list[i].size + (grows ? p->list[i + 1].size : 0);
}

static bool serves(const plain *p, size_t i, bool small, unsigned stream, uint64_t size)
{
    const region *r = &p->list[i];
    return r->state == FREE && r->small == small && r->stream == stream && r->size >= size;
}

/* The free region after i (the first, when i is NOWHERE) by size and address; NOWHERE: none. */
static size_t next_by_size(const plain *p, size_t i, bool small, unsigned stream, uint64_t size)
{
    size_t best = NOWHERE;
    for (size_t k = 0; k < p->n; k++) {
        if (!serves(p, k, small, stream, size) || k == i)
            continue;
        if (i != NOWHERE &&
            (p->list[k].size < p->list[i].size || (p->list[k].size == p->list[i].size && k < i)))
            continue;
        if (best == NOWHERE || p->list[k].size < p->list[best].size)
            best = k;
    }
    return best;
}

static size_t best_fit(const plain *p, bool small, unsigned stream, uint64_t size)
{
    size_t i = next_by_size(p, NOWHERE, small, stream, size), next;
    while (p->expandable && i != NOWHERE && (next = next_by_size(p, i, small, stream, size)) != NOWHERE &&
           reach(p, next) < reach(p, i))
        i = next;
    if (i != NOWHERE && size < p->max_split && p->list[i].size >= p->max_split)
        return NOWHERE;
    if (i != NOWHERE && size >= p->max_split && p->list[i].size >= size + 20 * VR_MIB)
        return NOWHERE;
    return i;
}

static bool driver_gives(plain *p, uint64_t bytes)
{
    if (bytes > p->limit || p->reserved > p->limit - bytes)
        return false;
    p->reserved += bytes;
    return true;
}

static uint64_t new_address(plain *p, uint64_t bytes, uint64_t multiple)
{
    uint64_t address = up_to(p->next, multiple);
    p->next = address + bytes + 2 * VR_MIB;
    return address;
}

static size_t new_segment(plain *p, bool small, unsigned stream, uint64_t size)
{
    uint64_t bytes = small ? 2 * VR_MIB : size < 10 * VR_MIB ? 20 * VR_MIB : up_to(size, 2 * VR_MIB);
    if (!driver_gives(p, bytes))
        return NOWHERE;
    region r = { .size = bytes, .state = FREE, .stream = stream, .small = small };
    r.address = r.segment = new_address(p, bytes, 2 * VR_MIB);
    insert_region(p, p->n, r);
    return p->n - 1;
}

/* Bytes free or unmapped in a row from region i on. */
static uint64_t space_at(const plain *p, size_t i)
{
    uint64_t bytes = 0;
    for (size_t k = i; k < p->n && p->list[k].segment == p->list[i].segment && p->list[k].state != LIVE; k++)
        bytes += p->list[k].size;
    return bytes;
}

static size_t find_space(plain *p, bool small, unsigned stream, uint64_t size)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->list[i].state != UNMAPPED || p->list[i].small != small || p->list[i].stream != stream)
            continue;
        bool before = i > 0 && p->list[i - 1].segment == p->list[i].segment && p->list[i - 1].state == FREE;
        if (space_at(p, i - before) >= size)
            return i - before;
    }
    region r = { .state = UNMAPPED, .stream = stream, .small = small };
    r.size = up_to(p->total + p->total / 8, page_of(&r));
    r.address = r.segment = new_address(p, r.size, page_of(&r));
    insert_region(p, p->n, r);
    return p->n - 1;
}

/* Maps the first bytes of unmapped region i. */
static bool map_region(plain *p, size_t i, uint64_t bytes)
{
    if (bytes > p->list[i].size)
        bytes = p->list[i].size;
    bytes = up_to(bytes, page_of(&p->list[i]));
    if (!driver_gives(p, bytes))
        return false;
    cut_region(p, i, bytes);
    p->list[i].state = FREE;
    join_all(p, FREE);
    return true;
}

static size_t region_at(const plain *p, uint64_t address)
{
    size_t i = 0;
    while (i < p->n && p->list[i].address != address)
        i++;
    return i;
}

static size_t expand(plain *p, bool small, unsigned stream, uint64_t size)
{
    size_t i = find_space(p, small, stream, size);
    uint64_t start = p->list[i].address;
    if (p->list[i].state == UNMAPPED && i > 0 && p->list[i - 1].segment == p->list[i].segment &&
        p->list[i - 1].state == FREE)
        start = p->list[i - 1].address;
    if (p->list[i].state == UNMAPPED && !map_region(p, i, size))
        return NOWHERE;
    for (i = region_at(p, start); p->list[i].size < size; i = region_at(p, start)) {
        if (!map_region(p, i + 1, size - p->list[i].size))
            return NOWHERE;
    }
    return i;
}

static void give_back(plain *p)
{
    for (size_t i = 0; i < p->n;) {
        region *r = &p->list[i];
        bool alone = (i == 0 || p->list[i - 1].segment != r->segment) &&
                     (i + 1 == p->n || p->list[i + 1].segment != r->segment);
        uint64_t page = page_of(r), from = up_to(r->address - r->segment, page);
        uint64_t to = (r->address + r->size - r->segment) / page * page;
        if (r->state == FREE && !p->expandable && alone) {
            p->reserved -= r->size;
            remove_region(p, i);
            continue;
        }
        if (r->state == FREE && p->expandable && from < to) {
            uint64_t before = from - (r->address - r->segment);
            p->reserved -= to - from;
            cut_region(p, i, before);
            i += before > 0;
            cut_region(p, i, to - from);
            p->list[i].state = UNMAPPED;
        }
        i++;
    }
    join_all(p, UNMAPPED);
    for (size_t i = p->n; i-- > 0;) {
        if (p->list[i].state == UNMAPPED &&
            p->list[i].size == up_to(p->total + p->total / 8, page_of(&p->list[i])))
            remove_region(p, i);
    }
}

static size_t largest_free(const plain *p, bool small, unsigned stream)
{
    size_t best = NOWHERE;
    for (size_t i = 0; i < p->n; i++) {
        if (serves(p, i, small, stream, 0) && (best == NOWHERE || p->list[i].size >= p->list[best].size))
            best = i;
    }
    return best;
}

/* The smallest oversize region that covers the request, or the largest ones until they cover it together. */
static bool release_oversize(plain *p, bool small, unsigned stream, uint64_t size)
{
    if (p->max_split == UINT64_MAX || p->expandable)
        return false;
    uint64_t target = size < p->max_split ? p->max_split : size, released = 0;
    size_t i = next_by_size(p, NOWHERE, small, stream, target);
    if (i == NOWHERE)
        i = largest_free(p, small, stream);
    while (released < target && i != NOWHERE && p->list[i].size >= p->max_split) {
        released += p->list[i].size;
        p->reserved -= p->list[i].size;
        remove_region(p, i);
        i = largest_free(p, small, stream);
    }
    return released >= target;
}

static uint64_t plain_alloc(plain *p, uint64_t bytes, unsigned stream)
{
    uint64_t size = bytes < 512 ? 512 : up_to(bytes, 512);
    bool small = size <= VR_MIB;
    size_t (*const more)(plain *, bool, unsigned, uint64_t) = p->expandable ? expand : new_segment;
    size_t i = best_fit(p, small, stream, size);
    if (i == NOWHERE)
        i = more(p, small, stream, size);
    if (i == NOWHERE && release_oversize(p, small, stream, size))
        i = more(p, small, stream, size);
    if (i == NOWHERE) {
        give_back(p);
        p->retries++;
        i = more(p, small, stream, size);
    }
    if (i == NOWHERE)
        return 0;
    uint64_t rest = p->list[i].size - size;
    if (small || p->expandable ? rest >= 512 : size < p->max_split && rest > VR_MIB)
        cut_region(p, i, size);
    p->list[i].state = LIVE;
    p->list[i].requested = bytes;
    p->allocated += p->list[i].size;
    p->requested += bytes;
    return p->list[i].address;
}

static void plain_release(plain *p, uint64_t address)
{
    size_t i = region_at(p, address);
    p->allocated -= p->list[i].size;
    p->requested -= p->list[i].requested;
    p->list[i].state = FREE;
    join_all(p, FREE);
}

/* ---- the two side by side ---- */

typedef struct trial {
    const char *name;
    vr_alloc_conf conf;
    uint64_t limit;
    unsigned streams;
    uint32_t held;
    uint64_t largest; /* request */
    uint32_t steps, empty_every;
} trial;

static bool within_limit(void *ud, uint64_t reserved, uint64_t bytes)
{
    const plain *p = ud;
    return bytes <= p->limit && reserved <= p->limit - bytes;
}

static uint64_t request(uint64_t *random, uint64_t largest)
{
    uint64_t x = next_random(random);
    if (x % 3 == 0)
        return (UINT64_C(1) << (x >> 8) % 20) * ((x >> 40) % 3 + 1);
    return 1 + next_random(random) % (x % 3 == 1 ? largest : largest / 32);
}

static void same_figures(const vr_allocator *a, const plain *p, uint32_t step)
{
    const vr_alloc_stats *s = vr_allocator_stats(a);
    if (s->reserved != p->reserved || s->allocated != p->allocated || s->requested != p->requested ||
        s->n_retries != p->retries)
        fail_msg("figures differ at step %u", step);
}

/* Every region is a block of the same size and state, and there are no others. */
static void same_blocks(const vr_allocator *a, const plain *p)
{
    vr_alloc_block b;
    size_t n = 0, mapped = 0;
    for (uint32_t cursor = 0; vr_allocator_each(a, &cursor, &b); n++) {
        size_t i = region_at(p, b.address);
        assert_true(i < p->n);
        assert_int_equal(b.size, p->list[i].size);
        assert_int_equal(b.live, p->list[i].state == LIVE);
        assert_int_equal(b.small, p->list[i].small);
        assert_int_equal(b.stream, p->list[i].stream);
    }
    for (size_t i = 0; i < p->n; i++)
        mapped += p->list[i].state != UNMAPPED;
    assert_int_equal(n, mapped);
}

static void side_by_side(bench *b, const trial *t)
{
    plain *p = &the_plain;
    memset(p, 0, sizeof(*p));
    *p = (plain){ .expandable = t->conf.expandable_segments,
                  .max_split = t->conf.max_split_bytes != 0 ? t->conf.max_split_bytes : UINT64_MAX,
                  .limit = t->limit,
                  .total = 24 * VR_GIB,
                  .next = UINT64_C(1) << 32 };
    vr_driver driver = { .room = within_limit, .ud = p, .total = p->total };
    vr_allocator *a = allocator(b, &t->conf, &driver);
    struct {
        uint32_t block;
        uint64_t address;
    } held[1024] = { { 0, 0 } };
    uint64_t random = 7;
    for (uint32_t step = 1; step <= t->steps; step++) {
        size_t slot = (size_t)(next_random(&random) % t->held);
        if (t->empty_every != 0 && step % t->empty_every == 0) {
            assert_int_equal(vr_allocator_empty_cache(a), VRAM_OK);
            give_back(p);
        } else if (held[slot].address != 0) {
            vr_allocator_release(a, held[slot].block);
            plain_release(p, held[slot].address);
            held[slot].address = 0;
        } else {
            unsigned stream = (unsigned)(next_random(&random) % t->streams);
            uint64_t bytes = request(&random, t->largest), tried;
            assert_int_equal(vr_allocator_alloc(a, bytes, stream, 0, &held[slot].block, &tried), VRAM_OK);
            held[slot].address = plain_alloc(p, bytes, stream);
            if (vr_allocator_address(a, held[slot].block) != held[slot].address)
                fail_msg("%s: another address at step %u", t->name, step);
        }
        same_figures(a, p, step);
        if (step % 500 == 0)
            same_blocks(a, p);
    }
}

static const trial trials[] = {
    { "native", { 0 }, UINT64_MAX, 2, 300, 64 * VR_MIB, 6000, 0 },
    { "native, small", { 0 }, UINT64_MAX, 1, 1000, VR_MIB, 12000, 1000 },
    { "native, tight", { 0 }, 800 * VR_MIB, 2, 100, 64 * VR_MIB, 8000, 700 },
    { "expandable", { .expandable_segments = true }, UINT64_MAX, 2, 300, 64 * VR_MIB, 6000, 0 },
    { "expandable, small", { .expandable_segments = true }, UINT64_MAX, 1, 1000, VR_MIB, 12000, 333 },
    { "expandable, tight", { .expandable_segments = true }, 800 * VR_MIB, 2, 100, 64 * VR_MIB, 8000, 211 },
    { "max split", { .max_split_bytes = 32 * VR_MIB }, UINT64_MAX, 2, 200, 100 * VR_MIB, 6000, 0 },
    { "max split, tight", { .max_split_bytes = 32 * VR_MIB }, 1500 * VR_MIB, 2, 80, 100 * VR_MIB, 8000, 0 },
};

static void against_a_plain_allocator(void **state)
{
    bench *b = *state;
    for (size_t i = 0; i < COUNT(trials); i++)
        side_by_side(b, &trials[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(against_a_plain_allocator) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
