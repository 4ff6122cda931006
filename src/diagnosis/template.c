/* SPDX-License-Identifier: MIT
 * Templates: pieces of literal text with holes for figures. A piece is matched from left to right without
 * going back, so that its time is at most its length at each place of the text. */
#include "diagnosis/template.h"

#include <string.h>

#define WORD_MAX 256u
#define NO_FACT UINT8_MAX

typedef struct part {
    vr_str literal; /* lower case, a run of white space is one blank; .n 0: a hole */
    uint8_t hole;   /* vr_hole */
    uint8_t fact;   /* or NO_FACT */
} part;

typedef struct piece {
    part *parts;
    size_t n;
    bool again; /* looked for again and again */
} piece;

struct vr_template {
    piece *pieces;
    size_t n;
};

static const char *const hole_words[] = {
#define X(id, word) word,
    VR_HOLES(X)
#undef X
};

/* ---- from the cell ---- */

static bool hole_of(vr_str word, uint8_t *out)
{
    for (size_t i = 0; i < VR_HOLE_COUNT; i++) {
        if (vr_str_is(word, hole_words[i])) {
            *out = (uint8_t)i;
            return true;
        }
    }
    return false;
}

static bool fact_of(vr_str word, uint8_t *out)
{
    *out = NO_FACT;
    for (size_t i = 0; word.n != 0 && i < VR_FACT_COUNT; i++) {
        if (vr_str_is(word, vr_fact_kinds[i].name))
            *out = (uint8_t)i;
    }
    return word.n == 0 || *out != NO_FACT;
}

/* inside: what stands between the braces */
static const char *read_hole(vr_str inside, part *out)
{
    vr_str name = inside, type;

    if (!vr_str_split(&inside, ':', &name) || inside.s == NULL)
        return "a hole without a type";
    type = inside;
    if (!hole_of(type, &out->hole))
        return "a type that there is not";
    if (!fact_of(name, &out->fact))
        return "a figure that there is not";
    return NULL;
}

static bool read_literal(vr_arena *a, vr_str s, part *out)
{
    char *p = vr_arena_alloc(a, s.n + 1);
    size_t n = 0;

    if (p == NULL)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (!vr_is_space(s.s[i]))
            p[n++] = vr_lower(s.s[i]);
        else if (n == 0 || p[n - 1] != ' ')
            p[n++] = ' ';
    }
    out->literal = (vr_str){ p, n };
    return true;
}

static size_t count_of(vr_str s, char what)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += s.s[i] == what;
    return n;
}

static const char *read_parts(vr_arena *a, vr_str s, piece *out)
{
    for (size_t at = 0; at < s.n;) {
        part *p = &out->parts[out->n];
        size_t end = at;
        if (s.s[at] == '{') {
            while (end < s.n && s.s[end] != '}')
                end++;
            const char *wrong = read_hole((vr_str){ s.s + at + 1, end - at - 1 }, p);
            if (wrong != NULL || end == s.n)
                return wrong != NULL ? wrong : "a brace that does not end";
            at = end + 1;
        } else {
            while (end < s.n && s.s[end] != '{')
                end++;
            if (!read_literal(a, (vr_str){ s.s + at, end - at }, p))
                return "no memory";
            at = end;
        }
        out->n++;
    }
    return out->n == 0 ? "an empty piece" : NULL;
}

static const char *read_piece(vr_arena *a, vr_str s, piece *out)
{
    out->again = s.n != 0 && s.s[0] == '*';
    if (out->again)
        s = (vr_str){ s.s + 1, s.n - 1 };
    out->parts = VR_ARRAY(a, part, 2 * count_of(s, '{') + 1);
    return out->parts == NULL ? "no memory" : read_parts(a, s, out);
}

vr_template *vr_template_new(vr_arena *a, const char *wants, const char **why)
{
    vr_str rest = vr_str_of(wants);
    vr_template *t = VR_NEW(a, vr_template);
    const char *wrong = NULL;

    if (t != NULL)
        t->pieces = VR_ARRAY(a, piece, count_of(rest, '~') + 1);
    if (t == NULL || t->pieces == NULL)
        return NULL;
    while (rest.n != 0) {
        size_t end;
        vr_str one = rest;
        if (vr_str_find(rest, " ~ ", &end))
            one.n = end;
        const char *w = read_piece(a, one, &t->pieces[t->n]);
        if (w == NULL)
            t->n++;
        else
            wrong = w;
        rest = one.n == rest.n ? (vr_str){ rest.s, 0 } : (vr_str){ rest.s + one.n + 3, rest.n - one.n - 3 };
        memset(&t->pieces[t->n], 0, t->n <= count_of(vr_str_of(wants), '~') ? sizeof(piece) : 0);
    }
    if (why != NULL)
        *why = wrong;
    return a->starved ? NULL : t;
}

/* ---- in a text ---- */

/* Matches a literal at `at`; SIZE_MAX: not there. A line end in the middle of a word is passed over: a
 * terminal put it there. */
static size_t match_literal(vr_str text, size_t at, vr_str literal)
{
    for (size_t i = 0; i < literal.n; i++) {
        if (literal.s[i] == ' ') {
            size_t from = at;
            while (at < text.n && vr_is_space(text.s[at]))
                at++;
            if (at == from)
                return SIZE_MAX;
            continue;
        }
        if (i != 0 && at < text.n && (text.s[at] == VR_WRAP || text.s[at] == '\n'))
            at++;
        if (at >= text.n || vr_lower(text.s[at]) != literal.s[i])
            return SIZE_MAX;
        at++;
    }
    return at;
}

