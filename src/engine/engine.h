/* SPDX-License-Identifier: MIT
 * An engine turns model + workload into a tape. One engine per file; each owns its option rows. */
#ifndef VR_ENGINE_H
#define VR_ENGINE_H

#include "base/base.h"
#include "model/model.h"
#include "rehearsal/allocator.h"
#include "rehearsal/tape.h"

typedef enum vr_set_by { VR_BY_DEFAULT, VR_BY_MODEL, VR_BY_USER } vr_set_by;
const char *vr_set_by_name(vr_set_by s); /* "default", "model", "user" */

typedef enum vr_attention_impl { VR_IMPL_SDPA, VR_IMPL_EAGER, VR_IMPL_FLASH } vr_attention_impl;
typedef enum vr_logits { VR_LOGITS_LAST, VR_LOGITS_ALL } vr_logits;
typedef enum vr_device_map {
    VR_MAP_NONE,
    VR_MAP_AUTO, /* the same as balanced */
    VR_MAP_BALANCED,
    VR_MAP_BALANCED_LOW_0,
    VR_MAP_SEQUENTIAL,
    VR_MAP_CUDA /* all onto the first card, whatever is free */
} vr_device_map;
typedef enum vr_weight_quant {
    VR_QUANT_NONE,
    VR_QUANT_BNB_8BIT,
    VR_QUANT_BNB_4BIT,
    VR_QUANT_BNB_4BIT_DQ,
    VR_QUANT_DEQUANTIZE /* what is stored packed is unpacked */
} vr_weight_quant;
typedef enum vr_cache_kind {
    VR_CACHE_DYNAMIC,
    VR_CACHE_STATIC,
    VR_CACHE_OFFLOADED, /* in host memory, but for the layers that run */
    VR_CACHE_OFFLOADED_STATIC,
    VR_CACHE_QUANTIZED
} vr_cache_kind;
typedef enum vr_cache_backend { VR_BACKEND_QUANTO, VR_BACKEND_FP8 } vr_cache_backend;
typedef enum vr_kv_dtype { VR_KV_AS_MODEL, VR_KV_BF16, VR_KV_F16, VR_KV_FP8, VR_KV_FP8_E5M2 } vr_kv_dtype;
/* vLLM: what stays of a sequence's recurrent states; AUTO is what the version takes for the model */
typedef enum vr_mamba_mode { VR_MAMBA_AUTO, VR_MAMBA_NONE, VR_MAMBA_ALIGN } vr_mamba_mode;

/* llama.cpp; auto: wherever the card can */
typedef enum vr_flash { VR_FLASH_AUTO, VR_FLASH_ON, VR_FLASH_OFF } vr_flash;

/* How experts of one tensor are run, and how tokens are spread over them. */
typedef enum vr_experts_impl { VR_EXPERTS_GROUPED, VR_EXPERTS_EAGER, VR_EXPERTS_BATCHED } vr_experts_impl;
typedef enum vr_expert_load { VR_LOAD_EVEN, VR_LOAD_SAME } vr_expert_load;

