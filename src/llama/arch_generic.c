/* SPDX-License-Identifier: MIT
 * Architectures that are not known here: a plain decoder of what the names of the file's tensors say. Most
 * new models differ from others in where their norms stand and in numbers, which hardly shows in the buffers;
 * a layer with a tensor of another name is not guessed at. What comes out is near, never exact: how near is
 * measured on the architectures that are known (tests/llama/generic_cases.py). */
#include "llama/arch.h"
#include "llama/generic.h"
#include "llama/mla.h"

/* ---- what is understood ---- */

/* Without ".weight", ".bias" and ".scale". */
static const char *const of_layers[] = {
    "attn_norm",
    "attn_norm_2",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_qkv",
    "attn_output",
    "attn_q_norm",
    "attn_k_norm",
    "attn_sinks",
    "attn_gate",
    "attn_sub_norm",
    "attn_rot_embd",
    "attn_q_a",
    "attn_q_a_norm",
    "attn_q_b",
    "attn_kv_a_mqa",
    "attn_kv_a_norm",
    "attn_kv_b",
    "attn_k_b",
    "attn_v_b",
    "ffn_norm",
    "ffn_sub_norm",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
    "ffn_gate_inp",
    "ffn_gate_exps",
    "ffn_up_exps",
    "ffn_down_exps",
    "ffn_gate_up_exps",
    "ffn_gate_shexp",
    "ffn_up_shexp",
    "ffn_down_shexp",
    "ffn_gate_inp_shexp",
    "exp_probs_b",
    "attn_output_norm",
    "post_attention_norm",
    "post_ffw_norm",
    "layer_output_scale",
    "layer_output_norm",
};
static const char *const outside[] = {
    "token_embd",  "token_embd_norm", "position_embd",     "output",
    "output_norm", "rope_freqs",      "rope_factors_long", "rope_factors_short",
};

static vr_str stem_of(vr_str name)
{
    static const char *const ends[] = { ".weight", ".bias", ".scale" };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(ends[i]);
        if (name.n > n && memcmp(name.s + name.n - n, ends[i], n) == 0)
            return (vr_str){ name.s, name.n - n };
    }
    return name;
}

static bool is_one_of(vr_str name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (vr_str_is(name, list[i]))
            return true;
    }
    return false;
}

static bool has(const vr_lm *lm, uint32_t il, const char *name)
{
    return vr_lm_find(lm, il, name) != NULL;
}

static const char *why_not_layer(const vr_lm *lm, uint32_t il)
{
    const vr_lm_layer *l = &lm->layers[il];
    bool attends =
        has(lm, il, "attn_q.weight") || has(lm, il, "attn_qkv.weight") || has(lm, il, "attn_kv_a_mqa.weight");
    bool feeds = has(lm, il, "ffn_down.weight") || has(lm, il, "ffn_down_exps.weight");
    for (size_t i = 0; i < l->n_weights; i++) {
        if (!is_one_of(stem_of(l->weights[i].name), of_layers, sizeof of_layers / sizeof *of_layers))
            return "the architecture is not known here, and its layers have parts that others do not have";
    }
    if (!attends || !feeds || !has(lm, il, "attn_output.weight"))
        return "the architecture is not known here, and not each of its layers attends and feeds forward";
    return NULL;
}

const char *vr_lm_not_generic(const vr_lm *lm)
{
    for (size_t i = 0; i < lm->n_outside; i++) {
        if (!is_one_of(stem_of(lm->outside[i].name), outside, sizeof outside / sizeof *outside))
            return "the architecture is not known here, and it has parts that others do not have";
    }
    if (vr_lm_number(lm, "pooling_type", 0) != 0)
        return "the architecture is not known here, and it gives embeddings";
    if (!lm->causal)
        return "the architecture is not known here, and its tokens see those behind them";
    for (uint32_t il = 0; il < lm->n_layer; il++) {
        const char *why = why_not_layer(lm, il);
        if (why != NULL)
            return why;
    }
    return NULL;
}

/* ---- norms ---- */

static vr_lm_norm kind_of(const vr_lm *lm)
{
    double x;
    bool plain = vr_lm_float(lm, "attention.layer_norm_epsilon", &x) &&
                 !vr_lm_float(lm, "attention.layer_norm_rms_epsilon", &x);
    return plain || vr_lm_find_outside(lm, "output_norm.bias") != NULL ? VR_LM_NORM : VR_LM_NORM_RMS;
}

