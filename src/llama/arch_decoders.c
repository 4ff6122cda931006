/* SPDX-License-Identifier: MIT
 * Further decoders, some as a row of differences from Llama, some with layers of their own.
 *
 * Source: llama.cpp b10470, the file of src/models that each function is named after. */
#include "llama/plain.h"

#define PRE .norm = VR_LM_NORM_RMS, .before = "attn_norm", .ffn = "ffn_norm"
#define PRE_LAYER_NORM .norm = VR_LM_NORM, .before = "attn_norm", .ffn = "ffn_norm"

/* ---- rows of differences ---- */

void vr_lm_build_chatglm(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .no_output_bias = true, .feed = vr_lm_feed_swiglu });
}

void vr_lm_build_jais(vr_lm_graph *c)
{
    c->alibi = vr_lm_nonzero(c, "attention.max_alibi_bias");
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE_LAYER_NORM, .turns = vr_lm_never });
}

void vr_lm_build_maincoder(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .heads = VR_LM_HEADS_TURNED });
}

void vr_lm_build_paddleocr(vr_lm_graph *c)
{
    c->pos_per_token = 4;
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE });
}

void vr_lm_build_pangu_embedded(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE });
}

void vr_lm_build_plamo3(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .behind_attention = "post_attention_norm",
                                         .behind_ffn = "post_ffw_norm", .behind_ffn_is_of = true,
                                         .no_output_bias = true, .feed = vr_lm_feed_swiglu });
}

/* llama.cpp loads experts of such a file, and uses none of them. */
static vr_t refact_feed(vr_lm_graph *c, vr_t cur, int il)
{
    if (vr_lm_opt(c, il, "ffn_gate_inp.weight") == NULL)
        return vr_lm_feed_silu_bare(c, cur, il);
    return vr_gg_unary_of(c->g, cur, VR_GG_SILU);
}

void vr_lm_build_refact(vr_lm_graph *c)
{
    c->alibi = true;
    vr_lm_plain_build(
        c, &(vr_lm_plain){ PRE, .turns = vr_lm_never, .no_output_bias = true, .feed = refact_feed });
}

/* ---- diffusion: no cache ---- */

void vr_lm_build_dream(vr_lm_graph *c)
{
    c->no_head_bias = true;
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .no_cache = true });
}

void vr_lm_build_llada(vr_lm_graph *c)
{
    vr_lm_plain_build(
        c, &(vr_lm_plain){ PRE, .no_output_bias = true, .feed = vr_lm_feed_silu_bare, .no_cache = true });
}

void vr_lm_build_llada_moe(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .no_cache = true, .feed = vr_lm_feed_experts_plain });
}

void vr_lm_build_rnd1(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .no_cache = true, .feed = vr_lm_feed_experts });
}

/* Llama's layers for vectors of texts. */
void vr_lm_build_llama_embed(vr_lm_graph *c)
{
    vr_lm_plain d = { .norm = VR_LM_NORM_RMS,
                      .before = "attn_norm",
                      .ffn = "ffn_norm",
                      .factors = true,
                      .feed = vr_lm_feed_experts,
                      .no_cache = true };
    vr_t cur = vr_lm_plain_layers(c, &d, vr_lm_inp_embd(c));
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    vr_gg_build_forward_expand(c->g, cur);
}

/* ---- GroveMoE: experts in groups, and a chunk expert for each group ---- */

static vr_t grovemoe_feed(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, true, VR_LM_SOFTMAX);
    m.probs_in = vr_lm_mm(c, m.gate_inp, cur, NULL);
    m.n_probs = m.n_expert;
    m.probs_b = m.gate_inp_b = NULL;
    vr_t out = vr_lm_build_moe(c, cur, &m);
    uint64_t each = vr_lm_number(c->lm, "experts_per_group", 0);
    vr_lm_moe chunks = m;
    chunks.up = vr_lm_w(c, il, "ffn_up_chexps.weight");
    chunks.gate = vr_lm_w(c, il, "ffn_gate_chexps.weight");
    chunks.down = vr_lm_w(c, il, "ffn_down_chexps.weight");
    chunks.n_expert = each > 0 ? m.n_expert / each : 0;
    chunks.n_used = m.n_used > chunks.n_expert ? chunks.n_expert : m.n_used;
    return vr_gg_add(g, out, vr_gg_scale(g, vr_lm_build_moe(c, out, &chunks)));
}

