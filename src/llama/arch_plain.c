/* SPDX-License-Identifier: MIT
 * Architectures that are a row of differences from Llama.
 *
 * Source: llama.cpp b10470, the file of src/models that each function is named after. */
#include "llama/plain.h"

static bool where_it_slides(const vr_lm_graph *c, int il)
{
    return c->lm->n_swa == 0 || c->lm->layers[il].swa;
}

static bool only_where_it_slides(const vr_lm_graph *c, int il)
{
    return c->lm->layers[il].swa;
}

/* Not at every n_no_rope_layer_step-th layer, which is the fourth. */
static bool not_every_fourth(const vr_lm_graph *c, int il)
{
    (void)c;
    return (il + 1) % 4 != 0;
}

/* Positions in sections of a head: time, height, width, nothing. */
static void set_sections(vr_lm_graph *c)
{
    uint64_t first = 0, second = 0;
    bool both = vr_lm_u64(c->lm, "rope.dimension_sections", 0, &first) &&
                vr_lm_u64(c->lm, "rope.dimension_sections", 1, &second);
    if (both && first > 0 && second > 0)
        c->pos_per_token = 4;
}

#define PRE .norm = VR_LM_NORM_RMS, .before = "attn_norm", .ffn = "ffn_norm"
#define PRE_LAYER_NORM .norm = VR_LM_NORM, .before = "attn_norm", .ffn = "ffn_norm"

/* ---- dense ---- */

void vr_lm_build_arcee(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .factors = true, .feed = vr_lm_feed_relu_sqr });
}

static vr_t xielu(vr_lm_graph *c, vr_t cur, int il)
{
    vr_t up = vr_lm_mm(c, vr_lm_w(c, il, "ffn_up.weight"), cur, NULL);
    up = vr_gg_unary_of(c->g, up, VR_GG_XIELU);
    return vr_lm_mm(c, vr_lm_w(c, il, "ffn_down.weight"), up, NULL);
}

void vr_lm_build_apertus(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .factors = true, .feed = xielu });
}

/* The larger model has slopes instead of rope: llama.cpp tells them apart by the number of layers. */
void vr_lm_build_baichuan(vr_lm_graph *c)
{
    bool small = c->lm->n_layer == 32;
    c->alibi = !small;
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .turns = small ? NULL : vr_lm_never });
}

/* Which layers are of experts is told by numbers, whatever tensors there are. */
static vr_t ernie_feed(vr_lm_graph *c, vr_t cur, int il)
{
    uint64_t step = vr_lm_number(c->lm, "interleave_moe_layer_step", 1);
    bool dense = (uint64_t)il < vr_lm_number(c->lm, "leading_dense_block_count", 0) || step == 0 ||
                 ((uint64_t)il + 1) % step != 0;
    if (!dense)
        return vr_lm_feed_experts(c, cur, il);
    vr_lm_ffn nothing = { .act = VR_LM_SILU, .gating = VR_LM_FFN_PAR };
    bool there = vr_lm_opt(c, il, "ffn_down.weight") != NULL;
    return there ? vr_lm_feed_silu(c, cur, il) : vr_lm_build_ffn(c, cur, &nothing);
}

void vr_lm_build_ernie4_5(vr_lm_graph *c)
{
    bool experts = vr_str_is(c->lm->name, "ernie4_5-moe");
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .no_output_bias = true, .feed = experts ? ernie_feed : NULL });
}

void vr_lm_build_exaone(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .factors = true });
}

void vr_lm_build_exaone4(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ .norm = VR_LM_NORM_RMS,
                                         .behind_attention = "post_attention_norm",
                                         .behind_ffn = "post_ffw_norm",
                                         .turns = where_it_slides,
                                         .factors = true });
}

void vr_lm_build_glm4(vr_lm_graph *c)
{
    set_sections(c);
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .behind_attention = "post_attention_norm",
                                         .behind_ffn = "post_ffw_norm", .behind_ffn_is_of = true,
                                         .feed = vr_lm_feed_swiglu });
}

void vr_lm_build_hunyuan_dense(vr_lm_graph *c)
{
    if (vr_str_is(c->lm->name, "hunyuan_vl"))
        set_sections(c);
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .heads = VR_LM_HEADS_TURNED, .factors = true });
}

void vr_lm_build_internlm2(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE });
}

static void temperature(vr_lm_graph *c, vr_lm_qkv *x, int il, vr_t scale)
{
    vr_t factors = vr_lm_rope_factors(c, il);
    x->q = vr_lm_rope(c, x->q, factors);
    x->k = vr_lm_rope(c, x->k, factors);
    if (scale != NULL)
        x->q = vr_gg_mul(c->g, x->q, scale);
}

