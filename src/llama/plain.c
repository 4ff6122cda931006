/* SPDX-License-Identifier: MIT
 * Decoders that differ in little from Llama.
 *
 * Source: llama.cpp b10470, what its src/models have in common. */
#include "llama/plain.h"

bool vr_lm_never(const vr_lm_graph *c, int il)
{
    (void)c;
    (void)il;
    return false;
}

/* ---- feed-forward parts ---- */

vr_t vr_lm_feed_silu(vr_lm_graph *c, vr_t cur, int il)
{
    return vr_lm_ffn_simple(c, cur, il, VR_LM_SILU, VR_LM_FFN_PAR);
}

vr_t vr_lm_feed_silu_bare(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    f.up_b = f.gate_b = f.down_b = NULL;
    return vr_lm_build_ffn(c, cur, &f);
}

vr_t vr_lm_feed_gelu(vr_lm_graph *c, vr_t cur, int il)
{
    return vr_lm_ffn_simple(c, cur, il, VR_LM_GELU, VR_LM_FFN_SEQ);
}

vr_t vr_lm_feed_relu_sqr(vr_lm_graph *c, vr_t cur, int il)
{
    return vr_lm_ffn_simple(c, cur, il, VR_LM_RELU_SQR, VR_LM_FFN_SEQ);
}

vr_t vr_lm_feed_swiglu(vr_lm_graph *c, vr_t cur, int il)
{
    return vr_lm_ffn_simple(c, cur, il, VR_LM_SWIGLU, VR_LM_FFN_SEQ);
}

static vr_t experts(vr_lm_graph *c, vr_t cur, int il, bool norm_w, vr_lm_gate_fn gating)
{
    if (vr_lm_opt(c, il, "ffn_gate_inp.weight") == NULL)
        return vr_lm_feed_silu(c, cur, il);
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, norm_w, gating);
    vr_t out = vr_lm_build_moe(c, cur, &m);
    if (vr_lm_opt(c, il, "ffn_down_shexp.weight") == NULL)
        return out;
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR);
    return vr_gg_add(c->g, out, vr_lm_build_ffn(c, cur, &f));
}

vr_t vr_lm_feed_experts(vr_lm_graph *c, vr_t cur, int il)
{
    return experts(c, cur, il, true, VR_LM_SOFTMAX);
}

vr_t vr_lm_feed_experts_plain(vr_lm_graph *c, vr_t cur, int il)
{
    return experts(c, cur, il, false, VR_LM_SOFTMAX);
}

vr_t vr_lm_feed_experts_file(vr_lm_graph *c, vr_t cur, int il)
{
    bool norm_w = vr_lm_number(c->lm, "expert_weights_norm", 0) != 0;
    return experts(c, cur, il, norm_w, vr_lm_gating_of(c->lm, VR_LM_SOFTMAX));
}

/* ---- attention ---- */

static vr_t normed(vr_lm_graph *c, vr_t t, int il, const char *name, const vr_lm_plain *d)
{
    if (d->weightless)
        return vr_lm_build_norm(c, t, NULL, NULL, d->norm, il);
    return name != NULL ? vr_lm_norm_of(c, t, il, name, d->norm) : t;
}

static vr_t head_norm(vr_lm_graph *c, vr_t t, int il, const char *name, const vr_lm_plain *d)
{
    char whole[32];
    size_t n = strlen(name);
    memcpy(whole, name, n);
    memcpy(whole + n, ".weight", sizeof ".weight");
    vr_t w = vr_lm_opt(c, il, whole);
    return w != NULL ? vr_lm_build_norm(c, t, w, NULL, d->norm, il) : t;
}

static void head_norms(vr_lm_graph *c, vr_lm_qkv *x, int il, const vr_lm_plain *d)
{
    x->q = head_norm(c, x->q, il, "attn_q_norm", d);
    x->k = head_norm(c, x->k, il, "attn_k_norm", d);
}

/* Queries and keys whose norm is over all heads are cut into heads behind it. */
static vr_lm_qkv whole_rows(vr_lm_graph *c, vr_t cur, int il, const vr_lm_plain *d)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_gg *g = c->g;
    vr_lm_qkv x = { .q = vr_lm_qkv_mm(c, il, "attn_q", cur),
                    .k = vr_lm_qkv_mm(c, il, "attn_k", cur),
                    .v = vr_lm_qkv_mm(c, il, "attn_v", cur) };
    head_norms(c, &x, il, d);
    x.q = vr_gg_reshape_3d(g, x.q, l->head_k, l->n_head, c->n_tokens);
    x.k = vr_gg_reshape_3d(g, x.k, l->head_k, l->n_head_kv, c->n_tokens);
    x.v = vr_gg_reshape_3d(g, x.v, l->head_v, l->n_head_kv, c->n_tokens);
    return x;
}

static vr_t attention(vr_lm_graph *c, vr_t cur, int il, const vr_lm_plain *d, vr_t scale)
{
    vr_lm_qkv x = d->heads == VR_LM_HEADS_WHOLE ? whole_rows(c, cur, il, d) : vr_lm_qkv_of(c, cur, il);
    if (d->heads == VR_LM_HEADS)
        head_norms(c, &x, il, d);
    if (d->queries != NULL) {
        d->queries(c, &x, il, scale);
    } else if (d->turns == NULL || d->turns(c, il)) {
        vr_t factors = d->factors ? vr_lm_rope_factors(c, il) : NULL;
        x.q = vr_lm_rope(c, x.q, factors);
        x.k = vr_lm_rope(c, x.k, factors);
    }
    if (d->heads == VR_LM_HEADS_TURNED)
        head_norms(c, &x, il, d);
    if (d->scaled_queries)
        x.q = vr_gg_scale(c->g, x.q);
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_b = d->no_output_bias ? NULL : vr_lm_opt(c, il, "attn_output.bias"),
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                          .q = x.q,
                          .k = x.k,
                          .v = x.v };
    return vr_lm_build_attn(c, &a, il);
}

