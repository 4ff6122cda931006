/* SPDX-License-Identifier: MIT
 * Private to the room: where weights, caches and states lie. */
#ifndef VR_LLAMA_PLACE_H
#define VR_LLAMA_PLACE_H

#include "llama/llama.h"

/* The cache of a layer (llama_kv_cache) and its state (llama_memory_recurrent). */
typedef struct vr_lm_cache {
    uint64_t k_width, v_width; /* elements of a cell; 0: none */
    uint64_t cells, streams;   /* 0: the layer keeps no keys */
    uint64_t r_width, s_width; /* 32-bit floats of a sequence */
    uint64_t r_rows;           /* sequences, and their snapshots */
    bool v_transposed;
    uint8_t device;       /* or VR_LM_HOST */
    uint32_t reuses;      /* layer whose cache it uses, plus 1; 0: its own */
} vr_lm_cache;

/* A model on a machine with the settings of a run. */
typedef struct vr_lm_plan {
    vr_gg_machine machine;
    size_t n_devices;
    uint8_t device_buft[VR_LM_MOST_DEVICES]; /* in machine.bufts */
    uint8_t pinned_buft, host_buft;
    uint8_t *layer_device; /* n_layer_all + 1 entries, the last of the output; device or VR_LM_HOST */
    uint8_t **weight_buft; /* by layer, as its weights are ordered */
    uint8_t *outside_buft; /* as vr_lm.outside */
    uint8_t head_buft;     /* of the head: its own tensor's or the copy's */
    vr_lm_cache *caches;   /* n_layer_all */
    uint64_t n_ctx, n_ctx_seq, n_batch, n_ubatch, n_seq_max, n_stream, n_outputs_max;
    uint64_t cells, swa_cells;
    const char *refused; /* llama.cpp does not start: a sentence; or NULL */
} vr_lm_plan;

/* Lives in `a`. */
vram_status vr_lm_plan_of(vr_lm_plan *out, const vr_lm *lm, const vr_lm_params *p, const vr_lm_device *devices,
                          size_t n, vr_arena *a);
/* Adds model and context to the sizes. */
void vr_lm_add_placed(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_plan *plan);

#endif
