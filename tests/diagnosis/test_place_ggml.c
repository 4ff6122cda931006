/* SPDX-License-Identifier: MIT
 * Which buffer of a small GGUF model was refused. By hand: a layer has 147,968 bytes of weights, the head is
 * the embedding once more, 65,536, and a norm of 256; a token keeps 4 layers x (K, V) x 2 heads x 16 x 2
 * bytes. */
#include "../llama/small.h"
#include "diagnosis/place.h"

#define LAYER 147968
#define HEAD (65536 + 256)
#define TOKEN 512

typedef struct message {
    opened s;
    vr_fact facts[4];
    vr_text_row row;
    vr_incident event;
    vr_finding f;
    struct vram_diagnosis d;
} message;

/* card: that was named, or NULL. */
static void explain_on(message *m, uint8_t program, uint8_t phase, uint64_t bytes, const char *context,
                       const char *card)
{
    vram_device *device;
    vram_workload *w;
    memset(m, 0, sizeof *m);
    m->s = small_model();
    vram_ctx *ctx = m->s.w->ctx;
    m->d.ctx = ctx;
    vr_arena_init(&m->d.arena, ctx);
    m->row.id = "test";
    m->row.phase = phase;
    m->facts[0] = (vr_fact){ .id = VR_FACT_BUFFER, .value = bytes };
    m->event.sign = (vr_sign){ .row = &m->row, .facts = { m->facts, 1 } };
    m->f = (vr_finding){ .event = &m->event, .program = program, .phase = phase };
    m->d.list = &m->f;
    m->d.n = 1;
    assert_int_equal(vram_workload_new(&w, ctx, NULL), VRAM_OK);
    if (context != NULL)
        assert_int_equal(vram_workload_set(w, "context", context), VRAM_OK);
    if (card != NULL) {
        assert_int_equal(vram_device_new(&device, ctx, card, 0), VRAM_OK);
        m->d.card = device;
    }
    expect_ok(m->s.w, vr_diagnose_place(&m->d, &m->f, m->s.m, w));
    assert_true(m->f.spot.tried);
}

static void explain(message *m, uint8_t program, uint8_t phase, uint64_t bytes, const char *context)
{
    explain_on(m, program, phase, bytes, context, NULL);
}

static void done(message *m)
{
    vr_arena_free(&m->d.arena);
    end_world(m->s.w);
}

static void test_weights(void **state)
{
    message m;
    (void)state;
    explain(&m, VR_PROGRAM_LLAMACPP, VR_PHASE_LOAD, 4 * LAYER + HEAD, NULL);
    assert_true(m.f.spot.found);
    assert_null(m.f.spot.assumed);
    assert_string_equal(m.f.spot.label, "the buffer of weights, 642.25 KiB");
    assert_int_equal(m.f.cause, VR_CAUSE_WEIGHTS);
    done(&m);
    /* -ngl 3: the output and two layers */
    explain(&m, VR_PROGRAM_LLAMACPP, VR_PHASE_LOAD, 2 * LAYER + HEAD, NULL);
    assert_true(m.f.spot.found);
    assert_string_equal(m.f.spot.assumed, "3 layers on the cards");
    done(&m);
}

static void test_cache(void **state)
{
    message m;
    (void)state;
    explain(&m, VR_PROGRAM_LLAMACPP, VR_PHASE_UNKNOWN, 1024 * TOKEN, "1024");
    assert_true(m.f.spot.found);
    assert_null(m.f.spot.assumed);
    assert_int_equal(m.f.phase, VR_PHASE_KV_CACHE);
    assert_string_equal(m.f.spot.label, "KV cache of 1,024 tokens");
    done(&m);
    explain(&m, VR_PROGRAM_LLAMACPP, VR_PHASE_KV_CACHE, 2560 * TOKEN, NULL);
    assert_true(m.f.spot.found);
    assert_string_equal(m.f.spot.assumed, "a context of 2,560 tokens");
    done(&m);
}

static void test_other(void **state)
{
    message m;
    (void)state;
    explain(&m, VR_PROGRAM_LLAMACPP, VR_PHASE_LOAD, 4 * LAYER + HEAD + 4096, NULL);
    assert_false(m.f.spot.found);
    assert_non_null(strstr(m.f.spot.not_found, "none of this model's buffers"));
    done(&m);
    explain(&m, VR_PROGRAM_OLLAMA, VR_PHASE_LOAD, 1, "1024");
    assert_false(m.f.spot.found);
    done(&m);
}

/* A log that says nothing of the card, which was named: a cache of 2 GiB of tokens on a card of 1 GiB. */
static void test_named(void **state)
{
    message m;
    const uint64_t tokens = 4 * VR_MIB;
    (void)state;
    explain_on(&m, VR_PROGRAM_LLAMACPP, VR_PHASE_KV_CACHE, tokens * TOKEN, "4194304", "1GiB");
    assert_true(m.f.spot.found);
    assert_true(m.f.missing_known);
    assert_true(m.f.missing_at_least >= VR_GIB);
    done(&m);
    explain(&m, VR_PROGRAM_LLAMACPP, VR_PHASE_KV_CACHE, tokens * TOKEN, "4194304");
    assert_true(m.f.spot.found);
    assert_false(m.f.missing_known);
    done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_weights), cmocka_unit_test(test_cache),
                                        cmocka_unit_test(test_other), cmocka_unit_test(test_named) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
