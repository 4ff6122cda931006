/* SPDX-License-Identifier: MIT
 * What names mean. Expectations: huggingface_hub 2.4.0 (utils/_validators.py; hf_file_system.py for hf://),
 * addresses of pages as browsers show them, llama.cpp's -hf, Ollama's documentation. */
#include "io/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MIRROR "https://hub.example.org:8443/hf"

typedef struct row {
    const char *text;
    io_place_kind kind;
    const char *endpoint, *repo, *revision, *file, *quant;
} row;

/* clang-format off */
static const row meant[] = {
    /* names of the hub */
    { "Qwen/Qwen2.5-7B", IO_PLACE_HUB, "", "Qwen/Qwen2.5-7B", "", "", "" },
    { "Qwen/Qwen2.5-7B@v1.0", IO_PLACE_HUB, "", "Qwen/Qwen2.5-7B", "v1.0", "", "" },
    { "Qwen/Qwen2.5-7B@refs/pr/3", IO_PLACE_HUB, "", "Qwen/Qwen2.5-7B", "refs/pr/3", "", "" },
    { "Qwen/Qwen2.5-7B@refs%2Fpr%2F3", IO_PLACE_HUB, "", "Qwen/Qwen2.5-7B", "refs/pr/3", "", "" },
    { "Qwen/Qwen2.5-7B@feature/x", IO_PLACE_HUB, "", "Qwen/Qwen2.5-7B", "feature/x", "", "" },
    { "bartowski/Q-GGUF:Q4_K_M", IO_PLACE_HUB, "", "bartowski/Q-GGUF", "", "", "Q4_K_M" },
    { "bartowski/Q-GGUF:Q4_K_M@main", IO_PLACE_HUB, "", "bartowski/Q-GGUF", "main", "", "Q4_K_M" },
    { "bartowski/Q-GGUF@main:Q4_K_M", IO_PLACE_HUB, "", "bartowski/Q-GGUF", "main", "", "Q4_K_M" },
    { "a/b", IO_PLACE_HUB, "", "a/b", "", "", "" },
    /* hf: */
    { "hf://Qwen/Q", IO_PLACE_HUB, "", "Qwen/Q", "", "", "" },
    { "hf:Qwen/Q", IO_PLACE_HUB, "", "Qwen/Q", "", "", "" },
    { "HF://Qwen/Q/", IO_PLACE_HUB, "", "Qwen/Q", "", "", "" },
    { "hf://models/Qwen/Q", IO_PLACE_HUB, "", "Qwen/Q", "", "", "" },
    { "hf://Qwen/Q/sub/model.safetensors", IO_PLACE_HUB, "", "Qwen/Q", "", "sub/model.safetensors", "" },
    { "hf://Qwen/Q@dev/sub/m.gguf", IO_PLACE_HUB, "", "Qwen/Q", "dev", "sub/m.gguf", "" },
    { "hf://Qwen/Q@refs/pr/3/m.gguf", IO_PLACE_HUB, "", "Qwen/Q", "refs/pr/3", "m.gguf", "" },
    { "hf://Qwen/Q@a%2Fb/m.gguf", IO_PLACE_HUB, "", "Qwen/Q", "a/b", "m.gguf", "" },
    { "hf:gpt2", IO_PLACE_HUB, "", "gpt2", "", "", "" },
    { "hf://gpt2@main", IO_PLACE_HUB, "", "gpt2", "main", "", "" },
    { "hf:Qwen/Q:IQ3_M", IO_PLACE_HUB, "", "Qwen/Q", "", "", "IQ3_M" },
    /* pages of the hub */
    { "https://huggingface.co/Qwen/Q", IO_PLACE_HUB, "", "Qwen/Q", "", "", "" },
    { "https://huggingface.co/Qwen/Q/", IO_PLACE_HUB, "", "Qwen/Q", "", "", "" },
    { "http://huggingface.co/Qwen/Q", IO_PLACE_HUB, "", "Qwen/Q", "", "", "" },
    { "HTTPS://HuggingFace.CO/Qwen/Q", IO_PLACE_HUB, "", "Qwen/Q", "", "", "" },
    { "https://huggingface.co/Qwen/Q?library=vllm#usage", IO_PLACE_HUB, "", "Qwen/Q", "", "", "" },
    { "https://huggingface.co/Qwen/Q/tree/main", IO_PLACE_HUB, "", "Qwen/Q", "main", "", "" },
    { "https://huggingface.co/Qwen/Q/tree/main/fp16/x", IO_PLACE_HUB, "", "Qwen/Q", "main", "fp16/x", "" },
    { "https://huggingface.co/Qwen/Q/tree/refs%2Fpr%2F3", IO_PLACE_HUB, "", "Qwen/Q", "refs/pr/3", "", "" },
    { "https://huggingface.co/Qwen/Q/tree/refs/pr/3/x", IO_PLACE_HUB, "", "Qwen/Q", "refs/pr/3", "x", "" },
    { "https://huggingface.co/Qwen/Q/blob/main/a%20b.gguf", IO_PLACE_HUB, "", "Qwen/Q", "main", "a b.gguf", "" },
    { "https://huggingface.co/Qwen/Q/resolve/0123abc/m.gguf?download=true", IO_PLACE_HUB, "", "Qwen/Q",
      "0123abc", "m.gguf", "" },
    { "https://huggingface.co/Qwen/Q/raw/main/config.json", IO_PLACE_HUB, "", "Qwen/Q", "main", "config.json", "" },
    { "https://huggingface.co/Qwen/Q/commit/0123abc", IO_PLACE_HUB, "", "Qwen/Q", "0123abc", "", "" },
    { "https://huggingface.co/Qwen/Q/discussions/5", IO_PLACE_HUB, "", "Qwen/Q", "", "", "" },
    { "https://huggingface.co/gpt2", IO_PLACE_HUB, "", "gpt2", "", "", "" },
    { "https://huggingface.co/gpt2/tree/main", IO_PLACE_HUB, "", "gpt2", "main", "", "" },
    { "https://huggingface.co/gpt2/resolve/main/m.bin", IO_PLACE_HUB, "", "gpt2", "main", "m.bin", "" },
    { "hf.co/bartowski/Q-GGUF:Q4_K_M", IO_PLACE_HUB, "", "bartowski/Q-GGUF", "", "", "Q4_K_M" },
    { "huggingface.co/Qwen/Q/blob/main/m.gguf", IO_PLACE_HUB, "", "Qwen/Q", "main", "m.gguf", "" },
    { "https://hf-mirror.com/Qwen/Q/tree/main", IO_PLACE_HUB, "https://hf-mirror.com", "Qwen/Q", "main", "", "" },
    { MIRROR "/Qwen/Q/tree/dev", IO_PLACE_HUB, "", "Qwen/Q", "dev", "", "" },
    { MIRROR "/Qwen/Q?x=1", IO_PLACE_HUB, "", "Qwen/Q", "", "", "" },
    /* what is near a mirror is none */
    { "https://hub.example.org:8443/hfx/Qwen/Q", IO_PLACE_URL, "", "", "", "", "" },
    { "https://hub.example.org:8444/hf/Qwen/Q", IO_PLACE_URL, "", "", "", "", "" },
    { "https://huggingface.co.example.org/Qwen/Q", IO_PLACE_URL, "", "", "", "", "" },
    { "https://nothuggingface.co/Qwen/Q", IO_PLACE_URL, "", "", "", "", "" },
    /* ModelScope */
    { "modelscope:Qwen/Q", IO_PLACE_MODELSCOPE, "", "Qwen/Q", "", "", "" },
    { "modelscope://Qwen/Q", IO_PLACE_MODELSCOPE, "", "Qwen/Q", "", "", "" },
    { "modelscope:Qwen/Q@v1", IO_PLACE_MODELSCOPE, "", "Qwen/Q", "v1", "", "" },
    { "modelscope:Qwen/Q:Q4_0", IO_PLACE_MODELSCOPE, "", "Qwen/Q", "", "", "Q4_0" },
    { "https://modelscope.cn/models/Qwen/Q", IO_PLACE_MODELSCOPE, "", "Qwen/Q", "", "", "" },
    { "https://www.modelscope.cn/models/Qwen/Q/summary", IO_PLACE_MODELSCOPE, "", "Qwen/Q", "", "", "" },
    { "https://modelscope.cn/models/Qwen/Q/file/view/master/config.json?status=1", IO_PLACE_MODELSCOPE, "",
      "Qwen/Q", "master", "config.json", "" },
    { "https://modelscope.cn/models/Qwen/Q/resolve/master/m.gguf", IO_PLACE_MODELSCOPE, "", "Qwen/Q", "master",
      "m.gguf", "" },
    { "https://modelscope.ai/models/Qwen/Q/files", IO_PLACE_MODELSCOPE, "https://www.modelscope.ai", "Qwen/Q", "",
      "", "" },
    /* Ollama */
    { "ollama:qwen2.5", IO_PLACE_OLLAMA, "", "library/qwen2.5", "", "", "" },
    { "ollama:qwen2.5:7b-instruct-q4_K_M", IO_PLACE_OLLAMA, "", "library/qwen2.5", "", "", "7b-instruct-q4_K_M" },
    { "ollama:someone/model:1b", IO_PLACE_OLLAMA, "", "someone/model", "", "", "1b" },
    { "ollama://library/llama3", IO_PLACE_OLLAMA, "", "library/llama3", "", "", "" },
    { "ollama:hf.co/bartowski/Q-GGUF:Q4_K_M", IO_PLACE_OLLAMA, "", "hf.co/bartowski/Q-GGUF", "", "", "Q4_K_M" },
    { "ollama:127.0.0.1:5000/library/q:1b", IO_PLACE_OLLAMA, "", "127.0.0.1:5000/library/q", "", "", "1b" },
    { "https://ollama.com/library/qwen2.5:7b", IO_PLACE_OLLAMA, "", "library/qwen2.5", "", "", "7b" },
    { "https://ollama.com/library/qwen2.5/tags", IO_PLACE_OLLAMA, "", "library/qwen2.5", "", "", "" },
    { "https://ollama.com/someone/model", IO_PLACE_OLLAMA, "", "someone/model", "", "", "" },
    { "ollama.com/library/qwen2.5", IO_PLACE_OLLAMA, "", "library/qwen2.5", "", "", "" },
    /* paths, also those that look a little like something else */
    { "model.safetensors", IO_PLACE_PATH, "", "", "", "", "" },
    { "./x/y", IO_PLACE_PATH, "", "", "", "", "" },
    { "../x", IO_PLACE_PATH, "", "", "", "", "" },
    { "/models/x", IO_PLACE_PATH, "", "", "", "", "" },
    { "~/models", IO_PLACE_PATH, "", "", "", "", "" },
    { "models/x/y", IO_PLACE_PATH, "", "", "", "", "" },
    { "models/x/", IO_PLACE_PATH, "", "", "", "", "" },
    { "models/model.gguf", IO_PLACE_PATH, "", "", "", "", "" },
    { "gpt2", IO_PLACE_PATH, "", "", "", "", "" },
    { "qwen2.5:7b", IO_PLACE_PATH, "", "", "", "", "" },
    { "a/b--c", IO_PLACE_PATH, "", "", "", "", "" },
    { "a/b..c", IO_PLACE_PATH, "", "", "", "", "" },
    { "a/-b", IO_PLACE_PATH, "", "", "", "", "" },
    { "a/b c", IO_PLACE_PATH, "", "", "", "", "" },
    { "", IO_PLACE_PATH, "", "", "", "", "" },
    { "/", IO_PLACE_PATH, "", "", "", "", "" },
};

