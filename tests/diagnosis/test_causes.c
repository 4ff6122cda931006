/* SPDX-License-Identifier: MIT
 * What a text says of its cause: each rule on both sides of its threshold, with the reason beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "messages.h"
#include "read.h"

#define NOT_SAID VR_CERTAINTY_COUNT /* any certainty */

typedef struct expected {
    const char *text;
    uint8_t cause, certainty, memory;
    const char *sub_cause; /* NULL: any */
    const char *why;
} expected;

#define IS(cause, certainty, memory) VR_CAUSE_##cause, VR_CERTAINTY_##certainty, VR_MEMORY_##memory

#define FULL SAYS("96.00 MiB", "40.00 MiB", "23.40 GiB", "22.90 GiB", "90.00 MiB")
#define FRAMES(frames) "Traceback (most recent call last):\n" frames
#define AT(file, line, function, code)                                                                       \
    "  File \"/srv/app/" file "\", line " line ", in " function "\n    " code "\n"

#define LOADING AT("lib/transformers/modeling_utils.py", "4100", "from_pretrained", "model = cls(config)")
#define FORWARD                                                                                              \
    AT("lib/torch/nn/modules/module.py", "1520", "_call_impl", "return forward_call(*args, **kwargs)")
#define BACKWARD AT("train.py", "88", "main", "loss.backward()")
#define STEPPING                                                                                             \
    AT("train.py", "90", "main", "optimizer.step()")                                                         \
    AT("lib/torch/optim/adam.py", "170", "_init_group",                                                      \
       "state[\"exp_avg\"] = torch.zeros_like(p, memory_format=torch.preserve_format)")
#define LOSS                                                                                                 \
    AT("lib/torch/nn/functional.py", "3060", "cross_entropy", "return torch._C._nn.cross_entropy_loss(")
#define CAPTURING                                                                                            \
    AT("lib/vllm/v1/worker/gpu_model_runner.py", "2100", "capture_model", "self._dummy_run(n)") FORWARD
#define PROFILING                                                                                            \
    AT("lib/vllm/v1/worker/gpu_model_runner.py", "1900", "profile_run", "hidden = self._dummy_run(n)") FORWARD

