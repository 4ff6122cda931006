/* SPDX-License-Identifier: MIT
 * Experts on the tape: what merging them takes while loading, what depends on which expert takes which token,
 * and what the plan says of it. Event by event they are held against recorded runs in test_oracle.c. */
#include "planned.h"

#define WIDTHS                                                                                               \
    "\"torch_dtype\":\"bfloat16\",\"hidden_size\":1024,\"num_hidden_layers\":2,\"num_attention_heads\":16,"  \
    "\"vocab_size\":2048,\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":512"
#define QWEN3_MOE "{\"model_type\":\"qwen3_moe\",\"num_key_value_heads\":4," WIDTHS "}"
#define GPT_OSS "{\"model_type\":\"gpt_oss\",\"num_key_value_heads\":8,\"intermediate_size\":512," WIDTHS "}"

#define PART (UINT64_C(1024) * 512 * 2) /* a gate, an up, a down of one expert */

static void open_experts(planned *p, const char *config, const char *version)
{
    open_config(&p->w, config);
    set(&p->w, "engine_version", version);
    set_number(&p->w, "context", 64);
}

static void plan_experts(planned *p)
{
    if (make_plan(&p->w, &ampere, &p->plan, &p->arena) != VRAM_OK)
        fail_msg("%s", vram_last_error(p->w.ctx)->text);
}

typedef struct sums {
    uint64_t peak, end; /* requested bytes up to the mark */
} sums;

/* Without the loader's warm-up block. */
static sums up_to(const vr_tape *t, vr_moment_id at)
{
    uint64_t *bytes = calloc(t->n_blocks + 1, sizeof *bytes);
    sums s = { 0, 0 };
    assert_non_null(bytes);
    for (size_t i = 0; i < t->n; i++) {
        const vr_event *e = &t->events[i];
        if (e->kind == VR_EV_MARK && e->bytes == at)
            break;
        if (e->kind == VR_EV_ALLOC && e->item != VR_ITEM_WARMUP)
            s.end += bytes[e->block] = e->bytes;
        if (e->kind == VR_EV_RELEASE)
            s.end -= bytes[e->block];
        s.peak = s.end > s.peak ? s.end : s.peak;
    }
    free(bytes);
    return s;
}

/* While the gates and ups of the last layer are put together their two stacks are there beside the result:
 * core_model_loading.py, Concatenate. What of the model comes after the last layer's experts is not there
 * yet: its attention and norms, the norm, the head and the buffers. */
static void merging(void **state)
{
    planned p;
    (void)state;
    open_experts(&p, QWEN3_MOE, "5.17");
    set(&p.w, "device_map", "auto");
    plan_experts(&p);
    sums s = up_to(&p.plan.tape, VR_AT_LOADED);
    uint64_t extra = s.peak - s.end;
    assert_true(extra <= 2 * 8 * PART);
    assert_true(extra + UINT64_C(4) * 1024 * 1024 * 4 > 2 * 8 * PART);
    close_planned(&p);
    /* each expert for itself needs nothing beside */
    open_experts(&p, QWEN3_MOE, "4.57");
    set(&p.w, "device_map", "auto");
    plan_experts(&p);
    s = up_to(&p.plan.tape, VR_AT_LOADED);
    assert_int_equal(s.peak, s.end);
    close_planned(&p);
}

static sums pass(const char *config, const char *version, const char *load, vr_plan *plan)
{
    planned p;
    open_experts(&p, config, version);
    set_number(&p.w, "context", 4096);
    if (strcmp(config, GPT_OSS) == 0)
        set(&p.w, "attention", "eager");
    set(&p.w, "expert_load", load);
    plan_experts(&p);
    sums s = up_to(&p.plan.tape, VR_AT_PREFILL);
    *plan = p.plan;
    plan->formula[VR_ACTIVATIONS] =
        strstr(p.plan.formula[VR_ACTIVATIONS], "spread evenly") != NULL ? "" : NULL;
    close_planned(&p);
    return s;
}

static void load(void **state)
{
    static const struct {
        const char *config, *version;
        bool matters;
    } cases[] = {
        { QWEN3_MOE, "4.57", true }, { QWEN3_MOE, "5.17", false }, { QWEN3_MOE, "5.24", false },
        { GPT_OSS, "4.57", false },  { GPT_OSS, "5.24", false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vr_plan even, same;
        sums a = pass(cases[i].config, cases[i].version, "even", &even);
        sums b = pass(cases[i].config, cases[i].version, "same", &same);
        assert_int_equal(a.peak != b.peak, cases[i].matters);
        assert_int_equal(even.above_permille != 0, cases[i].matters);
        assert_int_equal(even.verified, !cases[i].matters);
        assert_int_equal(even.formula[VR_ACTIVATIONS] != NULL, cases[i].matters);
        assert_int_equal(a.end, b.end);
    }
}

/* The same three ways as the recorded runs; transformers 4 has the loop alone. */
static void implementations(void **state)
{
    static const struct {
        const char *word, *version;
        uint8_t means;
    } cases[] = {
        { NULL, "5.17", VR_EXPERTS_GROUPED },  { "grouped_mm", "5.17", VR_EXPERTS_GROUPED },
        { "eager", "5.24", VR_EXPERTS_EAGER }, { "batched_mm", "5.24", VR_EXPERTS_BATCHED },
        { NULL, "4.57", VR_EXPERTS_EAGER },    { "eager", "4.57", VR_EXPERTS_EAGER },
        { "batched_mm", "4.57", UINT8_MAX },   { "grouped_mm", "4.57", UINT8_MAX },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        planned p;
        vram_workload *resolved;
        open_experts(&p, QWEN3_MOE, cases[i].version);
        if (cases[i].word != NULL)
            set(&p.w, "experts_implementation", cases[i].word);
        vr_arena_init(&p.arena, p.w.ctx);
        vram_status s = vr_workload_resolve(&resolved, p.w.w, p.w.m, &p.arena);
        assert_int_equal(s, cases[i].means == UINT8_MAX ? VRAM_ESETTING : VRAM_OK);
        if (s == VRAM_OK)
            assert_int_equal(resolved->experts, cases[i].means);
        close_planned(&p);
    }
}

/* sdpa cannot compute sinks, so that classes that have them refuse it (modeling_gpt_oss.py,
 * modeling_mimo_v2_flash.py, _supports_sdpa): it is not taken, and refused when asked for. */
static void sinks(void **state)
{
    static const char *const configs[] = { GPT_OSS, "{\"model_type\":\"mimo_v2_flash\"}" };
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        planned p;
        vram_workload *resolved;
        open_experts(&p, configs[i], "5.17");
        vr_arena_init(&p.arena, p.w.ctx);
        assert_int_equal(vr_workload_resolve(&resolved, p.w.w, p.w.m, &p.arena), VRAM_OK);
        assert_int_equal(resolved->attention, VR_IMPL_EAGER);
        set(&p.w, "attention", "sdpa");
        assert_int_equal(vr_workload_resolve(&resolved, p.w.w, p.w.m, &p.arena), VRAM_ESETTING);
        assert_non_null(strstr(vram_last_error(p.w.ctx)->text, "whose attention has sinks"));
        close_planned(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging),
        cmocka_unit_test(load),
        cmocka_unit_test(implementations),
        cmocka_unit_test(sinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
