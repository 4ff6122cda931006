/* SPDX-License-Identifier: MIT
 * A configuration alone stands for the checkpoint that its class declares: the same names, shapes and types,
 * so that all that follows is as with files, but for the evidence. What is not known for certain is not made
 * up: then there are no tensors, and a reason. */
#include "model/as_declared.h"
#include "model/catalogue.h"

#include <string.h>

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

/* The class around a decoder has a tower also where config.json is silent: one of the class's own sizes,
 * which no published model has. */
static bool sees_by_name(const vram_model *m)
{
    return vr_family_wrapped(m->family, vr_str_of(m->model_type)) &&
           vr_str_ends(vr_str_of(m->architecture), "ForConditionalGeneration");
}

/* What the whole model has beside what is declared. */
static const char *beside(const vram_model *m)
{
    const struct vr_catalogue_row *row = m->checkpoint->catalogue;
    if (row != NULL && row->lacks != NULL)
        return row->lacks;
    if ((says(m, "vision_config") || says(m, "visual") || sees_by_name(m)) && !has_part(m, VR_PART_VISION))
        return "vision tower";
    return says(m, "audio_config") ? "audio tower" : NULL;
}

vram_status vr_weights_unknown(vram_model *m)
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

static vr_tensor *grow(vr_storing *s)
{
    if (s->n == s->room) {
        size_t room = s->room != 0 ? 2 * s->room : s->m->n_declared + 1;
        s->list = vr_arena_grow(&s->m->arena, s->list, s->n, room, sizeof *s->list);
        s->room = room;
    }
    return s->list != NULL ? &s->list[s->n++] : NULL;
}

static void store(vr_storing *s, vr_tensor t)
{
    vr_tensor *to = s->status == VRAM_OK ? grow(s) : NULL;
    uint64_t bits;
    if (s->status != VRAM_OK)
        return;
    t.elements = 1;
    for (uint8_t i = 0; i < t.n_dims; i++)
        t.elements = vr_mul_sat(t.elements, t.dims[i]);
    t.begin = s->at;
    if (to == NULL || t.name.s == NULL || (t.n_dims != 0 && t.dims == NULL))
        s->status = VRAM_ENOMEM;
    else if (!vr_mul(t.elements, vr_dtype_bits((vr_dtype)t.dtype), &bits) || !vr_add(s->at, bits / 8, &s->at))
        s->status = vr_fail_file(s->m->ctx, VRAM_ELIMIT, s->m->checkpoint->config_file,
                                 T("what it declares has over 2^64 bytes"));
    if (s->status != VRAM_OK)
        return;
    t.end = s->at;
    *to = t;
}

void vr_store(vr_storing *s, const vr_declared *d, size_t cut, const char *suffix, vr_dtype dtype,
              const uint64_t *dims, uint8_t n_dims)
{
    vr_arena *a = &s->m->arena;
    vr_str stem = { d->name.s + d->skip, d->name.n - d->skip - cut };
    const char *name = vr_text(a, S(stem), T(suffix));
    uint64_t *kept = VR_ARRAY(a, uint64_t, n_dims);
    if (kept != NULL && n_dims != 0)
        memcpy(kept, dims, n_dims * sizeof *dims);
    store(s,
          (vr_tensor){ .name = vr_str_made(name), .dims = kept, .n_dims = n_dims, .dtype = (uint8_t)dtype });
}

void vr_store_plain(vr_storing *s, const vr_declared *d)
{
    store(s, (vr_tensor){ .name = { d->name.s + d->skip, d->name.n - d->skip },
                          .dims = d->dims,
                          .n_dims = d->n_dims,
                          .dtype = (uint8_t)(d->kind == VR_PARAM_STATE_F32 ? VR_F32 : s->dtype) });
}

static void store_all(vr_storing *s)
{
    for (size_t i = 0; i < s->m->n_declared; i++)
        if (vr_param_is_stored(s->m->declared[i].kind))
            vr_store_plain(s, &s->m->declared[i]);
}

/* Nearly all that is published is in bf16; who knows better says --dtype. */
static vram_status tell_dtype(const vram_model *m)
{
    if (m->dtype != VR_DTYPE_NONE)
        return VRAM_OK;
    return vr_warn(m->ctx, m->checkpoint->config_file,
                   T("it does not say of which type the weights are: bf16 is assumed"));
}

vram_status vr_as_declared(vram_checkpoint **out, vram_model *m)
{
    vr_storing s = { .m = m };
    bool quantised = m->quantised || m->packing.method != NULL, known = true;
    *out = NULL;
    if (m->family != NULL && m->uncounted_part == NULL)
        m->uncounted_part = beside(m);
    if (m->family == NULL || m->uncounted_part != NULL)
        return vr_weights_unknown(m);
    s.dtype = m->dtype != VR_DTYPE_NONE ? m->dtype : VR_BF16;
    if (vr_dtype_bits(s.dtype) < 8)
        return vr_weights_unknown(m);
    if (quantised)
        known = vr_store_quantised(&s);
    else
        store_all(&s);
    VR_TRY(s.status);
    if (!known)
        return vr_weights_unknown(m);
    VR_TRY(tell_dtype(m));
    *out = VR_NEW(&m->arena, vram_checkpoint);
    return *out != NULL ? vr_checkpoint_declare(*out, m->checkpoint, &m->arena, s.list, s.n) : VRAM_ENOMEM;
}
