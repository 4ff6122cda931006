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
    return vr_text(p->arena, GROUPED(n), T(n == 1 ? " tensor" : " tensors"),
                   T(" at the bytes that the checkpoint has"),
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
    if (text != NULL && f->n_anew != 0)
        text = vr_text(p->arena, T(text), T("; "), GROUPED(f->n_anew),
                       T(f->n_anew == 1 ? " tensor is" : " tensors are"), T(" not stored and made anew"));
    return text;
}

/* "28 layers x 2 (K,V) x 4 heads x 128 x 2 B x 4,096 tokens x 2 sequences" */
static const char *kv(const vr_pass *p)
{
    const vram_model *m = p->m;
    const vram_workload *w = p->w;
    uint64_t tokens = vr_add_sat(w->context, w->decode), n_sliding = 0, window = 0;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        if (m->layers[i].attention == VR_ATTENTION_SLIDING) {
            n_sliding++;
            window = m->layers[i].window;
        }
    }
    const char *text = vr_text(
        p->arena, GROUPED(m->n_layers), T(m->n_layers == 1 ? " layer x 2 (K,V) x " : " layers x 2 (K,V) x "),
        GROUPED(m->kv_heads), T(m->kv_heads == 1 ? " head x " : " heads x "), GROUPED(m->head_dim), T(" x "),
        U(p->width), T(" B x "), GROUPED(tokens), T(tokens == 1 ? " token" : " tokens"));
    if (text != NULL && w->sequences > 1)
        text = vr_text(p->arena, T(text), T(" x "), GROUPED(w->sequences), T(" sequences"));
    if (text != NULL && n_sliding != 0 && tokens > window)
        text =
            vr_text(p->arena, T(text), T("; "), GROUPED(n_sliding),
                    T(n_sliding == 1 ? " sliding layer keeps" : " sliding layers keep"),
                    T(" the prompt until the next token and "), GROUPED(window), T(" tokens from then on"));
    return text;
}

static const char *attention_words(const vram_workload *w)
{
    return w->attention == VR_IMPL_EAGER ? "eager" : w->attention == VR_IMPL_FLASH ? "flash" : "sdpa";
}

static const char *activations(const vr_pass *p, const vr_facts *f)
{
    const vram_workload *w = p->w;
    uint64_t rows = w->prefill_batch * (w->logits == VR_LOGITS_ALL ? w->context : 1);
    const char *text =
        vr_text(p->arena, T("a pass over "), GROUPED(w->prefill_batch), T(" x "), GROUPED(w->context),
                T(" tokens, every storage in its order ("), T(attention_words(w)), T(" attention"),
                T(p->m->tower != NULL ? "; text alone, without pictures" : ""), T("); logits "),
                GROUPED(rows), T(" x "), GROUPED(p->m->vocab), T(" x "), U(p->width), T(" B"));
    if (text != NULL && f->steps_skipped)
        text =
            vr_text(p->arena, T(text), T("; "), GROUPED(w->decode), T(" generated tokens in larger steps"));
    return text;
}

vram_status vr_formulas(vr_plan *plan, const vr_pass *p, const vr_facts *f)
{
    plan->formula[VR_WEIGHTS] = weights(p, f);
    plan->formula[VR_GRADIENTS] = plan->formula[VR_OPTIMIZER] = "none in inference";
    plan->formula[VR_KV_CACHE] = f->has_kv ? kv(p) : "";
    plan->formula[VR_ACTIVATIONS] = f->has_activations ? activations(p, f) : "";
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
