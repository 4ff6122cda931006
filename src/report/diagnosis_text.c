/* SPDX-License-Identifier: MIT
 *
 * `vram explain` for people: five lines that answer, details below.
 */
#include "report/diagnosis_report.h"

void vr_diagnosis_text(vr_report *r, const struct vram_diagnosis *d)
{
    for (size_t i = 0; i < d->n; i++)
        vr_para(r, VR_INK_BOLD, vr_cause_words[d->list[i].cause].meaning, 12,
                d->list[i].summary != NULL ? d->list[i].summary : "");
}