/* Where the layer has such a norm, with ".weight" behind its name or without. */
static vr_t norm_if(vr_lm_graph *c, vr_t cur, int il, const char *name)
{
    vr_t w = vr_lm_part(c, il, name, "weight");
    if (w == NULL)
        w = vr_lm_opt(c, il, name);
    return w != NULL ? vr_lm_build_norm(c, cur, w, vr_lm_part(c, il, name, "bias"), kind_of(c->lm), il) : cur;
}

static bool there(vr_lm_graph *c, int il, const char *name)
{
    return vr_lm_part(c, il, name, "weight") != NULL || vr_lm_opt(c, il, name) != NULL;
}

/* ---- attention ---- */

static vr_t heads(vr_lm_graph *c, vr_t x, uint64_t head, uint64_t n)
{
    return vr_gg_reshape_3d(c->g, x, head, n, c->n_tokens);
}

/* A norm of each head, or of all of them as one row. */
static vr_t normed_heads(vr_lm_graph *c, vr_t x, int il, const char *name)
{
    vr_t w = vr_lm_part(c, il, name, "weight");
    if (w == NULL || w->ne[0] == x->ne[0])
        return norm_if(c, x, il, name);
    uint64_t head = x->ne[0], n = x->ne[1];
    if (w->ne[0] != vr_mul_sat(head, n)) {
        vr_lm_broken(c, "a norm of queries or keys of another width than theirs");
        return x;
    }
    if (!vr_gg_is_contiguous(x))
        x = vr_gg_cont(c->g, x);
    x = norm_if(c, vr_gg_reshape_2d(c->g, x, w->ne[0], c->n_tokens), il, name);
    return heads(c, x, head, n);
}

static bool turns(const vr_lm_graph *c)
{
    return vr_lm_find_outside(c->lm, "position_embd.weight") == NULL && !c->alibi;
}

static vr_lm_qkv turned(vr_lm_graph *c, vr_lm_qkv x, int il)
{
    if (!turns(c))
        return x;
    vr_t factors = vr_lm_rope_factors(c, il);
    x.q = vr_lm_rope(c, x.q, factors);
    x.k = vr_lm_rope(c, x.k, factors);
    return x;
}

/* Queries with a gate for each of their elements behind each head. */
static vr_lm_qkv with_gates(vr_lm_graph *c, vr_t cur, int il, vr_t *gate)
{
    vr_gg *g = c->g;
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_t both = vr_lm_linear(c, il, "attn_q", cur);
    uint64_t e = vr_gg_element_size(both), row = vr_mul_sat(2 * (uint64_t)l->head_k, e);
    uint64_t all = vr_mul_sat(row, l->n_head);
    vr_t q = vr_gg_view_3d(g, both, l->head_k, l->n_head, c->n_tokens, row, all, 0);
    vr_t rest = vr_gg_view_3d(g, both, l->head_k, l->n_head, c->n_tokens, row, all, vr_mul_sat(l->head_k, e));
    *gate = vr_gg_cont_2d(g, rest, vr_mul_sat(l->head_k, l->n_head), c->n_tokens);
    return (vr_lm_qkv){ .q = q,
                        .k = heads(c, vr_lm_linear(c, il, "attn_k", cur), l->head_k, l->n_head_kv),
                        .v = heads(c, vr_lm_linear(c, il, "attn_v", cur), l->head_v, l->n_head_kv) };
}

/* Values that are no tensor of their own are the keys. */
static vr_lm_qkv keys_twice(vr_lm_graph *c, vr_t cur, int il)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    vr_t k = heads(c, vr_lm_linear(c, il, "attn_k", cur), l->head_k, l->n_head_kv);
    return (vr_lm_qkv){ heads(c, vr_lm_linear(c, il, "attn_q", cur), l->head_k, l->n_head), k, k };
}

static vr_t gated(vr_lm_graph *c, vr_t out, vr_t gate, int il)
{
    vr_gg *g = c->g;
    uint64_t n = c->lm->layers[il].n_head;
    gate = vr_gg_unary_of(g, gate, VR_GG_SIGMOID);
    if (gate->ne[0] != n || n == 0)
        return vr_gg_mul(g, out, gate);
    uint64_t width = out->ne[0];
    out = vr_gg_mul(g, heads(c, out, width / n, n), heads(c, gate, 1, n));
    return vr_gg_reshape_2d(g, out, width, c->n_tokens);
}

static vr_lm_qkv read_heads(vr_lm_graph *c, vr_t cur, int il, vr_t *gate)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    const vr_lm_weight *q = vr_lm_find(c->lm, (uint32_t)il, "attn_q.weight");
    if (q == NULL)
        return vr_lm_qkv_of(c, cur, il);
    if (q->ne[1] == vr_mul_sat(2, vr_mul_sat(l->head_k, l->n_head)))
        return with_gates(c, cur, il, gate);
    return there(c, il, "attn_v") ? vr_lm_qkv_of(c, cur, il) : keys_twice(c, cur, il);
}

