/* SPDX-License-Identifier: MIT
 * Normalisation, one function a kind of data/architectures.tsv (modeling_llama.py, modeling_gemma2.py,
 * modeling_olmo.py, modeling_olmo2.py, modeling_cohere.py, modeling_helium.py, modeling_nemotron.py; ATen
 * layer_norm_kernel.cu). */
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

/* A whole input, in 32 bits or as it came; a number a row in 32 bits. */
static vr_block wide(const norm_of *n)
{
    return piece(n, n->rows * n->size * 4);
}

static vr_block same(const norm_of *n)
{
    return piece(n, n->rows * n->size * n->p->width);
}

static vr_block row(const norm_of *n)
{
    return piece(n, n->rows * 4);
}

static bool narrow(const norm_of *n)
{
    return n->p->width != 4; /* 16 bits: computed in copies of 32 */
}

/* The result in the input's width; drops the wide one. */
static vr_block narrowed(const norm_of *n, vr_block x)
{
    if (!narrow(n))
        return x;
    vr_block cast = same(n);
    vr_drop(n->p, x);
    return cast;
}

/* x * rsqrt(mean(x^2) + eps) in fp32. keep_mean: a variable holds the mean until the function returns. */
static vr_block normalise(const norm_of *n, bool keep_mean, vr_block *mean)
{
    vr_block x = narrow(n) ? wide(n) : VR_NONE;
    vr_block square = wide(n);
    *mean = row(n);
    vr_drop(n->p, square);
    vr_block sum = row(n);
    if (!keep_mean)
        vr_drop(n->p, *mean);
    vr_block root = row(n);
    vr_drop(n->p, sum);
    vr_block scaled = wide(n);
    vr_drop(n->p, root);
    vr_drop(n->p, x);
    return scaled;
}

/* LlamaRMSNorm: weight * scaled.to(input dtype) */
static vr_block norm_rms(const norm_of *n, vr_block *mean)
{
    vr_block scaled = normalise(n, true, mean);
    vr_block cast = narrow(n) ? same(n) : VR_NONE;
    vr_block out = same(n);
    vr_drop(n->p, cast);
    vr_drop(n->p, scaled);
    return out;
}

vr_block vr_norm_kept(vr_pass *p, uint64_t rows, uint64_t size, vr_step step, vr_block *variance)
{
    return norm_rms(&(norm_of){ p, rows, size, vr_pass_label(p, step) }, variance);
}

static vr_block norm_rms_alone(const norm_of *n)
{
    vr_block mean, out = norm_rms(n, &mean);
    vr_drop(n->p, mean);
    return out;
}

/* Gemma2RMSNorm: (scaled * (1.0 + weight.float())).type_as(x) */
static vr_block norm_gemma(const norm_of *n)
{
    vr_block mean;
    vr_block scaled = normalise(n, false, &mean);
    vr_block weight = narrow(n) ? piece(n, n->size * 4) : VR_NONE;
    vr_block one_more = piece(n, n->size * 4);
    vr_drop(n->p, weight);
    vr_block out = wide(n);
    vr_drop(n->p, one_more);
    vr_drop(n->p, scaled);
    return narrowed(n, out);
}

/* Olmo2RMSNorm: (weight * scaled).to(input dtype); Helium widens the weight first */
static vr_block norm_late(const norm_of *n, bool widens)
{
    vr_block mean;
    vr_block scaled = normalise(n, true, &mean);
    vr_block weight = widens && narrow(n) ? piece(n, n->size * 4) : VR_NONE;
    vr_block out = wide(n);
    vr_drop(n->p, weight);
    out = narrowed(n, out);
    vr_drop(n->p, scaled);
    vr_drop(n->p, mean);
    return out;
}

/* Llama4TextRMSNorm: (x * rsqrt(mean(x^2) + eps)).type_as(x) * weight; Llama4TextL2Norm has no weight */
static vr_block norm_chained(const norm_of *n, bool weighted)
{
    vr_block mean, cast = narrowed(n, normalise(n, false, &mean));
    if (!weighted)
        return cast;
    vr_block out = same(n);
    vr_drop(n->p, cast);
    return out;
}

/* Gemma4RMSNorm: (x * pow(mean(x^2) + eps, -0.5) * weight.float()).type_as(x), or without a weight */
static vr_block norm_power(const norm_of *n, bool weighted)
{
    vr_pass *p = n->p;
    vr_block x = narrow(n) ? wide(n) : VR_NONE, square = wide(n), mean = row(n);
    vr_drop(p, square);
    vr_block sum = row(n);
    vr_drop(p, mean);
    vr_block root = row(n), out = wide(n);
    vr_drop(p, root);
    vr_drop(p, sum);
    vr_drop(p, x);
    if (weighted) {
        vr_block weight = narrow(n) ? piece(n, n->size * 4) : VR_NONE, product = wide(n);
        vr_drop(p, weight);
        vr_drop(p, out);
        out = product;
    }
    return narrowed(n, out);
}

