/* SPDX-License-Identifier: MIT
 * Qwen3-Next, Qwen3.5 and its mixture of experts: three layers of four are gated delta nets.
 *
 * Source: llama.cpp b10470, src/models/qwen3next.cpp, qwen35.cpp, qwen35moe.cpp. */
#include "llama/archs_more.h"
#include "llama/arch.h"
#include "llama/predicted.h"

/* Heads of the delta net; the widths of keys and values come from different numbers of the file. */
typedef struct net {
    uint64_t key, value, key_heads, heads, inner;
} net;

static bool net_of(vr_lm_graph *c, net *n, int il)
{
    const vr_lm *lm = c->lm;
    *n = (net){
        .key = lm->ssm_state, .key_heads = lm->ssm_groups, .heads = lm->ssm_rank, .inner = lm->ssm_inner
    };
    if (n->key_heads == 0 || n->heads == 0 || n->heads % n->key_heads || n->inner % n->heads ||
        !vr_lm_kept_of(c, il)->s || !vr_lm_kept_of(c, il)->r)
        vr_lm_broken(c, "heads of a delta net do not match");
    if (vr_lm_stopped(c))
        return false;
    n->value = n->inner / n->heads;
    return true;
}

/* Two of a head's parts: [width, heads, tokens, sequences] of rows that hold more. */
static vr_t part(vr_lm_graph *c, vr_t x, uint64_t width, uint64_t heads, uint64_t from)
{
    return vr_gg_view_4d(c->g, x, width, heads, c->n_seq_tokens, c->n_seqs, x->nb[1], x->nb[2], x->nb[3],
                         vr_mul_sat(from, x->nb[0]));
}

static vr_t by_heads(vr_lm_graph *c, vr_t x, uint64_t width, uint64_t heads)
{
    return vr_gg_reshape_4d(c->g, x, width, heads, c->n_seq_tokens, c->n_seqs);
}

/* ---- what goes in: q, k and v in one, and z ---- */

typedef struct mixed {
    vr_t qkv, z;
} mixed;

/* Old files: one matrix, in groups of q, k, v and z. */
static mixed qkvz_joint(vr_lm_graph *c, const net *n, vr_t x, int il)
{
    vr_gg *g = c->g;
    uint64_t tokens = c->n_seq_tokens, seqs = c->n_seqs;
    uint64_t value = vr_mul_sat(n->value, n->heads) / n->key_heads;
    vr_t all = vr_lm_bare_mm(c, il, "ssm_in", x);
    uint64_t group =
        vr_add_sat(vr_mul_sat(2, n->key), vr_mul_sat(2, vr_mul_sat(n->value, n->heads / n->key_heads)));
    all = by_heads(c, all, group, n->key_heads);
    vr_t q = part(c, all, n->key, n->key_heads, 0), k = part(c, all, n->key, n->key_heads, n->key);
    vr_t v = part(c, all, value, n->key_heads, vr_mul_sat(2, n->key));
    vr_t z = part(c, all, value, n->key_heads, vr_add_sat(vr_mul_sat(2, n->key), value));
    z = vr_gg_cont(g, z);
    uint64_t keys = vr_mul_sat(n->key, n->key_heads);
    q = vr_gg_cont_3d(g, q, keys, tokens, seqs);
    k = vr_gg_cont_3d(g, k, keys, tokens, seqs);
    v = vr_gg_cont_3d(g, v, vr_mul_sat(n->value, n->heads), tokens, seqs);
    return (mixed){ vr_gg_concat(g, vr_gg_concat(g, q, k, 0), v, 0), z };
}

/* scaled: with the matrices' own scales. */
static mixed qkvz(vr_lm_graph *c, vr_t x, int il, bool scaled)
{
    vr_t qkv = scaled ? vr_lm_scaled_mm(c, il, "attn_qkv", x) : vr_lm_bare_mm(c, il, "attn_qkv", x);
    qkv = vr_gg_reshape_3d(c->g, qkv, qkv->ne[0], c->n_seq_tokens, c->n_seqs);
    return (mixed){ qkv,
                    scaled ? vr_lm_scaled_mm(c, il, "attn_gate", x) : vr_lm_bare_mm(c, il, "attn_gate", x) };
}

/* ---- how much is forgotten and written ---- */

