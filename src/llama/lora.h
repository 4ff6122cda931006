/* SPDX-License-Identifier: MIT
 * Adapters (LoRA) and control vectors: small tensors on the devices of those that they change, and more nodes
 * in the graph.
 *
 * Source: llama.cpp b10470, src/llama-adapter.cpp; src/llama-graph.cpp (build_lora_mm, build_inp_embd). */
#ifndef VR_LORA_H
#define VR_LORA_H

#include "llama/llama.h"

typedef struct vr_lm_adapter vr_lm_adapter;

/* NULL in *out with a sentence in *why: llama.cpp refuses the file beside this model. Lives in `a`. */
vram_status vr_lm_adapter_of(const vr_lm_adapter **out, const char **why, const vram_model *file,
                             const vr_lm *lm, vr_arena *a);

#endif
