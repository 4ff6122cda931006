/* SPDX-License-Identifier: MIT
 * Zamba2: Mamba-2 layers; before some of them a block of attention and MLP, which reads the layer's input and
 * the embeddings beside each other. There are few such blocks, which the layers share by turns, each with
 * adapters of its own (transformers 5.24, models/zamba2: configuration_zamba2.py, modeling_zamba2.py). */
#include "model/recurrent.h"

static vram_status read_mixer(vr_reading *r, vr_layer *mixer)
{
    static const vr_ssm_keys keys = { "n_mamba_heads",
                                      "",
                                      "mamba_ngroups",
                                      "mamba_d_state",
                                      "mamba_d_conv",
                                      "chunk_size",
                                      8,
                                      0,
                                      1,
                                      64,
                                      4,
                                      256,
                                      NULL,
                                      "add_bias_linear" };
    uint64_t expand;
    VR_TRY(vr_config_count(r, "mamba_expand", VR_MAX_WIDTH, 2, &expand));
    return vr_read_ssm_of(r, &keys, vr_mul_sat(expand, r->m->hidden), mixer);
}

static vram_status read_kinds(vr_reading *r, uint8_t *kinds)
{
    static const char *const keys[] = { "layers_block_type", "layer_types", NULL };
    static const vr_layer_word words[] = { { "mamba", VR_ATTENTION_RECURRENT },
                                           { "linear_attention", VR_ATTENTION_RECURRENT },
                                           { "hybrid", VR_ATTENTION_FULL },
                                           { NULL, 0 } };
    bool given;
    VR_TRY(vr_config_layer_kinds(r, keys, words, kinds, &given));
    if (given || r->m->not_understood != NULL)
        return VRAM_OK;
    return vr_not_understood(r, T("config.json does not state which layers attend (layers_block_type)"));
}

typedef struct blocks {
    uint64_t n, rank; /* of them; of an adapter */
    bool attention;   /* adapters beside queries, keys and values too */
} blocks;

static vram_status read_blocks(vr_reading *r, blocks *b)
{
    vram_model *m = r->m;
    bool rotates = false;
    *b = (blocks){ .attention = false };
    VR_TRY(vr_config_count(r, "num_mem_blocks", VR_MAX_LAYERS, 1, &b->n));
    VR_TRY(vr_config_count(r, "adapter_rank", VR_MAX_WIDTH, 128, &b->rank));
    VR_TRY(vr_config_flag(r, "use_shared_attention_adapter", &b->attention));
    VR_TRY(vr_config_flag(r, "use_mem_rope", &rotates));
    VR_TRY(vr_config_flag(r, "add_bias_linear", &m->mlp_bias));
    if (2 * m->hidden / m->heads > VR_MAX_HEAD_DIM || 2 * m->hidden % m->heads != 0)
        return vr_not_understood(r, T("twice hidden_size is no multiple of num_attention_heads"));
    m->head_dim = 2 * m->hidden / m->heads;
    m->rotary_dim = rotates ? m->head_dim : 0;
    return VRAM_OK;
}

/* The n-th that attends has the block of the n-th before it. */
static void attend(vram_model *m, const uint8_t *kinds, const blocks *b, const vr_layer *mixer)
{
    uint64_t n = 0, first[VR_MAX_LAYERS];
    for (uint64_t i = 0; i < m->n_layers; i++) {
        vr_layer *l = &m->layers[i];
        if (kinds[i] == VR_ATTENTION_RECURRENT) {
            vr_layer_becomes_recurrent(m, i, mixer);
            vr_layer_loses_mlp(l);
            continue;
        }
        vr_layer_gains_mixer(l, mixer);
        l->mlp = VR_MLP_GATED_FUSED;
        l->key_dim = l->value_dim = (uint32_t)m->head_dim;
        l->rotary_dim = (uint32_t)m->rotary_dim;
        l->bypass_rank = (uint32_t)b->rank;
        l->adapted = b->attention;
        if (n < b->n)
            first[n] = i;
        else
            l->weights_from = (uint32_t)first[n % b->n] + 1;
        n++;
    }
}

