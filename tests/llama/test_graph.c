/* SPDX-License-Identifier: MIT
 * Compute buffers, nodes and splits of a small model (small.h) beside what llama.cpp b10470 itself said of
 * the very file on virtual cards: without allocating, as llama-fit-params sizes them, and as a run reserves
 * them, where the scheduler keeps what was pinned. Recorded by the programs of tests/oracle/llamacpp/.
 *
 * Nodes by hand, with flash attention: of each layer norm and its weight 2; queries product, heads, rope 3;
 * keys the same 3; values product and heads 2; storing keys and values, each a view and set_rows 4; views and
 * permutations of the three 6; attention 1, its rows 1; output product 1; residual 1; norm and weight 2;
 * gate, up, both in one, down 4; residual 1: 31. Beside them the embedding's rows 1, the rows that are
 * answered to and their residual 2, norm, weight and head 3: 4 x 31 + 6 = 130. Without flash attention 5 more
 * a layer: scores, softmax, product, permutation and copy instead of attention and rows, and values go
 * through a copy of two reshapes. */
#include "small.h"

#include "llama/graph.h"

typedef struct run {
    const char *what;
    bool flash, flash_auto, no_kv_offload, as_fit, embeddings;
    uint64_t n_gpu_layers, n_seq_max, n_outputs_max;
    size_t n_devices;
    uint64_t compute[2], pinned, host; /* bytes */
    size_t nodes, splits;
} run;

#define ALL UINT64_MAX

static const run runs[] = {
    { .what = "one card",
      .flash = true,
      .n_gpu_layers = ALL,
      .n_devices = 1,
      .compute = { 297472 },
      .pinned = 495104,
      .nodes = 130,
      .splits = 10 },
    { .what = "no flash attention",
      .n_gpu_layers = ALL,
      .n_devices = 1,
      .compute = { 2787328 },
      .pinned = 625152,
      .nodes = 150,
      .splits = 2 },
    { .what = "two cards, asked",
      .flash = true,
      .as_fit = true,
      .n_gpu_layers = ALL,
      .n_devices = 2,
      .compute = { 796672, 667648 },
      .pinned = 3749888,
      .nodes = 130,
      .splits = 11 },
    { .what = "two cards",
      .flash = true,
      .n_gpu_layers = ALL,
      .n_devices = 2,
      .compute = { 796672, 536576 },
      .pinned = 3749888,
      .nodes = 130,
      .splits = 11 },
    { .what = "caches on the host, asked",
      .flash = true,
      .flash_auto = true,
      .no_kv_offload = true,
      .as_fit = true,
      .n_gpu_layers = ALL,
      .n_devices = 1,
      .compute = { 2884096 },
      .pinned = 593408,
      .nodes = 150,
      .splits = 10 },
    { .what = "caches on the host",
      .flash = true,
      .flash_auto = true,
      .no_kv_offload = true,
      .n_gpu_layers = ALL,
      .n_devices = 1,
      .compute = { 295424 },
      .pinned = 2788864,
      .nodes = 150,
      .splits = 10 },
    { .what = "caches on the host, flash attention",
      .flash = true,
      .no_kv_offload = true,
      .n_gpu_layers = ALL,
      .n_devices = 1,
      .compute = { 295424 },
      .pinned = 364032,
      .nodes = 130,
      .splits = 10 },
    { .what = "three layers",
      .flash = true,
      .n_gpu_layers = 3,
      .n_devices = 1,
      .compute = { 311808 },
      .pinned = 495104,
      .nodes = 130,
      .splits = 26 },
    { .what = "no card", .flash = true, .n_gpu_layers = ALL, .host = 560640, .nodes = 130, .splits = 1 },
    { .what = "a vector of each text",
      .flash = true,
      .embeddings = true,
      .n_gpu_layers = ALL,
      .n_devices = 1,
      .compute = { 297472 },
      .pinned = 495616,
      .nodes = 133,
      .splits = 10 },
    { .what = "three texts, three answers",
      .flash = true,
      .n_gpu_layers = ALL,
      .n_seq_max = 3,
      .n_outputs_max = 3,
      .n_devices = 1,
      .compute = { 300160 },
      .pinned = 431008,
      .nodes = 138,
      .splits = 10 },
};

static const vr_lm_device devices[2] = { { VR_GIB, 89 }, { VR_GIB, 89 } };

static vr_lm_params params_of(const run *r)
{
    vr_lm_params p = plain();
    p.flash_attn = r->flash;
    p.flash_auto = r->flash_auto;
    p.offload_kqv = !r->no_kv_offload;
    p.as_fit = r->as_fit;
    p.embeddings = r->embeddings;
    p.pooling = VR_LM_POOL_MEAN;
    p.n_gpu_layers = r->n_gpu_layers;
    p.n_seq_max = r->n_seq_max > 0 ? r->n_seq_max : 1;
    p.n_outputs_max = r->n_outputs_max;
    return p;
}

