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
#include "engine/experts.h"
#include "model/experts.h"

static vr_block piece(vr_pass *p, uint64_t bytes, vr_step step)
{
    return vr_take(p, bytes, VR_ITEM_HIDDEN, step);
}

bool vr_experts_fused(const vr_pass *p)
{
    return p->rules->fused_experts;
}

uint64_t vr_expert_hidden(const vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    return l->expert_hidden != 0 ? l->expert_hidden : p->m->hidden;
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
    bool one = vr_layer_of(p)->moe->gate == NULL && p->m->activation != VR_ACT_RELU2;
    if (one) { /* no gate to multiply by, and no square */
        vr_drop(p, both);
        return act;
    }
    vr_block product = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_drop(p, act);
    vr_drop(p, both);
    return product;
}

vr_block vr_expert_gate_clamped(vr_pass *p, uint64_t rows)
{
    uint64_t bytes = rows * vr_layer_of(p)->expert_ffn * p->width;
    vr_block gate = piece(p, bytes, VR_STEP_EXPERT_ACT), up = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_block scaled = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_block sigmoid = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_drop(p, scaled);
    vr_block glu = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_drop(p, sigmoid);
    vr_block more = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_block product = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_drop(p, more);
    vr_drop(p, gate);
    vr_drop(p, up);
    vr_drop(p, glu);
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

bool vr_router_wide(const vr_rules *rules, const vr_layer *l)
{
    bool kept = l->moe->correction == VR_CORRECTION_OF_ROUTER || l->moe->router == VR_ROUTER_SCALED;
    return l->moe->router == VR_ROUTER_WIDE_SOFTMAX || (rules->wide_routers && kept);
}

/* F.linear of what is widened for it */
static vr_block wide_logits(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    bool narrow = p->width != 4;
    vr_block input = narrow ? piece(p, p->rows * p->m->hidden * 4, VR_STEP_ROUTER) : VR_NONE;
    bool copies = narrow && !vr_router_wide(p->rules, l);
    vr_block weight = copies ? piece(p, l->experts * p->m->hidden * 4, VR_STEP_ROUTER) : VR_NONE;
    vr_block logits = piece(p, p->rows * l->experts * 4, VR_STEP_ROUTER);
    vr_gemm(p, false);
    vr_drop(p, input);
    vr_drop(p, weight);
    return logits;
}

/* What choosing groups of experts holds until the router returns. */
typedef struct choice {
    vr_block sums, groups, mask, spread, masked;
} choice;

/* The two best of each group added up, the best groups, -inf for all others; numbers of `width` bytes. */
static choice choose_groups(vr_pass *p, bool corrects, unsigned width)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t all = p->rows * l->experts, groups = p->rows * l->expert_groups, used = p->rows * l->groups_used;
    choice c;
    vr_block corrected = corrects ? piece(p, all * width, VR_STEP_ROUTER) : VR_NONE;
    vr_block best = piece(p, groups * 2 * width, VR_STEP_ROUTER);
    vr_drop(p, piece(p, groups * 2 * 8, VR_STEP_ROUTER));
    c.sums = piece(p, groups * width, VR_STEP_ROUTER);
    vr_drop(p, best);
    vr_block values = piece(p, used * width, VR_STEP_ROUTER);
    c.groups = piece(p, used * 8, VR_STEP_ROUTER);
    vr_drop(p, values);
    c.mask = piece(p, groups * width, VR_STEP_ROUTER);
    c.spread = l->expert_groups > 1 ? piece(p, all * width, VR_STEP_ROUTER) : VR_NONE; /* else a view */
    vr_block flags = piece(p, all, VR_STEP_ROUTER), others = piece(p, all, VR_STEP_ROUTER);
    vr_drop(p, flags);
    c.masked = piece(p, all * width, VR_STEP_ROUTER);
    vr_drop(p, others);
    vr_drop(p, corrected);
    return c;
}

static void drop_choice(vr_pass *p, const choice *c)
{
    vr_drop(p, c->sums);
    vr_drop(p, c->groups);
    vr_drop(p, c->mask);
    vr_drop(p, c->spread);
    vr_drop(p, c->masked);
}

/* Of what was not masked; their scores are not kept. */
static void choose_experts(vr_pass *p, vr_routed *r)
{
    vr_block best = piece(p, r->slots * r->weight_width, VR_STEP_ROUTER);
    r->indices = piece(p, r->slots * 8, VR_STEP_ROUTER);
    vr_drop(p, best);
}

