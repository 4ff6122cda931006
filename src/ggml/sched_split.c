/* SPDX-License-Identifier: MIT
 * Stretches of nodes on one back end, and the copies of what lies elsewhere.
 * Source: ggml 0.20, ggml/src/ggml-backend.cpp (ggml_backend_sched_split_graph, pass 5). */
#include "ggml/sched.h"

#define INPUTS_AT_FIRST 30 /* GGML_SCHED_MAX_SPLIT_INPUTS: a full stretch ends */

void *vr_gg_sched_more(vr_gg_sched *s, void *old, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return old;
    size_t more = *room == 0 ? 16 : *room * 2;
    void *p = vr_arena_grow(s->arena, old, *room, more, size);
    if (p != NULL)
        *room = more;
    return p;
}

vram_status vr_gg_sched_tensor(vr_gg_sched *s, vr_gg_tensor **made)
{
    if (s->n_ids >= 2 * (size_t)VR_GG_MOST_TENSORS)
        return vr_fail(s->arena->ctx, VRAM_EUNSUPPORTED, T("more tensors than a graph may have"));
    vr_gg_tensor *t = *made = VR_NEW(s->arena, vr_gg_tensor);
    if (t == NULL)
        return VRAM_ENOMEM;
    t->id = (uint32_t)s->n_ids++;
    t->buft = VR_GG_NOWHERE;
    t->layer = t->backend = -1;
    return VRAM_OK;
}

/* ggml_dup_tensor_layout: same strides, so a view with gaps is copied with its gaps. */
static vram_status layout_of(vr_gg_sched *s, const vr_gg_tensor *of, vr_gg_tensor **made)
{
    VR_TRY(vr_gg_sched_tensor(s, made));
    vr_gg_tensor *t = *made;
    t->type = of->type;
    t->name = of->name;
    for (int i = 0; i < VR_GG_DIMS; i++) {
        t->ne[i] = of->ne[i];
        t->nb[i] = of->nb[i];
    }
    return VRAM_OK;
}

vr_gg_tensor **vr_gg_sched_copies(const vr_gg_sched *s, const vr_gg_tensor *t, uint8_t backend)
{
    for (const vr_gg_copy *c = s->copy[t->id]; c != NULL; c = c->next) {
        if (c->backend == backend)
            return c->t;
    }
    return NULL;
}

/* original: the first of them is t itself. */
static vram_status make_copies(vr_gg_sched *s, vr_gg_tensor *t, uint8_t backend, bool original)
{
    vr_gg_copy *c = VR_NEW(s->arena, vr_gg_copy);
    vr_gg_tensor **copies = VR_ARRAY(s->arena, vr_gg_tensor *, s->copies);
    if (c == NULL || copies == NULL)
        return VRAM_ENOMEM;
    for (unsigned i = 0; i < s->copies; i++) {
        copies[i] = t;
        if (i > 0 || !original)
            VR_TRY(layout_of(s, t, &copies[i]));
        if (s->copies > 1)
            copies[i]->flags |= VR_GG_INPUT | VR_GG_OUTPUT; /* never to be overwritten */
    }
    *c = (vr_gg_copy){ s->copy[t->id], copies, backend };
    s->copy[t->id] = c;
    return VRAM_OK;
}

/* With pipeline parallelism what is given from outside is there several times. */
static vram_status copy_graph_input(vr_gg_sched *s, vr_gg_tensor *src)
{
    uint8_t home = (uint8_t)s->at[src->id];
    if ((src->flags & VR_GG_INPUT) == 0 || s->copies == 1 || vr_gg_sched_copies(s, src, home) != NULL)
        return VRAM_OK;
    vr_gg_tensor **inputs = vr_gg_sched_more(s, s->inputs, s->n_inputs, &s->inputs_room, sizeof(*inputs));
    if (inputs == NULL)
        return VRAM_ENOMEM;
    s->inputs = inputs;
    uint8_t *flags = vr_gg_sched_more(s, s->inputs_flags, s->n_inputs, &s->inputs_flags_room, 1);
    if (flags == NULL)
        return VRAM_ENOMEM;
    s->inputs_flags = flags;
    s->inputs[s->n_inputs] = src;
    s->inputs_flags[s->n_inputs++] = src->flags;
    return make_copies(s, src, home, true);
}

static bool must_be_copied(const vr_gg_sched *s, const vr_gg_stretch *x, const vr_gg_tensor *src)
{
    return s->at[src->id] != (int8_t)x->backend && !vr_gg_sched_reads(s, x->backend, src);
}

