/* SPDX-License-Identifier: MIT
 * What holds of every row of data/architectures.tsv, and caches against published figures. */
#include "support.h"

static size_t text_of(char *out, size_t n, const char *model_type)
{
    return (size_t)snprintf(
        out, n,
        "{\"model_type\":\"%s\",\"num_hidden_layers\":7,\"hidden_size\":330,\"vocab_size\":101,"
        "\"num_attention_heads\":6,\"num_key_value_heads\":3,\"head_dim\":46,"
        "\"intermediate_size\":77,\"max_position_embeddings\":59,\"word_embed_proj_dim\":330,"
        "\"tie_word_embeddings\":false,\"dtype\":\"bfloat16\"}",
        model_type);
}

static void every_row_has_names(void **state)
{
    size_t n;
    const vr_family *f = vr_families(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        const vr_naming *naming = vr_naming_of(&f[i]);
        if (naming == NULL)
            fail_msg("%s: there is no naming \"%s\"", f[i].model_type, f[i].naming);
        assert_non_null(strchr(naming->prefix, '.'));
        assert_true(vr_family_find(vr_str_of(f[i].model_type)) == &f[i]);
    }
}

/* No figure of a model that is not known: not the next best row's, not the defaults'. */
static void renamed(void **state)
{
    size_t n;
    const vr_family *f = vr_families(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        world w = { 0 };
        char config[512], name[128];
        snprintf(name, sizeof name, "%s-of-mine", f[i].model_type);
        text_of(config, sizeof config, name);
        open_world(&w, config);
        assert_int_equal(w.status, VRAM_OK);
        assert_null(w.m->family);
        assert_false(w.m->kv_known);
        assert_int_equal(w.m->kv_bytes_per_token_16bit, 0);
        assert_int_equal(w.m->declared_parameters, 0);
        assert_non_null(strstr(w.m->not_understood, name));
        close_world(&w);
    }
}

static unsigned words_with(const char *cell, const char *start)
{
    unsigned n = 0;
    for (const char *at = cell; (at = strstr(at, start)) != NULL; at++)
        n++;
    return n;
}

/* A norm over n of this kind. */
static uint64_t norm(const vr_family *f, uint64_t n)
{
    bool bare = f->norm == VR_NORM_RMS_BARE || f->norm == VR_NORM_LAYER_BARE;
    return bare ? 0 : f->norm == VR_NORM_LAYER || f->norm == VR_NORM_LAYER_1P ? 2 * n : n;
}

/* What such a decoder has, from the row alone. */
static uint64_t closed_form(const vr_family *f, uint64_t h, uint64_t ffn, uint64_t vocab, uint64_t context)
{
    const vr_naming *names = vr_naming_of(f);
    uint64_t q = 6 * 46, kv = 3 * 46, layer = 0, all = 2 * vocab * h + norm(f, h);
    uint64_t norms = words_with(names->layer, " pre_") + words_with(names->layer, " post_") +
                     (strncmp(names->layer, "pre_", 4) == 0);
    layer += h * (q + 2 * kv) + q * h + (f->mlp == VR_MLP_PLAIN ? 2 : 3) * h * ffn;
    layer += f->qkv_bias ? q + 2 * kv : 0;
    layer += f->o_bias ? h : 0;
    layer += f->mlp_bias ? (f->mlp == VR_MLP_PLAIN ? ffn : 2 * ffn) + h : 0;
    layer += norms * norm(f, h);
    if (f->qk_norm)
        layer += f->qk_norm_whole ? norm(f, q) + norm(f, kv) : 2 * norm(f, 46);
    all += words_with(names->model, "positions=") * (context + f->position_offset) * h;
    all += words_with(names->model, "embedding_norm=") * norm(f, h);
    return all + 7 * layer + (f->head_bias ? vocab : 0);
}

static void odd_sizes(void **state)
{
    size_t n, plain = 0;
    const vr_family *f = vr_families(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        world w = { 0 };
        char config[512];
        if (f[i].special != NULL)
            continue;
        text_of(config, sizeof config, f[i].model_type);
        open_world(&w, config);
        if (w.m->family == NULL)
            fail_msg("%s: %s", f[i].model_type, w.m->not_understood);
        assert_int_equal(w.m->kv_bytes_per_token_16bit, 7 * 2 * 3 * 46 * 2);
        uint64_t wanted = closed_form(&f[i], 330, 77, 101, 59);
        if (w.m->declared_parameters != wanted)
            fail_msg("%s: %llu parameters, by the closed form %llu", f[i].model_type,
                     (unsigned long long)w.m->declared_parameters, (unsigned long long)wanted);
        plain++;
        close_world(&w);
    }
    printf("%zu of %zu rows are plain\n", plain, n);
    assert_true(plain >= 30);
}

