/* SPDX-License-Identifier: MIT
 * Settings that are sought, with an engine of the test's own whose figures can be reckoned by hand: 40 layers
 * of 100 MiB, or of 20 MiB without their experts, and an output of 300; 1 MiB a layer for each 256 tokens; a
 * buffer of 50 MiB on each card that has a layer, 150 where part of the model is elsewhere. */
#include "support.h"

#include "engine/options.h"
#include "ledger/solver.h"

#define LAYERS 40
#define PER_LAYER 100
#define BARE 20
#define OUTPUT 300

static bool has_experts;
static unsigned n_plans;

/* What the engine's settings are kept as: shares in 8 bits each, layers without experts. */
#define SHARES(w) ((w)->block_size)
#define BARE_LAYERS(w) ((w)->batched_tokens)

static uint64_t layer_mib(const vram_workload *w, uint64_t i)
{
    return (has_experts && i < BARE_LAYERS(w) ? BARE : PER_LAYER) + w->context / 256;
}

/* The card of layer i, of LAYERS the output's; none: UINT64_MAX. */
static uint64_t card_of(const vram_workload *w, uint64_t i, size_t n)
{
    uint64_t on = w->gpu_layers < LAYERS + 1 ? w->gpu_layers : LAYERS + 1, first = LAYERS + 1 - on, sum = 0;
    if (i < first)
        return UINT64_MAX;
    for (size_t k = 0; k < n && SHARES(w) != 0; k++) {
        sum += SHARES(w) >> 8 * k & 255;
        if (i - first < sum)
            return k;
    }
    return (i - first) * n / on;
}

static vram_status place_fake(vr_placement *out, const vram_model *m, const vram_workload *w,
                              const vr_device_facts *gpus, size_t n, vr_arena *a)
{
    (void)m;
    (void)w;
    (void)gpus;
    (void)a;
    *out = (vr_placement){ .n_gpus = n, .spread = true };
    return VRAM_OK;
}

static vram_status plan_fake(vr_plan *out, const vram_model *m, const vram_workload *w,
                             const vr_device_facts *device, vr_arena *a)
{
    uint64_t mib = 0, n = 0, cards = device->placement != NULL ? device->placement->n_gpus : 1;
    (void)m;
    n_plans++;
    for (uint64_t i = 0; i <= LAYERS; i++) {
        if (card_of(w, i, cards) != device->rank)
            continue;
        mib += i == LAYERS ? OUTPUT : layer_mib(w, i);
        n++;
    }
    if (w->cache_k == VR_Q8_0)
        mib -= n > 0 ? mib / 20 : 0;
    vr_tape_init(&out->tape, a);
    vr_tape_outside(&out->tape, VR_ITEM_CONTEXT, 0);
    vr_tape_mark(&out->tape, VR_AT_CONTEXT);
    vr_tape_outside(&out->tape, VR_ITEM_PARAMETERS, mib * VR_MIB);
    vr_tape_mark(&out->tape, VR_AT_LOADED);
    if (n > 0)
        vr_tape_outside(&out->tape, VR_ITEM_HIDDEN, (n == LAYERS + 1 ? 50 : 150) * VR_MIB);
    vr_tape_mark(&out->tape, VR_AT_PREFILL);
    for (int c = 0; c < VR_CATEGORY_COUNT; c++)
        out->counted[c] = !stage.not_counted[c];
    out->sums_only = true;
    return out->tape.status;
}

static vram_status defaults_fake(vram_workload *w, const vram_model *m)
{
    (void)w;
    (void)m;
    return VRAM_OK;
}

/* ---- what can be sought ---- */

