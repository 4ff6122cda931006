/* SPDX-License-Identifier: MIT
 * Vision towers of Gemma 4, Kimi K2.5, Llama 4 and MiniMax M3.
 * Names, shapes, order, defaults: modeling_ and configuration_gemma4.py, _kimi_k25.py, _llama4.py,
 * _minimax_m3_vl.py of transformers 5.24; names of checkpoints: conversion_mapping.py. */
#include "model/tower.h"

#define MOST_SIDE 65536

static void vectors(vr_declaring *d, const char *const *names, size_t n, uint64_t length)
{
    for (size_t i = 0; i < n; i++)
        vr_declare_vector(d, names[i], length);
}
#define VECTORS(d, length, ...)                                                                              \
    vectors((d), (const char *const[]){ __VA_ARGS__ },                                                       \
            sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *), (length))

static void linears(vr_declaring *d, const char *const *names, size_t n, uint64_t in, uint64_t out, bool bias)
{
    for (size_t i = 0; i < n; i++)
        vr_declare_linear(d, names[i], in, out, bias);
}
#define LINEARS(d, in, out, bias, ...)                                                                       \
    linears((d), (const char *const[]){ __VA_ARGS__ },                                                       \
            sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *), (in), (out), (bias))

static void rotary(vr_declaring *d, const char *name, uint64_t n)
{
    vr_declare(d, name, VR_PARAM_ROTARY, &n, 1);
}

/* ---- Gemma 4 ---- */

static vram_status read_gemma4(const vr_reading *r, vr_tower *t)
{
    bool clipped = false;
    vr_json v;
    const vr_config_row rows[] = {
        { "num_hidden_layers", VR_MAX_LAYERS, 16, &t->layers },
        { "hidden_size", VR_MAX_WIDTH, 768, &t->hidden },
        { "intermediate_size", VR_MAX_WIDTH, 3072, &t->ffn },
        { "num_attention_heads", VR_MAX_HEADS, 12, &t->heads },
        { "num_key_value_heads", VR_MAX_HEADS, 12, &t->kv_heads },
        { "head_dim", VR_MAX_HEAD_DIM, 64, &t->head_dim },
        { "patch_size", MOST_SIDE, 16, &t->patch },
        { "pooling_kernel_size", MOST_SIDE, 3, &t->merge },
        { "position_embedding_size", VR_MAX_WIDTH, 10 * 1024, &t->positions },
    };
    VR_TRY(vr_config_counts(r, rows));
    t->channels = 3;
    t->temporal_patch = 1;
    t->out = r->m->hidden;
    VR_TRY(vr_config_flag(r, "standardize", &t->standardised));
    VR_TRY(vr_config_flag(r, "use_clipped_linears", &clipped));
    if (clipped && vr_json_get(r->text, "use_clipped_linears", &v))
        return vr_config_refuse(r, "vision_config.use_clipped_linears", v, "false: bounds are not known");
    return VRAM_OK;
}

static void layer_gemma4(vr_declaring *d, const vr_tower *t)
{
    uint64_t q = t->heads * t->head_dim, kv = t->kv_heads * t->head_dim;
    vr_declare_linear(d, "self_attn.q_proj.linear", t->hidden, q, false);
    LINEARS(d, t->hidden, kv, false, "self_attn.k_proj.linear", "self_attn.v_proj.linear");
    vr_declare_linear(d, "self_attn.o_proj.linear", q, t->hidden, false);
    VECTORS(d, t->head_dim, "self_attn.q_norm.weight", "self_attn.k_norm.weight");
    LINEARS(d, t->hidden, t->ffn, false, "mlp.gate_proj.linear", "mlp.up_proj.linear");
    vr_declare_linear(d, "mlp.down_proj.linear", t->ffn, t->hidden, false);
    VECTORS(d, t->hidden, "input_layernorm.weight", "post_attention_layernorm.weight",
            "pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight");
}

static void declare_gemma4(vr_declaring *d, const vr_tower *t)
{
    const uint64_t n = t->hidden;
    vr_declare_linear(d, "patch_embedder.input_proj", t->channels * t->patch * t->patch, t->hidden, false);
    vr_declare_experts(d, "patch_embedder.position_embedding_table", 2, t->positions, t->hidden);
    rotary(d, "encoder.rotary_emb.inv_freq", t->head_dim / 4);
    vr_declare_tower_layers(d, t, "encoder.layers.", layer_gemma4);
    if (!t->standardised)
        return;
    vr_declare(d, "std_bias", VR_PARAM_STATE, &n, 1);
    vr_declare(d, "std_scale", VR_PARAM_STATE, &n, 1);
}

