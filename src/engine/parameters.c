/* SPDX-License-Identifier: MIT
 * The parameters and buffers that a class declares, in the order in which torch.nn.Module._apply walks them:
 * children in the order of their assignment in __init__, then a module's own
 * (tests/oracle/facts/order-*.tsv). The order of names in a checkpoint's header plays no part. */
#include <string.h>

#include "engine/pass.h"

typedef enum quantity { NOTHING, ONE, HIDDEN, QUERY, KEY, QKV, FFN, FFN_TWICE, HEAD } quantity;
typedef enum condition {
    ALWAYS,
    SPLIT,
    FUSED,
    QKV_BIAS,
    O_BIAS,
    MLP_BIAS,
    QK_NORM,
    GATED,
    GATED_FUSED,
    SANDWICH
} condition;

static const struct row {
    const char *name;
    condition when;
    uint8_t kind, rows, columns; /* quantity */
} layer_rows[] = {
    { "self_attn.o_proj.weight", FUSED, VR_PARAM_LINEAR, HIDDEN, QUERY },
    { "self_attn.qkv_proj.weight", FUSED, VR_PARAM_LINEAR, QKV, HIDDEN },
    { "self_attn.q_proj.weight", SPLIT, VR_PARAM_LINEAR, QUERY, HIDDEN },
    { "self_attn.q_proj.bias", QKV_BIAS, VR_PARAM_WEIGHT, QUERY, NOTHING },
    { "self_attn.k_proj.weight", SPLIT, VR_PARAM_LINEAR, KEY, HIDDEN },
    { "self_attn.k_proj.bias", QKV_BIAS, VR_PARAM_WEIGHT, KEY, NOTHING },
    { "self_attn.v_proj.weight", SPLIT, VR_PARAM_LINEAR, KEY, HIDDEN },
    { "self_attn.v_proj.bias", QKV_BIAS, VR_PARAM_WEIGHT, KEY, NOTHING },
    { "self_attn.o_proj.weight", SPLIT, VR_PARAM_LINEAR, HIDDEN, QUERY },
    { "self_attn.o_proj.bias", O_BIAS, VR_PARAM_WEIGHT, HIDDEN, NOTHING },
    { "self_attn.q_norm.weight", QK_NORM, VR_PARAM_WEIGHT, HEAD, NOTHING },
    { "self_attn.k_norm.weight", QK_NORM, VR_PARAM_WEIGHT, HEAD, NOTHING },
    { "mlp.gate_proj.weight", GATED, VR_PARAM_LINEAR, FFN, HIDDEN },
    { "mlp.gate_proj.bias", MLP_BIAS, VR_PARAM_WEIGHT, FFN, NOTHING },
    { "mlp.up_proj.weight", GATED, VR_PARAM_LINEAR, FFN, HIDDEN },
    { "mlp.up_proj.bias", MLP_BIAS, VR_PARAM_WEIGHT, FFN, NOTHING },
    { "mlp.gate_up_proj.weight", GATED_FUSED, VR_PARAM_LINEAR, FFN_TWICE, HIDDEN },
    { "mlp.down_proj.weight", ALWAYS, VR_PARAM_LINEAR, HIDDEN, FFN },
    { "mlp.down_proj.bias", MLP_BIAS, VR_PARAM_WEIGHT, HIDDEN, NOTHING },
    { "input_layernorm.weight", ALWAYS, VR_PARAM_WEIGHT, HIDDEN, NOTHING },
    { "post_attention_layernorm.weight", ALWAYS, VR_PARAM_WEIGHT, HIDDEN, NOTHING },
    { "pre_feedforward_layernorm.weight", SANDWICH, VR_PARAM_WEIGHT, HIDDEN, NOTHING },
    { "post_feedforward_layernorm.weight", SANDWICH, VR_PARAM_WEIGHT, HIDDEN, NOTHING },
};
#define N_ROWS (sizeof(layer_rows) / sizeof(layer_rows[0]))
#define MOST_OUTSIDE 10 /* embedding, scale, norm, up to four rotary buffers, head */

static bool holds(const vram_model *m, condition when)
{
    const vr_family *f = m->family;
    const bool values[] = { [ALWAYS] = true,
                            [SPLIT] = !f->fused_qkv,
                            [FUSED] = f->fused_qkv,
                            [QKV_BIAS] = m->qkv_bias,
                            [O_BIAS] = m->o_bias,
                            [MLP_BIAS] = m->mlp_bias,
                            [QK_NORM] = f->qk_norm,
                            [GATED] = f->mlp == VR_MLP_GATED,
                            [GATED_FUSED] = f->mlp == VR_MLP_GATED_FUSED,
                            [SANDWICH] = f->sandwich_norms };
    return values[when];
}

static uint64_t number(const vram_model *m, uint8_t q)
{
    uint64_t query = m->heads * m->head_dim, key = m->kv_heads * m->head_dim;
    const uint64_t values[] = {
        [NOTHING] = 0,           [ONE] = 1,      [HIDDEN] = m->hidden,     [QUERY] = query,     [KEY] = key,
        [QKV] = query + 2 * key, [FFN] = m->ffn, [FFN_TWICE] = 2 * m->ffn, [HEAD] = m->head_dim
    };
    return values[q];
}

uint64_t vr_param_elements(const vr_param *p)
{
    return p->columns != 0 ? p->rows * p->columns : p->rows;
}

/* ---- building ---- */

typedef struct builder {
    const vram_model *m;
    const vram_checkpoint *ck;
    const vr_rules *rules;
    vr_arena *a;
    vr_params *out;
    const char *prefix;   /* of the class; "model." for a checkpoint of the bare decoder */
    size_t hidden_prefix; /* bytes of it that the checkpoint's names lack */
    bool failed;
} builder;

