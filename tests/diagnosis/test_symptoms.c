/* SPDX-License-Identifier: MIT
 * What people say they saw, in other words than the rows of data/symptoms.tsv have, and what it points to.
 * Each paraphrase names the reading that an engineer would try first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "diagnosis/diagnosis.h"
#include "diagnosis/symptoms.h"

static const struct {
    const char *said;
    uint8_t cause, memory, phase; /* 0: either */
} paraphrases[] = {
    /* later: a slope, a long batch or another program */
    { "Trains OK all night but by the morning it has crashed with OOM", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU,
      VR_PHASE_LATER },
    { "runs great, and then after about 3000 iterations out of memory", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU,
      VR_PHASE_LATER },
    { "our vLLM endpoint is happy for days and suddenly dies", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU,
      VR_PHASE_SERVING },
    { "usage keeps climbing with each iteration", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU, VR_PHASE_LATER },
    { "GPU memory creeps up a bit every batch until it blows up", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU,
      VR_PHASE_LATER },
    { "epoch 1 completes, crashes in the second epoch", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU, VR_PHASE_LATER },
    { "host memory grows while training until the node swaps", VR_CAUSE_HOST_RAM, VR_MEMORY_HOST, 0 },
    /* the optimizer */
    { "forward and backward are fine, OOM inside optimizer.step()", VR_CAUSE_OPTIMIZER_STATES, VR_MEMORY_GPU,
      VR_PHASE_OPTIMIZER_STEP },
    { "crashes the first time AdamW updates the weights", VR_CAUSE_OPTIMIZER_STATES, VR_MEMORY_GPU,
      VR_PHASE_OPTIMIZER_STEP },
    { "LoRA fits but full fine-tuning runs out of memory", VR_CAUSE_OPTIMIZER_STATES, VR_MEMORY_GPU, 0 },
    /* evaluation, saving, resuming */
    { "training is fine, it only explodes during validation", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU,
      VR_PHASE_EVALUATION },
    { "OOMs when it evaluates at the end of the epoch", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU,
      VR_PHASE_EVALUATION },
    { "crash while storing the model checkpoint to disk", VR_CAUSE_WEIGHTS, 0, VR_PHASE_SAVE },
    { "process gets killed when saving with FSDP", VR_CAUSE_HOST_RAM, VR_MEMORY_HOST, VR_PHASE_SAVE },
    { "fresh run works, resuming from a checkpoint goes OOM", VR_CAUSE_DEVICE_PLACEMENT, VR_MEMORY_GPU,
      VR_PHASE_RESUME },
    /* who holds the card */
    { "the card is 95% occupied although there are no processes in nvidia-smi", VR_CAUSE_OTHER_PROCESS,
      VR_MEMORY_GPU, 0 },
    { "VRAM is still in use after I pressed ctrl-c", VR_CAUSE_OTHER_PROCESS, VR_MEMORY_GPU, 0 },
    { "works once, when I start the script again it fails", VR_CAUSE_OTHER_PROCESS, VR_MEMORY_GPU, 0 },
    { "windows is slow and uses shared GPU memory", VR_CAUSE_NONE, VR_MEMORY_GPU, 0 },
    { "first iteration ok, second iteration runs out of memory", VR_CAUSE_OPTIMIZER_STATES, VR_MEMORY_GPU,
      0 },
    { "one image is fine but not with 4 images", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU, 0 },
    { "the first launch is okay, the second launch crashes", VR_CAUSE_OTHER_PROCESS, VR_MEMORY_GPU, 0 },
    { "in Jupyter it fails until I restart", VR_CAUSE_OTHER_PROCESS, VR_MEMORY_GPU, 0 },
    { "restarting the kernel fixes it, rerunning the cell breaks it", VR_CAUSE_OTHER_PROCESS, VR_MEMORY_GPU,
      0 },
    { "zombie python keeps the GPU", VR_CAUSE_OTHER_PROCESS, VR_MEMORY_GPU, 0 },
    { "identical script ran yesterday, today it says out of memory", VR_CAUSE_OTHER_PROCESS, VR_MEMORY_GPU,
      0 },
    { "we share the server with colleagues and my job fails at random", VR_CAUSE_OTHER_PROCESS, VR_MEMORY_GPU,
      0 },
    { "fails whenever Chrome and a game are open", VR_CAUSE_OTHER_PROCESS, VR_MEMORY_GPU, 0 },
    /* placement, several cards */
    { "GPU 0 is completely full while the other three sit idle", VR_CAUSE_DEVICE_PLACEMENT, VR_MEMORY_GPU,
      0 },
    { "only the first card fills up, the second one is empty", VR_CAUSE_DEVICE_PLACEMENT, VR_MEMORY_GPU, 0 },
    { "single GPU fine; with DDP on two cards it dies", VR_CAUSE_RUNTIME_OVERHEAD, VR_MEMORY_GPU, 0 },
    { "works on a single card, fails as soon as I use two", VR_CAUSE_RUNTIME_OVERHEAD, VR_MEMORY_GPU, 0 },
    { "fine in bf16, out of memory in fp32", VR_CAUSE_WEIGHTS, VR_MEMORY_GPU, 0 },
    { "llama.cpp crashes with -ngl 99", VR_CAUSE_WEIGHTS, VR_MEMORY_GPU, VR_PHASE_LOAD },
    /* what is computed */
    { "cannot train with a batch size bigger than 4", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU, 0 },
    { "one particular batch always fails", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU, VR_PHASE_LATER },
    { "stable diffusion dies at 100%", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU, VR_PHASE_DECODE_IMAGE },
    { "loads, then OOM on the very first request", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU, VR_PHASE_FORWARD },
    { "short chats are fine, a big document kills it", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU,
      VR_PHASE_FORWARD },
    { "batch 8 trains, batch size 16 crashes", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU, 0 },
    { "it goes out of memory in loss.backward()", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU, VR_PHASE_BACKWARD },
    { "images come out until the final decode with the VAE, then crash", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU,
      VR_PHASE_DECODE_IMAGE },
    { "512 pixels okay, higher resolution fails", VR_CAUSE_ACTIVATIONS, VR_MEMORY_GPU, 0 },
    { "raising num_ctx to 32768 makes it crash", VR_CAUSE_KV_CACHE, VR_MEMORY_GPU, 0 },
    { "aborts while it captures CUDA graphs", VR_CAUSE_RUNTIME_OVERHEAD, VR_MEMORY_GPU, VR_PHASE_CAPTURE },
    { "crashes while loading the checkpoint shards onto the GPU", VR_CAUSE_WEIGHTS, VR_MEMORY_GPU,
      VR_PHASE_LOAD },
    /* the computer's memory */
    { "container exited with code 137", VR_CAUSE_HOST_RAM, VR_MEMORY_HOST, 0 },
    { "all it prints is Killed", VR_CAUSE_HOST_RAM, VR_MEMORY_HOST, 0 },
    { "just disappears, no traceback at all, python crashed silently", VR_CAUSE_HOST_RAM, VR_MEMORY_HOST, 0 },
    { "our pod gets OOMKilled over and over", VR_CAUSE_HOST_RAM, VR_MEMORY_HOST, 0 },
    { "crashes with num_workers=8, fine with 0", VR_CAUSE_HOST_RAM, VR_MEMORY_HOST, VR_PHASE_DATA },
    { "Bus error (core dumped) from the data loader", VR_CAUSE_HOST_RAM, VR_MEMORY_SHM, 0 },
    { "same notebook works on my Linux box but not in Windows", VR_CAUSE_HOST_RAM, VR_MEMORY_HOST, 0 },
    { "my laptop becomes unresponsive when the model loads", VR_CAUSE_HOST_RAM, VR_MEMORY_HOST, 0 },
    { "colab session crashed after using all available RAM", VR_CAUSE_HOST_RAM, VR_MEMORY_HOST, 0 },
    { "terminated by signal 9", VR_CAUSE_HOST_RAM, VR_MEMORY_HOST, 0 },
    /* no shortage */
    { "ollama is using the CPU instead of my GPU", VR_CAUSE_NONE, VR_MEMORY_NONE, 0 },
    { "my loss became NaN after some steps", VR_CAUSE_NOT_CAPACITY, VR_MEMORY_NONE, 0 },
    { "CUDA illegal memory access", VR_CAUSE_NOT_CAPACITY, VR_MEMORY_NONE, 0 },
    { "GPU has fallen off the bus, Xid 79", VR_CAUSE_DRIVER_OR_HARDWARE, VR_MEMORY_NONE, 0 },
    { "deleted the model and called empty_cache, VRAM still taken", VR_CAUSE_NONE, VR_MEMORY_NONE, 0 },
    { "everything is extremely slow but there is no error", VR_CAUSE_NONE, VR_MEMORY_NONE, 0 },
    { "why is vllm using all of my GPU memory for a small model", VR_CAUSE_NONE, VR_MEMORY_NONE, 0 },
    { "nvidia-smi shows more than torch says", VR_CAUSE_NONE, VR_MEMORY_NONE, 0 },
};

