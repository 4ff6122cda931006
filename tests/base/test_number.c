/* SPDX-License-Identifier: MIT
 * Numbers as people type them. */
#include "support.h"

typedef struct row {
    const char *text;
    bool ok;
    uint64_t value;
} row;

#define BAD(text)                                                                                            \
    {                                                                                                        \
        text, false, 0                                                                                       \
    }

static void run(const row *rows, size_t n, bool (*parse)(vr_str, uint64_t *))
{
    for (size_t i = 0; i < n; i++) {
        uint64_t v = 4242;
        bool ok = parse(vr_str_of(rows[i].text), &v);
        if (ok != rows[i].ok || v != (rows[i].ok ? rows[i].value : 4242))
            fail_msg("\"%s\" gave %s %llu", rows[i].text, ok ? "ok" : "refused", (unsigned long long)v);
    }
}

static void digits_only(void **state)
{
    (void)state;
    static const row rows[] = {
        { "0", true, 0 },
        { "007", true, 7 },
        { "18446744073709551615", true, UINT64_MAX },
        BAD("18446744073709551616"),
        BAD("99999999999999999999999"),
        BAD(""),
        BAD("+1"),
        BAD("-1"),
        BAD(" 1"),
        BAD("1 "),
        BAD("1.0"),
        BAD("1e3"),
        BAD("0x10"),
        BAD("1,000"),
        BAD("\xD9\xA1"), /* an Arabic digit */
    };
    run(rows, COUNT(rows), vr_parse_u64);
    uint64_t v = 1;
    assert_false(vr_parse_u64((vr_str){ NULL, 0 }, &v));
    assert_false(vr_parse_u64((vr_str){ "1\0", 2 }, &v));
}

static void counts(void **state)
{
    (void)state;
    static const row rows[] = {
        { "0", true, 0 },
        { "4096", true, 4096 },
        { "16K", true, 16384 },
        { "16k", true, 16000 },
        { "1M", true, 1048576 },
        { "1.5M", true, 1572864 },
        { "1.5m", true, 1500000 },
        { "1.5K", true, 1536 },
        { "2G", true, UINT64_C(2147483648) },
        { "2g", true, UINT64_C(2000000000) },
        { "7e9", true, UINT64_C(7000000000) },
        { "7E9", true, UINT64_C(7000000000) },
        { "7.5e+2", true, 750 },
        { "1e-0", true, 1 },
        { "10e-1", true, 1 },
        { "4_096", true, 4096 },
        { "4,096", true, 4096 },
        { "1,048,576", true, 1048576 },
        { "128,000K", true, 131072000 },
        { "4096.000", true, 4096 },
        { "18446744073709551615", true, UINT64_MAX },
        { "1.8446744073709551615e19", true, UINT64_MAX },
        { "17179869183G", true, UINT64_C(17179869183) << 30 },
        { "0e999999999999999999999", true, 0 },
        BAD("18446744073709551616"),
        BAD("17179869184G"),
        BAD("1e20"),
        BAD("1e999999999999999999999"),
        BAD("1e-1"),
        BAD("1.3K"), /* 1331.2 tokens */
        BAD("0.5"),
        BAD("1,5"),
        BAD("1,50"),
        BAD("1234,567"),
        BAD("1,2345"),
        BAD("1,,000"),
        BAD(",100"),
        BAD("100,"),
        BAD("_1"),
        BAD("1_"),
        BAD("1__0"),
        BAD("1,000,00"),
        BAD("1.5,000K"),
        BAD("1._5K"),
        BAD(""),
        BAD("K"),
        BAD("16 K"),
        BAD("16KB"),
        BAD("16KiB"),
        BAD("16Kx"),
        BAD("16x"),
        BAD("-1"),
        BAD("+1"),
        BAD("."),
        BAD("1."),
        BAD("1e"),
        BAD("1e+"),
        BAD("0x10"),
        BAD("nan"),
        BAD("inf"),
        BAD("1 000"),
        BAD("111111111111111111111111111111111111111111111111111111111111111111111111111111111111"),
    };
    run(rows, COUNT(rows), vr_parse_count);
    uint64_t v;
    assert_false(vr_parse_count((vr_str){ NULL, 0 }, &v));
}

