/* SPDX-License-Identifier: MIT
 * What a card keeps longer than its graph needs it: from v0.5.0 on llama.cpp's CUDA back end computes the
 * routing of experts in one kernel, and the weighted sum over experts in another; what those read must not
 * be overwritten by the nodes between.
 * Source: ggml 0.25, ggml/src/ggml-cuda/ggml-cuda.cu (ggml_backend_cuda_graph_optimize,
 * ggml_cuda_topk_moe_fusion, ggml_cuda_match_moe_weighted_reduction), topk-moe.cu, ggml.c
 * (ggml_can_fuse_subgraph_ext). */
#include "ggml/sched.h"

#define MOST_SUMMED 15 /* experts */
#define MOST_NODES 32  /* of one kernel */

/* Nodes of a stretch, from one on. */
typedef struct row {
    const vr_gg_sched *s;
    const int32_t *uses; /* of each node, by id */
    uint32_t at, end;
} row;

static vr_gg_tensor *node(const row *r, uint32_t i)
{
    return r->at + i < r->end ? r->s->g->nodes[r->at + i] : NULL;
}

static bool is(const row *r, uint32_t i, vr_gg_op op)
{
    return node(r, i) != NULL && node(r, i)->op == op;
}

/* Node i is `op` of the one before it. */
static bool follows(const row *r, uint32_t i, vr_gg_op op)
{
    return is(r, i, op) && node(r, i)->src[0] == node(r, i - 1);
}

static bool within(const row *r, uint32_t n, const vr_gg_tensor *t)
{
    for (uint32_t i = 0; i < n; i++)
        if (node(r, i) == t)
            return true;
    return false;
}

static int32_t uses_within(const row *r, uint32_t n, uint32_t from)
{
    int32_t uses = 0;
    for (uint32_t i = from + 1; i < n; i++)
        for (int k = 0; k < VR_GG_MAX_SRC; k++)
            uses += node(r, i)->src[k] == node(r, from);
    return uses;
}

/* Nobody but the kernel of n nodes sees what lies within; the nodes `a` and `b` everyone may see. */
static bool one_kernel(const row *r, uint32_t n, uint32_t a, uint32_t b)
{
    if (n >= MOST_NODES)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const vr_gg_tensor *t = node(r, i);
        if (i == a || i == b)
            continue;
        if ((t->flags & VR_GG_OUTPUT) != 0 || uses_within(r, n, i) != r->uses[t->id])
            return false;
        if (t->view_src != NULL && !within(r, n, t->view_src) && !t->view_src->weight)
            return false;
    }
    return true;
}

/* ---- routing ---- */

static bool kernel_has(uint64_t experts)
{
    return (experts <= 512 && (experts & (experts - 1)) == 0) || experts == 288 || experts == 576;
}

/* Nodes of the gate's activation, or 0. */
static uint32_t activation(const row *r)
{
    const vr_gg_tensor *t = node(r, 0);
    if (t->op == VR_GG_SOFT_MAX)
        return t->src[1] == NULL && t->src[2] == NULL && t->detail == 0 ? 1 : 0;
    if (t->op == VR_GG_UNARY && t->detail == VR_GG_SIGMOID)
        return 1;
    return t->op == VR_GG_UNARY && t->detail == VR_GG_SOFTPLUS && follows(r, 1, VR_GG_SQRT) ? 2 : 0;
}

/* Weights that add up to 1: five nodes from i on. */
static bool normed(const row *r, uint32_t i)
{
    return follows(r, i, VR_GG_RESHAPE) && follows(r, i + 1, VR_GG_SUM_ROWS) &&
           follows(r, i + 2, VR_GG_CLAMP) && is(r, i + 3, VR_GG_DIV) &&
           node(r, i + 3)->src[0] == node(r, i) && node(r, i + 3)->src[1] == node(r, i + 2) &&
           follows(r, i + 4, VR_GG_RESHAPE);
}

