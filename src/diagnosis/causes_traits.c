/* SPDX-License-Identifier: MIT
 *
 * What is known of an event, as a set of traits.
 */
#include "diagnosis/causes.h"

/* A trait that a row's id tells: of a frame near the event, or of what was seen in the log. */
typedef struct named_trait {
    const char *prefix;
    vr_trait trait;
    bool anywhere; /* not only near the event */
} named_trait;

static const named_trait named[] = {
    { "logits-", VR_BY_LOGITS, false },
    { "attention-", VR_BY_ATTENTION, false },
    { "gather-", VR_BY_GATHER, false },
    { "gradients-", VR_BY_GRADIENTS, false },
    { "eval-growth-", VR_BY_GROWTH, false },
    { "offload-hook", VR_BY_HOOK, false },
    { "pin-", VR_BY_PINNED, true },
    { "ggml-pinned", VR_BY_PINNED, true },
    { "first-cuda-cublas", VR_BY_FIRST_CALL, false },
    { "cudnn-not-initialized", VR_BY_FIRST_CALL, false },
    { "foreach-", VR_BY_FOREACH, false },
    { "nccl-", VR_BY_NCCL, false },
    { "lora-merge", VR_BY_MERGE, false },
    { "save-gather", VR_BY_FULL_STATE, false },
    { "save-fsdp-clone", VR_BY_FULL_STATE, false },
    { "wsl", VR_ON_WSL, true },
    { "offload-", VR_WITH_OFFLOAD, false },
    { "opt-offload", VR_WITH_OFFLOAD, true },
    { "opt-fp32", VR_WITH_FP32, true },
};

/* The phase that was found gives one trait. */
static const uint8_t of_phase[VR_PHASE_COUNT] = {
    [VR_PHASE_UNKNOWN] = VR_AT_NOTHING,
    [VR_PHASE_START] = VR_AT_START,
    [VR_PHASE_LOAD] = VR_AT_LOAD,
    [VR_PHASE_RESUME] = VR_AT_RESUME,
    [VR_PHASE_PROFILE] = VR_AT_PROFILE,
    [VR_PHASE_KV_CACHE] = VR_AT_KV_CACHE,
    [VR_PHASE_COMPUTE_BUFFERS] = VR_AT_COMPUTE_BUFFERS,
    [VR_PHASE_CAPTURE] = VR_AT_CAPTURE,
    [VR_PHASE_COMMUNICATOR] = VR_AT_COMMUNICATOR,
    [VR_PHASE_FORWARD] = VR_AT_FORWARD,
    [VR_PHASE_BACKWARD] = VR_AT_BACKWARD,
    [VR_PHASE_OPTIMIZER_STEP] = VR_AT_OPTIMIZER,
    [VR_PHASE_EVALUATION] = VR_AT_EVALUATION,
    [VR_PHASE_SAVE] = VR_AT_SAVE,
    [VR_PHASE_TRAINING] = VR_AT_TRAINING,
    [VR_PHASE_LATER] = VR_AT_TRAINING,
    [VR_PHASE_SERVING] = VR_AT_SERVING,
    [VR_PHASE_DECODE_IMAGE] = VR_AT_DECODE_IMAGE,
    [VR_PHASE_COMPILE] = VR_AT_COMPILE,
};

static const uint8_t of_cause[VR_CAUSE_COUNT] = {
    [VR_CAUSE_WEIGHTS] = VR_SAYS_WEIGHTS,
    [VR_CAUSE_KV_CACHE] = VR_SAYS_KV,
};

static const uint8_t of_memory[VR_MEMORY_COUNT] = {
    [VR_MEMORY_GPU] = VR_IS_GPU,  [VR_MEMORY_POOL] = VR_IS_POOL,       [VR_MEMORY_HOST] = VR_IS_HOST,
    [VR_MEMORY_SHM] = VR_IS_HOST, [VR_MEMORY_ON_CHIP] = VR_IS_ON_CHIP, [VR_MEMORY_NONE] = VR_IS_NONE,
};

static const uint8_t of_program[VR_PROGRAM_COUNT] = {
    [VR_PROGRAM_VLLM] = VR_UNDER_ENGINE,         [VR_PROGRAM_SGLANG] = VR_UNDER_ENGINE,
    [VR_PROGRAM_TENSORRT_LLM] = VR_UNDER_ENGINE, [VR_PROGRAM_TGI] = VR_UNDER_ENGINE,
    [VR_PROGRAM_LMDEPLOY] = VR_UNDER_ENGINE,     [VR_PROGRAM_MLC] = VR_UNDER_ENGINE,
    [VR_PROGRAM_LLAMACPP] = VR_UNDER_GGML,       [VR_PROGRAM_OLLAMA] = VR_UNDER_GGML,
    [VR_PROGRAM_KOBOLDCPP] = VR_UNDER_GGML,
};

