/* SPDX-License-Identifier: MIT
 * Which models have a tape at all. What is described has weights and a cache; its activations are counted
 * only when every kind of layer that it has, is written by a file here. */
#include "engine/caches.h"
#include "engine/loading.h"
#include "model/experts.h"

static const uint8_t attentions[] = { VR_ATTENTION_FULL,   VR_ATTENTION_SLIDING,   VR_ATTENTION_CHUNKED,
                                      VR_ATTENTION_LATENT, VR_ATTENTION_RECURRENT, VR_ATTENTION_NONE };
static const uint8_t mlps[] = { VR_MLP_GATED, VR_MLP_GATED_FUSED, VR_MLP_PLAIN, VR_MLP_EXPERTS, VR_MLP_NONE };

static const char refuses_flash[] = "its class refuses flash attention";

static bool is_in(uint8_t kind, const uint8_t *list, size_t n)
{
    size_t i = 0;
    while (i < n && list[i] != kind)
        i++;
    return i < n;
}

/* DeepSeek-V2 sorted its tokens by experts up to transformers 4. */
static bool runs_scaled(const vr_layer *l, const vram_workload *w)
{
    return l->moe->router == VR_ROUTER_SCALED && l->expert_groups <= 1 && vr_rules_of(w)->fused_experts;
}

/* Its router, its experts' own matrices and what becomes of them are written in experts*.c or beside.c. */
static bool runs_experts(const vr_layer *l, const vram_workload *w)
{
    const struct vr_moe *moe = l->moe;
    if (moe == NULL)
        return false;
    switch (moe->router) {
    case VR_ROUTER_BESIDE:
        return true;
    case VR_ROUTER_WIDE_TOP_SOFTMAX:
    case VR_ROUTER_WIDE_SOFTMAX:
    case VR_ROUTER_GROUPS:
    case VR_ROUTER_CORRECTED:
        return vr_rules_of(w)->fused_experts;
    case VR_ROUTER_SIGMOID:
        if (moe->gate == NULL) /* two matrices an expert: its loop is another */
            return w->experts != VR_EXPERTS_EAGER && vr_rules_of(w)->fused_experts;
        return moe->form != VR_EXPERTS_TRANSPOSED;
    case VR_ROUTER_SOFTMAX:
        return moe->form != VR_EXPERTS_TRANSPOSED || vr_rules_of(w)->fused_experts;
    case VR_ROUTER_SCALED:
        return runs_scaled(l, w);
    case VR_ROUTER_TOP_SOFTMAX:
        return moe->clamped;
    case VR_ROUTER_TOP_SIGMOID:
        return moe->form == VR_EXPERTS_TRANSPOSED;
    default:
        return false;
    }
}

