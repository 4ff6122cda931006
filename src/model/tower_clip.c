/* SPDX-License-Identifier: MIT
 * Vision towers that stand beside their decoder with a projector between: SigLIP of Gemma 3, CLIP of LLaVA,
 * Pixtral of Mistral 3 and LLaVA.
 * Names, shapes, order, defaults: modeling_ and configuration_siglip.py, _clip.py, _pixtral.py, _gemma3.py,
 * _llava.py, _mistral3.py of transformers 5.24; before 5 there is one more "vision_model." in the names of
 * the first two, as checkpoints have it. */
#include "model/tower.h"

#define MOST_IMAGE 65536

/* ---- sizes ---- */

typedef struct defaults {
    uint64_t layers, hidden, ffn, heads, image, patch;
} defaults;

static vram_status read_sizes(const vr_reading *r, vr_tower *t, const defaults *silent)
{
    const vr_config_row rows[] = {
        { "num_hidden_layers", VR_MAX_LAYERS, silent->layers, &t->layers },
        { "hidden_size", VR_MAX_WIDTH, silent->hidden, &t->hidden },
        { "intermediate_size", VR_MAX_WIDTH, silent->ffn, &t->ffn },
        { "num_attention_heads", VR_MAX_HEADS, silent->heads, &t->heads },
        { "num_channels", MOST_IMAGE, 3, &t->channels },
        { "image_size", MOST_IMAGE, silent->image, &t->image },
        { "patch_size", MOST_IMAGE, silent->patch, &t->patch },
    };
    VR_TRY(vr_config_counts(r, rows));
    uint64_t side = t->image / t->patch;
    t->positions = side * side;
    t->temporal_patch = 1;
    t->out = r->m->hidden;
    return VRAM_OK;
}

static vram_status read_siglip(const vr_reading *r, vr_tower *t)
{
    static const defaults silent = { 12, 768, 3072, 12, 224, 16 };
    vr_reading whole = *r;
    whole.text = r->root;
    t->has_head = true;
    VR_TRY(vr_config_flag(r, "vision_use_head", &t->has_head));
    VR_TRY(vr_config_count(&whole, "mm_tokens_per_image", MOST_IMAGE, 256, &t->picture_tokens));
    return read_sizes(r, t, &silent);
}

/* Of the whole model's configuration, not of vision_config. */
static vram_status read_projector(const vr_reading *r, vr_tower *t, bool biased)
{
    vr_reading whole = *r;
    whole.text = r->root;
    t->projector_bias = biased;
    VR_TRY(vr_config_flag(&whole, "multimodal_projector_bias", &t->projector_bias));
    return vr_config_count(&whole, "spatial_merge_size", MOST_IMAGE, 2, &t->merge);
}

static vram_status read_clip(const vr_reading *r, vr_tower *t)
{
    static const defaults silent = { 12, 768, 3072, 12, 224, 32 };
    VR_TRY(read_sizes(r, t, &silent));
    t->positions++; /* the class token's */
    return read_projector(r, t, true);
}

static const defaults pixtral_silent = { 24, 1024, 4096, 16, 1024, 16 };

static vram_status read_pixtral(const vr_reading *r, vr_tower *t)
{
    VR_TRY(read_sizes(r, t, &pixtral_silent));
    return read_projector(r, t, false);
}

static vram_status read_pixtral_llava(const vr_reading *r, vr_tower *t)
{
    VR_TRY(read_sizes(r, t, &pixtral_silent));
    VR_TRY(read_projector(r, t, true));
    t->merge = 1; /* nothing merges patches */
    return VRAM_OK;
}

/* ---- SigLIP and CLIP ---- */

static void attention(vr_declaring *d, const vr_tower *t)
{
    static const char *const modules[] = { "self_attn.k_proj", "self_attn.v_proj", "self_attn.q_proj",
                                           "self_attn.out_proj" };
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        vr_declare_linear(d, modules[i], t->hidden, t->hidden, true);
}

static void layer_siglip(vr_declaring *d, const vr_tower *t)
{
    vr_declare_layer_norm(d, "layer_norm1", t->hidden);
    attention(d, t);
    vr_declare_layer_norm(d, "layer_norm2", t->hidden);
    vr_declare_tower_mlp(d, t);
}

static void layer_clip(vr_declaring *d, const vr_tower *t)
{
    attention(d, t);
    vr_declare_layer_norm(d, "layer_norm1", t->hidden);
    vr_declare_tower_mlp(d, t);
    vr_declare_layer_norm(d, "layer_norm2", t->hidden);
}

static void patches(vr_declaring *d, const vr_tower *t, const char *name)
{
    vr_declare(d, name, VR_PARAM_CONV, (const uint64_t[]){ t->hidden, t->channels, t->patch, t->patch }, 4);
}

static void positions(vr_declaring *d, const vr_tower *t)
{
    vr_declare_matrix(d, "embeddings.position_embedding.weight", t->positions, t->hidden);
}

static void position_ids(vr_declaring *d, const vr_tower *t)
{
    vr_declare(d, "embeddings.position_ids", VR_PARAM_BUFFER_I64, (const uint64_t[]){ 1, t->positions }, 2);
}

