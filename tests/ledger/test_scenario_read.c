/* SPDX-License-Identifier: MIT
 * Scenario files and wrong settings: side by side, flags over the file, and every refusal with file, offset
 * and reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "scenario_world.h"

static vram_status read_text(world *w, const char *json)
{
    return vram_scenario_read(w->s, "plans.json", json, strlen(json));
}

/* The four published scenarios in one document; keys beside the list hold for all that do not set them. */
static const char FOUR[] =
    "{ \"params\": 7e9, \"context\": 4096, \"kv_bytes_per_token\": 524288, \"gpu_memory_gib\": [24, 80],\n"
    "  \"scenarios\": [\n"
    "    {\"name\": \"serve x1 FP16\", \"overhead\": 0.2},\n"
    "    {\"name\": \"serve x16 FP16\", \"sequences\": 16, \"overhead\": 0.2},\n"
    "    {\"name\": \"serve x16 INT4\", \"sequences\": 16, \"overhead\": 0.2, \"weight_bytes\": \"int4\"},\n"
    "    {\"name\": \"train\", \"mode\": \"train\"} ] }";

static void test_side_by_side(void **state)
{
    static const uint64_t tenths[4] = { 176, 476, 359, 1043 };
    static const vram_verdict in_24[4] = { VRAM_FITS, VRAM_DOES_NOT_FIT, VRAM_DOES_NOT_FIT,
                                           VRAM_DOES_NOT_FIT };
    static const vram_verdict in_80[4] = { VRAM_FITS, VRAM_FITS, VRAM_FITS, VRAM_DOES_NOT_FIT };
    world w;
    (void)state;
    open_world(&w);
    assert_int_equal(read_text(&w, FOUR), VRAM_OK);
    assert_int_equal(vram_scenario_solve(w.s), VRAM_OK);
    assert_int_equal(w.s->n_results, 4);
    for (size_t i = 0; i < 4; i++) {
        const vr_scenario_result *r = &w.s->results[i];
        assert_int_equal(vr_mul_div(r->ledger.required, 10, VR_GIB), tenths[i]);
        assert_int_equal(r->cards[0].verdict, in_24[i]);
        assert_int_equal(r->cards[1].verdict, in_80[i]);
    }
    assert_string_equal(w.s->results[2].numbers.name, "serve x16 INT4");
    assert_int_equal(vram_scenario_verdict(w.s), VRAM_DOES_NOT_FIT);
    close_world(&w);
}

static void test_one_object(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    assert_int_equal(
        read_text(&w, "{\"params\": \"7B\", \"gpu_memory_gib\": \"24,80\", \"context\": \"4K\"}"), VRAM_OK);
    assert_int_equal(vram_scenario_solve(w.s), VRAM_OK);
    assert_int_equal(w.s->n_results, 1);
    assert_null(w.s->results[0].numbers.name);
    assert_int_equal(w.s->results[0].n_cards, 2);
    assert_int_equal(w.s->results[0].numbers.context, 4096);
    close_world(&w);
}

static void test_flags_win(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    assert_int_equal(read_text(&w, FOUR), VRAM_OK);
    assert_int_equal(vram_scenario_set(w.s, "context", "8192"), VRAM_OK);
    assert_int_equal(vram_scenario_set(w.s, "gpu_memory_gib", "48"), VRAM_OK);
    assert_int_equal(vram_scenario_solve(w.s), VRAM_OK);
    assert_int_equal(w.s->results[0].ledger.category[VR_KV_CACHE].bytes, 4 * VR_GIB);
    assert_int_equal(w.s->results[1].n_cards, 1);
    assert_int_equal(w.s->results[1].cards[0].bytes, 48 * VR_GIB);
    close_world(&w);
}

static void test_nameless_scenarios_are_numbered(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    assert_int_equal(read_text(&w, "{\"scenarios\": [{\"params\": 1}, {\"params\": 2, \"name\": \"two\"}]}"),
                     VRAM_OK);
    assert_int_equal(vram_scenario_solve(w.s), VRAM_OK);
    assert_string_equal(w.s->results[0].numbers.name, "scenario 1");
    assert_string_equal(w.s->results[1].numbers.name, "two");
    close_world(&w);
}

/* ---- refusals ---- */

typedef struct refusal {
    const char *json;
    const char *at; /* the error's offset is where this begins */
    const char *text;
    vram_status code;
} refusal;

