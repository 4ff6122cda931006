/* SPDX-License-Identifier: MIT
 * JSON writer into a buffer, two-space indentation, ASCII escapes only where the format or a terminal needs
 * them. The document has no line end of its own. Figures with decimals come from integers, so no figure
 * depends on a double's printing. */
#include "base/internal.h"
#include "base/json.h"

#include <string.h>

static void new_line(vr_json_out *o)
{
    vr_put_bytes(o->buf, "\n", 1);
    vr_put_repeat(o->buf, "  ", o->depth);
}

/* What stands before a value or a key: nothing, or comma and a new line. */
static void separate(vr_json_out *o)
{
    if (o->after_key) {
        o->after_key = false;
        return;
    }
    if (!o->first)
        vr_put_bytes(o->buf, ",", 1);
    if (o->depth > 0)
        new_line(o);
    o->first = false;
}

void vr_json_begin(vr_json_out *o, vr_buf *buf)
{
    *o = (vr_json_out){ .buf = buf, .first = true };
}

void vr_json_open(vr_json_out *o, char bracket)
{
    separate(o);
    vr_put_bytes(o->buf, &bracket, 1);
    o->depth++;
    o->first = true;
}

void vr_json_close(vr_json_out *o, char bracket)
{
    if (o->depth > 0)
        o->depth--;
    if (!o->first)
        new_line(o);
    vr_put_bytes(o->buf, &bracket, 1);
    o->first = false;
}

void vr_json_key(vr_json_out *o, const char *key)
{
    vr_json_put_text(o, key);
    vr_put_bytes(o->buf, ": ", 2);
    o->after_key = true;
}

static void put_escaped(vr_buf *b, unsigned char c)
{
    static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt", hex[] = "0123456789abcdef";
    const char *at = memchr(named, c, sizeof named - 1);
    if (at != NULL) {
        char two[2] = { '\\', letters[at - named] };
        vr_put_bytes(b, two, 2);
        return;
    }
    char six[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
    vr_put_bytes(b, six, 6);
}

void vr_json_put_str(vr_json_out *o, vr_str s)
{
    separate(o);
    vr_put_bytes(o->buf, "\"", 1);
    size_t done = 0, i = 0; /* bytes before `done` are written; from there to i they need no change */
    while (i < s.n) {
        unsigned char c = (unsigned char)s.s[i];
        size_t n = vr_utf8_length(s.s + i, s.s + s.n);
        bool escape = c < 0x20 || c == 0x7F || c == '"' || c == '\\';
        if (n != 0 && !escape) {
            i += n;
            continue;
        }
        vr_put_bytes(o->buf, s.s + done, i - done);
        if (escape)
            put_escaped(o->buf, c);
        else
            vr_put_bytes(o->buf, "\xEF\xBF\xBD", 3);
        done = ++i;
    }
    if (done < s.n)
        vr_put_bytes(o->buf, s.s + done, s.n - done);
    vr_put_bytes(o->buf, "\"", 1);
}

void vr_json_put_text(vr_json_out *o, const char *zero_terminated)
{
    if (zero_terminated == NULL)
        vr_json_put_null(o);
    else
        vr_json_put_str(o, vr_str_of(zero_terminated));
}

static void put_piece(vr_json_out *o, vr_piece piece)
{
    separate(o);
    vr_put_pieces(o->buf, &piece, 1);
}

void vr_json_put_u64(vr_json_out *o, uint64_t v)
{
    put_piece(o, U(v));
}

void vr_json_put_i64(vr_json_out *o, int64_t v)
{
    put_piece(o, I(v));
}

void vr_json_put_fixed(vr_json_out *o, uint64_t value, uint64_t unit, unsigned decimals)
{
    put_piece(o, unit != 0 ? FIXED(value, unit, decimals) : T("null"));
}

void vr_json_put_bool(vr_json_out *o, bool v)
{
    put_piece(o, v ? T("true") : T("false"));
}

void vr_json_put_null(vr_json_out *o)
{
    put_piece(o, T("null"));
}

void vr_json_kv_text(vr_json_out *o, const char *key, const char *zero_terminated)
{
    vr_json_key(o, key);
    vr_json_put_text(o, zero_terminated);
}

void vr_json_kv_u64(vr_json_out *o, const char *key, uint64_t v)
{
    vr_json_key(o, key);
    vr_json_put_u64(o, v);
}

void vr_json_kv_i64(vr_json_out *o, const char *key, int64_t v)
{
    vr_json_key(o, key);
    vr_json_put_i64(o, v);
}

void vr_json_kv_bool(vr_json_out *o, const char *key, bool v)
{
    vr_json_key(o, key);
    vr_json_put_bool(o, v);
}

void vr_json_kv_null(vr_json_out *o, const char *key)
{
    vr_json_key(o, key);
    vr_json_put_null(o);
}
