/* SPDX-License-Identifier: MIT
 *
 * `vram explain [FILE... | TEXT]`: what an out-of-memory error says. Operands are files when the first is one
 * (or looks like one), otherwise they are the text itself.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* ---- files or text ---- */

static bool exists(const char *name)
{
    struct stat st;

    return strcmp(name, "-") == 0 || stat(name, &st) == 0;
}

static bool ends_like_a_file(const char *name)
{
    static const char *const endings[] = { ".log", ".txt", ".out", ".err", ".json", ".jsonl", ".md",  ".gz",
                                           ".zst", ".xz",  ".bz2", ".zip", ".csv",  ".html",  ".yaml" };
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t k = strlen(endings[i]);
        if (n > k && strcmp(name + n - k, endings[i]) == 0)
            return true;
    }
    return false;
}

/* Of a word that is no file: whoever typed it meant one. A slash alone is none in a sentence ("I/O error").
 */
static bool looks_like_a_file(const char *word, bool alone)
{
    if (*word == '\0' || strpbrk(word, " \t\n") != NULL)
        return false;
    return ends_like_a_file(word) || word[0] == '/' || strncmp(word, "./", 2) == 0 ||
           strncmp(word, "../", 3) == 0 || (alone && strchr(word, '/') != NULL);
}

static bool are_files(const cli *c)
{
    return c->n_operands == 0 || exists(c->operands[0]) ||
           looks_like_a_file(c->operands[0], c->n_operands == 1);
}

/* The words of the command line with blanks between them; NULL: out of memory. To be freed. */
static char *joined(const char *first, const char *const *words, size_t n)
{
    size_t room = (first != NULL ? strlen(first) : 0) + 2;
    char *text, *end;

    for (size_t i = 0; i < n; i++)
        room += strlen(words[i]) + 1;
    text = end = malloc(room);
    if (text == NULL)
        return NULL;
    *end = '\0';
    if (first != NULL)
        end = stpcpy(end, first);
    for (size_t i = 0; i < n; i++) {
        if (end != text)
            *end++ = ' ';
        end = stpcpy(end, words[i]);
    }
    return text;
}

/* ---- what ran ---- */

static bool says_how(const cli *c)
{
    static const char *const keys[] = { "gpu", "free", "revision", "file" };

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (cli_has(c, keys[i]))
            return true;
    for (size_t i = 0; i < c->n_settings; i++)
        if (c->settings[i].row->from == CLI_WORKLOAD)
            return true;
    return false;
}

static int check(const cli *c)
{
    const char *engine = cli_value(c, "engine");

    if (c->model == NULL && says_how(c)) {
        cli_error("settings say how a model ran, and no --model is given");
        cli_hint("without them the answer comes from the text alone");
        return CLI_USAGE;
    }
    if (engine != NULL && strcmp(engine, "all") == 0) {
        cli_error("--engine all: one engine printed the text");
        return CLI_USAGE;
    }
    if (cli_has(c, "free") && !cli_has(c, "gpu")) {
        cli_error("--free says how much of a card is free: name it with --gpu");
        return CLI_USAGE;
    }
    if (cli_count(c, "gpu") > 1 || cli_count(c, "free") > 1) {
        cli_error("--gpu and --free are of the card that ran out, and were given more than once");
        return CLI_USAGE;
    }
    return CLI_YES;
}

/* A model that cannot be read leaves the answer from the text; wrong settings are wrong usage. */
static vram_status read_model(cli *c, cli_question *q)
{
    vram_status s = c->model != NULL ? cli_ask(c, c->model, cli_value(c, "engine"), q) : VRAM_OK;
    const vram_error *e = vram_last_error(c->ctx);

    if (s == VRAM_OK || s == VRAM_ESETTING || s == VRAM_ENOMEM)
        return s;
    cli_warning("the model could not be read, the answer is from the text alone: %s%s%s",
                e->file != NULL ? e->file : "", e->file != NULL ? ": " : "", e->text);
    if (e->hint != NULL)
        cli_hint("%s", e->hint);
    *q = (cli_question){ .model = NULL };
    return VRAM_OK;
}

/* ---- the answer ---- */

/* Of several files one that cannot be read is told, and the others are explained all the same. */
static vram_status read_each(cli *c, vram_log *log, uint64_t *total)
{
    size_t n_read = 0;
    vram_status s = VRAM_OK;

    for (size_t i = 0; (s == VRAM_OK || s == VRAM_EIO) && i < c->n_operands; i++) {
        if (s == VRAM_EIO)
            (void)cli_fail(c);
        s = cli_feed(c, log, c->operands[i], total);
        c->unread |= s == VRAM_EIO;
        n_read += s == VRAM_OK;
    }
    if (s != VRAM_EIO || n_read == 0)
        return s;
    (void)cli_fail(c);
    return VRAM_OK;
}

