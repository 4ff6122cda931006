/* SPDX-License-Identifier: MIT
 * What the reports say of a quantised checkpoint: method, bits, groups, and bits a weight over all of it. */
#include "report/quantised_report.h"

static bool is_there(const vram_model *m)
{
    return m->packing.quantised_matrices != 0 || m->packing.method != NULL;
}

/* Files that are missing take their parameters with them, so the quotient stays true. */
static bool has_mean(const vram_model *m)
{
    return !m->packing.uncountable && m->parameters != 0;
}

static const char *bits_words(vr_report *r, const vr_quantised *q)
{
    if (q->bits_low == 0 || q->bits_high == 0)
        return "";
    if (q->bits_low == q->bits_high)
        return vr_say(r, T(", "), T(vr_count(r, q->bits_low, "bit", "bits")));
    return vr_say(r, T(", "), U(q->bits_low), T(" to "), U(q->bits_high), T(" bits"));
}

static const char *group_words(vr_report *r, const vr_quantised *q)
{
    switch (q->grouping) {
    case VR_GROUPING_TENSOR:
        return ", one scale a matrix";
    case VR_GROUPING_ROW:
        return ", one scale a row";
    case VR_GROUPING_GROUP:
        return vr_say(r, T(", groups of "), U(q->group_size));
    case VR_GROUPING_BLOCK:
        return vr_say(r, T(", blocks of "), U(q->group_size), T(" x "), U(q->group_size));
    default:
        return "";
    }
}

void vr_say_quantised(vr_report *r, const vram_model *m, size_t indent)
{
    const vr_quantised *q = &m->packing;
    const char *mean = "";

    if (!is_there(m))
        return;
    if (has_mean(m))
        mean = vr_say(r, T(", "), FIXED(vr_mul_sat(m->checkpoint->tensor_bytes, 8), m->parameters, 2),
                      T(" bits a weight overall"));
    if (q->quantised_matrices == 0) {
        vr_para(r, VR_INK_CARE, "quantised", indent,
                m->checkpoint->config_only
                    ? vr_say(r, T(q->title), T(", as config.json says"))
                    : vr_say(r, T("config.json says "), T(q->title), T(", but no tensor is packed")));
        return;
    }
    vr_para(r, VR_INK_BOLD, "quantised", indent,
            vr_say(r, T(q->title != NULL ? q->title : "method not known"), T(bits_words(r, q)),
                   T(group_words(r, q)), T(": "), GROUPED(q->quantised_matrices), T(" of "),
                   T(vr_count(r, q->matrices, "matrix", "matrices")), T(mean)));
}

/* ---- JSON ---- */

const char *vr_evidence(const vram_model *m)
{
    if (m->checkpoint->catalogue != NULL)
        return "catalogue";
    return m->checkpoint->config_only ? "configuration" : "checkpoint";
}

void vr_json_checkpoint_bytes(vr_json_out *o, const vram_model *m)
{
    vr_json_kv_if(o, "checkpoint_bytes", m->weights_unknown == NULL, m->checkpoint->tensor_bytes);
}

void vr_json_parameters(vr_json_out *o, const vram_model *m)
{
    vr_json_kv_if(o, "parameters", !m->packing.uncountable, m->parameters);
}

void vr_json_quantization(vr_json_out *o, const vram_model *m)
{
    const vr_quantised *q = &m->packing;

    if (!is_there(m)) {
        vr_json_kv_null(o, "quantization");
        return;
    }
    vr_json_key(o, "quantization");
    vr_json_open(o, '{');
    vr_json_kv_text(o, "method", q->method);
    vr_json_kv_text(o, "layout", q->layout);
    vr_json_kv_known(o, "bits", q->bits_low == q->bits_high ? q->bits_low : 0);
    vr_json_kv_known(o, "group_size", q->group_size);
    vr_json_kv_u64(o, "matrices", q->matrices);
    vr_json_kv_u64(o, "quantised_matrices", q->quantised_matrices);
    vr_json_kv_u64(o, "packed_bytes", q->packed_bytes);
    vr_json_kv_u64(o, "scale_bytes", q->scale_bytes);
    vr_json_key(o, "bits_per_weight");
    if (has_mean(m))
        vr_json_put_fixed(o, vr_mul_sat(m->checkpoint->tensor_bytes, 8), m->parameters, 4);
    else
        vr_json_put_null(o);
    vr_json_close(o, '}');
}
