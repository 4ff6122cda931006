/* SPDX-License-Identifier: MIT
 *
 * Sums over the tensors of a checkpoint: by element type, by component, and what one token costs.
 */
#include "report/inspect_report.h"

static void tally(vr_tally *t, uint64_t elements, uint64_t bytes)
{
    t->n++;
    t->elements = vr_add_sat(t->elements, elements);
    t->bytes = vr_add_sat(t->bytes, bytes);
}

static void sum_layers(vr_inspection *x)
{
    uint64_t first = 0;

    x->layers_alike = true;
    for (size_t i = 0; i < x->n_components; i++) {
        const vr_component *c = &x->components[i];
        if (c->layer == UINT64_MAX)
            continue;
        if (x->layers.n == 0)
            first = c->bytes;
        x->layers_alike = x->layers_alike && c->bytes == first;
        tally(&x->layers, c->elements, c->bytes);
    }
}

/* Keys and values are kept in the model's dtype; logits leave the head in it too (transformers upcasts for
 * the loss only). llama.cpp keeps keys and values in 16 bits unless told otherwise, and logits in 32. */
static void cost_token(vr_inspection *x)
{
    const vram_model *m = x->model;
    unsigned bits = vr_dtype_bits(m->dtype);

    x->token_dtype = x->logits_dtype = m->dtype;
    x->token_known = m->cache_unknown == NULL && (m->family != NULL ? bits >= 8 : m->kv_known);
    if (!x->token_known)
        return;
    if (m->family == NULL) {
        x->token_dtype = VR_F16;
        x->logits_dtype = VR_F32;
        x->kv_per_token = m->kv_bytes_per_token_16bit;
        x->logits_per_token = vr_mul_sat(m->vocab, 4);
        return;
    }
    x->kv_per_token = vr_mul_div(m->kv_bytes_per_token_16bit, bits, 16);
    x->logits_per_token = m->structure != VR_ENCODER ? vr_mul_div(m->vocab, bits, 8) : 0;
}

static vram_status warn_fp32(const vram_model *m)
{
    if (!m->fp32)
        return VRAM_OK;
    return vr_warn(m->ctx, NULL,
                   T("the checkpoint is in fp32: twice the memory of bf16, unless it is loaded as 16 bits"));
}

/* Left-out files of one reason together, in the order in which the reasons come first. */
static vram_status sum_left_out(vr_inspection *x, vr_arena *a)
{
    const vram_checkpoint *ck = x->model->checkpoint;
    vr_map by_why;
    VR_TRY(vr_map_init(&by_why, a, 16, 0));
    x->left_out = VR_ARRAY(a, vr_left_out_kind, ck->n_left_out);
    if (x->left_out == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < ck->n_left_out; i++) {
        const vr_left_out *f = &ck->left_out[i];
        bool known;
        uint32_t at = (uint32_t)x->n_left_out;
        VR_TRY(vr_map_put(&by_why, vr_str_of(f->why), at, &known, &at));
        if (!known)
            x->left_out[at = (uint32_t)x->n_left_out++] = (vr_left_out_kind){ .why = f->why };
        x->left_out[at].n++;
        x->left_out[at].bytes = vr_add_sat(x->left_out[at].bytes, f->size);
    }
    return VRAM_OK;
}

static vram_status sum_parts(vr_inspection *x, vr_arena *a)
{
    const vram_checkpoint *ck = x->model->checkpoint;

    x->in_part = VR_ARRAY(a, uint64_t, ck->n_parts);
    if (x->in_part == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < ck->n_tensors && ck->n_parts != 0; i++) {
        uint64_t *part = &x->in_part[ck->files[ck->tensors[i].file].part];
        *part = vr_add_sat(*part, x->model->packing.parameters[i]);
    }
    return VRAM_OK;
}

vram_status vr_inspect(vr_inspection *out, const vram_model *m, vr_arena *a)
{
    const vram_checkpoint *ck = m->checkpoint;

    *out = (vr_inspection){ .model = m };
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        tally(&out->dtype[t->dtype], m->packing.parameters[i], t->end - t->begin);
    }
    for (size_t i = 0; i < ck->n_files; i++)
        out->header_bytes = vr_add_sat(out->header_bytes, ck->files[i].header_bytes);
    VR_TRY(sum_parts(out, a));
    VR_TRY(vr_model_components(m, a, &out->components, &out->n_components));
    sum_layers(out);
    cost_token(out);
    VR_TRY(sum_left_out(out, a));
    return warn_fp32(m);
}
