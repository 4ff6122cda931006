/* SPDX-License-Identifier: MIT
 * Figures as programs print them. A number is read into digits and decimals; what is larger than any memory,
 * 2^64 bytes as "no limit" among them, is no figure. Nothing here depends on how many digits there are. */
#include "diagnosis/sizes.h"

typedef struct number {
    uint64_t digits;
    uint64_t per;  /* 10^decimals */
    bool negative; /* a minus before it */
    bool absurd;   /* more than uint64_t holds */
    bool doubtful; /* "1,234": thousands or a decimal comma */
} number;

typedef struct scanner {
    vr_str s;
    size_t at;
} scanner;

#define PER_MAX UINT64_C(1000000000000) /* further decimals are passed over */

static char peek(const scanner *in, size_t ahead)
{
    return in->at + ahead < in->s.n ? in->s.s[in->at + ahead] : 0;
}

/* Passes a terminal's line end if a digit, point or comma follows it. */
static void unwrap(scanner *in)
{
    if (peek(in, 0) == VR_WRAP && (vr_is_digit(peek(in, 1)) || peek(in, 1) == '.' || peek(in, 1) == ','))
        in->at++;
}

static void take_digits(scanner *in, number *n, bool decimals)
{
    for (; vr_is_digit(peek(in, 0)); in->at++, unwrap(in)) {
        if (decimals && n->per == PER_MAX)
            continue;
        uint64_t shifted;
        if (!vr_mul(n->digits, 10, &shifted) || !vr_add(shifted, (uint64_t)(peek(in, 0) - '0'), &shifted)) {
            n->absurd = n->absurd || !decimals;
            if (decimals)
                continue;
            shifted = 0;
        }
        n->digits = shifted;
        n->per *= decimals ? 10 : 1;
    }
}

/* A comma with just three digits behind it. */
static bool group_follows(const scanner *in)
{
    return peek(in, 0) == ',' && vr_is_digit(peek(in, 1)) && vr_is_digit(peek(in, 2)) &&
           vr_is_digit(peek(in, 3)) && !vr_is_digit(peek(in, 4));
}

static bool read_number(scanner *in, bool decimals, number *n)
{
    size_t groups = 0;

    *n = (number){ .per = 1 };
    if (peek(in, 0) == '-' || peek(in, 0) == '+')
        n->negative = in->s.s[in->at++] == '-';
    if (!vr_is_digit(peek(in, 0)))
        return false;
    take_digits(in, n, false);
    for (; group_follows(in); groups++) {
        in->at++;
        take_digits(in, n, false);
    }
    bool point = peek(in, 0) == '.' || (groups == 0 && peek(in, 0) == ',');
    if (decimals && point &&
        (vr_is_digit(peek(in, 1)) || (peek(in, 1) == VR_WRAP && vr_is_digit(peek(in, 2))))) {
        in->at++;
        unwrap(in);
        take_digits(in, n, true);
    }
    n->doubtful = groups == 1 && n->per == 1;
    return true;
}

static bool is_letter(char c)
{
    c = vr_lower(c);
    return c >= 'a' && c <= 'z';
}

/* The word of a unit that begins here: its letters, 0 when there are none. */
static size_t unit_letters(const scanner *in, char word[6])
{
    size_t n = 0;

    for (; n < 5 && is_letter(peek(in, n)); n++)
        word[n] = vr_lower(peek(in, n));
    word[n] = 0;
    return is_letter(peek(in, n)) ? 0 : n;
}

static bool tail_of_unit(const char *tail, bool *binary)
{
    *binary = tail[0] == 'i' && tail[1] == 'b' && tail[2] == 0;
    return *binary || tail[0] == 0 || (tail[0] == 'b' && tail[1] == 0);
}

/* Bytes of "GiB", "gb", "K", "bytes"; 0: no unit. */
static uint64_t unit_of(const char *word, bool decimal)
{
    static const char powers[] = "kmgtpe";
    uint64_t unit = 1;
    bool binary;

    if (vr_str_is(VR_LIT("bytes"), word) || vr_str_is(VR_LIT("byte"), word) || vr_str_is(VR_LIT("b"), word))
        return 1;
    for (const char *p = powers; *p != 0; p++) {
        unit *= 1024;
        if (word[0] != *p)
            continue;
        if (!tail_of_unit(word + 1, &binary))
            return 0;
        if (binary || !decimal)
            return unit;
        for (unit = 1; p >= powers; p--)
            unit *= 1000;
        return unit;
    }
    return 0;
}

static uint64_t read_unit(scanner *in, bool decimal)
{
    char word[6];
    scanner at = *in;

    while (at.at < at.s.n && at.at < in->at + 40 && vr_is_space(at.s.s[at.at]))
        at.at++;
    size_t n = unit_letters(&at, word);
    uint64_t unit = n == 0 ? 0 : unit_of(word, decimal);
    if (unit != 0)
        in->at = at.at + n;
    return unit;
}

static uint64_t fixed_unit(vr_hole type)
{
    switch (type) {
    case VR_HOLE_KIB:
        return VR_KIB;
    case VR_HOLE_MIB:
        return VR_MIB;
    case VR_HOLE_GIB:
        return VR_GIB;
    case VR_HOLE_MB:
        return 1000000;
    case VR_HOLE_GB:
        return VR_GB;
    default:
        return 1;
    }
}

static void finish(const number *n, uint64_t unit, vr_figure *out)
{
    uint64_t value = n->absurd ? UINT64_MAX : vr_mul_div(n->digits, unit, n->per);

    out->negative = n->negative && value != 0;
    out->known = value <= INT64_MAX;
    out->value = value;
    out->slack = unit == 1 && n->per == 1 ? 0 : vr_add_sat(unit / 2 / n->per, unit / 2 % n->per != 0);
}

/* Bytes of one of what the number counts; 0: it lacks the unit that it needs, or is no whole number. */
static uint64_t unit_behind(scanner *in, vr_hole type)
{
    if (type == VR_HOLE_SIZE || type == VR_HOLE_SIZE10)
        return read_unit(in, type == VR_HOLE_SIZE10);
    if (type == VR_HOLE_BYTES && peek(in, 0) == '.' &&
        vr_is_digit(peek(in, 1))) /* 39.75 is no number of bytes */
        return 0;
    return fixed_unit(type);
}

size_t vr_figure_read(vr_str s, vr_hole type, vr_unit unit, vr_figure *out)
{
    scanner in = { s, 0 };
    number n;

    if (!read_number(&in, type != VR_HOLE_INT && type != VR_HOLE_BYTES, &n))
        return 0;
    uint64_t of = unit_behind(&in, type);
    if (of == 0)
        return 0;
    if (n.doubtful && (of >= VR_GB || type == VR_HOLE_NUM)) /* nobody prints thousands of GiB with a comma */
        n.per = 1000;
    finish(&n, unit == VR_UNIT_MICRO && of == 1 ? 1000000 : of, out);
    if (unit != VR_UNIT_BYTES && (unit != VR_UNIT_MICRO || n.per == 1))
        out->slack = 0;
    return in.at;
}
