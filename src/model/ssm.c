/* SPDX-License-Identifier: MIT
 * Mamba-2 mixers: a convolution over x, B and C together, then a state [heads, head dimension, state]
 * (transformers 5.24, modeling_granitemoehybrid.py, modeling_nemotron_h.py, modeling_bamba.py). */
#include "model/recurrent.h"

static vram_status read_flags(vr_reading *r, const vr_ssm_keys *k, vr_layer *mixer)
{
    mixer->conv_bias = true;
    if (k->conv_bias != NULL)
        VR_TRY(vr_config_flag(r, k->conv_bias, &mixer->conv_bias));
    return k->bias != NULL ? vr_config_flag(r, k->bias, &mixer->mixer_bias) : VRAM_OK;
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

void vr_declare_ssm(vr_declaring *d, const char *module, const vr_layer *l)
{
    const char *path = d->path;
    uint64_t inner = (uint64_t)l->state_heads * l->state_rows, h = d->m->hidden;
    vr_declare_under(d, T(path), T(module));
    vr_declare_conv(d, "conv1d.weight", "conv1d.bias", l);
    vr_declare_linear(d, "in_proj", h, inner + l->conv_channels + l->state_heads, l->mixer_bias);
    vr_declare_vector(d, "norm.weight", inner);
    vr_declare_linear(d, "out_proj", inner, h, l->mixer_bias);
    vr_declare_vector(d, "dt_bias", l->state_heads);
    vr_declare_vector(d, "A_log", l->state_heads);
    vr_declare_vector(d, "D", l->state_heads);
    d->path = path;
}