static vr_t attention(vr_lm_graph *c, vr_t cur, int il)
{
    vr_t gate = there(c, il, "attn_gate") ? vr_lm_linear(c, il, "attn_gate", cur) : NULL;
    vr_lm_qkv x = read_heads(c, cur, il, &gate);
    x.q = normed_heads(c, x.q, il, "attn_q_norm");
    x.k = normed_heads(c, x.k, il, "attn_k_norm");
    x = turned(c, x, il);
    bool between = gate != NULL || there(c, il, "attn_sub_norm");
    vr_lm_attention a = { .sinks = vr_lm_opt(c, il, "attn_sinks.weight"), .q = x.q, .k = x.k, .v = x.v };
    if (!between) {
        a.wo = vr_lm_w(c, il, "attn_output.weight");
        a.wo_b = vr_lm_opt(c, il, "attn_output.bias");
        a.wo_s = vr_lm_opt(c, il, "attn_output.scale");
        return vr_lm_build_attn(c, &a, il);
    }
    cur = norm_if(c, vr_lm_build_attn(c, &a, il), il, "attn_sub_norm");
    return vr_lm_linear(c, il, "attn_output", gate != NULL ? gated(c, cur, gate, il) : cur);
}

static vr_t latent_attention(vr_lm_graph *c, const vr_lm_mla *m, vr_t cur, int il)
{
    vr_t q = cur;
    if (there(c, il, "attn_q_a"))
        q = norm_if(c, vr_lm_bare_mm(c, il, "attn_q_a", q), il, "attn_q_a_norm");
    q = vr_lm_bare_mm(c, il, there(c, il, "attn_q_b") ? "attn_q_b" : "attn_q", q);
    vr_lm_halves h = vr_lm_mla_halves(c, m, q, cur, il, true);
    if (!m->absorbed)
        return vr_lm_attend(c, vr_lm_mla_whole(c, m, &h, il), il);
    vr_lm_attention a = vr_lm_mla_absorbed(c, m, &h, il);
    return vr_lm_build_attn(c, &a, il);
}

/* ---- feed forward ---- */

/* Without a gate of its own it may be the first half of what goes up. */
static vr_lm_act act_of(const vr_lm_ffn *f)
{
    if (f->gate != NULL)
        return VR_LM_SILU;
    bool halves = f->up != NULL && f->down != NULL && f->up->ne[1] == vr_mul_sat(2, f->down->ne[0]);
    return halves ? VR_LM_SWIGLU : VR_LM_GELU;
}

static vr_t dense(vr_lm_graph *c, vr_t cur, int il, const char *suffix)
{
    vr_lm_ffn f = vr_lm_ffn_of(c, il, suffix, VR_LM_SILU, VR_LM_FFN_PAR);
    f.act = act_of(&f);
    if (!there(c, il, "ffn_sub_norm") || suffix[0] != '\0')
        return vr_lm_build_ffn(c, cur, &f);
    f.down = f.down_b = f.down_s = NULL;
    return vr_lm_linear(c, il, "ffn_down", norm_if(c, vr_lm_build_ffn(c, cur, &f), il, "ffn_sub_norm"));
}

static vr_t shared_expert(vr_lm_graph *c, vr_t cur, int il)
{
    vr_t out = dense(c, cur, il, "_shexp");
    if (!there(c, il, "ffn_gate_inp_shexp"))
        return out;
    vr_t gate = vr_lm_bare_mm(c, il, "ffn_gate_inp_shexp", cur);
    return vr_gg_mul(c->g, out, vr_gg_unary_of(c->g, gate, VR_GG_SIGMOID));
}

static vr_t feed(vr_lm_graph *c, vr_t cur, int il)
{
    if (!there(c, il, "ffn_gate_inp"))
        return dense(c, cur, il, "");
    bool chosen_by_sigmoid = there(c, il, "exp_probs_b") || vr_lm_part(c, il, "exp_probs_b", "bias") != NULL;
    vr_lm_gate_fn otherwise = chosen_by_sigmoid ? VR_LM_SIGMOID : VR_LM_SOFTMAX;
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, vr_lm_number(c->lm, "expert_weights_norm", 1) != 0,
                               vr_lm_gating_of(c->lm, otherwise));
    if (m.probs_b == NULL)
        m.probs_b = vr_lm_opt(c, il, "exp_probs_b");
    if (m.gate == NULL && m.gate_up == NULL)
        m.act = VR_LM_RELU_SQR;
    vr_t out = vr_lm_build_moe(c, cur, &m);
    if (there(c, il, "ffn_down_shexp"))
        out = vr_gg_add(c->g, out, shared_expert(c, cur, il));
    /* a dense part beside the experts */
    return there(c, il, "ffn_down") ? vr_gg_add(c->g, out, dense(c, cur, il, "")) : out;
}

