/* SPDX-License-Identifier: MIT
 * The figures that Ollama placed layers by before it ran llama-server: of the caches, and of a graph by a
 * closed form for each architecture. They are what it believed, not what a run takes.
 *
 * Source: Ollama v0.3.6 to v0.24.0, llm/ggml.go, then fs/ggml/ggml.go (GraphSize). */
#include "engine/ollama.h"

static uint64_t mul(uint64_t a, uint64_t b)
{
    return vr_mul_sat(a, b);
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return vr_add_sat(a, b);
}

static uint64_t add3(uint64_t a, uint64_t b, uint64_t c)
{
    return add(add(a, b), c);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- facts ---- */

static uint64_t stored(const vr_lm_weight *w)
{
    return w->tensor->end - w->tensor->begin;
}

static uint64_t outside(const vr_lm *lm, const char *prefix)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < lm->n_outside; i++) {
        if (vr_str_starts(lm->outside[i].name, prefix))
            sum = add(sum, stored(&lm->outside[i]));
    }
    return sum;
}

static void heads_of(vr_ollama_facts *out, const vr_lm *lm)
{
    out->heads_min = out->heads_kv_min = UINT64_MAX;
    for (uint32_t i = 0; i < lm->n_layer_all; i++) {
        uint64_t h = lm->layers[i].n_head, kv = lm->layers[i].n_head_kv;
        out->heads = larger(out->heads, h);
        out->heads_kv = larger(out->heads_kv, kv);
        out->heads_min = h < out->heads_min ? h : out->heads_min;
        out->heads_kv_min = kv < out->heads_kv_min ? kv : out->heads_kv_min;
    }
    uint64_t head = out->heads_min != 0 && out->heads_min != UINT64_MAX ? out->embedding / out->heads_min : 0;
    out->head_k = vr_lm_number(lm, "attention.key_length", head);
    out->head_v = vr_lm_number(lm, "attention.value_length", head);
}

static void states_of(uint64_t *states, const vr_lm *lm)
{
    uint64_t taps = lm->ssm_conv != 0 ? lm->ssm_conv - 1 : 0;
    uint64_t conv = mul(taps, add(lm->ssm_inner, mul(mul(2, lm->ssm_groups), lm->ssm_state)));
    uint64_t bytes = mul(add(conv, mul(lm->ssm_state, lm->ssm_inner)), 4);
    for (uint32_t i = 0; i < lm->n_layer_all; i++)
        states[i] = lm->layers[i].n_head == 0 || lm->layers[i].n_head_kv == 0 ? bytes : 0;
}

static void first_layer(vr_ollama_facts *out, const vr_lm *lm)
{
    const vr_lm_weight *w = vr_lm_find(lm, 0, "ffn_gate_exps.weight");
    if (w != NULL)
        out->gate_exps_bytes = stored(w);
    w = vr_lm_find(lm, 0, "ffn_gate.0.weight");
    if (w != NULL)
        out->gate_rows = w->ne[1];
    w = vr_lm_find(lm, 0, "attn_qkv.bias");
    if (w != NULL)
        out->qkv_bias = w->ne[0];
}

vram_status vr_ollama_facts_of(vr_ollama_facts *out, const vr_lm *lm, vr_arena *a)
{
    uint64_t *layers = VR_ARRAY(a, uint64_t, (size_t)lm->n_layer_all + 1);
    uint64_t *states = VR_ARRAY(a, uint64_t, (size_t)lm->n_layer_all + 1);
    if (layers == NULL || states == NULL)
        return VRAM_ENOMEM;
    *out = (vr_ollama_facts){ .arch = lm->name,
                              .embedding = lm->n_embd,
                              .vocab = lm->n_vocab,
                              .feed_forward = vr_lm_number(lm, "feed_forward_length", 0),
                              .window = lm->n_swa,
                              .n_layers = lm->n_layer_all,
                              .layers = layers,
                              .states = states };
    for (uint32_t i = 0; i < lm->n_layer_all; i++) {
        for (size_t k = 0; k < lm->layers[i].n_weights; k++)
            layers[i] = add(layers[i], stored(&lm->layers[i].weights[k]));
    }
    heads_of(out, lm);
    states_of(states, lm);
    first_layer(out, lm);
    uint64_t head = outside(lm, "output.");
    out->output = add(outside(lm, "output_norm."), head != 0 ? head : outside(lm, "token_embd."));
    return VRAM_OK;
}

/* ---- closed forms ---- */

/* The numbers of one graph, short as in the formulas. */
typedef struct numbers {
    uint64_t c, b, e, h, kv, v, head,
        k; /* context, batch, embedding, heads, KV heads, vocabulary, head sizes */
    const vr_ollama_facts *f;
} numbers;

typedef struct pair {
    uint64_t partial, full;
} pair;

/* 4 bytes for each token of the batch */
static uint64_t floats(const numbers *n, uint64_t width)
{
    return mul(mul(4, n->b), width);
}

