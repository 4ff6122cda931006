/* SPDX-License-Identifier: MIT
 * Multi-head latent attention from configurations alone: parameters, what a token leaves in a cache, which
 * layers have an index and which have experts; odd sizes and hostile ones.
 *
 * Parameters: sum(p.numel() for p in model.parameters()) of the class on torch's meta device, transformers
 * 5.24.0, of the published configurations. They leave out e_score_correction_bias, a buffer, and the layers
 * that predict further tokens. */
#include "support.h"

#define DEEPSEEK_V3                                                                                          \
    "\"architectures\":[\"DeepseekV3ForCausalLM\"],\"hidden_size\":7168,\"num_hidden_layers\":61,"           \
    "\"num_attention_heads\":128,\"num_key_value_heads\":128,\"intermediate_size\":18432,"                   \
    "\"moe_intermediate_size\":2048,\"n_routed_experts\":256,\"n_shared_experts\":1,"                        \
    "\"num_experts_per_tok\":8,\"first_k_dense_replace\":3,\"moe_layer_freq\":1,\"n_group\":8,"              \
    "\"topk_group\":4,\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,"                   \
    "\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"vocab_size\":129280,\"num_nextn_predict_layers\":1,"       \
    "\"tie_word_embeddings\":false"

#define GLM_5                                                                                                \
    "{\"model_type\":\"glm_moe_dsa\",\"architectures\":[\"GlmMoeDsaForCausalLM\"],\"hidden_size\":6144,"     \
    "\"num_hidden_layers\":78,\"num_attention_heads\":64,\"num_key_value_heads\":64,"                        \
    "\"intermediate_size\":12288,\"moe_intermediate_size\":2048,\"n_routed_experts\":256,"                   \
    "\"n_shared_experts\":1,\"num_experts_per_tok\":8,\"q_lora_rank\":2048,\"kv_lora_rank\":512,"            \
    "\"qk_nope_head_dim\":192,\"qk_rope_head_dim\":64,\"v_head_dim\":256,\"index_head_dim\":128,"            \
    "\"index_n_heads\":32,\"index_topk\":2048,\"head_dim\":192,\"vocab_size\":154880,"

#define KIMI_K2                                                                                              \
    "\"hidden_size\":7168,\"num_hidden_layers\":61,\"num_attention_heads\":64,\"num_key_value_heads\":64,"   \
    "\"intermediate_size\":18432,\"moe_intermediate_size\":2048,\"n_routed_experts\":384,"                   \
    "\"n_shared_experts\":1,\"num_experts_per_tok\":8,\"first_k_dense_replace\":1,\"n_group\":1,"            \
    "\"topk_group\":1,\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,"                   \
    "\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"vocab_size\":163840,\"num_nextn_predict_layers\":0"

static const struct published {
    const char *config;
    uint64_t parameters, layers;
    uint64_t expanded, latent, index; /* elements of a token over all layers */
} published[] = {
    /* DeepSeek-V2-Lite: no short vector for queries */
    { "{\"model_type\":\"deepseek_v2\",\"hidden_size\":2048,\"num_hidden_layers\":27,"
      "\"intermediate_size\":10944,\"moe_intermediate_size\":1408,\"num_attention_heads\":16,"
      "\"num_key_value_heads\":16,\"n_routed_experts\":64,\"n_shared_experts\":2,\"num_experts_per_tok\":6,"
      "\"first_k_dense_replace\":1,\"moe_layer_freq\":1,\"kv_lora_rank\":512,\"q_lora_rank\":null,"
      "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"vocab_size\":102400}",
      15706484224, 27, 27 * 16 * 320, 27 * 576, 0 },
    /* DeepSeek-V2.5 */
    { "{\"model_type\":\"deepseek_v2\",\"hidden_size\":5120,\"num_hidden_layers\":60,"
      "\"intermediate_size\":12288,\"moe_intermediate_size\":1536,\"num_attention_heads\":128,"
      "\"num_key_value_heads\":128,\"n_routed_experts\":160,\"n_shared_experts\":2,\"num_experts_per_tok\":6,"
      "\"first_k_dense_replace\":1,\"moe_layer_freq\":1,\"kv_lora_rank\":512,\"q_lora_rank\":1536,"
      "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"vocab_size\":102400}",
      235741434880, 60, 60 * 128 * 320, 60 * 576, 0 },
    { "{\"model_type\":\"deepseek_v3\"," DEEPSEEK_V3 "}", 671026404352, 61, 61 * 128 * 320, 61 * 576, 0 },
    { "{\"model_type\":\"deepseek_v32\",\"index_head_dim\":128,\"index_n_heads\":64,\"index_topk\":"
      "2048," DEEPSEEK_V3 "}",
      671877929216, 61, 61 * 128 * 320, 61 * 576, 61 * 128 },
    { "{\"model_type\":\"kimi_k2\"," KIMI_K2 "}", 1026408209408, 61, 61 * 64 * 320, 61 * 576, 0 },
    { "{\"model_type\":\"kimi_k25\",\"text_config\":{\"model_type\":\"kimi_k2\"," KIMI_K2 "}}", 1026408209408,
      61, 61 * 64 * 320, 61 * 576, 0 },
    { "{\"model_type\":\"kimi_k25\",\"text_config\":{\"model_type\":\"deepseek_v3\"," KIMI_K2 "}}",
      1026408209408, 61, 61 * 64 * 320, 61 * 576, 0 },
    { GLM_5 "\"first_k_dense_replace\":3}", 743911199232, 78, UINT64_C(78) * 64 * 512, 78 * 576, 78 * 128 },
    /* GLM-5.2: 21 of 78 layers have an index, by the rule that its list follows */
    { GLM_5 "\"index_topk_freq\":4,\"index_skip_topk_offset\":3}", 743377000704, 78, UINT64_C(78) * 64 * 512,
      78 * 576, 21 * 128 },
    { "{\"model_type\":\"minicpm3\"}", 4073875968, 62, 62 * 40 * 160, 62 * 288, 0 },
};