static uint64_t count_fake(vr_goal g, const vram_model *m, const vram_workload *w)
{
    static const uint64_t counts[VR_GOAL_COUNT] = { [VR_GOAL_LAYERS] = LAYERS + 2,
                                                    [VR_GOAL_CONTEXT] = 128,
                                                    [VR_GOAL_EXPERTS] = LAYERS + 1,
                                                    [VR_GOAL_CACHE] = 2,
                                                    [VR_GOAL_SPLIT] = 1 };
    (void)m;
    if (g == VR_GOAL_SPLIT && SHARES(w) != 0)
        return 0;
    return g == VR_GOAL_EXPERTS && !has_experts ? 0 : counts[g];
}

static uint64_t own_fake(vr_goal g, const vram_model *m, const vram_workload *w)
{
    (void)m;
    switch (g) {
    case VR_GOAL_LAYERS:
        return w->gpu_layers < LAYERS + 1 ? w->gpu_layers : LAYERS + 1;
    case VR_GOAL_CONTEXT:
        return w->context / 256 - 1;
    case VR_GOAL_EXPERTS:
        return LAYERS - BARE_LAYERS(w);
    case VR_GOAL_CACHE:
        return w->cache_k == VR_Q8_0 ? 0 : 1;
    default:
        return 0;
    }
}

static uint64_t number_fake(vr_goal g, uint64_t x, const vram_model *m, const vram_workload *w)
{
    (void)m;
    (void)w;
    return g == VR_GOAL_CONTEXT ? 256 * (x + 1) : g == VR_GOAL_EXPERTS ? LAYERS - x : x;
}

static vram_status set_fake(vram_workload *to, vr_goal g, uint64_t x, const vram_model *m,
                            const vram_workload *w, vr_arena *a)
{
    (void)a;
    switch (g) {
    case VR_GOAL_LAYERS:
        to->gpu_layers = x;
        return VRAM_OK;
    case VR_GOAL_CONTEXT:
        to->context = number_fake(g, x, m, w);
        to->set_by[VR_SET_CONTEXT] = VR_BY_USER;
        return VRAM_OK;
    case VR_GOAL_EXPERTS:
        BARE_LAYERS(to) = LAYERS - x;
        return VRAM_OK;
    case VR_GOAL_CACHE:
        to->cache_k = x == 0 ? VR_Q8_0 : VR_F16;
        return VRAM_OK;
    default:
        return VRAM_OK;
    }
}

static vram_status units_fake(uint64_t **bytes, size_t *n, const vram_model *m, const vram_workload *w,
                              vr_arena *a)
{
    uint64_t on = w->gpu_layers < LAYERS + 1 ? w->gpu_layers : LAYERS + 1;
    (void)m;
    *n = on;
    *bytes = VR_ARRAY(a, uint64_t, on);
    if (*bytes == NULL)
        return VRAM_ENOMEM;
    for (uint64_t i = 0; i < on; i++) {
        uint64_t layer = LAYERS + 1 - on + i;
        (*bytes)[i] = VR_MIB * (layer == LAYERS ? OUTPUT : layer_mib(w, layer));
    }
    return VRAM_OK;
}

static vram_status cut_fake(vram_workload *to, const uint64_t *shares, size_t n, vr_arena *a)
{
    (void)a;
    SHARES(to) = 0;
    for (size_t k = 0; k < n; k++)
        SHARES(to) |= shares[k] << 8 * k;
    return VRAM_OK;
}

static const char *words_fake(vr_goal g, const vram_model *m, const vram_workload *w, size_t n_gpus,
                              vr_arena *a)
{
    (void)m;
    return vr_text(a, T(vr_goal_word(g)), T(" of "), U(n_gpus), T(" at "), U(w->context));
}

static const char *cost_fake(vr_goal g, const vram_workload *w)
{
    (void)w;
    return vr_goal_word(g);
}

static const char *command_fake(const vram_model *m, const vram_workload *w, vr_arena *a)
{
    (void)m;
    return vr_text(a, T("run -c "), U(w->context));
}