typedef struct world {
    hook memory;
    vram_ctx *ctx;
    vr_arena arena;
} world;

static void begin(world *w)
{
    memset(w, 0, sizeof *w);
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->memory), VRAM_OK);
    vr_arena_init(&w->arena, w->ctx);
}

static void end(world *w)
{
    vr_arena_free(&w->arena);
    vram_close(w->ctx);
    assert_int_equal(w->memory.live_blocks, 0);
}

static const vr_symptom *best(world *w, const char *said)
{
    const vr_symptom *found[VR_SYMPTOMS_TOLD] = { NULL };
    size_t n = 0;

    assert_int_equal(vr_symptoms_of(&w->arena, said, found, &n), VRAM_OK);
    return n != 0 ? found[0] : NULL;
}

static void other_words_find_the_reading(void **state)
{
    size_t wrong = 0;
    world w;
    (void)state;

    begin(&w);
    for (size_t i = 0; i < sizeof paraphrases / sizeof *paraphrases; i++) {
        const vr_symptom *s = best(&w, paraphrases[i].said);
        bool right = s != NULL && s->cause == paraphrases[i].cause &&
                     (paraphrases[i].memory == 0 || s->memory == paraphrases[i].memory) &&
                     (paraphrases[i].phase == 0 || s->phase == paraphrases[i].phase);
        if (!right)
            print_message("wrong: %s: %s\n", paraphrases[i].said, s != NULL ? s->id : "nothing");
        wrong += !right;
    }
    assert_int_equal(wrong, 0);
    end(&w);
}

