/* SPDX-License-Identifier: MIT
 * Regular expressions as people type them for tensor overrides: the part of ECMAScript's that has no memory
 * (no backreferences, no looking ahead). All ways through a pattern are followed at once, so that the time is
 * bounded by its length times the text's.
 *
 * Source of the grammar: ECMA-262 5.1, 15.10.1, which std::regex follows. */
#include "llama/pattern.h"

#include <string.h>

#define MOST_STEPS 2048 /* of a pattern, repetitions written out */
#define MOST_DEPTH 32   /* of groups in groups */
#define MOST_TIMES 1000 /* of a{n} */
#define NO_END UINT32_MAX

typedef enum step_kind {
    STEP_SET,
    STEP_SPLIT,
    STEP_BEGIN,
    STEP_END,
    STEP_EDGE,
    STEP_NO_EDGE,
    STEP_FOUND
} step_kind;

typedef struct step {
    uint8_t kind;
    uint32_t next, other; /* SPLIT: both */
    uint8_t set[32];      /* SET: bits of the characters that it takes */
} step;

struct vr_pattern {
    step *steps;
    uint32_t n;
    uint32_t first;
    char prefix[32]; /* what it begins with in any case */
};

typedef struct reader {
    vr_str rest;
    step *steps;
    uint32_t n, most; /* steps; most that may be */
    const char *why;  /* what was wrong first */
    unsigned depth;
} reader;

/* A piece of the pattern: where it begins, and a list of ends that lead nowhere yet: each end is 2 * step
 * (+ 1: its `other`), and holds the next end of the list. */
typedef struct part {
    uint32_t first, ends;
} part;

static part read_choice(reader *r);

static void wrong(reader *r, const char *why)
{
    if (r->why == NULL)
        r->why = why;
}

/* ---- steps ---- */

static uint32_t add_step(reader *r, step_kind kind)
{
    if (r->n == r->most) {
        wrong(r, "the pattern is too long");
        return 0;
    }
    r->steps[r->n] = (step){ .kind = (uint8_t)kind, .next = NO_END, .other = NO_END };
    return r->n++;
}

static uint32_t *end_at(reader *r, uint32_t end)
{
    step *s = &r->steps[end / 2];
    return end % 2 == 0 ? &s->next : &s->other;
}

/* All ends of the list lead to `to`. */
static void join(reader *r, uint32_t ends, uint32_t to)
{
    while (ends != NO_END && r->why == NULL) {
        uint32_t *end = end_at(r, ends);
        ends = *end;
        *end = to;
    }
}

static uint32_t both(reader *r, uint32_t a, uint32_t b)
{
    uint32_t last = a;
    if (a == NO_END || r->why != NULL)
        return b;
    while (*end_at(r, last) != NO_END)
        last = *end_at(r, last);
    *end_at(r, last) = b;
    return a;
}

static part single(reader *r, step_kind kind)
{
    uint32_t at = add_step(r, kind);
    return (part){ at, 2 * at };
}

/* Takes nothing: a split whose one way is not there. */
static part nothing(reader *r)
{
    uint32_t at = add_step(r, STEP_SPLIT);
    r->steps[at].other = at;
    return (part){ at, 2 * at };
}

/* ---- characters ---- */

static void put(uint8_t set[32], unsigned c)
{
    set[c / 8] = (uint8_t)(set[c / 8] | 1U << c % 8);
}

static bool has(const uint8_t set[32], unsigned char c)
{
    return (set[c / 8] >> c % 8 & 1) != 0;
}

static void put_range(uint8_t set[32], unsigned from, unsigned to)
{
    for (unsigned c = from; c <= to; c++)
        put(set, c);
}

static void turn_round(uint8_t set[32])
{
    for (size_t i = 0; i < 32; i++)
        set[i] = (uint8_t)~set[i];
}

static bool take(reader *r, char c)
{
    if (r->rest.n == 0 || r->rest.s[0] != c)
        return false;
    r->rest = (vr_str){ r->rest.s + 1, r->rest.n - 1 };
    return true;
}

static unsigned char next_char(reader *r)
{
    unsigned char c = r->rest.n != 0 ? (unsigned char)r->rest.s[0] : 0;
    if (r->rest.n != 0)
        r->rest = (vr_str){ r->rest.s + 1, r->rest.n - 1 };
    return c;
}

