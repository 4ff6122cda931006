/* SPDX-License-Identifier: MIT
 * Models on the servers of the hub. One request tells commit, names and sizes; files are asked for by that
 * commit, so all come from one state of the repository.
 * API: huggingface_hub 2.4.0, hf_api.py (model_info with files_metadata; ModelInfo, RepoSibling) and
 * file_download.py (hf_hub_url: {endpoint}/{repo}/resolve/{revision}/{file}). */
#include "io/hub.h"

#include "io/address.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MOST_ANSWER (64 * VR_MIB)
static vram_status too_long(io_hub *h)
{
    return io_fail(h->remote.source.ctx, VRAM_ELIMIT, h->place->repo, NULL,
                   "the address of the model is too long");
}

/* ---- the answer of the API ---- */

static vram_status bad_answer(io_hub *h, const char *what)
{
    return io_fail(h->remote.source.ctx, VRAM_EFORMAT, h->api,
                   "is HF_ENDPOINT right, and no proxy or login page between?",
                   "the answer is not what the hub's API gives: %s", what);
}

static bool is_commit(vr_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (strchr("0123456789abcdef", s.s[i]) == NULL || s.s[i] == '\0')
            return false;
    }
    return s.n == 40 || s.n == 64;
}

/* The hub knows names in any case, and renamed models by their old ones; files are asked for by its own name,
 * which spares a redirect for each. */
static vram_status take_name(io_hub *h, const char *id)
{
    io_place named;
    const char *why = NULL;
    if (!io_place_parse(&named, id, NULL, &why) || named.kind != IO_PLACE_HUB || strcmp(named.repo, id) != 0)
        return bad_answer(h, "its name of the model is none");
    memcpy(h->repo, named.repo, sizeof(h->repo));
    if (strcasecmp(h->repo, h->place->repo) == 0)
        return VRAM_OK;
    return vr_warn(h->remote.source.ctx, NULL, T("the model "), T(h->place->repo), T(" is now called "),
                   T(h->repo));
}

static vram_status read_identity(io_hub *h, vr_json model)
{
    vr_json v;
    vr_str text = { NULL, 0 };
    if (vr_json_get(model, "sha", &v) && vr_json_str(v, &h->remote.arena, &text) && is_commit(text))
        memcpy(h->commit, text.s, text.n);
    if (!vr_json_get(model, "id", &v) || !vr_json_str(v, &h->remote.arena, &text) || vr_str_is(text, h->repo))
        return VRAM_OK;
    const char *id = vr_arena_copy(&h->remote.arena, text);
    return id == NULL ? VRAM_ENOMEM : take_name(h, id);
}

static vram_status read_sibling(io_hub *h, vr_json v, io_listed *out)
{
    vr_json name, size;
    vr_str text;
    *out = (io_listed){ NULL, IO_SIZE_UNKNOWN, h->commit };
    if (!vr_json_get(v, "rfilename", &name))
        return VRAM_OK;
    if (!vr_json_str(name, &h->remote.arena, &text))
        return text.s == NULL && name.type == VR_JSON_STRING ? VRAM_ENOMEM
                                                             : bad_answer(h, "the name of a file is none");
    if (!io_remote_name_fits(text))
        return VRAM_OK; /* not one that a model is read from */
    out->name = vr_arena_copy(&h->remote.arena, text);
    if (out->name == NULL)
        return VRAM_ENOMEM;
    if (vr_json_get(v, "size", &size) && size.type != VR_JSON_NULL && !vr_json_u64(size, &out->size))
        return bad_answer(h, "the size of a file is no number of bytes");
    return VRAM_OK;
}

static vram_status read_siblings(io_hub *h, vr_json list, io_listed **out, size_t *n)
{
    vr_json v;
    VR_TRY(io_remote_room(&h->remote, list, out));
    vr_json_iter it = vr_json_each(list);
    while (vr_json_next(&it, &v)) {
        VR_TRY(read_sibling(h, v, &(*out)[*n]));
        *n += (*out)[*n].name != NULL;
    }
    return VRAM_OK;
}

