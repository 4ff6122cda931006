/* SPDX-License-Identifier: MIT
 * Private to the transformers engine: what a class has in a version of it, and how it comes to the card. */
#ifndef VR_LOADING_H
#define VR_LOADING_H

#include "engine/pass.h"

/* ---- parameters.c ---- */

/* A parameter or buffer as this version of the class has it. */
typedef struct vr_param {
    vr_str name;
    uint64_t dims[VR_DECLARED_DIMS];
    uint64_t elements;
    uint8_t n_dims, kind;    /* vr_param_kind */
    bool wide;               /* a parameter that is kept in 32 bits whatever the dtype */
    bool narrow;             /* a state that is not, in this version */
    bool packed, side;       /* elements as `tensor` has them; scales, which stand for no parameters */
    const vr_tensor *tensor; /* in the checkpoint; NULL: not there, or a buffer */
    /* Of a layer's experts that are merged while loading (`tensor` is the first): what they are merged of,
     * all that the layer's experts and router declare. */
    const vr_declared *parts;
    size_t n_parts;
} vr_param;

typedef struct vr_params {
    vr_param *list;
    size_t n;
    const vr_tensor **others; /* of the checkpoint, beside the decoder and loaded with it (natural order) */
    size_t n_others;
    size_t n_anew; /* vectors that the checkpoint lacks: made when the model is */
    /* Why this class would not load this checkpoint, or would load something else than what is stored; or
     * NULL. Nothing but what is stored is known then. */
    const char *refused;
} vr_params;

/* What all plans of a model share, whatever the settings but the engine's version. */
struct vr_prepared {
    const vram_model *m;
    const vr_rules *rules;
    bool as_stored;            /* what is loaded is what the checkpoint has, not what a class declares */
    vr_params params;          /* of a class that is known */
    const vr_tensor **natural; /* as_stored: all tensors in natural order */
};

vram_status vr_params_of(vr_params *out, const vram_model *m, const vr_rules *rules, vr_arena *a);
/* What the class calls a parameter, or the beginning of its name, that is declared as `name`: nemotron_h has
 * another name for its decoder in checkpoints (conversion_mapping.py). .s NULL: no memory. */
vr_str vr_name_in_class(const vram_model *m, vr_str name, vr_arena *a);

/* ---- merged.c ---- */

/* How many entries from this one on are a layer's experts and router; 0: it is none of them. */
size_t vr_merge_length(const vram_model *m, const vr_declared *d);
vram_status vr_merge_experts(vr_params *out, const vram_model *m, const vr_rules *rules, const vr_declared *d,
                             size_t n, vr_arena *a);

/* ---- stored.c ---- */

/* Bytes of an element as it is loaded (kept.c). */
unsigned vr_param_width(const vram_model *m, const vram_workload *w, const vr_param *p);

/* Holds the class against the checkpoint: fills others, n_anew and refused. */
vram_status vr_params_review(vr_params *params, const vram_model *m, vr_arena *a);
/* All tensors of the checkpoint in natural order. */
vram_status vr_tensors_in_order(const vr_tensor ***out, const vram_model *m, vr_arena *a);

/* What is shared by all plans, or made for this one. */
vram_status vr_prepared_of(const struct vr_prepared **out, struct vr_prepared *own, const vram_model *m,
                           const vram_workload *w, vr_arena *a);

/* ---- placement.c ---- */

/* As vr_engine.place */
vram_status vr_transformers_place(vr_placement *out, const vram_model *m, const vram_workload *w,
                                  const vr_device_facts *gpus, size_t n, vr_arena *a);

/* ---- loading.c ---- */

/* Writes the loading; the sums of what is loaded. */
vram_status vr_load(vr_pass *p, const struct vr_prepared *from, uint64_t *bytes, uint64_t *elements);

/* ---- packed.c: weights that are stored quantised ---- */

bool vr_can_unpack(const vram_model *m); /* from_pretrained knows how to */
/* VRAM_ESETTING: to be unpacked, and it does not know how; or to be quantised once more. */
vram_status vr_check_unpacking(const vram_workload *w, const vram_model *m);
/* The error with which the engine stops on this card, or NULL. */
const char *vr_packed_refused(const vram_model *m, const vram_workload *w, const vr_device_facts *d);
/* They are loaded in the load dtype. */
bool vr_unpacks(const vram_model *m, const vram_workload *w, const vr_device_facts *d);
uint64_t vr_unpacked_bytes(const vram_model *m, const vram_workload *w, size_t tensor);
/* What people should know of it: a sentence, or "". NULL: out of memory. */
const char *vr_packed_notice(const vram_model *m, const vram_workload *w, const vr_device_facts *d,
                             vr_arena *a);

/* ---- bnb.c ---- */

bool vr_quantises(const vram_workload *w); /* while loading */

/* Of a linear weight: all that is kept of it, and the packed numbers alone. */
uint64_t vr_bnb_bytes(vr_weight_quant quant, uint64_t rows, uint64_t elements);
uint64_t vr_bnb_packed(vr_weight_quant quant, uint64_t elements);
/* Writes its loading. */
void vr_bnb_load(vr_pass *p, const vr_param *param, uint32_t label);

/* ---- natural.c ---- */

/* Names by their parts between dots, numbers as numbers: core_model_loading.py, dot_natural_key. */
bool vr_natural_before(vr_str a, vr_str b);

#endif
