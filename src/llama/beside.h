/* SPDX-License-Identifier: MIT
 * What llama.cpp loads beside a model: a projector, a model that drafts or a second context on the layers
 * that predict. */
#ifndef VR_LLAMA_BESIDE_H
#define VR_LLAMA_BESIDE_H

#include "llama/clip.h"
#include "llama/llama.h"

typedef struct vr_lm_beside {
    const vr_clip *projector; /* NULL: there is none */
    vr_clip_params seeing;    /* cc and a lack of GPUs are filled in */
    bool unread;              /* it is a file of its own, which is not measured */
    const char *unknown;      /* why it is not known what drafts take; or NULL */
    const vr_lm *draft;       /* NULL: there is none */
    vr_lm_params drafting;    /* of its context */
    bool predicts;            /* draft is the model itself: a second context on its layers that predict */
} vr_lm_beside;

/* --spec-type draft-mtp: layers of the model itself draft so many tokens, with a second context whose caches
 * are F16. *why: NULL, or what llama.cpp stops with. */
void vr_lm_beside_predict(const char **why, vr_lm_beside *b, vr_lm_params *p, const vr_lm *lm,
                          uint64_t drafts);

/* Fills projector and draft of the sizes from p->beside; the model itself has been measured. */
vram_status vr_lm_measure_beside(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p,
                                 const vr_lm_device *devices, size_t n, vr_arena *a);

#endif
