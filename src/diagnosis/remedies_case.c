/* SPDX-License-Identifier: MIT
 *
 * What of the circumstances that levers ask for is known to hold in a finding.
 */
#include "diagnosis/levers.h"

/* Where a circumstance is read from. */
typedef enum from {
    NEAR, /* a frame, step or the event whose row's id begins so */
    SEEN, /* a row of that id anywhere in the log */
    SUB,  /* the finer cause */
    SAYS  /* the message holds that text */
} from;

typedef struct reading {
    uint8_t circumstance, from;
    const char *what;
} reading;

static const reading readings[] = {
    { VR_IF_WINDOWS, SEEN, "windows" },
    { VR_IF_WINDOWS, SAYS, "winerror" },
    { VR_IF_WINDOWS, SAYS, "os error 1455" },
    { VR_IF_WINDOWS, SAYS, "..\\c10\\" },
    { VR_IF_WSL, SEEN, "wsl" },
    { VR_IF_CONTAINER, SEEN, "container" },
    { VR_IF_CONTAINER, SEEN, "docker" },
    { VR_IF_CONTAINER, SEEN, "kubernetes" },
    { VR_IF_KUBERNETES, SEEN, "kubernetes" },
    { VR_IF_KUBERNETES, SAYS, "oomkilled" },
    { VR_IF_KUBERNETES, SAYS, "kubepods" },
    { VR_IF_SLURM, SAYS, "slurm" },
    { VR_IF_SLURM, SAYS, "exceeded job memory limit" },
    { VR_IF_RAY, SAYS, "node running low on memory" },
    { VR_IF_RAY, SAYS, "due to memory pressure" },
    { VR_IF_RAY, SAYS, "rayoutofmemory" },
    { VR_IF_MIG, SEEN, "mig" },
    { VR_IF_APPLE, SEEN, "macos" },
    { VR_IF_APPLE, SAYS, "mps backend" },
    { VR_IF_APPLE, SAYS, "ggml_metal" },
    { VR_IF_APPLE, SAYS, "[metal" },
    { VR_IF_APPLE, SAYS, "mtlbuffer" },
    { VR_IF_APPLE, SAYS, "metal backend" },
    { VR_IF_APPLE, SAYS, "metal::" },
    { VR_IF_ONLY_CARD, SEEN, "only-card" },
    { VR_IF_ONE_CARD, SEEN, "only-card" },
    { VR_IF_ARGUMENTS, SEEN, "opt-arguments" },
    { VR_IF_DEEPSPEED, SEEN, "opt-zero" },
    { VR_IF_DEEPSPEED, SEEN, "opt-zero2" },
    { VR_IF_DEEPSPEED, SEEN, "opt-zero3" },
    { VR_IF_DEEPSPEED, SEEN, "deepspeed-log" },
    { VR_IF_NOTEBOOK, SEEN, "colab" },
    { VR_IF_NOTEBOOK, SEEN, "kaggle" },
    { VR_IF_NOTEBOOK, SAYS, "session crashed" },
    { VR_IF_LM_STUDIO, NEAR, "lmstudio-" },
    { VR_IF_TRAINS, SEEN, "opt-diffusers-train" },
    { VR_IF_SGLANG_OLD, SEEN, "opt-sglang-old" },
    { VR_IF_GENERATES_CALL, SEEN, "opt-generates" },
    { VR_IF_MERGES, SEEN, "opt-merges" },
    { VR_IF_UNSLOTH, SEEN, "opt-unsloth" },
    { VR_IF_GENERATES_CALL, SAYS, ", in generate" },
    { VR_IF_GENERATES_CALL, SAYS, ".generate(" },
    { VR_IF_APPLE, SAYS, "kiogpu" },
    { VR_IF_APPLE, SAYS, "invalid buffer size" },
    { VR_IF_INTEL, SAYS, "xpu" },
    { VR_IF_INTEL, SAYS, "ur_result_error" },
    { VR_IF_INTEL, SAYS, "pi_error" },
    { VR_IF_INTEL, SAYS, "sycl" },
    { VR_IF_INTEL, SAYS, "larger than 4gb" },
    { VR_IF_AMD, SAYS, "hip out of memory" },
    { VR_IF_AMD, SAYS, "pytorch_hip_alloc_conf" },
    { VR_IF_AMD, SAYS, "hipmalloc" },
    { VR_IF_AMD, SAYS, "rocm" },
    { VR_IF_VULKAN, SAYS, "vulkan" },
    { VR_IF_VULKAN, SAYS, "erroroutofdevicememory" },
    { VR_IF_TPU, SAYS, "memory space hbm" },
    { VR_IF_TPU, SAYS, "hbm usage" },
    { VR_IF_TPU, SAYS, "at the bottom of memory" },
    { VR_IF_CPU_ONLY, SAYS, "defaultcpuallocator" },
    { VR_IF_EXPANDABLE, SEEN, "opt-expandable" },
    { VR_IF_SELF_LIMIT, SUB, "self_imposed" },
    { VR_IF_SINGLE_LIMIT, SUB, "single_allocation_limit" },
    { VR_IF_SINGLE_LIMIT, SAYS, "exceeds device buffer size limit" },
    { VR_IF_SINGLE_LIMIT, SAYS, "invalid buffer size" },
    { VR_IF_SINGLE_LIMIT, SAYS, "larger than 4gb" },
    { VR_IF_SINGLE_LIMIT, SAYS, "maximum allowed buffer size" },
    { VR_IF_FP32, SUB, "fp32_or_upcast" },
    { VR_IF_FP32, SEEN, "opt-fp32" },
    { VR_IF_LOGITS, SUB, "logits" },
    { VR_IF_LOGITS, NEAR, "logits-" },
    { VR_IF_LOGITS, SAYS, "warming up sampler" },
    { VR_IF_LOGITS, SAYS, "prompt_logprobs" },
    { VR_IF_ATTENTION, SUB, "attention" },
    { VR_IF_ATTENTION, SUB, "unfused_attention" },
    { VR_IF_ATTENTION, NEAR, "attention-" },
    { VR_IF_VAE, NEAR, "vae-" },
    { VR_IF_VAE, SUB, "vae" },
    { VR_IF_GRAPHS, SUB, "cuda_graphs" },
    { VR_IF_GRAPHS, NEAR, "graphs-" },
    { VR_IF_NCCL, SUB, "nccl" },
    { VR_IF_NCCL, NEAR, "nccl-" },
    { VR_IF_ASYNC_ALLOCATOR, SAYS, "would exceed allowed memory" },
    { VR_IF_ASYNC_ALLOCATOR, SAYS, "cudamallocasync" },
    { VR_IF_GROWTH, SUB, "steady_growth" },
    { VR_IF_EVAL_GROWTH, NEAR, "eval-growth-" },
    { VR_IF_GATHER, NEAR, "gather-" },
    { VR_IF_FOREACH, NEAR, "foreach-" },
    { VR_IF_QUANTISING, NEAR, "quantise-" },
    { VR_IF_PINNED, NEAR, "pin-" },
    { VR_IF_PINNED, SEEN, "ggml-pinned" },
    { VR_IF_PINNED, SAYS, "pinned memory" },
    { VR_IF_PINNED, SAYS, "cudahostalloc" },
    { VR_IF_PINNED, SUB, "pinned" },
    { VR_IF_OFFLOADED, NEAR, "offload-" },
    { VR_IF_OFFLOADED, SEEN, "opt-offload" },
    { VR_IF_COMPUTE_BUFFER, SUB, "compute_buffer" },
    { VR_IF_COMPUTE_BUFFER, SAYS, "compute buffer" },
    { VR_IF_COMPUTE_BUFFER, SAYS, "ggml_gallocr_reserve_n" },
    { VR_IF_HOST_LIMITED, SAYS, "memory cgroup" },
    { VR_IF_HOST_LIMITED, SAYS, "constraint_memcg" },
    { VR_IF_HOST_LIMITED, SAYS, "oomkilled" },
    { VR_IF_HOST_LIMITED, SAYS, "stepid" },
    { VR_IF_HOST_LIMITED, SAYS, "exceeded job memory limit" },
    { VR_IF_WORKERS, SAYS, "dataloader worker" },
    { VR_IF_NO_ROOM, SAYS, "no available memory for the cache blocks" },
    { VR_IF_NO_ROOM, SAYS, "loaded weights leave no gpu memory" },
    { VR_IF_NO_ROOM, SAYS, "not enough memory. please try to increase" },
    { VR_IF_NO_ROOM, SAYS, "cannot auto-fit max_model_len" },
    { VR_IF_TORCH_NEW, SAYS, "pytorch_alloc_conf" },
    { VR_IF_SGLANG_OLD, SAYS, "--cuda-graph-max-bs " },
    { VR_IF_SGLANG_OLD, SAYS, "--disable-cuda-graph" },
};

