/* SPDX-License-Identifier: MIT
 * What a vision tower gave, in the decoder: in the places of the pictures' tokens, and behind its first
 * layers (Qwen2_5_VLModel and Qwen3VLModel, forward; Qwen3VLTextModel, _deepstack_process). */
#include "engine/pass.h"

static vr_block take(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_VISION, VR_PLACE_FEATURES);
}

static uint64_t feature_bytes(const vr_pass *p, const vr_sight *s)
{
    return s->tokens * p->m->hidden * p->width;
}

/* The class returns what the tower gave, from some version on; before, Qwen3-VL named it until it returned.
 */
static void put_aside(vr_pass *p, vr_block x, vr_block *held)
{
    bool names = p->m->tower->form == VR_TOWER_QWEN3;
    *held = VR_NONE;
    if (p->rules->returns_features && p->group->n_seen < VR_MOST_SEEN)
        p->group->seen[p->group->n_seen++] = x;
    else if (names)
        *held = x;
    else
        vr_drop(p, x);
}

/* masked_scatter on CUDA counts where each element goes, in 64 bits, from a copy of the mask as wide as the
 * embeddings. From memory: no run on a card has shown it. */
static void scatter_positions(vr_pass *p)
{
    uint64_t n = p->rows * p->m->hidden;
    vr_block sums = vr_take_at(p, n * 8, VR_ITEM_VISION, VR_PLACE_SCATTERED);
    vr_block mask = vr_take_at(p, n, VR_ITEM_VISION, VR_PLACE_SCATTERED);
    vr_drop(p, mask);
    vr_drop(p, sums);
}

vr_block vr_see(vr_pass *p, vr_block embeddings, vr_sight *s)
{
    vr_block unused;
    vr_look(p, s);
    p->sight = s;
    put_aside(p, s->last, &s->held[0]);
    vr_block all = take(p, feature_bytes(p, s)); /* of all pictures in one */
    put_aside(p, s->features, &s->held[1]);
    s->features = all;
    vr_block out = vr_take_at(p, p->rows * p->m->hidden * p->width, VR_ITEM_HIDDEN, VR_PLACE_EMBEDDING);
    scatter_positions(p);
    vr_drop(p, embeddings);
    for (size_t i = 0; i < s->n_deep && p->rules->returns_features; i++) {
        vr_block copy = take(p, feature_bytes(p, s));
        put_aside(p, s->deep[i], &unused);
        s->deep[i] = copy;
    }
    return out;
}

/* hidden_states.clone(), local = hidden_states[mask] + features, hidden_states[mask] = local */
vr_block vr_deepen(vr_pass *p, vr_block x, vr_block *old)
{
    const vr_sight *s = p->sight;
    *old = VR_NONE;
    if (s == NULL || p->layer >= s->n_deep)
        return x;
    vr_block out = vr_take(p, p->rows * p->m->hidden * p->width, VR_ITEM_HIDDEN, VR_STEP_OUTPUT);
    vr_block places = take(p, s->tokens * 16), chosen = take(p, feature_bytes(p, s));
    vr_drop(p, places);
    vr_block sum = take(p, feature_bytes(p, s));
    vr_drop(p, chosen);
    places = take(p, s->tokens * 16);
    vr_drop(p, places);
    vr_drop(p, sum);
    *old = x;
    return out;
}

void vr_sight_end(vr_pass *p)
{
    vr_sight *s = p->sight;
    vr_drop(p, p->deepened);
    p->deepened = VR_NONE;
    p->sight = NULL;
    if (s == NULL)
        return;
    vr_drop(p, s->features);
    vr_drop(p, s->held[0]);
    vr_drop(p, s->held[1]);
    vr_drop_all(p, s->deep, s->n_deep);
}

void vr_forget_seen(vr_pass *p, vr_group *g)
{
    vr_drop_all(p, g->seen, g->n_seen);
    g->n_seen = 0;
}
