/* SPDX-License-Identifier: MIT
 * GGUF files: what is accepted, of every version and in both byte orders, and every way to be refused.
 * Rules: ggml, docs/gguf.md, and llama.cpp, ggml/src/gguf.cpp. */
#include "gguf_made.h"
#include "source.h"

#define NAME "model.gguf"

static fake_file *add(world *w, const char *name, const gguf *g)
{
    return add_bytes(w, name, g->bytes, g->n, g->n);
}

static vram_status read_one(world *w, const gguf *g, feed how)
{
    add(w, NAME, g);
    return read_world(w, how);
}

/* ---- accepted ---- */

static void check_values(const vr_metadata *m)
{
    uint64_t u = 0;
    int64_t i = 0;
    double d = 0;
    vr_str s;
    assert_true(vr_metadata_str(m, "general.architecture", &s) && vr_str_is(s, "llama"));
    assert_true(vr_metadata_u64(m, "t.u8", &u) && u == 200);
    assert_true(vr_metadata_u64(m, "t.u16", &u) && u == 60000);
    assert_true(vr_metadata_u64(m, "t.u64", &u) && u == UINT64_MAX);
    assert_true(vr_metadata_u64(m, "t.bool", &u) && u == 1);
    assert_true(vr_meta_i64(m, vr_metadata_get(m, "t.i8"), 0, &i) && i == -100);
    assert_true(vr_meta_i64(m, vr_metadata_get(m, "t.i16"), 0, &i) && i == -30000);
    assert_true(vr_meta_i64(m, vr_metadata_get(m, "t.i32"), 0, &i) && i == -2000000000);
    assert_true(vr_meta_i64(m, vr_metadata_get(m, "t.i64"), 0, &i) && i == INT64_MIN);
    assert_true(vr_metadata_double(m, "t.f32", &d) && d * 2 > 2.9 && d * 2 < 3.1);
    assert_true(vr_metadata_double(m, "t.f64", &d) && d > -2.6 && d < -2.4);
    assert_false(vr_metadata_u64(m, "t.i8", &u)); /* negative */
    assert_false(vr_metadata_u64(m, "t.f32", &u) || vr_metadata_double(m, "t.u8", &d));
    assert_false(vr_metadata_str(m, "t.u8", &s) || vr_metadata_u64(m, "absent", &u));
    assert_null(vr_metadata_get(NULL, "t.u8"));
}

static void check_arrays(const vr_metadata *m)
{
    int64_t i = 0;
    uint64_t u = 0;
    const vr_meta *numbers = vr_metadata_get(m, "t.numbers"), *texts = vr_metadata_get(m, "t.texts");
    const vr_meta *nested = vr_metadata_get(m, "t.nested");
    assert_true(numbers->kept && numbers->count == 3 && numbers->element == VR_META_I16);
    assert_true(vr_meta_i64(m, numbers, 1, &i) && i == -2);
    assert_true(vr_meta_u64(m, numbers, 2, &u) && u == 3);
    assert_false(vr_meta_u64(m, numbers, 3, &u) || vr_meta_u64(m, numbers, UINT64_MAX, &u));
    assert_false(vr_metadata_u64(m, "t.numbers", &u)); /* no scalar */
    assert_true(!texts->kept && texts->count == 3 && texts->element == VR_META_STR);
    assert_true(!nested->kept && nested->count == 2 && nested->element == VR_META_ARRAY);
    assert_false(vr_meta_u64(m, nested, 0, &u));
}

static void check_sample(const vram_checkpoint *ck, size_t data_begin)
{
    const vr_tensor *t = vr_checkpoint_find(ck, VR_LIT("blk.0.attn_k.weight"));
    assert_int_equal(ck->n_tensors, 3);
    assert_int_equal(ck->tensor_bytes, 32 + 36 + 16);
    assert_int_equal(ck->elements, 8 + 64 + 4);
    assert_int_equal(ck->files[0].header_bytes, data_begin);
    assert_string_equal(vr_file_format(&ck->files[0]), "gguf");
    assert_non_null(t);
    assert_int_equal(t->dtype, VR_Q4_0);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[0], 32); /* as in the file */
    assert_int_equal(t->dims[1], 2);
    assert_int_equal(t->begin, 64);
    assert_int_equal(t->end, 64 + 36);
    assert_int_equal(ck->metadata->n, 16);
    check_values(ck->metadata);
    check_arrays(ck->metadata);
}

