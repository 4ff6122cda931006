/* SPDX-License-Identifier: MIT
 * The parameters and buffers that a class declares, by its configuration
 * (tests/oracle/facts/order-*.tsv). The order of names in a checkpoint's header plays no part. */
#include "model/special.h"
#include "model/tower.h"

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

bool vr_param_is_state(uint8_t kind)
{
    return kind == VR_PARAM_STATE || kind == VR_PARAM_STATE_F32;
}

bool vr_param_is_buffer(uint8_t kind)
{
    return kind >= VR_PARAM_BUFFER && kind <= VR_PARAM_BUFFER_BOOL;
}

bool vr_param_is_stored(uint8_t kind)
{
    return kind < VR_PARAM_BUFFER || vr_param_is_state(kind);
}

static const vr_tensor *find_stored(vr_declaring *d, vr_str name)
{
    const vram_checkpoint *ck = d->m->checkpoint;
    if (d->stored == NULL)
        return vr_checkpoint_find(ck, (vr_str){ name.s + d->skip, name.n - d->skip });
    const char *whole = vr_text(&d->m->arena, T(d->stored), S(name));
    if (whole == NULL)
        d->status = VRAM_ENOMEM;
    return whole != NULL ? vr_checkpoint_find(ck, vr_str_of(whole)) : NULL;
}

