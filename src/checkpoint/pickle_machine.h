/* SPDX-License-Identifier: MIT
 * Inside of the pickle machine: its values and its instructions; private to the files pickle*.c. */
#ifndef VR_PICKLE_MACHINE_H
#define VR_PICKLE_MACHINE_H

#include "checkpoint/pickle.h"

#define BAD(p, code, ...) vr_fail_at((p)->ctx, (code), (p)->file, vr_pickle_place((p), (p)->at), __VA_ARGS__)

/* ---- pickle_values.c: the stack and what lies on it; everything has a ceiling ---- */

extern const vr_pickled vr_pickle_mark; /* known by its address */

vram_status vr_pickle_grow(vr_pickle *p, vr_pickled_list *l, size_t least);
vram_status vr_pickle_add(vr_pickle *p, vr_pickled_list *l, vr_pickled *v);
/* n more values or items of containers. */
vram_status vr_pickle_count(vr_pickle *p, size_t n);
vram_status vr_pickle_new(vr_pickle *p, vr_pickled_kind kind, vr_pickled **out);
/* All items of a new value. */
vram_status vr_pickle_set_items(vr_pickle *p, vr_pickled *v, vr_pickled *const *items, size_t n);
vram_status vr_pickle_add_items(vr_pickle *p, vr_pickled *v, vr_pickled *const *items, size_t n);

vram_status vr_pickle_push(vr_pickle *p, vr_pickled *v);
vram_status vr_pickle_push_new(vr_pickle *p, vr_pickled_kind kind, vr_pickled **out);
vram_status vr_pickle_pop(vr_pickle *p, vr_pickled **out);
vram_status vr_pickle_top(vr_pickle *p, vr_pickled **out);
/* What lies above the last mark, which goes too; valid until the next push. */
vram_status vr_pickle_pop_mark(vr_pickle *p, vr_pickled ***items, size_t *n);

/* ---- pickle_ops.c: the instructions ---- */

/* What follows the instruction's byte. */
typedef struct vr_pickle_arg {
    uint64_t u;
    vr_str s, s2;
} vr_pickle_arg;

typedef enum vr_pickle_shape {
    VR_PICKLE_NOTHING,
    VR_PICKLE_NUMBER,  /* little-endian, of size bytes */
    VR_PICKLE_COUNTED, /* text behind its length of size bytes */
    VR_PICKLE_LINE,
    VR_PICKLE_LINES, /* two */
    VR_PICKLE_FIXED, /* nothing: the number is size */
} vr_pickle_shape;

typedef struct vr_pickle_op {
    vram_status (*run)(vr_pickle *p, const vr_pickle_arg *a); /* NULL: there is no such instruction */
    uint8_t shape, size;
} vr_pickle_op;

extern const vr_pickle_op vr_pickle_ops[256];

#endif
