/* SPDX-License-Identifier: MIT
 *
 * `vram man`: the manual page vram(1) in man(7) macros, written from the table of options.
 */
#include <string.h>

#include "cli.h"

/* Text with roff's special characters escaped; no line may begin with a dot or an apostrophe. */
static void text(const char *s)
{
    if (*s == '.' || *s == '\'')
        fputs("\\&", stdout);
    for (; *s != '\0'; s++) {
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '-')
            fputs("\\-", stdout);
        else if (*s == '~')
            fputs("\\(ti", stdout);
        else if (*s == '^')
            fputs("\\(ha", stdout);
        else if (*s == '"')
            fputs("\\(dq", stdout);
        else
            putchar(*s);
    }
}

static void option(const vram_option *o)
{
    const char *list = o->flags, *comma = "";
    char word[48];

    printf(".TP\n");
    while (cli_word(&list, word, sizeof word)) {
        printf("%s\\fB", comma);
        text(word);
        printf("\\fR");
        comma = ", ";
    }
    if (o->argument != NULL) {
        printf(" \\fI");
        text(o->argument);
        printf("\\fR");
    }
    putchar('\n');
    text(o->help);
    if (o->choices != NULL) {
        printf("\nOne of ");
        text(o->choices);
        putchar('.');
    }
    if (o->fallback != NULL) {
        printf("\nDefault: ");
        text(o->fallback);
        putchar('.');
    }
    putchar('\n');
}

static void examples(const char *lines)
{
    printf(".PP\nExamples:\n.PP\n.nf\n");
    while (*lines != '\0') {
        char line[256];
        size_t n = strcspn(lines, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, lines);
        text(line);
        putchar('\n');
        lines += n + (lines[n] == '\n');
    }
    printf(".fi\n");
}

static void command(const cli_command *c)
{
    cli_table t;
    const char *group = "";

    cli_table_of(&t, c->name);
    printf(".SS vram %s%s", c->name, *c->operands != '\0' ? " " : "");
    text(c->operands);
    putchar('\n');
    text(c->description);
    putchar('\n');
    for (size_t i = 0; i < t.n; i++) {
        if (strcmp(t.rows[i].group, group) != 0) {
            group = t.rows[i].group;
            printf(".PP\n");
            text(group);
            printf(":\n");
        }
        option(t.rows[i].option);
    }
    examples(c->examples);
}

static void synopsis(void)
{
    printf(".SH SYNOPSIS\n");
    for (size_t i = 0; cli_command_at(i) != NULL; i++) {
        const cli_command *c = cli_command_at(i);
        printf("%s\\fBvram %s\\fR%s", i != 0 ? ".br\n" : "", c->name, *c->operands != '\0' ? " " : "");
        text(c->operands);
        printf(" [options]\n");
    }
}

static void topic(const cli_topic *t)
{
    printf(".SH %s\n", t->heading);
    text(t->intro);
    putchar('\n');
    for (size_t i = 0; i < t->n; i++) {
        printf(".TP\n\\fB");
        text(t->terms[i].term);
        printf("\\fR\n");
        text(t->terms[i].text);
        putchar('\n');
    }
}

static void statuses(void)
{
    static const char *const meaning[] = {
        "It fits, or done. A tight fit too, with a warning; with \\-\\-strict that is 1.",
        "It does not fit, or nothing was found.",
        "Wrong usage.",
        "The input is damaged or not supported, or the verdict is unknown.",
        "Not reachable: no such file or model, no permission, no network, output.",
        "Out of host memory, or an internal error.",
    };

    printf(".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof meaning / sizeof *meaning; i++)
        printf(".TP\n%zu\n%s\n", i, meaning[i]);
}

static int run(cli *c)
{
    (void)c;
    printf(".TH VRAM 1 2026-01-01 \"vram " VRAM_VERSION "\" \"User Commands\"\n"
           ".SH NAME\nvram \\- will a model fit a GPU, and where does every byte go\n");
    synopsis();
    printf(".SH DESCRIPTION\n"
           "Plays the memory allocations of an engine on an exact model of its allocator and reads off "
           "whether a model fits a\n"
           "card, what every byte is for, how a load would die and what to change.\n"
           "Only the headers of a checkpoint are read; no GPU is needed.\n"
           ".SH COMMANDS\n");
    for (size_t i = 0; cli_command_at(i) != NULL; i++)
        command(cli_command_at(i));
    statuses();
    for (size_t i = 0; cli_topic_at(i) != NULL; i++)
        topic(cli_topic_at(i));
    return CLI_YES;
}

const cli_command cli_man_command = {
    .name = "man",
    .operands = "",
    .summary = "prints the manual page",
    .description = "Prints the manual page vram(1).",
    .examples = "vram man | man -l -",
    .least = 0,
    .most = 0,
    .run = run,
};
