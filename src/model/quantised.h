/* SPDX-License-Identifier: MIT
 * What a quantised checkpoint's tensors stand for: the matrices that are packed, their bits and groups, and
 * which tensors are scales, zero points or indexes and no parameters. */
#ifndef VR_QUANTISED_H
#define VR_QUANTISED_H

#include "base/base.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"

typedef enum vr_role {
    VR_ROLE_PLAIN,  /* parameters as they are */
    VR_ROLE_PACKED, /* a quantised matrix */
    VR_ROLE_SIDE    /* scales, zero points, indexes, codebooks: part of a quantised matrix */
} vr_role;

/* What shares one scale. */
typedef enum vr_grouping {
    VR_GROUPING_UNKNOWN, /* or different ones */
    VR_GROUPING_TENSOR,
    VR_GROUPING_ROW,
    VR_GROUPING_GROUP, /* group_size elements of a row */
    VR_GROUPING_BLOCK  /* group_size x group_size elements */
} vr_grouping;

typedef struct vr_quantised {
    const char *method; /* "gptq", as quant_method in config.json; NULL: nothing says so */
    const char *title;  /* "GPTQ", "ModelOpt NVFP4": as its makers write it; NULL with method */
    const char
        *layout; /* "gptq", "awq-gemv", "nvfp4": of most of the packed parameters; NULL: nothing is packed */
    uint64_t bits_low, bits_high; /* of a packed weight; 0: not a whole number, or not known */
    uint8_t grouping;             /* vr_grouping */
    uint64_t group_size;          /* 0: not of that kind */
    uint64_t matrices;            /* with two dimensions or more, packed or not */
    uint64_t quantised_matrices;
    uint64_t packed_bytes, scale_bytes; /* of the packed tensors, and of all that belongs to them */
    bool uncountable;                   /* what some packed tensors stand for is not known */
    uint8_t *role;                      /* vr_role of each of the checkpoint's tensors */
    uint64_t *parameters;               /* that it stands for; 0 for scales and what is not known */
    uint8_t *layout_of;                 /* private to the room: row of the layouts, when it is packed */
    uint32_t *packed_in; /* of each declared tensor: the one that it is packed in, plus 1; 0: it is not. NULL:
                            nothing is quantised */
    bool unlike;         /* some packed matrix does not stand for what the class declares */
} vr_quantised;

#endif
