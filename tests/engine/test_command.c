/* SPDX-License-Identifier: MIT
 * What one types: the command line of llama.cpp, settings beside those that were given, and the values that
 * can be sought. */
#include "engine/options.h"
#include "made.h"

typedef struct bench {
    hook h;
    vram_ctx *ctx;
    vram_workload *given, *w;
    vram_checkpoint ck;
    vr_file file;
    vram_model m;
    vr_arena a;
} bench;

static void open_bench(bench *b, const char *name, const char *read_from, const char *file)
{
    memset(b, 0, sizeof(*b));
    assert_int_equal(vram_open(&b->ctx, hook_alloc, &b->h), VRAM_OK);
    vr_arena_init(&b->a, b->ctx);
    assert_int_equal(vram_workload_new(&b->given, b->ctx, "llama.cpp"), VRAM_OK);
    b->file = (vr_file){ .name = file };
    b->ck = (vram_checkpoint){
        .ctx = b->ctx, .name = name, .read_from = read_from, .files = &b->file, .n_files = 1
    };
    b->m = (vram_model){
        .ctx = b->ctx, .gguf = true, .checkpoint = &b->ck, .n_layers = 32, .max_context = 32768
    };
}

static void close_bench(bench *b)
{
    vr_arena_free(&b->a);
    vram_close(b->ctx);
    assert_int_equal(b->h.live_bytes, 0);
}

static const vram_workload *resolve(bench *b)
{
    b->given->prepared = &b->m; /* the file itself is not read */
    assert_int_equal(vr_workload_resolve(&b->w, b->given, &b->m, &b->a), VRAM_OK);
    return b->w;
}

static const char *command(bench *b)
{
    return vr_llamacpp_command(&b->m, resolve(b), &b->a);
}

