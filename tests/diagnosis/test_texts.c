/* SPDX-License-Identifier: MIT
 * The tables of texts: that every row is sound, that every example is read as its own row with the figures
 * that it holds (texts_expected.tsv, made without this code), and that ordinary logs hold none of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "diagnosis/findings.h"
#include "diagnosis/template.h"
#include "model/model.h"

/* Failures are counted and named, so that one run shows all of them. */
static unsigned wrong;

#define WRONG(row, ...)                                                                                      \
    do {                                                                                                     \
        print_error("%s: ", (row)->id);                                                                      \
        print_error(__VA_ARGS__);                                                                            \
        print_error("\n");                                                                                   \
        wrong++;                                                                                             \
    } while (0)

/* ---- the tables ---- */

static bool is_error(size_t i)
{
    return i < vr_error_text_table_n;
}

/* Calls `each` with every alternative of the row's anchor. */
static void each_anchor(const vr_text_row *row, void (*each)(const vr_text_row *, const char *, void *),
                        void *arg)
{
    char cell[16384];
    char *at = cell;

    assert_true(strlen(row->anchor) < sizeof cell);
    memcpy(cell, row->anchor, strlen(row->anchor) + 1);
    for (char *next; at != NULL; at = next) {
        next = strstr(at, " | ");
        if (next != NULL) {
            *next = '\0';
            next += 3;
        }
        each(row, at, arg);
    }
}

static void sound_anchor(const vr_text_row *row, const char *anchor, void *arg)
{
    size_t n = strlen(anchor);

    (void)arg;
    if (n < 5)
        WRONG(row, "\"%s\" is shorter than 5 bytes", anchor);
    else if (anchor[0] == ' ' || anchor[n - 1] == ' ')
        WRONG(row, "\"%s\" begins or ends with a blank", anchor);
    for (; *anchor != '\0'; anchor++) {
        if (*anchor >= 'A' && *anchor <= 'Z') {
            WRONG(row, "an anchor is not in lower case");
            return;
        }
    }
}

static bool event_kind(const vr_text_row *row)
{
    return row->kind <= VR_TEXT_LOOKALIKE || row->kind == VR_TEXT_CONSEQUENCE;
}

static void rows_are_sound(void **state)
{
    (void)state;
    wrong = 0;
    for (size_t i = 0; i < VR_TEXT_ROWS; i++) {
        const vr_text_row *row = vr_text_row_at(i);
        each_anchor(row, sound_anchor, NULL);
        if (row->rank < 1 || row->rank > 99)
            WRONG(row, "rank %u", row->rank);
        if (is_error(i) && (row->example == NULL || row->meaning == NULL))
            WRONG(row, "an error needs an example and a meaning");
        if (row->wants != NULL && row->example == NULL)
            WRONG(row, "a template needs an example");
        if (is_error(i) != (event_kind(row) || row->kind == VR_TEXT_WARNING))
            WRONG(row, "is in the wrong table");
        if (row->certainty != 0 && row->cause == 0 && row->memory == 0)
            WRONG(row, "is certain of nothing");
        for (size_t k = 0; k < i; k++) {
            if (strcmp(row->id, vr_text_row_at(k)->id) == 0)
                WRONG(row, "comes twice");
        }
    }
    assert_int_equal(wrong, 0);
}

struct taken {
    char *anchor;
    const vr_text_row *row;
};
static struct taken taken[8192];
static size_t n_taken;

/* Two rows of one rank that both take a text would be told apart by chance. */
static void not_taken(const vr_text_row *row, const char *anchor, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < n_taken; i++) {
        if (strcmp(taken[i].anchor, anchor) == 0 && (taken[i].row == row || taken[i].row->rank == row->rank))
            WRONG(row, "shares \"%s\" with %s", anchor, taken[i].row->id);
    }
    assert_true(n_taken < sizeof taken / sizeof *taken);
    taken[n_taken].anchor = malloc(strlen(anchor) + 1);
    memcpy(taken[n_taken].anchor, anchor, strlen(anchor) + 1);
    taken[n_taken++].row = row;
}