/* Texts are of one message, so what they cost is bounded. */
static bool holds_text(const char *text, const char *what)
{
    return vr_str_holds(vr_str_of(text), vr_str_of(what));
}

bool vr_case_says(const vr_case *c, const char *what)
{
    const vr_incident *e = c->f->event;

    if (e == NULL)
        return false;
    if (holds_text(e->block, what) || holds_text(e->sign.text, what))
        return true;
    for (size_t i = 0; i < e->n_near; i++)
        if (holds_text(e->near[i].text, what))
            return true;
    return false;
}

/* A frame or step beside the event, or the event itself, whose row's id begins so. */
static bool is_near(const vr_case *c, const char *prefix)
{
    const vr_incident *e = c->f->event;

    if (e == NULL)
        return false;
    for (size_t i = 0; i < e->n_near; i++)
        if (vr_str_starts(vr_str_of(e->near[i].row->id), prefix))
            return true;
    return vr_str_starts(vr_str_of(e->sign.row->id), prefix) ||
           (e->step != NULL && vr_str_starts(vr_str_of(e->step->row->id), prefix));
}

static bool read_one(const vr_case *c, const reading *r)
{
    switch ((from)r->from) {
    case NEAR:
        return is_near(c, r->what);
    case SEEN:
        return vr_seen(&c->d->found, c->f->event, r->what);
    case SUB:
        return c->f->sub_cause != NULL && vr_str_is(vr_str_of(c->f->sub_cause), r->what);
    case SAYS:
        return vr_case_says(c, r->what);
    }
    return false;
}

