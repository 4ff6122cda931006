/* SPDX-License-Identifier: MIT
 * What becomes of a hit, by the kind of its row. */
#include "diagnosis/reader.h"

#include <string.h>

/* ---- keeping ---- */

void vr_keep_sign(vr_kept_sign *to, const vr_reader *r, const vr_hit *hit, const vr_text_row *row)
{
    size_t n = hit->text_n < VR_SIGN_TEXT ? hit->text_n : VR_SIGN_TEXT;
    const char *end = memchr(hit->text, '\n', n);

    n = end != NULL ? (size_t)(end - hit->text) : n;
    while (n > 0 && n < hit->text_n && ((uint8_t)hit->text[n] & 0xC0) == 0x80) /* whole characters */
        n--;
    memcpy(to->text, hit->text, n);
    to->text[n] = 0;
    to->sign =
        (vr_sign){ .row = row,
                   .line = hit->line,
                   .offset = vr_reader_offset(r, hit->start),
                   .file = (uint32_t)(r->n_files - 1),
                   .rank = hit->origin.rank,
                   .when = vr_log_time_of((vr_str){ r->text + hit->line_from, hit->start - hit->line_from }),
                   .text = to->text };
}

void vr_copy_sign(vr_kept_sign *to, const vr_kept_sign *from)
{
    *to = *from;
    to->sign.text = to->text;
}

void vr_copy_step(vr_kept_step *to, const vr_kept_step *from)
{
    *to = *from;
    to->sign.sign.text = to->sign.text;
    to->sign.sign.facts.f = to->f;
    for (size_t i = 0; i < to->sign.sign.facts.n; i++)
        to->f[i].text = to->text[i];
}

const vr_template *vr_reader_template(vr_reader *r, const vr_text_row *row, size_t number)
{
    if (!r->templated[number] && row->wants != NULL)
        r->templates[number] = vr_template_new(r->arena, row->wants, NULL);
    r->templated[number] = true;
    return r->templates[number];
}

void vr_keep_facts(vr_kept_facts *to, const vr_block *b, const vr_found_list *found)
{
    to->n = found->n;
    for (size_t i = 0; i < found->n; i++) {
        const vr_found *f = &found->f[i];
        size_t n = f->n < VR_FACT_TEXT - 1 ? f->n : VR_FACT_TEXT - 1, k = 0;
        for (size_t j = 0; j < n; j++) {
            char c = b->s[f->at + j];
            if (c != '\v' && c != '\n')
                to->text[i][k++] = c;
            else if (c == '\n')
                to->text[i][k++] = ' ';
        }
        to->text[i][k] = 0;
        to->f[i] = (vr_fact){ .id = f->fact,
                              .negative = f->figure.negative,
                              .value = f->figure.value,
                              .slack = f->figure.slack,
                              .line = vr_block_line(b, f->at),
                              .text = to->text[i] };
    }
}

/* ---- lanes ---- */

vr_lane *vr_reader_lane(vr_reader *r, uint64_t key)
{
    size_t oldest = 0;

    r->ticks++;
    for (size_t i = 0; i < r->n_lanes; i++) {
        if (r->lanes[i]->key == key) {
            r->lanes[i]->used = r->ticks;
            return r->lanes[i];
        }
        oldest = r->lanes[i]->used < r->lanes[oldest]->used ? i : oldest;
    }
    if (r->n_lanes < VR_MAX_LANES) {
        oldest = r->n_lanes;
        if (r->lanes[oldest] == NULL)
            r->lanes[oldest] = VR_NEW(r->arena, vr_lane);
        if (r->lanes[oldest] == NULL)
            return NULL;
        r->n_lanes++;
    }
    vr_lane *l = r->lanes[oldest];
    l->key = key;
    l->used = r->ticks;
    l->n_frames = 0;
    l->last = NULL;
    l->step.sign.sign.row = NULL;
    l->stepped = 0;
    l->event_end = 0;
    return l;
}

/* ---- hits ---- */

static void count_lines(vr_reader *r, size_t to)
{
    if (to <= r->counted)
        return;
    r->line += vr_newlines(r->text + r->counted, to - r->counted);
    r->counted = to;
}

/* Most messages have several hits in one line: what was found of it holds for the next. */
static bool is_in_last_line(const vr_reader *r, const vr_hit *hit)
{
    const vr_hit *last = &r->last_line;
    uint64_t at = r->base + hit->start;

    return last->anchor != NULL && at >= r->last_line_at && at < r->last_line_end &&
           memchr(r->text + (r->last_line_at - r->base), '\r', (size_t)(at - r->last_line_at)) == NULL;
}