static const char *no_tape_of_experts(const vr_layer *l, const vram_workload *w)
{
    if (!runs_experts(l, w))
        return "what its experts compute is not known storage by storage";
    return vr_quantises(w) ? "what quantised experts compute is not known storage by storage" : NULL;
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

/* Flash attention knows no bias, which T5 has. */
static const char *no_tape_of_encdec(const vram_model *m, const vram_workload *w)
{
    bool usual = w->cache == VR_CACHE_DYNAMIC && vr_beams(w) == 1 && w->drafts == 0;
    if (w->attention == VR_IMPL_FLASH && m->bias_buckets != 0)
        return refuses_flash;
    if (!usual || vr_quantises(w))
        return "what this encoder and decoder compute is not known storage by storage";
    return NULL;
}

static const char *no_tape_of_kernel(const vr_layer *l, const vram_workload *w)
{
    bool flash = w->attention == VR_IMPL_FLASH;
    if (flash && (l->attention == VR_ATTENTION_CHUNKED || l->index_topk != 0))
        return refuses_flash;
    if (flash && l->key_dim > 256)
        return "flash attention knows no heads wider than 256";
    if (l->index_topk == 0)
        return NULL;
    return vr_rules_of(w)->latent_cache
               ? NULL
               : "sparse attention before transformers 5.15 is not known storage by storage";
}

/* Where what is shared by layers goes with a device map is not worked out. */
static const char *no_tape_of_shared(const vr_layer *l, const vram_workload *w)
{
    bool shares = l->kv_from != 0 || l->side_width != 0;
    return shares && w->device_map != VR_MAP_NONE
               ? "where what its layers share goes with a device map is not known"
               : NULL;
}

/* Searching with beams was written anew for version 5; what else than keys and values is put in order differs
 * by class. */
static const char *no_tape_of_beams(const vr_layer *l, const vram_workload *w)
{
    bool known = w->version_major >= 5 && !vr_cache_offloads(w) && w->cache != VR_CACHE_QUANTIZED &&
                 (l->attention == VR_ATTENTION_FULL || l->attention == VR_ATTENTION_SLIDING);
    return vr_beams(w) == 1 || known ? NULL : "what beams take here is not known storage by storage";
}

/* Lengths of a static one were counted outside before; flash attention cuts its keys in ways of its own.
 * Offloading was a class of its own before caches had layers (4.56). */
static const char *no_tape_of_cache(const vr_layer *l, const vram_workload *w)
{
    bool plain =
        (l->attention == VR_ATTENTION_FULL || l->attention == VR_ATTENTION_SLIDING) && l->kv_from == 0;
    bool fixed = w->version_major * 100 + w->version_minor >= 517 && w->attention != VR_IMPL_FLASH && plain;
    if (vr_cache_fixed(w) && !fixed)
        return "what a static cache takes here is not known storage by storage";
    if (vr_cache_offloads(w) && (!plain || vr_rules_of(w)->appends))
        return "what an offloaded cache takes here is not known storage by storage";
    return NULL;
}

/* What a window cuts off comes back, and a state does not: other caches than the usual are not known. */
static const char *no_tape_of_drafts(const vr_layer *l, const vram_workload *w)
{
    bool known =
        w->cache == VR_CACHE_DYNAMIC && l->attention == VR_ATTENTION_FULL && !vr_rules_of(w)->appends;
    return w->drafts == 0 || known ? NULL : "what drafts take here is not known storage by storage";
}

static const char *no_tape_of_layer(const vr_layer *l, const vram_workload *w)
{
    const char *why = no_tape_of_recurrent(l, w);
    if (why == NULL)
        why = no_tape_of_cache(l, w);
    if (why == NULL)
        why = no_tape_of_beams(l, w);
    if (why == NULL)
        why = no_tape_of_shared(l, w);
    if (why == NULL)
        why = no_tape_of_drafts(l, w);
    if (why != NULL)
        return why;
    if (!is_in(l->attention, attentions, sizeof attentions) || (l->sinks && w->attention != VR_IMPL_EAGER))
        return "what its kind of attention computes is not known storage by storage";
    if (!is_in(l->mlp, mlps, sizeof mlps))
        return "what its experts compute is not known storage by storage";
    why = no_tape_of_kernel(l, w);
    return why == NULL && l->experts != 0 ? no_tape_of_experts(l, w) : why;
}

static const char *no_tape_of_images(const vram_model *m, const vram_workload *w)
{
    if (w->cache != VR_CACHE_DYNAMIC || vr_beams(w) > 1 || w->drafts != 0)
        return "pictures with beams, drafts or another cache than the dynamic one are not known storage by "
               "storage";
    if (!vr_tower_runs(m))
        return "what its vision tower computes is not known storage by storage; leave --images out to see "
               "what "
               "text alone takes";
    return w->device_map != VR_MAP_NONE || vr_quantises(w)
               ? "where a vision tower's results go with a device map or quantisation is not known"
               : vr_no_look(m, w);
}

/* Of a quantised cache only plain layers are known, and not what it was before caches had layers. */
/* Before transformers 5 each class of Mambas had a cache of its own, in the model's dtype, which some filled
 * with wider states (jamba, bamba, zamba2: HybridMambaAttentionDynamicCache). */
static bool has_older_states(const vram_model *m, const vram_workload *w)
{
    for (uint64_t i = 0; i < m->n_layers && w->version_major < 5; i++) {
        uint8_t kind = m->layers[i].recurrent;
        bool one = kind == VR_RECURRENT_MAMBA1 || kind == VR_RECURRENT_MAMBA2 || kind == VR_RECURRENT_LRU;
        if (one && vr_layer_keeps_state(&m->layers[i]))
            return true;
    }
    return false;
}

const char *vr_no_cache(const vram_model *m, const vram_workload *w)
{
    if (m->structure == VR_ENCODER_DECODER && vr_cache_offloads(w))
        return "what an encoder and its decoder offload is not known";
    if (has_older_states(m, w))
        return "what its recurrent layers keep before transformers 5 differs from class to class";
    if (w->cache != VR_CACHE_QUANTIZED)
        return NULL;
    for (uint64_t i = 0; i < m->n_layers; i++)
        if (m->layers[i].attention != VR_ATTENTION_FULL || vr_layer_keeps_state(&m->layers[i]) ||
            vr_rules_of(w)->appends)
            return "what a quantised cache keeps here is not known";
    return NULL;
}

static const char *no_tape_of_structure(const vram_model *m, const vram_workload *w)
{
    if (m->family->untaped || w->version_major * 100 + w->version_minor < m->family->taped_from)
        return "what this class computes is not known storage by storage";
    if (m->structure == VR_ENCODER_DECODER)
        return no_tape_of_encdec(m, w);
    if (m->structure == VR_ENCODER)
        return vr_quantises(w) ? "what this encoder computes is not known storage by storage" : NULL;
    bool usual =
        w->attention == VR_IMPL_EAGER && w->cache == VR_CACHE_DYNAMIC && w->device_map == VR_MAP_NONE;
    if (m->family->alibi && (!usual || vr_beams(w) > 1))
        return "what this class computes is known with eager attention and the usual cache on one card only";
    if (w->images != 0 && no_tape_of_images(m, w) != NULL)
        return no_tape_of_images(m, w);
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const char *why = no_tape_of_layer(&m->layers[i], w);
        if (why != NULL)
            return why;
    }
    return NULL;
}

const char *vr_no_tape(const vram_model *m, const vram_workload *w)
{
    const char *why = no_tape_of_structure(m, w);
    bool unknown = why == NULL && m->activation == VR_ACT_UNKNOWN;
    return unknown ? "its activation function is not known storage by storage" : why;
}
