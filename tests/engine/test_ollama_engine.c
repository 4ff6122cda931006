/* SPDX-License-Identifier: MIT
 * The engine ollama on a small model: where the layers go by release, what `ollama ps` will show, which GPUs
 * are used, and that a starved or absurd run is an error and no more. */
#include "../llama/small.h"
#include "engine/ollama.h"

typedef struct asked {
    const char *version, *context, *sequences, *num_gpu, *type;
    bool spread;
} asked;

static void set(vram_workload *w, const char *key, const char *value)
{
    if (value != NULL)
        assert_int_equal(vram_workload_set(w, key, value), VRAM_OK);
}

static const vram_workload *workload(const opened *s, const asked *q)
{
    vram_workload *w = NULL, *out = NULL;
    assert_int_equal(vram_workload_new(&w, s->w->ctx, "ollama"), VRAM_OK);
    set(w, "engine_version", q->version);
    set(w, "context", q->context);
    set(w, "sequences", q->sequences);
    set(w, "n_gpu_layers", q->num_gpu);
    set(w, "kv_cache_type", q->type);
    set(w, "sched_spread", q->spread ? "" : NULL);
    assert_int_equal(vr_workload_resolve(&out, w, s->m, &s->w->ctx->arena), VRAM_OK);
    return out;
}

static vr_placement placed(const opened *s, const asked *q, const uint64_t *available, size_t n,
                           vr_plan *plan)
{
    const vram_workload *w = workload(s, q);
    vr_device_facts *facts = VR_ARRAY(&s->w->ctx->arena, vr_device_facts, n);
    vr_placement *out = VR_NEW(&s->w->ctx->arena, vr_placement);
    assert_true(facts != NULL && out != NULL);
    for (size_t i = 0; i < n; i++)
        facts[i] = (vr_device_facts){
            .cc_major = 8, .cc_minor = 9, .available = available[i], .usable = available[i]
        };
    expect_ok(s->w, vr_engine_ollama.place(out, s->m, w, facts, n, &s->w->ctx->arena));
    vr_device_facts first = facts[0];
    first.placement = out;
    expect_ok(s->w, vr_engine_ollama.plan(plan, s->m, w, &first, &s->w->ctx->arena));
    return *out;
}

static const vr_lm_sizes *sizes_of(const vr_placement *p)
{
    assert_non_null(p->run);
    return p->run;
}

/* A GPU with room for everything: one gigabyte stays free. */
static void test_whole(void **state)
{
    opened s = small_model_of(12, 4096);
    const asked q = { NULL, "1024", NULL, NULL, NULL, false };
    const uint64_t room = 4 * VR_GIB;
    vr_plan plan;
    (void)state;
    vr_placement p = placed(&s, &q, &room, 1, &plan);
    assert_string_equal(plan.says, "ollama ps will show 100% GPU; in a Modelfile: PARAMETER num_ctx 1024");
    assert_int_equal(sizes_of(&p)->n_ctx, 1024);
    assert_int_equal(sizes_of(&p)->n_batch, 512);
    assert_int_equal(sizes_of(&p)->n_stream, 1);
    /* 12 layers x 1024 cells x (32 + 32) x 2 B */
    assert_int_equal(sizes_of(&p)->device[0].context, 12 * 1024 * 128);
    end_world(s.w);
}

/* With less than the margin nothing goes there. */
static void test_cpu(void **state)
{
    opened s = small_model_of(12, 4096);
    const asked q = { NULL, "1024", NULL, NULL, NULL, false };
    const asked old = { "0.13.5", "1024", NULL, NULL, NULL, false },
                older = { "0.9.6", "1024", NULL, NULL, NULL, false };
    const uint64_t room = 1000 * VR_MIB, small_room = 400 * VR_MIB;
    vr_plan plan;
    (void)state;
    vr_placement p = placed(&s, &q, &room, 1, &plan);
    assert_int_equal(sizes_of(&p)->device[0].model, 0);
    assert_int_equal(p.layers_off, 12);
    /* its own estimate kept 457 MiB free */
    p = placed(&s, &old, &room, 1, &plan);
    assert_string_equal(plan.says, "ollama ps will show 100% GPU; in a Modelfile: PARAMETER num_ctx 1024");
    p = placed(&s, &old, &small_room, 1, &plan);
    assert_int_equal(p.layers_off, 12);
    assert_non_null(strstr(plan.says, "ollama ps will show 100% CPU: 0 of 13 layers on the GPU"));
    p = placed(&s, &older, &small_room, 1, &plan);
    assert_int_equal(p.layers_off, 12);
    p = placed(&s, &older, &room, 1, &plan);
    assert_int_equal(p.layers_off, 0);
    end_world(s.w);
}

/* Contexts times sequences; a context beyond what the model was trained with is cut. */
static void test_counts(void **state)
{
    opened s = small_model_of(4, 4096);
    const asked q = { NULL, "1024", "3", NULL, "f16", false },
                long_one = { NULL, "8192", NULL, NULL, NULL, false },
                blocks = { NULL, "1024", NULL, NULL, "q8_0", false };
    const asked old = { "0.12.0", "1024", "3", NULL, NULL, false },
                auto_one = { "0.6.0", "1024", NULL, NULL, NULL, false };
    const uint64_t room = 8 * VR_GIB;
    vr_plan plan;
    (void)state;
    vr_placement p = placed(&s, &q, &room, 1, &plan);
    assert_int_equal(sizes_of(&p)->n_ctx, 3072);
    assert_int_equal(sizes_of(&p)->n_stream, 3);
    assert_int_equal(sizes_of(&p)->device[0].context, 4 * 3072 * 128);
    /* heads of 16 are no blocks of 32 */
    p = placed(&s, &blocks, &room, 1, &plan);
    assert_true(sizes_of(&p)->refused);
    p = placed(&s, &long_one, &room, 1, &plan);
    assert_int_equal(sizes_of(&p)->n_ctx, 4096);
    assert_non_null(strstr(plan.says, "PARAMETER num_ctx 4096"));
    /* b6121 has streams, and a batch for each sequence */
    p = placed(&s, &old, &room, 1, &plan);
    assert_int_equal(sizes_of(&p)->n_batch, 1536);
    assert_int_equal(sizes_of(&p)->n_ubatch, 512);
    /* four at once as long as they leave the model on the GPU */
    p = placed(&s, &auto_one, &room, 1, &plan);
    assert_int_equal(sizes_of(&p)->n_ctx, 4096);
    end_world(s.w);
}

