/* SPDX-License-Identifier: MIT
 * Private to the transformers engine: what runs of weights that stay packed. One file per layout. */
#ifndef VR_PACKED_RUN_H
#define VR_PACKED_RUN_H

#include "engine/experts.h"
#include "engine/loading.h"

/* Of a layer's matrices one that is stored packed, or one that is not. */
typedef struct vr_packed_shape {
    uint64_t in, out;
    vr_str name;
    bool packed;
} vr_packed_shape;

/* A layout whose modules are understood. What is NULL runs as if nothing were packed. */
typedef struct vr_packed_run {
    bool classed; /* what the class has on the card is a parameter for each packed tensor and its scales */
    uint64_t uncertain;  /* band of the activations, permille */
    const char *weights; /* in words, what of them is not as it is stored; or NULL */
    /* NULL: what it takes is known */
    const char *(*why_not)(const vram_model *m, const vram_workload *w, const vr_device_facts *d);
    /* A linear layer over `rows` rows; its result. */
    vr_block (*linear)(vr_pass *p, uint64_t rows, uint64_t in, uint64_t out, bool biased, vr_item item,
                       vr_step step);
    vr_block (*experts)(vr_pass *p, const vr_routed *r); /* in one tensor, behind the class's own router */
    vr_block (*block)(vr_pass *p);                       /* as vr_experts, router and all */
    uint64_t (*above)(const vr_pass *p);                 /* as vr_plan.above_permille */
    /* Packed weights come to the card while they are read, whatever the rest does, and what is idle behind
     * them is given back. */
    bool packed_first;
    /* Writes the loading of one tensor as this layout has it on the card; false: as it is stored. */
    bool (*load)(vr_pass *p, const vr_tensor *t, uint32_t label, uint64_t *bytes);
    void (*begin)(vr_pass *p); /* what happens to loaded weights before the first pass */
} vr_packed_run;

extern const vr_packed_run vr_run_awq, vr_run_compressed, vr_run_fp8, vr_run_marlin, vr_run_mxfp4;

/* ---- packed_run.c ---- */

/* Why it is not known; NULL: it is, or nothing is packed. */
const char *vr_no_packed_tape(const vram_model *m, const vram_workload *w, const vr_device_facts *d,
                              vr_arena *a);
vram_status vr_packed_open(vr_pass *p);
void vr_packed_begin(vr_pass *p); /* as vr_packed_run.begin */
/* Of p->layer, experts apart: the matrix of this shape that makes what the step is called after. */
bool vr_is_packed(const vr_pass *p, uint64_t in, uint64_t out, vr_step step);
vr_block vr_packed_linear(vr_pass *p, uint64_t rows, uint64_t in, uint64_t out, bool biased, vr_item item,
                          vr_step step);
bool vr_packs_block(const vr_pass *p); /* its layers of experts run in a way of their own */
vr_block vr_packed_block(vr_pass *p);
bool vr_packs_experts(const vr_pass *p); /* ... or only the experts behind the router */
vr_block vr_packed_experts(vr_pass *p, const vr_routed *r);
/* Writes the loading of a tensor that the card has in another form; false: it has it as it is stored. */
bool vr_packed_load(vr_pass *p, const vr_tensor *t, uint32_t label, uint64_t *bytes);
bool vr_packed_first(const vr_pass *p);          /* as vr_packed_run.packed_first */
const char *vr_packed_weights(const vr_pass *p); /* as vr_packed_run.weights, or "" */
uint64_t vr_packed_uncertain(const vr_pass *p);  /* as vr_plan.uncertain_permille; 0: nothing is packed */
uint64_t vr_packed_above_permille(const vr_pass *p);

/* The class's parameters are understood, packed ones too. */
bool vr_packs_class(const vram_model *m, const vram_workload *w);

/* ---- packed_params.c ---- */

/* The class's parameters as they are packed, with their scales behind them. */
vram_status vr_params_packed(vr_params *params, const vram_model *m, vr_arena *a);

/* ---- compressed_run.c ---- */

bool vr_runs_unpacked(const vram_model *m); /* stored packed, and unpacked before the first pass */

bool vr_layer_packs_experts(const vram_model *m, uint64_t layer);

#endif
