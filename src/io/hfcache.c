/* SPDX-License-Identifier: MIT
 * The hub's cache on this disk: models--ORG--NAME/ with refs/REVISION (a file that holds a commit) and
 * snapshots/COMMIT/, whose files are links into blobs/, or copies where links cannot be made. What is being
 * downloaded is in blobs/ only, as *.incomplete, so a snapshot lacks it.
 * Source: huggingface_hub 2.4.0, constants.py (HF_HUB_CACHE and what it falls back to) and file_download.py
 * (repo_folder_name, _cache_commit_hash_for_specific_revision, try_to_load_from_cache). */
#define _POSIX_C_SOURCE 200809L

#include "io/hub.h"
#include "io/local.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ROOM 4096

static bool is_hexadecimal(const char *s, size_t n)
{
    return n == 40 && strspn(s, "0123456789abcdef") >= n;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* .../hub/models--ORG--NAME */
static bool repo_folder(const vram_io *io, const char *repo, char *out, size_t room)
{
    const char *set = io_env(io, "HF_HUB_CACHE");
    const char *slash = strchr(repo, '/');
    if (set == NULL)
        set = io_env(io, "HUGGINGFACE_HUB_CACHE");
    if (!(set != NULL ? io_hub_expand(io, set, out, room) : io_hub_home(io, "hub", out, room)))
        return false;
    size_t n = strlen(out);
    int k = slash != NULL
                ? snprintf(out + n, room - n, "/models--%.*s--%s", (int)(slash - repo), repo, slash + 1)
                : snprintf(out + n, room - n, "/models--%s", repo);
    return k >= 0 && (size_t)k < room - n;
}

/* A branch or tag is a file under refs/; a commit is itself. */
static bool commit_of(vram_io *io, vram_ctx *ctx, const char *folder, const char *revision, char commit[41])
{
    char path[ROOM];
    const void *bytes = NULL;
    size_t n = 0;
    int k = snprintf(path, sizeof(path), "%s/refs/%s", folder, revision);
    commit[40] = '\0';
    if (is_hexadecimal(revision, strlen(revision))) {
        memcpy(commit, revision, 40);
        return true;
    }
    if (k < 0 || (size_t)k >= sizeof(path) || vram_io_read_file(&bytes, &n, io, ctx, path, 256) != VRAM_OK ||
        n < 40)
        return false;
    memcpy(commit, bytes, 40);
    return is_hexadecimal(commit, 40);
}

/* What is told is that the other copy is read instead, and why. */
static vram_status warn_damaged(vram_ctx *ctx, const char *path)
{
    const vram_error *e = vram_last_error(ctx);
    return vr_warn(ctx, path, T("left aside, the hub's own copy is read: "), T(e->text));
}

static vram_status read_snapshot(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const char *path,
                                 const io_local_as *as)
{
    size_t warnings = ctx->n_warnings;
    bool offline = io_hub_offline(io);
    vram_status s = io_local_open(out, io, ctx, path, as);
    bool whole =
        s == VRAM_OK && vram_checkpoint_complete(*out) && (as->named || !vram_checkpoint_config_only(*out));
    if (s == VRAM_ENOMEM || (s == VRAM_OK && (offline || whole)))
        return s;
    *out = NULL;
    ctx->n_warnings = warnings; /* they are about files that are not read after all */
    return s == VRAM_EFORMAT && !offline ? warn_damaged(ctx, path) : VRAM_OK;
}

vram_status io_hfcache_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place,
                            const char *revision, const char *called)
{
    char folder[ROOM], path[2 * ROOM], commit[41];
    const char *slash = place->file[0] != '\0' ? "/" : "";
    if (!repo_folder(io, place->repo, folder, sizeof(folder)) ||
        !commit_of(io, ctx, folder, revision, commit))
        return VRAM_OK;
    int n = snprintf(path, sizeof(path), "%s/snapshots/%s", folder, commit);
    if (n < 0 || (size_t)n >= sizeof(path) || !is_directory(path))
        return VRAM_OK;
    snprintf(path + n, sizeof(path) - (size_t)n, "%s%s", slash, place->file);
    const io_local_as as = { .name = called,
                             .named = place->file[0] != '\0',
                             .chosen = io->options.file != NULL  ? io->options.file
                                       : place->quant[0] != '\0' ? place->quant
                                                                 : NULL };
    VR_TRY(read_snapshot(out, io, ctx, path, &as));
    snprintf(path, sizeof(path), "the hub's cache on this disk, commit %.7s", commit);
    return *out == NULL ? VRAM_OK : vram_checkpoint_read_from(*out, path);
}
