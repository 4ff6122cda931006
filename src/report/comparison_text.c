/* SPDX-License-Identifier: MIT
 *
 * `vram fit --engine all` on a screen: one row for each engine, then what some of them take in any case, what
 * a token is kept as, and what is not like the others'.
 */
#include "report/fit_report.h"

#define ENGINE_WIDTH 17

static const struct {
    const char *head;
    int category; /* -1: the sum */
} columns[] = {
    { "weights", VR_WEIGHTS },
    { "KV cache", VR_KV_CACHE },
    { "activations", VR_ACTIVATIONS },
    { "overhead", VR_OVERHEAD },
    { "needs", -1 },
};
#define N_COLUMNS (sizeof columns / sizeof *columns)

static const char *name_of(vr_report *r, const vr_compared *x)
{
    if (x->fit == NULL)
        return x->engine->name;
    return vr_say(r, T(x->engine->name), T(" "),
                  T(vr_workload_value(x->fit->workload, VR_SET_ENGINE_VERSION, &r->arena)));
}

static const char *cell(vr_report *r, const vram_fit *f, int category)
{
    const vr_ledger *l = &f->ledger;

    if (category < 0)
        return vr_say(r, T(vr_gib(r, l->required)), T(l->partial ? "+" : ""));
    if (!l->category[category].counted)
        return "not counted";
    return vr_gib(r, l->category[category].bytes);
}

static const char *verdict_words(vram_verdict v)
{
    static const char *const words[] = {
        [VRAM_FITS] = "fits", [VRAM_TIGHT] = "tight", [VRAM_DOES_NOT_FIT] = "no", [VRAM_UNKNOWN] = "unknown"
    };

    return words[v];
}

static const vram_fit *any_fit(const vram_comparison *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].fit != NULL)
            return c->list[i].fit;
    return NULL;
}

/* Its settings or the model; NULL: it runs. */
static const char *refused(vr_report *r, const vr_compared *x)
{
    if (x->fit == NULL)
        return vr_say(r, T("refuses: "), T(x->refused));
    return x->fit->plan.refused != NULL ? vr_say(r, T("does not run it: "), T(x->fit->plan.refused)) : NULL;
}

/* Each as wide as its widest figure. */
static void measure(vr_report *r, const vram_comparison *c, size_t widths[N_COLUMNS])
{
    for (size_t k = 0; k < N_COLUMNS; k++) {
        widths[k] = vr_utf8_width(vr_str_of(columns[k].head)) + 1;
        for (size_t i = 0; i < c->n; i++) {
            const char *text =
                refused(r, &c->list[i]) == NULL ? cell(r, c->list[i].fit, columns[k].category) : "";
            size_t width = vr_utf8_width(vr_str_of(text)) + 1;
            widths[k] = width > widths[k] ? width : widths[k];
        }
    }
}

static void put_head(vr_report *r, const vram_comparison *c, const size_t widths[N_COLUMNS])
{
    const vram_fit *f = any_fit(c);

    vr_ink_on(r, VR_INK_BOLD);
    vr_left(r, "GiB", ENGINE_WIDTH);
    for (size_t i = 0; i < N_COLUMNS; i++)
        vr_right(r, columns[i].head, widths[i]);
    vr_put(&r->buf, T(f != NULL && f->device != NULL ? "  verdict" : ""));
    vr_ink_off(r, VR_INK_BOLD);
    vr_put(&r->buf, T("\n"));
}

static void put_row(vr_report *r, const vr_compared *x, const size_t widths[N_COLUMNS])
{
    const char *why = refused(r, x);

    vr_left(r, name_of(r, x), ENGINE_WIDTH);
    if (why != NULL) {
        vr_put(&r->buf, T("  "));
        vr_wrap(r, ENGINE_WIDTH + 2, ENGINE_WIDTH + 2, why);
        return;
    }
    for (size_t i = 0; i < N_COLUMNS; i++)
        vr_right(r, cell(r, x->fit, columns[i].category), widths[i]);
    if (x->fit->device != NULL) {
        vr_put(&r->buf, T("  "));
        vr_inked(r, vr_verdict_ink(x->fit->verdict), verdict_words(x->fit->verdict));
        if (x->fit->verdict == VRAM_FITS && x->fit->verdict_reason != NULL)
            vr_put(&r->buf, T(", "), T(x->fit->verdict_reason));
    }
    vr_put(&r->buf, T("\n"));
}

