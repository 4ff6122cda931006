/* SPDX-License-Identifier: MIT
 *
 * `vram explain` for people. Five lines answer: what is to blame, what ran out and where, how much is
 * missing, what will not help, what to type. Evidence and figures are in diagnosis_details.c.
 */
#include "report/diagnosis_report.h"

#define INDENT VR_DIAGNOSIS_INDENT
#define OTHERS_MOST 2 /* commands beside the first on the short screen */

/* ---- words ---- */

static const char *const blamed[] = {
    [VR_CAUSE_UNKNOWN] = "CANNOT TELL",
    [VR_CAUSE_WEIGHTS] = "WEIGHTS",
    [VR_CAUSE_GRADIENTS] = "GRADIENTS",
    [VR_CAUSE_OPTIMIZER_STATES] = "OPTIMIZER STATES",
    [VR_CAUSE_KV_CACHE] = "KV CACHE",
    [VR_CAUSE_ACTIVATIONS] = "ACTIVATIONS",
    [VR_CAUSE_RUNTIME_OVERHEAD] = "RUNTIME OVERHEAD",
    [VR_CAUSE_OTHER_PROCESS] = "ANOTHER PROGRAM",
    [VR_CAUSE_DEVICE_PLACEMENT] = "EVERYTHING ON ONE CARD",
    [VR_CAUSE_LIMIT] = "A LIMIT THAT WAS SET",
    [VR_CAUSE_HOST_RAM] = "THE COMPUTER'S MEMORY",
    [VR_CAUSE_DRIVER_OR_HARDWARE] = "DRIVER OR HARDWARE",
    [VR_CAUSE_NOT_CAPACITY] = "NO SHORTAGE OF MEMORY",
    [VR_CAUSE_NONE] = "NOTHING FAILED",
};

static const char *const places[] = {
    [VR_PHASE_UNKNOWN] = "where is not said",
    [VR_PHASE_START] = "at start, before anything was loaded",
    [VR_PHASE_LOAD] = "while loading weights",
    [VR_PHASE_RESUME] = "while reading a training checkpoint back",
    [VR_PHASE_PROFILE] = "in the engine's trial run at start",
    [VR_PHASE_KV_CACHE] = "while the KV cache was set up",
    [VR_PHASE_COMPUTE_BUFFERS] = "while buffers for a pass were allocated",
    [VR_PHASE_CAPTURE] = "while CUDA graphs were captured",
    [VR_PHASE_COMMUNICATOR] = "while NCCL was set up between cards",
    [VR_PHASE_FORWARD] = "in a forward pass",
    [VR_PHASE_BACKWARD] = "in the backward pass",
    [VR_PHASE_OPTIMIZER_STEP] = "in the optimizer's step",
    [VR_PHASE_EVALUATION] = "in evaluation",
    [VR_PHASE_SAVE] = "while saving a checkpoint",
    [VR_PHASE_TRAINING] = "in training, which part is not said",
    [VR_PHASE_SERVING] = "while serving, under load",
    [VR_PHASE_LATER] = "after running for a while",
    [VR_PHASE_DECODE_IMAGE] = "while decoding images or video (VAE)",
    [VR_PHASE_COMPILE] = "while compiling",
    [VR_PHASE_DATA] = "while reading data (DataLoader)",
    [VR_PHASE_KERNEL] = "when a kernel was launched",
};

static const char *const memories[] = {
    [VR_MEMORY_UNKNOWN] = "which memory is not said",
    [VR_MEMORY_GPU] = "GPU memory",
    [VR_MEMORY_POOL] = "the engine's own pool, not the card",
    [VR_MEMORY_HOST] = "the computer's memory (RAM), not the GPU's",
    [VR_MEMORY_SHM] = "shared-memory files (/dev/shm), not the GPU's memory",
    [VR_MEMORY_ON_CHIP] = "shared memory inside the chip, not the GPU's memory",
    [VR_MEMORY_NONE] = "no memory",
};

