/* SPDX-License-Identifier: MIT
 * Private to the room: multi-head latent attention (MLA), for every kind of model that has layers of it. */
#ifndef VR_LATENT_H
#define VR_LATENT_H

#include "model/special.h"

/* As config.json spells it; 0: it has none. */
typedef struct vr_latent {
    uint64_t latent, query_latent;   /* kv_lora_rank, q_lora_rank */
    uint64_t plain, rotary, value;   /* qk_nope_head_dim, qk_rope_head_dim, v_head_dim: of a head */
    uint64_t index_heads, index_dim; /* index_n_heads, index_head_dim: of its index */
    uint64_t index_topk;             /* tokens that the index chooses; 0: there is no index */
} vr_latent;

/* What config.json says; what it does not say stays as it is in *sizes, the defaults of the class. */
vram_status vr_read_latent(vr_reading *r, vr_latent *sizes);
/* Makes this layer one of them; the index is the layer's own. */
void vr_set_latent(vr_layer *l, const vr_latent *sizes, uint64_t heads);
/* Its parameters, in the layer at d->path. */
void vr_declare_latent(vr_declaring *d, const vr_layer *l);

#endif