void vr_lm_build_mistral3(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .queries = temperature,
                                         .attn_scale = vr_lm_nonzero(c, "attention.temperature_scale"),
                                         .feed = vr_lm_feed_experts });
}

void vr_lm_build_nemotron(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE_LAYER_NORM, .feed = vr_lm_feed_relu_sqr });
}

void vr_lm_build_olmo(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ .norm = VR_LM_NORM, .weightless = true });
}

void vr_lm_build_olmo2(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ .norm = VR_LM_NORM_RMS,
                                         .behind_attention = "post_attention_norm",
                                         .behind_ffn = "post_ffw_norm",
                                         .heads = VR_LM_HEADS_WHOLE });
}

void vr_lm_build_orion(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE_LAYER_NORM });
}

void vr_lm_build_qwen2vl(vr_lm_graph *c)
{
    c->pos_per_token = 4;
    c->no_head_bias = true;
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE });
}

void vr_lm_build_seed_oss(vr_lm_graph *c)
{
    vr_lm_plain_build(
        c, &(vr_lm_plain){ .norm = VR_LM_NORM_RMS, .before = "attn_norm", .ffn = "post_attention_norm" });
}

void vr_lm_build_smollm3(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .turns = not_every_fourth });
}

void vr_lm_build_starcoder2(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE_LAYER_NORM, .feed = vr_lm_feed_gelu });
}

/* Absolute positions: learned, one row a token. */
void vr_lm_build_gpt2(vr_lm_graph *c)
{
    vr_t inp = vr_lm_inp_embd(c);
    vr_t rows = vr_gg_get_rows(c->g, vr_lm_outside(c, "position_embd.weight"), vr_lm_inp_pos(c));
    inp = vr_gg_add(c->g, inp, rows);
    vr_lm_plain d = { PRE_LAYER_NORM, .turns = vr_lm_never, .feed = vr_lm_feed_gelu };
    vr_lm_finish(c, vr_lm_plain_layers(c, &d, inp), VR_LM_NORM);
}

void vr_lm_build_bloom(vr_lm_graph *c)
{
    c->alibi = true;
    vr_t w = vr_lm_outside(c, "token_embd_norm.weight"), b = vr_lm_outside_opt(c, "token_embd_norm.bias");
    vr_t inp = vr_lm_build_norm(c, vr_lm_inp_embd(c), w, b, VR_LM_NORM, 0);
    vr_lm_plain d = { PRE_LAYER_NORM, .turns = vr_lm_never, .feed = vr_lm_feed_gelu };
    vr_lm_finish(c, vr_lm_plain_layers(c, &d, inp), VR_LM_NORM);
}

/* ---- experts ---- */

void vr_lm_build_bailingmoe(vr_lm_graph *c)
{
    bool norm_w = vr_lm_number(c->lm, "expert_weights_norm", 0) != 0;
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .factors = true,
                                         .feed = norm_w ? vr_lm_feed_experts : vr_lm_feed_experts_plain });
}

/* Also dots1, whose router is the same. */
void vr_lm_build_bailingmoe2(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .feed = vr_lm_feed_experts_file });
}

void vr_lm_build_dbrx(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ .norm = VR_LM_NORM,
                                         .before = "attn_norm",
                                         .ffn = "attn_output_norm",
                                         .feed = vr_lm_feed_experts });
}

void vr_lm_build_deepseek(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .factors = true, .feed = vr_lm_feed_experts_plain });
}

void vr_lm_build_glm4moe(vr_lm_graph *c)
{
    set_sections(c);
    vr_lm_plain_build(c, &(vr_lm_plain){ .norm = VR_LM_NORM_RMS,
                                         .before = "attn_norm",
                                         .ffn = "post_attention_norm",
                                         .feed = vr_lm_feed_experts_file });
}

void vr_lm_build_hunyuan_moe(vr_lm_graph *c)
{
    vr_lm_plain_build(
        c, &(vr_lm_plain){ PRE, .heads = VR_LM_HEADS_TURNED, .factors = true, .feed = vr_lm_feed_experts });
}

static vr_t minimax_experts(vr_lm_graph *c, vr_t cur, int il)
{
    vr_lm_moe m = vr_lm_moe_of(c, il, VR_LM_SILU, true, vr_lm_gating_of(c->lm, VR_LM_SIGMOID));
    return vr_lm_build_moe(c, cur, &m);
}

