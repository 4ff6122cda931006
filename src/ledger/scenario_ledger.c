/* SPDX-License-Identifier: MIT
 *
 * The six categories of one scenario by formula. Sources:
 * - model states of mixed-precision Adam, 2 + 2 + 12 bytes a parameter: ZeRO (Rajbhandari et al. 2020,
 * section 3.1); of fp32 Adam 4 + 4 + 8;
 * - largest live set inside one decoder layer of transformers' prefill: the order of operations in its
 * modelling files (norm in fp32: three fp32 tensors; attention: q, k, v and the rotary temporaries; gated
 * MLP: gate, act x up);
 * - activations that a decoder layer saves for the backward pass, 16h + 4q + 4k + 8f bytes a token in 16 bits
 * (24h + 8q + 8k + 16f in fp32), counted with torch's saved_tensors_hooks on a Llama block, within 0.3 %;
 * - cross-entropy over bf16 logits, 14 bytes a token and word at its peak (16 in fp32): Liger-Kernel's
 * published benchmark data, within 0.2 %. */
#include "ledger/scenario.h"

#define INFER_BAND                                                                                           \
    100 /* permille of a layer's live set: derived from the code, kernels may hold workspaces */
#define TRAIN_BAND 150 /* permille: 9 of 10 published peaks of training lie within 15 % of these formulas */

static const char NO_PARAMS[] = "the number of parameters is not given";
static const char NO_KV[] = "neither the KV bytes per token nor layers, KV heads and head width are given";
static const char NO_CONTEXT[] = "the context is not given";
static const char NO_OVERHEAD[] =
    "no share for it is given; a CUDA context and an allocator's idle blocks always exist";
static const char NO_SHAPE[] = "hidden width, feed-forward width, layers and vocabulary are not given";
static const char TRAINING_ONLY[] = "none: nothing is trained";
static const char SERVING_ONLY[] = "none: training keeps no KV cache";

typedef struct work {
    vr_scenario_result *r;
    const vr_numbers *n;
    vram_scenario *s;
    vr_arena *texts; /* NULL: no words */
    uint64_t width;  /* bytes of an element that is computed with */
    bool out_of_memory;
} work;

static void say(work *w, vr_category c, const char *text)
{
    if (text == NULL)
        w->out_of_memory = true;
    w->r->ledger.category[c].formula = text;
}

#define SAY(w, c, ...)                                                                                       \
    do {                                                                                                     \
        if ((w)->texts != NULL)                                                                              \
            say((w), (c), vr_text((w)->texts, __VA_ARGS__));                                                 \
    } while (0)

static void count(work *w, vr_category c, uint64_t bytes)
{
    w->r->ledger.category[c] = (vr_figure){
        .counted = true, .bytes = bytes, .low = bytes, .high = bytes, .basis = VR_BASIS_FORMULA
    };
}

static void count_item(work *w, vr_item i, uint64_t bytes)
{
    w->r->ledger.item[i] = (vr_figure){
        .counted = bytes > 0, .bytes = bytes, .low = bytes, .high = bytes, .basis = VR_BASIS_FORMULA
    };
}

static void leave_out(work *w, vr_category c, const char *why)
{
    w->r->ledger.category[c] = (vr_figure){ .basis = VR_BASIS_NOT_COUNTED, .formula = why };
}

static void cannot_exist(work *w, vr_category c, const char *why)
{
    w->r->ledger.category[c] = (vr_figure){ .counted = true, .basis = VR_BASIS_EXACT, .formula = why };
}

static uint64_t times(uint64_t a, uint64_t b, uint64_t c)
{
    return vr_mul_sat(vr_mul_sat(a, b), c);
}

static vram_status too_much(const work *w, vr_number what)
{
    return vr_number_fail(w->s, w->n, what, "makes more than 2^63 bytes");
}

static bool at_least(vr_ratio r, uint64_t whole)
{
    return r.value >= vr_mul_sat(whole, r.scale);
}

/* ---- states ---- */

