/* SPDX-License-Identifier: MIT
 * vram_model_new on small checkpoints. What is expected of each class when config.json is silent is what
 * configuration_<name>.py and modeling_<name>.py of transformers 5.24 say, named at each test. */
#include "support.h"

static const shape llama = { "model.", 2, 64, 4, 2, 16, 96, 320, false, true, false };

static void a_small_llama(void **state)
{
    world w = { 0 };
    (void)state;
    add_decoder(&w.s, &llama);
    open_world(
        &w, "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":64,"
            "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":320,"
            "\"intermediate_size\":96,\"torch_dtype\":\"float16\",\"tie_word_embeddings\":false}");
    assert_int_equal(w.status, VRAM_OK);
    assert_null(w.m->not_understood);
    assert_string_equal(w.m->family->model_type, "llama");
    assert_string_equal(w.m->architecture, "LlamaForCausalLM");
    assert_string_equal(w.m->prefix, "model.");
    assert_string_equal(w.m->head_name, "lm_head.weight");
    assert_true(w.m->has_head && !w.m->tied && !w.m->quantised);
    assert_int_equal(w.m->head_dim, 16); /* hidden / heads */
    assert_int_equal(w.m->rotary_dim, 16);
    assert_int_equal(w.m->max_context, 2048); /* the class's default */
    assert_int_equal(w.m->dtype, VR_F16);     /* config before tensors */
    assert_int_equal(w.m->layers[1].attention, VR_ATTENTION_FULL);
    assert_int_equal(w.m->kv_bytes_per_token_16bit, 2 * 2 * 2 * 16 * 2);
    assert_int_equal(vram_warnings(w.ctx, &(const vram_warning *){ NULL }), 0);
    close_world(&w);
}

/* MistralConfig(): 32 layers, 8 of 32 heads hold keys, window 4096 in all layers, 131072 positions. */
static void a_silent_config(void **state)
{
    (void)state;
    world w = { 0 };
    add(&w.s, "BF16", 8, 0, "model.", 0, "something.else");
    open_world(&w, "{\"model_type\":\"mistral\"}");
    assert_int_equal(w.status, VRAM_OK);
    assert_null(w.m->not_understood);
    assert_int_equal(w.m->n_layers, 32);
    assert_int_equal(w.m->kv_heads, 8);
    assert_int_equal(w.m->head_dim, 128);
    assert_int_equal(w.m->max_context, 131072);
    assert_int_equal(w.m->kv_bytes_per_token_16bit, 131072);
    close_world(&w);
}

typedef struct sliding_case {
    const char *config;
    uint64_t from, every, window; /* layer i slides when i >= from and (every == 0 or (i + 1) % every != 0) */
} sliding_case;

static void which_layers_slide(void **state)
{
    static const sliding_case cases[] = {
        /* llama and mistral: sliding_window makes all layers slide (cache_utils.py
           get_layer_types_and_kwargs) */
        { "\"model_type\":\"llama\"", 99, 0, 0 },
        { "\"model_type\":\"mistral\"", 0, 0, 4096 },
        { "\"model_type\":\"mistral\",\"sliding_window\":null", 99, 0, 0 },
        { "\"model_type\":\"mistral\",\"sliding_window\":128", 0, 0, 128 },
        { "\"model_type\":\"phi3\"", 99, 0, 0 },
        { "\"model_type\":\"phi3\",\"sliding_window\":2047", 0, 0, 2047 },
        /* qwen2, qwen3: only with use_sliding_window, from max_window_layers (28) on */
        { "\"model_type\":\"qwen2\",\"sliding_window\":256", 99, 0, 0 },
        { "\"model_type\":\"qwen2\",\"use_sliding_window\":true", 28, 0, 4096 },
        { "\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"max_window_layers\":0,\"sliding_window\":"
          "512",
          0, 0, 512 },
        { "\"model_type\":\"qwen3\",\"use_sliding_window\":true,\"max_window_layers\":2", 2, 0, 4096 },
        { "\"model_type\":\"qwen3\",\"use_sliding_window\":true,\"sliding_window\":null", 99, 0, 0 },
        /* gemma2: every second layer is full; gemma3: every sixth, or what sliding_window_pattern says */
        { "\"model_type\":\"gemma2\"", 0, 2, 4096 },
        { "\"model_type\":\"gemma2\",\"sliding_window_pattern\":3", 0, 2, 4096 },
        { "\"model_type\":\"gemma3_text\",\"sliding_window\":512", 0, 6, 512 },
        { "\"model_type\":\"gemma3_text\",\"sliding_window_pattern\":3", 0, 3, 4096 },
        { "\"model_type\":\"gemma3_text\",\"use_bidirectional_attention\":true,\"sliding_window\":512", 0, 6,
          257 },
        { "\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\",\"sliding_window\":"
          "1024}",
          0, 6, 1024 },
    };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        world w = { 0 };
        char config[512];
        snprintf(config, sizeof config, "{%s}", cases[k].config);
        add(&w.s, "BF16", 8, 0, "model.", 0, "something.else");
        open_world(&w, config);
        assert_int_equal(w.status, VRAM_OK);
        assert_null(w.m->not_understood);
        for (uint64_t i = 0; i < w.m->n_layers; i++) {
            bool slides = i >= cases[k].from && (cases[k].every == 0 || (i + 1) % cases[k].every != 0);
            assert_int_equal(w.m->layers[i].attention, slides ? VR_ATTENTION_SLIDING : VR_ATTENTION_FULL);
            assert_int_equal(w.m->layers[i].window, slides ? cases[k].window : 0);
        }
        close_world(&w);
    }
}

