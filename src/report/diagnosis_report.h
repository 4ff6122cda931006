/* SPDX-License-Identifier: MIT
 * Private to the room: a diagnosis as text and as JSON. */
#ifndef VR_DIAGNOSIS_REPORT_H
#define VR_DIAGNOSIS_REPORT_H

#include "diagnosis/diagnosis.h"
#include "report/report.h"

void vr_diagnosis_text(vr_report *r, const struct vram_diagnosis *d);
void vr_diagnosis_json(vr_report *r, const struct vram_diagnosis *d);

#endif
