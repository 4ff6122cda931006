/* SPDX-License-Identifier: MIT
 * Checkpoints on the file system: lists a directory and reads the ranges that the library asks for.
 * pread into memory and no mmap: a file that shrinks meanwhile is then a short read and not a SIGBUS. Nothing
 * that is not a regular file is ever read, and opening one does not wait for a writer (O_NONBLOCK). Links are
 * followed: a snapshot of the hub's cache consists of them. */
#define _DEFAULT_SOURCE /* madvise */
#define _FILE_OFFSET_BITS 64

#include "vram_io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* The bytes of one round of wants. */
typedef struct block {
    struct block *next;
    char *bytes;
} block;

struct vram_io {
    block *blocks;
    uint64_t held;
    vram_io_read_fn read;
    void *read_ud;
};

static long plain_read(void *ud, int fd, void *bytes, size_t n, uint64_t offset)
{
    (void)ud;
    return (long)pread(fd, bytes, n, (off_t)offset);
}

vram_status vram_io_new(vram_io **out)
{
    vram_io *io = calloc(1, sizeof(*io));
    if (io == NULL)
        return VRAM_ENOMEM;
    io->read = plain_read;
    *out = io;
    return VRAM_OK;
}

void vram_io_free(vram_io *io)
{
    if (io == NULL)
        return;
    while (io->blocks != NULL) {
        block *b = io->blocks;
        io->blocks = b->next;
        free(b->bytes);
        free(b);
    }
    free(io);
}

void vram_io_set_read(vram_io *io, vram_io_read_fn fn, void *ud)
{
    io->read = fn != NULL ? fn : plain_read;
    io->read_ud = ud;
}

uint64_t vram_io_bytes(const vram_io *io)
{
    return io->held;
}

