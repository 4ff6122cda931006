/* SPDX-License-Identifier: MIT
 * Laws of what is offered: no setting that is in force, nothing that by the figures is too little, no second
 * card where there is one. Each holds for every lever, or for figures over their whole range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "stage.h"

static unsigned wrong;

/* ---- settings in force ---- */

/* The command as other places print it: '-' and '_' are one, and so are ' ', '=' and "': ". */
static void write_other_form(char *out, const char *command, unsigned form)
{
    const char *begin = form == 0 ? "$ program " : "non-default args: {'";
    bool named = true;

    out += sprintf(out, "%s", begin);
    if (form != 0 && strncmp(command, "--", 2) == 0)
        command += 2;
    for (; *command != '\0'; command++)
        if (form != 0 && named && *command == '-') {
            *out++ = '_';
        } else if (form != 0 && named && *command == ' ') {
            out += sprintf(out, "': ");
            named = false;
        } else {
            *out++ = *command;
        }
    *out = '\0';
}

static bool is_plain_option(const vr_lever_row *row)
{
    return row->language == VR_LANGUAGE_FLAGS && strncmp(row->command, "--", 2) == 0 &&
           strchr(row->command, ' ') != NULL && strpbrk(row->command, "{'\"") == NULL;
}

/* Whatever the setting is: what the log says is so already is no answer. */
static void what_is_in_force_is_not_offered(void **state)
{
    char text[512];
    stage s;
    vr_case c;
    unsigned held = 0;

    wrong = 0;
    for (size_t i = 0; i < vr_remedy_table_n; i++)
        for (unsigned form = 0; form < 2 && is_plain_option(&vr_remedy_table[i]); form++, held++) {
            const vr_lever_row *row = &vr_remedy_table[i];
            set_stage(&s, *state, &settings[1]);
            write_other_form(text, row->command, form);
            s.seen_row = (vr_text_row){ .id = "made-options", .kind = VR_TEXT_OPTION };
            s.seen = (vr_sign){ .row = &s.seen_row, .rank = -1, .text = text };
            vr_case_of(&c, &s.d, &s.f);
            if (vr_in_force(&c, row, row->command)) {
                print_error("%s: in force before anything is said\n", row->id);
                wrong++;
            }
            s.d.found.seen = &s.seen;
            s.d.found.n_seen = 1;
            if (!vr_in_force(&c, row, row->command)) {
                print_error("%s: \"%s\" does not say that %s is in force\n", row->id, text, row->command);
                wrong++;
            }
            vr_arena_free(&s.d.arena);
        }
    assert_true(held > 100);
    assert_int_equal(wrong, 0);
}

static const struct said {
    const char *log, *command, *group;
    bool in_force;
    const char *why;
} said[] = {
    { "vllm serve a/b --max-num-seqs 16", "--max-num-seqs 32", "half_sequences", true, "16 is fewer" },
    { "vllm serve a/b --max-num-seqs=256", "--max-num-seqs 32", "half_sequences", false, "256 is more" },
    { "'max_num_batched_tokens': 2048}", "--max-num-batched-tokens 2048", "prefill", true, "the same" },
    { "'max_num_batched_tokens_x': 2048}", "--max-num-batched-tokens 2048", "prefill", false, "another" },
    { "train.py --per_device_train_batch_size 1", "--per_device_train_batch_size 1", "half_sequences", true,
      "the same" },
    { "per_device_train_batch_size=4, lr=1", "--per_device_train_batch_size 1", "half_sequences", false,
      "4 is more" },
    { "--kv-cache-dtype auto", "--kv-cache-dtype fp8", "cache_quantized", false, "another type" },
    { "--kv-cache-dtype FP8", "--kv-cache-dtype fp8", "cache_quantized", true, "the same in capitals" },
};

static void settings_are_compared(void **state)
{
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        vr_lever_row row = { .id = "made", .group = said[i].group, .language = VR_LANGUAGE_FLAGS };
        stage s;
        vr_case c;
        set_stage(&s, *state, &settings[1]);
        s.seen_row = (vr_text_row){ .id = "made-options", .kind = VR_TEXT_OPTION };
        s.seen = (vr_sign){ .row = &s.seen_row, .rank = -1, .text = said[i].log };
        s.d.found.seen = &s.seen;
        s.d.found.n_seen = 1;
        vr_case_of(&c, &s.d, &s.f);
        if (vr_in_force(&c, &row, said[i].command) != said[i].in_force)
            fail_msg("%s / %s: %s", said[i].log, said[i].command, said[i].why);
        vr_arena_free(&s.d.arena);
    }
}

/* ---- figures ---- */

static double number_in(const char *command)
{
    const char *digits = command != NULL ? strpbrk(command, "0123456789") : NULL;

    return digits != NULL ? strtod(digits, NULL) : -1;
}

static const char *filled_with(stage *s, const char *command)
{
    vr_case c;

    vr_case_of(&c, &s->d, &s->f);
    return vr_filled(&c, command);
}

