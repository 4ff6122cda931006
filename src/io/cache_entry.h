/* SPDX-License-Identifier: MIT
 * One entry of the cache as bytes: what is known of one file of a server at one validator. Pure: no file is
 * touched here.
 *
 * All numbers little-endian:
 *   0  8  "vramhdr" and the version
 *   8  8  XXH64 of all that follows
 *  16  8  nanoseconds since 1970 when it was written, 8 bytes of the whole file's size
 *  32  4  bytes of the URL, 4 bytes of the validator's length, 4 number of spans, 4 zero
 *  48     spans: offset, length, 8 bytes each; ascending, with gaps between them
 *         then URL, validator, and the bytes of all spans */
#ifndef IO_CACHE_ENTRY_H
#define IO_CACHE_ENTRY_H

#include "base/base.h"

#define IO_ENTRY_MOST ((size_t)64 << 20) /* bytes of one entry; the largest headers known have 20 MB */
#define IO_ENTRY_HEAD 48                 /* bytes before the spans */
#define IO_ENTRY_SPANS 4096
#define IO_ENTRY_URL 4096
#define IO_ENTRY_VALIDATOR 256

typedef struct io_entry {
    vr_str url, validator;
    uint64_t made, total;
    size_t n_spans;
    const unsigned char *spans; /* 16 bytes each */
    const char *bytes;          /* of the first span; those of the others follow */
} io_entry;

/* XXH64 as in xxHash, doc/xxhash_spec.md, version 0.2.0. */
uint64_t io_hash(const void *bytes, size_t n, uint64_t seed);

/* False unless it is whole, of this version, and has its checksum. Borrows bytes. */
bool io_entry_read(io_entry *out, const char *bytes, size_t n);
/* *bytes, *n: all that is known from offset on; false when that is under `least` and does not reach the end
 * of the file. */
bool io_entry_find(const io_entry *e, uint64_t offset, uint64_t least, const char **bytes, size_t *n);
/* A new entry with e's url, validator, total, made, the spans of old (NULL: none), and n bytes at offset,
 * which lie in the file. Freed by the caller; NULL: over a limit, or no memory. */
char *io_entry_write(const io_entry *e, const io_entry *old, uint64_t offset, const char *bytes, size_t n,
                     size_t *size);

#endif
