/* SPDX-License-Identifier: MIT
 * The graph as the allocator sees it, after it was divided: each stretch begins with what it fetches.
 * Source: ggml 0.20, ggml/src/ggml-backend.cpp (ggml_backend_sched_split_graph behind pass 5,
 * ggml_backend_sched_reserve_size). */
#include "ggml/sched.h"

static void add_node(vr_gg_flow *f, vr_gg_tensor *t, uint8_t backend)
{
    f->nodes[f->n_nodes++] = (vr_gg_line){ t, backend };
}

static void add_leafs(vr_gg_flow *f, vr_gg_tensor **t, size_t n, uint8_t backend)
{
    for (size_t i = 0; i < n; i++)
        f->leafs[f->n_leafs++] = (vr_gg_line){ t[i], backend };
}

/* A node that only keeps `input` until it is copied. */
static vram_status add_dependency(vr_gg_flow *f, vr_gg_sched *s, vr_gg_tensor *input)
{
    vr_gg_tensor *t;
    VR_TRY(vr_gg_sched_tensor(s, &t));
    t->type = input->type;
    t->view_src = input->view_src != NULL ? input->view_src : input;
    t->src[0] = input;
    add_node(f, t, (uint8_t)s->at[input->id]);
    return VRAM_OK;
}

/* The same for all that is kept until node `until`; *next: the first of these. */
static vram_status add_kept(vr_gg_flow *f, vr_gg_sched *s, size_t *next, uint32_t until, uint8_t backend)
{
    while (*next < s->n_kept && s->kept[*next].until == until) {
        vr_gg_tensor *t, *first = s->kept[*next].t;
        VR_TRY(vr_gg_sched_tensor(s, &t));
        t->type = first->type;
        t->view_src = first->view_src != NULL ? first->view_src : first;
        for (int i = 0; i < VR_GG_MAX_SRC && *next < s->n_kept && s->kept[*next].until == until; i++)
            t->src[i] = s->kept[(*next)++].t;
        add_node(f, t, backend);
    }
    return VRAM_OK;
}

static vram_status make_room(vr_gg_flow *f, const vr_gg_sched *s)
{
    size_t fetched = 0;
    for (size_t i = 0; i < s->n_stretches; i++)
        fetched += s->stretches[i].n_inputs;
    f->nodes = VR_ARRAY(s->arena, vr_gg_line, s->g->n_nodes + 2 * fetched + s->n_kept);
    f->leafs = VR_ARRAY(s->arena, vr_gg_line, s->g->n_leafs + (fetched + s->n_inputs) * s->copies);
    return f->nodes != NULL && f->leafs != NULL ? VRAM_OK : VRAM_ENOMEM;
}

static vram_status line_up(vr_gg_flow *f, vr_gg_sched *s)
{
    size_t kept = 0;
    VR_TRY(make_room(f, s));
    for (size_t i = 0; i < s->n_stretches; i++) {
        const vr_gg_stretch *x = &s->stretches[i];
        for (size_t k = 0; k < x->n_inputs; k++) {
            VR_TRY(add_dependency(f, s, x->inputs[k]));
            add_node(f, vr_gg_sched_copies(s, x->inputs[k], x->backend)[0], x->backend);
        }
        for (uint32_t k = x->start; k < x->end; k++) {
            add_node(f, s->g->nodes[k], (uint8_t)s->at[s->g->nodes[k]->id]);
            VR_TRY(add_kept(f, s, &kept, k, x->backend));
        }
    }
    for (size_t i = 0; s->copies > 1 && i < s->n_inputs; i++) {
        uint8_t at = (uint8_t)s->at[s->inputs[i]->id];
        add_leafs(f, vr_gg_sched_copies(s, s->inputs[i], at), s->copies, at);
    }
    for (size_t i = 0; s->copies > 1 && i < s->n_stretches; i++) {
        const vr_gg_stretch *x = &s->stretches[i];
        for (size_t k = 0; k < x->n_inputs; k++)
            add_leafs(f, vr_gg_sched_copies(s, x->inputs[k], x->backend), s->copies, x->backend);
    }
    for (size_t i = 0; i < s->g->n_leafs; i++) {
        VR_TRY(vr_gg_sched_placed(s, s->g->leafs[i]));
        add_leafs(f, &s->g->leafs[i], 1, (uint8_t)s->at[s->g->leafs[i]->id]);
    }
    f->n_ids = s->n_ids;
    f->n_splits = s->n_stretches;
    return VRAM_OK;
}

static vr_gg_sched *make(vr_gg *g, const vr_gg_machine *m, vr_arena *a)
{
    vr_gg_sched *s = VR_NEW(a, vr_gg_sched);
    if (s == NULL)
        return NULL;
    s->g = g;
    s->m = m;
    s->arena = a;
    s->copies = m->copies > 1 ? m->copies : 1;
    s->n_ids = g->n_tensors;
    s->at = VR_ARRAY(a, int8_t, g->n_tensors);
    s->copy = VR_ARRAY(a, vr_gg_copy *, g->n_tensors);
    return s->at != NULL && s->copy != NULL ? s : NULL;
}

/* Fills *flow; what it changed in the graph of g stays so until unsplit. */
static vram_status split(vr_gg_flow *flow, vr_gg_sched **made, vr_gg *g, const vr_gg_machine *m, vr_arena *a)
{
    *flow = (vr_gg_flow){ 0 };
    vr_gg_sched *s = *made = make(g, m, a);
    if (s == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_gg_sched_assign(s));
    const int32_t *uses = vr_gg_sched_uses(s);
    if (uses == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_gg_sched_cut(s));
    VR_TRY(vr_gg_sched_keep(s, uses));
    return line_up(flow, s);
}

/* Backwards, for a node may have been changed more than once. */
static void unsplit(vr_gg_sched *s)
{
    if (s == NULL)
        return;
    for (size_t i = s->n_swaps; i-- > 0;)
        s->swaps[i].node->src[s->swaps[i].operand] = s->swaps[i].was;
    for (size_t i = 0; i < s->n_inputs; i++)
        s->inputs[i]->flags = s->inputs_flags[i];
}

static vram_status check(const vr_gg *g, const vr_gg_machine *m, struct vram_ctx *ctx)
{
    if (g->failed)
        return VRAM_ENOMEM;
    if (g->broken != NULL)
        return vr_fail(ctx, VRAM_EUNSUPPORTED, T("the model's shapes contradict each other: "), T(g->broken));
    if (m->n_backends == 0 || m->n_backends > VR_GG_MOST_SCHED)
        return vr_fail(ctx, VRAM_EUNSUPPORTED, T("llama.cpp computes on "), U(VR_GG_MOST_SCHED - 1),
                       T(" GPUs at most"));
    return VRAM_OK;
}

vram_status vr_gg_reserve(vr_gg_reserved *out, vr_gg *g, const vr_gg_machine *m, vr_arena *a)
{
    *out = (vr_gg_reserved){ .n_nodes = g->n_nodes };
    VR_TRY(check(g, m, a->ctx));
    vr_gg_flow flow;
    vr_gg_sched *s = NULL;
    vram_status status = split(&flow, &s, g, m, a);
    if (status == VRAM_OK)
        status = vr_gg_play(out->bytes, &flow, m, a);
    out->n_splits = flow.n_splits;
    for (size_t i = 0; status == VRAM_OK && i < g->n_nodes; i++)
        g->nodes[i]->backend = s->at[g->nodes[i]->id];
    unsplit(s);
    return status;
}
