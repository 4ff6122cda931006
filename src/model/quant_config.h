/* SPDX-License-Identifier: MIT
 * Private to the room: what config.json says about quantisation. */
#ifndef VR_QUANT_CONFIG_H
#define VR_QUANT_CONFIG_H

#include "model/model.h"

typedef struct vr_quant_one {
    uint64_t bits, group;
} vr_quant_one;

typedef struct vr_quant_config {
    const char *method;   /* NULL: silent */
    uint64_t bits, group; /* of all; 0: silent, or different ones */
    vr_map by_stem;       /* modules that have their own (MLX) */
    vr_quant_one *own;
    size_t n_own, room;
} vr_quant_config;

vram_status vr_read_quant_config(vr_quant_config *out, vram_model *m);
bool vr_quant_object(const vram_model *m, vr_json *q); /* the object itself; false: there is none */
void vr_quant_of(const vr_quant_config *c, vr_str stem, uint64_t *bits, uint64_t *group);
/* As the method's makers write it (the word itself when it is not known), and the format where the name
 * leaves it open: "ModelOpt NVFP4". NULL: out of memory. */
const char *vr_quant_title(vr_arena *a, const char *method, const char *layout);

#endif
