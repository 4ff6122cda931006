/* SPDX-License-Identifier: MIT
 * Checkpoints on servers. All wants of one round are one round of requests. A file's bytes all come from one
 * version of it: every answer's validator is held against that of the first, and every total against the size
 * that was listed. */
#include "io/remote.h"

#include "io/address.h"
#include "io/choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FILES 100000
#define MOST_UNSIZED 4096 /* whose heads must be asked for their sizes */

vram_status io_remote_begin(io_remote *r, vram_io *io, vram_ctx *ctx, const char *place)
{
    r->source.io = io;
    r->source.ctx = ctx;
    r->offline = io->options.offline;
    vr_arena_init(&r->arena, ctx);
    r->place = vr_arena_copy(&r->arena, vr_str_of(place));
    return r->place == NULL ? VRAM_ENOMEM : VRAM_OK;
}

void io_remote_end(io_remote *r)
{
    vr_arena_free(&r->arena);
}

bool io_remote_name_fits(vr_str name)
{
    vr_str rest = name, word;
    for (size_t i = 0; i < name.n; i++) {
        if ((unsigned char)name.s[i] < 0x20 || name.s[i] == 0x7f || name.s[i] == '\\')
            return false;
    }
    while (vr_str_split(&rest, '/', &word)) {
        if (word.n == 0 || vr_str_is(word, ".") || vr_str_is(word, ".."))
            return false;
    }
    return name.n < 1024;
}

bool io_remote_kept(const io_remote *r, const char *url, vr_str *text)
{
    char version[160], *bytes = NULL;
    size_t n = 0;
    uint64_t total = 0;
    vram_io *io = r->source.io;
    if (!io_cache_newest(io, url, version, sizeof(version)) ||
        !io_cache_get(io, url, version, 0, UINT64_MAX, &bytes, &n, &total) || n != total)
        return false;
    *text = (vr_str){ bytes, n };
    return true;
}

bool io_remote_matters(const char *name)
{
    static const char *const tails[] = { ".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".json" };
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        if (vr_str_ends(vr_str_of(name), tails[i]))
            return true;
    }
    return false;
}

/* ---- the table ---- */

static vram_status grow(io_remote *r)
{
    if (r->n_files < r->room)
        return VRAM_OK;
    size_t room = r->room == 0 ? 64 : r->room * 2;
    io_remote_file *grown = vr_arena_grow(&r->arena, r->files, r->room, room, sizeof(*grown));
    if (grown == NULL)
        return VRAM_ENOMEM;
    r->files = grown;
    r->room = room;
    return VRAM_OK;
}

vram_status io_remote_add(io_remote *r, const char *name, const char *url, uint64_t size,
                          io_remote_file **out)
{
    VR_TRY(grow(r));
    io_remote_file *f = &r->files[r->n_files];
    *f = (io_remote_file){ .name = name, .url = url, .size = size, .version = "" };
    f->size_told = size != IO_SIZE_UNKNOWN;
    f->shown = url;
    if (strpbrk(url, "?#@") != NULL) {
        char shown[IO_SHOWN_URL];
        io_url_shown(shown, sizeof(shown), url);
        f->shown = vr_arena_copy(&r->arena, vr_str_of(shown));
    }
    if (f->shown == NULL)
        return VRAM_ENOMEM;
    r->n_files++;
    if (out != NULL)
        *out = f;
    return VRAM_OK;
}

static vram_status list_one(io_remote *r, uint32_t number)
{
    bool was_there = false;
    uint32_t other = 0;
    const io_remote_file *f = &r->files[number];
    VR_TRY(vr_map_put(&r->by_name, vr_str_of(f->name), number, &was_there, &other));
    if (was_there)
        return io_fail(r->source.ctx, VRAM_EFORMAT, r->place, NULL, "the server lists '%.200s' twice",
                       f->name);
    return vram_checkpoint_add_file(r->source.ck, f->name, f->size);
}

vram_status io_remote_list(io_source *s)
{
    io_remote *r = (io_remote *)(void *)s;
    VR_TRY(vr_map_init(&r->by_name, &r->arena, r->n_files, 0));
    for (size_t i = 0; i < r->n_files; i++) {
        if (!r->files[i].absent)
            VR_TRY(list_one(r, (uint32_t)i));
    }
    return vram_checkpoint_listed(s->ck);
}

/* ---- repositories ---- */

