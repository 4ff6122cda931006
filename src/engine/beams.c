/* SPDX-License-Identifier: MIT
 * generate(num_beams=...): prompts are repeated for each beam before the first call, so that all runs over
 * sequences x beams; after each call the scores of all words of all beams are kept in 32 bits, and the cache
 * is selected anew, layer by layer (transformers 5, generation/utils.py, _beam_search; cache_utils.py,
 * reorder_cache). Lists of the chosen and what topk sorts in are some KiB and left out. */
#include "engine/caches.h"

uint64_t vr_beams(const vram_workload *w)
{
    return w->beams != 0 ? w->beams : 1;
}

/* The repeated prompts, running_sequences and sequences. */
void vr_beams_begin(vr_pass *p, vr_block lists[3])
{
    uint64_t n = p->w->sequences * vr_beams(p->w) * 8, tokens = p->w->context + p->w->decode;
    bool none = vr_beams(p->w) == 1;
    for (int i = 0; i < 3; i++)
        lists[i] =
            none ? VR_NONE
                 : vr_take_at(p, n * (i == 0 ? p->w->context : tokens), VR_ITEM_INPUTS, VR_PLACE_TOKENS);
}

/* The variables `logits` and `log_probs`, each until it is assigned anew. */
static void score(vr_pass *p, vr_group *g)
{
    uint64_t bytes = g->sequences * p->m->vocab * 4;
    vr_block logits = vr_take_at(p, bytes, VR_ITEM_LOGITS, VR_PLACE_BEAMS);
    vr_drop(p, g->beams[0]);
    vr_block probabilities = vr_take_at(p, bytes, VR_ITEM_LOGITS, VR_PLACE_BEAMS);
    vr_drop(p, g->beams[1]);
    vr_drop(p, g->logits);
    vr_block sum = vr_take_at(p, bytes, VR_ITEM_LOGITS, VR_PLACE_BEAMS);
    vr_drop(p, probabilities);
    g->logits = VR_NONE;
    g->beams[0] = logits;
    g->beams[1] = sum;
}

/* Tokens that the layer's keys are of: of a window what the next token will see. */
static uint64_t kept_tokens(const vr_pass *p, uint64_t past)
{
    uint64_t window = vr_window(p);
    if (vr_cache_fixed(p->w))
        return vr_static_room(p->w, window);
    return window != 0 && past > window - 1 ? window - 1 : past;
}

static void select(vr_pass *p, vr_block *block, uint64_t bytes, vr_step step)
{
    vr_block next = vr_take(p, bytes, VR_ITEM_KV, step);
    vr_drop(p, *block);
    *block = next;
}

void vr_beams_step(vr_pass *p, vr_group *g)
{
    if (vr_beams(p->w) == 1)
        return;
    vr_go_to(p, vr_ends(p).embedding);
    score(p, g);
    for (p->layer = 0; p->layer < p->m->n_layers; p->layer++) {
        const vr_layer *l = vr_layer_of(p);
        uint64_t bytes = g->sequences * l->kv_heads * kept_tokens(p, g->past) * p->width;
        if (bytes == 0) /* a window of one token keeps none */
            continue;
        vr_go_to(p, p->placement != NULL ? p->placement->layers[p->layer] : 0);
        select(p, &g->layers[p->layer].k, bytes * l->key_dim, VR_STEP_KEYS);
        select(p, &g->layers[p->layer].v, bytes * l->value_dim, VR_STEP_VALUES);
    }
    vr_go_to(p, vr_ends(p).embedding);
}
