/* SPDX-License-Identifier: MIT
 * Whisper as a workload: what is filled in, what is kept of speech and of tokens, what is refused. Its passes
 * are held against recorded runs in test_oracle.c. */
#include "planned.h"

#define SPEECH                                                                                               \
    "{\"architectures\":[\"WhisperForConditionalGeneration\"],\"model_type\":\"whisper\","                   \
    "\"torch_dtype\":\"bfloat16\",\"d_model\":64,\"encoder_layers\":3,\"encoder_attention_heads\":2,"        \
    "\"encoder_ffn_dim\":96,\"decoder_layers\":2,\"decoder_attention_heads\":4,\"decoder_ffn_dim\":128,"     \
    "\"num_mel_bins\":40,\"max_source_positions\":100,\"max_target_positions\":32,\"vocab_size\":256"

/* keys and values of two layers of the decoder, 64 wide, in 16 bits */
#define A_POSITION (UINT64_C(2) * 2 * 64 * 2)

typedef struct filled {
    planned p;
    vram_workload *r;
    vram_status status;
} filled;

static void fill(filled *f, const char *const (*sets)[2])
{
    open_config(&f->p.w, SPEECH "}");
    vr_arena_init(&f->p.arena, f->p.w.ctx);
    for (size_t i = 0; sets[i][0] != NULL; i++)
        set(&f->p.w, sets[i][0], sets[i][1]);
    f->status = vr_workload_resolve(&f->r, f->p.w.w, f->p.w.m, &f->p.arena);
}

static void is_filled(const char *const (*sets)[2], uint64_t context, uint64_t decode)
{
    filled f;
    fill(&f, sets);
    assert_int_equal(f.status, VRAM_OK);
    assert_int_equal(f.r->context, context);
    assert_int_equal(f.r->decode, decode);
    close_planned(&f.p);
}

/* A transcription up to the last position of the decoder; what the user says counts. */
static void lengths(void **state)
{
    (void)state;
    is_filled((const char *const[][2]){ { NULL } }, 4, 28);
    is_filled((const char *const[][2]){ { "decode", "7" }, { NULL } }, 4, 7);
    is_filled((const char *const[][2]){ { "context", "9" }, { NULL } }, 9, 0);
    is_filled((const char *const[][2]){ { "engine", "vllm" }, { NULL } }, 32, 0);
}

static void logits(void **state)
{
    filled f;
    (void)state;
    fill(&f, (const char *const[][2]){ { NULL } });
    assert_int_equal(f.r->logits, VR_LOGITS_ALL);
    assert_int_equal(f.r->set_by[VR_SET_LOGITS], VR_BY_MODEL);
    close_planned(&f.p);
    fill(&f, (const char *const[][2]){ { "logits", "last" }, { NULL } });
    assert_int_equal(f.status, VRAM_ESETTING);
    close_planned(&f.p);
}

/* All that is taken with this label. */
static uint64_t taken_as(const vr_tape *t, const char *label)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < t->n; i++) {
        const vr_event *e = &t->events[i];
        sum += e->kind == VR_EV_ALLOC && vr_str_is(t->labels[e->label], label) ? e->bytes : 0;
    }
    return sum;
}

/* All logits are the class's own doing: nobody is told to leave them. */
static void drafts(void **state)
{
    static const char *const sets[][2][2] = { { { "prompt_lookup_num_tokens", "3" }, { NULL, NULL } },
                                              { { "assistant_model", "small" }, { NULL, NULL } } };
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        filled f;
        fill(&f, sets[i]);
        assert_int_equal(f.status, VRAM_ESETTING);
        assert_non_null(strstr(vram_last_error(f.p.w.ctx)->text, "with speech is not known"));
        close_planned(&f.p);
    }
}

static void caches(void **state)
{
    planned p;
    (void)state;
    open_config(&p.w, SPEECH "}");
    set(&p.w, "sequences", "3");
    set(&p.w, "prefill_batch", "2"); /* two batches: of two sequences, and of one */
    plan_it(&p, "5.17", 5, 6);
    assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_PREFILL), 3 * (100 + 5) * A_POSITION);
    assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_DECODE), 3 * (100 + 11) * A_POSITION);
    assert_int_equal(taken_as(&p.plan.tape, "frames of speech"), 3 * 200 * 40 * 2);
    assert_int_equal(taken_as(&p.plan.tape, "lm_head output"), 3 * (5 + 6) * 256 * 2); /* of every token */
    assert_int_equal(p.plan.kv_token, A_POSITION);
    assert_non_null(
        strstr(p.plan.formula[VR_KV_CACHE], "(100 positions of speech + 11 tokens) x 3 sequences"));
    assert_false(p.plan.verified); /* cuDNN's workspace is not counted */
    close_planned(&p);
}

/* Without a tape what is kept is counted all the same. */
static void caches_without_tape(void **state)
{
    planned p;
    (void)state;
    open_config(&p.w, SPEECH "}");
    set(&p.w, "quantization", "bnb-8bit");
    plan_it(&p, "5.17", 5, 6);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    assert_int_equal(kv_at_end(&p.plan.tape, VR_AT_RELEASED), (100 + 11) * A_POSITION);
    close_planned(&p);
}

/* An activation that is not known is not played. */
static void other_activation(void **state)
{
    planned p;
    (void)state;
    open_config(&p.w, SPEECH ",\"activation_function\":\"snake\"}");
    plan_it(&p, "5.17", 5, 6);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    close_planned(&p);
}

static void too_large(void **state)
{
    planned p;
    (void)state;
    open_config(&p.w, SPEECH "}");
    set(&p.w, "sequences", "1000000000000");
    set(&p.w, "context", "4");
    assert_int_equal(make_plan(&p.w, &ampere, &p.plan, &p.arena), VRAM_ELIMIT);
    close_planned(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths),
        cmocka_unit_test(logits),
        cmocka_unit_test(drafts),
        cmocka_unit_test(caches),
        cmocka_unit_test(caches_without_tape),
        cmocka_unit_test(other_activation),
        cmocka_unit_test(too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
