/* SPDX-License-Identifier: MIT
 * The n-th allocation fails, once and from then on, for every n, on the whole way from a configuration of
 * each special kind to the reports, in every engine: out of memory is said and nothing leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "../support/hook.h"

typedef struct kind {
    const char *name, *config;
    const char *engine; /* NULL: all, side by side */
    const char *card;   /* NULL: any */
    size_t cards;
    const char *settings[5]; /* keys and values in turn */
} kind;

#define EXPERTS                                                                                              \
    "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"model_type\":\"qwen3_moe\",\"torch_dtype\":"             \
    "\"bfloat16\","                                                                                          \
    "\"num_hidden_layers\":1,\"hidden_size\":64,\"intermediate_size\":96,\"moe_intermediate_size\":32,"      \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,\"num_experts\":4,"                 \
    "\"num_experts_per_tok\":2,\"vocab_size\":256}"
#define LATENT                                                                                               \
    "{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"model_type\":\"deepseek_v3\",\"torch_dtype\":"         \
    "\"bfloat16\","                                                                                          \
    "\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,"         \
    "\"num_key_value_heads\":4,\"vocab_size\":256,\"n_routed_experts\":4,\"moe_intermediate_size\":32,"      \
    "\"first_k_dense_replace\":1,\"kv_lora_rank\":32,\"q_lora_rank\":48,\"qk_nope_head_dim\":16,"            \
    "\"qk_rope_head_dim\":8,\"v_head_dim\":16,\"num_experts_per_tok\":2,\"n_shared_experts\":1,\"n_group\":" \
    "1,"                                                                                                     \
    "\"topk_group\":1}"
#define DELTA                                                                                                \
    "{\"architectures\":[\"Qwen3NextForCausalLM\"],\"model_type\":\"qwen3_next\",\"torch_dtype\":"           \
    "\"bfloat16\","                                                                                          \
    "\"num_hidden_layers\":4,\"hidden_size\":64,\"intermediate_size\":96,\"moe_intermediate_size\":32,"      \
    "\"shared_expert_intermediate_size\":32,\"num_attention_heads\":4,\"num_key_value_heads\":2,"            \
    "\"head_dim\":16,\"num_experts\":4,\"num_experts_per_tok\":2,\"vocab_size\":256,"                        \
    "\"linear_key_head_dim\":16,\"linear_value_head_dim\":16,\"linear_num_key_heads\":2,"                    \
    "\"linear_num_value_heads\":4}"
#define SSM                                                                                                  \
    "{\"architectures\":[\"NemotronHForCausalLM\"],\"model_type\":\"nemotron_h\",\"torch_dtype\":"           \
    "\"bfloat16\","                                                                                          \
    "\"num_hidden_layers\":3,\"hybrid_override_pattern\":\"M-*\",\"hidden_size\":64,\"intermediate_size\":"  \
    "96,"                                                                                                    \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":256,"                \
    "\"mamba_num_heads\":4,\"mamba_head_dim\":32,\"ssm_state_size\":16,\"n_groups\":2}"
#define ENCODER                                                                                              \
    "{\"architectures\":[\"BertModel\"],\"model_type\":\"bert\",\"torch_dtype\":\"float32\","                \
    "\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,"         \
    "\"vocab_size\":256}"
#define T5                                                                                                   \
    "{\"architectures\":[\"T5ForConditionalGeneration\"],\"model_type\":\"t5\",\"torch_dtype\":\"float32\"," \
    "\"num_layers\":2,\"d_model\":64,\"d_kv\":16,\"d_ff\":96,\"num_heads\":4,\"vocab_size\":256}"
#define WHISPER                                                                                              \
    "{\"architectures\":[\"WhisperForConditionalGeneration\"],\"model_type\":\"whisper\",\"torch_dtype\":"   \
    "\"float16\",\"d_model\":64,\"encoder_layers\":2,\"encoder_attention_heads\":4,\"encoder_ffn_dim\":96,"  \
    "\"decoder_layers\":1,\"decoder_attention_heads\":4,\"decoder_ffn_dim\":96,\"num_mel_bins\":20,"         \
    "\"max_source_positions\":50,\"max_target_positions\":8,\"vocab_size\":256}"
#define TOWER                                                                                                \
    "{\"architectures\":[\"Qwen3VLForConditionalGeneration\"],\"model_type\":\"qwen3_vl\","                  \
    "\"torch_dtype\":\"bfloat16\",\"text_config\":{\"model_type\":\"qwen3_vl_text\",\"num_hidden_layers\":"  \
    "1,"                                                                                                     \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,\"num_key_value_heads\":2,"       \
    "\"head_dim\":16,\"vocab_size\":256},\"vision_config\":{\"model_type\":\"qwen3_vl\",\"depth\":1,"        \
    "\"hidden_size\":32,\"intermediate_size\":64,\"num_heads\":2,\"out_hidden_size\":64,"                    \
    "\"deepstack_visual_indexes\":[0]}}"