/* ---- layers ---- */

/* A norm behind something; some files name its weight without ".weight". */
static vr_t norm_behind(vr_lm_graph *c, vr_t cur, const vr_lm_plain *d, const char *name, int il,
                        int pinned_to)
{
    char whole[32];
    size_t n = strlen(name);
    memcpy(whole, name, n);
    memcpy(whole + n, ".weight", sizeof ".weight");
    vr_t w = vr_lm_opt(c, il, name);
    return vr_lm_build_norm(c, cur, w != NULL ? w : vr_lm_w(c, il, whole), NULL, d->norm, pinned_to);
}

static vr_t layer(vr_lm_graph *c, vr_t inp, int il, const vr_lm_plain *d, vr_t scale)
{
    vr_gg *g = c->g;
    vr_t residual = inp;
    vr_t cur = attention(c, normed(c, inp, il, d->before, d), il, d, scale);
    vr_lm_select_rows(c, il, &cur, &residual);
    if (d->behind_attention != NULL)
        cur = norm_behind(c, cur, d, d->behind_attention, il, il);
    if (d->residual_scale)
        cur = vr_gg_scale(g, cur);
    vr_t ffn_inp = vr_gg_add(g, cur, residual);
    cur = normed(c, ffn_inp, il, d->ffn, d);
    cur = d->feed != NULL ? d->feed(c, cur, il) : vr_lm_feed_silu(c, cur, il);
    if (d->behind_ffn != NULL)
        cur = norm_behind(c, cur, d, d->behind_ffn, il, d->behind_ffn_is_of ? il : -1);
    if (d->residual_scale)
        cur = vr_gg_scale(g, cur);
    cur = vr_gg_add(g, cur, ffn_inp);
    return vr_lm_control(c, d->behind != NULL ? d->behind(c, cur, il) : cur, il);
}

vr_t vr_lm_plain_layers(vr_lm_graph *c, const vr_lm_plain *d, vr_t inp)
{
    vr_t scale = d->attn_scale ? vr_lm_inp_attn_scale(c) : NULL;
    if (d->no_cache)
        vr_lm_inp_attn_no_cache(c);
    else
        vr_lm_inp_attn(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++)
        inp = layer(c, inp, il, d, scale);
    return inp;
}

void vr_lm_plain_build(vr_lm_graph *c, const vr_lm_plain *d)
{
    vr_t cur = vr_lm_plain_layers(c, d, vr_lm_inp_embd(c));
    if (!d->weightless) {
        vr_lm_finish(c, cur, d->norm);
        return;
    }
    cur = vr_lm_build_norm(c, cur, NULL, NULL, d->norm, -1);
    vr_lm_embd(c, cur);
    vr_lm_logits(c, vr_lm_head_mm(c, cur));
}

/* ---- parallel layers ---- */

static vr_t parallel_layer(vr_lm_graph *c, vr_t inp, int il, const vr_lm_parallel *d)
{
    vr_gg *g = c->g;
    vr_lm_plain heads = { .norm = d->norm };
    vr_t ffn_inp = vr_lm_norm_of(c, inp, il, "attn_norm", d->norm), cur = ffn_inp;
    if (vr_lm_opt(c, il, "attn_norm_2.weight") != NULL)
        cur = vr_lm_norm_of(c, inp, il, "attn_norm_2", d->norm);
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    head_norms(c, &x, il, &heads);
    if (d->turns == NULL || d->turns(c, il)) {
        vr_t factors = d->factors ? vr_lm_rope_factors(c, il) : NULL;
        x.q = vr_lm_rope(c, x.q, factors);
        x.k = vr_lm_rope(c, x.k, factors);
    }
    if (d->scaled_queries)
        x.q = vr_gg_scale(g, x.q);
    vr_t attended = vr_lm_attn_of(c, x, il);
    if (!d->rows_behind) {
        vr_lm_select_rows(c, il, &attended, &inp);
        vr_lm_select_rows(c, il, &ffn_inp, NULL);
    }
    vr_t fed = d->feed != NULL ? d->feed(c, ffn_inp, il) : vr_lm_feed_silu(c, ffn_inp, il);
    switch (d->sum) {
    case VR_LM_SUM_ATTENTION_FED_INPUT:
        return vr_gg_add(g, vr_gg_add(g, attended, fed), inp);
    case VR_LM_SUM_FED_ATTENTION_INPUT:
        return vr_gg_add(g, vr_gg_add(g, fed, attended), inp);
    case VR_LM_SUM_FED_INPUT_ATTENTION:
        return vr_gg_add(g, vr_gg_add(g, fed, inp), attended);
    case VR_LM_SUM_FED_TO_ATTENTION_INPUT:
        break;
    }
    return vr_gg_add(g, fed, vr_gg_add(g, attended, inp));
}

vr_t vr_lm_parallel_layers(vr_lm_graph *c, const vr_lm_parallel *d, vr_t inp)
{
    vr_lm_inp_attn(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++)
        inp = vr_lm_control(c, parallel_layer(c, inp, il, d), il);
    return inp;
}
