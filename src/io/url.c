/* SPDX-License-Identifier: MIT
 * A file on any web server, by its address. What a directory would say is asked for by name: the other parts
 * of a split file, the shards that an index names, config.json. A query, such as a signature, belongs to the
 * address it came with and to no other, and is in no text of ours.
 * Names: as in choice.c. */
#include "io/address.h"
#include "io/choice.h"
#include "io/places.h"

#include <stdio.h>
#include <string.h>

#define MOST_PARTS 2000
#define MOST_INDEX (256 * VR_MIB)

typedef struct web {
    io_remote remote;          /* first */
    const char *url;           /* with its query */
    char folder[IO_SHOWN_URL]; /* shown, with a slash at its end */
    char name[1024];           /* of the file, decoded; "" for a folder */
} web;

static bool ends_with(const char *s, const char *tail)
{
    return vr_str_ends(vr_str_of(s), tail);
}

/* ---- names ---- */

static vram_status split(web *w)
{
    char shown[IO_SHOWN_URL];
    const char *why = NULL;
    io_address a;
    io_url_shown(shown, sizeof(shown), w->url);
    if (!io_address_split(&a, vr_str_of(shown), &why))
        return io_fail(w->remote.source.ctx, VRAM_ESETTING, shown, NULL, "%s", why);
    const char *slash = a.path.n > 0 ? strrchr(shown, '/') : NULL;
    size_t n = slash != NULL ? (size_t)(slash - shown) : strlen(shown);
    if (n + 2 > sizeof(w->folder) ||
        (slash != NULL && !io_decode(w->name, sizeof(w->name), vr_str_of(slash + 1))) ||
        strchr(w->name, '/') != NULL)
        return io_fail(w->remote.source.ctx, VRAM_ESETTING, shown, NULL, "the address names no file");
    memcpy(w->folder, shown, n);
    memcpy(w->folder + n, "/", 2);
    return VRAM_OK;
}

/* Of a file whose name does not say it. Marks: GGUF, docs/gguf.md; ZIP, APPNOTE 4.3.7; pickle, PROTO. */
static const char *tail_of_bytes(const char *bytes, size_t n)
{
    if (n >= 4 && (memcmp(bytes, "GGUF", 4) == 0 || memcmp(bytes, "FUGG", 4) == 0))
        return ".gguf";
    if (n >= 4 && (memcmp(bytes, "PK\3\4", 4) == 0 || bytes[0] == '\x80'))
        return ".bin";
    return ".safetensors";
}

