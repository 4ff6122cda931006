/* SPDX-License-Identifier: MIT
 *
 * The time at which a line of a log was written, where it says so.
 */
#ifndef VR_WHEN_H
#define VR_WHEN_H

#include "base/base.h"

/* Seconds between two lines; false: one of them has no time, or they count differently (a clock, and seconds
 * since the machine started). Without dates two lines lie within one day. */
bool vr_seconds_between(const char *line, const char *other, uint64_t *seconds);

#endif
