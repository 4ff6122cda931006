/* SPDX-License-Identifier: MIT
 * Ranges over http(s), many at once: libcurl's multi interface, connections re-used, HTTP/2 where the server
 * has it. Redirects are followed here and not by libcurl: credentials are sent to the origin they are meant
 * for and nowhere else, and nothing but https is followed (http to loopback, or where it was allowed).
 * Environment: SSL_CERT_FILE, CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE, SSL_CERT_DIR (who is trusted, otherwise
 * the system's); VRAM_HTTP_TIMEOUT (seconds); https_proxy, no_proxy and the like as libcurl reads them, but
 * no proxy for loopback. A vram_io is used by one thread at a time; two of them by two threads are fine with
 * libcurl since 7.84, whose global start is safe then. */
#ifndef IO_HTTP_H
#define IO_HTTP_H

#include "io.h"

typedef enum io_http_result {
    IO_HTTP_OK,           /* 200 or 206, and what was asked for came */
    IO_HTTP_STATUS,       /* any other final status */
    IO_HTTP_NOT_MODIFIED, /* 304 */
    IO_HTTP_CHANGED,      /* the validator is another than `validator`: the file changed meanwhile */
    IO_HTTP_FAILED        /* no answer that can be used; the sentence is in `trouble` */
} io_http_result;

/* One request and its answer. Everything above the line is the caller's and is only read. */
typedef struct io_request {
    const char *url;
    const char *file;   /* what errors call it: its name in the checkpoint, or the URL without credentials */
    const char *accept; /* value of an Accept header, or NULL */
    const char *bearer; /* token for the origin of url, or NULL; goes to no other origin */
    bool whole;         /* the body from its begin, at most `most` bytes; a longer one is an error (ELIMIT) */
    uint64_t offset, least,
        most;              /* otherwise this range; fewer than `least` only where the file ends, 0 too */
    const char *validator; /* what an earlier answer gave: sent as If-Range and compared; or NULL */
    const char *known;     /* ETag of what is in a cache: sent as If-None-Match; or NULL */
    /* ---- */
    io_http_result result;
    long status; /* of the last answer, 0: none */
    char *bytes; /* with OK; live as long as io, never NULL */
    size_t n;
    uint64_t total;          /* bytes of the whole file, UINT64_MAX: the server does not say */
    char validator_now[160]; /* strong ETag, else Last-Modified, "" when it gives neither */
    char linked_etag[160];   /* X-Linked-Etag of the hub, without quotes: the SHA-256 of a large file; "" */
    uint64_t linked_size;    /* X-Linked-Size, or UINT64_MAX */
    char commit[64];         /* X-Repo-Commit; "" */
    char error_code[64];     /* X-Error-Code, X-Error-Message: the hub's; "" */
    char error_text[200];
    char location[1024]; /* origin and path of the last redirect, without its query; "" */
    char trouble[320];   /* a sentence; it begins with the server's name and has no credentials in it */
    const char *hint;    /* what to do about it, or NULL */
    vram_status code;    /* what to fail with when result is none of OK, NOT_MODIFIED, CHANGED */
} io_request;

typedef struct io_http_limits {
    unsigned connect_s;   /* 10 */
    unsigned stall_s;     /* no byte for so long: 20 */
    unsigned request_s;   /* one request with its retries: 60 */
    unsigned total_s;     /* all requests of one vram_io_open: 300 */
    unsigned tries;       /* 4: refused, reset, stalled, 429, 5xx; Retry-After is obeyed up to request_s */
    unsigned hops;        /* redirects: 5 */
    unsigned connections; /* to one host over HTTP/1.1: 24 */
    bool allow_http;      /* to other hosts than loopback */
} io_http_limits;

/* For the calls that follow; VRAM_HTTP_TIMEOUT (seconds, of the environment) is then no longer looked at. */
vram_status io_http_set_limits(vram_io *io, const io_http_limits *limits);
/* Those in force: the defaults above, with VRAM_HTTP_TIMEOUT for both request_s and total_s. */
io_http_limits io_http_limits_of(const vram_io *io);
/* Answers all of r, in parallel. VRAM_OK when every request has a result, whichever it is; otherwise
 * VRAM_ENOMEM or the like. Results with code set are not made the context's error: io_http_fail does that. */
vram_status io_http_perform(vram_io *io, vram_ctx *ctx, io_request *r, size_t n);
/* Makes r's trouble the context's error, with r->file. */
vram_status io_http_fail(vram_ctx *ctx, const io_request *r);

struct io_http; /* connections, kept between calls in vram_io; NULL until the first request */
void io_http_free(struct io_http *h);

/* "https://user:secret@host/path?signature" without what is secret, for people; out is always terminated. */
void io_url_shown(char *out, size_t room, const char *url);

#endif
