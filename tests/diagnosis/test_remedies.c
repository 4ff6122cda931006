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

#include "made.h"
#include "read.h"
#include "diagnosis/levers.h"

#define BIT(id) VR_BIT(id)
#define CAUSE(id) VR_BIT(VR_CAUSE_##id)
#define PHASE(id) VR_BIT(VR_PHASE_##id)
#define PROGRAM(id) VR_BIT(VR_PROGRAM_##id)

static unsigned wrong;

/* ---- what is so, by this file's own sums ---- */

typedef struct truth {
    const struct vram_diagnosis *d;
    const vr_finding *f;
    bool fragmented; /* what is idle would do, and is 2 % of the card or more */
    bool much_idle;  /* and 8 % */
    bool over_card, free_suffices, foreign, several, own_limit, nccl, fp32, no_room, windows, wsl,
        refused_one;
    double share, fraction; /* that vLLM and SGLang have now */
} truth;

static bool fact(const truth *t, vr_fact_id id, uint64_t *out)
{
    const vr_fact *v = vr_finding_fact(t->d, t->f, id);

    if (v == NULL || v->negative)
        return false;
    *out = v->value;
    return true;
}

static bool of_event(const truth *t, vr_fact_id id, uint64_t *out)
{
    return t->f->event != NULL && vr_fact_value(&t->f->event->sign.facts, id, out);
}

static bool block_has(const truth *t, const char *what)
{
    return t->f->event != NULL && t->f->event->block != NULL && strstr(t->f->event->block, what) != NULL;
}

static bool row_begins(const truth *t, const char *prefix)
{
    const vr_incident *e = t->f->event;

    if (e == NULL)
        return false;
    for (size_t i = 0; i < e->n_near; i++)
        if (strncmp(e->near[i].row->id, prefix, strlen(prefix)) == 0)
            return true;
    return strncmp(e->sign.row->id, prefix, strlen(prefix)) == 0 ||
           (e->step != NULL && strncmp(e->step->row->id, prefix, strlen(prefix)) == 0);
}

static bool sub_cause(const truth *t, const char *what)
{
    return t->f->sub_cause != NULL && strcmp(t->f->sub_cause, what) == 0;
}

static void sums(truth *t)
{
    uint64_t request, total, left, idle, reserved, allocated;
    bool idle_known = of_event(t, VR_FACT_IDLE, &idle), live = of_event(t, VR_FACT_ALLOCATED, &allocated),
         reserved_known = of_event(t, VR_FACT_RESERVED, &reserved);

    if (!idle_known && live && reserved_known) {
        idle = reserved > allocated ? reserved - allocated : 0;
        idle_known = true;
    }
    if (!reserved_known && live && idle_known) {
        reserved = allocated + idle;
        reserved_known = true;
    }
    if (!of_event(t, VR_FACT_TOTAL, &total) || total == 0)
        return;
    if (reserved_known && of_event(t, VR_FACT_FREE, &left))
        t->foreign = t->foreign || (double)total - (double)left - (double)reserved > 2.5 * VR_GIB;
    if (!of_event(t, VR_FACT_REQUEST, &request))
        return;
    t->over_card = request > total;
    if (!of_event(t, VR_FACT_FREE, &left))
        return;
    t->free_suffices = left >= request;
    t->fragmented =
        idle_known && left < request && request <= left + idle && (double)idle >= 0.02 * (double)total;
    t->much_idle = t->fragmented && (double)idle >= 0.08 * (double)total;
}

