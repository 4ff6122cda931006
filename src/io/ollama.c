/* SPDX-License-Identifier: MIT
 * Models of Ollama. The manifest comes from the store on this disk or from the registry; its blobs are named
 * by their digest, so each comes from wherever it lies whole.
 * Registry: ollama 0.17.4, server/images.go pullModelManifest ({registry}/v2/{name}/manifests/{tag}) and
 * server/download.go (/v2/{name}/blobs/{digest}, which redirects to another host); names:
 * types/model/name.go; settings: api/types.go Runner (num_ctx). */
#include "io/ollama.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "io/cache_entry.h"
#include "io/ollama_manifest.h"
#include "io/ollama_store.h"
#include "io/remote.h"

#define HOST "registry.ollama.ai"
#define WORD_MOST 80
#define PARAMS_MOST (UINT64_C(64) << 10)
#define TYPE "application/vnd.docker.distribution.manifest.v2+json"

typedef struct ollama {
    io_remote remote; /* first: its functions get this */
    io_store store;
    io_ollama_name name;
    const char *registry;     /* "https://registry.ollama.ai" */
    const char *called;       /* "ollama:qwen2.5:7b" */
    const char *manifest_url; /* also its key in the cache */
    bool local;               /* the manifest was found on this disk */
    uint64_t context;         /* num_ctx of its settings, 0: they do not say */
    io_manifest manifest;
    io_blob *blobs; /* beside remote.files */
} ollama;

/* ---- names ---- */

