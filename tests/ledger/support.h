/* SPDX-License-Identifier: MIT
 * What the tests of the ledger share: a context on the counting hook, and an engine of their own that writes
 * the tape of a qwen2 model as the published experiments ran it (load by .to("cuda"), one prefill in bf16
 * with sdpa, all logits). It knows nothing of src/engine: the figures that come out are those measured on an
 * RTX 3060. */
#ifndef VR_LEDGER_SUPPORT_H
#define VR_LEDGER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "../support/hook.h"
#include "engine/pass.h"
#include "ledger/answer.h"

#define MIB_OF(x) ((uint64_t)((x)*1048576.0 + 0.5))
#define IN_MIB(bytes) (((bytes) + VR_MIB / 2) / VR_MIB) /* as nvidia-smi shows it */

typedef struct shape {
    uint64_t hidden, layers, heads, kv_heads, head_dim, ffn, vocab;
    bool tied;
} shape;

static const shape QWEN_1_5B = { 1536, 28, 12, 2, 128, 8960, 151936, true };
static const shape QWEN_7B = { 3584, 28, 28, 4, 128, 18944, 152064, false };

/* What the engine of the tests is to do. */
typedef struct play {
    const shape *model;
    bool not_counted[VR_CATEGORY_COUNT];
    uint64_t uncertain_permille;
    bool warms_up;        /* with a device map: a block for all weights first, cut by what is available */
    bool of_total;        /* ... by the card's total */
    bool quantised_in_16; /* dtype left open: fp32, but of quantised weights fp16, as transformers 4 has it */
    const char *kv_formula;
    unsigned n_plans;
    unsigned seen_cc; /* of the last plan */
} play;

static play stage;

typedef struct writer {
    vr_tape *t;
    const vram_workload *w;
    const shape *m;
    vr_arena *a;
    uint64_t tokens;
} writer;

static inline uint64_t bits_of(const vram_workload *w)
{
    return w->weight_quant == VR_QUANT_BNB_8BIT   ? 8
           : w->weight_quant == VR_QUANT_BNB_4BIT ? 4
           : w->dtype == VR_F32                   ? 32
                                                  : 16;
}

static inline void parameter(writer *x, const char *layer, uint64_t number, const char *name,
                             uint64_t elements, bool linear)
{
    const char *label = layer == NULL ? name : vr_text(x->a, T(layer), U(number), T(name));
    uint64_t bits = linear ? bits_of(x->w) : x->w->dtype == VR_F32 ? 32 : 16;
    if (label == NULL && x->t->status == VRAM_OK)
        x->t->status = VRAM_ENOMEM;
    if (label != NULL)
        vr_tape_alloc(x->t, elements * bits / 8, VR_ITEM_PARAMETERS, vr_tape_label(x->t, vr_str_of(label)));
}

static inline void load(writer *x)
{
    const shape *m = x->m;
    uint64_t q = m->heads * m->head_dim, k = m->kv_heads * m->head_dim, h = m->hidden;
    parameter(x, NULL, 0, "model.embed_tokens.weight", m->vocab * h, false);
    for (uint64_t i = 0; i < m->layers; i++) {
        const char *layer = "model.layers.";
        parameter(x, layer, i, ".self_attn.q_proj.weight", q * h, true);
        parameter(x, layer, i, ".self_attn.q_proj.bias", q, false);
        parameter(x, layer, i, ".self_attn.k_proj.weight", k * h, true);
        parameter(x, layer, i, ".self_attn.k_proj.bias", k, false);
        parameter(x, layer, i, ".self_attn.v_proj.weight", k * h, true);
        parameter(x, layer, i, ".self_attn.v_proj.bias", k, false);
        parameter(x, layer, i, ".self_attn.o_proj.weight", h * q, true);
        parameter(x, layer, i, ".mlp.gate_proj.weight", h * m->ffn, true);
        parameter(x, layer, i, ".mlp.up_proj.weight", h * m->ffn, true);
        parameter(x, layer, i, ".mlp.down_proj.weight", h * m->ffn, true);
        parameter(x, layer, i, ".input_layernorm.weight", h, false);
        parameter(x, layer, i, ".post_attention_layernorm.weight", h, false);
    }
    parameter(x, NULL, 0, "model.norm.weight", h, false);
    vr_tape_alloc(x->t, m->head_dim / 2 * 4, VR_ITEM_BUFFERS, 0);
    if (!m->tied)
        parameter(x, NULL, 0, "lm_head.weight", m->vocab * h, false);
    vr_tape_mark(x->t, VR_AT_LOADED);
}

static inline uint32_t hold(writer *x, uint64_t per_token, vr_item item)
{
    return vr_tape_alloc(x->t, x->tokens * per_token, item, 0);
}

static inline uint32_t hidden(writer *x, uint64_t per_token)
{
    return hold(x, per_token, VR_ITEM_HIDDEN);
}

static inline void drop(writer *x, uint32_t block)
{
    vr_tape_release(x->t, block);
}

