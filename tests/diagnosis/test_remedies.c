/* SPDX-License-Identifier: MIT
 * What is offered and what is said to be in vain. Advice that is often wrong has a condition under which it
 * is right
 * (`laws`); it is held against every cause, phase, program and circumstance, and against every example of the
 * table of error texts. What must be offered is in `offered`; every program has a lever for every cause that
 * it can have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "advice.h"
#include "stage.h"

static bool
    sweep_all; /* every combination; else one of nine of each setting, which takes a ninth of the time */

static bool is_left_out(size_t setting, unsigned program, unsigned cause, unsigned phase)
{
    return !sweep_all && (setting * 5 + program * 7 + cause * 2 + phase) % 9 != 0;
}

static void all_combinations_obey(void **state)
{
    stage s;

    wrong = 0;
    for (size_t i = 0; i < N_SETTINGS; i++)
        for (unsigned program = 0; program < VR_PROGRAM_COUNT; program++) {
            set_stage(&s, *state, &settings[i]);
            for (unsigned cause = 0; cause < VR_CAUSE_COUNT; cause++)
                for (unsigned phase = 0; phase < VR_PHASE_COUNT; phase++) {
                    if (is_left_out(i, program, cause, phase))
                        continue;
                    judge(&s, program, cause, phase, VR_CERTAINTY_LIKELY);
                    obey(&s.d, &s.f);
                    be_sound(&s.f);
                }
            vr_arena_free(&s.d.arena);
        }
    assert_int_equal(wrong, 0);
}

static void all_examples_obey(void **state)
{
    static char text[16384];
    size_t read = 0;

    wrong = 0;
    for (size_t i = 0; i < vr_error_text_table_n; i++) {
        const char *example = vr_error_text_table[i].example;
        if (example == NULL || strlen(example) >= sizeof text)
            continue;
        unescape(text, example);
        struct vram_diagnosis *d = diagnosis_of(*state, text);
        for (size_t k = 0; k < d->n; k++, read++) {
            obey(d, &d->list[k]);
            be_sound(&d->list[k]);
        }
    }
    assert_true(read > vr_error_text_table_n / 2);
    assert_int_equal(wrong, 0);
}

/* ---- a lever for every cause that a program can have ---- */

static const uint64_t serving_programs = PROGRAM(VLLM) | PROGRAM(SGLANG) | PROGRAM(TENSORRT_LLM) |
                                         PROGRAM(TGI) | PROGRAM(LMDEPLOY) | PROGRAM(MLC) | PROGRAM(EXLLAMA) |
                                         PROGRAM(LLAMACPP) | PROGRAM(OLLAMA) | PROGRAM(KOBOLDCPP),
                      pictures = PROGRAM(DIFFUSERS) | PROGRAM(COMFYUI) | PROGRAM(A1111) |
                                 PROGRAM(STABLE_DIFFUSION_CPP),
                      arrays =
                          PROGRAM(CUPY) | PROGRAM(RMM) | PROGRAM(NUMBA) | PROGRAM(JULIA) | PROGRAM(NUMPY),
                      not_a_framework = PROGRAM(UNKNOWN) | PROGRAM(TRITON) | PROGRAM(FLASHINFER) |
                                        PROGRAM(NCCL) | PROGRAM(CUDA) | PROGRAM(DRIVER) | PROGRAM(RAY) |
                                        PROGRAM(LINUX) | PROGRAM(WINDOWS) | PROGRAM(KUBERNETES) |
                                        PROGRAM(DOCKER) | PROGRAM(SLURM);

#define ALL UINT64_MAX
#define OF_MODELS                                                                                            \
    (CAUSE(WEIGHTS) | CAUSE(GRADIENTS) | CAUSE(OPTIMIZER_STATES) | CAUSE(KV_CACHE) | CAUSE(ACTIVATIONS))

static struct hole {
    uint64_t programs, causes;
    const char *why;
} holes[8];

