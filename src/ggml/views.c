/* SPDX-License-Identifier: MIT
 * Other shapes of the same memory, and copies.
 * Source: ggml 0.20, ggml/src/ggml.c. */
#include "ggml/parts.h"

/* ---- views ---- */

static vr_gg_tensor *view(vr_gg *g, vr_gg_tensor *a, const uint64_t ne[VR_GG_DIMS], uint64_t offset)
{
    a = vr_gg_given(g, a);
    return vr_gg_by(vr_gg_make_view(g, a, ne, offset), VR_GG_VIEW, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_view_1d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t offset)
{
    return view(g, a, (const uint64_t[]){ ne0, 1, 1, 1 }, offset);
}

vr_gg_tensor *vr_gg_view_2d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t nb1,
                            uint64_t offset)
{
    vr_gg_tensor *t = view(g, a, (const uint64_t[]){ ne0, ne1, 1, 1 }, offset);
    t->nb[1] = nb1;
    t->nb[2] = vr_mul_sat(nb1, ne1);
    t->nb[3] = t->nb[2];
    return t;
}

vr_gg_tensor *vr_gg_view_3d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2, uint64_t nb1,
                            uint64_t nb2, uint64_t offset)
{
    vr_gg_tensor *t = view(g, a, (const uint64_t[]){ ne0, ne1, ne2, 1 }, offset);
    t->nb[1] = nb1;
    t->nb[2] = nb2;
    t->nb[3] = vr_mul_sat(nb2, ne2);
    return t;
}

vr_gg_tensor *vr_gg_view_4d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2, uint64_t ne3,
                            uint64_t nb1, uint64_t nb2, uint64_t nb3, uint64_t offset)
{
    vr_gg_tensor *t = view(g, a, (const uint64_t[]){ ne0, ne1, ne2, ne3 }, offset);
    t->nb[1] = nb1;
    t->nb[2] = nb2;
    t->nb[3] = nb3;
    return t;
}

vr_gg_tensor *vr_gg_reshape_4d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                               uint64_t ne3)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, vr_gg_is_contiguous(a), "reshape: not contiguous");
    vr_gg_rule(g, vr_gg_nelements(a) == vr_mul_sat(vr_mul_sat(ne0, ne1), vr_mul_sat(ne2, ne3)),
               "reshape: another number of elements");
    vr_gg_tensor *t = vr_gg_make_view(g, a, (const uint64_t[]){ ne0, ne1, ne2, ne3 }, 0);
    return vr_gg_by(t, VR_GG_RESHAPE, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_reshape_3d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    return vr_gg_reshape_4d(g, a, ne0, ne1, ne2, 1);
}

vr_gg_tensor *vr_gg_reshape_2d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1)
{
    return vr_gg_reshape_4d(g, a, ne0, ne1, 1, 1);
}

vr_gg_tensor *vr_gg_reshape_1d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0)
{
    return vr_gg_reshape_4d(g, a, ne0, 1, 1, 1);
}

/* ggml_permute keeps shapes and strides in an int on the way: strides from 2 GiB on come out as another
 * number, with the sign's bits on top. */
static uint64_t through_int(uint64_t x)
{
    uint64_t low = x & UINT32_MAX;
    return low > INT32_MAX ? low | ~(uint64_t)UINT32_MAX : low;
}

