/* SPDX-License-Identifier: MIT
 * Findings with an event of one's own, as causes would make them, under every circumstance that levers ask
 * for. */
#ifndef VR_TEST_STAGE_H
#define VR_TEST_STAGE_H

#include "made.h"
#include "read.h"
#include "diagnosis/levers.h"

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

static inline void set_stage(stage *s, world *w, const struct setting *how)
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

static inline void judge(stage *s, unsigned program, unsigned cause, unsigned phase, unsigned certainty)
{
    s->f.program = (uint8_t)program;
    s->f.cause = (uint8_t)cause;
    s->f.phase = (uint8_t)phase;
    s->f.memory = vr_memory_of_cause(cause);
    s->f.certainty = (uint8_t)certainty;
    s->f.n_remedies = s->f.n_futile = 0;
    s->f.tell = NULL;
    assert_int_equal(vr_diagnose_remedies(&s->d, &s->f), VRAM_OK);
}

/* "\\n" in an example of the tables is a line end. */
static inline void unescape(char *out, const char *in)
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

#endif
