/* SPDX-License-Identifier: MIT
 * Encoders: BERT and its kin, and what makes one vector of a text's.
 *
 * Source: llama.cpp b10470, src/models/bert.cpp, modern-bert.cpp, neo-bert.cpp, eurobert.cpp,
 * gemma-embedding.cpp, src/llama-graph.cpp (build_pooling, build_dense_out). */
#include "llama/arch.h"
#include "llama/archs_more.h"

static bool is(const vr_lm_graph *c, const char *name)
{
    return vr_str_is(c->lm->name, name);
}

static vr_t attend(vr_lm_graph *c, vr_lm_qkv x, int il, bool bias)
{
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_b = bias ? vr_lm_opt(c, il, "attn_output.bias") : NULL,
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                          .q = x.q,
                          .k = x.k,
                          .v = x.v };
    return vr_lm_build_attn_no_cache(c, &a, il);
}

static vr_lm_qkv turned(vr_lm_graph *c, vr_lm_qkv x)
{
    x.q = vr_lm_rope(c, x.q, NULL);
    x.k = vr_lm_rope(c, x.k, NULL);
    return x;
}

/* An encoder's vectors are what it gives: there is no head. */
static void give(vr_lm_graph *c, vr_t cur)
{
    vr_lm_embd(c, cur);
    vr_gg_build_forward_expand(c->g, cur);
}

/* ---- bert, jina-bert-v2 and v3, nomic-bert and its mixture ---- */

static vr_t embedded(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_inp_embd(c), types = vr_lm_outside_opt(c, "token_types.weight");
    if (types)
        cur = vr_gg_add(g, cur, vr_gg_view_1d(g, types, c->lm->n_embd, 0));
    if (is(c, "bert")) {
        vr_t rows = vr_gg_get_rows(g, vr_lm_outside(c, "position_embd.weight"), vr_lm_inp_pos(c));
        cur = vr_gg_add(g, rows, cur);
    }
    vr_t w = vr_lm_outside(c, "token_embd_norm.weight"), b = vr_lm_outside(c, "token_embd_norm.bias");
    return vr_lm_build_norm(c, cur, w, b, VR_LM_NORM, 0);
}

static vr_t normed_whole(vr_lm_graph *c, vr_t x, int il, const char *name)
{
    if (!vr_lm_part(c, il, name, "weight"))
        return x;
    return vr_lm_norm_whole(c, x, il, name);
}

static vr_t experts(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_GELU, false, VR_LM_SOFTMAX);
    m.gate = m.gate_up = m.probs_b = NULL;
    return vr_lm_build_moe(c, cur, &m);
}

static vr_t jina_v2_ffn(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_GELU, VR_LM_FFN_PAR);
    f.up_s = f.gate_s = f.down_s = f.gate_b = NULL;
    if (!f.gate && f.up && f.up->ne[1] != c->lm->layers[0].n_ff)
        f.act = VR_LM_GEGLU; /* both halves are in one */
    return vr_lm_build_ffn(c, cur, &f);
}

static vr_t bert_ffn(vr_lm_graph *c, vr_t cur, int il)
{
    uint64_t every = vr_lm_number(c->lm, "moe_every_n_layers", 0);
    if (every != 0 && (uint64_t)il % every == 1)
        return experts(c, cur, il);
    if (is(c, "jina-bert-v2"))
        return jina_v2_ffn(c, cur, il);
    if (is(c, "nomic-bert"))
        return vr_lm_bare_ffn(c, cur, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_GELU, VR_LM_FFN_SEQ);
    f.gate = f.gate_b = f.gate_s = f.up_s = f.down_s = NULL;
    return vr_lm_build_ffn(c, cur, &f);
}

static vr_t bert_layer(vr_lm_graph *c, vr_t x, int il, bool turns)
{
    vr_gg *g = c->g;
    vr_lm_qkv qkv = vr_lm_qkv_of(c, x, il);
    qkv.q = normed_whole(c, qkv.q, il, "attn_q_norm");
    qkv.k = normed_whole(c, qkv.k, il, "attn_k_norm");
    vr_t cur = attend(c, turns ? turned(c, qkv) : qkv, il, true);
    vr_lm_select_rows(c, il, &cur, &x);
    cur = vr_lm_norm_of(c, vr_gg_add(g, cur, x), il, "attn_output_norm", VR_LM_NORM);
    if (vr_lm_opt(c, il, "attn_norm_2.weight"))
        cur = vr_lm_norm_of(c, vr_gg_add(g, cur, x), il, "attn_norm_2", VR_LM_NORM);
    cur = vr_gg_add(g, bert_ffn(c, cur, il), cur);
    return vr_lm_norm_of(c, cur, il, "layer_output_norm", VR_LM_NORM);
}

