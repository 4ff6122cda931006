/* SPDX-License-Identifier: MIT
 * Which tensors ggml's CUDA back end asks to keep, so that it can compute several nodes in one. */
#ifndef VIRTUAL_FUSION_H
#define VIRTUAL_FUSION_H

struct ggml_cgraph;
struct ggml_tensor;

typedef void (*virtual_keep)(void * user, struct ggml_tensor * tensor, struct ggml_tensor * until);

// The graph is one split. Calls `keep` as the back end's graph_optimize would.
void virtual_cuda_keep(struct ggml_cgraph * graph, virtual_keep keep, void * user);

#endif
