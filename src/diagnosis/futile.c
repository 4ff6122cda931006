/* SPDX-License-Identifier: MIT
 *
 * What people try for such a message and what cannot work here: by the figures of the message, or because of
 * where it died. Most relevant first; each has a function that says why, or NULL where it may help or nobody
 * would try it.
 */
#include "diagnosis/levers.h"

#define MASK(id) VR_BIT(id)

/* What PyTorch's allocator serves. */
static const uint64_t torch_programs =
    MASK(VR_PROGRAM_PYTORCH) | MASK(VR_PROGRAM_TRANSFORMERS) | MASK(VR_PROGRAM_TRAINER) |
    MASK(VR_PROGRAM_ACCELERATE) | MASK(VR_PROGRAM_BITSANDBYTES) | MASK(VR_PROGRAM_DEEPSPEED) |
    MASK(VR_PROGRAM_FSDP) | MASK(VR_PROGRAM_MEGATRON) | MASK(VR_PROGRAM_LIGHTNING) |
    MASK(VR_PROGRAM_DIFFUSERS) | MASK(VR_PROGRAM_COMFYUI) | MASK(VR_PROGRAM_A1111) | MASK(VR_PROGRAM_VLLM) |
    MASK(VR_PROGRAM_SGLANG) | MASK(VR_PROGRAM_TGI) | MASK(VR_PROGRAM_EXLLAMA);

static bool is_one_of(uint64_t mask, unsigned word)
{
    return (mask & VR_BIT(word)) != 0;
}

static bool on_card(const vr_case *c)
{
    return c->f->memory == VR_MEMORY_GPU || c->f->memory == VR_MEMORY_POOL;
}

/* What follows from the cause alone is said only where the cause is likely at least. */
static bool is_known(const vr_case *c)
{
    return c->f->certainty >= VR_CERTAINTY_LIKELY;
}

/* An engine said no by its own sum: nothing was asked of an allocator. */
static bool by_own_sum(const vr_case *c)
{
    static const uint64_t of_passes = MASK(VR_CAUSE_ACTIVATIONS) | MASK(VR_CAUSE_RUNTIME_OVERHEAD);

    return vr_holds(c, VR_IF_REFUSED) && !c->n.has_request &&
           (c->f->phase == VR_PHASE_START || !is_one_of(of_passes, c->f->cause));
}

/* The message is PyTorch's own, of a CUDA or HIP card: by its figures, whatever runs it, or by what runs. */
static bool by_torch(const vr_case *c)
{
    bool figures = c->n.has_request && c->n.has_idle;

    return c->f->memory == VR_MEMORY_GPU && (figures || is_one_of(torch_programs, c->f->program)) &&
           !vr_holds(c, VR_IF_APPLE) && !vr_holds(c, VR_IF_INTEL) && !by_own_sum(c);
}

static bool loads(const vr_case *c)
{
    return is_known(c) && c->f->cause == VR_CAUSE_WEIGHTS &&
           (c->f->phase == VR_PHASE_LOAD || c->f->phase == VR_PHASE_UNKNOWN ||
            c->f->phase == VR_PHASE_RESUME);
}

/* Memory that does not depend on how much is computed at once. */
static bool is_fixed(const vr_case *c)
{
    static const uint64_t fixed =
        MASK(VR_CAUSE_WEIGHTS) | MASK(VR_CAUSE_OPTIMIZER_STATES) | MASK(VR_CAUSE_GRADIENTS);

    return is_one_of(fixed, c->f->cause);
}

static const char *percent_of_card(const vr_case *c, uint64_t bytes)
{
    return vr_text(&c->d->arena, FIXED(vr_mul_div(bytes, 1000, c->n.total), 10, 1), T(" % of the card"));
}

/* ---- hints of the message itself ---- */

static const char *no_such_argument(const vr_case *c)
{
    return vr_case_says(c, "load_in_8bit_fp32_cpu_offload")
               ? "no such argument; it is llm_int8_enable_fp32_cpu_offload"
               : NULL;
}

