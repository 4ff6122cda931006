/* SPDX-License-Identifier: MIT
 *
 * `vram explain` for people. Five lines answer: what is to blame, what ran out and where, how much is
 * missing, what will not help, what to type. Evidence and figures are in diagnosis_details.c.
 */
#include "report/diagnosis_report.h"

#define INDENT VR_DIAGNOSIS_INDENT
#define SHORT_CLAUSE 20 /* less of a sentence says nothing */

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
    [VR_CAUSE_DEVICE_PLACEMENT] = "PLACEMENT",
    [VR_CAUSE_LIMIT] = "A LIMIT",
    [VR_CAUSE_HOST_RAM] = "RAM",
    [VR_CAUSE_DRIVER_OR_HARDWARE] = "DRIVER OR HARDWARE",
    [VR_CAUSE_NOT_CAPACITY] = "NO SHORTAGE",
    [VR_CAUSE_NONE] = "NOTHING FAILED",
};

static const char *const places[] = {
    [VR_PHASE_UNKNOWN] = "where is not said",
    [VR_PHASE_START] = "at start, before anything was loaded",
    [VR_PHASE_LOAD] = "loading weights",
    [VR_PHASE_RESUME] = "reading a training checkpoint back",
    [VR_PHASE_PROFILE] = "in the engine's trial run at start",
    [VR_PHASE_KV_CACHE] = "setting up the KV cache",
    [VR_PHASE_COMPUTE_BUFFERS] = "allocating buffers for a pass",
    [VR_PHASE_CAPTURE] = "capturing CUDA graphs",
    [VR_PHASE_COMMUNICATOR] = "setting up NCCL between cards",
    [VR_PHASE_FORWARD] = "in a forward pass",
    [VR_PHASE_BACKWARD] = "in the backward pass",
    [VR_PHASE_OPTIMIZER_STEP] = "in the optimizer's step",
    [VR_PHASE_EVALUATION] = "in evaluation",
    [VR_PHASE_SAVE] = "saving a checkpoint",
    [VR_PHASE_TRAINING] = "in training, which part is not said",
    [VR_PHASE_SERVING] = "serving under load",
    [VR_PHASE_LATER] = "after running for a while",
    [VR_PHASE_DECODE_IMAGE] = "decoding images or video (VAE)",
    [VR_PHASE_COMPILE] = "compiling",
    [VR_PHASE_DATA] = "reading data (DataLoader)",
    [VR_PHASE_KERNEL] = "launching a kernel",
};

static const char *const memories[] = {
    [VR_MEMORY_UNKNOWN] = "which memory is not said",
    [VR_MEMORY_GPU] = "GPU memory",
    [VR_MEMORY_POOL] = "the engine's own pool",
    [VR_MEMORY_HOST] = "the computer's RAM, not the GPU's memory",
    [VR_MEMORY_SHM] = "shared-memory files (/dev/shm), in RAM",
    [VR_MEMORY_ON_CHIP] = "shared memory inside the chip",
    [VR_MEMORY_NONE] = "nothing",
};

/* Where the line has no room for more. */
static const char *const brief_memories[] = {
    [VR_MEMORY_UNKNOWN] = "memory",         [VR_MEMORY_GPU] = "GPU memory",
    [VR_MEMORY_POOL] = "the engine's pool", [VR_MEMORY_HOST] = "RAM",
    [VR_MEMORY_SHM] = "/dev/shm",           [VR_MEMORY_ON_CHIP] = "memory in the chip",
    [VR_MEMORY_NONE] = "nothing",
};

static const char *cause(const vr_finding *f)
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

/* The finer causes that say more than the summary, as they are said. */
static const char *const finer_words[][2] = {
    { "fragmentation", ", fragmentation" },   { "logits", ", logits" },
    { "attention", ", attention" },           { "steady_growth", ", steady growth" },
    { "cuda_graphs", ", CUDA graphs" },       { "nccl", ", NCCL" },
    { "compute_buffer", ", compute buffer" }, { "fp32_or_upcast", ", in 32 bits" },
};

static const char *finer(const vr_finding *f)
{
    vr_str sub = vr_str_of(f->sub_cause);

    for (size_t i = 0; f->cause != VR_CAUSE_UNKNOWN && i < sizeof finer_words / sizeof *finer_words; i++)
        if (vr_str_is(sub, finer_words[i][0]))
            return finer_words[i][1];
    return "";
}

