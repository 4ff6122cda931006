/* SPDX-License-Identifier: MIT
 * Private to the vLLM engine: its cache of blocks. */
#ifndef VR_VLLM_CACHE_H
#define VR_VLLM_CACHE_H

#include "engine/kv_rules.h"

typedef struct vr_vllm_settings {
    uint64_t block;     /* tokens; 0: the default of the kind of attention */
    uint64_t in_flight; /* tokens of a prompt that sliding and chunked layers hold beside their window */
    bool fp8, no_hybrid;
    uint64_t
        latent_align; /* tokens of which attention's block beside recurrent layers is a multiple, with MLA */
    unsigned states;  /* copies of recurrent states that stay for a sequence */
} vr_vllm_settings;

typedef struct vr_vllm_cache {
    const char *why;      /* nothing is known: why; or NULL */
    uint64_t bytes;       /* for all sequences at their fullest, as vLLM counts for its concurrency */
    uint64_t steady;      /* once the prompts are computed */
    uint64_t token_bytes; /* of one more token while no window is full */
    uint64_t blocks;      /* of one sequence */
    uint64_t block;       /* tokens of the smallest block */
    uint64_t block_bytes; /* over the layers that share it: what one block takes of the pool */
    uint64_t groups, layers_of_a_group;
    uint64_t sequences, context;
} vr_vllm_cache;

void vr_vllm_cache_of(vr_vllm_cache *out, const vram_model *m, const vram_workload *w,
                      const vr_vllm_settings *s);
/* "GPU KV cache size" of a pool of so many bytes: sequences of the asked length that fit, in tokens. */
uint64_t vr_vllm_pool_tokens(const vr_vllm_cache *c, const vram_workload *w, uint64_t pool);

#endif
