/* SPDX-License-Identifier: MIT
 *
 * `vram fit` on a screen: verdict with the card, the ledger against the card's edge, how the load would die,
 * what to type, what was assumed. About twelve lines; everything else is in fit_details.c.
 */
#include "report/fit_report.h"

bool vr_fit_rehearsed(const vram_fit *f)
{
    return !f->foreign && !f->plan.sums_only;
}

const char *vr_fit_cards(vr_report *r, const vram_device *d, uint64_t count)
{
    const char *times = count > 1 ? vr_say(r, U(count), T(" x ")) : "";

    if (d->host)
        return "the computer";
    if (d->gpu != NULL)
        return vr_say(r, T(times), T(vr_card_name(r, d->gpu->name, d->gpu->marketed_gb)));
    return vr_say(r, T(times), T(d->id), T(count > 1 ? "" : " GPU"));
}

/* " (15.20 to 16.01)" where the bounds are more than one in a hundred apart */
static const char *band(vr_report *r, const vr_ledger *l)
{
    if (l->required_high - l->required_low <= l->required / 100)
        return "";
    return vr_say(r, T(" ("), T(vr_gib(r, l->required_low)), T(" to "), T(vr_gib(r, l->required_high)),
                  T(")"));
}

/* Nothing else is counted. */
static bool only_weights(const vram_fit *f)
{
    const vr_figure *w = &f->ledger.category[VR_WEIGHTS];

    return f->ledger.partial && w->basis == VR_BASIS_EXACT && f->ledger.required == w->bytes;
}

/* What is there of weights that are not counted as well. */
static uint64_t known_need(const vram_fit *f)
{
    return vr_add_sat(f->ledger.required, f->plan.weights_at_least);
}

static const char *needs_words(vr_report *r, const vram_fit *f)
{
    const char *gib = vr_gib(r, known_need(f));

    if (only_weights(f))
        return vr_say(r, T("weights "), T(gib), T(" GiB (exact)"));
    if (f->ledger.partial)
        return vr_say(r, T("needs "), T(gib), T(" GiB and what is not counted"));
    return vr_say(r, T("needs "), T(gib), T(" GiB"), T(band(r, &f->ledger)));
}

/* The total that CUDA gives to programs, as `vram gpus` shows it; what is free of it where that was given;
 * what PyTorch may take of that where a memory fraction was set. */
uint64_t vr_fit_room(const vram_fit *f)
{
    return f->device->free_given || f->kept_free != 0 ? f->device->available.bytes : f->device->usable.bytes;
}

static const char *card_words(vr_report *r, const vram_fit *f)
{
    const vram_device *d = f->device;
    const char *have = d->count > 1 ? " have " : " has ";
    const char *kind = f->kept_free != 0 ? " allowed" : d->free_given ? " free" : " usable";

    return vr_say(r, T(vr_fit_cards(r, d, d->count)), T(have), T(vr_gib(r, vr_fit_room(f))), T(kind),
                  T(d->count > 1 ? " each" : ""));
}

static const char *room_words(vr_report *r, const vram_fit *f)
{
    const char *gib = vr_gib_between(r, vr_fit_room(f), known_need(f), f->headroom);

    if (only_weights(f) && f->headroom < 0)
        return vr_say(r, T(gib), T(" short for the weights alone"));
    if (f->ledger.partial && f->headroom >= 0)
        return vr_say(r, T(gib), T(" left for the rest"));
    return vr_say(r, T(gib), T(f->headroom < 0 ? " short" : " left"));
}

/* When nothing dies in the rehearsal the weights' excess is told here, otherwise beside the error text. */
static const char *weights_words(vr_report *r, const vram_fit *f)
{
    if (f->weights_over_usable == 0 || f->run.failed || only_weights(f))
        return "";
    return vr_say(r, T("; the weights alone are "), T(vr_gib(r, f->weights_over_usable)), T(" too big"));
}

static const char *reason_words(vr_report *r, const vram_fit *f)
{
    if (f->verdict_reason == NULL)
        return "";
    return vr_say(r,
                  T(!only_weights(f)                        ? "; "
                    : f->device != NULL && f->headroom >= 0 ? ", which is not counted: "
                                                            : "; the rest is not counted: "),
                  T(f->verdict_reason));
}

/* Of several GPUs the one that is worst off. */
static const char *gpu_words(vr_report *r, const vram_fit *f)
{
    return f->n_ranks == 0 ? "" : vr_say(r, T("GPU "), U(f->device->facts.rank), T(" "));
}

