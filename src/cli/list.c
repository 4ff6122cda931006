/* SPDX-License-Identifier: MIT
 *
 * What the commands that list a table share: `vram gpus [WORD...]`, `vram models [WORD...]`.
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

int cli_list(cli *c, cli_render_fn render)
{
    char *search = joined(c);
    vram_status s;

    if (search == NULL) {
        cli_error("out of memory");
        return CLI_BROKEN;
    }
    s = render(c->ctx, *search != '\0' ? search : NULL, &c->style, cli_write, NULL);
    free(search);
    if (s == VRAM_OK)
        return CLI_YES;
    cli_fail(c);
    return s == VRAM_ENOTFOUND ? CLI_NO : vram_exit_status(s);
}
