/* SPDX-License-Identifier: MIT
 * `vram ledger`: published arithmetic. The four scenarios of a 7e9-parameter model (Llama-2-7B's KV cache: 2
 * x 32 layers x 32 heads x 128 x 2 B = 524,288 B a token) and their totals 17.6, 47.6, 35.9 and 104.3 GiB; 16
 * bytes a parameter of mixed Adam (ZeRO paper); Qwen2.5-1.5B's logits and KV cache. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "scenario_world.h"

/* "key value key value ..." */
static void set(world *w, const char *settings)
{
    char text[512], *rest = text, *key;
    strncpy(text, settings, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    while ((key = strtok_r(rest, " ", &rest)) != NULL) {
        const char *value = strtok_r(rest, " ", &rest);
        if (vram_scenario_set(w->s, key, value) != VRAM_OK)
            fail_msg("%s %s: %s", key, value, vram_last_error(w->ctx)->text);
    }
}

static const vr_scenario_result *solve(world *w)
{
    if (vram_scenario_solve(w->s) != VRAM_OK)
        fail_msg("%s", vram_last_error(w->ctx)->text);
    return &w->s->results[0];
}

static uint64_t tenths(uint64_t bytes)
{
    return vr_mul_div(bytes, 10, VR_GIB);
}

static void check_invariants(const vr_scenario_result *r)
{
    uint64_t six = 0;
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        const vr_figure *f = &r->ledger.category[c];
        six += f->bytes;
        assert_true(f->low <= f->bytes && f->bytes <= f->high);
        assert_non_null(f->formula);
        assert_true(f->counted || f->basis == VR_BASIS_NOT_COUNTED);
    }
    assert_int_equal(six, r->ledger.required);
    assert_true(r->ledger.required_low <= r->ledger.required &&
                r->ledger.required <= r->ledger.required_high);
}

#define SERVE "params 7e9 context 4096 kv_bytes_per_token 524288 overhead 0.2 gpu_memory_gib 24,80 "

static void check_published(const char *settings, uint64_t total_tenths, vram_verdict in_24,
                            vram_verdict in_80)
{
    world w;
    open_world(&w);
    set(&w, settings);
    const vr_scenario_result *r = solve(&w);
    check_invariants(r);
    assert_int_equal(tenths(r->ledger.required), total_tenths);
    assert_int_equal(r->n_cards, 2);
    assert_int_equal(r->cards[0].verdict, in_24);
    assert_int_equal(r->cards[1].verdict, in_80);
    assert_int_equal(vram_scenario_verdict(w.s), in_24 > in_80 ? in_24 : in_80);
    assert_false(r->ledger.category[VR_ACTIVATIONS].counted);
    assert_true(r->ledger.partial);
    close_world(&w);
}

static void test_published_totals(void **state)
{
    (void)state;
    check_published(SERVE, 176, VRAM_FITS, VRAM_FITS);
    check_published(SERVE "sequences 16", 476, VRAM_DOES_NOT_FIT, VRAM_FITS);
    check_published(SERVE "sequences 16 weight_bytes 0.5", 359, VRAM_DOES_NOT_FIT, VRAM_FITS);
    check_published("params 7e9 mode train gpu_memory_gib 24,80", 1043, VRAM_DOES_NOT_FIT, VRAM_DOES_NOT_FIT);
    check_published("params 7e9 mode train gpu_memory_gib 24,80 context 4096 kv_bytes_per_token 524288", 1043,
                    VRAM_DOES_NOT_FIT, VRAM_DOES_NOT_FIT);
    check_published(SERVE "sequences 16 weight_bytes int4 kv_bytes_per_token 262144", 199, VRAM_FITS,
                    VRAM_FITS);
}

