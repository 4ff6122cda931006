/* SPDX-License-Identifier: MIT
 * MiniMax-01: lightning attention, whose state decays, and softmax attention in every eighth layer.
 *
 * Source: llama.cpp b10470, src/models/minimax-01.cpp. */
#include "llama/arch.h"
#include "llama/archs_more.h"

/* Inputs of the decay; all but slopes NULL where a sequence has one token. */
typedef struct decay {
    vr_t slopes, q, k, diag;
} decay;

static decay decay_inputs(vr_lm_graph *c)
{
    uint64_t heads = c->lm->layers[0].n_head, n = c->n_seq_tokens, seqs = c->n_seqs;
    decay d = { .slopes = vr_gg_input(c->g, "slopes", VR_F32, heads, 1, 1, 1) };
    if (n == 1 && c->plan->rules.decay_alone == 0)
        return d;
    d.q = vr_gg_input(c->g, "q_decay_exp", VR_F32, 1, heads, n, seqs);
    d.k = vr_gg_input(c->g, "k_decay_exp", VR_F32, 1, heads, n, seqs);
    d.diag = vr_gg_input(c->g, "diag_decay_exp", VR_F32, n, n, heads, seqs);
    return d;
}

static vr_t scaled_exp(vr_lm_graph *c, vr_t x)
{
    return vr_gg_unary_of(c->g, vr_gg_scale(c->g, x), VR_GG_EXP);
}

/* Rows become columns. */
static vr_t columns(vr_lm_graph *c, vr_t x)
{
    return vr_gg_cont(c->g, vr_gg_permute(c->g, x, 1, 2, 0, 3));
}

/* What one layer works on; state: old, then new. */
typedef struct lightning {
    vr_t q, k, v, state, slopes;
    uint64_t heads;
} lightning;

static vr_t decayed(vr_lm_graph *c, const lightning *x)
{
    vr_t rate = vr_gg_reshape_3d(c->g, scaled_exp(c, x->slopes), 1, 1, x->heads);
    return vr_gg_mul(c->g, x->state, rate);
}

static vr_t one_token(vr_lm_graph *c, lightning *x)
{
    vr_gg *g = c->g;
    vr_t rate = vr_gg_reshape_3d(g, scaled_exp(c, x->slopes), 1, 1, x->heads);
    vr_t v = columns(c, x->v), k = columns(c, x->k);
    vr_t now = vr_gg_mul_mat(g, k, v);
    x->state = vr_gg_add(g, vr_gg_mul(g, x->state, rate), now);
    return vr_gg_mul_mat(g, x->state, vr_gg_permute(g, x->q, 0, 2, 1, 3));
}

static vr_t many_tokens(vr_lm_graph *c, lightning *x, const decay *d)
{
    vr_gg *g = c->g;
    vr_t q_decay = scaled_exp(c, d->q), k_decay = scaled_exp(c, d->k), diag = scaled_exp(c, d->diag);
    vr_t q = vr_gg_permute(g, vr_gg_mul(g, x->q, q_decay), 0, 2, 1, 3);
    vr_t before = vr_gg_mul_mat(g, x->state, q);
    vr_t qk = vr_gg_mul_mat(g, vr_gg_permute(g, x->k, 0, 2, 1, 3), vr_gg_permute(g, x->q, 0, 2, 1, 3));
    qk = vr_gg_mul(g, qk, diag);
    vr_t v = columns(c, x->v);
    vr_t out = vr_gg_add(g, before, vr_gg_mul_mat(g, v, qk));
    vr_gg_build_forward_expand(g, out);
    vr_t old = decayed(c, x);
    vr_t now = vr_gg_mul_mat(g, columns(c, vr_gg_mul(g, x->k, k_decay)), v);
    x->state = vr_gg_add(g, old, now);
    return out;
}

static vr_t cut(vr_lm_graph *c, vr_t qkv, uint64_t head, uint64_t part)
{
    return vr_gg_view_4d(c->g, qkv, head, qkv->ne[1], qkv->ne[2], qkv->ne[3], qkv->nb[1], qkv->nb[2],
                         qkv->nb[3], vr_mul_sat(part, vr_gg_row_size(VR_F32, head)));
}

static vr_t lightning_layer(vr_lm_graph *c, vr_t x, int il, const decay *d)
{
    vr_gg *g = c->g;
    uint64_t head = c->lm->layers[il].head_v, heads = c->lm->layers[il].n_head;
    const vr_lm_kept *kept = vr_lm_kept_of(c, il);
    vr_t states = kept->s;
    /* There is no convolution, but its state of no elements is read. */
    vr_gg_build_forward_expand(g, vr_lm_build_rs(c, kept->r, 0, c->n_seqs, NULL, NULL));
    lightning l = { .slopes = vr_gg_scale(g, d->slopes), .heads = heads };
    x = vr_gg_reshape_4d(g, x, x->ne[0], c->n_seq_tokens, 1, c->n_seqs);
    vr_t qkv = vr_gg_unary_of(g, vr_lm_bare_mm(c, il, "attn_qkv", x), VR_GG_SILU);
    qkv = vr_gg_reshape_4d(g, qkv, vr_mul_sat(head, 3), heads, c->n_seq_tokens, c->n_seqs);
    l.q = cut(c, qkv, head, 0);
    l.k = cut(c, qkv, head, 1);
    l.v = cut(c, qkv, head, 2);
    uint64_t width = vr_mul_sat(vr_mul_sat(head, head), heads);
    l.state = vr_lm_build_rs(c, states, width, c->n_seqs, NULL, NULL);
    l.state = vr_gg_reshape_4d(g, l.state, head, head, heads, c->n_seqs);
    vr_t out = d->q == NULL ? one_token(c, &l) : many_tokens(c, &l, d);
    if (states == NULL)
        return out;
    vr_t place = vr_gg_view_1d(g, states, vr_mul_sat(width, c->n_seqs), 0);
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, l.state, place));
    out = vr_gg_cont(g, vr_gg_permute(g, out, 0, 2, 1, 3));
    out = vr_gg_reshape_4d(g, out, vr_mul_sat(out->ne[0], out->ne[1]), out->ne[2], 1, out->ne[3]);
    out = vr_lm_rms(c, out, il, "attn_norm_2");
    vr_t gate = vr_gg_unary_of(g, vr_lm_bare_mm(c, il, "attn_gate", x), VR_GG_SIGMOID);
    out = vr_lm_bare_mm(c, il, "attn_output", vr_gg_mul(g, gate, out));
    return vr_gg_reshape_2d(g, out, out->ne[0], c->n_tokens);
}

static vr_t softmax_layer(vr_lm_graph *c, vr_t x, int il)
{
    vr_lm_qkv qkv = vr_lm_qkv_of(c, x, il);
    qkv.q = vr_lm_rope(c, qkv.q, NULL);
    qkv.k = vr_lm_rope(c, qkv.k, NULL);
    return vr_lm_attend(c, qkv, il);
}

void vr_lm_build_minimax_01(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_hybrid(c);
    decay d = decay_inputs(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = vr_lm_rms(c, cur, il, "attn_norm");
        cur = c->lm->layers[il].recurrent ? lightning_layer(c, residual, il, &d)
                                          : softmax_layer(c, residual, il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, vr_gg_scale(g, residual));
        residual = vr_lm_rms(c, residual, il, "ffn_norm");
        vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, true, VR_LM_SOFTMAX);
        m.gate_up = m.probs_b = NULL;
        cur = vr_lm_build_moe(c, residual, &m);
        cur = vr_gg_add(g, cur, vr_gg_scale(g, residual));
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}