static vram_status name_by_bytes(web *w, io_remote_file *f)
{
    if (io_remote_matters(f->name))
        return VRAM_OK;
    f->name = vr_text(&w->remote.arena, T(f->name[0] != '\0' ? f->name : "model"),
                      T(tail_of_bytes(f->head, f->n_head)));
    return f->name == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* ---- what lies beside it ---- */

static vram_status add_beside(web *w, const char *name, bool optional)
{
    char path[3 * 1024 + 1];
    io_remote_file *f = NULL;
    if (!io_encode(path, sizeof(path), name, "-._~/"))
        return io_fail(w->remote.source.ctx, VRAM_ELIMIT, w->remote.place, NULL, "the name is too long");
    const char *url = vr_text(&w->remote.arena, T(w->folder), T(path));
    const char *kept = vr_arena_copy(&w->remote.arena, vr_str_of(name));
    if (url == NULL || kept == NULL)
        return VRAM_ENOMEM;
    VR_TRY(io_remote_add(&w->remote, kept, url, IO_SIZE_UNKNOWN, &f));
    f->optional = optional;
    return VRAM_OK;
}

static bool five_digits(const char *s, unsigned *out)
{
    uint64_t v = 0;
    bool all = strlen(s) >= 5 && vr_parse_u64((vr_str){ s, 5 }, &v);
    *out = (unsigned)v;
    return all;
}

/* The other parts of "x-00001-of-00004.gguf". */
static vram_status add_parts(web *w)
{
    const char *of = strstr(w->name, "-of-");
    unsigned number = 0, count = 0;
    char name[sizeof(w->name) + 32];
    if (of == NULL || of - w->name < 6 || of[-6] != '-' || !five_digits(of - 5, &number) ||
        !five_digits(of + 4, &count) || number < 1 || number > count)
        return VRAM_OK;
    if (count > MOST_PARTS)
        return io_fail(w->remote.source.ctx, VRAM_ELIMIT, w->remote.place, NULL,
                       "by its name it is one of %u parts, over the limit of %d", count, MOST_PARTS);
    for (unsigned i = 1; i <= count; i++) {
        snprintf(name, sizeof(name), "%.*s%05u%s", (int)(of - 5 - w->name), w->name, i, of);
        if (i != number)
            VR_TRY(add_beside(w, name, true));
    }
    return VRAM_OK;
}

/* ---- an index ---- */

/* weight_map: {"tensor": "file"}; the same file comes many times. */
static vram_status add_shards(web *w, vr_str text)
{
    vr_json index, weight_map, key, value;
    vr_json_error error;
    vr_map seen;
    vr_str name;
    bool was_there = false;
    uint32_t n = 0, number = 0;
    if (!vr_json_parse(text, &index, &error) || !vr_json_get(index, "weight_map", &weight_map))
        return VRAM_OK; /* the library says what is wrong with it */
    VR_TRY(vr_map_init(&seen, &w->remote.arena, 256, 0));
    vr_json_iter it = vr_json_each(weight_map);
    while (vr_json_next_member(&it, &key, &value)) {
        if (!vr_json_str(value, &w->remote.arena, &name) || !io_remote_name_fits(name))
            continue;
        VR_TRY(vr_map_put(&seen, name, n, &was_there, &number));
        if (was_there)
            continue;
        if (++n > MOST_PARTS)
            return io_fail(w->remote.source.ctx, VRAM_ELIMIT, w->remote.place, NULL,
                           "the index names over %d files", MOST_PARTS);
        const char *copy = vr_arena_copy(&w->remote.arena, name);
        if (copy == NULL)
            return VRAM_ENOMEM;
        VR_TRY(add_beside(w, copy, true));
    }
    return VRAM_OK;
}

static vram_status read_index(web *w)
{
    io_remote_file *f = &w->remote.files[0];
    if (f->size > MOST_INDEX)
        return VRAM_OK; /* refused later, as any index of that size */
    VR_TRY(io_remote_whole(&w->remote, f));
    return add_shards(w, (vr_str){ f->head, f->n_head });
}

/* ---- listing ---- */

/* A server that answers everything with a page has no configuration. */
static void check_config(web *w)
{
    for (size_t i = 0; i < w->remote.n_files; i++) {
        io_remote_file *f = &w->remote.files[i];
        size_t at = 0;
        if (strcmp(f->name, "config.json") != 0 || !f->optional || f->absent)
            continue;
        while (at < f->n_head && strchr(" \t\r\n", f->head[at]) != NULL)
            at++;
        f->absent = at == f->n_head || f->head[at] != '{';
    }
}

static vram_status add_folder(web *w)
{
    static const char *const names[] = { "model.safetensors.index.json", "model.safetensors", "config.json" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        VR_TRY(add_beside(w, names[i], true));
    VR_TRY(io_remote_heads(&w->remote));
    if (w->remote.files[0].absent && w->remote.files[1].absent)
        return io_fail(
            w->remote.source.ctx, VRAM_ENOTFOUND, w->remote.place, "name one of its files",
            "of a web server's folder, model.safetensors or its index is read, and neither is there");
    return VRAM_OK;
}

static vram_status add_file(web *w)
{
    io_remote_file *f = NULL;
    VR_TRY(io_remote_add(&w->remote, w->name, w->url, IO_SIZE_UNKNOWN, &f));
    VR_TRY(add_parts(w));
    if (io_choice_configures(w->name))
        VR_TRY(add_beside(w, "hf_quant_config.json", true));
    else
        VR_TRY(add_beside(w, "config.json", true));
    VR_TRY(io_remote_heads(&w->remote));
    return name_by_bytes(w, &w->remote.files[0]);
}

static vram_status list(io_source *s)
{
    web *w = (web *)(void *)s;
    VR_TRY(w->name[0] != '\0' ? add_file(w) : add_folder(w));
    if (!w->remote.files[0].absent && ends_with(w->remote.files[0].name, ".index.json"))
        VR_TRY(read_index(w));
    VR_TRY(io_remote_heads(&w->remote));
    check_config(w);
    if (w->name[0] != '\0')
        VR_TRY(vram_checkpoint_named(s->ck, w->remote.files[0].name));
    return io_remote_list(s);
}

static const io_source_kind web_kind = { list, io_remote_fetch };

static vram_status fail(io_remote *r, const io_request *answer)
{
    return io_http_fail(r->source.ctx, answer);
}

/* Its host; the name is the whole address. */
static vram_status say_where(const web *w, vram_checkpoint *ck)
{
    char where[400];
    const char *host = strstr(w->folder, "://") + 3;
    snprintf(where, sizeof(where), "%s%.*s", w->remote.offline ? "headers kept of " : "",
             (int)strcspn(host, "/"), host);
    return vram_checkpoint_read_from(ck, where);
}

static vram_status open_once(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place,
                             bool *changed)
{
    char shown[IO_SHOWN_URL], folder[IO_SHOWN_URL];
    web w = { .remote = { .source = { .kind = &web_kind } }, .url = place->url };
    io_url_shown(shown, sizeof(shown), place->url);
    vram_status s = io_remote_begin(&w.remote, io, ctx, shown);
    w.remote.fail = fail;
    if (s == VRAM_OK)
        s = split(&w);
    snprintf(folder, sizeof(folder), "%.*s", (int)(strlen(w.folder) - (w.folder[0] != '\0')), w.folder);
    if (s == VRAM_OK)
        w.remote.place = vr_arena_copy(&w.remote.arena, vr_str_of(folder));
    if (s == VRAM_OK)
        s = w.remote.place == NULL ? VRAM_ENOMEM : io_remote_read(out, &w.remote, shown, "");
    if (s == VRAM_OK)
        s = say_where(&w, *out);
    *changed = w.remote.changed;
    io_remote_end(&w.remote);
    return s;
}

vram_status io_url_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place)
{
    bool changed = false;
    vram_status s = open_once(out, io, ctx, place, &changed);
    return s != VRAM_OK && changed ? open_once(out, io, ctx, place, &changed) : s;
}