/* ---- caches ---- */

/* 16 bits; every layer keeps `tokens`, and those that slide at most their window when `capped`. */
static uint64_t cache(const vram_model *m, uint64_t tokens, bool capped)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        uint64_t kept = capped && l->window != 0 && l->window < tokens ? l->window : tokens;
        bytes += 2 * kept * vr_layer_kv_elements(l);
    }
    return bytes;
}

#define GIB_EIGHTHS(n) ((uint64_t)(n) << 27)

/* Published: Qwen3-0.6B 4.375 GiB at 40,960 tokens; Gemma-3-27B 10.406 GiB at 131,072 with its windows
 * capped, and the whole prompt in every layer until transformers computes the next token. */
static void caches_of_models(void **state)
{
    world w = { 0 };
    (void)state;
    open_world(&w, "{\"model_type\":\"qwen3\",\"num_hidden_layers\":28,\"hidden_size\":1024,"
                   "\"intermediate_size\":3072,\"num_attention_heads\":16,\"num_key_value_heads\":8,"
                   "\"head_dim\":128,\"vocab_size\":151936,\"tie_word_embeddings\":true}");
    assert_int_equal(cache(w.m, 40960, false), GIB_EIGHTHS(35)); /* 4.375 */
    assert_int_equal(w.m->declared_parameters, 596049920);
    close_world(&w);
    w = (world){ 0 };
    open_world(&w, "{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":62,\"hidden_size\":5376,"
                   "\"intermediate_size\":21504,\"num_attention_heads\":32,\"num_key_value_heads\":16,"
                   "\"head_dim\":128,\"sliding_window\":1024}");
    assert_int_equal(cache(w.m, 131072, true), GIB_EIGHTHS(80) + (UINT64_C(416) << 20)); /* 10.40625 */
    assert_int_equal(cache(w.m, 131072, false), GIB_EIGHTHS(62 * 8));
    close_world(&w);
}

/* Of Gemma 4: 12B 8 layers of 1 head, 26B of 2, 31B of 4; keys and values of 512 in 16 bits. */
static void global_layers_of_gemma4(void **state)
{
    static const struct {
        unsigned layers, kv, global_kv, n_global;
        uint64_t layer;
    } cases[] = { { 48, 8, 1, 8, 2048 }, { 30, 8, 2, 5, 4096 }, { 60, 16, 4, 10, 8192 } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w = { 0 };
        char config[768];
        uint64_t all = 0, n = 0;
        snprintf(config, sizeof config,
                 "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":%u,\"hidden_size\":2816,"
                 "\"intermediate_size\":2112,\"num_attention_heads\":16,\"num_key_value_heads\":%u,"
                 "\"num_global_key_value_heads\":%u,\"head_dim\":256,\"global_head_dim\":512,"
                 "\"attention_k_eq_v\":true,\"sliding_window\":1024,\"hidden_size_per_layer_input\":0}",
                 cases[i].layers, cases[i].kv, cases[i].global_kv);
        open_world(&w, config);
        assert_int_equal(w.status, VRAM_OK);
        for (uint64_t k = 0; k < w.m->n_layers; k++) {
            const vr_layer *l = &w.m->layers[k];
            bool global = l->attention == VR_ATTENTION_FULL;
            assert_int_equal(2 * vr_layer_kv_elements(l), global ? cases[i].layer : cases[i].kv * 1024);
            all += global ? 2 * vr_layer_kv_elements(l) : 0;
            n += global;
        }
        assert_int_equal(n, cases[i].n_global);
        assert_int_equal(all, cases[i].n_global * cases[i].layer); /* 16 KiB of 12B */
        close_world(&w);
    }
}

/* ---- what a class is known for, and no further ---- */

