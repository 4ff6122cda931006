/* SPDX-License-Identifier: MIT
 * Floating numbers in the shortest decimal that reads back as the same number.
 * Source: G. Steele, J. White, "How to Print Floating-Point Numbers Accurately" (1990), free format, with the
 * even-digit bounds of R. Burger, R. K. Dybvig, "Printing Floating-Point Numbers Quickly and Accurately"
 * (1996), figure 1: the digits of r / s until they are nearer than half the distance to the neighbours. */
#include "base/internal.h"
#include "base/json.h"

#include <string.h>

#define WORDS 38 /* 2^1076 times ten, and the sum of two such: 1081 bits */
#define DIGITS 18

typedef struct big {
    uint32_t w[WORDS]; /* lowest first */
} big;

static void multiply(big *b, uint32_t by)
{
    uint64_t carry = 0;
    for (size_t i = 0; i < WORDS; i++) {
        carry += (uint64_t)b->w[i] * by;
        b->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static big shifted(uint64_t v, unsigned bits)
{
    big b = { { 0 } };
    b.w[bits / 32] = (uint32_t)(v << bits % 32);
    v = bits % 32 == 0 ? v >> 32 : v >> (32 - bits % 32);
    b.w[bits / 32 + 1] = (uint32_t)v;
    b.w[bits / 32 + 2] = (uint32_t)(v >> 32);
    return b;
}

static big sum(const big *x, const big *y)
{
    big b;
    uint64_t carry = 0;
    for (size_t i = 0; i < WORDS; i++) {
        carry += (uint64_t)x->w[i] + y->w[i];
        b.w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return b;
}

static int compare(const big *x, const big *y)
{
    for (size_t i = WORDS; i-- > 0;)
        if (x->w[i] != y->w[i])
            return x->w[i] < y->w[i] ? -1 : 1;
    return 0;
}

/* x becomes x mod y, returned is x / y, which is under ten. */
static unsigned divide(big *x, const big *y)
{
    unsigned n = 0;
    for (; compare(x, y) >= 0; n++) {
        uint64_t borrow = 0;
        for (size_t i = 0; i < WORDS; i++) {
            uint64_t d = (uint64_t)x->w[i] - y->w[i] - borrow;
            x->w[i] = (uint32_t)d;
            borrow = d >> 63;
        }
    }
    return n;
}

/* The number r / s; `above` and `below`, over s, are half the distances to its neighbours. */
typedef struct number {
    big r, s, above, below;
    bool even; /* the neighbours' middles read back as this number too */
} number;

static number fraction_of(uint64_t f, int e, bool narrow)
{
    number n;
    unsigned up = e > 0 ? (unsigned)e : 0, down = e < 0 ? (unsigned)-e : 0, more = narrow ? 1 : 0;
    n.r = shifted(f, up + 1 + more);
    n.s = shifted(1, down + 1 + more);
    n.above = shifted(1, up + more);
    n.below = shifted(1, up);
    n.even = f % 2 == 0;
    return n;
}

static bool reaches(const number *n)
{
    big top = sum(&n->r, &n->above);
    int c = compare(&top, &n->s);
    return n->even ? c >= 0 : c > 0;
}

static void grow(number *n)
{
    multiply(&n->r, 10);
    multiply(&n->above, 10);
    multiply(&n->below, 10);
}

/* Scales so that the number is 0.d1 d2 ... times 10 to the returned power. */
static int scale(number *n)
{
    int power = 0;
    for (; reaches(n); power++)
        multiply(&n->s, 10);
    for (;; power--) {
        number next = *n;
        grow(&next);
        if (reaches(&next))
            return power;
        *n = next;
    }
}

static size_t digits_of(number *n, char *out)
{
    for (size_t at = 0;;) {
        grow(n);
        unsigned d = divide(&n->r, &n->s);
        int low = compare(&n->r, &n->below);
        bool under = n->even ? low <= 0 : low < 0, over = reaches(n);
        if (under && over) {
            big twice = sum(&n->r, &n->r);
            over = compare(&twice, &n->s) >= 0;
        }
        out[at++] = (char)('0' + d + (over ? 1 : 0));
        if (under || over || at == DIGITS)
            return at;
    }
}

static void put_plain(vr_buf *b, const char *digits, size_t n, int power)
{
    if (power <= 0) {
        vr_put(b, T("0."));
        vr_put_repeat(b, "0", (size_t)-power);
        vr_put_bytes(b, digits, n);
        return;
    }
    size_t whole = (size_t)power < n ? (size_t)power : n;
    vr_put_bytes(b, digits, whole);
    vr_put_repeat(b, "0", (size_t)power - whole);
    vr_put(b, T("."));
    vr_put_bytes(b, whole < n ? digits + whole : "0", whole < n ? n - whole : 1);
}

static void put_digits(vr_buf *b, const char *digits, size_t n, int power)
{
    if (power > -4 && power <= 16) {
        put_plain(b, digits, n, power);
        return;
    }
    vr_put_bytes(b, digits, 1);
    vr_put(b, T("."));
    vr_put_bytes(b, n > 1 ? digits + 1 : "0", n > 1 ? n - 1 : 1);
    vr_put(b, T("e"), I(power - 1));
}

static void put_number(vr_buf *b, uint64_t fraction, unsigned exponent, unsigned bits, int bias)
{
    bool normal = exponent != 0;
    char digits[DIGITS];
    if (!normal && fraction == 0) {
        vr_put(b, T("0.0"));
        return;
    }
    uint64_t f = normal ? fraction | UINT64_C(1) << bits : fraction;
    int e = (normal ? (int)exponent : 1) - bias - (int)bits;
    number n = fraction_of(f, e, fraction == 0 && exponent > 1);
    int power = scale(&n);
    put_digits(b, digits, digits_of(&n, digits), power);
}

static void put_double(vr_buf *b, double v)
{
    uint64_t raw;
    memcpy(&raw, &v, sizeof raw);
    put_number(b, raw & ((UINT64_C(1) << 52) - 1), raw >> 52 & 0x7FF, 52, 1023);
}

static void put_single(vr_buf *b, float v)
{
    uint32_t raw;
    memcpy(&raw, &v, sizeof raw);
    put_number(b, raw & ((UINT32_C(1) << 23) - 1), raw >> 23 & 0xFF, 23, 127);
}

void vr_json_put_double(vr_json_out *o, double v, bool single)
{
    uint64_t raw;
    memcpy(&raw, &v, sizeof raw);
    bool minus = raw >> 63 != 0;
    if ((raw >> 52 & 0x7FF) == 0x7FF) {
        bool infinite = raw << 12 == 0;
        vr_json_put_text(o, !infinite ? "NaN" : minus ? "-Infinity" : "Infinity");
        return;
    }
    vr_json_separate(o);
    vr_put(o->buf, T(minus ? "-" : ""));
    if (single)
        put_single(o->buf, (float)v);
    else
        put_double(o->buf, v);
}
