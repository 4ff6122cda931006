/* SPDX-License-Identifier: MIT
 *
 * `vram ledger` on a screen. One scenario: like `vram fit`, over what is counted. Several: see
 * scenario_table.c. Then the changes one at a time, the smallest combination, the number of cards.
 */
#include "report/scenario_report.h"

#define INDENT 13
#define OPTION_MOST 40

const char *vr_scenario_name(vr_report *r, const vram_scenario *s, size_t i)
{
    const char *name = s->results[i].numbers.name;

    return name != NULL ? name : vr_say(r, T("scenario "), U(i + 1));
}

const char *vr_scenario_size(vr_report *r, uint64_t bytes, uint64_t count)
{
    uint64_t parts = vr_mul_div(bytes, 100, VR_GIB);
    unsigned places = parts % 100 == 0 ? 0 : parts % 10 == 0 ? 1 : 2;
    const char *size = vr_say(r, FIXED(parts, 100, places), T(" GiB"));

    return count > 1 ? vr_say(r, U(count), T(" x "), T(size)) : size;
}

const char *vr_scenario_room(vr_report *r, const vr_scenario_card *c, uint64_t required)
{
    const char *word = c->verdict == VRAM_FITS ? "fits, " : c->verdict == VRAM_TIGHT ? "tight, " : "no, ";

    return vr_say(r, T(word), T(vr_gib_between(r, c->available, required, c->headroom)),
                  T(c->headroom < 0 ? " short" : " left"));
}

/* ---- one scenario ---- */

/* Names of what is not counted: "activations and runtime overhead"; NULL: all is. */
static const char *not_counted(vr_report *r, const vr_ledger *l)
{
    const char *list = "";
    size_t n = 0, k = 0;

    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++)
        n += !l->category[c].counted;
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
        if (l->category[c].counted)
            continue;
        list = vr_say(r, T(list),
                      T(k == 0       ? ""
                        : k + 1 == n ? " and "
                                     : ", "),
                      T(vr_category_screen((vr_category)c)));
        k++;
    }
    return n != 0 ? list : NULL;
}

static void put_verdict(vr_report *r, const vr_scenario_result *x)
{
    const char *head = x->n_cards != 0 ? vr_say(r, T(vr_verdict_screen(x->verdict)), T("  ")) : "";
    const char *missing = not_counted(r, &x->ledger), *cards = "";

    for (size_t i = 0; i < x->n_cards; i++)
        cards =
            vr_say(r, T(cards), T(vr_dot(r)), T(vr_scenario_size(r, x->cards[i].bytes, x->cards[i].count)),
                   T(": "), T(vr_scenario_room(r, &x->cards[i], x->ledger.required)));
    vr_para(r, vr_verdict_ink(x->verdict), head, 0,
            vr_say(r, T(vr_gib(r, x->ledger.required)),
                   T(missing == NULL ? " GiB" : " GiB of what is counted"), T(cards),
                   T(missing != NULL ? vr_dot(r) : ""), T(missing != NULL ? "not counted: " : ""),
                   T(missing != NULL ? missing : "")));
}

static void put_ledger(vr_report *r, const vr_scenario_result *x)
{
    const char *notes[VR_CATEGORY_COUNT];
    uint64_t edges[VR_SCENARIO_CARDS];
    bool wide = r->style->columns >= 120 || !vr_terminal(r) || r->style->verbose;

    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
        const char *grows = vr_category_grows_with((vr_category)c, x->numbers.train);
        const char *mark = x->ledger.least_certain == (int)c ? ", least certain" : "";
        const char *formula = x->ledger.category[c].formula,
                   *with = vr_terminal(r) && !wide ? "" : "grows with ";
        notes[c] = vr_say(r, T(with), T(grows != NULL ? grows : "nothing"), T(mark));
        if (!x->ledger.category[c].counted)
            notes[c] = formula;
        else if (wide && formula != NULL)
            notes[c] = vr_say(r, T(formula), T("; "), T(notes[c]));
    }
    for (size_t i = 0; i < x->n_cards; i++)
        edges[i] = x->cards[i].available;
    vr_ledger_rows(r, &x->ledger, edges, x->n_cards, notes, wide ? NULL : "grows with");
}

static void put_least_certain(vr_report *r, const vr_scenario_result *x)
{
    if (x->ledger.least_certain < 0)
        return;
    vr_para(r, VR_INK_BOLD, "least sure", INDENT,
            vr_say(r, T(vr_category_screen((vr_category)x->ledger.least_certain)),
                   T(x->least_certain_why != NULL ? ": " : ""),
                   T(x->least_certain_why != NULL ? x->least_certain_why : "")));
}

/* ---- changes ---- */

static const char *what_of(const vr_scenario_lever *v)
{
    return v->option != NULL ? v->option : v->change;
}

static size_t widest_option(const vr_scenario_result *x)
{
    size_t width = 20; /* "one change at a time" with its indentation is 25 */

    for (size_t i = 0; i < x->n_levers; i++) {
        size_t w = vr_utf8_width(vr_str_of(what_of(&x->levers[i])));
        width = w > width ? w : width;
    }
    return width < OPTION_MOST ? width : OPTION_MOST;
}