static void layer_types_win(void **state)
{
    world w = { 0 };
    (void)state;
    add(&w.s, "BF16", 8, 0, "model.", 0, "something.else");
    open_world(&w, "{\"model_type\":\"gemma2\",\"num_hidden_layers\":3,\"sliding_window\":77,"
                   "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\"]}");
    assert_int_equal(w.status, VRAM_OK);
    assert_int_equal(w.m->layers[0].attention, VR_ATTENTION_FULL);
    assert_int_equal(w.m->layers[1].window, 77);
    assert_int_equal(w.m->layers[2].window, 0);
    close_world(&w);
}

typedef struct puzzle {
    const char *config, *why;
} puzzle;

/* No error, but nothing half known is kept: the reason, and no family. */
static void not_understood(void **state)
{
    static const puzzle cases[] = {
        { "{\"model_type\":\"zzz\",\"num_attention_heads\":4}", "\"zzz\" is not known" },
        { "{\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"phi3\"}}",
          "around a \"phi3\" decoder" },
        { "{\"model_type\":\"llama\",\"text_config\":{\"model_type\":\"zzz\"}}", "\"zzz\" is not known" },
        { "{}", "names no model_type" },
        { "{\"architectures\":[\"ZzzForCausalLM\"]}", "\"ZzzForCausalLM\" is not known" },
        { "{\"model_type\":\"qwen2\",\"layer_types\":[\"full_attention\"]}", "layer_types has 1 layer," },
        { "{\"model_type\":\"qwen2\",\"num_hidden_layers\":1,\"layer_types\":[\"linear_attention\"]}",
          "not known" },
        { "{\"model_type\":\"qwen2\",\"num_hidden_layers\":1,\"layer_types\":[\"sliding_attention\"]}",
          "no sliding_window" },
        { "{\"model_type\":\"gemma2\",\"sliding_window\":null}", "no sliding_window" },
        { "{\"model_type\":\"llama\",\"per_layer_config\":{\"1\":{}}}", "per_layer_config" },
        { "{\"model_type\":\"mistral\",\"num_attention_heads\":12}", "no multiple of the class's 8" },
        { NULL, "there is no config.json" },
    };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        world w = { 0 };
        add(&w.s, "BF16", 8, 0, "model.", 0, "something.else");
        open_world(&w, cases[k].config);
        assert_int_equal(w.status, VRAM_OK);
        assert_null(w.m->family);
        assert_non_null(w.m->not_understood);
        if (strstr(w.m->not_understood, cases[k].why) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", w.m->not_understood, cases[k].why);
        assert_int_equal(w.m->kv_bytes_per_token_16bit, 0);
        assert_int_equal(w.m->n_layers, 0);
        assert_int_equal(w.m->dtype, VR_BF16);
        assert_null(w.m->layers);
        close_world(&w);
    }
}

/* gemma-3-4b-it on the hub names only what differs from Gemma3TextConfig(): heads 8, 4, 256 and vocab 262208
 * are the class's, and its tensors are called language_model.model.*, those of transformers 5
 * model.language_model.*. */
