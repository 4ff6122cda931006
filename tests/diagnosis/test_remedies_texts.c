/* SPDX-License-Identifier: MIT
 * What is offered for a text and what is said to be in vain, each with its reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "messages.h"
#include "stage.h"

static unsigned wrong;

#define LOADING                                                                                              \
    "Traceback (most recent call last):\n  File \"/srv/app/lib/transformers/modeling_utils.py\", line "      \
    "4100, in "                                                                                              \
    "from_pretrained\n    model = cls(config)\n"
#define STEPPING                                                                                             \
    "Traceback (most recent call last):\n  File \"/srv/app/train.py\", line 90, in main\n    "               \
    "optimizer.step()\n  File \"/srv/app/lib/torch/optim/adam.py\", line 170, in _init_group\n    "          \
    "state[\"exp_avg\"] = torch.zeros_like(p, memory_format=torch.preserve_format)\n"

#define ARGS(more) "INFO [utils.py:233] non-default args: {'model': 'acme/large', " more "}\n"
#define TOO_LONG                                                                                             \
    "ValueError: To serve at least one request with the models's max seq len (65536), (8.00 GiB KV cache "   \
    "is needed, which is larger than the available KV cache memory (5.37 GiB). Try increasing "              \
    "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
#define GGML_LOAD                                                                                            \
    "ggml_cuda_init: found 1 CUDA devices:\n"                                                                \
    "llama_model_load_from_file_impl: using device CUDA0 (a card) - 9000 MiB free\n"                         \
    "print_info: file type   = Q4_K - Medium\nprint_info: n_layer          = 48\n"                           \
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 14000.00 MiB on device 0: cudaMalloc failed: "   \
    "out of memory\nalloc_tensor_range: failed to allocate CUDA0 buffer of size 14680064000\n"               \
    "llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
#define NAMED(size)                                                                                          \
    "Traceback (most recent call last):\n  File \"/srv/app/serve.py\", line 9, in main\n"                    \
    "    model = AutoModelForCausalLM.from_pretrained(\"acme/plain-" size "\")\n"                            \
    "  File \"/srv/app/lib/transformers/modeling_utils.py\", line 4100, in from_pretrained\n"
#define IN_PIECES SAYS("1.00 GiB", "200.00 MiB", "23.20 GiB", "19.80 GiB", "3.00 GiB")
#define SMALL SAYS("130.00 MiB", "30.00 MiB", "23.40 GiB", "23.20 GiB", "101.00 MiB")

static const struct example {
    const char *text;
    const char *offered, *not_offered; /* a part of a command; NULL: none in particular */
    const char *in_vain, *why;         /* what will not help, and a part of why */
    const char *reason;
} texts[] = {
    { LOADING SAYS("130.00 MiB", "30.00 MiB", "23.40 GiB", "23.20 GiB", "101.00 MiB"), "load_in_8bit=True",
      "expandable_segments", "expandable_segments", "0.4 % of the card",
      "free and idle exceed the request, and still the next tensor fails" },
    { LOADING SAYS("130.00 MiB", "30.00 MiB", "23.40 GiB", "23.20 GiB", "101.00 MiB"), NULL, "batch_size",
      "a smaller batch", "do not depend", "weights are there whatever the batch is" },
    { LOADING SAYS("130.00 MiB", "30.00 MiB", "23.40 GiB", "23.20 GiB", "101.00 MiB"), NULL, "empty_cache",
      "empty_cache", "gave all back", "the allocator released its cache before it raised" },
    { SAYS("1.00 GiB", "200.00 MiB", "23.20 GiB", "19.80 GiB", "3.00 GiB"),
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", NULL, NULL, NULL,
      "12.8 % of the card is idle, and would do" },
    { SAYS("4.00 GiB", "200.00 MiB", "23.20 GiB", "19.80 GiB", "3.00 GiB"), NULL, "expandable_segments",
      "expandable_segments", "3.20 GiB", "free and idle together are less than was asked for" },
    { SAYS("64.00 GiB", "9.00 GiB", "14.40 GiB", "13.90 GiB", "100.00 MiB"), NULL, "expandable_segments",
      "expandable_segments", "larger than the card", "no packing makes the card larger" },
    { SAYS("512.00 MiB", "9.00 GiB", "14.40 GiB", "13.90 GiB", "100.00 MiB"), NULL, "expandable_segments",
      "expandable_segments", "more was free", "nothing lay in pieces" },
    { STEPPING SAYS("96.00 MiB", "40.00 MiB", "23.40 GiB", "22.90 GiB", "90.00 MiB"), "AdamW8bit",
      "fused=True", "gradient accumulation", "stay", "states of Adam do not depend on the batch" },
    { STEPPING SAYS("96.00 MiB", "40.00 MiB", "23.40 GiB", "22.90 GiB", "90.00 MiB"), "AdamW8bit",
      "fully_shard", "ZeRO or FSDP on one card", "number of cards", "one card divides by one" },
    { "ValueError: To serve at least one request with the models's max seq len (65536), (8.00 GiB KV cache "
      "is needed, "
      "which is larger than the available KV cache memory (5.37 GiB). Based on the available memory, the "
      "estimated "
      "maximum model length is 43990. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` "
      "when "
      "initializing the engine.\n",
      "--max-model-len 43984", "MODEL-AWQ", "restarting", "same sum",
      "43,990 tokens in whole blocks of 16; the weights fit, the length does not" },
    { "ValueError: To serve at least one request with the models's max seq len (65536), (8.00 GiB KV cache "
      "is needed, "
      "which is larger than the available KV cache memory (5.37 GiB). Try increasing "
      "`gpu_memory_utilization` or "
      "decreasing `max_model_len` when initializing the engine.\n",
      "--kv-cache-dtype fp8 --max-model-len 65536", "--max-num-seqs", "a smaller batch", "one request",
      "in half the bytes 87,966 tokens fit, and no more than 65,536 are wanted" },
    { "ValueError: Free memory on device (17.40/23.50 GiB) on startup is less than desired GPU memory "
      "utilization (0.9, "
      "21.15 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n",
      "--gpu-memory-utilization 0.74", "0.95", "a larger --gpu-memory-utilization", "less is free",
      "17.40 of 23.50 is 0.7404: rounded down" },
    { "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
      "mem_fraction_static=0.70\n",
      "--mem-fraction-static 0.78", "0.62", "a smaller --mem-fraction-static", "still less",
      "at start the cache gets what the share leaves" },
    { "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 196608, Hardware "
      "limit: 101376. "
      "Reducing block sizes or `num_stages` may help.\n",
      "num_stages=1", "batch_size", "more GPU memory", "inside the chip",
      "shared memory of a block is of the chip" },
    { ARGS("'max_model_len': 65536, 'kv_cache_dtype': 'fp8'") TOO_LONG, "--max-model-len", "--kv-cache-dtype",
      NULL, NULL, "the cache has 8 bits already" },
    { ARGS("'max_model_len': 65536") TOO_LONG, "--kv-cache-dtype", NULL, NULL, NULL, "it has 16 bits" },
    { "ValueError: Free memory on device (3.40/23.50 GiB) on startup is less than desired GPU memory "
      "utilization (0.9, 21.15 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
      "processes.\n",
      "nvidia-smi", "--gpu-memory-utilization", NULL, NULL,
      "a seventh of the card holds no model that wanted nine tenths" },
    { "PyTorch version: 2.10.0+cu128\n" IN_PIECES, "PYTORCH_ALLOC_CONF=expandable", NULL, NULL, NULL,
      "2.10 is later than 2.9, and has the new name alone" },
    { "PyTorch version: 2.9.1+cu128\n" IN_PIECES, "PYTORCH_CUDA_ALLOC_CONF=expandable", NULL, NULL, NULL,
      "2.9 has the old name" },
    { "transformers version: 4.51.3\n" NAMED("9.4B") SMALL, "torch_dtype=\"auto\"", NULL, NULL, NULL,
      "the name before 4.56" },
    { "transformers version: 4.56.0\n" NAMED("9.4B") SMALL, "dtype=\"auto\"", "torch_dtype", NULL, NULL,
      "the name from 4.56 on" },
    { GGML_LOAD, "-ngl 27", "-sm layer", NULL, NULL,
      "seven eighths of 9000 of 14000 MiB hold 27 of 48 layers" },
    { GGML_LOAD, NULL, "Q4_K_M", NULL, NULL, "the file has 4 bits already" },
    { "[INFO] [config.py:1007:print]   zero_optimization_stage ...... 2\n[rank1]: " STEPPING
      "[rank1]: " SMALL,
      NULL, "{\"stage\": 2}", NULL, NULL, "the second stage is in force" },
    { NAMED("14B") SMALL, "load_in_4bit", "dtype=\"auto\"", NULL, NULL,
      "2 bytes each of 14 thousand million weights are 26 GiB, more than 23.50" },
    { NAMED("9.4B") SMALL, "dtype=\"auto\"", NULL, NULL, NULL, "18 GiB in 16 bits, twice as much in fp32" },
    { "model = load(BitsAndBytesConfig(load_in_4bit=True))\n" NAMED("9.4B") SMALL, NULL, "load_in_", NULL,
      NULL, "4 bits are in force" },
    { "g++: fatal error: Killed signal terminated program cc1plus\n", "MAX_JOBS=", "dmesg", "more GPU memory",
      "computer's memory", "fewer compilers at once take less" },
    { "Killed\n", NULL, "expandable_segments", "more GPU memory", "computer's memory",
      "a card's shortage never ends a program by a signal" },
    { "OSError: The paging file is too small for this operation to complete. (os error 1455)\n",
      "SystemPropertiesPerformance.exe", "swapfile", "more GPU memory", "computer's memory",
      "Windows has a page file" },
};

