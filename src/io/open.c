/* SPDX-License-Identifier: MIT
 * vram_io_open: which place a name means, and what to say when it means none. An existing path always wins,
 * and no name that is more likely a mistyped path is sent to a server (place.c). */
#define _POSIX_C_SOURCE 200809L

#include "io/hub.h"
#include "io/local.h"
#include "io/ollama.h"
#include "io/places.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Only what cannot be there is looked for elsewhere: "permission denied" is about a path. */
static bool is_path(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 || (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG);
}

#define WHAT_A_MODEL_IS                                                                                      \
    "a model is a path, org/name of the hub, an address, modelscope:org/name, ollama:name, or a "            \
    "name that vram models lists"

/* What the name of a model may be anywhere. */
static bool is_word(const char *name, size_t n)
{
    bool word = n > 0 && n < 97 && name[0] != '.' && name[0] != '-';
    for (size_t i = 0; i < n && word; i++)
        word = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
               (name[i] >= '0' && name[i] <= '9') || strchr("._-", name[i]) != NULL;
    return word;
}

/* "qwen2.5:7b", as Ollama's users write it. */
static bool looks_like_ollama(const char *name)
{
    const char *colon = strchr(name, ':');
    return colon != NULL && is_word(name, (size_t)(colon - name)) && is_word(colon + 1, strlen(colon + 1));
}

/* Cut between characters. */
static void shorten(char *out, size_t room, const char *name)
{
    size_t n = strlen(name);
    if (n >= room) {
        n = room - 4;
        while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80)
            n--;
        memcpy(out + n, "...", 4);
    } else {
        out[n] = '\0';
    }
    memcpy(out, name, n);
}

static vram_status no_path(vram_ctx *ctx, const char *name)
{
    char hint[256], called[200];
    const char *near = is_word(name, strcspn(name, ":")) ? vram_catalogue_near(ctx, name) : NULL;
    shorten(called, sizeof(called), name);
    if (name[0] == '\0')
        return io_fail(ctx, VRAM_ESETTING, NULL, WHAT_A_MODEL_IS, "the name of the model is empty");
    if (strcmp(name, "-") == 0)
        return io_fail(ctx, VRAM_ESETTING, NULL, WHAT_A_MODEL_IS, "a model is not read from standard input");
    if (strchr(name, '\\') != NULL)
        snprintf(hint, sizeof(hint), "a path has slashes: / and not \\");
    else if (looks_like_ollama(name))
        snprintf(hint, sizeof(hint), "for a model of Ollama: ollama:%s%s%s", name,
                 near != NULL ? "; built in is " : "", near != NULL ? near : "");
    else if (near != NULL && !io_place_is_file_name(name))
        snprintf(hint, sizeof(hint), "did you mean %s? vram models lists what is built in", near);
    else if (is_word(name, strlen(name)) && !io_place_is_file_name(name))
        snprintf(hint, sizeof(hint),
                 "a model of the hub has its organisation in front: ORG/%s; one of Ollama is ollama:%s", name,
                 name);
    else
        snprintf(hint, sizeof(hint), "%s", WHAT_A_MODEL_IS);
    return io_fail(ctx, VRAM_ENOTFOUND, NULL, hint, "'%s': there is no such file or directory", called);
}

/* What needs a server has failed; its shape may be built in. */
static vram_status hint_catalogue(vram_ctx *ctx, const io_place *place, vram_status s)
{
    const vram_error *e = vram_last_error(ctx);
    const char *built_in = vram_catalogue_name(place->repo);
    char hint[256];
    if ((s != VRAM_EIO && s != VRAM_ENOTFOUND) || built_in == NULL || place->file[0] != '\0')
        return s;
    snprintf(hint, sizeof(hint), "%s%sits shape is built in: %s", e->hint != NULL ? e->hint : "",
             e->hint != NULL ? "; " : "", built_in);
    vr_hint(ctx, hint);
    return s;
}

static vram_status open_place(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place,
                              const char *name)
{
    switch (place->kind) {
    case IO_PLACE_HUB:
        return hint_catalogue(ctx, place, io_hub_open(out, io, ctx, place, name));
    case IO_PLACE_MODELSCOPE:
        return hint_catalogue(ctx, place, io_modelscope_open(out, io, ctx, place));
    case IO_PLACE_URL:
        return io_url_open(out, io, ctx, place);
    case IO_PLACE_OLLAMA:
        return io_ollama_open(out, io, ctx, place);
    default:
        if (vram_catalogue_name(name) != NULL)
            return vram_checkpoint_catalogue(out, ctx, name);
        return no_path(ctx, name);
    }
}

/* What may hold a password is not repeated. */
static vram_status malformed(vram_ctx *ctx, const char *name, const char *why)
{
    char called[200];
    shorten(called, sizeof(called), name);
    const char *hint = WHAT_A_MODEL_IS;
    if (strncmp(name, "file://", 7) == 0)
        hint = "a file on this disk is named by its path alone, without file://";
    return strchr(name, '@') != NULL && strstr(name, "://") != NULL
               ? io_fail(ctx, VRAM_ESETTING, NULL, hint, "%s", why)
               : io_fail(ctx, VRAM_ESETTING, NULL, hint, "'%s': %s", called, why);
}

vram_status vram_io_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const char *name)
{
    const char *why = NULL;
    io_place place;
    io->asked_ms = io->came = io->wanted = 0;
    if (is_path(name)) {
        if (io->options.revision != NULL)
            VR_TRY(vr_warn(ctx, NULL,
                           T("--revision is of a repository: files on this disk are read as they are")));
        return vram_io_open_path(out, io, ctx, name);
    }
    if (!io_place_parse(&place, name, io_env(io, "HF_ENDPOINT"), &why))
        return malformed(ctx, name, why);
    return open_place(out, io, ctx, &place, name);
}
