/* SPDX-License-Identifier: MIT
 *
 * One table of options for each command: rows of the command line and rows of the library's settings. The
 * same table is read by the parser (getopt_long), help, completion and manual.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define WHAT_IS_KNOWN "what is known" /* of a failure; stands first, as does the card */

static const struct {
    vram_option option;
    const char *group;
} own[] = {
    { { "symptom", "--symptom", VRAM_OPT_STRING, "WORDS", NULL, NULL,
        "What was seen, in plain words, where there is no message or beside it: \"fine for hours, then "
        "dies\", \"memory still full after del\".",
        "explain", 0, 0 },
      WHAT_IS_KNOWN },
    { { "model", "--model -m -hf --hf-repo --model-id --model-path", VRAM_OPT_STRING, "MODEL", NULL, NULL,
        "The model that ran: its load or run is rehearsed, and the place is found whose figures are those of "
        "the message. The settings below, or the command that ran behind --, say how it ran.",
        "explain", 0, 0 },
      WHAT_IS_KNOWN },
    { { "gpu", "--gpu", VRAM_OPT_STRING, "CARD", NULL, "the total that the message names",
        "The card that ran out, for the rehearsal: an id or a part of a name (see vram gpus), or a size.",
        "explain", 0, 0 },
      WHAT_IS_KNOWN },
    { { "free", "--free", VRAM_OPT_BYTES, "BYTES", NULL, "what the message tells",
        "Bytes free on that card before the program started.", "explain", 0, 0 },
      WHAT_IS_KNOWN },
    { { "gpu", "--gpu", VRAM_OPT_STRING, "CARD", NULL, "every card of the table",
        "The card: the id of an NVIDIA card or a part of its name (see vram gpus), or a bare size such as "
        "24GiB. Several cards: a count in front (2x4090), or the option again; --device-map says how the "
        "model is spread. none (llama.cpp, ollama): no GPU, all in the computer's memory.",
        "fit", 0, 0 },
      "the card" },
    { { "free", "--free", VRAM_OPT_BYTES, "BYTES", NULL, "all that CUDA gives",
        "Bytes free on the card before this program starts, as nvidia-smi shows them: 11.5GiB. Of several "
        "cards "
        "once for all or once for each.",
        "fit", 0, 0 },
      "the card" },
    { { "model", "--model -m -hf --hf-repo --model-id --model-path", VRAM_OPT_STRING, "MODEL", NULL, NULL,
        "The model, for those who are used to naming it with an option.", "fit inspect", 0, 0 },
      "the model" },
    { { "revision", "--revision", VRAM_OPT_STRING, "REV", NULL, "what the name says, else main",
        "Branch, tag or commit of a repository.", "fit inspect explain", 0, 0 },
      "the model" },
    { { "file", "--file", VRAM_OPT_STRING, "PATTERN", NULL, NULL,
        "Of several models in one place, the one whose files match: *Q4_K_M*, or a part of the name.",
        "fit inspect explain", 0, 0 },
      "the model" },
    { { "offline", "--offline", VRAM_OPT_FLAG, NULL, NULL, NULL,
        "Asks no server: only files, local stores and the headers that were read before.",
        "fit inspect explain", 0, 0 },
      "the model" },
    { { "refresh", "--refresh", VRAM_OPT_FLAG, NULL, NULL, NULL,
        "Reads headers anew, whatever was read before.", "fit inspect explain", 0, 0 },
      "the model" },
    { { "allow_http", "--allow-http", VRAM_OPT_FLAG, NULL, NULL, NULL,
        "Also asks servers without encryption; on this computer they are asked in any case.",
        "fit inspect explain", 0, 0 },
      "the model" },
    { { "strict", "--strict", VRAM_OPT_FLAG, NULL, NULL, NULL, "A tight fit is a failure: exit status 1.",
        "fit ledger", 0, 0 },
      "the answer" },
    { { "solve", "--solve", VRAM_OPT_CHOICE, "WHAT", "ngl|context|sequences|experts|cache|ubatch|split|quant",
        NULL,
        "Seeks the most that fits in llama.cpp (in ollama: as a whole on the card), and what to type for it: "
        "layers on the card (ngl), tokens of "
        "context, sequences at once, layers whose experts are on the card, bits of the cache, tokens "
        "computed "
        "at once (ubatch), the best split over several cards, or the largest quantisation of a repository or "
        "folder (quant).",
        "fit", 0, 0 },
      "the answer" },
    { { "tensors", "--tensors", VRAM_OPT_FLAG, NULL, NULL, NULL, "Lists every tensor.", "inspect", 0, 0 },
      "the answer" },
    { { "json", "--json", VRAM_OPT_FLAG, NULL, NULL, NULL, "Writes JSON, bytes exact.",
        "fit inspect ledger explain gpus models", 0, 0 },
      "the answer" },
    { { "verbose", "--verbose -v", VRAM_OPT_FLAG, NULL, NULL, NULL,
        "Shows the details: every figure to the byte with its formula or meaning, the course of the run, all "
        "changes.",
        "fit inspect ledger explain gpus models example", 0, 0 },
      "the answer" },
    { { "color", "--color --colour", VRAM_OPT_CHOICE, "WHEN", "auto|always|never", "auto",
        "Colour; always also means the form of a terminal, for pagers. NO_COLOR is obeyed.",
        "fit inspect ledger explain gpus models example", 0, 0 },
      "the answer" },
    { { "help", "--help -h", VRAM_OPT_FLAG, NULL, NULL, NULL, "Shows this help.",
        "fit inspect ledger explain gpus models example completion man help version", 0, 0 },
      "the answer" },
};

