/* SPDX-License-Identifier: MIT
 * The automaton of Aho and Corasick over some bytes of every anchor, its key, as one table: a look-up for
 * each byte of the text, whatever it is. A look-up waits for the one before; so several stretches of the text
 * are read at once, which hides that. What is found is compared in full.
 *
 * A blank that follows a blank changes no state, so a run of white space is one blank by itself; neither does
 * a line end where no blank is wanted, so a word that a terminal cut is found. */
#include "diagnosis/anchors.h"

#include <string.h>

#define DEPTH 10u         /* bytes of an anchor that the table knows */
#define BLANK 1u          /* the class of white space */
#define BREAK 2u          /* the class of line ends: a blank, or nothing where a terminal cut a word */
#define CLASSES 64u       /* bytes are alike when no anchor tells them apart */
#define SHARED 8u         /* classes of bytes that are not told apart */
#define STATES_MAX 32768u /* the highest bit says that an anchor's first bytes end */
#define ENDS 0x8000u
#define STATE 0x7FFFu
#define LANES 8u
#define PART (VR_STRIP / LANES)
#define MATCH_MAX 4096u /* bytes that an anchor may be spread over, white space included */

struct vr_anchors {
    vr_anchor *all;
    size_t n;
    uint8_t class_of[256];
    uint16_t *next; /* [state][class] */
    size_t n_states;
    uint32_t *tail;    /* of a state: the first anchor + 1 of the list below, or 0 */
    uint32_t *chain;   /* of an anchor: the next one + 1 with the same first bytes */
    uint16_t *also;    /* of a state: the next state behind it where other first bytes end; 0: none */
    bool *solid;       /* of an anchor: what stands before the end of its key needs no comparing */
    uint16_t *key_end; /* of an anchor: how many of its bytes are its key or stand before it */
    uint16_t *key;     /* of an anchor: where its key begins */
    uint16_t state;
    vr_candidate *found;
};

/* The automaton while it is made. */
typedef struct trie {
    size_t room;
    uint16_t *way, *sister; /* of a state: the first it leads to; another one from the same state */
    uint16_t *fail;         /* the state behind: of the longest end that is a beginning */
    uint16_t *queue;
    uint8_t *class; /* of the byte that leads to it */
} trie;

/* ---- building ---- */

static void add_anchor(vr_anchors *s, vr_anchor one)
{
    one.begins = one.text.n != 0 && one.text.s[0] == '^';
    if (one.begins)
        one.text = (vr_str){ one.text.s + 1, one.text.n - 1 };
    one.ends = one.text.n > 1 && one.text.s[one.text.n - 1] == '$';
    one.text.n -= one.ends;
    if (one.text.n != 0)
        s->all[s->n++] = one;
}

static size_t alternatives(const char *anchor)
{
    size_t n = 1, i;
    vr_str rest = vr_str_of(anchor);

    while (vr_str_find(rest, " | ", &i)) {
        rest = (vr_str){ rest.s + i + 3, rest.n - i - 3 };
        n++;
    }
    return n;
}

static void add_row(vr_anchors *s, size_t number)
{
    const vr_text_row *row = vr_text_row_at(number);
    vr_str rest = vr_str_of(row->anchor);
    size_t i;

    for (uint32_t k = 0; rest.n != 0; k++) {
        vr_str one = rest;
        bool more = vr_str_find(rest, " | ", &i);
        one.n = more ? i : rest.n;
        add_anchor(s, (vr_anchor){ .text = one, .row = row, .number = (uint32_t)number, .alternative = k });
        rest = more ? (vr_str){ rest.s + i + 3, rest.n - i - 3 } : (vr_str){ rest.s, 0 };
    }
}

