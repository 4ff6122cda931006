/* SPDX-License-Identifier: MIT
 * What the patched copies of ggml-alloc.c and ggml-backend.cpp tell the recorder (patch.py puts the calls
 * in).
 */
#ifndef TRACE_H
#define TRACE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_tensor;
struct ggml_cgraph;
struct ggml_backend_sched;

/* The graph allocator, on buffer number `buffer` of its list. */
void trace_alloc(const struct ggml_tensor *t, int buffer, int chunk, size_t offset, size_t size);
void trace_reuse(const struct ggml_tensor *t, const struct ggml_tensor *from, int buffer, int chunk,
                 size_t offset);
void trace_extra(const struct ggml_tensor *from, int buffer, int chunk, size_t offset, size_t size);
void trace_free(const struct ggml_tensor *t, int buffer, int chunk, size_t offset, size_t size);

/* The scheduler: before it splits a graph, once per split, when it has split, and buffers it is given. */
void trace_measure(void); /* the next graph is the one whose sizes count */
void trace_graph(struct ggml_backend_sched *sched, struct ggml_cgraph *graph);
void trace_split(int number, const char *backend, int first, int end, struct ggml_tensor **inputs,
                 int n_inputs);
void trace_planned(struct ggml_backend_sched *sched, struct ggml_cgraph *graph, struct ggml_cgraph *planned,
                   const int *node_ids, const int *leaf_ids, void *allocator);
void trace_buffer(const char *type, size_t size);

#ifdef __cplusplus
}
#endif

#endif