static void no_anchor_is_taken_twice(void **state)
{
    (void)state;
    wrong = 0;
    n_taken = 0;
    for (size_t i = 0; i < VR_TEXT_ROWS; i++)
        each_anchor(vr_text_row_at(i), not_taken, NULL);
    for (size_t i = 0; i < n_taken; i++)
        free(taken[i].anchor);
    assert_int_equal(wrong, 0);
}

static void templates_compile(void **state)
{
    hook h = { 0 };
    vram_ctx *ctx = NULL;
    vr_arena a;

    (void)state;
    wrong = 0;
    assert_int_equal(vram_open(&ctx, hook_alloc, &h), VRAM_OK);
    vr_arena_init(&a, ctx);
    for (size_t i = 0; i < VR_TEXT_ROWS; i++) {
        const vr_text_row *row = vr_text_row_at(i);
        const char *why = NULL;
        if (row->wants == NULL)
            continue;
        assert_non_null(vr_template_new(&a, row->wants, &why));
        if (why != NULL)
            WRONG(row, "template: %s", why);
    }
    vr_arena_free(&a);
    vram_close(ctx);
    assert_int_equal(wrong, 0);
}

/* ---- reading ---- */

typedef struct reading {
    hook h;
    vram_ctx *ctx;
    vr_arena arena;
    vr_findings found;
} reading;

static void read_text(reading *r, const char *text)
{
    vr_reader *reader;

    memset(r, 0, sizeof *r);
    assert_int_equal(vram_open(&r->ctx, hook_alloc, &r->h), VRAM_OK);
    vr_arena_init(&r->arena, r->ctx);
    assert_int_equal(vr_reader_new(&reader, r->ctx, &r->arena), VRAM_OK);
    assert_int_equal(vr_reader_file(reader, VR_LIT("")), VRAM_OK);
    assert_int_equal(vr_reader_feed(reader, text, strlen(text)), VRAM_OK);
    assert_int_equal(vr_reader_end(reader, &r->found), VRAM_OK);
}

static void close_reading(reading *r)
{
    vr_arena_free(&r->arena);
    vram_close(r->ctx);
}

/* An example as it would stand in a log: "\n" in the cell is a line end. */
static const char *unfolded(const char *cell)
{
    static char text[16384];
    size_t n = 0;

    assert_true(strlen(cell) + 2 < sizeof text);
    for (; *cell != '\0'; cell++) {
        if (cell[0] == '\\' && cell[1] == 'n') {
            text[n++] = '\n';
            cell++;
        } else {
            text[n++] = *cell;
        }
    }
    text[n++] = '\n';
    text[n] = '\0';
    return text;
}

static const vr_sign *seen_sign(const vr_findings *f, const char *id)
{
    for (size_t i = 0; i < f->n_seen; i++) {
        if (strcmp(f->seen[i].row->id, id) == 0)
            return &f->seen[i];
    }
    return NULL;
}

/* The sign of the row's own example; NULL, and counted: it is not what was read. */
static const vr_sign *own_sign(const vr_text_row *row, const vr_findings *f)
{
    const vr_sign *sign = NULL;

    if (event_kind(row)) {
        for (size_t i = 0; i < f->n_events; i++) {
            if (f->events[i].sign.row == row)
                sign = &f->events[i].sign;
            else
                WRONG(row, "its example is read as %s, too", f->events[i].sign.row->id);
        }
    } else {
        sign = seen_sign(f, row->id);
        for (size_t i = 0; i < f->n_events; i++)
            WRONG(row, "its example is read as a failure: %s", f->events[i].sign.row->id);
    }
    if (sign == NULL)
        WRONG(row, "its example is not read as what it is");
    return sign;
}

/* ---- figures ---- */

typedef struct expected {
    char id[64], figure[32];
    int64_t value;
} expected;
static expected expectations[4096];
static size_t n_expectations;