static bool is_word(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/* \d, \w, \s and their opposites; false: c is none of them. */
static bool put_class(uint8_t set[32], unsigned char c)
{
    uint8_t these[32] = { 0 };
    unsigned char lower = c | 0x20;
    if (lower == 'd') {
        put_range(these, '0', '9');
    } else if (lower == 's') {
        put_range(these, 9, 13);
        put(these, ' ');
    } else if (lower == 'w') {
        for (unsigned i = 0; i < 256; i++)
            if (is_word((unsigned char)i))
                put(these, i);
    } else {
        return false;
    }
    if (c != lower)
        turn_round(these);
    for (size_t i = 0; i < 32; i++)
        set[i] |= these[i];
    return true;
}

/* Behind a backslash, one character; letters and digits that are not known mean something else. */
static unsigned char escaped(reader *r, unsigned char c)
{
    static const char from[] = "tnrfv", to[] = "\t\n\r\f\v";
    const char *at = memchr(from, c, sizeof from - 1);
    if (at != NULL)
        return (unsigned char)to[at - from];
    if (c == 0 || is_word(c))
        wrong(r, "an escape that is not understood here");
    return c;
}

/* One end of a range in brackets; *whole: it was a class such as \d. */
static unsigned char in_brackets(reader *r, uint8_t set[32], bool *whole)
{
    unsigned char c = next_char(r);
    *whole = false;
    if (c == '[' && r->rest.n != 0 && memchr(":.=", r->rest.s[0], 3) != NULL)
        wrong(r, "named classes of characters are not understood here");
    if (c != '\\')
        return c;
    c = next_char(r);
    *whole = put_class(set, c);
    return *whole ? c : c == 'b' ? '\b' : escaped(r, c);
}

static part read_brackets(reader *r)
{
    part p = single(r, STEP_SET);
    uint8_t set[32] = { 0 };
    bool other = take(r, '^'), whole = false;
    while (r->why == NULL && !take(r, ']')) {
        if (r->rest.n == 0) {
            wrong(r, "a [ without its ]");
            break;
        }
        unsigned char from = in_brackets(r, set, &whole), to = from;
        if (whole)
            continue;
        bool range = r->rest.n > 1 && r->rest.s[0] == '-' && r->rest.s[1] != ']';
        if (range) {
            (void)next_char(r);
            to = in_brackets(r, set, &whole);
        }
        if (to < from || (range && whole))
            wrong(r, "a range of characters that goes backwards");
        put_range(set, from, to);
    }
    if (other)
        turn_round(set);
    memcpy(r->steps[p.first].set, set, sizeof set);
    return p;
}

/* ---- pieces ---- */

static part read_group(reader *r)
{
    part p = { 0, NO_END };
    if (take(r, '?') && !take(r, ':')) {
        wrong(r, "looking ahead, (?= and (?!, is not understood here");
        return p;
    }
    if (++r->depth > MOST_DEPTH) {
        wrong(r, "too many groups in groups");
        return p;
    }
    p = read_choice(r);
    r->depth--;
    if (!take(r, ')'))
        wrong(r, "a ( without its )");
    return p;
}

static part read_escape(reader *r)
{
    unsigned char c = next_char(r);
    if (c == 'b' || c == 'B')
        return single(r, c == 'b' ? STEP_EDGE : STEP_NO_EDGE);
    part p = single(r, STEP_SET);
    if (!put_class(r->steps[p.first].set, c))
        put(r->steps[p.first].set, escaped(r, c));
    return p;
}

static part read_atom(reader *r)
{
    if (take(r, '('))
        return read_group(r);
    if (take(r, '['))
        return read_brackets(r);
    if (take(r, '\\'))
        return read_escape(r);
    if (take(r, '^'))
        return single(r, STEP_BEGIN);
    if (take(r, '$'))
        return single(r, STEP_END);
    unsigned char c = next_char(r);
    part p = single(r, STEP_SET);
    if (c == '.') {
        put(r->steps[p.first].set, '\n');
        put(r->steps[p.first].set, '\r');
        turn_round(r->steps[p.first].set);
    } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        wrong(r, "there is nothing to repeat");
    } else {
        put(r->steps[p.first].set, c);
    }
    return p;
}

static uint32_t read_times(reader *r, bool *there)
{
    uint32_t n = 0;
    *there = false;
    while (r->rest.n != 0 && r->rest.s[0] >= '0' && r->rest.s[0] <= '9') {
        n = n * 10 + (uint32_t)(next_char(r) - '0');
        *there = true;
        if (n > MOST_TIMES) {
            wrong(r, "too many repetitions");
            return 0;
        }
    }
    return n;
}

