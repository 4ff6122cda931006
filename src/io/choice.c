/* SPDX-License-Identifier: MIT
 * Which files of a repository a name means.
 * Shards: "x-00001-of-00004.ext", huggingface_hub, serialization/_base.py, and llama.cpp, llama_split_path.
 * Indexes: transformers, utils/__init__.py ("model.safetensors.index.json", "pytorch_model.bin.index.json").
 */
#include "io/choice.h"

#include "base/base.h"

#include <stdio.h>
#include <string.h>

static bool ends_with(const char *s, const char *tail)
{
    return vr_str_ends(vr_str_of(s), tail);
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* ---- sets of shards ---- */

/* Where "-00001-of-00004" begins, or NULL. */
static const char *shard_mark(const char *name)
{
    const char *p = strstr(name, "-of-");
    for (; p != NULL; p = strstr(p + 1, "-of-")) {
        if (p - name >= 6 && p[-6] == '-' && strspn(p - 5, "0123456789") == 5 &&
            strspn(p + 4, "0123456789") == 5)
            return p - 6;
    }
    return NULL;
}

static bool same_set(const char *a, const char *b)
{
    const char *in_a = shard_mark(a), *in_b = shard_mark(b);
    return in_a != NULL && in_b != NULL && in_a - a == in_b - b && strncmp(a, b, (size_t)(in_a - a)) == 0 &&
           strcmp(in_a + 6, in_b + 6) == 0;
}

/* "model.safetensors.index.json" is the index of "model-00001-of-00004.safetensors". */
static bool is_index_of(const char *index, const char *shard)
{
    const char *mark = shard_mark(shard);
    size_t n = mark != NULL ? (size_t)(mark - shard) : 0;
    return n > 0 && strncmp(index, shard, n) == 0 && index[n] == '.' && ends_with(index, ".index.json");
}

/* ---- one file ---- */

static const char *name_beside(const io_choice *c, const char *name)
{
    const char *meant = base_of(c->file);
    if (ends_with(meant, ".index.json") || strcmp(meant, "model_index.json") == 0)
        return strcmp(meant, "model_index.json") == 0 || strchr(name, '/') == NULL ? name : NULL;
    if (strchr(name, '/') != NULL)
        return NULL;
    if (strcmp(name, meant) == 0 || same_set(name, meant) || is_index_of(name, meant))
        return name;
    return strcmp(name, "config.json") == 0 || io_choice_quantises(name) ? name : NULL;
}

bool io_choice_quantises(const char *name)
{
    return strcmp(name, "hf_quant_config.json") == 0 || strcmp(name, "quantize_config.json") == 0;
}

bool io_choice_configures(const char *name)
{
    return ends_with(name, ".json") && !ends_with(name, ".index.json") &&
           strcmp(base_of(name), "model_index.json") != 0;
}

const char *io_choice_name(const io_choice *c, const char *name)
{
    if (strncmp(name, c->file, c->folder) != 0)
        return NULL;
    name += c->folder;
    if (!c->one && c->folder > 0 && *name++ != '/')
        return NULL;
    if (c->one)
        return name_beside(c, name);
    return name;
}

/* ---- what there is ---- */

static bool is_weights(const char *name)
{
    static const char *const tails[] = { ".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt" };
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        if (ends_with(name, tails[i]))
            return true;
    }
    return false;
}

/* "it has a.gguf, b.gguf and 7 more" */
static void say_what_there_is(char *out, size_t room, const char *const *names, size_t n)
{
    size_t at = 0, shown = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        const char *mark = shard_mark(names[i]);
        if (!is_weights(names[i]) || (mark != NULL && strncmp(mark, "-00001-", 7) != 0))
            continue;
        all++;
        if (shown + 1 < all || at + strlen(names[i]) + 40 > room)
            continue;
        at += (size_t)snprintf(out + at, room - at, "%s%s", shown == 0 ? "it has " : ", ", names[i]);
        shown++;
    }
    if (all == 0)
        snprintf(out, room, "it has no such files at all");
    else if (shown == 0)
        snprintf(out, room, "it has %zu others", all);
    else if (shown < all)
        snprintf(out + at, room - at, " and %zu more", all - shown);
}

static vram_status no_file(const io_choice *c, vram_ctx *ctx, const char *place, const char *const *names,
                           size_t n)
{
    char hint[256];
    say_what_there_is(hint, sizeof(hint), names, n);
    return io_fail(ctx, VRAM_ENOTFOUND, place, hint, "the repository has no file or folder '%.300s'",
                   c->file);
}

static vram_status make_path(io_choice *c, vram_ctx *ctx, const char *place, const char *const *names,
                             size_t n)
{
    size_t k = strlen(c->file);
    bool folder = false;
    for (size_t i = 0; i < n && !c->one; i++) {
        c->one = strcmp(names[i], c->file) == 0;
        folder = folder || (strncmp(names[i], c->file, k) == 0 && names[i][k] == '/');
    }
    if (!c->one && !folder)
        return no_file(c, ctx, place, names, n);
    c->folder = c->one ? (size_t)(base_of(c->file) - c->file) : k;
    return VRAM_OK;
}

vram_status io_choice_make(io_choice *c, vram_ctx *ctx, const char *place, const char *const *names, size_t n)
{
    return c->file[0] != '\0' ? make_path(c, ctx, place, names, n) : VRAM_OK;
}