void vr_lm_build_minimax_m2(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .heads = VR_LM_HEADS_WHOLE, .feed = minimax_experts });
}

void vr_lm_build_olmoe(vr_lm_graph *c)
{
    vr_lm_plain_build(c, &(vr_lm_plain){ PRE, .heads = VR_LM_HEADS_WHOLE, .feed = vr_lm_feed_experts_plain });
}

/* ---- Granite and MiniCPM: scales everywhere ---- */

static vr_t granite_layers(vr_lm_graph *c, bool residual_scale)
{
    bool turned = vr_lm_number(c->lm, "rope.scaling.finetuned", 1) != 0;
    vr_lm_plain d = { PRE, .turns = turned ? NULL : vr_lm_never, .factors = true,
                      .residual_scale = residual_scale, .feed = vr_lm_feed_experts };
    return vr_lm_plain_layers(c, &d, vr_lm_inp_embd(c));
}

static void scaled_logits(vr_lm_graph *c, vr_t cur, vr_lm_norm norm, bool scaled)
{
    vr_t w = vr_lm_outside(c, "output_norm.weight"), b = vr_lm_outside_opt(c, "output_norm.bias");
    cur = vr_lm_build_norm(c, cur, w, b, norm, -1);
    vr_lm_embd(c, cur);
    cur = vr_lm_head_mm(c, cur);
    vr_lm_logits(c, scaled ? vr_gg_scale(c->g, cur) : cur);
}

void vr_lm_build_granite(vr_lm_graph *c)
{
    c->embedding_scaled = vr_lm_nonzero(c, "embedding_scale");
    vr_t cur = granite_layers(c, vr_lm_nonzero(c, "residual_scale"));
    scaled_logits(c, cur, VR_LM_NORM_RMS, true);
}

void vr_lm_build_minicpm(vr_lm_graph *c)
{
    c->embedding_scaled = true;
    scaled_logits(c, granite_layers(c, true), VR_LM_NORM_RMS, true);
}

/* ---- parallel layers ---- */

static void cohere(vr_lm_graph *c, bool (*turns)(const vr_lm_graph *c, int il))
{
    vr_lm_parallel d = {
        .norm = VR_LM_NORM, .turns = turns, .factors = turns != NULL, .sum = VR_LM_SUM_FED_INPUT_ATTENTION
    };
    vr_t cur = vr_lm_parallel_layers(c, &d, vr_lm_inp_embd(c));
    scaled_logits(c, cur, VR_LM_NORM, vr_lm_nonzero(c, "logit_scale"));
}

void vr_lm_build_command_r(vr_lm_graph *c)
{
    cohere(c, NULL);
}

void vr_lm_build_cohere2(vr_lm_graph *c)
{
    cohere(c, only_where_it_slides);
}

void vr_lm_build_falcon(vr_lm_graph *c)
{
    vr_lm_parallel d = { .norm = VR_LM_NORM, .sum = VR_LM_SUM_FED_ATTENTION_INPUT, .feed = vr_lm_feed_gelu };
    vr_lm_finish(c, vr_lm_parallel_layers(c, &d, vr_lm_inp_embd(c)), VR_LM_NORM);
}

void vr_lm_build_phi2(vr_lm_graph *c)
{
    vr_lm_parallel d = { .norm = VR_LM_NORM, .scaled_queries = true, .feed = vr_lm_feed_gelu };
    vr_lm_finish(c, vr_lm_parallel_layers(c, &d, vr_lm_inp_embd(c)), VR_LM_NORM);
}

void vr_lm_build_plamo(vr_lm_graph *c)
{
    vr_lm_parallel d = { .norm = VR_LM_NORM_RMS, .sum = VR_LM_SUM_FED_ATTENTION_INPUT };
    vr_lm_finish(c, vr_lm_parallel_layers(c, &d, vr_lm_inp_embd(c)), VR_LM_NORM_RMS);
}

/* The larger of these models have no norm between attention and the feed-forward part. */
void vr_lm_build_stablelm(vr_lm_graph *c)
{
    vr_t cur = vr_lm_inp_embd(c);
    vr_lm_plain plain = { PRE_LAYER_NORM };
    vr_lm_parallel parallel = { .norm = VR_LM_NORM, .sum = VR_LM_SUM_FED_TO_ATTENTION_INPUT };
    bool in_turn = vr_lm_opt(c, 0, "ffn_norm.weight") != NULL;
    cur = in_turn ? vr_lm_plain_layers(c, &plain, cur) : vr_lm_parallel_layers(c, &parallel, cur);
    vr_lm_finish(c, cur, VR_LM_NORM);
}