static vram_status read(vr_reading *r)
{
    vram_model *m = r->m;
    uint8_t *kinds = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    vr_layer mixer;
    blocks b;
    if (kinds == NULL)
        return VRAM_ENOMEM;
    VR_TRY(read_kinds(r, kinds));
    if (m->not_understood == NULL)
        VR_TRY(read_mixer(r, &mixer));
    if (m->not_understood == NULL)
        VR_TRY(read_blocks(r, &b));
    if (m->not_understood == NULL)
        attend(m, kinds, &b, &mixer);
    return VRAM_OK;
}

/* torch.nn.Sequential of two linear layers, for each layer that has this block, at its number among all that
 * attend. */
static void declare_adapters(vr_declaring *d, const char *list, uint64_t in, uint64_t out)
{
    const vram_model *m = d->m;
    const char *path = d->path;
    uint64_t n = 0;
    for (uint64_t i = 0; i < m->n_layers && d->status == VRAM_OK; i++) {
        const vr_layer *l = &m->layers[i];
        if (l->attention != VR_ATTENTION_FULL)
            continue;
        if (i == d->layer || l->weights_from == d->layer + 1) {
            vr_declare_under(d, T(path), T(list), T("."), U(n), T("."));
            vr_declare_linear(d, "0", in, l->bypass_rank, false);
            vr_declare_linear(d, "1", l->bypass_rank, out, false);
            d->path = path;
        }
        n++;
    }
}

static void declare_block(vr_declaring *d, const vr_layer *l)
{
    const char *path = d->path;
    uint64_t h = d->m->hidden, q = (uint64_t)l->heads * l->key_dim, kv = (uint64_t)l->kv_heads * l->key_dim;
    vr_declare_under(d, T(path), T("shared_transformer."));
    vr_declare_linear(d, "self_attn.q_proj", 2 * h, q, false);
    vr_declare_linear(d, "self_attn.k_proj", 2 * h, kv, false);
    vr_declare_linear(d, "self_attn.v_proj", 2 * h, kv, false);
    vr_declare_linear(d, "self_attn.o_proj", q, h, false);
    if (l->adapted) {
        declare_adapters(d, "self_attn.linear_q_adapter_list", 2 * h, 2 * h);
        declare_adapters(d, "self_attn.linear_k_adapter_list", 2 * h, 2 * h);
        declare_adapters(d, "self_attn.linear_v_adapter_list", 2 * h, 2 * h);
    }
    vr_declare_linear(d, "feed_forward.gate_up_proj", h, 2 * (uint64_t)l->ffn, d->m->mlp_bias);
    vr_declare_linear(d, "feed_forward.down_proj", l->ffn, h, d->m->mlp_bias);
    declare_adapters(d, "feed_forward.gate_up_proj_adapter_list", h, 2 * (uint64_t)l->ffn);
    vr_declare_norm(d, "input_layernorm", 2 * h);
    vr_declare_norm(d, "pre_ff_layernorm", h);
    d->path = path;
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    const char *path = d->path;
    bool attends = l->attention == VR_ATTENTION_FULL;
    if (attends) {
        vr_declare_linear(d, "linear", d->m->hidden, d->m->hidden, false);
        vr_declare_under(d, T(path), T("mamba_decoder."));
    }
    vr_declare_ssm(d, "mamba.", l);
    vr_declare_norm(d, "input_layernorm", d->m->hidden);
    d->path = path;
    if (attends && l->weights_from == 0)
        declare_block(d, l);
}

const vr_special vr_special_zamba2 = {
    .name = "zamba2",
    .own_kinds = true,
    .read = read,
    .declare_layer = declare_layer,
};
