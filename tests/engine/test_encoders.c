/* SPDX-License-Identifier: MIT
 * Models with an encoder: T5's activation function, which its configuration names with the form of the MLP
 * (configuration_t5.py of transformers 5.24: "gated-gelu" is gelu_new), and what attention copies. Event by
 * event others are held against recorded runs in test_oracle.c. */
#include "planned.h"

#define T5                                                                                                   \
    "{\"model_type\":\"t5\",\"torch_dtype\":\"bfloat16\",\"num_layers\":2,\"d_model\":64,\"d_kv\":16,"       \
    "\"d_ff\":96,\"num_heads\":4,\"vocab_size\":256"
#define BERT                                                                                                 \
    "{\"model_type\":\"bert\",\"torch_dtype\":\"bfloat16\",\"num_hidden_layers\":2,\"hidden_size\":64,"      \
    "\"intermediate_size\":96,\"num_attention_heads\":4,\"vocab_size\":256}"
#define CALLED(word) T5 ",\"feed_forward_proj\":\"" word "\"}"

/* Storages of that name. */
static size_t taken(const vr_tape *t, const char *label)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->events[i].kind == VR_EV_ALLOC && vr_str_is(t->labels[t->events[i].label], label) ? 1 : 0;
    return n;
}

/* One operator is one storage: silu and relu are one, gelu_new is eight (activations.py, NewGELUActivation),
 * the square of relu two. */
static void an_operator_is_a_storage(void **state)
{
    static const struct {
        const char *config;
        size_t storages;
        bool gated;
    } cases[] = { { T5 "}", 1, false },
                  { CALLED("relu"), 1, false },
                  { CALLED("relu2"), 2, false },
                  { CALLED("gelu_new"), 8, false },
                  { CALLED("gelu"), 1, false },
                  { CALLED("gated-gelu"), 8, true },
                  { CALLED("gated-gelu_new"), 8, true },
                  { CALLED("gated-silu"), 1, true },
                  { CALLED("gated-relu2"), 2, true } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        planned p;
        open_config(&p.w, cases[i].config);
        plan_it(&p, "5.24", 30, 0);
        if (!p.plan.counted[VR_ACTIVATIONS])
            fail_msg("%zu: %s", i, p.plan.why_not[VR_ACTIVATIONS]);
        assert_int_equal(taken(&p.plan.tape, "encoder.block.1.mlp activation"), cases[i].storages);
        assert_int_equal(taken(&p.plan.tape, "decoder.block.1.mlp activation"), cases[i].storages);
        assert_int_equal(p.w.m->layers[0].mlp, cases[i].gated ? VR_MLP_GATED : VR_MLP_PLAIN);
        close_planned(&p);
    }
}

/* Weights and the cache are known all the same. */
static void others_are_not_counted(void **state)
{
    static const char *const configs[] = { CALLED("gated-mish"), CALLED("mish"), CALLED("gated-"),
                                           CALLED("new-gelu"), CALLED("") };
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        planned p;
        open_config(&p.w, configs[i]);
        plan_it(&p, "5.24", 30, 0);
        assert_false(p.plan.counted[VR_ACTIVATIONS]);
        assert_non_null(strstr(p.plan.why_not[VR_ACTIVATIONS], "activation function"));
        assert_true(p.plan.counted[VR_KV_CACHE]);
        close_planned(&p);
    }
}

/* q @ k^T, its scaling and the softmax; of several sequences of several tokens torch.matmul clones q, k and v
 * before: torch 2.15 under a TorchDispatchMode. */
static void single_tokens_are_not_copied(void **state)
{
    static const struct {
        const char *sequences;
        unsigned long long tokens;
        size_t storages;
    } cases[] = { { "1", 1, 3 }, { "1", 2, 3 }, { "3", 1, 3 }, { "3", 2, 6 } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        planned p;
        open_config(&p.w, BERT);
        set(&p.w, "attention", "eager");
        set(&p.w, "sequences", cases[i].sequences);
        plan_it(&p, "5.24", cases[i].tokens, 0);
        assert_int_equal(taken(&p.plan.tape, "encoder.layer.1.self_attn scores"), cases[i].storages);
        close_planned(&p);
    }
}

/* modeling_t5.py: _supports_flash_attn = False */
static void flash_is_refused(void **state)
{
    planned p;
    (void)state;
    open_config(&p.w, T5 "}");
    set(&p.w, "attention", "flash");
    plan_it(&p, "5.24", 30, 0);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    assert_non_null(strstr(p.plan.why_not[VR_ACTIVATIONS], "refuses flash"));
    close_planned(&p);
}

/* multilingual-e5 states 514 positions and takes 512 tokens: those of RoBERTa begin behind pad_token_id. */
static void positions_end(void **state)
{
    static const char roberta[] =
        "{\"model_type\":\"xlm-roberta\",\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":96,"
        "\"num_attention_heads\":4,\"vocab_size\":256,\"max_position_embeddings\":514,\"pad_token_id\":1}";
    const vram_warning *warnings;
    const vr_tensor *table;
    planned p;
    (void)state;
    open_config(&p.w, roberta);
    plan_it(&p, "5.24", 513, 0);
    assert_int_equal(p.w.m->max_context, 512);
    table = vr_checkpoint_find(p.w.m->checkpoint, VR_LIT("embeddings.position_embeddings.weight"));
    assert_non_null(table);
    assert_int_equal(table->dims[0], 514);
    size_t n = vram_warnings(p.w.ctx, &warnings), told = 0;
    for (size_t i = 0; i < n; i++)
        told += strstr(warnings[i].text, "513 tokens are more than the 512") != NULL &&
                strstr(warnings[i].text, "stops with an error") != NULL;
    assert_int_equal(told, 1);
    close_planned(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_is_a_storage),
        cmocka_unit_test(others_are_not_counted),
        cmocka_unit_test(single_tokens_are_not_copied),
        cmocka_unit_test(flash_is_refused),
        cmocka_unit_test(positions_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
