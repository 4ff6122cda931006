/* SPDX-License-Identifier: MIT
 * Architectures whose graphs were held against llama.cpp's own: buffers to the byte, nodes and splits of all
 * recorded runs of small models on one card and on several (tests/llama/facts_cases.py). */
#include "llama/place.h"

static const char *const held[] = {
    "afmoe",
    "apertus",
    "arcee",
    "arctic",
    "arwkv7",
    "baichuan",
    "bailingmoe",
    "bailingmoe2",
    "bert",
    "bitnet",
    "bloom",
    "chameleon",
    "chatglm",
    "codeshell",
    "cogvlm",
    "cohere2",
    "cohere2moe",
    "command-r",
    "dbrx",
    "deci",
    "deepseek",
    "deepseek2",
    "deepseek2-ocr",
    "deepseek32",
    "deepseek4",
    "dots1",
    "dream",
    "ernie4_5",
    "ernie4_5-moe",
    "eurobert",
    "exaone",
    "exaone-moe",
    "exaone4",
    "falcon",
    "falcon-h1",
    "gemma",
    "gemma-embedding",
    "gemma2",
    "gemma3",
    "gemma3n",
    "gemma4",
    "glm-dsa",
    "glm4",
    "glm4moe",
    "gpt-oss",
    "gpt2",
    "gptneox",
    "granite",
    "granitehybrid",
    "granitemoe",
    "grok",
    "grovemoe",
    "hunyuan-dense",
    "hunyuan-moe",
    "hunyuan_vl",
    "hy_v3",
    "internlm2",
    "jais",
    "jais2",
    "jamba",
    "jina-bert-v2",
    "jina-bert-v3",
    "kimi-k3",
    "kimi-linear",
    "laguna",
    "lfm2",
    "lfm2moe",
    "llada",
    "llada-moe",
    "llama",
    "llama-embed",
    "llama4",
    "maincoder",
    "mamba",
    "mamba2",
    "mellum",
    "mimo2",
    "minicpm",
    "minicpm3",
    "minimax-01",
    "minimax-m2",
    "minimax-m3",
    "mistral3",
    "mistral4",
    "modern-bert",
    "mpt",
    "muse-glimmer",
    "nanbeige",
    "nemotron",
    "nemotron_h",
    "nemotron_h_moe",
    "neo-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "olmo",
    "olmo2",
    "olmoe",
    "openelm",
    "orion",
    "paddleocr",
    "pangu-embedded",
    "phi2",
    "phi3",
    "phimoe",
    "plamo",
    "plamo2",
    "plamo3",
    "pockettts",
    "qwen",
    "qwen2",
    "qwen2moe",
    "qwen2vl",
    "qwen3",
    "qwen35",
    "qwen35moe",
    "qwen3moe",
    "qwen3next",
    "qwen3tts",
    "qwen3vl",
    "qwen3vlmoe",
    "refact",
    "rnd1",
    "rwkv6",
    "rwkv7",
    "seed_oss",
    "smallthinker",
    "smollm3",
    "stablelm",
    "starcoder",
    "starcoder2",
    "step35",
    "t5",
    "t5encoder",
    "talkie",
    "xverse",
};

/* Caches and states alone. */
static const char *const kept[] = {
    "codeshell", "glm-dsa", "kimi-k3", "nanbeige", "refact", "t5", "t5encoder"
};

/* Under adapters, and under control vectors (tests/llama/beside_cases.py). */
static const char *const adapted[] = { "deepseek2", "falcon-h1", "gemma3",  "llama",
                                       "phi3",      "qwen3",     "qwen3moe" };
static const char *const controlled[] = { "gemma3", "llama", "phi3", "qwen3", "qwen3moe" };

static bool is_in(vr_str arch, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (vr_str_is(arch, list[i]))
            return true;
    }
    return false;
}

#define IS_IN(arch, list) is_in(arch, list, sizeof(list) / sizeof *(list))

bool vr_lm_kept_held(vr_str arch)
{
    return IS_IN(arch, kept);
}

bool vr_lm_held(vr_str arch)
{
    return IS_IN(arch, held);
}

bool vr_lm_held_under(vr_str arch, const vr_lm_params *p)
{
    return (p->n_adapters == 0 || IS_IN(arch, adapted)) && (!p->control_vector || IS_IN(arch, controlled));
}
