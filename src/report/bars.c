/* SPDX-License-Identifier: MIT
 *
 * Bars of Unicode eighth blocks (U+2580 to U+259F) with the card's edge as a column of its own between two
 * cells, so that it hides nothing. Each piece of a sum starts where the one above it ended: what lies right
 * of the line is what lacks.
 */
#include "report/report.h"

static void add_edge(vr_scale *s, uint64_t edge)
{
    size_t i = s->n_edges;

    if (edge == 0 || i == VR_EDGES)
        return;
    for (; i > 0 && s->edges[i - 1] > edge; i--)
        s->edges[i] = s->edges[i - 1];
    s->edges[i] = edge;
    s->n_edges++;
}

vr_scale vr_scale_of(size_t room, uint64_t most, const uint64_t *edges, size_t n_edges)
{
    vr_scale s = { .full = most != 0 ? most : 1 };

    for (size_t i = 0; i < n_edges; i++)
        add_edge(&s, edges[i]);
    if (s.n_edges != 0 && s.edges[s.n_edges - 1] > s.full)
        s.full = s.edges[s.n_edges - 1];
    s.cells = room > s.n_edges ? room - s.n_edges : 1;
    return s;
}

static uint64_t eighths(const vr_scale *s, uint64_t bytes)
{
    uint64_t all = (uint64_t)s->cells * 8, at = vr_mul_div(bytes, all, s->full);

    return at < all ? at : all;
}

/* The cell that covers `from` to `to` eighths of itself. Only blocks that touch its left or right side exist.
 */
static const char *block(uint64_t from, uint64_t to)
{
    static const char *const left[] = { " ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };

    if (from == 0 || to < 8)
        return left[to > from ? to - from : 0];
    return from >= 7 ? "▕" : from >= 2 ? "▐" : "█";
}

static bool edge_is_at(const vr_scale *s, size_t edge, size_t c)
{
    return edge < s->n_edges && (c == s->cells || (eighths(s, s->edges[edge]) + 4) / 8 <= c);
}

/* Edges that stand before cell c, beginning with number *next. */
static void put_edges(vr_report *r, const vr_scale *s, size_t *next, size_t c, const char *sign)
{
    while (edge_is_at(s, *next, c)) {
        vr_inked(r, VR_INK_BOLD, sign);
        ++*next;
    }
}

static void change_ink(vr_report *r, vr_ink *now, vr_ink to)
{
    if (*now == to)
        return;
    vr_ink_off(r, *now);
    vr_ink_on(r, to);
    *now = to;
}

void vr_bar(vr_report *r, const vr_scale *s, uint64_t begin, uint64_t end)
{
    uint64_t from = eighths(s, begin), to = eighths(s, end);
    size_t edge = 0;
    vr_ink now = VR_INK_PLAIN;

    if (end > begin && from == to) { /* too small for the scale, but not nothing */
        from = from == (uint64_t)s->cells * 8 ? from - 1 : from;
        to = from + 1;
    }
    for (size_t c = 0; c < s->cells; c++) {
        uint64_t low = (uint64_t)c * 8;
        uint64_t a = from > low ? from : low, b = to < low + 8 ? to : low + 8;

        if (edge_is_at(s, edge, c))
            change_ink(r, &now, VR_INK_PLAIN);
        put_edges(r, s, &edge, c, "│");
        change_ink(r, &now,
                   b <= a                            ? VR_INK_PLAIN
                   : edge != 0 && edge == s->n_edges ? VR_INK_BAR_OVER
                                                     : VR_INK_BAR);
        vr_put(&r->buf, T(b > a ? block(a - low, b - low) : " "));
    }
    change_ink(r, &now, VR_INK_PLAIN);
    put_edges(r, s, &edge, s->cells, "│");
}

/* The cell before which a part that begins at `begin` ends: rounded, but what is there has one cell at least.
 */
static size_t mark_end(const vr_scale *s, uint64_t sum, size_t begin, uint64_t bytes)
{
    size_t end = (size_t)((eighths(s, sum) + 3) / 8); /* a cell belongs to what covers its middle */

    if (bytes == 0)
        return begin;
    return end > begin ? end : begin + 1;
}

void vr_bar_marks(vr_report *r, const vr_scale *s, const uint64_t *parts, const char *marks, size_t n)
{
    uint64_t sum = 0;
    size_t edge = 0, part = 0, end = 0;

    for (size_t c = 0; c < s->cells; c++) {
        for (; part < n && end <= c; part++) {
            sum = vr_add_sat(sum, parts[part]);
            end = mark_end(s, sum, end, parts[part]);
        }
        put_edges(r, s, &edge, c, "|");
        vr_put_bytes(&r->buf, end > c ? &marks[part - 1] : " ", 1);
    }
    put_edges(r, s, &edge, s->cells, "|");
}