static bool collect(vr_anchors *s, vr_arena *a, const char *const *own, size_t n_own)
{
    size_t room = n_own;

    for (size_t i = 0; i < VR_TEXT_ROWS; i++)
        room += alternatives(vr_text_row_at(i)->anchor);
    s->all = VR_ARRAY(a, vr_anchor, room);
    if (s->all == NULL)
        return false;
    for (size_t i = 0; i < n_own; i++)
        add_anchor(s, (vr_anchor){ .text = vr_str_of(own[i]), .number = (uint32_t)i });
    for (size_t i = 0; i < VR_TEXT_ROWS; i++)
        add_row(s, i);
    return true;
}

/* Bytes of an anchor's key that begins at `at`. It does not end in a blank, which would be found again at
 * each further one. */
static size_t key_length(const vr_anchor *one, size_t at)
{
    size_t n = one->text.n - at < DEPTH ? one->text.n - at : DEPTH;

    return n > 1 && one->text.s[at + n - 1] == ' ' ? n - 1 : n;
}

#define PLACES 3u     /* of a key in its anchor: its first bytes, those in the middle, its last */
#define SHARES 16384u /* keys are counted by a number that they share with few others */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* A key begins where a word does: another's end, with a blank behind it, would be taken for its beginning,
 * and a line end inside of that word for the blank. */
static size_t key_place(const vr_anchor *one, size_t which)
{
    size_t over = one->text.n > DEPTH ? one->text.n - DEPTH : 0, at = over * which / (PLACES - 1);

    while (at != 0 && (one->text.s[at] == ' ' || is_word(one->text.s[at - 1])))
        at--;
    return at;
}

static size_t share_of(const vr_anchor *one, size_t at)
{
    uint32_t sum = 0;

    for (size_t k = 0; k < key_length(one, at); k++)
        sum = sum * 0x01000193u ^ (uint8_t)one->text.s[at + k];
    return (sum ^ sum >> 15) % SHARES;
}

/* Many anchors begin alike. The key of each is what fewest others have as one of theirs: a text that holds
 * one of them is not compared with all. */
static void choose_keys(vr_anchors *s, uint16_t *count)
{
    for (size_t i = 0; i < s->n * PLACES; i++) {
        const vr_anchor *one = &s->all[i / PLACES];
        if (one->text.n > DEPTH || i % PLACES == 0)
            count[share_of(one, key_place(one, i % PLACES))]++;
    }
    for (size_t i = 0; i < s->n; i++) {
        size_t best = 0, least = SIZE_MAX;
        for (size_t k = 0; k < (s->all[i].text.n > DEPTH ? PLACES : 1); k++) {
            size_t at = key_place(&s->all[i], k), n = count[share_of(&s->all[i], at)];
            best = n < least ? at : best;
            least = n < least ? n : least;
        }
        s->key_end[i] = (uint16_t)(best + key_length(&s->all[i], best));
        s->key[i] = (uint16_t)best;
    }
}

/* The classes of ASCII are its bytes' own, as long as there are some left; others share what is left, which
 * only makes candidates that are none. */
static void make_classes(vr_anchors *s)
{
    uint8_t n = BREAK + 1, shared = CLASSES - SHARED;

    for (unsigned c = '\t'; c <= '\r'; c++)
        s->class_of[c] = BLANK;
    s->class_of[' '] = BLANK;
    s->class_of['\n'] = s->class_of['\r'] = BREAK;
    for (size_t i = 0; i < s->n; i++) {
        for (size_t k = s->key[i]; k < s->key_end[i]; k++) {
            uint8_t c = (uint8_t)vr_lower(s->all[i].text.s[k]);
            if (s->class_of[c] == 0)
                s->class_of[c] = c < 128 && n < shared ? n++ : (uint8_t)(shared + c % SHARED);
            if (c >= 'a' && c <= 'z')
                s->class_of[c - 32] = s->class_of[c];
        }
    }
}

/* Whether each of an anchor's bytes to the end of its key has a class of its own, and takes one byte of the
 * text. */
