/* SPDX-License-Identifier: MIT
 * A GGUF file while its header is being read; private to this folder.
 *
 * The header is a list of items: the counts, a key with its value, an element of an array that is passed
 * over, a tensor. Each is taken whole or not at all, so that reading goes on at `at` when more bytes have
 * come. */
#ifndef VR_GGUF_H
#define VR_GGUF_H

#include "checkpoint/loading.h"
#include "checkpoint/metadata.h"

#define VR_GGUF_ARRAYS 8 /* in each other; llama.cpp reads none in another */

typedef struct vr_gguf_array {
    uint8_t type;  /* of its elements, vr_meta_type */
    uint64_t left; /* elements to pass over */
} vr_gguf_array;

typedef struct vr_gguf_tensor {
    vr_tensor t;
    uint64_t at; /* where the header describes it */
} vr_gguf_tensor;

typedef enum vr_gguf_stage { VR_GGUF_START, VR_GGUF_KEYS, VR_GGUF_TENSORS, VR_GGUF_DONE } vr_gguf_stage;

/* vr_input.state */
typedef struct vr_gguf {
    vr_gguf_stage stage;
    uint32_t version;
    bool big_endian;
    unsigned word;              /* bytes of a count: 4 in version 1, then 8 */
    uint64_t n_keys, n_tensors; /* as the file says */
    uint64_t keys_read;
    uint64_t at;      /* all before is understood */
    uint64_t known;   /* where the bytes that are there from `at` on end */
    uint64_t counted; /* of these in vr_loading.headers_bytes */
    uint64_t alignment;
    uint64_t data_begin; /* once DONE */
    vr_gguf_array arrays[VR_GGUF_ARRAYS];
    unsigned depth;                   /* of the arrays being passed over */
    uint64_t n_strings, string_bytes; /* of the last array, with their lengths */
    vr_metadata metadata;
    vr_gguf_tensor *tensors;
    size_t n, room; /* of tensors read */
} vr_gguf;

/* One step's work on a file. */
typedef struct vr_gguf_scan {
    vram_checkpoint *ck;
    vr_input *in;
    vr_gguf *g;
    bool waits;     /* see vr_fault_waits */
    uint64_t least; /* the item at `at` needs the bytes up to here; 0: nothing is needed */
    vr_span span;   /* a piece of the file that was just used */
} vr_gguf_scan;

#define VR_GGUF_BAD(s, code, at, ...)                                                                        \
    ((s)->waits ? VRAM_MORE : vr_fail_at((s)->ck->ctx, (code), (s)->in->name, (at), __VA_ARGS__))

/* VRAM_OK when the bytes up to end are there, VRAM_MORE when not yet, a fault when they never will be. */
vram_status vr_gguf_need(vr_gguf_scan *s, uint64_t end);
/* A number of at most 8 bytes that are there. */
uint64_t vr_gguf_number(vr_gguf_scan *s, uint64_t at, unsigned n);
/* Bytes that are there, in one piece, borrowed or copied; out->s NULL: no memory. */
vr_str vr_gguf_bytes(vr_gguf_scan *s, uint64_t at, uint64_t n);
/* The item that ends there is done. */
vram_status vr_gguf_advance(vr_gguf_scan *s, uint64_t to);

/* ---- gguf_tensors.c ---- */

vram_status vr_gguf_tensor_next(vr_gguf_scan *s);
vram_status vr_gguf_bound(vram_checkpoint *ck, vr_input *in, size_t *n);
vram_status vr_gguf_read(vram_checkpoint *ck, const vr_input *in, uint32_t file);

/* ---- gguf_types.c ---- */

/* VR_DTYPE_NONE when the type is not read; *why is then a sentence's end or NULL when it is not known. */
vr_dtype vr_gguf_dtype(uint32_t id, const char **why);

#endif
