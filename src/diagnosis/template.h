/* SPDX-License-Identifier: MIT
 *
 * Templates of the tables of texts: which figures of a message are what (data/README.md, Templates).
 */
#ifndef VR_TEMPLATE_H
#define VR_TEMPLATE_H

#include "diagnosis/sizes.h"

typedef struct vr_template vr_template;

/* What a template found in a text, in the order of the text. */
typedef struct vr_found {
    size_t at, n; /* of the figure as printed, in the text */
    uint8_t fact; /* vr_fact_id */
    vr_figure figure;
} vr_found;

#define VR_MAX_FOUND 64

typedef struct vr_found_list {
    vr_found f[VR_MAX_FOUND];
    size_t n;
} vr_found_list;

/* *why, when not NULL, says what is wrong with the template: NULL, nothing. Pieces that are wrong are left
 * out. NULL: out of memory. */
vr_template *vr_template_new(vr_arena *a, const char *wants, const char **why);
/* Adds what is found in `text` (cleaned) to the list, but no figure where one was found already. A piece that
 * is not found from the byte `main` on is looked for before it. */
void vr_template_read(const vr_template *t, vr_str text, size_t main, vr_found_list *out);
/* Whether `what` (lower case) stands in the text: a blank is any white space, letters of either case. */
bool vr_text_holds(vr_str text, vr_str what);
/* Whether it begins, or ends, with it. */
bool vr_text_begins(vr_str text, vr_str what);
bool vr_text_ends(vr_str text, vr_str what);

#endif