/* ---- names ---- */

bool cli_word(const char **list, char *word, size_t room)
{
    const char *s = *list + strspn(*list, " ");
    size_t n = strcspn(s, " ");

    if (n == 0 || n >= room)
        return false;
    memcpy(word, s, n);
    word[n] = '\0';
    *list = s + n;
    return true;
}

static bool lists(const char *list, const char *name)
{
    char word[48];

    while (list != NULL && cli_word(&list, word, sizeof word))
        if (strcmp(word, name) == 0)
            return true;
    return false;
}

void cli_names_of(cli_names *out, const vram_option *o)
{
    const char *list = o->flags;
    char word[48];

    *out = (cli_names){ .long_name = "" };
    while (list != NULL && cli_word(&list, word, sizeof word)) {
        size_t used = strlen(out->aliases);
        if (word[1] == '-' && *out->long_name == '\0')
            memcpy(out->long_name, word, strlen(word) + 1);
        else if (strlen(word) == 2 && *out->short_name == '\0')
            memcpy(out->short_name, word, 3);
        else if (used + strlen(word) + 2 <= sizeof out->aliases)
            snprintf(out->aliases + used, sizeof out->aliases - used, "%s%s", used != 0 ? " " : "", word);
    }
}

static bool has_key(const cli_table *t, const char *key)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->rows[i].option->key, key) == 0)
            return true;
    return false;
}

static void add(cli_table *t, const vram_option *o, const char *group, cli_from from, const char *command)
{
    if (t->n < CLI_ROWS && o->flags != NULL && lists(o->commands, command) && !has_key(t, o->key))
        t->rows[t->n++] = (cli_row){ o, group, from };
}

/* How a model ran is said with the settings of `vram fit`. */
static const char *settings_of(const char *command)
{
    return strcmp(command, "explain") == 0 ? "fit" : command;
}

