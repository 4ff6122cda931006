/* SPDX-License-Identifier: MIT
 * Traces recorded on real GPUs, replayed through our allocator: every block must come at the recorded
 * address, every segment with the recorded size, and the state at the end must be that of the snapshot, block
 * for block.
 *
 * usage: test_replay trace_to_tape.py FOLDER-OF-THE-SOURCE     (started by meson)
 * Data: data/snapshots/ of the folder named by VRAM_DATA, otherwise of ../shared beside the source. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/hook.h"
#include "rehearsal/allocator.h"

#define MAX_FILES 256
#define MAX_STREAMS 64
#define SHOWN 5

/* A map from addresses to numbers, grown by doubling. */
typedef struct table {
    uint64_t *key;
    uint32_t *value;
    size_t n, room;
} table;

static size_t table_slot(const table *t, uint64_t key)
{
    size_t i = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (t->room - 1);
    while (t->key[i] != 0 && t->key[i] != key)
        i = (i + 1) & (t->room - 1);
    return i;
}

static void table_put(table *t, uint64_t key, uint32_t value)
{
    if (2 * (t->n + 1) > t->room) {
        table bigger = { .room = t->room == 0 ? 1024 : 2 * t->room };
        bigger.key = calloc(bigger.room, sizeof(*bigger.key));
        bigger.value = calloc(bigger.room, sizeof(*bigger.value));
        for (size_t i = 0; i < t->room; i++) {
            if (t->key[i] != 0)
                table_put(&bigger, t->key[i], t->value[i]);
        }
        free(t->key);
        free(t->value);
        *t = bigger;
    }
    size_t i = table_slot(t, key);
    t->n += t->key[i] == 0;
    t->key[i] = key;
    t->value[i] = value;
}

static uint32_t table_get(const table *t, uint64_t key)
{
    size_t i = t->room == 0 ? 0 : table_slot(t, key);
    return t->room != 0 && t->key[i] == key ? t->value[i] : VR_NO_BLOCK;
}

typedef struct replay {
    const char *name;
    vram_ctx *ctx;
    vr_arena arena;
    vr_allocator *a;
    table blocks;  /* by address: the allocator's number */
    uint32_t rest; /* of the segment being filled */
    uint64_t streams[MAX_STREAMS];
    unsigned n_streams;
    uint64_t given, given_bytes;   /* the segment that the driver gave for the next allocation */
    bool freeing;                  /* in a run of segments given back */
    uint64_t reserved, n_segments; /* by the trace */
    size_t n_allocs, n_new, n_freed, n_mismatches, n_lines;
    vr_alloc_block *end; /* our state at the end, by address */
    size_t n_end, end_at;
} replay;

static void mismatch(replay *r, const char *what, uint64_t want, uint64_t got)
{
    if (r->n_mismatches++ < SHOWN)
        printf("  %s line %zu: %s: recorded %" PRIu64 ", replayed %" PRIu64 "\n", r->name, r->n_lines, what,
               want, got);
}

static void expect(replay *r, const char *what, uint64_t want, uint64_t got)
{
    if (want != got)
        mismatch(r, what, want, got);
}

static unsigned stream_number(replay *r, uint64_t id)
{
    for (unsigned i = 0; i < r->n_streams; i++) {
        if (r->streams[i] == id)
            return i;
    }
    r->streams[r->n_streams] = id;
    return r->n_streams < MAX_STREAMS - 1 ? r->n_streams++ : r->n_streams;
}

/* The driver: gives the recorded segment; a segment that was not recorded shows as a mismatch. */
static uint64_t recorded_address(void *ud, uint64_t bytes)
{
    replay *r = ud;
    expect(r, "size of a new segment", r->given_bytes, bytes);
    uint64_t address = r->given;
    r->given = 0;
    r->n_new++;
    return address != 0 ? address : UINT64_C(1) << 50;
}

static bool do_segment(replay *r, const char *line)
{
    uint64_t at, size, stream;
    char kind[8];
    if (sscanf(line, "segment %" SCNu64 " %" SCNu64 " %7s %" SCNu64, &at, &size, kind, &stream) != 4)
        return false;
    r->reserved += size;
    r->n_segments++;
    return vr_allocator_add_segment(r->a, at, size, strcmp(kind, "small") == 0, stream_number(r, stream),
                                    &r->rest) == VRAM_OK;
}

