/* SPDX-License-Identifier: MIT
 * The way back: from the figures of a message and the model to the place of the run where it died. */
#include "place_world.h"

#define HUNDREDTHS(x, unit) ((uint64_t)((x)*100.0 + 0.5) * (unit) / 100)

static void say_in(place_world *p, vr_fact_id id, double x, uint64_t unit)
{
    say(p, id, HUNDREDTHS(x, unit), unit / 200 + 1);
}

/* The published run of Qwen2.5-Coder-7B on an RTX 3060, whose own traceback names the tensor. */
static void published(place_world *p)
{
    open_place(p, "qwen2.5-7b-instruct", NULL);
    say_in(p, VR_FACT_REQUEST, 130.00, VR_MIB);
    say_in(p, VR_FACT_TOTAL, 11.63, VR_GIB);
    say_in(p, VR_FACT_FREE, 30.88, VR_MIB);
    say_in(p, VR_FACT_THIS_PROCESS, 11.54, VR_GIB);
    say_in(p, VR_FACT_ALLOCATED, 11.34, VR_GIB);
    say_in(p, VR_FACT_IDLE, 105.47, VR_MIB);
}

static void test_published(void **state)
{
    place_world p;
    const vr_spot *spot = &p.finding.spot;
    (void)state;
    published(&p);
    look(&p);
    assert_true(spot->found);
    assert_string_equal(spot->label, "model.layers.23.mlp.down_proj.weight");
    assert_int_equal(spot->places, 1);
    assert_null(spot->assumed);
    assert_int_equal(spot->loaded_permille, 800);
    /* 15.23 GB of weights on a card of 11.63 GiB */
    assert_true(spot->weights_alone);
    assert_int_equal((spot->short_bytes * 100 + VR_GIB / 2) / VR_GIB, 255);
    assert_int_equal((spot->short_bytes * 100 + VR_GB / 2) / VR_GB, 274);
    assert_int_equal(p.finding.cause, VR_CAUSE_WEIGHTS);
    assert_int_equal(p.finding.certainty, VR_CERTAINTY_CERTAIN);
    assert_int_equal(p.finding.phase, VR_PHASE_LOAD);
    /* What is free and idle holds this tensor; what the segments' rounding took before it, three small
     * matrices more: 161 MiB, which is 129.5 + 24.5 + 3.5 + 3.5 and some vectors. */
    assert_non_null(strstr(spot->expandable, "this tensor and 3 more matrices"));
    assert_non_null(strstr(spot->expandable, "161.02 MiB"));
    assert_string_equal(spot->expandable_label, "model.layers.24.self_attn.o_proj.weight");
    close_place(&p);
}

/* vLLM: 131,072 tokens x 32 layers x (K, V) x 8 heads x 128 x 2 B are 16 GiB; the pool has 5.99. */
static void refusal(place_world *p, double needed, double has)
{
    open_place(p, "llama-3.1-8b-instruct", NULL);
    p->finding.program = VR_PROGRAM_VLLM;
    say(p, VR_FACT_MODEL_LENGTH, 131072, 0);
    say_in(p, VR_FACT_KV_NEEDED, needed, VR_GIB);
    say_in(p, VR_FACT_KV_AVAILABLE, has, VR_GIB);
    look(p);
}

static void test_pool(void **state)
{
    place_world p;
    const vr_finding *f = &p.finding;
    (void)state;
    refusal(&p, 16.0, 5.99);
    assert_true(f->spot.found);
    assert_null(f->spot.assumed);
    assert_in_range(f->missing_at_least, HUNDREDTHS(10.00, VR_GIB), HUNDREDTHS(10.01, VR_GIB));
    assert_int_equal(f->n_remedies, 2);
    /* 5.985 GiB, which 5.99 is at least, are 49,029 tokens of 128 KiB: whole blocks of 16 */
    assert_string_equal(f->remedies[0].command, "--max-model-len 49024");
    assert_string_equal(f->remedies[1].command, "--kv-cache-dtype fp8 --max-model-len 98048");
    close_place(&p);

    refusal(&p, 4.0, 1.0); /* a quarter of it on each of four cards */
    assert_true(f->spot.found);
    assert_non_null(strstr(f->spot.assumed, "4 cards"));
    assert_string_equal(f->remedies[0].command, "--max-model-len 32592"); /* 0.995 GiB of 32 KiB */
    close_place(&p);

    refusal(&p, 28.0, 5.99); /* 224 KiB a token: not this model */
    assert_false(f->spot.found);
    assert_non_null(strstr(f->spot.not_found, "16.00 GiB"));
    close_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_published), cmocka_unit_test(test_pool) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