static truth truth_of(const struct vram_diagnosis *d, const vr_finding *f)
{
    truth t = { .d = d, .f = f, .share = 0.90, .fraction = 0.88 };
    uint64_t n, needed;

    t.foreign = f->cause == VR_CAUSE_OTHER_PROCESS ||
                (f->shares.known && f->shares.outside_is_split && f->shares.others > VR_GIB);
    sums(&t);
    if (f->shares.known && f->shares.outside_is_split && f->cause != VR_CAUSE_OTHER_PROCESS)
        t.foreign = f->shares.others > VR_GIB;
    for (size_t i = 0; i < d->found.n_events; i++) {
        const vr_sign *s = &d->found.events[i].sign;
        t.several = t.several || s->rank > 0 || (vr_fact_value(&s->facts, VR_FACT_GPU, &n) && n > 0) ||
                    (vr_fact_value(&s->facts, VR_FACT_DEVICE, &n) && n > 0);
    }
    t.several = t.several || (fact(&t, VR_FACT_COPIES, &n) && n > 1);
    t.own_limit = sub_cause(&t, "self_imposed");
    t.nccl = sub_cause(&t, "nccl") || f->phase == VR_PHASE_COMMUNICATOR || row_begins(&t, "nccl-");
    t.fp32 = sub_cause(&t, "fp32_or_upcast") || vr_seen(&d->found, f->event, "opt-fp32");
    t.windows = vr_seen(&d->found, f->event, "windows");
    t.wsl = vr_seen(&d->found, f->event, "wsl");
    t.no_room = block_has(&t, "No available memory for the cache blocks") ||
                block_has(&t, "Not enough memory. Please try to increase") ||
                block_has(&t, "Loaded weights leave no GPU memory") || block_has(&t, "Cannot auto-fit") ||
                (vr_finding_fact(d, f, VR_FACT_KV_AVAILABLE) != NULL &&
                 (vr_finding_fact(d, f, VR_FACT_KV_AVAILABLE)->negative ||
                  vr_finding_fact(d, f, VR_FACT_KV_AVAILABLE)->value == 0));
    t.refused_one = f->event != NULL && f->event->sign.row->kind == VR_TEXT_REFUSAL &&
                    of_event(&t, VR_FACT_KV_NEEDED, &needed);
    if (fact(&t, VR_FACT_UTILIZATION, &n))
        t.share = (double)n / 1e6;
    if (fact(&t, VR_FACT_STATIC_SHARE, &n))
        t.fraction = (double)n / 1e6;
    return t;
}

static bool caused_by(const truth *t, uint64_t causes)
{
    return (causes & BIT(t->f->cause)) != 0;
}

static bool at(const truth *t, uint64_t phases)
{
    return (phases & BIT(t->f->phase)) != 0;
}

static bool on_card(const truth *t)
{
    return t->f->memory == VR_MEMORY_GPU || t->f->memory == VR_MEMORY_POOL;
}

/* ---- the laws: advice that is often wrong, and when it is right ---- */

typedef bool right(const truth *t, const char *command);

static bool never(const truth *t, const char *command)
{
    (void)t;
    (void)command;
    return false;
}

static bool if_in_pieces(const truth *t, const char *command)
{
    (void)command;
    return t->much_idle || (t->fragmented && sub_cause(t, "fragmentation"));
}

static bool if_asked_from_outside(const truth *t, const char *command)
{
    (void)command;
    return t->nccl;
}

static bool if_batch_counts(const truth *t, const char *command)
{
    (void)command;
    return caused_by(t, CAUSE(ACTIVATIONS));
}

/* Requests at once share a cache; one request that is too long is helped by none. */
static bool if_requests_count(const truth *t, const char *command)
{
    (void)command;
    return (caused_by(t, CAUSE(ACTIVATIONS) | CAUSE(KV_CACHE) | CAUSE(RUNTIME_OVERHEAD)) &&
            !t->refused_one) ||
           row_begins(t, "sglang-slots") || t->f->cause == VR_CAUSE_NOT_CAPACITY;
}

static double number_behind(const char *command, const char *flag)
{
    return strtod(strstr(command, flag) + strlen(flag), NULL);
}

static const uint64_t sizing = PHASE(START) | PHASE(LOAD) | PHASE(PROFILE) | PHASE(KV_CACHE) | PHASE(UNKNOWN),
                      running = PHASE(CAPTURE) | PHASE(SERVING) | PHASE(FORWARD) | PHASE(LATER);

/* More where an engine refused for its cache on a card of its own; less at run time, at capture, for NCCL, or
 * because others hold a part of the card. Never while loading: it is applied afterwards. */
static bool if_share_direction(const truth *t, const char *command)
{
    double share = number_behind(command, "--gpu-memory-utilization ");

    if (share > t->share)
        return caused_by(t, CAUSE(KV_CACHE)) && at(t, PHASE(PROFILE) | PHASE(KV_CACHE)) && !t->foreign;
    return caused_by(t, CAUSE(OTHER_PROCESS) | CAUSE(LIMIT)) || at(t, running) || t->nccl;
}

