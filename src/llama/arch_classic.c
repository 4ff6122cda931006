/* SPDX-License-Identifier: MIT
 * GPT-NeoX and MPT.
 *
 * Source: llama.cpp b10470, src/models/gptneox.cpp, mpt.cpp. */
#include "llama/archs_more.h"
#include "llama/arch.h"

static vr_t classic_ffn(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_GELU, VR_LM_FFN_SEQ);
    f.gate = f.gate_b = f.gate_s = f.up_s = f.down_s = NULL;
    f.act_scales = vr_lm_opt(c, il, "ffn.act.scales");
    return vr_lm_build_ffn(c, cur, &f);
}

static vr_t with_positions(vr_lm_graph *c, vr_t cur)
{
    vr_t pos = vr_lm_inp_pos(c);
    return vr_gg_add(c->g, cur, vr_gg_get_rows(c->g, vr_lm_outside(c, "position_embd.weight"), pos));
}

/* attention, then the FFN, each on what it norms and added. */
static void build_serial(vr_lm_graph *c, vr_t cur, vr_t (*attend)(vr_lm_graph *c, vr_t cur, int il))
{
    vr_gg *g = c->g;
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = attend(c, vr_lm_norm_of(c, cur, il, "attn_norm", VR_LM_NORM), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = vr_gg_add(g, classic_ffn(c, vr_lm_norm_of(c, residual, il, "ffn_norm", VR_LM_NORM), il),
                        residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM);
}

/* ---- mpt ---- */

static vr_t attend_mpt(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    if (vr_lm_opt(c, il, "attn_q_norm.weight")) {
        x.q = vr_lm_norm_whole(c, x.q, il, "attn_q_norm");
        x.k = vr_lm_norm_whole(c, x.k, il, "attn_k_norm");
    }
    return vr_lm_attn_of(c, x, il);
}

void vr_lm_build_mpt(vr_lm_graph *c)
{
    c->alibi = vr_lm_nonzero(c, "attention.max_alibi_bias");
    vr_t cur = vr_lm_inp_embd(c);
    build_serial(c, vr_lm_outside_opt(c, "position_embd.weight") ? with_positions(c, cur) : cur, attend_mpt);
}

/* ---- gptneox: may add attention and FFN to the same input ---- */

static vr_t attend_neox(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    x.q = vr_lm_rope(c, x.q, NULL);
    x.k = vr_lm_rope(c, x.k, NULL);
    return vr_lm_attn_of(c, x, il);
}

static vr_t neox_parallel(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t attended = attend_neox(c, vr_lm_norm_of(c, x, il, "attn_norm", VR_LM_NORM), il);
    vr_lm_select_rows(c, il, &attended, &x);
    vr_t cur = classic_ffn(c, vr_lm_norm_of(c, x, il, "ffn_norm", VR_LM_NORM), il);
    return vr_gg_add(g, vr_gg_add(g, cur, x), attended);
}

void vr_lm_build_gptneox(vr_lm_graph *c)
{
    vr_t cur = vr_lm_inp_embd(c);
    if (!vr_lm_flag(c, "use_parallel_residual")) {
        build_serial(c, cur, attend_neox);
        return;
    }
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = neox_parallel(c, cur, il);
    vr_lm_finish(c, cur, VR_LM_NORM);
}
