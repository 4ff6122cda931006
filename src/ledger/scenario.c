/* SPDX-License-Identifier: MIT
 *
 * `vram ledger`: settings and scenarios of a file become one ledger each, judged on every card size. */
#include "ledger/scenario.h"

static void release(vr_object *self)
{
    vr_arena arena = ((vram_scenario *)self)->arena;
    vr_arena_free(&arena);
}

vram_status vram_scenario_new(vram_scenario **out, vram_ctx *ctx)
{
    vr_arena arena;
    vr_arena_init(&arena, ctx);
    vram_scenario *s = VR_NEW(&arena, vram_scenario);
    if (s == NULL) {
        vr_arena_free(&arena);
        return VRAM_ENOMEM;
    }
    s->ctx = ctx;
    s->arena = arena;
    vr_object_register(ctx, &s->object, release);
    *out = s;
    return VRAM_OK;
}

static vram_status no_such_key(vram_ctx *ctx, const char *key)
{
    const char *near = vr_number_nearest(vr_str_of(key));
    return vr_fail(ctx, VRAM_ESETTING, T("there is no setting '"), T(key), T("'"),
                   T(near ? ", did you mean '" : ""), T(near ? near : ""), T(near ? "'?" : ""));
}

vram_status vram_scenario_set(vram_scenario *s, const char *key, const char *value)
{
    vr_number what;
    const char *why;
    if (key == NULL || value == NULL)
        return vr_fail(s->ctx, VRAM_ESETTING, T("a setting needs a name and a value"));
    if (!vr_number_of_key(vr_str_of(key), &what))
        return no_such_key(s->ctx, key);
    vram_status status = vr_numbers_set(&s->flags, what, vr_str_of(value), &s->arena, &why);
    if (status != VRAM_ESETTING)
        return status;
    return vr_fail(s->ctx, VRAM_ESETTING, S(vr_number_flag(what)), T(" '"), T(value), T("' "), T(why));
}

/* ---- solving ---- */

/* Infer, 16 bits, one sequence, one prompt at once, logits of all positions, everything trained, one card. */
static void fill_in_defaults(vr_numbers *n)
{
    static const vr_numbers DEFAULTS = { .logits_all = true,
                                         .weight_bytes = { 2, 1 },
                                         .trainable = { 1, 1 },
                                         .sequences = 1,
                                         .prefill_batch = 1,
                                         .gpus = 1,
                                         .given = {
                                             [VR_NUM_MODE] = true,
                                             [VR_NUM_WEIGHT_BYTES] = true,
                                             [VR_NUM_SEQUENCES] = true,
                                             [VR_NUM_PREFILL_BATCH] = true,
                                             [VR_NUM_LOGITS] = true,
                                             [VR_NUM_TRAINABLE] = true,
                                             [VR_NUM_GPUS] = true,
                                         } };
    vr_numbers_merge(n, &DEFAULTS, false); /* its set_by is all VR_BY_DEFAULT */
    n->trained_weight_bytes = n->weight_bytes;
}

static bool by_user(const vr_numbers *n, vr_number what)
{
    return n->given[what] && n->set_by[what] == VR_BY_USER;
}

static vram_status check(const vram_scenario *s, const vr_numbers *n)
{
    if (n->given[VR_NUM_HEADS] && n->given[VR_NUM_KV_HEADS] && n->kv_heads > n->heads)
        return vr_number_fail(s, n, VR_NUM_KV_HEADS, "must not be more than the heads");
    if (n->given[VR_NUM_HEADS] && n->given[VR_NUM_HIDDEN] && n->heads > n->hidden)
        return vr_number_fail(s, n, VR_NUM_HEADS, "must not be more than the hidden width");
    if (by_user(n, VR_NUM_GPUS) && n->n_cards == 0)
        VR_TRY(
            vr_warn(s->ctx, s->file, T("gpus has no effect without the memory of one card, gpu_memory_gib")));
    if (by_user(n, VR_NUM_TRAINABLE) && !n->train)
        VR_TRY(vr_warn(s->ctx, s->file, T("trainable has no effect in the mode infer")));
    return VRAM_OK;
}

