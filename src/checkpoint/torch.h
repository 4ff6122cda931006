/* SPDX-License-Identifier: MIT
 * A file of torch.save while it is read; private to the files torch*.c. */
#ifndef VR_TORCH_H
#define VR_TORCH_H

#include "checkpoint/loading.h"
#include "checkpoint/pickle.h"
#include "checkpoint/zip.h"

/* Ceilings: of names, and of tensors in one file. */
#define VR_TORCH_NAME_MOST 4096
#define VR_TORCH_TENSORS_MOST (UINT32_C(1) << 20)

/* What a global means. */
typedef enum vr_torch_meaning {
    VR_TORCH_NOT_ASKED,
    VR_TORCH_UNKNOWN,
    VR_TORCH_MODULE,  /* unknown, but its objects have the dictionaries of an nn.Module */
    VR_TORCH_PLAIN,   /* known, holds no tensors */
    VR_TORCH_DTYPE,   /* torch.float32 */
    VR_TORCH_STORAGE, /* torch.FloatStorage */
    VR_TORCH_DICT,
    VR_TORCH_LIST,
    VR_TORCH_OBJECT, /* makes an object of the class that is its first argument */
    VR_TORCH_ARGUMENT,  /* what its first argument is: nn.Parameter */
    VR_TORCH_TENSOR, /* _rebuild_tensor and _v2 */
    VR_TORCH_TENSOR_V3,
    VR_TORCH_QTENSOR,
    VR_TORCH_SPARSE,
    VR_TORCH_NESTED,
    VR_TORCH_META,
    VR_TORCH_FROM_TYPE, /* a subclass of Tensor: function, class, arguments, state */
} vr_torch_meaning;

/* The bytes that one or more tensors view. */
typedef struct vr_torch_storage {
    vr_str key;
    uint64_t bytes, begin;
    uint64_t carrier_bytes; /* of the largest tensor that views it, which counts for all of it */
    uint32_t carrier;
    uint8_t dtype; /* VR_DTYPE_NONE: untyped */
    bool weights;  /* a tensor of the model views it */
    bool other;    /* something else does */
    bool listed;   /* legacy: in the list of those that follow */
} vr_torch_storage;

typedef struct vr_torch_tensor {
    vr_str name;
    const uint64_t *dims;
    uint64_t elements;
    uint32_t storage;
    uint8_t n_dims, dtype;
} vr_torch_tensor;

typedef struct vr_torch {
    vr_object object; /* the context frees what the arena has, also after an error */
    vr_arena arena;
    vram_checkpoint *ck;
    bool legacy, parsed;
    uint64_t target; /* legacy: the bytes asked for to find the end of the pickles */

    vr_zip zip;
    vr_pickle pickle;
    vr_map numbers; /* of storages by key */
    vr_torch_storage *storages;
    size_t n_storages;
    uint64_t storage_bytes;

    vr_torch_tensor *tensors; /* the model's weights */
    size_t n_tensors, tensors_room;
    size_t n_meta; /* without data */
} vr_torch;

/* Where a value stands. */
#define VR_TORCH_BAD(t, v, code, ...)                                                                        \
    vr_fail_at((t)->ck->ctx, (code), (t)->pickle.file, vr_pickle_place(&(t)->pickle, (v)->at), __VA_ARGS__)

/* ---- torch_types.c ---- */

vr_torch_meaning vr_torch_meaning_of(vr_pickled *v);
/* Of torch.float32; of torch.FloatStorage, VR_DTYPE_NONE when that is untyped. */
bool vr_torch_dtype(const vr_pickled *v, vr_dtype *out);
bool vr_torch_storage_type(const vr_pickled *v, vr_dtype *out);
/* Fills storages from the persistent ids. */
vram_status vr_torch_storages(vr_torch *t);
/* NULL: it is no storage. */
vr_torch_storage *vr_torch_storage_of(const vr_torch *t, const vr_pickled *v);

/* ---- torch_legacy.c ---- */

/* VRAM_MORE: bytes are wanted. */
vram_status vr_torch_legacy_parse(vr_torch *t, vr_input *in);

/* ---- torch_tensors.c ---- */

/* A tensor description is a call of one of PyTorch's functions; each tensor that it has gets the name, with
 * an ending where they are several. */
typedef struct vr_torch_place {
    vr_str name;
    bool other; /* it is not a weight of the model: only counted */
    uint64_t n_other, other_bytes;
} vr_torch_place;

/* From a storage, offset, size, stride and dtype (NULL: the storage's). */
typedef struct vr_torch_described {
    const vr_pickled *at, *storage, *offset, *size, *stride, *dtype;
} vr_torch_described;
vram_status vr_torch_add(vr_torch *t, vr_torch_place *to, const vr_torch_described *d);

/* ---- torch_walk.c ---- */

/* Finds the tensors below the pickle's result. */
vram_status vr_torch_walk(vr_torch *t);
/* Which classes and functions were not understood; *first for an error. */
vram_status vr_torch_warn_unknown(vr_torch *t, const vr_pickled **first);

#endif
