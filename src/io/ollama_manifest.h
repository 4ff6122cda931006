/* SPDX-License-Identifier: MIT
 * What a manifest of Ollama says: which blobs make up a model. Pure: no file and no server is asked here. */
#ifndef IO_OLLAMA_MANIFEST_H
#define IO_OLLAMA_MANIFEST_H

#include "base/base.h"

#define IO_MANIFEST_MOST (UINT64_C(16) << 20) /* bytes */
#define IO_LAYERS_MOST 65536 /* of a manifest; one layer for each tensor, experts packed, is hundreds */

typedef enum io_layer_kind {
    IO_LAYER_MODEL,     /* GGUF */
    IO_LAYER_PROJECTOR, /* GGUF: how images become tokens */
    IO_LAYER_TENSOR,    /* safetensors with one tensor, or those of one group */
    IO_LAYER_CONFIG,    /* JSON of the model's authors: "config.json" */
    IO_LAYER_ADAPTER,
    IO_LAYER_PARAMS, /* JSON: "num_ctx" and the like */
    IO_LAYER_OTHER   /* template, licence, messages: of no interest here */
} io_layer_kind;

typedef struct io_layer {
    io_layer_kind kind;
    char digest[72];  /* "sha256:" and 64 digits in lower case */
    uint64_t size;    /* of the blob */
    const char *file; /* what a checkpoint calls it; NULL: it is none of its files */
} io_layer;

typedef struct io_manifest {
    io_layer *layers; /* those of interest */
    size_t n;
} io_manifest;

/* name: what errors call it. model: what its files are named after. The arena has the layers. */
vram_status io_manifest_read(io_manifest *out, vr_arena *a, const char *name, const char *model, vr_str text);

#endif