static vram_status read_answer(io_hub *h, vr_str text, io_listed **out, size_t *n)
{
    vr_json model, list;
    vr_json_error error;
    char what[160];
    if (!vr_json_parse(text, &model, &error)) {
        snprintf(what, sizeof(what), "%s at byte %zu", error.reason, error.offset);
        return bad_answer(h, what);
    }
    if (!vr_json_get(model, "siblings", &list) || list.type != VR_JSON_ARRAY)
        return bad_answer(h, "no list of files is in it");
    VR_TRY(read_identity(h, model));
    return read_siblings(h, list, out, n);
}

/* ---- the request ---- */

static vram_status offline_answer(io_hub *h, vr_str *text)
{
    if (!io_remote_kept(&h->remote, h->api, text))
        return io_fail(
            h->remote.source.ctx, VRAM_EIO, h->place->repo,
            h->remote.source.io->options.offline
                ? "without --offline its file list and headers are read from the hub, a few MB at most"
                : "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, so the hub is not asked",
            "this model is not on this disk, and no server may be asked");
    return VRAM_OK;
}

/* Without a server, what was read on another day may do. */
static vram_status fail_asked(io_hub *h, const io_request *answer)
{
    char version[160];
    vram_status s = io_hub_fail(&h->remote, answer);
    if (answer->result == IO_HTTP_FAILED && s == VRAM_EIO &&
        io_cache_newest(h->remote.source.io, h->api, version, sizeof(version)))
        vr_hint(h->remote.source.ctx, "with --offline, the headers that were read before are used");
    return s;
}

static vram_status ask(io_hub *h, vr_str *text)
{
    char revision[3 * sizeof(h->revision)], url[IO_SHOWN_URL + 16];
    int n = -1;
    if (io_encode(revision, sizeof(revision), h->revision, "-._~"))
        n = snprintf(h->api, sizeof(h->api), "%s/api/models/%s/revision/%s", h->endpoint, h->repo, revision);
    if (n < 0 || (size_t)n >= sizeof(h->api))
        return too_long(h);
    if (h->remote.offline)
        return offline_answer(h, text);
    snprintf(url, sizeof(url), "%s?blobs=true", h->api);
    io_request r = { .url = url, .file = h->api, .bearer = h->token, .accept = "application/json" };
    r.whole = true;
    r.most = MOST_ANSWER;
    VR_TRY(io_http_perform(h->remote.source.io, h->remote.source.ctx, &r, 1));
    if (r.result != IO_HTTP_OK)
        return fail_asked(h, &r);
    *text = (vr_str){ r.bytes, r.n };
    return VRAM_OK;
}

static vram_status add_files(io_hub *h, const io_listed *all, size_t n)
{
    char prefix[IO_SHOWN_URL], revision[3 * sizeof(h->revision)];
    const char *commit = h->commit[0] != '\0' ? h->commit : h->revision;
    int k = -1;
    if (io_encode(revision, sizeof(revision), commit, "-._~"))
        k = snprintf(prefix, sizeof(prefix), "%s/%s/resolve/%s/", h->endpoint, h->repo, revision);
    return k < 0 || (size_t)k >= sizeof(prefix) ? too_long(h)
                                                : io_remote_add_listed(&h->remote, h->place, all, n, prefix);
}

static vram_status list(io_source *s)
{
    io_hub *h = (io_hub *)(void *)s;
    vr_str text = { NULL, 0 };
    io_listed *all = NULL;
    size_t n = 0;
    VR_TRY(ask(h, &text));
    VR_TRY(read_answer(h, text, &all, &n));
    if (h->commit[0] != '\0')
        h->remote.commit = h->commit;
    if (!h->remote.offline && h->commit[0] != '\0')
        io_cache_put(s->io, h->api, h->commit, text.n, 0, text.s, text.n);
    VR_TRY(add_files(h, all, n));
    return io_remote_list(s);
}

