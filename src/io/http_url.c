/* SPDX-License-Identifier: MIT
 * URLs: taken apart with libcurl's own reader, so that what is checked here is what is asked there. */
#include "http_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A copy with malloc, so that libcurl's memory is only here; NULL when there is no such part. */
static vram_status part(CURLU *u, CURLUPart which, unsigned flags, char **out)
{
    char *text = NULL;
    *out = NULL;
    CURLUcode code = curl_url_get(u, which, &text, flags);
    if (code == CURLUE_OUT_OF_MEMORY)
        return VRAM_ENOMEM;
    if (code != CURLUE_OK)
        return VRAM_OK;
    size_t n = strlen(text) + 1;
    *out = malloc(n);
    if (*out != NULL)
        memcpy(*out, text, n);
    curl_free(text);
    return *out == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* 127.0.0.0/8, ::1 and localhost, as libcurl writes them: it has made dotted numbers of all other forms. */
static bool is_loopback(const char *host)
{
    unsigned a, b, c, d;
    char rest;
    if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
        return true;
    return sscanf(host, "%3u.%3u.%3u.%3u%c", &a, &b, &c, &d, &rest) == 4 && a == 127;
}

static vram_status take_parts(io_url *out, CURLU *u)
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    vram_status s = part(u, CURLUPART_SCHEME, 0, &scheme);
    if (s == VRAM_OK)
        s = part(u, CURLUPART_HOST, 0, &host);
    if (s == VRAM_OK)
        s = part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT, &port);
    if (s == VRAM_OK)
        s = part(u, CURLUPART_USER, CURLU_URLDECODE, &out->user);
    if (s == VRAM_OK)
        s = part(u, CURLUPART_PASSWORD, CURLU_URLDECODE, &out->password);
    bool http =
        s == VRAM_OK && scheme != NULL && (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0);
    bool complete = http && host != NULL && *host != '\0' && port != NULL && strlen(host) < sizeof(out->host);
    if (complete) {
        out->secure = strcmp(scheme, "https") == 0;
        memcpy(out->host, host, strlen(host) + 1);
        out->port = (unsigned)strtoul(port, NULL, 10);
        out->loopback = is_loopback(host);
    }
    free(scheme);
    free(host);
    free(port);
    return s != VRAM_OK || complete ? s : VRAM_ESETTING;
}

static vram_status take_text(io_url *out, CURLU *u)
{
    if (curl_url_set(u, CURLUPART_USER, NULL, 0) != CURLUE_OK ||
        curl_url_set(u, CURLUPART_PASSWORD, NULL, 0) != CURLUE_OK ||
        curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) != CURLUE_OK)
        return VRAM_ENOMEM;
    vram_status s = part(u, CURLUPART_URL, 0, &out->text);
    return s == VRAM_OK && out->text == NULL ? VRAM_ESETTING : s;
}

vram_status io_url_new(io_url *out, const char *base, const char *location, const char **why)
{
    CURLU *u = curl_url();
    *out = (io_url){ 0 };
    if (u == NULL)
        return VRAM_ENOMEM;
    CURLUcode code = base == NULL ? CURLUE_OK : curl_url_set(u, CURLUPART_URL, base, 0);
    if (code == CURLUE_OK)
        code = curl_url_set(u, CURLUPART_URL, location, CURLU_URLENCODE);
    vram_status s = code == CURLUE_OK ? take_parts(out, u) : VRAM_ESETTING;
    if (code == CURLUE_OUT_OF_MEMORY)
        s = VRAM_ENOMEM;
    if (s == VRAM_OK)
        s = take_text(out, u);
    if (s == VRAM_ESETTING)
        *why = code == CURLUE_OK || code == CURLUE_UNSUPPORTED_SCHEME ? "only https and http can be asked"
                                                                      : "this is not a URL";
    curl_url_cleanup(u);
    if (s != VRAM_OK)
        io_url_free(out);
    return s;
}

void io_url_free(io_url *u)
{
    free(u->text);
    free(u->user);
    free(u->password);
    *u = (io_url){ 0 };
}

bool io_url_same_origin(const io_url *a, const io_url *b)
{
    return a->secure == b->secure && a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

const char *io_url_refused(const io_url *from, const io_url *to, bool allow_http)
{
    if (from != NULL && to->loopback && !from->loopback)
        return "that is this computer itself";
    if (!to->secure && !to->loopback && !allow_http)
        return "that is not encrypted (http instead of https)";
    return NULL;
}

void io_url_host(char *out, size_t room, const io_url *u)
{
    if (u->port == (u->secure ? 443U : 80U))
        snprintf(out, room, "%s", u->host);
    else
        snprintf(out, room, "%s:%u", u->host, u->port);
}

void io_url_shown(char *out, size_t room, const char *url)
{
    io_url u;
    const char *why = NULL;
    if (io_url_new(&u, NULL, url, &why) != VRAM_OK) {
        snprintf(out, room, "(not a URL)");
        return;
    }
    snprintf(out, room, "%.*s", (int)strcspn(u.text, "?#"), u.text);
    vram_clean(out);
    io_url_free(&u);
}