static const char *const refused[] = {
    "https://huggingface.co/datasets/a/b",
    "hf://datasets/a/b",
    "https://huggingface.co/spaces/a/b",
    "https://huggingface.co/collections/a/b",
    "https://huggingface.co/",
    "https://huggingface.co",
    "https://huggingface.co/a/b--c",
    "hf://a/b..c",
    "hf://a/b.git",
    "hf:",
    "hf://a/b@",
    "hf://a/b@x..y",
    "hf://a/b@x%00y",
    "hf://a/b@-x",
    "hf://a/b@%2e%2e",
    "a/b:",
    "a/b:Q4:Q5",
    "a/b@x y",
    "hf://a/b/../c",
    "hf://a/b/%2e%2e/c",
    "hf://a/b/x%5C..%5Cy",
    "hf://a/b/x%2f..%2fc",
    "hf://a/b/c%0ad",
    "https://huggingface.co/a/b/blob/main/%2e%2e/x",
    "https://huggingface.co/a/b/blob/main/x%zz",
    "https://huggingface.co@example.org/a/b",
    "https://user:secret@example.org/x.gguf",
    "https://example.org\\@huggingface.co/a/b",
    "https://example.org/a b",
    "https://example.org/a\nb",
    "https://example.org/\xc3\xa4",
    "https://example.org/../x",
    "https://example.org/%2e%2e/x",
    "https://example.org:0/x",
    "https://example.org:99999/x",
    "https://example.org:x/x",
    "https:///x",
    "https://",
    "https://[::1/x",
    "https://-x/y",
    "ftp://example.org/x",
    "s3://bucket/x",
    "file:///x",
    "ollama:",
    "ollama:a/b/c/d",
    "ollama:../x",
    "ollama:../x/y",
    "ollama:./x/y",
    "ollama:a..b/x/y",
    "ollama:x@sha256:00",
    "https://ollama.com/search",
    "https://ollama.com/blog/x",
    "https://modelscope.cn/datasets/a/b",
    "modelscope:a",
    "modelscope:a/../b",
};
/* clang-format on */

