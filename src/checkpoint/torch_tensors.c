/* SPDX-License-Identifier: MIT
 * One tensor as PyTorch's pickles describe it: a window on a storage. What torch.load would check, and what
 * makes it read beyond a storage, is checked here.
 * Source: PyTorch 2.15, torch/_utils.py (_rebuild_tensor, _rebuild_tensor_v3), aten/src/ATen/native/Resize.h
 * (computeStorageNbytes: 1 + sum of (size - 1) * stride elements, after the offset; none for an empty one).
 */
#include "checkpoint/torch.h"

#define BAD(t, d, code, ...) VR_TORCH_BAD((t), (d)->at, (code), T("tensor "), S(to->name), __VA_ARGS__)

typedef struct shape {
    uint64_t dims[VR_MAX_DIMS], strides[VR_MAX_DIMS];
    size_t n;
    uint64_t offset, elements;
} shape;

static bool is_row(const vr_pickled *v)
{
    return v->kind == VR_PICKLED_TUPLE || v->kind == VR_PICKLED_LIST;
}

/* torch.Size((2, 3)) was seen too. */
static const vr_pickled *row_of(const vr_pickled *v)
{
    if (v->kind == VR_PICKLED_CALL && is_row(vr_pickled_call_of(v)->args) &&
        vr_pickled_call_of(v)->args->n == 1)
        return vr_pickled_call_of(v)->args->u.items[0];
    return v;
}

static vram_status read_shape(const vr_torch *t, const vr_torch_place *to, const vr_torch_described *d,
                              shape *s)
{
    const vr_pickled *size = row_of(d->size), *stride = row_of(d->stride);
    if (!is_row(size) || !is_row(stride) || size->n != stride->n || !vr_pickled_u64(d->offset, &s->offset))
        return BAD(t, d, VRAM_EFORMAT, T(" has no size, strides and offset that fit each other"));
    if (size->n > VR_MAX_DIMS)
        return BAD(t, d, VRAM_ELIMIT, T(" has "), U(size->n), T(" dimensions, over the limit of "),
                   U(VR_MAX_DIMS));
    s->n = size->n;
    s->elements = 1;
    for (size_t i = 0; i < s->n; i++) {
        if (!vr_pickled_u64(size->u.items[i], &s->dims[i]) ||
            !vr_pickled_u64(stride->u.items[i], &s->strides[i]))
            return BAD(t, d, VRAM_EFORMAT, T(" has a size or stride that is no number, or negative"));
        if (!vr_mul(s->elements, s->dims[i], &s->elements))
            return BAD(t, d, VRAM_EFORMAT, T(" has a size that overflows 2^64 elements"));
    }
    return VRAM_OK;
}

/* Elements of the storage up to its last one; false on overflow. */
static bool reach(const shape *s, uint64_t *out)
{
    *out = s->elements == 0 ? 0 : 1;
    for (size_t i = 0; i < s->n && s->elements != 0; i++) {
        uint64_t step;
        if (!vr_mul(s->dims[i] - 1, s->strides[i], &step) || !vr_add(*out, step, out))
            return false;
    }
    return s->elements == 0 || vr_add(*out, s->offset, out);
}

static bool bytes_of(uint64_t elements, vr_dtype dtype, uint64_t *out)
{
    uint64_t block = vr_dtype_block(dtype);
    return vr_mul(elements / block + (elements % block != 0), vr_dtype_block_bytes(dtype), out);
}

static vram_status read_dtype(const vr_torch *t, const vr_torch_place *to, const vr_torch_described *d,
                              const vr_torch_storage *storage, vr_dtype *out)
{
    *out = (vr_dtype)storage->dtype;
    if (d->dtype != NULL && !vr_torch_dtype(d->dtype, out)) {
        vr_str name = { NULL, 0 };
        if (d->dtype->kind == VR_PICKLED_GLOBAL)
            name = vr_pickled_text(d->dtype->u.items[1]);
        return BAD(t, d, VRAM_EUNSUPPORTED, T(" has an unknown dtype"), T(name.n > 0 ? ": " : ""), S(name));
    }
    if (*out == VR_DTYPE_NONE)
        *out = VR_U8; /* an untyped storage for itself */
    return VRAM_OK;
}