static vram_status weights(work *w)
{
    const vr_numbers *n = w->n;
    uint64_t trained = n->train ? vr_ratio_of(n->params, n->trainable) : 0;
    if (!n->given[VR_NUM_PARAMS]) {
        leave_out(w, VR_WEIGHTS, NO_PARAMS);
        return VRAM_OK;
    }
    uint64_t bytes = vr_add_sat(vr_ratio_of(n->params - trained, n->weight_bytes),
                                vr_ratio_of(trained, n->trained_weight_bytes));
    if (bytes == UINT64_MAX)
        return too_much(w, VR_NUM_PARAMS);
    count(w, VR_WEIGHTS, bytes);
    count_item(w, VR_ITEM_PARAMETERS, bytes);
    SAY(w, VR_WEIGHTS, GROUPED(n->params), T(" parameters x "), vr_ratio_piece(n->weight_bytes), T(" B"));
    return VRAM_OK;
}

static vram_status states(work *w)
{
    const vr_numbers *n = w->n;
    bool fp32 = at_least(n->weight_bytes, 4);
    uint64_t trained = vr_ratio_of(n->params, n->trainable), per_gradient = fp32 ? 4 : 2,
             per_state = fp32 ? 8 : 12;
    if (!n->given[VR_NUM_PARAMS]) {
        leave_out(w, VR_GRADIENTS, NO_PARAMS);
        leave_out(w, VR_OPTIMIZER, NO_PARAMS);
        return VRAM_OK;
    }
    uint64_t gradients = vr_mul_sat(trained, per_gradient), optimizer = vr_mul_sat(trained, per_state);
    if (gradients == UINT64_MAX || optimizer == UINT64_MAX)
        return too_much(w, VR_NUM_PARAMS);
    count(w, VR_GRADIENTS, gradients);
    count_item(w, VR_ITEM_GRADIENT, gradients);
    SAY(w, VR_GRADIENTS, GROUPED(trained), T(" trained parameters x "), U(per_gradient), T(" B"));
    count(w, VR_OPTIMIZER, optimizer);
    count_item(w, VR_ITEM_STATES, optimizer);
    SAY(w, VR_OPTIMIZER, GROUPED(trained), T(" trained parameters x "), U(per_state),
        T(fp32 ? " B (Adam: two fp32 moments)" : " B (mixed Adam: fp32 master weight and two fp32 moments)"));
    return VRAM_OK;
}

/* ---- KV cache ---- */

static uint64_t head_dim(const vr_numbers *n)
{
    if (n->given[VR_NUM_HEAD_DIM])
        return n->head_dim;
    return n->given[VR_NUM_HIDDEN] && n->given[VR_NUM_HEADS] ? n->hidden / n->heads : 0;
}

/* Bytes of one token in all layers; 0: not known. Keys and values in 16 bits, also of quantised weights. */
static uint64_t kv_per_token(const work *w)
{
    const vr_numbers *n = w->n;
    if (n->given[VR_NUM_KV_BYTES_PER_TOKEN])
        return n->kv_bytes_per_token;
    uint64_t heads = n->given[VR_NUM_KV_HEADS] ? n->kv_heads : n->given[VR_NUM_HEADS] ? n->heads : 0;
    return n->given[VR_NUM_LAYERS] ? times(times(2, n->layers, heads), head_dim(n), w->width) : 0;
}

static vram_status kv_cache(work *w)
{
    const vr_numbers *n = w->n;
    uint64_t per_token = kv_per_token(w);
    if (per_token == UINT64_MAX)
        return too_much(w, VR_NUM_LAYERS);
    w->r->kv_per_token = per_token;
    if (per_token == 0 || !n->given[VR_NUM_CONTEXT]) {
        leave_out(w, VR_KV_CACHE, per_token == 0 ? NO_KV : NO_CONTEXT);
        return VRAM_OK;
    }
    uint64_t bytes = times(per_token, n->context, n->sequences);
    if (bytes == UINT64_MAX)
        return too_much(w, VR_NUM_CONTEXT);
    count(w, VR_KV_CACHE, bytes);
    count_item(w, VR_ITEM_KV, bytes);
    SAY(w, VR_KV_CACHE, GROUPED(n->sequences), T(n->sequences == 1 ? " sequence x " : " sequences x "),
        GROUPED(n->context), T(" tokens x "), GROUPED(per_token), T(" B"));
    return VRAM_OK;
}