static uint64_t scores(const numbers *n)
{
    return mul(n->c, add(1, n->h));
}

/* The head in about 6.5 bits */
static uint64_t head_bytes(const numbers *n)
{
    return mul(mul(n->e, n->v), 105) / 128;
}

static uint64_t ninth(uint64_t elements)
{
    return mul(elements, 9) / 16;
}

static pair mixtral(const numbers *n, pair p)
{
    uint64_t ff = n->f->feed_forward, g = n->f->gate_rows, rows = mul(n->head, n->kv);
    if (n->f->gate_exps_bytes != 0) {
        uint64_t first = add(mul(3, n->f->gate_exps_bytes),
                             floats(n, add(add3(mul(2, ff), n->kv, n->e), add(n->c, rows))));
        uint64_t second =
            mul(4, add(add3(mul(mul(n->c, n->b), n->h), mul(n->c, rows), mul(n->b, 1024)), mul(rows, n->b)));
        p.partial = larger(first, second);
    } else if (g != 0) {
        p.full = floats(n, add(add3(2, mul(3, n->e), scores(n)), add(mul(2, n->kv), g)));
        uint64_t first = add(floats(n, add(add3(3, rows, n->e), add(scores(n), g))),
                             ninth(add(mul(n->e, n->e), mul(mul(mul(3, n->e), n->kv), g))));
        uint64_t second = add(floats(n, add3(1, mul(2, n->e), scores(n))),
                              mul(n->e, add(mul(mul(6, n->c), n->kv) / larger(n->h, 1), ninth(n->e))));
        p.partial = larger(first, second);
    }
    return p;
}

static pair llama(const numbers *n)
{
    uint64_t attention = add3(floats(n, add3(1, n->e, larger(n->c, n->e))), ninth(mul(n->e, n->e)),
                              mul(mul(4, n->c), add(mul(n->b, n->h), mul(n->head, n->kv))));
    uint64_t output = add(floats(n, add(n->e, n->v)), head_bytes(n));
    pair p = { add(floats(n, n->e), larger(attention, output)),
               larger(floats(n, add3(1, mul(4, n->e), scores(n))), floats(n, add(n->e, n->v))) };
    return mixtral(n, p);
}

static pair gemma(const numbers *n)
{
    uint64_t kh = mul(n->k, n->h), times = vr_str_is(n->f->arch, "gemma3n") ? 4 : 1;
    uint64_t width = add(add3(2, scores(n), mul(2, n->e)), mul(2, kh));
    uint64_t part = add3(floats(n, add(add3(mul(2, n->e), 1, mul(2, kh)), scores(n))),
                         mul(mul(mul(4, n->k), n->c), 8), ninth(mul(n->e, kh)));
    pair p = { larger(add(floats(n, add(n->e, n->v)), head_bytes(n)), part),
               larger(floats(n, add(n->e, n->v)), floats(n, width)) };
    return (pair){ mul(p.partial, times), mul(p.full, times) };
}

static pair command_r(const numbers *n)
{
    uint64_t part =
        add3(floats(n, add3(1, mul(2, n->e), scores(n))), mul(mul(4, n->e), n->c), ninth(mul(n->e, n->e)));
    return (pair){ larger(add(floats(n, add(n->e, n->v)), head_bytes(n)), part),
                   larger(floats(n, add(n->e, n->v)), floats(n, add3(2, mul(4, n->e), scores(n)))) };
}

static pair qwen2(const numbers *n)
{
    uint64_t width = add3(1, mul(2, n->e), scores(n));
    uint64_t part = mul(4, add(mul(n->b, width), mul(n->e, add(1, n->c))));
    return (pair){ larger(add(floats(n, add(n->e, n->v)), head_bytes(n)), part),
                   larger(floats(n, add(n->e, n->v)), floats(n, width)) };
}

static pair phi2(const numbers *n)
{
    return (pair){ larger(add(floats(n, add(mul(2, n->e), n->v)), head_bytes(n)),
                          floats(n, add3(2, mul(3, n->e), scores(n)))),
                   larger(floats(n, add(n->e, n->v)), floats(n, add3(1, mul(4, n->e), scores(n)))) };
}

static pair stablelm(const numbers *n)
{
    uint64_t full = floats(n, add3(scores(n), mul(3, n->e), 2));
    return (pair){ larger(floats(n, add(n->v, mul(2, n->e))), full), full };
}

static pair deepseek2(const numbers *n)
{
    uint64_t kk = mul(n->k, n->kv), own = mul(n->c, add(1, n->kv));
    uint64_t part = add3(floats(n, add(add3(mul(2, n->e), 1, mul(2, kk)), own)),
                         mul(mul(mul(4, n->k), n->c), n->kv), ninth(mul(n->e, kk)));
    return (pair){ larger(add(floats(n, add(mul(3, n->e), n->v)), head_bytes(n)), part),
                   larger(floats(n, add(mul(3, n->e), n->v)),
                          floats(n, add(add3(mul(3, n->e), 2, own), mul(2, kk)))) };
}

