/* SPDX-License-Identifier: MIT
 * How the figures of the transformers engine come about, in words with the numbers put in. */
#include "engine/loading.h"
#include "engine/caches.h"
#include "engine/packed_run.h"
#include "engine/words.h"
#include "engine/encdec.h"
#include "engine/experts.h"

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
                   T(vr_packed_weights(p)), T(p->m->quantised ? "" : ", floating numbers in the load dtype"));
}

static const char *weights_of_model(const vr_pass *p, const vr_facts *f)
{
    const vram_workload *w = p->w;
    bool quantised = w->weight_quant != VR_QUANT_NONE;
    if (p->m->quantised || (f->as_stored && f->weight_bytes != vr_mul_sat(f->n_parameters, p->width)))
        return as_they_are(p);
    const char *text = vr_text(p->arena, GROUPED(f->n_parameters), T(" parameters"),
                               T(quantised ? quant_words(w) : " x "), T(dtype_words(w->dtype)),
                               T(!f->as_stored && p->m->tied && p->m->structure != VR_ENCODER
                                     ? ", the head shares the embeddings"
                                     : ""));
    if (text != NULL && !quantised && !f->as_stored &&
        f->weight_bytes != vr_mul_sat(f->n_parameters, p->width))
        text = vr_text(p->arena, T(text), T(", some of them kept in fp32"));
    if (text != NULL && f->n_anew != 0)
        text = vr_text(p->arena, T(text), T("; "), GROUPED(f->n_anew),
                       T(f->n_anew == 1 ? " tensor is" : " tensors are"), T(" not stored and made anew"));
    return text;
}

static const char *weights(const vr_pass *p, const vr_facts *f)
{
    const char *text = weights_of_model(p, f);
    if (text == NULL || p->assistant == NULL)
        return text;
    return vr_text(p->arena, T(text), T("; and "), GROUPED(f->n_assistant),
                   T(" parameters of the assistant"));
}

/* Whether two layers keep the same of a token, in the same words. */
static bool keep_alike(const vr_layer *a, const vr_layer *b)
{
    bool latent = a->attention == VR_ATTENTION_LATENT;
    if (latent != (b->attention == VR_ATTENTION_LATENT) || a->key_dim != b->key_dim ||
        a->value_dim != b->value_dim)
        return false;
    return latent ? a->heads == b->heads && a->latent == b->latent && a->rotary_dim == b->rotary_dim
                  : a->kv_heads == b->kv_heads;
}

/* "2 (K,V) x 4 heads x 128", "128 heads x (192 + 128)", of short vectors "(512 + 64)" */
static const char *kept_of_token(const vr_pass *p, const vr_layer *l)
{
    bool latent = l->attention == VR_ATTENTION_LATENT;
    uint32_t heads = latent || l->all_heads_cached ? l->heads : l->kv_heads;
    const char *unit = heads == 1 ? " head x " : " heads x ";
    if (latent && vr_kept_of(l, p->rules).keys == l->latent)
        return vr_text(p->arena, T("("), U(l->latent), T(" + "), U(l->rotary_dim), T(")"));
    if (l->key_dim != l->value_dim)
        return vr_text(p->arena, GROUPED(heads), T(unit), T("("), U(l->key_dim), T(" + "), U(l->value_dim),
                       T(")"));
    return vr_text(p->arena, T("2 (K,V) x "), GROUPED(heads), T(unit), GROUPED(l->key_dim));
}

static bool keeps_tokens(const vr_pass *p, uint64_t i)
{
    return vr_kept_of(&p->m->layers[i], p->rules).keys != 0;
}

/* Of the layers before it none keeps the same. */
static bool is_first_of_kind(const vr_pass *p, uint64_t i)
{
    uint64_t k = 0;
    while (k < i && !(keeps_tokens(p, k) && keep_alike(&p->m->layers[k], &p->m->layers[i])))
        k++;
    return k == i;
}

/* " + 21 index keys x 128": the layers whose index keeps something. */
static const char *index_keys(const vr_pass *p, const char *text, bool *several)
{
    uint64_t n = 0, sum = 0;
    for (uint64_t i = 0; i < p->m->n_layers; i++) {
        n += p->m->layers[i].index_dim != 0;
        sum += p->m->layers[i].index_dim;
    }
    if (n == 0)
        return text;
    *several = true;
    return vr_text(p->arena, T(text), T(" + "), GROUPED(n), T(" index keys x "), U(sum / n));
}