static void put_lever_head(vr_report *r, const vr_scenario_result *x, size_t width)
{
    vr_ink_on(r, VR_INK_BOLD);
    vr_left(r, "one change at a time", 5 + width);
    vr_right(r, "GiB", 8);
    for (size_t i = 0; i < x->n_cards; i++)
        vr_put(&r->buf, T("  "), T(vr_scenario_size(r, x->cards[i].bytes, x->cards[i].count)));
    vr_put(&r->buf, T("  cost"));
    vr_ink_off(r, VR_INK_BOLD);
    vr_put(&r->buf, T("\n"));
}

/* The changes of one scenario, one at a time. */
static void put_levers(vr_report *r, const vr_scenario_result *x)
{
    size_t width = widest_option(x);

    if (x->n_levers == 0)
        return;
    put_lever_head(r, x, width);
    for (size_t i = 0; i < x->n_levers; i++) {
        const vr_scenario_lever *v = &x->levers[i];
        size_t at = 5 + width + 8 + 2;
        vr_put(&r->buf, T("  "));
        vr_left(r, vr_say(r, U(v->rank)), 3);
        vr_left(r, what_of(v), width);
        vr_right(r, vr_gib(r, v->required), 8);
        for (size_t k = 0; k < x->n_cards; k++) {
            size_t w = vr_str_of(vr_scenario_size(r, x->cards[k].bytes, x->cards[k].count)).n;
            vr_put(&r->buf, T("  "));
            vr_ink_on(r, v->fits[k] ? VR_INK_GOOD : VR_INK_PLAIN);
            vr_left(r, v->fits[k] ? "fits" : "no", w);
            vr_ink_off(r, v->fits[k] ? VR_INK_GOOD : VR_INK_PLAIN);
            at += w + 2;
        }
        vr_put(&r->buf, T("  "));
        vr_wrap(r, at, at + 16 <= r->style->columns ? at : 7, v->cost != NULL ? v->cost : "");
    }
}

static void put_combination(vr_report *r, const vr_scenario_card *c)
{
    const vr_scenario_lever *v = c->combination;
    const char *head = vr_say(r, T("to fit "), T(vr_scenario_size(r, c->bytes, c->count)), T("  "));

    if (c->verdict == VRAM_FITS)
        return;
    if (v != NULL)
        vr_para(r, VR_INK_BOLD, head, INDENT,
                vr_say(r, T(what_of(v)), T("   "), T(vr_gib(r, v->required)), T(" GiB"),
                       T(v->cost != NULL ? "; " : ""), T(v->cost != NULL ? v->cost : "")));
    else if (c->combination_note != NULL)
        vr_para(r, VR_INK_BOLD, head, INDENT, c->combination_note);
}

static void put_counts(vr_report *r, const vr_scenario_result *x)
{
    const char *list = "";

    for (size_t i = 0; i < x->n_cards; i++) {
        const vr_scenario_card *c = &x->cards[i];
        if (c->verdict != VRAM_FITS && c->smallest_count > 1)
            list = vr_say(r, T(list), T(*list != '\0' ? vr_dot(r) : ""), U(c->smallest_count),
                          T(" cards of "), T(vr_scenario_size(r, c->bytes, 1)));
    }
    if (*list != '\0')
        vr_para(r, VR_INK_BOLD, "or", INDENT,
                vr_say(r, T(list), T(", "), T(x->count_note != NULL ? x->count_note : "")));
}

/* ---- settings ---- */

static const char *flag_of(vr_report *r, vr_number number)
{
    size_t n;
    const vram_option *rows = vram_scenario_options(&n);
    vr_str rest, word = { NULL, 0 };

    for (size_t i = 0; i < n; i++) {
        if (!vr_str_is(vr_str_of(vr_number_key(number)), rows[i].key))
            continue;
        rest = vr_str_of(rows[i].flags);
        vr_str_split(&rest, ' ', &word);
    }
    return vr_say(r, S(word));
}

static void put_assumed(vr_report *r, const vr_scenario_result *x)
{
    const char *list = "";

    for (size_t i = 0; i < x->n_settings; i++) {
        const vr_scenario_setting *g = &x->settings[i];
        if (g->set_by == VR_BY_DEFAULT)
            list = vr_say(r, T(list), T(*list != '\0' ? vr_dot(r) : ""), T(flag_of(r, g->number)), T(" "),
                          T(g->value));
    }
    if (*list != '\0')
        vr_para(r, VR_INK_BOLD, "assumed", INDENT, list);
}

static void put_one(vr_report *r, const vr_scenario_result *x)
{
    put_verdict(r, x);
    put_ledger(r, x);
    put_least_certain(r, x);
    put_levers(r, x);
    for (size_t i = 0; i < x->n_cards; i++)
        put_combination(r, &x->cards[i]);
    put_counts(r, x);
    put_assumed(r, x);
}

static void put_details(vr_report *r, const vram_scenario *s)
{
    for (size_t i = 0; i < s->n_results; i++) {
        vr_put(&r->buf, T("\n"));
        vr_inked(r, VR_INK_BOLD, vr_scenario_name(r, s, i));
        vr_put(&r->buf, T("\n"));
        put_one(r, &s->results[i]);
        vr_report_flush(r);
    }
}

void vr_scenario_text(vr_report *r, const vram_scenario *s)
{
    if (s->n_results == 1) {
        put_one(r, &s->results[0]);
        return;
    }
    vr_scenario_table(r, s);
    if (r->style->verbose)
        put_details(r, s);
    else
        vr_para(r, VR_INK_FAINT, "each change one at a time: -v", 0, "");
}