static pair chatglm(const numbers *n)
{
    uint64_t full = floats(n, add(n->e, n->v)), kh = mul(n->k, n->h), bias = n->f->qkv_bias;
    pair p = { add(full, head_bytes(n)), full };
    if (bias == 0)
        return p;
    p.full = larger(full, floats(n, add(add3(2, mul(2, n->e), scores(n)), add(kh, bias))));
    uint64_t part = add(floats(n, add(add3(1, mul(2, n->e), kh), scores(n))), mul(mul(8, n->k), n->c));
    p.partial = larger(p.partial, add(part, mul(4, bias)));
    return p;
}

static const struct {
    const char *arch;
    pair (*graph)(const numbers *n);
} forms[] = {
    { "llama", llama },  { "llama4", llama },      { "gemma", gemma },         { "gemma2", gemma },
    { "gemma3", gemma }, { "gemma3n", gemma },     { "command-r", command_r }, { "qwen2", qwen2 },
    { "phi2", phi2 },    { "stablelm", stablelm }, { "deepseek2", deepseek2 }, { "chatglm", chatglm },
};

/* ---- caches ---- */

/* Halves of a byte for each element */
static uint64_t in_type(uint8_t type, uint64_t elements)
{
    uint64_t halves = type == VR_Q8_0 ? 2 : type == VR_Q4_0 ? 1 : type == VR_F32 ? 8 : 4;
    return mul(elements, halves) / 2;
}

static bool is_gpt_oss(const vr_ollama_facts *f)
{
    return vr_str_is(f->arch, "gptoss") || vr_str_is(f->arch, "gpt-oss");
}

/* Tokens kept in layer i: only two architectures are known to slide. */
static uint64_t tokens_of(const vr_ollama_facts *f, const vr_ollama_ask *q, size_t i)
{
    if (vr_str_is(f->arch, "gemma3") && (i + 1) % 6 != 0)
        return add(mul(q->parallel, f->window), q->batch);
    if (is_gpt_oss(f) && i % 2 == 0)
        return add(mul(q->parallel, 4096), q->batch);
    return q->tokens;
}

static void caches_of(vr_ollama_graph *out, const vr_ollama_rules *r, const vr_ollama_facts *f,
                      const vr_ollama_ask *q)
{
    uint64_t width = mul(add(f->head_k, f->head_v), f->heads_kv);
    for (size_t i = 0; i < f->n_layers; i++) {
        out->kv_of[i] = in_type(q->kv_type, mul(tokens_of(f, q, i), width));
        if (r->recurrent != 0 && f->states != NULL && f->states[i] != 0)
            out->kv_of[i] = f->states[i];
        out->kv = add(out->kv, out->kv_of[i]);
    }
}

/* Keys and values as if no layer slid. */
static uint64_t whole_caches(const vr_ollama_facts *f, const vr_ollama_ask *q)
{
    return in_type(q->kv_type, mul(mul(q->tokens, mul(add(f->head_k, f->head_v), f->heads_kv)), f->n_layers));
}

static pair of_gpt_oss(const vr_ollama_rules *r, const vr_ollama_facts *f, const vr_ollama_ask *q)
{
    uint64_t gqa = f->heads / larger(f->heads_kv_min, 1), kv = whole_caches(f, q);
    if (r->graph_halved == 0) {
        uint64_t full = mul(mul(4, gqa), kv) / 6;
        return (pair){ mul(full, r->graph_doubled != 0 ? 2 : 1), full };
    }
    if (q->flash) /* the shift binds tighter there than the sum */
        return (pair){ mul(add3(mul(4, q->parallel), q->tokens >> 10, 110), VR_MIB), 0 };
    return (pair){ mul(mul(2, gqa), kv) / 6, 0 };
}

/* ---- the whole ---- */

vram_status vr_ollama_graph_of(vr_ollama_graph *out, const vr_ollama_rules *r, const vr_ollama_facts *f,
                               const vr_ollama_ask *q, vr_arena *a)
{
    uint64_t head = f->heads_min != 0 ? f->embedding / f->heads_min : 0;
    numbers n = { q->tokens, q->batch, f->embedding, f->heads, f->heads_kv, f->vocab, head, f->head_k, f };
    pair p = { 0, 0 };
    *out = (vr_ollama_graph){ .kv_of = VR_ARRAY(a, uint64_t, f->n_layers + 1) };
    if (out->kv_of == NULL)
        return VRAM_ENOMEM;
    caches_of(out, r, f, q);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (vr_str_is(f->arch, forms[i].arch))
            p = forms[i].graph(&n);
    }
    if (is_gpt_oss(f))
        p = of_gpt_oss(r, f, q);
    if (p.partial == 0)
        p.partial = mul(f->heads / larger(f->heads_kv_min, 1), out->kv) / 6;
    out->partial = p.partial;
    out->full = p.full != 0 ? p.full : p.partial;
    return VRAM_OK;
}
