/* SPDX-License-Identifier: MIT
 * What the ways to compute attention take.
 *
 * eager: eager_attention_forward of modeling_*.py. sdpa: sdpa_attention_forward, then one of PyTorch's
 * kernels: flash on Ampere and newer in 16 bits without a mask (aten flash_api.cpp, mha_fwd),
 * memory-efficient with a mask or in 32 bits (cutlass kernels, no logsumexp in inference), and where that one
 * knows no grouped queries, plain matrix products (aten attention.cpp, _scaled_dot_product_attention_math).
 * Splits of short passes over the key length, some hundred KiB, depend on the number of multiprocessors and
 * are left out. */
#include "engine/caches.h"

typedef enum backend { FLASH, EFFICIENT, MATH } backend;

static vr_block score(vr_pass *p, uint64_t bytes)
{
    return vr_take(p, bytes, VR_ITEM_SCORES, VR_STEP_SCORES);
}

static uint64_t q_elements(const vr_pass *p, const vr_heads *h)
{
    return p->rows * h->q * h->size;
}

static uint64_t value_elements(const vr_pass *p, const vr_heads *h)
{
    return p->rows * h->q * h->value;
}

static uint64_t n_scores(const vr_pass *p, const vr_heads *h)
{
    return p->batch * h->q * p->q * h->kv_tokens;
}

static vr_block copied(vr_pass *p, const vr_heads *h, uint64_t size)
{
    uint64_t bytes = p->batch * h->q * h->kv_tokens * size * p->width;
    return vr_take(p, bytes, VR_ITEM_SCORES, VR_STEP_REPEATED);
}

/* repeat_kv: keys and values once for every query head; those of a single head are only viewed so often. */
static vr_block repeated(vr_pass *p, const vr_heads *h, uint64_t size)
{
    return h->kv > 1 ? copied(p, h, size) : VR_NONE;
}

/* Such a view of several sequences does not make one batch of matrices without a copy. */
static vr_block flattened(vr_pass *p, const vr_heads *h, uint64_t size)
{
    return h->groups > 1 && h->kv == 1 && p->batch > 1 ? copied(p, h, size) : VR_NONE;
}

/* Nor do keys that lie token by token. */
static vr_block fresh_keys(vr_pass *p, const vr_heads *h, unsigned width)
{
    if (!h->fresh || p->batch == 1 || h->kv_tokens == 1)
        return VR_NONE;
    return score(p, p->batch * h->q * h->kv_tokens * h->size * width);
}

/* Nor such values, or those that are a part of something wider. */
static vr_block gathered(vr_pass *p, const vr_heads *h, unsigned width)
{
    if (p->batch == 1 || !(h->scattered || (h->fresh && h->kv_tokens > 1)))
        return VR_NONE;
    return score(p, p->batch * h->q * h->kv_tokens * h->value * width);
}

static vr_block output(vr_pass *p, const vr_heads *h)
{
    return vr_take(p, value_elements(p, h) * p->width, VR_ITEM_HIDDEN, VR_STEP_ATTENTION);
}

/* .transpose(1, 2).contiguous() of what lies head by head: a copy, unless there is one token only */
static vr_block by_token(vr_pass *p, const vr_heads *h, vr_block x)
{
    if (p->q == 1)
        return x;
    vr_block copy = output(p, h);
    vr_drop(p, x);
    return copy;
}

/* Queries lie token by token: heads of several sequences do not make one batch of matrices without a copy. */
static bool copies_queries(const vr_pass *p, const vr_heads *h)
{
    return p->batch > 1 && (p->q > 1 || h->inside) && !h->packed;
}

/* ---- eager ---- */

/* query @ key^T * scaling, capped where the model does, plus bias and mask */
static vr_block eager_scores(vr_pass *p, const vr_heads *h)
{
    uint64_t bytes = n_scores(p, h) * p->width;
    vr_block q = copies_queries(p, h) ? score(p, q_elements(p, h) * p->width) : VR_NONE;
    vr_block k = h->fresh ? fresh_keys(p, h, p->width) : flattened(p, h, h->size);
    vr_block scores = score(p, bytes);
    vr_gemm(p, false);
    vr_drop(p, k);
    vr_drop(p, q);
    vr_replace(p, &scores, score(p, bytes));
    for (int i = 0; p->m->attention_softcap != 0 && i < 3; i++)
        vr_replace(p, &scores, score(p, bytes)); /* / cap, tanh, * cap */
    if (h->biased)
        vr_replace(p, &scores, score(p, bytes));
    if (h->mask != VR_NONE)
        vr_replace(p, &scores, score(p, bytes));
    return scores;
}

/* softmax(dtype=float32).to(query.dtype): only fp16 on CUDA is widened inside the kernel (aten SoftMax.cpp)
 */