static bool if_fraction_direction(const truth *t, const char *command)
{
    double fraction = number_behind(command, "--mem-fraction-static ");
    bool refused = t->f->event != NULL && t->f->event->sign.row->kind == VR_TEXT_REFUSAL;

    if (fraction > t->fraction)
        return refused && at(t, sizing | PHASE(SERVING)) && !t->foreign;
    return at(t, running) || (t->foreign && !refused);
}

static bool if_prompts_are_long(const truth *t, const char *command)
{
    (void)command;
    return caused_by(t, CAUSE(ACTIVATIONS));
}

static bool if_process_is_foreign(const truth *t, const char *command)
{
    uint64_t id;

    (void)command;
    return t->f->cause == VR_CAUSE_OTHER_PROCESS && of_event(t, VR_FACT_PROCESS_ID, &id);
}

/* Divided by one card nothing is saved; moved to the computer's memory it is. */
static bool if_cards_or_offload(const truth *t, const char *command)
{
    return t->several || strstr(command, "offload") != NULL || strstr(command, "bucket") != NULL ||
           strstr(command, "live_parameters") != NULL;
}

static bool if_driver_fails(const truth *t, const char *command)
{
    (void)command;
    return t->f->cause == VR_CAUSE_DRIVER_OR_HARDWARE;
}

static bool if_host(const truth *t, const char *command)
{
    (void)command;
    return t->f->memory == VR_MEMORY_HOST || t->f->memory == VR_MEMORY_SHM;
}

/* Windows counts a card's memory against the page file: full there while the card has room. */
static bool if_commit_limit(const truth *t, const char *command)
{
    return if_host(t, command) || (t->windows && t->free_suffices);
}

static bool if_weights_short(const truth *t, const char *command)
{
    (void)command;
    return caused_by(t, CAUSE(WEIGHTS)) || t->no_room || (caused_by(t, CAUSE(HOST_RAM)) && !on_card(t)) ||
           (caused_by(t, CAUSE(KV_CACHE)) && t->f->program == VR_PROGRAM_TGI);
}

static bool if_restart_helps(const truth *t, const char *command)
{
    (void)command;
    return block_has(t, "rror in memory profiling");
}

