/* SPDX-License-Identifier: MIT
 * What is known of a file: borrowed pieces of it, in any order, of any length. */
#ifndef VR_VIEW_H
#define VR_VIEW_H

#include "base/base.h"

typedef struct vr_span {
    uint64_t offset;
    const char *p;
    size_t n;
} vr_span;

typedef struct vr_view {
    vr_span *spans; /* by offset, unless unsorted */
    size_t n, room;
    bool unsorted;
} vr_view;

/* Borrows n > 0 bytes that lie at offset in the file. Where pieces overlap they must agree; the first one is
 * used. */
vram_status vr_view_add(vr_view *v, vr_arena *a, uint64_t offset, const char *p, size_t n);
/* Puts the pieces in order; needed after adding and before the functions below. */
vram_status vr_view_settle(vr_view *v, vram_ctx *ctx);
/* Where the bytes known without a gap from begin end; begin itself when its byte is not known. */
uint64_t vr_view_known(const vr_view *v, uint64_t begin);
/* Copies n bytes that are known. */
void vr_view_copy(const vr_view *v, uint64_t begin, char *out, size_t n);
/* n bytes that are known, in one piece: the caller's own where they lie together, otherwise copied into the
 * arena. NULL: no memory. */
const char *vr_view_get(const vr_view *v, vr_arena *a, uint64_t begin, size_t n);

#endif
