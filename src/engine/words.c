/* SPDX-License-Identifier: MIT
 * How the figures of the transformers engine come about, in words with the numbers put in. */
#include "engine/words.h"

static const char *dtype_words(vr_dtype t)
{
    return t == VR_F32 ? "4 B (float32)" : t == VR_F16 ? "2 B (float16)" : "2 B (bfloat16)";
}

static const char *quant_words(const vram_workload *w)
{
    if (w->weight_quant == VR_QUANT_BNB_8BIT)
        return ", linear layers at 1 B and 4 B a row (bitsandbytes), the rest at ";
    if (w->weight_quant == VR_QUANT_BNB_4BIT_DQ)
        return ", linear layers at 4.127 bits (bitsandbytes), the rest at ";
    return ", linear layers at 9/16 B (bitsandbytes), the rest at ";
}

/* quantizers/auto.py, AUTO_QUANTIZATION_CONFIG_MAPPING (transformers 5.24); what is not in it is loaded as if
 * it were not quantised, and no packed tensor has the shape that the class wants then. */
static bool has_quantiser(const char *method)
{
    static const char *const methods[] = { "aqlm",         "auto-round",
                                           "awq",          "bitnet",
                                           "bitsandbytes", "eetq",
                                           "fbgemm_fp8",   "fouroversix",
                                           "fp8",          "fp_quant",
                                           "gemma",        "gguf",
                                           "gptq",         "higgs",
                                           "hqq",          "metal",
                                           "mxfp4",        "mxfp8",
                                           "nvfp4",        "quanto",
                                           "quark",        "sinq",
                                           "spqr",         "torchao",
                                           "vptq",         "compressed-tensors" };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (vr_str_is(vr_str_of(method), methods[i]))
            return true;
    return vr_str_starts(vr_str_of(method), "bitsandbytes_");
}

const char *vr_why_quantised(const vram_model *m, vr_arena *a)
{
    const vr_quantised *q = &m->packing;
    if (q->method == NULL)
        return "the checkpoint is packed in a way that is not known";
    if (!has_quantiser(q->method))
        return vr_text(a, T("transformers has no quantiser for "), T(q->method),
                       T(" and does not load this checkpoint as it is"));
    return vr_text(a, T("what the linear layers of "), T(q->title),
                   T(" take while they run is not known yet"));
}

static const char *as_they_are(const vr_pass *p)
{
    size_t n = p->m->checkpoint->n_tensors;
    if (vr_unpacks(p->m, p->w, p->device))
        return vr_text(p->arena, GROUPED(n), T(" tensors, those in "), T(p->m->packing.title),
                       T(" unpacked to "), T(dtype_words(p->w->dtype)));
    return vr_text(p->arena, GROUPED(n), T(n == 1 ? " tensor" : " tensors"),
                   T(p->m->checkpoint->config_only ? " at the bytes that its quantisation takes"
                                                   : " at the bytes that the checkpoint has"),
                   T(p->m->quantised ? "" : ", floating numbers in the load dtype"));
}

static const char *weights(const vr_pass *p, const vr_facts *f)
{
    const vram_workload *w = p->w;
    bool quantised = w->weight_quant != VR_QUANT_NONE;
    if (f->as_stored && (p->m->quantised || f->weight_bytes != vr_mul_sat(f->n_parameters, p->width)))
        return as_they_are(p);
    const char *text = vr_text(p->arena, GROUPED(f->n_parameters), T(" parameters"),
                               T(quantised ? quant_words(w) : " x "), T(dtype_words(w->dtype)),
                               T(!f->as_stored && p->m->tied ? ", the head shares the embeddings" : ""));
    if (text != NULL && !quantised && !f->as_stored &&
        f->weight_bytes != vr_mul_sat(f->n_parameters, p->width))
        text = vr_text(p->arena, T(text), T(", some of them kept in fp32"));
    if (text != NULL && f->n_anew != 0)
        text = vr_text(p->arena, T(text), T("; "), GROUPED(f->n_anew),
                       T(f->n_anew == 1 ? " tensor is" : " tensors are"), T(" not stored and made anew"));
    return text;
}

