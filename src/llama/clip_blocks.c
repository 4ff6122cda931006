/* SPDX-License-Identifier: MIT
 * What the graphs of projectors are built with.
 *
 * Source: llama.cpp b10470, tools/mtmd/clip.cpp (clip_graph), ggml/src/ggml.c (ggml_conv_2d). */
#include "llama/clip_parts.h"

#include <string.h>

#define MOST_NAME 64

/* ---- weights ---- */

vr_t vr_cg_w(vr_cg *c, int il, const char *name)
{
    const vr_clip_layer *l = &c->tower->layers[il >= 0 ? (uint64_t)il : c->tower->n_layer];
    for (size_t i = 0; i < l->n; i++) {
        const vr_clip_weight *w = &l->weights[i];
        if (!vr_str_is(w->name, name))
            continue;
        const vr_tensor *t = &c->file->tensors[w->tensor];
        uint64_t ne[VR_GG_DIMS];
        for (size_t d = 0; d < VR_GG_DIMS; d++)
            ne[d] = d < t->n_dims ? t->dims[d] : 1;
        if (c->made[w->tensor] == NULL)
            c->made[w->tensor] = vr_gg_placed(c->g, NULL, (vr_dtype)t->dtype, ne, c->buft, true);
        return c->made[w->tensor];
    }
    return NULL;
}

static vr_t part(vr_cg *c, int il, const char *name, const char *behind)
{
    char whole[MOST_NAME];
    size_t n = strlen(name), m = strlen(behind);
    if (n + m >= sizeof whole)
        return NULL;
    memcpy(whole, name, n);
    memcpy(whole + n, behind, m + 1);
    return vr_cg_w(c, il, whole);
}

vr_t vr_cg_weight(vr_cg *c, int il, const char *name)
{
    return part(c, il, name, ".weight");
}

vr_t vr_cg_bias(vr_cg *c, int il, const char *name)
{
    return part(c, il, name, ".bias");
}

/* ---- inputs ---- */

vr_t vr_cg_input(vr_cg *c, const char *name, vr_dtype t, uint64_t n)
{
    return vr_gg_input(c->g, name, t, n, 1, 1, 1);
}

vr_t vr_cg_raw(vr_cg *c)
{
    return vr_gg_input(c->g, "inp_raw", VR_F32, c->side, c->side, 3, 1);
}

vr_t vr_cg_conv_2d(vr_cg *c, vr_t kernel, vr_t a, uint64_t stride)
{
    vr_gg *g = c->g;
    if (kernel == NULL)
        return vr_gg_mul_mat(g, NULL, a); /* breaks the graph */
    vr_dtype type = kernel->type == VR_BF16 ? VR_F32 : VR_F16;
    vr_t columns = vr_gg_im2col(g, kernel, a, stride, stride, 0, 0, 1, 1, true, type);
    uint64_t row = vr_mul_sat(vr_mul_sat(kernel->ne[0], kernel->ne[1]), kernel->ne[2]);
    uint64_t places = vr_mul_sat(vr_mul_sat(columns->ne[1], columns->ne[2]), columns->ne[3]);
    vr_t flat = vr_gg_reshape_2d(g, columns, columns->ne[0], places);
    vr_t out = vr_gg_mul_mat(g, flat, vr_gg_reshape_2d(g, kernel, row, kernel->ne[3]));
    out = vr_gg_reshape_4d(g, out, columns->ne[1], columns->ne[2], columns->ne[3], kernel->ne[3]);
    return vr_gg_cont(g, vr_gg_permute(g, out, 0, 1, 3, 2));
}

vr_t vr_cg_patches(vr_cg *c)
{
    vr_gg *g = c->g;
    vr_t cur = vr_cg_conv_2d(c, vr_cg_w(c, -1, "v.patch_embd.weight"), vr_cg_raw(c), c->patch);
    cur = vr_gg_reshape_3d(g, cur, c->patches, c->n_embd, 1);
    cur = vr_gg_cont(g, vr_gg_transpose(g, cur));
    return vr_cg_plus(c, cur, vr_cg_w(c, -1, "v.patch_embd.bias"));
}

/* ---- layers ---- */

vr_t vr_cg_plus(vr_cg *c, vr_t cur, vr_t b)
{
    return b != NULL ? vr_gg_add(c->g, cur, b) : cur;
}

