/* SPDX-License-Identifier: MIT
 * Private to the room: the architectures that are not plain decoders. */
#ifndef VR_LLAMA_ARCHS_MORE_H
#define VR_LLAMA_ARCHS_MORE_H

#include "llama/graph.h"

/* as VR_LM_ARCHS */
#define VR_LM_ARCHS_MORE(X)                                                                                  \
    X("afmoe", afmoe)                                                                                        \
    X("arctic", arctic)                                                                                      \
    X("bert", bert)                                                                                          \
    X("jina-bert-v2", bert)                                                                                  \
    X("jina-bert-v3", bert)                                                                                  \
    X("nomic-bert", bert)                                                                                    \
    X("nomic-bert-moe", bert)                                                                                \
    X("modern-bert", modern_bert)                                                                            \
    X("neo-bert", neo_bert)                                                                                  \
    X("eurobert", eurobert)                                                                                  \
    X("gemma-embedding", gemma_embedding)                                                                    \
    X("mellum", mellum)                                                                                      \
    X("hy_v3", hy_v3)                                                                                        \
    X("mimo2", mimo2)                                                                                        \
    X("step35", step35)                                                                                      \
    X("laguna", laguna)                                                                                      \
    X("smallthinker", smallthinker)                                                                          \
    X("cohere2moe", cohere2moe)                                                                              \
    X("plamo2", plamo2)                                                                                      \
    X("deepseek2-ocr", deepseek2_ocr)                                                                        \
    X("minicpm3", minicpm3)                                                                                  \
    X("mistral4", deepseek2)                                                                                 \
    X("deepseek32", dsa)                                                                                     \
    X("glm-dsa", dsa)                                                                                        \
    X("arwkv7", arwkv7)                                                                                      \
    X("deepseek2", deepseek2)                                                                                \
    X("exaone-moe", exaone_moe)                                                                              \
    X("falcon-h1", falcon_h1)                                                                                \
    X("gemma3n", gemma3n)                                                                                    \
    X("gemma4", gemma4)                                                                                      \
    X("gptneox", gptneox)                                                                                    \
    X("granitehybrid", granitehybrid)                                                                        \
    X("grok", grok)                                                                                          \
    X("jamba", jamba)                                                                                        \
    X("kimi-linear", kimi_linear)                                                                            \
    X("lfm2", lfm2)                                                                                          \
    X("lfm2moe", lfm2moe)                                                                                    \
    X("llama4", llama4)                                                                                      \
    X("mamba", mamba)                                                                                        \
    X("mamba2", mamba2)                                                                                      \
    X("mpt", mpt)                                                                                            \
    X("nemotron_h", nemotron_h)                                                                              \
    X("nemotron_h_moe", nemotron_h)                                                                          \
    X("qwen35", qwen35)                                                                                      \
    X("qwen35moe", qwen35moe)                                                                                \
    X("qwen3next", qwen3next)                                                                                \
    X("rwkv6", rwkv6)                                                                                        \
    X("rwkv6qwen2", rwkv6qwen2)                                                                              \
    X("pockettts", pockettts)                                                                                \
    X("qwen3tts", qwen3vl)                                                                                   \
    X("muse-glimmer", muse_glimmer)                                                                          \
    X("minimax-01", minimax_01)                                                                              \
    X("minimax-m3", minimax_m3)                                                                              \
    X("kimi-k3", kimi_k3)                                                                                    \
    X("deepseek4", deepseek4)                                                                                \
    X("t5", t5)                                                                                              \
    X("t5encoder", t5encoder)                                                                                \
    X("nanbeige", nanbeige)                                                                                  \
    X("rwkv7", rwkv7)

#define X(name, function) void vr_lm_build_##function(vr_lm_graph *c);
VR_LM_ARCHS_MORE(X)
#undef X

#endif