/* torch's own: the result, then mean and reciprocal deviation of each row in 32 bits */
static vr_block native(const norm_of *n, vr_block (*result)(const norm_of *n))
{
    vr_block out = result(n);
    vr_block mean = vr_take_at(n->p, n->rows * 4, VR_ITEM_HIDDEN, VR_PLACE_STATISTICS);
    vr_block deviation = vr_take_at(n->p, n->rows * 4, VR_ITEM_HIDDEN, VR_PLACE_STATISTICS);
    vr_drop(n->p, deviation);
    vr_drop(n->p, mean);
    return out;
}

/* NemotronLayerNorm1P: with weight + 1 */
static vr_block norm_one_more(const norm_of *n)
{
    vr_block weight = piece(n, n->size * n->p->width);
    vr_block out = native(n, same);
    vr_drop(n->p, weight);
    return out;
}

/* OlmoLayerNorm: F.layer_norm(x.to(float32), ...).to(input dtype) */
static vr_block norm_bare(const norm_of *n)
{
    vr_block x = narrow(n) ? wide(n) : VR_NONE;
    vr_block out = native(n, wide);
    vr_drop(n->p, x);
    return narrowed(n, out);
}

/* CohereLayerNorm: (weight.float() * ((x - mean) * rsqrt(((x - mean)^2).mean() + eps))).to(input dtype) */
static vr_block norm_cohere(const norm_of *n)
{
    vr_pass *p = n->p;
    vr_block x = narrow(n) ? wide(n) : VR_NONE;
    vr_block mean = row(n), centred = wide(n), square = wide(n);
    vr_drop(p, centred);
    vr_block variance = row(n);
    vr_drop(p, square);
    vr_block around = wide(n), sum = row(n), root = row(n);
    vr_drop(p, sum);
    vr_block scaled = wide(n);
    vr_drop(p, around);
    vr_drop(p, root);
    vr_drop(p, x);
    vr_block weight = narrow(n) ? piece(n, n->size * 4) : VR_NONE;
    vr_block out = wide(n);
    vr_drop(p, weight);
    vr_drop(p, scaled);
    out = narrowed(n, out);
    vr_drop(p, variance);
    vr_drop(p, mean);
    return out;
}

static vr_block of_kind(const norm_of *n)
{
    switch (n->p->m->family->norm) {
    case VR_NORM_RMS_GEMMA:
        return norm_gemma(n);
    case VR_NORM_RMS_LATE:
        return norm_late(n, false);
    case VR_NORM_RMS_LATE_WIDE:
        return norm_late(n, true);
    case VR_NORM_RMS_POWER:
        return norm_power(n, true);
    case VR_NORM_RMS_CHAINED:
        return norm_chained(n, true);
    case VR_NORM_LAYER:
    case VR_NORM_LAYER_WEIGHT:
        return native(n, same);
    case VR_NORM_LAYER_BARE:
        return norm_bare(n);
    case VR_NORM_LAYER_COHERE:
        return norm_cohere(n);
    case VR_NORM_LAYER_1P:
        return norm_one_more(n);
    default:
        if (n->p->m->family->norm_widened && n->p->rules->norms_widened)
            return norm_late(n, true);
        return norm_rms_alone(n);
    }
}

/* Elements of the norm's weight and bias. */
static uint64_t elements(const norm_of *n)
{
    switch (n->p->m->family->norm) {
    case VR_NORM_LAYER:
    case VR_NORM_LAYER_1P:
        return 2 * n->size;
    case VR_NORM_LAYER_BARE:
    case VR_NORM_RMS_BARE:
        return 0;
    default:
        return n->size;
    }
}

vr_block vr_norm(vr_pass *p, uint64_t rows, uint64_t size, vr_step step)
{
    const norm_of n = { p, rows, size, vr_pass_label(p, step) };
    vr_block weight = vr_bring(p, elements(&n) * p->width, step);
    vr_block out = of_kind(&n);
    vr_drop(p, weight);
    return out;
}

vr_block vr_norm_at(vr_pass *p, uint64_t rows, uint64_t size, vr_place place)
{
    const norm_of n = { p, rows, size, vr_place_label(p, place) };
    vr_block weight = vr_bring_at(p, elements(&n) * p->width, place);
    vr_block out = of_kind(&n);
    vr_drop(p, weight);
    return out;
}

vr_block vr_norm_bare(vr_pass *p, uint64_t rows, uint64_t size, vr_step step)
{
    const norm_of n = { p, rows, size, vr_pass_label(p, step) };
    return p->m->family->norm == VR_NORM_RMS_POWER ? norm_power(&n, false) : norm_chained(&n, false);
}
