/* SPDX-License-Identifier: MIT
 *
 * Levers of `vram ledger`: every change one at a time, and for every card size the smallest combination that
 * fits. There are few rows, so all combinations are counted. */
#include "ledger/scenario.h"

#define LEAST_CONTEXT 256 /* tokens; a lever does not make the context useless */
#define COMBINATIONS (1u << VR_SCENARIO_LEVERS)

/* ---- the changes: false when a change does not apply ---- */

static bool more_than(vr_ratio r, uint64_t num, uint64_t den)
{
    return vr_mul_sat(r.value, den) > vr_mul_sat(r.scale, num);
}

static bool freeze(vr_numbers *n)
{
    if (!n->train || !more_than(n->trainable, 1, 100))
        return false;
    n->trainable = (vr_ratio){ 1, 100 };
    return true;
}

static bool weights_16(vr_numbers *n)
{
    if (!n->given[VR_NUM_PARAMS] || !more_than(n->weight_bytes, 2, 1))
        return false;
    n->weight_bytes = n->trained_weight_bytes = (vr_ratio){ 2, 1 };
    return true;
}

/* In training only what is frozen can be stored in fewer bits: the rest keeps its precision. */
static bool lower(vr_numbers *n, vr_ratio to)
{
    if (!n->given[VR_NUM_PARAMS] || !more_than(n->weight_bytes, to.value, to.scale))
        return false;
    if (n->train && more_than(n->trainable, 1, 2))
        return false;
    n->weight_bytes = to;
    return true;
}

static bool weights_8(vr_numbers *n)
{
    return lower(n, (vr_ratio){ 1, 1 });
}

static bool weights_4(vr_numbers *n)
{
    return lower(n, (vr_ratio){ 5, 10 });
}

static bool half_sequences(vr_numbers *n)
{
    if (n->sequences < 2)
        return false;
    n->sequences /= 2;
    return true;
}

static bool half_context(vr_numbers *n)
{
    if (!n->given[VR_NUM_CONTEXT] || n->context / 2 < LEAST_CONTEXT)
        return false;
    n->context /= 2;
    return true;
}

static bool half_kv(vr_numbers *n)
{
    if (n->train || !n->given[VR_NUM_KV_BYTES_PER_TOKEN] || n->kv_bytes_per_token < 2)
        return false;
    n->kv_bytes_per_token -= n->kv_bytes_per_token / 2;
    return true;
}

/* In the order in which a combination applies them. cost class: 1 less at once, 2 shorter, 3 rounding that is
 * rarely seen, 4 and 5 rounding that can be, 6 another way of training. */
static const struct row {
    const char *id;
    bool (*apply)(vr_numbers *n);
    unsigned cost_class;
    const char *cost, *cost_training;
} ROWS[VR_SCENARIO_LEVERS] = {
    { "freeze_99", freeze, 6, "", "only 1 % of the parameters learns: adapters or the last layers" },
    { "weights_16bit", weights_16, 1, "none that is seen, for most models",
      "needs mixed precision in the training loop" },
    { "weights_8bit", weights_8, 4, "a small loss of quality",
      "a small loss of quality in the frozen weights" },
    { "weights_4bit", weights_4, 5, "some loss of quality", "some loss of quality in the frozen weights" },
    { "half_sequences", half_sequences, 1, "half as many requests at once",
      "more steps; accumulate gradients over two for the same result" },
    { "half_context", half_context, 2, "shorter prompts and answers", "shorter training texts" },
    { "kv_8bit", half_kv, 3, "a small loss of quality in long contexts", "" },
};

#define PRECISIONS 0x0eu /* at most one of the rows weights_* */

/* ---- counting ---- */

typedef struct trial {
    bool valid;
    uint64_t required;
    bool fits[VR_SCENARIO_CARDS];
    unsigned size, cost;
} trial;

typedef struct search {
    vr_scenario_result *r;
    vram_scenario *s;
    vr_scenario_result changed; /* scratch: a result of its own, without words */
    trial trials[COMBINATIONS]; /* by set of rows */
    const char *changes[VR_SCENARIO_LEVERS], *options[VR_SCENARIO_LEVERS]; /* by row */
} search;

static unsigned bits(unsigned set)
{
    unsigned n = 0;
    for (; set != 0; set &= set - 1)
        n++;
    return n;
}