static void test_damaged_files(void **state)
{
    static const refusal cases[] = {
        { "", "", NULL, VRAM_EFORMAT },
        { "[]", "[]", "a scenario file is an object", VRAM_EFORMAT },
        { "{\"params\": 7e9,}", "}", NULL, VRAM_EFORMAT },
        { "{\"prams\": 7e9}", "\"prams", "unknown key 'prams', did you mean 'params'?", VRAM_EFORMAT },
        { "{\"zzzzzzzz\": 7e9}", "\"zzz", "unknown key 'zzzzzzzz'", VRAM_EFORMAT },
        { "{\"params\": 7, \"params\": 8}", "\"params\": 8", "the key 'params' is there twice",
          VRAM_EFORMAT },
        { "{\"params\": -7}", "-7", "params must be a whole number from 1 on, like 7e9 or 13B",
          VRAM_EFORMAT },
        { "{\"params\": 1e300}", "1e300", "params must be a whole number from 1 on, like 7e9 or 13B",
          VRAM_EFORMAT },
        { "{\"params\": true}", "true", "expected a number or a text", VRAM_EFORMAT },
        { "{\"params\": {}}", "{}", "expected a number or a text", VRAM_EFORMAT },
        { "{\"context\": 0}", "0", "context must be a whole number from 1 on, like 4096 or 16K",
          VRAM_EFORMAT },
        { "{\"context\": [1]}", "[1]", "expected a number or a text", VRAM_EFORMAT },
        { "{\"mode\": \"tune\"}", "\"tune", "mode must be infer or train", VRAM_EFORMAT },
        { "{\"trainable\": 1.5}", "1.5", "trainable must be a share from 0 to 1, like 0.01 or 1%",
          VRAM_EFORMAT },
        { "{\"gpu_memory_gib\": []}", "[]", "gpu_memory_gib is an empty list", VRAM_EFORMAT },
        { "{\"gpu_memory_gib\": [24, \"x\"]}", "\"x",
          "gpu_memory_gib must be a size in GiB above 0 and at most 1000000, or a list like 24,80",
          VRAM_EFORMAT },
        { "{\"gpu_memory_gib\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "17",
          "gpu_memory_gib takes at most 16 sizes", VRAM_EFORMAT },
        { "{\"scenarios\": {}}", "{}", "scenarios is not a list", VRAM_EFORMAT },
        { "{\"scenarios\": []}", "[]", "there is no scenario in it", VRAM_EFORMAT },
        { "{\"scenarios\": [7]}", "7", "a scenario is not an object", VRAM_EFORMAT },
        { "{\"scenarios\": [{}], \"scenarios\": 1}", "\"scenarios\": 1", "the key 'scenarios' is there twice",
          VRAM_EFORMAT },
        { "{\"scenarios\": [{\"scenarios\": []}]}", "\"scenarios\": []", "unknown key 'scenarios'",
          VRAM_EFORMAT },
        { "{\"name\": \"\"}", "\"\"", "name must be a text of 1 to 80 bytes", VRAM_EFORMAT },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const refusal *c = &cases[i];
        world w;
        open_world(&w);
        assert_int_equal(read_text(&w, c->json), c->code);
        const vram_error *e = vram_last_error(w.ctx);
        assert_int_equal(e->code, c->code);
        assert_string_equal(e->file, "plans.json");
        assert_true(e->has_offset);
        if (c->text != NULL)
            assert_string_equal(e->text, c->text);
        const char *last = strstr(c->json, c->at), *next = last;
        while (c->at[0] != '\0' && (next = strstr(next + 1, c->at)) != NULL)
            last = next;
        assert_int_equal(e->offset, (size_t)(last - c->json));
        assert_int_equal(vram_exit_status(e->code), 3);
        close_world(&w);
    }
}

static void test_too_many_scenarios(void **state)
{
    char json[2048];
    world w;
    size_t n = 0;
    (void)state;
    n += (size_t)snprintf(json, sizeof(json), "{\"params\": 1, \"scenarios\": [{}");
    for (int i = 0; i < VR_SCENARIOS_MAX; i++)
        n += (size_t)snprintf(json + n, sizeof(json) - n, ",{}");
    snprintf(json + n, sizeof(json) - n, "]}");
    open_world(&w);
    assert_int_equal(read_text(&w, json), VRAM_ELIMIT);
    assert_int_equal(vram_exit_status(VRAM_ELIMIT), 3);
    close_world(&w);
}

