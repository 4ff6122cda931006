/* SPDX-License-Identifier: MIT
 *
 * `vram gpus [WORD...]`: cards of the table, with their three sizes.
 */
#include "cli.h"

static int run(cli *c)
{
    return cli_list(c, vram_gpus_render);
}

const cli_command cli_gpus_command = {
    .name = "gpus",
    .operands = "[WORD...]",
    .summary = "the table of cards: the size on the box, in nvidia-smi, and for programs",
    .description = "Lists the cards whose id or name holds every WORD. A card has three sizes: the number on "
                   "the box, what "
                   "nvidia-smi shows, and what CUDA gives to programs. The last one counts. Verdicts are for "
                   "NVIDIA cards only: how "
                   "programs use the memory of others is not modelled yet.",
    .examples = "vram gpus\n"
                "vram gpus 4090\n"
                "vram gpus rtx 16gb --json",
    .least = 0,
    .most = SIZE_MAX,
    .run = run,
};