static vr_ink ink(const vr_finding *f)
{
    if (f->cause == VR_CAUSE_NONE)
        return VR_INK_GOOD;
    return f->certainty >= VR_CERTAINTY_LIKELY && f->cause != VR_CAUSE_UNKNOWN ? VR_INK_BAD : VR_INK_CARE;
}

const char *vr_diagnosis_clause(vr_report *r, const char *text)
{
    static const char *const openers[] = { "A ",       "An ",        "The ",    "One ",     "No ",
                                           "Not ",     "This ",      "It ",     "All ",     "Only ",
                                           "Weights ", "Something ", "Every ",  "More ",    "What",
                                           "Two ",     "Several ",   "Memory ", "Reading ", "There ",
                                           "Results ", "Logits ",    "Another " };
    vr_str s = vr_str_of(text);

    for (size_t i = 0; i < sizeof openers / sizeof *openers; i++)
        if (vr_str_starts(s, openers[i])) {
            char small[2] = { (char)(text[0] - 'A' + 'a'), '\0' };
            return vr_say(r, T(small), T(text + 1));
        }
    return text;
}

/* As much of a sentence as has room in so many columns: up to a semicolon, a colon or a comma where the whole
 * has none. What is left out is in the details. */
static const char *clause_of(vr_report *r, const char *text, size_t columns)
{
    static const char *const marks[] = { "; ", ": ", ", " };
    const char *whole = vr_diagnosis_clause(r, text);
    vr_str s = vr_str_of(whole);
    size_t at;

    if (!vr_terminal(r) || r->style->verbose || vr_utf8_width(s) <= columns)
        return whole;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (vr_str_find(s, marks[i], &at) && at >= SHORT_CLAUSE && at <= columns)
            return vr_say(r, S(((vr_str){ s.s, at })));
    return whole;
}

static const char *head_of(vr_report *r, const vr_finding *f, const char *more)
{
    return vr_say(r, T(cause(f)), T(more), T(how_sure(r, f)), T(f->summary != NULL ? ": " : ""));
}

static void headline(vr_report *r, const vr_finding *f)
{
    const char *head = head_of(r, f, finer(f)), *said = f->summary != NULL ? f->summary : "";
    size_t used = vr_utf8_width(vr_str_of(head)), width = r->style->columns;

    if (vr_terminal(r) && used + vr_utf8_width(vr_str_of(said)) > width) {
        head = head_of(r, f, "");
        used = vr_utf8_width(vr_str_of(head));
    }
    vr_para(r, ink(f), head, 2, clause_of(r, said, vr_sub_floor(width, used)));
}

/* "line 12", "train.log line 12", or "" of a text that is one line. */
const char *vr_diagnosis_at(vr_report *r, const struct vram_diagnosis *d, uint32_t file, uint64_t line)
{
    const char *name = file < d->found.n_files ? d->found.files[file] : "";

    if (line == 0 || d->found.lines <= 1)
        return "";
    if (*name == '\0' || d->found.n_files == 1)
        return vr_say(r, T("line "), GROUPED(line));
    return vr_say(r, T(name), T(" line "), GROUPED(line));
}

/* ---- what ran out, where ---- */

/* The first of the texts that has room on one line, otherwise the last, the shortest: the answer should be
 * within the first lines, and -v shows all. */
const char *vr_diagnosis_roomy(vr_report *r, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!vr_terminal(r) || r->style->verbose != 0 ||
            INDENT + vr_utf8_width(vr_str_of(texts[i])) <= r->style->columns)
            return texts[i];
    return texts[n - 1];
}

/* A TPU's memory is called by its own name, as its messages do. */
static bool is_tpu(const vr_finding *f)
{
    static const char *const says[] = { "memory space hbm", "TPU", "Hbm usage", "hbm usage" };
    vr_str text = vr_str_of(f->event != NULL ? f->event->sign.text : NULL);

    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (vr_str_find(text, says[i], NULL))
            return true;
    return f->program == VR_PROGRAM_PYTORCH_XLA;
}

