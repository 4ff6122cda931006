/* SPDX-License-Identifier: MIT
 * Private to the room: the architectures whose graph is known, one function each, in arch_*.c. */
#ifndef VR_LLAMA_ARCHS_H
#define VR_LLAMA_ARCHS_H

#include "llama/graph.h"

/* general.architecture, name of its function */
#define VR_LM_ARCHS(X)                                                                                       \
    X("gemma", gemma)                                                                                        \
    X("gemma2", gemma2)                                                                                      \
    X("gemma3", gemma3)                                                                                      \
    X("gpt-oss", gpt_oss)                                                                                    \
    X("llama", llama)                                                                                        \
    X("phi3", phi3)                                                                                          \
    X("qwen2", qwen2)                                                                                        \
    X("qwen2moe", qwen2moe)                                                                                  \
    X("qwen3", qwen3)                                                                                        \
    X("qwen3moe", qwen3moe)

#define X(name, function) void vr_lm_build_##function(vr_lm_graph *c);
VR_LM_ARCHS(X)
#undef X

#endif
