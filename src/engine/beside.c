/* SPDX-License-Identifier: MIT
 * What Gemma 4 has beside a plain decoder (modeling_gemma4.py of transformers 5.17 and 5.24): embeddings of
 * the layers' own, experts on the MLP's input, and layers that need the last token only. */
#include "engine/experts.h"

static vr_block piece(vr_pass *p, uint64_t bytes, vr_step step)
{
    return vr_take(p, bytes, VR_ITEM_HIDDEN, step);
}

static vr_block sum(vr_pass *p, vr_step step)
{
    return piece(p, p->rows * p->m->hidden * p->width, step);
}

/* ---- the layers' own embeddings ---- */

static vr_block side(vr_pass *p)
{
    uint64_t n = p->m->n_layers * p->m->layers[0].side_width;
    return vr_take_at(p, p->rows * n * p->width, VR_ITEM_HIDDEN, VR_PLACE_SIDE);
}

static vr_block instead(vr_pass *p, vr_block x)
{
    vr_block next = side(p);
    vr_drop(p, x);
    return next;
}

/* get_per_layer_inputs, project_per_layer_inputs: (norm(project(embeddings) * a) + own * b) * c */
vr_block vr_side_inputs(vr_pass *p)
{
    uint64_t width = p->m->n_layers != 0 ? p->m->layers[0].side_width : 0;
    if (width == 0)
        return VR_NONE;
    vr_block own = instead(p, side(p));
    vr_block projected = side(p);
    vr_gemm(p, false);
    projected = instead(p, projected);
    vr_block normed = vr_norm_at(p, p->rows * p->m->n_layers, width, VR_PLACE_SIDE);
    vr_drop(p, projected);
    vr_block out = instead(p, side(p));
    vr_drop(p, normed);
    vr_drop(p, own);
    return out;
}

/* residual + norm(project(act_fn(gate(x)) * own)) */
vr_block vr_side_add(vr_pass *p)
{
    uint64_t h = p->m->hidden, width = vr_layer_of(p)->side_width, bytes = p->rows * width * p->width;
    vr_block gate = vr_linear(p, h, width, false, VR_ITEM_HIDDEN, VR_STEP_SIDE);
    vr_block act = piece(p, bytes, VR_STEP_SIDE);
    vr_drop(p, gate);
    vr_block product = piece(p, bytes, VR_STEP_SIDE);
    vr_drop(p, act);
    vr_block projected = vr_linear(p, width, h, false, VR_ITEM_HIDDEN, VR_STEP_SIDE);
    vr_drop(p, product);
    vr_block normed = vr_norm(p, p->rows, h, VR_STEP_SIDE);
    vr_drop(p, projected);
    vr_block out = sum(p, VR_STEP_OUTPUT);
    vr_drop(p, normed);
    return out;
}

/* ---- experts ---- */

/* Gemma4TextRouter: softmax of what is normalised, times a vector, times a number. */
static vr_block route(vr_pass *p, vr_routed *r)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t all = p->rows * l->experts * 4;
    vr_block normed = vr_norm_bare(p, p->rows, p->m->hidden, VR_STEP_ROUTER);
    vr_block times = sum(p, VR_STEP_ROUTER), input = sum(p, VR_STEP_ROUTER);
    vr_drop(p, times);
    vr_drop(p, normed);
    r->logits = vr_linear(p, p->m->hidden, l->experts, false, VR_ITEM_HIDDEN, VR_STEP_ROUTER);
    vr_block wide = p->w->dtype == VR_BF16 ? piece(p, all, VR_STEP_ROUTER) : VR_NONE;
    vr_block probabilities = piece(p, all, VR_STEP_ROUTER);
    vr_drop(p, wide);
    vr_block best = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->indices = piece(p, r->slots * 8, VR_STEP_ROUTER);
    vr_drop(p, piece(p, p->rows * 4, VR_STEP_ROUTER)); /* their sum */
    vr_block numbers = piece(p, r->slots * p->width, VR_STEP_ROUTER);
    r->weights = piece(p, r->slots * 4, VR_STEP_ROUTER);
    r->weight_width = 4;
    vr_drop(p, numbers);
    vr_drop(p, best);
    vr_drop(p, r->logits);
    vr_drop(p, input);
    return probabilities;
}

vr_block vr_experts_beside(vr_pass *p, vr_block fed, vr_block *weights)
{
    uint64_t h = p->m->hidden;
    vr_routed r = { .slots = p->rows * vr_layer_of(p)->experts_used };
    vr_block first = vr_norm(p, p->rows, h, VR_STEP_NORM_AFTER);
    vr_block probabilities = route(p, &r);
    vr_drop(p, *weights);
    *weights = probabilities;
    vr_block input = vr_norm(p, p->rows, h, VR_STEP_NORM_BEFORE);
    vr_block routed = vr_experts_run(p, &r);
    vr_drop(p, input);
    vr_block second = vr_norm(p, p->rows, h, VR_STEP_NORM_AFTER);
    vr_drop(p, routed);
    vr_block both = sum(p, VR_STEP_EXPERTS);
    vr_drop(p, fed);
    p->beside[0] = first;
    p->beside[1] = second;
    p->beside[2] = r.indices;
    p->beside[3] = r.weights;
    return both;
}

/* ---- layers that keep nothing ---- */

/* _maybe_slice_kv_shared_inputs: views of the last token, unless logits of all are asked for. */
void vr_leave_out(vr_pass *p)
{
    bool begins = vr_layer_of(p)->kv_from != 0 && p->layer != 0 && p->m->layers[p->layer - 1].kv_from == 0;
    if (!p->rules->leaves_out || !begins || p->w->logits == VR_LOGITS_ALL || p->w->attention == VR_IMPL_FLASH)
        return;
    p->skipped = p->q - 1;
    p->q = 1;
    p->rows = p->batch;
}
