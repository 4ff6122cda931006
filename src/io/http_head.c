/* SPDX-License-Identifier: MIT
 * The header of an answer: only the lines that are used, each into a field of fixed size. Nothing here
 * allocates, whatever a server sends. Source: RFC 9110. */
#include "http_parts.h"

#include <string.h>

#define HEADER_MOST ((size_t)128 << 10) /* bytes of all lines; the hub's are 3 KB */

static vr_str trim(vr_str s)
{
    while (s.n > 0 && (s.s[0] == ' ' || s.s[0] == '\t'))
        s = (vr_str){ s.s + 1, s.n - 1 };
    while (s.n > 0 && memchr(" \t\r\n", s.s[s.n - 1], 4) != NULL)
        s.n--;
    return s;
}

static bool is_name(vr_str s, const char *lower)
{
    if (s.n != strlen(lower))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if ((s.s[i] >= 'A' && s.s[i] <= 'Z' ? s.s[i] + 32 : s.s[i]) != lower[i])
            return false;
    return true;
}

/* Splits "a-b" at the only c. */
static bool split(vr_str s, char c, vr_str *a, vr_str *b)
{
    const char *at = s.n == 0 ? NULL : memchr(s.s, c, s.n);
    if (at == NULL)
        return false;
    *a = (vr_str){ s.s, (size_t)(at - s.s) };
    *b = (vr_str){ at + 1, s.n - a->n - 1 };
    return true;
}

/* RFC 9110 14.4: bytes first-last/total, bytes first-last/ *, bytes * /total. */
bool io_parse_content_range(vr_str value, io_content_range *out)
{
    vr_str unit, rest, range, total, first, last;
    if (!split(trim(value), ' ', &unit, &rest) || !is_name(unit, "bytes") ||
        !split(trim(rest), '/', &range, &total))
        return false;
    io_content_range r = { .total = IO_UNKNOWN };
    if (!vr_str_is(total, "*") && (!vr_parse_u64(total, &r.total) || r.total == IO_UNKNOWN))
        return false;
    if (vr_str_is(range, "*")) {
        r.unsatisfied = true;
        *out = r;
        return r.total != IO_UNKNOWN;
    }
    if (!split(range, '-', &first, &last) || !vr_parse_u64(first, &r.first) || !vr_parse_u64(last, &r.last) ||
        r.last < r.first || r.last >= r.total)
        return false;
    *out = r;
    return true;
}

/* RFC 9110 10.2.3: seconds, or a date. */
bool io_parse_retry_after(vr_str value, int64_t now, uint64_t *seconds)
{
    char text[64];
    vr_str v = trim(value);
    if (vr_parse_u64(v, seconds))
        return true;
    if (v.n == 0 || v.n >= sizeof(text))
        return false;
    memcpy(text, v.s, v.n);
    text[v.n] = '\0';
    time_t when = curl_getdate(text, NULL);
    if (when == -1)
        return false;
    *seconds = (int64_t)when > now ? (uint64_t)((int64_t)when - now) : 0;
    return true;
}

void io_head_reset(io_head *h)
{
    size_t bytes = h->bytes; /* also of 1xx answers before the one that counts */
    *h = (io_head){
        .bytes = bytes, .length = IO_UNKNOWN, .retry_after = IO_UNKNOWN, .linked_size = IO_UNKNOWN
    };
}

/* "" when it does not fit: half a text would be another. */
static void take(char *out, size_t room, vr_str value)
{
    size_t n = value.n < room ? value.n : 0;
    if (n > 0)
        memcpy(out, value.s, n);
    out[n] = '\0';
}

/* Texts for people may be cut. */
static void take_cut(char *out, size_t room, vr_str value)
{
    take(out, room, (vr_str){ value.s, value.n < room ? value.n : room - 1 });
}

static vr_str unquoted(vr_str v)
{
    if (vr_str_starts(v, "W/"))
        v = (vr_str){ v.s + 2, v.n - 2 };
    if (v.n >= 2 && v.s[0] == '"' && v.s[v.n - 1] == '"')
        v = (vr_str){ v.s + 1, v.n - 2 };
    return v;
}

static void take_range(io_head *h, vr_str value)
{
    h->range_valid = !h->has_range && io_parse_content_range(value, &h->range);
    h->has_range = true;
}

static void take_hub(io_head *h, vr_str name, vr_str value)
{
    if (is_name(name, "x-linked-etag"))
        take(h->linked_etag, sizeof(h->linked_etag), unquoted(value));
    else if (is_name(name, "x-linked-size") && !vr_parse_u64(value, &h->linked_size))
        h->linked_size = IO_UNKNOWN;
    else if (is_name(name, "x-repo-commit"))
        take(h->commit, sizeof(h->commit), value);
    else if (is_name(name, "x-error-code"))
        take_cut(h->error_code, sizeof(h->error_code), value);
    else if (is_name(name, "x-error-message"))
        take_cut(h->error_text, sizeof(h->error_text), value);
}

void io_head_line(io_head *h, vr_str line, int64_t now)
{
    vr_str name, value;
    h->bytes += line.n;
    h->too_long = h->bytes > HEADER_MOST;
    if (h->too_long || !split(line, ':', &name, &value))
        return;
    value = trim(value);
    if (is_name(name, "content-range"))
        take_range(h, value);
    else if (is_name(name, "content-length") && !vr_parse_u64(value, &h->length))
        h->length = IO_UNKNOWN;
    else if (is_name(name, "content-encoding"))
        h->encoded = value.n > 0 && !is_name(value, "identity");
    else if (is_name(name, "etag"))
        take(h->etag, sizeof(h->etag), value);
    else if (is_name(name, "last-modified"))
        take(h->modified, sizeof(h->modified), value);
    else if (is_name(name, "location"))
        take(h->location, sizeof(h->location), value);
    else if (is_name(name, "retry-after") && !io_parse_retry_after(value, now, &h->retry_after))
        h->retry_after = IO_UNKNOWN;
    else
        take_hub(h, name, value);
}

/* A weak ETag (W/"...") says that contents mean the same, not that the bytes are: RFC 9110 8.8.1. */
const char *io_head_validator(const io_head *h)
{
    size_t n = strlen(h->etag);
    return n >= 2 && h->etag[0] == '"' && h->etag[n - 1] == '"' ? h->etag : h->modified;
}
