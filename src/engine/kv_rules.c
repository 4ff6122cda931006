/* SPDX-License-Identifier: MIT
 * What layers keep, before any engine's own blocks and pools, and plans that are sums. */
#include "engine/kv_rules.h"

#define MOST_BYTES (UINT64_C(1) << 58) /* of any one sum */

/* ---- layers ---- */

vr_kept vr_layer_kept(const vr_layer *l)
{
    vr_kept k = { .keys = l->key_elements, .values = l->value_elements };
    if (l->kv_from != 0)
        return (vr_kept){ .keys = 0 };
    if (l->attention != VR_ATTENTION_LATENT || l->latent == 0)
        return k;
    return (vr_kept){ .keys = vr_layer_latent_elements(l), .index = vr_layer_index_elements(l) };
}

static bool has_plain_index(const vram_model *m)
{
    uint64_t i = 0;
    while (i < m->n_layers && (m->layers[i].index_dim == 0 || m->layers[i].latent != 0))
        i++;
    return i < m->n_layers;
}

/* Only transformers runs it. */
static bool has_lru(const vram_model *m)
{
    for (uint64_t i = 0; m->layers != NULL && i < m->n_layers; i++)
        if (m->layers[i].recurrent == VR_RECURRENT_LRU)
            return true;
    return false;
}

const char *vr_why_no_layers(const vram_model *m)
{
    if (m->cache_unknown != NULL)
        return m->cache_unknown;
    if (m->kv_known && has_plain_index(m))
        return "what this engine keeps of an index beside full attention is not known";
    if (has_lru(m))
        return "what this engine keeps of a gated linear recurrence is not known";
    if (m->structure == VR_ENCODER_DECODER)
        return "what a decoder keeps of its encoder's output is not worked out for this engine";
    if (m->kv_known && m->layers != NULL)
        return NULL;
    if (m->not_understood != NULL && !m->gguf)
        return m->not_understood;
    return m->gguf ? "what its layers keep is not worked out for this architecture" : "not understood";
}

static uint64_t least_tokens(const vr_layer *l, uint64_t tokens)
{
    bool capped = l->attention == VR_ATTENTION_SLIDING || l->attention == VR_ATTENTION_CHUNKED;
    return capped && l->window != 0 && l->window < tokens ? l->window : tokens;
}

static uint64_t states_of(const vr_layer *l, unsigned width, unsigned state_width)
{
    if (l->state_bytes != 0)
        return l->state_bytes;
    return vr_add_sat(vr_mul_sat(vr_layer_conv_elements(l), width),
                      vr_mul_sat(vr_layer_state_elements(l), state_width));
}

uint64_t vr_least_kept(const vram_model *m, uint64_t tokens, uint64_t sequences, unsigned width,
                       unsigned state_width)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        vr_kept k = vr_layer_kept(l);
        uint64_t token = vr_add_sat(vr_mul_sat(vr_add_sat(k.keys, k.values), width), k.index);
        sum = vr_add_sat(sum, vr_mul_sat(token, least_tokens(l, tokens)));
        sum = vr_add_sat(sum, states_of(l, width, state_width));
    }
    return vr_mul_sat(sum, sequences);
}

bool vr_keeps_nothing(vr_sum *out, const vram_model *m)
{
    if (m->structure != VR_ENCODER)
        return false;
    *out = (vr_sum){ true, VR_BASIS_EXACT, 0, "an encoder generates nothing and keeps nothing" };
    return true;
}

/* ---- weights ---- */

static unsigned width_of(const vram_workload *w)
{
    return vr_dtype_bits(w->dtype) / 8;
}

/* Floating numbers of 16 bits and more become the load dtype; whole numbers and packed formats stay. */
static uint64_t stored_as(const vram_model *m, const vram_workload *w, const vr_tensor *t)
{
    vr_dtype d = (vr_dtype)t->dtype;
    bool converted = !m->quantised && vr_dtype_floating(d) && vr_dtype_bits(d) >= 16 && d != VR_C64;
    return converted ? vr_mul_sat(t->elements, width_of(w)) : t->end - t->begin;
}