static bool is_solid(const vr_anchors *s, size_t i)
{
    const vr_anchor *one = &s->all[i];

    for (size_t k = 0; s->key[i] == 0 && k < s->key_end[i]; k++) {
        uint8_t class = s->class_of[(uint8_t)vr_lower(one->text.s[k])];
        if (class == BLANK || class >= CLASSES - SHARED)
            return false;
    }
    return s->key[i] == 0;
}

static size_t nodes_needed(const vr_anchors *s)
{
    size_t n = 1;

    for (size_t i = 0; i < s->n; i++)
        n += (size_t)(s->key_end[i] - s->key[i]);
    return n < STATES_MAX ? n : STATES_MAX;
}

/* The state that a byte leads to from `at`; 0: there is none, and the table is full. Ways are kept as lists
 * until the rows are made. */
static uint16_t grow_by(vr_anchors *s, trie *t, uint16_t at, char byte)
{
    uint8_t class = s->class_of[(uint8_t)vr_lower(byte)];
    uint16_t to = t->way[at];

    while (to != 0 && t->class[to] != class)
        to = t->sister[to];
    if (to != 0 || s->n_states == t->room)
        return to;
    to = (uint16_t)s->n_states++;
    t->class[to] = class;
    t->sister[to] = t->way[at];
    t->way[at] = to;
    return to;
}

static void grow_trie(vr_anchors *s, trie *t)
{
    s->n_states = 1;
    for (size_t i = 0; i < s->n; i++) {
        uint16_t at = 0, to;
        size_t k = s->key[i];
        while (k < s->key_end[i] && (to = grow_by(s, t, at, s->all[i].text.s[k])) != 0) {
            at = to;
            k++;
        }
        s->key_end[i] = (uint16_t)k; /* less where the table is full */
        s->solid[i] = is_solid(s, i);
        s->chain[i] = s->tail[at];
        s->tail[at] = (uint32_t)i + 1;
    }
}

/* Breadth first: a state's row is that of the state behind it, but for its own ways. Another blank changes
 * nothing. */
static void make_rows(vr_anchors *s, trie *t)
{
    size_t head = 0, tail = 1;

    while (head < tail) { /* queue[0] is the first state, behind which there is none */
        uint16_t at = t->queue[head++], behind = t->fail[at];
        uint16_t *row = &s->next[at * CLASSES];
        if (at != 0)
            memcpy(row, &s->next[behind * CLASSES], CLASSES * sizeof *row);
        else
            memset(row, 0, CLASSES * sizeof *row);
        for (uint16_t to = t->way[at]; to != 0; to = t->sister[to]) {
            uint16_t over = at == 0 ? 0 : (uint16_t)(row[t->class[to]] & STATE);
            t->fail[to] = over;
            s->also[to] = s->tail[over] != 0 ? over : s->also[over];
            row[t->class[to]] = (uint16_t)(to | (s->tail[to] != 0 || s->also[to] != 0 ? ENDS : 0));
            t->queue[tail++] = to;
        }
        if (at != 0 && t->class[at] == BLANK)
            row[BLANK] = at;
        row[BREAK] = row[BLANK] != 0 ? row[BLANK] : at;
    }
}

