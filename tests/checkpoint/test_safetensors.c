/* SPDX-License-Identifier: MIT
 * One safetensors file: what is accepted, and every way to be refused, with its place.
 * Rules: huggingface/safetensors, README "Format" and the tests of safetensors/src/tensor.rs. */
#include "source.h"

static vram_status read_header(world *w, const char *header, uint64_t data, feed how)
{
    add_header(w, "model.safetensors", header, data);
    return read_world(w, how);
}

/* ---- accepted ---- */

static void test_tensors(void **state)
{
    (void)state;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"a\":\"}{\"},"
        "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[3,4],\"data_offsets\":[16,40]},"
        " \"a\\u0041\\n\" : { \"shape\" : [ 2 , 2 ] , \"data_offsets\":[0,16],\"dtype\":\"F32\" } ,"
        "\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[40,48]},"
        "\"empty\":{\"dtype\":\"F64\",\"shape\":[7,0],\"data_offsets\":[48,48]},"
        "\"packed\":{\"dtype\":\"F4\",\"shape\":[1,2],\"data_offsets\":[48,49]}}   \n";
    for (feed how = FEED_MOST; how < FEEDS; how++) {
        world *w = new_world();
        expect_ok(w, read_header(w, header, 49, how));
        const vram_checkpoint *ck = w->ck;
        assert_int_equal(ck->n_tensors, 5);
        assert_int_equal(ck->tensor_bytes, 49);
        assert_int_equal(ck->elements, 12 + 4 + 1 + 0 + 2);
        assert_int_equal(ck->n_files, 1);
        assert_int_equal(ck->files[0].n_tensors, 5);
        assert_int_equal(ck->files[0].tensor_bytes, 49);
        assert_int_equal(ck->files[0].header_bytes, 8 + strlen(header));
        assert_false(ck->has_config || ck->has_index || ck->incomplete);
        assert_true(vr_str_is(ck->tensors[0].name, "aA\n"));
        assert_true(vr_str_is(ck->tensors[4].name, "packed"));
        const vr_tensor *t = vr_checkpoint_find(ck, VR_LIT("b.weight"));
        assert_non_null(t);
        assert_int_equal(t->n_dims, 2);
        assert_int_equal(t->dims[0], 3);
        assert_int_equal(t->dims[1], 4);
        assert_int_equal(t->dtype, VR_BF16);
        assert_int_equal(t->begin, 16);
        assert_int_equal(t->end, 40);
        assert_int_equal(t->elements, 12);
        assert_int_equal(vr_checkpoint_find(ck, VR_LIT("scalar"))->n_dims, 0);
        assert_non_null(vr_checkpoint_find(ck, VR_LIT("aA\n")));
        assert_null(vr_checkpoint_find(ck, VR_LIT("a\\u0041\\n")));
        assert_null(vr_checkpoint_find(ck, VR_LIT("")));
        end_world(w);
    }
}

