/* SPDX-License-Identifier: MIT
 * DeepSeek-V4: attention over a short window and over compressed entries, one for every few tokens, which an
 * index chooses from; keys and values of all heads are one vector; several copies of the hidden states are
 * mixed around each block (transformers 5.24, models/deepseek_v4: configuration_deepseek_v4.py,
 * modeling_deepseek_v4.py). Tables of experts by token, of the first layers, are no parameters. */
#include "model/experts.h"
#include "model/special.h"

#define FEW 4    /* tokens an entry of compressed_sparse_attention, which has an index */
#define MANY 128 /* of heavily_compressed_attention, which has none */

/* compress_ratios: a number for each layer, and for those that predict further tokens. */
static vram_status rates_by_list(vr_reading *r, vr_json list)
{
    vram_model *m = r->m;
    vr_json_iter it = vr_json_each(list);
    vr_json v;
    uint64_t n = 0, rate;
    if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, "compress_ratios", list, "an array");
    for (; vr_json_next(&it, &v); n++) {
        if (!vr_json_u64(v, &rate) || (rate != 0 && rate != FEW && rate != MANY))
            return vr_not_understood(r, T("compress_ratios has something else than 0, "), U(FEW), T(" or "),
                                     U(MANY), T(", at layer "), U(n));
        if (n < m->n_layers)
            m->layers[n].compress_rate = (uint32_t)rate;
    }
    return n >= m->n_layers ? VRAM_OK : vr_config_wrong_length(r, "compress_ratios", n);
}

/* Those behind the model's last layer predict further tokens (the class cuts them off). */
static vram_status rates_by_kind(vr_reading *r, vr_json list)
{
    static const vr_layer_word words[] = { { "sliding_attention", 0 },
                                           { "compressed_sparse_attention", FEW },
                                           { "heavily_compressed_attention", MANY },
                                           { NULL, 0 } };
    vram_model *m = r->m;
    uint64_t n;
    uint8_t *rates = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    if (rates == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_config_words(r, "layer_types", list, words, rates, &n));
    for (uint64_t i = 0; i < m->n_layers; i++)
        m->layers[i].compress_rate = rates[i];
    return m->not_understood != NULL || n >= m->n_layers ? VRAM_OK
                                                         : vr_config_wrong_length(r, "layer_types", n);
}

static vram_status read_rates(vr_reading *r)
{
    vram_model *m = r->m;
    vr_json v;
    if (vr_config_get(r, "layer_types", &v))
        return rates_by_kind(r, v);
    if (vr_config_get(r, "compress_rates", &v))
        return vr_not_understood(r, T("compress_rates is not read"));
    if (vr_config_get(r, "compress_ratios", &v))
        return rates_by_list(r, v);
    for (uint64_t i = 0; i < m->n_layers; i++)
        m->layers[i].compress_rate = i < 2 || i % 2 == 0 ? MANY : FEW;
    return VRAM_OK;
}

static vram_status read_sizes(vr_reading *r, vr_layer *l)
{
    uint64_t small, groups, out, heads, dim, topk, copies, rotary, window;
    VR_TRY(vr_config_count(r, "sliding_window", UINT32_MAX, 128, &window));
    VR_TRY(vr_config_count(r, "q_lora_rank", VR_MAX_WIDTH, 1024, &small));
    VR_TRY(vr_config_count(r, "o_groups", VR_MAX_HEADS, 8, &groups));
    VR_TRY(vr_config_count(r, "o_lora_rank", VR_MAX_HEAD_DIM, 1024, &out));
    VR_TRY(vr_config_count(r, "index_n_heads", VR_MAX_HEADS, 64, &heads));
    VR_TRY(vr_config_count(r, "index_head_dim", VR_MAX_HEAD_DIM, 128, &dim));
    VR_TRY(vr_config_count(r, "index_topk", UINT32_MAX, 512, &topk));
    VR_TRY(vr_config_count(r, "hc_mult", 256, 4, &copies));
    VR_TRY(vr_config_count(r, "qk_rope_head_dim", VR_MAX_HEAD_DIM, 64, &rotary));
    if (r->m->heads % groups != 0)
        return vr_not_understood(r, T("o_groups, "), U(groups), T(", is no divisor of the "), U(r->m->heads),
                                 T(" heads"));
    *l = (vr_layer){ .query_latent = (uint32_t)small,
                     .out_groups = (uint32_t)groups,
                     .out_latent = (uint32_t)out,
                     .index_heads = (uint32_t)heads,
                     .index_dim = (uint32_t)dim,
                     .index_topk = (uint32_t)topk,
                     .streams = (uint32_t)copies,
                     .rotary_dim = (uint32_t)rotary,
                     .window = (uint32_t)window };
    return VRAM_OK;
}

