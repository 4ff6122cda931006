/* SPDX-License-Identifier: MIT
 * Many requests at once: which may start, what becomes of each that ended, and when all of it is enough.
 * What is repeated, and how long is waited before: RFC 9110 9.2.2 (GET may be repeated), 10.2.3
 * (Retry-After), 15.6; RFC 6585 4. */
#define _POSIX_C_SOURCE 200809L

#include "http_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ACTIVE_MOST 128u /* streams that servers allow at once on a connection, often 100 or 128 */
#define BACKOFF_MS 250u  /* before the second try, doubled for each one more */
#define BACKOFF_MOST_MS 8000u

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
    h->multi = curl_multi_init();
    io->http = *out = h;
    if (h->multi == NULL ||
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

/* xorshift64*, for jitter only. */
static uint64_t random_below(struct io_http *h, uint64_t n)
{
    h->random ^= h->random >> 12;
    h->random ^= h->random << 25;
    h->random ^= h->random >> 27;
    return (h->random * UINT64_C(0x2545F4914F6CDD1D) >> 33) % n;
}

/* ---- where a job is asked ---- */

static io_origin *origin_of(struct io_http *h, const io_url *u)
{
    for (io_origin *o = h->origins; o != NULL; o = o->next)
        if (o->secure == u->secure && o->port == u->port && strcmp(o->host, u->host) == 0)
            return o;
    io_origin *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return NULL;
    *o = (io_origin){ .next = h->origins, .secure = u->secure, .port = u->port };
    memcpy(o->host, u->host, sizeof(o->host));
    h->origins = o;
    return o;
}

/* Its attempt is over. */
static void leave(io_job *j)
{
    j->origin->active--;
    j->http->active--;
    io_attempt_end(j);
}

static void finish(io_job *j)
{
    j->state = IO_JOB_DONE;
    free(j->bytes);
    j->bytes = NULL;
}

/* A line end in one of them would be another header line. */
static bool is_header_text(const char *s, size_t most)
{
    size_t n = s == NULL ? 0 : strlen(s);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
            return false;
    return n <= most;
}

static bool allow_http(const struct io_http *h)
{
    return h->limits.allow_http || h->io->options.allow_http;
}

static void check_request(io_job *j)
{
    const io_request *r = j->r;
    const char *refused = io_url_refused(NULL, &j->now, allow_http(j->http));
    if (j->http->io->options.offline)
        io_trouble(j, VRAM_EIO, NULL, "is not asked: nothing may be asked over a network");
    else if (refused != NULL)
        io_trouble(j, VRAM_EIO, "--allow-http asks it all the same", "is not asked: %s", refused);
    else if (!is_header_text(r->bearer, 4096))
        io_trouble(j, VRAM_EIO, NULL, "is not asked: the token is none");
    else if (!is_header_text(r->accept, 1024) || !is_header_text(r->validator, 256) ||
             !is_header_text(r->known, 256))
        io_trouble(j, VRAM_EIO, NULL, "is not asked: control characters in the request");
}

static vram_status job_begin(io_job *j, struct io_http *h, io_request *r)
{
    const char *why = NULL;
    *j = (io_job){ .http = h, .r = r, .state = IO_JOB_WAITS };
    r->result = IO_HTTP_FAILED;
    r->code = VRAM_EIO;
    r->status = 0;
    r->bytes = NULL;
    r->hint = NULL;
    r->n = 0;
    r->total = r->linked_size = IO_UNKNOWN;
    r->validator_now[0] = r->linked_etag[0] = r->commit[0] = r->error_code[0] = r->error_text[0] = '\0';
    r->location[0] = r->trouble[0] = '\0';
    vram_status s = io_url_new(&j->first, NULL, r->url, &why);
    if (s == VRAM_OK)
        s = io_url_new(&j->now, NULL, r->url, &why);
    if (s == VRAM_ESETTING) {
        snprintf(r->trouble, sizeof(r->trouble), "%s", why);
        r->code = VRAM_ESETTING;
        finish(j);
        return VRAM_OK;
    }
    j->origin = s == VRAM_OK ? origin_of(h, &j->now) : NULL;
    if (j->origin == NULL)
        return VRAM_ENOMEM;
    check_request(j);
    if (j->settled)
        finish(j);
    return VRAM_OK;
}

static void job_end(io_job *j)
{
    if (j->easy != NULL)
        io_attempt_end(j);
    io_url_free(&j->first);
    io_url_free(&j->now);
    free(j->bytes);
}

/* ---- what becomes of an attempt that ended ---- */

/* Waits and tries again, or says false when it was tried often enough or there is no time. at_least: the
 * server's own wish in milliseconds. */
static bool try_again(io_job *j, uint64_t at_least)
{
    uint64_t backoff = BACKOFF_MOST_MS;
    if (j->tries <= 5)
        backoff = (uint64_t)BACKOFF_MS << (j->tries - 1);
    backoff = backoff / 2 + random_below(j->http, backoff);
    uint64_t wait = at_least > backoff ? vr_add_sat(at_least, backoff / 8) : backoff;
    uint64_t when = vr_add_sat(io_http_now(), wait);
    if (j->tries >= j->http->limits.tries || when >= j->deadline)
        return false;
    j->not_before = when;
    if (at_least > 0 && when > j->origin->not_before)
        j->origin->not_before = when; /* its other requests would get the same answer */
    j->state = IO_JOB_WAITS;
    return true;
}

static vram_status succeed(io_job *j)
{
    char *bytes = realloc(j->bytes, j->n > 0 ? j->n : 1);
    if (bytes == NULL)
        return VRAM_ENOMEM;
    j->bytes = bytes;
    if (!io_adopt(j->http->io, bytes, j->n))
        return VRAM_ENOMEM;
    j->bytes = NULL;
    j->r->bytes = bytes;
    j->r->n = j->n;
    j->r->result = IO_HTTP_OK;
    j->r->code = VRAM_OK;
    finish(j);
    return VRAM_OK;
}

static vram_status redirect(io_job *j)
{
    io_url to;
    const char *why = NULL, *location = j->head->location;
    if (*location == '\0' || j->hops >= j->http->limits.hops) {
        io_trouble(j, VRAM_EIO, NULL, *location == '\0' ? "redirects to nowhere" : "redirects without end");
        finish(j);
        return VRAM_OK;
    }
    vram_status s = io_url_new(&to, j->now.text, location, &why);
    if (s == VRAM_ENOMEM)
        return s;
    if (s == VRAM_OK)
        why = io_url_refused(&j->now, &to, allow_http(j->http));
    if (why != NULL) {
        io_trouble(j, VRAM_EIO, NULL, "redirects to %s, which is not followed: %s",
                   s == VRAM_OK ? to.host : "what is no address", why);
        if (s == VRAM_OK)
            io_url_free(&to);
        finish(j);
        return VRAM_OK;
    }
    j->hops++;
    io_url_shown(j->r->location, sizeof(j->r->location), to.text);
    io_url_free(&j->now);
    j->now = to;
    j->origin = origin_of(j->http, &to);
    j->state = IO_JOB_WAITS;
    return j->origin == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static void short_answer(io_job *j)
{
    j->tries++;
    if (try_again(j, 0))
        return;
    io_trouble(j, VRAM_EIO, NULL, "sends fewer bytes than it announces: %zu of %zu", j->n, j->want);
    finish(j);
}

static vram_status answered_with_bytes(io_job *j)
{
    io_request *r = j->r;
    bool ended = r->status == 200 && r->total == IO_UNKNOWN && !j->cut; /* its end is the file's */
    if (ended) {
        r->total = r->whole ? j->n : r->offset - j->skip + j->n;
        j->want = j->n;
    }
    if (r->total == IO_UNKNOWN)
        r->total = r->linked_size;
    if (r->whole || j->n == j->want || j->n >= r->least)
        return succeed(j);
    short_answer(j);
    return VRAM_OK;
}

static bool is_passing(long status)
{
    return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

static void answered_to_wait(io_job *j)
{
    uint64_t seconds = j->head->retry_after;
    uint64_t ms = seconds == IO_UNKNOWN ? 0 : vr_mul_sat(seconds, 1000);
    j->tries++;
    if (try_again(j, ms))
        return;
    io_trouble_status(j, j->r->status);
    if (ms > 0 && j->tries < j->http->limits.tries) {
        io_trouble(j, VRAM_EIO, NULL, "asks to wait %llu s (%ld %s)", (unsigned long long)seconds,
                   j->r->status, io_status_text(j->r->status));
        j->r->result = IO_HTTP_STATUS;
    }
    finish(j);
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static vram_status answered(io_job *j)
{
    io_request *r = j->r;
    const io_head *h = j->head;
    if (r->status == 200 || r->status == 206)
        return answered_with_bytes(j);
    if (is_redirect(r->status))
        return redirect(j);
    if (r->status == 416 && h->range_valid && h->range.unsatisfied && h->range.total <= r->offset &&
        j->n == 0) {
        r->total = h->range.total; /* the file ends before */
        return succeed(j);
    }
    if (is_passing(r->status)) {
        answered_to_wait(j);
        return VRAM_OK;
    }
    if (r->status == 304 && r->known != NULL)
        r->result = IO_HTTP_NOT_MODIFIED;
    else
        io_trouble_status(j, r->status);
    finish(j);
    return VRAM_OK;
}

static bool is_passing_code(CURLcode code)
{
    return code == CURLE_COULDNT_CONNECT || code == CURLE_OPERATION_TIMEDOUT || code == CURLE_GOT_NOTHING ||
           code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR || code == CURLE_PARTIAL_FILE ||
           code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM || code == CURLE_SSL_CONNECT_ERROR;
}

static vram_status failed(io_job *j, CURLcode code)
{
    if (code == CURLE_OUT_OF_MEMORY && j->port != 0 && !j->head_ended) {
        /* libcurl 7.88 says so when one line is over 100 KB. */
        io_trouble(j, VRAM_EFORMAT, NULL, "sends a header that does not end");
    } else if (code == CURLE_OUT_OF_MEMORY) {
        return VRAM_ENOMEM;
    } else if (is_passing_code(code)) {
        j->tries++;
        if (try_again(j, 0))
            return VRAM_OK;
        io_trouble_curl(j, code);
    } else {
        io_trouble_curl(j, code);
    }
    finish(j);
    return VRAM_OK;
}

static vram_status ended(io_job *j, CURLcode code)
{
    vram_status s = VRAM_OK;
    io_origin *asked = j->origin; /* a redirect sets another */
    if (j->no_memory)
        s = VRAM_ENOMEM;
    else if (j->settled)
        finish(j);
    else if (code == CURLE_OK || j->cut)
        s = answered(j);
    else
        s = failed(j, code);
    asked->active--;
    j->http->active--;
    io_attempt_end(j);
    return s;
}

/* ---- time ---- */

static void give_up(io_job *j)
{
    if (j->state == IO_JOB_ACTIVE)
        leave(j);
    finish(j);
}

/* Nothing came for too long: tried again like a connection that broke off. */
static void stalled(io_job *j)
{
    bool answered = j->head_ended;
    leave(j);
    j->tries++;
    if (try_again(j, 0))
        return;
    if (answered)
        io_trouble(j, VRAM_EIO, NULL, "stopped sending after %zu of %zu bytes (nothing came for %u s)", j->n,
                   j->want, j->http->limits.stall_s);
    else
        io_trouble(j, VRAM_EIO, NULL, "does not answer (timed out after %u s)", j->http->limits.stall_s);
    finish(j);
}

static void late(io_job *j)
{
    unsigned s = j->http->limits.request_s;
    if (j->n > 0)
        io_trouble(j, VRAM_EIO, NULL, "is too slow: %zu of %zu bytes came in %u s", j->n, j->want, s);
    else
        io_trouble(j, VRAM_EIO, NULL, "does not answer (timed out after %u s)", s);
    give_up(j);
}

/* Looks at the clock for one job; returns when to look again. */
static uint64_t check_time(io_job *j, uint64_t now, uint64_t total_deadline)
{
    uint64_t stall = j->last + (uint64_t)j->http->limits.stall_s * 1000;
    if (j->state == IO_JOB_DONE)
        return UINT64_MAX;
    if (now >= total_deadline) {
        io_trouble(j, VRAM_EIO, "VRAM_HTTP_TIMEOUT=SECONDS allows more",
                   "could not be asked for everything within %u s", j->http->limits.total_s);
        give_up(j);
        return UINT64_MAX;
    }
    if (j->began != 0 && now >= j->deadline) {
        late(j);
        return UINT64_MAX;
    }
    if (j->state == IO_JOB_ACTIVE && j->port != 0 && now >= stall) {
        stalled(j);
        return now;
    }
    if (j->state == IO_JOB_WAITS)
        return j->not_before > j->origin->not_before ? j->not_before : j->origin->not_before;
    return j->port != 0 && stall < j->deadline ? stall : j->deadline;
}

/* ---- the loop ---- */

static bool may_start(const io_job *j, uint64_t now)
{
    unsigned most = j->origin->speech == IO_SPEECH_MULTIPLEXED ? ACTIVE_MOST : j->http->limits.connections;
    return j->state == IO_JOB_WAITS && now >= j->not_before && now >= j->origin->not_before &&
           j->origin->active < most && j->http->active < ACTIVE_MOST;
}

static vram_status start_some(struct io_http *h, uint64_t now)
{
    for (size_t i = 0; i < h->n_jobs; i++) {
        io_job *j = &h->jobs[i];
        if (!may_start(j, now))
            continue;
        if (j->began == 0) {
            j->began = now;
            j->deadline = now + (uint64_t)h->limits.request_s * 1000;
        }
        VR_TRY(io_attempt_begin(j));
        j->state = IO_JOB_ACTIVE;
        j->origin->active++;
        h->active++;
    }
    return VRAM_OK;
}

static vram_status take_ended(struct io_http *h)
{
    int left;
    const CURLMsg *m;
    while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
        char *job = NULL;
        if (m->msg == CURLMSG_DONE && curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &job) == CURLE_OK)
            VR_TRY(ended((io_job *)(void *)job, m->data.result));
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

static vram_status run(struct io_http *h)
{
    uint64_t total_deadline = io_http_now() + (uint64_t)h->limits.total_s * 1000;
    while (!all_done(h)) {
        int running;
        VR_TRY(start_some(h, io_http_now()));
        if (curl_multi_perform(h->multi, &running) != CURLM_OK)
            return VRAM_ENOMEM;
        VR_TRY(take_ended(h));
        uint64_t now = io_http_now(), next = now + 1000;
        bool startable = false;
        for (size_t i = 0; i < h->n_jobs; i++) {
            uint64_t when = check_time(&h->jobs[i], now, total_deadline);
            next = when > now && when < next ? when : next;
            startable = startable || may_start(&h->jobs[i], now);
        }
        if (!startable && !all_done(h) &&
            curl_multi_poll(h->multi, NULL, 0, (int)(next - now), NULL) != CURLM_OK)
            return VRAM_ENOMEM;
    }
    return VRAM_OK;
}

vram_status io_http_perform(vram_io *io, vram_ctx *ctx, io_request *r, size_t n)
{
    struct io_http *h;
    vram_status s = http_get(io, &h);
    io_job *jobs = s == VRAM_OK ? calloc(n > 0 ? n : 1, sizeof(*jobs)) : NULL;
    if (jobs == NULL)
        return io_fail(ctx, VRAM_ENOMEM, NULL, NULL, "out of host memory");
    h->jobs = jobs;
    for (size_t i = 0; i < n && s == VRAM_OK; i++, h->n_jobs++)
        s = job_begin(&jobs[i], h, &r[i]);
    if (s == VRAM_OK)
        s = run(h);
    for (size_t i = 0; i < h->n_jobs; i++)
        job_end(&jobs[i]);
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
