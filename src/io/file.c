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
#include <stdio.h>
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
    size_t n_weights; /* listed */
    bool has_index;
    char *odd_name;  /* owned; the first weight file that cannot be one */
    int odd_error;   /* why: 0 for its kind */
    mode_t odd_mode; /* its kind */
} open_path;

/* The library names files without their directory; so do the functions below. */
static vram_status fail_with(const open_path *o, vram_error e)
{
    char path[PATH_MAX];
    bool below =
        e.file != o->path && o->dir_name != NULL && e.file != o->dir_name && strcmp(o->dir_name, ".") != 0;
    size_t n = below ? strlen(o->dir_name) : 0, k = strlen(e.file) + 1;
    while (n > 0 && o->dir_name[n - 1] == '/')
        n--;
    if (below && n + 1 + k <= sizeof(path)) {
        memcpy(path, o->dir_name, n);
        path[n] = '/';
        memcpy(path + n + 1, e.file, k);
        e.file = path;
    }
    return vram_fail(o->ctx, &e);
}

static vram_status fail(const open_path *o, vram_status code, const char *file, const char *text)
{
    return fail_with(o, (vram_error){ .code = code, .file = file, .text = text });
}

static vram_status fail_at(const open_path *o, const char *file, uint64_t offset, const char *text)
{
    return fail_with(
        o,
        (vram_error){ .code = VRAM_EIO, .file = file, .text = text, .has_offset = true, .offset = offset });
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
    if (S_ISDIR(mode))
        return "this is a directory, not a file";
    return "this is not a regular file";
}

/* ---- listing ---- */

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

static bool is_index(const char *name)
{
    return strcmp(name, "model.safetensors.index.json") == 0;
}

static vram_status fail_odd(const open_path *o, const char *name, int error, mode_t mode)
{
    if (error == 0)
        return fail(o, VRAM_EUNSUPPORTED, name, kind_text(mode));
    return error == ENOENT ? fail(o, VRAM_ENOTFOUND, name, "this is a link to nothing")
                           : fail_errno(o, name, error);
}

/* Something of that name is there and is no file. Without the configuration or the index the answer would be
 * another, so that is an error; of weight files it may be one of many, and is then called missing where it
 * is. */
