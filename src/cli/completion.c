/* SPDX-License-Identifier: MIT
 *
 * `vram completion bash|zsh|fish`: completion scripts from the table of options. Ids of cards and
 * names of models are asked of `vram gpus` and `vram models` when they are needed, so that the script does
 * not age.
 */
#include <string.h>

#include "cli.h"

#define CARDS "vram gpus 2>/dev/null | tail -n +2 | cut -d' ' -f1"
#define MODELS "vram models 2>/dev/null | tail -n +2 | cut -d' ' -f1"
#define EXAMPLES "example:qwen2.5-7b example:qwen2.5-1.5b"

static bool takes_model(const cli_command *command)
{
    return strcmp(command->operands, "MODEL") == 0;
}

/* All names of an option with a blank before each. */
static void print_flags(const vram_option *o)
{
    const char *list = o->flags;
    char word[48];

    while (cli_word(&list, word, sizeof word))
        printf(" %s", word);
}

/* "all|last" as words */
static void print_choices(const char *choices)
{
    for (; *choices != '\0'; choices++)
        putchar(*choices == '|' ? ' ' : *choices);
}

static void print_commands(void)
{
    for (size_t i = 0; cli_command_at(i) != NULL; i++)
        printf("%s%s", i != 0 ? " " : "", cli_command_at(i)->name);
}

/* For a quoted word of a shell: an apostrophe would end it, and colons part the fields of zsh. */
static void print_plain(const char *text)
{
    for (; *text != '\0'; text++)
        putchar(*text == ':' ? ',' : strchr("'\\[]", *text) != NULL ? ' ' : *text);
}

/* ---- bash ---- */

/* "--logits|-x)" for the case that completes this option's value */
static void bash_pattern(const char *command, const vram_option *o)
{
    const char *list = o->flags, *bar = "";
    char word[48];

    printf("        ");
    while (cli_word(&list, word, sizeof word)) {
        printf("%s%s:%s", bar, command, word);
        bar = "|";
    }
    printf(") ");
}

static void bash_values(const cli_command *command, const vram_option *o)
{
    if (o->type == VRAM_OPT_FLAG)
        return;
    bash_pattern(command->name, o);
    if (o->choices != NULL) {
        printf("COMPREPLY=($(compgen -W '");
        print_choices(o->choices);
        printf("' -- \"$cur\"));");
    } else if (strcmp(o->key, "gpu") == 0) {
        printf("COMPREPLY=($(compgen -W \"$(" CARDS ")\" -- \"$cur\"));");
    } else if (o->argument != NULL && strcmp(o->argument, "FILE") == 0) {
        printf("COMPREPLY=($(compgen -f -- \"$cur\"));");
    }
    printf(" return ;;\n");
}

static void bash_words(const cli_command *command)
{
    cli_table t;

    cli_table_of(&t, command->name);
    printf("        %s) words='", command->name);
    for (size_t i = 0; i < t.n; i++)
        print_flags(t.rows[i].option);
    printf("'");
    if (takes_model(command))
        printf("; more=\"$(" MODELS ") " EXAMPLES "\"");
    else if (strcmp(command->name, "help") == 0) {
        printf("; more='");
        print_commands();
        for (size_t i = 0; cli_topic_at(i) != NULL; i++)
            printf(" %s", cli_topic_at(i)->name);
        printf("'");
    } else if (strcmp(command->name, "completion") == 0)
        printf("; more='bash zsh fish'");
    printf(" ;;\n");
}

static void bash(void)
{
    cli_table t;

    printf("# bash completion of vram; from `vram completion bash`\n"
           "_vram() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= more=\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        COMPREPLY=($(compgen -W '");
    print_commands();
    printf("' -- \"$cur\"))\n        return\n    fi\n    case \"${COMP_WORDS[1]}:$prev\" in\n");
    for (size_t i = 0; cli_command_at(i) != NULL; i++) {
        cli_table_of(&t, cli_command_at(i)->name);
        for (size_t k = 0; k < t.n; k++)
            bash_values(cli_command_at(i), t.rows[k].option);
    }
    printf("    esac\n    case \"${COMP_WORDS[1]}\" in\n");
    for (size_t i = 0; cli_command_at(i) != NULL; i++)
        bash_words(cli_command_at(i));
    printf("    esac\n"
           "    case \"$cur\" in\n"
           "        -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
           "        *) COMPREPLY=($(compgen -W \"$more\" -- \"$cur\") $(compgen -f -- \"$cur\")) ;;\n"
           "    esac\n"
           "}\n"
           "complete -o filenames -F _vram vram\n");
}

/* ---- zsh ---- */