static void keep_last_line(vr_reader *r, const vr_hit *hit, bool whole)
{
    r->last_line = *hit;
    r->last_line_at = r->base + hit->start;
    r->last_line_end = whole ? r->base + hit->line_to : 0;
}

static void reuse_line(const vr_reader *r, vr_hit *hit)
{
    size_t start = hit->start, end = hit->end, moved = (size_t)(r->last_line_at - r->base);
    const vr_anchor *a = hit->anchor;

    *hit = r->last_line;
    hit->line_from = moved - (hit->start - hit->line_from); /* the window may have moved */
    hit->line_to = (size_t)(r->last_line_end - r->base);
    hit->anchor = a;
    hit->start = start;
    hit->end = end;
}

#define LINE_AHEAD ((size_t)1024) /* of a line, behind a hit */

/* Where the line of a hit begins, at most VR_LINE_BACK before it. A line of many hits that has no end is not
 * looked through for each of them. */
static size_t line_start(vr_reader *r, size_t start)
{
    size_t low = start > VR_LINE_BACK ? start - VR_LINE_BACK : 0, from = start;
    uint64_t at = r->base + start, known = r->long_at;

    if (low != 0 && known > r->base && known <= at && at - known < VR_LINE_BACK &&
        memchr(r->text + (known - r->base), '\n', (size_t)(at - known)) == NULL)
        from = low;
    while (from > low && r->text[from - 1] != '\n')
        from--;
    if (from == low && low != 0)
        r->long_at = at;
    return from;
}

/* Fills in line and origin. */
static void find_line(vr_reader *r, vr_hit *hit)
{
    if (is_in_last_line(r, hit)) {
        reuse_line(r, hit);
        return;
    }
    size_t low = hit->start > VR_LINE_BACK ? hit->start - VR_LINE_BACK : 0, from = line_start(r, hit->start);
    size_t most = r->n - hit->start < LINE_AHEAD ? r->n : hit->start + LINE_AHEAD, to;
    const char *end;
    bool whole = from > low || (low == 0 && r->base == 0);
    if (from == low && low != 0)
        from = hit->start - 256;
    end = memchr(r->text + hit->start, '\n', most - hit->start); /* a window may be one line of hits */
    to = end != NULL ? (size_t)(end - r->text) : most;
    whole = whole && (end != NULL || most == r->n);
    hit->line_from = from;
    hit->line_to = to;
    count_lines(r, from);
    hit->line = r->line;
    if (from < r->counted) /* a hit before the one that was counted to */
        hit->line -= vr_newlines(r->text + from, r->counted - from);
    hit->text_n = vr_line_clean((vr_str){ r->text + from, to - from }, hit->start - from, hit->text,
                                sizeof hit->text, &hit->origin);
    keep_last_line(r, hit, whole);
}

/* What stands between NUL bytes is no log. */
static bool is_binary(const vr_reader *r, size_t start)
{
    size_t from = start > 48 ? start - 48 : 0, to = start + 80 < r->n ? start + 80 : r->n;
    uint8_t n = 0;

    if (!r->odd_now && !r->odd_before)
        return false;
    for (size_t i = from; i < to; i++) {
        uint8_t c = (uint8_t)r->text[i];
        n = (uint8_t)(n + ((c < 32) & ((uint8_t)(c - 8) > 5) & (c != 27)));
    }
    return n >= 2;
}

#define BEFORE_LINES 6u
#define BEFORE_MIXED 24u /* where lines of other processes may stand between */
#define BEFORE_BYTES 2048u

size_t vr_reader_before(const vr_reader *r, const vr_hit *hit, uint64_t low, uint64_t *lines)
{
    size_t from = hit->line_from, least = from > BEFORE_BYTES ? from - BEFORE_BYTES : 0;

    if (low > r->base && low - r->base > least)
        least = low - r->base < from ? (size_t)(low - r->base) : from;
    size_t most = hit->origin.key != 0 ? BEFORE_MIXED : BEFORE_LINES;
    for (*lines = 0; *lines < most && from > least; ++*lines) {
        size_t i = from - 1;
        while (i > least && r->text[i - 1] != '\n')
            i--;
        if (i == least && i != 0 && r->text[i - 1] != '\n') /* not all of that line */
            break;
        from = i;
    }
    return from;
}

