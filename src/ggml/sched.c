/* SPDX-License-Identifier: MIT
 * Which back end computes which node: where weights and caches lie decides, from there assignments spread to
 * neighbours, and the CPU gets what is left.
 * Source: ggml 0.20, ggml/src/ggml-backend.cpp (ggml_backend_sched_split_graph, passes 1 to 4). */
#include "ggml/sched.h"

static uint8_t cpu_of(const vr_gg_sched *s)
{
    return (uint8_t)(s->m->n_backends - 1);
}

static bool runs(const vr_gg_sched *s, uint8_t backend, const vr_gg_tensor *node)
{
    return s->m->backends[backend].runs(s->m, backend, node);
}

static bool reads_buft(const vr_gg_sched *s, uint8_t backend, uint8_t buft)
{
    return s->m->backends[backend].reads(s->m, backend, buft);
}

bool vr_gg_sched_reads(const vr_gg_sched *s, uint8_t backend, const vr_gg_tensor *t)
{
    uint8_t buft = vr_gg_lies_in(t);
    if (buft != VR_GG_NOWHERE)
        return reads_buft(s, backend, buft);
    int8_t at = s->at[t->id];
    if (at == VR_GG_UNASSIGNED && t->view_src != NULL)
        at = s->at[t->view_src->id];
    return at != VR_GG_UNASSIGNED && reads_buft(s, backend, s->m->backends[at].buft);
}

vram_status vr_gg_sched_placed(const vr_gg_sched *s, const vr_gg_tensor *t)
{
    if (s->at[t->id] != VR_GG_UNASSIGNED)
        return VRAM_OK;
    return vr_fail(s->arena->ctx, VRAM_EUNSUPPORTED, T("llama.cpp gives up: nothing can compute "),
                   T(t->name != NULL ? t->name : "a tensor"));
}

/* ---- pass 1: what lies somewhere already ---- */

/* The first back end that can read t's memory and run the node. */
static int8_t backend_of_memory(const vr_gg_sched *s, const vr_gg_tensor *t, const vr_gg_tensor *node)
{
    uint8_t buft = vr_gg_lies_in(t);
    for (uint8_t b = 0; buft != VR_GG_NOWHERE && b < s->m->n_backends; b++) {
        if (reads_buft(s, b, buft) && runs(s, b, node))
            return (int8_t)b;
    }
    return VR_GG_UNASSIGNED;
}

/* A GPU that would rather fetch the weights from the host than leave the node to the CPU. */
static int8_t offloader(const vr_gg_sched *s, const vr_gg_tensor *node)
{
    for (uint8_t b = 0; b < cpu_of(s); b++) {
        const vr_gg_backend *e = &s->m->backends[b];
        if (runs(s, b, node) && e->offloads != NULL && e->offloads(s->m, b, node))
            return (int8_t)b;
    }
    return VR_GG_UNASSIGNED;
}

static int8_t backend_of_weights(const vr_gg_sched *s, const vr_gg_tensor *node)
{
    if (node->op == VR_GG_ROPE || (node->op == VR_GG_FLASH_ATTN_EXT && !s->m->past.sinks_decide))
        return VR_GG_UNASSIGNED; /* their weights are too small to decide */
    for (int i = 0; i < VR_GG_MAX_SRC; i++) {
        const vr_gg_tensor *src = node->src[i];
        if (src == NULL || src->buft == VR_GG_NOWHERE || !src->weight)
            continue;
        int8_t at = backend_of_memory(s, src, node), gpu = VR_GG_UNASSIGNED;
        if (s->m->op_offload && at == (int8_t)cpu_of(s) && s->m->bufts[src->buft].host)
            gpu = offloader(s, node);
        return gpu != VR_GG_UNASSIGNED ? gpu : at;
    }
    return VR_GG_UNASSIGNED;
}

static vram_status assign_given(vr_gg_sched *s, const vr_gg_tensor *t)
{
    int8_t *at = &s->at[t->id];
    if (*at != VR_GG_UNASSIGNED)
        return VRAM_OK;
    *at = backend_of_memory(s, t, t);
    if (*at != VR_GG_UNASSIGNED)
        return VRAM_OK;
    if (vr_gg_lies_in(t) != VR_GG_NOWHERE)
        return vr_fail(s->arena->ctx, VRAM_EUNSUPPORTED,
                       T("llama.cpp gives up: nothing that can reach the memory of "),
                       T(t->name != NULL ? t->name : "a tensor"), T(" can compute it"));
    *at = (t->flags & VR_GG_INPUT) != 0 ? (int8_t)cpu_of(s) : backend_of_weights(s, t);
    return VRAM_OK;
}

/* ---- pass 2: neighbours ---- */

