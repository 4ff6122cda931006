/* SPDX-License-Identifier: MIT
 * Gemma 3n, the decoder (configuration_gemma3n.py, modeling_gemma3n.py of transformers 5.24): the last layers
 * use the keys and values of earlier ones and have no projections for them, each layer reads an embedding of
 * its own, copies of the hidden states are mixed around each block (AltUp), and a short way goes around
 * attention (LAuReL). */
#include "model/special.h"

#define MOST_STREAMS 1024

/* intermediate_size: a number, or one for each layer. */
static vram_status read_ffn(vr_reading *r)
{
    vr_json list, v;
    uint64_t n = 0, one;
    if (!vr_config_get(r, "intermediate_size", &list) || list.type != VR_JSON_ARRAY)
        return VRAM_OK;
    for (vr_json_iter it = vr_json_each(list); vr_json_next(&it, &v); n++) {
        if (!vr_json_u64(v, &one) || one < 1 || one > VR_MAX_WIDTH)
            return vr_config_refuse(r, "intermediate_size", v, "a width");
        if (n < r->m->n_layers)
            r->m->layers[n].ffn = (uint32_t)one;
    }
    return n == r->m->n_layers ? VRAM_OK : vr_config_wrong_length(r, "intermediate_size", n);
}

static vram_status read_beside(vr_reading *r)
{
    vram_model *m = r->m;
    uint64_t side = 0, streams = 0, rank = 0;
    const vr_config_row rows[] = {
        { "hidden_size_per_layer_input", VR_MAX_WIDTH, 256, &side },
        { "vocab_size_per_layer_input", VR_MAX_VOCAB, 262144, &m->side_vocab },
        { "altup_num_inputs", MOST_STREAMS, 4, &streams },
        { "laurel_rank", VR_MAX_WIDTH, 64, &rank },
    };
    VR_TRY(vr_config_counts(r, rows));
    for (uint64_t i = 0; i < m->n_layers; i++) {
        m->layers[i].side_width = (uint32_t)side;
        m->layers[i].streams = (uint32_t)streams;
        m->layers[i].bypass_rank = (uint32_t)rank;
    }
    return VRAM_OK;
}

static vram_status read(vr_reading *r)
{
    VR_TRY(read_ffn(r));
    if (r->m->not_understood == NULL)
        VR_TRY(vr_read_shared_layers(r, r->m->n_layers < 15 ? r->m->n_layers : 15));
    return r->m->not_understood == NULL ? read_beside(r) : VRAM_OK;
}

static void declare_attention(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden, q = (uint64_t)l->heads * l->key_dim, kv = (uint64_t)l->kv_heads * l->key_dim;
    bool bias = d->m->qkv_bias;
    vr_declare_linear(d, "self_attn.q_proj", h, q, bias);
    vr_declare_norm(d, "self_attn.q_norm", l->key_dim);
    if (l->kv_from == 0) {
        vr_declare_linear(d, "self_attn.k_proj", h, kv, bias);
        vr_declare_linear(d, "self_attn.v_proj", h, kv, bias);
        vr_declare_norm(d, "self_attn.k_norm", l->key_dim);
    }
    vr_declare_linear(d, "self_attn.o_proj", q, h, d->m->o_bias);
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden, n = l->streams;
    declare_attention(d, l);
    vr_declare_mlp(d, l);
    vr_declare_norms(d);
    vr_declare_linear(d, "altup.correction_coefs", n, n, false);
    vr_declare_linear(d, "altup.prediction_coefs", n, n * n, false);
    vr_declare_linear(d, "altup.modality_router", h, n, false);
    vr_declare_norm(d, "altup.router_norm", h);
    vr_declare_vector(d, "altup.correct_output_scale", h);
    vr_declare_linear(d, "laurel.linear_left", h, l->bypass_rank, false);
    vr_declare_linear(d, "laurel.linear_right", l->bypass_rank, h, false);
    vr_declare_norm(d, "laurel.post_laurel_norm", h);
    vr_declare_linear(d, "per_layer_input_gate", h, l->side_width, false);
    vr_declare_linear(d, "per_layer_projection", l->side_width, h, false);
    vr_declare_norm(d, "post_per_layer_input_norm", h);
}

static void declare_streams(vr_declaring *d, const char *list)
{
    const char *path = d->path;
    uint64_t h = d->m->hidden;
    for (uint32_t i = 1; i < d->m->layers[0].streams; i++) {
        vr_declare_under(d, T(path), T(list), T("."), U(i - 1), T("."));
        vr_declare(d, "weight", VR_PARAM_LINEAR, (const uint64_t[]){ h, h }, 2);
    }
    d->path = path;
}

static void declare_within(vr_declaring *d)
{
    const vram_model *m = d->m;
    uint64_t side = m->layers[0].side_width, all = side * m->n_layers;
    vr_declare_matrix(d, "embed_tokens_per_layer.weight", m->side_vocab, all);
    vr_declare(d, "embed_tokens_per_layer.embed_scale", VR_PARAM_SCALE, NULL, 0);
    vr_declare_linear(d, "per_layer_model_projection", m->hidden, all, false);
    vr_declare_norm(d, "per_layer_projection_norm", side);
    declare_streams(d, "altup_projections");
    declare_streams(d, "altup_unembed_projections");
}

const vr_special vr_special_gemma3n = {
    .name = "gemma3n", .read = read, .declare_layer = declare_layer, .declare_within = declare_within
};
