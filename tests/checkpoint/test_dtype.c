/* SPDX-License-Identifier: MIT
 * Element types against the table of the format's own reader and of PyTorch. */
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
    assert_int_equal(n, VR_DTYPE_COUNT - 1);
    for (size_t i = 0; i < n; i++) {
        vr_dtype t = VR_DTYPE_NONE;
        assert_true(vr_dtype_from_safetensors(vr_str_of(published[i].name), &t));
        assert_int_equal(vr_dtype_bits(t), published[i].bits);
        assert_string_equal(vr_dtype_name(t), published[i].name);
        /* the names of floating types all begin with F, BF or C */
        assert_int_equal(vr_dtype_floating(t), strchr("FC", published[i].name[0]) != NULL ||
                                                   strcmp(published[i].name, "BF16") == 0);
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
    /* Every name of the format is a word too. */
    for (int i = VR_DTYPE_NONE + 1; i < VR_DTYPE_COUNT; i++) {
        vr_dtype t = VR_DTYPE_NONE;
        assert_true(vr_dtype_from_word(vr_str_of(vr_dtype_name((vr_dtype)i)), &t));
        assert_int_equal(t, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
