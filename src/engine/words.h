/* SPDX-License-Identifier: MIT
 * Private to the transformers engine: how its figures come about, in words. */
#ifndef VR_WORDS_H
#define VR_WORDS_H

#include "engine/pass.h"

typedef struct vr_facts {
    uint64_t weight_bytes, n_parameters;
    uint64_t assistant_bytes, n_assistant; /* of a model that drafts */
    bool as_stored;                        /* tensors at the bytes that the checkpoint has */
    bool has_activations, has_kv;
    bool steps_skipped;  /* the cache grows by several tokens at a time */
    size_t n_anew;       /* vectors that are not stored */
    const char *refused; /* as in vr_plan */
} vr_facts;

/* Why the activations of a quantised checkpoint are not counted; NULL: out of memory. */
const char *vr_why_quantised(const vram_model *m, vr_arena *a);
/* Fills plan->formula; VRAM_ENOMEM. */
vram_status vr_formulas(vr_plan *plan, const vr_pass *p, const vr_facts *facts);

/* Of a model with a part that is not understood the decoder is there in any case. */
vram_status vr_tell_decoder(vr_plan *plan, const vr_pass *p);

#endif