static void test_recorded(void **state)
{
    opened o = small_model();
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const run *r = &runs[i];
        vr_lm_params p = params_of(r);
        vr_lm_sizes s;
        expect_ok(o.w, vr_lm_measure(&s, o.lm, &p, devices, r->n_devices, &o.w->ctx->arena));
        bool same = s.compute_known && s.device[0].compute == r->compute[0] &&
                    s.device[1].compute == r->compute[1] && s.pinned.compute == r->pinned &&
                    s.host.compute == r->host && s.n_nodes == r->nodes && s.n_splits == r->splits;
        if (!same)
            fail_msg("%s: %llu and %llu, host %llu and %llu, nodes %zu, splits %zu", r->what,
                     (unsigned long long)s.device[0].compute, (unsigned long long)s.device[1].compute,
                     (unsigned long long)s.pinned.compute, (unsigned long long)s.host.compute, s.n_nodes,
                     s.n_splits);
        assert_false(s.compute_near);
    }
    end_world(o.w);
}

/* Until build 9410 flash attention's mask came in 32 bits and was cast: a node more. Without flash attention
 * the host holds inputs only: mask 1024 x 128 x 4 B, rows of values 128 x 32 x 8 B, of keys 128 x 8 B,
 * tokens, positions and rows to answer 3 x 128 x 4 B, and 128 embeddings of 64 x 4 B, once looked up and,
 * since build 7819, once as they may come. */
static void test_older_build(void **state)
{
    opened o = small_model();
    vr_lm_params flash = params_of(&runs[0]), plainly = params_of(&runs[1]);
    vr_lm_sizes s;
    (void)state;
    flash.build = 9409;
    expect_ok(o.w, vr_lm_measure(&s, o.lm, &flash, devices, 1, &o.w->ctx->arena));
    assert_true(s.compute_known && s.compute_near);
    assert_int_equal(s.n_nodes, 131);
    const uint64_t inputs = 1024 * 128 * 4 + 128 * 32 * 8 + 128 * 8 + 3 * 128 * 4, embeddings = 128 * 64 * 4;
    plainly.build = 7819;
    expect_ok(o.w, vr_lm_measure(&s, o.lm, &plainly, devices, 1, &o.w->ctx->arena));
    assert_int_equal(s.pinned.compute, inputs + 2 * embeddings);
    plainly.build = 7818;
    expect_ok(o.w, vr_lm_measure(&s, o.lm, &plainly, devices, 1, &o.w->ctx->arena));
    assert_int_equal(s.pinned.compute, inputs + embeddings);
    plainly.build = 2000;
    expect_ok(o.w, vr_lm_measure(&s, o.lm, &plainly, devices, 1, &o.w->ctx->arena));
    assert_false(s.compute_known);
    assert_non_null(s.why);
    end_world(o.w);
}

/* A file whose shapes contradict each other, or that lacks what its architecture needs, has no figure. */
static vr_lm_sizes sizes_with(const char *wrong, uint64_t ne0, uint64_t ne1)
{
    gguf g = { .version = 3 };
    uint64_t at = 0;
    add_keys(&g, 5, 4, 4096);
    tensor(&g, &at, "token_embd.weight", 64, 256);
    tensor(&g, &at, "output_norm.weight", 64, 0);
    add_layers(&g, &at, 4);
    static const char *const fifth[] = { "attn_norm", "attn_q",   "attn_k", "attn_v",  "attn_output",
                                         "ffn_norm",  "ffn_gate", "ffn_up", "ffn_down" };
    static const uint64_t ne[][2] = { { 64, 0 }, { 64, 64 },  { 64, 32 },  { 64, 32 }, { 64, 64 },
                                      { 64, 0 }, { 64, 128 }, { 64, 128 }, { 128, 64 } };
    for (size_t i = 0; i < sizeof fifth / sizeof *fifth; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.4.%s.weight", fifth[i]);
        bool other = strcmp(fifth[i], wrong) == 0;
        if (!other || ne0 != 0)
            tensor(&g, &at, name, other ? ne0 : ne[i][0], other ? ne1 : ne[i][1]);
    }
    opened o = open_file(&g, (size_t)at);
    vr_lm_params p = plain();
    vr_lm_sizes s;
    expect_ok(o.w, vr_lm_measure(&s, o.lm, &p, devices, 1, &o.w->ctx->arena));
    s.why = s.why != NULL ? "told" : NULL; /* the words go with the world */
    end_world(o.w);
    return s;
}

static void test_contradictions(void **state)
{
    static const struct {
        const char *name;
        uint64_t ne0, ne1;
    } wrong[] = { { "attn_q", 96, 64 },    { "attn_q", 64, 65 },   { "attn_k", 64, 64 },
                  { "attn_norm", 63, 0 },  { "ffn_down", 64, 64 }, { "ffn_up", 64, 96 },
                  { "attn_output", 0, 0 }, { "ffn_norm", 0, 0 } };
    (void)state;
    assert_true(sizes_with("", 0, 0).compute_known);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        vr_lm_sizes s = sizes_with(wrong[i].name, wrong[i].ne0, wrong[i].ne1);
        if (s.compute_known || s.why == NULL || s.device[0].compute != 0)
            fail_msg("%s of %llu x %llu", wrong[i].name, (unsigned long long)wrong[i].ne0,
                     (unsigned long long)wrong[i].ne1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_older_build),
        cmocka_unit_test(test_contradictions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
