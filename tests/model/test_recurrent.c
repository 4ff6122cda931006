/* SPDX-License-Identifier: MIT
 * Architectures with recurrent layers, from their configurations alone: parameters as the classes of
 * transformers 5.24 have them on the meta device, keys and values of the layers that attend, states of those
 * that do not, and configurations that make no sense. */
#include "support.h"

#define ATTENTION_INTERVAL "\"full_attention_interval\":4,"

/* Settings of published configurations that bear on sizes. */
static const char qwen3_next[] =
    "{\"model_type\":\"qwen3_next\",\"num_hidden_layers\":48,\"hidden_size\":2048,\"num_attention_heads\":16,"
    "\"num_key_value_heads\":2,\"head_dim\":256,\"intermediate_size\":5120,\"moe_intermediate_size\":512,"
    "\"shared_expert_intermediate_size\":512,\"num_experts\":512,\"num_experts_per_tok\":10,"
    "\"vocab_size\":151936,\"linear_num_key_heads\":16,\"linear_num_value_heads\":32,"
    "\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,\"linear_conv_kernel_dim\":"
    "4," ATTENTION_INTERVAL "\"dtype\":\"bfloat16\"}";

static const char qwen3_6_27b[] =
    "{\"model_type\":\"qwen3_5_text\",\"num_hidden_layers\":64,\"hidden_size\":5120,"
    "\"num_attention_heads\":24,\"num_key_value_heads\":4,\"head_dim\":256,\"intermediate_size\":17408,"
    "\"vocab_size\":248320,\"linear_num_key_heads\":16,\"linear_num_value_heads\":48,"
    "\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,\"linear_conv_kernel_dim\":"
    "4," ATTENTION_INTERVAL "\"mtp_num_hidden_layers\":1,\"dtype\":\"bfloat16\"}";

static const char qwen3_5_35b[] =
    "{\"model_type\":\"qwen3_5_moe_text\",\"num_hidden_layers\":40,\"hidden_size\":2048,"
    "\"num_attention_heads\":16,\"num_key_value_heads\":2,\"head_dim\":256,\"vocab_size\":248320,"
    "\"num_experts\":256,\"num_experts_per_tok\":8,\"moe_intermediate_size\":512,"
    "\"shared_expert_intermediate_size\":512,\"linear_num_key_heads\":16,\"linear_num_value_heads\":32,"
    "\"dtype\":\"bfloat16\"}";

#define GRANITE                                                                                              \
    "{\"model_type\":\"granitemoehybrid\",\"num_hidden_layers\":4,\"hidden_size\":4096,"                     \
    "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"num_experts_per_tok\":10,"                       \
    "\"shared_intermediate_size\":1536,\"intermediate_size\":768,\"mamba_d_state\":128,\"vocab_size\":"      \
    "100352,"                                                                                                \
    "\"tie_word_embeddings\":true,\"dtype\":\"bfloat16\","
#define GRANITE_LAYERS "\"layer_types\":[\"mamba\",\"mamba\",\"attention\",\"linear_attention\"]"

#define NEMOTRON                                                                                             \
    "{\"model_type\":\"nemotron_h\",\"hidden_size\":2688,\"num_attention_heads\":32,"                        \
    "\"num_key_value_heads\":2,\"head_dim\":128,\"intermediate_size\":1856,\"moe_intermediate_size\":1856,"  \
    "\"moe_shared_expert_intermediate_size\":3712,\"n_routed_experts\":128,\"num_experts_per_tok\":6,"       \
    "\"mamba_num_heads\":64,\"mamba_head_dim\":64,\"n_groups\":8,\"ssm_state_size\":128,\"conv_kernel\":4,"  \
    "\"chunk_size\":128,\"vocab_size\":131072,\"dtype\":\"bfloat16\","
#define NANO "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
static const char nemotron_nano[] =
    NEMOTRON "\"num_hidden_layers\":52,\"hybrid_override_pattern\":\"" NANO "\"}";

static const char nemotron_super[] =
    "{\"model_type\":\"nemotron_h\",\"num_hidden_layers\":88,\"hidden_size\":4096,\"num_attention_heads\":32,"
    "\"num_key_value_heads\":2,\"head_dim\":128,\"intermediate_size\":2688,\"moe_intermediate_size\":2688,"
    "\"moe_latent_size\":1024,\"moe_shared_expert_intermediate_size\":5376,\"n_routed_experts\":512,"
    "\"num_experts_per_tok\":22,\"mamba_num_heads\":128,\"mamba_head_dim\":64,\"n_groups\":8,"
    "\"ssm_state_size\":128,\"vocab_size\":131072,\"num_nextn_predict_layers\":1,\"dtype\":\"bfloat16\","
    "\"hybrid_override_pattern\":\"MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*"
    "EMEMEMEM*EMEMEMEME\"}";

