/* SPDX-License-Identifier: MIT
 *
 * What was seen, in words: alone it points to a cause, beside a text it says what the text leaves open, and
 * never more.
 */
#include "diagnosis/symptoms.h"

#include "diagnosis/diagnosis.h"

static const char *quoted(struct vram_diagnosis *d)
{
    vr_str said = vr_str_of(d->found.symptom);
    bool whole = said.n <= 120;

    if (!whole)
        said.n = 117;
    while (!whole && said.n != 0 && ((unsigned char)said.s[said.n] & 0xc0) == 0x80)
        said.n--;
    return vr_text(&d->arena, T("what was seen: \""), S(said), T(whole ? "\"" : "...\""));
}

static void make_finding(struct vram_diagnosis *d, const vr_symptom *row)
{
    vr_finding *f = &d->list[d->n++];

    f->memory = row->memory;
    f->phase = row->phase;
    f->cause = row->cause;
    f->certainty = row->certainty;
    f->program = row->program;
    f->sub_cause = row->sub_cause;
    f->summary = row->summary;
    f->tell = row->tell;
    f->tell_why = row->tell_why;
    vr_add_evidence(d, f, 0, row->why);
    vr_add_evidence(d, f, 0, quoted(d));
}

static vram_status from_words_alone(struct vram_diagnosis *d, const vr_symptom *const *rows, size_t n)
{
    if (d->list == NULL)
        d->list = VR_ARRAY(&d->arena, vr_finding, VR_MAX_FINDINGS);
    if (d->list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++)
        make_finding(d, rows[i]);
    return VRAM_OK;
}

/* GPU memory and an engine's pool in it are one kind, as far as words go. */
static bool same_memory(const vr_finding *f, const vr_symptom *row)
{
    bool f_gpu = f->memory == VR_MEMORY_GPU || f->memory == VR_MEMORY_POOL;

    return f->memory == VR_MEMORY_UNKNOWN || row->memory == VR_MEMORY_UNKNOWN || f->memory == row->memory ||
           (f_gpu && row->memory == VR_MEMORY_GPU);
}

static bool says_when(uint8_t phase)
{
    return phase != VR_PHASE_UNKNOWN && phase != VR_PHASE_START;
}

/* The text does not tell when. */
static bool is_vague(const vr_finding *f)
{
    return f->phase == VR_PHASE_UNKNOWN || f->phase == VR_PHASE_TRAINING;
}

/* A guess that the text gave for want of anything better, and words that say more. */
static bool is_open(const vr_finding *f, const vr_symptom *row)
{
    bool exact = says_when(row->phase) && row->phase != VR_PHASE_LATER && row->phase != VR_PHASE_TRAINING &&
                 row->phase != VR_PHASE_SERVING;
    bool says_more = row->certainty == VR_CERTAINTY_LIKELY || (is_vague(f) && exact);

    return f->cause == VR_CAUSE_UNKNOWN ||
           (f->certainty <= VR_CERTAINTY_POSSIBLE && says_more && (is_vague(f) || f->phase == row->phase));
}

static void take_cause(struct vram_diagnosis *d, vr_finding *f, const vr_symptom *row)
{
    f->cause = row->cause;
    f->certainty = row->certainty;
    f->sub_cause = row->sub_cause;
    f->summary = row->summary;
    f->tell = row->tell;
    f->tell_why = row->tell_why;
    f->missing_note = NULL; /* of another cause */
    vr_add_evidence(d, f, 0, row->why);
}

/* The words name another cause than the text. True: it was taken. */
static bool other_cause(struct vram_diagnosis *d, vr_finding *f, const vr_symptom *row)
{
    if (is_open(f, row)) {
        take_cause(d, f, row);
        return true;
    }
    if (f->certainty <= VR_CERTAINTY_POSSIBLE)
        vr_add_note(f, vr_text(&d->arena, T("what was seen points elsewhere: "), T(row->summary)));
    return false;
}

/* Text and words agree. */
static void same_cause(vr_finding *f, const vr_symptom *row)
{
    if (f->certainty != VR_CERTAINTY_POSSIBLE || row->certainty != VR_CERTAINTY_LIKELY)
        return;
    f->certainty = VR_CERTAINTY_LIKELY;
    f->summary = row->summary;
}

/* The cause is taken only where the text leaves it open and speaks of the same memory. */
static void refine(struct vram_diagnosis *d, vr_finding *f, const vr_symptom *row)
{
    bool used = true;

    if (!same_memory(f, row) || row->cause == VR_CAUSE_UNKNOWN || row->cause == VR_CAUSE_NONE)
        return;
    if (f->cause == row->cause)
        same_cause(f, row);
    else
        used = other_cause(d, f, row);
    if (used && f->memory == VR_MEMORY_UNKNOWN)
        f->memory = row->memory;
    if (is_vague(f) && says_when(row->phase)) {
        f->phase = row->phase;
        used = true;
    }
    if (used)
        vr_add_evidence(d, f, 0, quoted(d));
}

vram_status vr_diagnose_symptom(struct vram_diagnosis *d)
{
    const vr_symptom *rows[VR_SYMPTOMS_TOLD];
    const char *said;
    size_t n = 0;

    if (d->found.symptom == NULL)
        return VRAM_OK;
    if (d->n == 0) {
        VR_TRY(vr_symptoms_of(&d->arena, d->found.symptom, rows, &n));
        return n != 0 ? from_words_alone(d, rows, n) : VRAM_OK;
    }
    /* that it failed is said by the text: "evaluation" is enough then */
    said = vr_text(&d->arena, T(d->found.symptom), T(" fails"));
    if (said == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_symptoms_of(&d->arena, said, rows, &n));
    if (n == 0)
        return vr_warn(d->ctx, NULL,
                       T("what was seen is no symptom that is known: the answer is from the text alone"));
    refine(d, &d->list[0], rows[0]);
    return VRAM_OK;
}
