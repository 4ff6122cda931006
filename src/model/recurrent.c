/* SPDX-License-Identifier: MIT
 * What architectures with recurrent layers share: which layers they are, and how their sizes get there. */
#include "model/recurrent.h"

#include <string.h>

static const vr_layer_word *find_word(const vr_layer_word *words, vr_json v)
{
    for (; words->word != NULL; words++)
        if (vr_json_str_is(v, words->word))
            return words;
    return NULL;
}

static vram_status kinds_of_list(vr_reading *r, const char *key, vr_json list, const vr_layer_word *words,
                                 uint8_t *kinds)
{
    vr_json_iter it = vr_json_each(list);
    uint64_t n = 0, n_layers = r->m->n_layers;
    vr_json v;
    for (; vr_json_next(&it, &v); n++) {
        const vr_layer_word *w = find_word(words, v);
        if (w == NULL)
            return vr_not_understood(r, T(key), T(" has a kind of layer that is not known, at layer "), U(n));
        if (n < n_layers)
            kinds[n] = w->kind;
    }
    if (n == n_layers)
        return VRAM_OK;
    return vr_not_understood(r, T(key), T(" has "), U(n), T(n == 1 ? " layer" : " layers"),
                             T(", num_hidden_layers is "), U(n_layers));
}

vram_status vr_config_layer_kinds(vr_reading *r, const char *const *keys, const vr_layer_word *words,
                                  uint8_t *kinds, bool *given)
{
    vr_json list;
    for (; *keys != NULL; keys++) {
        *given = vr_config_get(r, *keys, &list);
        if (*given && list.type != VR_JSON_ARRAY)
            return vr_config_refuse(r, *keys, list, "an array");
        if (*given)
            return kinds_of_list(r, *keys, list, words, kinds);
    }
    return VRAM_OK;
}

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

void vr_layer_becomes_recurrent(vram_model *m, uint64_t i, const vr_layer *mixer)
{
    vr_layer *l = &m->layers[i];
    vr_layer_loses_attention(l);
    l->attention = VR_ATTENTION_RECURRENT;
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