/* Masks are no constants for a table. */
static size_t list_holes(void)
{
    size_t n = 0;

    holes[n++] = (struct hole){ ALL, CAUSE(UNKNOWN), "what would tell is offered instead" };
    holes[n++] = (struct hole){ ALL, CAUSE(NONE), "nothing failed" };
    holes[n++] =
        (struct hole){ ALL, CAUSE(NOT_CAPACITY), "what helps hangs on the text: test_remedies_texts.c" };
    holes[n++] = (struct hole){ ALL, CAUSE(LIMIT), "what helps hangs on whose limit it is" };
    holes[n++] =
        (struct hole){ serving_programs | pictures | PROGRAM(TRANSFORMERS) | PROGRAM(ONNXRUNTIME) |
                           PROGRAM(RUST) | PROGRAM(CTRANSLATE2) | arrays | PROGRAM(MLX) | PROGRAM(CNTK),
                       CAUSE(GRADIENTS) | CAUSE(OPTIMIZER_STATES), "it does not train, or not by itself" };
    holes[n++] = (struct hole){ ALL & ~serving_programs & ~PROGRAM(TRANSFORMERS) & ~PROGRAM(MLX),
                                CAUSE(KV_CACHE), "it keeps no cache of keys and values, or not by itself" };
    holes[n++] = (struct hole){ not_a_framework, OF_MODELS, "what runs above it is what has levers" };
    holes[n++] = (struct hole){ ALL & ~PROGRAM(PYTORCH), CAUSE(RUNTIME_OVERHEAD),
                                "what helps hangs on what it is of: graphs, NCCL, pieces" };
    return n;
}

static bool may_be_empty(unsigned program, unsigned cause, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((holes[i].programs & BIT(program)) != 0 && (holes[i].causes & BIT(cause)) != 0)
            return true;
    return program == VR_PROGRAM_NUMPY && cause != VR_CAUSE_HOST_RAM; /* it has no card */
}

/* Where a cause shows first. */
static unsigned phase_of(unsigned cause)
{
    static const uint8_t phases[VR_CAUSE_COUNT] = {
        [VR_CAUSE_WEIGHTS] = VR_PHASE_LOAD,          [VR_CAUSE_GRADIENTS] = VR_PHASE_BACKWARD,
        [VR_CAUSE_ACTIVATIONS] = VR_PHASE_FORWARD,   [VR_CAUSE_OPTIMIZER_STATES] = VR_PHASE_OPTIMIZER_STEP,
        [VR_CAUSE_KV_CACHE] = VR_PHASE_KV_CACHE,     [VR_CAUSE_OTHER_PROCESS] = VR_PHASE_START,
        [VR_CAUSE_DEVICE_PLACEMENT] = VR_PHASE_LOAD,
    };

    return phases[cause];
}

static void every_program_has_levers(void **state)
{
    size_t n = list_holes();
    stage s;

    wrong = 0;
    set_stage(&s, *state, &settings[1]);
    for (unsigned program = 0; program < VR_PROGRAM_COUNT; program++)
        for (unsigned cause = 0; cause < VR_CAUSE_COUNT; cause++) {
            judge(&s, program, cause, phase_of(cause), VR_CERTAINTY_LIKELY);
            if (s.f.n_remedies != 0 || may_be_empty(program, cause, n))
                continue;
            judge(&s, program, cause, VR_PHASE_UNKNOWN, VR_CERTAINTY_LIKELY);
            if (s.f.n_remedies == 0 && wrong++ < 60)
                print_error("%s: nothing is offered for %s\n", vr_program_words[program].word,
                            vr_cause_words[cause].word);
        }
    vr_arena_free(&s.d.arena);
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    sweep_all = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_combinations_obey, open_world, close_world),
        cmocka_unit_test_setup_teardown(all_examples_obey, open_world, close_world),
        cmocka_unit_test_setup_teardown(every_program_has_levers, open_world, close_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
