/* SPDX-License-Identifier: MIT
 * Our tapes against real transformers, event by event: every storage of a recorded forward pass and of the
 * tokens after it must be on the tape with the same bytes in the same order, and be freed between the same
 * two allocations. (Frees that follow one another are compared as a set: to an allocator that merges
 * neighbours their order makes no difference.)
 *
 * The recorded runs are of CPU torch. What CUDA and the CPU do differently inside an operator is listed
 * in differences.h, each kind by name and reason; anything else fails. */
#include "differences.h"
#include "engine/pass.h"
#include "model/families.h"

/* ---- both sides as lists of storages ---- */

typedef struct storage {
    uint64_t bytes;
    size_t freed; /* number of allocations before it is freed; SIZE_MAX: never */
    bool in_prefill;
    char what[160];
} storage;

typedef struct run {
    storage *list;
    size_t n, n_prefill;
} run;

/* A row of the table: one case in all its runs. */
typedef struct row {
    char name[48], versions[8][16]; /* sorted */
    size_t n_versions, n_runs, n_steps, n_storages;
    uint64_t bytes, equal; /* of the storages that are compared */
    uint64_t only_real, only_ours;
    bool seen[N_DIFFERENCES];
} row;

#define MOST_CASES 256

typedef struct tally {
    row rows[MOST_CASES], *now;
    size_t n_rows, n_storages, n_bad;
    size_t seen[N_DIFFERENCES];
} tally;

static tally all;

static void count(difference d, uint64_t *side, uint64_t bytes)
{
    all.seen[d]++;
    if (d != SAME) {
        all.now->seen[d] = true;
        *side += bytes;
    }
}

static storage *add(run *r, uint64_t bytes)
{
    assert_true(r->n < MOST_EVENTS);
    storage *s = &r->list[r->n++];
    *s = (storage){ .bytes = bytes, .freed = SIZE_MAX };
    return s;
}

static void real_run(run *r, const facts *f)
{
    int *number = calloc(MOST_EVENTS, sizeof(*number));
    assert_non_null(number);
    for (size_t i = 0; i < f->n; i++) {
        const fact_event *e = &f->events[i];
        bool ends = e->kind == '=' && (strcmp(e->place, "decode 1") == 0 || strcmp(e->place, "release") == 0);
        if (ends && r->n_prefill == 0)
            r->n_prefill = r->n;
        if (e->kind == 'F' && number[e->storage] >= 0)
            r->list[number[e->storage]].freed = r->n;
        if (e->kind != 'A')
            continue;
        difference d = name_of_fact(f, i);
        count(d, &all.now->only_real, e->bytes);
        number[e->storage] = d == SAME ? (int)r->n : -1;
        if (d == CPU_LAYOUT ||
            d == CPU_CONVOLVED) { /* stands for what it copies, the last storage before it */
            number[e->storage] = (int)r->n - 1;
            for (unsigned k = 0; k < e->storage; k++)
                number[k] = number[k] == (int)r->n - 1 ? -1 : number[k];
        }
        if (d == SAME)
            snprintf(add(r, e->bytes)->what, sizeof(r->list->what), "%s", op_of(f, i));
    }
    if (f->decode == 0)
        r->n_prefill = r->n;
    free(number);
}

static size_t after_loading(const vr_tape *t)
{
    size_t i = 0;
    while (i < t->n && !(t->events[i].kind == VR_EV_MARK && t->events[i].bytes == VR_AT_LOADED))
        i++;
    return i;
}

/* The block takes the place of the last storage, of which it is a copy. */
static void stand_in(int *number, size_t n_blocks, uint32_t block, int last)
{
    for (size_t i = 0; i < n_blocks; i++)
        number[i] = number[i] == last ? -1 : number[i];
    number[block] = last;
}

/* What is named by its words has a size all the same: so much for each new token of each sequence, the mask's
 * in multiples of 16 bytes. (An encoder and a tower have tokens of their own; where only the last logits are
 * asked for, the last layers can leave all but the last token out.) */
static bool has_its_size(const facts *f, difference d, uint64_t bytes, bool in_prefill)
{
    uint64_t rows = f->batch * (f->beams != 0 ? f->beams : 1) *
                    (in_prefill && strcmp(f->logits, "last") != 0 ? f->tokens : 1);
    if (f->patches != 0 || f->encodes)
        return true;
    switch (d) {
    case CUDA_ALIGNED:
        return bytes % (rows * 16) == 0;
    case CUDA_SUMS:
    case CUDA_STATISTICS:
        return bytes % (rows * 4) == 0;
    default:
        return true;
    }
}

