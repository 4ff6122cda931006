/* SPDX-License-Identifier: MIT
 * What a MODEL on the command line means.
 * Names of the hub: huggingface_hub 2.4.0, utils/_validators.py (REPO_ID_REGEX and what follows it), hf:// as
 * its hf_file_system.py reads it ("refs/pr/3" is one revision); its pages by their addresses. NAME:QUANT as
 * llama.cpp's -hf and Ollama take it. Pages of ModelScope: modelscope 1.40.2. Names of Ollama:
 * ollama types/model/name.go. */
#include "io/place.h"

#include "io/address.h"

#include <string.h>

#define MOST_WORD 96

static bool refuse(const char **why, const char *sentence)
{
    *why = sentence;
    return false;
}

static bool put(char *out, size_t room, vr_str s)
{
    if (s.n >= room)
        return false;
    memcpy(out, s.s, s.n);
    out[s.n] = '\0';
    return true;
}

/* The next word of a path; the slash behind it is gone too. */
static vr_str take_word(vr_str *rest)
{
    vr_str word = io_take_until(rest, "/");
    if (rest->n > 0)
        *rest = io_past(*rest, 1);
    return word;
}

static bool is_any(vr_str word, const char *const *list)
{
    while (*list != NULL && !vr_str_is(word, *list))
        list++;
    return *list != NULL;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Schemes and hosts are the same in either case. */
static bool starts_folded(vr_str s, const char *with)
{
    size_t n = strlen(with);
    if (s.n < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (lower(s.s[i]) != lower(with[i]))
            return false;
    }
    return true;
}

static bool same_folded(vr_str s, const char *word)
{
    return s.n == strlen(word) && starts_folded(s, word);
}

/* ---- parts of names ---- */

static bool is_alphanumeric(char c)
{
    c = lower(c);
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool of_characters(vr_str w, const char *others)
{
    for (size_t i = 0; i < w.n; i++) {
        if (!is_alphanumeric(w.s[i]) && (w.s[i] == '\0' || strchr(others, w.s[i]) == NULL))
            return false;
    }
    return w.n > 0;
}

static bool repo_word(vr_str w)
{
    return w.n <= MOST_WORD && of_characters(w, "._-") && strchr(".-", w.s[0]) == NULL &&
           strchr(".-", w.s[w.n - 1]) == NULL && !vr_str_find(w, "..", NULL);
}

static bool hub_word(vr_str w)
{
    return repo_word(w) && !vr_str_find(w, "--", NULL) && !vr_str_ends(w, ".git");
}

/* No word of it is empty, '.' or '..'; no backslash. */
static bool leads_down(const char *path)
{
    vr_str rest = vr_str_of(path), word;
    while (vr_str_split(&rest, '/', &word)) {
        if (word.n == 0 || vr_str_is(word, ".") || vr_str_is(word, ".."))
            return false;
    }
    return strchr(path, '\\') == NULL;
}

/* git-check-ref-format(1), near enough to keep what is none away from a server. */
static bool put_revision(io_place *out, vr_str s, const char **why)
{
    if (s.n == 0 || !io_decode(out->revision, sizeof(out->revision), s) || !leads_down(out->revision) ||
        strpbrk(out->revision, " ~^:?*[") != NULL || strstr(out->revision, "..") != NULL ||
        out->revision[0] == '-')
        return refuse(why, "what stands for the revision is no name of a branch, tag or commit");
    return true;
}

static bool put_file(io_place *out, vr_str s, const char **why)
{
    if (s.n > 0 && s.s[0] == '/')
        s = io_past(s, 1);
    while (s.n > 0 && s.s[s.n - 1] == '/')
        s.n--;
    if (s.n == 0)
        return true;
    if (!io_decode(out->file, sizeof(out->file), s) || !leads_down(out->file))
        return refuse(why, "what stands for the file is no path inside a repository");
    return true;
}

static bool put_quant(io_place *out, vr_str s, const char **why)
{
    if (!of_characters(s, "._-*?") || !put(out->quant, sizeof(out->quant), s))
        return refuse(why, "what stands behind ':' is no name of a quantisation or tag");
    return true;
}

/* "refs/pr/3" and "refs/convert/parquet" are three words of a path; any other revision is one, in which
 * slashes are encoded. */
static vr_str take_revision(vr_str *rest)
{
    vr_str whole = *rest, word = io_take_until(rest, "/:");
    if (!vr_str_is(word, "refs"))
        return word;
    for (int i = 0; i < 2 && rest->n > 0 && rest->s[0] == '/'; i++) {
        *rest = io_past(*rest, 1);
        io_take_until(rest, "/:");
    }
    return (vr_str){ whole.s, whole.n - rest->n };
}

/* ---- the hub ---- */

static const char *const hub_others[] = { "datasets", "spaces",  "kernels",       "buckets", "collections",
                                          "papers",   "docs",    "blog",          "posts",   "organizations",
                                          "learn",    "pricing", "enterprise",    "join",    "login",
                                          "settings", "tasks",   "inference",     "chat",    "api",
                                          "new",      "search",  "resolve-cache", NULL };
static const char *const with_revision[] = { "tree", "blob", "resolve", "raw", "blame", "edit", NULL };
static const char *const pages[] = { "tree",    "blob",        "resolve",  "raw",    "blame", "edit",
                                     "commits", "discussions", "settings", "commit", NULL };

/* What stands behind the name on one of the hub's pages. Other pages about a model mean the model. */
static bool hub_page(io_place *out, vr_str rest, const char **why)
{
    vr_str page = take_word(&rest);
    if (vr_str_is(page, "commit") || vr_str_is(page, "commits"))
        return rest.n == 0 || put_revision(out, take_revision(&rest), why);
    if (!is_any(page, with_revision))
        return true;
    if (rest.n == 0)
        return true;
    if (!put_revision(out, take_revision(&rest), why))
        return false;
    return put_file(out, rest, why);
}

typedef enum hub_form {
    BARE, /* org/name: what stands behind '@' is all revision */
    URI,  /* hf://org/name/file */
    PAGE  /* https://huggingface.co/org/name/tree/... */
} hub_form;

/* ":QUANT" or "@REVISION" */
static bool hub_mark(io_place *out, vr_str *rest, hub_form form, const char **why)
{
    bool quant = rest->s[0] == ':';
    *rest = io_past(*rest, 1);
    if ((quant ? out->quant : out->revision)[0] != '\0')
        return refuse(why, "it has two revisions or two quantisations");
    if (quant)
        return put_quant(out, io_take_until(rest, form == BARE ? "@" : "@/"), why);
    return put_revision(out, form == BARE ? io_take_until(rest, ":") : take_revision(rest), why);
}

/* Behind the name: ":QUANT", "@REVISION", "/file" or "/page". */
static bool hub_suffix(io_place *out, vr_str rest, hub_form form, const char **why)
{
    while (rest.n > 0 && rest.s[0] != '/') {
        if (!hub_mark(out, &rest, form, why))
            return false;
    }
    if (form == PAGE && rest.n > 0 && out->revision[0] == '\0')
        return hub_page(out, io_past(rest, 1), why);
    return put_file(out, rest, why);
}

static bool put_repo(io_place *out, vr_str org, vr_str name)
{
    if (org.n == 0)
        return put(out->repo, sizeof(out->repo), name);
    if (org.n + 1 + name.n >= sizeof(out->repo))
        return false;
    memcpy(out->repo, org.s, org.n);
    out->repo[org.n] = '/';
    return put(out->repo + org.n + 1, sizeof(out->repo) - org.n - 1, name);
}

/* From its beginning, two words or, for the oldest models, one. */
static bool hub_name(io_place *out, vr_str rest, hub_form form, const char **why)
{
    vr_str org = io_take_until(&rest, "/:@"), name = { "", 0 };
    vr_str behind = rest.n > 0 && rest.s[0] == '/' ? io_past(rest, 1) : name;
    vr_str next = behind;
    if (form != BARE && is_any(org, hub_others))
        return refuse(why,
                      "this is no model: only models of the hub are read, no data sets, spaces or pages");
    next = io_take_until(&next, "/:@");
    if (next.n > 0 && !(form == PAGE && is_any(next, pages))) {
        name = next;
        rest = io_past(behind, next.n);
    }
    out->kind = IO_PLACE_HUB;
    if (org.n == 0 || !hub_word(org) || (name.n > 0 && !hub_word(name)))
        return refuse(why, "that is no name of a model: letters, digits, '-', '_', '.', at most 96 each of "
                           "organisation and model, no '--' and no '..'");
    if (!put_repo(out, name.n > 0 ? org : name, name.n > 0 ? name : org))
        return refuse(why, "the name is too long");
    return hub_suffix(out, rest, form, why);
}

static bool hub_path(io_place *out, vr_str rest, hub_form form, const char **why)
{
    vr_str after = rest;
    while (after.n > 0 && after.s[after.n - 1] == '/')
        after.n--;
    rest = after;
    if (vr_str_is(take_word(&after), "models") && vr_str_find(after, "/", NULL))
        rest = after;
    return hub_name(out, rest, form, why);
}

/* ---- ModelScope, Ollama ---- */

static bool modelscope_page(io_place *out, vr_str rest, const char **why)
{
    vr_str page = take_word(&rest);
    if (vr_str_is(page, "file")) /* /file/view/REV/path */
        take_word(&rest);
    else if (!vr_str_is(page, "resolve") && !vr_str_is(page, "tree"))
        return true;
    if (rest.n == 0)
        return true;
    return put_revision(out, take_revision(&rest), why) && put_file(out, rest, why);
}

static bool modelscope(io_place *out, vr_str rest, bool page, const char **why)
{
    while (rest.n > 0 && rest.s[rest.n - 1] == '/')
        rest.n--;
    vr_str org = take_word(&rest), name = io_take_until(&rest, "/:@");
    out->kind = IO_PLACE_MODELSCOPE;
    if (!repo_word(org) || !repo_word(name) || !put_repo(out, org, name))
        return refuse(why, "that is no name of a model on ModelScope: it has an owner, a slash and a name");
    if (page)
        return rest.n == 0 || modelscope_page(out, io_past(rest, 1), why);
    return hub_suffix(out, rest, rest.n > 0 && rest.s[0] == '/' ? URI : BARE, why);
}

static const char *const ollama_others[] = { "search",   "blog",  "docs",   "models", "download",
                                             "settings", "login", "signin", "public", NULL };

static const char ollama_why[] = "that is no name of a model of Ollama, such as ollama:qwen2.5:7b";

/* [host/][owner/]name; a host may have a port. */
static size_t ollama_words(vr_str *rest, size_t most, vr_str words[3])
{
    size_t n = 0;
    while (n < most && rest->n > 0 && (n == 0 || rest->s[0] == '/')) {
        if (n > 0)
            *rest = io_past(*rest, 1);
        bool may_be_host = n == 0 && most == 3 && vr_str_find(*rest, "/", NULL);
        words[n++] = io_take_until(rest, may_be_host ? "/" : "/:@");
    }
    return n;
}

/* No word that leads out of the store's folder of manifests. */
static bool ollama_host(vr_str w)
{
    return w.n > 0 && w.n <= MOST_WORD && of_characters(w, "._-:") && w.s[0] != '.' &&
           !vr_str_find(w, "..", NULL);
}

static bool put_ollama(io_place *out, const vr_str *words, size_t n)
{
    char name[sizeof(out->repo)];
    bool host = n == 3;
    if (n == 0 || (host && !ollama_host(words[0])))
        return false;
    for (size_t i = host; i < n; i++) {
        if (!repo_word(words[i]))
            return false;
    }
    if (!put_repo(out, n == 1 ? VR_LIT("library") : words[n - 2], words[n - 1]))
        return false;
    memcpy(name, out->repo, sizeof(name));
    return !host || put_repo(out, words[0], vr_str_of(name));
}

/* [host/][owner/]name[:tag]; a page has an owner always, and may have more behind it. */
static bool ollama(io_place *out, vr_str rest, bool page, const char **why)
{
    vr_str words[3] = { { "", 0 } };
    size_t n = ollama_words(&rest, page ? 2 : 3, words);
    out->kind = IO_PLACE_OLLAMA;
    if ((page && (n != 2 || is_any(words[0], ollama_others))) || !put_ollama(out, words, n))
        return refuse(why, ollama_why);
    if (rest.n > 0 && rest.s[0] == ':') {
        rest = io_past(rest, 1);
        if (!put_quant(out, io_take_until(&rest, "/"), why))
            return false;
    }
    return page || rest.n == 0 || refuse(why, "what stands behind the name is no tag: it begins with ':'");
}

/* ---- addresses ---- */

/* The path behind the endpoint, when the address begins with it. */
static bool behind_endpoint(const io_address *a, const char *endpoint, vr_str *path)
{
    size_t n = endpoint != NULL ? strlen(endpoint) : 0;
    while (n > 0 && endpoint[n - 1] == '/')
        n--;
    if (n < a->origin.n || a->all.n < n || (a->all.n > n && strchr("/?", a->all.s[n]) == NULL))
        return false;
    for (size_t i = 0; i < n; i++) {
        bool same = i < a->origin.n ? lower(a->all.s[i]) == lower(endpoint[i]) : a->all.s[i] == endpoint[i];
        if (!same)
            return false;
    }
    vr_str rest = io_past(a->all, n);
    *path = io_take_until(&rest, "?");
    if (path->n > 0)
        *path = io_past(*path, 1);
    return true;
}

static bool is_hub_host(vr_str host)
{
    return same_folded(host, "huggingface.co") || same_folded(host, "www.huggingface.co") ||
           same_folded(host, "hf.co");
}

static bool is_modelscope_host(vr_str host, bool *international)
{
    if (starts_folded(host, "www."))
        host = io_past(host, 4);
    *international = same_folded(host, "modelscope.ai");
    return *international || same_folded(host, "modelscope.cn");
}

static bool is_ollama_host(vr_str host)
{
    return same_folded(host, "ollama.com") || same_folded(host, "www.ollama.com") ||
           same_folded(host, "registry.ollama.ai");
}

static bool known_host(io_place *out, const io_address *a, const char *endpoint, bool *known,
                       const char **why)
{
    vr_str path = a->path, after = a->path;
    bool international = false;
    *known = true;
    if (is_hub_host(a->host) || behind_endpoint(a, endpoint, &path))
        return hub_path(out, path, PAGE, why);
    if (same_folded(a->host, "hf-mirror.com"))
        return put(out->endpoint, sizeof(out->endpoint), a->origin) && hub_path(out, path, PAGE, why);
    if (is_modelscope_host(a->host, &international)) {
        if (international)
            put(out->endpoint, sizeof(out->endpoint), VR_LIT("https://www.modelscope.ai"));
        if (!vr_str_is(take_word(&after), "models"))
            return refuse(why, "this is no model: only models of ModelScope are read");
        return modelscope(out, after, true, why);
    }
    if (is_ollama_host(a->host))
        return ollama(out, path, true, why);
    *known = false;
    return true;
}

static bool web_address(io_place *out, vr_str text, const char *endpoint, const char **why)
{
    io_address a = { 0 };
    bool known = false;
    if (!io_address_split(&a, text, why) || !known_host(out, &a, endpoint, &known, why))
        return false;
    if (known)
        return true;
    out->kind = IO_PLACE_URL;
    return put(out->url, sizeof(out->url), a.all) || refuse(why, "the address is too long");
}

/* "hf.co/org/name", as people copy it from a browser or type it for Ollama. */
static bool is_address_without_scheme(vr_str text)
{
    bool international = false;
    vr_str host = io_take_until(&text, "/");
    return text.n > 1 &&
           (is_hub_host(host) || is_modelscope_host(host, &international) || is_ollama_host(host));
}

/* ---- all ---- */

static bool is_file_name(vr_str name)
{
    static const char *const tails[] = { ".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".json" };
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        if (vr_str_ends(name, tails[i]))
            return true;
    }
    return false;
}

bool io_place_is_file_name(const char *name)
{
    return is_file_name(vr_str_of(name));
}

/* org/name, and nothing that is more likely a path: a typing error in one must not be sent to a server. */
static bool is_bare_name(vr_str text)
{
    vr_str org = io_take_until(&text, "/:@");
    if (text.n == 0 || text.s[0] != '/' || !hub_word(org))
        return false;
    text = io_past(text, 1);
    vr_str name = io_take_until(&text, "/:@");
    return hub_word(name) && (text.n == 0 || text.s[0] != '/') && !(text.n == 0 && is_file_name(name));
}

static bool has_scheme(vr_str text)
{
    size_t at = 0;
    return vr_str_find(text, "://", &at) && of_characters((vr_str){ text.s, at }, "+.-");
}

typedef enum scheme { NONE, WEB, HUB, MODELSCOPE, OLLAMA, OTHER } scheme;

static scheme scheme_of(vr_str *text)
{
    static const struct {
        const char *begin;
        scheme scheme;
    } begins[] = { { "https://", WEB },
                   { "http://", WEB },
                   { "hf://", HUB },
                   { "hf:", HUB },
                   { "modelscope://", MODELSCOPE },
                   { "modelscope:", MODELSCOPE },
                   { "ollama://", OLLAMA },
                   { "ollama:", OLLAMA } };
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        if (!starts_folded(*text, begins[i].begin))
            continue;
        if (begins[i].scheme != WEB)
            *text = io_past(*text, strlen(begins[i].begin));
        return begins[i].scheme;
    }
    return has_scheme(*text) ? OTHER : NONE;
}

static bool parse_named(io_place *out, vr_str rest, scheme kind, const char *endpoint, const char **why)
{
    switch (kind) {
    case WEB:
        return web_address(out, rest, endpoint, why);
    case HUB:
        return hub_path(out, rest, URI, why);
    case MODELSCOPE:
        return modelscope(out, rest, false, why);
    case OLLAMA:
        return ollama(out, rest, false, why);
    default:
        return refuse(why, "addresses of this kind are not read: https, http, hf, modelscope and ollama are");
    }
}

bool io_place_parse(io_place *out, const char *text, const char *endpoint, const char **why)
{
    char whole[IO_MOST_TEXT];
    vr_str rest = vr_str_of(text);
    scheme kind = scheme_of(&rest);
    memset(out, 0, sizeof(*out));
    *why = NULL;
    if (kind == NONE && is_address_without_scheme(rest)) {
        memcpy(whole, "https://", 8);
        if (rest.n < sizeof(whole) - 8 && put(whole + 8, sizeof(whole) - 8, rest))
            return web_address(out, vr_str_of(whole), endpoint, why);
    }
    if (kind != NONE && rest.n >= IO_MOST_TEXT)
        return refuse(why, "the name is too long");
    if (kind != NONE)
        return parse_named(out, rest, kind, endpoint, why);
    return rest.n >= IO_MOST_TEXT || !is_bare_name(rest) || hub_name(out, rest, BARE, why);
}
