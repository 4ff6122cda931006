/* SPDX-License-Identifier: MIT
 *
 * All anchors of the tables searched at once, in time that does not depend on the text: letters of either
 * case, a blank for any run of white space.
 */
#ifndef VR_ANCHORS_H
#define VR_ANCHORS_H

#include "diagnosis/texts.h"

/* One alternative of a row, or a text of the reader's own. */
typedef struct vr_anchor {
    vr_str text;
    const vr_text_row *row; /* NULL: the reader's own */
    uint32_t number;        /* of the row, or of the reader's text */
    uint32_t alternative;   /* 0: the row's first */
    bool begins, ends;      /* "^", "$": where its line begins, where it ends */
} vr_anchor;

typedef struct vr_anchors vr_anchors;

/* A place where an anchor's first bytes end; of the text searched last. */
typedef struct vr_candidate {
    uint32_t end; /* offset behind them */
    uint32_t state;
} vr_candidate;

/* own: texts of the reader itself (lower case), n of them. NULL: out of memory. */
vr_anchors *vr_anchors_new(vr_arena *a, const char *const *own, size_t n);

#define VR_STRIP 16384u /* bytes that are searched at once, at most */

/* Forgets what came before. */
void vr_anchors_restart(vr_anchors *s);
/* Searches text[from, to), at most VR_STRIP bytes that follow those of the call before, which lie before them
 * unless there was none. Returns the candidates in the order of their ends; they hold until the next call. */
size_t vr_anchors_search(vr_anchors *s, vr_str text, size_t from, size_t to, const vr_candidate **out);
/* The anchors whose first bytes end at the candidate: calls again with the next *i, from 0 on, and gives one
 * that is there in full, or NULL behind the last. */
const vr_anchor *vr_anchors_check(const vr_anchors *s, vr_str text, const vr_candidate *c, size_t *i,
                                  size_t *start, size_t *end);

#endif
