/* SPDX-License-Identifier: MIT
 *
 * Which events are failures of their own and which follow from one before them.
 */
#include "diagnosis/order.h"

#define SAME_FAILURE_SECONDS 600 /* ranks, watchdogs and supervisors report within this time */
#define SAME_FAILURE_LINES 300   /* without times: to the last text of the same failure, a traceback away */
#define WRAPPED_LINES 60         /* a library's message and its caller's words about it */
#define EXPLAINED_LINES 300      /* a fault and the bare error that it ends in */

static bool fails(const vr_incident *e)
{
    uint8_t kind = e->sign.row->kind;

    return kind == VR_TEXT_FATAL || kind == VR_TEXT_GENERIC || kind == VR_TEXT_REFUSAL;
}

static uint64_t lines_between(const vr_incident *a, const vr_incident *b)
{
    return a->sign.line < b->sign.line ? b->sign.line - a->sign.line : a->sign.line - b->sign.line;
}

/* Loading or starting anew behind the first failure: another run, in the same log. */
static bool started_anew(const vr_incident *first, const vr_incident *later)
{
    const vr_sign *step = later->step;

    return step != NULL && step->row->phase == VR_PHASE_START && step->file == first->sign.file &&
           step->line > first->sign.line;
}

/* Messages of two kinds about two cards; ranks of one job fail on a card each and are one failure. */
static bool of_other_cards(const vr_incident *first, const vr_incident *later)
{
    uint64_t a, b;

    return first->sign.row != later->sign.row && fails(first) && fails(later) &&
           later->sign.row->kind != VR_TEXT_GENERIC && first->sign.rank < 0 && later->sign.rank < 0 &&
           vr_fact_value(&first->sign.facts, VR_FACT_GPU, &a) &&
           vr_fact_value(&later->sign.facts, VR_FACT_GPU, &b) && a != b;
}

/* That the computer's memory ran out, by the word of who knows, follows from no full card. A process that
 * was merely killed does: launchers do that to the others. */
static bool of_the_computer(const vr_incident *first, const vr_incident *later)
{
    const vr_text_row *a = first->sign.row, *b = later->sign.row;

    return a->memory == VR_MEMORY_GPU && b->memory == VR_MEMORY_HOST && b->kind == VR_TEXT_FATAL &&
           b->certainty == VR_CERTAINTY_CERTAIN;
}

static bool follows(const vr_incident *first, const vr_incident *later)
{
    uint64_t seconds;

    if (first->sign.file != later->sign.file || of_the_computer(first, later))
        return false;
    if (vr_seconds_between(first->sign.when, later->sign.when, &seconds))
        return seconds <= SAME_FAILURE_SECONDS;
    return lines_between(first, later) <= SAME_FAILURE_LINES;
}

static bool same_rank(const vr_incident *a, const vr_incident *b)
{
    return a->sign.rank < 0 || b->sign.rank < 0 || a->sign.rank == b->sign.rank;
}

/* The later text is about the same failure and is the more telling one: "out of memory", and then which
 * buffer it was. */
static bool says_more(const vr_incident *first, const vr_incident *later)
{
    const vr_text_row *a = first->sign.row, *b = later->sign.row;

    if (a->kind != VR_TEXT_GENERIC || b->kind == VR_TEXT_GENERIC || b->kind == VR_TEXT_CONSEQUENCE)
        return false;
    if (a->memory != VR_MEMORY_UNKNOWN && b->memory != VR_MEMORY_UNKNOWN && a->memory != b->memory)
        return false;
    if (!same_rank(first, later))
        return false;
    /* "Out of memory" in passing hides no message that says of what, however far behind. */
    if (a->cause == VR_CAUSE_UNKNOWN && first->sign.facts.n == 0 && fails(later))
        return true;
    return lines_between(first, later) <= WRAPPED_LINES && later->sign.facts.n != 0;
}

