/* SPDX-License-Identifier: MIT
 * Private to the room. */
#ifndef VR_GGML_PARTS_H
#define VR_GGML_PARTS_H

#include "ggml/ggml.h"

/* ---- what operations are made of ---- */

/* The first broken rule is kept. Returns `holds`. */
bool vr_gg_rule(vr_gg *g, bool holds, const char *rule);
/* t, or the spare tensor and a broken rule for NULL. */
vr_gg_tensor *vr_gg_given(vr_gg *g, vr_gg_tensor *t);
/* A contiguous tensor of its own. */
vr_gg_tensor *vr_gg_make(vr_gg *g, vr_dtype type, const uint64_t ne[VR_GG_DIMS]);
/* A contiguous view of `src` or what it is a view of. */
vr_gg_tensor *vr_gg_make_view(vr_gg *g, vr_gg_tensor *src, const uint64_t ne[VR_GG_DIMS], uint64_t offset);
/* ggml_view_tensor: same shape, same strides. */
vr_gg_tensor *vr_gg_make_same(vr_gg *g, vr_gg_tensor *src);
/* Fills in what made it, and returns it; NULL sources stay NULL. */
vr_gg_tensor *vr_gg_by(vr_gg_tensor *t, vr_gg_op op, vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_tensor *c);

bool vr_gg_divides(uint64_t a, uint64_t b); /* b is a multiple of a */
bool vr_gg_can_repeat(const vr_gg_tensor *a,
                      const vr_gg_tensor *like); /* a over and over gives like's shape */
bool vr_gg_is_shape(const vr_gg_tensor *t, uint64_t ne0, uint64_t ne1, uint64_t ne2);
/* Strides below axis n are as if it lay without gaps, but the one of axis m may be anything. */
bool vr_gg_contiguous_but(const vr_gg_tensor *t, int m, int n);
bool vr_gg_contiguous_rows(const vr_gg_tensor *t);
bool vr_gg_same_layout(const vr_gg_tensor *a, const vr_gg_tensor *b);
bool vr_gg_is_view_op(const vr_gg_tensor *t); /* RESHAPE, VIEW, PERMUTE, TRANSPOSE */
/* Where it was put before the graph; a view lies where its source does. */
uint8_t vr_gg_lies_in(const vr_gg_tensor *t);

/* ---- the split graph, as the allocator sees it ---- */

typedef struct vr_gg_line {
    vr_gg_tensor *t;
    uint8_t backend;
} vr_gg_line;

typedef struct vr_gg_flow {
    vr_gg_line *nodes, *leafs;
    size_t n_nodes, n_leafs, nodes_room, leafs_room;
    size_t n_ids; /* all ids are below */
    size_t n_splits;
} vr_gg_flow;

/* The graph allocator: bytes of each back end's compute buffer. */
vram_status vr_gg_play(uint64_t bytes[VR_GG_MAX_BACKENDS], const vr_gg_flow *flow, const vr_gg_machine *m,
                       vr_arena *a);

/* Bytes of a tensor of the graph: vr_gg_alloc_size, and what attention on a card has behind its result. */
uint64_t vr_gg_compute_size(const vr_gg_machine *m, uint8_t buft, const vr_gg_tensor *t);

/* ---- CUDA ---- */

typedef enum vr_gg_kernel {
    VR_GG_KERNEL_NONE,
    VR_GG_KERNEL_VEC,
    VR_GG_KERNEL_TILE,
    VR_GG_KERNEL_MMA
} vr_gg_kernel;
/* Which attention kernel runs a FLASH_ATTN_EXT. */
vr_gg_kernel vr_gg_attention_kernel(const vr_gg_machine *m, const vr_gg_tensor *t);
bool vr_gg_cuda_runs(const vr_gg_machine *m, uint8_t backend, const vr_gg_tensor *t);

#endif
