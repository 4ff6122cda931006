/* SPDX-License-Identifier: MIT
 * The reader of entries of the cache on any bytes. The first byte's lowest bit: the checksum is made right
 * first, so that what lies behind it is reached. What must hold: what is accepted lies in the bytes, answers
 * consistently, and written again with nothing new it is the same; a range added to it is found, and nothing
 * else is lost. */
#include "fuzz.h"

#include <string.h>

#include "io/cache_entry.h"

static void check_find(const io_entry *e, const char *all, size_t n, uint64_t offset, size_t *known)
{
    const char *bytes;
    CHECK(io_entry_find(e, offset, 0, &bytes, known) == (offset <= e->total));
    CHECK(bytes >= all && *known <= (size_t)(all + n - bytes));
    CHECK(offset > e->total || *known <= e->total - offset);
}

/* Places around the borders of its spans, and some that any file has. */
static uint64_t place(const io_entry *e, unsigned pick)
{
    uint64_t at = 0;
    if (pick % 4 == 3 || e->n_spans == 0)
        return pick % 8 == 3 ? e->total : pick;
    const unsigned char *span = e->spans + 16 * (pick / 4 % e->n_spans);
    for (unsigned i = 8; i-- > 0;)
        at = at << 8 | span[i];
    return at + pick % 4 - 1;
}

static void check_added(const io_entry *e, uint64_t offset, const char *more, size_t n)
{
    size_t size, before, after;
    char *made = io_entry_write(e, e, offset, more, n, &size);
    if (made == NULL) {
        CHECK(offset > e->total || n > e->total - offset || e->n_spans == IO_ENTRY_SPANS);
        return;
    }
    io_entry got;
    const char *bytes;
    CHECK(io_entry_read(&got, made, size));
    CHECK(vr_str_eq(got.url, e->url) && vr_str_eq(got.validator, e->validator) && got.total == e->total);
    CHECK(io_entry_find(&got, offset, n, &bytes, &after) && after >= n && memcmp(bytes, more, n) == 0);
    for (unsigned i = 0; i < 16; i++) {
        uint64_t at = place(e, i);
        (void)io_entry_find(e, at, 0, &bytes, &before);
        check_find(&got, made, size, at, &after);
        CHECK(after >= before);
    }
    free(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t n = size - 1, known, again_n;
    char *bytes = malloc(size);
    io_entry e;
    CHECK(bytes != NULL);
    memcpy(bytes, data + 1, n);
    if (data[0] & 1 && n >= IO_ENTRY_HEAD) {
        uint64_t sum = io_hash(bytes + 16, n - 16, 0);
        for (unsigned i = 0; i < 8; i++)
            bytes[8 + i] = (char)(unsigned char)(sum >> 8 * i);
    }
    if (io_entry_read(&e, bytes, n)) {
        for (unsigned i = 0; i < 16; i++)
            check_find(&e, bytes, n, place(&e, i), &known);
        char *again = io_entry_write(&e, &e, 0, "", 0, &again_n);
        CHECK(again != NULL && again_n == n && memcmp(again, bytes, n) == 0);
        free(again);
        for (unsigned i = 0; i < 8; i++)
            check_added(&e, place(&e, data[0] / 2 + i), (const char *)data, size < 9 ? size : 9);
    }
    free(bytes);
    return 0;
}