static void add(builder *b, vr_str name, uint8_t kind, uint64_t rows, uint64_t columns)
{
    vr_param *p = &b->out->list[b->out->n++];
    *p = (vr_param){ .name = name, .rows = rows, .columns = columns, .kind = kind };
    if (kind == VR_PARAM_WEIGHT || kind == VR_PARAM_LINEAR)
        p->tensor =
            vr_checkpoint_find(b->ck, (vr_str){ name.s + b->hidden_prefix, name.n - b->hidden_prefix });
}

static vr_str named(builder *b, const char *name)
{
    const char *text = vr_text(b->a, T(b->prefix), T(name));
    b->failed = b->failed || text == NULL;
    return vr_str_of(text);
}

static void add_outside(builder *b, const char *name, uint8_t kind, uint64_t rows, uint64_t columns)
{
    vr_str whole = named(b, name);
    if (!b->failed)
        add(b, whole, kind, rows, columns);
}

static void add_layer(builder *b, uint64_t layer)
{
    const char *path = vr_text(b->a, T(b->prefix), T("layers."), U(layer), T("."));
    for (size_t i = 0; i < N_ROWS && path != NULL; i++) {
        const struct row *r = &layer_rows[i];
        if (!holds(b->m, r->when))
            continue;
        size_t n = strlen(path), k = strlen(r->name);
        char *name = vr_arena_alloc(b->a, n + k + 1);
        if (name == NULL) {
            path = NULL;
            break;
        }
        memcpy(name, path, n);
        memcpy(name + n, r->name, k);
        add(b, (vr_str){ name, n + k }, r->kind, number(b->m, r->rows), number(b->m, r->columns));
    }
    b->failed = b->failed || path == NULL;
}

unsigned vr_rotary_tables(const vram_model *m, const vr_rules *rules)
{
    unsigned kinds = 0;
    if (!m->family->local_rope)
        return 1;
    for (uint64_t i = 0; i < m->n_layers; i++)
        kinds |= m->layers[i].attention == VR_ATTENTION_SLIDING ? 2 : 1;
    return rules->two_inv_freq ? kinds : 3; /* version 4 has both modules whatever the layers are */
}

/* Buffers that a checkpoint does not hold: one module a model, for gemma3 one table for each kind of layer.
 */
static void add_rotary(builder *b)
{
    static const char *const names[3][2] = {
        { "rotary_emb.inv_freq", "rotary_emb.original_inv_freq" },
        { "rotary_emb.full_attention_inv_freq", "rotary_emb.full_attention_original_inv_freq" },
        { "rotary_emb.sliding_attention_inv_freq", "rotary_emb.sliding_attention_original_inv_freq" },
    };
    bool local = b->m->family->local_rope, two = b->rules->two_inv_freq;
    unsigned tables = vr_rotary_tables(b->m, b->rules);
    for (unsigned t = 0; t < 2; t++) {
        if ((tables & (1u << t)) == 0)
            continue;
        const char *old = t == 0 ? names[0][0] : "rotary_emb_local.inv_freq";
        size_t row = local ? t + 1 : 0;
        add_outside(b, two ? names[row][0] : old, VR_PARAM_BUFFER_F32, b->m->rotary_dim / 2, 0);
        if (two)
            add_outside(b, names[row][1], VR_PARAM_BUFFER_F32, b->m->rotary_dim / 2, 0);
    }
}

/* modeling_utils.py, tie_weights: of two tied names either one may be stored. */
static void add_embedding(builder *b)
{
    const vram_model *m = b->m;
    add_outside(b, "embed_tokens.weight", VR_PARAM_WEIGHT, m->vocab, m->hidden);
    if (!b->failed && m->tied && b->out->list[0].tensor == NULL)
        b->out->list[0].tensor = vr_checkpoint_find(b->ck, vr_str_of(m->head_name));
}

static void add_all(builder *b)
{
    const vram_model *m = b->m;
    const vr_family *f = m->family;
    add_embedding(b);
    if (f->embedding_scaled && (f->qk_norm || b->rules->gemma2_scales))
        add_outside(b, "embed_tokens.embed_scale", VR_PARAM_BUFFER, 1, 0);
    for (uint64_t i = 0; i < m->n_layers && !b->failed; i++)
        add_layer(b, i);
    add_outside(b, "norm.weight", VR_PARAM_WEIGHT, m->hidden, 0);
    add_rotary(b);
    if (m->tied || b->failed)
        return;
    size_t hidden = b->hidden_prefix;
    b->hidden_prefix = 0;
    add(b, vr_str_of(m->head_name), VR_PARAM_WEIGHT, m->vocab, m->hidden);
    b->hidden_prefix = hidden;
}

vram_status vr_params_of(vr_params *out, const vram_model *m, const vr_rules *rules, vr_arena *a)
{
    builder b = { .m = m, .ck = m->checkpoint, .rules = rules, .a = a, .out = out, .prefix = m->prefix };
    *out = (vr_params){ 0 };
    if (m->prefix[0] == '\0') {
        b.prefix = "model.";
        b.hidden_prefix = strlen(b.prefix);
    }
    out->list = VR_ARRAY(a, vr_param, (size_t)m->n_layers * N_ROWS + MOST_OUTSIDE);
    if (out->list == NULL)
        return VRAM_ENOMEM;
    add_all(&b);
    return b.failed ? VRAM_ENOMEM : vr_params_review(out, m, a);
}
