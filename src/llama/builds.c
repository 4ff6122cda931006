/* SPDX-License-Identifier: MIT
 * llama.cpp's rules of memory by build. A row says what changed with a build; what nothing changed is as in
 * the oldest. A build's number is the count of commits up to it, so that each row is the commit of that
 * number.
 *
 * Source: the history of llama.cpp up to b10587: src/llama-context.cpp, llama-kv-cache*.cpp,
 * llama-memory-*.cpp, llama-graph.cpp and llama-model.cpp (src/llama.cpp before b4408, llama.cpp before
 * b3236), common/common.h, common/arg.cpp, tools/server, ggml/src/ggml-alloc.c, ggml-backend.cpp, ggml-cuda.
 */
#include "llama/builds.h"

typedef struct change {
    uint32_t build;
    uint32_t field; /* its offset in vr_lm_rules */
    uint32_t value;
} change;

#define SINCE(build, field, value)                                                                           \
    {                                                                                                        \
        build, (uint32_t)offsetof(vr_lm_rules, field), value                                                 \
    }

static const change changes[] = {
    SINCE(0, default_ctx, 512),
    SINCE(0, default_batch, 512),
    SINCE(0, slots, 1),
    SINCE(0, row_split, 1),
    SINCE(0, ctx_pad, 1),
    SINCE(0, ctx_pad_flash, 1),
    SINCE(0, least_batch, 1),
    SINCE(0, mask_rows, 1),
    SINCE(0, split_inputs, 4),
    SINCE(2129, compute,
          VR_LM_COMPUTE_NEAR), /* 2024-02-12: one allocator for the whole graph, no margin of 10 % */
    SINCE(2413, ubatch, 1),    /* 2024-03-13 */
    SINCE(2413, default_batch, 2048),
    SINCE(2413, pipeline, 1),
    SINCE(2413, split_inputs, 10), /* GGML_MAX_SRC */
    SINCE(2454, offload, 1),       /* 2024-03-18 */
    SINCE(2493, ctx_pad, 32),
    SINCE(2493, ctx_pad_flash, 32),
    SINCE(2771, flash, 1), /* 2024-04-30 */
    SINCE(2771, ctx_pad, 256),
    SINCE(2771, ctx_pad_flash, 256),
    SINCE(2771, mask_rows, 32), /* GGML_KQ_MASK_PAD */
    SINCE(2771, least_batch, 32),
    SINCE(2871, ctx_pad, 32),
    SINCE(2876, pipeline_kv, 1),
    SINCE(3062, quantised_v, 1), /* 2024-06-01 */
    SINCE(3087, default_ctx, 0),
    SINCE(4014, default_ctx, 4096), /* 2024-11-02 */
    SINCE(4617, mask_rows, 64),
    SINCE(4617, least_batch, 64),
    SINCE(4881, batch_typed, 1), /* 2025-03-13 */
    SINCE(5028, overrides, 1),   /* 2025-04-02 */
    SINCE(5137, mla, 1),         /* 2025-04-15 */
    SINCE(5137, mla_values, 1),
    SINCE(5346, op_offload, 1),
    SINCE(5429, swa_full, 1), /* 2025-05-20 */
    SINCE(5429, sliding, VR_LM_SLIDING_BATCH),
    SINCE(5485, most_sequences, 64),
    SINCE(5554, sliding, VR_LM_SLIDING_UBATCH),
    SINCE(5702, hybrid, VR_LM_HYBRID_ONE),
    SINCE(5776, glu, 1),        /* 2025-06-29 */
    SINCE(5913, kv_unified, 1), /* 2025-07-16; forced without index inputs */
    SINCE(5913, worst_seqs, 1),
    SINCE(5937, experts_ordered, 1), /* 2025-07-18 */
    SINCE(6051, cpu_moe, 1),
    SINCE(6071, set_rows, 1), /* 2025-08-02; from b5817 on by LLAMA_SET_ROWS=1 */
    SINCE(6071, streams, 1),
    SINCE(6079, hybrid, VR_LM_HYBRID_WHOLE),
    SINCE(6089, n_cpu_moe, 1),
    SINCE(6325, all_layers, 1), /* 2025-08-30 */
    SINCE(6325, flash_auto, 1),
    SINCE(6351, split_inputs, 30),
    SINCE(6410, fused_qkv_views, 1),
    SINCE(6507, most_sequences, 256),
    SINCE(6568, chunks, 1), /* 2025-09-24 */
    SINCE(6583, weights_early, 1),
    SINCE(6844, weights_clamped, 1), /* 2025-10-26 */
    SINCE(6868, ctx_pad, 1),         /* 2025-10-28 */
    SINCE(6868, ctx_pad_flash, 1),
    SINCE(6868, seq_rounding, VR_LM_SEQ_UP),
    SINCE(6925, slots, 4), /* 2025-11-02 */
    SINCE(6925, seq_rounding, VR_LM_SEQ_DOWN),
    SINCE(6975, ctx_pad, 256), /* 2025-11-07 */
    SINCE(6975, ctx_pad_flash, 256),
    SINCE(6975, seq_rounding, VR_LM_SEQ_PAD),
    SINCE(6975, sliding, VR_LM_SLIDING_AFTER),
    SINCE(7044, keys_last, 1), /* 2025-11-13 */
    SINCE(7256, mask_rows, 1),
    SINCE(7256, least_batch, 1),
    SINCE(7335, fill_in_place, 1),
    SINCE(7407, default_ctx, 0), /* 2025-12-15 */
    SINCE(7407, fits, 1),
    SINCE(7467, output_first, 1), /* 2025-12-18 */
    SINCE(7633, embd_early, 1),   /* 2026-01-05 */
    SINCE(7819, embd_input, 1),   /* 2026-01-23 */
    SINCE(7832, mla_values, 0),   /* 2026-01-25 */
    SINCE(8025, hybrid, VR_LM_HYBRID_SHARES),
    SINCE(8233, fused_delta, 1),
    SINCE(8299, fused_delta, 2),
    SINCE(8619, rotated, 1), /* 2026-04-01 */
    SINCE(8738, tensor_split, 1),
    SINCE(9410, mask_f16, 1),       /* 2026-05-29 */
    SINCE(9460, server_outputs, 1), /* 2026-06-01 */
    SINCE(9489, flash_copy, 1),     /* 2026-06-03 */
    SINCE(9489, compute, VR_LM_COMPUTE_EXACT),
    SINCE(9890, row_split, 0), /* 2026-07-06 */
    SINCE(9970, indexer, 1),   /* 2026-07-11 */
    SINCE(10150, small_offload, 1),
    SINCE(10206, latent_types, 1), /* 2026-07-31 */
    SINCE(10247, split_inputs, 0),
    SINCE(10247, recorded, 1),
    SINCE(10527, recorded, 0),  /* 2026-08-20: values of sliding latent caches are views of their width */
    SINCE(10568, rope_part, 1), /* 2026-08-21 */
    SINCE(VR_LM_LAST_COUNTED + 1, compute, VR_LM_COMPUTE_NEAR),
    SINCE(VR_LM_ABOUT_V0_5, full_goes_on, 1),
    SINCE(VR_LM_ABOUT_V0_5, keeps_fused, 1),
    SINCE(VR_LM_ABOUT_V0_5, cache_types_mix, 1),
    SINCE(VR_LM_ABOUT_V0_5, clamp_apart, 1),
    SINCE(VR_LM_ABOUT_V0_5, qkv_first, 1),
    SINCE(VR_LM_ABOUT_V0_5, predict_apart, 1),
    SINCE(VR_LM_ABOUT_V0_5, mamba_flat, 1),
    SINCE(VR_LM_ABOUT_V0_5, decay_alone, 1),
    SINCE(VR_LM_ABOUT_V0_5, delta_rms, 1),
    SINCE(VR_LM_ABOUT_V0_5, fused_delta, 3),
    SINCE(VR_LM_V0_5, compute, VR_LM_COMPUTE_EXACT),
    SINCE(VR_LM_NEWEST, inputs_last, 1),
    SINCE(VR_LM_NEWEST, recorded, 1),
    SINCE(VR_LM_LATER, compute, VR_LM_COMPUTE_NEAR),
    SINCE(VR_LM_LATER, recorded, 0),
};

