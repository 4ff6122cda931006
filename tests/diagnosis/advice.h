/* SPDX-License-Identifier: MIT
 * When advice that is often wrong is right, by sums of this file's own; and findings made by hand to hold it
 * against. For tests of levers: what must not be offered is counted in `wrong`. */
#ifndef VR_TEST_ADVICE_H
#define VR_TEST_ADVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static inline bool fact(const truth *t, vr_fact_id id, uint64_t *out)
{
    const vr_fact *v = vr_finding_fact(t->d, t->f, id);

    if (v == NULL || v->negative)
        return false;
    *out = v->value;
    return true;
}

static inline bool of_event(const truth *t, vr_fact_id id, uint64_t *out)
{
    return t->f->event != NULL && vr_fact_value(&t->f->event->sign.facts, id, out);
}

static inline bool block_has(const truth *t, const char *what)
{
    return t->f->event != NULL && t->f->event->block != NULL && strstr(t->f->event->block, what) != NULL;
}

static inline bool row_begins(const truth *t, const char *prefix)
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

static inline bool sub_cause(const truth *t, const char *what)
{
    return t->f->sub_cause != NULL && strcmp(t->f->sub_cause, what) == 0;
}

static inline void sums(truth *t)
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

static inline truth truth_of(const struct vram_diagnosis *d, const vr_finding *f)
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

static inline bool caused_by(const truth *t, uint64_t causes)
{
    return (causes & BIT(t->f->cause)) != 0;
}

static inline bool at(const truth *t, uint64_t phases)
{
    return (phases & BIT(t->f->phase)) != 0;
}

static inline bool on_card(const truth *t)
{
    return t->f->memory == VR_MEMORY_GPU || t->f->memory == VR_MEMORY_POOL;
}

/* ---- the laws: advice that is often wrong, and when it is right ---- */

typedef bool right(const truth *t, const char *command);

static inline bool never(const truth *t, const char *command)
{
    (void)t;
    (void)command;
    return false;
}

static inline bool if_in_pieces(const truth *t, const char *command)
{
    (void)command;
    return t->much_idle || (t->fragmented && sub_cause(t, "fragmentation"));
}

static inline bool if_asked_from_outside(const truth *t, const char *command)
{
    (void)command;
    return t->nccl;
}

static inline bool if_batch_counts(const truth *t, const char *command)
{
    (void)command;
    return caused_by(t, CAUSE(ACTIVATIONS));
}

/* Requests at once share a cache; one request that is too long is helped by none. */
static inline bool if_requests_count(const truth *t, const char *command)
{
    (void)command;
    return (caused_by(t, CAUSE(ACTIVATIONS) | CAUSE(KV_CACHE) | CAUSE(RUNTIME_OVERHEAD)) &&
            !t->refused_one) ||
           row_begins(t, "sglang-slots") || t->f->cause == VR_CAUSE_NOT_CAPACITY;
}

static inline double number_behind(const char *command, const char *flag)
{
    return strtod(strstr(command, flag) + strlen(flag), NULL);
}

static const uint64_t sizing = PHASE(START) | PHASE(LOAD) | PHASE(PROFILE) | PHASE(KV_CACHE) | PHASE(UNKNOWN),
                      running = PHASE(CAPTURE) | PHASE(SERVING) | PHASE(FORWARD) | PHASE(LATER);

/* More where an engine refused for its cache on a card of its own; less at run time, at capture, for NCCL, or
 * because others hold a part of the card. Never while loading: it is applied afterwards. */
static inline bool if_share_direction(const truth *t, const char *command)
{
    double share = number_behind(command, "--gpu-memory-utilization ");

    if (share > t->share)
        return caused_by(t, CAUSE(KV_CACHE)) && at(t, PHASE(PROFILE) | PHASE(KV_CACHE)) && !t->foreign;
    return caused_by(t, CAUSE(OTHER_PROCESS) | CAUSE(LIMIT)) || at(t, running) || t->nccl ||
           (at(t, PHASE(START)) && caused_by(t, CAUSE(RUNTIME_OVERHEAD)));
}

