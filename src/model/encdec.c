/* SPDX-License-Identifier: MIT
 * Encoder and decoder of text: T5, mT5, UMT5. m->layers are the decoder's, which keep keys and values of
 * their own tokens and, once, of the encoder's; m->encoder are the encoder's.
 *
 * Names, shapes and order: modeling_t5.py, modeling_mt5.py, modeling_umt5.py and their configurations,
 * transformers 5.24. */
#include "model/special.h"

#define MOST_BUCKETS 65536

static bool is_family(const vram_model *m, const char *model_type)
{
    return vr_str_is(vr_str_of(m->family->model_type), model_type);
}

/* "gated-silu", or the activation alone; "gated-gelu" is gelu_new (configuration_t5.py, __post_init__). */
static vram_status read_activation(vr_reading *r, bool *gated)
{
    static const char gate[] = "gated-";
    vr_json v;
    vr_str word;
    *gated = r->family->mlp == VR_MLP_GATED;
    r->m->activation = *gated ? VR_ACT_GELU_NEW : VR_ACT_ONE;
    if (!vr_config_get(r, "feed_forward_proj", &v))
        return VRAM_OK;
    if (v.type != VR_JSON_STRING)
        return vr_config_refuse(r, "feed_forward_proj", v, "a string");
    if (!vr_json_str(v, &r->m->arena, &word))
        return VRAM_ENOMEM;
    *gated = vr_str_starts(word, gate);
    if (*gated)
        word = (vr_str){ word.s + sizeof gate - 1, word.n - (sizeof gate - 1) };
    r->m->activation = *gated && vr_str_is(word, "gelu") ? VR_ACT_GELU_NEW : vr_activation_named(word);
    return VRAM_OK;
}

static vr_layer *stack_of(vr_reading *r, uint64_t n, bool gated, uint64_t cross_heads)
{
    const vram_model *m = r->m;
    return vr_layers_alike(r, n,
                           (vr_layer){ .attention = VR_ATTENTION_FULL,
                                       .mlp = gated ? VR_MLP_GATED : VR_MLP_PLAIN,
                                       .heads = (uint32_t)m->heads,
                                       .kv_heads = (uint32_t)m->heads,
                                       .key_dim = (uint32_t)m->head_dim,
                                       .value_dim = (uint32_t)m->head_dim,
                                       .cross_heads = (uint32_t)cross_heads,
                                       .ffn = (uint32_t)m->ffn });
}

static vram_status read_t5(vr_reading *r)
{
    vram_model *m = r->m;
    const vr_family *f = r->family;
    bool gated;
    VR_TRY(vr_config_count(r, "d_model", VR_MAX_WIDTH, f->hidden_default, &m->hidden));
    VR_TRY(vr_config_count(r, "d_kv", VR_MAX_HEAD_DIM, f->head_dim_default, &m->head_dim));
    VR_TRY(vr_config_count(r, "d_ff", VR_MAX_WIDTH, f->ffn_default, &m->ffn));
    VR_TRY(vr_config_count(r, "num_heads", VR_MAX_HEADS, f->heads_default, &m->heads));
    VR_TRY(vr_config_count(r, "num_layers", VR_MAX_LAYERS, f->layers_default, &m->n_encoder));
    VR_TRY(vr_config_count(r, "num_decoder_layers", VR_MAX_LAYERS, m->n_encoder, &m->n_layers));
    VR_TRY(vr_config_count(r, "relative_attention_num_buckets", MOST_BUCKETS, 32, &m->bias_buckets));
    VR_TRY(read_activation(r, &gated));
    m->structure = VR_ENCODER_DECODER;
    m->bias_by_layer = is_family(m, "umt5");
    m->output_scaled = m->tied && !is_family(m, "mt5"); /* which never scales */
    /* From version 5 on the head is tied whatever the configuration says, unless it is stored. */
    m->tied = m->tied || (!m->has_head && r->ck->n_tensors != 0);
    m->kv_heads = m->heads;
    m->max_context = 0; /* positions are relative */
    m->rotary_dim = 0;
    m->encoder = stack_of(r, m->n_encoder, gated, 0);
    m->layers = stack_of(r, m->n_layers, gated, m->heads);
    return m->encoder != NULL && m->layers != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* ---- what it declares ---- */

static void declare_attention(vr_declaring *d, const vr_layer *l, const char *module, bool bias)
{
    uint64_t h = d->m->hidden, q = (uint64_t)l->heads * l->key_dim;
    const char *path = d->path;
    vr_declare_under(d, T(path), T(module), T("."));
    vr_declare_linear(d, "q", h, q, false);
    vr_declare_linear(d, "k", h, q, false);
    vr_declare_linear(d, "v", h, q, false);
    vr_declare_linear(d, "o", q, h, false);
    if (bias)
        vr_declare_matrix(d, "relative_attention_bias.weight", d->m->bias_buckets, l->heads);
    d->path = path;
}

static void declare_mlp(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden;
    if (l->mlp == VR_MLP_GATED) {
        vr_declare_linear(d, "DenseReluDense.wi_0", h, l->ffn, false);
        vr_declare_linear(d, "DenseReluDense.wi_1", h, l->ffn, false);
    } else {
        vr_declare_linear(d, "DenseReluDense.wi", h, l->ffn, false);
    }
    vr_declare_linear(d, "DenseReluDense.wo", l->ffn, h, false);
}

static void declare_block(vr_declaring *d, const vr_layer *l, const char *stack, uint64_t i)
{
    uint64_t h = d->m->hidden, n = 0;
    d->layer = (uint32_t)i;
    vr_declare_under(d, T(stack), T(".block."), U(i), T(".layer."), U(n++), T("."));
    declare_attention(d, l, "SelfAttention", i == 0 || d->m->bias_by_layer);
    vr_declare_vector(d, "layer_norm.weight", h);
    if (l->cross_heads != 0) {
        vr_declare_under(d, T(stack), T(".block."), U(i), T(".layer."), U(n++), T("."));
        declare_attention(d, l, "EncDecAttention", false);
        vr_declare_vector(d, "layer_norm.weight", h);
    }
    vr_declare_under(d, T(stack), T(".block."), U(i), T(".layer."), U(n), T("."));
    declare_mlp(d, l);
    vr_declare_vector(d, "layer_norm.weight", h);
}

static void declare_stack(vr_declaring *d, const vr_layer *layers, uint64_t n, const char *stack)
{
    for (uint64_t i = 0; i < n && d->status == VRAM_OK; i++)
        declare_block(d, &layers[i], stack, i);
    d->layer = VR_NO_LAYER;
    vr_declare_under(d, T(stack), T("."));
    vr_declare_vector(d, "final_layer_norm.weight", d->m->hidden);
    d->path = "";
}

static void declare_t5(vr_declaring *d)
{
    const vram_model *m = d->m;
    d->path = "";
    vr_declare_matrix(d, "shared.weight", m->vocab, m->hidden);
    d->part = VR_PART_ENCODER;
    declare_stack(d, m->encoder, m->n_encoder, "encoder");
    d->part = VR_PART_DECODER;
    declare_stack(d, m->layers, m->n_layers, "decoder");
    if (!m->tied)
        vr_declare_matrix(d, m->head_name, m->vocab, m->hidden);
}

const vr_special vr_special_t5 = {
    .name = "t5",
    .prefix = "decoder.",
    .head = "lm_head.weight",
    .read = read_t5,
    .declare_model = declare_t5,
};
