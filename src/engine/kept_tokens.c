/* SPDX-License-Identifier: MIT
 * What the cache keeps of all tokens at the end, for models whose activations are not known: keys, values and
 * states still are. A convolution's state has the model's dtype, a recurrent one 32 bits. */
#include "engine/caches.h"
#include "engine/encdec.h"

static void keep(vr_pass *p, uint64_t bytes, vr_step step)
{
    if (bytes != 0)
        vr_take(p, bytes, VR_ITEM_KV, step);
}

/* The decoder of an encoder keeps its own tokens and the encoder's. */
static void keep_both(vr_pass *p)
{
    const vram_workload *w = p->w;
    const vr_layer *l = vr_layer_of(p);
    uint64_t sequences = w->sequences * vr_beams(w);
    uint64_t own = sequences * (vr_decoder_prompt(p) + w->decode) * l->kv_heads;
    uint64_t cross = sequences * vr_encoded_tokens(p) * l->cross_heads;
    keep(p, (own + cross) * l->key_dim * p->width, VR_STEP_KEYS);
    keep(p, (own + cross) * l->value_dim * p->width, VR_STEP_VALUES);
}

typedef struct columns {
    vr_kept kept;
    uint64_t tokens; /* of all sequences, times the bytes of an element */
} columns;

static columns columns_of(const vr_pass *p)
{
    const vram_workload *w = p->w;
    uint64_t tokens = vr_cache_fixed(w) ? vr_static_room(w, vr_window(p))
                                        : vr_add_sat(vr_add_sat(w->context, w->decode), w->drafts);
    return (columns){ vr_kept_of(vr_layer_of(p), p->rules), tokens * w->sequences * vr_beams(w) * p->width };
}

/* Keys or values of a quantised cache: what is packed, and the last tokens as they are. */
static void keep_packed(vr_pass *p, uint64_t of_token, vr_step step)
{
    const vram_workload *w = p->w;
    uint64_t rest = vr_residual_tokens(w, w->decode), packed = w->context + w->decode - rest;
    keep(p, vr_packed_bytes(w, w->sequences * packed * of_token, p->width), step);
    keep(p, w->sequences * rest * of_token * p->width, step);
}

static void keep_columns(vr_pass *p)
{
    columns c = columns_of(p);
    if (p->w->cache == VR_CACHE_QUANTIZED) {
        keep_packed(p, c.kept.keys, VR_STEP_KEYS);
        keep_packed(p, c.kept.values, VR_STEP_VALUES);
        return;
    }
    keep(p, c.tokens * c.kept.keys, VR_STEP_KEYS);
    keep(p, c.tokens * c.kept.values, VR_STEP_VALUES);
    keep(p, c.tokens * c.kept.index, VR_STEP_INDEX_KEYS);
}

static void keep_states(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t sequences = p->w->sequences * vr_beams(p->w);
    keep(p, sequences * vr_layer_conv_elements(l) * p->width, VR_STEP_CONV_STATE);
    keep(p, sequences * vr_layer_state_elements(l) * 4, VR_STEP_STATE);
}

static void go_to_layer(vr_pass *p, uint64_t layer)
{
    p->layer = layer;
    vr_pass_on(p, p->placement != NULL ? p->placement->layers[layer] : 0);
}

static uint64_t bytes_of(const vr_pass *p)
{
    columns c = columns_of(p);
    return p->elsewhere ? 0 : c.tokens * (c.kept.keys + c.kept.values + c.kept.index);
}

/* The layer of this memory that keeps most, other than `but`; the number of layers: there is none. */
static uint64_t largest_but(vr_pass *p, uint64_t but)
{
    uint64_t largest = p->m->n_layers, most = 0;
    for (uint64_t i = 0; i < p->m->n_layers; i++) {
        go_to_layer(p, i);
        if (i == but || !vr_layer_offloads(p, i) || bytes_of(p) <= most)
            continue;
        most = bytes_of(p);
        largest = i;
    }
    return largest;
}

/* Of an offloaded cache the layer that runs and the next. */
static void keep_two(vr_pass *p)
{
    uint64_t n = p->m->n_layers, first = largest_but(p, n), second = largest_but(p, first);
    const uint64_t both[] = { first, second };
    for (size_t i = 0; i < 2 && both[i] != n; i++) {
        go_to_layer(p, both[i]);
        keep_columns(p);
    }
}

void vr_keep_all(vr_pass *p)
{
    bool both = p->m->structure == VR_ENCODER_DECODER;
    for (uint64_t i = 0; i < p->m->n_layers; i++) {
        go_to_layer(p, i);
        if (both) {
            keep_both(p);
            continue;
        }
        if (!vr_layer_offloads(p, i))
            keep_columns(p);
        keep_states(p);
    }
    if (vr_cache_offloads(p->w) && !both)
        keep_two(p);
}
