/* SPDX-License-Identifier: MIT
 * Messages: which hits are of one, what belongs to it, and which messages say the same again. */
#include "diagnosis/reader.h"

#include <string.h>

#define ADJACENT 3u        /* lines between texts of one message ... */
#define ADJACENT_PART 8u   /* ... between another part of a text and the part before it */
#define ADJACENT_MIXED 24u /* ... and where lines of other processes may stand between, at least ... */
#define ADJACENT_EACH 8u   /* ... for each of them */

static bool is_generic(const vr_text_row *row)
{
    return row->kind == VR_TEXT_GENERIC;
}

static bool is_shortage(const vr_text_row *row)
{
    return row->kind == VR_TEXT_FATAL || row->kind == VR_TEXT_REFUSAL || is_generic(row);
}

static const vr_text_row *leading(const vr_event *e)
{
    return e->sign.sign.row;
}

static vr_event *open_of(const vr_reader *r, uint64_t key)
{
    for (size_t i = r->n_open; i > 0; i--) {
        if (r->open[i - 1]->key == key)
            return r->open[i - 1];
    }
    return NULL;
}

static bool has_row(const vr_event *e, const vr_anchor *a, bool same_alternative)
{
    for (size_t i = 0; i < e->n_rows; i++) {
        if (e->rows[i].row == a->row && (!same_alternative || e->rows[i].alternative == a->alternative))
            return true;
    }
    return false;
}

/* Lines between texts of one message. */
static uint64_t adjacent_lines(const vr_reader *r, const vr_event *e)
{
    uint64_t mixed = r->n_lanes * (uint64_t)ADJACENT_EACH;

    if (e->key == 0)
        return ADJACENT;
    return mixed > ADJACENT_MIXED ? mixed : ADJACENT_MIXED;
}

/* Whether both say of which memory, and it is another. */
static bool is_other_memory(const vr_text_row *a, const vr_text_row *b)
{
    return a->memory != b->memory && a->memory != VR_MEMORY_UNKNOWN && b->memory != VR_MEMORY_UNKNOWN;
}

/* Texts of one program on one memory. */
static bool is_akin(const vr_text_row *a, const vr_text_row *b)
{
    return !is_other_memory(a, b) && a->program == b->program;
}

/* Whether a hit is of the message e: in the same line always; a text that says little near one that says
 * more, and of another memory only in lines that follow each other; texts of a program in such lines; another
 * part of the same text. */
static bool belongs(const vr_reader *r, const vr_event *e, const vr_hit *hit)
{
    const vr_text_row *row = hit->anchor->row, *lead = leading(e);

    if (e->ended)
        return false;
    if (hit->line == e->last_line) /* a word in passing may have drawn another memory's line here */
        return hit->line == e->first_line || is_generic(row) || !is_other_memory(row, lead);
    if (has_row(e, hit->anchor, true))
        return false;
    bool adjacent = hit->line <= e->last_line + adjacent_lines(r, e);
    if (has_row(e, hit->anchor, false))
        return adjacent || hit->line <= e->last_line + ADJACENT_PART;
    if (!is_shortage(row) || !is_shortage(lead))
        return false;
    if (is_generic(row) || is_generic(lead))
        return adjacent || !is_other_memory(row, lead);
    return adjacent && is_akin(row, lead);
}

/* The line in which a hit ends. */
static uint64_t end_line(const vr_reader *r, const vr_hit *hit)
{
    return hit->line + vr_newlines(r->text + hit->start, hit->end - hit->start);
}

static void add_row(const vr_reader *r, vr_event *e, const vr_hit *hit)
{
    if (e->n_rows < VR_EVENT_ROWS && !has_row(e, hit->anchor, true)) {
        e->rows[e->n_rows].row = hit->anchor->row;
        e->rows[e->n_rows].number = hit->anchor->number;
        e->rows[e->n_rows++].alternative = hit->anchor->alternative;
    }
    e->last_line = end_line(r, hit);
}

static void lead_with(vr_reader *r, vr_event *e, const vr_hit *hit)
{
    vr_keep_sign(&e->sign, r, hit, hit->anchor->row);
    e->hit = r->base + hit->start;
}

static vr_event *unused_event(vr_reader *r)
{
    vr_event *e = r->unused;

    if (e == NULL)
        return VR_NEW(r->arena, vr_event);
    r->unused = e->next;
    return e;
}

