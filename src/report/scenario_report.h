/* SPDX-License-Identifier: MIT
 * The renderers of `vram ledger`. */
#ifndef VR_SCENARIO_REPORT_H
#define VR_SCENARIO_REPORT_H

#include "ledger/scenario.h"
#include "report/fit_report.h"

void vr_scenario_text(vr_report *r, const vram_scenario *s);
void vr_scenario_json(vr_report *r, const vram_scenario *s);

/* Several scenarios: a table of the categories and a diagram with the cards' edges. */
void vr_scenario_table(vr_report *r, const vram_scenario *s);
/* "serve x1 FP16", or "scenario 2" */
const char *vr_scenario_name(vr_report *r, const vram_scenario *s, size_t i);

#endif
