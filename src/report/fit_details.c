/* SPDX-License-Identifier: MIT
 *
 * What `-v` adds to a fit: each figure to the byte with bounds and formula, the items of the overhead, and
 * the same run in the three ways in which people meet it: torch.cuda.memory_allocated(), memory_reserved(),
 * nvidia-smi.
 */
#include "report/fit_report.h"

#define ITEM_WIDTH 41

/* Where lines go on that are too long for the terminal. */
static size_t hang(const vr_report *r)
{
    return r->style->columns >= 76 || !vr_terminal(r) ? ITEM_WIDTH + 14 : 8;
}

static void put_figure(vr_report *r, const char *name, const vr_figure *g, size_t indent)
{
    const char *bounds = "";

    vr_put_repeat(&r->buf, " ", indent);
    vr_left(r, name, ITEM_WIDTH - indent);
    if (!g->counted) {
        vr_wrap(r, ITEM_WIDTH, ITEM_WIDTH, "not counted");
        return;
    }
    if (g->low != g->bytes || g->high != g->bytes)
        bounds = vr_say(r, T(", "), MIB(g->low), T(" to "), MIB(g->high));
    vr_right(r, g->bytes != 0 && g->bytes < VR_MIB / 20 ? "<0.1" : vr_say(r, MIB(g->bytes)), 8);
    vr_put(&r->buf, T(" MiB  "));
    vr_wrap(r, ITEM_WIDTH + 14, hang(r),
            vr_say(r, T(vr_basis_screen(g->basis)),
                   T(g->basis != VR_BASIS_SIMULATED ? ""
                     : g->verified                  ? ", verified"
                                                    : ", not verified"),
                   T(bounds)));
}

static void put_formula(vr_report *r, const vr_figure *g)
{
    if (g->formula == NULL)
        return;
    vr_put(&r->buf, T("      "));
    vr_ink_on(r, VR_INK_FAINT);
    vr_wrap(r, 6, 6, g->formula);
    vr_ink_off(r, VR_INK_FAINT);
}

static void put_items(vr_report *r, const vr_ledger *l, vr_category c)
{
    size_t n = 0;

    for (size_t i = 0; i < VR_ITEM_COUNT; i++)
        n += vr_item_category((vr_item)i) == c && l->item[i].counted && l->item[i].bytes != 0;
    if (n < 2)
        return;
    for (size_t i = 0; i < VR_ITEM_COUNT; i++)
        if (vr_item_category((vr_item)i) == c && l->item[i].counted && l->item[i].bytes != 0)
            put_figure(r, vr_item_screen((vr_item)i), &l->item[i], 6);
}

static void put_figures(vr_report *r, const vram_fit *f)
{
    const vr_ledger *l = &f->ledger;

    vr_inked(r, VR_INK_BOLD, "the figures at the fullest point");
    vr_put(&r->buf, T("\n"));
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
        if (vr_figure_absent(&l->category[c]))
            continue;
        put_figure(r, vr_category_screen((vr_category)c), &l->category[c], 2);
        put_formula(r, &l->category[c]);
        put_items(r, l, (vr_category)c);
    }
    vr_put(&r->buf, T("  "));
    vr_left(r, l->partial ? "counted total" : "total", ITEM_WIDTH - 2);
    vr_right(r, vr_say(r, MIB(l->required)), 8);
    vr_put(&r->buf, T(" MiB  = "), GROUPED(l->required), T(" bytes\n"));
}

static const char *moment_screen(vr_moment_id m)
{
    static const char *const words[VR_MOMENT_COUNT] = {
        [VR_AT_CONTEXT] = "CUDA started",
        [VR_AT_LOADED] = "weights loaded",
        [VR_AT_PREFILL] = "after the prompt's pass",
        [VR_AT_DECODE] = "generating",
        [VR_AT_RELEASED] = "output and cache released",
    };

    return words[m];
}

/* allocator: there are blocks to be counted; otherwise the driver's figure alone says something. */
static void put_moments(vr_report *r, const vr_rehearsal *run, bool failed, bool allocator)
{
    static const char *const heads[] = { "allocated", "reserved", "nvidia-smi" };
    const char *head = allocator ? "three ways of counting, in MiB" : "as it goes on, in MiB";

    if (run->n_moments == 0)
        return;
    vr_ink_on(r, VR_INK_BOLD);
    vr_left(r, failed ? "if the card were large enough, in MiB" : head, ITEM_WIDTH - 2);
    for (size_t i = allocator ? 0 : 2; i < sizeof heads / sizeof *heads; i++)
        vr_right(r, heads[i], 12);
    vr_ink_off(r, VR_INK_BOLD);
    vr_put(&r->buf, T("\n"));
    for (size_t i = 0; i < run->n_moments; i++) {
        const vr_moment *m = &run->moments[i];
        vr_put(&r->buf, T("  "));
        vr_left(r, moment_screen(m->id), ITEM_WIDTH - 4);
        if (allocator) {
            vr_right(r, vr_say(r, MIB(m->allocated)), 12);
            vr_right(r, vr_say(r, MIB(m->reserved)), 12);
        }
        vr_right(r, vr_say(r, MIB(m->driver)), 12);
        vr_put(&r->buf, T("\n"));
    }
}

static void put_range(vr_report *r, const char *name, const vr_range *x)
{
    const vr_figure g = {
        .counted = true, .bytes = x->bytes, .low = x->low, .high = x->high, .basis = x->basis
    };

    put_figure(r, name, &g, 2);
}

static void put_device(vr_report *r, const vram_device *d)
{
    const char *id = d->gpu != NULL ? d->gpu->id : d->id;

    vr_inked(r, VR_INK_BOLD, "the card");
    vr_para(r, VR_INK_PLAIN, "", 2,
            vr_say(r, T(d->name), T(id != NULL ? ", " : ""), T(id != NULL ? id : "")));
    put_range(r, "total that CUDA reports", &d->usable);
    put_range(r, "free before this program starts", &d->available);
}

void vr_fit_details(vr_report *r, const vram_fit *f)
{
    put_figures(r, f);
    if (vr_fit_rehearsed(f))
        put_moments(r, f->run.failed ? &f->needs : &f->run, f->run.failed, !f->plan.outside_only);
    if (f->device != NULL && !f->device->host)
        put_device(r, f->device);
}
