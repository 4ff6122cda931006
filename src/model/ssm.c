/* SPDX-License-Identifier: MIT
 * Mamba-2 mixers: a convolution over x, B and C together, then a state [heads, head dimension, state]
 * (transformers 5.24, modeling_granitemoehybrid.py, modeling_nemotron_h.py, modeling_bamba.py). */
#include "model/recurrent.h"

const vr_ssm_keys vr_ssm_of_groups = { "mamba_n_heads",
                                       "mamba_d_head",
                                       "mamba_n_groups",
                                       "mamba_d_state",
                                       "mamba_d_conv",
                                       "mamba_chunk_size",
                                       128,
                                       0,
                                       1,
                                       256,
                                       4,
                                       256,
                                       "mamba_conv_bias",
                                       "mamba_proj_bias" };

static vram_status read_flags(vr_reading *r, const vr_ssm_keys *k, vr_layer *mixer)
{
    mixer->conv_bias = true;
    if (k->conv_bias != NULL)
        VR_TRY(vr_config_flag(r, k->conv_bias, &mixer->conv_bias));
    if (k->bias != NULL)
        VR_TRY(vr_config_flag(r, k->bias, &mixer->mixer_bias));
    mixer->out_bias = mixer->mixer_bias;
    return VRAM_OK;
}

vram_status vr_read_ssm(vr_reading *r, const vr_ssm_keys *k, vr_layer *mixer)
{
    uint64_t heads, dim, groups, state, taps, chunk;
    vram_status status = VRAM_OK;
    VR_TRY(vr_config_count(r, k->heads, VR_MAX_HEADS, k->heads_default, &heads));
    VR_TRY(vr_config_count(r, k->head_dim, VR_MAX_HEAD_DIM, k->head_dim_default, &dim));
    VR_TRY(vr_config_count(r, k->groups, VR_MAX_HEADS, k->groups_default, &groups));
    VR_TRY(vr_config_count(r, k->state, VR_MAX_HEAD_DIM, k->state_default, &state));
    VR_TRY(vr_config_count(r, k->taps, VR_MAX_TAPS, k->taps_default, &taps));
    VR_TRY(vr_config_count(r, k->chunk, VR_MAX_CHUNK, k->chunk_default, &chunk));
    if (heads % groups != 0)
        return vr_not_understood(r, T(k->heads), T(", "), U(heads), T(", is no multiple of "), U(groups),
                                 T(" groups"));
    uint64_t channels = heads * dim + 2 * groups * state;
    if (!vr_channels_fit(r, channels, &status))
        return status;
    *mixer = (vr_layer){ .recurrent = VR_RECURRENT_MAMBA2,
                         .conv_channels = (uint32_t)channels,
                         .conv_taps = (uint32_t)taps,
                         .state_heads = (uint32_t)heads,
                         .state_rows = (uint32_t)dim,
                         .state_columns = (uint32_t)state,
                         .state_groups = (uint32_t)groups,
                         .chunk = (uint32_t)chunk };
    return read_flags(r, k, mixer);
}

vram_status vr_read_ssm_of(vr_reading *r, const vr_ssm_keys *k, uint64_t inner, vr_layer *mixer)
{
    vr_ssm_keys keys = *k;
    uint64_t heads;
    vr_json v;
    VR_TRY(vr_config_count(r, k->heads, VR_MAX_HEADS, k->heads_default, &heads));
    keys.head_dim_default = inner / heads < VR_MAX_HEAD_DIM ? inner / heads : VR_MAX_HEAD_DIM;
    bool given = vr_config_get(r, k->head_dim, &v), itself = given && vr_json_str_is(v, "auto");
    if (itself)
        keys.head_dim = "";
    VR_TRY(vr_read_ssm(r, &keys, mixer));
    if (r->m->not_understood != NULL || (uint64_t)mixer->state_heads * mixer->state_rows == inner)
        return VRAM_OK;
    if (given && !itself)
        return vr_config_refuse(r, k->head_dim, v, "the mixer's width over the number of its heads");
    return vr_not_understood(r, T("the mixer's width, "), U(inner), T(", is no multiple of "), T(k->heads));
}

void vr_declare_ssm(vr_declaring *d, const char *module, const vr_layer *l)
{
    const char *path = d->path;
    uint64_t inner = (uint64_t)l->state_heads * l->state_rows, h = d->m->hidden;
    vr_declare_under(d, T(path), T(module));
    vr_declare_conv(d, "conv1d.weight", "conv1d.bias", l);
    vr_declare_linear(d, "in_proj", h, inner + l->conv_channels + l->state_heads, l->mixer_bias);
    if (!l->unnormed)
        vr_declare_vector(d, "norm.weight", inner);
    vr_declare_linear(d, "out_proj", inner, h, l->out_bias);
    vr_declare_vector(d, "dt_bias", l->state_heads);
    vr_declare_vector(d, "A_log", l->state_heads);
    vr_declare_vector(d, "D", l->state_heads);
    d->path = path;
}