/* From tensor.rs: test_whitespace_padded_header (without its "no tensor"), test_zero_sized_tensor. */
static void test_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        uint64_t data;
    } rows[] = {
        { "{\"test\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 16 },
        { "{\"test\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}\r \t\n", 16 },
        { "{\"test\":{\"dtype\":\"I32\",\"shape\":[2,0],\"data_offsets\":[0, 0]}}", 0 },
        { "{\"test\":{\"dtype\":\"F64\",\"shape\":[ ],\"data_offsets\":[0,8]}}",
          8 }, /* first of all, a scalar */
        { "{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0,18446744073709551615,18446744073709551615],\"data_offsets\":"
          "[0,0]}}",
          0 },
        { "{\"__metadata__\":{},\"a\":{\"dtype\":\"C64\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"
          "\"data_offsets\":[0,8]}}",
          8 },
        { "{\"\xc3\xa9\xf0\x9f\x98\x80\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1 },
        { "{\"{{{{\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world *w = new_world();
        expect_ok(w, read_header(w, rows[i].header, rows[i].data, FEED_MOST));
        assert_int_equal(w->ck->n_tensors, 1);
        assert_int_equal(w->ck->tensor_bytes, rows[i].data);
        end_world(w);
    }
}

/* ---- refused: '@' marks the place that the error must name ---- */

#define ENTRY(dtype, shape, offsets)                                                                         \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct bad {
    const char *header;
    uint64_t data;
    vram_status code;
    const char *text;
} bad_rows[] = {
    /* not JSON, not UTF-8 */
    { "@x\"a\":1}", 0, VRAM_EFORMAT, "does not begin with '{'" },
    { "@ {\"a\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, VRAM_EFORMAT, "does not begin with '{'" },
    { "@[]", 0, VRAM_EFORMAT, "does not begin with '{'" },
    { "{@", 0, VRAM_EFORMAT, "not valid JSON: ends inside an object" },
    { "{\"a\":" ENTRY("U8", "[1]", "[0,1]") "@", 1, VRAM_EFORMAT, "not valid JSON: ends inside an object" },
    { "{\"a\":" ENTRY("U8", "[1]", "[0,1]") ",@}", 1, VRAM_EFORMAT, "not valid JSON" },
    { "{\"a\":" ENTRY("U8", "[1]", "[0,1]") "}@x", 1, VRAM_EFORMAT, "more bytes after the end" },
    { "{\"a\":" ENTRY("U8", "[1]", "[0,1]") "}@{}", 1, VRAM_EFORMAT, "more bytes after the end" },
    { "{\"a@\xff\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, VRAM_EFORMAT, "not UTF-8" },
    { "{\"a@\xc0\xaf\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, VRAM_EFORMAT, "not UTF-8" },
    { "{\"a@\xed\xa0\x80\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, VRAM_EFORMAT, "not UTF-8" },
    { "{\"a@\n\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, VRAM_EFORMAT, "control character" },
    { "{\"a@\\ud800\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, VRAM_EFORMAT, "surrogate" },
    { "{'a':" ENTRY("U8", "[1]", "[0,1]") "}", 1, VRAM_EFORMAT, "not valid JSON" },
    /* metadata */
    { "{\"__metadata__\":@[]}", 0, VRAM_EFORMAT, "__metadata__ is not an object" },
    { "{\"__metadata__\":@null}", 0, VRAM_EFORMAT, "__metadata__ is not an object" },
    { "{\"__metadata__\":{\"a\":\"b\",\"c\":@1}}", 0, VRAM_EFORMAT, "not a string" },
    { "{\"__metadata__\":{},@\"__metadata__\":{}}", 0, VRAM_EFORMAT, "twice" },
    /* entries */
    { "{\"a\":@1}", 0, VRAM_EFORMAT, "tensor a is not an object" },
    { "{\"a\":@[]}", 0, VRAM_EFORMAT, "tensor a is not an object" },
    { "{\"a\":@{}}", 0, VRAM_EFORMAT, "tensor a has no dtype" },
    { "{\"a\":@{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT, "tensor a has no shape" },
    { "{\"a\":@{\"dtype\":\"U8\",\"shape\":[1]}}", 1, VRAM_EFORMAT, "tensor a has no data_offsets" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],@\"x\":1}}", 1, VRAM_EFORMAT,
      "unknown field \"x\"" },
    { "{\"a\":{\"dtype\":\"U8\",@\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT,
      "two fields dtype" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],@\"shape\":[1],\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT,
      "two fields shape" },
    { "{\"a\":" ENTRY("U8", "[1]", "[0,1]") ",@\"a\":" ENTRY("U8", "[1]", "[1,2]") "}", 2, VRAM_EFORMAT,
      "tensor a is there twice" },
    { "{\"a\":" ENTRY("U8", "[1]", "[0,1]") ",@\"\\u0061\":" ENTRY("U8", "[1]", "[1,2]") "}", 2, VRAM_EFORMAT,
      "is there twice" },
    /* dtypes */
    { "{\"a\":{\"dtype\":@8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT, "not a string" },
    { "{\"a\":{\"dtype\":@\"F33\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, VRAM_EUNSUPPORTED,
      "unknown dtype \"F33\"" },
    { "{\"a\":{\"dtype\":@\"F\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, VRAM_EUNSUPPORTED,
      "unknown dtype \"F\"" },
    { "{\"a\":{\"dtype\":@\"\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, VRAM_EUNSUPPORTED,
      "unknown dtype" },
    { "{\"a\":{\"dtype\":@\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, VRAM_EUNSUPPORTED,
      "unknown dtype" },
    /* shapes */
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":@1,\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT, "not an array" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[@-1],\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT,
      "not a whole number" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[@1.0],\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT,
      "not a whole number" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[@1e0],\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT,
      "not a whole number" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,@\"1\"],\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT,
      "not a whole number" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[@18446744073709551616],\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT,
      "below 2^64" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[@99999999999999999999],\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT,
      "below 2^64" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":@[4294967296,4294967296],\"data_offsets\":[0,1]}}", 1, VRAM_EFORMAT,
      "over 2^64 elements" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":@[4294967296,4294967296,0],\"data_offsets\":[0,0]}}", 0,
      VRAM_EFORMAT, "over 2^64 elements" },
    { "{\"a\":{\"dtype\":\"I32\",\"shape\":@[4611686018427387904],\"data_offsets\":[0,0]}}", 0, VRAM_EFORMAT,
      "times 32 bits overflows" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":@[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
      VRAM_ELIMIT, "over 16 dimensions" },
    { "{\"a\":{\"dtype\":\"F4\",\"shape\":@[1,3],\"data_offsets\":[0,2]}}", 2, VRAM_EFORMAT, "whole bytes" },
    { "{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":@[2],\"data_offsets\":[0,2]}}", 2, VRAM_EFORMAT,
      "whole bytes" },
    /* offsets */
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":@{}}}", 1, VRAM_EFORMAT, "not an array" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":@[]}}", 1, VRAM_EFORMAT, "under two" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":@[0]}}", 1, VRAM_EFORMAT, "under two" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":@[0,1,2]}}", 1, VRAM_EFORMAT, "over two" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,@null]}}", 1, VRAM_EFORMAT,
      "not whole numbers" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[@-0,1]}}", 1, VRAM_EFORMAT,
      "not whole numbers" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":@[2,1]}}", 2, VRAM_EFORMAT,
      "before it begins" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":@[0,1]}}", 1, VRAM_EFORMAT,
      "has 1 byte by its offsets, but 2 by its shape and dtype" },
    { "{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[4]", "@[2,6]") "}", 6, VRAM_EFORMAT,
      "tensor b begins at 2 of the data, inside of tensor a, which ends at 4" },
    { "{\"b\":" ENTRY("U8", "[4]", "@[2,6]") ",\"a\":" ENTRY("U8", "[4]", "[0,4]") "}", 6, VRAM_EFORMAT,
      "inside of tensor a" },
    { "{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[4]", "@[0,4]") "}", 4, VRAM_EFORMAT,
      "inside of tensor a" },
    { "{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"e\":" ENTRY("U8", "[0]", "@[2,2]") "}", 4, VRAM_EFORMAT,
      "inside of tensor a" },
    { "{\"a\":" ENTRY("U8", "[4]", "@[1,5]") "}", 5, VRAM_EFORMAT, "a hole: 1 byte before tensor a" },
    { "{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[4]", "@[6,10]") "}", 10, VRAM_EFORMAT,
      "a hole: 2 bytes before tensor b" },
    /* one name twice over the same bytes, and over others: the name is the fault, not the bytes */
    { "{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",@\"a\":" ENTRY("U8", "[4]", "[0,4]") "}", 4, VRAM_EFORMAT,
      "tensor a is there twice" },
    { "{\"b\":" ENTRY("U8", "[4]", "[4,8]") ",\"a\":" ENTRY("U8", "[4]", "[0,4]") ",@\"b\":" ENTRY(
          "U8", "[4]", "[4,8]") "}",
      8, VRAM_EFORMAT, "tensor b is there twice" },
    { "@{}", 0, VRAM_EUNSUPPORTED, "the header names no tensor" },
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
        const struct bad *b = &bad_rows[i];
        for (feed how = FEED_MOST; how < FEEDS; how++) {
            world *w = new_world();
            uint64_t offset = 0;
            const char *header = unmark(w, b->header, &offset);
            bool marked = strchr(b->header, '@') != NULL;
            vram_status s = read_header(w, header, b->data, how);
            if (!marked) /* only that it is refused somewhere in the header */
                offset = vram_last_error(w->ctx)->offset - 8;
            expect_error(w, s, b->code, "model.safetensors", 8 + offset, b->text);
            assert_int_equal(vram_exit_status(s), 3);
            end_world(w);
        }
    }
}