static void test_training_states(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    set(&w, "params 7e9 mode train gpu_memory_gib 24");
    const vr_scenario_result *r = solve(&w);
    assert_int_equal(r->ledger.category[VR_WEIGHTS].bytes, 14000000000);
    assert_int_equal(r->ledger.category[VR_GRADIENTS].bytes, 14000000000);
    assert_int_equal(r->ledger.category[VR_OPTIMIZER].bytes, 84000000000);
    assert_true(r->ledger.category[VR_KV_CACHE].counted);
    assert_int_equal(r->ledger.category[VR_KV_CACHE].bytes, 0);
    assert_int_equal(r->cards[0].smallest_count, 5); /* 104.3 / 24 */
    assert_non_null(strstr(r->count_note, "real sharding is never perfect"));
    close_world(&w);
}

static void test_fp32_and_frozen(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    set(&w, "params 1e9 mode train weight_bytes fp32");
    const vr_scenario_result *r = solve(&w);
    assert_int_equal(r->ledger.category[VR_WEIGHTS].bytes, 4000000000);
    assert_int_equal(r->ledger.category[VR_GRADIENTS].bytes, 4000000000);
    assert_int_equal(r->ledger.category[VR_OPTIMIZER].bytes, 8000000000);
    close_world(&w);
    open_world(&w);
    set(&w, "params 1e9 mode train trainable 1%");
    r = solve(&w);
    assert_int_equal(r->ledger.category[VR_WEIGHTS].bytes, 2000000000);
    assert_int_equal(r->ledger.category[VR_GRADIENTS].bytes, 20000000);
    assert_int_equal(r->ledger.category[VR_OPTIMIZER].bytes, 120000000);
    close_world(&w);
}

/* Eight sequences of the 1.5B from 4,096 to 8,192 tokens: KV +896 MiB, logits of one prefill 1,187 to 2,374
 * MiB. */
static void test_doubling_the_context(void **state)
{
    world w;
    (void)state;
    uint64_t kv[2], logits[2];
    for (int i = 0; i < 2; i++) {
        open_world(&w);
        set(&w,
            "params 1543714304 sequences 8 layers 28 hidden 1536 heads 12 kv_heads 2 ffn 8960 vocab 151936");
        set(&w, i == 0 ? "context 4096" : "context 8192");
        const vr_scenario_result *r = solve(&w);
        check_invariants(r);
        assert_int_equal(r->kv_per_token, 28672);
        kv[i] = r->ledger.category[VR_KV_CACHE].bytes;
        logits[i] = r->logits_bytes;
        assert_int_equal(r->ledger.item[VR_ITEM_LOGITS].bytes, logits[i]);
        close_world(&w);
    }
    assert_int_equal(kv[1] - kv[0], 896 * VR_MIB);
    assert_int_equal(logits[0], 1187 * VR_MIB);
    assert_int_equal(logits[1], 2374 * VR_MIB);
}

/* 13B at 16 bits, 8,192 tokens, 128,000 words, 24 GiB, Llama-2-13B's cache: 24.2 + 6.25 + 1.95 GiB and what
 * is not given. */
static void test_four_items(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    set(&w, "params 13e9 context 8192 vocab 128000 kv_bytes_per_token 819200 gpu_memory_gib 24");
    const vr_scenario_result *r = solve(&w);
    check_invariants(r);
    assert_int_equal(r->ledger.category[VR_WEIGHTS].bytes, 26000000000);
    assert_int_equal(r->ledger.category[VR_KV_CACHE].bytes, 6400 * VR_MIB);
    assert_int_equal(r->ledger.category[VR_ACTIVATIONS].bytes, 2000 * VR_MIB);
    assert_true(r->activations_partly);
    assert_int_equal(r->ledger.least_certain, VR_OVERHEAD);
    assert_int_equal(r->verdict, VRAM_DOES_NOT_FIT);
    assert_int_equal(r->cards[0].smallest_count, 2);
    close_world(&w);
}

/* A layer's live set of Qwen2.5-1.5B: two hidden and three feed-forward tensors of 16 bits, 59,904 B a token;
 * with the last logits only it is the peak. */