/* Where the chosen experts are told apart, or 0: RESHAPE, ADD of a bias or none, ARGSORT, VIEW, GET_ROWS. */
static uint32_t choice(const row *r, uint32_t probs)
{
    uint32_t n = probs + 1;
    if (!follows(r, n++, VR_GG_RESHAPE))
        return 0;
    const vr_gg_tensor *sorted = node(r, probs);
    if (is(r, n, VR_GG_ADD) && node(r, n)->src[0] == sorted)
        sorted = node(r, n++);
    if (!is(r, n, VR_GG_ARGSORT) || node(r, n)->src[0] != sorted || !follows(r, n + 1, VR_GG_VIEW) ||
        !is(r, n + 2, VR_GG_GET_ROWS))
        return 0;
    const vr_gg_tensor *rows = node(r, n + 2);
    return rows->src[0] == node(r, probs + 1) && rows->src[1] == node(r, n + 1) ? n + 1 : 0;
}

/* Nodes of the routing that begins here, or 0. */
static uint32_t routing(const row *r)
{
    uint32_t n = activation(r), ids = n == 0 ? 0 : choice(r, n - 1);
    if (ids == 0)
        return 0;
    n = ids + 2;
    if (normed(r, n))
        n += 5;
    if (follows(r, n, VR_GG_SCALE))
        n++;
    if (!kernel_has(node(r, ids)->nb[1] / 4) || !vr_gg_is_contiguous(node(r, 0)->src[0]) ||
        !vr_gg_is_contiguous(node(r, n - 1)))
        return 0;
    return one_kernel(r, n, ids, n - 1) ? n : 0;
}

/* ---- the weighted sum ---- */

typedef struct product {
    vr_gg_tensor *whole, *each; /* each: one factor for each expert of each token */
} product;

static bool is_plain(const vr_gg_tensor *t)
{
    return t != NULL && t->type == VR_F32 && vr_gg_is_contiguous(t);
}

static bool product_of(const vr_gg_tensor *t, product *out)
{
    if (t == NULL || t->op != VR_GG_MUL || !is_plain(t))
        return false;
    for (int i = 0; i < 2; i++) {
        vr_gg_tensor *whole = t->src[i], *each = t->src[1 - i];
        if (is_plain(whole) && is_plain(each) && vr_gg_same_shape(whole, t) && each->ne[0] == 1 &&
            each->ne[1] == t->ne[1] && each->ne[2] == t->ne[2] && each->ne[3] == t->ne[3]) {
            *out = (product){ whole, each };
            return true;
        }
    }
    return false;
}

static bool is_slice(const vr_gg_tensor *t, const vr_gg_tensor *of, uint64_t expert)
{
    return t->op == VR_GG_VIEW && t->src[0] == of && t->view_src == of && t->ne[0] == of->ne[0] &&
           t->ne[1] == vr_mul_sat(of->ne[2], of->ne[3]) && t->ne[2] == 1 && t->ne[3] == 1 &&
           t->nb[1] == of->nb[2] && t->view_offset == vr_mul_sat(expert, of->nb[1]);
}

/* All slices, each added to the sum of those before; in any order that can be computed. */
static bool adds_up(const row *r, uint32_t from, uint32_t experts, const vr_gg_tensor *weighted)
{
    const vr_gg_tensor *slices[MOST_SUMMED], *sum = NULL;
    uint32_t n = 0, sums = 0;
    for (uint32_t i = from; i < from + 2 * experts - 1; i++) {
        const vr_gg_tensor *t = node(r, i);
        if (n < experts && is_slice(t, weighted, n)) {
            slices[n++] = t;
            continue;
        }
        if (t->op != VR_GG_ADD || sums + 1 >= n || t->src[0] != (sums == 0 ? slices[0] : sum) ||
            t->src[1] != slices[sums + 1])
            return false;
        sum = t;
        sums++;
    }
    return n == experts && sums == experts - 1 && vr_gg_is_contiguous(sum);
}