static vr_t forget(vr_lm_graph *c, vr_t alpha, int il)
{
    vr_gg *g = c->g;
    alpha = vr_gg_unary_of(g, vr_gg_add(g, alpha, vr_lm_w(c, il, "ssm_dt.bias")), VR_GG_SOFTPLUS);
    return vr_gg_mul(g, alpha, vr_lm_w(c, il, "ssm_a"));
}

static void gates_joint(vr_lm_graph *c, const net *n, vr_lm_delta *d, vr_t x, int il)
{
    vr_gg *g = c->g;
    uint64_t each = n->heads / n->key_heads;
    vr_t both =
        by_heads(c, vr_lm_bare_mm(c, il, "ssm_ba", x), vr_mul_sat(2, n->heads) / n->key_heads, n->key_heads);
    vr_t b = part(c, both, each, n->key_heads, 0), a = part(c, both, each, n->key_heads, each);
    vr_t beta = vr_gg_unary_of(g, vr_gg_cont(g, b), VR_GG_SIGMOID);
    vr_t gate = forget(c, vr_gg_cont_3d(g, a, n->heads, c->n_seq_tokens, c->n_seqs), il);
    d->beta = by_heads(c, beta, 1, n->heads);
    d->gate = by_heads(c, gate, 1, n->heads);
}

static void gates_apart(vr_lm_graph *c, const net *n, vr_lm_delta *d, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t beta = by_heads(c, vr_lm_scaled_mm(c, il, "ssm_beta", x), 1, n->heads);
    d->beta = vr_gg_unary_of(g, beta, VR_GG_SIGMOID);
    vr_t alpha = vr_lm_scaled_mm(c, il, "ssm_alpha", x);
    alpha = forget(c, vr_gg_reshape_3d(g, alpha, n->heads, c->n_seq_tokens, c->n_seqs), il);
    d->gate = by_heads(c, alpha, 1, n->heads);
}

/* ---- the convolution and its three parts ---- */

static vr_t conv_part(vr_lm_graph *c, vr_t x, uint64_t width, uint64_t heads, uint64_t from,
                      uint64_t channels)
{
    uint64_t e = x->nb[0], token = vr_mul_sat(channels, e);
    return vr_gg_view_4d(c->g, x, width, heads, c->n_seq_tokens, c->n_seqs, vr_mul_sat(width, e), token,
                         vr_mul_sat(token, c->n_seq_tokens), vr_mul_sat(from, e));
}

static void convolve(vr_lm_graph *c, const net *n, vr_lm_delta *d, vr_t qkv, int il)
{
    vr_gg *g = c->g;
    vr_t kernel = vr_lm_w(c, il, "ssm_conv1d.weight"), kept = vr_lm_kept_of(c, il)->s;
    uint64_t keys = vr_mul_sat(n->key, n->key_heads);
    uint64_t channels = vr_add_sat(n->inner, vr_mul_sat(2, vr_mul_sat(n->key_heads, n->key)));
    vr_t input = vr_lm_build_conv_state(c, qkv, kernel->ne[0], channels, il);
    vr_t state = vr_lm_build_rs(c, kept, kept->ne[0], c->n_seqs, NULL, NULL);
    d->state = vr_gg_reshape_4d(g, state, n->value, n->value, n->heads, c->n_seqs);
    vr_t x = vr_gg_unary_of(g, vr_gg_ssm_conv(g, input, kernel), VR_GG_SILU);
    uint64_t all = vr_add_sat(vr_mul_sat(2, keys), vr_mul_sat(n->value, n->heads));
    d->q = vr_lm_delta_norm(c, conv_part(c, x, n->key, n->key_heads, 0, all));
    d->k = vr_lm_delta_norm(c, conv_part(c, x, n->key, n->key_heads, keys, all));
    d->v = conv_part(c, x, n->value, n->heads, vr_mul_sat(2, keys), all);
}

/* Each key head as often as it has value heads: a, a, b, b. */
static vr_t interleaved(vr_lm_graph *c, const net *n, vr_t x)
{
    vr_gg *g = c->g;
    uint64_t all = vr_mul_sat(c->n_seq_tokens, c->n_seqs);
    x = vr_gg_reshape_4d(g, x, n->key, 1, n->key_heads, all);
    x = vr_gg_repeat_4d(g, x, n->key, n->heads / n->key_heads, n->key_heads, all);
    return by_heads(c, x, n->key, n->heads);
}

