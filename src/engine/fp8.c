/* SPDX-License-Identifier: MIT
 * Matrices in 8 bits with a scale for each block (DeepSeek-V3, Qwen3-FP8): FP8Linear and FP8Experts
 * (integrations/finegrained_fp8.py of transformers 4.57, 5.0, 5.10, 5.11, 5.17 and 5.24).
 *
 * Up to 5.10 a linear layer quantises its input into storages of its own, which its variables hold until it
 * returns. From 5.11 on the kernel (kernels-community/finegrained-fp8, matmul.py and grouped.py of its
 * version 4) does that tile by tile, and only the result is new: nothing goes through cuBLAS. With one scale
 * for a whole matrix the input is quantised before in both (fp8_act_quant).
 *
 * On Hopper, where it finds an nvcc, transformers takes DeepGEMM for linear layers: the input is quantised by
 * PyTorch's operators, 8 bytes an element at once (kernels-community/deep-gemm, utils/math.py,
 * per_token_cast_to_fp8). That is what the high end allows for. */
#include "engine/packed_run.h"
#include "model/experts.h"

#define BLOCK 128
#define NOT_YET "what FP8 experts take while they run in this version of transformers is not known"

static vr_block piece(vr_pass *p, uint64_t bytes, vr_step step)
{
    return vr_take(p, bytes, VR_ITEM_HIDDEN, step);
}

static bool is_from(const vram_workload *w, unsigned major, unsigned minor)
{
    return w->version_major > major || (w->version_major == major && w->version_minor >= minor);
}

static bool by_block(const vram_model *m)
{
    return m->packing.grouping == VR_GROUPING_BLOCK || m->packing.grouping == VR_GROUPING_UNKNOWN;
}

/* Gates times ups of a token's experts, as FP8Experts computes them. */
static bool is_usual(const vr_layer *l)
{
    bool known = l->moe->router == VR_ROUTER_SOFTMAX || l->moe->router == VR_ROUTER_SIGMOID ||
                 l->moe->router == VR_ROUTER_SCALED;
    return known && l->moe->gate != NULL && l->expert_hidden == 0 && !l->moe->biased && !l->moe->clamped;
}

static const char *why_not(const vram_model *m, const vram_workload *w, const vr_device_facts *d)
{
    (void)d;
    bool known = m->packing.layout != NULL && vr_str_is(vr_str_of(m->packing.layout), "fp8") &&
                 m->packing.bits_high == 8;
    if (!known || (!by_block(m) && !is_from(w, 5, 11)))
        return "what the linear layers of this kind of FP8 take while they run is not known";
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        if (l->mlp != VR_MLP_EXPERTS)
            continue;
        if (is_from(w, 5, 0) && (!is_from(w, 5, 17) || w->experts != VR_EXPERTS_GROUPED || !is_usual(l)))
            return NOT_YET;
        if (!vr_layer_packs_experts(m, i))
            return "what experts in 16 bits beside matrices in FP8 take while they run is not known";
    }
    return NULL;
}

static vr_block linear(vr_pass *p, uint64_t rows, uint64_t in, uint64_t out, bool biased, vr_item item,
                       vr_step step)
{
    bool blocks = by_block(p->m), apart = !blocks || !is_from(p->w, 5, 11);
    vr_block input = apart ? piece(p, rows * in, step) : VR_NONE;
    vr_block scales = apart ? piece(p, rows * (blocks ? (in + BLOCK - 1) / BLOCK : 1) * 4, step) : VR_NONE;
    vr_block result = vr_take(p, rows * out * p->width, item, step);
    if (biased && apart && blocks) { /* output + bias; later in place */
        vr_block sum = vr_take(p, rows * out * p->width, item, step);
        vr_drop(p, result);
        result = sum;
    }
    vr_drop(p, input);
    vr_drop(p, scales);
    return result;
}

/* _grouped_tile_layout: (tokens + size - 1) // size of each expert, where they begin in 64 bits and in 32 */
static vr_block grouped_product(vr_pass *p, uint64_t slots, uint64_t in, uint64_t out, vr_step step)
{
    uint64_t experts = vr_layer_of(p)->experts;
    vr_block input = by_block(p->m) ? VR_NONE : piece(p, slots * in, step);
    vr_block scales = by_block(p->m) ? VR_NONE : piece(p, slots * 4, step);
    vr_block result = piece(p, slots * out * p->width, step);
    vr_block more = piece(p, experts * 4, VR_STEP_ROUTED), less = piece(p, experts * 4, VR_STEP_ROUTED);
    vr_drop(p, more);
    vr_block tiles = piece(p, experts * 4, VR_STEP_ROUTED);
    vr_drop(p, less);
    vr_block ends = piece(p, experts * 8, VR_STEP_ROUTED), offsets = piece(p, experts * 4, VR_STEP_ROUTED);
    vr_drop(p, ends);
    vr_drop(p, tiles);
    vr_drop(p, offsets);
    vr_drop(p, scales);
    vr_drop(p, input);
    return result;
}

