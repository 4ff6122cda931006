/* SPDX-License-Identifier: MIT
 * The holder of fetched bytes, and the loop that answers what a checkpoint asks for. */
#define _DEFAULT_SOURCE /* madvise */
#define _FILE_OFFSET_BITS 64

#include "cache.h"
#include "http.h"
#include "io.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

static long plain_read(void *ud, int fd, void *bytes, size_t n, uint64_t offset)
{
    (void)ud;
    return (long)pread(fd, bytes, n, (off_t)offset);
}

vram_status vram_io_new(vram_io **out)
{
    vram_io *io = calloc(1, sizeof(*io));
    if (io == NULL)
        return VRAM_ENOMEM;
    io->read = plain_read;
    *out = io;
    return VRAM_OK;
}

void vram_io_free(vram_io *io)
{
    if (io == NULL)
        return;
    io_http_free(io->http);
    while (io->blocks != NULL) {
        io_block *b = io->blocks;
        io->blocks = b->next;
        free(b->bytes);
        free(b);
    }
    io_cache_free(io->cache);
    free(io);
}

void vram_io_set_options(vram_io *io, const vram_io_options *options)
{
    io->options = *options;
}

void vram_io_set_progress(vram_io *io, vram_io_progress_fn fn, void *ud)
{
    io->progress = fn;
    io->progress_ud = ud;
}

const char *io_env(const vram_io *io, const char *name)
{
    const char *value = io->options.env != NULL ? io->options.env(io->options.env_ud, name) : getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

void io_came(vram_io *io, size_t n)
{
    io->came += n;
    if (io->progress != NULL)
        io->progress(io->progress_ud, io->came, io->wanted > io->came ? io->wanted - io->came : UINT64_MAX);
}

void vram_io_set_read(vram_io *io, vram_io_read_fn fn, void *ud)
{
    io->read = fn != NULL ? fn : plain_read;
    io->read_ud = ud;
}

uint64_t vram_io_bytes(const vram_io *io)
{
    return io->held;
}

void *vram_io_alloc(void *ud, void *ptr, size_t old_size, size_t new_size)
{
    (void)ud;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

/* Headers and index of a large model are 20 MB. Pages of 2 MiB spare 5,000 page faults, a fifth of all time.
 */
static char *bytes_new(size_t n)
{
    void *p = NULL;
    if (n < 2 * HUGE_PAGE)
        return malloc(n);
    if (posix_memalign(&p, HUGE_PAGE, n) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(p, n, MADV_HUGEPAGE); /* only advice: without it, it is slower */
#endif
    return p;
}

bool io_adopt(vram_io *io, char *bytes, size_t n)
{
    io_block *b = malloc(sizeof(*b));
    if (b == NULL)
        return false;
    *b = (io_block){ io->blocks, bytes };
    io->blocks = b;
    io->held += n;
    return true;
}

char *io_hold(vram_io *io, size_t n)
{
    char *bytes = bytes_new(n);
    if (bytes == NULL || io_adopt(io, bytes, n))
        return bytes;
    free(bytes);
    return NULL;
}

/* ---- errors ---- */

vram_status io_fail(vram_ctx *ctx, vram_status code, const char *file, const char *hint, const char *text,
                    ...)
{
    char sentence[1024];
    va_list args;
    va_start(args, text);
    vsnprintf(sentence, sizeof(sentence), text, args);
    va_end(args);
    return vram_fail(ctx, &(vram_error){ .code = code, .file = file, .text = sentence, .hint = hint });
}

/* ---- the loop ---- */

static vram_status answer(io_source *s)
{
    const vram_want *wants = NULL;
    size_t n = vram_checkpoint_wants(s->ck, &wants);
    /* A listing is only ever wanted alone. */
    return wants[0].kind == VRAM_WANT_LISTING ? s->kind->list(s) : s->kind->fetch(s, wants, n);
}

vram_status io_read_checkpoint(io_source *s)
{
    vram_status status = VRAM_MORE;
    while (status == VRAM_MORE) {
        status = vram_checkpoint_step(s->ck);
        if (status != VRAM_MORE)
            return status;
        vram_status answered = answer(s);
        if (answered != VRAM_OK)
            return answered;
    }
    return status;
}