static bool make_table(vr_anchors *s, vr_arena *a, vr_arena *scratch)
{
    uint16_t *count = VR_ARRAY(scratch, uint16_t, SHARES);

    s->key = VR_ARRAY(a, uint16_t, s->n + 1);
    s->key_end = VR_ARRAY(a, uint16_t, s->n + 1);
    if (scratch->starved || a->starved)
        return false;
    choose_keys(s, count);
    make_classes(s);
    size_t room = nodes_needed(s);
    trie t = { .room = room };
    t.way = VR_ARRAY(scratch, uint16_t, room);
    t.sister = VR_ARRAY(scratch, uint16_t, room);
    t.fail = VR_ARRAY(scratch, uint16_t, room);
    t.queue = VR_ARRAY(scratch, uint16_t, room);
    t.class = VR_ARRAY(scratch, uint8_t, room);
    s->tail = VR_ARRAY(a, uint32_t, room);
    s->chain = VR_ARRAY(a, uint32_t, s->n + 1);
    s->also = VR_ARRAY(a, uint16_t, room);
    s->solid = VR_ARRAY(a, bool, s->n + 1);
    s->found = vr_arena_spare(a, (VR_STRIP + 1) * sizeof *s->found);
    if (scratch->starved || a->starved)
        return false;
    grow_trie(s, &t);
    s->next = vr_arena_spare(a, s->n_states * CLASSES * sizeof *s->next);
    if (s->next == NULL)
        return false;
    make_rows(s, &t);
    return true;
}

vr_anchors *vr_anchors_new(vr_arena *a, const char *const *own, size_t n)
{
    vr_arena scratch;
    vr_anchors *s = VR_NEW(a, vr_anchors);

    if (s == NULL || !collect(s, a, own, n))
        return NULL;
    vr_arena_init(&scratch, a->ctx);
    bool made = make_table(s, a, &scratch);
    vr_arena_free(&scratch);
    return made ? s : NULL;
}

/* ---- searching ---- */

void vr_anchors_restart(vr_anchors *s)
{
    s->state = 0;
}

typedef struct lane {
    const uint8_t *p;
    size_t at; /* offset of *p in the text */
    uint16_t state;
    vr_candidate *found;
    size_t n;
} lane;

/* What is decided by the last DEPTH bytes that are no blanks needs no more of the text before. */
static uint16_t state_at(const vr_anchors *s, vr_str text, size_t from, size_t at)
{
    size_t b = at, n = 0;

    for (; b > from && n <= DEPTH; b--)
        n += !vr_is_space(text.s[b - 1]);
    uint16_t state = b == from ? s->state : 0;
    for (; b < at; b++)
        state = s->next[(state & STATE) * CLASSES + s->class_of[(uint8_t)text.s[b]]];
    return state;
}

static void run_one(const vr_anchors *s, lane *l, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        l->state = s->next[(l->state & STATE) * CLASSES + s->class_of[l->p[i]]];
        if ((l->state & ENDS) != 0)
            l->found[l->n++] = (vr_candidate){ (uint32_t)(l->at + i + 1), l->state & STATE };
    }
}

static void note(lane *l, uint16_t state, size_t i)
{
    if ((state & ENDS) != 0)
        l->found[l->n++] = (vr_candidate){ (uint32_t)(l->at + i + 1), state & STATE };
}

/* One byte further in a stretch. Written out for each, so that the states stay in registers. */
#define NEXT(k) (st[k] = next[(st[k] & STATE) * CLASSES + class_of[p[i + (k)*PART]]])

static void run_all(const vr_anchors *s, lane l[LANES])
{
    const uint16_t *next = s->next;
    const uint8_t *class_of = s->class_of, *p = l[0].p;
    uint32_t st[LANES];

    for (size_t k = 0; k < LANES; k++)
        st[k] = l[k].state;
    for (size_t i = 0; i < PART; i++) {
        uint32_t any = NEXT(0) | NEXT(1) | NEXT(2) | NEXT(3);
        any |= NEXT(4) | NEXT(5) | NEXT(6) | NEXT(7);
        if ((any & ENDS) == 0)
            continue;
        for (size_t k = 0; k < LANES; k++)
            note(&l[k], (uint16_t)st[k], i);
    }
    for (size_t k = 0; k < LANES; k++)
        l[k].state = (uint16_t)st[k];
}

