/* SPDX-License-Identifier: MIT
 * The way back: from the figures of a message and the model to the place of the run where it died. */
#include <stdio.h>

#include "place_world.h"

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
    assert_in_range(f->missing_at_least, HUNDREDTHS(10.00, VR_GIB), HUNDREDTHS(10.02, VR_GIB));
    assert_int_equal(f->n_remedies, 3);
    /* 5.985 GiB, which 5.99 is at least, are 49,029 tokens of 128 KiB: whole blocks of 16 */
    assert_string_equal(f->remedies[0].command, "--max-model-len 49024");
    assert_string_equal(f->remedies[1].command, "--kv-cache-dtype fp8 --max-model-len 98048");
    /* 8 GiB of cache on each of two cards, which have 7.5 GiB of weights less */
    assert_string_equal(f->remedies[2].command, "--tensor-parallel-size 2");
    assert_int_equal(f->remedies[2].needs, 8 * VR_GIB);
    close_place(&p);

    /* where the engine tells what fits, its own figure */
    open_place(&p, "llama-3.1-8b-instruct", NULL);
    p.finding.program = VR_PROGRAM_VLLM;
    say(&p, VR_FACT_MODEL_LENGTH, 131072, 0);
    say_in(&p, VR_FACT_KV_NEEDED, 16.0, VR_GIB);
    say_in(&p, VR_FACT_KV_AVAILABLE, 5.99, VR_GIB);
    say(&p, VR_FACT_LENGTH_THAT_FITS, 49056, 0);
    look(&p);
    assert_string_equal(f->remedies[0].command, "--max-model-len 49056");
    assert_string_equal(f->remedies[1].command, "--kv-cache-dtype fp8 --max-model-len 98112");
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

/* ---- there and back ---- */

typedef struct run {
    const char *model, *card, *dtype, *context;
    uint64_t available; /* 0: all of the card */
} run;

/* A run that dies, as `vram fit` foresees it, and its figures as PyTorch would print them. False: it lives.
 */
static bool dies(place_world *p, const run *r, vr_rehearsal *died, char label[128])
{
    vram_device *d;
    vram_fit *f;
    open_place(p, r->model, NULL);
    assert_int_equal(vram_workload_set(p->work, "dtype", r->dtype), VRAM_OK);
    assert_int_equal(vram_workload_set(p->work, "context", r->context), VRAM_OK);
    if (vram_device_new(&d, p->ctx, r->card, r->available) != VRAM_OK)
        return false;
    const vram_device *cards[] = { d };
    assert_int_equal(vram_fit_new(&f, p->model, p->work, cards, 1), VRAM_OK);
    *died = f->run;
    if (!f->run.failed || f->run.failure.outside)
        return false;
    const vr_live *live = &died->failure.live;
    vr_str name = f->plan.tape.labels[died->failure.label];
    say_printed(p, VR_FACT_REQUEST, died->failure.tried);
    say_printed(p, VR_FACT_TOTAL, d->usable.bytes);
    say_printed(p, VR_FACT_FREE, died->failure.driver_free);
    say_printed(p, VR_FACT_ALLOCATED, live->allocated);
    say_printed(p, VR_FACT_IDLE, live->reserved - live->allocated);
    assert_true(name.n < 128);
    memcpy(label, name.s, name.n);
    label[name.n] = '\0';
    return true;
}

static const char *const MODELS[] = { "qwen2.5-7b-instruct",   "llama-3.1-8b-instruct", "gemma-2-9b-it",
                                      "llama-3.2-3b-instruct", "gpt-oss-20b",           "deepseek-v2-lite" };
static const char *const CARDS[] = { "rtx-3060-12gb", "rtx-4090", "t4", "a100-sxm-40gb" };
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The same model comes back to the very request, another one never. */
static void there_and_back(const run *r, const char *other, unsigned *n)
{
    place_world p, q;
    vr_rehearsal died;
    char label[128];
    if (dies(&p, r, &died, label)) {
        look(&p);
        if (!p.finding.spot.found || p.finding.spot.assumed != NULL || p.finding.spot.places != 1 ||
            (label[0] != '\0' && strcmp(label, p.finding.spot.label) != 0))
            fail_msg("%s on %s in %s, %llu free: %s instead of %s", r->model, r->card, r->dtype,
                     (unsigned long long)r->available,
                     p.finding.spot.found ? p.finding.spot.label : p.finding.spot.not_found, label);
        (*n)++;
        open_place(&q, other, NULL);
        memcpy(q.facts, p.facts, sizeof q.facts);
        q.event.sign.facts.n = p.event.sign.facts.n;
        look(&q);
        if (q.finding.spot.found)
            fail_msg("%s is found in a message of %s: %s", other, r->model, q.finding.spot.label);
        assert_true(q.finding.spot.tried);
        assert_non_null(q.finding.spot.not_found);
        close_place(&q);
    }
    close_place(&p);
}

