/* SPDX-License-Identifier: MIT
 * Headers that were read over a network, kept on disk so that the second question needs no network: one file
 * for each file of a server at each validator, under $VRAM_CACHE, $XDG_CACHE_HOME/vram or ~/.cache/vram. An
 * entry is believed only when its checksum is right and URL and validator are those asked for; anything else
 * is removed. Files are made whole under another name and renamed, so any number of processes may use it at
 * once. A cache that cannot be read or written is no error: it is then as if it were empty. No credentials,
 * and no query of a URL, are in it. */
#ifndef IO_CACHE_H
#define IO_CACHE_H

#include "io.h"

#define IO_CACHE_MOST (UINT64_C(512) << 20) /* bytes of all entries; the oldest go first */

struct io_cache; /* in vram_io, opened at the first use */
void io_cache_free(struct io_cache *c);

/* url: scheme://host/path without credentials, query and fragment; any other is neither found nor kept.
 * validator: a commit, an ETag, a digest; never "". True: *bytes (io_hold's) has the *n bytes from offset
 * that are known, at least `least` unless the file ends before, of a file of *total bytes. So least 0 asks
 * for the size alone. */
bool io_cache_get(vram_io *io, const char *url, const char *validator, uint64_t offset, uint64_t least,
                  char **bytes, size_t *n, uint64_t *total);
/* Adds bytes to the entry. Keeps what other ranges it has, unless its size was another. */
void io_cache_put(vram_io *io, const char *url, const char *validator, uint64_t total, uint64_t offset,
                  const char *bytes, size_t n);
/* Removes the entry: what is in it does not belong to what the server has now. */
void io_cache_forget(vram_io *io, const char *url, const char *validator);
/* The validator of the entry of url that was written last, for --offline and for If-None-Match; false: none.
 * Looks through the directory. */
bool io_cache_newest(vram_io *io, const char *url, char *validator, size_t room);

#endif
