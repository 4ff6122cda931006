/* SPDX-License-Identifier: MIT
 * States of recurrent layers as graphs read them.
 *
 * Source: llama.cpp b10470, src/llama-graph.cpp: build_rs_inp, build_rs, for a context as full as it gets. */
#include "llama/graph.h"

static uint64_t rows_of_states(const vr_lm_graph *c)
{
    for (uint32_t il = 0; il < c->lm->n_layer_all; il++)
        if (c->plan->caches[il].r_width > 0 || c->plan->caches[il].s_width > 0)
            return c->plan->caches[il].r_rows;
    return c->n_seqs;
}

void vr_lm_rs_inp(vr_lm_graph *c)
{
    uint64_t n = rows_of_states(c);
    c->rs_copy = vr_gg_input(c->g, "rs_copy", VR_I32, n, 1, 1, 1);
    c->rs_main = vr_gg_view_1d(c->g, c->rs_copy, c->n_seqs, 0);
    c->rs_extra = vr_gg_view_1d(c->g, c->rs_copy, vr_sub_floor(n, c->n_seqs), vr_mul_sat(c->n_seqs, 4));
}

vr_t vr_lm_build_rs(vr_lm_graph *c, vr_t s, uint64_t width, uint64_t n_seqs, vr_lm_rows rows, void *with)
{
    vr_gg *g = c->g;
    if (s == NULL || c->rs_copy == NULL) {
        vr_lm_broken(c, "a recurrent layer without its state");
        return vr_gg_new_2d(g, VR_F32, width, n_seqs);
    }
    vr_t states = vr_gg_reshape_2d(g, s, width, s->ne[1]);
    /* One state is cleared, to be copied to others that start anew. */
    vr_gg_build_forward_expand(g, vr_gg_scale_inplace(g, vr_gg_view_1d(g, states, width, 0)));
    vr_t out = rows != NULL ? rows(c, states, c->rs_main, with) : vr_gg_get_rows(g, states, c->rs_main);
    vr_gg_build_forward_expand(g, out);
    vr_t extra = vr_gg_get_rows(g, states, c->rs_extra);
    vr_t rest = vr_gg_view_2d(g, s, width, vr_sub_floor(c->rs_copy->ne[0], n_seqs), s->nb[1],
                              vr_mul_sat(n_seqs, s->nb[1]));
    vr_gg_build_forward_expand(g, vr_gg_cpy(g, extra, rest));
    return out;
}
