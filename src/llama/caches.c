/* SPDX-License-Identifier: MIT
 * What each layer keeps of the tokens, and where: keys and values in cells, recurrent states by sequence.
 *
 * Source: llama.cpp b10470, src/llama-model.cpp (create_memory), src/llama-kv-cache.cpp,
 * src/llama-kv-cache-iswa.cpp, src/llama-memory-recurrent.cpp, src/llama-memory-hybrid.cpp,
 * src/llama-hparams.cpp (n_embd_r, n_embd_s, has_kv), src/llama-context.cpp (llama_init_from_model). */
#include "llama/place.h"
#include "llama/traits.h"

/* ---- widths ---- */

static bool latent(const vr_lm *lm)
{
    return lm->n_head_k_mla != 0 && lm->n_head_v_mla != 0;
}

/* n_embd_v_gqa_max: without flash attention values lie transposed, all layers alike. */
static uint64_t widest_values(const vr_lm *lm)
{
    uint64_t most = 0;
    for (uint32_t il = 0; il < lm->n_layer_all; il++) {
        uint64_t width = (uint64_t)lm->layers[il].head_v * lm->layers[il].n_head_kv;
        most = width > most ? width : most;
    }
    return most;
}

/* n_embd_r, n_embd_s: 32-bit floats of a sequence and layer. */
static void state_widths(const vr_lm *lm, uint64_t *r, uint64_t *s)
{
    uint64_t wkv = vr_lm_number(lm, "wkv.head_size", 0), conv = vr_lm_number(lm, "shortconv.l_cache", 0);
    uint64_t kda = vr_lm_number(lm, "kda.head_dim", 0), heads = lm->layers[0].n_head;
    *r = vr_mul_sat(vr_sub_floor(lm->ssm_conv, 1),
                    vr_add_sat(lm->ssm_inner, vr_mul_sat(2, vr_mul_sat(lm->ssm_groups, lm->ssm_state))));
    *s = vr_mul_sat(lm->ssm_state, lm->ssm_inner);
    if (wkv != 0) {
        *r = vr_mul_sat(vr_lm_number(lm, "token_shift_count", 2), lm->n_embd);
        *s = vr_mul_sat(lm->n_embd, wkv);
    } else if (conv != 0) {
        *r = vr_mul_sat(lm->n_embd, conv - 1);
    } else if (kda != 0) {
        *r = vr_mul_sat(3 * (lm->ssm_conv > 0 ? lm->ssm_conv - (uint64_t)1 : 3), vr_mul_sat(heads, kda));
        *s = vr_mul_sat(vr_mul_sat(kda, kda), heads);
    } else if (vr_str_is(lm->name, "minimax-01")) {
        *s = vr_mul_sat(vr_mul_sat(lm->layers[0].head_k, lm->layers[0].head_k), heads);
    }
}

/* ---- keys that choose the tokens to attend to (DSA) ---- */

/* In GLM 5.2 three of four layers take what one before them chose. */
bool vr_lm_chooses_itself(const vr_lm *lm, uint32_t il)
{
    uint64_t types = 0;
    if (!vr_lm_has(lm, VR_LM_CHOOSES) || il >= lm->n_layer)
        return false;
    if (vr_str_is(lm->name, "minimax-m3"))
        return il >= vr_lm_number(lm, "leading_dense_block_count", 0);
    if (!vr_str_is(lm->name, "glm-dsa"))
        return true;
    if (vr_lm_u64(lm, "attention.indexer.types", il, &types))
        return types != 0;
    return lm->n_ctx_train < 1048576 || il < 2 || (il < 78 && (il - 2) % 4 == 0);
}

/* ---- which layers keep what ---- */

/* The model's description may not know what this engine is known to keep. */
static bool worked_out(const vr_lm *lm)
{
    return lm->model->kv_known || vr_lm_has(lm, VR_LM_FORGETS | VR_LM_CHOOSES | VR_LM_OWN_CACHE);
}

/* Heads that predict further tokens have keys and values too, used or not, but in these. */
static bool cuts_predicting(const vr_lm *lm, const vr_lm_rules *r)
{
    return r->predict_apart != 0 || vr_lm_has(lm, VR_LM_CUTS_AHEAD);
}

static bool attends(const vr_lm *lm, const vr_lm_rules *r, uint32_t il)
{
    const vr_lm_layer *l = &lm->layers[il];
    if (vr_lm_has(lm, VR_LM_STATES | VR_LM_FORGETS) || (il >= lm->n_layer && cuts_predicting(lm, r)))
        return false;
    if (vr_str_is(lm->name, "falcon-h1"))
        return true;
    if (vr_str_is(lm->name, "nemotron_h") || vr_str_is(lm->name, "nemotron_h_moe"))
        return !l->recurrent && l->n_ff == 0;
    return !l->recurrent;
}