/* Nodes that no memory decided go to the back end of the node before (down) or behind them. */
static void spread(vr_gg_sched *s, bool down, bool with_cpu)
{
    int8_t current = VR_GG_UNASSIGNED;
    for (size_t k = 0; k < s->g->n_nodes; k++) {
        const vr_gg_tensor *t = s->g->nodes[down ? k : s->g->n_nodes - 1 - k];
        int8_t *at = &s->at[t->id];
        if (vr_gg_is_view_op(t))
            continue;
        if (*at != VR_GG_UNASSIGNED)
            current = *at == (int8_t)cpu_of(s) && !with_cpu ? VR_GG_UNASSIGNED : *at;
        else if (current != VR_GG_UNASSIGNED && runs(s, (uint8_t)current, t))
            *at = current;
    }
}

/* ---- pass 3: better ones ---- */

static int operands_at_hand(const vr_gg_sched *s, uint8_t backend, const vr_gg_tensor *t)
{
    int n = 0;
    for (int i = 0; i < VR_GG_MAX_SRC; i++) {
        const vr_gg_tensor *src = t->src[i];
        if (src == NULL)
            continue;
        bool assigned = s->at[src->id] != VR_GG_UNASSIGNED ||
                        (src->view_src != NULL && s->at[src->view_src->id] != VR_GG_UNASSIGNED);
        n += assigned && vr_gg_sched_reads(s, backend, src);
    }
    return n;
}

static int8_t with_most_operands(const vr_gg_sched *s, const vr_gg_tensor *t)
{
    int most = -1;
    int8_t at = VR_GG_UNASSIGNED;
    for (uint8_t b = 0; b < s->m->n_backends; b++) {
        int n = runs(s, b, t) ? operands_at_hand(s, b, t) : -1;
        if (n > most) {
            most = n;
            at = (int8_t)b;
        }
    }
    return at;
}

static bool reads_operands(const vr_gg_sched *s, uint8_t backend, const vr_gg_tensor *t)
{
    for (int i = 0; i < VR_GG_MAX_SRC; i++) {
        if (t->src[i] != NULL && !vr_gg_sched_reads(s, backend, t->src[i]))
            return false;
    }
    return true;
}

/* An earlier back end with the same buffer type. */
static int8_t upgraded(const vr_gg_sched *s, const vr_gg_tensor *t, int8_t at)
{
    for (uint8_t b = 0; b < at; b++) {
        if (s->m->backends[b].buft == s->m->backends[at].buft && runs(s, b, t) && reads_operands(s, b, t))
            return (int8_t)b;
    }
    return at;
}

static void improve(vr_gg_sched *s)
{
    for (size_t i = 0; i < s->g->n_nodes; i++) {
        const vr_gg_tensor *t = s->g->nodes[i];
        int8_t *at = &s->at[t->id];
        if (!vr_gg_is_view_op(t))
            *at = *at == VR_GG_UNASSIGNED ? with_most_operands(s, t) : upgraded(s, t, *at);
    }
}

/* ---- pass 4: operands and views ---- */

static vram_status settle(vr_gg_sched *s, const vr_gg_tensor *t)
{
    int8_t *at = &s->at[t->id];
    if (t->view_src != NULL && *at == VR_GG_UNASSIGNED)
        *at = s->at[t->view_src->id];
    for (int i = 0; i < VR_GG_MAX_SRC; i++) {
        const vr_gg_tensor *src = t->src[i];
        if (src != NULL && s->at[src->id] == VR_GG_UNASSIGNED)
            s->at[src->id] = src->view_src != NULL ? s->at[src->view_src->id] : *at;
    }
    for (uint8_t b = 0; b < s->m->n_backends && *at == VR_GG_UNASSIGNED; b++) {
        if (runs(s, b, t))
            *at = (int8_t)b;
    }
    return vr_gg_sched_placed(s, t);
}

static void assign_asked_for(vr_gg_sched *s)
{
    for (size_t i = 0; i < s->g->n_tensors; i++) {
        int8_t b = s->g->tensors[i]->backend;
        s->at[i] = b >= 0 && (size_t)b < s->m->n_backends && !s->m->measured ? b : VR_GG_UNASSIGNED;
    }
}

vram_status vr_gg_sched_assign(vr_gg_sched *s)
{
    assign_asked_for(s);
    for (size_t i = 0; i < s->g->n_leafs; i++)
        VR_TRY(assign_given(s, s->g->leafs[i]));
    for (size_t i = 0; i < s->g->n_nodes; i++)
        VR_TRY(assign_given(s, s->g->nodes[i]));
    spread(s, true, false);
    spread(s, false, false);
    spread(s, true, true);
    spread(s, false, true);
    improve(s);
    for (size_t i = 0; i < s->g->n_nodes; i++)
        VR_TRY(settle(s, s->g->nodes[i]));
    return VRAM_OK;
}
