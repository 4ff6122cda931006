/* SPDX-License-Identifier: MIT
 * Recurrent mixers: projections, the short convolution, the cache's states, the norm with its gate
 * (transformers 5, models/qwen3_5/modeling_qwen3_5.py; cache_utils.py, LinearAttentionLayer). On a card the
 * convolution is PyTorch's own depthwise kernel in bf16 and fp32, which wants its input contiguous (aten
 * Convolution.cpp, CudaDepthwise2d). */
#include "engine/recurrent.h"

vr_block vr_mix(vr_pass *p, uint64_t bytes, vr_step step)
{
    return vr_take(p, bytes, VR_ITEM_HIDDEN, step);
}

/* The layer has no state yet. */
static bool first_pass(const vr_pass *p)
{
    return p->group->past == 0;
}

/* ---- the convolution ---- */

static uint64_t columns(const vr_pass *p, uint64_t n)
{
    return p->batch * vr_layer_of(p)->conv_channels * n * p->width;
}

/* A prompt: the cache gets zeros and then the last columns; shorter ones are padded to as many. */
static vr_block conv_of_prompt(vr_pass *p, vr_block from)
{
    uint64_t taps = vr_layer_of(p)->conv_taps, n = p->q < taps ? taps : p->q;
    p->group->layers[p->layer].conv = vr_take(p, columns(p, taps), VR_ITEM_KV, VR_STEP_CONV_STATE);
    if (p->q < taps) {
        vr_replace(p, &from, vr_mix(p, columns(p, n), VR_STEP_CONV));
    }
    vr_block copy = p->q < taps ? VR_NONE : vr_mix(p, columns(p, n), VR_STEP_CONV);
    vr_block out = vr_mix(p, columns(p, n + taps - 1), VR_STEP_CONV);
    vr_drop(p, copy);
    vr_block act = vr_mix(p, columns(p, n), VR_STEP_CONV);
    vr_drop(p, out);
    vr_drop(p, from);
    return act;
}

static vr_block conv_of_token(vr_pass *p, vr_block from)
{
    uint64_t taps = vr_layer_of(p)->conv_taps;
    vr_block both = vr_mix(p, columns(p, taps + 1), VR_STEP_CONV);
    vr_block out = vr_mix(p, columns(p, 2), VR_STEP_CONV);
    vr_block act = vr_mix(p, columns(p, 1), VR_STEP_CONV);
    vr_drop(p, out);
    vr_drop(p, both);
    vr_drop(p, from);
    return act;
}

/* causal_conv1d_fn, causal_conv1d_update and the cache's update_conv_state, with the activation behind it;
 * `from` [rows, channels] goes. */
static vr_block causal_conv(vr_pass *p, vr_block from)
{
    return first_pass(p) ? conv_of_prompt(p, from) : conv_of_token(p, from);
}

/* ---- states and norms ---- */

/* The state becomes the cache's: a copy at first, later into the one that is there. */
static void keep_state(vr_pass *p)
{
    vr_kv *kv = &p->group->layers[p->layer];
    if (kv->state == VR_NONE)
        kv->state =
            vr_take(p, p->batch * vr_layer_state_elements(vr_layer_of(p)) * 4, VR_ITEM_KV, VR_STEP_STATE);
}

/* silu(gate.float()); the product with it is in fp32, and narrowed last */
static vr_block times_gate(vr_pass *p, vr_block x, uint64_t elements)
{
    vr_block gate = p->width != 4 ? vr_mix(p, elements * 4, VR_STEP_MIXER_NORM) : VR_NONE;
    vr_block act = vr_mix(p, elements * 4, VR_STEP_MIXER_NORM);
    vr_drop(p, gate);
    vr_block out = vr_mix(p, elements * 4, VR_STEP_MIXER_NORM);
    vr_drop(p, act);
    vr_drop(p, x);
    if (p->width == 4)
        return out;
    vr_block narrow = vr_mix(p, elements * p->width, VR_STEP_MIXER_NORM);
    vr_drop(p, out);
    return narrow;
}

