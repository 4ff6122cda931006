/* SPDX-License-Identifier: MIT
 * Bytes of an entry of the cache, see cache_entry.h. A flipped bit of a header would be a wrong answer that
 * looks right, so all of an entry is under a checksum: XXH64, since CRC-32 lets one of 4 billion damaged
 * entries pass, and takes ten times as long for the 20 MB of a large index. */
#include "cache_entry.h"

#include <stdlib.h>
#include <string.h>

static const char magic[8] = "vramhdr\1";

static uint64_t load(const unsigned char *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = n; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static void store(char *p, unsigned n, uint64_t v)
{
    for (unsigned i = 0; i < n; i++)
        p[i] = (char)(unsigned char)(v >> (8 * i));
}

/* ---- XXH64 ---- */

#define PRIME1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME3 UINT64_C(0x165667B19E3779F9)
#define PRIME4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME5 UINT64_C(0x27D4EB2F165667C5)

static uint64_t load64(const unsigned char *p) /* in one piece, so that compilers see one load */
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
           (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static uint64_t lane_round(uint64_t lane, uint64_t in)
{
    return rotate(lane + in * PRIME2, 31) * PRIME1;
}

static uint64_t hash_stripes(const unsigned char *p, size_t stripes, uint64_t seed)
{
    uint64_t a = seed + PRIME1 + PRIME2, b = seed + PRIME2, c = seed, d = seed - PRIME1;
    for (; stripes > 0; stripes--, p += 32) {
        a = lane_round(a, load64(p));
        b = lane_round(b, load64(p + 8));
        c = lane_round(c, load64(p + 16));
        d = lane_round(d, load64(p + 24));
    }
    const uint64_t lanes[] = { a, b, c, d };
    uint64_t h = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    for (size_t i = 0; i < 4; i++)
        h = (h ^ lane_round(0, lanes[i])) * PRIME1 + PRIME4;
    return h;
}

static uint64_t hash_tail(uint64_t h, const unsigned char *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8)
        h = rotate(h ^ lane_round(0, load64(p)), 27) * PRIME1 + PRIME4;
    if (n >= 4) {
        h = rotate(h ^ load(p, 4) * PRIME1, 23) * PRIME2 + PRIME3;
        n -= 4;
        p += 4;
    }
    for (; n > 0; n--, p++)
        h = rotate(h ^ *p * PRIME5, 11) * PRIME1;
    return h;
}

uint64_t io_hash(const void *bytes, size_t n, uint64_t seed)
{
    const unsigned char *p = bytes;
    uint64_t h = n >= 32 ? hash_stripes(p, n / 32, seed) : seed + PRIME5;
    h = hash_tail(h + n, p + (n & ~(size_t)31), n & 31);
    h = (h ^ h >> 33) * PRIME2;
    h = (h ^ h >> 29) * PRIME3;
    return h ^ h >> 32;
}

/* ---- reading ---- */

/* The spans must be what we would have written, and their bytes fill what is left, which is `room`. */
static bool spans_hold(const io_entry *e, size_t room)
{
    uint64_t end = 0;
    for (size_t i = 0; i < e->n_spans; i++) {
        uint64_t offset = load64(e->spans + 16 * i), n = load64(e->spans + 16 * i + 8);
        if (n == 0 || n > room || (i > 0 && offset <= end) || offset > e->total || n > e->total - offset)
            return false;
        end = offset + n;
        room -= (size_t)n;
    }
    return room == 0;
}

bool io_entry_read(io_entry *out, const char *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    if (n < IO_ENTRY_HEAD || n > IO_ENTRY_MOST || memcmp(bytes, magic, 8) != 0 ||
        load64(p + 8) != io_hash(bytes + 16, n - 16, 0))
        return false;
    size_t url_n = (size_t)load(p + 32, 4), validator_n = (size_t)load(p + 36, 4);
    size_t n_spans = (size_t)load(p + 40, 4);
    if (url_n > IO_ENTRY_URL || validator_n > IO_ENTRY_VALIDATOR || n_spans > IO_ENTRY_SPANS ||
        load(p + 44, 4) != 0 || n - IO_ENTRY_HEAD < 16 * n_spans + url_n + validator_n)
        return false;
    const char *url = bytes + IO_ENTRY_HEAD + 16 * n_spans;
    *out = (io_entry){ .url = { url, url_n },
                       .validator = { url + url_n, validator_n },
                       .made = load64(p + 16),
                       .total = load64(p + 24),
                       .n_spans = n_spans,
                       .spans = p + IO_ENTRY_HEAD,
                       .bytes = url + url_n + validator_n };
    return spans_hold(out, (size_t)(bytes + n - out->bytes));
}

bool io_entry_find(const io_entry *e, uint64_t offset, uint64_t least, const char **bytes, size_t *n)
{
    const char *at = e->bytes;
    *bytes = at;
    *n = 0;
    for (size_t i = 0; i < e->n_spans; i++) {
        uint64_t begin = load64(e->spans + 16 * i), span = load64(e->spans + 16 * i + 8);
        if (offset >= begin && offset - begin < span) {
            *bytes = at + (size_t)(offset - begin);
            *n = (size_t)(span - (offset - begin));
            break;
        }
        at += (size_t)span;
    }
    return offset <= e->total && (*n >= least || *n == e->total - offset);
}

/* ---- writing ---- */

/* Bytes of the new entry in the order of their offsets; neighbours that touch become one span. */
typedef struct piece {
    uint64_t offset, n;
    const char *bytes;
} piece;

/* What of the spans of old lies before `begin` (before true) or from `end` on. */
static size_t old_pieces(piece *out, const io_entry *old, uint64_t begin, uint64_t end, bool before)
{
    const char *at = old->bytes;
    size_t k = 0;
    for (size_t i = 0; i < old->n_spans; i++) {
        uint64_t o = load64(old->spans + 16 * i), n = load64(old->spans + 16 * i + 8), stop = o + n;
        if (before && o < begin) {
            out[k++] = (piece){ o, (stop < begin ? stop : begin) - o, at };
        } else if (!before && stop > end) {
            uint64_t from = o > end ? o : end;
            out[k++] = (piece){ from, stop - from, at + (size_t)(from - o) };
        }
        at += (size_t)n;
    }
    return k;
}

/* Writes the table of spans when table is not NULL; returns their number. */
static size_t put_spans(char *table, const piece *p, size_t n)
{
    uint64_t begin = 0, end = 0;
    size_t spans = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || p[i].offset != end) {
            begin = p[i].offset;
            spans++;
        }
        end = p[i].offset + p[i].n;
        if (table != NULL) {
            store(table + 16 * (spans - 1), 8, begin);
            store(table + 16 * (spans - 1) + 8, 8, end - begin);
        }
    }
    return spans;
}

