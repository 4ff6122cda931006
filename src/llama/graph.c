/* SPDX-License-Identifier: MIT
 * A graph in the making: weights and inputs as it reads them, and what it begins and ends with.
 *
 * Source: llama.cpp b10470, src/llama-graph.cpp and the create_tensor calls of src/llama-model.cpp. */
#include "llama/adapted.h"
#include "llama/traits.h"

void vr_lm_broken(vr_lm_graph *c, const char *rule)
{
    if (c->g->broken == NULL)
        c->g->broken = rule;
}

/* ---- weights ---- */

/* Stands for a weight that is not there. */
static vr_t stand_in(vr_lm_graph *c)
{
    vr_lm_broken(c, "a tensor that the architecture needs is not in the file");
    return vr_gg_new_1d(c->g, VR_F32, 1);
}

static bool is_layer(const vr_lm_graph *c, int il)
{
    return il >= 0 && (uint32_t)il < c->lm->n_layer_all;
}

/* The layer of the file where layers are run several times. */
static int of_file(const vr_lm_graph *c, int il)
{
    uint32_t loops = c->lm->loops, each = loops > 1 ? c->lm->n_layer / loops : 0;
    return each > 0 ? il % (int)each : il;
}

/* NULL: llama.cpp does not load it. */
static vr_t placed(vr_lm_graph *c, vr_t *slot, const vr_lm_weight *w, uint8_t buft)
{
    if (buft == VR_GG_NOWHERE)
        return NULL;
    if (*slot == NULL)
        *slot = vr_gg_placed(c->g, NULL, (vr_dtype)w->type, w->ne, buft, true);
    return *slot;
}

vr_t vr_lm_opt(vr_lm_graph *c, int il, const char *name)
{
    if (!is_layer(c, il))
        return NULL;
    /* scales are looked for behind all else, by a layer's number: of one that is run again there is none */
    if (of_file(c, il) != il && vr_str_ends(vr_str_of(name), ".scale"))
        return NULL;
    il = of_file(c, il);
    const vr_lm_weight *w = vr_lm_find(c->lm, (uint32_t)il, name);
    if (w == NULL)
        return NULL;
    size_t at = (size_t)(w - c->lm->layers[il].weights);
    return placed(c, &c->layer_weights[il][at], w, c->plan->weight_buft[il][at]);
}

vr_t vr_lm_w(vr_lm_graph *c, int il, const char *name)
{
    vr_t t = vr_lm_opt(c, il, name);
    return t != NULL ? t : stand_in(c);
}

vr_t vr_lm_outside_opt(vr_lm_graph *c, const char *name)
{
    const vr_lm_weight *w = vr_lm_find_outside(c->lm, name);
    if (w == NULL)
        return NULL;
    size_t at = (size_t)(w - c->lm->outside);
    return placed(c, &c->outside_weights[at], w, c->plan->outside_buft[at]);
}

vr_t vr_lm_outside(vr_lm_graph *c, const char *name)
{
    vr_t t = vr_lm_outside_opt(c, name);
    return t != NULL ? t : stand_in(c);
}

vr_t vr_lm_head(vr_lm_graph *c)
{
    const vr_lm_weight *w = vr_lm_find_outside(c->lm, "output.weight");
    if (w == NULL)
        w = vr_lm_find_outside(c->lm, "token_embd.weight");
    vr_t t = w != NULL ? placed(c, &c->head, w, c->plan->head_buft) : NULL;
    return t != NULL ? t : stand_in(c);
}

vr_t vr_lm_shared(vr_lm_graph *c, int il, const char *name)
{
    const vr_lm_weight *w = vr_lm_find_outside(c->lm, name);
    if (w == NULL || !is_layer(c, il))
        return NULL;
    uint8_t buft = vr_lm_plain_buft(c->plan, (uint32_t)of_file(c, il));
    if (buft >= c->plan->machine.n_bufts)
        return NULL;
    size_t row = (size_t)(w - c->lm->outside) * c->plan->machine.n_bufts;
    return placed(c, &c->copies[row + buft], w, buft);
}

/* ---- inputs ---- */

/* CodeShell's files may have them once, as the head. */
static vr_t embeddings(vr_lm_graph *c)
{
    vr_t t = vr_lm_outside_opt(c, "token_embd.weight");
    if (t == NULL && vr_str_is(c->lm->name, "codeshell"))
        return vr_lm_head(c);
    return t != NULL ? t : stand_in(c);
}