static const char *which_memory(vr_report *r, const vr_finding *f)
{
    uint64_t gpu;

    if (f->memory == VR_MEMORY_GPU && is_tpu(f))
        return "the chip's memory (HBM)";
    if (f->memory != VR_MEMORY_GPU || f->event == NULL ||
        !vr_fact_value(&f->event->sign.facts, VR_FACT_GPU, &gpu))
        return memories[f->memory];
    return vr_say(r, T("memory of GPU "), U(gpu));
}

/* ", at model.layers.3.mlp.down_proj.weight: 80 % loaded" */
static const char *spot_of(vr_report *r, const vr_finding *f)
{
    const vr_spot *s = &f->spot;
    const char *at;

    if (!s->found || s->label == NULL)
        return "";
    at = vr_say(r, T(", at "), T(s->label));
    return s->to_come != 0 ? vr_say(r, T(at), T(": "), FIXED(s->loaded_permille, 10, 0), T(" % loaded")) : at;
}

static const char *in_brackets(vr_report *r, const char *text)
{
    return *text != '\0' ? vr_say(r, T(" ("), T(text), T(")")) : "";
}

static const char *event_at(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    return f->event != NULL ? vr_diagnosis_at(r, d, f->event->sign.file, f->event->sign.line) : "";
}

/* " (line 9; 3 later errors follow)" */
static const char *lines_of(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    const char *at = event_at(r, d, f), *later = "";

    if (d->n_follow != 0 && f == d->list)
        later = vr_say(r, T(*at != '\0' ? "; " : ""),
                       T(vr_count(r, d->n_follow, "later error follows", "later errors follow")));
    return in_brackets(r, vr_say(r, T(at), T(later)));
}

static void ran_out(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    const char *at = lines_of(r, d, f), *spot = spot_of(r, f), *memory = which_memory(r, f);
    const char *line = in_brackets(r, event_at(r, d, f));
    bool no_where = f->phase == VR_PHASE_UNKNOWN && f->memory == VR_MEMORY_NONE;
    const char *where = no_where ? "" : vr_say(r, T(", "), T(places[f->phase]));
    const char *told = f->phase != VR_PHASE_UNKNOWN ? where : ""; /* that it is not said goes first */
    const char *texts[] = {
        vr_say(r, T(memory), T(where), T(spot), T(at)),
        vr_say(r, T(memory), T(told), T(spot), T(at)),
        vr_say(r, T(memory), T(*spot != '\0' ? spot : told), T(line)),
        vr_say(r, T(memory), T(*spot != '\0' ? spot : told)),
        vr_say(r, T(brief_memories[f->memory]), T(*spot != '\0' ? spot : told), T(line)),
        vr_say(r, T(brief_memories[f->memory]), T(*spot != '\0' ? spot : told)),
    };

    vr_para(r, VR_INK_BOLD, "ran out", INDENT, vr_diagnosis_roomy(r, texts, sizeof texts / sizeof *texts));
}

/* ---- how much ---- */

const char *vr_diagnosis_size(vr_report *r, uint64_t bytes)
{
    const char *text = vr_say(r, BYTES(bytes));

    return bytes >= VR_GIB ? vr_say(r, T(text), T(" ("), T(vr_decimal(r, bytes)), T(")")) : text;
}

/* What was asked for last; NULL: not said, or it is all that is missing. */
static const char *last_piece(vr_report *r, const vr_finding *f)
{
    const vr_fact *request = f->event != NULL ? vr_fact_of(&f->event->sign.facts, VR_FACT_REQUEST) : NULL;

    if (request == NULL || request->value == 0 || (f->missing_known && request->value >= f->missing_at_least))
        return NULL;
    return vr_say(r, BYTES(request->value));
}

static bool may_be_rehearsed(const struct vram_diagnosis *d, const vr_finding *f)
{
    return d->model == NULL && f->event != NULL && f->cause >= VR_CAUSE_WEIGHTS &&
           f->cause <= VR_CAUSE_RUNTIME_OVERHEAD;
}

/* Of a killed process how much it held is all that is told. */
static const char *held(vr_report *r, const vr_finding *f)
{
    const vr_fact *rss = f->event != NULL ? vr_fact_of(&f->event->sign.facts, VR_FACT_RSS) : NULL;

    if (f->memory != VR_MEMORY_HOST || rss == NULL)
        return "";
    return vr_say(r, T("; the killed process held "), BYTES(rss->value));
}