void cli_table_of(cli_table *out, const char *command)
{
    size_t n;
    const vram_option *rows;

    out->n = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i].group, "the card") == 0 || strcmp(own[i].group, WHAT_IS_KNOWN) == 0)
            add(out, &own[i].option, own[i].group, CLI_OWN, command);
    for (size_t i = 0; (rows = vram_workload_option(i)) != NULL; i++)
        add(out, rows, "what is run", CLI_WORKLOAD, settings_of(command));
    rows = vram_scenario_options(&n);
    for (size_t i = 0; i < n; i++)
        add(out, &rows[i], "the numbers", CLI_SCENARIO, command);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        add(out, &own[i].option, own[i].group, CLI_OWN, command);
}

/* ---- for getopt_long ---- */

#define NAMES_MOST 256
#define FIRST_VALUE 1000 /* above every character */

typedef struct names {
    struct option longs[NAMES_MOST + 1];
    char shorts[2 * NAMES_MOST + 2];
    const char *known[NAMES_MOST]; /* as typed, for guesses */
    char text[NAMES_MOST][48];
    const cli_row *row_of_short[128];
    size_t n;
} names;

static void add_name(names *g, const cli_row *row, int value, const char *word)
{
    bool flag = row->option->type == VRAM_OPT_FLAG;
    size_t used = strlen(g->shorts);

    if (g->n == NAMES_MOST)
        return;
    memcpy(g->text[g->n], word, strlen(word) + 1);
    if (word[1] != '-' && word[2] == '\0') {
        g->row_of_short[(unsigned char)word[1] & 127] = row;
        snprintf(g->shorts + used, sizeof g->shorts - used, "%c%s", word[1], flag ? "" : ":");
        return;
    }
    g->known[g->n] = g->text[g->n];
    g->longs[g->n] = (struct option){ g->text[g->n] + (word[1] == '-' ? 2 : 1),
                                      flag ? no_argument : required_argument, NULL, value };
    g->n++;
}

static void collect(names *g, const cli_table *t)
{
    *g = (names){ .shorts = ":" };
    for (size_t i = 0; i < t->n; i++) {
        const char *list = t->rows[i].option->flags;
        char word[48];
        while (cli_word(&list, word, sizeof word))
            add_name(g, &t->rows[i], FIRST_VALUE + (int)i, word);
    }
}

static int unknown(const cli *c, const names *g, const char *typed)
{
    char word[64];
    const char *near;

    cli_short(word, sizeof word, typed);
    word[strcspn(word, "=")] = '\0';
    near = vram_nearest(word, g->known, g->n);
    cli_error("vram %s has no option %s", c->command->name, word);
    if (near != NULL)
        cli_hint("did you mean %s?", near);
    else
        cli_hint("vram help %s lists its options", c->command->name);
    return CLI_USAGE;
}

static int bad_option(const cli *c, const names *g, int kind, char **argv)
{
    const char *typed = argv[optind - 1];

    if (kind == ':') {
        cli_error("%s needs a value", typed);
        return CLI_USAGE;
    }
    if (optopt >= FIRST_VALUE) {
        cli_error("%s takes no value", typed);
        return CLI_USAGE;
    }
    if (optopt != 0) {
        char letter[3] = { '-', (char)optopt, '\0' };
        return unknown(c, g, typed[0] == '-' && typed[1] == '-' ? typed : letter);
    }
    return unknown(c, g, typed);
}

static bool is_choice(const char *choices, const char *value)
{
    size_t n = strlen(value);

    while (*choices != '\0') {
        size_t k = strcspn(choices, "|");
        if (k == n && memcmp(choices, value, n) == 0)
            return true;
        choices += k + (choices[k] == '|');
    }
    return false;
}

