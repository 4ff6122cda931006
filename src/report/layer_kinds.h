/* SPDX-License-Identifier: MIT
 * The kinds of layers that a model has, for `vram inspect`. */
#ifndef VR_LAYER_KINDS_H
#define VR_LAYER_KINDS_H

#include "base/json.h"
#include "model/model.h"
#include "report/report.h"

const char *
vr_attention_name(const vr_layer *l); /* "full", "sliding", "chunked", "latent", "recurrent", "none" */

/* "layer_kinds": an array, in the order in which they come first; null where the model is not understood. */
void vr_json_layer_kinds(vr_json_out *o, const vram_model *m, vr_arena *a);
/* A line for each kind where there is more than one, or one that a plain line would not tell. */
void vr_say_layer_kinds(vr_report *r, const vram_model *m, unsigned indent);
/* Whether the plain line about heads says it all. */
bool vr_layers_plain(const vram_model *m);

#endif
