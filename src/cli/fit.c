/* SPDX-License-Identifier: MIT
 *
 * `vram fit MODEL`: ledger, verdict, levers.
 */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

static vram_status set_workload(cli *c, vram_workload *w)
{
    for (size_t i = 0; i < c->n_settings; i++) {
        const cli_setting *g = &c->settings[i];
        vram_status s = VRAM_OK;
        if (g->row->from == CLI_WORKLOAD && strcmp(g->row->option->key, "engine") != 0)
            s = vram_workload_set(w, g->row->option->key, g->value);
        if (s != VRAM_OK)
            return s;
    }
    return VRAM_OK;
}

#define MOST_CARDS 64

/* One --free is for every card, otherwise each has its own. */
static vram_status make_devices(cli *c, vram_device **out, size_t n)
{
    vram_status s = VRAM_OK;

    for (size_t i = 0; i < n && s == VRAM_OK; i++) {
        const char *own = cli_nth(c, "free", i);
        s = cli_device(c, cli_nth(c, "gpu", i), own != NULL ? own : cli_value(c, "free"), &out[i]);
    }
    return s;
}

/* What all answers are made of. */
typedef struct question {
    vram_model *model;
    vram_workload *workload;
    vram_device *devices[MOST_CARDS];
    size_t n_devices;
} question;

/* Beside the model that is judged: --revision and --file are of that one. */
static vram_status open_other(cli *c, const char *name, vram_model **out)
{
    vram_checkpoint *checkpoint = NULL;
    vram_status s = cli_open_other(c, name, &checkpoint);

    return s == VRAM_OK ? vram_model_new(out, checkpoint) : s;
}

/* The model that drafts. */
static vram_status read_assistant(cli *c, vram_workload *w)
{
    const char *name = cli_value(c, "assistant_model");
    vram_model *model = NULL;
    vram_status s;

    if (name == NULL)
        return VRAM_OK;
    s = open_other(c, name, &model);
    return s == VRAM_OK ? vram_workload_assist(w, model) : s;
}

/* Each of the names between commas. */
static vram_status attach(cli *c, vram_workload *w, const char *key)
{
    char name[4096];
    const char *rest = cli_value(c, key);
    vram_status s = VRAM_OK;

    while (rest != NULL && *rest != '\0' && s == VRAM_OK) {
        vram_model *model = NULL;
        size_t n = strcspn(rest, ",");

        if (n >= sizeof name)
            return vram_fail(c->ctx, &(vram_error){ .code = VRAM_ESETTING, .text = "a name is too long" });
        memcpy(name, rest, n);
        name[n] = '\0';
        rest += rest[n] == ',' ? n + 1 : n;
        s = open_other(c, name, &model);
        if (s == VRAM_OK)
            s = vram_workload_attach(w, key, model);
    }
    return s;
}

/* "org/name": where llama-server looks for a projector on its own. */
static bool is_repository(const char *name)
{
    struct stat st;
    const char *slash = strchr(name, '/');

    return slash != NULL && slash != name && strchr(slash + 1, '/') == NULL &&
           strncmp(name, "modelscope:", 11) != 0 && strncmp(name, "ollama:", 7) != 0 && stat(name, &st) != 0;
}

/* Without a word of it the server and llama-cli load the projector that lies in the model's repository. */
static vram_status read_sibling(cli *c, const char *name, const vram_checkpoint *of, vram_workload *w)
{
    const char *engine = cli_value(c, "engine"), *tool = cli_value(c, "tool");
    const char *file = vram_checkpoint_projector(of);
    vram_checkpoint *checkpoint = NULL;
    vram_model *model = NULL;
    static char repository[512]; /* without the quantisation behind a colon */
    bool loads = tool == NULL || strcmp(tool, "server") == 0 || strcmp(tool, "cli") == 0;
    vram_status s;

    if (file == NULL || !loads || !is_repository(name) || cli_has(c, "mmproj") || cli_has(c, "no_mmproj") ||
        (engine != NULL && strcmp(engine, "llama.cpp") != 0))
        return VRAM_OK;
    (void)snprintf(repository, sizeof repository, "%.*s", (int)strcspn(name, ":"), name);
    s = cli_open_file(c, repository, file, &checkpoint);
    if (s == VRAM_OK)
        s = vram_model_new(&model, checkpoint);
    return s == VRAM_OK ? vram_workload_attach(w, "mmproj", model) : s;
}

/* What llama.cpp loads beside the model. */
static vram_status read_beside(cli *c, vram_workload *w)
{
    static const char *const keys[] = { "mmproj", "model_draft", "lora", "control_vector" };
    vram_status s = VRAM_OK;

    for (size_t i = 0; i < sizeof keys / sizeof *keys && s == VRAM_OK; i++)
        s = attach(c, w, keys[i]);
    return s;
}

static bool seeks_quant(const cli *c)
{
    return cli_has(c, "solve") && strcmp(cli_value(c, "solve"), "quant") == 0;
}

/* All but the model. */
static vram_status prepare(cli *c, const char *engine, question *q)
{
    vram_status s = vram_workload_new(&q->workload, c->ctx, engine);

    q->n_devices = cli_count(c, "gpu");
    if (s == VRAM_OK)
        s = set_workload(c, q->workload);
    if (s == VRAM_OK && cli_has(c, "solve") && !seeks_quant(c))
        s = vram_workload_solve(q->workload, cli_value(c, "solve"));
    if (s == VRAM_OK)
        s = make_devices(c, q->devices, q->n_devices);
    return s;
}

