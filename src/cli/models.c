/* SPDX-License-Identifier: MIT
 *
 * `vram models [WORD...]`: the published models that are built in.
 */
#include "cli.h"

static int run(cli *c)
{
    return cli_list(c, vram_models_render);
}

const cli_command cli_models_command = {
    .name = "models",
    .operands = "[WORD...]",
    .summary = "the published models that are built in: name one, and no file is read",
    .description =
        "Lists the built-in models of which a name holds every WORD. Any of these names is a MODEL: "
        "its figures come from its published configuration, without files or network. The weights "
        "of some are not known without files; they are shown as -.",
    .examples = "vram models\n"
                "vram models qwen3\n"
                "vram models llama 70b -v\n"
                "vram models gemma --json",
    .least = 0,
    .most = SIZE_MAX,
    .run = run,
};
