/* SPDX-License-Identifier: MIT
 * Element types of tensors. A block of elements fills whole bytes; a tensor has whole blocks. */
#ifndef VR_DTYPE_H
#define VR_DTYPE_H

#include "base/base.h"

/* name in the enum, name on the screen, elements and bytes of a block, floating (takes part in dtype
 * conversion on load). The first part as safetensors names them, then what only PyTorch has, then those of
 * ggml, whose blocks hold scales too. */
/* clang-format off */
#define VR_DTYPES(X)                  \
    X(F4, "F4", 2, 1, true) \
    X(F6_E2M3, "F6_E2M3", 4, 3, true) \
    X(F6_E3M2, "F6_E3M2", 4, 3, true) \
    X(F8_E5M2, "F8_E5M2", 1, 1, true) \
    X(F8_E4M3, "F8_E4M3", 1, 1, true) \
    X(F8_E8M0, "F8_E8M0", 1, 1, true) \
    X(F8_E4M3FNUZ, "F8_E4M3FNUZ", 1, 1, true) \
    X(F8_E5M2FNUZ, "F8_E5M2FNUZ", 1, 1, true) \
    X(BOOL, "BOOL", 1, 1, false) \
    X(U8, "U8", 1, 1, false) \
    X(I8, "I8", 1, 1, false) \
    X(U16, "U16", 1, 2, false) \
    X(I16, "I16", 1, 2, false) \
    X(F16, "F16", 1, 2, true) \
    X(BF16, "BF16", 1, 2, true) \
    X(U32, "U32", 1, 4, false) \
    X(I32, "I32", 1, 4, false) \
    X(F32, "F32", 1, 4, true) \
    X(U64, "U64", 1, 8, false) \
    X(I64, "I64", 1, 8, false) \
    X(F64, "F64", 1, 8, true) \
    X(C64, "C64", 1, 8, true) \
    VR_TORCH_DTYPES(X) \
    VR_GGML_DTYPES(X)

/* PyTorch's own, which safetensors does not have. The quantised ones keep scales outside of their data. */
#define VR_TORCH_DTYPES(X) \
    X(C32, "C32", 1, 4, true) \
    X(C128, "C128", 1, 16, true) \
    X(QINT8, "QINT8", 1, 1, false) \
    X(QUINT8, "QUINT8", 1, 1, false) \
    X(QINT32, "QINT32", 1, 4, false) \
    X(QUINT4X2, "QUINT4X2", 2, 1, false) \
    X(QUINT2X4, "QUINT2X4", 4, 1, false)

#define VR_GGML_DTYPES(X) \
    X(Q4_0, "Q4_0", 32, 18, false) \
    X(Q4_1, "Q4_1", 32, 20, false) \
    X(Q5_0, "Q5_0", 32, 22, false) \
    X(Q5_1, "Q5_1", 32, 24, false) \
    X(Q8_0, "Q8_0", 32, 34, false) \
    X(Q8_1, "Q8_1", 32, 36, false) \
    X(Q2_K, "Q2_K", 256, 84, false) \
    X(Q3_K, "Q3_K", 256, 110, false) \
    X(Q4_K, "Q4_K", 256, 144, false) \
    X(Q5_K, "Q5_K", 256, 176, false) \
    X(Q6_K, "Q6_K", 256, 210, false) \
    X(Q8_K, "Q8_K", 256, 292, false) \
    X(IQ2_XXS, "IQ2_XXS", 256, 66, false) \
    X(IQ2_XS, "IQ2_XS", 256, 74, false) \
    X(IQ3_XXS, "IQ3_XXS", 256, 98, false) \
    X(IQ1_S, "IQ1_S", 256, 50, false) \
    X(IQ4_NL, "IQ4_NL", 32, 18, false) \
    X(IQ3_S, "IQ3_S", 256, 110, false) \
    X(IQ2_S, "IQ2_S", 256, 82, false) \
    X(IQ4_XS, "IQ4_XS", 256, 136, false) \
    X(IQ1_M, "IQ1_M", 256, 56, false) \
    X(TQ1_0, "TQ1_0", 256, 54, false) \
    X(TQ2_0, "TQ2_0", 256, 66, false) \
    X(MXFP4, "MXFP4", 32, 17, false) \
    X(NVFP4, "NVFP4", 64, 36, false) \
    X(Q1_0, "Q1_0", 128, 18, false) \
    X(Q2_0, "Q2_0", 64, 18, false)
/* clang-format on */

typedef enum vr_dtype {
    VR_DTYPE_NONE, /* not stated */
#define X(id, name, elements, bytes, floating) VR_##id,
    VR_DTYPES(X)
#undef X
    VR_DTYPE_COUNT,
    VR_TORCH_FIRST = VR_C32,
    VR_GGML_FIRST = VR_Q4_0
} vr_dtype;

const char *vr_dtype_name(vr_dtype t);  /* as safetensors spells it; "?" for VR_DTYPE_NONE */
/* Of one element; 0 for ggml's quantised types, whose blocks are no whole number of bits an element. */
unsigned vr_dtype_bits(vr_dtype t);
/* Elements and bytes of one block; 1 and 0 for VR_DTYPE_NONE. */
unsigned vr_dtype_block(vr_dtype t);
unsigned vr_dtype_block_bytes(vr_dtype t);
bool vr_dtype_ggml(vr_dtype t); /* one of ggml's quantised types */
bool vr_dtype_floating(vr_dtype t);
bool vr_dtype_from_safetensors(vr_str name, vr_dtype *out);
/* "bfloat16", "bf16", "torch.bfloat16", "half", "fp16", "float32", ... ; case-insensitive */
bool vr_dtype_from_word(vr_str word, vr_dtype *out);

#endif
