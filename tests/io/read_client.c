/* SPDX-License-Identifier: MIT
 * Opens a path and prints how many bytes of its files were read, in how many calls. Run by test_same.py:
 * read_client PATH */
#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "vram_io.h"

typedef struct count {
    uint64_t bytes, calls;
} count;

static long counted(void *ud, int fd, void *bytes, size_t n, uint64_t offset)
{
    count *c = ud;
    ssize_t got = pread(fd, bytes, n, (off_t)offset);
    c->bytes += got > 0 ? (uint64_t)got : 0;
    c->calls++;
    return (long)got;
}

int main(int argc, char **argv)
{
    count c = { 0 };
    vram_io *io = NULL;
    vram_ctx *ctx = NULL;
    vram_checkpoint *ck = NULL;
    if (argc != 2 || vram_io_new(&io) != VRAM_OK)
        return 2;
    vram_io_set_read(io, counted, &c);
    vram_status s = vram_open(&ctx, vram_io_alloc, NULL);
    if (s == VRAM_OK)
        s = vram_io_open_path(&ck, io, ctx, argv[1]);
    if (s == VRAM_OK)
        printf("%" PRIu64 " %" PRIu64 "\n", c.bytes, c.calls);
    else
        fprintf(stderr, "%s\n", ctx != NULL ? vram_last_error(ctx)->text : "out of memory");
    if (ctx != NULL)
        vram_close(ctx);
    vram_io_free(io);
    return s == VRAM_OK ? 0 : 1;
}
