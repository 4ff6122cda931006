/* SPDX-License-Identifier: MIT
 * Many requests at once: which may start, what becomes of each that ended, and when all of it is enough.
 * What is repeated, and how long is waited before: RFC 9110 9.2.2 (GET may be repeated), 10.2.3
 * (Retry-After), 15.6; RFC 6585 4. */
#define _POSIX_C_SOURCE 200809L

#include "http_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* What libcurl takes a connection to allow until the server has said so, which with TLS 1.3 comes after the
 * first requests were sent: one more would open further connections. */
#define ACTIVE_MOST 100u
#define KEPT_MOST 64L /* connections that are kept for the next call */

static const io_http_limits defaults = { 10, 20, 60, 300, 4, 5, 24, false };

uint64_t io_http_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000 + 1;
}

/* ---- struct io_http ---- */

io_http_limits io_http_limits_of(const vram_io *io)
{
    io_http_limits limits = io->http != NULL ? io->http->limits : defaults;
    const char *text = io->http != NULL ? NULL : io_env(io, "VRAM_HTTP_TIMEOUT");
    uint64_t seconds;
    if (text != NULL && vr_parse_u64(vr_str_of(text), &seconds) && seconds > 0 && seconds <= 86400)
        limits.request_s = limits.total_s = (unsigned)seconds;
    return limits;
}

static bool lies_in(const char *file, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(file, dir, n) == 0 && file[n] == '/' && strchr(file + n + 1, '/') == NULL;
}

/* libcurl reads and keeps a file of certificates once for all connections, but reads it for each of them when
 * there is a folder as well: 24 connections then take 4 s instead of 0.3. On Debian and its like the file has
 * what its folder has. Names that are in no variable are libcurl's own. */
static void sort_out_trust(struct io_http *h)
{
    struct stat st;
    CURL *easy = h->ca_file == NULL && h->ca_dir == NULL ? curl_easy_init() : NULL;
    if (easy != NULL) {
        char *file = NULL, *dir = NULL; /* constants of libcurl */
        if (curl_easy_getinfo(easy, CURLINFO_CAINFO, &file) == CURLE_OK &&
            curl_easy_getinfo(easy, CURLINFO_CAPATH, &dir) == CURLE_OK) {
            h->ca_file = file;
            h->ca_dir = dir;
        }
        curl_easy_cleanup(easy);
    }
    bool there = h->ca_file != NULL && stat(h->ca_file, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) { /* as Python's requests takes it */
        h->ca_dir = h->ca_file;
        h->ca_file = NULL;
    } else if (there && h->ca_dir != NULL && lies_in(h->ca_file, h->ca_dir)) {
        h->ca_dir = NULL;
    }
}

static const char *first_env(const vram_io *io, const char *const *names)
{
    const char *value = NULL;
    for (; *names != NULL && value == NULL; names++)
        value = io_env(io, *names);
    return value;
}

/* curl_global_init counts its calls and is safe in threads since 7.84. */
static vram_status http_get(vram_io *io, struct io_http **out)
{
    static const char *const files[] = { "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", NULL };
    static const char *const dirs[] = { "SSL_CERT_DIR", NULL };
    *out = io->http;
    if (io->http != NULL)
        return VRAM_OK;
    struct io_http *h = calloc(1, sizeof(*h));
    if (h == NULL)
        return VRAM_ENOMEM;
    *h = (struct io_http){ .io = io,
                           .limits = io_http_limits_of(io),
                           .ca_file = first_env(io, files),
                           .ca_dir = first_env(io, dirs),
                           .random = io_http_now() ^ (uint64_t)(uintptr_t)h };
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(h);
        return VRAM_ENOMEM;
    }
    sort_out_trust(h);
    h->multi = curl_multi_init();
    io->http = *out = h;
    if (h->multi == NULL || curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, KEPT_MOST) != CURLM_OK ||
        curl_multi_setopt(h->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX) != CURLM_OK ||
        curl_multi_setopt(h->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)ACTIVE_MOST) != CURLM_OK) {
        io_http_free(h);
        io->http = NULL;
        return VRAM_ENOMEM;
    }
    return VRAM_OK;
}

void io_http_free(struct io_http *h)
{
    if (h == NULL)
        return;
    while (h->origins != NULL) {
        io_origin *o = h->origins;
        h->origins = o->next;
        free(o);
    }
    if (h->multi != NULL)
        (void)curl_multi_cleanup(h->multi);
    free(h);
    curl_global_cleanup();
}

vram_status io_http_set_limits(vram_io *io, const io_http_limits *limits)
{
    struct io_http *h;
    vram_status s = http_get(io, &h);
    if (s == VRAM_OK)
        h->limits = *limits;
    return s;
}

/* ---- the loop ---- */

