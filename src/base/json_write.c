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
void vr_json_separate(vr_json_out *o)
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
    vr_json_separate(o);
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
    vr_json_key_str(o, vr_str_of(key));
}

void vr_json_key_str(vr_json_out *o, vr_str key)
{
    vr_json_put_str(o, key);
    vr_put_bytes(o->buf, ": ", 2);
    o->after_key = true;
}

static void put_unit(vr_buf *b, uint32_t unit)
{
    static const char hex[] = "0123456789abcdef";
    char six[6] = { '\\', 'u', hex[unit >> 12], hex[unit >> 8 & 15], hex[unit >> 4 & 15], hex[unit & 15] };
    vr_put_bytes(b, six, 6);
}

/* Above U+FFFF two surrogates (RFC 8259, 7). */
static void put_escaped(vr_buf *b, uint32_t code)
{
    static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *at = code < 0x80 ? memchr(named, (int)code, sizeof named - 1) : NULL;
    if (at != NULL) {
        char two[2] = { '\\', letters[at - named] };
        vr_put_bytes(b, two, 2);
    } else if (code > 0xFFFF) {
        put_unit(b, 0xD800 + ((code - 0x10000) >> 10));
        put_unit(b, 0xDC00 + (code & 0x3FF));
    } else {
        put_unit(b, code);
    }
}

/* What must stand escaped at the start of s, or VR_SHOWN: what the format asks for, and what a terminal must
 * not get. *n: its bytes. */
static uint32_t to_escape(vr_str s, size_t *n)
{
    uint32_t hidden;
    *n = vr_utf8_shown(s, &hidden);
    return *s.s == '"' || *s.s == '\\' ? (unsigned char)*s.s : hidden;
}

void vr_json_put_str(vr_json_out *o, vr_str s)
{
    vr_json_separate(o);
    vr_put_bytes(o->buf, "\"", 1);
    size_t done = 0, n; /* bytes before `done` are written; from there to i they need no change */
    for (size_t i = 0; i < s.n; i += n) {
        uint32_t code = to_escape((vr_str){ s.s + i, s.n - i }, &n);
        if (code == VR_SHOWN)
            continue;
        vr_put_bytes(o->buf, s.s + done, i - done);
        if (code == VR_ILL_FORMED)
            vr_put_bytes(o->buf, "\xEF\xBF\xBD", 3);
        else
            put_escaped(o->buf, code);
        done = i + n;
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
    vr_json_separate(o);
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

void vr_json_kv_if(vr_json_out *o, const char *key, bool known, uint64_t v)
{
    vr_json_key(o, key);
    if (known)
        vr_json_put_u64(o, v);
    else
        vr_json_put_null(o);
}

void vr_json_kv_known(vr_json_out *o, const char *key, uint64_t v)
{
    vr_json_kv_if(o, key, v != 0, v);
}