/* "61 layers x (512 + 64)", of all heads "61 layers x 128 heads x (192 + 128)" */
static const char *latent_elements(const vr_pass *p)
{
    const vr_layer *l = &p->m->layers[0];
    if (p->rules->latent_cache)
        return vr_text(p->arena, T("("), U(l->latent), T(" + "), U(l->rotary_dim), T(")"));
    return vr_text(p->arena, GROUPED(l->heads), T(l->heads == 1 ? " head x (" : " heads x ("), U(l->key_dim),
                   T(" + "), U(l->value_dim), T(")"));
}

/* Behind it " + 21 index keys x 128"; all layers are alike but for these. */
static const char *latent_kv(const vr_pass *p)
{
    const vram_model *m = p->m;
    uint64_t n_index = 0, index = 0, tokens = vr_add_sat(p->w->context, p->w->decode);
    for (uint64_t i = 0; i < m->n_layers; i++) {
        n_index += m->layers[i].index_dim != 0;
        index += m->layers[i].index_dim;
    }
    const char *text = latent_elements(p);
    if (text != NULL)
        text = vr_text(p->arena, T(n_index != 0 ? "(" : ""), GROUPED(m->n_layers),
                       T(m->n_layers == 1 ? " layer x " : " layers x "), T(text));
    if (text != NULL && n_index != 0)
        text = vr_text(p->arena, T(text), T(" + "), GROUPED(n_index), T(" index keys x "), U(index / n_index),
                       T(")"));
    if (text != NULL)
        text = vr_text(p->arena, T(text), T(" x "), U(p->width), T(" B x "), GROUPED(tokens),
                       T(tokens == 1 ? " token" : " tokens"));
    return text != NULL && p->w->sequences > 1
               ? vr_text(p->arena, T(text), T(" x "), GROUPED(p->w->sequences), T(" sequences"))
               : text;
}

static bool is_latent(const vram_model *m)
{
    uint64_t n = 0;
    while (n < m->n_layers && m->layers[n].attention == VR_ATTENTION_LATENT)
        n++;
    return n == m->n_layers;
}

/* "; 36 recurrent layers x (32,768 elements x 2 B + 524,288 x 4 B) x 2 sequences": all alike where there are
 * any. */
static const char *states(const vr_pass *p, const char *text, uint64_t n, const vr_layer *l)
{
    uint64_t sequences = p->w->sequences;
    text = vr_text(p->arena, T(text), T("; "), GROUPED(n),
                   T(n == 1 ? " recurrent layer x (" : " recurrent layers x ("),
                   GROUPED(vr_layer_conv_elements(l)), T(" x "), U(p->width), T(" B"));
    if (text != NULL && vr_layer_state_elements(l) != 0)
        text = vr_text(p->arena, T(text), T(" + "), GROUPED(vr_layer_state_elements(l)), T(" x 4 B"));
    if (text != NULL)
        text = vr_text(p->arena, T(text), T(")"));
    if (text != NULL && sequences > 1)
        text = vr_text(p->arena, T(text), T(" x "), GROUPED(sequences), T(" sequences"));
    return text;
}

/* Of one sequence while no window is full. */
static uint64_t token_bytes(const vr_pass *p)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < p->m->n_layers; i++) {
        vr_kept kept = vr_kept_of(&p->m->layers[i], p->rules);
        sum = vr_add_sat(sum, vr_mul_sat(kept.keys + kept.values + kept.index, p->width));
    }
    return sum;
}

#define MOST_SHAPES 4 /* of caches; more are told as one sum */

/* Layers that keep alike. */
typedef struct kept_shape {
    uint32_t heads, width;
    vr_kept kept;
    uint64_t n;
} kept_shape;

static bool is_shape(const kept_shape *x, const vr_layer *l, const vr_kept *k)
{
    return x->heads == l->kv_heads && x->width == l->key_dim && x->kept.keys == k->keys &&
           x->kept.values == k->values && x->kept.index == k->index;
}

/* As many as there are, MOST_SHAPES + 1 when that is not enough. */
static size_t find_shapes(kept_shape list[MOST_SHAPES], const vr_pass *p)
{
    size_t n = 0;
    for (uint64_t i = 0; i < p->m->n_layers; i++) {
        const vr_layer *l = &p->m->layers[i];
        vr_kept k = vr_kept_of(l, p->rules);
        size_t at = 0;
        if (k.keys + k.values == 0)
            continue;
        while (at < n && !is_shape(&list[at], l, &k))
            at++;
        if (at == MOST_SHAPES)
            return MOST_SHAPES + 1;
        if (at == n)
            list[n++] = (kept_shape){ .heads = l->kv_heads, .width = l->key_dim, .kept = k };
        list[at].n++;
    }
    return n;
}

