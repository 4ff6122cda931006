/* SPDX-License-Identifier: MIT
 * UTF-8 as table 3-7 of the Unicode standard defines it: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
#include "base/internal.h"
#include "base/json.h"

#include <string.h>

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
    for (size_t i = 0; i < s.n; width++)
        i += vr_utf8_shown((vr_str){ s.s + i, s.n - i }, NULL);
    return width;
}

/* The code point of a well-formed character of n bytes. */
static uint32_t code_at(const char *p, size_t n)
{
    uint32_t code = n == 1 ? byte_at(p) : byte_at(p) & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (byte_at(p + i) & 0x3Fu);
    return code;
}

/* Of general category Cc, Zl, Zp and Cf, and the fillers that are letters without a shape (UnicodeData.txt of
 * Unicode 15; DerivedCoreProperties.txt, Default_Ignorable_Code_Point): they would steer a terminal, end a
 * line, turn the direction, or make two names look like one. */
static bool is_hidden(uint32_t code)
{
    static const struct {
        uint32_t from, to;
    } rows[] = {
        { 0x0000, 0x001F },   { 0x007F, 0x009F },   { 0x00AD, 0x00AD },   { 0x034F, 0x034F },
        { 0x0600, 0x0605 },   { 0x061C, 0x061C },   { 0x06DD, 0x06DD },   { 0x070F, 0x070F },
        { 0x0890, 0x0891 },   { 0x08E2, 0x08E2 },   { 0x115F, 0x1160 },   { 0x17B4, 0x17B5 },
        { 0x180B, 0x180F },   { 0x200B, 0x200F },   { 0x2028, 0x202E },   { 0x2060, 0x206F },
        { 0x3164, 0x3164 },   { 0xFE00, 0xFE0F },   { 0xFEFF, 0xFEFF },   { 0xFFA0, 0xFFA0 },
        { 0xFFF0, 0xFFFB },   { 0xFFFE, 0xFFFF },   { 0x110BD, 0x110BD }, { 0x110CD, 0x110CD },
        { 0x13430, 0x1343F }, { 0x1BCA0, 0x1BCA3 }, { 0x1D173, 0x1D17A }, { 0xE0000, 0xE0FFF },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows && code >= rows[i].from; i++)
        if (code <= rows[i].to)
            return true;
    return false;
}

size_t vr_utf8_shown(vr_str s, uint32_t *hidden)
{
    size_t n = vr_utf8_length(s.s, s.s + s.n);
    uint32_t code = n != 0 ? code_at(s.s, n) : VR_ILL_FORMED;
    if (hidden != NULL)
        *hidden = n != 0 && !is_hidden(code) ? VR_SHOWN : code;
    return n != 0 ? n : 1;
}

size_t vr_utf8_clean(char *text, size_t n)
{
    size_t at = 0;
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t hidden;
        length = vr_utf8_shown((vr_str){ text + i, n - i }, &hidden);
        if (hidden == VR_SHOWN) {
            memmove(text + at, text + i, length);
            at += length;
        } else {
            text[at++] = '?';
        }
    }
    return at;
}

void vram_clean(char *text)
{
    text[vr_utf8_clean(text, strlen(text))] = '\0';
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
