/* SPDX-License-Identifier: MIT
 *
 * `vram models` on a screen: what can be asked about without a file or a network.
 */
#include "report/models_report.h"

#define FEW 3 /* models that are told more of without -v */
#define INDENT 13
#define BILLION UINT64_C(1000000000)

static size_t name_width(const vr_built_in *models, size_t n)
{
    size_t width = 4;

    for (size_t i = 0; i < n; i++) {
        size_t w = vr_utf8_width(vr_str_of(models[i].row->name));
        width = w > width ? w : width;
    }
    return width;
}

static void put_model(vr_report *r, const vr_built_in *m, size_t width, bool told)
{
    size_t at = width + (told ? 20 : 2);

    vr_left(r, m->row->name, width);
    if (told) {
        vr_right(r, m->parameters != 0 ? vr_say(r, FIXED(m->parameters, BILLION, 2)) : "-", 9);
        vr_ink_on(r, VR_INK_BOLD);
        vr_right(r, m->weights != 0 ? vr_gib(r, m->weights) : "-", 9);
        vr_ink_off(r, VR_INK_BOLD);
    }
    vr_put(&r->buf, T("  "));
    vr_wrap(r, at, at, m->row->repo);
}

static void put_more(vr_report *r, const vr_built_in *m)
{
    const vr_catalogue_row *row = m->row;
    const char *text = vr_say(r, T(m->model_type != NULL ? m->model_type : "?"));

    if (m->quantisation != NULL)
        text = vr_say(r, T(text), T(vr_dot(r)), T(m->quantisation));
    if (m->max_context != 0)
        text =
            vr_say(r, T(text), T(vr_dot(r)), T("up to "), T(vr_count(r, m->max_context, "token", "tokens")));
    if (m->kv_per_token != 0)
        text = vr_say(r, T(text), T(vr_dot(r)), BYTES(m->kv_per_token), T(" of keys and values a token"));
    vr_para(r, VR_INK_BOLD, vr_say(r, T(row->name), T("  ")), 0, text);
    if (m->not_known != NULL)
        vr_para(r, VR_INK_CARE, "  not known", INDENT, m->not_known);
    if (row->aliases != NULL)
        vr_para(r, VR_INK_PLAIN, "  also", INDENT, row->aliases);
    if (!r->style->verbose)
        return;
    if (row->note != NULL)
        vr_para(r, VR_INK_PLAIN, "  note", INDENT, row->note);
    vr_para(r, VR_INK_PLAIN, "  source", INDENT, row->source);
}

void vr_models_text(vr_report *r, const vr_built_in *models, size_t n)
{
    size_t width = name_width(models, n);
    bool told = n <= VR_BUILT_IN_TOLD || r->style->verbose;

    vr_ink_on(r, VR_INK_BOLD);
    vr_left(r, "name", width);
    vr_put(&r->buf, T(told ? " billions      GiB" : ""), T("  repository"));
    vr_ink_off(r, VR_INK_BOLD);
    vr_put(&r->buf, T("\n"));
    for (size_t i = 0; i < n; i++) {
        put_model(r, &models[i], width, told);
        vr_report_flush(r);
    }
    if (!vr_terminal(r) && !r->style->verbose)
        return;
    for (size_t i = 0; i < n && (n <= FEW || r->style->verbose); i++)
        put_more(r, &models[i]);
    vr_ink_on(r, VR_INK_FAINT);
    vr_wrap(r, 0, 0,
            told ? "parameters in billions and weights in GiB by the published configuration; - not known "
                   "without files"
                 : "with a word, or with -v, also parameters and sizes: vram models qwen3");
    vr_ink_off(r, VR_INK_FAINT);
}
