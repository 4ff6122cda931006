/* SPDX-License-Identifier: MIT
 * The steps: what is asked when, which files count, and that the order and the size of the answers do not
 * matter. */
#include "source.h"

/* Two bytes a tensor. */
#define TENSOR(name, begin, end)                                                                             \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[" begin "," end "]}"
#define HEADER_AB "{" TENSOR("a", "0", "2") "," TENSOR("b", "2", "4") "}"
#define HEADER_C "{" TENSOR("c", "0", "2") "}"
#define FIRST "model-00001-of-00002.safetensors"
#define SECOND "model-00002-of-00002.safetensors"
#define INDEX "model.safetensors.index.json"
#define ABC "\"weight_map\":{\"a\":\"" FIRST "\",\"b\":\"" FIRST "\",\"c\":\"" SECOND "\"}"
#define INDEX_ABC "{\"metadata\":{\"total_size\":6}," ABC "}"

static world *sharded(const char *index)
{
    world *w = new_world();
    add_header(w, SECOND, HEADER_C, 2);
    add_text(w, "config.json", "{\"model_type\":\"qwen2\"}\n");
    add_header(w, FIRST, HEADER_AB, 4);
    add_text(w, "README.md", "# a model");
    if (index != NULL)
        add_text(w, INDEX, index);
    return w;
}

/* ---- whole checkpoints ---- */

static void test_sharded(void **state)
{
    (void)state;
    for (feed how = FEED_MOST; how < FEEDS; how++) {
        for (int index = 0; index < 2; index++) {
            world *w = sharded(index != 0 ? INDEX_ABC : NULL);
            expect_ok(w, read_world(w, how));
            const vram_checkpoint *ck = w->ck;
            vr_json type = { VR_JSON_NULL, { NULL, 0 } };
            assert_string_equal(ck->name, "the checkpoint");
            assert_int_equal(ck->n_tensors, 3);
            assert_int_equal(ck->n_files, 2);
            assert_string_equal(ck->files[0].name, FIRST);
            assert_string_equal(ck->files[1].name, SECOND);
            assert_int_equal(ck->tensors[2].file, 1);
            assert_true(vr_str_is(ck->tensors[2].name, "c"));
            assert_int_equal(ck->tensor_bytes, 6);
            assert_int_equal(ck->has_index, index);
            assert_int_equal(ck->promised_bytes, index * 6);
            assert_false(ck->incomplete);
            assert_true(ck->has_config && vr_json_get(ck->config, "model_type", &type));
            assert_true(vr_json_str_is(type, "qwen2"));
            assert_int_equal(n_warnings(w), 0);
            assert_int_equal(vram_checkpoint_step(w->ck), VRAM_OK); /* again */
            end_world(w);
        }
    }
}

/* One round for the listing, one for everything: a head that fits the guess is never asked for twice. */
static void test_first_wants(void **state)
{
    (void)state;
    world *w = sharded(INDEX_ABC);
    const vram_want *wants = NULL;
    open_world(w);
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->memory), VRAM_OK);
    assert_int_equal(vram_checkpoint_new(&w->ck, w->ctx, "x"), VRAM_OK);
    assert_int_equal(vram_checkpoint_step(w->ck), VRAM_MORE);
    assert_int_equal(vram_checkpoint_wants(w->ck, &wants), 1);
    assert_int_equal(wants[0].kind, VRAM_WANT_LISTING);
    assert_null(wants[0].file);
    assert_int_equal(list_files(w), VRAM_OK);
    assert_int_equal(vram_checkpoint_step(w->ck), VRAM_MORE);
    assert_int_equal(vram_checkpoint_wants(w->ck, &wants), 4);
    for (size_t i = 0; i < 4; i++) {
        const fake_file *f = find_file(w, wants[i].file);
        bool weights = strstr(f->name, ".safetensors") != NULL && strcmp(f->name, INDEX) != 0;
        assert_int_equal(wants[i].kind, VRAM_WANT_RANGE);
        assert_int_equal(wants[i].offset, 0);
        assert_int_equal(wants[i].least, weights ? 8 : f->size);
        assert_int_equal(wants[i].most, f->size);
    }
    /* unanswered, it asks the same */
    assert_int_equal(vram_checkpoint_step(w->ck), VRAM_MORE);
    assert_int_equal(vram_checkpoint_wants(w->ck, &wants), 4);
    assert_int_equal(answer(w, FEED_MOST), VRAM_OK);
    assert_int_equal(vram_checkpoint_step(w->ck), VRAM_OK);
    assert_int_equal(vram_checkpoint_wants(w->ck, &wants), 0);
    end_world(w);
}

