/* SPDX-License-Identifier: MIT
 * Models of state spaces: Mamba, Mamba-2, and hybrids with attention.
 *
 * Source: llama.cpp b10470, src/models/mamba.cpp, mamba2.cpp, falcon-h1.cpp, nemotron-h.cpp, jamba.cpp,
 * granite-hybrid.cpp. */
#include "llama/archs_more.h"
#include "llama/predicted.h"
#include "llama/arch.h"

typedef vr_t (*mixer)(vr_lm_graph *c, vr_t cur, int il);

static void build_pure(vr_lm_graph *c, mixer mix)
{
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_rs_inp(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = vr_lm_rms(c, cur, il, "attn_norm");
        cur = mix(c, cur, il);
        vr_lm_select_rows(c, il, &cur, &residual);
        cur = vr_gg_add(c->g, cur, residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

void vr_lm_build_mamba(vr_lm_graph *c)
{
    build_pure(c, vr_lm_mamba_layer);
}

void vr_lm_build_mamba2(vr_lm_graph *c)
{
    build_pure(c, vr_lm_mamba2_layer);
}

/* ---- falcon-h1: attention and state space side by side ---- */

static vr_t falcon_h1_mix(vr_lm_graph *c, vr_t x, int il)
{
    vr_lm_qkv a = vr_lm_qkv_of(c, vr_lm_rms(c, x, il, "attn_norm"), il);
    a.q = vr_lm_rope(c, a.q, NULL);
    a.k = vr_lm_rope(c, a.k, NULL);
    vr_t attended = vr_lm_attend(c, a, il);
    vr_t scanned = vr_lm_mamba2_layer(c, vr_lm_rms(c, x, il, "attn_norm"), il);
    return vr_gg_add(c->g, attended, scanned);
}

void vr_lm_build_falcon_h1(vr_lm_graph *c)
{
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_hybrid(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t mixed = falcon_h1_mix(c, cur, il);
        vr_t residual = vr_gg_add(c->g, mixed, cur);
        vr_lm_select_rows(c, il, &mixed, &residual);
        /* this norm's weight has no ".weight" behind its name */
        cur = vr_lm_build_norm(c, residual, vr_lm_w(c, il, "ffn_norm"), NULL, VR_LM_NORM_RMS, il);
        vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
        f.up_s = f.gate_s = f.down_s = NULL;
        cur = vr_gg_add(c->g, vr_lm_build_ffn(c, cur, &f), residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- nemotron_h: each layer is one of three ---- */

static vr_t nemotron_moe(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t latent = x, down = vr_lm_opt(c, il, "ffn_latent_down.weight");
    if (down)
        latent = vr_gg_mul_mat(g, down, x);
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_RELU_SQR, vr_lm_flag(c, "expert_weights_norm"), VR_LM_SIGMOID);
    m.probs_in = vr_gg_mul_mat(g, vr_lm_w(c, il, "ffn_gate_inp.weight"), x);
    m.gate = m.gate_s = m.gate_up = NULL;
    m.gate_inp_b = m.up_b = m.gate_b = m.down_b = m.gate_up_b = NULL;
    vr_t out = vr_lm_build_moe(c, latent, &m), up = vr_lm_opt(c, il, "ffn_latent_up.weight");
    if (up)
        out = vr_gg_mul_mat(g, up, out);
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "_shexp", VR_LM_RELU_SQR, VR_LM_FFN_PAR);
    f.gate = f.gate_b = f.gate_s = f.up_b = f.down_b = NULL;
    return vr_gg_add(g, out, vr_lm_build_ffn(c, x, &f));
}

static vr_t nemotron_mlp(vr_lm_graph *c, vr_t x, int il)
{
    if (vr_lm_opt(c, il, "ffn_gate_inp.weight"))
        return nemotron_moe(c, x, il);
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_RELU_SQR, VR_LM_FFN_PAR);
    f.gate = f.gate_b = f.gate_s = NULL;
    return vr_lm_build_ffn(c, x, &f);
}

static vr_t nemotron_mix(vr_lm_graph *c, vr_t x, int il)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    if (l->recurrent)
        return vr_lm_mamba2_layer(c, x, il);
    return l->n_ff == 0 ? vr_lm_attn_of(c, vr_lm_qkv_of(c, x, il), il) : nemotron_mlp(c, x, il);
}

void vr_lm_build_nemotron_h(vr_lm_graph *c)
{
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_hybrid(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t x = vr_lm_rms(c, cur, il, "attn_norm");
        cur = vr_gg_add(c->g, nemotron_mix(c, x, il), cur);
    }
    vr_lm_finish_wanted(c, cur);
}

/* What predicts is attention without positions, and experts over the rows that are wanted. */
void vr_lm_predict_nemotron_h_moe(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    int il = (int)c->lm->n_layer;
    if (!vr_lm_opt(c, il, "nextn.shared_head_norm.weight"))
        vr_lm_broken(c, "llama.cpp stops: the layer that predicts has no norm of its own");
    vr_lm_inp_attn_kv(c);
    vr_t cur = vr_lm_predicted_begin(c);
    vr_t x = vr_lm_rms(c, cur, il, "attn_norm");
    cur = vr_gg_add(g, vr_lm_attn_of(c, vr_lm_qkv_of(c, x, il), il), cur);
    cur = vr_gg_get_rows(g, cur, vr_lm_inp_out_ids(c));
    cur = vr_gg_add(g, nemotron_moe(c, vr_lm_rms(c, cur, il, "post_attention_norm"), il), cur);
    vr_lm_predicted_end(c, cur, VR_LM_WANTED_ALREADY);
}

/* ---- jamba ---- */

static vr_t jamba_ffn(vr_lm_graph *c, vr_t x, int il)
{
    if (!vr_lm_opt(c, il, "ffn_gate_inp.weight"))
        return vr_lm_bare_ffn(c, x, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, false, VR_LM_SOFTMAX);
    m.probs_b = m.gate_up = NULL;
    return vr_lm_build_moe(c, x, &m);
}

void vr_lm_build_jamba(vr_lm_graph *c)
{
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_hybrid(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = vr_lm_rms(c, cur, il, "attn_norm");
        cur = c->lm->layers[il].n_head_kv == 0 ? vr_lm_mamba_layer(c, cur, il)
                                               : vr_lm_attend(c, vr_lm_qkv_of(c, cur, il), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(c->g, residual, cur);
        cur = vr_gg_add(c->g, residual, jamba_ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il));
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- granitehybrid ---- */

static vr_t granite_mix(vr_lm_graph *c, vr_t x, int il, bool turned)
{
    if (c->lm->layers[il].recurrent)
        return vr_lm_mamba2_layer(c, x, il);
    vr_lm_qkv a = vr_lm_qkv_of(c, x, il);
    if (turned) {
        vr_t factors = vr_lm_rope_factors(c, il);
        a.q = vr_lm_rope(c, a.q, factors);
        a.k = vr_lm_rope(c, a.k, factors);
    }
    return vr_lm_attn_of(c, a, il);
}

static vr_t granite_ffn(vr_lm_graph *c, vr_t x, int il)
{
    if (!vr_lm_opt(c, il, "ffn_gate_inp.weight")) {
        vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_SILU, VR_LM_FFN_PAR);
        f.up_s = f.gate_s = f.down_s = NULL;
        return vr_lm_build_ffn(c, x, &f);
    }
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, true, VR_LM_SOFTMAX);
    m.probs_b = m.gate_up = NULL;
    vr_t out = vr_lm_build_moe(c, x, &m);
    if (vr_lm_number(c->lm, "expert_shared_feed_forward_length", 0) == 0)
        return out;
    return vr_gg_add(c->g, out, vr_lm_bare_ffn(c, x, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR));
}

static vr_t granite_layer(vr_lm_graph *c, vr_t x, int il, bool turned, bool scaled)
{
    vr_gg *g = c->g;
    vr_t cur = granite_mix(c, vr_lm_rms(c, x, il, "attn_norm"), il, turned);
    vr_lm_select_rows(c, il, &cur, &x);
    cur = vr_gg_add(g, scaled ? vr_gg_scale(g, cur) : cur, x);
    vr_t out = granite_ffn(c, vr_lm_rms(c, cur, il, "ffn_norm"), il);
    return vr_gg_add(g, scaled ? vr_gg_scale(g, out) : out, cur);
}

void vr_lm_build_granitehybrid(vr_lm_graph *c)
{
    bool turned = vr_lm_number(c->lm, "rope.scaling.finetuned", 1) != 0;
    bool scaled = vr_lm_nonzero(c, "residual_scale");
    c->embedding_scaled = vr_lm_nonzero(c, "embedding_scale");
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_hybrid(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = granite_layer(c, cur, il, turned, scaled);
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    cur = vr_lm_head_mm(c, cur);
    vr_lm_logits(c, vr_lm_nonzero(c, "logit_scale") ? vr_gg_scale(c->g, cur) : cur);
}
