/* SPDX-License-Identifier: MIT
 * Slices: bytes with a length, so that text inside a file is used where it lies and a NUL in it hides
 * nothing. */
#include "base/base.h"

#include <string.h>

vr_str vr_str_of(const char *zero_terminated)
{
    if (zero_terminated == NULL)
        return VR_LIT("");
    return (vr_str){ zero_terminated, strlen(zero_terminated) };
}

vr_str vr_str_made(const char *text)
{
    return text == NULL ? (vr_str){ NULL, 0 } : vr_str_of(text);
}

bool vr_str_eq(vr_str a, vr_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0);
}

bool vr_str_is(vr_str a, const char *zero_terminated)
{
    return vr_str_eq(a, vr_str_of(zero_terminated));
}

int vr_str_cmp(vr_str a, vr_str b)
{
    size_t common = a.n < b.n ? a.n : b.n;
    int order = common == 0 ? 0 : memcmp(a.s, b.s, common);
    if (order != 0)
        return order;
    return a.n == b.n ? 0 : a.n < b.n ? -1 : 1;
}

bool vr_str_starts(vr_str a, const char *prefix)
{
    vr_str p = vr_str_of(prefix);
    return a.n >= p.n && vr_str_eq((vr_str){ a.s, p.n }, p);
}

bool vr_str_ends(vr_str a, const char *suffix)
{
    vr_str e = vr_str_of(suffix);
    return a.n >= e.n && (e.n == 0 || memcmp(a.s + (a.n - e.n), e.s, e.n) == 0);
}

bool vr_str_find(vr_str a, const char *what, size_t *at)
{
    vr_str w = vr_str_of(what);
    for (size_t i = 0; a.n >= w.n && i <= a.n - w.n; i++) {
        if (w.n != 0 && (a.s[i] != w.s[0] || memcmp(a.s + i, w.s, w.n) != 0))
            continue;
        if (at != NULL)
            *at = i;
        return true;
    }
    return false;
}

bool vr_str_holds(vr_str a, vr_str what)
{
    for (size_t at = 0; at + what.n <= a.n; at++) {
        size_t i = 0;
        while (i < what.n && vr_lower(a.s[at + i]) == vr_lower(what.s[i]))
            i++;
        if (i == what.n)
            return true;
    }
    return false;
}

/* The end is rest->s NULL, so that "a," gives "a" and "" but is not endless. */
bool vr_str_split(vr_str *rest, char sep, vr_str *word)
{
    if (rest->s == NULL)
        return false;
    const char *cut = rest->n == 0 ? NULL : memchr(rest->s, sep, rest->n);
    if (cut == NULL) {
        *word = *rest;
        *rest = (vr_str){ NULL, 0 };
        return true;
    }
    *word = (vr_str){ rest->s, (size_t)(cut - rest->s) };
    *rest = (vr_str){ cut + 1, rest->n - word->n - 1 };
    return true;
}