/* A header over the first guess: 2,000 tensors, about 130,000 bytes. */
static char *long_header(world *w, size_t n)
{
    char *text = keep(w, malloc(n * 100 + 3)), *p = text;
    for (size_t i = 0; i < n; i++)
        p += sprintf(p, "%c\"tensor.%zu\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[%zu,%zu]}",
                     i == 0 ? '{' : ',', i, 2 * i, 2 * i + 2);
    strcpy(p, "}");
    return text;
}

static void test_long_header(void **state)
{
    (void)state;
    for (feed how = FEED_MOST; how <= FEED_REVERSED; how++) {
        world *w = new_world();
        const char *header = long_header(w, 2000);
        fake_file *f = add_header(w, "model.safetensors", header, 4000);
        assert_true(f->size > 131072);
        expect_ok(w, read_world(w, how));
        assert_int_equal(f->n_wants, 2);
        assert_int_equal(w->n_rounds, 3);
        assert_int_equal(w->ck->n_tensors, 2000);
        assert_int_equal(w->ck->tensor_bytes, 4000);
        for (uint32_t i = 0; i < 2000; i++) {
            char name[32];
            sprintf(name, "tensor.%u", i);
            const vr_tensor *t = vr_checkpoint_find(w->ck, vr_str_of(name));
            assert_non_null(t);
            assert_int_equal(t->begin, 2 * i);
        }
        end_world(w);
    }
}

/* ---- the index against the headers ---- */

