/* SPDX-License-Identifier: MIT
 *
 * A text being read, and the diagnosis that is made of it.
 */
#include "diagnosis/diagnosis.h"

#include "checkpoint/checkpoint.h"
#include "model/catalogue.h"
#include "model/model.h"

struct vram_log {
    vr_object object;
    vram_ctx *ctx;
    vr_arena arena;
    vr_reader *reader;
    const char *symptom;
    const vram_device *card;
    bool taken; /* a diagnosis was made of it */
};

static void release_log(vr_object *self)
{
    struct vram_log *log = (struct vram_log *)self;
    vr_arena arena = log->arena;

    vr_arena_free(&arena);
}

static void release_diagnosis(vr_object *self)
{
    struct vram_diagnosis *d = (struct vram_diagnosis *)self;
    vr_arena arena = d->arena;

    vr_arena_free(&arena);
}

vram_status vram_log_new(vram_log **out, vram_ctx *ctx)
{
    vr_arena arena;
    struct vram_log *log;
    vram_status s;

    *out = NULL;
    vr_arena_init(&arena, ctx);
    log = VR_NEW(&arena, struct vram_log);
    if (log == NULL)
        return VRAM_ENOMEM;
    log->ctx = ctx;
    log->arena = arena;
    s = vr_reader_new(&log->reader, ctx, &log->arena);
    if (s != VRAM_OK) {
        arena = log->arena;
        vr_arena_free(&arena);
        return s;
    }
    vr_object_register(ctx, &log->object, release_log);
    *out = log;
    return VRAM_OK;
}

vram_status vram_log_file(vram_log *log, const char *name)
{
    return vr_reader_file(log->reader, vr_str_of(name));
}

vram_status vram_log_feed(vram_log *log, const void *bytes, size_t n)
{
    return vr_reader_feed(log->reader, bytes, n);
}

vr_reader *vr_log_reader(vram_log *log)
{
    return log->reader;
}

vram_status vram_log_symptom(vram_log *log, const char *words)
{
    log->symptom = vr_arena_copy(&log->arena, vr_str_of(words));
    return log->symptom != NULL ? VRAM_OK : VRAM_ENOMEM;
}

void vram_log_card(vram_log *log, const vram_device *card)
{
    log->card = card;
}

/* As the hub has it, where it is known there. */
static const char *name_of(const vram_model *m, vr_arena *a)
{
    const vram_checkpoint *ck = m->checkpoint;
    return vr_arena_copy(a, vr_str_of(ck->catalogue != NULL ? ck->catalogue->repo : ck->name));
}

static vram_status diagnose(struct vram_diagnosis *d, const vram_model *m, const vram_workload *w)
{
    VR_TRY(vr_diagnose_order(d));
    for (size_t i = 0; i < d->n; i++)
        VR_TRY(vr_diagnose_cause(d, &d->list[i]));
    VR_TRY(vr_diagnose_symptom(d));
    for (size_t i = 0; i < d->n; i++) {
        if (m != NULL)
            VR_TRY(vr_diagnose_place(d, &d->list[i], m, w));
        VR_TRY(vr_diagnose_remedies(d, &d->list[i]));
    }
    return d->arena.starved ? VRAM_ENOMEM : VRAM_OK;
}

vram_status vram_diagnosis_new(vram_diagnosis **out, vram_log *log, const vram_model *m,
                               const vram_workload *w)
{
    vr_arena arena;
    struct vram_diagnosis *d;
    vram_status s;

    *out = NULL;
    if (log->taken)
        return vr_fail(log->ctx, VRAM_EINTERNAL, T("a diagnosis was made of this text already"));
    vr_arena_init(&arena, log->ctx);
    d = VR_NEW(&arena, struct vram_diagnosis);
    if (d == NULL)
        return VRAM_ENOMEM;
    d->ctx = log->ctx;
    d->arena = arena;
    d->card = log->card;
    log->taken = true;
    s = vr_reader_end(log->reader, &d->found);
    d->found.symptom = log->symptom;
    d->model = m != NULL ? name_of(m, &d->arena) : NULL;
    if (s == VRAM_OK)
        s = diagnose(d, m, w);
    if (s != VRAM_OK) {
        arena = d->arena;
        vr_arena_free(&arena);
        return s;
    }
    vr_object_register(log->ctx, &d->object, release_diagnosis);
    *out = d;
    return VRAM_OK;
}

bool vram_diagnosis_recognised(const vram_diagnosis *d)
{
    return d->n != 0;
}

void vr_add_evidence(struct vram_diagnosis *d, vr_finding *f, uint64_t line, const char *text)
{
    if (f->evidence == NULL)
        f->evidence = VR_ARRAY(&d->arena, vr_reason, VR_MAX_EVIDENCE);
    if (f->evidence != NULL && f->n_evidence < VR_MAX_EVIDENCE && text != NULL)
        f->evidence[f->n_evidence++] =
            (vr_reason){ .text = text, .line = line, .file = f->event != NULL ? f->event->sign.file : 0 };
}

void vr_add_futile(struct vram_diagnosis *d, vr_finding *f, const char *what, const char *why)
{
    if (f->futile == NULL)
        f->futile = VR_ARRAY(&d->arena, vr_futile, VR_MAX_FUTILE);
    if (f->futile != NULL && f->n_futile < VR_MAX_FUTILE)
        f->futile[f->n_futile++] = (vr_futile){ .what = what, .why = why };
}

void vr_add_note(vr_finding *f, const char *text)
{
    if (f->n_notes < sizeof f->notes / sizeof f->notes[0] && text != NULL)
        f->notes[f->n_notes++] = text;
}

const vr_fact *vr_finding_fact(const struct vram_diagnosis *d, const vr_finding *f, vr_fact_id id)
{
    const vr_fact *fact = f->event != NULL ? vr_fact_of(&f->event->sign.facts, id) : NULL;

    return fact != NULL ? fact : vr_seen_fact(&d->found, id);
}
