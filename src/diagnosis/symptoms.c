/* SPDX-License-Identifier: MIT */
#include "diagnosis/diagnosis.h"

vram_status vr_diagnose_symptom(struct vram_diagnosis *d)
{
    (void)d;
    return VRAM_OK;
}
