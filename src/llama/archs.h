/* SPDX-License-Identifier: MIT
 * Private to the room: the architectures whose graph is known, one function each, in arch_*.c. */
#ifndef VR_LLAMA_ARCHS_H
#define VR_LLAMA_ARCHS_H

#include "llama/graph.h"

/* general.architecture, name of its function; some share one */
#define VR_LM_ARCHS(X)                                                                                       \
    X("apertus", apertus)                                                                                    \
    X("arcee", arcee)                                                                                        \
    X("baichuan", baichuan)                                                                                  \
    X("bailingmoe", bailingmoe)                                                                              \
    X("bailingmoe2", bailingmoe2)                                                                            \
    X("bitnet", bitnet)                                                                                      \
    X("bloom", bloom)                                                                                        \
    X("chameleon", chameleon)                                                                                \
    X("chatglm", chatglm)                                                                                    \
    X("codeshell", starcoder2)                                                                               \
    X("cogvlm", cogvlm)                                                                                      \
    X("cohere2", cohere2)                                                                                    \
    X("command-r", command_r)                                                                                \
    X("dbrx", dbrx)                                                                                          \
    X("deci", deci)                                                                                          \
    X("deepseek", deepseek)                                                                                  \
    X("dots1", bailingmoe2)                                                                                  \
    X("dream", dream)                                                                                        \
    X("ernie4_5", ernie4_5)                                                                                  \
    X("ernie4_5-moe", ernie4_5)                                                                              \
    X("exaone", exaone)                                                                                      \
    X("exaone4", exaone4)                                                                                    \
    X("falcon", falcon)                                                                                      \
    X("gemma", gemma)                                                                                        \
    X("gemma2", gemma2)                                                                                      \
    X("gemma3", gemma3)                                                                                      \
    X("glm4", glm4)                                                                                          \
    X("glm4moe", glm4moe)                                                                                    \
    X("gpt-oss", gpt_oss)                                                                                    \
    X("gpt2", gpt2)                                                                                          \
    X("granite", granite)                                                                                    \
    X("granitemoe", granite)                                                                                 \
    X("grovemoe", grovemoe)                                                                                  \
    X("hunyuan-dense", hunyuan_dense)                                                                        \
    X("hunyuan-moe", hunyuan_moe)                                                                            \
    X("hunyuan_vl", hunyuan_dense)                                                                           \
    X("internlm2", internlm2)                                                                                \
    X("jais", jais)                                                                                          \
    X("jais2", nemotron)                                                                                     \
    X("llada", llada)                                                                                        \
    X("llada-moe", llada_moe)                                                                                \
    X("llama", llama)                                                                                        \
    X("llama-embed", llama_embed)                                                                            \
    X("maincoder", maincoder)                                                                                \
    X("minicpm", minicpm)                                                                                    \
    X("minimax-m2", minimax_m2)                                                                              \
    X("mistral3", mistral3)                                                                                  \
    X("nemotron", nemotron)                                                                                  \
    X("olmo", olmo)                                                                                          \
    X("olmo2", olmo2)                                                                                        \
    X("olmoe", olmoe)                                                                                        \
    X("openelm", openelm)                                                                                    \
    X("orion", orion)                                                                                        \
    X("paddleocr", paddleocr)                                                                                \
    X("pangu-embedded", pangu_embedded)                                                                      \
    X("phi2", phi2)                                                                                          \
    X("phi3", phi3)                                                                                          \
    X("phimoe", phi3)                                                                                        \
    X("plamo", plamo)                                                                                        \
    X("plamo3", plamo3)                                                                                      \
    X("qwen", internlm2)                                                                                     \
    X("qwen2", qwen2)                                                                                        \
    X("qwen2moe", qwen2moe)                                                                                  \
    X("qwen2vl", qwen2vl)                                                                                    \
    X("qwen3", qwen3)                                                                                        \
    X("qwen3moe", qwen3moe)                                                                                  \
    X("qwen3vl", qwen3vl)                                                                                    \
    X("qwen3vlmoe", qwen3vl)                                                                                 \
    X("refact", refact)                                                                                      \
    X("rnd1", rnd1)                                                                                          \
    X("seed_oss", seed_oss)                                                                                  \
    X("smollm3", smollm3)                                                                                    \
    X("stablelm", stablelm)                                                                                  \
    X("starcoder", gpt2)                                                                                     \
    X("starcoder2", starcoder2)                                                                              \
    X("talkie", talkie)                                                                                      \
    X("xverse", internlm2)

#define X(name, function) void vr_lm_build_##function(vr_lm_graph *c);
VR_LM_ARCHS(X)
#undef X

#endif
