/* SPDX-License-Identifier: MIT
 * Slices, pieces, the buffer and UTF-8. Formatting is held against the C library's printf and against texts
 * that PyTorch really printed. */
#include "support.h"

static void slices_compare_by_bytes(void **state)
{
    (void)state;
    vr_str nul = { "a\0b", 3 };
    assert_false(vr_str_eq(nul, VR_LIT("a")));
    assert_true(vr_str_eq(nul, (vr_str){ "a\0b", 3 }));
    assert_true(vr_str_eq((vr_str){ NULL, 0 }, VR_LIT("")));
    assert_true(vr_str_is(vr_str_of(NULL), ""));
    assert_true(vr_str_is(VR_LIT("abc"), "abc"));
    assert_false(vr_str_is(VR_LIT("abc"), "abcd"));
    assert_true(vr_str_cmp(VR_LIT("a"), VR_LIT("b")) < 0);
    assert_true(vr_str_cmp(VR_LIT("ab"), VR_LIT("a")) > 0);
    assert_true(vr_str_cmp(VR_LIT("\xff"), VR_LIT("a")) > 0);
    assert_true(vr_str_cmp((vr_str){ NULL, 0 }, VR_LIT("")) == 0);
}

static void slices_are_searched(void **state)
{
    (void)state;
    size_t at = 99;
    assert_true(vr_str_starts(VR_LIT("model.layers"), "model."));
    assert_false(vr_str_starts(VR_LIT("mod"), "model."));
    assert_true(vr_str_starts((vr_str){ NULL, 0 }, ""));
    assert_true(vr_str_ends(VR_LIT("a.safetensors"), ".safetensors"));
    assert_false(vr_str_ends(VR_LIT("tensors"), ".safetensors"));
    assert_true(vr_str_ends((vr_str){ NULL, 0 }, ""));
    assert_true(vr_str_find(VR_LIT("aaab"), "ab", &at));
    assert_int_equal(at, 2);
    assert_true(vr_str_find(VR_LIT("aaab"), "", NULL));
    assert_false(vr_str_find(VR_LIT("aaab"), "aaabb", NULL));
    assert_false(vr_str_find((vr_str){ NULL, 0 }, "x", &at));
}

static void slices_are_split(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words[4];
    } rows[] = {
        { "a,b", { "a", "b" } }, { "a,,b", { "a", "", "b" } }, { "a,", { "a", "" } },
        { "", { "" } },          { ",", { "", "" } },
    };
    vr_str word;
    for (size_t i = 0; i < COUNT(rows); i++) {
        vr_str rest = vr_str_of(rows[i].text);
        size_t n = 0;
        for (; vr_str_split(&rest, ',', &word); n++)
            assert_true(rows[i].words[n] != NULL && vr_str_is(word, rows[i].words[n]));
        assert_null(rows[i].words[n]);
    }
    vr_str none = { NULL, 0 };
    assert_false(vr_str_split(&none, ',', &word));
}

static const char *text_of(vr_arena *a, vr_piece p)
{
    const char *text = vr_text_pieces(a, &p, 1);
    assert_non_null(text);
    return text;
}

static void integers_print(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_arena *a = &ctx->arena;
    assert_string_equal(text_of(a, U(0)), "0");
    assert_string_equal(text_of(a, U(UINT64_MAX)), "18446744073709551615");
    assert_string_equal(text_of(a, I(INT64_MIN)), "-9223372036854775808");
    assert_string_equal(text_of(a, I(-1)), "-1");
    assert_string_equal(text_of(a, I(7)), "7");
    assert_string_equal(text_of(a, GROUPED(0)), "0");
    assert_string_equal(text_of(a, GROUPED(999)), "999");
    assert_string_equal(text_of(a, GROUPED(1000)), "1,000");
    assert_string_equal(text_of(a, GROUPED(UINT64_C(15231233024))), "15,231,233,024");
    assert_string_equal(text_of(a, GROUPED(UINT64_MAX)), "18,446,744,073,709,551,615");
    assert_string_equal(text_of(a, S(((vr_str){ NULL, 0 }))), "");
    assert_string_equal(vr_text(a, T("a"), U(1), T(NULL), S(VR_LIT("b"))), "a1b");
    close_context(ctx, &h);
}

