/* SPDX-License-Identifier: MIT
 * Events a second of the allocator alone; one allocation or one release is one event.
 *
 * usage: bench_allocator [-s SECONDS] [EVENTS.txt...]
 * Three made-up loads, native and with expandable segments, and any number of recorded runs in the form of
 * tests/rehearsal/trace_to_tape.py. Making the state to start from is not timed. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/support/hook.h"
#include "rehearsal/allocator.h"

typedef struct event {
    uint64_t bytes;  /* 0: release */
    uint32_t number; /* of the block, dense */
} event;

typedef struct start_block {
    uint64_t address, size, requested;
    uint32_t number;
    bool first, live, small;
    uint64_t segment; /* size, of the first block */
} start_block;

typedef struct load {
    const char *name;
    event *events;
    size_t n, room;
    start_block *start;
    size_t n_start, start_room;
    uint32_t n_numbers;
    uint64_t *given; /* addresses of the recorded segments, in order */
    size_t n_given, given_room, next_given;
    bool empty_cache_first;
} load;

#define MAX_ROUNDS 100000

static double seconds = 1.0; /* for each load */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* one thread: what others do on the machine hardly counts */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *room_for(void *old, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return old;
    *room = *room == 0 ? 1024 : 2 * *room;
    void *p = realloc(old, *room * size);
    if (p == NULL)
        exit(5);
    return p;
}

static void add(load *l, uint64_t bytes, uint32_t number)
{
    l->events = room_for(l->events, l->n, &l->room, sizeof(*l->events));
    l->events[l->n++] = (event){ bytes, number };
}

/* ---- made-up loads ---- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Sizes even on a logarithmic scale from 512 B to 64 MiB. */
static uint64_t any_size(uint64_t *state)
{
    unsigned power = 9 + (unsigned)(next_random(state) % 17);
    return (UINT64_C(1) << power) + next_random(state) % (UINT64_C(1) << power);
}

/* As many blocks live as `held`, each step replaces a random one. */
static void churn(load *l, uint32_t held, size_t steps, uint64_t (*size)(uint64_t *state))
{
    uint64_t state = 88172645463325252u;
    l->n_numbers = held;
    for (uint32_t i = 0; i < held; i++)
        add(l, size(&state), i);
    for (uint32_t i = 0; i < held; i += 2)
        add(l, 0, i);
    for (size_t i = 0; i < steps; i++) {
        uint32_t in = (uint32_t)(next_random(&state) % held) & ~1u,
                 out = (uint32_t)(next_random(&state) % held) | 1u;
        if (out >= held)
            out = 1;
        add(l, size(&state), in);
        add(l, 0, out);
        add(l, size(&state), out);
        add(l, 0, in);
    }
}

static uint64_t small_size(uint64_t *state)
{
    return 512 + next_random(state) % (512 << 10);
}

/* A layer allocates and frees the same sizes over and over, as a transformer does. */
static void layers(load *l, size_t steps)
{
    static const uint64_t kib[] = { 12288, 49152,  24576,  12288, 12288, 2048,
                                    2048,  143360, 143360, 24576, 4,     512 };
    enum { N = sizeof(kib) / sizeof(*kib) };
    l->n_numbers = N;
    for (size_t i = 0; i < steps; i++) {
        for (uint32_t k = 0; k < N; k++)
            add(l, kib[k] << 10, k);
        for (uint32_t k = 0; k < N; k++)
            add(l, 0, (k * 5) % N);
    }
}

/* ---- recorded runs ---- */

/* Numbers of live addresses: open addressing, never shrinks. */
typedef struct numbers {
    uint64_t address[1 << 17];
    uint32_t number[1 << 17];
} numbers;

static uint32_t *number_of(numbers *t, uint64_t address)
{
    size_t i = (size_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 47);
    while (t->address[i] != 0 && t->address[i] != address)
        i = (i + 1) & ((1 << 17) - 1);
    t->address[i] = address;
    return &t->number[i];
}

static void read_start(load *l, numbers *t, const char *line, uint64_t *segment, bool *small)
{
    start_block b = { .segment = *segment, .small = *small, .first = *segment != 0 };
    char kind[8];
    if (sscanf(line, "block %" SCNu64 " %" SCNu64 " %" SCNu64 " %7s", &b.address, &b.size, &b.requested,
               kind) != 4)
        exit(3);
    b.live = strcmp(kind, "live") == 0;
    if (b.live)
        b.number = *number_of(t, b.address) = l->n_numbers++;
    l->start = room_for(l->start, l->n_start, &l->start_room, sizeof(*l->start));
    l->start[l->n_start++] = b;
    *segment = 0;
}

static void read_event(load *l, numbers *t, const char *line)
{
    uint64_t address, bytes = 0;
    if (sscanf(line + 2, "%" SCNu64 " %" SCNu64, &address, &bytes) < 1)
        exit(3);
    if (line[0] == 'a') {
        uint32_t *number = number_of(t, address);
        *number = l->n_numbers++;
        add(l, bytes, *number);
    } else if (line[0] == 'f') {
        add(l, 0, *number_of(t, address));
    } else if (line[0] == 'S') {
        l->given = room_for(l->given, l->n_given, &l->given_room, sizeof(*l->given));
        l->given[l->n_given++] = address;
    } else if (l->n == 0) {
        l->empty_cache_first = true;
    }
}

