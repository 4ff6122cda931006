/* SPDX-License-Identifier: MIT
 * Checkpoints that are more or less than one model: pipelines of diffusers, modules of sentence-transformers,
 * adapters; and weights in fp32. */
#include "source.h"

#include "model/model.h"

/* ---- models that consist of several ---- */

#define T1(name, dtype, bytes)                                                                               \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[2],\"data_offsets\":[0," bytes "]}"
#define F32_HEADER "{" T1("w", "F32", "8") "}"
#define F16_HEADER "{" T1("w", "F16", "4") "}"
#define PIPELINE                                                                                             \
    "{\"_class_name\":\"APipeline\",\"scheduler\":[\"diffusers\",\"EulerDiscreteScheduler\"],"               \
    "\"text_encoder\":[\"transformers\",\"CLIPTextModel\"],\"unet\":[\"diffusers\","                         \
    "\"UNet2DConditionModel\"],"                                                                             \
    "\"safety_checker\":[null,null],\"force\":true,\"vae\":[\"diffusers\",\"AutoencoderKL\"]}"

static world *pipeline(void)
{
    world *w = new_world();
    add_text(w, "model_index.json", PIPELINE);
    add_header(w, "unet/diffusion_pytorch_model.safetensors", F32_HEADER, 8);
    add_header(w, "unet/diffusion_pytorch_model.fp16.safetensors", F16_HEADER, 4);
    add_header(w, "text_encoder/model.fp16.safetensors", F16_HEADER, 4);
    add_header(w, "vae/diffusion_pytorch_model-00001-of-00001.safetensors", F32_HEADER, 8);
    add_text(w, "vae/diffusion_pytorch_model.safetensors.index.json",
             "{\"weight_map\":{\"w\":\"diffusion_pytorch_model-00001-of-00001.safetensors\"}}");
    add_header(w, "other/model.safetensors", F32_HEADER, 8);
    add_header(w, "all_in_one.safetensors", F32_HEADER, 8);
    return w;
}

/* diffusers loads of each component the plain files; where there are none it would fail without variant=. */
static void test_pipeline(void **state)
{
    (void)state;
    for (feed how = 0; how < FEEDS; how++) {
        world *w = pipeline();
        expect_ok(w, read_world(w, how));
        const vram_checkpoint *ck = w->ck;
        assert_false(ck->incomplete);
        assert_string_equal(ck->pipeline, "APipeline");
        assert_int_equal(ck->n_parts, 3);
        assert_string_equal(ck->parts[0].name, "text_encoder");
        assert_string_equal(ck->parts[0].variant, "fp16");
        assert_int_equal(ck->parts[0].bytes, 4);
        assert_string_equal(ck->parts[1].name, "unet");
        assert_string_equal(ck->parts[1].class_name, "UNet2DConditionModel");
        assert_null(ck->parts[1].variant);
        assert_string_equal(ck->parts[2].name, "vae");
        assert_int_equal(ck->n_tensors, 3); /* all called "w" in their files */
        assert_int_equal(vr_checkpoint_find(ck, VR_LIT("unet/w"))->dtype, VR_F32);
        assert_int_equal(vr_checkpoint_find(ck, VR_LIT("text_encoder/w"))->dtype, VR_F16);
        assert_non_null(vr_checkpoint_find(ck, VR_LIT("vae/w")));
        assert_null(vr_checkpoint_find(ck, VR_LIT("w")));
        assert_int_equal(ck->n_left_out, 3);
        assert_string_equal(ck->left_out[0].why, "a single file, not the pipeline");
        assert_string_equal(ck->left_out[1].why, "other/: not named by model_index.json");
        assert_true(has_warning(w, "text_encoder/", "this variant only"));
        assert_int_equal(n_warnings(w), 1);
        end_world(w);
    }
}

/* A component that has a class with weights and a folder without. */
static void test_pipeline_incomplete(void **state)
{
    (void)state;
    world *w = new_world();
    add_text(w, "model_index.json", PIPELINE);
    add_header(w, "unet/diffusion_pytorch_model.safetensors", F32_HEADER, 8);
    add_text(w, "vae/config.json", "{}");
    expect_ok(w, read_world(w, FEED_MOST));
    assert_true(w->ck->incomplete);
    assert_int_equal(w->ck->n_files, 3);
    assert_string_equal(w->ck->files[0].name, "text_encoder/model.safetensors");
    assert_true(w->ck->files[0].missing && w->ck->parts[0].missing);
    assert_string_equal(w->ck->files[2].name, "vae/diffusion_pytorch_model.safetensors");
    assert_true(has_warning(w, "vae/", "names it, and its folder has no weights"));
    assert_int_equal(n_warnings(w), 2);
    end_world(w);
}

