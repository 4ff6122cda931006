/* SPDX-License-Identifier: MIT
 *
 * Several scenarios side by side: a table of the categories in GiB; one bar a scenario, a letter a category,
 * with the edge of each card size; the verdict on each; the smallest change that fits.
 */
#include "report/scenario_report.h"

#define NAME_MOST 28
#define ROOM_WIDTH 18 /* "no, 123.45 short" */
#define TOTAL_WIDTH 9
#define BAR_LEAST 16
#define BAR_MOST 100

/* Category, heading of its column, letter in the bar, meaning of the letter */
static const struct {
    const char *head;
    char mark[2];
    const char *meaning;
} columns[VR_CATEGORY_COUNT] = {
    [VR_WEIGHTS] = { "weights", "W", "weights" },        [VR_GRADIENTS] = { "grads", "G", "gradients" },
    [VR_OPTIMIZER] = { "optim.", "O", "optimizer" },     [VR_KV_CACHE] = { "KV cache", "K", "KV cache" },
    [VR_ACTIVATIONS] = { "activ.", "A", "activations" }, [VR_OVERHEAD] = { "overhead", "+", "overhead" },
};

typedef struct table {
    vr_report *r;
    const vram_scenario *s;
    bool shown[VR_CATEGORY_COUNT]; /* something of it in one of the scenarios, or not counted there */
    bool drawn[VR_CATEGORY_COUNT]; /* bytes of it in one of the scenarios */
    bool partial;                  /* something is not counted somewhere */
    size_t name;                   /* width */
    uint64_t most;
    const vr_scenario_result *cards; /* the scenario with the most card sizes */
    bool same_cards;                 /* all have these sizes */
    vr_scale scale;
} table;

static bool same_sizes(const vr_scenario_result *a, const vr_scenario_result *b)
{
    bool same = a->n_cards == b->n_cards;

    for (size_t i = 0; same && i < a->n_cards; i++)
        same = a->cards[i].available == b->cards[i].available;
    return same;
}

static size_t bar_room(const table *t)
{
    size_t taken = t->name + 1 + t->cards->n_cards * ROOM_WIDTH, columns_there = t->r->style->columns;
    size_t room = columns_there > taken + BAR_LEAST ? columns_there - taken : BAR_LEAST;

    return room < BAR_MOST ? room : BAR_MOST;
}

static table measure(vr_report *r, const vram_scenario *s)
{
    table t = { .r = r, .s = s, .name = 4, .cards = &s->results[0], .same_cards = true };
    uint64_t edges[VR_SCENARIO_CARDS];

    for (size_t i = 0; i < s->n_results; i++) {
        const vr_scenario_result *x = &s->results[i];
        size_t w = vr_utf8_width(vr_str_of(vr_scenario_name(r, s, i)));
        t.name = w > t.name ? w : t.name;
        t.most = x->ledger.required > t.most ? x->ledger.required : t.most;
        t.cards = x->n_cards > t.cards->n_cards ? x : t.cards;
        t.partial = t.partial || x->ledger.partial;
        for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
            t.shown[c] = t.shown[c] || !vr_figure_absent(&x->ledger.category[c]);
            t.drawn[c] = t.drawn[c] || (x->ledger.category[c].counted && x->ledger.category[c].bytes != 0);
        }
    }
    for (size_t i = 0; i < s->n_results; i++)
        t.same_cards = t.same_cards && same_sizes(&s->results[i], t.cards);
    t.name = t.name < NAME_MOST ? t.name : NAME_MOST;
    for (size_t i = 0; i < t.cards->n_cards; i++)
        edges[i] = t.cards->cards[i].available;
    t.scale = vr_scale_of(bar_room(&t), t.most, edges, t.cards->n_cards);
    return t;
}

/* ---- verdict ---- */

