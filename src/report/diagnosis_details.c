/* SPDX-License-Identifier: MIT
 *
 * `vram explain -v`: the message, the evidence line by line, every figure with its meaning, what the message
 * does not mean, all reasons why something will not help, costs; of every diagnosis.
 */
#include "report/diagnosis_report.h"

#define INDENT VR_DIAGNOSIS_INDENT
#define CUT_AT 196 /* bytes: a longer line was cut by the reader */

/* ---- evidence ---- */

static void evidence(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    for (size_t i = 0; i < f->n_evidence; i++) {
        const vr_reason *e = &f->evidence[i];
        const char *at = vr_diagnosis_at(r, d, e->file, e->line);
        vr_para(r, VR_INK_BOLD, i == 0 ? "because" : "", INDENT,
                vr_say(r, T(at), T(*at != '\0' ? ": " : ""), T(vr_diagnosis_clause(r, e->text))));
    }
}

static void message(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    const vr_sign *s = &f->event->sign;
    const char *at = vr_diagnosis_at(r, d, s->file, s->line);

    vr_para(r, VR_INK_BOLD, "message", INDENT,
            vr_say(r, T(at), T(*at != '\0' ? ": " : ""), T("\""), T(s->text),
                   T(vr_str_of(s->text).n >= CUT_AT ? "...\"" : "\"")));
    if (s->row->meaning != NULL)
        vr_para(r, VR_INK_FAINT, "", INDENT, s->row->meaning);
    if (s->row->versions != NULL)
        vr_para(r, VR_INK_FAINT, "", INDENT, vr_say(r, T("the wording of "), T(s->row->versions)));
    if (f->event->repeats != 0)
        vr_para(r, VR_INK_FAINT, "", INDENT,
                vr_say(r, T("it comes "), T(vr_count(r, f->event->repeats, "more time", "more times"))));
}

/* ---- figures ---- */

/* What is exact of a figure, "= 136,314,880 bytes", with what the print leaves open. */
static const char *exact(vr_report *r, const vr_fact *f)
{
    vr_unit unit = vr_fact_kinds[f->id].unit;
    const char *sign = f->negative ? "-" : "";

    if (unit != VR_UNIT_BYTES)
        return "";
    if (f->slack == 0)
        return vr_say(r, T(" = "), T(sign), GROUPED(f->value), T(" bytes"));
    return vr_say(r, T(" = "), T(sign), GROUPED(f->value), T(" bytes +- "), GROUPED(f->slack));
}

/* "reserved_idle" with blanks */
static const char *spoken(vr_report *r, const char *name)
{
    vr_str rest = vr_str_of(name), word;
    const char *text = "";

    while (vr_str_split(&rest, '_', &word))
        text = vr_say(r, T(text), T(*text != '\0' ? " " : ""), S(word));
    return text;
}

/* As printed; a size that was printed without its unit gets one. */
static const char *printed(vr_report *r, const vr_fact *f)
{
    vr_str text = vr_str_of(f->text);
    bool has_unit = vr_fact_kinds[f->id].unit != VR_UNIT_BYTES || vr_str_find(text, "B", NULL) ||
                    vr_str_find(text, "b", NULL);

    if (text.n != 0 && has_unit)
        return f->text;
    return vr_fact_kinds[f->id].unit == VR_UNIT_BYTES ? vr_say(r, T(f->negative ? "-" : ""), BYTES(f->value))
                                                      : "?";
}

static void figure(vr_report *r, const char *head, const vr_fact *f)
{
    const char *number = exact(r, f), *text;

    text = vr_say(r, T(spoken(r, vr_fact_kinds[f->id].name)), T(" "), T(printed(r, f)), T(number), T("   "),
                  T(vr_fact_kinds[f->id].meaning));
    vr_para(r, VR_INK_BOLD, head, INDENT, text);
}

/* A text that matched two templates has some figures twice; two processes may hold the same. */
static bool had(const vr_fact_list *facts, size_t i)
{
    for (size_t k = 0; k < i && facts->f[i].id != VR_FACT_PROCESS; k++)
        if (facts->f[k].id == facts->f[i].id && facts->f[k].value == facts->f[i].value)
            return true;
    return false;
}