static const char *share_for_weights(const vr_case *c)
{
    bool vllm = c->f->program == VR_PROGRAM_VLLM;

    return vllm && c->f->cause == VR_CAUSE_WEIGHTS && c->f->phase == VR_PHASE_LOAD
               ? "the share is applied after the weights are loaded"
               : NULL;
}

static const char *larger_share(const vr_case *c)
{
    const vr_fact *needed = vr_finding_fact(c->d, c->f, VR_FACT_KV_NEEDED),
                  *have = vr_finding_fact(c->d, c->f, VR_FACT_KV_AVAILABLE),
                  *total = vr_finding_fact(c->d, c->f, VR_FACT_TOTAL),
                  *share = vr_finding_fact(c->d, c->f, VR_FACT_UTILIZATION);
    uint64_t more, lacks;

    if (c->f->program != VR_PROGRAM_VLLM || !on_card(c))
        return NULL;
    if (c->f->phase == VR_PHASE_START && c->f->cause == VR_CAUSE_OTHER_PROCESS)
        return "less is free than it claims already";
    if (c->f->phase == VR_PHASE_CAPTURE || c->f->phase == VR_PHASE_SERVING)
        return "it takes away what passes need at run time";
    if (needed == NULL || have == NULL || total == NULL || share == NULL || share->value >= 1000000)
        return NULL;
    more = vr_mul_div(total->value, vr_sub_floor(970000, share->value), 1000000);
    lacks =
        have->negative ? vr_add_sat(needed->value, have->value) : vr_sub_floor(needed->value, have->value);
    return lacks > more
               ? vr_text(&c->d->arena, T("0.97 adds "), BYTES(more), T("; "), BYTES(lacks), T(" lack"))
               : NULL;
}

static const char *smaller_share(const vr_case *c)
{
    bool at_start = c->f->phase == VR_PHASE_KV_CACHE || c->f->phase == VR_PHASE_PROFILE;

    if (c->f->program != VR_PROGRAM_VLLM || c->f->cause != VR_CAUSE_KV_CACHE || !at_start)
        return NULL;
    return "the cache gets what the share leaves: still less";
}

static const char *static_share(const vr_case *c)
{
    if (c->f->program != VR_PROGRAM_SGLANG)
        return NULL;
    if (vr_holds(c, VR_IF_REFUSED) && (c->f->phase == VR_PHASE_KV_CACHE || c->f->cause == VR_CAUSE_KV_CACHE ||
                                       c->f->cause == VR_CAUSE_WEIGHTS))
        return "the cache gets what the share leaves: still less";
    if (c->f->phase == VR_PHASE_CAPTURE && c->f->memory == VR_MEMORY_NONE)
        return "the hint is printed for every error of the capture";
    return NULL;
}

static const char *prefill_tokens(const vr_case *c)
{
    uint64_t n = 0;
    const vr_fact *fact = vr_finding_fact(c->d, c->f, VR_FACT_TOKENS_PREFILL);

    if (c->f->program != VR_PROGRAM_TGI || c->f->cause == VR_CAUSE_ACTIVATIONS || !on_card(c))
        return NULL;
    n = fact != NULL ? fact->value : 0;
    if (n != 0 && n <= 4096)
        return vr_text(&c->d->arena, T("a pass over "), GROUPED(n),
                       T(" tokens needs little; the card is full"));
    return c->f->cause == VR_CAUSE_WEIGHTS ? "the weights fill the card" : NULL;
}

static const char *mps_ratio(const vr_case *c)
{
    return vr_case_says(c, "high_watermark_ratio")
               ? "0.0 takes the guard away, not the shortage; macOS may freeze"
               : NULL;
}

/* ---- the allocator ---- */

