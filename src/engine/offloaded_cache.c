/* SPDX-License-Identifier: MIT
 * A cache that lies in host memory (cache_implementation="offloaded" and "offloaded_static"; transformers,
 * cache_utils.py: Cache.update, prefetch and offload; the same in 4.56 to 5.24). While a layer runs the next
 * one's keys and values come back, on a stream of their own: PyTorch's allocator keeps their blocks apart
 * from all others. Behind the last layer follows the first, which then waits on the card for the next token.
 * A layer's own are copied to the host as soon as they are updated; only the attention still reads them. */
#include "engine/caches.h"

bool vr_cache_offloads(const vram_workload *w)
{
    return w->cache == VR_CACHE_OFFLOADED || w->cache == VR_CACHE_OFFLOADED_STATIC;
}

/* offload_only_non_sliding: static caches have it, others not. */
bool vr_layer_offloads(const vr_pass *p, uint64_t layer)
{
    if (!vr_cache_offloads(p->w))
        return false;
    return !vr_cache_fixed(p->w) || p->m->layers[layer].attention != VR_ATTENTION_SLIDING;
}

/* The next one that is offloaded, from the first again behind the last. */
static uint64_t next_of(const vr_pass *p)
{
    uint64_t n = p->m->n_layers, next = (p->layer + 1) % n;
    while (next != p->layer && !vr_layer_offloads(p, next))
        next = (next + 1) % n;
    return next;
}

/* Tokens of p->layer that the host has, of which `past` have passed. */
static uint64_t host_tokens(const vr_pass *p, uint64_t past)
{
    uint64_t window = vr_window(p);
    if (past == 0 || vr_cache_fixed(p->w))
        return past == 0 ? 0 : vr_static_room(p->w, window);
    return window != 0 && past > window - 1 ? window - 1 : past;
}

/* The stream is one of the first card; on others `with stream` changes nothing. */
static vr_block bring(vr_pass *p, uint64_t bytes, vr_step step)
{
    uint8_t stream = p->gpu == 0 ? p->group->stream : 0;
    return p->elsewhere ? VR_ELSEWHERE
                        : vr_tape_alloc_on(p->tape, bytes, VR_ITEM_KV, vr_pass_label(p, step), stream, 0);
}

static uint16_t device_of(const vr_pass *p, uint64_t layer)
{
    return p->placement != NULL ? p->placement->layers[layer] : 0;
}

void vr_prefetch(vr_pass *p)
{
    uint64_t now = p->layer, next = next_of(p);
    p->layer = next;
    vr_kv *kv = &p->group->layers[next];
    const vr_layer *l = vr_layer_of(p);
    uint64_t heads = p->batch * l->kv_heads * p->width;
    uint64_t tokens =
        vr_layer_offloads(p, next) ? host_tokens(p, p->group->past + (next < now ? p->q : 0)) : 0;
    if (kv->k == VR_NONE && tokens != 0) {
        vr_go_to(p, device_of(p, next));
        kv->k = bring(p, heads * tokens * l->key_dim, VR_STEP_KEYS);
        kv->v = bring(p, heads * tokens * l->value_dim, VR_STEP_VALUES);
        vr_go_to(p, device_of(p, now));
    }
    p->layer = now;
}

/* What is kept of a window is a part of each row of a storage, which CUDA gathers before it leaves
 * (ATen/native/cuda/Copy.cu, copy_requires_temporaries). */
static void gather(vr_pass *p, uint64_t dim)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t rows = p->batch * l->kv_heads, tokens = host_tokens(p, p->group->past + p->q);
    if (rows > 1 && tokens != 0)
        vr_drop(p, vr_take_at(p, rows * tokens * dim * p->width, VR_ITEM_KV, VR_PLACE_LEAVING));
}

void vr_offload(vr_pass *p, vr_block *keys, vr_block *values)
{
    vr_kv *kv = &p->group->layers[p->layer];
    uint64_t window = vr_window(p);
    if (!vr_layer_offloads(p, p->layer))
        return;
    if (window != 0 && vr_kv_length(p, window) > window - 1) {
        gather(p, vr_layer_of(p)->key_dim);
        gather(p, vr_layer_of(p)->value_dim);
    }
    *keys = kv->k;
    *values = kv->v;
    kv->k = kv->v = VR_NONE;
}
