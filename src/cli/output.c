/* SPDX-License-Identifier: MIT
 *
 * stdout: what it can show, and whether all of it arrived; how wide a terminal is. https://no-color.org;
 * COLUMNS wins over the terminal's own width, as in git and less.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

#define WIDTH_LEAST 40
#define WIDTH_MOST 400
#define WIDTH_USUAL 80

static int write_errno; /* of the first write that failed */

int cli_write(void *ud, const void *bytes, size_t n)
{
    (void)ud;
    errno = 0;
    if (fwrite(bytes, 1, n, stdout) == n)
        return 0;
    write_errno = errno;
    return 1;
}

int cli_finish_output(int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (write_errno == 0)
        write_errno = errno;
    if (write_errno != EPIPE)
        cli_error("the output could not be written: %s",
                  write_errno != 0 ? strerror(write_errno) : "unknown reason");
    return CLI_UNREACHABLE;
}

unsigned cli_terminal_width(int fd)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    unsigned long width = columns != NULL ? strtoul(columns, NULL, 10) : 0;

    if (width == 0 && ioctl(fd, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    if (width == 0)
        width = WIDTH_USUAL;
    return (unsigned)(width < WIDTH_LEAST ? WIDTH_LEAST : width > WIDTH_MOST ? WIDTH_MOST : width);
}

static bool colour_wanted(const char *mode, bool terminal)
{
    const char *no_color = getenv("NO_COLOR");

    if (mode != NULL && strcmp(mode, "always") == 0)
        return true;
    if (mode != NULL && strcmp(mode, "never") == 0)
        return false;
    return terminal && (no_color == NULL || *no_color == '\0');
}

vram_style cli_style(const cli *c)
{
    const char *term = getenv("TERM"), *mode = cli_value(c, "color");
    bool dumb = term == NULL || *term == '\0' || strcmp(term, "dumb") == 0;
    bool terminal = isatty(STDOUT_FILENO) && !dumb;
    vram_style style = { .format = cli_has(c, "json") ? VRAM_JSON : VRAM_TEXT,
                         .verbose = cli_has(c, "verbose"),
                         .tensors = cli_has(c, "tensors") };

    style.colour = style.format == VRAM_TEXT && colour_wanted(mode, terminal);
    /* "always" is for pagers: the form of a terminal */
    if (terminal || (mode != NULL && strcmp(mode, "always") == 0))
        style.columns = cli_terminal_width(STDOUT_FILENO);
    return style;
}

void cli_wrap(FILE *to, const char *text, size_t at, size_t indent, size_t width)
{
    bool fresh = true;

    while (*text != '\0') {
        size_t n = strcspn(text, " \n"), shown = 0;
        for (size_t i = 0; i < n; i++)
            shown += ((unsigned char)text[i] & 0xc0) != 0x80;
        if (!fresh && at + 1 + shown > width) {
            fprintf(to, "\n%*s", (int)indent, "");
            at = indent;
            fresh = true;
        }
        fprintf(to, "%s%.*s", fresh ? "" : " ", (int)n, text);
        at += shown + !fresh;
        fresh = false;
        text += n;
        if (*text == '\n') {
            fprintf(to, "\n%*s", text[1] != '\0' && text[1] != '\n' ? (int)indent : 0, "");
            at = indent;
            fresh = true;
        }
        text += *text != '\0';
    }
    fputc('\n', to);
}