/* How often; most NO_END: any number of times. False: once, as it stands. */
static bool read_repetition(reader *r, uint32_t *least, uint32_t *most)
{
    bool there = true;
    *least = *most = 1;
    if (take(r, '*')) {
        *least = 0;
        *most = NO_END;
    } else if (take(r, '+')) {
        *most = NO_END;
    } else if (take(r, '?')) {
        *least = 0;
    } else if (take(r, '{')) {
        *least = *most = read_times(r, &there);
        if (take(r, ',')) {
            bool bound = false;
            *most = read_times(r, &bound);
            *most = bound ? *most : NO_END;
        }
        if (!there || !take(r, '}') || *most < *least)
            wrong(r, "{ is not followed by how often");
    } else {
        return false;
    }
    (void)take(r, '?'); /* as few as possible: found is found */
    return true;
}

/* ---- repetitions: the piece is read anew for each but the first ---- */

/* `p` may be left out. */
static part optional(reader *r, part p)
{
    uint32_t at = add_step(r, STEP_SPLIT);
    r->steps[at].next = p.first;
    return (part){ at, both(r, p.ends, 2 * at + 1) };
}

/* Behind `p` its part from `first` on again, as often as one likes; none: or nothing at all. */
static part any_times(reader *r, part p, uint32_t first, bool none)
{
    uint32_t at = add_step(r, STEP_SPLIT);
    r->steps[at].next = first;
    join(r, p.ends, at);
    return (part){ none ? at : p.first, 2 * at + 1 };
}

static part follow(reader *r, part a, part b)
{
    join(r, a.ends, b.first);
    return (part){ a.first, b.ends };
}

static part again(reader *r, vr_str piece)
{
    vr_str rest = r->rest;
    r->rest = piece;
    part p = read_atom(r);
    r->rest = rest;
    return p;
}

static part repeated(reader *r, vr_str piece, part p, uint32_t least, uint32_t most)
{
    uint32_t first = p.first;
    if (most == NO_END && least == 0)
        return any_times(r, p, first, true);
    if (least == 0)
        p = optional(r, p);
    for (uint32_t i = 1; i < least && r->why == NULL; i++) {
        part q = again(r, piece);
        first = q.first;
        p = follow(r, p, q);
    }
    if (most == NO_END)
        return any_times(r, p, first, false);
    for (uint32_t i = least > 1 ? least : 1; i < most && r->why == NULL; i++)
        p = follow(r, p, optional(r, again(r, piece)));
    return p;
}

static part read_piece(reader *r)
{
    vr_str before = r->rest;
    uint32_t n = r->n, least = 1, most = 1;
    part p = read_atom(r);
    if (r->why != NULL || !read_repetition(r, &least, &most) || r->why != NULL)
        return p;
    if (most != 0)
        return repeated(r, before, p, least, most);
    r->n = n; /* none of it is left */
    return nothing(r);
}

static part read_sequence(reader *r)
{
    part p = nothing(r);
    while (r->why == NULL && r->rest.n != 0 && r->rest.s[0] != '|' && r->rest.s[0] != ')')
        p = follow(r, p, read_piece(r));
    return p;
}

static part read_choice(reader *r)
{
    part p = read_sequence(r);
    while (r->why == NULL && take(r, '|')) {
        uint32_t at = add_step(r, STEP_SPLIT);
        part q = read_sequence(r);
        r->steps[at].next = p.first;
        r->steps[at].other = q.first;
        p = (part){ at, both(r, p.ends, q.ends) };
    }
    return p;
}

/* A character is at most three steps, unless a piece is read again for a{n}. */
static uint32_t steps_of(vr_str text)
{
    bool again = vr_str_find(text, "{", NULL);
    return again || text.n >= (MOST_STEPS - 8) / 3 ? MOST_STEPS : (uint32_t)(3 * text.n + 8);
}

static void note_prefix(struct vr_pattern *p);

