/* SPDX-License-Identifier: MIT
 * Mixtures of experts from their configurations: which layers have experts, how many and how wide; how many
 * parameters; and settings that make no sense. Parameter counts are publishers' (Mixtral, Qwen3: data/configs
 * total_size.tsv), or those of the classes of transformers 5.24 built on a meta device. */
#include "support.h"

#define COMMON                                                                                               \
    "\"num_hidden_layers\":6,\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2,"        \
    "\"intermediate_size\":96,\"vocab_size\":128"

static void open_config(world *w, const char *config)
{
    *w = (world){ 0 };
    open_world(w, config);
}

static void published_counts(void **state)
{
    static const struct {
        const char *config;
        uint64_t parameters;
    } cases[] = {
        /* Mixtral-8x7B, Qwen3-30B-A3B, Qwen3-235B-A22B */
        { "{\"model_type\":\"mixtral\"}", 46702792704 },
        { "{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":48,\"head_dim\":128,\"num_experts\":128}",
          30532122624 },
        { "{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":94,\"head_dim\":128,\"hidden_size\":4096,"
          "\"num_attention_heads\":64,\"moe_intermediate_size\":1536}",
          235093634560 },
        /* Qwen1.5-MoE-A2.7B, GLM-4.5-Air, MiniMax-M2, gpt-oss-20b and -120b, OLMoE-1B-7B: the classes */
        { "{\"model_type\":\"qwen2_moe\"}", 14315784192 },
        { "{\"model_type\":\"glm4_moe\",\"head_dim\":128,\"attention_bias\":true}", 106852245504 },
        { "{\"model_type\":\"minimax_m2\"}", 228689748992 },
        { "{\"model_type\":\"gpt_oss\",\"num_hidden_layers\":24,\"num_local_experts\":32}", 20914757184 },
        { "{\"model_type\":\"gpt_oss\"}", 116829156672 },
        { "{\"model_type\":\"olmoe\",\"intermediate_size\":1024}", 6919161856 },
        /* the decoders of Llama-4-Scout and Maverick */
        { "{\"model_type\":\"llama4_text\"}", 107769861120 },
        { "{\"model_type\":\"llama4_text\",\"num_local_experts\":128,\"interleave_moe_layer_step\":2}",
          400711848960 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        open_config(&w, cases[i].config);
        if (w.m->family == NULL)
            fail_msg("%s: %s", cases[i].config, w.m->not_understood);
        if (w.m->declared_parameters != cases[i].parameters)
            fail_msg("%s: %llu, not %llu", cases[i].config, (unsigned long long)w.m->declared_parameters,
                     (unsigned long long)cases[i].parameters);
        close_world(&w);
    }
}

/* "e": experts, "d": dense */
static void which_layers(void **state)
{
    static const struct {
        const char *config, *layers;
    } cases[] = {
        { "{\"model_type\":\"mixtral\"," COMMON "}", "eeeeee" },
        { "{\"model_type\":\"qwen3_moe\"," COMMON "}", "eeeeee" },
        { "{\"model_type\":\"qwen3_moe\"," COMMON ",\"decoder_sparse_step\":2}", "dedede" },
        { "{\"model_type\":\"qwen3_moe\"," COMMON ",\"decoder_sparse_step\":2,\"mlp_only_layers\":[1,9]}",
          "dddede" },
        { "{\"model_type\":\"glm4_moe\"," COMMON "}", "deeeee" },
        { "{\"model_type\":\"glm4_moe\"," COMMON ",\"first_k_dense_replace\":3}", "dddeee" },
        { "{\"model_type\":\"glm4_moe\"," COMMON ",\"first_k_dense_replace\":0,\"moe_layer_freq\":2}",
          "ededed" },
        { "{\"model_type\":\"glm4_moe\"," COMMON ",\"moe_layer_freq\":[0,1,1,0,1,0]}", "deeded" },
        { "{\"model_type\":\"glm4_moe\"," COMMON ",\"n_routed_experts\":null}", "dddddd" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        open_config(&w, cases[i].config);
        assert_non_null(w.m->family);
        for (uint64_t k = 0; k < w.m->n_layers; k++)
            assert_int_equal(w.m->layers[k].mlp == VR_MLP_EXPERTS, cases[i].layers[k] == 'e');
        close_world(&w);
    }
}

static void settings(void **state)
{
    world w;
    (void)state;
    open_config(&w,
                "{\"model_type\":\"glm4_moe\"," COMMON ",\"n_routed_experts\":12,\"num_experts_per_tok\":3,"
                "\"moe_intermediate_size\":40,\"n_shared_experts\":2,\"n_group\":4,\"topk_group\":2,"
                "\"use_qk_norm\":true}");
    const vr_layer *l = &w.m->layers[1];
    assert_int_equal(l->experts, 12);
    assert_int_equal(l->experts_used, 3);
    assert_int_equal(l->expert_ffn, 40);
    assert_int_equal(l->shared_ffn, 80);
    assert_int_equal(l->expert_groups, 4);
    assert_int_equal(l->groups_used, 2);
    assert_true(l->weights_normalised && w.m->family->qk_norm);
    assert_int_equal(w.m->layers[0].ffn, 96);
    close_world(&w);
    open_config(&w, "{\"model_type\":\"minimax_m2\"," COMMON ",\"head_dim\":32,\"rotary_dim\":16}");
    assert_int_equal(w.m->rotary_dim, 16);
    close_world(&w);
    open_config(&w, "{\"model_type\":\"gpt_oss\"," COMMON ",\"sliding_window\":8}");
    assert_true(w.m->layers[0].sinks);
    assert_int_equal(w.m->layers[0].window, 8);
    assert_int_equal(w.m->layers[1].window, 0);
    close_world(&w);
}

static void hostile(void **state)
{
    static const struct {
        const char *more;
        bool refused; /* an error, not a model that is not understood */
        const char *part;
    } cases[] = {
        { ",\"num_experts\":0", true, "num_experts is 0" },
        { ",\"num_experts\":-1", true, "num_experts is -1" },
        { ",\"num_experts\":1e9", true, "num_experts is 1e9" },
        { ",\"num_experts\":\"8\"", true, "num_experts is a string" },
        { ",\"num_experts\":4,\"num_experts_per_tok\":5", true, "num_experts_per_tok is 5" },
        { ",\"num_experts\":4", false, "of 4 experts a token takes 8" },
        { ",\"moe_intermediate_size\":99999999999", true, "moe_intermediate_size is 99999999999" },
        { ",\"decoder_sparse_step\":0", true, "decoder_sparse_step is 0" },
        { ",\"mlp_only_layers\":{}", true, "mlp_only_layers is an object" },
        { ",\"mlp_only_layers\":[-1]", true, "mlp_only_layers is -1" },
        { ",\"num_experts\":8192,\"num_hidden_layers\":4096", false, "are more than any model has" },
        { ",\"n_group\":3", true, "n_group is 3" },
        { ",\"topk_group\":2", true, "topk_group is 2" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[512];
        world w;
        snprintf(config, sizeof config, "{\"model_type\":\"qwen3_moe\"%s}", cases[i].more);
        open_config(&w, config);
        const char *said = cases[i].refused ? vram_last_error(w.ctx)->text : w.m->not_understood;
        assert_int_equal(w.status, cases[i].refused ? VRAM_EFORMAT : VRAM_OK);
        if (said == NULL || strstr(said, cases[i].part) == NULL)
            fail_msg("%s: %s", config, said != NULL ? said : "understood");
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_counts),
        cmocka_unit_test(which_layers),
        cmocka_unit_test(settings),
        cmocka_unit_test(hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
