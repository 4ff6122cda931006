/* SPDX-License-Identifier: MIT
 * What the hub's refusals mean. Codes and texts: huggingface_hub 2.4.0, utils/_http.py, hf_raise_for_status:
 * X-Error-Code says RepoNotFound, GatedRepo, RevisionNotFound, EntryNotFound; 401 is also its answer for a
 * repository that does not exist. */
#include "io/hub.h"

#include <stdio.h>
#include <string.h>

static vram_status no_such_model(io_hub *h)
{
    char hint[256];
    vram_ctx *ctx = h->remote.source.ctx;
    const char *here = h->typed_as_name ? "; nor is there such a file or directory here" : "";
    if (h->token == NULL)
        snprintf(hint, sizeof(hint),
                 "check the spelling; to a private model HF_TOKEN=hf_... or hf auth login opens the door");
    else
        snprintf(hint, sizeof(hint), "check the spelling, and that the token of %.100s may read it",
                 h->token_from);
    return io_fail(ctx, VRAM_ENOTFOUND, h->place->repo, hint,
                   "the hub has no such model, or it is private: the hub does not say which%s", here);
}

static vram_status gated(io_hub *h)
{
    char hint[256];
    vram_ctx *ctx = h->remote.source.ctx;
    if (h->token == NULL)
        snprintf(hint, sizeof(hint), "accept them at %.80s/%.90s, then set HF_TOKEN or run hf auth login",
                 h->endpoint, h->repo);
    else
        snprintf(hint, sizeof(hint), "accept its terms at %.80s/%.90s with the account that the token is of",
                 h->endpoint, h->repo);
    return io_fail(ctx, VRAM_EIO, h->place->repo, hint,
                   h->token == NULL ? "this model is gated: its terms must be accepted first"
                                    : "this model is gated, and the token of %.100s has no access yet",
                   h->token_from);
}

static vram_status bad_token(io_hub *h)
{
    char hint[256];
    snprintf(hint, sizeof(hint),
             "renew it with hf auth login, or do without: HF_HUB_DISABLE_IMPLICIT_TOKEN=1");
    return io_fail(h->remote.source.ctx, VRAM_EIO, h->place->repo, hint,
                   "the hub does not accept the token of %.200s",
                   h->token_from != NULL ? h->token_from : "this request");
}

/* ---- revisions ---- */

/* "main, v1.0" out of one list of the answer. */
static void add_names(io_hub *h, vr_json refs, const char *list, char *out, size_t room)
{
    vr_json all, one, name;
    vr_str text;
    if (!vr_json_get(refs, list, &all))
        return;
    vr_json_iter it = vr_json_each(all);
    while (vr_json_next(&it, &one)) {
        size_t at = strlen(out);
        if (vr_json_get(one, "name", &name) && vr_json_str(name, &h->remote.arena, &text) &&
            at + text.n + 3 < room)
            snprintf(out + at, room - at, "%s%.*s", at == 0 ? "" : ", ", (int)text.n, text.s);
    }
}

/* Asks once more, for the names; without an answer the sentence goes without them. */
static void names_of_revisions(io_hub *h, char *out, size_t room)
{
    char url[IO_SHOWN_URL];
    vr_json refs;
    vr_json_error error;
    snprintf(url, sizeof(url), "%s/api/models/%s/refs", h->endpoint, h->repo);
    io_request r = {
        .url = url, .file = url, .bearer = h->token, .accept = "application/json", .whole = true
    };
    r.most = VR_MIB;
    if (io_http_perform(h->remote.source.io, h->remote.source.ctx, &r, 1) != VRAM_OK ||
        r.result != IO_HTTP_OK || !vr_json_parse((vr_str){ r.bytes, r.n }, &refs, &error))
        return;
    add_names(h, refs, "branches", out, room);
    add_names(h, refs, "tags", out, room);
}

static vram_status no_revision(io_hub *h)
{
    char names[200] = "", hint[256];
    names_of_revisions(h, names, sizeof(names));
    snprintf(hint, sizeof(hint), names[0] != '\0' ? "it has: %s" : "look at its branches and tags: %.80s/%s",
             names[0] != '\0' ? names : h->endpoint, h->repo);
    return io_fail(h->remote.source.ctx, VRAM_ENOTFOUND, h->place->repo, hint,
                   "the model has no branch, tag or commit '%s'", h->revision);
}

/* ---- all ---- */

static bool refused(const io_request *a)
{
    return a->status == 401 || a->status == 403 || a->status == 404;
}

vram_status io_hub_fail(io_remote *r, const io_request *a)
{
    io_hub *h = (io_hub *)(void *)r;
    bool api = strcmp(a->file, h->api) == 0;
    if (a->result != IO_HTTP_STATUS || !refused(a))
        return io_http_fail(r->source.ctx, a);
    if (strcmp(a->error_code, "GatedRepo") == 0)
        return gated(h);
    if (strcmp(a->error_code, "RevisionNotFound") == 0)
        return no_revision(h);
    if (strcmp(a->error_code, "EntryNotFound") == 0)
        return io_fail(r->source.ctx, VRAM_ENOTFOUND, a->file, "try again: the model may be changing",
                       "the hub lists this file and has it not");
    if (strcmp(a->error_text, "Access to this resource is disabled.") == 0)
        return io_fail(r->source.ctx, VRAM_EIO, h->place->repo, NULL, "the hub has disabled this model");
    if (strcmp(a->error_text, "Invalid credentials in Authorization header") == 0)
        return bad_token(h);
    if (api && (a->status != 403 || strcmp(a->error_code, "RepoNotFound") == 0))
        return no_such_model(h);
    return io_http_fail(r->source.ctx, a);
}