static void open_config(world *w, const char *config)
{
    *w = (world){ 0 };
    add(&w->s, "BF16", 8, 0, "model.", 0, "something.else");
    open_world(w, config);
}

/* DeepSeek-V4-Flash; Pro is larger. */
#define RATIOS_43                                                                                            \
    "[0,0,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,"              \
    "4,128,4,128,4,128,4,128,4,128,4,128,4,0]"

static void compressed_entries(void **state)
{
    world w;
    (void)state;
    open_config(&w, "{\"model_type\":\"deepseek_v4\",\"compress_ratios\":" RATIOS_43 "}");
    assert_non_null(w.m->family);
    assert_int_equal(w.m->declared_parameters, 284332230231);
    assert_int_equal(w.m->layers[1].compress_rate, 0);
    assert_int_equal(w.m->layers[2].compress_rate, 4);
    assert_int_equal(w.m->layers[2].index_dim, 128);
    assert_int_equal(w.m->layers[3].compress_rate, 128);
    assert_int_equal(w.m->layers[3].index_dim, 0);
    assert_int_equal(w.m->layers[3].window, 128);
    assert_false(w.m->kv_known);
    assert_non_null(w.m->cache_unknown);
    close_world(&w);
    open_config(&w, "{\"model_type\":\"deepseek_v4\",\"compress_ratios\":[0,0,5]}");
    assert_null(w.m->family);
    assert_non_null(strstr(w.m->not_understood, "compress_ratios has something else"));
    close_world(&w);
    open_config(&w, "{\"model_type\":\"deepseek_v4\",\"num_hidden_layers\":3,\"layer_types\":["
                    "\"sliding_attention\",\"compressed_sparse_attention\","
                    "\"heavily_compressed_attention\"],\"sliding_window\":64}");
    assert_non_null(w.m->family);
    assert_int_equal(w.m->layers[1].compress_rate, 4);
    assert_int_equal(w.m->layers[2].compress_rate, 128);
    assert_int_equal(w.m->layers[0].window, 64);
    close_world(&w);
    open_config(&w, "{\"model_type\":\"deepseek_v4\",\"o_groups\":7}");
    assert_null(w.m->family);
    close_world(&w);
}

static uint64_t over_layers(const vram_model *m, uint64_t (*of)(const vr_layer *))
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < m->n_layers; i++)
        sum += of(&m->layers[i]);
    return sum;
}

static void published_configurations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const struct published *p = &published[i];
        world w;
        open_config(&w, p->config);
        if (w.status != VRAM_OK || w.m->family == NULL)
            fail_msg("%zu: %s", i, w.status != VRAM_OK ? vram_last_error(w.ctx)->text : w.m->not_understood);
        if (w.m->declared_parameters != p->parameters)
            fail_msg("%zu: %llu parameters, the class has %llu", i,
                     (unsigned long long)w.m->declared_parameters, (unsigned long long)p->parameters);
        assert_int_equal(w.m->n_layers, p->layers);
        assert_int_equal(over_layers(w.m, vr_layer_kv_elements), p->expanded);
        assert_int_equal(over_layers(w.m, vr_layer_latent_elements), p->latent);
        assert_int_equal(over_layers(w.m, vr_layer_index_elements), p->index);
        close_world(&w);
    }
}

