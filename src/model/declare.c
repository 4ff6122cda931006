/* SPDX-License-Identifier: MIT
 * The parameters and buffers that a class declares, by its configuration
 * (tests/oracle/facts/order-*.tsv). The order of names in a checkpoint's header plays no part. */
#include "model/special.h"

#include <string.h>

#define MOST_DECLARED (UINT64_C(1) << 22) /* far above any model's number of tensors */

/* ---- one of them ---- */

static bool grow(vr_declaring *d)
{
    if (d->n < d->room)
        return true;
    if (d->n >= MOST_DECLARED) {
        d->status = vr_fail(d->m->ctx, VRAM_ELIMIT, T("config.json declares more than "),
                            GROUPED(MOST_DECLARED), T(" tensors"));
        return false;
    }
    size_t room = d->room != 0 ? 2 * d->room : 256;
    d->list = vr_arena_grow(&d->m->arena, d->list, d->n, room, sizeof *d->list);
    d->room = room;
    if (d->list == NULL)
        d->status = VRAM_ENOMEM;
    return d->list != NULL;
}

static vr_str whole_name(vr_declaring *d, const char *name)
{
    size_t n = strlen(d->path), k = strlen(name);
    char *whole = vr_arena_alloc(&d->m->arena, n + k + 1);
    if (whole == NULL)
        return (vr_str){ NULL, 0 };
    memcpy(whole, d->path, n);
    memcpy(whole + n, name, k + 1);
    return (vr_str){ whole, n + k };
}

bool vr_declared_is_stored(const vr_declared *d)
{
    return d->kind != VR_PARAM_BUFFER && d->kind != VR_PARAM_BUFFER_F32 && d->kind != VR_PARAM_ROTARY &&
           d->kind != VR_PARAM_SCALE;
}

void vr_declare(vr_declaring *d, const char *name, vr_param_kind kind, const uint64_t *dims, uint8_t n_dims)
{
    vr_declared p = { .elements = 1, .layer = d->layer, .n_dims = n_dims, .kind = kind, .part = d->part };
    if (d->status != VRAM_OK || !grow(d))
        return;
    p.name = whole_name(d, name);
    if (p.name.s == NULL) {
        d->status = VRAM_ENOMEM;
        return;
    }
    for (uint8_t i = 0; i < n_dims; i++) {
        p.dims[i] = dims[i];
        p.elements = vr_mul_sat(p.elements, dims[i]);
    }
    if (vr_declared_is_stored(&p)) {
        vr_str stored = { p.name.s + d->skip, p.name.n - d->skip };
        p.tensor = vr_checkpoint_find(d->m->checkpoint, stored);
        d->m->declared_parameters = vr_add_sat(d->m->declared_parameters, p.elements);
    }
    p.skip = (uint8_t)d->skip;
    d->list[d->n++] = p;
}

void vr_declare_vector(vr_declaring *d, const char *name, uint64_t n)
{
    vr_declare(d, name, VR_PARAM_WEIGHT, &n, 1);
}

void vr_declare_matrix(vr_declaring *d, const char *name, uint64_t rows, uint64_t columns)
{
    vr_declare(d, name, VR_PARAM_WEIGHT, (const uint64_t[]){ rows, columns }, 2);
}

void vr_declare_experts(vr_declaring *d, const char *name, uint64_t n, uint64_t rows, uint64_t columns)
{
    vr_declare(d, name, VR_PARAM_EXPERTS, (const uint64_t[]){ n, rows, columns }, 3);
}

#define LONGEST_MODULE 96

static void part_of_module(vr_declaring *d, const char *module, const char *end, vr_param_kind kind,
                           const uint64_t *dims, uint8_t n_dims)
{
    char name[LONGEST_MODULE + 8];
    size_t n = strlen(module);
    if (n > LONGEST_MODULE)
        n = LONGEST_MODULE;
    memcpy(name, module, n);
    memcpy(name + n, end, strlen(end) + 1);
    vr_declare(d, name, kind, dims, n_dims);
}

void vr_declare_linear(vr_declaring *d, const char *module, uint64_t in, uint64_t out, bool bias)
{
    part_of_module(d, module, ".weight", VR_PARAM_LINEAR, (const uint64_t[]){ out, in }, 2);
    if (bias)
        part_of_module(d, module, ".bias", VR_PARAM_WEIGHT, &out, 1);
}

void vr_declare_under_pieces(vr_declaring *d, const vr_piece *p, size_t n)
{
    const char *path = vr_text_pieces(&d->m->arena, p, n);
    if (path != NULL)
        d->path = path;
    else if (d->status == VRAM_OK)
        d->status = VRAM_ENOMEM;
}

/* ---- a plain decoder ---- */