static void gemma3_inside_a_vision_model(void **state)
{
    static const char *const prefixes[] = { "language_model.model.", "model.language_model." };
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        world w = { 0 };
        for (int i = 0; i < 2; i++) {
            add(&w.s, "BF16", 2048, 10, prefixes[k], i, "self_attn.q_proj.weight");
            add(&w.s, "BF16", 1024, 10, prefixes[k], i, "self_attn.k_proj.weight");
            add(&w.s, "BF16", 256, 0, prefixes[k], i, "self_attn.q_norm.weight");
        }
        add(&w.s, "BF16", 30, 7, "vision_tower.vision_model.encoder.", 0, "mlp.fc1.weight");
        open_world(&w, "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"model_type\":\"gemma3\","
                       "\"text_config\":"
                       "{\"hidden_size\":10,\"intermediate_size\":40,\"model_type\":\"gemma3_text\","
                       "\"num_hidden_layers\":2,\"sliding_window\":1024},\"torch_dtype\":\"bfloat16\"}");
        assert_int_equal(w.status, VRAM_OK);
        assert_null(w.m->not_understood);
        assert_string_equal(w.m->family->model_type, "gemma3_text");
        assert_string_equal(w.m->prefix, prefixes[k]);
        assert_int_equal(w.m->heads, 8);
        assert_int_equal(w.m->kv_heads, 4);
        assert_int_equal(w.m->head_dim, 256);
        assert_int_equal(w.m->vocab, 262208);
        assert_int_equal(w.m->max_context, 131072);
        assert_true(w.m->tied);
        assert_int_equal(w.m->final_softcap, 0);
        assert_string_equal(w.m->uncounted_part, "vision tower");
        close_world(&w);
    }
}

static void flags_of_the_classes(void **state)
{
    static const struct {
        const char *config;
        bool qkv, o, mlp, tied, attention_cap, final_cap;
    } cases[] = {
        { "\"model_type\":\"llama\"", false, false, false, false, false, false },
        { "\"model_type\":\"llama\",\"attention_bias\":true,\"mlp_bias\":true", true, true, true, false,
          false, false },
        { "\"model_type\":\"mistral\",\"attention_bias\":true", false, false, false, false, false, false },
        { "\"model_type\":\"qwen2\"", true, false, false, false, false, false },
        { "\"model_type\":\"qwen2\",\"attention_bias\":false,\"tie_word_embeddings\":true", true, false,
          false, true, false, false },
        { "\"model_type\":\"qwen3\",\"attention_bias\":true", true, true, false, false, false, false },
        { "\"model_type\":\"phi3\"", false, false, false, false, false, false },
        { "\"model_type\":\"gemma2\"", false, false, false, true, true, true },
        { "\"model_type\":\"gemma2\",\"attn_logit_softcapping\":null,\"tie_word_embeddings\":false", false,
          false, false, false, false, true },
        { "\"model_type\":\"gemma3_text\"", false, false, false, true, false, false },
        { "\"model_type\":\"gemma3_text\",\"final_logit_softcapping\":30.0,\"attn_logit_softcapping\":50.0",
          false, false, false, true, false, true },
        { "\"architectures\":[\"Qwen2ForCausalLM\"]", true, false, false, false, false, false },
    };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        world w = { 0 };
        char config[512];
        snprintf(config, sizeof config, "{%s}", cases[k].config);
        add(&w.s, "BF16", 8, 0, "model.", 0, "something.else");
        open_world(&w, config);
        assert_int_equal(w.status, VRAM_OK);
        assert_non_null(w.m->family);
        assert_int_equal(w.m->qkv_bias, cases[k].qkv);
        assert_int_equal(w.m->o_bias, cases[k].o);
        assert_int_equal(w.m->mlp_bias, cases[k].mlp);
        assert_int_equal(w.m->tied, cases[k].tied);
        assert_int_equal(w.m->attention_softcap, cases[k].attention_cap);
        assert_int_equal(w.m->final_softcap, cases[k].final_cap);
        close_world(&w);
    }
}

/* Phi-4-mini rotates three quarters of each head; null key-value heads are as many as heads. */
static void phi3_fused(void **state)
{
    world w = { 0 };
    shape d = llama;
    (void)state;
    d.fused = true;
    d.kv = 4;
    add_decoder(&w.s, &d);
    open_world(
        &w, "{\"model_type\":\"phi3\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
            "\"num_key_value_heads\":null,\"vocab_size\":320,\"intermediate_size\":96,\"partial_rotary_"
            "factor\":0.75}");
    assert_int_equal(w.status, VRAM_OK);
    assert_null(w.m->not_understood);
    assert_int_equal(w.m->kv_heads, 4);
    assert_int_equal(w.m->rotary_dim, 12);
    assert_int_equal(vram_warnings(w.ctx, &(const vram_warning *){ NULL }), 0);
    close_world(&w);
}