vram_status io_remote_room(io_remote *r, vr_json list, io_listed **out)
{
    vr_json v;
    size_t n = 0;
    vr_json_iter it = vr_json_each(list);
    while (vr_json_next(&it, &v))
        n++;
    if (n > MOST_FILES)
        return io_fail(r->source.ctx, VRAM_ELIMIT, r->place,
                       "download what is needed of it and name the directory",
                       "the repository has over %d files", MOST_FILES);
    *out = VR_ARRAY(&r->arena, io_listed, n + 1);
    return *out == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status add_listed(io_remote *r, const char *name, const io_listed *f, const char *prefix)
{
    char path[3 * 1024 + 1];
    io_remote_file *added = NULL;
    if (!io_encode(path, sizeof(path), f->name, "-._~/"))
        return io_fail(r->source.ctx, VRAM_ELIMIT, r->place, NULL, "the name of a file is too long");
    const char *url = vr_text(&r->arena, T(prefix), T(path));
    if (url == NULL)
        return VRAM_ENOMEM;
    VR_TRY(io_remote_add(r, name, url, f->size, &added));
    added->version = f->version;
    return VRAM_OK;
}

vram_status io_remote_add_listed(io_remote *r, const io_place *place, const io_listed *list, size_t n,
                                 const char *prefix)
{
    io_choice c = { .file = place->file };
    const char **names = VR_ARRAY(&r->arena, const char *, n + 1);
    size_t unsized = 0;
    if (names == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++)
        names[i] = list[i].name;
    VR_TRY(io_choice_make(&c, r->source.ctx, r->place, names, n));
    if (c.one && io_choice_configures(c.file))
        VR_TRY(vram_checkpoint_named(r->source.ck, c.file + c.folder));
    for (size_t i = 0; i < n; i++) {
        const char *name = io_choice_name(&c, list[i].name);
        bool unknown = list[i].size == IO_SIZE_UNKNOWN;
        if (name == NULL || (unknown && !io_remote_matters(name)))
            continue;
        unsized += unknown;
        if (unsized > MOST_UNSIZED)
            return io_fail(r->source.ctx, VRAM_ELIMIT, r->place, NULL,
                           "the server does not say how large over %d files are", MOST_UNSIZED);
        VR_TRY(add_listed(r, name, &list[i], prefix));
    }
    return io_remote_heads(r);
}

/* ---- all ---- */

vram_status io_remote_read(vram_checkpoint **out, io_remote *r, const char *called, const char *quant)
{
    const char *chosen = r->source.io->options.file;
    VR_TRY(vram_checkpoint_new(&r->source.ck, r->source.ctx, called));
    VR_TRY(vram_checkpoint_place(r->source.ck, r->place));
    vram_checkpoint_request_cost(r->source.ck, IO_REMOTE_COST);
    if (chosen == NULL && quant[0] != '\0')
        chosen = quant;
    if (chosen != NULL)
        VR_TRY(vram_checkpoint_choose(r->source.ck, chosen));
    vram_checkpoint_choose_size(r->source.ck, r->source.io->options.by_size);
    VR_TRY(io_read_checkpoint(&r->source));
    *out = r->source.ck;
    return VRAM_OK;
}

/* ---- answers ---- */

/* What an earlier request kept of it would be mixed with what comes now. */
static vram_status fail_changed(io_remote *r, const io_remote_file *f)
{
    r->changed = true;
    io_cache_forget(r->source.io, f->shown, f->version[0] != '\0' ? f->version : f->validator);
    return io_fail(r->source.ctx, VRAM_EIO, f->shown, "try again", "the file changed while it was read");
}

static vram_status fail_commit(const io_remote *r, const io_remote_file *f, const io_request *a)
{
    return io_fail(r->source.ctx, VRAM_EIO, f->shown, "try again",
                   "the server sends the file of commit %.12s, and %.12s was asked for", a->commit,
                   r->commit);
}

static vram_status fail_size(io_remote *r, const io_remote_file *f, uint64_t total)
{
    return io_fail(r->source.ctx, VRAM_EIO, f->shown, "try again: it may be changing",
                   "the listing says that the file has %llu bytes, the server that has it says %llu",
                   (unsigned long long)f->size, (unsigned long long)total);
}

static void put_in_cache(io_remote *r, const io_remote_file *f, const io_request *a)
{
    const char *version = f->version[0] != '\0' ? f->version : a->validator_now;
    if (version[0] != '\0' && a->n > 0 && f->size != IO_SIZE_UNKNOWN)
        io_cache_put(r->source.io, f->shown, version, f->size, a->offset, a->bytes, a->n);
}

/* Whether the answer is of the file that the others are of. */
static vram_status check_answer(io_remote *r, io_remote_file *f, const io_request *a)
{
    if (a->result == IO_HTTP_CHANGED)
        return fail_changed(r, f);
    if (a->result != IO_HTTP_OK)
        return r->fail(r, a);
    if (r->commit != NULL && a->commit[0] != '\0' && strcmp(r->commit, a->commit) != 0)
        return fail_commit(r, f, a);
    if (f->validator[0] != '\0' && a->validator_now[0] != '\0' && strcmp(f->validator, a->validator_now) != 0)
        return fail_changed(r, f);
    if (a->total != IO_SIZE_UNKNOWN && f->size != IO_SIZE_UNKNOWN && a->total != f->size)
        return f->size_told ? fail_size(r, f, a->total) : fail_changed(r, f);
    if (f->validator[0] == '\0')
        memcpy(f->validator, a->validator_now, sizeof(f->validator));
    return VRAM_OK;
}

/* ---- heads before the listing ---- */

static io_request request_of(const io_remote *r, const io_remote_file *f)
{
    return (io_request){ .url = f->url,
                         .file = f->shown,
                         .bearer = r->bearer,
                         .validator = f->validator[0] != '\0' ? f->validator : NULL };
}

static bool take_cached_head(const io_remote *r, io_remote_file *f, const char *version)
{
    char *bytes = NULL;
    size_t n = 0;
    uint64_t total = 0;
    if (!io_cache_get(r->source.io, f->shown, version, 0, 1, &bytes, &n, &total))
        return false;
    f->size = total;
    f->head = bytes;
    f->n_head = n;
    if (f->version[0] == '\0')
        snprintf(f->validator, sizeof(f->validator), "%s", version);
    return true;
}

static vram_status take_head(io_remote *r, io_remote_file *f, const io_request *a)
{
    if (f->optional && a->result == IO_HTTP_STATUS && a->status < 500) {
        f->absent = true;
        return VRAM_OK;
    }
    if (a->result == IO_HTTP_NOT_MODIFIED)
        return take_cached_head(r, f, a->known) ? VRAM_OK : fail_changed(r, f);
    VR_TRY(check_answer(r, f, a));
    if (a->total == IO_SIZE_UNKNOWN)
        return io_fail(r->source.ctx, VRAM_EUNSUPPORTED, f->shown,
                       "download the file and name it: vram reads it from the disk",
                       "the server does not say how large the file is, so parts of it cannot be asked for");
    f->size = a->total;
    f->head = a->bytes;
    f->n_head = a->n;
    put_in_cache(r, f, a);
    return VRAM_OK;
}

static vram_status fail_offline(io_remote *r, const io_remote_file *f)
{
    return io_fail(r->source.ctx, VRAM_EIO, f->shown, "without --offline, its header is read from the server",
                   "the header of this file was not read before, and no server may be asked");
}

/* Offline the newest of what is known counts; a file of which nothing is known is not there. */
static vram_status offline_head(io_remote *r, io_remote_file *f)
{
    char version[160];
    bool known =
        io_cache_newest(r->source.io, f->shown, version, sizeof(version)) && take_cached_head(r, f, version);
    f->absent = !known;
    if (known || f->optional)
        return VRAM_OK;
    return fail_offline(r, f);
}

static bool is_unknown(const io_remote_file *f)
{
    return f->size == IO_SIZE_UNKNOWN && !f->absent;
}

static vram_status ask_heads(io_remote *r, io_request *asked, char (*known)[160])
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_files; i++) {
        const io_remote_file *f = &r->files[i];
        if (!is_unknown(f))
            continue;
        asked[n] = request_of(r, f);
        asked[n].least = asked[n].most = f->optional ? IO_REMOTE_HEAD : IO_REMOTE_COST;
        if (!r->source.io->options.refresh &&
            io_cache_newest(r->source.io, f->shown, known[n], sizeof(known[n])) && known[n][0] == '"')
            asked[n].known = known[n];
        n++;
    }
    VR_TRY(io_http_perform(r->source.io, r->source.ctx, asked, n));
    for (size_t i = 0, k = 0; i < r->n_files; i++) {
        if (is_unknown(&r->files[i]))
            VR_TRY(take_head(r, &r->files[i], &asked[k++]));
    }
    return VRAM_OK;
}

