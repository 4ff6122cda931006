/* SPDX-License-Identifier: MIT
 * The cache of headers: what it believes, that it stays whole whoever writes, dies or fills the disk. */
#define _GNU_SOURCE /* unshare */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/cache.h"
#include "io/cache_entry.h"

#define URL "https://example.org/org/name/model.gguf"
#define TAG "\"5f2a\""
#define TOTAL 4096
#define SKIPPED 77

typedef struct world {
    char root[PATH_MAX / 4], dir[PATH_MAX / 2], cache[PATH_MAX / 2];
    const char *xdg, *home;
    vram_io *io;
} world;

static const char *env(void *ud, const char *name)
{
    const world *w = ud;
    return strcmp(name, "VRAM_CACHE") == 0       ? w->cache
           : strcmp(name, "XDG_CACHE_HOME") == 0 ? w->xdg
           : strcmp(name, "HOME") == 0           ? w->home
                                                 : NULL;
}

static void set_options(world *w, bool refresh)
{
    const vram_io_options o = { .refresh = refresh, .env = env, .env_ud = w };
    vram_io_set_options(w->io, &o);
}

/* As another process would see it. */
static void reopen(world *w)
{
    vram_io_free(w->io);
    assert_int_equal(vram_io_new(&w->io), VRAM_OK);
    set_options(w, false);
}

static void begin(world *w)
{
    const char *tmp = getenv("TMPDIR");
    memset(w, 0, sizeof(*w));
    snprintf(w->root, sizeof(w->root), "%s/vram-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
    assert_non_null(mkdtemp(w->root));
    snprintf(w->dir, sizeof(w->dir), "%s/cache", w->root);
    strcpy(w->cache, w->dir);
    reopen(w);
}

static void end(world *w)
{
    char command[PATH_MAX];
    snprintf(command, sizeof(command), "rm -rf '%s'", w->root);
    vram_io_free(w->io);
    assert_int_equal(system(command), 0);
}

/* ---- what files hold ---- */

/* Differs by URL, validator and place. */
static char byte_of(const char *url, const char *validator, uint64_t at)
{
    return (char)(io_hash(&at, sizeof(at), io_hash(url, strlen(url), (unsigned char)validator[0])) & 0xFF);
}

static char *content(const char *url, const char *validator, uint64_t offset, size_t n)
{
    char *bytes = malloc(n + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_of(url, validator, offset + i);
    return bytes;
}

static void put_as(vram_io *io, const char *url, const char *validator, uint64_t total, uint64_t offset,
                   size_t n)
{
    char *bytes = content(url, validator, offset, n);
    io_cache_put(io, url, validator, total, offset, bytes, n);
    free(bytes);
}

static void put(world *w, uint64_t offset, size_t n)
{
    put_as(w->io, URL, TAG, TOTAL, offset, n);
}

/* How many bytes are known from offset on, all of them right; -1: nothing is found. */
static long get_as(vram_io *io, const char *url, const char *validator, uint64_t offset, uint64_t least)
{
    char *bytes;
    size_t n;
    uint64_t total;
    if (!io_cache_get(io, url, validator, offset, least, &bytes, &n, &total))
        return -1;
    if (offset > total || n > total - offset || (n < least && n != total - offset))
        return -2;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != byte_of(url, validator, offset + i))
            return -3;
    }
    return (long)n;
}

static long get(world *w, uint64_t offset, uint64_t least)
{
    reopen(w);
    return get_as(w->io, URL, TAG, offset, least);
}

/* ---- files of the directory ---- */

/* The number of files whose name has that in it; the last one's path. */
static size_t files_in(const char *dir, const char *part, char *path)
{
    DIR *d = opendir(dir);
    size_t n = 0;
    if (d == NULL)
        return 0;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (e->d_name[0] == '.' && e->d_name[strspn(e->d_name, ".")] == '\0')
            continue;
        if (strstr(e->d_name, part) == NULL)
            continue;
        if (path != NULL)
            snprintf(path, PATH_MAX, "%s/%s", dir, e->d_name);
        n++;
    }
    closedir(d);
    return n;
}

static size_t files(const world *w)
{
    return files_in(w->dir, "", NULL);
}