static void test_versions(void **state)
{
    (void)state;
    gguf g = { 0 };
    for (g.version = 1; g.version <= 3; g.version++) {
        for (g.big = 0; g.big < 2; g.big++) {
            size_t data = g_sample(&g);
            for (feed how = FEED_MOST; how < FEEDS; how++) {
                world *w = new_world();
                expect_ok(w, read_one(w, &g, how));
                check_sample(w->ck, data);
                assert_int_equal(n_warnings(w), 0);
                end_world(w);
            }
        }
    }
}

/* llama.cpp build 10470, ggml/include/ggml.h: enum ggml_type; block sizes are held in test_dtype.c. */
static const char *const type_names[] = {
    "F32",   "F16",    "Q4_0",  "Q4_1", "",     "",        "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
    "IQ2_S", "IQ4_XS", "I8",    "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16",  "",       "",
    "",      "TQ1_0",  "TQ2_0", "",     "",     "",        "MXFP4",  "NVFP4",   "Q1_0",  "Q2_0",
};

static void test_types(void **state)
{
    (void)state;
    size_t n = sizeof(type_names) / sizeof(type_names[0]);
    for (unsigned id = 0; id < n + 3; id++) {
        gguf g = { .version = 3 };
        world *w = new_world();
        const char *name = id < n ? type_names[id] : "";
        g_start(&g);
        g_tensor(&g, "t", id, 256, 3, 0);
        (void)g_end(&g, 32, 256 * 3 * 8);
        vram_status s = read_one(w, &g, FEED_MOST);
        if (*name != '\0') {
            expect_ok(w, s);
            vr_dtype d = (vr_dtype)w->ck->tensors[0].dtype;
            assert_string_equal(vr_dtype_name(d), name);
            assert_int_equal(w->ck->tensor_bytes, 3 * 256 / vr_dtype_block(d) * vr_dtype_block_bytes(d));
        } else {
            expect_error(w, s, VRAM_EUNSUPPORTED, NAME, 24 + 8 + 1 + 4 + 16,
                         id < n ? ", which llama.cpp " : "which is not known");
        }
        end_world(w);
    }
}