static void test_meant(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(meant) / sizeof(meant[0]); i++) {
        const row *r = &meant[i];
        const char *why = "x";
        io_place p;
        if (!io_place_parse(&p, r->text, MIRROR "/", &why))
            fail_msg("%s: %s", r->text, why);
        assert_null(why);
        if (p.kind != r->kind || strcmp(p.endpoint, r->endpoint) != 0 || strcmp(p.repo, r->repo) != 0 ||
            strcmp(p.revision, r->revision) != 0 || strcmp(p.file, r->file) != 0 ||
            strcmp(p.quant, r->quant) != 0)
            fail_msg("%s: %d endpoint '%s' repo '%s' revision '%s' file '%s' quant '%s'", r->text,
                     (int)p.kind, p.endpoint, p.repo, p.revision, p.file, p.quant);
        if (p.kind == IO_PLACE_URL)
            assert_string_equal(p.url, r->text);
        else
            assert_string_equal(p.url, "");
    }
}

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const char *why = NULL;
        io_place p;
        if (io_place_parse(&p, refused[i], NULL, &why))
            fail_msg("%s: not refused: %d '%s' '%s' '%s' '%s'", refused[i], (int)p.kind, p.repo, p.revision,
                     p.file, p.url);
        assert_non_null(why);
        assert_null(strstr(why, "secret"));
    }
}