static void put_verdict(const table *t)
{
    vr_report *r = t->r;
    const char *text = "";

    for (size_t k = 0; k < t->cards->n_cards && t->same_cards; k++) {
        size_t fit = 0;
        for (size_t i = 0; i < t->s->n_results; i++)
            fit += t->s->results[i].cards[k].verdict == VRAM_FITS;
        text = vr_say(r, T(text), T(k != 0 ? ", " : ""), U(fit),
                      T(k != 0 ? "" : vr_say(r, T(" of "), U(t->s->n_results))), T(" fit "),
                      T(vr_scenario_size(r, t->cards->cards[k].bytes, t->cards->cards[k].count)));
    }
    if (t->partial)
        text = vr_say(r, T(text), T(*text != '\0' ? vr_dot(r) : ""), T("over what is counted (- is not)"));
    if (t->cards->n_cards != 0)
        vr_inked(r, vr_verdict_ink(t->s->verdict), vr_say(r, T(vr_verdict_screen(t->s->verdict)), T("  ")));
    vr_wrap(r, 14, 0, *text != '\0' ? text : "the ledgers side by side");
}

/* ---- figures ---- */

static size_t column_width(size_t c)
{
    size_t w = vr_str_of(columns[c].head).n + 2;

    return w > 8 ? w : 8;
}

static void put_figures(const table *t, size_t i)
{
    const vr_ledger *l = &t->s->results[i].ledger;

    vr_left(t->r, vr_scenario_name(t->r, t->s, i), t->name);
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++)
        if (t->shown[c])
            vr_right(t->r, l->category[c].counted ? vr_gib(t->r, l->category[c].bytes) : "-",
                     column_width(c));
    vr_ink_on(t->r, VR_INK_BOLD);
    vr_right(t->r, vr_say(t->r, GIB(l->required)), TOTAL_WIDTH);
    vr_ink_off(t->r, VR_INK_BOLD);
    vr_put(&t->r->buf, T("\n"));
}

static void put_table(const table *t)
{
    vr_ink_on(t->r, VR_INK_BOLD);
    vr_left(t->r, "GiB", t->name);
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++)
        if (t->shown[c])
            vr_right(t->r, columns[c].head, column_width(c));
    vr_right(t->r, t->partial ? "counted" : "total", TOTAL_WIDTH);
    vr_ink_off(t->r, VR_INK_BOLD);
    vr_put(&t->r->buf, T("\n"));
    for (size_t i = 0; i < t->s->n_results; i++)
        put_figures(t, i);
}

/* ---- bars ---- */

static void put_legend(const table *t)
{
    const char *text = "";

    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++)
        if (t->drawn[c])
            text = vr_say(t->r, T(text), T(columns[c].mark), T(" "), T(columns[c].meaning), T("  "));
    vr_wrap(t->r, 0, 0, vr_say(t->r, T(text), T(t->cards->n_cards != 0 ? "| edge of the card" : "")));
}

static void put_bar_head(const table *t)
{
    vr_report *r = t->r;

    if (t->cards->n_cards == 0 || !t->same_cards)
        return;
    vr_put_repeat(&r->buf, " ", t->name + (vr_terminal(r) ? 1 + t->scale.cells + t->scale.n_edges : 0));
    for (size_t i = 0; i < t->cards->n_cards; i++) {
        const vr_scenario_card *c = &t->cards->cards[i];
        bool last = i + 1 == t->cards->n_cards;
        vr_put(&r->buf, T("  "));
        vr_ink_on(r, VR_INK_BOLD);
        vr_left(r, vr_scenario_size(r, c->bytes, c->count), last ? 0 : ROOM_WIDTH - 2);
        vr_ink_off(r, VR_INK_BOLD);
    }
    vr_put(&r->buf, T("\n"));
}

static void put_rooms(const table *t, const vr_scenario_result *x)
{
    vr_report *r = t->r;

    for (size_t i = 0; i < x->n_cards; i++) {
        const vr_scenario_card *c = &x->cards[i];
        const char *room = vr_scenario_room(r, c, x->ledger.required);
        if (!t->same_cards)
            room = vr_say(r, T(vr_scenario_size(r, c->bytes, c->count)), T(" "), T(room));
        vr_put(&r->buf, T("  "));
        vr_ink_on(r, vr_verdict_ink(c->verdict));
        vr_left(r, room, i + 1 < x->n_cards ? ROOM_WIDTH - 2 : 0);
        vr_ink_off(r, vr_verdict_ink(c->verdict));
    }
    if (x->n_cards == 0)
        vr_wrap(r, 0, 0, ""); /* a bar may end in blanks */
    else
        vr_put(&r->buf, T("\n"));
}

