/* SPDX-License-Identifier: MIT
 * What was said beside the message: the card, and a model that the message contradicts. */
#include "place_world.h"

/* ---- the card that was named ---- */

static void name_card(place_world *p, const char *card, uint64_t available)
{
    vram_device *d;
    assert_int_equal(vram_device_new(&d, p->ctx, card, available), VRAM_OK);
    p->d.card = d;
}

static size_t warnings(const place_world *p)
{
    const vram_warning *w;
    return vram_warnings(p->ctx, &w);
}

static void look_with_card(place_world *p, const char *card)
{
    published(p);
    name_card(p, card, 0);
    look(p);
    assert_true(p->finding.spot.found);
    assert_string_equal(p->finding.spot.label, "model.layers.23.mlp.down_proj.weight");
}

/* A text that prints a total is right about it: the card that it cannot be is warned of with both figures. */
static void test_named(void **state)
{
    place_world p;
    const vram_warning *w;
    (void)state;
    look_with_card(&p, "rtx-3060-12gb");
    assert_int_equal(warnings(&p), 0);
    close_place(&p);
    look_with_card(&p, "rtx-4090");
    assert_int_equal(vram_warnings(p.ctx, &w), 1);
    assert_non_null(strstr(w[0].text, "11.63 GiB"));
    assert_non_null(strstr(w[0].text, "23.52 GiB"));
    assert_int_equal(p.finding.certainty, VR_CERTAINTY_CERTAIN);
    close_place(&p);
}

/* The same message of a version that prints no total and nothing of what is free. */
static void test_named_total(void **state)
{
    place_world p;
    (void)state;
    open_place(&p, "qwen2.5-7b-instruct", NULL);
    say_in(&p, VR_FACT_REQUEST, 130.00, VR_MIB);
    say_in(&p, VR_FACT_ALLOCATED, 11.34, VR_GIB);
    say_in(&p, VR_FACT_IDLE, 105.47, VR_MIB);
    look(&p);
    assert_false(p.finding.spot.tried); /* nothing is known of the card */
    name_card(&p, "rtx-3060-12gb", 0);
    look(&p);
    assert_true(p.finding.spot.found);
    assert_string_equal(p.finding.spot.label, "model.layers.23.mlp.down_proj.weight");
    close_place(&p);
}

/* "CUDA error: out of memory" and no more, while weights of 14.19 GiB are loaded. */
static void bare(place_world *p, const char *card, uint64_t available)
{
    open_place(p, "qwen2.5-7b-instruct", NULL);
    p->finding.memory = VR_MEMORY_GPU;
    p->finding.phase = VR_PHASE_LOAD;
    p->finding.cause = VR_CAUSE_WEIGHTS;
    p->finding.certainty = VR_CERTAINTY_LIKELY;
    name_card(p, card, available);
    look(p);
}

static void test_bare(void **state)
{
    place_world p;
    const vr_finding *f = &p.finding;
    (void)state;
    bare(&p, "rtx-3060-12gb", 0);
    assert_true(f->spot.found);
    assert_int_equal(f->spot.loaded_permille, 800); /* as the published run says */
    assert_in_range(f->missing_at_least, HUNDREDTHS(2.54, VR_GIB), HUNDREDTHS(2.57, VR_GIB));
    assert_int_equal(f->certainty, VR_CERTAINTY_LIKELY); /* the text does not confirm it */
    assert_non_null(strstr(f->spot.assumed, "all of it free"));
    close_place(&p);

    bare(&p, "rtx-4090", 0); /* 23.52 GiB hold the whole run: then it was not this one alone */
    assert_false(f->spot.found);
    assert_non_null(strstr(f->spot.not_found, "to spare"));
    assert_int_equal(f->certainty, VR_CERTAINTY_POSSIBLE);
    assert_int_equal(f->n_remedies, 0);
    close_place(&p);

    bare(&p, "rtx-4090", 10 * VR_GIB); /* unless other programs hold more than half of it */
    assert_true(f->spot.found);
    assert_null(strstr(f->spot.assumed, "all of it free"));
    close_place(&p);
}

/* PyTorch prints figures when it refuses weights: a message without any is of a call beside its allocator,
 * whatever becomes of the run. */
static void test_beside(void **state)
{
    place_world p;
    (void)state;
    open_place(&p, "qwen2.5-7b-instruct", NULL);
    p.finding.memory = VR_MEMORY_GPU;
    p.finding.phase = VR_PHASE_LOAD;
    p.finding.cause = VR_CAUSE_OTHER_PROCESS;
    p.finding.certainty = VR_CERTAINTY_POSSIBLE;
    name_card(&p, "rtx-3060-12gb", 0);
    look(&p);
    assert_false(p.finding.spot.found);
    assert_int_equal(p.finding.cause, VR_CAUSE_OTHER_PROCESS);
    assert_int_equal(p.finding.certainty, VR_CERTAINTY_POSSIBLE);
    assert_non_null(strstr(p.finding.spot.not_found, "would have figures"));
    assert_true(p.finding.missing_known); /* 2.55 GiB of weights, all the same */
    close_place(&p);
}

/* What was seen, in words, has no message at all. 3,212,749,824 parameters x 8 bytes are 23.94 GiB. */
static void test_words(void **state)
{
    place_world p;
    const vr_finding *f = &p.finding;
    (void)state;
    open_place(&p, "llama-3.2-3b-instruct", NULL);
    p.finding.event = NULL;
    p.finding.memory = VR_MEMORY_GPU;
    p.finding.phase = VR_PHASE_OPTIMIZER_STEP;
    p.finding.cause = VR_CAUSE_OPTIMIZER_STATES;
    look(&p);
    assert_false(f->spot.tried); /* no card */
    name_card(&p, "rtx-4090", 0);
    look(&p);
    assert_non_null(strstr(f->evidence[0].text, "23.94 GiB"));
    assert_in_range(f->missing_at_least, HUNDREDTHS(0.41, VR_GIB), HUNDREDTHS(0.43, VR_GIB));
    assert_non_null(strstr(f->tell, "--params 3212749824"));
    close_place(&p);
}

