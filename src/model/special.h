/* SPDX-License-Identifier: MIT
 * Private to the room: architectures that are more than a row of data/architectures.tsv. Each has a row all
 * the same, which names its kind in the column `special`; a kind is a file here. */
#ifndef VR_SPECIAL_H
#define VR_SPECIAL_H

#include "model/declare.h"
#include "model/reading.h"

typedef struct vr_special {
    const char *name; /* as in the column `special` */
    /* Where the names of layers begin and what the head is called, when these are not those of a plain
     * decoder
     * ("model." and "lm_head.weight", or inside a multimodal model). NULL: they are. */
    const char *prefix, *head;
    /* layer_types and windows are not those of a plain decoder: all layers are FULL until `read` says more.
     */
    bool own_kinds;
    /* After sizes, flags and m->layers are read as of a plain decoder: what is different. May say that the
     * model is not understood. NULL: nothing is. */
    vram_status (*read)(vr_reading *r);
    /* Layer d->layer; d->path is "...layers.N.". NULL: as of a plain decoder. */
    void (*declare_layer)(vr_declaring *d, const vr_layer *l);
    /* In the model, behind its last module and before the head; d->path is the model's. NULL: nothing. */
    void (*declare_within)(vr_declaring *d);
    /* What comes before the decoder and after its head; d->path is empty. NULL: nothing. */
    void (*declare_before)(vr_declaring *d);
    void (*declare_after)(vr_declaring *d);
    /* In place of embedding, layers, norm, rotary tables and head. NULL: these. */
    void (*declare_model)(vr_declaring *d);
} vr_special;

extern const vr_special vr_special_compressed;
extern const vr_special vr_special_delta;
extern const vr_special vr_special_encoder;
extern const vr_special vr_special_granite_hybrid;
extern const vr_special vr_special_granite_moe;
extern const vr_special vr_special_kimi_linear;
extern const vr_special vr_special_latent;
extern const vr_special vr_special_lfm2;
extern const vr_special vr_special_lfm2_moe;
extern const vr_special vr_special_moe;
extern const vr_special vr_special_nemotron_h;
extern const vr_special vr_special_t5;
extern const vr_special vr_special_gemma3n;
extern const vr_special vr_special_gemma4;
extern const vr_special vr_special_decilm;
extern const vr_special vr_special_mimo;
extern const vr_special vr_special_mimo_v2;
extern const vr_special vr_special_minimax_m3;
extern const vr_special vr_special_whisper;
extern const vr_special vr_special_mamba;
extern const vr_special vr_special_jamba;
extern const vr_special vr_special_mamba2;
extern const vr_special vr_special_bamba;
extern const vr_special vr_special_falcon_h1;
extern const vr_special vr_special_zamba2;
extern const vr_special vr_special_recurrent_gemma;
extern const vr_special vr_special_falcon;
extern const vr_special vr_special_gptj;
extern const vr_special vr_special_gpt_neo;

/* num_kv_shared_layers: so many at the end use the cache of the last one before them of their kind
 * (gemma4.c). */
vram_status vr_read_shared_layers(vr_reading *r, uint64_t silent);

const vr_special *vr_special_of(const vr_family *f); /* NULL: a plain decoder */

/* A stack of n such layers; NULL: out of memory. */
vr_layer *vr_layers_alike(const vr_reading *r, uint64_t n, vr_layer like);

#endif
