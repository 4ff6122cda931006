/* SPDX-License-Identifier: MIT
 *
 * Messages on stderr: `vram: error: …`, `vram: warning: …`, `vram: hint: …`, and guesses for misspelt words.
 */
#include <stdarg.h>
#include <string.h>

#include "cli.h"

static void say(const char *kind, const char *format, va_list args)
{
    fprintf(stderr, "vram: %s: ", kind);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
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

int cli_fail(const cli *c)
{
    const vram_error *e = vram_last_error(c->ctx);

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

void cli_show_warnings(const cli *c)
{
    const vram_warning *w;
    size_t n = vram_warnings(c->ctx, &w);

    for (size_t i = 0; i < n; i++) {
        if (w[i].file != NULL)
            cli_warning("%s: %s", w[i].file, w[i].text);
        else
            cli_warning("%s", w[i].text);
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