/* Case, order and endings do not matter. */
static void order_and_endings_do_not_matter(void **state)
{
    static const char *const same[] = {
        "dies at the first optimizer step",
        "at the first step of the optimizer it DIED",
        "OPTIMIZER STEP: dying, the first one",
        "it is the optimizer's first step that crashed",
    };
    world w;
    (void)state;

    begin(&w);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const vr_symptom *s = best(&w, same[i]);
        assert_non_null(s);
        assert_int_equal(s->cause, VR_CAUSE_OPTIMIZER_STATES);
    }
    end(&w);
}

static void other_talk_is_no_symptom(void **state)
{
    static const char *const talk[] = { "",
                                        " ",
                                        "hello",
                                        "my cat is hungry",
                                        "which card should I buy",
                                        "how do I install it",
                                        "the weather is nice today",
                                        "+ | @fail *" };
    world w;
    (void)state;

    begin(&w);
    for (size_t i = 0; i < sizeof talk / sizeof *talk; i++)
        assert_null(best(&w, talk[i]));
    end(&w);
}

/* Words prove nothing, and an answer always says what would tell. */
static void no_row_is_certain(void **state)
{
    (void)state;
    assert_true(vr_symptom_table_n >= 40);
    for (size_t i = 0; i < vr_symptom_table_n; i++) {
        assert_true(vr_symptom_table[i].certainty < VR_CERTAINTY_CERTAIN);
        assert_true(vr_symptom_table[i].tell[0] != '\0' && vr_symptom_table[i].tell_why[0] != '\0');
        assert_true(strlen(vr_symptom_table[i].summary) <= 95);
    }
}

/* A megabyte of one word, of many, and bytes that are no text: time does not run away. */
static void long_talk_is_cut(void **state)
{
    size_t n = 1 << 20;
    char *text = malloc(n + 1);
    world w;
    (void)state;

    assert_non_null(text);
    begin(&w);
    memset(text, 'x', n);
    text[n] = '\0';
    assert_null(best(&w, text));
    for (size_t i = 0; i < n; i += 2)
        text[i] = ' ';
    assert_null(best(&w, text));
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(1 + i * 7 % 255);
    (void)best(&w, text);
    free(text);
    end(&w);
}

static vram_diagnosis *diagnosed(world *w, const char *text, const char *symptom)
{
    vram_log *log = NULL;
    vram_diagnosis *d = NULL;

    assert_int_equal(vram_log_new(&log, w->ctx), VRAM_OK);
    assert_int_equal(vram_log_feed(log, text, strlen(text)), VRAM_OK);
    assert_int_equal(vram_log_symptom(log, symptom), VRAM_OK);
    assert_int_equal(vram_diagnosis_new(&d, log, NULL, NULL), VRAM_OK);
    return d;
}

/* A message without figures or frames leaves the cause open; what was seen may say it, and no more. */
static void words_say_what_the_text_leaves_open(void **state)
{
    vram_diagnosis *d;
    world w;
    (void)state;

    begin(&w);
    d = diagnosed(&w, "RuntimeError: CUDA error: out of memory\n", "it dies in the first optimizer step");
    assert_true(d->n >= 1);
    assert_int_equal(d->list[0].phase, VR_PHASE_OPTIMIZER_STEP);
    assert_int_equal(d->list[0].cause, VR_CAUSE_OPTIMIZER_STATES);
    assert_true(d->list[0].certainty <= VR_CERTAINTY_LIKELY);
    end(&w);
}

/* What the text proves stays. */
static void words_do_not_overrule_the_text(void **state)
{
    static const char text[] = "Out of memory: Killed process 4711 (python) total-vm:90000000kB, "
                               "anon-rss:61000000kB, file-rss:0kB, shmem-rss:0kB\n";
    vram_diagnosis *d;
    world w;
    (void)state;

    begin(&w);
    d = diagnosed(&w, text, "dies at the first optimizer step");
    assert_true(d->n >= 1);
    assert_int_equal(d->list[0].memory, VR_MEMORY_HOST);
    assert_int_equal(d->list[0].cause, VR_CAUSE_HOST_RAM);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_words_find_the_reading),
        cmocka_unit_test(order_and_endings_do_not_matter),
        cmocka_unit_test(other_talk_is_no_symptom),
        cmocka_unit_test(no_row_is_certain),
        cmocka_unit_test(long_talk_is_cut),
        cmocka_unit_test(words_say_what_the_text_leaves_open),
        cmocka_unit_test(words_do_not_overrule_the_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
