/* SPDX-License-Identifier: MIT
 * Settings that are sought instead of given: the most that fits, as the engine's vr_solvable has them. */
#ifndef VR_SOLVER_H
#define VR_SOLVER_H

#include "ledger/memories.h"

struct vr_solution {
    vr_goal goal;
    bool found;            /* some value fits; without it the fields below are those of the least one */
    bool sure;             /* all is counted; false: what is counted fits */
    bool whole;            /* with it nothing is left on the CPU, with the next one something is */
    bool with_experts;     /* all experts are on the CPU as well */
    bool top;              /* the last value fits, so there is no next one */
    uint64_t number, next; /* the value as people know it, and the one behind it, which does not fit */
    uint64_t most;         /* the last value */
    int64_t left;          /* on the GPU that is worst off; negative when nothing was found */
    int64_t next_left;
    uint64_t required; /* on the GPU that is worst off */
    unsigned tries;
    size_t n_shares; /* of layers by GPU; 0: no cut was sought */
    uint64_t shares[VR_MOST_GPUS];
    const vram_workload *given; /* what the user gave with this */
    const char *words, *cost;
    const char *option;  /* to type here */
    const char *command; /* to type */
};

typedef struct vr_solver {
    vram_fit *f; /* texts and workloads live in its arena */
    const vram_workload *asked;
    const vr_memories *gpus;
    vr_rooms *rooms;
    vr_arena step, trial; /* emptied for each value, for each trial */
    /* What was learned of each GPU's room beside its layers. */
    uint64_t room[VR_MOST_GPUS];
    /* What is known of the run as it was asked for. */
    bool known, fits, counted;
    int64_t left;
    uint64_t required;
} vr_solver;

/* Of an engine that places by itself: something is left on the CPU. */
bool vr_leaves_off(const vram_workload *w, const vr_placement *p);
void vr_solver_open(vr_solver *s, vram_fit *f, const vram_workload *asked, const vr_memories *gpus,
                    vr_rooms *rooms);
/* After the fit has its answer. */
void vr_solver_know(vr_solver *s);
void vr_solver_close(vr_solver *s);
/* How many values the engine has for it; 0: it cannot be sought. */
uint64_t vr_solver_count(const vr_solver *s, vr_goal g, const vram_workload *from);
/* Beside what `from` has, a workload as a user gives it. */
vram_status vr_solver_seek(vr_solution *out, vr_solver *s, vr_goal g, const vram_workload *from);

/* What is offered when the run does not fit, as levers, and how much more room there is when it does. */
vram_status vr_solver_levers(vram_fit *f, const vram_workload *asked, const vr_memories *gpus,
                             vr_rooms *rooms);
/* f->workload and *asked become those that w->solve seeks. */
vram_status vr_solver_answer(vram_fit *f, const vram_workload **asked, const vr_memories *gpus,
                             vr_rooms *rooms);

#endif
