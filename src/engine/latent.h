/* SPDX-License-Identifier: MIT
 * Private to the transformers engine: latent attention and the index of its sparse kind. */
#ifndef VR_ENGINE_LATENT_H
#define VR_ENGINE_LATENT_H

#include "engine/pass.h"

/* The rotated part of `heads` heads of this pass's tokens; what is copied before stays with the caller. */
vr_block vr_rotate_halves(vr_pass *p, uint64_t heads);
vr_block vr_rotate_pairs(vr_pass *p, uint64_t heads);

/* glm_moe_dsa: what an index chose is kept for the next layer. Its index rotates neighbours, that of
 * deepseek_v32 halves. */

/* What sparse attention's index leaves behind. */
typedef struct vr_chosen {
    vr_block flags; /* of every token, whether it is not chosen; until the attention returns */
    vr_block mask;  /* the mask with these */
} vr_chosen;

/* Runs the layer's index, or takes what the last one chose (p->chosen). */
vr_chosen vr_choose_tokens(vr_pass *p);

#endif
