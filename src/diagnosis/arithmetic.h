/* SPDX-License-Identifier: MIT
 *
 * What the figures of one message say by arithmetic alone. Printed figures are rounded, so each is a span in
 * which the true value lies, and a rule holds only when it holds for every value in the spans.
 */
#ifndef VR_ARITHMETIC_H
#define VR_ARITHMETIC_H

#include "diagnosis/facts.h"

/* low <= true value <= high, in bytes; nothing is known when !known. Ends are kept below +-2^62. */
typedef struct vr_span {
    bool known;
    int64_t low, high;
} vr_span;

/* Outside one process's allocator more than this is a second process or allocator: above what contexts,
 * libraries, communicators and a desktop take (bounds: see below). */
#define VR_OUTSIDE_LARGE (5 * VR_GIB / 2)

/* Of a rule: NO and YES whatever the true values within the spans are; MAYBE: it depends on them. */
typedef enum vr_truth { VR_UNTOLD, VR_NO, VR_MAYBE, VR_YES } vr_truth;

/* Bounds: of 68 published messages with all figures and a known cause, each with idle of 8 % or more and
 * enough of it was fragmentation, and none below 2 %; what is outside was below 1.3 GiB in three quarters of
 * those without another process, and below 2.1 GiB in nine of ten. The other shares are judgement.
 *
 * id, what it says. R request, T total, F free, A allocated, U idle, V = A + U reserved, L allowed, Q private
 * pools, P a process's share, all in bytes. */
#define VR_RULES(X)                                                                                          \
    X(LARGER_THAN_CARD, "R > T: one piece larger than the whole card")                                       \
    X(FREE_SUFFICES, "F >= R: what is free would have been enough")                                          \
    X(FREE_ABOVE_TOTAL, "F > T: the two figures are of different memories")                                  \
    X(OWN_LIMIT, "A + R > L: over a limit that the program set itself")                                      \
    X(PACKING_FAILS, "F + U < R: not even perfect packing would have served it")                             \
    X(IDLE_SUFFICES, "F < R <= F + U: it would fit if what is idle lay together")                            \
    X(FREE_MUCH, "F >= 10 % of T")                                                                           \
    X(IDLE_LITTLE, "U < 2 % of T")                                                                           \
    X(IDLE_MUCH, "U >= 8 % of T")                                                                            \
    X(IDLE_MOST, "U >= 25 % of T and U >= A: more is idle than is live")                                     \
    X(IDLE_SOME, "U >= 4 % of T")                                                                            \
    X(IDLE_MANY_LACKS, "U >= 4 (R - F): idle is many times what lacks, so it lies in pieces")                \
    X(IDLE_NEXT_TO_NONE, "U < 1 % of T: hardly anything was ever given back, as while loading")              \
    X(IDLE_NOTHING, "U < 0.25 % of T")                                                                       \
    X(REQUEST_SMALL, "R < 2 % of T")                                                                         \
    X(REQUEST_LARGE, "R >= 5 % of T, or of M: the request itself is a good part of it")                      \
    X(REQUEST_HUGE, "R >= 20 % of T: whatever is idle, one piece of that size is the matter")                \
    X(REQUEST_ABSURD, "R >= 32 T: rather a wrong shape than a large one")                                    \
    X(REQUEST_ROUNDED, "R is 2 or 20 MiB: a step of the allocator's rounding")                               \
    X(OUTSIDE_LARGE, "T - F - V > 2.5 GiB")                                                                  \
    X(OUTSIDE_MUCH, "T - F - V > 2.5 GiB and >= 15 % of T: more than contexts and links between cards take") \
    X(OUTSIDE_SMALL, "T - F - V < 1.3 GiB: this process alone fills the card")                               \
    X(OUTSIDE_DOMINATES, "T - F - V >= 40 % of T and >= V")                                                  \
    X(OUTSIDE_ALL,                                                                                           \
      "T - F - V >= 85 % of T and V < 8 %: not even eight ranks that share a card hold so little")           \
    X(OWN_OUTSIDE_DOMINATES, "P - V >= 40 % of T and >= V: a second allocator in this process")              \
    X(OTHERS_DOMINATE, "processes that are not this one hold more than it, or half of T")                    \
    X(OTHERS_MATTER, "processes that are not this one hold a quarter of T")                                  \
    X(OTHERS_SMALL, "processes that are not this one hold less than 5 % of T")                               \
    X(SIBLINGS, "several like processes, started together")                                                  \
    X(SPILLED, "A > T: the driver moved part of it into the computer's memory")                              \
    X(GRAPH_POOLS, "Q >= R or Q >= 5 % of T")                                                                \
    X(OVER_WATERMARK, "A + O + R > M: over what the process may hold on a shared memory")                    \
    X(OTHER_ALLOCATOR, "O > A: most is held outside the allocator that failed")

typedef enum vr_rule {
#define X(id, text) VR_RULE_##id,
    VR_RULES(X)
#undef X
        VR_RULE_COUNT
} vr_rule;

/* All of one message. */
typedef struct vr_reckoning {
    vr_span request, total, left, allocated, idle, reserved, outside;
    vr_span own_process; /* by name, or recognised by its size */
    vr_span own_outside; /* of that: context, libraries, communicators */
    vr_span others;      /* the rest of outside, when own_process is known */
    vr_span private_pools, allowed, other_allocations, max_allowed;
    vr_span shortfall; /* R - F - U: what lacks for this one request with perfect packing; may be negative */
    unsigned n_processes; /* listed beside `this process` */
    unsigned n_siblings;
    bool own_by_size; /* own_process is none by its name: a container does not know itself in the list */
    uint8_t rule[VR_RULE_COUNT]; /* vr_truth */
} vr_reckoning;

/* A figure as a span; NULL: not known. */
vr_span vr_span_of(const vr_fact *fact);
vr_span vr_span_add(vr_span a, vr_span b);
vr_span vr_span_sub(vr_span a, vr_span b);
/* The middle, 0 when it is negative or not known. */
uint64_t vr_span_middle(vr_span a);

/* Figures of one message only: those of two are never added. */
void vr_reckon(const vr_fact_list *facts, vr_reckoning *out);

#endif