static vram_status judge_cards(vr_scenario_result *r, vram_scenario *s)
{
    const vr_numbers *n = &r->numbers;
    r->verdict = VRAM_FITS;
    r->n_cards = n->n_cards;
    for (size_t i = 0; i < n->n_cards; i++) {
        vr_scenario_card *c = &r->cards[i];
        *c = (vr_scenario_card){ .bytes = n->card_bytes[i], .count = n->gpus };
        if (!vr_mul(c->bytes, c->count, &c->available) || c->available > INT64_MAX)
            return vr_number_fail(s, n, VR_NUM_GPUS, "makes more than 2^63 bytes");
        c->verdict = vr_scenario_judge(&r->ledger, c->available);
        c->headroom = vr_diff(c->available, r->ledger.required);
        c->smallest_count = r->ledger.required / c->bytes + (r->ledger.required % c->bytes != 0);
        if (c->verdict != VRAM_FITS && r->verdict != VRAM_DOES_NOT_FIT)
            r->verdict = c->verdict;
    }
    if (n->n_cards > 0)
        r->count_note =
            "by division: real sharding is never perfect, each card repeats a context and some tensors";
    return VRAM_OK;
}

/* A default is told only where it decides something. */
static bool matters(const vr_scenario_result *r, vr_number what)
{
    const vr_numbers *n = &r->numbers;
    switch (what) {
    case VR_NUM_NAME:
        return false;
    case VR_NUM_TRAINABLE:
        return n->train;
    case VR_NUM_PREFILL_BATCH:
        return !n->train && (by_user(n, what) || r->ledger.category[VR_ACTIVATIONS].counted);
    case VR_NUM_LOGITS:
        return !n->train && (by_user(n, what) || r->logits_bytes > 0);
    case VR_NUM_GPUS:
        return n->n_cards > 0;
    default:
        return true;
    }
}

static vram_status describe(vr_scenario_result *r, vram_scenario *s)
{
    r->n_settings = 0;
    for (unsigned i = 0; i < VR_NUMBER_COUNT; i++) {
        if (!r->numbers.given[i] || !matters(r, (vr_number)i))
            continue;
        const char *value = vr_numbers_value(&r->numbers, (vr_number)i, &s->arena);
        if (value == NULL)
            return VRAM_ENOMEM;
        r->settings[r->n_settings++] =
            (vr_scenario_setting){ (vr_number)i, value, (vr_set_by)r->numbers.set_by[i] };
    }
    return VRAM_OK;
}

static vram_status name(vr_scenario_result *r, vram_scenario *s, size_t number)
{
    if (r->numbers.name != NULL || s->n_read < 2)
        return VRAM_OK;
    r->numbers.name = vr_text(&s->arena, T("scenario "), U(number));
    return r->numbers.name == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status something_counted(const vr_scenario_result *r, vram_scenario *s)
{
    if (r->ledger.required > 0)
        return VRAM_OK;
    vram_status status =
        vr_number_fail(s, &r->numbers, VR_NUM_PARAMS, "is missing, and nothing else given can be counted");
    vr_hint(s->ctx,
            "vram ledger --params 7e9 --context 4096 --kv-bytes-per-token 524288 --gpu-memory-gib 24");
    return status;
}

static vram_status solve_one(vr_scenario_result *r, vram_scenario *s, size_t i)
{
    if (i < s->n_read)
        r->numbers = s->read[i];
    vr_numbers_merge(&r->numbers, &s->flags, true);
    fill_in_defaults(&r->numbers);
    VR_TRY(check(s, &r->numbers));
    VR_TRY(name(r, s, i + 1));
    VR_TRY(vr_scenario_ledger(r, s, true));
    VR_TRY(something_counted(r, s));
    VR_TRY(judge_cards(r, s));
    VR_TRY(vr_scenario_levers(r, s));
    return describe(r, s);
}

vram_status vram_scenario_solve(vram_scenario *s)
{
    size_t n = s->n_read > 0 ? s->n_read : 1;
    vr_scenario_result *results = VR_ARRAY(&s->arena, vr_scenario_result, n);
    if (results == NULL)
        return VRAM_ENOMEM;
    vram_verdict worst = VRAM_FITS;
    s->n_results = 0;
    for (size_t i = 0; i < n; i++) {
        VR_TRY(solve_one(&results[i], s, i));
        worst = results[i].verdict > worst ? results[i].verdict : worst;
    }
    s->ranked_by =
        "fits on the most cards first, then least cost: fewer or shorter sequences, rounding, retraining; "
        "then bytes saved";
    s->results = results;
    s->n_results = n;
    s->verdict = worst;
    return VRAM_OK;
}

vram_verdict vram_scenario_verdict(const vram_scenario *s)
{
    return s->verdict;
}
