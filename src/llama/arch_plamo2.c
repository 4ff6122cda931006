/* SPDX-License-Identifier: MIT
 * PLaMo-2: a state space of its own kind, and attention in some layers.
 *
 * Source: llama.cpp b10470, src/models/plamo2.cpp. */
#include "llama/arch.h"
#include "llama/archs_more.h"

/* Widths, the states and what the scan reads. */
typedef struct ssm {
    vr_t kept_r, kept_s;
    uint64_t conv, inner, state, heads, head;
    vr_t x, dt, a, b, c;
} ssm;

/* Some norms of these files have no ".weight" behind their name. */
static vr_t bare_norm(vr_lm_graph *c, vr_t x, int il, const char *name)
{
    return vr_lm_build_norm(c, x, vr_lm_w(c, il, name), NULL, VR_LM_NORM_RMS, il);
}

static bool ssm_of(vr_lm_graph *c, ssm *m, int il)
{
    const vr_lm *lm = c->lm;
    *m = (ssm){ .kept_r = vr_lm_kept_of(c, il)->r,
                .kept_s = vr_lm_kept_of(c, il)->s,
                .conv = lm->ssm_conv,
                .inner = lm->ssm_inner,
                .state = lm->ssm_state,
                .heads = lm->ssm_rank };
    if (!m->kept_r || !m->kept_s || m->conv == 0 || m->heads == 0 || m->inner % m->heads)
        vr_lm_broken(c, "heads of a state space do not divide its width");
    else
        m->head = m->inner / m->heads;
    return !vr_lm_stopped(c);
}

static vr_t convolved(vr_lm_graph *c, const ssm *m, vr_t state, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t row = vr_gg_concat(g, state, vr_gg_transpose(g, x), 0);
    vr_t last = vr_gg_view_3d(g, row, m->conv - 1, m->inner, c->n_seqs, row->nb[1], row->nb[2],
                              vr_mul_sat(c->n_seq_tokens, row->nb[0]));
    uint64_t n = vr_mul_sat(vr_mul_sat(m->conv - 1, m->inner), c->n_seqs);
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, last, vr_gg_view_1d(g, m->kept_r, n, 0)));
    return vr_gg_unary_of(g, vr_gg_ssm_conv(g, row, vr_lm_w(c, il, "ssm_conv1d.weight")), VR_GG_SILU);
}

static vr_t part(vr_lm_graph *c, vr_t x, uint64_t width, uint64_t from)
{
    return vr_gg_view_3d(c->g, x, width, c->n_seq_tokens, c->n_seqs, x->nb[1], x->nb[2],
                         vr_mul_sat(from, x->nb[0]));
}

/* [state, 1, tokens, sequences] */
static vr_t for_scan(vr_lm_graph *c, const ssm *m, vr_t x)
{
    return vr_gg_view_4d(c->g, x, m->state, 1, c->n_seq_tokens, c->n_seqs, vr_mul_sat(m->state, x->nb[0]),
                         x->nb[1], x->nb[2], 0);
}

static void read_selection(vr_lm_graph *c, ssm *m, vr_t x, int il)
{
    vr_gg *g = c->g;
    uint64_t rank = c->lm->n_embd / 16 > 64 ? c->lm->n_embd / 16 : 64;
    vr_t all = vr_lm_bare_mm(c, il, "ssm_x", x);
    vr_t b = part(c, all, m->state, 0), cc = part(c, all, m->state, m->state);
    vr_t dt = part(c, all, rank, vr_mul_sat(2, m->state));
    b = bare_norm(c, b, il, "ssm_b_norm");
    cc = bare_norm(c, cc, il, "ssm_c_norm");
    dt = bare_norm(c, dt, il, "ssm_dt_norm");
    m->dt = vr_gg_add(g, vr_lm_bare_mm(c, il, "ssm_dt", dt), vr_lm_w(c, il, "ssm_dt.bias"));
    m->a = vr_gg_reshape_2d(g, vr_lm_w(c, il, "ssm_a"), 1, m->heads);
    uint64_t e = x->nb[0], head = vr_mul_sat(m->head, e), token = vr_mul_sat(head, m->heads);
    m->x = vr_gg_view_4d(g, x, m->head, m->heads, c->n_seq_tokens, c->n_seqs, head, token,
                         vr_mul_sat(token, c->n_seq_tokens), 0);
    m->b = for_scan(c, m, b);
    m->c = for_scan(c, m, cc);
}

static vr_t take_scan(vr_lm_graph *c, vr_t states, vr_t ids, void *with)
{
    const ssm *m = with;
    vr_t s = vr_gg_reshape_4d(c->g, states, m->state, m->head, m->heads, m->kept_s->ne[1]);
    return vr_gg_ssm_scan(c->g, s, m->x, m->dt, m->a, m->b, m->c, ids);
}

