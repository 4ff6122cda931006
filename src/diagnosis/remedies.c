/* SPDX-License-Identifier: MIT */
#include "diagnosis/diagnosis.h"

vram_status vr_diagnose_remedies(struct vram_diagnosis *d, vr_finding *f)
{
    (void)d;
    (void)f;
    return VRAM_OK;
}