void vr_lm_build_grovemoe(vr_lm_graph *c)
{
    vr_lm_plain_build(
        c, &(vr_lm_plain){
               .norm = VR_LM_NORM_RMS, .before = "attn_norm", .ffn = "ffn_norm", .feed = grovemoe_feed });
}

/* ---- Qwen3-VL: pictures come with vectors that early layers add ---- */

static vr_t add_stacked(vr_lm_graph *c, vr_t cur, int il)
{
    if ((uint64_t)il >= c->n_deepstack)
        return cur;
    uint64_t n = c->lm->n_embd, at = vr_mul_sat(vr_mul_sat((uint64_t)il + 1, n), 4);
    return vr_gg_add(c->g, cur, vr_gg_view_2d(c->g, c->inp_rows, n, c->n_tokens, c->inp_rows->nb[1], at));
}

/* Qwen3-TTS has a head of fewer words than it reads: the rest is never chosen. */
static vr_t all_words(vr_lm_graph *c, vr_t logits)
{
    vr_gg *g = c->g;
    uint64_t words = vr_lm_outside(c, "token_embd.weight")->ne[1];
    if (words == logits->ne[0])
        return logits;
    if (words < logits->ne[0]) {
        vr_lm_broken(c, "a head of more words than there are");
        return logits;
    }
    vr_t none = vr_gg_scale(g, vr_gg_view_1d(g, vr_lm_outside(c, "output_norm.weight"), 1, 0));
    none = vr_gg_repeat_4d(g, none, words - logits->ne[0], logits->ne[1], 1, 1);
    return vr_gg_concat(g, none, logits, 0);
}

void vr_lm_build_qwen3vl(vr_lm_graph *c)
{
    bool experts = vr_str_is(c->lm->name, "qwen3vlmoe");
    vr_lm_plain d = { PRE, .feed = experts ? vr_lm_feed_experts : NULL, .behind = add_stacked };
    c->pos_per_token = 4;
    c->n_deepstack = vr_lm_number(c->lm, "n_deepstack_layers", 0);
    if (c->n_deepstack > c->lm->n_layer) {
        vr_lm_broken(c, "more stacked vectors than layers");
        return;
    }
    vr_t cur = vr_lm_plain_layers(c, &d, vr_lm_inp_embd(c));
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    vr_lm_logits(c, all_words(c, vr_lm_head_mm(c, cur)));
}

/* ---- CogVLM, of whose two sets of weights a prompt of text uses one ---- */

static vr_t cogvlm_layer(vr_lm_graph *c, vr_t inp, int il)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS);
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                          .q = vr_lm_rope(c, x.q, NULL),
                          .k = vr_lm_rope(c, x.k, NULL),
                          .v = x.v };
    vr_t ffn_inp = vr_gg_add(g, vr_lm_build_attn(c, &a, il), inp);
    cur = vr_lm_norm_of(c, ffn_inp, il, "ffn_norm", VR_LM_NORM_RMS);
    return vr_gg_add(g, vr_lm_feed_silu(c, cur, il), ffn_inp);
}

void vr_lm_build_cogvlm(vr_lm_graph *c)
{
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++)
        cur = cogvlm_layer(c, cur, il);
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- DeciLM: layers that attend, that multiply instead, or that do neither ---- */

static vr_t deci_attention(vr_lm_graph *c, vr_t inp, int il)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    if (l->n_head == 0)
        return inp;
    vr_t cur = vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS);
    if (l->n_head_kv == 0)
        return vr_lm_mm(c, vr_lm_w(c, il, "attn_output.weight"), cur, NULL);
    vr_t factors = vr_lm_rope_factors(c, il);
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    x.q = vr_lm_rope(c, x.q, factors);
    x.k = vr_lm_rope(c, x.k, factors);
    return vr_lm_attn_of(c, x, il);
}

