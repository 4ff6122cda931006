/* SPDX-License-Identifier: MIT
 *
 * `vram ledger` on a screen. One scenario: like `vram fit`, over what is counted. Several: see scenario_table.c. Then the
 * changes one at a time, the smallest combination, the number of cards.
 */
#include "report/scenario_report.h"

#define INDENT 13

const char *vr_scenario_name(vr_report *r, const vram_scenario *s, size_t i)
{
    const char *name = s->results[i].numbers.name;

    return name != NULL ? name : vr_say(r, T("scenario "), U(i + 1));
}

/* Names of what is not counted: "activations and runtime overhead". */
static const char *not_counted(vr_report *r, const vr_ledger *l)
{
    const char *list = "";
    size_t n = 0, k = 0;

    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++)
        n += !l->category[c].counted;
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
        if (l->category[c].counted)
            continue;
        list = vr_say(r, T(list), T(k == 0 ? "" : k + 1 == n ? " and " : ", "), T(vr_category_screen((vr_category)c)));
        k++;
    }
    return n != 0 ? list : NULL;
}

static const char *size_words(vr_report *r, const vr_scenario_card *c)
{
    uint64_t tenths = vr_mul_div(c->bytes, 10, VR_GIB);
    const char *size = vr_say(r, FIXED(tenths, 10, tenths % 10 != 0 ? 1 : 0), T(" GiB"));

    return c->count > 1 ? vr_say(r, U(c->count), T(" x "), T(size)) : size;
}

static const char *card_words(vr_report *r, const vr_scenario_result *x)
{
    const char *list = "";

    for (size_t i = 0; i < x->n_cards; i++) {
        const vr_scenario_card *c = &x->cards[i];
        list = vr_say(r, T(list), T(vr_dot(r)), T(size_words(r, c)), T(": "), T(vr_gib_signed(r, c->headroom)),
                      T(c->headroom < 0 ? " GiB short" : c->verdict == VRAM_FITS ? " GiB left" : " GiB left, tight"));
    }
    return list;
}

static void put_verdict(vr_report *r, const vr_scenario_result *x)
{
    const char *head = x->n_cards != 0 ? vr_say(r, T(vr_verdict_screen(x->verdict)), T("  ")) : "";
    const char *missing = not_counted(r, &x->ledger);
    const char *counted = missing == NULL ? " GiB needed" : " GiB of what is counted";

    vr_para(r, vr_verdict_ink(x->verdict), head, 0,
            vr_say(r, T(vr_gib(r, x->ledger.required)), T(counted), T(card_words(r, x)),
                   T(missing != NULL ? vr_dot(r) : ""), T(missing != NULL ? "not counted: " : ""),
                   T(missing != NULL ? missing : "")));
}

static void put_ledger(vr_report *r, const vr_scenario_result *x)
{
    const char *notes[VR_CATEGORY_COUNT];
    uint64_t edges[VR_SCENARIO_CARDS];
    bool wide = r->style->columns >= 120 || !vr_terminal(r);

    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
        const char *grows = vr_category_grows_with((vr_category)c, x->numbers.train);
        const char *mark = x->ledger.least_certain == (int)c ? "; least certain" : "";
        const char *formula = x->ledger.category[c].formula;
        notes[c] = grows == NULL ? "" : vr_say(r, T("grows with "), T(grows), T(mark));
        if (wide && formula != NULL)
            notes[c] = vr_say(r, T(formula), T("; "), T(notes[c]));
    }
    for (size_t i = 0; i < x->n_cards; i++)
        edges[i] = x->cards[i].available;
    vr_ledger_rows(r, &x->ledger, edges, x->n_cards, notes);
}

static void put_least_certain(vr_report *r, const vr_scenario_result *x)
{
    if (x->ledger.least_certain < 0)
        return;
    vr_para(r, VR_INK_BOLD, "least sure", INDENT,
            vr_say(r, T(vr_category_screen((vr_category)x->ledger.least_certain)),
                   T(x->least_certain_why != NULL ? ": " : ""), T(x->least_certain_why != NULL ? x->least_certain_why : "")));
}

/* ---- changes ---- */

static const char *where_it_fits(vr_report *r, const vr_scenario_result *x, const vr_scenario_lever *v)
{
    const char *list = "";

    for (size_t i = 0; i < x->n_cards; i++)
        if (v->fits[i])
            list = vr_say(r, T(list), T(*list != '\0' ? ", " : "fits "), T(size_words(r, &x->cards[i])));
    return *list != '\0' ? list : x->n_cards != 0 ? "not enough alone" : "";
}