vr_t vr_lm_inp_embd(vr_lm_graph *c)
{
    vr_gg *g = c->g;
    uint64_t n_embd = c->lm->n_embd;
    uint64_t more = vr_mul_sat(n_embd, c->n_deepstack);
    vr_t tokens = vr_gg_input(g, "inp_tokens", VR_I32, c->n_tokens, 1, 1, 1);
    c->inp_tokens = tokens;
    vr_t table = embeddings(c);
    vr_t cur = vr_lm_adapted_rows(c, table, tokens, vr_gg_get_rows(g, table, tokens));
    if (more > 0)
        cur = vr_gg_pad(g, cur, more, 0, 0, 0);
    /* ggml_build_forward_select: both ways are in the graph, whichever the batch takes. */
    if (c->plan->rules.embd_input != 0) {
        vr_gg_build_forward_expand(g, cur);
        uint64_t width = vr_add_sat(n_embd, more);
        vr_gg_build_forward_expand(g, vr_gg_input(g, "inp_embd", VR_F32, width, c->n_tokens, 1, 1));
    }
    if (more > 0)
        cur = vr_gg_view_2d(g, cur, n_embd, c->n_tokens, cur->nb[1], 0);
    c->inp_rows = cur;
    if (c->embedding_scaled) {
        if (!vr_gg_is_contiguous(cur))
            cur = vr_gg_cont(g, cur);
        cur = vr_gg_scale(g, cur);
    }
    if (c->plan->rules.embd_early != 0)
        vr_gg_build_forward_expand(g, cur);
    return cur;
}

vr_t vr_lm_inp_pos(vr_lm_graph *c)
{
    if (c->inp_pos == NULL)
        c->inp_pos = vr_gg_input(c->g, "inp_pos", VR_I32, vr_mul_sat(c->n_tokens, c->pos_per_token), 1, 1, 1);
    return c->inp_pos;
}

vr_t vr_lm_inp_out_ids(vr_lm_graph *c)
{
    if (c->inp_out_ids == NULL)
        c->inp_out_ids = vr_gg_input(c->g, "inp_out_ids", VR_I32, c->n_outputs, 1, 1, 1);
    return c->inp_out_ids;
}

vr_t vr_lm_inp_attn_scale(vr_lm_graph *c)
{
    return vr_gg_input(c->g, "attn_scale", VR_F32, 1, 1, c->n_tokens, 1);
}

/* ---- products and norms ---- */

vr_t vr_lm_mm(vr_lm_graph *c, vr_t w, vr_t cur, vr_t scale)
{
    vr_t t = vr_gg_mul_mat(c->g, w, cur);
    return vr_lm_adapted(c, w, cur, NULL, scale != NULL ? vr_gg_mul(c->g, t, scale) : t);
}

vr_t vr_lm_mm_id(vr_lm_graph *c, vr_t w, vr_t cur, vr_t ids, vr_t scale)
{
    vr_gg *g = c->g;
    vr_t t = vr_gg_mul_mat_id(g, w, cur, ids);
    if (scale == NULL)
        return vr_lm_adapted(c, w, cur, ids, t);
    uint64_t n_expert = scale->ne[0];
    vr_t s = vr_gg_reshape_3d(g, scale, 1, n_expert, 1);
    s = vr_gg_repeat_4d(g, s, 1, n_expert, cur->ne[2], 1);
    return vr_lm_adapted(c, w, cur, ids, vr_gg_mul(g, t, vr_gg_get_rows(g, s, ids)));
}

/* A layer's tensor whose name has three parts: "attn_q", "", ".bias". NULL: there is none, or the name is
 * longer than any that llama.cpp gives. */
static vr_t part(vr_lm_graph *c, int il, const char *stem, const char *suffix, const char *end)
{
    char name[64];
    size_t a = strlen(stem), b = strlen(suffix), n = strlen(end);
    if (a + b + n >= sizeof name)
        return NULL;
    memcpy(name, stem, a);
    memcpy(name + a, suffix, b);
    memcpy(name + a + b, end, n + 1);
    return vr_lm_opt(c, il, name);
}

static vr_t needed(vr_lm_graph *c, vr_t t)
{
    return t != NULL ? t : stand_in(c);
}

vr_t vr_lm_linear(vr_lm_graph *c, int il, const char *name, vr_t cur)
{
    vr_t t = vr_lm_mm(c, needed(c, part(c, il, name, "", ".weight")), cur, part(c, il, name, "", ".scale"));
    vr_t bias = part(c, il, name, "", ".bias");
    return bias != NULL ? vr_gg_add(c->g, t, bias) : t;
}

/* Norms would run where the layer before them ran; llama.cpp pins them to their own layer's device
 * (llama_context::graph_get_cb). */
void vr_lm_pin(vr_lm_graph *c, vr_t t, int il)
{
    if (!c->pins || !is_layer(c, il) || (c->n_tokens >= 32 && !c->full_offload))
        return;
    const vr_gg_machine *m = &c->plan->machine;
    for (size_t b = 0; b < m->n_backends; b++) {
        bool own = c->plan->backend_device[b] == c->plan->layer_device[il];
        if (own && m->backends[b].runs(m, (uint8_t)b, t))
            t->backend = (int8_t)b;
    }
}

