/* SPDX-License-Identifier: MIT
 * Our tapes against real transformers, event by event: every storage of a recorded forward pass and of the
 * tokens after it must be on the tape with the same bytes in the same order, and be freed between the same
 * two allocations. (Frees that follow one another are compared as a set: to an allocator that merges
 * neighbours their order makes no difference.)
 *
 * The recorded runs are of CPU torch. What CUDA and the CPU do differently inside an operator is listed
 * below, each kind by name and reason; anything else fails. */
#include "facts.h"

/* ---- differences with a name ---- */

typedef enum difference {
    SAME,
    HOST_SCALAR,
    HOST_CAST,
    HOST_MEAN,
    HOST_WINDOW,
    HOST_NORMALISER,
    CPU_GEMM_SCRATCH,
    CPU_GEMM_PACKING,
    CPU_FLASH_SCRATCH,
    CPU_LOGSUMEXP,
    CPU_LAYOUT,
    CPU_INDEX,
    CPU_RANGE,
    CPU_SORT,
    CPU_HISTOGRAM,
    CPU_ADDED,
    CPU_SCATTERED,
    HOST_SHAPE,
    CPU_PROMOTED,
    CPU_CONVOLUTION,
    CPU_STATISTICS,
    CUDA_STATISTICS,
    CUDA_SOLVER,
    CUDA_WORKSPACE,
    CUDA_RANDOM,
    CUDA_WINDOW,
    CUDA_SUMS,
    CUDA_ALIGNED,
    CUDA_SCATTERED,
    LEFT_OUT_PLACES,
    N_DIFFERENCES
} difference;

static const struct {
    const char *name, *reason;
} named[N_DIFFERENCES] = {
    [SAME] = { "the same", "" },
    [HOST_SCALAR] = { "number becomes a scalar tensor",
                      "Python numbers in arithmetic live on the host, also under CUDA" },
    [HOST_CAST] = { "scalar tensor in another dtype",
                    "CPU kernels convert the host's scalar; CUDA kernels take it as it is" },
    [HOST_MEAN] = { "divisor of a mean", "the CPU's mean is a sum and a division; CUDA's is one kernel" },
    [HOST_WINDOW] = { "window or length of the cache",
                      "made on the host and moved to the card at the first update" },
    [HOST_NORMALISER] = { "normaliser of gemma2", "torch.tensor() without a device: on the host" },
    [CPU_GEMM_SCRATCH] = { "scratch of the CPU's matrix product", "oneDNN's; cuBLAS works in its workspace" },
    [CPU_GEMM_PACKING] = { "packed operand",
                           "oneDNN wants the transposed matrix copied; cuBLAS reads it in place" },
    [CPU_FLASH_SCRATCH] = { "scratch of the CPU's flash kernel", "CUDA's keeps it in shared memory" },
    [CPU_LOGSUMEXP] = { "logsumexp",
                        "with a mask CUDA takes the memory-efficient kernel, which keeps none in inference" },
    [CPU_LAYOUT] = { "copy of the attention output",
                     "with a mask: CUDA's kernel writes it token by token at once" },
    [CPU_INDEX] = { "contiguous token ids", "a column of ids; CUDA's index_select reads it with its stride" },
    [CPU_RANGE] = { "range of the experts' numbers",
                    "one_hot looks for numbers out of range; CUDA leaves that to the kernel" },
    [CPU_SORT] = { "numbers to be sorted along", "CUDA sorts them in place" },
    [CPU_HISTOGRAM] = { "edges and counts of each thread", "CUDA counts in shared memory" },
    [CPU_SCATTERED] = { "list of places to be filled", "the CPU sorts them; CUDA writes at once" },
    [HOST_SHAPE] = { "numbers of dimensions of what is repeated", "a few numbers on the host" },
    [CPU_ADDED] = { "list of rows to be added", "the CPU sorts them; CUDA adds atomically" },
    [CPU_PROMOTED] = { "operand in another dtype",
                       "the CPU widens it in a storage of its own; CUDA's kernels widen as they read" },
    [CPU_CONVOLUTION] = { "convolution in layouts of its own",
                          "oneDNN reorders input, weight and result; CUDA's depthwise kernel does not" },
    [CPU_STATISTICS] = { "mean and deviation of layer_norm", "in the input's dtype; see the next" },
    [CUDA_STATISTICS] = { "mean and deviation of layer_norm", "CUDA keeps them in 32 bits" },
    [CUDA_SOLVER] = { "addresses of a batched solver", "cuBLAS is given a list of matrices" },
    [CUDA_WORKSPACE] = { "cuBLAS and cublasLt workspaces", "there is no cuBLAS on the CPU" },
    [CUDA_RANDOM] = { "random state of the attention kernel", "CUDA kernels return it, dropout or not" },
    [CUDA_WINDOW] = { "window or length of the cache",
                      "its copy on the card; on the CPU there is nothing to move" },
    [CUDA_ALIGNED] = { "padded mask",
                       "memory-efficient kernel: rows of a mask begin at multiples of 16 bytes" },
    [CUDA_SCATTERED] = { "places of image features",
                         "masked_scatter counts them in 64 bits on CUDA, on the CPU one after the other" },
    [LEFT_OUT_PLACES] = { "places of patches and of their tokens",
                          "some bytes each, left out: neither CUDA's nor the CPU's" },
    [CUDA_SUMS] = { "sums of the attention kernel",
                    "memory-efficient kernel, more than 128 a head: not in registers" },
};

