/* SPDX-License-Identifier: MIT
 * Kinds of projectors: what each loads beside the layers, and its graph for one picture.
 *
 * Source: llama.cpp b10470, tools/mtmd/clip.cpp (load_hparams, load_tensors), tools/mtmd/models/ (siglip,
 * llava, internvl, llama4, pixtral). */
#include "llama/clip_kinds.h"

/* ---- SigLIP ---- */

static vr_t siglip(vr_cg *c, vr_t positions)
{
    vr_t inp = vr_cg_patches(c);
    return vr_cg_build_vit(c, inp, &(vr_cg_vit){ .n_pos = c->patches, .positions = positions });
}

static vr_t siglip_plain(vr_cg *c)
{
    return siglip(c, vr_cg_w(c, -1, "v.position_embd.weight"));
}

static vr_t gemma3(vr_cg *c)
{
    vr_gg *g = c->g;
    vr_t cur = vr_gg_transpose(g, siglip_plain(c));
    cur = vr_gg_pool_2d(g, vr_gg_cont_4d(g, cur, c->px, c->px, c->n_embd, 1), c->merge, c->merge, c->merge,
                        c->merge);
    cur = vr_gg_reshape_3d(g, cur, vr_mul_sat(cur->ne[0], cur->ne[0]), c->n_embd, 1);
    cur = vr_gg_cont(g, vr_gg_transpose(g, cur));
    cur = vr_gg_mul(g, vr_gg_rms_norm(g, cur), vr_cg_w(c, -1, "mm.soft_emb_norm.weight"));
    vr_t w = vr_cg_w(c, -1, "mm.input_projection.weight");
    return vr_gg_mul_mat(g, vr_gg_cont(g, vr_gg_transpose(g, w)), cur);
}

static vr_t idefics3(vr_cg *c)
{
    vr_t cur = vr_cg_unshuffle(c, siglip_plain(c), c->merge);
    return vr_gg_mul_mat(c->g, vr_cg_weight(c, -1, "mm.model.fc"), cur);
}

static vr_t lfm2(vr_cg *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_cg_patches(c);
    vr_t cur =
        vr_cg_build_vit(c, inp, &(vr_cg_vit){ .n_pos = c->patches, .positions = vr_cg_resized_positions(c) });
    cur = vr_cg_unshuffle(c, cur, c->merge);
    vr_t norm = vr_cg_weight(c, -1, "mm.input_norm");
    if (norm != NULL)
        cur = vr_gg_mul(g, vr_gg_norm(g, cur), norm);
    cur = vr_cg_plus(c, cur, vr_cg_bias(c, -1, "mm.input_norm"));
    return vr_cg_mlp(c, cur, "mm.1", "mm.2", VR_CG_GELU);
}

static vr_t phi4(vr_cg *c)
{
    vr_t inp = vr_cg_patches(c);
    vr_t cur =
        vr_cg_build_vit(c, inp, &(vr_cg_vit){ .n_pos = c->patches, .positions = vr_cg_resized_positions(c) });
    return vr_cg_mlp(c, cur, "mm.0", "mm.2", VR_CG_GELU);
}

static vr_t janus_pro(vr_cg *c)
{
    return vr_cg_mlp(c, siglip_plain(c), "mm.0", "mm.1", VR_CG_GELU);
}

/* ---- CLIP with a multi-layer perceptron ---- */

static vr_t llava_layer(vr_cg *c, vr_t inp, int il, uint64_t n)
{
    vr_gg *g = c->g;
    vr_t cur = vr_cg_norm_of(c, inp, il, "ln1", false);
    vr_cg_qkv x;
    x.q = vr_cg_linear(c, cur, il, "attn_q");
    x.k = vr_cg_linear(c, cur, il, "attn_k");
    x.v = vr_cg_linear(c, cur, il, "attn_v");
    x.q = vr_gg_reshape_3d(g, x.q, c->head, c->n_head, n);
    x.k = vr_gg_reshape_3d(g, x.k, c->head, c->n_head, n);
    x.v = vr_gg_reshape_3d(g, x.v, c->head, c->n_head, n);
    inp = vr_gg_add(g, vr_cg_attend_layer(c, x, NULL, il), inp);
    cur = vr_cg_norm_of(c, inp, il, "ln2", false);
    return vr_gg_add(g, inp, vr_cg_layer_ffn(c, cur, il, VR_CG_GELU));
}

