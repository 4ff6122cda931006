/* SPDX-License-Identifier: MIT
 * A graph of src/ggml as text, a tensor a line, as tests/oracle/llamacpp/recorder.cpp writes llama.cpp's own:
 *
 *   leaf I NAME TYPE [ne] nb[..] FLAGS [weight@BUF|cache@BUF]
 *   node I OP NAME TYPE [ne] nb[..] FLAGS [view=SRC+OFFSET] [..@BUF] src=n3,l7.. be=BACKEND
 *
 * Names that only llama.cpp gives are "-", and sources go without names; flags of kinds that are one here
 * (GELU_QUICK is GELU) too. */
#ifndef VR_TEST_GGML_DUMP_H
#define VR_TEST_GGML_DUMP_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ggml/ggml.h"

static inline const char *dumped_op(const vr_gg_tensor *t)
{
    static const char *const ops[] = {
#define X(id, inplace, view) #id,
        VR_GG_OPS(X)
#undef X
    };
    static const char *const unary[] = { "SILU", "GELU", "RELU", "SIGMOID", "TANH",  "EXP",  "SOFTPLUS",
                                         "NEG",  "ABS",  "SGN",  "STEP",    "ROUND", "XIELU" };
    static const char *const glu[] = { "REGLU", "GEGLU", "SWIGLU", "SWIGLU_OAI" };
    if (t->op == VR_GG_UNARY)
        return unary[t->detail];
    return t->op == VR_GG_GLU ? glu[t->detail] : ops[t->op];
}

static inline const char *dumped_buft(const vr_gg_machine *m, uint8_t buft)
{
    for (size_t b = 0; b + 1 < m->n_backends; b++) {
        if (m->backends[b].buft == buft)
            return m->backends[b].name;
    }
    if (m->bufts[buft].repacked)
        return "CPU_REPACK";
    return m->n_backends > 1 && m->backends[m->n_backends - 1].buft == buft ? "CUDA_Host" : "CPU";
}

static inline void dump_label(FILE *out, const vr_gg *g, const int64_t *place, const vr_gg_tensor *t)
{
    int64_t at = place[t->id];
    if (at == 0)
        fputs("?", out); /* no part of the graph */
    else
        fprintf(out, "%c%" PRId64, at < 0 ? 'l' : 'n', (at < 0 ? -at : at) - 1);
    (void)g;
}

static inline void dump_tensor(FILE *out, const vr_gg *g, const int64_t *place, const vr_gg_machine *m,
                               const vr_gg_tensor *t)
{
    char type[16];
    size_t n = 0;
    for (const char *c = vr_dtype_name(t->type); *c != 0 && n + 1 < sizeof(type); c++, n++)
        type[n] = (char)(t->type != VR_NVFP4 && *c >= 'A' && *c <= 'Z' && (t->type < VR_GGML_FIRST || n == 0)
                             ? *c + 32
                             : *c);
    type[n] = 0;
    fprintf(out, "%s %s [%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "] ", t->name != NULL ? t->name : "-",
            type, t->ne[0], t->ne[1], t->ne[2], t->ne[3]);
    fprintf(out, "nb[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "] ", t->nb[0], t->nb[1], t->nb[2],
            t->nb[3]);
    fprintf(out, "%s%s%s", t->flags & VR_GG_INPUT ? "I" : "", t->flags & VR_GG_OUTPUT ? "O" : "",
            t->flags == 0 ? "-" : "");
    if (t->view_src != NULL) {
        fputs(" view=", out);
        dump_label(out, g, place, t->view_src);
        fprintf(out, "+%" PRIu64, t->view_offset);
    }
    const vr_gg_tensor *home = t->view_src != NULL ? t->view_src : t;
    if (home->buft != VR_GG_NOWHERE)
        fprintf(out, " %s@%s", home->weight ? "weight" : "cache", dumped_buft(m, home->buft));
}

/* After vr_gg_reserve nodes say the back end that runs them. */
static inline void dump_graph(FILE *out, const vr_gg *g, const vr_gg_machine *m)
{
    int64_t *place = calloc(g->n_tensors + 1, sizeof(*place));
    if (place == NULL)
        abort();
    for (size_t i = 0; i < g->n_leafs; i++)
        place[g->leafs[i]->id] = -(int64_t)i - 1;
    for (size_t i = 0; i < g->n_nodes; i++)
        place[g->nodes[i]->id] = (int64_t)i + 1;
    for (size_t i = 0; i < g->n_leafs; i++) {
        fprintf(out, "leaf %zu ", i);
        dump_tensor(out, g, place, m, g->leafs[i]);
        fputs("\n", out);
    }
    for (size_t i = 0; i < g->n_nodes; i++) {
        const vr_gg_tensor *t = g->nodes[i];
        fprintf(out, "node %zu %s ", i, dumped_op(t));
        dump_tensor(out, g, place, m, t);
        fputs(" src=", out);
        size_t n = 0;
        for (int k = 0; k < VR_GG_MAX_SRC; k++) {
            if (t->src[k] == NULL)
                continue;
            fputs(n++ > 0 ? "," : "", out);
            dump_label(out, g, place, t->src[k]);
        }
        fprintf(out, "%s be=%s\n", n == 0 ? "-" : "", t->backend < 0 ? "-" : m->backends[t->backend].name);
    }
    free(place);
}

#endif
