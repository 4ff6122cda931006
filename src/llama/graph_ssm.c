/* SPDX-License-Identifier: MIT
 * State space layers: Mamba-1 and 2.
 *
 * Source: llama.cpp b10470, src/models/mamba-base.cpp. A graph that is only
 * measured is of the whole memory: its first state is the first of the cache, and all are in use. */
#include "llama/arch.h"

/* The widths of a state space layer and what its scan reads. */
typedef struct ssm {
    vr_t kept_r, kept_s;
    uint64_t conv, inner, state, heads, head, groups, channels;
    uint64_t kept, written; /* states of a sequence; those that a graph writes */
    vr_t x, dt, a, b, c;
} ssm;

/* false: the layer keeps no state, which a file that loads does not say. */
static bool find_states(vr_lm_graph *c, ssm *m, int il)
{
    m->kept_r = vr_lm_kept_of(c, il)->r;
    m->kept_s = vr_lm_kept_of(c, il)->s;
    m->kept = c->plan->caches[il].r_kept;
    m->written = c->n_seq_tokens < m->kept ? c->n_seq_tokens : m->kept;
    m->conv = c->lm->ssm_conv;
    m->inner = c->lm->ssm_inner;
    m->state = c->lm->ssm_state;
    if (!m->kept_r || !m->kept_s || m->conv == 0)
        vr_lm_broken(c, "a recurrent layer without a state");
    return !vr_lm_stopped(c);
}

/* Puts the last columns back and returns what the convolution gives: [channels, tokens, sequences]. */
static vr_t convolve(vr_lm_graph *c, const ssm *m, vr_t conv, vr_t x, int il)
{
    vr_gg *g = c->g;
    vr_t row = vr_gg_concat(g, conv, vr_gg_transpose(g, x), 0);
    uint64_t width = vr_mul_sat(m->conv - 1, m->channels);
    for (uint64_t back = 0; back < m->written; back++) {
        vr_t last = vr_gg_view_3d(g, row, m->conv - 1, m->channels, c->n_seqs, row->nb[1], row->nb[2],
                                  vr_mul_sat(c->n_seq_tokens - back, row->nb[0]));
        uint64_t at = vr_mul_sat(vr_mul_sat(back, c->plan->caches[il].r_rows), m->kept_r->nb[1]);
        vr_t to = m->groups ? vr_gg_view_2d(g, m->kept_r, width, c->n_seqs, m->kept_r->nb[1], at)
                            : vr_gg_view_1d(g, m->kept_r, vr_mul_sat(width, c->n_seqs), 0);
        vr_gg_build_forward_expand(g, vr_gg_cpy(g, last, to));
    }
    x = vr_gg_ssm_conv(g, row, vr_lm_w(c, il, "ssm_conv1d.weight"));
    return vr_gg_unary_of(g, vr_gg_add(g, x, vr_lm_w(c, il, "ssm_conv1d.bias")), VR_GG_SILU);
}

static vr_t take_scan(vr_lm_graph *c, vr_t states, vr_t ids, void *with)
{
    const ssm *m = with;
    vr_t s = vr_gg_reshape_4d(c->g, states, m->state, m->head, m->heads, m->kept_s->ne[1]);
    return vr_gg_ssm_scan_kept(c->g, s, m->x, m->dt, m->a, m->b, m->c, ids, m->kept);
}

/* ---- Mamba-1 ---- */

/* A third of x_db as B and C are: [state, 1, tokens, sequences]. */
static vr_t part_of_x(vr_lm_graph *c, const ssm *m, vr_t x_db, uint64_t from)
{
    return vr_gg_view_4d(c->g, x_db, m->state, 1, c->n_seq_tokens, c->n_seqs,
                         vr_mul_sat(m->state, x_db->nb[0]), x_db->nb[1], x_db->nb[2],
                         vr_mul_sat(from, x_db->nb[0]));
}

static vr_t normed(vr_lm_graph *c, vr_t x, vr_t w, int il)
{
    return vr_lm_build_norm(c, x, w, NULL, VR_LM_NORM_RMS, il);
}