/* ---- sizes ---- */

#define GOOD "{\"a\":" ENTRY("U8", "[16]", "[0,16]") "}"

static void expect_sized(const char *header, uint64_t data, uint64_t offset, const char *text)
{
    world *w = new_world();
    expect_error(w, read_header(w, header, data, FEED_MOST), VRAM_EFORMAT, "model.safetensors", offset, text);
    end_world(w);
}

static void test_file_size(void **state)
{
    (void)state;
    uint64_t data_at = 8 + strlen(GOOD);
    expect_sized(GOOD, 15, data_at + 15, "lacks 1 of its bytes; cut download?");
    expect_sized(GOOD, 0, data_at, "lacks 16 of its bytes; cut download?");
    expect_sized(GOOD, 17, data_at + 16, "goes on for 1 byte after its last tensor");
    /* one tensor that leaves the file, far */
    static const char far[] = "{\"a\":" ENTRY("U8", "[1152921504606846976]", "[0,1152921504606846976]") "}";
    expect_sized(far, 4, 8 + strlen(far) + 4, "lacks 1,152,921,504,606,846,972 of its bytes");
}

static vram_status read_length(world *w, uint64_t length, uint64_t size, const char *after)
{
    char bytes[64] = { 0 };
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(length >> 8 * i & 0xff);
    memcpy(bytes + 8, after, strlen(after));
    add_bytes(w, "model.safetensors", bytes, size < sizeof(bytes) ? (size_t)size : sizeof(bytes), size);
    return read_world(w, FEED_MOST);
}

