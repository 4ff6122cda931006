/* SPDX-License-Identifier: MIT
 * UTF-8 as table 3-7 of the Unicode standard defines it: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
#include "base/internal.h"
#include "base/json.h"

static unsigned char byte_at(const char *p)
{
    return (unsigned char)*p;
}

static bool follows(const char *p, const char *end, unsigned least, unsigned most)
{
    return p < end && byte_at(p) >= least && byte_at(p) <= most;
}

size_t vr_utf8_length(const char *p, const char *end)
{
    static const struct {
        unsigned char from, to, length, least, most; /* lead bytes; range of the second byte */
    } rows[] = {
        { 0xC2, 0xDF, 2, 0x80, 0xBF }, { 0xE0, 0xE0, 3, 0xA0, 0xBF }, { 0xE1, 0xEC, 3, 0x80, 0xBF },
        { 0xED, 0xED, 3, 0x80, 0x9F }, { 0xEE, 0xEF, 3, 0x80, 0xBF }, { 0xF0, 0xF0, 4, 0x90, 0xBF },
        { 0xF1, 0xF3, 4, 0x80, 0xBF }, { 0xF4, 0xF4, 4, 0x80, 0x8F },
    };
    if (p >= end)
        return 0;
    unsigned lead = byte_at(p);
    if (lead < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (lead < rows[i].from || lead > rows[i].to)
            continue;
        size_t n = rows[i].length;
        if (!follows(p + 1, end, rows[i].least, rows[i].most) ||
            (n > 2 && !follows(p + 2, end, 0x80, 0xBF)) || (n > 3 && !follows(p + 3, end, 0x80, 0xBF)))
            return 0;
        return n;
    }
    return 0;
}

bool vr_utf8_check(vr_str s, size_t *bad)
{
    for (size_t i = 0; i < s.n;) {
        size_t n = byte_at(s.s + i) < 0x80 ? 1 : vr_utf8_length(s.s + i, s.s + s.n);
        if (n == 0) {
            if (bad != NULL)
                *bad = i;
            return false;
        }
        i += n;
    }
    return true;
}

size_t vr_utf8_width(vr_str s)
{
    size_t width = 0;
    for (size_t i = 0; i < s.n; i++)
        width += (byte_at(s.s + i) & 0xC0) != 0x80;
    return width;
}

size_t vr_utf8_put(uint32_t code, char out[4])
{
    unsigned length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = { 0, 0x00, 0xC0, 0xE0, 0xF0 };
    for (unsigned i = length; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(lead[length] | code);
    return length;
}