static const char nemotron_56b[] =
    "{\"model_type\":\"nemotron_h\",\"num_hidden_layers\":118,\"hidden_size\":8192,"
    "\"num_attention_heads\":64,\"num_key_value_heads\":8,\"intermediate_size\":32768,"
    "\"mamba_num_heads\":256,\"mamba_head_dim\":64,\"n_groups\":8,\"ssm_state_size\":256,"
    "\"vocab_size\":131072,\"dtype\":\"bfloat16\",\"hybrid_override_pattern\":"
    "\"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M"
    "-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-\"}";

#define KIMI                                                                                                 \
    "{\"model_type\":\"kimi_linear\",\"num_hidden_layers\":27,\"hidden_size\":2304,"                         \
    "\"num_attention_heads\":32,\"num_key_value_heads\":32,\"intermediate_size\":9216,"                      \
    "\"moe_intermediate_size\":1024,\"num_experts\":256,\"num_experts_per_token\":8,"                        \
    "\"num_shared_experts\":1,\"first_k_dense_replace\":1,\"kv_lora_rank\":512,\"q_lora_rank\":null,"        \
    "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"vocab_size\":163840,"             \
    "\"dtype\":\"bfloat16\","
static const char kimi_linear[] =
    KIMI "\"linear_attn_config\":{\"full_attn_layers\":[4,8,12,16,20,24,27],\"kda_layers\":[1,2,3,5,6,7,9,10,"
         "11,13,14,15,17,18,19,21,22,23,25,26],\"head_dim\":128,\"num_heads\":32,"
         "\"short_conv_kernel_size\":4}}";

static uint64_t sum(const vram_model *m, uint64_t (*of)(const vr_layer *))
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < m->n_layers; i++)
        n += of(&m->layers[i]);
    return n;
}

static uint64_t count_kind(const vram_model *m, vr_attention_kind kind)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < m->n_layers; i++)
        n += m->layers[i].attention == kind;
    return n;
}

/* sum(p.numel() for p in model.parameters()) of AutoModelForCausalLM.from_config on the meta device,
 * transformers 5.24.0. */
static void parameters_of_the_classes(void **state)
{
    static const struct {
        const char *config;
        uint64_t parameters;
    } rows[] = {
        { qwen3_next, UINT64_C(79674391296) },
        { qwen3_6_27b, UINT64_C(26895998464) },
        { qwen3_5_35b, UINT64_C(34660610688) },
        { nemotron_nano, UINT64_C(31577937344) },
        { nemotron_super, UINT64_C(120668687360) },
        { nemotron_56b, UINT64_C(56324350464) },
        { kimi_linear, UINT64_C(49122675072) },
        { GRANITE "\"num_local_experts\":72," GRANITE_LAYERS "}", UINT64_C(3554468736) },
        { GRANITE "\"num_local_experts\":0," GRANITE_LAYERS "}", UINT64_C(835380096) },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world w = { 0 };
        open_world(&w, rows[i].config);
        assert_int_equal(w.status, VRAM_OK);
        if (w.m->family == NULL)
            fail_msg("%zu: %s", i, w.m->not_understood);
        assert_int_equal(w.m->declared_parameters, rows[i].parameters);
        close_world(&w);
    }
}

static void open_known(world *w, const char *config)
{
    open_world(w, config);
    assert_int_equal(w->status, VRAM_OK);
    if (w->m->family == NULL)
        fail_msg("%s", w->m->not_understood);
}

/* Recurrent layers keep nothing that grows: 6 GiB at 262,144 tokens instead of 24. */
static void qwen3_next_keeps(void **state)
{
    world w = { 0 };
    (void)state;
    open_known(&w, qwen3_next);
    assert_int_equal(count_kind(w.m, VR_ATTENTION_FULL), 12);
    assert_int_equal(w.m->layers[3].attention, VR_ATTENTION_FULL);
    assert_int_equal(w.m->layers[3].rotary_dim, 64);
    assert_int_equal(w.m->kv_bytes_per_token_16bit * 262144, UINT64_C(6) << 30);
    assert_int_equal(vr_layer_conv_elements(&w.m->layers[0]), 8192 * 4);
    assert_int_equal(vr_layer_state_elements(&w.m->layers[0]), 32 * 128 * 128);
    assert_int_equal(vr_layer_conv_elements(&w.m->layers[3]), 0);
    close_world(&w);
}

