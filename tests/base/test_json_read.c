/* SPDX-License-Identifier: MIT
 * The strict JSON reader against RFC 8259 and against the inputs on which known libraries differ: deep
 * nesting, duplicate names, 2^53+1, 2^64, NUL, ill-formed UTF-8, surrogates. Doubles are held against strtod.
 */
#include "support.h"

#include <float.h>
#include <math.h>

static bool parse(vr_str text, vr_json *v, vr_json_error *e)
{
    /* A copy of exactly that size, so that AddressSanitizer and valgrind see a read past the end. */
    static char *last;
    free(last);
    last = malloc(text.n != 0 ? text.n : 1);
    if (text.n != 0)
        memcpy(last, text.s, text.n);
    return vr_json_parse((vr_str){ last, text.n }, v, e);
}

static vr_json value_of(const char *text)
{
    vr_json v = { 0 };
    vr_json_error e;
    if (!vr_json_parse(vr_str_of(text), &v, &e))
        fail_msg("%s: %s at %zu", text, e.reason, e.offset);
    return v;
}

static void accepts_the_grammar(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        vr_json_type type;
    } rows[] = {
        { "null", VR_JSON_NULL },
        { "true", VR_JSON_TRUE },
        { " false\n", VR_JSON_FALSE },
        { "0", VR_JSON_NUMBER },
        { "-0", VR_JSON_NUMBER },
        { "-0.0e-0", VR_JSON_NUMBER },
        { "10.25E+300", VR_JSON_NUMBER },
        { "1e300", VR_JSON_NUMBER },
        { "1e400", VR_JSON_NUMBER },
        { "9007199254740993", VR_JSON_NUMBER },
        { "99999999999999999999", VR_JSON_NUMBER },
        { "\"\"", VR_JSON_STRING },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDe00\"", VR_JSON_STRING },
        { "\"é€😀\x7f\"", VR_JSON_STRING },
        { "\"\\u0000\"", VR_JSON_STRING },
        { "[]", VR_JSON_ARRAY },
        { "[ ]", VR_JSON_ARRAY },
        { "[[],[[]],{}]", VR_JSON_ARRAY },
        { "\t\r\n {\"a\" : [1 , 2] , \"\":null}\t\r\n ", VR_JSON_OBJECT },
        { "{}", VR_JSON_OBJECT },
        { "{\"a\":1,\"a\":2}", VR_JSON_OBJECT },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vr_json v = { 0 };
        vr_json_error e = { 0 };
        if (!parse(vr_str_of(rows[i].text), &v, &e))
            fail_msg("%s: %s at %zu", rows[i].text, e.reason, e.offset);
        assert_int_equal(v.type, rows[i].type);
        assert_true(v.text.n > 0 && v.text.s[0] > ' ' && (unsigned char)v.text.s[v.text.n - 1] > ' ');
    }
}

