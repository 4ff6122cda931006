/* SPDX-License-Identifier: MIT
 * Our allocator against PyTorch's own: the scenarios of oracle/scenarios.h, with every setting that
 * PYTORCH_ALLOC_CONF knows, must come to the addresses and figures that libc10_cuda of PyTorch came to
 * (oracle/facts.txt, recorded by oracle/run.sh).
 *
 * usage: test_oracle facts.txt [NUMBER -v]    (-v: one line per event, as drive.cpp prints them) */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/hook.h"
#include "oracle/scenarios.h"
#include "rehearsal/allocator.h"

typedef struct device {
    uint64_t capacity, next;
} device;

static bool has_room(void *ud, uint64_t reserved, uint64_t bytes)
{
    const device *d = ud;
    return bytes <= d->capacity && reserved <= d->capacity - bytes;
}

static uint64_t next_address(void *ud, uint64_t bytes)
{
    device *d = ud;
    uint64_t address = d->next;
    d->next += bytes + ORACLE_GAP;
    return address;
}

typedef struct game {
    oracle_source source;
    vr_allocator *a;
    uint32_t blocks[ORACLE_LIVE];
    uint64_t refused;
    bool verbose;
} game;

static bool play_event(game *g, const oracle_event *e)
{
    uint64_t tried = 0, address = 0;
    vram_status status = VRAM_OK;
    if (e->kind == ORACLE_EMPTY) {
        status = vr_allocator_empty_cache(g->a);
    } else if (e->kind == ORACLE_RELEASE) {
        vr_allocator_release(g->a, g->blocks[e->slot]);
    } else {
        status = vr_allocator_alloc(g->a, e->bytes, e->stream, e->pool, &g->blocks[e->slot], &tried);
        if (tried == 0)
            oracle_took(&g->source, e->slot);
        g->refused += tried != 0;
        address = vr_allocator_address(g->a, g->blocks[e->slot]);
    }
    const vr_alloc_stats *s = vr_allocator_stats(g->a);
    const uint64_t figures[] = { address, s->allocated, s->reserved, s->requested, s->n_retries };
    for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
        oracle_digest(&g->source, figures[i]);
    if (g->verbose)
        printf("%u %d %" PRIu64 " stream %u slot %u -> %" PRIu64 " allocated %" PRIu64 " reserved %" PRIu64
               " retries %" PRIu64 "\n",
               g->source.step, (int)e->kind, e->bytes, e->stream, e->slot, address, s->allocated, s->reserved,
               s->n_retries);
    return status == VRAM_OK;
}

static bool check(game *g, FILE *facts)
{
    char line[256], want[256], head[64];
    const vr_alloc_stats *s = vr_allocator_stats(g->a);
    snprintf(want, sizeof(want),
             "%s %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n",
             g->source.scenario->name, g->source.step, s->allocated, s->reserved, s->requested, s->n_retries,
             g->refused, g->source.digest);
    snprintf(head, sizeof(head), "%s %u ", g->source.scenario->name, g->source.step);
    rewind(facts);
    while (fgets(line, sizeof(line), facts) != NULL) {
        if (strncmp(line, head, strlen(head)) == 0) {
            if (strcmp(line, want) != 0)
                printf("PyTorch: %sours:    %s", line, want);
            return strcmp(line, want) == 0;
        }
    }
    printf("no fact: %s", want);
    return false;
}

static bool play(const oracle_scenario *scenario, FILE *facts, bool verbose)
{
    static game g;
    hook h = { 0 };
    vram_ctx *ctx = NULL;
    vr_arena arena;
    vr_alloc_conf conf;
    oracle_event e;
    device d = { .capacity = scenario->capacity, .next = ORACLE_FIRST };
    vr_driver driver = { .room = has_room, .address = next_address, .ud = &d, .total = ORACLE_TOTAL };
    memset(&g, 0, sizeof(g));
    g.verbose = verbose;
    bool ok = vram_open(&ctx, hook_alloc, &h) == VRAM_OK;
    vr_arena_init(&arena, ctx);
    ok = ok && vr_alloc_conf_parse(&conf, ctx, vr_str_of(scenario->conf)) == VRAM_OK &&
         vr_allocator_new(&g.a, &arena, &conf, &driver) == VRAM_OK;
    oracle_start(&g.source, scenario);
    while (ok && oracle_next(&g.source, &e)) {
        ok = play_event(&g, &e);
        if (ok && g.source.step % (scenario->steps / ORACLE_CHECKS) == 0)
            ok = check(&g, facts);
    }
    printf("%-22s %-88s %s\n", scenario->name, scenario->conf, ok ? "equal" : "DIFFERENT");
    vr_arena_free(&arena);
    vram_close(ctx);
    return ok;
}

int main(int argc, char **argv)
{
    FILE *facts = argc > 1 ? fopen(argv[1], "r") : NULL;
    size_t bad = 0;
    if (facts == NULL)
        return 2;
    for (size_t i = 0; i < ORACLE_SCENARIOS; i++) {
        if (argc <= 2 || strtoul(argv[2], NULL, 10) == i)
            bad += !play(&oracle_scenarios[i], facts, argc > 3);
    }
    fclose(facts);
    printf("%zu scenarios, %zu different\n", ORACLE_SCENARIOS, bad);
    return bad != 0;
}
