/* SPDX-License-Identifier: MIT
 *
 * What to change: levers in the order of their rank, those that make it fit first in the short form, with
 * what each needs and costs; then, whole, what to type for the first; then how many such cards it would take.
 */
#include "report/fit_report.h"

#define SHORT_LEVERS 3
#define RANK_WIDTH 3

static bool shown(const vram_fit *f, const vr_lever *v, bool verbose)
{
    return verbose || f->device == NULL || v->fits;
}

/* "a larger card: NVIDIA GeForce RTX 3090" without the maker, which is the same for all. */
static const char *change_of(vr_report *r, const vr_lever *v)
{
    static const char *const makers[] = { "NVIDIA GeForce ", "NVIDIA " };
    vr_str change = vr_str_of(v->change);
    size_t at;

    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (vr_str_find(change, makers[i], &at))
            return vr_say(r, S(((vr_str){ change.s, at })), T(change.s + at + vr_str_of(makers[i]).n));
    return v->change;
}

/* Longer changes do not have the figures below each other. */
static size_t change_most(const vr_report *r)
{
    return r->style->columns >= 120 || !vr_terminal(r) ? 60 : 44;
}

/* Width of the widest change, so that the figures stand below each other. */
static size_t widest(vr_report *r, const vram_fit *f, bool verbose, size_t most)
{
    size_t width = 0, n = 0;

    for (size_t i = 0; i < f->n_levers && n < most; i++) {
        size_t w = vr_utf8_width(vr_str_of(change_of(r, &f->levers[i])));
        if (!shown(f, &f->levers[i], verbose))
            continue;
        width = w > width && w <= change_most(r) ? w : width;
        n++;
    }
    return width;
}

/* In the short form the cost, in the long form whether it is enough; the cost is then in the line below. */
static const char *tail_words(const vr_report *r, const vram_fit *f, const vr_lever *v)
{
    if (r->style->verbose && f->device != NULL)
        return v->fits ? "fits" : "not enough alone";
    return v->cost != NULL ? v->cost : "";
}

static void put_lever(vr_report *r, const vram_fit *f, const vr_lever *v, bool first, size_t width)
{
    size_t at = VR_FIT_INDENT + RANK_WIDTH + width + 13;
    const char *change = change_of(r, v), *about = v->basis == VR_BASIS_FORMULA ? "~" : "";

    vr_inked(r, VR_INK_BOLD, first || !vr_terminal(r) ? "try      " : "         ");
    vr_left(r, vr_say(r, U(v->rank)), RANK_WIDTH);
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

    if (type == NULL)
        return;
    if (v->flag != NULL && v->option != NULL)
        here = vr_say(r, T("   (here: "), T(v->option), T(")"));
    if (vr_terminal(r) &&
        VR_FIT_INDENT + vr_utf8_width(vr_str_of(type)) + vr_str_of(here).n > r->style->columns)
        here = "";
    vr_para(r, VR_INK_BOLD, "type", VR_FIT_INDENT, vr_say(r, T(type), T(here)));
}

static void put_count(vr_report *r, const vram_fit *f)
{
    const char *note = f->count_note != NULL && r->style->verbose ? f->count_note
                                                                  : "at best: real sharding is never perfect";

    if (f->smallest_count < 2 || f->device == NULL)
        return;
    vr_para(r, VR_INK_BOLD, "or", VR_FIT_INDENT,
            vr_say(r, U(f->smallest_count), T(" such cards, "), T(note)));
}

void vr_fit_advice(vr_report *r, const vram_fit *f)
{
    bool verbose = r->style->verbose != 0;
    size_t most = verbose ? SIZE_MAX : SHORT_LEVERS, n = 0, width = widest(r, f, verbose, most);
    const vr_lever *best = NULL;

    if (f->verdict == VRAM_FITS && !verbose)
        return;
    for (size_t i = 0; i < f->n_levers && n < most; i++) {
        const vr_lever *v = &f->levers[i];
        if (!shown(f, v, verbose))
            continue;
        best = best == NULL && v->fits ? v : best;
        put_lever(r, f, v, n++ == 0, width);
        if (verbose)
            put_lever_details(r, v);
    }
    if (best != NULL && f->verdict != VRAM_FITS)
        put_what_to_type(r, best);
    else if (n == 0 && f->n_levers != 0 && f->verdict != VRAM_UNKNOWN)
        vr_para(r, VR_INK_BOLD, "try", VR_FIT_INDENT,
                "no change of the settings makes it fit (-v lists them)");
    put_count(r, f);
}