/* "28 layers x 2 (K,V) x 4 heads x 128"; where layers differ "(50 layers x ... + 10 layers x ...)" */
static const char *kept_of_layers(const vr_pass *p)
{
    const vr_layer *layers = p->m->layers;
    const char *text = "";
    bool several = false;
    for (uint64_t i = 0; i < p->m->n_layers && text != NULL; i++) {
        uint64_t n = 0;
        if (!keeps_tokens(p, i) || !is_first_of_kind(p, i))
            continue;
        for (uint64_t k = i; k < p->m->n_layers; k++)
            n += keeps_tokens(p, k) && keep_alike(&layers[i], &layers[k]);
        const char *kept = kept_of_token(p, &layers[i]);
        if (kept == NULL)
            return NULL;
        several = several || *text != '\0';
        text = vr_text(p->arena, T(text), T(*text != '\0' ? " + " : ""), GROUPED(n),
                       T(n == 1 ? " layer x " : " layers x "), T(kept));
    }
    if (text != NULL)
        text = index_keys(p, text, &several);
    return text != NULL && several ? vr_text(p->arena, T("("), T(text), T(")")) : text;
}

/* Behind an encoder the keys and values of its tokens, and those that the decoder has of its own: of the
 * token to begin with, or of the prompt, and of each that is generated. */
static const char *tokens_words(const vr_pass *p, uint64_t tokens)
{
    const vram_workload *w = p->w;
    if (p->m->structure == VR_ENCODER_DECODER)
        return vr_text(p->arena, T("("), GROUPED(vr_encoded_tokens(p)),
                       T(p->m->source_positions != 0 ? " positions of speech + " : " encoded + "),
                       GROUPED(vr_add_sat(w->decode, vr_decoder_prompt(p))),
                       T(p->m->source_positions != 0 ? " tokens)" : " generated tokens)"));
    return vr_text(p->arena, GROUPED(tokens), T(tokens == 1 ? " token" : " tokens"));
}

/* "; 36 recurrent layers x (32,768 elements x 2 B + 524,288 x 4 B) x 2 sequences": all alike where there are
 * any. */
