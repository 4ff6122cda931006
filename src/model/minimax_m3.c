/* SPDX-License-Identifier: MIT
 * MiniMax-M3: full attention, and beside it in some layers an index with a key of its own, which chooses
 * blocks of tokens (transformers 5.24, models/minimax_m3_vl: configuration_*.py, modeling_*.py; names of
 * checkpoints: conversion_mapping.py). */
#include "model/experts.h"
#include "model/special.h"

enum { FULL, SPARSE };

/* The words of sparse_attention_config stand over the class's own. */
static vram_status read_index(vr_reading *r, vr_layer *index)
{
    uint64_t heads, dim, block, blocks;
    VR_TRY(vr_config_count_over(r, "sparse_attention_config.sparse_num_index_heads", "index_n_heads",
                                VR_MAX_HEADS, 4, &heads));
    VR_TRY(vr_config_count_over(r, "sparse_attention_config.sparse_index_dim", "index_head_dim",
                                VR_MAX_HEAD_DIM, 128, &dim));
    VR_TRY(vr_config_count_over(r, "sparse_attention_config.sparse_block_size", "index_block_size",
                                UINT16_MAX, 128, &block));
    VR_TRY(vr_config_count_over(r, "sparse_attention_config.sparse_topk_blocks", "index_topk_blocks",
                                UINT16_MAX, 16, &blocks));
    *index = (vr_layer){ .index_heads = (uint32_t)heads,
                         .index_dim = (uint32_t)dim,
                         .index_topk = (uint32_t)(block * blocks) };
    return VRAM_OK;
}

/* layer_types, or one number a layer in sparse_attention_config, or none. */
static vram_status read_kinds(vr_reading *r, bool *sparse)
{
    static const char *const keys[] = { "layer_types", NULL };
    static const vr_layer_word words[] = { { "minimax_m3_sparse", SPARSE },
                                           { "full_attention", FULL },
                                           { NULL, 0 } };
    static const char flags[] = "sparse_attention_config.sparse_attention_freq";
    vram_model *m = r->m;
    vr_json list;
    bool given;
    uint8_t *kinds = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    if (kinds == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_config_layer_kinds(r, keys, words, kinds, &given));
    for (uint64_t i = 0; i < m->n_layers; i++)
        sparse[i] = given && kinds[i] == SPARSE;
    if (given || !vr_config_get(r, flags, &list))
        return VRAM_OK;
    return vr_config_flags(r, flags, list, sparse);
}

static vram_status read(vr_reading *r)
{
    vram_model *m = r->m;
    vr_layer index;
    bool *sparse = VR_ARRAY(&m->arena, bool, (size_t)m->n_layers);
    if (sparse == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_read_rotary_dim(r));
    VR_TRY(read_index(r, &index));
    VR_TRY(read_kinds(r, sparse));
    for (uint64_t i = 0; i < m->n_layers && m->not_understood == NULL; i++) {
        m->layers[i].index_heads = sparse[i] ? index.index_heads : 0;
        m->layers[i].index_dim = sparse[i] ? index.index_dim : 0;
        m->layers[i].index_topk = sparse[i] ? index.index_topk : 0;
    }
    return m->not_understood == NULL ? vr_read_experts(r, vr_moe_of("minimax_m3_vl_text")) : VRAM_OK;
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden;
    vr_declare_attention(d, l);
    if (l->index_heads != 0) {
        vr_declare_linear(d, "self_attn.index_q_proj", h, (uint64_t)l->index_heads * l->index_dim, false);
        vr_declare_linear(d, "self_attn.index_k_proj", h, l->index_dim, false);
        vr_declare_norm(d, "self_attn.index_q_norm", l->index_dim);
        vr_declare_norm(d, "self_attn.index_k_norm", l->index_dim);
    }
    vr_declare_any_mlp(d, l);
    vr_declare_norms(d);
}

const vr_special vr_special_minimax_m3 = {
    .name = "minimax_m3", .own_kinds = true, .read = read, .declare_layer = declare_layer
};
