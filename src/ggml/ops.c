/* SPDX-License-Identifier: MIT
 * Arithmetic, norms, products, softmax, rotation.
 * Source: ggml 0.20, ggml/src/ggml.c. */
#include "ggml/parts.h"

/* A result of a's shape and type, in memory of its own or in a's. */
static vr_gg_tensor *of_one(vr_gg *g, vr_gg_op op, vr_gg_tensor *a, bool inplace)
{
    a = vr_gg_given(g, a);
    return vr_gg_by(inplace ? vr_gg_make_same(g, a) : vr_gg_make(g, a->type, a->ne), op, a, NULL, NULL);
}

static vr_gg_tensor *of_two(vr_gg *g, vr_gg_op op, vr_gg_tensor *a, vr_gg_tensor *b, bool inplace)
{
    a = vr_gg_given(g, a);
    b = vr_gg_given(g, b);
    vr_gg_rule(g, vr_gg_can_repeat(b, a), "arithmetic: shapes differ");
    vr_gg_tensor *t = of_one(g, op, a, inplace);
    t->src[1] = b;
    return t;
}

vr_gg_tensor *vr_gg_add(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b)
{
    return of_two(g, VR_GG_ADD, a, b, false);
}

vr_gg_tensor *vr_gg_add_inplace(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b)
{
    return of_two(g, VR_GG_ADD, a, b, true);
}

vr_gg_tensor *vr_gg_sub(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b)
{
    return of_two(g, VR_GG_SUB, a, b, false);
}

vr_gg_tensor *vr_gg_mul(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b)
{
    return of_two(g, VR_GG_MUL, a, b, false);
}

vr_gg_tensor *vr_gg_div(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b)
{
    return of_two(g, VR_GG_DIV, a, b, false);
}

vr_gg_tensor *vr_gg_add_id(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_tensor *ids)
{
    a = vr_gg_given(g, a);
    b = vr_gg_given(g, b);
    ids = vr_gg_given(g, ids);
    vr_gg_rule(g, a->ne[0] == b->ne[0] && a->ne[1] == ids->ne[0] && a->ne[2] == ids->ne[1], "add_id: shapes");
    vr_gg_rule(g, ids->type == VR_I32, "add_id: indexes are no I32");
    return vr_gg_by(vr_gg_make(g, a->type, a->ne), VR_GG_ADD_ID, a, b, ids);
}

vr_gg_tensor *vr_gg_sqr(vr_gg *g, vr_gg_tensor *a)
{
    return of_one(g, VR_GG_SQR, a, false);
}

vr_gg_tensor *vr_gg_sqrt(vr_gg *g, vr_gg_tensor *a)
{
    return of_one(g, VR_GG_SQRT, a, false);
}

/* ---- sums ---- */

static vr_gg_tensor *of_rows(vr_gg *g, vr_gg_op op, vr_gg_tensor *a, vr_dtype type)
{
    return vr_gg_by(vr_gg_new_4d(g, type, 1, a->ne[1], a->ne[2], a->ne[3]), op, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_sum_rows(vr_gg *g, vr_gg_tensor *a)
{
    a = vr_gg_given(g, a);
    return of_rows(g, VR_GG_SUM_ROWS, a, a->type);
}

vr_gg_tensor *vr_gg_mean(vr_gg *g, vr_gg_tensor *a)
{
    return of_rows(g, VR_GG_MEAN, vr_gg_given(g, a), VR_F32);
}

vr_gg_tensor *vr_gg_cumsum(vr_gg *g, vr_gg_tensor *a)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, a->type == VR_F32, "cumsum: no F32");
    return of_one(g, VR_GG_CUMSUM, a, false);
}

/* ---- repetition ---- */

