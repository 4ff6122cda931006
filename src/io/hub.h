/* SPDX-License-Identifier: MIT
 * Models of the Hugging Face hub, on its servers and in its cache on this disk. */
#ifndef IO_HUB_H
#define IO_HUB_H

#include "io/place.h"
#include "io/remote.h"

typedef struct io_hub {
    io_remote remote; /* first: its functions get this */
    const io_place *place;
    char endpoint[256]; /* no slash at its end */
    char revision[256]; /* asked for */
    char repo[256];     /* as the hub writes it: a renamed one has another name than was asked for */
    char commit[65];    /* hexadecimal, or "": not known */
    const char *token;  /* NULL: none, or it is not meant for this endpoint */
    const char *token_from;
    char api[IO_SHOWN_URL]; /* what was asked about the model */
    bool typed_as_name;     /* org/name, which could have been meant as a path */
} io_hub;

/* name: what was typed, for errors. */
vram_status io_hub_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place,
                        const char *name);

/* ---- hub_token.c ---- */

/* HF_TOKEN, HUGGING_FACE_HUB_TOKEN, or the file that `hf auth login` writes; h->token and h->token_from. */
vram_status io_hub_token(io_hub *h);
/* "$HF_HOME/`tail`" with HF_HOME's default; false: there is no home. */
bool io_hub_home(const vram_io *io, const char *tail, char *out, size_t room);

/* "~/x" as Python's expanduser; false: there is no home, or no room. */
bool io_hub_expand(const vram_io *io, const char *path, char *out, size_t room);

/* A variable that says yes as huggingface_hub reads it: 1, on, yes, true. */
bool io_hub_env(const vram_io *io, const char *name);
/* The hub is not asked: the option, HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE. */
bool io_hub_offline(const vram_io *io);

/* ---- hub_error.c ---- */

/* What the hub's answer means for people; a io_remote.fail. */
vram_status io_hub_fail(io_remote *r, const io_request *answer);

/* ---- hfcache.c ---- */

/* Reads the model from the hub's cache on this disk. *out NULL with VRAM_OK: it is not there, or not complete
 * and a server may be asked. */
vram_status io_hfcache_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place,
                            const char *revision, const char *called);

#endif
