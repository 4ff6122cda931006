/* SPDX-License-Identifier: MIT
 * A config.json that leaves out sizes which whoever publishes a model states: the class's defaults stand for
 * them, and that is said. Not where a model stands around the decoder: transformers writes its settings there
 * without those that are the class's own (configuration_utils.py, to_diff_dict), all published files do. */
#include "model/special.h"

#include <string.h>

static bool is_stated_usually(const vr_reading *r, const char *key)
{
    static const char *const sizes[] = {
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "num_local_experts", /* and what else it may be called: experts.c */
        "moe_intermediate_size",
        "n_shared_experts",
        "num_shared_experts",
        "moe_num_shared_experts",
        "shared_expert_intermediate_size",
        "shared_intermediate_size",
        "kv_lora_rank",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "v_head_dim",
        "linear_num_key_heads",
        "linear_num_value_heads",
        "linear_key_head_dim",
        "linear_value_head_dim",
        "state_size",
        "ssm_state_size",
        "mamba_d_state",
        "mamba_n_heads",
        "mamba_num_heads",
    };
    size_t i = 0, n = sizeof sizes / sizeof *sizes;
    vr_json v;
    while (i < n && strcmp(sizes[i], key) != 0)
        i++;
    return i < n && !vr_config_says(r, key, &v); /* null is an answer */
}

/* Defaults that follow from other settings are no guess. */
static bool follows(const vr_reading *r, const char *key)
{
    const vr_family *f = r->family;
    return (f->ffn_default == 0 && strcmp(key, "intermediate_size") == 0) ||
           (f->kv_heads_default == 0 && strcmp(key, "num_key_value_heads") == 0) ||
           (f->heads_default == 1 && strcmp(key, "num_attention_heads") == 0); /* it has none */
}

/* Not of kinds that have settings of other names, nor inside a model that stands around the decoder. */
static bool is_judged(const vr_reading *r)
{
    const vr_special *special = r->family != NULL ? vr_special_of(r->family) : NULL;
    bool others = special != NULL && special->declare_model != NULL;
    return r->ck->config_only && r->family != NULL && !others && r->text.text.s == r->root.text.s;
}

void vr_note_silent(const vr_reading *r, const char *key, uint64_t taken)
{
    vram_model *m = r->m;
    size_t i = 0, room = sizeof m->assumed / sizeof *m->assumed;
    if (taken == 0 || !is_judged(r) || !is_stated_usually(r, key) || follows(r, key))
        return;
    while (i < m->n_assumed && i < room && strcmp(m->assumed[i].key, key) != 0)
        i++;
    if (i < m->n_assumed && i < room)
        return;
    if (m->n_assumed < room)
        m->assumed[m->n_assumed] = (vr_assumed){ key, taken };
    m->n_assumed++;
}

void vr_forget_silent(const vr_reading *r, const char *key)
{
    vram_model *m = r->m;
    size_t room = sizeof m->assumed / sizeof *m->assumed;
    for (size_t i = 0; i < m->n_assumed && i < room; i++) {
        if (strcmp(m->assumed[i].key, key) != 0)
            continue;
        memmove(&m->assumed[i], &m->assumed[i + 1], (room - i - 1) * sizeof *m->assumed);
        m->n_assumed--;
        return;
    }
}

vram_status vr_tell_silent(const vr_reading *r)
{
    const vram_model *m = r->m;
    size_t shown = sizeof m->assumed / sizeof *m->assumed;
    const char *list = "";
    shown = m->n_assumed < shown ? m->n_assumed : shown;
    for (size_t i = 0; i < shown && list != NULL; i++)
        list = vr_text(&r->m->arena, T(list), T(i != 0 ? ", " : ""), T(m->assumed[i].key), T(" "),
                       GROUPED(m->assumed[i].value));
    if (list != NULL && m->n_assumed > shown)
        list = vr_text(&r->m->arena, T(list), T(" and "), U(m->n_assumed - shown), T(" more"));
    if (list == NULL)
        return VRAM_ENOMEM;
    return m->n_assumed == 0
               ? VRAM_OK
               : vr_warn(r->ctx, r->ck->config_file,
                         T("it leaves out sizes, for which the class's defaults stand: "), T(list));
}
