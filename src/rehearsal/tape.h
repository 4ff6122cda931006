/* SPDX-License-Identifier: MIT
 * A tape: the ordered events of one memory. An engine writes it, a rehearsal plays it. Bytes everywhere; what
 * a request becomes (rounding, segments) is the allocator's business, a tape says only what was asked for. */
#ifndef VR_TAPE_H
#define VR_TAPE_H

#include "base/base.h"

/* The six categories of the ledger, in the order of every report: name in JSON, name on the screen */
#define VR_CATEGORIES(X)                              \
    X(WEIGHTS, "weights", "weights")                  \
    X(GRADIENTS, "gradients", "gradients")            \
    X(OPTIMIZER, "optimizer_states", "optimizer states") \
    X(KV_CACHE, "kv_cache", "KV cache")               \
    X(ACTIVATIONS, "activations", "activations")      \
    X(OVERHEAD, "runtime_overhead", "runtime overhead")

typedef enum vr_category {
#define X(id, json, screen) VR_##id,
    VR_CATEGORIES(X)
#undef X
    VR_CATEGORY_COUNT
} vr_category;

/* All names are static; "" for a number out of range. */
const char *vr_category_json(vr_category c);
const char *vr_category_screen(vr_category c);

/* What a category consists of: item, its category, name in JSON and on the screen */
#define VR_ITEMS(X)                                              \
    X(PARAMETERS, WEIGHTS, "parameters", "parameters")           \
    X(BUFFERS, WEIGHTS, "buffers", "buffers")                    \
    X(PROJECTOR, WEIGHTS, "projector", "projector")              \
    X(DRAFT, WEIGHTS, "draft_model", "draft model")              \
    X(ADAPTER, WEIGHTS, "adapter", "adapter")                    \
    X(GRADIENT, GRADIENTS, "gradients", "gradients")             \
    X(STATES, OPTIMIZER, "states", "states")                     \
    X(KV, KV_CACHE, "keys_and_values", "keys and values")        \
    X(DRAFT_KV, KV_CACHE, "draft_keys_and_values", "of what drafts") \
    X(LOGITS, ACTIVATIONS, "logits", "logits")                   \
    X(HIDDEN, ACTIVATIONS, "hidden_states", "hidden states")     \
    X(SCORES, ACTIVATIONS, "attention_scores", "attention scores and masks") \
    X(VISION, ACTIVATIONS, "vision_tower", "vision tower")       \
    X(INPUTS, ACTIVATIONS, "inputs", "token ids, positions, rotary tables") \
    X(COMPUTE, ACTIVATIONS, "compute_buffer", "compute buffer")   \
    X(PROJECTOR_COMPUTE, ACTIVATIONS, "projector_compute_buffer", "projector's compute buffer") \
    X(DRAFT_COMPUTE, ACTIVATIONS, "draft_compute_buffer", "compute buffer of what drafts") \
    X(CONTEXT, OVERHEAD, "context", "CUDA context")              \
    X(KERNELS, OVERHEAD, "kernels", "kernels")                   \
    X(WORKSPACES, OVERHEAD, "workspaces", "cuBLAS workspaces")   \
    X(POOL, OVERHEAD, "pool", "pool of the kernels")             \
    X(PROCESS, OVERHEAD, "process", "program, vocabulary and graphs") \
    X(WARMUP, OVERHEAD, "warmup", "loader's warm-up block")      \
    X(CONVERSION, OVERHEAD, "conversion", "conversion of packed weights while loading") \
    X(ROUNDING, OVERHEAD, "rounding", "rounding in blocks")      \
    X(IDLE, OVERHEAD, "idle", "idle in the allocator")

typedef enum vr_item {
#define X(id, category, json, screen) VR_ITEM_##id,
    VR_ITEMS(X)
#undef X
    VR_ITEM_COUNT
} vr_item;

vr_category vr_item_category(vr_item i); /* VR_OVERHEAD for a number out of range */
const char *vr_item_json(vr_item i);
const char *vr_item_screen(vr_item i);

