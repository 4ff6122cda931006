/* SPDX-License-Identifier: MIT
 * Mixtures of experts with layers of their own.
 *
 * Source: llama.cpp b10470, the file of src/models that each function is named after. */
#include "llama/plain.h"

/* ---- Cohere 2 with experts ---- */

static bool forced_or_sliding(const vr_lm_graph *c, int il)
{
    return c->lm->layers[il].swa || (uint64_t)il < vr_lm_number(c->lm, "leading_dense_block_count", 0);
}

static vr_t cohere2moe_feed(vr_lm_graph *c, vr_t cur, int il)
{
    if (vr_lm_opt(c, il, "ffn_gate_inp.weight") == NULL)
        return vr_lm_feed_silu(c, cur, il);
    vr_t out = vr_lm_feed_experts_file(c, cur, il);
    return vr_lm_opt(c, il, "ffn_up_shexp.weight") != NULL ? vr_gg_scale(c->g, out) : out;
}

void vr_lm_build_cohere2moe(vr_lm_graph *c)
{
    bool rms = vr_lm_is_set(c, "attention.layer_norm_rms_epsilon");
    vr_lm_parallel d = { .norm = rms ? VR_LM_NORM_RMS : VR_LM_NORM,
                         .turns = forced_or_sliding,
                         .factors = true,
                         .sum = VR_LM_SUM_FED_INPUT_ATTENTION,
                         .feed = cohere2moe_feed,
                         .rows_behind = true };
    vr_t cur = vr_lm_parallel_layers(c, &d, vr_lm_inp_embd(c));
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, d.norm, -1);
    vr_gg_set_output(cur);
    cur = vr_gg_get_rows(c->g, cur, vr_lm_inp_out_ids(c));
    vr_lm_embd(c, cur);
    cur = vr_lm_mm(c, vr_lm_head(c), cur, NULL);
    vr_lm_logits(c, vr_lm_is_set(c, "logit_scale") ? vr_gg_scale(c->g, cur) : cur);
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

/* ---- attention whose output passes a gate ---- */

/* One gate for each head, or one for each element. */
static vr_t gated(vr_lm_graph *c, vr_t cur, vr_t gate, int il)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    if (gate->ne[0] != l->n_head)
        return vr_gg_mul(g, cur, gate);
    uint64_t n_tokens = cur->ne[1];
    cur = vr_gg_reshape_3d(g, cur, l->head_v, l->n_head, n_tokens);
    cur = vr_gg_mul(g, cur, vr_gg_reshape_3d(g, gate, 1, l->n_head, n_tokens));
    return vr_gg_reshape_2d(g, cur, vr_mul_sat(l->head_v, l->n_head), n_tokens);
}

static vr_t head_norm(vr_lm_graph *c, vr_t t, int il, const char *weight)
{
    vr_t w = vr_lm_opt(c, il, weight);
    return w != NULL ? vr_lm_build_norm(c, t, w, NULL, VR_LM_NORM_RMS, il) : t;
}

static vr_t gated_attention(vr_lm_graph *c, vr_t cur, int il, vr_gg_unary act, vr_t factors)
{
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    x.q = head_norm(c, x.q, il, "attn_q_norm.weight");
    x.k = head_norm(c, x.k, il, "attn_k_norm.weight");
    vr_lm_attention a = { .q = vr_lm_rope(c, x.q, factors), .k = vr_lm_rope(c, x.k, factors), .v = x.v };
    vr_t out = vr_lm_build_attn(c, &a, il), w = vr_lm_opt(c, il, "attn_gate.weight");
    if (w != NULL)
        out = gated(c, out, vr_gg_unary_of(c->g, vr_lm_mm(c, w, cur, NULL), act), il);
    return vr_lm_mm(c, vr_lm_w(c, il, "attn_output.weight"), out, vr_lm_opt(c, il, "attn_output.scale"));
}

void vr_lm_build_laguna(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_lm_inp_embd(c);
    vr_lm_inp_attn(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t residual = inp, cur = vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS);
        cur = gated_attention(c, cur, il, VR_GG_SOFTPLUS, NULL);
        vr_lm_select_rows(c, il, &cur, &residual);
        vr_t ffn_inp = vr_gg_add(g, cur, residual);
        cur = vr_lm_norm_of(c, ffn_inp, il, "ffn_norm", VR_LM_NORM_RMS);
        inp = vr_gg_add(g, vr_lm_feed_experts_file(c, cur, il), ffn_inp);
    }
    vr_lm_finish(c, inp, VR_LM_NORM_RMS);
}

static bool limited(const vr_lm_graph *c, int il, const char *key)
{
    double limit = 0;
    return vr_lm_float_at(c->lm, key, (uint32_t)il, &limit) && limit > 1e-6;
}