static void projector_gemma4(vr_declaring *d, const vr_tower *t)
{
    vr_declare_linear(d, "embed_vision.embedding_projection", t->hidden, t->out, false);
}

const vr_tower_kind vr_tower_gemma4 = { .inside = "vision_tower.",
                                        .read = read_gemma4,
                                        .declare = declare_gemma4,
                                        .declare_projector = projector_gemma4 };

/* ---- Kimi K2.5 (MoonViT) ---- */

static vram_status read_kimi(const vr_reading *r, vr_tower *t)
{
    uint64_t height, width;
    const vr_config_row rows[] = {
        { "vt_num_hidden_layers", VR_MAX_LAYERS, 27, &t->layers },
        { "vt_hidden_size", VR_MAX_WIDTH, 1152, &t->hidden },
        { "vt_intermediate_size", VR_MAX_WIDTH, 4304, &t->ffn },
        { "vt_num_attention_heads", VR_MAX_HEADS, 16, &t->heads },
        { "patch_size", MOST_SIDE, 14, &t->patch },
        { "init_pos_emb_height", MOST_SIDE, 64, &height },
        { "init_pos_emb_width", MOST_SIDE, 64, &width },
    };
    VR_TRY(vr_config_counts(r, rows));
    t->channels = 3;
    t->temporal_patch = 1;
    t->merge = 2;
    t->positions = height * width;
    t->out = r->m->hidden;
    return VRAM_OK;
}

static void layer_kimi(vr_declaring *d, const vr_tower *t)
{
    vr_declare_layer_norm(d, "norm1", t->hidden);
    vr_declare_layer_norm(d, "norm2", t->hidden);
    LINEARS(d, t->hidden, t->hidden, true, "attn.proj", "attn.q_proj", "attn.k_proj", "attn.v_proj");
    vr_declare_tower_mlp(d, t);
}

static void declare_kimi(vr_declaring *d, const vr_tower *t)
{
    vr_declare(d, "patch_embed.proj.weight", VR_PARAM_CONV,
               (const uint64_t[]){ t->hidden, t->channels, t->patch, t->patch }, 4);
    vr_declare_vector(d, "patch_embed.proj.bias", t->hidden);
    vr_declare_matrix(d, "patch_embed.pos_emb.position_embeddings", t->positions, t->hidden);
    rotary(d, "rotary_emb.inv_freq", t->hidden / t->heads / 4);
    vr_declare_tower_layers(d, t, "layers.", layer_kimi);
    vr_declare_layer_norm(d, "final_layernorm", t->hidden);
}

static void projector_kimi(vr_declaring *d, const vr_tower *t)
{
    uint64_t merged = t->hidden * t->merge * t->merge;
    vr_declare_layer_norm(d, "mm_projector.pre_norm", t->hidden);
    vr_declare_linear(d, "mm_projector.in_proj", merged, merged, true);
    vr_declare_linear(d, "mm_projector.out_proj", merged, t->out, true);
}

const vr_tower_kind vr_tower_kimi_k25 = {
    .inside = "vision_tower.", .read = read_kimi, .declare = declare_kimi, .declare_projector = projector_kimi
};

/* ---- Llama 4 ---- */

static vram_status read_llama4(const vr_reading *r, vr_tower *t)
{
    const vr_config_row rows[] = {
        { "num_hidden_layers", VR_MAX_LAYERS, 34, &t->layers },
        { "hidden_size", VR_MAX_WIDTH, 768, &t->hidden },
        { "intermediate_size", VR_MAX_WIDTH, 5632, &t->ffn },
        { "num_attention_heads", VR_MAX_HEADS, 16, &t->heads },
        { "num_channels", MOST_SIDE, 3, &t->channels },
        { "image_size", MOST_SIDE, 448, &t->image },
        { "patch_size", MOST_SIDE, 14, &t->patch },
        { "vision_output_dim", VR_MAX_WIDTH, 7680, &t->vision_out },
        { "projector_input_dim", VR_MAX_WIDTH, 4096, &t->adapter_in },
        { "projector_output_dim", VR_MAX_WIDTH, 4096, &t->adapter_out },
    };
    VR_TRY(vr_config_counts(r, rows));
    uint64_t side = t->image / t->patch;
    t->positions = side * side + 1;
    t->temporal_patch = 1;
    t->merge = 2; /* pixel_shuffle_ratio 0.5 */
    t->out = r->m->hidden;
    return VRAM_OK;
}