/* gather, / (sum + 1e-20), times a number; *sums until the router returns */
static void weigh_chosen(vr_pass *p, vr_routed *r, vr_block *sums)
{
    uint64_t bytes = r->slots * r->weight_width, row = p->rows * r->weight_width;
    vr_block weights = piece(p, bytes, VR_STEP_ROUTER);
    *sums = VR_NONE;
    if (vr_layer_of(p)->weights_normalised) {
        vr_block sum = piece(p, row, VR_STEP_ROUTER);
        *sums = piece(p, row, VR_STEP_ROUTER);
        vr_drop(p, sum);
    }
    r->weights = piece(p, bytes, VR_STEP_ROUTER);
    vr_drop(p, weights);
}

/* DeepseekV3TopkRouter and those like it */
static void route_by_sigmoid(vr_pass *p, vr_routed *r)
{
    vr_block sums;
    bool early =
        !vr_experts_fused(p); /* get_topk_indices is a function of its own, logits are not returned */
    r->weight_width = 4;
    r->logits = wide_logits(p);
    vr_block scores = piece(p, p->rows * vr_layer_of(p)->experts * 4, VR_STEP_ROUTER);
    choice c = choose_groups(p, true, 4);
    choose_experts(p, r);
    if (early)
        drop_choice(p, &c);
    weigh_chosen(p, r, &sums);
    vr_drop(p, sums);
    vr_drop(p, scores);
    if (!early)
        drop_choice(p, &c);
    if (early)
        vr_drop(p, r->logits);
    r->logits = early ? VR_NONE : r->logits;
}

/* Mistral4TopkRouter: softmax in the model's dtype, no correction */
static void route_by_groups(vr_pass *p, vr_routed *r)
{
    const vr_layer *l = vr_layer_of(p);
    vr_block sums;
    r->weight_width = p->width;
    r->logits = vr_linear(p, p->m->hidden, l->experts, false, VR_ITEM_HIDDEN, VR_STEP_ROUTER);
    vr_block scores = piece(p, p->rows * l->experts * p->width, VR_STEP_ROUTER);
    choice c = choose_groups(p, false, p->width);
    choose_experts(p, r);
    weigh_chosen(p, r, &sums);
    vr_drop(p, sums);
    vr_drop(p, scores);
    drop_choice(p, &c);
}

/* MiniMaxM2TopKRouter: logits in the model's dtype, no groups; `_, index = topk(...)` */
static void route_without_groups(vr_pass *p, vr_routed *r)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t all = p->rows * l->experts * 4;
    r->logits = vr_linear(p, p->m->hidden, l->experts, false, VR_ITEM_HIDDEN, VR_STEP_ROUTER);
    vr_block wide = p->width != 4 ? piece(p, all, VR_STEP_ROUTER) : VR_NONE;
    vr_block scores = piece(p, all, VR_STEP_ROUTER);
    vr_drop(p, wide);
    vr_block corrected = piece(p, all, VR_STEP_ROUTER);
    vr_block best = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->indices = piece(p, r->slots * 8, VR_STEP_ROUTER);
    r->weights = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->weight_width = 4;
    vr_drop(p, piece(p, p->rows * 4, VR_STEP_ROUTER));
    vr_drop(p, scores);
    vr_drop(p, corrected);
    vr_drop(p, best);
}

/* GptOssTopKRouter: softmax of the best in the model's dtype; up to transformers 4 spread over all experts.
 */
static void route_by_best(vr_pass *p, vr_routed *r)
{
    const vr_layer *l = vr_layer_of(p);
    bool early = !vr_experts_fused(p);
    r->logits = vr_linear(p, p->m->hidden, l->experts, l->moe->biased, VR_ITEM_HIDDEN, VR_STEP_ROUTER);
    vr_block best = piece(p, r->slots * p->width, VR_STEP_ROUTER);
    r->indices = piece(p, r->slots * 8, VR_STEP_ROUTER);
    r->weights = piece(p, r->slots * p->width, VR_STEP_ROUTER);
    r->weight_width = p->width;
    vr_drop(p, best);
    if (!early)
        return;
    vr_block all = piece(p, p->rows * l->experts * p->width, VR_STEP_ROUTER);
    vr_drop(p, r->weights);
    vr_drop(p, r->logits);
    r->weights = all;
    r->logits = VR_NONE;
}

