/* SPDX-License-Identifier: MIT
 * The order in which transformers 5 loads tensors (core_model_loading.py, dot_natural_key): names are
 * compared by their parts between dots; digits as numbers, before letters; of a part that ends in digits
 * first the letters. */
#include "engine/loading.h"

#include <string.h>

typedef struct part {
    vr_str text; /* without trailing digits */
    vr_str digits;
} part;

static part part_of(vr_str s)
{
    size_t n = s.n;
    while (n > 0 && vr_is_digit(s.s[n - 1]))
        n--;
    return (part){ { s.s, n }, { s.s + n, s.n - n } };
}

/* As numbers of any length: -1, 0, 1 */
static int compare_digits(vr_str a, vr_str b)
{
    while (a.n > 0 && a.s[0] == '0')
        a = (vr_str){ a.s + 1, a.n - 1 };
    while (b.n > 0 && b.s[0] == '0')
        b = (vr_str){ b.s + 1, b.n - 1 };
    if (a.n != b.n)
        return a.n < b.n ? -1 : 1;
    return vr_str_cmp(a, b);
}

/* (0, number) before (1, text) before (1, text, number) */
static int compare_parts(vr_str x, vr_str y)
{
    part a = part_of(x), b = part_of(y);
    bool a_number = a.text.n == 0 && a.digits.n != 0, b_number = b.text.n == 0 && b.digits.n != 0;
    if (a_number != b_number)
        return a_number ? -1 : 1;
    int order = vr_str_cmp(a.text, b.text);
    if (order != 0)
        return order;
    if ((a.digits.n == 0) != (b.digits.n == 0))
        return a.digits.n == 0 ? -1 : 1;
    return compare_digits(a.digits, b.digits);
}

/* Tensor names of one model share most of their parts: how many bytes are parts that both have, eight at a
 * time while they are alike. */
static size_t common_parts(vr_str a, vr_str b)
{
    size_t n = a.n < b.n ? a.n : b.n, i = 0;
    while (n - i >= 8 && memcmp(a.s + i, b.s + i, 8) == 0)
        i += 8;
    while (i < n && a.s[i] == b.s[i])
        i++;
    while (i > 0 && a.s[i - 1] != '.')
        i--;
    return i;
}

bool vr_natural_before(vr_str a, vr_str b)
{
    vr_str x, y;
    size_t common = common_parts(a, b);
    a = (vr_str){ a.s + common, a.n - common };
    b = (vr_str){ b.s + common, b.n - common };
    for (;;) {
        bool more_a = vr_str_split(&a, '.', &x), more_b = vr_str_split(&b, '.', &y);
        if (!more_a || !more_b)
            return !more_a && more_b;
        int order = compare_parts(x, y);
        if (order != 0)
            return order < 0;
    }
}
