/* SPDX-License-Identifier: MIT
 *
 * Settings that were sought: the answer to --solve with what comes next and the command line to type; of a
 * run that fits, how long its context may be.
 */
#include "report/fit_report.h"

#include "ledger/solver.h"

/* A command line is one line however narrow the terminal is: it will be copied. */
void vr_fit_command(vr_report *r, const char *command)
{
    vr_inked(r, VR_INK_BOLD, "type");
    vr_put(&r->buf, T("     "));
    vr_put_clean(r, vr_str_of(command));
    vr_put(&r->buf, T("\n"));
}

static const char *next_words(vr_report *r, const vr_solution *x)
{
    if (x->top)
        return "";
    if (x->whole)
        return vr_say(r, T("; with "), GROUPED(x->next), T(" a part stays on the CPU"));
    if (x->next_left == INT64_MIN)
        return vr_say(r, T("; "), GROUPED(x->next), T(" is refused"));
    return vr_say(r, T("; with "), T(x->goal == VR_GOAL_CACHE && x->next == 16 ? "f16" : ""),
                  x->goal == VR_GOAL_CACHE && x->next == 16 ? T("") : GROUPED(x->next), T(" it may lack "),
                  T(vr_gib_signed(r, x->next_left)));
}

static const char *found_words(vr_report *r, const vram_fit *f, const vr_solution *x)
{
    const char *of = x->n_shares > 1 ? " on the fullest card" : "";
    const char *last = x->top && x->goal == VR_GOAL_CONTEXT ? ", the longest it was made for" : "";

    return vr_say(r, T(x->words), T(last), T(": at least "), T(vr_gib_signed(r, x->left)), T(" GiB left"),
                  T(of),
                  T(x->sure                 ? ""
                    : f->plan.doubt != NULL ? ", about"
                                            : " for what is not counted"),
                  T(next_words(r, x)));
}

/* Where one setting alone is not enough, layers on the CPU are, as long as there is memory there. */
static const char *then_words(const vr_solution *x)
{
    return x->whole || x->goal == VR_GOAL_LAYERS ? "" : "; --solve ngl says how many layers do";
}

static void put_answer(vr_report *r, const vram_fit *f, const vr_solution *x)
{
    if (!x->found) {
        vr_para(r, VR_INK_BOLD, "none", VR_FIT_INDENT,
                vr_say(r, T(x->whole ? "a part stays on the CPU even with " : "it does not fit with "),
                       T(x->words), T(then_words(x))));
        return;
    }
    vr_para(r, VR_INK_BOLD, x->sure ? "solved" : "at most", VR_FIT_INDENT, found_words(r, f, x));
    if (f->verdict != VRAM_DOES_NOT_FIT &&
        f->plan.doubt == NULL) /* the computer's memory can be too small for it */
        vr_fit_command(r, x->command);
}

static void put_room(vr_report *r, const vram_fit *f, const vr_solution *x)
{
    bool more = x->found && x->sure && x->goal == VR_GOAL_CONTEXT && x->number > f->workload->context;

    if (more)
        vr_para(r, VR_INK_BOLD, "room", VR_FIT_INDENT,
                vr_say(r, T("for "), T(x->words), T(x->top ? ", the longest it was made for (" : " ("),
                       T(x->option), T(")")));
}

/* ---- quantisations ---- */

static size_t name_width(const vram_fit *f)
{
    size_t width = 0;

    for (size_t i = 0; i < f->n_quants; i++) {
        size_t n = vr_utf8_width(vr_str_of(f->quants[i].name));
        width = f->quants[i].fit != NULL && n > width ? n : width;
    }
    return width;
}

static const char *judged_words(vr_report *r, const vram_fit *q)
{
    const char *gib = vr_gib_between(r, vr_fit_room(q), q->ledger.required, q->headroom);

    return vr_say(r, T("needs "), T(vr_gib(r, q->ledger.required)), T(" GiB, "), T(gib),
                  T(q->headroom < 0 ? " short" : " left"), T(q->verdict == VRAM_TIGHT ? ", tight" : ""));
}