static vr_t norm_by(vr_cg *c, vr_t cur, vr_t w, vr_t b, bool rms)
{
    cur = rms ? vr_gg_rms_norm(c->g, cur) : vr_gg_norm(c->g, cur);
    if (w != NULL)
        cur = vr_gg_mul(c->g, cur, w);
    return vr_cg_plus(c, cur, b);
}

vr_t vr_cg_norm_of(vr_cg *c, vr_t cur, int il, const char *name, bool rms)
{
    return norm_by(c, cur, vr_cg_weight(c, il, name), vr_cg_bias(c, il, name), rms);
}

vr_t vr_cg_linear(vr_cg *c, vr_t cur, int il, const char *name)
{
    cur = vr_gg_mul_mat(c->g, vr_cg_weight(c, il, name), cur);
    return vr_cg_plus(c, cur, vr_cg_bias(c, il, name));
}

static vr_t activated(vr_cg *c, vr_t cur, vr_cg_act act)
{
    if (act == VR_CG_RELU_SQR)
        return vr_gg_sqr(c->g, vr_gg_unary_of(c->g, cur, VR_GG_RELU));
    return vr_gg_unary_of(c->g, cur, act == VR_CG_SILU ? VR_GG_SILU : VR_GG_GELU);
}

vr_t vr_cg_mlp(vr_cg *c, vr_t cur, const char *up, const char *down, vr_cg_act act)
{
    return vr_cg_linear(c, activated(c, vr_cg_linear(c, cur, -1, up), act), -1, down);
}

/* In old files what is called up is the matrix that leads back to the width of the model. */
static bool is_swapped(vr_cg *c, const vr_clip_kind *kind, int il)
{
    vr_t down = vr_cg_weight(c, il, "ffn_down");
    return kind->swapped && down != NULL && down->ne[0] == c->n_embd && vr_cg_weight(c, il, "ffn_up") != NULL;
}

vr_t vr_cg_layer_ffn(vr_cg *c, vr_t cur, int il, vr_cg_act act)
{
    bool swapped = is_swapped(c, c->tower->kind, il);
    vr_t up = vr_cg_linear(c, cur, il, swapped ? "ffn_down" : "ffn_up");
    if (vr_cg_weight(c, il, "ffn_gate") != NULL) {
        vr_t gate = vr_cg_linear(c, cur, il, "ffn_gate");
        up = vr_gg_glu_split(c->g, gate, up, act == VR_CG_SILU ? VR_GG_SWIGLU : VR_GG_GEGLU);
    } else {
        up = activated(c, up, act);
    }
    return vr_cg_linear(c, up, il, swapped ? "ffn_up" : "ffn_down");
}

/* ---- attention ---- */

static vr_t flash(vr_cg *c, vr_t q, vr_t k, vr_t v, vr_t mask)
{
    vr_gg *g = c->g;
    k = vr_gg_cast(g, k, VR_F16);
    v = vr_gg_cast(g, vr_gg_permute(g, v, 0, 2, 1, 3), VR_F16);
    if (mask != NULL)
        mask = vr_gg_cast(g, mask, VR_F16);
    vr_t cur = c->attention = vr_gg_flash_attn_ext(g, q, k, v, mask);
    return vr_gg_reshape_2d(g, cur, vr_mul_sat(cur->ne[0], cur->ne[1]), vr_mul_sat(cur->ne[2], cur->ne[3]));
}

static vr_t scores(vr_cg *c, vr_t q, vr_t k, vr_t v, vr_t mask)
{
    vr_gg *g = c->g;
    v = vr_gg_cont(g, vr_gg_permute(g, v, 1, 2, 0, 3));
    vr_t kq = vr_gg_soft_max_ext(g, vr_gg_mul_mat(g, k, q), mask, false);
    vr_t cur = vr_gg_permute(g, vr_gg_mul_mat(g, v, kq), 0, 2, 1, 3);
    return vr_gg_cont_2d(g, cur, vr_mul_sat(cur->ne[0], cur->ne[1]), vr_mul_sat(cur->ne[2], cur->ne[3]));
}