/* From the delta net's output to the layer's. */
static vr_t net_out(vr_lm_graph *c, const net *n, vr_t out, vr_t z, int il, bool scaled)
{
    vr_gg *g = c->g;
    z = by_heads(c, z, n->value, n->heads);
    vr_t normed = vr_lm_rms(c, out, il, "ssm_norm");
    out = vr_gg_mul(g, normed, vr_gg_unary_of(g, z, VR_GG_SILU));
    out = vr_gg_reshape_3d(g, out, vr_mul_sat(n->value, n->heads), c->n_seq_tokens, c->n_seqs);
    out = scaled ? vr_lm_scaled_mm(c, il, "ssm_out", out) : vr_lm_bare_mm(c, il, "ssm_out", out);
    return vr_gg_reshape_2d(g, out, c->lm->n_embd, vr_mul_sat(c->n_seq_tokens, c->n_seqs));
}

static vr_t next_net(vr_lm_graph *c, vr_t x, int il)
{
    net n;
    if (!net_of(c, &n, il))
        return x;
    vr_lm_delta d;
    mixed in = vr_lm_opt(c, il, "attn_qkv.weight") ? qkvz(c, x, il, false) : qkvz_joint(c, &n, x, il);
    gates_joint(c, &n, &d, x, il);
    convolve(c, &n, &d, in.qkv, il);
    if (n.key_heads != n.heads) {
        d.q = interleaved(c, &n, d.q);
        d.k = interleaved(c, &n, d.k);
    }
    return net_out(c, &n, vr_lm_build_recurrent_attn(c, &d, il), in.z, il, false);
}

static vr_t qwen35_net(vr_lm_graph *c, vr_t x, int il)
{
    net n;
    if (!net_of(c, &n, il))
        return x;
    vr_lm_delta d;
    mixed in = qkvz(c, x, il, true);
    gates_apart(c, &n, &d, x, il);
    convolve(c, &n, &d, in.qkv, il);
    if (n.key_heads != n.heads && (!c->settled.fused_gdn_ar || !c->settled.fused_gdn_ch)) {
        d.q = vr_gg_repeat_4d(c->g, d.q, n.key, n.heads, c->n_seq_tokens, c->n_seqs);
        d.k = vr_gg_repeat_4d(c->g, d.k, n.key, n.heads, c->n_seq_tokens, c->n_seqs);
    }
    return net_out(c, &n, vr_lm_build_recurrent_attn(c, &d, il), in.z, il, true);
}

/* ---- attention whose result is gated ---- */

static vr_t attend_gated(vr_lm_graph *c, vr_lm_qkv x, vr_t gate, int il)
{
    vr_gg *g = c->g;
    x.q = vr_lm_rope(c, x.q, NULL);
    x.k = vr_lm_rope(c, x.k, NULL);
    vr_lm_attention a = { .q = x.q, .k = x.k, .v = x.v };
    vr_t out = vr_gg_mul(g, vr_lm_build_attn(c, &a, il), vr_gg_unary_of(g, gate, VR_GG_SIGMOID));
    return vr_lm_scaled_mm(c, il, "attn_output", out);
}

typedef vr_t (*project)(vr_lm_graph *c, int il, const char *name, vr_t x);

static vr_t gated_attention(vr_lm_graph *c, vr_t x, int il, bool four_d)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    uint64_t head = l->head_v, n = l->n_head;
    project by = c->plan->rules.qkv_first != 0 ? vr_lm_linear : vr_lm_scaled_mm;
    vr_t both = by(c, il, "attn_q", x);
    uint64_t row = vr_mul_sat(vr_mul_sat(2, head), both->nb[0]), token = vr_mul_sat(row, n);
    if (four_d)
        both = vr_gg_reshape_4d(g, both, vr_mul_sat(2, head), n, c->n_tokens, 1);
    vr_t q = vr_gg_view_3d(g, both, head, n, c->n_tokens, row, token, 0);
    vr_t gate = vr_gg_view_3d(g, both, head, n, c->n_tokens, row, token, vr_mul_sat(head, both->nb[0]));
    vr_lm_qkv qkv = { .q = vr_lm_rms(c, q, il, "attn_q_norm") };
    vr_t k = by(c, il, "attn_k", x), v = by(c, il, "attn_v", x);
    k = vr_gg_reshape_3d(g, k, head, l->n_head_kv, c->n_tokens);
    qkv.k = vr_lm_rms(c, k, il, "attn_k_norm");
    qkv.v = vr_gg_reshape_3d(g, v, head, l->n_head_kv, c->n_tokens);
    return attend_gated(c, qkv, vr_gg_cont_2d(g, gate, vr_mul_sat(head, n), c->n_tokens), il);
}

