/* SPDX-License-Identifier: MIT
 * Ollama's own estimate against lines that Ollama logged ("offload to cuda ... memory.required.full"), seven
 * of five releases: caches and graphs to the digit that was printed; the totals with layers of equal size, as
 * large as the line says they are together. Then what it takes by release, and layouts by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "engine/ollama.h"

#define MOST_LAYERS 128
#define G (1024.0 * 1024.0 * 1024.0)
#define M (1024.0 * 1024.0)

typedef struct logged {
    uint32_t release;
    const char *arch;
    uint64_t n_layers, embedding, vocab, heads, heads_kv, head, window;
    uint64_t tokens, parallel;
    bool metal;
    double weights, output,
        projector;    /* MiB; weights of the layers, with their caches where the release told them so */
    double available; /* GiB */
    const char *kv, *graph_full, *graph_partial;
    double full, partial; /* GiB */
    uint64_t offloaded;
} logged;

static const logged lines[] = {
    /* llama3.2 3B, 2024-12-15, 78.6 GiB free */
    { VR_OLLAMA_RELEASE(5, 3),
      "llama",
      28,
      3072,
      128256,
      24,
      8,
      128,
      0,
      8192,
      4,
      false,
      2.4 * 1024,
      308.2,
      0,
      78.6,
      "896.0 MiB",
      "424.0 MiB",
      "570.7 MiB",
      3.7,
      3.7,
      29 },
    /* gemma3:12b, 2025-08-22, 11.1 GiB free; the projector 795.9 MiB and a graph of 1.0 GiB */
    { VR_OLLAMA_RELEASE(11, 4),
      "gemma3",
      48,
      3840,
      262145,
      16,
      8,
      256,
      1024,
      8192,
      1,
      false,
      6.8 * 1024 - 787.5,
      787.5,
      795.9 + 1024,
      11.1,
      "992.0 MiB",
      "519.5 MiB",
      "1.3 GiB",
      11.4,
      8.9,
      48 },
    /* gpt-oss:20b, 2025-08-06, 15.6 GiB free; the output 201088 x 2880 x 2 B, logged as 1.1 GiB */
    { VR_OLLAMA_RELEASE(11, 2),
      "gptoss",
      24,
      2880,
      201088,
      64,
      8,
      64,
      128,
      8192,
      1,
      false,
      11.7 * 1024 - 1104.6,
      1104.6,
      0,
      15.6,
      "300.0 MiB",
      "2.0 GiB",
      "4.0 GiB",
      16.9,
      15.4,
      23 },
    /* 1.5B of 28 layers, 2025-07-30, 3.1 GiB free */
    { VR_OLLAMA_RELEASE(10, 0),
      "qwen2",
      28,
      1536,
      151936,
      12,
      2,
      128,
      0,
      8192,
      2,
      false,
      934.7 - 182.6,
      182.6,
      0,
      3.1,
      "224.0 MiB",
      "299.8 MiB",
      "482.3 MiB",
      1.9,
      1.9,
      29 },
    /* gemma3:27b, 2025-07-24, 33.6 GiB free */
    { VR_OLLAMA_RELEASE(9, 6),
      "gemma3",
      62,
      5376,
      262144,
      32,
      16,
      128,
      1024,
      8192,
      2,
      false,
      (15.4 - 1.1) * 1024,
      1126.4,
      795.9 + 1024,
      33.6,
      "1.6 GiB",
      "565.0 MiB",
      "1.6 GiB",
      20.1,
      20.1,
      63 },
    /* qwen2:7b Q4_0, 2024-08-14, Metal, 21.3 GiB */
    { VR_OLLAMA_RELEASE(3, 6),
      "qwen2",
      28,
      3584,
      152064,
      28,
      4,
      128,
      0,
      8192,
      4,
      true,
      3.9 * 1024,
      426.4,
      0,
      21.3,
      "448.0 MiB",
      "478.0 MiB",
      "478.0 MiB",
      5.4,
      5.4,
      29 },
    /* 8B of 36 layers, 2024-11-08, Metal, 21.3 GiB */
    { VR_OLLAMA_RELEASE(4, 1),
      "llama",
      36,
      4096,
      49152,
      32,
      8,
      128,
      0,
      8192,
      4,
      true,
      5.2 * 1024,
      157.5,
      0,
      21.3,
      "1.1 GiB",
      "560.0 MiB",
      "560.0 MiB",
      6.6,
      6.6,
      37 },
};

