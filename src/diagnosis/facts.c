/* SPDX-License-Identifier: MIT */
#include "diagnosis/findings.h"

const vr_fact_kind vr_fact_kinds[VR_FACT_COUNT] = {
#define X(id, name, unit, meaning) { name, VR_UNIT_##unit, meaning },
    VR_FACTS(X)
#undef X
};

const vr_fact *vr_fact_of(const vr_fact_list *facts, vr_fact_id id)
{
    for (size_t i = 0; i < facts->n; i++)
        if (facts->f[i].id == id)
            return &facts->f[i];
    return NULL;
}

bool vr_fact_value(const vr_fact_list *facts, vr_fact_id id, uint64_t *out)
{
    const vr_fact *f = vr_fact_of(facts, id);

    if (f == NULL || f->negative)
        return false;
    *out = f->value;
    return true;
}

bool vr_seen(const vr_findings *f, const vr_incident *event, const char *row_id)
{
    vr_str id = vr_str_of(row_id);

    for (size_t i = 0; event != NULL && i < event->n_near; i++)
        if (vr_str_is(id, event->near[i].row->id))
            return true;
    for (size_t i = 0; i < f->n_seen; i++)
        if (vr_str_is(id, f->seen[i].row->id))
            return true;
    return false;
}

const vr_fact *vr_seen_fact(const vr_findings *f, vr_fact_id id)
{
    for (size_t i = f->n_seen; i > 0; i--) {
        const vr_fact *fact = vr_fact_of(&f->seen[i - 1].facts, id);
        if (fact != NULL)
            return fact;
    }
    return NULL;
}
