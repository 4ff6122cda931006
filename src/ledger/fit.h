/* SPDX-License-Identifier: MIT
 * Ledger, verdict and levers of one model, workload and device. */
#ifndef VR_FIT_H
#define VR_FIT_H

#include "device/device.h"
#include "engine/engine.h"
#include "rehearsal/rehearsal.h"

typedef struct vr_figure {
    bool counted;
    uint64_t bytes, low, high;
    uint8_t basis;       /* vr_basis */
    bool verified;       /* meaningful for rehearsed figures */
    const char *formula; /* or why it is not counted */
} vr_figure;

typedef struct vr_ledger {
    vr_figure category[VR_CATEGORY_COUNT];
    vr_figure item[VR_ITEM_COUNT];                  /* counted false: the item does not occur */
    uint64_t required, required_low, required_high; /* driver figure: sum of what is counted */
    bool partial;      /* something is not counted: `required` is a counted total */
    int least_certain; /* vr_category, or -1 */
} vr_ledger;

typedef struct vr_lever {
    const char *ids[2]; /* ids[1] NULL for a single lever */
    const char *change; /* in words */
    const char *flag;   /* what to type in the engine's own language; NULL: nothing to type */
    bool is_command;    /* flag is a whole command line */
    const char *option; /* what to type to see it here: "--dtype bf16" */
    const char *cost;   /* what it costs, in words */
    unsigned rank;      /* 1 first */
    uint64_t required;
    int64_t saved; /* bytes; negative when it needs more */
    bool fits;
    uint8_t basis; /* vr_basis */
} vr_lever;

struct vr_solution; /* solver.h */
typedef struct vr_solution vr_solution;

struct vram_fit {
    vr_object object;
    vram_ctx *ctx;
    vr_arena arena;
    const vram_model *model;
    const vram_workload *workload; /* resolved */
    const vram_device *device;     /* NULL: no card given, see `cards` */
    /* No engine here runs the model and the user named none: then no setting of an engine is said, nothing
     * is told of how a load goes, and no change is offered. */
    bool foreign;
    uint64_t kept_free; /* of what is free, by a memory fraction; not in device->available */
    vr_plan plan;
    struct vr_rehearsed *here; /* the same plan and what was rehearsed of it */
    vr_rehearsal run; /* on the device as it is; where it lives in the least that may be available, in that */
    vr_rehearsal needs; /* what it needs to live; equals run when nothing failed */
    vr_ledger ledger;   /* of run, or of needs when run failed */
    vram_verdict verdict;
    const char *verdict_reason; /* why unknown or tight; or NULL */
    int64_t headroom;
    uint64_t weights_over_usable; /* 0: the weights alone would fit */
    /* The error text PyTorch will print; NULL when it does not fail, or in words not known for certain */
    const char *message;
    const char *message_version; /* whose wording it is: "PyTorch 2.2 to 2.9"; NULL without a message */
    uint64_t short_bytes;        /* of the failure: what lacks at least */
    unsigned loaded_permille;
    vr_lever *levers;
    size_t n_levers;
    /* Settings that were sought: when it fits, the context; otherwise those of the levers and others that did
     * not help. solved: the first of them was asked for, and this is the fit with it. */
    vr_solution *solutions;
    size_t n_solutions;
    bool solved;
    bool slow; /* it fits because the engine leaves a part on the CPU; the levers are those with which it does
                  not */
    const vram_quant *quants;   /* files that it was chosen from, smallest first */
    size_t n_quants, quant;     /* quant: it is this one of them */
    const vram_workload *asked; /* as the user gave it, without what was sought */
    const char *ranked_by;      /* by what the levers are ranked, a sentence */
    uint64_t smallest_count;    /* 0: not known */
    const char *count_note;     /* "real sharding is never perfect ...", or why smallest_count is not known */
    /* Of several GPUs. The figures above are those of the one that is worst off; each has its own in `ranks`,
     * as a fit without levers, verdict_reason and all. NULL: only one takes part. */
    struct vram_fit *ranks;
    size_t n_ranks;
    size_t n_gpus;                 /* that were given, also those that stay empty */
    const vr_placement *placement; /* by a device map; or NULL */
    const char *says;              /* what the engine does by itself and will show, a sentence; or NULL */
    const char *stops;             /* the engine's error before anything is loaded; or NULL */
    struct vr_card {
        const vr_gpu *gpu;
        vram_verdict verdict;
        uint64_t required;
        int64_t headroom;
    } * cards; /* without a device: NVIDIA cards of the table whose total is known, smallest first */
    size_t n_cards;
};

/* The whole of one answer without levers, for levers, cards and tests. */
typedef struct vr_answer {
    vr_plan plan;
    struct vr_rehearsed *here;
    vr_rehearsal run, needs;
    vr_ledger ledger;
    vram_verdict verdict;
    const char *reason;
    int64_t headroom;
} vr_answer;
vram_status vr_answer_new(vr_answer *out, const vram_model *m, const vram_workload *resolved,
                          const vram_device *d, vr_arena *a, vr_hall *hall);

#endif