/* Nodes of the sum that begins here, or 0, and what it reads. */
static uint32_t weighted_sum(const row *r, vr_gg_tensor *read[3])
{
    product inner, outer;
    uint32_t products = 1;
    if (!product_of(node(r, 0), &inner))
        return 0;
    read[0] = inner.whole;
    read[1] = inner.each;
    read[2] = NULL;
    if (product_of(node(r, 1), &outer) && outer.whole == node(r, 0)) {
        products = 2;
        read[1] = outer.each;
        read[2] = inner.each;
    }
    const vr_gg_tensor *weighted = node(r, products - 1);
    uint64_t experts = weighted->ne[1];
    if (experts < 2 || experts > MOST_SUMMED)
        return 0;
    uint32_t n = 2 * (uint32_t)experts + products - 1;
    if (node(r, n - 1) == NULL || !adds_up(r, products, (uint32_t)experts, weighted))
        return 0;
    return one_kernel(r, n, n - 1, n - 1) ? n : 0;
}

/* ---- what is kept ---- */

static vram_status keep(vr_gg_sched *s, vr_gg_tensor *t, uint32_t until)
{
    for (size_t i = s->n_kept; i-- > 0 && s->kept[i].until == until;)
        if (s->kept[i].t == t)
            return VRAM_OK;
    vr_gg_kept *kept = vr_gg_sched_more(s, s->kept, s->n_kept, &s->kept_room, sizeof *kept);
    if (kept == NULL)
        return VRAM_ENOMEM;
    s->kept = kept;
    s->kept[s->n_kept++] = (vr_gg_kept){ t, until };
    return VRAM_OK;
}

static vram_status keep_sum(vr_gg_sched *s, vr_gg_tensor *const read[3], uint32_t until)
{
    for (int i = 0; i < 3; i++)
        if (read[i] != NULL)
            VR_TRY(keep(s, read[i], until));
    return VRAM_OK;
}

static vram_status keep_routing(vr_gg_sched *s, uint32_t from, uint32_t until)
{
    for (uint32_t i = from; i < until; i++) {
        vr_gg_tensor *t = s->g->nodes[i];
        VR_TRY(keep(s, t, until));
        for (int k = 0; k < VR_GG_MAX_SRC; k++)
            if (t->src[k] != NULL)
                VR_TRY(keep(s, t->src[k], until));
    }
    return VRAM_OK;
}

static vram_status look_through(vr_gg_sched *s, const vr_gg_stretch *x, const int32_t *uses)
{
    for (uint32_t i = x->start; i < x->end; i++) {
        row r = { s, uses, i, x->end };
        vr_gg_tensor *read[3];
        uint32_t n = weighted_sum(&r, read);
        if (n > 0) {
            i += n - 1;
            VR_TRY(keep_sum(s, read, i));
            r.at = i;
        }
        n = routing(&r);
        if (n > 0 && i + n < s->g->n_nodes) {
            VR_TRY(keep_routing(s, i, i + n));
            i += n - 1;
        }
    }
    return VRAM_OK;
}

vram_status vr_gg_sched_keep(vr_gg_sched *s, const int32_t *uses)
{
    if (!s->m->past.keeps_fused)
        return VRAM_OK;
    for (size_t i = 0; i < s->n_stretches; i++) {
        const vr_gg_stretch *x = &s->stretches[i];
        if (x->backend + 1u < s->m->n_backends) /* a card */
            VR_TRY(look_through(s, x, uses));
    }
    return VRAM_OK;
}

int32_t *vr_gg_sched_uses(const vr_gg_sched *s)
{
    int32_t *uses = VR_ARRAY(s->arena, int32_t, s->n_ids);
    for (size_t i = 0; uses != NULL && i < s->g->n_nodes; i++)
        for (int k = 0; k < VR_GG_MAX_SRC; k++)
            if (s->g->nodes[i]->src[k] != NULL)
                uses[s->g->nodes[i]->src[k]->id]++;
    return uses;
}