static bool do_block(replay *r, const char *line)
{
    uint64_t at, size, requested;
    char kind[8];
    if (sscanf(line, "block %" SCNu64 " %" SCNu64 " %" SCNu64 " %7s", &at, &size, &requested, kind) != 4)
        return false;
    bool live = strcmp(kind, "live") == 0;
    uint32_t block = r->rest;
    expect(r, "address of a block at the start", at, vr_allocator_address(r->a, block));
    if (live)
        table_put(&r->blocks, at, block);
    return vr_allocator_cut(r->a, block, size, requested, live, &r->rest) == VRAM_OK;
}

static bool do_given(replay *r, const char *line)
{
    uint64_t stream;
    if (sscanf(line, "S %" SCNu64 " %" SCNu64 " %" SCNu64, &r->given, &r->given_bytes, &stream) != 3)
        return false;
    r->reserved += r->given_bytes;
    r->n_segments++;
    return true;
}

/* A run of segments given back is one call of empty_cache; what it leaves is compared when the run ends. */
static bool do_freed(replay *r, const char *line)
{
    uint64_t at, size;
    if (sscanf(line, "F %" SCNu64 " %" SCNu64, &at, &size) != 2)
        return false;
    r->reserved -= size;
    r->n_segments--;
    r->n_freed++;
    return r->freeing || vr_allocator_empty_cache(r->a) == VRAM_OK;
}

static bool do_alloc(replay *r, const char *line)
{
    uint64_t at, bytes, stream, tried;
    uint32_t block;
    if (sscanf(line, "a %" SCNu64 " %" SCNu64 " %" SCNu64, &at, &bytes, &stream) != 3)
        return false;
    r->n_allocs++;
    if (vr_allocator_alloc(r->a, bytes, stream_number(r, stream), 0, &block, &tried) != VRAM_OK)
        return false;
    expect(r, "address", at, vr_allocator_address(r->a, block));
    if (r->given != 0)
        mismatch(r, "a segment that was not needed", r->given_bytes, 0);
    r->given = 0;
    table_put(&r->blocks, at, block);
    return true;
}

static bool do_release(replay *r, const char *line)
{
    uint64_t at;
    if (sscanf(line, "f %" SCNu64, &at) != 1)
        return false;
    uint32_t block = table_get(&r->blocks, at);
    if (block == VR_NO_BLOCK)
        mismatch(r, "a release of a block that is not live", at, 0);
    vr_allocator_release(r->a, block);
    table_put(&r->blocks, at, VR_NO_BLOCK);
    return true;
}

static int by_address(const void *x, const void *y)
{
    const vr_alloc_block *a = x, *b = y;
    return (a->address > b->address) - (a->address < b->address);
}

static void gather_end(replay *r)
{
    vr_alloc_block b;
    size_t room = 0;
    for (uint32_t cursor = 0; vr_allocator_each(r->a, &cursor, &b);) {
        if (r->n_end == room) {
            room = room == 0 ? 1024 : 2 * room;
            r->end = realloc(r->end, room * sizeof(*r->end));
        }
        r->end[r->n_end++] = b;
    }
    qsort(r->end, r->n_end, sizeof(*r->end), by_address);
}

static bool do_end_segment(replay *r, const char *line)
{
    uint64_t at;
    if (sscanf(line, "end-segment %" SCNu64, &at) != 1)
        return false;
    if (r->end == NULL)
        gather_end(r);
    bool first = r->end_at < r->n_end && r->end[r->end_at].address == at && r->end[r->end_at].first;
    expect(r, "segment at the end", at, first ? at : 0);
    return true;
}

static bool do_end_block(replay *r, const char *line)
{
    uint64_t at, size, requested;
    char kind[8];
    if (sscanf(line, "end-block %" SCNu64 " %" SCNu64 " %" SCNu64 " %7s", &at, &size, &requested, kind) != 4)
        return false;
    static const vr_alloc_block none;
    const vr_alloc_block *b = r->end_at < r->n_end ? &r->end[r->end_at++] : &none;
    expect(r, "address of a block at the end", at, b->address);
    expect(r, "size of a block at the end", size, b->size);
    expect(r, "requested size of a block at the end", requested, b->requested);
    expect(r, "whether a block is live at the end", strcmp(kind, "live") == 0, b->live);
    return true;
}

static bool do_end(replay *r, const char *line)
{
    uint64_t allocated, reserved;
    if (sscanf(line, "end %" SCNu64 " %" SCNu64, &allocated, &reserved) != 2)
        return false;
    expect(r, "blocks at the end", r->end_at, r->n_end);
    expect(r, "allocated at the end", allocated, vr_allocator_stats(r->a)->allocated);
    expect(r, "reserved at the end", reserved, vr_allocator_stats(r->a)->reserved);
    return true;
}

