/* SPDX-License-Identifier: MIT
 * The plain dense decoders that are understood: rows of data/architectures.tsv. */
#include "model/families.h"

const vr_family *vr_families(size_t *n)
{
    *n = vr_family_table_n;
    return vr_family_table;
}

const vr_family *vr_family_find(vr_str model_type)
{
    for (size_t i = 0; i < vr_family_table_n; i++) {
        const vr_family *f = &vr_family_table[i];
        if (vr_str_is(model_type, f->model_type) || (f->wrapper != NULL && vr_str_is(model_type, f->wrapper)))
            return f;
    }
    return NULL;
}
