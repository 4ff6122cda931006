/* SPDX-License-Identifier: MIT
 *
 * Figures that texts of programs hold: a row for each that a template of data/ may name.
 */
#ifndef VR_FACTS_H
#define VR_FACTS_H

#include "base/base.h"

typedef enum vr_unit {
    VR_UNIT_BYTES,  /* JSON key ends in _bytes */
    VR_UNIT_TOKENS, /* _tokens */
    VR_UNIT_COUNT,  /* no suffix */
    VR_UNIT_MICRO   /* a ratio or other decimal number, in millionths; JSON writes the number */
} vr_unit;

/* id, name in templates and JSON (without the unit's suffix), unit, what it means (a sentence's end: "X is
 * ..."). A row of the tables may say it better for its own text (column `meaning`). */
#define VR_FACTS(X)                                                                                          \
    /* an allocator's message */                                                                             \
    X(REQUEST, "request", BYTES, "asked for by the request that failed: the last piece, not the shortage")   \
    X(TOTAL, "total", BYTES, "the card's memory as programs see it")                                         \
    X(FREE, "free", BYTES, "free on the whole card at that time, all programs counted")                      \
    X(ALLOCATED, "allocated", BYTES, "in live tensors of this process")                                      \
    X(RESERVED, "reserved", BYTES, "taken from the card by PyTorch's allocator")                             \
    X(IDLE, "idle", BYTES, "held by PyTorch's allocator and not in use")                                     \
    X(INACTIVE, "inactive", BYTES, "held by PyTorch's allocator in split blocks")                            \
    X(PRIVATE_POOLS, "private_pools", BYTES, "in pools of captured graphs, of no use to other code")         \
    X(ALLOWED, "allowed", BYTES, "the limit that the program set itself")                                    \
    X(THIS_PROCESS, "this_process", BYTES, "held by this process, context included")                         \
    X(PROCESS, "process", BYTES, "held by one listed process")                                               \
    X(PROCESS_ID, "process_id", COUNT, "its number")                                                         \
    X(GPU, "gpu", COUNT, "the card's index among those this process sees")                                   \
    X(CARD_USED, "card_used", BYTES, "in use on the whole card, all programs counted")                       \
    X(OTHER_ALLOCATIONS, "other_allocations", BYTES, "held on the device outside PyTorch's pools")           \
    X(MAX_ALLOWED, "max_allowed", BYTES, "the most that this process may hold")                              \
    X(POOL_USED, "pool_used", BYTES, "in use in the allocator's pool")                                       \
    X(POOL_LIMIT, "pool_limit", BYTES, "the pool's limit")                                                   \
    X(TENSOR, "tensor", BYTES, "size of the tensor by its shape")                                            \
    X(MAX_BUFFER, "max_buffer", BYTES, "the largest single buffer that the device can make")                 \
    /* engines */                                                                                            \
    X(WEIGHTS, "weights", BYTES, "taken by the weights")                                                     \
    X(ACTIVATION_PEAK, "activation_peak", BYTES, "the engine's trial run at its peak")                       \
    X(NON_TORCH, "non_torch", BYTES, "on the card outside PyTorch")                                          \
    X(GRAPHS, "graphs", BYTES, "taken by CUDA graphs")                                                       \
    X(BUDGET, "budget", BYTES, "what the engine allows itself")                                              \
    X(WANTED_FREE, "wanted_free", BYTES, "what the engine wants to find free")                               \
    X(PROGRAM, "program", BYTES, "what a compiled program makes on the way")                                 \
    X(ARGUMENTS, "arguments", BYTES, "what a compiled program is given: weights, states, inputs")            \
    X(UTILIZATION, "utilization", MICRO, "share of the card that the engine claims")                         \
    X(KV_NEEDED, "kv_needed", BYTES, "KV cache of one request of full length")                               \
    X(KV_AVAILABLE, "kv_available", BYTES, "left for the KV cache")                                          \
    X(KV_CACHE, "kv_cache", BYTES, "the KV cache")                                                           \
    X(KV_TOKENS, "kv_tokens", TOKENS, "tokens that the KV cache holds")                                      \
    X(KV_BLOCKS, "kv_blocks", COUNT, "blocks of the KV cache, mostly of 16 tokens")                          \
    X(MODEL_LENGTH, "model_length", TOKENS, "the longest request that the engine would have to serve")       \
    X(LENGTH_THAT_FITS, "length_that_fits", TOKENS, "the longest request that does fit, by the engine")      \
    X(TOKENS_TRIED, "tried", TOKENS, "slots of the pool that were asked for, not bytes")                     \
    X(TOKENS_LEFT, "left", TOKENS, "slots of the pool that were left, not bytes")                            \
    X(TOKENS_PREFILL, "prefill", TOKENS, "tokens of a prompt in one pass")                                   \
    X(SEQUENCES, "sequences", COUNT, "requests at once")                                                     \
    X(FREE_BEFORE, "free_before", BYTES, "free before")                                                      \
    X(FREE_AFTER, "free_after", BYTES, "free afterwards")                                                    \
    X(RETRACTED, "retracted", COUNT, "requests put back into the queue")                                     \
    X(STATIC_SHARE, "static_share", MICRO, "share for weights and cache")                                    \
    X(SHARE_NEEDED, "share_needed", MICRO, "the least share that could work")                                \
    /* ggml */                                                                                               \
    X(BUFFER, "buffer", BYTES, "the buffer that was refused")                                                \
    X(DEVICE, "device", COUNT, "the device's index")                                                         \
    X(MODEL_BUFFER, "model_buffer", BYTES, "buffer of weights")                                              \
    X(KV_BUFFER, "kv_buffer", BYTES, "buffer of the KV cache")                                               \
    X(COMPUTE_BUFFER, "compute_buffer", BYTES, "compute buffer")                                             \
    X(OUTPUT_BUFFER, "output_buffer", BYTES, "buffer of results")                                            \
    X(CONTEXT, "context", TOKENS, "context in tokens")                                                       \
    X(UBATCH, "ubatch", TOKENS, "tokens in one pass")                                                        \
    X(COPIES, "copies", COUNT, "copies of the inputs for a pipeline over several cards")                     \
    X(LAYERS_ON_GPU, "layers_on_gpu", COUNT, "layers on the cards")                                          \
    X(LAYERS, "layers", COUNT, "layers in all")                                                              \
    X(PROJECTED, "projected", BYTES, "what the run would take")                                              \
    X(SHORT, "short", BYTES, "missing, by the program's own word")                                           \
    X(WORKING_SET, "working_set", BYTES, "what Metal recommends at most")                                    \
    X(MARGIN, "margin", BYTES, "to be left free")                                                            \
    /* the computer */                                                                                       \
    X(HOST_NEEDED, "host_needed", BYTES, "needed of the computer's memory")                                  \
    X(HOST_AVAILABLE, "host_available", BYTES, "available of the computer's memory")                         \
    X(HOST_USED, "host_used", BYTES, "in use of the computer's memory")                                      \
    X(HOST_TOTAL, "host_total", BYTES, "the computer's memory")                                              \
    X(HOST_REQUEST, "host_request", BYTES, "asked of the computer's memory")                                 \
    X(HOST_LIMIT, "host_limit", BYTES, "limit on the computer's memory")                                     \
    X(RSS, "rss", BYTES, "the killed process's own memory")                                                  \
    X(RSS_FILE, "rss_file", BYTES, "of files, in the killed process")                                        \
    X(RSS_SHM, "rss_shm", BYTES, "shared memory of the killed process")                                      \
    X(VM, "vm", BYTES, "addresses of the killed process, not memory")                                        \
    X(PERCENT, "percent", MICRO, "in percent")                                                               \
    X(THRESHOLD, "threshold", MICRO, "threshold")                                                            \
    X(EXIT_CODE, "exit_code", COUNT, "exit status")                                                          \
    X(SIGNAL, "signal", COUNT, "signal")                                                                     \
    /* the chip, the driver */                                                                               \
    X(ON_CHIP_NEEDED, "on_chip_needed", BYTES, "shared memory on the chip that a block of threads wants")    \
    X(ON_CHIP_LIMIT, "on_chip_limit", BYTES, "shared memory on the chip that a block of threads may have")   \
    X(XID, "xid", COUNT, "the driver's code")                                                                \
    /* the course of a run */                                                                                \
    X(STEP, "step", COUNT, "step that was reached")                                                          \
    X(STEPS, "steps", COUNT, "steps in all")                                                                 \
    X(LOADED_PERCENT, "loaded_percent", COUNT, "of the checkpoint's files, in percent")                      \
    X(SHARD, "shard", COUNT, "shard that was being loaded")                                                  \
    X(SHARDS, "shards", COUNT, "shards in all")                                                              \
    X(PARAMETERS, "parameters", COUNT, "parameters")                                                         \
    X(VERSION, "version", MICRO, "a program's version, as a decimal number")