static void models(void **state)
{
    static const struct {
        const char *name, *read_from, *file, *words;
    } rows[] = {
        { "dir/m.gguf", NULL, "m.gguf", "-m dir/m.gguf" },
        { "dir", NULL, "m-00001-of-00002.gguf", "-m dir/m-00001-of-00002.gguf" },
        { "dir/", NULL, "sub/m.gguf", "-m dir/sub/m.gguf" },
        { "my model.gguf", NULL, "my model.gguf", "-m 'my model.gguf'" },
        { "it's.gguf", NULL, "it's.gguf", "-m 'it'\\''s.gguf'" },
        { "$(x).gguf", NULL, "$(x).gguf", "-m '$(x).gguf'" },
        { "org/name", "huggingface.co, commit 0123456", "m-Q4_K_M.gguf", "-hf org/name -hff m-Q4_K_M.gguf" },
        { "org/name", "/cache/hub/models--org--name", "a b.gguf", "-hf org/name -hff 'a b.gguf'" },
        { "org/name", "modelscope.cn", "m.gguf", "-m m.gguf" },
        { "qwen2.5:14b", "Ollama's store", "sha256-0123", "-m sha256-0123" },
        { "org/name", NULL, "m.gguf", "-m org/name/m.gguf" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bench b;
        open_bench(&b, rows[i].name, rows[i].read_from, rows[i].file);
        const char *all = command(&b), *head = "llama-server ";
        assert_non_null(all);
        size_t n = strlen(head), k = strlen(rows[i].words);
        if (strncmp(all, head, n) != 0 || strncmp(all + n, rows[i].words, k) != 0 || all[n + k] != ' ')
            fail_msg("%s: %s", rows[i].words, all);
        close_bench(&b);
    }
    bench b;
    open_bench(&b, "org/name", NULL, "model.safetensors");
    b.m.gguf = false;
    assert_string_equal(command(&b), "llama-server -m MODEL.gguf -ngl 99 -c 4096");
    close_bench(&b);
}

static void settings(void **state)
{
    static const struct {
        const char *set[8]; /* key, value, ... */
        uint64_t layers;
        const char *words;
    } rows[] = {
        { { NULL }, 32, "-ngl 99 -c 4096" },
        { { NULL }, 120, "-ngl 121 -c 4096" },
        { { "n_gpu_layers", "12" }, 32, "-ngl 12 -c 4096" },
        { { "n_gpu_layers", "all" }, 32, "-ngl 99 -c 4096" },
        { { "sequences", "3", "context", "8192" }, 32, "-ngl 99 -c 24576 -np 3" },
        { { "n_ctx", "10000", "sequences", "3" }, 32, "-ngl 99 -c 10000 -np 3" },
        { { "cache_type_k", "q8_0", "cache_type_v", "q8_0", "kv_unified", "", "ubatch_size", "128" },
          32,
          "-ngl 99 -c 4096 -ctk q8_0 -ctv q8_0 -ub 128 -kvu" },
        { { "tensor_split", "20,13", "n_cpu_moe", "4" }, 32, "-ngl 99 -c 4096 -ts 20,13 -ncmoe 4" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bench b;
        open_bench(&b, "m.gguf", NULL, "m.gguf");
        b.m.n_layers = rows[i].layers;
        for (size_t k = 0; k < 8 && rows[i].set[k] != NULL; k += 2)
            assert_int_equal(vram_workload_set(b.given, rows[i].set[k], rows[i].set[k + 1]), VRAM_OK);
        const char *all = command(&b), *head = "llama-server -m m.gguf ";
        assert_int_equal(strncmp(all, head, strlen(head)), 0);
        assert_string_equal(all + strlen(head), rows[i].words);
        close_bench(&b);
    }
}

static void beside(void **state)
{
    bench b;
    (void)state;
    open_bench(&b, "m.gguf", NULL, "m.gguf");
    assert_int_equal(vram_workload_set(b.given, "context", "8192"), VRAM_OK);
    assert_string_equal(vr_workload_typed_beside(resolve(&b), b.given, &b.a), "");
    vram_workload *more = vr_workload_copy(b.given, &b.a), *w;
    assert_int_equal(vram_workload_set(more, "context", "4096"), VRAM_OK);
    assert_int_equal(vram_workload_set(more, "n_gpu_layers", "7"), VRAM_OK);
    assert_int_equal(vr_workload_resolve(&w, more, &b.m, &b.a), VRAM_OK);
    assert_string_equal(vr_workload_typed_beside(w, b.given, &b.a), "-c 4096 -ngl 7");
    close_bench(&b);
}

/* What there is to seek, and that the value a run has is one of them. */
static void values(void **state)
{
    const vr_solvable *of = &vr_solvable_llamacpp;
    bench b;
    (void)state;
    open_bench(&b, "m.gguf", NULL, "m.gguf");
    const vram_workload *w = resolve(&b);
    assert_int_equal(of->count(VR_GOAL_LAYERS, &b.m, w), 34);
    assert_int_equal(of->own(VR_GOAL_LAYERS, &b.m, w), 33);
    assert_int_equal(of->count(VR_GOAL_CONTEXT, &b.m, w), 128);
    assert_int_equal(of->number(VR_GOAL_CONTEXT, of->own(VR_GOAL_CONTEXT, &b.m, w), &b.m, w), 4096);
    assert_int_equal(of->count(VR_GOAL_EXPERTS, &b.m, w), 0);
    assert_int_equal(of->count(VR_GOAL_CACHE, &b.m, w), 3);
    assert_int_equal(of->own(VR_GOAL_CACHE, &b.m, w), 2);
    assert_int_equal(of->count(VR_GOAL_UBATCH, &b.m, w), 6); /* 64 to 2,048 */
    assert_int_equal(of->number(VR_GOAL_UBATCH, of->own(VR_GOAL_UBATCH, &b.m, w), &b.m, w), 512);
    assert_true(of->own(VR_GOAL_SEQUENCES, &b.m, w) == UINT64_MAX); /* the server's slots */
    assert_int_equal(of->count(VR_GOAL_SPLIT, &b.m, w), 1);
    b.m.experts = 8;
    assert_int_equal(of->count(VR_GOAL_EXPERTS, &b.m, w), 33);
    assert_int_equal(of->own(VR_GOAL_EXPERTS, &b.m, w), 32);
    assert_int_equal(of->number(VR_GOAL_EXPERTS, 32, &b.m, w), 0);
    b.m.n_layers = UINT64_MAX; /* a file may say anything */
    assert_int_equal(of->count(VR_GOAL_LAYERS, &b.m, w), 0);
    close_bench(&b);
    open_bench(&b, "m.gguf", NULL, "m.gguf");
    assert_int_equal(vram_workload_set(b.given, "tensor_split", "1,1"), VRAM_OK);
    assert_int_equal(vram_workload_set(b.given, "context", "5000"), VRAM_OK);
    assert_int_equal(vram_workload_set(b.given, "engine_version", "b4000"), VRAM_OK);
    b.m.experts = 8;
    w = resolve(&b);
    assert_int_equal(of->count(VR_GOAL_SPLIT, &b.m, w), 0); /* it is given */
    assert_true(of->own(VR_GOAL_CONTEXT, &b.m, w) == UINT64_MAX);
    assert_int_equal(of->count(VR_GOAL_EXPERTS, &b.m, w), 0); /* there was no such option */
    b.m.gguf = false;
    assert_int_equal(of->count(VR_GOAL_LAYERS, &b.m, w), 0);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models),
        cmocka_unit_test(settings),
        cmocka_unit_test(beside),
        cmocka_unit_test(values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