static void have(vr_view *v, unsigned trait)
{
    if (trait != VR_TRAIT_NONE)
        v->has[trait] = true;
}

static void view_row(vr_view *v)
{
    const vr_text_row *row = v->row;

    v->has[VR_SAYS_CAUSE] = v->telling->cause != VR_CAUSE_UNKNOWN;
    v->has[VR_SAYS_CERTAIN] = v->has[VR_SAYS_CAUSE] && v->telling->certainty == VR_CERTAINTY_CERTAIN;
    v->has[VR_IS_REFUSAL] = row->kind == VR_TEXT_REFUSAL;
    v->has[VR_IS_LOOKALIKE] = row->kind == VR_TEXT_LOOKALIKE;
    v->has[VR_IS_WARNING] = row->kind == VR_TEXT_WARNING;
    v->has[VR_IS_INFO] = row->kind == VR_TEXT_INFO;
    v->has[VR_IS_CONSEQUENCE] = row->kind == VR_TEXT_CONSEQUENCE;
    v->has[VR_ENDED_SILENTLY] = row->program == VR_PROGRAM_DEEPSPEED || row->program == VR_PROGRAM_RAY;
    v->has[VR_IS_STEP] = row->kind == VR_TEXT_STEP;
    v->has[VR_IS_BARE] = v->event->sign.facts.n == 0;
    have(v, of_cause[v->telling->cause]);
    have(v, of_memory[row->memory]);
    v->has[VR_BY_PYTORCH] = v->sum.request.known && v->sum.allocated.known && v->sum.left.known;
    v->has[VR_BY_CUDA] = row->program == VR_PROGRAM_CUDA || row->program == VR_PROGRAM_PYTORCH;
    v->has[VR_BY_GGML] = row->program == VR_PROGRAM_LLAMACPP || row->program == VR_PROGRAM_OLLAMA ||
                         row->program == VR_PROGRAM_KOBOLDCPP;
}

static void view_name(vr_view *v, const vr_sign *s, bool near)
{
    vr_str id = vr_str_of(s->row->id);

    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if ((near || named[i].anywhere) && vr_str_starts(id, named[i].prefix))
            have(v, named[i].trait);
}

static void view_signs(vr_view *v)
{
    for (size_t i = 0; i < v->event->n_near; i++)
        view_name(v, &v->event->near[i], true);
    for (size_t i = 0; i < v->d->found.n_seen; i++)
        view_name(v, &v->d->found.seen[i], false);
    view_name(v, &v->event->sign, true);
}

static bool fact_value(const vr_view *v, vr_fact_id id, uint64_t *out)
{
    return vr_fact_value(&v->event->sign.facts, id, out);
}

#define FEW_TOKENS 1024
/* Of the models of data/catalogue.tsv whose tensors are known, in 16 bits: the largest weight (experts of
 * Llama 4 Maverick in one tensor), and what a weight of only nine of them reaches. */
#define LARGEST_WEIGHT (20 * VR_GIB)
#define LARGE_WEIGHT (5 * VR_GIB / 2)
/* The largest compute buffer of 1,672 runs of llama.cpp on a virtual device, without copies, has 3.2 GiB. */
#define HUGE_BUFFER (48 * VR_GIB)
/* One allocation may have 4 GiB in several back ends, a little less in some. */
#define NEAR_BUFFER_LIMIT (7 * VR_GIB / 2)
#define BEYOND_BUFFER_LIMIT (17 * VR_GIB / 4) /* what is split below a limit never asks for so much */

static void view_engine(vr_view *v)
{
    uint64_t total, left, wanted, n;

    if (fact_value(v, VR_FACT_WANTED_FREE, &wanted) && fact_value(v, VR_FACT_TOTAL, &total) &&
        fact_value(v, VR_FACT_FREE, &left)) {
        v->has[VR_HELD_LARGE] = vr_sub_floor(total, left) > VR_OUTSIDE_LARGE;
        v->has[VR_HELD_SMALL] = !v->has[VR_HELD_LARGE];
    }
    if (fact_value(v, VR_FACT_PROGRAM, &n) && fact_value(v, VR_FACT_TOTAL, &total))
        v->has[VR_PROGRAM_ALONE] = n > total;
    v->has[VR_FEW_TOKENS] = fact_value(v, VR_FACT_TOKENS_PREFILL, &n) && n <= FEW_TOKENS;
}