static const kind kinds[] = {
    { "experts", EXPERTS, NULL, "1GiB", 1, { NULL } },
    { "latent", LATENT, NULL, "1GiB", 1, { NULL } },
    { "latent in 4", LATENT, "transformers", "1GiB", 1, { "engine_version", "4.57", NULL } },
    { "delta", DELTA, NULL, "1GiB", 1, { NULL } },
    { "ssm", SSM, NULL, "1GiB", 1, { NULL } },
    { "encoder", ENCODER, NULL, "1GiB", 1, { NULL } },
    { "t5", T5, NULL, "1GiB", 1, { NULL } },
    { "speech", WHISPER, NULL, "1GiB", 1, { NULL } },
    { "tower", TOWER, NULL, "1GiB", 1, { NULL } },
    { "experts on cards", EXPERTS, "transformers", "1GiB", 2, { "device_map", "auto", NULL } },
    { "latent on any", LATENT, "transformers", NULL, 0, { "decode", "2", NULL } },
    { "vllm on cards", DELTA, "vllm", "1GiB", 2, { NULL } },
    { "sglang", LATENT, "sglang", NULL, 0, { NULL } },
    { "llama.cpp", EXPERTS, "llama.cpp", "1GiB", 1, { NULL } },
    { "catalogue", NULL, "transformers", "1GiB", 1, { NULL } },
};

static int ignore(void *ud, const void *bytes, size_t n)
{
    (void)ud;
    (void)bytes;
    return n == 0;
}

static vram_status load(vram_checkpoint **ck, vram_ctx *ctx, const char *config)
{
    const vram_want *wants;
    vram_status s = vram_checkpoint_new(ck, ctx, "made");
    if (s == VRAM_OK)
        s = vram_checkpoint_named(*ck, "config.json");
    if (s == VRAM_OK)
        s = vram_checkpoint_add_file(*ck, "config.json", strlen(config));
    if (s == VRAM_OK)
        s = vram_checkpoint_listed(*ck);
    if (s != VRAM_OK)
        return s;
    while ((s = vram_checkpoint_step(*ck)) == VRAM_MORE) {
        assert_int_equal(vram_checkpoint_wants(*ck, &wants), 1);
        size_t from = (size_t)wants[0].offset;
        s = vram_checkpoint_supply(*ck, "config.json", from, config + from, strlen(config) - from);
        if (s != VRAM_OK)
            return s;
    }
    return s;
}

static vram_status workload(vram_workload **w, vram_ctx *ctx, const kind *k)
{
    vram_status s = vram_workload_new(w, ctx, k->engine);
    for (size_t i = 0; s == VRAM_OK && k->settings[i] != NULL; i += 2)
        s = vram_workload_set(*w, k->settings[i], k->settings[i + 1]);
    return s;
}

static const vram_style text = { .format = VRAM_TEXT, .verbose = 1 };

static vram_status answer(const vram_model *m, const vram_workload *w, const kind *k,
                          const vram_device *const *cards)
{
    vram_comparison *c;
    vram_fit *f;
    if (k->engine == NULL) {
        vram_status s = vram_comparison_new(&c, m, w, cards, k->cards);
        return s == VRAM_OK ? vram_comparison_render(c, &text, ignore, NULL) : s;
    }
    vram_status s = vram_fit_new(&f, m, w, cards, k->cards);
    return s == VRAM_OK ? vram_fit_render(f, &text, ignore, NULL) : s;
}

static vram_status judged(vram_ctx *ctx, const vram_model *m, const kind *k)
{
    vram_workload *w;
    const vram_device *cards[2];
    vram_status s = workload(&w, ctx, k);
    for (size_t i = 0; s == VRAM_OK && i < k->cards; i++) {
        vram_device *d;
        s = vram_device_new(&d, ctx, k->card, 0);
        cards[i] = d;
    }
    return s == VRAM_OK ? answer(m, w, k, cards) : s;
}

static vram_status go(hook *h, const kind *k)
{
    vram_ctx *ctx;
    vram_checkpoint *ck;
    vram_model *m;
    vram_status s = vram_open(&ctx, hook_alloc, h);
    if (s != VRAM_OK)
        return s;
    s = k->config != NULL ? load(&ck, ctx, k->config) : vram_checkpoint_catalogue(&ck, ctx, "opt-125m");
    if (s == VRAM_OK)
        s = vram_model_new(&m, ck);
    if (s == VRAM_OK)
        s = vram_inspect_render(m, &text, ignore, NULL);
    if (s == VRAM_OK)
        s = judged(ctx, m, k);
    if (s != VRAM_OK)
        assert_int_equal(vram_last_error(ctx)->code, s);
    vram_close(ctx);
    return s;
}

static void every_allocation(const kind *k, bool and_later)
{
    for (size_t n = 1;; n++) {
        hook h = { .fail_at = n, .fail_after = and_later };
        vram_status s = go(&h, k);
        if (h.live_bytes != 0 || h.live_blocks != 0 || s != (h.n_calls < n ? VRAM_OK : VRAM_ENOMEM))
            fail_msg("%s, allocation %zu: status %d, %zu bytes live", k->name, n, (int)s, h.live_bytes);
        if (h.n_calls < n)
            return;
    }
}

static void test_kind(void **state)
{
    const kind *k = *state;
    hook h = { 0 };
    assert_int_equal(go(&h, k), VRAM_OK);
    assert_int_equal(h.live_blocks, 0);
    assert_true(h.n_calls > 5);
    every_allocation(k, false);
    every_allocation(k, true);
}

int main(void)
{
    enum { N = sizeof kinds / sizeof *kinds };
    struct CMUnitTest tests[N];
    for (size_t i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){ kinds[i].name, test_kind, NULL, NULL, (void *)&kinds[i] };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
