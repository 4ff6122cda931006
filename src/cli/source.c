/* SPDX-License-Identifier: MIT
 *
 * From the words of the command line to models, devices and verdicts.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

static vram_status refuse(cli *c, const char *text, const char *hint)
{
    return vram_fail(c->ctx, &(vram_error){ .code = VRAM_ENOTFOUND, .text = text, .hint = hint });
}

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* Nothing of that name lies on this disk: what was probably meant, and what works today. */
static vram_status not_here(cli *c, const char *name)
{
    char called[208], text[400], hint[600];
    const char *slash = strchr(name, '/');

    cli_short(called, sizeof called, name);
    if (starts(name, "https://") || starts(name, "http://")) {
        snprintf(text, sizeof text, "'%s': addresses are not read yet, only files and directories", called);
        return refuse(c, text, "download config.json and the *.safetensors files and name their directory");
    }
    if (starts(name, "ollama:") || starts(name, "hf:")) {
        snprintf(text, sizeof text, "'%s': such stores are not read yet, only files and directories", called);
        return refuse(c, text, "a built-in example works at once: vram fit example:qwen2.5-7b");
    }
    snprintf(text, sizeof text, "'%s': there is no such file or directory", called);
    if (slash == NULL || slash == name || *name == '.' || strchr(slash + 1, '/') != NULL ||
        strlen(name) > 100)
        return refuse(c, text, "a built-in example works at once: vram fit example:qwen2.5-7b");
    snprintf(hint, sizeof hint,
             "names of the hub are not read yet: hf download %s --local-dir %s, then vram %s %s", name,
             slash + 1, c->command->name, slash + 1);
    return refuse(c, text, hint);
}

vram_status cli_open_checkpoint(cli *c, const char *name, vram_checkpoint **out)
{
    struct stat st;
    const vram_io_options options = { .revision = cli_value(c, "revision"),
                                      .file = cli_value(c, "file"),
                                      .offline = cli_has(c, "offline"),
                                      .refresh = cli_has(c, "refresh"),
                                      .allow_http = cli_has(c, "allow_http") };

    vram_io_set_options(c->io, &options);
    if (stat(name, &st) == 0 || (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG))
        return vram_io_open_path(out, c->io, c->ctx, name);
    if (starts(name, "example:"))
        return cli_example_open(out, c->ctx, name + strlen("example:"), &c->keep);
    return not_here(c, name);
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