static void take_frames(vr_event *e, vr_lane *l, uint64_t line)
{
    uint64_t n = l->n_frames < VR_NEAR_SIGNS ? l->n_frames : VR_NEAR_SIGNS;
    uint64_t reach = l->key == 0 ? 60 : 1000; /* lines; of several processes all mixed */

    e->n_near = 0;
    if (n != 0 && l->frames[(l->n_frames - 1) % VR_NEAR_SIGNS].sign.line + reach < line)
        n = 0;
    for (uint64_t i = l->n_frames - n; i < l->n_frames; i++)
        vr_copy_sign(&e->near[e->n_near++], &l->frames[i % VR_NEAR_SIGNS]);
    e->n_before = e->n_near;
    l->n_frames = 0;
}

static vram_status close_event(vr_reader *r, size_t i);

static vram_status open_event(vr_reader *r, const vr_hit *hit, vr_lane *l)
{
    uint64_t lines;

    if (r->n_open == VR_MAX_OPEN)
        VR_TRY(close_event(r, 0));
    VR_TRY(vr_reader_settle_steps(r));
    vr_event *e = unused_event(r);
    if (e == NULL)
        return VRAM_ENOMEM;
    e->key = hit->origin.key;
    e->from = r->base + vr_reader_before(r, hit, l->event_end, &lines);
    e->first = r->base + hit->start;
    e->end = UINT64_MAX;
    e->first_line = hit->line;
    e->from_line = hit->line - lines;
    e->n_rows = 0;
    e->ended = false;
    e->incident = (vr_incident){ .repeats = 0 };
    add_row(r, e, hit);
    lead_with(r, e, hit);
    take_frames(e, l, hit->line);
    vr_copy_step(&e->step, l->step.sign.sign.row != NULL ? &l->step : &r->step);
    l->event_end = r->base + hit->line_to;
    r->open[r->n_open++] = e;
    l->last = e;
    l->last_line = hit->line;
    return VRAM_OK;
}

/* Whether two offsets of the file are in one line, the first before the second in the window. */
static bool same_line(const vr_reader *r, uint64_t a, uint64_t b)
{
    if (a > b || b - a > VR_LINE_BACK || a < r->base)
        return false;
    return memchr(r->text + (a - r->base), '\n', (size_t)(b - a)) == NULL;
}

static void end_block(vr_event *e, uint64_t at)
{
    e->end = e->end < at ? e->end : at;
    e->ended = true;
}

/* The open message that a hit may be of: that of its process. A line of a process that says its name may go
 * on without it: a terminal cut it, or the logger put its prefix before the first line only. */
static vr_event *event_for(const vr_reader *r, const vr_hit *hit)
{
    for (size_t i = r->n_open; i > 0 && hit->origin.key == 0 && !hit->origin.prefixed; i--) {
        vr_event *e = r->open[i - 1];
        if (e->key != 0 && hit->line > e->last_line && hit->line <= e->last_line + ADJACENT_PART &&
            belongs(r, e, hit))
            return e;
    }
    return open_of(r, hit->origin.key);
}

vram_status vr_reader_event(vr_reader *r, const vr_hit *hit)
{
    if (r->n_frames != 0)
        VR_TRY(vr_reader_settle_frames(r));
    vr_event *e = event_for(r, hit);
    vr_lane *l = vr_reader_lane(r, e != NULL ? e->key : hit->origin.key);
    if (l == NULL)
        return VRAM_ENOMEM;
    if (r->warned != 0 && r->warned_rank >= hit->anchor->row->rank &&
        same_line(r, r->warned, r->base + hit->start))
        return VRAM_OK;
    if (e != NULL && belongs(r, e, hit)) {
        add_row(r, e, hit);
        l->event_end = r->base + hit->line_to;
        if (hit->anchor->row->rank > leading(e)->rank)
            lead_with(r, e, hit);
        l->last_line = hit->line;
        return VRAM_OK;
    }
    if (e != NULL)
        end_block(e, r->base + hit->line_from);
    return open_event(r, hit, l);
}

static void drop(vr_reader *r, vr_event *e)
{
    for (size_t i = 0; i < r->n_lanes; i++) {
        if (r->lanes[i]->last == e)
            r->lanes[i]->last = NULL;
    }
    e->next = r->unused;
    r->unused = e;
}

static void take_out(vr_reader *r, size_t i)
{
    memmove(&r->open[i], &r->open[i + 1], (r->n_open - i - 1) * sizeof *r->open);
    r->n_open--;
}

