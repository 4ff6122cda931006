/* SPDX-License-Identifier: MIT
 * The JSON writer: its layout, its escapes, and that the strict reader takes what it writes. */
#include "support.h"

#include <math.h>
#include <stdlib.h>

static void lays_out_with_two_spaces(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_buf b;
    vr_json_out o;
    vr_buf_init(&b, ctx, 10000);
    vr_json_begin(&o, &b);
    vr_json_open(&o, '{');
    vr_json_kv_text(&o, "schema", "vram.fit/1");
    vr_json_kv_u64(&o, "bytes", UINT64_MAX);
    vr_json_kv_i64(&o, "headroom", INT64_MIN);
    vr_json_kv_bool(&o, "yes", true);
    vr_json_kv_bool(&o, "no", false);
    vr_json_kv_null(&o, "failure");
    vr_json_kv_text(&o, "name", NULL);
    vr_json_key(&o, "fraction");
    vr_json_put_fixed(&o, 1, 3, 4);
    vr_json_key(&o, "nothing");
    vr_json_put_fixed(&o, 1, 0, 4);
    vr_json_key(&o, "list");
    vr_json_open(&o, '[');
    vr_json_put_u64(&o, 1);
    vr_json_open(&o, '[');
    vr_json_close(&o, ']');
    vr_json_open(&o, '{');
    vr_json_close(&o, '}');
    vr_json_open(&o, '{');
    vr_json_kv_u64(&o, "a", 1);
    vr_json_close(&o, '}');
    vr_json_close(&o, ']');
    vr_json_close(&o, '}');
    assert_false(b.failed);
    assert_string_equal(b.p, "{\n"
                             "  \"schema\": \"vram.fit/1\",\n"
                             "  \"bytes\": 18446744073709551615,\n"
                             "  \"headroom\": -9223372036854775808,\n"
                             "  \"yes\": true,\n"
                             "  \"no\": false,\n"
                             "  \"failure\": null,\n"
                             "  \"name\": null,\n"
                             "  \"fraction\": 0.3333,\n"
                             "  \"nothing\": null,\n"
                             "  \"list\": [\n"
                             "    1,\n"
                             "    [],\n"
                             "    {},\n"
                             "    {\n"
                             "      \"a\": 1\n"
                             "    }\n"
                             "  ]\n"
                             "}");
    vr_json v;
    vr_json_error e;
    assert_true(vr_json_parse((vr_str){ b.p, b.n }, &v, &e));
    vr_buf_free(&b);
    close_context(ctx, &h);
}