vr_t vr_lm_build_norm(vr_lm_graph *c, vr_t cur, vr_t w, vr_t b, vr_lm_norm kind, int il)
{
    vr_gg *g = c->g;
    if (kind == VR_LM_NORM) {
        cur = vr_gg_norm(g, cur);
    } else if (kind == VR_LM_NORM_RMS) {
        cur = vr_gg_rms_norm(g, cur);
    } else {
        cur = vr_gg_reshape_3d(g, cur, cur->ne[0], 1, cur->ne[1]);
        cur = vr_gg_group_norm(g, cur);
        cur = vr_gg_reshape_2d(g, cur, cur->ne[0], cur->ne[2]);
    }
    if (w != NULL || b != NULL)
        vr_lm_pin(c, cur, il);
    if (w != NULL)
        cur = vr_gg_mul(g, cur, w);
    return b != NULL ? vr_gg_add(g, cur, b) : cur;
}

vr_t vr_lm_norm_of(vr_lm_graph *c, vr_t cur, int il, const char *name, vr_lm_norm kind)
{
    vr_t w = needed(c, part(c, il, name, "", ".weight"));
    return vr_lm_build_norm(c, cur, w, part(c, il, name, "", ".bias"), kind, il);
}

vr_t vr_lm_ffn_scale(vr_lm_graph *c, int il, const char *name, const char *suffix)
{
    return vr_lm_has(c->lm, VR_LM_BARE_FFN) ? NULL : part(c, il, name, suffix, ".scale");
}

vr_lm_ffn vr_lm_ffn_of(vr_lm_graph *c, int il, const char *suffix, vr_lm_act act, vr_lm_gating gating)
{
    return (vr_lm_ffn){ .up = part(c, il, "ffn_up", suffix, ".weight"),
                        .up_b = part(c, il, "ffn_up", suffix, ".bias"),
                        .up_s = vr_lm_ffn_scale(c, il, "ffn_up", suffix),
                        .gate = part(c, il, "ffn_gate", suffix, ".weight"),
                        .gate_b = part(c, il, "ffn_gate", suffix, ".bias"),
                        .gate_s = vr_lm_ffn_scale(c, il, "ffn_gate", suffix),
                        .down = needed(c, part(c, il, "ffn_down", suffix, ".weight")),
                        .down_b = part(c, il, "ffn_down", suffix, ".bias"),
                        .down_s = vr_lm_ffn_scale(c, il, "ffn_down", suffix),
                        .act = act,
                        .gating = gating };
}

/* ---- turning ---- */

vr_t vr_lm_rope(vr_lm_graph *c, vr_t x, vr_t factors)
{
    return vr_gg_rope(c->g, x, vr_lm_inp_pos(c), factors);
}

vr_t vr_lm_rope_factors(vr_lm_graph *c, int il)
{
    vr_t t = vr_lm_shared(c, il, "rope_freqs.weight");
    if (t != NULL)
        return t;
    uint64_t trained = vr_lm_number(c->lm, "rope.scaling.original_context_length", c->lm->n_ctx_train);
    bool longer = c->plan->n_ctx_seq > trained;
    return vr_lm_shared(c, il, longer ? "rope_factors_long.weight" : "rope_factors_short.weight");
}

/* ---- the end ---- */

void vr_lm_select_rows(vr_lm_graph *c, int il, vr_t *cur, vr_t *residual)
{
    if (il != (int)c->lm->n_layer - 1)
        return;
    vr_t ids = vr_lm_inp_out_ids(c);
    *cur = vr_gg_get_rows(c->g, *cur, ids);
    if (residual != NULL)
        *residual = vr_gg_get_rows(c->g, *residual, ids);
}

void vr_lm_embd(vr_lm_graph *c, vr_t cur)
{
    c->embd = cur;
    vr_gg_set_output(cur);
}

vr_t vr_lm_head_mm(vr_lm_graph *c, vr_t cur)
{
    cur = vr_lm_mm(c, vr_lm_head(c), cur, vr_lm_outside_opt(c, "output.scale"));
    vr_t bias = c->no_head_bias ? NULL : vr_lm_outside_opt(c, "output.bias");
    return bias != NULL ? vr_gg_add(c->g, cur, bias) : cur;
}

vr_t vr_lm_logit_cap(vr_lm_graph *c, vr_t cur)
{
    cur = vr_gg_scale(c->g, cur);
    cur = vr_gg_unary_of(c->g, cur, VR_GG_TANH);
    return vr_gg_scale(c->g, cur);
}

void vr_lm_logits(vr_lm_graph *c, vr_t cur)
{
    c->logits = cur;
    vr_gg_set_output(cur);
    vr_gg_build_forward_expand(c->g, cur);
}

void vr_lm_finish(vr_lm_graph *c, vr_t cur, vr_lm_norm kind)
{
    vr_t w = vr_lm_outside(c, "output_norm.weight"), b = vr_lm_outside_opt(c, "output_norm.bias");
    cur = vr_lm_build_norm(c, cur, w, b, kind, -1);
    vr_lm_embd(c, cur);
    vr_lm_logits(c, vr_lm_head_mm(c, cur));
}

void vr_lm_fused(vr_lm_graph *c, vr_lm_fused_kind kind, vr_t t, int il)
{
    if (c->n_fused < c->fused_room)
        c->fused[c->n_fused++] = (vr_lm_fused_node){ t, il, kind };
}