static inline uint32_t norm(writer *x)
{
    uint64_t h = x->m->hidden;
    uint32_t wide = hidden(x, h * 4), square = hidden(x, h * 4), mean = hidden(x, 4);
    drop(x, square);
    uint32_t eps = hidden(x, 4), root = hidden(x, 4);
    drop(x, eps);
    uint32_t scaled = hidden(x, h * 4);
    drop(x, root);
    drop(x, wide);
    uint32_t narrow = hidden(x, h * 2), out = hidden(x, h * 2);
    drop(x, narrow);
    drop(x, scaled);
    drop(x, mean);
    return out;
}

static inline uint32_t rotate(writer *x, uint64_t width, vr_item item)
{
    uint32_t a = hidden(x, width * 2), half = hidden(x, width), cat = hidden(x, width * 2);
    drop(x, half);
    uint32_t b = hidden(x, width * 2);
    drop(x, cat);
    uint32_t out = hold(x, width * 2, item);
    drop(x, a);
    drop(x, b);
    return out;
}

static inline uint32_t layer(writer *x, uint32_t residual, bool *lt_workspace)
{
    const shape *m = x->m;
    uint64_t q_width = m->heads * m->head_dim, k_width = m->kv_heads * m->head_dim;
    uint32_t normed = norm(x), q = hidden(x, q_width * 2);
    if (!*lt_workspace)
        vr_tape_alloc(x->t, VR_MIB, VR_ITEM_WORKSPACES, 0);
    *lt_workspace = true;
    uint32_t k = hidden(x, k_width * 2);
    hold(x, k_width * 2, VR_ITEM_KV);
    uint32_t turned = rotate(x, q_width, VR_ITEM_HIDDEN);
    rotate(x, k_width, VR_ITEM_KV);
    drop(x, q);
    drop(x, k);
    uint32_t attention = hidden(x, q_width * 2), lse = hidden(x, m->heads * 4);
    drop(x, lse);
    drop(x, turned);
    uint32_t projected = hidden(x, m->hidden * 2);
    drop(x, attention);
    drop(x, normed);
    uint32_t out = hidden(x, m->hidden * 2);
    drop(x, projected);
    drop(x, residual);
    residual = out;
    normed = norm(x);
    uint32_t gate = hidden(x, m->ffn * 2), act = hidden(x, m->ffn * 2);
    drop(x, gate);
    uint32_t up = hidden(x, m->ffn * 2), product = hidden(x, m->ffn * 2);
    drop(x, act);
    drop(x, up);
    uint32_t down = hidden(x, m->hidden * 2);
    drop(x, product);
    drop(x, normed);
    out = hidden(x, m->hidden * 2);
    drop(x, down);
    drop(x, residual);
    return out;
}

static inline void prefill(writer *x)
{
    const shape *m = x->m;
    uint32_t trig[2];
    bool lt_workspace = false;
    hold(x, 8, VR_ITEM_INPUTS);
    uint32_t residual = hidden(x, m->hidden * 2), position = hold(x, 8, VR_ITEM_INPUTS);
    uint32_t freqs = hidden(x, m->head_dim * 2);
    vr_tape_outside(x->t, VR_ITEM_KERNELS, 0);
    vr_tape_alloc(x->t, 8519680, VR_ITEM_WORKSPACES, 0); /* cuBLAS below Hopper: :4096:2:16:8 */
    uint32_t emb = hidden(x, m->head_dim * 4);
    for (int i = 0; i < 2; i++) {
        uint32_t raw = hidden(x, m->head_dim * 4), scaled = hidden(x, m->head_dim * 4);
        drop(x, raw);
        trig[i] = hold(x, m->head_dim * 2, VR_ITEM_INPUTS);
        drop(x, scaled);
    }
    drop(x, emb);
    drop(x, freqs);
    for (uint64_t i = 0; i < m->layers; i++)
        residual = layer(x, residual, &lt_workspace);
    uint32_t normed = norm(x);
    drop(x, residual);
    uint64_t positions = x->w->logits == VR_LOGITS_ALL ? x->tokens : x->w->prefill_batch;
    vr_tape_alloc(x->t, positions * m->vocab * 2, VR_ITEM_LOGITS, 0);
    drop(x, normed);
    drop(x, trig[0]);
    drop(x, trig[1]);
    drop(x, position);
    vr_tape_mark(x->t, VR_AT_PREFILL);
}

static inline uint64_t weight_of(const vr_event *e)
{
    return e->kind == VR_EV_ALLOC && e->item == VR_ITEM_PARAMETERS ? e->bytes : 0;
}

static inline void warm_up(writer *x)
{
    const shape *m = x->m;
    uint64_t all = m->layers * 3 * m->hidden * m->ffn * bits_of(x->w) / 8;
    if (stage.warms_up && (x->w->device_map != VR_MAP_NONE || x->w->weight_quant != VR_QUANT_NONE))
        vr_tape_release(x->t, vr_tape_alloc_cut(x->t, all, VR_ITEM_WARMUP, 0, 256 * VR_MIB, stage.of_total));
}

