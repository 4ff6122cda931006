/* SPDX-License-Identifier: MIT
 *
 * Messages on stderr: `vram: error: …`, `vram: warning: …`, `vram: hint: …`, and guesses for misspelt words.
 */
#include <stdarg.h>
#include <string.h>

#include "cli.h"

/* Names come from files and the command line: what would steer a terminal becomes "?". */
static void say(const char *kind, const char *format, va_list args)
{
    char text[2048];

    vsnprintf(text, sizeof text, format, args);
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    fprintf(stderr, "vram: %s: %s\n", kind, text);
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

#define GUESS_MOST 47 /* longer words are not guessed */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance (Levenshtein) with a row of the table at a time. */
static size_t distance(const char *a, const char *b)
{
    size_t row[GUESS_MOST + 1], n = strlen(b);

    for (size_t k = 0; k <= n; k++)
        row[k] = k;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < n; k++) {
            size_t change = diagonal + (a[i] != b[k]);
            diagonal = row[k + 1];
            row[k + 1] = smaller(change, smaller(row[k], row[k + 1]) + 1);
        }
    }
    return row[n];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t length = strlen(word), least = length / 3 + 2;

    if (length > GUESS_MOST)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (strlen(names[i]) > GUESS_MOST)
            continue;
        size_t d = distance(word, names[i]);
        if (d < least && d < length) {
            least = d;
            best = names[i];
        }
    }
    return best;
}