static void test_index_refused(void **state)
{
    (void)state;
    static const struct {
        const char *index; /* '@' marks the place */
        vram_status code;
        const char *text;
    } rows[] = {
        { "@", VRAM_EFORMAT, "the file is empty" },
        { "@nothing", VRAM_EFORMAT, "not valid JSON" },
        { "@[]", VRAM_EFORMAT, "must be a JSON object" },
        { " @{\"metadata\":{}}", VRAM_EFORMAT, "has no weight_map" },
        { "{\"weight_map\":@[]}", VRAM_EFORMAT, "not an object" },
        { "{\"weight_map\":@{}}", VRAM_EFORMAT, "is empty" },
        { "{\"weight_map\":{\"a\":\"" FIRST "\"},\"weight_map\":@{}}", VRAM_EFORMAT, "two weight_maps" },
        { "{\"weight_map\":{\"a\":@1}}", VRAM_EFORMAT, "tensor a something that is not the name of a file" },
        { "{\"weight_map\":{\"a\":@\"\"}}", VRAM_EFORMAT, "outside of its directory" },
        { "{\"weight_map\":{\"a\":@\"/etc/x.safetensors\"}}", VRAM_EFORMAT, "outside of its directory" },
        { "{\"weight_map\":{\"a\":@\"../x.safetensors\"}}", VRAM_EFORMAT, "outside of its directory" },
        { "{\"weight_map\":{\"a\":@\"b/../../x.safetensors\"}}", VRAM_EFORMAT, "outside of its directory" },
        { "{\"weight_map\":{\"a\":@\"b//x.safetensors\"}}", VRAM_EFORMAT, "outside of its directory" },
        { "{\"weight_map\":{\"a\":@\"..\\\\x.safetensors\"}}", VRAM_EFORMAT, "outside of its directory" },
        { "{\"weight_map\":{\"a\":@\"C:x.safetensors\"}}", VRAM_EFORMAT, "outside of its directory" },
        { "{\"weight_map\":{\"a\":@\"x\\u0000.safetensors\"}}", VRAM_EFORMAT, "outside of its directory" },
        { "{\"weight_map\":{\"a\":@\"pytorch_model.bin\"}}", VRAM_EUNSUPPORTED, "not *.safetensors" },
        /* contradictions */
        { "{\"weight_map\":{\"a\":\"" FIRST "\",@\"b\":\"" SECOND "\",\"c\":\"" SECOND "\"}}", VRAM_EFORMAT,
          "places tensor b in " SECOND ", but it is in " FIRST },
        { "{\"weight_map\":{\"a\":\"" FIRST "\",@\"d\":\"" FIRST "\",\"c\":\"" SECOND "\"}}", VRAM_EFORMAT,
          "places tensor d in " FIRST ", which does not have it" },
        { "{\"weight_map\":{\"a\":\"" FIRST "\",@\"a\":\"" FIRST "\",\"c\":\"" SECOND "\"}}", VRAM_EFORMAT,
          "names tensor a twice" },
        { "{\"weight_map\":{\"a\":\"" FIRST "\",@\"c\":\"gone.safetensors\",\"x\":\"" SECOND "\"}}",
          VRAM_EFORMAT, "places tensor c in gone.safetensors, but it is in " SECOND },
        { "{\"weight_map\":{\"x\":\"gone.safetensors\",@\"x\":\"gone.safetensors\"}}", VRAM_EFORMAT,
          "names tensor x twice" },
        /* a total that cannot be one */
        { "{\"metadata\":{\"total_size\":@-1}," ABC "}", VRAM_EFORMAT,
          "not a whole number of bytes below 2^64: -1" },
        { "{\"metadata\":{\"total_size\":@5.5}," ABC "}", VRAM_EFORMAT, "below 2^64: 5.5" },
        { "{" ABC ",\"metadata\":{\"a\":{},\"total_size\":@1e300}}", VRAM_EFORMAT, "below 2^64: 1e300" },
        { "{\"metadata\":{\"total_size\":@18446744073709551616}," ABC "}", VRAM_EFORMAT, "below 2^64" },
        { "{\"metadata\":{\"total_size\":@\"6\"}," ABC "}", VRAM_EFORMAT, "not a whole number" },
        { "{\"metadata\":{\"total_size\":6,@\"total_size\":6}," ABC "}", VRAM_EFORMAT, "two total_sizes" },
        { "{\"metadata\":{\"total_size\":6},\"metadata\":@{}," ABC "}", VRAM_EFORMAT, "metadata twice" },
        /* NaN is Python's, and only config.json may speak it */
        { "{\"metadata\":{\"total_size\":@NaN}," ABC "}", VRAM_EFORMAT, "not valid JSON" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (feed how = FEED_MOST; how < FEEDS; how++) {
            world *w = sharded(NULL);
            uint64_t offset = 0;
            add_text(w, INDEX, unmark(w, rows[i].index, &offset));
            vram_status s = read_world(w, how);
            expect_error(w, s, rows[i].code, INDEX, offset, rows[i].text);
            assert_int_equal(vram_checkpoint_step(w->ck), s); /* it stays so */
            end_world(w);
        }
    }
}

static void test_index_warns(void **state)
{
    (void)state;
    static const struct {
        const char *index, *file, *text;
        uint64_t promised;
    } rows[] = {
        { "{\"metadata\":{\"total_size\":7},\"weight_map\":{\"a\":\"" FIRST "\",\"b\":\"" FIRST
          "\",\"c\":\"" SECOND "\"}}",
          INDEX, "total_size says 7 bytes, the headers have 6", 7 },
        { "{\"metadata\":{\"total_size\":6.0},\"weight_map\":{\"a\":\"" FIRST "\",\"c\":\"" SECOND "\"}}",
          FIRST, "1 tensor is in the files but not in the index, first b", 6 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world *w = sharded(rows[i].index);
        expect_ok(w, read_world(w, FEED_MOST));
        assert_int_equal(w->ck->promised_bytes, rows[i].promised);
        assert_int_equal(w->ck->tensor_bytes, 6);
        assert_true(has_warning(w, rows[i].file, rows[i].text));
        assert_int_equal(n_warnings(w), 1);
        end_world(w);
    }
}

static void test_odd_indexes(void **state)
{
    (void)state;
    static const char *const rows[] = {
        /* no metadata, metadata of another kind, other members, escapes, white space */
        "{\"weight_map\":{\"a\":\"" FIRST "\",\"b\":\"" FIRST "\",\"c\":\"" SECOND "\"}}",
        "{\"metadata\":null,\"weight_map\":{\"a\":\"" FIRST "\",\"b\":\"" FIRST "\",\"c\":\"" SECOND "\"}}",
        "{\"x\":[{\"weight_map\":{}}],\"weight_map\":{\"a\":\"" FIRST "\",\"b\":\"" FIRST "\",\"c\":\"" SECOND
        "\"}}",
        "{ \"weight_map\" : { \"\\u0061\" : \"\\u006dodel-00001-of-00002.safetensors\" ,\n\"b\":\"" FIRST
        "\",\"c\":\"" SECOND "\"} }",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world *w = sharded(rows[i]);
        expect_ok(w, read_world(w, FEED_MOST));
        assert_int_equal(w->ck->n_files, 2);
        assert_int_equal(w->ck->promised_bytes, 0);
        assert_int_equal(n_warnings(w), 0);
        end_world(w);
    }
}

/* ---- files that are missing ---- */

static void test_missing_shard(void **state)
{
    (void)state;
    world *w = new_world();
    add_header(w, FIRST, HEADER_AB, 4);
    add_text(w, INDEX, INDEX_ABC);
    expect_ok(w, read_world(w, FEED_MOST));
    const vram_checkpoint *ck = w->ck;
    assert_true(ck->incomplete);
    assert_int_equal(ck->n_files, 2);
    assert_true(ck->files[1].missing && !ck->files[0].missing);
    assert_int_equal(ck->files[1].size, 0);
    assert_int_equal(ck->n_missing_tensors, 1);
    assert_int_equal(ck->tensor_bytes, 4);
    assert_int_equal(ck->promised_bytes, 6);
    assert_true(has_warning(w, SECOND, "missing: the index places 1 tensor in it"));
    assert_int_equal(n_warnings(w), 1); /* and none about the total, which cannot be right */
    end_world(w);
}

static void test_all_missing(void **state)
{
    (void)state;
    world *w = new_world();
    add_text(w, INDEX, INDEX_ABC);
    expect_ok(w, read_world(w, FEED_MOST));
    assert_true(w->ck->incomplete);
    assert_int_equal(w->ck->n_tensors, 0);
    assert_int_equal(w->ck->n_missing_tensors, 3);
    assert_int_equal(w->ck->promised_bytes, 6);
    assert_null(vr_checkpoint_find(w->ck, VR_LIT("a")));
    end_world(w);
}

static void test_missing_by_number(void **state)
{
    (void)state;
    world *w = new_world();
    add_header(w, "model-00002-of-00004.safetensors", HEADER_AB, 4);
    add_header(w, "model-00004-of-00004.safetensors", HEADER_C, 2);
    add_header(w, "other-00002-of-00002.safetensors", "{" TENSOR("x", "0", "2") "}", 2);
    add_header(w, "extra-0001-of-0003.safetensors", "{" TENSOR("y", "0", "2") "}", 2); /* not such a number */
    add_text(w, "config.json", "{}"); /* one model: all of them together, as vLLM takes them */
    expect_ok(w, read_world(w, FEED_MOST));
    static const char *const names[] = {
        "extra-0001-of-0003.safetensors",   "model-00001-of-00004.safetensors",
        "model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors",
        "model-00004-of-00004.safetensors", "other-00001-of-00002.safetensors",
        "other-00002-of-00002.safetensors",
    };
    assert_int_equal(w->ck->n_files, 7);
    for (size_t i = 0; i < 7; i++) {
        assert_string_equal(w->ck->files[i].name, names[i]);
        assert_int_equal(w->ck->files[i].missing, i == 1 || i == 3 || i == 5);
    }
    assert_true(w->ck->incomplete);
    assert_int_equal(w->ck->n_tensors, 5);
    assert_int_equal(w->ck->n_missing_tensors, 0);
    assert_true(has_warning(w, names[1], "missing: the numbers of the other files say"));
    assert_int_equal(n_warnings(w), 3);
    end_world(w);
}

static void test_many_missing(void **state)
{
    (void)state;
    world *w = new_world();
    add_header(w, "model-00001-of-00500.safetensors", HEADER_AB, 4);
    expect_ok(w, read_world(w, FEED_MOST));
    assert_int_equal(w->ck->n_files, 500);
    assert_true(has_warning(w, "the checkpoint", "491 more weight files are missing"));
    assert_int_equal(n_warnings(w), 9);
    end_world(w);
    /* Two counts on one name, "of 99999" and "of 99998": over the ceiling together. */
    w = new_world();
    add_header(w, "model-00001-of-99999.safetensors", HEADER_AB, 4);
    add_header(w, "model-00001-of-99998.safetensors", HEADER_C, 2);
    expect_error(w, read_world(w, FEED_MOST), VRAM_ELIMIT, "the checkpoint", UINT64_MAX,
                 "over 100,000 weight files");
    end_world(w);
}

/* ---- which files count ---- */

static void test_consolidated(void **state)
{
    (void)state;
    world *w = new_world();
    add_header(w, "consolidated.safetensors", HEADER_AB, 4);
    add_header(w, "model.safetensors", HEADER_AB, 4);
    expect_ok(w, read_world(w, FEED_MOST));
    assert_int_equal(w->ck->n_files, 1);
    assert_string_equal(w->ck->files[0].name, "model.safetensors");
    assert_int_equal(n_warnings(w), 0);
    assert_int_equal(w->ck->n_left_out, 1);
    assert_string_equal(w->ck->left_out[0].name, "consolidated.safetensors");
    assert_int_equal(find_file(w, "consolidated.safetensors")->n_wants, 0);
    end_world(w);
    w = new_world();
    add_header(w, "consolidated.safetensors", HEADER_AB, 4);
    expect_ok(w, read_world(w, FEED_MOST));
    assert_int_equal(w->ck->n_tensors, 2);
    assert_int_equal(n_warnings(w), 0);
    end_world(w);
}

static void test_files_beside_the_index(void **state)
{
    (void)state;
    world *w = sharded(INDEX_ABC);
    add_bytes(w, "extra.safetensors", "damaged", 7, 7); /* it does not count, so nobody minds */
    expect_ok(w, read_world(w, FEED_MOST));
    assert_int_equal(w->ck->n_files, 2);
    assert_true(has_warning(w, "extra.safetensors", "1 file is left out"));
    assert_int_equal(w->ck->n_left_out, 1);
    assert_string_equal(w->ck->left_out[0].why, "not named by the index");
    end_world(w);
}

/* transformers, _get_resolved_checkpoint_files: os.path.isfile("model.safetensors") comes first. */
static void test_single_file_first(void **state)
{
    (void)state;
    for (int index = 0; index < 3; index++) {
        world *w = sharded(index == 1 ? INDEX_ABC : index == 2 ? "damaged" : NULL);
        add_header(w, "model.safetensors", "{" TENSOR("x", "0", "2") "}", 2);
        expect_ok(w, read_world(w, FEED_MOST));
        assert_int_equal(w->ck->n_files, 1);
        assert_int_equal(w->ck->n_tensors, 1);
        assert_false(w->ck->has_index);
        assert_false(w->ck->incomplete);
        assert_true(has_warning(w, "model.safetensors", "loads this file where there is one"));
        assert_true(has_warning(w, "model.safetensors", "2 other *.safetensors"));
        assert_int_equal(n_warnings(w), 1);
        assert_int_equal(find_file(w, FIRST)->n_wants, 0);
        end_world(w);
    }
}

static void test_same_tensor_in_two_files(void **state)
{
    (void)state;
    world *w = new_world();
    add_header(w, "a.safetensors", HEADER_AB, 4);
    add_header(w, "b.safetensors", "{" TENSOR("z", "0", "2") "," TENSOR("b", "2", "4") "}", 4);
    add_text(w, "config.json", "{}");
    expect_error(w, read_world(w, FEED_MOST), VRAM_EFORMAT, "b.safetensors",
                 8 + strlen("{" TENSOR("z", "0", "2") ","), "tensor b is also in a.safetensors");
    end_world(w);
}

/* None of these is a weight file: a configuration, a state of a training, a format that is not read. */
static void test_no_weights(void **state)
{
    (void)state;
    static const char *const files[] = { "config.json", "optimizer.pt", "training_args.bin", "model.onnx",
                                         "tokenizer.model" };
    for (size_t i = 0; i < 5; i++) {
        world *w = new_world();
        add_text(w, files[i], "{}");
        expect_error(w, read_world(w, FEED_MOST), VRAM_EUNSUPPORTED, "the checkpoint", UINT64_MAX,
                     "no weight files");
        assert_non_null(strstr(vram_last_error(w->ctx)->hint, "give a directory with *.safetensors"));
        end_world(w);
    }
    world *w = new_world();
    expect_error(w, read_world(w, FEED_MOST), VRAM_EUNSUPPORTED, "the checkpoint", UINT64_MAX,
                 "no weight files");
    end_world(w);
}

/* ---- config.json ---- */

static void expect_config(const void *bytes, size_t n, uint64_t size, vram_status code, uint64_t offset,
                          const char *text)
{
    world *w = new_world();
    add_header(w, "model.safetensors", HEADER_AB, 4);
    fake_file *f = add_bytes(w, "config.json", bytes, n, size);
    expect_error(w, read_world(w, FEED_MOST), code, "config.json", offset, text);
    assert_true(code != VRAM_ELIMIT || f->n_wants == 0);
    end_world(w);
}

static void test_config(void **state)
{
    (void)state;
    static char nest[20000];
    expect_config("", 0, 0, VRAM_EFORMAT, 0, "the file is empty");
    expect_config("", 0, UINT64_C(104857600), VRAM_ELIMIT, 4194304,
                  "has 104,857,600 bytes, over the limit of 4,194,304");
    expect_config("", 0, 4194305, VRAM_ELIMIT, 4194304, "over the limit of 4,194,304");
    expect_config("\n", 1, 1, VRAM_EFORMAT, 1, "not valid JSON");
    expect_config("{\"a\":1,}", 8, 8, VRAM_EFORMAT, 7, "not valid JSON");
    expect_config(" []", 3, 3, VRAM_EFORMAT, 1, "must be a JSON object");
    expect_config("{\"a\":NaNa}", 10, 10, VRAM_EFORMAT, 8, "not valid JSON");
    expect_config("{\"a\":nan}", 9, 9, VRAM_EFORMAT, 5, "not valid JSON");
    expect_config("{\"a\":-NaN}", 10, 10, VRAM_EFORMAT, 6, "not valid JSON");
    expect_config("{\"a\":+Infinity}", 15, 15, VRAM_EFORMAT, 5, "not valid JSON");
    expect_config("{NaN:1}", 7, 7, VRAM_EFORMAT, 1, "not valid JSON");
    expect_config("{\"a\":Infinity,}", 16, 16, VRAM_EFORMAT, 14, "not valid JSON");
    memset(nest, '[', 10000);
    memset(nest + 10000, ']', 10000);
    expect_config(nest, sizeof(nest), sizeof(nest), VRAM_EFORMAT, 64, "64 deep");
    /* as large as allowed */
    world *w = new_world();
    char *large = keep(w, malloc(4194304));
    memset(large, ' ', 4194304);
    memcpy(large, "{}", 2);
    add_header(w, "model.safetensors", HEADER_AB, 4);
    add_bytes(w, "config.json", large, 4194304, 4194304);
    expect_ok(w, read_world(w, FEED_MOST));
    assert_true(w->ck->has_config);
    end_world(w);
    /* absent */
    w = new_world();
    add_header(w, "model.safetensors", HEADER_AB, 4);
    expect_ok(w, read_world(w, FEED_MOST));
    assert_false(w->ck->has_config);
    end_world(w);
    w = new_world();
    add_header(w, FIRST, HEADER_AB, 4);
    add_bytes(w, INDEX, "", 0, UINT64_C(268435457));
    expect_error(w, read_world(w, FEED_MOST), VRAM_ELIMIT, INDEX, 268435456, "over the limit of 268,435,456");
    end_world(w);
}

/* python3: json.loads('{"a": NaN, "a": [Infinity]}') == {'a': [inf]} */
static void test_config_of_python(void **state)
{
    (void)state;
    static const struct {
        const char *text, *path, *value;
        uint64_t n_warnings;
    } rows[] = {
        { "{\"limit\": [0.0, Infinity], \"n\": 7}", "n", "7", 0 },
        { "{\"x\":-Infinity,\"n\":\"NaN Infinity\"}", "n", "\"NaN Infinity\"", 0 },
        { "{\"x\":\"\\\"\",\"y\":NaN,\"n\":8}", "n", "8", 0 },
        { "{\"n\":1,\"n\":2}", "n", "2", 1 },
        { "{\"n\":{\"n\":1},\"m\":[{\"n\":5},{\"n\":6}],\"n\" : 2}", "n", "2", 1 },
        { "{\"n\":1,\"\\u006e\":[\"}\",{}],\"n\":3,\"m\":4}", "n", "3", 1 },
        { "{\"t\":{\"n\":1,\"k\":0,\"n\":9},\"n\":1}", "t.n", "9", 1 },
        { "{\"t\":{\"n\":1},\"t\":{\"n\":NaN,\"n\":4}}", "t.n", "4", 2 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (feed how = FEED_MOST; how < FEEDS; how++) {
            world *w = new_world();
            vr_json v = { VR_JSON_NULL, { NULL, 0 } };
            add_header(w, "model.safetensors", HEADER_AB, 4);
            add_text(w, "config.json", rows[i].text);
            expect_ok(w, read_world(w, how));
            assert_true(vr_json_get(w->ck->config, rows[i].path, &v));
            assert_true(vr_str_is(v.text, rows[i].value));
            /* where it stood in the file */
            assert_memory_equal(rows[i].text + (v.text.s - w->ck->config_text.s), v.text.s, v.text.n);
            assert_int_equal(n_warnings(w), rows[i].n_warnings);
            end_world(w);
        }
    }
}

static void test_many_names_twice(void **state)
{
    (void)state;
    world *w = new_world();
    char *text = keep(w, malloc(400000)), *p = text;
    for (size_t i = 0; i < 20000; i++)
        p += sprintf(p, "%c\"k%zu\":%zu", i == 0 ? '{' : ',', i % 10000, i);
    strcpy(p, "}");
    add_header(w, "model.safetensors", HEADER_AB, 4);
    add_text(w, "config.json", text);
    expect_ok(w, read_world(w, FEED_MOST));
    vr_json v;
    uint64_t n = 0;
    assert_true(vr_json_get(w->ck->config, "k77", &v) && vr_json_u64(v, &n));
    assert_int_equal(n, 10077);
    assert_int_equal(n_warnings(w), 9);
    assert_true(has_warning(w, "config.json", "more names are there twice"));
    end_world(w);
}

/* ---- callers that misbehave ---- */

static void test_misuse(void **state)
{
    (void)state;
    world *w = sharded(INDEX_ABC);
    open_world(w);
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->memory), VRAM_OK);
    assert_int_equal(vram_checkpoint_new(&w->ck, w->ctx, "x"), VRAM_OK);
    assert_int_equal(vram_checkpoint_supply(w->ck, FIRST, 0, "x", 1),
                     VRAM_EINTERNAL); /* before the listing */
    assert_int_equal(list_files(w), VRAM_OK);
    assert_int_equal(vram_checkpoint_add_file(w->ck, "late.safetensors", 1), VRAM_EINTERNAL);
    assert_int_equal(vram_checkpoint_listed(w->ck), VRAM_EINTERNAL);
    assert_int_equal(vram_checkpoint_supply(w->ck, "who.safetensors", 0, "x", 1), VRAM_EINTERNAL);
    assert_int_equal(vram_checkpoint_supply(w->ck, "config.json", 22, "ab", 2), VRAM_EIO); /* grown */
    assert_int_equal(vram_checkpoint_supply(w->ck, "config.json", UINT64_MAX, "ab", 2), VRAM_EIO);
    expect_error(w, VRAM_EIO, VRAM_EIO, "config.json", 23, "longer than the listing said");
    assert_int_equal(vram_checkpoint_supply(w->ck, "config.json", 23, NULL, 0), VRAM_OK);
    close_world(w);
    add_text(w, "config.json", "{}");
    open_world(w);
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->memory), VRAM_OK);
    assert_int_equal(vram_checkpoint_new(&w->ck, w->ctx, "x"), VRAM_OK);
    assert_int_equal(list_files(w), VRAM_EINTERNAL);
    end_world(w);
}

