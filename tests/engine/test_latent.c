/* SPDX-License-Identifier: MIT
 * Latent attention on the tape: what each version's cache keeps, to the byte; which kernel runs; that all is
 * given back. Event by event it is held against recorded runs in test_oracle.c. */
#include "planned.h"

/* Widths of DeepSeek-V3 in two dense layers, and of GLM-5 in three, of which the last shares an index. */
#define V3                                                                                                   \
    "{\"model_type\":\"deepseek_v3\",\"torch_dtype\":\"bfloat16\",\"hidden_size\":7168,"                     \
    "\"num_hidden_layers\":2,\"num_attention_heads\":128,\"num_key_value_heads\":128,"                       \
    "\"intermediate_size\":18432,\"first_k_dense_replace\":2,\"vocab_size\":2048}"
#define GLM_5                                                                                                \
    "{\"model_type\":\"glm_moe_dsa\",\"torch_dtype\":\"bfloat16\",\"num_hidden_layers\":3,"                  \
    "\"mlp_layer_types\":[\"dense\",\"dense\",\"dense\"],"                                                   \
    "\"indexer_types\":[\"full\",\"full\",\"shared\"],\"vocab_size\":2048}"

/* Bytes of one token over all layers: all heads up to 5.14, short vectors from 5.15, with an index from 5.18.
 */
static void cache_by_version(void **state)
{
    static const struct {
        const char *config, *version;
        uint64_t token;
    } cases[] = {
        { V3, "4.57", UINT64_C(2) * 128 * (192 + 128) * 2 },
        { V3, "5.14", UINT64_C(2) * 128 * (192 + 128) * 2 },
        { V3, "5.15", UINT64_C(2) * (512 + 64) * 2 },
        { V3, "5.24", UINT64_C(2) * (512 + 64) * 2 },
        { GLM_5, "5.17", (UINT64_C(3) * 64 * (256 + 256) + 2 * 128) * 2 },
        { GLM_5, "5.18", (UINT64_C(3) * (512 + 64) + 2 * 128) * 2 },
        { GLM_5, "5.24", (UINT64_C(3) * (512 + 64) + 2 * 128) * 2 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        planned p;
        open_config(&p.w, cases[i].config);
        plan_it(&p, cases[i].version, 1000, 5);
        if (!p.plan.counted[VR_ACTIVATIONS])
            fail_msg("%zu: %s", i, p.plan.why_not[VR_ACTIVATIONS]);
        assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_PREFILL), 1000 * cases[i].token);
        assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_DECODE), 1005 * cases[i].token);
        close_planned(&p);
    }
}

/* The whole DeepSeek-V3, 32,768 tokens: 4,997,120 bytes each of all heads, 2.14 GiB in all as short vectors.
 */
static void deepseek_v3(void **state)
{
    static const char config[] = "{\"model_type\":\"deepseek_v3\",\"torch_dtype\":\"bfloat16\"}";
    planned p;
    (void)state;
    open_config(&p.w, config);
    plan_it(&p, "4.57", 32768, 0);
    assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_PREFILL), UINT64_C(4997120) * 32768);
    close_planned(&p);
    open_config(&p.w, config);
    plan_it(&p, "5.17", 32768, 0);
    assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_PREFILL), UINT64_C(70272) * 32768);
    close_planned(&p);
}

static bool takes(const vr_tape *t, const char *words, uint64_t bytes)
{
    for (size_t i = 0; i < t->n; i++) {
        vr_str label = t->labels[t->events[i].label];
        if (t->events[i].kind == VR_EV_ALLOC && t->events[i].bytes == bytes && vr_str_is(label, words))
            return true;
    }
    return false;
}

/* Keys are wider than values, which PyTorch's flash kernel refuses: the memory-efficient one sums in 32 bits
 * outside its registers. The flash_attn package gets padded values. */
static void kernels(void **state)
{
    planned p;
    (void)state;
    open_config(&p.w, V3);
    set(&p.w, "attention", "sdpa");
    plan_it(&p, "5.24", 100, 0);
    assert_true(takes(&p.plan.tape, "sums of the attention kernel", 100 * 128 * 128 * 4));
    assert_false(p.plan.verified);
    close_planned(&p);
    open_config(&p.w, V3);
    set(&p.w, "attention", "flash");
    plan_it(&p, "5.24", 100, 0);
    assert_true(
        takes(&p.plan.tape, "model.layers.0.self_attn repeated keys and values", 100 * 128 * 192 * 2));
    assert_false(takes(&p.plan.tape, "sums of the attention kernel", 100 * 128 * 128 * 4));
    close_planned(&p);
}

static void all_is_given_back(void **state)
{
    static const char *const versions[] = { "4.57", "5.17", "5.24" };
    static const char *const ways[] = { "eager", "sdpa", "flash" };
    (void)state;
    for (size_t i = 0; i < 9; i++) {
        planned p;
        size_t live = 0;
        open_config(&p.w, V3);
        set(&p.w, "attention", ways[i % 3]);
        set_number(&p.w, "sequences", 3);
        plan_it(&p, versions[i / 3], 33, 2);
        bool loaded = false;
        for (size_t k = 0; k < p.plan.tape.n; k++) {
            const vr_event *e = &p.plan.tape.events[k];
            loaded = loaded || (e->kind == VR_EV_MARK && e->bytes == VR_AT_LOADED);
            live += loaded && e->kind == VR_EV_ALLOC && e->item != VR_ITEM_WORKSPACES;
            live -= loaded && e->kind == VR_EV_RELEASE;
        }
        assert_int_equal(live, 0);
        close_planned(&p);
    }
}

static void too_large(void **state)
{
    planned p;
    (void)state;
    open_config(
        &p.w, "{\"model_type\":\"deepseek_v32\",\"num_attention_heads\":65536,\"num_key_value_heads\":65536,"
              "\"qk_nope_head_dim\":65536,\"v_head_dim\":65536,\"kv_lora_rank\":16777216,"
              "\"index_n_heads\":65536,\"index_head_dim\":65536,\"mlp_layer_types\":[\"dense\"],"
              "\"num_hidden_layers\":1}");
    set_number(&p.w, "context", 1000000000);
    assert_int_equal(make_plan(&p.w, &ampere, &p.plan, &p.arena), VRAM_ELIMIT);
    close_planned(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_by_version),  cmocka_unit_test(deepseek_v3), cmocka_unit_test(kernels),
        cmocka_unit_test(all_is_given_back), cmocka_unit_test(too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