bool vr_holds(const vr_case *c, vr_circumstance what)
{
    return (c->holds & VR_BIT(what)) != 0;
}

static void set(vr_case *c, vr_circumstance what, bool holds)
{
    c->holds |= holds ? VR_BIT(what) : 0;
}

static bool of_event(const vr_case *c, vr_fact_id id, uint64_t *out)
{
    return c->f->event != NULL && vr_fact_value(&c->f->event->sign.facts, id, out);
}

/* ---- figures ---- */

static void read_figures(vr_case *c)
{
    vr_figures *n = &c->n;
    uint64_t allocated = 0;
    bool has_allocated = of_event(c, VR_FACT_ALLOCATED, &allocated);

    n->has_request = of_event(c, VR_FACT_REQUEST, &n->request);
    n->has_total = of_event(c, VR_FACT_TOTAL, &n->total) && n->total != 0;
    n->has_free = of_event(c, VR_FACT_FREE, &n->left);
    n->has_idle = of_event(c, VR_FACT_IDLE, &n->idle);
    n->has_reserved = of_event(c, VR_FACT_RESERVED, &n->reserved);
    if (!n->has_idle && n->has_reserved && has_allocated) {
        n->idle = vr_sub_floor(n->reserved, allocated);
        n->has_idle = true;
    } else if (!n->has_reserved && n->has_idle && has_allocated) {
        n->reserved = vr_add_sat(allocated, n->idle);
        n->has_reserved = true;
    }
    n->has_outside = n->has_total && n->has_free && n->has_reserved;
    if (n->has_outside)
        n->outside = vr_sub_floor(n->total, vr_add_sat(n->left, n->reserved));
}

/* What is idle would do for the request if it lay together, as far as the printed digits tell. */
static bool would_fit_packed(const vr_case *c)
{
    uint8_t fits = c->sum.rule[VR_RULE_IDLE_SUFFICES];

    return fits == VR_YES || fits == VR_MAYBE;
}

