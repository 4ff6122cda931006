/* SPDX-License-Identifier: MIT
 * Checkpoints on the file system: lists a directory and reads the ranges that the library asks for.
 * pread into memory and no mmap: a file that shrinks meanwhile is then a short read and not a SIGBUS. Nothing
 * that is not a regular file is ever read, and opening one does not wait for a writer (O_NONBLOCK). Links are
 * followed: a snapshot of the hub's cache consists of them. Of sub-folders two levels are listed (a pipeline
 * of diffusers has one, quantisations in folders of their own too), none that is hidden, and none again that
 * leads back to where it came from. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include "choice.h"
#include "local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_ENTRIES 200000 /* of a directory and its sub-folders */
#define DEEPEST 2           /* levels of sub-folders */

/* ---- errors ---- */

typedef struct open_path {
    io_source source; /* first: the kind's functions get this */
    const char *path; /* as given, for errors */
    int dir;
    char *dir_name;    /* owned */
    const char *only;  /* one file of the directory is listed, with what belongs to it; NULL: all of it */
    const char *named; /* the file that the path is of; NULL: none */
    size_t n_weights;  /* listed */
    size_t n_entries;  /* seen */
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
    return vram_fail(o->source.ctx, &e);
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
    return ends_with(name, ".index.json") || strcmp(name, "model_index.json") == 0;
}

static bool is_weights(const char *name)
{
    static const char *const tails[] = { ".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt" };
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        if (ends_with(name, tails[i]))
            return true;
    }
    return false;
}

static vram_status fail_odd(const open_path *o, const char *name, int error, mode_t mode)
{
    if (error == 0)
        return fail(o, VRAM_EUNSUPPORTED, name, kind_text(mode));
    return error == ENOENT ? fail(o, VRAM_ENOTFOUND, name, "this is a link to nothing")
                           : fail_errno(o, name, error);
}

/* Told when nothing else is found. */
static vram_status keep_odd(open_path *o, const char *name, int error, mode_t mode)
{
    if (o->odd_name != NULL)
        return VRAM_OK;
    o->odd_name = malloc(strlen(name) + 1);
    if (o->odd_name == NULL)
        return fail(o, VRAM_ENOMEM, o->path, "out of host memory");
    memcpy(o->odd_name, name, strlen(name) + 1);
    o->odd_error = error;
    o->odd_mode = mode;
    return VRAM_OK;
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
    return is_weights(name) ? keep_odd(o, name, error, mode) : VRAM_OK;
}

/* A folder and those it lies in. */
typedef struct level {
    const struct level *above;
    const char *path; /* from o->dir, with a slash behind it; "" is o->dir itself */
    dev_t dev;
    ino_t ino;
} level;

static vram_status list_folder(open_path *o, const level *above, const char *path);

static vram_status list_one(open_path *o, const level *in, const char *name)
{
    struct stat st;
    if (fstatat(o->dir, name, &st, 0) != 0)
        return list_odd(o, name, errno, 0);
    if (S_ISDIR(st.st_mode) && in != NULL && !is_weights(name) && !is_index(name) &&
        strcmp(name, "config.json") != 0)
        return list_folder(o, in, name);
    if (!S_ISREG(st.st_mode) || st.st_size < 0)
        return list_odd(o, name, 0, st.st_mode);
    o->n_weights += is_weights(name);
    o->has_index = o->has_index || is_index(name);
    return vram_checkpoint_add_file(o->source.ck, name, (uint64_t)st.st_size);
}

static vram_status list_entry(open_path *o, const level *in, const char *name)
{
    char path[PATH_MAX];
    if (name[0] == '.')
        return VRAM_OK;
    if (o->n_entries++ == MOST_ENTRIES)
        return fail(o, VRAM_ELIMIT, o->path,
                    "there are over 200,000 files in it and its sub-folders; is this one model?");
    int n = snprintf(path, sizeof(path), "%s%s", in->path, name);
    if (n < 0 || (size_t)n >= sizeof(path))
        return VRAM_OK; /* no system call could open it */
    return list_one(o, in, path);
}

/* Shards of one set: names that differ in digits only. */
static bool is_sibling(const char *name, const char *only)
{
    bool split = strstr(only, "-of-") != NULL;
    size_t i = 0;
    for (; split && name[i] != '\0' && only[i] != '\0'; i++) {
        if (name[i] != only[i] && !(name[i] >= '0' && name[i] <= '9' && only[i] >= '0' && only[i] <= '9'))
            return false;
    }
    return split && name[i] == only[i] && strcmp(name, only) != 0;
}

static bool is_beside(const char *name, const char *only)
{
    bool split = strstr(only, "-of-") != NULL;
    return strcmp(name, "config.json") == 0 || strcmp(name, "adapter_config.json") == 0 ||
           io_choice_quantises(name) || is_sibling(name, only) || (split && ends_with(name, ".index.json"));
}

static vram_status list_entries(open_path *o, DIR *d, const level *in)
{
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        vram_status s = VRAM_OK;
        if (e == NULL)
            return errno == 0 ? VRAM_OK : fail_errno(o, o->path, errno);
        if (o->only == NULL)
            s = list_entry(o, in, e->d_name);
        else if (is_beside(e->d_name, o->only) && strcmp(e->d_name, o->only) != 0)
            s = list_one(o, NULL, e->d_name);
        if (s != VRAM_OK)
            return s;
    }
}

