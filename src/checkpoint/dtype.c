/* SPDX-License-Identifier: MIT
 * Element types: names, widths, and the words people and configurations use for them.
 * Sources: names and widths, huggingface/safetensors 0.6 to 0.8, safetensors/src/tensor.rs (enum Dtype,
 * bitsize); words, PyTorch c10/core/ScalarType.h and the aliases of the engines' --dtype options. */
#include "checkpoint/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    uint8_t length;           /* of the name */
    uint16_t elements, bytes; /* of a block */
    bool floating;
} types[VR_DTYPE_COUNT] = { [VR_DTYPE_NONE] = { "?", 1, 1, 0, false },
#define X(id, name, elements, bytes, floating)                                                               \
    [VR_##id] = { name, sizeof(name) - 1, elements, bytes, floating },
                            VR_DTYPES(X)
#undef X
};

/* Lower case, without "torch.". */
static const struct {
    const char *word;
    vr_dtype type;
} words[] = {
    { "bfloat16", VR_BF16 },
    { "bf16", VR_BF16 },
    { "float16", VR_F16 },
    { "fp16", VR_F16 },
    { "f16", VR_F16 },
    { "half", VR_F16 },
    { "float32", VR_F32 },
    { "fp32", VR_F32 },
    { "f32", VR_F32 },
    { "float", VR_F32 },
    { "float64", VR_F64 },
    { "fp64", VR_F64 },
    { "f64", VR_F64 },
    { "double", VR_F64 },
    { "float8_e4m3fn", VR_F8_E4M3 },
    { "float8_e4m3", VR_F8_E4M3 },
    { "fp8_e4m3", VR_F8_E4M3 },
    { "fp8", VR_F8_E4M3 }, /* vLLM: "fp8" is e4m3 on CUDA */
    { "f8_e4m3", VR_F8_E4M3 },
    { "float8_e5m2", VR_F8_E5M2 },
    { "fp8_e5m2", VR_F8_E5M2 },
    { "f8_e5m2", VR_F8_E5M2 },
    { "float8_e4m3fnuz", VR_F8_E4M3FNUZ },
    { "f8_e4m3fnuz", VR_F8_E4M3FNUZ },
    { "float8_e5m2fnuz", VR_F8_E5M2FNUZ },
    { "f8_e5m2fnuz", VR_F8_E5M2FNUZ },
    { "float8_e8m0fnu", VR_F8_E8M0 },
    { "f8_e8m0", VR_F8_E8M0 },
    { "f6_e2m3", VR_F6_E2M3 },
    { "f6_e3m2", VR_F6_E3M2 },
    { "f4", VR_F4 },
    { "bool", VR_BOOL },
    { "uint8", VR_U8 },
    { "u8", VR_U8 },
    { "int8", VR_I8 },
    { "i8", VR_I8 },
    { "uint16", VR_U16 },
    { "u16", VR_U16 },
    { "int16", VR_I16 },
    { "i16", VR_I16 },
    { "short", VR_I16 },
    { "uint32", VR_U32 },
    { "u32", VR_U32 },
    { "int32", VR_I32 },
    { "i32", VR_I32 },
    { "int", VR_I32 },
    { "uint64", VR_U64 },
    { "u64", VR_U64 },
    { "int64", VR_I64 },
    { "i64", VR_I64 },
    { "long", VR_I64 },
    { "complex64", VR_C64 },
    { "cfloat", VR_C64 },
    { "c64", VR_C64 },
    { "complex32", VR_C32 },
    { "complex128", VR_C128 },
    { "c32", VR_C32 },
    { "c128", VR_C128 },
    { "cdouble", VR_C128 },
    { "qint8", VR_QINT8 },
    { "quint8", VR_QUINT8 },
    { "qint32", VR_QINT32 },
    { "quint4x2", VR_QUINT4X2 },
    { "quint2x4", VR_QUINT2X4 },
    { "float4_e2m1fn_x2", VR_F4 },
};

static bool known(vr_dtype t)
{
    return (unsigned)t < VR_DTYPE_COUNT;
}

const char *vr_dtype_name(vr_dtype t)
{
    return types[known(t) ? t : VR_DTYPE_NONE].name;
}

unsigned vr_dtype_block(vr_dtype t)
{
    return types[known(t) ? t : VR_DTYPE_NONE].elements;
}

unsigned vr_dtype_block_bytes(vr_dtype t)
{
    return types[known(t) ? t : VR_DTYPE_NONE].bytes;
}

bool vr_dtype_ggml(vr_dtype t)
{
    return t >= VR_GGML_FIRST && t < VR_DTYPE_COUNT;
}

unsigned vr_dtype_bits(vr_dtype t)
{
    return vr_dtype_ggml(t) ? 0 : vr_dtype_block_bytes(t) * 8 / vr_dtype_block(t);
}

bool vr_dtype_floating(vr_dtype t)
{
    return known(t) && types[t].floating;
}

bool vr_dtype_from_safetensors(vr_str name, vr_dtype *out)
{
    for (int t = VR_DTYPE_NONE + 1; t < VR_TORCH_FIRST; t++) {
        if (name.n == types[t].length && memcmp(name.s, types[t].name, name.n) == 0) {
            *out = (vr_dtype)t;
            return true;
        }
    }
    return false;
}

static bool same_word(vr_str typed, const char *word)
{
    size_t n = strlen(word);
    if (typed.n != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (vr_lower(typed.s[i]) != word[i])
            return false;
    }
    return true;
}

bool vr_dtype_from_word(vr_str word, vr_dtype *out)
{
    if (word.n > 6 && same_word((vr_str){ word.s, 6 }, "torch."))
        word = (vr_str){ word.s + 6, word.n - 6 };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (same_word(word, words[i].word)) {
            *out = words[i].type;
            return true;
        }
    }
    return false;
}
