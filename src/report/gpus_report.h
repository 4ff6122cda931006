/* SPDX-License-Identifier: MIT
 * The renderers of `vram gpus`; cards: the rows that were asked for. */
#ifndef VR_GPUS_REPORT_H
#define VR_GPUS_REPORT_H

#include "device/device.h"
#include "report/report.h"

void vr_gpus_text(vr_report *r, const vr_gpu *const *cards, size_t n);
void vr_gpus_json(vr_report *r, const vr_gpu *const *cards, size_t n);

#endif
