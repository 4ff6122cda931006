/* SPDX-License-Identifier: MIT
 * The number parsers on any bytes: what several of them accept they read alike, and what is refused is not
 * touched. */
#include "fuzz.h"

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vr_str s = { (const char *)data, size };
    uint64_t plain = 1, count = 2, bytes = 3, value = 4, scale = 5;
    bool is_plain = vr_parse_u64(s, &plain), is_count = vr_parse_count(s, &count);
    bool is_bytes = vr_parse_bytes(s, &bytes), is_decimal = vr_parse_decimal(s, &value, &scale);
    CHECK(is_plain || plain == 1);
    CHECK(is_count || count == 2);
    CHECK(is_bytes || bytes == 3);
    if (is_plain && size <= 64)
        CHECK(is_count && is_bytes && is_decimal && count == plain && bytes == plain && value == plain &&
              scale == 1);
    if (is_decimal)
        CHECK(scale != 0 && scale <= 1000000000 && (scale == 1 || value % 10 != 0));
    if (is_decimal && scale == 1 && size <= 64)
        CHECK(is_count && is_bytes && count == value && bytes == value);
    if (is_decimal && scale != 1)
        CHECK(!is_count && !is_bytes);
    return 0;
}
