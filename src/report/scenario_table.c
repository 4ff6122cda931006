/* SPDX-License-Identifier: MIT
 *
 * Several scenarios side by side: a table of the categories in GiB, then one bar a scenario with a letter a category and
 * the edge of each card size, and the verdict on each.
 */
#include "report/scenario_report.h"

#define NAME_MOST 24
#define VERDICT_WIDTH 15

/* Category, heading of its column, letter in the bar */
static const struct {
    const char *head;
    char mark;
} columns[VR_CATEGORY_COUNT] = {
    [VR_WEIGHTS] = { "weights", 'W' },       [VR_GRADIENTS] = { "grads", 'G' },
    [VR_OPTIMIZER] = { "optimizer", 'O' },   [VR_KV_CACHE] = { "KV cache", 'K' },
    [VR_ACTIVATIONS] = { "activ.", 'A' }, [VR_OVERHEAD] = { "overhead", '+' },
};

typedef struct table {
    vr_report *r;
    const vram_scenario *s;
    bool shown[VR_CATEGORY_COUNT]; /* something is counted in one of the scenarios, or not counted */
    size_t name;                   /* width */
    uint64_t most;
    const vr_scenario_result *cards; /* the scenario with the most card sizes */
    bool same_cards;                 /* all have these sizes */
} table;

static bool same_sizes(const vr_scenario_result *a, const vr_scenario_result *b)
{
    bool same = a->n_cards == b->n_cards;

    for (size_t i = 0; same && i < a->n_cards; i++)
        same = a->cards[i].available == b->cards[i].available;
    return same;
}

static table measure(vr_report *r, const vram_scenario *s)
{
    table t = { .r = r, .s = s, .name = 4, .cards = &s->results[0], .same_cards = true };

    for (size_t i = 0; i < s->n_results; i++) {
        const vr_scenario_result *x = &s->results[i];
        size_t w = vr_utf8_width(vr_str_of(vr_scenario_name(r, s, i)));
        t.name = w > t.name ? w : t.name;
        t.most = x->ledger.required > t.most ? x->ledger.required : t.most;
        t.cards = x->n_cards > t.cards->n_cards ? x : t.cards;
        for (size_t c = 0; c < VR_CATEGORY_COUNT; c++)
            t.shown[c] = t.shown[c] || !vr_figure_absent(&x->ledger.category[c]);
    }
    for (size_t i = 0; i < s->n_results; i++)
        t.same_cards = t.same_cards && same_sizes(&s->results[i], t.cards);
    t.name = t.name < NAME_MOST ? t.name : NAME_MOST;
    return t;
}

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
            vr_right(t->r, l->category[c].counted ? vr_gib(t->r, l->category[c].bytes) : "-", column_width(c));
    vr_ink_on(t->r, VR_INK_BOLD);
    vr_right(t->r, vr_say(t->r, GIB(l->required)), 9);
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
    vr_right(t->r, "counted", 9);
    vr_ink_off(t->r, VR_INK_BOLD);
    vr_put(&t->r->buf, T("\n"));
    for (size_t i = 0; i < t->s->n_results; i++)
        put_figures(t, i);
}

static const char *size_head(vr_report *r, const vr_scenario_card *c)
{
    uint64_t tenths = vr_mul_div(c->available, 10, VR_GIB);

    return vr_say(r, T("  in "), FIXED(tenths, 10, tenths % 10 != 0 ? 1 : 0), T(" GiB"));
}

static void put_verdicts(const table *t, const vr_scenario_result *x)
{
    for (size_t i = 0; i < x->n_cards; i++) {
        const vr_scenario_card *c = &x->cards[i];
        const char *word = c->verdict == VRAM_FITS ? "fits" : c->verdict == VRAM_TIGHT ? "tight" : "no";
        const char *room = vr_say(t->r, T(vr_gib_signed(t->r, c->headroom)), T(c->headroom < 0 ? " over" : " left"));
        vr_put(&t->r->buf, T("  "));
        vr_ink_on(t->r, vr_verdict_ink(c->verdict));
        vr_left(t->r, t->same_cards ? word : vr_say(t->r, T(size_head(t->r, c) + 2), T(" "), T(word)), 5);
        vr_ink_off(t->r, vr_verdict_ink(c->verdict));
        vr_left(t->r, room, i + 1 < x->n_cards ? VERDICT_WIDTH - 7 + 4 : 0);
    }
}

static void put_bars(const table *t)
{
    vr_report *r = t->r;
    uint64_t edges[VR_SCENARIO_CARDS], parts[VR_CATEGORY_COUNT];
    char marks[VR_CATEGORY_COUNT];
    size_t verdicts = t->cards->n_cards * (VERDICT_WIDTH + 4), taken = t->name + 1 + verdicts, columns_ = r->style->columns;

    for (size_t i = 0; i < t->cards->n_cards; i++)
        edges[i] = t->cards->cards[i].available;
    vr_scale scale = vr_scale_of(columns_ > taken + 16 ? columns_ - taken : 16, t->most, edges, t->cards->n_cards);
    for (size_t i = 0; i < t->s->n_results; i++) {
        const vr_scenario_result *x = &t->s->results[i];
        for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
            parts[c] = x->ledger.category[c].counted ? x->ledger.category[c].bytes : 0;
            marks[c] = columns[c].mark;
        }
        vr_left(r, vr_scenario_name(r, t->s, i), t->name);
        vr_put(&r->buf, T(" "));
        if (vr_terminal(r))
            vr_bar_marks(r, &scale, parts, marks, VR_CATEGORY_COUNT);
        put_verdicts(t, x);
        vr_put(&r->buf, T("\n"));
    }
}

void vr_scenario_table(vr_report *r, const vram_scenario *s)
{
    table t = measure(r, s);

    put_table(&t);
    put_bars(&t);
}