/* ---- activations ---- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void attention_widths(const vr_numbers *n, uint64_t *q, uint64_t *k)
{
    uint64_t wide = head_dim(n);
    *q = n->given[VR_NUM_HEADS] && wide != 0 ? vr_mul_sat(n->heads, wide) : n->hidden;
    *k = n->given[VR_NUM_KV_HEADS] && wide != 0 ? vr_mul_sat(n->kv_heads, wide) : *q;
}

/* Largest live set of one layer in a prefill, bytes of one token, b bytes an element: the norm (residual and
 * three fp32 tensors), the attention (residual, normed, q, k, v, 2.5 q of rotary temporaries), the gated MLP
 * (residual, normed, three tensors of the feed-forward width). */
static uint64_t layer_per_token(const work *w)
{
    const vr_numbers *n = w->n;
    uint64_t b = w->width, q, k;
    attention_widths(n, &q, &k);
    uint64_t norm = vr_mul_sat(n->hidden, b + 12);
    uint64_t attention = vr_add_sat(times(2, b, n->hidden), vr_add_sat(times(7, b, q) / 2, times(2, b, k)));
    uint64_t mlp = vr_add_sat(times(2, b, n->hidden), times(3, b, n->given[VR_NUM_FFN] ? n->ffn : 0));
    return larger(norm, larger(attention, mlp));
}

static void band(vr_figure *f, uint64_t floor_bytes, uint64_t permille)
{
    f->low = larger(floor_bytes, vr_mul_div(f->bytes, 1000 - permille, 1000));
    f->high = vr_mul_div(f->bytes, 1000 + permille, 1000);
}

static void say_prefill(work *w, uint64_t tokens, uint64_t positions, bool head)
{
    const vr_numbers *n = w->n;
    if (head)
        SAY(w, VR_ACTIVATIONS, T("logits of one prefill: "), GROUPED(positions),
            T(positions == 1 ? " position x " : " positions x "), GROUPED(n->vocab), T(" words x "),
            U(w->width),
            T(n->given[VR_NUM_HIDDEN] ? " B, and the hidden states" : " B; the layers are not counted"));
    else
        SAY(w, VR_ACTIVATIONS, GROUPED(tokens), T(" tokens x "), GROUPED(layer_per_token(w)),
            T(" B, the most that one layer holds at once"));
}

/* One prefill: either a layer or the head is the peak. */
static vram_status prefill(work *w)
{
    const vr_numbers *n = w->n;
    uint64_t batch = n->prefill_batch < n->sequences ? n->prefill_batch : n->sequences;
    uint64_t tokens = vr_mul_sat(batch, n->context), positions = n->logits_all ? tokens : batch;
    uint64_t logits = n->given[VR_NUM_VOCAB] ? times(positions, n->vocab, w->width) : 0;
    uint64_t layer = n->given[VR_NUM_HIDDEN] ? vr_mul_sat(tokens, layer_per_token(w)) : 0;
    uint64_t hidden = n->given[VR_NUM_HIDDEN] ? times(tokens, n->hidden, w->width) : 0;
    uint64_t head = vr_add_sat(logits, hidden);
    if (head == UINT64_MAX || layer > UINT64_MAX / 2)
        return too_much(w, VR_NUM_CONTEXT);
    w->r->logits_bytes = logits;
    w->r->layer_bytes = layer;
    w->r->activations_partly = logits == 0 || layer == 0 || !n->given[VR_NUM_FFN];
    count(w, VR_ACTIVATIONS, larger(head, layer));
    vr_figure *f = &w->r->ledger.category[VR_ACTIVATIONS];
    if (layer > head)
        band(f, head, INFER_BAND);
    else
        f->high = larger(head, vr_mul_div(layer, 1000 + INFER_BAND, 1000));
    count_item(w, VR_ITEM_LOGITS, layer > head ? 0 : logits);
    count_item(w, VR_ITEM_HIDDEN, layer > head ? layer : hidden);
    say_prefill(w, tokens, positions, layer <= head);
    return VRAM_OK;
}

