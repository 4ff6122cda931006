/* SPDX-License-Identifier: MIT
 * What architectures do otherwise than most: one row each, read through vr_lm_has.
 *
 * Source: llama.cpp b10470, src/llama-model.cpp (create_memory), src/llama-arch.cpp (llm_arch_is_recurrent,
 * llm_arch_is_hybrid, llm_arch_supports_rs_rollback), src/llama-hparams.cpp (has_kv), src/models/
 * (load_arch_hparams, load_arch_tensors, graph); LOADED_AHEAD: of b10211. */
#include "llama/traits.h"

static const struct {
    const char *arch;
    uint32_t traits;
} rows[] = {
    { "arcee", VR_LM_BARE_FFN },
    { "arwkv7", VR_LM_STATES },
    { "baichuan", VR_LM_BARE_FFN },
    { "bailingmoe", VR_LM_BARE_FFN },
    { "bailingmoe2", VR_LM_BARE_FFN },
    { "bert", VR_LM_FORGETS },
    { "bloom", VR_LM_BARE_FFN },
    { "chameleon", VR_LM_BARE_FFN },
    { "chatglm", VR_LM_BARE_FFN },
    { "codeshell", VR_LM_BARE_FFN },
    { "cogvlm", VR_LM_BARE_FFN },
    { "cohere2moe", VR_LM_LOADS_AHEAD | VR_LM_LOADED_AHEAD },
    { "command-r", VR_LM_BARE_FFN },
    { "dbrx", VR_LM_BARE_FFN },
    { "deci", VR_LM_BARE_FFN },
    { "deepseek", VR_LM_BARE_FFN },
    { "deepseek2", VR_LM_LOADS_AHEAD },
    { "deepseek32", VR_LM_CHOOSES | VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_ONLY_AHEAD },
    { "deepseek4", VR_LM_OWN_CACHE | VR_LM_TAKES_BACK | VR_LM_LOADS_AHEAD },
    { "dots1", VR_LM_BARE_FFN },
    { "dream", VR_LM_FORGETS | VR_LM_BARE_FFN },
    { "ernie4_5", VR_LM_BARE_FFN },
    { "ernie4_5-moe", VR_LM_BARE_FFN },
    { "eurobert", VR_LM_FORGETS },
    { "exaone", VR_LM_BARE_FFN },
    { "exaone4", VR_LM_BARE_FFN },
    { "falcon", VR_LM_BARE_FFN },
    { "falcon-h1", VR_LM_HYBRID },
    { "gemma", VR_LM_BARE_FFN },
    { "gemma-embedding", VR_LM_FORGETS },
    { "gemma2", VR_LM_BARE_FFN },
    { "gemma3", VR_LM_BARE_FFN },
    { "glm-dsa",
      VR_LM_CHOOSES | VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_LOADED_AHEAD | VR_LM_ONLY_AHEAD },
    { "glm4", VR_LM_BARE_FFN },
    { "glm4moe", VR_LM_BARE_FFN },
    { "gpt-oss", VR_LM_BARE_FFN },
    { "gpt2", VR_LM_BARE_FFN },
    { "granite", VR_LM_BARE_FFN },
    { "granitehybrid", VR_LM_HYBRID },
    { "granitemoe", VR_LM_BARE_FFN },
    { "grovemoe", VR_LM_BARE_FFN },
    { "hunyuan-dense", VR_LM_BARE_FFN },
    { "hunyuan-moe", VR_LM_BARE_FFN },
    { "hunyuan_vl", VR_LM_BARE_FFN },
    { "hy_v3", VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_LOADED_AHEAD | VR_LM_ONLY_AHEAD },
    { "internlm2", VR_LM_BARE_FFN },
    { "jais", VR_LM_BARE_FFN },
    { "jais2", VR_LM_BARE_FFN },
    { "jamba", VR_LM_HYBRID },
    { "jina-bert-v2", VR_LM_FORGETS },
    { "jina-bert-v3", VR_LM_FORGETS },
    { "kimi-k3", VR_LM_HYBRID | VR_LM_OWN_CACHE },
    { "kimi-linear", VR_LM_HYBRID | VR_LM_OWN_CACHE | VR_LM_PAIR_DECAY },
    { "lfm2", VR_LM_HYBRID },
    { "lfm2moe", VR_LM_HYBRID },
    { "llada", VR_LM_FORGETS | VR_LM_BARE_FFN },
    { "llada-moe", VR_LM_FORGETS | VR_LM_BARE_FFN },
    { "maincoder", VR_LM_BARE_FFN },
    { "mamba", VR_LM_STATES },
    { "mamba2", VR_LM_STATES },
    { "mimo2", VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_ONLY_AHEAD },
    { "minicpm", VR_LM_BARE_FFN },
    { "minimax-01", VR_LM_HYBRID | VR_LM_OWN_CACHE | VR_LM_PAIR_DECAY | VR_LM_CUTS_AHEAD },
    { "minimax-m2", VR_LM_BARE_FFN },
    { "minimax-m3", VR_LM_CHOOSES },
    { "mistral4", VR_LM_LOADS_AHEAD },
    { "modern-bert", VR_LM_FORGETS },
    { "nemotron", VR_LM_BARE_FFN },
    { "nemotron_h", VR_LM_HYBRID | VR_LM_TAKES_BACK | VR_LM_LOADS_AHEAD },
    { "nemotron_h_moe", VR_LM_HYBRID | VR_LM_TAKES_BACK | VR_LM_LOADS_AHEAD | VR_LM_ONLY_AHEAD },
    { "neo-bert", VR_LM_FORGETS },
    { "nomic-bert", VR_LM_FORGETS },
    { "nomic-bert-moe", VR_LM_FORGETS },
    { "olmo", VR_LM_BARE_FFN },
    { "olmo2", VR_LM_BARE_FFN },
    { "olmoe", VR_LM_BARE_FFN },
    { "openelm", VR_LM_BARE_FFN },
    { "orion", VR_LM_BARE_FFN },
    { "paddleocr", VR_LM_BARE_FFN },
    { "pangu-embedded", VR_LM_BARE_FFN },
    { "phi2", VR_LM_BARE_FFN },
    { "phi3", VR_LM_BARE_FFN },
    { "phimoe", VR_LM_BARE_FFN },
    { "plamo", VR_LM_BARE_FFN },
    { "plamo2", VR_LM_HYBRID },
    { "plamo3", VR_LM_BARE_FFN },
    { "qwen", VR_LM_BARE_FFN },
    { "qwen2", VR_LM_BARE_FFN },
    { "qwen2moe", VR_LM_BARE_FFN },
    { "qwen2vl", VR_LM_BARE_FFN },
    { "qwen35", VR_LM_HYBRID | VR_LM_TAKES_BACK | VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_LOADED_AHEAD |
                    VR_LM_ONLY_AHEAD },
    { "qwen35moe", VR_LM_HYBRID | VR_LM_TAKES_BACK | VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD |
                       VR_LM_LOADED_AHEAD | VR_LM_ONLY_AHEAD },
    { "qwen3next", VR_LM_HYBRID | VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_ONLY_AHEAD },
    { "qwen3tts", VR_LM_BARE_FFN },
    { "qwen3vl", VR_LM_BARE_FFN },
    { "qwen3vlmoe", VR_LM_BARE_FFN },
    { "refact", VR_LM_BARE_FFN },
    { "rnd1", VR_LM_FORGETS | VR_LM_BARE_FFN },
    { "rwkv6", VR_LM_STATES },
    { "rwkv6qwen2", VR_LM_STATES },
    { "rwkv7", VR_LM_STATES },
    { "seed_oss", VR_LM_BARE_FFN },
    { "smollm3", VR_LM_BARE_FFN },
    { "stablelm", VR_LM_BARE_FFN },
    { "starcoder", VR_LM_BARE_FFN },
    { "starcoder2", VR_LM_BARE_FFN },
    { "step35", VR_LM_CUTS_AHEAD | VR_LM_LOADS_AHEAD | VR_LM_LOADED_AHEAD | VR_LM_ONLY_AHEAD },
    { "t5", VR_LM_OWN_CACHE },
    { "t5encoder", VR_LM_OWN_CACHE },
    { "xverse", VR_LM_BARE_FFN },
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