static const struct law {
    const char *text; /* what the command holds */
    right *right;
    const char *why;
} laws[] = {
    { "expandable_segments", if_in_pieces, "packing helps only where the idle part would do" },
    { "max_split_size_mb", if_in_pieces, "packing helps only where the idle part would do" },
    { "garbage_collection_threshold", if_in_pieces, "packing helps only where the idle part would do" },
    { "empty_cache", if_asked_from_outside, "PyTorch gave back what it could before it gave up" },
    { "batch_size=", if_batch_counts, "weights and states do not depend on the batch" },
    { "train_batch_size", if_batch_counts, "weights and states do not depend on the batch" },
    { "eval_batch_size", if_batch_counts, "weights and states do not depend on the batch" },
    { "micro_batch", if_batch_counts, "weights and states do not depend on the batch" },
    { "--micro-batch-size", if_batch_counts, "weights and states do not depend on the batch" },
    { "batchsize=", if_batch_counts, "weights and states do not depend on the batch" },
    { "minibatchSize", if_batch_counts, "weights and states do not depend on the batch" },
    { "gradient_accumulation", if_batch_counts, "it replaces batch size and nothing else" },
    { "accumulate_grad", if_batch_counts, "it replaces batch size and nothing else" },
    { "--max-num-seqs", if_requests_count, "one request that is too long is not helped" },
    { "--max-running-requests", if_requests_count, "one request that is too long is not helped" },
    { "--max-batch-size", if_requests_count, "one request that is too long is not helped" },
    { "--max_batch_size", if_requests_count, "one request that is too long is not helped" },
    { "--gpu-memory-utilization ", if_share_direction, "the step decides the direction" },
    { "--mem-fraction-static ", if_fraction_direction, "the step decides the direction" },
    { "--max-batch-prefill-tokens", if_prompts_are_long, "weights that fill the card are no prompt" },
    { "kill ", if_process_is_foreign, "a container's own number, or a process that holds nothing" },
    { "taskkill", if_process_is_foreign, "a container's own number, or a process that holds nothing" },
    { "pkill", never, "it ends programs of others" },
    { "load_in_8bit_fp32_cpu_offload", never, "there is no such argument" },
    { ".cuda()", never, "behind a device map it moves all back to the first card" },
    { "\"zero_optimization\"", if_cards_or_offload, "one card divides by one" },
    { "FULL_SHARD", if_cards_or_offload, "one card divides by one" },
    { "fully_shard", if_cards_or_offload, "one card divides by one" },
    { "ZeroRedundancyOptimizer", if_cards_or_offload, "one card divides by one" },
    { "--use-distributed-optimizer", if_cards_or_offload, "one card divides by one" },
    { "strategy=\"fsdp\"", if_cards_or_offload, "one card divides by one" },
    { "--quantization", never, "quantising at start needs the 16-bit model first" },
    { "--quantize bitsandbytes", never, "quantising at start needs the 16-bit model first" },
    { "--quantize eetq", never, "quantising at start needs the 16-bit model first" },
    { "eval_accumulation_steps", never, "alone it moves the growth to the computer's memory" },
    { "WATERMARK", never, "it takes the guard away" },
    { "CUDA_LAUNCH_BLOCKING", never, "it frees nothing" },
    { "nvidia-driver", if_driver_fails, "a driver that answers is not the reason" },
    { "modprobe", if_driver_fails, "a driver that answers is not the reason" },
    { "reboot", if_driver_fails, "a failure that is computed comes again" },
    { "gpu-reset", if_driver_fails, "a failure that is computed comes again" },
    { "start it again", if_restart_helps, "a failure that is computed comes again" },
    { "swapfile", if_host, "it is the computer's memory that this adds to" },
    { "--memory ", if_host, "it is the computer's memory that this adds to" },
    { "--shm-size", if_host, "it is the computer's memory that this adds to" },
    { "--mem=", if_host, "it is the computer's memory that this adds to" },
    { "limits=memory", if_host, "it is the computer's memory that this adds to" },
    { "SystemPropertiesPerformance", if_commit_limit, "it is the computer's memory that this adds to" },
    { "MODEL-AWQ", if_weights_short, "a refused cache wants a shorter context" },
    { "Q4_K_M", if_weights_short, "a refused cache wants a shorter context" },
    { "load_in_4bit", if_weights_short, "a refused cache wants a shorter context" },
    { "load_in_8bit", if_weights_short, "a refused cache wants a shorter context" },
};

/* More cards: not for one piece larger than a card, not beside a program that holds it, not for other memory.
 */
static bool hardware_is_right(const truth *t)
{
    return on_card(t) && !t->over_card && !t->foreign &&
           caused_by(t, CAUSE(WEIGHTS) | CAUSE(KV_CACHE) | CAUSE(GRADIENTS) | CAUSE(OPTIMIZER_STATES));
}

static bool is_hardware(const char *id)
{
    for (size_t i = 0; i < vr_remedy_table_n; i++)
        if (strcmp(vr_remedy_table[i].id, id) == 0)
            return vr_remedy_table[i].cost == VR_COST_HARDWARE;
    return false;
}

static void tell_wrong(const truth *t, const vr_remedy *r, const char *why)
{
    if (wrong++ < 40)
        print_error("%s / %s / %s (%s, event %s): %s is offered, but %s\n",
                    vr_program_words[t->f->program].word, vr_cause_words[t->f->cause].word,
                    vr_phase_words[t->f->phase].word, t->f->sub_cause != NULL ? t->f->sub_cause : "-",
                    t->f->event != NULL ? t->f->event->sign.row->id : "-", r->command, why);
}

static void obey(const struct vram_diagnosis *d, const vr_finding *f)
{
    truth t = truth_of(d, f);

    for (size_t i = 0; i < f->n_remedies; i++) {
        const vr_remedy *r = &f->remedies[i];
        for (size_t k = 0; k < sizeof laws / sizeof laws[0]; k++)
            if (strstr(r->command, laws[k].text) != NULL && !laws[k].right(&t, r->command))
                tell_wrong(&t, r, laws[k].why);
        if (is_hardware(r->id) && !hardware_is_right(&t))
            tell_wrong(&t, r, "more hardware is no answer here");
    }
}