static const expected cases[] = {
    /* where it died */
    { FRAMES(LOADING) FULL, IS(WEIGHTS, CERTAIN, GPU), NULL,
      "loading, and this process alone fills the card" },
    { FRAMES(LOADING FORWARD) FULL, IS(WEIGHTS, CERTAIN, GPU), NULL,
      "a call inside loading is still loading" },
    { FRAMES(BACKWARD) FULL, IS(ACTIVATIONS, LIKELY, GPU), NULL, "what the backward pass needs" },
    { FRAMES(BACKWARD FORWARD) FULL, IS(ACTIVATIONS, LIKELY, GPU), NULL,
      "a layer computed again inside the backward pass" },
    { FRAMES(STEPPING) FULL, IS(OPTIMIZER_STATES, CERTAIN, GPU), NULL, "Adam makes its states" },
    { FRAMES(LOSS) FULL, IS(ACTIVATIONS, CERTAIN, GPU), "logits", "the loss works on the logits" },
    { FRAMES(CAPTURING) FULL, IS(RUNTIME_OVERHEAD, CERTAIN, GPU), "cuda_graphs",
      "a pass inside the capture is the capture" },
    { FRAMES(PROFILING) FULL, IS(ACTIVATIONS, CERTAIN, GPU), NULL, "the engine's trial run" },

    /* more free than asked for changes every one of them */
    { FRAMES(LOADING) SAYS("96.00 MiB", "96.50 MiB", "23.40 GiB", "22.90 GiB", "90.00 MiB"),
      IS(UNKNOWN, UNKNOWN, GPU), "figures_contradict", "96.5 free is more than 96 asked for" },
    { FRAMES(STEPPING) SAYS("96.00 MiB", "5.00 GiB", "18.40 GiB", "18.00 GiB", "90.00 MiB"),
      IS(UNKNOWN, UNKNOWN, GPU), "figures_contradict", "5 GiB free" },
    { SAYS("96.00 MiB", "80.00 GiB", "18.40 GiB", "18.00 GiB", "90.00 MiB"), IS(NOT_CAPACITY, CERTAIN, NONE),
      "capacity_misreported", "more free than the card has" },

    /* one piece larger than the card */
    { SAYS("31.00 GiB", "20.00 GiB", "3.40 GiB", "3.00 GiB", "90.00 MiB"), IS(ACTIVATIONS, CERTAIN, GPU),
      NULL, "31 GiB in one piece on 23.5" },
    { FRAMES(LOSS) SAYS("31.00 GiB", "20.00 GiB", "3.40 GiB", "3.00 GiB", "90.00 MiB"),
      IS(ACTIVATIONS, CERTAIN, GPU), "logits", "and the frame says which piece" },

    { SAYS("800.00 GiB", "20.00 GiB", "3.40 GiB", "3.00 GiB", "90.00 MiB"), IS(ACTIVATIONS, LIKELY, GPU),
      NULL, "34 cards in one piece may be a wrong shape" },

    /* idle memory, 23.50 GiB: 2 % is 0.47, 8 % is 1.88 */
    { SAYS("700.00 MiB", "300.00 MiB", "23.20 GiB", "20.90 GiB", "1.90 GiB"),
      IS(RUNTIME_OVERHEAD, LIKELY, GPU), "fragmentation", "8.1 % idle would have served it in one piece" },
    { SAYS("300.00 MiB", "200.00 MiB", "23.20 GiB", "21.00 GiB", "1.80 GiB"),
      IS(RUNTIME_OVERHEAD, POSSIBLE, GPU), "fragmentation", "7.7 % idle, six times the request" },
    { SAYS("1.15 GiB", "200.00 MiB", "23.20 GiB", "21.00 GiB", "1.80 GiB"), IS(ACTIVATIONS, POSSIBLE, GPU),
      NULL, "as much idle, but the request is nearly as large" },
    { SAYS("300.00 MiB", "200.00 MiB", "23.20 GiB", "22.35 GiB", "450.00 MiB"),
      IS(ACTIVATIONS, POSSIBLE, GPU), NULL, "1.9 % idle explains nothing" },

    /* who holds the card */
    { "CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 23.50 GiB of which "
      "40.00 MiB is free. Process 5150 has 16.20 GiB memory in use. Including non-PyTorch memory, this "
      "process "
      "has 7.20 GiB memory in use. Of the allocated memory 6.80 GiB is allocated by PyTorch, and 90.00 MiB "
      "is "
      "reserved by PyTorch but unallocated.\n",
      IS(OTHER_PROCESS, CERTAIN, GPU), NULL, "another process is listed with 16.2 of 23.5 GiB" },
    { "CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 23.50 GiB of which "
      "40.00 MiB is free. Process 5150 has 23.40 GiB memory in use. Of the allocated memory 22.90 GiB is "
      "allocated by PyTorch, and 90.00 MiB is reserved by PyTorch but unallocated.\n",
      IS(WEIGHTS, POSSIBLE, GPU), NULL, "the only one listed is this process, seen from a container" },
    { "CUDA out of memory. Tried to allocate 96.00 MiB (GPU 0; 23.50 GiB total capacity; 1.10 GiB already "
      "allocated; 20.00 MiB free; 1.20 GiB reserved in total by PyTorch)\n",
      IS(OTHER_PROCESS, CERTAIN, GPU), NULL, "PyTorch has 5 % of the card and 95 % is someone else's" },
    { "CUDA out of memory. Tried to allocate 96.00 MiB (GPU 0; 23.50 GiB total capacity; 2.10 GiB already "
      "allocated; 20.00 MiB free; 2.20 GiB reserved in total by PyTorch)\n",
      IS(OTHER_PROCESS, LIKELY, GPU), NULL, "9 %: as much as each of eight ranks on one card has" },
    { "CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 23.50 GiB total capacity; 5.00 GiB already "
      "allocated; 18.00 GiB free; 5.20 GiB allowed; 5.10 GiB reserved in total by PyTorch)\n",
      IS(LIMIT, CERTAIN, GPU), "self_imposed", "5.0 and 0.5 exceed the 5.2 the program allows itself" },

    /* engines */
    { "ValueError: Free memory on device (9.10/39.40 GiB) on startup is less than desired GPU memory "
      "utilization (0.9, 35.46 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
      "processes.\n",
      IS(OTHER_PROCESS, LIKELY, GPU), NULL,
      "30 GiB were taken before this engine had anything: by another, or by an earlier stage of the same "
      "run" },
    { "ValueError: Free memory on device (37.90/39.40 GiB) on startup is less than desired GPU memory "
      "utilization (0.98, 38.61 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
      "processes.\n",
      IS(RUNTIME_OVERHEAD, LIKELY, GPU), NULL, "1.5 GiB are contexts or a desktop" },
    { "ValueError: To serve at least one request with the models's max seq len (65536), (8.00 GiB KV cache "
      "is "
      "needed, which is larger than the available KV cache memory (3.25 GiB). Based on the available memory, "
      "the "
      "estimated maximum model length is 26624.\n",
      IS(KV_CACHE, CERTAIN, POOL), NULL, "the engine says so itself" },

    /* a request that is the matter itself: 20 % of 23.50 GiB is 4.70 */
    { SAYS("4.80 GiB", "3.00 GiB", "20.40 GiB", "17.50 GiB", "2.50 GiB"), IS(ACTIVATIONS, LIKELY, GPU), NULL,
      "10 % idle would have covered it, but one piece of a fifth of the card is no matter of packing" },
    { SAYS("4.60 GiB", "3.70 GiB", "19.70 GiB", "16.50 GiB", "2.70 GiB"), IS(RUNTIME_OVERHEAD, LIKELY, GPU),
      "fragmentation", "a little less than a fifth, and 11 % idle" },
    { SAYS("18.00 GiB", "11.00 GiB", "12.40 GiB", "3.00 GiB", "9.00 GiB"), IS(RUNTIME_OVERHEAD, CERTAIN, GPU),
      "fragmentation", "three times as much idle as live: whatever the request" },
    { FRAMES(FORWARD) SAYS("1.30 GiB", "0.90 GiB", "22.50 GiB", "22.00 GiB", "90.00 MiB"),
      IS(ACTIVATIONS, CERTAIN, GPU), NULL, "a piece of 5.5 % of the card, made inside a pass" },
    { FRAMES(FORWARD) SAYS("0.90 GiB", "0.60 GiB", "22.80 GiB", "22.30 GiB", "90.00 MiB"),
      IS(ACTIVATIONS, LIKELY, GPU), NULL, "3.8 % is no such piece" },
    { SAYS("96.00 MiB", "40.00 MiB", "23.40 GiB", "22.98 GiB", "10.00 MiB"), IS(WEIGHTS, LIKELY, GPU), NULL,
      "0.04 % idle: nothing was given back before, as while loading" },
    { FULL, IS(WEIGHTS, POSSIBLE, GPU), NULL, "0.4 % idle is a hint only" },

    /* who sits there */
    { "[rank3]: " SAYS("96.00 MiB", "40.00 MiB", "9.40 GiB", "9.00 GiB", "90.00 MiB"),
      IS(DEVICE_PLACEMENT, LIKELY, GPU), NULL, "rank 3 on card 0, and 14 GiB of it is not its own" },
    { "[rank3]: " FULL, IS(WEIGHTS, POSSIBLE, GPU), NULL,
      "alone on the first card that it sees: each rank has a card of its own" },
    { "CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 23.50 GiB of which "
      "20.00 MiB "
      "is free. Process 801 has 5.60 GiB memory in use. Process 802 has 5.70 GiB memory in use. Process 803 "
      "has "
      "5.65 GiB memory in use. Including non-PyTorch memory, this process has 5.70 GiB memory in use. Of the "
      "allocated memory 5.10 GiB is allocated by PyTorch, and 90.00 MiB is reserved by PyTorch but "
      "unallocated.\n",
      IS(DEVICE_PLACEMENT, LIKELY, GPU), NULL, "three others hold as much each, started together" },
    { "CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 23.50 GiB of which "
      "20.00 MiB "
      "is free. Process 801 has 1.60 GiB memory in use. Process 9802 has 15.70 GiB memory in use. Including "
      "non-PyTorch memory, this process has 5.70 GiB memory in use. Of the allocated memory 5.10 GiB is "
      "allocated "
      "by PyTorch, and 90.00 MiB is reserved by PyTorch but unallocated.\n",
      IS(OTHER_PROCESS, LIKELY, GPU), NULL, "two others, unlike this one and each other" },

    /* sums of other programs */
    { "Insufficient GPU memory error: The available single GPU memory is 20000.000 MB, which is less than "
      "the sum "
      "of model weight size (21000.000 MB) and temporary buffer size (900.000 MB).",
      IS(WEIGHTS, CERTAIN, GPU), NULL, "21000 of weights alone exceed 20000" },
    { "Insufficient GPU memory error: The available single GPU memory is 20000.000 MB, which is less than "
      "the sum "
      "of model weight size (14000.000 MB) and temporary buffer size (9000.000 MB).",
      IS(ACTIVATIONS, CERTAIN, GPU), NULL, "14000 fit, 9000 of buffers beside them do not" },
    { "ggml_vulkan: Device memory allocation of size 4026531840 failed.\n", IS(NOT_CAPACITY, LIKELY, NONE),
      "single_allocation_limit", "3.75 GiB is close to the 4 that one allocation may have" },
    { "ggml_vulkan: Device memory allocation of size 3221225472 failed.\n", IS(WEIGHTS, POSSIBLE, GPU), NULL,
      "3 GiB is not" },
    { "RuntimeError: Invalid buffer size: 24.50 GB\n", IS(NOT_CAPACITY, LIKELY, NONE),
      "single_allocation_limit", "a Mac has a limit on one buffer" },
    { "RuntimeError: Invalid buffer size: 96.50 GB\n", IS(ACTIVATIONS, LIKELY, GPU), NULL,
      "larger than nearly any Mac: no limit would let it through" },
    { "Error: Warmup(Generation(\"Not enough memory to handle 64 prefill tokens. You need to decrease "
      "`--max-batch-prefill-tokens`\"))",
      IS(WEIGHTS, LIKELY, GPU), NULL, "a pass over 64 tokens takes nothing: the weights leave no room" },
    { "CUDA error: out of memory\n", IS(OTHER_PROCESS, POSSIBLE, GPU), NULL,
      "PyTorch's allocator would have given figures" },
    { "WARNING: failed to allocate 256.00 MB of pinned memory: out of memory\nCUDA error 2 at "
      "/src/ggml-cuda.cu:901: out of memory\n",
      IS(HOST_RAM, LIKELY, HOST), NULL, "page-locked memory was refused right before" },

    /* look-alikes */
    { "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware "
      "limit: "
      "101376. Reducing block sizes or `num_stages` may help.\n",
      IS(NOT_CAPACITY, CERTAIN, ON_CHIP), NULL, "memory inside the chip" },
    { "srun: error: node7: tasks 0-3: Out Of Memory\n", IS(HOST_RAM, CERTAIN, HOST), NULL,
      "Slurm's own word for the job's limit" },
    { "RuntimeError: CUDA error: out of memory\nsrun: error: node7: task 0: Exited with exit code 1\n",
      IS(OTHER_PROCESS, POSSIBLE, GPU), NULL, "CUDA's words beside a line of Slurm are not Slurm's" },
    { "[  812.5] NVRM: Xid (PCI:0000:41:00): 79, pid=1222, GPU has fallen off the bus.\n",
      IS(DRIVER_OR_HARDWARE, CERTAIN, NONE), NULL, "hardware" },
    { "Error: command terminated with exit code 137\n", IS(HOST_RAM, LIKELY, HOST), NULL,
      "killed from outside, never by a failed request on the card" },
    { "Out of memory: Killed process 3131 (python) total-vm:91000000kB, anon-rss:62000000kB, "
      "file-rss:1000kB, "
      "shmem-rss:0kB, UID:1000 pgtables:12000kB oom_score_adj:0\n",
      IS(HOST_RAM, CERTAIN, HOST), NULL, "the kernel says so" },
    { "safetensors_rust.SafetensorError: The paging file is too small for this operation to complete. (os "
      "error "
      "1455)\n",
      IS(HOST_RAM, CERTAIN, HOST), NULL, "Windows' limit on committed memory" },
};

