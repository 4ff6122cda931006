/* SPDX-License-Identifier: MIT
 * The renderers of `vram ledger`. */
#ifndef VR_SCENARIO_REPORT_H
#define VR_SCENARIO_REPORT_H

#include "ledger/scenario.h"
#include "report/fit_report.h"

void vr_scenario_text(vr_report *r, const vram_scenario *s);
void vr_scenario_json(vr_report *r, const vram_scenario *s);

/* Several scenarios: verdict, a table of the categories, a diagram with the cards' edges, the smallest
 * changes. */
void vr_scenario_table(vr_report *r, const vram_scenario *s);
/* "serve x1 FP16", or "scenario 2" */
const char *vr_scenario_name(vr_report *r, const vram_scenario *s, size_t i);
/* "24 GiB", "2 x 24 GiB", "11.63 GiB" */
const char *vr_scenario_size(vr_report *r, uint64_t bytes, uint64_t count);
/* "fits, 6.35 left", "no, 23.65 short" */
const char *vr_scenario_room(vr_report *r, const vr_scenario_card *c, uint64_t required);

#endif
