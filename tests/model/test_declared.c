/* SPDX-License-Identifier: MIT
 * A configuration alone against the same with its checkpoint: what is declared is what is stored, tensor by
 * tensor; and what is not known for certain is not made up. */
#include "engine/kv_rules.h"
#include "model/catalogue.h"
#include "support.h"

#define COMMON                                                                                               \
    "\"num_hidden_layers\":3,\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,"         \
    "\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":80,\"torch_dtype\":\"bfloat16\""

static const struct {
    const char *config;
    shape shape;
} kinds[] = {
    { "{\"model_type\":\"llama\"," COMMON "}", { "model.", 3, 64, 4, 2, 16, 96, 80, .head = true } },
    { "{\"model_type\":\"llama\",\"tie_word_embeddings\":true," COMMON "}",
      { "model.", 3, 64, 4, 2, 16, 96, 80, .head = false } },
    { "{\"model_type\":\"qwen3\"," COMMON "}",
      { "model.", 3, 64, 4, 2, 16, 96, 80, .head = true, .qk_norm = true } },
    { "{\"model_type\":\"phi3\"," COMMON "}",
      { "model.", 3, 64, 4, 2, 16, 96, 80, .fused = true, .head = true } },
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static void same_tensors(const vram_checkpoint *a, const vram_checkpoint *b)
{
    assert_int_equal(a->n_tensors, b->n_tensors);
    assert_int_equal(a->tensor_bytes, b->tensor_bytes);
    assert_int_equal(a->elements, b->elements);
    for (size_t i = 0; i < a->n_tensors; i++) {
        const vr_tensor *t = &a->tensors[i], *u = vr_checkpoint_find(b, t->name);
        if (u == NULL)
            fail_msg("%.*s is not there", (int)t->name.n, t->name.s);
        assert_int_equal(t->dtype, u->dtype);
        assert_int_equal(t->n_dims, u->n_dims);
        assert_memory_equal(t->dims, u->dims, t->n_dims * sizeof *t->dims);
        assert_int_equal(t->end - t->begin, u->end - u->begin);
    }
}

static void same_components(const vram_model *a, const vram_model *b)
{
    vr_arena of_a, of_b;
    vr_component *x, *y;
    size_t n, k;
    vr_arena_init(&of_a, a->ctx);
    vr_arena_init(&of_b, b->ctx);
    assert_int_equal(vr_model_components(a, &of_a, &x, &n), VRAM_OK);
    assert_int_equal(vr_model_components(b, &of_b, &y, &k), VRAM_OK);
    assert_int_equal(n, k);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(x[i].name, y[i].name);
        assert_int_equal(x[i].bytes, y[i].bytes);
        assert_int_equal(x[i].elements, y[i].elements);
    }
    vr_arena_free(&of_a);
    vr_arena_free(&of_b);
}

static void as_stored(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_KINDS; i++) {
        world alone = { 0 }, stored = { 0 };
        add_decoder(&stored.s, &kinds[i].shape);
        open_world(&stored, kinds[i].config);
        open_world(&alone, kinds[i].config);
        assert_int_equal(alone.status, VRAM_OK);
        assert_int_equal(stored.status, VRAM_OK);
        assert_true(alone.m->checkpoint->config_only && !stored.m->checkpoint->config_only);
        assert_null(alone.m->weights_unknown);
        assert_ptr_equal(alone.m->family, stored.m->family);
        assert_int_equal(alone.m->parameters, stored.m->parameters);
        assert_int_equal(alone.m->has_head, stored.m->has_head);
        assert_int_equal(alone.m->dtype, stored.m->dtype);
        same_tensors(alone.m->checkpoint, stored.m->checkpoint);
        same_tensors(stored.m->checkpoint, alone.m->checkpoint);
        same_components(alone.m, stored.m);
        for (size_t k = 0; k < alone.m->n_declared; k++)
            assert_true((alone.m->declared[k].tensor != NULL) == (stored.m->declared[k].tensor != NULL));
        assert_true(warned(alone.ctx, "there are no weight files"));
        assert_int_equal(vram_warnings(alone.ctx, &(const vram_warning *){ NULL }), 1);
        close_world(&alone);
        close_world(&stored);
    }
}

