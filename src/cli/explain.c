/* SPDX-License-Identifier: MIT
 *
 * `vram explain [FILE... | TEXT]`: what an out-of-memory error says.
 */
#include "cli.h"

static vram_status feed(vram_log *log, FILE *from)
{
    static char bytes[1 << 16];
    size_t n;

    while ((n = fread(bytes, 1, sizeof bytes, from)) != 0) {
        vram_status s = vram_log_feed(log, bytes, n);
        if (s != VRAM_OK)
            return s;
    }
    return VRAM_OK;
}

static int run(cli *c)
{
    vram_log *log = NULL;
    vram_diagnosis *d = NULL;
    vram_status s = vram_log_new(&log, c->ctx);

    if (s == VRAM_OK && c->n_operands == 0)
        s = feed(log, stdin);
    for (size_t i = 0; s == VRAM_OK && i < c->n_operands; i++) {
        FILE *f = fopen(c->operands[i], "rb");
        s = vram_log_file(log, c->operands[i]);
        if (s == VRAM_OK && f != NULL)
            s = feed(log, f);
        if (f != NULL)
            fclose(f);
    }
    if (s == VRAM_OK)
        s = vram_diagnosis_new(&d, log, NULL, NULL);
    if (s == VRAM_OK)
        s = vram_diagnosis_render(d, &c->style, cli_write, NULL);
    if (s != VRAM_OK)
        return cli_fail(c);
    return vram_diagnosis_recognised(d) ? CLI_YES : CLI_NO;
}

const cli_command cli_explain_command = {
    .name = "explain",
    .operands = "[FILE... | TEXT]",
    .summary = "what an out-of-memory error says: what ran out, where, and what to change",
    .description = "Reads a message, a traceback or a log.",
    .examples = "vram explain train.log",
    .least = 0,
    .most = SIZE_MAX,
    .run = run,
};
