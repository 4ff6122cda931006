/* SPDX-License-Identifier: MIT
 * Layers behind the last that predict further tokens (multi-token prediction, MTP): published checkpoints
 * hold them, the classes of transformers do not have them. Counted with the names and shapes of those who
 * load them (vLLM 0.27, model_executor/models/deepseek_mtp.py, glm4_moe_mtp.py, qwen3_next_mtp.py,
 * qwen3_5_mtp.py; DeepSeek-V3's README_WEIGHTS.md). */
#include "model/special.h"

typedef enum predict_form {
    PREDICT_BEHIND, /* layers.N.: as the last one, with an embedding and a head of its own */
    PREDICT_BESIDE  /* mtp.: full attention, the embedding and the head are the model's */
} predict_form;

static const struct layout {
    const char *model_type, *key;
    uint8_t silent; /* how many where config.json does not say */
    uint8_t form;   /* predict_form */
} layouts[] = {
    { "deepseek_v3", "num_nextn_predict_layers", 0, PREDICT_BEHIND },
    { "deepseek_v32", "num_nextn_predict_layers", 0, PREDICT_BEHIND },
    { "glm4_moe", "num_nextn_predict_layers", 0, PREDICT_BEHIND },
    { "glm4_moe_lite", "num_nextn_predict_layers", 0, PREDICT_BEHIND },
    { "glm_moe_dsa", "num_nextn_predict_layers", 0, PREDICT_BEHIND },
    { "qwen3_next", "num_nextn_predict_layers", 1, PREDICT_BESIDE },
    { "qwen3_5_text", "mtp_num_hidden_layers", 0, PREDICT_BESIDE },
    { "qwen3_5_moe_text", "mtp_num_hidden_layers", 0, PREDICT_BESIDE },
};

static const struct layout *layout_of(const vr_family *f)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (vr_str_is(vr_str_of(f->model_type), layouts[i].model_type))
            return &layouts[i];
    return NULL;
}

/* The last layer that attends, so that its MLP is not one of the first layers' dense ones. */
static const vr_layer *model_layer(const vram_model *m)
{
    uint64_t i = m->n_layers;
    while (i > 1 && m->layers[i - 1].attention == VR_ATTENTION_RECURRENT)
        i--;
    return &m->layers[i - 1];
}

static void behind(vr_declaring *d)
{
    uint64_t h = d->m->hidden;
    vr_declare_matrix(d, "embed_tokens.weight", d->m->vocab, h);
    vr_declare_norm(d, "enorm", h);
    vr_declare_norm(d, "hnorm", h);
    vr_declare_linear(d, "eh_proj", 2 * h, h, false);
    vr_declare_norm(d, "shared_head.norm", h);
    vr_declare_matrix(d, "shared_head.head.weight", d->m->vocab, h);
}

static void beside(vr_declaring *d)
{
    uint64_t h = d->m->hidden;
    vr_declare_linear(d, "fc", 2 * h, h, false);
    vr_declare_norm(d, "pre_fc_norm_embedding", h);
    vr_declare_norm(d, "pre_fc_norm_hidden", h);
    vr_declare_norm(d, "norm", h);
}

static void layer(vr_declaring *d)
{
    const vr_special *s = vr_special_of(d->m->family);
    if (s != NULL && s->declare_layer != NULL)
        s->declare_layer(d, model_layer(d->m));
    else
        vr_declare_plain_layer(d, model_layer(d->m));
}

/* All of them are alike: one is declared. */
static vram_status count(vram_model *m, predict_form form)
{
    vr_declaring d = { .m = m, .path = "", .layer = VR_NO_LAYER, .part = VR_PART_PREDICT };
    uint64_t whole = m->declared_parameters;
    layer(&d);
    if (form == PREDICT_BEHIND)
        behind(&d);
    uint64_t each = m->declared_parameters - whole;
    m->ahead.parameters = vr_mul_sat(each, m->ahead.layers);
    if (form == PREDICT_BESIDE)
        beside(&d);
    m->ahead.parameters = vr_add_sat(m->ahead.parameters, m->declared_parameters - whole - each);
    m->declared_parameters = whole;
    return d.status;
}

vram_status vr_count_ahead(vr_reading *r)
{
    const struct layout *row = layout_of(r->m->family);
    vr_json v;
    if (row == NULL)
        return VRAM_OK;
    if (!vr_config_get(r, row->key, &v))
        r->m->ahead.layers = row->silent;
    else if (!vr_json_u64(v, &r->m->ahead.layers) || r->m->ahead.layers > VR_MAX_LAYERS)
        return vr_config_refuse(r, row->key, v, "a whole number up to 4096");
    return r->m->ahead.layers != 0 ? count(r->m, (predict_form)row->form) : VRAM_OK;
}