static const char *human(char *out, size_t room, uint64_t bytes)
{
    if ((double)bytes >= G)
        (void)snprintf(out, room, "%.1f GiB", (double)bytes / G);
    else
        (void)snprintf(out, room, "%.1f MiB", (double)bytes / M);
    return out;
}

typedef struct fixture {
    hook h;
    vram_ctx *ctx;
    vr_arena a;
    uint64_t layers[MOST_LAYERS];
} fixture;

static void open_fixture(fixture *x)
{
    memset(x, 0, sizeof *x);
    assert_int_equal(vram_open(&x->ctx, hook_alloc, &x->h), VRAM_OK);
    vr_arena_init(&x->a, x->ctx);
}

static void close_fixture(fixture *x)
{
    vr_arena_free(&x->a);
    vram_close(x->ctx);
}

static void assert_near(double got, double wanted, const char *what, size_t line)
{
    double off = got > wanted ? got - wanted : wanted - got;
    if (off > 0.06) /* GiB: the line has one digit, and so do the weights that it names */
        print_error("line %zu: %s %.3f, logged %.1f\n", line, what, got, wanted);
    assert_true(off <= 0.06);
}

static void one_line(fixture *x, const logged *l, size_t line)
{
    char text[32];
    vr_ollama_rules r;
    vr_ollama_graph g;
    vr_ollama_layout out;
    vr_ollama_rules_of(&r, l->release);
    vr_ollama_facts f = { .arch = vr_str_of(l->arch),
                          .embedding = l->embedding,
                          .vocab = l->vocab,
                          .window = l->window,
                          .heads = l->heads,
                          .heads_min = l->heads,
                          .heads_kv = l->heads_kv,
                          .heads_kv_min = l->heads_kv,
                          .head_k = l->head,
                          .head_v = l->head,
                          .n_layers = l->n_layers,
                          .layers = x->layers,
                          .output = (uint64_t)(l->output * M) };
    vr_ollama_ask q = { .tokens = l->tokens,
                        .batch = 512,
                        .parallel = l->parallel,
                        .kv_type = VR_F16,
                        .num_gpu = UINT64_MAX,
                        .metal = l->metal,
                        .projector = (uint64_t)(l->projector * M) };
    assert_int_equal(vr_ollama_graph_of(&g, &r, &f, &q, &x->a), VRAM_OK);
    double told = l->weights - (r.weights_alone != 0 ? 0 : (double)g.kv / M);
    for (uint64_t i = 0; i < l->n_layers; i++)
        x->layers[i] = (uint64_t)(told * M / (double)l->n_layers);
    uint64_t available = (uint64_t)(l->available * G);
    assert_int_equal(vr_ollama_layout_of(&out, &r, &f, &q, &available, 1, &x->a), VRAM_OK);
    assert_string_equal(human(text, sizeof text, out.graph.kv), l->kv);
    assert_string_equal(human(text, sizeof text, out.graph.full), l->graph_full);
    assert_string_equal(human(text, sizeof text, out.graph.partial), l->graph_partial);
    assert_near((double)out.total / G, l->full, "full", line);
    assert_near((double)out.on_gpus / G, l->partial, "partial", line);
    assert_int_equal(out.layers, l->offloaded);
}