const char *vr_diagnosis_cause(const vr_finding *f)
{
    return blamed[f->cause];
}

/* " (certain)" */
static const char *how_sure(vr_report *r, const vr_finding *f)
{
    if (f->cause == VR_CAUSE_UNKNOWN)
        return "";
    if (f->certainty == VR_CERTAINTY_UNKNOWN)
        return " (a guess)";
    return vr_say(r, T(" ("), T(vr_certainty_words[f->certainty].word), T(")"));
}

/* "cuda_graphs" as it is said; "" where the summary says it already. */
static const char *finer(vr_report *r, const vr_finding *f)
{
    vr_str rest = vr_str_of(f->sub_cause), word;
    const char *said = "";

    if (f->sub_cause == NULL || f->cause == VR_CAUSE_UNKNOWN || vr_str_is(rest, "look_alike"))
        return "";
    while (vr_str_split(&rest, '_', &word)) {
        if (f->summary != NULL && vr_str_find(vr_str_of(f->summary), vr_say(r, S(word)), NULL))
            return "";
        said = vr_say(r, T(said), T(*said != '\0' ? " " : ", "), S(word));
    }
    return said;
}

vr_ink vr_diagnosis_ink(const vr_finding *f)
{
    if (f->cause == VR_CAUSE_NONE)
        return VR_INK_GOOD;
    return f->certainty >= VR_CERTAINTY_LIKELY && f->cause != VR_CAUSE_UNKNOWN ? VR_INK_BAD : VR_INK_CARE;
}

void vr_diagnosis_headline(vr_report *r, const vr_finding *f)
{
    const char *head = vr_say(r, T(vr_diagnosis_cause(f)), T(finer(r, f)), T(how_sure(r, f)));

    if (f->summary != NULL)
        head = vr_say(r, T(head), T(":"));
    vr_para(r, vr_diagnosis_ink(f), vr_say(r, T(head), T(f->summary != NULL ? " " : "")), 2,
            f->summary != NULL ? f->summary : "");
}

/* "line 12", "train.log line 12", or "" of a text that was typed. */
const char *vr_diagnosis_at(vr_report *r, const struct vram_diagnosis *d, uint32_t file, uint64_t line)
{
    const char *name = file < d->found.n_files ? d->found.files[file] : "";

    if (line == 0 || (*name == '\0' && d->found.lines <= 1))
        return "";
    if (*name == '\0' || d->found.n_files == 1)
        return vr_say(r, T("line "), GROUPED(line));
    return vr_say(r, T(name), T(" line "), GROUPED(line));
}

/* ---- what ran out, where ---- */

static const char *which_card(vr_report *r, const vr_finding *f)
{
    uint64_t gpu;

    if (f->memory != VR_MEMORY_GPU || f->event == NULL ||
        !vr_fact_value(&f->event->sign.facts, VR_FACT_GPU, &gpu))
        return "";
    return vr_say(r, T(" of GPU "), U(gpu));
}

static const char *place_of(vr_report *r, const vr_finding *f)
{
    const vr_spot *s = &f->spot;
    const char *where = places[f->phase];

    if (!s->found || s->label == NULL)
        return where;
    where = vr_say(r, T(where), T(", at "), T(s->label));
    if (f->phase == VR_PHASE_LOAD)
        where = vr_say(r, T(where), T(": "), FIXED(s->loaded_permille, 10, 0), T(" % loaded"));
    return where;
}

static void ran_out(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    const char *text = vr_say(r, T(memories[f->memory]), T(which_card(r, f)), T(", "), T(place_of(r, f)));
    const char *at = f->event != NULL ? vr_diagnosis_at(r, d, f->event->sign.file, f->event->sign.line) : "";

    if (*at != '\0')
        text = vr_say(r, T(text), T(" ("), T(at), T(")"));
    if (d->n_follow != 0 && f == d->list)
        text =
            vr_say(r, T(text), T("; "),
                   T(vr_count(r, d->n_follow, "later error follows", "later errors follow")), T(" from it"));
    vr_para(r, VR_INK_BOLD, "ran out", INDENT, text);
}

