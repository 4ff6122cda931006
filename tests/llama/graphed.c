/* SPDX-License-Identifier: MIT
 * What a GGUF file takes in llama.cpp, and with --dump the nodes of the graph, to be held against llama.cpp's
 * own.
 *
 *   graphed FILE.gguf [llama.cpp's options] [--devices N] [--n-outputs-max N] [--dump] */
#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama/graph.h"
#include "vram_io.h"

typedef struct asked {
    vr_lm_params p;
    vr_lm_device devices[8];
    size_t n_devices;
    vr_lm_override overrides[32];
    bool dump, server, np_given;
} asked;

static uint8_t type_of(const char *name)
{
    for (int t = 0; t < VR_DTYPE_COUNT; t++) {
        const char *n = vr_dtype_name((vr_dtype)t);
        size_t i = 0;
        while (n[i] != 0 && (name[i] | 32) == (n[i] | 32))
            i++;
        if (n[i] == 0 && name[i] == 0)
            return (uint8_t)t;
    }
    fprintf(stderr, "type %s?\n", name);
    exit(2);
}

static uint64_t number(const char *s)
{
    return strtoull(s, NULL, 10);
}

static void split(asked *a, const char *list)
{
    for (size_t i = 0; *list != 0 && i < 8; i++) {
        char *end;
        a->p.tensor_split[i] = strtod(list, &end);
        list = *end != 0 ? end + 1 : end;
    }
}

static void override(asked *a, const char *text)
{
    const char *eq = strrchr(text, '=');
    char *pattern = strdup(text);
    pattern[eq - text] = 0;
    uint8_t device =
        strncmp(eq + 1, "CUDA", 4) == 0 && eq[5] >= '0' && eq[5] <= '9' ? (uint8_t)(eq[5] - '0') : VR_LM_HOST;
    a->overrides[a->p.n_overrides++] = (vr_lm_override){ pattern, device };
}

static bool flag(asked *a, const char *o)
{
    if (strcmp(o, "-nkvo") == 0 || strcmp(o, "--no-kv-offload") == 0)
        a->p.offload_kqv = false;
    else if (strcmp(o, "--cpu-moe") == 0)
        a->p.n_cpu_moe = UINT64_MAX;
    else if (strcmp(o, "--swa-full") == 0)
        a->p.swa_full = true;
    else if (strcmp(o, "--no-op-offload") == 0)
        a->p.op_offload = false;
    else if (strcmp(o, "--as-fit") == 0)
        a->p.as_fit = true;
    else if (strcmp(o, "-kvu") == 0)
        a->p.kv_unified = true;
    else if (strcmp(o, "--dump") == 0)
        a->dump = true;
    else if (strcmp(o, "--embeddings") == 0)
        a->p.embeddings = true;
    else if (strcmp(o, "--server") == 0)
        a->server = true;
    else if (strcmp(o, "--no-repack") != 0)
        return false;
    return true;
}