static void layer_llama4(vr_declaring *d, const vr_tower *t)
{
    LINEARS(d, t->hidden, t->hidden, true, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
            "self_attn.o_proj");
    vr_declare_tower_mlp(d, t);
    vr_declare_layer_norm(d, "input_layernorm", t->hidden);
    vr_declare_layer_norm(d, "post_attention_layernorm", t->hidden);
}

static void declare_llama4(vr_declaring *d, const vr_tower *t)
{
    vr_declare_linear(d, "patch_embedding.linear", t->channels * t->patch * t->patch, t->hidden, false);
    vr_declare_layer_norm(d, "layernorm_pre", t->hidden);
    vr_declare_layer_norm(d, "layernorm_post", t->hidden);
    vr_declare_tower_layers(d, t, "model.layers.", layer_llama4);
    vr_declare_linear(d, "vision_adapter.mlp.fc1", t->ffn, t->adapter_in, false);
    vr_declare_linear(d, "vision_adapter.mlp.fc2", t->adapter_in, t->adapter_out, false);
    vr_declare_vector(d, "class_embedding", t->hidden);
    vr_declare_matrix(d, "positional_embedding_vlm", t->positions, t->hidden);
}

static void projector_llama4(vr_declaring *d, const vr_tower *t)
{
    vr_declare_linear(d, "multi_modal_projector.linear_1", t->vision_out, t->out, false);
}

const vr_tower_kind vr_tower_llama4 = { .inside = "vision_model.",
                                        .read = read_llama4,
                                        .declare = declare_llama4,
                                        .declare_projector = projector_llama4 };

/* ---- MiniMax M3 ---- */

static vram_status read_minimax(const vr_reading *r, vr_tower *t)
{
    const vr_config_row rows[] = {
        { "num_hidden_layers", VR_MAX_LAYERS, 32, &t->layers },
        { "hidden_size", VR_MAX_WIDTH, 1280, &t->hidden },
        { "intermediate_size", VR_MAX_WIDTH, 5120, &t->ffn },
        { "num_attention_heads", VR_MAX_HEADS, 16, &t->heads },
        { "num_channels", MOST_SIDE, 3, &t->channels },
        { "patch_size", MOST_SIDE, 14, &t->patch },
        { "img_token_compression_config.temporal_patch_size", MOST_SIDE, 2, &t->temporal_patch },
        { "img_token_compression_config.spatial_merge_size", MOST_SIDE, 2, &t->merge },
    };
    VR_TRY(vr_config_counts(r, rows));
    vr_reading whole = *r;
    whole.text = r->root;
    t->out = r->m->hidden;
    return vr_config_count(&whole, "projector_hidden_size", VR_MAX_WIDTH, 6144, &t->adapter_out);
}

static void layer_minimax(vr_declaring *d, const vr_tower *t)
{
    LINEARS(d, t->hidden, t->hidden, true, "self_attn.k_proj", "self_attn.v_proj", "self_attn.q_proj",
            "self_attn.out_proj");
    vr_declare_layer_norm(d, "layer_norm1", t->hidden);
    vr_declare_tower_mlp(d, t);
    vr_declare_layer_norm(d, "layer_norm2", t->hidden);
}

static void declare_minimax(vr_declaring *d, const vr_tower *t)
{
    const uint64_t dims[] = { t->hidden, t->channels, t->temporal_patch, t->patch, t->patch };
    vr_declare(d, "embeddings.patch_embedding.weight", VR_PARAM_CONV, dims, 5);
    vr_declare_layer_norm(d, "pre_layrnorm", t->hidden); /* so it is spelt */
    vr_declare_tower_layers(d, t, "encoder.layers.", layer_minimax);
    rotary(d, "rotary_emb.inv_freq", t->hidden / t->heads / 6);
}

static void projector_minimax(vr_declaring *d, const vr_tower *t)
{
    uint64_t inner = t->adapter_out;
    vr_declare_linear(d, "multi_modal_projector.linear_1", t->hidden, inner, true);
    vr_declare_linear(d, "multi_modal_projector.linear_2", inner, t->out, true);
    vr_declare_linear(d, "patch_merge_mlp.linear_1", t->out * t->merge * t->merge, inner, true);
    vr_declare_linear(d, "patch_merge_mlp.linear_2", inner, t->out, true);
}

const vr_tower_kind vr_tower_minimax_m3 = { .inside = "vision_tower.vision_model.",
                                            .read = read_minimax,
                                            .declare = declare_minimax,
                                            .declare_projector = projector_minimax };
