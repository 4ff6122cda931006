/* SPDX-License-Identifier: MIT */
#include "diagnosis/diagnosis.h"

vram_status vr_diagnose_place(struct vram_diagnosis *d, vr_finding *f, const vram_model *m,
                              const vram_workload *w)
{
    (void)d;
    (void)f;
    (void)m;
    (void)w;
    return VRAM_OK;
}