static void test_layer_peak(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    set(&w, "params 1543714304 context 4096 layers 28 hidden 1536 ffn 8960 vocab 151936 heads 12 kv_heads 2 "
            "logits last");
    const vr_scenario_result *r = solve(&w);
    const vr_figure *acts = &r->ledger.category[VR_ACTIVATIONS];
    check_invariants(r);
    assert_int_equal(r->logits_bytes, 303872);
    assert_int_equal(acts->bytes, 4096 * 59904);
    assert_true(acts->low < acts->bytes && acts->bytes < acts->high);
    assert_false(r->activations_partly);
    close_world(&w);
}

/* Saved for the backward pass, Llama-3.1-8B (h 4096, q 4096, k 1024, f 14336): 16h + 4q + 4k + 8f = 200,704 B
 * a token and layer, 32 layers; the loss 14 B a word, 128,256 words. */
static void test_training_activations(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    set(&w, "params 8030261248 mode train sequences 2 context 2048 layers 32 hidden 4096 ffn 14336 heads 32 "
            "kv_heads 8 "
            "vocab 128256");
    const vr_scenario_result *r = solve(&w);
    check_invariants(r);
    assert_int_equal(r->layer_bytes, UINT64_C(4096) * 32 * 200704);
    assert_int_equal(r->logits_bytes, UINT64_C(4096) * 128256 * 14);
    assert_int_equal(r->ledger.category[VR_ACTIVATIONS].bytes, r->layer_bytes + r->logits_bytes);
    assert_int_equal(r->ledger.least_certain, VR_OVERHEAD);
    close_world(&w);
}

/* ---- levers ---- */

static const vr_scenario_lever *find(const vr_scenario_result *r, const char *id)
{
    for (size_t i = 0; i < r->n_levers; i++) {
        if (strcmp(r->levers[i].ids[0], id) == 0)
            return &r->levers[i];
    }
    return NULL;
}

static void test_levers(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    set(&w, SERVE "sequences 16");
    const vr_scenario_result *r = solve(&w);
    assert_int_equal(find(r, "half_sequences")->saved, 16 * VR_GIB);
    assert_int_equal(find(r, "half_context")->saved, 16 * VR_GIB);
    assert_int_equal(find(r, "kv_8bit")->saved, 16 * VR_GIB);
    assert_int_equal(find(r, "weights_8bit")->saved, 8400000000); /* and the overhead on it */
    assert_string_equal(find(r, "weights_4bit")->option, "--weight-bytes 0.5");
    assert_string_equal(find(r, "half_sequences")->change, "8 sequences instead of 16");
    assert_null(find(r, "freeze_99"));
    assert_null(find(r, "weights_16bit"));
    for (size_t i = 0; i < r->n_levers; i++)
        assert_int_equal(r->levers[i].rank, i + 1);
    const vr_scenario_lever *both = r->cards[0].combination;
    assert_int_equal(both->n_ids, 2);
    assert_true(both->fits[0]);
    assert_true(both->required <= 24 * VR_GIB);
    assert_null(r->cards[1].combination);
    close_world(&w);
}

/* INT4 weights with an INT8 cache: 19.9 GiB, one lever away from 35.9. */
static void test_quantised_cache_lever(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    set(&w, SERVE "sequences 16 weight_bytes 0.5");
    const vr_scenario_result *r = solve(&w);
    const vr_scenario_lever *kv = find(r, "kv_8bit");
    assert_int_equal(tenths(kv->required), 199);
    assert_true(kv->fits[0]);
    assert_int_equal(r->cards[0].combination->n_ids, 1);
    close_world(&w);
}

/* Full training: freezing 99 % comes down to 2P + 0.14P = 13.95 GiB; only then can weights be stored in fewer
 * bits. */