static void say_training(work *w, uint64_t tokens, uint64_t per_token, uint64_t per_word)
{
    const vr_numbers *n = w->n;
    bool layers = w->r->layer_bytes != 0, loss = w->r->logits_bytes != 0;
    vr_piece none = T("");
    SAY(w, VR_ACTIVATIONS, GROUPED(tokens), T(" tokens x ("), layers ? GROUPED(n->layers) : none,
        T(layers ? " layers x " : ""), layers ? GROUPED(per_token) : none, T(layers ? " B saved" : ""),
        T(layers && loss ? " + " : ""), loss ? GROUPED(n->vocab) : none, T(loss ? " words x " : ""),
        loss ? U(per_word) : none, T(loss ? " B in the loss)" : ")"));
}

/* One step: every layer's saved tensors, and on top the loss or the first layer of the backward pass. */
static vram_status training_step(work *w)
{
    const vr_numbers *n = w->n;
    bool shape = n->given[VR_NUM_HIDDEN] && n->given[VR_NUM_FFN] && n->given[VR_NUM_LAYERS];
    uint64_t q, k, fp32 = w->width == 4, tokens = vr_mul_sat(n->sequences, n->context),
                   per_word = fp32 ? 16 : 14;
    attention_widths(n, &q, &k);
    uint64_t per_token =
        vr_add_sat(vr_mul_sat(n->hidden, fp32 ? 24 : 16),
                   vr_add_sat(vr_mul_sat(vr_add_sat(q, k), fp32 ? 8 : 4), vr_mul_sat(n->ffn, fp32 ? 16 : 8)));
    uint64_t saved = shape ? times(tokens, n->layers, per_token) : 0;
    uint64_t loss = n->given[VR_NUM_VOCAB] ? times(tokens, n->vocab, per_word) : 0;
    uint64_t backward = shape ? times(tokens, n->ffn, 6 * w->width) : 0;
    uint64_t bytes = vr_add_sat(saved, larger(loss, backward));
    if (bytes > UINT64_MAX / 2)
        return too_much(w, VR_NUM_CONTEXT);
    w->r->logits_bytes = loss;
    w->r->layer_bytes = saved;
    w->r->activations_partly = loss == 0 || saved == 0;
    count(w, VR_ACTIVATIONS, bytes);
    band(&w->r->ledger.category[VR_ACTIVATIONS], 0, TRAIN_BAND);
    count_item(w, VR_ITEM_LOGITS, loss >= backward ? loss : 0);
    count_item(w, VR_ITEM_HIDDEN, loss >= backward ? saved : bytes);
    say_training(w, tokens, per_token, per_word);
    return VRAM_OK;
}

static vram_status activations(work *w)
{
    const vr_numbers *n = w->n;
    bool shape = n->given[VR_NUM_HIDDEN] && n->given[VR_NUM_FFN] && (!n->train || n->given[VR_NUM_LAYERS]);
    if (!n->given[VR_NUM_CONTEXT] || !(shape || n->given[VR_NUM_VOCAB])) {
        leave_out(w, VR_ACTIVATIONS, shape || n->given[VR_NUM_VOCAB] ? NO_CONTEXT : NO_SHAPE);
        return VRAM_OK;
    }
    return n->train ? training_step(w) : prefill(w);
}

/* ---- overhead, total ---- */

static vram_status overhead(work *w)
{
    const vr_figure *of = &w->r->ledger.category[VR_WEIGHTS];
    if (!w->n->given[VR_NUM_OVERHEAD] || !of->counted) {
        leave_out(w, VR_OVERHEAD, of->counted ? NO_OVERHEAD : NO_PARAMS);
        return VRAM_OK;
    }
    uint64_t bytes = vr_ratio_of(of->bytes, w->n->overhead);
    if (bytes == UINT64_MAX)
        return too_much(w, VR_NUM_OVERHEAD);
    count(w, VR_OVERHEAD, bytes);
    SAY(w, VR_OVERHEAD, vr_ratio_piece(w->n->overhead), T(" x the weights, a rule of thumb"));
    return VRAM_OK;
}

