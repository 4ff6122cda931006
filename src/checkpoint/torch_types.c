/* SPDX-License-Identifier: MIT
 * What the names in PyTorch's pickles mean, and the storages they describe.
 * Source: PyTorch 2.15, torch/_weights_only_unpickler.py (_get_allowed_globals), torch/_utils.py,
 * torch/storage.py (_dtype_to_storage_type_map), torch/serialization.py (persistent_id of _save and
 * _legacy_save); Python's copyreg and collections. */
#include "checkpoint/torch.h"

/* name NULL: everything in that module */
static const struct {
    const char *module, *name;
    uint8_t meaning;
} meanings[] = {
    { "torch._utils", "_rebuild_tensor_v2", VR_TORCH_TENSOR },
    { "torch._utils", "_rebuild_tensor", VR_TORCH_TENSOR },
    { "torch._utils", "_rebuild_tensor_v3", VR_TORCH_TENSOR_V3 },
    { "torch._utils", "_rebuild_parameter", VR_TORCH_ARGUMENT },
    { "torch._utils", "_rebuild_parameter_with_state", VR_TORCH_ARGUMENT },
    { "torch._utils", "_rebuild_device_tensor_from_cpu_tensor", VR_TORCH_ARGUMENT },
    { "torch._utils", "_rebuild_qtensor", VR_TORCH_QTENSOR },
    { "torch._utils", "_rebuild_sparse_tensor", VR_TORCH_SPARSE },
    { "torch._utils", "_rebuild_nested_tensor", VR_TORCH_NESTED },
    { "torch._utils", "_rebuild_meta_tensor_no_storage", VR_TORCH_META },
    { "torch._utils", "_rebuild_wrapper_subclass", VR_TORCH_PLAIN },
    { "torch._tensor", "_rebuild_from_type_v2", VR_TORCH_FROM_TYPE },
    { "torch._tensor", "_rebuild_from_type", VR_TORCH_FROM_TYPE },
    { "torch.nn.parameter", "Parameter", VR_TORCH_ARGUMENT },
    { "torch.nn.parameter", "Buffer", VR_TORCH_ARGUMENT },
    { "collections", "OrderedDict", VR_TORCH_DICT },
    { "collections", "defaultdict", VR_TORCH_DICT },
    { "collections", "Counter", VR_TORCH_PLAIN },
    { "collections", "deque", VR_TORCH_LIST },
    { "builtins", "dict", VR_TORCH_DICT },
    { "builtins", "list", VR_TORCH_LIST },
    { "builtins", "tuple", VR_TORCH_LIST },
    { "builtins", "set", VR_TORCH_LIST },
    { "builtins", "frozenset", VR_TORCH_LIST },
    { "__builtin__", "dict", VR_TORCH_DICT },
    { "__builtin__", "list", VR_TORCH_LIST },
    { "__builtin__", "tuple", VR_TORCH_LIST },
    { "__builtin__", "set", VR_TORCH_LIST },
    { "copyreg", "_reconstructor", VR_TORCH_OBJECT },
    { "copy_reg", "_reconstructor", VR_TORCH_OBJECT },
    { "copyreg", "__newobj__", VR_TORCH_OBJECT },
    /* their objects hold no tensors */
    { "builtins", "object", VR_TORCH_PLAIN },
    { "builtins", "bytearray", VR_TORCH_PLAIN },
    { "builtins", "complex", VR_TORCH_PLAIN },
    { "builtins", "slice", VR_TORCH_PLAIN },
    { "builtins", "int", VR_TORCH_PLAIN },
    { "builtins", "float", VR_TORCH_PLAIN },
    { "builtins", "str", VR_TORCH_PLAIN },
    { "builtins", "bool", VR_TORCH_PLAIN },
    { "__builtin__", "object", VR_TORCH_PLAIN },
    { "__builtin__", "bytearray", VR_TORCH_PLAIN },
    { "__builtin__", "complex", VR_TORCH_PLAIN },
    { "__builtin__", "slice", VR_TORCH_PLAIN },
    { "_codecs", "encode", VR_TORCH_PLAIN },
    { "torch", "Size", VR_TORCH_PLAIN },
    { "torch", "device", VR_TORCH_PLAIN },
    { "torch", "Tensor", VR_TORCH_PLAIN },
    { "torch._tensor", "Tensor", VR_TORCH_PLAIN },
    { "torch", "per_tensor_affine", VR_TORCH_PLAIN },
    { "torch", "per_channel_affine", VR_TORCH_PLAIN },
    { "torch", "per_channel_affine_float_qparams", VR_TORCH_PLAIN },
    { "torch", "per_channel_symmetric", VR_TORCH_PLAIN },
    { "torch", "per_tensor_symmetric", VR_TORCH_PLAIN },
    { "torch", "contiguous_format", VR_TORCH_PLAIN },
    { "torch", "channels_last", VR_TORCH_PLAIN },
    { "torch.serialization", "_get_layout", VR_TORCH_PLAIN },
    { "numpy", "dtype", VR_TORCH_PLAIN },
    { "numpy", "ndarray", VR_TORCH_PLAIN },
    { "numpy.core.multiarray", "scalar", VR_TORCH_PLAIN },
    { "numpy.core.multiarray", "_reconstruct", VR_TORCH_PLAIN },
    { "numpy._core.multiarray", "scalar", VR_TORCH_PLAIN },
    { "numpy._core.multiarray", "_reconstruct", VR_TORCH_PLAIN },
    { "numpy._core.numeric", "_frombuffer", VR_TORCH_PLAIN },
    { "argparse", "Namespace", VR_TORCH_PLAIN },
    { "datetime", NULL, VR_TORCH_PLAIN },
    { "pathlib", NULL, VR_TORCH_PLAIN },
};