static void test_layout_warned(void **state)
{
    (void)state;
    static const struct {
        uint64_t first, second;
        const char *text; /* NULL: none */
    } rows[] = {
        { 0, 32, NULL },
        { 0, 64, "32 bytes between the tensors" },
        { 32, 64, "32 bytes between the tensors" },
        { 32, 0, "not described in the order" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        gguf g = { .version = 3 };
        world *w = new_world();
        g_start(&g);
        g_tensor(&g, "a", 0, 4, 0, rows[i].first);
        g_tensor(&g, "b", 0, 4, 0, rows[i].second);
        (void)g_end(&g, 32, 128);
        expect_ok(w, read_one(w, &g, FEED_MOST));
        assert_int_equal(w->ck->tensor_bytes, 32);
        assert_true(w->ck->tensors[0].begin < w->ck->tensors[1].begin);
        assert_int_equal(n_warnings(w), rows[i].text != NULL);
        if (rows[i].text != NULL)
            assert_true(has_warning(w, NAME, rows[i].text));
        end_world(w);
    }
}

/* ---- refused ---- */

typedef struct bad {
    vram_status code;
    const char *text;
    uint64_t offset;
    size_t data; /* bytes after the header */
} bad;

typedef void (*maker)(gguf *g, bad *b);

static void version_0(gguf *g, bad *b)
{
    g->bytes[4] = 0;
    *b = (bad){ VRAM_EFORMAT, "version of the GGUF format is 0", 4, 0 };
}

static void version_4(gguf *g, bad *b)
{
    g->bytes[4] = 4;
    *b = (bad){ VRAM_EUNSUPPORTED, "version 4 of the GGUF format is not known", 4, 0 };
}

static void key_twice(gguf *g, bad *b)
{
    g_key_u32(g, "a", 1);
    uint64_t at = g->n;
    g_key_text(g, "a", "again");
    *b = (bad){ VRAM_EFORMAT, "the key a is there twice", at, 0 };
}

static void key_empty(gguf *g, bad *b)
{
    *b = (bad){ VRAM_EFORMAT, "a key has no name", g->n, 0 };
    g_key_u32(g, "", 1);
}

static void key_long(gguf *g, bad *b)
{
    *b = (bad){ VRAM_EFORMAT, "a text is said to have 18,446,744,073,709,551,615 bytes", g->n, 64 };
    g_word(g, UINT64_MAX);
    g->n_keys = 1;
}

static void value_type(gguf *g, bad *b)
{
    g_key(g, "a", 13);
    *b = (bad){ VRAM_EFORMAT, "key 1 of 1 has the unknown value type 13", g->n - 4, 64 };
}

static void element_type(gguf *g, bad *b)
{
    g_key(g, "a", G_ARRAY);
    *b = (bad){ VRAM_EFORMAT, "array of the unknown value type 99", g->n, 64 };
    g_array(g, 99, 1);
}

static void array_long(gguf *g, bad *b)
{
    g_key(g, "a", G_ARRAY);
    g_array(g, G_F64, UINT64_C(1) << 61);
    *b = (bad){ VRAM_EFORMAT, "2,305,843,009,213,693,952 elements of type f64", g->n, 64 };
}

static void texts_long(gguf *g, bad *b)
{
    g_key(g, "a", G_ARRAY);
    g_array(g, G_STR, 1000000);
    *b = (bad){ VRAM_EFORMAT, "1,000,000 elements of type str", g->n, 64 };
}

static void text_in_array(gguf *g, bad *b)
{
    g_key(g, "a", G_ARRAY);
    g_array(g, G_STR, 2);
    g_text(g, "good");
    *b = (bad){ VRAM_EFORMAT, "a text is said to have 4,096 bytes", g->n, 64 };
    g_word(g, 4096);
}

static void too_deep(gguf *g, bad *b)
{
    g_key(g, "a", G_ARRAY);
    for (int i = 0; i < 9; i++)
        g_array(g, G_ARRAY, 1);
    *b = (bad){ VRAM_ELIMIT, "over 8 arrays stand in each other", g->n - 12, 64 };
}

static void alignment_24(gguf *g, bad *b)
{
    g_key_u32(g, "general.alignment", 24);
    *b = (bad){ VRAM_EFORMAT, "general.alignment is 24, not a power of two", g->n - 4, 64 };
}

static void alignment_0(gguf *g, bad *b)
{
    g_key_u32(g, "general.alignment", 0);
    *b = (bad){ VRAM_EFORMAT, "general.alignment is 0", g->n - 4, 64 };
}

static void alignment_text(gguf *g, bad *b)
{
    g_key_text(g, "general.alignment", "32");
    *b = (bad){ VRAM_EFORMAT, "general.alignment is no whole number", g->n - 10, 64 };
}

static void alignment_huge(gguf *g, bad *b)
{
    g_key_u32(g, "general.alignment", 1u << 31);
    *b = (bad){ VRAM_ELIMIT, "general.alignment is 2,147,483,648", g->n - 4, 64 };
}

static void tensor_twice(gguf *g, bad *b)
{
    g_tensor(g, "a", 0, 8, 0, 0);
    *b = (bad){ VRAM_EFORMAT, "tensor a is there twice", g->n, 64 };
    g_tensor(g, "a", 0, 8, 0, 32);
}

static void tensor_dims(gguf *g, bad *b)
{
    g_tensor(g, "a", 0, 8, 0, 0);
    g->bytes[24 + 9] = 5;
    *b = (bad){ VRAM_EFORMAT, "tensor 1 of 1 has 5 dimensions", 24 + 9, 64 };
}

static void tensor_row(gguf *g, bad *b)
{
    g_tensor(g, "a", 12, 320, 8, 0);
    *b = (bad){ VRAM_EFORMAT, "a row of tensor a has 320 elements, not whole blocks of 256 as Q4_K needs",
                24 + 13, 64 };
}

static void tensor_elements(gguf *g, bad *b)
{
    g_tensor(g, "a", 0, UINT64_C(1) << 40, UINT64_C(1) << 40, 0);
    *b = (bad){ VRAM_EFORMAT, "the shape of tensor a has over 2^64 elements", 24 + 13, 64 };
}

static void tensor_bytes(gguf *g, bad *b)
{
    g_tensor(g, "a", 0, UINT64_C(1) << 31, UINT64_C(1) << 31, 0);
    *b = (bad){ VRAM_EFORMAT, "the data of tensor a would end beyond 2^63 bytes", 24 + 13 + 16 + 4, 64 };
}

static void tensor_place(gguf *g, bad *b)
{
    g_tensor(g, "a", 0, 8, 0, 16);
    *b = (bad){ VRAM_EFORMAT, "the data of tensor a begins at 16, not at a multiple of 32", 24 + 13 + 8 + 4,
                64 };
}

static void tensor_overlap(gguf *g, bad *b)
{
    g_tensor(g, "a", 0, 16, 0, 0);
    *b = (bad){ VRAM_EFORMAT, "tensor b begins at 32 of the data, inside of tensor a, which ends at 64", g->n,
                128 };
    g_tensor(g, "b", 0, 8, 0, 32);
}

static void data_cut(gguf *g, bad *b)
{
    g_tensor(g, "a", 0, 16, 0, 0);
    *b = (bad){ VRAM_EFORMAT, "the file lacks 3 of its bytes", 0, 61 };
}

static void keys_too_many(gguf *g, bad *b)
{
    g->n_keys = UINT64_MAX;
    *b = (bad){ VRAM_EFORMAT, "18,446,744,073,709,551,615 keys and 0 tensors, too many", 8, 64 };
}

static void tensors_too_many(gguf *g, bad *b)
{
    g->n_tensors = 1000;
    *b = (bad){ VRAM_EFORMAT, "0 keys and 1,000 tensors, too many", 8, 64 };
}

static void test_refused(void **state)
{
    (void)state;
    static const maker makers[] = {
        version_0,    version_4,      key_twice,   key_empty,       key_long,
        value_type,   element_type,   array_long,  texts_long,      text_in_array,
        too_deep,     alignment_24,   alignment_0, alignment_text,  alignment_huge,
        tensor_twice, tensor_dims,    tensor_row,  tensor_elements, tensor_bytes,
        tensor_place, tensor_overlap, data_cut,    keys_too_many,   tensors_too_many,
    };
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        for (feed how = FEED_MOST; how < FEEDS; how++) {
            gguf g = { .version = 3 };
            bad b = { VRAM_OK, "", 0, 0 };
            world *w = new_world();
            g_start(&g);
            makers[i](&g, &b);
            (void)g_end(&g, 32, b.data);
            expect_error(w, read_one(w, &g, how), b.code, NAME, b.offset != 0 ? b.offset : g.n, b.text);
            end_world(w);
        }
    }
}

