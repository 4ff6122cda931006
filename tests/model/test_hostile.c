/* SPDX-License-Identifier: MIT
 * config.json by somebody who means harm, or edited by hand: each count that is no count is an error with
 * file, place and reason; bounds are those of src/model/reading.h. */
#include "support.h"

static const shape tiny = { "model.", 1, 64, 4, 2, 16, 96, 320, false, true, false };

/* The error's offset must be that of the value. */
static void refuse(const char *key, const char *value, const char *reason)
{
    world w = { 0 };
    static const char *const rest[][2] = {
        { "hidden_size", "64" },        { "num_hidden_layers", "1" }, { "num_attention_heads", "4" },
        { "num_key_value_heads", "2" }, { "vocab_size", "320" },      { "intermediate_size", "96" },
    };
    char config[768];
    int n = snprintf(config, sizeof config, "{\"model_type\":\"llama\",\"%s\":%s", key, value);
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        if (strcmp(rest[i][0], key) != 0)
            n += snprintf(config + n, sizeof config - (size_t)n, ",\"%s\":%s", rest[i][0], rest[i][1]);
    }
    strcpy(config + n, "}");
    add_decoder(&w.s, &tiny);
    open_world(&w, config);
    const vram_error *e = vram_last_error(w.ctx);
    if (w.status != VRAM_EFORMAT)
        fail_msg("%s %s: status %d", key, value, (int)w.status);
    assert_string_equal(e->file, "config.json");
    assert_true(e->has_offset);
    assert_int_equal(e->offset, strlen("{\"model_type\":\"llama\",\"\":") + strlen(key));
    if (strstr(e->text, key) == NULL || strstr(e->text, reason) == NULL)
        fail_msg("\"%s\" does not name %s and \"%s\"", e->text, key, reason);
    close_world(&w);
}

static void counts_that_are_none(void **state)
{
    static const char *const keys[] = {
        "num_attention_heads", "num_key_value_heads", "num_hidden_layers", "hidden_size",
        "intermediate_size",   "vocab_size",          "head_dim",          "max_position_embeddings"
    };
    static const char *const values[] = { "0",     "-1",   "1e300", "1.5", "1099511627777",
                                          "\"4\"", "true", "[4]",   "{}",  "18446744073709551616",
                                          "1e-3" };
    (void)state;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            refuse(keys[k], values[v], "not a whole number from 1 to ");
}

/* Python's numbers that are none: each setting that is read refuses them by name. */
static void numbers_of_python(void **state)
{
    static const char *const words[] = { "NaN", "Infinity", "-Infinity" };
    static const char *const keys[] = {
        "num_attention_heads",     "num_key_value_heads", "hidden_size", "sliding_window",
        "max_position_embeddings", "tie_word_embeddings", "torch_dtype"
    };
    (void)state;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        for (size_t i = 0; i < 3; i++) {
            char expected[40];
            snprintf(expected, sizeof expected, " is %s, not ", words[i]);
            refuse(keys[k], words[i], expected);
        }
    }
}

static void counts_over_their_bound(void **state)
{
    (void)state;
    refuse("num_hidden_layers", "4097", "to 4096");
    refuse("num_attention_heads", "65537", "to 65536");
    refuse("hidden_size", "16777217", "to 16777216");
    refuse("intermediate_size", "16777217", "to 16777216");
    refuse("vocab_size", "268435457", "to 268435456");
    refuse("head_dim", "65537", "to 65536");
    refuse("max_position_embeddings", "1099511627777", "to 1099511627776");
}

static void counts_that_do_not_divide(void **state)
{
    (void)state;
    refuse("num_key_value_heads", "3", "a divisor of num_attention_heads");
    refuse("hidden_size", "65", "a multiple of num_attention_heads");
}

static void things_of_the_wrong_kind(void **state)
{
    (void)state;
    refuse("tie_word_embeddings", "1", "true or false");
    refuse("attention_bias", "\"no\"", "true or false");
    refuse("mlp_bias", "0", "true or false");
    refuse("sliding_window", "0", "not a whole number");
    refuse("sliding_window", "-4096", "not a whole number");
    refuse("layer_types", "\"full\"", "an array");
    refuse("text_config", "[]", "an object");
    refuse("architectures", "\"LlamaForCausalLM\"", "an array of strings");
    refuse("torch_dtype", "16", "a string");
}