static bool keeps_state(const vr_lm *lm, uint32_t il)
{
    return il < lm->n_layer && lm->layers[il].recurrent && vr_lm_has(lm, VR_LM_STATES | VR_LM_HYBRID);
}

/* Layers from this one on use an earlier one's cache. */
static uint32_t own_caches(const vr_lm *lm)
{
    uint64_t shared = 0;
    if (vr_str_is(lm->name, "gemma3n"))
        return lm->n_layer_all < 20 ? lm->n_layer_all : 20;
    if (vr_str_is(lm->name, "gemma4"))
        shared = vr_lm_number(lm, "attention.shared_kv_layers", 0);
    return (uint32_t)vr_sub_floor(lm->n_layer_all, shared);
}

/* ---- one layer ---- */

/* Of one vector for all heads, builds before b7832 kept its part that values are made of once more. */
static uint64_t values_of(const vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p,
                          const vr_lm_layer *l)
{
    if (latent(lm) && plan->rules.mla_values == 0)
        return 0;
    return p->flash_attn ? (uint64_t)l->head_v * l->n_head_kv : widest_values(lm);
}

/* ---- keys of several tokens in one (DeepSeek-V4) ---- */

#define CHOSEN_RATIO 4

uint64_t vr_lm_compress_ratio(const vr_lm *lm, uint32_t il)
{
    uint64_t ratio = 0;
    if (!vr_str_is(lm->name, "deepseek4") || !vr_lm_u64(lm, "attention.compress_ratios", il, &ratio))
        return 0;
    return ratio == CHOSEN_RATIO || ratio == VR_LM_LONG_RATIO ? ratio : 0;
}

uint64_t vr_lm_compressed_cells(const vr_lm_plan *plan, uint64_t ratio)
{
    return vr_round_up(vr_round_up(plan->n_ctx_seq, ratio) / ratio, 256);
}

static vr_lm_compressed compressed_of(const vr_lm_plan *plan, uint64_t ratio, uint64_t width, uint64_t head)
{
    uint64_t twice = ratio == CHOSEN_RATIO ? 2 : 1; /* windows overlap */
    return (vr_lm_compressed){ width, vr_lm_compressed_cells(plan, ratio), vr_mul_sat(twice, head),
                               twice * ratio };
}

/* Each sequence has its own, however the context is shared; all layers have a window. */
static void compressed_keys(vr_lm_cache *c, const vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p,
                            uint32_t il)
{
    uint64_t ratio = vr_lm_compress_ratio(lm, il), head = lm->layers[il].head_k;
    uint64_t index = vr_lm_number(lm, "attention.indexer.key_length", 0);
    uint64_t window = vr_lm_number(lm, "attention.sliding_window", 0);
    uint64_t most = vr_round_up(vr_add_sat(window, plan->n_ubatch), 256);
    c->cells = p->swa_full || most > plan->n_ctx_seq ? plan->n_ctx_seq : most;
    c->streams = plan->n_seq_max;
    c->v_width = 0;
    if (ratio != 0)
        c->compressed[0] = compressed_of(plan, ratio, c->k_width, head);
    if (ratio == CHOSEN_RATIO)
        c->compressed[1] = compressed_of(plan, ratio, index, index);
}

static void keys_of(vr_lm_cache *c, const vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p,
                    uint32_t il)
{
    const vr_lm_layer *l = &lm->layers[il];
    c->v_transposed = !p->flash_attn;
    c->k_width = (uint64_t)l->head_k * l->n_head_kv;
    c->v_width = values_of(plan, lm, p, l);
    c->cells = l->swa ? plan->swa_cells : plan->cells;
    c->streams = plan->n_stream;
    if (vr_str_is(lm->name, "deepseek4"))
        compressed_keys(c, plan, lm, p, il);
    if (!vr_lm_chooses_itself(lm, il))
        return;
    c->index_width = vr_lm_number(lm, "attention.indexer.key_length", 0);
    c->index_values = latent(lm) ? 0 : l->head_v;
}