/* num_gpu is kept to: since b7467 the output comes first, before that last. */
static void test_num_gpu(void **state)
{
    opened s = small_model_of(12, 4096);
    const asked q = { NULL, "1024", NULL, "5", NULL, false },
                old = { "0.12.0", "1024", NULL, "5", NULL, false };
    const uint64_t room = 8 * VR_GIB;
    vr_plan plan;
    (void)state;
    vr_placement p = placed(&s, &q, &room, 1, &plan);
    assert_int_equal(p.layers_off, 8);
    assert_int_equal(p.head, 0);
    p = placed(&s, &old, &room, 1, &plan);
    assert_int_equal(p.layers_off, 7);
    assert_int_equal(p.head, VR_ON_HOST);
    end_world(s.w);
}

/* One GPU alone when a model is foreseen to fit it, the roomiest; all of them with OLLAMA_SCHED_SPREAD. */
static void test_several(void **state)
{
    opened s = small_model_of(12, 4096);
    const asked q = { NULL, "1024", NULL, NULL, NULL, false },
                spread = { NULL, "1024", NULL, NULL, NULL, true };
    const asked old = { "0.20", "1024", NULL, NULL, NULL, false },
                old_spread = { "0.20", "1024", NULL, NULL, NULL, true };
    const uint64_t rooms[3] = { 4 * VR_GIB, 8 * VR_GIB, 6 * VR_GIB };
    vr_plan plan;
    (void)state;
    vr_placement p = placed(&s, &q, rooms, 3, &plan);
    assert_int_equal(sizes_of(&p)->device[0].model, 0);
    assert_true(sizes_of(&p)->device[1].model > 0);
    assert_int_equal(sizes_of(&p)->device[2].model, 0);
    p = placed(&s, &spread, rooms, 3, &plan);
    assert_true(sizes_of(&p)->device[0].model > 0 && sizes_of(&p)->device[2].model > 0);
    p = placed(&s, &old, rooms, 3, &plan);
    assert_int_equal(sizes_of(&p)->device[0].model, 0);
    assert_true(sizes_of(&p)->device[1].model > 0);
    p = placed(&s, &old_spread, rooms, 3, &plan);
    assert_true(sizes_of(&p)->device[1].model > 0);
    end_world(s.w);
}

static void test_versions(void **state)
{
    opened s = small_model_of(2, 4096);
    static const char *const bad[] = { "",     "0",      "1.0",    "b10470", "0.2.9",
                                       "0.33", "0.99.0", "latest", "0.1",    "0.x" };
    static const char *const good[] = { "0.3.0", "v0.32.15", "0.32", "0.24.0", "0.12" };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        vram_workload *w = NULL;
        assert_int_equal(vram_workload_new(&w, s.w->ctx, "ollama"), VRAM_OK);
        assert_int_equal(vram_workload_set(w, "engine_version", bad[i]), VRAM_ESETTING);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        vram_workload *w = NULL;
        assert_int_equal(vram_workload_new(&w, s.w->ctx, "ollama"), VRAM_OK);
        assert_int_equal(vram_workload_set(w, "engine_version", good[i]), VRAM_OK);
    }
    end_world(s.w);
}

/* Every allocation fails once. */
static vram_status starved(size_t i, const char *version, uint64_t room)
{
    opened s = small_model_of(2, 4096);
    const asked q = { version, "512", NULL, NULL, NULL, false };
    const vram_workload *w = workload(&s, &q);
    vr_device_facts facts = { .cc_major = 8, .cc_minor = 9, .available = room, .usable = room };
    vr_placement p;
    vr_plan plan;
    vr_arena a;
    vr_arena_init(&a, s.w->ctx);
    s.w->memory.fail_at = s.w->memory.n_calls + i;
    vram_status status = vr_engine_ollama.place(&p, s.m, w, &facts, 1, &a);
    facts.placement = &p;
    if (status == VRAM_OK)
        status = vr_engine_ollama.plan(&plan, s.m, w, &facts, &a);
    vr_arena_free(&a);
    s.w->memory.fail_at = 0;
    end_world(s.w);
    return status;
}

static void test_no_memory(void **state)
{
    static const char *const versions[] = { "0.32.15", "0.20", "0.9.6" };
    (void)state;
    for (size_t v = 0; v < 3; v++) {
        size_t i = 1;
        vram_status status;
        while ((status = starved(i, versions[v], VR_GIB + 300000)) != VRAM_OK && i++ < 10000)
            assert_int_equal(status, VRAM_ENOMEM);
        assert_int_equal(status, VRAM_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),     cmocka_unit_test(test_cpu),     cmocka_unit_test(test_counts),
        cmocka_unit_test(test_num_gpu),   cmocka_unit_test(test_several), cmocka_unit_test(test_versions),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