/* ---- what follows ---- */

static vr_t shared_expert(vr_lm_graph *c, vr_t x, vr_t out, int il)
{
    vr_gg *g = c->g;
    if (!vr_lm_opt(c, il, "ffn_up_shexp.weight"))
        return out;
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR);
    f.up_b = f.gate_b = f.down_b = NULL;
    vr_t shared = vr_lm_build_ffn(c, x, &f);
    vr_t gate = vr_gg_unary_of(g, vr_lm_bare_mm(c, il, "ffn_gate_inp_shexp", x), VR_GG_SIGMOID);
    return vr_gg_add(g, out, vr_gg_mul(g, shared, gate));
}

static vr_t experts(vr_lm_graph *c, vr_t x, int il)
{
    if (!vr_lm_opt(c, il, "ffn_gate_inp.weight"))
        return vr_lm_bare_ffn(c, x, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, true, VR_LM_SOFTMAX);
    m.probs_b = m.gate_inp_b = m.up_b = m.gate_b = m.down_b = m.gate_up_b = NULL;
    return shared_expert(c, x, vr_lm_build_moe(c, x, &m), il);
}

static vr_t dense(vr_lm_graph *c, vr_t x, int il)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    f.up_b = f.gate_b = f.down_b = NULL;
    return vr_lm_build_ffn(c, x, &f);
}

typedef vr_t (*block)(vr_lm_graph *c, vr_t x, int il);

static void build(vr_lm_graph *c, block delta, bool four_d, block ffn)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_hybrid(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t x = vr_lm_rms(c, cur, il, "attn_norm");
        vr_gg_build_forward_expand(g, x);
        x = c->lm->layers[il].recurrent ? delta(c, x, il) : gated_attention(c, x, il, four_d);
        cur = vr_gg_add(g, x, cur);
        cur = vr_gg_add(g, ffn(c, vr_lm_rms(c, cur, il, "post_attention_norm"), il), cur);
    }
    vr_lm_finish_wanted(c, cur);
}

void vr_lm_build_qwen3next(vr_lm_graph *c)
{
    build(c, next_net, true, experts);
}

void vr_lm_build_qwen35(vr_lm_graph *c)
{
    c->pos_per_token = 4;
    build(c, qwen35_net, false, dense);
}

void vr_lm_build_qwen35moe(vr_lm_graph *c)
{
    c->pos_per_token = 4;
    build(c, qwen35_net, false, experts);
}

/* ---- what predicts: a layer of attention, never of a delta net ---- */

static void predict(vr_lm_graph *c, block ffn, bool early)
{
    vr_gg *g = c->g;
    int il = (int)c->lm->n_layer;
    vr_t residual = vr_lm_predicted_begin(c);
    vr_lm_inp_attn_kv(c);
    vr_t x = gated_attention(c, vr_lm_rms(c, residual, il, "attn_norm"), il, false);
    if (early) {
        x = vr_gg_get_rows(g, x, vr_lm_inp_out_ids(c));
        residual = vr_gg_get_rows(g, residual, vr_lm_inp_out_ids(c));
    }
    x = vr_gg_add(g, x, residual);
    x = vr_gg_add(g, ffn(c, vr_lm_rms(c, x, il, "post_attention_norm"), il), x);
    vr_lm_predicted_end(c, x, early ? VR_LM_WANTED_ALREADY : VR_LM_WANTED_BEHIND_NORM);
}

void vr_lm_predict_qwen3next(vr_lm_graph *c)
{
    predict(c, experts, true);
}

void vr_lm_predict_qwen35(vr_lm_graph *c)
{
    c->pos_per_token = 4;
    predict(c, dense, false);
}

void vr_lm_predict_qwen35moe(vr_lm_graph *c)
{
    c->pos_per_token = 4;
    predict(c, experts, false);
}