static void our_run(run *r, const facts *f, const vr_tape *t)
{
    int *number = calloc(t->n_blocks, sizeof(*number));
    assert_non_null(number);
    for (uint32_t i = 0; i < t->n_blocks; i++)
        number[i] = -1;
    for (size_t i = after_loading(t); i < t->n; i++) {
        const vr_event *e = &t->events[i];
        if (e->kind == VR_EV_MARK && e->bytes == VR_AT_PREFILL)
            r->n_prefill = r->n;
        if (e->kind == VR_EV_RELEASE && number[e->block] >= 0)
            r->list[number[e->block]].freed = r->n;
        if (e->kind != VR_EV_ALLOC)
            continue;
        vr_str label = t->labels[e->label];
        difference d = name_of_event(t, e);
        count(d, &all.now->only_ours, e->bytes);
        if (!has_its_size(f, d, e->bytes, r->n_prefill == 0))
            fail_msg("%s: %s of %llu bytes", f->name, named[d].name, (unsigned long long)e->bytes);
        number[e->block] = -1;
        if (d == CUDA_ALIGNED)
            stand_in(number, t->n_blocks, e->block, (int)r->n - 1);
        if (d != SAME || vr_str_is(label, "input ids") || vr_str_is(label, "pixel values") ||
            vr_str_is(label, "frames of speech")) /* the ids are there before the recording begins */
            continue;
        number[e->block] = (int)r->n;
        snprintf(add(r, e->bytes)->what, sizeof(r->list->what), "%.*s", (int)label.n, label.s);
    }
    free(number);
}

static void show(const char *whose, const run *r, size_t around)
{
    print_message("  %s:\n", whose);
    for (size_t i = around > 4 ? around - 4 : 0; i < r->n && i < around + 5; i++)
        print_message("  %s %6zu %12llu bytes until %6ld  %s\n", i == around ? ">" : " ", i,
                      (unsigned long long)r->list[i].bytes, (long)r->list[i].freed, r->list[i].what);
}

/* The first storage that differs: in size, or else in when it is freed. */
static size_t first_difference(const run *real, const run *ours)
{
    size_t n = real->n < ours->n ? real->n : ours->n, i = 0;
    while (i < n && real->list[i].bytes == ours->list[i].bytes)
        i++;
    if (i < n || real->n != ours->n)
        return i;
    for (i = 0; i < n && real->list[i].freed == ours->list[i].freed;)
        i++;
    return i;
}

static bool alike(const char *name, const run *real, const run *ours)
{
    size_t at = first_difference(real, ours);
    for (size_t i = 0; i < real->n; i++) {
        all.now->bytes += real->list[i].bytes;
        all.now->equal += i < at ? real->list[i].bytes : 0;
    }
    if (at == real->n && at == ours->n && real->n_prefill == ours->n_prefill)
        return true;
    print_message("%s: %zu storages in the real run, %zu of them in the prefill; ours %zu and %zu\n", name,
                  real->n, real->n_prefill, ours->n, ours->n_prefill);
    show("real", real, at);
    show("ours", ours, at);
    return false;
}

/* ---- the table ---- */

static void add_version(row *r, const char *version)
{
    size_t i = 0;
    while (i < r->n_versions && strcmp(r->versions[i], version) < 0)
        i++;
    if (i < r->n_versions && strcmp(r->versions[i], version) == 0)
        return;
    assert_true(r->n_versions < 8);
    memmove(&r->versions[i + 1], &r->versions[i], (r->n_versions++ - i) * sizeof(r->versions[0]));
    snprintf(r->versions[i], sizeof(r->versions[i]), "%.15s", version);
}

static row *row_of(const facts *f)
{
    size_t i = 0;
    while (i < all.n_rows && strcmp(all.rows[i].name, f->case_name) != 0)
        i++;
    assert_true(i < MOST_CASES);
    row *r = &all.rows[i];
    if (i == all.n_rows) {
        all.n_rows++;
        snprintf(r->name, sizeof(r->name), "%s", f->case_name);
    }
    add_version(r, f->version);
    r->n_runs++;
    r->n_steps += 1 + f->decode;
    return r;
}

static int by_case(const void *a, const void *b)
{
    return strcmp(((const row *)a)->name, ((const row *)b)->name);
}

static void print_row(const row *r)
{
    printf("| %s |", r->name);
    for (size_t i = 0; i < r->n_versions; i++)
        printf(" %s", r->versions[i]);
    printf(" | %zu | %zu | %zu | %.1f | %.2f | %.1f | %.1f |", r->n_runs, r->n_steps, r->n_storages,
           (double)r->bytes / (1 << 20), 100.0 * (double)r->equal / (double)r->bytes,
           (double)r->only_real / (1 << 20), (double)r->only_ours / (1 << 20));
    for (int d = SAME + 1; d < N_DIFFERENCES; d++) {
        if (r->seen[d])
            printf(" %d", d);
    }
    printf(" |\n");
}

/* As docs/oracle.md has it. */
static void print_table(void)
{
    printf("| case | transformers | runs | steps | storages | MiB | bytes alike, %% | only CPU, MiB "
           "| only CUDA, MiB | which |\n|---|---|---|---|---|---|---|---|---|---|\n");
    qsort(all.rows, all.n_rows, sizeof(*all.rows), by_case);
    for (size_t i = 0; i < all.n_rows; i++)
        print_row(&all.rows[i]);
    printf("\n| | storage | why | times |\n|---|---|---|---|\n");
    for (int d = SAME + 1; d < N_DIFFERENCES; d++) {
        if (all.seen[d] != 0)
            printf("| %d | %s | %s | %zu |\n", d, named[d].name, named[d].reason, all.seen[d]);
    }
}

