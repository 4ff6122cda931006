/* SPDX-License-Identifier: MIT
 * When tensors of a split graph are taken and given back: leafs and inputs first, then node by node; some
 * take their operand's memory. Source: ggml 0.20, ggml/src/ggml-alloc.c (ggml_gallocr_alloc_graph_impl). */
#include "ggml/parts.h"
#include "ggml/space.h"

/* Of a tensor, by id. */
typedef struct held {
    vr_gg_address at;
    int32_t readers, views; /* still to come */
    uint8_t backend;
    bool owned; /* memory of ours that is in use */
} held;

typedef struct player {
    const vr_gg_flow *flow;
    const vr_gg_machine *m;
    held *held;
    vr_gg_space *space[VR_GG_MAX_BACKENDS]; /* by back end; those of one buffer type share it */
} player;

static const bool inplace[VR_GG_OP_COUNT] = {
#define X(id, inplace, view) [VR_GG_##id] = inplace,
    VR_GG_OPS(X)
#undef X
};

static bool may_reuse(const player *p, const vr_gg_tensor *t)
{
    return inplace[t->op] && !(t->op == VR_GG_FILL && p->m->past.fill_apart);
}

static held *held_of(const player *p, const vr_gg_tensor *t)
{
    return &p->held[t->id];
}

static uint64_t size_on(const player *p, uint8_t backend, const vr_gg_tensor *t)
{
    return vr_gg_compute_size(p->m, p->m->backends[backend].buft, t);
}

/* What is left of a block whose tensor gave way to a smaller one. */
static vram_status give_rest(player *p, const vr_gg_tensor *node, const vr_gg_tensor *parent)
{
    const held *h = held_of(p, node), *of = held_of(p, parent);
    vr_gg_space *s = p->space[of->backend];
    uint64_t had = vr_round_up(size_on(p, of->backend, parent), s->alignment);
    uint64_t needs = vr_round_up(size_on(p, h->backend, node), s->alignment);
    if (had <= needs)
        return VRAM_OK;
    return vr_gg_space_give(s, (vr_gg_address){ of->at.chunk, of->at.offset + needs }, had - needs);
}

/* An operand that only this node still reads, of the same layout, that is nobody's output. */
static bool can_be_reused(const player *p, const vr_gg_tensor *node, const vr_gg_tensor *parent)
{
    const held *h = held_of(p, parent);
    return h->owned && (parent->flags & VR_GG_OUTPUT) == 0 && vr_gg_same_layout(node, parent) &&
           h->readers == 1 && h->views == 0;
}

static vram_status take(player *p, vr_gg_tensor *t, uint8_t backend)
{
    held *h = held_of(p, t);
    if (t->buft != VR_GG_NOWHERE || h->owned || t->view_src != NULL)
        return VRAM_OK;
    h->owned = true;
    for (int i = 0; i < VR_GG_MAX_SRC && may_reuse(p, t); i++) {
        vr_gg_tensor *parent = t->src[i];
        if (parent == NULL || !can_be_reused(p, t, parent))
            continue;
        held *of = held_of(p, parent);
        h->backend = of->backend;
        h->at = of->at;
        of->owned = false;
        return give_rest(p, t, parent);
    }
    h->backend = backend;
    return vr_gg_space_take(p->space[backend], size_on(p, backend, t), &h->at);
}

static vram_status give(player *p, const vr_gg_tensor *t)
{
    held *h = held_of(p, t);
    if (!h->owned || (t->flags & VR_GG_OUTPUT) != 0)
        return VRAM_OK;
    h->owned = false;
    return vr_gg_space_give(p->space[h->backend], h->at, size_on(p, h->backend, t));
}

/* ---- the walk ---- */

/* Counts readers and views, and takes memory for what the graph is given from outside. */
static vram_status count(player *p, const vr_gg_line *line)
{
    vr_gg_tensor *t = line->t;
    if (t->view_src != NULL && t->op != VR_GG_NONE)
        held_of(p, t->view_src)->views++;
    if ((t->flags & VR_GG_INPUT) != 0)
        VR_TRY(take(p, t, line->backend));
    for (int i = 0; i < VR_GG_MAX_SRC; i++) {
        vr_gg_tensor *src = t->src[i];
        if (src == NULL)
            continue;
        held_of(p, src)->readers++;
        if ((src->flags & VR_GG_INPUT) != 0)
            VR_TRY(take(p, src, line->backend));
    }
    return VRAM_OK;
}

/* One reader of `parent` is done. */
static vram_status done_with(player *p, const vr_gg_tensor *parent)
{
    held *h = held_of(p, parent);
    h->readers--;
    if (h->readers != 0 || h->views != 0)
        return VRAM_OK;
    if (parent->view_src == NULL)
        return give(p, parent);
    held *of = held_of(p, parent->view_src);
    of->views--;
    return of->views == 0 && of->readers == 0 ? give(p, parent->view_src) : VRAM_OK;
}

static vram_status run(player *p, const vr_gg_line *line)
{
    for (int i = 0; i < VR_GG_MAX_SRC; i++) {
        if (line->t->src[i] != NULL)
            VR_TRY(take(p, line->t->src[i], line->backend));
    }
    VR_TRY(take(p, line->t, line->backend));
    for (int i = 0; i < VR_GG_MAX_SRC; i++) {
        if (line->t->src[i] != NULL)
            VR_TRY(done_with(p, line->t->src[i]));
    }
    return VRAM_OK;
}

static vram_status prepare(player *p, vr_arena *a)
{
    p->held = VR_ARRAY(a, held, p->flow->n_ids);
    if (p->held == NULL)
        return VRAM_ENOMEM;
    for (size_t b = 0; b < p->m->n_backends; b++) {
        uint8_t buft = p->m->backends[b].buft;
        for (size_t k = 0; k < b && p->space[b] == NULL; k++)
            p->space[b] = p->m->backends[k].buft == buft ? p->space[k] : NULL;
        if (p->space[b] != NULL)
            continue;
        p->space[b] = VR_NEW(a, vr_gg_space);
        if (p->space[b] == NULL)
            return VRAM_ENOMEM;
        vr_gg_space_init(p->space[b], p->m->bufts[buft].alignment, p->m->bufts[buft].max_size, a);
    }
    return VRAM_OK;
}

static vram_status walk(player *p)
{
    const vr_gg_flow *f = p->flow;
    for (size_t i = 0; i < f->n_leafs; i++)
        VR_TRY(take(p, f->leafs[i].t, f->leafs[i].backend));
    for (size_t i = 0; i < f->n_nodes; i++)
        VR_TRY(count(p, &f->nodes[i]));
    for (size_t i = 0; i < f->n_nodes; i++)
        VR_TRY(run(p, &f->nodes[i]));
    return VRAM_OK;
}

vram_status vr_gg_play(uint64_t bytes[VR_GG_MAX_BACKENDS], const vr_gg_flow *flow, const vr_gg_machine *m,
                       vr_arena *a)
{
    player p = { .flow = flow, .m = m };
    VR_TRY(prepare(&p, a));
    VR_TRY(walk(&p));
    for (size_t b = 0; b < m->n_backends; b++) {
        bool first = true; /* of those that share a buffer */
        for (size_t k = 0; k < b; k++)
            first = first && p.space[k] != p.space[b];
        bytes[b] = first ? vr_gg_space_bytes(p.space[b]) : 0;
    }
    return VRAM_OK;
}