/* What is moved, or left to passes, is what lacks at least; or nothing is offered. */
static void amounts_are_enough(void **state)
{
    stage s;

    set_stage(&s, *state, &settings[1]);
    s.f.missing_known = true;
    for (uint64_t lack = VR_MIB; lack < 60 * VR_GIB; lack += lack / 7 + VR_MIB) {
        s.f.missing_at_least = lack;
        const char *share = filled_with(&s, "{smaller_share}");
        assert_true(number_in(filled_with(&s, "{offload_gib}")) * (double)VR_GIB >= (double)lack);
        if (share != NULL) /* 0.90 of 23.5 GiB is what is claimed when nothing is said */
            assert_true((0.90 - strtod(share, NULL) + 1e-9) * 23.5 * (double)VR_GIB >= (double)lack);
        else
            assert_true((double)lack > 0.5 * 23.5 * (double)VR_GIB);
    }
    vr_arena_free(&s.d.arena);
}

static void set_buffer(stage *s, uint64_t buffer, uint64_t free_bytes, uint64_t context)
{
    s->figures.facts[0] = (vr_fact){ .id = VR_FACT_BUFFER, .value = buffer };
    s->figures.facts[1] = (vr_fact){ .id = VR_FACT_CONTEXT, .value = context };
    s->figures.facts[2] = (vr_fact){ .id = VR_FACT_LAYERS_ON_GPU, .value = 40 };
    s->event.sign.facts = (vr_fact_list){ s->figures.facts, 3 };
    s->f.missing_known = true;
    s->f.missing_at_least = buffer - free_bytes;
}

/* A cache falls with the context, and to 17/32 in q8_0; what is offered has to fit. */
static void contexts_fit(void **state)
{
    stage s;
    unsigned answers = 0;

    set_stage(&s, *state, &settings[0]);
    s.f.cause = VR_CAUSE_KV_CACHE;
    for (uint64_t free_bytes = 64 * VR_MIB; free_bytes < 10 * VR_GIB; free_bytes += 77 * VR_MIB)
        for (uint64_t context = 4096; context <= 1048576; context *= 2) {
            double room = (double)free_bytes / (10.0 * (double)VR_GIB);
            set_buffer(&s, 10 * VR_GIB, free_bytes, context);
            const char *shorter = filled_with(&s, "{smaller_context}"),
                       *packed = filled_with(&s, "q{context_in_8_bits}");
            if (shorter != NULL && ++answers)
                assert_true(number_in(shorter) <= room * (double)context);
            if (packed != NULL && ++answers)
                assert_true((number_in(packed) < 0 ? (double)context : number_in(packed)) * 17 / 32 <=
                            room * (double)context);
        }
    assert_true(answers > 1000);
    vr_arena_free(&s.d.arena);
}

static void layers_fit(void **state)
{
    stage s;

    set_stage(&s, *state, &settings[0]);
    s.f.cause = VR_CAUSE_WEIGHTS;
    for (uint64_t free_bytes = VR_GIB; free_bytes < 20 * VR_GIB; free_bytes += 77 * VR_MIB) {
        set_buffer(&s, 20 * VR_GIB, free_bytes, 4096);
        assert_true(number_in(filled_with(&s, "{fewer_layers}")) / 40 * 20 * (double)VR_GIB <=
                    (double)free_bytes);
    }
    vr_arena_free(&s.d.arena);
}

/* ---- one card ---- */

static bool needs_cards(const char *id)
{
    static const char *const groups[] = { "another_gpu", "shard", "shard2", "visible" };

    for (size_t i = 0; i < vr_remedy_table_n; i++)
        if (strcmp(vr_remedy_table[i].id, id) == 0)
            for (size_t k = 0; k < sizeof groups / sizeof groups[0]; k++)
                if (strcmp(vr_remedy_table[i].group, groups[k]) == 0)
                    return true;
    return false;
}

static void one_card_is_not_divided(void **state)
{
    stage s;

    wrong = 0;
    set_stage(&s, *state, &settings[1]);
    s.seen_row = (vr_text_row){ .id = "only-card", .kind = VR_TEXT_INFO };
    s.seen = (vr_sign){ .row = &s.seen_row, .rank = -1, .text = "" };
    s.d.found.seen = &s.seen;
    s.d.found.n_seen = 1;
    for (unsigned program = 0; program < VR_PROGRAM_COUNT; program++)
        for (unsigned cause = 0; cause < VR_CAUSE_HOST_RAM; cause++)
            for (unsigned phase = 0; phase < VR_PHASE_COUNT; phase += 3) {
                judge(&s, program, cause, phase, VR_CERTAINTY_LIKELY);
                for (size_t i = 0; i < s.f.n_remedies; i++)
                    if (needs_cards(s.f.remedies[i].id) && wrong++ < 20)
                        print_error("%s: %s with one card\n", vr_program_words[program].word,
                                    s.f.remedies[i].command);
            }
    vr_arena_free(&s.d.arena);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_in_force_is_not_offered, open_world, close_world),
        cmocka_unit_test_setup_teardown(settings_are_compared, open_world, close_world),
        cmocka_unit_test_setup_teardown(amounts_are_enough, open_world, close_world),
        cmocka_unit_test_setup_teardown(contexts_fit, open_world, close_world),
        cmocka_unit_test_setup_teardown(layers_fit, open_world, close_world),
        cmocka_unit_test_setup_teardown(one_card_is_not_divided, open_world, close_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
