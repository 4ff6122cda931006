/* SPDX-License-Identifier: MIT
 *
 * `vram gpus` on a screen: the three sizes of each card. The number on the box is decimal or binary as the
 * maker likes; nvidia-smi shows the memory chips less ECC; a program can use what CUDA reports, and that is
 * what verdicts count with.
 */
#include "report/gpus_report.h"

#define FEW 3 /* cards that are told more of without -v */
#define INDENT 13

static size_t id_width(const vr_gpu *const *cards, size_t n)
{
    size_t width = 2;

    for (size_t i = 0; i < n; i++) {
        size_t w = vr_utf8_width(vr_str_of(cards[i]->id));
        width = w > width ? w : width;
    }
    return width;
}

static void put_gib(vr_report *r, uint64_t bytes, size_t width)
{
    vr_right(r, bytes != 0 ? vr_say(r, GIB(bytes)) : "-", width);
}

static bool derived(const vr_range *usable)
{
    return usable->bytes != 0 && usable->basis == VR_BASIS_FORMULA;
}

static void put_card(vr_report *r, const vr_gpu *g, size_t width)
{
    vr_range usable = vr_gpu_usable(g);

    vr_left(r, g->id, width);
    vr_right(r, g->marketed_gb != 0 ? vr_say(r, U(g->marketed_gb)) : "-", 8);
    put_gib(r, g->smi_total_bytes, 12);
    vr_ink_on(r, VR_INK_BOLD);
    put_gib(r, usable.bytes, 8);
    vr_ink_off(r, VR_INK_BOLD);
    vr_put(&r->buf, T(derived(&usable) ? " ~ " : "   "));
    vr_wrap(r, width + 31, width + 31, g->name);
}

static const char *range_words(vr_report *r, const vr_range *x, uint64_t unit, unsigned places)
{
    const char *low = vr_say(r, FIXED(x->low, unit, places)), *high = vr_say(r, FIXED(x->high, unit, places));

    if (vr_str_eq(vr_str_of(low), vr_str_of(high)))
        return vr_say(r, FIXED(x->bytes, unit, places));
    return vr_say(r, T(low), T(" to "), T(high));
}

static void put_more(vr_report *r, const vr_gpu *g, size_t width)
{
    vr_range usable = vr_gpu_usable(g), context = vr_gpu_context(g);
    const char *arch = g->arch != NULL ? g->arch : "?", *text;

    text = vr_say(r, T(arch));
    if (g->cc_major != 0)
        text = vr_say(r, T(text), T(vr_dot(r)), T("compute capability "), U(g->cc_major), T("."),
                      U(g->cc_minor));
    if (g->sm_count != 0)
        text = vr_say(r, T(text), T(vr_dot(r)), U(g->sm_count), T(" SMs"));
    if (usable.bytes != 0)
        text = vr_say(r, T(text), T(vr_dot(r)), T(range_words(r, &usable, VR_GIB, 2)), T(" GiB usable"));
    if (context.bytes != 0)
        text = vr_say(r, T(text), T(vr_dot(r)), T("CUDA context "), T(range_words(r, &context, VR_MIB, 0)),
                      T(" MiB"));
    vr_para(r, VR_INK_BOLD, g->id, width + 2, text);
    if (!r->style->verbose)
        return;
    if (g->notes != NULL && *g->notes != '\0')
        vr_para(r, VR_INK_PLAIN, "  notes", INDENT, g->notes);
    if (g->source != NULL)
        vr_para(r, VR_INK_PLAIN, "  source", INDENT, g->source);
}

void vr_gpus_text(vr_report *r, const vr_gpu *const *cards, size_t n)
{
    size_t width = id_width(cards, n);
    bool some_derived = false, others = false;

    vr_ink_on(r, VR_INK_BOLD);
    vr_left(r, "id", width);
    vr_put(&r->buf, T("  box GB  nvidia-smi  usable   name"));
    vr_ink_off(r, VR_INK_BOLD);
    vr_put(&r->buf, T("\n"));
    for (size_t i = 0; i < n; i++) {
        vr_range usable = vr_gpu_usable(cards[i]);
        put_card(r, cards[i], width);
        some_derived = some_derived || derived(&usable);
        others = others || !vr_str_is(vr_str_of(cards[i]->vendor), "NVIDIA");
        vr_report_flush(r);
    }
    if (!vr_terminal(r) && !r->style->verbose)
        return;
    for (size_t i = 0; i < n && (n <= FEW || r->style->verbose); i++)
        put_more(r, cards[i], width);
    vr_ink_on(r, VR_INK_FAINT);
    vr_wrap(r, 0, 0,
            vr_say(r, T("GiB; usable is what a program can have, and what verdicts count with"),
                   T(some_derived ? "; ~ by rule from like cards, not read" : ""),
                   T(others ? "; verdicts are for NVIDIA cards only so far" : "")));
    vr_ink_off(r, VR_INK_FAINT);
}
