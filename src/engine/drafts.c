/* SPDX-License-Identifier: MIT
 * generate(prompt_lookup_num_tokens=...): behind the tokens there are come others that followed the same ones
 * before, and one call of the model computes them all; those that the model would not have chosen are cut off
 * the cache, whose storages stay as they are until the next token (transformers, generation/utils.py,
 * _assisted_decoding; cache_utils.py, DynamicLayer.crop; the same in 4.57, 5.17 and 5.24). How many are found
 * and kept depends on the text. Rehearsed is what takes most: drafts of full length in each call, the first
 * included, none of which is kept. The lists of tokens are some KiB and left out. */
#include "engine/caches.h"

static vram_status refuse(const vram_workload *w, const char *why)
{
    return vr_fail(w->ctx, VRAM_ESETTING, T("--prompt-lookup "), U(w->drafts), T(": "), T(why));
}

vram_status vr_drafts_check(const vram_workload *w, const vram_model *m)
{
    if (w->drafts == 0)
        return VRAM_OK;
    if (m->structure == VR_ENCODER)
        return refuse(w, "an encoder generates nothing");
    if (w->sequences > 1)
        return refuse(w, "generate() does it with one sequence at a time, not with --sequences");
    if (vr_beams(w) > 1)
        return refuse(w, "generate() does not do it with beams");
    if (w->logits == VR_LOGITS_ALL)
        return refuse(w, "generate() computes the logits of the drafts only, not --logits all");
    if (w->cache == VR_CACHE_QUANTIZED)
        return refuse(w, "nothing can be cut off a quantized cache");
    return VRAM_OK;
}

uint64_t vr_logits_rows(const vr_pass *p)
{
    return p->w->logits == VR_LOGITS_ALL ? p->rows : p->batch * (1 + p->w->drafts);
}

/* In 32 bits, unless they are: new_logits, and next_token_logits, its copy; each variable until it is
 * assigned anew. Then the cache is cut. */
void vr_drafts_step(vr_pass *p, vr_group *g)
{
    uint64_t bytes = g->sequences * (1 + p->w->drafts) * p->m->vocab * 4;
    if (p->w->drafts == 0)
        return;
    vr_go_to(p, vr_ends(p).embedding);
    for (int i = p->width == 4 ? 1 : 0; i < 2; i++) {
        vr_block next = vr_take_at(p, bytes, VR_ITEM_LOGITS, VR_PLACE_DRAFTS);
        vr_drop(p, g->scores[i]);
        g->scores[i] = next;
    }
    g->past -= p->w->drafts;
}
