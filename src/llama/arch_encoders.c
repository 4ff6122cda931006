/* SPDX-License-Identifier: MIT
 * Encoders: no cache, no logits; a vector of each token or sequence comes out.
 *
 * Source: llama.cpp b10470, src/models/bert.cpp and those that share its graph, modern-bert.cpp,
 * neo-bert.cpp, eurobert.cpp, gemma-embedding.cpp, and the embedding graph of llama.cpp (the file). */
#include "llama/plain.h"

static void finish_vectors(vr_lm_graph *c, vr_t cur)
{
    vr_lm_embd(c, cur);
    vr_gg_build_forward_expand(c->g, cur);
}

static void finish_normed(vr_lm_graph *c, vr_t cur, const char *weight, vr_lm_norm norm)
{
    finish_vectors(c, vr_lm_build_norm(c, cur, vr_lm_outside(c, weight), NULL, norm, -1));
}

/* ---- decoders' layers without a cache ---- */

void vr_lm_build_llama_embed(vr_lm_graph *c)
{
    vr_lm_plain d = { .norm = VR_LM_NORM_RMS,
                      .before = "attn_norm",
                      .ffn = "ffn_norm",
                      .factors = true,
                      .feed = vr_lm_feed_experts,
                      .no_cache = true };
    vr_t cur = vr_lm_plain_layers(c, &d, vr_lm_inp_embd(c));
    finish_normed(c, cur, "output_norm.weight", VR_LM_NORM_RMS);
}

void vr_lm_build_eurobert(vr_lm_graph *c)
{
    vr_lm_plain d = { .norm = VR_LM_NORM_RMS, .before = "attn_norm", .ffn = "ffn_norm", .no_cache = true };
    vr_t cur = vr_lm_plain_layers(c, &d, vr_lm_inp_embd(c));
    finish_normed(c, cur, "output_norm.weight", VR_LM_NORM_RMS);
}

void vr_lm_build_neo_bert(vr_lm_graph *c)
{
    vr_lm_plain d = { .norm = VR_LM_NORM_RMS,
                      .before = "attn_norm",
                      .ffn = "ffn_norm",
                      .feed = vr_lm_feed_swiglu,
                      .no_cache = true };
    vr_t cur = vr_lm_plain_layers(c, &d, vr_lm_inp_embd(c));
    finish_normed(c, cur, "enc.output_norm.weight", VR_LM_NORM_RMS);
}

void vr_lm_build_gemma_embedding(vr_lm_graph *c)
{
    vr_lm_plain d = { .norm = VR_LM_NORM_RMS,
                      .before = "attn_norm",
                      .behind_attention = "post_attention_norm",
                      .ffn = "ffn_norm",
                      .behind_ffn = "post_ffw_norm",
                      .scaled_queries = true,
                      .feed = vr_lm_feed_gelu_gated,
                      .no_cache = true };
    vr_t cur = vr_lm_plain_layers(c, &d, vr_gg_scale(c->g, vr_lm_inp_embd(c)));
    finish_normed(c, cur, "output_norm.weight", VR_LM_NORM_RMS);
}

/* ---- ModernBERT: the first layer has no norm before attention ---- */

static vr_lm_act named_act(const vr_lm_graph *c)
{
    vr_str name;
    if (!vr_lm_word(c->lm, "hidden_activation", &name))
        return VR_LM_GEGLU;
    return vr_str_is(name, "silu") ? VR_LM_SWIGLU : VR_LM_GEGLU;
}

void vr_lm_build_modern_bert(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t w = vr_lm_outside(c, "token_embd_norm.weight");
    vr_t inp = vr_lm_build_norm(c, vr_lm_inp_embd(c), w, NULL, VR_LM_NORM, 0);
    vr_lm_inp_attn_no_cache(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t residual = inp, cur = inp;
        if (vr_lm_opt(c, il, "attn_norm.weight") != NULL)
            cur = vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM);
        vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
        x.q = vr_lm_rope(c, x.q, NULL);
        x.k = vr_lm_rope(c, x.k, NULL);
        cur = vr_lm_attn_of(c, x, il);
        vr_lm_select_rows(c, il, &cur, &residual);
        vr_t ffn_inp = vr_gg_add(g, cur, residual);
        cur = vr_lm_norm_of(c, ffn_inp, il, "ffn_norm", VR_LM_NORM);
        inp = vr_gg_add(g, vr_lm_ffn_simple(c, cur, il, named_act(c), VR_LM_FFN_SEQ), ffn_inp);
    }
    finish_normed(c, inp, "output_norm.weight", VR_LM_NORM);
}

