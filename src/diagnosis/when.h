/* SPDX-License-Identifier: MIT
 *
 * The time at which a line of a log was written, where it says so.
 */
#ifndef VR_WHEN_H
#define VR_WHEN_H

#include "base/base.h"

typedef enum vr_clock_kind {
    VR_NO_CLOCK,
    VR_TIME_OF_DAY,   /* no date */
    VR_DATE_AND_TIME, /* months are counted as of 31 days */
    VR_SINCE_START    /* of the machine */
} vr_clock_kind;

typedef struct vr_log_time {
    uint8_t kind; /* vr_clock_kind */
    uint64_t seconds;
} vr_log_time;

/* Of a line as it stands in the log, with what loggers put in front. Looks at its first 96 bytes. */
vr_log_time vr_log_time_of(vr_str line);
/* False: one has no time, or they count differently. */
bool vr_seconds_between(vr_log_time a, vr_log_time b, uint64_t *seconds);

#endif