static void test_training_levers(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    set(&w, "params 7e9 mode train gpu_memory_gib 24,6,1");
    const vr_scenario_result *r = solve(&w);
    assert_int_equal(r->n_levers, 1);
    assert_string_equal(r->levers[0].ids[0], "freeze_99");
    assert_int_equal(r->levers[0].required, 14980000000);
    assert_int_equal(r->cards[0].combination->n_ids, 1);
    assert_int_equal(r->cards[1].combination->n_ids, 2);
    assert_string_equal(r->cards[1].combination->ids[1], "weights_4bit");
    assert_string_equal(r->cards[1].combination->option, "--trainable 0.01 --weight-bytes 0.5");
    assert_null(r->cards[2].combination);
    assert_non_null(r->cards[2].combination_note);
    close_world(&w);
}

/* No smaller set of levers fits, by trying all of them as scenarios of their own. */
static void test_combination_is_smallest(void **state)
{
    static const char *const settings[] = { "sequences 8", "context 2048", "kv_bytes_per_token 262144",
                                            "weight_bytes 1", "weight_bytes 0.5" };
    world w;
    (void)state;
    open_world(&w);
    set(&w, SERVE "sequences 16");
    assert_int_equal(solve(&w)->cards[0].combination->n_ids, 2);
    close_world(&w);
    for (size_t i = 0; i < 5; i++) {
        open_world(&w);
        set(&w, SERVE "sequences 16");
        set(&w, settings[i]);
        assert_int_equal(solve(&w)->cards[0].verdict, VRAM_DOES_NOT_FIT);
        close_world(&w);
    }
}

/* ---- settings ---- */

static void test_settings_say_who(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    set(&w, "params 7B context 4k gpu_memory_gib 24 gpu_memory_gib 80.5 gpus 2 weight_bytes 0.50");
    const vr_scenario_result *r = solve(&w);
    assert_int_equal(r->numbers.params, 7000000000);
    assert_int_equal(r->numbers.context, 4000);
    assert_int_equal(r->cards[1].available, 161 * VR_GIB);
    for (size_t i = 0; i < r->n_settings; i++) {
        const vr_scenario_setting *g = &r->settings[i];
        if (g->number == VR_NUM_GPU_MEMORY_GIB)
            assert_string_equal(g->value, "24, 80.50");
        if (g->number == VR_NUM_WEIGHT_BYTES) {
            assert_string_equal(g->value, "0.5");
            assert_int_equal(g->set_by, VR_BY_USER);
        }
        if (g->number == VR_NUM_SEQUENCES)
            assert_int_equal(g->set_by, VR_BY_DEFAULT);
    }
    close_world(&w);
}

static void test_without_a_card(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    set(&w, "params 7e9");
    const vr_scenario_result *r = solve(&w);
    assert_int_equal(r->n_cards, 0);
    assert_int_equal(vram_scenario_verdict(w.s), VRAM_FITS);
    assert_null(r->count_note);
    assert_false(r->ledger.category[VR_KV_CACHE].counted);
    assert_false(r->ledger.category[VR_OVERHEAD].counted);
    close_world(&w);
}

static void test_options_name_every_number(void **state)
{
    size_t n;
    const vram_option *o = vram_scenario_options(&n);
    (void)state;
    assert_true(n > VR_NUMBER_COUNT);
#define X(id, word) assert_string_equal(o[VR_NUM_##id].key, word);
    VR_NUMBERS(X)
#undef X
    assert_int_equal(vr_number_flag(VR_NUM_CONTEXT).n, strlen("--context"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_totals),
        cmocka_unit_test(test_training_states),
        cmocka_unit_test(test_fp32_and_frozen),
        cmocka_unit_test(test_doubling_the_context),
        cmocka_unit_test(test_four_items),
        cmocka_unit_test(test_layer_peak),
        cmocka_unit_test(test_training_activations),
        cmocka_unit_test(test_levers),
        cmocka_unit_test(test_quantised_cache_lever),
        cmocka_unit_test(test_training_levers),
        cmocka_unit_test(test_combination_is_smallest),
        cmocka_unit_test(test_settings_say_who),
        cmocka_unit_test(test_without_a_card),
        cmocka_unit_test(test_options_name_every_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
