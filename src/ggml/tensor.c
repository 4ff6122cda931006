/* SPDX-License-Identifier: MIT
 * Tensors without data: shapes, strides, sizes, views. All arithmetic saturates, for shapes come from files.
 * Source: ggml 0.20, ggml/src/ggml.c (ggml_new_tensor_impl, ggml_nbytes, ggml_is_contiguous_m_n). */
#include "ggml/parts.h"

#include <string.h>

void vr_gg_init(vr_gg *g, vr_arena *a)
{
    memset(g, 0, sizeof *g);
    g->arena = a;
    g->spare.buft = VR_GG_NOWHERE;
    vr_gg_reset(g);
}

void vr_gg_reset(vr_gg *g)
{
    g->n_tensors = g->n_nodes = g->n_leafs = 0;
    g->failed = false;
    g->broken = NULL;
    if (g->seen_room > 0)
        memset(g->seen, 0, g->seen_room);
}

bool vr_gg_rule(vr_gg *g, bool holds, const char *rule)
{
    if (!holds && g->broken == NULL)
        g->broken = rule;
    return holds;
}

static vr_gg_tensor *blank(vr_gg_tensor *t, uint32_t id)
{
    memset(t, 0, sizeof *t);
    t->id = id;
    t->layer = -1;
    t->type = VR_F32;
    t->buft = VR_GG_NOWHERE;
    t->backend = -1;
    for (int i = 0; i < VR_GG_DIMS; i++) {
        t->ne[i] = 1;
        t->nb[i] = 4;
    }
    return t;
}

static vr_gg_tensor *spare(vr_gg *g)
{
    return blank(&g->spare, 0);
}

vr_gg_tensor *vr_gg_given(vr_gg *g, vr_gg_tensor *t)
{
    return vr_gg_rule(g, t != NULL, "an operand is missing") ? t : spare(g);
}

static bool more_room(vr_gg *g)
{
    if (g->n_tensors < g->tensors_room)
        return true;
    size_t room = g->tensors_room == 0 ? 1024 : g->tensors_room * 2;
    vr_gg_tensor **more = vr_arena_grow(g->arena, g->tensors, g->tensors_room, room, sizeof(vr_gg_tensor *));
    if (more == NULL)
        return false;
    g->tensors = more;
    g->tensors_room = room;
    return true;
}

/* The next tensor, blank. */
static vr_gg_tensor *next_tensor(vr_gg *g)
{
    if (g->failed || !vr_gg_rule(g, g->n_tensors < VR_GG_MOST_TENSORS, "more tensors than a graph may have"))
        return spare(g);
    if (!more_room(g)) {
        g->failed = true;
        return spare(g);
    }
    if (g->n_tensors == g->n_made) {
        vr_gg_tensor *t = VR_NEW(g->arena, vr_gg_tensor);
        if (t == NULL) {
            g->failed = true;
            return spare(g);
        }
        g->tensors[g->n_made++] = t;
    }
    vr_gg_tensor *t = g->tensors[g->n_tensors];
    return blank(t, (uint32_t)g->n_tensors++);
}

static void shape(vr_gg_tensor *t, vr_dtype type, const uint64_t ne[VR_GG_DIMS])
{
    t->type = (uint8_t)type;
    for (int i = 0; i < VR_GG_DIMS; i++)
        t->ne[i] = ne[i];
    t->nb[0] = vr_dtype_block_bytes(type);
    t->nb[1] = vr_mul_sat(t->nb[0], t->ne[0] / vr_dtype_block(type));
    for (int i = 2; i < VR_GG_DIMS; i++)
        t->nb[i] = vr_mul_sat(t->nb[i - 1], t->ne[i - 1]);
}

vr_gg_tensor *vr_gg_make(vr_gg *g, vr_dtype type, const uint64_t ne[VR_GG_DIMS])
{
    vr_gg_tensor *t = next_tensor(g);
    shape(t, type, ne);
    vr_gg_rule(g, type != VR_DTYPE_NONE && type < VR_DTYPE_COUNT, "new: no such type");
    vr_gg_rule(g, ne[0] % vr_dtype_block(type) == 0, "new: rows of no whole blocks");
    return t;
}

static uint64_t packed_bytes(const vr_gg_tensor *t)
{
    return vr_mul_sat(t->nb[3], t->ne[3]);
}

vr_gg_tensor *vr_gg_make_view(vr_gg *g, vr_gg_tensor *src, const uint64_t ne[VR_GG_DIMS], uint64_t offset)
{
    src = vr_gg_given(g, src);
    vr_gg_tensor *t = vr_gg_make(g, src->type, ne);
    t->view_offset = offset;
    if (src->view_src != NULL) {
        t->view_offset = vr_add_sat(offset, src->view_offset);
        src = src->view_src;
    }
    t->view_src = src != t ? src : NULL; /* both may be the spare one */
    uint64_t bytes = packed_bytes(t);
    vr_gg_rule(g, bytes == 0 || vr_add_sat(bytes, t->view_offset) <= vr_gg_nbytes(src),
               "view: beyond its source");
    return t;
}

vr_gg_tensor *vr_gg_make_same(vr_gg *g, vr_gg_tensor *src)
{
    src = vr_gg_given(g, src);
    vr_gg_tensor *t = vr_gg_make_view(g, src, src->ne, 0);
    for (int i = 0; i < VR_GG_DIMS; i++)
        t->nb[i] = src->nb[i];
    return t;
}

vr_gg_tensor *vr_gg_by(vr_gg_tensor *t, vr_gg_op op, vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_tensor *c)
{
    t->op = (uint8_t)op;
    t->src[0] = a;
    t->src[1] = b;
    t->src[2] = c;
    return t;
}