/* Adds src to what the stretch fetches. */
static vram_status fetch(vr_gg_sched *s, vr_gg_stretch *x, vr_gg_tensor *src)
{
    if (vr_gg_sched_copies(s, src, x->backend) != NULL)
        return VRAM_OK;
    VR_TRY(make_copies(s, src, x->backend, false));
    if (x->n_inputs == x->inputs_room) {
        if (x->n_inputs > 0 && s->m->past.split_inputs > 0)
            return vr_fail(s->arena->ctx, VRAM_EUNSUPPORTED,
                           T("llama.cpp of that build gives up: a split has more than "),
                           U(s->m->past.split_inputs), T(" inputs"));
        size_t first = s->m->past.split_inputs > 0 ? s->m->past.split_inputs : INPUTS_AT_FIRST;
        size_t room = x->inputs_room == 0 ? first : x->inputs_room * 2;
        vr_gg_tensor **more =
            vr_arena_grow(s->arena, x->inputs, x->inputs_room, room, sizeof(vr_gg_tensor *));
        if (more == NULL)
            return VRAM_ENOMEM;
        x->inputs = more;
        x->inputs_room = room;
    }
    x->inputs[x->n_inputs++] = src;
    return VRAM_OK;
}

static vram_status swap(vr_gg_sched *s, vr_gg_tensor *node, uint32_t i, vr_gg_tensor *by)
{
    vr_gg_swap *swaps = vr_gg_sched_more(s, s->swaps, s->n_swaps, &s->swaps_room, sizeof *swaps);
    if (swaps == NULL)
        return VRAM_ENOMEM;
    s->swaps = swaps;
    s->swaps[s->n_swaps++] = (vr_gg_swap){ node, node->src[i], i };
    node->src[i] = by;
    return VRAM_OK;
}

static vram_status bring_operands(vr_gg_sched *s, vr_gg_stretch *x, vr_gg_tensor *node)
{
    for (uint32_t i = 0; i < VR_GG_MAX_SRC; i++) {
        vr_gg_tensor *src = node->src[i];
        if (src == NULL)
            continue;
        VR_TRY(vr_gg_sched_placed(s, src));
        if (!s->m->past.inputs_last)
            VR_TRY(copy_graph_input(s, src));
        if (!must_be_copied(s, x, src))
            continue;
        VR_TRY(fetch(s, x, src));
        VR_TRY(swap(s, node, i, vr_gg_sched_copies(s, src, x->backend)[0]));
    }
    return VRAM_OK;
}

/* A weight from elsewhere begins a stretch, so that the memory of the one before can be used again. */
static bool needs_new_stretch(const vr_gg_sched *s, const vr_gg_stretch *x, const vr_gg_tensor *node)
{
    for (int i = 0; i < VR_GG_MAX_SRC && x->n_inputs > 0; i++) {
        const vr_gg_tensor *src = node->src[i];
        if (src == NULL || !must_be_copied(s, x, src))
            continue;
        if (src->buft != VR_GG_NOWHERE && src->weight)
            return true;
        if (!s->m->past.full_goes_on && x->n_inputs >= x->inputs_room &&
            vr_gg_sched_copies(s, src, x->backend) == NULL)
            return true;
    }
    return false;
}

static vr_gg_stretch *begin(vr_gg_sched *s, uint32_t start, uint8_t backend)
{
    vr_gg_stretch *all =
        vr_gg_sched_more(s, s->stretches, s->n_stretches, &s->stretches_room, sizeof(vr_gg_stretch));
    if (all == NULL)
        return NULL;
    s->stretches = all;
    vr_gg_stretch *x = &all[s->n_stretches++];
    *x = (vr_gg_stretch){ .start = start, .backend = backend };
    return x;
}

vram_status vr_gg_sched_cut(vr_gg_sched *s)
{
    uint32_t n = (uint32_t)s->g->n_nodes, i = 0;
    while (i < n && vr_gg_is_view_op(s->g->nodes[i]))
        i++;
    vr_gg_stretch *x = begin(s, 0, i < n ? (uint8_t)s->at[s->g->nodes[i]->id] : 0);
    for (; i < n && x != NULL; i++) {
        vr_gg_tensor *node = s->g->nodes[i];
        if (vr_gg_is_view_op(node))
            continue;
        uint8_t at = (uint8_t)s->at[node->id];
        if (at != x->backend || needs_new_stretch(s, x, node)) {
            x->end = i;
            x = begin(s, i, at);
            if (x == NULL)
                return VRAM_ENOMEM;
        }
        VR_TRY(bring_operands(s, x, node));
    }
    if (x == NULL)
        return VRAM_ENOMEM;
    x->end = n;
    for (size_t k = 0; s->m->past.inputs_last && k < s->g->n_leafs; k++) {
        VR_TRY(vr_gg_sched_placed(s, s->g->leafs[k]));
        VR_TRY(copy_graph_input(s, s->g->leafs[k]));
    }
    return VRAM_OK;
}
