/* SPDX-License-Identifier: MIT
 * ggml's numbers of tensor types.
 * Source: llama.cpp, ggml/include/ggml.h (enum ggml_type), with its remarks on what was removed; 0 to 42 as
 * in llama-cpp-python 0.3.36. */
#include "checkpoint/gguf.h"

static const struct {
    uint8_t dtype;
    const char *removed;
} types[] = {
    [0] = { VR_F32, NULL },
    [1] = { VR_F16, NULL },
    [2] = { VR_Q4_0, NULL },
    [3] = { VR_Q4_1, NULL },
    [4] = { VR_DTYPE_NONE, "Q4_2, which llama.cpp no longer reads" },
    [5] = { VR_DTYPE_NONE, "Q4_3, which llama.cpp no longer reads" },
    [6] = { VR_Q5_0, NULL },
    [7] = { VR_Q5_1, NULL },
    [8] = { VR_Q8_0, NULL },
    [9] = { VR_Q8_1, NULL },
    [10] = { VR_Q2_K, NULL },
    [11] = { VR_Q3_K, NULL },
    [12] = { VR_Q4_K, NULL },
    [13] = { VR_Q5_K, NULL },
    [14] = { VR_Q6_K, NULL },
    [15] = { VR_Q8_K, NULL },
    [16] = { VR_IQ2_XXS, NULL },
    [17] = { VR_IQ2_XS, NULL },
    [18] = { VR_IQ3_XXS, NULL },
    [19] = { VR_IQ1_S, NULL },
    [20] = { VR_IQ4_NL, NULL },
    [21] = { VR_IQ3_S, NULL },
    [22] = { VR_IQ2_S, NULL },
    [23] = { VR_IQ4_XS, NULL },
    [24] = { VR_I8, NULL },
    [25] = { VR_I16, NULL },
    [26] = { VR_I32, NULL },
    [27] = { VR_I64, NULL },
    [28] = { VR_F64, NULL },
    [29] = { VR_IQ1_M, NULL },
    [30] = { VR_BF16, NULL },
    [31] = { VR_DTYPE_NONE, "Q4_0_4_4, which llama.cpp no longer reads: it repacks Q4_0 when loading" },
    [32] = { VR_DTYPE_NONE, "Q4_0_4_8, which llama.cpp no longer reads: it repacks Q4_0 when loading" },
    [33] = { VR_DTYPE_NONE, "Q4_0_8_8, which llama.cpp no longer reads: it repacks Q4_0 when loading" },
    [34] = { VR_TQ1_0, NULL },
    [35] = { VR_TQ2_0, NULL },
    [36] = { VR_DTYPE_NONE, "IQ4_NL_4_4, which llama.cpp no longer reads: it repacks IQ4_NL when loading" },
    [37] = { VR_DTYPE_NONE, "IQ4_NL_4_8, which llama.cpp no longer reads: it repacks IQ4_NL when loading" },
    [38] = { VR_DTYPE_NONE, "IQ4_NL_8_8, which llama.cpp no longer reads: it repacks IQ4_NL when loading" },
    [39] = { VR_MXFP4, NULL },
    [40] = { VR_NVFP4, NULL },
    [41] = { VR_Q1_0, NULL },
    [42] = { VR_Q2_0, NULL },
};

vr_dtype vr_gguf_dtype(uint32_t id, const char **why)
{
    *why = NULL;
    if (id >= sizeof(types) / sizeof(types[0]))
        return VR_DTYPE_NONE;
    *why = types[id].removed;
    return (vr_dtype)types[id].dtype;
}
