/* SPDX-License-Identifier: MIT
 * Private to the transformers engine: kinds of caches beside the one that grows, which is in attention.c. */
#ifndef VR_CACHES_H
#define VR_CACHES_H

#include "engine/pass.h"

/* ---- attention.c ---- */

void vr_cache_start(vr_pass *p); /* nothing is kept of the group yet */

/* ---- static_cache.c ---- */

bool vr_cache_fixed(const vram_workload *w); /* taken once, for all tokens there will be */
/* Tokens that such a cache has room for, in a layer with this window (0: none). */
uint64_t vr_static_room(const vram_workload *w, uint64_t window);
uint64_t vr_static_length(const vr_pass *p, uint64_t window); /* keys that this pass attends to */
/* Takes new keys and values, which stay; whether attention reads these and not the cache. */
bool vr_static_update(vr_pass *p);

/* ---- offloaded_cache.c ---- */

bool vr_cache_offloads(const vram_workload *w);
bool vr_layer_offloads(const vr_pass *p, uint64_t layer); /* such a cache this layer's */
/* Before a layer's cache is updated: the next layer's keys and values come to the card. */
void vr_prefetch(vr_pass *p);
/* Behind it: they go to the host, and the attention alone holds what it reads of them. */
void vr_offload(vr_pass *p, vr_block *keys, vr_block *values);

/* ---- quantized_cache.c ---- */

/* Takes new keys and values and gives what the attention reads. */
void vr_quantized_update(vr_pass *p, vr_block *keys, vr_block *values);
/* Of keys or values of `elements` elements, packed. */
uint64_t vr_packed_bytes(const vram_workload *w, uint64_t elements, unsigned width);
/* What the settings are when nobody says, and what the package refuses. */
vram_status vr_quantized_defaults(vram_workload *w, const vram_model *m);
/* Generated tokens that are not packed yet, of so many. */
uint64_t vr_residual_tokens(const vram_workload *w, uint64_t generated);
void vr_drop_packed(vr_pass *p, vr_kv *kv);

/* ---- fp8_cache.c ---- */

void vr_fp8_update(vr_pass *p, vr_block *keys, vr_block *values);

/* ---- drafts.c ---- */

/* How long they are; what generate() refuses together with them. */
vram_status vr_drafts_defaults(vram_workload *w, const vram_model *m);
uint64_t vr_logits_rows(const vr_pass *p); /* of tokens whose logits this pass computes */
/* After a call of the model: takes its logits, and cuts the drafts off the cache. */
void vr_drafts_step(vr_pass *p, vr_group *g);

/* ---- assistant.c ---- */

/* Where the workload has one: p->assistant. */
vram_status vr_assistant_open(vr_pass *p);
const char *vr_no_assistant(const vr_pass *p); /* why it is not known; NULL: it is, or there is none */
vram_status vr_assistant_load(vr_pass *p, uint64_t *bytes, uint64_t *elements);
void vr_assistant_draft(vr_pass *p, const vr_group *g); /* before each call of the model on this group */
void vr_assistant_keep(vr_pass *p);                     /* as vr_keep_all */
void vr_assistant_end(vr_pass *p);

/* ---- kept_tokens.c ---- */

/* Keys, values and states at the end, where activations are not known. */
void vr_keep_all(vr_pass *p);

#endif
