/* SPDX-License-Identifier: MIT
 * What is too large to be rehearsed: after this no size of a storage overflows. */
#include "engine/pass.h"

#define MOST_BYTES (UINT64_C(1) << 58) /* of any one product below */
#define MOST_LAYERS 4096

static vram_status too_large(const vr_pass *p, const char *what)
{
    return vr_fail(p->m->ctx, VRAM_ELIMIT, T("context "), GROUPED(p->w->context), T(" x "),
                   GROUPED(p->w->sequences), T(p->w->sequences == 1 ? " sequence: " : " sequences: "),
                   T(what), T(" would be over the limit of 256 PiB"));
}

static bool product(const uint64_t *factors, size_t n)
{
    uint64_t x = 1;
    for (size_t i = 0; i < n; i++) {
        if (!vr_mul(x, factors[i], &x))
            return false;
    }
    return x <= MOST_BYTES;
}

/* Latent attention: what one head's keys and values are made from, and its index. */
static uint64_t widest_latent(const vr_layer *l)
{
    uint64_t expanded = (uint64_t)l->heads * ((uint64_t)l->key_dim + l->value_dim);
    uint64_t index = (uint64_t)l->index_heads * l->index_dim, small = (uint64_t)l->latent + l->rotary_dim;
    uint64_t most = expanded > index ? expanded : index;
    most = small > most ? small : most;
    return l->query_latent > most ? l->query_latent : most;
}

/* Layers of one model may differ in their heads and MLPs, and have embeddings of their own. */
static uint64_t widest_layer(const vram_model *m)
{
    uint64_t most = 1;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        const uint64_t widths[] = { (uint64_t)l->heads * l->key_dim, 2 * (uint64_t)l->ffn,
                                    2 * (uint64_t)l->kv_heads * l->key_dim, l->side_width * m->n_layers };
        for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
            most = widths[k] > most ? widths[k] : most;
    }
    return most;
}

static uint64_t widest(const vram_model *m)
{
    const uint64_t widths[] = { m->hidden,
                                vr_mul_sat(m->heads, m->head_dim),
                                vr_mul_sat(vr_mul_sat(2, m->kv_heads), m->head_dim),
                                vr_mul_sat(2, m->ffn),
                                m->vocab,
                                widest_layer(m) };
    uint64_t most = 1;
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        most = widths[i] > most ? widths[i] : most;
    if (m->n_layers != 0 && m->layers[0].latent != 0 && widest_latent(&m->layers[0]) > most)
        most = widest_latent(&m->layers[0]);
    return vr_mul_sat(2, most);
}

static uint64_t index_heads(const vram_model *m)
{
    return m->n_layers != 0 ? m->layers[0].index_heads : 0;
}

static uint64_t index_width(const vram_model *m)
{
    return m->n_layers != 0 ? m->layers[0].index_dim : 0;
}

static uint64_t widest_expert(const vram_model *m)
{
    uint64_t both = 2 * m->expert_ffn;
    return both > m->hidden ? both : m->hidden;
}

/* The first that is; recurrent layers of one model are alike. */
static vr_layer recurrent_of(const vram_model *m)
{
    for (uint64_t i = 0; i < m->n_layers; i++) {
        if (vr_layer_keeps_state(&m->layers[i]))
            return m->layers[i];
    }
    return (vr_layer){ .chunk = 1 };
}

/* Of an encoder of speech: numbers of a frame, or what a layer makes of a position. */
static uint64_t widest_heard(const vram_model *m)
{
    uint64_t ffn = m->n_encoder != 0 ? m->encoder[0].ffn : 0, most = m->hidden;
    most = ffn > most ? ffn : most;
    return m->mel_bins > most ? m->mel_bins : most;
}

/* Of any stack. */
static uint64_t most_heads(const vram_model *m)
{
    uint64_t heads = m->n_encoder != 0 ? m->encoder[0].heads : 0;
    return heads > m->heads ? heads : m->heads;
}

/* After this no size of a storage overflows. */
vram_status vr_check_limits(const vr_pass *p)
{
    const vram_model *m = p->m;
    const vram_workload *w = p->w;
    uint64_t tokens = vr_add_sat(vr_add_sat(w->context, w->decode), w->drafts), beams = vr_beams(w);
    tokens = m->source_positions > tokens ? m->source_positions : tokens;
    uint64_t batch = vr_mul_sat(w->prefill_batch, beams), sequences = vr_mul_sat(w->sequences, beams);
    const vr_layer r = recurrent_of(m);
    uint64_t longest = r.state_rows > r.state_columns ? r.state_rows : r.state_columns, chunk = r.chunk + 1;
    uint64_t state = vr_layer_state_elements(&r), conv = vr_layer_conv_elements(&r);
    uint64_t padded = vr_add_sat(w->context, chunk), chunks = padded / chunk + 2;
    const struct {
        uint64_t factors[5];
        const char *what;
    } products[] = {
        { { batch, padded, chunk, vr_mul_sat(r.state_heads, longest), 8 }, "the products of a chunk" },
        { { batch, padded, state, 8, 1 }, "the states of all tokens" },
        { { batch, chunks, chunks, state, 8 }, "the states between chunks" },
        { { batch, padded, conv, 8, 1 }, "the convolution's input" },
        { { sequences, m->n_layers + 1, vr_add_sat(state, conv), 8, 1 }, "the recurrent states" },
        { { widest(m), widest(m), m->n_layers + 1, 8, 1 }, "a layer's weights" },
        { { sequences, w->context, 8, 1, 1 }, "the token ids" },
        { { batch, vr_add_sat(w->context, w->drafts), widest(m), 8, 1 }, "the widest storage" },
        { { batch, w->context, vr_mul_sat(m->experts_used, widest_expert(m)), 8, 1 }, "the experts' tokens" },
        { { batch, w->context, vr_mul_sat(m->experts_used, m->experts + 1), 8, 1 }, "the experts' masks" },
        { { sequences, tokens, widest(m), m->n_layers + 1, 8 }, "the KV cache" },
        { { batch, most_heads(m), tokens, tokens, 8 }, "the attention scores" },
        { { sequences, m->source_positions, 2, widest_heard(m), 8 }, "the encoder's widest storage" },
        { { batch, index_heads(m), tokens, tokens, 8 }, "the scores of the index" },
        { { batch, index_width(m), tokens, tokens, 8 }, "the keys of the index" },
        { { w->sequences, w->images, vr_patches(w), vr_patch_width(m), 16 }, "the pictures' patches" },
        { { m->tower != NULL ? m->tower->heads : 0, vr_patches(w), vr_patches(w), 8, 1 },
          "a picture's attention scores" },
    };
    if (m->n_layers > MOST_LAYERS)
        return vr_fail(m->ctx, VRAM_ELIMIT, GROUPED(m->n_layers), T(" layers are over the limit of "),
                       GROUPED(MOST_LAYERS));
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        if (!product(products[i].factors, 5))
            return too_large(p, products[i].what);
    }
    return VRAM_OK;
}