static void refuses_with_the_place(void **state)
{
    (void)state;
    static const struct {
        vr_str text;
        size_t offset;
        const char *reason;
    } rows[] = {
        { LITERAL(""), 0, "is empty" },
        { LITERAL(" \n"), 2, "is empty" },
        { LITERAL("nul"), 0, "a value is expected here" },
        { LITERAL("True"), 0, "a value is expected here" },
        { LITERAL("truex"), 4, "more bytes after the end of the document" },
        { LITERAL("NaN"), 0, "a value is expected here" },
        { LITERAL("[Infinity]"), 1, "a value is expected here" },
        { LITERAL("[-Infinity]"), 2, "a digit is expected here" },
        { LITERAL("+1"), 0, "a value is expected here" },
        { LITERAL(".5"), 0, "a value is expected here" },
        { LITERAL("-"), 1, "ends inside a number" },
        { LITERAL("1."), 2, "ends inside a number" },
        { LITERAL("[1.]"), 3, "a digit is expected here" },
        { LITERAL("1e"), 2, "ends inside a number" },
        { LITERAL("1e+"), 3, "ends inside a number" },
        { LITERAL("1e-x"), 3, "a digit is expected here" },
        { LITERAL("007"), 1, "a number must not start with 0" },
        { LITERAL("-01"), 2, "a number must not start with 0" },
        { LITERAL("0x10"), 1, "more bytes after the end of the document" },
        { LITERAL("1 2"), 2, "more bytes after the end of the document" },
        { LITERAL("'a'"), 0, "a value is expected here" },
        { LITERAL("\"a"), 2, "ends inside a string" },
        { LITERAL("\"a\\"), 2, "ends inside a string" },
        { LITERAL("\"\\x41\""), 1, "an unknown escape in a string" },
        { LITERAL("\"\\\0\""), 1, "an unknown escape in a string" },
        { LITERAL("\"\\u12g4\""), 1, "\\u needs four hexadecimal digits" },
        { LITERAL("\"\\u12"), 1, "\\u needs four hexadecimal digits" },
        { LITERAL("\"\\ud800\""), 1, "half of a surrogate pair" },
        { LITERAL("\"\\udc00\""), 1, "half of a surrogate pair" },
        { LITERAL("\"\\ud800x\""), 1, "half of a surrogate pair" },
        { LITERAL("\"\\ud800\\n\""), 1, "half of a surrogate pair" },
        { LITERAL("\"\\ud800\\ud800\""), 1, "half of a surrogate pair" },
        { LITERAL("\"\\ud800\\u"), 1, "half of a surrogate pair" },
        { LITERAL("\"a\nb\""), 2, "a control character in a string" },
        { LITERAL("\"a\0b\""), 2, "a control character in a string" },
        { LITERAL("\"\x1f\""), 1, "a control character in a string" },
        { LITERAL("\"\xff\""), 1, "not UTF-8" },
        { LITERAL("\"\xC0\xAF\""), 1, "not UTF-8" },
        { LITERAL("\"\xED\xA0\x80\""), 1, "not UTF-8" },
        { LITERAL("\"\xE2\x82"), 1, "not UTF-8" },
        { LITERAL("{\"\xff\":1}"), 2, "not UTF-8" },
        { LITERAL("\xEF\xBB\xBF{}"), 0, "a value is expected here" }, /* a byte order mark */
        { LITERAL("["), 1, "ends where a value is expected" },
        { LITERAL("[1"), 2, "ends inside an array" },
        { LITERAL("[1,"), 3, "ends where a value is expected" },
        { LITERAL("[1,]"), 3, "a value is expected here" },
        { LITERAL("[,1]"), 1, "a value is expected here" },
        { LITERAL("[1 2]"), 3, "a comma or ] is expected here" },
        { LITERAL("[1}"), 2, "a comma or ] is expected here" },
        { LITERAL("]"), 0, "a value is expected here" },
        { LITERAL("{"), 1, "ends inside an object" },
        { LITERAL("{\"a\""), 4, "ends inside an object" },
        { LITERAL("{\"a\":"), 5, "ends where a value is expected" },
        { LITERAL("{\"a\":1"), 6, "ends inside an object" },
        { LITERAL("{\"a\":1,"), 7, "ends inside an object" },
        { LITERAL("{\"a\":1,}"), 7, "a name in double quotes is expected here" },
        { LITERAL("{a:1}"), 1, "a name in double quotes is expected here" },
        { LITERAL("{1:1}"), 1, "a name in double quotes is expected here" },
        { LITERAL("{\"a\" 1}"), 5, "a colon is expected here" },
        { LITERAL("{\"a\":1]"), 6, "a comma or } is expected here" },
        { LITERAL("{\"a\":1;}"), 6, "a comma or } is expected here" },
        { LITERAL("[1] // two"), 4, "more bytes after the end of the document" },
        { LITERAL("[1,/**/2]"), 3, "a value is expected here" },
        { LITERAL("{}\0"), 2, "more bytes after the end of the document" },
        { LITERAL("{\"a\":1}\0{\"a\":2}"), 7, "more bytes after the end of the document" },
        { LITERAL("{\"a\":1\0,\"a\":2}"), 6, "a comma or } is expected here" },
        { LITERAL("\v1"), 0, "a value is expected here" },
        { LITERAL("\xC2\xA0"
                  "1"),
          0, "a value is expected here" }, /* a space to Unicode, not to JSON */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vr_json v;
        vr_json_error e = { 0 };
        if (parse(rows[i].text, &v, &e))
            fail_msg("row %zu was accepted: %s", i, rows[i].text.s);
        assert_string_equal(e.reason, rows[i].reason);
        assert_int_equal(e.offset, rows[i].offset);
    }
    vr_json v;
    vr_json_error e;
    assert_false(vr_json_parse((vr_str){ NULL, 0 }, &v, &e));
    assert_int_equal(e.offset, 0);
}

/* No document cut short is a document, except where what remains is one. */
static void refuses_every_prefix(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\\u00e9\\ud83d\\ude00é\":[1.5e-3,-0,true,false,null,{},[],\"\"],\"b\":{\"c\":[[]]}}";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        vr_json v;
        vr_json_error e;
        assert_false(parse((vr_str){ text, n }, &v, &e));
        assert_true(e.offset <= n);
    }
    value_of(text);
}

