/* SPDX-License-Identifier: MIT
 * Which files of a repository a name means: all, one file with what belongs to it, a folder. Which of several
 * quantisations is meant says the core, by vram_checkpoint_choose. */
#ifndef IO_CHOICE_H
#define IO_CHOICE_H

#include "io/io.h"

typedef struct io_choice {
    const char *file; /* a file or a folder; "": none */
    bool one;         /* file is a file */
    size_t folder;    /* bytes at the begin of file that are the folder */
} io_choice;

/* Holds it against the names of all files. VRAM_ENOTFOUND: there is no such file. */
vram_status io_choice_make(io_choice *c, vram_ctx *ctx, const char *place, const char *const *names,
                           size_t n);
/* What the file is called in the checkpoint, NULL: it is not meant. */
const char *io_choice_name(const io_choice *c, const char *name);

/* A file beside a configuration that says how the weights are quantised. */
bool io_choice_quantises(const char *name);
/* A configuration, or somebody takes it for one: named by itself, it is read without weights. */
bool io_choice_configures(const char *name);

#endif