static vram_status read_files(cli *c, vram_log *log)
{
    uint64_t total = 0;
    vram_status s;
    bool standard = c->n_operands == 0;
    bool typed = isatty(STDIN_FILENO) && (standard || strcmp(c->operands[0], "-") == 0);

    if (typed)
        fputs("vram: paste the message or the traceback, then press Enter and Ctrl-D\n", stderr);
    cli_reading_begin(c, typed);
    s = standard ? cli_feed(c, log, "-", &total) : read_each(c, log, &total);
    cli_reading_end(c);
    return s;
}

static vram_status diagnose(vram_log *log, const cli_question *q, vram_diagnosis **out)
{
    if (q->n_devices != 0)
        vram_log_card(log, q->devices[0]);
    return vram_diagnosis_new(out, log, q->model, q->workload);
}

/* Words that are no known message may be what somebody saw. */
static vram_status try_as_symptom(cli *c, const char *text, const cli_question *q, vram_diagnosis **d)
{
    vram_log *log = NULL;
    vram_diagnosis *second = NULL;
    vram_status s = vram_log_new(&log, c->ctx);

    if (s == VRAM_OK)
        s = vram_log_symptom(log, text);
    if (s == VRAM_OK)
        s = diagnose(log, q, &second);
    if (s == VRAM_OK && vram_diagnosis_recognised(second))
        *d = second;
    return s;
}

static vram_status answer_text(cli *c, const char *text, const cli_question *q, vram_diagnosis **d)
{
    vram_log *log = NULL;
    vram_status s = vram_log_new(&log, c->ctx);

    if (s == VRAM_OK)
        s = vram_log_feed(log, text, strlen(text));
    if (s == VRAM_OK)
        s = diagnose(log, q, d);
    if (s == VRAM_OK && !vram_diagnosis_recognised(*d))
        s = try_as_symptom(c, text, q, d);
    return s;
}

static vram_status answer_files(cli *c, const char *symptom, bool files, const cli_question *q,
                                vram_diagnosis **d)
{
    vram_log *log = NULL;
    vram_status s = vram_log_new(&log, c->ctx);

    if (s == VRAM_OK && symptom != NULL)
        s = vram_log_symptom(log, symptom);
    if (s == VRAM_OK && files)
        s = read_files(c, log);
    return s == VRAM_OK ? diagnose(log, q, d) : s;
}

/* --symptom without a file is an answer by itself: standard input is read only where "-" asks for it. */
static vram_status answer(cli *c, const cli_question *q, vram_diagnosis **d)
{
    const char *symptom = cli_value(c, "symptom");
    bool files = are_files(c);
    char *text = files ? NULL : joined(symptom, c->operands, c->n_operands);
    vram_status s;

    if (!files && text == NULL)
        return vram_fail(c->ctx, &(vram_error){ .code = VRAM_ENOMEM, .text = "out of host memory" });
    if (files)
        s = answer_files(c, symptom, symptom == NULL || c->n_operands != 0, q, d);
    else if (symptom != NULL)
        s = answer_files(c, text, false, q, d);
    else
        s = answer_text(c, text, q, d);
    free(text);
    return s;
}

static int run(cli *c)
{
    cli_question q = { .model = NULL };
    vram_diagnosis *d = NULL;
    vram_status s;
    int status = check(c);

    if (status != CLI_YES)
        return status;
    s = read_model(c, &q);
    if (s == VRAM_OK)
        s = answer(c, &q, &d);
    if (s == VRAM_OK)
        s = vram_diagnosis_render(d, &c->style, cli_write, NULL);
    if (s != VRAM_OK)
        return cli_fail(c);
    if (c->unread)
        return CLI_UNREACHABLE;
    return vram_diagnosis_recognised(d) ? CLI_YES : CLI_NO;
}

const cli_command cli_explain_command = {
    .name = "explain",
    .operands = "[FILE... | TEXT]",
    .summary = "what an out-of-memory error says: what ran out, where, and what to change",
    .description =
        "Reads a message, a traceback, a log of any length, dmesg or the events of a cluster, and says what "
        "ran "
        "out, where it died, how much is missing at least, what will not help and what to type. Operands "
        "that are "
        "files are read (- is standard input); other words are the text itself: a message, or what was "
        "seen, in "
        "plain words. Without any it reads standard input. With --model it also finds the place in that "
        "model's run. Exit status 1: nothing was recognised.",
    .examples = "python train.py 2>&1 | vram explain\n"
                "vram explain train.log\n"
                "kubectl logs -p deploy/llm | vram explain -v\n"
                "sudo dmesg | vram explain\n"
                "vram explain \"CUDA out of memory. Tried to allocate 130.00 MiB. ...\"\n"
                "vram explain --symptom \"fine for hours, then dies\"\n"
                "vram explain train.log --symptom \"dies at the first optimizer step\"\n"
                "vram explain train.log --model Qwen/Qwen2.5-Coder-7B-Instruct\n"
                "vram explain server.log -- llama-server -m Qwen3-32B-Q4_K_M.gguf -c 32768\n"
                "vram explain train.log --json",
    .least = 0,
    .most = SIZE_MAX,
    .model_apart = true,
    .run = run,
};