static const char *segments_while_loading(const vr_case *c)
{
    if (c->n.has_idle && c->n.has_total)
        return vr_text(&c->d->arena, T(percent_of_card(c, c->n.idle)),
                       T(" is idle: one to three more tensors, then the same"));
    return "one to three more tensors at best, then the same";
}

/* Only what holds whatever the last digits of the figures leave open. */
static const char *segments_by_figures(const vr_case *c)
{
    const vr_figures *n = &c->n;
    const uint8_t *rule = c->sum.rule;

    if (rule[VR_RULE_LARGER_THAN_CARD] == VR_YES)
        return "the one request is larger than the card";
    if (rule[VR_RULE_FREE_SUFFICES] == VR_YES)
        return "more was free than was asked for: nothing is in pieces";
    if (rule[VR_RULE_PACKING_FAILS] == VR_YES && n->has_free && n->has_idle)
        return vr_text(&c->d->arena, T("free and idle are "), BYTES(vr_add_sat(n->left, n->idle)),
                       T(", asked for "), BYTES(n->request));
    if (rule[VR_RULE_IDLE_LITTLE] == VR_YES && n->has_idle && n->has_total)
        return vr_text(&c->d->arena, T("only "), T(percent_of_card(c, n->idle)), T(" is idle"));
    return NULL;
}

static const char *segments(const vr_case *c)
{
    const char *why;

    if (c->f->spot.found && c->f->spot.expandable != NULL)
        return c->f->spot.expandable;
    if (is_one_of(torch_programs, c->f->program) && on_card(c) && by_own_sum(c))
        return "it refused by its own sum; no allocator was asked";
    if (!by_torch(c))
        return NULL;
    if (vr_holds(c, VR_IF_EXPANDABLE))
        return "it is on already";
    why = segments_by_figures(c);
    if (loads(c) && !vr_holds(c, VR_IF_PACKABLE) && !vr_holds(c, VR_IF_SHARED_CARD) &&
        (why == NULL || vr_add_sat(c->n.left, c->n.idle) >= c->n.request))
        return segments_while_loading(c);
    return why;
}

static const char *empty_cache(const vr_case *c)
{
    if (!by_torch(c) || vr_holds(c, VR_IF_NCCL) || vr_holds(c, VR_IF_ASYNC_ALLOCATOR) ||
        vr_holds(c, VR_IF_BARE) || c->f->cause == VR_CAUSE_OTHER_PROCESS || c->f->phase == VR_PHASE_CAPTURE)
        return NULL;
    return "PyTorch gave all back that it could before it gave up";
}

/* ---- less at once ---- */

static const char *smaller_batch(const vr_case *c)
{
    if (!on_card(c) || !is_known(c))
        return NULL;
    if (c->f->cause == VR_CAUSE_WEIGHTS)
        return "weights do not depend on the batch";
    if (c->f->cause == VR_CAUSE_OPTIMIZER_STATES)
        return "the optimizer's states do not depend on the batch";
    if (c->f->cause == VR_CAUSE_GRADIENTS)
        return "gradients have the size of the weights, not of the batch";
    if (c->f->cause == VR_CAUSE_KV_CACHE && vr_holds(c, VR_IF_REFUSED) &&
        vr_finding_fact(c->d, c->f, VR_FACT_KV_NEEDED) != NULL)
        return "one request of full length alone is too long";
    return NULL;
}

static const char *shorter_context(const vr_case *c)
{
    static const uint64_t programs = MASK(VR_PROGRAM_VLLM) | MASK(VR_PROGRAM_SGLANG) |
                                     MASK(VR_PROGRAM_LLAMACPP) | MASK(VR_PROGRAM_TRANSFORMERS);

    return c->f->phase == VR_PHASE_LOAD && loads(c) && is_one_of(programs, c->f->program) && on_card(c)
               ? "it died among the weights; the cache comes later"
               : NULL;
}

