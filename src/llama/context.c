/* SPDX-License-Identifier: MIT
 * Compute buffers: the graphs that a context reserves memory for before it runs anything.
 *
 * Source: llama.cpp b10470, src/llama-context.cpp: sched_reserve, graph_reserve, resolve_fused_ops. */
#include "llama/adapted.h"
#include "llama/traits.h"

/* What a file may ask for at most: llama.cpp's own limits. */
#define MOST_LAYERS 512
#define MOST_EXPERTS 512

static vram_status no_memory(const vr_arena *a)
{
    return a->ctx->error.code != VRAM_OK ? a->ctx->error.code : VRAM_ENOMEM;
}

/* Room for what the graph makes on first use. */
static bool make_room(vr_lm_graph *c)
{
    const vr_lm *lm = c->lm;
    vr_arena *a = c->arena;
    c->layer_weights = VR_ARRAY(a, vr_t *, lm->n_layer_all);
    c->outside_weights = VR_ARRAY(a, vr_t, lm->n_outside);
    c->copies = VR_ARRAY(a, vr_t, lm->n_outside * c->plan->machine.n_bufts);
    c->kept = VR_ARRAY(a, vr_lm_kept, lm->n_layer_all);
    c->fused_room = 8 * (size_t)lm->n_layer_all;
    c->fused = VR_ARRAY(a, vr_lm_fused_node, c->fused_room);
    if (c->layer_weights == NULL || c->outside_weights == NULL || c->copies == NULL || c->kept == NULL ||
        c->fused == NULL)
        return false;
    for (uint32_t il = 0; il < lm->n_layer_all; il++) {
        c->layer_weights[il] = VR_ARRAY(a, vr_t, lm->layers[il].n_weights);
        if (c->layer_weights[il] == NULL)
            return false;
    }
    return vr_lm_adapted_room(c);
}

vram_status vr_lm_graph_make(vr_lm_graph *c, vr_gg *g, const vr_lm *lm, const vr_lm_params *p,
                             const vr_lm_plan *plan, vr_lm_settled settled, vr_lm_batch batch)
{
    uint64_t n_seqs = batch.n_seqs > 0 ? batch.n_seqs : 1;
    uint64_t each = vr_round_up(batch.n_tokens, n_seqs) / n_seqs;
    *c = (vr_lm_graph){ .g = g,
                        .arena = g->arena,
                        .lm = lm,
                        .p = p,
                        .plan = plan,
                        .settled = settled,
                        .full_offload = p->n_gpu_layers > lm->n_layer_all,
                        .n_tokens = vr_mul_sat(each, n_seqs),
                        .n_seqs = n_seqs,
                        .n_seq_tokens = each,
                        .n_outputs = batch.n_outputs,
                        .pins = batch.pins,
                        .hands_on = batch.hands_on,
                        .pos_per_token = 1 };
    vr_gg_reset(g);
    if (!make_room(c))
        return no_memory(g->arena);
    (p->predicts ? vr_lm_predicted_find(lm->name) : lm->arch)->build(c);
    if (p->control_vector && !c->controlled)
        vr_lm_broken(c, "where control vectors enter this graph is not known here");
    vr_lm_build_pooling(c);
    vr_lm_build_sampling(c);
    return g->failed ? no_memory(g->arena) : VRAM_OK;
}

/* ---- fused operations ---- */

typedef struct context {
    const vr_lm *lm;
    const vr_lm_params *p;
    const vr_lm_plan *plan;
    vr_arena *a;
    vr_gg g;
    vr_lm_settled settled;
    bool hands_on;      /* the graph hands all rows on to a second context */
    bool alone;         /* the graph is of one sequence */
    const char *broken; /* by the file's shapes */
} context;

static vram_status make(context *x, vr_lm_graph *c, uint64_t n_tokens, uint64_t n_outputs, bool pins)
{
    const vr_lm_rules *r = &x->plan->rules;
    vr_lm_batch batch = { n_tokens, r->worst_seqs != 0 && !x->alone ? x->plan->n_seq_max : 1, n_outputs, pins,
                          x->hands_on };
    /* tokens are a multiple of the sequences, and all of them were answered to */
    uint64_t raised = vr_round_up(n_tokens, batch.n_seqs > 0 ? batch.n_seqs : 1);
    if (r->server_outputs == 0 && raised > n_tokens)
        batch.n_outputs = raised;
    VR_TRY(vr_lm_graph_make(c, &x->g, x->lm, x->p, x->plan, x->settled, batch));
    x->broken = x->g.broken;
    return VRAM_OK;
}

