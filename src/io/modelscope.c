/* SPDX-License-Identifier: MIT
 * Models of ModelScope. Source: modelscope 1.40.2 and modelscope_hub, _legacy_api.py (list_repo_files:
 * repo/files with Revision and Recursive; Data.Files[] with Path, Size, Type, Sha256; cut without a word at
 * 3,000 entries: REPO_FILES_TRUNCATION_LIMIT), config.py (MODELSCOPE_ENDPOINT, MODELSCOPE_DOMAIN,
 * MODELSCOPE_API_TOKEN), _openapi.py (Authorization: Bearer). */
#include "io/address.h"
#include "io/places.h"

#include <stdio.h>
#include <string.h>

#define MOST_ANSWER (16 * VR_MIB)
#define CUT_AT 3000

typedef struct scope {
    io_remote remote; /* first */
    const io_place *place;
    const char *revision;
    char endpoint[256];
    char api[IO_SHOWN_URL];
} scope;

static vram_status bad_answer(scope *m, const char *what)
{
    return io_fail(m->remote.source.ctx, VRAM_EFORMAT, m->api, NULL,
                   "the answer is not what ModelScope's API gives: %s", what);
}

static vram_status no_such_model(scope *m)
{
    bool token = m->remote.bearer != NULL;
    return io_fail(m->remote.source.ctx, VRAM_ENOTFOUND, m->place->repo,
                   token ? "check the spelling, and that the token of MODELSCOPE_API_TOKEN may read it"
                         : "check the spelling; a private model needs MODELSCOPE_API_TOKEN",
                   "ModelScope has no such model or no revision '%s' of it, or it is private", m->revision);
}

static vram_status fail(io_remote *r, const io_request *a)
{
    scope *m = (scope *)(void *)r;
    bool refused = a->status == 401 || a->status == 403 || a->status == 404;
    return a->result == IO_HTTP_STATUS && refused && strcmp(a->file, m->api) == 0
               ? no_such_model(m)
               : io_http_fail(r->source.ctx, a);
}

/* ---- the listing ---- */

