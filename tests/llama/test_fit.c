/* SPDX-License-Identifier: MIT
 * What --fit makes of a small model: as much as fits and no more, tried by measuring; what it leaves alone;
 * and that whatever is missing or absurd makes an answer or an error. What llama.cpp itself made of large
 * ones is in fitted_cases.py. */
#include "llama/fit.h"
#include "small.h"

static uint64_t used(const opened *s, const vr_lm_params *given, uint64_t layers)
{
    const vr_lm_device device = { 64 * VR_GIB, 89 };
    vr_lm_params p = *given;
    vr_lm_sizes sizes;
    p.n_gpu_layers = layers;
    p.as_fit = true;
    expect_ok(s->w, vr_lm_measure(&sizes, s->lm, &p, &device, 1, &s->w->ctx->arena));
    return sizes.device[0].model + sizes.device[0].context + sizes.device[0].compute;
}

static vr_lm_fitted fitted(const opened *s, const vr_lm_params *p, uint64_t bytes, uint64_t margin,
                           uint64_t context)
{
    const vr_lm_device device = { bytes, 89 };
    vr_lm_fitted f;
    expect_ok(s->w, vr_lm_fit(&f, s->lm, p, &device, 1, &margin, context, &s->w->ctx->arena));
    assert_null(f.unknown);
    return f;
}

/* Just enough for all of them, and a byte less */
static void test_whole(void **state)
{
    opened s = small_model_of(12, 4096);
    vr_lm_params p = plain();
    (void)state;
    uint64_t all = used(&s, &p, UINT64_MAX);
    vr_lm_fitted f = fitted(&s, &p, all + 5000, 5000, 4096);
    assert_false(f.changed);
    assert_int_equal(f.params.n_gpu_layers, UINT64_MAX);
    assert_int_equal(f.trials, 1);
    f = fitted(&s, &p, all + 4999, 5000, 4096);
    assert_true(f.changed);
    assert_int_equal(f.params.n_gpu_layers, 12); /* of 13 with the output */
    end_world(s.w);
}

static void test_layers(void **state)
{
    opened s = small_model_of(12, 4096);
    vr_lm_params p = plain();
    (void)state;
    for (uint64_t n = 1; n < 13; n++) {
        uint64_t bytes = used(&s, &p, n);
        if (used(&s, &p, n + 1) <= bytes)
            continue;
        vr_lm_fitted f = fitted(&s, &p, bytes, 0, 4096);
        assert_true(used(&s, &p, f.params.n_gpu_layers) <= bytes);
        assert_true(used(&s, &p, f.params.n_gpu_layers + 1) > bytes);
    }
    assert_int_equal(fitted(&s, &p, 1000, 0, 4096).params.n_gpu_layers, 0);
    end_world(s.w);
}

/* Without -c the context is made smaller before any layer is taken off. */
static void test_context(void **state)
{
    opened s = small_model_of(4, 32768);
    vr_lm_params p = plain(), small_one = plain();
    (void)state;
    p.n_ctx = 0;
    small_one.n_ctx = 1024;
    uint64_t most = used(&s, &p, UINT64_MAX), least = used(&s, &small_one, UINT64_MAX);
    uint64_t bytes = least + (most - least) / 2;
    vr_lm_fitted f = fitted(&s, &p, bytes, 0, 1024);
    assert_int_equal(f.params.n_gpu_layers, UINT64_MAX);
    assert_int_equal(f.params.n_ctx % 256, 0);
    /* half way between 1,024 and 32,768 */
    assert_in_range(f.params.n_ctx, 16896 - 512, 16896);
    f = fitted(&s, &p, least - 1, 0, 1024);
    assert_int_equal(f.params.n_ctx, 1024);
    assert_true(f.params.n_gpu_layers < 5);
    end_world(s.w);
}

static void test_left(void **state)
{
    opened s = small_model_of(4, 4096);
    vr_lm_params p = plain();
    const vr_lm_override by_hand = { "ffn_up", VR_LM_HOST };
    (void)state;
    p.n_gpu_layers = 4;
    vr_lm_fitted f = fitted(&s, &p, 1000, 0, 4096);
    assert_non_null(f.left);
    assert_int_equal(f.params.n_gpu_layers, 4);
    p = plain();
    p.overrides = &by_hand;
    p.n_overrides = 1;
    assert_non_null(fitted(&s, &p, 1000, 0, 4096).left);
    assert_null(fitted(&s, &p, VR_GIB, 0, 4096).left);
    end_world(s.w);
}

/* Layers lie on two cards in the shares that were found, and each keeps its margin. */
static void test_two_cards(void **state)
{
    opened s = small_model_of(12, 4096);
    vr_lm_params p = plain();
    vr_lm_fitted f;
    vr_lm_sizes sizes;
    (void)state;
    uint64_t all = used(&s, &p, UINT64_MAX), margins[2] = { 1000, 2000 };
    const vr_lm_device devices[2] = { { all / 2, 89 }, { all / 3 * 2, 89 } };
    expect_ok(s.w, vr_lm_fit(&f, s.lm, &p, devices, 2, margins, 4096, &s.w->ctx->arena));
    f.params.as_fit = true;
    expect_ok(s.w, vr_lm_measure(&sizes, s.lm, &f.params, devices, 2, &s.w->ctx->arena));
    for (size_t i = 0; i < 2; i++) {
        const vr_lm_memory *m = &sizes.device[i];
        assert_true(m->model + m->context + m->compute + margins[i] <= devices[i].free_bytes);
    }
    assert_true(f.params.tensor_split[0] + f.params.tensor_split[1] == (double)f.params.n_gpu_layers);
    end_world(s.w);
}

static void test_absurd(void **state)
{
    static const uint64_t counts[] = { 0, 1, 4096, UINT32_MAX, UINT64_MAX };
    const size_t n = sizeof counts / sizeof *counts;
    (void)state;
    opened s = small_model_of(4, 4096);
    for (size_t i = 0; i < n * n; i++) {
        vr_lm_params p = plain();
        const vr_lm_device devices[2] = { { counts[i % n], 89 }, { counts[i / n], 0 } };
        const uint64_t margins[2] = { counts[i / n], 1024 };
        vr_lm_fitted f;
        p.n_ctx = counts[i / n];
        p.n_seq_max = i % 3;
        vram_status status =
            vr_lm_fit(&f, s.lm, &p, devices, i % 2 + 1, margins, counts[i % n], &s.w->ctx->arena);
        assert_true(status == VRAM_OK || status == VRAM_EUNSUPPORTED || status == VRAM_ELIMIT);
    }
    end_world(s.w);
}

/* Every allocation fails once. */
static void test_no_memory(void **state)
{
    const uint64_t margin = 0;
    (void)state;
    for (size_t i = 1; i < 100000; i++) {
        opened s = small_model_of(2, 4096);
        vr_lm_params p = plain();
        vr_lm_fitted f;
        vr_arena a;
        const vr_lm_device device = { 400000, 89 };
        vr_arena_init(&a, s.w->ctx);
        s.w->memory.fail_at = s.w->memory.n_calls + i;
        vram_status status = vr_lm_fit(&f, s.lm, &p, &device, 1, &margin, 4096, &a);
        vr_arena_free(&a);
        s.w->memory.fail_at = 0;
        end_world(s.w);
        assert_true(status == VRAM_OK || status == VRAM_ENOMEM);
        if (status == VRAM_OK)
            return;
    }
    fail();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),     cmocka_unit_test(test_layers),    cmocka_unit_test(test_context),
        cmocka_unit_test(test_left),      cmocka_unit_test(test_two_cards), cmocka_unit_test(test_absurd),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