static char *append(char *to, const char *bytes, uint64_t n)
{
    if (n > 0)
        memcpy(to, bytes, (size_t)n);
    return to + n;
}

static char *encode(const io_entry *e, const piece *p, size_t n_pieces, size_t *size)
{
    size_t n_spans = put_spans(NULL, p, n_pieces), n = IO_ENTRY_HEAD + 16 * n_spans;
    n += e->url.n + e->validator.n;
    for (size_t i = 0; i < n_pieces; i++)
        n += (size_t)p[i].n; /* each is in memory, and all but one in an entry */
    char *out = n_spans > IO_ENTRY_SPANS || n > IO_ENTRY_MOST ? NULL : malloc(n);
    if (out == NULL)
        return NULL;
    memcpy(out, magic, 8);
    store(out + 16, 8, e->made);
    store(out + 24, 8, e->total);
    store(out + 32, 4, e->url.n);
    store(out + 36, 4, e->validator.n);
    store(out + 40, 4, n_spans);
    store(out + 44, 4, 0);
    put_spans(out + IO_ENTRY_HEAD, p, n_pieces);
    char *to = append(out + IO_ENTRY_HEAD + 16 * n_spans, e->url.s, e->url.n);
    to = append(to, e->validator.s, e->validator.n);
    for (size_t i = 0; i < n_pieces; i++)
        to = append(to, p[i].bytes, p[i].n);
    store(out + 8, 8, io_hash(out + 16, n - 16, 0));
    *size = n;
    return out;
}

char *io_entry_write(const io_entry *e, const io_entry *old, uint64_t offset, const char *bytes, size_t n,
                     size_t *size)
{
    if (e->url.n > IO_ENTRY_URL || e->validator.n > IO_ENTRY_VALIDATOR || n > IO_ENTRY_MOST ||
        offset > e->total || n > e->total - offset)
        return NULL;
    piece *p = malloc(sizeof(*p) * ((old != NULL ? old->n_spans : 0) + 2));
    if (p == NULL)
        return NULL;
    size_t k = old != NULL ? old_pieces(p, old, offset, offset + n, true) : 0;
    if (n > 0)
        p[k++] = (piece){ offset, n, bytes };
    if (old != NULL)
        k += old_pieces(p + k, old, offset, offset + n, false);
    char *out = encode(e, p, k, size);
    free(p);
    return out;
}