/* 32,768 tokens of DeepSeek-V3 in 16 bits: 2.14 GiB kept as one vector, 4,997,120 bytes a token expanded. */
static void deepseek_v3(void **state)
{
    world w;
    (void)state;
    open_config(&w, published[2].config);
    assert_int_equal(2 * over_layers(w.m, vr_layer_kv_elements), 4997120);
    uint64_t bytes = 2 * over_layers(w.m, vr_layer_latent_elements) * 32768;
    assert_int_equal(bytes, UINT64_C(70272) * 32768);
    assert_int_equal(bytes * 100 / (UINT64_C(1) << 30), 214);
    assert_int_equal(w.m->n_predict_layers, 1);
    for (uint64_t i = 0; i < w.m->n_layers; i++) {
        assert_int_equal(w.m->layers[i].attention, VR_ATTENTION_LATENT);
        assert_int_equal(w.m->layers[i].mlp, i < 3 ? VR_MLP_GATED : VR_MLP_EXPERTS);
    }
    close_world(&w);
}

/* The layer that predicts a further token, by its parts. The publisher's files have 688,586,727,753 bytes
 * with their headers; as FP8 with its scales these are 15,424,227,552 beside the 673,150,611,808 of the rest
 * (test_catalogue.c), which leaves 129 bytes of header for each of 91,991 tensors. */
static void a_layer_ahead(void **state)
{
    const uint64_t h = 7168, attention = h * 1536 + 1536 + UINT64_C(1536) * 24576 + h * 576 + 512 +
                                         UINT64_C(512) * 32768 + UINT64_C(16384) * h;
    const uint64_t experts = 257 * 3 * h * 2048 + 256 * h, norms = 5 * h;
    world w;
    (void)state;
    open_config(&w, published[2].config);
    assert_int_equal(w.m->ahead.layers, 1);
    assert_int_equal(w.m->ahead.parameters,
                     attention + experts + norms + 2 * h * h + 2 * UINT64_C(129280) * h);
    close_world(&w);
    open_config(&w, "{\"model_type\":\"deepseek_v3\"," KIMI_K2 "}");
    assert_int_equal(w.m->ahead.layers, 0);
    assert_int_equal(w.m->ahead.parameters, 0);
    close_world(&w);
    open_config(&w, "{\"model_type\":\"deepseek_v3\",\"num_nextn_predict_layers\":4097}");
    assert_int_equal(w.status, VRAM_EFORMAT);
    close_world(&w);
}

/* What the closed forms give for sizes that no model has. */
static void odd_sizes(void **state)
{
    world w;
    (void)state;
    open_config(&w, "{\"model_type\":\"deepseek_v3\",\"hidden_size\":96,\"num_hidden_layers\":5,"
                    "\"num_attention_heads\":3,\"num_key_value_heads\":3,\"intermediate_size\":70,"
                    "\"first_k_dense_replace\":5,\"q_lora_rank\":11,\"kv_lora_rank\":13,"
                    "\"qk_nope_head_dim\":7,\"qk_rope_head_dim\":6,\"v_head_dim\":9,\"vocab_size\":101}");
    assert_non_null(w.m->family);
    uint64_t attention = 96 * 11 + 11 + 11 * 3 * 13 + 96 * 19 + 13 + 13 * 3 * 16 + 27 * 96;
    uint64_t layer = attention + 3 * 96 * 70 + 2 * 96;
    assert_int_equal(w.m->declared_parameters, 5 * layer + 2 * 101 * 96 + 96);
    assert_int_equal(over_layers(w.m, vr_layer_latent_elements), 5 * 19);
    assert_int_equal(over_layers(w.m, vr_layer_kv_elements), 5 * 3 * (13 + 9));
    assert_int_equal(w.m->rotary_dim, 6);
    close_world(&w);
}

/* DeepseekV3Config and DeepseekV32Config choose four of eight groups where n_group is not stated,
 * GlmMoeDsaConfig has one (transformers 5.24, configuration_*.py). */
