/* SPDX-License-Identifier: MIT
 * Falcon, GPT-J and GPT-Neo: plain decoders but for what single settings make of them (transformers 5.24,
 * models/falcon, gptj, gpt_neo: configuration_*.py, modeling_*.py). */
#include "model/families.h"
#include "model/special.h"

/* ---- Falcon ---- */

typedef struct falcon {
    bool newer, one_key, parallel, alibi;
    uint64_t norms; /* 2: attention and MLP have one each */
} falcon;

static const vr_naming *naming_called(const char *name)
{
    size_t i = 0;
    while (i < vr_naming_table_n && !vr_str_is(vr_str_of(vr_naming_table[i].name), name))
        i++;
    return i < vr_naming_table_n ? &vr_naming_table[i] : NULL;
}

static vram_status read_falcon_settings(vr_reading *r, falcon *f)
{
    *f = (falcon){ .one_key = true, .parallel = true };
    VR_TRY(vr_config_flag(r, "new_decoder_architecture", &f->newer));
    VR_TRY(vr_config_flag(r, "multi_query", &f->one_key));
    VR_TRY(vr_config_flag(r, "parallel_attn", &f->parallel));
    VR_TRY(vr_config_flag(r, "alibi", &f->alibi));
    return vr_config_count(r, "num_ln_in_parallel_attn", 2, f->newer ? 2 : 1, &f->norms);
}

static vram_status read_falcon(vr_reading *r)
{
    vram_model *m = r->m;
    falcon f;
    VR_TRY(read_falcon_settings(r, &f));
    if (!f.newer && f.one_key)
        m->kv_heads = 1;
    if (!f.newer && !f.one_key && m->kv_heads != m->heads)
        return vr_not_understood(r, T("multi_query is false and num_kv_heads is not num_attention_heads"));
    if (!f.parallel || f.norms == 2)
        m->naming = naming_called(f.parallel ? "falcon_two_norms" : "falcon_in_turn");
    m->rotary_dim = f.alibi ? 0 : m->rotary_dim;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        m->layers[i].kv_heads = (uint32_t)m->kv_heads;
        m->layers[i].all_heads_cached = f.newer; /* FalconAttention._split_heads */
        m->layers[i].rotary_dim = (uint32_t)m->rotary_dim;
    }
    return m->naming != NULL ? VRAM_OK : vr_not_understood(r, T("the modules of this Falcon have no names"));
}

const vr_special vr_special_falcon = { .name = "falcon", .read = read_falcon };

/* ---- GPT-J ---- */

static vram_status read_gptj(vr_reading *r)
{
    vram_model *m = r->m;
    VR_TRY(
        vr_config_count(r, "rotary_dim", m->head_dim, 64 < m->head_dim ? 64 : m->head_dim, &m->rotary_dim));
    for (uint64_t i = 0; i < m->n_layers; i++)
        m->layers[i].rotary_dim = (uint32_t)m->rotary_dim;
    return VRAM_OK;
}

/* GPTJRotaryEmbedding: sines and cosines of all positions; up to transformers 4 in each layer. */
static void declare_gptj_table(vr_declaring *d)
{
    const uint64_t dims[] = { d->m->max_context, d->m->rotary_dim };
    vr_declare(d, "rotary_emb.embed_positions", VR_PARAM_BUFFER_F32, dims, 2);
}

const vr_special vr_special_gptj = { .name = "gptj",
                                     .read = read_gptj,
                                     .declare_within = declare_gptj_table };

/* ---- GPT-Neo ---- */

/* attention_types: [[["global", "local"], 12]]. Local layers mask what is further away and keep it all the
 * same. */
static vram_status count_listed(vr_reading *r, vr_json list, uint64_t *n)
{
    vr_json item, kinds, times, v;
    uint64_t one;
    for (vr_json_iter it = vr_json_each(list); vr_json_next(&it, &item);) {
        vr_json_iter in = vr_json_each(item);
        if (item.type != VR_JSON_ARRAY || !vr_json_next(&in, &kinds) || !vr_json_next(&in, &times) ||
            kinds.type != VR_JSON_ARRAY || !vr_json_u64(times, &one) || one > VR_MAX_LAYERS)
            return vr_config_refuse(r, "attention_types", item,
                                    "a list of kinds and how often it is repeated");
        for (vr_json_iter each = vr_json_each(kinds); vr_json_next(&each, &v);)
            *n = vr_add_sat(*n, one);
    }
    return VRAM_OK;
}

static vram_status read_gpt_neo(vr_reading *r)
{
    vr_json list;
    uint64_t n = 0;
    if (!vr_config_get(r, "attention_types", &list))
        n = 24; /* 12 of each, whatever num_layers says */
    else if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, "attention_types", list, "an array");
    else
        VR_TRY(count_listed(r, list, &n));
    return n == r->m->n_layers ? VRAM_OK
                               : vr_not_understood(r, T("attention_types is of "), U(n),
                                                   T(" layers, num_layers "), U(r->m->n_layers));
}

/* Each layer's mask of all positions (GPTNeoSelfAttention). */
static void declare_gpt_neo_layer(vr_declaring *d, const vr_layer *l)
{
    const uint64_t n = d->m->max_context, dims[] = { 1, 1, n, n };
    vr_declare_plain_layer(d, l);
    vr_declare(d, "attn.attention.bias", VR_PARAM_BUFFER_BOOL, dims, 4);
}

const vr_special vr_special_gpt_neo = { .name = "gpt_neo",
                                        .read = read_gpt_neo,
                                        .declare_layer = declare_gpt_neo_layer };