void vr_reader_warned(vr_reader *r, const vr_hit *hit)
{
    uint64_t at = r->base + hit->start;

    for (size_t i = r->n_open; i > 0; i--) {
        vr_event *e = r->open[i - 1];
        if (e->first_line == e->last_line && hit->anchor->row->rank >= leading(e)->rank &&
            same_line(r, e->hit, at)) {
            take_out(r, i - 1);
            drop(r, e);
        }
    }
    if (r->warned == 0 || !same_line(r, r->warned, at) || hit->anchor->row->rank > r->warned_rank)
        r->warned_rank = hit->anchor->row->rank;
    r->warned = r->base + hit->end;
}

void vr_reader_mark(vr_reader *r, const vr_hit *hit)
{
    vr_lane *l = vr_reader_lane(r, hit->origin.key);
    vr_event *e = open_of(r, hit->origin.key);

    if (e != NULL)
        end_block(e, r->base + hit->line_from);
    if (l == NULL)
        return;
    l->n_frames = 0;
    l->last = NULL;
}

/* ---- when all of it was read ---- */

static bool tells_apart(uint8_t fact)
{
    return fact != VR_FACT_PROCESS_ID && fact != VR_FACT_GPU && fact != VR_FACT_DEVICE;
}

static size_t next_figure(const vr_kept_facts *f, size_t i)
{
    while (i < f->n && !tells_apart(f->f[i].id))
        i++;
    return i;
}

static bool same_figures(const vr_kept_facts *a, const vr_kept_facts *b)
{
    size_t i = next_figure(a, 0), k = next_figure(b, 0);

    while (i < a->n && k < b->n) {
        if (a->f[i].id != b->f[k].id || a->f[i].value != b->f[k].value ||
            a->f[i].negative != b->f[k].negative)
            return false;
        i = next_figure(a, i + 1);
        k = next_figure(b, k + 1);
    }
    return i >= a->n && k >= b->n;
}

static vr_event *same_event(const vr_reader *r, const vr_event *e)
{
    for (size_t i = 0; i < r->n_kept; i++) {
        if (leading(r->kept[i]) == leading(e) && same_figures(&r->kept[i]->facts, &e->facts))
            return r->kept[i];
    }
    return NULL;
}

/* The message again with the traceback that the first one lacked. */
static void adopt_frames(vr_event *to, const vr_event *from)
{
    if (to->n_near != 0)
        return;
    for (size_t i = 0; i < from->n_near; i++)
        vr_copy_sign(&to->near[i], &from->near[i]);
    to->n_near = from->n_near;
    to->n_before = from->n_before;
}

/* The rows of a message by their rank, the leading one first. */
static void sort_rows(vr_event *e)
{
    for (size_t i = 1; i < e->n_rows; i++) {
        for (size_t k = i; k > 0 && e->rows[k].row->rank > e->rows[k - 1].row->rank; k--) {
            vr_event_row swap = e->rows[k];
            e->rows[k] = e->rows[k - 1];
            e->rows[k - 1] = swap;
        }
    }
}

/* Figures of all texts that the message is of; but what says little beside one that says more has none. */
static vram_status read_figures(vr_reader *r, vr_event *e)
{
    r->found.n = 0;
    sort_rows(e);
    for (size_t i = 0; i < e->n_rows; i++) {
        const vr_text_row *row = e->rows[i].row;
        bool again = i != 0 && row == e->rows[i - 1].row;
        if (row->wants == NULL || again || (is_generic(row) && row != leading(e)))
            continue;
        const vr_template *t = vr_reader_template(r, row, e->rows[i].number);
        if (t == NULL)
            return VRAM_ENOMEM;
        vr_template_read(t, (vr_str){ r->block.s, r->block.n }, r->block.main, &r->found);
    }
    return VRAM_OK;
}

/* Without the lines before the message, unless a figure (at `first`) is from there. */
static void keep_block(vr_event *e, const vr_block *b, size_t first)
{
    size_t from = b->main, n;

    while (first < from) { /* whole lines */
        from--;
        while (from > 0 && b->s[from - 1] != '\n' && b->s[from - 1] != VR_WRAP)
            from--;
    }
    n = b->n - from;
    memcpy(e->block, b->s + from, n);
    for (size_t i = 0; i < n; i++)
        e->block[i] = e->block[i] == VR_WRAP ? '\n' : e->block[i];
    e->block[n] = 0;
}

static vram_status read_block(vr_reader *r, vr_event *e)
{
    vr_str text = { r->text, r->n };
    size_t end = e->end == UINT64_MAX || e->end < r->base ? SIZE_MAX : (size_t)(e->end - r->base);

    vr_block_make(&r->block, text, (size_t)(e->from - r->base), (size_t)(e->first - r->base), end,
                  e->from_line);
    VR_TRY(read_figures(r, e));
    vr_keep_facts(&e->facts, &r->block, &r->found);
    keep_block(e, &r->block, r->found.n != 0 ? r->found.f[0].at : SIZE_MAX);
    return VRAM_OK;
}