/* ---- what runs were recorded of ---- */

typedef struct kind_of_run {
    char model_type[32];
    bool eager;
    uint8_t cache;
} kind_of_run;

static kind_of_run recorded[2048];
static size_t n_recorded;

static void record_kind(const facts *f, const vram_workload *w)
{
    kind_of_run *k = &recorded[n_recorded++];
    assert_true(n_recorded <= sizeof(recorded) / sizeof(recorded[0]));
    *k = (kind_of_run){ .eager = strcmp(f->implementation, "eager") == 0, .cache = w->cache };
    snprintf(k->model_type, sizeof(k->model_type), "%s", f->model_type);
}

/* A decoder that was only recorded within a whole model is held by that. */
static bool is_recorded(const char *model_type, bool eager, uint8_t cache)
{
    size_t n = strlen(model_type);
    n -= n > 5 && strcmp(model_type + n - 5, "_text") == 0 ? 5 : 0;
    for (size_t i = 0; i < n_recorded; i++) {
        const kind_of_run *k = &recorded[i];
        bool same = strcmp(k->model_type, model_type) == 0 ||
                    (strncmp(k->model_type, model_type, n) == 0 && k->model_type[n] == '\0');
        if (same && k->eager == eager && k->cache == cache)
            return true;
    }
    return false;
}

/* ---- the tests ---- */

static void check_file(const char *folder, const char *name, void *user)
{
    facts *f = read_facts(folder, name);
    world w = { .h = { 0 } };
    vr_arena a;
    vr_plan plan;
    run real = { calloc(MOST_EVENTS, sizeof(storage)), 0, 0 },
        ours = { calloc(MOST_EVENTS, sizeof(storage)), 0, 0 };
    (void)user;
    all.now = row_of(f);
    plan_facts(&w, f, &plan, &a);
    record_kind(f, w.w);
    real_run(&real, f);
    our_run(&ours, f, &plan.tape);
    all.n_bad += !alike(f->name, &real, &ours);
    all.now->n_storages += real.n;
    all.n_storages += real.n;
    vr_arena_free(&a);
    close_world(&w);
    free(real.list);
    free(ours.list);
    free(f);
}

static void every_recorded_run(void **state)
{
    (void)state;
    size_t n_files = each_facts(false, check_file, NULL);
    print_message("%zu recorded runs, %zu storages, %zu runs that differ\n", n_files, all.n_storages,
                  all.n_bad);
    assert_int_equal(all.n_bad, 0);
    assert_true(n_files >= 719 || !all_facts());
}

/* What is promised of each architecture; a run that differs somewhere is alike up to there. */
static void most_bytes_of_each(void **state)
{
    (void)state;
    for (size_t i = 0; i < all.n_rows; i++) {
        const row *r = &all.rows[i];
        if (r->equal < r->bytes / 100 * 99)
            fail_msg("%s: %.2f %% of the bytes alike", r->name, 100.0 * (double)r->equal / (double)r->bytes);
    }
}

/* A name that nothing needs any more would hide what it once named. */
static void every_name_is_needed(void **state)
{
    (void)state;
    for (int d = SAME + 1; d < N_DIFFERENCES; d++) {
        if (all.seen[d] == 0 && all_facts())
            fail_msg("%s: nowhere", named[d].name);
    }
    for (size_t i = 0; i < N_LEFT_OUT; i++) {
        if (times_left_out[i] == 0 && all_facts())
            fail_msg("left out with pictures or beams, but nowhere: %s", left_out[i].op);
    }
}

/* Verified is what recorded runs agree with: of that class, by that kind of attention, with that cache. */
static void what_is_held_was_recorded(void **state)
{
    size_t n, held = 0;
    const vr_family *f = vr_families(&n);
    (void)state;
    for (size_t i = 0; i < n * 2 * (VR_CACHE_OFFLOADED_STATIC + 1); i++) {
        vram_model m = { .family = &f[i % n] };
        bool eager = i / n % 2 == 0;
        vram_workload w = { .attention = eager ? VR_IMPL_EAGER : VR_IMPL_SDPA,
                            .cache = (uint8_t)(i / n / 2) };
        if (!vr_family_held(&m, &w))
            continue;
        held++;
        if (all_facts() && !is_recorded(m.family->model_type, eager, w.cache))
            fail_msg("%s is held with %s and cache %u, but no such run was recorded", m.family->model_type,
                     eager ? "eager" : "sdpa", w.cache);
    }
    assert_true(held >= 90);
}

/* test_engine_oracle [-v]: with the table */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recorded_run),
        cmocka_unit_test(most_bytes_of_each),
        cmocka_unit_test(every_name_is_needed),
        cmocka_unit_test(what_is_held_was_recorded),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "-v") == 0)
        print_table();
    return failed;
}
