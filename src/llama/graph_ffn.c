/* SPDX-License-Identifier: MIT
 * Feed-forward layers, dense and of experts.
 *
 * Source: llama.cpp b10470, src/llama-graph.cpp: build_ffn, build_moe_ffn. */
#include "llama/graph.h"

static vr_t add_if(vr_lm_graph *c, vr_t t, vr_t bias)
{
    return bias != NULL ? vr_gg_add(c->g, t, bias) : t;
}

static vr_t mul_if(vr_lm_graph *c, vr_t t, vr_t scale)
{
    return scale != NULL ? vr_gg_mul(c->g, t, scale) : t;
}

/* silu(gate) * up with both kept within limits. */
static vr_t limited_swiglu(vr_lm_graph *c, vr_t gate, vr_t up)
{
    bool one = vr_str_is(c->lm->name, "deepseek4");
    if (one && c->plan->rules.clamp_apart != 0)
        return vr_gg_glu_split(c->g, gate, up, VR_GG_SWIGLU);
    up = vr_gg_clamp(c->g, up);
    if (one)
        return vr_gg_glu_split(c->g, vr_gg_clamp(c->g, gate), up, VR_GG_SWIGLU);
    gate = vr_gg_clamp(c->g, vr_gg_unary_of(c->g, gate, VR_GG_SILU));
    return vr_gg_mul(c->g, gate, up);
}

static vr_t scaled_tanh(vr_lm_graph *c, vr_t x)
{
    return vr_gg_scale(c->g, vr_gg_unary_of(c->g, vr_gg_scale(c->g, x), VR_GG_TANH));
}

static vr_t situ(vr_lm_graph *c, vr_t gate, vr_t up)
{
    double beta = 0;
    vr_t act = vr_gg_mul(c->g, scaled_tanh(c, gate), vr_gg_unary_of(c->g, gate, VR_GG_SIGMOID));
    if (vr_lm_float(c->lm, "activation.situ_linear_beta", &beta) && beta > 0)
        up = scaled_tanh(c, up);
    return vr_gg_mul(c->g, act, up);
}

/* Before build 5776: both halves of a row were copied, one of them acted on. */
static vr_t act_halves(vr_lm_graph *c, vr_t cur, vr_gg_unary act)
{
    vr_gg *g = c->g;
    uint64_t half = cur->ne[0] / 2, at = vr_mul_sat(half, vr_gg_element_size(cur));
    vr_t first = vr_gg_cont(g, vr_gg_view_2d(g, cur, half, cur->ne[1], cur->nb[1], 0));
    vr_t second = vr_gg_cont(g, vr_gg_view_2d(g, cur, half, cur->ne[1], cur->nb[1], at));
    return vr_gg_mul(g, vr_gg_unary_of(g, first, act), second);
}

static vr_t act_in_one(vr_lm_graph *c, vr_t cur, vr_gg_glu kind, vr_gg_unary act)
{
    return c->plan->rules.glu != 0 ? vr_gg_glu_of(c->g, cur, kind) : act_halves(c, cur, act);
}

/* What acts on one input. */
static vr_t act_alone(vr_lm_graph *c, vr_t cur, const vr_lm_ffn *f)
{
    vr_gg *g = c->g;
    switch (f->act) {
    case VR_LM_SILU:
        return vr_gg_unary_of(g, cur, VR_GG_SILU);
    case VR_LM_GELU:
        cur = vr_gg_unary_of(g, cur, VR_GG_GELU);
        return f->act_scales != NULL ? vr_gg_div(g, cur, f->act_scales) : cur;
    case VR_LM_RELU:
        return vr_gg_unary_of(g, cur, VR_GG_RELU);
    case VR_LM_RELU_SQR:
        return vr_gg_sqr(g, vr_gg_unary_of(g, cur, VR_GG_RELU));
    case VR_LM_SWIGLU:
        return act_in_one(c, cur, VR_GG_SWIGLU, VR_GG_SILU);
    case VR_LM_GEGLU:
        return act_in_one(c, cur, VR_GG_GEGLU, VR_GG_GELU);
    case VR_LM_REGLU:
        return act_in_one(c, cur, VR_GG_REGLU, VR_GG_RELU);
    case VR_LM_SWIGLU_OAI_MOE:
    case VR_LM_SITU:
        break;
    }
    vr_lm_broken(c, "this activation needs a gate");
    return cur;
}