/* `step`: each of so many; 1: all of them. */
static unsigned sweep(size_t step)
{
    static const struct {
        const char *dtype, *context;
        uint64_t available;
    } ways[] = { { "auto", "4096", 0 }, { "float32", "2048", 0 }, { "float16", "8000", 7600123456 } };
    unsigned n = 0;
    size_t at = 0;
    for (size_t m = 0; m < COUNT(MODELS); m++)
        for (size_t c = 0; c < COUNT(CARDS); c++)
            for (size_t k = 0; k < COUNT(ways); k++) {
                if (at++ % step != 0)
                    continue;
                run r = { MODELS[m], CARDS[c], ways[k].dtype, ways[k].context, ways[k].available };
                there_and_back(&r, MODELS[(m + 1 + c) % COUNT(MODELS)], &n);
            }
    return n;
}

static void test_there_and_back(void **state)
{
    (void)state;
    assert_true(sweep(7) > 5);
}

static void test_all_there_and_back(void **state)
{
    (void)state;
    assert_true(sweep(1) > 40);
}

/* ---- what was not said ---- */

/* What ran is another run than the one that is asked about. */
static void test_assumed(void **state)
{
    place_world p, q;
    vr_rehearsal died;
    char label[128];
    const run r = { "llama-3.1-8b-instruct", "rtx-3060-12gb", "float32", "4096", 0 };
    (void)state;
    assert_true(dies(&p, &r, &died, label));
    open_place(&q, r.model, NULL);
    memcpy(q.facts, p.facts, sizeof q.facts);
    q.event.sign.facts.n = p.event.sign.facts.n;
    look(&q);
    assert_true(q.finding.spot.found);
    assert_string_equal(q.finding.spot.label, label);
    assert_non_null(strstr(q.finding.spot.assumed, "fp32"));
    close_place(&q);
    close_place(&p);
}

/* A vector of the program's own beside the model lies in a segment with the model's: that much less is idle.
 */
static void test_near(void **state)
{
    place_world p;
    vr_rehearsal died;
    char label[128];
    const run r = { "llama-3.1-8b-instruct", "rtx-3060-12gb", "auto", "4096", 0 };
    (void)state;
    assert_true(dies(&p, &r, &died, label));
    for (size_t i = 0; i < p.event.sign.facts.n; i++)
        if (p.facts[i].id == VR_FACT_IDLE)
            p.facts[i].value -= 32 * VR_KIB;
    look(&p);
    assert_true(p.finding.spot.found);
    assert_string_equal(p.finding.spot.label, label);
    assert_non_null(strstr(p.finding.spot.assumed, "small tensors"));
    assert_int_equal(p.finding.certainty, VR_CERTAINTY_LIKELY);
    close_place(&p);
}

/* A prompt whose length nobody said: what a token more asks for tells it. */
static void test_tokens(void **state)
{
    static const char *const lengths[] = { "7300", "16384", "12345" };
    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        place_world p, q;
        vr_rehearsal died;
        char label[128], grouped[16];
        const run r = { "mistral-7b-instruct-v0.3", "rtx-4060-ti-16gb", "auto", lengths[i], 0 };
        assert_true(dies(&p, &r, &died, label));
        open_place(&q, r.model, NULL);
        memcpy(q.facts, p.facts, sizeof q.facts);
        q.event.sign.facts.n = p.event.sign.facts.n;
        look(&q);
        assert_true(q.finding.spot.found);
        assert_string_equal(q.finding.spot.label, label);
        snprintf(grouped, sizeof grouped, "%.*s,%s", (int)strlen(lengths[i]) - 3, lengths[i],
                 lengths[i] + strlen(lengths[i]) - 3);
        assert_non_null(strstr(q.finding.spot.assumed, grouped));
        close_place(&q);
        close_place(&p);
    }
}

/* ---- hostile figures, and memory that runs out ---- */

