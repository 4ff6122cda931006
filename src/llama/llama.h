/* SPDX-License-Identifier: MIT
 * llama.cpp: a GGUF file as it reads it, where it puts tensors, caches and states, and the graph it computes
 * them with. What engines on top of it need (llama.cpp, ollama) is here; what a workload is, is not.
 *
 * Source: llama.cpp b10470 of 2026-08-17, src/ and common/; each file names its own part. */
#ifndef VR_LLAMA_H
#define VR_LLAMA_H

#include "ggml/ggml.h"
#include "model/model.h"

/* ---- the model ---- */

#define VR_LM_MOST_DEVICES 64
#define VR_LM_HOST UINT8_MAX /* in the place of a device's number */

typedef struct vr_lm_weight {
    vr_str name; /* behind "blk.N.": "attn_q.weight"; whole for the others */
    const vr_tensor *tensor;
    uint64_t ne[VR_GG_DIMS];
    uint8_t type; /* vr_dtype */
} vr_lm_weight;

typedef struct vr_lm_layer {
    const vr_lm_weight *weights;
    size_t n_weights;
    /* hparams that differ from layer to layer */
    uint32_t n_head, n_head_kv, n_ff;
    uint32_t head_k, head_v; /* n_embd_head_k, n_embd_head_v */
    uint32_t n_rot;
    bool swa;       /* slides */
    bool recurrent; /* keeps a state and no keys */
} vr_lm_layer;

struct vr_lm_arch;

/* Immutable. Numbers of keys that the file lacks have llama.cpp's defaults. */
typedef struct vr_lm {
    const vram_model *model;
    const vr_metadata *keys;
    vr_str name;                   /* general.architecture */
    uint32_t traits;               /* its own (traits.h) */
    const struct vr_lm_arch *arch; /* NULL: its graph is not known here */
    const char *why_no_graph;      /* then: a sentence */
    bool guessed;                  /* the graph is made of the names of the tensors */
    uint32_t n_layer_all, n_layer, n_layer_nextn;
    uint32_t loops; /* the file's layers are run so often, each time with a cache of their own */
    uint32_t n_embd, n_vocab, n_ctx_train;
    uint32_t n_expert, n_expert_used;
    uint32_t n_swa; /* 0: no layer slides */
    uint32_t n_lora_q, n_lora_kv, n_head_k_mla, n_head_v_mla;
    uint32_t ssm_conv, ssm_inner, ssm_state, ssm_rank, ssm_groups;
    bool split_experts;    /* a tensor for each expert, as files of before April 2024 have them */
    bool causal, tied;     /* tied: there is no output.weight */
    const char *disagrees; /* keys and tensors: a sentence; llama.cpp does not load such a file; or NULL */
    const vr_lm_layer *layers;   /* n_layer_all */
    const vr_lm_weight *outside; /* those of no layer */
    size_t n_outside;
} vr_lm;

bool vr_lm_is_known(const vr_lm *lm); /* its architecture */
/* Why a build may not load a model whose architecture is not known here, in words; NULL: it is known. runs:
 * what runs the model, as the sentence names it. */
vram_status vr_lm_doubt(const char **out, const vr_lm *lm, uint32_t build, const char *runs, vr_arena *a);

/* NULL in *out with a sentence in *why: no model, or its numbers make no sense. Lives in `a`. */
vram_status vr_lm_of(const vr_lm **out, const char **why, const vram_model *m, vr_arena *a);
/* "attention.scale" behind the architecture's name; at layer `il` where the value is a list. */
bool vr_lm_u64(const vr_lm *lm, const char *key, uint32_t il, uint64_t *out);
bool vr_lm_float(const vr_lm *lm, const char *key, double *out);
bool vr_lm_float_at(const vr_lm *lm, const char *key, uint32_t il,
                    double *out); /* of a list, or of all layers */
bool vr_lm_word(const vr_lm *lm, const char *key, vr_str *out);
uint64_t vr_lm_number(const vr_lm *lm, const char *key, uint64_t otherwise);
/* NULL: there is none. */
const vr_lm_weight *vr_lm_find(const vr_lm *lm, uint32_t il, const char *name); /* "attn_q.weight" */
const vr_lm_weight *vr_lm_find_outside(const vr_lm *lm, const char *name);      /* "output.weight" */

/* ---- what one types ---- */

typedef enum vr_lm_split {
    VR_LM_SPLIT_LAYER,
    VR_LM_SPLIT_ROW,
    VR_LM_SPLIT_NONE,
    VR_LM_SPLIT_TENSOR
} vr_lm_split;
typedef enum vr_lm_tool { VR_LM_SERVER, VR_LM_CLI, VR_LM_BENCH, VR_LM_FIT_PARAMS } vr_lm_tool;

/* --pooling: what becomes of a sequence's vectors. Behind the first as llama.cpp numbers them. */
typedef enum vr_lm_pooling {
    VR_LM_POOL_FILE, /* as the file says */
    VR_LM_POOL_NONE,
    VR_LM_POOL_MEAN,
    VR_LM_POOL_CLS,
    VR_LM_POOL_LAST,
    VR_LM_POOL_RANK
} vr_lm_pooling;

/* One of -ot: tensors whose name matches go to a device or the host. */
typedef struct vr_lm_override {
    const char *pattern; /* regular expression, found anywhere in the name */
    uint8_t device;      /* or VR_LM_HOST */
} vr_lm_override;

