/* SPDX-License-Identifier: MIT
 * The renderers of `vram models`, and what they tell of a row of the catalogue. */
#ifndef VR_MODELS_REPORT_H
#define VR_MODELS_REPORT_H

#include "model/catalogue.h"
#include "model/model.h"
#include "report/report.h"

typedef struct vr_built_in {
    const vr_catalogue_row *row;
    const char *model_type;   /* or NULL */
    const char *quantisation; /* "FP8", or NULL */
    const char *not_known;    /* why the weights are not, or NULL */
    uint64_t parameters;      /* 0: not known */
    uint64_t weights;         /* bytes; 0: not known */
    uint64_t max_context;     /* 0: not known */
    uint64_t kv_per_token;    /* bytes in 16 bits, all layers; 0: not known, or none */
} vr_built_in;

/* Those of which a name holds every word of `search`, NULL: all. A search without a word has none. Only the
 * rows are filled in. */
vram_status vr_built_in_search(const char *search, vr_arena *a, vr_built_in **out, size_t *n);
/* And what they say: a model of a hundred thousand tensors takes a tenth of a second. */
vram_status vr_built_in_read(vr_built_in *models, size_t n, vr_arena *a);
/* So many are told of without being asked for more. */
#define VR_BUILT_IN_TOLD 40

void vr_models_text(vr_report *r, const vr_built_in *models, size_t n);
void vr_models_json(vr_report *r, const vr_built_in *models, size_t n);

#endif