static bool valued(asked *a, const char *o, const char *v)
{
    static const struct {
        const char *name;
        size_t at;
    } numbers[] = { { "-c", offsetof(vr_lm_params, n_ctx) },
                    { "-b", offsetof(vr_lm_params, n_batch) },
                    { "-ub", offsetof(vr_lm_params, n_ubatch) },
                    { "-np", offsetof(vr_lm_params, n_seq_max) },
                    { "-ngl", offsetof(vr_lm_params, n_gpu_layers) },
                    { "--n-cpu-moe", offsetof(vr_lm_params, n_cpu_moe) },
                    { "--n-outputs-max", offsetof(vr_lm_params, n_outputs_max) } };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(o, numbers[i].name) == 0) {
            uint64_t n = number(v);
            memcpy((char *)&a->p + numbers[i].at, &n, sizeof n);
            a->np_given = a->np_given || strcmp(o, "-np") == 0;
            return true;
        }
    }
    if (strcmp(o, "--build") == 0) {
        a->p.build = (uint32_t)number(v);
    } else if (strcmp(o, "-fa") == 0) {
        a->p.flash_attn = strcmp(v, "off") != 0;
        a->p.flash_auto = strcmp(v, "auto") == 0;
    } else if (strcmp(o, "-ctk") == 0) {
        a->p.type_k = type_of(v);
    } else if (strcmp(o, "-ctv") == 0) {
        a->p.type_v = type_of(v);
    } else if (strcmp(o, "-ts") == 0) {
        split(a, v);
    } else if (strcmp(o, "-ot") == 0) {
        override(a, v);
    } else if (strcmp(o, "-sm") == 0) {
        a->p.split_mode = strcmp(v, "none") == 0  ? VR_LM_SPLIT_NONE
                          : strcmp(v, "row") == 0 ? VR_LM_SPLIT_ROW
                                                  : VR_LM_SPLIT_LAYER;
    } else if (strcmp(o, "--build") == 0) {
        a->p.build = (uint32_t)number(v);
    } else if (strcmp(o, "-mg") == 0) {
        a->p.main_gpu = (uint8_t)number(v);
    } else if (strcmp(o, "--pooling") == 0) {
        static const char *const kinds[] = { "file", "none", "mean", "cls", "last", "rank" };
        for (uint8_t i = 0; i < 6; i++)
            a->p.pooling = strcmp(v, kinds[i]) == 0 ? i : a->p.pooling;
    } else if (strcmp(o, "--free") == 0) {
        for (size_t i = 0; *v != 0 && i < 8; i++) {
            char *end;
            a->devices[i].free_bytes = strtoull(v, &end, 10) << 20;
            v = *end != 0 ? end + 1 : end;
        }
    } else if (strcmp(o, "--devices") == 0) {
        a->n_devices = (size_t)number(v);
    } else {
        return false;
    }
    return true;
}

static void ask(asked *a, int argc, char **argv)
{
    *a = (asked){ .p = { .build = 10470,
                         .tool = VR_LM_CLI,
                         .n_batch = 2048,
                         .n_ubatch = 512,
                         .n_seq_max = 1,
                         .type_k = VR_F16,
                         .type_v = VR_F16,
                         .flash_attn = true,
                         .flash_auto = true,
                         .offload_kqv = true,
                         .op_offload = true,
                         .n_gpu_layers = UINT64_MAX },
                  .n_devices = 1 };
    for (size_t i = 0; i < 8; i++)
        a->devices[i] = (vr_lm_device){ .free_bytes = UINT64_C(24) << 30, .cc = 89 };
    for (int i = 2; i < argc; i++) {
        if (flag(a, argv[i]))
            continue;
        if (i + 1 >= argc || !valued(a, argv[i], argv[i + 1])) {
            fprintf(stderr, "option %s?\n", argv[i]);
            exit(2);
        }
        i++;
    }
    if (a->server && !a->np_given) {
        a->p.n_seq_max = 4;
        a->p.kv_unified = true;
    }
    if (a->server && a->p.n_outputs_max == 0)
        a->p.n_outputs_max = a->p.n_seq_max;
    a->p.overrides = a->overrides;
}

static void print_memory(const char *name, const vr_lm_memory *m, const char *comma)
{
    printf("\"%s\":{\"model\":%llu,\"context\":%llu,\"compute\":%llu}%s", name, (unsigned long long)m->model,
           (unsigned long long)m->context, (unsigned long long)m->compute, comma);
}

static void print_sizes(const vr_lm_sizes *s, size_t n)
{
    char name[16];
    printf("{\"bytes\":{");
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "CUDA%zu", i);
        print_memory(name, &s->device[i], ",");
    }
    print_memory("CUDA_Host", &s->pinned, ",");
    print_memory("CPU", &s->host, "}");
    printf(",\"nodes\":%zu,\"splits\":%zu,\"known\":%s,\"refused\":%s,\"why\":\"%s\"}\n", s->n_nodes,
           s->n_splits, s->compute_known ? "true" : "false", s->refused ? "true" : "false",
           s->why != NULL ? s->why : "");
}