static void refuse_index(const char *marked, vram_status code, const char *text)
{
    for (feed how = 0; how < FEEDS; how++) {
        world *w = new_world();
        uint64_t offset;
        const char *plain = unmark(w, marked, &offset);
        add_text(w, "model_index.json", plain);
        add_header(w, "unet/diffusion_pytorch_model.safetensors", F32_HEADER, 8);
        expect_error(w, read_world(w, how), code, "model_index.json", offset, text);
        end_world(w);
    }
}

static void test_pipeline_refused(void **state)
{
    (void)state;
    refuse_index("@[]", VRAM_EFORMAT, "must be a JSON object");
    refuse_index("{\"unet\":[@}", VRAM_EFORMAT, "not valid JSON");
    refuse_index("{@\"../x\":[\"diffusers\",\"AModel\"]}", VRAM_EFORMAT, "is not the name of a folder");
    refuse_index("{@\"a/b\":[\"diffusers\",\"AModel\"]}", VRAM_EFORMAT, "is not the name of a folder");
    refuse_index("{@\"\":[\"diffusers\",\"AModel\"]}", VRAM_EFORMAT, "has no name");
    refuse_index("{\"unet\":[\"diffusers\",\"AModel\"],@\"unet\":[\"diffusers\",\"AModel\"]}", VRAM_EFORMAT,
                 "is there twice");
    refuse_index("{\"_class_name\":@7}", VRAM_EFORMAT, "is not a string");
    refuse_index("{\"unet\":[\"diffusers\",@\"A\\u0000\"]}", VRAM_EFORMAT, "zero byte");
}

/* sentence-transformers: the transformer in the root, a dense layer behind it, a pooling without weights. */
static void test_modules(void **state)
{
    (void)state;
    world *w = new_world();
    add_text(w, "modules.json",
             "[{\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},"
             "{\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"},"
             "{\"path\":\"2_Dense\",\"type\":\"sentence_transformers.models.Dense\"}]");
    add_header(w, "model.safetensors", F32_HEADER, 8);
    add_header(w, "2_Dense/model.safetensors", F32_HEADER, 8);
    add_text(w, "1_Pooling/config.json", "{}");
    expect_ok(w, read_world(w, FEED_MOST));
    assert_int_equal(w->ck->n_parts, 2);
    assert_int_equal(w->ck->tensor_bytes, 16);
    assert_non_null(vr_checkpoint_find(w->ck, VR_LIT("w")));
    assert_non_null(vr_checkpoint_find(w->ck, VR_LIT("2_Dense/w")));
    assert_int_equal(n_warnings(w), 0);
    end_world(w);
}

static void test_parts_allocations(void **state)
{
    (void)state;
    world *w = pipeline();
    for (int after = 0; after < 2; after++) {
        w->memory = (hook){ .fail_after = after != 0 };
        for (w->memory.fail_at = 1;; w->memory.fail_at++) {
            w->memory.n_calls = 0;
            vram_status s = read_world(w, FEED_MOST);
            close_world(w);
            if (s == VRAM_OK)
                break;
            assert_int_equal(s, VRAM_ENOMEM);
        }
        assert_true(w->memory.fail_at > 4);
    }
    end_world(w);
}

/* ---- adapters ---- */

#define LORA                                                                                                 \
    "{\"m.q.lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"                       \
    "\"m.q.lora_B.weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}"

static world *adapter(const char *config)
{
    world *w = new_world();
    add_header(w, "adapter_model.safetensors", LORA, 16);
    add_text(w, "adapter_config.json", config);
    return w;
}

