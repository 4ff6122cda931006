/* SPDX-License-Identifier: MIT
 * The vision towers of Qwen2.5-VL and of Qwen3-VL, which Qwen3.5 has too.
 * Names, shapes, order, defaults: modeling_ and configuration_qwen2_5_vl.py, _qwen3_vl.py, _qwen3_5.py of
 * transformers 5.24. */
#include "model/tower.h"

#define MOST_PATCH 4096
#define MOST_LISTED 4096

/* Keys that both spell alike. */
static vram_status read_common(const vr_reading *r, vr_tower *t, const vr_tower *silent)
{
    const vr_config_row rows[] = {
        { "depth", VR_MAX_LAYERS, silent->layers, &t->layers },
        { "hidden_size", VR_MAX_WIDTH, silent->hidden, &t->hidden },
        { "intermediate_size", VR_MAX_WIDTH, silent->ffn, &t->ffn },
        { "num_heads", VR_MAX_HEADS, silent->heads, &t->heads },
        { "in_channels", MOST_PATCH, 3, &t->channels },
        { "patch_size", MOST_PATCH, silent->patch, &t->patch },
        { "temporal_patch_size", MOST_PATCH, 2, &t->temporal_patch },
        { "spatial_merge_size", MOST_PATCH, 2, &t->merge },
        { "out_hidden_size", VR_MAX_WIDTH, 3584, &t->out },
    };
    VR_TRY(vr_config_counts(r, rows));
    vr_json v;
    if (t->hidden % t->heads == 0)
        return VRAM_OK;
    return vr_json_get(r->text, "hidden_size", &v)
               ? vr_config_refuse(r, "vision_config.hidden_size", v, "a multiple of num_heads")
               : VRAM_EFORMAT;
}

static void declare_patches(vr_declaring *d, const vr_tower *t)
{
    const uint64_t dims[] = { t->hidden, t->channels, t->temporal_patch, t->patch, t->patch };
    vr_declare(d, "patch_embed.proj.weight", VR_PARAM_CONV, dims, 5);
}

/* Rotated are a quarter of a head for rows and a quarter for columns. */
static void declare_rotary(vr_declaring *d, const vr_tower *t)
{
    const uint64_t n = t->hidden / t->heads / 4;
    vr_declare(d, "rotary_pos_emb.inv_freq", VR_PARAM_ROTARY, &n, 1);
}

static void declare_attention(vr_declaring *d, const vr_tower *t)
{
    vr_declare_linear(d, "attn.qkv", t->hidden, 3 * t->hidden, true);
    vr_declare_linear(d, "attn.proj", t->hidden, t->hidden, true);
}

/* Marks the layers that a list of the configuration names; *n: how many, counted as it counts them. */
static vram_status read_layers(const vr_reading *r, const vr_tower *t, const char *key, bool *marks,
                               uint64_t *n)
{
    vr_json list, v;
    if (!vr_config_get(r, key, &list))
        return VRAM_OK;
    if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, key, list, "an array");
    for (uint64_t i = 0; i < t->layers; i++)
        marks[i] = false;
    vr_json_iter it = vr_json_each(list);
    for (*n = 0; vr_json_next(&it, &v); (*n)++) {
        uint64_t layer;
        if (*n == MOST_LISTED)
            return vr_config_refuse(r, key, list, "so long an array");
        if (vr_json_u64(v, &layer) && layer < t->layers)
            marks[layer] = true;
    }
    return VRAM_OK;
}

/* Those of the class where the configuration is silent. */
static bool *default_layers(const vr_reading *r, const vr_tower *t, const uint8_t *silent, size_t n)
{
    bool *marks = VR_ARRAY(&r->m->arena, bool, (size_t)t->layers + 1);
    for (size_t i = 0; marks != NULL && i < n; i++) {
        if (silent[i] < t->layers)
            marks[silent[i]] = true;
    }
    return marks;
}

/* ---- Qwen2.5-VL ---- */

static vram_status read_qwen2_5(const vr_reading *r, vr_tower *t)
{
    static const vr_tower silent = { .layers = 32, .hidden = 3584, .ffn = 3420, .heads = 16, .patch = 14 };
    static const uint8_t whole[] = { 7, 15, 23, 31 };
    uint64_t n;
    t->form = VR_TOWER_QWEN2_5;
    VR_TRY(read_common(r, t, &silent));
    t->whole = default_layers(r, t, whole, sizeof whole);
    if (t->whole == NULL)
        return VRAM_ENOMEM;
    VR_TRY(read_layers(r, t, "fullatt_block_indexes", t->whole, &n));
    return vr_config_count(r, "window_size", VR_MAX_WIDTH, 112, &t->window);
}

