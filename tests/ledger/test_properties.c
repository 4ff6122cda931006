/* SPDX-License-Identifier: MIT
 * What must hold of every answer, on workloads and cards drawn by lot: the verdict is what the figures say,
 * what a run needs is enough for it, and a lever is what its own option does when it is typed. */
#include "support.h"

#define N_DRAWS 60

static uint64_t dice;

static uint64_t draw(uint64_t sides) /* Knuth's MMIX */
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (dice >> 33) % sides;
}

static shape draw_shape(void)
{
    static const uint64_t widths[] = { 512, 896, 1024, 2048 };
    uint64_t h = widths[draw(4)];
    return (shape){ .hidden = h,
                    .layers = 2 + draw(6),
                    .heads = h / 64,
                    .kv_heads = 1 + draw(2),
                    .head_dim = 64,
                    .ffn = h * (2 + draw(4)),
                    .vocab = 8000 * (1 + draw(18)),
                    .tied = draw(2) == 1 };
}

/* A hundred of the shares: a part of the range below and above. */
static vr_range spread(uint64_t bytes, uint64_t percent)
{
    uint64_t off = bytes * draw(percent + 1) / 100;
    return (vr_range){ bytes, bytes - off, bytes + off, VR_BASIS_FORMULA };
}

static void draw_workload(vram_workload *w)
{
    static const char *const confs[] = {
        "",
        "",
        "expandable_segments:True",
        "max_split_size_mb:64",
        "max_split_size_mb:128,expandable_segments:True",
        "roundup_power2_divisions:4",
        "per_process_memory_fraction:0.9",
        "per_process_memory_fraction:0.8,garbage_collection_threshold:0.6",
    };
    const char *conf = confs[draw(8)];
    w->context = UINT64_C(256) << draw(5);
    w->sequences = 1 + draw(6);
    w->prefill_batch = draw(2) ? 0 : 1 + draw(w->sequences);
    w->logits = draw(2) ? VR_LOGITS_ALL : VR_LOGITS_LAST;
    w->dtype = draw(2) ? VR_DTYPE_NONE : draw(2) ? VR_BF16 : VR_F32;
    w->device_map = draw(4) ? VR_MAP_NONE : VR_MAP_AUTO;
    w->weight_quant = draw(4) ? VR_QUANT_NONE : VR_QUANT_BNB_8BIT;
    if (*conf != '\0')
        assert_int_equal(vram_workload_set(w, "alloc_conf", conf), VRAM_OK);
}

static void draw_world(world *s, shape *m)
{
    static const uint64_t bands[] = { 0, 0, 100, 300 };
    *m = draw_shape();
    open_world(s, m);
    vr_arena_init(&s->work.arena, s->ctx);
    stage.uncertain_permille = bands[draw(4)];
    stage.warms_up = draw(2);
    stage.of_total = draw(2);
    stage.quantised_in_16 = draw(2);
    draw_workload(&s->work);
}

static void end_world(world *s)
{
    vr_arena_free(&s->work.arena);
    close_world(s);
}

static vram_device card_of(world *s, uint64_t bytes)
{
    vram_device d = *device(s, "24GiB", 0);
    d.usable = d.available = spread(bytes, 6);
    d.usable.bytes = d.usable.low = d.usable.high;
    d.context = spread(MIB_OF(100), 30);
    d.kernels = spread(MIB_OF(32), 25);
    d.facts.usable = d.usable.bytes;
    d.facts.available = d.available.bytes;
    d.facts.context = d.context.bytes;
    return d;
}

/* Most cards are drawn near the edge, where the allocator decides. */
static vram_device draw_card(world *s)
{
    vram_fit *f = fit(s, NULL);
    uint64_t endless = f->needs.peak.driver, least = f->plan.weight_bytes + MIB_OF(140);
    return card_of(s, draw(4) == 0 ? endless + draw(endless) : least + draw(endless - least + MIB_OF(64)));
}

static void check_verdict(const vram_fit *f)
{
    const vr_ledger *l = &f->ledger;
    const vr_range *has = &f->device->available;
    vram_verdict says = l->required_high <= has->low  ? VRAM_FITS
                        : l->required_low > has->high ? VRAM_DOES_NOT_FIT
                                                      : VRAM_TIGHT;
    check_invariants(f);
    assert_int_equal(f->verdict, says);
    assert_int_equal(f->run.failed, l->required > has->bytes);
    assert_int_equal(f->headroom, (int64_t)(has->bytes - l->required));
    assert_true((f->verdict == VRAM_TIGHT) == (f->verdict_reason != NULL));
    if (f->run.failed && !f->run.failure.outside)
        assert_non_null(f->message);
}

