/* SPDX-License-Identifier: MIT
 *
 * The largest number that fits. A trial is a whole plan, so few are made: what is left falls about evenly
 * with the number, and the place where it becomes negative is guessed from the two ends, then its neighbour
 * is tried. Every third step halves instead, for functions that are not even at all. */
#include "ledger/search.h"

#define NEAR 1        /* further ones above the answer's neighbour that are looked at */
#define MOST_ROUNDS 8 /* of going on from one of those */

typedef struct hunt {
    vr_left_fn left;
    void *ud;
    uint64_t lo, hi; /* lo fits, hi does not */
    int64_t lo_left, hi_left;
} hunt;

/* The bracket moves to x. */
static vram_status try_at(hunt *h, uint64_t x)
{
    int64_t left;
    VR_TRY(h->left(h->ud, x, &left));
    *(left >= 0 ? &h->lo : &h->hi) = x;
    *(left >= 0 ? &h->lo_left : &h->hi_left) = left;
    return VRAM_OK;
}

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

/* Where a straight line between the ends crosses zero; inside of them. */
static uint64_t guess(const hunt *h)
{
    uint64_t span = h->hi - h->lo, above = magnitude(h->lo_left), below = magnitude(h->hi_left);
    uint64_t at = vr_mul_div(span, above, vr_add_sat(above, below));
    at = at < 1 ? 1 : at;
    return h->lo + (at < span ? at : span - 1);
}

static uint64_t next_step(const hunt *h, unsigned step, uint64_t last)
{
    if (step % 3 == 0)
        return guess(h);
    if (step % 3 == 2)
        return h->lo + (h->hi - h->lo) / 2;
    return last == h->lo ? h->lo + 1 : h->hi - 1; /* the neighbour of the guess */
}

static vram_status narrow(hunt *h)
{
    uint64_t last = h->lo;
    for (unsigned step = 0; h->hi - h->lo > 1; step++) {
        last = next_step(h, step, last);
        VR_TRY(try_at(h, last));
    }
    return VRAM_OK;
}

/* Looks for one that fits from x on, before `end`; where none does h->hi is as it was. */
static vram_status look_near(hunt *h, uint64_t x, uint64_t end, bool *fits)
{
    const hunt before = *h;
    *fits = false;
    for (uint64_t i = x; i < end && i < x + NEAR && !*fits; i++) {
        VR_TRY(try_at(h, i));
        *fits = h->hi != i;
    }
    if (*fits)
        return VRAM_OK;
    h->hi = before.hi;
    h->hi_left = before.hi_left;
    return VRAM_OK;
}

/* From one that fits to one that does while those behind it do not. end: one above that does not. */
static vram_status climb(hunt *h, const hunt *end)
{
    bool fits = true;
    for (unsigned round = 0; fits && round <= MOST_ROUNDS; round++) {
        h->hi = end->hi;
        h->hi_left = end->hi_left;
        VR_TRY(narrow(h));
        fits = false;
        if (round < MOST_ROUNDS)
            VR_TRY(look_near(h, h->hi + 1, end->hi, &fits));
    }
    return VRAM_OK;
}

static vram_status search(hunt *h, uint64_t count, uint64_t start, bool *found)
{
    VR_TRY(try_at(h, count - 1));
    *found = h->lo_left >= 0;
    if (*found || count == 1)
        return VRAM_OK;
    if (start != 0 && start < count - 1)
        VR_TRY(try_at(h, start));
    const hunt end = *h; /* the last, or the start where that does not fit */
    if (h->lo_left < 0)
        VR_TRY(try_at(h, 0));
    *found = h->lo_left >= 0;
    if (!*found)
        VR_TRY(look_near(h, 1, end.hi, found));
    return *found ? climb(h, &end) : VRAM_OK;
}

vram_status vr_solve(vr_solved *out, uint64_t count, uint64_t start, vr_left_fn left, void *ud)
{
    hunt h = { .left = left, .ud = ud, .lo_left = -1, .hi_left = -1 };
    bool found;
    VR_TRY(search(&h, count, start, &found));
    *out = (vr_solved){ .found = found };
    if (!found)
        return VRAM_OK;
    out->x = h.lo;
    out->left = h.lo_left;
    out->top = h.lo == count - 1;
    out->next_left = out->top ? 0 : h.hi_left;
    return VRAM_OK;
}