static void test_header_length(void **state)
{
    (void)state;
    static const struct {
        uint64_t length, size;
        vram_status code;
        uint64_t offset;
        const char *text;
    } rows[] = {
        { 0, 0, VRAM_EFORMAT, 0, "the file is empty" },
        { 0, 1, VRAM_EFORMAT, 0, "has only 1 byte, less than" },
        { 0, 7, VRAM_EFORMAT, 0, "has only 7 bytes, less than" },
        { 0, 8, VRAM_EFORMAT, 0, "the header has no bytes" },
        { 0, 100, VRAM_EFORMAT, 0, "the header has no bytes" },
        { 3, 10, VRAM_EFORMAT, 0, "said to have 3 bytes, but the file has 10" },
        { UINT64_C(1) << 60, 1000, VRAM_EFORMAT, 0, "said to have 1,152,921,504,606,846,976 bytes" },
        { UINT64_MAX, 1000, VRAM_EFORMAT, 0, "said to have 18,446,744,073,709,551,615 bytes" },
        { UINT64_MAX - 7, UINT64_MAX, VRAM_EFORMAT, 0, "said to have" },
        { 100000001, 200000000, VRAM_ELIMIT, 0, "over the format's limit of 100,000,000" },
        /* refused before 100 MB are fetched: there is a zero where the brace should be */
        { 100000000, 200000000, VRAM_EFORMAT, 8, "does not begin with '{'" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world *w = new_world();
        vram_status s = read_length(w, rows[i].length, rows[i].size, "");
        expect_error(w, s, rows[i].code, "model.safetensors", rows[i].offset, rows[i].text);
        assert_true(find_file(w, "model.safetensors")->n_wants <= 1);
        end_world(w);
    }
}

static void test_lfs_pointer(void **state)
{
    (void)state;
    world *w = new_world();
    add_text(w, "model.safetensors",
             "version https://git-lfs.github.com/spec/v1\n"
             "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n");
    expect_error(w, read_world(w, FEED_MOST), VRAM_EFORMAT, "model.safetensors", 0, "Git LFS pointer");
    assert_non_null(strstr(vram_last_error(w->ctx)->hint, "git lfs pull"));
    end_world(w);
}

/* ---- every prefix, every byte ---- */

#define SAMPLE                                                                                               \
    "{\"__metadata__\":{\"format\":\"pt\"},\"w\\u00e9\":" ENTRY("F32", "[2,3]", "[0,24]") ",\"b\":" ENTRY(   \
        "BF16", "[4]", "[24,32]") ",\"s\":" ENTRY("I64", "[]", "[32,40]") "} "

static void test_prefixes(void **state)
{
    (void)state;
    world *made = new_world();
    const fake_file *whole = add_header(made, "model.safetensors", SAMPLE, 40);
    for (size_t n = 0; n <= whole->size; n++) {
        for (feed how = FEED_MOST; how < FEEDS; how++) {
            world *w = new_world();
            add_bytes(w, "model.safetensors", whole->bytes, n, n);
            vram_status s = read_world(w, how);
            if (n == whole->size) {
                expect_ok(w, s);
            } else {
                const vram_error *e = vram_last_error(w->ctx);
                assert_int_equal(s, VRAM_EFORMAT);
                assert_string_equal(e->file, "model.safetensors");
                assert_true(e->has_offset && e->offset <= n);
            }
            end_world(w);
        }
    }
    end_world(made);
}

/* What is accepted is at least consistent. */
static void check_consistent(const world *w, uint64_t data)
{
    const vram_checkpoint *ck = w->ck;
    uint64_t end = 0;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        assert_int_equal(t->begin, end);
        assert_int_equal((t->end - t->begin) * 8, t->elements * vr_dtype_bits((vr_dtype)t->dtype));
        assert_ptr_equal(vr_checkpoint_find(ck, t->name), t);
        end = t->end;
    }
    assert_int_equal(end, data);
    assert_int_equal(ck->tensor_bytes, data);
}