static const vr_solvable solvable_fake = { .count = count_fake,
                                           .own = own_fake,
                                           .set = set_fake,
                                           .number = number_fake,
                                           .units = units_fake,
                                           .cut = cut_fake,
                                           .words = words_fake,
                                           .cost = cost_fake,
                                           .command = command_fake };

static const vr_engine fake = { .name = "fake",
                                .default_version = "5.0",
                                .plan = plan_fake,
                                .place = place_fake,
                                .defaults = defaults_fake,
                                .solvable = &solvable_fake,
                                .kv_dtypes = 1u << VR_KV_AS_MODEL };

/* ---- tests ---- */

static void open_fake(world *s)
{
    open_world(s, &QWEN_1_5B);
    memset(s->work.set_by, 0, sizeof(s->work.set_by));
    s->work.engine = &fake;
    s->work.engine_given = true;
    s->work.context = 1024;
    s->work.gpu_layers = UINT64_MAX;
    s->work.set_by[VR_SET_CONTEXT] = VR_BY_USER;
    has_experts = false;
}

static vram_fit *fit_on(world *s, const char *const *cards, size_t n)
{
    vram_device *d[8];
    vram_fit *f = NULL;
    for (size_t i = 0; i < n; i++)
        d[i] = device(s, cards[i], 0);
    if (n > 1)
        s->work.device_map = VR_MAP_AUTO;
    if (vram_fit_new(&f, &s->model, &s->work, (const vram_device *const *)d, n) != VRAM_OK)
        fail_msg("vram_fit_new: %s", vram_last_error(s->ctx)->text);
    return f;
}

static const vr_solution *solved(world *s, const char *what, const char *const *cards, size_t n)
{
    assert_int_equal(vram_workload_solve(&s->work, what), VRAM_OK);
    vram_fit *f = fit_on(s, cards, n);
    s->work.solve = 0;
    assert_true(f->solved);
    assert_int_equal(f->n_solutions, 1);
    assert_int_equal(f->n_levers, 0);
    assert_int_equal(f->verdict, f->solutions[0].found ? VRAM_FITS : VRAM_DOES_NOT_FIT);
    assert_true(f->headroom >= f->solutions[0].left);
    return &f->solutions[0];
}

/* MiB of a card beside CUDA's context, at worst. */
static uint64_t room_of(world *s, const char *card)
{
    const vram_device *d = device(s, card, 0);
    return (d->available.low - d->context.high) / VR_MIB;
}

/* Beside the output and a buffer of 150, as many layers of 104 MiB as there is room for. */
static void test_layers(void **state)
{
    static const char *const card[] = { "3000MiB" };
    world s;
    (void)state;
    open_fake(&s);
    uint64_t layers = (room_of(&s, card[0]) - OUTPUT - 150) / 104;
    const vr_solution *x = solved(&s, "ngl", card, 1);
    assert_true(x->found && x->sure && !x->top);
    assert_int_equal(x->number, layers + 1);
    assert_int_equal(x->next, layers + 2);
    assert_int_equal(x->most, LAYERS + 1);
    assert_in_range(x->left, 0, 104 * VR_MIB);
    assert_true(x->next_left == x->left - (int64_t)(104 * VR_MIB));
    assert_string_equal(x->command, "run -c 1024");
    assert_in_range(x->tries, 3, 9);
    /* typed, it fits, and one more does not */
    s.work.gpu_layers = x->number;
    assert_int_equal(fit_on(&s, card, 1)->verdict, VRAM_FITS);
    s.work.gpu_layers++;
    assert_int_equal(fit_on(&s, card, 1)->verdict, VRAM_DOES_NOT_FIT);
    close_world(&s);
}

