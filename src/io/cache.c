/* SPDX-License-Identifier: MIT
 * The cache of headers on disk, see cache.h. What other users could have put there is not believed either:
 * nothing is read through a link, and a directory that others may write to, or that is another user's, is no
 * cache. */
#define _DEFAULT_SOURCE /* flock */
#define _FILE_OFFSET_BITS 64

#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache_entry.h"

#define SUFFIX ".headers"
#define NAME_ROOM (32 + sizeof(SUFFIX)) /* two hashes in hexadecimal */
#define TEMPORARY ".new-"
#define STALE_S 3600                   /* a temporary file of that age has no living writer */
#define LOCK_TRIES 100                 /* of a millisecond */
#define SCAN_EVERY ((size_t)16 << 20)  /* bytes written between two looks at the whole directory */
#define SCAN_COST ((uint64_t)64 << 10) /* what one entry counts at least towards them */
#define FILE_COST UINT64_C(4096)       /* what the smallest entry takes on a disk */

struct io_cache {
    int dir;              /* -1: not opened yet */
    bool useless;         /* it cannot be made, or is not ours */
    unsigned made;        /* temporary files, for their names */
    size_t budget;        /* bytes that may be written before the whole directory is looked at */
    char name[NAME_ROOM]; /* of `entry`, which is in io_hold's memory; "" for none */
    char *held;           /* its bytes */
    io_entry entry;
};

/* ---- the directory ---- */

/* False: there is none. */
static bool directory_name(const vram_io *io, char *out, size_t room)
{
    const char *own = io_env(io, "VRAM_CACHE"), *caches = io_env(io, "XDG_CACHE_HOME");
    const char *home = io_env(io, "HOME");
    int n = -1;
    if (own != NULL)
        n = snprintf(out, room, "%s", own);
    else if (caches != NULL && *caches == '/') /* XDG Base Directory 0.8: relative ones are to be ignored */
        n = snprintf(out, room, "%s/vram", caches);
    else if (home != NULL)
        n = snprintf(out, room, "%s/.cache/vram", home);
    return n > 0 && (size_t)n < room;
}

/* Makes the directory and the one it lies in, no more: a home that is not there is not made. */
static void make_directory(char *name)
{
    char *slash = strrchr(name, '/');
    if (slash != NULL && slash != name) {
        *slash = '\0';
        (void)mkdir(name, 0700);
        *slash = '/';
    }
    (void)mkdir(name, 0700);
}

static bool is_ours(int dir)
{
    struct stat st;
    return fstat(dir, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0) && (st.st_mode & S_IWOTH) == 0;
}

static void open_directory(const vram_io *io, struct io_cache *c, bool make)
{
    char name[PATH_MAX];
    if (!directory_name(io, name, sizeof(name))) {
        c->useless = true;
        return;
    }
    c->dir = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->dir < 0 && errno == ENOENT && make) {
        make_directory(name);
        c->dir = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    c->useless = c->dir < 0 ? make || errno != ENOENT : !is_ours(c->dir);
}

/* NULL: no cache. */
static struct io_cache *cache_of(vram_io *io, bool make)
{
    if (io->cache == NULL) {
        io->cache = calloc(1, sizeof(*io->cache));
        if (io->cache == NULL)
            return NULL;
        io->cache->dir = -1;
    }
    if (io->cache->dir < 0 && !io->cache->useless)
        open_directory(io, io->cache, make);
    return io->cache->dir < 0 || io->cache->useless ? NULL : io->cache;
}

void io_cache_free(struct io_cache *c)
{
    if (c != NULL && c->dir >= 0)
        close(c->dir);
    free(c);
}

/* To look through it; NULL: it cannot be. */
static DIR *open_listing(const struct io_cache *c)
{
    int fd = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL && fd >= 0)
        close(fd);
    return d;
}

/* ---- names ---- */

/* Whatever may be secret in a URL never gets here, also when a caller forgets. */
static bool is_clean(const char *url, const char *validator)
{
    const char *host = strstr(url, "://");
    return host != NULL && host != url && url[strcspn(url, "?#")] == '\0' && host[3] != '\0' &&
           memchr(host + 3, '@', strcspn(host + 3, "/\\")) == NULL && strlen(url) <= IO_ENTRY_URL &&
           *validator != '\0' && strlen(validator) <= IO_ENTRY_VALIDATOR;
}

static void name_of(char out[NAME_ROOM], const char *url, const char *validator)
{
    snprintf(out, NAME_ROOM, "%016llx%016llx" SUFFIX, (unsigned long long)io_hash(url, strlen(url), 0),
             (unsigned long long)io_hash(validator, strlen(validator), 0));
}

static bool is_entry_name(const char *name)
{
    return strlen(name) == NAME_ROOM - 1 && strspn(name, "0123456789abcdef") == 32 &&
           strcmp(name + 32, SUFFIX) == 0;
}

/* ---- reading ---- */