static vr_block eager_softmax(vr_pass *p, const vr_heads *h, vr_block scores)
{
    uint64_t n = n_scores(p, h);
    if (p->m->family->narrow_softmax) {
        vr_block same = score(p, n * p->width);
        vr_drop(p, scores);
        return same;
    }
    vr_block wide = p->w->dtype == VR_BF16 ? score(p, n * 4) : VR_NONE;
    vr_block out = score(p, n * 4);
    vr_drop(p, wide);
    if (p->width != 4) {
        vr_replace(p, &out, score(p, n * p->width));
    }
    vr_drop(p, scores);
    return out;
}

/* GptOss: torch.cat with the sinks, less the maximum, softmax in the same dtype; *held until the function
 * returns. */
static vr_block softmax_with_sinks(vr_pass *p, const vr_heads *h, vr_block scores, vr_block *held)
{
    uint64_t rows = p->batch * h->q * p->q, bytes = (n_scores(p, h) + rows) * p->width;
    vr_block combined = score(p, bytes);
    vr_block largest = score(p, rows * p->width);
    vr_drop(p, score(p, rows * 8)); /* and where it is */
    *held = score(p, bytes);
    vr_drop(p, largest);
    vr_drop(p, combined);
    vr_block out = score(p, bytes);
    vr_drop(p, scores);
    return out;
}

/* MiMoV2Flash: with sinks or without, less the maximum, in the same dtype */
static vr_block softmax_shifted(vr_pass *p, const vr_heads *h, vr_block scores)
{
    uint64_t rows = p->batch * h->q * p->q, bytes = (n_scores(p, h) + (h->sinks ? rows : 0)) * p->width;
    if (h->sinks)
        vr_replace(p, &scores, score(p, bytes));
    vr_block largest = score(p, rows * p->width);
    vr_drop(p, score(p, rows * 8)); /* and where it is */
    vr_replace(p, &scores, score(p, bytes));
    vr_drop(p, largest);
    vr_block out = score(p, bytes);
    vr_drop(p, scores);
    return out;
}

vr_block vr_kernel_eager(vr_pass *p, const vr_heads *h, vr_block *probabilities)
{
    vr_block k = h->groups > 1 ? repeated(p, h, h->size) : VR_NONE;
    vr_block v = h->groups > 1 ? repeated(p, h, h->value) : VR_NONE;
    vr_block held = VR_NONE, scores = eager_scores(p, h);
    if (p->m->family->shifted_softmax)
        *probabilities = softmax_shifted(p, h, scores);
    else
        *probabilities = h->sinks ? softmax_with_sinks(p, h, scores, &held) : eager_softmax(p, h, scores);
    vr_block v_all = h->scattered || h->fresh ? gathered(p, h, p->width) : flattened(p, h, h->value);
    vr_block out = output(p, h);
    vr_gemm(p, false);
    vr_drop(p, v_all);
    out = by_token(p, h, out);
    vr_drop(p, k);
    vr_drop(p, v);
    vr_drop(p, held);
    return out;
}

/* ---- flash ---- */

/* The result lies as the queries do. */
static vr_block flash(vr_pass *p, const vr_heads *h)
{
    vr_block out = output(p, h);
    vr_block sums = score(p, p->batch * h->q * p->q * 4);
    vr_block seed = vr_take_at(p, 16, VR_ITEM_SCORES, VR_PLACE_RANDOM);
    vr_block offset = vr_take_at(p, 8, VR_ITEM_SCORES, VR_PLACE_RANDOM);
    vr_drop(p, offset);
    vr_drop(p, seed);
    vr_drop(p, sums);
    return out;
}

vr_block vr_kernel_flash(vr_pass *p, const vr_heads *h)
{
    vr_block out = flash(p, h);
    return h->packed ? by_token(p, h, out) : out;
}

/* ---- memory-efficient ---- */

/* sdpa gets mask and bias in one: of each sequence, or of each head. */
static bool is_masked(const vr_heads *h)
{
    return h->mask != VR_NONE || h->biased;
}

static uint64_t mask_rows(const vr_pass *p, const vr_heads *h)
{
    return (h->biased ? h->q : p->batch) * p->q;
}

/* Rows of mask or bias begin at multiples of 16 B (aten attention.cpp, pad_bias). */
static vr_block aligned_mask(vr_pass *p, const vr_heads *h, vr_block mask)
{
    if (!is_masked(h) || h->kv_tokens % 8 == 0)
        return mask;
    uint64_t row = vr_round_up(h->kv_tokens, 8) * p->width;
    vr_block padded = vr_take_at(p, mask_rows(p, h) * row, VR_ITEM_SCORES, VR_PLACE_PADDED_MASK);
    vr_drop(p, mask);
    return padded;
}

