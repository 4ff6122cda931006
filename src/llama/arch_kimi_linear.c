/* SPDX-License-Identifier: MIT
 * Kimi Linear: delta nets with a gate for each channel, and latent attention without positions in some
 * layers.
 *
 * Source: llama.cpp b10470, src/models/kimi-linear.cpp. */
#include "llama/archs_more.h"
#include "llama/mla.h"

/* ---- delta net layers ---- */

typedef struct kda {
    uint64_t head, heads, inner, conv, state; /* state: floats of one of the three convolutions */
    vr_t kept, states;
    bool whole_gate; /* of the output: one matrix instead of two narrow ones */
} kda;

static bool kda_of(vr_lm_graph *c, kda *k, int il)
{
    k->head = vr_lm_number(c->lm, "kda.head_dim", 0);
    k->heads = c->lm->layers[0].n_head;
    k->conv = c->lm->ssm_conv;
    k->kept = vr_lm_kept_of(c, il)->r;
    k->inner = vr_mul_sat(k->head, k->heads);
    if (k->conv == 0 || k->inner == 0 || !k->kept || !vr_lm_kept_of(c, il)->s)
        vr_lm_broken(c, "a delta net without a state");
    k->state = k->conv == 0 ? 0 : vr_mul_sat(k->conv - 1, k->inner);
    return !vr_lm_stopped(c);
}

/* One of the three parts of a state, as [columns, channels, sequences]. */
static vr_t part_of_state(vr_lm_graph *c, const kda *k, vr_t of, uint64_t which)
{
    uint64_t e = of->nb[0];
    return vr_gg_view_3d(c->g, of, k->conv - 1, k->inner, c->n_seqs, vr_mul_sat(k->conv - 1, e),
                         vr_mul_sat(vr_mul_sat(3, k->state), e), vr_mul_sat(vr_mul_sat(which, k->state), e));
}

static vr_t convolved(vr_lm_graph *c, const kda *k, vr_t x, int il, uint64_t which)
{
    static const char *const by[] = { "attn_q", "attn_k", "attn_v" };
    static const char *const kernels[] = { "ssm_conv1d_q.weight", "ssm_conv1d_k.weight",
                                           "ssm_conv1d_v.weight" };
    vr_gg *g = c->g;
    vr_t state = part_of_state(c, k, k->states, which);
    x = vr_gg_reshape_3d(g, vr_lm_bare_mm(c, il, by[which], x), k->inner, c->n_seq_tokens, c->n_seqs);
    vr_t input = vr_gg_concat(g, state, vr_gg_transpose(g, x), 0);
    vr_t last = vr_gg_view_3d(g, input, k->conv - 1, k->inner, c->n_seqs, input->nb[1], input->nb[2],
                              vr_mul_sat(c->n_seq_tokens, input->nb[0]));
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, last, part_of_state(c, k, k->kept, which)));
    vr_t kernel = vr_gg_reshape_2d(g, vr_lm_w(c, il, kernels[which]), k->conv, k->inner);
    x = vr_gg_reshape_2d(g, vr_gg_ssm_conv(g, input, kernel), k->inner, c->n_tokens);
    x = vr_gg_unary_of(g, x, VR_GG_SILU);
    return vr_gg_reshape_4d(g, x, k->head, k->heads, c->n_seq_tokens, c->n_seqs);
}

/* Where the gate has a lower bound it is a sigmoid. */
static vr_t forget(vr_lm_graph *c, const kda *k, vr_t x, int il)
{
    vr_gg *g = c->g;
    double bound = 0;
    bool bounded = k->whole_gate && vr_lm_float(c->lm, "kda.gate_lower_bound", &bound);
    x = vr_lm_bare_mm(c, il, "ssm_f_b", vr_lm_bare_mm(c, il, "ssm_f_a", x));
    x = vr_gg_add(g, x, vr_lm_w(c, il, "ssm_dt.bias"));
    if (!bounded)
        x = vr_gg_unary_of(g, x, VR_GG_SOFTPLUS);
    x = vr_gg_reshape_3d(g, x, k->head, k->heads, c->n_tokens);
    x = vr_gg_mul(g, x, vr_gg_reshape_3d(g, vr_lm_w(c, il, "ssm_a"), 1, k->heads, 1));
    if (bounded)
        x = vr_gg_scale(g, vr_gg_unary_of(g, vr_gg_scale(g, x), VR_GG_SIGMOID));
    return vr_gg_reshape_4d(g, x, k->head, k->heads, c->n_seq_tokens, c->n_seqs);
}