static vr_t scanned(vr_lm_graph *c, ssm *m, vr_t z, int il)
{
    vr_gg *g = c->g;
    vr_t all = vr_lm_build_rs(c, m->kept_s, m->kept_s->ne[0], c->n_seqs, take_scan, m);
    uint64_t n = vr_mul_sat(vr_mul_sat(m->inner, m->state), c->n_seqs), e = all->nb[0];
    uint64_t token = vr_mul_sat(m->inner, e), front = vr_mul_sat(token, c->n_tokens);
    vr_t from = vr_gg_view_1d(g, all, n, front);
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, from, vr_gg_view_1d(g, m->kept_s, n, 0)));
    vr_t y = vr_gg_view_4d(g, all, m->head, m->heads, c->n_seq_tokens, c->n_seqs, vr_mul_sat(m->head, e),
                           token, vr_mul_sat(token, c->n_seq_tokens), 0);
    vr_t d = vr_gg_reshape_2d(g, vr_lm_w(c, il, "ssm_d"), 1, m->heads);
    y = vr_gg_add(g, y, vr_gg_mul(g, m->x, d));
    y = vr_gg_glu_split(g, vr_gg_cont(g, z), y, VR_GG_SWIGLU);
    return vr_gg_view_3d(g, y, m->inner, c->n_seq_tokens, c->n_seqs, y->nb[2], y->nb[3], 0);
}

static vr_t state_space(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    ssm m;
    if (!ssm_of(c, &m, il))
        return cur;
    uint64_t tokens = c->n_seq_tokens, seqs = c->n_seqs;
    vr_t state = vr_lm_build_rs(c, m.kept_r, m.kept_r->ne[0], seqs, NULL, NULL);
    state = vr_gg_reshape_3d(g, state, m.conv - 1, m.inner, seqs);
    cur = vr_gg_reshape_3d(g, cur, cur->ne[0], tokens, seqs);
    vr_t zx = vr_gg_permute(g, vr_lm_bare_mm(c, il, "ssm_in", cur), 0, 2, 1, 3);
    zx = vr_gg_cont_4d(g, zx, vr_mul_sat(m.head, 2), m.heads, tokens, seqs);
    vr_t x = vr_gg_view_4d(g, zx, m.head, m.heads, tokens, seqs, zx->nb[1], zx->nb[2], zx->nb[3],
                           vr_mul_sat(m.head, zx->nb[0]));
    x = vr_gg_cont_3d(g, x, m.inner, tokens, seqs);
    vr_t z = vr_gg_view_4d(g, zx, m.head, m.heads, tokens, seqs, zx->nb[1], zx->nb[2], zx->nb[3], 0);
    read_selection(c, &m, convolved(c, &m, state, x, il), il);
    cur = vr_lm_bare_mm(c, il, "ssm_out", scanned(c, &m, z, il));
    return vr_gg_reshape_2d(g, cur, cur->ne[0], vr_mul_sat(tokens, seqs));
}

static vr_t attention(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_t all = vr_lm_bare_mm(c, il, "attn_qkv", cur);
    uint64_t e = all->nb[0], k = vr_mul_sat(l->head_k, e), v = vr_mul_sat(l->head_v, e);
    uint64_t k_at = vr_mul_sat(k, l->n_head), v_at = vr_add_sat(k_at, vr_mul_sat(k, l->n_head_kv));
    vr_lm_qkv x = { vr_gg_view_3d(g, all, l->head_k, l->n_head, c->n_tokens, k, all->nb[1], 0),
                    vr_gg_view_3d(g, all, l->head_k, l->n_head_kv, c->n_tokens, k, all->nb[1], k_at),
                    vr_gg_view_3d(g, all, l->head_v, l->n_head_kv, c->n_tokens, v, all->nb[1], v_at) };
    x.q = vr_lm_rope(c, vr_lm_rms(c, x.q, il, "attn_q_norm"), NULL);
    x.k = vr_lm_rope(c, vr_lm_rms(c, x.k, il, "attn_k_norm"), NULL);
    return vr_lm_attend(c, x, il);
}

static vr_t layer(vr_lm_graph *c, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t cur = vr_lm_rms(c, x, il, "attn_norm");
    cur = c->lm->layers[il].recurrent ? state_space(c, cur, il) : attention(c, cur, il);
    bool early = c->plan->rules.qkv_first != 0; /* rows are chosen before the norm */
    if (early)
        vr_lm_select_rows(c, il, &cur, &x);
    x = vr_gg_add(g, bare_norm(c, cur, il, "post_attention_norm"), x);
    vr_lm_ffn f = vr_lm_ffn_of(c, il, "", VR_LM_SWIGLU, VR_LM_FFN_SEQ);
    f.gate = f.gate_b = f.gate_s = f.up_b = f.up_s = f.down_b = f.down_s = NULL;
    cur = vr_lm_build_ffn(c, vr_lm_rms(c, x, il, "ffn_norm"), &f);
    cur = bare_norm(c, cur, il, "post_ffw_norm");
    if (!early)
        vr_lm_select_rows(c, il, &cur, &x);
    return vr_gg_add(g, cur, x);
}

void vr_lm_build_plamo2(vr_lm_graph *c)
{
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_inp_hybrid(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = layer(c, cur, il);
    vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}