static void put_bars(const table *t)
{
    vr_report *r = t->r;
    uint64_t parts[VR_CATEGORY_COUNT];
    char marks[VR_CATEGORY_COUNT];

    if (t->cards->n_cards == 0 && !vr_terminal(r)) /* neither bars nor verdicts to show */
        return;
    put_bar_head(t);
    for (size_t i = 0; i < t->s->n_results; i++) {
        const vr_scenario_result *x = &t->s->results[i];
        for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
            parts[c] = x->ledger.category[c].counted ? x->ledger.category[c].bytes : 0;
            marks[c] = columns[c].mark[0];
        }
        vr_left(r, vr_scenario_name(r, t->s, i), t->name);
        if (vr_terminal(r)) {
            vr_put(&r->buf, T(" "));
            vr_bar_marks(r, &t->scale, parts, marks, VR_CATEGORY_COUNT);
        }
        put_rooms(t, x);
    }
    if (vr_terminal(r))
        put_legend(t);
}

/* ---- the smallest changes ---- */

static void put_change(const table *t, size_t i, const vr_scenario_card *c, size_t size_width)
{
    vr_report *r = t->r;
    const vr_scenario_lever *v = c->combination;
    const char *cards = c->smallest_count > 1 ? vr_say(r, T("; or "), U(c->smallest_count), T(" cards")) : "";
    const char *what = c->combination_note != NULL ? c->combination_note : "nothing found";
    size_t at = 2 + t->name + 2 + size_width + 2;

    if (v != NULL)
        what = vr_say(r, T(v->option != NULL ? v->option : v->change), T("  "), T(vr_gib(r, v->required)),
                      T(" GiB"));
    vr_put(&r->buf, T("  "));
    vr_left(r, vr_scenario_name(r, t->s, i), t->name + 2);
    vr_left(r, vr_scenario_size(r, c->bytes, c->count), size_width + 2);
    vr_wrap(r, at, at, vr_say(r, T(what), T(cards)));
}

static size_t widest_size(const table *t)
{
    size_t width = 6;

    for (size_t i = 0; i < t->s->n_results; i++) {
        const vr_scenario_result *x = &t->s->results[i];
        for (size_t k = 0; k < x->n_cards; k++) {
            size_t w = vr_str_of(vr_scenario_size(t->r, x->cards[k].bytes, x->cards[k].count)).n;
            width = w > width ? w : width;
        }
    }
    return width;
}

static void put_changes(const table *t)
{
    vr_report *r = t->r;
    size_t n = 0, size_width = widest_size(t);
    const char *note = NULL;

    for (size_t i = 0; i < t->s->n_results; i++) {
        const vr_scenario_result *x = &t->s->results[i];
        for (size_t k = 0; k < x->n_cards; k++) {
            if (x->cards[k].verdict == VRAM_FITS)
                continue;
            if (n++ == 0) {
                vr_inked(r, VR_INK_BOLD, "smallest change that fits");
                vr_put(&r->buf, T("\n"));
            }
            put_change(t, i, &x->cards[k], size_width);
            note = x->count_note != NULL ? x->count_note : note;
        }
        vr_report_flush(r);
    }
    if (note != NULL) {
        vr_ink_on(r, VR_INK_FAINT);
        vr_wrap(r, 0, 2, vr_say(r, T("  cards "), T(note)));
        vr_ink_off(r, VR_INK_FAINT);
    }
}

void vr_scenario_table(vr_report *r, const vram_scenario *s)
{
    table t = measure(r, s);

    put_verdict(&t);
    put_table(&t);
    put_bars(&t);
    put_changes(&t);
}