/* An attention that pools (torch.nn.MultiheadAttention), its MLP and its only query. */
static void head_siglip(vr_declaring *d, const vr_tower *t)
{
    const char *path = d->path;
    vr_declare_under(d, T(path), T("head."));
    vr_declare_linear(d, "attention.out_proj", t->hidden, t->hidden, true);
    vr_declare_matrix(d, "attention.in_proj_weight", 3 * t->hidden, t->hidden);
    vr_declare_vector(d, "attention.in_proj_bias", 3 * t->hidden);
    vr_declare_layer_norm(d, "layernorm", t->hidden);
    vr_declare_tower_mlp(d, t);
    vr_declare(d, "probe", VR_PARAM_WEIGHT, (const uint64_t[]){ 1, 1, t->hidden }, 3);
    d->path = path;
}

static void declare_siglip(vr_declaring *d, const vr_tower *t)
{
    patches(d, t, "embeddings.patch_embedding.weight");
    vr_declare_vector(d, "embeddings.patch_embedding.bias", t->hidden);
    positions(d, t);
    position_ids(d, t);
    vr_declare_tower_layers(d, t, "encoder.layers.", layer_siglip);
    vr_declare_layer_norm(d, "post_layernorm", t->hidden);
    if (t->has_head)
        head_siglip(d, t);
}

static void declare_clip(vr_declaring *d, const vr_tower *t)
{
    patches(d, t, "embeddings.patch_embedding.weight");
    positions(d, t);
    vr_declare_vector(d, "embeddings.class_embedding", t->hidden);
    position_ids(d, t);
    vr_declare_layer_norm(d, "pre_layrnorm", t->hidden); /* so it is spelt */
    vr_declare_tower_layers(d, t, "encoder.layers.", layer_clip);
    vr_declare_layer_norm(d, "post_layernorm", t->hidden);
}

static void projector_gemma3(vr_declaring *d, const vr_tower *t)
{
    vr_declare_vector(d, "multi_modal_projector.mm_soft_emb_norm.weight", t->hidden);
    vr_declare_matrix(d, "multi_modal_projector.mm_input_projection_weight", t->hidden, t->out);
}

static void two_linears(vr_declaring *d, const vr_tower *t)
{
    vr_declare_linear(d, "multi_modal_projector.linear_1", t->hidden, t->out, t->projector_bias);
    vr_declare_linear(d, "multi_modal_projector.linear_2", t->out, t->out, t->projector_bias);
}

const vr_tower_kind vr_tower_siglip = { .inside = "vision_tower.vision_model.",
                                        .read = read_siglip,
                                        .declare = declare_siglip,
                                        .declare_projector = projector_gemma3,
                                        .picture = vr_picture_square,
                                        .scales = true };
const vr_tower_kind vr_tower_clip = { .inside = "vision_tower.vision_model.",
                                      .read = read_clip,
                                      .declare = declare_clip,
                                      .declare_projector = two_linears,
                                      .picture = vr_picture_square,
                                      .scales = true };

/* ---- Pixtral ---- */

static void layer_pixtral(vr_declaring *d, const vr_tower *t)
{
    static const char *const modules[] = { "attention.k_proj", "attention.v_proj", "attention.q_proj",
                                           "attention.o_proj" };
    vr_declare_vector(d, "attention_norm.weight", t->hidden);
    vr_declare_linear(d, "feed_forward.gate_proj", t->hidden, t->ffn, false);
    vr_declare_linear(d, "feed_forward.up_proj", t->hidden, t->ffn, false);
    vr_declare_linear(d, "feed_forward.down_proj", t->ffn, t->hidden, false);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        vr_declare_linear(d, modules[i], t->hidden, t->hidden, false);
    vr_declare_vector(d, "ffn_norm.weight", t->hidden);
}

static void declare_pixtral(vr_declaring *d, const vr_tower *t)
{
    const uint64_t rotated = t->hidden / t->heads / 2;
    patches(d, t, "patch_conv.weight");
    vr_declare_vector(d, "ln_pre.weight", t->hidden);
    vr_declare_tower_layers(d, t, "transformer.layers.", layer_pixtral);
    vr_declare(d, "patch_positional_embedding.inv_freq", VR_PARAM_ROTARY, &rotated, 1);
}

static void projector_pixtral(vr_declaring *d, const vr_tower *t)
{
    vr_declare_vector(d, "multi_modal_projector.norm.weight", t->hidden);
    vr_declare_linear(d, "multi_modal_projector.patch_merger.merging_layer", t->hidden * t->merge * t->merge,
                      t->hidden, false);
    two_linears(d, t);
}

const vr_tower_kind vr_tower_pixtral = { .inside = "vision_tower.",
                                         .read = read_pixtral,
                                         .declare = declare_pixtral,
                                         .declare_projector = projector_pixtral,
                                         .picture = vr_picture_pixtral };
const vr_tower_kind vr_tower_pixtral_llava = { .inside = "vision_tower.",
                                               .read = read_pixtral_llava,
                                               .declare = declare_pixtral,
                                               .declare_projector = two_linears,
                                               .picture = vr_picture_pixtral };
