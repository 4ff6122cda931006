/* SPDX-License-Identifier: MIT
 *
 * Which events are failures of their own: the part for texts in which nothing failed.
 */
#ifndef VR_ORDER_H
#define VR_ORDER_H

#include "diagnosis/diagnosis.h"

/* A finding of the most telling sign where there is no event: a warning, a frame, the step in which the text
 * ends, or the figures of a short excerpt. None: no finding. */
vram_status vr_take_seen(struct vram_diagnosis *d);

#endif
