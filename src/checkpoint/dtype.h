/* SPDX-License-Identifier: MIT
 * Element types of tensors. Bits per element; types under a byte are packed, and a tensor of them fills whole
 * bytes. */
#ifndef VR_DTYPE_H
#define VR_DTYPE_H

#include "base/base.h"

/* name in the enum, name in safetensors, bits, floating (takes part in dtype conversion on load) */
#define VR_DTYPES(X)                  \
    X(F4, "F4", 4, true)              \
    X(F6_E2M3, "F6_E2M3", 6, true)    \
    X(F6_E3M2, "F6_E3M2", 6, true)    \
    X(F8_E5M2, "F8_E5M2", 8, true)    \
    X(F8_E4M3, "F8_E4M3", 8, true)    \
    X(F8_E8M0, "F8_E8M0", 8, true)    \
    X(F8_E4M3FNUZ, "F8_E4M3FNUZ", 8, true) \
    X(F8_E5M2FNUZ, "F8_E5M2FNUZ", 8, true) \
    X(BOOL, "BOOL", 8, false)         \
    X(U8, "U8", 8, false)             \
    X(I8, "I8", 8, false)             \
    X(U16, "U16", 16, false)          \
    X(I16, "I16", 16, false)          \
    X(F16, "F16", 16, true)           \
    X(BF16, "BF16", 16, true)         \
    X(U32, "U32", 32, false)          \
    X(I32, "I32", 32, false)          \
    X(F32, "F32", 32, true)           \
    X(U64, "U64", 64, false)          \
    X(I64, "I64", 64, false)          \
    X(F64, "F64", 64, true)           \
    X(C64, "C64", 64, true)

typedef enum vr_dtype {
    VR_DTYPE_NONE, /* not stated */
#define X(id, name, bits, floating) VR_##id,
    VR_DTYPES(X)
#undef X
    VR_DTYPE_COUNT
} vr_dtype;

const char *vr_dtype_name(vr_dtype t);  /* as safetensors spells it; "?" for VR_DTYPE_NONE */
unsigned vr_dtype_bits(vr_dtype t);
bool vr_dtype_floating(vr_dtype t);
bool vr_dtype_from_safetensors(vr_str name, vr_dtype *out);
/* "bfloat16", "bf16", "torch.bfloat16", "half", "fp16", "float32", ... ; case-insensitive */
bool vr_dtype_from_word(vr_str word, vr_dtype *out);

#endif