/* Whether the block, or behind "=" the line, holds what the row needs besides. */
static bool needs_met(vr_reader *r, const vr_hit *hit, const char *needs)
{
    bool line_only = needs != NULL && needs[0] == '=';

    if (needs == NULL || vr_text_holds((vr_str){ hit->text, hit->text_n }, vr_str_of(needs + line_only)))
        return true;
    if (line_only)
        return false;
    if (r->needs_at == 0 || r->needs_at != r->base + hit->line_from + 1) {
        uint64_t lines;
        size_t from = vr_reader_before(r, hit, 0, &lines);
        vr_block_make(&r->needs, (vr_str){ r->text, r->n }, from, hit->start, SIZE_MAX, 0);
        bool once = memchr(r->text + hit->line_from, '\r', hit->line_to - hit->line_from) == NULL;
        r->needs_at = once ? r->base + hit->line_from + 1 : 0;
    }
    return vr_text_holds((vr_str){ r->needs.s, r->needs.n }, vr_str_of(needs));
}

/* Whether it stands where its row wants it in the line. */
static bool is_placed(const vr_hit *hit)
{
    const vr_anchor *a = hit->anchor;
    vr_str text = { hit->text, hit->text_n };

    if (a->begins && !vr_text_begins(text, a->text))
        return false;
    return !a->ends || (hit->text_n < sizeof hit->text && vr_text_ends(text, a->text));
}

#define STEP_REACH 400u /* bytes behind the line of a step */

/* Reads the figures of a row's template in the lines from the hit's on; steps are many, and short. */
static vram_status read_figures(vr_reader *r, const vr_hit *hit)
{
    const vr_text_row *row = hit->anchor->row;

    r->found.n = 0;
    if (row->wants == NULL)
        return VRAM_OK;
    const vr_template *t = vr_reader_template(r, row, hit->anchor->number);
    if (t == NULL)
        return VRAM_ENOMEM;
    size_t end = row->kind == VR_TEXT_STEP ? hit->line_to + STEP_REACH : SIZE_MAX;
    vr_block_make(&r->block, (vr_str){ r->text, r->n }, hit->line_from, hit->start, end, hit->line);
    vr_template_read(t, (vr_str){ r->block.s, r->block.n }, 0, &r->found);
    return VRAM_OK;
}

static vram_status keep_seen(vr_reader *r, const vr_hit *hit)
{
    const vr_text_row *row = hit->anchor->row;
    vr_seen_row *s = r->seen[hit->anchor->number];

    if (s == NULL)
        s = r->seen[hit->anchor->number] = VR_NEW(r->arena, vr_seen_row);
    if (s == NULL)
        return VRAM_ENOMEM;
    vr_keep_sign(&s->sign, r, hit, row);
    VR_TRY(read_figures(r, hit));
    vr_keep_facts(&s->facts, &r->block, &r->found);
    s->sign.sign.facts = (vr_fact_list){ s->facts.f, s->facts.n };
    return VRAM_OK;
}

/* Notes a hit of a row of which the last counts. */
static void wait_with(vr_reader *r, const vr_anchor *a, size_t start, size_t end)
{
    vr_pending *p = &r->pending[a->number];

    if (p->anchor == NULL)
        r->pending_rows[r->n_pending++] = a->number;
    *p = (vr_pending){ a, start, end };
}

#define NEAR_LINES 12u
#define NEAR_MIXED 60u /* where lines of other processes may stand between */

static vram_status keep_frame(vr_reader *r, const vr_hit *hit)
{
    vr_lane *l = vr_reader_lane(r, hit->origin.key);
    vr_event *e;

    if (l == NULL)
        return VRAM_ENOMEM;
    vr_kept_sign *to = &l->frames[l->n_frames++ % VR_NEAR_SIGNS];
    vr_keep_sign(to, r, hit, hit->anchor->row);
    e = l->last;
    if (e == NULL)
        return VRAM_OK;
    if (hit->line > l->last_line + (l->key != 0 ? NEAR_MIXED : NEAR_LINES) || e->n_near == VR_NEAR_SIGNS) {
        l->last = NULL;
        return VRAM_OK;
    }
    vr_copy_sign(&e->near[e->n_near++], to);
    l->last_line = hit->line;
    return VRAM_OK;
}

static vr_hit hit_of(vr_reader *r, const vr_pending *p)
{
    vr_hit hit = { .anchor = p->anchor, .start = p->start, .end = p->end };

    find_line(r, &hit);
    return hit;
}