static void load_expectations(const char *path)
{
    char line[256];
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        expected *e = &expectations[n_expectations];
        long long value;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%63[^\t]\t%31[^\t]\t%lld", e->id, e->figure, &value), 3);
        e->value = value;
        assert_true(++n_expectations < sizeof expectations / sizeof *expectations);
    }
    fclose(file);
    assert_true(n_expectations > 0);
}

/* A printed decimal need not be a whole number of bytes: one more or less is the same. */
static bool as_expected(const vr_fact *fact, const expected *e)
{
    int64_t value = (int64_t)fact->value * (fact->negative ? -1 : 1);

    return strcmp(vr_fact_kinds[fact->id].name, e->figure) == 0 && value - e->value <= 1 &&
           e->value - value <= 1;
}

static void compare_figures(const vr_text_row *row, const vr_fact_list *facts)
{
    size_t n = 0;

    for (size_t i = 0; i < n_expectations; i++) {
        const expected *e = &expectations[i];
        if (strcmp(e->id, row->id) != 0)
            continue;
        if (n >= facts->n)
            WRONG(row, "%s %lld is not read", e->figure, (long long)e->value);
        else if (!as_expected(&facts->f[n], e))
            WRONG(row, "%s %lld is read as %s %s%llu", e->figure, (long long)e->value,
                  vr_fact_kinds[facts->f[n].id].name, facts->f[n].negative ? "-" : "",
                  (unsigned long long)facts->f[n].value);
        n++;
    }
    for (; n < facts->n; n++)
        WRONG(row, "%s %llu is read and is not there", vr_fact_kinds[facts->f[n].id].name,
              (unsigned long long)facts->f[n].value);
}

static void examples_are_read(void **state)
{
    (void)state;
    wrong = 0;
    for (size_t i = 0; i < VR_TEXT_ROWS; i++) {
        const vr_text_row *row = vr_text_row_at(i);
        const vr_sign *sign;
        reading r;
        if (row->example == NULL)
            continue;
        read_text(&r, unfolded(row->example));
        sign = own_sign(row, &r.found);
        if (sign != NULL)
            compare_figures(row, &sign->facts);
        close_reading(&r);
    }
    assert_int_equal(wrong, 0);
}

/* ---- alternatives ---- */

/* Of so many alternatives one is tried; with "all" behind the file, each. */
static size_t stride = 16;
static size_t n_alternatives;

/* The highest rank of what was read: a row that is hit may be led by a more specific one. */
static uint32_t highest_rank(const vr_findings *f)
{
    uint32_t rank = 0;

    for (size_t i = 0; i < f->n_events; i++) {
        const vr_incident *e = &f->events[i];
        rank = e->sign.row->rank > rank ? e->sign.row->rank : rank;
        for (size_t k = 0; k < e->n_near; k++)
            rank = e->near[k].row->rank > rank ? e->near[k].row->rank : rank;
    }
    for (size_t i = 0; i < f->n_seen; i++)
        rank = f->seen[i].row->rank > rank ? f->seen[i].row->rank : rank;
    return rank;
}

static void alternative_is_read(const vr_text_row *row, const char *anchor, void *arg)
{
    char text[1024];
    size_t n = strlen(anchor);
    reading r;

    (void)arg;
    if (n_alternatives++ % stride != 0)
        return;
    anchor += *anchor == '^';
    n = strlen(anchor);
    n -= n != 0 && anchor[n - 1] == '$';
    const char *needs = row->needs == NULL ? "" : row->needs + (*row->needs == '=');
    snprintf(text, sizeof text, "%.*s %s\n", (int)n, anchor, needs);
    read_text(&r, text);
    if (highest_rank(&r.found) < row->rank)
        WRONG(row, "\"%s\" alone is not read", anchor);
    close_reading(&r);
}

static void alternatives_are_read(void **state)
{
    (void)state;
    wrong = 0;
    for (size_t i = 0; i < VR_TEXT_ROWS; i++)
        each_anchor(vr_text_row_at(i), alternative_is_read, NULL);
    assert_int_equal(wrong, 0);
}

/* ---- ordinary logs ---- */

