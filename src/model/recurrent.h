/* SPDX-License-Identifier: MIT
 * Private to the room: what architectures with recurrent layers share. */
#ifndef VR_RECURRENT_H
#define VR_RECURRENT_H

#include "model/special.h"

#define VR_MAX_TAPS 1024   /* of a convolution; 4 is common */
#define VR_MAX_CHUNK 65536 /* tokens; 64 to 256 are common */

/* A recurrent mixer's sizes, read and bounded, in layer i. The MLP stays what it was. */
void vr_layer_becomes_recurrent(vram_model *m, uint64_t i, const vr_layer *mixer);
/* The same beside its attention. */
void vr_layer_gains_mixer(vr_layer *l, const vr_layer *mixer);
/* All layers are that mixer and nothing else. */
void vr_all_recurrent(vram_model *m, const vr_layer *mixer);
/* The layer's mixer is none, or its MLP. */
void vr_layer_loses_attention(vr_layer *l);
void vr_layer_loses_mlp(vr_layer *l);
/* False: said why the model is not understood. */
bool vr_channels_fit(vr_reading *r, uint64_t channels, vram_status *status);

/* torch.nn.Conv1d with groups=channels: "module.weight" [channels, 1, taps] and, when it has one, its bias.
 */
void vr_declare_conv(vr_declaring *d, const char *module, const char *bias, const vr_layer *l);

/* ---- Mamba-2 (ssm.c) ---- */

/* Keys of a Mamba-2's sizes and their defaults; NULL: the architecture has no such setting. */
typedef struct vr_ssm_keys {
    const char *heads, *head_dim, *groups, *state, *taps, *chunk;
    uint64_t heads_default, head_dim_default, groups_default, state_default, taps_default, chunk_default;
    const char *conv_bias, *bias; /* flags; true and false when silent */
} vr_ssm_keys;

/* As Granite 4, Bamba and Falcon-H1 have them. */
extern const vr_ssm_keys vr_ssm_of_groups;

vram_status vr_read_ssm(vr_reading *r, const vr_ssm_keys *k, vr_layer *mixer);
/* The same where its heads must have `inner` channels together: under k->head_dim stands a number, "auto" or
 * nothing. */
vram_status vr_read_ssm_of(vr_reading *r, const vr_ssm_keys *k, uint64_t inner, vr_layer *mixer);
/* conv1d, in_proj, norm, out_proj, dt_bias, A_log, D under `module`, e.g. "mamba." */
void vr_declare_ssm(vr_declaring *d, const char *module, const vr_layer *l);

#endif
