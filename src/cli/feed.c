/* SPDX-License-Identifier: MIT
 *
 * A log of any length, from a file, a pipe or a terminal, into the library piece by piece.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

#define PIECE ((size_t)256 << 10) /* larger ones are no faster, and take memory */
#define WAIT_MS 250               /* between two looks at the clock while nothing comes */
#define STDIN_NAME "standard input"

typedef struct input {
    cli *c;
    vram_log *log;
    const char *name;
    int fd;
    uint64_t at, *total;
} input;

static vram_status refuse(const input *in, vram_status code, const char *text, const char *hint)
{
    return vram_fail(in->c->ctx, &(vram_error){ .code = code, .file = in->name, .text = text, .hint = hint });
}

static vram_status fail_reading(const input *in)
{
    return vram_fail(in->c->ctx, &(vram_error){ .code = VRAM_EIO,
                                                .file = in->name,
                                                .has_offset = in->at != 0,
                                                .offset = in->at,
                                                .text = strerror(errno) });
}

/* ---- what a file begins with ---- */

static const struct {
    const char *bytes;
    size_t n;
    const char *text, *program;
} packed[] = {
    { "\x1f\x8b", 2, "this is packed by gzip", "zcat" },
    { "\x28\xb5\x2f\xfd", 4, "this is packed by zstd", "zstdcat" },
    { "\xfd"
      "7zXZ",
      5, "this is packed by xz", "xzcat" },
    { "BZh", 3, "this is packed by bzip2", "bzcat" },
    { "PK\x03\x04", 4, "this is a zip archive", "unzip -p" },
};

/* It is read all the same: nothing is found in it, and the exit status says so. */
static void warn_of_packed(const input *in, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        if (n < packed[i].n || memcmp(p, packed[i].bytes, packed[i].n) != 0)
            continue;
        cli_warning("%s: %s", in->name, packed[i].text);
        cli_hint("%s %s | vram explain", packed[i].program, in->fd != STDIN_FILENO ? in->name : "FILE");
        return;
    }
}

static vram_status feed_piece(const input *in, const unsigned char *p, size_t n)
{
    if (in->at == 0)
        warn_of_packed(in, p, n);
    return vram_log_feed(in->log, p, n);
}

/* ---- reading ---- */

/* False: nothing came for a while. */
static bool ready(const input *in)
{
    struct pollfd p = { .fd = in->fd, .events = POLLIN };

    return !in->c->progress.told || poll(&p, 1, WAIT_MS) != 0;
}

static vram_status read_all(input *in)
{
    static _Alignas(4096) unsigned char bytes[PIECE];
    vram_status s = VRAM_OK;

    (void)posix_fadvise(in->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* a hint; a pipe takes none */
    while (s == VRAM_OK) {
        ssize_t n = -1;
        bool came = ready(in);
        if (came)
            n = read(in->fd, bytes, sizeof bytes);
        if (came && n < 0 && errno != EINTR)
            return fail_reading(in);
        if (n == 0)
            return VRAM_OK;
        if (n > 0) {
            s = feed_piece(in, bytes, (size_t)n);
            in->at += (uint64_t)n;
            *in->total += (uint64_t)n;
        }
        cli_reading(in->c, *in->total);
    }
    return s;
}

static vram_status open_input(input *in, const char *name)
{
    struct stat st;

    in->fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (in->fd < 0 && errno == ENOENT)
        return refuse(in, VRAM_EIO, "there is no such file",
                      "the text of a message is given in quotes: vram explain \"CUDA out of memory. ...\"");
    if (in->fd < 0)
        return fail_reading(in);
    if (fstat(in->fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(in->fd);
        return refuse(in, VRAM_EIO, "this is a directory", "name the file of the log");
    }
    return VRAM_OK;
}

vram_status cli_feed(cli *c, vram_log *log, const char *name, uint64_t *total)
{
    bool standard = strcmp(name, "-") == 0;
    input in = {
        .c = c, .log = log, .name = standard ? STDIN_NAME : name, .fd = STDIN_FILENO, .total = total
    };
    vram_status s = standard ? VRAM_OK : open_input(&in, name);

    if (s == VRAM_OK) {
        s = vram_log_file(log, in.name);
        if (s == VRAM_OK)
            s = read_all(&in);
        if (!standard)
            close(in.fd);
    }
    return s;
}
