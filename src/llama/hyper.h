/* SPDX-License-Identifier: MIT
 * Private to the room: several residuals of a token beside one another (hyper connections). */
#ifndef VR_LLAMA_HYPER_H
#define VR_LLAMA_HYPER_H

#include "llama/arch.h"

/* What a part of a layer takes of the residuals, and what it leaves for afterwards. */
typedef struct vr_lm_hyper {
    vr_t cur;        /* [n_embd, tokens] */
    vr_t post, comb; /* how its result and the residuals are mixed */
} vr_lm_hyper;

/* false: the numbers make no sense, and the graph is broken. */
bool vr_lm_hyper_sane(vr_lm_graph *c);
/* x: [n_embd, residuals, tokens]; fn, scale and base by their names. */
vr_lm_hyper vr_lm_hyper_pre(vr_lm_graph *c, vr_t x, int il, const char *fn, const char *scale,
                            const char *base);
vr_t vr_lm_hyper_post(vr_lm_graph *c, vr_t x, vr_t residuals, const vr_lm_hyper *h, int il);
/* What the last norm is applied to. */
vr_t vr_lm_hyper_head(vr_lm_graph *c, vr_t x);

#endif
