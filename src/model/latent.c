/* SPDX-License-Identifier: MIT
 * Multi-head latent attention (MLA): keys and values of all heads are made from one short vector a token, and
 * a rotated part of the key that all heads share; queries may go through a short vector of their own.
 * DeepSeek's sparse attention (DSA) adds an index with heads of its own, which chooses the tokens that are
 * attended to. transformers 5.24: models/deepseek_v2, deepseek_v3, deepseek_v32, glm_moe_dsa, glm4_moe_lite,
 * mistral4, minicpm3, their configuration_*.py and modeling_*.py. */
#include "model/latent.h"

#include "model/experts.h"

/* ---- the settings ---- */

/* null is a word of its own here: no short vector for the queries. */
static vram_status read_query_latent(vr_reading *r, uint64_t *out)
{
    vr_json v;
    if (vr_config_says(r, "q_lora_rank", &v) && v.type == VR_JSON_NULL) {
        *out = 0;
        return VRAM_OK;
    }
    return vr_config_count(r, "q_lora_rank", VR_MAX_WIDTH, *out, out);
}

static vram_status read_index(vr_reading *r, vr_latent *s)
{
    if (s->index_topk == 0)
        return VRAM_OK;
    VR_TRY(vr_config_count(r, "index_n_heads", VR_MAX_HEADS, s->index_heads, &s->index_heads));
    VR_TRY(vr_config_count(r, "index_head_dim", VR_MAX_HEAD_DIM, s->index_dim, &s->index_dim));
    VR_TRY(vr_config_count(r, "index_topk", UINT32_MAX, s->index_topk, &s->index_topk));
    if (s->index_dim < s->rotary)
        return vr_not_understood(r, T("index_head_dim, "), U(s->index_dim),
                                 T(", is smaller than the rotated part, "), U(s->rotary));
    return VRAM_OK;
}

vram_status vr_read_latent(vr_reading *r, vr_latent *s)
{
    const vr_config_row sizes[] = {
        { "kv_lora_rank", VR_MAX_WIDTH, s->latent, &s->latent },
        { "qk_nope_head_dim", VR_MAX_HEAD_DIM, s->plain, &s->plain },
        { "qk_rope_head_dim", VR_MAX_HEAD_DIM, s->rotary, &s->rotary },
        { "v_head_dim", VR_MAX_HEAD_DIM, s->value, &s->value },
    };
    VR_TRY(read_query_latent(r, &s->query_latent));
    VR_TRY(vr_config_counts(r, sizes));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (*sizes[i].to == 0)
            return vr_not_understood(r, T(sizes[i].key), T(" is absent, and the class has no default"));
    if (s->rotary % 2 != 0)
        return vr_not_understood(r, T("qk_rope_head_dim, "), U(s->rotary), T(", is odd"));
    return read_index(r, s);
}

void vr_set_latent(vr_layer *l, const vr_latent *s, uint64_t heads)
{
    l->attention = VR_ATTENTION_LATENT;
    l->window = 0;
    l->heads = l->kv_heads = (uint32_t)heads;
    l->key_dim = (uint32_t)(s->plain + s->rotary);
    l->value_dim = (uint32_t)s->value;
    l->rotary_dim = (uint32_t)s->rotary;
    l->latent = (uint32_t)s->latent;
    l->query_latent = (uint32_t)s->query_latent;
    l->index_heads = (uint32_t)s->index_heads;
    l->index_dim = (uint32_t)s->index_dim;
    l->index_topk = (uint32_t)s->index_topk;
}

/* ---- the parameters ---- */

static void declare_index(vr_declaring *d, const vr_layer *l)
{
    uint64_t heads = l->index_heads, dim = l->index_dim;
    vr_declare_linear(d, "self_attn.indexer.wq_b", l->query_latent, heads * dim, false);
    vr_declare_linear(d, "self_attn.indexer.wk", d->m->hidden, dim, false);
    vr_declare_layer_norm(d, "self_attn.indexer.k_norm", dim);
    vr_declare_linear(d, "self_attn.indexer.weights_proj", d->m->hidden, heads, false);
}

void vr_declare_latent(vr_declaring *d, const vr_layer *l)
{
    const vram_model *m = d->m;
    uint64_t heads = l->heads, q = heads * l->key_dim, v = heads * l->value_dim;
    uint64_t plain = heads * (l->key_dim - l->rotary_dim);
    if (l->query_latent == 0) {
        vr_declare_linear(d, "self_attn.q_proj", m->hidden, q, false);
    } else {
        vr_declare_linear(d, "self_attn.q_a_proj", m->hidden, l->query_latent, m->qkv_bias);
        vr_declare_vector(d, "self_attn.q_a_layernorm.weight", l->query_latent);
        vr_declare_linear(d, "self_attn.q_b_proj", l->query_latent, q, false);
    }
    vr_declare_linear(d, "self_attn.kv_a_proj_with_mqa", m->hidden, (uint64_t)l->latent + l->rotary_dim,
                      m->qkv_bias);
    vr_declare_vector(d, "self_attn.kv_a_layernorm.weight", l->latent);
    vr_declare_linear(d, "self_attn.kv_b_proj", l->latent, plain + v, false);
    vr_declare_linear(d, "self_attn.o_proj", v, m->hidden, m->o_bias);
    if (l->index_heads != 0)
        declare_index(d, l);
}

