/* SPDX-License-Identifier: MIT
 * BLOOM and MPT (modeling_bloom.py, modeling_mpt.py of transformers 5.17 and 5.24): scores with a bias that
 * falls with the distance instead of positions, sums within the modules, and what a layer returns kept until
 * the next one returns. */
#include "engine/pass.h"

static vr_block piece(vr_pass *p, uint64_t elements, vr_step step)
{
    return vr_take(p, elements * p->width, VR_ITEM_HIDDEN, step);
}

static vr_block bias(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_INPUTS, VR_PLACE_BIAS);
}

/* ---- the biases ---- */

/* What the function that makes the slopes holds until it returns. */
typedef struct slopes {
    vr_block base, powers, more_base, more_powers, all;
} slopes;

/* pow(base, 1..n) for the largest power of 2, and of another base for the heads beyond */
static slopes make_slopes(vr_pass *p)
{
    uint64_t heads = p->m->heads, n = 1;
    slopes s = { .more_base = VR_NONE, .more_powers = VR_NONE };
    while (n * 2 <= heads)
        n *= 2;
    uint64_t rest = heads - n;
    s.base = bias(p, 4);
    s.powers = bias(p, n * 4);
    s.all = bias(p, n * 4);
    if (rest == 0)
        return s;
    s.more_base = bias(p, 4);
    s.more_powers = bias(p, rest * 4);
    vr_block more = bias(p, rest * 4);
    vr_replace(p, &s.all, bias(p, heads * 4));
    vr_drop(p, more);
    return s;
}

static void drop_parts(vr_pass *p, const slopes *s)
{
    const vr_block parts[] = { s->base, s->powers, s->more_base, s->more_powers };
    vr_drop_all(p, parts, sizeof parts / sizeof *parts);
}

/* Up to some version positions are found by counting ones. */
static vr_block by_counting(vr_pass *p, vr_block *held)
{
    uint64_t kv = p->group->past + p->q, tokens = p->batch * kv;
    *held = bias(p, tokens * 4);
    slopes s = make_slopes(p);
    vr_block sums = bias(p, tokens * 4), less = bias(p, tokens * 4);
    vr_drop(p, sums);
    vr_block at = bias(p, tokens * 4);
    vr_drop(p, less);
    vr_block wide = bias(p, p->m->heads * tokens * 4), out = wide;
    if (p->width != 4) {
        out = bias(p, p->m->heads * tokens * p->width);
        vr_drop(p, wide);
    }
    vr_drop(p, at);
    vr_drop(p, s.all);
    drop_parts(p, &s);
    return out;
}

/* slopes * arange(n), once for each sequence */
static vr_block by_range(vr_pass *p, vr_block *held)
{
    uint64_t kv = p->group->past + p->q, n = p->m->heads * kv;
    slopes s = make_slopes(p);
    drop_parts(p, &s);
    *held = s.all;
    vr_block range = bias(p, kv * 8), one = bias(p, n * 4);
    vr_drop(p, range);
    vr_block wide = bias(p, p->batch * n * 4), out = wide;
    if (p->width != 4) {
        out = bias(p, p->batch * n * p->width);
        vr_drop(p, wide);
    }
    vr_drop(p, one);
    return out;
}

/* build_mpt_alibi_tensor: of all tokens there can be, in fp32 */
static vr_block of_all_tokens(vr_pass *p)
{
    uint64_t heads = p->m->heads, n = 1;
    while (n < heads)
        n *= 2;
    vr_block range = bias(p, p->m->max_context * 4), whole = bias(p, n * 8), base = bias(p, n * 4);
    vr_drop(p, whole);
    vr_replace(p, &base, bias(p, n * 4));
    vr_block power = bias(p, n * 4), falls = bias(p, n * 4);
    vr_replace(p, &falls, bias(p, n * 4));
    vr_drop(p, power);
    if (n != heads)
        vr_replace(p, &falls, bias(p, n * 4));
    vr_block out = bias(p, heads * p->m->max_context * 4);
    const vr_block rest[] = { range, base, falls };
    vr_drop_all(p, rest, sizeof rest / sizeof *rest);
    return out;
}

vr_block vr_alibi(vr_pass *p, vr_block *held)
{
    *held = VR_NONE;
    if (p->m->family->alibi_wide)
        return of_all_tokens(p);
    return p->rules->opt_unmasked ? by_range(p, held) : by_counting(p, held);
}

/* ---- a layer ---- */

static vr_block score(vr_pass *p, uint64_t bytes)
{
    return vr_take(p, bytes, VR_ITEM_SCORES, VR_STEP_SCORES);
}

