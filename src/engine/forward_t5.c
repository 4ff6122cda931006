/* SPDX-License-Identifier: MIT
 * Encoder and decoder of T5: encoder(ids) once, then decoder calls with both caches, in the order of
 * modeling_t5.py of transformers 5.17 and 5.24 (before 5 it computed its attention itself). The decoder
 * starts with one token; the bias of relative positions is made anew in each call and lives as long as it.
 *
 * sdpa: the bias is a permuted view, whose last dimension is not contiguous, so that no fused kernel of CUDA
 * takes it (aten sdp_utils, check_last_dim_stride_equals_1_dense) and plain products in 32 bits remain. */
#include "engine/encdec.h"

static uint64_t inner(const vr_layer *l)
{
    return (uint64_t)l->heads * l->key_dim;
}

static vr_block wide(vr_pass *p, vr_step step)
{
    return vr_take(p, p->rows * p->m->hidden * p->width, VR_ITEM_HIDDEN, step);
}

/* ---- in fp16: the last matrix of an MLP is kept in fp32, and from the first on the hidden states are too
 * ---- */

static bool is_half(const vr_pass *p)
{
    return p->w->dtype == VR_F16;
}

/* Of the hidden states that this step reads (a norm) or makes (a sum). */
static unsigned width_at(const vr_pass *p, vr_step step)
{
    bool behind = step == VR_STEP_OUTPUT || step == VR_STEP_FINAL;
    bool first = p->layer == 0 || p->layer == p->m->n_layers;
    return is_half(p) && (behind || !first) ? 4 : p->width;
}

static vr_block sum_of(vr_pass *p, vr_step step)
{
    return vr_take(p, p->rows * p->m->hidden * width_at(p, step), VR_ITEM_HIDDEN, step);
}

static vr_block piece(vr_pass *p, uint64_t bytes)
{
    return vr_take(p, bytes, VR_ITEM_HIDDEN, VR_STEP_MIDDLE);
}

/* x while it is in fp16, without infinities; *limit is a variable of the block. */
static void clamp(vr_pass *p, vr_block *x, vr_block *limit)
{
    uint64_t n = p->rows * p->m->hidden;
    if (!is_half(p) || width_at(p, VR_STEP_MIDDLE) == 4)
        return;
    vr_block absolute = piece(p, n * 2), infinite = piece(p, n);
    vr_drop(p, absolute);
    vr_block any = piece(p, 1);
    vr_drop(p, infinite);
    vr_block less = piece(p, 4), most = piece(p, 4), chosen = piece(p, 4);
    const vr_block rest[] = { most, less, any };
    vr_drop_all(p, rest, sizeof rest / sizeof *rest);
    vr_replace(p, limit, chosen);
    vr_block negative = piece(p, 4);
    vr_replace(p, x, piece(p, n * 2));
    vr_drop(p, negative);
}

/* T5LayerNorm: the mean of squares in fp32, then x * rsqrt in fp32, narrowed, times the weight. */
static vr_block norm(vr_pass *p, vr_step step)
{
    uint64_t n = p->rows * p->m->hidden, row = p->rows * 4;
    bool narrow = p->width != 4;
    vr_block x = width_at(p, step) != 4 ? vr_take(p, n * 4, VR_ITEM_HIDDEN, step) : VR_NONE;
    vr_block square = vr_take(p, n * 4, VR_ITEM_HIDDEN, step);
    vr_drop(p, x);
    vr_block mean = vr_take(p, row, VR_ITEM_HIDDEN, step);
    vr_drop(p, square);
    vr_block sum = vr_take(p, row, VR_ITEM_HIDDEN, step), root = vr_take(p, row, VR_ITEM_HIDDEN, step);
    vr_drop(p, sum);
    vr_block scaled = vr_take(p, n * 4, VR_ITEM_HIDDEN, step);
    vr_drop(p, root);
    if (narrow)
        vr_replace(p, &scaled, vr_take(p, n * p->width, VR_ITEM_HIDDEN, step));
    vr_block out = wide(p, step);
    vr_drop(p, scaled);
    vr_drop(p, mean);
    return out;
}

