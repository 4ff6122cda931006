/* SPDX-License-Identifier: MIT
 * Private to the room: where weights, caches and states lie. */
#ifndef VR_LLAMA_PLACE_H
#define VR_LLAMA_PLACE_H

#include "llama/builds.h"

/* Keys of several tokens in one (llama_kv_cache_dsv4), and the state that they are made of. */
typedef struct vr_lm_compressed {
    uint64_t width, cells;            /* width 0: there are none */
    uint64_t state_width, state_rows; /* 32-bit floats, for keys and scores each */
} vr_lm_compressed;
#define VR_LM_LONG_RATIO 128 /* tokens in one key where nothing chooses among them */

/* The cache of a layer (llama_kv_cache) and its state (llama_memory_recurrent). */
typedef struct vr_lm_cache {
    uint64_t k_width, v_width;      /* elements of a cell; 0: none */
    uint64_t cells, streams;        /* 0: the layer keeps no keys */
    uint64_t index_width;           /* of keys that choose which tokens are attended to; 0: none */
    uint64_t index_values;          /* kept beside them, never read */
    vr_lm_compressed compressed[2]; /* of attention, of what chooses for it */
    uint64_t r_width, s_width;      /* 32-bit floats of a sequence */
    uint64_t r_rows;                /* sequences */
    uint64_t r_kept;                /* what is kept of each: its state now, and older ones */
    bool v_transposed;
    uint8_t device;  /* or VR_LM_HOST */
    uint32_t reuses; /* layer whose cache it uses, plus 1; 0: its own */
} vr_lm_cache;

/* A model on a machine with the settings of a run. */
typedef struct vr_lm_plan {
    vr_lm_rules rules; /* of the build */
    vr_gg_machine machine;
    size_t n_devices;
    uint8_t
        backend_device[VR_GG_MAX_BACKENDS];  /* of each back end of the machine: the device, or VR_LM_HOST */
    uint8_t device_buft[VR_LM_MOST_DEVICES]; /* in machine.bufts; VR_GG_NOWHERE: the device is left out */
    uint8_t pinned_buft, host_buft;          /* the same without a device */
    uint8_t *layer_device; /* n_layer_all + 1 entries, the last of the output; device or VR_LM_HOST */
    /* VR_GG_NOWHERE: llama.cpp does not load it */
    uint8_t **weight_buft; /* by layer, as its weights are ordered */
    uint8_t *outside_buft; /* as vr_lm.outside; rope factors: that of layer 0, and see vr_lm_plain_buft */
    uint8_t head_buft;     /* of the head: its own tensor's or the copy's; VR_GG_NOWHERE: there is none */
    bool head_copied;      /* a tied embedding lies in memory twice, and codeshell's only matrix */
    bool overridden;       /* there are tensor overrides: no pipelining */
    bool cuts_rows;        /* matrices are cut by rows over all devices (rows.c) */
    bool on_main_gpu;      /* then: what is not cut lies on one */
    float rows_from[VR_LM_MOST_DEVICES]; /* where each device's share of the rows begins */
    uint64_t row_rounding;
    bool pipelined;             /* machine.copies is more than 1 */
    vr_lm_cache *caches;        /* n_layer_all */
    bool copies_cache;          /* with flash attention keys or values are of another type than F16 */
    const char *caches_unknown; /* why it is not known what the layers keep; or NULL */
    uint64_t n_ctx, n_ctx_seq, n_batch, n_ubatch, n_seq_max, n_stream, n_outputs_max;
    uint64_t n_tokens;         /* of the graph that memory is reserved for */
    uint64_t cells, swa_cells; /* of a stream */
    const char *refused;       /* llama.cpp does not start: a sentence; or NULL */
    const char *unknown;       /* why it is not known where things go: a sentence; or NULL */
} vr_lm_plan;

/* Lives in `a`. */
vram_status vr_lm_plan_of(vr_lm_plan *out, const vr_lm *lm, const vr_lm_params *p,
                          const vr_lm_device *devices, size_t n, vr_arena *a);
/* Adds model and context to the sizes. */
void vr_lm_add_placed(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p, const vr_lm_plan *plan);

/* Where a small vector of layer il lies that no pattern names: rope factors have a copy there. */
uint8_t vr_lm_plain_buft(const vr_lm_plan *plan, uint32_t il);
/* Tokens in one key of layer il; 0: it has none such. Cells for as many tokens as a sequence has. */
uint64_t vr_lm_compress_ratio(const vr_lm *lm, uint32_t il);
uint64_t vr_lm_compressed_cells(const vr_lm_plan *plan, uint64_t ratio);
/* What a tensor of its own takes in a buffer. */
uint64_t vr_lm_taken(const vr_lm_plan *plan, uint8_t buft, vr_dtype type, const uint64_t ne[VR_GG_DIMS]);
/* The memory of a buffer type in the sizes. */
vr_lm_memory *vr_lm_memory_of(vr_lm_sizes *out, const vr_lm_plan *plan, uint8_t buft);

/* ---- --split-mode row (rows.c) ---- */

#define VR_LM_LAYERS_SPREAD 3990 /* since then the cards share the layers too */

/* Why it is not known how this model is cut; or NULL. */
const char *vr_lm_rows_unknown(const vr_lm *lm, uint32_t build);
void vr_lm_cut_rows(vr_lm_plan *plan, const vr_lm_params *p, const vr_lm_device *devices, size_t n);
/* buft: of the device that its layer is on. */
bool vr_lm_is_cut(const vr_lm_plan *plan, const vr_lm_weight *w, uint8_t buft);
uint64_t vr_lm_cut_bytes(const vr_lm_plan *plan, const vr_lm_weight *w, size_t device);
/* What a device's kernels put aside to multiply with it. */
uint64_t vr_lm_cut_pool(const vr_lm_plan *plan, const vr_lm_weight *w, size_t device, uint64_t tokens);

/* ---- parts of the plan, each in a file of its own ---- */

/* layer_device and bufts are there. */
vram_status vr_lm_place_weights(vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p, vr_arena *a);
vram_status vr_lm_place_caches(vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p, vr_arena *a);
/* Whether a tensor of the layer is loaded at all (predicting.c). */
bool vr_lm_loaded(const vr_lm *lm, const vr_lm_params *p, const vr_lm_rules *r, uint32_t il, vr_str name);
/* Whether layer il has keys and values in the second context. */
bool vr_lm_predicting_attends(const vr_lm *lm, uint32_t il);
/* The layer chooses the tokens that it attends to, and keeps keys for that. */
bool vr_lm_chooses_itself(const vr_lm *lm, uint32_t il);

/* Whether the architecture's graphs were held against llama.cpp's own figures (held.c). */
bool vr_lm_held(vr_str arch);
/* The same under the adapters and control vectors that are asked for. */
bool vr_lm_held_under(vr_str arch, const vr_lm_params *p);
/* The same of caches alone, where the graph is not known. */
bool vr_lm_kept_held(vr_str arch);
/* What kernels of the device put aside at most (pool.c). */
uint64_t vr_lm_pool(const vr_lm *lm, const vr_lm_plan *plan, uint8_t buft);

#endif
