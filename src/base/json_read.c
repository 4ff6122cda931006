/* SPDX-License-Identifier: MIT
 * Strict JSON validator (RFC 8259), one pass, no recursion, no allocation: afterwards a document is walked in
 * place (json_walk.c) without further checks. Stricter than the RFC where a lenient reader has led others
 * astray: lone surrogates are refused, depth ends at VR_JSON_DEPTH, a NUL is not the end. */
#include "base/internal.h"
#include "base/json.h"

#include <string.h>

#if VR_JSON_DEPTH != 64
#error "the kinds of the open containers are the bits of one uint64_t"
#endif

typedef struct reader {
    const char *start, *p, *end;
    uint64_t objects; /* bit d: the container at depth d is an object */
    unsigned depth;
    const char *reason; /* why it stopped */
} reader;

static bool stop(reader *r, const char *at, const char *reason)
{
    r->p = at;
    r->reason = reason;
    return false;
}

static void skip_space(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
}

static bool is_digit(const reader *r)
{
    return r->p < r->end && *r->p >= '0' && *r->p <= '9';
}

static bool check_digits(reader *r)
{
    if (!is_digit(r))
        return stop(r, r->p, r->p < r->end ? "a digit is expected here" : "ends inside a number");
    while (is_digit(r))
        r->p++;
    return true;
}

/* Steps over one of the two characters when it stands here. */
static bool take_either(reader *r, char a, char b)
{
    bool here = r->p < r->end && (*r->p == a || *r->p == b);
    r->p += here;
    return here;
}

static bool check_number(reader *r)
{
    take_either(r, '-', '-');
    if (take_either(r, '0', '0')) {
        if (is_digit(r))
            return stop(r, r->p, "a number must not start with 0");
    } else if (!check_digits(r)) {
        return false;
    }
    if (take_either(r, '.', '.') && !check_digits(r))
        return false;
    if (!take_either(r, 'e', 'E'))
        return true;
    take_either(r, '+', '-');
    return check_digits(r);
}

/* Four hexadecimal digits at p, or -1. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int32_t digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c - 'A' + 10;
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
            return -1;
        v = v * 16 + digit;
    }
    return v;
}

/* At the backslash. */
static bool check_escape(reader *r)
{
    const char *at = r->p;
    if (r->end - at < 2)
        return stop(r, at, "ends inside a string");
    if (at[1] != 'u') {
        if (memchr("\"\\/bfnrt", at[1], 8) == NULL)
            return stop(r, at, "an unknown escape in a string");
        r->p = at + 2;
        return true;
    }
    int32_t first = hex4(at + 2, r->end);
    if (first < 0)
        return stop(r, at, "\\u needs four hexadecimal digits");
    r->p = at + 6;
    if (first < 0xD800 || first > 0xDFFF)
        return true;
    bool pair = first < 0xDC00 && r->end - r->p >= 6 && r->p[0] == '\\' && r->p[1] == 'u';
    int32_t second = pair ? hex4(r->p + 2, r->end) : -1;
    if (second < 0xDC00 || second > 0xDFFF)
        return stop(r, at, "half of a surrogate pair");
    r->p += 6;
    return true;
}

/* At a byte that is not plain text: what it is decides. */
static bool check_special(reader *r)
{
    unsigned char c = (unsigned char)*r->p;
    if (c == '\\')
        return check_escape(r);
    if (c < 0x20)
        return stop(r, r->p, "a control character in a string");
    size_t n = vr_utf8_length(r->p, r->end);
    if (n == 0)
        return stop(r, r->p, "not UTF-8");
    r->p += n;
    return true;
}

/* At the opening quote. */
static bool check_string(reader *r)
{
    r->p++;
    while (r->p < r->end) {
        unsigned char c = (unsigned char)*r->p;
        if (c == '"') {
            r->p++;
            return true;
        }
        if (c >= 0x20 && c < 0x80 && c != '\\')
            r->p++;
        else if (!check_special(r))
            return false;
    }
    return stop(r, r->p, "ends inside a string");
}

