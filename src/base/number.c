/* SPDX-License-Identifier: MIT
 * Numbers as people type them, exact or refused. One scanner reads digits, fraction and exponent into
 * digits * 10^exponent; the JSON reader uses it too. Units: the letter i (GiB) is binary, with B it is
 * decimal (GB), a bare capital is binary and a bare small letter decimal for counts (16K = 16,384 and 16k =
 * 16,000); for bytes a bare letter is binary in either case. */
#include "base/internal.h"

#include <string.h>

#define EXPONENT_MAX INT64_C(100000000000000000) /* far beyond any document's digits, far below overflow */

uint64_t vr_pow10(uint64_t n)
{
    uint64_t power = 1;
    if (n > 19)
        return 0;
    while (n-- > 0)
        power *= 10;
    return power;
}

/* Takes one more digit; zeros wait until a digit other than zero follows, so that 4096.000 stays exact. */
static void take_digit(vr_decimal *d, uint64_t *zeros, unsigned digit)
{
    uint64_t shifted, sum;
    if (digit == 0) {
        ++*zeros;
        return;
    }
    uint64_t power = d->digits == 0 ? 1 : *zeros < 19 ? vr_pow10(*zeros + 1) : 0;
    if (d->exact && (power != 0 || d->digits == 0) && vr_mul(d->digits, power, &shifted) &&
        vr_add(shifted, digit, &sum)) {
        d->digits = sum;
        *zeros = 0;
    } else {
        d->exact = false;
        ++*zeros;
    }
}

static size_t scan_exponent(vr_str s, size_t at, int64_t *exponent)
{
    size_t i = at;
    bool minus = false;
    if (i >= s.n || (s.s[i] != 'e' && s.s[i] != 'E'))
        return at;
    i++;
    if (i < s.n && (s.s[i] == '+' || s.s[i] == '-'))
        minus = s.s[i++] == '-';
    if (i >= s.n || !vr_is_digit(s.s[i]))
        return at;
    int64_t e = 0;
    for (; i < s.n && vr_is_digit(s.s[i]); i++)
        e = e > EXPONENT_MAX / 10 ? EXPONENT_MAX : e * 10 + (s.s[i] - '0');
    *exponent = minus ? -e : e;
    return i;
}

static size_t scan_digits(vr_str s, size_t at, vr_decimal *d, uint64_t *zeros)
{
    while (at < s.n && vr_is_digit(s.s[at]))
        take_digit(d, zeros, (unsigned)(s.s[at++] - '0'));
    return at;
}

size_t vr_decimal_scan(vr_str s, vr_decimal *out)
{
    vr_decimal d = { 0, 0, true };
    uint64_t zeros = 0;
    int64_t exponent = 0;
    size_t end = scan_digits(s, 0, &d, &zeros), fraction = 0;
    if (end + 1 < s.n && s.s[end] == '.' && vr_is_digit(s.s[end + 1])) {
        size_t start = end + 1;
        end = scan_digits(s, start, &d, &zeros);
        fraction = end - start;
    }
    if (end == 0)
        return 0;
    end = scan_exponent(s, end, &exponent);
    if (d.digits != 0)
        d.exponent = exponent + (int64_t)zeros - (int64_t)fraction;
    *out = d;
    return end;
}

bool vr_decimal_whole(const vr_decimal *d, uint64_t *out)
{
    if (!d->exact || d->exponent < 0 || d->exponent > 19)
        return false;
    return vr_mul(d->digits, vr_pow10((uint64_t)d->exponent), out);
}

bool vr_parse_u64(vr_str s, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (!vr_is_digit(s.s[i]) || !vr_mul(v, 10, &v) || !vr_add(v, (uint64_t)(s.s[i] - '0'), &v))
            return false;
    }
    if (s.n == 0)
        return false;
    *out = v;
    return true;
}

bool vr_parse_decimal(vr_str s, uint64_t *out, uint64_t *scale)
{
    vr_decimal d;
    size_t n = vr_decimal_scan(s, &d);
    if (n == 0 || n != s.n || !d.exact || d.exponent < -9)
        return false;
    if (d.exponent >= 0) {
        *scale = 1;
        return vr_decimal_whole(&d, out);
    }
    *out = d.digits;
    *scale = vr_pow10((uint64_t)-d.exponent);
    return true;
}

/* d * unit, rounded half up; *whole: nothing was rounded. False: does not fit. */
static bool scale_by(const vr_decimal *d, uint64_t unit, uint64_t *out, bool *whole)
{
    *whole = true;
    if (d->exponent >= 0) {
        uint64_t v;
        return vr_decimal_whole(d, &v) && vr_mul(v, unit, out);
    }
    if (!d->exact || d->exponent < -19)
        return false;
    uint64_t per = vr_pow10((uint64_t)-d->exponent);
    vr_u128 product = (vr_u128)d->digits * unit, quotient = product / per;
    uint64_t rest = (uint64_t)(product % per);
    *whole = rest == 0;
    quotient += rest >= per - rest;
    if (quotient > UINT64_MAX)
        return false;
    *out = (uint64_t)quotient;
    return true;
}