/* RMSNormGated over `rows` rows of `size`, norm before gate; `core` goes, the gate stays. */
static vr_block norm_before_gate(vr_pass *p, uint64_t rows, uint64_t size, vr_block core)
{
    vr_block variance = VR_NONE;
    vr_block x = vr_norm_kept(p, rows, size, VR_STEP_MIXER_NORM, &variance);
    vr_block out = times_gate(p, x, rows * size);
    vr_drop(p, variance);
    vr_drop(p, core);
    return out;
}

/* ---- gated delta nets ---- */

/* -A_log.float().exp() * softplus(a.float() + dt_bias) */
static vr_block decay(vr_pass *p)
{
    uint64_t heads = vr_layer_of(p)->state_heads * 4, bytes = p->rows * heads;
    bool narrow = p->width != 4;
    vr_block log = narrow ? vr_mix(p, heads, VR_STEP_DECAY) : VR_NONE;
    vr_block rate = vr_mix(p, heads, VR_STEP_DECAY);
    vr_drop(p, log);
    vr_block negative = vr_mix(p, heads, VR_STEP_DECAY);
    vr_drop(p, rate);
    vr_block a = narrow ? vr_mix(p, bytes, VR_STEP_DECAY) : VR_NONE;
    vr_block sum = vr_mix(p, bytes, VR_STEP_DECAY);
    vr_drop(p, a);
    vr_block step = vr_mix(p, bytes, VR_STEP_DECAY);
    vr_drop(p, sum);
    vr_block out = vr_mix(p, bytes, VR_STEP_DECAY);
    vr_drop(p, negative);
    vr_drop(p, step);
    return out;
}

static vr_block project(vr_pass *p, uint64_t out)
{
    return vr_linear(p, p->m->hidden, out, false, VR_ITEM_HIDDEN, VR_STEP_MIXER_IN);
}

/* What a net holds until it returns, beside what is computed of it. */
typedef struct net {
    vr_block qkv, z, b, a;
    vr_block whole[2];          /* projections whose parts were copied, or VR_NONE */
    vr_block query, key, value; /* these, until the convolution has taken them */
} net;

/* Qwen3-Next: what belongs to one key head lies together, and is put apart. */
static net project_by_head(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t values = (uint64_t)l->state_heads * l->state_columns, heads = l->state_heads;
    uint64_t keys = (uint64_t)l->state_groups * l->state_rows, row = p->rows * p->width;
    net n;
    n.whole[0] = project(p, l->conv_channels + values);
    n.whole[1] = project(p, 2 * heads);
    n.value = vr_mix(p, row * values, VR_STEP_MIXER_IN);
    n.z = vr_mix(p, row * values, VR_STEP_MIXER_IN);
    n.b = vr_mix(p, row * heads, VR_STEP_MIXER_IN);
    n.a = vr_mix(p, row * heads, VR_STEP_MIXER_IN);
    n.query = vr_mix(p, row * keys, VR_STEP_MIXER_IN);
    n.key = vr_mix(p, row * keys, VR_STEP_MIXER_IN);
    n.qkv = vr_mix(p, row * l->conv_channels, VR_STEP_MIXER_IN);
    return n;
}

static net project_all(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    net n = { .whole = { VR_NONE, VR_NONE }, .query = VR_NONE, .key = VR_NONE, .value = VR_NONE };
    n.qkv = project(p, l->conv_channels);
    n.z = project(p, (uint64_t)l->state_heads * l->state_columns);
    n.b = project(p, l->state_heads);
    n.a = project(p, l->state_heads);
    return n;
}

static vr_block delta_net(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t heads = l->state_heads, values = heads * l->state_columns;
    net n = l->by_key_head ? project_by_head(p) : project_all(p);
    vr_block state, groups[2], mixed = causal_conv(p, n.qkv);
    vr_drop_all(p, (const vr_block[]){ n.query, n.key, n.value }, 3);
    vr_block beta = vr_mix(p, p->rows * heads * p->width, VR_STEP_DECAY), g = decay(p);
    vr_block core = first_pass(p) ? vr_delta_chunks(p, &state, groups) : vr_delta_step(p, &state, groups);
    keep_state(p);
    core = norm_before_gate(p, p->rows * heads, l->state_columns, core);
    vr_block out = vr_linear(p, values, p->m->hidden, false, VR_ITEM_HIDDEN, VR_STEP_MIXER_OUT);
    const vr_block held[] = { n.z,  n.b, n.a,  n.whole[0], n.whole[1], mixed,
                              beta, g,   core, state,      groups[0],  groups[1] };
    vr_drop_all(p, held, sizeof(held) / sizeof(held[0]));
    return out;
}