#define SMALL                                                                                                \
    "\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,"         \
    "\"num_key_value_heads\":2,\"vocab_size\":320,\"intermediate_size\":96"

static void tensors_win(void **state)
{
    world w = { 0 };
    shape d = llama;
    (void)state;
    d.head_dim = 24; /* 4 x 24 = 96, not hidden */
    d.vocab = 384;   /* padded */
    d.ffn = 100;
    add_decoder(&w.s, &d);
    open_world(&w, "{" SMALL "}");
    assert_int_equal(w.status, VRAM_OK);
    assert_null(w.m->not_understood);
    assert_int_equal(w.m->head_dim, 24);
    assert_int_equal(w.m->rotary_dim, 24);
    assert_int_equal(w.m->vocab, 384);
    assert_int_equal(w.m->ffn, 100);
    assert_int_equal(w.m->kv_bytes_per_token_16bit, 2 * 2 * 2 * 24 * 2);
    assert_true(warned(w.ctx, "head_dim would be 16") && warned(w.ctx, "vocab_size would be 320"));
    close_world(&w);
}

static void key_value_heads_read_off(void **state)
{
    world w = { 0 };
    shape d = llama;
    (void)state;
    d.kv = 1;
    add_decoder(&w.s, &d);
    open_world(&w, "{" SMALL "}");
    assert_int_equal(w.m->kv_heads, 1);
    assert_true(warned(w.ctx, "num_key_value_heads would be 2"));
    close_world(&w);
}

/* The number of heads is nowhere in the tensors: changing two of three facts would be a guess. */
static void shapes_that_cannot_be_reconciled(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        world w = { 0 };
        shape d = llama;
        d.kv = k == 0 ? 3 : d.kv; /* no divisor of 4 heads */
        d.head_dim =
            k == 1 ? 23 : d.head_dim; /* q would be 92, not 4 x 16, and k 46: width 23 is borne out */
        d.hidden = 64;
        add_decoder(&w.s, &d);
        if (k == 2)
            w.s.tensors[1].columns = 60; /* q_proj of layer 0 takes 60, the embeddings give 64 */
        if (k == 3)
            w.s.tensors[8].columns = 3; /* a norm with two dimensions */
        open_world(&w, "{" SMALL "}");
        assert_int_equal(w.status, VRAM_OK);
        assert_int_equal(w.m->not_understood == NULL, k == 1);
        close_world(&w);
    }
}

static void layers_and_heads_that_differ(void **state)
{
    shape d = llama;
    (void)state;
    for (int layers = 1; layers <= 3; layers++) {
        world w = { 0 };
        d.layers = layers;
        add_decoder(&w.s, &d);
        open_world(&w, "{" SMALL ",\"tie_word_embeddings\":true}");
        assert_null(w.m->not_understood);
        assert_int_equal(w.m->n_layers, 2); /* what transformers builds */
        assert_int_equal(warned(w.ctx, "tensors of only 1"), layers == 1);
        assert_int_equal(warned(w.ctx, "the last are left out"), layers == 3);
        assert_true(w.m->tied && w.m->has_head && warned(w.ctx, "stored as well"));
        close_world(&w);
    }
    world w = { 0 };
    d.layers = 2;
    d.head = false;
    add_decoder(&w.s, &d);
    open_world(&w, "{" SMALL "}");
    assert_true(!w.m->tied && !w.m->has_head && warned(w.ctx, "is not there"));
    close_world(&w);
}

static void names_of_another_model(void **state)
{
    world w = { 0 };
    (void)state;
    add(&w.s, "F32", 8, 8, "transformer.h.", -1, "0.attn.c_attn.weight");
    open_world(&w, "{" SMALL "}");
    assert_null(w.m->family);
    assert_non_null(strstr(w.m->not_understood, "not named like those of LlamaForCausalLM"));
    assert_int_equal(w.m->dtype, VR_F32);
    close_world(&w);
    world bare = { 0 };
    shape d = llama;
    d.prefix = "";
    add_decoder(&bare.s, &d);
    open_world(&bare, "{" SMALL "}");
    assert_string_equal(bare.m->prefix, "");
    assert_non_null(bare.m->family);
    close_world(&bare);
}

