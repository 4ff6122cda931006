/* SPDX-License-Identifier: MIT
 *
 * From the words of the command line to models, devices and verdicts.
 */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

static vram_status open_as(cli *c, const char *name, const vram_io_options *options, vram_checkpoint **out)
{
    vram_status s;

    vram_io_set_options(c->io, options);
    cli_progress_begin(c);
    s = vram_io_open(out, c->io, c->ctx, name);
    cli_progress_end(c);
    return s;
}

static vram_io_options options_of(cli *c)
{
    return (vram_io_options){ .offline = cli_has(c, "offline"),
                              .refresh = cli_has(c, "refresh"),
                              .allow_http = cli_has(c, "allow_http") };
}

/* llama.cpp: of several quantisations in a repository without more words the first of its list that is there.
 */
static vram_status open_preferred(cli *c, const char *name, vram_io_options options, vram_checkpoint **out)
{
    static char pattern[28];
    const char *list = c->prefers;
    char word[24];
    vram_status s = open_as(c, name, &options, out);

    while (s == VRAM_ESETTING && cli_word(&list, word, sizeof word)) {
        snprintf(pattern, sizeof pattern, "*%s*", word);
        options.file = pattern;
        s = open_as(c, name, &options, out);
    }
    return s;
}

vram_status cli_open_nth(cli *c, const char *name, size_t nth, vram_checkpoint **out)
{
    struct stat st;
    const char *example = "example:";
    vram_io_options options = options_of(c);

    if (strncmp(name, example, strlen(example)) == 0 && stat(name, &st) != 0)
        return cli_example_open(out, c->ctx, name + strlen(example), &c->keep);
    options.revision = cli_value(c, "revision");
    options.file = cli_value(c, "file");
    options.by_size = nth;
    if (c->prefers != NULL && options.file == NULL && nth == 0)
        return open_preferred(c, name, options, out);
    return open_as(c, name, &options, out);
}

vram_status cli_open_checkpoint(cli *c, const char *name, vram_checkpoint **out)
{
    return cli_open_nth(c, name, 0, out);
}

vram_status cli_open_other(cli *c, const char *name, vram_checkpoint **out)
{
    const vram_io_options options = options_of(c);

    return open_as(c, name, &options, out);
}

vram_status cli_open_file(cli *c, const char *name, const char *file, vram_checkpoint **out)
{
    vram_io_options options = options_of(c);

    options.revision = cli_value(c, "revision");
    options.file = file;
    return open_as(c, name, &options, out);
}

vram_status cli_device(cli *c, const char *query, const char *free_bytes, vram_device **out)
{
    uint64_t bytes = 0;

    if (free_bytes != NULL && !vram_parse_bytes(free_bytes, &bytes))
        return vram_fail(c->ctx, &(vram_error){ .code = VRAM_ESETTING, .text = "--free is not a size" });
    return vram_device_new(out, c->ctx, query, bytes);
}

int cli_verdict_status(const cli *c, vram_verdict v)
{
    switch (v) {
    case VRAM_FITS:
        return CLI_YES;
    case VRAM_TIGHT:
        cli_warning("it is tight: by the lowest figures it fits, by the highest it does not");
        return cli_has(c, "strict") ? CLI_NO : CLI_YES;
    case VRAM_DOES_NOT_FIT:
        return CLI_NO;
    default:
        return CLI_UNKNOWN;
    }
}