/* Without a GPU, and how much memory the computer has was not said: what it needs is the answer. */
static void put_host_need(vr_report *r, const vram_fit *f)
{
    bool known = !f->ledger.partial && f->plan.doubt == NULL;
    vr_para(r, known ? VR_INK_BOLD : VR_INK_CARE, known ? "" : "UNKNOWN  ", 0,
            vr_say(r, T(needs_words(r, f)),
                   T(known ? " of the computer's memory, no GPU; --host-memory SIZE says "
                             "whether that is there"
                           : " of the computer's memory"),
                   T(known ? "" : reason_words(r, f))));
}

static void put_verdict(vr_report *r, const vram_fit *f)
{
    if (f->device->host && f->device->available.bytes == UINT64_MAX && f->stops == NULL) {
        put_host_need(r, f);
        return;
    }

    const char *head = vr_say(r, T(vr_verdict_screen(f->verdict)), T("  "));
    /* of a tight fit the reason is the band, which stands there already */
    bool told = f->verdict == VRAM_TIGHT && *band(r, &f->ledger) != '\0';
    const char *reason = told ? "" : reason_words(r, f);

    if ((f->stops != NULL || known_need(f) == 0) && !f->ledger.category[VR_WEIGHTS].counted) {
        vr_para(
            r, vr_verdict_ink(f->verdict), head, 0,
            vr_say(r, T(card_words(r, f)), T(": "), T(f->verdict_reason != NULL ? f->verdict_reason : "")));
        return;
    }
    vr_para(r, vr_verdict_ink(f->verdict), head, 0,
            vr_say(r, T(gpu_words(r, f)), T(needs_words(r, f)), T(vr_dot(r)), T(card_words(r, f)), T(": "),
                   T(room_words(r, f)), T(weights_words(r, f)), T(reason)));
}

/* ---- the ledger ---- */

static const char *weights_note(vr_report *r, const vram_fit *f)
{
    const vr_figure *w = &f->ledger.category[VR_WEIGHTS];

    if (!w->counted || w->basis != VR_BASIS_EXACT)
        return NULL;
    return vr_decimal(r, w->bytes);
}

#define BESIDE_NOTES 65 /* columns of a row on a wide terminal that are not its note */

/* A reason once: not where the verdict's line has it, or the row above. */
static const char *why_not(const vram_fit *f, size_t c)
{
    const char *why = f->ledger.category[c].formula, *told = f->verdict_reason;

    if (why == NULL || (told != NULL && vr_str_find(vr_str_of(told), why, NULL)))
        return "";
    for (size_t i = 0; i < c; i++) {
        const vr_figure *above = &f->ledger.category[i];
        if (!above->counted && above->formula != NULL && vr_str_is(vr_str_of(why), above->formula))
            return "";
    }
    return why;
}

/* With the formula where it fits the line, which a pipe has no end of; with -v the figures below have it. */
static const char *note_of(vr_report *r, const vram_fit *f, size_t c)
{
    if (!f->ledger.category[c].counted)
        return why_not(f, c);
    size_t columns = r->style->columns;
    const char *formula = f->ledger.category[c].formula;
    const char *note = vr_ledger_note(r, &f->ledger, c, formula);

    bool room = !vr_terminal(r) || vr_utf8_width(vr_str_of(note)) + BESIDE_NOTES <= columns;
    if (room && r->style->verbose == 0)
        return note;
    return vr_ledger_note(r, &f->ledger, c, c == VR_WEIGHTS ? weights_note(r, f) : NULL);
}

static void put_ledger(vr_report *r, const vram_fit *f)
{
    const char *notes[VR_CATEGORY_COUNT];

    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++)
        notes[c] = note_of(r, f, c);
    bool edge = f->device != NULL && f->device->available.bytes != UINT64_MAX;
    vr_ledger_rows(r, &f->ledger, edge ? &f->device->available.bytes : NULL, edge ? 1 : 0, notes, NULL);
}

/* ---- how it ends ---- */

static const char *failure_label(vr_report *r, const vram_fit *f)
{
    uint32_t label = f->run.failure.label;

    if (label >= f->plan.tape.n_labels || f->plan.tape.labels[label].n == 0)
        return "";
    if (f->plan.outside_only && f->run.failure.next_moment == VR_AT_LOADED)
        return ""; /* they are one piece */
    if (f->plan.outside_only && f->run.failure.next_moment == VR_AT_CONTEXT)
        return vr_say(r, T(": no room for the "), S(f->plan.tape.labels[label]));
    return vr_say(r,
                  T(f->plan.outside_only                         ? " for the "
                    : f->run.failure.next_moment <= VR_AT_LOADED ? ", at "
                                                                 : " at "),
                  S(f->plan.tape.labels[label]));
}

