/* SPDX-License-Identifier: MIT
 *
 * Sources of bytes for libvram on an ordinary computer: what the pure library asks for is fetched here.
 *
 * A vram_io owns all bytes it fetched; objects of a context borrow them. So: vram_close first, vram_io_free
 * after it. One vram_io belongs to one thread at a time and may serve several checkpoints.
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

/* Reads the checkpoint at path until it is complete: a directory; one *.safetensors file, with the
 * config.json beside it; a config.json alone; or an index, which means its directory. Only headers are read.
 * VRAM_ENOTFOUND: nothing is there; VRAM_EIO: not readable; otherwise as vram_checkpoint_step. */
VRAM_API vram_status vram_io_open_path(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const char *path);

/* The bytes of a whole regular file, borrowed from io. VRAM_ENOTFOUND, VRAM_EIO as above; VRAM_EUNSUPPORTED:
 * a pipe, a device, a directory (none of them is read or waited for); VRAM_ELIMIT: over `most` bytes. */
VRAM_API vram_status vram_io_read_file(const void **out, size_t *n, vram_io *io, vram_ctx *ctx,
                                       const char *path, uint64_t most);

#ifdef __cplusplus
}
#endif
#endif