static void a_model_type_that_is_a_number(void **state)
{
    world w = { 0 };
    (void)state;
    add_decoder(&w.s, &tiny);
    open_world(&w, "{\"model_type\":7}");
    assert_int_equal(w.status, VRAM_EFORMAT);
    assert_int_equal(vram_last_error(w.ctx)->offset, 14);
    close_world(&w);
}

/* The value in the error text is cut; a name with a zero byte is refused, any other text is taken as it is.
 */
static void long_and_odd_values(void **state)
{
    world w = { 0 };
    char config[1024] = "{\"model_type\":\"llama\",\"hidden_size\":1";
    (void)state;
    memset(config + strlen(config), '7', 600);
    strcat(config, "}");
    add_decoder(&w.s, &tiny);
    open_world(&w, config);
    assert_int_equal(w.status, VRAM_EFORMAT);
    assert_true(strlen(vram_last_error(w.ctx)->text) < 160);
    close_world(&w);
    world odd = { 0 };
    add_decoder(&odd.s, &tiny);
    open_world(&odd, "{\"model_type\":\"llama\\u0000\"}");
    assert_int_equal(odd.status, VRAM_EFORMAT);
    close_world(&odd);
    world smile = { 0 };
    add_decoder(&smile.s, &tiny);
    open_world(&smile, "{\"model_type\":\"\\ud83d\\ude00\",\"torch_dtype\":\"\\ud83d\\ude00\"}");
    assert_int_equal(smile.status, VRAM_OK);
    assert_true(warned(smile.ctx, "torch_dtype") && smile.m->family == NULL);
    close_world(&smile);
}

/* As many layers as a bound allows, and layer_types longer than any model: bounded work, no error of memory.
 */
static void a_long_list_of_layers(void **state)
{
    world w = { 0 };
    char *config = malloc(2000000);
    size_t n;
    (void)state;
    assert_non_null(config);
    n = (size_t)sprintf(
        config, "{\"model_type\":\"qwen3\",\"num_hidden_layers\":4096,\"layer_types\":[\"full_attention\"");
    for (int i = 0; i < 90000; i++)
        n += (size_t)sprintf(config + n, ",\"full_attention\"");
    strcpy(config + n, "]}");
    add(&w.s, "BF16", 8, 0, "model.", 0, "something.else");
    open_world(&w, config);
    assert_int_equal(w.status, VRAM_OK);
    assert_non_null(strstr(w.m->not_understood, "layer_types has 90001 layers, num_hidden_layers is 4096"));
    close_world(&w);
    free(config);
}

/* Tensors may be of any shape that the file bears out. */
static void shapes_meant_to_overflow(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        world w = { 0 };
        add(&w.s, "BF16", k == 0 ? UINT64_C(1) << 62 : 0, k == 1 ? UINT64_C(1) << 63 : 0, "model.", 0,
            "self_attn.q_proj.weight");
        add(&w.s, "BF16", k == 2 ? 0 : 8, 0, "model.", 0, "input_layernorm.weight");
        if (k == 0) { /* a dimension of 2^62 beside one of 0 takes no bytes */
            w.s.tensors[0].rows = 0;
            w.s.tensors[0].columns = UINT64_C(1) << 62;
        }
        open_world(&w, "{\"model_type\":\"llama\",\"num_hidden_layers\":1}");
        assert_int_equal(w.status, VRAM_OK);
        assert_null(w.m->family);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_that_are_none),     cmocka_unit_test(counts_over_their_bound),
        cmocka_unit_test(numbers_of_python),        cmocka_unit_test(counts_that_do_not_divide),
        cmocka_unit_test(things_of_the_wrong_kind), cmocka_unit_test(a_model_type_that_is_a_number),
        cmocka_unit_test(long_and_odd_values),      cmocka_unit_test(a_long_list_of_layers),
        cmocka_unit_test(shapes_meant_to_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
