/* SPDX-License-Identifier: MIT
 * What the files http*.c share: a job is one request on its way to its answer, an attempt one transfer of
 * libcurl for it (the first, a redirect, a repetition). */
#ifndef IO_HTTP_PARTS_H
#define IO_HTTP_PARTS_H

#include "base/base.h"
#include "curl.h"
#include "http.h"

#define IO_UNKNOWN UINT64_MAX

/* ---- http_url.c ---- */

typedef struct io_url {
    char *text;            /* without user, password and fragment; malloc's */
    char *user, *password; /* malloc's, or NULL */
    bool secure, loopback;
    char host[256]; /* as in a URL: [::1] has its brackets */
    unsigned port;
} io_url;

/* location relative to base, or absolute; base NULL: it must be absolute. VRAM_ENOMEM, or VRAM_ESETTING with
 * *why: no URL, or not of http or https. */
vram_status io_url_new(io_url *out, const char *base, const char *location, const char **why);
void io_url_free(io_url *u);
bool io_url_same_origin(const io_url *a, const io_url *b);
/* NULL, or why nothing is asked there; from NULL: it is no redirect. */
const char *io_url_refused(const io_url *from, const io_url *to, bool allow_http);
/* Without its query, which may be a signature. */
void io_url_path(char *out, size_t room, const io_url *u);
/* "huggingface.co", "127.0.0.1:8080": the port where it is not the usual one. */
void io_url_host(char *out, size_t room, const io_url *u);

/* ---- http_head.c: one answer's header. Sources: RFC 9110 (14.4, 10.2.3, 8.8.3, 5.6.7), and for X-... the
 * hub's own library huggingface_hub 0.34, constants.py and file_download.py ---- */

typedef struct io_content_range {
    bool unsatisfied;            /* "bytes * / total" */
    uint64_t first, last, total; /* total IO_UNKNOWN: '*' */
} io_content_range;

typedef struct io_head {
    size_t bytes; /* of all its lines */
    bool too_long, encoded, has_range, range_valid, redirected;
    io_content_range range;
    uint64_t length;      /* Content-Length */
    uint64_t retry_after; /* seconds */
    char etag[160], modified[64];
    char linked_etag[160], commit[64], error_code[64], error_text[200];
    uint64_t linked_size;
    char location[8192];
} io_head;

bool io_parse_content_range(vr_str value, io_content_range *out);
/* now: seconds since 1970. */
bool io_parse_retry_after(vr_str value, int64_t now, uint64_t *seconds);
void io_head_reset(io_head *h);
/* One line as it came; h->too_long when there are too many of them. */
void io_head_line(io_head *h, vr_str line, int64_t now);
/* Strong ETag, else Last-Modified, else "". */
const char *io_head_validator(const io_head *h);

/* ---- jobs ---- */

/* Whether it takes several requests at once on one connection: HTTP/2. */
typedef enum io_speech { IO_SPEECH_UNKNOWN, IO_SPEECH_SINGLE, IO_SPEECH_MULTIPLEXED } io_speech;

typedef struct io_origin {
    struct io_origin *next;
    bool secure;
    char host[256];
    unsigned port;
    io_speech speech;
    unsigned active;     /* attempts on their way */
    uint64_t not_before; /* it asked to wait */
} io_origin;

typedef enum io_body {
    IO_BODY_IGNORED, /* of a redirect or an error: read a little, so that the connection can be used again */
    IO_BODY_KEPT
} io_body;

typedef enum io_job_state { IO_JOB_WAITS, IO_JOB_ACTIVE, IO_JOB_DONE } io_job_state;

typedef struct io_job {
    struct io_http *http;
    io_request *r;
    io_job_state state;
    io_url first, now; /* where it began, and where redirects led */
    io_origin *origin;
    unsigned tries, hops;
    uint64_t began, not_before, deadline; /* milliseconds; began 0: not yet */
    /* the attempt */
    CURL *easy;
    struct curl_slist *lines;
    uint64_t last; /* when something happened */
    long port;     /* local port of its connection, 0: not connected */
    bool head_ended, cut, no_memory, settled;
    io_head *head; /* of the attempt */
    io_body body;
    uint64_t skip, ignored;
    char error[CURL_ERROR_SIZE];
    /* the bytes, kept from one attempt to the next when a range broke off */
    char *bytes;
    size_t n, room, want;
    char part_validator[160]; /* of the bytes kept */
} io_job;

struct io_http {
    CURLM *multi;
    vram_io *io;
    io_http_limits limits;
    io_origin *origins;
    io_job *jobs; /* of the running call */
    size_t n_jobs, active;
    const char *ca_file, *ca_dir; /* of the environment, or NULL */
    uint64_t random, deadline;    /* deadline: of the running call */
};

/* http.c */
uint64_t io_http_now(void); /* milliseconds, monotonic, never 0 */

/* ---- http_job.c: VRAM_OK, or VRAM_ENOMEM ---- */

vram_status io_job_begin(io_job *j, struct io_http *h, io_request *r);
void io_job_end(io_job *j);
/* Its attempt ended with that code. */
vram_status io_job_ended(io_job *j, CURLcode code);
/* Looks at the clock; *next is made earlier when that is when to look again. */
vram_status io_job_check_time(io_job *j, uint64_t now, uint64_t *next);

/* ---- http_attempt.c ---- */

/* Makes j->easy and adds it to the multi handle. */
vram_status io_attempt_begin(io_job *j);
/* Takes j->easy away; the bytes stay. */
void io_attempt_end(io_job *j);

/* ---- http_text.c: what went wrong, as a sentence; each sets the result of j->r and settles it ---- */

#define IO_HINT_BETWEEN "is the address right, and no proxy or login page between?"
#define IO_HINT_REACH "is there a network, and is the name right?"
#define IO_HINT_LATER "try again later"
#define IO_HINT_SLOW "VRAM_HTTP_TIMEOUT=SECONDS allows more"
#define IO_HINT_DOWNLOAD "download the file and name it: vram reads it from the disk"
#define IO_HINT_HTTP "--allow-http asks it all the same"

void io_trouble(io_job *j, vram_status code, const char *hint, const char *text, ...)
    __attribute__((format(printf, 4, 5)));
void io_trouble_status(io_job *j, long status);
void io_trouble_stalled(io_job *j, bool answered);
void io_trouble_late(io_job *j);
bool io_trouble_proxy(io_job *j); /* true: it is the proxy's answer that is to blame */
void io_trouble_curl(io_job *j, CURLcode code);
const char *io_status_text(long status); /* "Not Found"; "" when it is not known */

#endif
