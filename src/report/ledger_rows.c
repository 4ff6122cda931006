/* SPDX-License-Identifier: MIT
 *
 * The rows of a ledger: category, GiB, bar against the card's edge, how sure the figure is.
 */
#include "report/fit_report.h"

#define NAME_WIDTH 16
#define GIB_WIDTH 7
#define NOTE_WIDTH 26 /* "simulated, least certain" */
#define BAR_LEAST 14
#define BAR_MOST 72

const char *vr_basis_screen(uint8_t basis)
{
    static const char *const words[VR_BASIS_COUNT] = {
        [VR_BASIS_EXACT] = "exact",
        [VR_BASIS_SIMULATED] = "simulated",
        [VR_BASIS_FORMULA] = "by formula",
        [VR_BASIS_TABLE] = "looked up",
        [VR_BASIS_MEASURED] = "measured",
        [VR_BASIS_ASSUMED] = "assumed",
        [VR_BASIS_NOT_COUNTED] = "not counted",
    };

    return basis < VR_BASIS_COUNT ? words[basis] : "?";
}

bool vr_figure_absent(const vr_figure *figure)
{
    bool later = figure->basis == VR_BASIS_SIMULATED && figure->formula != NULL; /* than the fullest point */
    return figure->counted && figure->bytes == 0 && figure->high == 0 && !later;
}

const char *vr_ledger_note(vr_report *r, const vr_ledger *l, size_t c, const char *extra)
{
    const char *basis = vr_basis_screen(l->category[c].basis);
    const char *mark = l->least_certain == (int)c ? ", least certain" : "";

    if (extra == NULL)
        return vr_say(r, T(basis), T(mark));
    return vr_say(r, T(basis), T(mark), T("; "), T(extra));
}

static void put_row(vr_report *r, const vr_ledger *l, size_t c, const vr_scale *s, uint64_t begin,
                    const char *note)
{
    const vr_figure *g = &l->category[c];
    size_t at = 2 + NAME_WIDTH + GIB_WIDTH + 6;

    vr_put(&r->buf, T(vr_terminal(r) ? "  " : ""));
    vr_left(r, vr_category_screen((vr_category)c), NAME_WIDTH);
    if (!g->counted) {
        vr_put(&r->buf, T("  "));
        vr_inked(r, VR_INK_CARE, "not counted");
        vr_put(&r->buf, T("  "));
        vr_wrap(r, 2 + NAME_WIDTH + 15, 2 + NAME_WIDTH + 2, note != NULL ? note : "");
        return;
    }
    vr_right(r, vr_gib(r, g->bytes), GIB_WIDTH);
    vr_put(&r->buf, T(" GiB  "));
    if (vr_terminal(r)) {
        vr_bar(r, s, begin, vr_add_sat(begin, g->bytes));
        vr_put(&r->buf, T("  "));
        at += s->cells + s->n_edges + 2;
    }
    vr_wrap(r, at, at, note);
}

/* Columns for the bar: what notes of this width leave, within reason. */
static size_t bar_room(const vr_report *r, size_t note)
{
    size_t taken = 2 + NAME_WIDTH + GIB_WIDTH + 6 + 2 + note, columns = r->style->columns;
    size_t room = columns > taken + 8 ? columns - taken : 8;

    return room < BAR_MOST ? room : BAR_MOST;
}

/* Notes may take all but a short bar, and half of a wide screen. */
static size_t notes_most(const vr_report *r)
{
    size_t columns = r->style->columns, taken = 2 + NAME_WIDTH + GIB_WIDTH + 6 + 2 + BAR_LEAST;
    size_t half = columns * 11 / 20, rest = columns > taken + NOTE_WIDTH ? columns - taken : NOTE_WIDTH;

    return rest < half || columns < 100 ? rest : half;
}

void vr_ledger_rows(vr_report *r, const vr_ledger *l, const uint64_t *edges, size_t n_edges,
                    const char *const notes[VR_CATEGORY_COUNT], const char *head)
{
    uint64_t sum = 0, begin = 0;
    size_t widest = NOTE_WIDTH;

    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
        size_t w = l->category[c].counted ? vr_utf8_width(vr_str_of(notes[c])) : 0;
        sum = l->category[c].counted ? vr_add_sat(sum, l->category[c].bytes) : sum;
        widest = w > widest ? w : widest;
    }
    if (widest > notes_most(r))
        widest = notes_most(r);
    vr_scale s = vr_scale_of(bar_room(r, widest), sum, edges, n_edges);
    if (head != NULL && vr_terminal(r)) {
        vr_put_repeat(&r->buf, " ", 2 + NAME_WIDTH + GIB_WIDTH + 6 + s.cells + s.n_edges + 2);
        vr_inked(r, VR_INK_FAINT, head);
        vr_put(&r->buf, T("\n"));
    }
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
        if (vr_figure_absent(&l->category[c]))
            continue;
        put_row(r, l, c, &s, begin, notes[c]);
        begin = l->category[c].counted ? vr_add_sat(begin, l->category[c].bytes) : begin;
    }
}
