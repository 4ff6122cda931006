/* SPDX-License-Identifier: MIT
 * Reads a text in pieces of any size through a window of fixed size. */
#include "diagnosis/reader.h"

#include <string.h>

/* Texts that say where tracebacks begin and how they hang together (reader_events.c). */
static const char *const own_texts[] = {
    "traceback (most recent call last)",
    "during handling of the above exception",
    "the above exception was the direct cause",
};

vram_status vr_reader_new(vr_reader **out, vram_ctx *ctx, vr_arena *a)
{
    vr_reader *r = VR_NEW(a, vr_reader);

    *out = r;
    if (r == NULL)
        return VRAM_ENOMEM;
    r->arena = a;
    r->ctx = ctx;
    r->line = 1;
    return VRAM_OK;
}

vr_anchors *vr_reader_anchors(vr_arena *a)
{
    return vr_anchors_new(a, own_texts, sizeof own_texts / sizeof own_texts[0]);
}

/* What is large is made when the first byte comes. */
static vram_status make_room(vr_reader *r)
{
    if (r->text != NULL)
        return VRAM_OK;
    if (r->anchors == NULL)
        r->anchors = vr_reader_anchors(r->arena);
    r->templates = VR_ARRAY(r->arena, vr_template *, VR_TEXT_ROWS);
    r->templated = VR_ARRAY(r->arena, bool, VR_TEXT_ROWS);
    r->marks = vr_arena_spare(r->arena, (VR_MARKS + 2) * sizeof *r->marks);
    r->pending = VR_ARRAY(r->arena, vr_pending, VR_TEXT_ROWS);
    r->pending_rows = VR_ARRAY(r->arena, uint32_t, VR_TEXT_ROWS);
    r->seen = VR_ARRAY(r->arena, vr_seen_row *, VR_TEXT_ROWS);
    if (r->anchors == NULL || r->arena->starved)
        return VRAM_ENOMEM;
    r->text = vr_arena_spare(r->arena, VR_WINDOW);
    return r->text != NULL ? VRAM_OK : VRAM_ENOMEM;
}

uint64_t vr_newlines(const char *s, size_t n)
{
    uint64_t sum = 0;

    while (n != 0) { /* counts in bytes, so that a compiler makes vectors of it */
        size_t part = n < 255 ? n : 255;
        uint8_t few = 0;
        for (size_t i = 0; i < part; i++)
            few = (uint8_t)(few + (s[i] == '\n'));
        sum += few;
        s += part;
        n -= part;
    }
    return sum;
}

/* Control characters that no text has; ESC begins colours. */
static uint64_t odd_bytes(const char *s, size_t n)
{
    uint64_t sum = 0;

    while (n != 0) {
        size_t part = n < 255 ? n : 255;
        uint8_t few = 0;
        for (size_t i = 0; i < part; i++) {
            uint8_t c = (uint8_t)s[i];
            few = (uint8_t)(few + ((c < 32) & ((uint8_t)(c - 8) > 5) & (c != 27)));
        }
        sum += few;
        s += part;
        n -= part;
    }
    return sum;
}

static vram_status search_strip(vr_reader *r, size_t to)
{
    const vr_candidate *list;
    vr_str text = { r->text, r->n };
    size_t n = vr_anchors_search(r->anchors, text, r->searched, to, &list);

    for (size_t k = 0; k < n; k++) {
        size_t i = 0, start, end;
        const vr_anchor *a;
        while ((a = vr_anchors_check(r->anchors, text, &list[k], &i, &start, &end)) != NULL)
            VR_TRY(vr_reader_hit(r, a, start, end));
    }
    r->searched = to;
    return VRAM_OK;
}

static void count_odd(vr_reader *r)
{
    uint64_t n = odd_bytes(r->text + r->looked, r->n - r->looked);

    r->odd_before = r->odd_now;
    r->odd_now = n != 0;
    r->odd += n;
    r->looked = r->n;
}