void vr_lm_rules_of(vr_lm_rules *out, uint32_t build)
{
    *out = (vr_lm_rules){ .build = build };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        if (build >= changes[i].build)
            memcpy((char *)out + changes[i].field, &changes[i].value, sizeof(uint32_t));
    }
}

/* ---- cells ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t divided_up(uint64_t x, uint64_t by)
{
    return x / by + (x % by != 0);
}

/* Of one sequence, of a cache of its own. */
static uint64_t share(const vr_lm_rules *r, uint64_t context, uint64_t sequences, uint64_t pad)
{
    switch ((vr_lm_seq_rounding)r->seq_rounding) {
    case VR_LM_SEQ_UP_PAD:
        return vr_round_up(divided_up(context, sequences), pad);
    case VR_LM_SEQ_UP:
        return divided_up(context, sequences);
    case VR_LM_SEQ_DOWN:
        return context / sequences;
    case VR_LM_SEQ_PAD:
        break;
    }
    return vr_round_up(vr_round_up(context, pad) / sequences, pad);
}

static uint64_t sliding_cells(const vr_lm_rules *r, const vr_lm_cells *c, const vr_lm_params *p,
                              uint64_t window, uint64_t pad)
{
    uint64_t each = vr_mul_sat(window, c->n_stream > 1 ? 1 : c->n_seq_max);
    uint64_t batch = r->sliding == VR_LM_SLIDING_BATCH ? c->n_batch : c->n_ubatch;
    uint64_t most = vr_add_sat(each, batch);
    if (r->sliding == VR_LM_SLIDING_FULL || p->swa_full || window == 0)
        return c->full;
    if (r->sliding == VR_LM_SLIDING_AFTER)
        return vr_round_up(least(c->full, most), pad);
    return least(c->full, vr_round_up(most, pad));
}

