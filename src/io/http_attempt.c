/* SPDX-License-Identifier: MIT
 * One transfer of libcurl for a job: what is asked, and what is done with the header and the bytes that come.
 * Written for libcurl 7.88 (Debian 12); options by its man pages. */
#include "http_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SKIP_MOST (UINT64_C(1) << 20) /* bytes read in vain when a server knows no ranges */
#define IGNORED_MOST                                                                                         \
    (UINT64_C(64) << 10) /* bytes of a redirect's or error's page, to keep the connection                    \
                          */
#define FIRST_ROOM ((size_t)64 << 10)

/* ---- what comes ---- */

/* Two requests that are on their way at once from the same local port share a connection. This is known
 * before any of them is answered, so that no time is lost until all others are sent as well. */
static int connected(void *ud, char *ip, char *local_ip, int port, int local_port)
{
    io_job *j = ud;
    (void)ip, (void)local_ip, (void)port;
    j->last = io_http_now();
    j->port = local_port;
    for (size_t i = 0; i < j->http->n_jobs && j->origin->speech == IO_SPEECH_UNKNOWN; i++) {
        const io_job *other = &j->http->jobs[i];
        if (other != j && other->state == IO_JOB_ACTIVE && other->origin == j->origin &&
            other->port == local_port)
            j->origin->speech = IO_SPEECH_MULTIPLEXED;
    }
    return CURL_PREREQFUNC_OK;
}

/* The whole file has so many bytes; *end is where what was asked for ends. */
static void set_want(io_job *j, uint64_t total)
{
    const io_request *r = j->r;
    uint64_t offset = r->whole ? 0 : r->offset;
    uint64_t most = r->most < PTRDIFF_MAX ? r->most : PTRDIFF_MAX;
    j->r->total = total;
    if (total != IO_UNKNOWN && total - (total < offset ? total : offset) < most)
        most = total - (total < offset ? total : offset);
    j->want = (size_t)most;
}

static void drop_bytes(io_job *j)
{
    free(j->bytes);
    j->bytes = NULL;
    j->n = j->room = 0;
}

/* False: the file is another than the one the caller, or the bytes kept so far, are of. */
static bool same_file(io_job *j, bool must_say)
{
    const char *now = j->r->validator_now, *before = j->r->validator;
    if (before != NULL && (*now == '\0' ? must_say : strcmp(before, now) != 0)) {
        io_trouble(j, VRAM_EIO, "try again", "has another version of the file than before");
        j->r->result = IO_HTTP_CHANGED;
        return false;
    }
    return true;
}

static void begin_200(io_job *j)
{
    const io_request *r = j->r;
    drop_bytes(j);
    if (!same_file(j, !r->whole))
        return;
    set_want(j, j->head->length);
    j->body = IO_BODY_KEPT;
    j->skip = r->whole ? 0 : r->offset;
    if (r->whole && j->head->length != IO_UNKNOWN && j->head->length > r->most)
        io_trouble(j, VRAM_ELIMIT, IO_HINT_BETWEEN, "would send %llu bytes, over the limit of %llu",
                   (unsigned long long)j->head->length, (unsigned long long)r->most);
    else if (j->skip > SKIP_MOST && j->want > 0)
        io_trouble(j, VRAM_EUNSUPPORTED, IO_HINT_DOWNLOAD,
                   "sends only whole files, no parts of them (200 to a request for a range)");
}

/* A range that is not the one that was asked for would put wrong bytes in its place: what is wrong, or NULL.
 */
static const char *wrong_206(const io_job *j, uint64_t to)
{
    const io_head *h = j->head;
    const io_content_range *c = &h->range;
    if (j->r->whole)
        return "206, and the whole was";
    if (!h->has_range)
        return "206 without Content-Range";
    if (!h->range_valid)
        return "206 with a malformed Content-Range";
    if (c->unsatisfied || c->first != vr_add_sat(j->r->offset, j->n) || c->last >= to)
        return "its Content-Range is not that of the request";
    return h->length != IO_UNKNOWN && h->length != c->last - c->first + 1
               ? "its Content-Range and Content-Length contradict each other"
               : NULL;
}

static void begin_206(io_job *j)
{
    const io_content_range *c = &j->head->range;
    const io_request *r = j->r;
    uint64_t to = vr_add_sat(r->offset, r->most);
    const char *wrong = wrong_206(j, to);
    if (wrong != NULL) {
        io_trouble(j, VRAM_EFORMAT, IO_HINT_DOWNLOAD,
                   "sends another part of the file than was asked for (%s)", wrong);
        return;
    }
    if (!same_file(j, false))
        return;
    if (j->n > 0 && strcmp(j->part_validator, j->r->validator_now) != 0) {
        drop_bytes(j); /* changed meanwhile: the job begins again */
        j->cut = true;
        return;
    }
    memcpy(j->part_validator, j->r->validator_now, sizeof(j->part_validator));
    set_want(j, c->total);
    if (c->total == IO_UNKNOWN && c->last + 1 < to)
        j->want = (size_t)(c->last + 1 - r->offset); /* its end, as far as can be told */
    j->body = IO_BODY_KEPT;
}