static vram_status reserve(context *x, vr_gg_reserved *r, vr_lm_graph *c, uint64_t n_tokens,
                           uint64_t n_outputs, bool pins)
{
    VR_TRY(make(x, c, n_tokens, n_outputs, pins));
    return x->broken == NULL ? vr_gg_reserve(r, &x->g, &x->plan->machine, x->a) : VRAM_OK;
}

/* Whether every fused node of the kind runs on the device of its layer; *any: there is one. */
static bool on_own_device(const vr_lm_graph *c, vr_lm_fused_kind kind, bool *any)
{
    for (size_t i = 0; i < c->n_fused; i++) {
        const vr_lm_fused_node *f = &c->fused[i];
        if (f->kind != kind)
            continue;
        *any = true;
        int b = f->t->backend;
        if (b < 0 || c->plan->backend_device[b] != c->plan->layer_device[f->il])
            return false;
    }
    return true;
}

/* A graph with the operation fused is split over the machine; where it does not land on its layer's device,
 * the operation is not fused. */
static vram_status resolve(context *x, vr_lm_fused_kind kind, bool *fused, uint64_t tokens_per_seq)
{
    vr_gg_reserved r;
    vr_lm_graph c;
    uint64_t n = vr_mul_sat(tokens_per_seq, x->plan->n_seq_max);
    VR_TRY(reserve(x, &r, &c, n, n, true));
    bool any = false;
    if (x->broken == NULL)
        *fused = on_own_device(&c, kind, &any);
    return VRAM_OK;
}

static bool has_fused(const vr_lm_graph *c, vr_lm_fused_kind kind)
{
    for (size_t i = 0; i < c->n_fused; i++) {
        if (c->fused[i].kind == kind)
            return true;
    }
    return false;
}

static vram_status resolve_all(context *x)
{
    vr_lm_graph c;
    VR_TRY(make(x, &c, x->plan->n_seq_max, x->plan->n_seq_max, true));
    if (x->broken != NULL)
        return VRAM_OK;
    bool delta = has_fused(&c, VR_LM_FUSED_GDN_AR) || has_fused(&c, VR_LM_FUSED_GDN_CH);
    bool indexer = has_fused(&c, VR_LM_FUSED_LID), hyper = has_fused(&c, VR_LM_FUSED_HC_COMB);
    if (x->p->flash_auto && x->settled.flash_attn)
        VR_TRY(resolve(x, VR_LM_FUSED_FLASH, &x->settled.flash_attn, 1));
    if (delta && x->plan->rules.fused_delta < 3) {
        VR_TRY(resolve(x, VR_LM_FUSED_GDN_AR, &x->settled.fused_gdn_ar, 1));
        VR_TRY(resolve(x, VR_LM_FUSED_GDN_CH, &x->settled.fused_gdn_ch, 16));
    }
    if (indexer && x->plan->rules.fused_delta < 3)
        VR_TRY(resolve(x, VR_LM_FUSED_LID, &x->settled.fused_lid, 1));
    if (hyper) {
        VR_TRY(resolve(x, VR_LM_FUSED_HC_PRE, &x->settled.fused_hc_pre, 1));
        VR_TRY(resolve(x, VR_LM_FUSED_HC_COMB, &x->settled.fused_hc_comb, 1));
        VR_TRY(resolve(x, VR_LM_FUSED_HC_POST, &x->settled.fused_hc_post, 1));
    }
    return VRAM_OK;
}

/* ---- sizes ---- */

static void keep_most(vr_lm_sizes *out, const vr_lm_plan *plan, const vr_gg_reserved *r)
{
    for (size_t b = 0; b < plan->machine.n_backends; b++) {
        uint8_t buft = plan->machine.backends[b].buft;
        uint64_t *to = &vr_lm_memory_of(out, plan, buft)->compute;
        *to = r->bytes[b] > *to ? r->bytes[b] : *to;
    }
    if (r->n_nodes > out->n_nodes) {
        out->n_nodes = r->n_nodes;
        out->n_splits = r->n_splits;
    }
}

static void not_known(vr_lm_sizes *out, const vr_lm_plan *plan, const char *why)
{
    for (size_t i = 0; i < plan->n_devices; i++)
        out->device[i].compute = 0;
    out->pinned.compute = out->host.compute = 0;
    out->compute_known = false;
    if (out->why == NULL)
        out->why = why;
}

