/* SPDX-License-Identifier: MIT
 *
 * What to change: levers in the order of their rank, those that make it fit first in the short form, each with what to
 * type and what it costs; then how many such cards it would take.
 */
#include "report/fit_report.h"

#define SHORT_LEVERS 3

static const char *what_of(const vr_lever *v)
{
    return v->flag != NULL ? v->flag : v->change;
}

static bool shown(const vram_fit *f, const vr_lever *v, bool verbose)
{
    return verbose || f->device == NULL || v->fits;
}

/* Width of the widest thing to type, so that the figures stand below each other. */
static size_t widest(const vram_fit *f, bool verbose, size_t most)
{
    size_t width = 0, n = 0;

    for (size_t i = 0; i < f->n_levers && n < most; i++) {
        size_t w = vr_utf8_width(vr_str_of(what_of(&f->levers[i])));
        if (!shown(f, &f->levers[i], verbose))
            continue;
        width = w > width ? w : width;
        n++;
    }
    return width;
}

static void put_lever(vr_report *r, const vram_fit *f, const vr_lever *v, size_t nth, size_t width)
{
    const char *rank = vr_say(r, U(v->rank), T("  "));
    size_t at = VR_FIT_INDENT + vr_str_of(rank).n + width + 2;
    const char *about = v->basis == VR_BASIS_FORMULA ? "about " : "";
    const char *fits = v->fits ? "fits" : "not enough alone";

    if (nth == 0)
        vr_inked(r, VR_INK_BOLD, "what to type ");
    else if (vr_terminal(r))
        vr_put_repeat(&r->buf, " ", VR_FIT_INDENT);
    else
        vr_put(&r->buf, T("or type      "));
    vr_put(&r->buf, T(rank));
    vr_ink_on(r, VR_INK_BOLD);
    vr_left(r, what_of(v), width);
    vr_ink_off(r, VR_INK_BOLD);
    vr_put(&r->buf, T("  "));
    vr_wrap(r, at, at < r->style->columns / 2 ? at : VR_FIT_INDENT + 3,
            vr_say(r, T(about), T(vr_gib(r, v->required)), T(" GiB"), T(f->device == NULL ? "" : ", "),
                   T(f->device == NULL ? "" : fits), T(v->cost != NULL ? ", " : ""),
                   T(v->cost != NULL ? v->cost : "")));
}

static void put_lever_details(vr_report *r, const vr_lever *v)
{
    const char *option = v->option != NULL ? vr_say(r, T("; here: "), T(v->option)) : "";
    const char *change = v->flag != NULL ? v->change : "";

    vr_put_repeat(&r->buf, " ", VR_FIT_INDENT + 3);
    vr_ink_on(r, VR_INK_FAINT);
    vr_wrap(r, VR_FIT_INDENT + 3, VR_FIT_INDENT + 3,
            vr_say(r, T(change), T(*change != '\0' ? "; " : ""), T(v->saved < 0 ? "needs " : "saves "),
                   T(vr_gib_signed(r, v->saved)), T(" GiB"), T(v->saved < 0 ? " more" : ""), T(option)));
    vr_ink_off(r, VR_INK_FAINT);
}

static void put_count(vr_report *r, const vram_fit *f)
{
    const char *note = f->count_note != NULL ? vr_say(r, T(", "), T(f->count_note)) : "";

    if (f->smallest_count < 2 || f->device == NULL)
        return;
    vr_para(r, VR_INK_BOLD, "or", VR_FIT_INDENT, vr_say(r, U(f->smallest_count), T(" such cards"), T(note)));
}

void vr_fit_advice(vr_report *r, const vram_fit *f)
{
    bool verbose = r->style->verbose != 0;
    size_t most = verbose ? SIZE_MAX : SHORT_LEVERS, n = 0;

    if (f->verdict == VRAM_FITS && !verbose)
        return;
    for (size_t i = 0; i < f->n_levers && n < most; i++) {
        if (!shown(f, &f->levers[i], verbose))
            continue;
        put_lever(r, f, &f->levers[i], n++, widest(f, verbose, most));
        if (verbose)
            put_lever_details(r, &f->levers[i]);
    }
    if (n == 0 && f->n_levers != 0 && f->device != NULL)
        vr_para(r, VR_INK_BOLD, "what to type", VR_FIT_INDENT, "no change of the settings makes it fit (-v lists them)");
    put_count(r, f);
}