/* The limit on all headers is named where it is reached, in the middle of a run of texts. */
static void test_headers_limit(void **state)
{
    (void)state;
    for (feed how = FEED_MOST; how < FEEDS; how++) {
        gguf g = { .version = 3 };
        world *w = new_world();
        g_start(&g);
        g_key(&g, "x", G_ARRAY);
        g_number(&g, G_STR, 4);
        g_word(&g, 3);
        g_text(&g, "one");
        g_text(&g, "two");
        g_word(&g, 2 * VR_GIB);
        g_counts(&g, 0, 1);
        add_bytes(w, NAME, g.bytes, g.n, 3 * VR_GIB);
        expect_error(w, read_world(w, how), VRAM_ELIMIT, NAME, VR_GIB,
                     "the headers of all files have over 1,073,741,824 bytes");
        end_world(w);
    }
}

/* Every version in both byte orders. */
#define SAMPLES 6

static size_t make_sample(gguf *g, unsigned i)
{
    *g = (gguf){ .version = 1 + i / 2, .big = i % 2 != 0 };
    return g_sample(g);
}

/* Every prefix of a file is refused, and says so at its end. */
static void test_prefixes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SAMPLES; i++) {
        gguf g;
        size_t data = make_sample(&g, i), whole = data + 128 + 16; /* padding of the last tensor may lack */
        for (size_t n = 1; n < whole; n++) {
            gguf cut = g;
            world *w = new_world();
            cut.n = n;
            vram_status s = read_one(w, &cut, n % 2 == 0 ? FEED_MOST : FEED_STEPS);
            const vram_error *e = vram_last_error(w->ctx);
            if (s != VRAM_EFORMAT || e->code != s || !e->has_offset || e->offset > n)
                fail_msg("sample %u, %zu bytes: status %d, %s", i, n, (int)s, e->text);
            if (n >= data)
                expect_error(w, s, VRAM_EFORMAT, NAME, n, "the file lacks ");
            end_world(w);
        }
        g.n = whole;
        world *w = new_world();
        expect_ok(w, read_one(w, &g, FEED_MOST));
        end_world(w);
    }
}