/* ---- what no list may be ---- */

static bool balanced(const char *s)
{
    char open[64];
    size_t n = 0;
    char quote = 0;

    for (; *s != '\0'; s++) {
        if (quote != 0) {
            quote = *s == quote ? 0 : quote;
        } else if (*s == '\'' || *s == '"') {
            quote = *s;
        } else if (strchr("([{", *s) != NULL && n < sizeof open) {
            open[n++] = *s == '(' ? ')' : *s == '[' ? ']' : '}';
        } else if (strchr(")]}", *s) != NULL && (n == 0 || open[--n] != *s)) {
            return false;
        }
    }
    return n == 0 && quote == 0;
}

static unsigned cost_of(const char *id)
{
    for (size_t i = 0; i < vr_remedy_table_n; i++)
        if (strcmp(vr_remedy_table[i].id, id) == 0)
            return vr_remedy_table[i].cost;
    return 0;
}

static void be_sound(const vr_finding *f)
{
    assert_true(f->n_remedies <= VR_MAX_REMEDIES);
    assert_true(f->n_futile <= VR_MAX_FUTILE);
    for (size_t i = 0; i < f->n_remedies; i++) {
        const vr_remedy *r = &f->remedies[i];
        if (r->command == NULL || *r->command == '\0' || !balanced(r->command)) {
            print_error("%s: \"%s\" does not close what it opens\n", r->id, r->command);
            wrong++;
        }
        if (i > 0 && cost_of(f->remedies[i - 1].id) > cost_of(r->id)) {
            print_error("%s is dearer than %s behind it\n", f->remedies[i - 1].id, r->id);
            wrong++;
        }
        for (size_t k = 0; k < i; k++)
            if (strcmp(f->remedies[k].command, r->command) == 0) {
                print_error("%s and %s are the same: %s\n", f->remedies[k].id, r->id, r->command);
                wrong++;
            }
    }
    for (size_t i = 0; i < f->n_futile; i++) {
        for (size_t k = 0; k < f->n_remedies; k++)
            if (strstr(f->remedies[k].command, f->futile[i].what) != NULL) {
                print_error("\"%s\" is in vain and offered\n", f->futile[i].what);
                wrong++;
            }
        for (size_t k = 0; k < i; k++)
            if (strcmp(f->futile[i].what, f->futile[k].what) == 0) {
                print_error("\"%s\" is in vain twice\n", f->futile[i].what);
                wrong++;
            }
    }
}

/* ---- every combination ---- */

static const message plain = { .request = "512.00 MiB",
                               .total = "23.50 GiB",
                               .left = "100.00 MiB",
                               .allocated = "22.60 GiB",
                               .idle = "300.00 MiB" },
                     pieces = { .request = "1.00 GiB",
                                .total = "23.50 GiB",
                                .left = "200.00 MiB",
                                .allocated = "19.80 GiB",
                                .idle = "3.00 GiB" },
                     some_pieces = { .request = "500.00 MiB",
                                     .total = "23.50 GiB",
                                     .left = "200.00 MiB",
                                     .allocated = "21.90 GiB",
                                     .idle = "1.00 GiB" },
                     shared = { .request = "512.00 MiB",
                                .total = "23.50 GiB",
                                .left = "100.00 MiB",
                                .allocated = "12.00 GiB",
                                .idle = "100.00 MiB",
                                .others = { { "4711", "10.90 GiB" } } },
                     larger = { .request = "64.00 GiB",
                                .total = "23.50 GiB",
                                .left = "9.00 GiB",
                                .allocated = "13.90 GiB",
                                .idle = "100.00 MiB" },
                     enough = { .request = "512.00 MiB",
                                .total = "23.50 GiB",
                                .left = "9.00 GiB",
                                .allocated = "13.90 GiB",
                                .idle = "100.00 MiB" },
                     second = { .request = "512.00 MiB",
                                .total = "23.50 GiB",
                                .left = "100.00 MiB",
                                .allocated = "22.60 GiB",
                                .idle = "300.00 MiB" },
                     nothing = { .request = NULL };

