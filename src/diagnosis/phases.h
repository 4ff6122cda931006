/* SPDX-License-Identifier: MIT
 *
 * Where a run was when it died: from the frames of the traceback, the last step, and the text itself.
 */
#ifndef VR_PHASES_H
#define VR_PHASES_H

#include "diagnosis/findings.h"

typedef struct vr_place_in_run {
    uint8_t phase;       /* vr_phase_id */
    const vr_sign *sign; /* what says so: a frame or a step; NULL: the text itself, or nothing */
    bool from_frame;
} vr_place_in_run;

vr_place_in_run vr_phase_of(const vr_incident *event);

#endif