static bool has_command(const vr_finding *f, const char *part)
{
    for (size_t i = 0; i < f->n_remedies; i++)
        if (strstr(f->remedies[i].command, part) != NULL)
            return true;
    return false;
}

static const char *why_in_vain(const vr_finding *f, const char *what)
{
    for (size_t i = 0; i < f->n_futile; i++)
        if (strcmp(f->futile[i].what, what) == 0)
            return f->futile[i].why;
    return NULL;
}

static void judge_text(world *w, const struct example *e)
{
    struct vram_diagnosis *d = diagnosis_of(w, e->text);
    const vr_finding *f = d->n != 0 ? &d->list[0] : NULL;
    const char *why = f != NULL && e->in_vain != NULL ? why_in_vain(f, e->in_vain) : NULL;

    if (f != NULL && (e->offered == NULL || has_command(f, e->offered)) &&
        (e->not_offered == NULL || !has_command(f, e->not_offered)) &&
        (e->in_vain == NULL || (why != NULL && strstr(why, e->why) != NULL)))
        return;
    wrong++;
    print_error("%.60s...: wanted %s, not %s, in vain %s (%s): %s\n", e->text, e->offered, e->not_offered,
                e->in_vain, e->why, e->reason);
    for (size_t i = 0; f != NULL && i < f->n_remedies; i++)
        print_error("    offered %s\n", f->remedies[i].command);
    for (size_t i = 0; f != NULL && i < f->n_futile; i++)
        print_error("    in vain %s: %s\n", f->futile[i].what, f->futile[i].why);
}