typedef struct outcome {
    vram_status s;
    uint64_t offset, bytes;
    size_t n_warnings;
} outcome;

static outcome read_whole(const gguf *g, feed how)
{
    world *w = new_world();
    outcome o = { read_one(w, g, how), 0, 0, 0 };
    if (o.s == VRAM_OK)
        o.bytes = w->ck->tensor_bytes;
    else
        o.offset = vram_last_error(w->ctx)->offset;
    o.n_warnings = n_warnings(w);
    assert_true(o.s == VRAM_OK || vram_exit_status(o.s) == 3);
    end_world(w);
    return o;
}

/* The same answer however the bytes come; whether it is a refusal. */
static bool refused(const gguf *g)
{
    outcome most = read_whole(g, FEED_MOST);
    for (feed how = FEED_LEAST; how < FEED_STEPS; how++) {
        outcome other = read_whole(g, how);
        if (most.s != other.s || most.offset != other.offset || most.bytes != other.bytes ||
            most.n_warnings != other.n_warnings)
            fail_msg("feed %d: status %d at %llu, %llu bytes; otherwise %d at %llu, %llu bytes", (int)how,
                     (int)other.s, (unsigned long long)other.offset, (unsigned long long)other.bytes,
                     (int)most.s, (unsigned long long)most.offset, (unsigned long long)most.bytes);
    }
    return most.s != VRAM_OK;
}

static void flip_each(gguf *g, size_t data, const unsigned char *flips, unsigned n_flips)
{
    size_t n = 0, n_refused = 0;
    for (size_t at = 0; at < data; at++) {
        for (unsigned k = 0; k < n_flips; k++, n++) {
            g->bytes[at] ^= flips[k];
            n_refused += refused(g);
            g->bytes[at] ^= flips[k];
        }
    }
    assert_true(n_refused > n / 4 && n_refused < n);
}

/* Any byte may be any other: an answer or a clear refusal. */
static void test_flips(void **state)
{
    (void)state;
    static const unsigned char flips[] = { 0x01, 0x80, 0xFF, 0x10 };
    for (unsigned i = 0; i < SAMPLES; i++) {
        gguf g;
        size_t data = make_sample(&g, i);
        flip_each(&g, data, flips, sizeof(flips));
    }
}

/* Each of the 255 others, in one of the smallest files. */
static void test_all_flips(void **state)
{
    (void)state;
    unsigned char flips[255];
    gguf g = { .version = 3 };
    for (unsigned i = 0; i < sizeof(flips); i++)
        flips[i] = (unsigned char)(i + 1);
    g_start(&g);
    g_key_u32(&g, "general.alignment", 8);
    g_key(&g, "t", G_ARRAY);
    g_array(&g, G_STR, 1);
    g_text(&g, "a");
    g_tensor(&g, "w", 8, 32, 2, 0); /* Q8_0: two rows of 34 */
    size_t data = g_end(&g, 8, 72);
    flip_each(&g, data, flips, sizeof(flips));
}

