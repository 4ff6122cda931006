/* SPDX-License-Identifier: MIT
 * Tapes of Qwen2 models from their shapes, as transformers 4.5x loads them with .to("cuda") and runs one pass
 * in eager code with SDPA: the order of requests of the published experiments that test_rehearsal.c is held
 * against. Test code, the engine's own tapes are made in src/engine. */
#ifndef VR_TEST_QWEN_H
#define VR_TEST_QWEN_H

#include "support.h"

typedef struct qwen {
    uint64_t hidden, layers, heads, kv_heads, head_dim, ffn, vocab;
    bool tied;
} qwen;

/* config.json of Qwen/Qwen2.5-1.5B-Instruct and Qwen/Qwen2.5-Coder-7B-Instruct */
static const qwen qwen_1_5b = { 1536, 28, 12, 2, 128, 8960, 151936, true };
static const qwen qwen_7b = { 3584, 28, 28, 4, 128, 18944, 152064, false };

static inline void parameter(vr_tape *t, vr_arena *a, const char *layer, const char *name, uint64_t elements)
{
    const char *label = vr_text(a, T(layer), T(name));
    if (label == NULL)
        t->status = VRAM_ENOMEM;
    vr_tape_alloc(t, elements * 2, VR_ITEM_PARAMETERS, vr_tape_label(t, vr_str_of(label)));
}

static inline void qwen_layer(vr_tape *t, vr_arena *a, const qwen *q, uint64_t i)
{
    const char *at = vr_text(a, T("model.layers."), U(i), T("."));
    if (at == NULL) {
        t->status = VRAM_ENOMEM;
        return;
    }
    uint64_t full = q->heads * q->head_dim, few = q->kv_heads * q->head_dim;
    parameter(t, a, at, "self_attn.q_proj.weight", full * q->hidden);
    parameter(t, a, at, "self_attn.q_proj.bias", full);
    parameter(t, a, at, "self_attn.k_proj.weight", few * q->hidden);
    parameter(t, a, at, "self_attn.k_proj.bias", few);
    parameter(t, a, at, "self_attn.v_proj.weight", few * q->hidden);
    parameter(t, a, at, "self_attn.v_proj.bias", few);
    parameter(t, a, at, "self_attn.o_proj.weight", q->hidden * full);
    parameter(t, a, at, "mlp.gate_proj.weight", q->hidden * q->ffn);
    parameter(t, a, at, "mlp.up_proj.weight", q->hidden * q->ffn);
    parameter(t, a, at, "mlp.down_proj.weight", q->hidden * q->ffn);
    parameter(t, a, at, "input_layernorm.weight", q->hidden);
    parameter(t, a, at, "post_attention_layernorm.weight", q->hidden);
}

static inline void qwen_load(vr_tape *t, vr_arena *a, const qwen *q)
{
    vr_tape_outside(t, VR_ITEM_CONTEXT, 0);
    vr_tape_mark(t, VR_AT_CONTEXT);
    parameter(t, a, "", "model.embed_tokens.weight", q->vocab * q->hidden);
    for (uint64_t i = 0; i < q->layers; i++)
        qwen_layer(t, a, q, i);
    parameter(t, a, "", "model.norm.weight", q->hidden);
    vr_tape_alloc(t, q->head_dim / 2 * 4, VR_ITEM_BUFFERS,
                  vr_tape_label(t, VR_LIT("model.rotary_emb.inv_freq")));
    if (!q->tied)
        parameter(t, a, "", "lm_head.weight", q->vocab * q->hidden);
    vr_tape_mark(t, VR_AT_LOADED);
}

/* A pass of one sequence; what stays: logits, keys, values. */
typedef struct pass {
    vr_tape *t;
    const qwen *q;
    uint64_t tokens;
    uint32_t kept[2 * 64 + 1];
    size_t n_kept;
} pass;

static inline uint32_t hold(const pass *p, uint64_t row_bytes, vr_item item)
{
    return vr_tape_alloc(p->t, p->tokens * row_bytes, item, 0);
}

static inline void drop(const pass *p, uint32_t block)
{
    vr_tape_release(p->t, block);
}

static inline uint32_t rms_norm(const pass *p)
{
    uint64_t wide = p->q->hidden * 4, narrow = p->q->hidden * 2;
    uint32_t x = hold(p, wide, VR_ITEM_HIDDEN), square = hold(p, wide, VR_ITEM_HIDDEN),
             mean = hold(p, 4, VR_ITEM_HIDDEN);
    drop(p, square);
    uint32_t plus = hold(p, 4, VR_ITEM_HIDDEN);
    drop(p, mean);
    uint32_t root = hold(p, 4, VR_ITEM_HIDDEN);
    drop(p, plus);
    uint32_t scaled = hold(p, wide, VR_ITEM_HIDDEN);
    drop(p, x);
    drop(p, root);
    uint32_t half = hold(p, narrow, VR_ITEM_HIDDEN), out = hold(p, narrow, VR_ITEM_HIDDEN);
    drop(p, half);
    drop(p, scaled);
    return out;
}

static inline uint32_t rotate(const pass *p, uint64_t row_bytes)
{
    uint32_t a = hold(p, row_bytes, VR_ITEM_HIDDEN), half = hold(p, row_bytes / 2, VR_ITEM_HIDDEN);
    uint32_t joined = hold(p, row_bytes, VR_ITEM_HIDDEN);
    drop(p, half);
    uint32_t b = hold(p, row_bytes, VR_ITEM_HIDDEN);
    drop(p, joined);
    uint32_t out = hold(p, row_bytes, VR_ITEM_HIDDEN);
    drop(p, a);
    drop(p, b);
    return out;
}

