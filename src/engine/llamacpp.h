/* SPDX-License-Identifier: MIT
 * Private to the room: what engines that run GGUF files with llama.cpp share. */
#ifndef VR_LLAMACPP_H
#define VR_LLAMACPP_H

#include "engine/kv_rules.h"
#include "engine/options.h"
#include "llama/builds.h"

#define VR_ALL_LAYERS UINT64_MAX

#define VR_LLAMACPP_N_OPTIONS 34
extern const struct vr_option_row *const vr_llamacpp_options[VR_LLAMACPP_N_OPTIONS];
/* Words of its settings, which Ollama has too. */
extern const vr_word vr_llamacpp_types[], vr_llamacpp_flashes[];
vram_status vr_llamacpp_set_layers(vram_workload *w, const vram_option *o, vr_str value);

/* w is resolved. Overrides live in `a`. */
vram_status vr_llamacpp_params(vr_lm_params *out, const vram_workload *w, vr_arena *a);
/* llama.cpp's own -c: of all sequences together. */
uint64_t vr_llamacpp_tokens(const vram_workload *w);
/* The file as llama.cpp reads it, from w->prepared or made anew; NULL with a sentence in *why. */
vram_status vr_llamacpp_model(const vr_lm **out, const char **why, const vram_model *m,
                              const vram_workload *w, vr_arena *a);

/* Of an engine's place and plan, with whatever settings it starts llama.cpp. */
vram_status vr_llamacpp_place_with(vr_placement *out, const vr_lm *lm, const vr_lm_params *p,
                                   const vr_device_facts *gpus, size_t n, vr_arena *a);
/* runs: what runs the file, in words. */
vram_status vr_llamacpp_plan_with(vr_plan *out, const vr_lm *lm, const vr_lm_params *p,
                                  const vr_device_facts *device, const char *runs, vr_arena *a);
/* Of a file that is not understood. */
vram_status vr_llamacpp_plan_of_nothing(vr_plan *out, const vram_model *m, const char *why, vr_arena *a);
const char *vr_llamacpp_no_room(vr_item item, uint64_t bytes, size_t rank, vr_arena *a);

void vr_llamacpp_devices(vr_lm_device *out, const vr_device_facts *gpus, size_t n);
/* llamacpp_version.c */
vram_status vr_llamacpp_version(vram_workload *w, vr_str text);
const char *vr_llamacpp_version_text(const vram_workload *w, vr_arena *a);
/* What a build did not have cannot be asked of it. */
vram_status vr_llamacpp_check_build(const vram_workload *w, const vr_lm_rules *r);

/* llamacpp_fit.c */
extern const struct vr_option_row vr_row_fit;
vram_status vr_llamacpp_by_cards(vram_workload *to, const char **says, const vram_workload *w,
                                 const vram_model *m, const vr_device_facts *gpus, size_t n, vr_arena *a);

/* What is sought of both engines alike (llamacpp_solve.c): contexts by steps, types of the cache from the
 * smallest on. */
#define VR_LLAMACPP_STEP 256 /* tokens, which llama.cpp fills a context up to */
#define VR_LLAMACPP_N_CACHES 3
extern const struct vr_llamacpp_cache {
    uint8_t type, bits;
} vr_llamacpp_caches[VR_LLAMACPP_N_CACHES];
uint64_t vr_llamacpp_contexts(const vram_model *m); /* steps up to the longest */
const char *vr_llamacpp_cache_words(const vram_workload *w, vr_arena *a);
const char *vr_llamacpp_cache_cost(const vram_workload *w);

/* A model that is no GGUF file yet (llamacpp_converted.c): sums. */
vram_status vr_llamacpp_converted(vr_plan *out, const vram_model *m, const vram_workload *w, vr_arena *a);

#endif
