/* SPDX-License-Identifier: MIT
 * What several arch_*.c files share. */
#include "llama/arch.h"

#include <string.h>

/* "NAME.PART" in `out`; false: it does not fit, and no file has such a name. */
static bool join(char *out, size_t room, const char *name, const char *part)
{
    size_t n = strlen(name), m = strlen(part);
    if (n + m + 2 > room)
        return false;
    memcpy(out, name, n);
    out[n] = '.';
    memcpy(out + n + 1, part, m + 1);
    return true;
}

vr_t vr_lm_part(vr_lm_graph *c, int il, const char *name, const char *part)
{
    char whole[64];
    return join(whole, sizeof(whole), name, part) ? vr_lm_opt(c, il, whole) : NULL;
}

/* A name that is too long is asked for without its part: there is none, and the graph is broken. */
static vr_t weight(vr_lm_graph *c, int il, const char *name)
{
    char whole[64];
    return vr_lm_w(c, il, join(whole, sizeof(whole), name, "weight") ? whole : name);
}

vr_t vr_lm_scaled_mm(vr_lm_graph *c, int il, const char *name, vr_t cur)
{
    return vr_lm_mm(c, weight(c, il, name), cur, vr_lm_part(c, il, name, "scale"));
}

vr_t vr_lm_bare_mm(vr_lm_graph *c, int il, const char *name, vr_t cur)
{
    return vr_gg_mul_mat(c->g, weight(c, il, name), cur);
}

vr_t vr_lm_qkv_mm(vr_lm_graph *c, int il, const char *name, vr_t cur)
{
    return c->plan->rules.qkv_first != 0 ? vr_lm_linear(c, il, name, cur) : vr_lm_bare_mm(c, il, name, cur);
}

vr_t vr_lm_rms(vr_lm_graph *c, vr_t cur, int il, const char *name)
{
    return vr_lm_build_norm(c, cur, weight(c, il, name), NULL, VR_LM_NORM_RMS, il);
}

vr_t vr_lm_norm_whole(vr_lm_graph *c, vr_t x, int il, const char *name)
{
    vr_t flat = vr_gg_reshape_2d(c->g, x, vr_mul_sat(x->ne[0], x->ne[1]), c->n_tokens);
    flat = vr_lm_norm_of(c, flat, il, name, VR_LM_NORM);
    return vr_gg_reshape_3d(c->g, flat, x->ne[0], x->ne[1], c->n_tokens);
}

vr_t vr_lm_bare_ffn(vr_lm_graph *c, vr_t cur, int il, const char *suffix, vr_lm_act act, vr_lm_gating gating)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, suffix, act, gating);
    f.up_b = f.up_s = f.gate_b = f.gate_s = f.down_b = f.down_s = NULL;
    return vr_lm_build_ffn(c, cur, &f);
}

vr_lm_moe vr_lm_bare_moe(vr_lm_graph *c, int il, vr_lm_act act, bool norm_w, vr_lm_gate_fn gating)
{
    vr_lm_moe m = vr_lm_moe_of(c, il, act, norm_w, gating);
    m.gate_inp_b = m.up_b = m.gate_b = m.down_b = m.gate_up_b = NULL;
    m.up_s = m.gate_s = m.down_s = NULL;
    return m;
}

bool vr_lm_flag(const vr_lm_graph *c, const char *key)
{
    return vr_lm_number(c->lm, key, 0) != 0;
}

bool vr_lm_nonzero(const vr_lm_graph *c, const char *key)
{
    double x;
    return vr_lm_float(c->lm, key, &x) && x != 0;
}

bool vr_lm_limited(const vr_lm_graph *c, const char *key, int il)
{
    double limit = 0;
    return vr_lm_float_at(c->lm, key, (uint32_t)il, &limit) && limit > (double)1e-6F;
}

bool vr_lm_stopped(const vr_lm_graph *c)
{
    return c->g->failed || c->g->broken;
}

vr_t vr_lm_attend(vr_lm_graph *c, vr_lm_qkv x, int il)
{
    vr_lm_attention a = { .wo = vr_lm_w(c, il, "attn_output.weight"),
                          .wo_s = vr_lm_opt(c, il, "attn_output.scale"),
                          .q = x.q,
                          .k = x.k,
                          .v = x.v };
    return vr_lm_build_attn(c, &a, il);
}

void vr_lm_inp_hybrid(vr_lm_graph *c)
{
    vr_lm_rs_inp(c);
    vr_lm_inp_attn(c);
    /* with windows the inputs are made without rotations */
    if (c->lm->n_swa > 0)
        c->full.k_rot = c->full.v_rot = c->swa.k_rot = c->swa.v_rot = NULL;
}

void vr_lm_finish_wanted(vr_lm_graph *c, vr_t cur)
{
    cur = vr_lm_build_norm(c, cur, vr_lm_outside(c, "output_norm.weight"), NULL, VR_LM_NORM_RMS, -1);
    vr_gg_set_output(cur); /* what a draft head would start from */
    cur = vr_gg_get_rows(c->g, cur, vr_lm_inp_out_ids(c));
    vr_lm_embd(c, cur);
    vr_lm_logits(c, vr_lm_head_mm(c, cur));
}