/* baddbmm of the biases, the mask, softmax in fp32; *held until the module returns. */
static vr_block probabilities(vr_pass *p, vr_block held[2])
{
    uint64_t n = p->batch * p->m->heads * p->q * (p->group->past + p->q);
    held[0] = score(p, n * p->width);
    vr_gemm(p, false);
    held[1] = score(p, n * p->width);
    vr_block copy = p->w->dtype == VR_BF16 ? score(p, n * 4) : VR_NONE, out = score(p, n * 4);
    vr_drop(p, copy);
    if (p->width != 4)
        vr_replace(p, &out, score(p, n * p->width));
    return out;
}

/* What attention returns, and what of it the layer's variables hold until it returns. */
typedef struct attended {
    vr_block sum, weights, output;
} attended;

static vr_block mix(vr_pass *p)
{
    uint64_t n = p->rows * p->m->hidden;
    vr_block mixed = piece(p, n, VR_STEP_ATTENTION);
    vr_gemm(p, false);
    if (p->q > 1)
        vr_replace(p, &mixed, piece(p, n, VR_STEP_ATTENTION));
    return mixed;
}

/* Of the normalised input; the sum with the layer's own is the module's. */
static attended attend_bloom(vr_pass *p)
{
    uint64_t h = p->m->hidden, n = p->rows * h;
    attended a = { .output = VR_NONE };
    vr_block held[2], qkv = vr_linear(p, h, 3 * h, p->m->qkv_bias, VR_ITEM_HIDDEN, VR_STEP_QKV);
    vr_append(p);
    bool copies = p->batch > 1 && p->q > 1; /* queries of a sequence lie among its keys and values */
    vr_block q = copies ? piece(p, n, VR_STEP_QUERY) : VR_NONE;
    a.weights = probabilities(p, held);
    vr_block mixed = mix(p), out = vr_linear(p, h, h, p->m->o_bias, VR_ITEM_HIDDEN, VR_STEP_O);
    a.sum = piece(p, n, VR_STEP_MIDDLE);
    const vr_block rest[] = { out, mixed, held[0], held[1], q, qkv };
    vr_drop_all(p, rest, sizeof rest / sizeof *rest);
    return a;
}

/* MptAttention: times a number, plus biases in fp32, what is masked filled in; softmax of that */
static vr_block masked_scores(vr_pass *p)
{
    uint64_t n = p->batch * p->m->heads * p->q * (p->group->past + p->q);
    vr_block q = p->batch > 1 ? piece(p, p->rows * p->m->hidden, VR_STEP_QUERY) : VR_NONE;
    vr_block scores = score(p, n * p->width);
    vr_gemm(p, false);
    vr_drop(p, q);
    vr_replace(p, &scores, score(p, n * p->width));
    vr_replace(p, &scores, score(p, n * 4));
    vr_replace(p, &scores, score(p, n * 4));
    return scores;
}

static attended attend_mpt(vr_pass *p)
{
    uint64_t h = p->m->hidden, n = p->batch * p->m->heads * p->q * (p->group->past + p->q);
    vr_block qkv = vr_linear(p, h, 3 * h, p->m->qkv_bias, VR_ITEM_HIDDEN, VR_STEP_QKV);
    attended a;
    vr_append(p);
    vr_block scores = masked_scores(p);
    a.weights = score(p, n * 4);
    if (p->width != 4)
        vr_replace(p, &a.weights, score(p, n * p->width));
    vr_block mixed = mix(p);
    a.output = vr_linear(p, h, h, p->m->o_bias, VR_ITEM_HIDDEN, VR_STEP_O);
    const vr_block rest[] = { mixed, scores, qkv };
    vr_drop_all(p, rest, sizeof rest / sizeof *rest);
    a.sum = piece(p, p->rows * h, VR_STEP_MIDDLE);
    return a;
}

/* down_proj(act_fn(up_proj(x))) and the sum with the layer's own */
static vr_block feed_forward(vr_pass *p)
{
    uint64_t h = p->m->hidden, f = vr_layer_of(p)->ffn;
    vr_block up = vr_linear(p, h, f, p->m->mlp_bias, VR_ITEM_HIDDEN, VR_STEP_UP), act = vr_activate(p);
    vr_drop(p, up);
    vr_block down = vr_linear(p, f, h, p->m->mlp_bias, VR_ITEM_HIDDEN, VR_STEP_DOWN);
    vr_block out = piece(p, p->rows * h, VR_STEP_OUTPUT);
    vr_drop(p, down);
    vr_drop(p, act);
    return out;
}

vr_block vr_alibi_layer(vr_pass *p, vr_block *weights)
{
    vr_block first = vr_norm(p, p->rows, p->m->hidden, VR_STEP_NORM_IN);
    attended a = p->m->family->alibi_wide ? attend_mpt(p) : attend_bloom(p);
    vr_block second = vr_norm(p, p->rows, p->m->hidden, VR_STEP_NORM_ATTENTION);
    vr_drop(p, first);
    vr_block out = feed_forward(p);
    const vr_block rest[] = { second, a.sum, a.output, *weights };
    vr_drop_all(p, rest, sizeof rest / sizeof *rest);
    *weights = a.weights;
    return out;
}
