/* SPDX-License-Identifier: MIT
 * The pure parts of the http client: Content-Range (RFC 9110 14.4), Retry-After (10.2.3), header lines, and
 * which URL leads where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "io/http_parts.h"

static void content_range(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t first, last, total;
    } good[] = {
        { "bytes 0-0/1", 0, 0, 1 },
        { "bytes 5-9/10", 5, 9, 10 },
        { "BYTES 5-9/*", 5, 9, IO_UNKNOWN },
        { "\tbytes  5-9/10 \r\n", 5, 9, 10 },
        { "bytes 0-18446744073709551613/18446744073709551614", 0, UINT64_MAX - 2, UINT64_MAX - 1 },
    };
    static const char *const bad[] = {
        "",
        "bytes",
        "bytes ",
        "bytes 5-9",
        "bytes 5-9/",
        "bytes 5-9/9",
        "bytes 9-5/10",
        "bytes -9/10",
        "bytes 5-/10",
        "bytes 5-9/10,",
        "bytes 5 - 9/10",
        "bytes=5-9/10",
        "items 5-9/10",
        "bytes +5-9/10",
        "bytes 5-9/+10",
        "bytes 5-9/0x10",
        "bytes 5-9/18446744073709551615",
        "bytes 5-9/18446744073709551616",
        "bytes 5-9/-1",
        "bytes 5-9/10/11",
        "bytes */*",
        "bytes */",
        "bytes *",
    };
    io_content_range r;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_true(io_parse_content_range(vr_str_of(good[i].text), &r));
        assert_false(r.unsatisfied);
        assert_true(r.first == good[i].first && r.last == good[i].last && r.total == good[i].total);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (io_parse_content_range(vr_str_of(bad[i]), &r))
            fail_msg("accepted: %s", bad[i]);
    assert_true(io_parse_content_range(vr_str_of("bytes */123"), &r));
    assert_true(r.unsatisfied && r.total == 123);
}

static void retry_after(void **state)
{
    (void)state;
    const int64_t now = 784111777; /* Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110 5.6.7 */
    static const struct {
        const char *text;
        uint64_t seconds;
    } good[] = {
        { "0", 0 },
        { " 120 ", 120 },
        { "Sun, 06 Nov 1994 08:50:07 GMT", 30 },
        { "Sunday, 06-Nov-94 08:50:07 GMT", 30 },
        { "Sun Nov  6 08:50:07 1994", 30 },
        { "Sun, 06 Nov 1994 08:49:00 GMT", 0 }, /* over already */
        { "18446744073709551615", UINT64_MAX },
    };
    static const char *const bad[] = {
        "",
        "-1",
        "1.5",
        "soon",
        "99999999999999999999",
        "Sun, 06 Nov 1994 08:50:07 GMT and a text that is far too long for any date"
    };
    uint64_t s;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        s = 77;
        assert_true(io_parse_retry_after(vr_str_of(good[i].text), now, &s));
        assert_true(s == good[i].seconds);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (io_parse_retry_after(vr_str_of(bad[i]), now, &s))
            fail_msg("accepted: %s", bad[i]);
}

static void put(io_head *h, const char *line)
{
    io_head_line(h, vr_str_of(line), 0);
}

static void header_lines(void **state)
{
    (void)state;
    io_head h = { 0 };
    io_head_reset(&h);
    assert_true(h.length == IO_UNKNOWN && h.retry_after == IO_UNKNOWN && h.linked_size == IO_UNKNOWN);
    put(&h, "Content-Length: 12\r\n");
    put(&h, "ETAG:\"abc\"\r\n");
    put(&h, "last-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    put(&h, "X-Linked-Etag: W/\"123\"\r\n");
    put(&h, "X-Linked-Size: 9000000000\r\n");
    put(&h, "no line at all\r\n");
    put(&h, ": nothing\r\n");
    assert_true(h.length == 12 && h.linked_size == UINT64_C(9000000000));
    assert_string_equal(io_head_validator(&h), "\"abc\"");
    assert_string_equal(h.linked_etag, "123");
    put(&h, "ETag: W/\"abc\"\r\n");
    assert_string_equal(io_head_validator(&h), "Sun, 06 Nov 1994 08:49:37 GMT");
    put(&h, "Content-Encoding: identity\r\n");
    assert_false(h.encoded);
    put(&h, "Content-Encoding: gzip\r\n");
    assert_true(h.encoded);
    put(&h, "Content-Range: bytes 0-1/5\r\n");
    assert_true(h.has_range && h.range_valid);
    put(&h, "Content-Range: bytes 0-2/5\r\n"); /* two of them: neither */
    assert_true(h.has_range && !h.range_valid);
}

