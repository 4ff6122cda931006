/* SPDX-License-Identifier: MIT
 * Guesses for misspelt words. */
#include "base/base.h"

#include <string.h>

#define GUESS_MOST 47 /* longer words are not guessed */
#define CHANGES_MOST 2

static size_t dashes(const char *s)
{
    size_t n = 0;
    while (s[n] == '-')
        n++;
    return n;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to insert, drop, change or swap with the next (optimal string alignment), with the last three rows
 * of the table. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][GUESS_MOST + 1], n = strlen(b);
    size_t *before = rows[0], *last = rows[1], *row = rows[2], *oldest;

    for (size_t k = 0; k <= n; k++)
        last[k] = k;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        row[0] = i;
        for (size_t k = 1; k <= n; k++) {
            row[k] = smaller(last[k - 1] + (a[i - 1] != b[k - 1]), smaller(last[k], row[k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                row[k] = smaller(row[k], before[k - 2] + 1);
        }
        oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[n];
}

/* "--contextlength" and "comp" begin like a name or go on after one. */
static bool begins_alike(const char *word, const char *name)
{
    size_t n = smaller(strlen(word), strlen(name));

    return n - smaller(n, dashes(name)) >= 3 && strncmp(word, name, n) == 0;
}

const char *vram_nearest(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t letters = strlen(word) - dashes(word), least = smaller(CHANGES_MOST, letters / 2) + 1;

    if (strlen(word) > GUESS_MOST)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t d = strlen(names[i]) <= GUESS_MOST ? distance(word, names[i]) : least;
        if (d >= least)
            continue;
        least = d;
        best = names[i];
    }
    for (size_t i = 0; i < n && best == NULL; i++)
        best = begins_alike(word, names[i]) ? names[i] : NULL;
    return best;
}
