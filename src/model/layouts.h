/* SPDX-License-Identifier: MIT
 * Private to the room: how quantised matrices are stored, a row each, and what can be read off their shapes.
 */
#ifndef VR_LAYOUTS_H
#define VR_LAYOUTS_H

#include "model/quantised.h"

#define VR_MOST_SIDES 20
#define VR_LONGEST_SUFFIX 48

/* Bits of a weight that any method has, at most. */
#define VR_MOST_BITS 16

typedef struct vr_pack vr_pack;

typedef struct vr_layout {
    const char *name, *method;
    const char *methods; /* words of quant_method that it may stand under, each between blanks */
    const char *packed;  /* how the name of the packed tensor ends */
    uint64_t dtypes;     /* it may have, a bit each */
    /* Fills in what the tensors stand for; false: they are not of this layout. */
    bool (*measure)(vr_pack *p);
    unsigned bits; /* of a weight; 0: to be found out */
    /* How the tensors that belong to it end in place of `packed`; the first must be there. */
    const char *sides[VR_MOST_SIDES];
    const char *source;
} vr_layout;

/* One quantised matrix. */
struct vr_pack {
    const vr_layout *layout;
    const vr_tensor *packed;
    const vr_tensor *side[VR_MOST_SIDES]; /* as layout->sides; NULL: not there */
    uint64_t config_bits, config_group;   /* that config.json gives it; 0: silent */
    uint64_t bits;                        /* of a weight; 0: not known, or no whole number */
    uint64_t elements;                    /* weights it stands for; 0: not known */
    uint8_t grouping;                     /* vr_grouping */
    uint64_t group_size;
    bool contradicted; /* its scales are not of its shape */
};

const vr_layout *vr_layouts(size_t *n);

#endif