static void fixed_is_exact_and_rounds_half_up(void **state)
{
    (void)state;
    static const struct {
        uint64_t value, unit;
        unsigned decimals;
        const char *text;
    } rows[] = {
        { 0, 1, 2, "0.00" },
        { 5, 2, 0, "3" },
        { 1, 8, 2, "0.13" }, /* 0.125 */
        { 1, 3, 6, "0.333333" },
        { 2, 3, 6, "0.666667" },
        { 999, 1000, 2, "1.00" },
        { 9996, 10000, 3, "1.000" },
        { UINT64_MAX, 1, 3, "18446744073709551615.000" },
        { UINT64_MAX, 10, 0, "1844674407370955162" },
        { UINT64_MAX - 1, UINT64_MAX, 18, "1.000000000000000000" },
        { 1, UINT64_MAX, 18, "0.000000000000000000" },
        { UINT64_MAX / 2 + 1, UINT64_MAX, 0, "1" },
        { UINT64_MAX / 2, UINT64_MAX, 0, "0" },
        { 1, 3, 40, "0.333333333333333333" }, /* more than 18 places are not given */
        { 1, 0, 2, "?" },
        { UINT64_C(15231233024), VR_GIB, 2, "14.19" },       /* Qwen2.5-7B */
        { UINT64_C(15231233024), VR_GB, 2, "15.23" },        /* the same in decimal GB */
        { UINT64_C(3087467008) + 512, VR_MIB, 1, "2944.4" }, /* Qwen2.5-1.5B */
    };
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(text_of(&ctx->arena, FIXED(rows[i].value, rows[i].unit, rows[i].decimals)),
                            rows[i].text);
    assert_string_equal(text_of(&ctx->arena, GIB(VR_GIB)), "1.00");
    assert_string_equal(text_of(&ctx->arena, MIB(VR_MIB / 4)), "0.3");
    close_context(ctx, &h);
}

/* Digit by digit in long division, the school way, as a second opinion on the 128-bit one. */
static void long_division(uint64_t value, uint64_t unit, unsigned decimals, char *out, size_t room)
{
    uint64_t rest = value % unit;
    int n = snprintf(out, room, "%llu%s", (unsigned long long)(value / unit), decimals != 0 ? "." : "");
    for (unsigned i = 0; i < decimals; i++) {
        out[n++] = (char)('0' + rest * 10 / unit);
        rest = rest * 10 % unit;
    }
    out[n] = '\0';
    if (rest < unit - rest)
        return;
    while (n-- > 0) {
        if (out[n] == '.')
            continue;
        if (out[n]++ < '9')
            return;
        out[n] = '0';
    }
    memmove(out + 1, out, strlen(out) + 1);
    out[0] = '1';
}

static void fixed_equals_long_division(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        char want[64];
        uint64_t value = next_random(&seed) >> (next_random(&seed) % 64);
        uint64_t unit =
            (next_random(&seed) >> (4 + next_random(&seed) % 60)) + 1; /* below 2^60: rest * 10 fits */
        unsigned decimals = (unsigned)(next_random(&seed) % 19);
        long_division(value, unit, decimals, want, sizeof want);
        vr_arena_reset(&ctx->arena);
        assert_string_equal(text_of(&ctx->arena, FIXED(value, unit, decimals)), want);
    }
    close_context(ctx, &h);
}

/* format_size of PyTorch 2.x, c10/cuda/CUDACachingAllocator.cpp, with printf in place of ostream (the same
 * digits). */
static void pytorch_size(uint64_t size, char *out, size_t room)
{
    if (size <= 1024)
        snprintf(out, room, "%llu bytes", (unsigned long long)size);
    else if (size <= 1048576)
        snprintf(out, room, "%.2f KiB", (double)size / 1024.0);
    else if (size <= 1073741824)
        snprintf(out, room, "%.2f MiB", (double)size / 1048576.0);
    else
        snprintf(out, room, "%.2f GiB", (double)size / 1073741824.0);
}