vr_gg_tensor *vr_gg_repeat_4d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                              uint64_t ne3)
{
    a = vr_gg_given(g, a);
    vr_gg_tensor *t = vr_gg_new_4d(g, a->type, ne0, ne1, ne2, ne3);
    vr_gg_rule(g, vr_gg_nelements(a) == 0 || vr_gg_can_repeat(a, t), "repeat: shapes");
    return vr_gg_by(t, VR_GG_REPEAT, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_repeat(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *like)
{
    a = vr_gg_given(g, a);
    like = vr_gg_given(g, like);
    vr_gg_rule(g, vr_gg_can_repeat(a, like), "repeat: shapes");
    return vr_gg_repeat_4d(g, a, like->ne[0], like->ne[1], like->ne[2], like->ne[3]);
}

vr_gg_tensor *vr_gg_concat(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b, int dim)
{
    a = vr_gg_given(g, a);
    b = vr_gg_given(g, b);
    vr_gg_rule(g, dim >= 0 && dim < VR_GG_DIMS && a->type == b->type, "concat: types differ");
    uint64_t ne[VR_GG_DIMS];
    for (int i = 0; i < VR_GG_DIMS; i++) {
        ne[i] = i == dim ? vr_add_sat(a->ne[i], b->ne[i]) : a->ne[i];
        vr_gg_rule(g, i == dim || a->ne[i] == b->ne[i], "concat: shapes differ");
    }
    vr_gg_tensor *t = vr_gg_by(vr_gg_make(g, a->type, ne), VR_GG_CONCAT, a, b, NULL);
    t->detail = (uint8_t)dim;
    return t;
}

/* ---- norms ---- */

vr_gg_tensor *vr_gg_norm(vr_gg *g, vr_gg_tensor *a)
{
    return of_one(g, VR_GG_NORM, a, false);
}

vr_gg_tensor *vr_gg_rms_norm(vr_gg *g, vr_gg_tensor *a)
{
    return of_one(g, VR_GG_RMS_NORM, a, false);
}

vr_gg_tensor *vr_gg_group_norm(vr_gg *g, vr_gg_tensor *a)
{
    return of_one(g, VR_GG_GROUP_NORM, a, false);
}

vr_gg_tensor *vr_gg_l2_norm(vr_gg *g, vr_gg_tensor *a)
{
    return of_one(g, VR_GG_L2_NORM, a, false);
}

vr_gg_tensor *vr_gg_unary_of(vr_gg *g, vr_gg_tensor *a, vr_gg_unary kind)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, kind == VR_GG_XIELU || vr_gg_contiguous_rows(a), "unary: rows have gaps");
    vr_gg_tensor *t = of_one(g, VR_GG_UNARY, a, false);
    t->detail = (uint8_t)kind;
    return t;
}

static vr_gg_tensor *glu(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_glu kind)
{
    vr_gg_rule(g, vr_gg_contiguous_but(a, 1, VR_GG_DIMS), "glu: not contiguous");
    uint64_t ne0 = b != NULL ? a->ne[0] : a->ne[0] / 2;
    vr_gg_tensor *t = vr_gg_new_4d(g, a->type, ne0, a->ne[1], a->ne[2], a->ne[3]);
    t->detail = (uint8_t)kind;
    return vr_gg_by(t, VR_GG_GLU, a, b, NULL);
}

vr_gg_tensor *vr_gg_glu_of(vr_gg *g, vr_gg_tensor *a, vr_gg_glu kind)
{
    return glu(g, vr_gg_given(g, a), NULL, kind);
}

vr_gg_tensor *vr_gg_glu_split(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_glu kind)
{
    a = vr_gg_given(g, a);
    b = vr_gg_given(g, b);
    vr_gg_rule(g, vr_gg_same_shape(a, b) && a->type == b->type, "glu: shapes differ");
    vr_gg_rule(g, vr_gg_contiguous_but(b, 1, VR_GG_DIMS), "glu: not contiguous");
    return glu(g, a, b, kind);
}

/* ---- products ---- */

static bool transposed(const vr_gg_tensor *t)
{
    return t->nb[0] > t->nb[1];
}

static bool can_mul_mat(const vr_gg_tensor *a, const vr_gg_tensor *b)
{
    return a->ne[0] == b->ne[0] && vr_gg_divides(a->ne[2], b->ne[2]) && vr_gg_divides(a->ne[3], b->ne[3]);
}

vr_gg_tensor *vr_gg_mul_mat(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b)
{
    a = vr_gg_given(g, a);
    b = vr_gg_given(g, b);
    vr_gg_rule(g, can_mul_mat(a, b), "mul_mat: shapes differ");
    vr_gg_rule(g, !transposed(a), "mul_mat: transposed");
    vr_gg_tensor *t = vr_gg_new_4d(g, VR_F32, a->ne[1], b->ne[1], b->ne[2], b->ne[3]);
    return vr_gg_by(t, VR_GG_MUL_MAT, a, b, NULL);
}

vr_gg_tensor *vr_gg_mul_mat_id(vr_gg *g, vr_gg_tensor *as, vr_gg_tensor *b, vr_gg_tensor *ids)
{
    as = vr_gg_given(g, as);
    b = vr_gg_given(g, b);
    ids = vr_gg_given(g, ids);
    vr_gg_rule(g, !transposed(as) && ids->type == VR_I32, "mul_mat_id: transposed or indexes are no I32");
    vr_gg_rule(g, as->ne[3] == 1 && b->ne[3] == 1 && ids->ne[2] == 1 && ids->ne[3] == 1,
               "mul_mat_id: too many axes");
    vr_gg_rule(g, ids->ne[1] == b->ne[2] && as->ne[0] == b->ne[0], "mul_mat_id: shapes differ");
    vr_gg_rule(g, vr_gg_divides(b->ne[1], ids->ne[0]), "mul_mat_id: experts");
    vr_gg_tensor *t = vr_gg_new_3d(g, VR_F32, as->ne[1], ids->ne[0], b->ne[2]);
    return vr_gg_by(t, VR_GG_MUL_MAT_ID, as, b, ids);
}

void vr_gg_mul_mat_id_wide(vr_gg_tensor *a)
{
    if (a != NULL && a->op == VR_GG_MUL_MAT_ID)
        a->detail = 1;
}

