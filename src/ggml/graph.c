/* SPDX-License-Identifier: MIT
 * The order of nodes and leafs: operands first, the first operand first. Walked with a stack of our own, for
 * a file decides how deep a graph is. Source: ggml 0.20, ggml/src/ggml.c (ggml_visit_parents_graph). */
#include "ggml/parts.h"

struct vr_gg_step {
    vr_gg_tensor *t;
    uint32_t next; /* operand to look at */
};

static void *grown(vr_gg *g, void *old, size_t *room, size_t wanted, size_t size)
{
    size_t more = *room == 0 ? 1024 : *room;
    while (more < wanted)
        more *= 2;
    if (more == *room)
        return old;
    void *p = vr_arena_grow(g->arena, old, *room, more, size);
    if (p == NULL)
        g->failed = true;
    else
        *room = more;
    return p != NULL ? p : old;
}

static void append(vr_gg *g, vr_gg_tensor *t)
{
    if (t->op == VR_GG_NONE) {
        g->leafs = grown(g, g->leafs, &g->leafs_room, g->n_leafs + 1, sizeof(vr_gg_tensor *));
        if (!g->failed)
            g->leafs[g->n_leafs++] = t;
        return;
    }
    g->nodes = grown(g, g->nodes, &g->nodes_room, g->n_nodes + 1, sizeof(vr_gg_tensor *));
    if (!g->failed)
        g->nodes[g->n_nodes++] = t;
}

static void push(vr_gg *g, size_t *depth, vr_gg_tensor *t)
{
    g->steps = grown(g, g->steps, &g->steps_room, *depth + 1, sizeof(struct vr_gg_step));
    if (g->failed)
        return;
    g->seen[t->id] = 1;
    g->steps[(*depth)++] = (struct vr_gg_step){ t, 0 };
}

/* The next operand that was not seen; NULL: none is left. */
static vr_gg_tensor *next_operand(const vr_gg *g, struct vr_gg_step *s)
{
    while (s->next < VR_GG_MAX_SRC) {
        vr_gg_tensor *src = s->t->src[s->next++];
        if (src != NULL && g->seen[src->id] == 0)
            return src;
    }
    return NULL;
}

void vr_gg_build_forward_expand(vr_gg *g, vr_gg_tensor *t)
{
    t = vr_gg_given(g, t);
    if (g->failed || g->broken != NULL)
        return;
    g->seen = grown(g, g->seen, &g->seen_room, g->n_tensors, 1);
    if (g->failed || g->seen[t->id] != 0)
        return;
    size_t depth = 0;
    push(g, &depth, t);
    while (depth > 0 && !g->failed) {
        vr_gg_tensor *src = next_operand(g, &g->steps[depth - 1]);
        if (src != NULL)
            push(g, &depth, src);
        else
            append(g, g->steps[--depth].t);
    }
}