static void texts_are_answered(void **state)
{
    wrong = 0;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        judge_text(*state, &texts[i]);
    assert_int_equal(wrong, 0);
}

/* What looks like a shortage and is none has its own answer, or at least a question. */
static void each_lookalike_is_answered(void **state)
{
    static char text[16384];

    wrong = 0;
    for (size_t i = 0; i < vr_error_text_table_n; i++) {
        const vr_text_row *row = &vr_error_text_table[i];
        if (row->kind != VR_TEXT_LOOKALIKE || row->example == NULL || strlen(row->example) >= sizeof text)
            continue;
        unescape(text, row->example);
        struct vram_diagnosis *d = diagnosis_of(*state, text);
        for (size_t k = 0; k < d->n; k++)
            if (d->list[k].n_remedies == 0 && d->list[k].tell == NULL) {
                print_error("%s: neither a lever nor a question\n", row->id);
                wrong++;
            }
    }
    assert_int_equal(wrong, 0);
}

/* A rehearsal's levers stay in front, and none of their kind comes behind them. */
static void sized_levers_stay_in_front(void **state)
{
    stage s;

    set_stage(&s, *state, &settings[1]);
    s.f.remedies = VR_ARRAY(&s.d.arena, vr_remedy, VR_MAX_REMEDIES);
    s.f.remedies[0] =
        (vr_remedy){ .id = "weights_8bit", .change = "", .command = "load_in_8bit=True", .sized = true };
    s.f.program = VR_PROGRAM_TRANSFORMERS;
    s.f.cause = VR_CAUSE_WEIGHTS;
    s.f.memory = VR_MEMORY_GPU;
    s.f.phase = VR_PHASE_LOAD;
    s.f.certainty = VR_CERTAINTY_CERTAIN;
    s.f.n_remedies = 1;
    assert_int_equal(vr_diagnose_remedies(&s.d, &s.f), VRAM_OK);
    assert_string_equal(s.f.remedies[0].id, "weights_8bit");
    assert_true(s.f.n_remedies > 1);
    for (size_t i = 1; i < s.f.n_remedies; i++)
        assert_null(strstr(s.f.remedies[i].command, "load_in_8bit"));
    vr_arena_free(&s.d.arena);
}

