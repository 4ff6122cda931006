/* SPDX-License-Identifier: MIT
 * The engines as such: their versions, which settings each has, what one lacks, and their shares of a card.
 */
#include "engine/options.h"
#include "made.h"

static void names(void **state)
{
    size_t n;
    const vr_engine *const *engines = vr_engines(&n);
    vr_str rest = vr_str_of(VR_ENGINE_NAMES), word;
    (void)state;
    assert_ptr_equal(engines[0], &vr_engine_transformers);
    for (size_t i = 0; i < n; i++) {
        assert_true(vr_str_split(&rest, '|', &word));
        assert_true(vr_str_is(word, engines[i]->name));
        assert_ptr_equal(vr_engine_find(word), engines[i]);
    }
    assert_false(vr_str_split(&rest, '|', &word));
    assert_null(vr_engine_find(VR_LIT(VR_ALL_ENGINES)));
}

static void versions(void **state)
{
    static const struct {
        const char *engine, *given, *shown; /* shown NULL: refused */
    } rows[] = {
        { "vllm", "0.27.1", "0.27" },
        { "vllm", "v0.11", "0.11" },
        { "vllm", "0.10", NULL },
        { "vllm", "new", NULL },
        { "sglang", "0.5.18", "0.5" },
        { "sglang", "0.4", NULL },
        { "sglang", "x", NULL },
        { "llama.cpp", "b9000", "b9000" },
        { "llama.cpp", "10470", "b10470" },
        { "llama.cpp", "b1957", "b1957" },
        { "llama.cpp", "b1956", NULL },
        { "llama.cpp", "b99999", NULL },
        { "llama.cpp", "master", NULL },
        { "llama.cpp", "1.2", NULL },
        { "llama.cpp", "v0.5.0", "v0.5.0" },
        { "llama.cpp", "0.5", "v0.5.0" },
        { "llama.cpp", "0.5.0-dev", "v0.5.0-dev" },
        { "llama.cpp", "v0.8.0", "v0.8.0" },
        { "llama.cpp", "0.0", NULL },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world w;
        open_world(&w, &small_llama);
        set(&w, "engine", rows[i].engine);
        vram_status s = vram_workload_set(w.w, "engine_version", rows[i].given);
        assert_int_equal(s, rows[i].shown != NULL ? VRAM_OK : VRAM_ESETTING);
        if (rows[i].shown != NULL)
            assert_string_equal(vr_workload_value(w.w, VR_SET_ENGINE_VERSION, &w.ctx->arena), rows[i].shown);
        close_world(&w);
    }
}

