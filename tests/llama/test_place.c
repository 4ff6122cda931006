/* SPDX-License-Identifier: MIT
 * Where a small model lies, worked out by hand: layers over devices, tied embeddings, patterns, caches, what
 * is refused; and that whatever is missing or absurd makes an answer or an error.
 *
 * The model: llama, 4 layers of width 64, 4 heads of 16 of which 2 are for keys and values, feed-forward 128,
 * 256 tokens in the vocabulary, all in F32, no head of its own. A layer: norms 2 x 256 B; q 64 x 64 and
 * output 64 x 64, 16,384 B each; k and v 64 x 32, 8,192 B each; gate, up, down 64 x 128, 32,768 B each:
 * 147,968 B. The embedding is 65,536 B, the last norm 256 B. */
#include "small.h"

#define LAYER UINT64_C(147968)
#define EMBEDDING UINT64_C(65536)
#define NORM UINT64_C(256)
/* Cells of 32 keys and 32 values of 2 B */
#define CELL UINT64_C(128)

static vr_lm_sizes measure(const opened *o, const vr_lm_params *p, size_t n)
{
    const vr_lm_device devices[4] = { { VR_GIB, 89 }, { VR_GIB, 89 }, { VR_GIB, 89 }, { VR_GIB, 89 } };
    vr_lm_sizes s;
    expect_ok(o->w, vr_lm_measure(&s, o->lm, p, devices, n, &o->w->ctx->arena));
    return s;
}

/* All on one: the embedding once on the host, once as the head on the card. */
static void test_one_card(void **state)
{
    opened o = small_model();
    vr_lm_params p = plain();
    vr_lm_sizes s = measure(&o, &p, 1);
    (void)state;
    assert_true(s.compute_known && s.context_known && s.held);
    assert_int_equal(s.device[0].model, 4 * LAYER + NORM + EMBEDDING);
    assert_int_equal(s.pinned.model, EMBEDDING);
    assert_int_equal(s.device[0].context, 4 * 1024 * CELL);
    assert_int_equal(s.output, 256 * 4);
    /* -c 1000 -np 3: 1,024 are 341 each, filled up to 512 */
    p.n_ctx = 1000;
    p.n_seq_max = 3;
    s = measure(&o, &p, 1);
    assert_int_equal(s.n_ctx, 1536);
    assert_int_equal(s.device[0].context, 4 * 1536 * CELL);
    /* the same in one cache */
    p.kv_unified = true;
    assert_int_equal(measure(&o, &p, 1).device[0].context, 4 * 1024 * CELL);
    p.offload_kqv = false;
    s = measure(&o, &p, 1);
    assert_int_equal(s.device[0].context, 0);
    assert_int_equal(s.host.context, 4 * 1024 * CELL);
    /* without any card one embedding serves both, as F32 is not laid out anew */
    s = measure(&o, &p, 0);
    assert_int_equal(s.host.model, 4 * LAYER + NORM + EMBEDDING);
    assert_int_equal(s.pinned.model, 0);
    end_world(o.w);
}

/* -ngl 2: the output and the last layer; before b7467 the two last layers, and the output stays. */
static void test_layers(void **state)
{
    opened o = small_model();
    vr_lm_params p = plain();
    (void)state;
    p.n_gpu_layers = 2;
    vr_lm_sizes s = measure(&o, &p, 1);
    assert_int_equal(s.device[0].model, LAYER + NORM + EMBEDDING);
    assert_int_equal(s.pinned.model, 3 * LAYER + EMBEDDING);
    assert_int_equal(s.host.context, 3 * 1024 * CELL);
    p.build = 7466;
    s = measure(&o, &p, 1);
    assert_int_equal(s.device[0].model, 2 * LAYER);
    assert_int_equal(s.pinned.model, 2 * LAYER + NORM + EMBEDDING);
    p.build = 10470;
    p.n_gpu_layers = 0;
    s = measure(&o, &p, 1);
    assert_int_equal(s.device[0].model, 0);
    assert_int_equal(s.pinned.model, 4 * LAYER + NORM + EMBEDDING);
    end_world(o.w);
}

/* Five layers with the output over two equal cards: i / 5 < 1 / 2 are 0, 1 and 2. With 3,1: i / 5 < 3 / 4 are
 * 0 to 3. */
