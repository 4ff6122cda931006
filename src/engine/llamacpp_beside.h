/* SPDX-License-Identifier: MIT
 * Private to the room: what llama.cpp loads beside a model. */
#ifndef VR_LLAMACPP_BESIDE_H
#define VR_LLAMACPP_BESIDE_H

#include "engine/llamacpp.h"
#include "engine/options.h"
#include "llama/beside.h"
#include "llama/lora.h"

#define VR_LLAMACPP_N_BESIDE 12
extern const struct vr_option_row vr_llamacpp_beside_rows[VR_LLAMACPP_N_BESIDE];

/* What the workload has attached, into p; VRAM_ESETTING for files that llama.cpp would not take. */
vram_status vr_llamacpp_attach(vr_lm_params *p, const vr_lm *lm, const vram_workload *w, vr_arena *a);

/* llama-server keeps room on the cards for a projector and for what drafts when it fits a model; p is what it
 * fits then, without either. */
vram_status vr_llamacpp_beside_margins(uint64_t *margins, const vr_lm *lm, vr_lm_params *p,
                                       const vram_workload *w, const vr_lm_device *devices, size_t n,
                                       vr_arena *a);

/* Of one card, or of the host: all that lies beside the model. */
typedef struct vr_beside_sum {
    uint64_t weights, elements, kept, token, compute, pool;
} vr_beside_sum;
vr_beside_sum vr_llamacpp_beside_of(const vr_lm_sizes *s, size_t rank);
/* Host memory: added to what the model itself takes. */
void vr_llamacpp_beside_on_host(vr_host_share *out, const vr_lm_sizes *s);
/* Onto the tape, where the category is counted. */
void vr_llamacpp_put_beside(vr_plan *out, const vr_lm_sizes *s, size_t rank, vr_category c);
/* Weights, cache and activations: words, and whether all of it is known. */
vram_status vr_llamacpp_beside_told(vr_sum sums[3], const vr_lm_sizes *s, size_t rank, vr_arena *a);

#endif
