/* SPDX-License-Identifier: MIT
 * Private to the room: what an architecture does otherwise than most, whatever its file says. */
#ifndef VR_LLAMA_TRAITS_H
#define VR_LLAMA_TRAITS_H

#include "llama/llama.h"

typedef enum vr_lm_trait {
    /* -- memory -- */
    VR_LM_STATES = 1u << 0,  /* its layers keep states and no keys */
    VR_LM_HYBRID = 1u << 1,  /* attention layers beside recurrent ones, or both in one (DeepSeek-V4 has no
                                layers of the kind) */
    VR_LM_FORGETS = 1u << 2, /* an encoder, or diffusion: llama.cpp makes it no memory */
    VR_LM_CHOOSES = 1u << 3, /* layers choose the tokens that they attend to, and keep keys for that (DSA) */
    VR_LM_OWN_CACHE = 1u << 4,  /* of a kind that the model's description does not know; caches.c does */
    VR_LM_PAIR_DECAY = 1u << 5, /* the graph has a decay for each pair of tokens of a sequence */
    VR_LM_TAKES_BACK = 1u << 6, /* states can be taken back by some tokens, for drafts */
    VR_LM_CUTS_AHEAD = 1u << 7, /* layers that predict have no cache; those of others have, before v0.5.0 */
    /* -- layers that predict further tokens -- */
    VR_LM_LOADS_AHEAD = 1u << 8,  /* loaded where they draft; others pass over them in any case */
    VR_LM_LOADED_AHEAD = 1u << 9, /* whole, always, before b10212 */
    VR_LM_ONLY_AHEAD = 1u << 10,  /* the second context has caches of these alone; else of all layers */
    /* -- graph -- */
    VR_LM_BARE_FFN = 1u << 11 /* FFN and experts are not multiplied by scales that the file may have */
} vr_lm_trait;

/* Those of an architecture, none where it is not known. */
uint32_t vr_lm_traits_of(vr_str arch);
bool vr_lm_has(const vr_lm *lm, uint32_t any_of);

#endif