static void test_two_cards(void **state)
{
    opened o = small_model();
    vr_lm_params p = plain();
    (void)state;
    vr_lm_sizes s = measure(&o, &p, 2);
    assert_true(s.pipelined);
    assert_int_equal(s.device[0].model, 3 * LAYER);
    assert_int_equal(s.device[1].model, LAYER + NORM + EMBEDDING);
    assert_int_equal(s.device[1].context, 1024 * CELL);
    p.tensor_split[0] = 3;
    p.tensor_split[1] = 1;
    s = measure(&o, &p, 2);
    assert_int_equal(s.device[0].model, 4 * LAYER);
    assert_int_equal(s.device[1].model, NORM + EMBEDDING);
    p.split_mode = VR_LM_SPLIT_NONE;
    p.main_gpu = 1;
    s = measure(&o, &p, 2);
    assert_false(s.pipelined);
    assert_int_equal(s.device[0].model, 0);
    assert_int_equal(s.device[1].model, 4 * LAYER + NORM + EMBEDDING);
    p.main_gpu = 2;
    assert_true(measure(&o, &p, 2).refused);
    p.split_mode = VR_LM_SPLIT_ROW;
    assert_true(measure(&o, &p, 2).refused);
    p.build = 9889;
    assert_false(measure(&o, &p, 2).refused || measure(&o, &p, 2).unknown);
    p.build = VR_LM_LAYERS_SPREAD - 1;
    assert_true(measure(&o, &p, 2).refused);
    p.split_mode = VR_LM_SPLIT_TENSOR;
    assert_true(measure(&o, &p, 2).refused);
    p.build = 8738;
    assert_true(measure(&o, &p, 2).unknown);
    end_world(o.w);
}

/* The first pattern that is found counts. */
static void test_overrides(void **state)
{
    opened o = small_model();
    vr_lm_params p = plain();
    const vr_lm_override list[] = { { "blk\\.1\\.ffn_up", 1 }, { "ffn_(up|gate)", VR_LM_HOST } };
    const vr_lm_override bad[] = { { "(", VR_LM_HOST } };
    (void)state;
    p.overrides = list;
    p.n_overrides = 2;
    vr_lm_sizes s = measure(&o, &p, 2);
    assert_false(s.pipelined);
    assert_int_equal(s.pinned.model, EMBEDDING + 7 * 32768);
    assert_int_equal(s.device[0].model, 3 * (LAYER - 2 * UINT64_C(32768)));
    assert_int_equal(s.device[1].model, LAYER - 2 * 32768 + 32768 + NORM + EMBEDDING);
    p.overrides = bad;
    p.n_overrides = 1;
    assert_true(measure(&o, &p, 2).refused);
    end_world(o.w);
}

static void test_refused(void **state)
{
    opened o = small_model();
    vr_lm_params p = plain();
    (void)state;
    p.type_k = p.type_v = VR_Q8_0; /* heads of 16 are no whole blocks of 32 */
    vr_lm_sizes s = measure(&o, &p, 1);
    assert_true(s.refused);
    assert_non_null(s.why);
    p.flash_attn = false;
    assert_true(measure(&o, &p, 1).refused); /* a quantised V needs it */
    p = plain();
    p.n_seq_max = 257;
    assert_true(measure(&o, &p, 1).refused);
    end_world(o.w);
}

/* Keys that say anything at all. */
static void test_hostile(void **state)
{
    static const uint32_t numbers[] = { 0, 1, 3, 65537, 0x7fffffff, 0xffffffff };
    const size_t n = sizeof numbers / sizeof *numbers;
    (void)state;
    for (size_t i = 0; i < n * n; i++) {
        gguf g = { .version = 3 };
        uint64_t at = 0;
        vr_lm_params p = plain();
        add_keys(&g, i % 2 == 0 ? numbers[i / n] : 4, numbers[i % n], 4096);
        g_key_u32(&g, "llama.attention.key_length", numbers[i / n]);
        g_key_u32(&g, "llama.ssm.state_size", numbers[i % n]);
        tensor(&g, &at, "token_embd.weight", 64, 256);
        tensor(&g, &at, "blk.999999999.attn_k.weight", 64, 0);
        opened o = open_file(&g, (size_t)at);
        const vr_lm_device device = { UINT64_MAX, 89 };
        vr_lm_sizes s;
        p.n_ctx = UINT64_MAX;
        p.n_batch = p.n_ubatch = UINT64_MAX;
        p.n_seq_max = i % 3 == 0 ? UINT64_MAX : 1;
        p.n_cpu_moe = UINT64_MAX;
        vram_status status = vr_lm_measure(&s, o.lm, &p, &device, 1, &o.w->ctx->arena);
        assert_true(status == VRAM_OK || status == VRAM_EUNSUPPORTED || status == VRAM_ELIMIT);
        end_world(o.w);
    }
}