/* Numbers that fit alone and not together: the setting is named, from the file with its place. */
static void test_overflow_names_the_setting(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    assert_int_equal(vram_scenario_set(w.s, "params", "9e18"), VRAM_OK);
    assert_int_equal(vram_scenario_set(w.s, "weight_bytes", "4"), VRAM_OK);
    assert_int_equal(vram_scenario_solve(w.s), VRAM_ESETTING);
    assert_string_equal(vram_last_error(w.ctx)->text, "--params makes more than 2^63 bytes");
    close_world(&w);
    open_world(&w); /* a sum whose difference to a card would not fit 64 bits with a sign */
    assert_int_equal(vram_scenario_set(w.s, "params", "1e18"), VRAM_OK);
    assert_int_equal(vram_scenario_set(w.s, "weight_bytes", "16"), VRAM_OK);
    assert_int_equal(vram_scenario_set(w.s, "gpu_memory_gib", "24"), VRAM_OK);
    assert_int_equal(vram_scenario_solve(w.s), VRAM_ESETTING);
    assert_string_equal(vram_last_error(w.ctx)->text, "--params makes more than 2^63 bytes");
    close_world(&w);
    open_world(&w);
    assert_int_equal(read_text(&w, "{\"params\": 7, \"context\": 1e18, \"kv_bytes_per_token\": 524288}"),
                     VRAM_OK);
    assert_int_equal(vram_scenario_solve(w.s), VRAM_EFORMAT);
    assert_string_equal(vram_last_error(w.ctx)->text, "context makes more than 2^63 bytes");
    assert_int_equal(vram_last_error(w.ctx)->offset, strlen("{\"params\": 7, \"context\": "));
    close_world(&w);
}

static void test_wrong_flags(void **state)
{
    static const char *const cases[][3] = {
        { "params", "many", "--params 'many' must be a whole number from 1 on, like 7e9 or 13B" },
        { "params", "1.5", "--params '1.5' must be a whole number from 1 on, like 7e9 or 13B" },
        { "context", "0", "--context '0' must be a whole number from 1 on, like 4096 or 16K" },
        { "weight_bytes", "0",
          "--weight-bytes '0' must be more than 0 and at most 16 bytes, or one of fp32, fp16, "
          "bf16, fp8, int8, int4" },
        { "weight_bytes", "17",
          "--weight-bytes '17' must be more than 0 and at most 16 bytes, or one of fp32, fp16, "
          "bf16, fp8, int8, int4" },
        { "gpu_memory_gib", "24,,80",
          "--gpu-memory-gib '24,,80' must be a size in GiB above 0 and at most 1000000, or a "
          "list like 24,80" },
        { "sequnces", "2", "there is no setting 'sequnces', did you mean 'sequences'?" },
        { "scenario", "x.json", "there is no setting 'scenario'" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        world w;
        open_world(&w);
        assert_int_equal(vram_scenario_set(w.s, cases[i][0], cases[i][1]), VRAM_ESETTING);
        assert_string_equal(vram_last_error(w.ctx)->text, cases[i][2]);
        assert_int_equal(w.s->flags.n_cards, 0); /* a refused list leaves nothing */
        close_world(&w);
    }
}

static void test_nothing_given(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    assert_int_equal(vram_scenario_solve(w.s), VRAM_ESETTING);
    assert_non_null(strstr(vram_last_error(w.ctx)->text, "--params is missing"));
    assert_non_null(vram_last_error(w.ctx)->hint);
    close_world(&w);
    open_world(&w);
    assert_int_equal(read_text(&w, "{}"), VRAM_OK);
    assert_int_equal(vram_scenario_solve(w.s), VRAM_EFORMAT);
    assert_string_equal(vram_last_error(w.ctx)->file, "plans.json");
    close_world(&w);
}

static void test_contradictions(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    assert_int_equal(read_text(&w, "{\"params\": 7, \"heads\": 8, \"kv_heads\": 16}"), VRAM_OK);
    assert_int_equal(vram_scenario_solve(w.s), VRAM_EFORMAT);
    assert_string_equal(vram_last_error(w.ctx)->text, "kv_heads must not be more than the heads");
    close_world(&w);
    const vram_warning *warnings;
    open_world(&w);
    assert_int_equal(read_text(&w, "{\"params\": 7, \"trainable\": 0.5, \"gpus\": 4}"), VRAM_OK);
    assert_int_equal(vram_scenario_solve(w.s), VRAM_OK);
    assert_int_equal(vram_warnings(w.ctx, &warnings), 2);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_one_object),
        cmocka_unit_test(test_flags_win),
        cmocka_unit_test(test_nameless_scenarios_are_numbered),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_too_many_scenarios),
        cmocka_unit_test(test_overflow_names_the_setting),
        cmocka_unit_test(test_wrong_flags),
        cmocka_unit_test(test_nothing_given),
        cmocka_unit_test(test_contradictions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