static vr_t attend(vr_cg *c, vr_cg_qkv x, vr_t mask, vr_t wo, vr_t wo_b)
{
    vr_gg *g = c->g;
    vr_gg_build_forward_expand(g, x.q);
    vr_gg_build_forward_expand(g, x.k);
    vr_gg_build_forward_expand(g, x.v);
    vr_t q = vr_gg_permute(g, x.q, 0, 2, 1, 3), k = vr_gg_permute(g, x.k, 0, 2, 1, 3);
    vr_t cur = c->flash ? flash(c, q, k, x.v, mask) : scores(c, q, k, x.v, mask);
    if (wo != NULL)
        cur = vr_gg_mul_mat(g, wo, cur);
    return vr_cg_plus(c, cur, wo_b);
}

vr_t vr_cg_attend_layer(vr_cg *c, vr_cg_qkv x, vr_t mask, int il)
{
    return attend(c, x, mask, vr_cg_weight(c, il, "attn_out"), vr_cg_bias(c, il, "attn_out"));
}

/* ---- the encoder that most have ---- */

static vr_t head_norm(vr_cg *c, vr_t t, int il, const char *name, bool rms)
{
    vr_t w = vr_cg_weight(c, il, name);
    return w != NULL ? norm_by(c, t, w, NULL, rms) : t;
}

/* Views into one matrix's result. */
static vr_cg_qkv fused(vr_cg *c, vr_t cur, const vr_cg_vit *v, int il)
{
    vr_gg *g = c->g;
    cur = vr_cg_linear(c, cur, il, "attn_qkv");
    uint64_t row = vr_mul_sat(c->n_head, c->head), step = vr_gg_row_size(VR_F32, c->head);
    vr_t view[3];
    for (uint64_t i = 0; i < 3; i++)
        view[i] = vr_gg_view_4d(g, cur, c->head, c->n_head, v->n_pos, 1, step, cur->nb[1],
                                vr_mul_sat(cur->nb[1], v->n_pos), vr_gg_row_size(VR_F32, vr_mul_sat(i, row)));
    return (vr_cg_qkv){ head_norm(c, view[0], il, "attn_q_norm", v->rms),
                        head_norm(c, view[1], il, "attn_k_norm", v->rms), view[2] };
}

static vr_cg_qkv apart(vr_cg *c, vr_t cur, const vr_cg_vit *v, int il)
{
    vr_gg *g = c->g;
    vr_cg_qkv x;
    x.q = vr_cg_linear(c, cur, il, "attn_q");
    x.k = vr_cg_linear(c, cur, il, "attn_k");
    x.v = vr_cg_linear(c, cur, il, "attn_v");
    vr_t norm = vr_cg_weight(c, il, "attn_q_norm");
    bool each = norm != NULL && norm->ne[0] == c->head;
    if (!each) {
        x.q = head_norm(c, x.q, il, "attn_q_norm", v->rms);
        x.k = head_norm(c, x.k, il, "attn_k_norm", v->rms);
    }
    x.q = vr_gg_reshape_4d(g, x.q, c->head, c->n_head, v->n_pos, 1);
    x.k = vr_gg_reshape_4d(g, x.k, c->head, c->n_head_kv, v->n_pos, 1);
    x.v = vr_gg_reshape_4d(g, x.v, c->head, c->n_head_kv, v->n_pos, 1);
    if (each) {
        x.q = head_norm(c, x.q, il, "attn_q_norm", v->rms);
        x.k = head_norm(c, x.k, il, "attn_k_norm", v->rms);
    }
    return x;
}

static vr_t attention(vr_cg *c, vr_t cur, const vr_cg_vit *v, int il)
{
    bool one = vr_cg_weight(c, il, "attn_qkv") != NULL;
    vr_cg_qkv x = one ? fused(c, cur, v, il) : apart(c, cur, v, il);
    if (v->turn != NULL) {
        x.q = v->turn(c, x.q, v->with);
        x.k = v->turn(c, x.k, v->with);
    }
    if (v->norm_values)
        x.v = vr_gg_rms_norm(c->g, x.v);
    return vr_cg_attend_layer(c, x, v->mask, il);
}

static vr_t scaled(vr_cg *c, vr_t cur, int il, const char *name)
{
    vr_t w = vr_cg_weight(c, il, name);
    return w != NULL ? vr_gg_mul(c->g, cur, w) : cur;
}

