/* SPDX-License-Identifier: MIT
 * Positions and masks of a pass: masking_utils.py, and what classes had before it. */
#include "engine/pass.h"

static vr_block input(vr_pass *p, uint64_t bytes, vr_place place)
{
    return vr_take_at(p, bytes, VR_ITEM_INPUTS, place);
}

/* arange(n), and from some version on the sum with an offset in its place */
vr_block vr_range(vr_pass *p, uint64_t n, bool sum)
{
    vr_block plain = input(p, n * 8, VR_PLACE_POSITIONS);
    if (!sum)
        return plain;
    vr_block moved = input(p, n * 8, VR_PLACE_POSITIONS);
    vr_drop(p, plain);
    return moved;
}

/* ---- masks ---- */

static vr_block flags(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_SCORES, VR_PLACE_MASK);
}

/* kv <= q */
static vr_block causal(vr_pass *p, uint64_t kv)
{
    return flags(p, p->q * kv);
}

/* new_ones() & (kv > q - window) & (kv <= q): masking_utils.py, and_masks */
static vr_block causal_in_window(vr_pass *p, uint64_t kv)
{
    vr_block ones = flags(p, p->rules->plain_masks ? 1 : p->q);
    vr_block start = input(p, p->q * 8, VR_PLACE_POSITIONS);
    vr_block inside = flags(p, p->q * kv);
    vr_drop(p, start);
    vr_block both = flags(p, p->q * kv);
    vr_drop(p, inside);
    vr_drop(p, ones);
    vr_block before = causal(p, kv);
    vr_block all = flags(p, p->q * kv);
    vr_drop(p, before);
    vr_drop(p, both);
    return all;
}

/* sdpa_mask: index ranges, then the comparison of all with all */
static vr_block bool_mask(vr_pass *p, uint64_t window, uint64_t kv)
{
    bool plain = p->rules->plain_masks;
    vr_block keys = plain ? VR_NONE : vr_range(p, kv, false);
    vr_block batch = vr_range(p, p->batch, false), head = vr_range(p, 1, false);
    vr_block queries = plain ? vr_range(p, p->q, true) : VR_NONE;
    if (plain)
        keys = vr_range(p, kv, true);
    vr_block mask = window != 0 ? causal_in_window(p, kv) : causal(p, kv);
    vr_drop(p, batch);
    vr_drop(p, head);
    vr_drop(p, queries);
    vr_drop(p, keys);
    return mask;
}

/* eager_mask: 0 and the least number where the mask says so, for every sequence */
static vr_block added_mask(vr_pass *p, uint64_t kv, vr_block mask)
{
    vr_block zero = flags(p, p->width), least = flags(p, p->width);
    vr_block out = flags(p, p->batch * p->q * kv * p->width);
    vr_drop(p, least);
    vr_drop(p, zero);
    vr_drop(p, mask);
    return out;
}

vr_block vr_added_mask(vr_pass *p, uint64_t kv)
{
    return added_mask(p, kv, bool_mask(p, 0, kv));
}

/* _ignore_causal_mask_sdpa: without padding, a window that everything fits in needs no mask; flash needs none
 * ever. */
static vr_block make_mask(vr_pass *p, uint64_t window)
{
    uint64_t kv = vr_kv_length(p, window);
    if (p->w->attention == VR_IMPL_FLASH)
        return VR_NONE;
    if (p->w->attention == VR_IMPL_EAGER)
        return added_mask(p, kv, bool_mask(p, window, kv));
    if (p->m->layers[0].index_topk != 0) /* allow_is_causal_skip=False */
        return bool_mask(p, window, kv);
    return window != 0 && kv >= window ? bool_mask(p, window, kv) : VR_NONE;
}

static uint64_t sliding_window(const vram_model *m)
{
    for (uint64_t i = 0; i < m->n_layers; i++) {
        if (m->layers[i].attention == VR_ATTENTION_SLIDING)
            return m->layers[i].window;
    }
    return 0;
}

/* Qwen2MoeModel and OlmoeModel._update_causal_mask of transformers 4: over one more key than there are. */
static vr_block early_mask(vr_pass *p)
{
    uint64_t kv = vr_kv_length(p, 0) + 1;
    if (p->w->attention != VR_IMPL_EAGER)
        return VR_NONE;
    vr_block mask = flags(p, p->q * kv * p->width);
    if (!p->m->family->both_masks && p->q > 1) { /* without windows: torch.triu */
        vr_block upper = flags(p, p->q * kv * p->width);
        vr_drop(p, mask);
        mask = upper;
    }
    vr_block keys = vr_range(p, kv, false);
    vr_block later = flags(p, p->q * kv);
    vr_drop(p, keys);
    vr_drop(p, later);
    return mask;
}

/* A sliding window of 0 that no layer has. */
static vr_block idle_mask(vr_pass *p)
{
    uint64_t kv = vr_kv_length(p, 0);
    if (p->w->attention == VR_IMPL_FLASH)
        return VR_NONE;
    vr_block mask = bool_mask(p, 1, kv);
    return p->w->attention == VR_IMPL_EAGER ? added_mask(p, kv, mask) : mask;
}

/* llama knows no window; mistral and phi3 make one mask, qwen and gemma one for each kind of layer. */
void vr_make_masks(vr_pass *p)
{
    const vram_model *m = p->m;
    uint64_t window = sliding_window(m);
    bool one = m->family->window_rule == VR_WINDOW_ATTRIBUTE;
    bool five = p->rules->plain_masks;
    if (m->family->early_masks && !five && window == 0) {
        p->full_mask = early_mask(p);
        return;
    }
    p->full_mask = one && window != 0 ? VR_NONE : make_mask(p, 0);
    p->sliding_mask = window != 0 ? make_mask(p, window) : VR_NONE;
    if (m->family->both_masks && five && window == 0)
        p->sliding_mask = idle_mask(p);
}