/* fp8_grouped_mm_experts_forward; which tokens no expert of this process takes is looked at in some versions,
 * and they are masked in place */
static vr_block experts(vr_pass *p, const vr_routed *r)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t s = r->slots, h = p->m->hidden, f = l->expert_ffn;
    vr_block ids = piece(p, s * 8, VR_STEP_ROUTED), order = piece(p, s * 8, VR_STEP_ROUTED);
    vr_block tokens = piece(p, s * 8, VR_STEP_ROUTED);
    vr_block input = piece(p, s * h * p->width, VR_STEP_EXPERT_IN);
    vr_drop(p, tokens);
    vr_block weights = piece(p, s * r->weight_width, VR_STEP_ROUTED);
    vr_block counted = piece(p, s * 4, VR_STEP_ROUTED);
    vr_block counts = piece(p, (uint64_t)l->experts * 4, VR_STEP_ROUTED);
    vr_block offsets = piece(p, (uint64_t)l->experts * 4, VR_STEP_ROUTED);
    vr_block mask = p->rules->masks_rarely ? VR_NONE : piece(p, s, VR_STEP_ROUTED);
    vr_block both = grouped_product(p, s, h, 2 * f, VR_STEP_EXPERT_GATE);
    vr_block gated = vr_expert_gate(p, s, both);
    vr_block down = grouped_product(p, s, f, h, VR_STEP_EXPERT_DOWN);
    vr_drop(p, gated);
    vr_block narrow = r->weight_width != p->width ? piece(p, s * p->width, VR_STEP_ROUTED) : VR_NONE;
    vr_block weighted = piece(p, s * h * p->width, VR_STEP_EXPERTS);
    vr_drop(p, narrow);
    vr_block back = piece(p, s * 8, VR_STEP_ROUTED);
    vr_drop(p, piece(p, s * 8, VR_STEP_ROUTED)); /* arange */
    vr_block in_order = piece(p, s * h * p->width, VR_STEP_EXPERTS);
    vr_drop(p, weighted);
    vr_block out = piece(p, p->rows * h * p->width, VR_STEP_EXPERTS);
    vr_block rest[] = { ids, order, input, weights, counted, counts, offsets, mask, down, back, in_order };
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        vr_drop(p, rest[i]);
    return out;
}

/* ---- DeepGEMM ---- */

static bool may_take_deepgemm(const vr_pass *p)
{
    bool one = p->placement == NULL || !p->placement->spread; /* its kernels belong to one context */
    return p->device->cc_major == 9 && is_from(p->w, 5, 6) && by_block(p->m) && one;
}

/* Bytes of a token that are there at once in a layer's MLP as it is written here: three times the hidden
 * states, and three times what is between. */
static uint64_t widest_moment(const vr_pass *p, const vr_layer *l)
{
    uint64_t h = p->m->hidden;
    bool many = l->mlp == VR_MLP_EXPERTS;
    uint64_t between =
        many ? (uint64_t)l->experts_used * (h + 3 * (uint64_t)l->expert_ffn) : 3 * (uint64_t)l->ffn;
    return p->width * (3 * h + between);
}

static uint64_t widest_input(const vr_pass *p, const vr_layer *l)
{
    uint64_t heads = (uint64_t)l->heads * l->value_dim, most = p->m->hidden;
    uint64_t ffn = l->mlp == VR_MLP_EXPERTS ? l->shared_ffn : l->ffn;
    most = heads > most ? heads : most;
    return ffn > most ? ffn : most;
}

/* A copy and its absolute values in 16 bits, these in 32. */
static uint64_t above(const vr_pass *p)
{
    uint64_t moment = 0, cast = 0;
    if (!may_take_deepgemm(p))
        return 0;
    for (uint64_t i = 0; i < p->m->n_layers; i++) {
        const vr_layer *l = &p->m->layers[i];
        uint64_t in = widest_input(p, l), x = widest_moment(p, l);
        uint64_t there = p->width * (3 * p->m->hidden + in) + in * (2 * (uint64_t)p->width + 4);
        moment = x > moment ? x : moment;
        cast = there > cast ? there : cast;
    }
    return cast > moment ? vr_mul_div(1000, cast - moment, moment) : 0;
}

const vr_packed_run vr_run_fp8 = { .classed = true,
                                   .uncertain = 100,
                                   .why_not = why_not,
                                   .linear = linear,
                                   .experts = experts,
                                   .above = above };