/* Other ranks that name the same card and hold so much that it explains what is not this rank's. */
static bool ranks_share(const vr_view *v)
{
    uint64_t gpu, other, most = 0, ranks = 0;

    if (v->event->sign.rank < 0 || !fact_value(v, VR_FACT_GPU, &gpu))
        return false;
    for (size_t i = 0; i < v->d->found.n_events; i++) {
        const vr_sign *s = &v->d->found.events[i].sign;
        vr_reckoning sum;
        if (s->file != v->event->sign.file || s->rank < 0 || s->rank == v->event->sign.rank ||
            !vr_fact_value(&s->facts, VR_FACT_GPU, &other) || other != gpu)
            continue;
        vr_reckon(&s->facts, &sum);
        ranks++;
        if (vr_span_middle(sum.reserved) > most)
            most = vr_span_middle(sum.reserved);
    }
    return ranks != 0 && vr_mul_sat(vr_add_sat(most, VR_GIB), 2 * ranks) >= vr_span_middle(v->sum.outside);
}

/* The share of those that the text names. */
static void view_figures(vr_view *v)
{
    static const struct {
        uint8_t fact, trait;
    } shares[] = {
        { VR_FACT_WEIGHTS, VR_MOST_WEIGHTS },
        { VR_FACT_MODEL_BUFFER, VR_MOST_WEIGHTS },
        { VR_FACT_KV_CACHE, VR_MOST_KV },
        { VR_FACT_KV_BUFFER, VR_MOST_KV },
        { VR_FACT_GRAPHS, VR_MOST_GRAPHS },
        { VR_FACT_ACTIVATION_PEAK, VR_MOST_ACTIVATIONS },
        { VR_FACT_COMPUTE_BUFFER, VR_MOST_ACTIVATIONS },
    };
    const vr_fact *limit = vr_finding_fact(v->d, v->f, VR_FACT_POOL_LIMIT);
    const vr_fact *used = vr_finding_fact(v->d, v->f, VR_FACT_POOL_USED);
    uint64_t most = 0;
    unsigned trait = VR_TRAIT_NONE;

    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        const vr_fact *fact = vr_finding_fact(v->d, v->f, (vr_fact_id)shares[i].fact);
        if (fact != NULL && !fact->negative && fact->value > most) {
            most = fact->value;
            trait = shares[i].trait;
        }
    }
    have(v, trait);
    v->has[VR_LIMIT_REACHED] = limit != NULL && used != NULL && used->value >= limit->value / 2;
    v->has[VR_ROUND_LIMIT] =
        limit != NULL && limit->slack == 0 && limit->value != 0 && limit->value % (VR_GIB / 4) == 0;
}

/* What figures alone say. */
static void view_excerpt(vr_view *v)
{
    const vr_fact *left = vr_finding_fact(v->d, v->f, VR_FACT_KV_AVAILABLE);
    const vr_fact *percent = vr_finding_fact(v->d, v->f, VR_FACT_PERCENT);
    const vr_fact *used = vr_finding_fact(v->d, v->f, VR_FACT_HOST_USED);
    const vr_fact *live = vr_finding_fact(v->d, v->f, VR_FACT_ALLOCATED);
    const vr_fact *held = vr_finding_fact(v->d, v->f, VR_FACT_RESERVED);

    v->has[VR_KV_NEGATIVE] = left != NULL && left->negative;
    v->has[VR_HOST_FULL] = used != NULL && percent != NULL && percent->value >= 90 * UINT64_C(1000000);
    v->has[VR_PEAK_TWICE] = live != NULL && held != NULL && live->value != 0 &&
                            held->value > vr_add_sat(live->value, live->value / 2);
}

/* Pairs of used and total in nvidia-smi's table, one a card. */
static void view_cards(vr_view *v, const vr_fact_list *facts)
{
    uint64_t used = 0;
    bool full = false, empty = false, known = false;

    for (size_t i = 0; i < facts->n; i++) {
        const vr_fact *f = &facts->f[i];
        if (f->id == VR_FACT_CARD_USED) {
            used = f->value;
            known = true;
        } else if (f->id == VR_FACT_TOTAL && known) {
            full = full || used >= f->value - f->value / 8;
            empty = empty || used <= f->value / 16;
            v->has[VR_CARD_EMPTY] = used < f->value / 2;
            v->has[VR_CARD_TAKEN] = used >= f->value / 2;
            known = false;
        }
    }
    v->has[VR_CARDS_UNEVEN] = v->has[VR_CARDS_UNEVEN] || (full && empty);
}