static const char *accumulation(const vr_case *c)
{
    return vr_holds(c, VR_IF_TRAINS) && on_card(c) && is_known(c) &&
                   (c->f->cause == VR_CAUSE_OPTIMIZER_STATES || c->f->cause == VR_CAUSE_GRADIENTS)
               ? "it replaces batch size; states and gradients stay"
               : NULL;
}

static const char *zero_on_one(const vr_case *c)
{
    bool sharded = c->f->program == VR_PROGRAM_DEEPSPEED || c->f->program == VR_PROGRAM_FSDP ||
                   c->f->cause == VR_CAUSE_OPTIMIZER_STATES || c->f->cause == VR_CAUSE_GRADIENTS;

    return vr_holds(c, VR_IF_TRAINS) && sharded && is_fixed(c) && is_known(c) && on_card(c) &&
                   !vr_holds(c, VR_IF_SEVERAL_CARDS)
               ? "without offload it divides by the number of cards"
               : NULL;
}

/* ---- programs, machines ---- */

static bool is_own_process(const vr_case *c, uint64_t bytes)
{
    return c->n.has_reserved && bytes >= c->n.reserved && bytes - c->n.reserved < 12 * VR_GIB / 10;
}

/* A container does not know its own number: what holds what this process reserved, and a context, is this
 * one. */
static const char *kill_itself(const vr_case *c)
{
    const vr_fact_list *facts;
    uint64_t this_one;

    if (c->f->event == NULL || c->f->memory != VR_MEMORY_GPU)
        return NULL;
    facts = &c->f->event->sign.facts;
    if (vr_fact_value(facts, VR_FACT_THIS_PROCESS, &this_one) && this_one != 0)
        return NULL;
    for (size_t i = 0; i + 1 < facts->n; i++)
        if (facts->f[i].id == VR_FACT_PROCESS_ID && facts->f[i + 1].id == VR_FACT_PROCESS &&
            is_own_process(c, facts->f[i + 1].value))
            return vr_text(&c->d->arena, T("process "), U(facts->f[i].value),
                           T(" is this one, seen from a container"));
    return NULL;
}

#define LITTLE_OUTSIDE VR_GIB /* a context, and a desktop perhaps */

static const char *kill_others(const vr_case *c)
{
    const vr_shares *s = &c->f->shares;

    if (c->f->cause == VR_CAUSE_OTHER_PROCESS || !on_card(c))
        return NULL;
    if (kill_itself(c) != NULL || (s->known && s->outside < 0))
        return NULL;
    if (s->known && s->outside_is_split && s->others < VR_GIB)
        return vr_text(&c->d->arena, T("other programs hold "), BYTES(s->others));
    if (c->n.has_outside && c->n.outside < LITTLE_OUTSIDE && !vr_holds(c, VR_IF_CONTRADICTION))
        return vr_text(&c->d->arena, T("all that is not this program's tensors is "), BYTES(c->n.outside));
    return NULL;
}

/* Left-overs of an earlier run go with it; what is computed from sizes comes again. */
static const char *restart(const vr_case *c)
{
    if (!on_card(c) || vr_holds(c, VR_IF_SHARED_CARD))
        return NULL;
    if (by_own_sum(c) && is_known(c) && c->f->cause == VR_CAUSE_KV_CACHE)
        return "the same sum comes out again";
    return loads(c) && c->f->certainty == VR_CERTAINTY_CERTAIN ? "the same weights come again" : NULL;
}

static const char *more_ram(const vr_case *c)
{
    return c->f->memory == VR_MEMORY_GPU && c->f->cause != VR_CAUSE_UNKNOWN && !vr_holds(c, VR_IF_APPLE) &&
                   !vr_holds(c, VR_IF_PINNED) && !vr_holds(c, VR_IF_BARE)
               ? "it is the card's memory that ran out"
               : NULL;
}

