/* SPDX-License-Identifier: MIT
 * Models of Ollama: in its store on this disk, otherwise in its registry, or another one that speaks the same
 * (hf.co does). */
#ifndef IO_OLLAMA_H
#define IO_OLLAMA_H

#include "io/io.h"
#include "io/place.h"

/* place->repo: "library/qwen2.5", "user/name", or with a registry's host in front; place->quant: the tag, ""
 * is latest; place->endpoint: of a registry, "" is Ollama's or that of the host in repo. What is whole on
 * this disk is read there and the rest from the registry. Warns of downloads that are not finished, and says
 * what context the model's own settings ask for. */
vram_status io_ollama_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place);

#endif