static vr_block efficient(vr_pass *p, const vr_heads *h, vr_block *mask)
{
    *mask = aligned_mask(p, h, *mask);
    vr_block out = output(p, h);
    /* more than 128 a head: sums do not stay in registers (kernel_forward.h, kNeedsOutputAccumulatorBuffer)
     */
    bool sums = (h->size > 128 || h->value > 128) && p->width != 4;
    vr_block seed = vr_take_at(p, 8, VR_ITEM_SCORES, VR_PLACE_RANDOM);
    vr_block offset = vr_take_at(p, 8, VR_ITEM_SCORES, VR_PLACE_RANDOM);
    vr_block wide = sums ? vr_take_at(p, value_elements(p, h) * 4, VR_ITEM_SCORES, VR_PLACE_KERNEL) : VR_NONE;
    vr_drop(p, wide);
    vr_drop(p, offset);
    vr_drop(p, seed);
    return out;
}

/* ---- plain products in 32 bits ---- */

/* What _scaled_dot_product_attention_math holds until it returns. */
typedef struct math_state {
    vr_block q, k, v, scaled, mask, k_all, v_all, softmax, narrow;
} math_state;

/* ones(L, S).tril(), then 0 and -inf in fp32 */
static vr_block causal_bias(vr_pass *p, const vr_heads *h)
{
    uint64_t n = p->q * h->kv_tokens;
    vr_block ones = score(p, n), lower = score(p, n);
    vr_drop(p, ones);
    vr_block zero = score(p, 4), infinity = score(p, 4), bias = score(p, n * 4);
    vr_drop(p, infinity);
    vr_drop(p, zero);
    vr_drop(p, lower);
    return bias;
}

static vr_block math_scores(vr_pass *p, const vr_heads *h, uint64_t kv_bytes)
{
    vr_block k = score(p, kv_bytes);
    vr_block copy = copies_queries(p, h) ? score(p, q_elements(p, h) * 4) : VR_NONE;
    vr_block k_copy = fresh_keys(p, h, 4);
    vr_block scores = score(p, n_scores(p, h) * 4);
    vr_gemm(p, false);
    vr_drop(p, k_copy);
    vr_drop(p, copy);
    vr_drop(p, k);
    if (is_masked(h) && p->width != 4)
        vr_drop(p, score(p, mask_rows(p, h) * h->kv_tokens * 4)); /* widened for the sum */
    return scores;
}

/* _safe_softmax: rows that are masked as a whole give 0 */
static vr_block safe_softmax(vr_pass *p, const vr_heads *h, vr_block scores)
{
    vr_block out = score(p, n_scores(p, h) * 4);
    vr_block infinite = score(p, n_scores(p, h));
    vr_block rows = score(p, p->batch * h->q * p->q);
    vr_block zero = score(p, 4);
    vr_drop(p, zero);
    vr_drop(p, rows);
    vr_drop(p, infinite);
    vr_drop(p, scores);
    return out;
}

static vr_block math_product(vr_pass *p, const vr_heads *h, math_state *s)
{
    bool wide = p->width == 4;
    s->narrow = wide ? VR_NONE : score(p, n_scores(p, h) * p->width);
    vr_block v = gathered(p, h, 4);
    vr_block out = wide ? output(p, h) : score(p, value_elements(p, h) * 4);
    vr_gemm(p, false);
    vr_drop(p, v);
    if (wide)
        return out;
    vr_block cast = output(p, h);
    vr_drop(p, out);
    return cast;
}

/* kv_heads: of keys and values as they are passed; grouped: to be repeated here. */
static vr_block math(vr_pass *p, const vr_heads *h, uint64_t kv_heads, bool grouped)
{
    uint64_t kv = p->batch * kv_heads * h->kv_tokens * h->size * 4;
    uint64_t values = p->batch * kv_heads * h->kv_tokens * h->value * 4;
    uint64_t all = grouped ? p->batch * h->q * h->kv_tokens * h->size * 4 : kv;
    bool wide = p->width == 4;
    math_state s;
    s.q = wide ? VR_NONE : score(p, q_elements(p, h) * 4);
    s.k = wide ? VR_NONE : score(p, kv);
    s.v = wide ? VR_NONE : score(p, values);
    s.scaled = score(p, q_elements(p, h) * 4);
    s.mask = !is_masked(h) && p->q > 1 ? causal_bias(p, h) : VR_NONE;
    s.k_all = grouped ? score(p, all) : VR_NONE;
    s.v_all = grouped ? score(p, all) : VR_NONE;
    s.softmax = safe_softmax(p, h, math_scores(p, h, all));
    vr_block out = math_product(p, h, &s);
    vr_block held[] = { s.softmax, s.k_all, s.v_all, s.scaled, s.mask, s.v, s.k, s.q, s.narrow };
    vr_drop_all(p, held, sizeof(held) / sizeof(held[0]));
    return out;
}

/* ---- sdpa ---- */

