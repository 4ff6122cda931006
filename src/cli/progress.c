/* SPDX-License-Identifier: MIT
 *
 * What is told of work that takes over a second, on stderr and only when that is a terminal: what is read
 * over a network, and what need not be.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define PATIENCE_MS 1000
#define BETWEEN_MS 100

/* ---- computing ---- */

static void tell_of_patience(int signal)
{
    static const char words[] = "vram: still at it: many cards, sequences or tokens take seconds\n";

    (void)signal;
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0)
        return; /* nobody reads it */
}

void cli_announce(bool on)
{
    struct sigaction action = { .sa_handler = tell_of_patience, .sa_flags = SA_RESTART };

    if (!on)
        alarm(0);
    else if (isatty(STDERR_FILENO) && sigaction(SIGALRM, &action, NULL) == 0)
        alarm(PATIENCE_MS / 1000);
}

/* ---- reading ---- */

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void show_size(char *out, size_t room, uint64_t bytes)
{
    if (bytes >= 1000000000)
        snprintf(out, room, "%.1f GB", (double)bytes / 1e9);
    else
        snprintf(out, room, "%.1f MB", (double)bytes / 1e6);
}

/* The line is cleared; then it is as if there had been no handler. */
static void leave(int signal)
{
    static const char clear[] = "\r\033[K";

    if (write(STDERR_FILENO, clear, sizeof clear - 1) < 0)
        _exit(128 + signal);
    raise(signal); /* SA_RESETHAND: what the system does by itself */
}

static void clean_on_interrupt(cli_progress *p)
{
    struct sigaction before, action = { .sa_handler = leave, .sa_flags = (int)SA_RESETHAND };

    p->catches = sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler == SIG_DFL &&
                 sigaction(SIGINT, &action, NULL) == 0;
}

static void show(void *ud, uint64_t read, uint64_t not_downloaded)
{
    cli_progress *p = ud;
    int64_t now = now_ms();
    char got[32], rest[32];

    if (now - p->began_ms < PATIENCE_MS || now - p->shown_ms < BETWEEN_MS)
        return;
    p->shown_ms = now;
    if (!p->visible)
        clean_on_interrupt(p);
    p->visible = true;
    show_size(got, sizeof got, read);
    if (read == 0)
        fputs("\r\033[Kvram: waiting for an answer", stderr);
    else
        fprintf(stderr, "\r\033[Kvram: %s of headers read", got);
    if (not_downloaded != UINT64_MAX) {
        show_size(rest, sizeof rest, not_downloaded);
        fprintf(stderr, ", %s need not be downloaded", rest);
    }
    fflush(stderr);
}

void cli_progress_begin(cli *c)
{
    c->progress = (cli_progress){ .began_ms = now_ms() };
    cli_announce(false);
    if (isatty(STDERR_FILENO))
        vram_io_set_progress(c->io, show, &c->progress);
}

void cli_progress_end(cli *c)
{
    vram_io_set_progress(c->io, NULL, NULL);
    if (c->progress.visible)
        fputs("\r\033[K", stderr);
    if (c->progress.catches)
        signal(SIGINT, SIG_DFL);
    cli_announce(true);
}

/* ---- reading a log ---- */

void cli_reading_begin(cli *c, bool typed)
{
    c->progress = (cli_progress){ .began_ms = now_ms(), .told = isatty(STDERR_FILENO) && !typed };
    cli_announce(false);
}

void cli_reading(cli *c, uint64_t bytes)
{
    cli_progress *p = &c->progress;
    int64_t now = now_ms(), took = now - p->began_ms;
    char got[32], each[32];

    if (!p->told || took < PATIENCE_MS || now - p->shown_ms < BETWEEN_MS)
        return;
    p->shown_ms = now;
    if (!p->visible)
        clean_on_interrupt(p);
    p->visible = true;
    show_size(got, sizeof got, bytes);
    show_size(each, sizeof each, bytes / (uint64_t)took * 1000);
    if (bytes == 0)
        fputs("\r\033[Kvram: waiting for the input", stderr);
    else
        fprintf(stderr, "\r\033[Kvram: %s read, %s/s; the answer comes when the input ends", got, each);
    fflush(stderr);
}

void cli_reading_end(cli *c)
{
    if (c->progress.visible)
        fputs("\r\033[K", stderr);
    if (c->progress.catches)
        signal(SIGINT, SIG_DFL);
    cli_announce(true);
}