/* Two norms where the file has a fourth matrix (Yi), else two matrices, or one. */
static vr_t llava_projector(vr_cg *c, vr_t cur)
{
    vr_gg *g = c->g;
    bool normed = vr_cg_weight(c, -1, "mm.3") != NULL;
    cur = vr_cg_linear(c, cur, -1, "mm.0");
    if (!normed) {
        cur = vr_gg_unary_of(g, cur, VR_GG_GELU);
        return vr_cg_weight(c, -1, "mm.2") != NULL ? vr_cg_linear(c, cur, -1, "mm.2") : cur;
    }
    cur = vr_gg_unary_of(g, vr_cg_norm_of(c, cur, -1, "mm.1", false), VR_GG_GELU);
    return vr_cg_norm_of(c, vr_cg_linear(c, cur, -1, "mm.3"), -1, "mm.4", false);
}

static vr_t llava(vr_cg *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_cg_patches(c), first = vr_cg_w(c, -1, "v.class_embd");
    uint64_t n = c->patches + (first != NULL);
    uint64_t deepest = c->n_layer > 0 ? c->n_layer - 1 : 0;
    if (first != NULL)
        inp = vr_gg_concat(g, inp, first, 1);
    vr_t places = vr_cg_input(c, "positions", VR_I32, n);
    inp = vr_gg_add(g, inp, vr_gg_get_rows(g, vr_cg_w(c, -1, "v.position_embd.weight"), places));
    if (vr_cg_weight(c, -1, "v.pre_ln") != NULL)
        inp = vr_cg_norm_of(c, inp, -1, "v.pre_ln", false);
    for (int il = 0; il < (int)deepest && g->broken == NULL; il++)
        inp = llava_layer(c, inp, il, n);
    if (vr_cg_weight(c, -1, "v.post_ln") != NULL)
        inp = vr_cg_norm_of(c, inp, -1, "v.post_ln", false);
    inp = vr_gg_reshape_2d(g, inp, inp->ne[0], inp->ne[1]);
    inp = vr_gg_get_rows(g, inp, vr_cg_input(c, "patches", VR_I32, c->patches));
    return llava_projector(c, inp);
}

/* ---- InternVL ---- */

#define INTERNVL_WIDE 3200 /* width and layers of the encoder that has RMS norms */
#define INTERNVL_DEEP 45

static vr_t with_class(vr_cg *c, vr_t inp)
{
    vr_gg *g = c->g;
    vr_t first = vr_cg_w(c, -1, "v.class_embd");
    return vr_gg_concat(g, inp, vr_gg_repeat_4d(g, first, first != NULL ? first->ne[0] : 1, 1, 1, 1), 1);
}

static vr_t internvl_shuffled(vr_cg *c, vr_t cur)
{
    vr_gg *g = c->g;
    uint64_t f = c->merge, row = vr_mul_sat(c->n_embd, f);
    cur = vr_gg_cont(g, vr_gg_view_3d(g, cur, c->n_embd, c->patches, 1, cur->nb[1], cur->nb[2], 0));
    cur = vr_gg_permute(g, vr_gg_reshape_4d(g, cur, row, c->py / f, c->px, 1), 0, 2, 1, 3);
    cur = vr_gg_cont_4d(g, cur, vr_mul_sat(row, f), c->py / f, c->px / f, 1);
    cur = vr_gg_permute(g, cur, 0, 2, 1, 3);
    return vr_gg_cont_3d(g, cur, vr_mul_sat(row, f), vr_mul_sat(cur->ne[1], cur->ne[2]), cur->ne[3]);
}

