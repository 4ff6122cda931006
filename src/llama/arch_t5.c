/* SPDX-License-Identifier: MIT
 * T5: an encoder, and a decoder that attends to what it made. A context reserves memory for the decoder only;
 * files of the encoder alone for that.
 *
 * Source: llama.cpp b10470, src/models/t5.cpp, t5encoder.cpp, src/llama-graph.cpp (build_pos_bias,
 * build_inp_cross_embd, build_attn_inp_cross). */
#include "llama/arch.h"
#include "llama/archs_more.h"

#include <string.h>

#define NAMES_MOST 65536 /* tensors among which names are looked for */

/* One of the two stacks of layers. */
typedef struct stack {
    const char *prefix; /* of names, without the layer's number */
    uint64_t layers;
    vr_t bucket, cross, cross_mask;
    bool decodes;
} stack;

/* ---- weights: "dec.blk.11.attn_q.weight" ---- */

static size_t put(char *to, size_t at, size_t room, const char *s)
{
    size_t n = strlen(s);
    if (n >= room - at)
        return at;
    memcpy(to + at, s, n + 1);
    return at + n;
}

static vr_t weight(vr_lm_graph *c, const stack *s, int il, const char *name)
{
    char whole[64], digits[4] = { 0 };
    size_t at = put(whole, 0, sizeof whole, s->prefix), n = 0;
    if (il >= 100)
        digits[n++] = (char)('0' + il / 100 % 10);
    if (il >= 10)
        digits[n++] = (char)('0' + il / 10 % 10);
    digits[n] = (char)('0' + il % 10);
    at = put(whole, at, sizeof whole, digits);
    (void)put(whole, put(whole, at, sizeof whole, "."), sizeof whole, name);
    return vr_lm_outside_opt(c, whole);
}

static vr_t needed(vr_lm_graph *c, const stack *s, int il, const char *name)
{
    vr_t t = weight(c, s, il, name);
    return t != NULL ? t : vr_lm_w(c, il, name); /* which says what is wrong */
}

static vr_t linear(vr_lm_graph *c, const stack *s, int il, const char *name, vr_t x)
{
    return vr_gg_mul_mat(c->g, needed(c, s, il, name), x);
}

static vr_t normed(vr_lm_graph *c, const stack *s, int il, const char *name, vr_t x)
{
    return vr_lm_build_norm(c, x, needed(c, s, il, name), NULL, VR_LM_NORM_RMS, il);
}

/* ---- attention ---- */

static vr_t position_bias(vr_lm_graph *c, const stack *s, int il)
{
    vr_gg *g = c->g;
    vr_t by = weight(c, s, il, "attn_rel_b.weight");
    if (by == NULL)
        by = needed(c, s, 0, "attn_rel_b.weight");
    vr_t flat = vr_gg_reshape_1d(g, s->bucket, vr_mul_sat(s->bucket->ne[0], s->bucket->ne[1]));
    vr_t bias = vr_gg_get_rows(g, by, flat);
    bias = vr_gg_reshape_3d(g, bias, bias->ne[0], s->bucket->ne[0], s->bucket->ne[1]);
    return vr_gg_cont(g, vr_gg_permute(g, bias, 2, 0, 1, 3));
}

static vr_t scaled(vr_lm_graph *c, const stack *s, int il, const char *part, vr_t x)
{
    vr_t scale = s->decodes ? vr_lm_opt(c, il, part) : NULL;
    return scale != NULL ? vr_gg_mul(c->g, x, scale) : x;
}

static vr_t itself(vr_lm_graph *c, const stack *s, vr_t x, int il)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_t q = scaled(c, s, il, "attn_q.scale", linear(c, s, il, "attn_q.weight", x));
    vr_t k = scaled(c, s, il, "attn_k.scale", linear(c, s, il, "attn_k.weight", x));
    vr_t v = scaled(c, s, il, "attn_v.scale", linear(c, s, il, "attn_v.weight", x));
    vr_lm_attention a = {
        .q = vr_gg_reshape_3d(g, q, l->head_k, l->n_head, c->n_tokens),
        .k = vr_gg_reshape_3d(g, k, l->head_k, l->n_head_kv, c->n_tokens),
        .v = vr_gg_reshape_3d(g, v, l->head_v, l->n_head_kv, c->n_tokens),
        .kq_b = position_bias(c, s, il),
        .wo = needed(c, s, il, "attn_o.weight"),
        .wo_s = s->decodes ? vr_lm_opt(c, il, "attn_output.scale") : NULL,
    };
    return s->decodes ? vr_lm_build_attn(c, &a, il) : vr_lm_build_attn_no_cache(c, &a, il);
}