/* Of an engine that takes a few large pieces, one after the other. */
static const char *piece_words(const vram_fit *f)
{
    switch (f->run.failure.next_moment) {
    case VR_AT_CONTEXT:
        return "before anything is loaded";
    case VR_AT_LOADED:
        return "while the weights are loaded";
    default:
        return "the weights load, then there is no room";
    }
}

static const char *failure_phase(vr_report *r, const vram_fit *f)
{
    if (f->plan.outside_only)
        return piece_words(f);
    switch (f->run.failure.next_moment) {
    case VR_AT_CONTEXT:
        return "before anything is loaded";
    case VR_AT_LOADED:
        return vr_say(r, FIXED(f->loaded_permille, 10, 1), T(" % loaded"));
    case VR_AT_PREFILL:
        return "weights load, then the prompt's pass stops";
    default:
        if (!f->plan.counted[VR_ACTIVATIONS]) /* the cache alone is on the tape */
            return "weights load, then keys and values find no room";
        return "weights load, the prompt passes, then generation stops";
    }
}

/* The message up to one of its sentences, the rest with -v: as much as a line holds, the first in any case.
 */
static const char *message_words(vr_report *r, const char *message)
{
    static const char *const ends[] = { "is free.", "iB." };
    size_t at, n = sizeof ends / sizeof *ends, room = r->style->columns - VR_FIT_INDENT - sizeof "\" ...\"";

    if (r->style->verbose || !vr_terminal(r))
        return message;
    for (size_t i = 0; i < n; i++)
        if (vr_str_find(vr_str_of(message), ends[i], &at) &&
            (at + vr_str_of(ends[i]).n <= room || i == n - 1))
            return vr_say(r, T("\""), S(((vr_str){ message, at + vr_str_of(ends[i]).n })), T(" ...\""));
    return message;
}

/* What lacks, and that the size in the message is not it. */
static const char *lack_words(vr_report *r, const vram_fit *f)
{
    bool whole = f->message == NULL || f->plan.outside_only;
    const char *last =
        whole ? "" : vr_say(r, T("; "), BYTES(f->run.failure.tried), T(" is only the last piece"));

    if (f->weights_over_usable == 0)
        return vr_say(r, T("at least "),
                      T(vr_gib_between(r, vr_fit_room(f), f->ledger.required, f->headroom)), T(" GiB"),
                      T(last));
    return vr_say(r, T(vr_gib(r, f->weights_over_usable)), T(" GiB ("),
                  FIXED(f->weights_over_usable, VR_GB, 2), T(" GB) in weights alone"), T(last));
}

static void put_failure(vr_report *r, const vram_fit *f)
{
    const char *phase;

    if (f->stops != NULL) {
        vr_para(r, VR_INK_BOLD, "dies", VR_FIT_INDENT,
                vr_say(r, T("before anything is loaded: "), T(f->stops)));
        return;
    }
    if (!f->run.failed)
        return;
    phase = vr_say(r, T(failure_phase(r, f)), T(failure_label(r, f)));
    vr_para(r, VR_INK_BOLD, f->verdict == VRAM_TIGHT ? "may die" : "dies", VR_FIT_INDENT, phase);
    if (f->message != NULL)
        vr_para(r, VR_INK_PLAIN, vr_terminal(r) ? "" : "error", VR_FIT_INDENT, message_words(r, f->message));
    vr_para(r, VR_INK_BOLD, "lacks", VR_FIT_INDENT, lack_words(r, f));
}

/* ---- without a card ---- */

/* The verdict of a card; one that is not known and has no room for what is counted is among those that do
 * not fit. */
static vram_verdict shown_verdict(const struct vr_card *c)
{
    return c->verdict == VRAM_UNKNOWN && c->headroom < 0 ? VRAM_DOES_NOT_FIT : c->verdict;
}

static const char *card_list(vr_report *r, const vram_fit *f, vram_verdict v, size_t most)
{
    const char *list = "";
    size_t n = 0;

    for (size_t i = 0; i < f->n_cards; i++) {
        /* the cards near the edge first: the smallest that fit, the largest that do not */
        const struct vr_card *c = &f->cards[v == VRAM_DOES_NOT_FIT ? f->n_cards - 1 - i : i];
        if (shown_verdict(c) != v)
            continue;
        if (++n > most)
            continue;
        list = vr_say(r, T(list), T(n > 1 ? ", " : ""), T(vr_card_name(r, c->gpu->name, c->gpu->marketed_gb)),
                      T(" ("), T(vr_gib_signed(r, c->headroom)), T(c->headroom < 0 ? " short)" : " left)"));
    }
    if (n > most)
        list = vr_say(r, T(list), T(" and "), U(n - most), T(" more"));
    return list;
}