void vr_lm_build_bert(vr_lm_graph *c)
{
    bool turns = !is(c, "bert") && !is(c, "jina-bert-v2");
    c->alibi = is(c, "jina-bert-v2");
    vr_t cur = embedded(c);
    vr_lm_inp_attn_no_cache(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = bert_layer(c, cur, il, turns);
    give(c, cur);
}

/* ---- modern-bert, neo-bert, eurobert: norms in front ---- */

typedef struct encoder {
    vr_lm_norm norm;
    const char *last; /* the norm of the output */
    vr_lm_act act;
    vr_lm_gating gating;
} encoder;

static vr_t plain_normed(vr_lm_graph *c, vr_t cur, int il, const char *name, vr_lm_norm norm)
{
    vr_t w = vr_lm_part(c, il, name, "weight");
    return w ? vr_lm_build_norm(c, cur, w, NULL, norm, il) : cur;
}

static vr_t encoder_layer(vr_lm_graph *c, const encoder *e, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_lm_qkv qkv = vr_lm_qkv_of(c, plain_normed(c, x, il, "attn_norm", e->norm), il);
    vr_t cur = attend(c, turned(c, qkv), il, false);
    vr_lm_select_rows(c, il, &cur, &x);
    x = vr_gg_add(g, cur, x);
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", e->act, e->gating);
    f.up_b = f.up_s = f.gate_b = f.gate_s = f.down_b = f.down_s = NULL;
    if (e->gating == VR_LM_FFN_SEQ)
        f.gate = NULL;
    return vr_gg_add(g, vr_lm_build_ffn(c, plain_normed(c, x, il, "ffn_norm", e->norm), &f), x);
}

static void encode(vr_lm_graph *c, const encoder *e, vr_t cur)
{
    vr_lm_inp_attn_no_cache(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = encoder_layer(c, e, cur, il);
    give(c, vr_lm_build_norm(c, cur, vr_lm_outside(c, e->last), NULL, e->norm, -1));
}

/* GeGLU where the file does not say otherwise. */
static vr_lm_act said_act(vr_lm_graph *c)
{
    vr_str act = { 0 };
    if (!vr_lm_word(c->lm, "hidden_activation", &act))
        return VR_LM_GEGLU;
    if (vr_str_is(act, "silu") || vr_str_is(act, "swish") || vr_str_is(act, "swiglu"))
        return VR_LM_SWIGLU;
    if (vr_str_is(act, "relu"))
        return VR_LM_RELU;
    return vr_str_is(act, "reglu") ? VR_LM_REGLU : VR_LM_GEGLU;
}

void vr_lm_build_modern_bert(vr_lm_graph *c)
{
    const encoder e = { VR_LM_NORM, "output_norm.weight", said_act(c), VR_LM_FFN_SEQ };
    vr_t w = vr_lm_outside(c, "token_embd_norm.weight");
    encode(c, &e, vr_lm_build_norm(c, vr_lm_inp_embd(c), w, NULL, VR_LM_NORM, 0));
}

void vr_lm_build_neo_bert(vr_lm_graph *c)
{
    static const encoder e = { VR_LM_NORM_RMS, "enc.output_norm.weight", VR_LM_SWIGLU, VR_LM_FFN_SEQ };
    encode(c, &e, vr_lm_inp_embd(c));
}

void vr_lm_build_eurobert(vr_lm_graph *c)
{
    static const encoder e = { VR_LM_NORM_RMS, "output_norm.weight", VR_LM_SILU, VR_LM_FFN_PAR };
    encode(c, &e, vr_lm_inp_embd(c));
}

/* ---- gemma-embedding ---- */

static vr_t gemma_layer(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_lm_qkv qkv = vr_lm_qkv_of(c, vr_lm_rms(c, x, il, "attn_norm"), il);
    qkv.q = vr_lm_rms(c, qkv.q, il, "attn_q_norm");
    qkv.k = vr_lm_rms(c, qkv.k, il, "attn_k_norm");
    qkv = turned(c, qkv);
    qkv.q = vr_gg_scale(g, qkv.q);
    vr_t cur = attend(c, qkv, il, false);
    vr_lm_select_rows(c, il, &cur, &x);
    x = vr_gg_add(g, vr_lm_rms(c, cur, il, "post_attention_norm"), x);
    cur = vr_lm_bare_ffn(c, vr_lm_rms(c, x, il, "ffn_norm"), il, "", VR_LM_GELU, VR_LM_FFN_PAR);
    cur = vr_lm_build_norm(c, cur, vr_lm_w(c, il, "post_ffw_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    return vr_gg_add(g, cur, x);
}

void vr_lm_build_gemma_embedding(vr_lm_graph *c)
{
    vr_t cur = vr_gg_scale(c->g, vr_lm_inp_embd(c));
    vr_lm_inp_attn_no_cache(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = gemma_layer(c, cur, il);
    give(c, vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1));
}
