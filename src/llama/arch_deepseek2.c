/* SPDX-License-Identifier: MIT
 * Latent attention (MLA): deepseek2 and those built alike. With absorbed matrices (attn_k_b, attn_v_b) only
 * the latent is kept; old files without them keep whole keys and values.
 *
 * Source: llama.cpp b10470, src/models/deepseek2.cpp. */
#include "llama/archs_more.h"
#include "llama/arch.h"

/* One head: what is turned, what is not, and its value. */
typedef struct mla {
    uint64_t heads, key, rope, nope, value, lora;
    bool absorbed;
    vr_t temperature; /* queries are scaled by position; NULL: they are not */
} mla;

static bool mla_of(vr_lm_graph *c, mla *m)
{
    const vr_lm *lm = c->lm;
    const vr_lm_layer *l = &lm->layers[0];
    m->absorbed = lm->n_head_k_mla != 0 && lm->n_head_v_mla != 0;
    m->heads = l->n_head;
    m->key = m->absorbed ? lm->n_head_k_mla : l->head_k;
    m->value = m->absorbed ? lm->n_head_v_mla : l->head_v;
    m->rope = l->n_rot;
    m->lora = lm->n_lora_kv;
    if (m->rope >= m->key)
        vr_lm_broken(c, "no part of a key is left unturned");
    m->nope = m->key - (m->rope < m->key ? m->rope : m->key);
    return !vr_lm_stopped(c);
}

/* A part of rows of `row` elements, `heads` to a token. */
static vr_t part(vr_lm_graph *c, vr_t x, uint64_t width, uint64_t heads, uint64_t row, uint64_t from)
{
    uint64_t e = x->nb[0], bytes = vr_mul_sat(row, e);
    return vr_gg_view_3d(c->g, x, width, heads, c->n_tokens, bytes, vr_mul_sat(bytes, heads),
                         vr_mul_sat(from, e));
}

static vr_t queries(vr_lm_graph *c, vr_t x, int il)
{
    if (vr_lm_opt(c, il, "attn_q.weight"))
        return vr_lm_bare_mm(c, il, "attn_q", x);
    x = vr_lm_bare_mm(c, il, "attn_q_a", x);
    return vr_lm_bare_mm(c, il, "attn_q_b", vr_lm_rms(c, x, il, "attn_q_a_norm"));
}

static vr_t warmed(vr_lm_graph *c, const mla *m, vr_t q)
{
    return m->temperature ? vr_gg_mul(c->g, q, m->temperature) : q;
}

/* Halves of a query, the latent (normed) and the part of the key that is turned. */
typedef struct halves {
    vr_t q_nope, q_pe, latent, k_pe;
} halves;

static vr_t attend_absorbed(vr_lm_graph *c, const mla *m, const halves *h, int il)
{
    vr_gg *g = c->g;
    vr_t q = vr_gg_permute(g, h->q_nope, 0, 2, 1, 3);
    q = vr_gg_mul_mat(g, vr_lm_w(c, il, "attn_k_b.weight"), q);
    q = vr_gg_concat(g, vr_gg_permute(g, q, 0, 2, 1, 3), h->q_pe, 0);
    vr_t latent = vr_gg_reshape_3d(g, h->latent, m->lora, 1, c->n_tokens);
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                          .k = vr_gg_concat(g, latent, h->k_pe, 0),
                          .q = warmed(c, m, q),
                          .v = latent,
                          .v_mla = vr_lm_w(c, il, "attn_v_b.weight") };
    return vr_lm_build_attn(c, &a, il);
}

static vr_t attend_whole(vr_lm_graph *c, const mla *m, const halves *h, int il)
{
    vr_gg *g = c->g;
    uint64_t row = vr_add_sat(m->nope, m->value);
    vr_t kv = vr_lm_bare_mm(c, il, "attn_kv_b", h->latent);
    vr_t k = part(c, kv, m->nope, m->heads, row, 0);
    vr_t v = vr_gg_cont(g, part(c, kv, m->value, m->heads, row, m->nope));
    vr_t q = vr_gg_concat(g, h->q_nope, h->q_pe, 0);
    k = vr_gg_concat(g, k, vr_gg_repeat(g, h->k_pe, h->q_pe), 0);
    return vr_lm_attend(c, (vr_lm_qkv){ warmed(c, m, q), k, v }, il);
}

static vr_t attend(vr_lm_graph *c, const mla *m, vr_t x, int il)
{
    vr_gg *g = c->g;
    halves h;
    vr_t q = queries(c, x, il);
    h.q_nope = part(c, q, m->nope, m->heads, m->key, 0);
    h.q_pe = part(c, q, m->rope, m->heads, m->key, m->nope);
    vr_t kv = vr_lm_bare_mm(c, il, "attn_kv_a_mqa", x);
    uint64_t row = vr_add_sat(m->lora, m->rope);
    vr_t latent = vr_gg_view_2d(g, kv, m->lora, c->n_tokens, vr_mul_sat(row, kv->nb[0]), 0);
    h.k_pe = part(c, kv, m->rope, 1, row, m->lora);
    h.q_pe = vr_lm_rope(c, h.q_pe, NULL);
    h.k_pe = vr_lm_rope(c, h.k_pe, NULL);
    h.latent = vr_lm_rms(c, latent, il, "attn_kv_a_norm");
    return m->absorbed ? attend_absorbed(c, m, &h, il) : attend_whole(c, m, &h, il);
}

