/* SPDX-License-Identifier: MIT
 * Whisper: an encoder of speech, which always sees 30 s, and a decoder of text. m->layers are the decoder's;
 * the prompt is the decoder's too.
 *
 * Names, shapes and order: modeling_whisper.py and configuration_whisper.py of transformers 5.24. The table
 * of the encoder's positions is a parameter, which is not trained. */
#include "model/special.h"

#define MOST_MEL_BINS 65536
#define MOST_POSITIONS (UINT64_C(1) << 24)
#define TAPS 3 /* of both convolutions */

/* m->hidden wide altogether; NULL: out of memory */
static vr_layer *stack_of(vr_reading *r, uint64_t n, uint64_t heads, uint64_t ffn, uint64_t cross_heads)
{
    uint64_t width = r->m->hidden / heads;
    return vr_layers_alike(r, n,
                           (vr_layer){ .attention = VR_ATTENTION_FULL,
                                       .mlp = VR_MLP_PLAIN,
                                       .heads = (uint32_t)heads,
                                       .kv_heads = (uint32_t)heads,
                                       .key_dim = (uint32_t)width,
                                       .value_dim = (uint32_t)width,
                                       .cross_heads = (uint32_t)cross_heads,
                                       .ffn = (uint32_t)ffn });
}

static vram_status read_whisper(vr_reading *r)
{
    vram_model *m = r->m;
    const vr_family *f = r->family;
    uint64_t heads, ffn;
    const vr_config_row rows[] = {
        { "encoder_layers", VR_MAX_LAYERS, f->layers_default, &m->n_encoder },
        { "encoder_attention_heads", VR_MAX_HEADS, f->heads_default, &heads },
        { "encoder_ffn_dim", VR_MAX_WIDTH, f->ffn_default, &ffn },
        { "num_mel_bins", MOST_MEL_BINS, 80, &m->mel_bins },
        { "max_source_positions", MOST_POSITIONS, 1500, &m->source_positions },
    };
    VR_TRY(vr_config_counts(r, rows));
    if (m->hidden % heads != 0 || m->hidden % m->heads != 0)
        return vr_not_understood(r, T("d_model, "), U(m->hidden), T(", is no multiple of its heads"));
    if (m->hidden / heads > VR_MAX_HEAD_DIM || m->hidden / m->heads > VR_MAX_HEAD_DIM)
        return vr_not_understood(r, T("its heads are wider than any model's"));
    m->structure = VR_ENCODER_DECODER;
    m->kv_heads = m->heads;
    m->head_dim = m->hidden / m->heads;
    m->rotary_dim = 0;
    m->encoder = stack_of(r, m->n_encoder, heads, ffn, 0);
    m->layers = stack_of(r, m->n_layers, m->heads, m->ffn, m->heads);
    return m->encoder != NULL && m->layers != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* ---- what it declares ---- */

static void declare_attention(vr_declaring *d, const char *module)
{
    uint64_t h = d->m->hidden;
    const char *path = d->path;
    vr_declare_under(d, T(path), T(module), T("."));
    vr_declare_linear(d, "k_proj", h, h, false);
    vr_declare_linear(d, "v_proj", h, h, true);
    vr_declare_linear(d, "q_proj", h, h, true);
    vr_declare_linear(d, "out_proj", h, h, true);
    d->path = path;
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden;
    declare_attention(d, "self_attn");
    vr_declare_layer_norm(d, "self_attn_layer_norm", h);
    if (l->cross_heads != 0) {
        declare_attention(d, "encoder_attn");
        vr_declare_layer_norm(d, "encoder_attn_layer_norm", h);
    }
    vr_declare_linear(d, "fc1", h, l->ffn, true);
    vr_declare_linear(d, "fc2", l->ffn, h, true);
    vr_declare_layer_norm(d, "final_layer_norm", h);
}

static void declare_stack(vr_declaring *d, const vr_layer *layers, uint64_t n)
{
    const char *path = d->path;
    for (uint64_t i = 0; i < n && d->status == VRAM_OK; i++) {
        d->layer = (uint32_t)i;
        vr_declare_under(d, T(path), T("layers."), U(i), T("."));
        declare_layer(d, &layers[i]);
    }
    d->layer = VR_NO_LAYER;
    d->path = path;
    vr_declare_layer_norm(d, "layer_norm", d->m->hidden);
}

static void declare_convolution(vr_declaring *d, const char *weight, const char *bias, uint64_t in)
{
    uint64_t h = d->m->hidden;
    vr_declare(d, weight, VR_PARAM_CONV, (const uint64_t[]){ h, in, TAPS }, 3);
    vr_declare_vector(d, bias, h);
}

static void declare_whisper(vr_declaring *d)
{
    const vram_model *m = d->m;
    d->part = VR_PART_ENCODER;
    d->path = "model.encoder.";
    declare_convolution(d, "conv1.weight", "conv1.bias", m->mel_bins);
    declare_convolution(d, "conv2.weight", "conv2.bias", m->hidden);
    vr_declare_matrix(d, "embed_positions.weight", m->source_positions, m->hidden);
    declare_stack(d, m->encoder, m->n_encoder);
    d->part = VR_PART_DECODER;
    d->path = "model.decoder.";
    vr_declare_matrix(d, "embed_tokens.weight", m->vocab, m->hidden);
    vr_declare_matrix(d, "embed_positions.weight", m->max_context, m->hidden);
    declare_stack(d, m->layers, m->n_layers);
    d->path = "";
    if (!m->tied)
        vr_declare_matrix(d, m->head_name, m->vocab, m->hidden);
}

const vr_special vr_special_whisper = {
    .name = "whisper",
    .prefix = "model.decoder.",
    .head = "proj_out.weight",
    .read = read_whisper,
    .declare_model = declare_whisper,
};