static void logged_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        fixture x;
        open_fixture(&x);
        one_line(&x, &lines[i], i);
        close_fixture(&x);
    }
}

/* 10 layers of 100 MiB and an output of 50; caches of 8 heads of 64 for 8192 tokens: 8192 x 2 x 512 x 2 B =
 * 16 MiB each. */
static vr_ollama_layout laid_out(fixture *x, uint32_t release, const double *gib, size_t n, uint64_t num_gpu,
                                 bool spread)
{
    vr_ollama_rules r;
    vr_ollama_layout out;
    uint64_t available[4];
    vr_ollama_rules_of(&r, release);
    for (size_t i = 0; i < 10; i++)
        x->layers[i] = 100 * VR_MIB;
    for (size_t i = 0; i < n; i++)
        available[i] = (uint64_t)(gib[i] * G);
    vr_ollama_facts f = { .arch = vr_str_of("llama"),
                          .embedding = 512,
                          .vocab = 1000,
                          .heads = 8,
                          .heads_min = 8,
                          .heads_kv = 8,
                          .heads_kv_min = 8,
                          .head_k = 64,
                          .head_v = 64,
                          .n_layers = 10,
                          .layers = x->layers,
                          .output = 50 * VR_MIB };
    vr_ollama_ask q = { .tokens = 8192, .batch = 512, .parallel = 1, .kv_type = VR_F16, .num_gpu = num_gpu };
    q.spread = spread;
    assert_int_equal(vr_ollama_layout_of(&out, &r, &f, &q, available, n, &x->a), VRAM_OK);
    return out;
}

static void layouts(void **state)
{
    (void)state;
    fixture x;
    open_fixture(&x);
    /* graph.full = 4*512*max(1 + 4*512 + 8192*9, 512 + 1000) = 148.0 MiB; all: 10*116 + 50 + 148 */
    vr_ollama_layout l = laid_out(&x, VR_OLLAMA_RELEASE(13, 0), (const double[]){ 8 }, 1, UINT64_MAX, false);
    assert_int_equal(l.graph.full, 4ull * 512 * (1 + 4 * 512 + 8192 * 9));
    assert_int_equal(l.layers, 11);
    assert_int_equal(l.total, l.on_gpus);
    assert_int_equal(l.on_gpus, 1210 * VR_MIB + l.graph.full);
    /* 1 GiB less a spare layer of 116, 457 and a graph of at least 145: some, and not the output */
    l = laid_out(&x, VR_OLLAMA_RELEASE(13, 0), (const double[]){ 1.25 }, 1, UINT64_MAX, false);
    assert_true(l.layers > 0 && l.layers < 10);
    assert_int_equal(l.on_gpus, l.layers * 116 * VR_MIB + l.graph.partial);
    assert_int_equal(l.total, 1210 * VR_MIB + l.graph.partial);
    /* the first GPU takes all unless they are spread */
    l = laid_out(&x, VR_OLLAMA_RELEASE(13, 0), (const double[]){ 4, 6 }, 2, UINT64_MAX, false);
    assert_int_equal(l.gpu_layers[0], 0);
    assert_int_equal(l.gpu_layers[1], 11);
    l = laid_out(&x, VR_OLLAMA_RELEASE(13, 0), (const double[]){ 4, 6 }, 2, UINT64_MAX, true);
    assert_true(l.gpu_layers[0] > 0 && l.gpu_layers[0] < l.gpu_layers[1]);
    assert_int_equal(l.gpu_layers[0] + l.gpu_layers[1], 11);
    /* num_gpu is kept to, whatever fits */
    l = laid_out(&x, VR_OLLAMA_RELEASE(13, 0), (const double[]){ 8 }, 1, 4, false);
    assert_int_equal(l.layers, 4);
    l = laid_out(&x, VR_OLLAMA_RELEASE(9, 0), (const double[]){ 8 }, 1, 4, false);
    assert_int_equal(l.layers, 4);
    /* nothing fits: all on the CPU */
    l = laid_out(&x, VR_OLLAMA_RELEASE(9, 0), (const double[]){ 0.5 }, 1, UINT64_MAX, false);
    assert_int_equal(l.layers, 0);
    assert_int_equal(l.on_gpus, 0);
    l = laid_out(&x, VR_OLLAMA_RELEASE(13, 0), (const double[]){ 0.5 }, 1, UINT64_MAX, false);
    assert_int_equal(l.layers, 0);
    assert_int_equal(l.on_gpus, 0);
    close_fixture(&x);
}

