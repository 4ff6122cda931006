/* SPDX-License-Identifier: MIT */
#include "diagnosis/diagnosis.h"

vram_status vr_diagnose_order(struct vram_diagnosis *d)
{
    size_t n = d->found.n_events < VR_MAX_FINDINGS ? d->found.n_events : VR_MAX_FINDINGS;

    d->list = VR_ARRAY(&d->arena, vr_finding, VR_MAX_FINDINGS);
    if (d->list == NULL)
        return VRAM_ENOMEM;
    for (; d->n < n; d->n++)
        d->list[d->n].event = &d->found.events[d->n];
    return VRAM_OK;
}