static const struct {
    const char *name;
    uint8_t dtype;
} storages[] = {
    { "DoubleStorage", VR_F64 },
    { "FloatStorage", VR_F32 },
    { "HalfStorage", VR_F16 },
    { "BFloat16Storage", VR_BF16 },
    { "LongStorage", VR_I64 },
    { "IntStorage", VR_I32 },
    { "ShortStorage", VR_I16 },
    { "CharStorage", VR_I8 },
    { "ByteStorage", VR_U8 },
    { "BoolStorage", VR_BOOL },
    { "ComplexDoubleStorage", VR_C128 },
    { "ComplexFloatStorage", VR_C64 },
    { "QInt8Storage", VR_QINT8 },
    { "QInt32Storage", VR_QINT32 },
    { "QUInt8Storage", VR_QUINT8 },
    { "QUInt4x2Storage", VR_QUINT4X2 },
    { "QUInt2x4Storage", VR_QUINT2X4 },
    { "UntypedStorage", VR_DTYPE_NONE },
};

/* ---- names ---- */

static vr_str module_of(const vr_pickled *v)
{
    return vr_pickled_text(v->u.items[0]);
}

static vr_str name_of(const vr_pickled *v)
{
    return vr_pickled_text(v->u.items[1]);
}

bool vr_torch_dtype(const vr_pickled *v, vr_dtype *out)
{
    return v->kind == VR_PICKLED_GLOBAL && vr_str_is(module_of(v), "torch") &&
           vr_dtype_from_word(name_of(v), out);
}

/* torch.FloatStorage, torch.cuda.FloatStorage, torch.storage.UntypedStorage */
bool vr_torch_storage_type(const vr_pickled *v, vr_dtype *out)
{
    if (v->kind != VR_PICKLED_GLOBAL || !vr_str_starts(module_of(v), "torch"))
        return false;
    for (size_t i = 0; i < sizeof(storages) / sizeof(storages[0]); i++) {
        if (vr_str_is(name_of(v), storages[i].name)) {
            *out = (vr_dtype)storages[i].dtype;
            return true;
        }
    }
    return false;
}

static vr_torch_meaning look_up(const vr_pickled *v)
{
    vr_dtype d;
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (vr_str_is(module_of(v), meanings[i].module) &&
            (meanings[i].name == NULL || vr_str_is(name_of(v), meanings[i].name)))
            return (vr_torch_meaning)meanings[i].meaning;
    }
    if (vr_torch_dtype(v, &d))
        return VR_TORCH_DTYPE;
    return vr_torch_storage_type(v, &d) ? VR_TORCH_STORAGE : VR_TORCH_UNKNOWN;
}