static bool read_all(int fd, char *bytes, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t r = pread(fd, bytes + got, n - got, (off_t)got);
        if (r <= 0 && !(r < 0 && errno == EINTR))
            return false;
        got += r > 0 ? (size_t)r : 0;
    }
    return true;
}

/* A regular file of that name and of a size that an entry may have, or -1; what cannot be one is removed. */
static int open_entry(int dir, const char *name, size_t *size)
{
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ELOOP || errno == ENXIO) /* a link, a socket */
            (void)unlinkat(dir, name, 0);
        return -1;
    }
    bool known = fstat(fd, &st) == 0;
    if (known && S_ISREG(st.st_mode) && st.st_size >= IO_ENTRY_HEAD &&
        (uint64_t)st.st_size <= IO_ENTRY_MOST) {
        *size = (size_t)st.st_size;
        return fd;
    }
    if (known)
        (void)unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
    close(fd);
    return -1;
}

/* Reads the entry of that name into memory that is io_hold's, or of malloc when io is NULL; then *out.url and
 * the rest lie in *bytes. url, validator: what must stand in it; validator NULL: any. */
static bool load_entry(vram_io *io, int dir, const char *name, const char *url, const char *validator,
                       io_entry *out, char **bytes)
{
    size_t n;
    int fd = open_entry(dir, name, &n);
    if (fd < 0)
        return false;
    *bytes = io != NULL ? io_hold(io, n) : malloc(n);
    bool read = *bytes != NULL && read_all(fd, *bytes, n);
    bool good = read && io_entry_read(out, *bytes, n) && vr_str_is(out->url, url) &&
                (validator == NULL || vr_str_is(out->validator, validator));
    if (good && io != NULL)
        (void)futimens(fd, NULL); /* used now: goes last */
    if (read && !good)
        (void)unlinkat(dir, name, 0);
    close(fd);
    if (!good && io == NULL)
        free(*bytes);
    return good;
}

bool io_cache_get(vram_io *io, const char *url, const char *validator, uint64_t offset, uint64_t least,
                  char **bytes, size_t *n, uint64_t *total)
{
    char name[NAME_ROOM];
    const char *found;
    struct io_cache *c = io->options.refresh || !is_clean(url, validator) ? NULL : cache_of(io, false);
    if (c == NULL)
        return false;
    name_of(name, url, validator);
    if (strcmp(c->name, name) != 0) {
        c->name[0] = '\0';
        if (!load_entry(io, c->dir, name, url, validator, &c->entry, &c->held))
            return false;
        memcpy(c->name, name, sizeof(name));
    }
    *total = c->entry.total;
    if (!io_entry_find(&c->entry, offset, least, &found, n))
        return false;
    *bytes = c->held + (found - c->held);
    return true;
}

