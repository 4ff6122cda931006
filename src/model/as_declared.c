/* SPDX-License-Identifier: MIT
 * A configuration alone stands for the checkpoint that its class declares: the same names, shapes and types,
 * so that all that follows is as with files, but for the evidence. What is not known for certain is not made
 * up: then there are no tensors, and a reason. */
#include "model/catalogue.h"
#include "model/reading.h"

#include "checkpoint/checkpoint.h"

static bool has_part(const vram_model *m, vr_model_part part)
{
    for (size_t i = 0; i < m->n_declared; i++) {
        if (m->declared[i].part == part)
            return true;
    }
    return false;
}

static bool says(const vram_model *m, const char *key)
{
    vr_json v;
    return vr_json_get(m->checkpoint->config, key, &v) && v.type == VR_JSON_OBJECT;
}

/* What the whole model has beside what is declared. */
static const char *beside(const vram_model *m)
{
    const struct vr_catalogue_row *row = m->checkpoint->catalogue;
    if (row != NULL && row->lacks != NULL)
        return row->lacks;
    if ((says(m, "vision_config") || says(m, "visual")) && !has_part(m, VR_PART_VISION))
        return "vision tower";
    return says(m, "audio_config") && !has_part(m, VR_PART_AUDIO) ? "audio tower" : NULL;
}

static vram_status unknown(vram_model *m)
{
    if (m->family == NULL) {
        m->weights_unknown = m->not_understood;
    } else if (m->uncounted_part != NULL) {
        m->weights_unknown = vr_text(&m->arena, T("the sizes of its "), T(m->uncounted_part),
                                     T(" are not known without files; the decoder alone has "),
                                     GROUPED(m->declared_parameters), T(" parameters"));
    } else {
        m->weights_unknown = vr_text(&m->arena, T("how many bytes "),
                                     T(m->packing.title != NULL ? m->packing.title : "its quantisation"),
                                     T(" takes is not known without files"));
    }
    return m->weights_unknown != NULL ? VRAM_OK : VRAM_ENOMEM;
}

static vram_status put_plain(vr_tensor *t, const vr_declared *d, vr_dtype dtype, uint64_t *at)
{
    uint64_t bytes;
    *t = (vr_tensor){ .name = { d->name.s + d->skip, d->name.n - d->skip },
                      .dims = d->dims,
                      .n_dims = d->n_dims,
                      .dtype = (uint8_t)dtype,
                      .elements = d->elements,
                      .begin = *at };
    if (!vr_mul(d->elements, vr_dtype_bits(dtype) / 8, &bytes) || !vr_add(*at, bytes, at))
        return VRAM_ELIMIT;
    t->end = *at;
    return VRAM_OK;
}

static vram_status too_large(const vram_model *m)
{
    return vr_fail_file(m->ctx, VRAM_ELIMIT, m->checkpoint->config_file,
                        T("what it declares has over 2^64 bytes"));
}

static vram_status make_plain(vram_checkpoint *out, vram_model *m, vr_dtype dtype)
{
    vr_tensor *list = VR_ARRAY(&m->arena, vr_tensor, m->n_declared);
    size_t n = 0;
    uint64_t at = 0;
    if (list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < m->n_declared; i++) {
        if (vr_param_is_stored(m->declared[i].kind) &&
            put_plain(&list[n++], &m->declared[i], m->declared[i].kind == VR_PARAM_STATE_F32 ? VR_F32 : dtype,
                      &at) != VRAM_OK)
            return too_large(m);
    }
    return vr_checkpoint_declare(out, m->checkpoint, &m->arena, list, n);
}

/* Nearly all that is published is in bf16; who knows better says --dtype. */
static vram_status dtype_of(const vram_model *m, vr_dtype *out)
{
    *out = m->dtype;
    if (m->dtype != VR_DTYPE_NONE)
        return VRAM_OK;
    *out = VR_BF16;
    return vr_warn(m->ctx, m->checkpoint->config_file,
                   T("it does not say of which type the weights are: bf16 is assumed"));
}

vram_status vr_as_declared(vram_checkpoint **out, vram_model *m)
{
    vr_dtype dtype;
    *out = NULL;
    if (m->family != NULL && m->uncounted_part == NULL)
        m->uncounted_part = beside(m);
    if (m->family == NULL || m->uncounted_part != NULL || m->quantised || m->packing.method != NULL)
        return unknown(m);
    VR_TRY(dtype_of(m, &dtype));
    if (vr_dtype_bits(dtype) < 8)
        return unknown(m);
    *out = VR_NEW(&m->arena, vram_checkpoint);
    return *out != NULL ? make_plain(*out, m, dtype) : VRAM_ENOMEM;
}