void vr_declare_attention(vr_declaring *d, const vr_layer *l)
{
    const vram_model *m = d->m;
    uint64_t q = (uint64_t)l->heads * l->key_dim, k = (uint64_t)l->kv_heads * l->key_dim;
    uint64_t v = (uint64_t)l->kv_heads * l->value_dim, o = (uint64_t)l->heads * l->value_dim;
    if (m->family->fused_qkv) {
        vr_declare_linear(d, "self_attn.o_proj", o, m->hidden, m->o_bias);
        vr_declare_linear(d, "self_attn.qkv_proj", m->hidden, q + k + v, m->qkv_bias);
    } else {
        vr_declare_linear(d, "self_attn.q_proj", m->hidden, q, m->qkv_bias);
        vr_declare_linear(d, "self_attn.k_proj", m->hidden, k, m->qkv_bias);
        vr_declare_linear(d, "self_attn.v_proj", m->hidden, v, m->qkv_bias);
        vr_declare_linear(d, "self_attn.o_proj", o, m->hidden, m->o_bias);
    }
    if (m->family->qk_norm) {
        vr_declare_vector(d, "self_attn.q_norm.weight", l->key_dim);
        vr_declare_vector(d, "self_attn.k_norm.weight", l->key_dim);
    }
}

void vr_declare_mlp(vr_declaring *d, const vr_layer *l)
{
    const vram_model *m = d->m;
    if (l->mlp == VR_MLP_GATED_FUSED) {
        vr_declare_linear(d, "mlp.gate_up_proj", m->hidden, 2 * (uint64_t)l->ffn, m->mlp_bias);
    } else {
        vr_declare_linear(d, "mlp.gate_proj", m->hidden, l->ffn, m->mlp_bias);
        vr_declare_linear(d, "mlp.up_proj", m->hidden, l->ffn, m->mlp_bias);
    }
    vr_declare_linear(d, "mlp.down_proj", l->ffn, m->hidden, m->mlp_bias);
}

void vr_declare_norms(vr_declaring *d)
{
    uint64_t h = d->m->hidden;
    vr_declare_vector(d, "input_layernorm.weight", h);
    vr_declare_vector(d, "post_attention_layernorm.weight", h);
    if (!d->m->family->sandwich_norms)
        return;
    vr_declare_vector(d, "pre_feedforward_layernorm.weight", h);
    vr_declare_vector(d, "post_feedforward_layernorm.weight", h);
}

void vr_declare_plain_layer(vr_declaring *d, const vr_layer *l)
{
    vr_declare_attention(d, l);
    vr_declare_mlp(d, l);
    vr_declare_norms(d);
}

/* modeling_utils.py, tie_weights: of two tied names either one may be stored. */
static void declare_embedding(vr_declaring *d)
{
    const vram_model *m = d->m;
    vr_declare_matrix(d, "embed_tokens.weight", m->vocab, m->hidden);
    if (d->status == VRAM_OK && m->tied && d->list[d->n - 1].tensor == NULL)
        d->list[d->n - 1].tensor = vr_checkpoint_find(m->checkpoint, vr_str_of(m->head_name));
    if (m->family->embedding_scaled)
        vr_declare(d, "embed_tokens.embed_scale", VR_PARAM_SCALE, NULL, 0);
}

static void declare_decoder(vr_declaring *d, const vr_special *s)
{
    const vram_model *m = d->m;
    const char *prefix = d->path;
    declare_embedding(d);
    for (uint64_t i = 0; i < m->n_layers && d->status == VRAM_OK; i++) {
        d->layer = (uint32_t)i;
        vr_declare_under(d, T(prefix), T("layers."), U(i), T("."));
        if (s != NULL && s->declare_layer != NULL)
            s->declare_layer(d, &m->layers[i]);
        else
            vr_declare_plain_layer(d, &m->layers[i]);
    }
    d->layer = VR_NO_LAYER;
    d->path = prefix;
    vr_declare_vector(d, "norm.weight", m->hidden);
    vr_declare(d, "rotary_emb.inv_freq", VR_PARAM_ROTARY, (const uint64_t[]){ m->rotary_dim / 2 }, 1);
    d->path = "";
    d->skip = 0;
    if (!m->tied)
        vr_declare_matrix(d, m->head_name, m->vocab, m->hidden);
}

vram_status vr_declare_all(vram_model *m)
{
    vr_declaring d = { .m = m, .path = "", .layer = VR_NO_LAYER };
    const vr_special *s = vr_special_of(m->family);
    m->declared_parameters = 0;
    if (s != NULL && s->declare_before != NULL)
        s->declare_before(&d);
    d.part = VR_PART_DECODER;
    d.path = m->prefix;
    if (m->prefix[0] == '\0') { /* the bare decoder of a class whose own prefix it lacks */
        d.path = "model.";
        d.skip = strlen(d.path);
    }
    if (s != NULL && s->declare_model != NULL)
        s->declare_model(&d);
    else
        declare_decoder(&d, s);
    d.path = "";
    d.skip = 0;
    if (s != NULL && s->declare_after != NULL)
        s->declare_after(&d);
    m->declared = d.list;
    m->n_declared = d.n;
    return d.status;
}