static const char *states(const vr_pass *p, const char *text, uint64_t n, const vr_layer *l)
{
    uint64_t sequences = p->w->sequences;
    text = vr_text(p->arena, T(text), T(*text != '\0' ? "; " : ""), GROUPED(n),
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

/* "28 layers x 2 (K,V) x 4 heads x 128 x 2 B x 4,096 tokens x 2 sequences" */
static const char *kv_of(const vr_pass *p, uint64_t tokens)
{
    const vram_workload *w = p->w;
    const char *text = kept_of_layers(p), *many = text != NULL ? tokens_words(p, tokens) : NULL;
    if (text != NULL && *text == '\0') /* only states */
        return text;
    if (many != NULL)
        text = vr_text(p->arena, T(text), T(" x "), U(p->width), T(" B x "), T(many));
    if (many != NULL && text != NULL && w->sequences > 1)
        text = vr_text(p->arena, T(text), T(" x "), GROUPED(w->sequences), T(" sequences"));
    return many != NULL ? text : NULL;
}

static const char *sliding(const vr_pass *p, const char *text, uint64_t n, uint64_t window)
{
    bool fixed = vr_cache_fixed(p->w);
    return vr_text(p->arena, T(text), T("; "), GROUPED(n), T(n == 1 ? " sliding layer" : " sliding layers"),
                   T(fixed    ? " with room for "
                     : n == 1 ? " keeps the prompt until the next token and "
                              : " keep the prompt until the next token and "),
                   GROUPED(window), T(fixed ? " tokens" : " tokens from then on"));
}

/* That product is of 16 bits; what is packed takes less. */
static const char *quantized(const vr_pass *p, const char *text)
{
    const vram_workload *w = p->w;
    if (w->cache_backend == VR_BACKEND_FP8)
        return vr_text(p->arena, T(text), T(" before they are narrowed to 8 bits (fp8)"));
    return vr_text(p->arena, T(text), T(" before they are packed in "), U(w->cache_bits),
                   T(" bits with a scale and a shift for each "), U(w->cache_group),
                   T(" (quanto); of the generated tokens up to "), GROUPED(w->cache_residual - 1),
                   T(" are kept as they are"));
}

static const char *kv(const vr_pass *p)
{
    const vram_model *m = p->m;
    const vr_layer *recurrent = NULL;
    uint64_t tokens = vr_add_sat(p->w->context, p->w->decode), window = 0;
    uint64_t n_sliding = 0, n_recurrent = 0;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        n_sliding += vr_has_window(l);
        n_recurrent += vr_layer_keeps_state(l);
        window = vr_has_window(l) ? l->window : window;
        recurrent = vr_layer_keeps_state(l) ? l : recurrent;
    }
    const char *text = kv_of(p, tokens);
    if (text != NULL && n_sliding != 0 && tokens > window)
        text = sliding(p, text, n_sliding, window);
    if (text != NULL && p->w->cache == VR_CACHE_STATIC)
        text = vr_text(p->arena, T(text), T("; all of it taken when the first prompt comes"));
    if (text != NULL && p->w->cache == VR_CACHE_QUANTIZED)
        text = quantized(p, text);
    if (text != NULL && vr_cache_offloads(p->w))
        text = vr_text(p->arena, T(text),
                       T("; on the card are those of the layer that runs and of the next, the others in "
                         "pinned host memory"));
    return text != NULL && n_recurrent != 0 ? states(p, text, n_recurrent, recurrent) : text;
}

static const char *kv_of_beams(const vr_pass *p)
{
    const char *text = kv(p);
    if (text != NULL && p->assistant != NULL)
        text = vr_text(p->arena, T(text), T("; and those of the assistant's "),
                       GROUPED(p->w->assistant->n_layers), T(" layers"));
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

/* An encoder's output is its hidden states. */
static const char *logits_words(const vr_pass *p)
{
    const vram_workload *w = p->w;
    uint64_t rows =
        w->prefill_batch * vr_beams(w) * (w->logits == VR_LOGITS_ALL ? w->context : 1 + w->drafts);
    if (p->m->structure == VR_ENCODER)
        return "";
    return vr_text(p->arena, T("; logits "), GROUPED(rows), T(" x "), GROUPED(p->m->vocab), T(" x "),
                   U(p->width), T(" B"));
}

/* "448 tokens" of each sequence */
static const char *read_words(const vr_pass *p)
{
    const char *tokens = vr_text(p->arena, GROUPED(p->w->context), T(" tokens"));
    if (p->m->source_positions == 0 || tokens == NULL)
        return tokens;
    return vr_text(p->arena, T("("), GROUPED(p->m->source_positions), T(" positions of speech + "), T(tokens),
                   T(")"));
}

static const char *activations(const vr_pass *p, const vr_facts *f)
{
    const vram_workload *w = p->w;
    const char *logits = logits_words(p), *pictures = picture_words(p);
    if (logits == NULL || pictures == NULL)
        return NULL;
    const char *read = read_words(p);
    if (read == NULL)
        return NULL;
    const char *text = vr_text(p->arena, T("a pass over "), GROUPED(w->prefill_batch * vr_beams(w)), T(" x "),
                               T(read), T(", every storage in its order ("), T(attention_words(w)),
                               T(" attention"), T(pictures), T(")"), T(logits), T(fallback_words(p->m)));
    if (text != NULL && p->assistant != NULL)
        text = vr_text(p->arena, T(text),
                       T("; before each call the assistant's, of each draft the first token and the last"));
    if (text != NULL && w->drafts != 0)
        text = vr_text(p->arena, T(text), T("; in each call "), GROUPED(w->drafts),
                       T(" drafted tokens more, none of which is kept"));
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
    if (p->w->expert_load == VR_LOAD_SAME)
        return vr_text(p->arena, T(text), T("; all tokens to the same "), GROUPED(p->m->experts_used),
                       T(" of "), GROUPED(p->m->experts), T(" experts"));
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
    plan->kv_token = f->has_kv && p->w->cache != VR_CACHE_QUANTIZED ? token_bytes(p) : 0;
    bool whole = p->w->cache == VR_CACHE_DYNAMIC || vr_cache_offloads(p->w);
    bool summed = p->m->structure == VR_DECODER && vr_beams(p->w) == 1 && whole && p->w->drafts == 0;
    plan->kv_full = f->has_kv && summed ? full_cache(p) : 0;
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

vram_status vr_tell_decoder(vr_plan *plan, const vr_pass *p)
{
    const vram_model *m = p->m;
    if (m->weights_unknown == NULL || m->uncounted_part == NULL || m->quantised ||
        m->packing.method != NULL || p->w->weight_quant != VR_QUANT_NONE)
        return VRAM_OK;
    plan->weights_at_least = vr_mul_sat(m->declared_parameters, p->width);
    plan->why_not[VR_WEIGHTS] =
        vr_text(p->arena, T(m->weights_unknown), T(", "), BYTES(plan->weights_at_least));
    return plan->why_not[VR_WEIGHTS] == NULL ? VRAM_ENOMEM : VRAM_OK;
}