/* A circumstance: figures, text, kind of message, and rows seen beside it. */
static const struct setting {
    const message *figures;
    const char *id, *block, *seen, *sub;
    uint8_t kind, rank;
} settings[] = {
    { &nothing, "made", "", NULL, NULL, VR_TEXT_FATAL, 0 },
    { &plain, "made", "CUDA out of memory", NULL, NULL, VR_TEXT_FATAL, 0 },
    { &pieces, "made", "CUDA out of memory", NULL, NULL, VR_TEXT_FATAL, 0 },
    { &pieces, "made", "CUDA out of memory", "windows", NULL, VR_TEXT_FATAL, 0 },
    { &pieces, "made", "CUDA out of memory", "opt-expandable", NULL, VR_TEXT_FATAL, 0 },
    { &some_pieces, "made", "CUDA out of memory", NULL, "fragmentation", VR_TEXT_FATAL, 0 },
    { &some_pieces, "made", "CUDA out of memory", NULL, NULL, VR_TEXT_FATAL, 0 },
    { &shared, "made", "CUDA out of memory", NULL, NULL, VR_TEXT_FATAL, 0 },
    { &shared, "made", "CUDA out of memory", "container", NULL, VR_TEXT_FATAL, 0 },
    { &larger, "made", "CUDA out of memory", NULL, "logits", VR_TEXT_FATAL, 0 },
    { &enough, "made", "CUDA out of memory", "windows", "figures_contradict", VR_TEXT_FATAL, 0 },
    { &second, "made", "CUDA out of memory", NULL, NULL, VR_TEXT_FATAL, 1 },
    { &plain, "made", "CUDA out of memory", "opt-fp32", NULL, VR_TEXT_FATAL, 0 },
    { &plain, "nccl-made", "NCCL WARN Cuda failure 'out of memory'", NULL, "nccl", VR_TEXT_FATAL, 0 },
    { &plain, "logits-made", "CUDA out of memory", NULL, NULL, VR_TEXT_FATAL, 0 },
    { &plain, "eval-growth-made", "CUDA out of memory", NULL, "steady_growth", VR_TEXT_FATAL, 0 },
    { &plain, "foreach-made", "CUDA out of memory", NULL, NULL, VR_TEXT_FATAL, 0 },
    { &plain, "graphs-made", "CUDA out of memory", NULL, "cuda_graphs", VR_TEXT_FATAL, 0 },
    { &plain, "pin-made", "cudaHostAlloc failed", "wsl", NULL, VR_TEXT_FATAL, 0 },
    { &nothing, "made", "No available memory for the cache blocks.", NULL, NULL, VR_TEXT_REFUSAL, 0 },
    { &nothing, "made", "Not enough memory. Please try to increase --mem-fraction-static.", NULL, NULL,
      VR_TEXT_REFUSAL, 0 },
    { &nothing, "made", "To serve at least one request", NULL, NULL, VR_TEXT_REFUSAL, 0 },
    { &nothing, "made", "OOMKilled", "kubernetes", NULL, VR_TEXT_FATAL, 0 },
    { &nothing, "made", "slurmstepd: oom-kill event in StepId=1.0", NULL, NULL, VR_TEXT_FATAL, 0 },
    { &nothing, "made", "The paging file is too small (os error 1455)", "windows", NULL, VR_TEXT_FATAL, 0 },
    { &plain, "made", "HIP out of memory", NULL, NULL, VR_TEXT_FATAL, 0 },
    { &nothing, "made", "MPS backend out of memory", "macos", NULL, VR_TEXT_FATAL, 0 },
    { &plain, "made", "XPU out of memory", NULL, NULL, VR_TEXT_FATAL, 0 },
};
#define N_SETTINGS (sizeof settings / sizeof settings[0])

/* A finding as causes would make it, with an event of one's own. */
typedef struct stage {
    struct vram_diagnosis d;
    vr_finding f;
    vr_incident event;
    vr_text_row row, seen_row;
    vr_sign seen;
    made figures;
} stage;

