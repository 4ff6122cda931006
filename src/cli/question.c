/* SPDX-License-Identifier: MIT
 *
 * What a rehearsal is made of: the model with what lies beside it, the workload and the cards, as the command
 * line names them.
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

bool cli_seeks_quant(const cli *c)
{
    return cli_has(c, "solve") && strcmp(cli_value(c, "solve"), "quant") == 0;
}

vram_status cli_prepare(cli *c, const char *engine, cli_question *q)
{
    vram_status s = vram_workload_new(&q->workload, c->ctx, engine);

    q->n_devices = cli_count(c, "gpu");
    if (s == VRAM_OK)
        s = set_workload(c, q->workload);
    if (s == VRAM_OK && cli_has(c, "solve") && !cli_seeks_quant(c))
        s = vram_workload_solve(q->workload, cli_value(c, "solve"));
    if (s == VRAM_OK)
        s = make_devices(c, q->devices, q->n_devices);
    return s;
}

vram_status cli_ask(cli *c, const char *name, const char *engine, cli_question *q)
{
    vram_checkpoint *checkpoint = NULL;
    vram_status s = cli_prepare(c, engine, q);

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