vram_status io_remote_heads(io_remote *r)
{
    size_t unknown = 0;
    for (size_t i = 0; i < r->n_files; i++) {
        io_remote_file *f = &r->files[i];
        if (is_unknown(f) && f->version[0] != '\0')
            take_cached_head(r, f, f->version);
        if (is_unknown(f) && r->offline)
            VR_TRY(offline_head(r, f));
        unknown += is_unknown(f);
    }
    if (unknown == 0 || r->offline)
        return VRAM_OK;
    io_request *asked = VR_ARRAY(&r->arena, io_request, unknown);
    char(*known)[160] = vr_arena_array(&r->arena, unknown, sizeof(*known));
    return asked == NULL || known == NULL ? VRAM_ENOMEM : ask_heads(r, asked, known);
}

vram_status io_remote_whole(io_remote *r, io_remote_file *f)
{
    char *bytes = NULL;
    size_t n = 0;
    uint64_t total = 0;
    const char *version = f->version[0] != '\0' ? f->version : f->validator;
    if (f->n_head == f->size)
        return VRAM_OK;
    bool known = version[0] != '\0' && !r->source.io->options.refresh &&
                 io_cache_get(r->source.io, f->shown, version, 0, f->size, &bytes, &n, &total);
    if (!known || n != f->size) {
        io_request a = request_of(r, f);
        a.least = a.most = f->size;
        if (r->offline)
            return fail_offline(r, f);
        VR_TRY(io_http_perform(r->source.io, r->source.ctx, &a, 1));
        VR_TRY(check_answer(r, f, &a));
        put_in_cache(r, f, &a);
        bytes = a.bytes;
        n = a.n;
    }
    f->head = bytes;
    f->n_head = n;
    return VRAM_OK;
}

