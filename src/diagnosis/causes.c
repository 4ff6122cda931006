/* SPDX-License-Identifier: MIT
 *
 * The cause of one event.
 */
#include "diagnosis/causes.h"

/* What a text's row leaves open when its verdict is taken over. */
static void take_row(vr_view *v, const vr_verdict *verdict)
{
    v->f->cause = v->telling->cause;
    v->f->certainty = v->telling->certainty;
    if (v->f->certainty == VR_CERTAINTY_UNKNOWN)
        v->f->certainty = v->f->cause == VR_CAUSE_UNKNOWN ? VR_CERTAINTY_UNKNOWN : VR_CERTAINTY_POSSIBLE;
    v->f->summary = verdict->summary;
}

uint8_t vr_memory_of_cause(unsigned cause)
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

/* A bare text may speak of either memory; its row's word yields to what the verdict found. */
static void set_memory(vr_view *v, const vr_verdict *verdict)
{
    uint8_t row = v->row->memory;

    v->f->memory = verdict->memory != 0 ? verdict->memory : row;
    /* A device's own limit, of one buffer or of their number, is one of its memory. */
    if (v->f->memory == VR_MEMORY_UNKNOWN ||
        (v->f->memory == VR_MEMORY_NONE && v->f->cause == VR_CAUSE_LIMIT))
        v->f->memory = vr_memory_of_cause(v->f->cause);
}

/* Finer words for the cause where the verdict has none: the words that docs/json.md lists. */
static const char *finer(const vr_view *v)
{
    if (v->f->cause == VR_CAUSE_NOT_CAPACITY)
        return "look_alike";
    if (v->f->cause == VR_CAUSE_ACTIVATIONS && v->has[VR_BY_LOGITS])
        return "logits";
    if (v->f->cause == VR_CAUSE_RUNTIME_OVERHEAD && v->has[VR_BY_NCCL])
        return "nccl";
    if (v->f->cause == VR_CAUSE_RUNTIME_OVERHEAD && v->has[VR_AT_CAPTURE])
        return "cuda_graphs";
    if (v->has[VR_AT_COMPUTE_BUFFERS])
        return "compute_buffer";
    return NULL;
}

/* Engines before the libraries below them, programs that train before those that only load. SGLang uses
 * vLLM's layers, and names of functions that both have are vLLM's in the tables: a sign of SGLang itself says
 * more. */
static const uint8_t programs[] = {
    VR_PROGRAM_SGLANG,       VR_PROGRAM_VLLM,
    VR_PROGRAM_TENSORRT_LLM, VR_PROGRAM_TGI,
    VR_PROGRAM_LMDEPLOY,     VR_PROGRAM_MLC,
    VR_PROGRAM_EXLLAMA,      VR_PROGRAM_OLLAMA,
    VR_PROGRAM_KOBOLDCPP,    VR_PROGRAM_LLAMACPP,
    VR_PROGRAM_MLX,          VR_PROGRAM_COMFYUI,
    VR_PROGRAM_A1111,        VR_PROGRAM_STABLE_DIFFUSION_CPP,
    VR_PROGRAM_MEGATRON,     VR_PROGRAM_DEEPSPEED,
    VR_PROGRAM_FSDP,         VR_PROGRAM_TRAINER,
    VR_PROGRAM_LIGHTNING,    VR_PROGRAM_DIFFUSERS,
    VR_PROGRAM_ACCELERATE,   VR_PROGRAM_BITSANDBYTES,
    VR_PROGRAM_TRANSFORMERS, VR_PROGRAM_JAX,
};

static size_t program_place(uint8_t program)
{
    size_t i = 0, n = sizeof programs / sizeof programs[0];

    while (i < n && programs[i] != program)
        i++;
    return i;
}

static void take_program(uint8_t *best, uint8_t program)
{
    if (program != VR_PROGRAM_UNKNOWN &&
        (*best == VR_PROGRAM_UNKNOWN || program_place(program) < program_place(*best)))
        *best = program;
}

/* What runs: of what stands beside the event and what showed itself in the same file. */
static uint8_t program_of(const struct vram_diagnosis *d, const vr_incident *event)
{
    uint8_t best = event->sign.row->program;

    for (size_t i = 0; i < event->n_near; i++)
        take_program(&best, event->near[i].row->program);
    if (event->step != NULL)
        take_program(&best, event->step->row->program);
    for (size_t i = 0; i < d->found.n_seen; i++)
        if (d->found.seen[i].file == event->sign.file)
            take_program(&best, d->found.seen[i].row->program);
    return best;
}

vram_status vr_diagnose_cause(struct vram_diagnosis *d, vr_finding *f)
{
    const vr_verdict *verdict;
    vr_view v;

    if (f->event == NULL)
        return VRAM_OK;
    f->program = program_of(d, f->event);
    vr_view_event(d, f, &v);
    verdict = vr_find_verdict(&v);
    take_row(&v, verdict);
    if (verdict->cause != 0 || verdict->certainty != 0) {
        f->cause = verdict->cause;
        f->certainty = verdict->certainty;
    }
    /* Nothing failed in the text: frames and steps alone are a hint. */
    if ((v.row->kind == VR_TEXT_FRAME || v.row->kind == VR_TEXT_STEP) && f->certainty > VR_CERTAINTY_POSSIBLE)
        f->certainty = VR_CERTAINTY_POSSIBLE;
    set_memory(&v, verdict);
    f->phase = verdict->phase != 0 ? verdict->phase : v.place.phase;
    f->sub_cause = verdict->sub_cause != NULL ? verdict->sub_cause : finer(&v);
    if (f->summary == NULL)
        f->summary = v.telling->meaning;
    vr_say_evidence(&v, verdict);
    vr_set_shares(&v);
    vr_set_missing(&v);
    vr_say_notes(&v);
    return d->arena.starved ? VRAM_ENOMEM : VRAM_OK;
}