static void bytes(void **state)
{
    (void)state;
    static const row rows[] = {
        { "1024", true, 1024 },
        { "24GiB", true, UINT64_C(25769803776) },
        { "24 GiB", true, UINT64_C(25769803776) },
        { "24gib", true, UINT64_C(25769803776) },
        { "24G", true, UINT64_C(25769803776) },
        { "24g", true, UINT64_C(25769803776) },
        { "24GB", true, UINT64_C(24000000000) },
        { "24 GB", true, UINT64_C(24000000000) },
        { "24gb", true, UINT64_C(24000000000) },
        { "512MiB", true, 536870912 },
        { "512M", true, 536870912 },
        { "512 MB", true, 512000000 },
        { "1KiB", true, 1024 },
        { "1kB", true, 1000 },
        { "1.5TiB", true, UINT64_C(1649267441664) },
        { "1TB", true, UINT64_C(1000000000000) },
        { "11.5GiB", true, UINT64_C(12348030976) },
        { "11.34 GiB", true, UINT64_C(12176232284) }, /* 12,176,232,284.16 */
        { "0.3KiB", true, 307 },                      /* 307.2 */
        { "7e9", true, UINT64_C(7000000000) },
        { "7 bytes", true, 7 },
        { "7B", true, 7 },
        { ".5GiB", true, 536870912 },
        { "17179869183.999GiB", true, UINT64_C(18446744073708477874) },
        BAD("17179869184GiB"),
        BAD("18446744073709551616"),
        BAD("0.5"),
        BAD("0.5 bytes"),
        BAD(""),
        BAD("GiB"),
        BAD("24 "),
        BAD("24Gi"),
        BAD("24GiBs"),
        BAD("24 G B"),
        BAD("-24GiB"),
        BAD("24,5GiB"),
        BAD("24.GiB"),
        BAD("1e400GiB"),
        BAD("1e-30GiB"),
        BAD("0.00000000000000000000000000001GiB"),
        BAD("24\tGiB"),
    };
    run(rows, COUNT(rows), vr_parse_bytes);
    uint64_t v = 0;
    assert_true(vram_parse_bytes("12GB", &v) && v == UINT64_C(12000000000));
    assert_false(vram_parse_bytes("12 parsecs", &v));
    assert_false(vram_parse_bytes(NULL, &v));
}

static void decimals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        uint64_t value, scale;
    } rows[] = {
        { "0.2", true, 2, 10 },
        { "0.20", true, 2, 10 },
        { "7e9", true, UINT64_C(7000000000), 1 },
        { "7.25", true, 725, 100 },
        { "1e-9", true, 1, UINT64_C(1000000000) },
        { "0", true, 0, 1 },
        { "0.000", true, 0, 1 },
        { "1.0", true, 1, 1 },
        { ".5", true, 5, 10 },
        { "0.01", true, 1, 100 },
        { "100", true, 100, 1 },
        { "1.8446744073709551615e19", true, UINT64_MAX, 1 },
        { "18446744073.709551615", true, UINT64_MAX, UINT64_C(1000000000) },
        { "1e-10", false, 0, 0 },
        { "0.0000000001", false, 0, 0 },
        { "1e20", false, 0, 0 },
        { "18446744073709551616", false, 0, 0 },
        { "1.00000000000000000000001", false, 0, 0 },
        { "", false, 0, 0 },
        { "x", false, 0, 0 },
        { "1x", false, 0, 0 },
        { "-1", false, 0, 0 },
        { "1.", false, 0, 0 },
        { ".", false, 0, 0 },
        { "1.2.3", false, 0, 0 },
        { "20%", false, 0, 0 },
        { " 1", false, 0, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t v = 1, scale = 1;
        bool ok = vr_parse_decimal(vr_str_of(rows[i].text), &v, &scale);
        if (ok != rows[i].ok || (ok && (v != rows[i].value || scale != rows[i].scale)))
            fail_msg("\"%s\" gave %d %llu / %llu", rows[i].text, ok, (unsigned long long)v,
                     (unsigned long long)scale);
    }
}

/* Every number that is printed reads back as itself. */
static void round_trips(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    uint64_t seed = 5;
    for (int i = 0; i < 20000; i++) {
        uint64_t want = next_random(&seed) >> (next_random(&seed) % 64), v = 0, scale = 0;
        vr_arena_reset(&ctx->arena);
        const char *plain = vr_text(&ctx->arena, U(want)), *grouped = vr_text(&ctx->arena, GROUPED(want));
        const char *fixed = vr_text(&ctx->arena, FIXED(want, UINT64_C(1000000000), 9));
        assert_true(vr_parse_u64(vr_str_of(plain), &v) && v == want);
        assert_true(vr_parse_count(vr_str_of(plain), &v) && v == want);
        assert_true(vr_parse_count(vr_str_of(grouped), &v) && v == want);
        assert_true(vr_parse_bytes(vr_str_of(plain), &v) && v == want);
        assert_true(vr_parse_decimal(vr_str_of(fixed), &v, &scale));
        assert_true(vr_mul(v, UINT64_C(1000000000) / scale, &v) && v == want);
    }
    close_context(ctx, &h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_only), cmocka_unit_test(counts),      cmocka_unit_test(bytes),
        cmocka_unit_test(decimals),    cmocka_unit_test(round_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