static vr_t step35_feed(vr_lm_graph *c, vr_t cur, int il)
{
    bool experts = vr_lm_opt(c, il, "ffn_gate_inp.weight") != NULL;
    vr_lm_ffn f = vr_lm_ffn_of(c, il, experts ? "_shexp" : "", VR_LM_SILU, VR_LM_FFN_PAR);
    f.clamped = limited(c, il, "swiglu_clamp_shexp");
    if (!experts)
        return vr_lm_build_ffn(c, cur, &f);
    bool norm_w = vr_lm_number(c->lm, "expert_weights_norm", 0) != 0;
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, norm_w, vr_lm_gating_of(c->lm, VR_LM_SIGMOID));
    m.clamped = limited(c, il, "swiglu_clamp_exp");
    vr_t out = vr_lm_build_moe(c, cur, &m);
    return vr_gg_add(c->g, out, vr_lm_build_ffn(c, cur, &f));
}

void vr_lm_build_step35(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_lm_inp_embd(c);
    vr_lm_inp_attn_iswa(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t cur = vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS);
        vr_t factors = c->lm->layers[il].swa ? NULL : vr_lm_rope_factors(c, il);
        vr_t ffn_inp = vr_gg_add(g, gated_attention(c, cur, il, VR_GG_SIGMOID, factors), inp);
        cur = vr_lm_norm_of(c, ffn_inp, il, "ffn_norm", VR_LM_NORM_RMS);
        inp = vr_gg_add(g, step35_feed(c, cur, il), ffn_inp);
    }
    vr_gg_set_output(inp);
    inp = vr_gg_get_rows(g, inp, vr_lm_inp_out_ids(c));
    vr_lm_finish(c, inp, VR_LM_NORM_RMS);
}

/* ---- MiMo 2 ---- */

static vr_t mimo2_attention(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_qkv x = vr_lm_qkv_of(c, cur, il);
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                          .q = vr_lm_rope(c, x.q, NULL),
                          .k = vr_lm_rope(c, x.k, NULL),
                          .v = x.v,
                          .sinks = vr_lm_opt(c, il, "attn_sinks.weight") };
    cur = vr_lm_build_attn(c, &a, il);
    return vr_lm_is_set(c, "attention.value_scale") ? vr_gg_scale(c->g, cur) : cur;
}

static vr_t mimo2_feed(vr_lm_graph *c, vr_t cur, int il)
{
    if (vr_lm_opt(c, il, "ffn_gate_inp.weight") == NULL)
        return vr_lm_feed_silu(c, cur, il);
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, true, VR_LM_SIGMOID);
    return vr_lm_build_moe(c, cur, &m);
}

void vr_lm_build_mimo2(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_lm_inp_embd(c);
    vr_lm_inp_attn_iswa(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t residual = inp;
        vr_t cur = mimo2_attention(c, vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        vr_t ffn_inp = vr_gg_add(g, cur, residual);
        cur = vr_lm_norm_of(c, ffn_inp, il, "ffn_norm", VR_LM_NORM_RMS);
        inp = vr_gg_add(g, mimo2_feed(c, cur, il), ffn_inp);
    }
    vr_lm_finish(c, inp, VR_LM_NORM_RMS);
}

/* ---- SmallThinker: the router reads what attention reads ---- */

void vr_lm_build_smallthinker(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    vr_t inp = vr_lm_inp_embd(c);
    /* every fourth layer is not turned, unless none of them slides */
    uint64_t step = c->lm->n_swa > 0 ? 4 : c->lm->n_layer;
    vr_lm_inp_attn(c);
    for (int il = 0; il < (int)c->lm->n_layer; il++) {
        vr_t residual = inp;
        vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_RELU, true, vr_lm_gating_of(c->lm, VR_LM_SIGMOID));
        m.probs_in = vr_lm_mm(c, m.gate_inp, inp, NULL);
        m.probs_b = m.gate_inp_b = NULL;
        vr_lm_qkv x = vr_lm_qkv_of(c, vr_lm_norm_of(c, inp, il, "attn_norm", VR_LM_NORM_RMS), il);
        if (step == c->lm->n_layer || (uint64_t)il % step != 0) {
            x.q = vr_lm_rope(c, x.q, NULL);
            x.k = vr_lm_rope(c, x.k, NULL);
        }
        vr_t cur = vr_lm_attn_of(c, x, il);
        vr_lm_select_rows(c, il, &cur, &residual);
        vr_lm_select_rows(c, il, &m.probs_in, NULL);
        vr_t ffn_inp = vr_gg_add(g, cur, residual);
        cur = vr_lm_norm_of(c, ffn_inp, il, "ffn_norm", VR_LM_NORM_RMS);
        inp = vr_gg_add(g, vr_lm_build_moe(c, cur, &m), ffn_inp);
    }
    vr_lm_finish(c, inp, VR_LM_NORM_RMS);
}
