/* SPDX-License-Identifier: MIT
 * MiMo-7B: Qwen2 with layers that predict further tokens, which its class declares and does not run
 * (configuration_mimo.py, modeling_mimo.py beside XiaomiMiMo/MiMo-7B-Base). */
#include "model/special.h"

static void predict_layer(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden;
    static const char *const norms[] = { "input_layernorm", "post_attention_layernorm", "token_layernorm",
                                         "hidden_layernorm" };
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        vr_declare_norm(d, norms[i], h);
    vr_declare_linear(d, "input_proj", 2 * h, h, false);
    vr_declare_norm(d, "final_layernorm", h);
    vr_declare_attention(d, l);
    vr_declare_mlp(d, l);
}

static void declare_within(vr_declaring *d)
{
    const char *prefix = d->path;
    uint8_t part = d->part;
    d->part = VR_PART_PREDICT;
    for (uint64_t i = 0; i < d->m->n_predict_layers && d->status == VRAM_OK; i++) {
        vr_declare_under(d, T(prefix), T("mtp_layers."), U(i), T("."));
        predict_layer(d, &d->m->layers[0]);
    }
    d->part = part;
    d->path = prefix;
}

static vram_status read(vr_reading *r)
{
    vr_json v;
    if (r->m->n_predict_layers > VR_MAX_LAYERS && vr_config_get(r, "num_nextn_predict_layers", &v))
        return vr_config_refuse(r, "num_nextn_predict_layers", v, "a whole number up to 4096");
    return VRAM_OK;
}

const vr_special vr_special_mimo = { .name = "mimo", .read = read, .declare_within = declare_within };
