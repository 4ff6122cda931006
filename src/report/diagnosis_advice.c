/* SPDX-License-Identifier: MIT
 *
 * `vram explain` for people: what will not help, what to type, and what would tell.
 */
#include "report/diagnosis_report.h"

#define INDENT VR_DIAGNOSIS_INDENT
#define OTHERS_MOST 2   /* commands beside the first on the short screen */
#define SHORT_CLAUSE 10 /* bytes; less of a change says nothing */
#define ALIKE 8         /* bytes */

static bool fits(const vr_report *r, const char *text)
{
    return !vr_terminal(r) || INDENT + vr_utf8_width(vr_str_of(text)) <= r->style->columns;
}

/* ---- what does not help ---- */

/* The first `n`, the first with its reason when there is room. */
static const char *futile(vr_report *r, const vr_finding *f, size_t n, bool reason)
{
    const char *text = "";

    for (size_t i = 0; i < n; i++) {
        text = vr_say(r, T(text), T(i != 0 ? vr_dot(r) : ""), T(f->futile[i].what));
        if (i == 0 && reason && f->futile[i].why != NULL)
            text = vr_say(r, T(text), T(" ("), T(f->futile[i].why), T(")"));
    }
    return text;
}

void vr_diagnosis_futile(vr_report *r, const vr_finding *f)
{
    const char *texts[2 * VR_MAX_FUTILE];
    size_t k = 0;

    for (size_t i = f->n_futile; i > 0; i--) {
        texts[k++] = futile(r, f, i, true);
        texts[k++] = futile(r, f, i, false);
    }
    if (k != 0)
        vr_para(r, VR_INK_BOLD, "won't help", INDENT, vr_diagnosis_roomy(r, texts, k));
}

/* ---- what to type ---- */

/* Amounts that a lever saves: "half of the cache", "45 % of 16 bits". Behind a colon a bare amount reads as
 * what is left. */