static bool is_parameter(const vr_declared *d)
{
    return d->kind == VR_PARAM_WEIGHT || d->kind == VR_PARAM_LINEAR || d->kind == VR_PARAM_EXPERTS ||
           d->kind == VR_PARAM_CONV;
}

/* Tensors of the checkpoint that nothing declares and that stand beside the decoder: towers of a kind that is
 * not understood. */
static vram_status count_beside(uint64_t *n, const vram_model *m, vr_arena *a)
{
    const vram_checkpoint *ck = m->checkpoint;
    bool *declared = VR_ARRAY(a, bool, ck->n_tensors);
    if (declared == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < m->n_declared; i++) {
        if (m->declared[i].tensor != NULL)
            declared[m->declared[i].tensor - ck->tensors] = true;
    }
    for (size_t i = 0; i < ck->n_tensors && m->uncounted_part != NULL && m->prefix != NULL; i++) {
        vr_str name = ck->tensors[i].name;
        bool head = m->head_name != NULL && vr_str_is(name, m->head_name);
        if (!declared[i] && !head && !vr_str_starts(name, m->prefix))
            *n = vr_add_sat(*n, ck->tensors[i].elements);
    }
    return VRAM_OK;
}

/* Without files: a published configuration that is built in, or one that the user has. */
uint8_t vr_basis_of(const vram_model *m)
{
    if (!m->checkpoint->config_only)
        return VR_BASIS_EXACT;
    if (m->dtype_assumed || m->n_assumed != 0)
        return VR_BASIS_ASSUMED;
    return m->checkpoint->catalogue != NULL ? VR_BASIS_TABLE : VR_BASIS_FORMULA;
}

static vram_status as_declared(vr_sum *out, uint64_t *elements, const vram_model *m, const vram_workload *w,
                               vr_arena *a)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->n_declared; i++) {
        if (is_parameter(&m->declared[i]))
            n = vr_add_sat(n, m->declared[i].elements);
    }
    VR_TRY(count_beside(&n, m, a));
    *elements = n;
    *out = (vr_sum){ .counted = true, .basis = vr_basis_of(m), .bytes = vr_mul_sat(n, width_of(w)) };
    out->words = vr_text(a, GROUPED(n), T(" parameters x "), U(width_of(w)), T(" B"),
                         T(m->tied && m->structure != VR_ENCODER ? ", the head shares the embeddings" : ""));
    return out->words == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status as_stored(vr_sum *out, uint64_t *elements, const vram_model *m, const vram_workload *w,
                             vr_arena *a)
{
    const vram_checkpoint *ck = m->checkpoint;
    *out = (vr_sum){ .counted = true, .basis = VR_BASIS_EXACT };
    *elements = 0;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        out->bytes = vr_add_sat(out->bytes, stored_as(m, w, &ck->tensors[i]));
        *elements = vr_add_sat(*elements, m->packing.parameters[i]);
    }
    out->words = vr_text(a, GROUPED(ck->n_tensors), T(ck->n_tensors == 1 ? " tensor" : " tensors"),
                         T(" at the bytes that the checkpoint has"),
                         T(m->quantised ? "" : ", floating numbers in the load dtype"));
    return out->words == NULL ? VRAM_ENOMEM : VRAM_OK;
}

vram_status vr_weights_loaded(vr_sum *out, uint64_t *elements, const vram_model *m, const vram_workload *w,
                              vr_arena *a)
{
    *elements = 0;
    *out = (vr_sum){ .words = m->weights_unknown };
    if (m->weights_unknown != NULL)
        return VRAM_OK;
    if (m->family != NULL && !m->quantised && m->contradicted == NULL && m->declared != NULL)
        return as_declared(out, elements, m, w, a);
    return as_stored(out, elements, m, w, a);
}

void vr_dtype_of_serving(vram_workload *w, const vram_model *m)
{
    if (w->set_by[VR_SET_DTYPE] == VR_BY_USER && !w->dtype_auto)
        return;
    w->dtype = m->dtype == VR_F16 ? VR_F16 : VR_BF16;
    if (w->set_by[VR_SET_DTYPE] != VR_BY_USER)
        w->set_by[VR_SET_DTYPE] = VR_BY_MODEL;
}