/* ---- the bias of relative positions ---- */

static vr_block position(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_INPUTS, VR_PLACE_POSITIONS);
}

/* Which side a key is on (encoder), or how far behind (decoder); *distance has no sign. */
static vr_block sides(vr_pass *p, uint64_t n, bool both_ways, vr_block *distance)
{
    if (!both_ways) {
        vr_block zeros = position(p, n * 8), least = position(p, n * 8);
        vr_drop(p, zeros);
        *distance = position(p, n * 8);
        vr_drop(p, least);
        return VR_NONE;
    }
    vr_block later = position(p, n), buckets = position(p, n * 8);
    vr_drop(p, later);
    vr_replace(p, &buckets, position(p, n * 8)); /* times their number */
    vr_replace(p, &buckets, position(p, n * 8)); /* plus 0 */
    *distance = position(p, n * 8);
    return buckets;
}

/* _relative_position_bucket: exact near by, logarithmic far away */
static vr_block buckets(vr_pass *p, uint64_t n, bool both_ways)
{
    vr_block distance, sum = sides(p, n, both_ways, &distance), near = position(p, n);
    vr_block far = position(p, n * 4);
    for (int i = 0; i < 4; i++) /* / exact, log, / log, * rest */
        vr_replace(p, &far, position(p, n * 4));
    vr_block ratio = p->m->bias_by_layer ? far : VR_NONE; /* a variable of its own */
    vr_block whole = position(p, n * 8);
    if (ratio == VR_NONE)
        vr_drop(p, far);
    far = whole;
    vr_replace(p, &far, position(p, n * 8));
    vr_block most = position(p, n * 8), least = position(p, n * 8);
    vr_drop(p, most);
    vr_drop(p, far);
    vr_block chosen = position(p, n * 8);
    if (both_ways) { /* added in place */
        vr_drop(p, chosen);
    } else {
        sum = position(p, n * 8);
        vr_drop(p, chosen);
    }
    const vr_block rest[] = { distance, near, least, ratio };
    vr_drop_all(p, rest, sizeof rest / sizeof *rest);
    return sum;
}

static vr_block make_bias(vr_pass *p, uint64_t keys, bool both_ways)
{
    uint64_t n = p->q * keys;
    vr_block queries = position(p, p->q * 8);
    vr_replace(p, &queries, position(p, p->q * 8));
    vr_block all = position(p, keys * 8), apart = position(p, n * 8);
    vr_block sum = buckets(p, n, both_ways);
    vr_block bias = vr_take_at(p, n * vr_layer_of(p)->heads * p->width, VR_ITEM_SCORES, VR_PLACE_BIAS);
    vr_drop(p, queries);
    vr_drop(p, all);
    vr_drop(p, apart);
    vr_drop(p, sum);
    return bias;
}

/* ---- attention ---- */

static vr_heads heads_of(const vr_pass *p, uint64_t keys)
{
    const vr_layer *l = vr_layer_of(p);
    return (vr_heads){ .q = l->heads,
                       .kv = l->heads,
                       .groups = 1,
                       .size = l->key_dim,
                       .value = l->value_dim,
                       .kv_tokens = keys,
                       .mask = VR_NONE,
                       .biased = true };
}

/* *weights are the caller's. */
static vr_block attend(vr_pass *p, const vr_heads *h, vr_block *weights)
{
    *weights = VR_NONE;
    return p->w->attention == VR_IMPL_EAGER ? vr_kernel_eager(p, h, weights) : vr_kernel_sdpa(p, h);
}

static vr_block project(vr_pass *p, vr_step step)
{
    return vr_linear(p, p->m->hidden, inner(vr_layer_of(p)), false, VR_ITEM_HIDDEN, step);
}

/* A layer's own bias goes when its attention returns. */
static void let_go(vr_pass *p, vr_block *bias)
{
    if (p->m->bias_by_layer)
        vr_replace(p, bias, VR_NONE);
}