static bool shared_card(const vr_case *c)
{
    const vr_shares *s = &c->f->shares;

    if (c->f->cause == VR_CAUSE_OTHER_PROCESS)
        return true;
    if (s->known && s->outside_is_split)
        return s->others > VR_GIB;
    return c->n.has_outside && c->n.outside > VR_OUTSIDE_LARGE;
}

/* A failure without figures; a refusal or a look-alike says enough by its words. */
static bool is_bare(const vr_incident *e)
{
    return e != NULL && e->sign.facts.n == 0 &&
           (e->sign.row->kind == VR_TEXT_FATAL || e->sign.row->kind == VR_TEXT_GENERIC);
}

/* Of allocators that print their limit: packed as well as can be it would not do. */
static bool pool_short(const vr_case *c)
{
    const vr_fact *limit = vr_finding_fact(c->d, c->f, VR_FACT_POOL_LIMIT),
                  *used = vr_finding_fact(c->d, c->f, VR_FACT_POOL_USED);

    return limit != NULL && used != NULL && c->n.has_request &&
           vr_sub_floor(limit->value, used->value) < c->n.request;
}

#define MOST_OF_GRAPHS (6 * VR_GIB) /* what engines are known to spend on graphs at most */

/* Without graphs there is as much more as their pools hold. */
static bool graphs_little(const vr_case *c)
{
    uint64_t pools = MOST_OF_GRAPHS;

    (void)of_event(c, VR_FACT_PRIVATE_POOLS, &pools);
    return c->f->missing_known && pools < c->f->missing_at_least;
}

static void read_arithmetic(vr_case *c)
{
    const vr_figures *n = &c->n;
    uint64_t id;

    set(c, VR_IF_REQUEST_OVER_CARD, n->has_request && n->has_total && n->request > n->total);
    set(c, VR_IF_CONTRADICTION, n->has_request && n->has_free && n->left >= n->request);
    set(c, VR_IF_PACKABLE, would_fit_packed(c) && c->sum.rule[VR_RULE_IDLE_MUCH] == VR_YES);
    set(c, VR_IF_PIECES,
        would_fit_packed(c) && c->sum.rule[VR_RULE_IDLE_LITTLE] == VR_NO && !vr_holds(c, VR_IF_PACKABLE) &&
            c->f->sub_cause != NULL && vr_str_is(vr_str_of(c->f->sub_cause), "fragmentation"));
    set(c, VR_IF_SHARED_CARD, shared_card(c));
    set(c, VR_IF_LISTED, c->f->cause == VR_CAUSE_OTHER_PROCESS && of_event(c, VR_FACT_PROCESS_ID, &id));
    set(c, VR_IF_BARE, is_bare(c->f->event));
    set(c, VR_IF_POOL_SHORT, pool_short(c));
    set(c, VR_IF_GRAPHS_LITTLE, graphs_little(c));
    set(c, VR_IF_HALF_TOO_LARGE, vr_half_too_large(c));
}

/* ---- the run ---- */

static bool card_index_above_0(const vr_case *c)
{
    for (size_t i = 0; i < c->d->found.n_events; i++) {
        const vr_sign *s = &c->d->found.events[i].sign;
        uint64_t n;
        if (s->rank > 0 || (vr_fact_value(&s->facts, VR_FACT_GPU, &n) && n > 0) ||
            (vr_fact_value(&s->facts, VR_FACT_DEVICE, &n) && n > 0))
            return true;
    }
    return false;
}

static bool trains(const vr_case *c)
{
    const vr_finding *f = c->f;
    static const uint64_t programs = VR_BIT(VR_PROGRAM_TRAINER) | VR_BIT(VR_PROGRAM_DEEPSPEED) |
                                     VR_BIT(VR_PROGRAM_FSDP) | VR_BIT(VR_PROGRAM_MEGATRON) |
                                     VR_BIT(VR_PROGRAM_LIGHTNING),
                          phases = VR_BIT(VR_PHASE_RESUME) | VR_BIT(VR_PHASE_BACKWARD) |
                                   VR_BIT(VR_PHASE_OPTIMIZER_STEP) | VR_BIT(VR_PHASE_TRAINING),
                          causes = VR_BIT(VR_CAUSE_GRADIENTS) | VR_BIT(VR_CAUSE_OPTIMIZER_STATES);

    return (programs & VR_BIT(c->runs)) != 0 || (phases & VR_BIT(f->phase)) != 0 ||
           (causes & VR_BIT(f->cause)) != 0;
}

