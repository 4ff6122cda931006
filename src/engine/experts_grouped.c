/* SPDX-License-Identifier: MIT
 * Experts of transformers 5 in one product over all: torch's grouped product of tokens sorted by expert, and
 * a batch of matrices picked for each token (integrations/moe.py, grouped_mm_experts_forward and
 * batched_mm_experts_forward). */
#include "engine/experts.h"
#include "model/experts.h"

static vr_block piece(vr_pass *p, uint64_t bytes, vr_step step)
{
    return vr_take(p, bytes, VR_ITEM_HIDDEN, step);
}

static uint64_t widest_weight(const vr_pass *p, const vr_routed *r)
{
    return r->weight_width > p->width ? r->weight_width : p->width;
}

/* What no expert of this process takes is set to 0 in a copy, in some versions always. */
static vr_block masked(vr_pass *p, vr_block x, uint64_t bytes, vr_step step)
{
    if (!p->rules->masks_experts || p->rules->masks_rarely)
        return x;
    vr_block copy = piece(p, bytes, step);
    vr_drop(p, x);
    return copy;
}

/* .view(tokens, used, hidden).sum(dim=1), narrowed where the weights are wide */
static vr_block summed(vr_pass *p, const vr_routed *r)
{
    uint64_t n = p->rows * vr_expert_hidden(p);
    vr_block sum = piece(p, n * widest_weight(p, r), VR_STEP_EXPERTS);
    if (r->weight_width <= p->width)
        return sum;
    vr_block narrow = piece(p, n * p->width, VR_STEP_EXPERTS);
    vr_drop(p, sum);
    return narrow;
}

static vr_block gate(vr_pass *p, uint64_t rows, vr_block both)
{
    if (!vr_layer_of(p)->moe->clamped)
        return vr_expert_gate(p, rows, both);
    vr_block out = vr_expert_gate_clamped(p, rows);
    vr_drop(p, both);
    return out;
}

typedef struct sorted {
    vr_block ids, order, input, weights, counted, counts, offsets, mask;
} sorted;

/* sort, hidden_states[order // used], weights[order], histc of the ids in 32 bits, cumsum */
static sorted sort_by_expert(vr_pass *p, const vr_routed *r)
{
    const vr_layer *l = vr_layer_of(p);
    sorted s;
    s.ids = piece(p, r->slots * 8, VR_STEP_ROUTED);
    s.order = piece(p, r->slots * 8, VR_STEP_ROUTED);
    vr_block tokens = piece(p, r->slots * 8, VR_STEP_ROUTED);
    s.input = piece(p, r->slots * vr_expert_hidden(p) * p->width, VR_STEP_EXPERT_IN);
    vr_drop(p, tokens);
    s.weights = piece(p, r->slots * r->weight_width, VR_STEP_ROUTED);
    s.counted = piece(p, r->slots * 4, VR_STEP_ROUTED);
    s.counts = piece(p, (uint64_t)l->experts * 4, VR_STEP_ROUTED);
    s.offsets = piece(p, (uint64_t)l->experts * 4, VR_STEP_ROUTED);
    s.mask = p->rules->masks_rarely ? VR_NONE : piece(p, r->slots, VR_STEP_ROUTED);
    return s;
}

static vr_block grouped_product(vr_pass *p, uint64_t bytes, vr_step step)
{
    vr_block out = piece(p, bytes, step);
    vr_gemm(p, false);
    return masked(p, out, bytes, step);
}

vr_block vr_experts_grouped(vr_pass *p, const vr_routed *r)
{
    uint64_t h = r->slots * vr_expert_hidden(p), f = r->slots * vr_layer_of(p)->expert_ffn;
    uint64_t first = (vr_layer_of(p)->moe->gate != NULL ? 2 : 1) * f; /* gates and ups, or ups alone */
    sorted s = sort_by_expert(p, r);
    bool biased = vr_layer_of(p)->moe->biased; /* the biases of each token's expert, picked */
    vr_block bias = biased ? piece(p, first * p->width, VR_STEP_EXPERT_GATE) : VR_NONE;
    vr_block both = grouped_product(p, first * p->width, VR_STEP_EXPERT_GATE);
    vr_block gated = gate(p, r->slots, both);
    vr_block bias_down = biased ? piece(p, h * p->width, VR_STEP_EXPERT_DOWN) : VR_NONE;
    vr_drop(p, bias);
    vr_block down = piece(p, h * p->width, VR_STEP_EXPERT_DOWN);
    vr_gemm(p, false);
    vr_drop(p, gated);
    down = masked(p, down, h * p->width, VR_STEP_EXPERT_DOWN);
    vr_block weighted = piece(p, h * widest_weight(p, r), VR_STEP_EXPERTS);
    vr_block back = piece(p, r->slots * 8, VR_STEP_ROUTED);
    vr_drop(p, piece(p, r->slots * 8, VR_STEP_ROUTED)); /* arange */
    vr_block in_order = piece(p, h * widest_weight(p, r), VR_STEP_EXPERTS);
    vr_drop(p, weighted);
    vr_block out = summed(p, r);
    vr_block rest[] = { s.ids,     s.order, s.input, s.weights, s.counted, s.counts,
                        s.offsets, s.mask,  down,    in_order,  back,      bias_down };
    vr_drop_all(p, rest, sizeof(rest) / sizeof(rest[0]));
    return out;
}

