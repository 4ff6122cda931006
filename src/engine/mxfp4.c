/* SPDX-License-Identifier: MIT
 * Experts of gpt-oss in MXFP4: Mxfp4GptOssMLP and Mxfp4GptOssExperts (integrations/mxfp4.py of transformers
 * 4.57, 5.17 and 5.24) on the Triton kernels of kernels-community/gpt-oss-triton-kernels, version 1:
 * topk.py, routing.py, reduction_details/reduce_bitmatrix.py, matmul_ogs.py.
 *
 * Both products write all tokens of all experts at once, the second with the sums of each token behind them
 * in the same storage (fused_scatter); the block's result is a view of that. Of a few tokens the products are
 * split along their inputs instead, with sums in 32 bits: at most 2 MiB, which are left out.
 *
 * On Hopper the packed numbers are put in another order while they are loaded, by PyTorch's operators
 * (tensor_details/layout_details/hopper_value.py), some ten times their size at once. */
#include "engine/packed_run.h"
#include "model/experts.h"

#define WORDS 512    /* MEMSET_BLOCK: what is filled at once */
#define TILE_SIZES 4 /* 16, 32, 64 and 128 tokens */
#define LEAST_TILE 16
#define SUM_ROWS 128 /* of the bit matrix, in four parts */
#define SCRATCH_COLUMNS 128

static vr_block piece(vr_pass *p, uint64_t bytes, vr_step step)
{
    return vr_take(p, bytes, VR_ITEM_HIDDEN, step);
}

static const char *why_not(const vram_model *m, const vram_workload *w, const vr_device_facts *d)
{
    (void)w;
    (void)d;
    bool oss = vr_str_is(vr_str_of(m->family->model_type), "gpt_oss");
    for (uint64_t i = 0; i < m->n_layers && oss; i++)
        oss = m->layers[i].mlp != VR_MLP_EXPERTS || vr_layer_packs_experts(m, i);
    return oss ? NULL : "what MXFP4 takes while it runs in this class is not known";
}

/* ---- routing ---- */

typedef struct routing {
    vr_block hist, places, weights, offsets, tiles; /* until the block returns */
} routing;

static uint64_t most_tiles(uint64_t slots, uint64_t experts)
{
    if (slots <= experts)
        return slots;
    return experts - 1 + (slots - experts + 1 + LEAST_TILE - 1) / LEAST_TILE;
}

/* topk, then sort_tokens */
static routing route(vr_pass *p, uint64_t slots)
{
    routing r;
    uint64_t experts = vr_layer_of(p)->experts, columns = vr_round_up(experts, 32);
    vr_block best = piece(p, slots * p->width, VR_STEP_ROUTER), ids = piece(p, slots * 2, VR_STEP_ROUTER);
    vr_block bits = piece(p, columns / 32 * vr_round_up(p->rows, 32) * 4, VR_STEP_ROUTER);
    r.hist = piece(p, vr_round_up(experts, SCRATCH_COLUMNS) * 4, VR_STEP_ROUTED);
    uint64_t parts = vr_round_up(p->rows, SUM_ROWS) / SUM_ROWS * 4;
    vr_block partial = piece(p, columns * parts * 4, VR_STEP_ROUTER);
    vr_block starts = piece(p, experts * 4, VR_STEP_ROUTER);
    r.places = piece(p, 2 * slots * 4, VR_STEP_ROUTED);
    r.weights = piece(p, slots * p->width, VR_STEP_ROUTED);
    r.offsets = piece(p, (TILE_SIZES + 1) * vr_round_up(experts + 1, WORDS) * 4, VR_STEP_ROUTED);
    r.tiles = piece(p, TILE_SIZES * vr_round_up(most_tiles(slots, experts), WORDS) * 4, VR_STEP_ROUTED);
    const vr_block rest[] = { partial, starts, best, ids, bits };
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        vr_drop(p, rest[i]);
    return r;
}

/* ---- the block ---- */