/* Every setting: enumerator, key in JSON and on the command line's rows */
#define VR_SETTINGS(X)                                                                                       \
    X(ENGINE_VERSION, "engine_version")                                                                      \
    X(CONTEXT, "context")                                                                                    \
    X(SEQUENCES, "sequences")                                                                                \
    X(PREFILL_BATCH, "prefill_batch")                                                                        \
    X(DECODE, "decode")                                                                                      \
    X(IMAGES, "images")                                                                                      \
    X(IMAGE_SIZE, "image_size")                                                                              \
    X(BEAMS, "beams")                                                                                        \
    X(DRAFTS, "prompt_lookup_num_tokens")                                                                    \
    X(ASSISTANT, "assistant_model")                                                                          \
    X(ASSISTANT_TOKENS, "num_assistant_tokens")                                                              \
    X(DTYPE, "dtype")                                                                                        \
    X(CACHE, "cache")                                                                                        \
    X(CACHE_BACKEND, "cache_backend")                                                                        \
    X(CACHE_BITS, "cache_bits")                                                                              \
    X(CACHE_GROUP, "cache_group_size")                                                                       \
    X(CACHE_RESIDUAL, "cache_residual_length")                                                               \
    X(KV_DTYPE, "kv_cache_dtype")                                                                            \
    X(ATTENTION, "attention")                                                                                \
    X(LOGITS, "logits")                                                                                      \
    X(DEVICE_MAP, "device_map")                                                                              \
    X(HOST_MEMORY, "host_memory")                                                                            \
    X(WEIGHT_QUANT, "quantization")                                                                          \
    X(ALLOC_CONF, "alloc_conf")                                                                              \
    X(EXPERTS, "experts_implementation")                                                                     \
    X(EXPERT_LOAD, "expert_load")                                                                            \
    X(UTILIZATION, "gpu_memory_utilization")                                                                 \
    X(BATCHED_TOKENS, "max_num_batched_tokens")                                                              \
    X(BLOCK_SIZE, "block_size")                                                                              \
    X(NO_HYBRID, "disable_hybrid_kv_cache_manager")                                                          \
    X(MAMBA_MODE, "mamba_cache_mode")                                                                        \
    X(STATIC_SHARE, "mem_fraction_static")                                                                   \
    X(SWA_RATIO, "swa_full_tokens_ratio")                                                                    \
    X(NO_RADIX, "disable_radix_cache")                                                                       \
    X(GPU_LAYERS, "n_gpu_layers")                                                                            \
    X(CACHE_TYPE_K, "cache_type_k")                                                                          \
    X(CACHE_TYPE_V, "cache_type_v")                                                                          \
    X(UBATCH, "ubatch_size")                                                                                 \
    X(SWA_FULL, "swa_full")                                                                                  \
    X(KV_UNIFIED, "kv_unified")                                                                              \
    X(NO_KV_OFFLOAD, "no_kv_offload")                                                                        \
    X(TOOL, "tool")                                                                                          \
    X(KV_CACHE_TYPE, "kv_cache_type")                                                                        \
    X(GPU_OVERHEAD, "gpu_overhead")                                                                          \
    X(SCHED_SPREAD, "sched_spread")                                                                          \
    X(N_CTX, "n_ctx")                                                                                        \
    X(BATCH, "batch_size")                                                                                   \
    X(FLASH, "flash_attn")                                                                                   \
    X(SPLIT_MODE, "split_mode")                                                                              \
    X(TENSOR_SPLIT, "tensor_split")                                                                          \
    X(MAIN_GPU, "main_gpu")                                                                                  \
    X(OVERRIDE, "override_tensor")                                                                           \
    X(CPU_MOE, "cpu_moe")                                                                                    \
    X(N_CPU_MOE, "n_cpu_moe")                                                                                \
    X(FIT, "fit")                                                                                            \
    X(NO_OP_OFFLOAD, "no_op_offload")                                                                        \
    X(EMBEDDING, "embedding")                                                                                \
    X(POOLING, "pooling")                                                                                    \
    X(MMPROJ, "mmproj")                                                                                      \
    X(NO_MMPROJ, "no_mmproj")                                                                                \
    X(NO_MMPROJ_OFFLOAD, "no_mmproj_offload")                                                                \
    X(IMAGE_TOKENS, "image_max_tokens")                                                                      \
    X(LORA, "lora")                                                                                          \
    X(CONTROL_VECTOR, "control_vector")                                                                      \
    X(MODEL_DRAFT, "model_draft")                                                                            \
    X(DRAFT_LAYERS, "n_gpu_layers_draft")                                                                    \
    X(DRAFT_TYPE_K, "cache_type_k_draft")                                                                    \
    X(DRAFT_TYPE_V, "cache_type_v_draft")                                                                    \
    X(SPEC_TYPE, "spec_type")                                                                                \
    X(DRAFT_MAX, "spec_draft_n_max")

typedef enum vr_setting {
#define X(id, key) VR_SET_##id,
    VR_SETTINGS(X)
#undef X
        VR_SETTING_COUNT
} vr_setting;

const char *vr_setting_key(vr_setting s);
vr_setting vr_setting_of(const char *key); /* VR_SETTING_COUNT: there is none */

/* A file beside the model, by the setting that names it. */
#define VR_MOST_ATTACHED 16
typedef struct vr_attached {
    vr_setting setting;
    const vram_model *file;
} vr_attached;

/* --spec-type: where drafts come from; those of no model take no memory that counts. */
typedef enum vr_spec_type { VR_SPEC_NONE, VR_SPEC_SIMPLE, VR_SPEC_MTP, VR_SPEC_OTHER } vr_spec_type;