/* PyTorch shapes float4_e2m1fn_x2 in bytes of two; a shape here is in elements. */
static bool whole_elements(shape *s, vr_dtype dtype)
{
    if (dtype != VR_F4 || s->n == 0)
        return true;
    return vr_mul(s->dims[s->n - 1], 2, &s->dims[s->n - 1]) && vr_mul(s->elements, 2, &s->elements);
}

static vram_status keep(vr_torch *t, const vr_torch_place *to, const vr_torch_described *d, const shape *s,
                        vr_torch_tensor *out)
{
    if (t->n_tensors == VR_TORCH_TENSORS_MOST)
        return BAD(t, d, VRAM_ELIMIT, T(" is one more than the limit of "), GROUPED(VR_TORCH_TENSORS_MOST),
                   T(" in a file"));
    if (t->n_tensors == t->tensors_room) {
        size_t room = t->tensors_room == 0 ? 16 : t->tensors_room * 2;
        vr_torch_tensor *grown = vr_arena_grow(&t->arena, t->tensors, t->tensors_room, room, sizeof(*grown));
        if (grown == NULL)
            return VRAM_ENOMEM;
        t->tensors = grown;
        t->tensors_room = room;
    }
    out->name.s = vr_arena_copy(&t->ck->arena, to->name);
    out->name.n = to->name.n;
    out->dims = vr_keep_dims(t->ck, s->dims, s->n);
    if (out->name.s == NULL || out->dims == NULL)
        return VRAM_ENOMEM;
    t->tensors[t->n_tensors++] = *out;
    return VRAM_OK;
}

/* A storage counts once and whole: torch.save writes all of it, torch.load has all of it in memory. Its
 * largest tensor counts for it, the first of several. */
static void claim(vr_torch *t, vr_torch_place *to, vr_torch_storage *storage, uint64_t bytes)
{
    if (to->other) {
        to->n_other++;
        to->other_bytes += storage->weights || storage->other ? 0 : storage->bytes;
        storage->other = true;
        return;
    }
    if (!storage->weights || bytes > storage->carrier_bytes) {
        storage->carrier = (uint32_t)t->n_tensors;
        storage->carrier_bytes = bytes;
    }
    storage->weights = true;
}

vram_status vr_torch_add(vr_torch *t, vr_torch_place *to, const vr_torch_described *d)
{
    vr_torch_storage *storage = vr_torch_storage_of(t, d->storage);
    shape s = { .n = 0 };
    uint64_t end = 0, bytes = 0;
    vr_dtype dtype;
    if (storage == NULL)
        return BAD(t, d, VRAM_EFORMAT, T(" has no storage"));
    VR_TRY(read_dtype(t, to, d, storage, &dtype));
    VR_TRY(read_shape(t, to, d, &s));
    if (!reach(&s, &end) || !bytes_of(end, dtype == VR_F4 ? VR_U8 : dtype, &end) || end > storage->bytes)
        return BAD(t, d, VRAM_EFORMAT, T(" reaches beyond its storage "), S(storage->key), T(" of "),
                   GROUPED(storage->bytes), vr_bytes_word(storage->bytes));
    if (!whole_elements(&s, dtype) || !bytes_of(s.elements, dtype, &bytes))
        return BAD(t, d, VRAM_EFORMAT, T(" has a size that overflows 2^64 bytes"));
    claim(t, to, storage, bytes);
    if (to->other)
        return VRAM_OK;
    vr_torch_tensor out = { .elements = s.elements,
                            .storage = (uint32_t)(storage - t->storages),
                            .n_dims = (uint8_t)s.n,
                            .dtype = (uint8_t)dtype };
    return keep(t, to, d, &s, &out);
}