/* dt, B and C of x. */
static void read_selection(vr_lm_graph *c, ssm *m, vr_t x, int il)
{
    vr_gg *g = c->g;
    uint64_t rank = c->lm->ssm_rank;
    vr_t x_db = vr_lm_bare_mm(c, il, "ssm_x", x);
    m->dt = vr_gg_view_3d(g, x_db, rank, c->n_seq_tokens, c->n_seqs, x_db->nb[1], x_db->nb[2], 0);
    m->b = part_of_x(c, m, x_db, rank);
    m->c = part_of_x(c, m, x_db, vr_add_sat(rank, m->state));
    vr_t dt_w = vr_lm_opt(c, il, "ssm_dt_norm.weight"), b_w = vr_lm_opt(c, il, "ssm_b_norm.weight");
    vr_t c_w = vr_lm_opt(c, il, "ssm_c_norm.weight");
    if (vr_lm_flag(c, "ssm.dt_b_c_rms") || (dt_w && b_w && c_w)) {
        m->dt = normed(c, m->dt, dt_w, il);
        m->b = normed(c, m->b, b_w, il);
        m->c = normed(c, m->c, c_w, il);
    } else if (c->plan->rules.mamba_flat != 0) {
        m->dt = vr_gg_cont(g, m->dt);
    }
    m->dt = vr_lm_bare_mm(c, il, "ssm_dt", m->dt);
    m->dt = vr_gg_add(g, m->dt, vr_lm_w(c, il, "ssm_dt.bias"));
}

/* From the input projection's two halves to what ssm_out reads. */
static vr_t mamba_scan(vr_lm_graph *c, ssm *m, vr_t x, vr_t z, int il)
{
    vr_gg *g = c->g;
    vr_t skip = x;
    read_selection(c, m, x, il);
    m->x = vr_gg_reshape_4d(g, x, m->head, m->heads, c->n_seq_tokens, c->n_seqs);
    m->a = vr_lm_w(c, il, "ssm_a");
    vr_t y_s = vr_lm_build_rs(c, m->kept_s, m->kept_s->ne[0], c->n_seqs, take_scan, m);

    uint64_t n = vr_mul_sat(vr_mul_sat(m->state, m->inner), c->n_seqs);
    vr_t new_states = vr_gg_view_1d(g, y_s, n, vr_mul_sat(m->x->nb[3], m->x->ne[3]));
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, new_states, vr_gg_view_1d(g, m->kept_s, n, 0)));

    vr_t y = vr_gg_view_3d(g, y_s, m->inner, c->n_seq_tokens, c->n_seqs, m->x->nb[2], m->x->nb[3], 0);
    y = vr_gg_add(g, y, vr_gg_mul(g, skip, vr_lm_w(c, il, "ssm_d")));
    return vr_gg_glu_split(g, vr_gg_cont(g, z), y, VR_GG_SWIGLU);
}

vr_t vr_lm_mamba_layer(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    ssm m = { 0 };
    if (!find_states(c, &m, il))
        return cur;
    m.heads = m.channels = m.inner;
    m.head = 1;
    vr_t conv = vr_lm_build_rs(c, m.kept_r, m.kept_r->ne[0], c->n_seqs, NULL, NULL);
    conv = vr_gg_reshape_3d(g, conv, m.conv - 1, m.inner, c->n_seqs);
    cur = vr_gg_reshape_3d(g, cur, cur->ne[0], c->n_seq_tokens, c->n_seqs);
    vr_t xz = vr_lm_scaled_mm(c, il, "ssm_in", cur);
    vr_t x = vr_gg_view_3d(g, xz, m.inner, xz->ne[1], xz->ne[2], xz->nb[1], xz->nb[2], 0);
    vr_t z = vr_gg_view_3d(g, xz, m.inner, xz->ne[1], xz->ne[2], xz->nb[1], xz->nb[2],
                           vr_mul_sat(m.inner, xz->nb[0]));
    x = convolve(c, &m, conv, x, il);
    cur = vr_lm_scaled_mm(c, il, "ssm_out", mamba_scan(c, &m, x, z, il));
    return vr_gg_reshape_2d(g, cur, cur->ne[0], vr_mul_sat(c->n_seq_tokens, c->n_seqs));
}

/* ---- Mamba-2 ---- */

/* A slice of xBC: [width, n, tokens, sequences]. */
static vr_t part_of_xbc(vr_lm_graph *c, vr_t xbc, uint64_t width, uint64_t n, uint64_t from)
{
    return vr_gg_view_4d(c->g, xbc, width, n, c->n_seq_tokens, c->n_seqs, vr_mul_sat(width, xbc->nb[0]),
                         xbc->nb[1], xbc->nb[2], vr_mul_sat(from, xbc->nb[0]));
}

/* Puts the new states back and returns y: [head, heads, tokens, sequences]. */
static vr_t mamba2_scan(vr_lm_graph *c, ssm *m, int il)
{
    vr_gg *g = c->g;
    m->a = vr_lm_w(c, il, "ssm_a");
    vr_t y_s = vr_lm_build_rs(c, m->kept_s, m->kept_s->ne[0], c->n_seqs, take_scan, m);
    uint64_t width = vr_mul_sat(m->state, m->inner), row = vr_gg_row_size(y_s->type, width);
    vr_t x = m->x;
    vr_t from = vr_gg_view_3d(g, y_s, width, c->n_seqs, m->written, row, vr_mul_sat(row, c->n_seqs),
                              vr_mul_sat(vr_gg_nelements(x), vr_gg_element_size(x)));
    vr_t to = vr_gg_view_3d(g, m->kept_s, width, c->n_seqs, m->written, m->kept_s->nb[1],
                            vr_mul_sat(c->rs_copy->ne[0], vr_gg_row_size(m->kept_s->type, width)), 0);
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, from, to));
    uint64_t token = vr_mul_sat(m->heads, x->nb[1]);
    return vr_gg_view_4d(g, y_s, m->head, m->heads, c->n_seq_tokens, c->n_seqs, x->nb[1], token,
                         vr_mul_sat(c->n_seq_tokens, token), 0);
}