static bool generates(const vr_case *c)
{
    const vr_finding *f = c->f;
    static const uint64_t programs =
        VR_BIT(VR_PROGRAM_VLLM) | VR_BIT(VR_PROGRAM_SGLANG) | VR_BIT(VR_PROGRAM_TENSORRT_LLM) |
        VR_BIT(VR_PROGRAM_TGI) | VR_BIT(VR_PROGRAM_LMDEPLOY) | VR_BIT(VR_PROGRAM_MLC) |
        VR_BIT(VR_PROGRAM_EXLLAMA) | VR_BIT(VR_PROGRAM_LLAMACPP) | VR_BIT(VR_PROGRAM_OLLAMA) |
        VR_BIT(VR_PROGRAM_KOBOLDCPP) | VR_BIT(VR_PROGRAM_COMFYUI) | VR_BIT(VR_PROGRAM_A1111);

    return (programs & VR_BIT(c->runs)) != 0 || f->phase == VR_PHASE_DECODE_IMAGE ||
           f->phase == VR_PHASE_SERVING;
}

/* "4.51.3" is 4 and 51. */
static bool version_of(const vr_case *c, vr_program program, uint64_t *major, uint64_t *minor)
{
    for (size_t i = c->d->found.n_seen; i > 0; i--) {
        const vr_sign *s = &c->d->found.seen[i - 1];
        const vr_fact *fact = vr_fact_of(&s->facts, VR_FACT_VERSION);
        vr_str rest, word;
        if (fact == NULL || fact->text == NULL || s->row->program != program)
            continue;
        rest = vr_str_of(fact->text);
        return vr_str_split(&rest, '.', &word) && vr_parse_u64(word, major) &&
               vr_str_split(&rest, '.', &word) && vr_parse_u64(word, minor);
    }
    return false;
}

static bool is_before(const vr_case *c, vr_program program, uint64_t major, uint64_t minor)
{
    uint64_t a, b;

    return version_of(c, program, &a, &b) && (a < major || (a == major && b < minor));
}

static bool is_from(const vr_case *c, vr_program program, uint64_t major, uint64_t minor)
{
    uint64_t a, b;

    return version_of(c, program, &a, &b) && (a > major || (a == major && b >= minor));
}

/* Texts of what lies below a program: the system, the driver, a launcher. */
static const uint64_t below = VR_BIT(VR_PROGRAM_UNKNOWN) | VR_BIT(VR_PROGRAM_LINUX) |
                              VR_BIT(VR_PROGRAM_WINDOWS) | VR_BIT(VR_PROGRAM_KUBERNETES) |
                              VR_BIT(VR_PROGRAM_DOCKER) | VR_BIT(VR_PROGRAM_SLURM) | VR_BIT(VR_PROGRAM_RAY) |
                              VR_BIT(VR_PROGRAM_CUDA) | VR_BIT(VR_PROGRAM_DRIVER) | VR_BIT(VR_PROGRAM_NCCL);

static bool is_below(unsigned program)
{
    return (below & VR_BIT(program)) != 0;
}

/* Python's name of the error, and what trains on a card, are mostly PyTorch's. */
static uint8_t by_default(const vr_case *c)
{
    static const uint64_t trained = VR_BIT(VR_CAUSE_OPTIMIZER_STATES) | VR_BIT(VR_CAUSE_GRADIENTS);

    return (trained & VR_BIT(c->f->cause)) != 0 || vr_case_says(c, "runtimeerror: cuda") ? VR_PROGRAM_PYTORCH
                                                                                         : c->f->program;
}

