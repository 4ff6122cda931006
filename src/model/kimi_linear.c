/* SPDX-License-Identifier: MIT
 * Kimi-Linear: delta rules with a decay for each key dimension (KDA), every fourth layer MLA without
 * positions, experts from first_k_dense_replace on (transformers 5.24, models/kimi_linear:
 * configuration_kimi_linear.py, modeling_kimi_linear.py; names of checkpoints: conversion_mapping.py). */
#include "model/experts.h"
#include "model/latent.h"
#include "model/recurrent.h"

static vram_status read_net(vr_reading *r, vr_layer *net)
{
    uint64_t heads, dim, taps;
    vram_status status = VRAM_OK;
    VR_TRY(vr_config_count_over(r, "linear_attn_config.num_heads", "linear_num_heads", VR_MAX_HEADS, 32,
                                &heads));
    VR_TRY(vr_config_count_over(r, "linear_attn_config.head_dim", "linear_head_dim", VR_MAX_HEAD_DIM, 128,
                                &dim));
    VR_TRY(vr_config_count_over(r, "linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim",
                                VR_MAX_TAPS, 4, &taps));
    if (!vr_channels_fit(r, 3 * heads * dim, &status))
        return status;
    *net = (vr_layer){ .recurrent = VR_RECURRENT_KEYED_DELTA,
                       .conv_channels = (uint32_t)(3 * heads * dim),
                       .conv_taps = (uint32_t)taps,
                       .state_heads = (uint32_t)heads,
                       .state_rows = (uint32_t)dim,
                       .state_columns = (uint32_t)dim,
                       .state_groups = (uint32_t)heads,
                       .chunk = 64 };
    return VRAM_OK;
}

/* Layers are counted from 1 there. */
static vram_status mark(vr_reading *r, const char *key, uint8_t kind, uint8_t *kinds, uint64_t *n)
{
    vr_json list, v;
    uint64_t i;
    if (!vr_config_get(r, key, &list))
        return VRAM_OK;
    if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, key, list, "an array of numbers of layers");
    for (vr_json_iter it = vr_json_each(list); vr_json_next(&it, &v);) {
        if (!vr_json_u64(v, &i) || i < 1 || i > r->m->n_layers)
            return vr_config_refuse(r, key, v, "the number of a layer, counted from 1");
        *n += kinds[i - 1] == VR_ATTENTION_NONE;
        kinds[i - 1] = kind;
    }
    return VRAM_OK;
}

static vram_status read_kinds(vr_reading *r, uint8_t *kinds)
{
    static const char *const keys[] = { "layer_types", NULL };
    static const vr_layer_word words[] = { { "linear_attention", VR_ATTENTION_RECURRENT },
                                           { "full_attention", VR_ATTENTION_LATENT },
                                           { NULL, 0 } };
    uint64_t n = 0, n_layers = r->m->n_layers;
    bool given;
    VR_TRY(vr_config_layer_kinds(r, keys, words, kinds, &given));
    if (given || r->m->not_understood != NULL)
        return VRAM_OK;
    for (uint64_t i = 0; i < n_layers; i++)
        kinds[i] = VR_ATTENTION_NONE;
    VR_TRY(mark(r, "linear_attn_config.full_attn_layers", VR_ATTENTION_LATENT, kinds, &n));
    VR_TRY(mark(r, "linear_attn_config.kda_layers", VR_ATTENTION_RECURRENT, kinds, &n));
    if (n != 0 && n != n_layers)
        return vr_not_understood(r, T("linear_attn_config says of "), U(n), T(" of "), U(n_layers),
                                 T(" layers what they are"));
    for (uint64_t i = 0; i < n_layers && n == 0; i++)
        kinds[i] = i != 0 && i % 4 == 0 ? VR_ATTENTION_LATENT : VR_ATTENTION_RECURRENT;
    return VRAM_OK;
}

/* What no class of transformers has, so that its parts cannot be known: Kimi-K3's. */
static vram_status check_known(vr_reading *r)
{
    static const char *const foreign[] = { "attn_res_block_size", "routed_expert_hidden_size",
                                           "mla_use_output_gate", "linear_attn_config.use_full_rank_gate" };
    vr_json v;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (vr_config_get(r, foreign[i], &v))
            return vr_not_understood(r, T("no class of transformers has "), T(foreign[i]),
                                     T(", which this configuration sets"));
    return VRAM_OK;
}

static vram_status read(vr_reading *r)
{
    vram_model *m = r->m;
    uint8_t *kinds = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    vr_latent latent = { .latent = 512, .plain = 128, .rotary = 64, .value = 128 };
    vr_layer net;
    if (kinds == NULL)
        return VRAM_ENOMEM;
    m->rotary_dim = 0; /* nothing is rotated: no table */
    VR_TRY(check_known(r));
    VR_TRY(vr_read_latent(r, &latent));
    if (m->not_understood == NULL)
        VR_TRY(vr_read_experts(r, vr_moe_of("kimi_linear")));
    if (m->not_understood == NULL)
        VR_TRY(read_net(r, &net));
    if (m->not_understood == NULL)
        VR_TRY(read_kinds(r, kinds));
    for (uint64_t i = 0; i < m->n_layers && m->not_understood == NULL; i++) {
        if (kinds[i] == VR_ATTENTION_RECURRENT)
            vr_layer_becomes_recurrent(m, i, &net);
        else
            vr_set_latent(&m->layers[i], &latent, m->heads);
    }
    return VRAM_OK;
}

static void declare_net(vr_declaring *d, const vr_layer *l)
{
    static const char *const projections[] = { "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj" };
    static const char *const convolutions[] = { "self_attn.q_conv1d.weight", "self_attn.k_conv1d.weight",
                                                "self_attn.v_conv1d.weight" };
    uint64_t h = d->m->hidden, dim = l->state_columns, inner = (uint64_t)l->state_heads * dim;
    const vr_layer third = { .conv_channels = l->conv_channels / 3, .conv_taps = l->conv_taps };
    for (size_t i = 0; i < 3; i++)
        vr_declare_linear(d, projections[i], h, inner, false);
    for (size_t i = 0; i < 3; i++)
        vr_declare_conv(d, convolutions[i], NULL, &third);
    vr_declare_linear(d, "self_attn.f_a_proj", h, dim, false);
    vr_declare_linear(d, "self_attn.f_b_proj", dim, inner, false);
    vr_declare_vector(d, "self_attn.dt_bias", inner);
    vr_declare(d, "self_attn.A_log", VR_PARAM_WEIGHT, (const uint64_t[]){ 1, 1, l->state_heads, 1 }, 4);
    vr_declare_linear(d, "self_attn.b_proj", h, l->state_heads, false);
    vr_declare_linear(d, "self_attn.g_a_proj", h, dim, false);
    vr_declare_linear(d, "self_attn.g_b_proj", dim, inner, false);
    vr_declare_vector(d, "self_attn.o_norm.weight", dim);
    vr_declare_linear(d, "self_attn.o_proj", inner, h, false);
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    if (l->attention == VR_ATTENTION_RECURRENT)
        declare_net(d, l);
    else
        vr_declare_latent(d, l);
    vr_declare_any_mlp(d, l);
    vr_declare_norms(d);
}

const vr_special vr_special_kimi_linear = {
    .name = "kimi_linear",
    .own_kinds = true,
    .read = read,
    .declare_layer = declare_layer,
};