/* ---- how much ---- */

const char *vr_diagnosis_size(vr_report *r, uint64_t bytes)
{
    const char *text = vr_say(r, BYTES(bytes));

    return bytes >= VR_GIB ? vr_say(r, T(text), T(" ("), T(vr_decimal(r, bytes)), T(")")) : text;
}

/* "; 130.00 MiB is only the last piece asked for" */
static const char *last_piece(vr_report *r, const vr_finding *f)
{
    const vr_fact *request = f->event != NULL ? vr_fact_of(&f->event->sign.facts, VR_FACT_REQUEST) : NULL;

    if (request == NULL || (f->missing_known && request->value >= f->missing_at_least))
        return "";
    return vr_say(r, T("; "), T(request->text), T(" is only the last piece asked for"));
}

static void missing(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    const char *text = "not said";
    bool sized = f->cause >= VR_CAUSE_WEIGHTS && f->cause <= VR_CAUSE_RUNTIME_OVERHEAD;

    if (f->memory == VR_MEMORY_NONE || f->cause == VR_CAUSE_NONE) {
        text = "nothing: more memory would not change it";
    } else if (f->missing_known) {
        text = vr_say(r, T("at least "), T(vr_diagnosis_size(r, f->missing_at_least)));
        if (f->missing_note != NULL)
            text = vr_say(r, T(text), T(" "), T(f->missing_note));
        text = vr_say(r, T(text), T(last_piece(r, f)));
    } else if (f->missing_note != NULL) {
        text = f->missing_note;
    } else {
        text = vr_say(r, T(f->event != NULL ? "not said by the text" : "not known from words alone"),
                      T(last_piece(r, f)));
        if (sized && d->model == NULL && f->event != NULL)
            text = vr_say(r, T(text), T("; --model MODEL may tell"));
    }
    vr_para(r, VR_INK_BOLD, "missing", INDENT, text);
}

/* ---- what does not help, and what does ---- */

/* The first with its reason. */
static void wont_help(vr_report *r, const vr_finding *f)
{
    const char *text = "";

    for (size_t i = 0; i < f->n_futile; i++) {
        text = vr_say(r, T(text), T(i != 0 ? vr_dot(r) : ""), T(f->futile[i].what));
        if (i == 0 && f->futile[i].why != NULL)
            text = vr_say(r, T(text), T(" ("), T(f->futile[i].why), T(")"));
    }
    if (f->n_futile != 0)
        vr_para(r, VR_INK_BOLD, "won't help", INDENT, text);
}

static const char *outcome(vr_report *r, const vr_remedy *m)
{
    if (m->sized)
        return vr_say(r, T(vr_gib(r, m->needs)), T(" GiB, "), T(m->fits ? "fits" : "not enough alone"));
    return m->gain != NULL ? m->gain : "";
}

/* "--max-model-len 49056   shorter requests; fits" */
const char *vr_diagnosis_remedy(vr_report *r, const vr_remedy *m)
{
    const char *gain = outcome(r, m), *text = m->command != NULL ? m->command : m->change;

    if (m->command != NULL && m->change != NULL)
        text = vr_say(r, T(text), T("   "), T(m->change));
    if (*gain != '\0')
        text = vr_say(r, T(text), T(m->command != NULL && m->change != NULL ? ": " : "   "), T(gain));
    return text;
}

static void type(vr_report *r, const vr_finding *f)
{
    size_t most = r->style->verbose ? f->n_remedies : OTHERS_MOST + 1;

    for (size_t i = 0; i < f->n_remedies && i < most; i++)
        vr_para(r, VR_INK_BOLD, i == 0 ? "type" : "or", INDENT, vr_diagnosis_remedy(r, &f->remedies[i]));
    if (f->tell == NULL)
        return;
    vr_para(r, VR_INK_BOLD, f->n_remedies == 0 ? "type" : "to be sure", INDENT,
            f->tell_why != NULL ? vr_say(r, T(f->tell), T("   "), T(f->tell_why)) : f->tell);
}

