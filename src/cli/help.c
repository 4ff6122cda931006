/* SPDX-License-Identifier: MIT
 *
 * `vram help [COMMAND]` and --help, written from the table of options.
 */
#include <string.h>

#include "cli.h"

#define WIDTH 80
#define COLUMN 30 /* where the explanations start */

static void append(char *text, size_t room, const char *before, const char *what, const char *after)
{
    size_t used = strlen(text);

    if (what != NULL && *what != '\0')
        snprintf(text + used, room - used, "%s%s%s", before, what, after);
}

/* "all|last" as "all, last", which can be wrapped */
static void spread(char *out, size_t room, const char *choices)
{
    size_t used = 0;

    for (; *choices != '\0' && used + 3 < room; choices++) {
        if (*choices == '|')
            out[used++] = ',';
        out[used++] = *choices == '|' ? ' ' : *choices;
    }
    out[used] = '\0';
}

static void print_option(FILE *to, const vram_option *o)
{
    cli_names names;
    char left[96], choices[128] = "", text[640];
    int n;

    cli_names_of(&names, o);
    n = snprintf(left, sizeof left, "  %-3s%s%s%s%s", names.short_name, *names.short_name != '\0' ? "" : " ",
                 names.long_name, o->argument != NULL ? " " : "", o->argument != NULL ? o->argument : "");
    fprintf(to, "%-*s", COLUMN, left);
    if (n + 1 > COLUMN)
        fprintf(to, "\n%*s", COLUMN, "");
    if (o->choices != NULL)
        spread(choices, sizeof choices, o->choices);
    snprintf(text, sizeof text, "%s", o->help);
    append(text, sizeof text, strchr(choices, ',') != NULL ? " One of " : " Only ", choices, ".");
    append(text, sizeof text, " Default: ", o->fallback, ".");
    append(text, sizeof text, " Also ", names.aliases, ".");
    cli_wrap(to, text, COLUMN, COLUMN, WIDTH);
}

static void print_examples(FILE *to, const char *examples)
{
    fprintf(to, "\nexamples\n");
    while (*examples != '\0') {
        size_t n = strcspn(examples, "\n");
        fprintf(to, "  %.*s\n", (int)n, examples);
        examples += n + (examples[n] == '\n');
    }
}

void cli_print_help(FILE *to, const cli_command *command)
{
    cli_table t;
    const char *group = "";

    cli_table_of(&t, command->name);
    fprintf(to, "usage: vram %s%s%s [options]\n\n", command->name, *command->operands != '\0' ? " " : "",
            command->operands);
    cli_wrap(to, command->description, 0, 0, WIDTH);
    for (size_t i = 0; i < t.n; i++) {
        if (strcmp(group, t.rows[i].group) != 0)
            fprintf(to, "\n%s\n", t.rows[i].group);
        group = t.rows[i].group;
        print_option(to, t.rows[i].option);
    }
    print_examples(to, command->examples);
}

void cli_print_overview(FILE *to)
{
    fprintf(to, "vram says whether a model fits a GPU, where every byte goes, how a load would\n"
                "die, and what to change. It reads headers: nothing is loaded, no GPU is needed.\n\n");
    for (size_t i = 0; cli_command_at(i) != NULL; i++) {
        const cli_command *command = cli_command_at(i);
        char left[48];
        snprintf(left, sizeof left, "vram %s %s", command->name, command->operands);
        int at = fprintf(to, "  %-21s ", left);
        cli_wrap(to, command->summary, at > 0 ? (size_t)at : 24, 24, WIDTH);
    }
    fprintf(to, "\nStart with  vram example\n"
                "Options of a command:  vram help COMMAND\n"
                "More:  vram help model, formats, engines, environment\n"
                "MODEL is a path, ORG/NAME of the hub, or a name of vram models\n"
                "Exit status: 0 it fits, or done; 1 it does not; 2 wrong usage; 3 damaged input,\n"
                "             or unknown; 4 not reachable; 5 out of memory or a bug\n");
}

static void say_what_there_is(const char *word)
{
    const char *names[32], *near;
    size_t n = 0;

    for (size_t i = 0; cli_topic_at(i) != NULL; i++)
        names[n++] = cli_topic_at(i)->name;
    for (size_t i = 0; cli_command_at(i) != NULL; i++)
        names[n++] = cli_command_at(i)->name;
    near = vram_nearest(word, names, n);
    if (near != NULL)
        cli_hint("did you mean vram help %s?", near);
    else
        cli_hint("vram help lists the commands");
}

static int run(cli *c)
{
    const cli_command *command;
    const cli_topic *topic;

    if (c->n_operands == 0) {
        cli_print_overview(stdout);
        return CLI_YES;
    }
    topic = cli_topic_of(c->operands[0]);
    if (topic != NULL) {
        cli_print_topic(stdout, topic);
        return CLI_YES;
    }
    command = cli_command_of(c->operands[0]);
    if (command == NULL) {
        cli_error("there is no command '%s'", c->operands[0]);
        say_what_there_is(c->operands[0]);
        return CLI_USAGE;
    }
    cli_print_help(stdout, command);
    return CLI_YES;
}

const cli_command cli_help_command = {
    .name = "help",
    .operands = "[WORD]",
    .summary = "shows the options of a command, or a topic",
    .description =
        "Shows the commands, the options of one, or a topic: model, formats, engines, environment.",
    .examples = "vram help\n"
                "vram help fit\n"
                "vram help model",
    .least = 0,
    .most = 1,
    .run = run,
};