static vr_t net_out(vr_lm_graph *c, const kda *k, vr_t out, vr_t x, int il)
{
    vr_gg *g = c->g;
    x = vr_gg_reshape_2d(g, x, x->ne[0], c->n_tokens);
    vr_t gate = k->whole_gate ? vr_lm_bare_mm(c, il, "ssm_g", x)
                              : vr_lm_bare_mm(c, il, "ssm_g_b", vr_lm_bare_mm(c, il, "ssm_g_a", x));
    gate = vr_gg_reshape_3d(g, gate, k->head, k->heads, c->n_tokens);
    out = vr_gg_reshape_3d(g, out, k->head, k->heads, c->n_tokens);
    out = vr_gg_mul(g, vr_lm_rms(c, out, il, "ssm_norm"), vr_gg_unary_of(g, gate, VR_GG_SIGMOID));
    return vr_lm_bare_mm(c, il, "attn_output", vr_gg_cont_2d(g, out, k->inner, c->n_tokens));
}

vr_t vr_lm_kda_layer(vr_lm_graph *c, vr_t x, int il, bool whole_gate)
{
    vr_gg *g = c->g;
    kda k = { .whole_gate = whole_gate };
    if (!kda_of(c, &k, il))
        return x;
    vr_lm_delta d;
    k.states = vr_lm_build_rs(c, k.kept, k.kept->ne[0], c->n_seqs, NULL, NULL);
    d.q = convolved(c, &k, x, il, 0);
    d.k = convolved(c, &k, x, il, 1);
    d.v = convolved(c, &k, x, il, 2);
    d.gate = forget(c, &k, x, il);
    vr_t beta = vr_lm_bare_mm(c, il, "ssm_beta", x), kept = vr_lm_kept_of(c, il)->s;
    beta = vr_gg_reshape_4d(g, beta, 1, k.heads, c->n_seq_tokens, c->n_seqs);
    d.beta = vr_gg_unary_of(g, beta, VR_GG_SIGMOID);
    x = vr_gg_reshape_3d(g, x, x->ne[0], c->n_seq_tokens, c->n_seqs);
    vr_t state = vr_lm_build_rs(c, kept, kept->ne[0], c->n_seqs, NULL, NULL);
    d.state = vr_gg_reshape_4d(g, state, k.head, k.head, k.heads, c->n_seqs);
    d.q = vr_lm_delta_norm(c, d.q);
    d.k = vr_lm_delta_norm(c, d.k);
    vr_t out = vr_gg_cont(g, vr_lm_build_delta_net(c, &d, il));
    vr_t place = vr_gg_view_1d(g, kept, vr_mul_sat(kept->ne[0], c->n_seqs), 0);
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, d.state, place));
    return net_out(c, &k, out, x, il);
}

/* ---- attention layers ---- */

static vr_t attention_layer(vr_lm_graph *c, const vr_lm_mla *m, vr_t x, int il)
{
    if (vr_lm_opt(c, il, "attn_kv_b.weight"))
        vr_lm_broken(c, "llama.cpp keeps only the latent of such a file and asks for whole keys");
    vr_lm_halves h = vr_lm_mla_halves(c, m, vr_lm_bare_mm(c, il, "attn_q", x), x, il, false);
    vr_lm_attention a = vr_lm_mla_absorbed(c, m, &h, il);
    return vr_lm_build_attn(c, &a, il);
}

static vr_t ffn(vr_lm_graph *c, vr_t x, int il, bool dense)
{
    if (dense)
        return vr_lm_bare_ffn(c, x, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, true, vr_lm_gating_of(c->lm, VR_LM_SOFTMAX));
    m.gate_up = NULL;
    vr_t out = vr_lm_build_moe(c, x, &m);
    return vr_gg_add(c->g, out, vr_lm_bare_ffn(c, x, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR));
}

void vr_lm_build_kimi_linear(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    uint64_t dense = vr_lm_number(c->lm, "leading_dense_block_count", 0);
    vr_lm_mla m;
    if (!vr_lm_mla_of(c, &m))
        return;
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_rs_inp(c);
    vr_lm_inp_attn_k(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = vr_lm_rms(c, cur, il, "attn_norm");
        vr_gg_build_forward_expand(g, cur);
        cur = c->lm->layers[il].recurrent ? vr_lm_kda_layer(c, cur, il, false)
                                          : attention_layer(c, &m, cur, il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il, (uint64_t)il < dense);
        cur = vr_gg_add(g, cur, residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}
