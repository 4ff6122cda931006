/* SPDX-License-Identifier: MIT
 *
 * Sources of bytes for libvram on an ordinary computer: what the pure library asks for is fetched here.
 *
 * A vram_io owns all bytes it fetched; objects of a context borrow them. So: vram_close first, vram_io_free
 * after it. One vram_io belongs to one thread at a time and may serve several checkpoints.
 * The environment counts as with other programs: https_proxy, no_proxy; SSL_CERT_FILE, SSL_CERT_DIR,
 * CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE. VRAM_HTTP_TIMEOUT=SECONDS limits each request and all of one model;
 * without it 60 and 300.
 */
#ifndef VRAM_IO_H
#define VRAM_IO_H

#include "vram.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_io vram_io;

/* Reads like pread(2): the count, 0 at the end, or -1 and errno. */
typedef long (*vram_io_read_fn)(void *ud, int fd, void *bytes, size_t n, uint64_t offset);

VRAM_API vram_status vram_io_new(vram_io **out);
VRAM_API void vram_io_free(vram_io *io); /* NULL is fine */
/* Reads through fn instead of pread, so that tests can make any read fail or end early; NULL: pread again. */
VRAM_API void vram_io_set_read(vram_io *io, vram_io_read_fn fn, void *ud);
/* Bytes of files held at the moment. */
VRAM_API uint64_t vram_io_bytes(const vram_io *io);

/* The C library's allocator, for vram_open. */
VRAM_API void *vram_io_alloc(void *ud, void *ptr, size_t old_size, size_t new_size);

typedef struct vram_io_options {
    const char
        *revision;    /* branch, tag or commit of a repository; NULL: what the name says, else the default */
    const char *file; /* vram_checkpoint_choose; NULL: none */
    size_t by_size;   /* vram_checkpoint_choose_size; 0: none */
    bool offline;     /* only what lies on this disk, with the cache of headers */
    bool refresh;     /* do not believe the cache of headers */
    bool allow_http;  /* plain http to other hosts than this one */
    const char *(*env)(void *ud, const char *name); /* NULL: getenv */
    void *env_ud;
} vram_io_options;

/* The texts are borrowed until vram_io_free. */
VRAM_API void vram_io_set_options(vram_io *io, const vram_io_options *options);

/* read: bytes that came over the network so far; not_downloaded: bytes of the model that need not come,
 * UINT64_MAX: not known yet. */
typedef void (*vram_io_progress_fn)(void *ud, uint64_t read, uint64_t not_downloaded);
VRAM_API void vram_io_set_progress(vram_io *io, vram_io_progress_fn fn, void *ud);

/* Reads the checkpoint of that name, wherever it lies; an existing path wins. Paths as vram_io_open_path;
 * "org/name[@revision]" and "org/name:QUANT" on the Hugging Face hub (HF_ENDPOINT) or in its local cache, and
 * any of its URLs; "modelscope:org/name"; "ollama:name[:tag]" in the local store or the registry; any http(s)
 * URL of a file; a name of the built-in catalogue. VRAM_ENOTFOUND: there is no such thing; VRAM_EIO: not
 * reachable, or not allowed. */
VRAM_API vram_status vram_io_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const char *name);

/* Reads the checkpoint at path until it is complete: a directory, with two levels of sub-folders; one file of
 * weights, with the config.json beside it and, when it is a shard, the other shards; a config.json alone; or
 * an index, which means its directory. Only headers are read. VRAM_ENOTFOUND: nothing is there; VRAM_EIO: not
 * readable; otherwise as vram_checkpoint_step. */
VRAM_API vram_status vram_io_open_path(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const char *path);

/* The bytes of a whole regular file, borrowed from io. VRAM_ENOTFOUND, VRAM_EIO as above; VRAM_EUNSUPPORTED:
 * a pipe, a device, a directory (none of them is read or waited for); VRAM_ELIMIT: over `most` bytes. */
VRAM_API vram_status vram_io_read_file(const void **out, size_t *n, vram_io *io, vram_ctx *ctx,
                                       const char *path, uint64_t most);

#ifdef __cplusplus
}
#endif
#endif