static void quantised_checkpoints(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        world w = { 0 };
        add_decoder(&w.s, &llama);
        if (k == 1)
            w.s.tensors[1].dtype = "F8_E4M3";
        if (k == 2) { /* four-bit weights of bitsandbytes under the usual name */
            w.s.tensors[1].dtype = "U8";
            w.s.tensors[1].rows = 2048;
            w.s.tensors[1].columns = 1;
        }
        open_world(&w, k == 3 ? "{" SMALL ",\"quantization_config\":{\"bits\":4}}" : "{" SMALL "}");
        assert_non_null(w.m->family);
        assert_int_equal(w.m->quantised, k != 0);
        assert_int_equal(w.m->kv_bytes_per_token_16bit, 256);
        close_world(&w);
    }
}

static void components_of_known_and_unknown(void **state)
{
    static const char *const expected[] = { "embeddings", "layer 0",      "layer 1", "final norm",
                                            "head",       "vision tower", "encoder", "other" };
    (void)state;
    for (unsigned known = 0; known < 2; known++) {
        world w = { 0 };
        vr_component *c;
        size_t n;
        vr_arena a;
        uint64_t bytes = 0;
        add_decoder(&w.s, &llama);
        add(&w.s, "BF16", 3, 0, "", -1, "vision_tower.layers.0.weight");
        add(&w.s, "BF16", 3, 0, "", -1, "encoder.layers.0.weight");
        add(&w.s, "BF16", 3, 0, "", -1, "encoder.layers.1.weight");
        add(&w.s, "BF16", 3, 0, "", -1, "logit_scale");
        open_world(&w, known != 0 ? "{" SMALL "}" : "{\"model_type\":\"zzz\"}");
        assert_int_equal(w.status, VRAM_OK);
        vr_arena_init(&a, w.ctx);
        assert_int_equal(vr_model_components(w.m, &a, &c, &n), VRAM_OK);
        assert_int_equal(n, 8);
        for (size_t i = 0; i < n; i++) {
            assert_string_equal(c[i].name, expected[i]);
            assert_true(c[i].layer == (i == 1 || i == 2 ? i - 1 : UINT64_MAX));
            bytes += c[i].bytes;
        }
        assert_int_equal(bytes, w.ck->tensor_bytes);
        assert_int_equal(c[0].bytes, 320 * 64 * 2);
        assert_int_equal(c[1].n_tensors, 9);
        assert_int_equal(c[6].elements, 6);
        vr_arena_free(&a);
        close_world(&w);
    }
}

static void every_allocation_can_fail(void **state)
{
    source s = { 0 };
    (void)state;
    shape d = llama;
    d.head_dim = 24;
    add_decoder(&s, &d);
    s.config = "{" SMALL
               ",\"torch_dtype\":\"b\\u0066loat16\",\"layer_types\":[\"full_attention\",\"full_attention\"]}";
    seal(&s);
    bool clean = false;
    for (size_t n = 1; !clean; n++) {
        hook h = { .fail_at = n };
        vram_ctx *ctx;
        vram_checkpoint *ck;
        vram_model *m;
        vr_component *c;
        size_t n_components;
        vram_status status = vram_open(&ctx, hook_alloc, &h);
        if (status == VRAM_OK) {
            vr_arena a;
            vr_arena_init(&a, ctx);
            status = load(&ck, ctx, &s);
            if (status == VRAM_OK)
                status = vram_model_new(&m, ck);
            if (status == VRAM_OK)
                status = vr_model_components(m, &a, &c, &n_components);
            clean = status == VRAM_OK && h.n_calls < n;
            assert_true(clean || status == VRAM_ENOMEM || (status == VRAM_OK && h.n_calls >= n));
            vr_arena_free(&a);
            vram_close(ctx);
        } else {
            assert_int_equal(status, VRAM_ENOMEM);
        }
        assert_int_equal(h.live_bytes, 0);
        assert_int_equal(h.live_blocks, 0);
        assert_true(n < 10000);
    }
    free(s.weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_llama),
        cmocka_unit_test(a_silent_config),
        cmocka_unit_test(which_layers_slide),
        cmocka_unit_test(layer_types_win),
        cmocka_unit_test(not_understood),
        cmocka_unit_test(gemma3_inside_a_vision_model),
        cmocka_unit_test(flags_of_the_classes),
        cmocka_unit_test(phi3_fused),
        cmocka_unit_test(tensors_win),
        cmocka_unit_test(key_value_heads_read_off),
        cmocka_unit_test(shapes_that_cannot_be_reconciled),
        cmocka_unit_test(layers_and_heads_that_differ),
        cmocka_unit_test(names_of_another_model),
        cmocka_unit_test(quantised_checkpoints),
        cmocka_unit_test(components_of_known_and_unknown),
        cmocka_unit_test(every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