static void test_no_memory(void **state)
{
    (void)state;
    gguf g = { .version = 2, .big = 1 };
    (void)g_sample(&g);
    for (int after = 0; after < 2; after++) {
        vram_status s = VRAM_ENOMEM;
        size_t n = 1;
        for (; s == VRAM_ENOMEM; n++) {
            world *w = new_world();
            w->memory.fail_at = n;
            w->memory.fail_after = after != 0;
            s = read_one(w, &g, FEED_BYTES);
            end_world(w);
        }
        assert_int_equal(s, VRAM_OK);
        assert_true(n > 4);
    }
}

/* ---- a vocabulary ---- */

enum { TOKENS = 60000, MERGES = 2 * TOKENS };

static void put(char *p, size_t *at, const void *bytes, size_t n)
{
    memcpy(p + *at, bytes, n);
    *at += n;
}

/* Tokens, types, merges as files of OpenAI's kind have them, and then the tensors: 3.3 MB. */
static char *large_file(world *w, size_t *n)
{
    gguf g = { .version = 3 };
    char *p = keep(w, calloc(1, 4 << 20)), text[] = "a token";
    uint64_t length = 7;
    size_t at = 0;
    g_start(&g);
    g_key_text(&g, "tokenizer.ggml.model", "gpt2");
    g_key(&g, "tokenizer.ggml.tokens", G_ARRAY);
    g_array(&g, G_STR, TOKENS);
    g.n_keys = 4;
    g_counts(&g, 1, 4);
    put(p, &at, g.bytes, g.n);
    for (size_t i = 0; i < TOKENS + MERGES; i++) {
        if (i == TOKENS) {
            g.n = 0;
            g_key(&g, "tokenizer.ggml.token_type", G_ARRAY);
            g_array(&g, G_I32, TOKENS);
            put(p, &at, g.bytes, g.n);
            at += 4 * (size_t)TOKENS;
            g.n = 0;
            g_key(&g, "tokenizer.ggml.merges", G_ARRAY);
            g_array(&g, G_STR, MERGES);
            put(p, &at, g.bytes, g.n);
        }
        put(p, &at, &length, 8);
        put(p, &at, text, 7);
    }
    g.n = 0;
    g_tensor(&g, "output_norm.weight", 0, 1024, 0, 0);
    put(p, &at, g.bytes, g.n);
    *n = (at + 31) / 32 * 32 + 4096;
    return p;
}

static vram_status read_large(world *w, uint64_t cost, uint64_t *asked)
{
    const vram_want *wants = NULL;
    vram_status s = vram_open(&w->ctx, hook_alloc, &w->memory);
    assert_int_equal(s, VRAM_OK);
    assert_int_equal(vram_checkpoint_new(&w->ck, w->ctx, "the checkpoint"), VRAM_OK);
    vram_checkpoint_request_cost(w->ck, cost);
    while ((s = vram_checkpoint_step(w->ck)) == VRAM_MORE) {
        size_t n = vram_checkpoint_wants(w->ck, &wants);
        assert_int_equal(n, 1);
        *asked += wants[0].kind == VRAM_WANT_RANGE ? wants[0].most : 0;
        assert_int_equal(supply_want(w, wants, FEED_MOST), VRAM_OK);
    }
    return s;
}