static const char *how_much(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    if (f->memory == VR_MEMORY_NONE || f->cause >= VR_CAUSE_DRIVER_OR_HARDWARE)
        return "nothing: more memory would not change it";
    if (f->missing_known)
        return vr_say(r, T("at least "), T(vr_diagnosis_size(r, f->missing_at_least)),
                      T(f->missing_note != NULL ? " " : ""), T(f->missing_note));
    if (f->spot.tried && vr_str_find(vr_str_of(f->missing_note), "--model", NULL))
        return "not printed";
    if (f->missing_note != NULL)
        return f->missing_note;
    if (f->event == NULL)
        return "not known from words alone";
    if (may_be_rehearsed(d, f))
        return "not said by the text; --model MODEL may tell";
    return vr_say(r, T("not said by the text"), T(held(r, f)));
}

/* The figure with the warning that it is not what is missing. */
static size_t with_piece(vr_report *r, const vr_finding *f, const char *piece, bool rehearsable,
                         const char *texts[3])
{
    const char *tell = rehearsable ? "; --model tells" : "";

    if (f->missing_known) {
        const char *size = vr_say(r, T("at least "), T(vr_diagnosis_size(r, f->missing_at_least)));
        const char *note = f->missing_note != NULL ? vr_say(r, T(" "), T(f->missing_note)) : "";
        texts[0] = vr_say(r, T(size), T(note), T("; "), T(piece), T(" is only the last piece asked for"));
        texts[1] = vr_say(r, T(size), T(note), T("; "), T(piece), T(" is only the last piece"));
        texts[2] = vr_say(r, T(size), T("; "), T(piece), T(" is only the last piece"));
        return 3;
    }
    texts[0] = vr_say(r, T("not printed; the "), T(piece), T(" asked for are only the last piece"), T(tell));
    texts[1] = vr_say(r, T("not printed; the "), T(piece), T(" asked for are only the last piece"));
    texts[2] = vr_say(r, T("not printed; "), T(piece), T(" is only the last piece"));
    return 3;
}

static void missing(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    const char *text = how_much(r, d, f), *piece = last_piece(r, f), *texts[4];
    bool asked = f->memory != VR_MEMORY_NONE && f->cause < VR_CAUSE_DRIVER_OR_HARDWARE;
    vr_str note = vr_str_of(f->missing_note);
    size_t n = 0;

    /* The whole of a buffer is no piece, tokens are no bytes, and a note on this piece needs no second one.
     */
    if (vr_str_starts(vr_str_of(text), "up to ") || vr_str_find(note, "tokens", NULL) ||
        (f->missing_known && vr_str_find(note, "piece", NULL)))
        piece = NULL;
    if (piece != NULL && asked)
        n = with_piece(r, f, piece, may_be_rehearsed(d, f), texts);
    else
        texts[n++] = text;
    texts[n] = clause_of(r, texts[n - 1], vr_sub_floor(r->style->columns, INDENT));
    vr_para(r, VR_INK_BOLD, "missing", INDENT, vr_diagnosis_roomy(r, texts, n + 1));
}

/* ---- the card ---- */

static void part(vr_report *r, const char **text, const char *name, uint64_t bytes)
{
    if (bytes != 0)
        *text = vr_say(r, T(*text), T(**text != '\0' ? " + " : ""), T(name), T(" "), T(vr_gib(r, bytes)));
}