static void view_smi(vr_view *v)
{
    for (size_t i = 0; i < v->d->found.n_seen; i++)
        view_cards(v, &v->d->found.seen[i].facts);
}

/* A rank above the first, or a launcher's word. */
static bool several_ranks(const vr_view *v)
{
    for (size_t i = 0; i < v->d->found.n_events; i++) {
        const vr_sign *s = &v->d->found.events[i].sign;
        if (s->file == v->event->sign.file &&
            (s->rank > 0 || vr_str_is(vr_str_of("torchrun-failed"), s->row->id)))
            return true;
    }
    return false;
}

static bool is_killed(const vr_text_row *row)
{
    static const char *const ids[] = { "killed", "killed-in-script", "killed-translated", "exit-137",
                                       "exit-minus-9" };

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (vr_str_is(vr_str_of(ids[i]), row->id))
            return row->memory == VR_MEMORY_HOST;
    return false;
}

/* The word of the shell and the number of what started it: in two texts, or side by side in one message. */
static bool killed_twice(const vr_view *v)
{
    vr_str block = vr_str_of(v->event->block);

    for (size_t i = 0; i < v->d->found.n_events; i++) {
        const vr_sign *s = &v->d->found.events[i].sign;
        if (s->row != v->row && s->file == v->event->sign.file && is_killed(s->row))
            return true;
    }
    return vr_str_find(block, "illed", NULL) &&
           (vr_str_find(block, " 137", NULL) || vr_str_find(block, " -9", NULL));
}

static bool named_so(const vr_view *v, const char *const *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (vr_str_starts(vr_str_of(v->row->id), prefixes[i]))
            return true;
    return false;
}

#define NAMED(v, list) named_so((v), (list), sizeof(list) / sizeof(list)[0])

static void view_libraries(vr_view *v)
{
    static const char *const bare[] = { "pt-bare" };
    static const char *const libraries[] = { "cudnn-",  "cusolver-", "cublas-",  "jax-cusolver",
                                             "tf-conv", "tf-cublas", "pt-cublas" };

    v->has[VR_BY_BARE_CUDA] = NAMED(v, bare) && v->row->program == VR_PROGRAM_CUDA;
    v->has[VR_BY_LIBRARY] = NAMED(v, libraries);
    v->has[VR_UNDER_PREALLOCATION] =
        v->f->program == VR_PROGRAM_JAX || v->f->program == VR_PROGRAM_TENSORFLOW ||
        v->row->program == VR_PROGRAM_JAX || v->row->program == VR_PROGRAM_TENSORFLOW;
}

static void view_pool(vr_view *v)
{
    static const char *const arena[] = { "ort-arena" };
    const vr_fact *pool, *cap; /* TensorFlow prints them in lines of their own */
    uint64_t used, limit, request, idle;

    pool = vr_finding_fact(v->d, v->f, VR_FACT_PROGRAM);
    cap = vr_finding_fact(v->d, v->f, VR_FACT_ARGUMENTS);
    v->has[VR_MOSTLY_PROGRAM] = pool != NULL && cap != NULL && pool->value > cap->value;
    if (!fact_value(v, VR_FACT_REQUEST, &request))
        return;
    v->has[VR_ARENA_STEP] = NAMED(v, arena) && request >= VR_MIB && (request & (request - 1)) == 0;
    pool = vr_finding_fact(v->d, v->f, VR_FACT_POOL_USED);
    cap = vr_finding_fact(v->d, v->f, VR_FACT_POOL_LIMIT);
    if (pool == NULL || cap == NULL || v->has[VR_BY_PYTORCH])
        return;
    used = pool->value;
    limit = cap->value;
    idle = vr_sub_floor(limit, used);
    v->has[VR_POOL_IN_PIECES] = idle >= request && idle >= limit / 12;
}