/* From a disk reads grow, over a network two requests do; the strings are not copied. */
static void test_vocabulary(void **state)
{
    (void)state;
    static const struct {
        uint64_t cost;
        size_t requests;
    } rows[] = { { 0, 6 }, { 256 * 1024, 2 }, { 1024 * 1024, 2 }, { 8 * 1024 * 1024, 1 } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world *w = new_world();
        size_t n = 0;
        uint64_t asked = 0, count = UINT64_C(4) << 20;
        char *bytes = large_file(w, &n);
        fake_file *f = add_bytes(w, NAME, bytes, n, n + count);
        f->bytes = keep(w, calloc(1, n + count));
        f->n = n + count;
        memcpy(f->bytes, bytes, n);
        expect_ok(w, read_large(w, rows[i].cost, &asked));
        assert_true(f->n_wants <= rows[i].requests);
        assert_true(asked < n + n / 4 + rows[i].cost);
        assert_true(w->memory.peak_bytes < 256 * 1024);
        const vr_meta *tokens = vr_metadata_get(w->ck->metadata, "tokenizer.ggml.tokens");
        const vr_meta *merges = vr_metadata_get(w->ck->metadata, "tokenizer.ggml.merges");
        assert_int_equal(tokens->count, TOKENS);
        assert_int_equal(merges->count, MERGES);
        assert_int_equal(w->ck->tensor_bytes, 4096);
        end_world(w);
    }
}

/* ---- several files ---- */

static void split_file(world *w, const char *name, uint16_t no, uint16_t count, uint32_t tensors)
{
    char tensor[] = "blk.0.weight";
    gguf g = { .version = 3 };
    g_start(&g);
    g_key_number(&g, "split.no", G_U16, no, 2);
    if (count != 0)
        g_key_number(&g, "split.count", G_U16, count, 2);
    g_key_number(&g, "split.tensors.count", G_I32, tensors, 4);
    tensor[4] = (char)('0' + w->n_files);
    g_tensor(&g, tensor, 0, 8, 0, 0);
    (void)g_end(&g, 32, 32);
    add(w, name, &g);
}

#define A "m-00001-of-00002.gguf"
#define B "m-00002-of-00002.gguf"

static void test_split(void **state)
{
    (void)state;
    static const struct {
        struct {
            const char *name;
            uint16_t no, count;
            uint32_t tensors;
        } files[2];
        const char *error, *file; /* NULL: none */
    } rows[] = {
        { { { A, 0, 2, 2 }, { B, 1, 2, 2 } }, NULL, NULL },
        { { { A, 1, 2, 2 }, { B, 0, 2, 2 } }, "by its name this is file 1 of 2", A },
        { { { A, 0, 2, 2 }, { B, 0, 2, 2 } }, "split.no is 0, which counts from 0", B },
        { { { A, 0, 2, 2 }, { B, 1, 3, 2 } }, "split.count is 3, but 2 in " A, B },
        { { { A, 0, 2, 2 }, { B, 1, 0, 2 } }, "no split.count, but " A " says", B },
        { { { A, 0, 2, 3 }, { B, 1, 2, 3 } }, "split.tensors.count is 3, but the files have 2", A },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world *w = new_world();
        for (size_t k = 0; k < 2; k++)
            split_file(w, rows[i].files[k].name, rows[i].files[k].no, rows[i].files[k].count,
                       rows[i].files[k].tensors);
        vram_status s = read_world(w, FEED_MOST);
        if (rows[i].error == NULL) {
            expect_ok(w, s);
            assert_false(w->ck->incomplete);
            assert_int_equal(w->ck->tensor_bytes, 64);
        } else {
            assert_int_equal(s, VRAM_EFORMAT);
            assert_non_null(strstr(vram_last_error(w->ctx)->text, rows[i].error));
            assert_string_equal(vram_last_error(w->ctx)->file, rows[i].file);
        }
        end_world(w);
    }
}

/* By its name it stands alone, by its keys it does not. */
static void test_split_lacks(void **state)
{
    (void)state;
    world *w = new_world();
    split_file(w, NAME, 0, 3, 9);
    expect_ok(w, read_world(w, FEED_MOST));
    assert_true(w->ck->incomplete);
    assert_true(has_warning(w, NAME, "this is one of 3 files, of which 2 are not here"));
    end_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),      cmocka_unit_test(test_types),
        cmocka_unit_test(test_layout_warned), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_headers_limit), cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_flips),         cmocka_unit_test(test_all_flips),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_vocabulary),
        cmocka_unit_test(test_split),         cmocka_unit_test(test_split_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
