/* SPDX-License-Identifier: MIT
 * The decoders that are understood: rows of data/architectures.tsv, and of data/namings.tsv, which they
 * share.
 */
#include "model/families.h"

const vr_family *vr_families(size_t *n)
{
    *n = vr_family_table_n;
    return vr_family_table;
}

bool vr_family_wrapped(const vr_family *f, vr_str wrapper)
{
    vr_str word, rest = vr_str_of(f->wrappers);
    while (f->wrappers != NULL && vr_str_split(&rest, ' ', &word)) {
        if (vr_str_eq(word, wrapper))
            return true;
    }
    return false;
}

const vr_family *vr_family_find(vr_str model_type)
{
    const vr_family *wrapped = NULL;
    for (size_t i = 0; i < vr_family_table_n; i++) {
        const vr_family *f = &vr_family_table[i];
        if (vr_str_is(model_type, f->model_type))
            return f;
        if (wrapped == NULL && vr_family_wrapped(f, model_type))
            wrapped = f;
    }
    return wrapped;
}

const vr_naming *vr_naming_of(const vr_family *f)
{
    for (size_t i = 0; i < vr_naming_table_n; i++) {
        if (vr_str_is(vr_str_of(f->naming), vr_naming_table[i].name))
            return &vr_naming_table[i];
    }
    return NULL;
}

bool vr_next_pair(vr_str *cell, vr_str *word, vr_str *value)
{
    if (cell->n == 0 || !vr_str_split(cell, ' ', value) || !vr_str_split(value, '=', word))
        return false;
    return value->s != NULL;
}

vr_module_role vr_module_role_of(vr_str word)
{
    static const char *const words[VR_MODULE_COUNT] = {
        [VR_MODULE_Q] = "q",
        [VR_MODULE_K] = "k",
        [VR_MODULE_V] = "v",
        [VR_MODULE_QKV] = "qkv",
        [VR_MODULE_O] = "o",
        [VR_MODULE_Q_NORM] = "q_norm",
        [VR_MODULE_K_NORM] = "k_norm",
        [VR_MODULE_GATE] = "gate",
        [VR_MODULE_UP] = "up",
        [VR_MODULE_GATE_UP] = "gate_up",
        [VR_MODULE_DOWN] = "down",
        [VR_MODULE_PRE_ATTENTION] = "pre_attention",
        [VR_MODULE_POST_ATTENTION] = "post_attention",
        [VR_MODULE_PRE_MLP] = "pre_mlp",
        [VR_MODULE_POST_MLP] = "post_mlp",
    };
    unsigned i = 0;
    while (i < VR_MODULE_COUNT && !vr_str_is(word, words[i]))
        i++;
    return (vr_module_role)i;
}