/* gate_up_proj[expert_ids]: the matrices of a token's experts, copied for each token */
vr_block vr_experts_batched(vr_pass *p, const vr_routed *r)
{
    uint64_t hidden = vr_expert_hidden(p), ffn = vr_layer_of(p)->expert_ffn;
    uint64_t h = r->slots * hidden, f = r->slots * ffn, first = vr_layer_of(p)->moe->gate != NULL ? 2 : 1;
    vr_block input = piece(p, h * p->width, VR_STEP_EXPERT_IN);
    vr_block ids = p->rules->masks_rarely ? VR_NONE : piece(p, r->slots * 8, VR_STEP_ROUTED);
    vr_block picked = piece(p, first * f * hidden * p->width, VR_STEP_EXPERT_GATE);
    vr_block both = piece(p, first * f * p->width, VR_STEP_EXPERT_GATE);
    vr_gemm(p, false);
    vr_block gated = vr_expert_gate(p, r->slots, both);
    vr_block picked_down = piece(p, r->slots * hidden * ffn * p->width, VR_STEP_EXPERT_DOWN);
    vr_drop(p, picked);
    vr_block down = piece(p, h * p->width, VR_STEP_EXPERT_DOWN);
    vr_gemm(p, false);
    vr_drop(p, gated);
    vr_block weighted = piece(p, h * widest_weight(p, r), VR_STEP_EXPERTS);
    vr_block out = summed(p, r);
    vr_block rest[] = { input, ids, picked_down, down, weighted };
    vr_drop_all(p, rest, sizeof(rest) / sizeof(rest[0]));
    return out;
}

/* As vr_expert_gate_clamped, in the function itself: its names hold theirs until it returns. */
static vr_block clamped_at_once(vr_pass *p, uint64_t bytes, vr_block held[3])
{
    held[0] = piece(p, bytes, VR_STEP_EXPERT_ACT);
    held[1] = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_block scaled = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_block sigmoid = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_drop(p, scaled);
    held[2] = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_drop(p, sigmoid);
    vr_block more = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_block product = piece(p, bytes, VR_STEP_EXPERT_ACT);
    vr_drop(p, more);
    return product;
}

/* GptOssExperts of transformers 4 on a card (on a CPU it loops): every token by every expert. */
vr_block vr_experts_at_once(vr_pass *p, const vr_routed *r)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t rows = p->rows * l->experts, h = rows * p->m->hidden * p->width;
    uint64_t f = rows * l->expert_ffn * p->width;
    (void)r;
    vr_block input = piece(p, h, VR_STEP_EXPERT_IN);
    vr_block product = piece(p, 2 * f, VR_STEP_EXPERT_GATE);
    vr_gemm(p, false);
    vr_block both = piece(p, 2 * f, VR_STEP_EXPERT_GATE);
    vr_drop(p, product);
    vr_block held[3];
    vr_block gated = clamped_at_once(p, f, held);
    vr_block down = piece(p, h, VR_STEP_EXPERT_DOWN);
    vr_gemm(p, false);
    vr_drop(p, gated);
    for (int i = 0; i < 2; i++) { /* the bias, the weights */
        vr_replace(p, &down, piece(p, h, VR_STEP_EXPERT_DOWN));
    }
    vr_block out = piece(p, p->rows * p->m->hidden * p->width, VR_STEP_EXPERTS);
    vr_block rest[] = { down, input, both, held[0], held[1], held[2] };
    vr_drop_all(p, rest, sizeof(rest) / sizeof(rest[0]));
    return out;
}
