/* SPDX-License-Identifier: MIT
 * Levers: which are offered, what to type, how they rank, pairs, and the smallest card. */
#include "support.h"

static const vr_lever *find(const vram_fit *f, const char *first, const char *second)
{
    for (size_t i = 0; i < f->n_levers; i++) {
        const vr_lever *v = &f->levers[i];
        bool same = second == NULL ? v->ids[1] == NULL : v->ids[1] != NULL && strcmp(v->ids[1], second) == 0;
        if (same && strcmp(v->ids[0], first) == 0)
            return v;
    }
    return NULL;
}

static void check_ranks(const vram_fit *f)
{
    check_invariants(f);
    for (size_t i = 0; i < f->n_levers; i++) {
        assert_int_equal(f->levers[i].rank, i + 1);
        assert_non_null(f->levers[i].change);
        assert_non_null(f->levers[i].cost);
        assert_non_null(f->levers[i].option);
        if (i > 0)
            assert_true(f->levers[i - 1].fits || !f->levers[i].fits);
        assert_int_equal(f->levers[i].saved, (int64_t)(f->ledger.required - f->levers[i].required));
    }
    assert_non_null(f->ranked_by);
}

/* Published figures for the 1.5B: 3,534 MiB reserved with the last logits only, so 134 more for the driver.
 */