static void nesting_ends_at_64(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    static char text[2 * DEEP];
    vr_json v;
    vr_json_error e;
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    assert_true(parse((vr_str){ text, 128 }, &v, &e));
    size_t depth = 0;
    for (vr_json at = v; at.type == VR_JSON_ARRAY; depth++) {
        vr_json_iter it = vr_json_each(at);
        if (!vr_json_next(&it, &at))
            at.type = VR_JSON_NULL;
    }
    assert_int_equal(depth, 64);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    assert_false(parse((vr_str){ text, 130 }, &v, &e));
    assert_string_equal(e.reason, "nested more than 64 deep");
    assert_int_equal(e.offset, 64);
    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    assert_false(parse((vr_str){ text, 2 * DEEP }, &v, &e));
    assert_int_equal(e.offset, 64);
    for (size_t i = 0; i + 5 <= 5 * 65; i += 5)
        memcpy(text + i, "{\"a\":", 5);
    assert_false(parse((vr_str){ text, 5 * 65 }, &v, &e));
    assert_int_equal(e.offset, 5 * 64);
}

static void walks_in_order(void **state)
{
    (void)state;
    vr_json v = value_of(" { \"a\" : [ 1 ,\"]\\\"\", { } ] ,\"b\":{\"c\":\"}\"}, \"a\" : 2 } "), key, value;
    vr_json_iter it = vr_json_each(v);
    assert_true(vr_json_next_member(&it, &key, &value));
    assert_true(vr_json_str_is(key, "a"));
    assert_int_equal(value.type, VR_JSON_ARRAY);
    vr_json_iter inner = vr_json_each(value);
    assert_true(vr_json_next(&inner, &value));
    assert_true(vr_str_is(value.text, "1"));
    assert_true(vr_json_next(&inner, &value));
    assert_true(vr_str_is(value.text, "\"]\\\"\""));
    assert_true(vr_json_next(&inner, &value));
    assert_true(vr_str_is(value.text, "{ }"));
    assert_false(vr_json_next(&inner, &value));
    assert_false(vr_json_next(&inner, &value));
    assert_true(vr_json_next_member(&it, &key, &value));
    assert_true(vr_json_str_is(key, "b"));
    assert_true(vr_str_is(value.text, "{\"c\":\"}\"}"));
    assert_true(
        vr_json_next_member(&it, &key, &value)); /* the second "a": duplicates are shown, not hidden */
    assert_true(vr_json_str_is(key, "a"));
    assert_true(vr_str_is(value.text, "2"));
    assert_false(vr_json_next_member(&it, &key, &value));
    for (size_t i = 0; i < 4; i++) {
        static const char *const empty[] = { "[]", "{}", "1", "\"x\"" };
        it = vr_json_each(value_of(empty[i]));
        assert_false(vr_json_next(&it, &value));
    }
}

static void gets_by_path(void **state)
{
    (void)state;
    vr_json v = value_of("{\"x\":{\"y\":1,\"y\":2,\"z\":{\"\":3}},\"\\u0078x\":4,\"n\\u0000\":5,\"l\":[1]}"),
            out = { 0 };
    uint64_t n = 0;
    assert_true(vr_json_get(v, "x.y", &out) && vr_json_u64(out, &n));
    assert_int_equal(n, 1);
    assert_true(vr_json_get(v, "xx", &out) && vr_json_u64(out, &n));
    assert_int_equal(n, 4);
    assert_true(vr_json_get(v, "x.z.", &out) && vr_json_u64(out, &n));
    assert_int_equal(n, 3);
    assert_true(vr_json_get(v, "x.z", &out));
    assert_int_equal(out.type, VR_JSON_OBJECT);
    assert_false(vr_json_get(v, "n", &out)); /* the name goes on behind its NUL */
    assert_false(vr_json_get(v, "X", &out));
    assert_false(vr_json_get(v, "x.y.z", &out));
    assert_false(vr_json_get(v, "l.0", &out));
    assert_false(vr_json_get(v, "", &out));
    assert_false(vr_json_get(value_of("3"), "a", &out));
    assert_int_equal(out.type, VR_JSON_OBJECT); /* untouched by the failures */
}

static void integers_are_exact_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        uint64_t value;
    } rows[] = {
        { "0", true, 0 },
        { "-0", true, 0 },
        { "9007199254740993", true, UINT64_C(9007199254740993) }, /* 2^53+1 */
        { "18446744073709551615", true, UINT64_MAX },
        { "1e3", true, 1000 },
        { "4096.0", true, 4096 },
        { "1.5e1", true, 15 },
        { "1000e-3", true, 1 },
        { "18446744073709551616", false, 0 },
        { "99999999999999999999", false, 0 },
        { "1e300", false, 0 },
        { "1e20", false, 0 },
        { "-1", false, 0 },
        { "0.5", false, 0 },
        { "1e-1", false, 0 },
        { "4096.00000000000000000000000000000000000001", false, 0 },
        { "\"5\"", false, 0 },
        { "true", false, 0 },
        { "null", false, 0 },
        { "[1]", false, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t v = 4242;
        bool ok = vr_json_u64(value_of(rows[i].text), &v);
        if (ok != rows[i].ok || v != (ok ? rows[i].value : 4242))
            fail_msg("%s gave %d %llu", rows[i].text, ok, (unsigned long long)v);
    }
}

