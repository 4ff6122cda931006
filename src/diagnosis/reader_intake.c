/* SPDX-License-Identifier: MIT
 * From the bytes of a file to the text in the window: UTF-16 becomes UTF-8, escape sequences (colours may
 * stand inside a word) are left out. Marks say which byte of the file a place of the text is. */
#include "diagnosis/reader.h"

#include <string.h>

enum { PLAIN, ESCAPED, SEQUENCE, TITLE, ONE_MORE }; /* what comes next: text, or of an escape sequence */

#define SEQUENCE_MAX 64u /* bytes; what is longer is none */
#define TITLE_MAX 512u

/* From here on places are counted from another byte of the file. Of more than there is room for the last
 * holds. */
static void mark(vr_reader *r)
{
    if (r->n_marks == 0 || (r->n_marks < VR_MARKS && r->marks[r->n_marks - 1].at != r->n))
        r->n_marks++;
    r->marks[r->n_marks - 1] = (vr_mark){ r->n, r->raw };
}

uint64_t vr_reader_offset(const vr_reader *r, size_t at)
{
    size_t low = 0, high = r->n_marks; /* the last mark not behind `at` is below `high` */

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->marks[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    const vr_mark *m = &r->marks[low > 0 ? low - 1 : 0];
    return m->offset + (at - m->at) * (r->wide != 0 ? 2 : 1);
}

void vr_reader_move_marks(vr_reader *r, size_t drop)
{
    uint64_t offset = vr_reader_offset(r, drop);
    size_t n = 0;

    for (size_t i = 0; i < r->n_marks; i++) {
        if (r->marks[i].at > drop)
            r->marks[++n] = (vr_mark){ r->marks[i].at - drop, r->marks[i].offset };
    }
    r->marks[0] = (vr_mark){ 0, offset };
    r->n_marks = n + 1;
}

/* The state of an escape sequence behind its byte c. A line end ends it, and is text. */
static uint8_t behind(vr_reader *r, char c)
{
    r->escape_n++;
    switch (r->escape) {
    case ESCAPED:
        return c == '[' ? SEQUENCE : c == ']' ? TITLE : c == '(' || c == ')' ? ONE_MORE : PLAIN;
    case SEQUENCE:
        return (c >= '@' && c <= '~') || r->escape_n > SEQUENCE_MAX ? PLAIN : SEQUENCE;
    case TITLE:
        return c == '\a' || r->escape_n > TITLE_MAX ? PLAIN : c == 27 ? ESCAPED : TITLE;
    default:
        return PLAIN;
    }
}

/* Takes what belongs to the escape sequence off s; `step`: bytes of the file for each. */
static size_t pass_escape(vr_reader *r, const char *s, size_t n, unsigned step)
{
    size_t i = 0;

    while (i < n && r->escape != PLAIN) {
        if (s[i] == '\n') {
            r->escape = PLAIN;
            break;
        }
        r->escape = behind(r, s[i++]);
        r->raw += step;
    }
    if (r->escape == PLAIN)
        mark(r);
    return i;
}

static vram_status put_text(vr_reader *r, const char *s, size_t n, unsigned step)
{
    while (n != 0) {
        size_t part = VR_WINDOW - r->n < n ? VR_WINDOW - r->n : n;
        const char *escape = memchr(s, 27, part);
        part = r->escape != PLAIN ? 0 : escape != NULL ? (size_t)(escape - s) : part;
        memcpy(r->text + r->n, s, part);
        r->n += part;
        r->raw += part * step;
        s += part;
        n -= part;
        if (r->n == VR_WINDOW)
            VR_TRY(vr_reader_work(r, r->n - VR_AHEAD));
        if (n == 0 || (r->escape == PLAIN && *s != 27))
            continue;
        if (r->escape == PLAIN) {
            r->escape = ESCAPED;
            r->escape_n = 0;
            r->raw += step;
            s++;
            n--;
        }
        part = pass_escape(r, s, n, step);
        s += part;
        n -= part;
    }
    return VRAM_OK;
}

/* UTF-8 of one unit of UTF-16; half of a pair is '?'. */
static size_t utf8_of(uint32_t unit, char out[3])
{
    if (unit < 0x80) {
        out[0] = (char)unit;
        return 1;
    }
    if (unit < 0x800) {
        out[0] = (char)(0xC0 | unit >> 6);
        out[1] = (char)(0x80 | (unit & 0x3F));
        return 2;
    }
    if (unit >= 0xD800 && unit < 0xE000) {
        out[0] = '?';
        return 1;
    }
    out[0] = (char)(0xE0 | unit >> 12);
    out[1] = (char)(0x80 | (unit >> 6 & 0x3F));
    out[2] = (char)(0x80 | (unit & 0x3F));
    return 3;
}

static vram_status put_wide(vr_reader *r, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t low = (uint8_t)(r->wide == 1 ? r->half_byte : s[i]);
        uint8_t high = (uint8_t)(r->wide == 1 ? s[i] : r->half_byte);
        char out[3];
        r->half = !r->half;
        if (r->half) {
            r->half_byte = s[i];
            continue;
        }
        size_t bytes = utf8_of((uint32_t)high << 8 | low, out);
        VR_TRY(put_text(r, out, bytes, 0));
        r->raw += 2;
        if (bytes != 1)
            mark(r);
    }
    return VRAM_OK;
}

static vram_status start(vr_reader *r)
{
    r->wide = memcmp(r->head, "\xff\xfe", 2) == 0 ? 1 : memcmp(r->head, "\xfe\xff", 2) == 0 ? 2 : 0;
    r->raw = r->wide != 0 ? 2 : 0;
    mark(r);
    return r->wide != 0 ? VRAM_OK : put_text(r, r->head, 2, 1);
}

vram_status vr_reader_put(vr_reader *r, const char *s, size_t n)
{
    for (; r->head_n < 2 && n != 0; n--) { /* the first two bytes of a file say whether it is UTF-16 */
        r->head[r->head_n++] = *s++;
        if (r->head_n == 2)
            VR_TRY(start(r));
    }
    return r->wide != 0 ? put_wide(r, s, n) : put_text(r, s, n, 1);
}

vram_status vr_reader_put_rest(vr_reader *r)
{
    if (r->head_n != 1)
        return VRAM_OK;
    mark(r);
    return put_text(r, r->head, 1, 1);
}