static void causes(void **state)
{
    world *w = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const expected *e = &cases[i];
        struct vram_diagnosis *d = diagnosis_of(w, e->text);
        const vr_finding *f = &d->list[0];
        bool right =
            d->n != 0 && f->cause == e->cause && f->certainty == e->certainty && f->memory == e->memory &&
            (e->sub_cause == NULL || (f->sub_cause != NULL && strcmp(f->sub_cause, e->sub_cause) == 0));
        if (!right)
            fail_msg("case %zu (%s): %zu findings; %s, %s, %s, %s", i, e->why, d->n,
                     vr_cause_words[f->cause].word, vr_certainty_words[f->certainty].word,
                     vr_memory_words[f->memory].word, f->sub_cause != NULL ? f->sub_cause : "-");
    }
}

/* A card of 12 GB and a model of 15: what the message alone tells. */
static void the_card_that_is_too_small(void **state)
{
    static const char text[] = FRAMES(LOADING) "torch.OutOfMemoryError: CUDA out of memory. Tried to "
                                               "allocate 130.00 MiB. GPU 0 has a total capacity of "
                                               "11.63 GiB of which 30.88 MiB is free. Including non-PyTorch "
                                               "memory, this process has 11.54 GiB memory in "
                                               "use. Of the allocated memory 11.34 GiB is allocated by "
                                               "PyTorch, and 105.47 MiB is reserved by PyTorch "
                                               "but unallocated.";
    struct vram_diagnosis *d = diagnosis_of(*state, text);
    const vr_finding *f = &d->list[0];

    assert_int_equal(d->n, 1);
    assert_int_equal(f->cause, VR_CAUSE_WEIGHTS);
    assert_int_equal(f->certainty, VR_CERTAINTY_CERTAIN);
    assert_int_equal(f->phase, VR_PHASE_LOAD);
    assert_int_equal(f->memory, VR_MEMORY_GPU);
    /* 11.54 - 11.34 - 0.103 = 0.097; 11.63 - 0.030 - 11.54 = 0.060 */
    assert_true(f->shares.known && f->shares.outside_is_split);
    assert_int_equal((f->shares.own_outside * 100 + VR_GIB / 2) / VR_GIB, 10);
    assert_int_equal((f->shares.others * 100 + VR_GIB / 2) / VR_GIB, 6);
    /* 30.88 + 105.47 exceed the 130: with perfect packing nothing lacks for this piece, so nothing is said.
     */
    assert_false(f->missing_known);
    assert_non_null(f->missing_note);
}

