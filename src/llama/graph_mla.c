/* SPDX-License-Identifier: MIT
 * Latent attention (MLA): with absorbed matrices only the latent is kept; old files without them keep whole
 * keys and values.
 *
 * Source: llama.cpp b10470, src/models/deepseek2.cpp. */
#include "llama/mla.h"

bool vr_lm_mla_of(vr_lm_graph *c, vr_lm_mla *m)
{
    const vr_lm *lm = c->lm;
    const vr_lm_layer *l = &lm->layers[0];
    m->absorbed = lm->n_head_k_mla != 0 && lm->n_head_v_mla != 0;
    m->heads = l->n_head;
    m->key = m->absorbed ? lm->n_head_k_mla : l->head_k;
    m->value = m->absorbed ? lm->n_head_v_mla : l->head_v;
    m->rope = l->n_rot;
    m->lora = lm->n_lora_kv;
    m->nope = 0;
    m->whole_q = false;
    if (m->rope >= m->key)
        vr_lm_broken(c, "no part of a key is left unturned");
    else
        m->nope = m->key - m->rope;
    return !vr_lm_stopped(c);
}

/* A part of rows of `row` elements, `heads` to a token. */
static vr_t part(vr_lm_graph *c, vr_t x, uint64_t width, uint64_t heads, uint64_t row, uint64_t from)
{
    uint64_t e = x->nb[0], bytes = vr_mul_sat(row, e);
    return vr_gg_view_3d(c->g, x, width, heads, c->n_tokens, bytes, vr_mul_sat(bytes, heads),
                         vr_mul_sat(from, e));
}

vr_lm_halves vr_lm_mla_halves(vr_lm_graph *c, const vr_lm_mla *m, vr_t q, vr_t x, int il, bool turns)
{
    if (m->whole_q)
        q = vr_gg_reshape_3d(c->g, q, m->key, m->heads, c->n_tokens);
    vr_lm_halves h = { .q = q };
    h.q_nope = part(c, q, m->nope, m->heads, m->key, 0);
    h.q_pe = part(c, q, m->rope, m->heads, m->key, m->nope);
    vr_t kv = vr_lm_bare_mm(c, il, "attn_kv_a_mqa", x);
    uint64_t row = vr_add_sat(m->lora, m->rope);
    vr_t latent = vr_gg_view_2d(c->g, kv, m->lora, c->n_tokens, vr_mul_sat(row, kv->nb[0]), 0);
    h.k_pe = part(c, kv, m->rope, 1, row, m->lora);
    if (turns) {
        h.q_pe = vr_lm_rope(c, h.q_pe, NULL);
        h.k_pe = vr_lm_rope(c, h.k_pe, NULL);
    }
    h.latent = vr_lm_rms(c, latent, il, "attn_kv_a_norm");
    return h;
}

vr_lm_attention vr_lm_mla_absorbed(vr_lm_graph *c, const vr_lm_mla *m, const vr_lm_halves *h, int il)
{
    vr_gg *g = c->g;
    vr_t q = vr_gg_mul_mat(g, vr_lm_w(c, il, "attn_k_b.weight"), vr_gg_permute(g, h->q_nope, 0, 2, 1, 3));
    vr_t latent = vr_gg_reshape_3d(g, h->latent, m->lora, 1, c->n_tokens);
    return (vr_lm_attention){ .wo = vr_lm_w(c, il, "attn_output.weight"),
                              .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                              .q = vr_gg_concat(g, vr_gg_permute(g, q, 0, 2, 1, 3), h->q_pe, 0),
                              .k = vr_gg_concat(g, latent, h->k_pe, 0),
                              .v = latent,
                              .v_mla = vr_lm_w(c, il, "attn_v_b.weight") };
}

vr_lm_qkv vr_lm_mla_whole(vr_lm_graph *c, const vr_lm_mla *m, const vr_lm_halves *h, int il)
{
    vr_gg *g = c->g;
    uint64_t row = vr_add_sat(m->nope, m->value);
    vr_t kv = vr_lm_bare_mm(c, il, "attn_kv_b", h->latent);
    vr_t k = part(c, kv, m->nope, m->heads, row, 0);
    vr_t v = vr_gg_cont(g, part(c, kv, m->value, m->heads, row, m->nope));
    vr_t turned = vr_gg_repeat_4d(g, h->k_pe, m->rope, m->heads, c->n_tokens, 1);
    vr_t q = m->whole_q ? h->q : vr_gg_concat(g, h->q_nope, h->q_pe, 0);
    return (vr_lm_qkv){ q, vr_gg_concat(g, k, turned, 0), v };
}