static void set_stage(stage *s, world *w, const struct setting *how)
{
    *s = (stage){ .d = { .ctx = w->ctx } };
    vr_arena_init(&s->d.arena, w->ctx);
    s->figures = made_of(how->figures);
    s->row = (vr_text_row){ .id = how->id, .kind = how->kind };
    s->event =
        (vr_incident){ .sign = { .row = &s->row, .rank = how->rank > 0 ? how->rank : -1, .text = how->block },
                       .block = how->block };
    s->event.sign.facts = (vr_fact_list){ s->figures.facts, s->figures.list.n };
    s->d.found = (vr_findings){ .events = &s->event, .n_events = 1 };
    if (how->seen != NULL) {
        s->seen_row = (vr_text_row){ .id = how->seen, .kind = VR_TEXT_PLATFORM };
        s->seen = (vr_sign){ .row = &s->seen_row, .rank = -1, .text = "" };
        s->d.found.seen = &s->seen;
        s->d.found.n_seen = 1;
    }
    s->f = (vr_finding){ .event = &s->event, .sub_cause = how->sub };
}

static uint8_t memory_of(unsigned cause)
{
    switch (cause) {
    case VR_CAUSE_UNKNOWN:
        return VR_MEMORY_UNKNOWN;
    case VR_CAUSE_HOST_RAM:
        return VR_MEMORY_HOST;
    case VR_CAUSE_DRIVER_OR_HARDWARE:
    case VR_CAUSE_NOT_CAPACITY:
    case VR_CAUSE_NONE:
        return VR_MEMORY_NONE;
    default:
        return VR_MEMORY_GPU;
    }
}

static void judge(stage *s, unsigned program, unsigned cause, unsigned phase, unsigned certainty)
{
    s->f.program = (uint8_t)program;
    s->f.cause = (uint8_t)cause;
    s->f.phase = (uint8_t)phase;
    s->f.memory = memory_of(cause);
    s->f.certainty = (uint8_t)certainty;
    s->f.n_remedies = s->f.n_futile = 0;
    s->f.tell = NULL;
    assert_int_equal(vr_diagnose_remedies(&s->d, &s->f), VRAM_OK);
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
                    judge(&s, program, cause, phase, VR_CERTAINTY_LIKELY);
                    obey(&s.d, &s.f);
                    be_sound(&s.f);
                }
            vr_arena_free(&s.d.arena);
        }
    assert_int_equal(wrong, 0);
}

/* ---- every example of the table ---- */

static void unescape(char *out, const char *in)
{
    for (; *in != '\0'; in++)
        if (in[0] == '\\' && in[1] == 'n') {
            *out++ = '\n';
            in++;
        } else {
            *out++ = *in;
        }
    *out = '\0';
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
                      training = PROGRAM(TRAINER) | PROGRAM(DEEPSPEED) | PROGRAM(FSDP) | PROGRAM(MEGATRON) |
                                 PROGRAM(LIGHTNING),
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
        (struct hole){ ALL, CAUSE(NOT_CAPACITY), "what helps hangs on the text, see each_lookalike" };
    holes[n++] = (struct hole){ ALL, CAUSE(LIMIT), "what helps hangs on whose limit it is, see `offered`" };
    holes[n++] =
        (struct hole){ serving_programs | pictures | PROGRAM(TRANSFORMERS) | PROGRAM(ONNXRUNTIME) |
                           PROGRAM(RUST) | arrays | PROGRAM(MLX) | PROGRAM(CNTK),
                       CAUSE(GRADIENTS) | CAUSE(OPTIMIZER_STATES), "it does not train, or not by itself" };
    holes[n++] = (struct hole){ ALL & ~serving_programs & ~PROGRAM(TRANSFORMERS) & ~PROGRAM(MLX),
                                CAUSE(KV_CACHE), "it keeps no cache of keys and values, or not by itself" };
    holes[n++] = (struct hole){ not_a_framework, OF_MODELS, "what runs above it is what has levers" };
    holes[n++] = (struct hole){ ALL & ~PROGRAM(PYTORCH), CAUSE(RUNTIME_OVERHEAD),
                                "what helps hangs on what it is of: graphs, NCCL, pieces; see `offered`" };
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
    (void)training;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_combinations_obey, open_world, close_world),
        cmocka_unit_test_setup_teardown(all_examples_obey, open_world, close_world),
        cmocka_unit_test_setup_teardown(every_program_has_levers, open_world, close_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
