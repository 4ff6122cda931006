/* SPDX-License-Identifier: MIT
 * What consists of Mamba-2 mixers (ssm.c): Mamba-2 itself, Bamba, some of whose layers attend, and Falcon-H1,
 * all of whose layers do both at once (transformers 5.24, models/mamba2, bamba, falcon_h1:
 * configuration_*.py, modeling_*.py). */
#include "model/recurrent.h"

/* ---- Mamba-2 ---- */

static vram_status read_mamba2(vr_reading *r)
{
    static const vr_ssm_keys keys = {
        "num_heads", "head_dim", "n_groups", "state_size", "conv_kernel",   "chunk_size", 128, 64,
        8,           128,        4,          256,          "use_conv_bias", "use_bias"
    };
    uint64_t expand;
    vr_layer mixer;
    VR_TRY(vr_config_count(r, "expand", VR_MAX_WIDTH, 2, &expand));
    VR_TRY(vr_read_ssm_of(r, &keys, vr_mul_sat(expand, r->m->hidden), &mixer));
    if (r->m->not_understood == NULL)
        vr_all_recurrent(r->m, &mixer);
    return VRAM_OK;
}

static void declare_mamba2(vr_declaring *d, const vr_layer *l)
{
    vr_declare_norms(d);
    vr_declare_ssm(d, "mixer.", l);
}

const vr_special vr_special_mamba2 = {
    .name = "mamba2",
    .own_kinds = true,
    .read = read_mamba2,
    .declare_layer = declare_mamba2,
};

/* ---- Bamba, Falcon-H1 ---- */

static vram_status expanded(vr_reading *r, uint64_t *inner)
{
    VR_TRY(vr_config_count(r, "mamba_expand", VR_MAX_WIDTH, 2, inner));
    *inner = vr_mul_sat(*inner, r->m->hidden);
    return VRAM_OK;
}

/* attn_layer_indices: those that attend; silent, none does. */
static vram_status mark_attending(vr_reading *r, bool *attends)
{
    vr_json list, v;
    uint64_t i;
    if (!vr_config_get(r, "attn_layer_indices", &list))
        return VRAM_OK;
    if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, "attn_layer_indices", list, "an array of numbers of layers");
    for (vr_json_iter it = vr_json_each(list); vr_json_next(&it, &v);) {
        if (!vr_json_u64(v, &i))
            return vr_config_refuse(r, "attn_layer_indices", v, "the number of a layer");
        if (i < r->m->n_layers)
            attends[i] = true;
    }
    return VRAM_OK;
}

static vram_status read_bamba(vr_reading *r)
{
    vram_model *m = r->m;
    bool *attends = VR_ARRAY(&m->arena, bool, (size_t)m->n_layers);
    uint64_t inner;
    vr_layer mixer;
    if (attends == NULL)
        return VRAM_ENOMEM;
    VR_TRY(mark_attending(r, attends));
    VR_TRY(expanded(r, &inner));
    VR_TRY(vr_read_ssm_of(r, &vr_ssm_of_groups, inner, &mixer));
    for (uint64_t i = 0; i < m->n_layers && m->not_understood == NULL; i++)
        if (!attends[i])
            vr_layer_becomes_recurrent(m, i, &mixer);
    return VRAM_OK;
}

static void declare_bamba(vr_declaring *d, const vr_layer *l)
{
    vr_declare_mlp(d, l);
    vr_declare_norms(d);
    if (l->attention == VR_ATTENTION_RECURRENT)
        vr_declare_ssm(d, "mamba.", l);
    else
        vr_declare_attention(d, l);
}

const vr_special vr_special_bamba = {
    .name = "bamba",
    .own_kinds = true,
    .read = read_bamba,
    .declare_layer = declare_bamba,
};

/* mamba_d_ssm: 1024 when silent, of mamba_expand when null. */
static vram_status read_falcon_h1(vr_reading *r)
{
    uint64_t inner = 1024;
    bool normed = false;
    vr_layer mixer;
    vr_json v;
    if (vr_config_says(r, "mamba_d_ssm", &v) && v.type == VR_JSON_NULL)
        VR_TRY(expanded(r, &inner));
    else
        VR_TRY(vr_config_count(r, "mamba_d_ssm", VR_MAX_WIDTH, 1024, &inner));
    VR_TRY(vr_read_ssm_of(r, &vr_ssm_of_groups, inner, &mixer));
    if (r->m->not_understood != NULL)
        return VRAM_OK;
    mixer.out_bias = false;
    VR_TRY(vr_config_flag(r, "projectors_bias", &mixer.out_bias));
    VR_TRY(vr_config_flag(r, "mamba_rms_norm", &normed));
    mixer.unnormed = !normed;
    for (uint64_t i = 0; i < r->m->n_layers; i++)
        vr_layer_gains_mixer(&r->m->layers[i], &mixer);
    return VRAM_OK;
}

/* The last is made in FalconH1Model: a factor of each channel of in_proj. */
static void declare_falcon_h1(vr_declaring *d, const vr_layer *l)
{
    uint64_t inner = (uint64_t)l->state_heads * l->state_rows;
    const uint64_t factors[] = { 1, 1, inner + l->conv_channels + l->state_heads };
    vr_declare_mlp(d, l);
    vr_declare_ssm(d, "mamba.", l);
    vr_declare_attention(d, l);
    vr_declare_norms(d);
    vr_declare(d, "mamba.mup_vector", VR_PARAM_BUFFER, factors, 3);
}

const vr_special vr_special_falcon_h1 = {
    .name = "falcon_h1",
    .own_kinds = true,
    .read = read_falcon_h1,
    .declare_layer = declare_falcon_h1,
};