static void groups_not_stated(void **state)
{
    static const struct {
        const char *config;
        uint32_t groups, used;
    } cases[] = {
        { "{\"model_type\":\"deepseek_v3\"}", 8, 4 },
        { "{\"model_type\":\"deepseek_v32\"}", 8, 4 },
        { "{\"model_type\":\"deepseek_v3\",\"n_group\":1,\"topk_group\":1}", 1, 1 },
        { "{\"model_type\":\"glm_moe_dsa\"}", 1, 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        open_config(&w, cases[i].config);
        assert_non_null(w.m->family);
        const vr_layer *last = &w.m->layers[w.m->n_layers - 1];
        assert_int_equal(last->expert_groups, cases[i].groups);
        assert_int_equal(last->groups_used, cases[i].used);
        close_world(&w);
    }
}

/* Words of their own in layer_types, as published with GLM-5.2. */
static void kinds_of_layers(void **state)
{
    world w;
    (void)state;
    open_config(&w, "{\"model_type\":\"glm_moe_dsa\",\"num_hidden_layers\":2,"
                    "\"layer_types\":[\"deepseek_sparse_attention\",\"deepseek_sparse_attention\"]}");
    assert_non_null(w.m->family);
    assert_int_equal(w.m->layers[1].attention, VR_ATTENTION_LATENT);
    close_world(&w);
}

static void shared_index(void **state)
{
    static const bool own[] = { true, true, false, true };
    world w;
    (void)state;
    open_config(&w, "{\"model_type\":\"glm_moe_dsa\",\"num_hidden_layers\":4,"
                    "\"indexer_types\":[\"full\",\"full\",\"shared\",\"full\"],"
                    "\"mlp_layer_types\":[\"dense\",\"sparse\",\"dense\",\"sparse\"]}");
    assert_non_null(w.m->family);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(w.m->layers[i].index_dim, own[i] ? 128 : 0);
        assert_int_equal(w.m->layers[i].index_heads, own[i] ? 32 : 0);
        assert_int_equal(w.m->layers[i].index_topk, 2048);
        assert_int_equal(w.m->layers[i].mlp, i % 2 == 0 ? VR_MLP_GATED : VR_MLP_EXPERTS);
    }
    close_world(&w);
}

static void refused(void **state)
{
    static const struct {
        const char *config, *why;
    } cases[] = {
        { "{\"model_type\":\"deepseek_v3\",\"kv_lora_rank\":0}", "kv_lora_rank is 0, not a whole number" },
        { "{\"model_type\":\"deepseek_v3\",\"kv_lora_rank\":99999999999}", "kv_lora_rank is 99999999999" },
        { "{\"model_type\":\"deepseek_v3\",\"q_lora_rank\":\"1536\"}", "q_lora_rank is a string" },
        { "{\"model_type\":\"deepseek_v3\",\"qk_rope_head_dim\":-64}", "qk_rope_head_dim is -64" },
        { "{\"model_type\":\"deepseek_v3\",\"v_head_dim\":65537}", "v_head_dim is 65537" },
        { "{\"model_type\":\"deepseek_v32\",\"index_n_heads\":[]}", "index_n_heads is an array" },
        { "{\"model_type\":\"glm_moe_dsa\",\"indexer_types\":3}", "indexer_types is 3, not an array" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        open_config(&w, cases[i].config);
        assert_int_equal(w.status, VRAM_EFORMAT);
        if (strstr(vram_last_error(w.ctx)->text, cases[i].why) == NULL)
            fail_msg("%s", vram_last_error(w.ctx)->text);
        close_world(&w);
    }
}

static void not_understood(void **state)
{
    static const struct {
        const char *config, *why;
    } cases[] = {
        { "{\"model_type\":\"deepseek_v3\",\"num_key_value_heads\":1}", "has its own keys" },
        { "{\"model_type\":\"deepseek_v3\",\"qk_rope_head_dim\":63}", "is odd" },
        { "{\"model_type\":\"deepseek_v32\",\"index_head_dim\":32}", "smaller than the rotated part" },
        { "{\"model_type\":\"glm_moe_dsa\",\"indexer_types\":[\"full\"]}", "indexer_types has 1 layer" },
        { "{\"model_type\":\"glm_moe_dsa\",\"num_hidden_layers\":2,\"indexer_types\":[\"shared\",\"full\"]}",
          "no layer before the first" },
        { "{\"model_type\":\"glm_moe_dsa\",\"indexer_types\":[\"full\",\"half\"]}",
          "a kind of layer that is not known" },
        { "{\"model_type\":\"glm_moe_dsa\",\"index_topk_pattern\":\"FS\"}", "index_topk_pattern" },
        { "{\"model_type\":\"kimi_k25\",\"text_config\":{\"model_type\":\"qwen2\"}}", "is not known" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        open_config(&w, cases[i].config);
        assert_int_equal(w.status, VRAM_OK);
        assert_null(w.m->family);
        if (strstr(w.m->not_understood, cases[i].why) == NULL)
            fail_msg("%s", w.m->not_understood);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_configurations),
        cmocka_unit_test(deepseek_v3),
        cmocka_unit_test(a_layer_ahead),
        cmocka_unit_test(odd_sizes),
        cmocka_unit_test(groups_not_stated),
        cmocka_unit_test(kinds_of_layers),
        cmocka_unit_test(shared_index),
        cmocka_unit_test(compressed_entries),
        cmocka_unit_test(refused),
        cmocka_unit_test(not_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