static vram_status ask(cli *c, const char *name, const char *engine, question *q)
{
    vram_checkpoint *checkpoint = NULL;
    vram_status s = prepare(c, engine, q);

    if (s == VRAM_OK)
        s = cli_open_checkpoint(c, name, &checkpoint);
    if (s == VRAM_OK)
        s = vram_model_new(&q->model, checkpoint);
    if (s == VRAM_OK)
        s = read_assistant(c, q->workload);
    if (s == VRAM_OK)
        s = read_beside(c, q->workload);
    if (s == VRAM_OK)
        s = read_sibling(c, name, checkpoint, q->workload);
    return s;
}

static int compare(cli *c, const char *model)
{
    question q = { .model = NULL };
    vram_comparison *comparison = NULL;
    vram_status s;

    if (cli_has(c, "engine_version")) {
        cli_error(
            "--engine-version says which version of one engine, and --engine all takes every engine's own");
        return CLI_USAGE;
    }
    s = ask(c, model, NULL, &q);

    if (s == VRAM_OK)
        s = vram_comparison_new(&comparison, q.model, q.workload, (const vram_device *const *)q.devices,
                                q.n_devices);
    if (s == VRAM_OK)
        s = vram_comparison_render(comparison, &c->style, cli_write, NULL);
    return s == VRAM_OK ? cli_verdict_status(c, vram_comparison_verdict(comparison)) : cli_fail(c);
}

int cli_fit(cli *c, const char *model)
{
    const char *engine = cli_value(c, "engine");
    question q = { .model = NULL };
    vram_fit *fit = NULL;
    vram_status s;

    if (engine != NULL && strcmp(engine, "all") == 0)
        return compare(c, model);
    if (seeks_quant(c)) {
        s = prepare(c, engine, &q);
        if (s == VRAM_OK)
            s = cli_quants(c, model, q.workload, (const vram_device *const *)q.devices, q.n_devices, &fit);
    } else {
        s = ask(c, model, engine, &q);
        if (s == VRAM_OK)
            s = vram_fit_new(&fit, q.model, q.workload, (const vram_device *const *)q.devices, q.n_devices);
    }
    if (s == VRAM_OK)
        s = vram_fit_render(fit, &c->style, cli_write, NULL);
    return s == VRAM_OK ? cli_verdict_status(c, vram_fit_verdict(fit)) : cli_fail(c);
}

static int run(cli *c)
{
    size_t n = cli_count(c, "gpu"), n_free = cli_count(c, "free");

    if (n > MOST_CARDS) {
        cli_error("--gpu was given too often: at most 64 times");
        return CLI_USAGE;
    }
    if (n_free > 1 && n_free != n && n != 0) {
        cli_error("--free was given more than once, but not once for each --gpu");
        cli_hint("give it once for all cards, or once for each");
        return CLI_USAGE;
    }
    if (cli_has(c, "solve") && n == 0) {
        cli_error("--solve %s: what fits depends on the card, and no --gpu is given", cli_value(c, "solve"));
        cli_hint("vram gpus lists the cards");
        return CLI_USAGE;
    }
    if (cli_has(c, "free") && !cli_has(c, "gpu")) {
        cli_error("--free says what is free on one card, but no --gpu is given");
        cli_hint("vram gpus lists the cards");
        return CLI_USAGE;
    }
    return cli_fit(c, c->operands[0]);
}

const cli_command cli_fit_command = {
    .name = "fit",
    .operands = "MODEL",
    .summary = "will it fit: where every byte goes, how it would die, what to change",
    .description =
        "Rehearses, from headers or a configuration alone: of transformers every allocation on an exact "
        "model "
        "of PyTorch's allocator; of llama.cpp and Ollama weights, caches and compute buffers as llama.cpp "
        "itself "
        "reckons them, for any layers, cache and cards. vLLM and SGLang: weights and cache. "
        "MODEL is a directory or a file of weights, a model of the Hugging Face hub (ORG/NAME), of "
        "ModelScope or Ollama, an address, a config.json, or a built-in model: see vram help model. Without "
        "--gpu it says on which cards the model fits. Where part of a run is not counted the verdict is "
        "unknown, and the reason is named.",
    .examples = "vram fit Qwen/Qwen2.5-7B-Instruct --gpu rtx-3060-12gb\n"
                "vram fit ./Qwen2.5-7B-Instruct --gpu 24GiB --context 16K --sequences 4\n"
                "vram fit bartowski/Qwen2.5-14B-Instruct-GGUF:Q4_K_M --gpu 4090\n"
                "vram fit ollama:qwen2.5:14b --gpu 24GiB\n"
                "vram fit --gpu 4090 -- llama-server -m Qwen3-32B-Q4_K_M.gguf -c 32768\n"
                "vram fit --gpu 4090 -- ollama run qwen3:32b\n"
                "vram fit qwen3-32b --gpu 80GiB\n"
                "vram fit Qwen3-30B-A3B-Q4_K_M.gguf --gpu 12GiB --solve experts -c 32K\n"
                "vram fit big-Q4_K_M.gguf --gpu 4090 --solve experts --host-memory 128GiB\n"
                "vram fit bartowski/Qwen2.5-14B-Instruct-GGUF --gpu 4090 --solve quant\n"
                "vram fit deepseek-v3 --engine all\n"
                "vram fit llama-3.3-70b-instruct --gpu 2x4090 --device-map auto\n"
                "vram fit example:qwen2.5-7b --gpu \"4090\" --free 21.5GiB --json",
    .least = 1,
    .most = 1,
    .run = run,
};
