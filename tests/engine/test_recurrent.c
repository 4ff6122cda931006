/* SPDX-License-Identifier: MIT
 * Recurrent layers on the tape: states that do not grow, what is not computed, and sizes that nothing has.
 * Event by event they are held against recorded runs in test_oracle.c. */
#include "planned.h"

#define DELTA                                                                                                \
    "{\"model_type\":\"qwen3_5_text\",\"torch_dtype\":\"bfloat16\",\"hidden_size\":512,"                     \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":64,\"intermediate_size\":1024,"        \
    "\"num_hidden_layers\":4,\"vocab_size\":2048,\"linear_num_key_heads\":2,"                                \
    "\"linear_num_value_heads\":4,\"linear_key_head_dim\":32,\"linear_value_head_dim\":48"
#define MAMBA_OF(layers)                                                                                     \
    "{\"model_type\":\"nemotron_h\",\"torch_dtype\":\"bfloat16\",\"hidden_size\":512,"                       \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":64,\"intermediate_size\":1024,"        \
    "\"vocab_size\":2048,\"mamba_num_heads\":8,\"mamba_head_dim\":32,\"n_groups\":2,"                        \
    "\"ssm_state_size\":16,\"hybrid_override_pattern\":\"" layers "\""
#define MAMBA MAMBA_OF("M*-M")

/* Of one sequence in three layers of four: channels x taps in 16 bits, heads x keys x values in 32. */
#define DELTA_STATES (UINT64_C(3) * ((2 * 2 * 32 + 4 * 48) * 4 * 2 + 4 * 32 * 48 * 4))

/* Keys and values of what attends, and the states: the convolution's in bf16, the recurrent one in fp32. */
static void states_do_not_grow(void **state)
{
    const uint64_t mamba = 2 * ((8 * 32 + 2 * 2 * 16) * 4 * 2 + 8 * 32 * 16 * 4);
    const struct {
        const char *config, *version;
        uint64_t states;
    } cases[] = { { DELTA "}", "5.17", DELTA_STATES },
                  { DELTA "}", "5.24", DELTA_STATES },
                  { MAMBA "}", "5.17", mamba },
                  { MAMBA "}", "5.24", mamba } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        planned p;
        open_config(&p.w, cases[i].config);
        plan_it(&p, cases[i].version, 300, 5);
        if (!p.plan.counted[VR_ACTIVATIONS])
            fail_msg("%zu: %s", i, p.plan.why_not[VR_ACTIVATIONS]);
        assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_PREFILL), cases[i].states + 300 * 2 * 2 * 64 * 2);
        assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_DECODE), cases[i].states + 305 * 2 * 2 * 64 * 2);
        assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_RELEASED), 0);
        assert_non_null(strstr(p.plan.formula[VR_ACTIVATIONS], "are not installed"));
        close_planned(&p);
    }
}

/* Prompts shorter than the convolution, of whole chunks, and of many. */
static void all_is_given_back(void **state)
{
    static const unsigned long long tokens[] = { 1, 3, 4, 64, 65, 128, 5000 };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof tokens / sizeof *tokens; i++) {
        planned p;
        open_config(&p.w, i % 2 == 0 ? DELTA "}" : MAMBA "}");
        plan_it(&p, "5.24", tokens[i / 2], 2);
        assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_RELEASED), 0);
        close_planned(&p);
    }
}

/* Weights, keys and states are known all the same. */
static void no_tape(void **state)
{
    planned p;
    (void)state;
    open_config(&p.w, DELTA "}");
    plan_it(&p, "4.57", 300, 0);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    assert_non_null(strstr(p.plan.why_not[VR_ACTIVATIONS], "recurrent layers"));
    assert_true(p.plan.counted[VR_KV_CACHE]);
    assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_RELEASED), DELTA_STATES + 300 * 2 * 2 * 64 * 2);
    close_planned(&p);
}

/* By the shapes and types of the caches that transformers 5.24 makes on a CPU (more_parameters.tsv; the
 * models are of tests/oracle/more_classes.json), in bf16. */