static vr_t layer(vr_cg *c, vr_t inp, const vr_cg_vit *v, int il)
{
    vr_t cur = attention(c, vr_cg_norm_of(c, inp, il, "ln1", v->rms), v, il);
    cur = head_norm(c, scaled(c, cur, il, "ls1"), il, "attn_post_norm", v->rms);
    inp = cur = vr_gg_add(c->g, cur, inp);
    cur = vr_cg_layer_ffn(c, vr_cg_norm_of(c, cur, il, "ln2", v->rms), il, v->act);
    cur = scaled(c, head_norm(c, cur, il, "ffn_post_norm", v->rms), il, "ls2");
    return scaled(c, vr_gg_add(c->g, inp, cur), il, "out_scale");
}

vr_t vr_cg_build_vit(vr_cg *c, vr_t inp, const vr_cg_vit *v)
{
    vr_gg *g = c->g;
    inp = vr_gg_reshape_2d(g, vr_cg_plus(c, inp, v->positions), c->n_embd, v->n_pos);
    if (vr_cg_weight(c, -1, "v.pre_ln") != NULL)
        inp = vr_cg_norm_of(c, inp, -1, "v.pre_ln", v->rms);
    for (int il = 0; il < (int)c->n_layer && g->broken == NULL; il++)
        inp = layer(c, inp, v, il);
    if (vr_cg_weight(c, -1, "v.post_ln") != NULL && !v->no_end)
        inp = vr_cg_norm_of(c, inp, -1, "v.post_ln", v->rms);
    return vr_gg_reshape_3d(g, inp, c->n_embd, inp->ne[1], 1);
}

/* ---- positions ---- */

static vr_t half(vr_cg *c, vr_t cur, vr_t positions, uint64_t offset)
{
    vr_t view =
        vr_gg_view_3d(c->g, cur, cur->ne[0] / 2, cur->ne[1], cur->ne[2], cur->nb[1], cur->nb[2], offset);
    return vr_gg_rope(c->g, view, positions, NULL);
}

vr_t vr_cg_rope_2d(vr_cg *c, vr_t cur, vr_t first, vr_t second)
{
    vr_t a = half(c, cur, first, 0);
    vr_t b = half(c, cur, second, vr_mul_sat(cur->ne[0] / 2, vr_gg_element_size(cur)));
    return vr_gg_concat(c->g, a, b, 0);
}

static uint64_t root(uint64_t n)
{
    uint64_t r = 0;
    while (r < 65536 && (r + 1) * (r + 1) <= n)
        r++;
    return r;
}

vr_t vr_cg_resized_positions(vr_cg *c)
{
    vr_gg *g = c->g;
    vr_t cur = vr_cg_w(c, -1, "v.position_embd.weight");
    uint64_t side = cur != NULL ? root(cur->ne[1]) : 0;
    if (side == c->px && side == c->py)
        return cur;
    cur = vr_gg_permute(g, vr_gg_reshape_3d(g, cur, c->n_embd, side, side), 2, 0, 1, 3);
    cur = vr_gg_permute(g, vr_gg_interpolate(g, cur, c->px, c->py, c->n_embd, 1), 1, 2, 0, 3);
    return vr_gg_cont_2d(g, cur, c->n_embd, c->patches);
}

vr_t vr_cg_unshuffle(vr_cg *c, vr_t cur, uint64_t factor)
{
    vr_gg *g = c->g;
    uint64_t f = factor > 0 ? factor : 1, row = vr_mul_sat(cur->ne[0], f);
    uint64_t w = vr_round_up(c->px, f), h = vr_round_up(c->py, f);
    cur = vr_gg_reshape_3d(g, cur, cur->ne[0], c->px, c->py);
    if (w != c->px || h != c->py)
        cur = vr_gg_pad(g, cur, 0, w - c->px, h - c->py, 0);
    cur = vr_gg_permute(g, vr_gg_reshape_3d(g, cur, row, w / f, h), 0, 2, 1, 3);
    cur = vr_gg_permute(g, vr_gg_cont_3d(g, cur, vr_mul_sat(row, f), h / f, w / f), 0, 2, 1, 3);
    return vr_gg_cont_2d(g, cur, cur->ne[0], vr_mul_sat(cur->ne[1], cur->ne[2]));
}
