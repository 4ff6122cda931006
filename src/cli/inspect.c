/* SPDX-License-Identifier: MIT
 *
 * `vram inspect MODEL`: what is in the checkpoint.
 */
#include "cli.h"

static int run(cli *c)
{
    vram_checkpoint *checkpoint = NULL;
    vram_model *model = NULL;
    vram_status s = cli_open_checkpoint(c, c->operands[0], &checkpoint);

    if (s == VRAM_OK)
        s = vram_model_new(&model, checkpoint);
    if (s == VRAM_OK)
        s = vram_inspect_render(model, &c->style, cli_write, NULL);
    if (s != VRAM_OK)
        return cli_fail(c);
    if (vram_checkpoint_complete(checkpoint))
        return CLI_YES;
    cli_show_warnings(c);
    cli_error("%s: incomplete: files of this checkpoint are missing, and what is in them is not counted",
              c->operands[0]);
    return CLI_UNKNOWN;
}

const cli_command cli_inspect_command = {
    .name = "inspect",
    .operands = "MODEL",
    .summary = "what is in the checkpoint: tensors, types, bytes by part, cost of a token",
    .description =
        "Reads the headers of a checkpoint and nothing else of it: safetensors, GGUF, PyTorch, pipelines, "
        "adapters. MODEL is a directory or a file of weights, a model of the Hugging Face hub (ORG/NAME), of "
        "ModelScope or Ollama, an address, a config.json, or a built-in model: see vram help model.",
    .examples = "vram inspect Qwen/Qwen2.5-7B-Instruct\n"
                "vram inspect ./models --file Q4_K_M\n"
                "vram inspect ./model.gguf --json | jq .metadata\n"
                "vram inspect https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/tree/main\n"
                "vram inspect ./Qwen2.5-7B-Instruct --tensors | sort -n | tail\n"
                "vram inspect ./Qwen2.5-7B-Instruct --json | jq .checkpoint_bytes",
    .least = 1,
    .most = 1,
    .run = run,
};
