/* SPDX-License-Identifier: MIT
 * Any bytes as a log: what is found must not depend on the pieces in which they came, every place that is
 * told must be one of the text, and a diagnosis must come of it. */
#include <string.h>

#include "../support/hook.h"
#include "diagnosis/diagnosis.h"
#include "diagnosis/reader.h"
#include "fuzz.h"

typedef struct reading {
    hook hook;
    vram_ctx *ctx;
    vr_arena arena;
    vr_findings found;
} reading;

/* What is searched for is the same in each run, and takes longer to make than to search. */
static vr_anchors *anchors(void)
{
    static hook h;
    static vr_arena arena;
    static vr_anchors *made;
    vram_ctx *ctx;

    if (made == NULL) {
        CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
        vr_arena_init(&arena, ctx);
        made = vr_reader_anchors(&arena);
        CHECK(made != NULL);
    }
    vr_anchors_restart(made);
    return made;
}

/* Pieces of `step` bytes, or, 0, of lengths that the bytes themselves say. */
static void read_in(reading *r, const uint8_t *data, size_t size, size_t step)
{
    vr_reader *reader;

    if (r->ctx == NULL) { /* memory is asked for once: that takes longer than to read a small log */
        CHECK(vram_open(&r->ctx, hook_alloc, &r->hook) == VRAM_OK);
        vr_arena_init(&r->arena, r->ctx);
    }
    vr_arena_reset(&r->arena);
    CHECK(vr_reader_new(&reader, r->ctx, &r->arena) == VRAM_OK);
    reader->anchors = anchors();
    for (size_t at = 0; at < size;) {
        size_t n = step != 0 ? step : (size_t)data[at] * data[at] + 1;
        n = n < size - at ? n : size - at;
        CHECK(vr_reader_feed(reader, data + at, n) == VRAM_OK);
        at += n;
    }
    CHECK(vr_reader_end(reader, &r->found) == VRAM_OK);
    CHECK(r->hook.peak_bytes < (size_t)20 << 20);
}

static void same_sign(const vr_sign *a, const vr_sign *b)
{
    CHECK(a->row == b->row && a->line == b->line && a->offset == b->offset && a->rank == b->rank);
    CHECK(strcmp(a->text, b->text) == 0);
    CHECK(a->facts.n == b->facts.n);
    for (size_t i = 0; i < a->facts.n; i++) {
        CHECK(a->facts.f[i].id == b->facts.f[i].id && a->facts.f[i].value == b->facts.f[i].value);
        CHECK(strcmp(a->facts.f[i].text, b->facts.f[i].text) == 0);
    }
}

static void sound_sign(const vr_sign *s, const vr_findings *f)
{
    CHECK(s->row != NULL && s->line >= 1 && s->line <= f->lines && s->offset < f->bytes);
    CHECK(s->file < f->n_files && strlen(s->text) <= 200);
    for (size_t i = 0; i < s->facts.n; i++) {
        CHECK(s->facts.f[i].id < VR_FACT_COUNT && s->facts.f[i].value <= INT64_MAX);
        CHECK(s->facts.f[i].line >= 1 && s->facts.f[i].line <= f->lines);
    }
}

static void same_findings(const vr_findings *a, const vr_findings *b)
{
    CHECK(a->n_events == b->n_events && a->n_dropped == b->n_dropped && a->n_seen == b->n_seen);
    CHECK(a->lines == b->lines && a->bytes == b->bytes && a->binary == b->binary);
    for (size_t i = 0; i < a->n_seen; i++)
        same_sign(&a->seen[i], &b->seen[i]);
    for (size_t i = 0; i < a->n_events; i++) {
        const vr_incident *x = &a->events[i], *y = &b->events[i];
        same_sign(&x->sign, &y->sign);
        sound_sign(&x->sign, a);
        CHECK(strcmp(x->block, y->block) == 0 && strlen(x->block) <= 4096);
        CHECK(x->repeats == y->repeats && x->n_near == y->n_near && x->n_before_line <= x->n_near);
        for (size_t k = 0; k < x->n_near; k++)
            same_sign(&x->near[k], &y->near[k]);
        CHECK((x->step == NULL) == (y->step == NULL));
        if (x->step != NULL)
            same_sign(x->step, y->step);
    }
}

static void diagnose(const uint8_t *data, size_t size)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vram_log *log;
    vram_diagnosis *d;

    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    CHECK(vram_log_new(&log, ctx) == VRAM_OK);
    vr_log_reader(log)->anchors = anchors();
    CHECK(vram_log_feed(log, data, size) == VRAM_OK);
    CHECK(vram_diagnosis_new(&d, log, NULL, NULL) == VRAM_OK);
    vram_close(ctx);
    CHECK(h.live_bytes == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static reading whole, cut;

    read_in(&whole, data, size, size + 1);
    read_in(&cut, data, size, 0);
    same_findings(&whole.found, &cut.found);
    read_in(&cut, data, size, 1);
    same_findings(&whole.found, &cut.found);
    diagnose(data, size);
    return 0;
}
