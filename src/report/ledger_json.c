/* SPDX-License-Identifier: MIT
 *
 * A ledger in JSON: the six categories, each with what it consists of, and the items of the runtime overhead
 * once more as the list whose bytes sum to that category.
 */
#include "report/fit_report.h"

static void put_item(vr_json_out *o, const char *name, const vr_figure *g)
{
    vr_json_open(o, '{');
    vr_json_kv_text(o, "item", name);
    vr_json_kv_u64(o, "bytes", g->bytes);
    vr_json_kv_text(o, "basis", vr_basis_name((vr_basis)g->basis));
    vr_json_close(o, '}');
}

/* whole: what a category is called that was never taken apart; NULL: it has its items. */
static void put_items(vr_json_out *o, const vr_ledger *l, vr_category c, const char *whole)
{
    vr_json_open(o, '[');
    for (size_t i = 0; i < VR_ITEM_COUNT; i++)
        if (vr_item_category((vr_item)i) == c && l->item[i].counted)
            put_item(o, vr_item_json((vr_item)i), &l->item[i]);
    if (whole != NULL && l->category[c].counted)
        put_item(o, whole, &l->category[c]);
    vr_json_close(o, ']');
}

static void put_bounds(vr_json_out *o, const vr_figure *g)
{
    vr_json_kv_if(o, "bytes", g->counted, g->bytes);
    vr_json_kv_if(o, "low_bytes", g->counted, g->low);
    vr_json_kv_if(o, "high_bytes", g->counted, g->high);
    vr_json_kv_text(o, "basis", vr_basis_name(g->counted ? (vr_basis)g->basis : VR_BASIS_NOT_COUNTED));
    vr_json_kv_bool(o, "verified", g->counted && g->verified);
    vr_json_kv_text(o, "formula", g->formula);
}

void vr_json_ledger(vr_json_out *o, const vr_ledger *l, const char *overhead)
{
    vr_json_key(o, "ledger");
    vr_json_open(o, '{');
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
        vr_json_key(o, vr_category_json((vr_category)c));
        vr_json_open(o, '{');
        put_bounds(o, &l->category[c]);
        vr_json_key(o, "items");
        put_items(o, l, (vr_category)c, c == VR_OVERHEAD ? overhead : NULL);
        vr_json_close(o, '}');
    }
    vr_json_close(o, '}');
}

void vr_json_overhead(vr_json_out *o, const vr_ledger *l, const char *overhead)
{
    vr_json_key(o, "overhead");
    put_items(o, l, VR_OVERHEAD, overhead);
}

void vr_json_gpu_count(vr_json_out *o, uint64_t count, const char *note)
{
    vr_json_key(o, "smallest_gpu_count");
    if (count == 0) {
        vr_json_put_null(o);
        return;
    }
    vr_json_open(o, '{');
    vr_json_kv_u64(o, "count", count);
    vr_json_kv_text(o, "note", note);
    vr_json_close(o, '}');
}

void vr_json_totals(vr_json_out *o, const vr_ledger *l)
{
    bool one = l->least_certain >= 0 && l->least_certain < VR_CATEGORY_COUNT;

    vr_json_kv_u64(o, "required_bytes", l->required);
    vr_json_kv_u64(o, "required_low_bytes", l->required_low);
    vr_json_kv_u64(o, "required_high_bytes", l->required_high);
    vr_json_kv_bool(o, "counted_total", l->partial);
    vr_json_kv_text(o, "least_certain", one ? vr_category_json((vr_category)l->least_certain) : NULL);
}
