/* SPDX-License-Identifier: MIT
 * llama.cpp's --fit: what was not typed is changed until the model leaves a margin on every device. */
#ifndef VR_LLAMA_FIT_H
#define VR_LLAMA_FIT_H

#include "llama/llama.h"

#define VR_LM_FIT_MARGIN (UINT64_C(1024) << 20) /* --fit-target */
#define VR_LM_FIT_CONTEXT 4096                  /* --fit-ctx */

typedef struct vr_lm_fitted {
    vr_lm_params params; /* as the run has them then */
    bool changed;
    const char *left;    /* why it leaves them as they were though the margins are not met; or NULL */
    const char *unknown; /* why it is not known what it does; or NULL */
    uint64_t trials;     /* runs that were measured */
} vr_lm_fitted;

/* p: what was typed. n_ctx 0 and n_gpu_layers UINT64_MAX are open. margins: of each device. What *out points
 * to lives in `a`. */
vram_status vr_lm_fit(vr_lm_fitted *out, const vr_lm *lm, const vr_lm_params *p, const vr_lm_device *devices,
                      size_t n, const uint64_t *margins, uint64_t least_context, vr_arena *a);

#endif
