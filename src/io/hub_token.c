/* SPDX-License-Identifier: MIT
 * The token for the hub: huggingface_hub 2.4.0, utils/_auth.py and constants.py (HF_HOME, HF_TOKEN_PATH). It
 * goes to the configured endpoint only, over https or to this computer, and is in no text of ours. */
#include "io/hub.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MOST_TOKEN 4096

bool io_hub_expand(const vram_io *io, const char *path, char *out, size_t room)
{
    const char *home = path[0] == '~' && path[1] == '/' ? io_env(io, "HOME") : NULL;
    if (path[0] == '~' && home == NULL)
        return false;
    int n = home != NULL ? snprintf(out, room, "%s%s", home, path + 1) : snprintf(out, room, "%s", path);
    return n >= 0 && (size_t)n < room;
}

bool io_hub_home(const vram_io *io, const char *tail, char *out, size_t room)
{
    char path[2048];
    const char *own = io_env(io, "HF_HOME"), *cache = io_env(io, "XDG_CACHE_HOME");
    int n;
    if (own != NULL)
        n = snprintf(path, sizeof(path), "%s/%s", own, tail);
    else if (cache != NULL)
        n = snprintf(path, sizeof(path), "%s/huggingface/%s", cache, tail);
    else
        n = snprintf(path, sizeof(path), "~/.cache/huggingface/%s", tail);
    return n >= 0 && (size_t)n < sizeof(path) && io_hub_expand(io, path, out, room);
}

bool io_hub_env(const vram_io *io, const char *name)
{
    static const char *const yes[] = { "1", "on", "yes", "true" };
    const char *value = io_env(io, name);
    for (size_t i = 0; value != NULL && i < sizeof(yes) / sizeof(yes[0]); i++) {
        if (strcasecmp(value, yes[i]) == 0)
            return true;
    }
    return false;
}

bool io_hub_offline(const vram_io *io)
{
    return io->options.offline || io_hub_env(io, "HF_HUB_OFFLINE") || io_hub_env(io, "TRANSFORMERS_OFFLINE");
}

/* Printable and without white space at its ends, or NULL. */
static const char *clean(io_hub *h, vr_str s)
{
    while (s.n > 0 && strchr(" \t\r\n", s.s[s.n - 1]) != NULL)
        s.n--;
    while (s.n > 0 && strchr(" \t\r\n", s.s[0]) != NULL)
        s = (vr_str){ s.s + 1, s.n - 1 };
    for (size_t i = 0; i < s.n; i++) {
        if (s.s[i] <= 0x20 || s.s[i] >= 0x7f)
            return NULL;
    }
    return s.n == 0 || s.n > MOST_TOKEN ? NULL : vr_arena_copy(&h->remote.arena, s);
}

static bool from_file(io_hub *h)
{
    char path[2048];
    const void *bytes = NULL;
    size_t n = 0;
    vram_io *io = h->remote.source.io;
    const char *set = io_env(io, "HF_TOKEN_PATH");
    if (!(set != NULL ? io_hub_expand(io, set, path, sizeof(path))
                      : io_hub_home(io, "token", path, sizeof(path))))
        return false;
    if (vram_io_read_file(&bytes, &n, io, h->remote.source.ctx, path, MOST_TOKEN) != VRAM_OK)
        return false; /* most people have none */
    h->token = clean(h, (vr_str){ bytes, n });
    h->token_from = vr_arena_copy(&h->remote.arena, vr_str_of(path));
    return h->token != NULL;
}

static bool is_safe(const char *endpoint)
{
    static const char *const safe[] = { "https://", "http://127.0.0.1", "http://localhost", "http://[::1]" };
    for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++) {
        size_t n = strlen(safe[i]);
        if (strncmp(endpoint, safe[i], n) == 0 && (i == 0 || strchr(":/", endpoint[n]) != NULL))
            return true;
    }
    return false;
}

vram_status io_hub_token(io_hub *h)
{
    static const char *const names[] = { "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN" };
    vram_io *io = h->remote.source.io;
    if (h->place->endpoint[0] != '\0' || !is_safe(h->endpoint) ||
        io_hub_env(io, "HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return VRAM_OK;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && h->token == NULL; i++) {
        const char *value = io_env(io, names[i]);
        if (value == NULL)
            continue;
        h->token = clean(h, vr_str_of(value));
        h->token_from = names[i];
        if (h->token == NULL)
            return vr_warn(h->remote.source.ctx, NULL, T(names[i]),
                           T(" holds characters that no token has, and is not used"));
    }
    if (h->token == NULL)
        from_file(h);
    h->remote.bearer = h->token;
    return VRAM_OK;
}
