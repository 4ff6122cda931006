/* SPDX-License-Identifier: MIT
 *
 * `vram version`.
 */
#include "cli.h"

static int run(cli *c)
{
    (void)c;
    puts("vram " VRAM_VERSION);
    return CLI_YES;
}

const cli_command cli_version_command = {
    .name = "version",
    .operands = "",
    .summary = "prints the version",
    .description = "Prints the version.",
    .examples = "vram version",
    .least = 0,
    .most = 0,
    .run = run,
};