vr_torch_meaning vr_torch_meaning_of(vr_pickled *v)
{
    if (v->kind != VR_PICKLED_GLOBAL)
        return VR_TORCH_UNKNOWN;
    if (v->tag == VR_TORCH_NOT_ASKED)
        v->tag = (uint8_t)look_up(v);
    return (vr_torch_meaning)v->tag;
}

/* ---- storages ---- */

/* ("storage", type, key, location, elements); the legacy form has a sixth, None. */
typedef struct description {
    vr_str key;
    vr_dtype dtype;
    uint64_t elements, bytes;
} description;

static bool is_storage_id(const vr_pickled *id)
{
    return id->kind == VR_PICKLED_TUPLE && id->n > 0 && vr_str_is(vr_pickled_text(id->u.items[0]), "storage");
}

static vram_status describe(const vr_torch *t, const vr_pickled *v, const vr_pickled *id, description *out)
{
    if (id->n < 5 || id->u.items[2]->kind != VR_PICKLED_TEXT ||
        !vr_pickled_u64(id->u.items[4], &out->elements))
        return VR_TORCH_BAD(t, v, VRAM_EFORMAT, T("a storage is described as torch.save does not do it"));
    out->key = vr_pickled_text(id->u.items[2]);
    if (!vr_torch_storage_type(id->u.items[1], &out->dtype))
        return VR_TORCH_BAD(t, v, VRAM_EUNSUPPORTED, T("storage "), S(out->key), T(" has an unknown type"));
    uint64_t width = out->dtype == VR_DTYPE_NONE ? 1 : vr_dtype_block_bytes(out->dtype);
    if (!vr_mul(out->elements, width, &out->bytes))
        return VR_TORCH_BAD(t, v, VRAM_EFORMAT, T("storage "), S(out->key), T(" has "), U(out->elements),
                            T(" elements of "), U(width), T(" bytes, which overflows 2^64"));
    return VRAM_OK;
}

static vram_status add_storage(vr_torch *t, const vr_pickled *v, const description *d)
{
    bool known = false;
    uint32_t number = 0;
    VR_TRY(vr_map_put(&t->numbers, d->key, (uint32_t)t->n_storages, &known, &number));
    if (known && t->storages[number].bytes != d->bytes)
        return VR_TORCH_BAD(t, v, VRAM_EFORMAT, T("storage "), S(d->key), T(" has "), GROUPED(d->bytes),
                            T(" bytes here and "), GROUPED(t->storages[number].bytes), T(" elsewhere"));
    if (known)
        return VRAM_OK;
    t->storages[t->n_storages++] =
        (vr_torch_storage){ .key = d->key, .bytes = d->bytes, .dtype = (uint8_t)d->dtype };
    if (!vr_add(t->storage_bytes, d->bytes, &t->storage_bytes))
        return VR_TORCH_BAD(t, v, VRAM_EFORMAT, T("the storages have over 2^64 bytes together"));
    return VRAM_OK;
}

vram_status vr_torch_storages(vr_torch *t)
{
    const vr_pickled_list *ids = &t->pickle.persistents;
    t->n_storages = 0;
    t->storage_bytes = 0;
    t->storages = VR_ARRAY(&t->arena, vr_torch_storage, ids->n);
    if (t->storages == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_map_init(&t->numbers, &t->arena, ids->n, (uint64_t)(uintptr_t)t));
    for (size_t i = 0; i < ids->n; i++) {
        const vr_pickled *id = ids->p[i]->u.items[0];
        description d;
        if (!is_storage_id(id))
            continue; /* the legacy form puts classes there too */
        VR_TRY(describe(t, ids->p[i], id, &d));
        VR_TRY(add_storage(t, ids->p[i], &d));
    }
    return VRAM_OK;
}

vr_torch_storage *vr_torch_storage_of(const vr_torch *t, const vr_pickled *v)
{
    uint32_t number = 0;
    if (v->kind != VR_PICKLED_PERSISTENT || !is_storage_id(v->u.items[0]) ||
        !vr_map_get(&t->numbers, vr_pickled_text(v->u.items[0]->u.items[2]), &number))
        return NULL;
    return &t->storages[number];
}