/* Places on a tape whose figures are reported, in this order. */
#define VR_MOMENTS(X)      \
    X(CONTEXT, "context")  \
    X(LOADED, "loaded")    \
    X(PREFILL, "prefill")  \
    X(DECODE, "decode")    \
    X(RELEASED, "released")

typedef enum vr_moment_id {
#define X(id, name) VR_AT_##id,
    VR_MOMENTS(X)
#undef X
    VR_MOMENT_COUNT
} vr_moment_id;

const char *vr_moment_name(vr_moment_id m);

typedef enum vr_event_kind {
    VR_EV_ALLOC,       /* bytes requested from the allocator as `block`; 0: a block that takes no memory */
    VR_EV_RELEASE,     /* `block` given back to the allocator */
    VR_EV_OUTSIDE,     /* bytes taken outside the allocator, for good; bytes 0: the device's figure for the
                        * item, which only CONTEXT and KERNELS have */
    VR_EV_ABOUT,       /* as OUTSIDE, but bytes are uncertain, by `spare` thousandths to either side */
    VR_EV_EMPTY_CACHE, /* whole free segments go back to the driver */
    VR_EV_MARK         /* bytes holds a vr_moment_id; a moment that is marked again has its later figures */
} vr_event_kind;

typedef struct vr_event {
    uint8_t kind, item;   /* vr_event_kind, vr_item */
    uint8_t stream, pool; /* 0: the default ones; another pool is the private one of CUDA graphs */
    uint32_t block; /* dense from 0; a number is used again after its release */
    uint32_t label; /* index into labels; 0: none */
    /* Of a request that is cut to an even number of bytes where there is less: what of the driver's free
     * memory (or of the card's total) it leaves; 0: it is not cut. */
    uint32_t spare : 31, of_total : 1;
    uint64_t bytes;
} vr_event;

/* All it points to lies in the arena, but for the labels' bytes, which are the engine's. */
typedef struct vr_tape {
    vr_arena *arena;
    vr_event *events;
    size_t n, room;
    uint32_t n_blocks; /* one more than the largest block number */
    uint32_t *spare;   /* numbers to use again */
    size_t n_spare, spare_room;
    bool *held; /* by block number: allocated and not released */
    size_t held_room;
    vr_str *labels; /* [0] is empty */
    size_t n_labels, labels_room;
    size_t limit; /* most events, and most labels; beyond: VRAM_ELIMIT */
    vram_status status; /* sticky: the first failure, its text in the context; what follows it is dropped */
} vr_tape;

#define VR_TAPE_LIMIT ((size_t)1 << 24)

/* An empty tape in the arena, which must not be reset while the tape is used. */
void vr_tape_init(vr_tape *t, vr_arena *arena);
/* Room for so many events and labels at once: what grows leaves its smaller selves in the arena. */
void vr_tape_reserve(vr_tape *t, size_t events, size_t labels);
/* The label's bytes are borrowed. Returns its number; equal labels get different numbers. */
uint32_t vr_tape_label(vr_tape *t, vr_str label);
/* Returns the block's number; after a failure anything goes, and t->status tells at the end. */
uint32_t vr_tape_alloc(vr_tape *t, uint64_t bytes, vr_item item, uint32_t label);
/* The same on a stream, or in the private pool of CUDA graphs. */
uint32_t vr_tape_alloc_on(vr_tape *t, uint64_t bytes, vr_item item, uint32_t label, uint8_t stream,
                          uint8_t pool);
/* A request that is cut. */
uint32_t vr_tape_alloc_cut(vr_tape *t, uint64_t bytes, vr_item item, uint32_t label, uint32_t spare,
                           bool of_total);
/* A block that is not held is a mistake of the engine: VRAM_EINTERNAL, sticky. */
void vr_tape_release(vr_tape *t, uint32_t block);
void vr_tape_outside(vr_tape *t, vr_item item, uint64_t bytes);
void vr_tape_about(vr_tape *t, vr_item item, uint64_t bytes, uint32_t permille);
void vr_tape_empty_cache(vr_tape *t);
void vr_tape_mark(vr_tape *t, vr_moment_id m);

#endif