/* Where a word or a line ends: where the literal behind it begins, else at its own end. */
static size_t match_word(vr_str text, size_t at, bool line, const part *next)
{
    size_t end = at;

    for (; end < text.n && end - at < WORD_MAX; end++) {
        if (text.s[end] == '\n' || (!line && vr_is_space(text.s[end])))
            break;
        if (next != NULL && next->literal.n != 0 && end != at &&
            match_literal(text, end, next->literal) != SIZE_MAX)
            break;
    }
    return end == at ? SIZE_MAX : end;
}

static void add(vr_found_list *out, vr_found f)
{
    size_t i = out->n;

    for (size_t k = 0; k < out->n; k++) {
        if (out->f[k].at == f.at)
            return;
    }
    if (out->n == VR_MAX_FOUND)
        return;
    for (; i > 0 && out->f[i - 1].at > f.at; i--)
        out->f[i] = out->f[i - 1];
    out->f[i] = f;
    out->n++;
}

#define HOLES_MAX 16u

/* A figure at `at`; SIZE_MAX: none. */
static size_t match_figure(const part *t, vr_str text, size_t at, vr_found *f)
{
    vr_unit unit = t->fact == NO_FACT ? VR_UNIT_COUNT : vr_fact_kinds[t->fact].unit;

    while (at < text.n && vr_is_space(text.s[at])) /* figures that are set in columns */
        at++;
    f->at = at;
    f->fact = t->fact;
    f->n = vr_figure_read((vr_str){ text.s + at, text.n - at }, (vr_hole)t->hole, unit, &f->figure);
    return f->n == 0 ? SIZE_MAX : at + f->n;
}

/* Matches a whole piece; SIZE_MAX: not there. Figures count only when all of it is there. */
static size_t match_piece(const piece *p, vr_str text, size_t at, vr_found_list *out)
{
    vr_found found[HOLES_MAX];
    size_t n = 0;

    for (size_t i = 0; i < p->n && at != SIZE_MAX; i++) {
        const part *t = &p->parts[i];
        if (t->literal.n != 0) {
            at = match_literal(text, at, t->literal);
        } else if (t->hole == VR_HOLE_WORD || t->hole == VR_HOLE_LINE) {
            at = match_word(text, at, t->hole == VR_HOLE_LINE, i + 1 < p->n ? t + 1 : NULL);
        } else {
            at = match_figure(t, text, at, &found[n]);
            n += at != SIZE_MAX && t->fact != NO_FACT && found[n].figure.known && n + 1 < HOLES_MAX;
        }
    }
    for (size_t i = 0; i < n && at != SIZE_MAX; i++)
        add(out, found[i]);
    return at;
}

/* A figure begins at its sign or its first digit. */
static bool figure_begins(vr_str text, size_t at)
{
    char c = text.s[at], before = at == 0 ? ' ' : text.s[at - 1];

    if (vr_is_digit(before) || before == '.' || before == ',')
        return false;
    return vr_is_digit(c) ? before != '-' && before != '+'
                          : (c == '-' || c == '+') && at + 1 < text.n && vr_is_digit(text.s[at + 1]);
}

/* The next place at or behind `at` where the piece may begin; text.n: none. */
static size_t next_place(const piece *p, vr_str text, size_t at)
{
    const part *first = &p->parts[0];

    if (first->literal.n != 0 && first->literal.s[0] != ' ') {
        char c = first->literal.s[0];
        while (at < text.n && vr_lower(text.s[at]) != c)
            at++;
        return at;
    }
    if (first->literal.n != 0 || first->hole == VR_HOLE_WORD || first->hole == VR_HOLE_LINE)
        return at;
    while (at < text.n && !figure_begins(text, at))
        at++;
    return at;
}

/* False: it is not there between the two places. */
static bool read_one(const piece *p, vr_str text, size_t from, size_t to, vr_found_list *out)
{
    bool found = false;

    for (size_t at = next_place(p, text, from); at < to;) {
        size_t end = match_piece(p, text, at, out);
        found = found || end != SIZE_MAX;
        if (end != SIZE_MAX && !p->again)
            return true;
        at = next_place(p, text, end != SIZE_MAX && end > at ? end : at + 1);
    }
    return found;
}

void vr_template_read(const vr_template *t, vr_str text, size_t main, vr_found_list *out)
{
    for (size_t i = 0; i < t->n; i++) {
        if (!read_one(&t->pieces[i], text, main, text.n, out))
            read_one(&t->pieces[i], text, 0, main, out);
    }
}

bool vr_text_holds(vr_str text, vr_str what)
{
    for (size_t i = 0; i < text.n; i++) {
        if (vr_lower(text.s[i]) == what.s[0] && match_literal(text, i, what) != SIZE_MAX)
            return true;
    }
    return false;
}

bool vr_text_begins(vr_str text, vr_str what)
{
    return match_literal(text, 0, what) != SIZE_MAX;
}

bool vr_text_ends(vr_str text, vr_str what)
{
    for (size_t i = 0; i < text.n; i++) {
        if (vr_lower(text.s[i]) == what.s[0] && match_literal(text, i, what) == text.n)
            return true;
    }
    return false;
}
