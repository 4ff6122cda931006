/* SPDX-License-Identifier: MIT
 * Streams of requests and releases that are played both by PyTorch's own allocator (drive.cpp, on a driver
 * that only counts) and by ours (test_oracle.c). C and C++. Both must come to the same addresses and figures;
 * a digest stands for them. */
#ifndef VR_ORACLE_SCENARIOS_H
#define VR_ORACLE_SCENARIOS_H

#include <stdbool.h>
#include <stdint.h>

#define ORACLE_LIVE 4096 /* most live blocks */
#define ORACLE_CHECKS 10 /* times that the digest is printed */
#define ORACLE_MIB (UINT64_C(1) << 20)
#define ORACLE_TOTAL (UINT64_C(12490457088)) /* of the device: an RTX 3060 */
#define ORACLE_GAP (2 * ORACLE_MIB)          /* between segments */
#define ORACLE_FIRST (UINT64_C(1) << 34)     /* address of the first segment */

typedef struct oracle_scenario {
    const char *name;
    const char *conf;  /* PYTORCH_ALLOC_CONF */
    uint64_t capacity; /* the driver refuses beyond */
    uint32_t n_streams;
    uint32_t n_pools;          /* 1: the ordinary one; others are captured CUDA graphs that live on */
    uint32_t held;             /* blocks live at about the same time */
    uint32_t min_log, max_log; /* sizes from 2^min_log to 2^max_log */
    uint32_t steps;
    uint32_t empty_every; /* steps between calls of empty_cache; 0: never */
} oracle_scenario;

static const oracle_scenario oracle_scenarios[] = {
    { "native", "", UINT64_MAX, 1, 1, 300, 8, 27, 20000, 0 },
    { "native-small", "", UINT64_MAX, 2, 1, 1500, 4, 20, 20000, 3000 },
    { "native-streams", "", UINT64_MAX, 5, 1, 400, 8, 26, 20000, 1777 },
    { "native-tight", "", 3000 * ORACLE_MIB, 2, 1, 120, 10, 28, 20000, 0 },
    { "expandable", "expandable_segments:True", UINT64_MAX, 1, 1, 300, 8, 27, 20000, 0 },
    { "expandable-empty", "expandable_segments:True", UINT64_MAX, 3, 1, 300, 8, 27, 20000, 401 },
    { "expandable-tight", "expandable_segments:True", 3000 * ORACLE_MIB, 2, 1, 120, 10, 28, 20000, 0 },
    { "expandable-page", "expandable_segments:True,large_segment_size_mb:12", 5000 * ORACLE_MIB, 1, 1, 250, 8,
      27, 20000, 997 },
    { "expandable-max-split", "expandable_segments:True,max_split_size_mb:32", 3000 * ORACLE_MIB, 2, 1, 120,
      10, 28, 20000, 0 },
    { "max-split", "max_split_size_mb:32", UINT64_MAX, 2, 1, 200, 12, 28, 20000, 0 },
    { "max-split-tight", "max_split_size_mb:32", 3000 * ORACLE_MIB, 1, 1, 120, 12, 28, 20000, 0 },
    { "max-split-20", "max_split_size_mb:20,max_non_split_rounding_mb:64", 4000 * ORACLE_MIB, 3, 1, 120, 12,
      28, 20000, 0 },
    { "roundup-4", "roundup_power2_divisions:4", UINT64_MAX, 1, 1, 300, 8, 28, 20000, 0 },
    { "roundup-1024", "roundup_power2_divisions:1024", UINT64_MAX, 1, 1, 300, 8, 28, 20000, 0 },
    { "roundup-list", "roundup_power2_divisions:[4:1,8:2,32:0,64:8,>:4]", UINT64_MAX, 1, 1, 200, 10, 28,
      20000, 0 },
    { "roundup-first", "roundup_power2_divisions:[16:8,32:2]", UINT64_MAX, 1, 1, 200, 10, 28, 20000, 0 },
    { "segment-12", "large_segment_size_mb:12", UINT64_MAX, 1, 1, 300, 8, 26, 20000, 0 },
    { "segment-50", "large_segment_size_mb:50,max_split_size_mb:64", 6000 * ORACLE_MIB, 1, 1, 200, 8, 28,
      20000, 0 },
    { "fraction", "per_process_memory_fraction:0.25", UINT64_MAX, 2, 1, 120, 10, 28, 20000, 0 },
    { "collect", "per_process_memory_fraction:0.3,garbage_collection_threshold:0.6", UINT64_MAX, 2, 1, 120,
      10, 28, 20000, 0 },
    { "collect-often", "garbage_collection_threshold:0.25,per_process_memory_fraction:0.9", UINT64_MAX, 3, 1,
      150, 10, 28, 20000, 0 },
    { "collect-tight",
      "garbage_collection_threshold:0.8,per_process_memory_fraction:0.5,max_split_size_mb:64",
      5000 * ORACLE_MIB, 2, 1, 150, 10, 28, 20000, 0 },
    { "collect-expandable",
      "per_process_memory_fraction:0.3,garbage_collection_threshold:0.6,expandable_segments:True", UINT64_MAX,
      2, 1, 120, 10, 28, 20000, 0 },
    { "collect-whole", "garbage_collection_threshold:0.25,per_process_memory_fraction:1.0", UINT64_MAX, 2, 1,
      150, 10, 28, 20000, 0 },
    { "pools", "", 6000 * ORACLE_MIB, 2, 4, 200, 10, 28, 20000, 555 },
    { "pools-expandable", "expandable_segments:True", 6000 * ORACLE_MIB, 2, 3, 200, 10, 28, 20000, 555 },
    { "pools-max-split",
      "max_split_size_mb:32,garbage_collection_threshold:0.5,per_process_memory_fraction:0.4",
      4000 * ORACLE_MIB, 1, 2, 150, 10, 28, 20000, 0 },
};
#define ORACLE_SCENARIOS (sizeof(oracle_scenarios) / sizeof(oracle_scenarios[0]))