/* Nothing failed in any of these, whatever words they use. */
static const char *const innocent[] = {
    "{'loss': 1.8312, 'grad_norm': 0.6, 'learning_rate': 2e-05, 'epoch': 0.31}\n",
    "  4%|4         | 200/5000 [06:11<2:28:40,  1.86s/it]\n",
    "Epoch 3: 100%|##########| 782/782 [01:12<00:00, 10.80it/s, v_num=4, train_loss=0.211]\n",
    "INFO 06-01 10:00:00 [loggers.py:116] Engine 000: Avg prompt throughput: 812.1 tokens/s, Running: 4 "
    "reqs,\n",
    "INFO:     127.0.0.1:50114 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n",
    "[2026-01-01 00:00:00 TP0] Decode batch. #running-req: 8, #token: 9000, token usage: 0.21, cuda graph: "
    "True\n",
    "llama_kv_cache: size = 1024.00 MiB (  8192 cells,  32 layers,  1/1 seqs), K (f16):  512.00 MiB\n",
    "load_tensors: offloaded 33/33 layers to GPU\n",
    "Memory allocated: 12.1 GiB, reserved: 13.0 GiB, peak: 14.2 GiB\n",
    "GPU memory usage: 61 % of 24 GiB; free memory: 9.3 GiB\n",
    "[GC] memory freed: 220 MB, heap: 512 MB\n",
    "Allocated 3 workers for the data loader, each with 2 threads\n",
    "| 0  NVIDIA L4   Off | 00000000:00:03.0 Off |  0 |\n| N/A 41C P8 12W / 72W | 1024MiB / 23034MiB | 0% "
    "|\n",
    "The memory of the elephants is remarkable; they have not run out of it yet.\n",
    "We need more memory for the museum. The exhibits were killed off by damp, said the buses' owner.\n",
    "# How to allocate memory on a GPU and how to free it again when the batch is done\n",
    "def allocate(self, n):\n    \"\"\"Allocates n blocks. Raises when there is no room.\"\"\"\n    return "
    "self.pool.take(n)\n",
    "int *p = malloc(n * sizeof *p);\nif (p == NULL)\n    return -1;\n",
    "try:\n    x = torch.empty(n, device='cuda')\nexcept RuntimeError as e:\n    logger.warning('retry with "
    "%d', n // 2)\n",
    "Step 137 of 9000: code review finished, 137 files checked, exit.\n",
    "Reached step 1455; writing status to file\n",
    "2026-03-01 kernel: usb 1-1: new high-speed USB device number 4 using xhci_hcd\n",
    "Mar  1 10:00:00 host systemd[1]: Started Daily apt download activities.\n",
    "nvidia-smi shows 12 % used; the driver version is 570.86.10, CUDA version 12.8\n",
    "Warning: the tokenizer has no padding token; the end-of-text token is used\n",
    "Saved 12 images to /data/out; the disk has 812 GB left\n",
    "Normal  Pulled  4s  kubelet  Successfully pulled image \"server:1\" in 3.1s\n",
    "Exit code: 0, restarts: 0, status: Completed\n",
    "loss 0.91 | lr 3e-4 | mem 31.2GB | tok/s 9120 | skipped 0\n",
    "Das Training läuft. Speicher: 12 von 24 GiB belegt, noch 3 Stunden.\n",
    "显存使用: 12.1 GiB / 24 GiB, 训练正常\n",
    "L'entraînement avance: mémoire utilisée 12 Go sur 24, encore 3 heures\n",
    "学習は順調です。メモリ使用量 12 GiB / 24 GiB\n",
    "Das Gerät hat 24 GiB Speicher; der Bus fährt um acht, Fehler gab es keine.\n",
    "Loading checkpoint shards: 100%|##########| 12/12 [00:16<00:00,  1.40s/it]\n",
    "INFO 01-01 00:00:00 [gpu_worker.py:298] Available KV cache memory: 11.20 GiB\n",
    "INFO 01-01 00:00:00 [kv_cache_utils.py:634] GPU KV cache size: 91,216 tokens\n",
    "Free memory on device (78.40/79.18 GiB) on startup. Desired GPU memory utilization is (0.92, 72.85 "
    "GiB).\n",
    "time=2026-01-01 level=INFO source=types.go:131 msg=\"inference compute\" total=\"11.6 GiB\" "
    "available=\"10.4 GiB\"\n",
    "[2026-01-01 00:00:00] [INFO] [utils.py:783:see_memory_usage] MA 21.04 GB Max_MA 21.04 GB CA 23.87 GB "
    "Max_CA 24 GB\n",
    "NCCL INFO Using network Socket\nNCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 1000 - Init "
    "COMPLETE\n",
    "state: RUNNING, signals handled: 9, errors: 0, code: 0, killed: 0 jobs, memory errors corrected: 0\n",
    "Pod llm-0 0/1 ContainerCreating 0 4s\nPod llm-0 1/1 Running 0 31s\n",
    "\"State\": { \"Status\": \"running\", \"OOMKilled\": false, \"ExitCode\": 0 }\n",
    "epoch 12: val_loss 0.4411, f1 0.93, no NaN in 40,000 steps, grad norm 1.1\n",
    "Compiled 3 kernels; shared memory per block: 48 KiB; registers: 96\n",
    "resumed from checkpoint at step 1370 (137 shards), optimizer state restored\n",
    "warning: 2 files were skipped because they are larger than 100 MB\n",
    "INFO model_runner.py:1204] CUDA graphs can take additional 1~3 GiB memory per GPU. If you are running "
    "out of "
    "memory, consider decreasing `gpu_memory_utilization` or enforcing eager mode.\n",
    "tip: to avoid out of memory issues with long inputs, lower the batch; nothing failed so far\n",
    "if memory is short, an allocation may fail; see the manual for what to do then\n",
    "class Killed(Exception):\n    pass\n\n\ndef on_signal(number, frame):\n    raise Killed\n",
};