/* ---- the plan ---- */

static void take(vr_plan *out, vr_category c, const vr_sum *s, vr_item item)
{
    out->counted[c] = s->counted;
    out->basis[c] = s->counted ? s->basis : VR_BASIS_NOT_COUNTED;
    out->formula[c] = s->counted ? s->words : NULL;
    out->why_not[c] = s->counted ? NULL : s->words;
    if (s->counted && s->bytes != 0) /* 0 would be the device's own figure */
        vr_tape_outside(&out->tape, item, s->bytes);
}

vram_status vr_plan_of_sums(vr_plan *out, const vram_model *m, const vr_sum *weights, const vr_sum *kv,
                            const char *rest, vr_arena *a)
{
    if ((weights->counted && weights->bytes > MOST_BYTES) || (kv->counted && kv->bytes > MOST_BYTES))
        return vr_fail(m->ctx, VRAM_ELIMIT,
                       T("weights or KV cache would be over the limit of 256 PiB with this context and these "
                         "sequences"));
    vr_tape_init(&out->tape, a);
    vr_tape_outside(&out->tape, VR_ITEM_CONTEXT, 0);
    vr_tape_mark(&out->tape, VR_AT_CONTEXT);
    take(out, VR_WEIGHTS, weights, VR_ITEM_PARAMETERS);
    vr_tape_mark(&out->tape, VR_AT_LOADED);
    take(out, VR_KV_CACHE, kv, VR_ITEM_KV);
    vr_tape_mark(&out->tape, VR_AT_PREFILL);
    for (int c = VR_GRADIENTS; c <= VR_OPTIMIZER; c++) {
        out->counted[c] = true;
        out->basis[c] = VR_BASIS_EXACT;
        out->formula[c] = "none in inference";
    }
    for (int c = VR_ACTIVATIONS; c <= VR_OVERHEAD; c++)
        take(out, (vr_category)c, &(vr_sum){ .words = rest }, VR_ITEM_IDLE);
    out->sums_only = true;
    out->weight_bytes = weights->counted ? weights->bytes : 0;
    return out->tape.status;
}

bool vr_claims(vr_plan *out, uint64_t usable, uint32_t share)
{
    if (usable == 0 || usable == UINT64_MAX || out->refused != NULL)
        return false;
    out->claim = vr_mul_div(usable, share, 1000);
    if (out->counted[VR_WEIGHTS])
        out->pool_most = vr_sub_floor(out->claim, out->weight_bytes);
    return true;
}

vram_status vr_tell_claim(vr_plan *out, const char *who, vr_arena *a)
{
    const char *text = vr_text(a, T(who), T(", "), GIB(out->claim), T(" GiB, whatever is asked for; "));
    if (text != NULL && !out->counted[VR_WEIGHTS])
        text = vr_text(a, T(text), T("its cache gets what is left"));
    else if (text != NULL && out->pool_most == 0)
        text = vr_text(a, T(text), T("the weights alone are more"));
    else if (text != NULL)
        text =
            vr_text(a, T(text), T("its cache gets what is left, at most "), GIB(out->pool_most), T(" GiB"));
    if (text != NULL && out->pool_tokens != 0)
        text = vr_text(a, T(text), T(" = "), GROUPED(out->pool_tokens), T(" tokens"));
    out->pool = text;
    return text == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* ---- versions ---- */

bool vr_version_numbers(vr_str text, const char *prefix, unsigned *major, unsigned *minor)
{
    uint64_t number[3] = { 0, 0, 0 };
    size_t n = 0;
    vr_str word;
    if (vr_str_starts(text, prefix))
        text = (vr_str){ text.s + vr_str_of(prefix).n, text.n - vr_str_of(prefix).n };
    while (vr_str_split(&text, '.', &word)) {
        if (n == 3 || !vr_parse_u64(word, &number[n]) || number[n] > 999999)
            return false;
        n++;
    }
    *major = (unsigned)number[0];
    *minor = (unsigned)number[1];
    return n >= 1;
}