/* Every allocation fails once. */
static void test_no_memory(void **state)
{
    const vr_lm_device devices[2] = { { VR_GIB, 89 }, { VR_GIB, 89 } };
    const vr_lm_override list[] = { { "ffn_up", VR_LM_HOST } };
    (void)state;
    for (size_t i = 1; i < 10000; i++) {
        opened o = small_model();
        vr_lm_params p = plain();
        vr_lm_sizes s;
        vr_arena a;
        p.overrides = list;
        p.n_overrides = 1;
        vr_arena_init(&a, o.w->ctx);
        o.w->memory.fail_at = o.w->memory.n_calls + i;
        vram_status status = vr_lm_measure(&s, o.lm, &p, devices, 2, &a);
        vr_arena_free(&a);
        o.w->memory.fail_at = 0;
        end_world(o.w);
        assert_true(status == VRAM_OK || status == VRAM_ENOMEM);
        if (status == VRAM_OK) {
            assert_true(i > 2);
            return;
        }
    }
    fail();
}

static int swallow(void *ud, const void *bytes, size_t n)
{
    (void)ud;
    (void)bytes;
    (void)n;
    return 0;
}

/* The whole answer, on one card with room and on two without, in text and JSON. */
static vram_status answer_all(const opened *o, size_t n)
{
    const vram_style styles[] = { { .format = VRAM_TEXT, .verbose = 1 }, { .format = VRAM_JSON } };
    vram_ctx *ctx = o->w->ctx;
    vram_workload *w;
    vram_device *d[2];
    vram_fit *f;
    VR_TRY(vram_workload_new(&w, ctx, NULL));
    VR_TRY(vram_workload_set(w, "context", "2048"));
    VR_TRY(vram_workload_set(w, "override_tensor", "blk\\.1\\.ffn=CPU"));
    for (size_t i = 0; i < n; i++)
        VR_TRY(vram_device_new(&d[i], ctx, "1GiB", n == 1 ? 0 : 80 * VR_MIB));
    VR_TRY(vram_fit_new(&f, o->m, w, (const vram_device *const *)d, n));
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        VR_TRY(vram_fit_render(f, &styles[i], swallow, NULL));
    return VRAM_OK;
}

static void test_answers_without_memory(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 2; n++) {
        for (size_t i = 1;; i += i < 40 ? 1 : i / 20) {
            opened o = small_model();
            o.w->memory.fail_at = o.w->memory.n_calls + i;
            size_t last = o.w->memory.fail_at;
            vram_status status = answer_all(&o, n);
            bool through = o.w->memory.n_calls < last;
            o.w->memory.fail_at = 0;
            if (through)
                expect_ok(o.w, status);
            end_world(o.w);
            if (through)
                break;
            assert_true(status == VRAM_OK || status == VRAM_ENOMEM);
            assert_true(i < 100000);
        }
    }
}

/* -sm row of b9000 on two cards of compute capability 6.0, where borders are at multiples of 64 rows. Layers
 * 0 to 2 are on the first, layer 3, the last norm and the head on the other. gate, up (128 rows of 256 B) and
 * the head (256 rows of 256 B) are halved, and each half has a row filled up to 512 elements behind it, which
 * are 448 of 4 B. Of q, output, k, v and down the first card has no rows: its own layers have them whole, and
 * of those of the other card that one has all rows, with such a filling, of down 384 elements. */
static void test_rows(void **state)
{
    opened o = small_model();
    const uint64_t half = 64 * 256 + 448 * 4, head = 128 * 256 + 448 * 4;
    const uint64_t whole = 2 * NORM + 2 * 16384 + 2 * 8192 + 32768;
    const uint64_t last = 2 * NORM + 2 * (16384 + 1792) + 2 * (8192 + 1792) + 32768 + 384 * 4;
    const vr_lm_device cards[2] = { { .free_bytes = VR_GIB, .cc = 60 }, { .free_bytes = VR_GIB, .cc = 60 } };
    vr_lm_params p = plain();
    vr_lm_sizes s;
    (void)state;
    p.build = 9000;
    p.split_mode = VR_LM_SPLIT_ROW;
    expect_ok(o.w, vr_lm_measure(&s, o.lm, &p, cards, 2, &o.w->ctx->arena));
    assert_false(s.unknown || s.refused);
    assert_int_equal(s.device[0].model, 3 * (whole + 2 * half) + 2 * half + head);
    assert_int_equal(s.device[1].model, 3 * 2 * half + last + 2 * half + NORM + head);
    assert_int_equal(s.device[0].context, 3 * 1024 * CELL);
    assert_int_equal(s.device[1].context, 1024 * CELL);
    /* before b3990 the main card has all that is not cut, and the caches */
    p.build = 3900;
    p.main_gpu = 1;
    expect_ok(o.w, vr_lm_measure(&s, o.lm, &p, cards, 2, &o.w->ctx->arena));
    assert_int_equal(s.device[0].model, 4 * 2 * half + head);
    assert_int_equal(s.device[1].model, 4 * (last + 2 * half) + NORM + head);
    assert_int_equal(s.device[0].context, 0);
    end_world(o.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_one_card),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_two_cards),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_answers_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
