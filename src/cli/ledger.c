/* SPDX-License-Identifier: MIT
 *
 * `vram ledger`: the same ledger from bare numbers, for several scenarios and card sizes side by side.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define FILE_MOST ((size_t)16 << 20) /* a file of scenarios is small */
#define STDIN_NAME "standard input"

static vram_status fail_stdin(cli *c, vram_status code, const char *text)
{
    return vram_fail(c->ctx, &(vram_error){ .code = code, .file = STDIN_NAME, .text = text });
}

/* Standard input may be a pipe: whatever comes, up to the limit. *n may be one over it. */
static vram_status read_stdin(cli *c, size_t *n)
{
    size_t room = 0;
    ssize_t got = 1;

    for (*n = 0; got != 0 && *n <= FILE_MOST; *n += (size_t)got) {
        if (*n == room) {
            room = room != 0 ? room * 2 : (size_t)1 << 16;
            char *more = realloc(c->keep, room);
            if (more == NULL)
                return fail_stdin(c, VRAM_ENOMEM, "out of host memory");
            c->keep = more;
        }
        do
            got = read(STDIN_FILENO, c->keep + *n, room - *n);
        while (got < 0 && errno == EINTR);
        if (got < 0)
            return fail_stdin(c, VRAM_EIO, strerror(errno));
    }
    return *n <= FILE_MOST ? VRAM_OK : fail_stdin(c, VRAM_ELIMIT, "this is over the limit of 16 MiB");
}

/* A pipe is only read where it is asked for: opening one could wait for ever. */
static vram_status pipe_hint(cli *c, vram_status s)
{
    vram_error e = *vram_last_error(c->ctx);

    if (s != VRAM_EUNSUPPORTED)
        return s;
    e.hint = "standard input is read with --scenario -";
    return vram_fail(c->ctx, &e);
}

static vram_status read_scenarios(cli *c, vram_scenario *s, const char *name)
{
    const void *bytes = NULL;
    size_t n = 0;
    vram_status status;

    if (strcmp(name, "-") == 0) {
        status = read_stdin(c, &n);
        return status == VRAM_OK ? vram_scenario_read(s, STDIN_NAME, c->keep, n) : status;
    }
    status = vram_io_read_file(&bytes, &n, c->io, c->ctx, name, FILE_MOST);
    return status == VRAM_OK ? vram_scenario_read(s, name, bytes, n) : pipe_hint(c, status);
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
    .summary = "as fit, from bare numbers; training too; scenarios and card sizes side by side",
    .description =
        "Six categories from the numbers that are given; what they do not tell is not counted and is called "
        "so. "
        "The verdict is over what is counted. Flags win over the file of scenarios (- is standard input).",
    .examples = "vram ledger --params 7B -c 4K --kv-bytes-per-token 512KiB --gpu-memory-gib 24\n"
                "vram ledger --params 7B --mode train --gpu-memory-gib 24,80\n"
                "vram ledger --scenario plans.json --gpu-memory-gib 24,80 --json",
    .least = 0,
    .most = 0,
    .run = run,
};
