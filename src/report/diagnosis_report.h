/* SPDX-License-Identifier: MIT
 * Private to the room: a diagnosis as text and as JSON. */
#ifndef VR_DIAGNOSIS_REPORT_H
#define VR_DIAGNOSIS_REPORT_H

#include "diagnosis/diagnosis.h"
#include "report/report.h"

#define VR_DIAGNOSIS_INDENT 12 /* column of what stands behind the words at the left */

void vr_diagnosis_text(vr_report *r, const struct vram_diagnosis *d);
/* With -v: below the first lines of a diagnosis; and what belongs to the whole log. */
void vr_diagnosis_details(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f);
void vr_diagnosis_log(vr_report *r, const struct vram_diagnosis *d);
void vr_diagnosis_json(vr_report *r, const struct vram_diagnosis *d);

/* ---- what text and details share; strings of the report's arena or constant ---- */

/* A sentence behind a colon: no capital where it begins with a plain word. */
const char *vr_diagnosis_clause(vr_report *r, const char *text);
const char *vr_diagnosis_at(vr_report *r, const struct vram_diagnosis *d, uint32_t file, uint64_t line);
const char *vr_diagnosis_size(vr_report *r, uint64_t bytes); /* "2.55 GiB (2.74 GB)" */
/* The first of the texts that has room on one line, otherwise the last, the shortest: the answer should be
 * within the first lines, and -v shows all. */
const char *vr_diagnosis_roomy(vr_report *r, const char *const *texts, size_t n);
void vr_diagnosis_futile(vr_report *r, const vr_finding *f);
/* "type   --max-model-len 49056   shorter requests: fits", as much as has room; of f->remedies[i] */
void vr_diagnosis_lever(vr_report *r, const vr_finding *f, size_t i);
void vr_diagnosis_type(vr_report *r, const vr_finding *f);
/* The one command that would tell; first where the cause is open, or nothing else is there to type. */
bool vr_diagnosis_tells_first(const vr_finding *f);
void vr_diagnosis_tell(vr_report *r, const vr_finding *f);
/* Of a model whose run has no place with the figures: a sentence. */
const char *vr_diagnosis_no_place(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f);
void vr_diagnosis_card(vr_report *r, const vr_finding *f); /* what the card is filled with */

#endif
