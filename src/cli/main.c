/* SPDX-License-Identifier: MIT
 *
 * The command `vram`: finds the command, reads its options, runs it, and makes sure that what it wrote has
 * arrived.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const cli_command *const commands[] = {
#define X(name) &cli_##name##_command,
#include "commands.inc"
#undef X
};

const cli_command *cli_command_of(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

const cli_command *cli_command_at(size_t i)
{
    return i < sizeof commands / sizeof *commands ? commands[i] : NULL;
}

/* `vram --help` and `vram --version` are commands too. */
static const char *command_name(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return "version";
    return word;
}

static int no_command(const char *word)
{
    const char *names[sizeof commands / sizeof *commands], *near;
    size_t n = sizeof commands / sizeof *commands;

    for (size_t i = 0; i < n; i++)
        names[i] = commands[i]->name;
    near = vram_nearest(word, names, n);
    cli_error("there is no command '%s'", word);
    if (near != NULL)
        cli_hint("did you mean vram %s?", near);
    else if (strchr(word, '/') != NULL || strchr(word, '.') != NULL || strchr(word, ':') != NULL)
        cli_hint("for a model: vram fit %s", word);
    else
        cli_hint("vram help lists the commands");
    return CLI_USAGE;
}

static int run(cli *c)
{
    int status;

    if (cli_has(c, "help")) {
        cli_print_help(stdout, c->command);
        return CLI_YES;
    }
    c->style = cli_style(c);
    if (vram_io_new(&c->io) != VRAM_OK || vram_open(&c->ctx, vram_io_alloc, NULL) != VRAM_OK) {
        vram_io_free(c->io);
        cli_error("out of memory");
        return CLI_BROKEN;
    }
    cli_announce(true);
    status = c->command->run(c);
    cli_announce(false);
    cli_show_warnings(c);
    vram_close(c->ctx);
    vram_io_free(c->io);
    free(c->keep);
    return status;
}

/* "-vvv" is three settings in one word. */
static size_t most_settings(int argc, char **argv)
{
    size_t n = 1;

    for (int i = 1; i < argc; i++)
        n += strlen(argv[i]);
    return n;
}

int main(int argc, char **argv)
{
    cli c = { 0 };
    int status;

    if (argc < 2) {
        cli_print_overview(stderr);
        return CLI_USAGE;
    }
    c.command = cli_command_of(command_name(argv[1]));
    if (c.command == NULL)
        return no_command(argv[1]);
    c.settings = calloc(most_settings(argc, argv), sizeof *c.settings);
    c.operands = calloc((size_t)argc + 1, sizeof *c.operands); /* and one for --model */
    if (c.settings == NULL || c.operands == NULL) {
        cli_error("out of memory");
        status = CLI_BROKEN;
    } else {
        status = cli_parse(&c, argc - 1, argv + 1);
        if (status == CLI_YES)
            status = run(&c);
    }
    free(c.settings);
    free(c.operands);
    return cli_finish_output(status);
}