/* GraniteMoeHybridTopKRouter: softmax of the best in fp32 */
static void route_by_wide_best(vr_pass *p, vr_routed *r)
{
    const vr_layer *l = vr_layer_of(p);
    bool narrow = p->width != 4;
    r->logits = vr_linear(p, p->m->hidden, l->experts, false, VR_ITEM_HIDDEN, VR_STEP_ROUTER);
    if (narrow) {
        vr_block wide = piece(p, p->rows * l->experts * 4, VR_STEP_ROUTER);
        vr_drop(p, r->logits);
        r->logits = wide;
    }
    vr_block best = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->indices = piece(p, r->slots * 8, VR_STEP_ROUTER);
    vr_block softmax = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->weights = narrow ? piece(p, r->slots * p->width, VR_STEP_ROUTER) : softmax;
    r->weight_width = p->width;
    vr_drop(p, narrow ? softmax : VR_NONE);
    vr_drop(p, best);
}

/* HunYuanMoEV1Gate: what it widened lives until it returns */
static void route_by_wide_softmax(vr_pass *p, vr_routed *r)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t all = p->rows * l->experts * 4;
    vr_block input = p->width != 4 ? piece(p, p->rows * p->m->hidden * 4, VR_STEP_ROUTER) : VR_NONE;
    r->logits = piece(p, all, VR_STEP_ROUTER);
    vr_gemm(p, false);
    vr_block scores = piece(p, all, VR_STEP_ROUTER);
    r->weights = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->indices = piece(p, r->slots * 8, VR_STEP_ROUTER);
    r->weight_width = 4;
    vr_drop(p, scores);
    vr_drop(p, piece(p, p->rows * 4, VR_STEP_ROUTER)); /* divided in place */
    vr_drop(p, input);
}

/* DeepseekV2TopkRouter, greedy */
static void route_scaled(vr_pass *p, vr_routed *r)
{
    r->logits = wide_logits(p);
    vr_block scores = piece(p, p->rows * vr_layer_of(p)->experts * 4, VR_STEP_ROUTER);
    vr_block best = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->indices = piece(p, r->slots * 8, VR_STEP_ROUTER);
    r->weights = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->weight_width = 4;
    vr_drop(p, best);
    vr_drop(p, scores);
}

static void route(vr_pass *p, vr_routed *r)
{
    switch (vr_layer_of(p)->moe->router) {
    case VR_ROUTER_SIGMOID:
        if (vr_layer_of(p)->moe->correction == VR_CORRECTION_OF_ROUTER)
            route_by_sigmoid(p, r);
        else
            route_without_groups(p, r);
        return;
    case VR_ROUTER_GROUPS:
        route_by_groups(p, r);
        return;
    case VR_ROUTER_SCALED:
        route_scaled(p, r);
        return;
    case VR_ROUTER_TOP_SOFTMAX:
        route_by_best(p, r);
        return;
    case VR_ROUTER_WIDE_TOP_SOFTMAX:
        route_by_wide_best(p, r);
        return;
    case VR_ROUTER_WIDE_SOFTMAX:
        route_by_wide_softmax(p, r);
        return;
    default:
        route_by_softmax(p, r);
    }
}

/* ---- shared experts ---- */

/* down(act_fn(up)), the activation as in the experts */
static vr_block shared_plain(vr_pass *p)
{
    uint64_t h = p->m->hidden, f = vr_layer_of(p)->shared_ffn;
    vr_block up = vr_linear(p, h, f, false, VR_ITEM_HIDDEN, VR_STEP_SHARED);
    vr_block act = piece(p, p->rows * f * p->width, VR_STEP_SHARED);
    if (p->m->activation == VR_ACT_RELU2) {
        vr_block squared = piece(p, p->rows * f * p->width, VR_STEP_SHARED);
        vr_drop(p, act);
        act = squared;
    }
    vr_drop(p, up);
    vr_block down = vr_linear(p, f, h, false, VR_ITEM_HIDDEN, VR_STEP_SHARED);
    vr_drop(p, act);
    return down;
}

/* down(act_fn(gate) * up), gates and ups beside each other */
static vr_block shared_fused(vr_pass *p)
{
    uint64_t h = p->m->hidden, f = vr_layer_of(p)->shared_ffn, bytes = p->rows * f * p->width;
    vr_block both = vr_linear(p, h, 2 * f, false, VR_ITEM_HIDDEN, VR_STEP_SHARED);
    vr_block act = piece(p, bytes, VR_STEP_SHARED), product = piece(p, bytes, VR_STEP_SHARED);
    vr_drop(p, act);
    vr_block down = vr_linear(p, f, h, false, VR_ITEM_HIDDEN, VR_STEP_SHARED);
    vr_drop(p, product);
    vr_drop(p, both);
    return down;
}

