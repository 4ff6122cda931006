/* SPDX-License-Identifier: MIT
 * Checked and saturating arithmetic on byte counts. Every sum of sizes in the core that an input can
 * influence goes through here, so that a hostile size becomes an error and never a small number. */
#include "base/internal.h"

bool vr_add(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b > UINT64_MAX - a)
        return false;
    *out = a + b;
    return true;
}

bool vr_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    vr_u128 product = (vr_u128)a * b;
    if (product > UINT64_MAX)
        return false;
    *out = (uint64_t)product;
    return true;
}

uint64_t vr_add_sat(uint64_t a, uint64_t b)
{
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

uint64_t vr_mul_sat(uint64_t a, uint64_t b)
{
    uint64_t product = UINT64_MAX;
    (void)vr_mul(a, b, &product);
    return product;
}

uint64_t vr_sub_floor(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

uint64_t vr_round_up(uint64_t x, uint64_t multiple)
{
    if (multiple == 0 || x % multiple == 0)
        return x;
    return vr_add_sat(x, multiple - x % multiple);
}

uint64_t vr_mul_div(uint64_t a, uint64_t b, uint64_t c)
{
    if (c == 0)
        return UINT64_MAX;
    vr_u128 product = (vr_u128)a * b;
    vr_u128 quotient = product / c;
    uint64_t rest = (uint64_t)(product % c);
    if (rest >= c - rest)
        quotient++;
    return quotient > UINT64_MAX ? UINT64_MAX : (uint64_t)quotient;
}

int64_t vr_diff(uint64_t a, uint64_t b)
{
    if (a >= b)
        return a - b > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)(a - b);
    return b - a > (uint64_t)INT64_MAX ? INT64_MIN : -(int64_t)(b - a);
}