/* The library checks its own settings. */
static int check(const cli_row *row, const char *value)
{
    uint64_t bytes;
    cli_names called;

    if (row->from != CLI_OWN)
        return CLI_YES;
    cli_names_of(&called, row->option);
    if (row->option->type == VRAM_OPT_CHOICE && !is_choice(row->option->choices, value)) {
        cli_error("%s '%s': must be one of %s", called.long_name, value, row->option->choices);
        return CLI_USAGE;
    }
    if (row->option->type != VRAM_OPT_BYTES)
        return CLI_YES;
    if (!vram_parse_bytes(value, &bytes)) {
        cli_error("%s '%s': must be a size, like 11.5GiB or 12348030976", called.long_name, value);
        return CLI_USAGE;
    }
    if (bytes == 0) {
        cli_error("%s '%s': where nothing is free nothing fits, there is nothing to rehearse",
                  called.long_name, value);
        cli_hint("%s is what is free before this program starts", called.long_name);
        return CLI_USAGE;
    }
    return CLI_YES;
}

static int check_operands(const cli *c)
{
    const cli_command *cmd = c->command;

    if (cli_has(c, "help") || (c->n_operands >= cmd->least && c->n_operands <= cmd->most))
        return CLI_YES;
    if (c->n_operands < cmd->least)
        cli_error("vram %s needs %s", cmd->name, cmd->operands);
    else
        cli_error("vram %s: '%s' is one word too many", cmd->name, c->operands[cmd->most]);
    cli_hint("vram help %s", cmd->name);
    return CLI_USAGE;
}

static void turn(cli_setting *s, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        cli_setting kept = s[i];
        s[i] = s[n - 1 - i];
        s[n - 1 - i] = kept;
    }
}

/* What is typed before a pasted command outdoes what stands in it, so it has to come later. */
static int parse_pasted(cli *c, int n, char **words)
{
    size_t typed = c->n_settings;
    int status = cli_paste(c, n, words);

    turn(c->settings, typed);
    turn(c->settings + typed, c->n_settings - typed);
    turn(c->settings, c->n_settings);
    return status;
}

static int parse_own(cli *c, int argc, char **argv)
{
    static names g; /* large, and the command line is read once */
    int value, status;

    collect(&g, &c->table);
    opterr = 0;
    while ((value = getopt_long_only(argc, argv, g.shorts, g.longs, NULL)) != -1) {
        if (value == '?' || value == ':')
            return bad_option(c, &g, value, argv);
        const cli_row *row =
            value >= FIRST_VALUE ? &c->table.rows[value - FIRST_VALUE] : g.row_of_short[value & 127];
        status = check(row, optarg != NULL ? optarg : "");
        if (status != CLI_YES)
            return status;
        c->settings[c->n_settings++] = (cli_setting){ row, optarg != NULL ? optarg : "" };
    }
    if (c->command->model_apart)
        c->model = cli_value(c, "model");
    else if (cli_has(c, "model"))
        c->operands[c->n_operands++] = cli_value(c, "model");
    for (int i = optind; i < argc; i++)
        c->operands[c->n_operands++] = argv[i];
    return CLI_YES;
}

int cli_parse(cli *c, int argc, char **argv)
{
    int typed, status;

    cli_table_of(&c->table, c->command->name);
    typed = cli_paste_begins(c, argc, argv);
    status = parse_own(c, typed, argv);
    if (status == CLI_YES && typed < argc)
        status = parse_pasted(c, argc - typed - 1, argv + typed + 1);
    return status == CLI_YES ? check_operands(c) : status;
}

/* ---- what was given ---- */

const char *cli_value(const cli *c, const char *key)
{
    const char *value = NULL;

    for (size_t i = 0; i < c->n_settings; i++)
        if (strcmp(c->settings[i].row->option->key, key) == 0)
            value = c->settings[i].value;
    return value;
}

bool cli_has(const cli *c, const char *key)
{
    return cli_value(c, key) != NULL;
}

size_t cli_count(const cli *c, const char *key)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n_settings; i++)
        n += strcmp(c->settings[i].row->option->key, key) == 0;
    return n;
}

const char *cli_nth(const cli *c, const char *key, size_t n)
{
    for (size_t i = 0; i < c->n_settings; i++) {
        if (strcmp(c->settings[i].row->option->key, key) == 0 && n-- == 0)
            return c->settings[i].value;
    }
    return NULL;
}
