/* SPDX-License-Identifier: MIT
 * Llama with a width of its own in each layer, found by search (DeciLMForCausalLM, "nemotron-nas";
 * configuration_decilm.py, block_config.py and modeling_decilm.py beside
 * nvidia/Llama-3_3-Nemotron-Super-49B-v1): block_configs says of each layer how many heads share keys and
 * values, how wide its MLP is, and which of the two it lacks. */
#include "model/recurrent.h"

#define MOST_MULTIPLE 64 /* of hidden_size */
#define WIDTH_STEP 256   /* widths are multiples of it */

/* A setting of a block that changes its modules to what is not described here. */
static bool has_other(vr_json block)
{
    static const char *const keys[] = { "replace_with_linear", "sparsify", "is_mamba", "window_length",
                                        "num_sink_tokens" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        vr_json v;
        if (vr_json_get(block, keys[i], &v) && v.type != VR_JSON_NULL && v.type != VR_JSON_FALSE)
            return true;
    }
    return false;
}

static bool is_no_op(vr_json block)
{
    vr_json v;
    bool is = false;
    return vr_json_get(block, "no_op", &v) && vr_json_bool(v, &is) && is;
}

static vram_status read_attention(vr_reading *r, vr_json block, vr_layer *l)
{
    vr_json v;
    uint64_t group;
    if (is_no_op(block)) {
        vr_layer_loses_attention(l);
        return VRAM_OK;
    }
    if (!vr_json_get(block, "n_heads_in_group", &v))
        return vr_not_understood(r, T("block_configs has attention without n_heads_in_group"));
    if (!vr_json_u64(v, &group) || group == 0 || r->m->heads % group != 0)
        return vr_config_refuse(r, "n_heads_in_group", v, "a divisor of num_attention_heads");
    l->kv_heads = (uint32_t)(r->m->heads / group);
    r->m->kv_heads = l->kv_heads;
    return VRAM_OK;
}

/* _ffn_mult_to_intermediate_size */
static vram_status read_ffn(vr_reading *r, vr_json block, vr_layer *l)
{
    vr_json v;
    double multiple;
    if (is_no_op(block)) {
        vr_layer_loses_mlp(l);
        return VRAM_OK;
    }
    if (!vr_json_get(block, "ffn_mult", &v))
        return vr_not_understood(r, T("block_configs has an MLP without ffn_mult"));
    if (!vr_json_double(v, &multiple) || !(multiple > 0) || multiple > MOST_MULTIPLE)
        return vr_config_refuse(r, "ffn_mult", v, "a number over 0 and up to 64");
    l->ffn = (uint32_t)vr_round_up((uint64_t)(2 * multiple * (double)r->m->hidden / 3), WIDTH_STEP);
    return VRAM_OK;
}

static vram_status read_block(vr_reading *r, vr_json block, uint64_t i)
{
    vr_json attention, ffn;
    if (!vr_json_get(block, "attention", &attention) || !vr_json_get(block, "ffn", &ffn))
        return vr_not_understood(r, T("block_configs does not say what layer "), U(i), T(" has"));
    if (has_other(attention) || has_other(ffn))
        return vr_not_understood(r, T("block_configs has a kind of layer that is not known, at layer "),
                                 U(i));
    VR_TRY(read_attention(r, attention, &r->m->layers[i]));
    return r->m->not_understood != NULL ? VRAM_OK : read_ffn(r, ffn, &r->m->layers[i]);
}

static vram_status read(vr_reading *r)
{
    vram_model *m = r->m;
    vr_json list, block;
    uint64_t n = 0;
    if (!vr_config_get(r, "block_configs", &list))
        return vr_not_understood(r, T("there are no block_configs"));
    if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, "block_configs", list, "an array");
    for (vr_json_iter it = vr_json_each(list); vr_json_next(&it, &block) && m->not_understood == NULL; n++)
        if (n < m->n_layers)
            VR_TRY(read_block(r, block, n));
    if (m->not_understood == NULL && n != m->n_layers)
        return vr_not_understood(r, T("block_configs has "), U(n), T(" layers, num_hidden_layers is "),
                                 U(m->n_layers));
    return VRAM_OK;
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    if (l->attention != VR_ATTENTION_NONE) {
        vr_declare_norm(d, "input_layernorm", d->m->hidden);
        vr_declare_attention(d, l);
    }
    if (l->mlp != VR_MLP_NONE) {
        vr_declare_norm(d, "post_attention_layernorm", d->m->hidden);
        vr_declare_mlp(d, l);
    }
}

const vr_special vr_special_decilm = { .name = "decilm", .read = read, .declare_layer = declare_layer };
