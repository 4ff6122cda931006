/* SPDX-License-Identifier: MIT
 * Gemma 1 to 3.
 *
 * Source: llama.cpp b10470, src/models/gemma.cpp, gemma2.cpp, gemma3.cpp. */
#include "llama/archs.h"

static vr_t feed_forward(vr_lm_graph *c, vr_t cur, int il)
{
    return vr_lm_ffn_simple(c, cur, il, VR_LM_GELU, VR_LM_FFN_PAR);
}

static vr_lm_qkv turned(vr_lm_graph *c, vr_lm_qkv x)
{
    x.q = vr_lm_rope(c, x.q, NULL);
    x.k = vr_lm_rope(c, x.k, NULL);
    x.q = vr_gg_scale(c->g, x.q);
    return x;
}

void vr_lm_build_gemma(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_gg_scale(g, vr_lm_inp_embd(c));
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t cur = vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS);
        cur = vr_lm_attn_of(c, turned(c, vr_lm_qkv_of(c, cur, il)), il);
        vr_lm_select_rows(c, il, &cur, &inp);
        vr_t attended = vr_gg_add(g, cur, inp);
        cur = vr_lm_norm_of(c, attended, il, "ffn_norm", VR_LM_NORM_RMS);
        inp = vr_lm_control(c, vr_gg_add(g, feed_forward(c, cur, il), attended), il);
    }
    vr_lm_finish(c, inp, VR_LM_NORM_RMS);
}

/* Queries and keys with norms of their own, as Gemma 3 has them. */
static vr_lm_qkv normed(vr_lm_graph *c, vr_lm_qkv x, int il)
{
    x.q = vr_lm_norm_of(c, x.q, il, "attn_q_norm", VR_LM_NORM_RMS);
    x.k = vr_lm_norm_of(c, x.k, il, "attn_k_norm", VR_LM_NORM_RMS);
    return x;
}

/* Norms behind attention and the feed-forward layer too; the last is of no layer to llama.cpp. */
static vr_t sandwich(vr_lm_graph *c, vr_t inp, int il, bool head_norms)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS);
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    cur = vr_lm_attn_of(c, turned(c, head_norms ? normed(c, x, il) : x), il);
    vr_lm_select_rows(c, il, &cur, &inp);
    cur = vr_lm_norm_of(c, cur, il, "post_attention_norm", VR_LM_NORM_RMS);
    vr_t attended = vr_gg_add(g, cur, inp);
    cur = vr_lm_norm_of(c, attended, il, "ffn_norm", VR_LM_NORM_RMS);
    cur = feed_forward(c, cur, il);
    cur = vr_lm_build_norm(c, cur, vr_lm_w(c, il, "post_ffw_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    return vr_gg_add(g, cur, attended);
}

static void sandwiches(vr_lm_graph *c, bool head_norms, bool capped)
{
    vr_t cur = vr_gg_scale(c->g, vr_lm_inp_embd(c));
    vr_lm_inp_attn(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++)
        cur = vr_lm_control(c, sandwich(c, cur, il, head_norms), il);
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    cur = vr_lm_head_mm(c, cur);
    vr_lm_logits(c, capped ? vr_lm_logit_cap(c, cur) : cur);
}

void vr_lm_build_gemma2(vr_lm_graph *c)
{
    c->soft_cap = true;
    sandwiches(c, false, true);
}

void vr_lm_build_gemma3(vr_lm_graph *c)
{
    double cap = 0;
    bool capped = vr_lm_float(c->lm, "final_logit_softcapping", &cap) && (cap < 0 || cap > 0);
    sandwiches(c, true, capped);
}