static void test_flips(void **state)
{
    (void)state;
    world *made = new_world();
    const fake_file *whole = add_header(made, "model.safetensors", SAMPLE, 40);
    size_t header = (size_t)whole->size - 40, accepted = 0;
    for (size_t at = 0; at < header; at++) {
        for (unsigned flip = 1; flip < 256; flip++) {
            world *w = new_world();
            fake_file *f = add_bytes(w, "model.safetensors", whole->bytes, header, whole->size);
            f->bytes[at] = (char)((unsigned char)f->bytes[at] ^ flip);
            vram_status s = read_world(w, FEED_MOST);
            const vram_error *e = vram_last_error(w->ctx);
            if (s == VRAM_OK) {
                check_consistent(w, whole->size - w->ck->files[0].header_bytes);
                accepted++;
            } else {
                assert_true(s == VRAM_EFORMAT || s == VRAM_EUNSUPPORTED || s == VRAM_ELIMIT);
                assert_true(e->has_offset && e->offset <= whole->size && e->text[0] != '\0');
                assert_string_equal(e->file, "model.safetensors");
            }
            end_world(w);
        }
    }
    /* Names and metadata can hold anything; a dtype or a figure cannot. */
    assert_in_range(accepted, 500, 3000);
    end_world(made);
}

/* Names that want to drive the terminal, or are endless, reach the message tamed. */
static void test_hostile_names(void **state)
{
    (void)state;
    world *w = new_world();
    char *header = keep(w, malloc(20000));
    strcpy(header, "{\"\\u001b[31m\\r\xc2\x9b");
    for (size_t i = strlen(header), n = i + 10000; i < n; i++)
        header[i] = 'n', header[i + 1] = '\0';
    strcat(header, "\":{\"dtype\":\"U8\",\"shape\":[1]}}");
    assert_int_equal(read_header(w, header, 1, FEED_MOST), VRAM_EFORMAT);
    const char *text = vram_last_error(w->ctx)->text;
    assert_non_null(strstr(text, "\\u001b[31m\\r"));
    assert_non_null(strstr(text, "has no data_offsets"));
    assert_null(strchr(text, '\x1b'));
    assert_null(strstr(text, "\xc2\x9b"));
    assert_true(strlen(text) < 300);
    end_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors),       cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_file_size),
        cmocka_unit_test(test_header_length), cmocka_unit_test(test_lfs_pointer),
        cmocka_unit_test(test_prefixes),      cmocka_unit_test(test_flips),
        cmocka_unit_test(test_hostile_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
