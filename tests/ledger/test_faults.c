/* SPDX-License-Identifier: MIT
 * The n-th allocation fails, once and from then on, for every n: out of memory is said, nothing leaks,
 * nothing is half made. */
#include "ledger/scenario.h"
#include "support.h"

static const char FILE_TEXT[] =
    "{\"params\": 7e9, \"context\": 4096, \"kv_bytes_per_token\": 524288, \"overhead\": 0.2, "
    "\"gpu_memory_gib\": [24, 80],"
    " \"scenarios\": [{\"name\": \"a\\n\", \"sequences\": 16}, {\"mode\": \"train\"}]}";

static vram_status try_scenario(hook *h)
{
    vram_ctx *ctx;
    vram_scenario *s;
    vram_status status = vram_open(&ctx, hook_alloc, h);
    if (status != VRAM_OK)
        return status;
    status = vram_scenario_new(&s, ctx);
    if (status == VRAM_OK)
        status = vram_scenario_read(s, "plans.json", FILE_TEXT, sizeof(FILE_TEXT) - 1);
    if (status == VRAM_OK)
        status = vram_scenario_set(s, "name", "all");
    if (status == VRAM_OK)
        status = vram_scenario_solve(s);
    if (status != VRAM_OK)
        assert_int_equal(vram_last_error(ctx)->code, VRAM_ENOMEM);
    vram_close(ctx);
    return status;
}

static const shape TINY = { 256, 2, 4, 2, 64, 512, 1000, false };

static vram_status try_fit(hook *h, const char *card)
{
    vram_ctx *ctx;
    vram_device *d = NULL;
    vram_fit *f;
    memset(&stage, 0, sizeof(stage));
    stage.model = &TINY;
    stage.uncertain_permille = 100;
    vram_status status = vram_open(&ctx, hook_alloc, h);
    if (status != VRAM_OK)
        return status;
    vram_model m = { .ctx = ctx, .dtype = VR_BF16 };
    vram_workload w = { .ctx = ctx,
                        .engine = &test_engine,
                        .version_major = 5,
                        .context = 4096,
                        .sequences = 8,
                        .prefill_batch = 8,
                        .dtype = VR_F32,
                        .attention = VR_IMPL_EAGER,
                        .logits = VR_LOGITS_ALL };
    all_by_user(&w);
    if (card != NULL)
        status = vram_device_new(&d, ctx, card, MIB_OF(250)); /* dies; it takes a pair of levers */
    const vram_device *list[1] = { d };
    if (status == VRAM_OK)
        status = vram_fit_new(&f, &m, &w, list, card != NULL);
    if (status != VRAM_OK)
        assert_int_equal(vram_last_error(ctx)->code, VRAM_ENOMEM);
    else if (card != NULL)
        assert_string_equal(f->levers[0].ids[1], "half_context");
    vram_close(ctx);
    return status;
}

static vram_status fit_on_card(hook *h)
{
    return try_fit(h, "rtx-3060-12gb");
}

static vram_status fit_on_any(hook *h)
{
    return try_fit(h, NULL);
}

static void every_allocation(vram_status (*run)(hook *h), bool and_later)
{
    for (size_t n = 1;; n++) {
        hook h = { .fail_at = n, .fail_after = and_later };
        vram_status status = run(&h);
        assert_int_equal(h.live_bytes, 0);
        assert_int_equal(h.live_blocks, 0);
        if (h.n_calls < n) {
            assert_int_equal(status, VRAM_OK);
            assert_true(n > 5);
            return;
        }
        assert_int_equal(status, VRAM_ENOMEM);
    }
}

static void test_scenario(void **state)
{
    (void)state;
    every_allocation(try_scenario, false);
    every_allocation(try_scenario, true);
}

static void test_fit_on_card(void **state)
{
    (void)state;
    every_allocation(fit_on_card, false);
    every_allocation(fit_on_card, true);
}

static void test_fit_on_any(void **state)
{
    (void)state;
    every_allocation(fit_on_any, false);
    every_allocation(fit_on_any, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenario),
        cmocka_unit_test(test_fit_on_card),
        cmocka_unit_test(test_fit_on_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