static const io_source_kind hub_kind = { list, io_remote_fetch };

/* ---- all ---- */

static vram_status set_endpoint(io_hub *h)
{
    const char *set = io_env(h->remote.source.io, "HF_ENDPOINT"), *why = NULL;
    io_address a;
    if (h->place->endpoint[0] != '\0')
        set = h->place->endpoint;
    if (set == NULL)
        set = "https://huggingface.co";
    size_t n = strlen(set);
    while (n > 0 && set[n - 1] == '/')
        n--;
    if (n >= sizeof(h->endpoint) || strncmp(set, "http", 4) != 0 || strstr(set, "://") == NULL)
        return io_fail(h->remote.source.ctx, VRAM_ESETTING, NULL, "such as https://huggingface.co",
                       "HF_ENDPOINT is no address");
    memcpy(h->endpoint, set, n);
    h->endpoint[n] = '\0';
    if (!io_address_split(&a, vr_str_of(h->endpoint), &why) || a.all.n != n ||
        strchr(h->endpoint, '?') != NULL)
        return io_fail(h->remote.source.ctx, VRAM_ESETTING, NULL, "such as https://huggingface.co",
                       "HF_ENDPOINT is no address: %s", why != NULL ? why : "'?' or '#' is in it");
    return VRAM_OK;
}

/* "huggingface.co, commit 0123456" */
static vram_status say_where(const io_hub *h, vram_checkpoint *ck)
{
    const char *host = strstr(h->endpoint, "://") + 3;
    char where[400];
    int n = snprintf(where, sizeof(where), "%s%s", h->remote.offline ? "headers kept of " : "", host);
    if (h->commit[0] != '\0')
        snprintf(where + n, sizeof(where) - (size_t)n, ", commit %.7s", h->commit);
    return vram_checkpoint_read_from(ck, where);
}

static vram_status open_once(io_hub *h, vram_checkpoint **out)
{
    VR_TRY(set_endpoint(h));
    VR_TRY(io_hub_token(h));
    VR_TRY(io_remote_read(out, &h->remote, h->place->repo, h->place->quant));
    return say_where(h, *out);
}

static vram_status open_remote(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place,
                               const char *revision, bool typed_as_name, bool *changed)
{
    io_hub h = { .remote = { .source = { .kind = &hub_kind } }, .place = place };
    vram_status s = io_remote_begin(&h.remote, io, ctx, place->repo);
    h.remote.fail = io_hub_fail;
    h.remote.offline = io_hub_offline(io);
    h.typed_as_name = typed_as_name;
    memcpy(h.repo, place->repo, sizeof(h.repo));
    snprintf(h.revision, sizeof(h.revision), "%s", revision);
    if (s == VRAM_OK)
        s = open_once(&h, out);
    *changed = h.remote.changed;
    io_remote_end(&h.remote);
    return s;
}

vram_status io_hub_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place,
                        const char *name)
{
    bool changed = false;
    const char *revision = io->options.revision != NULL ? io->options.revision
                           : place->revision[0] != '\0' ? place->revision
                                                        : "main";
    bool typed = strncmp(name, place->repo, strlen(place->repo)) == 0;
    *out = NULL;
    if (strlen(revision) >= sizeof(place->revision) || !io_remote_name_fits(vr_str_of(revision)))
        return io_fail(ctx, VRAM_ESETTING, NULL, NULL, "'%.100s' is no name of a revision", revision);
    if (!io->options.refresh || io_hub_offline(io))
        VR_TRY(io_hfcache_open(out, io, ctx, place, revision, place->repo));
    if (*out != NULL)
        return VRAM_OK;
    vram_status s = open_remote(out, io, ctx, place, revision, typed, &changed);
    return s != VRAM_OK && changed ? open_remote(out, io, ctx, place, revision, typed, &changed) : s;
}
