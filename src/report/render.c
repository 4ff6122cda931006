/* SPDX-License-Identifier: MIT
 *
 * The public side of the reports: one function for each answer, which picks the renderer.
 */
#include "report/fit_report.h"
#include "report/gpus_report.h"
#include "report/inspect_report.h"
#include "report/scenario_report.h"

vram_status vram_fit_render(const vram_fit *f, const vram_style *style, vram_write_fn write, void *ud)
{
    vr_report r;

    vr_report_start(&r, f->ctx, style, write, ud);
    if (style->format == VRAM_JSON)
        vr_fit_json(&r, f);
    else
        vr_fit_text(&r, f);
    return vr_report_end(&r);
}

vram_status vram_inspect_render(const vram_model *m, const vram_style *style, vram_write_fn write, void *ud)
{
    vr_inspection x;
    vr_report r;

    vr_report_start(&r, m->ctx, style, write, ud);
    r.status = vr_inspect(&x, m, &r.arena);
    if (r.status == VRAM_OK && style->format == VRAM_JSON)
        vr_inspect_json(&r, &x);
    else if (r.status == VRAM_OK)
        vr_inspect_text(&r, &x);
    return vr_report_end(&r);
}

vram_status vram_scenario_render(const vram_scenario *s, const vram_style *style, vram_write_fn write, void *ud)
{
    vr_report r;

    vr_report_start(&r, s->ctx, style, write, ud);
    if (style->format == VRAM_JSON)
        vr_scenario_json(&r, s);
    else
        vr_scenario_text(&r, s);
    return vr_report_end(&r);
}

/* ---- cards of the table ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool holds(const char *text, vr_str word)
{
    vr_str t = vr_str_of(text);

    for (size_t i = 0; i + word.n <= t.n; i++) {
        size_t k = 0;
        while (k < word.n && lower(t.s[i + k]) == lower(word.s[k]))
            k++;
        if (k == word.n)
            return true;
    }
    return false;
}

static bool matches(const vr_gpu *g, const char *search)
{
    vr_str rest = vr_str_of(search), word;

    while (vr_str_split(&rest, ' ', &word))
        if (!holds(g->id, word) && !holds(g->name, word))
            return false;
    return true;
}

static vram_status pick(const vr_gpu ***out, size_t *n_out, vr_arena *a, const char *search)
{
    size_t n, k = 0;
    const vr_gpu *all = vr_gpus(&n), **some = VR_ARRAY(a, const vr_gpu *, n);

    if (some == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (search == NULL || matches(&all[i], search))
            some[k++] = &all[i];
    *out = some;
    *n_out = k;
    return VRAM_OK;
}

vram_status vram_gpus_render(vram_ctx *ctx, const char *search, const vram_style *style, vram_write_fn write, void *ud)
{
    const vr_gpu **cards = NULL;
    size_t n = 0;
    vr_report r;

    vr_report_start(&r, ctx, style, write, ud);
    r.status = pick(&cards, &n, &r.arena, search);
    if (r.status == VRAM_OK && n == 0) {
        r.status = vr_fail(ctx, VRAM_ENOTFOUND, T("no card of the table matches \""), T(search), T("\""));
        vr_hint(ctx, "vram gpus lists them all; a bare size such as 24GiB works everywhere too");
    } else if (r.status == VRAM_OK && style->format == VRAM_JSON) {
        vr_gpus_json(&r, cards, n);
    } else if (r.status == VRAM_OK) {
        vr_gpus_text(&r, cards, n);
    }
    return vr_report_end(&r);
}
