/* SPDX-License-Identifier: MIT
 * Private to the transformers engine: which module lies on which device by device_map="auto" and its kin. */
#ifndef VR_DEVICE_MAP_H
#define VR_DEVICE_MAP_H

#include "engine/modules.h"

/* What the maker of the map is told is free. */
typedef struct vr_map_room {
    const uint64_t *gpus; /* bytes of each */
    size_t n;             /* 1 or more */
    uint64_t host;        /* bytes; UINT64_MAX: as much as it takes */
    uint64_t idle;        /* bytes that PyTorch holds of each GPU and does not use: counted as free later */
} vr_map_room;

/* devices[i]: of the parameter i the GPU, or VR_ON_HOST, VR_ON_DISK. *head: of a head that shares the
 * embeddings. */
vram_status vr_device_map_of(uint16_t *devices, uint16_t *head, const vr_modules *tree,
                             const vr_params *params, const vram_workload *w, const vr_map_room *room,
                             vr_arena *a);

#endif