void vr_declare(vr_declaring *d, const char *name, vr_param_kind kind, const uint64_t *dims, uint8_t n_dims)
{
    vr_declared p = { .elements = 1,
                      .layer = d->layer,
                      .n_dims = n_dims,
                      .kind = (uint8_t)kind,
                      .part = d->part,
                      .role = d->role };
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
    if (vr_param_is_stored(p.kind)) {
        p.tensor = find_stored(d, p.name);
        if (!vr_param_is_state(p.kind))
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

void vr_declare_layer_norm(vr_declaring *d, const char *module, uint64_t n)
{
    part_of_module(d, module, ".weight", VR_PARAM_WEIGHT, &n, 1);
    part_of_module(d, module, ".bias", VR_PARAM_WEIGHT, &n, 1);
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

#define BIT(role) (1u << VR_MODULE_##role)
#define IN_ATTENTION (BIT(Q) | BIT(K) | BIT(V) | BIT(QKV) | BIT(O) | BIT(Q_NORM) | BIT(K_NORM))
#define IN_MLP (BIT(GATE) | BIT(UP) | BIT(GATE_UP) | BIT(DOWN))
#define NORMS (BIT(PRE_ATTENTION) | BIT(POST_ATTENTION) | BIT(PRE_MLP) | BIT(POST_MLP))

void vr_declare_norm(vr_declaring *d, const char *module, uint64_t n)
{
    uint8_t kind = d->m->family->norm;
    if (kind != VR_NORM_RMS_BARE && kind != VR_NORM_LAYER_BARE)
        part_of_module(d, module, ".weight", VR_PARAM_WEIGHT, &n, 1);
    if (kind == VR_NORM_LAYER || kind == VR_NORM_LAYER_1P)
        part_of_module(d, module, ".bias", VR_PARAM_WEIGHT, &n, 1);
}

/* Conv1D keeps its weight the other way round (pytorch_utils.py). */
static void linear(vr_declaring *d, const char *module, uint64_t in, uint64_t out, bool bias)
{
    if (!d->m->naming->transposed) {
        vr_declare_linear(d, module, in, out, bias);
        return;
    }
    part_of_module(d, module, ".weight", VR_PARAM_LINEAR, (const uint64_t[]){ in, out }, 2);
    if (bias)
        part_of_module(d, module, ".bias", VR_PARAM_WEIGHT, &out, 1);
}

static void declare_in_attention(vr_declaring *d, const vr_layer *l, vr_module_role role, const char *module)
{
    const vram_model *m = d->m;
    uint64_t q = (uint64_t)l->heads * l->key_dim, k = (uint64_t)l->kv_heads * l->key_dim;
    uint64_t v = (uint64_t)l->kv_heads * l->value_dim, o = (uint64_t)l->heads * l->value_dim;
    const uint64_t out[] = { [VR_MODULE_Q] = l->output_gate ? 2 * q : q,
                             [VR_MODULE_K] = k,
                             [VR_MODULE_V] = v,
                             [VR_MODULE_QKV] = q + k + v };
    if (role == VR_MODULE_O)
        linear(d, module, o, m->hidden, m->o_bias);
    else if (role == VR_MODULE_Q_NORM || role == VR_MODULE_K_NORM)
        vr_declare_norm(d, module, !m->family->qk_norm_whole ? l->key_dim : role == VR_MODULE_Q_NORM ? q : k);
    else
        linear(d, module, m->hidden, out[role], m->qkv_bias);
}

static void declare_in_mlp(vr_declaring *d, const vr_layer *l, vr_module_role role, const char *module)
{
    const vram_model *m = d->m;
    if (role == VR_MODULE_DOWN)
        linear(d, module, l->ffn, m->hidden, m->mlp_bias);
    else
        linear(d, module, m->hidden, role == VR_MODULE_GATE_UP ? 2 * (uint64_t)l->ffn : l->ffn, m->mlp_bias);
}

/* Modules that a layer of this naming lacks all the same. */
static unsigned absent(const vr_family *f, const vr_layer *l)
{
    unsigned roles = f->qk_norm ? 0 : BIT(Q_NORM) | BIT(K_NORM);
    roles |= l->mlp == VR_MLP_GATED_FUSED ? BIT(GATE) | BIT(UP) : BIT(GATE_UP);
    return roles | (l->mlp == VR_MLP_PLAIN ? BIT(GATE) : 0);
}

/* Those modules of the layer that are in `roles`, in the class's order. */
static void declare_modules(vr_declaring *d, const vr_layer *l, unsigned roles)
{
    vr_str word, name, rest = vr_str_of(d->m->naming->layer);
    roles &= ~absent(d->m->family, l);
    while (d->status == VRAM_OK && vr_next_pair(&rest, &word, &name)) {
        vr_module_role role = vr_module_role_of(word);
        char module[LONGEST_MODULE];
        if (role == VR_MODULE_COUNT || (roles & 1u << role) == 0 || name.n >= sizeof module)
            continue;
        memcpy(module, name.s, name.n);
        module[name.n] = '\0';
        if ((1u << role & IN_ATTENTION) != 0)
            declare_in_attention(d, l, role, module);
        else if ((1u << role & IN_MLP) != 0)
            declare_in_mlp(d, l, role, module);
        else
            vr_declare_norm(d, module, d->m->hidden);
    }
}

void vr_declare_attention(vr_declaring *d, const vr_layer *l)
{
    declare_modules(d, l, IN_ATTENTION);
}

void vr_declare_mlp(vr_declaring *d, const vr_layer *l)
{
    declare_modules(d, l, IN_MLP);
}

void vr_declare_norms(vr_declaring *d)
{
    declare_modules(d, &d->m->layers[0], NORMS);
}

void vr_declare_plain_layer(vr_declaring *d, const vr_layer *l)
{
    declare_modules(d, l, IN_ATTENTION | IN_MLP | NORMS);
}

/* modeling_utils.py, tie_weights: of two tied names either one may be stored. */
static void declare_embedding(vr_declaring *d, const char *module)
{
    const vram_model *m = d->m;
    part_of_module(d, module, ".weight", VR_PARAM_WEIGHT, (const uint64_t[]){ m->vocab, m->hidden }, 2);
    if (d->status == VRAM_OK && m->tied && d->list[d->n - 1].tensor == NULL)
        d->list[d->n - 1].tensor = vr_checkpoint_find(m->checkpoint, vr_str_of(m->head_name));
    if (m->family->embedding_scaled)
        part_of_module(d, module, ".embed_scale", VR_PARAM_SCALE, NULL, 0);
}

static void declare_layers(vr_declaring *d, const char *module, const vr_special *s)
{
    const vram_model *m = d->m;
    const char *prefix = d->path;
    for (uint64_t i = 0; i < m->n_layers && d->status == VRAM_OK; i++) {
        d->layer = (uint32_t)i;
        vr_declare_under(d, T(prefix), T(module), T("."), U(i), T("."));
        if (s != NULL && s->declare_layer != NULL)
            s->declare_layer(d, &m->layers[i]);
        else
            vr_declare_plain_layer(d, &m->layers[i]);
    }
    d->layer = VR_NO_LAYER;
    d->path = prefix;
}

static void declare_positions(vr_declaring *d, const char *module)
{
    const vram_model *m = d->m;
    uint64_t rows = m->max_context + m->family->position_offset;
    part_of_module(d, module, ".weight", VR_PARAM_WEIGHT, (const uint64_t[]){ rows, m->hidden }, 2);
}

static void declare_beside_layers(vr_declaring *d, vr_str word, const char *module, const vr_special *s)
{
    const vram_model *m = d->m;
    if (vr_str_is(word, "embedding"))
        declare_embedding(d, module);
    else if (vr_str_is(word, "positions"))
        declare_positions(d, module);
    else if (vr_str_is(word, "layers"))
        declare_layers(d, module, s);
    else if (vr_str_is(word, "rotary") && m->rotary_dim == 0)
        return; /* the class makes none then */
    else if (vr_str_is(word, "rotary"))
        part_of_module(d, module, ".inv_freq", VR_PARAM_ROTARY, (const uint64_t[]){ m->rotary_dim / 2 }, 1);
    else
        vr_declare_norm(d, module, m->hidden);
}

static void declare_decoder(vr_declaring *d, const vr_special *s)
{
    const vram_model *m = d->m;
    vr_str word, name, rest = vr_str_of(m->naming->model);
    while (d->status == VRAM_OK && vr_next_pair(&rest, &word, &name)) {
        const char *module = vr_arena_copy(&d->m->arena, name);
        if (module == NULL)
            d->status = VRAM_ENOMEM;
        else
            declare_beside_layers(d, word, module, s);
    }
    if (s != NULL && s->declare_within != NULL)
        s->declare_within(d);
    d->path = "";
    d->skip = 0;
    if (!m->tied)
        vr_declare_matrix(d, m->head_name, m->vocab, m->hidden);
    if (m->family->head_bias)
        vr_declare_vector(d, "lm_head.bias", m->vocab);
}

/* The bare decoder of a class, whose tensors lack the front of its prefix. */
static bool is_bare(const vram_model *m)
{
    return strlen(m->prefix) < strlen(m->naming->prefix) &&
           vr_str_ends(vr_str_of(m->naming->prefix), m->prefix);
}

vram_status vr_declare_all(vram_model *m)
{
    vr_declaring d = { .m = m, .path = "", .layer = VR_NO_LAYER };
    const vr_special *s = vr_special_of(m->family);
    m->declared_parameters = 0;
    if (m->tower != NULL)
        vr_declare_tower(&d);
    if (s != NULL && s->declare_before != NULL)
        s->declare_before(&d);
    d.part = VR_PART_DECODER;
    d.path = m->prefix;
    if (is_bare(m)) {
        d.path = m->naming->prefix;
        d.skip = strlen(d.path) - strlen(m->prefix);
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