static vram_status list_odd(open_path *o, const char *name, int error, mode_t mode)
{
    struct stat st;
    if (error == ENOENT && fstatat(o->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return VRAM_OK; /* deleted meanwhile */
    if (strcmp(name, "config.json") == 0 || is_index(name))
        return fail_odd(o, name, error, mode);
    if (!ends_with(name, ".safetensors") || o->odd_name != NULL)
        return VRAM_OK;
    o->odd_name = malloc(strlen(name) + 1);
    if (o->odd_name == NULL)
        return fail(o, VRAM_ENOMEM, o->path, "out of host memory");
    memcpy(o->odd_name, name, strlen(name) + 1);
    o->odd_error = error;
    o->odd_mode = mode;
    return VRAM_OK;
}

static vram_status list_one(open_path *o, const char *name)
{
    struct stat st;
    if (fstatat(o->dir, name, &st, 0) != 0)
        return list_odd(o, name, errno, 0);
    if (!S_ISREG(st.st_mode) || st.st_size < 0)
        return list_odd(o, name, 0, st.st_mode);
    o->n_weights += ends_with(name, ".safetensors");
    o->has_index = o->has_index || is_index(name);
    return vram_checkpoint_add_file(o->ck, name, (uint64_t)st.st_size);
}

static vram_status list_entries(open_path *o, DIR *d)
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

static vram_status list_directory(open_path *o)
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

static vram_status list(open_path *o)
{
    vram_status s = VRAM_OK;
    if (o->only == NULL) {
        s = list_directory(o);
    } else {
        s = list_one(o, o->only);
        if (s == VRAM_OK && strcmp(o->only, "config.json") != 0)
            s = list_one(o, "config.json");
    }
    if (s == VRAM_OK && o->n_weights == 0 && !o->has_index && o->odd_name != NULL)
        s = fail_odd(o, o->odd_name, o->odd_error, o->odd_mode);
    return s != VRAM_OK ? s : vram_checkpoint_listed(o->ck);
}

/* ---- ranges ---- */

static vram_status read_bytes(const open_path *o, int fd, const char *file, uint64_t offset, char *bytes,
                              size_t want)
{
    size_t got = 0;
    while (got < want) {
        /* Linux moves at most 0x7ffff000 bytes at once (read(2)). */
        size_t n = want - got < (size_t)1 << 30 ? want - got : (size_t)1 << 30;
        errno = 0;
        long r = o->io->read(o->io->read_ud, fd, bytes + got, n, offset + got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return fail_at(o, file, offset + got, strerror(errno));
        if (r == 0 || (size_t)r > n)
            return fail_at(o, file, offset + got,
                           "the file ended here, before its size; was it changed meanwhile?");
        got += (size_t)r;
    }
    return VRAM_OK;
}

/* A regular file in o->dir, for reading; the caller closes *fd. */
static vram_status open_regular(const open_path *o, const char *file, int *fd, struct stat *st)
{
    *fd = openat(o->dir, file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (*fd < 0)
        return fail_errno(o, file, errno);
    vram_status s = VRAM_OK;
    if (fstat(*fd, st) != 0)
        s = fail_errno(o, file, errno);
    else if (!S_ISREG(st->st_mode))
        s = fail(o, VRAM_EUNSUPPORTED, file, kind_text(st->st_mode));
    if (s != VRAM_OK)
        close(*fd);
    return s;
}

/* The name may come from an index; the library has checked that it leads down. */
static vram_status fetch(const open_path *o, const vram_want *w, char *bytes)
{
    struct stat st;
    int fd;
    vram_status s = open_regular(o, w->file, &fd, &st);
    if (s != VRAM_OK)
        return s;
    s = read_bytes(o, fd, w->file, w->offset, bytes, (size_t)w->most);
    close(fd);
    return s == VRAM_OK ? vram_checkpoint_supply(o->ck, w->file, w->offset, bytes, (size_t)w->most) : s;
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

static vram_status answer(open_path *o)
{
    const vram_want *wants = NULL;
    size_t n = vram_checkpoint_wants(o->ck, &wants);
    /* A listing is only ever wanted alone. */
    return wants[0].kind == VRAM_WANT_LISTING ? list(o) : fetch_all(o, wants, n);
}

static vram_status read_checkpoint(open_path *o)
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
    if (s == VRAM_OK && strcmp(o.dir_name, ".") != 0)
        s = vram_checkpoint_place(o.ck, o.dir_name);
    if (s == VRAM_OK)
        s = read_checkpoint(&o);
    if (s == VRAM_OK)
        *out = o.ck;
    if (o.dir >= 0)
        close(o.dir);
    free(o.dir_name);
    free(o.odd_name);
    return s;
}

/* ---- one whole file ---- */

static vram_status read_whole(const open_path *o, int fd, const struct stat *st, uint64_t most,
                              const void **out, size_t *n)
{
    char text[96];
    if (st->st_size < 0 || (uint64_t)st->st_size > most) {
        snprintf(text, sizeof(text), "the file has %lld bytes, over the limit of %llu",
                 (long long)st->st_size, (unsigned long long)most);
        return fail(o, VRAM_ELIMIT, o->path, text);
    }
    *n = (size_t)st->st_size;
    char *bytes = hold(o->io, *n + 1); /* an empty file has an address too */
    if (bytes == NULL)
        return fail(o, VRAM_ENOMEM, o->path, "out of host memory");
    *out = bytes;
    return read_bytes(o, fd, o->path, 0, bytes, *n);
}

vram_status vram_io_read_file(const void **out, size_t *n, vram_io *io, vram_ctx *ctx, const char *path,
                              uint64_t most)
{
    const open_path o = { .io = io, .ctx = ctx, .path = path, .dir = AT_FDCWD };
    struct stat st;
    int fd;
    vram_status s = open_regular(&o, path, &fd, &st);
    if (s != VRAM_OK)
        return s;
    s = read_whole(&o, fd, &st, most, out, n);
    close(fd);
    return s;
}