static void releases(void **state)
{
    (void)state;
    vr_ollama_rules r;
    vr_ollama_rules_of(&r, VR_OLLAMA_RELEASE(32, 15));
    assert_int_equal(r.era, VR_OLLAMA_SERVER);
    assert_int_equal(r.build, 10488);
    assert_int_equal(vr_ollama_context(&r, 12 * VR_GIB), 4096);
    assert_int_equal(vr_ollama_context(&r, 24 * VR_GIB), 32768);
    assert_int_equal(vr_ollama_context(&r, 48 * VR_GIB), 262144);
    assert_false(vr_ollama_runs_itself(&r, vr_str_of("gemma3")));
    vr_ollama_rules_of(&r, VR_OLLAMA_RELEASE(24, 0));
    assert_int_equal(r.era, VR_OLLAMA_LAYOUT);
    assert_int_equal(r.build, 7437);
    assert_true(vr_ollama_runs_itself(&r, vr_str_of("qwen3")));
    assert_false(vr_ollama_runs_itself(&r, vr_str_of("llama")));
    vr_ollama_rules_of(&r, VR_OLLAMA_RELEASE(6, 6));
    assert_int_equal(r.default_context, 2048);
    assert_int_equal(r.parallel, 4);
    vr_ollama_rules_of(&r, VR_OLLAMA_RELEASE(9, 6));
    assert_int_equal(r.default_context, 4096);
    assert_int_equal(r.parallel, 2);
    assert_int_equal(r.build, 5359);
}

/* What 80, 60 and 75 of a hundred leave. */
static void batches(void **state)
{
    (void)state;
    vr_ollama_rules r;
    vr_ollama_rules_of(&r, VR_OLLAMA_NEWEST);
    assert_int_equal(vr_ollama_batch(&r, 4096, true, 5 * VR_GIB, 24 * VR_GIB, 24 * VR_GIB), 512);
    assert_int_equal(vr_ollama_batch(&r, 8192, true, 5 * VR_GIB, 24 * VR_GIB, 24 * VR_GIB), 1024);
    assert_int_equal(vr_ollama_batch(&r, 65536, true, 5 * VR_GIB, 24 * VR_GIB, 24 * VR_GIB), 2048);
    assert_int_equal(vr_ollama_batch(&r, 65536, true, 15 * VR_GIB, 24 * VR_GIB, 24 * VR_GIB),
                     1024); /* over 14.4 */
    assert_int_equal(vr_ollama_batch(&r, 65536, true, 19 * VR_GIB, 24 * VR_GIB, 24 * VR_GIB),
                     512); /* over 18 */
    assert_int_equal(vr_ollama_batch(&r, 8192, false, 5 * VR_GIB, 8 * VR_GIB, 8 * VR_GIB), 256);
    assert_int_equal(vr_ollama_batch(&r, 8192, false, 5 * VR_GIB, 24 * VR_GIB, 24 * VR_GIB), 512);
    vr_ollama_rules_of(&r, VR_OLLAMA_RELEASE(24, 0));
    assert_int_equal(vr_ollama_batch(&r, 65536, true, 5 * VR_GIB, 24 * VR_GIB, 24 * VR_GIB), 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logged_lines),
        cmocka_unit_test(layouts),
        cmocka_unit_test(releases),
        cmocka_unit_test(batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