/* Applies the rows of a set; false when one of them does not apply. */
static bool apply(vr_numbers *n, unsigned set)
{
    if (bits(set & PRECISIONS) > 1)
        return false;
    for (unsigned i = 0; i < VR_SCENARIO_LEVERS; i++) {
        if ((set & 1u << i) != 0 && !ROWS[i].apply(n))
            return false;
    }
    return true;
}

/* A KV cache counted from layers and heads gets its bytes written out, so that a row can halve them. */
static vr_numbers numbers_of(const vr_scenario_result *r)
{
    vr_numbers n = r->numbers;
    if (!n.given[VR_NUM_KV_BYTES_PER_TOKEN] && r->kv_per_token > 0) {
        n.given[VR_NUM_KV_BYTES_PER_TOKEN] = true;
        n.kv_bytes_per_token = r->kv_per_token;
    }
    return n;
}

static vram_status try(search *q, unsigned set)
{
    trial *t = &q->trials[set];
    q->changed.numbers = numbers_of(q->r);
    t->size = bits(set);
    for (unsigned i = 0; i < VR_SCENARIO_LEVERS; i++)
        t->cost += (set & 1u << i) != 0 ? ROWS[i].cost_class : 0;
    t->valid = apply(&q->changed.numbers, set);
    if (!t->valid)
        return VRAM_OK;
    VR_TRY(vr_scenario_ledger(&q->changed, q->s, false));
    t->required = q->changed.ledger.required;
    for (size_t i = 0; i < q->r->n_cards; i++)
        t->fits[i] = vr_scenario_judge(&q->changed.ledger, q->r->cards[i].available) == VRAM_FITS;
    return VRAM_OK;
}

/* ---- words ---- */

static const char *change_in_words(const search *q, unsigned row, const vr_numbers *after)
{
    const vr_numbers before = numbers_of(q->r);
    vr_arena *a = &q->s->arena;
    bool one = after->sequences == 1;
    if (ROWS[row].apply == freeze)
        return "train 1 % of the parameters and freeze the rest";
    if (ROWS[row].apply == half_sequences)
        return vr_text(a, GROUPED(after->sequences),
                       T(one ? " sequence instead of " : " sequences instead of "),
                       GROUPED(before.sequences));
    if (ROWS[row].apply == half_context)
        return vr_text(a, T("a context of "), GROUPED(after->context), T(" tokens instead of "),
                       GROUPED(before.context));
    if (ROWS[row].apply == half_kv)
        return vr_text(a, T("KV cache in 8 bits: "), GROUPED(after->kv_bytes_per_token),
                       T(" B a token instead of "), GROUPED(before.kv_bytes_per_token));
    return vr_text(a, T(before.train ? "frozen weights in " : "weights in "),
                   vr_ratio_piece((vr_ratio){ after->weight_bytes.value * 8, after->weight_bytes.scale }),
                   T(" bits"));
}

static const char *option_to_type(const search *q, unsigned row, const vr_numbers *after)
{
    vr_arena *a = &q->s->arena;
    if (ROWS[row].apply == freeze)
        return "--trainable 0.01";
    if (ROWS[row].apply == half_sequences)
        return vr_text(a, T("--sequences "), U(after->sequences));
    if (ROWS[row].apply == half_context)
        return vr_text(a, T("--context "), U(after->context));
    if (ROWS[row].apply == half_kv)
        return vr_text(a, T("--kv-bytes-per-token "), U(after->kv_bytes_per_token));
    return vr_text(a, T("--weight-bytes "), vr_ratio_piece(after->weight_bytes));
}

static bool join(vr_arena *a, const char **to, const char *separator, const char *more)
{
    *to = *to == NULL ? more : vr_text(a, T(*to), T(separator), T(more));
    return *to != NULL;
}

static vram_status write_out(search *q, vr_scenario_lever *out, unsigned set)
{
    vr_arena *a = &q->s->arena;
    const trial *t = &q->trials[set];
    *out =
        (vr_scenario_lever){ .required = t->required, .saved = vr_diff(q->r->ledger.required, t->required) };
    memcpy(out->fits, t->fits, sizeof(out->fits));
    for (unsigned i = 0; i < VR_SCENARIO_LEVERS; i++) {
        if ((set & 1u << i) == 0)
            continue;
        const char *cost = q->r->numbers.train ? ROWS[i].cost_training : ROWS[i].cost;
        out->ids[out->n_ids++] = ROWS[i].id;
        if (!join(a, &out->change, ", ", q->changes[i]) || !join(a, &out->option, " ", q->options[i]) ||
            !join(a, &out->cost, ", ", cost))
            return VRAM_ENOMEM;
    }
    return VRAM_OK;
}

