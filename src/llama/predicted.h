/* SPDX-License-Identifier: MIT
 * Private to the room: graphs of layers that predict further tokens, one function an architecture. */
#ifndef VR_LLAMA_PREDICTED_H
#define VR_LLAMA_PREDICTED_H

#include "llama/graph.h"

#define VR_LM_PREDICTED(X)                                                                                   \
    X("qwen3next", qwen3next)                                                                                \
    X("qwen35", qwen35)                                                                                      \
    X("qwen35moe", qwen35moe)                                                                                \
    X("step35", step35)                                                                                      \
    X("mimo2", mimo2)                                                                                        \
    X("nemotron_h_moe", nemotron_h_moe)                                                                      \
    X("cohere2moe", cohere2moe)                                                                              \
    X("hy_v3", hy_v3)                                                                                        \
    X("deepseek2", deepseek2)                                                                                \
    X("deepseek32", dsa)                                                                                     \
    X("glm-dsa", dsa)

#define X(name, function) void vr_lm_predict_##function(vr_lm_graph *c);
VR_LM_PREDICTED(X)
#undef X

/* Where rows that are not wanted go. */
typedef enum vr_lm_wanted {
    VR_LM_WANTED_ALREADY,
    VR_LM_WANTED_BEFORE_NORM,
    VR_LM_WANTED_BEHIND_NORM
} vr_lm_wanted;

/* Norms of the architecture's layers. */
vr_lm_norm vr_lm_predicted_norm(const vr_lm_graph *c);
/* From a token and the first context's last rows to what the layer works on. */
vr_t vr_lm_predicted_begin(vr_lm_graph *c);
/* All between and behind them, of a layer with norms before attention and FFN. */
typedef vr_t (*vr_lm_predicted_block)(vr_lm_graph *c, vr_t x, int il);
void vr_lm_predicted(vr_lm_graph *c, vr_lm_predicted_block attention, vr_lm_predicted_block ffn,
                     vr_lm_wanted wanted);
/* Norm and head, the layer's own or the model's. */
void vr_lm_predicted_end(vr_lm_graph *c, vr_t cur, vr_lm_wanted wanted);

#endif
