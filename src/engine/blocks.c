/* SPDX-License-Identifier: MIT
 * The MLP of the plain decoders (modeling_llama.py, modeling_phi3.py, modeling_phi.py, modeling_arcee.py).
 */
#include "engine/experts.h"

static vr_block activation(vr_pass *p)
{
    return vr_take(p, p->rows * vr_layer_of(p)->ffn * p->width, VR_ITEM_HIDDEN, VR_STEP_ACT);
}

static vr_block instead(vr_pass *p, vr_block old)
{
    vr_block x = activation(p);
    vr_drop(p, old);
    return x;
}

/* 0.5 * x * (1.0 + tanh(c * (x + 0.044715 * pow(x, 3.0)))) (activations.py, NewGELUActivation) */
static vr_block gelu_new(vr_pass *p)
{
    vr_block half = activation(p);
    vr_block x = activation(p); /* the power */
    for (int i = 0; i < 5; i++) /* times a number, plus x, times c, tanh, plus 1 */
        x = instead(p, x);
    vr_block out = activation(p);
    vr_drop(p, half);
    vr_drop(p, x);
    return out;
}

/* x * 0.5 * (1.0 + tanh(c * x * (1 + 0.044715 * x * x))) (modeling_bloom.py, bloom_gelu_forward) */
static vr_block gelu_bloom(vr_pass *p)
{
    vr_block half = activation(p), times = activation(p);
    vr_block x = activation(p); /* times a number */
    for (int i = 0; i < 2; i++) /* times x, plus 1 */
        x = instead(p, x);
    x = instead(p, x); /* the product of both */
    vr_drop(p, times);
    for (int i = 0; i < 2; i++) /* tanh, plus 1 */
        x = instead(p, x);
    vr_block out = instead(p, x);
    vr_drop(p, half);
    return out;
}

vr_block vr_activate(vr_pass *p)
{
    switch (p->m->activation) {
    case VR_ACT_GELU_NEW:
        return gelu_new(p);
    case VR_ACT_BLOOM:
        return gelu_bloom(p);
    case VR_ACT_RELU2:
        return instead(p, activation(p));
    default:
        return activation(p);
    }
}

/* down_proj(act_fn(gate_proj(x)) * up_proj(x)) */
static vr_block mlp_gated(vr_pass *p)
{
    uint64_t h = p->m->hidden, f = vr_layer_of(p)->ffn, bytes = p->rows * f * p->width;
    vr_block gate = vr_linear(p, h, f, p->m->mlp_bias, VR_ITEM_HIDDEN, VR_STEP_GATE);
    vr_block act = vr_activate(p);
    vr_drop(p, gate);
    vr_block up = vr_linear(p, h, f, p->m->mlp_bias, VR_ITEM_HIDDEN, VR_STEP_UP);
    vr_block product = vr_take(p, bytes, VR_ITEM_HIDDEN, VR_STEP_PRODUCT);
    vr_drop(p, act);
    vr_drop(p, up);
    vr_block down = vr_linear(p, f, h, p->m->mlp_bias, VR_ITEM_HIDDEN, VR_STEP_DOWN);
    vr_drop(p, product);
    return down;
}

/* gate, up = gate_up_proj(x).chunk(2): views, which hold the whole until the module returns */
static vr_block mlp_fused(vr_pass *p)
{
    uint64_t h = p->m->hidden, f = vr_layer_of(p)->ffn, bytes = p->rows * f * p->width;
    vr_block both = vr_linear(p, h, 2 * f, false, VR_ITEM_HIDDEN, VR_STEP_GATE_UP);
    vr_block act = vr_activate(p);
    vr_block product = vr_take(p, bytes, VR_ITEM_HIDDEN, VR_STEP_PRODUCT);
    vr_drop(p, act);
    vr_block down = vr_linear(p, f, h, false, VR_ITEM_HIDDEN, VR_STEP_DOWN);
    vr_drop(p, product);
    vr_drop(p, both);
    return down;
}

/* down_proj(act_fn(up_proj(x))) */
static vr_block mlp_plain(vr_pass *p)
{
    uint64_t h = p->m->hidden, f = vr_layer_of(p)->ffn;
    vr_block up = vr_linear(p, h, f, p->m->mlp_bias, VR_ITEM_HIDDEN, VR_STEP_UP);
    if (p->m->family->inline_mlp) { /* the same variable holds what goes in and what comes out */
        vr_drop(p, p->mlp_input);
        p->mlp_input = VR_NONE;
    }
    vr_block act = vr_activate(p);
    vr_drop(p, up);
    vr_block down = vr_linear(p, f, h, p->m->mlp_bias, VR_ITEM_HIDDEN, VR_STEP_DOWN);
    vr_drop(p, act);
    return down;
}

vr_block vr_mlp(vr_pass *p)
{
    switch (vr_layer_of(p)->mlp) {
    case VR_MLP_EXPERTS:
        return vr_experts(p);
    case VR_MLP_GATED_FUSED:
        return mlp_fused(p);
    case VR_MLP_PLAIN:
        return mlp_plain(p);
    default:
        return mlp_gated(p);
    }
}
