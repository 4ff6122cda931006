/* SPDX-License-Identifier: MIT
 * Which card is meant: ids and names compared without case, blanks and punctuation, the strictest way that
 * matches anything winning, so that "RTX 4090" is not the laptop and "3060 12gb" needs no hyphen. */
#include "device/gpus.h"

#define ROOM 128

/* Letters and digits in lower case; start[i]: a word begins there. */
typedef struct squeezed {
    char s[ROOM];
    bool start[ROOM + 1];
    size_t n;
    size_t last_word; /* where the last word begins */
} squeezed;

static char folded(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '\0';
}

static void squeeze(squeezed *out, vr_str text)
{
    bool within = false;
    *out = (squeezed){ .n = 0 };
    for (size_t i = 0; i < text.n && out->n < ROOM; i++) {
        char c = folded(text.s[i]);
        if (c != '\0' && !within) {
            out->start[out->n] = true;
            out->last_word = out->n;
        }
        within = c != '\0';
        if (within)
            out->s[out->n++] = c;
    }
    out->start[out->n] = true; /* the end is a border too */
}

/* The next word of a query; false at the end. */
static bool next_word(vr_str *rest, vr_str *word)
{
    size_t i = 0, from;
    while (i < rest->n && folded(rest->s[i]) == '\0')
        i++;
    from = i;
    while (i < rest->n && folded(rest->s[i]) != '\0')
        i++;
    *word = (vr_str){ rest->s + from, i - from };
    *rest = (vr_str){ rest->s + i, rest->n - i };
    return word->n != 0;
}

/* How closely a word must lie at the borders of the words of a name. */
typedef enum borders { AT_BOTH, AT_START, ANYWHERE } borders;

static bool same(const char *text, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] != folded(word[i]))
            return false;
    return true;
}

static bool holds(const squeezed *text, vr_str word, borders b)
{
    for (size_t i = 0; i + word.n <= text->n; i++) {
        if ((b != ANYWHERE && !text->start[i]) || (b == AT_BOTH && !text->start[i + word.n]))
            continue;
        if (same(text->s + i, word.s, word.n))
            return true;
    }
    return false;
}

typedef struct card {
    squeezed id, name;
} card;

static bool holds_all(const card *c, vr_str query, borders b)
{
    vr_str word;
    while (next_word(&query, &word))
        if (!holds(&c->id, word, b) && !holds(&c->name, word, b))
            return false;
    return true;
}

/* text, cut off at `end`, ends with q and q begins a word there. */
static bool ends_with(const squeezed *text, size_t end, const squeezed *q)
{
    return end >= q->n && text->start[end - q->n] && memcmp(text->s + (end - q->n), q->s, q->n) == 0;
}

static bool equals(const squeezed *a, const squeezed *b)
{
    return a->n == b->n && memcmp(a->s, b->s, a->n) == 0;
}

#define WAYS 6

static bool matches(const card *c, vr_str query, const squeezed *q, unsigned way)
{
    switch (way) {
    case 0:
        return equals(&c->id, q);
    case 1:
        return equals(&c->name, q);
    case 2: /* the end of the name, or of the id with or without its size */
        return ends_with(&c->name, c->name.n, q) || ends_with(&c->id, c->id.n, q) ||
               ends_with(&c->id, c->id.last_word, q);
    case 3:
        return holds_all(c, query, AT_BOTH);
    case 4:
        return holds_all(c, query, AT_START);
    default:
        return holds_all(c, query, ANYWHERE);
    }
}

static void squeeze_card(card *c, const vr_gpu *gpu)
{
    squeeze(&c->id, vr_str_of(gpu->id));
    squeeze(&c->name, vr_str_of(gpu->name));
}

bool vr_gpu_has_words(const vr_gpu *gpu, vr_str search)
{
    card c;
    squeeze_card(&c, gpu);
    return holds_all(&c, search, ANYWHERE);
}

/* Levenshtein distance: insertions, deletions and substitutions. */
static size_t distance(const squeezed *a, const squeezed *b)
{
    size_t row[ROOM + 1];
    for (size_t j = 0; j <= b->n; j++)
        row[j] = j;
    for (size_t i = 1; i <= a->n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b->n; j++) {
            size_t best = diagonal + (a->s[i - 1] != b->s[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[b->n];
}

#define NEAREST 3

/* The ids that take the fewest changes, with or without their size; the nearest first. */
static void nearest(vr_found *out, const squeezed *q)
{
    size_t n, at[NEAREST];
    const vr_gpu *all = vr_gpus(&n);
    out->n = 0;
    for (size_t i = 0; i < n; i++) {
        card c;
        squeeze_card(&c, &all[i]);
        size_t d = distance(&c.id, q), place = out->n;
        c.id.n = c.id.last_word;
        size_t bare = distance(&c.id, q);
        d = bare < d ? bare : d;
        while (place > 0 && d < at[place - 1])
            place--;
        if (place == NEAREST)
            continue;
        out->n += out->n < NEAREST;
        for (size_t k = out->n - 1; k > place; k--) {
            at[k] = at[k - 1];
            out->gpu[k] = out->gpu[k - 1];
        }
        at[place] = d;
        out->gpu[place] = &all[i];
    }
}

void vr_gpu_find(vr_found *out, vr_str query)
{
    size_t n;
    squeezed q;
    const vr_gpu *all = vr_gpus(&n);
    *out = (vr_found){ .match = VR_MATCH_NONE };
    squeeze(&q, query);
    for (unsigned way = 0; way < WAYS && out->total == 0 && q.n != 0; way++) {
        for (size_t i = 0; i < n; i++) {
            card c;
            squeeze_card(&c, &all[i]);
            if (!matches(&c, query, &q, way))
                continue;
            if (out->n < VR_CANDIDATES)
                out->gpu[out->n++] = &all[i];
            out->total++;
        }
    }
    if (out->total != 0)
        out->match = out->total == 1 ? VR_MATCH_ONE : VR_MATCH_SEVERAL;
    else
        nearest(out, &q);
}

vram_status vr_gpu_search(const char *search, vr_arena *a, const vr_gpu *const **out, size_t *n)
{
    size_t n_all, n_found = 0;
    const vr_gpu *all = vr_gpus(&n_all);
    const vr_gpu **found = VR_ARRAY(a, const vr_gpu *, n_all);
    if (found == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n_all; i++)
        if (vr_gpu_has_words(&all[i], vr_str_of(search)))
            found[n_found++] = &all[i];
    *out = found;
    *n = n_found;
    return VRAM_OK;
}
