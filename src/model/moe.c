/* SPDX-License-Identifier: MIT
 * Decoders that are plain but for their experts, and for what their attention adds to a plain one
 * (modeling_*.py of transformers 4.57 and 5.24). */
#include "model/experts.h"
#include "model/special.h"

/* ---- what single classes add ---- */

/* Qwen3MoeConfig: all layers slide when use_sliding_window says so; max_window_layers is not read. */
static vram_status window_if_used(vr_reading *r)
{
    bool use = false;
    VR_TRY(vr_config_flag(r, "use_sliding_window", &use));
    for (uint64_t i = 0; !use && i < r->m->n_layers; i++) {
        r->m->layers[i].attention = VR_ATTENTION_FULL;
        r->m->layers[i].window = 0;
    }
    return VRAM_OK;
}

/* Qwen2MoeConfig: without layer_types every other one of the first max_window_layers slides. */
static vram_status every_other_slides(vr_reading *r)
{
    vr_json v;
    bool use = false;
    VR_TRY(vr_config_flag(r, "use_sliding_window", &use));
    if (!use || vr_config_get(r, "layer_types", &v))
        return VRAM_OK;
    return vr_not_understood(r, T("use_sliding_window without layer_types differs from version to version"));
}

/* Glm4MoeConfig: a class with norms over each head, when use_qk_norm says so. */
static vram_status norms_if_used(vr_reading *r)
{
    bool use = false;
    vr_family *own = VR_NEW(&r->m->arena, vr_family);
    if (own == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_config_flag(r, "use_qk_norm", &use));
    *own = *r->family;
    own->qk_norm = use;
    r->family = own;
    return VRAM_OK;
}

/* MiniMaxM2Config: rotary_dim, from which partial_rotary_factor is made */
vram_status vr_read_rotary_dim(vr_reading *r)
{
    vram_model *m = r->m;
    vr_json v;
    VR_TRY(vr_config_count(r, "rotary_dim", VR_MAX_HEAD_DIM, m->rotary_dim, &m->rotary_dim));
    if (m->rotary_dim > m->head_dim && vr_config_get(r, "rotary_dim", &v))
        return vr_config_refuse(r, "rotary_dim", v, "head_dim or less");
    for (uint64_t i = 0; i < m->n_layers; i++)
        m->layers[i].rotary_dim = (uint32_t)m->rotary_dim;
    return VRAM_OK;
}

/* GptOssAttention */
static vram_status with_sinks(vr_reading *r)
{
    for (uint64_t i = 0; i < r->m->n_layers; i++)
        r->m->layers[i].sinks = true;
    return VRAM_OK;
}

/* PhimoeForCausalLM: the head has a bias when lm_head_bias says so. */
static vram_status head_bias_if_said(vr_reading *r)
{
    vr_family *own = VR_NEW(&r->m->arena, vr_family);
    if (own == NULL)
        return VRAM_ENOMEM;
    *own = *r->family;
    VR_TRY(vr_config_flag(r, "lm_head_bias", &own->head_bias));
    r->family = own;
    return VRAM_OK;
}

/* Llama4TextConfig: no_rope_layers, one number a layer (1: rotated), or every no_rope_layer_interval-th is
 * not; those that are rotated attend to their own chunk alone. */
static vram_status in_chunks(vr_reading *r)
{
    vram_model *m = r->m;
    uint64_t chunk, every, one, n = 0;
    bool normalised = true, tempered = true;
    vr_json list = { 0 }, v;
    VR_TRY(vr_config_count(r, "attention_chunk_size", UINT32_MAX, 8192, &chunk));
    VR_TRY(vr_config_count(r, "no_rope_layer_interval", VR_MAX_LAYERS, 4, &every));
    VR_TRY(vr_config_flag(r, "use_qk_norm", &normalised));
    VR_TRY(vr_config_flag(r, "attn_temperature_tuning", &tempered));
    bool listed = vr_config_get(r, "no_rope_layers", &list) && list.type == VR_JSON_ARRAY;
    vr_json_iter it = vr_json_each(list);
    for (uint64_t i = 0; i < m->n_layers; i++) {
        bool turned = (i + 1) % every != 0;
        if (listed && vr_json_next(&it, &v)) {
            if (!vr_json_u64(v, &one) || one > 1)
                return vr_config_refuse(r, "no_rope_layers", v, "0 or 1");
            turned = one == 1;
            n++;
        }
        vr_layer *l = &m->layers[i];
        l->attention = turned ? VR_ATTENTION_CHUNKED : VR_ATTENTION_FULL;
        l->window = turned ? (uint32_t)chunk : 0;
        l->rotary_dim = turned ? l->rotary_dim : 0;
        l->bare_qk_norm = turned && normalised;
        l->query_tempered = !turned && tempered;
    }
    return n == 0 || n == m->n_layers ? VRAM_OK
                                      : vr_not_understood(r, T("no_rope_layers is of "), U(n), T(" layers"));
}

static const struct {
    const char *model_type;
    vram_status (*read)(vr_reading *r);
} additions[] = {
    { "qwen3_moe", window_if_used }, { "qwen2_moe", every_other_slides },
    { "glm4_moe", norms_if_used },   { "minimax_m2", vr_read_rotary_dim },
    { "gpt_oss", with_sinks },       { "phimoe", head_bias_if_said },
    { "llama4_text", in_chunks },
};

/* Qwen publishes the experts of Qwen3-VL inputs first; transformers 5 writes them as it has them. */
static vram_status moe_of(const vr_reading *r, const vr_moe **out)
{
    const char *model_type = r->family->model_type;
    *out = vr_moe_of(model_type);
    if (!vr_str_is(vr_str_of(model_type), "qwen3_vl_moe_text"))
        return VRAM_OK;
    const char *name = vr_text(&r->m->arena, T(r->m->prefix), T("layers.0.mlp.experts.down_proj"));
    if (name == NULL)
        return VRAM_ENOMEM;
    const vr_tensor *t = vr_checkpoint_find(r->ck, vr_str_of(name));
    if (t != NULL && t->n_dims == 3 && t->dims[1] == r->m->hidden)
        *out = vr_moe_of("qwen3_vl_moe_text, outputs first");
    return VRAM_OK;
}

/* ---- the kind ---- */

static vram_status read(vr_reading *r)
{
    const char *model_type = r->family->model_type;
    const vr_moe *moe;
    VR_TRY(moe_of(r, &moe));
    if (moe == NULL)
        return vr_not_understood(r, T("the experts of "), T(model_type), T(" are not known"));
    for (size_t i = 0; i < sizeof additions / sizeof *additions; i++)
        if (vr_str_is(vr_str_of(model_type), additions[i].model_type))
            VR_TRY(additions[i].read(r));
    return r->m->not_understood == NULL ? vr_read_experts(r, moe) : VRAM_OK;
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    vr_declare_attention(d, l);
    if (l->sinks)
        vr_declare_vector(d, "self_attn.sinks", l->heads);
    vr_declare_any_mlp(d, l);
    vr_declare_norms(d);
}

const vr_special vr_special_moe = { .name = "moe", .read = read, .declare_layer = declare_layer };
