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
        { "{\"model_type\":\"phimoe\"}", 41872793600 },
        { "{\"model_type\":\"phimoe\",\"attention_bias\":true,\"lm_head_bias\":true}", 41873153344 },
        { "{\"model_type\":\"ernie4_5_moe\"}", 21825437888 },
        { "{\"model_type\":\"ernie4_5_moe\",\"moe_layer_start_index\":3,\"moe_layer_end_index\":20,"
          "\"moe_layer_interval\":2,\"moe_num_shared_experts\":0,\"tie_word_embeddings\":false}",
          9559391296 },
        /* Qwen3-VL-MoE, MiMo-V2-Flash, MiniMax-M3's decoder and a small one with indices in some layers */
        { "{\"model_type\":\"qwen3_vl_moe\",\"text_config\":{},\"vision_config\":{}}", 14052070640 },
        { "{\"model_type\":\"mimo_v2_flash\"}", 308778768832 },
        { "{\"model_type\":\"minimax_m3_vl_text\"}", 447186441216 },
        { "{\"model_type\":\"minimax_m3_vl_text\",\"num_hidden_layers\":6,"
          "\"sparse_attention_config\":{\"sparse_attention_freq\":[0,1,1,0,1,1],\"sparse_num_index_heads\":2,"
          "\"sparse_index_dim\":64},\"moe_layer_freq\":[0,1,1,1,1,0],\"shared_intermediate_size\":1024}",
          32627572736 },
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
        { "{\"model_type\":\"ernie4_5_moe\"," COMMON ",\"moe_layer_end_index\":-1}", "deeeee" },
        { "{\"model_type\":\"ernie4_5_moe\"," COMMON
          ",\"moe_layer_start_index\":0,\"moe_layer_end_index\":3}",
          "eeeedd" },
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

/* Caches of the real classes (class_parameters.tsv): MiMo-V2-Flash 9 x 4 x (192 + 128) + 39 x 8 x (192 + 128)
 * elements of a token, MiniMax-M3 60 x 2 x 4 x 128 and 57 x 128 of indices. */
static void kept_of_a_token(void **state)
{
    world w;
    (void)state;
    open_config(&w, "{\"model_type\":\"mimo_v2_flash\"}");
    assert_int_equal(w.m->kv_bytes_per_token_16bit, 2 * (9 * 4 * 320 + 39 * 8 * 320));
    assert_int_equal(w.m->layers[0].window, 0);
    assert_int_equal(w.m->layers[1].window, 129);
    assert_true(w.m->layers[1].sinks && !w.m->layers[5].sinks);
    assert_int_equal(w.m->rotary_dim, 64);
    close_world(&w);
    open_config(&w, "{\"model_type\":\"mimo_v2_flash\",\"sliding_window_size\":64,\"layer_types\":["
                    "\"sliding_attention\",\"full_attention\"],\"num_hidden_layers\":2}");
    assert_int_equal(w.m->layers[0].window, 65);
    assert_int_equal(w.m->kv_bytes_per_token_16bit, 2 * (4 * 320 + 8 * 320));
    close_world(&w);
    open_config(&w, "{\"model_type\":\"minimax_m3_vl_text\",\"num_hidden_layers\":3,\"layer_types\":["
                    "\"full_attention\",\"minimax_m3_sparse\",\"minimax_m3_sparse\"]}");
    assert_int_equal(w.m->kv_bytes_per_token_16bit, 2 * (3 * 2 * 4 * 128 + 2 * 128));
    assert_int_equal(w.m->layers[1].index_topk, 2048);
    close_world(&w);
}

#define ERNIE "{\"model_type\":\"ernie4_5_moe\","
#define MIMO "{\"model_type\":\"mimo_v2_flash\","
#define M3 "{\"model_type\":\"minimax_m3_vl_text\","

static void contradictions(void **state)
{
    static const struct {
        const char *config;
        bool refused;
        const char *part;
    } cases[] = {
        { MIMO "\"hybrid_layer_pattern\":[0,1]}", false,
          "hybrid_layer_pattern has 2 layers, num_hidden_layers is 48" },
        { MIMO "\"num_hidden_layers\":1,\"hybrid_layer_pattern\":[1]}", false,
          "not that of the class, at layer 0" },
        { MIMO "\"hybrid_layer_pattern\":[2]}", true, "hybrid_layer_pattern is 2" },
        { MIMO "\"hybrid_layer_pattern\":3}", true, "hybrid_layer_pattern is 3" },
        { MIMO "\"swa_num_key_value_heads\":4}", false, "the class makes it 8" },
        { MIMO "\"add_full_attention_sink_bias\":true}", false, "add_full_attention_sink_bias" },
        { MIMO "\"num_key_value_heads\":64}", true, "num_key_value_heads is 64" },
        { MIMO "\"v_head_dim\":0}", true, "v_head_dim is 0" },
        { MIMO "\"sliding_window_size\":99999999999}", true, "sliding_window_size is 99999999999" },
        { MIMO "\"layer_types\":[\"full_attention\"]}", false, "layer_types has 1 layer" },
        { ERNIE "\"moe_layer_end_index\":-2}", true, "moe_layer_end_index is -2" },
        { ERNIE "\"moe_layer_start_index\":0.5}", true, "moe_layer_start_index is 0.5" },
        { ERNIE "\"moe_layer_interval\":0}", true, "moe_layer_interval is 0" },
        { ERNIE "\"use_bias\":true}", false, "use_bias" },
        { M3 "\"sparse_attention_config\":{\"sparse_attention_freq\":[1]}}", false,
          "sparse_attention_freq has 1 layer, num" },
        { M3 "\"sparse_attention_config\":{\"sparse_attention_freq\":7}}", true,
          "sparse_attention_freq is 7" },
        { M3 "\"sparse_attention_config\":{\"sparse_block_size\":1e9}}", true, "sparse_block_size is 1e9" },
        { M3 "\"index_head_dim\":-1}", true, "index_head_dim is -1" },
        { M3 "\"layer_types\":[\"odd\"]}", false, "a kind of layer that is not known" },
        { M3 "\"attention_output_gate\":true}", false, "attention_output_gate" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        open_config(&w, cases[i].config);
        const char *said = cases[i].refused ? vram_last_error(w.ctx)->text : w.m->not_understood;
        if (said == NULL || strstr(said, cases[i].part) == NULL)
            fail_msg("%s: %s", cases[i].config, said != NULL ? said : "understood");
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_of_a_token),  cmocka_unit_test(contradictions),
        cmocka_unit_test(published_counts), cmocka_unit_test(which_layers),
        cmocka_unit_test(settings),         cmocka_unit_test(hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