static vr_gg_tensor *scale(vr_gg *g, vr_gg_tensor *a, bool inplace)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g,
               a->nb[0] == vr_gg_element_size(a) && a->nb[2] == vr_mul_sat(a->nb[1], a->ne[1]) &&
                   a->nb[3] == vr_mul_sat(a->nb[2], a->ne[2]),
               "scale: more than rows have gaps");
    return of_one(g, VR_GG_SCALE, a, inplace);
}

vr_gg_tensor *vr_gg_scale(vr_gg *g, vr_gg_tensor *a)
{
    return scale(g, a, false);
}

vr_gg_tensor *vr_gg_scale_inplace(vr_gg *g, vr_gg_tensor *a)
{
    return scale(g, a, true);
}

/* ---- attention ---- */

static bool fits_softmax(const vr_gg_tensor *mask, const vr_gg_tensor *a)
{
    return (mask->type == VR_F16 || mask->type == VR_F32) && vr_gg_is_contiguous(mask) &&
           mask->ne[0] == a->ne[0] && mask->ne[1] >= a->ne[1] && vr_gg_divides(mask->ne[2], a->ne[2]) &&
           vr_gg_divides(mask->ne[3], a->ne[3]);
}

vr_gg_tensor *vr_gg_soft_max_ext(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *mask, bool bias)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, vr_gg_is_contiguous(a), "soft_max: not contiguous");
    vr_gg_rule(g, mask == NULL ? !bias : fits_softmax(mask, a), "soft_max: mask");
    vr_gg_tensor *t = of_one(g, VR_GG_SOFT_MAX, a, false);
    t->src[1] = mask;
    return t;
}

vr_gg_tensor *vr_gg_soft_max(vr_gg *g, vr_gg_tensor *a)
{
    return vr_gg_soft_max_ext(g, a, NULL, false);
}

void vr_gg_soft_max_add_sinks(vr_gg_tensor *a, vr_gg_tensor *sinks)
{
    if (a != NULL)
        a->src[2] = sinks;
}

vr_gg_tensor *vr_gg_rope(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *positions, vr_gg_tensor *factors)
{
    a = vr_gg_given(g, a);
    positions = vr_gg_given(g, positions);
    vr_gg_rule(g,
               positions->type == VR_I32 && positions->ne[1] == 1 && positions->ne[2] == 1 &&
                   positions->ne[3] == 1,
               "rope: positions are no vector of I32");
    vr_gg_rule(g, positions->ne[0] == a->ne[2] || positions->ne[0] == vr_mul_sat(a->ne[2], 4),
               "rope: a position for each token");
    vr_gg_rule(g, factors == NULL || factors->type == VR_F32, "rope: factors are no F32");
    vr_gg_tensor *t = of_one(g, VR_GG_ROPE, a, false);
    t->src[1] = positions;
    t->src[2] = factors;
    return t;
}

vr_gg_tensor *vr_gg_rope_back(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *positions, vr_gg_tensor *factors)
{
    vr_gg_tensor *t = vr_gg_rope(g, a, positions, factors);
    t->op = VR_GG_ROPE_BACK;
    return t;
}

vr_gg_tensor *vr_gg_clamp(vr_gg *g, vr_gg_tensor *a)
{
    return of_one(g, VR_GG_CLAMP, a, !g->clamp_apart);
}

static bool fits_attention(const vr_gg_tensor *mask, const vr_gg_tensor *q)
{
    return mask->type == VR_F16 && vr_gg_is_contiguous(mask) && vr_gg_divides(mask->ne[2], q->ne[2]) &&
           vr_gg_divides(mask->ne[3], q->ne[3]);
}

vr_gg_tensor *vr_gg_flash_attn_ext(vr_gg *g, vr_gg_tensor *q, vr_gg_tensor *k, vr_gg_tensor *v,
                                   vr_gg_tensor *mask)
{
    q = vr_gg_given(g, q);
    k = vr_gg_given(g, k);
    v = vr_gg_given(g, v);
    vr_gg_rule(g, can_mul_mat(k, q), "flash_attn_ext: shapes differ");
    vr_gg_rule(g, q->ne[3] == k->ne[3] && q->ne[3] == v->ne[3], "flash_attn_ext: streams differ");
    vr_gg_rule(g, mask == NULL || fits_attention(mask, q), "flash_attn_ext: mask");
    vr_gg_tensor *t = vr_gg_new_4d(g, VR_F32, v->ne[0], q->ne[2], q->ne[1], q->ne[3]);
    t->src[3] = mask;
    return vr_gg_by(t, VR_GG_FLASH_ATTN_EXT, q, k, v);
}

void vr_gg_flash_attn_ext_set_bias(vr_gg_tensor *a)
{
    if (a != NULL)
        a->detail = 1;
}

void vr_gg_flash_attn_ext_add_sinks(vr_gg_tensor *a, vr_gg_tensor *sinks)
{
    if (a != NULL)
        a->src[4] = sinks;
}