static void copy_head(io_job *j)
{
    const io_head *h = j->head;
    io_request *r = j->r;
    if (h->linked_etag[0] != '\0')
        memcpy(r->linked_etag, h->linked_etag, sizeof(r->linked_etag));
    if (h->commit[0] != '\0')
        memcpy(r->commit, h->commit, sizeof(r->commit));
    if (h->linked_size != IO_UNKNOWN)
        r->linked_size = h->linked_size;
    memcpy(r->error_code, h->error_code, sizeof(r->error_code));
    memcpy(r->error_text, h->error_text, sizeof(r->error_text));
}

/* All lines of a final answer are there. */
static void begin_body(io_job *j)
{
    j->head_ended = true;
    copy_head(j);
    if (j->r->status != 200 && j->r->status != 206 && j->r->status != 304)
        return;
    const char *validator = io_head_validator(j->head);
    memcpy(j->r->validator_now, validator, strlen(validator) + 1);
    if (j->r->status == 304)
        return;
    if (j->head->encoded)
        io_trouble(j, VRAM_EUNSUPPORTED, IO_HINT_DOWNLOAD,
                   "sends the file compressed, although it was asked not to");
    else if (j->r->status == 200)
        begin_200(j);
    else
        begin_206(j);
}

static size_t on_header(char *bytes, size_t size, size_t n, void *ud)
{
    io_job *j = ud;
    long version = 0;
    j->last = io_http_now();
    if (j->head_ended) /* trailers say nothing that is used */
        return n * size;
    if (n >= 5 && memcmp(bytes, "HTTP/", 5) == 0)
        io_head_reset(j->head);
    io_head_line(j->head, (vr_str){ bytes, n }, (int64_t)time(NULL));
    if (j->head->too_long) {
        io_trouble(j, VRAM_EFORMAT, IO_HINT_BETWEEN, "sends a header that does not end");
        return 0;
    }
    if (n > 2 || bytes[0] == ' ' ||
        curl_easy_getinfo(j->easy, CURLINFO_RESPONSE_CODE, &j->r->status) != CURLE_OK || j->r->status < 200)
        return n * size;
    if (curl_easy_getinfo(j->easy, CURLINFO_HTTP_VERSION, &version) == CURLE_OK)
        j->origin->speech = version >= CURL_HTTP_VERSION_2_0 ? IO_SPEECH_MULTIPLEXED : IO_SPEECH_SINGLE;
    begin_body(j);
    return j->settled || j->cut ? 0 : n * size;
}

static bool grow(io_job *j, size_t need)
{
    size_t room = j->room == 0 ? FIRST_ROOM : 2 * j->room;
    if (need <= j->room)
        return true;
    room = room < need ? need : room > j->want ? j->want : room;
    char *p = realloc(j->bytes, room);
    if (p == NULL)
        return false;
    j->bytes = p;
    j->room = room;
    return true;
}

static size_t keep(io_job *j, const char *bytes, size_t n)
{
    size_t skipped = j->skip < n ? (size_t)j->skip : n, all = n;
    j->skip -= skipped;
    bytes += skipped;
    n -= skipped;
    bool over = n > j->want - j->n;
    if (over)
        n = j->want - j->n;
    if (n > 0 && !grow(j, j->n + n)) {
        j->no_memory = true;
        return 0;
    }
    if (n > 0)
        memcpy(j->bytes + j->n, bytes, n);
    j->n += n;
    if (over && j->r->whole) {
        io_trouble(j, VRAM_ELIMIT, IO_HINT_BETWEEN, "sends more than the limit of %llu bytes",
                   (unsigned long long)j->r->most);
        return 0;
    }
    /* A 200 goes on after the range: nothing of that is waited for. */
    j->cut = over || (j->r->status == 200 && !j->r->whole && j->n == j->want && j->skip == 0);
    return j->cut ? 0 : all;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ud)
{
    io_job *j = ud;
    j->last = io_http_now();
    io_came(j->http->io, n * size);
    if (j->body == IO_BODY_KEPT)
        return keep(j, bytes, n * size);
    j->ignored += n * size;
    j->cut = j->ignored > IGNORED_MOST;
    return j->cut ? 0 : n * size;
}

/* ---- what is asked ---- */