static void check_double(const char *text)
{
    double got = 0, want = strtod(text, NULL);
    if (!vr_json_double(value_of(text), &got))
        fail_msg("%s was refused", text);
    double room = fabs(want) * 8 * DBL_EPSILON + 4 * 4.9406564584124654e-324;
    if (!(fabs(got - want) <= room))
        fail_msg("%s gave %.17g, not %.17g", text, got, want);
}

static void doubles_are_close_to_strtod(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0.0",
        "1",
        "-1.5",
        "0.1",
        "1e300",
        "-1e300",
        "1.7976931348623e308",
        "2.2250738585072014e-308",
        "5e-324",
        "1e-400",
        "123456789012345678901234567890",
        "0.000000000000000000000000000000000000000000012345e60",
        "1e-310",
        "12345678901234567890123456789e-29",
        "500000.0",
        "10000.0",
        "1e-05",
        "1e-06",
        "0.02",
        "184467440737095516150e-1",
        "0e999999999999999999999999",
        "1e-999999999999999999999999",
    };
    double v = 7;
    for (size_t i = 0; i < COUNT(texts); i++)
        check_double(texts[i]);
    uint64_t seed = 6;
    for (int i = 0; i < 20000; i++) {
        char text[64];
        snprintf(text, sizeof text, "%llu.%llue%d",
                 (unsigned long long)(next_random(&seed) >> (next_random(&seed) % 64)),
                 (unsigned long long)(next_random(&seed) >> (next_random(&seed) % 64)),
                 (int)(next_random(&seed) % 580) - 300);
        check_double(text);
    }
    assert_false(vr_json_double(value_of("1e400"), &v));
    assert_false(vr_json_double(value_of("-1e400"), &v));
    assert_false(vr_json_double(value_of("1e999999999999999999999999"), &v));
    assert_false(vr_json_double(value_of("\"1\""), &v));
    assert_true(v == 7);
}

static void strings_and_flags(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_json v = value_of(
        "[\"plain é\",\"\\\"\\\\\\/\\b\\f\\n\\r\\t\",\"\\u00E9\\ud83d\\uDE00\\u0000z\",\"\",5,true,false]");
    static const vr_str want[] = {
        LITERAL("plain é"),
        LITERAL("\"\\/\b\f\n\r\t"),
        LITERAL("é😀\0z"),
        LITERAL(""),
    };
    vr_json_iter it = vr_json_each(v);
    size_t calls = h.n_calls;
    for (size_t i = 0; i < COUNT(want); i++) {
        vr_str s;
        vr_json item;
        assert_true(vr_json_next(&it, &item));
        assert_true(vr_json_str(item, &ctx->arena, &s));
        assert_true(vr_str_eq(s, want[i]));
        assert_int_equal(vr_json_str_is(item, want[i].s), i != 2); /* a NUL inside is no C string */
        assert_false(vr_json_str_is(item, "plain"));
        if (i == 0)
            assert_int_equal(h.n_calls, calls); /* borrowed */
    }
    vr_json item;
    vr_str s = { NULL, 9 };
    bool flag = false;
    assert_true(vr_json_next(&it, &item));
    assert_false(vr_json_str(item, &ctx->arena, &s));
    assert_true(s.s != NULL && s.n == 0);
    assert_false(vr_json_str_is(item, "5"));
    assert_false(vr_json_bool(item, &flag));
    assert_true(vr_json_next(&it, &item) && vr_json_bool(item, &flag) && flag);
    assert_true(vr_json_next(&it, &item) && vr_json_bool(item, &flag) && !flag);
    close_context(ctx, &h);
}

static vram_status unescape(vram_ctx *ctx)
{
    vr_str s;
    if (vr_json_str(value_of("\"\\n\""), &ctx->arena, &s))
        return VRAM_OK;
    assert_null(s.s);
    return VRAM_ENOMEM;
}

static void strings_survive_failures(void **state)
{
    (void)state;
    assert_int_equal(survives_failures(unescape), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_the_grammar),
        cmocka_unit_test(refuses_with_the_place),
        cmocka_unit_test(refuses_every_prefix),
        cmocka_unit_test(nesting_ends_at_64),
        cmocka_unit_test(walks_in_order),
        cmocka_unit_test(gets_by_path),
        cmocka_unit_test(integers_are_exact_or_refused),
        cmocka_unit_test(doubles_are_close_to_strtod),
        cmocka_unit_test(strings_and_flags),
        cmocka_unit_test(strings_survive_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