static void test_singles(void **state)
{
    world s;
    (void)state;
    open_world(&s, &QWEN_1_5B);
    vram_fit *f = fit(&s, device(&s, "rtx-3060-12gb", 0));
    check_ranks(f);
    const vr_lever *last = find(f, "logits_last", NULL);
    assert_non_null(last);
    assert_int_equal(IN_MIB(last->required), 3534 + 134);
    assert_true(last->fits);
    assert_string_equal(last->option, "--logits last");
    assert_non_null(strstr(last->flag, "logits_to_keep=1"));
    const vr_lever *segments = find(f, "expandable_segments", NULL);
    assert_non_null(segments);
    assert_int_equal(IN_MIB(segments->required), 4308 + 134);
    assert_string_equal(segments->flag, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    assert_non_null(find(f, "half_context", NULL));
    assert_non_null(find(f, "weights_8bit", NULL));
    assert_null(find(f, "half_sequences", NULL)); /* there is one */
    assert_null(find(f, "dtype_16bit", NULL));    /* it is bf16 */
    assert_null(find(f, "attention_sdpa", NULL)); /* it is sdpa */
    assert_null(find(f, "another_gpu", NULL));    /* it fits */
    close_world(&s);
}

static void test_words_by_version(void **state)
{
    world s;
    (void)state;
    open_world(&s, &QWEN_1_5B);
    s.work.version_major = 4;
    s.work.version_minor = 47;
    s.work.dtype = VR_F32;
    vram_fit *f = fit(&s, device(&s, "24GiB", 0));
    assert_non_null(strstr(find(f, "logits_last", NULL)->flag, "num_logits_to_keep=1"));
    assert_string_equal(find(f, "dtype_16bit", NULL)->flag, "torch_dtype=torch.bfloat16");
    assert_string_equal(find(f, "dtype_16bit", NULL)->cost, "nothing: the checkpoint is stored in 16 bits");
    s.work.version_minor = 44; /* all logits in every prefill, nothing to be done about it */
    f = fit(&s, device(&s, "24GiB", 0));
    assert_null(find(f, "logits_last", NULL));
    s.model.dtype = VR_F32;
    s.work.version_minor = 56;
    f = fit(&s, device(&s, "24GiB", 0));
    assert_string_equal(find(f, "dtype_16bit", NULL)->flag, "dtype=torch.bfloat16");
    assert_string_equal(find(f, "dtype_16bit", NULL)->cost, "rounding that is rarely seen");
    close_world(&s);
}

/* A checkpoint that is quantised already is not quantised again, and a short context is not halved. */
static void test_what_does_not_apply(void **state)
{
    world s;
    (void)state;
    open_world(&s, &QWEN_1_5B);
    s.model.quantised = true;
    s.work.context = 511;
    s.work.logits = VR_LOGITS_LAST;
    s.work.alloc.expandable_segments = true;
    vram_fit *f = fit(&s, device(&s, "24GiB", 0));
    assert_int_equal(f->n_levers, 0);
    s.work.context = 512;
    f = fit(&s, device(&s, "24GiB", 0));
    assert_int_equal(f->n_levers, 1);
    assert_string_equal(f->levers[0].ids[0], "half_context");
    close_world(&s);
}

/* The 7B on 12 GB: 16-bit weights cannot stay; 8 bits fit and come before 4 bits and before another card. */
static void test_large_model(void **state)
{
    world s;
    (void)state;
    open_world(&s, &QWEN_7B);
    s.work.logits = VR_LOGITS_LAST;
    vram_fit *f = fit(&s, device(&s, "rtx-3060-12gb", 0));
    check_ranks(f);
    assert_string_equal(f->levers[0].ids[0], "weights_8bit");
    assert_true(f->levers[0].fits);
    assert_int_equal(f->levers[0].basis, VR_BASIS_FORMULA);
    assert_string_equal(f->levers[0].flag, "quantization_config=BitsAndBytesConfig(load_in_8bit=True)");
    assert_string_equal(f->levers[1].ids[0], "weights_4bit");
    assert_string_equal(f->levers[2].ids[0], "another_gpu");
    assert_non_null(strstr(f->levers[2].option, "--gpu "));
    assert_false(find(f, "expandable_segments", NULL)->fits);
    assert_false(find(f, "half_context", NULL)->fits);
    for (size_t i = 0; i < f->n_levers; i++)
        assert_null(f->levers[i].ids[1]); /* a single one suffices */
    close_world(&s);
}

/* The card named is the smallest: it holds the model, and no smaller one of the table does. */
static void test_smallest_card(void **state)
{
    world s;
    (void)state;
    open_world(&s, &QWEN_7B);
    vram_fit *f = fit(&s, device(&s, "rtx-3060-12gb", 0)), *all = fit(&s, NULL);
    const vr_lever *larger = find(f, "another_gpu", NULL);
    const char *id = larger->option + strlen("--gpu ");
    for (size_t i = 0; i < all->n_cards; i++) {
        if (all->cards[i].verdict != VRAM_FITS)
            continue;
        assert_string_equal(all->cards[i].gpu->id, id);
        assert_int_equal(all->cards[i].required, larger->required);
        break;
    }
    close_world(&s);
}

/* Weights quantised already, eight long prompts: neither half suffices, but both together do. */
static void test_pairs(void **state)
{
    world s;
    (void)state;
    open_world(&s, &QWEN_1_5B);
    s.model.quantised = true;
    s.work.sequences = s.work.prefill_batch = 8;
    s.work.alloc.expandable_segments = true;
    s.work.logits = VR_LOGITS_LAST;
    vram_device d = *device(&s, "24GiB", 0);
    uint64_t needs = fit(&s, &d)->ledger.required;
    s.work.sequences = s.work.prefill_batch = 4;
    uint64_t half = fit(&s, &d)->ledger.required;
    assert_true(half < needs);
    s.work.sequences = s.work.prefill_batch = 8;
    uint64_t between = half - (needs - half) / 4;
    d.available = (vr_range){ between, between, between, VR_BASIS_MEASURED };
    vram_fit *f = fit(&s, &d);
    check_ranks(f);
    assert_false(find(f, "half_sequences", NULL)->fits);
    assert_false(find(f, "half_context", NULL)->fits);
    const vr_lever *both = find(f, "half_sequences", "half_context");
    assert_non_null(both);
    assert_true(both->fits);
    assert_int_equal(both->rank, 1);
    assert_string_equal(both->option, "--sequences 4 --prefill-batch 4 --context 2048");
    close_world(&s);
}

/* Each lever's figure is what the same fit says with the setting changed. */
static void test_levers_are_rehearsed(void **state)
{
    world s;
    (void)state;
    open_world(&s, &QWEN_7B);
    s.work.sequences = s.work.prefill_batch = 2;
    vram_device *d = device(&s, "rtx-4090-24gb", 0);
    vram_fit *f = fit(&s, d);
    const vr_lever *half = find(f, "half_sequences", NULL), *context = find(f, "half_context", NULL);
    s.work.sequences = s.work.prefill_batch = 1;
    vram_fit *one = fit(&s, d);
    assert_int_equal(one->ledger.required, half->required);
    assert_int_equal(one->verdict == VRAM_FITS, half->fits);
    s.work.sequences = s.work.prefill_batch = 2;
    s.work.context = 2048;
    assert_int_equal(fit(&s, d)->ledger.required, context->required);
    close_world(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_singles),
        cmocka_unit_test(test_words_by_version),
        cmocka_unit_test(test_what_does_not_apply),
        cmocka_unit_test(test_large_model),
        cmocka_unit_test(test_smallest_card),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_levers_are_rehearsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