static void kept_without_a_tape(void **state)
{
#define WIDTHS "\"hidden_size\":192,\"num_attention_heads\":6,\"vocab_size\":101,\"torch_dtype\":\"bfloat16\""
    static const struct {
        const char *config;
        uint64_t states, token; /* bytes */
    } cases[] = {
        { "{\"model_type\":\"mamba\",\"num_hidden_layers\":3,\"hidden_size\":200,\"vocab_size\":101}",
          3 * (400 * 4 * 2 + 400 * 16 * 4), 0 },
        { "{\"model_type\":\"mamba2\",\"num_hidden_layers\":3,\"num_heads\":6,\"n_groups\":2," WIDTHS "}",
          3 * (896 * 4 * 2 + 6 * 64 * 128 * 4), 0 },
        { "{\"model_type\":\"jamba\",\"num_hidden_layers\":9,\"num_key_value_heads\":2," WIDTHS "}",
          8 * (384 * 4 * 2 + 384 * 16 * 4), 2 * 2 * 32 * 2 },
        { "{\"model_type\":\"falcon_h1\",\"num_hidden_layers\":3,\"num_key_value_heads\":2,"
          "\"mamba_n_heads\":6,\"mamba_d_ssm\":384," WIDTHS "}",
          3 * (896 * 4 * 2 + 6 * 64 * 256 * 4), 3 * 2 * 2 * 32 * 2 },
        { "{\"model_type\":\"zamba2\",\"num_hidden_layers\":2,\"layers_block_type\":[\"mamba\",\"hybrid\"],"
          "\"n_mamba_heads\":6," WIDTHS "}",
          2 * (512 * 4 * 2 + 6 * 64 * 64 * 4), 2 * 6 * 64 * 2 },
        { "{\"model_type\":\"lfm2\",\"num_hidden_layers\":4,\"num_key_value_heads\":2,"
          "\"full_attn_idxs\":[2]," WIDTHS "}",
          3 * 192 * 3 * 2, 2 * 2 * 32 * 2 },
        { "{\"model_type\":\"recurrent_gemma\",\"num_hidden_layers\":5,\"num_key_value_heads\":1," WIDTHS "}",
          4 * (192 * 3 * 2 + 192 * 4), 2 * 32 * 2 },
        { "{\"model_type\":\"falcon\",\"num_hidden_layers\":3,\"num_kv_heads\":2,"
          "\"new_decoder_architecture\":true," WIDTHS "}",
          0, 3 * 2 * 6 * 32 * 2 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        planned p;
        open_config(&p.w, cases[i].config);
        plan_it(&p, "5.24", 300, 0);
        if (!p.plan.counted[VR_KV_CACHE])
            fail_msg("%zu: %s", i, p.plan.why_not[VR_KV_CACHE]);
        assert_false(p.plan.counted[VR_ACTIVATIONS]);
        assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_RELEASED), cases[i].states + 300 * cases[i].token);
        close_planned(&p);
        open_config(&p.w, cases[i].config);
        plan_it(&p, "4.57", 300, 0);
        bool older = cases[i].states != 0 && strstr(cases[i].config, "lfm2") == NULL;
        assert_true(p.plan.counted[VR_KV_CACHE] == !older);
        close_planned(&p);
    }
}

static void sizes_that_nothing_has(void **state)
{
    static const char *const configs[] = {
        "{\"model_type\":\"qwen3_5_text\",\"linear_num_key_heads\":1024,\"linear_num_value_heads\":1024,"
        "\"linear_key_head_dim\":4096,\"linear_value_head_dim\":4096,\"num_hidden_layers\":4}",
        "{\"model_type\":\"nemotron_h\",\"hybrid_override_pattern\":\"M*\",\"mamba_num_heads\":65536,"
        "\"mamba_head_dim\":128,\"ssm_state_size\":65536,\"n_groups\":1,\"chunk_size\":65536}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        planned p;
        open_config(&p.w, configs[i]);
        set(&p.w, "engine_version", "5.17");
        set_number(&p.w, "context", 1000000000);
        assert_int_equal(make_plan(&p.w, &ampere, &p.plan, &p.arena), VRAM_ELIMIT);
        close_planned(&p);
    }
}

/* A shared expert of no width: its matrices are there, and empty. */
static void matrices_of_nothing(void **state)
{
    static const char *const kinds[] = { "none", "bnb-8bit", "bnb-4bit", "bnb-4bit-dq" };
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        planned p;
        open_config(
            &p.w, MAMBA_OF("M*-E") ",\"n_routed_experts\":2,\"num_experts_per_tok\":1,"
                                   "\"moe_intermediate_size\":64,\"moe_shared_expert_intermediate_size\":0}");
        set(&p.w, "quantization", kinds[i]);
        plan_it(&p, "5.24", 16, 0);
        assert_true(p.plan.counted[VR_WEIGHTS]);
        close_planned(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_do_not_grow),
        cmocka_unit_test(all_is_given_back),
        cmocka_unit_test(no_tape),
        cmocka_unit_test(kept_without_a_tape),
        cmocka_unit_test(sizes_that_nothing_has),
        cmocka_unit_test(matrices_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