/* ---- below the table ---- */

/* The smallest card of the table that holds it, or has room for what is counted; NULL: none. */
static const char *first_card(vr_report *r, const vram_fit *f)
{
    for (size_t i = 0; i < f->n_cards; i++) {
        const struct vr_card *c = &f->cards[i];
        if (c->verdict != VRAM_DOES_NOT_FIT && c->headroom >= 0)
            return vr_say(r, T(c->verdict == VRAM_UNKNOWN ? " has room from " : " from "),
                          T(vr_card_name(r, c->gpu->name, c->gpu->marketed_gb)));
    }
    return NULL;
}

static void put_cards(vr_report *r, const vram_comparison *c)
{
    const char *list = "";
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++) {
        const vram_fit *f = c->list[i].fit;
        bool asked = f != NULL && f->device == NULL && f->plan.refused == NULL && f->plan.counted[VR_WEIGHTS];
        const char *card = asked ? first_card(r, f) : NULL;
        n += asked;
        if (card != NULL)
            list = vr_say(r, T(list), T(*list != '\0' ? vr_dot(r) : ""), T(c->list[i].engine->name), T(card));
    }
    if (n != 0)
        vr_para(r, VR_INK_BOLD, "cards", VR_FIT_INDENT, *list != '\0' ? list : "none of the table has room");
}

static const char *room_words(vr_report *r, const vram_device *d)
{
    const char *name = vr_fit_cards(r, d, d->count);

    if (d->usable.bytes == UINT64_MAX)
        return vr_say(r, T(name), T(", no GPU"));
    return vr_say(r, T(name), T(", "), T(vr_gib(r, d->usable.bytes)), T(" GiB usable"));
}

static void put_card(vr_report *r, const vram_comparison *c)
{
    const vram_fit *f = any_fit(c);
    const vram_device *d = f != NULL ? f->device : NULL;
    const char *plus = "+ and what is not counted (-v says why)", *card = "";
    bool partial = false;

    for (size_t i = 0; i < c->n; i++)
        partial = partial || (refused(r, &c->list[i]) == NULL && c->list[i].fit->ledger.partial);
    if (d != NULL)
        card = room_words(r, d);
    if (d != NULL || partial)
        vr_para(r, VR_INK_BOLD, d != NULL ? "card" : "", VR_FIT_INDENT,
                vr_say(r, T(card), T(d != NULL && partial ? vr_dot(r) : ""), T(partial ? plus : "")));
}

static const char *pool_words(vr_report *r, const vram_fit *f)
{
    const vr_plan *p = &f->plan;
    const char *tokens =
        p->pool_tokens != 0 ? vr_say(r, T(" = "), GROUPED(p->pool_tokens), T(" tokens")) : "";

    if (!p->counted[VR_WEIGHTS])
        return "for its cache what is left";
    if (p->pool_most == 0)
        return "less than the weights alone";
    return vr_say(r, T("of it at most "), T(vr_gib(r, p->pool_most)), T(" for its cache"), T(tokens));
}

/* "whatever is asked for: vllm 21.63 GiB, of it at most 7.45 for its cache = 139,472 tokens" */
static void put_pools(vr_report *r, const vram_comparison *c)
{
    const char *list = "";

    for (size_t i = 0; i < c->n; i++) {
        const vram_fit *f = c->list[i].fit;
        if (f == NULL || f->device == NULL || f->plan.pool == NULL || f->ledger.required == 0)
            continue;
        list = vr_say(r, T(list), T(*list != '\0' ? vr_dot(r) : ""), T(c->list[i].engine->name), T(" "),
                      T(vr_gib(r, f->plan.claim)), T(" GiB, "), T(pool_words(r, f)));
    }
    if (*list != '\0')
        vr_para(r, VR_INK_BOLD, "takes", VR_FIT_INDENT, vr_say(r, T("whatever is asked for: "), T(list)));
}

static bool told_before(const vram_comparison *c, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (c->list[k].fit != NULL && c->list[k].fit->plan.kv_token == c->list[i].fit->plan.kv_token)
            return true;
    return false;
}