void vr_diagnosis_card(vr_report *r, const vr_finding *f)
{
    const vr_shares *s = &f->shares;
    const char *text = "";

    if (!s->known || s->total == 0)
        return;
    part(r, &text, "live", s->allocated);
    part(r, &text, "idle", s->idle);
    if (s->outside_is_split) {
        part(r, &text, "CUDA context", s->own_outside);
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

/* A model was named, and its run does not tell more. */
static void no_place(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    if (f->spot.tried && !f->spot.found)
        vr_para(r, VR_INK_BOLD, "the model", INDENT, vr_diagnosis_no_place(r, d, f));
}

const char *vr_diagnosis_no_place(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    const char *why = f->spot.not_found;

    return vr_say(r, T("no place in a run of "), T(d->model != NULL ? d->model : "this model"), T(" fits"),
                  T(why != NULL ? ": " : ""), T(why));
}

/* Up to two reasons that the headline does not say already; on a terminal two lines. */
static void because(vr_report *r, const vr_finding *f)
{
    const char *text = "";
    size_t told = 0, most = f->event != NULL ? 2 : 1; /* what was seen is known to who saw it */

    for (size_t i = 0; i < f->n_evidence && told < most; i++) {
        const char *why = f->evidence[i].text, *more;
        if (f->summary != NULL && vr_str_is(vr_str_of(why), f->summary))
            continue;
        more = vr_say(r, T(text), T(told != 0 ? vr_dot(r) : ""), T(vr_diagnosis_clause(r, why)));
        if (told != 0 && vr_terminal(r) &&
            INDENT + vr_utf8_width(vr_str_of(more)) > 2 * r->style->columns - INDENT)
            break;
        text = more;
        told++;
    }
    if (told != 0)
        vr_para(r, VR_INK_BOLD, "because", INDENT, text);
}

static void first(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    headline(r, f);
    ran_out(r, d, f);
    missing(r, d, f);
    if (r->style->verbose) {
        vr_diagnosis_details(r, d, f);
        return;
    }
    vr_diagnosis_futile(r, f);
    vr_diagnosis_type(r, f);
    vr_diagnosis_card(r, f);
    no_place(r, d, f);
    because(r, f);
}

/* The others in a line each. */
static void others(vr_report *r, const struct vram_diagnosis *d)
{
    for (size_t i = 1; i < d->n; i++) {
        const vr_finding *f = &d->list[i];
        const char *at = event_at(r, d, f);
        vr_para(r, VR_INK_BOLD, i == 1 ? "also" : "", INDENT,
                vr_say(r, T(at), T(*at != '\0' ? ": " : ""), T(cause(f)), T(finer(f)), T(how_sure(r, f)),
                       T(f->summary != NULL ? ": " : ""),
                       T(f->summary != NULL ? vr_diagnosis_clause(r, f->summary) : "")));
    }
}

static void all(vr_report *r, const struct vram_diagnosis *d)
{
    for (size_t i = 1; i < d->n; i++) {
        vr_put(&r->buf, T("\n"));
        headline(r, &d->list[i]);
        ran_out(r, d, &d->list[i]);
        missing(r, d, &d->list[i]);
        vr_diagnosis_details(r, d, &d->list[i]);
        vr_report_flush(r);
    }
    vr_diagnosis_log(r, d);
}

/* ---- nothing ---- */

static const char *what_was_read(vr_report *r, const struct vram_diagnosis *d)
{
    if (d->found.bytes == 0)
        return d->found.symptom != NULL ? "these words are no symptom that is known" : "the input was empty";
    return vr_say(
        r, T(vr_count(r, d->found.lines, "line", "lines")), T(" ("), T(vr_decimal(r, d->found.bytes)),
        T(d->found.binary ? ") read, and it is mostly no text" : ") read, none is a message that is known"));
}

static void no_symptom(vr_report *r)
{
    vr_para(r, VR_INK_BOLD, "say", INDENT,
            "when it ends (loading, the first prompt, the optimizer's first step, evaluation, saving, after "
            "hours), what is full, and what works");
    vr_para(
        r, VR_INK_BOLD, "such as", INDENT,
        "\"fine for hours, then dies\", \"memory still full after del\", \"exit code 137\", \"only with two "
        "GPUs\"");
}

static void nothing(vr_report *r, const struct vram_diagnosis *d)
{
    vr_para(r, VR_INK_CARE, "NOTHING RECOGNISED: ", 2, what_was_read(r, d));
    if (d->found.bytes == 0 && d->found.symptom != NULL) {
        no_symptom(r);
    } else {
        vr_para(r, VR_INK_BOLD, "looked for", INDENT,
                "out-of-memory messages of PyTorch, vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama, "
                "diffusers, TensorFlow, JAX and others, kernel and container kills, and what is taken for "
                "them");
    }
    vr_para(r, VR_INK_BOLD, "type", INDENT,
            "YOUR COMMAND 2>&1 | vram explain   messages go to stderr, which a pipe leaves out without 2>&1");
    if (d->found.symptom == NULL)
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
    if (r->style->verbose)
        all(r, d);
    else
        others(r, d);
}