static void block_qwen2_5(vr_declaring *d, const vr_tower *t)
{
    vr_declare_vector(d, "norm1.weight", t->hidden);
    vr_declare_vector(d, "norm2.weight", t->hidden);
    declare_attention(d, t);
    vr_declare_linear(d, "mlp.gate_proj", t->hidden, t->ffn, true);
    vr_declare_linear(d, "mlp.up_proj", t->hidden, t->ffn, true);
    vr_declare_linear(d, "mlp.down_proj", t->ffn, t->hidden, true);
}

static void declare_qwen2_5(vr_declaring *d, const vr_tower *t)
{
    uint64_t merged = t->hidden * t->merge * t->merge;
    declare_patches(d, t);
    declare_rotary(d, t);
    vr_declare_tower_layers(d, t, "blocks.", block_qwen2_5);
    vr_declare_vector(d, "merger.ln_q.weight", t->hidden);
    vr_declare_linear(d, "merger.mlp.0", merged, merged, true);
    vr_declare_linear(d, "merger.mlp.2", merged, t->out, true);
}

const vr_tower_kind vr_tower_qwen2_5_vl = {
    .inside = "visual.",
    .read = read_qwen2_5,
    .declare = declare_qwen2_5,
    .picture = vr_picture_qwen2_5,
};

/* ---- Qwen3-VL ---- */

/* Qwen3.5 has no further mergers, whatever its configuration says. */
static vram_status read_qwen3_5(const vr_reading *r, vr_tower *t)
{
    static const vr_tower silent = { .layers = 27, .hidden = 1152, .ffn = 4304, .heads = 16, .patch = 16 };
    t->form = VR_TOWER_QWEN3;
    VR_TRY(read_common(r, t, &silent));
    t->deep = default_layers(r, t, NULL, 0);
    if (t->deep == NULL)
        return VRAM_ENOMEM;
    return vr_config_count(r, "num_position_embeddings", VR_MAX_WIDTH, 2304, &t->positions);
}

static vram_status read_qwen3(const vr_reading *r, vr_tower *t)
{
    static const uint8_t deep[] = { 8, 16, 24 };
    VR_TRY(read_qwen3_5(r, t));
    t->n_deepstack = sizeof deep;
    t->deep = default_layers(r, t, deep, sizeof deep);
    if (t->deep == NULL)
        return VRAM_ENOMEM;
    return read_layers(r, t, "deepstack_visual_indexes", t->deep, &t->n_deepstack);
}

static void block_qwen3(vr_declaring *d, const vr_tower *t)
{
    vr_declare_layer_norm(d, "norm1", t->hidden);
    vr_declare_layer_norm(d, "norm2", t->hidden);
    declare_attention(d, t);
    vr_declare_linear(d, "mlp.linear_fc1", t->hidden, t->ffn, true);
    vr_declare_linear(d, "mlp.linear_fc2", t->ffn, t->hidden, true);
}

/* norm_width: the first merger normalises patches, the others what is merged already */
static void declare_merger(vr_declaring *d, const vr_tower *t, uint64_t norm_width)
{
    uint64_t merged = t->hidden * t->merge * t->merge;
    vr_declare_layer_norm(d, "norm", norm_width);
    vr_declare_linear(d, "linear_fc1", merged, merged, true);
    vr_declare_linear(d, "linear_fc2", merged, t->out, true);
}

static void declare_qwen3(vr_declaring *d, const vr_tower *t)
{
    const char *path = d->path;
    declare_patches(d, t);
    vr_declare_vector(d, "patch_embed.proj.bias", t->hidden);
    vr_declare_matrix(d, "pos_embed.weight", t->positions, t->hidden);
    declare_rotary(d, t);
    vr_declare_tower_layers(d, t, "blocks.", block_qwen3);
    vr_declare_under(d, T(path), T("merger."));
    declare_merger(d, t, t->hidden);
    for (uint64_t i = 0; i < t->n_deepstack && d->status == VRAM_OK; i++) {
        vr_declare_under(d, T(path), T("deepstack_merger_list."), U(i), T("."));
        declare_merger(d, t, t->hidden * t->merge * t->merge);
    }
    d->path = path;
}

const vr_tower_kind vr_tower_qwen3_vl = {
    .inside = "visual.",
    .read = read_qwen3,
    .declare = declare_qwen3,
    .picture = vr_picture_qwen3,
};
const vr_tower_kind vr_tower_qwen3_5 = {
    .inside = "visual.",
    .read = read_qwen3_5,
    .declare = declare_qwen3,
    .picture = vr_picture_qwen3,
};