static size_t n_enough;

/* With just what it needs it lives, and needs just that; no more where something is cut to what is free. */
static void check_enough(world *s, const vram_fit *f)
{
    vram_device d = *f->device;
    uint64_t enough = f->ledger.required;
    if (f->plan.uncertain_permille != 0 || !f->run.failed || f->workload->alloc.memory_fraction_permille != 0)
        return;
    d.available = (vr_range){ enough, enough, enough, VR_BASIS_MEASURED };
    d.usable.bytes = 24 * VR_GIB; /* of a large card as much is free */
    vram_fit *again = fit(s, &d);
    n_enough++;
    assert_false(again->run.failed);
    assert_true(again->ledger.required == enough || (again->run.cut && again->ledger.required < enough));
}

/* ---- levers ---- */

static const char *key_of(vr_str flag)
{
    const vram_option *o;
    for (size_t i = 0; (o = vram_workload_option(i)) != NULL; i++) {
        vr_str rest = vr_str_of(o->flags), word;
        while (vr_str_split(&rest, ' ', &word)) {
            if (vr_str_eq(word, flag))
                return o->key;
        }
    }
    fail_msg("there is no option %.*s", (int)flag.n, flag.s);
    return NULL;
}

/* Types the option; the card named in it, or NULL. */
static const char *type_in(vram_workload *w, const char *option, vr_arena *a)
{
    vr_str rest = vr_str_of(option), flag, value;
    while (vr_str_split(&rest, ' ', &flag)) {
        assert_true(vr_str_split(&rest, ' ', &value));
        const char *text = vr_arena_copy(a, value);
        if (vr_str_is(flag, "--gpu"))
            return text;
        assert_int_equal(vram_workload_set(w, key_of(flag), text), VRAM_OK);
    }
    return NULL;
}

static void check_lever(world *s, const vram_device *d, const vr_lever *v)
{
    vram_workload asked = s->work;
    const char *card = type_in(&s->work, v->option, &s->work.arena);
    vram_fit *own = fit(s, card != NULL ? device(s, card, 0) : d);
    if (own->ledger.required != v->required || (own->verdict == VRAM_FITS) != v->fits)
        fail_msg("%s: %llu, %d; on its own %llu, %d", v->option, (unsigned long long)v->required, v->fits,
                 (unsigned long long)own->ledger.required, own->verdict == VRAM_FITS);
    vr_arena arena = s->work.arena;
    s->work = asked;
    s->work.arena = arena;
}

static void check_levers(world *s, const vram_device *d, const vram_fit *f)
{
    for (size_t i = 0; i < f->n_levers; i++)
        check_lever(s, d, &f->levers[i]);
}

static void test_answers(void **state)
{
    unsigned seen[VRAM_UNKNOWN + 1] = { 0 }, n_levers = 0;
    (void)state;
    for (dice = 1; dice <= N_DRAWS; dice++) {
        uint64_t seed = dice;
        world s;
        shape m;
        draw_world(&s, &m);
        vram_device d = draw_card(&s);
        vram_fit *f = fit(&s, &d);
        check_verdict(f);
        check_enough(&s, f);
        check_levers(&s, &d, f);
        seen[f->verdict]++;
        n_levers += (unsigned)f->n_levers;
        end_world(&s);
        dice = seed;
    }
    assert_true(seen[VRAM_FITS] > 5 && seen[VRAM_TIGHT] > 5 && seen[VRAM_DOES_NOT_FIT] > 5);
    assert_true(n_levers > N_DRAWS && n_enough > 5);
    printf("%zu lived with just what they need\n", n_enough);
}

/* What is said of all cards of the table is what is said of each. */
static void test_cards(void **state)
{
    (void)state;
    for (dice = 1001; dice <= 1008; dice++) {
        uint64_t seed = dice;
        world s;
        shape m;
        draw_world(&s, &m);
        m.layers *= 12;
        s.work.sequences *= 8;
        vram_fit *all = fit(&s, NULL);
        for (size_t i = draw(5); i < all->n_cards; i += 5) {
            const struct vr_card *c = &all->cards[i];
            vram_fit *one = fit(&s, device(&s, c->gpu->id, 0));
            assert_int_equal(one->verdict, c->verdict);
            assert_int_equal(one->ledger.required, c->required);
            assert_int_equal(one->headroom, c->headroom);
        }
        end_world(&s);
        dice = seed;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_cards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
