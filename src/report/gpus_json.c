/* SPDX-License-Identifier: MIT
 *
 * `vram gpus --json`: schema vram.gpus/1. A cell that no source gives is null.
 */
#include "report/gpus_report.h"

static void put_range(vr_json_out *o, const char *key, const vr_range *x)
{
    vr_json_key(o, key);
    if (x->bytes == 0) {
        vr_json_put_null(o);
        return;
    }
    vr_json_open(o, '{');
    vr_json_kv_u64(o, "bytes", x->bytes);
    vr_json_kv_u64(o, "low_bytes", x->low);
    vr_json_kv_u64(o, "high_bytes", x->high);
    vr_json_kv_text(o, "basis", vr_basis_name((vr_basis)x->basis));
    vr_json_close(o, '}');
}

static void put_card(vr_json_out *o, const vr_gpu *g)
{
    vr_range usable = vr_gpu_usable(g), context = vr_gpu_context(g);

    vr_json_open(o, '{');
    vr_json_kv_text(o, "id", g->id);
    vr_json_kv_text(o, "name", g->name);
    vr_json_kv_text(o, "vendor", g->vendor);
    vr_json_kv_text(o, "architecture", g->arch);
    vr_json_key(o, "compute_capability");
    if (g->cc_major != 0)
        vr_json_put_fixed(o, (uint64_t)g->cc_major * 10 + g->cc_minor, 10, 1);
    else
        vr_json_put_null(o);
    vr_json_kv_known(o, "marketed_gb", g->marketed_gb);
    vr_json_kv_known(o, "nvidia_smi_bytes", g->smi_total_bytes);
    put_range(o, "usable", &usable);
    vr_json_kv_known(o, "multiprocessors", g->sm_count);
    put_range(o, "context", &context);
    vr_json_kv_text(o, "source", g->source);
    vr_json_kv_text(o, "notes", g->notes);
    vr_json_close(o, '}');
}

void vr_gpus_json(vr_report *r, const vr_gpu *const *cards, size_t n)
{
    vr_json_out o;

    vr_json_start(&o, r, "vram.gpus/1");
    vr_json_key(&o, "gpus");
    vr_json_open(&o, '[');
    for (size_t i = 0; i < n; i++) {
        put_card(&o, cards[i]);
        vr_report_flush(r);
    }
    vr_json_close(&o, ']');
    vr_json_warnings(&o, r->ctx);
    vr_json_end(&o, r);
}