static void long_header_lines(void **state)
{
    (void)state;
    static char line[9000];
    static io_head h;
    io_head_reset(&h);
    memset(line, 'a', sizeof(line) - 1);
    memcpy(line, "etag: \"", 7);
    line[sizeof(line) - 2] = '"';
    put(&h, line);
    assert_string_equal(h.etag, ""); /* half of it would be another */
    memcpy(line, "location:", 9);
    put(&h, line);
    assert_string_equal(h.location, "");
    memcpy(line, "x-error-message:", 16);
    put(&h, line);
    assert_int_equal(strlen(h.error_text), sizeof(h.error_text) - 1);
    for (int i = 0; i < 20 && !h.too_long; i++)
        put(&h, line);
    assert_true(h.too_long);
    io_head_reset(&h); /* another answer in the same attempt: what came counts on */
    put(&h, line);
    assert_true(h.too_long);
}

typedef struct from_to {
    const char *from, *to;
    const char *why; /* NULL: followed */
} from_to;

static void check_follow(const from_to *t, bool allow_http)
{
    io_url from, to;
    const char *why = NULL;
    assert_int_equal(io_url_new(&from, NULL, t->from, &why), VRAM_OK);
    assert_int_equal(io_url_new(&to, t->from, t->to, &why), VRAM_OK);
    const char *refused = io_url_refused(&from, &to, allow_http);
    if ((refused == NULL) != (t->why == NULL) || (refused != NULL && strstr(refused, t->why) == NULL))
        fail_msg("%s to %s: %s", t->from, t->to, refused == NULL ? "followed" : refused);
    io_url_free(&from);
    io_url_free(&to);
}

static void redirects(void **state)
{
    (void)state;
    static const from_to cases[] = {
        { "https://huggingface.co/a/b", "https://cdn.example/c", NULL },
        { "https://huggingface.co/a/b", "/c", NULL },
        { "https://huggingface.co/a/b", "//cdn.example/c", NULL },
        { "https://huggingface.co/a/b", "http://huggingface.co/a/b", "not encrypted" },
        { "http://127.0.0.1:8080/a", "http://localhost/b", NULL },
        { "http://127.0.0.1:8080/a", "https://huggingface.co/b", NULL },
        { "http://127.0.0.1:8080/a", "http://huggingface.co/b", "not encrypted" },
        /* A server out there must not have us ask the services of this computer. */
        { "https://huggingface.co/a/b", "http://127.0.0.1/b", "this computer" },
        { "https://huggingface.co/a/b", "https://localhost/b", "this computer" },
        { "https://huggingface.co/a/b", "https://127.9.9.9/b", "this computer" },
        { "https://huggingface.co/a/b", "https://[::1]/b", "this computer" },
        { "https://huggingface.co/a/b", "https://0x7f000001/b", "this computer" },
    };
    static const from_to allowed[] = {
        { "https://huggingface.co/a/b", "http://huggingface.co/a/b", NULL },
        { "https://huggingface.co/a/b", "http://127.0.0.1/b", "this computer" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        check_follow(&cases[i], false);
    for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++)
        check_follow(&allowed[i], true);
}

static void origins(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        { "https://huggingface.co/a", "https://HuggingFace.co:443/b?c", true },
        { "https://huggingface.co/a", "https://user:word@huggingface.co/b", true },
        { "https://huggingface.co/a", "https://huggingface.co:444/a", false },
        { "http://localhost/a", "https://localhost/a", false },
        { "http://localhost:443/a", "https://localhost/a", false },
        { "https://huggingface.co/a", "https://cdn.huggingface.co/a", false },
        { "https://huggingface.co/a", "https://huggingface.co.example/a", false },
        { "https://huggingface.co/a", "https://huggingface.co@example/a", false },
    };
    io_url a, b;
    const char *why = NULL;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(io_url_new(&a, NULL, cases[i].a, &why), VRAM_OK);
        assert_int_equal(io_url_new(&b, NULL, cases[i].b, &why), VRAM_OK);
        if (io_url_same_origin(&a, &b) != cases[i].same)
            fail_msg("%s and %s", cases[i].a, cases[i].b);
        io_url_free(&a);
        io_url_free(&b);
    }
}

static void shown(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "https://me:word@host.example/a/b?signature=x#y", "https://host.example/a/b" },
        { "https://token@host.example:8443/a%20b", "https://host.example:8443/a%20b" },
        { "HTTP://Host/", "http://Host/" },
        { "not a URL with word", "(not a URL)" },
        { "ftp://me:word@host/", "(not a URL)" },
    };
    char out[64];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        io_url_shown(out, sizeof(out), cases[i][0]);
        assert_string_equal(out, cases[i][1]);
    }
    char small[12];
    io_url_shown(small, sizeof(small), "https://host.example/a/b");
    assert_string_equal(small, "https://hos");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_range), cmocka_unit_test(retry_after),
        cmocka_unit_test(header_lines),  cmocka_unit_test(long_header_lines),
        cmocka_unit_test(redirects),     cmocka_unit_test(origins),
        cmocka_unit_test(shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