vr_gg_tensor *vr_gg_permute(vr_gg *g, vr_gg_tensor *a, int axis0, int axis1, int axis2, int axis3)
{
    a = vr_gg_given(g, a);
    const int axes[VR_GG_DIMS] = { axis0, axis1, axis2, axis3 };
    vr_gg_tensor *t = vr_gg_make_same(g, a);
    unsigned used = 0;
    for (int i = 0; i < VR_GG_DIMS; i++) {
        if (!vr_gg_rule(g, axes[i] >= 0 && axes[i] < VR_GG_DIMS && (used >> axes[i] & 1) == 0,
                        "permute: axes"))
            return t;
        used |= 1u << axes[i];
    }
    for (int i = 0; i < VR_GG_DIMS; i++) {
        vr_gg_rule(g, a->ne[i] <= INT32_MAX, "permute: an axis too long");
        t->ne[axes[i]] = a->ne[i];
        t->nb[axes[i]] = through_int(a->nb[i]);
    }
    return vr_gg_by(t, VR_GG_PERMUTE, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_transpose(vr_gg *g, vr_gg_tensor *a)
{
    a = vr_gg_given(g, a);
    vr_gg_tensor *t = vr_gg_make_same(g, a);
    t->ne[0] = a->ne[1];
    t->ne[1] = a->ne[0];
    t->nb[0] = a->nb[1];
    t->nb[1] = a->nb[0];
    return vr_gg_by(t, VR_GG_TRANSPOSE, a, NULL, NULL);
}

/* ---- copies ---- */

vr_gg_tensor *vr_gg_cont(vr_gg *g, vr_gg_tensor *a)
{
    a = vr_gg_given(g, a);
    return vr_gg_by(vr_gg_make(g, a->type, a->ne), VR_GG_CONT, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_cont_4d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2, uint64_t ne3)
{
    a = vr_gg_given(g, a);
    vr_gg_rule(g, vr_gg_nelements(a) == vr_mul_sat(vr_mul_sat(ne0, ne1), vr_mul_sat(ne2, ne3)),
               "cont: another number of elements");
    return vr_gg_by(vr_gg_new_4d(g, a->type, ne0, ne1, ne2, ne3), VR_GG_CONT, a, NULL, NULL);
}

vr_gg_tensor *vr_gg_cont_3d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    return vr_gg_cont_4d(g, a, ne0, ne1, ne2, 1);
}

vr_gg_tensor *vr_gg_cont_2d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1)
{
    return vr_gg_cont_4d(g, a, ne0, ne1, 1, 1);
}

vr_gg_tensor *vr_gg_cpy(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b)
{
    a = vr_gg_given(g, a);
    b = vr_gg_given(g, b);
    vr_gg_rule(g, vr_gg_nelements(a) == vr_gg_nelements(b), "cpy: another number of elements");
    return vr_gg_by(vr_gg_make_same(g, b), VR_GG_CPY, a, b, NULL);
}

vr_gg_tensor *vr_gg_cast(vr_gg *g, vr_gg_tensor *a, vr_dtype type)
{
    a = vr_gg_given(g, a);
    vr_gg_tensor *t = vr_gg_make(g, type, a->ne);
    return vr_gg_by(t, VR_GG_CPY, a, t, NULL); /* its own second source, as in ggml */
}

vr_gg_tensor *vr_gg_set_1d(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b, uint64_t offset)
{
    a = vr_gg_given(g, a);
    b = vr_gg_given(g, b);
    vr_gg_rule(g, vr_gg_nelements(a) >= vr_gg_nelements(b) && offset < 1u << 30, "set: too much");
    return vr_gg_by(vr_gg_make(g, a->type, a->ne), VR_GG_SET, a, b, NULL);
}

vr_gg_tensor *vr_gg_set_inplace(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b)
{
    a = vr_gg_given(g, a);
    b = vr_gg_given(g, b);
    vr_gg_rule(g, vr_gg_nelements(a) >= vr_gg_nelements(b), "set: too much");
    return vr_gg_by(vr_gg_make_same(g, a), VR_GG_SET, a, b, NULL);
}

vr_gg_tensor *vr_gg_get_rows(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *ids)
{
    a = vr_gg_given(g, a);
    ids = vr_gg_given(g, ids);
    vr_gg_rule(g, a->ne[2] == ids->ne[1] && a->ne[3] == ids->ne[2] && ids->ne[3] == 1, "get_rows: shapes");
    vr_gg_rule(g, ids->type == VR_I32, "get_rows: indexes are no I32");
    vr_dtype type = a->type == VR_I32 ? VR_I32 : VR_F32;
    vr_gg_tensor *t = vr_gg_new_4d(g, type, a->ne[0], ids->ne[0], ids->ne[1], ids->ne[2]);
    return vr_gg_by(t, VR_GG_GET_ROWS, a, ids, NULL);
}

vr_gg_tensor *vr_gg_set_rows(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_tensor *ids)
{
    a = vr_gg_given(g, a);
    b = vr_gg_given(g, b);
    ids = vr_gg_given(g, ids);
    vr_gg_rule(g, a->ne[0] == b->ne[0] && a->ne[2] == b->ne[2] && a->ne[3] == b->ne[3], "set_rows: shapes");
    vr_gg_rule(g, b->ne[1] == ids->ne[0] && ids->ne[3] == 1, "set_rows: an index for each row");
    vr_gg_rule(g, vr_gg_divides(ids->ne[1], b->ne[2]) && vr_gg_divides(ids->ne[2], b->ne[3]),
               "set_rows: indexes");
    vr_gg_rule(g, b->type == VR_F32 || b->type == VR_F16, "set_rows: rows are neither F32 nor F16");
    vr_gg_rule(g, ids->type == VR_I64 || ids->type == VR_I32, "set_rows: indexes are no integers");
    vr_gg_rule(g, vr_gg_contiguous_rows(a) && vr_gg_contiguous_rows(b), "set_rows: rows have gaps");
    return vr_gg_by(vr_gg_make_same(g, a), VR_GG_SET_ROWS, b, ids, a);
}
