/* SPDX-License-Identifier: MIT
 * Regular expressions of tensor overrides. */
#ifndef VR_LLAMA_PATTERN_H
#define VR_LLAMA_PATTERN_H

#include "base/base.h"

struct vr_pattern;
/* NULL in *out with a sentence in *why: it is none, or has what is not understood here. */
vram_status vr_lm_pattern(const struct vr_pattern **out, const char **why, const char *text, vr_arena *a);
/* Whether it is found anywhere in the text. */
bool vr_lm_pattern_found(const struct vr_pattern *p, vr_str text);

#endif