static const char *const ops[] = {
#define X(id, inplace, view) #id,
    VR_GG_OPS(X)
#undef X
};

static void print_tensor(const char *what, size_t i, const vr_gg_tensor *t)
{
    printf("%s %zu %s %s [%llu,%llu,%llu,%llu] nb[%llu,%llu,%llu,%llu] %s%s%s be=%d\n", what, i, ops[t->op],
           vr_dtype_name((vr_dtype)t->type), (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
           (unsigned long long)t->ne[2], (unsigned long long)t->ne[3], (unsigned long long)t->nb[0],
           (unsigned long long)t->nb[1], (unsigned long long)t->nb[2], (unsigned long long)t->nb[3],
           t->flags & VR_GG_INPUT ? "I" : "", t->flags & VR_GG_OUTPUT ? "O" : "", t->flags == 0 ? "-" : "",
           t->backend);
}

static void dump(const vr_lm *lm, const asked *a, vr_arena *arena)
{
    vr_lm_plan plan;
    vr_lm_graph c;
    vr_gg g;
    vr_gg_reserved r;
    if (vr_lm_plan_of(&plan, lm, &a->p, a->devices, a->n_devices, arena) != VRAM_OK)
        return;
    vr_gg_init(&g, arena);
    uint64_t n = plan.n_ctx < plan.n_ubatch ? plan.n_ctx : plan.n_ubatch;
    uint64_t outputs = n < plan.n_outputs_max ? n : plan.n_outputs_max;
    vr_lm_batch batch = { n, plan.n_seq_max, outputs, !a->p.as_fit };
    vr_lm_settled settled = { a->p.flash_attn, true, true, true };
    if (vr_lm_graph_make(&c, &g, lm, &a->p, &plan, settled, batch) != VRAM_OK)
        return;
    vr_gg_reserve(&r, &g, &plan.machine, arena);
    for (size_t i = 0; i < g.n_leafs; i++)
        print_tensor("leaf", i, g.leafs[i]);
    for (size_t i = 0; i < g.n_nodes; i++)
        print_tensor("node", i, g.nodes[i]);
}

static int measure(vram_ctx *ctx, vram_io *io, const char *file, const asked *a)
{
    vram_checkpoint *ck;
    vram_model *m;
    if (vram_io_open_path(&ck, io, ctx, file) != VRAM_OK || vram_model_new(&m, ck) != VRAM_OK) {
        fprintf(stderr, "%s\n", vram_last_error(ctx)->text);
        return 1;
    }
    vr_arena arena;
    vr_arena_init(&arena, ctx);
    const vr_lm *lm = NULL;
    const char *why = "";
    vr_lm_sizes s;
    vram_status st = vr_lm_of(&lm, &why, m, &arena);
    if (st == VRAM_OK && lm != NULL)
        st = vr_lm_measure(&s, lm, &a->p, a->devices, a->n_devices, &arena);
    if (st != VRAM_OK || lm == NULL) {
        fprintf(stderr, "%d %s\n", st, st != VRAM_OK ? vram_last_error(ctx)->text : why);
    } else {
        print_sizes(&s, a->n_devices);
        if (a->dump)
            dump(lm, a, &arena);
    }
    vr_arena_free(&arena);
    return st == VRAM_OK && lm != NULL ? 0 : 1;
}

int main(int argc, char **argv)
{
    vram_io *io;
    vram_ctx *ctx;
    asked a;
    if (argc < 2 || vram_io_new(&io) != VRAM_OK || vram_open(&ctx, vram_io_alloc, NULL) != VRAM_OK)
        return 2;
    ask(&a, argc, argv);
    int status = measure(ctx, io, argv[1], &a);
    vram_close(ctx);
    vram_io_free(io);
    return status;
}