/* x + o(attention(norm(x))); *bias is made where the stack has none yet. kv NULL: an encoder's. */
static vr_block self_attention(vr_pass *p, vr_kv *kv, uint64_t keys, vr_block mask, vr_block *bias,
                               vr_block *weights)
{
    vr_heads h = heads_of(p, keys);
    h.fresh = kv == NULL;
    h.permuted = true;
    h.mask = mask;
    vr_block normed = norm(p, VR_STEP_NORM_IN);
    vr_block q = project(p, VR_STEP_Q), k = project(p, VR_STEP_K), v = project(p, VR_STEP_V);
    if (kv != NULL)
        vr_encdec_keep(p, kv, k, v, keys);
    if (*bias == VR_NONE)
        *bias = make_bias(p, keys, kv == NULL);
    vr_block mixed = attend(p, &h, weights);
    vr_block out = vr_linear(p, inner(vr_layer_of(p)), p->m->hidden, false, VR_ITEM_HIDDEN, VR_STEP_O);
    vr_drop(p, mixed);
    vr_drop(p, q);
    let_go(p, bias);
    if (kv == NULL) {
        vr_drop(p, k);
        vr_drop(p, v);
    }
    vr_block sum = sum_of(p, VR_STEP_MIDDLE);
    vr_drop(p, out);
    vr_drop(p, normed);
    return sum;
}

/* x + o(attention(norm(x), encoder)); keys and values of the encoder are made once. */
static vr_block cross_attention(vr_pass *p, vr_kv *kv, uint64_t source, vr_block *bias, vr_block *weights)
{
    vr_heads h = heads_of(p, source);
    uint64_t rows = p->rows;
    vr_block normed = norm(p, VR_STEP_NORM_CROSS), q = project(p, VR_STEP_Q);
    if (kv->k == VR_NONE) {
        p->rows = p->batch * source;
        vr_block k = project(p, VR_STEP_K), v = project(p, VR_STEP_V);
        vr_encdec_keep(p, kv, k, v, source);
        p->rows = rows;
    }
    if (*bias == VR_NONE)
        *bias =
            vr_take_at(p, vr_layer_of(p)->heads * p->q * source * p->width, VR_ITEM_SCORES, VR_PLACE_BIAS);
    vr_block mixed = attend(p, &h, weights);
    vr_block out = vr_linear(p, inner(vr_layer_of(p)), p->m->hidden, false, VR_ITEM_HIDDEN, VR_STEP_O);
    vr_drop(p, mixed);
    vr_drop(p, q);
    let_go(p, bias);
    vr_block sum = sum_of(p, VR_STEP_MIDDLE);
    vr_drop(p, normed);
    vr_drop(p, out);
    return sum;
}

/* ---- the MLP ---- */

static vr_block mlp(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t h = p->m->hidden, bytes = p->rows * l->ffn * p->width;
    bool gated = l->mlp == VR_MLP_GATED;
    vr_block normed = norm(p, VR_STEP_NORM_ATTENTION), up = VR_NONE, product = VR_NONE;
    vr_block act = vr_linear(p, h, l->ffn, false, VR_ITEM_HIDDEN, gated ? VR_STEP_GATE : VR_STEP_UP);
    vr_replace(p, &act, vr_activate(p));
    if (gated) {
        up = vr_linear(p, h, l->ffn, false, VR_ITEM_HIDDEN, VR_STEP_UP);
        product = vr_take(p, bytes, VR_ITEM_HIDDEN, VR_STEP_PRODUCT);
    }
    if (is_half(p))
        vr_replace(p, gated ? &product : &act, vr_take(p, 2 * bytes, VR_ITEM_HIDDEN, VR_STEP_PRODUCT));
    p->width = is_half(p) ? 4 : p->width;
    vr_block down = vr_linear(p, l->ffn, h, false, VR_ITEM_HIDDEN, VR_STEP_DOWN);
    p->width = is_half(p) ? 2 : p->width;
    vr_block rest[] = { product, act, up, normed };
    vr_drop_all(p, rest, sizeof(rest) / sizeof(rest[0]));
    vr_block sum = sum_of(p, VR_STEP_OUTPUT);
    vr_drop(p, down);
    return sum;
}