/* ---- decoders of nothing else ---- */

static const struct {
    const char *model_type;
    vr_latent sizes;
} classes[] = {
    { "deepseek_v2", { 512, 1536, 128, 64, 128, 0, 0, 0 } },
    { "deepseek_v3", { 512, 1536, 128, 64, 128, 0, 0, 0 } },
    { "kimi_k2", { 512, 1536, 128, 64, 128, 0, 0, 0 } },
    { "deepseek_v32", { 512, 1536, 128, 64, 128, 64, 128, 2048 } },
    { "glm_moe_dsa", { 512, 2048, 192, 64, 256, 32, 128, 2048 } },
    { "glm4_moe_lite", { 512, 768, 192, 64, 256, 0, 0, 0 } },
    { "mistral4", { 256, 1024, 64, 64, 128, 0, 0, 0 } },
    { "minicpm3", { 256, 768, 64, 32, 0, 0, 0, 0 } },
};

/* minicpm3: v_head_dim is hidden / heads when nobody gives it. */
static vr_latent defaults_of(const vr_reading *r)
{
    const vram_model *m = r->m;
    vr_latent s = { 0 };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (vr_str_is(vr_str_of(r->family->model_type), classes[i].model_type))
            s = classes[i].sizes;
    if (s.value == 0 && m->hidden / m->heads <= VR_MAX_HEAD_DIM)
        s.value = m->hidden / m->heads;
    return s;
}

/* GLM-5.2: layers called "shared" have no index of their own and take what the last layer with one chose. */
static vram_status share_index_by_list(vr_reading *r, vr_json list)
{
    enum { OWN, SHARED };
    static const vr_layer_word words[] = { { "full", OWN }, { "shared", SHARED }, { NULL, 0 } };
    vram_model *m = r->m;
    uint64_t n;
    uint8_t *kinds = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    if (kinds == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_config_words(r, "indexer_types", list, words, kinds, &n));
    if (m->not_understood != NULL)
        return VRAM_OK;
    if (n < m->n_layers)
        return vr_config_wrong_length(r, "indexer_types", n);
    if (kinds[0] == SHARED)
        return vr_not_understood(r, T("indexer_types: there is no layer before the first to share with"));
    for (uint64_t i = 0; i < m->n_layers; i++)
        if (kinds[i] == SHARED)
            m->layers[i].index_heads = m->layers[i].index_dim = 0;
    return VRAM_OK;
}

/* configuration_glm_moe_dsa.py: without a list every index_topk_freq-th layer from an offset on has one. */
static vram_status share_index(vr_reading *r)
{
    vram_model *m = r->m;
    uint64_t every, offset;
    vr_json list;
    if (!r->family->index_shared)
        return VRAM_OK;
    if (vr_config_get(r, "indexer_types", &list))
        return share_index_by_list(r, list);
    if (vr_config_get(r, "index_topk_pattern", &list))
        return vr_not_understood(r, T("index_topk_pattern without indexer_types is not read"));
    VR_TRY(vr_config_count(r, "index_topk_freq", VR_MAX_LAYERS, 1, &every));
    VR_TRY(vr_config_count(r, "index_skip_topk_offset", VR_MAX_LAYERS, 2, &offset));
    for (uint64_t i = 0; i < m->n_layers; i++)
        if (i + 1 > offset && (i + 1 - offset) % every != 0)
            m->layers[i].index_heads = m->layers[i].index_dim = 0;
    return VRAM_OK;
}

static vram_status read_decoder(vr_reading *r)
{
    vram_model *m = r->m;
    const vr_moe *moe = vr_moe_of(r->family->model_type); /* minicpm3 has none */
    vr_latent sizes = defaults_of(r);
    if (m->kv_heads != m->heads)
        return vr_not_understood(r, T("num_key_value_heads is "), U(m->kv_heads),
                                 T(", but every one of the "), U(m->heads),
                                 T(" heads has its own keys in latent attention"));
    VR_TRY(vr_read_latent(r, &sizes));
    if (m->not_understood != NULL)
        return VRAM_OK;
    m->head_dim = sizes.plain + sizes.rotary;
    m->rotary_dim = sizes.rotary;
    for (uint64_t i = 0; i < m->n_layers; i++)
        vr_set_latent(&m->layers[i], &sizes, m->heads);
    VR_TRY(share_index(r));
    return moe != NULL && m->not_understood == NULL ? vr_read_experts(r, moe) : VRAM_OK;
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    vr_declare_latent(d, l);
    vr_declare_any_mlp(d, l);
    vr_declare_norms(d);
}

const vr_special vr_special_latent = {
    .name = "latent",
    .own_kinds = true,
    .read = read_decoder,
    .declare_layer = declare_layer,
};
