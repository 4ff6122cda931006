/* SPDX-License-Identifier: MIT
 * Which models have a tape at all. What is described has weights and a cache; its activations are counted
 * only when every kind of layer that it has, is written by a file here. */
#include "engine/pass.h"
#include "model/experts.h"

static const uint8_t attentions[] = { VR_ATTENTION_FULL, VR_ATTENTION_SLIDING, VR_ATTENTION_RECURRENT,
                                      VR_ATTENTION_NONE };
static const uint8_t mlps[] = { VR_MLP_GATED, VR_MLP_GATED_FUSED, VR_MLP_PLAIN, VR_MLP_EXPERTS, VR_MLP_NONE };

static bool is_in(uint8_t kind, const uint8_t *list, size_t n)
{
    size_t i = 0;
    while (i < n && list[i] != kind)
        i++;
    return i < n;
}

static const char *no_tape_of_experts(const vr_layer *l, const vram_workload *w)
{
    bool two = l->moe != NULL && l->moe->gate == NULL; /* matrices an expert */
    if (two || l->expert_hidden != 0)
        return "what its experts compute is not known storage by storage";
    bool routed = l->moe != NULL &&
                  (l->moe->router == VR_ROUTER_SOFTMAX ||
                   (l->moe->router == VR_ROUTER_SIGMOID && l->moe->correction == VR_CORRECTION_OF_ROUTER));
    bool best = l->moe != NULL && l->moe->router == VR_ROUTER_TOP_SOFTMAX && l->moe->clamped;
    if (!best && (!routed || l->moe->form == VR_EXPERTS_TRANSPOSED))
        return "what its experts compute is not known storage by storage";
    return w->weight_quant != VR_QUANT_NONE ? "what quantised experts compute is not known storage by storage"
                                            : NULL;
}

static const char *no_tape_of_recurrent(const vr_layer *l, const vram_workload *w)
{
    if (l->attention != VR_ATTENTION_RECURRENT)
        return NULL;
    if (l->recurrent != VR_RECURRENT_DELTA && l->recurrent != VR_RECURRENT_MAMBA2)
        return "what its recurrent layers compute is not known storage by storage";
    return w->version_major < 5 ? "what its recurrent layers compute before transformers 5 is not known "
                                  "storage by storage"
                                : NULL;
}

const char *vr_no_tape(const vram_model *m, const vram_workload *w)
{
    if (m->structure == VR_ENCODER_DECODER)
        return "an encoder and a decoder are not rehearsed yet";
    if (m->family->untaped)
        return "what this class computes is not known storage by storage";
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        if (no_tape_of_recurrent(l, w) != NULL)
            return no_tape_of_recurrent(l, w);
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