/* Consumes q, k, v; the cache keeps copies of k and v (torch.cat). */
static inline uint32_t attention(pass *p, uint32_t q, uint32_t k, uint32_t v)
{
    uint64_t full = p->q->heads * p->q->head_dim * 2, few = p->q->kv_heads * p->q->head_dim * 2;
    uint32_t q2 = rotate(p, full), k2 = rotate(p, few);
    drop(p, q);
    drop(p, k);
    p->kept[p->n_kept++] = hold(p, few, VR_ITEM_KV);
    drop(p, k2);
    p->kept[p->n_kept++] = hold(p, few, VR_ITEM_KV);
    drop(p, v);
    uint32_t lse = hold(p, p->q->heads * 4, VR_ITEM_HIDDEN), out = hold(p, full, VR_ITEM_HIDDEN);
    uint32_t rng = vr_tape_alloc(p->t, 512, VR_ITEM_HIDDEN, 0);
    drop(p, rng);
    drop(p, lse);
    drop(p, q2);
    return out;
}

static inline uint32_t mlp(const pass *p, uint32_t normed)
{
    uint64_t row = p->q->ffn * 2;
    uint32_t gate = hold(p, row, VR_ITEM_HIDDEN), active = hold(p, row, VR_ITEM_HIDDEN);
    drop(p, gate);
    uint32_t up = hold(p, row, VR_ITEM_HIDDEN), product = hold(p, row, VR_ITEM_HIDDEN);
    drop(p, active);
    drop(p, up);
    uint32_t down = hold(p, p->q->hidden * 2, VR_ITEM_HIDDEN);
    drop(p, product);
    (void)normed;
    return down;
}

static inline uint32_t pass_layer(pass *p, uint32_t x, bool first)
{
    uint64_t hidden = p->q->hidden * 2, few = p->q->kv_heads * p->q->head_dim * 2;
    uint32_t residual = x, normed = rms_norm(p);
    uint32_t q = hold(p, p->q->heads * p->q->head_dim * 2, VR_ITEM_HIDDEN);
    if (first) /* cuBLASLt, at the first linear layer with a bias */
        vr_tape_alloc(p->t, VR_MIB, VR_ITEM_WORKSPACES, 0);
    uint32_t k = hold(p, few, VR_ITEM_HIDDEN), v = hold(p, few, VR_ITEM_HIDDEN);
    uint32_t out = attention(p, q, k, v), projected = hold(p, hidden, VR_ITEM_HIDDEN);
    drop(p, out);
    drop(p, normed);
    x = hold(p, hidden, VR_ITEM_HIDDEN);
    drop(p, residual);
    drop(p, projected);
    residual = x;
    normed = rms_norm(p);
    uint32_t down = mlp(p, normed);
    x = hold(p, hidden, VR_ITEM_HIDDEN);
    drop(p, residual);
    drop(p, down);
    drop(p, normed);
    return x;
}

static inline void qwen_pass(vr_tape *t, const qwen *q, uint64_t tokens)
{
    pass p = { .t = t, .q = q, .tokens = tokens };
    vr_tape_outside(t, VR_ITEM_KERNELS, 0);
    hold(&p, 8, VR_ITEM_INPUTS); /* token ids stay with the caller */
    uint32_t x = hold(&p, q->hidden * 2, VR_ITEM_HIDDEN), position = hold(&p, 8, VR_ITEM_INPUTS);
    uint32_t wide = hold(&p, 4, VR_ITEM_INPUTS), freqs = hold(&p, q->head_dim / 2 * 4, VR_ITEM_INPUTS);
    vr_tape_alloc(t, 8 * VR_MIB + 128 * VR_KIB, VR_ITEM_WORKSPACES,
                  0); /* cuBLAS before Hopper: :4096:2:16:8 */
    uint32_t emb = hold(&p, q->head_dim * 4, VR_ITEM_INPUTS), trig[2], narrow[2];
    for (size_t i = 0; i < 2; i++) {
        uint32_t raw = hold(&p, q->head_dim * 4, VR_ITEM_INPUTS);
        trig[i] = hold(&p, q->head_dim * 4, VR_ITEM_INPUTS);
        drop(&p, raw);
    }
    for (size_t i = 0; i < 2; i++) {
        narrow[i] = hold(&p, q->head_dim * 2, VR_ITEM_INPUTS);
        drop(&p, trig[i]);
    }
    drop(&p, emb);
    drop(&p, freqs);
    drop(&p, wide);
    for (uint64_t i = 0; i < q->layers; i++)
        x = pass_layer(&p, x, i == 0);
    uint32_t normed = rms_norm(&p);
    drop(&p, x);
    p.kept[p.n_kept++] = hold(&p, q->vocab * 2, VR_ITEM_LOGITS);
    drop(&p, normed);
    drop(&p, narrow[0]);
    drop(&p, narrow[1]);
    drop(&p, position);
    vr_tape_mark(t, VR_AT_PREFILL);
    while (p.n_kept > 0)
        drop(&p, p.kept[--p.n_kept]);
    vr_tape_empty_cache(t);
    vr_tape_mark(t, VR_AT_RELEASED);
}

#endif