/* Figures at their ends give no command with a number of no sense, and no fault. */
static void hostile_figures(void **state)
{
    static const uint64_t ends[] = { 0, 1, 255, UINT32_MAX, UINT64_MAX / 2, UINT64_MAX };
    stage s;

    set_stage(&s, *state, &settings[0]);
    s.row.kind = VR_TEXT_REFUSAL;
    for (unsigned round = 0; round < 36 * 36; round++) {
        for (size_t i = 0; i < VR_FACT_COUNT && i < sizeof s.figures.facts / sizeof s.figures.facts[0]; i++)
            s.figures.facts[i] = (vr_fact){ .id = (uint8_t)((i + round) % VR_FACT_COUNT),
                                            .value = ends[(round / (i % 4 + 1) + i) % 6],
                                            .negative = (round + i) % 7 == 0 };
        s.event.sign.facts =
            (vr_fact_list){ s.figures.facts, sizeof s.figures.facts / sizeof s.figures.facts[0] };
        s.f.program = (uint8_t)(round % VR_PROGRAM_COUNT);
        s.f.cause = (uint8_t)(round / 3 % VR_CAUSE_COUNT);
        s.f.phase = (uint8_t)(round / 5 % VR_PHASE_COUNT);
        s.f.memory = (uint8_t)(round / 7 % VR_MEMORY_COUNT);
        s.f.certainty = (uint8_t)(round % VR_CERTAINTY_COUNT);
        s.f.n_remedies = s.f.n_futile = 0;
        s.f.tell = NULL;
        assert_int_equal(vr_diagnose_remedies(&s.d, &s.f), VRAM_OK);
        for (size_t i = 0; i < s.f.n_remedies; i++)
            assert_true(strstr(s.f.remedies[i].command, "184467440737") == NULL);
    }
    vr_arena_free(&s.d.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(texts_are_answered, open_world, close_world),
        cmocka_unit_test_setup_teardown(each_lookalike_is_answered, open_world, close_world),
        cmocka_unit_test_setup_teardown(hostile_figures, open_world, close_world),
        cmocka_unit_test_setup_teardown(sized_levers_stay_in_front, open_world, close_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
