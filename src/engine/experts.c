/* SPDX-License-Identifier: MIT
 * A block of experts: the experts, the shared ones beside them (the *SparseMoeBlock and
 * *TopKRouter classes of modeling_*.py). From transformers 5 on a class has all its experts in one tensor and
 * runs them by torch's grouped product unless it is told otherwise (integrations/moe.py;
 * modeling_utils.py, get_correct_experts_implementation); up to 4 each expert that is hit runs for itself.
 *
 * Which expert takes which token is known to nobody beforehand. The grouped product's storages do not depend
 * on it. Those of a loop do: --expert-load says whether tokens are spread evenly or all go to the same.
 *
 * Small temporary buffers of CUDA's sort, nonzero, histc and cumsum, some KiB, are left out. */
#include "engine/packed_run.h"
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
    if (vr_experts_fused(p) && vr_packs_experts(p))
        return vr_packed_experts(p, r);
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
    if (vr_packs_block(p))
        return vr_packed_block(p);
    if (l->moe->router == VR_ROUTER_TOP_SIGMOID)
        return every_expert(p);
    vr_routed r = { .slots = p->rows * l->experts_used };
    bool first = vr_experts_fused(p) && l->moe->shared_first_5 && l->shared_ffn != 0;
    vr_block shared = first ? shared_mlp(p) : VR_NONE;
    vr_route(p, &r);
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
