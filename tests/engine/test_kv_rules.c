/* SPDX-License-Identifier: MIT
 * What each kind of layer keeps, engine by engine, on layers made by hand. Figures of vLLM are worked through
 * by the formulas of its sources and agree with logs of real servers (knowledge of cases in vllm_cases.py);
 * those of llama.cpp with its own allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "engine/options.h"
#include "engine/vllm_cache.h"

#define MOST 128

typedef struct made {
    hook h;
    vram_ctx *ctx;
    vram_checkpoint ck;
    vram_model m;
    vr_layer layers[MOST];
    vram_workload w;
    vr_arena a;
} made;

static void make(made *x, const vr_engine *e, uint64_t context, uint64_t sequences)
{
    memset(x, 0, sizeof *x);
    assert_int_equal(vram_open(&x->ctx, hook_alloc, &x->h), VRAM_OK);
    vr_arena_init(&x->a, x->ctx);
    x->m = (vram_model){ .ctx = x->ctx, .checkpoint = &x->ck, .layers = x->layers, .kv_known = true };
    x->m.dtype = VR_BF16;
    x->w = (vram_workload){ .ctx = x->ctx, .engine = e, .context = context, .sequences = sequences };
    x->w.dtype = VR_BF16;
    assert_int_equal(e->version(&x->w, vr_str_of(e->default_version)), VRAM_OK);
    assert_int_equal(e->defaults(&x->w, &x->m), VRAM_OK);
}

static void unmake(made *x)
{
    vr_arena_free(&x->a);
    vram_close(x->ctx);
    assert_int_equal(x->h.live_bytes, 0);
}

static void add(made *x, size_t n, vr_layer l)
{
    assert_true(x->m.n_layers + n <= MOST);
    l.key_elements = (uint64_t)l.kv_heads * l.key_dim;
    l.value_elements = (uint64_t)l.kv_heads * l.value_dim;
    for (size_t i = 0; i < n; i++)
        x->layers[x->m.n_layers++] = l;
}

#define FULL(kv, d)                                                                                          \
    ((vr_layer){ .attention = VR_ATTENTION_FULL, .kv_heads = (kv), .key_dim = (d), .value_dim = (d) })
#define SLIDING(kv, d, w)                                                                                    \
    ((vr_layer){ .attention = VR_ATTENTION_SLIDING,                                                          \
                 .window = (w),                                                                              \
                 .kv_heads = (kv),                                                                           \
                 .key_dim = (d),                                                                             \
                 .value_dim = (d) })
#define LATENT(c, r)                                                                                         \
    ((vr_layer){ .attention = VR_ATTENTION_LATENT,                                                           \
                 .heads = 128,                                                                               \
                 .kv_heads = 128,                                                                            \
                 .key_dim = 192,                                                                             \
                 .value_dim = 128,                                                                           \
                 .latent = (c),                                                                              \
                 .rotary_dim = (r) })
/* The gated delta rule: 16 key heads, n value heads, all of 128, four taps. */
#define DELTA(n)                                                                                             \
    ((vr_layer){ .attention = VR_ATTENTION_RECURRENT,                                                        \
                 .conv_channels = 2 * 16 * 128 + (n)*128,                                                    \
                 .conv_taps = 4,                                                                             \
                 .state_heads = (n),                                                                         \
                 .state_rows = 128,                                                                          \
                 .state_columns = 128 })

static uint64_t kept(made *x)
{
    vr_plan p;
    vr_device_facts any = { .usable = UINT64_MAX };
    assert_int_equal(x->w.engine->plan(&p, &x->m, &x->w, &any, &x->a), VRAM_OK);
    assert_true(p.sums_only);
    assert_true(p.counted[VR_KV_CACHE]);
    for (size_t i = 0; i < p.tape.n; i++) {
        if (p.tape.events[i].kind == VR_EV_OUTSIDE && p.tape.events[i].item == VR_ITEM_KV)
            return p.tape.events[i].bytes;
    }
    return 0;
}

static const vr_engine *const serving[] = { &vr_engine_vllm, &vr_engine_sglang, &vr_engine_llamacpp };

/* ---- vLLM's blocks ---- */

static vr_vllm_cache blocks(made *x, uint64_t in_flight, unsigned states, bool fp8)
{
    vr_vllm_cache c;
    vr_vllm_settings s = { .in_flight = in_flight, .states = states, .fp8 = fp8 };
    vr_vllm_cache_of(&c, &x->m, &x->w, &s);
    assert_null(c.why);
    return c;
}

