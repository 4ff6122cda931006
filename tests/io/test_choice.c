/* SPDX-License-Identifier: MIT
 * Which files of a repository are meant. */
#include "io/choice.h"

#include "../support/hook.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {
    "README.md",
    "config.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model-00001-of-00003.safetensors",
    "model.safetensors.index.json",
    "model.fp16.safetensors.index.json",
    "other-00001-of-00002.safetensors",
    "pytorch_model.bin",
    "unet/config.json",
    "unet/model.safetensors",
    "unet2/model.safetensors",
    "m-Q8_0.gguf",
    "m-Q4_0.gguf",
};
#define N (sizeof(names) / sizeof(names[0]))

/* What is taken, one letter a file: '.' no, '+' as it is, '-' without the folder. */
static const char *taken(const char *file)
{
    static char out[N + 1];
    hook h = { 0 };
    vram_ctx *ctx = NULL;
    io_choice c = { .file = file };
    assert_int_equal(vram_open(&ctx, hook_alloc, &h), VRAM_OK);
    vram_status s = io_choice_make(&c, ctx, "place", names, N);
    assert_true(s == VRAM_OK || s == VRAM_ENOTFOUND);
    assert_true(s == VRAM_OK || vram_last_error(ctx)->hint != NULL);
    vram_close(ctx);
    for (size_t i = 0; i < N; i++) {
        const char *name = s == VRAM_OK ? io_choice_name(&c, names[i]) : NULL;
        out[i] = name == NULL ? '.' : strcmp(name, names[i]) == 0 ? '+' : '-';
    }
    return s == VRAM_OK ? out : "none";
}

static void test_files(void **state)
{
    (void)state;
    assert_string_equal(taken(""), "++++++++++++++");
    assert_string_equal(taken("pytorch_model.bin"), ".+......+.....");
    assert_string_equal(taken("model-00002-of-00002.safetensors"), ".+++.++.......");
    assert_string_equal(taken("model.safetensors.index.json"), "+++++++++...++");
    assert_string_equal(taken("unet"), ".........--...");
    assert_string_equal(taken("unet/model.safetensors"), ".........--...");
    assert_string_equal(taken("config.json"), ".+............");
    assert_string_equal(taken("un"), "none");
    assert_string_equal(taken("unet/model"), "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_files) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