static bool check_word(reader *r)
{
    static const char words[3][6] = { "true", "false", "null" };
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->p) >= n && memcmp(r->p, words[i], n) == 0) {
            r->p += n;
            return true;
        }
    }
    return stop(r, r->p, "a value is expected here");
}

static bool check_scalar(reader *r)
{
    if (*r->p == '"')
        return check_string(r);
    if (*r->p == '-' || is_digit(r))
        return check_number(r);
    return check_word(r);
}

static bool in_object(const reader *r)
{
    return (r->objects >> (r->depth - 1) & 1) != 0;
}

static bool check_key(reader *r)
{
    skip_space(r);
    if (r->p >= r->end)
        return stop(r, r->p, "ends inside an object");
    if (*r->p != '"')
        return stop(r, r->p, "a name in double quotes is expected here");
    if (!check_string(r))
        return false;
    skip_space(r);
    if (r->p >= r->end)
        return stop(r, r->p, "ends inside an object");
    if (*r->p != ':')
        return stop(r, r->p, "a colon is expected here");
    r->p++;
    return true;
}

/* At a bracket. *opened: the container has a first value to read; otherwise it was empty and is closed. */
static bool open_container(reader *r, bool *opened)
{
    bool object = *r->p == '{';
    if (r->depth == VR_JSON_DEPTH)
        return stop(r, r->p, "nested more than 64 deep");
    r->p++;
    skip_space(r);
    *opened = !(r->p < r->end && *r->p == (object ? '}' : ']'));
    if (!*opened) {
        r->p++;
        return true;
    }
    uint64_t bit = UINT64_C(1) << r->depth;
    r->objects = object ? r->objects | bit : r->objects & ~bit;
    r->depth++;
    return object ? check_key(r) : true;
}

/* After a value: closes what ends here. *more: another value follows. */
static bool after_value(reader *r, bool *more)
{
    *more = false;
    while (r->depth > 0) {
        skip_space(r);
        bool object = in_object(r);
        if (r->p >= r->end)
            return stop(r, r->p, object ? "ends inside an object" : "ends inside an array");
        if (*r->p == ',') {
            r->p++;
            *more = true;
            return object ? check_key(r) : true;
        }
        if (*r->p != (object ? '}' : ']'))
            return stop(r, r->p, object ? "a comma or } is expected here" : "a comma or ] is expected here");
        r->p++;
        r->depth--;
    }
    return true;
}

static bool check_document(reader *r)
{
    bool more = true;
    while (more) {
        bool opened = false;
        skip_space(r);
        if (r->p >= r->end)
            return stop(r, r->p, r->depth == 0 ? "is empty" : "ends where a value is expected");
        bool container = *r->p == '{' || *r->p == '[';
        if (container ? !open_container(r, &opened) : !check_scalar(r))
            return false;
        if (!opened && !after_value(r, &more))
            return false;
    }
    return true;
}

static vr_json_type type_of(char first)
{
    switch (first) {
    case '{':
        return VR_JSON_OBJECT;
    case '[':
        return VR_JSON_ARRAY;
    case '"':
        return VR_JSON_STRING;
    case 't':
        return VR_JSON_TRUE;
    case 'f':
        return VR_JSON_FALSE;
    case 'n':
        return VR_JSON_NULL;
    default:
        return VR_JSON_NUMBER;
    }
}

bool vr_json_parse(vr_str document, vr_json *out, vr_json_error *error)
{
    static const char nothing[1] = "";
    const char *start = document.n != 0 ? document.s : nothing;
    reader r = { .start = start, .p = start, .end = start + document.n };
    skip_space(&r);
    const char *value = r.p;
    bool ok = check_document(&r);
    const char *value_end = r.p;
    if (ok) {
        skip_space(&r);
        if (r.p < r.end)
            ok = stop(&r, r.p, "more bytes after the end of the document");
    }
    if (!ok) {
        *error = (vr_json_error){ r.reason, (size_t)(r.p - start) };
        return false;
    }
    *out = (vr_json){ type_of(*value), { value, (size_t)(value_end - value) } };
    return true;
}
