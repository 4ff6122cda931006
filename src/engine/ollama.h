/* SPDX-License-Identifier: MIT
 * Private to the room: what Ollama does by its release, and the estimate by which it placed layers before it
 * left that to llama-server. */
#ifndef VR_OLLAMA_H
#define VR_OLLAMA_H

#include "engine/llamacpp.h"

/* Who says which layers go to the GPU. */
typedef enum vr_ollama_era {
    VR_OLLAMA_ESTIMATE, /* an estimate of its own, with a layer to spare */
    VR_OLLAMA_LAYOUT,   /* the same figures, the layers packed onto as few GPUs as they need */
    VR_OLLAMA_SERVER    /* llama-server's --fit */
} vr_ollama_era;

/* Fields hold what a release does. */
typedef struct vr_ollama_rules {
    uint32_t release;         /* 1000 x minor + patch */
    uint32_t build;           /* of llama.cpp in it */
    uint32_t era;             /* vr_ollama_era */
    uint32_t default_context; /* num_ctx; 0: by the size of the cards */
    uint32_t parallel;        /* OLLAMA_NUM_PARALLEL */
    uint32_t parallel_auto;   /* fewer when the model does not fit whole */
    uint32_t flash_auto;      /* as llama.cpp decides; else off */
    uint32_t batch_auto;      /* by context and room; else 512 */
    uint32_t from_last;       /* layers are given to GPUs from the last one on */
    uint32_t weights_alone;   /* told without the caches */
    uint32_t recurrent;       /* the estimate knows of states */
    uint32_t graph_halved;    /* gpt-oss: the first estimate of its graph was twice as much */
    uint32_t graph_doubled;   /* and with a part of the layers twice that */
} vr_ollama_rules;

#define VR_OLLAMA_RELEASE(minor, patch) ((minor)*1000u + (patch))
#define VR_OLLAMA_OLDEST VR_OLLAMA_RELEASE(3, 0)
#define VR_OLLAMA_NEWEST VR_OLLAMA_RELEASE(32, 15)
#define VR_OLLAMA_MINIMUM (UINT64_C(457) << 20) /* of a GPU that stays free */
#define VR_OLLAMA_METAL (UINT64_C(512) << 20)

#define VR_OLLAMA_N_OPTIONS 7
extern const struct vr_option_row *const vr_ollama_options[VR_OLLAMA_N_OPTIONS];

/* Releases out of range get the rules of the nearest one. */
void vr_ollama_rules_of(vr_ollama_rules *out, uint32_t release);
/* Whether its own engine runs the architecture: what that computes is not known here. */
bool vr_ollama_runs_itself(const vr_ollama_rules *r, vr_str arch);
/* num_ctx when nothing is said, of cards of so many bytes together. */
uint64_t vr_ollama_context(const vr_ollama_rules *r, uint64_t total);
/* OLLAMA_NUM_PARALLEL is 1 of these. */
bool vr_ollama_serial(vr_str arch);
/* By what it schedules since it runs llama-server: the file and 16-bit keys and values of every layer alike.
 */
uint64_t vr_ollama_predicted(const vr_lm *lm, uint64_t file_bytes, uint64_t tokens);
/* Tokens computed at once, by the context of all sequences. */
uint64_t vr_ollama_batch(const vr_ollama_rules *r, uint64_t tokens, bool flash, uint64_t predicted,
                         uint64_t available, uint64_t smallest);

/* ---- the estimate ---- */

/* A model in the estimate's numbers. */
typedef struct vr_ollama_facts {
    vr_str arch;
    uint64_t embedding, vocab, feed_forward, window;
    uint64_t heads, heads_min, heads_kv, heads_kv_min; /* the most and the fewest of any layer */
    uint64_t head_k, head_v;
    uint64_t gate_exps_bytes, gate_rows, qkv_bias; /* of the first layer; 0: it has none */
    size_t n_layers;
    const uint64_t *layers; /* bytes of the weights of each */
    const uint64_t *states; /* of each, 0 where it has keys; NULL: none has any */
    uint64_t output;        /* bytes of the output layer */
} vr_ollama_facts;

vram_status vr_ollama_facts_of(vr_ollama_facts *out, const vr_lm *lm, vr_arena *a);

typedef struct vr_ollama_ask {
    uint64_t tokens, batch, parallel; /* tokens: of all sequences */
    uint8_t kv_type;                  /* vr_dtype */
    bool flash;
    uint64_t num_gpu;  /* UINT64_MAX: not said */
    uint64_t overhead; /* OLLAMA_GPU_OVERHEAD */
    bool spread, metal;
    uint64_t projector; /* bytes that lie with the output layer: its weights and graph */
} vr_ollama_ask;

typedef struct vr_ollama_graph {
    uint64_t kv, full, partial; /* full: with all layers on GPUs */
    uint64_t *kv_of;            /* each layer */
} vr_ollama_graph;

vram_status vr_ollama_graph_of(vr_ollama_graph *out, const vr_ollama_rules *r, const vr_ollama_facts *f,
                               const vr_ollama_ask *q, vr_arena *a);

typedef struct vr_ollama_layout {
    vr_ollama_graph graph;
    uint64_t layers; /* on GPUs, the output layer among them */
    uint64_t gpu_layers[VR_MOST_GPUS], gpu_bytes[VR_MOST_GPUS];
    uint64_t on_gpus, total; /* bytes; what `ollama ps` shows */
} vr_ollama_layout;

/* available: free bytes of each GPU. */
vram_status vr_ollama_layout_of(vr_ollama_layout *out, const vr_ollama_rules *r, const vr_ollama_facts *f,
                                const vr_ollama_ask *q, const uint64_t *available, size_t n, vr_arena *a);

#endif