/* ---- BERT and its kin: norms behind each part ---- */

static vr_t embedded(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_inp_embd(c), types = vr_lm_outside_opt(c, "token_types.weight");
    if (types != NULL)
        cur = vr_gg_add(g, cur, vr_gg_view_1d(g, types, c->lm->n_embd, 0));
    if (vr_str_is(c->lm->name, "bert")) {
        vr_t rows = vr_gg_get_rows(g, vr_lm_outside(c, "position_embd.weight"), vr_lm_inp_pos(c));
        cur = vr_gg_add(g, rows, cur);
    }
    vr_t w = vr_lm_outside_opt(c, "token_embd_norm.weight"), b = vr_lm_outside_opt(c, "token_embd_norm.bias");
    return vr_lm_build_norm(c, cur, w, b, VR_LM_NORM, 0);
}

static bool turned(const vr_lm_graph *c)
{
    return vr_str_starts(c->lm->name, "nomic-bert") || vr_str_is(c->lm->name, "jina-bert-v3");
}

/* A norm over all heads as one row. */
static vr_t whole_norm(vr_lm_graph *c, vr_t t, int il, const char *name, const char *weight)
{
    if (vr_lm_opt(c, il, weight) == NULL)
        return t;
    vr_gg *g = c->g;
    uint64_t head = t->ne[0], n = t->ne[1];
    t = vr_gg_reshape_2d(g, t, vr_mul_sat(head, n), c->n_tokens);
    return vr_gg_reshape_3d(g, vr_lm_norm_of(c, t, il, name, VR_LM_NORM), head, n, c->n_tokens);
}

static vr_t bert_attention(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    x.q = whole_norm(c, x.q, il, "attn_q_norm", "attn_q_norm.weight");
    x.k = whole_norm(c, x.k, il, "attn_k_norm", "attn_k_norm.weight");
    if (turned(c)) {
        x.q = vr_lm_rope(c, x.q, NULL);
        x.k = vr_lm_rope(c, x.k, NULL);
    }
    return vr_lm_attn_of(c, x, il);
}

static vr_t bert_experts(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_GELU, false, VR_LM_SOFTMAX);
    m.gate = m.gate_up = NULL;
    return vr_lm_build_moe(c, cur, &m);
}

static vr_t bert_feed(vr_lm_graph *c, vr_t cur, int il)
{
    uint64_t every = vr_lm_number(c->lm, "moe_every_n_layers", 0);
    vr_str name = c->lm->name;
    if (every > 0 && (uint64_t)il % every == 1)
        return bert_experts(c, cur, il);
    if (vr_str_is(name, "bert") || vr_str_is(name, "nomic-bert-moe") || vr_str_is(name, "jina-bert-v3"))
        return vr_lm_feed_gelu(c, cur, il);
    if (!vr_str_is(name, "jina-bert-v2"))
        return vr_lm_feed_silu_bare(c, cur, il);
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_GELU, VR_LM_FFN_PAR);
    bool both = f.gate == NULL && f.up != NULL && f.up->ne[1] != c->lm->layers[0].n_ff;
    f.act = both ? VR_LM_GEGLU : VR_LM_GELU;
    return vr_lm_build_ffn(c, cur, &f);
}

static vr_t bert_layer(vr_lm_graph *c, vr_t inp, int il)
{
    vr_gg *g = c->g;
    vr_t cur = bert_attention(c, inp, il);
    vr_lm_select_rows(c, il, &cur, &inp);
    cur = vr_lm_norm_of(c, vr_gg_add(g, cur, inp), il, "attn_output_norm", VR_LM_NORM);
    if (vr_lm_opt(c, il, "attn_norm_2.weight") != NULL)
        cur = vr_lm_norm_of(c, vr_gg_add(g, cur, inp), il, "attn_norm_2", VR_LM_NORM);
    vr_t fed = bert_feed(c, cur, il);
    return vr_lm_norm_of(c, vr_gg_add(g, fed, cur), il, "layer_output_norm", VR_LM_NORM);
}

void vr_lm_build_bert(vr_lm_graph *c)
{
    c->alibi = vr_str_is(c->lm->name, "jina-bert-v2");
    vr_t cur = embedded(c);
    vr_lm_inp_attn_no_cache(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++)
        cur = bert_layer(c, cur, il);
    finish_vectors(c, cur);
}
