/* SPDX-License-Identifier: MIT
 * Private to the room: writing down the tensors of a checkpoint that there is no file of. */
#ifndef VR_AS_DECLARED_H
#define VR_AS_DECLARED_H

#include "model/reading.h"

typedef struct vr_storing {
    vram_model *m;
    vr_dtype dtype; /* of what is not quantised */
    vr_tensor *list;
    size_t n, room;
    uint64_t at; /* bytes so far */
    vram_status status;
} vr_storing;

/* One tensor; suffix is put in place of the last `cut` bytes of d's name in the checkpoint. */
void vr_store(vr_storing *s, const vr_declared *d, size_t cut, const char *suffix, vr_dtype dtype,
              const uint64_t *dims, uint8_t n_dims);
/* As it is declared. */
void vr_store_plain(vr_storing *s, const vr_declared *d);

/* All that is declared, as the quantisation of config.json stores it. False: how is not known. */
bool vr_store_quantised(vr_storing *s);

#endif