/* Those that were judged, largest first. */
static void put_quants(vr_report *r, const vram_fit *f)
{
    size_t width = name_width(f);
    const char *head = vram_fit_may(f) ? "largest" : "smallest";

    for (size_t i = f->n_quants; i-- > 0;) {
        const vram_quant *q = &f->quants[i];
        if (q->fit == NULL)
            continue;
        vr_inked(r, VR_INK_BOLD, i == f->quant ? head : "");
        vr_put_repeat(&r->buf, " ", i == f->quant ? VR_FIT_INDENT - vr_str_of(head).n : VR_FIT_INDENT);
        vr_left(r, q->name, width);
        vr_right(r, vr_decimal(r, q->bytes), 12);
        vr_put(&r->buf, T("  "));
        vr_put_clean(r, vr_str_of(judged_words(r, q->fit)));
        vr_put(&r->buf, T("\n"));
    }
}

static void put_quant_command(vr_report *r, const vram_fit *f)
{
    const vr_solvable *of = f->workload->engine->solvable;
    const char *command = of != NULL ? of->command(f->model, f->workload, &r->arena) : NULL;

    if (command != NULL && vram_fit_may(f))
        vr_fit_command(r, command);
}

static void put_quant_json(vr_json_out *o, const vram_fit *f)
{
    vr_json_key(o, "quants");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_quants; i++) {
        const vram_fit *q = f->quants[i].fit;
        vr_json_open(o, '{');
        vr_json_kv_text(o, "name", f->quants[i].name);
        vr_json_kv_u64(o, "file_bytes", f->quants[i].bytes);
        vr_json_kv_text(o, "verdict", q != NULL ? vr_verdict_json(q->verdict) : NULL);
        vr_json_kv_if(o, "required_bytes", q != NULL, q != NULL ? q->ledger.required : 0);
        if (q != NULL)
            vr_json_kv_i64(o, "headroom_bytes", q->headroom);
        else
            vr_json_kv_null(o, "headroom_bytes");
        vr_json_kv_bool(o, "chosen", i == f->quant);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
}

void vr_fit_solved(vr_report *r, const vram_fit *f)
{
    if (f->n_quants != 0) {
        put_quants(r, f);
        put_quant_command(r, f);
    }
    if (f->n_solutions == 0 || (!f->solved && f->verdict != VRAM_FITS))
        return;
    if (f->solved)
        put_answer(r, f, &f->solutions[0]);
    else
        put_room(r, f, &f->solutions[0]);
}

/* ---- JSON ---- */

static void put_shares(vr_json_out *o, const vr_solution *x)
{
    if (x->n_shares == 0) {
        vr_json_kv_null(o, "shares");
        return;
    }
    vr_json_key(o, "shares");
    vr_json_open(o, '[');
    for (size_t i = 0; i < x->n_shares; i++)
        vr_json_put_u64(o, x->shares[i]);
    vr_json_close(o, ']');
}

static void put_solution(vr_json_out *o, const vr_solution *x)
{
    vr_json_open(o, '{');
    vr_json_kv_text(o, "goal", vr_goal_word(x->goal));
    vr_json_kv_bool(o, "found", x->found);
    vr_json_kv_u64(o, "value", x->number);
    vr_json_kv_u64(o, "most", x->most);
    vr_json_kv_bool(o, "counted_total", !x->sure);
    vr_json_kv_u64(o, "required_bytes", x->required);
    vr_json_kv_i64(o, "headroom_bytes", x->left);
    vr_json_kv_if(o, "next", x->found && !x->top, x->next);
    if (x->found && !x->top && x->next_left != INT64_MIN)
        vr_json_kv_i64(o, "next_headroom_bytes", x->next_left);
    else
        vr_json_kv_null(o, "next_headroom_bytes");
    put_shares(o, x);
    vr_json_kv_text(o, "change", x->words);
    vr_json_kv_text(o, "option", x->option);
    vr_json_kv_text(o, "command", x->command);
    vr_json_kv_u64(o, "tries", x->tries);
    vr_json_close(o, '}');
}

static const char *sought(const vram_fit *f)
{
    if (f->n_quants != 0)
        return "quant";
    return f->solved ? vr_goal_word(f->solutions[0].goal) : NULL;
}

void vr_fit_solver_json(vr_json_out *o, const vram_fit *f)
{
    if (f->n_solutions == 0 && f->n_quants == 0) {
        vr_json_kv_null(o, "solver");
        return;
    }
    vr_json_key(o, "solver");
    vr_json_open(o, '{');
    vr_json_kv_text(o, "sought", sought(f));
    vr_json_key(o, "answers");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_solutions; i++)
        put_solution(o, &f->solutions[i]);
    vr_json_close(o, ']');
    if (f->n_quants != 0)
        put_quant_json(o, f);
    vr_json_close(o, '}');
}