/* The later text names what the first only has figures of. */
static bool names_cause(const vr_finding *f, const vr_incident *later)
{
    const vr_text_row *row = later->sign.row;

    return f->named_by == NULL && f->event->sign.row->cause == VR_CAUSE_UNKNOWN && fails(later) &&
           row->cause != VR_CAUSE_UNKNOWN && same_rank(f->event, later) &&
           (row->memory == f->event->sign.row->memory || row->memory == VR_MEMORY_UNKNOWN) &&
           lines_between(f->event, later) <= 4 * WRAPPED_LINES;
}

/* A look-alike is a finding of its own where nothing failed for want of memory, or where a failure without
 * figures comes right behind it: then it is the fault, and the failure its echo. */
static bool explains(const vr_findings *found, size_t i)
{
    const vr_incident *e = &found->events[i];
    bool failed = false;

    for (size_t k = 0; k < found->n_events; k++) {
        const vr_incident *o = &found->events[k];
        if (!fails(o))
            continue;
        failed = true;
        if (k > i)
            return o->sign.file == e->sign.file && o->sign.facts.n == 0 &&
                   lines_between(e, o) <= EXPLAINED_LINES && follows(e, o);
    }
    return !failed;
}

/* A warning whose own words would be a failure elsewhere. */
static bool is_warned(const vr_findings *found, const vr_sign *s)
{
    for (size_t i = 0; i < found->n_seen; i++) {
        const vr_sign *w = &found->seen[i];
        if (w->row->kind == VR_TEXT_WARNING && w->line == s->line && w->file == s->file &&
            w->row->rank > s->row->rank)
            return true;
    }
    return false;
}

static bool is_cause(const vr_findings *found, size_t i)
{
    uint8_t kind = found->events[i].sign.row->kind;

    if (is_warned(found, &found->events[i].sign))
        return false;
    if (kind == VR_TEXT_LOOKALIKE)
        return explains(found, i);
    return fails(&found->events[i]);
}

/* What is known of a failure so far. */
typedef struct group {
    const vr_incident *last; /* the last event that belongs to it: tracebacks of many ranks are a chain */
} group;

static size_t followed(const struct vram_diagnosis *d, const group *groups, const vr_incident *e)
{
    for (size_t i = d->n; i > 0; i--)
        if (follows(groups[i - 1].last, e) && !started_anew(d->list[i - 1].event, e) &&
            !of_other_cards(d->list[i - 1].event, e))
            return i - 1;
    return d->n;
}

static void begin(struct vram_diagnosis *d, group *groups, const vr_incident *e)
{
    groups[d->n].last = e;
    d->list[d->n++].event = e;
}

static void take_event(struct vram_diagnosis *d, group *groups, size_t i)
{
    const vr_incident *e = &d->found.events[i];
    size_t at = followed(d, groups, e);
    vr_finding *f = &d->list[at];

    d->n_follow = vr_add_sat(d->n_follow, e->repeats);
    if (at == d->n) {
        if (is_cause(&d->found, i) && d->n < VR_MAX_FINDINGS)
            begin(d, groups, e);
        return;
    }
    if (e->sign.row->kind == VR_TEXT_LOOKALIKE)
        return;
    groups[at].last = e;
    d->n_follow++;
    if (says_more(f->event, e))
        f->event = e;
    else if (names_cause(f, e))
        f->named_by = &e->sign;
}

vram_status vr_diagnose_order(struct vram_diagnosis *d)
{
    const vr_findings *found = &d->found;
    group groups[VR_MAX_FINDINGS] = { { NULL } };

    d->list = VR_ARRAY(&d->arena, vr_finding, VR_MAX_FINDINGS);
    if (d->list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < found->n_events; i++)
        take_event(d, groups, i);
    if (d->n == 0)
        VR_TRY(vr_take_seen(d));
    /* Aborts and exit codes alone: the failure itself is not in the text. */
    if (d->n == 0 && found->n_events != 0 && !is_warned(found, &found->events[0].sign))
        d->list[d->n++].event = &found->events[0];
    return VRAM_OK;
}