struct vram_workload {
    vr_object object;
    vram_ctx *ctx;
    vr_arena arena;
    const struct vr_engine *engine;
    bool engine_given;                     /* by the user, not the first of the list */
    unsigned version_major, version_minor; /* of the engine */
    unsigned torch_major, torch_minor;     /* below it, for engines that stand on PyTorch */
    bool torch_given;                      /* by the user, with the engine's version */
    uint64_t context;       /* tokens of one sequence in the prefill; after vr_workload_resolve never 0 */
    uint64_t sequences;     /* resident in the cache at once */
    uint64_t prefill_batch; /* computed at once; 0 before resolve: all sequences */
    uint64_t decode;        /* tokens generated after the prefill; 0: none */
    uint64_t images;        /* in the prompt of each sequence: their tokens are some of the context's */
    uint64_t image_width, image_height; /* pixels before a processor has them; 0 before resolve */
    vr_picture picture;                 /* what one becomes; after resolve, where there are images */
    bool sees;                          /* after resolve: the model could be given some */
    vr_dtype dtype;                     /* VR_DTYPE_NONE before resolve: "auto" or the engine's default */
    bool dtype_auto;                    /* the user said "auto" */
    uint8_t kv_dtype, attention, logits, device_map, weight_quant;
    uint64_t beams;                    /* of each sequence, of transformers; 0: not said, one */
    uint64_t lookup, assistant_tokens; /* as given, of drafts from the prompt and from another model */
    uint64_t
        drafts; /* after resolve: tokens that each call of the model tries beside the next one; 0: none */
    const char *assistant_name;                       /* as given, or NULL */
    const vram_model *assistant;                      /* what drafts; or NULL */
    uint8_t cache;                                    /* vr_cache_kind, of transformers */
    uint8_t cache_backend;                            /* vr_cache_backend, of a quantised one */
    uint64_t cache_bits, cache_group, cache_residual; /* 0 before resolve: not said */
    uint8_t experts, expert_load;                     /* vr_experts_impl, vr_expert_load */
    vr_alloc_conf alloc;
    const char *alloc_text; /* as given, or NULL */
    uint64_t host_memory;   /* bytes that programs may take of the computer's own; 0: as much as it takes */
    const char *host_text;  /* as given, or NULL */
    /* vllm and sglang; 0: the default of the version and the card */
    uint32_t utilization_permille, static_permille; /* of the card, for what the engine keeps */
    uint64_t batched_tokens;                        /* computed at once */
    uint64_t block_size;
    bool no_hybrid;     /* sliding layers keep everything */
    uint8_t mamba_mode; /* vr_mamba_mode */
    uint32_t swa_ratio_permille;
    bool no_radix;
    /* llama.cpp */
    uint64_t gpu_layers;      /* UINT64_MAX: all */
    uint8_t cache_k, cache_v; /* vr_dtype */
    uint64_t ubatch;
    bool swa_full, kv_unified, no_kv_offload;
    uint8_t tool, flash, split_mode, pooling; /* vr_lm_tool, vr_flash, vr_lm_split, vr_lm_pooling */
    uint8_t fit; /* 1: what is not given is left to --fit, where that was typed */
    uint64_t n_ctx, batch, main_gpu, n_cpu_moe; /* n_ctx 0: context x sequences */
    bool cpu_moe, no_op_offload, embedding;
    /* ollama */
    uint64_t gpu_overhead;
    const char *overhead_text; /* as given, or NULL */
    bool sched_spread;
    bool compared; /* beside other engines: none takes another context by the cards */
    bool slots;    /* after resolve: the server opens `sequences` on its own, which share one context */
    const char *shares_text, *override_text; /* as given, or NULL */
    /* and what it loads beside the model */
    const char *mmproj_name, *lora_names, *control_names, *draft_name; /* as given, or NULL */
    bool no_mmproj, no_mmproj_offload;
    uint64_t image_tokens, draft_layers, draft_max; /* 0: llama.cpp's own; draft_layers UINT64_MAX: all */
    uint8_t draft_k, draft_v, spec_type;            /* vr_dtype; vr_spec_type */
    vr_attached attached[VR_MOST_ATTACHED];         /* vram_workload_attach */
    size_t n_attached;
    uint8_t solve; /* a vr_goal that is sought instead of given, plus 1; 0: none */
    uint8_t set_by[VR_SETTING_COUNT];
    /* The engine's own, made by resolve and shared by all copies: a fit plans a model thirty times. NULL: the
     * plan makes it for itself. */
    const void *prepared;
};