void vr_lm_build_deci(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t residual = inp, cur = deci_attention(c, inp, il);
        vr_lm_select_rows(c, il, &cur, &residual);
        if (c->lm->layers[il].n_ff == 0)
            continue;
        vr_t ffn_inp = c->lm->layers[il].n_head > 0 ? vr_gg_add(g, cur, residual) : cur;
        cur = vr_lm_norm_of(c, ffn_inp, il, "ffn_norm", VR_LM_NORM_RMS);
        inp = vr_gg_add(g, vr_lm_feed_silu(c, cur, il), ffn_inp);
    }
    vr_lm_finish(c, inp, VR_LM_NORM_RMS);
}

/* ---- OpenELM ---- */

static vr_t openelm_attention(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    uint64_t n = l->n_head, kv = l->n_head_kv;
    cur = vr_lm_mm(c, vr_lm_w(c, il, "attn_qkv.weight"), cur, NULL);
    cur = vr_gg_reshape_3d(g, cur, l->head_k, n + 2 * kv, c->n_tokens);
    uint64_t nb1 = cur->nb[1], nb2 = cur->nb[2];
    vr_t q = vr_gg_view_3d(g, cur, l->head_v, n, c->n_tokens, nb1, nb2, 0);
    vr_t k = vr_gg_view_3d(g, cur, l->head_v, kv, c->n_tokens, nb1, nb2, vr_mul_sat(nb1, n));
    vr_t v = vr_gg_view_3d(g, cur, l->head_v, kv, c->n_tokens, nb1, nb2, vr_mul_sat(nb1, n + kv));
    q = vr_lm_build_norm(c, q, vr_lm_w(c, il, "attn_q_norm.weight"), NULL, VR_LM_NORM_RMS, il);
    k = vr_lm_build_norm(c, k, vr_lm_w(c, il, "attn_k_norm.weight"), NULL, VR_LM_NORM_RMS, il);
    vr_lm_qkv x = { .q = vr_lm_rope(c, q, NULL), .k = vr_lm_rope(c, k, NULL), .v = v };
    return vr_lm_attn_of(c, x, il);
}

void vr_lm_build_openelm(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t residual = inp;
        vr_t cur = openelm_attention(c, vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS), il);
        vr_lm_select_rows(c, il, &residual, &cur);
        vr_t ffn_inp = vr_gg_add(g, residual, cur);
        cur = vr_lm_norm_of(c, ffn_inp, il, "ffn_norm", VR_LM_NORM_RMS);
        inp = vr_gg_add(g, vr_lm_feed_silu(c, cur, il), ffn_inp);
    }
    vr_lm_finish(c, inp, VR_LM_NORM_RMS);
}

/* ---- BitNet: norms before the last product of each part ---- */

static vr_t bitnet_attention(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    vr_lm_attention a = { .q = vr_lm_rope(c, x.q, NULL), .k = vr_lm_rope(c, x.k, NULL), .v = x.v };
    cur = vr_lm_build_attn(c, &a, il);
    cur = vr_lm_norm_of(c, cur, il, "attn_sub_norm", VR_LM_NORM_RMS);
    return vr_lm_linear(c, il, "attn_output", cur);
}

static vr_t bitnet_feed(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    vr_t down = f.down, down_s = f.down_s;
    f.down = f.down_b = f.down_s = NULL;
    cur = vr_lm_build_ffn(c, cur, &f);
    cur = vr_lm_norm_of(c, cur, il, "ffn_sub_norm", VR_LM_NORM_RMS);
    return vr_lm_mm(c, down, cur, down_s);
}

void vr_lm_build_bitnet(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t residual = inp;
        vr_t cur = bitnet_attention(c, vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        vr_t ffn_inp = vr_gg_add(g, cur, residual);
        cur = vr_lm_norm_of(c, ffn_inp, il, "ffn_norm", VR_LM_NORM_RMS);
        inp = vr_gg_add(g, bitnet_feed(c, cur, il), ffn_inp);
    }
    inp = vr_lm_build_norm(c, inp, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, inp);
    vr_lm_logits(c, vr_lm_mm(c, vr_lm_outside(c, "token_embd.weight"), inp, NULL));
}

