/* SPDX-License-Identifier: MIT
 * Which models have a tape at all. What is described has weights and a cache; its activations are counted
 * only when every kind of layer that it has, is written by a file here. */
#include "engine/pass.h"
#include "model/experts.h"

static const uint8_t attentions[] = { VR_ATTENTION_FULL, VR_ATTENTION_SLIDING };
static const uint8_t mlps[] = { VR_MLP_GATED, VR_MLP_GATED_FUSED, VR_MLP_PLAIN, VR_MLP_EXPERTS };

static bool is_in(uint8_t kind, const uint8_t *list, size_t n)
{
    size_t i = 0;
    while (i < n && list[i] != kind)
        i++;
    return i < n;
}

static const char *no_tape_of_experts(const vr_layer *l, const vram_workload *w)
{
    bool routed =
        l->moe != NULL && (l->moe->router == VR_ROUTER_SOFTMAX || l->moe->router == VR_ROUTER_SIGMOID);
    bool best = l->moe != NULL && l->moe->router == VR_ROUTER_TOP_SOFTMAX && l->moe->clamped;
    if (!best && (!routed || l->moe->form != VR_EXPERTS_LIST))
        return "what its experts compute is not known storage by storage";
    return w->weight_quant != VR_QUANT_NONE ? "what quantised experts compute is not known storage by storage"
                                            : NULL;
}

const char *vr_no_tape(const vram_model *m, const vram_workload *w)
{
    if (m->structure == VR_ENCODER_DECODER)
        return "an encoder and a decoder are not rehearsed yet";
    if (m->family->untaped || w->version_major * 100 + w->version_minor < m->family->taped_from)
        return "what this class computes is not known storage by storage";
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        if (!is_in(l->attention, attentions, sizeof attentions) || l->kv_from != 0 ||
            (l->sinks && w->attention != VR_IMPL_EAGER))
            return "what its kind of attention computes is not known storage by storage";
        if (!is_in(l->mlp, mlps, sizeof mlps))
            return "what its experts compute is not known storage by storage";
        const char *why = l->mlp == VR_MLP_EXPERTS ? no_tape_of_experts(l, w) : NULL;
        if (why != NULL)
            return why;
    }
    return m->activation == VR_ACT_UNKNOWN ? "its activation function is not known storage by storage" : NULL;
}
