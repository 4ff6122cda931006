/* SPDX-License-Identifier: MIT
 * From lines of a log to the block of a message. */
#include "diagnosis/block.h"

#include "diagnosis/sizes.h"

#include <string.h>

#define BLANKS_MAX 32u /* of a run in a block: every reader of it may pass them again and again */

typedef struct sink {
    char *out;
    size_t n, room;
    size_t blanks; /* of the run at the end */
} sink;

static void put(sink *to, char c)
{
    bool blank = c == ' ';

    to->blanks = blank ? to->blanks + 1 : 0;
    if (to->n < to->room && to->blanks <= BLANKS_MAX)
        to->out[to->n++] = c;
}

/* Bytes of the escape sequence at the start of s, whose first byte is ESC. */
static size_t escape_length(vr_str s)
{
    size_t i = 2;

    if (s.n < 2)
        return s.n;
    if (s.s[1] == '[') {
        while (i < s.n && i < 64 && (s.s[i] < '@' || s.s[i] > '~'))
            i++;
        return i < s.n ? i + 1 : s.n;
    }
    if (s.s[1] != ']')
        return 2;
    while (i < s.n && i < 512 && s.s[i] != '\a' && s.s[i] != 27)
        i++;
    return i < s.n && s.s[i] == 27 ? i + 2 : i + 1;
}

/* A state of a line that was written over: between two carriage returns. */
static vr_str segment_of(vr_str raw, size_t *hit)
{
    size_t from = 0, to = raw.n;

    while (to > 0 && raw.s[to - 1] == '\r')
        to--;
    if (*hit != SIZE_MAX && *hit < to) {
        const char *cr = memchr(raw.s + *hit, '\r', to - *hit);
        to = cr != NULL ? (size_t)(cr - raw.s) : to;
        from = *hit;
    } else {
        from = to;
        *hit = SIZE_MAX;
    }
    while (from > 0 && raw.s[from - 1] != '\r')
        from--;
    if (*hit != SIZE_MAX)
        *hit -= from;
    return (vr_str){ raw.s + from, to - from };
}

/* What a backslash in JSON stands for; *used: bytes of it. */
static char unescaped(vr_str s, size_t *used)
{
    *used = 2;
    switch (s.s[1]) {
    case 'n':
        return '\n';
    case 't':
        return ' ';
    case 'r':
        return 0;
    case 'u':
        *used = s.n < 6 ? s.n : 6;
        return vr_str_starts(s, "\\u001b") || vr_str_starts(s, "\\u001B") ? 27 : '?';
    default:
        return s.s[1];
    }
}

static bool unfolds(vr_str s)
{
    size_t i = 0;

    while (i < s.n && s.s[i] == ' ')
        i++;
    s = (vr_str){ s.s + i, s.n - i };
    if (s.n == 0 || memchr(s.s, '\\', s.n) == NULL)
        return vr_str_starts(s, "{\"");
    return vr_str_starts(s, "{\"") || (vr_str_starts(s, "time=") && vr_str_find(s, " msg=\"", NULL)) ||
           vr_str_find(s, "\\n  File", NULL);
}

/* The next character of s, and how many bytes it takes; 0: none that is shown. */
static char next_char(vr_str s, bool unfold, size_t *used)
{
    char c = s.s[0];

    *used = 1;
    if (c == 27) {
        *used = escape_length(s);
        return 0;
    }
    if (unfold && c == '\\' && s.n > 1) {
        c = unescaped(s, used);
        if (c == 27) { /* an escape sequence in JSON ends as any other */
            while (*used < s.n && *used < 32 && s.s[*used - 1] != 'm')
                ++*used;
            return 0;
        }
        return c;
    }
    return c == '\t' || c == 127 ? ' ' : (unsigned char)c >= 32 ? c : 0;
}

/* Copies without escape sequences and control characters; *hit becomes its place in the copy. */
static void copy_plain(sink *to, vr_str s, size_t *hit, bool unfold)
{
    size_t was = *hit, used;

    for (size_t i = 0; i < s.n && to->n < to->room; i += used) {
        char c = next_char((vr_str){ s.s + i, s.n - i }, unfold, &used);
        if (was >= i && was - i < used)
            *hit = to->n;
        if (c != 0)
            put(to, c);
    }
}

/* Most lines have nothing to be taken out. */
static bool is_plain(vr_str s)
{
    uint8_t odd = 0;

    for (size_t i = 0; i < s.n; i++)
        odd |= (uint8_t)((uint8_t)s.s[i] < 32) | (uint8_t)(s.s[i] == 127);
    return odd == 0;
}

/* The same for such a line: only runs of blanks are shortened. */
static void copy_all(sink *to, vr_str s, size_t *hit)
{
    size_t n = s.n < to->room ? s.n : to->room, run = 0;

    memcpy(to->out, s.s, n);
    to->n = n;
    for (size_t i = 0; i < n && run <= BLANKS_MAX; i++)
        run = s.s[i] == ' ' ? run + 1 : 0;
    if (run <= BLANKS_MAX)
        return;
    to->n = 0;
    copy_plain(to, s, hit, false);
}

