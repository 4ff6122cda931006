/* SPDX-License-Identifier: MIT
 *
 * `vram ledger`: the same ledger from bare numbers, for several scenarios and card sizes side by side.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define FILE_MOST ((size_t)16 << 20) /* a file of scenarios is small */

static vram_status fail_file(cli *c, const char *file, vram_status code, const char *text)
{
    return vram_fail(c->ctx, &(vram_error){ .code = code, .file = file, .text = text });
}

/* The whole of a file, or of stdin for "-"; NULL and the context's error otherwise. */
static char *read_all(cli *c, const char *name, FILE *from, size_t *n)
{
    size_t room = 1 << 16, got;
    char *bytes = malloc(room), *more;

    *n = 0;
    while (bytes != NULL && (got = fread(bytes + *n, 1, room - *n, from)) != 0) {
        *n += got;
        if (*n < room)
            continue;
        more = room < FILE_MOST ? realloc(bytes, room * 2) : NULL;
        if (more == NULL) {
            free(bytes);
            fail_file(c, name, room < FILE_MOST ? VRAM_ENOMEM : VRAM_ELIMIT,
                      room < FILE_MOST ? "out of host memory"
                                       : "is over 16 MiB, more than a file of scenarios needs");
            return NULL;
        }
        bytes = more;
        room *= 2;
    }
    if (bytes == NULL)
        fail_file(c, name, VRAM_ENOMEM, "out of host memory");
    if (bytes != NULL && ferror(from)) {
        fail_file(c, name, VRAM_EIO, strerror(errno));
        free(bytes);
        return NULL;
    }
    return bytes;
}

static vram_status read_scenarios(cli *c, vram_scenario *s, const char *name)
{
    bool from_stdin = strcmp(name, "-") == 0;
    FILE *from = from_stdin ? stdin : fopen(name, "rb");
    size_t n;

    if (from == NULL)
        return fail_file(c, name, errno == ENOENT ? VRAM_ENOTFOUND : VRAM_EIO, strerror(errno));
    c->keep = read_all(c, from_stdin ? "standard input" : name, from, &n);
    if (!from_stdin)
        fclose(from);
    if (c->keep == NULL)
        return vram_last_error(c->ctx)->code;
    return vram_scenario_read(s, from_stdin ? "standard input" : name, c->keep, n);
}

static vram_status solve(cli *c, vram_scenario **out)
{
    const char *file = cli_value(c, "scenario");
    vram_status s = vram_scenario_new(out, c->ctx);

    if (s == VRAM_OK && file != NULL)
        s = read_scenarios(c, *out, file);
    for (size_t i = 0; i < c->n_settings && s == VRAM_OK; i++) {
        const cli_setting *g = &c->settings[i];
        if (g->row->from == CLI_SCENARIO && strcmp(g->row->option->key, "scenario") != 0)
            s = vram_scenario_set(*out, g->row->option->key, g->value);
    }
    return s == VRAM_OK ? vram_scenario_solve(*out) : s;
}

static int run(cli *c)
{
    vram_scenario *scenario = NULL;
    vram_status s;

    if (cli_count(c, "scenario") > 1) {
        cli_error("--scenario was given more than once");
        cli_hint("one file can hold several scenarios: {\"scenarios\": [{...}, {...}]}");
        return CLI_USAGE;
    }
    s = solve(c, &scenario);
    if (s == VRAM_OK)
        s = vram_scenario_render(scenario, &c->style, cli_write, NULL);
    return s == VRAM_OK ? cli_verdict_status(c, vram_scenario_verdict(scenario)) : cli_fail(c);
}

const cli_command cli_ledger_command = {
    .name = "ledger",
    .operands = "",
    .summary = "the same from bare numbers, several scenarios and card sizes side by side",
    .description =
        "Six categories from the numbers that are given; what they do not tell is not counted and is called "
        "so. "
        "The verdict is over what is counted. Flags win over the file of scenarios (- is standard input).",
    .examples = "vram ledger --params 7B --context 4K --kv-bytes-per-token 512KiB --gpu-memory-gib 24\n"
                "vram ledger --params 7B --mode train --gpu-memory-gib 24,80\n"
                "vram ledger --scenario plans.json --gpu-memory-gib 24,80 --json",
    .least = 0,
    .most = 0,
    .run = run,
};
