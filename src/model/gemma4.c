/* SPDX-License-Identifier: MIT
 * Gemma 4 (configuration_gemma4.py, modeling_gemma4.py of transformers 5.24): layers of full attention have
 * heads of another width and number, their values may be their keys, the last layers may use the cache of
 * earlier ones, each layer may read an embedding of its own, and experts may stand beside the MLP. */
#include "model/experts.h"
#include "model/special.h"

#define DEFAULT_GLOBAL_HEAD_DIM 512
#define DEFAULT_SIDE_WIDTH 256
#define DEFAULT_SIDE_VOCAB 262144

/* ---- full attention ---- */

static vram_status read_full_layers(vr_reading *r)
{
    vram_model *m = r->m;
    uint64_t dim, kv;
    bool shared = false;
    vr_json v;
    VR_TRY(vr_config_count(r, "global_head_dim", VR_MAX_HEAD_DIM, DEFAULT_GLOBAL_HEAD_DIM, &dim));
    VR_TRY(vr_config_flag(r, "attention_k_eq_v", &shared));
    VR_TRY(vr_config_count(r, "num_global_key_value_heads", VR_MAX_HEADS, m->kv_heads, &kv));
    if (!shared)
        kv = m->kv_heads;
    if (m->heads % kv != 0 && vr_config_get(r, "num_global_key_value_heads", &v))
        return vr_config_refuse(r, "num_global_key_value_heads", v, "a divisor of num_attention_heads");
    m->layers[m->n_layers - 1].attention = VR_ATTENTION_FULL; /* whatever layer_types says */
    m->layers[m->n_layers - 1].window = 0;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        vr_layer *l = &m->layers[i];
        if (l->attention != VR_ATTENTION_FULL)
            continue;
        l->key_dim = l->value_dim = l->rotary_dim = (uint32_t)dim;
        l->kv_heads = (uint32_t)kv;
        l->key_is_value = shared;
    }
    return VRAM_OK;
}

/* "all": the window w becomes w/2 + 1 */
static vram_status read_both_ways(vr_reading *r)
{
    vr_json v;
    if (!vr_config_get(r, "use_bidirectional_attention", &v) || !vr_json_str_is(v, "all"))
        return VRAM_OK;
    for (uint64_t i = 0; i < r->m->n_layers; i++) {
        vr_layer *l = &r->m->layers[i];
        l->window = l->window != 0 ? l->window / 2 + 1 : 0;
    }
    return VRAM_OK;
}

/* ---- layers without a cache of their own ---- */

/* The last layer before `first` that attends in the same way, counted from 1; 0: none. */
static uint32_t producer(const vram_model *m, uint64_t first, uint64_t layer)
{
    for (uint64_t i = first; i > 0; i--) {
        if (m->layers[i - 1].attention == m->layers[layer].attention)
            return (uint32_t)i;
    }
    return 0;
}

vram_status vr_read_shared_layers(vr_reading *r, uint64_t silent)
{
    vram_model *m = r->m;
    uint64_t n;
    vr_json v;
    VR_TRY(vr_config_count_or_none(r, "num_kv_shared_layers", m->n_layers, silent, &n));
    for (uint64_t first = m->n_layers - n, i = first; i < m->n_layers; i++) {
        m->layers[i].kv_from = producer(m, first, i);
        if (m->layers[i].kv_from != 0)
            continue;
        if (vr_config_get(r, "num_kv_shared_layers", &v))
            return vr_config_refuse(r, "num_kv_shared_layers", v,
                                    "so few that a layer of each kind keeps keys and values");
        return vr_not_understood(r, T("num_kv_shared_layers is absent, and too few layers are there"));
    }
    return VRAM_OK;
}

/* Layers that use another's cache may have an MLP twice as wide. */
static vram_status read_doubled(vr_reading *r)
{
    bool doubled = false;
    VR_TRY(vr_config_flag(r, "use_double_wide_mlp", &doubled));
    for (uint64_t i = 0; i < r->m->n_layers; i++)
        r->m->layers[i].ffn *= doubled && r->m->layers[i].kv_from != 0 ? 2 : 1;
    return VRAM_OK;
}

/* ---- what stands beside ---- */

