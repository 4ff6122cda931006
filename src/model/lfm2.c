/* SPDX-License-Identifier: MIT
 * LFM2 and LFM2-MoE: short gated convolutions, a few layers of full attention, an MLP or experts
 * (transformers 5.24, models/lfm2, lfm2_moe: configuration_*.py, modeling_*.py). */
#include "model/experts.h"
#include "model/recurrent.h"

/* full_attn_idxs, where layer_types is silent; without either all layers attend. */
static vram_status kinds_by_number(vr_reading *r, uint8_t *kinds)
{
    vr_json list, v;
    uint64_t i;
    bool given = vr_config_get(r, "full_attn_idxs", &list);
    for (i = 0; i < r->m->n_layers; i++)
        kinds[i] = given ? VR_ATTENTION_RECURRENT : VR_ATTENTION_FULL;
    if (!given)
        return VRAM_OK;
    if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, "full_attn_idxs", list, "an array of numbers of layers");
    for (vr_json_iter it = vr_json_each(list); vr_json_next(&it, &v);) {
        if (!vr_json_u64(v, &i))
            return vr_config_refuse(r, "full_attn_idxs", v, "the number of a layer");
        if (i < r->m->n_layers)
            kinds[i] = VR_ATTENTION_FULL;
    }
    return VRAM_OK;
}

static vram_status read_kinds(vr_reading *r, uint8_t *kinds)
{
    static const char *const keys[] = { "layer_types", NULL };
    static const vr_layer_word words[] = { { "conv", VR_ATTENTION_RECURRENT },
                                           { "full_attention", VR_ATTENTION_FULL },
                                           { NULL, 0 } };
    bool given;
    VR_TRY(vr_config_layer_kinds(r, keys, words, kinds, &given));
    return given || r->m->not_understood != NULL ? VRAM_OK : kinds_by_number(r, kinds);
}

static vram_status read_mixer(vr_reading *r, vr_layer *mixer)
{
    uint64_t taps;
    bool bias = false;
    VR_TRY(vr_config_count(r, "conv_L_cache", VR_MAX_TAPS, 3, &taps));
    VR_TRY(vr_config_flag(r, "conv_bias", &bias));
    *mixer = (vr_layer){ .recurrent = VR_RECURRENT_SHORT_CONV,
                         .conv_channels = (uint32_t)r->m->hidden,
                         .conv_taps = (uint32_t)taps,
                         .chunk = 1,
                         .conv_bias = bias,
                         .mixer_bias = bias,
                         .out_bias = bias };
    return VRAM_OK;
}

static vram_status read_layers(vr_reading *r)
{
    vram_model *m = r->m;
    uint8_t *kinds = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    vr_layer mixer;
    if (kinds == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_config_flag(r, "tie_embedding", &m->tied)); /* wins over the usual name */
    VR_TRY(read_mixer(r, &mixer));
    VR_TRY(read_kinds(r, kinds));
    for (uint64_t i = 0; i < m->n_layers && m->not_understood == NULL; i++)
        if (kinds[i] == VR_ATTENTION_RECURRENT)
            vr_layer_becomes_recurrent(m, i, &mixer);
    return VRAM_OK;
}

/* Lfm2MLP: two thirds of what is said, times a factor, rounded up. */
static vram_status adjust_ffn(vr_reading *r)
{
    vram_model *m = r->m;
    double factor = 1;
    uint64_t multiple;
    bool adjusts = true;
    vr_json v;
    VR_TRY(vr_config_flag(r, "block_auto_adjust_ff_dim", &adjusts));
    VR_TRY(vr_config_count(r, "block_multiple_of", VR_MAX_WIDTH, 256, &multiple));
    if (vr_config_says(r, "block_ffn_dim_multiplier", &v) &&
        (!vr_json_double(v, &factor) || !(factor > 0) || factor > 1024))
        return vr_config_refuse(r, "block_ffn_dim_multiplier", v, "a number over 0 and up to 1024");
    if (!adjusts)
        return VRAM_OK;
    m->ffn = vr_round_up((uint64_t)(factor * (double)(2 * m->ffn / 3)), multiple);
    if (m->ffn == 0 || m->ffn > VR_MAX_WIDTH)
        return vr_not_understood(r, T("an MLP of width "), U(m->ffn), T(" is none"));
    for (uint64_t i = 0; i < m->n_layers; i++)
        m->layers[i].ffn = (uint32_t)m->ffn;
    return VRAM_OK;
}

static vram_status read_dense(vr_reading *r)
{
    VR_TRY(adjust_ffn(r));
    return r->m->not_understood == NULL ? read_layers(r) : VRAM_OK;
}

static vram_status read_moe(vr_reading *r)
{
    VR_TRY(vr_read_experts(r, vr_moe_of("lfm2_moe")));
    return r->m->not_understood == NULL ? read_layers(r) : VRAM_OK;
}

static void declare_mixer(vr_declaring *d, const vr_layer *l)
{
    const char *path = d->path;
    uint64_t h = d->m->hidden;
    vr_declare_under(d, T(path), T("conv."));
    vr_declare_conv(d, "conv.weight", "conv.bias", l);
    vr_declare_linear(d, "in_proj", h, 3 * h, l->mixer_bias);
    vr_declare_linear(d, "out_proj", h, h, l->out_bias);
    d->path = path;
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    if (l->attention == VR_ATTENTION_RECURRENT)
        declare_mixer(d, l);
    else
        vr_declare_attention(d, l);
    vr_declare_any_mlp(d, l);
    vr_declare_norms(d);
}

const vr_special vr_special_lfm2 = {
    .name = "lfm2",
    .own_kinds = true,
    .read = read_dense,
    .declare_layer = declare_layer,
};

const vr_special vr_special_lfm2_moe = {
    .name = "lfm2_moe",
    .own_kinds = true,
    .read = read_moe,
    .declare_layer = declare_layer,
};