/* ---- wants ---- */

static vram_status supply(io_remote *r, const io_remote_file *f, uint64_t offset, const char *bytes, size_t n)
{
    return vram_checkpoint_supply(r->source.ck, f->name, offset, bytes, n);
}

/* From what is here already. */
static vram_status answer_known(io_remote *r, const io_remote_file *f, const vram_want *w, bool *known)
{
    const char *version = f->version[0] != '\0' ? f->version : f->validator;
    char *bytes = NULL;
    size_t n = 0;
    uint64_t total = 0;
    *known = w->offset <= f->n_head && w->least <= f->n_head - w->offset;
    if (*known)
        return supply(r, f, w->offset, f->head + w->offset, f->n_head - (size_t)w->offset);
    if (version[0] == '\0' || (r->source.io->options.refresh && !r->offline))
        return VRAM_OK;
    *known = io_cache_get(r->source.io, f->shown, version, w->offset, w->least, &bytes, &n, &total) &&
             total == f->size;
    return *known ? supply(r, f, w->offset, bytes, n) : VRAM_OK;
}

static io_remote_file *file_of(const io_remote *r, const char *name)
{
    uint32_t number = 0;
    return vr_map_get(&r->by_name, vr_str_of(name), &number) ? &r->files[number] : NULL;
}

static vram_status take_answers(io_remote *r, io_request *asked, io_remote_file **of, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        VR_TRY(check_answer(r, of[i], &asked[i]));
        put_in_cache(r, of[i], &asked[i]);
        VR_TRY(supply(r, of[i], asked[i].offset, asked[i].bytes, asked[i].n));
    }
    return VRAM_OK;
}

vram_status io_remote_fetch(io_source *s, const vram_want *wants, size_t n)
{
    io_remote *r = (io_remote *)(void *)s;
    io_request *asked = VR_ARRAY(&r->arena, io_request, n);
    io_remote_file **of = VR_ARRAY(&r->arena, io_remote_file *, n);
    size_t k = 0;
    if (asked == NULL || of == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        io_remote_file *f = file_of(r, wants[i].file);
        if (f == NULL)
            return io_fail(s->ctx, VRAM_EINTERNAL, wants[i].file, NULL, "bytes of a file that is not listed");
        s->io->wanted = vr_add_sat(s->io->wanted, f->wanted ? 0 : f->size);
        f->wanted = true;
        VR_TRY(answer_known(r, f, &wants[i], &known));
        if (known)
            continue;
        if (r->offline)
            return fail_offline(r, f);
        asked[k] = request_of(r, f);
        asked[k].offset = wants[i].offset;
        asked[k].least = wants[i].least;
        asked[k].most = wants[i].most;
        of[k++] = f;
    }
    VR_TRY(k == 0 ? VRAM_OK : io_http_perform(s->io, s->ctx, asked, k));
    return take_answers(r, asked, of, k);
}