static void test_url(void **state)
{
    const char *why = NULL;
    io_place p;
    (void)state;
    assert_true(
        io_place_parse(&p, "https://example.org:8443/a/m.gguf?X-Amz-Signature=0%2F1#top", NULL, &why));
    assert_int_equal(p.kind, IO_PLACE_URL);
    assert_string_equal(p.url, "https://example.org:8443/a/m.gguf?X-Amz-Signature=0%2F1");
    assert_true(io_place_parse(&p, "http://[::1]:80/m", NULL, &why));
    assert_int_equal(p.kind, IO_PLACE_URL);
    assert_string_equal(p.url, "http://[::1]:80/m");
}

/* At each length a name can have: the place takes it whole, or it is refused or a path. */
static void test_lengths(void **state)
{
    static char text[12000];
    static const char *const begins[] = { "hf://a/b@", "hf://a/b/",     "a/b:",
                                          "a/",        "a/b@",          "https://h/",
                                          "ollama:",   "modelscope:a/", "https://huggingface.co/a/",
                                          "",          "https://" };
    (void)state;
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        size_t n = strlen(begins[i]);
        memcpy(text, begins[i], n + 1);
        for (; n < 10000; n++) {
            const char *why = NULL;
            io_place p;
            text[n] = 'x';
            text[n + 1] = '\0';
            bool taken = io_place_parse(&p, text, NULL, &why);
            assert_true(taken == (why == NULL));
            const char *tail = p.url[0] != '\0'        ? p.url
                               : p.quant[0] != '\0'    ? p.quant
                               : p.file[0] != '\0'     ? p.file
                               : p.revision[0] != '\0' ? p.revision
                                                       : p.repo;
            tail = strrchr(tail, '/') != NULL ? strrchr(tail, '/') + 1 : tail;
            size_t k = strlen(tail);
            if (taken && p.kind != IO_PLACE_PATH)
                assert_true(k <= n + 1 && strcmp(text + n + 1 - k, tail) == 0);
            if (n > 5000)
                assert_true(!taken || p.kind == IO_PLACE_PATH);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_meant), cmocka_unit_test(test_refused),
                                        cmocka_unit_test(test_url), cmocka_unit_test(test_lengths) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