/* A row's words also when it only applies together with others (weights in 4 bits once they are frozen). */
static vram_status word_rows(search *q)
{
    for (unsigned i = 0; i < VR_SCENARIO_LEVERS; i++) {
        vr_numbers after = numbers_of(q->r);
        if (!ROWS[i].apply(&after)) {
            freeze(&after);
            ROWS[i].apply(&after);
        }
        q->changes[i] = change_in_words(q, i, &after);
        q->options[i] = option_to_type(q, i, &after);
        if (q->changes[i] == NULL || q->options[i] == NULL)
            return VRAM_ENOMEM;
    }
    return VRAM_OK;
}

/* ---- choosing ---- */

static bool better(const trial *a, const trial *b)
{
    if (a->size != b->size)
        return a->size < b->size;
    return a->cost != b->cost ? a->cost < b->cost : a->required < b->required;
}

static vram_status combine(search *q, size_t card)
{
    unsigned best = 0;
    vr_scenario_card *c = &q->r->cards[card];
    for (unsigned set = 1; set < COMBINATIONS; set++) {
        const trial *t = &q->trials[set];
        if (t->valid && t->fits[card] && (best == 0 || better(t, &q->trials[best])))
            best = set;
    }
    if (best == 0) {
        c->combination_note = "no combination of these changes fits";
        return VRAM_OK;
    }
    vr_scenario_lever *lever = VR_NEW(&q->s->arena, vr_scenario_lever);
    if (lever == NULL)
        return VRAM_ENOMEM;
    VR_TRY(write_out(q, lever, best));
    lever->rank = 1;
    c->combination = lever;
    return VRAM_OK;
}

typedef struct ranking {
    const trial *trials;
    size_t n_cards;
} ranking;

static unsigned cards_that_fit(const ranking *k, unsigned set)
{
    unsigned n = 0;
    for (size_t i = 0; i < k->n_cards; i++)
        n += k->trials[set].fits[i];
    return n;
}

static bool ranks_before(void *ud, const void *x, const void *y)
{
    const ranking *k = ud;
    unsigned a = *(const unsigned *)x, b = *(const unsigned *)y;
    unsigned fit_a = cards_that_fit(k, a), fit_b = cards_that_fit(k, b);
    if (fit_a != fit_b)
        return fit_a > fit_b;
    if (k->trials[a].cost != k->trials[b].cost)
        return k->trials[a].cost < k->trials[b].cost;
    return k->trials[a].required < k->trials[b].required;
}

static vram_status list_singles(search *q)
{
    unsigned sets[VR_SCENARIO_LEVERS];
    size_t n = 0;
    ranking k = { q->trials, q->r->n_cards };
    for (unsigned i = 0; i < VR_SCENARIO_LEVERS; i++) {
        if (q->trials[1u << i].valid && q->trials[1u << i].required < q->r->ledger.required)
            sets[n++] = 1u << i;
    }
    VR_TRY(vr_sort(q->s->ctx, sets, n, sizeof(sets[0]), ranks_before, &k));
    q->r->levers = VR_ARRAY(&q->s->arena, vr_scenario_lever, n);
    if (q->r->levers == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        VR_TRY(write_out(q, &q->r->levers[i], sets[i]));
        q->r->levers[i].rank = (unsigned)i + 1;
    }
    q->r->n_levers = n;
    return VRAM_OK;
}

vram_status vr_scenario_levers(vr_scenario_result *r, vram_scenario *s)
{
    search *q = VR_NEW(&s->arena, search);
    if (q == NULL)
        return VRAM_ENOMEM;
    q->r = r;
    q->s = s;
    for (unsigned set = 1; set < COMBINATIONS; set++)
        VR_TRY(try(q, set));
    VR_TRY(word_rows(q));
    VR_TRY(list_singles(q));
    for (size_t i = 0; i < r->n_cards; i++) {
        if (r->cards[i].verdict != VRAM_FITS)
            VR_TRY(combine(q, i));
    }
    return VRAM_OK;
}
