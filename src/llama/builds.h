/* SPDX-License-Identifier: MIT
 * Private to the room: what llama.cpp does otherwise in an older build. */
#ifndef VR_LLAMA_BUILDS_H
#define VR_LLAMA_BUILDS_H

#include "llama/llama.h"

#define VR_LM_OLDEST 1957 /* 2024-01-23; before it weights and caches were laid out in another way */
/* Behind b10587 (2026-08-22) two sources are known, without their numbers: v0.5.0, and one of 2026-10-01
 * between v0.5.0 and v0.6.0, whose tools call themselves 0.5.0-dev. They stand behind all numbers; which
 * build brought what they changed is not known, so that numbers between are near at best. */
#define VR_LM_LAST_COUNTED 10587
#define VR_LM_ABOUT_V0_5 11200 /* by dates */
#define VR_LM_MOST 19999
#define VR_LM_V0_5 1000500
#define VR_LM_NEWEST 1000510
#define VR_LM_LATER 1000600 /* v0.6.0 and what follows */
#define VR_LM_READ 10470    /* the build that this room was written by */

/* How far the compute buffer of a build is known. */
typedef enum vr_lm_compute_known {
    VR_LM_COMPUTE_NO,   /* another allocator or another way to plan: nothing can be said */
    VR_LM_COMPUTE_NEAR, /* the graph has other nodes here and there: a figure from the same rules, no more */
    VR_LM_COMPUTE_EXACT /* rehearsed with the rules below */
} vr_lm_compute_known;

/* Flags are 0 or 1. A field holds what `build` does. */
typedef struct vr_lm_rules {
    uint32_t build;
    uint32_t compute;  /* vr_lm_compute_known */
    uint32_t recorded; /* runs of this build, or of one with the same rules, were recorded */

    /* -- what a tool takes when nothing is typed -- */
    uint32_t all_layers;  /* -ngl: all; else none */
    uint32_t default_ctx; /* -c; 0: what the model was trained with */
    uint32_t default_batch;
    uint32_t flash_auto; /* -fa: wherever the device can; else off */
    uint32_t slots;      /* llama-server -np; more than 1: of one cache (unified) */
    uint32_t fits;       /* what was not typed is made to fit the free memory */

    /* -- what may be typed at all -- */
    uint32_t ubatch; /* -ub; else a batch is computed at once */
    uint32_t flash;  /* -fa */
    uint32_t swa_full, kv_unified, overrides, cpu_moe, n_cpu_moe, op_offload;
    uint32_t quantised_v;  /* -ctv q8_0, with flash attention */
    uint32_t row_split;    /* -sm row on CUDA */
    uint32_t tensor_split; /* -sm tensor */

    /* -- weights -- */
    uint32_t output_first; /* -ngl counts the output layer first; else it is the last to come */

    /* -- cells of the caches -- */
    uint32_t ctx_pad, ctx_pad_flash; /* n_ctx is a multiple of it; 1: as typed */
    uint32_t streams;                /* every sequence has a cache of its own unless they are unified */
    uint32_t batch_typed;            /* n_batch is held against the context as typed; else as padded */
    uint32_t seq_rounding;           /* vr_lm_seq_rounding */
    uint32_t sliding;                /* vr_lm_sliding */
    uint32_t hybrid;                 /* vr_lm_hybrid */
    uint32_t mla;                    /* files with attn_k_b: K of the latent width */
    uint32_t mla_values;             /* and a V beside it */
    uint32_t predict_apart;          /* layers that predict have no cache in any architecture; else in some */
    uint32_t latent_types;           /* of a latent -ctk and -ctv must agree */
    uint32_t most_sequences;

    /* -- graph -- */
    uint32_t least_batch; /* n_batch is raised to it */
    uint32_t mask_rows;   /* the mask has a multiple of this many rows */
    uint32_t mask_f16;    /* with flash attention made in 16 bits; else made in 32 and cast on the device */
    uint32_t set_rows;    /* K and V are written through index inputs; else through views with a copy */
    uint32_t glu;         /* one node for activation and product of a gated FFN; else two */
    uint32_t experts_ordered; /* what experts give is in the graph before it is added up */
    uint32_t weights_early;   /* their shares are before the experts */
    uint32_t weights_clamped; /* the sum of the shares is kept from 0 */
    uint32_t keys_last;       /* queries, values, keys; else keys before values */
    uint32_t embd_early;      /* embeddings are in the graph before anything else */
    uint32_t embd_input;      /* the graph always has both inputs, tokens and embeddings */
    uint32_t rotated; /* quantised caches: K, V and Q go through a rotation (inputs of n x n floats) */
    uint32_t fused_qkv_views; /* Q, K and V of a fused matrix are views; else copies (phi3, ...) */
    uint32_t fused_delta;     /* gated delta net is one node where the device has it: 1 of single tokens, 2
                                 always, 3 without a try (and so is the indexer) */
    uint32_t indexer;         /* layers that choose their tokens do so in one node where the device can */
    uint32_t worst_seqs;      /* the graph that is reserved has all sequences; else one */
    uint32_t rope_part;   /* latent attention: queries are turned whole, but for an offset; else in halves */
    uint32_t qkv_first;   /* Q, K and V together in every architecture; else some between other nodes */
    uint32_t delta_rms;   /* delta nets norm keys and queries by RMS; else by L2 */
    uint32_t mamba_flat;  /* Mamba-2 multiplies all tokens at once; else by sequence */
    uint32_t decay_alone; /* graphs with a decay for each pair of tokens are reserved for one sequence */
    uint32_t server_outputs; /* the server's logits are of its slots; else of the batch */

    /* -- memory -- */
    uint32_t
        flash_copy; /* the 16-bit copy of a quantised cache is in the compute buffer; else in CUDA's pool */
    uint32_t fill_in_place;
    uint32_t chunks;  /* a compute buffer is cut by the device's largest buffer */
    uint32_t offload; /* work on 32 tokens or more goes to the GPU though its weight is in host memory */
    uint32_t small_offload;   /* attention follows no weight (sinks); else it goes where they are */
    uint32_t pipeline;        /* several GPUs: inputs of splits in four copies */
    uint32_t pipeline_kv;     /* not with --no-kv-offload */
    uint32_t split_inputs;    /* that a split takes at most; 0: any number */
    uint32_t full_goes_on;    /* a split with many inputs goes on; else another begins */
    uint32_t inputs_last;     /* pipeline: inputs are copied as the graph lists them, unused ones too */
    uint32_t keeps_fused;     /* CUDA keeps what its kernels of several nodes read */
    uint32_t cache_types_mix; /* attention on CUDA with keys and values of any types */
    uint32_t clamp_apart;     /* CLAMP makes a tensor; else a view */
} vr_lm_rules;

