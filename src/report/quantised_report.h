/* SPDX-License-Identifier: MIT
 * What the reports say of a quantised checkpoint. */
#ifndef VR_QUANTISED_REPORT_H
#define VR_QUANTISED_REPORT_H

#include "model/model.h"
#include "report/report.h"

/* One paragraph; nothing when nothing is quantised. */
void vr_say_quantised(vr_report *r, const vram_model *m, size_t indent);

/* What its figures rest on: "checkpoint", "configuration", "catalogue". */
const char *vr_evidence(const vram_model *m);
/* `checkpoint_bytes`: null when a configuration alone does not tell. */
void vr_json_checkpoint_bytes(vr_json_out *o, const vram_model *m);
/* `parameters`: null when some packed tensors cannot be counted. */
void vr_json_parameters(vr_json_out *o, const vram_model *m);
/* `quantization`: null when nothing is quantised. */
void vr_json_quantization(vr_json_out *o, const vram_model *m);

#endif
