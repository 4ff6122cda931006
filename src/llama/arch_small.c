/* SPDX-License-Identifier: MIT
 * The backbone of Pocket TTS, Muse Glimmer, and Nanbeige.
 *
 * Source: llama.cpp b10470, src/models/pockettts.cpp, muse-glimmer.cpp, nanbeige.cpp. */
#include "llama/arch.h"
#include "llama/archs_more.h"
#include "llama/plain.h"

static vr_lm_qkv turned(vr_lm_graph *c, vr_lm_qkv x)
{
    x.q = vr_lm_rope(c, x.q, NULL);
    x.k = vr_lm_rope(c, x.k, NULL);
    return x;
}

/* ---- pockettts ---- */

static vr_t pocket_layer(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_norm_of(c, x, il, "attn_norm", VR_LM_NORM);
    cur = vr_lm_attend(c, turned(c, vr_lm_qkv_of(c, cur, il)), il);
    vr_lm_select_rows(c, il, &cur, &x);
    x = vr_gg_add(g, cur, x);
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_GELU, VR_LM_FFN_SEQ);
    f.gate = f.gate_b = f.gate_s = f.up_b = f.up_s = f.down_b = f.down_s = NULL;
    return vr_gg_add(g, vr_lm_build_ffn(c, vr_lm_norm_of(c, x, il, "ffn_norm", VR_LM_NORM), &f), x);
}

void vr_lm_build_pockettts(vr_lm_graph *c)
{
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = pocket_layer(c, cur, il);
    vr_lm_finish(c, cur, VR_LM_NORM);
}

/* ---- muse-glimmer ---- */

/* Norms behind a part have a precision of their own and stay where they run. */
static vr_t behind(vr_lm_graph *c, vr_t x, int il, const char *name)
{
    return vr_gg_mul(c->g, vr_gg_rms_norm(c->g, x), vr_lm_w(c, il, name));
}

static vr_t muse_attention(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_lm_qkv qkv = vr_lm_qkv_of(c, x, il);
    vr_t gate = vr_lm_bare_mm(c, il, "attn_gate", x);
    qkv.q = vr_lm_rms(c, qkv.q, il, "attn_q_norm");
    qkv.k = vr_lm_rms(c, qkv.k, il, "attn_k_norm");
    if (c->lm->layers[il].swa)
        qkv = turned(c, qkv);
    vr_lm_attention a = { .q = qkv.q, .k = qkv.k, .v = qkv.v };
    vr_t cur = vr_lm_build_attn(c, &a, il);
    cur = vr_gg_mul(g, cur, vr_gg_unary_of(g, gate, VR_GG_SIGMOID));
    return vr_lm_scaled_mm(c, il, "attn_output", cur);
}

static vr_t muse_layer(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t cur = muse_attention(c, vr_lm_rms(c, x, il, "attn_norm"), il);
    cur = behind(c, cur, il, "post_attention_norm.weight");
    vr_lm_select_rows(c, il, &cur, &x);
    x = vr_gg_add(g, cur, x);
    cur = vr_lm_bare_ffn(c, vr_lm_rms(c, x, il, "ffn_norm"), il, "", VR_LM_SILU, VR_LM_FFN_PAR);
    return vr_gg_add(g, behind(c, cur, il, "post_ffw_norm.weight"), x);
}

void vr_lm_build_muse_glimmer(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t cur = vr_gg_rms_norm(g, vr_lm_inp_embd(c));
    vr_lm_inp_attn_iswa(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = muse_layer(c, cur, il);
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    cur = vr_lm_mm(c, vr_lm_head(c), cur, vr_lm_outside_opt(c, "output.scale"));
    cur = vr_gg_scale(g, cur);
    vr_lm_logits(c, vr_lm_nonzero(c, "final_logit_softcapping") ? vr_lm_logit_cap(c, cur) : cur);
}

/* ---- nanbeige: the same layers several times, normed in between ---- */

static vr_t between_loops(vr_lm_graph *c, vr_t cur, int il)
{
    uint32_t loops = c->lm->loops, each = loops > 1 ? c->lm->n_layer / loops : 0, next = (uint32_t)il + 1;
    if (each == 0 || next % each != 0 || next >= c->lm->n_layer || vr_lm_flag(c, "skip_loop_final_norm"))
        return cur;
    return vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, il);
}

void vr_lm_build_nanbeige(vr_lm_graph *c)
{
    static const vr_lm_plain d = { .norm = VR_LM_NORM_RMS,
                                   .before = "attn_norm",
                                   .ffn = "ffn_norm",
                                   .factors = true,
                                   .behind = between_loops };
    vr_lm_plain_build(c, &d);
}
