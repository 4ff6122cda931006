/* SPDX-License-Identifier: MIT
 * Assisted decoding: a smaller model on the same card drafts tokens, which the other one computes all at once
 * (transformers, generation/candidate_generator.py, AssistedCandidateGenerator). Before each call of the
 * other one it runs once for each token of the draft, with a cache of its own, and hands over the scores of
 * all words for each of them, in 32 bits. Its weights are loaded after the others. Of a draft its first and
 * its last token are rehearsed: between them its cache grows by a token each. What recorded runs show of the
 * order (5.24, a llama with a llama) is kept. */
#include "engine/caches.h"
#include "engine/loading.h"

struct vr_assistant {
    vr_pass pass;
    vr_group group;
    vr_block scores; /* of the last draft, or VR_NONE */
    struct vr_prepared own;
    const struct vr_prepared *from;
};

vram_status vram_workload_assist(vram_workload *w, const vram_model *assistant)
{
    w->assistant = assistant;
    return VRAM_OK;
}

/* As the other model is run, where nobody says otherwise: types and kernels by its own class. */
static vram_workload workload_of(const vram_workload *w)
{
    vram_workload own = *w;
    own.assistant = NULL;
    own.assistant_name = NULL;
    own.drafts = own.lookup = own.assistant_tokens = 0;
    own.prepared = NULL;
    own.prefill_batch = own.sequences = 1;
    if (w->set_by[VR_SET_DTYPE] != VR_BY_USER)
        own.dtype = VR_DTYPE_NONE;
    if (w->set_by[VR_SET_ATTENTION] != VR_BY_USER)
        own.attention = VR_IMPL_SDPA;
    own.set_by[VR_SET_ASSISTANT] = own.set_by[VR_SET_ASSISTANT_TOKENS] = VR_BY_DEFAULT;
    return own;
}

vram_status vr_assistant_open(vr_pass *p)
{
    const vram_model *m = p->w->assistant;
    if (m == NULL)
        return VRAM_OK;
    struct vr_assistant *a = VR_NEW(p->arena, struct vr_assistant);
    vr_kv *layers = VR_ARRAY(p->arena, vr_kv, (size_t)m->n_layers);
    vram_workload asked = workload_of(p->w), *own;
    size_t warned = p->w->ctx->n_warnings; /* the same that the other model's settings gave */
    if (a == NULL || layers == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_workload_resolve(&own, &asked, m, p->arena));
    p->w->ctx->n_warnings = warned;
    a->pass = *p;
    a->pass.m = m;
    a->pass.w = own;
    a->pass.prefix = "assistant ";
    a->pass.width = vr_dtype_bits(own->dtype) / 8;
    a->scores = VR_NONE;
    a->group = (vr_group){ .sequences = 1, .layers = layers, .logits = VR_NONE };
    VR_TRY(vr_prepared_of(&a->from, &a->own, m, own, p->arena));
    p->assistant = a;
    return vr_pass_open(&a->pass);
}

/* The words of two vocabularies go through both tokenizers, which generate() wants then (utils.py,
 * _validate_assistant), and no scores are handed over (AssistedCandidateGeneratorDifferentTokenizers). */
const char *vr_no_assistant(const vr_pass *p)
{
    if (p->assistant == NULL)
        return NULL;
    const vram_model *m = p->assistant->pass.m;
    const vram_workload *w = p->assistant->pass.w;
    if (m->family == NULL || p->assistant->from->params.refused != NULL || m->cache_unknown != NULL)
        return "what the assistant is, is not known";
    if (p->m->family != NULL && m->vocab != p->m->vocab)
        return "how an assistant with another vocabulary drafts, through both tokenizers, is not known";
    if (m->quantised || m->uncounted_part != NULL || vr_no_tape(m, w) != NULL)
        return "what the assistant computes is not known storage by storage";
    for (uint64_t i = 0; i < m->n_layers; i++)
        if (m->layers[i].attention != VR_ATTENTION_FULL) /* what was cut off may be needed again */
            return "what an assistant keeps of other layers than full attention is not known";
    return NULL;
}

vram_status vr_assistant_load(vr_pass *p, uint64_t *bytes, uint64_t *elements)
{
    *bytes = *elements = 0;
    if (p->assistant == NULL)
        return VRAM_OK;
    if (vr_no_assistant(p) == NULL)
        VR_TRY(vr_check_limits(&p->assistant->pass));
    return vr_load(&p->assistant->pass, p->assistant->from, bytes, elements);
}

void vr_assistant_keep(vr_pass *p)
{
    if (p->assistant != NULL && vr_no_assistant(p) == NULL)
        vr_keep_all(&p->assistant->pass);
}

/* Both work in the same workspaces of cuBLAS. */
static void hand_over(const vr_pass *from, vr_pass *to)
{
    to->workspace = from->workspace;
    to->lt_workspace = from->lt_workspace;
    to->has_kernels = from->has_kernels;
}

static vr_block scores_of(vr_pass *own, uint64_t tokens)
{
    return tokens == 0 ? VR_NONE
                       : vr_take_at(own, tokens * own->m->vocab * 4, VR_ITEM_LOGITS, VR_PLACE_DRAFTS);
}

void vr_assistant_draft(vr_pass *p, const vr_group *g)
{
    struct vr_assistant *a = p->assistant;
    uint64_t n = p->w->drafts, q = g->past == 0 ? p->w->context : 1;
    if (a == NULL)
        return;
    vr_pass *own = &a->pass;
    vr_block parts[3] = { VR_NONE, VR_NONE, VR_NONE };
    hand_over(p, own);
    a->group.past = g->past;
    vr_forward(own, &a->group, q);
    parts[0] = scores_of(own, 1);
    if (n > 1) {
        parts[1] = scores_of(own, n - 2);
        a->group.past = g->past + q + n - 2;
        vr_forward(own, &a->group, 1);
        parts[2] = scores_of(own, 1);
    }
    vr_drop(own, a->group.logits);
    a->group.logits = VR_NONE;
    vr_block all = scores_of(own, n);
    for (int i = 0; i < 3; i++)
        vr_drop(own, parts[i]);
    vr_drop(own, a->scores);
    a->scores = all;
    hand_over(own, p);
}

void vr_assistant_end(vr_pass *p)
{
    struct vr_assistant *a = p->assistant;
    for (uint64_t i = 0; a != NULL && i < a->pass.m->n_layers; i++) {
        vr_drop(p, a->group.layers[i].window);
        vr_drop(p, a->group.layers[i].k);
        vr_drop(p, a->group.layers[i].v);
    }
    if (a != NULL)
        vr_drop(p, a->scores);
}
