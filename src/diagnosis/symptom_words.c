/* SPDX-License-Identifier: MIT
 *
 * Words of what was said against rows of data/symptoms.tsv: whatever their order, and whatever their ending
 * ("crashes", "crashed", "crashing").
 */
#include <string.h>

#include "diagnosis/symptoms.h"

#define WORDS_MOST 256
#define ALTERNATIVE_WORDS 8 /* of "out_of_memory" */

typedef struct said {
    vr_str words[WORDS_MOST]; /* as they were said, in lower case */
    vr_str stems[WORDS_MOST]; /* without their endings */
    size_t n;
} said;

/* ---- words ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (unsigned char)c >= 0x80;
}

static vr_str cut(vr_str s, size_t n)
{
    s.n -= n;
    return s;
}

/* The first that a word of so many letters has is cut: "dies" keeps "di", as "die" does without its e. */
static const struct {
    const char *ending;
    size_t least, cut;
} endings[] = { { "ss", 0, 0 }, { "ing", 6, 3 }, { "ied", 4, 2 }, { "ies", 4, 2 },
                { "ed", 5, 2 }, { "es", 5, 2 },  { "s", 4, 1 },   { "ly", 5, 2 } };

/* "crashes", "crashed" and "crashing" become "crash", "stopped" becomes "stop", "uses" becomes "us" like
 * "use". Both sides are treated alike, so that what is left need be no word. */
static vr_str without_ending(vr_str s)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (s.n < endings[i].least || !vr_str_ends(s, endings[i].ending))
            continue;
        s = cut(s, endings[i].cut);
        break;
    }
    if (s.n > 2 && vr_str_ends(s, "e"))
        s = cut(s, 1);
    if (s.n > 3 && s.s[s.n - 1] == s.s[s.n - 2] && s.s[s.n - 1] > '9')
        s = cut(s, 1);
    return s;
}

static void add(said *out, vr_str word)
{
    out->words[out->n] = word;
    out->stems[out->n++] = without_ending(word);
}

/* Letters and digits are words, apostrophes nothing ("doesn't" is "doesnt"), all else lies between words. The
 * room holds the text. */
static void split(said *out, const char *text, char *room)
{
    char *at = room, *begin = room;

    out->n = 0;
    for (; out->n < WORDS_MOST; text++) {
        char c = vr_lower(*text);
        if (is_letter(c)) {
            *at++ = c;
        } else if (c != '\'' || at == begin) {
            if (at != begin)
                add(out, (vr_str){ begin, (size_t)(at - begin) });
            begin = at;
        }
        if (c == '\0')
            return;
    }
}

/* ---- rows ---- */

static bool is_number(vr_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.s[i] < '0' || s.s[i] > '9')
            return false;
    return s.n != 0;
}

/* word: of a row, perhaps with a star behind it; "#" is any number. */
static bool is_word(const said *t, size_t i, vr_str word)
{
    vr_str heard = t->words[i];

    if (vr_str_is(word, "#"))
        return is_number(heard);
    if (word.n != 0 && word.s[word.n - 1] == '*') {
        word = cut(word, 1);
        return heard.n >= word.n && memcmp(heard.s, word.s, word.n) == 0;
    }
    return vr_str_eq(t->stems[i], without_ending(word));
}

/* The words of "out_of_memory" one behind the other. */
static bool has_phrase(const said *t, vr_str phrase)
{
    vr_str parts[ALTERNATIVE_WORDS], word;
    size_t n = 0;

    while (n < ALTERNATIVE_WORDS && vr_str_split(&phrase, '_', &word))
        parts[n++] = word;
    for (size_t i = 0; i + n <= t->n; i++) {
        size_t k = 0;
        while (k < n && is_word(t, i + k, parts[k]))
            k++;
        if (k == n)
            return true;
    }
    return false;
}

static const char *words_named(vr_str name)
{
    for (size_t i = 0; i < vr_symptom_word_table_n; i++)
        if (vr_str_is(name, vr_symptom_word_table[i].name))
            return vr_symptom_word_table[i].words;
    return "";
}

/* One of the alternatives between " | "; those of the other table have no names among them. */
static bool has_plain(const said *t, vr_str alternatives)
{
    vr_str word;

    while (vr_str_split(&alternatives, ' ', &word))
        if (word.n != 0 && word.s[0] != '|' && has_phrase(t, word))
            return true;
    return false;
}

static bool has_one_of(const said *t, vr_str alternatives)
{
    vr_str word;

    while (vr_str_split(&alternatives, ' ', &word)) {
        bool named = word.n > 1 && word.s[0] == '@';
        if (named && has_plain(t, vr_str_of(words_named((vr_str){ word.s + 1, word.n - 1 }))))
            return true;
        if (!named && word.n != 0 && word.s[0] != '|' && has_phrase(t, word))
            return true;
    }
    return false;
}

/* 0: the row does not fit; otherwise how well. */
static uint32_t fit(const said *t, const vr_symptom *row)
{
    vr_str groups = vr_str_of(row->words), group;
    uint32_t score = row->rank;

    if (row->without != NULL && has_one_of(t, vr_str_of(row->without)))
        return 0;
    while (vr_str_split(&groups, '+', &group)) {
        if (!has_one_of(t, group))
            return 0;
        score += 10;
    }
    return score;
}

static bool told_already(const vr_symptom **list, size_t n, const vr_symptom *row)
{
    for (size_t i = 0; i < n; i++)
        if (list[i]->cause == row->cause)
            return true;
    return false;
}

vram_status vr_symptoms_of(vr_arena *a, const char *text, const vr_symptom **out, size_t *n)
{
    said *t = VR_NEW(a, said);
    char *room = vr_arena_alloc(a, vr_str_of(text).n + 1);
    uint32_t *scores = VR_ARRAY(a, uint32_t, vr_symptom_table_n), first = 0;

    *n = 0;
    if (t == NULL || room == NULL || scores == NULL)
        return VRAM_ENOMEM;
    split(t, text, room);
    for (size_t i = 0; i < vr_symptom_table_n; i++)
        scores[i] = fit(t, &vr_symptom_table[i]);
    while (*n < VR_SYMPTOMS_TOLD) {
        size_t best = 0;
        for (size_t i = 1; i < vr_symptom_table_n; i++)
            best = scores[i] > scores[best] ? i : best;
        first = *n == 0 ? scores[best] : first;
        if (scores[best] == 0 || scores[best] + 12 < first)
            break;
        if (!told_already(out, *n, &vr_symptom_table[best]) &&
            (*n == 0 || vr_symptom_table[best].cause != VR_CAUSE_UNKNOWN))
            out[(*n)++] = &vr_symptom_table[best];
        scores[best] = 0;
    }
    return VRAM_OK;
}