/* A copy of a workload with everything the user left open filled from the model and the engine's defaults of
 * its version. The copy lives in `a` and is not registered with the context. */
vram_status vr_workload_resolve(vram_workload **out, const vram_workload *w, const vram_model *m,
                                vr_arena *a);
/* VRAM_ESETTING for what the user set and the engine lacks. */
vram_status vr_workload_check(const vram_workload *w);
/* A copy to change (levers). */
vram_workload *vr_workload_copy(const vram_workload *w, vr_arena *a);
/* The value of a setting in words, for reports: "4096", "bf16", "sdpa". */
const char *vr_workload_value(const vram_workload *w, vr_setting s, vr_arena *a);
/* A setting as it is typed, by its shortest name: "-ctk q8_0"; "" of one that the engine lacks. */
const char *vr_workload_typed(const vram_workload *w, vr_setting s, vr_arena *a);
/* Whether a setting of w, which is resolved, is as the user gave it. */
bool vr_workload_same(const vram_workload *w, const vram_workload *asked, vr_setting s, vr_arena *a);
/* What has to be typed beside what was asked for to have w, which is resolved: "-ngl 27 -ctk q8_0". */
const char *vr_workload_typed_beside(const vram_workload *w, const vram_workload *asked, vr_arena *a);

/* In the place of a GPU's number. */
#define VR_ON_HOST (UINT16_MAX - 1)
#define VR_ON_DISK UINT16_MAX
#define VR_MOST_GPUS 64 /* of one run */

/* Where the pieces of a model lie in a run with several memories: made once for a run, since what is planned
 * for each memory must agree. */
/* What an engine takes of host memory beside the cards. */
typedef struct vr_host_share {
    bool told; /* false: nothing is said of it */
    bool kv_counted, activations_counted;
    bool verified;
    uint8_t kv_basis, compute_basis;       /* vr_basis */
    uint64_t weights, kv, compute, output; /* output: of logits */
    uint64_t pinned;                       /* of all of it what cannot be paged out */
    const char *words;                     /* for what, in words */
} vr_host_share;
uint64_t vr_host_bytes(const vr_host_share *h);

typedef struct vr_placement {
    size_t n_gpus;
    bool spread;            /* over more than one memory: what is computed moves between them */
    const uint16_t *params; /* by the engine's own list of parameters: the GPU, or VR_ON_HOST, VR_ON_DISK */
    const uint16_t *layers; /* by layer */
    uint16_t embedding, rotary, norm, head;
    uint64_t host_bytes, disk_bytes; /* weights that stay there */
    vr_host_share host;
    const void *run;      /* the engine's own, of all memories; or NULL */
    uint64_t layers_off;  /* layers whose weights stay there and come to the first GPU each time */
    uint64_t experts_off; /* layers on a GPU whose experts stay there */
    const char *refused;  /* the engine stops before it loads anything, with this error; or NULL */
    const char
        *unknown; /* why it is not known how the model is spread; all the above is void then; or NULL */
} vr_placement;

/* What an engine must know of a device. */
typedef struct vr_device_facts {
    unsigned cc_major, cc_minor; /* compute capability; 0, 0: unknown, then the default workspace is taken */
    uint64_t usable;             /* for what an engine takes a share of; UINT64_MAX: any card's */
    /* For where the pieces of a model go: free before this process has its context, and that; 0: unknown. */
    uint64_t available, context;
    bool host;                     /* no GPU: what is planned is the computer's own memory */
    size_t rank;                   /* of the GPU among those of the run */
    const vr_placement *placement; /* NULL: all is on this one */
} vr_device_facts;

/* What llama.cpp asks the driver of one GPU for, a buffer each. */
typedef struct vr_buffers {
    uint64_t weights, compute;
    uint64_t kept[4]; /* caches and states of all layers; then of those that attend to all, that slide, of
                         states */
    uint64_t token;   /* kept of one more token, as long as no window is full */
} vr_buffers;
/* Of a placement that an engine on llama.cpp made; false: it knows nothing of the kind. */
bool vr_placement_buffers(vr_buffers *out, const vr_placement *p, size_t rank);

