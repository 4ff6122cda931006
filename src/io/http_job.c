/* SPDX-License-Identifier: MIT
 * One request on its way: where it is asked, and what becomes of each of its attempts that ended.
 * What is repeated, and how long is waited before: RFC 9110 9.2.2 (GET may be repeated), 10.2.3
 * (Retry-After), 15.6; RFC 6585 4. */
#include "http_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_MS 250u /* before the second try, doubled for each one more */
#define BACKOFF_MOST_MS 8000u

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
    else if (!r->whole && r->most == 0)
        io_trouble(j, VRAM_EINTERNAL, NULL, "is not asked: for no bytes");
    else if (refused != NULL)
        io_trouble(j, VRAM_EIO, IO_HINT_HTTP, "is not asked: %s", refused);
    else if (!is_header_text(r->bearer, 4096))
        io_trouble(j, VRAM_EIO, NULL, "is not asked: the token is none");
    else if (!is_header_text(r->accept, 1024) || !is_header_text(r->validator, 256) ||
             !is_header_text(r->known, 256))
        io_trouble(j, VRAM_EIO, NULL, "is not asked: control characters in the request");
}

vram_status io_job_begin(io_job *j, struct io_http *h, io_request *r)
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

void io_job_end(io_job *j)
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

/* A connection that broke off, and what is needed had come. */
static bool has_enough(const io_job *j)
{
    return !j->r->whole && j->n > 0 && j->n >= j->r->least;
}

static vram_status redirect(io_job *j)
{
    io_url to;
    const char *why = NULL, *location = j->head->location;
    if (*location == '\0' || j->hops >= j->http->limits.hops) {
        io_trouble(j, VRAM_EIO, IO_HINT_BETWEEN,
                   *location == '\0' ? "redirects to nowhere" : "redirects without end");
        finish(j);
        return VRAM_OK;
    }
    vram_status s = io_url_new(&to, j->now.text, location, &why);
    if (s == VRAM_ENOMEM)
        return s;
    if (s == VRAM_OK)
        why = io_url_refused(&j->now, &to, allow_http(j->http));
    if (why != NULL) {
        io_trouble(j, VRAM_EIO, s == VRAM_OK && !to.secure && !to.loopback ? IO_HINT_HTTP : IO_HINT_BETWEEN,
                   "redirects to %s, which is not followed: %s", s == VRAM_OK ? to.host : "an address", why);
        if (s == VRAM_OK)
            io_url_free(&to);
        finish(j);
        return VRAM_OK;
    }
    j->hops++;
    io_url_path(j->r->location, sizeof(j->r->location), &to);
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
    io_trouble(j, VRAM_EIO, IO_HINT_LATER, "sends fewer bytes than were asked for: %zu of %zu", j->n,
               j->want);
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
    if (r->whole || j->n == j->want || has_enough(j))
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
        io_trouble(j, VRAM_EIO, "try again then; VRAM_HTTP_TIMEOUT=SECONDS lets vram wait that long",
                   "asks to wait %llu s (%ld %s)", (unsigned long long)seconds, j->r->status,
                   io_status_text(j->r->status));
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
    bool long_line = code == CURLE_OUT_OF_MEMORY && j->port != 0 && !j->head_ended;
    if (code == CURLE_OUT_OF_MEMORY && !long_line)
        return VRAM_ENOMEM;
    bool again = is_passing_code(code) && !io_trouble_proxy(j);
    if (again && has_enough(j))
        return succeed(j);
    j->tries += again;
    if (again && try_again(j, 0))
        return VRAM_OK;
    if (long_line) /* libcurl 7.88 says so of one that is over 100 KB */
        io_trouble(j, VRAM_EFORMAT, IO_HINT_BETWEEN, "sends a header that does not end");
    else if (!j->settled)
        io_trouble_curl(j, code);
    finish(j);
    return VRAM_OK;
}

vram_status io_job_ended(io_job *j, CURLcode code)
{
    vram_status s = VRAM_OK;
    io_origin *asked = j->origin; /* a redirect sets another */
    if (j->no_memory)
        s = VRAM_ENOMEM;
    else if (j->settled)
        finish(j);
    else if (code == CURLE_OK || j->cut || (j->head_ended && j->r->status >= 300))
        s = answered(j);
    else
        s = failed(j, code);
    asked->active--;
    j->http->active--;
    io_attempt_end(j);
    return s;
}

/* ---- time ---- */

/* Nothing came for too long: tried again like a connection that broke off. */
static vram_status stalled(io_job *j)
{
    bool answered = j->head_ended;
    leave(j);
    if (has_enough(j))
        return succeed(j);
    j->tries++;
    if (try_again(j, 0))
        return VRAM_OK;
    io_trouble_stalled(j, answered);
    finish(j);
    return VRAM_OK;
}

/* There was no time for it, or too little to say anything about the server. */
static void not_in_time(io_job *j)
{
    io_trouble(j, VRAM_EIO, IO_HINT_SLOW, "could not be asked for everything within %u s",
               j->http->limits.total_s);
    finish(j);
}

static vram_status late(io_job *j, uint64_t now)
{
    uint64_t had = j->deadline - j->began;
    if (j->state == IO_JOB_ACTIVE)
        leave(j);
    if (has_enough(j) && now < j->http->deadline)
        return succeed(j);
    if (had < (uint64_t)j->http->limits.request_s * 500) {
        not_in_time(j);
        return VRAM_OK;
    }
    if (j->state == IO_JOB_WAITS && is_passing(j->r->status))
        io_trouble_status(j, j->r->status);
    else
        io_trouble_late(j);
    finish(j);
    return VRAM_OK;
}

vram_status io_job_check_time(io_job *j, uint64_t now, uint64_t *next)
{
    uint64_t stall = j->last + (uint64_t)j->http->limits.stall_s * 1000, when = j->deadline;
    if (j->state == IO_JOB_DONE)
        return VRAM_OK;
    if (j->began != 0 && now >= j->deadline)
        return late(j, now);
    if (now >= j->http->deadline) {
        not_in_time(j);
        return VRAM_OK;
    }
    if (j->state == IO_JOB_ACTIVE && j->port != 0 && now >= stall)
        return stalled(j);
    if (j->state == IO_JOB_WAITS)
        when = j->not_before > j->origin->not_before ? j->not_before : j->origin->not_before;
    else if (j->port != 0 && stall < when)
        when = stall;
    if (when > now && when < *next)
        *next = when;
    return VRAM_OK;
}
