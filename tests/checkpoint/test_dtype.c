/* SPDX-License-Identifier: MIT
 * Element types against the table of the format's own reader, of PyTorch, and against the blocks of ggml. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/dtype.h"

/* huggingface/safetensors 0.8, safetensors/src/tensor.rs: enum Dtype and bitsize(). */
static const struct {
    const char *name;
    unsigned bits;
} published[] = {
    { "BOOL", 8 },        { "F4", 4 },      { "F6_E2M3", 6 }, { "F6_E3M2", 6 }, { "U8", 8 },
    { "I8", 8 },          { "F8_E5M2", 8 }, { "F8_E4M3", 8 }, { "F8_E8M0", 8 }, { "F8_E4M3FNUZ", 8 },
    { "F8_E5M2FNUZ", 8 }, { "I16", 16 },    { "U16", 16 },    { "F16", 16 },    { "BF16", 16 },
    { "I32", 32 },        { "U32", 32 },    { "F32", 32 },    { "C64", 64 },    { "F64", 64 },
    { "I64", 64 },        { "U64", 64 },
};

static void test_published(void **state)
{
    (void)state;
    size_t n = sizeof(published) / sizeof(published[0]);
    assert_int_equal(n, VR_TORCH_FIRST - 1);
    for (size_t i = 0; i < n; i++) {
        vr_dtype t = VR_DTYPE_NONE;
        assert_true(vr_dtype_from_safetensors(vr_str_of(published[i].name), &t));
        assert_int_equal(vr_dtype_bits(t), published[i].bits);
        assert_int_equal(vr_dtype_block(t) * published[i].bits, vr_dtype_block_bytes(t) * 8);
        assert_false(vr_dtype_ggml(t));
        assert_string_equal(vr_dtype_name(t), published[i].name);
        /* the names of floating types all begin with F, BF or C */
        assert_int_equal(vr_dtype_floating(t), strchr("FC", published[i].name[0]) != NULL ||
                                                   strcmp(published[i].name, "BF16") == 0);
    }
}

/* The parts of each block as llama.cpp, ggml/src/ggml-common.h has them (build 10470): QK_K 256, K_SCALE_SIZE
 * 12, ggml_half 2 bytes. Blocks are packed: static_assert there. */
enum { HALF = 2, QK_K = 256, SCALES = 12 };

static const struct block {
    vr_dtype type;
    const char *name;
    unsigned elements;
    unsigned parts[5]; /* bytes of scales, minima, signs, high bits, low bits; 0: no more */
} blocks[] = {
    { VR_Q1_0, "Q1_0", 128, { HALF, 128 / 8 } },
    { VR_Q2_0, "Q2_0", 64, { HALF, 64 / 4 } },
    { VR_Q4_0, "Q4_0", 32, { HALF, 32 / 2 } },
    { VR_Q4_1, "Q4_1", 32, { HALF, HALF, 32 / 2 } },
    { VR_Q5_0, "Q5_0", 32, { HALF, 32 / 8, 32 / 2 } },
    { VR_Q5_1, "Q5_1", 32, { HALF, HALF, 32 / 8, 32 / 2 } },
    { VR_Q8_0, "Q8_0", 32, { HALF, 32 } },
    { VR_Q8_1, "Q8_1", 32, { HALF, HALF, 32 } },
    { VR_MXFP4, "MXFP4", 32, { 1, 32 / 2 } },                                     /* E8M0 scale */
    { VR_NVFP4, "NVFP4", 64, { 64 / 16, 64 / 2 } },                               /* UE4M3 scale of 16 */
    { VR_TQ1_0, "TQ1_0", QK_K, { (QK_K - 4 * QK_K / 64) / 5, QK_K / 64, HALF } }, /* 5 trits a byte */
    { VR_TQ2_0, "TQ2_0", QK_K, { QK_K / 4, HALF } },
    { VR_Q2_K, "Q2_K", QK_K, { QK_K / 16, QK_K / 4, HALF, HALF } },
    { VR_Q3_K, "Q3_K", QK_K, { QK_K / 8, QK_K / 4, 12, HALF } },
    { VR_Q4_K, "Q4_K", QK_K, { HALF, HALF, SCALES, QK_K / 2 } },
    { VR_Q5_K, "Q5_K", QK_K, { HALF, HALF, SCALES, QK_K / 8, QK_K / 2 } },
    { VR_Q6_K, "Q6_K", QK_K, { QK_K / 2, QK_K / 4, QK_K / 16, HALF } },
    { VR_Q8_K, "Q8_K", QK_K, { 4, QK_K, 2 * QK_K / 16 } }, /* float, sums of 16 */
    { VR_IQ2_XXS, "IQ2_XXS", QK_K, { HALF, 2 * QK_K / 8 } },
    { VR_IQ2_XS, "IQ2_XS", QK_K, { HALF, 2 * QK_K / 8, QK_K / 32 } },
    { VR_IQ2_S, "IQ2_S", QK_K, { HALF, QK_K / 4, QK_K / 32, QK_K / 32 } },
    { VR_IQ3_XXS, "IQ3_XXS", QK_K, { HALF, 3 * QK_K / 8 } },
    { VR_IQ3_S, "IQ3_S", QK_K, { HALF, QK_K / 4, QK_K / 32, QK_K / 8, QK_K / 64 } },
    { VR_IQ1_S, "IQ1_S", QK_K, { HALF, QK_K / 8, 2 * QK_K / 32 } },
    { VR_IQ1_M, "IQ1_M", QK_K, { QK_K / 8, QK_K / 16, QK_K / 32 } }, /* its scale is in the scales' bits */
    { VR_IQ4_NL, "IQ4_NL", 32, { HALF, 32 / 2 } },
    { VR_IQ4_XS, "IQ4_XS", QK_K, { HALF, 2, QK_K / 64, QK_K / 2 } },
};