static vram_status read_decoder(vr_reading *r)
{
    vram_model *m = r->m;
    vr_layer s = { 0 };
    VR_TRY(read_rates(r));
    if (m->not_understood == NULL)
        VR_TRY(read_sizes(r, &s));
    if (m->not_understood != NULL)
        return VRAM_OK;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        vr_layer *l = &m->layers[i];
        bool index = l->compress_rate == FEW;
        l->query_latent = s.query_latent;
        l->out_groups = s.out_groups;
        l->out_latent = s.out_latent;
        l->streams = s.streams;
        l->rotary_dim = s.rotary_dim;
        l->attention = VR_ATTENTION_SLIDING;
        l->window = s.window;
        l->index_heads = index ? s.index_heads : 0;
        l->index_dim = index ? s.index_dim : 0;
        l->index_topk = index ? s.index_topk : 0;
    }
    m->rotary_dim = s.rotary_dim;
    m->cache_unknown =
        "what a cache of compressed entries keeps differs from engine to engine and is not known yet";
    return vr_read_experts(r, vr_moe_of("deepseek_v4"));
}

/* ---- the parameters ---- */

/* Entries overlap where there are few tokens in each: twice the width. */
static void declare_compressor(vr_declaring *d, uint64_t rate, uint64_t dim)
{
    uint64_t width = rate == FEW ? 2 * dim : dim, h = d->m->hidden;
    vr_declare_matrix(d, "position_bias", rate, width);
    vr_declare_linear(d, "kv_proj", h, width, false);
    vr_declare_linear(d, "gate_proj", h, width, false);
    vr_declare_vector(d, "kv_norm.weight", dim);
}

static void declare_compression(vr_declaring *d, const vr_layer *l)
{
    const char *path = d->path;
    if (l->compress_rate == 0)
        return;
    vr_declare_under(d, T(path), T("self_attn.compressor."));
    declare_compressor(d, l->compress_rate, l->key_dim);
    if (l->index_heads != 0) {
        vr_declare_under(d, T(path), T("self_attn.compressor.indexer."));
        declare_compressor(d, l->compress_rate, l->index_dim);
        vr_declare_linear(d, "q_b_proj", l->query_latent, (uint64_t)l->index_heads * l->index_dim, false);
        vr_declare_linear(d, "scorer.weights_proj", d->m->hidden, l->index_heads, false);
    }
    d->path = path;
}

static void declare_attention(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden, q = (uint64_t)l->heads * l->key_dim;
    uint64_t out = (uint64_t)l->out_groups * l->out_latent;
    vr_declare_vector(d, "self_attn.sinks", l->heads);
    vr_declare_linear(d, "self_attn.q_a_proj", h, l->query_latent, false);
    vr_declare_vector(d, "self_attn.q_a_norm.weight", l->query_latent);
    vr_declare_linear(d, "self_attn.q_b_proj", l->query_latent, q, false);
    vr_declare_linear(d, "self_attn.kv_proj", h, l->key_dim, false);
    vr_declare_vector(d, "self_attn.kv_norm.weight", l->key_dim);
    vr_declare_linear(d, "self_attn.o_a_proj", q / l->out_groups, out, false);
    vr_declare_linear(d, "self_attn.o_b_proj", out, h, false);
    declare_compression(d, l);
}

/* DeepseekV4HyperConnection */
static void declare_mixing(vr_declaring *d, const char *fn, const char *base, const char *scale, uint64_t n)
{
    uint64_t mixed = (2 + n) * n;
    vr_declare_matrix(d, fn, mixed, n * d->m->hidden);
    vr_declare_vector(d, base, mixed);
    vr_declare_vector(d, scale, 3);
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    declare_attention(d, l);
    vr_declare_any_mlp(d, l);
    vr_declare_norms(d);
    declare_mixing(d, "attn_hc.fn", "attn_hc.base", "attn_hc.scale", l->streams);
    declare_mixing(d, "ffn_hc.fn", "ffn_hc.base", "ffn_hc.scale", l->streams);
}

/* DeepseekV4HyperHead */
static void declare_after(vr_declaring *d)
{
    uint64_t n = d->m->layers[0].streams;
    vr_declare_matrix(d, "model.hc_head.hc_fn", n, n * d->m->hidden);
    vr_declare_vector(d, "model.hc_head.hc_base", n);
    vr_declare_vector(d, "model.hc_head.hc_scale", 1);
}

const vr_special vr_special_compressed = {
    .name = "compressed",
    .own_kinds = true,
    .read = read_decoder,
    .declare_layer = declare_layer,
    .declare_after = declare_after,
};