static bool do_line(replay *r, const char *line)
{
    static const struct {
        const char *word;
        bool (*run)(replay *r, const char *line);
    } kinds[] = {
        { "segment ", do_segment },
        { "block ", do_block },
        { "S ", do_given },
        { "F ", do_freed },
        { "a ", do_alloc },
        { "f ", do_release },
        { "end-segment ", do_end_segment },
        { "end-block ", do_end_block },
        { "end ", do_end },
    };
    r->n_lines++;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strncmp(line, kinds[i].word, strlen(kinds[i].word)) != 0)
            continue;
        bool ok = kinds[i].run(r, line);
        r->freeing = line[0] == 'F';
        if (r->given == 0 && !r->freeing && line[0] != 'b' && line[0] != 's') {
            expect(r, "reserved", r->reserved, vr_allocator_stats(r->a)->reserved);
            expect(r, "segments", r->n_segments, vr_allocator_stats(r->a)->n_segments);
        }
        return ok;
    }
    return false;
}

/* The converter's output, and its process. */
static FILE *convert(const char *script, const char *snapshot, pid_t *child)
{
    int ends[2];
    if (pipe(ends) != 0 || (*child = fork()) < 0)
        return NULL;
    if (*child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("python3", "python3", script, snapshot, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    return fdopen(ends[0], "r");
}

typedef struct totals {
    size_t files, allocs, mismatches;
    bool broken;
} totals;

/* One snapshot; those without allocations in their trace do not count. */
static void replay_file(totals *t, const char *script, const char *path, const char *name)
{
    hook h = { 0 };
    replay r = { .name = name, .rest = VR_NO_BLOCK };
    vr_driver driver = { .address = recorded_address, .ud = &r };
    char line[256];
    pid_t child;
    int status = -1;
    bool ok = vram_open(&r.ctx, hook_alloc, &h) == VRAM_OK;
    vr_arena_init(&r.arena, r.ctx);
    ok = ok && vr_allocator_new(&r.a, &r.arena, NULL, &driver) == VRAM_OK;
    FILE *in = ok ? convert(script, path, &child) : NULL;
    while (in != NULL && ok && fgets(line, sizeof(line), in) != NULL)
        ok = do_line(&r, line);
    if (in != NULL) {
        fclose(in);
        waitpid(child, &status, 0);
    }
    bool empty = WIFEXITED(status) && WEXITSTATUS(status) == 4;
    if (!empty) {
        ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0 && r.end != NULL;
        printf("%s: %zu allocations, %zu new segments, %zu given back, %zu mismatches%s\n", name, r.n_allocs,
               r.n_new, r.n_freed, r.n_mismatches, ok ? "" : ", NOT PLAYED TO THE END");
        t->files++;
        t->allocs += r.n_allocs;
        t->mismatches += r.n_mismatches;
    }
    t->broken = t->broken || (!ok && !empty);
    vr_arena_free(&r.arena);
    vram_close(r.ctx);
    free(r.blocks.key);
    free(r.blocks.value);
    free(r.end);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(*(char *const *)x, *(char *const *)y);
}

static size_t list_snapshots(const char *folder, char **names)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    if (d == NULL)
        return 0;
    for (struct dirent *e; (e = readdir(d)) != NULL && n < MAX_FILES;) {
        size_t length = strlen(e->d_name);
        if (length > 7 && strcmp(e->d_name + length - 7, ".pickle") == 0)
            names[n++] = strdup(e->d_name);
    }
    closedir(d);
    qsort(names, n, sizeof(*names), by_name);
    return n;
}

int main(int argc, char **argv)
{
    const char *data = getenv("VRAM_DATA");
    char folder[4096], path[8192];
    char *names[MAX_FILES];
    if (argc != 3)
        return 2;
    snprintf(folder, sizeof(folder), "%s%s/data/snapshots", data != NULL ? data : argv[2],
             data != NULL ? "" : "/../shared");
    size_t n = list_snapshots(folder, names);
    if (n == 0) {
        printf("%s: no snapshots in %s\n", data != NULL ? "failed" : "skipped", folder);
        return data != NULL ? 1 : 77;
    }
    totals t = { 0 };
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        replay_file(&t, argv[1], path, names[i]);
        free(names[i]);
    }
    printf("%zu files, %zu allocations, %zu mismatches\n", t.files, t.allocs, t.mismatches);
    return t.broken || t.mismatches != 0 || t.files < 7 || t.allocs < 27589;
}