static vr_lm_cache cache_of(const vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p, uint32_t il)
{
    vr_lm_cache c = { .device = p->offload_kqv ? plan->layer_device[il] : VR_LM_HOST };
    uint32_t own = own_caches(lm);
    if (il >= own && own >= 2) {
        uint32_t from = own - (lm->layers[il].swa ? 2 : 1);
        c.reuses = from + 1;
        c.device = p->offload_kqv ? plan->layer_device[from] : VR_LM_HOST;
        return c;
    }
    if (p->predicts ? vr_lm_predicting_attends(lm, il) : attends(lm, &plan->rules, il))
        keys_of(&c, plan, lm, p, il);
    if (keeps_state(lm, il) && !p->predicts) {
        state_widths(lm, &c.r_width, &c.s_width);
        c.r_rows = plan->n_seq_max;
        c.r_kept = vr_add_sat(1, vr_lm_has(lm, VR_LM_TAKES_BACK) ? p->n_rs_seq : 0);
    }
    return c;
}

/* ---- what is refused ---- */

static bool quantised(uint8_t type)
{
    return vr_dtype_block((vr_dtype)type) > 1;
}

/* A graph of one sequence is cut by the sequences of the caches. */
static bool cut_unevenly(const vr_lm *lm, const vr_lm_plan *plan)
{
    uint64_t at_once = plan->n_ctx < plan->n_ubatch ? plan->n_ctx : plan->n_ubatch;
    return plan->rules.decay_alone != 0 && plan->n_stream > 1 && at_once % plan->n_stream != 0 &&
           vr_lm_has(lm, VR_LM_PAIR_DECAY);
}

static const char *refusal_of_widths(const vr_lm *lm, const vr_lm_params *p)
{
    for (uint32_t il = 0; il < lm->n_layer; il++) {
        const vr_lm_layer *l = &lm->layers[il];
        uint64_t k = p->flash_attn ? l->head_k : (uint64_t)l->head_k * l->n_head_kv;
        if (k % vr_dtype_block((vr_dtype)p->type_k) != 0)
            return "the width of a head's keys is no multiple of -ctk's block";
        if (l->head_v % vr_dtype_block((vr_dtype)p->type_v) != 0)
            return "the width of a head's values is no multiple of -ctv's block";
    }
    return NULL;
}

static const char *refusal(const vr_lm *lm, const vr_lm_params *p, const vr_lm_plan *plan)
{
    if (vr_lm_has(lm, VR_LM_STATES))
        return NULL;
    if (latent(lm) && plan->rules.mla == 0)
        return "this build does not load files with attn_k_b and attn_v_b, it looks for attn_kv_b";
    if (cut_unevenly(lm, plan))
        return "this build stops: what it computes at once is no multiple of the sequences";
    if (quantised(p->type_v) && !p->flash_attn)
        return "a quantised V cache needs flash attention (-fa on)";
    if (plan->rules.latent_types != 0 &&
        ((latent(lm) || vr_str_is(lm->name, "deepseek4")) && p->type_k != p->type_v))
        return "the model's keys and values are one vector: -ctk and -ctv must be the same";
    return refusal_of_widths(lm, p);
}

/* Which layers slide was counted out by a period; from v0.5.0 on a list in the file decides. */
static bool lists_otherwise(const vr_lm *lm, const vr_lm_rules *r)
{
    uint64_t slides = 0;
    if (r->predict_apart == 0 || (!vr_str_is(lm->name, "gemma3n") && !vr_str_is(lm->name, "laguna")))
        return false;
    for (uint32_t il = 0; il < lm->n_layer; il++) {
        bool told = vr_lm_u64(lm, "attention.sliding_window_pattern", il, &slides);
        if (told && slides < 2 && (slides != 0) != lm->layers[il].swa)
            return true;
    }
    return false;
}

/* ---- the whole ---- */

vram_status vr_lm_place_caches(vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p, vr_arena *a)
{
    if (plan->refused == NULL)
        plan->refused = refusal(lm, p, plan);
    if (plan->refused != NULL)
        return VRAM_OK;
    if (!lm->model->shape_known)
        plan->caches_unknown = "the file's keys do not say the model's shape";
    else if (!worked_out(lm))
        plan->caches_unknown = "what llama.cpp keeps of the tokens of this architecture is not worked out";
    else if (vr_str_is(lm->name, "deepseek4") && (p->predicts || p->n_rs_seq != 0))
        plan->caches_unknown = "what llama.cpp keeps of this architecture for drafts is not worked out";
    else if (lists_otherwise(lm, &plan->rules))
        plan->caches_unknown = "of this build the file's own list of sliding layers is not followed here";
    plan->copies_cache = p->flash_attn && (p->type_k != VR_F16 || p->type_v != VR_F16);
    plan->caches = VR_ARRAY(a, vr_lm_cache, lm->n_layer_all);
    if (plan->caches == NULL)
        return VRAM_ENOMEM;
    for (uint32_t il = 0; il < lm->n_layer_all && plan->caches_unknown == NULL; il++)
        plan->caches[il] = cache_of(plan, lm, p, il);
    return VRAM_OK;
}