/* What llama.cpp said of this model: 16.0 GiB of keys and values, 149.62 MiB of states a sequence, all in 32
 * bits, of the convolution all columns but the newest. */
static void qwen3_6_keeps(void **state)
{
    world w = { 0 };
    (void)state;
    open_known(&w, qwen3_6_27b);
    uint64_t state_bytes = 0;
    for (uint64_t i = 0; i < w.m->n_layers; i++) {
        const vr_layer *l = &w.m->layers[i];
        if (l->attention == VR_ATTENTION_RECURRENT)
            state_bytes += 4 * ((uint64_t)l->conv_channels * (l->conv_taps - 1) + vr_layer_state_elements(l));
    }
    assert_int_equal(w.m->kv_bytes_per_token_16bit * 262144, UINT64_C(16) << 30);
    assert_int_equal(state_bytes * 100 / 1024 / 1024, 14962);
    close_world(&w);
}

static void nemotron_layers(void **state)
{
    world w = { 0 };
    (void)state;
    open_known(&w, nemotron_super);
    assert_int_equal(count_kind(w.m, VR_ATTENTION_FULL), 8);
    assert_int_equal(count_kind(w.m, VR_ATTENTION_RECURRENT), 40);
    assert_int_equal(count_kind(w.m, VR_ATTENTION_NONE), 40);
    assert_int_equal(w.m->layers[0].mlp, VR_MLP_NONE);
    assert_int_equal(w.m->layers[1].mlp, VR_MLP_EXPERTS);
    assert_int_equal(w.m->layers[1].expert_hidden, 1024);
    assert_int_equal(w.m->layers[1].kv_heads, 0);
    assert_int_equal(w.m->layers[7].rotary_dim, 0);
    assert_int_equal(w.m->kv_bytes_per_token_16bit, 8 * 2 * 2 * 128 * 2);
    assert_int_equal(sum(w.m, vr_layer_state_elements), 40 * 128 * 64 * 128);
    close_world(&w);
}

/* Of a token the latent vector and the rotated part of its key; every fourth layer and the last
 * attend. */
static void kimi_layers(void **state)
{
    world w = { 0 };
    (void)state;
    open_known(&w, kimi_linear);
    assert_int_equal(count_kind(w.m, VR_ATTENTION_LATENT), 7);
    assert_int_equal(count_kind(w.m, VR_ATTENTION_RECURRENT), 20);
    assert_int_equal(w.m->layers[3].latent, 512);
    assert_int_equal(w.m->kv_bytes_per_token_16bit, 7 * 2 * (512 + 64));
    assert_int_equal(w.m->layers[0].conv_channels, 3 * 32 * 128);
    assert_int_equal(w.m->layers[0].mlp, VR_MLP_GATED);
    assert_int_equal(w.m->layers[1].mlp, VR_MLP_EXPERTS);
    close_world(&w);
}

/* ---- the ways in which layers are listed ---- */

static void words_for_letters(void **state)
{
    static const char *const same[] = {
        NEMOTRON "\"num_hidden_layers\":4,\"hybrid_override_pattern\":\"M*-E\"}",
        NEMOTRON "\"hybrid_override_pattern\":\"M*-E\"}",
        NEMOTRON "\"layers_block_type\":[\"mamba\",\"attention\",\"mlp\",\"moe\"]}",
        NEMOTRON "\"layer_types\":[\"linear_attention\",\"full_attention\",\"mlp\",\"moe\"]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        world w = { 0 };
        open_known(&w, same[i]);
        assert_int_equal(w.m->n_layers, 4);
        assert_int_equal(w.m->layers[0].attention, VR_ATTENTION_RECURRENT);
        assert_int_equal(w.m->layers[1].attention, VR_ATTENTION_FULL);
        assert_int_equal(w.m->layers[2].mlp, VR_MLP_PLAIN);
        assert_int_equal(w.m->layers[2].attention, VR_ATTENTION_NONE);
        assert_int_equal(w.m->layers[3].mlp, VR_MLP_EXPERTS);
        close_world(&w);
    }
}

static void odd_intervals(void **state)
{
    world w = { 0 };
    (void)state;
    open_known(&w, "{\"model_type\":\"qwen3_5_text\",\"num_hidden_layers\":7,\"full_attention_interval\":3,"
                   "\"head_dim\":48,\"hidden_size\":160}");
    assert_int_equal(count_kind(w.m, VR_ATTENTION_FULL), 2);
    assert_int_equal(w.m->layers[2].attention, VR_ATTENTION_FULL);
    assert_int_equal(w.m->layers[5].attention, VR_ATTENTION_FULL);
    assert_int_equal(w.m->kv_bytes_per_token_16bit, 2 * 2 * 2 * 4 * 48);
    close_world(&w);
}

