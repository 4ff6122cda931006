/* SPDX-License-Identifier: MIT
 * Ollama's store on this disk. Sources: ollama 0.17.4, envconfig/config.go Models, types/model/name.go
 * Filepath (manifests/HOST/OWNER/MODEL/TAG), manifest/paths.go BlobsPath (blobs/sha256-HEX; once sha256:HEX,
 * which server/fixblobs.go renames), server/download.go ("-partial" has the full size from the start, and
 * "-partial-N" says in JSON how much of each part came), x/imagegen/transfer/download.go (".tmp"),
 * scripts/install.sh (the service's home is /usr/share/ollama; packages of distributions have /var/lib). */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include "io/ollama_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "io/ollama_manifest.h"

#define PART_MOST 4096 /* bytes of one "-partial-N", which has about 60 */
#define PARTS_MOST 100000

/* ---- roots ---- */

static void add_root(io_store *s, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        s->roots[s->n_roots++] = path;
    else if (errno == EACCES && s->denied == NULL)
        s->denied = path;
    if (fd >= 0)
        close(fd);
}

vram_status io_store_open(io_store *out, vr_arena *a, vram_io *io, vram_ctx *ctx)
{
    static const char *const others[] = { "/usr/share/ollama/.ollama/models",
                                          "/var/lib/ollama/.ollama/models", "/var/lib/ollama/models",
                                          "/var/lib/ollama" };
    const char *own = io_env(io, "OLLAMA_MODELS"), *home = io_env(io, "HOME");
    *out = (io_store){ .io = io, .ctx = ctx };
    if (own != NULL) {
        add_root(out, own);
        return VRAM_OK;
    }
    if (home != NULL) {
        const char *path = vr_text(a, T(home), T("/.ollama/models"));
        if (path == NULL)
            return VRAM_ENOMEM;
        add_root(out, path);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        add_root(out, others[i]);
    return VRAM_OK;
}

/* ---- manifests ---- */

/* *found: the name of an entry of dir that is `name` but for the case of letters; NULL: none. */
static vram_status find_folded(vr_arena *a, const char *dir, const char *name, const char **found)
{
    DIR *d = opendir(dir);
    const struct dirent *e = NULL;
    *found = NULL;
    if (d == NULL)
        return VRAM_OK;
    do {
        e = readdir(d);
    } while (e != NULL && strcasecmp(e->d_name, name) != 0);
    if (e != NULL)
        *found = vr_arena_copy(a, vr_str_of(e->d_name));
    bool failed = e != NULL && *found == NULL;
    closedir(d);
    return failed ? VRAM_ENOMEM : VRAM_OK;
}

/* *path becomes path/name, or NULL when nothing of that name is there. */
static vram_status descend(vr_arena *a, const char **path, const char *name)
{
    struct stat st;
    const char *dir = *path, *other = NULL;
    *path = vr_text(a, T(dir), T("/"), T(name));
    if (*path == NULL)
        return VRAM_ENOMEM;
    if (stat(*path, &st) == 0)
        return VRAM_OK;
    VR_TRY(find_folded(a, dir, name, &other));
    *path = other == NULL ? NULL : vr_text(a, T(dir), T("/"), T(other));
    return other != NULL && *path == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status find_manifest(vr_arena *a, const char *root, const io_ollama_name *name, const char **path)
{
    const char *const words[] = { name->host, name->owner, name->model, name->tag };
    *path = vr_text(a, T(root), T("/manifests"));
    if (*path == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < 4 && *path != NULL; i++)
        VR_TRY(descend(a, path, words[i]));
    return VRAM_OK;
}

vram_status io_store_manifest(io_store *s, vr_arena *a, const io_ollama_name *name, const char **path,
                              vr_str *text)
{
    const void *bytes;
    *path = NULL;
    for (size_t i = 0; i < s->n_roots && *path == NULL; i++)
        VR_TRY(find_manifest(a, s->roots[i], name, path));
    if (*path == NULL)
        return VRAM_OK;
    VR_TRY(vram_io_read_file(&bytes, &text->n, s->io, s->ctx, *path, IO_MANIFEST_MOST));
    text->s = bytes;
    return VRAM_OK;
}

/* ---- blobs ---- */

/* The bytes that one "-partial-N" says came, at most the size it gives its part; false: there is none. */
static bool part_bytes(const char *path, uint64_t *bytes)
{
    char text[PART_MOST];
    vr_json root, v;
    vr_json_error e;
    uint64_t completed = 0, size = 0;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (fd >= 0)
        close(fd);
    if (n > 0 && vr_json_parse((vr_str){ text, (size_t)n }, &root, &e) &&
        vr_json_get(root, "Completed", &v) && vr_json_u64(v, &completed) && vr_json_get(root, "Size", &v) &&
        vr_json_u64(v, &size))
        *bytes = completed < size ? completed : size;
    return fd >= 0;
}

/* What a download that was not finished has left of the blob at path. */
static uint64_t partial_bytes(const char *path)
{
    char name[PATH_MAX];
    struct stat st;
    uint64_t sum = 0;
    for (unsigned i = 0; i < PARTS_MOST; i++) {
        uint64_t bytes = 0;
        int n = snprintf(name, sizeof(name), "%s-partial-%u", path, i);
        if (n < 0 || (size_t)n >= sizeof(name) || !part_bytes(name, &bytes))
            break;
        sum = vr_add_sat(sum, bytes);
    }
    snprintf(name, sizeof(name), "%s.tmp", path);
    return sum == 0 && stat(name, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : sum;
}

static vram_status look_at(vr_arena *a, const char *root, const char *sign, const char *hex, uint64_t size,
                           io_blob *out)
{
    struct stat st;
    const char *path = vr_text(a, T(root), T("/blobs/sha256"), T(sign), T(hex));
    if (path == NULL)
        return VRAM_ENOMEM;
    bool there = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    uint64_t have = there ? (uint64_t)st.st_size : partial_bytes(path);
    if (there && have == size)
        out->path = path;
    out->have = have > out->have ? have : out->have;
    return VRAM_OK;
}

vram_status io_store_blob(const io_store *s, vr_arena *a, const char *digest, uint64_t size, io_blob *out)
{
    *out = (io_blob){ NULL, 0 };
    for (size_t i = 0; i < 2 * s->n_roots && out->path == NULL; i++)
        VR_TRY(look_at(a, s->roots[i / 2], i % 2 == 0 ? "-" : ":", digest + strlen("sha256:"), size, out));
    return VRAM_OK;
}

static vram_status read_range(const io_store *s, int fd, const char *file, uint64_t offset, size_t n,
                              char *bytes)
{
    for (size_t got = 0; got < n;) {
        errno = 0;
        long r = s->io->read(s->io->read_ud, fd, bytes + got, n - got, offset + got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0 || (size_t)r > n - got)
            return vr_fail_at(s->ctx, VRAM_EIO, file, offset + got,
                              T(r < 0 ? strerror(errno)
                                      : "the file ended here, before its size; was it changed meanwhile?"));
        got += (size_t)r;
    }
    return VRAM_OK;
}

vram_status io_store_read(const io_store *s, const char *path, const char *file, uint64_t offset, size_t n,
                          char **bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return vr_fail_file(s->ctx, VRAM_EIO, file, T(path), T(": "), T(strerror(errno)));
    vram_status status = VRAM_OK;
    *bytes = io_hold(s->io, n + 1); /* nothing has an address too */
    if (*bytes == NULL)
        status = vr_fail_file(s->ctx, VRAM_ENOMEM, file, T("out of host memory"));
    else if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = vr_fail_file(s->ctx, VRAM_EIO, file, T(path), T(": this is no regular file"));
    else
        status = read_range(s, fd, file, offset, n, *bytes);
    close(fd);
    return status;
}