/* Qwen3-8B: 36 layers of 8 heads of 128: 147,456 B a token. */
static void uniform(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_vllm, 40960, 1);
    add(&x, 36, FULL(8, 128));
    vr_vllm_cache c = blocks(&x, 8192, 1, false);
    assert_int_equal(c.token_bytes, 147456);
    assert_int_equal(c.groups, 1);
    assert_int_equal(c.blocks, 2560);
    assert_int_equal(c.bytes, UINT64_C(147456) * 40960);
    x.w.context = 40961; /* a block more */
    assert_int_equal(blocks(&x, 8192, 1, false).bytes, UINT64_C(147456) * (40960 + 16));
    assert_int_equal(blocks(&x, 8192, 1, true).bytes, UINT64_C(147456) / 2 * (40960 + 16));
    unmake(&x);
}

/* gemma-3-27b at 4,096 tokens, 8,192 in flight: 256 blocks of the full layers and 257 of each of six groups
 * of sliding ones; at 131,072 without a prompt in flight 8192 and 6 x 65. */
static void windows(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_vllm, 4096, 1);
    add(&x, 52, SLIDING(16, 128, 1024));
    add(&x, 10, FULL(16, 128));
    vr_vllm_cache c = blocks(&x, 8192, 1, false);
    assert_int_equal(c.layers_of_a_group, 10);
    assert_int_equal(c.groups, 7);
    assert_int_equal(c.blocks, 256 + 6 * 257);
    assert_int_equal(c.block_bytes, 10 * 131072);
    x.w.context = 131072;
    assert_int_equal(blocks(&x, 8192, 1, false).steady, (UINT64_C(8192) + 6 * 65) * 10 * 131072);
    vr_vllm_settings all = { .in_flight = 8192, .states = 1, .no_hybrid = true };
    vr_vllm_cache_of(&c, &x.m, &x.w, &all);
    assert_int_equal(c.bytes, UINT64_C(62) * 8192 * 131072);
    assert_int_equal(vr_least_kept(&x.m, 131072, 1, 2, 4),
                     UINT64_C(10) * 131072 * 8192 + UINT64_C(52) * 1024 * 8192);
    unmake(&x);
}

/* Llama-4 Scout: 36 layers of chunks of 8,192 tokens, 12 full ones. A request has at most its chunk and what
 * is in flight (kv_cache_interface.py, ChunkedLocalAttentionSpec): (8,192 + 2,048) / 16 = 640 blocks. */
static void chunks(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_vllm, 131072, 1);
    vr_layer chunked = SLIDING(8, 128, 8192);
    chunked.attention = VR_ATTENTION_CHUNKED;
    add(&x, 36, chunked);
    add(&x, 12, FULL(8, 128));
    vr_vllm_cache c = blocks(&x, 2048, 1, false);
    assert_int_equal(c.groups, 4);
    assert_int_equal(c.blocks, 8192 + 3 * 640);
    assert_int_equal(c.bytes, UINT64_C(12) * 65536 * (8192 + 3 * 640));
    unmake(&x);
}

/* gemma-4-12B: 40 sliding layers of 8,192 B a token, 8 full ones of 2,048, whose blocks become four times as
 * long. */
static void pages_of_one_size(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_vllm, 8192, 1);
    add(&x, 40, SLIDING(8, 256, 1024));
    add(&x, 8, FULL(1, 512));
    vr_vllm_cache c = blocks(&x, 4096, 1, false);
    assert_int_equal(c.groups, 6);
    assert_int_equal(c.blocks, 128 + 5 * 321);
    x.layers[47].key_dim = 500; /* 16 x 2,024 is no part of a page */
    x.layers[47].key_elements = 500;
    vr_vllm_settings s = { .in_flight = 4096, .states = 1 };
    vr_vllm_cache_of(&c, &x.m, &x.w, &s);
    assert_non_null(c.why);
    unmake(&x);
}

/* Whisper large-v3: 32 layers keep tokens, and in a group of their own 1,500 positions of speech: 28 blocks
 * and 94, of 16 x 5,120 B x 32 layers. */
static void speech(void **state)
{
    made x;
    vr_layer l = FULL(20, 64);
    (void)state;
    l.cross_heads = 20;
    make(&x, &vr_engine_vllm, 448, 3);
    x.m.source_positions = 1500;
    add(&x, 32, l);
    vr_vllm_cache c = blocks(&x, 8192, 1, false);
    assert_int_equal(c.groups, 2);
    assert_int_equal(c.blocks, 28 + 94);
    assert_int_equal(c.block_bytes, 16 * 5120 * 32);
    assert_int_equal(c.token_bytes, 5120 * 32);
    assert_int_equal(c.bytes, UINT64_C(3) * 122 * 16 * 5120 * 32);
    assert_int_equal(c.steady, c.bytes);
    unmake(&x);
}