/* "28 layers x 2 (K,V) x 4 heads x 128", or in elements where it is no such product. */
static const char *shape_words(const vr_pass *p, const kept_shape *x)
{
    const vr_kept *k = &x->kept;
    const char *layers = x->n == 1 ? " layer x " : " layers x ";
    if (k->index != 0 || k->keys != k->values || k->keys != (uint64_t)x->heads * x->width)
        return vr_text(p->arena, GROUPED(x->n), T(layers), GROUPED(k->keys + k->values + k->index),
                       T(" elements"));
    return vr_text(p->arena, GROUPED(x->n), T(layers), T("2 (K,V) x "), GROUPED(x->heads),
                   T(x->heads == 1 ? " head x " : " heads x "), GROUPED(x->width));
}

/* "(25 layers x 2 (K,V) x 8 heads x 256 + 5 layers x 2 (K,V) x 2 heads x 512) x 2 B x 4,096 tokens x 2
 * sequences"; one shape alone has no brackets. */
static const char *kv_of(const vr_pass *p, uint64_t tokens)
{
    kept_shape list[MOST_SHAPES];
    size_t n = find_shapes(list, p);
    const char *text = n > 1 && n <= MOST_SHAPES ? "(" : "";
    if (n > MOST_SHAPES)
        text = vr_text(p->arena, GROUPED(token_bytes(p) / p->width), T(" elements in all layers"));
    for (size_t i = 0; i < n && n <= MOST_SHAPES && text != NULL; i++) {
        const char *shape = shape_words(p, &list[i]);
        text = shape == NULL ? NULL : vr_text(p->arena, T(text), T(i > 0 ? " + " : ""), T(shape));
    }
    if (text != NULL)
        text = vr_text(p->arena, T(text), T(*text == '(' ? ")" : ""), T(" x "), U(p->width), T(" B x "),
                       GROUPED(tokens), T(tokens == 1 ? " token" : " tokens"));
    if (text != NULL && p->w->sequences > 1)
        text = vr_text(p->arena, T(text), T(" x "), GROUPED(p->w->sequences), T(" sequences"));
    return text;
}

static const char *sliding(const vr_pass *p, const char *text, uint64_t n, uint64_t window)
{
    bool fixed = p->w->cache == VR_CACHE_STATIC;
    return vr_text(p->arena, T(text), T("; "), GROUPED(n), T(n == 1 ? " sliding layer" : " sliding layers"),
                   T(fixed    ? " with room for "
                     : n == 1 ? " keeps the prompt until the next token and "
                              : " keep the prompt until the next token and "),
                   GROUPED(window), T(fixed ? " tokens" : " tokens from then on"));
}

static const char *kv(const vr_pass *p)
{
    const vram_model *m = p->m;
    const vr_layer *recurrent = NULL;
    uint64_t tokens = vr_add_sat(p->w->context, p->w->decode), window = 0;
    uint64_t n_sliding = 0, n_recurrent = 0;
    if (is_latent(m))
        return latent_kv(p);
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        n_sliding += l->attention == VR_ATTENTION_SLIDING;
        n_recurrent += l->attention == VR_ATTENTION_RECURRENT;
        window = l->attention == VR_ATTENTION_SLIDING ? l->window : window;
        recurrent = l->attention == VR_ATTENTION_RECURRENT ? l : recurrent;
    }
    const char *text = kv_of(p, tokens);
    if (text != NULL && n_sliding != 0 && tokens > window)
        text = sliding(p, text, n_sliding, window);
    if (text != NULL && p->w->cache == VR_CACHE_STATIC)
        text = vr_text(p->arena, T(text), T("; all of it taken when the first prompt comes"));
    return text != NULL && n_recurrent != 0 ? states(p, text, n_recurrent, recurrent) : text;
}

static const char *kv_of_beams(const vr_pass *p)
{
    const char *text = kv(p);
    return text != NULL && vr_beams(p->w) > 1
               ? vr_text(p->arena, T(text), T("; "), GROUPED(vr_beams(p->w)), T(" times, once for each beam"))
               : text;
}