/* What acts on a gate and multiplies what goes up, as one operation. */
static vr_t act_gated(vr_lm_graph *c, vr_t gate, vr_t up, const vr_lm_ffn *f)
{
    vr_gg *g = c->g;
    bool one_node = c->plan->rules.glu != 0 || f->act == VR_LM_SWIGLU_OAI_MOE;
    if (!one_node && !f->clamped)
        return vr_gg_mul(g, act_alone(c, gate, f), up);
    switch (f->act) {
    case VR_LM_SILU:
        return f->clamped ? limited_swiglu(c, gate, up) : vr_gg_glu_split(g, gate, up, VR_GG_SWIGLU);
    case VR_LM_GELU:
        return vr_gg_glu_split(g, gate, up, VR_GG_GEGLU);
    case VR_LM_RELU:
        return vr_gg_glu_split(g, gate, up, VR_GG_REGLU);
    case VR_LM_SWIGLU_OAI_MOE:
        return vr_gg_glu_split(g, gate, up, VR_GG_SWIGLU_OAI);
    case VR_LM_SITU:
        return situ(c, gate, up);
    default: /* the product is an operation of its own */
        return vr_gg_mul(g, act_alone(c, gate, f), up);
    }
}

vr_t vr_lm_build_ffn(vr_lm_graph *c, vr_t cur, const vr_lm_ffn *f)
{
    vr_t up = f->up != NULL ? vr_lm_mm(c, f->up, cur, NULL) : cur;
    up = mul_if(c, add_if(c, up, f->up_b), f->up_s);
    if (f->gate == NULL) {
        cur = act_alone(c, up, f);
    } else {
        vr_t gate = vr_lm_mm(c, f->gate, f->gating == VR_LM_FFN_SEQ ? up : cur, NULL);
        gate = mul_if(c, add_if(c, gate, f->gate_b), f->gate_s);
        cur = f->gating == VR_LM_FFN_PAR ? act_gated(c, gate, up, f) : act_alone(c, gate, f);
    }
    if (f->down != NULL)
        cur = vr_lm_mm(c, f->down, cur, NULL);
    return mul_if(c, add_if(c, cur, f->down_b), f->down_s);
}

vr_t vr_lm_ffn_simple(vr_lm_graph *c, vr_t cur, int il, vr_lm_act act, vr_lm_gating gating)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", act, gating);
    return vr_lm_build_ffn(c, cur, &f);
}

/* ---- experts ---- */

vr_lm_gate_fn vr_lm_gating_of(const vr_lm *lm, vr_lm_gate_fn otherwise)
{
    switch (vr_lm_number(lm, "expert_gating_func", 0)) {
    case 1:
        return VR_LM_SOFTMAX;
    case 2:
        return VR_LM_SIGMOID;
    case 3:
        return VR_LM_SOFTMAX_WEIGHT;
    case 4:
        return VR_LM_SQRT_SOFTPLUS;
    default:
        return otherwise;
    }
}

vr_lm_moe vr_lm_moe_of(vr_lm_graph *c, int il, vr_lm_act act, bool norm_w, vr_lm_gate_fn gating)
{
    double scale = 0;
    bool given = vr_lm_float(c->lm, "expert_weights_scale", &scale);
    return (vr_lm_moe){ .gate_inp = vr_lm_w(c, il, "ffn_gate_inp.weight"),
                        .gate_inp_b = vr_lm_opt(c, il, "ffn_gate_inp.bias"),
                        .up = vr_lm_opt(c, il, "ffn_up_exps.weight"),
                        .up_b = vr_lm_opt(c, il, "ffn_up_exps.bias"),
                        .up_s = vr_lm_ffn_scale(c, il, "ffn_up", "_exps"),
                        .gate = vr_lm_opt(c, il, "ffn_gate_exps.weight"),
                        .gate_b = vr_lm_opt(c, il, "ffn_gate_exps.bias"),
                        .gate_s = vr_lm_ffn_scale(c, il, "ffn_gate", "_exps"),
                        .gate_up = vr_lm_opt(c, il, "ffn_gate_up_exps.weight"),
                        .gate_up_b = vr_lm_opt(c, il, "ffn_gate_up_exps.bias"),
                        .down = vr_lm_w(c, il, "ffn_down_exps.weight"),
                        .down_b = vr_lm_opt(c, il, "ffn_down_exps.bias"),
                        .down_s = vr_lm_ffn_scale(c, il, "ffn_down", "_exps"),
                        .probs_b = vr_lm_opt(c, il, "exp_probs_b.bias"),
                        .n_expert = c->lm->n_expert,
                        .n_used = c->lm->n_expert_used,
                        .act = act,
                        .norm_w = norm_w,
                        .scaled = given && !(scale >= 0 && scale <= 0) && !(scale >= 1 && scale <= 1),
                        .n_groups = vr_lm_number(c->lm, "expert_group_count", 0),
                        .n_group_used = vr_lm_number(c->lm, "expert_group_used_count", 0),
                        .gating = gating };
}