static uint64_t now_ns(void)
{
    struct timespec t = { 0, 0 };
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

bool io_cache_newest(vram_io *io, const char *url, char *validator, size_t room)
{
    struct io_cache *c = io->options.refresh || !is_clean(url, "-") ? NULL : cache_of(io, false);
    DIR *d = c == NULL ? NULL : open_listing(c);
    if (d == NULL)
        return false;
    char prefix[NAME_ROOM], *bytes;
    uint64_t newest = 0, now = now_ns();
    bool found = false;
    io_entry e;
    name_of(prefix, url, "");
    for (const struct dirent *at = readdir(d); at != NULL; at = readdir(d)) {
        if (strncmp(at->d_name, prefix, 16) != 0 || !is_entry_name(at->d_name) ||
            !load_entry(NULL, c->dir, at->d_name, url, NULL, &e, &bytes))
            continue;
        if (e.made > now) /* the clock was set back since: it is older than all that came after that */
            e.made = 0;
        if ((!found || e.made > newest) && e.validator.n < room) {
            memcpy(validator, e.validator.s, e.validator.n);
            validator[e.validator.n] = '\0';
            newest = e.made;
            found = true;
        }
        free(bytes);
    }
    closedir(d);
    return found;
}

/* ---- the bound ---- */

typedef struct listed {
    char name[NAME_ROOM];
    struct timespec used;
    uint64_t bytes;
} listed;

typedef struct listing {
    listed *list;
    size_t n, room;
    uint64_t bytes;
} listing;

static bool list_entry(listing *all, const char *name, const struct stat *st)
{
    if (all->n == all->room) {
        size_t room = all->room * 2 + 64;
        listed *grown = realloc(all->list, room * sizeof(*grown));
        if (grown == NULL)
            return false;
        all->list = grown;
        all->room = room;
    }
    listed *l = &all->list[all->n++];
    memcpy(l->name, name, NAME_ROOM);
    l->used = st->st_mtim;
    l->bytes = vr_round_up((uint64_t)st->st_size, FILE_COST);
    all->bytes += l->bytes;
    return true;
}

/* Lists entries; removes what is left of writers that were killed. Other files are let alone. */
static bool list_directory(listing *all, DIR *d)
{
    int dir = dirfd(d);
    time_t now = time(NULL);
    for (const struct dirent *at = readdir(d); at != NULL; at = readdir(d)) {
        struct stat st;
        bool temporary = strncmp(at->d_name, TEMPORARY, sizeof(TEMPORARY) - 1) == 0;
        if ((!temporary && !is_entry_name(at->d_name)) ||
            fstatat(dir, at->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        if (temporary ? now - st.st_mtime > STALE_S : (uint64_t)st.st_size > IO_ENTRY_MOST)
            (void)unlinkat(dir, at->d_name, 0);
        else if (!temporary && !list_entry(all, at->d_name, &st))
            return false;
    }
    return true;
}

static int older_first(const void *x, const void *y)
{
    const listed *a = x, *b = y;
    if (a->used.tv_sec != b->used.tv_sec)
        return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    return a->used.tv_nsec < b->used.tv_nsec ? -1 : a->used.tv_nsec > b->used.tv_nsec;
}

static void keep_bound(struct io_cache *c)
{
    DIR *d = open_listing(c);
    listing all = { 0 };
    if (d == NULL)
        return;
    if (list_directory(&all, d) && all.bytes > IO_CACHE_MOST) {
        qsort(all.list, all.n, sizeof(*all.list), older_first);
        for (size_t i = 0; i < all.n && all.bytes > IO_CACHE_MOST; i++) {
            (void)unlinkat(c->dir, all.list[i].name, 0);
            all.bytes -= all.list[i].bytes;
        }
    }
    free(all.list);
    closedir(d);
}

/* ---- writing ---- */

static bool write_all(int fd, const char *bytes, size_t n)
{
    struct rlimit most; /* over it, a write ends the process with a signal */
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && n > most.rlim_cur)
        return false;
    for (size_t put = 0; put < n;) {
        ssize_t w = write(fd, bytes + put, n - put);
        if (w <= 0 && !(w < 0 && errno == EINTR))
            return false;
        put += w > 0 ? (size_t)w : 0;
    }
    return true;
}

/* Not synced: what a power failure leaves half written has no right checksum. */
static bool replace_entry(struct io_cache *c, const char *name, const char *bytes, size_t n)
{
    char temporary[64];
    int fd = -1;
    for (unsigned tries = 0; tries < 16 && fd < 0; tries++) { /* taken: of another host or container */
        snprintf(temporary, sizeof(temporary), TEMPORARY "%ld-%u", (long)getpid(), c->made++);
        fd = openat(c->dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            return false;
    }
    if (fd < 0)
        return false;
    bool good = write_all(fd, bytes, n);
    good = close(fd) == 0 && good;
    good = good && renameat(c->dir, temporary, c->dir, name) == 0;
    if (!good)
        (void)unlinkat(c->dir, temporary, 0);
    return good;
}

/* So that two processes which add ranges to one entry do not lose either. Only as long as is reasonable: a
 * stopped process may hold it, and some file systems have no locks. */
static bool lock(int dir)
{
    const struct timespec ms = { 0, 1000000 };
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        if (flock(dir, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        (void)nanosleep(&ms, NULL);
    }
    return false;
}

/* Returns the bytes it wrote, 0: none. */
static size_t add_to_entry(struct io_cache *c, const char *name, const io_entry *e, uint64_t offset,
                           const char *bytes, size_t n)
{
    io_entry old;
    char *old_bytes = NULL;
    bool locked = lock(c->dir);
    bool have = load_entry(NULL, c->dir, name, e->url.s, e->validator.s, &old, &old_bytes);
    size_t size = 0;
    char *made = io_entry_write(e, have && old.total == e->total ? &old : NULL, offset, bytes, n, &size);
    if (have)
        free(old_bytes);
    bool written = made != NULL && replace_entry(c, name, made, size);
    free(made);
    if (locked)
        (void)flock(c->dir, LOCK_UN);
    return written ? size : 0;
}

void io_cache_put(vram_io *io, const char *url, const char *validator, uint64_t total, uint64_t offset,
                  const char *bytes, size_t n)
{
    char name[NAME_ROOM];
    struct io_cache *c = is_clean(url, validator) && total != UINT64_MAX ? cache_of(io, true) : NULL;
    if (c == NULL)
        return;
    io_entry e = {
        .url = vr_str_of(url), .validator = vr_str_of(validator), .made = now_ns(), .total = total
    };
    name_of(name, url, validator);
    if (strcmp(c->name, name) == 0)
        c->name[0] = '\0'; /* it has more now */
    size_t cost = (size_t)vr_round_up(add_to_entry(c, name, &e, offset, bytes, n), SCAN_COST);
    if (cost < c->budget || cost == 0) {
        c->budget -= cost;
        return;
    }
    keep_bound(c);
    c->budget = SCAN_EVERY;
}

void io_cache_forget(vram_io *io, const char *url, const char *validator)
{
    char name[NAME_ROOM];
    struct io_cache *c = is_clean(url, validator) ? cache_of(io, false) : NULL;
    if (c == NULL)
        return;
    name_of(name, url, validator);
    if (strcmp(c->name, name) == 0)
        c->name[0] = '\0';
    (void)unlinkat(c->dir, name, 0);
}
