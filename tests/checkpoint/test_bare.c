/* SPDX-License-Identifier: MIT
 * Configurations without weights: a listing that has nothing else, a file that the user named. */
#include "source.h"

#define CONFIG "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"]}"
#define WEIGHTS "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"

static vram_status read_named(world *w, const char *named, feed how)
{
    open_world(w);
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->memory), VRAM_OK);
    vram_status s = vram_checkpoint_new(&w->ck, w->ctx, "the checkpoint");
    if (s == VRAM_OK)
        s = vram_checkpoint_named(w->ck, named);
    while (s == VRAM_OK) {
        s = vram_checkpoint_step(w->ck);
        if (s != VRAM_MORE)
            return s;
        s = answer(w, how);
    }
    return s;
}

static void expect_bare(const world *w, const char *file)
{
    assert_true(w->ck->config_only && w->ck->has_config);
    assert_true(vram_checkpoint_config_only(w->ck) && vram_checkpoint_complete(w->ck));
    assert_string_equal(w->ck->config_file, file);
    assert_int_equal(w->ck->n_tensors, 0);
    assert_int_equal(w->ck->n_files, 0);
    assert_int_equal(w->ck->tensor_bytes, 0);
    assert_null(vr_checkpoint_find(w->ck, vr_str_of("a")));
}

/* In whatever pieces it comes. */
static void test_alone(void **state)
{
    (void)state;
    for (feed how = FEED_MOST; how < FEEDS; how++) {
        world *w = new_world();
        add_text(w, "config.json", CONFIG);
        add_text(w, "tokenizer.json", "{}");
        add_text(w, "modules.json", "[]"); /* of sentence-transformers; without weights it says nothing */
        expect_ok(w, read_world(w, how));
        expect_bare(w, "config.json");
        assert_true(
            has_warning(w, "the checkpoint", "there are no weight files: figures come from config.json"));
        end_world(w);
    }
}

static void test_named(void **state)
{
    (void)state;
    static const char *const names[] = { "config.json", "qwen.json", "config", "configs/a.txt" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (feed how = FEED_MOST; how < FEEDS; how++) {
            world *w = new_world();
            add_text(w, names[i], " \n" CONFIG);
            add_header(w, "model.safetensors", WEIGHTS, 4);
            expect_ok(w, read_named(w, names[i], how));
            expect_bare(w, names[i]);
            assert_int_equal(n_warnings(w), 0);
            end_world(w);
        }
    }
}

/* Eight bytes of length may begin with a brace: 123 bytes of header. */
static void test_named_weights(void **state)
{
    (void)state;
    char header[124];
    snprintf(header, sizeof(header), "%-123s", WEIGHTS);
    world *w = new_world();
    add_header(w, "weights", header, 4);
    expect_ok(w, read_named(w, "weights", FEED_MOST));
    assert_false(w->ck->config_only);
    assert_int_equal(w->ck->n_tensors, 1);
    end_world(w);
}

static void expect_refused(const char *name, const char *text, vram_status code, uint64_t offset,
                           const char *what)
{
    for (feed how = FEED_MOST; how < FEEDS; how++) {
        world *w = new_world();
        add_text(w, name, text);
        expect_error(w, read_named(w, name, how), code, name, offset, what);
        end_world(w);
    }
}

static void test_others(void **state)
{
    (void)state;
    expect_refused("x.json", "{\"weight_map\":{}}", VRAM_EUNSUPPORTED, UINT64_MAX, "the index");
    expect_refused("x.json", "{\"peft_type\":\"LORA\"}", VRAM_EUNSUPPORTED, UINT64_MAX, "an adapter");
    expect_refused("tokenizer.json", "{\"added_tokens\":[],\"model\":{}}", VRAM_EUNSUPPORTED, UINT64_MAX,
                   "a tokenizer");
    expect_refused("x.json", "{\"added_tokens\":[]}", VRAM_EUNSUPPORTED, UINT64_MAX, "no model_type");
    expect_refused("x.json", "{\"model_type\":null}", VRAM_EUNSUPPORTED, UINT64_MAX, "no model_type");
    expect_refused("x.json", "{\"tokenizer_class\":\"T\"}", VRAM_EUNSUPPORTED, UINT64_MAX, "of a tokenizer");
    expect_refused("x.json", "{\"image_processor_type\":\"T\"}", VRAM_EUNSUPPORTED, UINT64_MAX,
                   "preprocessor");
    expect_refused("x.json", "{\"eos_token_id\":1}", VRAM_EUNSUPPORTED, UINT64_MAX,
                   "generation_config.json?");
    expect_refused("x.json", "{\"architectures\":[],\"eos_token_id\":1}", VRAM_EUNSUPPORTED, UINT64_MAX,
                   "no model_type");
    expect_refused("params.json", "{\"dim\":1,\"n_layers\":1}", VRAM_EUNSUPPORTED, UINT64_MAX, "params.json");
    expect_refused("config.json", "[]", VRAM_EFORMAT, 0, "must be a JSON object");
    expect_refused("config.json", "{", VRAM_EFORMAT, 1, "not valid JSON");
    expect_refused("config", "{", VRAM_EFORMAT, 1, "not valid JSON");
    expect_refused("notes", "hello", VRAM_EFORMAT, 0, "begins like no format");
    expect_refused("x.json", "", VRAM_EFORMAT, 0, "the file is empty");
}

/* Where the quantisation stands in a file of its own, nothing may be taken for 16 bits. */
static void test_quantised_elsewhere(void **state)
{
    (void)state;
    static const char *const names[] = { "hf_quant_config.json", "quantize_config.json",
                                         "sub/hf_quant_config.json" };
    for (size_t i = 0; i < 3; i++) {
        world *w = new_world();
        add_text(w, "config.json", CONFIG);
        add_text(w, names[i], "{}");
        expect_ok(w, read_world(w, FEED_MOST));
        assert_int_equal(w->ck->quantised_elsewhere, i < 2);
        end_world(w);
    }
}

static void test_allocations(void **state)
{
    (void)state;
    vram_status s = VRAM_ENOMEM;
    for (size_t n = 0; s == VRAM_ENOMEM; n++) {
        world *w = new_world();
        add_text(w, "config.json", CONFIG);
        w->memory.fail_at = n + 1;
        s = read_world(w, FEED_MOST);
        assert_true(n < 200);
        end_world(w);
    }
    assert_int_equal(s, VRAM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_named_weights),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_quantised_elsewhere),
        cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