static vr_t encoded(vr_lm_graph *c, const stack *s, vr_t x, int il)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    uint64_t n = s->cross->ne[1];
    vr_t q = linear(c, s, il, "cross_attn_q.weight", x);
    vr_t k = linear(c, s, il, "cross_attn_k.weight", s->cross);
    vr_t v = linear(c, s, il, "cross_attn_v.weight", s->cross);
    q = vr_gg_reshape_3d(g, q, l->head_k, l->n_head, c->n_tokens);
    k = vr_gg_reshape_3d(g, k, l->head_k, l->n_head_kv, n);
    v = vr_gg_reshape_3d(g, v, l->head_v, l->n_head_kv, n);
    vr_gg_build_forward_expand(g, q);
    vr_gg_build_forward_expand(g, k);
    vr_gg_build_forward_expand(g, v);
    vr_lm_attention none = { 0 };
    vr_t out = vr_lm_attn_mha(c, q, k, v, s->cross_mask, &none, il);
    return linear(c, s, il, "cross_attn_o.weight", out);
}

/* ---- layers ---- */

static vr_t ffn(vr_lm_graph *c, const stack *s, vr_t x, int il)
{
    vr_lm_ffn f = { .up = needed(c, s, il, "ffn_up.weight"),
                    .gate = weight(c, s, il, "ffn_gate.weight"),
                    .down = needed(c, s, il, "ffn_down.weight") };
    f.act = f.gate != NULL ? VR_LM_GELU : VR_LM_RELU;
    f.gating = f.gate != NULL ? VR_LM_FFN_PAR : VR_LM_FFN_SEQ;
    return vr_lm_build_ffn(c, x, &f);
}

static vr_t layer(vr_lm_graph *c, const stack *s, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t cur = itself(c, s, normed(c, s, il, "attn_norm.weight", x), il);
    if (s->decodes) {
        x = vr_gg_add(g, cur, x);
        cur = encoded(c, s, normed(c, s, il, "cross_attn_norm.weight", x), il);
    }
    if ((uint64_t)il + 1 == s->layers) {
        cur = vr_gg_get_rows(g, cur, vr_lm_inp_out_ids(c));
        x = vr_gg_get_rows(g, x, vr_lm_inp_out_ids(c));
    }
    x = vr_gg_add(g, cur, x);
    return vr_gg_add(g, ffn(c, s, normed(c, s, il, "ffn_norm.weight", x), il), x);
}

static vr_t layers(vr_lm_graph *c, const stack *s, vr_t x)
{
    if (s->layers > c->lm->n_layer_all || c->lm->n_outside > NAMES_MOST)
        vr_lm_broken(c, "more layers in the decoder than in the encoder, or more tensors than are looked at");
    for (int il = 0; il < (int)s->layers && !vr_lm_stopped(c); il++)
        x = layer(c, s, x, il);
    const char *norm = s->decodes ? "dec.output_norm.weight" : "enc.output_norm.weight";
    x = vr_lm_build_norm(c, x, vr_lm_outside(c, norm), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, x);
    return x;
}

void vr_lm_build_t5(vr_lm_graph *c)
{
    uint64_t n_enc = c->lm->n_ctx_train;
    stack s = { .prefix = "dec.blk.", .decodes = true };
    s.layers = vr_lm_number(c->lm, "decoder_block_count", c->lm->n_layer);
    vr_t cur = vr_lm_inp_embd(c);
    s.cross = vr_gg_input(c->g, "cross_embd", VR_F32, c->lm->n_embd, n_enc, 1, 1);
    s.bucket = vr_gg_input(c->g, "pos_bucket", VR_I32, c->plan->cells, c->n_tokens, 1, 1);
    vr_lm_inp_attn_kv(c);
    vr_dtype t = c->settled.flash_attn ? VR_F16 : VR_F32;
    s.cross_mask = vr_gg_input(c->g, "cross_kq_mask", t, n_enc, c->n_tokens, 1, 1);
    vr_lm_logits(c, vr_lm_head_mm(c, layers(c, &s, cur)));
}

void vr_lm_build_t5encoder(vr_lm_graph *c)
{
    stack s = { .prefix = "enc.blk.", .layers = c->lm->n_layer };
    vr_t cur = vr_lm_inp_embd(c);
    s.bucket = vr_gg_input(c->g, "pos_bucket", VR_I32, c->n_tokens, c->n_tokens, 1, 1);
    vr_lm_inp_attn_no_cache(c);
    vr_gg_build_forward_expand(c->g, layers(c, &s, cur));
}
