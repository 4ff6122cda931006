/* SPDX-License-Identifier: MIT
 * Experts one after the other, each over the tokens that it is hit by: all classes up to transformers 4, and
 * from 5 on with experts_implementation="eager" (modeling_*.py, forward of the *SparseMoeBlock and *Experts
 * classes). A name that the loop assigns holds its storage until the next turn assigns it anew. */
#include "engine/packed_run.h"
#include "model/experts.h"

static vr_block piece(vr_pass *p, uint64_t bytes, vr_step step)
{
    return vr_take(p, bytes, VR_ITEM_HIDDEN, step);
}

/* What the names of the loop hold. */
typedef struct turn {
    vr_block where, input, both, output;
} turn;

static bool skips_none(const vr_pass *p)
{
    return !vr_experts_fused(p) && vr_layer_of(p)->moe->loops_all;
}

/* one_hot of all slots, which experts are hit, their numbers */
static void find_hit(vr_pass *p, const vr_routed *r, vr_block *mask, vr_block *hit)
{
    uint64_t experts = vr_layer_of(p)->experts, n = experts + p->rules->masks_rarely, n_hit = 0;
    for (uint64_t i = 0; i < experts; i++)
        n_hit += vr_expert_tokens(p, i) != 0;
    *mask = piece(p, r->slots * n * 8, VR_STEP_ROUTED);
    *hit = VR_NONE;
    if (skips_none(p))
        return;
    vr_block sums = piece(p, n * 8, VR_STEP_ROUTED);
    vr_block flags = piece(p, n, VR_STEP_ROUTED);
    vr_drop(p, sums);
    *hit = piece(p, n_hit * 8, VR_STEP_ROUTED);
    vr_drop(p, flags);
}

/* A linear layer of one expert, whose weight may lie on the host. */
static vr_block listed_linear(vr_pass *p, uint64_t rows, uint64_t in, uint64_t out_width, vr_step step)
{
    if (vr_packs_experts(p))
        return vr_packed_linear(p, rows, in, out_width, false, VR_ITEM_HIDDEN, step);
    vr_block brought = vr_bring(p, in * out_width * p->width, step);
    vr_block out = piece(p, rows * out_width * p->width, step);
    vr_gemm(p, false);
    vr_drop(p, brought);
    return out;
}

/* The gated MLP of one expert with modules of its own. */
static vr_block listed_mlp(vr_pass *p, uint64_t rows)
{
    uint64_t h = p->m->hidden, ffn = vr_layer_of(p)->expert_ffn, f = rows * ffn * p->width;
    vr_block gate = listed_linear(p, rows, h, ffn, VR_STEP_EXPERT_GATE);
    vr_block act = piece(p, f, VR_STEP_EXPERT_ACT);
    vr_drop(p, gate);
    vr_block up = listed_linear(p, rows, h, ffn, VR_STEP_EXPERT_GATE);
    vr_block product = piece(p, f, VR_STEP_EXPERT_ACT);
    vr_drop(p, act);
    vr_drop(p, up);
    vr_block down = listed_linear(p, rows, ffn, h, VR_STEP_EXPERT_DOWN);
    vr_drop(p, product);
    return down;
}

/* gate, up = linear(x, gate_up_proj[i]).chunk(2): views, which hold the whole until the next turn */
static vr_block fused_mlp(vr_pass *p, turn *t, uint64_t rows)
{
    uint64_t f = rows * vr_layer_of(p)->expert_ffn * p->width;
    vr_block both = piece(p, 2 * f, VR_STEP_EXPERT_GATE);
    vr_gemm(p, false);
    vr_replace(p, &t->both, both);
    vr_block act = piece(p, f, VR_STEP_EXPERT_ACT);
    vr_block product = piece(p, f, VR_STEP_EXPERT_ACT);
    vr_drop(p, act);
    vr_replace(p, &t->output, product);
    vr_block down = piece(p, rows * p->m->hidden * p->width, VR_STEP_EXPERT_DOWN);
    vr_gemm(p, false);
    vr_replace(p, &t->output, down);
    return VR_NONE;
}