/* "using device CUDA0 (...)", "using device Metal (...)": the name's last digit, 0 where it has none. */
static bool is_device(vr_str line, uint64_t device)
{
    static const char before[] = "using device ";
    size_t at, end;

    if (!vr_str_find(line, before, &at))
        return false;
    line = (vr_str){ line.s + at + sizeof before - 1, line.n - at - (sizeof before - 1) };
    if (!vr_str_find(line, " (", &end) || end == 0)
        return false;
    if (line.s[end - 1] < '0' || line.s[end - 1] > '9')
        return device == 0;
    return (uint64_t)(line.s[end - 1] - '0') == device;
}

const vr_fact *vr_device_free(const vr_view *v)
{
    uint64_t device = 0;

    (void)fact_value(v, VR_FACT_DEVICE, &device);
    for (size_t i = 0; i < v->d->found.n_seen; i++) {
        const vr_sign *s = &v->d->found.seen[i];
        if (s->file == v->event->sign.file && vr_str_is(vr_str_of("info-ggml-device"), s->row->id) &&
            is_device(vr_str_of(s->text), device))
            return vr_fact_of(&s->facts, VR_FACT_FREE);
    }
    return NULL;
}

/* By the figure, or by the name of the buffer: "CUDA3". */
static bool later_device(const vr_view *v, uint64_t *device)
{
    vr_str block = vr_str_of(v->event->block);
    size_t at;

    if (fact_value(v, VR_FACT_DEVICE, device))
        return *device != 0;
    return vr_str_find(block, "to allocate CUDA", &at) && at + 16 < block.n && block.s[at + 16] >= '1' &&
           block.s[at + 16] <= '9';
}

static void view_device(vr_view *v)
{
    const vr_fact *left = vr_device_free(v);
    const vr_fact *run = vr_finding_fact(v->d, v->f, VR_FACT_PROJECTED);
    const vr_fact *room = vr_finding_fact(v->d, v->f, VR_FACT_FREE);
    uint64_t buffer, device;

    v->has[VR_HUGE_BUFFER] = fact_value(v, VR_FACT_BUFFER, &buffer) && buffer >= HUGE_BUFFER;
    v->has[VR_SMALL_BUFFER] = fact_value(v, VR_FACT_BUFFER, &buffer) && buffer < VR_GIB;
    v->has[VR_LATER_DEVICE] = v->has[VR_BY_GGML] && later_device(v, &device);
    v->has[VR_FITS_PROJECTED] =
        v->has[VR_BY_GGML] && run != NULL && room != NULL && run->value <= room->value;
    v->has[VR_BUFFER_OVER_FREE] = left != NULL && v->has[VR_BY_GGML] && v->place.phase == VR_PHASE_LOAD &&
                                  fact_value(v, VR_FACT_BUFFER, &buffer) && buffer > left->value;
}

static void view_sizes(vr_view *v)
{
    static const char *const one_buffer[] = { "pt-mps-buffer", "wgpu-buffer" };
    static const char *const limited[] = { "ggml-vulkan", "ggml-sycl", "vulkan-", "sycl-",
                                           "opencl-",     "directml-", "pt-xpu" };
    const vr_fact *request = vr_fact_of(&v->event->sign.facts, VR_FACT_REQUEST);
    uint64_t buffer, weights, budget;

    v->has[VR_ONE_BUFFER] = NAMED(v, one_buffer);
    v->has[VR_BY_MLX_BUFFER] = vr_str_is(vr_str_of("mlx-buffer"), v->row->id);
    v->has[VR_SAYS_KILLED] = vr_str_find(vr_str_of(v->event->block), "signal: killed", NULL);
    v->has[VR_BLOCK_KV] = vr_str_find(vr_str_of(v->event->block), "buffer for kv cache", NULL);
    v->has[VR_ON_MAC] = v->sum.max_allowed.known;
    v->has[VR_EMBEDDING_SIZED] = vr_embedding_sized(v->sum.request);
    v->has[VR_LOGITS_SIZED] = request != NULL && request->slack == 0 && vr_logits_sized(request->value);
    v->has[VR_OVER_WEIGHTS] = request != NULL && request->value > LARGEST_WEIGHT;
    v->has[VR_OVER_WIDE_WEIGHTS] = request != NULL && request->value > 2 * LARGEST_WEIGHT;
    v->has[VR_LARGE_PIECE] = request != NULL && request->value >= LARGE_WEIGHT;
    v->has[VR_SMALL_PIECE] = request != NULL && request->value <= 32 * VR_MIB;
    if (fact_value(v, VR_FACT_BUFFER, &buffer) || fact_value(v, VR_FACT_REQUEST, &buffer))
        v->has[VR_ON_LIMITED_BUFFERS] =
            NAMED(v, limited) && buffer >= NEAR_BUFFER_LIMIT && buffer <= BEYOND_BUFFER_LIMIT;
    if (!fact_value(v, VR_FACT_WEIGHTS, &weights) || !fact_value(v, VR_FACT_BUDGET, &budget))
        return;
    v->has[VR_WEIGHTS_OVER_BUDGET] = weights > budget;
    v->has[VR_BUFFERS_OVER_BUDGET] =
        weights <= budget && fact_value(v, VR_FACT_COMPUTE_BUFFER, &buffer) && buffer > weights / 2;
}

