/* SPDX-License-Identifier: MIT
 * Walking a validated JSON document where it lies (json_read.c has checked it, so nothing is checked again
 * here), and taking values out of it: integers exact or refused, strings borrowed where they have no escapes.
 */
#include "base/internal.h"
#include "base/json.h"

#include <float.h>
#include <string.h>

static const char *past_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* What a byte can mean for skipping; tables because large headers are skipped through byte by byte. */
enum { PLAIN, QUOTE, OPEN, CLOSE };
static const unsigned char kinds[256] = {
    ['"'] = QUOTE, ['{'] = OPEN, ['['] = OPEN, ['}'] = CLOSE, [']'] = CLOSE,
};

static unsigned kind_of(const char *p)
{
    return kinds[(unsigned char)*p];
}

static bool escaped(const char *quote)
{
    bool odd = false; /* ends at the opening quote at the latest */
    while (*--quote == '\\')
        odd = !odd;
    return odd;
}

/* From the opening quote to behind the closing one. */
static const char *past_string(const char *p, const char *end)
{
    do
        p = memchr(p + 1, '"', (size_t)(end - p - 1));
    while (p != NULL && escaped(p));
    return p != NULL ? p + 1 : end;
}

static const char *past_container(const char *p, const char *end)
{
    unsigned depth = 0;
    while (p < end) {
        unsigned kind = kind_of(p);
        if (kind == QUOTE) {
            p = past_string(p, end);
            continue;
        }
        p++;
        if (kind == OPEN)
            depth++;
        else if (kind == CLOSE && --depth == 0)
            break;
    }
    return p;
}

static const char *past_plain(const char *p, const char *end)
{
    while (p < end && *p != ',' && *p != '}' && *p != ']' && *p != ' ' && *p != '\n' && *p != '\r' &&
           *p != '\t')
        p++;
    return p;
}

static void take_value(vr_json_iter *it, vr_json *out)
{
    const char *start = it->p;
    switch (*start) {
    case '{':
    case '[':
        out->type = *start == '{' ? VR_JSON_OBJECT : VR_JSON_ARRAY;
        it->p = past_container(start, it->end);
        break;
    case '"':
        out->type = VR_JSON_STRING;
        it->p = past_string(start, it->end);
        break;
    default:
        out->type = *start == 't'   ? VR_JSON_TRUE
                    : *start == 'f' ? VR_JSON_FALSE
                    : *start == 'n' ? VR_JSON_NULL
                                    : VR_JSON_NUMBER;
        it->p = past_plain(start, it->end);
    }
    out->text = (vr_str){ start, (size_t)(it->p - start) };
}

/* The iterator's end is the closing bracket. */
vr_json_iter vr_json_each(vr_json container)
{
    vr_json_iter it = { NULL, NULL, true };
    if (container.type == VR_JSON_ARRAY || container.type == VR_JSON_OBJECT) {
        it.p = container.text.s + 1;
        it.end = container.text.s + container.text.n - 1;
    }
    return it;
}

static bool at_next(vr_json_iter *it)
{
    if (it->p == NULL)
        return false;
    it->p = past_space(it->p, it->end);
    if (it->p >= it->end)
        return false;
    if (!it->first)
        it->p = past_space(it->p + 1, it->end); /* the comma */
    it->first = false;
    return true;
}

bool vr_json_next(vr_json_iter *it, vr_json *value)
{
    if (!at_next(it))
        return false;
    take_value(it, value);
    return true;
}

bool vr_json_next_member(vr_json_iter *it, vr_json *key, vr_json *value)
{
    if (!at_next(it))
        return false;
    take_value(it, key);
    it->p = past_space(it->p, it->end);
    it->p = past_space(it->p + 1, it->end); /* the colon */
    take_value(it, value);
    return true;
}

static uint32_t hex4(const char *p)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        v = v * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return v;
}

/* One character of a string's inside: its bytes, and the place behind it. */
static const char *next_char(const char *p, char out[4], size_t *n)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    *n = 1;
    if (*p != '\\') {
        out[0] = *p;
        return p + 1;
    }
    if (p[1] != 'u') {
        const char *which = memchr(escapes, p[1], sizeof escapes - 1);
        out[0] = which != NULL ? meant[which - escapes] : p[1];
        return p + 2;
    }
    uint32_t code = hex4(p + 2);
    p += 6;
    if (code >= 0xD800 && code < 0xDC00) {
        code = 0x10000 + ((code - 0xD800) << 10) + (hex4(p + 2) - 0xDC00);
        p += 6;
    }
    *n = vr_utf8_put(code, out);
    return p;
}