static vr_t internvl(vr_cg *c)
{
    bool rms = c->n_embd == INTERNVL_WIDE && c->n_layer == INTERNVL_DEEP;
    vr_t inp = with_class(c, vr_cg_patches(c));
    vr_t cur = vr_cg_build_vit(c, inp,
                               &(vr_cg_vit){ .n_pos = c->patches + 1,
                                             .rms = rms,
                                             .positions = vr_cg_w(c, -1, "v.position_embd.weight") });
    cur = vr_cg_norm_of(c, internvl_shuffled(c, cur), -1, "mm.model.mlp.0", false);
    return vr_cg_mlp(c, cur, "mm.model.mlp.1", "mm.model.mlp.3", VR_CG_GELU);
}

/* ---- Llama 4 ---- */

typedef struct grid {
    vr_t first, second;
} grid;

static vr_t turn(vr_cg *c, vr_t cur, const void *with)
{
    const grid *p = with;
    return vr_cg_rope_2d(c, cur, p->first, p->second);
}

/* Patches by one product; then the encoder, and the token of the class goes. */
static vr_t llama4_seen(vr_cg *c)
{
    vr_gg *g = c->g;
    vr_t h = vr_cg_input(c, "pos_h", VR_I32, c->patches + 1),
         w = vr_cg_input(c, "pos_w", VR_I32, c->patches + 1);
    vr_t weight = vr_cg_w(c, -1, "v.patch_embd.weight"), raw = vr_cg_raw(c);
    const grid places = { w, h };
    vr_t kernel = vr_gg_reshape_4d(g, weight, c->patch, c->patch, 3, c->n_embd);
    vr_t inp = vr_gg_im2col(g, kernel, raw, c->patch, c->patch, 0, 0, 1, 1, true, VR_F32);
    inp = vr_gg_reshape_2d(g, vr_gg_mul_mat(g, weight, inp), c->n_embd, c->patches);
    inp = vr_gg_concat(g, inp, vr_cg_w(c, -1, "v.class_embd"), 1);
    vr_t cur = vr_cg_build_vit(c, inp,
                               &(vr_cg_vit){ .n_pos = c->patches + 1,
                                             .positions = vr_cg_w(c, -1, "v.position_embd.weight"),
                                             .turn = turn,
                                             .with = &places });
    return vr_gg_view_2d(g, cur, c->n_embd, c->patches, vr_gg_row_size(VR_F32, c->n_embd), 0);
}

static vr_t llama4(vr_cg *c)
{
    vr_gg *g = c->g;
    uint64_t f = c->merge, row = vr_mul_sat(c->n_embd, f), wide = vr_mul_sat(row, f);
    vr_t cur = vr_gg_reshape_4d(g, llama4_seen(c), row, c->px / f, c->py, 1);
    cur = vr_gg_cont_4d(g, vr_gg_permute(g, cur, 0, 2, 1, 3), wide, c->px / f, c->py / f, 1);
    cur = vr_gg_cont_2d(g, cur, wide, c->patches / f / f);
    cur = vr_gg_unary_of(g, vr_gg_mul_mat(g, vr_cg_weight(c, -1, "mm.model.mlp.1"), cur), VR_GG_GELU);
    cur = vr_gg_unary_of(g, vr_gg_mul_mat(g, vr_cg_weight(c, -1, "mm.model.mlp.2"), cur), VR_GG_GELU);
    return vr_gg_mul_mat(g, vr_cg_weight(c, -1, "mm.model.fc"), cur);
}

/* ---- Pixtral ---- */

static vr_t pixtral_merged(vr_cg *c, vr_t cur)
{
    vr_gg *g = c->g;
    uint64_t f = c->merge;
    cur = vr_gg_mul(g, vr_gg_rms_norm(g, cur), vr_cg_weight(c, -1, "mm.input_norm"));
    cur = vr_gg_cont(g, vr_gg_permute(g, vr_gg_reshape_3d(g, cur, c->n_embd, c->px, c->py), 2, 0, 1, 3));
    vr_t kernel = vr_gg_view_3d(g, cur, f, f, cur->ne[2], 0, 0, 0);
    cur = vr_gg_im2col(g, kernel, cur, f, f, 0, 0, 1, 1, true, VR_F32);
    cur = vr_gg_reshape_2d(g, cur, cur->ne[0], vr_mul_sat(cur->ne[1], cur->ne[2]));
    return vr_gg_mul_mat(g, vr_cg_weight(c, -1, "mm.patch_merger"), cur);
}

