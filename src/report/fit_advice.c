/* SPDX-License-Identifier: MIT
 *
 * What to change: levers in the order of their rank, those that make it fit first in the short form, with
 * what each needs and costs; then, whole, what to type for the first; then how many such cards it would take.
 */
#include "report/fit_report.h"

#define SHORT_LEVERS 3
#define RANK_WIDTH 3

static bool is_hardware(const vr_lever *v)
{
    return v->ids[1] == NULL && vr_str_is(vr_str_of(v->ids[0]), "another_gpu");
}

/* The card that a change of the hardware names by its id, "--gpu rtx-5060-ti-16gb"; NULL: none. */
static const vr_gpu *card_of(const vr_lever *v)
{
    static const char option[] = "--gpu ";
    size_t n;
    const vr_gpu *all = vr_gpus(&n);
    vr_str id = vr_str_of(v->option);

    if (!is_hardware(v) || !vr_str_starts(id, option))
        return NULL;
    id = (vr_str){ id.s + sizeof option - 1, id.n - (sizeof option - 1) };
    for (size_t i = 0; i < n; i++)
        if (vr_str_is(id, all[i].id))
            return &all[i];
    return NULL;
}

/* "a larger card: RTX 5060 Ti 16 GB": without the maker, which is the same for all, and with the size. */
static const char *change_of(vr_report *r, const vr_lever *v)
{
    const vr_gpu *g = card_of(v);
    vr_str change = vr_str_of(v->change);
    size_t at;

    if (g == NULL || !vr_str_find(change, g->name, &at))
        return v->change;
    return vr_say(r, S(((vr_str){ change.s, at })), T(vr_card_name(r, g->name, g->marketed_gb)));
}

/* The card that would do, when the short form names it beside the number of cards: below other changes. */
static const vr_lever *card_aside(const vram_fit *f)
{
    const vr_lever *card = NULL;
    bool others = false;

    for (size_t i = 0; i < f->n_levers && f->device != NULL; i++) {
        if (f->levers[i].fits && is_hardware(&f->levers[i]))
            card = &f->levers[i];
        others = others || (f->levers[i].fits && !is_hardware(&f->levers[i]));
    }
    return others ? card : NULL;
}

/* What the lines of one report show: `most` of them, without the card that is told aside. */
typedef struct choice {
    bool verbose;
    const vr_lever *aside;
    size_t most;
} choice;

static choice choose(const vr_report *r, const vram_fit *f)
{
    choice c = { r->style->verbose != 0, NULL, r->style->verbose != 0 ? SIZE_MAX : SHORT_LEVERS };

    if (c.verbose || !vr_terminal(r) || f->device == NULL)
        return c;
    c.aside = card_aside(f);
    if (c.aside != NULL || f->smallest_count >= 2) /* they take a line */
        c.most = SHORT_LEVERS - 1;
    return c;
}

/* Where not everything is counted nothing is sure to fit, but what is counted can be too much. */
static bool may_fit(const vram_fit *f, const vr_lever *v)
{
    return f->device != NULL && !v->fits && f->ledger.partial && v->required <= vr_fit_room(f);
}

static bool shown(const vram_fit *f, const vr_lever *v, const choice *c)
{
    bool helps = v->fits || (f->verdict == VRAM_DOES_NOT_FIT && may_fit(f, v));
    return v != c->aside && (c->verbose || f->device == NULL || helps);
}

/* Longer changes do not have the figures below each other. */
static size_t change_most(const vr_report *r)
{
    return r->style->columns >= 120 || !vr_terminal(r) ? 60 : 44;
}

/* Width of the widest change, so that the figures stand below each other. */
static size_t widest(vr_report *r, const vram_fit *f, const choice *c)
{
    size_t width = 0, n = 0;

    for (size_t i = 0; i < f->n_levers && n < c->most; i++) {
        size_t w = vr_utf8_width(vr_str_of(change_of(r, &f->levers[i])));
        if (!shown(f, &f->levers[i], c))
            continue;
        width = w > width && w <= change_most(r) ? w : width;
        n++;
    }
    return width;
}

/* In the short form the cost, in the long form whether it is enough; the cost is then in the line below. */
static const char *tail_words(vr_report *r, const vram_fit *f, const vr_lever *v)
{
    if (r->style->verbose && f->device != NULL)
        return v->fits ? "fits" : v->required <= vr_fit_room(f) ? "may fit" : "not enough alone";
    return vr_say(r, T(may_fit(f, v) ? "may fit; " : ""), T(v->cost != NULL ? v->cost : ""));
}