static vr_t experts(vr_lm_graph *c, vr_t x, int il, bool norm_w, vr_lm_gate_fn gating)
{
    vr_lm_moe m = vr_lm_bare_moe(c, il, VR_LM_SILU, norm_w, gating);
    vr_t out = vr_lm_build_moe(c, x, &m);
    return vr_gg_add(c->g, out, vr_lm_bare_ffn(c, x, il, "_shexp", VR_LM_SILU, VR_LM_FFN_PAR));
}

/* Files of DeepSeek-V2 do not say how experts are chosen; GLM 4.7 Flash neither, and does it otherwise. */
static vr_lm_gate_fn gating_of(const vr_lm *lm)
{
    bool glm = (lm->n_layer == 47 || lm->n_layer == 48) && lm->n_vocab == 154880;
    return vr_lm_gating_of(lm, glm ? VR_LM_SIGMOID : VR_LM_SOFTMAX);
}

void vr_lm_build_deepseek2(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    mla m = { 0 };
    if (!mla_of(c, &m))
        return;
    uint64_t dense = vr_lm_number(c->lm, "leading_dense_block_count", 0);
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_gate_fn gating = gating_of(c->lm);
    vr_t cur = vr_lm_inp_embd(c);
    if (vr_lm_nonzero(c, "attention.temperature_scale"))
        m.temperature = vr_lm_inp_attn_scale(c);
    if (m.absorbed)
        vr_lm_inp_attn_k(c);
    else
        vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = attend(c, &m, vr_lm_rms(c, cur, il, "attn_norm"), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = vr_lm_rms(c, residual, il, "ffn_norm");
        cur = (uint64_t)il < dense ? vr_lm_bare_ffn(c, cur, il, "", VR_LM_SILU, VR_LM_FFN_PAR)
                                   : experts(c, cur, il, norm_w, gating);
        cur = vr_gg_add(g, cur, residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- deepseek2-ocr: the same experts, plain attention ---- */

static vr_t ocr_attend(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    uint64_t heads = c->lm->layers[0].n_head, head = heads != 0 ? c->lm->n_embd / heads : 0;
    vr_t q = vr_lm_bare_mm(c, il, "attn_q", x), k = vr_lm_bare_mm(c, il, "attn_k", x);
    vr_t v = vr_lm_bare_mm(c, il, "attn_v", x);
    vr_lm_qkv a = { vr_gg_reshape_3d(g, q, head, heads, c->n_tokens),
                    vr_gg_reshape_3d(g, k, head, heads, c->n_tokens),
                    vr_gg_reshape_3d(g, v, head, heads, c->n_tokens) };
    a.q = vr_lm_rope(c, a.q, NULL);
    a.k = vr_lm_rope(c, a.k, NULL);
    return vr_lm_attend(c, a, il);
}

void vr_lm_build_deepseek2_ocr(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    uint64_t dense = vr_lm_number(c->lm, "leading_dense_block_count", 0);
    bool norm_w = vr_lm_flag(c, "expert_weights_norm");
    vr_lm_gate_fn gating = vr_lm_gating_of(c->lm, VR_LM_SOFTMAX);
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = ocr_attend(c, vr_lm_rms(c, cur, il, "attn_norm"), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, cur, residual);
        cur = vr_lm_rms(c, residual, il, "ffn_norm");
        cur = (uint64_t)il < dense ? vr_lm_bare_ffn(c, cur, il, "", VR_LM_SILU, VR_LM_FFN_PAR)
                                   : experts(c, cur, il, norm_w, gating);
        cur = vr_gg_add(g, cur, residual);
    }
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

/* ---- minicpm3: latent queries, whole keys and values ---- */

static vr_t minicpm_attend(vr_lm_graph *c, const mla *m, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t factors = vr_lm_rope_factors(c, il);
    halves h;
    vr_t q = vr_lm_rms(c, vr_lm_bare_mm(c, il, "attn_q_a", x), il, "attn_q_a_norm");
    q = vr_lm_bare_mm(c, il, "attn_q_b", q);
    h.q_nope = part(c, q, m->nope, m->heads, m->key, 0);
    h.q_pe = part(c, q, m->rope, m->heads, m->key, m->nope);
    vr_t kv = vr_lm_bare_mm(c, il, "attn_kv_a_mqa", x);
    vr_t latent = vr_gg_view_2d(g, kv, m->lora, c->n_tokens, kv->nb[1], 0);
    h.k_pe = part(c, kv, m->rope, 1, vr_add_sat(m->lora, m->rope), m->lora);
    h.latent = vr_lm_rms(c, latent, il, "attn_kv_a_norm");
    h.q_pe = vr_lm_rope(c, h.q_pe, factors);
    h.k_pe = vr_lm_rope(c, h.k_pe, factors);
    return attend_whole(c, m, &h, il);
}

void vr_lm_build_minicpm3(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    mla m = { 0 };
    if (!mla_of(c, &m))
        return;
    vr_t cur = vr_gg_scale(g, vr_lm_inp_embd(c));
    vr_lm_inp_attn_kv(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++) {
        vr_t residual = cur;
        cur = minicpm_attend(c, &m, vr_lm_rms(c, cur, il, "attn_norm"), il);
        vr_lm_select_rows(c, il, &cur, &residual);
        residual = vr_gg_add(g, vr_gg_scale(g, cur), residual);
        cur = vr_lm_bare_ffn(c, vr_lm_rms(c, residual, il, "ffn_norm"), il, "", VR_LM_SILU, VR_LM_FFN_PAR);
        cur = vr_gg_add(g, vr_gg_scale(g, cur), residual);
    }
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_lm_embd(c, cur);
    vr_lm_logits(c, vr_lm_head_mm(c, vr_gg_scale(g, cur)));
}