static void view_log(vr_view *v)
{
    const vr_fact *copies = vr_finding_fact(v->d, v->f, VR_FACT_COPIES);
    uint64_t gpu;

    v->has[VR_COPIES] = copies != NULL && copies->value > 1;
    v->has[VR_RANKS_SHARE] = ranks_share(v);
    v->has[VR_UNDER_SHARDING] = v->f->program == VR_PROGRAM_DEEPSPEED || v->f->program == VR_PROGRAM_FSDP ||
                                v->f->program == VR_PROGRAM_MEGATRON;
    v->has[VR_AFTER_VLLM_LOAD] = v->f->program == VR_PROGRAM_VLLM && v->place.sign != NULL &&
                                 vr_str_is(vr_str_of("step-loaded"), v->place.sign->row->id);
    view_smi(v);
    v->has[VR_SEVERAL_RANKS] = several_ranks(v);
    v->has[VR_RANK_ON_FIRST] =
        v->event->sign.rank > 0 && v->event->sign.rank < 8 && fact_value(v, VR_FACT_GPU, &gpu) && gpu == 0;
    v->has[VR_GRAPHS_CAPTURED] = vr_span_middle(v->sum.private_pools) != 0;
    v->has[VR_MANY_SIBLINGS] = v->sum.n_siblings >= 4;
    v->has[VR_IS_KILLED] = is_killed(v->row);
    v->has[VR_KILLED_TWICE] = v->has[VR_IS_KILLED] && killed_twice(v);
    have(v, of_program[v->f->program]);
}

void vr_view_event(struct vram_diagnosis *d, vr_finding *f, vr_view *v)
{
    *v = (vr_view){ .d = d, .f = f, .event = f->event, .row = f->event->sign.row };
    vr_reckon(&v->event->sign.facts, &v->sum);
    v->telling = f->named_by != NULL ? f->named_by->row : v->row;
    v->place = vr_phase_of(v->event);
    if (v->place.phase == VR_PHASE_UNKNOWN && v->telling->phase != VR_PHASE_UNKNOWN)
        v->place = (vr_place_in_run){ .phase = v->telling->phase, .sign = f->named_by };
    for (size_t i = 0; i < VR_RULE_COUNT; i++)
        v->has[VR_BY_RULE + i] = v->sum.rule[i] == VR_YES;
    view_row(v);
    view_signs(v);
    view_engine(v);
    view_log(v);
    view_figures(v);
    view_excerpt(v);
    view_sizes(v);
    view_device(v);
    view_libraries(v);
    view_pool(v);
    v->has[VR_OWN_BY_SIZE] = v->sum.own_by_size;
    v->has[VR_SEVERAL_OTHERS] =
        v->event->sign.rank > 0 || v->sum.n_processes > (v->sum.own_by_size ? 2u : 1u);
    have(v, of_phase[v->place.phase]);
    v->has[VR_AT_FRAME] = v->place.from_frame;
    v->has[VR_FRAME_PLACEMENT] =
        v->place.from_frame && v->place.sign->row->cause == VR_CAUSE_DEVICE_PLACEMENT;
    v->has[VR_FRAME_KV] = v->place.from_frame && v->place.sign->row->cause == VR_CAUSE_KV_CACHE;
}

static bool applies(const vr_verdict *verdict, const vr_view *v)
{
    size_t n = sizeof verdict->when / sizeof verdict->when[0];

    for (size_t i = 0; i < n && verdict->when[i] != 0; i++) {
        int16_t t = verdict->when[i];
        if (t > 0 ? !v->has[t] : v->has[-t])
            return false;
    }
    return true;
}

const vr_verdict *vr_find_verdict(const vr_view *v)
{
    size_t i = 0;

    while (i + 1 < vr_verdicts_n && !applies(&vr_verdicts[i], v))
        i++;
    return &vr_verdicts[i];
}