static bool add_line(io_job *j, const char *name, const char *value)
{
    size_t room = strlen(name) + strlen(value) + 3;
    char *line = malloc(room);
    if (line == NULL)
        return false;
    snprintf(line, room, "%s: %s", name, value);
    struct curl_slist *all = curl_slist_append(j->lines, line);
    free(line);
    if (all != NULL)
        j->lines = all;
    return all != NULL;
}

static bool add_lines(io_job *j)
{
    const io_request *r = j->r;
    const char *unchanged = j->n > 0 ? j->part_validator : r->validator;
    bool ok = add_line(j, "Accept-Encoding", "identity");
    if (r->accept != NULL)
        ok = ok && add_line(j, "Accept", r->accept);
    if (r->bearer != NULL && io_url_same_origin(&j->first, &j->now)) {
        char value[4096 + 8];
        snprintf(value, sizeof(value), "Bearer %s", r->bearer);
        ok = ok && add_line(j, "Authorization", value);
    }
    if (r->known != NULL)
        ok = ok && add_line(j, "If-None-Match", r->known);
    if (!r->whole && unchanged != NULL && *unchanged != '\0')
        ok = ok && add_line(j, "If-Range", unchanged);
    return ok;
}

#define SET(option, value) ok = ok && curl_easy_setopt(e, option, value) == CURLE_OK

static bool set_range(const io_job *j, CURL *e)
{
    char range[64];
    bool ok = true;
    uint64_t from = vr_add_sat(j->r->offset, j->n), to = vr_add_sat(j->r->offset, j->r->most - 1);
    snprintf(range, sizeof(range), "%llu-%llu", (unsigned long long)from, (unsigned long long)to);
    SET(CURLOPT_RANGE, range);
    return ok;
}

static bool set_trust(const io_job *j, CURL *e)
{
    bool ok = true;
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    if (j->http->ca_file != NULL || j->http->ca_dir != NULL) {
        SET(CURLOPT_CAINFO, j->http->ca_file);
        SET(CURLOPT_CAPATH, j->http->ca_dir);
    }
    if (j->now.loopback) /* no proxy leads to this computer */
        SET(CURLOPT_NOPROXY, "*");
    if (j->first.user != NULL && j->r->bearer == NULL && io_url_same_origin(&j->first, &j->now)) {
        SET(CURLOPT_USERNAME, j->first.user);
        SET(CURLOPT_PASSWORD, j->first.password != NULL ? j->first.password : "");
    }
    return ok;
}

static bool set_callbacks(io_job *j, CURL *e)
{
    bool ok = true;
    SET(CURLOPT_PRIVATE, (void *)j);
    SET(CURLOPT_ERRORBUFFER, j->error);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, (void *)j);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, (void *)j);
    SET(CURLOPT_PREREQFUNCTION, connected);
    SET(CURLOPT_PREREQDATA, (void *)j);
    return ok;
}

static bool set_all(io_job *j, CURL *e)
{
    bool ok = true;
    SET(CURLOPT_URL, j->now.text);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_USERAGENT, "vram/" VRAM_VERSION);
    SET(CURLOPT_HTTPHEADER, j->lines);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)j->http->limits.connect_s * 1000);
    SET(CURLOPT_HTTP_VERSION, (long)(j->now.secure ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    SET(CURLOPT_PIPEWAIT, j->now.secure ? 1L : 0L);
#if LIBCURL_VERSION_NUM >= 0x075700
    SET(CURLOPT_QUICK_EXIT, 1L); /* giving up does not wait for a name that is being looked up */
#endif
    ok = ok && set_callbacks(j, e) && set_trust(j, e);
    return ok && (j->r->whole || set_range(j, e));
}

vram_status io_attempt_begin(io_job *j)
{
    j->easy = curl_easy_init();
    j->head = calloc(1, sizeof(*j->head));
    j->head_ended = j->cut = j->no_memory = false;
    j->body = IO_BODY_IGNORED;
    j->skip = j->ignored = 0;
    j->port = 0;
    j->error[0] = '\0';
    j->r->status = 0;
    j->last = io_http_now();
    if (j->head != NULL)
        io_head_reset(j->head);
    if (j->r->whole || j->part_validator[0] == '\0') /* nobody can say whether the rest would belong to it */
        drop_bytes(j);
    if (j->easy == NULL || j->head == NULL || !add_lines(j) || !set_all(j, j->easy) ||
        curl_multi_add_handle(j->http->multi, j->easy) != CURLM_OK) {
        io_attempt_end(j);
        return VRAM_ENOMEM;
    }
    return VRAM_OK;
}

void io_attempt_end(io_job *j)
{
    if (j->easy != NULL) {
        (void)curl_multi_remove_handle(j->http->multi, j->easy);
        curl_easy_cleanup(j->easy);
    }
    curl_slist_free_all(j->lines);
    free(j->head);
    j->easy = NULL;
    j->lines = NULL;
    j->head = NULL;
}
