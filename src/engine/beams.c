/* SPDX-License-Identifier: MIT
 * generate(num_beams=...): prompts are repeated for each beam before the first call, so that all runs over
 * sequences x beams, each with positions of its own; after each call the scores of all words of all beams are
 * kept in 32 bits, the lists of tokens are gathered anew, and so is the cache, layer by layer
 * (transformers 5.24, generation/utils.py, _beam_search; cache_utils.py, reorder_cache). What is kept of a
 * beam but not of its tokens, and what topk sorts in, is some KiB and left out. */
#include "engine/caches.h"

uint64_t vr_beams(const vram_workload *w)
{
    return w->beams != 0 ? w->beams : 1;
}

/* `times` lists of so many tokens each for all beams, in 64 bits */
static vr_block lists(vr_pass *p, const vr_group *g, uint64_t times, uint64_t tokens)
{
    return vr_take_at(p, times * g->sequences * tokens * 8, VR_ITEM_INPUTS, VR_PLACE_TOKENS);
}

/* The prompt, the tokens of all calls, and the last one that is only read. */
static uint64_t longest(const vr_pass *p)
{
    return p->w->context + p->w->decode + 1;
}

static void replace(vr_pass *p, vr_block *x, vr_block next)
{
    vr_drop(p, *x);
    *x = next;
}

void vr_beams_feed(vr_pass *p, vr_group *g, uint64_t q)
{
    vr_search *s = &g->search;
    if (vr_beams(p->w) == 1)
        return;
    if (g->started) { /* the tokens before are a view of the lists that ran */
        replace(p, &s->read, s->running);
        s->running = VR_NONE;
        return;
    }
    s->ids = lists(p, g, 1, q);
    s->places = lists(p, g, 1, q);
    s->running = lists(p, g, 1, longest(p));
    s->finished = lists(p, g, 1, longest(p));
    s->input = lists(p, g, 1, q);
}

/* Positions, with that of the next token; then the variables `logits` and `log_probs`, each until it is
 * assigned anew. */
static void score(vr_pass *p, vr_group *g, uint64_t tokens)
{
    vr_search *s = &g->search;
    uint64_t bytes = g->sequences * p->m->vocab * 4;
    replace(p, &s->more_places, lists(p, g, 1, tokens + 1));
    replace(p, &s->logits, vr_take_at(p, bytes, VR_ITEM_LOGITS, VR_PLACE_BEAMS));
    vr_block probabilities = vr_take_at(p, bytes, VR_ITEM_LOGITS, VR_PLACE_BEAMS);
    vr_drop(p, s->sum);
    vr_drop(p, g->logits);
    g->logits = VR_NONE;
    s->sum = vr_take_at(p, bytes, VR_ITEM_LOGITS, VR_PLACE_BEAMS);
    vr_drop(p, probabilities);
}

/* take_along_dim: indices as many as what is taken */
static vr_block gathered(vr_pass *p, const vr_group *g, uint64_t times)
{
    vr_block index = lists(p, g, times, longest(p)), out = lists(p, g, times, longest(p));
    vr_drop(p, index);
    return out;
}

/* Twice as many as there are beams go on, of which one half runs; the finished ones are chosen among these
 * and those before. */
static void choose(vr_pass *p, vr_group *g)
{
    vr_search *s = &g->search;
    replace(p, &s->best, gathered(p, g, 2));
    replace(p, &s->running, gathered(p, g, 1));
    vr_block merged = lists(p, g, 3, longest(p));
    replace(p, &s->finished, gathered(p, g, 1));
    vr_drop(p, merged);
}

/* Tokens that the layer's keys are of: of a window what the next token will see. */
static uint64_t kept_tokens(const vr_pass *p, uint64_t past)
{
    uint64_t window = vr_window(p);
    if (vr_cache_fixed(p->w))
        return vr_static_room(p->w, window);
    return window != 0 && past > window - 1 ? window - 1 : past;
}

void vr_beams_step(vr_pass *p, vr_group *g)
{
    if (vr_beams(p->w) == 1)
        return;
    uint64_t tokens = g->past; /* those of this call too */
    vr_go_to(p, vr_ends(p).embedding);
    vr_drop(p, g->search.input);
    g->search.input = VR_NONE;
    score(p, g, tokens);
    choose(p, g);
    for (p->layer = 0; p->layer < p->m->n_layers; p->layer++) {
        const vr_layer *l = vr_layer_of(p);
        uint64_t bytes = g->sequences * l->kv_heads * kept_tokens(p, g->past) * p->width;
        if (bytes == 0) /* a window of one token keeps none */
            continue;
        vr_go_to(p, p->placement != NULL ? p->placement->layers[p->layer] : 0);
        vr_replace(p, &g->layers[p->layer].k, vr_take(p, bytes * l->key_dim, VR_ITEM_KV, VR_STEP_KEYS));
        vr_replace(p, &g->layers[p->layer].v, vr_take(p, bytes * l->value_dim, VR_ITEM_KV, VR_STEP_VALUES));
    }
    vr_go_to(p, vr_ends(p).embedding);
}

void vr_beams_end(vr_pass *p, vr_group *g)
{
    const vr_search *s = &g->search;
    const vr_block held[] = { s->ids,     s->places,   s->more_places, s->input,  s->read,
                              s->running, s->finished, s->best,        s->logits, s->sum };
    vr_drop_all(p, held, sizeof held / sizeof *held);
}