static const char *who_keeps(vr_report *r, const vram_comparison *c, size_t from)
{
    const char *list = "";

    for (size_t i = from; i < c->n; i++)
        if (c->list[i].fit != NULL && c->list[i].fit->plan.kv_token == c->list[from].fit->plan.kv_token)
            list = vr_say(r, T(list), T(*list != '\0' ? ", " : ""), T(c->list[i].engine->name));
    return list;
}

/* "147,456 B a token in transformers, vllm; 73,728 in llama.cpp" */
static void put_token(vr_report *r, const vram_comparison *c)
{
    const char *text = "";

    for (size_t i = 0; i < c->n; i++) {
        const vram_fit *f = c->list[i].fit;
        if (f == NULL || f->plan.kv_token == 0 || told_before(c, i))
            continue;
        text = vr_say(r, T(text), T(*text != '\0' ? "; " : ""), GROUPED(f->plan.kv_token), T(" B in "),
                      T(who_keeps(r, c, i)));
    }
    if (*text != '\0')
        vr_para(r, VR_INK_BOLD, "a token", VR_FIT_INDENT, text);
    if (c->least_kv != 0)
        vr_para(r, VR_INK_BOLD, "windows", VR_FIT_INDENT,
                vr_say(r, T("sliding layers that kept just what they attend to would make it "),
                       T(vr_gib(r, c->least_kv)), T(" GiB")));
}

/* Not all keep as much. */
static bool caches_differ(vr_report *r, const vram_comparison *c)
{
    const vr_figure *first = NULL;

    for (size_t i = 0; i < c->n; i++) {
        const vr_figure *g =
            refused(r, &c->list[i]) == NULL ? &c->list[i].fit->ledger.category[VR_KV_CACHE] : NULL;
        if (g == NULL || !g->counted)
            continue;
        if (first != NULL && (g->bytes > first->bytes ? g->bytes - first->bytes : first->bytes - g->bytes) >
                                 first->bytes / 100)
            return true;
        first = first != NULL ? first : g;
    }
    return false;
}

/* Weights of a GGUF file that does not exist yet are an assumption; where caches differ it is told how; what
 * is not counted has its reason. */
static void put_formulas(vr_report *r, const vram_comparison *c)
{
    bool differ = caches_differ(r, c);

    for (size_t i = 0; i < c->n; i++) {
        const vram_fit *f = c->list[i].fit;
        if (refused(r, &c->list[i]) != NULL)
            continue;
        for (size_t k = 0; k < N_COLUMNS; k++) {
            int category = columns[k].category;
            const vr_figure *g = category >= 0 ? &f->ledger.category[category] : NULL;
            bool assumed = category == VR_WEIGHTS && g->counted && g->basis == VR_BASIS_ASSUMED;
            bool cache = category == VR_KV_CACHE && g->counted && differ;
            bool tell = g != NULL && (r->style->verbose || assumed || cache);
            if (tell && g->formula != NULL)
                vr_para(
                    r, VR_INK_BOLD, c->list[i].engine->name, ENGINE_WIDTH,
                    vr_say(r, T(columns[k].head), T(g->counted ? ": " : " not counted: "), T(g->formula)));
        }
    }
}

void vr_comparison_text(vr_report *r, const vram_comparison *c)
{
    const vram_fit *f = any_fit(c);
    size_t widths[N_COLUMNS];

    measure(r, c, widths);
    put_head(r, c, widths);
    for (size_t i = 0; i < c->n; i++)
        put_row(r, &c->list[i], widths);
    if (c->model->not_understood != NULL && !c->model->gguf)
        vr_para(r, VR_INK_CARE, "unknown", VR_FIT_INDENT, c->model->not_understood);
    put_card(r, c);
    put_cards(r, c);
    put_token(r, c);
    put_formulas(r, c);
    put_pools(r, c);
    if (f != NULL)
        vr_para(r, VR_INK_BOLD, "assumed", VR_FIT_INDENT,
                vr_say(r, T(vr_count(r, f->workload->context, "token", "tokens")), T(" (-c), "),
                       T(vr_count(r, f->workload->sequences, "sequence", "sequences")), T(" (-np)")));
}
