/* SPDX-License-Identifier: MIT
 * RecurrentGemma: two layers of a gated linear recurrence (RG-LRU) behind a convolution, then one of sliding
 * attention, and again (transformers 5.24, models/recurrent_gemma: configuration_*.py, modeling_*.py). */
#include "model/recurrent.h"

static vram_status read_mixer(vr_reading *r, vr_layer *mixer)
{
    uint64_t width, taps, blocks = r->m->heads;
    VR_TRY(vr_config_count(r, "lru_width", VR_MAX_WIDTH, r->m->hidden, &width));
    VR_TRY(vr_config_count(r, "conv1d_width", VR_MAX_TAPS, 4, &taps));
    if (width % blocks != 0)
        return vr_not_understood(r, T("lru_width, "), U(width), T(", is no multiple of num_attention_heads"));
    *mixer = (vr_layer){ .recurrent = VR_RECURRENT_LRU,
                         .conv_channels = (uint32_t)width,
                         .conv_taps = (uint32_t)taps,
                         .state_heads = (uint32_t)blocks,
                         .state_rows = (uint32_t)(width / blocks),
                         .state_columns = 1,
                         .chunk = 1,
                         .conv_bias = true,
                         .mixer_bias = true,
                         .out_bias = true };
    return VRAM_OK;
}

/* block_types is repeated until all layers have one. */
static vram_status read_kinds(vr_reading *r, uint8_t *kinds)
{
    static const vr_layer_word words[] = { { "recurrent", VR_ATTENTION_RECURRENT },
                                           { "attention", VR_ATTENTION_SLIDING },
                                           { NULL, 0 } };
    uint64_t n = 3, layers = r->m->n_layers;
    vr_json list;
    if (vr_config_get(r, "block_types", &list))
        VR_TRY(vr_config_words(r, "block_types", list, words, kinds, &n));
    else
        for (uint64_t i = 0; i < n && i < layers; i++)
            kinds[i] = i == 2 ? VR_ATTENTION_SLIDING : VR_ATTENTION_RECURRENT;
    if (r->m->not_understood == NULL && n == 0)
        return vr_not_understood(r, T("block_types is empty"));
    for (uint64_t i = n; i < layers && n != 0; i++)
        kinds[i] = kinds[i - n];
    return VRAM_OK;
}

/* RecurrentGemmaMlp: half of what is said. */
static void set_layers(vram_model *m, const uint8_t *kinds, const vr_layer *mixer, uint64_t window)
{
    m->ffn /= 2;
    m->mlp_bias = m->o_bias = true;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        vr_layer *l = &m->layers[i];
        l->ffn = (uint32_t)m->ffn;
        l->attention = VR_ATTENTION_SLIDING;
        l->window = (uint32_t)window;
        if (kinds[i] == VR_ATTENTION_RECURRENT)
            vr_layer_becomes_recurrent(m, i, mixer);
    }
}

static vram_status read(vr_reading *r)
{
    vram_model *m = r->m;
    uint8_t *kinds = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    uint64_t window;
    vr_layer mixer;
    if (kinds == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_config_count(r, "attention_window_size", UINT32_MAX, 2048, &window));
    VR_TRY(read_kinds(r, kinds));
    if (m->not_understood == NULL)
        VR_TRY(read_mixer(r, &mixer));
    if (m->not_understood == NULL)
        set_layers(m, kinds, &mixer, window);
    return VRAM_OK;
}

static void declare_lru(vr_declaring *d, const vr_layer *l)
{
    uint64_t width = l->conv_channels, n = l->state_heads, w = l->state_rows;
    const uint64_t gate[] = { n, w, w };
    vr_declare_vector(d, "rg_lru.recurrent_param", width);
    vr_declare(d, "rg_lru.input_gate_weight", VR_PARAM_WEIGHT, gate, 3);
    vr_declare_matrix(d, "rg_lru.input_gate_bias", n, w);
    vr_declare(d, "rg_lru.recurrent_gate_weight", VR_PARAM_WEIGHT, gate, 3);
    vr_declare_matrix(d, "rg_lru.recurrent_gate_bias", n, w);
}

static void declare_mixer(vr_declaring *d, const vr_layer *l)
{
    const char *path = d->path;
    uint64_t h = d->m->hidden, width = l->conv_channels;
    vr_declare_under(d, T(path), T("temporal_block."));
    vr_declare_linear(d, "linear_y", h, width, true);
    vr_declare_linear(d, "linear_x", h, width, true);
    vr_declare_linear(d, "linear_out", width, h, true);
    vr_declare_conv(d, "conv_1d.weight", "conv_1d.bias", l);
    declare_lru(d, l);
    d->path = path;
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    vr_declare_norm(d, "temporal_pre_norm", d->m->hidden);
    if (l->attention == VR_ATTENTION_RECURRENT) {
        declare_mixer(d, l);
    } else {
        vr_declare_attention(d, l);
        vr_declare(d, "temporal_block.rotary_emb.inv_freq", VR_PARAM_ROTARY,
                   (const uint64_t[]){ l->rotary_dim / 2 }, 1);
    }
    vr_declare_norm(d, "channel_pre_norm", d->m->hidden);
    vr_declare_mlp(d, l);
}

const vr_special vr_special_recurrent_gemma = {
    .name = "recurrent_gemma",
    .own_kinds = true,
    .read = read,
    .declare_layer = declare_layer,
};
