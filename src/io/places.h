/* SPDX-License-Identifier: MIT
 * The places that vram_io_open knows besides the hub (hub.h) and paths (local.h). */
#ifndef IO_PLACES_H
#define IO_PLACES_H

#include "io/place.h"
#include "io/remote.h"

/* One file of a web server, with what lies beside it and belongs to it. */
vram_status io_url_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place);
vram_status io_modelscope_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place);

#endif