static const char *cannot(const vr_lm *lm, const vr_lm_params *p, const vr_lm_plan *plan)
{
    if (plan->rules.compute == VR_LM_COMPUTE_NO)
        return "compute buffers of builds before b2129 are not known here";
    if (lm->arch == NULL)
        return lm->why_no_graph;
    if (p->predicts && vr_lm_predicted_find(lm->name) == NULL)
        return "the graph of this architecture's layers that predict is not known here";
    if (plan->caches_unknown != NULL)
        return plan->caches_unknown;
    if (lm->n_layer_all > MOST_LAYERS || lm->n_expert > MOST_EXPERTS || lm->n_layer == 0)
        return "more layers or experts than llama.cpp takes";
    return NULL;
}

/* A decay for each pair of tokens of a sequence: one sequence with all tokens takes the most. */
static bool reserved_alone(const context *x)
{
    return x->plan->rules.decay_alone != 0 && vr_lm_has(x->lm, VR_LM_PAIR_DECAY);
}

/* Once the second context is there, rows are handed on to it, and buffers grow where that takes more. */
static vram_status reserve_handing(context *x, vr_lm_sizes *out, uint64_t n_tokens, uint64_t n_outputs)
{
    vr_gg_reserved r;
    vr_lm_graph c;
    x->hands_on = true;
    VR_TRY(reserve(x, &r, &c, n_tokens, n_outputs, !x->p->as_fit));
    x->hands_on = false;
    if (x->broken == NULL)
        keep_most(out, x->plan, &r);
    return VRAM_OK;
}

/* Prompts first, then one token of each sequence: a buffer is as large as the larger needs it. Where sizes
 * are only asked for, the first is all. */
static vram_status reserve_both(context *x, vr_lm_sizes *out)
{
    const vr_lm_plan *plan = x->plan;
    uint64_t n_tokens = plan->n_ctx < plan->n_ubatch ? plan->n_ctx : plan->n_ubatch;
    uint64_t n_outputs = n_tokens < plan->n_outputs_max ? n_tokens : plan->n_outputs_max;
    vr_gg_reserved r;
    vr_lm_graph c;
    VR_TRY(reserve(x, &r, &c, n_tokens, n_outputs, !x->p->as_fit));
    if (x->broken != NULL)
        return VRAM_OK;
    keep_most(out, plan, &r);
    if (x->p->n_rs_seq != 0 && x->p->beside != NULL)
        VR_TRY(reserve_handing(x, out, n_tokens, n_outputs));
    if (x->p->as_fit)
        return VRAM_OK;
    VR_TRY(reserve(x, &r, &c, plan->n_seq_max, plan->n_seq_max, true));
    if (x->broken == NULL)
        keep_most(out, plan, &r);
    if (plan->n_seq_max == 1 || !reserved_alone(x))
        return VRAM_OK;
    x->alone = true;
    VR_TRY(reserve(x, &r, &c, n_tokens, n_outputs, true));
    if (x->broken == NULL)
        keep_most(out, plan, &r);
    return VRAM_OK;
}

vram_status vr_lm_compute(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p, const vr_lm_plan *plan,
                          vr_arena *a)
{
    const char *why = cannot(lm, p, plan);
    if (why != NULL) {
        not_known(out, plan, why);
        return VRAM_OK;
    }
    vr_arena own;
    vr_arena_init(&own, a->ctx);
    context x = { .lm = lm,
                  .p = p,
                  .plan = plan,
                  .a = a,
                  .settled = { p->flash_attn, true, true, true, true, true, true } };
    x.settled.fused_lid = plan->rules.indexer != 0;
    vr_gg_init(&x.g, &own);
    x.g.clamp_apart = plan->rules.clamp_apart != 0;
    vram_status s = resolve_all(&x);
    if (s == VRAM_OK && x.broken == NULL)
        s = reserve_both(&x, out);
    vr_arena_free(&own);
    if (s != VRAM_OK)
        return s;
    out->compute_known = x.broken == NULL;
    out->compute_near = plan->rules.compute != VR_LM_COMPUTE_EXACT;
    out->compute_guessed = lm->guessed;
    if (x.broken != NULL)
        not_known(out, plan, x.broken);
    return VRAM_OK;
}
