/* SPDX-License-Identifier: MIT
 * Qwen3-Next, Qwen3.5 and Qwen3.6: gated delta nets with full attention at every fourth layer or where
 * layer_types says so (transformers 5.24, models/qwen3_next, qwen3_5, qwen3_5_moe: configuration_*.py,
 * modeling_*.py).
 *
 * Full attention: q_proj makes a gate of the output beside the queries. Gated delta net: a convolution over
 * queries, keys and values together, then a state [value heads, key dimension, value dimension]. */
#include "model/experts.h"
#include "model/recurrent.h"

static vram_status read_net(vr_reading *r, vr_layer *net)
{
    uint64_t taps, key_dim, value_dim, keys, values;
    vram_status status = VRAM_OK;
    VR_TRY(vr_config_count(r, "linear_conv_kernel_dim", VR_MAX_TAPS, 4, &taps));
    VR_TRY(vr_config_count(r, "linear_key_head_dim", VR_MAX_HEAD_DIM, 128, &key_dim));
    VR_TRY(vr_config_count(r, "linear_value_head_dim", VR_MAX_HEAD_DIM, 128, &value_dim));
    VR_TRY(vr_config_count(r, "linear_num_key_heads", VR_MAX_HEADS, 16, &keys));
    VR_TRY(vr_config_count(r, "linear_num_value_heads", VR_MAX_HEADS, 32, &values));
    if (values % keys != 0)
        return vr_not_understood(r, T("linear_num_value_heads, "), U(values), T(", is no multiple of "),
                                 U(keys), T(" key heads"));
    uint64_t channels = 2 * keys * key_dim + values * value_dim;
    if (!vr_channels_fit(r, channels, &status))
        return status;
    *net = (vr_layer){ .recurrent = VR_RECURRENT_DELTA,
                       .conv_channels = (uint32_t)channels,
                       .conv_taps = (uint32_t)taps,
                       .state_heads = (uint32_t)values,
                       .state_rows = (uint32_t)key_dim,
                       .state_columns = (uint32_t)value_dim,
                       .state_groups = (uint32_t)keys,
                       .by_key_head = vr_str_is(vr_str_of(r->family->model_type), "qwen3_next"),
                       .chunk = 64 };
    return VRAM_OK;
}

static vram_status read_kinds(vr_reading *r, uint8_t *kinds)
{
    static const char *const keys[] = { "layer_types", NULL };
    static const vr_layer_word words[] = { { "linear_attention", VR_ATTENTION_RECURRENT },
                                           { "full_attention", VR_ATTENTION_FULL },
                                           { NULL, 0 } };
    uint64_t interval;
    bool given;
    VR_TRY(vr_config_layer_kinds(r, keys, words, kinds, &given));
    if (given)
        return VRAM_OK;
    VR_TRY(vr_config_count(r, "full_attention_interval", VR_MAX_LAYERS, 4, &interval));
    for (uint64_t i = 0; i < r->m->n_layers; i++)
        kinds[i] = (i + 1) % interval == 0 ? VR_ATTENTION_FULL : VR_ATTENTION_RECURRENT;
    return VRAM_OK;
}

/* Qwen publishes the experts of Qwen3.5 all in one tensor; transformers writes them one by one. */
static const vr_moe *moe_of(const vr_reading *r, vram_status *status)
{
    const char *type = r->family->model_type;
    *status = VRAM_OK;
    if (!vr_str_is(vr_str_of(type), "qwen3_5_moe_text"))
        return vr_moe_of(type);
    const char *one = vr_text(&r->m->arena, T(r->m->prefix), T("layers.0.mlp.experts.0.gate_proj.weight"));
    if (one == NULL)
        *status = VRAM_ENOMEM;
    bool listed = one != NULL && vr_checkpoint_find(r->ck, vr_str_of(one)) != NULL;
    return vr_moe_of(listed ? "qwen3_5_moe_text, listed" : type);
}

static vram_status read(vr_reading *r)
{
    vram_model *m = r->m;
    uint8_t *kinds = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    const vr_moe *moe;
    vram_status status;
    vr_layer net;
    if (kinds == NULL)
        return VRAM_ENOMEM;
    moe = moe_of(r, &status);
    VR_TRY(status);
    if (moe != NULL)
        VR_TRY(vr_read_experts(r, moe));
    if (m->not_understood == NULL)
        VR_TRY(read_net(r, &net));
    if (m->not_understood == NULL)
        VR_TRY(read_kinds(r, kinds));
    for (uint64_t i = 0; i < m->n_layers && m->not_understood == NULL; i++) {
        m->layers[i].output_gate = true;
        if (kinds[i] == VR_ATTENTION_RECURRENT)
            vr_layer_becomes_recurrent(m, i, &net);
    }
    return VRAM_OK;
}

/* Qwen3-Next keeps queries, keys, values and gates of one key head together; Qwen3.5 has a projection for
 * each. */
static void declare_net(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden, values = (uint64_t)l->state_heads * l->state_columns;
    bool fused = l->by_key_head;
    vr_declare_conv(d, "linear_attn.conv1d.weight", NULL, l);
    if (fused) {
        vr_declare_linear(d, "linear_attn.in_proj_qkvz", h, l->conv_channels + values, false);
        vr_declare_linear(d, "linear_attn.in_proj_ba", h, 2 * (uint64_t)l->state_heads, false);
    }
    vr_declare_vector(d, "linear_attn.norm.weight", l->state_columns);
    vr_declare_linear(d, "linear_attn.out_proj", values, h, false);
    if (!fused) {
        vr_declare_linear(d, "linear_attn.in_proj_qkv", h, l->conv_channels, false);
        vr_declare_linear(d, "linear_attn.in_proj_z", h, values, false);
        vr_declare_linear(d, "linear_attn.in_proj_b", h, l->state_heads, false);
        vr_declare_linear(d, "linear_attn.in_proj_a", h, l->state_heads, false);
    }
    vr_declare_vector(d, "linear_attn.dt_bias", l->state_heads);
    vr_declare_vector(d, "linear_attn.A_log", l->state_heads);
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    if (l->attention == VR_ATTENTION_RECURRENT)
        declare_net(d, l);
    else
        vr_declare_attention(d, l);
    if (l->mlp == VR_MLP_EXPERTS)
        vr_declare_experts_block(d, l);
    else
        vr_declare_mlp(d, l);
    vr_declare_norms(d);
}

const vr_special vr_special_delta = {
    .name = "gated_delta",
    .own_kinds = true,
    .read = read,
    .declare_layer = declare_layer,
};