vram_status vr_lm_pattern(const struct vr_pattern **out, const char **why, const char *text, vr_arena *a)
{
    struct vr_pattern *p = VR_NEW(a, struct vr_pattern);
    uint32_t most = steps_of(vr_str_of(text));
    reader r = { .rest = vr_str_of(text), .steps = VR_ARRAY(a, step, most), .most = most };
    *out = NULL;
    *why = NULL;
    if (p == NULL || r.steps == NULL)
        return VRAM_ENOMEM;
    part whole = read_choice(&r);
    if (r.rest.n != 0)
        wrong(&r, "a ) without its (");
    uint32_t found = add_step(&r, STEP_FOUND);
    join(&r, whole.ends, found);
    *why = r.why;
    if (r.why != NULL)
        return VRAM_OK;
    *p = (struct vr_pattern){ .steps = r.steps, .n = r.n, .first = whole.first };
    note_prefix(p);
    *out = p;
    return VRAM_OK;
}

/* ---- finding ---- */

typedef struct ways {
    uint16_t list[MOST_STEPS]; /* steps that wait for a character */
    size_t n;
    uint8_t seen[MOST_STEPS / 8];
    bool found;
} ways;

typedef struct place_in {
    vr_str text;
    size_t at;
} place_in;

static bool at_edge(const place_in *p)
{
    bool before = p->at != 0 && is_word((unsigned char)p->text.s[p->at - 1]);
    bool after = p->at < p->text.n && is_word((unsigned char)p->text.s[p->at]);
    return before != after;
}

static bool passes(const step *s, const place_in *p)
{
    switch (s->kind) {
    case STEP_BEGIN:
        return p->at == 0;
    case STEP_END:
        return p->at == p->text.n;
    case STEP_EDGE:
        return at_edge(p);
    case STEP_NO_EDGE:
        return !at_edge(p);
    default:
        return true;
    }
}

static void reach(ways *w, uint16_t *waiting, size_t *n, uint32_t at)
{
    uint8_t bit = (uint8_t)(1U << at % 8);
    if ((w->seen[at / 8] & bit) != 0)
        return;
    w->seen[at / 8] = (uint8_t)(w->seen[at / 8] | bit);
    waiting[(*n)++] = (uint16_t)at;
}

/* All that is reached from `first` without a character. */
static void start(ways *w, const struct vr_pattern *p, uint32_t first, const place_in *where)
{
    uint16_t waiting[MOST_STEPS];
    size_t n = 0;
    reach(w, waiting, &n, first);
    while (n != 0) {
        uint16_t at = waiting[--n];
        const step *s = &p->steps[at];
        if (s->kind == STEP_SET) {
            w->list[w->n++] = at;
        } else if (s->kind == STEP_FOUND) {
            w->found = true;
        } else if (passes(s, where)) {
            reach(w, waiting, &n, s->next);
            if (s->kind == STEP_SPLIT)
                reach(w, waiting, &n, s->other);
        }
    }
}

static void clear(ways *w, const struct vr_pattern *p)
{
    w->n = 0;
    memset(w->seen, 0, p->n / 8 + 1);
}

/* The one character of a set; 0: there are others, or none. */
static char only_char(const uint8_t set[32])
{
    unsigned found = 0, n = 0;
    for (unsigned c = 0; c < 256; c++) {
        if (has(set, (unsigned char)c)) {
            found = c;
            n++;
        }
    }
    return n == 1 ? (char)found : '\0';
}

/* "blk.17.ffn_" is looked for before any way is followed. */
static void note_prefix(struct vr_pattern *p)
{
    size_t n = 0;
    uint32_t at = p->first;
    for (uint32_t i = 0; i < p->n && n + 1 < sizeof p->prefix; i++) {
        const step *s = &p->steps[at];
        bool empty = s->kind == STEP_SPLIT && s->other == at;
        char c = s->kind == STEP_SET ? only_char(s->set) : '\0';
        if (!empty && c == '\0')
            return;
        if (!empty)
            p->prefix[n++] = c;
        at = s->next;
    }
}

bool vr_lm_pattern_found(const struct vr_pattern *p, vr_str text)
{
    ways a, b, *now = &a, *then = &b;
    place_in where = { text, 0 };
    a.found = b.found = false;
    if (p->prefix[0] != '\0' && !vr_str_find(text, p->prefix, NULL))
        return false;
    clear(now, p);
    start(now, p, p->first, &where);
    for (size_t i = 0; i < text.n && !now->found; i++) {
        where.at = i + 1;
        clear(then, p);
        for (size_t k = 0; k < now->n; k++) {
            const step *s = &p->steps[now->list[k]];
            if (has(s->set, (unsigned char)text.s[i]))
                start(then, p, s->next, &where);
        }
        start(then, p, p->first, &where); /* or it begins here */
        ways *swap = now;
        now = then;
        then = swap;
    }
    return now->found;
}