static void test_hostile(void **state)
{
    static const uint64_t values[] = {
        0, 1, 511, 4096, 131072, VR_MIB, 130 * VR_MIB, 11 * VR_GIB, 12487617413, UINT64_MAX / 2, UINT64_MAX
    };
    static const vr_fact_id ids[3][5] = {
        { VR_FACT_REQUEST, VR_FACT_TOTAL, VR_FACT_FREE, VR_FACT_ALLOCATED, VR_FACT_IDLE },
        { VR_FACT_MODEL_LENGTH, VR_FACT_KV_NEEDED, VR_FACT_KV_AVAILABLE, VR_FACT_LENGTH_THAT_FITS,
          VR_FACT_KV_TOKENS },
        { VR_FACT_BUFFER, VR_FACT_DEVICE, VR_FACT_TOTAL, VR_FACT_FREE, VR_FACT_GPU },
    };
    static const uint8_t phases[] = { VR_PHASE_UNKNOWN, VR_PHASE_OPTIMIZER_STEP, VR_PHASE_LOAD };
    static const uint8_t programs[] = { VR_PROGRAM_UNKNOWN, VR_PROGRAM_SGLANG, VR_PROGRAM_LLAMACPP };
    unsigned dice = 7;
    (void)state;
    for (int round = 0; round < 300; round++) {
        place_world p;
        open_place(&p, "qwen2.5-1.5b-instruct", NULL);
        p.finding.phase = phases[round / 3 % 3];
        p.finding.program = programs[round % 3];
        for (size_t i = 0; i < 5; i++) {
            dice = dice * 1103515245 + 12345;
            say(&p, ids[round % 3][i], values[(dice >> 16) % COUNT(values)],
                (dice >> 8) % 2 == 0 ? VR_GIB / 200 : 0);
        }
        look(&p);
        close_place(&p);
    }
}

/* Settings that the engine refuses do not keep the text from being explained. */
static void test_refused(void **state)
{
    place_world p;
    (void)state;
    published(&p);
    assert_int_equal(vram_workload_set(p.work, "sequences", "2"), VRAM_OK);
    assert_int_equal(vram_workload_set(p.work, "prefill_batch", "3"), VRAM_OK);
    look(&p);
    assert_false(p.finding.spot.found);
    assert_non_null(strstr(p.finding.spot.not_found, "--prefill-batch"));
    close_place(&p);
}

/* Each request of memory that fails is out of memory, and nothing is left behind. */
static void starve(size_t thinned)
{
    size_t n_calls = 0;
    for (size_t at = 0; at == 0 || at < n_calls; at = at == 0 ? 1 : at + 1 + at / thinned) {
        place_world p;
        published(&p);
        size_t before = p.h.n_calls;
        p.h.fail_at = at == 0 ? 0 : before + at;
        vram_status s = vr_diagnose_place(&p.d, &p.finding, p.model, p.work);
        p.h.fail_at = 0;
        if (at == 0)
            n_calls = p.h.n_calls - before;
        assert_true(s == VRAM_OK || s == VRAM_ENOMEM);
        close_place(&p);
    }
}

static void test_starved(void **state)
{
    (void)state;
    starve(8);
}

static void test_starved_often(void **state)
{
    (void)state;
    starve(100);
}

