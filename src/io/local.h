/* SPDX-License-Identifier: MIT
 * Checkpoints on the file system, for those that know them under another name. */
#ifndef IO_LOCAL_H
#define IO_LOCAL_H

#include "io/io.h"

typedef struct io_local_as {
    const char *name;   /* what reports call it; NULL: its path */
    bool named;         /* its last part was typed: a configuration is then meant to be read alone */
    const char *chosen; /* for vram_checkpoint_choose, or NULL */
} io_local_as;

/* As vram_io_open_path. */
vram_status io_local_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const char *path,
                          const io_local_as *as);

#endif