static vr_str inside(vr_json string)
{
    return (vr_str){ string.text.s + 1, string.text.n - 2 };
}

static bool has_escapes(vr_str s)
{
    return s.n != 0 && memchr(s.s, '\\', s.n) != NULL;
}

static bool string_eq(vr_json v, vr_str want)
{
    if (v.type != VR_JSON_STRING)
        return false;
    vr_str s = inside(v);
    if (!has_escapes(s))
        return vr_str_eq(s, want);
    size_t at = 0, n;
    for (const char *p = s.s; p < s.s + s.n; at += n) {
        char c[4];
        p = next_char(p, c, &n);
        if (n > want.n - at || memcmp(want.s + at, c, n) != 0)
            return false;
    }
    return at == want.n;
}

bool vr_json_str_is(vr_json v, const char *zero_terminated)
{
    return string_eq(v, vr_str_of(zero_terminated));
}

static bool get_member(vr_json object, vr_str name, vr_json *out)
{
    vr_json key, value;
    if (object.type != VR_JSON_OBJECT)
        return false;
    for (vr_json_iter it = vr_json_each(object); vr_json_next_member(&it, &key, &value);) {
        if (!string_eq(key, name))
            continue;
        *out = value;
        return true;
    }
    return false;
}

bool vr_json_get(vr_json object, const char *path, vr_json *out)
{
    vr_str rest = vr_str_of(path), name;
    vr_json at = object;
    while (vr_str_split(&rest, '.', &name)) {
        if (!get_member(at, name, &at))
            return false;
    }
    *out = at;
    return true;
}

/* Up to 19 plain digits, which cannot overflow: nearly every number there is, so they do not take the long
 * way. */
static bool plain_digits(vr_str s, uint64_t *out)
{
    uint64_t value = 0;
    if (s.n > 19)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        unsigned digit = (unsigned)(unsigned char)s.s[i] - '0';
        if (digit > 9)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

bool vr_json_u64(vr_json v, uint64_t *out)
{
    vr_decimal d;
    if (v.type != VR_JSON_NUMBER)
        return false;
    if (plain_digits(v.text, out))
        return true;
    bool negative = v.text.s[0] == '-';
    if (vr_decimal_scan((vr_str){ v.text.s + negative, v.text.n - negative }, &d) == 0)
        return false;
    return (!negative || d.digits == 0) && vr_decimal_whole(&d, out);
}

/* value * 10^exponent by squares, each step rounded once: at most nine steps of half a unit in the last
 * place. */
static double scale10(double value, int64_t exponent)
{
    static const double powers[] = { 1e1, 1e2, 1e4, 1e8, 1e16, 1e32, 1e64, 1e128, 1e256 };
    uint64_t n = exponent < 0 ? (uint64_t)-exponent : (uint64_t)exponent;
    if (n > 511)
        n = 511; /* 20 digits at most, so beyond every double either way */
    for (int i = 8; i >= 0; i--) {
        if ((n >> i & 1) != 0)
            value = exponent < 0 ? value / powers[i] : value * powers[i];
    }
    return value;
}

bool vr_json_double(vr_json v, double *out)
{
    vr_decimal d;
    if (v.type != VR_JSON_NUMBER)
        return false;
    bool negative = v.text.s[0] == '-';
    if (vr_decimal_scan((vr_str){ v.text.s + negative, v.text.n - negative }, &d) == 0)
        return false;
    double value = scale10((double)d.digits, d.exponent);
    if (!(value <= DBL_MAX))
        return false;
    *out = negative ? -value : value;
    return true;
}

bool vr_json_bool(vr_json v, bool *out)
{
    if (v.type != VR_JSON_TRUE && v.type != VR_JSON_FALSE)
        return false;
    *out = v.type == VR_JSON_TRUE;
    return true;
}

bool vr_json_str(vr_json v, vr_arena *a, vr_str *out)
{
    *out = VR_LIT("");
    if (v.type != VR_JSON_STRING)
        return false;
    vr_str s = inside(v);
    if (!has_escapes(s)) {
        *out = s;
        return true;
    }
    char *text = vr_arena_alloc(a, s.n); /* an escape is never shorter than what it means */
    *out = (vr_str){ text, 0 };
    if (text == NULL)
        return false;
    for (const char *p = s.s; p < s.s + s.n;) {
        char c[4];
        size_t n;
        p = next_char(p, c, &n);
        memcpy(text + out->n, c, n);
        out->n += n;
    }
    return true;
}
