/* SPDX-License-Identifier: MIT
 * Private to the room: what adapters add to sizes and graphs (lora.c). */
#ifndef VR_LLAMA_ADAPTED_H
#define VR_LLAMA_ADAPTED_H

#include "llama/graph.h"

/* To vr_lm_memory.adapter, of adapters and control vectors. */
void vr_lm_add_adapters(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p, const vr_lm_plan *plan);
/* Room in a graph for their tensors; false: no memory. */
bool vr_lm_adapted_room(vr_lm_graph *c);
/* `out` is w times cur (of the experts `ids`, or NULL); returned with what the adapters add to it. */
vr_t vr_lm_adapted(vr_lm_graph *c, vr_t w, vr_t cur, vr_t ids, vr_t out);
vr_t vr_lm_adapted_rows(vr_lm_graph *c, vr_t w, vr_t tokens, vr_t out); /* of rows of w */

#endif