static void put_lever(vr_report *r, const vram_fit *f, const vr_lever *v, size_t before, size_t width)
{
    size_t at = VR_FIT_INDENT + RANK_WIDTH + width + 13;
    const char *change = change_of(r, v), *about = v->basis == VR_BASIS_FORMULA ? "~" : "";

    vr_inked(r, VR_INK_BOLD, before == 0 || !vr_terminal(r) ? "try      " : "         ");
    vr_left(r, vr_say(r, U(before + 1)), RANK_WIDTH);
    if (vr_utf8_width(vr_str_of(change)) > change_most(r)) {
        vr_wrap(r, VR_FIT_INDENT + RANK_WIDTH, VR_FIT_INDENT + RANK_WIDTH,
                vr_say(r, T(change), T(": "), T(about), T(vr_gib(r, v->required)), T(" GiB; "),
                       T(tail_words(r, f, v))));
        return;
    }
    vr_left(r, change, width);
    vr_right(r, vr_say(r, T(about), T(vr_gib(r, v->required))), 7);
    vr_put(&r->buf, T(" GiB  "));
    vr_wrap(r, at, at + 16 <= r->style->columns ? at : VR_FIT_INDENT + RANK_WIDTH + 2, tail_words(r, f, v));
}

static void put_lever_details(vr_report *r, const vr_lever *v)
{
    const char *option = v->option != NULL ? vr_say(r, T("; here "), T(v->option)) : "";
    const char *cost = v->cost != NULL ? vr_say(r, T("; cost: "), T(v->cost)) : "";
    const char *flag = v->flag != NULL ? vr_say(r, T("; type "), T(v->flag)) : "";
    size_t indent = VR_FIT_INDENT + RANK_WIDTH;

    vr_put_repeat(&r->buf, " ", indent);
    vr_ink_on(r, VR_INK_FAINT);
    vr_wrap(r, indent, indent,
            vr_say(r, T(v->saved < 0 ? "needs " : "saves "), T(vr_gib_signed(r, v->saved)), T(" GiB"),
                   T(v->saved < 0 ? " more" : ""), T(cost), T(flag), T(option)));
    vr_ink_off(r, VR_INK_FAINT);
}

/* The engine's own words, and how to see the change here when there is room for it. */
static void put_what_to_type(vr_report *r, const vr_lever *v)
{
    const char *type = v->flag != NULL ? v->flag : v->option, *here = "";

    if (type == NULL || strcmp(v->ids[0], "another_gpu") == 0) /* nothing to type into the engine */
        return;
    if (v->is_command) {
        vr_fit_command(r, v->flag);
        return;
    }
    if (v->flag != NULL && v->option != NULL)
        here = vr_say(r, T("   (here: "), T(v->option), T(")"));
    if (vr_terminal(r) &&
        VR_FIT_INDENT + vr_utf8_width(vr_str_of(type)) + vr_str_of(here).n > r->style->columns)
        here = "";
    vr_para(r, VR_INK_BOLD, "type", VR_FIT_INDENT, vr_say(r, T(type), T(here)));
}

/* Other hardware: "a larger card: RTX 5060 Ti 16 GB, or 2 x RTX 3060 12 GB at best" */
static void put_cards(vr_report *r, const vram_fit *f, const choice *c)
{
    const char *note = ", at best: real sharding is never perfect", *text = "";
    bool count = f->smallest_count >= 2 && f->device != NULL;

    if (c->verbose && f->count_note != NULL)
        note = vr_say(r, T(", "), T(f->count_note));
    else if (c->aside != NULL)
        note = " at best";
    if (c->aside != NULL)
        text = vr_say(r, T(change_of(r, c->aside)), T(count ? ", or " : ""));
    if (count)
        text = vr_say(r, T(text), T(vr_fit_cards(r, f->device, f->smallest_count)), T(note));
    if (*text != '\0')
        vr_para(r, VR_INK_BOLD, "or", VR_FIT_INDENT, text);
}

/* The changes; the first to be typed, and how many were shown. */
static const vr_lever *put_levers(vr_report *r, const vram_fit *f, const choice *c, size_t *n)
{
    size_t width = widest(r, f, c);
    const vr_lever *best = NULL;

    for (size_t i = 0; i < f->n_levers && *n < c->most; i++) {
        const vr_lever *v = &f->levers[i];
        if (!shown(f, v, c))
            continue;
        best = best == NULL && (v->fits || v->is_command) ? v : best;
        put_lever(r, f, v, (*n)++, width);
        if (c->verbose)
            put_lever_details(r, v);
    }
    return best;
}

void vr_fit_advice(vr_report *r, const vram_fit *f)
{
    const choice c = choose(r, f);
    bool good = f->verdict == VRAM_FITS && !f->slow;
    const vr_lever *best;
    size_t n = 0;

    if (good && !c.verbose)
        return;
    best = put_levers(r, f, &c, &n);
    if (best != NULL && !good)
        put_what_to_type(r, best);
    else if (n == 0 && f->n_levers != 0 && f->verdict != VRAM_UNKNOWN)
        vr_para(r, VR_INK_BOLD, "try", VR_FIT_INDENT,
                "no change of the settings makes it fit (-v lists them)");
    put_cards(r, f, &c);
}
