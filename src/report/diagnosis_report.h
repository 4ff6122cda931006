/* SPDX-License-Identifier: MIT
 * Private to the room: a diagnosis as text and as JSON. */
#ifndef VR_DIAGNOSIS_REPORT_H
#define VR_DIAGNOSIS_REPORT_H

#include "diagnosis/diagnosis.h"
#include "report/report.h"

#define VR_DIAGNOSIS_INDENT 12 /* column of what stands behind the words at the left */

void vr_diagnosis_text(vr_report *r, const struct vram_diagnosis *d);
void vr_diagnosis_details(vr_report *r, const struct vram_diagnosis *d);
void vr_diagnosis_json(vr_report *r, const struct vram_diagnosis *d);

/* ---- what text and details share; strings of the report's arena or constant ---- */

const char *vr_diagnosis_cause(const vr_finding *f); /* "WEIGHTS" */
vr_ink vr_diagnosis_ink(const vr_finding *f);
void vr_diagnosis_headline(vr_report *r, const vr_finding *f);
const char *vr_diagnosis_at(vr_report *r, const struct vram_diagnosis *d, uint32_t file, uint64_t line);
const char *vr_diagnosis_size(vr_report *r, uint64_t bytes); /* "2.55 GiB (2.74 GB)" */
const char *vr_diagnosis_remedy(vr_report *r, const vr_remedy *m);

#endif