/* Qwen3.6-35B-A3B: 30 recurrent layers of 2,146,304 B, 10 full ones of 2,048 a token: blocks of 1,056 tokens.
 */
static void states(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_vllm, 131072, 1);
    add(&x, 30, DELTA(32));
    add(&x, 10, FULL(2, 256));
    vr_vllm_cache c = blocks(&x, 2048, 1, false);
    assert_int_equal(c.block, 1056);
    assert_int_equal(c.groups, 4);
    assert_int_equal(c.blocks, 125 + 3);
    assert_int_equal(blocks(&x, 2048, 2, false).blocks, 125 + 6);
    /* 47.55 GiB are 2,360 blocks, 18.44 such requests */
    assert_int_equal(vr_vllm_pool_tokens(&c, &x.w, 51056422912) / 131072, 18);
    unmake(&x);
}

/* DeepSeek-V3: one vector of 576 elements in each of 61 layers, whatever the heads: 2.14 GiB at 32,768
 * tokens. */
static void latent(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        made x;
        make(&x, serving[i], 32768, 1);
        add(&x, 61, LATENT(512, 64));
        uint64_t more = serving[i] == &vr_engine_sglang ? 1 : 0; /* a slot */
        assert_int_equal(kept(&x), UINT64_C(70272) * (32768 + more));
        unmake(&x);
    }
}

/* With an index in every layer: 132 B more each; in fp8 656 instead of 1,152. */
static void sparse(void **state)
{
    made x;
    vr_layer l = LATENT(512, 64);
    (void)state;
    l.index_heads = 64;
    l.index_dim = 128;
    l.index_topk = 2048;
    make(&x, &vr_engine_vllm, 64, 1);
    add(&x, 61, l);
    assert_int_equal(blocks(&x, 2048, 1, false).bytes, 64 * 61 * (1152 + 132));
    assert_int_equal(blocks(&x, 2048, 1, true).bytes, 64 * 61 * (656 + 132));
    unmake(&x);
    make(&x, &vr_engine_vllm, 64, 1); /* GLM-5.2: 57 of 78 layers take what another chose */
    add(&x, 21, l);
    l.index_heads = l.index_dim = 0;
    add(&x, 57, l);
    assert_int_equal(blocks(&x, 2048, 1, true).token_bytes, 53940);
    x.w.engine = &vr_engine_sglang; /* which keeps keys of an index in all of them */
    x.w.kv_dtype = VR_KV_FP8;
    assert_int_equal(kept(&x), 65 * 78 * (656 + 132));
    unmake(&x);
}

/* gpt-oss-120b: 18 sliding and 18 full layers of 2,048 B; below the window all of them keep a token. */
static void below_the_window(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_vllm, 64, 1);
    add(&x, 18, SLIDING(8, 64, 128));
    add(&x, 18, FULL(8, 64));
    assert_int_equal(blocks(&x, 2048, 1, false).token_bytes, 73728);
    unmake(&x);
}

/* ---- llama.cpp's cells ---- */

/* gemma-3-27b at 131,072: ten layers of all cells, 52 of 1,024 + 512: 10.61 GiB. */
static void cells(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_llamacpp, 131072, 1);
    x.m.model_type = "gemma3_text";
    add(&x, 52, SLIDING(16, 128, 1024));
    add(&x, 10, FULL(16, 128));
    assert_int_equal(kept(&x), UINT64_C(8192) * (10 * UINT64_C(131072) + 52 * 1536));
    x.w.swa_full = true;
    assert_int_equal(kept(&x), UINT64_C(8192) * 62 * 131072);
    x.w.swa_full = false;
    x.m.model_type = "mistral"; /* whose window it ignores */
    assert_int_equal(kept(&x), UINT64_C(8192) * 62 * 131072);
    x.w.no_kv_offload = true;
    assert_int_equal(kept(&x), 0);
    unmake(&x);
    make(&x, &vr_engine_llamacpp, 8192, 1);
    x.m.model_type = "gpt_oss"; /* 128 + 512 are filled up to 768 */
    add(&x, 12, SLIDING(8, 64, 128));
    add(&x, 12, FULL(8, 64));
    assert_int_equal(kept(&x), UINT64_C(2048) * 12 * (8192 + 768));
    unmake(&x);
}

