/* SPDX-License-Identifier: MIT
 * What all renderers share: one output, colour, paragraphs, tables, bars. */
#ifndef VR_REPORT_H
#define VR_REPORT_H

#include "base/base.h"
#include "base/json.h"

/* name, SGR code */
#define VR_INKS(X)                                                                                           \
    X(PLAIN, "0")                                                                                            \
    X(BOLD, "1")                                                                                             \
    X(FAINT, "2")                                                                                            \
    X(GOOD, "1;32")                                                                                          \
    X(CARE, "1;33")                                                                                          \
    X(BAD, "1;31")                                                                                           \
    X(BAR, "36")                                                                                             \
    X(BAR_OVER, "31")

typedef enum vr_ink {
#define X(id, code) VR_INK_##id,
    VR_INKS(X)
#undef X
} vr_ink;

typedef struct vr_report {
    vram_ctx *ctx;
    const vram_style *style;
    vram_write_fn write;
    void *ud;
    vr_arena arena;     /* texts made on the way; emptied at the end */
    vr_buf buf;         /* what was not written yet */
    vram_status status; /* sticky: the first failure */
} vr_report;

void vr_report_start(vr_report *r, vram_ctx *ctx, const vram_style *style, vram_write_fn write, void *ud);
/* Hands what has piled up to the caller once it is worth it; long reports call it now and then. */
void vr_report_flush(vr_report *r);
/* Writes the rest, frees, and tells how it went. */
vram_status vr_report_end(vr_report *r);

/* Pieces as a string of the report's arena; never NULL (a failure is kept in the report and gives ""). */
const char *vr_report_text(vr_report *r, const vr_piece *p, size_t n);
#define vr_say(r, ...)                                                                                       \
    vr_report_text((r), (const vr_piece[]){ __VA_ARGS__ },                                                   \
                   sizeof((const vr_piece[]){ __VA_ARGS__ }) / sizeof(vr_piece))

bool vr_terminal(const vr_report *r); /* bars, wrapping, signs beyond ASCII */
void vr_ink_on(vr_report *r, vr_ink ink);
void vr_ink_off(vr_report *r, vr_ink ink);
void vr_inked(vr_report *r, vr_ink ink, const char *text);

/* Text from a file that anyone may have written: what would steer a terminal becomes "?". Everything below
 * goes through it. */
void vr_put_clean(vr_report *r, vr_str text);
/* Text padded to `width` columns, never cut. */
void vr_left(vr_report *r, const char *text, size_t width);
void vr_right(vr_report *r, const char *text, size_t width);
/* One paragraph: `head` at the left in `ink`, then `text` from column `indent` on, wrapped to the terminal
 * with that indentation, newline. Not a terminal: one line. */
void vr_para(vr_report *r, vr_ink ink, const char *head, size_t indent, const char *text);
/* The same for text that begins at column `at` of a line already begun. */
void vr_wrap(vr_report *r, size_t at, size_t indent, const char *text);

/* "14.19", "0", "<0.01" */
const char *vr_gib(vr_report *r, uint64_t bytes);
/* As downloads are counted: "15.23 GB", "91.4 MB". */
const char *vr_decimal(vr_report *r, uint64_t bytes);
const char *vr_gib_signed(vr_report *r, int64_t bytes); /* of its magnitude */
uint64_t vr_magnitude(int64_t v);
const char *vr_dot(const vr_report *r); /* between facts of one line */
const char *vr_plural(uint64_t n, const char *one, const char *many);
const char *vr_count(vr_report *r, uint64_t n, const char *one,
                     const char *many); /* "1 token", "4,096 tokens" */
/* What lies between two figures that stand beside it: the difference of their printed digits, so that a
 * reader's own sum comes out. by: the exact difference, whose sign decides. */
const char *vr_gib_between(vr_report *r, uint64_t have, uint64_t need, int64_t by);
const char *vr_verdict_json(vram_verdict v);
const char *vr_verdict_screen(vram_verdict v);
vr_ink vr_verdict_ink(vram_verdict v);
/* "NVIDIA GeForce RTX 3060" and 12: "RTX 3060 12 GB" */
const char *vr_card_name(vr_report *r, const char *name, uint64_t marketed_gb);

/* ---- bars ---- */

#define VR_EDGES 16

typedef struct vr_scale {
    size_t cells;             /* columns of the bar, without the edges */
    uint64_t full;            /* bytes that fill them */
    uint64_t edges[VR_EDGES]; /* bytes at which a card ends, ascending; each is a column of its own */
    size_t n_edges;
} vr_scale;

/* A scale that shows `most` bytes and all edges in `room` columns. Edges may come unordered, 0 is no edge. */
vr_scale vr_scale_of(size_t room, uint64_t most, const uint64_t *edges, size_t n_edges);
/* The piece from `begin` to `end` bytes at its place, blank elsewhere, the edges marked; always cells +
 * n_edges columns. Anything that is not nothing shows. */
void vr_bar(vr_report *r, const vr_scale *s, uint64_t begin, uint64_t end);
/* A bar from 0 with a letter for each part: parts[i] bytes drawn with marks[i]. */
void vr_bar_marks(vr_report *r, const vr_scale *s, const uint64_t *parts, const char *marks, size_t n);

/* ---- JSON ---- */

void vr_json_start(vr_json_out *o, vr_report *r, const char *schema);
void vr_json_end(vr_json_out *o, vr_report *r);
void vr_json_warnings(vr_json_out *o, const vram_ctx *ctx);

#endif
