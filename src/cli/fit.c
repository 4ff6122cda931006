/* SPDX-License-Identifier: MIT
 *
 * `vram fit MODEL`: ledger, verdict, levers.
 */
#include <string.h>

#include "cli.h"

static int compare(cli *c, const char *model)
{
    cli_question q = { .model = NULL };
    vram_comparison *comparison = NULL;
    vram_status s;

    if (cli_has(c, "engine_version")) {
        cli_error(
            "--engine-version says which version of one engine, and --engine all takes every engine's own");
        return CLI_USAGE;
    }
    s = cli_ask(c, model, NULL, &q);

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
    cli_question q = { .model = NULL };
    vram_fit *fit = NULL;
    vram_status s;

    if (engine != NULL && strcmp(engine, "all") == 0)
        return compare(c, model);
    if (cli_seeks_quant(c)) {
        s = cli_prepare(c, engine, &q);
        if (s == VRAM_OK)
            s = cli_quants(c, model, q.workload, (const vram_device *const *)q.devices, q.n_devices, &fit);
    } else {
        s = cli_ask(c, model, engine, &q);
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

    if (n > CLI_CARDS) {
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