static vr_t probabilities(vr_lm_graph *c, vr_t logits, vr_lm_gate_fn f)
{
    vr_gg *g = c->g;
    if (f == VR_LM_SOFTMAX)
        return vr_gg_soft_max(g, logits);
    if (f == VR_LM_SIGMOID)
        return vr_gg_unary_of(g, logits, VR_GG_SIGMOID);
    if (f == VR_LM_SQRT_SOFTPLUS)
        return vr_gg_sqrt(g, vr_gg_unary_of(g, logits, VR_GG_SOFTPLUS));
    return logits;
}

/* Only experts of the best groups stay in the choice. */
static vr_t mask_groups(vr_lm_graph *c, vr_t choice, const vr_lm_moe *m, uint64_t n_tokens)
{
    vr_gg *g = c->g;
    uint64_t each = m->n_expert / m->n_groups;
    vr_t groups = vr_gg_reshape_3d(g, choice, each, m->n_groups, n_tokens);
    vr_t best = vr_gg_argsort_top_k(g, groups, 2);
    vr_t flat = vr_gg_reshape_4d(g, groups, 1, groups->ne[0], groups->ne[1], groups->ne[2]);
    vr_t scores = vr_gg_get_rows(g, flat, best);
    scores = vr_gg_reshape_3d(g, scores, scores->ne[1], scores->ne[2], scores->ne[3]);
    scores = vr_gg_sum_rows(g, scores);
    scores = vr_gg_reshape_2d(g, scores, scores->ne[1], scores->ne[2]);
    vr_t chosen = vr_gg_argsort_top_k(g, scores, m->n_group_used);
    vr_t kept = vr_gg_get_rows(g, groups, chosen);
    kept = vr_gg_set_rows(g, vr_gg_fill(g, groups), kept, chosen);
    return vr_gg_reshape_2d(g, kept, m->n_expert, n_tokens);
}

/* The share of each expert that a token uses: [1, used, tokens]. */
static vr_t expert_weights(vr_lm_graph *c, vr_t probs, vr_t selected, const vr_lm_moe *m, uint64_t n_tokens)
{
    vr_gg *g = c->g;
    probs = vr_gg_reshape_3d(g, probs, 1, m->n_probs > 0 ? m->n_probs : m->n_expert, n_tokens);
    vr_t w = vr_gg_get_rows(g, probs, selected);
    if (m->gating == VR_LM_SOFTMAX_WEIGHT) {
        w = vr_gg_soft_max(g, vr_gg_reshape_2d(g, w, m->n_used, n_tokens));
        w = vr_gg_reshape_3d(g, w, 1, m->n_used, n_tokens);
    }
    if (m->norm_w) {
        w = vr_gg_reshape_2d(g, w, m->n_used, n_tokens);
        vr_t sum = vr_gg_sum_rows(g, w);
        w = vr_gg_div(g, w, c->plan->rules.weights_clamped != 0 ? vr_gg_clamp(g, sum) : sum);
        w = vr_gg_reshape_3d(g, w, 1, m->n_used, n_tokens);
    }
    return m->scaled ? vr_gg_scale(g, w) : w;
}

/* What the experts have between going up and down. */
static vr_t expert_inner(vr_lm_graph *c, vr_t cur, vr_t selected, const vr_lm_moe *m)
{
    vr_gg *g = c->g;
    vr_t up, gate = NULL;
    if (m->gate_up != NULL) {
        vr_t both = vr_lm_mm_id(c, m->gate_up, cur, selected, m->up_s);
        if (m->gate_up_b != NULL)
            both = vr_gg_add_id(g, both, m->gate_up_b, selected);
        uint64_t n_ff = both->ne[0] / 2;
        gate = vr_gg_view_3d(g, both, n_ff, both->ne[1], both->ne[2], both->nb[1], both->nb[2], 0);
        up = vr_gg_view_3d(g, both, n_ff, both->ne[1], both->ne[2], both->nb[1], both->nb[2],
                           vr_mul_sat(n_ff, both->nb[0]));
    } else {
        if (m->up == NULL)
            vr_lm_broken(c, "experts without ffn_up_exps");
        up = m->up != NULL ? vr_lm_mm_id(c, m->up, cur, selected, m->up_s) : cur;
        if (m->up_b != NULL)
            up = vr_gg_add_id(g, up, m->up_b, selected);
        if (m->gate != NULL)
            gate = vr_lm_mm_id(c, m->gate, cur, selected, m->gate_s);
        if (gate != NULL && m->gate_b != NULL)
            gate = vr_gg_add_id(g, gate, m->gate_b, selected);
    }
    vr_lm_ffn act = { .act = m->act, .clamped = m->clamped && m->gate != NULL };
    return gate != NULL ? act_gated(c, gate, up, &act) : act_alone(c, up, &act);
}