static void only_as_described(void **state)
{
    static const char *const cases[][2] = {
        { "{\"model_type\":\"opt\",\"do_layer_norm_before\":false}", "do_layer_norm_before true" },
        { "{\"model_type\":\"opt\",\"num_attention_heads\":16,\"hidden_size\":1024,\"word_embed_proj_dim\":"
          "512}",
          "word_embed_proj_dim" },
        { "{\"model_type\":\"cohere\",\"use_qk_norm\":true}", "use_qk_norm false" },
        { "{\"model_type\":\"stablelm\",\"use_parallel_residual\":true}", "use_parallel_residual" },
        { "{\"model_type\":\"mpt\",\"expansion_ratio\":3}", "expansion_ratio 4" },
        { "{\"model_type\":\"mistral3\",\"hidden_size\":64}", "does not state intermediate_size" },
        { "{\"model_type\":\"gemma4_text\",\"enable_moe_block\":true}", "experts are not stated" },
        { "{\"model_type\":\"nemotron-nas\"}", "no block_configs" },
        { "{\"model_type\":\"nemotron-nas\",\"block_configs\":[]}", "has 0 layers" },
        { "{\"model_type\":\"nemotron-nas\",\"block_configs\":[{}]}", "layer 0" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w = { 0 };
        open_world(&w, cases[i][0]);
        assert_int_equal(w.status, VRAM_OK);
        assert_null(w.m->family);
        if (strstr(w.m->not_understood, cases[i][1]) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", w.m->not_understood, cases[i][1]);
        close_world(&w);
    }
}

static void hostile(void **state)
{
    static const char *const cases[] = {
        "{\"model_type\":\"gemma4_text\",\"num_kv_shared_layers\":30}",
        "{\"model_type\":\"gemma4_text\",\"num_kv_shared_layers\":31}",
        "{\"model_type\":\"gemma4_text\",\"num_kv_shared_layers\":-1}",
        "{\"model_type\":\"gemma4_text\",\"global_head_dim\":0}",
        "{\"model_type\":\"gemma4_text\",\"attention_k_eq_v\":true,\"num_global_key_value_heads\":3}",
        "{\"model_type\":\"gemma4_text\",\"hidden_size_per_layer_input\":99999999999}",
        "{\"model_type\":\"nemotron-nas\",\"block_configs\":{}}",
        "{\"model_type\":\"nemotron-nas\",\"block_configs\":[{\"attention\":{\"n_heads_in_group\":5},"
        "\"ffn\":{}}]}",
        "{\"model_type\":\"nemotron-nas\",\"block_configs\":[{\"attention\":{\"no_op\":true},"
        "\"ffn\":{\"ffn_mult\":1e30}}]}",
        "{\"model_type\":\"mimo\",\"num_nextn_predict_layers\":99999999}",
        "{\"model_type\":\"smollm3\",\"no_rope_layers\":[2]}",
        "{\"model_type\":\"smollm3\",\"no_rope_layers\":7}",
        "{\"model_type\":\"smollm3\",\"no_rope_layer_interval\":0}",
        "{\"model_type\":\"gpt2\",\"n_layer\":\"12\"}",
        "{\"model_type\":\"gpt2\",\"n_embd\":0}",
        "{\"model_type\":\"phi\",\"partial_rotary_factor\":1.5}",
        "{\"model_type\":\"opt\",\"enable_bias\":1}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w = { 0 };
        open_world(&w, cases[i]);
        if (w.status != VRAM_EFORMAT)
            fail_msg("%s is taken", cases[i]);
        assert_string_equal(vram_last_error(w.ctx)->file, "config.json");
        assert_true(vram_last_error(w.ctx)->offset > 14);
        close_world(&w);
    }
}

/* The class's own names and the usual ones are the same settings. */
static void names_of_settings(void **state)
{
    world w = { 0 };
    (void)state;
    open_world(&w, "{\"model_type\":\"gpt2\",\"n_layer\":3,\"n_embd\":96,\"n_head\":4,\"n_positions\":50,"
                   "\"vocab_size\":70,\"n_inner\":null}");
    assert_int_equal(w.m->n_layers, 3);
    assert_int_equal(w.m->hidden, 96);
    assert_int_equal(w.m->heads, 4);
    assert_int_equal(w.m->kv_heads, 4);
    assert_int_equal(w.m->head_dim, 24);
    assert_int_equal(w.m->ffn, 384);
    assert_int_equal(w.m->max_context, 50);
    close_world(&w);
}

/* Blocks of other widths: 2 x 2.625 x 96 / 3 is 168, rounded up to 256. One has no attention, one no MLP. */
static void blocks_of_their_own(void **state)
{
    world w = { 0 };
    (void)state;
    open_world(&w,
               "{\"model_type\":\"nemotron-nas\",\"num_hidden_layers\":3,\"hidden_size\":96,"
               "\"num_attention_heads\":8,\"vocab_size\":50,\"intermediate_size\":null,\"block_configs\":["
               "{\"attention\":{\"n_heads_in_group\":4},\"ffn\":{\"ffn_mult\":2.625}},"
               "{\"attention\":{\"no_op\":true,\"n_heads_in_group\":null},\"ffn\":{\"ffn_mult\":5.25}},"
               "{\"attention\":{\"n_heads_in_group\":8},\"ffn\":{\"no_op\":true}}]}");
    assert_int_equal(w.m->layers[0].ffn, 256);
    assert_int_equal(w.m->layers[1].ffn, 512);
    assert_int_equal(w.m->layers[1].attention, VR_ATTENTION_NONE);
    assert_int_equal(w.m->layers[2].mlp, VR_MLP_NONE);
    assert_int_equal(w.m->kv_bytes_per_token_16bit, 2 * 2 * 12 * (2 + 1));
    uint64_t first = 96 + 2 * 96 * 96 + 2 * 96 * 24 + 96 + 3 * 96 * 256, second = 96 + 3 * 96 * 512;
    uint64_t third = 96 + 2 * 96 * 96 + 2 * 96 * 12;
    assert_int_equal(w.m->declared_parameters, first + second + third + 2 * 50 * 96 + 96);
    close_world(&w);
}

/* A layer that predicts further tokens is declared, and has no cache. */
/* arange(0, int(62 * 0.334), 2) has ten entries, arange(0, int(64 * 0.334), 2) eleven. */
static void odd_parts_of_a_head(void **state)
{
    static const char *const text =
        "{\"model_type\":\"glm\",\"num_hidden_layers\":1,\"hidden_size\":96,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"head_dim\":%u,\"partial_rotary_factor\":0.334,\"vocab_size\":50,"
        "\"intermediate_size\":80}";
    const unsigned widths[][2] = { { 62, 20 }, { 64, 22 }, { 192, 64 } };
    (void)state;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        world w = { 0 };
        char config[512];
        snprintf(config, sizeof config, text, widths[i][0]);
        open_world(&w, config);
        assert_int_equal(w.m->rotary_dim, widths[i][1]);
        assert_int_equal(w.m->layers[0].rotary_dim, widths[i][1]);
        close_world(&w);
    }
}

static void layers_that_predict(void **state)
{
    world w = { 0 }, without = { 0 };
    uint64_t h = 96, q = 96, kv = 48, f = 80;
    static const char *const text = "{\"model_type\":\"mimo\",\"num_hidden_layers\":2,\"hidden_size\":96,"
                                    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":50,"
                                    "\"intermediate_size\":80%s}";
    char one[512], none[512];
    (void)state;
    snprintf(one, sizeof one, text, ",\"num_nextn_predict_layers\":1");
    snprintf(none, sizeof none, text, "");
    open_world(&w, one);
    open_world(&without, none);
    assert_int_equal(w.m->kv_bytes_per_token_16bit, without.m->kv_bytes_per_token_16bit);
    assert_int_equal(w.m->declared_parameters - without.m->declared_parameters,
                     5 * h + 2 * h * h + h * (q + 2 * kv) + q + 2 * kv + q * h + 3 * h * f);
    close_world(&without);
    close_world(&w);
}

/* Layers without a cache of their own use that of the last one of their kind. */
static void shared_caches(void **state)
{
    world w = { 0 };
    (void)state;
    open_world(&w, "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":5,\"num_kv_shared_layers\":2,"
                   "\"use_double_wide_mlp\":true,\"intermediate_size\":100,\"layer_types\":["
                   "\"full_attention\",\"sliding_attention\",\"sliding_attention\",\"full_attention\","
                   "\"sliding_attention\"]}");
    assert_int_equal(w.m->layers[3].kv_from, 1);
    assert_int_equal(w.m->layers[4].attention, VR_ATTENTION_FULL); /* the last one always */
    assert_int_equal(w.m->layers[4].kv_from, 1);
    assert_int_equal(w.m->layers[2].kv_from, 0);
    assert_int_equal(w.m->layers[2].ffn, 100);
    assert_int_equal(w.m->layers[3].ffn, 200);
    assert_int_equal(vr_layer_kv_elements(&w.m->layers[3]), 0);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_names),
        cmocka_unit_test(renamed),
        cmocka_unit_test(odd_sizes),
        cmocka_unit_test(caches_of_models),
        cmocka_unit_test(global_layers_of_gemma4),
        cmocka_unit_test(only_as_described),
        cmocka_unit_test(hostile),
        cmocka_unit_test(names_of_settings),
        cmocka_unit_test(shared_caches),
        cmocka_unit_test(blocks_of_their_own),
        cmocka_unit_test(odd_parts_of_a_head),
        cmocka_unit_test(layers_that_predict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