static void read_load(load *l, const char *path)
{
    char line[256], kind[8];
    uint64_t segment = 0, at;
    bool small = false;
    numbers *t = calloc(1, sizeof(*t));
    FILE *f = fopen(path, "r");
    if (f == NULL || t == NULL)
        exit(4);
    l->name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    while (fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "segment %" SCNu64 " %" SCNu64 " %7s", &at, &segment, kind) == 3)
            small = strcmp(kind, "small") == 0;
        else if (strncmp(line, "block", 5) == 0)
            read_start(l, t, line, &segment, &small);
        else if (strncmp(line, "end", 3) != 0)
            read_event(l, t, line);
    }
    fclose(f);
    free(t);
}

/* ---- playing ---- */

static uint64_t recorded_address(void *ud, uint64_t bytes)
{
    load *l = ud;
    (void)bytes;
    return l->given[l->next_given++ % l->n_given];
}

static void make_start(const load *l, vr_allocator *a, uint32_t *block)
{
    uint32_t rest = VR_NO_BLOCK;
    for (size_t i = 0; i < l->n_start; i++) {
        const start_block *b = &l->start[i];
        if (b->first && vr_allocator_add_segment(a, b->address, b->segment, b->small, 0, &rest) != VRAM_OK)
            exit(3);
        if (b->live)
            block[b->number] = rest;
        if (vr_allocator_cut(a, rest, b->size, b->requested, b->live, &rest) != VRAM_OK)
            exit(3);
    }
    if (l->empty_cache_first)
        (void)vr_allocator_empty_cache(a);
}

static size_t count_idle(const vr_allocator *a)
{
    size_t n = 0;
    vr_alloc_block b;
    for (uint32_t cursor = 0; vr_allocator_each(a, &cursor, &b);)
        n += !b.live;
    return n;
}

static double play(const load *l, vr_allocator *a, uint32_t *block, size_t *idle)
{
    uint64_t tried;
    double begin = now();
    for (size_t i = 0; i < l->n; i++) {
        const event *e = &l->events[i];
        if (e->bytes == 0)
            vr_allocator_release(a, block[e->number]);
        else if (vr_allocator_alloc(a, e->bytes, 0, 0, &block[e->number], &tried) != VRAM_OK)
            exit(5);
        if (idle != NULL && (i & 1023) == 0) {
            size_t n = count_idle(a);
            *idle = n > *idle ? n : *idle;
        }
    }
    return now() - begin;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void run(load *l, bool expandable)
{
    static double took[MAX_ROUNDS];
    hook h = { 0 };
    vram_ctx *ctx;
    vr_arena arena;
    vr_allocator *a;
    vr_alloc_conf conf = { .expandable_segments = expandable };
    vr_driver driver = { .address = l->n_given > 0 ? recorded_address : NULL, .ud = l };
    uint32_t *block = calloc(l->n_numbers, sizeof(*block));
    size_t rounds = 0, idle = 0;
    double spent = 0;
    if (block == NULL || vram_open(&ctx, hook_alloc, &h) != VRAM_OK)
        exit(5);
    vr_arena_init(&arena, ctx);
    if (vr_allocator_new(&a, &arena, &conf, &driver) != VRAM_OK)
        exit(5);
    make_start(l, a, block);
    (void)play(l, a, block, &idle); /* warms up, and counts */
    uint64_t reserved = vr_allocator_stats(a)->reserved;
    for (; (spent < seconds || rounds < 5) && rounds < MAX_ROUNDS; rounds++) {
        vr_allocator_reset(a, &conf, &driver);
        l->next_given = 0;
        make_start(l, a, block);
        took[rounds] = play(l, a, block, NULL);
        spent += took[rounds];
    }
    qsort(took, rounds, sizeof(*took), by_value);
    double n = (double)l->n / 1e6;
    printf("%-40s %-10s %7zu events %5zu idle %6" PRIu64 " MiB  median %6.2f  best %6.2f M events/s\n",
           l->name, expandable ? "expandable" : "native", l->n, idle, reserved >> 20, n / took[rounds / 2],
           n / took[0]);
    vr_arena_free(&arena);
    vram_close(ctx);
    free(block);
}

static void forget(load *l)
{
    free(l->events);
    free(l->start);
    free(l->given);
}

int main(int argc, char **argv)
{
    int i = 1;
    if (argc > 2 && strcmp(argv[1], "-s") == 0) {
        seconds = atof(argv[2]);
        i = 3;
    }
    load made_up[] = { { .name = "layers" },
                       { .name = "churn, 512 B to 64 MiB" },
                       { .name = "churn, up to 512 KiB" } };
    layers(&made_up[0], 20000);
    churn(&made_up[1], 16384, 100000, any_size);
    churn(&made_up[2], 16384, 100000, small_size);
    for (size_t k = 0; k < 3; k++) {
        run(&made_up[k], false);
        run(&made_up[k], true);
        forget(&made_up[k]);
    }
    for (; i < argc; i++) {
        load l = { 0 };
        read_load(&l, argv[i]);
        run(&l, false);
        forget(&l);
    }
    return 0;
}
