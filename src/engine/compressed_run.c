/* SPDX-License-Identifier: MIT
 * Checkpoints of compressed-tensors. Transformers runs them unpacked: the model comes to the card as it is
 * stored, and a hook before its first pass turns every matrix into one of 16 bits, one after the other, for
 * good (compressed-tensors 0.20, compressors/model_compressors/model_compressor.py, add_decompress_hook;
 * older releases do the same layer by layer). Where inputs are quantised too, that is done in PyTorch's
 * operators and undone at once (quantization/lifecycle/forward.py, forward_quantize): the high end. */
#include "engine/packed_run.h"

#define QUANTISING 16 /* bytes of an element of the input, no more: three or four copies in 16 or 32 bits */

bool vr_runs_unpacked(const vram_model *m)
{
    vr_json status;
    const char *method = m->packing.method;
    return m->quantised && method != NULL && vr_str_is(vr_str_of(method), "compressed-tensors") &&
           m->checkpoint->has_config &&
           vr_json_get(m->checkpoint->config, "quantization_config.quantization_status", &status) &&
           vr_json_str_is(status, "compressed");
}

static const char *why_not(const vram_model *m, const vram_workload *w, const vr_device_facts *d)
{
    (void)w;
    (void)d;
    if (!vr_runs_unpacked(m))
        return "what becomes of compressed-tensors whose quantization_status is not compressed is not known";
    for (uint64_t i = 0; i < m->n_layers; i++) {
        if (m->layers[i].mlp == VR_MLP_EXPERTS)
            return "what experts in compressed-tensors take while they run is not known";
    }
    return NULL;
}

static bool load(vr_pass *p, const vr_tensor *t, uint32_t label, uint64_t *bytes)
{
    size_t i = (size_t)(t - p->m->checkpoint->tensors);
    if (p->m->packing.role[i] != VR_ROLE_PACKED || p->stored == NULL)
        return false;
    *bytes = t->end - t->begin;
    p->stored[i] = vr_take_labelled(p, *bytes, VR_ITEM_PARAMETERS, label);
    return true;
}

static void begin(vr_pass *p)
{
    const vram_checkpoint *ck = p->m->checkpoint;
    for (size_t i = 0; vr_runs_unpacked(p->m) && i < ck->n_tensors; i++) {
        if (p->m->packing.role[i] != VR_ROLE_PACKED)
            continue;
        vr_take_labelled(p, vr_unpacked_bytes(p->m, p->w, i), VR_ITEM_PARAMETERS,
                         vr_tape_label(p->tape, ck->tensors[i].name));
        vr_drop(p, p->stored[i]);
    }
}

static uint64_t above(const vr_pass *p)
{
    const vram_model *m = p->m;
    uint64_t h = m->hidden, f = m->ffn, in = f > h ? f : h;
    uint64_t there = p->width * (3 * h + in) + QUANTISING * in, moment = p->width * (3 * h + 3 * f);
    return m->packing.bits_low >= 8 && there > moment ? vr_mul_div(1000, there - moment, moment) : 0;
}

const vr_packed_run vr_run_compressed = { .uncertain = 150,
                                          .weights = ", unpacked to 16 bits before the first pass",
                                          .why_not = why_not,
                                          .above = above,
                                          .load = load,
                                          .begin = begin };