/* ---- what makes no sense ---- */

static void refused_with_a_place(void **state)
{
    static const char *const configs[] = {
        "{\"model_type\":\"qwen3_next\",\"linear_num_key_heads\":0}",
        "{\"model_type\":\"qwen3_next\",\"linear_conv_kernel_dim\":4000000000}",
        "{\"model_type\":\"qwen3_next\",\"full_attention_interval\":0}",
        "{\"model_type\":\"qwen3_next\",\"linear_value_head_dim\":-1}",
        "{\"model_type\":\"qwen3_next\",\"layer_types\":\"linear_attention\"}",
        "{\"model_type\":\"granitemoehybrid\",\"mamba_n_heads\":0}",
        "{\"model_type\":\"granitemoehybrid\",\"mamba_d_head\":63}",
        "{\"model_type\":\"granitemoehybrid\",\"mamba_conv_bias\":1}",
        NEMOTRON "\"num_hidden_layers\":4,\"hybrid_override_pattern\":4}",
        NEMOTRON "\"hybrid_override_pattern\":\"\"}",
        NEMOTRON "\"hybrid_override_pattern\":\"M\",\"num_hidden_layers\":1,\"chunk_size\":0}",
        KIMI "\"linear_attn_config\":{\"kda_layers\":[0]}}",
        KIMI "\"linear_attn_config\":{\"kda_layers\":[28]}}",
        KIMI "\"linear_attn_config\":{\"kda_layers\":7}}",
        KIMI "\"linear_attn_config\":{\"num_heads\":0}}",
        "{\"model_type\":\"mamba\",\"time_step_rank\":-1}",
        "{\"model_type\":\"mamba\",\"state_size\":0}",
        "{\"model_type\":\"mamba2\",\"head_dim\":63}",
        "{\"model_type\":\"jamba\",\"attn_layer_offset\":8}",
        "{\"model_type\":\"jamba\",\"expert_layer_period\":0}",
        "{\"model_type\":\"bamba\",\"attn_layer_indices\":3}",
        "{\"model_type\":\"bamba\",\"attn_layer_indices\":[-1]}",
        "{\"model_type\":\"falcon_h1\",\"mamba_d_ssm\":\"auto\"}",
        "{\"model_type\":\"lfm2\",\"block_ffn_dim_multiplier\":null}",
        "{\"model_type\":\"lfm2\",\"block_ffn_dim_multiplier\":1e300}",
        "{\"model_type\":\"lfm2\",\"full_attn_idxs\":[\"2\"]}",
        "{\"model_type\":\"recurrent_gemma\",\"block_types\":\"attention\"}",
        "{\"model_type\":\"gemma3n_text\",\"intermediate_size\":[16384,0]}",
        "{\"model_type\":\"gemma3n_text\",\"num_kv_shared_layers\":35}",
        "{\"model_type\":\"gpt_neo\",\"attention_types\":[[\"global\",12]]}",
        "{\"model_type\":\"falcon\",\"multi_query\":\"yes\"}",
        "{\"model_type\":\"hunyuan_v1_moe\",\"moe_topk\":[0]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        world w = { 0 };
        open_world(&w, configs[i]);
        if (w.status != VRAM_EFORMAT)
            fail_msg("%zu: %d", i, (int)w.status);
        assert_non_null(strstr(vram_last_error(w.ctx)->text, " is "));
        close_world(&w);
    }
}