static void bytes_print_as_pytorch_does(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    /* Out-of-memory texts of real runs: a 12 GB card and Qwen2.5-7B in bf16 */
    assert_string_equal(text_of(&ctx->arena, BYTES(136314880)), "130.00 MiB");
    assert_string_equal(text_of(&ctx->arena, BYTES(0)), "0 bytes");
    assert_string_equal(text_of(&ctx->arena, BYTES(1024)), "1024 bytes");
    assert_string_equal(text_of(&ctx->arena, BYTES(1025)), "1.00 KiB");
    assert_string_equal(text_of(&ctx->arena, BYTES(VR_MIB)), "1024.00 KiB");
    assert_string_equal(text_of(&ctx->arena, BYTES(VR_GIB)), "1024.00 MiB");
    assert_string_equal(text_of(&ctx->arena, BYTES(VR_GIB + 1)), "1.00 GiB");
    assert_string_equal(text_of(&ctx->arena, BYTES(VR_GIB + VR_GIB / 8)), "1.12 GiB"); /* a tie, to even */
    assert_string_equal(text_of(&ctx->arena, BYTES(UINT64_MAX)), "17179869184.00 GiB");
    uint64_t seed = 2;
    for (uint64_t i = 0; i < 40000; i++) {
        char want[64];
        /* Half of them multiples of 512 bytes with ties on the way, half anything exact as a double. */
        uint64_t size = i % 2 == 0 ? i * 16777216 + i : next_random(&seed) >> (11 + next_random(&seed) % 50);
        pytorch_size(size, want, sizeof want);
        vr_arena_reset(&ctx->arena);
        assert_string_equal(text_of(&ctx->arena, BYTES(size)), want);
    }
    close_context(ctx, &h);
}

static void buffer_grows_to_its_limit(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_buf b;
    vr_buf_init(&b, ctx, 1000);
    assert_null(b.p);
    vr_put(&b, T("é"), U(5));
    vr_put_repeat(&b, "█", 3);
    vr_put_repeat(&b, "", SIZE_MAX);
    assert_string_equal(b.p, "é5███");
    vr_put_repeat(&b, "x", 1000 - b.n);
    assert_false(b.failed);
    assert_int_equal(b.n, 1000);
    assert_int_equal(strlen(b.p), 1000);
    vr_put_bytes(&b, "", 0);
    assert_false(b.failed);
    vr_put(&b, T("y"));
    assert_true(b.failed);
    assert_int_equal(vram_last_error(ctx)->code, VRAM_ELIMIT);
    vr_put_repeat(&b, "z", SIZE_MAX); /* sticky: returns at once */
    assert_int_equal(b.n, 1000);
    vr_buf_free(&b);
    vr_buf_free(&b);
    close_context(ctx, &h);
}

static vram_status write_much(vram_ctx *ctx)
{
    vr_buf b;
    vr_buf_init(&b, ctx, SIZE_MAX);
    for (int i = 0; i < 200; i++)
        vr_put(&b, T("line "), I(i), T("\n"));
    vram_status status = b.failed ? VRAM_ENOMEM : VRAM_OK;
    vr_buf_free(&b);
    if (status == VRAM_OK && vr_text(&ctx->arena, T("a"), U(1)) == NULL)
        status = VRAM_ENOMEM;
    return status;
}

static void buffer_survives_failures(void **state)
{
    (void)state;
    assert_true(survives_failures(write_much) >= 5);
}