/* The scan's result with its skip and gate, normed by groups where the model does. */
static vr_t mamba2_gated(vr_lm_graph *c, ssm *m, vr_t z, int il)
{
    vr_gg *g = c->g;
    vr_t y = mamba2_scan(c, m, il);
    y = vr_gg_add(g, y, vr_gg_mul(g, m->x, vr_lm_w(c, il, "ssm_d")));
    y = vr_gg_glu_split(g, vr_gg_cont(g, z), y, VR_GG_SWIGLU);
    vr_t w = vr_lm_opt(c, il, "ssm_norm.weight");
    if (w) {
        y = vr_gg_reshape_4d(g, y, m->inner / m->groups, m->groups, c->n_seq_tokens, c->n_seqs);
        y = vr_lm_build_norm(c, y, w, NULL, VR_LM_NORM_RMS, il);
    }
    return c->plan->rules.mamba_flat != 0
               ? vr_gg_reshape_2d(g, y, m->inner, vr_mul_sat(c->n_seq_tokens, c->n_seqs))
               : vr_gg_reshape_3d(g, y, m->inner, c->n_seq_tokens, c->n_seqs);
}

static bool mamba2_widths(vr_lm_graph *c, ssm *m, int il)
{
    if (!find_states(c, m, il))
        return false;
    m->heads = c->lm->ssm_rank;
    m->groups = c->lm->ssm_groups;
    if (m->groups == 0 || m->heads == 0 || m->inner % m->groups || m->inner % m->heads) {
        vr_lm_broken(c, "heads and groups of a state space do not divide its width");
        return false;
    }
    m->head = m->inner / m->heads;
    m->channels = vr_add_sat(m->inner, vr_mul_sat(vr_mul_sat(2, m->groups), m->state));
    return true;
}

vr_t vr_lm_mamba2_layer(vr_lm_graph *c, vr_t cur, int il)
{
    vr_gg *g = c->g;
    ssm m = { 0 };
    if (!mamba2_widths(c, &m, il))
        return cur;
    uint64_t tokens = c->n_seq_tokens, seqs = c->n_seqs;
    vr_t conv = vr_lm_build_rs(c, m.kept_r, m.kept_r->ne[0], seqs, NULL, NULL);
    conv = vr_gg_reshape_3d(g, conv, m.conv - 1, m.channels, seqs);
    bool flat = c->plan->rules.mamba_flat != 0;
    cur = flat ? cur : vr_gg_reshape_3d(g, cur, cur->ne[0], tokens, seqs);
    vr_t all = vr_lm_scaled_mm(c, il, "ssm_in", cur); /* z, x, B, C, dt */
    all = flat ? vr_gg_reshape_3d(g, all, all->ne[0], tokens, seqs) : all;
    uint64_t e = all->nb[0];
    vr_t z = vr_gg_view_4d(g, all, m.head, m.heads, tokens, seqs, vr_mul_sat(m.head, e), all->nb[1],
                           all->nb[2], 0);
    vr_t xbc =
        vr_gg_view_3d(g, all, m.channels, tokens, seqs, all->nb[1], all->nb[2], vr_mul_sat(m.inner, e));
    vr_t dt = vr_gg_view_3d(g, all, m.heads, tokens, seqs, all->nb[1], all->nb[2],
                            vr_mul_sat(vr_add_sat(m.inner, m.channels), e));
    xbc = convolve(c, &m, conv, xbc, il);

    uint64_t bc = vr_mul_sat(m.groups, m.state);
    m.x = part_of_xbc(c, xbc, m.head, m.heads, 0);
    m.b = part_of_xbc(c, xbc, m.state, m.groups, m.inner);
    m.c = part_of_xbc(c, xbc, m.state, m.groups, vr_add_sat(m.inner, bc));
    m.dt = vr_gg_add(g, vr_gg_cont(g, dt), vr_lm_w(c, il, "ssm_dt.bias"));
    cur = vr_lm_scaled_mm(c, il, "ssm_out", mamba2_gated(c, &m, z, il));
    return flat ? cur : vr_gg_reshape_2d(g, cur, cur->ne[0], vr_mul_sat(tokens, seqs));
}
