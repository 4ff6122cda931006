/* SPDX-License-Identifier: MIT
 *
 * Figures as programs print them: a number, mostly with a unit, in bytes.
 */
#ifndef VR_SIZES_H
#define VR_SIZES_H

#include "diagnosis/facts.h"

/* What a hole of a template takes; the words of data/README.md. */
#define VR_HOLES(X)                                                                                          \
    X(SIZE, "size")                                                                                          \
    X(SIZE10, "size10")                                                                                      \
    X(BYTES, "bytes")                                                                                        \
    X(KIB, "kib")                                                                                            \
    X(MIB, "mib")                                                                                            \
    X(GIB, "gib")                                                                                            \
    X(MB, "mb")                                                                                              \
    X(GB, "gb")                                                                                              \
    X(INT, "int")                                                                                            \
    X(NUM, "num")                                                                                            \
    X(WORD, "word")                                                                                          \
    X(LINE, "line")

typedef enum vr_hole {
#define X(id, word) VR_HOLE_##id,
    VR_HOLES(X)
#undef X
        VR_HOLE_COUNT
} vr_hole;

/* A line end that a terminal put into a word or a number: in a block it may stand for a blank or for nothing.
 */
#define VR_WRAP '\v'

typedef struct vr_figure {
    bool known; /* false: printed, but it stands for "not known", or no memory is that large */
    bool negative;
    uint64_t value, slack; /* in `unit` */
} vr_figure;

/* Reads a figure at the start of s. `type` is none of WORD and LINE; `unit` is the fact's, what WORD of a
 * number means depends on it. Returns the bytes taken; 0: there is none, or it lacks the unit that it needs.
 */
size_t vr_figure_read(vr_str s, vr_hole type, vr_unit unit, vr_figure *out);

#endif