static bool is_saving(vr_str gain)
{
    static const char *const begins[] = { "half",     "about ",     "up to ",     "most of ",
                                          "all but ", "nearly all", "all of the " };
    static const char *const other[] = { "usual", "own",     "room",    "card", "free", "node", "in all",
                                         "disk",  "half on", "on each", "more", "than", "less" };
    bool amount = gain.n != 0 && gain.s[0] >= '0' && gain.s[0] <= '9';

    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        amount = amount || vr_str_starts(gain, begins[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (vr_str_find(gain, other[i], NULL))
            return false;
    return amount;
}

static const char *outcome(vr_report *r, const vr_remedy *m)
{
    if (m->sized)
        return vr_say(r, T(vr_gib(r, m->needs)), T(" GiB, "), T(m->fits ? "fits" : "not enough alone"));
    if (m->gain == NULL)
        return "";
    return is_saving(vr_str_of(m->gain)) ? vr_say(r, T("saves "), T(m->gain)) : m->gain;
}

/* "fewer layers on the card" of "fewer layers on the card, of which ...; raise it while it fits" */
static vr_str first_clause(const char *text)
{
    vr_str s = vr_str_of(text);
    size_t at;

    if (vr_str_find(s, "; ", &at))
        s.n = at;
    /* not within brackets, and no first word of a list */
    if (vr_str_find(s, ", ", &at) && at >= SHORT_CLAUSE && !vr_str_find(s, "(", NULL))
        s.n = at;
    return s;
}

/* What is to be done, said twice in nearly the same words. */
static bool begin_alike(const char *a, const char *b)
{
    vr_str head = vr_str_of(a);

    head.n = head.n < ALIKE ? head.n : ALIKE;
    return vr_str_of(b).n >= head.n && vr_str_eq(head, (vr_str){ b, head.n });
}

/* Where one of both has room it is the change, as a gain alone does not say of what; figures of a rehearsal
 * do. */
static const char *remedy(vr_report *r, const vr_remedy *m)
{
    const char *gain = outcome(r, m), *what = m->change, *texts[5];
    size_t n = 0, last = 4;

    if (m->command == NULL || m->change == NULL || (m->is_done && begin_alike(m->command, m->change)))
        what = "";
    texts[last] = m->command != NULL ? m->command : m->change;
    texts[n++] = vr_say(r, T(texts[last]), T(*what != '\0' || *gain != '\0' ? "   " : ""), T(what),
                        T(*what != '\0' && *gain != '\0' ? ": " : ""), T(gain));
    if (*what != '\0' && !m->sized) {
        texts[n++] = vr_say(r, T(texts[last]), T("   "), T(what));
        texts[n++] = vr_say(r, T(texts[last]), T("   "), S(first_clause(what)));
    }
    if (m->sized || is_saving(vr_str_of(m->gain)))
        texts[n++] = vr_say(r, T(texts[last]), T("   "), T(gain));
    texts[n] = texts[last];
    return vr_diagnosis_roomy(r, texts, n + 1);
}

/* In one line, however long: a terminal wraps it softly, and it is copied whole. */
static void put_line(vr_report *r, const char *head, const char *text)
{
    vr_inked(r, VR_INK_BOLD, head);
    vr_put_repeat(&r->buf, " ", (size_t)vr_sub_floor(INDENT, vr_utf8_width(vr_str_of(head))));
    vr_put_clean(r, vr_str_of(text));
    vr_put(&r->buf, T("\n"));
}

void vr_diagnosis_lever(vr_report *r, const vr_finding *f, size_t i)
{
    const vr_remedy *m = &f->remedies[i];
    bool words = m->is_done || m->command == NULL;
    const char *head = words ? "do" : "type", *text = remedy(r, m);

    if (i != 0 || vr_diagnosis_tells_first(f))
        head = "or";
    if (m->one_line)
        put_line(r, head, text);
    else
        vr_para(r, VR_INK_BOLD, head, INDENT, text);
}

static bool typed_already(const vr_finding *f)
{
    for (size_t i = 0; i < f->n_remedies; i++)
        if (f->remedies[i].command != NULL && vr_str_is(vr_str_of(f->tell), f->remedies[i].command))
            return true;
    return false;
}

bool vr_diagnosis_tells_first(const vr_finding *f)
{
    bool open = f->cause == VR_CAUSE_UNKNOWN || (f->event == NULL && f->certainty <= VR_CERTAINTY_POSSIBLE);

    return f->tell != NULL && (open || f->n_remedies == 0);
}

static void tell_first(vr_report *r, const vr_finding *f)
{
    const char *whole = vr_say(r, T(f->tell), T("   "), T(f->tell_why));

    if (f->tell_why != NULL && fits(r, whole)) {
        put_line(r, "type", whole);
        return;
    }
    put_line(r, "type", f->tell);
    if (f->tell_why != NULL)
        vr_para(r, VR_INK_PLAIN, "", INDENT, f->tell_why);
}

void vr_diagnosis_tell(vr_report *r, const vr_finding *f)
{
    bool comes_first = vr_diagnosis_tells_first(f);
    const char *texts[2];

    if (f->tell == NULL || (!comes_first && typed_already(f)))
        return;
    if (comes_first) {
        tell_first(r, f);
        return;
    }
    texts[1] = f->tell;
    texts[0] = f->tell_why != NULL ? vr_say(r, T(f->tell), T("   "), T(f->tell_why)) : f->tell;
    put_line(r, "to be sure", vr_diagnosis_roomy(r, texts, 2));
}

/* Where the cause is open, what would tell comes before what may help. */
void vr_diagnosis_type(vr_report *r, const vr_finding *f)
{
    bool tells_first = vr_diagnosis_tells_first(f);

    if (tells_first)
        vr_diagnosis_tell(r, f);
    for (size_t i = 0; i < f->n_remedies && i <= OTHERS_MOST; i++)
        vr_diagnosis_lever(r, f, i);
    if (!tells_first)
        vr_diagnosis_tell(r, f);
}
