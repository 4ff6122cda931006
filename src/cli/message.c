/* SPDX-License-Identifier: MIT
 *
 * Messages on stderr: `vram: error: …`, `vram: warning: …`, `vram: hint: …`, and guesses for misspelt words.
 */
#include <stdarg.h>
#include <string.h>

#include "cli.h"

#define TEXT_MOST 2048

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
#define CHANGES_MOST 2

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to insert, drop, change or swap with the next (optimal string alignment), with the last three rows
 * of the table. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][GUESS_MOST + 1], n = strlen(b);
    size_t *before = rows[0], *last = rows[1], *row = rows[2], *oldest;

    for (size_t k = 0; k <= n; k++)
        last[k] = k;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        row[0] = i;
        for (size_t k = 1; k <= n; k++) {
            row[k] = smaller(last[k - 1] + (a[i - 1] != b[k - 1]), smaller(last[k], row[k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                row[k] = smaller(row[k], before[k - 2] + 1);
        }
        oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[n];
}

/* "--contextlength" and "comp" begin like a name or go on after one. */
static bool begins_alike(const char *word, const char *name)
{
    size_t n = smaller(strlen(word), strlen(name));

    return n - smaller(n, strspn(name, "-")) >= 3 && strncmp(word, name, n) == 0;
}

const char *cli_nearest(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t letters = strlen(word) - strspn(word, "-"), least = smaller(CHANGES_MOST, letters / 2) + 1;

    if (strlen(word) > GUESS_MOST)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t d = strlen(names[i]) <= GUESS_MOST ? distance(word, names[i]) : least;
        if (d >= least)
            continue;
        least = d;
        best = names[i];
    }
    for (size_t i = 0; i < n && best == NULL; i++)
        best = begins_alike(word, names[i]) ? names[i] : NULL;
    return best;
}