typedef struct vr_lm_params {
    uint32_t build; /* 10470 */
    uint8_t tool;   /* vr_lm_tool */
    uint64_t n_ctx; /* of all sequences together; 0: the trained one */
    uint64_t n_batch, n_ubatch, n_seq_max;
    uint8_t type_k, type_v; /* vr_dtype */
    bool flash_attn, kv_unified, swa_full, offload_kqv, op_offload;
    bool flash_auto; /* flash_attn is tried, and left where it would not run on the layers' own devices */
    uint64_t n_outputs_max; /* rows of logits at once; 0: n_batch */
    uint64_t n_gpu_layers;  /* UINT64_MAX: all */
    uint8_t split_mode;     /* vr_lm_split */
    uint8_t main_gpu;
    double tensor_split[VR_LM_MOST_DEVICES]; /* all 0: by the devices' free bytes */
    const vr_lm_override *overrides;
    size_t n_overrides;
    uint64_t n_cpu_moe; /* layers whose experts stay on the host; UINT64_MAX: of all (--cpu-moe) */
    /* Compute buffers as llama-fit-params prints them: that run forgets what was pinned to a device, which a
     * real one does not, and sizes the prompt's graph only. */
    bool as_fit;
    bool no_repack;                              /* without GPUs no weight is laid out anew for the CPU */
    bool embeddings;                             /* an embedding is returned, no logits */
    uint8_t pooling;                             /* vr_lm_pooling, of embeddings */
    const struct vr_lm_adapter *const *adapters; /* --lora (lora.h), all of them applied */
    size_t n_adapters;
    bool load_mtp;     /* layers that predict further tokens are loaded: they draft (--spec-type draft-mtp) */
    bool chooses;      /* drafts are chosen on the device: the likeliest tokens of each sequence */
    bool predicts;     /* the context is the second one, of such layers: it has the first one's weights */
    uint64_t n_rs_seq; /* tokens that states can be taken back by: each state is kept so often more */
    bool control_vector;               /* --control-vector, of all layers */
    const struct vr_lm_beside *beside; /* what else is loaded (beside.h); NULL: nothing */
} vr_lm_params;

typedef struct vr_lm_device {
    uint64_t free_bytes;  /* bytes, for the shares of a split */
    unsigned cc;          /* compute capability x 10; 0: unknown, 89 is taken */
    uint64_t total_bytes; /* for the shares of rows; 0: unknown */
} vr_lm_device;

/* ---- what it takes ---- */

/* Layers whose caches lie in one memory: how many, and bytes of all of them. */
typedef struct vr_lm_kept_sum {
    uint64_t layers, bytes;
} vr_lm_kept_sum;

/* Bytes in one memory, as llama.cpp's memory breakdown has them, and what they consist of. */
typedef struct vr_lm_memory {
    uint64_t model, context, compute;
    uint64_t tensors, elements; /* of the weights */
    vr_lm_kept_sum full, sliding, states;
    uint64_t token;   /* bytes of a cell in all of its layers */
    uint64_t pool;    /* what kernels put aside at most, about */
    uint64_t adapter; /* of adapters and control vectors */
} vr_lm_memory;

typedef struct vr_lm_sizes {
    vr_lm_memory device[VR_LM_MOST_DEVICES];      /* CUDA0, ... */
    vr_lm_memory pinned, host;                    /* CUDA_Host; CPU */
    uint64_t output;                              /* of pinned or host memory: logits */
    uint64_t n_ctx, n_ctx_seq, n_batch, n_ubatch; /* as they end up */
    uint64_t n_seq_max, n_tokens;                 /* n_tokens: computed at once */
    uint64_t n_stream, cells, swa_cells;          /* of the caches */
    uint8_t *layer_device;    /* by layer, with the output behind them; or VR_LM_HOST; NULL: not known */
    uint64_t experts_off;     /* layers of a device whose experts stay on the host */
    bool compute_near;        /* the graph is of a later build than was asked for: near, not exact */
    bool hosted;              /* no GPU: device[0] stands for the memory of the computer */
    bool compute_guessed;     /* the architecture is not known: a graph by the names of tensors, near */
    bool held;                /* graphs of this architecture were held against llama.cpp's own */
    bool verified;            /* such runs of this architecture were held against llama.cpp's own figures */
    bool compute_known;       /* false: the graph is not known; compute is 0 then */
    const char *why;          /* it is not, or what llama.cpp refuses: a sentence */
    bool refused;             /* it does not start with these settings */
    bool unknown;             /* where things go is not known: no figure is there */
    bool context_held;        /* and what layers keep, or the file's tensors and keys agree in a graph */
    bool context_known;       /* false: what it keeps of tokens is not; context is 0 then */
    bool pipelined;           /* copies of inputs for several GPUs at once */
    size_t n_nodes, n_splits; /* of the larger graph */
    const struct vr_clip_sizes *projector; /* beside it (beside.h); or NULL */
    const struct vr_lm_sizes *draft;
    bool shares_weights;        /* it has those of the model that it drafts for */
    bool draft_unread;          /* what drafts has weights of its own that are not in the figures */
    const char *drafts_unknown; /* why it is not known what drafts take; or NULL */
} vr_lm_sizes;

/* n devices, 0 or more. Scratch and words live in `a`. */
vram_status vr_lm_measure(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p,
                          const vr_lm_device *devices, size_t n, vr_arena *a);

#endif