static bool ends(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* In a call of a binary operator, of a number's size. */
static bool is_host_cast(const char *op, uint64_t bytes)
{
    static const char *const operators[] = { "mul/", "add/", "sub/", "div/", "eq/" };
    if (bytes > 8 || !ends(op, "to/_to_copy/empty_strided"))
        return false;
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        if (strstr(op, operators[i]) != NULL)
            return true;
    }
    return false;
}

/* Tensors of 16 and of 32 bits in one binary operator. */
static bool is_promoted(const char *op)
{
    static const char *const operators[] = { "mul/to", "add/to", "mul_/to", "div/to", "sum/to" };
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        char end[48];
        snprintf(end, sizeof(end), "%s/_to_copy/empty_strided", operators[i]);
        if (ends(op, end))
            return true;
    }
    return false;
}

static const char *op_of(const facts *f, size_t i)
{
    return f->events[i].kind == 'A' ? f->ops[f->events[i].op] : "";
}

static const char *next_op(const facts *f, size_t i)
{
    for (i++; i < f->n; i++) {
        if (f->events[i].kind == 'A')
            return op_of(f, i);
    }
    return "";
}

static bool freed_at_once(const facts *f, size_t i)
{
    return i + 1 < f->n && f->events[i + 1].kind == 'F' && f->events[i + 1].storage == f->events[i].storage;
}

static bool freed_before_next(const facts *f, size_t i)
{
    for (size_t k = i + 1; k < f->n && f->events[k].kind == 'F'; k++) {
        if (f->events[k].storage == f->events[i].storage)
            return true;
    }
    return false;
}

/* Of the last flash call before event i. */
static bool was_masked(const facts *f, size_t i)
{
    while (i > 0 && !ends(op_of(f, i), "_for_cpu/empty_like/empty_strided"))
        i--;
    for (size_t k = 0; k < 6 && i > 0; k++, i--) {
        if (strcmp(op_of(f, i - 1), "scaled_dot_product_attention/where") == 0)
            return true;
    }
    return false;
}

static difference in_flash(const facts *f, size_t i)
{
    if (!ends(op_of(f, i - 1), "empty_like/empty_strided"))
        return CPU_FLASH_SCRATCH;
    return was_masked(f, i) ? CPU_LOGSUMEXP : SAME;
}

/* The first allocation after the kernel's. */
static bool follows_flash(const facts *f, size_t i)
{
    while (i > 0 && f->events[i - 1].kind == 'F')
        i--;
    return i > 0 && ends(op_of(f, i - 1), "_for_cpu/empty");
}

/* A number beside a tensor in a comparison: the first of two storages that the comparison takes. */
static bool is_compared_number(const facts *f, size_t i)
{
    static const char *const operators[] = { "greater/gt", "eq", "ne", "ge", "gt", "le", "lt" };
    const char *op = op_of(f, i);
    bool compares = false;
    for (size_t k = 0; k < sizeof(operators) / sizeof(operators[0]); k++)
        compares = compares || strcmp(op, operators[k]) == 0;
    return compares && f->events[i].bytes == 8 && strcmp(next_op(f, i), op) == 0;
}

/* What routing tokens to experts takes on a CPU alone. */
static difference in_routing(const facts *f, size_t i)
{
    const char *op = op_of(f, i);
    if (strcmp(op, "one_hot/aminmax") == 0)
        return CPU_RANGE;
    if (strcmp(op, "sort/arange/resize_") == 0)
        return CPU_SORT;
    if (strcmp(op, "histc/zeros/empty") == 0 || (strcmp(op, "histc") == 0 && strcmp(next_op(f, i), op) == 0))
        return CPU_HISTOGRAM;
    if (strcmp(op, "index_add_/scatter_add_/zeros/empty") == 0)
        return CPU_ADDED;
    if (strcmp(op, "scatter_/empty") == 0)
        return CPU_SCATTERED;
    if (strncmp(op, "repeat/", 7) == 0 && f->events[i].bytes <= 64)
        return HOST_SHAPE;
    return is_compared_number(f, i) ? HOST_SCALAR : SAME;
}

/* The result comes first, and the other two at once behind it. */
static bool is_statistics(const facts *f, size_t i)
{
    static const char native[] = "layer_norm/native_layer_norm/empty";
    return i > 0 && ends(op_of(f, i), native) && ends(op_of(f, i - 1), native);
}

static size_t op_before(const facts *f, size_t i, const char *op)
{
    while (i > 0 && (f->events[i].kind != 'A' || strcmp(op_of(f, i), op) != 0))
        i--;
    return i;
}

static size_t op_after(const facts *f, size_t i, const char *op)
{
    while (i < f->n && (f->events[i].kind != 'A' || strstr(op_of(f, i), op) == NULL))
        i++;
    return i;
}

