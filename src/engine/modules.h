/* SPDX-License-Identifier: MIT
 * Private to the transformers engine: the modules of a class as a tree, with what each weighs. */
#ifndef VR_MODULES_H
#define VR_MODULES_H

#include "engine/loading.h"

#define VR_NO_PARAM UINT32_MAX

/* A module, or a tensor at the end of a path. */
typedef struct vr_module {
    vr_str name;    /* the whole path; the root's is empty */
    uint32_t end;   /* what lies below are the nodes after it, up to here */
    uint32_t param; /* a tensor's, in vr_params.list; VR_NO_PARAM: a module */
    uint64_t size;  /* with all below, in half bytes, as accelerate and transformers count it */
    bool leaf;      /* a module with no module below */
    bool whole;     /* of a class that is not split over devices (_no_split_modules) */
} vr_module;

typedef struct vr_modules {
    vr_module *list; /* [0] is the root */
    size_t n;
    uint32_t embedding, head; /* of a tied head: the embedding's tensor and the head's module; 0: not tied */
} vr_modules;

/* Names of parameters that say where something is: the embeddings, the norm behind the layers, and
 * "model.layers.", which the layers' names begin with. Empty: there is none; .s NULL: no memory. */
vr_str vr_embedding_name(const vram_model *m, vr_arena *a);
vr_str vr_last_norm_name(const vram_model *m, vr_arena *a);
vr_str vr_layers_prefix(const vram_model *m, vr_arena *a);

/* From the parameters and buffers in their order. */
vram_status vr_modules_of(vr_modules *out, const vram_model *m, const vr_params *params,
                          const vram_workload *w, vr_arena *a);

#endif