static inline vram_status test_plan(vr_plan *out, const vram_model *m, const vram_workload *w,
                                    const vr_device_facts *device, vr_arena *a)
{
    writer x = { &out->tape, w, stage.model, a, w->prefill_batch * w->context };
    (void)m;
    stage.n_plans++;
    stage.seen_cc = device->cc_major;
    vr_tape_init(&out->tape, a);
    vr_tape_outside(&out->tape, VR_ITEM_CONTEXT, 0);
    vr_tape_mark(&out->tape, VR_AT_CONTEXT);
    warm_up(&x);
    load(&x);
    if (!stage.not_counted[VR_ACTIVATIONS])
        prefill(&x);
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        out->counted[c] = !stage.not_counted[c];
        out->why_not[c] = stage.not_counted[c] ? "the test leaves it out" : NULL;
        out->basis[c] = VR_BASIS_SIMULATED;
    }
    out->basis[VR_WEIGHTS] = w->weight_quant == VR_QUANT_NONE ? VR_BASIS_EXACT : VR_BASIS_FORMULA;
    out->formula[VR_KV_CACHE] = stage.kv_formula;
    out->verified = true;
    out->uncertain_permille = stage.uncertain_permille;
    for (size_t i = 0; i < out->tape.n; i++)
        out->weight_bytes += weight_of(&out->tape.events[i]);
    return out->tape.status;
}

static inline vram_status test_defaults(vram_workload *w, const vram_model *m)
{
    (void)m;
    if (w->context == 0)
        w->context = 4096;
    if (w->sequences == 0)
        w->sequences = 1;
    if (w->dtype == VR_DTYPE_NONE)
        w->dtype = !stage.quantised_in_16 ? VR_BF16 : w->weight_quant != VR_QUANT_NONE ? VR_F16 : VR_F32;
    return VRAM_OK;
}

static const vr_engine test_engine = { .name = "test",
                                       .summary = "writes the tape of the published runs",
                                       .default_version = "5.0",
                                       .plan = test_plan,
                                       .defaults = test_defaults,
                                       .kv_dtypes = 1u << VR_KV_AS_MODEL,
                                       .options = vr_transformers_options,
                                       .n_options = VR_TRANSFORMERS_OPTIONS };

static inline void all_by_user(vram_workload *w)
{
    for (int i = 0; i < VR_SETTING_COUNT; i++)
        w->set_by[i] = vr_engine_has(w->engine, (vr_setting)i) ? VR_BY_USER : VR_BY_DEFAULT;
}

typedef struct world {
    hook h;
    vram_ctx *ctx;
    vram_model model;
    vram_workload work;
} world;

static inline void open_world(world *s, const shape *m)
{
    memset(s, 0, sizeof(*s));
    memset(&stage, 0, sizeof(stage));
    stage.model = m;
    assert_int_equal(vram_open(&s->ctx, hook_alloc, &s->h), VRAM_OK);
    s->model = (vram_model){ .ctx = s->ctx, .dtype = VR_BF16 };
    s->work = (vram_workload){ .ctx = s->ctx,
                               .engine = &test_engine,
                               .version_major = 5,
                               .context = 4096,
                               .sequences = 1,
                               .prefill_batch = 1,
                               .dtype = VR_BF16,
                               .logits = VR_LOGITS_ALL };
    all_by_user(&s->work);
}

static inline void close_world(world *s)
{
    vram_close(s->ctx);
    assert_int_equal(s->h.live_bytes, 0);
}

static inline vram_device *device(world *s, const char *query, uint64_t free_bytes)
{
    vram_device *d = NULL;
    assert_int_equal(vram_device_new(&d, s->ctx, query, free_bytes), VRAM_OK);
    return d;
}

static inline vram_fit *fit(world *s, const vram_device *d)
{
    vram_fit *f = NULL;
    vram_status status = vram_fit_new(&f, &s->model, &s->work, &d, d == NULL ? 0 : 1);
    if (status != VRAM_OK)
        fail_msg("vram_fit_new: %s", vram_last_error(s->ctx)->text);
    return f;
}

/* The ledger's rules: six sum to required, overhead is the sum of its items and the driver's figure minus the
 * other five, low
 * <= nominal <= high. */
static inline void check_invariants(const vram_fit *f)
{
    const vr_ledger *l = &f->ledger;
    uint64_t six = 0, items = 0, others = 0;
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        six += l->category[c].bytes;
        others += c != VR_OVERHEAD ? l->category[c].bytes : 0;
        assert_true(l->category[c].low <= l->category[c].bytes &&
                    l->category[c].bytes <= l->category[c].high);
    }
    for (int i = 0; i < VR_ITEM_COUNT; i++) {
        assert_true(l->item[i].low <= l->item[i].bytes && l->item[i].bytes <= l->item[i].high);
        if (vr_item_category((vr_item)i) == VR_OVERHEAD)
            items += l->item[i].bytes;
    }
    assert_int_equal(six, l->required);
    assert_int_equal(items, l->category[VR_OVERHEAD].bytes);
    assert_int_equal(l->category[VR_OVERHEAD].bytes, f->needs.peak.driver - others);
    assert_true(l->required_low <= l->required && l->required <= l->required_high);
}

#endif