/* ---- stacks ---- */

static vr_block embed(vr_pass *p, uint64_t sequences, uint64_t tokens)
{
    p->batch = sequences;
    p->q = tokens;
    p->rows = sequences * tokens;
    return vr_take_at(p, p->rows * p->m->hidden * p->width, VR_ITEM_HIDDEN, VR_PLACE_EMBEDDING);
}

/* The stack's last norm; the embeddings and what came out of the last layer go with it. */
static vr_block finish(vr_pass *p, vr_block x, vr_block embeddings)
{
    vr_block out = norm(p, VR_STEP_FINAL);
    vr_drop(p, x);
    if (x != embeddings)
        vr_drop(p, embeddings);
    return out;
}

vr_block vr_t5_encode(vr_pass *p, uint64_t sequences, uint64_t tokens)
{
    vr_block embeddings = embed(p, sequences, tokens), x = embeddings, bias = VR_NONE, weights,
             limit = VR_NONE;
    for (uint64_t i = 0; i < p->m->n_encoder; i++) {
        p->layer = p->m->n_layers + i;
        vr_block middle = self_attention(p, NULL, tokens, VR_NONE, &bias, &weights);
        clamp(p, &middle, &limit);
        vr_block next = mlp(p);
        vr_drop(p, middle);
        vr_drop(p, weights);
        vr_replace(p, &limit, VR_NONE);
        if (x != embeddings)
            vr_drop(p, x);
        x = next;
    }
    vr_block out = finish(p, x, embeddings);
    vr_drop(p, bias);
    return out;
}

static vr_block decoder_layer(vr_pass *p, vr_encdec_group *g, vr_block mask, vr_block bias[2])
{
    vr_block self_weights, cross_weights, limit = VR_NONE;
    vr_block first = self_attention(p, &g->own[p->layer], g->past + p->q, mask, &bias[0], &self_weights);
    clamp(p, &first, &limit);
    vr_block second = cross_attention(p, &g->cross[p->layer], g->source, &bias[1], &cross_weights);
    vr_drop(p, first);
    vr_drop(p, self_weights);
    clamp(p, &second, &limit);
    vr_block out = mlp(p);
    vr_drop(p, second);
    vr_drop(p, cross_weights);
    vr_drop(p, limit);
    return out;
}

void vr_t5_decode(vr_pass *p, vr_encdec_group *g)
{
    vr_block embeddings = embed(p, g->sequences, 1), x = embeddings, bias[2] = { VR_NONE, VR_NONE };
    vr_block mask = p->w->attention == VR_IMPL_EAGER ? vr_added_mask(p, g->past + p->q) : VR_NONE;
    for (p->layer = 0; p->layer < p->m->n_layers; p->layer++) {
        vr_block next = decoder_layer(p, g, mask, bias);
        if (x != embeddings)
            vr_drop(p, x);
        x = next;
    }
    p->layer = p->m->n_layers - 1;
    vr_block normed = finish(p, x, embeddings);
    vr_drop(p, mask);
    vr_drop(p, bias[0]);
    vr_drop(p, bias[1]);
    bool scales = p->m->output_scaled || (p->m->bias_by_layer && !p->rules->umt5_asks);
    vr_block scaled = scales ? wide(p, VR_STEP_FINAL) : VR_NONE;
    vr_block logits = vr_take_at(p, p->rows * p->m->vocab * p->width, VR_ITEM_LOGITS, VR_PLACE_LOGITS);
    vr_gemm(p, false);
    vr_drop(p, scaled);
    vr_drop(p, normed);
    vr_drop(p, g->logits);
    g->logits = logits;
    g->past++;
}