/* With pictures: between the pixels in the model's width and the first convolution; between the tower and
 * the last of the positions, what is small; and in the steps after. */
static bool is_left_out(const facts *f, size_t i)
{
    const char *op = op_of(f, i);
    size_t conv = op_after(f, 0, "conv3d"), scattered = op_after(f, 0, "masked_scatter");
    if (conv == f->n || i < op_after(f, 1, "to/_to_copy"))
        return false;
    if (i < conv)
        return i > op_after(f, 1, "to/_to_copy");
    size_t tower = op_before(f, scattered, "linear/addmm"), last = op_after(f, scattered, "max/empty");
    while (last < f->n && strcmp(op_of(f, last), "empty") != 0)
        last++;
    bool step = i > last && strstr(op, "repeat_interleave") == op;
    bool host =
        i > last && strcmp(op, "arange/resize_") == 0 && strstr(next_op(f, i), "repeat_interleave") != NULL;
    bool between = i > tower && i <= last && f->events[i].bytes <= 24 * f->batch * f->tokens;
    return step || host || strstr(op, "argsort/") == op || strcmp(op, "sub") == 0 ||
           (between && strcmp(op, "zeros/empty") != 0);
}

static difference name_of_fact(const facts *f, size_t i)
{
    const char *op = op_of(f, i);
    uint64_t bytes = f->events[i].bytes;
    if (is_left_out(f, i))
        return LEFT_OUT_PLACES;
    if ((bytes <= 8 && strcmp(op, "-") == 0) || is_compared_number(f, i) ||
        (bytes == 8 && strcmp(op, "eq") == 0) ||
        (bytes == 8 && ends(op, "_scaled_dot_product_attention_math/mul")))
        return HOST_SCALAR;
    if (strstr(op, "mean/div_") != NULL && bytes <= 8)
        return HOST_MEAN;
    if (is_host_cast(op, bytes))
        return HOST_CAST;
    if (is_promoted(op))
        return CPU_PROMOTED;
    if (is_statistics(f, i))
        return CPU_STATISTICS;
    if (ends(op, "_convolution/mkldnn_convolution"))
        return CPU_CONVOLUTION;
    if (strcmp(op, "empty") == 0 && bytes == 8)
        return HOST_WINDOW;
    if (strcmp(op, "empty") == 0 && strcmp(next_op(f, i), "mul") == 0)
        return HOST_NORMALISER;
    if (strcmp(op, "embedding/index_select/contiguous/clone/empty_like/empty") == 0)
        return CPU_INDEX;
    if (strcmp(op, "contiguous/clone/empty_like/empty") == 0 && follows_flash(f, i) && was_masked(f, i))
        return CPU_LAYOUT;
    if (ends(op, "matmul/bmm/contiguous/clone/empty_like/empty"))
        return CPU_GEMM_PACKING;
    bool product = ends(op, "/mm") || ends(op, "/bmm") || ends(op, "addmm");
    if ((product && freed_at_once(f, i)) || (strcmp(op, "bmm") == 0 && freed_before_next(f, i)))
        return CPU_GEMM_SCRATCH;
    return ends(op, "_for_cpu/empty") ? in_flash(f, i) : in_routing(f, i);
}

static difference name_of_event(const vr_tape *t, const vr_event *e)
{
    vr_str label = t->labels[e->label];
    if (e->item == VR_ITEM_WORKSPACES)
        return e->bytes == 8519680 || e->bytes == 1048576 ? CUDA_WORKSPACE : SAME;
    if (vr_str_is(label, "random state of the attention kernel") && e->bytes <= 16)
        return CUDA_RANDOM;
    if ((vr_str_is(label, "sliding window of the cache") ||
         vr_str_is(label, "length and place in the cache")) &&
        e->bytes == 8)
        return CUDA_WINDOW;
    if (vr_str_is(label, "addresses of a batched solver"))
        return CUDA_SOLVER;
    if (vr_str_is(label, "statistics of a normalisation"))
        return CUDA_STATISTICS;
    if (vr_str_is(label, "places of image features"))
        return CUDA_SCATTERED;
    if (vr_str_is(label, "attention mask in rows of 16 bytes"))
        return CUDA_ALIGNED;
    return vr_str_is(label, "sums of the attention kernel") && e->bytes > 16 ? CUDA_SUMS : SAME;
}

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
        if (d == CPU_LAYOUT) { /* stands for what it copies, the last storage before it */
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

static void our_run(run *r, const vr_tape *t)
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
        number[e->block] = -1;
        if (d == CUDA_ALIGNED)
            stand_in(number, t->n_blocks, e->block, (int)r->n - 1);
        if (d != SAME || vr_str_is(label, "input ids") ||
            vr_str_is(label, "pixel values")) /* the ids are there before the recording begins */
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
    real_run(&real, f);
    our_run(&ours, &plan.tape);
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
    assert_true(n_files >= 510 || !all_facts());
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
}

/* test_engine_oracle [-v]: with the table */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recorded_run),
        cmocka_unit_test(most_bytes_of_each),
        cmocka_unit_test(every_name_is_needed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "-v") == 0)
        print_table();
    return failed;
}
