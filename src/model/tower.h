/* SPDX-License-Identifier: MIT
 * Private to the room: what sees pictures in a multimodal model, and what hands its result to the decoder. */
#ifndef VR_TOWER_H
#define VR_TOWER_H

#include "model/declare.h"
#include "model/reading.h"

typedef struct vr_tower_kind vr_tower_kind;

struct vr_tower_kind {
    const char *inside; /* "visual.", in front of the tower's own names and behind the model's */
    /* Sizes from vision_config, which r->text is here; r->root is the whole. */
    vram_status (*read)(const vr_reading *r, vr_tower *t);
    /* d->path is the tower's; d->part VR_PART_VISION. */
    void (*declare)(vr_declaring *d, const vr_tower *t);
    /* d->path is that of what stands around tower and decoder; NULL: the tower has all. */
    void (*declare_projector)(vr_declaring *d, const vr_tower *t);
    /* out->width and height are the picture's, and become those that the tower sees; the rest is filled. A
     * sentence why not, or NULL. NULL: it is not known what its processor does. */
    const char *(*picture)(vr_picture *out, const vr_tower *t);
    bool scales; /* to one size, whatever the picture's */
};

extern const vr_tower_kind vr_tower_qwen2_5_vl, vr_tower_qwen3_vl, vr_tower_qwen3_5, vr_tower_siglip,
    vr_tower_clip, vr_tower_pixtral, vr_tower_pixtral_llava, vr_tower_gemma4, vr_tower_kimi_k25,
    vr_tower_llama4, vr_tower_minimax_m3;

/* ---- pictures.c ---- */

const char *vr_picture_qwen2_5(vr_picture *out, const vr_tower *t);
const char *vr_picture_qwen3(vr_picture *out, const vr_tower *t);
const char *vr_picture_square(vr_picture *out, const vr_tower *t);
const char *vr_picture_pixtral(vr_picture *out, const vr_tower *t);

/* m->tower, when vision_config describes one of a kind that is known; else m->uncounted_part says that there
 * is one. */
vram_status vr_read_tower(vr_reading *r);
/* Its layers, each under d->path, `stack` and its number. */
void vr_declare_tower_layers(vr_declaring *d, const vr_tower *t, const char *stack,
                             void (*layer)(vr_declaring *, const vr_tower *));
/* "mlp.fc1" and "mlp.fc2" of a layer */
void vr_declare_tower_mlp(vr_declaring *d, const vr_tower *t);
/* What m->tower declares, before the decoder. */
void vr_declare_tower(vr_declaring *d);

#endif