typedef enum vr_lm_seq_rounding {
    VR_LM_SEQ_UP_PAD, /* n_ctx / n_seq rounded up, then padded */
    VR_LM_SEQ_UP,     /* rounded up */
    VR_LM_SEQ_DOWN,   /* rounded down */
    VR_LM_SEQ_PAD     /* rounded down, then padded */
} vr_lm_seq_rounding;

typedef enum vr_lm_sliding {
    VR_LM_SLIDING_FULL,   /* sliding layers keep every token */
    VR_LM_SLIDING_BATCH,  /* the window and a batch, padded, no more than the full layers */
    VR_LM_SLIDING_UBATCH, /* the window and a micro batch, the same */
    VR_LM_SLIDING_AFTER   /* padded after it was held against the full layers */
} vr_lm_sliding;

typedef enum vr_lm_hybrid {
    VR_LM_HYBRID_NONE,  /* there is no memory of both kinds */
    VR_LM_HYBRID_ONE,   /* attention beside states: always one cache */
    VR_LM_HYBRID_WHOLE, /* a cache for each sequence, each as large as all should be together */
    VR_LM_HYBRID_SHARES /* as every other model */
} vr_lm_hybrid;

/* Builds out of range get the rules of the nearest one. */
void vr_lm_rules_of(vr_lm_rules *out, uint32_t build);

/* VRAM_ESETTING where the build is older than the architecture. */
vram_status vr_lm_check_known(vram_ctx *ctx, vr_str arch, uint32_t build);

typedef struct vr_lm_cells {
    uint64_t n_ctx, n_ctx_seq, n_seq_max, n_stream; /* as they end up */
    uint64_t n_batch, n_ubatch, n_tokens;           /* n_tokens: of the graph that is reserved */
    uint64_t full, sliding;                         /* cells of a stream */
} vr_lm_cells;

/* Of a model whose attention layers lie beside recurrent ones (`hybrid`) or not. */
void vr_lm_cells_of(vr_lm_cells *out, const vr_lm_rules *r, const vr_lm *lm, const vr_lm_params *p,
                    bool hybrid);

#endif
