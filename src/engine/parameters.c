/* SPDX-License-Identifier: MIT
 * What a class declares (src/model/declare.c), as this version of transformers has it: its rotary buffers and
 * scales (tests/oracle/facts/order-*.tsv). */
#include <string.h>

#include "engine/packed_run.h"

#define MOST_ROTARY 4 /* buffers in place of one entry */

unsigned vr_rotary_tables(const vram_model *m, const vr_rules *rules)
{
    unsigned kinds = 0;
    if (m->family->rope == VR_ROPE_NONE || m->rotary_dim == 0)
        return 0;
    if (!m->family->local_rope)
        return 1;
    for (uint64_t i = 0; i < m->n_layers; i++)
        kinds |= m->layers[i].attention == VR_ATTENTION_SLIDING ? 2 : 1;
    return rules->two_inv_freq ? kinds : 3; /* version 4 has both modules whatever the layers are */
}

static void add_buffer(vr_params *out, vr_str name, uint64_t n)
{
    out->list[out->n++] =
        (vr_param){ .name = name, .dims = { n }, .elements = n, .n_dims = 1, .kind = VR_PARAM_BUFFER_F32 };
}

/* The entry's name with another last word. */
static vr_str renamed(const vr_declared *d, const char *last, vr_arena *a)
{
    static const char entry[] = "rotary_emb.inv_freq";
    const char *text = vr_text(a, S(((vr_str){ d->name.s, d->name.n - (sizeof entry - 1) })), T(last));
    return vr_str_made(text);
}

/* Of a tower. */
static vram_status add_own_rotary(vr_params *out, const vr_declared *d, const vr_rules *rules, vr_arena *a)
{
    static const char last[] = "inv_freq";
    add_buffer(out, d->name, d->elements);
    if (!rules->two_inv_freq)
        return VRAM_OK;
    vr_str path = { d->name.s, d->name.n - (sizeof last - 1) };
    const char *second = vr_text(a, S(path), T("original_inv_freq"));
    if (second == NULL)
        return VRAM_ENOMEM;
    add_buffer(out, vr_str_of(second), d->elements);
    return VRAM_OK;
}

/* Angles of the table for one kind of layer, whose heads may have a width of their own (Gemma 4). */
static uint64_t table_elements(const vram_model *m, unsigned table, uint64_t fallback)
{
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        if ((l->attention == VR_ATTENTION_SLIDING) == (table == 1) && l->rotary_dim != 0)
            return l->rotary_dim / 2;
    }
    return fallback;
}

/* What version 4 calls a table. */
static const char *old_table(bool dict, unsigned table)
{
    static const char *const names[2][2] = {
        { "rotary_emb.inv_freq", "rotary_emb_local.inv_freq" },
        { "rotary_embs.full_attention.inv_freq", "rotary_embs.sliding_attention.inv_freq" },
    };
    return names[dict][table];
}

/* Buffers that a checkpoint does not hold: one module a model, for gemma3 one table for each kind of layer.
 */
static vram_status add_rotary(vr_params *out, const vr_declared *d, const vram_model *m,
                              const vr_rules *rules, vr_arena *a)
{
    static const char *const names[3][2] = {
        { "rotary_emb.inv_freq", "rotary_emb.original_inv_freq" },
        { "rotary_emb.full_attention_inv_freq", "rotary_emb.full_attention_original_inv_freq" },
        { "rotary_emb.sliding_attention_inv_freq", "rotary_emb.sliding_attention_original_inv_freq" },
    };
    bool local = m->family->local_rope, two = rules->two_inv_freq;
    bool dict = m->family->tables_in_dict && !two; /* version 4 of olmo3: sliding first */
    unsigned tables = vr_rotary_tables(m, rules);
    for (unsigned i = 0; i < 2; i++) {
        unsigned t = dict ? 1 - i : i;
        if ((tables & (1u << t)) == 0)
            continue;
        const char *old = old_table(dict, t);
        const char *const *row = names[local ? t + 1 : 0];
        vr_str first = renamed(d, two ? row[0] : old, a), second = renamed(d, row[1], a);
        if (first.s == NULL || second.s == NULL)
            return VRAM_ENOMEM;
        uint64_t n = local ? table_elements(m, t, d->elements) : d->elements;
        add_buffer(out, first, n);
        if (two)
            add_buffer(out, second, n);
    }
    return VRAM_OK;
}

/* modeling_deepseek_v3.py of transformers 4: a buffer of the default dtype, and nothing keeps it in 32 bits.
 */