static const char *more_vram(const vr_case *c)
{
    switch (c->f->memory) {
    case VR_MEMORY_HOST:
        return "it is the computer's memory; a card never ends a program so";
    case VR_MEMORY_SHM:
        return "it is /dev/shm of the computer, not the card";
    case VR_MEMORY_ON_CHIP:
        return "it is memory inside the chip, a fixed size per block";
    case VR_MEMORY_NONE:
        return "no memory ran out";
    default:
        return NULL;
    }
}

static const char *batch_for_others(const vr_case *c)
{
    if (c->f->memory == VR_MEMORY_ON_CHIP)
        return "the kernel's blocks have the same size for any batch";
    return c->f->memory == VR_MEMORY_NONE && c->f->cause == VR_CAUSE_DRIVER_OR_HARDWARE ? "no memory ran out"
                                                                                        : NULL;
}

static const char *cache_for_host(const vr_case *c)
{
    return c->f->memory == VR_MEMORY_HOST || c->f->memory == VR_MEMORY_ON_CHIP
               ? "it is of the card's memory alone"
               : NULL;
}

static const char *free_disk(const vr_case *c)
{
    return c->f->memory == VR_MEMORY_SHM ? "/dev/shm is memory; its limit is not the disk's" : NULL;
}

static const char *driver(const vr_case *c)
{
    return on_card(c) && is_known(c) && vr_holds(c, VR_IF_BARE) &&
                   vr_case_says(c, "cuda error: out of memory")
               ? "it answered; a request for memory was refused"
               : NULL;
}

static const char *blocking(const vr_case *c)
{
    return vr_holds(c, VR_IF_BARE) && vr_case_says(c, "cuda_launch_blocking") && on_card(c)
               ? "it only makes the traceback exact"
               : NULL;
}

/* Weights in a quarter of their bytes set three quarters free: less than what lacks. */
static const char *smaller_quant(const vr_case *c)
{
    const vr_fact *weights = vr_finding_fact(c->d, c->f, VR_FACT_WEIGHTS);

    if (c->f->cause != VR_CAUSE_KV_CACHE || weights == NULL || weights->negative || !c->f->missing_known)
        return NULL;
    return weights->value / 4 * 3 < c->f->missing_at_least
               ? vr_text(&c->d->arena, T("all weights are "), BYTES(weights->value), T("; "),
                         BYTES(c->f->missing_at_least), T(" lack"))
               : NULL;
}

static const struct attempt {
    const char *what;
    const char *(*why)(const vr_case *c); /* NULL: it may help here, or nobody would try it */
} attempts[] = {
    { "load_in_8bit_fp32_cpu_offload", no_such_argument },
    { "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0", mps_ratio },
    { "another --gpu-memory-utilization", share_for_weights },
    { "a larger --gpu-memory-utilization", larger_share },
    { "a smaller --gpu-memory-utilization", smaller_share },
    { "a smaller --mem-fraction-static", static_share },
    { "--max-batch-prefill-tokens", prefill_tokens },
    { "ending the listed process", kill_itself },
    { "expandable_segments", segments },
    { "more GPU memory", more_vram },
    { "a smaller batch", smaller_batch },
    { "a smaller batch", batch_for_others },
    { "gradient accumulation", accumulation },
    { "ZeRO or FSDP on one card", zero_on_one },
    { "empty_cache", empty_cache },
    { "empty_cache", cache_for_host },
    { "freeing disk space", free_disk },
    { "a smaller quantisation", smaller_quant },
    { "ending other programs", kill_others },
    { "a shorter context", shorter_context },
    { "restarting", restart },
    { "CUDA_LAUNCH_BLOCKING=1", blocking },
    { "reinstalling the driver", driver },
    { "more RAM", more_ram },
};

/* Nothing is said of what is not known: without a cause most of it might help. */
void vr_judge_futile(const vr_case *c)
{
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        const char *why = attempts[i].why(c);
        if (why != NULL)
            vr_add_futile(c->d, c->f, attempts[i].what, why);
    }
}