static void quantised_cells(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_llamacpp, 1000, 2); /* 1,024 cells a sequence: 2,000 are 2,048 */
    add(&x, 4, FULL(8, 128));
    x.w.cache_k = VR_Q8_0;
    assert_int_equal(kept(&x), UINT64_C(4) * 2 * 1024 * (1024 / 32 * 34 + 1024 * 2));
    add(&x, 1, FULL(1, 80)); /* no whole blocks */
    vr_plan p;
    assert_int_equal(x.w.engine->plan(&p, &x.m, &x.w, NULL, &x.a), VRAM_OK);
    assert_false(p.counted[VR_KV_CACHE]);
    assert_non_null(p.why_not[VR_KV_CACHE]);
    unmake(&x);
}

/* Qwen3.6-27B: 48 layers with a state, 16 of 4,096 B: 149.62 MiB a sequence and 16 GiB at 262,144 tokens. */
static void states_of_llamacpp(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_llamacpp, 262144, 1);
    add(&x, 48, DELTA(48));
    add(&x, 16, FULL(4, 256));
    uint64_t one = UINT64_C(48) * 4 * (3 * (2 * 16 * 128 + 48 * 128) + 48 * 128 * 128);
    assert_int_equal(one * 100 / VR_MIB, 14962);
    assert_int_equal(kept(&x), 16 * VR_GIB + one);
    x.w.sequences = 4;
    x.w.context = 65536;
    assert_int_equal(kept(&x), 16 * VR_GIB + 4 * one);
    unmake(&x);
}

/* -ngl 5 of 8 layers and the output: the last four layers. */
static void some_layers(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_llamacpp, 256, 1);
    add(&x, 8, FULL(8, 128));
    x.w.gpu_layers = 5;
    assert_int_equal(kept(&x), 4 * 256 * 4096);
    x.w.gpu_layers = 0;
    assert_int_equal(kept(&x), 0);
    unmake(&x);
}

/* ---- SGLang's pools ---- */

static void pools(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_sglang, 1000, 4);
    add(&x, 18, SLIDING(8, 64, 128));
    add(&x, 18, FULL(8, 64));
    assert_int_equal(kept(&x), UINT64_C(36) * 2048 * 4001); /* one pool */
    x.m.architecture = "GptOssForCausalLM";
    assert_int_equal(kept(&x), UINT64_C(18) * 2048 * 4001 + UINT64_C(18) * 2048 * 3201);
    x.w.swa_ratio_permille = 100;
    assert_int_equal(kept(&x), UINT64_C(18) * 2048 * 4001 + UINT64_C(18) * 2048 * 401);
    unmake(&x);
}

/* Three states for each sequence and one more; one with no prefix cache. */
static void states_of_sglang(void **state)
{
    made x;
    (void)state;
    make(&x, &vr_engine_sglang, 1000, 2);
    add(&x, 30, DELTA(32));
    uint64_t one = 3 * (2 * 16 * 128 + 32 * 128) * 2 + 32 * 128 * 128 * 4;
    assert_int_equal(kept(&x), 30 * one * 7);
    x.w.no_radix = true;
    assert_int_equal(kept(&x), 30 * one * 3);
    unmake(&x);
}

/* ---- all ---- */

static void shared_caches(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        made x;
        make(&x, serving[i], 256, 1);
        vr_layer borrows = FULL(8, 64);
        borrows.kv_from = 1;
        add(&x, 20, FULL(8, 64));
        add(&x, 15, borrows);
        uint64_t more = serving[i] == &vr_engine_sglang ? 1 : 0;
        assert_int_equal(kept(&x), UINT64_C(20) * 2048 * (256 + more));
        unmake(&x);
    }
}

static void beyond_all_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        made x;
        vr_plan p;
        make(&x, serving[i], UINT64_C(1) << 40, UINT64_C(1) << 40);
        add(&x, 61, FULL(UINT32_MAX, UINT32_MAX));
        add(&x, 1, DELTA(UINT32_MAX / 128));
        assert_int_equal(x.w.engine->plan(&p, &x.m, &x.w, NULL, &x.a), VRAM_ELIMIT);
        unmake(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform),
        cmocka_unit_test(windows),
        cmocka_unit_test(chunks),
        cmocka_unit_test(pages_of_one_size),
        cmocka_unit_test(states),
        cmocka_unit_test(speech),
        cmocka_unit_test(latent),
        cmocka_unit_test(sparse),
        cmocka_unit_test(below_the_window),
        cmocka_unit_test(cells),
        cmocka_unit_test(quantised_cells),
        cmocka_unit_test(states_of_llamacpp),
        cmocka_unit_test(some_layers),
        cmocka_unit_test(pools),
        cmocka_unit_test(states_of_sglang),
        cmocka_unit_test(shared_caches),
        cmocka_unit_test(beyond_all_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
