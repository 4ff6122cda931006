/* SPDX-License-Identifier: MIT
 * Ollama's models on this disk: $OLLAMA_MODELS, or ~/.ollama/models and where Ollama's service keeps them. */
#ifndef IO_OLLAMA_STORE_H
#define IO_OLLAMA_STORE_H

#include "base/base.h"
#include "io/io.h"

#define IO_STORE_ROOTS 5

typedef struct io_store {
    vram_io *io;
    vram_ctx *ctx;
    const char *roots[IO_STORE_ROOTS];
    size_t n_roots;
    const char *denied; /* a root that may not be read; NULL: none */
} io_store;

/* The parts of a model's name; each a word of Ollama's. */
typedef struct io_ollama_name {
    const char *host, *owner, *model, *tag;
} io_ollama_name;

/* What there is of a blob. */
typedef struct io_blob {
    const char *path; /* of the whole one; NULL: it is not here, or not whole */
    uint64_t have;    /* bytes of what is here of it; 0: nothing */
} io_blob;

vram_status io_store_open(io_store *out, vr_arena *a, vram_io *io, vram_ctx *ctx);
/* The manifest's path and bytes; *path NULL: there is none of that name. Letters of either case, as Ollama
 * finds them. */
vram_status io_store_manifest(io_store *s, vr_arena *a, const io_ollama_name *name, const char **path,
                              vr_str *text);
/* digest: as in io_layer. */
vram_status io_store_blob(const io_store *s, vr_arena *a, const char *digest, uint64_t size, io_blob *out);
/* Bytes [offset, offset + n) of a blob, io_hold's. file: its name in errors. */
vram_status io_store_read(const io_store *s, const char *path, const char *file, uint64_t offset, size_t n,
                          char **bytes);

#endif