static void put_cards(vr_report *r, const vram_fit *f)
{
    static const struct {
        vram_verdict verdict;
        const char *head;
        size_t most;
    } groups[] = {
        { VRAM_FITS, "fits on", 5 },
        { VRAM_TIGHT, "tight on", 2 },
        { VRAM_UNKNOWN, "room on", 3 },
        { VRAM_DOES_NOT_FIT, "not on", 2 },
    };

    if (!f->ledger.category[VR_WEIGHTS].counted) /* room beside what? */
        return;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        size_t most = r->style->verbose ? SIZE_MAX : groups[i].most;
        const char *list = card_list(r, f, groups[i].verdict, most);
        if (*list != '\0')
            vr_para(r, vr_verdict_ink(groups[i].verdict), groups[i].head, VR_FIT_INDENT, list);
    }
}

static void put_cardless_verdict(vr_report *r, const vram_fit *f)
{
    vr_para(
        r, f->verdict == VRAM_UNKNOWN ? VR_INK_CARE : VR_INK_BOLD,
        f->verdict == VRAM_UNKNOWN ? "UNKNOWN  " : "", 0,
        vr_say(r, T(needs_words(r, f)), T(f->ledger.partial ? "" : " on one card"), T(reason_words(r, f))));
}

/* A shell takes it as it is. */
static bool can_be_typed(const char *name)
{
    for (const char *c = name; *c != '\0'; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (!letter && !(c != name && *c == '-') && *c != '.' && *c != '/' && *c != '_')
            return false;
    }
    return *name != '\0';
}

/* The model that an adapter is loaded on: the one to ask about. */
static void put_base(vr_report *r, const vram_fit *f)
{
    const char *base = f->model->adapter != NULL ? f->model->adapter->base : NULL;

    if (base != NULL && can_be_typed(base))
        vr_para(r, VR_INK_BOLD, "type", VR_FIT_INDENT, vr_say(r, T("vram fit "), T(base)));
}

/* A model that also sees loads a projector, which lies in a file of its own. */
static void put_projector(vr_report *r, const vram_fit *f)
{
    const vram_checkpoint *ck = f->model->checkpoint;
    const vram_workload *w = f->workload;
    const char *size = NULL;
    uint64_t n = 0;

    if (w->mmproj_name != NULL && w->set_by[VR_SET_MMPROJ] == VR_BY_MODEL)
        vr_para(r, VR_INK_BOLD, "beside", VR_FIT_INDENT,
                vr_say(r, T("the projector "), T(w->mmproj_name),
                       T(" of the repository; --no-mmproj leaves it out")));
    if (w->mmproj_name != NULL || w->no_mmproj)
        return;
    for (size_t i = 0; i < ck->n_left_out; i++) {
        if (!vr_str_is(vr_str_of(ck->left_out[i].why), VR_WHY_PROJECTOR))
            continue;
        size = vr_decimal(r, ck->left_out[i].size);
        n++;
    }
    if (n != 0)
        vr_para(r, VR_INK_BOLD, "beside", VR_FIT_INDENT,
                n == 1 ? vr_say(r, T("a vision projector of "), T(size), T(", not counted"))
                       : vr_say(r, U(n), T(" vision projectors, of which one is loaded, not counted")));
}

void vr_fit_text(vr_report *r, const vram_fit *f)
{
    if (f->device != NULL)
        put_verdict(r, f);
    else
        put_cardless_verdict(r, f);
    if (f->n_ranks != 0)
        vr_fit_side_by_side(r, f);
    else
        put_ledger(r, f);
    vr_fit_places(r, f);
    if (f->plan.pool != NULL && f->device != NULL)
        vr_para(r, VR_INK_BOLD, "takes", VR_FIT_INDENT, f->plan.pool);
    if (f->says != NULL)
        vr_para(r, VR_INK_BOLD, "engine", VR_FIT_INDENT, f->says);
    put_projector(r, f);
    if (f->device != NULL)
        put_failure(r, f);
    else
        put_cards(r, f);
    if (r->style->verbose)
        vr_fit_details(r, f);
    vr_fit_advice(r, f);
    vr_fit_solved(r, f);
    put_base(r, f);
    vr_fit_settings(r, f);
}