static size_t trimmed(const char *s, size_t n)
{
    bool quoted = n > 0 && s[0] == '`';

    while (n > 0 && (s[n - 1] == ' ' || (quoted && s[n - 1] == '`')))
        n--;
    return n;
}

size_t vr_line_clean(vr_str raw, size_t hit, char *out, size_t room, vr_origin *origin)
{
    sink to = { out, 0, room, 0 };

    *origin = (vr_origin){ .rank = -1 };
    vr_str s = segment_of(raw, &hit);
    bool unfold = unfolds(s);
    if (!unfold && is_plain((vr_str){ s.s, s.n < room ? s.n : room }))
        copy_all(&to, s, &hit);
    else
        copy_plain(&to, s, &hit, unfold);
    size_t n = trimmed(out, to.n);
    size_t taken = vr_prefix((vr_str){ out, n }, hit < n ? hit : n, origin);
    memmove(out, out + taken, n - taken);
    return n - taken;
}

/* ---- blocks ---- */

static bool ends_message(vr_str line)
{
    return vr_str_starts(line, "Traceback (most recent call last)") ||
           vr_str_starts(line, "During handling of the above exception") ||
           vr_str_starts(line, "The above exception was the direct cause");
}

typedef struct maker {
    vr_block *b;
    vr_origin first; /* of the line with the hit */
    bool taken;      /* the line before was of this message */
    bool begun;      /* the line with the hit was passed */
} maker;

/* Whether a line is of another process, so that it is passed over. */
static bool is_foreign(const maker *m, const vr_origin *o)
{
    if (o->key != 0 || m->first.key == 0)
        return o->key != m->first.key;
    return o->prefixed || !m->taken;
}

static bool is_new_record(const maker *m, const vr_origin *o)
{
    return o->level != VR_LEVEL_NONE && o->level != m->first.level;
}

static void append(vr_block *b, const char *s, size_t n, uint64_t line, size_t width)
{
    if (b->n_lines != 0 && b->n < sizeof b->s)
        b->s[b->n++] = '\n';
    b->at[b->n_lines] = (uint32_t)b->n;
    b->line[b->n_lines] = line;
    b->width[b->n_lines++] = (uint32_t)width;
    n = n < sizeof b->s - b->n ? n : sizeof b->s - b->n;
    memcpy(b->s + b->n, s, n);
    b->n += n;
}

/* False: the block ends before this line. */
static bool take_line(maker *m, vr_str raw, size_t hit, uint64_t line)
{
    char text[VR_BLOCK_BYTES];
    vr_origin o;
    size_t n = vr_line_clean(raw, hit, text, sizeof text - m->b->n, &o);

    if (hit != SIZE_MAX && !m->begun)
        m->begun = true;
    else if (is_foreign(m, &o)) {
        m->taken = false;
        return true;
    } else if (m->begun && (is_new_record(m, &o) || ends_message((vr_str){ text, n })))
        return false;
    m->taken = true;
    append(m->b, text, n, line, raw.n);
    if (!m->begun)
        m->b->main = (uint32_t)m->b->n + 1;
    return m->b->n < sizeof m->b->s && m->b->n_lines < VR_BLOCK_LINES;
}

/* A terminal cuts every long line at the same width, in the middle of words too. */
static void find_wraps(vr_block *b)
{
    uint32_t width = 0;

    for (size_t i = 0; i < b->n_lines; i++)
        width = b->width[i] > width ? b->width[i] : width;
    for (size_t i = 0; i + 1 < b->n_lines && width >= 40 && width <= 400; i++) {
        char next = b->at[i + 1] < b->n ? b->s[b->at[i + 1]] : ' ';
        if (b->width[i] == width && next != ' ' && next != '\n')
            b->s[b->at[i + 1] - 1] = VR_WRAP;
    }
}

static size_t line_end(vr_str text, size_t from)
{
    const char *end = from < text.n ? memchr(text.s + from, '\n', text.n - from) : NULL;

    return end != NULL ? (size_t)(end - text.s) : text.n;
}

void vr_block_make(vr_block *b, vr_str text, size_t from, size_t hit, size_t end, uint64_t line)
{
    maker m = { .b = b };
    char room[512];
    size_t stop = from + VR_BLOCK_REACH < text.n ? from + VR_BLOCK_REACH : text.n;
    size_t start = hit;

    b->n = b->n_lines = b->main = 0;
    text.n = end < stop ? end : stop;
    while (start > from && text.s[start - 1] != '\n')
        start--;
    vr_line_clean((vr_str){ text.s + start, line_end(text, start) - start }, hit - start, room, sizeof room,
                  &m.first);
    for (bool more = true; more && from < text.n; line++) {
        size_t to = line_end(text, from);
        bool here = hit >= from && hit <= to;
        more = take_line(&m, (vr_str){ text.s + from, to - from }, here ? hit - from : SIZE_MAX, line);
        from = to + 1;
    }
    find_wraps(b);
    b->main = b->main < b->n ? b->main : (uint32_t)b->n;
}

uint64_t vr_block_line(const vr_block *b, size_t at)
{
    size_t i = b->n_lines;

    while (i > 1 && b->at[i - 1] > at)
        i--;
    return i == 0 ? 0 : b->line[i - 1];
}