static vr_block shared_mlp(vr_pass *p)
{
    if (vr_layer_of(p)->moe->gate == NULL)
        return shared_plain(p);
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

/* ---- every token by every expert ---- */

/* Llama4Router: the best logits among -inf for all others, their sigmoid in fp32. */
static vr_block route_every(vr_pass *p)
{
    uint64_t all = p->rows * vr_layer_of(p)->experts, slots = p->rows * vr_layer_of(p)->experts_used;
    p->router_output =
        vr_linear(p, p->m->hidden, vr_layer_of(p)->experts, false, VR_ITEM_HIDDEN, VR_STEP_ROUTER);
    vr_block best = piece(p, slots * p->width, VR_STEP_ROUTER);
    vr_block indices = piece(p, slots * 8, VR_STEP_ROUTER);
    vr_block scores = piece(p, all * p->width, VR_STEP_ROUTER);
    vr_block wide = p->width != 4 ? piece(p, all * 4, VR_STEP_ROUTER) : VR_NONE;
    vr_block out = piece(p, all * 4, VR_STEP_ROUTER);
    vr_drop(p, wide);
    if (p->width != 4) {
        vr_block cast = piece(p, all * p->width, VR_STEP_ROUTER);
        vr_drop(p, out);
        out = cast;
    }
    vr_drop(p, scores);
    vr_drop(p, indices);
    vr_drop(p, best);
    return out;
}

/* Llama4TextExperts: batches of matrices, gates and ups beside each other */
static vr_block run_every(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t rows = p->rows * l->experts, f = rows * l->expert_ffn * p->width;
    uint64_t matrix = (uint64_t)l->experts * l->expert_ffn * p->m->hidden * p->width;
    vr_block weights = vr_bring(p, 2 * matrix, VR_STEP_EXPERT_GATE);
    vr_block down_weights = vr_bring(p, matrix, VR_STEP_EXPERT_DOWN);
    vr_block both = piece(p, 2 * f, VR_STEP_EXPERT_GATE);
    vr_gemm(p, false);
    vr_block act = piece(p, f, VR_STEP_EXPERT_ACT), product = piece(p, f, VR_STEP_EXPERT_ACT);
    vr_drop(p, act);
    vr_block out = piece(p, rows * p->m->hidden * p->width, VR_STEP_EXPERT_DOWN);
    vr_gemm(p, false);
    vr_drop(p, product);
    vr_drop(p, both);
    vr_drop(p, weights);
    vr_drop(p, down_weights);
    return out;
}

/* Llama4TextMoe: inputs times weights, which are 0 where a token is not sent to an expert */
static vr_block every_expert(vr_pass *p)
{
    uint64_t experts = vr_layer_of(p)->experts, all = p->rows * experts;
    vr_block weights = route_every(p);
    vr_block inputs = piece(p, all * p->m->hidden * p->width, VR_STEP_EXPERT_IN);
    vr_block by_expert = p->rows > 1 ? piece(p, all * p->width, VR_STEP_ROUTED) : VR_NONE;
    vr_block weighted = piece(p, all * p->m->hidden * p->width, VR_STEP_EXPERT_IN);
    vr_drop(p, by_expert);
    vr_drop(p, inputs);
    vr_block routed = run_every(p), out = shared_mlp(p);
    vr_drop(p, piece(p, p->rows * p->m->hidden * p->width, VR_STEP_EXPERTS)); /* added in place */
    vr_drop(p, routed);
    vr_drop(p, weighted);
    vr_drop(p, weights);
    return out;
}

/* ---- the block ---- */

static vr_block run_where_they_lie(vr_pass *p, vr_routed *r)
{
    if (!vr_experts_fused(p) && vr_layer_of(p)->moe->form != VR_EXPERTS_LIST)
        return vr_experts_at_once(p, r);
    if (!vr_experts_fused(p) && vr_layer_of(p)->moe->router == VR_ROUTER_SIGMOID)
        return vr_experts_loop_all(p, r);
    if (!vr_experts_fused(p) || p->w->experts == VR_EXPERTS_EAGER)
        return vr_experts_loop(p, r);
    return p->w->experts == VR_EXPERTS_BATCHED ? vr_experts_batched(p, r) : vr_experts_grouped(p, r);
}

/* Experts in one tensor that lie on the host are brought to the card all at once. */
vr_block vr_experts_run(vr_pass *p, vr_routed *r)
{
    const vr_layer *l = vr_layer_of(p);
    bool at_once = vr_experts_fused(p) || l->moe->form != VR_EXPERTS_LIST;
    uint64_t matrix = at_once ? (uint64_t)l->experts * l->expert_ffn * vr_expert_hidden(p) * p->width : 0;
    vr_block both = vr_bring(p, (l->moe->gate != NULL ? 2 : 1) * matrix, VR_STEP_EXPERT_GATE),
             down = vr_bring(p, matrix, VR_STEP_EXPERT_DOWN);
    vr_block out = run_where_they_lie(p, r);
    vr_drop(p, both);
    vr_drop(p, down);
    return out;
}

/* nemotron_h: experts work on something narrower (fc1_latent_proj, fc2_latent_proj) */
static vr_block run_narrowed(vr_pass *p, vr_routed *r)
{
    uint64_t h = p->m->hidden, narrow = vr_layer_of(p)->expert_hidden;
    if (narrow == 0)
        return vr_experts_run(p, r);
    vr_block input = vr_linear(p, h, narrow, p->m->mlp_bias, VR_ITEM_HIDDEN, VR_STEP_EXPERT_IN);
    vr_block out = vr_experts_run(p, r);
    vr_drop(p, input);
    vr_block wide = vr_linear(p, narrow, h, p->m->mlp_bias, VR_ITEM_HIDDEN, VR_STEP_EXPERTS);
    vr_drop(p, out);
    return wide;
}

/* GraniteMoeHybridDecoderLayer: the shared MLP is the layer's own; what the experts gave has a name there. */
static vr_block beside_shared(vr_pass *p, vr_routed *r)
{
    vr_block routed = vr_experts_run(p, r);
    vr_drop(p, r->logits);
    vr_drop(p, r->weights);
    vr_drop(p, r->indices);
    vr_block shared = shared_fused(p), out = piece(p, p->rows * p->m->hidden * p->width, VR_STEP_EXPERTS);
    vr_drop(p, shared);
    p->beside[0] = routed;
    return out;
}

vr_block vr_experts(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    if (l->moe->router == VR_ROUTER_TOP_SIGMOID)
        return every_expert(p);
    vr_routed r = { .slots = p->rows * l->experts_used };
    bool first = vr_experts_fused(p) && l->moe->shared_first_5 && l->shared_ffn != 0;
    vr_block shared = first ? shared_mlp(p) : VR_NONE;
    route(p, &r);
    if (l->moe->router == VR_ROUTER_WIDE_TOP_SOFTMAX && l->shared_ffn != 0)
        return beside_shared(p, &r);
    vr_block out = add_shared(p, run_narrowed(p, &r), shared);
    bool best = l->moe->router == VR_ROUTER_TOP_SOFTMAX;
    bool logits = !best && l->moe->returns_logits && !vr_experts_fused(p);
    p->router_output = best ? r.weights : logits ? r.logits : VR_NONE;
    vr_drop(p, logits ? VR_NONE : r.logits);
    vr_drop(p, best ? VR_NONE : r.weights);
    vr_drop(p, r.indices);
    vr_drop_all(p, r.held, r.n_held);
    return out;
}

/* ---- what is not known beforehand ---- */

static bool loops(const vr_pass *p, const vr_layer *l)
{
    if (l->experts == 0 || l->moe->router == VR_ROUTER_TOP_SIGMOID)
        return false;
    return vr_experts_fused(p) ? p->w->experts == VR_EXPERTS_EAGER : l->moe->form == VR_EXPERTS_LIST;
}

bool vr_loops_over_experts(const vr_pass *p)
{
    for (uint64_t i = 0; i < p->m->n_layers; i++) {
        if (loops(p, &p->m->layers[i]))
            return true;
    }
    return false;
}

/* How much more a block takes when all tokens go to the same experts than when they are spread evenly: of a
 * turn of the loop, what it holds of each of its tokens (inputs, gate, up, their product, outputs; those of
 * the turn before), beside what all tokens have in any case. */
uint64_t vr_experts_above_permille(const vr_pass *p)
{
    uint64_t most = 0;
    for (uint64_t i = 0; i < p->m->n_layers; i++) {
        const vr_layer *l = &p->m->layers[i];
        if (!loops(p, l) || p->w->expert_load == VR_LOAD_SAME)
            continue;
        uint64_t turn = 4 * p->m->hidden + 3 * (uint64_t)l->expert_ffn, all = 4 * p->m->hidden;
        uint64_t even = all + vr_mul_div(turn, l->experts_used, l->experts);
        uint64_t above = vr_mul_div(1000, all + turn - even, even);
        most = above > most ? above : most;
    }
    return most;
}