/* 40 layers of 100 MiB, 300 and 50 are 4,350 MiB, and 40 more for each 256 tokens. */
static void test_context(void **state)
{
    static const char *const card[] = { "5000MiB" }, *const large[] = { "24GiB" },
                             *const small[] = { "4GiB" };
    world s;
    (void)state;
    open_fake(&s);
    uint64_t room = room_of(&s, card[0]) - 4350;
    const vr_solution *x = solved(&s, "context", card, 1);
    assert_int_equal(x->number, room / 40 * 256);
    assert_true(x->found && !x->top);
    x = solved(&s, "context", large, 1);
    assert_true(x->found && x->top);
    assert_int_equal(x->number, 128 * 256);
    assert_false(solved(&s, "context", small, 1)->found);
    /* a run that fits tells how much more there is room for */
    s.work.context = 256;
    vram_fit *f = fit_on(&s, card, 1);
    assert_int_equal(f->verdict, VRAM_FITS);
    assert_false(f->solved);
    assert_int_equal(f->n_solutions, 1);
    assert_int_equal(f->solutions[0].number, room / 40 * 256);
    assert_int_equal(f->n_levers, 0);
    close_world(&s);
}

/* Each layer whose experts are on the CPU takes 80 MiB less: of 4,510 and the context on a card of 4 GiB. */
static void test_experts(void **state)
{
    static const char *const card[] = { "4GiB" }, *const small[] = { "1400MiB" };
    world s;
    (void)state;
    open_fake(&s);
    has_experts = true;
    uint64_t over = 4350 + 160 - room_of(&s, card[0]);
    const vr_solution *x = solved(&s, "experts", card, 1);
    assert_true(x->found && !x->top);
    assert_int_equal(x->number, (over + 79) / 80);
    assert_int_equal(x->next, x->number - 1);
    /* all experts on the CPU, and fewer layers too: 800 + 160 + 300 + 50 and the context do not fit 1,400 */
    vram_fit *f = fit_on(&s, small, 1);
    assert_int_equal(f->verdict, VRAM_DOES_NOT_FIT);
    const vr_lever *v = NULL;
    for (size_t i = 0; i < f->n_levers; i++) {
        assert_int_equal(f->levers[i].rank, i + 1);
        assert_true(f->levers[i].fits);
        assert_int_equal(f->levers[i].is_command, strcmp(f->levers[i].ids[0], "another_gpu") != 0);
        v = f->levers[i].ids[1] != NULL ? &f->levers[i] : v;
    }
    assert_non_null(v);
    assert_string_equal(v->ids[0], "n_gpu_layers");
    assert_string_equal(v->ids[1], "n_cpu_moe");
    close_world(&s);
}

/* Unequal cards hold all layers only when these are cut unevenly. */
static void test_cards(void **state)
{
    static const char *const cards[] = { "4GiB", "1600MiB", "2500MiB" };
    world s;
    (void)state;
    open_fake(&s);
    uint64_t room[3], sum = 0;
    for (size_t k = 0; k < 3; k++)
        sum += room[k] = room_of(&s, cards[k]) - 150;
    /* cut evenly, 14 layers each of 104 MiB and 150: 1,606 and CUDA's context are too much for the second
     * card */
    vram_fit *f = fit_on(&s, cards, 3);
    assert_int_equal(f->verdict, VRAM_DOES_NOT_FIT);
    assert_int_equal(f->n_levers, 1); /* what costs nothing is enough */
    assert_string_equal(f->levers[0].ids[0], "tensor_split");
    assert_true(f->levers[0].fits);
    const vr_solution *x = solved(&s, "split", cards, 3);
    assert_int_equal(x->n_shares, 3);
    assert_int_equal(x->shares[0] + x->shares[1] + x->shares[2], LAYERS + 1);
    assert_in_range(x->shares[1], 1, room[1] / 104);
    /* most is left where all cards have about as much */
    uint64_t third = (sum - 40 * 104 - OUTPUT) / 3;
    assert_in_range(x->left >> 20, third - 104, third);
    /* a longer context takes more of each layer: the cut is sought for each */
    x = solved(&s, "context", cards, 3);
    assert_true(x->found && !x->top);
    uint64_t layer = 100 + x->number / 256 + 1, most = 0;
    for (size_t k = 0; k < 3; k++)
        most += (room[k] - (k == 2 ? OUTPUT : 0)) / layer;
    assert_true(most < LAYERS); /* with 256 tokens more */
    most = 0;
    for (size_t k = 0; k < 3; k++)
        most += (room[k] - (k == 2 ? OUTPUT : 0)) / (layer - 1);
    assert_true(most >= LAYERS);
    close_world(&s);
}