static void utf8_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int bad; /* -1: well formed */
    } rows[] = {
        { "", -1 },
        { "plain", -1 },
        { "\xC2\x80", -1 },
        { "\xDF\xBF", -1 },
        { "\xE0\xA0\x80", -1 },
        { "\xED\x9F\xBF", -1 },
        { "\xEE\x80\x80", -1 },
        { "\xF0\x90\x80\x80", -1 },
        { "\xF4\x8F\xBF\xBF", -1 },
        { "ab\x80", 2 },   /* continuation alone */
        { "\xC0\xAF", 0 }, /* overlong slash */
        { "\xC1\xBF", 0 },
        { "\xE0\x9F\xBF", 0 },     /* overlong */
        { "\xF0\x8F\xBF\xBF", 0 }, /* overlong */
        { "\xED\xA0\x80", 0 },     /* U+D800 */
        { "\xED\xBF\xBF", 0 },     /* U+DFFF */
        { "\xF4\x90\x80\x80", 0 }, /* U+110000 */
        { "\xF5\x80\x80\x80", 0 },
        { "\xFF", 0 },
        { "x\xC3", 1 }, /* cut */
        { "x\xE2\x82", 1 },
        { "x\xF0\x9F\x92", 1 },
        { "x\xE2\x82z", 1 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t bad = 99;
        bool ok = vr_utf8_check(vr_str_of(rows[i].bytes), &bad);
        assert_int_equal(ok, rows[i].bad < 0);
        if (!ok)
            assert_int_equal(bad, rows[i].bad);
        assert_int_equal(vr_utf8_check(vr_str_of(rows[i].bytes), NULL), ok);
    }
    assert_true(vr_utf8_check((vr_str){ "\0", 1 }, NULL));
    assert_true(vr_utf8_check((vr_str){ NULL, 0 }, NULL));
    assert_int_equal(vr_utf8_width(VR_LIT("é█x")), 3);
    assert_int_equal(vr_utf8_width((vr_str){ NULL, 0 }), 0);
}

/* Code points of UnicodeData.txt and what becomes of them. */
static void what_a_terminal_may_get(void **state)
{
    static const struct {
        const char *bytes, *clean;
    } rows[] = {
        { "plain", "plain" },
        { "é█日本😀", "é█日本😀" },
        { "\xC2\xA0", "\xC2\xA0" },                     /* U+00A0 no-break space */
        { "\x1b[31m\n\t\x7f", "?[31m???" },             /* C0 and DEL */
        { "\xC2\x80\xC2\x85\xC2\x9B\xC2\x9F", "????" }, /* C1 */
        { "a\xE2\x80\xAE"
          "b",
          "a?b" },                                                  /* U+202E right-to-left override */
        { "\xE2\x81\xA6\xE2\x81\xA9", "??" },                       /* U+2066, U+2069 isolates */
        { "\xD8\x9C\xE2\x80\x8E\xE2\x80\x8F", "???" },              /* U+061C, U+200E, U+200F marks */
        { "\xE2\x80\xA8\xE2\x80\xA9", "??" },                       /* U+2028, U+2029 separators */
        { "\xE2\x80\x8B\xE2\x80\x8D\xEF\xBB\xBF", "???" },          /* U+200B, U+200D, U+FEFF */
        { "\xC2\xAD\xE2\x81\xA0\xE3\x85\xA4", "???" },              /* U+00AD, U+2060, U+3164 */
        { "\xF3\xA0\x81\x81", "?" },                                /* U+E0041 tag */
        { "\xE2\x80\xA7\xE2\x80\xAF", "\xE2\x80\xA7\xE2\x80\xAF" }, /* neighbours of U+2028 to U+202E */
        { "x\xFFy\xC3", "x?y?" },                                   /* no UTF-8 */
        { "\xED\xA0\x80", "???" },
        { "", "" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        memcpy(text, rows[i].bytes, strlen(rows[i].bytes) + 1);
        vram_clean(text);
        assert_string_equal(text, rows[i].clean);
        assert_int_equal(vr_utf8_width(vr_str_of(rows[i].bytes)), vr_utf8_width(vr_str_of(text)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_compare_by_bytes),
        cmocka_unit_test(slices_are_searched),
        cmocka_unit_test(slices_are_split),
        cmocka_unit_test(integers_print),
        cmocka_unit_test(fixed_is_exact_and_rounds_half_up),
        cmocka_unit_test(fixed_equals_long_division),
        cmocka_unit_test(bytes_print_as_pytorch_does),
        cmocka_unit_test(buffer_grows_to_its_limit),
        cmocka_unit_test(buffer_survives_failures),
        cmocka_unit_test(utf8_is_checked),
        cmocka_unit_test(what_a_terminal_may_get),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