static bool may_start(const io_job *j, uint64_t now)
{
    unsigned most = j->origin->speech == IO_SPEECH_MULTIPLEXED ? ACTIVE_MOST : j->http->limits.connections;
    return j->state == IO_JOB_WAITS && now >= j->not_before && now >= j->origin->not_before &&
           j->origin->active < most && j->http->active < ACTIVE_MOST;
}

static vram_status start(io_job *j, uint64_t now)
{
    struct io_http *h = j->http;
    if (j->began == 0) {
        j->began = now;
        j->deadline = now + (uint64_t)h->limits.request_s * 1000;
        if (j->deadline > h->deadline)
            j->deadline = h->deadline;
    }
    VR_TRY(io_attempt_begin(j));
    j->state = IO_JOB_ACTIVE;
    j->origin->active++;
    h->active++;
    return VRAM_OK;
}

/* Those that were not asked yet come first, as each may still be redirected: that spares one delay. Of many
 * the first are ended first, so that none waits in the middle for long. */
static vram_status start_some(struct io_http *h, uint64_t now)
{
    for (int fresh = h->n_jobs <= 2 * ACTIVE_MOST; fresh >= 0; fresh--)
        for (size_t i = 0; i < h->n_jobs; i++)
            if (may_start(&h->jobs[i], now) && (!fresh || h->jobs[i].began == 0))
                VR_TRY(start(&h->jobs[i], now));
    return VRAM_OK;
}

static vram_status take_ended(struct io_http *h)
{
    int left;
    const CURLMsg *m;
    while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
        char *job = NULL;
        if (m->msg == CURLMSG_DONE && curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &job) == CURLE_OK)
            VR_TRY(io_job_ended((io_job *)(void *)job, m->data.result));
    }
    return VRAM_OK;
}

static bool all_done(const struct io_http *h)
{
    for (size_t i = 0; i < h->n_jobs; i++)
        if (h->jobs[i].state != IO_JOB_DONE)
            return false;
    return true;
}

static bool any_may_start(const struct io_http *h, uint64_t now)
{
    for (size_t i = 0; i < h->n_jobs; i++)
        if (may_start(&h->jobs[i], now))
            return true;
    return false;
}

static vram_status run(struct io_http *h)
{
    while (!all_done(h)) {
        int running;
        VR_TRY(start_some(h, io_http_now()));
        if (curl_multi_perform(h->multi, &running) != CURLM_OK)
            return VRAM_ENOMEM;
        VR_TRY(take_ended(h));
        uint64_t now = io_http_now(), next = now + 1000;
        for (size_t i = 0; i < h->n_jobs; i++)
            VR_TRY(io_job_check_time(&h->jobs[i], now, &next));
        if (any_may_start(h, now) || all_done(h))
            continue;
        next = h->deadline < next ? h->deadline : next;
        if (curl_multi_poll(h->multi, NULL, 0, (int)(next - now), NULL) != CURLM_OK)
            return VRAM_ENOMEM;
        io_came(h->io, 0);
    }
    return VRAM_OK;
}

vram_status io_http_perform(vram_io *io, vram_ctx *ctx, io_request *r, size_t n)
{
    struct io_http *h;
    if (!io_curl()->there)
        return io_fail(ctx, VRAM_EIO, NULL, "install it; in Debian the package is libcurl4",
                       "no server can be asked: the library libcurl is not on this computer");
    vram_status s = http_get(io, &h);
    io_job *jobs = s == VRAM_OK ? calloc(n > 0 ? n : 1, sizeof(*jobs)) : NULL;
    if (jobs == NULL)
        return io_fail(ctx, VRAM_ENOMEM, NULL, NULL, "out of host memory");
    h->jobs = jobs;
    (void)curl_multi_setopt(h->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)h->limits.connections);
    for (size_t i = 0; i < n && s == VRAM_OK; i++, h->n_jobs++)
        s = io_job_begin(&jobs[i], h, &r[i]);
    uint64_t began = io_http_now(), most = (uint64_t)h->limits.total_s * 1000;
    h->deadline = began + (most > io->asked_ms ? most - io->asked_ms : 0);
    if (s == VRAM_OK)
        s = run(h);
    io->asked_ms += io_http_now() - began;
    for (size_t i = 0; i < h->n_jobs; i++)
        io_job_end(&jobs[i]);
    for (io_origin *o = h->origins; o != NULL; o = o->next)
        o->active = 0;
    h->jobs = NULL;
    h->n_jobs = h->active = 0;
    free(jobs);
    return s == VRAM_OK ? s : io_fail(ctx, s, NULL, NULL, "out of host memory");
}

vram_status io_http_fail(vram_ctx *ctx, const io_request *r)
{
    return io_fail(ctx, r->code, r->file, r->hint, "%s", r->trouble);
}
