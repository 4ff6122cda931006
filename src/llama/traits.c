/* SPDX-License-Identifier: MIT
 * What architectures do otherwise than most: one row each, read through vr_lm_has.
 *
 * Source: llama.cpp b10470, src/llama-model.cpp (create_memory), src/llama-arch.cpp (llm_arch_is_recurrent,
 * llm_arch_is_hybrid, llm_arch_supports_rs_rollback), src/llama-hparams.cpp (has_kv), src/models/
 * (load_arch_hparams, load_arch_tensors); LOADED_AHEAD: of b10211. */
#include "llama/traits.h"

static const struct {
    const char *arch;
    uint32_t traits;
} rows[] = {
    { "arwkv7", VR_LM_STATES },
    { "bert", VR_LM_FORGETS },
    { "cohere2moe", VR_LM_LOADS_AHEAD | VR_LM_LOADED_AHEAD },
    { "deepseek2", VR_LM_LOADS_AHEAD },
    { "deepseek32", VR_LM_CHOOSES | VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_ONLY_AHEAD },
    { "deepseek4", VR_LM_OWN_CACHE | VR_LM_TAKES_BACK | VR_LM_LOADS_AHEAD },
    { "dream", VR_LM_FORGETS },
    { "eurobert", VR_LM_FORGETS },
    { "falcon-h1", VR_LM_HYBRID },
    { "gemma-embedding", VR_LM_FORGETS },
    { "glm-dsa",
      VR_LM_CHOOSES | VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_LOADED_AHEAD | VR_LM_ONLY_AHEAD },
    { "granitehybrid", VR_LM_HYBRID },
    { "hy_v3", VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_LOADED_AHEAD | VR_LM_ONLY_AHEAD },
    { "jamba", VR_LM_HYBRID },
    { "jina-bert-v2", VR_LM_FORGETS },
    { "jina-bert-v3", VR_LM_FORGETS },
    { "kimi-k3", VR_LM_HYBRID | VR_LM_OWN_CACHE },
    { "kimi-linear", VR_LM_HYBRID | VR_LM_OWN_CACHE | VR_LM_PAIR_DECAY },
    { "lfm2", VR_LM_HYBRID },
    { "lfm2moe", VR_LM_HYBRID },
    { "llada", VR_LM_FORGETS },
    { "llada-moe", VR_LM_FORGETS },
    { "mamba", VR_LM_STATES },
    { "mamba2", VR_LM_STATES },
    { "mimo2", VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_ONLY_AHEAD },
    { "minimax-01", VR_LM_HYBRID | VR_LM_OWN_CACHE | VR_LM_PAIR_DECAY | VR_LM_CUTS_AHEAD },
    { "minimax-m3", VR_LM_CHOOSES },
    { "mistral4", VR_LM_LOADS_AHEAD },
    { "modern-bert", VR_LM_FORGETS },
    { "nemotron_h", VR_LM_HYBRID | VR_LM_TAKES_BACK | VR_LM_LOADS_AHEAD },
    { "nemotron_h_moe", VR_LM_HYBRID | VR_LM_TAKES_BACK | VR_LM_LOADS_AHEAD | VR_LM_ONLY_AHEAD },
    { "neo-bert", VR_LM_FORGETS },
    { "nomic-bert", VR_LM_FORGETS },
    { "nomic-bert-moe", VR_LM_FORGETS },
    { "plamo2", VR_LM_HYBRID },
    { "qwen35", VR_LM_HYBRID | VR_LM_TAKES_BACK | VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_LOADED_AHEAD |
                    VR_LM_ONLY_AHEAD },
    { "qwen35moe", VR_LM_HYBRID | VR_LM_TAKES_BACK | VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD |
                       VR_LM_LOADED_AHEAD | VR_LM_ONLY_AHEAD },
    { "qwen3next", VR_LM_HYBRID | VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_ONLY_AHEAD },
    { "rnd1", VR_LM_FORGETS },
    { "rwkv6", VR_LM_STATES },
    { "rwkv6qwen2", VR_LM_STATES },
    { "rwkv7", VR_LM_STATES },
    { "step35", VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_LOADED_AHEAD | VR_LM_ONLY_AHEAD },
    { "t5", VR_LM_OWN_CACHE },
    { "t5encoder", VR_LM_OWN_CACHE },
};

uint32_t vr_lm_traits_of(vr_str arch)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (vr_str_is(arch, rows[i].arch))
            return rows[i].traits;
    }
    return 0;
}

bool vr_lm_has(const vr_lm *lm, uint32_t any_of)
{
    return (lm->traits & any_of) != 0;
}
