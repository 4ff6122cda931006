/* SPDX-License-Identifier: MIT
 *
 * `vram example`: the main job on a built-in example, without files or network. A 15 GB model meets a card of
 * 12 GB.
 */
#include <string.h>

#include "cli.h"

#define MODEL "example:qwen2.5-7b"

static const char *const story[] = { "--gpu", "rtx-3060-12gb" };

#define STORY_WORDS (sizeof story / sizeof *story)

static const cli_row *row_of(const cli_table *t, const char *flag)
{
    cli_names names;

    for (size_t i = 0; i < t->n; i++) {
        cli_names_of(&names, t->rows[i].option);
        if (strcmp(names.long_name, flag) == 0)
            return &t->rows[i];
    }
    return NULL;
}

static void print_command(void)
{
    printf("$ vram fit " MODEL);
    for (size_t i = 0; i < STORY_WORDS; i++)
        printf(" %s", story[i]);
    putchar('\n');
}

static int run(cli *c)
{
    cli_setting settings[STORY_WORDS];
    cli told = *c;
    int status;

    told.command = &cli_fit_command;
    told.settings = settings;
    told.n_settings = 0;
    cli_table_of(&told.table, "fit");
    for (size_t i = 0; i < STORY_WORDS; i += 2) {
        const cli_row *row = row_of(&told.table, story[i]);
        if (row != NULL)
            settings[told.n_settings++] = (cli_setting){ row, story[i + 1] };
    }
    print_command();
    status = cli_fit(&told, MODEL);
    c->keep = told.keep;
    if (status != CLI_NO && status != CLI_YES)
        return status;
    printf("\nNothing was loaded: 40 KB of headers say all this. Yours: vram fit DIRECTORY\n");
    return CLI_YES;
}

const cli_command cli_example_command = {
    .name = "example",
    .operands = "",
    .summary = "the main job on a built-in example: a 15 GB model meets a 12 GB card",
    .description =
        "Runs vram fit on Qwen2.5-7B and an RTX 3060 of 12 GB, from headers that are built in: no file, no "
        "network, no GPU. The names example:qwen2.5-7b and example:qwen2.5-1.5b work wherever a model is "
        "named.",
    .examples = "vram example\n"
                "vram fit example:qwen2.5-1.5b --gpu 8GiB",
    .least = 0,
    .most = 0,
    .run = run,
};
