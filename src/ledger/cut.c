/* SPDX-License-Identifier: MIT
 *
 * The best cut of a row of layers over several GPUs. As if what a GPU takes were the sum of its layers and
 * something fixed, the best cut is found at once: with a given least headroom each GPU in turn takes as many
 * layers as leave it that, and the largest headroom for which the row ends is sought by halving. Then the cut
 * is tried, which says what the fixed part really was, and so on until the same cut comes out. Last, single
 * layers are moved away from the GPU that is worst off, for what is not a sum at all. */
#include <string.h>

#include "ledger/search.h"

#define ROUNDS 6      /* of cutting anew */
#define MOST_MOVES 48 /* of single layers, tried */
#define BEYOND (INT64_MAX / 4)

typedef struct cutting {
    const vr_cut_question *q;
    uint64_t *sums;             /* of the units before */
    int64_t base[VR_MOST_GPUS]; /* what a GPU has for its units */
    uint64_t largest;           /* unit */
    vr_cut best;
    unsigned tries;
} cutting;

/* Sums stay within numbers. */
static int64_t near(uint64_t bytes)
{
    return bytes < (uint64_t)BEYOND ? (int64_t)bytes : BEYOND;
}

static int64_t minus(int64_t a, uint64_t b)
{
    return (a < -BEYOND ? -BEYOND : a) - near(b);
}

static uint64_t sum_of(const cutting *c, size_t from, uint64_t n)
{
    return c->sums[from + n] - c->sums[from];
}

static bool leaves(const cutting *c, size_t gpu, size_t from, uint64_t n, int64_t least)
{
    return minus(c->base[gpu], sum_of(c, from, n)) >= least;
}

/* The most that leave that much. */
static uint64_t most_units(const cutting *c, size_t gpu, size_t from, int64_t least)
{
    uint64_t lo = 0, hi = c->q->units - from + 1; /* 0 always goes */
    while (hi - lo > 1) {
        uint64_t n = lo + (hi - lo) / 2;
        *(leaves(c, gpu, from, n, least) ? &lo : &hi) = n;
    }
    return lo;
}

static bool cut_with(const cutting *c, int64_t least, uint64_t *shares)
{
    size_t from = 0;
    for (size_t k = 0; k < c->q->n; k++) {
        shares[k] = most_units(c, k, from, least);
        from += (size_t)shares[k];
    }
    return from == c->q->units;
}

/* The best as if all were sums. */
static void cut(const cutting *c, uint64_t *shares)
{
    int64_t lo = -2 * BEYOND, hi = BEYOND;
    while (hi - lo > 1) {
        int64_t least = lo + (hi - lo) / 2;
        *(cut_with(c, least, shares) ? &lo : &hi) = least;
    }
    (void)cut_with(c, lo, shares);
}

/* ---- trying ---- */

static int64_t least_of(const cutting *c, const uint64_t *shares, const int64_t *left)
{
    int64_t least = INT64_MAX;
    for (size_t k = 0; k < c->q->n; k++) {
        bool counts = shares[k] != 0 || left[k] < 0;
        least = counts && left[k] < least ? left[k] : least;
    }
    return least;
}

static vram_status try_cut(cutting *c, const uint64_t *shares)
{
    vr_cut now = { .least = 0 };
    size_t from = 0;
    memcpy(now.shares, shares, c->q->n * sizeof(*shares));
    VR_TRY(c->q->left(c->q->ud, shares, now.left));
    now.least = least_of(c, shares, now.left);
    for (size_t k = 0; k < c->q->n; k++) { /* what was fixed of it */
        int64_t left = minus(now.left[k] < BEYOND ? now.left[k] : BEYOND, 0);
        c->base[k] = left + near(sum_of(c, from, shares[k]));
        from += (size_t)shares[k];
    }
    if (c->tries++ == 0 || now.least > c->best.least)
        c->best = now;
    return VRAM_OK;
}

static bool done(const cutting *c)
{
    return c->tries != 0 && c->q->enough && c->best.least >= 0;
}

static vram_status cut_anew(cutting *c)
{
    uint64_t shares[VR_MOST_GPUS], last[VR_MOST_GPUS] = { 0 };
    for (unsigned i = 0; i < ROUNDS && !done(c); i++) {
        cut(c, shares);
        if (i > 0 && memcmp(shares, last, c->q->n * sizeof(*shares)) == 0)
            return VRAM_OK;
        memcpy(last, shares, c->q->n * sizeof(*shares));
        VR_TRY(try_cut(c, shares));
    }
    return VRAM_OK;
}

/* ---- single layers ---- */

static size_t worst_of(const cutting *c)
{
    size_t worst = 0;
    for (size_t k = 0; k < c->q->n; k++) {
        bool counts = c->best.shares[k] != 0;
        if (counts && c->best.left[k] == c->best.least)
            worst = k;
    }
    return worst;
}

/* By what is known so far it could help: each GPU takes the sum of its units and what is fixed. */
static bool promising(const cutting *c, const uint64_t *shares)
{
    int64_t left[VR_MOST_GPUS];
    size_t from = 0;
    for (size_t k = 0; k < c->q->n; k++) {
        left[k] = minus(c->base[k], sum_of(c, from, shares[k]));
        from += (size_t)shares[k];
    }
    return least_of(c, shares, left) > minus(c->best.least, c->largest / 2);
}

static unsigned most_tries(const cutting *c)
{
    return c->q->enough ? MOST_MOVES / 4 : MOST_MOVES;
}

static vram_status move_one(cutting *c, size_t from, bool *better)
{
    const vr_cut had = c->best;
    *better = false;
    for (size_t to = 0; to < c->q->n && had.shares[from] != 0 && !*better; to++) {
        uint64_t shares[VR_MOST_GPUS];
        memcpy(shares, had.shares, c->q->n * sizeof(*shares));
        shares[from]--;
        shares[to]++;
        if (to == from || c->tries >= most_tries(c) || !promising(c, shares))
            continue;
        VR_TRY(try_cut(c, shares));
        *better = c->best.least > had.least;
    }
    return VRAM_OK;
}

/* Where more than a unit lacks, moving one helps no more than moving all did. */
static vram_status move_units(cutting *c)
{
    bool better = !done(c) && c->best.least > minus(0, c->largest);
    while (better && !done(c))
        VR_TRY(move_one(c, worst_of(c), &better));
    return VRAM_OK;
}

static vram_status add_up(cutting *c, vr_arena *a)
{
    const vr_cut_question *q = c->q;
    c->sums = VR_ARRAY(a, uint64_t, vr_add_sat(q->units, 1));
    if (c->sums == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < q->units; i++) {
        c->sums[i + 1] = vr_add_sat(c->sums[i], q->bytes[i]);
        c->largest = q->bytes[i] > c->largest ? q->bytes[i] : c->largest;
    }
    for (size_t k = 0; k < q->n; k++)
        c->base[k] = near(q->room[k]);
    return VRAM_OK;
}

vram_status vr_cut_units(vr_cut *out, const vr_cut_question *q, vr_arena *a)
{
    cutting c = { .q = q };
    VR_TRY(add_up(&c, a));
    VR_TRY(cut_anew(&c));
    VR_TRY(move_units(&c));
    *out = c.best;
    out->tries = c.tries;
    return VRAM_OK;
}
