/* SPDX-License-Identifier: MIT
 * What architectures with recurrent layers share: how their sizes get into the layers. */
#include "model/recurrent.h"

void vr_layer_loses_attention(vr_layer *l)
{
    l->attention = VR_ATTENTION_NONE;
    l->window = l->heads = l->kv_heads = l->key_dim = l->value_dim = l->rotary_dim = 0;
    l->output_gate = false;
}

void vr_layer_loses_mlp(vr_layer *l)
{
    l->mlp = VR_MLP_NONE;
    l->moe = NULL;
    l->ffn = l->experts = l->experts_used = l->expert_ffn = l->shared_ffn = 0;
}

void vr_layer_gains_mixer(vr_layer *l, const vr_layer *mixer)
{
    l->recurrent = mixer->recurrent;
    l->conv_channels = mixer->conv_channels;
    l->conv_taps = mixer->conv_taps;
    l->state_heads = mixer->state_heads;
    l->state_rows = mixer->state_rows;
    l->state_columns = mixer->state_columns;
    l->state_groups = mixer->state_groups;
    l->chunk = mixer->chunk;
    l->by_key_head = mixer->by_key_head;
    l->conv_bias = mixer->conv_bias;
    l->mixer_bias = mixer->mixer_bias;
    l->out_bias = mixer->out_bias;
    l->step_rank = mixer->step_rank;
    l->unnormed = mixer->unnormed;
    l->inputs_normed = mixer->inputs_normed;
}

void vr_layer_becomes_recurrent(vram_model *m, uint64_t i, const vr_layer *mixer)
{
    vr_layer *l = &m->layers[i];
    vr_layer_loses_attention(l);
    l->attention = VR_ATTENTION_RECURRENT;
    vr_layer_gains_mixer(l, mixer);
}

void vr_all_recurrent(vram_model *m, const vr_layer *mixer)
{
    for (uint64_t i = 0; i < m->n_layers; i++) {
        vr_layer_becomes_recurrent(m, i, mixer);
        vr_layer_loses_mlp(&m->layers[i]);
    }
    m->heads = m->kv_heads = m->head_dim = m->rotary_dim = m->ffn = 0;
}

bool vr_channels_fit(vr_reading *r, uint64_t channels, vram_status *status)
{
    if (channels <= VR_MAX_WIDTH)
        return true;
    *status = vr_not_understood(r, T("recurrent layers of "), U(channels),
                                T(" channels are over the limit of "), U(VR_MAX_WIDTH));
    return false;
}

void vr_declare_conv(vr_declaring *d, const char *module, const char *bias, const vr_layer *l)
{
    const uint64_t dims[] = { l->conv_channels, 1, l->conv_taps };
    vr_declare(d, module, VR_PARAM_CONV, dims, 3);
    if (l->conv_bias && bias != NULL)
        vr_declare_vector(d, bias, l->conv_channels);
}