static char *read_path(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(1 << 20);
    assert_non_null(f);
    assert_non_null(bytes);
    *n = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

static void write_path(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void age(const char *path, time_t seconds)
{
    struct timeval t[2] = { { time(NULL) - seconds, 0 }, { time(NULL) - seconds, 0 } };
    assert_int_equal(utimes(path, t), 0);
}

/* ---- tests ---- */

/* The empty text and "abc" as many implementations of XXH64 give them; the longer ones as python-xxhash 4.1.0
 * does, over bytes 0, 1, 2, ... */
static void test_hash(void **state)
{
    unsigned char bytes[256];
    (void)state;
    for (unsigned i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    assert_true(io_hash("", 0, 0) == UINT64_C(0xEF46DB3751D8E999));
    assert_true(io_hash("abc", 3, 0) == UINT64_C(0x44BC2CF5AD770999));
    assert_true(io_hash(bytes, 5, UINT64_C(0)) == UINT64_C(0xDD0274386E26030C));
    assert_true(io_hash(bytes, 31, UINT64_C(0)) == UINT64_C(0xC346D2B59B4D8EE1));
    assert_true(io_hash(bytes, 32, UINT64_C(0)) == UINT64_C(0xCBF59C5116FF32B4));
    assert_true(io_hash(bytes, 33, UINT64_C(7)) == UINT64_C(0x0C43E57754C778D9));
    assert_true(io_hash(bytes, 63, UINT64_C(0)) == UINT64_C(0xE26AA9E2A95F8E4F));
    assert_true(io_hash(bytes, 111, UINT64_C(0)) == UINT64_C(0x666CC5E38345DE58));
    assert_true(io_hash(bytes, 256, UINT64_C(18446744073709551615)) == UINT64_C(0x9FD2BFCEE8985E7F));
}

static void test_round_trip(void **state)
{
    world w;
    struct stat st;
    char path[PATH_MAX];
    (void)state;
    begin(&w);
    assert_int_equal(get(&w, 0, 1), -1);
    assert_int_equal(stat(w.dir, &st), -1); /* a question makes no directory */
    put(&w, 100, 50);
    assert_int_equal(get_as(w.io, URL, TAG, 100, 50), 50); /* also in the same process */
    assert_int_equal(get(&w, 100, 50), 50);
    assert_int_equal(get(&w, 120, 30), 30);
    assert_int_equal(get(&w, 120, 0), 30); /* all that is known */
    assert_int_equal(get(&w, 100, 51), -1);
    assert_int_equal(get(&w, 99, 1), -1);
    assert_int_equal(get(&w, 150, 1), -1);
    assert_int_equal(get(&w, 0, 0), 0); /* only the size */
    assert_int_equal(get(&w, TOTAL, 10), 0);
    assert_int_equal(get(&w, TOTAL + 1, 0), -1);
    put(&w, TOTAL - 10, 10);
    assert_int_equal(get(&w, TOTAL - 5, 100), 5); /* fewer where the file ends */
    assert_int_equal(stat(w.dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(files_in(w.dir, ".headers", path), 1);
    assert_int_equal(files(&w), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    end(&w);
}

/* Any two ranges of a file of 12 bytes, and then a third: what is known must be their union. */
static void test_spans(void **state)
{
    enum { N = 12 };
    const io_entry e = { .url = vr_str_of(URL), .validator = vr_str_of(TAG), .total = N };
    char *bytes = content(URL, TAG, 0, N);
    (void)state;
    for (unsigned pick = 0; pick < N * N * N * N; pick++) {
        unsigned b[3] = { pick % N, pick / N % N, 5 }, n[3] = { pick / N / N % N, pick / N / N / N, 2 };
        bool known[N] = { false };
        char *entry = NULL;
        size_t size = 0;
        for (unsigned i = 0; i < 3; i++) {
            io_entry old;
            n[i] = n[i] > N - b[i] ? N - b[i] : n[i];
            char *next =
                (entry == NULL || io_entry_read(&old, entry, size))
                    ? io_entry_write(&e, entry == NULL ? NULL : &old, b[i], bytes + b[i], n[i], &size)
                    : NULL;
            assert_non_null(next);
            free(entry);
            entry = next;
            for (unsigned k = 0; k < n[i]; k++)
                known[b[i] + k] = true;
            assert_true(io_entry_read(&old, entry, size)); /* sorted, apart, and nothing else in it */
            for (unsigned at = 0; at < N; at++) {
                const char *found;
                size_t got, run = 0;
                while (at + run < N && known[at + run])
                    run++;
                assert_true(io_entry_find(&old, at, 0, &found, &got));
                assert_int_equal(got, run);
                assert_memory_equal(found, bytes + at, run);
                assert_int_equal(io_entry_find(&old, at, 1, &found, &got), run > 0);
            }
        }
        free(entry);
    }
    free(bytes);
}

static void test_keys(void **state)
{
    static const char *const refused[] = { "https://u:secret@example.org/a",
                                           "https://secret@example.org",
                                           "https://example.org/a?signature=1",
                                           "https://example.org/a#b",
                                           "example.org/a",
                                           "://a",
                                           "https://",
                                           "" };
    world w;
    (void)state;
    begin(&w);
    put(&w, 0, 10);
    assert_int_equal(get_as(w.io, URL, "\"other\"", 0, 1), -1);
    assert_int_equal(get_as(w.io, URL "x", TAG, 0, 1), -1);
    assert_int_equal(get_as(w.io, URL, "", 0, 1), -1);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        put_as(w.io, refused[i], TAG, TOTAL, 0, 10);
        assert_int_equal(get_as(w.io, refused[i], TAG, 0, 1), -1);
    }
    put_as(w.io, URL, "", TOTAL, 0, 10);
    assert_int_equal(files(&w), 1);
    put_as(w.io, "https://example.org/user@name/a", TAG, TOTAL, 0, 10); /* not in the authority */
    assert_int_equal(get_as(w.io, "https://example.org/user@name/a", TAG, 0, 1), 10);
    put_as(w.io, URL, TAG, TOTAL + 1, 20, 10); /* of another size: what was known is not of this file */
    assert_int_equal(get(&w, 0, 1), -1);
    assert_int_equal(get(&w, 20, 10), 10);
    put_as(w.io, URL, TAG, 10, 5, 10);         /* behind its end */
    put_as(w.io, URL, TAG, UINT64_MAX, 0, 10); /* of unknown size */
    assert_int_equal(get(&w, 20, 10), 10);
    end(&w);
}

static void test_newest(void **state)
{
    world w;
    char got[32] = "-";
    (void)state;
    begin(&w);
    assert_false(io_cache_newest(w.io, URL, got, sizeof(got)));
    put_as(w.io, URL, "one", TOTAL, 0, 10);
    put_as(w.io, URL "2", "three", TOTAL, 0, 10);
    put_as(w.io, URL, "two", TOTAL, 0, 10);
    assert_int_equal(get_as(w.io, URL, "one", 0, 1), 10); /* used later, but not written */
    assert_true(io_cache_newest(w.io, URL, got, sizeof(got)));
    assert_string_equal(got, "two");
    put_as(w.io, URL, "one", TOTAL, 10, 10);
    assert_true(io_cache_newest(w.io, URL, got, sizeof(got)));
    assert_string_equal(got, "one");
    assert_false(io_cache_newest(w.io, URL, got, 3)); /* no room for it */
    assert_false(io_cache_newest(w.io, URL "?x", got, sizeof(got)));
    set_options(&w, true);
    assert_false(io_cache_newest(w.io, URL, got, sizeof(got)));
    assert_int_equal(get_as(w.io, URL, "one", 0, 1), -1);
    put_as(w.io, URL, "one", TOTAL, 20, 10);
    set_options(&w, false);
    assert_int_equal(get_as(w.io, URL, "one", 0, 30), 30);
    end(&w);
}

/* An entry of tomorrow is none that was written last: the clock was set back. */
static void test_clock(void **state)
{
    world w;
    char path[PATH_MAX], got[32];
    size_t n = 0;
    io_entry e;
    (void)state;
    begin(&w);
    put_as(w.io, URL, "old", TOTAL, 0, 10);
    assert_int_equal(files_in(w.dir, "", path), 1);
    char *bytes = read_path(path, &n);
    assert_true(io_entry_read(&e, bytes, n));
    io_entry later = e;
    later.made += UINT64_C(86400000000000);
    char *made = io_entry_write(&later, NULL, 0, e.bytes, 10, &n);
    assert_non_null(made);
    write_path(path, made, n);
    free(made);
    free(bytes);
    reopen(&w);
    assert_true(io_cache_newest(w.io, URL, got, sizeof(got)));
    assert_string_equal(got, "old"); /* better than none */
    put_as(w.io, URL, "new", TOTAL, 0, 10);
    assert_true(io_cache_newest(w.io, URL, got, sizeof(got)));
    assert_string_equal(got, "new");
    end(&w);
}

static void test_forget(void **state)
{
    world w;
    (void)state;
    begin(&w);
    put_as(w.io, URL, "one", TOTAL, 0, 10);
    put_as(w.io, URL, "two", TOTAL, 0, 10);
    assert_int_equal(get_as(w.io, URL, "one", 0, 10), 10);
    io_cache_forget(w.io, URL, "one");
    io_cache_forget(w.io, URL, "three");
    assert_int_equal(get_as(w.io, URL, "one", 0, 10), -1);
    assert_int_equal(get_as(w.io, URL, "two", 0, 10), 10);
    end(&w);
}

/* ---- entries that are not believed ---- */

static void expect_refused(world *w, const char *path, const char *bytes, size_t n)
{
    write_path(path, bytes, n);
    assert_int_equal(get(w, 0, 0), -1);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_damage(void **state)
{
    world w;
    char path[PATH_MAX];
    size_t n;
    (void)state;
    begin(&w);
    put(&w, 0, 40);
    put(&w, 100, 20);
    assert_int_equal(files_in(w.dir, "", path), 1);
    char *good = read_path(path, &n), *bad = malloc(n + 1);
    assert_non_null(bad);
    assert_int_equal(n, 48 + 2 * 16 + strlen(URL) + strlen(TAG) + 60);
    for (size_t i = 0; i < 8 * n; i++) {
        memcpy(bad, good, n);
        bad[i / 8] = (char)(bad[i / 8] ^ 1 << i % 8);
        expect_refused(&w, path, bad, n);
    }
    for (size_t k = 0; k < n; k++)
        expect_refused(&w, path, good, k);
    memcpy(bad, good, n);
    bad[n] = 0;
    expect_refused(&w, path, bad, n + 1);
    write_path(path, good, n);
    assert_int_equal(get(&w, 100, 20), 20);
    free(good);
    free(bad);
    end(&w);
}

/* A right entry, but of another file. */
static void test_foreign(void **state)
{
    world w;
    char mine[PATH_MAX], other[PATH_MAX];
    (void)state;
    begin(&w);
    put(&w, 0, 40);
    assert_int_equal(files_in(w.dir, "", mine), 1);
    assert_int_equal(unlink(mine), 0);
    put_as(w.io, URL, "\"other\"", TOTAL, 0, 40);
    assert_int_equal(files_in(w.dir, "", other), 1);
    assert_int_equal(rename(other, mine), 0);
    assert_int_equal(get(&w, 0, 1), -1);
    put_as(w.io, URL "x", TAG, TOTAL, 0, 40);
    assert_int_equal(files_in(w.dir, "", other), 1);
    assert_int_equal(rename(other, mine), 0);
    assert_int_equal(get(&w, 0, 1), -1);
    assert_int_equal(files(&w), 0);
    end(&w);
}

static void test_odd_files(void **state)
{
    world w;
    char path[PATH_MAX], good[PATH_MAX];
    struct stat st;
    (void)state;
    begin(&w);
    put(&w, 0, 40);
    assert_int_equal(files_in(w.dir, "", path), 1);
    snprintf(good, sizeof(good), "%s/good", w.root);
    assert_int_equal(rename(path, good), 0);
    assert_int_equal(symlink(good, path), 0);
    assert_int_equal(get(&w, 0, 1), -1); /* not through a link, although all is right behind it */
    assert_int_equal(lstat(path, &st), -1);
    assert_int_equal(access(good, F_OK), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(get(&w, 0, 1), -1); /* and does not wait for a writer */
    assert_int_equal(lstat(path, &st), -1);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(get(&w, 0, 1), -1);
    assert_int_equal(lstat(path, &st), -1);
    assert_int_equal(symlink(good, path), 0);
    put(&w, 50, 10); /* replaces the link and not what it leads to */
    assert_int_equal(get(&w, 50, 10), 10);
    assert_int_equal(get(&w, 0, 1), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(strcpy(good, path), "/x");
    write_path(good, "x", 1);
    put(&w, 0, 40); /* a directory that is not empty stays; nothing is left of the attempt */
    assert_int_equal(get(&w, 0, 1), -1);
    assert_int_equal(files(&w), 1);
    end(&w);
}

static void test_oversized(void **state)
{
    world w;
    char path[PATH_MAX];
    (void)state;
    begin(&w);
    put(&w, 0, 40);
    assert_int_equal(files_in(w.dir, "", path), 1);
    assert_int_equal(truncate(path, (off_t)IO_ENTRY_MOST + 1), 0);
    assert_int_equal(get(&w, 0, 1), -1);
    assert_int_equal(access(path, F_OK), -1);
    const size_t n = IO_ENTRY_MOST / 2;
    char *zeros = calloc(1, n);
    assert_non_null(zeros);
    io_cache_put(w.io, URL, TAG, UINT64_C(1) << 40, 0, zeros, n);
    io_cache_put(w.io, URL, TAG, UINT64_C(1) << 40, n + 1, zeros, n); /* too much together: not added */
    char *bytes;
    size_t got;
    uint64_t total;
    assert_true(io_cache_get(w.io, URL, TAG, 0, n, &bytes, &got, &total));
    assert_int_equal(got, n);
    assert_true(total == UINT64_C(1) << 40);
    free(zeros);
    end(&w);
}

/* ---- places that are none ---- */

static void test_directory(void **state)
{
    world w;
    char a[PATH_MAX], b[PATH_MAX];
    (void)state;
    begin(&w);
    w.cache[0] = '\0'; /* as not set */
    snprintf(a, sizeof(a), "%s/xdg", w.root);
    snprintf(b, sizeof(b), "%s", w.root);
    w.home = b;
    put(&w, 0, 10);
    strcat(b, "/.cache/vram");
    assert_int_equal(files_in(b, ".headers", NULL), 1);
    b[strlen(w.root)] = '\0';
    w.xdg = "relative"; /* to be ignored */
    assert_int_equal(get(&w, 0, 10), 10);
    w.xdg = a;
    assert_int_equal(get(&w, 0, 10), -1);
    put(&w, 0, 10);
    strcat(a, "/vram");
    assert_int_equal(files_in(a, ".headers", NULL), 1);
    w.xdg = NULL;
    w.home = NULL;
    assert_int_equal(get(&w, 0, 10), -1);
    put(&w, 0, 10);
    strcat(b, "/nobody");
    w.home = b; /* a home that is not there is not made */
    assert_int_equal(get(&w, 0, 10), -1);
    put(&w, 0, 10);
    assert_int_equal(access(b, F_OK), -1);
    end(&w);
}

static void test_no_directory(void **state)
{
    world w;
    (void)state;
    begin(&w);
    write_path(w.dir, "a file", 6);
    put(&w, 0, 10);
    assert_int_equal(get(&w, 0, 1), -1);
    strcat(w.cache, "/below");
    put(&w, 0, 10);
    assert_int_equal(get(&w, 0, 1), -1);
    memset(w.cache, 'x', sizeof(w.cache) - 1); /* a name too long */
    reopen(&w);
    put(&w, 0, 10);
    assert_int_equal(get(&w, 0, 1), -1);
    strcpy(w.cache, w.dir);
    assert_int_equal(unlink(w.dir), 0);
    assert_int_equal(mkdir(w.dir, 0700), 0);
    put(&w, 0, 10);
    assert_int_equal(get(&w, 0, 1), -1); /* once found useless: put opened it above, before it was there */
    reopen(&w);
    put(&w, 0, 10);
    assert_int_equal(get(&w, 0, 1), 10);
    assert_int_equal(chmod(w.dir, 0777), 0); /* anybody could have written there */
    assert_int_equal(get(&w, 0, 1), -1);
    put(&w, 0, 10);
    assert_int_equal(chmod(w.dir, 0700), 0);
    assert_int_equal(get(&w, 0, 1), 10);
    end(&w);
}

/* ---- in another process ---- */

typedef int (*child_fn)(world *w);

static int run_child(world *w, child_fn fn)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(fn(w));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status)); /* and not by a signal */
    return WEXITSTATUS(status);
}

static vram_io *child_io(world *w)
{
    vram_io *io;
    const vram_io_options o = { .env = env, .env_ud = w };
    if (vram_io_new(&io) != VRAM_OK)
        _exit(99);
    vram_io_set_options(io, &o);
    return io;
}

/* A limit on sizes of files is a disk that is full at that place. */
static int child_limited(world *w)
{
    const struct rlimit most = { 4000, 4000 };
    if (setrlimit(RLIMIT_FSIZE, &most) != 0)
        return SKIPPED;
    vram_io *io = child_io(w);
    put_as(io, URL "small", TAG, TOTAL, 0, 1000);
    put_as(io, URL "large", TAG, TOTAL, 0, 4000);
    put_as(io, URL "small", TAG, TOTAL, 1000, 3000);
    long small = get_as(io, URL "small", TAG, 0, 1000), large = get_as(io, URL "large", TAG, 0, 1);
    vram_io_free(io);
    return small == 1000 && large == -1 && files(w) == 1 ? 0 : 1;
}

static bool mount_here(const world *w, unsigned long flags, const char *options)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", "", MS_REC | MS_PRIVATE, "") == 0 &&
           mount("none", w->dir, "tmpfs", 0, options) == 0 &&
           (flags == 0 || mount("none", w->dir, "", MS_REMOUNT | flags, options) == 0);
}

static int child_full(world *w)
{
    if (!mount_here(w, 0, "size=64k,mode=0700"))
        return SKIPPED;
    vram_io *io = child_io(w);
    char url[64];
    unsigned kept = 0, wrong = 0;
    for (unsigned i = 0; i < 40; i++) {
        snprintf(url, sizeof(url), "https://example.org/%u", i);
        put_as(io, url, TAG, 1 << 20, 0, 5000);
    }
    put_as(io, URL, TAG, 1 << 20, 0, 200000); /* more than there is: partly written first */
    for (unsigned i = 0; i < 40; i++) {
        snprintf(url, sizeof(url), "https://example.org/%u", i);
        long n = get_as(io, url, TAG, 0, 5000);
        kept += n == 5000;
        wrong += n != 5000 && n != -1;
    }
    vram_io_free(io);
    return wrong == 0 && kept > 4 && kept < 16 && files(w) == kept ? 0 : 1;
}

static int child_read_only(world *w)
{
    if (!mount_here(w, MS_RDONLY, "mode=0700"))
        return SKIPPED;
    vram_io *io = child_io(w);
    put_as(io, URL, TAG, TOTAL, 0, 100);
    long n = get_as(io, URL, TAG, 0, 1);
    vram_io_free(io);
    return n == -1 && files(w) == 0 ? 0 : 1;
}

/* An unprivileged user in a directory of another. */
static int child_no_permission(world *w)
{
    if (chmod(w->root, 0755) != 0 || chmod(w->dir, 0755) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
        return SKIPPED;
    vram_io *io = child_io(w);
    put_as(io, URL, TAG, TOTAL, 0, 100);
    long n = get_as(io, URL, TAG, 0, 1);
    vram_io_free(io);
    return n == -1 && files(w) == 0 ? 0 : 1;
}

static void expect_child(child_fn fn)
{
    world w;
    begin(&w);
    assert_int_equal(mkdir(w.dir, 0700), 0);
    int status = run_child(&w, fn);
    assert_int_equal(chmod(w.root, 0700), 0);
    end(&w);
    if (status == SKIPPED)
        skip(); /* needs root */
    assert_int_equal(status, 0);
}

static void test_limited(void **state)
{
    (void)state;
    expect_child(child_limited);
}

static void test_full(void **state)
{
    (void)state;
    expect_child(child_full);
}

static void test_read_only(void **state)
{
    (void)state;
    expect_child(child_read_only);
}

static void test_no_permission(void **state)
{
    (void)state;
    expect_child(child_no_permission);
}

/* ---- many at once ---- */

#define WRITERS 8
#define PIECE 64

static unsigned writer_number;

static int child_writer(world *w)
{
    vram_io *io = child_io(w);
    uint64_t random = writer_number + 1;
    char url[64];
    for (unsigned i = 0; i < 300; i++) {
        random = io_hash(&random, sizeof(random), 0);
        snprintf(url, sizeof(url), "https://example.org/%u", (unsigned)(random % 3));
        const char *tag = random & 8 ? "one" : "two";
        uint64_t offset = (random >> 8) % TOTAL, n = (random >> 24) % 512;
        n = n < TOTAL - offset ? n : TOTAL - offset;
        if (random & 16)
            put_as(io, url, tag, TOTAL, offset, (size_t)n);
        if (get_as(io, url, tag, offset, n) < -1)
            return 1;
        if (random & 64)
            put_as(io, URL "steady", TAG, PIECE, 0, PIECE);
        if (get_as(io, URL "steady", TAG, 0, PIECE) != PIECE) /* replaced again and again, never away */
            return 2;
        if (random & 32) { /* nothing remembered */
            vram_io_free(io);
            io = child_io(w);
        }
    }
    /* Its own parts of one entry. */
    for (uint64_t at = writer_number * PIECE; at < TOTAL; at += WRITERS * PIECE)
        put_as(io, URL, TAG, TOTAL, at, PIECE);
    vram_io_free(io);
    return 0;
}

static void test_writers(void **state)
{
    world w;
    pid_t pids[WRITERS];
    (void)state;
    begin(&w);
    put_as(w.io, URL "steady", TAG, PIECE, 0, PIECE);
    for (writer_number = 0; writer_number < WRITERS; writer_number++) {
        pids[writer_number] = fork();
        assert_true(pids[writer_number] >= 0);
        if (pids[writer_number] == 0)
            _exit(child_writer(&w));
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    unsigned known = 0;
    for (unsigned at = 0; at < TOTAL; at += PIECE) {
        long n = get(&w, at, PIECE);
        assert_true(n == -1 || n >= PIECE);
        known += n >= PIECE;
    }
    print_message("%u of %u parts from %u writers kept\n", known, TOTAL / PIECE, WRITERS);
    assert_true(known > TOTAL / PIECE / 2); /* nearly always all; the lock does not wait for ever */
    assert_int_equal(files(&w), 8);
    end(&w);
}

/* Writers wait for each other, but not for one that was stopped. */
static void test_lock(void **state)
{
    world w;
    struct timespec before, after;
    (void)state;
    begin(&w);
    put(&w, 0, 10);
    int dir = open(w.dir, O_RDONLY | O_DIRECTORY);
    assert_true(dir >= 0);
    assert_int_equal(flock(dir, LOCK_EX), 0);
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &before), 0);
    put(&w, 10, 10);
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &after), 0);
    assert_true((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 90);
    assert_int_equal(get(&w, 0, 20), 20);
    assert_int_equal(close(dir), 0);
    end(&w);
}

static void put_until_killed(world *w, const char *bytes)
{
    vram_io *io = child_io(w);
    for (size_t at = 0;; at = (at + 4096) % (1 << 20))
        io_cache_put(io, URL, TAG, 1 << 20, at, bytes + at, (1 << 20) - at);
}

static void test_killed(void **state)
{
    world w;
    char path[PATH_MAX];
    size_t left = 0, whole = 0;
    long patience = 3000000; /* ns; more where all is slow, until a writer comes to its end */
    char *bytes = content(URL, TAG, 0, 1 << 20);
    (void)state;
    begin(&w);
    for (unsigned round = 0; round < 40; round++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            put_until_killed(&w, bytes);
        const struct timespec wait = { 0, patience + (long)round * 217000 };
        (void)nanosleep(&wait, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        long n = get(&w, 0, 1 << 20);
        assert_true(n == -1 || n == 1 << 20);
        whole += n == 1 << 20;
        if (whole == 0 && patience < 400000000)
            patience += patience / 2;
    }
    free(bytes);
    left = files_in(w.dir, ".new-", path);
    print_message("killed 40 times: the entry was whole %zu times, %zu temporary files\n", whole, left);
    assert_true(whole > 0);
    if (left == 0) { /* by chance none was killed while writing */
        snprintf(path, sizeof(path), "%s/.new-1-1", w.dir);
        write_path(path, "part", 4);
        left = 1;
    }
    put(&w, 0, 10);
    assert_int_equal(files_in(w.dir, ".new-", NULL), left); /* may be living writers' */
    while (files_in(w.dir, ".new-", path) > 0 && left-- > 0) {
        age(path, 3700);
        reopen(&w);
        put(&w, 0, 10);
        assert_int_equal(files_in(w.dir, ".new-", NULL), left);
    }
    end(&w);
}

/* ---- bounds ---- */

static void test_eviction(void **state)
{
    world w;
    char path[PATH_MAX], used[PATH_MAX], other[PATH_MAX];
    (void)state;
    begin(&w);
    put(&w, 0, 10);
    assert_int_equal(files_in(w.dir, "", used), 1);
    for (unsigned i = 0; i < 12; i++) { /* 720 MiB, the higher the older */
        snprintf(path, sizeof(path), "%s/%032x.headers", w.dir, i);
        write_path(path, "x", 1);
        assert_int_equal(truncate(path, 60 << 20), 0);
        age(path, 100 + i);
    }
    snprintf(other, sizeof(other), "%s/notes.txt", w.dir); /* not ours: neither counted nor removed */
    write_path(other, "x", 1);
    assert_int_equal(truncate(other, 600 << 20), 0);
    age(other, 1000000);
    age(used, 1000);
    assert_int_equal(get(&w, 0, 10), 10); /* used: is the newest now */
    put_as(w.io, URL "new", TAG, TOTAL, 0, 10);
    assert_int_equal(get(&w, 0, 10), 10);
    assert_int_equal(get_as(w.io, URL "new", TAG, 0, 10), 10);
    assert_int_equal(access(other, F_OK), 0);
    for (unsigned i = 0; i < 12; i++) { /* 8 x 60 MiB and two small ones are under 512 MiB */
        snprintf(path, sizeof(path), "%s/%032x.headers", w.dir, i);
        assert_int_equal(access(path, F_OK), i < 8 ? 0 : -1);
    }
    end(&w);
}

/* Also one process that writes much keeps to it. */
static void test_bound_while_writing(void **state)
{
    world w;
    char path[PATH_MAX];
    (void)state;
    begin(&w);
    put(&w, 0, 10);
    for (unsigned i = 0; i < 9; i++) {
        snprintf(path, sizeof(path), "%s/%032x.headers", w.dir, i);
        write_path(path, "x", 1);
        assert_int_equal(truncate(path, 60 << 20), 0);
        age(path, 100 + i);
    }
    char *bytes = calloc(1, 1 << 20);
    assert_non_null(bytes);
    for (unsigned i = 0; i < 17; i++) {
        snprintf(path, sizeof(path), "https://example.org/%u", i);
        io_cache_put(w.io, path, TAG, 1 << 20, 0, bytes, 1 << 20);
    }
    free(bytes);
    snprintf(path, sizeof(path), "%s/%032x.headers", w.dir, 8u);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof(path), "%s/%032x.headers", w.dir, 7u);
    assert_int_equal(access(path, F_OK), 0);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),          cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_spans),         cmocka_unit_test(test_keys),
        cmocka_unit_test(test_newest),        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_forget),        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_foreign),       cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_oversized),     cmocka_unit_test(test_directory),
        cmocka_unit_test(test_no_directory),  cmocka_unit_test(test_limited),
        cmocka_unit_test(test_full),          cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_no_permission), cmocka_unit_test(test_writers),
        cmocka_unit_test(test_lock),          cmocka_unit_test(test_killed),
        cmocka_unit_test(test_eviction),      cmocka_unit_test(test_bound_while_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