static void ordinary_logs_hold_no_failure(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof innocent / sizeof *innocent; i++) {
        reading r;
        read_text(&r, innocent[i]);
        if (r.found.n_events != 0)
            fail_msg("\"%s\" is read as %s", innocent[i], r.found.events[0].sign.row->id);
        close_reading(&r);
    }
}

/* The table of vocabularies says of a built-in model what its published configuration does. */
static void vocabularies_are_those_of_the_catalogue(void **state)
{
    size_t held = 0;

    (void)state;
    for (size_t i = 0; i < vr_vocabulary_table_n; i++) {
        const vr_vocabulary *v = &vr_vocabulary_table[i];
        hook h = { 0 };
        vram_ctx *ctx;
        vram_checkpoint *ck;
        vram_model *m;
        if (vram_catalogue_name(v->model) == NULL)
            continue;
        assert_int_equal(vram_open(&ctx, hook_alloc, &h), VRAM_OK);
        assert_int_equal(vram_checkpoint_catalogue(&ck, ctx, v->model), VRAM_OK);
        assert_int_equal(vram_model_new(&m, ck), VRAM_OK);
        if (m->vocab != v->words || (v->width != 0 && m->hidden != v->width))
            fail_msg("%s: %u words of %u, where the catalogue has another", v->model, (unsigned)v->words,
                     (unsigned)v->width);
        vram_close(ctx);
        held++;
    }
    assert_true(held > vr_vocabulary_table_n / 2); /* not a test of nothing */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocabularies_are_those_of_the_catalogue),
        cmocka_unit_test(rows_are_sound),
        cmocka_unit_test(no_anchor_is_taken_twice),
        cmocka_unit_test(templates_compile),
        cmocka_unit_test(examples_are_read),
        cmocka_unit_test(alternatives_are_read),
        cmocka_unit_test(ordinary_logs_hold_no_failure),
    };

    if (argc < 2)
        return 2;
    if (argc == 3 && strcmp(argv[2], "all") == 0)
        stride = 1;
    load_expectations(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
