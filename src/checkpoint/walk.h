/* SPDX-License-Identifier: MIT
 * A cursor over JSON that vr_json_parse has accepted: one pass, no values built, every place at hand for
 * errors. Headers of a large model are 12 MB, and json.h's iterators would read each value once for every
 * level it is in. */
#ifndef VR_WALK_H
#define VR_WALK_H

#include <string.h>

#include "base/json.h"

typedef struct vr_walk {
    const char *p, *end;
} vr_walk;

/* The next character that is not white space, 0 at the end; the cursor is then on it. */
static inline char vr_walk_peek(vr_walk *w)
{
    while (w->p < w->end && (*w->p == ' ' || *w->p == '\n' || *w->p == '\r' || *w->p == '\t'))
        w->p++;
    return w->p < w->end ? *w->p : '\0';
}

static inline bool vr_walk_take(vr_walk *w, char c)
{
    if (vr_walk_peek(w) != c)
        return false;
    w->p++;
    return true;
}

/* Whether one of eight bytes is a quote or a backslash (the "zero byte" test of Hacker's Delight, 6-1). */
static inline bool vr_walk_stops(const char *p)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t w = 0;
    memcpy(&w, p, sizeof(w));
    uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\';
    return (((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & tops;
}

/* With the cursor on the opening quote: what stands between the quotes, escapes and all. */
static inline vr_str vr_walk_string(vr_walk *w)
{
    const char *start = w->p + 1, *p = start;
    for (;;) {
        while (w->end - p >= 8 && !vr_walk_stops(p))
            p += 8;
        while (p < w->end && *p != '"' && *p != '\\')
            p++;
        if (w->end - p < 2 || *p == '"')
            break;
        p += 2;
    }
    w->p = p < w->end ? p + 1 : p;
    return (vr_str){ start, (size_t)(p - start) };
}

/* Steps to the next member of an object and puts the cursor on its value; false past the closing brace. */
static inline bool vr_walk_member(vr_walk *w, bool *first, vr_str *key)
{
    (void)vr_walk_take(w, *first ? '{' : ',');
    *first = false;
    if (vr_walk_peek(w) != '"') {
        (void)vr_walk_take(w, '}');
        return false;
    }
    *key = vr_walk_string(w);
    (void)vr_walk_take(w, ':');
    (void)vr_walk_peek(w);
    return true;
}

/* Idem for an array; false past the closing bracket. */
static inline bool vr_walk_element(vr_walk *w, bool *first)
{
    (void)vr_walk_take(w, *first ? '[' : ',');
    *first = false;
    return vr_walk_peek(w) != '\0' && !vr_walk_take(w, ']');
}

/* Plain decimal digits that fit; otherwise false and the cursor stays. */
static inline bool vr_walk_u64(vr_walk *w, uint64_t *out)
{
    const char *p = w->p;
    uint64_t v = 0;
    while (p < w->end && *p >= '0' && *p <= '9') {
        uint64_t digit = (uint64_t)(*p - '0');
        if (v > UINT64_MAX / 10 || (v == UINT64_MAX / 10 && digit > UINT64_MAX % 10))
            return false;
        v = v * 10 + digit;
        p++;
    }
    if (p == w->p || (p < w->end && (*p == '.' || *p == 'e' || *p == 'E')))
        return false;
    w->p = p;
    *out = v;
    return true;
}

/* Passes one value of any kind and returns its text. */
vr_str vr_walk_value(vr_walk *w);

/* A raw key or string as people should see it in a message: cut to a bearable length at a whole character. It
 * stays escaped as in the file, so that no control character reaches a terminal. */
vr_str vr_shown(vr_str raw);
/* The name that a raw key stands for: itself, or unescaped into the arena; false: no memory. */
bool vr_unescape(vr_str raw, vr_arena *a, vr_str *out);

#endif