/* Words of a name become folders of a path and parts of a URL. */
static bool word_fits(vr_str s, size_t most, const char *others)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.s[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!plain && (i == 0 || c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return s.n > 0 && s.n <= most;
}

static vram_status bad_name(const ollama *o, const char *what)
{
    return io_fail(o->remote.source.ctx, VRAM_ESETTING, NULL, "such as ollama:qwen2.5:7b",
                   "that is no name of a model of Ollama: %s", what);
}

/* The host of "https://host" or "http://host:port"; empty when it is no such thing. */
static vr_str host_of(const char *endpoint)
{
    const char *host = strstr(endpoint, "://");
    bool web = strncmp(endpoint, "https://", 8) == 0 || strncmp(endpoint, "http://", 7) == 0;
    return web ? vr_str_of(host + 3) : (vr_str){ "", 0 };
}

/* As everywhere, plain http only to this computer. */
static bool is_loopback(vr_str host)
{
    vr_str name;
    vr_str_split(&host, ':', &name);
    bool address = vr_str_starts(name, "127.");
    for (size_t i = 0; i < name.n && address; i++)
        address = (name.s[i] >= '0' && name.s[i] <= '9') || name.s[i] == '.';
    return address || vr_str_is(name, "localhost");
}

static vram_status keep(vr_arena *a, vr_str s, const char **out)
{
    *out = vr_arena_copy(a, s);
    return *out == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status set_registry(ollama *o, const io_place *place, vr_str host)
{
    vr_arena *a = &o->remote.arena;
    if (place->endpoint[0] != '\0' && host.n == 0)
        host = host_of(place->endpoint);
    else if (host.n == 0)
        host = VR_LIT(HOST);
    if (!word_fits(host, sizeof(place->endpoint), "-.:"))
        return bad_name(o, "the registry is not HOST or HOST:PORT");
    VR_TRY(keep(a, host, &o->name.host));
    if (place->endpoint[0] != '\0' && vr_str_eq(host, host_of(place->endpoint)))
        return keep(a, vr_str_of(place->endpoint), &o->registry);
    o->registry = vr_text(a, T(is_loopback(host) ? "http://" : "https://"), S(host));
    return o->registry == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status set_words(ollama *o, const io_place *place, vr_str owner, vr_str model)
{
    vr_arena *a = &o->remote.arena;
    vr_str tag = vr_str_of(place->quant[0] != '\0' ? place->quant : "latest");
    if (!word_fits(owner, WORD_MOST, "-."))
        return bad_name(o, "its owner has other characters than letters, digits, '-' and '_'");
    if (!word_fits(model, WORD_MOST, "-.") || !word_fits(tag, WORD_MOST, "-."))
        return bad_name(o, "it has other characters than letters, digits, '-', '_' and '.'");
    VR_TRY(keep(a, owner, &o->name.owner));
    VR_TRY(keep(a, model, &o->name.model));
    return keep(a, tag, &o->name.tag);
}

static vram_status set_called(ollama *o, const io_place *place)
{
    vr_arena *a = &o->remote.arena;
    bool own = strcmp(o->name.host, HOST) == 0, library = own && strcmp(o->name.owner, "library") == 0;
    o->called = vr_text(a, T("ollama:"), T(own ? "" : o->name.host), T(own ? "" : "/"),
                        T(library ? "" : o->name.owner), T(library ? "" : "/"), T(o->name.model),
                        T(place->quant[0] != '\0' ? ":" : ""), T(place->quant));
    o->manifest_url = vr_text(a, T(o->registry), T("/v2/"), T(o->name.owner), T("/"), T(o->name.model),
                              T("/manifests/"), T(o->name.tag));
    o->remote.place = o->called;
    return o->called == NULL || o->manifest_url == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status set_name(ollama *o, const io_place *place)
{
    vr_str rest = vr_str_of(place->repo), words[3];
    size_t n = 0;
    while (n < 3 && vr_str_split(&rest, '/', &words[n]))
        n++;
    if (n < 2 || rest.s != NULL)
        return bad_name(o, "it is not OWNER/NAME or HOST/OWNER/NAME");
    if (words[0].n == 0)
        return bad_name(o, "it begins with '/'");
    VR_TRY(set_registry(o, place, n == 3 ? words[0] : (vr_str){ "", 0 }));
    VR_TRY(set_words(o, place, words[n - 2], words[n - 1]));
    return set_called(o, place);
}

/* ---- the registry's refusals ---- */

static vram_status no_such_model(const ollama *o, const char *where)
{
    char hint[256];
    snprintf(hint, sizeof(hint),
             o->store.denied != NULL ? "check the spelling; %.160s may not be read by this user"
                                     : "check the spelling; https://ollama.com/search has all names",
             o->store.denied);
    return io_fail(o->remote.source.ctx, VRAM_ENOTFOUND, o->called, hint,
                   "%s has no model %s, or no tag %s of it", where, o->name.model, o->name.tag);
}

static vram_status login_wanted(const ollama *o)
{
    return io_fail(o->remote.source.ctx, VRAM_EIO, o->called,
                   "fetch it with ollama pull: vram then reads it from this disk",
                   "%s has no such model, or wants a login for it", o->name.host);
}

static const char *registry_name(const ollama *o)
{
    return strcmp(o->name.host, HOST) == 0 ? "ollama" : o->name.host;
}

/* Not whole here, and nowhere else to be had. */
static vram_status fail_incomplete(const ollama *o, const io_remote_file *f, const io_blob *b)
{
    char hint[256];
    snprintf(hint, sizeof(hint), "finish the download: ollama pull %.180s", o->called + strlen("ollama:"));
    return io_fail(o->remote.source.ctx, VRAM_EIO, f->name, hint,
                   "INCOMPLETE: %llu of its %llu bytes are on this disk", (unsigned long long)b->have,
                   (unsigned long long)f->size);
}

static vram_status fail_answer(io_remote *r, const io_request *answer)
{
    const ollama *o = (const ollama *)(const void *)r;
    bool status = answer->result == IO_HTTP_STATUS;
    if (status && answer->url == o->manifest_url && answer->status == 404)
        return no_such_model(o, registry_name(o));
    if (status && (answer->status == 401 || answer->status == 403))
        return login_wanted(o);
    for (size_t i = 0; status && answer->status == 404 && i < r->n_files; i++) {
        if (o->local && answer->url == r->files[i].url)
            return fail_incomplete(o, &r->files[i], &o->blobs[i]);
    }
    return io_http_fail(r->source.ctx, answer);
}

/* ---- the manifest ---- */

static bool cached(vram_io *io, const char *url, const char *version, vr_str *text)
{
    uint64_t total;
    char *bytes;
    size_t n;
    if (!io_cache_get(io, url, version, 0, UINT64_MAX, &bytes, &n, &total) || n != total)
        return false;
    *text = (vr_str){ bytes, n };
    return true;
}

/* A small text of the registry; text->s stays NULL when it is refused, and *r says why. version: a digest
 * under which it may be known, or NULL: it may be another one now. */
static vram_status ask(ollama *o, const char *url, const char *version, uint64_t most, io_request *r,
                       vr_str *text)
{
    vram_io *io = o->remote.source.io;
    char made[40];
    *r = (io_request){ .url = url, .file = url, .accept = TYPE, .whole = true, .most = most };
    if (version != NULL && cached(io, url, version, text))
        return VRAM_OK;
    VR_TRY(io_http_perform(io, o->remote.source.ctx, r, 1));
    if (r->result != IO_HTTP_OK)
        return VRAM_OK;
    *text = (vr_str){ r->bytes, r->n };
    snprintf(made, sizeof(made), "xxh64:%016llx", (unsigned long long)io_hash(r->bytes, r->n, 0));
    io_cache_put(io, url, version != NULL ? version : made, r->n, 0, r->bytes, r->n);
    return VRAM_OK;
}

static vram_status offline_manifest(ollama *o, vr_str *text)
{
    char hint[256];
    if (io_remote_kept(&o->remote, o->manifest_url, text))
        return VRAM_OK;
    snprintf(hint, sizeof(hint),
             o->store.denied != NULL ? "%.180s may not be read by this user"
                                     : "ollama list says which models are",
             o->store.denied);
    return io_fail(o->remote.source.ctx, VRAM_ENOTFOUND, o->called, hint,
                   "this model is not on this disk, and no server may be asked");
}

static vram_status get_manifest(ollama *o)
{
    const char *name = NULL, *files = o->name.model;
    vr_str text = { NULL, 0 };
    io_request r = { .url = NULL };
    VR_TRY(io_store_manifest(&o->store, &o->remote.arena, &o->name, &name, &text));
    o->local = name != NULL;
    if (!o->local) {
        name = o->manifest_url;
        VR_TRY(o->remote.offline ? offline_manifest(o, &text)
                                 : ask(o, name, NULL, IO_MANIFEST_MOST, &r, &text));
        if (text.s == NULL)
            return fail_answer(&o->remote, &r);
    }
    if (strcmp(o->name.tag, "latest") != 0)
        files = vr_text(&o->remote.arena, T(files), T("-"), T(o->name.tag));
    return files == NULL ? VRAM_ENOMEM : io_manifest_read(&o->manifest, &o->remote.arena, name, files, text);
}

/* ---- its blobs ---- */

static vram_status url_of(ollama *o, const io_layer *l, const char **url)
{
    *url = vr_text(&o->remote.arena, T(o->registry), T("/v2/"), T(o->name.owner), T("/"), T(o->name.model),
                   T("/blobs/"), T(l->digest));
    return *url == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* One sentence for all of it: a model of tensors has hundreds of files. */
static vram_status warn_incomplete(const ollama *o)
{
    uint64_t have = 0, total = 0;
    size_t lacking = 0;
    bool any = o->local;
    const char *file = o->called;
    for (size_t i = 0; i < o->remote.n_files; i++) {
        const io_remote_file *f = &o->remote.files[i];
        const io_blob *b = &o->blobs[i];
        uint64_t n = b->have < f->size ? b->have : f->size;
        have = vr_add_sat(have, n);
        total = vr_add_sat(total, f->size);
        any = any || (b->path == NULL && b->have > 0);
        lacking += b->path == NULL && b->have <= f->size;
        if (b->path == NULL && b->have > f->size)
            VR_TRY(vr_warn(o->remote.source.ctx, f->name, T("the copy on this disk is damaged: it has "),
                           GROUPED(b->have), T(" bytes, and the manifest says "), GROUPED(f->size)));
        if (o->remote.n_files == 1)
            file = f->name;
    }
    if (lacking == 0 || !any)
        return VRAM_OK;
    return vr_warn(o->remote.source.ctx, file, T("the download is INCOMPLETE: "), GROUPED(have),
                   T(" of its "), GROUPED(total), T(" bytes are on this disk"));
}

static vram_status add_layer(ollama *o, const io_layer *l)
{
    const char *url;
    io_remote_file *f;
    io_blob *b = &o->blobs[o->remote.n_files];
    VR_TRY(io_store_blob(&o->store, &o->remote.arena, l->digest, l->size, b));
    VR_TRY(url_of(o, l, &url));
    VR_TRY(io_remote_add(&o->remote, l->file, url, l->size, &f));
    f->version = l->digest;
    return VRAM_OK;
}

/* ---- its settings ---- */

static vram_status read_small(ollama *o, const io_layer *l, vr_str *text)
{
    const void *bytes;
    const char *url;
    io_blob b;
    io_request r;
    VR_TRY(io_store_blob(&o->store, &o->remote.arena, l->digest, l->size, &b));
    if (b.path != NULL) {
        VR_TRY(vram_io_read_file(&bytes, &text->n, o->remote.source.io, o->remote.source.ctx, b.path,
                                 PARAMS_MOST));
        text->s = bytes;
        return VRAM_OK;
    }
    VR_TRY(url_of(o, l, &url));
    if (!o->remote.offline)
        return ask(o, url, l->digest, PARAMS_MOST, &r, text);
    (void)cached(o->remote.source.io, url, l->digest, text);
    return VRAM_OK;
}

/* Nothing depends on it: when it cannot be read, it is as if it were not there. */
static vram_status take_params(ollama *o, const io_layer *l)
{
    vr_str text = { "", 0 };
    vr_json root, v;
    vr_json_error e;
    uint64_t tokens;
    vram_status s = l->size > PARAMS_MOST ? VRAM_OK : read_small(o, l, &text);
    if (s != VRAM_OK || !vr_json_parse(text, &root, &e) || !vr_json_get(root, "num_ctx", &v) ||
        !vr_json_u64(v, &tokens))
        return s == VRAM_ENOMEM ? s : VRAM_OK;
    o->context = tokens;
    return VRAM_OK;
}

static vram_status take_layer(ollama *o, const io_layer *l)
{
    if (l->kind == IO_LAYER_PARAMS)
        return take_params(o, l);
    if (l->kind == IO_LAYER_ADAPTER)
        return vr_warn(o->remote.source.ctx, o->called, T("its adapter of "), GROUPED(l->size),
                       T(" bytes is not counted"));
    return l->file != NULL ? add_layer(o, l) : VRAM_OK;
}

/* ---- the source ---- */

static vram_status list(io_source *s)
{
    ollama *o = (ollama *)(void *)s;
    VR_TRY(get_manifest(o));
    o->blobs = VR_ARRAY(&o->remote.arena, io_blob, o->manifest.n);
    if (o->blobs == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < o->manifest.n; i++)
        VR_TRY(take_layer(o, &o->manifest.layers[i]));
    VR_TRY(warn_incomplete(o));
    return io_remote_list(s);
}

static vram_status fetch_local(ollama *o, const vram_want *w, const char *path)
{
    char *bytes;
    VR_TRY(io_store_read(&o->store, path, w->file, w->offset, (size_t)w->most, &bytes));
    return vram_checkpoint_supply(o->remote.source.ck, w->file, w->offset, bytes, (size_t)w->most);
}

static vram_status fetch(io_source *s, const vram_want *wants, size_t n)
{
    ollama *o = (ollama *)(void *)s;
    vram_want *rest = VR_ARRAY(&o->remote.arena, vram_want, n);
    size_t k = 0;
    uint32_t number = 0, partial = UINT32_MAX;
    if (rest == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        bool known = vr_map_get(&o->remote.by_name, vr_str_of(wants[i].file), &number);
        if (known && o->blobs[number].path != NULL) {
            VR_TRY(fetch_local(o, &wants[i], o->blobs[number].path));
            continue;
        }
        if (known && (o->local || o->blobs[number].have > 0) && partial == UINT32_MAX)
            partial = number;
        rest[k++] = wants[i];
    }
    vram_status status = k == 0 ? VRAM_OK : io_remote_fetch(s, rest, k);
    if (status != VRAM_EIO || !o->remote.offline || partial == UINT32_MAX)
        return status;
    return fail_incomplete(o, &o->remote.files[partial], &o->blobs[partial]);
}

static const io_source_kind ollama_kind = { list, fetch };

/* "registry.ollama.ai and Ollama's store on this disk, its settings ask for a context of 8,192 tokens" */
static vram_status say_where(ollama *o, vram_checkpoint *ck)
{
    size_t here = o->local;
    for (size_t i = 0; i < o->remote.n_files; i++)
        here += o->blobs[i].path != NULL;
    bool all = here == o->remote.n_files + 1;
    const char *where = vr_text(
        &o->remote.arena, T(all || !o->remote.offline ? "" : "headers kept of "), T(all ? "" : o->name.host),
        T(all || here == 0 ? "" : " and "), T(here == 0 ? "" : "Ollama's store on this disk"),
        T(o->context == 0 ? "" : ", its settings ask for a context of "),
        o->context == 0 ? T("") : GROUPED(o->context), T(o->context == 0 ? "" : " tokens"));
    return where == NULL ? VRAM_ENOMEM : vram_checkpoint_read_from(ck, where);
}

static vram_status open_named(ollama *o, vram_checkpoint **out, const io_place *place)
{
    VR_TRY(set_name(o, place));
    VR_TRY(io_store_open(&o->store, &o->remote.arena, o->remote.source.io, o->remote.source.ctx));
    VR_TRY(io_remote_read(out, &o->remote, o->called, ""));
    return say_where(o, *out);
}

vram_status io_ollama_open(vram_checkpoint **out, vram_io *io, vram_ctx *ctx, const io_place *place)
{
    ollama o = { .remote = { .source = { .kind = &ollama_kind } } };
    vram_status s = io_remote_begin(&o.remote, io, ctx, place->repo);
    o.remote.fail = fail_answer;
    if (s == VRAM_OK)
        s = open_named(&o, out, place);
    io_remote_end(&o.remote);
    return s;
}
