/* SPDX-License-Identifier: MIT
 * Qwen2-VL, Qwen2.5-VL and Qwen3-VL: two kernels for two frames, patches in squares of four, positions in
 * height and width.
 *
 * Source: llama.cpp b10470, tools/mtmd/models/qwen2vl.cpp, qwen3vl.cpp. */
#include "llama/clip_kinds.h"

#define SQUARE 4 /* patches that become a token */

/* [row, squares of two in a row, ...] to the order in which a square's patches lie together. */
static vr_t squared(vr_cg *c, vr_t cur)
{
    vr_gg *g = c->g;
    uint64_t two = vr_mul_sat(c->n_embd, 2);
    cur = vr_gg_cont_4d(g, cur, two, c->px / 2, c->py, 1);
    cur = vr_gg_reshape_4d(g, cur, two, c->px / 2, 2, c->py / 2);
    return vr_gg_cont_3d(g, vr_gg_permute(g, cur, 0, 2, 1, 3), c->n_embd, c->patches, 1);
}

static vr_t patches(vr_cg *c)
{
    vr_gg *g = c->g;
    vr_t raw = vr_cg_raw(c);
    vr_t second = vr_cg_conv_2d(c, vr_cg_w(c, -1, "v.patch_embd.weight.1"), raw, c->patch);
    vr_t first = vr_cg_conv_2d(c, vr_cg_w(c, -1, "v.patch_embd.weight"), raw, c->patch);
    return squared(c, vr_gg_permute(g, vr_gg_add(g, first, second), 1, 2, 0, 3));
}

static vr_t merged(vr_cg *c, vr_t cur)
{
    cur = vr_gg_reshape_3d(c->g, cur, vr_mul_sat(c->n_embd, SQUARE), c->patches / SQUARE, 1);
    return vr_cg_mlp(c, cur, "mm.0", "mm.2", VR_CG_GELU);
}

/* ---- Qwen2-VL and Qwen2.5-VL ---- */

static vr_t turned(vr_cg *c, vr_t cur, vr_t positions)
{
    vr_t heads = vr_gg_reshape_3d(c->g, cur, c->head, c->n_head, c->patches);
    return positions != NULL ? vr_gg_rope(c->g, heads, positions, NULL) : heads;
}

static vr_t qwen2_layer(vr_cg *c, vr_t inp, int il, vr_t positions, vr_t mask, bool rms)
{
    vr_gg *g = c->g;
    vr_t cur = vr_cg_norm_of(c, inp, il, "ln1", rms);
    vr_cg_qkv x;
    x.q = vr_cg_linear(c, cur, il, "attn_q");
    x.k = vr_cg_linear(c, cur, il, "attn_k");
    x.v = vr_cg_linear(c, cur, il, "attn_v");
    x.q = turned(c, x.q, positions);
    x.k = turned(c, x.k, positions);
    x.v = turned(c, x.v, NULL);
    inp = vr_gg_add(g, vr_cg_attend_layer(c, x, mask, il), inp);
    cur = vr_cg_norm_of(c, inp, il, "ln2", rms);
    return vr_gg_add(g, inp, vr_cg_layer_ffn(c, cur, il, VR_CG_SILU));
}

/* Squares in the order of their windows, or back. */
static vr_t reordered(vr_cg *c, vr_t cur, uint64_t row, uint64_t square, vr_t order)
{
    vr_gg *g = c->g;
    uint64_t n = c->patches / SQUARE;
    cur = vr_gg_get_rows(g, vr_gg_reshape_2d(g, cur, vr_mul_sat(row, square), n), order);
    return vr_gg_reshape_3d(g, cur, row, vr_mul_sat(n, square), 1);
}

