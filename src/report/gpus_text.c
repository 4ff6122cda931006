/* SPDX-License-Identifier: MIT
 *
 * `vram gpus` on a screen: the three sizes of each card. The number on the box is decimal or binary as the maker likes;
 * nvidia-smi shows the memory chips less ECC; a program can use what CUDA reports, and that is what verdicts count with.
 */
#include "report/gpus_report.h"

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

static void put_card(vr_report *r, const vr_gpu *g, size_t width)
{
    vr_left(r, g->id, width);
    vr_right(r, g->marketed_gb != 0 ? vr_say(r, U(g->marketed_gb)) : "-", 8);
    put_gib(r, g->smi_total_bytes, 12);
    put_gib(r, g->cuda_total_bytes, 9);
    vr_put(&r->buf, T(g->cuda_total_measured ? "   " : " ~ "));
    vr_wrap(r, width + 32, width + 32, g->name != NULL ? g->name : "");
}

static void put_more(vr_report *r, const vr_gpu *g)
{
    const char *cc = vr_say(r, FIXED((uint64_t)g->cc_major * 10 + g->cc_minor, 10, 1));

    vr_para(r, VR_INK_BOLD, "card", 13, vr_say(r, T(g->name), T(", "), T(g->arch != NULL ? g->arch : "?")));
    if (g->cc_major != 0)
        vr_para(r, VR_INK_BOLD, "capability", 13, cc);
    if (g->sm_count != 0)
        vr_para(r, VR_INK_BOLD, "SMs", 13, vr_say(r, U(g->sm_count)));
    if (g->context_bytes != 0)
        vr_para(r, VR_INK_BOLD, "CUDA context", 13, vr_say(r, MIB(g->context_bytes), T(" MiB, measured")));
    if (!g->cuda_total_measured && g->cuda_total_bytes != 0)
        vr_para(r, VR_INK_BOLD, "usable", 13,
                vr_say(r, GIB(g->cuda_total_low), T(" to "), GIB(g->cuda_total_high), T(" GiB, by rule: not measured")));
    if (g->notes != NULL && *g->notes != '\0')
        vr_para(r, VR_INK_BOLD, "notes", 13, g->notes);
    if (g->source != NULL)
        vr_para(r, VR_INK_FAINT, "source", 13, g->source);
}

void vr_gpus_text(vr_report *r, const vr_gpu *const *cards, size_t n)
{
    size_t width = id_width(cards, n);
    bool guessed = false;

    vr_ink_on(r, VR_INK_BOLD);
    vr_left(r, "id", width);
    vr_put(&r->buf, T("  box GB  nvidia-smi   usable   name"));
    vr_ink_off(r, VR_INK_BOLD);
    vr_put(&r->buf, T("\n"));
    for (size_t i = 0; i < n; i++) {
        put_card(r, cards[i], width);
        guessed = guessed || !cards[i]->cuda_total_measured;
        vr_report_flush(r);
    }
    for (size_t i = 0; i < n && (n <= 3 || r->style->verbose); i++)
        put_more(r, cards[i]);
    if (!vr_terminal(r))
        return;
    vr_ink_on(r, VR_INK_FAINT);
    vr_wrap(r, 0, 0,
            vr_say(r, T("GiB; usable is what CUDA gives to programs, and what counts"),
                   T(guessed ? "; ~ by rule from like cards, not measured" : "")));
    vr_ink_off(r, VR_INK_FAINT);
}