static void test_blocks(void **state)
{
    (void)state;
    size_t n = sizeof(blocks) / sizeof(blocks[0]);
    assert_int_equal(n, VR_DTYPE_COUNT - VR_GGML_FIRST);
    for (size_t i = 0; i < n; i++) {
        const struct block *b = &blocks[i];
        unsigned bytes = 0;
        vr_dtype t = VR_DTYPE_NONE;
        for (size_t k = 0; k < 5; k++)
            bytes += b->parts[k];
        assert_string_equal(vr_dtype_name(b->type), b->name);
        assert_int_equal(vr_dtype_block(b->type), b->elements);
        assert_int_equal(vr_dtype_block_bytes(b->type), bytes);
        assert_true(vr_dtype_ggml(b->type));
        assert_int_equal(vr_dtype_bits(b->type), 0);
        assert_false(vr_dtype_floating(b->type));
        assert_false(vr_dtype_from_safetensors(vr_str_of(b->name), &t)); /* no such dtype there */
    }
}

static void test_unknown(void **state)
{
    (void)state;
    static const char *const names[] = { "", "F", "F3", "f32", "F32 ", "BF1", "?", "F8_E4M3FN", "BOOL8" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        vr_dtype t = VR_BOOL;
        assert_false(vr_dtype_from_safetensors(vr_str_of(names[i]), &t));
        assert_int_equal(t, VR_BOOL);
    }
    assert_string_equal(vr_dtype_name(VR_DTYPE_NONE), "?");
    assert_string_equal(vr_dtype_name(VR_DTYPE_COUNT), "?");
    assert_int_equal(vr_dtype_bits(VR_DTYPE_COUNT), 0);
    assert_false(vr_dtype_floating(VR_DTYPE_NONE));
}

static void test_words(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        vr_dtype type;
    } words[] = {
        { "bfloat16", VR_BF16 },
        { "bf16", VR_BF16 },
        { "torch.bfloat16", VR_BF16 },
        { "half", VR_F16 },
        { "fp16", VR_F16 },
        { "float16", VR_F16 },
        { "float32", VR_F32 },
        { "FLOAT32", VR_F32 },
        { "Torch.Float", VR_F32 },
        { "torch.float8_e4m3fn", VR_F8_E4M3 },
        { "float64", VR_F64 },
        { "int8", VR_I8 },
        { "uint8", VR_U8 },
        { "torch.long", VR_I64 },
        { "BF16", VR_BF16 },
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        vr_dtype t = VR_DTYPE_NONE;
        assert_true(vr_dtype_from_word(vr_str_of(words[i].word), &t));
        assert_int_equal(t, words[i].type);
    }
    static const char *const wrong[] = {
        "", "torch.", "auto", "bf16 ", "float3", "int4", "torch.torch.half"
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        vr_dtype t = VR_DTYPE_NONE;
        assert_false(vr_dtype_from_word(vr_str_of(wrong[i]), &t));
    }
    /* Every name of safetensors is a word too; quantised types are nothing to load in. */
    for (int i = VR_DTYPE_NONE + 1; i < VR_TORCH_FIRST; i++) {
        vr_dtype t = VR_DTYPE_NONE;
        assert_true(vr_dtype_from_word(vr_str_of(vr_dtype_name((vr_dtype)i)), &t));
        assert_int_equal(t, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
