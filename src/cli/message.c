/* SPDX-License-Identifier: MIT
 *
 * Messages on stderr: `vram: error: …`, `vram: warning: …`, `vram: hint: …`, and guesses for misspelt words.
 * On a terminal they are wrapped between words; elsewhere each is one line.
 */
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define TEXT_MOST 2048
#define INDENT 6 /* of further lines: below what follows "vram: " */

/* Ends what was cut at `room` bytes in "...", between two characters. */
static void end_cut(char *text, size_t room)
{
    size_t n = room - 4;

    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    memcpy(text + n, "...", 4);
}

const char *cli_short(char *out, size_t room, const char *text)
{
    if ((size_t)snprintf(out, room, "%s", text) >= room)
        end_cut(out, room);
    return out;
}

/* Names come from files and the command line. */
static void say(const char *kind, const char *format, va_list args)
{
    char text[TEXT_MOST];

    if (vsnprintf(text, sizeof text, format, args) >= TEXT_MOST)
        end_cut(text, sizeof text);
    vram_clean(text);
    int at = fprintf(stderr, "vram: %s: ", kind);
    if (isatty(STDERR_FILENO))
        cli_wrap(stderr, text, (size_t)(at > 0 ? at : 0), INDENT, cli_terminal_width(STDERR_FILENO));
    else
        fprintf(stderr, "%s\n", text);
}

void cli_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say("error", format, args);
    va_end(args);
}

void cli_warning(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say("warning", format, args);
    va_end(args);
}

void cli_hint(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say("hint", format, args);
    va_end(args);
}

int cli_fail(cli *c)
{
    const vram_error *e = vram_last_error(c->ctx);

    if (ferror(stdout))
        return CLI_UNREACHABLE; /* told once, by cli_finish_output */
    cli_show_warnings(c);
    if (e->file != NULL && e->has_offset)
        cli_error("%s: byte %llu: %s", e->file, (unsigned long long)e->offset, e->text);
    else if (e->file != NULL)
        cli_error("%s: %s", e->file, e->text);
    else
        cli_error("%s", e->text);
    if (e->hint != NULL)
        cli_hint("%s", e->hint);
    return vram_exit_status(e->code);
}

void cli_show_warnings(cli *c)
{
    const vram_warning *w;
    size_t n = vram_warnings(c->ctx, &w);

    for (; c->n_warned < n; c->n_warned++) {
        if (w[c->n_warned].file != NULL)
            cli_warning("%s: %s", w[c->n_warned].file, w[c->n_warned].text);
        else
            cli_warning("%s", w[c->n_warned].text);
    }
}