/* 2.67 GiB asked for, 2.60 free and 2.81 idle look like pieces; but the run needs 20 GiB more than there is.
 */
static void test_not_pieces(void **state)
{
    place_world p;
    const vr_finding *f = &p.finding;
    (void)state;
    open_place(&p, "llama-3.1-8b-instruct", NULL);
    say_in(&p, VR_FACT_REQUEST, 2.67, VR_GIB);
    say_in(&p, VR_FACT_TOTAL, 23.52, VR_GIB);
    say_in(&p, VR_FACT_FREE, 2.60, VR_GIB);
    say_in(&p, VR_FACT_ALLOCATED, 17.69, VR_GIB);
    say_in(&p, VR_FACT_IDLE, 2.81, VR_GIB);
    p.finding.cause = VR_CAUSE_RUNTIME_OVERHEAD;
    p.finding.sub_cause = "fragmentation";
    p.finding.certainty = VR_CERTAINTY_LIKELY;
    look(&p);
    assert_true(f->spot.found);
    assert_int_equal(f->cause, VR_CAUSE_ACTIVATIONS);
    assert_null(f->sub_cause);
    assert_true(f->missing_at_least > 2 * HUNDREDTHS(2.81, VR_GIB));
    assert_non_null(strstr(f->spot.expandable, "2.81 GiB is idle"));
    close_place(&p);
}

/* ---- a model that contradicts the message ---- */

static void look_as_load(place_world *p, const char *model)
{
    vr_fact facts[MOST_FACTS];
    published(p);
    size_t n = p->event.sign.facts.n;
    memcpy(facts, p->facts, sizeof facts);
    close_place(p);
    open_place(p, model, NULL);
    memcpy(p->facts, facts, sizeof facts);
    p->event.sign.facts.n = n;
    p->finding.phase = VR_PHASE_LOAD;
    p->finding.memory = VR_MEMORY_GPU;
    p->finding.cause = VR_CAUSE_WEIGHTS;
    p->finding.certainty = VR_CERTAINTY_CERTAIN;
}

/* 1,543,714,304 parameters are 5.75 GiB in fp32, the widest type; 11.34 GiB is live. */
static void test_other_model(void **state)
{
    place_world p;
    const vr_finding *f = &p.finding;
    (void)state;
    look_as_load(&p, "qwen2.5-1.5b-instruct");
    look(&p);
    assert_false(f->spot.found);
    assert_non_null(f->spot.not_found);
    assert_int_equal(f->certainty, VR_CERTAINTY_POSSIBLE);
    assert_non_null(strstr(f->summary, "5.75 GiB"));
    assert_non_null(strstr(f->evidence[0].text, "11.34 GiB"));
    assert_non_null(f->tell);
    close_place(&p);
}

/* 3,212,749,824 parameters are 5.98 GiB in 16 bits, which has room, and 11.97 GiB in fp32, which has not. */
static void test_wider_type(void **state)
{
    place_world p;
    const vr_finding *f = &p.finding;
    (void)state;
    look_as_load(&p, "llama-3.2-3b-instruct");
    look(&p);
    assert_int_equal(f->cause, VR_CAUSE_WEIGHTS);
    assert_int_equal(f->certainty, VR_CERTAINTY_LIKELY);
    assert_string_equal(f->sub_cause, "fp32_or_upcast");
    assert_non_null(strstr(f->summary, "11.97 GiB"));
    close_place(&p);
}

/* 2 GiB is live of a model of 2.88 GiB, and the card has 11.63: 9 GiB are not of this process. */
static void test_others_hold(void **state)
{
    place_world p;
    const vr_finding *f = &p.finding;
    (void)state;
    look_as_load(&p, "qwen2.5-1.5b-instruct");
    p.facts[0] = (vr_fact){ .id = VR_FACT_REQUEST, .value = 66 * VR_MIB, .slack = VR_MIB / 200 };
    for (size_t i = 0; i < p.event.sign.facts.n; i++)
        if (p.facts[i].id == VR_FACT_ALLOCATED)
            p.facts[i].value = 2 * VR_GIB;
    look(&p);
    assert_false(f->spot.found);
    assert_int_equal(f->cause, VR_CAUSE_OTHER_PROCESS);
    assert_int_equal(f->certainty, VR_CERTAINTY_LIKELY);
    close_place(&p);
}

/* Of processes that each have a card of their own, "GPU 1" says nothing of a model spread over two. */
static void test_ranks(void **state)
{
    place_world p;
    (void)state;
    published(&p);
    say(&p, VR_FACT_GPU, 1, 0);
    p.event.sign.rank = 1;
    p.facts[0].value += 64 * VR_MIB; /* nowhere in this run */
    look(&p);
    assert_false(p.finding.spot.found);
    close_place(&p);
    published(&p);
    say(&p, VR_FACT_GPU, 1, 0);
    p.event.sign.rank = 1;
    look(&p);
    assert_true(p.finding.spot.found);
    assert_null(p.finding.spot.assumed);
    close_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named),       cmocka_unit_test(test_named_total),
        cmocka_unit_test(test_bare),        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_words),       cmocka_unit_test(test_not_pieces),
        cmocka_unit_test(test_other_model), cmocka_unit_test(test_wider_type),
        cmocka_unit_test(test_others_hold), cmocka_unit_test(test_ranks)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
