/* SPDX-License-Identifier: MIT
 *
 * `vram gpus [WORD...]`: cards of the table, with their three sizes.
 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* The operands as one search text; NULL when memory runs out. */
static char *joined(const cli *c)
{
    size_t n = 1, used = 0;
    char *text;

    for (size_t i = 0; i < c->n_operands; i++)
        n += strlen(c->operands[i]) + 1;
    text = malloc(n);
    if (text == NULL)
        return NULL;
    text[0] = '\0';
    for (size_t i = 0; i < c->n_operands; i++)
        used += (size_t)snprintf(text + used, n - used, "%s%s", i != 0 ? " " : "", c->operands[i]);
    return text;
}

static int run(cli *c)
{
    char *search = joined(c);
    vram_status s;

    if (search == NULL) {
        cli_error("out of memory");
        return CLI_BROKEN;
    }
    s = vram_gpus_render(c->ctx, *search != '\0' ? search : NULL, &c->style, cli_write, NULL);
    free(search);
    if (s == VRAM_OK)
        return CLI_YES;
    cli_fail(c);
    return s == VRAM_ENOTFOUND ? CLI_NO : vram_exit_status(s);
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