static bool is_narrow(const vr_declared *d, const vram_model *m, const vr_rules *rules)
{
    return d->kind == VR_PARAM_STATE_F32 && rules->major < 5 &&
           vr_str_is(vr_str_of(m->family->class_name), "DeepseekV3ForCausalLM");
}

static void add(vr_params *out, const vr_declared *d, uint8_t kind)
{
    vr_param *p = &out->list[out->n++];
    *p = (vr_param){
        .name = d->name, .elements = d->elements, .n_dims = d->n_dims, .kind = kind, .tensor = d->tensor
    };
    memcpy(p->dims, d->dims, sizeof p->dims);
}

/* gpt_neox: version 5 calls the head as other classes do; checkpoints still call it "embed_out". */
static void rename_head(vr_params *params, const vram_model *m, const vr_rules *rules)
{
    vr_param *last = &params->list[params->n - 1];
    if (rules->natural_order && params->n != 0 && vr_str_is(last->name, m->head_name) &&
        vr_str_is(last->name, m->naming->head))
        last->name = VR_LIT("lm_head.weight");
}

static bool scale_is_a_buffer(const vram_model *m, const vr_rules *rules)
{
    return m->family->qk_norm || rules->gemma2_scales;
}

/* Qwen2MoeAttention of transformers 4 has a rotary module of its own behind its projections, and no use for
 * it. */
static vram_status add_with_own(vr_params *out, const vr_declared *d, const vram_model *m,
                                const vr_rules *rules, vr_arena *a)
{
    static const char last[] = "self_attn.o_proj.weight";
    add(out, d, d->kind);
    out->list[out->n - 1].narrow = is_narrow(d, m, rules);
    if (!m->family->own_rotary || rules->plain_masks || !vr_str_ends(d->name, last))
        return VRAM_OK;
    vr_str layer = { d->name.s, d->name.n - (sizeof last - 1) };
    vr_str name = vr_str_made(vr_text(a, S(layer), T("self_attn.rotary_emb.inv_freq")));
    if (name.s == NULL)
        return VRAM_ENOMEM;
    add_buffer(out, name, m->rotary_dim / 2);
    return VRAM_OK;
}

vr_str vr_name_in_class(const vram_model *m, vr_str name, vr_arena *a)
{
    static const char old[] = "backbone.";
    size_t k = sizeof(old) - 1;
    if (!vr_str_is(vr_str_of(old), m->naming->prefix) || !vr_str_starts(name, old))
        return name;
    return vr_str_made(vr_text(a, T("model."), S(((vr_str){ name.s + k, name.n - k }))));
}

static vram_status name_as_class(vr_params *out, const vram_model *m, vr_arena *a)
{
    for (size_t i = 0; i < out->n; i++) {
        out->list[i].name = vr_name_in_class(m, out->list[i].name, a);
        if (out->list[i].name.s == NULL)
            return VRAM_ENOMEM;
    }
    return VRAM_OK;
}

vram_status vr_params_of(vr_params *out, const vram_model *m, const vr_rules *rules, vr_arena *a)
{
    size_t n_rotary = 0;
    *out = (vr_params){ 0 };
    for (size_t i = 0; i < m->n_declared; i++)
        n_rotary += m->declared[i].kind == VR_PARAM_ROTARY;
    out->list = VR_ARRAY(a, vr_param, m->n_declared + n_rotary * MOST_ROTARY + (size_t)m->n_layers);
    if (out->list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0, n = 0; i < m->n_declared; i += n != 0 ? n : 1) {
        const vr_declared *d = &m->declared[i];
        n = rules->fused_experts ? vr_merge_length(m, d) : 0;
        if (n != 0)
            VR_TRY(vr_merge_experts(out, m, rules, d, n, a));
        else if (d->kind == VR_PARAM_ROTARY && d->part != VR_PART_DECODER)
            VR_TRY(add_own_rotary(out, d, rules, a));
        else if (d->kind == VR_PARAM_ROTARY)
            VR_TRY(add_rotary(out, d, m, rules, a));
        else if (d->kind != VR_PARAM_SCALE)
            VR_TRY(add_with_own(out, d, m, rules, a));
        else if (scale_is_a_buffer(m, rules))
            add(out, d, m->family->scale_cast ? VR_PARAM_BUFFER_I64 : VR_PARAM_BUFFER);
    }
    rename_head(out, m, rules);
    VR_TRY(name_as_class(out, m, a));
    return m->quantised ? vr_params_packed(out, m, a) : vr_params_review(out, m, a);
}