/* ---- Mamba-2 ---- */

/* RMSNormGated, gate before norm: over the groups of a row; in the dtype of what the scan gave. */
static vr_block norm_after_gate(vr_pass *p, uint64_t elements, unsigned width)
{
    uint64_t groups = p->rows * vr_layer_of(p)->state_groups * 4, wide = elements * 4;
    vr_block core = width != 4 ? vr_mix(p, wide, VR_STEP_MIXER_NORM) : VR_NONE;
    vr_block gate = p->width != 4 ? vr_mix(p, wide, VR_STEP_MIXER_NORM) : VR_NONE;
    vr_block act = vr_mix(p, wide, VR_STEP_MIXER_NORM);
    vr_drop(p, gate);
    vr_block x = vr_mix(p, wide, VR_STEP_MIXER_NORM);
    vr_drop(p, act);
    vr_drop(p, core);
    vr_block square = vr_mix(p, wide, VR_STEP_MIXER_NORM), variance = vr_mix(p, groups, VR_STEP_MIXER_NORM);
    vr_drop(p, square);
    vr_block sum = vr_mix(p, groups, VR_STEP_MIXER_NORM), root = vr_mix(p, groups, VR_STEP_MIXER_NORM);
    vr_drop(p, sum);
    vr_block scaled = vr_mix(p, wide, VR_STEP_MIXER_NORM);
    vr_drop(p, root);
    vr_drop(p, x);
    vr_block cast = width != 4 ? vr_mix(p, elements * width, VR_STEP_MIXER_NORM) : VR_NONE;
    vr_block out = vr_mix(p, elements * width, VR_STEP_MIXER_NORM);
    vr_drop(p, cast);
    vr_drop(p, scaled);
    vr_drop(p, variance);
    return out;
}

/* -exp(A_log.float()) */
static vr_block rates(vr_pass *p)
{
    uint64_t heads = (uint64_t)vr_layer_of(p)->state_heads * 4;
    vr_block log = p->width != 4 ? vr_mix(p, heads, VR_STEP_DECAY) : VR_NONE;
    vr_block rate = vr_mix(p, heads, VR_STEP_DECAY);
    vr_drop(p, log);
    vr_block out = vr_mix(p, heads, VR_STEP_DECAY);
    vr_drop(p, rate);
    return out;
}

/* What the scan of a prompt gave is held by the pair that it returned, a single token's by nobody. */
static vr_block mamba2(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t inner = (uint64_t)l->state_heads * l->state_rows, out_width = inner + l->conv_channels;
    bool first = first_pass(p);
    vr_block state = VR_NONE, cast = VR_NONE;
    vr_block whole = vr_linear(p, p->m->hidden, out_width + l->state_heads, l->mixer_bias, VR_ITEM_HIDDEN,
                               VR_STEP_MIXER_IN);
    vr_block a = rates(p), mixed = causal_conv(p, VR_NONE);
    vr_block core = first ? vr_ssm_chunks(p, &state) : vr_ssm_step(p);
    keep_state(p);
    vr_block normed = norm_after_gate(p, p->rows * inner, first ? 4 : p->width);
    if (!first) {
        vr_drop(p, core);
        core = VR_NONE;
    } else if (p->width != 4) {
        cast = vr_mix(p, p->rows * inner * p->width, VR_STEP_MIXER_NORM);
    }
    vr_block out = vr_linear(p, inner, p->m->hidden, l->out_bias, VR_ITEM_HIDDEN, VR_STEP_MIXER_OUT);
    const vr_block held[] = { cast, a, whole, mixed, normed, core, state };
    vr_drop_all(p, held, sizeof(held) / sizeof(held[0]));
    return out;
}

vr_block vr_mixer_recurrent(vr_pass *p, vr_block normed)
{
    vr_block out = vr_layer_of(p)->recurrent == VR_RECURRENT_MAMBA2 ? mamba2(p) : delta_net(p);
    vr_drop(p, normed);
    return out;
}