/* ---- Talkie: norms without weights, and the embeddings added again behind each layer ---- */

static vr_t bare_norm(vr_lm_graph *c, vr_t cur, int il)
{
    return vr_lm_build_norm(c, cur, NULL, NULL, VR_LM_NORM_RMS, il);
}

static vr_t talkie_attention(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    vr_t q = vr_lm_rope(c, x.q, NULL);
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                          .q = vr_lm_build_norm(c, q, vr_lm_w(c, il, "attn_q_norm.weight"), NULL,
                                                VR_LM_NORM_RMS, il),
                          .k = bare_norm(c, vr_lm_rope(c, x.k, NULL), il),
                          .v = x.v };
    return vr_lm_build_attn(c, &a, il);
}

/* Of the scales only the last is read. */
static vr_t talkie_feed(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    f.up_b = f.gate_b = f.down_b = f.up_s = f.gate_s = NULL;
    return vr_lm_build_ffn(c, cur, &f);
}

void vr_lm_build_talkie(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t inp = bare_norm(c, vr_lm_inp_embd(c), -1), again = inp;
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t residual = inp, cur = talkie_attention(c, bare_norm(c, inp, il), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        vr_lm_select_rows(c, il, &again, NULL);
        vr_t ffn_inp = vr_gg_add(g, cur, residual);
        cur = talkie_feed(c, bare_norm(c, ffn_inp, il), il);
        cur = vr_gg_add(g, cur, ffn_inp);
        inp = vr_gg_add(g, cur, vr_gg_mul(g, again, vr_lm_w(c, il, "layer_output_scale.weight")));
    }
    inp = bare_norm(c, inp, -1);
    vr_lm_embd(c, inp);
    vr_lm_logits(c, vr_gg_scale(g, vr_lm_mm(c, vr_lm_head(c), inp, NULL)));
}

/* ---- Chameleon: tokens of pictures are never answered with ---- */

static vr_t chameleon_heads(vr_lm_graph *c, vr_t t, int il, const char *name, const char *weight)
{
    return vr_lm_opt(c, il, weight) != NULL ? vr_lm_norm_of(c, t, il, name, VR_LM_NORM) : t;
}

static vr_t chameleon_attention(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    x.q = vr_lm_rope(c, chameleon_heads(c, x.q, il, "attn_q_norm", "attn_q_norm.weight"), NULL);
    x.k = vr_lm_rope(c, chameleon_heads(c, x.k, il, "attn_k_norm", "attn_k_norm.weight"), NULL);
    return vr_lm_attn_of(c, x, il);
}

/* A norm before a part or, of a Swin layer, behind it. */
static vr_t norm_if(vr_lm_graph *c, vr_t cur, int il, const char *name, bool here)
{
    return here ? vr_lm_norm_of(c, cur, il, name, VR_LM_NORM_RMS) : cur;
}

void vr_lm_build_chameleon(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    bool swin = vr_lm_number(c->lm, "swin_norm", 0) != 0;
    vr_t inp = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t residual = inp;
        vr_t cur = chameleon_attention(c, norm_if(c, inp, il, "attn_norm", !swin), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        cur = norm_if(c, cur, il, "attn_norm", swin);
        vr_t ffn_inp = vr_gg_add(g, cur, residual);
        cur = vr_lm_feed_silu(c, norm_if(c, swin ? cur : ffn_inp, il, "ffn_norm", !swin), il);
        inp = vr_gg_add(g, norm_if(c, cur, il, "ffn_norm", swin), ffn_inp);
    }
    inp = vr_lm_build_norm(c, inp, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, inp);
    inp = vr_lm_head_mm(c, inp);
    const uint64_t first = 4, behind = 8196;
    vr_t pictures = vr_gg_clamp(g, vr_gg_new_1d(g, VR_F32, behind - first));
    vr_lm_logits(c, vr_gg_set_1d(g, inp, pictures, vr_gg_element_size(inp) * first));
}
