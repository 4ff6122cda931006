/* SPDX-License-Identifier: MIT
 * LFM2 and its mixture of experts: short convolutions, and attention in some layers.
 *
 * Source: llama.cpp b10470, src/models/lfm2.cpp, lfm2moe.cpp. */
#include "llama/archs_more.h"
#include "llama/arch.h"

/* What the convolution reads: the state in front, or, where tokens see those behind them, zeros on both
 * sides. */
static vr_t conv_input(vr_lm_graph *c, vr_t x, vr_t state, uint64_t kernel)
{
    vr_gg *g = c->g;
    if (c->lm->causal)
        return vr_gg_concat(g, state, x, 0);
    uint64_t pad = (kernel - 1) / 2;
    vr_t left = vr_gg_view_3d(g, state, pad, c->lm->n_embd, c->n_seqs, state->nb[1], state->nb[2],
                              vr_mul_sat(kernel - 1 - pad, state->nb[0]));
    return vr_gg_pad(g, vr_gg_concat(g, vr_gg_cont(g, left), x, 0), pad, 0, 0, 0);
}

static vr_t third(vr_lm_graph *c, vr_t x, uint64_t which)
{
    uint64_t width = x->ne[0] / 3;
    return vr_gg_view_3d(c->g, x, width, x->ne[1], x->ne[2], x->nb[1], x->nb[2],
                         vr_mul_sat(vr_mul_sat(which, width), x->nb[0]));
}

static vr_t short_conv(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    uint64_t kernel = vr_lm_number(c->lm, "shortconv.l_cache", 0);
    vr_t kept = vr_lm_kept_of(c, il)->r;
    if (kernel < 2 || !kept) {
        vr_lm_broken(c, "a short convolution without a state");
        return cur;
    }
    cur = vr_gg_reshape_3d(g, cur, cur->ne[0], c->n_seq_tokens, c->n_seqs);
    vr_t all = vr_lm_bare_mm(c, il, "shortconv.in_proj", cur);
    vr_t b = third(c, all, 0), gate = third(c, all, 1), x = third(c, all, 2);
    x = vr_gg_transpose(g, vr_gg_mul(g, b, x));
    vr_t state = vr_lm_build_rs(c, kept, kept->ne[0], c->n_seqs, NULL, NULL);
    state = vr_gg_reshape_3d(g, state, kernel - 1, c->lm->n_embd, c->n_seqs);
    x = conv_input(c, x, state, kernel);
    uint64_t behind = x->ne[0] > state->ne[0] ? x->ne[0] - state->ne[0] : 0;
    vr_t last = vr_gg_view_3d(g, x, state->ne[0], x->ne[1], x->ne[2], x->nb[1], x->nb[2],
                              vr_mul_sat(behind, x->nb[0]));
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, last, vr_gg_view_1d(g, kept, vr_gg_nelements(last), 0)));
    vr_t y = vr_gg_ssm_conv(g, x, vr_lm_w(c, il, "shortconv.conv.weight"));
    y = vr_lm_bare_mm(c, il, "shortconv.out_proj", vr_gg_mul(g, gate, y));
    return vr_gg_reshape_2d(g, y, y->ne[0], vr_mul_sat(c->n_seq_tokens, c->n_seqs));
}

static vr_t attention(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    x.q = vr_lm_rms(c, x.q, il, "attn_q_norm");
    x.k = vr_lm_rms(c, x.k, il, "attn_k_norm");
    x.q = vr_lm_rope(c, x.q, NULL);
    x.k = vr_lm_rope(c, x.k, NULL);
    return vr_lm_attend(c, x, il);
}

static vr_t ffn(vr_lm_graph *c, vr_t cur, int il, bool moe)
{
    if (!moe)
        return vr_lm_bare_ffn(c, cur, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, true, vr_lm_gating_of(c->lm, VR_LM_SOFTMAX));
    m.gate_up = NULL;
    return vr_lm_build_moe(c, cur, &m);
}

static void build(vr_lm_graph *c, uint64_t dense)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_hybrid(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = vr_lm_rms(c, cur, il, "attn_norm");
        cur = c->lm->layers[il].recurrent ? short_conv(c, cur, il) : attention(c, cur, il);
        vr_lm_select_rows(c, il, &cur, &residual);
        cur = vr_gg_add(g, residual, cur);
        cur = vr_gg_add(g, cur, ffn(c, vr_lm_rms(c, cur, il, "ffn_norm"), il, (uint64_t)il >= dense));
    }
    /* the norm of the output has the embedding's name in these files */
    vr_t w = vr_lm_outside(c, "token_embd_norm.weight");
    cur = vr_lm_build_norm(c, cur, w, NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    vr_lm_logits(c, c->p->embeddings ? cur : vr_lm_head_mm(c, cur));
}

void vr_lm_build_lfm2(vr_lm_graph *c)
{
    build(c, c->lm->n_layer);
}

void vr_lm_build_lfm2moe(vr_lm_graph *c)
{
    build(c, vr_lm_number(c->lm, "leading_dense_block_count", 0));
}