static vram_status keep_step(vr_reader *r, const vr_hit *hit, vr_lane *l)
{
    vr_kept_facts *facts = &r->step_facts;

    VR_TRY(read_figures(r, hit));
    r->found.n = r->found.n < VR_STEP_FACTS ? r->found.n : VR_STEP_FACTS;
    vr_keep_facts(facts, &r->block, &r->found);
    vr_keep_sign(&l->step.sign, r, hit, hit->anchor->row);
    memcpy(l->step.f, facts->f, facts->n * sizeof l->step.f[0]);
    memcpy(l->step.text, facts->text, facts->n * sizeof l->step.text[0]);
    l->step.sign.sign.facts = (vr_fact_list){ l->step.f, facts->n };
    vr_copy_step(&l->step, &l->step);
    l->stepped = r->settled;
    return VRAM_OK;
}

/* From the last one back: of each process the last counts. */
vram_status vr_reader_settle_steps(vr_reader *r)
{
    uint64_t n = r->n_steps < VR_WAITING_STEPS ? r->n_steps : VR_WAITING_STEPS;

    r->settled++;
    for (uint64_t i = 0; i < n; i++) {
        vr_hit hit = hit_of(r, &r->steps[(r->n_steps - 1 - i) % VR_WAITING_STEPS]);
        vr_lane *l = vr_reader_lane(r, hit.origin.key);
        if (l == NULL)
            return VRAM_ENOMEM;
        if (l->stepped != r->settled)
            VR_TRY(keep_step(r, &hit, l));
        if (i == 0)
            vr_copy_step(&r->step, &l->step);
    }
    r->n_steps = 0;
    return VRAM_OK;
}

vram_status vr_reader_settle_frames(vr_reader *r)
{
    uint64_t n = r->n_frames < VR_WAITING_FRAMES ? r->n_frames : VR_WAITING_FRAMES;

    for (uint64_t i = r->n_frames - n; i < r->n_frames; i++) {
        vr_hit hit = hit_of(r, &r->frames[i % VR_WAITING_FRAMES]);
        if (hit.anchor->row == NULL)
            vr_reader_mark(r, &hit);
        else
            VR_TRY(keep_frame(r, &hit));
    }
    r->n_frames = 0;
    return VRAM_OK;
}

vram_status vr_reader_settle(vr_reader *r)
{
    VR_TRY(vr_reader_settle_steps(r));
    VR_TRY(vr_reader_settle_frames(r));
    for (size_t i = 0; i < r->n_pending; i++) {
        vr_pending *p = &r->pending[r->pending_rows[i]];
        vr_hit hit = hit_of(r, p);
        p->anchor = NULL;
        VR_TRY(keep_seen(r, &hit));
    }
    r->n_pending = 0;
    return VRAM_OK;
}

/* Whether a row's hit counts only when what is around it fits. */
static bool has_conditions(const vr_anchor *a)
{
    return a->begins || a->ends || a->row->needs != NULL;
}

static bool counts_last(uint8_t kind)
{
    return kind == VR_TEXT_INFO || kind == VR_TEXT_PROGRAM || kind == VR_TEXT_PLATFORM ||
           kind == VR_TEXT_OPTION || kind == VR_TEXT_FRAME || kind == VR_TEXT_STEP;
}

/* Takes hits that nothing has to be read of at once; false: it is another one. */
static bool put_aside(vr_reader *r, const vr_anchor *a, size_t start, size_t end)
{
    vr_pending p = { a, start, end };

    if (a->row == NULL || a->row->kind == VR_TEXT_FRAME)
        r->frames[r->n_frames++ % VR_WAITING_FRAMES] = p;
    else if (a->row->kind == VR_TEXT_STEP)
        r->steps[r->n_steps++ % VR_WAITING_STEPS] = p;
    if (a->row != NULL && counts_last(a->row->kind))
        wait_with(r, a, start, end);
    return a->row == NULL || counts_last(a->row->kind);
}

vram_status vr_reader_hit(vr_reader *r, const vr_anchor *a, size_t start, size_t end)
{
    vr_pending p = { a, start, end };

    if (is_binary(r, start))
        return VRAM_OK;
    bool plain = a->row == NULL || !has_conditions(a);
    if (plain && put_aside(r, a, start, end))
        return VRAM_OK;
    vr_hit hit = hit_of(r, &p);
    VR_TRY(vr_reader_close(r, r->base + start));
    if (!is_placed(&hit) || !needs_met(r, &hit, a->row->needs) || (!plain && put_aside(r, a, start, end)))
        return VRAM_OK;
    if (a->row->kind != VR_TEXT_WARNING)
        return vr_reader_event(r, &hit);
    vr_reader_warned(r, &hit);
    return r->seen[a->number] == NULL ? keep_seen(r, &hit) : VRAM_OK;
}