static void not_understood(void **state)
{
    static const struct {
        const char *config, *why;
    } rows[] = {
        { "{\"model_type\":\"qwen3_next\",\"linear_num_key_heads\":3}", "no multiple of 3 key heads" },
        { "{\"model_type\":\"qwen3_next\",\"linear_num_key_heads\":65536,\"linear_num_value_heads\":65536,"
          "\"linear_key_head_dim\":65536}",
          "over the limit" },
        { "{\"model_type\":\"qwen3_next\",\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\"]}",
          "has 1 layer, num_hidden_layers is 2" },
        { "{\"model_type\":\"qwen3_next\",\"num_hidden_layers\":1,\"layer_types\":[\"lightning\"]}",
          "not known, at layer 0" },
        { "{\"model_type\":\"granitemoehybrid\",\"mamba_n_groups\":3}", "no multiple of 3 groups" },
        { "{\"model_type\":\"granitemoehybrid\",\"mamba_n_heads\":96}", "no multiple of mamba_n_heads" },
        { GRANITE "\"num_local_experts\":72}", "does not state which layers attend" },
        { NEMOTRON "\"num_hidden_layers\":3,\"hybrid_override_pattern\":\"MXM\"}", "not known, at layer 1" },
        { NEMOTRON "\"num_hidden_layers\":3,\"hybrid_override_pattern\":\"M\\u0000M\"}",
          "not known, at layer 1" },
        { NEMOTRON "\"num_hidden_layers\":5,\"hybrid_override_pattern\":\"ME*\"}", "has 3 layers" },
        { NEMOTRON "\"num_hidden_layers\":5}", "says what the layers are" },
        { KIMI "\"linear_attn_config\":{\"kda_layers\":[1,2,3]}}", "of 3 of 27 layers" },
        { "{\"model_type\":\"mamba\",\"expand\":16777216}", "over the limit" },
        { "{\"model_type\":\"mamba2\",\"num_heads\":96}", "is no multiple of num_heads" },
        { "{\"model_type\":\"jamba\",\"attn_layer_period\":3}", "is not below attn_layer_period" },
        { "{\"model_type\":\"falcon_h1\",\"mamba_n_heads\":96}", "no multiple of mamba_n_heads" },
        { "{\"model_type\":\"lfm2\",\"num_hidden_layers\":2,\"layer_types\":[\"conv\"]}", "has 1 layer" },
        { "{\"model_type\":\"lfm2_moe\",\"use_expert_bias\":false}", "only with use_expert_bias true" },
        { "{\"model_type\":\"zamba2\"}", "does not state which layers attend" },
        { "{\"model_type\":\"zamba2\",\"tie_word_embeddings\":false}", "only with tie_word_embeddings true" },
        { "{\"model_type\":\"recurrent_gemma\",\"block_types\":[]}", "block_types is empty" },
        { "{\"model_type\":\"recurrent_gemma\",\"lru_width\":2561}", "no multiple of num_attention_heads" },
        { "{\"model_type\":\"gemma3n_text\",\"intermediate_size\":[16384]}", "has 1 layer" },
        { "{\"model_type\":\"gemma3n_text\",\"num_hidden_layers\":3}", "too few layers" },
        { "{\"model_type\":\"gpt_neo\",\"attention_types\":[[[\"global\"],12]]}", "is of 12 layers" },
        { "{\"model_type\":\"falcon\",\"multi_query\":false,\"num_kv_heads\":1}", "multi_query is false" },
        { "{\"model_type\":\"hunyuan_v1_moe\",\"num_experts\":8,\"num_hidden_layers\":2,\"moe_topk\":[1,2]}",
          "differs from layer to layer" },
        { KIMI "\"attn_res_block_size\":12}", "no class of transformers has attn_res_block_size" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world w = { 0 };
        open_world(&w, rows[i].config);
        if (w.status != VRAM_OK || w.m->family != NULL)
            fail_msg("%zu: %s", i, w.status != VRAM_OK ? vram_last_error(w.ctx)->text : "understood");
        if (strstr(w.m->not_understood, rows[i].why) == NULL)
            fail_msg("%zu: %s", i, w.m->not_understood);
        assert_int_equal(w.m->kv_bytes_per_token_16bit, 0);
        close_world(&w);
    }
}

/* The layer that predicts a further token attends and has the model's MLP; it stands between a projection of
 * two vectors and a norm. */
static void a_layer_ahead(void **state)
{
    const uint64_t h = 5120, attention = 2 * h * 6144 + 2 * h * 1024 + 6144 * h + 2 * 256;
    world w = { 0 };
    (void)state;
    open_known(&w, qwen3_6_27b);
    assert_int_equal(w.m->ahead.layers, 1);
    assert_int_equal(w.m->ahead.parameters, attention + 3 * h * 17408 + 2 * h + 2 * h * h + 3 * h);
    close_world(&w);
    open_known(&w, qwen3_5_35b); /* silent */
    assert_int_equal(w.m->ahead.layers, 0);
    close_world(&w);
    open_known(&w, qwen3_next); /* silent too, and published with one */
    assert_int_equal(w.m->ahead.layers, 1);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_of_the_classes),
        cmocka_unit_test(qwen3_next_keeps),
        cmocka_unit_test(qwen3_6_keeps),
        cmocka_unit_test(nemotron_layers),
        cmocka_unit_test(kimi_layers),
        cmocka_unit_test(words_for_letters),
        cmocka_unit_test(a_layer_ahead),
        cmocka_unit_test(odd_intervals),
        cmocka_unit_test(refused_with_a_place),
        cmocka_unit_test(not_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