static void test_refusals(void **state)
{
    static const char *const card[] = { "4GiB" };
    world s;
    vram_fit *f;
    const vram_device *d;
    (void)state;
    open_fake(&s);
    assert_int_equal(vram_workload_solve(&s.work, "everything"), VRAM_ESETTING);
    assert_non_null(strstr(vram_last_error(s.ctx)->text, "ngl|context|sequences|experts|cache|ubatch|split"));
    d = device(&s, card[0], 0);
    assert_int_equal(vram_workload_solve(&s.work, "experts"), VRAM_OK);
    s.model.checkpoint = &(vram_checkpoint){ .name = "made" };
    assert_int_equal(vram_fit_new(&f, &s.model, &s.work, &d, 1), VRAM_ESETTING);
    assert_int_equal(vram_fit_new(&f, &s.model, &s.work, NULL, 0), VRAM_ESETTING);
    assert_non_null(strstr(vram_last_error(s.ctx)->text, "no --gpu"));
    assert_int_equal(vram_workload_solve(&s.work, "split"), VRAM_OK);
    assert_int_equal(vram_fit_new(&f, &s.model, &s.work, &d, 1), VRAM_ESETTING);
    s.work.engine = &test_engine;
    assert_int_equal(vram_fit_new(&f, &s.model, &s.work, &d, 1), VRAM_ESETTING);
    assert_non_null(strstr(vram_last_error(s.ctx)->text, "nothing can be sought of test"));
    close_world(&s);
}

/* What is not counted may be too much: nothing is called sure. */
static void test_not_counted(void **state)
{
    static const char *const card[] = { "3000MiB" };
    world s;
    (void)state;
    open_fake(&s);
    stage.not_counted[VR_ACTIVATIONS] = true;
    assert_int_equal(vram_workload_solve(&s.work, "ngl"), VRAM_OK);
    vram_fit *f = fit_on(&s, card, 1);
    assert_int_equal(f->verdict, VRAM_UNKNOWN);
    assert_true(f->solutions[0].found);
    assert_false(f->solutions[0].sure);
    s.work.solve = 0;
    f = fit_on(&s, card, 1);
    assert_int_equal(f->verdict, VRAM_DOES_NOT_FIT);
    assert_true(f->n_levers > 0);
    assert_false(f->levers[0].fits);
    close_world(&s);
}

/* Every allocation fails once. */
static void test_out_of_memory(void **state)
{
    static const char *const cards[] = { "4GiB", "1200MiB" };
    (void)state;
    for (size_t n = 1;; n++) {
        world s;
        vram_fit *f = NULL;
        vram_device *d[2];
        open_fake(&s);
        has_experts = true;
        s.work.device_map = VR_MAP_AUTO;
        for (size_t i = 0; i < 2; i++)
            d[i] = device(&s, cards[i], 0);
        size_t before = s.h.n_calls;
        s.h.fail_at = before + n;
        vram_status status = vram_fit_new(&f, &s.model, &s.work, (const vram_device *const *)d, 2);
        bool reached = s.h.n_calls >= s.h.fail_at;
        assert_true(status == VRAM_ENOMEM || status == VRAM_OK);
        close_world(&s);
        if (!reached)
            break;
        assert_true(status == VRAM_ENOMEM || n > 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),        cmocka_unit_test(test_context),
        cmocka_unit_test(test_experts),       cmocka_unit_test(test_cards),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_not_counted),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
