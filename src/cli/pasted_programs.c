/* SPDX-License-Identifier: MIT
 *
 * The programs whose commands are understood, and what each takes when nothing is said.
 *
 * Source: llama.cpp b10470, common/arg.cpp, tools/server (slots), tools/llama-bench; Ollama 0.33,
 * envconfig/config.go, cmd/cmd.go, api/types.go.
 */
#include <stdlib.h>
#include <string.h>

#include "pasted.h"

#define X(names, env, values, does, to) { names, env, values, does, to },
static const pasted_flag llama[] = {
#include "pasted_llama.inc"
};
static const pasted_flag bench[] = {
#include "pasted_bench.inc"
};
#undef X

/* ---- llama.cpp ---- */

#define UNSAID UINT64_MAX

/* Of each sequence is one's own -c, of all together the pasted one. */
static bool own_context(const pasted *p)
{
    return cli_has(p->c, "context") || cli_has(p->c, "n_ctx");
}

/* -c is of all sequences together; what is not said --fit decides, which is on by default. */
static void set_context(pasted *p)
{
    bool tries = strcmp(p->program->tool, "fit-params") != 0 || (p->context == 0 && !own_context(p));

    if ((p->context != 0 || p->as_trained) && !own_context(p))
        pasted_set_number(p, "n_ctx", p->context);
    if (tries && !pasted_has(p, "fit"))
        pasted_set(p, "fit", "on");
}

static void finish_llama(pasted *p)
{
    if (p->parallel != 0)
        pasted_set_number(p, "sequences", p->parallel);
    set_context(p);
}

static void begin_bench(pasted *p)
{
    p->prompt = p->generate = UNSAID;
}

/* A context for each test: a prompt, or what is generated, or both behind each other. */
static void finish_bench(pasted *p)
{
    uint64_t prompt = p->prompt == UNSAID ? 512 : p->prompt,
             generate = p->generate == UNSAID ? 128 : p->generate;
    uint64_t most = prompt > generate ? prompt : generate;

    if (p->pair > most)
        most = p->pair;
    most = p->depth > UINT64_MAX - most ? UINT64_MAX : most + p->depth; /* refused later */
    if (!own_context(p))
        pasted_set_number(p, "n_ctx", most == 0 ? 1 : most);
}

/* ---- Ollama ---- */

/* Variables stand before the command; all are of the server. */
static const pasted_flag ollama_run[] = {
    { "--keepalive", "OLLAMA_KEEP_ALIVE", ONE, NOTHING, NULL },
    { "--format", NULL, ONE, NOTHING, NULL },
    { "--dimensions", NULL, ONE, NOTHING, NULL },
    { "--think", NULL, NONE, NOTHING, NULL },
    { "--truncate", NULL, NONE, NOTHING, NULL },
    { "--verbose", NULL, NONE, NOTHING, NULL },
    { "--insecure", NULL, NONE, NOTHING, NULL },
    { "--nowordwrap", NULL, NONE, NOTHING, NULL },
    { "--hidethinking", NULL, NONE, NOTHING, NULL },
    { "--experimental", NULL, NONE, NOTHING, NULL },
    { "", "OLLAMA_CONTEXT_LENGTH", ONE, SET, "context" },
    { "", "OLLAMA_NUM_PARALLEL", ONE, SET, "sequences" },
    { "", "OLLAMA_KV_CACHE_TYPE", ONE, SET, "kv_cache_type" },
    { "", "OLLAMA_FLASH_ATTENTION", ONE, SET, "flash_attn" },
    { "", "OLLAMA_GPU_OVERHEAD", ONE, SET, "gpu_overhead" },
    { "", "OLLAMA_SCHED_SPREAD", ONE, SET, "sched_spread" },
    { "", "LLAMA_ARG_FIT_TARGET", ONE, SET, "fit_target" },
    { "", "LLAMA_ARG_FIT", ONE, SET, "fit" },
};

static void ollama_operand(pasted *p, const char *word)
{
    static char name[512];

    if (p->model != NULL || strcmp(p->program->name, "ollama serve") == 0)
        return; /* a prompt */
    if (strncmp(word, "hf.co/", 6) == 0 || strncmp(word, "huggingface.co/", 15) == 0)
        p->model = word;
    else if (snprintf(name, sizeof name, "ollama:%s", word) < (int)sizeof name)
        p->model = name;
}

/* ---- the list ---- */

#define LLAMA .engine = "llama.cpp", .flags = llama, .n_flags = sizeof llama / sizeof *llama
#define OLLAMA .engine = "ollama", .flags = ollama_run, .n_flags = sizeof ollama_run / sizeof *ollama_run

static const pasted_program programs[] = {
    { .name = "llama-server", LLAMA, .tool = "server", .finish = finish_llama },
    { .name = "llama serve", LLAMA, .tool = "server", .finish = finish_llama },
    { .name = "llama server", LLAMA, .tool = "server", .finish = finish_llama },
    { .name = "llama-cli", LLAMA, .tool = "cli", .finish = finish_llama },
    { .name = "llama cli", LLAMA, .tool = "cli", .finish = finish_llama },
    { .name = "llama-completion", LLAMA, .tool = "cli", .finish = finish_llama },
    { .name = "llama-mtmd-cli", LLAMA, .tool = "cli", .finish = finish_llama },
    { .name = "llama-fit-params", LLAMA, .tool = "fit-params", .finish = finish_llama },
    { .name = "llama fit-params", LLAMA, .tool = "fit-params", .finish = finish_llama },
    { .name = "llama-bench",
      .engine = "llama.cpp",
      .tool = "bench",
      .flags = bench,
      .n_flags = sizeof bench / sizeof *bench,
      .begin = begin_bench,
      .finish = finish_bench },
    { .name = "ollama run", OLLAMA, .operand = ollama_operand },
    { .name = "ollama serve", OLLAMA, .operand = ollama_operand },
    { .name = "ollama start", OLLAMA, .operand = ollama_operand },
};

const pasted_program *pasted_program_at(size_t i)
{
    return i < sizeof programs / sizeof *programs ? &programs[i] : NULL;
}
