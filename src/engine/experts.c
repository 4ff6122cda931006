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
    return rules->wide_routers && kept;
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

/* The two best of each group added up, the best groups, -inf for all others. */
static choice choose_groups(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t all = p->rows * l->experts, groups = p->rows * l->expert_groups, used = p->rows * l->groups_used;
    choice c;
    vr_block corrected = piece(p, all * 4, VR_STEP_ROUTER);
    vr_block best = piece(p, groups * 2 * 4, VR_STEP_ROUTER);
    vr_drop(p, piece(p, groups * 2 * 8, VR_STEP_ROUTER));
    c.sums = piece(p, groups * 4, VR_STEP_ROUTER);
    vr_drop(p, best);
    vr_block values = piece(p, used * 4, VR_STEP_ROUTER);
    c.groups = piece(p, used * 8, VR_STEP_ROUTER);
    vr_drop(p, values);
    c.mask = piece(p, groups * 4, VR_STEP_ROUTER);
    c.spread = l->expert_groups > 1 ? piece(p, all * 4, VR_STEP_ROUTER) : VR_NONE; /* else a view */
    vr_block flags = piece(p, all, VR_STEP_ROUTER), others = piece(p, all, VR_STEP_ROUTER);
    vr_drop(p, flags);
    c.masked = piece(p, all * 4, VR_STEP_ROUTER);
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

/* DeepseekV3TopkRouter and those like it */
static void route_by_sigmoid(vr_pass *p, vr_routed *r)
{
    vr_block sums = VR_NONE;
    bool early =
        !vr_experts_fused(p); /* get_topk_indices is a function of its own, logits are not returned */
    r->logits = wide_logits(p);
    vr_block scores = piece(p, p->rows * vr_layer_of(p)->experts * 4, VR_STEP_ROUTER);
    choice c = choose_groups(p);
    vr_block best = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->indices = piece(p, r->slots * 8, VR_STEP_ROUTER);
    vr_drop(p, best);
    if (early)
        drop_choice(p, &c);
    vr_block weights = piece(p, r->slots * 4, VR_STEP_ROUTER);
    if (vr_layer_of(p)->weights_normalised) {
        vr_block sum = piece(p, p->rows * 4, VR_STEP_ROUTER);
        sums = piece(p, p->rows * 4, VR_STEP_ROUTER);
        vr_drop(p, sum);
    }
    r->weights = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->weight_width = 4;
    vr_drop(p, weights);
    vr_drop(p, sums);
    vr_drop(p, scores);
    if (!early)
        drop_choice(p, &c);
    if (early)
        vr_drop(p, r->logits);
    r->logits = early ? VR_NONE : r->logits;
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
    case VR_ROUTER_SCALED:
        route_scaled(p, r);
        return;
    case VR_ROUTER_TOP_SOFTMAX:
        route_by_best(p, r);
        return;
    default:
        route_by_softmax(p, r);
    }
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
    uint64_t matrix = at_once ? (uint64_t)l->experts * l->expert_ffn * p->m->hidden * p->width : 0;
    vr_block both = vr_bring(p, 2 * matrix, VR_STEP_EXPERT_GATE),
             down = vr_bring(p, matrix, VR_STEP_EXPERT_DOWN);
    vr_block out = run_where_they_lie(p, r);
    vr_drop(p, both);
    vr_drop(p, down);
    return out;
}

vr_block vr_experts(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    vr_routed r = { .slots = p->rows * l->experts_used };
    bool first = vr_experts_fused(p) && l->moe->shared_first_5 && l->shared_ffn != 0;
    vr_block shared = first ? shared_mlp(p) : VR_NONE;
    route(p, &r);
    vr_block out = add_shared(p, vr_experts_run(p, &r), shared);
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
    if (l->experts == 0)
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