static void test_overlapping_answers(void **state)
{
    (void)state;
    world *w = sharded(INDEX_ABC);
    open_world(w);
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->memory), VRAM_OK);
    assert_int_equal(vram_checkpoint_new(&w->ck, w->ctx, "x"), VRAM_OK);
    assert_int_equal(list_files(w), VRAM_OK);
    /* every window of ten bytes, from the back, before anything was asked */
    for (size_t i = 0; i < w->n_files; i++) {
        const fake_file *f = &w->files[i];
        if (strcmp(f->name, "README.md") == 0)
            continue;
        for (size_t at = f->n - 10 + 1; at-- > 0;) {
            char *copy = keep(w, malloc(10));
            memcpy(copy, f->bytes + at, 10);
            assert_int_equal(vram_checkpoint_supply(w->ck, f->name, at, copy, 10), VRAM_OK);
        }
    }
    expect_ok(w, vram_checkpoint_step(w->ck));
    assert_int_equal(w->ck->n_tensors, 3);
    end_world(w);
}

/* vram_fail: the side that fetches puts its error where all others are. */
static void test_fail(void **state)
{
    (void)state;
    world *w = new_world();
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->memory), VRAM_OK);
    vram_error e = { VRAM_EIO, "the disk is gone", "x.bin", true, 77, "plug it in" };
    assert_int_equal(vram_fail(w->ctx, &e), VRAM_EIO);
    expect_error(w, VRAM_EIO, VRAM_EIO, "x.bin", 77, "the disk is gone");
    assert_string_equal(vram_last_error(w->ctx)->hint, "plug it in");
    assert_int_equal(vram_fail(w->ctx, vram_last_error(w->ctx)), VRAM_EIO); /* its own */
    expect_error(w, VRAM_EIO, VRAM_EIO, "x.bin", 77, "the disk is gone");
    assert_string_equal(vram_last_error(w->ctx)->hint, "plug it in");
    end_world(w);
}

