/* SPDX-License-Identifier: MIT
 * Layers behind the last that predict further tokens (NextN, MTP). Without a draft of their own they are
 * passed over, but for tensors that the loader does not mark so.
 *
 * Source: llama.cpp b10470, src/models/ (load_arch_tensors), src/llama-model.cpp
 * (create_tensor_gate_up_exps); before b10212 some architectures loaded all of such layers. */
#include "llama/place.h"

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

/* Others pass over them in any case. */
static bool loads_when_asked(vr_str arch)
{
    static const char *const names[] = { "qwen3next",      "qwen35",     "qwen35moe", "step35",
                                         "mimo2",          "hy_v3",      "deepseek2", "mistral4",
                                         "glm-dsa",        "deepseek32", "deepseek4", "nemotron_h",
                                         "nemotron_h_moe", "cohere2moe", NULL };
    return is_one_of(arch, names);
}

bool vr_lm_loaded(const vr_lm *lm, const vr_lm_params *p, const vr_lm_rules *r, uint32_t il, vr_str name)
{
    static const char *const whole[] = { "cohere2moe", "glm-dsa", "hy_v3", "qwen35",
                                         "qwen35moe",  "step35",  NULL };
    if (il < lm->n_layer || (p->load_mtp && loads_when_asked(lm->name)))
        return true;
    if (r->build < SKIPPED_FROM && is_one_of(lm->name, whole))
        return true;
    if (vr_str_is(name, "ffn_gate_up_exps.weight"))
        return r->predict_apart == 0;
    return unmarked(lm->name, name);
}

/* ---- the second context ---- */

/* Of others each layer has keys and values there too, used or not. */
bool vr_lm_predicting_attends(const vr_lm *lm, uint32_t il)
{
    static const char *const alone[] = { "qwen3next", "qwen35", "qwen35moe", "nemotron_h_moe", "step35",
                                         "hy_v3",     "mimo2",  "glm-dsa",   "deepseek32",     NULL };
    return il >= lm->n_layer || !is_one_of(lm->name, alone);
}

uint64_t vr_lm_taken_back(const vr_lm *lm, const vr_lm_params *p)
{
    static const char *const names[] = { "qwen35",     "qwen35moe",      "deepseek4",
                                         "nemotron_h", "nemotron_h_moe", NULL };
    return is_one_of(lm->name, names) ? p->n_rs_seq : 0;
}