/* What PEFT writes for a LoRA; a pair of matrices is one adapted module. */
static void test_adapter(void **state)
{
    (void)state;
    world *w = adapter("{\"peft_type\":\"LORA\",\"base_model_name_or_path\":\"org/base\",\"r\":16,"
                       "\"lora_alpha\":32.5,\"target_modules\":[\"q_proj\",\"v_proj\"],\"revision\":null}");
    vram_model *m;
    expect_ok(w, read_world(w, FEED_MOST));
    assert_true(w->ck->adapter_only);
    expect_ok(w, vram_model_new(&m, w->ck));
    assert_string_equal(m->architecture, "LoRA adapter");
    assert_string_equal(m->adapter->base, "org/base");
    assert_string_equal(m->adapter->alpha, "32.5");
    assert_string_equal(m->adapter->targets, "q_proj v_proj");
    assert_int_equal(m->adapter->rank, 16);
    assert_int_equal(m->adapter->n_modules, 1);
    assert_null(m->family);
    assert_non_null(strstr(m->not_understood, "no model: it is loaded on top of org/base"));
    end_world(w);
}

static void test_adapter_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *text;
    } cases[] = {
        { "{\"r\":@\"16\"}", "r is not a whole number" },
        { "{\"r\":@-1}", "r is not a whole number" },
        { "{\"r\":@1.5}", "r is not a whole number" },
        { "{\"lora_alpha\":@[]}", "lora_alpha is not a number" },
        { "{\"peft_type\":@7}", "peft_type is not a string" },
        { "{\"base_model_name_or_path\":@{}}", "base_model_name_or_path is not a string" },
        { "{\"target_modules\":@7}", "target_modules is not a string or an array of strings" },
        { "{\"target_modules\":[\"a\",@7]}", "target_modules is not a string" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t offset;
        world *w = new_world();
        vram_model *m;
        add_header(w, "adapter_model.safetensors", LORA, 16);
        add_text(w, "adapter_config.json", unmark(w, cases[i].config, &offset));
        expect_ok(w, read_world(w, FEED_MOST));
        expect_error(w, vram_model_new(&m, w->ck), VRAM_EFORMAT, "adapter_config.json", offset,
                     cases[i].text);
        end_world(w);
    }
}

/* Without adapter_config.json, with one that says nothing, and with many targets. */
static void test_adapter_unsaid(void **state)
{
    (void)state;
    world *w = adapter("{}");
    vram_model *m;
    expect_ok(w, read_world(w, FEED_MOST));
    expect_ok(w, vram_model_new(&m, w->ck));
    assert_string_equal(m->architecture, "adapter");
    assert_non_null(strstr(m->not_understood, "does not say of which"));
    end_world(w);
    w = adapter(
        "{\"target_modules\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\",\"k\",\"l\","
        "\"m\",\"n\"]}");
    expect_ok(w, read_world(w, FEED_MOST));
    expect_ok(w, vram_model_new(&m, w->ck));
    assert_string_equal(m->adapter->targets, "a b c d e f g h i j k l and 2 more");
    end_world(w);
    w = new_world();
    add_header(w, "adapter_model.safetensors", LORA, 16);
    expect_ok(w, read_world(w, FEED_MOST));
    expect_ok(w, vram_model_new(&m, w->ck));
    assert_int_equal(m->adapter->n_modules, 1);
    end_world(w);
}

/* ---- fp32 ---- */

/* Nearly all of it, and so much that it matters: half a GiB in fp32 beside a few bytes in bf16. */
static void test_fp32(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        uint64_t elements, bytes;
        bool fp32;
    } cases[] = { { "F32", 134217728, 536870912, true },
                  { "BF16", 134217728, 268435456, false },
                  { "F32", 1024, 4096, false } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        world *w = new_world();
        vram_model *m;
        char header[256];
        snprintf(header, sizeof(header),
                 "{\"w\":{\"dtype\":\"%s\",\"shape\":[%llu],\"data_offsets\":[0,%llu]}}", cases[i].dtype,
                 (unsigned long long)cases[i].elements, (unsigned long long)cases[i].bytes);
        add_header(w, "model.safetensors", header, cases[i].bytes);
        expect_ok(w, read_world(w, FEED_MOST));
        expect_ok(w, vram_model_new(&m, w->ck));
        assert_int_equal(m->fp32, cases[i].fp32);
        end_world(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_pipeline_incomplete),
        cmocka_unit_test(test_pipeline_refused),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_parts_allocations),
        cmocka_unit_test(test_adapter),
        cmocka_unit_test(test_adapter_refused),
        cmocka_unit_test(test_adapter_unsaid),
        cmocka_unit_test(test_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
