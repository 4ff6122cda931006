/* SPDX-License-Identifier: MIT
 * What the files of this folder share: the bytes that were fetched, and sources that answer what a checkpoint
 * asks for. */
#ifndef IO_H
#define IO_H

#include "vram_io.h"

/* The bytes of one round of wants. */
typedef struct io_block {
    struct io_block *next;
    char *bytes;
} io_block;

struct vram_io {
    io_block *blocks;
    uint64_t held;
    vram_io_read_fn read;
    void *read_ud;
    vram_io_options options;
    vram_io_progress_fn progress;
    void *progress_ud;
    struct io_http *http; /* NULL until the first request */
    /* of the running vram_io_open: */
    uint64_t asked_ms;      /* that its requests took so far */
    uint64_t came, wanted;  /* bytes from servers; of all files of which some were wanted */
    struct io_cache *cache; /* NULL until it is first used */
};

/* A variable of the environment, or NULL; one that is set and empty counts as not set. */
const char *io_env(const vram_io *io, const char *name);

/* n bytes came from a server, 0: some time passed. Tells the caller how far it is. */
void io_came(vram_io *io, size_t n);

/* n bytes that live as long as io; NULL: no memory. */
char *io_hold(vram_io *io, size_t n);
/* The same for bytes that malloc gave; false: no memory, and they stay the caller's. */
bool io_adopt(vram_io *io, char *bytes, size_t n);

/* Where the bytes of one checkpoint come from. One kind per file; a source is on its maker's stack. */
typedef struct io_source {
    const struct io_source_kind *kind;
    vram_io *io;
    vram_ctx *ctx;
    vram_checkpoint *ck;
} io_source;

typedef struct io_source_kind {
    /* vram_checkpoint_add_file for each file, then vram_checkpoint_listed. */
    vram_status (*list)(io_source *s);
    /* Answers n range wants, all of them, in any order; a want is answered with at least its least bytes. */
    vram_status (*fetch)(io_source *s, const vram_want *wants, size_t n);
} io_source_kind;

/* Steps s->ck until it is complete. */
vram_status io_read_checkpoint(io_source *s);

/* Makes it the context's error; file and hint may be NULL. text is a printf format. Returns code. */
vram_status io_fail(vram_ctx *ctx, vram_status code, const char *file, const char *hint, const char *text,
                    ...) __attribute__((format(printf, 5, 6)));

#endif