/* ---- the n-th allocation fails, once and for good ---- */

static void fail_each(world *(*make)(void), feed how, vram_status good)
{
    for (int after = 0; after < 2; after++) {
        size_t n = 1;
        for (;; n++) {
            world *w = make();
            w->memory.fail_at = n;
            w->memory.fail_after = after != 0;
            vram_status s = read_world(w, how);
            bool failed = w->memory.n_calls >= n;
            if (failed)
                assert_int_equal(s, VRAM_ENOMEM);
            else
                assert_int_equal(s, good);
            if (failed && w->ctx != NULL)
                assert_int_equal(vram_last_error(w->ctx)->code, VRAM_ENOMEM);
            end_world(w);
            if (!failed)
                break;
        }
        assert_true(n > 4);
    }
}

static world *make_sharded(void)
{
    return sharded(INDEX_ABC);
}

/* Missing files, warnings, escapes, a header to join and one to sort: as many different allocations as can be
 * had. */
static world *make_varied(void)
{
    world *w = new_world();
    add_header(w, FIRST, "{" TENSOR("b", "2", "4") "," TENSOR("\\u0061", "0", "2") "}", 4);
    add_header(w, "single.safetensors", HEADER_C, 2);
    add_header(w, "consolidated.safetensors", HEADER_C, 2);
    add_text(w, "config.json", "{\"\\u0061\":NaN,\"b\":1,\"a\":2}");
    add_text(
        w, INDEX,
        "{\"metadata\":{\"total_size\":5},\"weight_map\":{\"a\":\"\\u006dodel-00001-of-00002.safetensors\","
        "\"c\":\"" SECOND "\",\"d\":\"gone.safetensors\"}}");
    return w;
}