/* output * weights[tokens], narrowed when the weights are wide */
static void weigh(vr_pass *p, const vr_routed *r, turn *t, uint64_t rows, vr_block down)
{
    uint64_t n = rows * p->m->hidden;
    bool wide = r->weight_width > p->width;
    vr_block weights = piece(p, rows * r->weight_width, VR_STEP_ROUTED);
    vr_block product = piece(p, n * (wide ? 4 : p->width), VR_STEP_EXPERTS);
    vr_drop(p, weights);
    vr_drop(p, down);
    vr_replace(p, &t->output, product);
    if (wide)
        vr_drop(p, piece(p, n * p->width, VR_STEP_EXPERTS));
}

static void run_expert(vr_pass *p, const vr_routed *r, turn *t, uint64_t rows)
{
    bool fused = vr_experts_fused(p);
    bool picks = !skips_none(p); /* the expert by a number on the card: a copy of its row, or a comparison */
    vr_block index = picks ? piece(p, fused ? 1 : r->slots * 8, VR_STEP_ROUTED) : VR_NONE;
    if (fused) /* is it the class that is none? */
        vr_drop(p, index);
    vr_block where = piece(p, rows * 2 * 8, VR_STEP_ROUTED);
    if (!fused)
        vr_drop(p, index);
    vr_replace(p, &t->where, where);
    vr_replace(p, &t->input, piece(p, rows * p->m->hidden * p->width, VR_STEP_EXPERT_IN));
    vr_block down = fused ? fused_mlp(p, t, rows) : listed_mlp(p, rows);
    weigh(p, r, t, rows, down);
}

/* An expert without tokens gives the loop's names nothing to hold. */
static void let_go(vr_pass *p, turn *t)
{
    vr_replace(p, &t->where, VR_NONE);
    vr_replace(p, &t->input, VR_NONE);
    vr_replace(p, &t->output, VR_NONE);
}

vr_block vr_experts_loop(vr_pass *p, vr_routed *r)
{
    turn t = { VR_NONE, VR_NONE, VR_NONE, VR_NONE };
    vr_block mask, hit;
    vr_block out = piece(p, p->rows * p->m->hidden * p->width, VR_STEP_EXPERTS);
    find_hit(p, r, &mask, &hit);
    for (uint64_t i = 0; i < vr_layer_of(p)->experts; i++) {
        uint64_t rows = vr_expert_tokens(p, i);
        if (rows != 0)
            run_expert(p, r, &t, rows);
        else if (skips_none(p))
            let_go(p, &t);
    }
    const vr_block rest[] = { mask, hit, t.where, t.input, t.both, t.output };
    r->n_held = vr_experts_fused(p) ? 0 : sizeof(rest) / sizeof(rest[0]);
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
        if (r->n_held != 0)
            r->held[i] = rest[i];
        else
            vr_drop(p, rest[i]);
    }
    return out;
}

/* DeepseekV3MoE.moe of transformers 4 and those like it: over all experts, whether they are hit or not, and
 * added up in the weights' dtype. */
vr_block vr_experts_loop_all(vr_pass *p, const vr_routed *r)
{
    turn t = { VR_NONE, VR_NONE, VR_NONE, VR_NONE };
    vr_block weights = VR_NONE, down = VR_NONE;
    uint64_t h = p->m->hidden, experts = vr_layer_of(p)->experts;
    vr_block sum = piece(p, p->rows * h * r->weight_width, VR_STEP_EXPERTS);
    vr_block mask = piece(p, r->slots * experts * 8, VR_STEP_ROUTED);
    for (uint64_t i = 0; i < experts; i++) {
        uint64_t rows = vr_expert_tokens(p, i);
        vr_replace(p, &t.where, rows != 0 ? piece(p, rows * 2 * 8, VR_STEP_ROUTED) : VR_NONE);
        if (rows == 0)
            continue;
        vr_replace(p, &weights, piece(p, rows * r->weight_width, VR_STEP_ROUTED));
        vr_replace(p, &t.input, piece(p, rows * h * p->width, VR_STEP_EXPERT_IN));
        vr_replace(p, &down, listed_mlp(p, rows));
        vr_replace(p, &t.output, piece(p, rows * h * 4, VR_STEP_EXPERTS));
    }
    vr_block out = p->width != 4 ? piece(p, p->rows * h * p->width, VR_STEP_EXPERTS) : sum;
    vr_block rest[] = { out != sum ? sum : VR_NONE, mask, t.where, weights, t.input, down, t.output };
    vr_drop_all(p, rest, sizeof(rest) / sizeof(rest[0]));
    return out;
}