static void zsh_option(const vram_option *o)
{
    const char *list = o->flags;
    char word[48];

    while (cli_word(&list, word, sizeof word)) {
        printf("            '%s[", word);
        print_plain(o->help);
        printf("]");
        if (o->type != VRAM_OPT_FLAG)
            printf(":%s:", o->argument != NULL ? o->argument : "VALUE");
        if (o->choices != NULL) {
            printf("(");
            print_choices(o->choices);
            printf(")");
        } else if (strcmp(o->key, "gpu") == 0) {
            printf("_vram_cards");
        } else if (o->argument != NULL && strcmp(o->argument, "FILE") == 0) {
            printf("_files");
        }
        printf("' \\\n");
    }
}

static void zsh_command(const cli_command *command)
{
    cli_table t;

    cli_table_of(&t, command->name);
    printf("        %s) _arguments \\\n", command->name);
    for (size_t i = 0; i < t.n; i++)
        zsh_option(t.rows[i].option);
    if (takes_model(command))
        printf("            '*:model:_vram_models' ;;\n");
    else if (strcmp(command->name, "completion") == 0)
        printf("            '*:shell:(bash zsh fish)' ;;\n");
    else
        printf("            '*:word:' ;;\n");
}

static void zsh(void)
{
    printf("#compdef vram\n"
           "# zsh completion of vram; from `vram completion zsh`\n"
           "_vram_cards() { compadd -- ${(f)\"$(" CARDS ")\"} }\n"
           "_vram_models() { compadd -- ${(f)\"$(" MODELS ")\"} " EXAMPLES "; _files }\n"
           "_vram() {\n"
           "    local -a commands\n"
           "    commands=(\n");
    for (size_t i = 0; cli_command_at(i) != NULL; i++) {
        printf("        '%s:", cli_command_at(i)->name);
        print_plain(cli_command_at(i)->summary);
        printf("'\n");
    }
    printf("    )\n"
           "    if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
           "    local command=$words[2]\n"
           "    shift words; (( CURRENT-- ))\n"
           "    case $command in\n");
    for (size_t i = 0; cli_command_at(i) != NULL; i++)
        zsh_command(cli_command_at(i));
    printf("    esac\n}\ncompdef _vram vram\n");
}

/* ---- fish ---- */

static void fish_option(const char *command, const vram_option *o)
{
    const char *list = o->flags;
    char word[48];

    printf("complete -c vram -n '__fish_seen_subcommand_from %s'", command);
    while (cli_word(&list, word, sizeof word))
        printf(" %s %s",
               word[1] == '-'    ? "-l"
               : word[2] == '\0' ? "-s"
                                 : "-o",
               word + (word[1] == '-' ? 2 : 1));
    if (o->choices != NULL) {
        printf(" -x -a '");
        print_choices(o->choices);
        printf("'");
    } else if (strcmp(o->key, "gpu") == 0) {
        printf(" -x -a \"(" CARDS ")\"");
    } else if (o->argument != NULL && strcmp(o->argument, "FILE") == 0) {
        printf(" -r -F");
    } else if (o->type != VRAM_OPT_FLAG) {
        printf(" -x");
    }
    printf(" -d '");
    print_plain(o->help);
    printf("'\n");
}

static void fish(void)
{
    cli_table t;

    printf("# fish completion of vram; from `vram completion fish`\n");
    for (size_t i = 0; cli_command_at(i) != NULL; i++) {
        const cli_command *command = cli_command_at(i);
        printf("complete -c vram -n __fish_use_subcommand -f -a %s -d '", command->name);
        print_plain(command->summary);
        printf("'\n");
        if (takes_model(command))
            printf("complete -c vram -n '__fish_seen_subcommand_from %s' -a \"(" MODELS ") " EXAMPLES "\"\n",
                   command->name);
        cli_table_of(&t, command->name);
        for (size_t k = 0; k < t.n; k++)
            fish_option(command->name, t.rows[k].option);
    }
    printf("complete -c vram -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n");
}

static int run(cli *c)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };

    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(c->operands[0], shells[i].name) != 0)
            continue;
        shells[i].print();
        return CLI_YES;
    }
    cli_error("there is no completion for '%s'", c->operands[0]);
    cli_hint("there is one for bash, zsh and fish");
    return CLI_USAGE;
}

const cli_command cli_completion_command = {
    .name = "completion",
    .operands = "SHELL",
    .summary = "prints the completion script for bash, zsh or fish",
    .description = "Prints the completion script of a shell: bash, zsh or fish.",
    .examples = "source <(vram completion bash)\n"
                "vram completion zsh > ~/.zfunc/_vram\n"
                "vram completion fish > ~/.config/fish/completions/vram.fish",
    .least = 1,
    .most = 1,
    .run = run,
};