/* Counts of tokens have 32 bits there; what is typed beyond wraps around or is refused, and is not told apart
 * here. */
static uint64_t typed_context(const vr_lm *lm, const vr_lm_params *p)
{
    return least(p->n_ctx == 0 ? lm->n_ctx_train : p->n_ctx, UINT32_MAX);
}

static void batches(vr_lm_cells *c, const vr_lm_rules *r, const vr_lm *lm, const vr_lm_params *p,
                    uint64_t context)
{
    uint64_t ubatch = r->ubatch == 0 || p->n_ubatch == 0 ? p->n_batch : p->n_ubatch;
    c->n_batch = at_least(lm->causal ? least(context, p->n_batch) : p->n_batch, r->least_batch);
    c->n_ubatch = least(c->n_batch, ubatch);
}

void vr_lm_cells_of(vr_lm_cells *out, const vr_lm_rules *r, const vr_lm *lm, const vr_lm_params *p,
                    bool hybrid)
{
    uint64_t pad = p->flash_attn ? r->ctx_pad_flash : r->ctx_pad, context = typed_context(lm, p);
    bool own = r->streams != 0 && !p->kv_unified, one = hybrid && r->hybrid == VR_LM_HYBRID_ONE;
    bool whole = hybrid && r->hybrid == VR_LM_HYBRID_WHOLE;
    /* once the context knew the share of a sequence, it was a multiple of it for every model */
    bool shared = own && !one && (!whole || r->seq_rounding >= VR_LM_SEQ_DOWN);
    vr_lm_cells *c = out;
    *c = (vr_lm_cells){ .n_seq_max = at_least(p->n_seq_max, 1) };
    batches(c, r, lm, p, r->batch_typed != 0 ? context : vr_round_up(context, pad));
    c->n_stream = own && !one ? c->n_seq_max : 1;
    c->n_ctx = c->n_ctx_seq = vr_round_up(context, pad);
    if (shared) {
        c->n_ctx_seq = share(r, context, c->n_seq_max, pad);
        c->n_ctx = vr_mul_sat(c->n_ctx_seq, c->n_seq_max);
    }
    c->full = whole ? c->n_ctx : c->n_ctx_seq;
    c->sliding = sliding_cells(r, c, p, lm->n_swa, pad);
    c->n_tokens = least(c->n_ctx, c->n_ubatch);
    if (r->worst_seqs != 0)
        c->n_tokens = vr_round_up(c->n_tokens, c->n_seq_max);
}