/* Into the graph now, where this build does not leave it to what reads it. */
static void expand_if(vr_lm_graph *c, vr_t t, uint32_t now)
{
    if (now != 0)
        vr_gg_build_forward_expand(c->g, t);
}

/* The outputs of a token's experts added up, one after the other. */
static vr_t add_experts(vr_lm_graph *c, vr_t experts, const vr_lm_moe *m, uint64_t n_embd, uint64_t n_tokens)
{
    vr_gg *g = c->g;
    vr_t *views = VR_ARRAY(c->arena, vr_t, (size_t)m->n_used);
    if (views == NULL) {
        g->failed = true;
        return experts;
    }
    for (uint64_t i = 0; i < m->n_used; i++) {
        uint64_t at = vr_mul_sat(i, experts->nb[1]);
        views[i] = vr_gg_view_2d(g, experts, n_embd, n_tokens, experts->nb[2], at);
        expand_if(c, views[i], c->plan->rules.experts_ordered);
    }
    vr_t sum = views[0];
    for (uint64_t i = 1; i < m->n_used; i++) {
        sum = vr_gg_add(g, sum, views[i]);
        expand_if(c, sum, c->plan->rules.experts_ordered);
    }
    return m->n_used == 1 ? vr_gg_cont(g, sum) : sum;
}

/* Which experts each token goes to: [used, tokens]. */
static vr_t select_experts(vr_lm_graph *c, vr_t logits, vr_t probs, const vr_lm_moe *m, uint64_t n_tokens)
{
    if (m->selected_in != NULL && m->n_groups <= 1)
        return m->selected_in;
    vr_t choice = m->probs_b != NULL ? vr_gg_add(c->g, probs, m->probs_b) : probs;
    if (m->weight_before_ffn)
        choice = logits;
    if (m->n_probs > 0)
        choice = vr_gg_unary_of(c->g, logits, VR_GG_SIGMOID);
    if (m->n_groups > 1)
        choice = mask_groups(c, choice, m, n_tokens);
    return m->selected_in != NULL ? m->selected_in : vr_gg_argsort_top_k(c->g, choice, m->n_used);
}

vr_t vr_lm_build_moe(vr_lm_graph *c, vr_t cur, const vr_lm_moe *m)
{
    vr_gg *g = c->g;
    uint64_t n_embd = cur->ne[0], n_tokens = cur->ne[1];
    if (m->n_used == 0 || m->n_expert == 0 || m->n_used > m->n_expert) {
        vr_lm_broken(c, "no experts are used, or more than there are");
        return cur;
    }
    vr_t logits = m->probs_in != NULL ? m->probs_in : vr_lm_mm(c, m->gate_inp, cur, NULL);
    logits = add_if(c, logits, m->gate_inp_b);
    vr_t probs = probabilities(c, logits, m->gating);
    vr_t selected = select_experts(c, logits, probs, m, n_tokens);
    if (m->n_probs > m->n_expert) { /* which group of experts each of them is */
        vr_t scaled = vr_gg_scale(g, vr_gg_cast(g, selected, VR_F32));
        selected = vr_gg_cast(g, scaled, VR_I32);
    }
    vr_t weights = expert_weights(c, probs, selected, m, n_tokens);
    expand_if(c, weights, c->plan->rules.weights_early);
    cur = vr_gg_reshape_3d(g, cur, n_embd, 1, n_tokens);
    if (m->weight_before_ffn)
        cur = vr_gg_mul(g, vr_gg_repeat_4d(g, cur, n_embd, m->n_used, n_tokens, 1), weights);
    cur = expert_inner(c, cur, selected, m);
    vr_t experts = vr_lm_mm_id(c, m->down, cur, selected, m->down_s);
    if (c->plan->rules.clamp_apart != 0 && vr_str_is(c->lm->name, "mistral4"))
        vr_gg_mul_mat_id_wide(experts);
    if (m->down_b != NULL)
        experts = vr_gg_add_id(g, experts, m->down_b, selected);
    if (!m->weight_before_ffn)
        experts = vr_gg_mul(g, experts, weights);
    expand_if(c, experts, c->plan->rules.experts_ordered);
    return add_experts(c, experts, m, n_embd, n_tokens);
}