/* Two cards and a device map: the second one is full, with a prompt of a length that nobody said. */
static void test_cards(void **state)
{
    static const char *const lengths[] = { "4096", "30000" };
    unsigned n = 0;
    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        place_world p, q;
        vram_device *d, *two = NULL;
        vram_fit *f;
        open_place(&p, "deepseek-r1-distill-qwen-14b", NULL);
        assert_int_equal(vram_workload_set(p.work, "device_map", "auto"), VRAM_OK);
        assert_int_equal(vram_workload_set(p.work, "context", lengths[i]), VRAM_OK);
        assert_int_equal(vram_device_new(&d, p.ctx, "2xrtx-4060-ti-16gb", 0), VRAM_OK);
        const vram_device *cards[] = { d };
        assert_int_equal(vram_fit_new(&f, p.model, p.work, cards, 1), VRAM_OK);
        for (size_t k = 0; k < f->n_ranks; k++) {
            const vram_fit *one = &f->ranks[k];
            const vr_live *live = &one->run.failure.live;
            if (!one->run.failed || one->run.failure.outside)
                continue;
            vr_str want = one->plan.tape.labels[one->run.failure.label];
            open_place(&q, "deepseek-r1-distill-qwen-14b", NULL);
            if (i == 0)
                assert_int_equal(vram_workload_set(q.work, "device_map", "auto"), VRAM_OK);
            else /* two cards were named: that speaks for one */
                assert_int_equal(vram_device_new(&two, q.ctx, "2xrtx-4060-ti-16gb", 0), VRAM_OK);
            q.d.card = two;
            say(&q, VR_FACT_GPU, k, 0);
            say_printed(&q, VR_FACT_REQUEST, one->run.failure.tried);
            say_printed(&q, VR_FACT_TOTAL, d->usable.bytes);
            say_printed(&q, VR_FACT_FREE, one->run.failure.driver_free);
            say_printed(&q, VR_FACT_ALLOCATED, live->allocated);
            say_printed(&q, VR_FACT_IDLE, live->reserved - live->allocated);
            look(&q);
            assert_true(q.finding.spot.found);
            assert_true(vr_str_is(want, q.finding.spot.label));
            assert_non_null(strstr(q.finding.spot.assumed, "over 2 cards"));
            n++;
            close_place(&q);
        }
        close_place(&p);
    }
    assert_true(n >= 3);
}

/* An engine that loads otherwise: 16 GB of weights on a card of 11.63 GiB, 10 GiB of them there already. */
static void test_serving(void **state)
{
    place_world p;
    (void)state;
    open_place(&p, "llama-3.1-8b-instruct", NULL);
    p.finding.phase = VR_PHASE_LOAD;
    p.finding.program = VR_PROGRAM_VLLM;
    say_in(&p, VR_FACT_REQUEST, 224.00, VR_MIB);
    say_in(&p, VR_FACT_TOTAL, 11.63, VR_GIB);
    say_in(&p, VR_FACT_FREE, 100.00, VR_MIB);
    say_in(&p, VR_FACT_ALLOCATED, 10.90, VR_GIB);
    say_in(&p, VR_FACT_IDLE, 90.00, VR_MIB);
    look(&p);
    assert_false(p.finding.spot.found);
    assert_non_null(p.finding.spot.not_found);
    /* 8,030,261,248 parameters x 2 are 14.96 GiB */
    assert_in_range(p.finding.missing_at_least, HUNDREDTHS(3.31, VR_GIB), HUNDREDTHS(3.34, VR_GIB));
    assert_int_equal(p.finding.cause, VR_CAUSE_WEIGHTS);
    close_place(&p);
}

/* ---- training ---- */

/* 3,212,749,824 parameters: weights, gradients and Adam in 16 bits are 23.94 GiB. */
static void test_training(void **state)
{
    place_world p;
    const vr_finding *f = &p.finding;
    (void)state;
    open_place(&p, "llama-3.2-3b-instruct", NULL);
    p.finding.phase = VR_PHASE_OPTIMIZER_STEP;
    say_in(&p, VR_FACT_REQUEST, 502.00, VR_MIB);
    say_in(&p, VR_FACT_TOTAL, 23.52, VR_GIB);
    say_in(&p, VR_FACT_FREE, 100.00, VR_MIB);
    say_in(&p, VR_FACT_ALLOCATED, 22.30, VR_GIB);
    say_in(&p, VR_FACT_IDLE, 190.00, VR_MIB);
    look(&p);
    assert_true(f->spot.found);
    assert_non_null(strstr(f->spot.matched, "11.97 GiB"));
    assert_non_null(strstr(f->spot.matched, "23.94 GiB"));
    assert_int_equal(f->certainty, VR_CERTAINTY_UNKNOWN); /* not by this alone */
    /* 23.94 - 22.30 - 0.10 - 0.19 */
    assert_in_range(f->missing_at_least, HUNDREDTHS(1.34, VR_GIB), HUNDREDTHS(1.37, VR_GIB));
    close_place(&p);
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_all_there_and_back),
                                        cmocka_unit_test(test_tokens), cmocka_unit_test(test_cards),
                                        cmocka_unit_test(test_starved_often) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),      cmocka_unit_test(test_pool),
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_assumed),
        cmocka_unit_test(test_near),           cmocka_unit_test(test_training),
        cmocka_unit_test(test_serving),        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_starved),        cmocka_unit_test(test_refused),
    };
    return argc > 1 && strcmp(argv[1], "all") == 0 ? run_all() : cmocka_run_group_tests(tests, NULL, NULL);
}
