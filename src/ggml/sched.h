/* SPDX-License-Identifier: MIT
 * Private to the room: a graph while it is divided among back ends (ggml_backend_sched). */
#ifndef VR_GGML_SCHED_H
#define VR_GGML_SCHED_H

#include "ggml/parts.h"

#define VR_GG_UNASSIGNED (-1)
#define VR_GG_MOST_SCHED 16 /* back ends that ggml's scheduler takes */

/* Copies of one tensor on one back end, and those on the next. */
typedef struct vr_gg_copy {
    struct vr_gg_copy *next;
    vr_gg_tensor **t; /* vr_gg_sched.copies of them */
    uint8_t backend;
} vr_gg_copy;

/* A stretch of nodes on one back end, and what is fetched before it. */
typedef struct vr_gg_stretch {
    uint32_t start, end;
    vr_gg_tensor **inputs;
    size_t n_inputs, inputs_room;
    uint8_t backend;
} vr_gg_stretch;

/* An operand that a copy stands in for. */
typedef struct vr_gg_swap {
    vr_gg_tensor *node, *was;
    uint32_t operand;
} vr_gg_swap;

/* Not to be overwritten before node `until` is computed. */
typedef struct vr_gg_kept {
    vr_gg_tensor *t;
    uint32_t until;
} vr_gg_kept;

typedef struct vr_gg_sched {
    vr_gg *g;
    const vr_gg_machine *m;
    vr_arena *arena;
    int8_t *at;        /* back end by id, or VR_GG_UNASSIGNED */
    vr_gg_copy **copy; /* by id */
    unsigned copies;   /* of each input: 1 without pipeline parallelism */
    size_t n_ids;      /* tensors of the graph, then those made here */
    vr_gg_stretch *stretches;
    size_t n_stretches, stretches_room;
    vr_gg_swap *swaps;
    size_t n_swaps, swaps_room;
    vr_gg_tensor **inputs; /* of the whole graph, with copies; flags to take back */
    uint8_t *inputs_flags;
    size_t n_inputs, inputs_room, inputs_flags_room;
    vr_gg_kept *kept; /* in the order of `until` */
    size_t n_kept, kept_room;
} vr_gg_sched;

/* The buffer type that t lies in, or will lie in, can be read by the back end. */
bool vr_gg_sched_reads(const vr_gg_sched *s, uint8_t backend, const vr_gg_tensor *t);
/* VRAM_EUNSUPPORTED: no back end was found for t, where ggml gives up. */
vram_status vr_gg_sched_placed(const vr_gg_sched *s, const vr_gg_tensor *t);
/* Passes 1 to 4: a back end for each tensor. */
vram_status vr_gg_sched_assign(vr_gg_sched *s);
/* Pass 5: stretches and copies. */
vram_status vr_gg_sched_cut(vr_gg_sched *s);
/* How often the graph reads each tensor, by id; before it is cut. NULL: out of memory. */
int32_t *vr_gg_sched_uses(const vr_gg_sched *s);
/* What cards keep for kernels that compute several nodes. */
vram_status vr_gg_sched_keep(vr_gg_sched *s, const int32_t *uses);
/* The copies of t on the back end; NULL: there are none. */
vr_gg_tensor **vr_gg_sched_copies(const vr_gg_sched *s, const vr_gg_tensor *t, uint8_t backend);
/* A blank tensor beside the graph. */
vram_status vr_gg_sched_tensor(vr_gg_sched *s, vr_gg_tensor **made);
/* Room for one more in an array of the arena; NULL: out of memory, the old one holds. */
void *vr_gg_sched_more(vr_gg_sched *s, void *old, size_t n, size_t *room, size_t size);

#endif
