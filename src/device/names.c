/* SPDX-License-Identifier: MIT
 * Which card is meant: ids and names compared without case, blanks and punctuation, the strictest way that
 * matches anything winning, so that "RTX 4090" is not the laptop and "3060 12gb" needs no hyphen. Only a
 * model number earns that: "rtx" or "x 12gb" mean every card they could begin. */
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

/* "24gb", "24g", "24gib", "24" of "24 gb", or "hbm3": tells of the memory and not which card */
static bool is_memory(vr_str word, vr_str rest)
{
    static const char *const units[] = { "gb", "gib", "g" };
    vr_str unit;
    size_t digits = 0;
    while (digits < word.n && word.s[digits] >= '0' && word.s[digits] <= '9')
        digits++;
    if (word.n >= 3 && same("hbm", word.s, 3))
        return true;
    unit = (vr_str){ word.s + digits, word.n - digits };
    if (digits == word.n && !next_word(&rest, &unit))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units && digits != 0; i++)
        if (unit.n == strlen(units[i]) && same(units[i], unit.s, unit.n))
            return true;
    return false;
}

/* A word with a digit in it that is not about memory: "4090", "h100". */
static bool has_model_number(vr_str query)
{
    vr_str word;
    while (next_word(&query, &word)) {
        bool digit = false;
        for (size_t i = 0; i < word.n; i++)
            digit = digit || (word.s[i] >= '0' && word.s[i] <= '9');
        if (digit && !is_memory(word, query))
            return true;
    }
    return false;
}

/* Where a name ends without the words that tell its generation: an "RTX 6000" is a Quadro of 2018, an Ada of
 * 2022 or a Blackwell of 2025, and whoever leaves the generation out may mean any. */
static size_t end_of_model(const squeezed *name)
{
    static const char *const words[] = { "ada",         "generation", "blackwell", "edition",
                                         "workstation", "server",     "sff" };
    size_t end = name->n, i = 0;
    while (i < sizeof words / sizeof *words) {
        size_t n = strlen(words[i]);
        bool last = end > n && name->start[end - n] && same(name->s + (end - n), words[i], n);
        end -= last ? n : 0;
        i = last ? 0 : i + 1;
    }
    return end;
}

/* The ways to match, the strictest first. */
enum { IS_ID, IS_NAME, ENDS_NAME, ENDS_MODEL, WHOLE_WORDS, STARTS_OF_WORDS, PARTS_OF_WORDS, WAYS };

static bool matches(const card *c, vr_str query, const squeezed *q, unsigned how)
{
    switch (how) {
    case IS_ID:
        return equals(&c->id, q);
    case IS_NAME:
        return equals(&c->name, q);
    case ENDS_NAME: /* or the id, with or without its size */
        return ends_with(&c->name, c->name.n, q) || ends_with(&c->id, c->id.n, q) ||
               ends_with(&c->id, c->id.last_word, q);
    case ENDS_MODEL:
        return matches(c, query, q, ENDS_NAME) || ends_with(&c->name, end_of_model(&c->name), q);
    case WHOLE_WORDS:
        return holds_all(c, query, AT_BOTH);
    case STARTS_OF_WORDS:
        return holds_all(c, query, AT_START);
    default:
        return holds_all(c, query, ANYWHERE);
    }
}

/* Without a model number the end of a name or a whole word is no reason to prefer a card. The end of a model
 * only adds to what the end of a name has found. */
static bool is_way(unsigned how, bool model_number)
{
    return how != ENDS_MODEL && (model_number || (how != ENDS_NAME && how != WHOLE_WORDS));
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

static void find_by(vr_found *out, vr_str query, const squeezed *q, unsigned how)
{
    size_t n;
    const vr_gpu *all = vr_gpus(&n);
    out->n = out->total = 0;
    for (size_t i = 0; i < n; i++) {
        card c;
        squeeze_card(&c, &all[i]);
        if (!matches(&c, query, q, how))
            continue;
        if (out->n < VR_CANDIDATES)
            out->gpu[out->n++] = &all[i];
        out->total++;
    }
}

void vr_gpu_find(vr_found *out, vr_str query)
{
    squeezed q;
    *out = (vr_found){ .match = VR_MATCH_NONE };
    squeeze(&q, query);
    bool model_number = has_model_number(query);
    for (unsigned how = 0; how < WAYS && out->total == 0 && q.n != 0; how++) {
        if (is_way(how, model_number))
            find_by(out, query, &q, how);
        if (how == ENDS_NAME && out->total != 0)
            find_by(out, query, &q, ENDS_MODEL);
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
    vr_str rest = vr_str_of(search), word;
    bool asked = search == NULL || next_word(&rest, &word);
    for (size_t i = 0; i < n_all && asked; i++)
        if (vr_gpu_has_words(&all[i], vr_str_of(search)))
            found[n_found++] = &all[i];
    *out = found;
    *n = n_found;
    return VRAM_OK;
}
