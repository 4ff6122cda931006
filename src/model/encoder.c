/* SPDX-License-Identifier: MIT
 * Encoders of text that make embeddings: BERT, RoBERTa, XLM-RoBERTa. They generate nothing and keep no cache.
 *
 * Names, shapes and order: modeling_bert.py, modeling_roberta.py, modeling_xlm_roberta.py of
 * transformers 5.24 (BertModel and its kin, with the pooler; the heads of other classes on top are left out
 * when they load). */
#include "model/special.h"

#define TOKEN_TYPES 2 /* when the config is silent */
#define MOST_TOKEN_TYPES 65536

static bool is_bert(const vram_model *m)
{
    return vr_str_is(vr_str_of(m->family->model_type), "bert");
}

/* RoBERTa counts its positions from behind pad_token_id (create_position_ids_from_input_ids): of 514 rows
 * there are 512 for tokens. */
static vram_status skip_positions(vr_reading *r)
{
    vram_model *m = r->m;
    uint64_t pad;
    VR_TRY(vr_config_count_or_none(r, "pad_token_id", VR_MAX_WIDTH, 1, &pad));
    vr_forget_silent(r, "pad_token_id");
    if (m->max_context <= pad + 1)
        return vr_not_understood(r, T("max_position_embeddings leaves no position behind pad_token_id"));
    m->skipped_positions = pad + 1;
    m->max_context -= m->skipped_positions;
    return VRAM_OK;
}

static vram_status read_encoder(vr_reading *r)
{
    vram_model *m = r->m;
    bool decoder = false;
    VR_TRY(vr_config_flag(r, "is_decoder", &decoder));
    if (decoder)
        return vr_not_understood(r, T("is_decoder is true: only encoders of this kind are known"));
    VR_TRY(vr_config_count(r, "type_vocab_size", MOST_TOKEN_TYPES, TOKEN_TYPES, &m->token_types));
    m->structure = VR_ENCODER;
    m->learned_positions = true;
    if (!is_bert(m))
        VR_TRY(skip_positions(r));
    m->tied = true; /* there is no head */
    for (uint64_t i = 0; i < m->n_layers; i++)
        m->layers[i].mlp = VR_MLP_PLAIN;
    return VRAM_OK;
}

static uint64_t rows_of_positions(const vram_model *m)
{
    return m->max_context + m->skipped_positions;
}

static void declare_positions(vr_declaring *d)
{
    vr_declare_matrix(d, "position_embeddings.weight", rows_of_positions(d->m), d->m->hidden);
}

/* RoBERTa's own order of the three tables differs from BERT's. */
static void declare_embeddings(vr_declaring *d)
{
    const vram_model *m = d->m;
    const uint64_t ids[] = { 1, rows_of_positions(m) };
    vr_declare_under(d, T("embeddings."));
    vr_declare_matrix(d, "word_embeddings.weight", m->vocab, m->hidden);
    if (is_bert(m))
        declare_positions(d);
    vr_declare_matrix(d, "token_type_embeddings.weight", m->token_types, m->hidden);
    vr_declare_layer_norm(d, "LayerNorm", m->hidden);
    if (!is_bert(m))
        declare_positions(d);
    vr_declare(d, "position_ids", VR_PARAM_BUFFER_I64, ids, 2);
    vr_declare(d, "token_type_ids", VR_PARAM_BUFFER_I64, ids, 2);
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    uint64_t h = d->m->hidden, q = (uint64_t)l->heads * l->key_dim;
    vr_declare_linear(d, "attention.self.query", h, q, true);
    vr_declare_linear(d, "attention.self.key", h, q, true);
    vr_declare_linear(d, "attention.self.value", h, q, true);
    vr_declare_linear(d, "attention.output.dense", q, h, true);
    vr_declare_layer_norm(d, "attention.output.LayerNorm", h);
    vr_declare_linear(d, "intermediate.dense", h, l->ffn, true);
    vr_declare_linear(d, "output.dense", l->ffn, h, true);
    vr_declare_layer_norm(d, "output.LayerNorm", h);
}

/* A checkpoint of a class with a head has the encoder under its own name. */
static const char *stored_prefix(const vram_model *m)
{
    static const char *const prefixes[] = { "bert.", "roberta." };
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const char *name =
            vr_text(&((vram_model *)m)->arena, T(prefixes[i]), T("embeddings.LayerNorm.weight"));
        if (name != NULL && vr_checkpoint_find(m->checkpoint, vr_str_of(name)) != NULL)
            return prefixes[i];
    }
    return NULL;
}

static void declare_encoder(vr_declaring *d)
{
    const vram_model *m = d->m;
    d->stored = stored_prefix(m);
    declare_embeddings(d);
    for (uint64_t i = 0; i < m->n_layers && d->status == VRAM_OK; i++) {
        d->layer = (uint32_t)i;
        vr_declare_under(d, T("encoder.layer."), U(i), T("."));
        declare_layer(d, &m->layers[i]);
    }
    d->layer = VR_NO_LAYER;
    d->path = "";
    vr_declare_linear(d, "pooler.dense", m->hidden, m->hidden, true);
    d->stored = NULL;
}

const vr_special vr_special_encoder = {
    .name = "encoder",
    .prefix = "encoder.",
    .head = "lm_head.weight",
    .read = read_encoder,
    .declare_model = declare_encoder,
};