/* What browsers put for blanks, U+00A0, becomes two of them. */
static void blank_spaces(vr_reader *r)
{
    size_t at = r->spaced;
    const char *next;

    while (at + 1 < r->n && (next = memchr(r->text + at, 0xC2, r->n - 1 - at)) != NULL) {
        at = (size_t)(next - r->text);
        if ((uint8_t)r->text[at + 1] == 0xA0)
            memcpy(r->text + at, "  ", 2);
        at++;
    }
    r->spaced = r->n == 0 ? 0 : r->n - 1;
}

/* Works on the window up to `to` and moves it. */
vram_status vr_reader_work(vr_reader *r, size_t to)
{
    count_odd(r);
    blank_spaces(r);
    while (r->searched < to) {
        size_t strip = to - r->searched < VR_STRIP ? to - r->searched : VR_STRIP;
        VR_TRY(search_strip(r, r->searched + strip));
    }
    VR_TRY(vr_reader_close(r, r->base + to));
    VR_TRY(vr_reader_settle(r));
    size_t drop = to > VR_BACK ? to - VR_BACK : 0;
    if (r->counted < drop) {
        r->line += vr_newlines(r->text + r->counted, drop - r->counted);
        r->counted = drop;
    }
    vr_reader_move_marks(r, drop);
    memmove(r->text, r->text + drop, r->n - drop);
    r->n -= drop;
    r->spaced -= drop < r->spaced ? drop : r->spaced;
    r->looked -= drop;
    r->searched -= drop;
    r->counted -= drop;
    r->base += drop;
    return VRAM_OK;
}

/* Ends the text of one file. */
static vram_status end_file(vr_reader *r)
{
    if (r->text == NULL)
        return VRAM_OK;
    VR_TRY(vr_reader_put_rest(r));
    VR_TRY(vr_reader_work(r, r->n));
    VR_TRY(vr_reader_close(r, UINT64_MAX));
    r->line += vr_newlines(r->text + r->counted, r->n - r->counted);
    bool open_end = r->n != 0 && r->text[r->n - 1] != '\n';
    r->out.lines += r->line - 1 + open_end;
    r->line = 1;
    r->n = r->looked = r->searched = r->counted = 0;
    r->base = 0;
    r->wide = r->head_n = r->escape = 0;
    r->half = false;
    r->raw = r->n_marks = r->spaced = 0;
    r->n_lanes = 0;
    r->warned = r->needs_at = r->long_at = 0;
    r->last_line.anchor = NULL;
    r->step.sign.sign.row = NULL;
    vr_anchors_restart(r->anchors);
    return VRAM_OK;
}

vram_status vr_reader_file(vr_reader *r, vr_str name)
{
    VR_TRY(end_file(r));
    if (r->n_files == r->files_room) {
        size_t room = r->files_room * 2 + 4;
        char **files = vr_arena_grow(r->arena, r->files, r->n_files, room, sizeof *files);
        if (files == NULL)
            return VRAM_ENOMEM;
        r->files = files;
        r->files_room = room;
    }
    r->files[r->n_files] = vr_arena_copy(r->arena, name);
    if (r->files[r->n_files] == NULL)
        return VRAM_ENOMEM;
    r->n_files++;
    return VRAM_OK;
}

vram_status vr_reader_feed(vr_reader *r, const void *bytes, size_t n)
{
    if (n == 0)
        return VRAM_OK;
    VR_TRY(make_room(r));
    if (r->n_files == 0)
        VR_TRY(vr_reader_file(r, VR_LIT("")));
    r->out.bytes += n;
    return vr_reader_put(r, bytes, n);
}

vram_status vr_reader_end(vr_reader *r, vr_findings *out)
{
    VR_TRY(end_file(r));
    r->out.binary = r->odd > 32 && r->odd > r->out.bytes / 64;
    r->out.files = (const char *const *)r->files;
    r->out.n_files = r->n_files;
    return vr_reader_collect(r, out);
}