typedef struct vr_plan {
    vr_tape tape;
    /* The tape holds sums that are there at once, outside any allocator: nothing can be told of how a run
     * goes, only what it needs at least. */
    bool sums_only;
    bool counted[VR_CATEGORY_COUNT];        /* false: this category could not be computed */
    const char *why_not[VR_CATEGORY_COUNT]; /* a sentence then */
    /* Checkpoint and class contradict each other (the sentence is also in why_not): the tape holds what is
     * stored, which the engine may not load at all. No verdict can follow from it. Otherwise NULL. */
    const char *refused;
    /* Why this engine may not load the model at all, though figures can be told of it: no verdict that it
     * fits follows from them. Otherwise NULL. */
    const char *doubt;
    bool as_stored; /* the tensors as they are stored: in which pieces and order they reach the card is not
                       known */
    uint8_t basis[VR_CATEGORY_COUNT];       /* vr_basis of what the tape holds */
    const char *formula[VR_CATEGORY_COUNT]; /* in words, with the numbers put in */
    const char *stops;                      /* the engine's error before it loads anything; or NULL */
    const char *notice;                     /* what people should know of this load; or NULL */
    const char *says;                       /* what the engine itself will show of it; or NULL */
    bool verified;                          /* this tape has been held against a real engine */
    bool outside_only;                      /* no allocator: what is taken is the driver's figure */
    /* Of weights that are not counted what is there in any case: 0 when nothing is known. */
    uint64_t weights_at_least;
    uint64_t weight_bytes; /* sum of parameters that are loaded, in the load dtype */
    uint64_t n_parameters; /* elements loaded */
    /* What the engine takes whatever is asked for, of which the cache gets what the rest leaves: in words, or
     * NULL; bytes, the most that is left, and the tokens that would fit in that (0: not known). */
    const char *pool;
    uint64_t claim, pool_most, pool_tokens;
    uint64_t
        kv_token; /* kept of one more token of a sequence while no window is full; 0: nothing, or not known */
    uint64_t kv_full; /* kept of all sequences at the end, states with it; 0: not known */
    /* Band of the activations of a tape that is not verified: low = 1000 - x, high = 1000 + x. */
    uint64_t uncertain_permille;
    uint64_t above_permille; /* and what may come on top of the high end alone */
} vr_plan;

/* Figures' basis: enumerator, name in JSON */
#define VR_BASES(X)                                                                                          \
    X(EXACT, "exact")                                                                                        \
    X(SIMULATED, "simulated")                                                                                \
    X(FORMULA, "formula")                                                                                    \
    X(TABLE, "table")                                                                                        \
    X(MEASURED, "measured")                                                                                  \
    X(ASSUMED, "assumed")                                                                                    \
    X(NOT_COUNTED, "not_counted")

typedef enum vr_basis {
#define X(id, name) VR_BASIS_##id,
    VR_BASES(X)
#undef X
        VR_BASIS_COUNT
} vr_basis;
const char *vr_basis_name(vr_basis b);

/* What can be sought of a run instead of given: id, word on the command line. */
#define VR_GOALS(X)                                                                                          \
    X(LAYERS, "ngl")                                                                                         \
    X(CONTEXT, "context")                                                                                    \
    X(SEQUENCES, "sequences")                                                                                \
    X(EXPERTS, "experts")                                                                                    \
    X(CACHE, "cache")                                                                                        \
    X(UBATCH, "ubatch")                                                                                      \
    X(SPLIT, "split")

typedef enum vr_goal {
#define X(id, word) VR_GOAL_##id,
    VR_GOALS(X)
#undef X
        VR_GOAL_COUNT
} vr_goal;
const char *vr_goal_word(vr_goal g);

/* How an engine is asked for the settings that are sought (ledger/solver.c). Workloads to be read are
 * resolved, those to be changed are as the user gave them. */