typedef enum oracle_kind { ORACLE_ALLOC, ORACLE_RELEASE, ORACLE_EMPTY } oracle_kind;

typedef struct oracle_event {
    oracle_kind kind;
    uint64_t bytes;
    uint32_t stream, pool;
    uint32_t slot; /* of the live blocks: where to put the block, or which to release */
} oracle_event;

typedef struct oracle_source {
    const oracle_scenario *scenario;
    uint64_t random;
    uint64_t usual[16]; /* sizes that come again and again, as in a model */
    uint32_t step, n_live;
    bool live[ORACLE_LIVE];
    uint64_t digest;
} oracle_source;

/* splitmix64 (Steele et al. 2014) */
static inline uint64_t oracle_random(oracle_source *s)
{
    uint64_t z = (s->random += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline uint64_t oracle_size(oracle_source *s)
{
    const oracle_scenario *c = s->scenario;
    uint32_t log = c->min_log + (uint32_t)(oracle_random(s) % (c->max_log - c->min_log));
    uint64_t power = UINT64_C(1) << log, kind = oracle_random(s) % 4;
    return kind == 0 ? power : power + oracle_random(s) % power + 1;
}

static inline void oracle_start(oracle_source *s, const oracle_scenario *scenario)
{
    s->scenario = scenario;
    s->random = 20;
    s->digest = UINT64_C(0xcbf29ce484222325);
    s->step = s->n_live = 0;
    for (uint32_t i = 0; i < ORACLE_LIVE; i++)
        s->live[i] = false;
    for (const char *p = scenario->name; *p != 0; p++)
        s->random = s->random * 31 + (unsigned char)*p;
    for (uint32_t i = 0; i < 16; i++)
        s->usual[i] = oracle_size(s);
}

/* The next event; false at the end. After an allocation that succeeded the caller calls oracle_took. */
static inline bool oracle_next(oracle_source *s, oracle_event *e)
{
    const oracle_scenario *c = s->scenario;
    if (s->step >= c->steps)
        return false;
    s->step++;
    e->stream = (uint32_t)(oracle_random(s) % c->n_streams);
    e->pool = (uint32_t)(oracle_random(s) % c->n_pools);
    uint64_t kind = oracle_random(s);
    uint32_t slot = (uint32_t)(oracle_random(s) % (2 * c->held));
    e->slot = slot;
    e->bytes = 0;
    if (c->empty_every != 0 && s->step % c->empty_every == 0) {
        e->kind = ORACLE_EMPTY;
    } else if (s->live[slot]) {
        e->kind = ORACLE_RELEASE;
        s->live[slot] = false;
        s->n_live--;
    } else {
        e->kind = ORACLE_ALLOC;
        e->bytes = kind % 2 == 0 ? s->usual[(kind >> 8) % 16] : oracle_size(s);
    }
    return true;
}

static inline void oracle_took(oracle_source *s, uint32_t slot)
{
    s->live[slot] = true;
    s->n_live++;
}

/* FNV-1a over whole numbers */
static inline void oracle_digest(oracle_source *s, uint64_t x)
{
    for (int i = 0; i < 8; i++, x >>= 8)
        s->digest = (s->digest ^ (x & 255)) * UINT64_C(0x100000001b3);
}

#endif