static vram_status read_beside(vr_reading *r)
{
    vram_model *m = r->m;
    uint64_t side, experts = 0, used = 0, ffn = 0;
    bool moe = false;
    VR_TRY(
        vr_config_count_or_none(r, "hidden_size_per_layer_input", VR_MAX_WIDTH, DEFAULT_SIDE_WIDTH, &side));
    VR_TRY(
        vr_config_count(r, "vocab_size_per_layer_input", VR_MAX_VOCAB, DEFAULT_SIDE_VOCAB, &m->side_vocab));
    VR_TRY(vr_config_flag(r, "enable_moe_block", &moe));
    if (moe) {
        VR_TRY(vr_config_count(r, "num_experts", VR_MAX_WIDTH, 0, &experts));
        VR_TRY(vr_config_count(r, "top_k_experts", VR_MAX_WIDTH, 0, &used));
        VR_TRY(vr_config_count(r, "moe_intermediate_size", VR_MAX_WIDTH, 0, &ffn));
    }
    if (moe && (experts == 0 || used == 0 || ffn == 0))
        return vr_not_understood(r, T("enable_moe_block is true, and experts are not stated"));
    for (uint64_t i = 0; i < m->n_layers; i++) {
        m->layers[i].side_width = (uint32_t)side;
        m->layers[i].moe = moe ? vr_moe_of("gemma4_text") : NULL;
        m->layers[i].experts = (uint32_t)experts;
        m->layers[i].experts_used = (uint32_t)used;
        m->layers[i].expert_ffn = (uint32_t)ffn;
    }
    m->experts = experts;
    m->experts_used = used;
    m->expert_ffn = ffn;
    return VRAM_OK;
}

static vram_status read(vr_reading *r)
{
    VR_TRY(read_full_layers(r));
    VR_TRY(read_both_ways(r));
    VR_TRY(vr_read_shared_layers(r, 0));
    VR_TRY(read_doubled(r));
    return read_beside(r);
}

/* ---- what is declared ---- */

static void declare_attention(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden, q = (uint64_t)l->heads * l->key_dim, kv = (uint64_t)l->kv_heads * l->key_dim;
    bool bias = d->m->qkv_bias;
    vr_declare_linear(d, "self_attn.q_proj", h, q, bias);
    vr_declare_norm(d, "self_attn.q_norm", l->key_dim);
    if (l->kv_from == 0) {
        vr_declare_norm(d, "self_attn.k_norm", l->key_dim);
        vr_declare_linear(d, "self_attn.k_proj", h, kv, bias);
        if (!l->key_is_value)
            vr_declare_linear(d, "self_attn.v_proj", h, kv, bias);
    }
    vr_declare_linear(d, "self_attn.o_proj", q, h, d->m->o_bias);
}

static void declare_experts(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden;
    vr_declare_linear(d, "router.proj", h, l->experts, false);
    vr_declare_vector(d, "router.scale", h);
    vr_declare_vector(d, "router.per_expert_scale", l->experts);
    vr_declare_experts(d, "experts.gate_up_proj", l->experts, 2 * (uint64_t)l->expert_ffn, h);
    vr_declare_experts(d, "experts.down_proj", l->experts, h, l->expert_ffn);
    vr_declare_norm(d, "post_feedforward_layernorm_1", h);
    vr_declare_norm(d, "post_feedforward_layernorm_2", h);
    vr_declare_norm(d, "pre_feedforward_layernorm_2", h);
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden, one = 1;
    declare_attention(d, l);
    vr_declare_mlp(d, l);
    vr_declare_norms(d);
    if (l->side_width != 0) {
        vr_declare_linear(d, "per_layer_input_gate", h, l->side_width, false);
        vr_declare_linear(d, "per_layer_projection", l->side_width, h, false);
        vr_declare_norm(d, "post_per_layer_input_norm", h);
    }
    if (l->experts != 0)
        declare_experts(d, l);
    vr_declare(d, "layer_scalar", VR_PARAM_STATE, &one, 1);
}

/* Of all layers in one table, which lies behind the layers in the model. */
static void declare_within(vr_declaring *d)
{
    const vram_model *m = d->m;
    uint64_t side = m->layers[0].side_width, all = side * m->n_layers;
    if (side == 0)
        return;
    vr_declare_matrix(d, "embed_tokens_per_layer.weight", m->side_vocab, all);
    vr_declare(d, "embed_tokens_per_layer.embed_scale", VR_PARAM_SCALE, NULL, 0);
    vr_declare_linear(d, "per_layer_model_projection", m->hidden, all, false);
    vr_declare_norm(d, "per_layer_projection_norm", side);
}

const vr_special vr_special_gemma4 = {
    .name = "gemma4", .read = read, .declare_layer = declare_layer, .declare_within = declare_within
};
