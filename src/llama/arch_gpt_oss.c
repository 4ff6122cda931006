/* SPDX-License-Identifier: MIT
 * gpt-oss.
 *
 * Source: llama.cpp b10470, src/models/openai-moe.cpp. */
#include "llama/archs.h"

static vr_t attention(vr_lm_graph *c, vr_t cur, int il)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_lm_qkv x = vr_lm_build_qkv(c, cur, l->n_rot, l->n_head, l->n_head_kv, il);
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_b = vr_lm_opt(c, il, "attn_output.bias"),
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                          .q = vr_lm_rope(c, x.q, NULL),
                          .k = vr_lm_rope(c, x.k, NULL),
                          .v = x.v,
                          .sinks = vr_lm_w(c, il, "attn_sinks.weight") };
    return vr_lm_build_attn(c, &a, il);
}

void vr_lm_build_gpt_oss(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_lm_inp_embd(c);
    vr_lm_inp_attn_iswa(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t cur = vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS);
        vr_t ffn_inp = vr_gg_add(g, attention(c, cur, il), inp);
        cur = vr_lm_norm_of(c, ffn_inp, il, "post_attention_norm", VR_LM_NORM_RMS);
        vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SWIGLU_OAI_MOE, false, VR_LM_SOFTMAX_WEIGHT);
        inp = vr_lm_control(c, vr_gg_add(g, vr_lm_build_moe(c, cur, &m), ffn_inp), il);
    }
    /* What drafting models read is an output; rows are chosen behind it. */
    vr_gg_set_output(inp);
    inp = vr_gg_get_rows(g, inp, vr_lm_inp_out_ids(c));
    vr_lm_finish(c, inp, VR_LM_NORM_RMS);
}