static const char *attention_words(const vram_workload *w)
{
    return w->attention == VR_IMPL_EAGER ? "eager" : w->attention == VR_IMPL_FLASH ? "flash" : "sdpa";
}

/* What of the context is seen, and in how many patches; NULL: out of memory. */
static const char *picture_words(const vr_pass *p)
{
    const vram_workload *w = p->w;
    if (w->images == 0)
        return p->m->tower != NULL ? "; text alone, without pictures" : "";
    return vr_text(p->arena, T("; in each sequence "), GROUPED(w->images),
                   T(w->images == 1 ? " picture of " : " pictures of "), GROUPED(w->picture.columns),
                   T(" x "), GROUPED(w->picture.rows), T(" patches"));
}

/* The packages that a recurrent layer's kernels come from. */
static const char *fallback_words(const vram_model *m)
{
    for (uint64_t i = 0; i < m->n_layers; i++) {
        if (m->layers[i].attention != VR_ATTENTION_RECURRENT)
            continue;
        return m->layers[i].recurrent == VR_RECURRENT_DELTA
                   ? "; assumed: flash-linear-attention and causal-conv1d are not installed"
                   : "; assumed: mamba-ssm and causal-conv1d are not installed";
    }
    return "";
}

static const char *activations(const vr_pass *p, const vr_facts *f)
{
    const vram_workload *w = p->w;
    uint64_t rows = w->prefill_batch * vr_beams(w) * (w->logits == VR_LOGITS_ALL ? w->context : 1);
    const char *pictures = picture_words(p);
    if (pictures == NULL)
        return NULL;
    const char *text =
        vr_text(p->arena, T("a pass over "), GROUPED(w->prefill_batch * vr_beams(w)), T(" x "),
                GROUPED(w->context), T(" tokens, every storage in its order ("), T(attention_words(w)),
                T(" attention"), T(pictures), T("); logits "), GROUPED(rows), T(" x "), GROUPED(p->m->vocab),
                T(" x "), U(p->width), T(" B"), T(fallback_words(p->m)));
    if (text != NULL && f->steps_skipped)
        text =
            vr_text(p->arena, T(text), T("; "), GROUPED(w->decode), T(" generated tokens in larger steps"));
    return text;
}

/* The router decides while it runs which expert takes which token. */
static const char *load_of_experts(const vr_pass *p, const char *text)
{
    if (text == NULL || !vr_loops_over_experts(p))
        return text;
    return vr_text(p->arena, T(text), T("; tokens spread evenly over "), GROUPED(p->m->experts),
                   T(" experts, "), GROUPED(p->m->experts_used),
                   T(" each; the high end is all tokens to the same experts"));
}

/* Of all sequences at the end; 0 where windows have let go of tokens. */
static uint64_t full_cache(const vr_pass *p)
{
    const vram_model *m = p->m;
    uint64_t tokens = vr_add_sat(p->w->context, p->w->decode), states = 0;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        if (l->window != 0 && tokens > l->window)
            return 0;
        states = vr_add_sat(states, vr_mul_sat(vr_layer_conv_elements(l), p->width));
        states = vr_add_sat(states, vr_mul_sat(vr_layer_state_elements(l), 4));
    }
    return vr_mul_sat(vr_add_sat(vr_mul_sat(token_bytes(p), tokens), states), p->w->sequences);
}

vram_status vr_formulas(vr_plan *plan, const vr_pass *p, const vr_facts *f)
{
    plan->kv_token = f->has_kv ? token_bytes(p) : 0;
    plan->kv_full = f->has_kv ? full_cache(p) : 0;
    plan->formula[VR_WEIGHTS] = weights(p, f);
    plan->formula[VR_GRADIENTS] = plan->formula[VR_OPTIMIZER] = "none in inference";
    plan->formula[VR_KV_CACHE] = f->has_kv ? kv_of_beams(p) : "";
    plan->formula[VR_ACTIVATIONS] = f->has_activations ? load_of_experts(p, activations(p, f)) : "";
    plan->formula[VR_OVERHEAD] =
        "CUDA context and kernels, cuBLAS workspaces, rounding and idle blocks of the allocator";
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        if (plan->formula[c] == NULL)
            return VRAM_ENOMEM;
        if (plan->formula[c][0] == '\0')
            plan->formula[c] = NULL;
    }
    return VRAM_OK;
}
