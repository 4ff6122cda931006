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

const char *io_status_text(long status)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "";
}

void io_trouble_status(io_job *j, long status)
{
    char what[64], often[32] = "";
    const char *text = io_status_text(status);
    snprintf(what, sizeof(what), *text != '\0' ? "%ld (%s)" : "%ld", status, text);
    if (j->tries > 1)
        snprintf(often, sizeof(often), " and did so %u times", j->tries);
    bool absent = status == 404 || status == 410;
    io_trouble(j, absent ? VRAM_ENOTFOUND : VRAM_EIO, NULL, "sends back %s%s", what, often);
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

static void trouble_connect(io_job *j, CURLcode code)
{
    long error = 0;
    (void)curl_easy_getinfo(j->easy, CURLINFO_OS_ERRNO, &error);
    if (error == ECONNREFUSED)
        io_trouble(j, VRAM_EIO, NULL, "refuses the connection to port %u", j->now.port);
    else
        io_trouble(j, VRAM_EIO, NULL, "cannot be connected to: %s", reason(j, code));
}

static void trouble_broken(io_job *j)
{
    if (j->n > 0)
        io_trouble(j, VRAM_EIO, NULL, "broke off after %zu of %zu bytes", j->n, j->want);
    else
        io_trouble(j, VRAM_EIO, NULL, "broke off the connection before it answered");
}

void io_trouble_curl(io_job *j, CURLcode code)
{
    static const char ca[] = "SSL_CERT_FILE names a file of certificates that are to be trusted";
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        io_trouble(j, VRAM_EIO, "is there a network, and is the name right?", "is not known: %s",
                   "no address was found for its name");
        break;
    case CURLE_COULDNT_CONNECT:
        trouble_connect(j, code);
        break;
    case CURLE_OPERATION_TIMEDOUT:
        io_trouble(j, VRAM_EIO, NULL, "does not answer (timed out after %u s)", j->http->limits.connect_s);
        break;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
        io_trouble(j, VRAM_EFORMAT, NULL, "sends back what is not HTTP");
        break;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        trouble_broken(j);
        break;
    default:
        if (is_certificate(code))
            io_trouble(j, VRAM_EIO, ca, "cannot be trusted, its certificate is not valid: %s",
                       reason(j, code));
        else
            io_trouble(j, VRAM_EIO, NULL, "cannot be asked: %s", reason(j, code));
    }
}