static void what_is_missing(void **state)
{
    /* 8.00 - 3.25 */
    struct vram_diagnosis *d = diagnosis_of(
        *state,
        "To serve at least one request with the model's max seq len (65536), (8.00 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (3.25 GiB).");

    assert_true(d->list[0].missing_known);
    assert_int_equal(d->list[0].missing_at_least, 19 * VR_GIB / 4);
    /* 512 - 40 - 90 MiB, less what the last digits may hide */
    d = diagnosis_of(*state, SAYS("512.00 MiB", "40.00 MiB", "23.40 GiB", "22.90 GiB", "90.00 MiB"));
    assert_true(d->list[0].missing_known);
    assert_true(d->list[0].missing_at_least < 382 * VR_MIB && d->list[0].missing_at_least > 381 * VR_MIB);
}

/* The n-th allocation fails, for every n: that is said, and nothing leaks. */
static void without_memory(void **state)
{
    (void)state;
    for (size_t n = 1; n < 100000; n++) {
        hook h = { .fail_at = n, .fail_after = true };
        vram_ctx *ctx = NULL;
        vram_log *log = NULL;
        vram_diagnosis *d = NULL;
        vram_status s = vram_open(&ctx, hook_alloc, &h);
        if (s == VRAM_OK)
            s = vram_log_new(&log, ctx);
        if (s == VRAM_OK)
            s = vram_log_feed(log, cases[0].text, strlen(cases[0].text));
        if (s == VRAM_OK)
            s = vram_diagnosis_new(&d, log, NULL, NULL);
        bool done = s == VRAM_OK && h.n_calls < n;
        if (s != VRAM_OK && s != VRAM_ENOMEM)
            fail_msg("status %d where allocation %zu failed", (int)s, n);
        if (s == VRAM_OK && !done)
            fail_msg("nothing is said where allocation %zu failed", n);
        vram_close(ctx);
        assert_int_equal(h.live_bytes, 0);
        if (done)
            return;
    }
    fail_msg("it never ends");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causes),
        cmocka_unit_test(the_card_that_is_too_small),
        cmocka_unit_test(what_is_missing),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
