/* SPDX-License-Identifier: MIT
 * Normalisation and the MLP of the plain decoders (modeling_llama.py, modeling_gemma2.py, modeling_phi3.py).
 */
#include "engine/pass.h"

typedef struct norm_of {
    vr_pass *p;
    uint64_t rows, size;
    uint32_t label;
} norm_of;

static vr_block piece(const norm_of *n, uint64_t bytes)
{
    return vr_take_labelled(n->p, bytes, VR_ITEM_HIDDEN, n->label);
}

static bool narrow(const norm_of *n)
{
    return n->p->width != 4; /* 16 bits: computed in copies of 32 */
}

/* x * rsqrt(mean(x^2) + eps) in fp32. keep_mean: a variable holds the mean until the function returns. */
static vr_block normalise(const norm_of *n, bool keep_mean, vr_block *mean)
{
    uint64_t wide = n->rows * n->size * 4, row = n->rows * 4;
    vr_block x = narrow(n) ? piece(n, wide) : VR_NONE;
    vr_block square = piece(n, wide);
    *mean = piece(n, row);
    vr_drop(n->p, square);
    vr_block sum = piece(n, row);
    if (!keep_mean)
        vr_drop(n->p, *mean);
    vr_block root = piece(n, row);
    vr_drop(n->p, sum);
    vr_block scaled = piece(n, wide);
    vr_drop(n->p, root);
    vr_drop(n->p, x);
    return scaled;
}

/* LlamaRMSNorm: weight * scaled.to(input dtype) */
static vr_block norm_rms(const norm_of *n, vr_block *mean)
{
    uint64_t bytes = n->rows * n->size * n->p->width;
    vr_block scaled = normalise(n, true, mean);
    vr_block cast = narrow(n) ? piece(n, bytes) : VR_NONE;
    vr_block out = piece(n, bytes);
    vr_drop(n->p, cast);
    vr_drop(n->p, scaled);
    return out;
}

vr_block vr_norm_kept(vr_pass *p, uint64_t rows, uint64_t size, vr_step step, vr_block *variance)
{
    return norm_rms(&(norm_of){ p, rows, size, vr_pass_label(p, step) }, variance);
}

/* Gemma2RMSNorm: (scaled * (1.0 + weight.float())).type_as(x) */
static vr_block norm_gemma(const norm_of *n)
{
    vr_block mean;
    vr_block scaled = normalise(n, false, &mean);
    vr_block weight = narrow(n) ? piece(n, n->size * 4) : VR_NONE;
    vr_block one_more = piece(n, n->size * 4);
    vr_drop(n->p, weight);
    vr_block out = piece(n, n->rows * n->size * 4);
    vr_drop(n->p, one_more);
    vr_drop(n->p, scaled);
    if (!narrow(n))
        return out;
    vr_block cast = piece(n, n->rows * n->size * n->p->width);
    vr_drop(n->p, out);
    return cast;
}

static vr_block norm(const norm_of *n)
{
    vr_block mean;
    if (n->p->m->family->norm == VR_NORM_RMS_GEMMA)
        return norm_gemma(n);
    vr_block out = norm_rms(n, &mean);
    vr_drop(n->p, mean);
    return out;
}

vr_block vr_norm(vr_pass *p, uint64_t rows, uint64_t size, vr_step step)
{
    vr_block weight = vr_bring(p, size * p->width, step);
    vr_block out = norm(&(norm_of){ p, rows, size, vr_pass_label(p, step) });
    vr_drop(p, weight);
    return out;
}

vr_block vr_norm_at(vr_pass *p, uint64_t rows, uint64_t size, vr_place place)
{
    vr_block weight = vr_bring_at(p, size * p->width, place);
    vr_block out = norm(&(norm_of){ p, rows, size, vr_place_label(p, place) });
    vr_drop(p, weight);
    return out;
}

/* down_proj(act_fn(gate_proj(x)) * up_proj(x)) */
static vr_block mlp_gated(vr_pass *p)
{
    uint64_t h = p->m->hidden, f = vr_layer_of(p)->ffn, bytes = p->rows * f * p->width;
    vr_block gate = vr_linear(p, h, f, p->m->mlp_bias, VR_ITEM_HIDDEN, VR_STEP_GATE);
    vr_block act = vr_take(p, bytes, VR_ITEM_HIDDEN, VR_STEP_ACT);
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
    vr_block act = vr_take(p, bytes, VR_ITEM_HIDDEN, VR_STEP_ACT);
    vr_block product = vr_take(p, bytes, VR_ITEM_HIDDEN, VR_STEP_PRODUCT);
    vr_drop(p, act);
    vr_block down = vr_linear(p, f, h, false, VR_ITEM_HIDDEN, VR_STEP_DOWN);
    vr_drop(p, product);
    vr_drop(p, both);
    return down;
}

vr_block vr_mlp(vr_pass *p)
{
    switch (vr_layer_of(p)->mlp) {
    case VR_MLP_EXPERTS:
        return vr_experts(p);
    case VR_MLP_GATED_FUSED:
        return mlp_fused(p);
    default:
        return mlp_gated(p);
    }
}