static void escapes_what_needs_it(void **state)
{
    (void)state;
    static const struct {
        vr_str in;
        const char *out;
    } rows[] = {
        { LITERAL(""), "\"\"" },
        { LITERAL("plain é€😀/"), "\"plain é€😀/\"" },
        { LITERAL("\"\\\b\f\n\r\t"), "\"\\\"\\\\\\b\\f\\n\\r\\t\"" },
        { LITERAL("\0\x01\x1b\x1f\x7f"), "\"\\u0000\\u0001\\u001b\\u001f\\u007f\"" },
        { LITERAL("\xC2\x80\xC2\x9B\xC3\xA9"), "\"\\u0080\\u009b\xC3\xA9\"" },
        { LITERAL("\xE2\x80\xAE\xE2\x80\xA8\xF3\xA0\x81\x81"), "\"\\u202e\\u2028\\udb40\\udc41\"" },
        { LITERAL("a\xff"
                  "b\xC3"),
          "\"a\xEF\xBF\xBD"
          "b\xEF\xBF\xBD\"" },
        { LITERAL("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"" },
    };
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    for (size_t i = 0; i < COUNT(rows); i++) {
        vr_buf b;
        vr_json_out o;
        vr_json v;
        vr_json_error e;
        vr_buf_init(&b, ctx, 1000);
        vr_json_begin(&o, &b);
        vr_json_put_str(&o, rows[i].in);
        assert_string_equal(b.p, rows[i].out);
        assert_true(vr_json_parse((vr_str){ b.p, b.n }, &v, &e));
        vr_str back;
        assert_true(vr_json_str(v, &ctx->arena, &back));
        if (vr_utf8_check(rows[i].in, NULL))
            assert_true(vr_str_eq(back, rows[i].in));
        vr_buf_free(&b);
    }
    close_context(ctx, &h);
}

static vram_status write_document(vram_ctx *ctx)
{
    vr_buf b;
    vr_json_out o;
    vr_buf_init(&b, ctx, SIZE_MAX);
    vr_json_begin(&o, &b);
    vr_json_open(&o, '[');
    for (uint64_t i = 0; i < 100; i++) {
        vr_json_open(&o, '{');
        vr_json_kv_u64(&o, "number", i);
        vr_json_kv_text(&o, "text", "a\n\xff");
        vr_json_close(&o, '}');
    }
    vr_json_close(&o, ']');
    vram_status status = b.failed ? vram_last_error(ctx)->code : VRAM_OK;
    vr_buf_free(&b);
    return status;
}

static void survives_failed_allocations(void **state)
{
    (void)state;
    assert_true(survives_failures(write_document) >= 5);
}

static void obeys_the_limit(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    for (size_t limit = 0; limit < 40; limit++) {
        vr_buf b;
        vr_json_out o;
        vr_buf_init(&b, ctx, limit);
        vr_json_begin(&o, &b);
        vr_json_open(&o, '[');
        vr_json_put_text(&o, "twenty five characters...");
        vr_json_close(&o, ']');
        assert_int_equal(b.failed, limit < 33); /* [, new line, 2 spaces, 27, new line, ] */
        assert_true(b.n <= limit);
        if (b.failed)
            assert_int_equal(vram_last_error(ctx)->code, VRAM_ELIMIT);
        vr_buf_free(&b);
    }
    close_context(ctx, &h);
}

static void put_one(vr_buf *b, double v, bool single)
{
    vr_json_out o;
    b->n = 0;
    vr_json_begin(&o, b);
    vr_json_put_double(&o, v, single);
    assert_false(b->failed);
}

static void writes_floating_numbers(void **state)
{
    (void)state;
    /* digits as Python's repr() has them, those of single precision as NumPy's; limits of <float.h> */
    static const struct {
        double v;
        bool single;
        const char *text;
    } rows[] = {
        { 0.0, false, "0.0" },
        { -0.0, false, "-0.0" },
        { 1.0, false, "1.0" },
        { -2.5, false, "-2.5" },
        { 0.1, false, "0.1" },
        { (double)0.1f, true, "0.1" },
        { (double)0.1f, false, "0.10000000149011612" },
        { (double)1e-5f, true, "1.0e-5" },
        { 9.999999974752427e-07, false, "9.999999974752427e-7" },
        { (double)1e6f, true, "1000000.0" },
        { 1e16, false, "1.0e16" },
        { 123456789012345680.0, false, "1.2345678901234568e17" },
        { 5e-324, false, "5.0e-324" },
        { 2.2250738585072014e-308, false, "2.2250738585072014e-308" },
        { 1.7976931348623157e308, false, "1.7976931348623157e308" },
        { 1.401298464324817e-45, true, "1.0e-45" },
        { 3.4028234663852886e38, true, "3.4028235e38" },
        { 9007199254740993.0, false, "9007199254740992.0" },
        { 16777216.0, true, "16777216.0" },
    };
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_buf b;
    vr_buf_init(&b, ctx, 4096);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_one(&b, rows[i].v, rows[i].single);
        assert_string_equal(b.p, rows[i].text);
    }
    put_one(&b, (double)NAN, false);
    assert_string_equal(b.p, "\"NaN\"");
    put_one(&b, -(double)INFINITY, true);
    assert_string_equal(b.p, "\"-Infinity\"");
    vr_buf_free(&b);
    close_context(ctx, &h);
}

/* Whatever bits: it reads back as the same number, and with fewer digits it would not. */
static void floating_numbers_round_trip(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_buf b;
    vr_buf_init(&b, ctx, 4096);
    uint64_t bits = 1;
    for (size_t i = 0; i < 30000; i++) {
        char shorter[64];
        double v;
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407); /* Knuth's MMIX */
        uint64_t mixed = bits ^ bits >> 29;
        bool single = i % 2 == 0;
        uint32_t half = (uint32_t)(mixed >> 32);
        float f;
        memcpy(&v, &mixed, sizeof v);
        memcpy(&f, &half, sizeof f);
        if (single)
            v = (double)f;
        if (!isfinite(v))
            continue;
        put_one(&b, v, single);
        assert_true(single ? strtof(b.p, NULL) == f : strtod(b.p, NULL) == v);
        int digits = 0;
        for (const char *p = b.p; *p != '\0' && *p != 'e'; p++)
            digits += *p >= '0' && *p <= '9';
        snprintf(shorter, sizeof shorter, "%.*e", digits - 2, v);
        if (digits > 2 && strstr(b.p, "e") != NULL)
            assert_false(single ? strtof(shorter, NULL) == f : strtod(shorter, NULL) == v);
    }
    vr_buf_free(&b);
    close_context(ctx, &h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lays_out_with_two_spaces),    cmocka_unit_test(escapes_what_needs_it),
        cmocka_unit_test(writes_floating_numbers),     cmocka_unit_test(floating_numbers_round_trip),
        cmocka_unit_test(survives_failed_allocations), cmocka_unit_test(obeys_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
