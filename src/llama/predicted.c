/* SPDX-License-Identifier: MIT
 * The second context, of the layers that predict further tokens: what its graphs begin and end with.
 *
 * Source: llama.cpp b10470, src/models/ (graph_mtp), src/llama-graph.cpp (build_sampling),
 * src/llama-sampler.cpp (top_k), common/speculative.cpp (common_speculative_impl_draft_mtp). */
#include "llama/arch.h"
#include "llama/predicted.h"

void vr_lm_select_unless_handed(vr_lm_graph *c, int il, vr_t *cur, vr_t *residual)
{
    if (!c->hands_on)
        vr_lm_select_rows(c, il, cur, residual);
}

void vr_lm_finish_handed(vr_lm_graph *c, vr_t cur)
{
    if (c->hands_on)
        vr_lm_finish_wanted(c, cur);
    else
        vr_lm_finish(c, cur, VR_LM_NORM_RMS);
}

#define LIKELIEST 10 /* tokens of which one is drafted */

static const vr_lm_arch predicted[] = {
#define X(name, function) { name, vr_lm_predict_##function },
    VR_LM_PREDICTED(X)
#undef X
};

const vr_lm_arch *vr_lm_predicted_find(vr_str name)
{
    for (size_t i = 0; i < sizeof predicted / sizeof *predicted; i++) {
        if (vr_str_is(name, predicted[i].name))
            return &predicted[i];
    }
    return NULL;
}

vr_lm_norm vr_lm_predicted_norm(const vr_lm_graph *c)
{
    bool plain =
        vr_str_is(c->lm->name, "cohere2moe") && !vr_lm_nonzero(c, "attention.layer_norm_rms_epsilon");
    return plain ? VR_LM_NORM : VR_LM_NORM_RMS;
}

vr_t vr_lm_predicted_begin(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    int il = (int)c->lm->n_layer;
    bool several = vr_str_is(c->lm->name, "step35") || vr_str_is(c->lm->name, "mimo2") ||
                   vr_str_is(c->lm->name, "hy_v3");
    if (c->lm->n_layer_nextn > 1 && !several)
        vr_lm_broken(c, "llama.cpp stops: of this architecture one layer predicts, and the file has more");
    vr_t own = vr_lm_opt(c, il, "nextn.embed_tokens.weight");
    vr_t table = own != NULL ? own : vr_lm_outside(c, "token_embd.weight");
    c->inp_tokens = vr_gg_input(g, "inp_tokens", VR_I32, c->n_tokens, 1, 1, 1);
    vr_t tokens = vr_gg_get_rows(g, table, c->inp_tokens);
    vr_t rows = vr_gg_input(g, "inp_h", VR_F32, c->lm->n_embd, c->n_tokens, 1, 1);
    vr_lm_norm kind = vr_lm_predicted_norm(c);
    rows = vr_lm_build_norm(c, rows, vr_lm_w(c, il, "nextn.hnorm.weight"), NULL, kind, il);
    tokens = vr_lm_build_norm(c, tokens, vr_lm_w(c, il, "nextn.enorm.weight"), NULL, kind, il);
    return vr_lm_scaled_mm(c, il, "nextn.eh_proj", vr_gg_concat(g, tokens, rows, 0));
}

void vr_lm_predicted_end(vr_lm_graph *c, vr_t cur, vr_lm_wanted wanted)
{
    vr_gg *g = c->g;
    int il = (int)c->lm->n_layer;
    bool cohere = vr_str_is(c->lm->name, "cohere2moe");
    vr_t norm = vr_lm_opt(c, il, "nextn.shared_head_norm.weight");
    if (wanted == VR_LM_WANTED_BEFORE_NORM) {
        cur = vr_gg_get_rows(g, cur, vr_lm_inp_out_ids(c));
        vr_gg_set_output(cur);
    }
    if (norm == NULL && vr_str_is(c->lm->name, "mimo2"))
        norm = vr_lm_opt(c, il, "layer_output_norm.weight");
    norm = norm != NULL ? norm : vr_lm_outside(c, "output_norm.weight");
    bool nemotron = vr_str_is(c->lm->name, "nemotron_h_moe");
    cur = vr_lm_build_norm(c, cur, norm, NULL, nemotron ? VR_LM_NORM : vr_lm_predicted_norm(c), -1);
    if (wanted != VR_LM_WANTED_BEFORE_NORM)
        vr_gg_set_output(cur);
    if (wanted == VR_LM_WANTED_BEHIND_NORM)
        cur = vr_gg_get_rows(g, cur, vr_lm_inp_out_ids(c));
    if (vr_lm_opt(c, il, "nextn.shared_head_head.weight"))
        cur = vr_lm_scaled_mm(c, il, "nextn.shared_head_head", cur);
    else
        cur = vr_lm_mm(c, vr_lm_head(c), cur, cohere ? NULL : vr_lm_outside_opt(c, "output.scale"));
    if (cohere && vr_lm_nonzero(c, "logit_scale"))
        cur = vr_gg_scale(g, cur);
    vr_lm_logits(c, cur);
}

void vr_lm_predicted(vr_lm_graph *c, vr_lm_predicted_block attention, vr_lm_predicted_block ffn,
                     vr_lm_wanted wanted)
{
    vr_gg *g = c->g;
    int il = (int)c->lm->n_layer;
    vr_t cur = vr_lm_predicted_begin(c);
    cur = vr_gg_add(g, attention(c, vr_lm_rms(c, cur, il, "attn_norm"), il), cur);
    cur = vr_gg_add(g, ffn(c, vr_lm_rms(c, cur, il, "ffn_norm"), il), cur);
    vr_lm_predicted_end(c, cur, wanted);
}

void vr_lm_build_sampling(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    if (!c->p->chooses || c->logits == NULL || c->p->split_mode == VR_LM_SPLIT_TENSOR || vr_lm_stopped(c))
        return;
    uint64_t n = c->logits->ne[0], rows = c->logits->ne[1];
    vr_t all = vr_gg_pad(g, c->logits, 0, 1, 0, 0);
    for (uint64_t i = 0; i < c->plan->n_seq_max && !vr_lm_stopped(c); i++) {
        uint64_t row = i < rows ? i : 0;
        vr_t one = vr_gg_view_1d(g, all, n, vr_mul_sat(row, all->nb[1]));
        vr_t logits = vr_gg_reshape_1d(g, one, n);
        vr_t likeliest = vr_gg_top_k(g, logits, LIKELIEST);
        vr_t theirs = vr_gg_get_rows(g, vr_gg_reshape_2d(g, logits, 1, n), likeliest);
        vr_gg_set_output(theirs);
        vr_gg_set_output(likeliest);
        vr_gg_build_forward_expand(g, theirs);
        vr_gg_build_forward_expand(g, likeliest);
    }
}
