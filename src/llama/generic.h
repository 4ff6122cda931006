/* SPDX-License-Identifier: MIT
 * Private to the room: graphs of architectures that are not known here. */
#ifndef VR_LLAMA_GENERIC_H
#define VR_LLAMA_GENERIC_H

#include "llama/graph.h"

extern const vr_lm_arch vr_lm_arch_generic;
/* Why no graph can be made of the names of its tensors: a sentence; or NULL. */
const char *vr_lm_not_generic(const vr_lm *lm);

#endif