static uint8_t program_that_runs(const vr_case *c)
{
    const vr_incident *e = c->f->event;
    const vr_findings *found = &c->d->found;

    if (!is_below(c->f->program))
        return c->f->program;
    if (e == NULL)
        return by_default(c);
    for (size_t i = e->n_near; i > 0; i--)
        if (!is_below(e->near[i - 1].row->program))
            return e->near[i - 1].row->program;
    if (e->step != NULL && !is_below(e->step->row->program))
        return e->step->row->program;
    for (size_t i = found->n_seen; i > 0; i--)
        if (found->seen[i - 1].row->kind == VR_TEXT_PROGRAM && !is_below(found->seen[i - 1].row->program))
            return found->seen[i - 1].row->program;
    return by_default(c);
}

static void read_run(vr_case *c)
{
    const vr_fact *copies = vr_finding_fact(c->d, c->f, VR_FACT_COPIES);
    const vr_fact *cache = vr_finding_fact(c->d, c->f, VR_FACT_KV_AVAILABLE);
    bool several = card_index_above_0(c) || (copies != NULL && copies->value > 1) ||
                   vr_seen(&c->d->found, c->f->event, "several-cards");

    set(c, VR_IF_WINDOWS, c->f->program == VR_PROGRAM_WINDOWS);
    set(c, VR_IF_KUBERNETES, c->f->program == VR_PROGRAM_KUBERNETES);
    set(c, VR_IF_SLURM, c->f->program == VR_PROGRAM_SLURM);
    set(c, VR_IF_RAY, c->f->program == VR_PROGRAM_RAY);
    set(c, VR_IF_SEVERAL_CARDS, several);
    set(c, VR_IF_ONE_CARD, !several && vr_seen(&c->d->found, c->f->event, "one-card"));
    set(c, VR_IF_NO_ROOM, cache != NULL && (cache->negative || cache->value == 0));
    set(c, VR_IF_PIPELINE_COPIES, copies != NULL && copies->value > 1);
    set(c, VR_IF_REFUSED, c->f->event != NULL && c->f->event->sign.row->kind == VR_TEXT_REFUSAL);
    set(c, VR_IF_COMPILES, c->f->phase == VR_PHASE_COMPILE);
    set(c, VR_IF_TRAINS, trains(c));
    set(c, VR_IF_GENERATES, generates(c));
    set(c, VR_IF_VAE, c->f->phase == VR_PHASE_DECODE_IMAGE);
    set(c, VR_IF_GRAPHS, c->f->phase == VR_PHASE_CAPTURE);
    set(c, VR_IF_NCCL, c->f->phase == VR_PHASE_COMMUNICATOR);
    set(c, VR_IF_TRANSFORMERS_OLD, is_before(c, VR_PROGRAM_TRANSFORMERS, 4, 56));
    set(c, VR_IF_TORCH_NEW, is_from(c, VR_PROGRAM_PYTORCH, 2, 10));
}

void vr_case_of(vr_case *c, struct vram_diagnosis *d, vr_finding *f)
{
    *c = (vr_case){ .d = d, .f = f };
    c->runs = program_that_runs(c);
    if (f->event != NULL)
        vr_reckon(&f->event->sign.facts, &c->sum);
    read_figures(c);
    for (size_t i = 0; i < sizeof readings / sizeof readings[0]; i++)
        if (!vr_holds(c, readings[i].circumstance))
            set(c, readings[i].circumstance, read_one(c, &readings[i]));
    read_arithmetic(c);
    read_run(c);
}

static bool in(uint64_t mask, unsigned word)
{
    return mask == 0 || (mask & VR_BIT(word)) != 0;
}

/* "#xid": the event's row has an id that begins so. */
static bool says(const vr_case *c, const char *what)
{
    const vr_incident *e = c->f->event;

    if (what == NULL)
        return true;
    if (*what == '#')
        return e != NULL && vr_str_starts(vr_str_of(e->sign.row->id), what + 1);
    return vr_case_says(c, what);
}

bool vr_lever_applies(const vr_case *c, const vr_lever_row *row)
{
    const vr_finding *f = c->f;

    return in(row->causes, f->cause) && in(row->phases, f->phase) &&
           (in(row->programs, f->program) || in(row->programs, c->runs)) && in(row->memories, f->memory) &&
           (c->holds & row->when) == row->when && (c->holds & row->unless) == 0 && says(c, row->says);
}
