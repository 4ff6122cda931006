/* SPDX-License-Identifier: MIT
 * A projector file (mmproj): the encoder of pictures that lies beside a model, with weights, a scheduler and
 * a compute buffer of its own.
 *
 * Source: llama.cpp b10470, tools/mtmd/clip.cpp and tools/mtmd/models/. */
#ifndef VR_CLIP_H
#define VR_CLIP_H

#include "ggml/ggml.h"
#include "model/model.h"

typedef struct vr_clip vr_clip;

typedef struct vr_clip_params {
    bool on_host;                /* --no-mmproj-offload, or no GPU */
    bool flash_attn, flash_auto; /* as in vr_lm_params */
    unsigned cc;                 /* compute capability x 10; 0: unknown, 89 is taken */
    uint64_t most_tokens;        /* --image-max-tokens; 0: the model's own */
} vr_clip_params;

/* Bytes; what lies on the GPU (or, with on_host, in host memory), and what the CPU computes beside it. */
typedef struct vr_clip_sizes {
    bool on_host;
    uint64_t weights, compute, host_compute;
    uint64_t stored; /* weights as the file has them, without padding */
    uint64_t tensors, elements;
    bool listed;        /* which tensors of the file are loaded is known; else all are counted */
    bool compute_known; /* else both are 0 */
    const char *why;    /* it is not: a sentence */
    uint64_t side;      /* pixels of the square picture that memory is reserved for at the start; 0: sound */
    size_t n_nodes, n_splits;
    uint64_t width; /* of the rows that it gives to the text model; 0: not known */
} vr_clip_sizes;

/* NULL in *out with a sentence in *why: it is no projector, or its numbers make no sense. Lives in `a`. */
vram_status vr_clip_of(const vr_clip **out, const char **why, const vram_model *m, vr_arena *a);
vram_status vr_clip_measure(vr_clip_sizes *out, const vr_clip *c, const vr_clip_params *p, vr_arena *a);

#endif