size_t vr_anchors_search(vr_anchors *s, vr_str text, size_t from, size_t to, const vr_candidate **out)
{
    lane l[LANES];
    size_t part = (to - from) / LANES, n = 0;

    for (size_t k = 0; k < LANES; k++) {
        size_t at = from + k * part;
        l[k] =
            (lane){ (const uint8_t *)text.s + at, at, state_at(s, text, from, at), s->found + k * part, 0 };
    }
    for (size_t k = 0; part != PART && k < LANES; k++)
        run_one(s, &l[k], part);
    if (part == PART)
        run_all(s, l);
    l[LANES - 1].p += part;
    l[LANES - 1].at += part;
    run_one(s, &l[LANES - 1], to - l[LANES - 1].at);
    s->state = l[LANES - 1].state;
    for (size_t k = 0; k < LANES; k++) {
        memmove(s->found + n, l[k].found, l[k].n * sizeof *s->found);
        n += l[k].n;
    }
    *out = s->found;
    return n;
}

static bool is_break(char c)
{
    return c == '\n' || c == '\r';
}

/* The place where n bytes of an anchor begin that end at `end`; SIZE_MAX: they do not. */
static size_t match_back(vr_str text, size_t end, vr_str anchor, size_t n)
{
    size_t at = end;

    while (n-- > 0) {
        char want = anchor.s[n];
        if (at == 0 || end - at > MATCH_MAX)
            return SIZE_MAX;
        char c = text.s[--at];
        if (want == ' ') {
            if (!vr_is_space(c))
                return SIZE_MAX;
            while (n != 0 && at > 0 && end - at <= MATCH_MAX && vr_is_space(text.s[at - 1]))
                at--;
            continue;
        }
        while (vr_lower(c) != want && is_break(c) && at != 0 && at + 1 != end)
            c = text.s[--at];
        if (vr_lower(c) != want)
            return SIZE_MAX;
    }
    return at;
}

/* The place behind the rest of an anchor, from its byte n on; SIZE_MAX: it is not there. */
static size_t match_on(vr_str text, size_t at, vr_str anchor, size_t n)
{
    size_t stop = text.n - at > MATCH_MAX ? at + MATCH_MAX : text.n;

    for (; n < anchor.n; n++) {
        char want = anchor.s[n];
        if (at >= stop)
            return SIZE_MAX;
        char c = text.s[at++];
        if (want == ' ') {
            if (!vr_is_space(c))
                return SIZE_MAX;
            while (at < stop && vr_is_space(text.s[at]))
                at++;
            continue;
        }
        while (vr_lower(c) != want && is_break(c) && at < stop)
            c = text.s[at++];
        if (vr_lower(c) != want)
            return SIZE_MAX;
    }
    return at;
}

/* Whether no line end stands in the n bytes before `end`. */
static bool is_whole(vr_str text, size_t end, size_t n)
{
    bool whole = end >= n;

    for (size_t i = 0; whole && i < n; i++)
        whole = !is_break(text.s[end - n + i]);
    return whole;
}

/* The place behind an anchor whose key ends at `end`; SIZE_MAX: it is not there. */
static size_t match_whole(const vr_anchors *s, vr_str text, size_t end, uint32_t one, size_t *start)
{
    const vr_anchor *a = &s->all[one];
    size_t n = s->key_end[one];

    *start = s->solid[one] && is_whole(text, end, n) ? end - n : match_back(text, end, a->text, n);
    return *start == SIZE_MAX ? SIZE_MAX : match_on(text, end, a->text, n);
}

const vr_anchor *vr_anchors_check(const vr_anchors *s, vr_str text, const vr_candidate *c, size_t *i,
                                  size_t *start, size_t *end)
{
    size_t k = 0;

    for (uint16_t state = (uint16_t)c->state; state != 0; state = s->also[state]) {
        for (uint32_t one = s->tail[state]; one != 0; one = s->chain[one - 1], k++) {
            if (k < *i)
                continue;
            *end = match_whole(s, text, c->end, one - 1, start);
            if (*end == SIZE_MAX)
                continue;
            *i = k + 1;
            return &s->all[one - 1];
        }
    }
    return NULL;
}