/* What is passed to scaled_dot_product_attention. */
typedef struct call {
    bool gqa, packs, repeats;
    backend backend;
} call;

static backend choose(const vram_workload *w, const vr_device_facts *d, bool gqa, bool masked)
{
    bool narrow = w->dtype == VR_BF16 || w->dtype == VR_F16;
    bool ampere = d->cc_major == 0 || d->cc_major >= 8;
    if (narrow && ampere && !masked)
        return FLASH;
    return gqa || (w->dtype == VR_BF16 && !ampere) ? MATH : EFFICIENT;
}

static call call_of(const vr_pass *p, const vr_heads *h)
{
    bool masked = is_masked(h), grouped = h->groups > 1;
    call c = { 0 };
    c.gqa = grouped && !masked && p->rules->gqa && p->torch->gqa && h->size <= 256;
    c.packs = grouped && !c.gqa && p->rules->packs_gqa && p->q == 1;
    c.repeats = grouped && !c.gqa && !c.packs;
    c.backend = choose(p->w, p->device, c.gqa, masked);
    if (c.backend == FLASH &&
        (h->size > 256 || h->size != h->value)) /* sdp_utils.cpp, check_head_dim_size_flash */
        c.backend = EFFICIENT;
    if (h->permuted) /* aten sdp_utils, check_last_dim_stride_equals_1_dense */
        c.backend = MATH;
    return c;
}

/* Where scaled_dot_product_attention makes a bool mask one of floats: 0 and -inf */
static vr_block float_mask(vr_pass *p, const vr_heads *h)
{
    vr_block infinity = vr_take_at(p, p->width, VR_ITEM_SCORES, VR_PLACE_MASK);
    vr_block zero = vr_take_at(p, p->width, VR_ITEM_SCORES, VR_PLACE_MASK);
    vr_block out = vr_take_at(p, p->batch * p->q * h->kv_tokens * p->width, VR_ITEM_SCORES, VR_PLACE_MASK);
    vr_drop(p, zero);
    vr_drop(p, infinity);
    return out;
}

static vr_block run(vr_pass *p, const vr_heads *h, const call *c, vr_block *mask)
{
    switch (c->backend) {
    case FLASH:
        return vr_kernel_flash(p, h);
    case EFFICIENT:
        return efficient(p, h, mask);
    default:
        return math(p, h, c->repeats ? h->q : h->kv, c->gqa);
    }
}

/* query.contiguous(), key.contiguous(), value.contiguous(): what the cache or repeat_kv copied is so already.
 */
static void make_contiguous(vr_pass *p, vr_heads *h, bool repeats, vr_block copies[3])
{
    uint64_t kv = p->rows * h->kv * h->size * p->width;
    copies[0] = copies[1] = copies[2] = VR_NONE;
    if (!p->rules->contiguous || p->q == 1)
        return;
    bool states = p->rules->appends && p->group->past == 0 && !repeats;
    if (!h->packed)
        copies[0] = score(p, q_elements(p, h) * p->width);
    if (states && !h->packed)
        copies[1] = score(p, kv);
    if (states)
        copies[2] = score(p, kv);
    h->packed = true;
}

vr_block vr_kernel_sdpa(vr_pass *p, const vr_heads *h)
{
    call c = call_of(p, h);
    vr_heads own = *h;
    vr_block copies[3];
    vr_block k = c.repeats ? repeated(p, h, h->size) : VR_NONE;
    vr_block v = c.repeats ? repeated(p, h, h->value) : VR_NONE;
    make_contiguous(p, &own, c.repeats, copies);
    if (h->mask == VR_NONE && p->q > 1 && vr_cache_fixed(p->w))
        own.kv_tokens = p->q; /* a view of what is filled, for flash wants as many keys as queries */
    vr_block mask = h->mask != VR_NONE ? float_mask(p, h) : VR_NONE;
    vr_block out = run(p, &own, &c, &mask);
    vr_drop(p, mask);
    if (c.backend == MATH)
        out = by_token(p, h, out);
    vr_drop_all(p, copies, 3);
    vr_drop(p, k);
    vr_drop(p, v);
    return out;
}

bool vr_sdpa_traced(const vram_workload *w, const vram_model *m, const vr_device_facts *d)
{
    bool window = vr_cache_fixed(w) && w->decode != 0; /* every step has a mask */
    for (uint64_t i = 0; i < m->n_layers; i++)
        window = window ||
                 (vr_has_window(&m->layers[i]) && vr_add_sat(w->context, w->decode) >= m->layers[i].window);
    for (uint64_t i = 0; i < m->n_layers; i++) /* the memory-efficient kernel, or an index */
        window = window || m->layers[i].key_dim != m->layers[i].value_dim || m->layers[i].index_topk != 0;
    return d->cc_major == 8 && w->dtype == VR_BF16 && !window;
}
