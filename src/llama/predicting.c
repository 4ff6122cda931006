/* SPDX-License-Identifier: MIT
 * Layers behind the last that predict further tokens (NextN, MTP). Without a draft of their own they are
 * passed over, but for tensors that the loader does not mark so.
 *
 * Source: llama.cpp b10470, src/models/ (load_arch_tensors), src/llama-model.cpp
 * (create_tensor_gate_up_exps); before b10212 some architectures loaded all of such layers. */
#include "llama/place.h"
#include "llama/traits.h"

#define SKIPPED_FROM 10212

static bool is_one_of(vr_str name, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (vr_str_is(name, *list))
            return true;
    }
    return false;
}

static bool unmarked_of_experts(vr_str name)
{
    static const char *const names[] = {
        "ffn_gate.weight",
        "ffn_down.weight",
        "ffn_up.weight",
        "ffn_gate_inp.weight",
        "exp_probs_b",
        "exp_probs_b.bias",
        "ffn_down_exps.weight",
        "ffn_gate_shexp.weight",
        "ffn_up_shexp.weight",
        "ffn_down_shexp.weight",
        NULL,
    };
    return is_one_of(name, names);
}

static bool unmarked_head(vr_str name)
{
    static const char *const names[] = { "nextn.embed_tokens.weight", "nextn.shared_head_head.weight",
                                         "nextn.shared_head_norm.weight", NULL };
    return is_one_of(name, names);
}

static bool unmarked(vr_str arch, vr_str name)
{
    static const char *const step[] = { "attn_q_norm.weight",   "attn_k_norm.weight", "attn_gate.weight",
                                        "ffn_gate_exps.weight", "ffn_up_exps.weight", NULL };
    if (vr_str_is(arch, "step35"))
        return is_one_of(name, step) || unmarked_of_experts(name) || unmarked_head(name);
    if (vr_str_is(arch, "hy_v3"))
        return unmarked_of_experts(name) || unmarked_head(name);
    if (vr_str_is(arch, "cohere2moe"))
        return unmarked_head(name);
    if (vr_str_is(arch, "deepseek32") || vr_str_is(arch, "glm-dsa"))
        return vr_str_is(name, "exp_probs_b.bias");
    return false;
}

bool vr_lm_loaded(const vr_lm *lm, const vr_lm_params *p, const vr_lm_rules *r, uint32_t il, vr_str name)
{
    if (il < lm->n_layer || (p->load_mtp && vr_lm_has(lm, VR_LM_LOADS_AHEAD)))
        return true;
    if (r->build < SKIPPED_FROM && vr_lm_has(lm, VR_LM_LOADED_AHEAD))
        return true;
    if (vr_str_is(name, "ffn_gate_up_exps.weight"))
        return r->predict_apart == 0;
    return unmarked(lm->name, name);
}

/* ---- the second context ---- */

bool vr_lm_predicting_attends(const vr_lm *lm, uint32_t il)
{
    return il >= lm->n_layer || !vr_lm_has(lm, VR_LM_ONLY_AHEAD);
}