vr_t vr_clip_qwen2vl(vr_cg *c)
{
    vr_gg *g = c->g;
    bool rms = vr_str_is(c->tower->type, "qwen2.5vl_merger"), windows = c->pattern > 0;
    vr_t inp = patches(c), mask = NULL;
    vr_t positions = vr_cg_input(c, "positions", VR_I32, vr_mul_sat(c->patches, 4));
    if (vr_cg_weight(c, -1, "v.pre_ln") != NULL)
        inp = vr_cg_norm_of(c, inp, -1, "v.pre_ln", rms);
    if (windows) {
        vr_t back = vr_cg_input(c, "inv_window_idx", VR_I32, c->patches / SQUARE);
        mask = vr_gg_input(g, "window_mask", VR_F32, c->patches, c->patches, 1, 1);
        mask = c->flash ? vr_gg_cast(g, mask, VR_F16) : mask;
        inp = reordered(c, inp, c->n_embd, SQUARE, back);
    }
    for (int il = 0; il < (int)c->n_layer && g->broken == NULL; il++) {
        bool full = !windows || ((uint64_t)il + 1) % c->pattern == 0;
        inp = qwen2_layer(c, inp, il, positions, full ? NULL : mask, rms);
    }
    if (vr_cg_weight(c, -1, "v.post_ln") != NULL)
        inp = vr_cg_norm_of(c, inp, -1, "v.post_ln", rms);
    inp = merged(c, inp);
    if (windows)
        inp = reordered(c, inp, c->projection, 1, vr_cg_input(c, "window_idx", VR_I32, c->patches / SQUARE));
    return inp;
}

/* ---- Qwen3-VL ---- */

static vr_cg_qkv qwen3_heads(vr_cg *c, vr_t cur, int il, vr_t positions)
{
    vr_gg *g = c->g;
    vr_t view[3];
    cur = vr_cg_linear(c, cur, il, "attn_qkv");
    for (uint64_t i = 0; i < 3; i++)
        view[i] = vr_gg_view_3d(g, cur, c->head, c->n_head, c->patches, vr_gg_row_size(VR_F32, c->head),
                                cur->nb[1], vr_gg_row_size(VR_F32, vr_mul_sat(i, c->n_embd)));
    vr_t q = vr_gg_rope(g, view[0], positions, NULL), k = vr_gg_rope(g, view[1], positions, NULL);
    return (vr_cg_qkv){ q, k, view[2] };
}

/* "v.deepstack.8.fc1": of layers whose results are stacked behind the picture's. */
static vr_t deep(vr_cg *c, vr_t cur, int il)
{
    static const char *const parts[] = { "norm", "fc1", "fc2" };
    const char *name[3];
    for (size_t i = 0; i < 3; i++) {
        name[i] = vr_text(c->g->arena, T("v.deepstack."), U((uint64_t)il), T("."), T(parts[i]));
        if (name[i] == NULL)
            return NULL;
    }
    if (vr_cg_weight(c, -1, name[1]) == NULL)
        return NULL;
    uint64_t square = vr_mul_sat(c->merge, c->merge);
    cur = vr_gg_reshape_3d(c->g, cur, vr_mul_sat(c->n_embd, square), c->patches / square, 1);
    return vr_cg_mlp(c, vr_cg_norm_of(c, cur, -1, name[0], false), name[1], name[2], VR_CG_GELU);
}

static vr_t qwen3_layer(vr_cg *c, vr_t inp, int il, vr_t positions)
{
    vr_gg *g = c->g;
    vr_t cur = vr_cg_norm_of(c, inp, il, "ln1", false);
    inp = vr_gg_add(g, vr_cg_attend_layer(c, qwen3_heads(c, cur, il, positions), NULL, il), inp);
    cur = vr_cg_norm_of(c, inp, il, "ln2", false);
    return vr_gg_add(g, inp, vr_cg_layer_ffn(c, cur, il, VR_CG_GELU));
}

vr_t vr_clip_qwen3vl(vr_cg *c)
{
    vr_gg *g = c->g;
    vr_t stacked = NULL;
    vr_t inp = vr_cg_plus(c, patches(c), vr_cg_w(c, -1, "v.patch_embd.bias"));
    inp = vr_gg_add(g, inp, squared(c, vr_cg_resized_positions(c)));
    vr_t positions = vr_cg_input(c, "positions", VR_I32, vr_mul_sat(c->patches, 4));
    if (vr_cg_weight(c, -1, "v.pre_ln") != NULL)
        inp = vr_cg_norm_of(c, inp, -1, "v.pre_ln", false);
    for (int il = 0; il < (int)c->n_layer && g->broken == NULL; il++) {
        inp = qwen3_layer(c, inp, il, positions);
        vr_t more = deep(c, inp, il);
        if (more != NULL)
            stacked = stacked != NULL ? vr_gg_concat(g, stacked, more, 0) : more;
    }
    if (vr_cg_weight(c, -1, "v.post_ln") != NULL)
        inp = vr_cg_norm_of(c, inp, -1, "v.post_ln", false);
    inp = merged(c, inp);
    return stacked != NULL ? vr_gg_concat(g, inp, stacked, 0) : inp;
}
