/* SPDX-License-Identifier: MIT
 * A block of experts: its router, the experts, the shared ones beside them (the *SparseMoeBlock and
 * *TopKRouter classes of modeling_*.py). From transformers 5 on a class has all its experts in one tensor and
 * runs them by torch's grouped product unless it is told otherwise (integrations/moe.py;
 * modeling_utils.py, get_correct_experts_implementation); up to 4 each expert that is hit runs for itself.
 *
 * Which expert takes which token is known to nobody beforehand. The grouped product's storages do not depend
 * on it. Those of a loop do: --expert-load says whether tokens are spread evenly or all go to the same.
 *
 * Small temporary buffers of CUDA's sort, nonzero, histc and cumsum, some KiB, are left out. */
#include "engine/pass.h"
#include "model/experts.h"

static vr_block piece(vr_pass *p, uint64_t bytes, vr_step step)
{
    return vr_take(p, bytes, VR_ITEM_HIDDEN, step);
}

bool vr_experts_fused(const vr_pass *p)
{
    return p->rules->fused_experts;
}

/* Evenly: the j-th expert of token t is number (t x used + j) modulo all. */
uint64_t vr_expert_tokens(const vr_pass *p, uint64_t expert)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t slots = p->rows * l->experts_used;
    if (p->w->expert_load == VR_LOAD_SAME)
        return expert < l->experts_used ? p->rows : 0;
    return slots / l->experts + (expert < slots % l->experts);
}

vr_block vr_expert_gate(vr_pass *p, uint64_t rows, vr_block both)
{
    uint64_t bytes = rows * vr_layer_of(p)->expert_ffn * p->width;
    vr_block act = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_block product = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_drop(p, act);
    vr_drop(p, both);
    return product;
}

/* ---- routers ---- */

/* softmax(dtype=float): of fp16 CUDA's kernel widens by itself, unless the class does it before (aten
 * SoftMax.cpp). */
static vr_block probabilities(vr_pass *p, bool widened)
{
    uint64_t bytes = p->rows * vr_layer_of(p)->experts * 4;
    bool copies = p->w->dtype == VR_BF16 || (widened && p->width != 4);
    vr_block wide = copies ? piece(p, bytes, VR_STEP_ROUTER) : VR_NONE;
    vr_block out = piece(p, bytes, VR_STEP_ROUTER);
    vr_drop(p, wide);
    return out;
}

static void route_by_softmax(vr_pass *p, vr_routed *r)
{
    const vr_layer *l = vr_layer_of(p);
    bool fused = vr_experts_fused(p), wide = fused ? l->moe->wide_weights_5 : l->moe->wide_weights;
    r->logits = vr_linear(p, p->m->hidden, l->experts, false, VR_ITEM_HIDDEN, VR_STEP_ROUTER);
    vr_block all = probabilities(p, fused && wide);
    vr_block best = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->indices = piece(p, r->slots * 8, VR_STEP_ROUTER);
    if (!fused)
        vr_drop(p, all);
    if (l->weights_normalised)
        vr_drop(p, piece(p, p->rows * 4, VR_STEP_ROUTER));
    r->weights = best;
    if (!wide && p->width != 4) {
        r->weights = piece(p, r->slots * p->width, VR_STEP_ROUTER);
        vr_drop(p, best);
    }
    if (fused)
        vr_drop(p, all);
    r->weight_width = wide ? 4 : p->width;
}

/* ---- shared experts ---- */

static vr_block shared_mlp(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t h = p->m->hidden, f = l->shared_ffn, bytes = p->rows * f * p->width;
    vr_block gate = vr_linear(p, h, f, false, VR_ITEM_HIDDEN, VR_STEP_SHARED);
    vr_block act = piece(p, bytes, VR_STEP_SHARED);
    vr_drop(p, gate);
    vr_block up = vr_linear(p, h, f, false, VR_ITEM_HIDDEN, VR_STEP_SHARED);
    vr_block product = piece(p, bytes, VR_STEP_SHARED);
    vr_drop(p, act);
    vr_drop(p, up);
    vr_block down = vr_linear(p, f, h, false, VR_ITEM_HIDDEN, VR_STEP_SHARED);
    vr_drop(p, product);
    return down;
}

/* sigmoid(shared_expert_gate(x)) * shared */
static vr_block gate_shared(vr_pass *p, vr_block shared)
{
    vr_block logits = vr_linear(p, p->m->hidden, 1, false, VR_ITEM_HIDDEN, VR_STEP_SHARED);
    vr_block share = piece(p, p->rows * p->width, VR_STEP_SHARED);
    vr_drop(p, logits);
    vr_block out = piece(p, p->rows * p->m->hidden * p->width, VR_STEP_SHARED);
    vr_drop(p, share);
    vr_drop(p, shared);
    return out;
}

static vr_block add_shared(vr_pass *p, vr_block routed, vr_block shared)
{
    const vr_layer *l = vr_layer_of(p);
    if (l->shared_ffn == 0)
        return routed;
    if (shared == VR_NONE)
        shared = shared_mlp(p);
    if (l->moe->shared_gate != NULL)
        shared = gate_shared(p, shared);
    vr_block sum = piece(p, p->rows * p->m->hidden * p->width, VR_STEP_EXPERTS);
    vr_drop(p, routed);
    vr_drop(p, shared);
    return sum;
}

/* ---- the block ---- */

static vr_block run(vr_pass *p, const vr_routed *r)
{
    if (!vr_experts_fused(p) || p->w->experts == VR_EXPERTS_EAGER)
        return vr_experts_loop(p, r);
    return p->w->experts == VR_EXPERTS_BATCHED ? vr_experts_batched(p, r) : vr_experts_grouped(p, r);
}

vr_block vr_experts(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    vr_routed r = { .slots = p->rows * l->experts_used };
    bool first = vr_experts_fused(p) && l->moe->shared_first_5 && l->shared_ffn != 0;
    vr_block shared = first ? shared_mlp(p) : VR_NONE;
    route_by_softmax(p, &r);
    vr_block out = add_shared(p, run(p, &r), shared);
    vr_drop(p, r.logits);
    vr_drop(p, r.weights);
    vr_drop(p, r.indices);
    return out;
}