/* What each has reads back as it was given, and another engine's option is wrong usage. */
static void settings(void **state)
{
    static const struct {
        const char *engine, *key, *value, *shown; /* shown NULL: refused */
        vr_setting setting;
    } rows[] = {
        { "vllm", "gpu_memory_utilization", "0.85", "0.85", VR_SET_UTILIZATION },
        { "vllm", "gpu_memory_utilization", "1", "1.0", VR_SET_UTILIZATION },
        { "vllm", "gpu_memory_utilization", "0.925", "0.925", VR_SET_UTILIZATION },
        { "vllm", "gpu_memory_utilization", "0", NULL, VR_SET_UTILIZATION },
        { "vllm", "gpu_memory_utilization", "1.1", NULL, VR_SET_UTILIZATION },
        { "vllm", "gpu_memory_utilization", "0.00001", NULL, VR_SET_UTILIZATION },
        { "vllm", "gpu_memory_utilization", "0.92345", NULL, VR_SET_UTILIZATION },
        { "vllm", "max_num_batched_tokens", "8K", "8192", VR_SET_BATCHED_TOKENS },
        { "vllm", "block_size", "32", "32", VR_SET_BLOCK_SIZE },
        { "vllm", "block_size", "0", NULL, VR_SET_BLOCK_SIZE },
        { "vllm", "disable_hybrid_kv_cache_manager", "", "on", VR_SET_NO_HYBRID },
        { "vllm", "disable_hybrid_kv_cache_manager", "maybe", NULL, VR_SET_NO_HYBRID },
        { "vllm", "mamba_cache_mode", "none", "none", VR_SET_MAMBA_MODE },
        { "vllm", "mamba_cache_mode", "all", NULL, VR_SET_MAMBA_MODE },
        { "vllm", "kv_cache_dtype", "fp8_e4m3", "fp8", VR_SET_KV_DTYPE },
        { "vllm", "kv_cache_dtype", "q8_0", NULL, VR_SET_KV_DTYPE },
        { "vllm", "dtype", "half", "fp16", VR_SET_DTYPE },
        { "vllm", "cache_type_k", "f16", NULL, VR_SET_CACHE_TYPE_K },
        { "vllm", "device_map", "auto", NULL, VR_SET_DEVICE_MAP },
        { "sglang", "mem_fraction_static", "0.8", "0.8", VR_SET_STATIC_SHARE },
        { "sglang", "swa_full_tokens_ratio", "0.005", "0.005", VR_SET_SWA_RATIO },
        { "sglang", "disable_radix_cache", "", "on", VR_SET_NO_RADIX },
        { "sglang", "kv_cache_dtype", "fp16", NULL, VR_SET_KV_DTYPE },
        { "sglang", "gpu_memory_utilization", "0.8", NULL, VR_SET_UTILIZATION },
        { "llama.cpp", "cache_type_k", "q4_0", "q4_0", VR_SET_CACHE_TYPE_K },
        { "llama.cpp", "cache_type_v", "q6_K", NULL, VR_SET_CACHE_TYPE_V },
        { "llama.cpp", "n_gpu_layers", "all", "all", VR_SET_GPU_LAYERS },
        { "llama.cpp", "n_gpu_layers", "-1", "all", VR_SET_GPU_LAYERS },
        { "llama.cpp", "n_gpu_layers", "0", "0", VR_SET_GPU_LAYERS },
        { "llama.cpp", "n_gpu_layers", "some", NULL, VR_SET_GPU_LAYERS },
        { "llama.cpp", "ubatch_size", "1024", "1024", VR_SET_UBATCH },
        { "llama.cpp", "swa_full", "", "on", VR_SET_SWA_FULL },
        { "llama.cpp", "kv_unified", "off", "off", VR_SET_KV_UNIFIED },
        { "llama.cpp", "no_kv_offload", "", "on", VR_SET_NO_KV_OFFLOAD },
        { "llama.cpp", "dtype", "bf16", NULL, VR_SET_DTYPE },
        { "llama.cpp", "kv_cache_dtype", "auto", NULL, VR_SET_KV_DTYPE },
        { "transformers", "swa_full", "", NULL, VR_SET_SWA_FULL },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world w;
        vram_workload *r;
        open_world(&w, &small_llama);
        set(&w, "engine", rows[i].engine);
        vram_status s = vram_workload_set(w.w, rows[i].key, rows[i].value);
        assert_int_equal(s, rows[i].shown != NULL ? VRAM_OK : VRAM_ESETTING);
        if (rows[i].shown != NULL) {
            assert_int_equal(vr_workload_resolve(&r, w.w, w.m, &w.ctx->arena), VRAM_OK);
            assert_string_equal(vr_workload_value(r, rows[i].setting, &w.ctx->arena), rows[i].shown);
        }
        close_world(&w);
    }
}

/* While no engine is named an option of any may be set; the one that is taken then has it or not. */
static void named_later(void **state)
{
    world w;
    vram_workload *r;
    (void)state;
    open_world(&w, &small_llama);
    set(&w, "cache_type_k", "q8_0");
    assert_int_equal(vr_workload_resolve(&r, w.w, w.m, &w.ctx->arena), VRAM_ESETTING);
    assert_non_null(strstr(vram_last_error(w.ctx)->text, "--cache-type-k is an option of llama.cpp"));
    w.m->gguf = true;
    assert_int_equal(vr_workload_resolve(&r, w.w, w.m, &w.ctx->arena), VRAM_OK);
    assert_ptr_equal(r->engine, &vr_engine_llamacpp);
    assert_int_equal(r->cache_k, VR_Q8_0);
    assert_int_equal(r->cache_v, VR_F16);
    close_world(&w);
    open_world(&w, &small_llama);
    set(&w, "kv_cache_dtype", "fp8");
    assert_int_equal(vr_workload_resolve(&r, w.w, w.m, &w.ctx->arena), VRAM_ESETTING);
    assert_non_null(strstr(vram_last_error(w.ctx)->text, "only auto is known"));
    close_world(&w);
}

static void shares(void **state)
{
    static const struct {
        const vr_engine *engine;
        const char *version;
        uint64_t gib;
        uint32_t share;
    } rows[] = {
        { &vr_engine_vllm, "0.20", 24, 900 },
        { &vr_engine_vllm, "0.21", 24, 920 },
        /* 512 + 1.5 x 2048 + 2 x 24 + 128 + 8 x 42 MiB set aside of 24,576 */
        { &vr_engine_sglang, "0.5", 24, 833 },
        { &vr_engine_sglang, "0.5", 80, 830 },  /* 512 + 12288 + 512 + 128 + 464 = 13,904 of 81,920 */
        { &vr_engine_sglang, "0.5", 180, 854 }, /* 512 + 24576 + 1024 + 128 + 592 = 26,832 of 184,320 */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world w;
        open_world(&w, &small_llama);
        set(&w, "engine", rows[i].engine->name);
        set(&w, "engine_version", rows[i].version);
        assert_int_equal(rows[i].engine->share(w.w, rows[i].gib * VR_GIB), rows[i].share);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),       cmocka_unit_test(versions), cmocka_unit_test(settings),
        cmocka_unit_test(named_later), cmocka_unit_test(shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