static vram_status read_name(scope *m, vr_json v, const char **out)
{
    vr_json name, type;
    vr_str text;
    if ((vr_json_get(v, "Type", &type) && vr_json_str_is(type, "tree")) || !vr_json_get(v, "Path", &name))
        return VRAM_OK; /* a folder */
    if (!vr_json_str(name, &m->remote.arena, &text))
        return text.s == NULL && name.type == VR_JSON_STRING ? VRAM_ENOMEM
                                                             : bad_answer(m, "the name of a file is none");
    if (!io_remote_name_fits(text))
        return VRAM_OK;
    *out = vr_arena_copy(&m->remote.arena, text);
    return *out == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status read_file(scope *m, vr_json v, io_listed *out)
{
    vr_json size, digest;
    vr_str sum;
    *out = (io_listed){ NULL, IO_SIZE_UNKNOWN, "" };
    VR_TRY(read_name(m, v, &out->name));
    if (vr_json_get(v, "Size", &size) && size.type != VR_JSON_NULL && !vr_json_u64(size, &out->size))
        return bad_answer(m, "the size of a file is no number of bytes");
    if (vr_json_get(v, "Sha256", &digest) && vr_json_str(digest, &m->remote.arena, &sum) && sum.n == 64)
        out->version = vr_arena_copy(&m->remote.arena, sum);
    return out->version == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status read_answer(scope *m, vr_str text, io_listed **out, size_t *n)
{
    vr_json answer, files, success, v;
    vr_json_error error;
    bool good = true;
    size_t all = 0;
    if (!vr_json_parse(text, &answer, &error))
        return bad_answer(m, error.reason);
    if (vr_json_get(answer, "Success", &success) && vr_json_bool(success, &good) && !good)
        return no_such_model(m);
    if (!vr_json_get(answer, "Data.Files", &files) || files.type != VR_JSON_ARRAY)
        return bad_answer(m, "no list of files is in it");
    VR_TRY(io_remote_room(&m->remote, files, out));
    vr_json_iter it = vr_json_each(files);
    while (vr_json_next(&it, &v)) {
        VR_TRY(read_file(m, v, &(*out)[*n]));
        *n += (*out)[*n].name != NULL;
        all++;
    }
    if (all < CUT_AT)
        return VRAM_OK;
    return vr_warn(m->remote.source.ctx, NULL,
                   T("ModelScope lists 3,000 files at most; there may be more of "), T(m->place->repo));
}

static vram_status offline_answer(scope *m, vr_str *text)
{
    if (!io_remote_kept(&m->remote, m->api, text))
        return io_fail(m->remote.source.ctx, VRAM_EIO, m->place->repo,
                       "without --offline its file list and headers are read from ModelScope",
                       "this model was not read before, and no server may be asked");
    return VRAM_OK;
}

static vram_status ask(scope *m, vr_str *text)
{
    char revision[3 * 256], url[IO_SHOWN_URL + 1024];
    if (!io_encode(revision, sizeof(revision), m->revision, "-._~"))
        return bad_answer(m, "the revision is too long");
    /* the cache knows no queries, so the revision is a part of the path there */
    snprintf(m->api, sizeof(m->api), "%s/api/v1/models/%s/repo/files/%s", m->endpoint, m->place->repo,
             revision);
    snprintf(url, sizeof(url), "%s/api/v1/models/%s/repo/files?Revision=%s&Recursive=true", m->endpoint,
             m->place->repo, revision);
    if (m->remote.offline)
        return offline_answer(m, text);
    io_request r = { .url = url, .file = m->api, .bearer = m->remote.bearer, .accept = "application/json" };
    r.whole = true;
    r.most = MOST_ANSWER;
    VR_TRY(io_http_perform(m->remote.source.io, m->remote.source.ctx, &r, 1));
    if (r.result != IO_HTTP_OK)
        return fail(&m->remote, &r);
    *text = (vr_str){ r.bytes, r.n };
    return VRAM_OK;
}

static vram_status list(io_source *s)
{
    scope *m = (scope *)(void *)s;
    char prefix[IO_SHOWN_URL], revision[3 * 256];
    vr_str text = { NULL, 0 };
    io_listed *all = NULL;
    size_t n = 0;
    VR_TRY(ask(m, &text));
    VR_TRY(read_answer(m, text, &all, &n));
    if (!m->remote.offline)
        io_cache_put(s->io, m->api, "listing", text.n, 0, text.s, text.n);
    if (!io_encode(revision, sizeof(revision), m->revision, "-._~"))
        return bad_answer(m, "the revision is too long");
    snprintf(prefix, sizeof(prefix), "%s/models/%s/resolve/%s/", m->endpoint, m->place->repo, revision);
    VR_TRY(io_remote_add_listed(&m->remote, m->place, all, n, prefix));
    return io_remote_list(s);
}

static const io_source_kind modelscope_kind = { list, io_remote_fetch };

/* ---- all ---- */

static bool printable(const char *s)
{
    for (; s != NULL && *s != '\0'; s++) {
        if (*s <= 0x20 || *s >= 0x7f)
            return false;
    }
    return s != NULL;
}

static vram_status settle(scope *m)
{
    vram_io *io = m->remote.source.io;
    const char *set = io_env(io, "MODELSCOPE_ENDPOINT"), *token = io_env(io, "MODELSCOPE_API_TOKEN"),
               *why = "";
    io_address a;
    bool own = m->place->endpoint[0] == '\0';
    if (set == NULL)
        set = io_env(io, "MODELSCOPE_DOMAIN");
    if (set == NULL)
        set = "https://www.modelscope.cn";
    if (!own)
        set = m->place->endpoint;
    size_t n = strlen(set);
    if (n + 9 <= sizeof(m->endpoint))
        snprintf(m->endpoint, sizeof(m->endpoint), "%s%.240s", strncmp(set, "http", 4) == 0 ? "" : "https://",
                 set);
    n = strlen(m->endpoint);
    while (n > 0 && m->endpoint[n - 1] == '/')
        m->endpoint[--n] = '\0';
    if (strstr(m->endpoint, "://") == NULL || !io_address_split(&a, vr_str_of(m->endpoint), &why))
        return io_fail(m->remote.source.ctx, VRAM_ESETTING, NULL, "such as www.modelscope.cn",
                       "MODELSCOPE_DOMAIN is no address");
    if (printable(token) && (strncmp(m->endpoint, "https://", 8) == 0 || vr_str_is(a.host, "127.0.0.1") ||
                             vr_str_is(a.host, "localhost")))
        m->remote.bearer = token;
    return VRAM_OK;
}

static vram_status say_where(const scope *m, vram_checkpoint *ck)
{
    char where[600];
    snprintf(where, sizeof(where), "%s%s, revision %.255s", m->remote.offline ? "headers kept of " : "",
             strstr(m->endpoint, "://") + 3, m->revision);
    return vram_checkpoint_read_from(ck, where);
}

static vram_status open_once(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place,
                             bool *changed)
{
    scope m = { .remote = { .source = { .kind = &modelscope_kind } }, .place = place };
    vram_status s = io_remote_begin(&m.remote, io, ctx, place->repo);
    m.remote.fail = fail;
    m.revision = io->options.revision != NULL ? io->options.revision
                 : place->revision[0] != '\0' ? place->revision
                                              : "master";
    if (s == VRAM_OK)
        s = settle(&m);
    if (s == VRAM_OK)
        s = io_remote_read(out, &m.remote, place->repo, place->quant);
    if (s == VRAM_OK)
        s = say_where(&m, *out);
    *changed = m.remote.changed;
    io_remote_end(&m.remote);
    return s;
}

vram_status io_modelscope_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place)
{
    bool changed = false;
    vram_status s = open_once(out, io, ctx, place, &changed);
    return s != VRAM_OK && changed ? open_once(out, io, ctx, place, &changed) : s;
}