static void not_made_up(void **state)
{
    static const struct {
        const char *config, *why;
        bool parameters;
    } cases[] = {
        { "{\"model_type\":\"lama\"," COMMON "}", "the architecture \"lama\" is not known", false },
        { "{\"model_type\":\"llama\"," COMMON ",\"quantization_config\":{\"quant_method\":\"aqlm\"}}",
          "how many bytes AQLM takes is not known", true },
        { "{\"model_type\":\"llama\"," COMMON ",\"quantization\":{\"bits\":4,\"group_size\":64}}",
          "how many bytes MLX takes is not known", true },
        { "{\"model_type\":\"llama\"," COMMON ",\"vision_config\":{}}",
          "the sizes of its vision tower are not known without files; the decoder alone has ", false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w = { 0 };
        open_world(&w, cases[i].config);
        assert_int_equal(w.status, VRAM_OK);
        assert_non_null(w.m->weights_unknown);
        if (strncmp(w.m->weights_unknown, cases[i].why, strlen(cases[i].why)) != 0)
            fail_msg("%s", w.m->weights_unknown);
        assert_int_equal(w.m->checkpoint->n_tensors, 0);
        assert_int_equal(w.m->packing.uncountable, !cases[i].parameters);
        assert_int_equal(w.m->parameters != 0, cases[i].parameters);
        close_world(&w);
    }
}

/* One layer of [out, in]: 64 x 64 q and o, 32 x 64 k and v, 96 x 64 gate and up, 64 x 96 down; in all 30,720
 * weights in 7 matrices; embedding and head 80 x 64 each, norms 3 x 64, all in bf16. */
#define PLAIN (UINT64_C(2) * (2 * 80 * 64 + 3 * 64))
#define LINEAR UINT64_C(30720)

static void quantised(void **state)
{
    static const struct {
        const char *config;
        uint64_t bytes,
            matrices; /* bytes of the packed matrices with all that belongs to them; 0: not known */
    } cases[] = {
        /* 2 groups or rather 3 of 32 along 96 */
        { "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32}",
          LINEAR / 2 + 6 * 4 * 64 + 4 * 96 + 2 * (2 * (64 + 64 + 32 + 32 + 96 + 96) + 3 * 64) +
              (2 * (64 + 64 + 32 + 32 + 96 + 96) + 3 * 64) / 2,
          7 },
        /* a group, and the half of one more along 96: math.ceil(infeatures / group_size) */
        { "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":64}",
          LINEAR / 2 + 6 * 4 * 64 + 4 * 96 + 2 * (64 + 64 + 32 + 32 + 96 + 96 + 2 * 64) +
              (64 + 64 + 32 + 32 + 96 + 96 + 2 * 64) / 2,
          7 },
        { "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32,\"zero_point\":true,\"version\":\"gemm\"}",
          LINEAR / 2 + 2 * (2 * (64 + 64 + 32 + 32 + 96 + 96) + 3 * 64) +
              (2 * (64 + 64 + 32 + 32 + 96 + 96) + 3 * 64) / 2,
          7 },
        { "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,32]}",
          LINEAR + 4 * (4 + 4 + 2 + 2 + 6 + 6 + 6), 7 },
        { "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,32],\"modules_to_not_convert\":"
          "[\"model.layers.0.mlp\",\"lm_head\"]}",
          2 * 3 * 96 * 64 + (LINEAR - 3 * 96 * 64) + 4 * (4 + 4 + 2 + 2), 4 },
        { "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,32],\"ignore\":[\"re:.*self_attn.*\"]}",
          2 * (LINEAR - 3 * 96 * 64) + 3 * 96 * 64 + 4 * 18, 3 },
        { "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,32],\"ignore\":[\"model.layers.*.mlp.down_"
          "proj\"]}",
          LINEAR + 96 * 64 + 4 * 24, 6 },
        { "{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\",\"exclude_modules\":[\"lm_head\"]}",
          LINEAR + 7 * 8, 7 },
        { "{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"ignore\":[\"lm_head\"],\"config_"
          "groups\":"
          "{\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":4,\"group_size\":16}}}}",
          LINEAR / 2 + LINEAR / 16 + 7 * 8, 7 },
        { "{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\",\"ignore\":[\"lm_head\"],"
          "\"config_groups\":{\"group_0\":{\"weights\":{\"type\":\"int\",\"num_bits\":4,\"group_size\":32,"
          "\"symmetric\":true,\"actorder\":null}}}}",
          LINEAR / 2 + 2 * LINEAR / 32 + 7 * 16, 7 },
        /* what is not certain */
        { "{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\",\"ignore\":[\"lm_head\"],"
          "\"config_groups\":{\"group_0\":{\"weights\":{\"type\":\"int\",\"num_bits\":4,\"group_size\":32,"
          "\"symmetric\":false}}}}",
          0, 0 },
        { "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,32],\"ignore\":[\"re:.*(mlp|attn).*\"]}", 0,
          0 },
        { "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,32],\"ignore\":[\"model.layers.7\"]}", 0, 0 },
        { "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,32],\"ignore\":[\"*\"]}", 0, 0 },
        { "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,32],\"ignore_patterns\":[\"model.layers.N*\"]"
          "}",
          0, 0 },
        { "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,0]}", 0, 0 },
        { "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,32],\"scale_fmt\":\"ue8m0\"}", 0, 0 },
        { "{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\"}", 0, 0 },
        { "{\"quant_method\":\"modelopt\",\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"a\":{}}"
          "}",
          0, 0 },
        { "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"dynamic\":{\"-:x\":{}}}", 0, 0 },
        { "{\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":32}", 0, 0 },
        { "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"lm_head\":true}", 0, 0 },
        { "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32,\"zero_point\":true,\"version\":\"gemv\"}",
          0, 0 },
        { "{\"quant_method\":\"mxfp4\"}", 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[1024];
        world w = { 0 };
        snprintf(
            config, sizeof config,
            "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":64,\"intermediate_size\":96,"
            "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":80,\"torch_dtype\":"
            "\"bfloat16\","
            "\"quantization_config\":%s}",
            cases[i].config);
        open_world(&w, config);
        assert_int_equal(w.status, VRAM_OK);
        if ((w.m->weights_unknown == NULL) != (cases[i].bytes != 0))
            fail_msg("%s: %s", cases[i].config,
                     w.m->weights_unknown != NULL ? w.m->weights_unknown : "known");
        assert_int_equal(w.m->parameters, LINEAR + PLAIN / 2);
        if (cases[i].bytes != 0 && w.m->checkpoint->tensor_bytes != PLAIN + cases[i].bytes)
            fail_msg("%s: %llu bytes, not %llu", cases[i].config,
                     (unsigned long long)w.m->checkpoint->tensor_bytes,
                     (unsigned long long)(PLAIN + cases[i].bytes));
        assert_int_equal(w.m->packing.quantised_matrices, cases[i].matrices);
        close_world(&w);
    }
}

static void type_not_said(void **state)
{
    world w = { 0 };
    (void)state;
    open_world(&w, "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":64,\"vocab_size\":80,"
                   "\"num_attention_heads\":4,\"intermediate_size\":96}");
    assert_int_equal(w.status, VRAM_OK);
    assert_true(w.m->dtype_assumed && w.m->dtype == VR_BF16);
    assert_true(warned(w.ctx, "bf16 is assumed"));
    close_world(&w);
}

/* Sizes at their bounds: no sum leaves 64 bits unseen. */
static void largest(void **state)
{
    world w = { 0 };
    (void)state;
    open_world(&w, "{\"model_type\":\"llama\",\"num_hidden_layers\":4096,\"hidden_size\":16777216,"
                   "\"intermediate_size\":16777216,\"num_attention_heads\":65536,\"head_dim\":65536,"
                   "\"vocab_size\":268435456,\"torch_dtype\":\"float32\"}");
    assert_true(w.status == VRAM_OK || w.status == VRAM_ELIMIT);
    if (w.status == VRAM_OK)
        assert_true(w.m->parameters > UINT64_C(1) << 60);
    close_world(&w);
}

static void allocations(void **state)
{
    vram_status s = VRAM_ENOMEM;
    (void)state;
    for (size_t n = 1; s == VRAM_ENOMEM; n++) {
        world w = { .s.config = kinds[0].config };
        w.h.fail_at = n;
        s = vram_open(&w.ctx, hook_alloc, &w.h);
        if (s != VRAM_OK)
            continue;
        s = load(&w.ck, w.ctx, &w.s);
        if (s == VRAM_OK)
            s = vram_model_new(&w.m, w.ck);
        assert_true(n < 500);
        close_world(&w);
    }
    assert_int_equal(s, VRAM_OK);
}

/* ---- settings that are left out ---- */

/* The published GLM-4.7 in excerpts that somebody wrote down. */
static void sizes_not_said(void **state)
{
    world w = { 0 };
    (void)state;
    open_world(&w, "{\"model_type\":\"glm4_moe\",\"num_hidden_layers\":92,\"num_key_value_heads\":8,"
                   "\"head_dim\":128,\"num_attention_heads\":96,\"hidden_size\":5120}");
    assert_int_equal(w.m->n_assumed, 5);
    assert_true(warned(w.ctx,
                       "it leaves out sizes, for which the class's defaults stand: intermediate_size "
                       "10,944, vocab_size 151,552, num_local_experts 128, moe_intermediate_size 1,408, "
                       "n_shared_experts 1"));
    assert_int_equal(vr_basis_of(w.m), VR_BASIS_ASSUMED);
    close_world(&w);
}

/* More than are named; a class without a setting, or whose default follows from another one, misses nothing.
 */
static void how_many_not_said(void **state)
{
    static const struct {
        const char *config;
        size_t n;
    } cases[] = {
        { "{\"model_type\":\"deepseek_v3\"}", 12 },
        { "{\"model_type\":\"mamba\"}", 4 },
        { "{\"model_type\":\"gpt2\",\"n_layer\":12,\"n_embd\":768,\"n_head\":12,\"vocab_size\":50257}", 0 },
        { "{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\",\"hidden_size\":2560,"
          "\"num_hidden_layers\":34,\"intermediate_size\":10240}}",
          0 },
        { "{\"model_type\":\"deepseek_v3\",\"vocab_size\":null}", 11 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w = { 0 };
        open_world(&w, cases[i].config);
        if (w.m->n_assumed != cases[i].n)
            fail_msg("%s: %zu", cases[i].config, w.m->n_assumed);
        assert_true(warned(w.ctx, "leaves out sizes") == (cases[i].n != 0));
        assert_true(warned(w.ctx, " and ") == (cases[i].n > 8));
        close_world(&w);
    }
}

/* No built-in model lacks such a setting. */
static void catalogue_says_all(void **state)
{
    size_t n;
    const vr_catalogue_row *rows = vr_catalogue(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        world *w = calloc(1, sizeof *w);
        vram_ctx *ctx;
        vr_arena a;
        assert_non_null(w);
        assert_int_equal(vram_open(&ctx, hook_alloc, &w->h), VRAM_OK);
        vr_arena_init(&a, ctx);
        vr_str config = vr_catalogue_config(&rows[i], &a);
        char *text = calloc(1, config.n + 1);
        assert_non_null(text);
        memcpy(text, config.s, config.n);
        vr_arena_free(&a);
        vram_close(ctx);
        open_world(w, text);
        if (w->m->n_assumed != 0)
            fail_msg("%s lacks %s", rows[i].name, w->m->assumed[0].key);
        close_world(w);
        free(text);
        free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_stored),         cmocka_unit_test(not_made_up),
        cmocka_unit_test(type_not_said),     cmocka_unit_test(sizes_not_said),
        cmocka_unit_test(how_many_not_said), cmocka_unit_test(catalogue_says_all),
        cmocka_unit_test(quantised),         cmocka_unit_test(largest),
        cmocka_unit_test(allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