/* "_" may stand between any digits, "," only before groups of three: "1,5" is somebody's decimal comma.
 * group: how many digits stand since the last comma. */
static bool well_placed(vr_str s, size_t at, bool comma, size_t group)
{
    if (at == 0 || at + 1 >= s.n || !vr_is_digit(s.s[at - 1]) || !vr_is_digit(s.s[at + 1]))
        return false;
    return s.s[at] != ',' || (comma ? group == 3 : group <= 3);
}

/* Copies the digits at the start without their separators, *used of s in all; SIZE_MAX: one is misplaced. */
static size_t strip_groups(vr_str s, char *out, size_t *used)
{
    size_t n = 0, group = 0, i = 0;
    bool comma = false;
    for (; i < s.n && (vr_is_digit(s.s[i]) || s.s[i] == ',' || s.s[i] == '_'); i++) {
        if (vr_is_digit(s.s[i])) {
            out[n++] = s.s[i];
            group++;
            continue;
        }
        if (!well_placed(s, i, comma, group))
            return SIZE_MAX;
        if (s.s[i] == ',') {
            comma = true;
            group = 0;
        }
    }
    *used = i;
    return comma && group != 3 ? SIZE_MAX : n;
}

/* 0: not a unit. */
static uint64_t count_unit(vr_str s)
{
    static const struct {
        char letter;
        uint64_t unit;
    } units[] = {
        { 'K', VR_KIB }, { 'k', UINT64_C(1000) }, { 'M', VR_MIB }, { 'm', UINT64_C(1000000) },
        { 'G', VR_GIB }, { 'g', VR_GB },
    };
    if (s.n == 0)
        return 1;
    for (size_t i = 0; s.n == 1 && i < sizeof units / sizeof *units; i++) {
        if (units[i].letter == s.s[0])
            return units[i].unit;
    }
    return 0;
}

bool vr_parse_count(vr_str s, uint64_t *out)
{
    char room[64];
    size_t used = 0;
    if (s.n > sizeof room)
        return false;
    size_t n = strip_groups(s, room, &used);
    if (n == SIZE_MAX)
        return false;
    if (s.n != used)
        memcpy(room + n, s.s + used, s.n - used);
    vr_str bare = { room, n + (s.n - used) };
    vr_decimal d;
    uint64_t v;
    bool whole;
    n = vr_decimal_scan(bare, &d);
    uint64_t unit = n == 0 ? 0 : count_unit((vr_str){ bare.s + n, bare.n - n });
    if (unit == 0 || !scale_by(&d, unit, &v, &whole) || !whole)
        return false;
    *out = v;
    return true;
}

static bool same_word(vr_str s, const char *word)
{
    size_t i = 0;
    while (i < s.n && word[i] != '\0' && vr_lower(s.s[i]) == word[i])
        i++;
    return i == s.n && word[i] == '\0';
}

/* 0: not a unit. */
static uint64_t byte_unit(vr_str s)
{
    static const struct {
        const char *word;
        uint64_t unit;
    } units[] = {
        { "", 1 },
        { "b", 1 },
        { "byte", 1 },
        { "bytes", 1 },
        { "k", VR_KIB },
        { "kib", VR_KIB },
        { "kb", UINT64_C(1000) },
        { "m", VR_MIB },
        { "mib", VR_MIB },
        { "mb", UINT64_C(1000000) },
        { "g", VR_GIB },
        { "gib", VR_GIB },
        { "gb", VR_GB },
        { "t", VR_GIB * 1024 },
        { "tib", VR_GIB * 1024 },
        { "tb", VR_GB * 1000 },
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (same_word(s, units[i].word))
            return units[i].unit;
    }
    return 0;
}

/* 11.34GiB is no whole number of bytes; it is rounded, since people copy figures off screens. 0.3 bytes is
 * refused. */
bool vr_parse_bytes(vr_str s, uint64_t *out)
{
    vr_decimal d;
    uint64_t v;
    bool whole;
    size_t n = vr_decimal_scan(s, &d);
    if (n == 0)
        return false;
    vr_str rest = { s.s + n, s.n - n };
    while (rest.n > 1 && rest.s[0] == ' ')
        rest = (vr_str){ rest.s + 1, rest.n - 1 };
    uint64_t unit = byte_unit(rest);
    if (unit == 0 || !scale_by(&d, unit, &v, &whole) || (unit == 1 && !whole))
        return false;
    *out = v;
    return true;
}

bool vram_parse_bytes(const char *text, uint64_t *out)
{
    return vr_parse_bytes(vr_str_of(text), out);
}