static vram_status close_event(vr_reader *r, size_t i)
{
    vr_event *e = r->open[i], *same;

    take_out(r, i);
    if (r->n_kept == VR_MAX_EVENTS) { /* whether it repeats one of those is not told any more */
        r->out.n_dropped++;
        drop(r, e);
        return VRAM_OK;
    }
    VR_TRY(read_block(r, e));
    same = same_event(r, e);
    if (same != NULL) {
        same->incident.repeats++;
        adopt_frames(same, e);
        drop(r, e);
    } else {
        r->kept[r->n_kept++] = e;
    }
    return VRAM_OK;
}

vram_status vr_reader_close(vr_reader *r, uint64_t to)
{
    if (r->n_open == 0 || vr_add_sat(r->open[0]->from, VR_BLOCK_REACH) > to)
        return VRAM_OK;
    VR_TRY(vr_reader_settle_frames(r));
    while (r->n_open != 0 && vr_add_sat(r->open[0]->from, VR_BLOCK_REACH) <= to)
        VR_TRY(close_event(r, 0));
    return VRAM_OK;
}

/* ---- at the end ---- */

static bool earlier(void *ud, const void *x, const void *y)
{
    const vr_sign *a = x, *b = y;

    (void)ud;
    return a->file != b->file ? a->file < b->file : a->offset < b->offset;
}

static bool event_earlier(void *ud, const void *x, const void *y)
{
    vr_event *const *a = x, *const *b = y;

    return earlier(ud, &(*a)->sign.sign, &(*b)->sign.sign);
}

/* Texts of a log may hold what a terminal must not see. */
static void clean_sign(vr_kept_sign *s)
{
    s->text[vr_utf8_clean(s->text, vr_str_of(s->text).n)] = 0;
}

/* Lines stay lines. */
static void clean_block(char *s)
{
    vr_str rest = vr_str_of(s), line;
    size_t n = 0;

    while (vr_str_split(&rest, '\n', &line)) {
        char *to = s + n;
        memmove(to, line.s, line.n);
        n += vr_utf8_clean(to, line.n);
        s[n++] = rest.s != NULL ? '\n' : 0;
    }
}

static void finish_event(vr_event *e, vr_incident *out)
{
    clean_sign(&e->sign);
    clean_sign(&e->step.sign);
    clean_block(e->block);
    for (size_t i = 0; i < e->n_near; i++)
        clean_sign(&e->near[i]);
    for (size_t i = 0; i < e->n_near; i++)
        e->near_signs[i] = e->near[i].sign;
    *out = e->incident;
    out->sign = e->sign.sign;
    out->sign.facts = (vr_fact_list){ e->facts.f, e->facts.n };
    out->near = e->near_signs;
    out->n_near = e->n_near;
    out->n_before_line = e->n_before;
    out->step = e->step.sign.sign.row != NULL ? &e->step.sign.sign : NULL;
    out->block = e->block;
}

static vram_status collect_seen(vr_reader *r)
{
    vr_sign *list = VR_ARRAY(r->arena, vr_sign, VR_TEXT_ROWS);
    size_t n = 0;

    if (list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; r->seen != NULL && i < VR_TEXT_ROWS; i++) {
        uint8_t kind = vr_text_row_at(i)->kind;
        bool alone = r->n_kept == 0 || (kind != VR_TEXT_FRAME && kind != VR_TEXT_STEP);
        if (r->seen[i] != NULL && alone)
            clean_sign(&r->seen[i]->sign);
        if (r->seen[i] != NULL && alone)
            list[n++] = r->seen[i]->sign.sign;
    }
    r->out.seen = list;
    r->out.n_seen = n;
    return vr_sort(r->ctx, list, n, sizeof *list, earlier, NULL);
}

vram_status vr_reader_collect(vr_reader *r, vr_findings *out)
{
    vr_incident *list = VR_ARRAY(r->arena, vr_incident, VR_MAX_EVENTS);

    if (list == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_sort(r->ctx, r->kept, r->n_kept, sizeof *r->kept, event_earlier, NULL));
    for (size_t i = 0; i < r->n_kept; i++)
        finish_event(r->kept[i], &list[i]);
    r->out.events = list;
    r->out.n_events = r->n_kept;
    VR_TRY(collect_seen(r));
    *out = r->out;
    return VRAM_OK;
}