static unsigned depth_of(const level *in)
{
    unsigned n = 0;
    for (; in != NULL; in = in->above)
        n++;
    return n;
}

static bool is_above(const level *in, const struct stat *st)
{
    for (; in != NULL; in = in->above) {
        if (in->dev == st->st_dev && in->ino == st->st_ino)
            return true;
    }
    return false;
}

/* A sub-folder that cannot be read is as if it were not there, unless nothing else is. */
static vram_status not_readable(open_path *o, const level *above, const char *path, int error)
{
    if (above == NULL)
        return fail_errno(o, o->path, error);
    return error == ENOENT ? VRAM_OK : keep_odd(o, path, error, 0);
}

static vram_status list_folder(open_path *o, const level *above, const char *path)
{
    char below[PATH_MAX];
    struct stat st;
    int n = snprintf(below, sizeof(below), "%s%s", path, above == NULL ? "" : "/");
    if (depth_of(above) > DEEPEST || n < 0 || (size_t)n >= sizeof(below))
        return VRAM_OK;
    int fd = openat(o->dir, above == NULL ? "." : path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 || fstat(fd, &st) != 0 ? NULL : fdopendir(fd);
    if (d == NULL) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return not_readable(o, above, path, error);
    }
    const level here = { above, below, st.st_dev, st.st_ino };
    vram_status s = is_above(above, &st) ? VRAM_OK : list_entries(o, d, &here);
    closedir(d);
    return s;
}

static vram_status list(io_source *source)
{
    open_path *o = (open_path *)(void *)source;
    vram_status s = VRAM_OK;
    if (o->only != NULL)
        s = list_one(o, NULL, o->only);
    if (s == VRAM_OK)
        s = list_folder(o, NULL, "");
    if (s == VRAM_OK && o->n_weights == 0 && !o->has_index && o->odd_name != NULL)
        s = fail_odd(o, o->odd_name, o->odd_error, o->odd_mode);
    return s != VRAM_OK ? s : vram_checkpoint_listed(o->source.ck);
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
        long r = o->source.io->read(o->source.io->read_ud, fd, bytes + got, n, offset + got);
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
    return s == VRAM_OK ? vram_checkpoint_supply(o->source.ck, w->file, w->offset, bytes, (size_t)w->most)
                        : s;
}

static vram_status fetch_all(io_source *source, const vram_want *wants, size_t n)
{
    const open_path *o = (const open_path *)(const void *)source;
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total = wants[i].most > PTRDIFF_MAX - total ? PTRDIFF_MAX : total + wants[i].most;
    char *bytes = total == PTRDIFF_MAX ? NULL : io_hold(o->source.io, (size_t)total);
    if (bytes == NULL)
        return fail(o, VRAM_ENOMEM, o->path, "out of host memory");
    vram_status s = VRAM_OK;
    for (size_t i = 0; i < n && s == VRAM_OK; i++) {
        s = fetch(o, &wants[i], bytes);
        bytes += wants[i].most;
    }
    return s;
}

static const io_source_kind local_kind = { list, fetch_all };

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
    const char *base = slash != NULL ? slash + 1 : o->path;
    if (!directory && !is_index(base))
        o->only = base;
    if (!directory && strcmp(base, "model_index.json") != 0)
        o->named = base;
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

vram_status io_local_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const char *path,
                          const io_local_as *as)
{
    open_path o = { .source = { &local_kind, io, ctx, NULL }, .path = path, .dir = -1 };
    vram_status s = open_directory(&o);
    if (s == VRAM_OK)
        s = vram_checkpoint_new(&o.source.ck, ctx, as->name != NULL ? as->name : path);
    if (s == VRAM_OK && o.named != NULL)
        s = vram_checkpoint_named(o.source.ck, o.named);
    if (s == VRAM_OK && as->chosen != NULL)
        s = vram_checkpoint_choose(o.source.ck, as->chosen);
    if (s == VRAM_OK && strcmp(o.dir_name, ".") != 0)
        s = vram_checkpoint_place(o.source.ck, o.dir_name);
    if (s == VRAM_OK && io->options.file != NULL)
        s = vram_checkpoint_choose(o.source.ck, io->options.file);
    if (s == VRAM_OK)
        vram_checkpoint_choose_size(o.source.ck, io->options.by_size);
    if (s == VRAM_OK)
        s = io_read_checkpoint(&o.source);
    if (s == VRAM_OK)
        *out = o.source.ck;
    if (o.dir >= 0)
        close(o.dir);
    free(o.dir_name);
    free(o.odd_name);
    return s;
}

vram_status vram_io_open_path(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const char *path)
{
    return io_local_open(out, io, ctx, path, &(io_local_as){ .chosen = io->options.file });
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
    char *bytes = io_hold(o->source.io, *n + 1); /* an empty file has an address too */
    if (bytes == NULL)
        return fail(o, VRAM_ENOMEM, o->path, "out of host memory");
    *out = bytes;
    return read_bytes(o, fd, o->path, 0, bytes, *n);
}

vram_status vram_io_read_file(const void **out, size_t *n, vram_io *io, vram_ctx *ctx, const char *path,
                              uint64_t most)
{
    const open_path o = { .source = { .io = io, .ctx = ctx }, .path = path, .dir = AT_FDCWD };
    struct stat st;
    int fd;
    vram_status s = open_regular(&o, path, &fd, &st);
    if (s != VRAM_OK)
        return s;
    s = read_whole(&o, fd, &st, most, out, n);
    close(fd);
    return s;
}
