/* SPDX-License-Identifier: MIT
 *
 * The public side of the reports: one function for each answer, which picks the renderer.
 */
#include "report/diagnosis_report.h"
#include "report/fit_report.h"
#include "report/gpus_report.h"
#include "report/models_report.h"
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

vram_status vram_comparison_render(const vram_comparison *c, const vram_style *style, vram_write_fn write,
                                   void *ud)
{
    vr_report r;

    vr_report_start(&r, c->ctx, style, write, ud);
    if (style->format == VRAM_JSON)
        vr_comparison_json(&r, c);
    else
        vr_comparison_text(&r, c);
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

vram_status vram_scenario_render(const vram_scenario *s, const vram_style *style, vram_write_fn write,
                                 void *ud)
{
    vr_report r;

    vr_report_start(&r, s->ctx, style, write, ud);
    if (style->format == VRAM_JSON)
        vr_scenario_json(&r, s);
    else
        vr_scenario_text(&r, s);
    return vr_report_end(&r);
}

vram_status vram_gpus_render(vram_ctx *ctx, const char *search, const vram_style *style, vram_write_fn write,
                             void *ud)
{
    const vr_gpu *const *cards = NULL;
    size_t n = 0;
    vr_report r;

    vr_report_start(&r, ctx, style, write, ud);
    r.status = vr_gpu_search(search, &r.arena, &cards, &n);
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

vram_status vram_models_render(vram_ctx *ctx, const char *search, const vram_style *style,
                               vram_write_fn write, void *ud)
{
    vr_built_in *models = NULL;
    size_t n = 0;
    vr_report r;

    vr_report_start(&r, ctx, style, write, ud);
    r.status = vr_built_in_search(search, &r.arena, &models, &n);
    if (r.status == VRAM_OK && (n <= VR_BUILT_IN_TOLD || style->verbose || style->format == VRAM_JSON))
        r.status = vr_built_in_read(models, n, &r.arena);
    if (r.status == VRAM_OK && n == 0) {
        r.status = vr_fail(ctx, VRAM_ENOTFOUND, T("no built-in model matches \""), T(search), T("\""));
        vr_hint(ctx,
                "vram models lists them all; any model of the hub is read from there: vram fit ORG/NAME");
    } else if (r.status == VRAM_OK && style->format == VRAM_JSON) {
        vr_models_json(&r, models, n);
    } else if (r.status == VRAM_OK) {
        vr_models_text(&r, models, n);
    }
    return vr_report_end(&r);
}

vram_status vram_diagnosis_render(const vram_diagnosis *d, const vram_style *style, vram_write_fn write,
                                  void *ud)
{
    vr_report r;

    vr_report_start(&r, d->ctx, style, write, ud);
    if (style->format == VRAM_JSON)
        vr_diagnosis_json(&r, d);
    else
        vr_diagnosis_text(&r, d);
    return vr_report_end(&r);
}
