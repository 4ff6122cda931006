/* SPDX-License-Identifier: MIT
 * How a token's experts are chosen (the *TopKRouter and *Gate classes of modeling_*.py). */
#include "engine/experts.h"
#include "model/experts.h"

static vr_block piece(vr_pass *p, uint64_t bytes, vr_step step)
{
    return vr_take(p, bytes, VR_ITEM_HIDDEN, step);
}

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
    bool always = l->moe->router == VR_ROUTER_CORRECTED || l->moe->router == VR_ROUTER_WIDE_SOFTMAX;
    return always || (rules->wide_routers && kept);
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

/* Ernie4_5_MoeTopKRouter: softmax in fp32, the best of it with a correction; `_` holds their sums */
static void route_corrected(vr_pass *p, vr_routed *r)
{
    uint64_t all = p->rows * vr_layer_of(p)->experts * 4, slots = r->slots * 4;
    r->logits = wide_logits(p);
    vr_block scores = piece(p, all, VR_STEP_ROUTER), corrected = piece(p, all, VR_STEP_ROUTER);
    vr_block best = piece(p, slots, VR_STEP_ROUTER);
    r->indices = piece(p, r->slots * 8, VR_STEP_ROUTER);
    vr_drop(p, corrected);
    vr_block gathered = piece(p, slots, VR_STEP_ROUTER);
    vr_drop(p, scores);
    vr_block sum = piece(p, p->rows * 4, VR_STEP_ROUTER), least = piece(p, p->rows * 4, VR_STEP_ROUTER);
    vr_drop(p, sum);
    r->weights = piece(p, slots, VR_STEP_ROUTER);
    vr_drop(p, least);
    vr_drop(p, gathered);
    if (p->width != 4) {
        vr_block narrow = piece(p, r->slots * p->width, VR_STEP_ROUTER);
        vr_drop(p, r->weights);
        r->weights = narrow;
    }
    vr_drop(p, best);
    r->weight_width = p->width;
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

void vr_route(vr_pass *p, vr_routed *r)
{
    switch (vr_layer_of(p)->moe->router) {
    case VR_ROUTER_SIGMOID:
        if (vr_layer_of(p)->moe->correction == VR_CORRECTION_OF_ROUTER)
            route_by_sigmoid(p, r);
        else
            route_without_groups(p, r);
        return;
    case VR_ROUTER_CORRECTED:
        route_corrected(p, r);
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