static inline bool if_fraction_direction(const truth *t, const char *command)
{
    double fraction = number_behind(command, "--mem-fraction-static ");
    bool refused = t->f->event != NULL && t->f->event->sign.row->kind == VR_TEXT_REFUSAL;

    if (fraction > t->fraction)
        return refused && at(t, sizing | PHASE(SERVING)) && !t->foreign;
    return at(t, running) || (t->foreign && !refused);
}

static inline bool if_prompts_are_long(const truth *t, const char *command)
{
    (void)command;
    return caused_by(t, CAUSE(ACTIVATIONS));
}

static inline bool if_process_is_foreign(const truth *t, const char *command)
{
    uint64_t id;

    (void)command;
    return t->f->cause == VR_CAUSE_OTHER_PROCESS && of_event(t, VR_FACT_PROCESS_ID, &id);
}

/* Divided by one card nothing is saved; moved to the computer's memory it is. */
static inline bool if_cards_or_offload(const truth *t, const char *command)
{
    return t->several || strstr(command, "offload") != NULL || strstr(command, "bucket") != NULL ||
           strstr(command, "live_parameters") != NULL;
}

static inline bool if_results_pile_up(const truth *t, const char *command)
{
    (void)command;
    return t->f->memory == VR_MEMORY_GPU &&
           (row_begins(t, "eval-growth-") || t->f->phase == VR_PHASE_EVALUATION);
}

static inline bool if_driver_fails(const truth *t, const char *command)
{
    (void)command;
    return t->f->cause == VR_CAUSE_DRIVER_OR_HARDWARE;
}

static inline bool if_host(const truth *t, const char *command)
{
    (void)command;
    return t->f->memory == VR_MEMORY_HOST || t->f->memory == VR_MEMORY_SHM;
}

/* Windows counts a card's memory against the page file: full there while the card has room. */
static inline bool if_commit_limit(const truth *t, const char *command)
{
    return if_host(t, command) || (t->windows && t->free_suffices);
}

static inline bool if_weights_short(const truth *t, const char *command)
{
    (void)command;
    return caused_by(t, CAUSE(WEIGHTS)) || t->no_room || (caused_by(t, CAUSE(HOST_RAM)) && !on_card(t)) ||
           (caused_by(t, CAUSE(KV_CACHE)) && t->f->program == VR_PROGRAM_TGI);
}

static inline bool if_restart_helps(const truth *t, const char *command)
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
    { "eval_accumulation_steps", if_results_pile_up, "it moves results, and nothing else, off the card" },
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
static inline bool hardware_is_right(const truth *t)
{
    return on_card(t) && !t->over_card && !t->foreign &&
           caused_by(t, CAUSE(WEIGHTS) | CAUSE(KV_CACHE) | CAUSE(GRADIENTS) | CAUSE(OPTIMIZER_STATES));
}

static inline bool is_hardware(const char *id)
{
    for (size_t i = 0; i < vr_remedy_table_n; i++)
        if (strcmp(vr_remedy_table[i].id, id) == 0)
            return vr_remedy_table[i].cost == VR_COST_HARDWARE;
    return false;
}

static inline void tell_wrong(const truth *t, const vr_remedy *r, const char *why)
{
    if (wrong++ < 40)
        print_error("%s / %s / %s (%s, event %s): %s is offered, but %s\n",
                    vr_program_words[t->f->program].word, vr_cause_words[t->f->cause].word,
                    vr_phase_words[t->f->phase].word, t->f->sub_cause != NULL ? t->f->sub_cause : "-",
                    t->f->event != NULL ? t->f->event->sign.row->id : "-", r->command, why);
}

static inline void obey(const struct vram_diagnosis *d, const vr_finding *f)
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

static inline bool balanced(const char *s)
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

static inline void be_sound(const vr_finding *f)
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

#endif
