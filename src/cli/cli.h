/* SPDX-License-Identifier: MIT
 * The command `vram`: what its files share. One command per file; commands.inc lists them. */
#ifndef CLI_H
#define CLI_H

#include <stdio.h>

#include "vram.h"
#include "vram_io.h"

/* Exit statuses that no library status stands for. */
enum { CLI_YES = 0, CLI_NO = 1, CLI_USAGE = 2, CLI_UNKNOWN = 3, CLI_UNREACHABLE = 4, CLI_BROKEN = 5 };

/* ---- options ---- */

typedef enum cli_from { CLI_OWN, CLI_WORKLOAD, CLI_SCENARIO } cli_from;

typedef struct cli_row {
    const vram_option *option;
    const char *group; /* heading in help and manual */
    cli_from from;
} cli_row;

#define CLI_ROWS 128

/* The options of one command: the command line's own, and the library's rows that name the command. */
typedef struct cli_table {
    cli_row rows[CLI_ROWS];
    size_t n;
} cli_table;

void cli_table_of(cli_table *out, const char *command);
/* Takes the next space-separated word of *list into `word`; false at the end or when it is too long. */
bool cli_word(const char **list, char *word, size_t room);
/* The long and the one-letter name of an option, each "" when it has none; aliases: the rest,
 * space-separated. */
typedef struct cli_names {
    char long_name[48], short_name[4], aliases[128];
} cli_names;
void cli_names_of(cli_names *out, const vram_option *o);

typedef struct cli_setting {
    const cli_row *row;
    const char *value; /* "" of a flag */
} cli_setting;

struct cli_command;

/* How far reading is, told after a second, to people only. */
typedef struct cli_progress {
    int64_t began_ms, shown_ms;
    bool told;             /* of a log: somebody looks */
    bool visible, catches; /* the line; SIGINT, to clear it */
} cli_progress;

typedef struct cli {
    const struct cli_command *command;
    cli_table table;
    cli_setting *settings; /* in the order of the command line */
    size_t n_settings;
    const char **operands;
    size_t n_operands;
    const char *model; /* of a command whose operands are something else; or NULL */
    vram_style style;
    vram_ctx *ctx;
    vram_io *io;
    size_t n_warned;     /* warnings shown already */
    const char *prefers; /* of several quantisations that lie together, in this order; NULL: none */
    char *keep;          /* bytes that the context borrows */
    cli_progress progress;
    bool unread; /* of several files one was not readable, though there is an answer */
} cli;

typedef struct cli_command {
    const char *name, *operands, *summary, *description, *examples;
    size_t least, most; /* operands */
    bool model_apart;   /* --model and a pasted command name what is kept in cli.model, no operand */
    int (*run)(cli *c);
} cli_command;

#define X(name) extern const cli_command cli_##name##_command;
#include "commands.inc"
#undef X
const cli_command *cli_command_at(size_t i); /* NULL behind the last */
const cli_command *cli_command_of(const char *name);

/* Fills settings and operands; a message and CLI_USAGE when something is wrong. */
int cli_parse(cli *c, int argc, char **argv);
/* Where "--" and the command of another program begin; argc: there is none. */
int cli_paste_begins(const cli *c, int argc, char **argv);
/* Settings and the model of that command, the words behind "--"; a message and CLI_USAGE when something is
 * wrong. */
int cli_paste(cli *c, int n, char **words);
/* Last value of an own option, or NULL; has: given at all; count: how often. */
const char *cli_value(const cli *c, const char *key);
bool cli_has(const cli *c, const char *key);
size_t cli_count(const cli *c, const char *key);
/* The n-th of those, from 0; NULL: there are fewer. */
const char *cli_nth(const cli *c, const char *key, size_t n);

/* ---- topics of help and manual that belong to no option ---- */

typedef struct cli_term {
    const char *term, *text;
} cli_term;

typedef struct cli_topic {
    const char *name, *heading, *intro; /* `vram help NAME`, and the manual's section */
    const cli_term *terms;
    size_t n;
} cli_topic;

const cli_topic *cli_topic_at(size_t i); /* NULL behind the last */
const cli_topic *cli_topic_of(const char *name);
void cli_print_topic(FILE *to, const cli_topic *topic);

/* ---- messages, all on stderr ---- */