/* A token behind each row of the picture but the last. */
static vr_t with_breaks(vr_cg *c, vr_t cur, vr_t token)
{
    vr_gg *g = c->g;
    uint64_t x = c->px / c->merge, y = c->py / c->merge, row = cur->ne[0];
    vr_t image = vr_gg_reshape_3d(g, cur, row, x, y);
    vr_t ends = vr_gg_add(g, vr_gg_scale(g, vr_gg_new_3d(g, VR_F32, row, 1, y)), token);
    image = vr_gg_concat(g, image, ends, 1);
    return vr_gg_view_2d(g, image, row, vr_sub_floor(vr_add_sat(vr_mul_sat(x, y), y), 1),
                         vr_gg_row_size(VR_F32, row), 0);
}

static vr_t pixtral(vr_cg *c)
{
    vr_t h = vr_cg_input(c, "pos_h", VR_I32, c->patches), w = vr_cg_input(c, "pos_w", VR_I32, c->patches);
    const grid places = { h, w };
    vr_t inp = vr_cg_patches(c);
    vr_t cur = vr_cg_build_vit(
        c, inp, &(vr_cg_vit){ .n_pos = c->patches, .rms = true, .turn = turn, .with = &places });
    if (vr_cg_weight(c, -1, "mm.patch_merger") != NULL)
        cur = pixtral_merged(c, cur);
    cur = vr_cg_mlp(c, cur, "mm.1", "mm.2", VR_CG_GELU);
    vr_t token = vr_cg_w(c, -1, "v.token_embd.img_break");
    return token != NULL ? with_breaks(c, cur, token) : cur;
}

/* ---- the table ---- */

#define SCALE "clip.vision.projector.scale_factor"
#define MERGE "clip.vision.spatial_merge_size"

static const vr_clip_kind kinds[] = {
    { "mlp", llava, NULL, 1, 0, 0, true, "mm.0. mm.1. mm.2. mm.3. mm.4. v.image_newline " },
    { "gemma3", gemma3, SCALE, 4, 0, 0, true, "mm.input_projection.weight mm.soft_emb_norm.weight " },
    { "idefics3", idefics3, SCALE, 1, 0, 0, true, "mm.model.fc.weight " },
    { "lfm2", lfm2, SCALE, 1, 0, 256, false, "mm.input_norm. mm.1. mm.2. " },
    { "phi4", phi4, NULL, 1, 16, 0, false, "mm.0. mm.2. " },
    { "janus_pro", janus_pro, NULL, 1, 0, 0, false, "mm.0. mm.1. " },
    { "internvl", internvl, SCALE, 1, 0, 0, false, "mm.model.mlp.0. mm.model.mlp.1. mm.model.mlp.3. " },
    { "llama4", llama4, SCALE, 1, 0, 0, false,
      "mm.model.fc.weight mm.model.mlp.1.weight mm.model.mlp.2.weight " },
    { "pixtral", pixtral, MERGE, 1, 16, 0, false,
      "mm.1. mm.2. v.token_embd.img_break mm.input_norm.weight mm.patch_merger.weight " },
    { "lightonocr", pixtral, MERGE, 1, 16, 0, false,
      "mm.1. mm.2. mm.input_norm.weight mm.patch_merger.weight " },
    { "qwen2vl_merger", vr_clip_qwen2vl, MERGE, 2, 46, 0, true, "mm.0. mm.2. " },
    { "qwen2.5vl_merger", vr_clip_qwen2vl, MERGE, 2, 46, 0, true, "mm.0. mm.2. " },
    { "qwen3vl_merger", vr_clip_qwen3vl, MERGE, 2, 46, 0, false, "mm.0. mm.2. v.deepstack. " },
};

const vr_clip_kind *vr_clip_kind_of(vr_str type)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (vr_str_is(type, kinds[i].type))
            return &kinds[i];
    }
    return NULL;
}