static void figures(vr_report *r, const vr_finding *f)
{
    const vr_fact_list *facts = &f->event->sign.facts;

    for (size_t i = 0; i < facts->n; i++)
        if (!had(facts, i))
            figure(r, i == 0 ? "figures" : "", &facts->f[i]);
}

/* Of lines beside the message. */
static void log_figures(vr_report *r, const struct vram_diagnosis *d)
{
    bool any = false;

    for (size_t i = 0; i < d->found.n_seen; i++) {
        const vr_fact_list *facts = &d->found.seen[i].facts;
        for (size_t k = 0; k < facts->n; k++) {
            figure(r, any ? "" : "in the log", &facts->f[k]);
            any = true;
        }
    }
}

/* ---- advice ---- */

static void futile(vr_report *r, const vr_finding *f)
{
    for (size_t i = 0; i < f->n_futile; i++)
        vr_para(r, VR_INK_BOLD, i == 0 ? "won't help" : "", INDENT,
                f->futile[i].why != NULL ? vr_say(r, T(f->futile[i].what), T(": "), T(f->futile[i].why))
                                         : f->futile[i].what);
}

static void costs(vr_report *r, const vr_finding *f)
{
    for (size_t i = 0; i < f->n_remedies; i++) {
        const vr_remedy *m = &f->remedies[i];
        vr_diagnosis_lever(r, f, i);
        if (m->cost != NULL)
            vr_para(r, VR_INK_FAINT, "", INDENT, vr_say(r, T("cost: "), T(m->cost)));
    }
}

static void notes(vr_report *r, const vr_finding *f)
{
    for (size_t i = 0; i < f->n_notes; i++)
        vr_para(r, VR_INK_BOLD, i == 0 ? "note" : "", INDENT, f->notes[i]);
}

static const char *place_words(vr_report *r, const vr_spot *s)
{
    const char *text = vr_say(r, T(s->label != NULL ? s->label : "found"),
                              T(s->matched != NULL ? "; agree: " : ""), T(s->matched));

    if (s->to_come != 0)
        text =
            vr_say(r, T(text), T("; still to come "), T(vr_diagnosis_size(r, s->to_come)), T(" of weights"));
    if (s->assumed != NULL)
        text = vr_say(r, T(text), T("; assumed: "), T(s->assumed));
    if (s->places > 1)
        text = vr_say(r, T(text), T("; "), GROUPED(s->places), T(" places fit the figures"));
    return text;
}

static void spot(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    const vr_spot *s = &f->spot;

    if (!s->tried)
        return;
    if (!s->found) {
        vr_para(r, VR_INK_BOLD, "rehearsed", INDENT, vr_diagnosis_no_place(r, d, f));
        return;
    }
    vr_para(r, VR_INK_BOLD, "rehearsed", INDENT,
            vr_say(r, T(d->model), T(d->model != NULL ? ": " : ""), T(place_words(r, s))));
    if (s->expandable != NULL)
        vr_para(r, VR_INK_BOLD, "", INDENT, vr_say(r, T("expandable_segments: "), T(s->expandable)));
}

void vr_diagnosis_details(vr_report *r, const struct vram_diagnosis *d, const vr_finding *f)
{
    futile(r, f);
    if (vr_diagnosis_tells_first(f))
        vr_diagnosis_tell(r, f);
    costs(r, f);
    if (!vr_diagnosis_tells_first(f))
        vr_diagnosis_tell(r, f);
    vr_diagnosis_card(r, f);
    spot(r, d, f);
    evidence(r, d, f);
    notes(r, f);
    if (f->event != NULL) {
        message(r, d, f);
        figures(r, f);
    }
}

void vr_diagnosis_log(vr_report *r, const struct vram_diagnosis *d)
{
    log_figures(r, d);
    if (d->found.n_dropped != 0)
        vr_para(r, VR_INK_BOLD, "left out", INDENT,
                vr_count(r, d->found.n_dropped, "further message", "further messages"));
    if (d->found.bytes != 0)
        vr_para(r, VR_INK_BOLD, "read", INDENT,
                vr_say(r, T(vr_count(r, d->found.lines, "line", "lines")), T(", "),
                       T(vr_count(r, d->found.bytes, "byte", "bytes"))));
}