typedef struct vr_solvable {
    /* The engine itself leaves on the CPU what does not fit: a value is sought with which nothing is. */
    bool whole;
    /* How many values there are; a later one puts more on the cards. 0: it cannot be sought of this run. */
    uint64_t (*count)(vr_goal g, const vram_model *m, const vram_workload *w);
    /* Which of them w has; UINT64_MAX: none of them. */
    uint64_t (*own)(vr_goal g, const vram_model *m, const vram_workload *w);
    /* To the x-th of them. */
    vram_status (*set)(vram_workload *to, vr_goal g, uint64_t x, const vram_model *m, const vram_workload *w,
                       vr_arena *a);
    /* The number that people know it by, of the x-th value: tokens, layers. */
    uint64_t (*number)(vr_goal g, uint64_t x, const vram_model *m, const vram_workload *w);
    /* The units that a cut over several cards puts on one or the other, in their order, and about what each
     * takes there. */
    vram_status (*units)(uint64_t **bytes, size_t *n, const vram_model *m, const vram_workload *w,
                         vr_arena *a);
    vram_status (*cut)(vram_workload *to, const uint64_t *shares, size_t n, vr_arena *a);
    /* Of a workload that has it: "27 of 81 layers on the card"; what that costs. */
    const char *(*words)(vr_goal g, const vram_model *m, const vram_workload *w, size_t n_gpus, vr_arena *a);
    const char *(*cost)(vr_goal g, const vram_workload *w);
    /* What one types to run it: "llama-server -m model.gguf -ngl 27 -c 8192". */
    const char *(*command)(const vram_model *m, const vram_workload *w, vr_arena *a);
} vr_solvable;

typedef struct vr_engine {
    const char *name;
    const char *summary;
    const char *default_version;
    /* "5.17" or "5.17+torch2.10" to the fields of w; VRAM_ESETTING otherwise. */
    vram_status (*version)(vram_workload *w, vr_str text);
    /* w is resolved. The plan and its tape live in `a`. */
    vram_status (*plan)(vr_plan *out, const vram_model *m, const vram_workload *w,
                        const vr_device_facts *device, vr_arena *a);
    /* Fills what the user left open and the engine decides by version (called by vr_workload_resolve). */
    vram_status (*defaults)(vram_workload *w, const vram_model *m);
    /* Fills w->prepared; what it points to lives in `a`. */
    vram_status (*prepare)(vram_workload *w, const vram_model *m, vr_arena *a);
    /* Spreads the model over n GPUs (1 or more), the host and the disk by the workload's device map. NULL:
     * the engine does not. What *out points to lives in `a`. */
    vram_status (*place)(vr_placement *out, const vram_model *m, const vram_workload *w,
                         const vr_device_facts *gpus, size_t n, vr_arena *a);
    /* What the engine takes by the cards where the user left it open: settings of `to`, which is w as it was
     * given, and a sentence about it or NULL. w is resolved. NULL: nothing. */
    vram_status (*by_cards)(vram_workload *to, const char **says, const vram_workload *w, const vram_model *m,
                            const vr_device_facts *gpus, size_t n, vr_arena *a);
    /* Whether `place` knows where the pieces of this model go; NULL: as long as there is one. */
    bool (*places)(const vram_model *m, const vram_workload *w);
    /* As `version` takes it; NULL: "major.minor". */
    const char *(*version_text)(const vram_workload *w, vr_arena *a);
    /* Of a card's memory, in thousandths, what the engine takes at most; NULL: all. usable UINT64_MAX: any
     * card. */
    uint32_t (*share)(const vram_workload *w, uint64_t usable);
    bool plans_by_size;  /* another card's plan is another plan */
    bool runs_on_host;   /* also without any GPU */
    bool always_spreads; /* `place` says where things go without any device map */
    /* The engine's error when the driver has no room for the item, of so many bytes; NULL: CUDA's own. */
    const char *(*no_room)(vr_item item, uint64_t bytes, size_t rank, vr_arena *a);
    unsigned kv_dtypes;                         /* bits of vr_kv_dtype */
    const char *kv_words;                       /* "must be one of ...", for the others */
    const vr_solvable *solvable;                /* NULL: nothing of it can be sought */
    const struct vr_option_row *const *options; /* beside those that all engines have */
    size_t n_options;
} vr_engine;

#define VR_ALL_ENGINES "all" /* is none, but asks for a comparison */
#define VR_ENGINE_NAMES "transformers|vllm|sglang|llama.cpp|ollama"
/* In files of their own. */
extern const vr_solvable vr_solvable_llamacpp, vr_solvable_ollama;
const char *vr_llamacpp_command(const vram_model *m, const vram_workload *w, vr_arena *a);
extern const vr_engine vr_engine_transformers, vr_engine_vllm, vr_engine_sglang, vr_engine_llamacpp,
    vr_engine_ollama;
const vr_engine *vr_engine_find(vr_str name);
const vr_engine *const *vr_engines(size_t *n); /* the first is the default */
bool vr_engine_has(const vr_engine *e, vr_setting s);
/* The row of the command line; NULL: the engine lacks it. */
const vram_option *vr_setting_option(const vr_engine *e, vr_setting s);

#endif