/* ---- layers ---- */

/* Behind attention stands a norm of what it gives or, where the feed-forward part has none, that one's. */
static const char *feed_norm(vr_lm_graph *c, int il)
{
    if (there(c, il, "ffn_norm"))
        return "ffn_norm";
    bool behind = there(c, il, "post_ffw_norm") || !there(c, il, "attn_norm");
    return there(c, il, "post_attention_norm") && !behind ? "post_attention_norm" : NULL;
}

static vr_t layer(vr_lm_graph *c, const vr_lm_mla *m, vr_t inp, int il)
{
    vr_gg *g = c->g;
    bool is_latent = there(c, il, "attn_kv_a_mqa"), behind = there(c, il, "post_ffw_norm");
    const char *before = feed_norm(c, il);
    bool parallel =
        before == NULL && !behind && there(c, il, "attn_norm") && !there(c, il, "attn_output_norm");
    vr_t x = norm_if(c, inp, il, "attn_norm");
    vr_t second = there(c, il, "attn_norm_2") ? norm_if(c, inp, il, "attn_norm_2") : x;
    vr_t cur = is_latent ? latent_attention(c, m, second, il) : attention(c, second, il);
    vr_lm_select_rows(c, il, &cur, &inp);
    if (parallel)
        vr_lm_select_rows(c, il, &x, NULL);
    if (before == NULL || strcmp(before, "post_attention_norm") != 0)
        cur = norm_if(c, cur, il, "post_attention_norm");
    if (parallel)
        return vr_gg_add(g, vr_gg_add(g, cur, feed(c, x, il)), inp);
    vr_t attended = norm_if(c, vr_gg_add(g, cur, inp), il, "attn_output_norm");
    cur = feed(c, before != NULL ? norm_if(c, attended, il, before) : attended, il);
    cur = norm_if(c, vr_gg_add(g, norm_if(c, cur, il, "post_ffw_norm"), attended), il, "layer_output_norm");
    vr_t scale = vr_lm_opt(c, il, "layer_output_scale.weight");
    return scale != NULL ? vr_gg_mul(g, cur, scale) : cur;
}

static vr_t embeddings(vr_lm_graph *c)
{
    vr_t cur = vr_lm_inp_embd(c), at = vr_lm_outside_opt(c, "position_embd.weight");
    vr_t w = vr_lm_outside_opt(c, "token_embd_norm.weight");
    if (at != NULL)
        cur = vr_gg_add(c->g, cur, vr_gg_get_rows(c->g, at, vr_lm_inp_pos(c)));
    if (w == NULL)
        return cur;
    return vr_lm_build_norm(c, cur, w, vr_lm_outside_opt(c, "token_embd_norm.bias"), kind_of(c->lm), -1);
}

static void head(vr_lm_graph *c, vr_t cur)
{
    vr_t w = vr_lm_outside_opt(c, "output_norm.weight");
    cur = vr_lm_build_norm(c, cur, w, vr_lm_outside_opt(c, "output_norm.bias"), kind_of(c->lm), -1);
    vr_lm_embd(c, cur);
    cur = vr_lm_head_mm(c, cur);
    vr_lm_logits(c, vr_lm_nonzero(c, "final_logit_softcapping") ? vr_lm_logit_cap(c, cur) : cur);
}

static void build(vr_lm_graph *c)
{
    vr_lm_mla m = { 0 };
    bool latent = c->lm->n_lora_kv != 0 && there(c, 0, "attn_kv_a_mqa");
    if (latent && !vr_lm_mla_of(c, &m))
        return;
    c->alibi = vr_lm_nonzero(c, "attention.max_alibi_bias");
    c->soft_cap = vr_lm_nonzero(c, "attn_logit_softcapping");
    uint64_t sections = 0;
    if (vr_lm_u64(c->lm, "rope.dimension_sections", 1, &sections) && sections > 0)
        c->pos_per_token = 4;
    vr_t cur = embeddings(c);
    if (m.absorbed)
        vr_lm_inp_attn_k(c);
    else
        vr_lm_inp_attn(c);
    for (int il = 0; il < (int)c->lm->n_layer && !vr_lm_stopped(c); il++)
        cur = layer(c, &m, cur, il);
    head(c, cur);
}

const vr_lm_arch vr_lm_arch_generic = { NULL, build };