void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_hint(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* `text` for the inside of a message: cut between two characters and ended in "..." when it does not fit.
 * Returns out. */
const char *cli_short(char *out, size_t room, const char *text);
/* The context's last error with its file, offset and hint; returns the exit status that belongs to it. */
int cli_fail(cli *c);
/* Those that were not shown yet. */
void cli_show_warnings(cli *c);

/* ---- waiting ---- */

/* After a second of work that is not told otherwise, one line says so; false: no longer. */
void cli_announce(bool on);
/* Tells of what comes over a network from now on, until cli_progress_end, which takes the line away. */
void cli_progress_begin(cli *c);
void cli_progress_end(cli *c);
/* Tells how much of a log was read so far, until cli_reading_end; called now and then, also while nothing
 * comes. typed: at a terminal, where a line of ours would stand in what is being pasted: nothing is told. */
void cli_reading_begin(cli *c, bool typed);
void cli_reading(cli *c, uint64_t bytes);
void cli_reading_end(cli *c);

/* ---- output ---- */

int cli_write(void *ud, const void *bytes, size_t n); /* a vram_write_fn onto stdout */
/* Flushes stdout; a message and CLI_UNREACHABLE instead of `status` when something was not written. */
int cli_finish_output(int status);
/* Style of stdout: width, colour; from the terminal, the environment and the options. */
vram_style cli_style(const cli *c);
/* COLUMNS, or what the terminal says, or 80. */
unsigned cli_terminal_width(int fd);
/* Text wrapped at `width` with `indent` blanks before each further line; the cursor is at column `at`. */
void cli_wrap(FILE *to, const char *text, size_t at, size_t indent, size_t width);

/* ---- what several commands do ---- */

/* Lists the rows of a table that hold every operand. */
typedef vram_status (*cli_render_fn)(vram_ctx *ctx, const char *search, const vram_style *style,
                                     vram_write_fn write, void *ud);
int cli_list(cli *c, cli_render_fn render);
vram_status cli_open_checkpoint(cli *c, const char *name, vram_checkpoint **out);
/* Of several quantisations that lie there the n-th by size, from 1. */
vram_status cli_open_nth(cli *c, const char *name, size_t nth, vram_checkpoint **out);
/* The fit of the largest of them that fits, otherwise of the smallest. */
vram_status cli_quants(cli *c, const char *name, const vram_workload *w, const vram_device *const *devices,
                       size_t n_devices, vram_fit **out);
/* Another model beside that one, no example: without --revision and --file. */
vram_status cli_open_other(cli *c, const char *name, vram_checkpoint **out);
/* A file of the same repository. */
vram_status cli_open_file(cli *c, const char *name, const char *file, vram_checkpoint **out);
vram_status cli_device(cli *c, const char *query, const char *free_bytes, vram_device **out);

/* Feeds a file, or standard input when name is "-", to a log; *total counts the bytes of all. */
vram_status cli_feed(cli *c, vram_log *log, const char *name, uint64_t *total);

#define CLI_CARDS 64 /* --gpu is given so often at most */

/* What a rehearsal is made of. */
typedef struct cli_question {
    vram_model *model;
    vram_workload *workload;
    vram_device *devices[CLI_CARDS];
    size_t n_devices;
} cli_question;

/* All but the model; engine NULL: the one that fits the model. */
vram_status cli_prepare(cli *c, const char *engine, cli_question *q);
/* The model of that name and what is loaded beside it, too. */
vram_status cli_ask(cli *c, const char *name, const char *engine, cli_question *q);
bool cli_seeks_quant(const cli *c); /* --solve quant */
/* Exit status of a verdict; a warning when it is tight. */
int cli_verdict_status(const cli *c, vram_verdict v);
/* `vram fit` of a model name with everything else from the command line. */
int cli_fit(cli *c, const char *model);

void cli_print_help(FILE *to, const cli_command *command);
void cli_print_overview(FILE *to);

/* ---- the built-in examples ---- */

size_t cli_examples(const char *const **names);
/* Supplies the headers of an example; *keep must be freed after the context is closed. VRAM_ENOTFOUND: no
 * such example. */
vram_status cli_example_open(vram_checkpoint **out, vram_ctx *ctx, const char *name, char **keep);

#endif