/* matmul_ogs twice; biases are kept in 32 bits */
static vr_block products(vr_pass *p, uint64_t slots)
{
    const vr_layer *l = vr_layer_of(p);
    vr_block gated = piece(p, slots * l->expert_ffn * p->width, VR_STEP_EXPERT_ACT);
    vr_block out = piece(p, (slots + p->rows) * p->m->hidden * p->width, VR_STEP_EXPERT_DOWN);
    vr_block places = piece(p, slots * 4, VR_STEP_ROUTED);
    vr_block sources = piece(p, (p->rows + slots + 1) * 4, VR_STEP_ROUTED);
    vr_drop(p, places);
    vr_drop(p, sources);
    vr_drop(p, gated);
    return out;
}

static vr_block block(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t slots = p->rows * l->experts_used;
    vr_block logits = vr_linear(p, p->m->hidden, l->experts, l->moe->biased, VR_ITEM_HIDDEN, VR_STEP_ROUTER);
    routing r = route(p, slots);
    vr_block out = products(p, slots);
    const vr_block rest[] = { r.hist, r.places, r.weights, r.offsets, r.tiles };
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        vr_drop(p, rest[i]);
    p->router_output = logits;
    return out;
}

/* ---- loading ---- */

typedef struct swizzling {
    vr_pass *p;
    uint64_t n; /* bytes of the packed numbers */
    uint32_t label;
} swizzling;

static vr_block part(const swizzling *s)
{
    return vr_take_labelled(s->p, s->n, VR_ITEM_CONVERSION, s->label);
}

static vr_block instead(const swizzling *s, vr_block old)
{
    vr_block x = part(s);
    vr_drop(s->p, old);
    return x;
}

static vr_block either(const swizzling *s, vr_block a, vr_block b)
{
    vr_block x = part(s);
    vr_drop(s->p, a);
    vr_drop(s->p, b);
    return x;
}

/* A quarter of the numbers in 32 bits: `terms` masked and shifted parts of them, put together. */
static vr_block spread(const swizzling *s, int terms)
{
    vr_block wide = part(s), sum = VR_NONE;
    for (int i = 0; i < terms; i++) {
        vr_block term = instead(s, part(s));
        sum = i == 0 ? term : either(s, sum, term);
    }
    vr_drop(s->p, wide);
    return sum;
}

/* _compress_fp4(x) | (_compress_fp4(x >> 4) << 16) */
static vr_block both_halves(const swizzling *s, int terms)
{
    vr_block low = spread(s, terms);
    vr_block shifted = vr_take_labelled(s->p, s->n / 4, VR_ITEM_CONVERSION, s->label);
    vr_block high = spread(s, terms);
    vr_drop(s->p, shifted);
    high = instead(s, high);
    return either(s, low, high);
}

static vr_block swizzle(const swizzling *s)
{
    vr_block data = instead(s, part(s)); /* padded, in the other order */
    vr_block q[4];
    for (int i = 0; i < 4; i++)
        q[i] = both_halves(s, i < 3 ? 2 : 3);
    vr_block x = q[0];
    for (int i = 1; i < 3; i++) {
        vr_block shifted = instead(s, part(s)), sum = part(s);
        vr_drop(s->p, shifted);
        vr_drop(s->p, i > 1 ? x : VR_NONE);
        x = sum;
    }
    vr_block out = vr_take_labelled(s->p, s->n, VR_ITEM_PARAMETERS, s->label);
    vr_drop(s->p, x);
    for (int i = 0; i < 4; i++)
        vr_drop(s->p, q[i]);
    vr_drop(s->p, data);
    return out;
}

static bool load(vr_pass *p, const vr_tensor *t, uint32_t label, uint64_t *bytes)
{
    if (vr_str_ends(t->name, "_proj_bias") && vr_dtype_bits((vr_dtype)t->dtype) == 16) {
        *bytes = t->elements * 4;
        vr_take_labelled(p, *bytes, VR_ITEM_PARAMETERS, label);
        return true;
    }
    if (p->device->cc_major != 9 || !vr_str_ends(t->name, "_blocks"))
        return false;
    *bytes = t->end - t->begin;
    const swizzling s = { p, *bytes, label };
    vr_block stored = part(&s);
    swizzle(&s);
    vr_drop(p, stored);
    return true;
}

const vr_packed_run vr_run_mxfp4 = { .classed = true,
                                     .uncertain = 100,
                                     .weights = ", biases of experts in fp32",
                                     .why_not = why_not,
                                     .block = block,
                                     .packed_first = true,
                                     .load = load };