typedef enum vr_fact_id {
#define X(id, name, unit, meaning) VR_FACT_##id,
    VR_FACTS(X)
#undef X
        VR_FACT_COUNT
} vr_fact_id;

typedef struct vr_fact_kind {
    const char *name;
    vr_unit unit;
    const char *meaning;
} vr_fact_kind;
extern const vr_fact_kind vr_fact_kinds[VR_FACT_COUNT]; /* facts.c */

/* One figure. Signs matter: budgets may be negative. */
typedef struct vr_fact {
    uint8_t id;     /* vr_fact_id */
    bool negative;  /* the value's sign */
    uint64_t value; /* magnitude in the fact's unit */
    /* Printed with so many decimals that the true value lies within `value` +- slack: half of the last digit;
     * 0: exact. */
    uint64_t slack;
    uint64_t line;    /* 1 is the first of its file */
    const char *text; /* as printed, "130.00 MiB" */
} vr_fact;

typedef struct vr_fact_list {
    const vr_fact *f;
    size_t n; /* in the order of the text; a process list has PROCESS_ID and PROCESS in turn */
} vr_fact_list;

/* The first of that kind; NULL: not there. */
const vr_fact *vr_fact_of(const vr_fact_list *facts, vr_fact_id id);
/* Its value; false: not there, or negative. */
bool vr_fact_value(const vr_fact_list *facts, vr_fact_id id, uint64_t *out);

#endif
