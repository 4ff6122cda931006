/* SPDX-License-Identifier: MIT
 * What the text and the JSON of `vram inspect` share: sums over the tensors of a checkpoint. */
#ifndef VR_INSPECT_REPORT_H
#define VR_INSPECT_REPORT_H

#include "model/model.h"
#include "report/report.h"

typedef struct vr_tally {
    uint64_t n, elements, bytes;
} vr_tally;

/* Files that are left out for one reason. */
typedef struct vr_left_out_kind {
    const char *why;
    uint64_t n, bytes;
} vr_left_out_kind;

typedef struct vr_inspection {
    const vram_model *model;
    vr_tally dtype[VR_DTYPE_COUNT];
    vr_component *components;
    size_t n_components;
    uint64_t *in_part; /* parameters of each of the checkpoint's parts */
    vr_left_out_kind *left_out;
    size_t n_left_out;
    vr_tally layers;       /* all of them together; n counts layers */
    bool layers_alike;     /* the same bytes in each */
    uint64_t header_bytes; /* what had to be read of the weight files */
    bool token_known;      /* the two below */
    vr_dtype token_dtype, logits_dtype;
    uint64_t kv_per_token; /* all layers, full length, in that dtype */
    uint64_t logits_per_token;
} vr_inspection;

vram_status vr_inspect(vr_inspection *out, const vram_model *m, vr_arena *a);

void vr_inspect_text(vr_report *r, const vr_inspection *x);
void vr_inspect_json(vr_report *r, const vr_inspection *x);

#endif
