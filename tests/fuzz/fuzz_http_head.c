/* SPDX-License-Identifier: MIT
 * The header of an HTTP answer on any bytes, as lines. What must hold: fields are terminated and within their
 * room, a range that is accepted is one, lines after the limit change nothing, and a validator is a strong
 * one. */
#include "fuzz.h"

#include <string.h>

#include "io/http_parts.h"

static void check_range(vr_str value)
{
    io_content_range r = { .first = 7, .last = 3 };
    if (!io_parse_content_range(value, &r)) {
        CHECK(r.first == 7 && r.last == 3); /* untouched */
        return;
    }
    if (r.unsatisfied)
        CHECK(r.total != IO_UNKNOWN);
    else
        CHECK(r.first <= r.last && r.last < r.total);
}

static void check_retry_after(vr_str value)
{
    uint64_t early, late, number;
    bool is = io_parse_retry_after(value, 0, &late);
    CHECK(is == io_parse_retry_after(value, INT64_C(1) << 40, &early));
    if (is)
        CHECK(early <= late);
    if (vr_parse_u64(value, &number))
        CHECK(is && early == number && late == number);
}

#define CHECK_TEXT(field) CHECK(memchr((field), '\0', sizeof(field)) != NULL)

static void check_head(const io_head *h)
{
    const char *validator = io_head_validator(h);
    CHECK_TEXT(h->etag);
    CHECK_TEXT(h->modified);
    CHECK_TEXT(h->linked_etag);
    CHECK_TEXT(h->commit);
    CHECK_TEXT(h->error_code);
    CHECK_TEXT(h->error_text);
    CHECK_TEXT(h->location);
    CHECK(validator == h->modified || (validator == h->etag && *validator == '"'));
    CHECK(!h->range_valid || h->has_range);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static io_head h, before;
    vr_str rest = { (const char *)data, size }, line;
    check_range(rest);
    check_retry_after(rest);
    h = (io_head){ 0 };
    io_head_reset(&h);
    while (vr_str_split(&rest, '\n', &line)) {
        before = h;
        io_head_line(&h, line, 0);
        CHECK(h.bytes == before.bytes + line.n);
        before.bytes = h.bytes;
        before.too_long = h.too_long;
        CHECK(!h.too_long || memcmp(&h, &before, sizeof(h)) == 0);
    }
    check_head(&h);
    return 0;
}
