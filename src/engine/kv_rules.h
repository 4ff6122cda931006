/* SPDX-License-Identifier: MIT
 * Private to the room: what layers keep, as the engines that serve need it, and the plan of an engine of
 * which only sums are known. Sources are named where the rules of an engine are. */
#ifndef VR_KV_RULES_H
#define VR_KV_RULES_H

#include "engine/engine.h"

/* Elements kept of one token in one layer, over all heads. */
typedef struct vr_kept {
    uint64_t keys, values; /* MLA's latent vector: keys only */
    uint64_t index;        /* of the index that chooses tokens; 0: none */
} vr_kept;
/* Where MLA's latent vector is kept instead of what is made from it. Of a GGUF file as its tensors say. */
vr_kept vr_layer_kept(const vr_layer *l);

/* Of figures that follow from shapes: exact from a checkpoint, by formula or table from a configuration. */
uint8_t vr_basis_of(const vram_model *m);
/* Why nothing is known of what this model's layers keep; NULL: it is known. */
const char *vr_why_no_layers(const vram_model *m);
/* As few bytes as there can be: sliding and chunked layers with no token more than they attend to, states in
 * `state_width` bytes. */
uint64_t vr_least_kept(const vram_model *m, uint64_t tokens, uint64_t sequences, unsigned width,
                       unsigned state_width);

/* One figure of a plan. */
typedef struct vr_sum {
    bool counted;
    uint8_t basis; /* vr_basis */
    uint64_t bytes;
    const char *words; /* how it comes about, or why it is not counted */
} vr_sum;

/* Of an encoder *out says so. */
bool vr_keeps_nothing(vr_sum *out, const vram_model *m);
/* The weights as engines on PyTorch load them: what the class declares, in w->dtype; packed ones as they are
 * stored. *elements: how many parameters. */
vram_status vr_weights_loaded(vr_sum *out, uint64_t *elements, const vram_model *m, const vram_workload *w,
                              vr_arena *a);
/* "auto" of these engines: the stored dtype, 16 bits of what is stored in more. */
void vr_dtype_of_serving(vram_workload *w, const vram_model *m);

/* A plan of two sums. rest: why activations and overhead are not counted. Over 256 PiB: VRAM_ELIMIT. */
vram_status vr_plan_of_sums(vr_plan *out, const vram_model *m, const vr_sum *weights, const vr_sum *kv,
                            const char *rest, vr_arena *a);

/* What an engine takes of a card whatever is asked for: first the figures, false on no card in particular;
 * then, with pool_tokens filled in, the words. who: "vLLM takes 0.92 of the card". */
bool vr_claims(vr_plan *out, uint64_t usable, uint32_t share);
vram_status vr_tell_claim(vr_plan *out, const char *who, vr_arena *a);

/* "0.27", "v0.27.1", "b10470" behind `prefix`: up to two numbers; false when it is something else. */
bool vr_version_numbers(vr_str text, const char *prefix, unsigned *major, unsigned *minor);

static inline uint64_t vr_cdiv(uint64_t x, uint64_t by)
{
    return x / by + (x % by != 0);
}

#endif