static world *make_single(void)
{
    world *w = sharded(INDEX_ABC);
    add_header(w, "model.safetensors", HEADER_C, 2);
    return w;
}

static world *make_numbered(void)
{
    world *w = new_world();
    add_header(w, "consolidated.safetensors", HEADER_C, 2);
    add_header(w, "model-00002-of-00040.safetensors", HEADER_AB, 4);
    add_text(w, "config.json", "{}");
    return w;
}

static world *make_refused(void)
{
    return sharded("{\"weight_map\":{\"a\":\"" FIRST "\",\"b\":\"" SECOND "\",\"c\":\"" SECOND "\"}}");
}

static void test_allocations(void **state)
{
    (void)state;
    for (feed how = FEED_MOST; how < FEEDS; how++) {
        fail_each(make_sharded, how, VRAM_OK);
        fail_each(make_varied, how, VRAM_OK);
        fail_each(make_single, how, VRAM_OK);
        fail_each(make_numbered, how, VRAM_OK);
        fail_each(make_refused, how, VRAM_EFORMAT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sharded),
        cmocka_unit_test(test_first_wants),
        cmocka_unit_test(test_long_header),
        cmocka_unit_test(test_index_refused),
        cmocka_unit_test(test_index_warns),
        cmocka_unit_test(test_odd_indexes),
        cmocka_unit_test(test_missing_shard),
        cmocka_unit_test(test_all_missing),
        cmocka_unit_test(test_missing_by_number),
        cmocka_unit_test(test_many_missing),
        cmocka_unit_test(test_consolidated),
        cmocka_unit_test(test_files_beside_the_index),
        cmocka_unit_test(test_single_file_first),
        cmocka_unit_test(test_same_tensor_in_two_files),
        cmocka_unit_test(test_no_weights),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_config_of_python),
        cmocka_unit_test(test_many_names_twice),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_overlapping_answers),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
