/* SPDX-License-Identifier: MIT
 * generate(prompt_lookup_num_tokens=...): behind the tokens there are come others that followed the same ones
 * before, or (assistant_model=...) that a smaller model wrote, and one call of the model computes them all;
 * those that the model would not have chosen are cut off the cache, whose storages stay as they are until the
 * next token (transformers, generation/utils.py, _assisted_decoding; cache_utils.py, DynamicLayer.crop; the
 * same in 4.57, 5.17 and 5.24). How many are found and kept depends on the text. Rehearsed is what takes
 * most: drafts of full length in each call, the first included, none of which is kept. The lists of tokens
 * are some KiB and left out. */
#include "engine/caches.h"

#define ASSISTANT_TOKENS 20 /* generation/utils.py, num_assistant_tokens; the same in 4.57 */

static vram_status refuse(const vram_workload *w, const char *why)
{
    return vr_fail(w->ctx, VRAM_ESETTING, T(w->lookup != 0 ? "--prompt-lookup: " : "--assistant: "), T(why));
}

static const char *why_not(const vram_workload *w, const vram_model *m)
{
    if (m->structure == VR_ENCODER)
        return "an encoder generates nothing";
    if (m->source_positions != 0)
        return "how drafts are computed with speech is not known";
    if (w->lookup != 0 && w->assistant_name != NULL)
        return "drafts come from the prompt or from an assistant, not from both";
    if (w->sequences > 1)
        return "generate() does it with one sequence at a time, not with --sequences";
    if (vr_beams(w) > 1)
        return "generate() does not do it with beams";
    if (w->logits == VR_LOGITS_ALL)
        return "generate() computes the logits of the drafts only, not --logits all";
    if (w->cache == VR_CACHE_QUANTIZED)
        return "nothing can be cut off a quantized cache";
    return NULL;
}

/* Of an assistant alone. */
static const char *why_no_assistant(const vram_workload *w, const vram_model *m)
{
    if (w->assistant == NULL)
        return "the model that drafts was not read";
    if (w->device_map != VR_MAP_NONE)
        return "where a device map puts it is not known";
    if (w->images != 0 || m->structure != VR_DECODER || w->assistant->structure != VR_DECODER)
        return "it is known of decoders that read text alone";
    return NULL;
}

vram_status vr_drafts_defaults(vram_workload *w, const vram_model *m)
{
    bool assisted = w->assistant_name != NULL;
    if (w->set_by[VR_SET_ASSISTANT_TOKENS] == VR_BY_USER && !assisted)
        return vr_fail(w->ctx, VRAM_ESETTING, T("--num-assistant-tokens: there is no --assistant"));
    if (assisted && w->assistant_tokens == 0)
        w->assistant_tokens = ASSISTANT_TOKENS;
    w->drafts = assisted ? w->assistant_tokens : w->lookup;
    const char *why = w->drafts != 0 ? why_not(w, m) : NULL;
    if (why == NULL && assisted)
        why = why_no_assistant(w, m);
    return why != NULL ? refuse(w, why) : VRAM_OK;
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
