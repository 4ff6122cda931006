/* SPDX-License-Identifier: MIT
 * Addresses: taken apart, percent signs. RFC 3986; what two programs could understand in two ways is refused.
 */
#include "io/address.h"

#include <string.h>

static bool refuse(const char **why, const char *sentence)
{
    *why = sentence;
    return false;
}

vr_str io_past(vr_str s, size_t n)
{
    return (vr_str){ s.s + n, s.n - n };
}

vr_str io_take_until(vr_str *rest, const char *ends)
{
    vr_str word = { rest->s, 0 };
    while (word.n < rest->n && strchr(ends, rest->s[word.n]) == NULL)
        word.n++;
    *rest = io_past(*rest, word.n);
    return word;
}

static bool of_characters(vr_str w, const char *others)
{
    for (size_t i = 0; i < w.n; i++) {
        char c = w.s[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return w.n > 0;
}

/* ---- percent signs ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool io_decode(char *out, size_t room, vr_str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.s[i];
        if (c == '%') {
            int high = i + 2 < s.n ? hex_digit(s.s[i + 1]) : -1, low = high >= 0 ? hex_digit(s.s[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (unsigned char)(high * 16 + low);
            i += 2;
        }
        if (c < 0x20 || c == 0x7f || n + 1 >= room)
            return false;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return true;
}

bool io_encode(char *out, size_t room, const char *text, const char *kept)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;
    for (; *text != '\0'; text++) {
        bool plain = of_characters((vr_str){ text, 1 }, kept);
        if (n + (plain ? 1 : 3) >= room)
            return false;
        if (plain) {
            out[n++] = *text;
            continue;
        }
        out[n++] = '%';
        out[n++] = digits[(unsigned char)*text >> 4];
        out[n++] = digits[(unsigned char)*text & 15];
    }
    out[n] = '\0';
    return true;
}

/* ---- parts ---- */

static bool is_port(vr_str s)
{
    uint64_t port = 0;
    return s.n > 0 && s.n <= 5 && vr_parse_u64(s, &port) && port >= 1 && port <= 65535;
}

static bool split_authority(io_address *a, vr_str authority, const char **why)
{
    vr_str rest = authority;
    if (memchr(authority.s, '@', authority.n) != NULL)
        return refuse(why, "an address with a user before its host is not read");
    if (authority.n > 0 && authority.s[0] == '[') {
        rest = io_past(rest, 1);
        a->host = io_take_until(&rest, "]");
        if (rest.n == 0 || !of_characters(a->host, ":."))
            return refuse(why, "the address has no host that can be one");
        rest = io_past(rest, 1);
    } else {
        a->host = io_take_until(&rest, ":");
        if (!of_characters(a->host, ".-_") || a->host.n > 253 || strchr(".-", a->host.s[0]) != NULL)
            return refuse(why, "the address has no host that can be one");
    }
    if (rest.n > 0 && (rest.s[0] != ':' || !is_port(io_past(rest, 1))))
        return refuse(why, "the address has a port that cannot be one");
    return true;
}

/* Nothing that a server, a proxy or a reader could understand in two ways. */
static bool plain_characters(vr_str s, const char **why)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.s[i];
        if (c <= 0x20 || c == 0x7f)
            return refuse(why, "a space or control character is in the address");
        if (c >= 0x80 || strchr("\\\"<>^`{|}", c) != NULL)
            return refuse(why, "a character is in the address that must be written as % and two digits");
    }
    return true;
}

static bool path_leads_down(vr_str path, const char **why)
{
    char plain[IO_MOST_TEXT];
    vr_str rest, word;
    if (!io_decode(plain, sizeof(plain), path))
        return refuse(why, "a '%' in the address is not followed by two digits of a character");
    rest = vr_str_of(plain);
    while (vr_str_split(&rest, '/', &word)) {
        if (vr_str_is(word, "..") || vr_str_is(word, "."))
            return refuse(why, "'.' or '..' is in the address");
    }
    return true;
}

bool io_address_split(io_address *a, vr_str text, const char **why)
{
    size_t scheme = text.n > 4 && (text.s[4] | 0x20) == 's' ? 8 : 7;
    vr_str rest = text;
    a->all = io_take_until(&rest, "#");
    rest = io_past(a->all, scheme);
    vr_str authority = io_take_until(&rest, "/?");
    a->origin = (vr_str){ text.s, scheme + authority.n };
    a->path = io_take_until(&rest, "?");
    if (a->path.n > 0)
        a->path = io_past(a->path, 1);
    return split_authority(a, authority, why) && plain_characters(a->all, why) &&
           path_leads_down(a->path, why);
}