/* ---- the card ---- */

static void part(vr_report *r, const char **text, const char *name, uint64_t bytes)
{
    if (bytes != 0)
        *text = vr_say(r, T(*text), T(**text != '\0' ? " + " : ""), T(name), T(" "), T(vr_gib(r, bytes)));
}

static void card(vr_report *r, const vr_finding *f)
{
    const vr_shares *s = &f->shares;
    const char *text = "";

    if (!s->known || s->total == 0)
        return;
    part(r, &text, "live", s->allocated);
    part(r, &text, "idle", s->idle);
    if (s->outside_is_split) {
        part(r, &text, "CUDA context and libraries", s->own_outside);
        part(r, &text, "other programs", s->others);
    } else if (s->outside > 0) {
        part(r, &text, "outside PyTorch", (uint64_t)s->outside);
    }
    part(r, &text, "free", s->left);
    text = vr_say(r, T(vr_gib(r, s->total)), T(" GiB = "), T(text));
    if (s->outside < 0)
        text = vr_say(r, T(text), T(": more than the card has, the figures contradict each other"));
    vr_para(r, VR_INK_BOLD, "the card", INDENT, text);
}

static void because(vr_report *r, const vr_finding *f)
{
    if (f->n_evidence != 0 && !r->style->verbose)
        vr_para(r, VR_INK_BOLD, "because", INDENT, f->evidence[0].text);
}

static void first(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    vr_diagnosis_headline(r, f);
    ran_out(r, d, f);
    missing(r, d, f);
    wont_help(r, f);
    type(r, f);
    card(r, f);
    because(r, f);
}

/* The others in a line each. */
static void others(vr_report *r, const struct vram_diagnosis *d)
{
    for (size_t i = 1; i < d->n; i++) {
        const vr_finding *f = &d->list[i];
        const char *at =
            f->event != NULL ? vr_diagnosis_at(r, d, f->event->sign.file, f->event->sign.line) : "";
        vr_para(r, VR_INK_BOLD, i == 1 ? "also" : "", INDENT,
                vr_say(r, T(at), T(*at != '\0' ? ": " : ""), T(vr_diagnosis_cause(f)), T(finer(r, f)),
                       T(how_sure(r, f)), T(f->summary != NULL ? ": " : ""),
                       T(f->summary != NULL ? f->summary : "")));
    }
}

/* ---- nothing ---- */

static const char *how_much(vr_report *r, const struct vram_diagnosis *d)
{
    if (d->found.bytes == 0)
        return d->found.symptom != NULL ? "these words are no symptom that is known" : "the input was empty";
    return vr_say(
        r, T(vr_count(r, d->found.lines, "line", "lines")), T(" ("), T(vr_decimal(r, d->found.bytes)),
        T(d->found.binary ? ") read, and it is mostly no text" : ") read, none is a message that is known"));
}

static void nothing(vr_report *r, const struct vram_diagnosis *d)
{
    vr_para(r, VR_INK_CARE, "NOTHING RECOGNISED: ", 2, how_much(r, d));
    vr_para(r, VR_INK_BOLD, "looked for", INDENT,
            "out-of-memory messages of PyTorch, vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama, diffusers, "
            "TensorFlow, JAX and others, kernel and container kills, and what is taken for them");
    vr_para(r, VR_INK_BOLD, "type", INDENT,
            "YOUR COMMAND 2>&1 | vram explain   messages go to stderr, which a pipe leaves out without 2>&1");
    vr_para(r, VR_INK_BOLD, "or", INDENT,
            "vram explain --symptom \"fine for hours, then dies\"   what was seen, in plain words");
}

void vr_diagnosis_text(vr_report *r, const struct vram_diagnosis *d)
{
    if (d->n == 0) {
        nothing(r, d);
        return;
    }
    first(r, d, &d->list[0]);
    others(r, d);
    if (r->style->verbose)
        vr_diagnosis_details(r, d);
}