void *vram_io_alloc(void *ud, void *ptr, size_t old_size, size_t new_size)
{
    (void)ud;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

/* Headers and index of a large model are 20 MB. Pages of 2 MiB spare 5,000 page faults, a fifth of all time.
 */
static char *bytes_new(size_t n)
{
    void *p = NULL;
    if (n < 2 * HUGE_PAGE)
        return malloc(n);
    if (posix_memalign(&p, HUGE_PAGE, n) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(p, n, MADV_HUGEPAGE); /* only advice: without it, it is slower */
#endif
    return p;
}

static char *hold(vram_io *io, size_t n)
{
    block *b = malloc(sizeof(*b));
    char *bytes = b == NULL ? NULL : bytes_new(n);
    if (bytes == NULL) {
        free(b);
        return NULL;
    }
    *b = (block){ io->blocks, bytes };
    io->blocks = b;
    io->held += n;
    return bytes;
}

/* ---- errors ---- */

typedef struct open_path {
    vram_io *io;
    vram_ctx *ctx;
    vram_checkpoint *ck;
    const char *path; /* as given, for errors */
    int dir;
    char *dir_name;   /* owned */
    const char *only; /* one file of the directory is meant; NULL: all of it */
} open_path;

static vram_status fail(const open_path *o, vram_status code, const char *file, const char *text)
{
    return vram_fail(o->ctx, &(vram_error){ .code = code, .file = file, .text = text });
}

static vram_status fail_at(const open_path *o, const char *file, uint64_t offset, const char *text)
{
    return vram_fail(
        o->ctx,
        &(vram_error){ .code = VRAM_EIO, .file = file, .text = text, .has_offset = true, .offset = offset });
}

static vram_status fail_errno(const open_path *o, const char *file, int error)
{
    bool absent = error == ENOENT || error == ENOTDIR;
    if (error == ENOMEM)
        return fail(o, VRAM_ENOMEM, file, "out of host memory");
    return fail(o, absent ? VRAM_ENOTFOUND : VRAM_EIO, file, strerror(error));
}

static const char *kind_text(mode_t mode)
{
    if (S_ISFIFO(mode))
        return "this is a pipe, not a file";
    if (S_ISSOCK(mode))
        return "this is a socket, not a file";
    if (S_ISCHR(mode) || S_ISBLK(mode))
        return "this is a device, not a file";
    return "this is not a regular file";
}

/* ---- listing ---- */

/* What cannot be looked at (a link to nothing, a file just deleted) is not in the listing; if the checkpoint
 * needs it, it is then missing and is called so. */
static vram_status list_one(const open_path *o, const char *name)
{
    struct stat st;
    if (fstatat(o->dir, name, &st, 0) != 0 || !S_ISREG(st.st_mode) || st.st_size < 0)
        return VRAM_OK;
    return vram_checkpoint_add_file(o->ck, name, (uint64_t)st.st_size);
}

static vram_status list_entries(const open_path *o, DIR *d)
{
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (e == NULL)
            return errno == 0 ? VRAM_OK : fail_errno(o, o->path, errno);
        vram_status s = list_one(o, e->d_name);
        if (s != VRAM_OK)
            return s;
    }
}

static vram_status list_directory(const open_path *o)
{
    int fd = openat(o->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return fail_errno(o, o->path, error);
    }
    vram_status s = list_entries(o, d);
    closedir(d);
    return s;
}

static vram_status list(const open_path *o)
{
    vram_status s = VRAM_OK;
    if (o->only == NULL) {
        s = list_directory(o);
    } else {
        s = list_one(o, o->only);
        if (s == VRAM_OK && strcmp(o->only, "config.json") != 0)
            s = list_one(o, "config.json");
    }
    return s != VRAM_OK ? s : vram_checkpoint_listed(o->ck);
}

/* ---- ranges ---- */

static vram_status read_range(const open_path *o, int fd, const vram_want *w, char *bytes)
{
    size_t got = 0, want = (size_t)w->most;
    while (got < want) {
        /* Linux moves at most 0x7ffff000 bytes at once (read(2)). */
        size_t n = want - got < (size_t)1 << 30 ? want - got : (size_t)1 << 30;
        errno = 0;
        long r = o->io->read(o->io->read_ud, fd, bytes + got, n, w->offset + got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return fail_at(o, w->file, w->offset + got, strerror(errno));
        if (r == 0 || (size_t)r > n)
            return fail_at(o, w->file, w->offset + got,
                           "the file ended here, before its size; was it changed meanwhile?");
        got += (size_t)r;
    }
    return vram_checkpoint_supply(o->ck, w->file, w->offset, bytes, want);
}

/* The name may come from an index; the library has checked that it leads down. */
static vram_status fetch(const open_path *o, const vram_want *w, char *bytes)
{
    struct stat st;
    int fd = openat(o->dir, w->file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(o, w->file, errno);
    vram_status s = VRAM_OK;
    if (fstat(fd, &st) != 0)
        s = fail_errno(o, w->file, errno);
    else if (!S_ISREG(st.st_mode))
        s = fail(o, VRAM_EUNSUPPORTED, w->file, kind_text(st.st_mode));
    else
        s = read_range(o, fd, w, bytes);
    close(fd);
    return s;
}

static vram_status fetch_all(const open_path *o, const vram_want *wants, size_t n)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total = wants[i].most > PTRDIFF_MAX - total ? PTRDIFF_MAX : total + wants[i].most;
    char *bytes = total == PTRDIFF_MAX ? NULL : hold(o->io, (size_t)total);
    if (bytes == NULL)
        return fail(o, VRAM_ENOMEM, o->path, "out of host memory");
    vram_status s = VRAM_OK;
    for (size_t i = 0; i < n && s == VRAM_OK; i++) {
        s = fetch(o, &wants[i], bytes);
        bytes += wants[i].most;
    }
    return s;
}

static vram_status answer(const open_path *o)
{
    const vram_want *wants = NULL;
    size_t n = vram_checkpoint_wants(o->ck, &wants);
    /* A listing is only ever wanted alone. */
    return wants[0].kind == VRAM_WANT_LISTING ? list(o) : fetch_all(o, wants, n);
}

static vram_status read_checkpoint(const open_path *o)
{
    vram_status s = VRAM_MORE;
    while (s == VRAM_MORE) {
        s = vram_checkpoint_step(o->ck);
        if (s != VRAM_MORE)
            return s;
        vram_status answered = answer(o);
        if (answered != VRAM_OK)
            return answered;
    }
    return s;
}

/* ---- the path ---- */

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

/* "dir/file" becomes the directory and the file; "file" the current directory. */
static vram_status split_path(open_path *o, bool directory)
{
    const char *slash = directory ? NULL : strrchr(o->path, '/');
    size_t n = directory ? strlen(o->path) : slash != NULL ? (size_t)(slash - o->path) + 1 : 1;
    const char *from = directory || slash != NULL ? o->path : ".";
    o->dir_name = malloc(n + 1);
    if (o->dir_name == NULL)
        return fail(o, VRAM_ENOMEM, o->path, "out of host memory");
    memcpy(o->dir_name, from, n);
    o->dir_name[n] = '\0';
    if (!directory && !ends_with(o->path, ".safetensors.index.json"))
        o->only = slash != NULL ? slash + 1 : o->path;
    return VRAM_OK;
}

static vram_status open_directory(open_path *o)
{
    struct stat st;
    if (stat(o->path, &st) != 0)
        return fail_errno(o, o->path, errno);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return fail(o, VRAM_EUNSUPPORTED, o->path, kind_text(st.st_mode));
    vram_status s = split_path(o, S_ISDIR(st.st_mode));
    if (s != VRAM_OK)
        return s;
    o->dir = open(o->dir_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return o->dir < 0 ? fail_errno(o, o->dir_name, errno) : VRAM_OK;
}

vram_status vram_io_open_path(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const char *path)
{
    open_path o = { .io = io, .ctx = ctx, .path = path, .dir = -1 };
    vram_status s = open_directory(&o);
    if (s == VRAM_OK)
        s = vram_checkpoint_new(&o.ck, ctx, path);
    if (s == VRAM_OK)
        s = read_checkpoint(&o);
    if (s == VRAM_OK)
        *out = o.ck;
    if (o.dir >= 0)
        close(o.dir);
    free(o.dir_name);
    return s;
}