static void put_lever(vr_report *r, const vr_scenario_result *x, const vr_scenario_lever *v, size_t width)
{
    const char *what = v->option != NULL ? v->option : v->change;
    size_t at = 5 + width + 2;

    vr_put(&r->buf, T("  "), U(v->rank), T(v->rank < 10 ? "  " : " "));
    vr_left(r, what, width);
    vr_right(r, vr_gib(r, v->required), 9);
    vr_put(&r->buf, T(" GiB  "));
    vr_wrap(r, at + 13, at + 13,
            vr_say(r, T(where_it_fits(r, x, v)), T(x->n_cards != 0 && v->cost != NULL ? "; " : ""),
                   T(v->cost != NULL ? v->cost : "")));
}

static void put_levers(vr_report *r, const vr_scenario_result *x)
{
    size_t width = 0;

    if (x->n_levers == 0)
        return;
    for (size_t i = 0; i < x->n_levers; i++) {
        const vr_scenario_lever *v = &x->levers[i];
        size_t w = vr_utf8_width(vr_str_of(v->option != NULL ? v->option : v->change));
        width = w > width ? w : width;
    }
    vr_inked(r, VR_INK_BOLD, "one change at a time");
    vr_put(&r->buf, T("\n"));
    for (size_t i = 0; i < x->n_levers; i++)
        put_lever(r, x, &x->levers[i], width);
}

static void put_combination(vr_report *r, const vr_scenario_card *c, const char *whose)
{
    const vr_scenario_lever *v = c->combination;
    const char *head = vr_say(r, T(whose), T("to fit "), T(size_words(r, c)), T("  "));

    if (c->verdict == VRAM_FITS)
        return;
    if (v != NULL)
        vr_para(r, VR_INK_BOLD, head, INDENT,
                vr_say(r, T(v->option != NULL ? v->option : v->change), T(": "), T(vr_gib(r, v->required)), T(" GiB"),
                       T(v->cost != NULL ? "; " : ""), T(v->cost != NULL ? v->cost : "")));
    else if (c->combination_note != NULL)
        vr_para(r, VR_INK_BOLD, head, INDENT, c->combination_note);
}

static const char *counts(vr_report *r, const vr_scenario_result *x, const char *list, const char *whose)
{
    for (size_t i = 0; i < x->n_cards; i++) {
        const vr_scenario_card *c = &x->cards[i];
        uint64_t tenths = vr_mul_div(c->bytes, 10, VR_GIB);
        if (c->verdict == VRAM_FITS || c->smallest_count < 2)
            continue;
        list = vr_say(r, T(list), T(*list != '\0' ? vr_dot(r) : ""), T(whose), U(c->smallest_count), T(" x "),
                      FIXED(tenths, 10, tenths % 10 != 0 ? 1 : 0), T(" GiB"));
    }
    return list;
}

static void put_counts(vr_report *r, const char *list, const char *note)
{
    if (*list != '\0')
        vr_para(r, VR_INK_BOLD, "or cards", INDENT, vr_say(r, T(list), T("; "), T(note != NULL ? note : "")));
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
        if (g->set_by != VR_BY_DEFAULT)
            continue;
        list = vr_say(r, T(list), T(*list != '\0' ? vr_dot(r) : ""), T(flag_of(r, g->number)), T(" "), T(g->value));
    }
    if (*list != '\0')
        vr_para(r, VR_INK_BOLD, "assumed", INDENT, list);
}

static void put_one(vr_report *r, const vram_scenario *s)
{
    const vr_scenario_result *x = &s->results[0];

    put_verdict(r, x);
    put_ledger(r, x);
    put_least_certain(r, x);
    put_levers(r, x);
    for (size_t i = 0; i < x->n_cards; i++)
        put_combination(r, &x->cards[i], "");
    put_counts(r, counts(r, x, "", ""), x->count_note);
    put_assumed(r, x);
}

static void put_several(vr_report *r, const vram_scenario *s)
{
    const char *list = "", *note = NULL;

    vr_scenario_table(r, s);
    for (size_t i = 0; i < s->n_results; i++) {
        const vr_scenario_result *x = &s->results[i];
        const char *name = vr_say(r, T(vr_scenario_name(r, s, i)), T(": "));
        for (size_t k = 0; k < x->n_cards; k++)
            put_combination(r, &x->cards[k], name);
        list = counts(r, x, list, name);
        note = x->count_note != NULL ? x->count_note : note;
        vr_report_flush(r);
    }
    put_counts(r, list, note);
    for (size_t i = 0; i < s->n_results && r->style->verbose; i++) {
        vr_inked(r, VR_INK_BOLD, vr_scenario_name(r, s, i));
        vr_put(&r->buf, T("\n"));
        put_ledger(r, &s->results[i]);
        put_least_certain(r, &s->results[i]);
        put_levers(r, &s->results[i]);
        put_assumed(r, &s->results[i]);
    }
}

void vr_scenario_text(vr_report *r, const vram_scenario *s)
{
    if (s->n_results == 1)
        put_one(r, s);
    else
        put_several(r, s);
}
