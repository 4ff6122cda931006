/* SPDX-License-Identifier: MIT */
#include "diagnosis/diagnosis.h"

vram_status vr_diagnose_cause(struct vram_diagnosis *d, vr_finding *f)
{
    (void)d;
    if (f->event != NULL) {
        const vr_text_row *row = f->event->sign.row;
        f->memory = row->memory;
        f->phase = row->phase;
        f->cause = row->cause;
        f->certainty = row->certainty;
        f->program = row->program;
        f->summary = row->meaning;
    }
    return VRAM_OK;
}