static vram_status add_up(work *w)
{
    vr_ledger *l = &w->r->ledger;
    l->required = l->required_low = l->required_high = 0;
    l->partial = false;
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        const vr_figure *f = &l->category[c];
        l->partial = l->partial || !f->counted;
        l->required = vr_add_sat(l->required, f->bytes);
        l->required_low = vr_add_sat(l->required_low, f->low);
        l->required_high = vr_add_sat(l->required_high, f->high);
    }
    return l->required_high > INT64_MAX ? too_much(w, VR_NUM_PARAMS) : VRAM_OK; /* differences are signed */
}

/* What is not counted is the least certain; among what is counted, a rule of thumb, then what has the widest
 * band. */
static void find_least_certain(work *w)
{
    static const vr_category could_be_large[] = { VR_WEIGHTS, VR_KV_CACHE, VR_ACTIVATIONS, VR_OVERHEAD };
    vr_scenario_result *r = w->r;
    for (size_t i = 0; i < sizeof(could_be_large) / sizeof(could_be_large[0]); i++) {
        if (!r->ledger.category[could_be_large[i]].counted) {
            r->ledger.least_certain = (int)could_be_large[i];
            r->least_certain_why = "it is not counted";
            return;
        }
    }
    const vr_figure *acts = &r->ledger.category[VR_ACTIVATIONS], *over = &r->ledger.category[VR_OVERHEAD];
    bool wider = r->activations_partly || acts->high - acts->low > over->bytes;
    r->ledger.least_certain = wider ? VR_ACTIVATIONS : VR_OVERHEAD;
    r->least_certain_why = !wider ? "a share of the weights is a rule of thumb, not a measurement"
                           : r->activations_partly ? "they are counted in part only"
                                                   : "the formula does not know the kernels that will run";
}

vram_status vr_scenario_ledger(vr_scenario_result *r, vram_scenario *s, bool words)
{
    work w = { .r = r, .n = &r->numbers, .s = s, .texts = words ? &s->arena : NULL };
    r->ledger = (vr_ledger){ .least_certain = -1 };
    r->logits_bytes = r->layer_bytes = r->kv_per_token = 0;
    r->activations_partly = false;
    w.width = at_least(w.n->weight_bytes, 4) ? 4 : 2;
    VR_TRY(weights(&w));
    if (w.n->train) {
        VR_TRY(states(&w));
        cannot_exist(&w, VR_KV_CACHE, SERVING_ONLY);
    } else {
        cannot_exist(&w, VR_GRADIENTS, TRAINING_ONLY);
        cannot_exist(&w, VR_OPTIMIZER, TRAINING_ONLY);
        VR_TRY(kv_cache(&w));
    }
    VR_TRY(activations(&w));
    VR_TRY(overhead(&w));
    VR_TRY(add_up(&w));
    find_least_certain(&w);
    return w.out_of_memory ? VRAM_ENOMEM : VRAM_OK;
}

vram_verdict vr_scenario_judge(const vr_ledger *l, uint64_t available)
{
    if (l->required_high <= available)
        return VRAM_FITS;
    return l->required_low > available ? VRAM_DOES_NOT_FIT : VRAM_TIGHT;
}

const char *vr_category_grows_with(vr_category c, bool train)
{
    static const char *const words[VR_CATEGORY_COUNT] = {
        "parameters x bytes of one parameter",
        "trained parameters",
        "trained parameters x states of the optimizer",
        "sequences x context",
        "tokens computed at once x vocabulary or layer width",
        "the card, the framework, and what its allocator leaves idle",
    };
    if (c == VR_ACTIVATIONS && train)
        return "tokens in one step x (layers x layer width + vocabulary)";
    return words[c];
}
