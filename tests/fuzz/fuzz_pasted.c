/* SPDX-License-Identifier: MIT
 * A command of another program behind "--", a word a line. What must hold: it is taken, or one thing is said
 * to be wrong; settings and models are no more than the words have room for, and name rows that there are. */
#include "fuzz.h"

#include <stdarg.h>
#include <string.h>

#include "cli/pasted.h"

#define MOST_WORDS 64
#define ROOM 4096

static unsigned errors;

static void say(const char *format, va_list args)
{
    char text[512];
    CHECK(vsnprintf(text, sizeof text, format, args) > 0);
}

void cli_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    errors++;
}

void cli_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

void cli_hint(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

const char *cli_short(char *out, size_t room, const char *text)
{
    snprintf(out, room, "%s", text);
    return out;
}

static int split(char *text, size_t n, char **words)
{
    int count = 0;
    for (size_t at = 0; at < n && count < MOST_WORDS; at += strlen(text + at) + 1) {
        words[count++] = text + at;
        text[at + strcspn(text + at, "\n")] = '\0';
    }
    return count;
}

static void check(const cli *c, int status, size_t letters)
{
    CHECK(status == CLI_YES || status == CLI_USAGE);
    CHECK((status == CLI_USAGE) == (errors != 0) && errors < 2);
    CHECK(c->n_settings <= letters && c->n_operands <= 2);
    for (size_t i = 0; i < c->n_settings; i++) {
        const cli_row *row = c->settings[i].row;
        CHECK(row >= c->table.rows && row < c->table.rows + c->table.n && c->settings[i].value != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static cli_setting settings[ROOM];
    static char text[ROOM];
    const char *operands[MOST_WORDS];
    static char first[] = "fit", mark[] = "--";
    char *words[MOST_WORDS + 2] = { first, mark };
    static const cli_command fit = { .name = "fit" };
    cli c = { .command = &fit, .settings = settings, .operands = operands };
    size_t n = size < ROOM - 1 ? size : ROOM - 1, letters = 6;
    if (n != 0)
        memcpy(text, data, n);
    text[n] = '\0';
    errors = 0;
    cli_table_of(&c.table, "fit");
    int count = split(text, n, words + 2);
    for (int i = 0; i < count; i++)
        letters += strlen(words[i + 2]);
    if (cli_paste_begins(&c, count + 2, words) == 1)
        check(&c, cli_paste(&c, count, words + 2), letters);
    return 0;
}
