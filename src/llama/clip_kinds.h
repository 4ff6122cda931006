/* SPDX-License-Identifier: MIT
 * Private to the projectors: graphs that lie in files of their own. */
#ifndef VR_CLIP_KINDS_H
#define VR_CLIP_KINDS_H

#include "llama/clip_parts.h"

vr_t vr_clip_qwen2vl(vr_cg *c); /* clip_qwen.c */
vr_t vr_clip_qwen3vl(vr_cg *c);

#endif