vr_gg_tensor *vr_gg_new_4d(vr_gg *g, vr_dtype t, uint64_t ne0, uint64_t ne1, uint64_t ne2, uint64_t ne3)
{
    return vr_gg_make(g, t, (const uint64_t[]){ ne0, ne1, ne2, ne3 });
}

vr_gg_tensor *vr_gg_new_3d(vr_gg *g, vr_dtype t, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    return vr_gg_new_4d(g, t, ne0, ne1, ne2, 1);
}

vr_gg_tensor *vr_gg_new_2d(vr_gg *g, vr_dtype t, uint64_t ne0, uint64_t ne1)
{
    return vr_gg_new_4d(g, t, ne0, ne1, 1, 1);
}

vr_gg_tensor *vr_gg_new_1d(vr_gg *g, vr_dtype t, uint64_t ne0)
{
    return vr_gg_new_4d(g, t, ne0, 1, 1, 1);
}

vr_gg_tensor *vr_gg_input(vr_gg *g, const char *name, vr_dtype t, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                          uint64_t ne3)
{
    vr_gg_tensor *made = vr_gg_new_4d(g, t, ne0, ne1, ne2, ne3);
    made->name = name;
    made->flags |= VR_GG_INPUT;
    return made;
}

void vr_gg_set_output(vr_gg_tensor *t)
{
    if (t != NULL)
        t->flags |= VR_GG_OUTPUT;
}

vr_gg_tensor *vr_gg_placed(vr_gg *g, const char *name, vr_dtype t, const uint64_t ne[VR_GG_DIMS],
                           uint8_t buft, bool weight)
{
    vr_gg_tensor *made = vr_gg_make(g, t, ne);
    made->name = name;
    made->buft = buft;
    made->weight = weight;
    return made;
}

/* ---- sizes ---- */

uint64_t vr_gg_row_size(vr_dtype t, uint64_t ne0)
{
    if (ne0 % vr_dtype_block(t) != 0)
        return UINT64_MAX;
    return vr_mul_sat(ne0 / vr_dtype_block(t), vr_dtype_block_bytes(t));
}

uint64_t vr_gg_nbytes(const vr_gg_tensor *t)
{
    for (int i = 0; i < VR_GG_DIMS; i++) {
        if (t->ne[i] == 0)
            return 0;
    }
    uint64_t block = vr_dtype_block(t->type);
    uint64_t n = block == 1 ? vr_add_sat(vr_dtype_block_bytes(t->type), vr_mul_sat(t->ne[0] - 1, t->nb[0]))
                            : vr_mul_sat(t->ne[0], t->nb[0]) / block;
    for (int i = 1; i < VR_GG_DIMS; i++)
        n = vr_add_sat(n, vr_mul_sat(t->ne[i] - 1, t->nb[i]));
    return n;
}

uint64_t vr_gg_nelements(const vr_gg_tensor *t)
{
    return vr_mul_sat(vr_mul_sat(t->ne[0], t->ne[1]), vr_mul_sat(t->ne[2], t->ne[3]));
}

uint64_t vr_gg_element_size(const vr_gg_tensor *t)
{
    return vr_dtype_block_bytes(t->type);
}

/* ---- questions ---- */

bool vr_gg_contiguous_but(const vr_gg_tensor *t, int m, int n)
{
    uint64_t next = vr_dtype_block_bytes(t->type), block = vr_dtype_block(t->type);
    if (t->ne[0] != block && t->nb[0] != next)
        return false;
    next = vr_mul_sat(next, t->ne[0] / block);
    for (int i = 1; i < n; i++) {
        if (i > m && t->ne[i] != 1 && t->nb[i] != next)
            return false;
        next = vr_mul_sat(i > m ? next : t->nb[i], t->ne[i]);
    }
    return true;
}

bool vr_gg_is_contiguous(const vr_gg_tensor *t)
{
    return vr_gg_contiguous_but(t, 0, VR_GG_DIMS);
}

bool vr_gg_contiguous_rows(const vr_gg_tensor *t)
{
    return t->ne[0] == vr_dtype_block(t->type) || t->nb[0] == vr_dtype_block_bytes(t->type);
}

bool vr_gg_same_shape(const vr_gg_tensor *a, const vr_gg_tensor *b)
{
    return memcmp(a->ne, b->ne, sizeof a->ne) == 0;
}

bool vr_gg_same_layout(const vr_gg_tensor *a, const vr_gg_tensor *b)
{
    return a->type == b->type && vr_gg_same_shape(a, b) && memcmp(a->nb, b->nb, sizeof a->nb) == 0;
}

bool vr_gg_divides(uint64_t a, uint64_t b)
{
    return a != 0 && b % a == 0;
}

static bool is_empty(const vr_gg_tensor *t)
{
    return t->ne[0] == 0 || t->ne[1] == 0 || t->ne[2] == 0 || t->ne[3] == 0;
}

bool vr_gg_can_repeat(const vr_gg_tensor *a, const vr_gg_tensor *like)
{
    if (is_empty(a))
        return is_empty(like);
    for (int i = 0; i < VR_GG_DIMS; i++) {
        if (!vr_gg_divides(a->ne[i], like->ne[i]))
            return false;
    }
    return true;
}

bool vr_gg_is_shape(const vr_gg_tensor *t, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    return t->ne[0] == ne0 && t->ne[1] == ne1 && t->ne[2] == ne2;
}

bool vr_gg_is_view_op(const vr_gg_tensor *t)
{
    return t->op == VR_GG_RESHAPE || t->op == VR_GG_VIEW || t->op == VR_GG_PERMUTE ||
           t->op == VR_GG_TRANSPOSE;
}

uint8_t vr_gg_lies_in(const vr_gg_tensor *t)
{
    return t->view_src != NULL ? t->view_src->buft : t->buft;
}
