/* SPDX-License-Identifier: MIT
 * One more plain family costs one row of data/architectures.tsv: linked with a table that has two more
 * (one_more_row.awk), the same library reads, counts and rehearses them. */
#include "made.h"

static shape small(const char *model_type)
{
    return (shape){ .model_type = model_type,
                    .layers = 3,
                    .hidden = 192,
                    .heads = 6,
                    .kv_heads = 2,
                    .head_dim = 32,
                    .ffn = 320,
                    .vocab = 512 };
}

static void open_planned(world *w, const char *model_type, vr_plan *plan, vr_arena *a)
{
    shape s = small(model_type);
    open_world(w, &s);
    set(w, "attention", "sdpa");
    set_number(w, "context", 33);
    set_number(w, "sequences", 2);
    set_number(w, "decode", 2);
    assert_int_equal(make_plan(w, &ampere, plan, a), VRAM_OK);
}

static void close_planned(world *w, vr_arena *a)
{
    vr_arena_free(a);
    close_world(w);
}

/* Described as llama is, it takes what llama takes, event by event; but nobody has held it against a run. */
static void twin(void **state)
{
    world llama, own;
    vr_plan of_llama, of_own;
    vr_arena a, b;
    (void)state;
    open_planned(&llama, "llama", &of_llama, &a);
    open_planned(&own, "twin", &of_own, &b);
    assert_string_equal(own.m->family->class_name, "TwinForCausalLM");
    assert_int_equal(own.m->kv_bytes_per_token_16bit, 3 * 2 * 2 * 32 * 2);
    assert_int_equal(own.m->declared_parameters, llama.m->declared_parameters);
    assert_int_equal(of_own.tape.n, of_llama.tape.n);
    for (size_t i = 0; i < of_own.tape.n; i++) {
        const vr_event *x = &of_own.tape.events[i], *y = &of_llama.tape.events[i];
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->bytes, y->bytes);
        assert_int_equal(x->block, y->block);
    }
    for (int c = 0; c < VR_CATEGORY_COUNT; c++)
        assert_true(of_own.counted[c]);
    assert_false(of_own.verified);
    close_planned(&own, &b);
    close_planned(&llama, &a);
}

/* Of every word in a row: sizes by hand. */
static void mixture(void **state)
{
    world w = { .h = { 0 } };
    vr_plan plan;
    vr_arena a;
    uint64_t kv = 0;
    uint64_t q = 192, k = 64, h = 192, f = 320;
    uint64_t layer = h * (q + 2 * k) + q + 2 * k + q * h + q + k + 2 * h * f + 2 * h;
    (void)state;
    shape s = small("mixture");
    s.config = ", \"depth\": 2";
    make_config(&w, &s);
    w.list = calloc(1, sizeof(*w.list));
    assert_int_equal(vram_open(&w.ctx, hook_alloc, &w.h), VRAM_OK);
    assert_int_equal(vram_checkpoint_new(&w.ck, w.ctx, "made"), VRAM_OK);
    assert_int_equal(vram_checkpoint_add_file(w.ck, "config.json", strlen(w.config)), VRAM_OK);
    assert_int_equal(vram_checkpoint_listed(w.ck), VRAM_OK);
    assert_int_equal(read_world(&w), VRAM_OK);
    assert_int_equal(vram_model_new(&w.m, w.ck), VRAM_OK);
    assert_int_equal(vram_workload_new(&w.w, w.ctx, NULL), VRAM_OK);
    assert_int_equal(w.m->n_layers, 2); /* its own name for it wins */
    assert_int_equal(w.m->declared_parameters, 2 * layer + 2 * 512 * h + h);
    set(&w, "attention", "eager");
    set_number(&w, "context", 16);
    assert_int_equal(make_plan(&w, &ampere, &plan, &a), VRAM_OK);
    for (int c = 0; c < VR_CATEGORY_COUNT; c++)
        assert_true(plan.counted[c]);
    for (size_t i = 0; i < plan.tape.n; i++) {
        const vr_event *e = &plan.tape.events[i];
        kv += e->kind == VR_EV_ALLOC && e->item == VR_ITEM_KV ? e->bytes : 0;
    }
    assert_int_equal(kv, 2 * 2 * 16 * k * 2); /* both of 2 layers, 16 tokens */
    vr_arena_free(&a);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(twin), cmocka_unit_test(mixture) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
