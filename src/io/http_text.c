/* SPDX-License-Identifier: MIT
 * What went wrong with a request, as a sentence for people that begins with the server's name. */
#include "http_parts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void io_trouble(io_job *j, vram_status code, const char *hint, const char *text, ...)
{
    char host[300];
    io_request *r = j->r;
    io_url_host(host, sizeof(host), &j->now);
    int n = snprintf(r->trouble, sizeof(r->trouble), "the server %.120s ", host);
    va_list args;
    va_start(args, text);
    vsnprintf(r->trouble + n, sizeof(r->trouble) - (size_t)n, text, args);
    va_end(args);
    vram_clean(r->trouble);
    r->result = IO_HTTP_FAILED;
    r->code = code;
    r->hint = hint;
    j->settled = true;
}

/* ---- statuses ---- */

/* RFC 9110 15, RFC 6585 4 (429). */
// clang-format off
static const struct { long status; const char *text; } statuses[] = {
    { 400, "Bad Request" },           { 401, "Unauthorized" },        { 402, "Payment Required" },
    { 403, "Forbidden" },             { 404, "Not Found" },           { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },        { 407, "Proxy Authentication Required" },
    { 408, "Request Timeout" },       { 409, "Conflict" },            { 410, "Gone" },
    { 412, "Precondition Failed" },   { 416, "Range Not Satisfiable" }, { 429, "Too Many Requests" },
    { 451, "Unavailable For Legal Reasons" },
    { 500, "Internal Server Error" }, { 501, "Not Implemented" },     { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },   { 504, "Gateway Timeout" },
};
// clang-format on

/* What can be done about a status that is final. */
static const char *status_hint(long status)
{
    switch (status) {
    case 401:
    case 403:
        return "it wants a login, or the address is no longer valid; a file that is downloaded can be named";
    case 404:
    case 410:
        return "check the spelling";
    case 407:
        return "https_proxy can have a user and a password in it";
    case 408:
    case 429:
        return IO_HINT_LATER;
    default:
        return status >= 500 ? IO_HINT_LATER : IO_HINT_BETWEEN;
    }
}

const char *io_status_text(long status)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "";
}

void io_trouble_status(io_job *j, long status)
{
    char what[64];
    const char *text = io_status_text(status);
    snprintf(what, sizeof(what), *text != '\0' ? "%ld (%s)" : "%ld", status, text);
    const char *hint = status_hint(status);
    bool absent = status == 404 || status == 410;
    if (j->tries > 1)
        io_trouble(j, VRAM_EIO, hint, "sends back %s and did so %u times", what, j->tries);
    else
        io_trouble(j, absent ? VRAM_ENOTFOUND : VRAM_EIO, hint, "sends back %s", what);
    j->r->result = IO_HTTP_STATUS;
}

/* ---- libcurl's codes ---- */

static bool is_certificate(CURLcode code)
{
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_ISSUER_ERROR ||
           code == CURLE_SSL_INVALIDCERTSTATUS;
}

/* libcurl's sentence without what it puts in front of the reason. */
static const char *reason(const io_job *j, CURLcode code)
{
    static const char *const prefixes[] = { "SSL certificate problem: ", "SSL: " };
    const char *text = j->error[0] != '\0' ? j->error : curl_easy_strerror(code);
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
            return text + strlen(prefixes[i]);
    return text;
}

/* ", 4 times"; "" for once. */
static const char *times(const io_job *j, char room[32])
{
    room[0] = '\0';
    if (j->tries > 1)
        snprintf(room, 32, ", %u times", j->tries);
    return room;
}

/* libcurl names whom it asked: that may be a proxy. */
static void trouble_connect(io_job *j, CURLcode code)
{
    char often[32];
    long error = 0;
    (void)curl_easy_getinfo(j->easy, CURLINFO_OS_ERRNO, &error);
    if (error == ECONNREFUSED && strstr(j->error, j->now.host) != NULL)
        io_trouble(j, VRAM_EIO, "is it running, and the address right?",
                   "refuses the connection to port %u%s", j->now.port, times(j, often));
    else
        io_trouble(j, VRAM_EIO, IO_HINT_REACH, "cannot be connected to: %s%s", reason(j, code),
                   times(j, often));
}

static void trouble_broken(io_job *j)
{
    char often[32];
    if (j->n > 0)
        io_trouble(j, VRAM_EIO, IO_HINT_LATER, "broke off after %zu of %zu bytes%s", j->n, j->want,
                   times(j, often));
    else
        io_trouble(j, VRAM_EIO, IO_HINT_LATER, "broke off the connection before it answered%s",
                   times(j, often));
}

void io_trouble_stalled(io_job *j, bool answered)
{
    char often[32];
    unsigned s = j->http->limits.stall_s;
    if (answered)
        io_trouble(j, VRAM_EIO, IO_HINT_LATER,
                   "stopped sending after %zu of %zu bytes (nothing came for %u s%s)", j->n, j->want, s,
                   times(j, often));
    else
        io_trouble(j, VRAM_EIO, IO_HINT_REACH, "does not answer (timed out after %u s%s)", s,
                   times(j, often));
}

void io_trouble_late(io_job *j)
{
    uint64_t ms = j->deadline - j->began;
    unsigned s = (unsigned)((ms + 999) / 1000);
    if (j->n > 0)
        io_trouble(j, VRAM_EIO, IO_HINT_SLOW, "is too slow: %zu of %zu bytes came in %u s", j->n, j->want, s);
    else
        io_trouble(j, VRAM_EIO, IO_HINT_REACH, "does not answer (timed out after %u s)", s);
}

bool io_trouble_proxy(io_job *j)
{
    long status = 0;
    if (j->port != 0 || curl_easy_getinfo(j->easy, CURLINFO_HTTP_CONNECTCODE, &status) != CURLE_OK ||
        status < 300)
        return false;
    io_trouble(j, VRAM_EIO, status_hint(status),
               "is not reached through the proxy, which sends back %ld (%s)", status, io_status_text(status));
    return true;
}

void io_trouble_curl(io_job *j, CURLcode code)
{
    static const char ca[] = "SSL_CERT_FILE can name a file of certificates that are to be trusted";
    char often[32];
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        io_trouble(j, VRAM_EIO, IO_HINT_REACH, "was not found: its name has no address");
        break;
    case CURLE_COULDNT_CONNECT:
        trouble_connect(j, code);
        break;
    case CURLE_OPERATION_TIMEDOUT:
        io_trouble(j, VRAM_EIO, IO_HINT_REACH, "does not answer (timed out after %u s%s)",
                   j->http->limits.connect_s, times(j, often));
        break;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
        io_trouble(j, VRAM_EFORMAT, IO_HINT_BETWEEN, "sends back what is not HTTP");
        break;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        trouble_broken(j);
        break;
    case CURLE_SSL_CONNECT_ERROR:
        io_trouble(j, VRAM_EIO, IO_HINT_BETWEEN, "makes no encrypted connection: %s%s", reason(j, code),
                   times(j, often));
        break;
    default:
        if (is_certificate(code))
            io_trouble(j, VRAM_EIO, ca, "cannot be trusted, its certificate is not valid: %s",
                       reason(j, code));
        else
            io_trouble(j, VRAM_EIO, IO_HINT_BETWEEN, "cannot be asked: %s", reason(j, code));
    }
}
