/* SPDX-License-Identifier: MIT
 * Asks io_http_perform what its standard input says, and prints one line of JSON for each answer. Run by
 * test_http.py and by hand:
 *   http_client [name=value ...]     limits: connect stall request total tries hops connections allow_http
 * Input: a line a request, an empty line performs those before it (connections are kept for the next ones):
 *   URL whole MOST [word=text ...]
 *   URL OFFSET LEAST MOST [word=text ...]     words: bearer validator known accept file */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/http.h"

#define LINE 16384
#define MOST 6000

static const char *const results[] = { "ok", "status", "not_modified", "changed", "failed" };

typedef struct line {
    io_request r;
    char *text;
} line;

static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \n");
    *rest = word + strcspn(word, " \n");
    if (**rest != '\0')
        *(*rest)++ = '\0';
    return word;
}

static void take_option(io_request *r, char *word)
{
    char *value = strchr(word, '=');
    if (value == NULL)
        return;
    *value++ = '\0';
    for (char *c = value; *c != '\0'; c++)
        *c = *c == '+' ? ' ' : *c; /* "Mon,+01+Jan" */
    if (strcmp(word, "bearer") == 0)
        r->bearer = value;
    else if (strcmp(word, "validator") == 0)
        r->validator = value;
    else if (strcmp(word, "known") == 0)
        r->known = value;
    else if (strcmp(word, "accept") == 0)
        r->accept = value;
    else if (strcmp(word, "file") == 0)
        r->file = value;
}

static io_request parse(char *text)
{
    io_request r = { .url = next_word(&text) };
    char *second = next_word(&text);
    r.whole = strcmp(second, "whole") == 0;
    if (!r.whole) {
        r.offset = strtoull(second, NULL, 10);
        r.least = strtoull(next_word(&text), NULL, 10);
    }
    r.most = strtoull(next_word(&text), NULL, 10);
    for (char *word = next_word(&text); *word != '\0'; word = next_word(&text))
        take_option(&r, word);
    return r;
}

static void put_text(const char *name, const char *s)
{
    printf(", \"%s\": \"", name);
    for (; *s != '\0'; s++)
        if (*s == '"' || *s == '\\' || (unsigned char)*s < ' ' || (unsigned char)*s > 126)
            printf("\\u%04x", (unsigned)(unsigned char)*s);
        else
            putchar(*s);
    putchar('"');
}

/* FNV-1a: the test knows what the bytes must be. */
static unsigned long long digest(const char *p, size_t n)
{
    unsigned long long h = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * 0x100000001b3ULL;
    return h;
}

static void show(const io_request *r)
{
    printf("{\"result\": \"%s\", \"status\": %ld, \"n\": %zu, \"code\": %d", results[r->result], r->status,
           r->n, (int)r->code);
    if (r->total != UINT64_MAX)
        printf(", \"total\": %llu", (unsigned long long)r->total);
    if (r->linked_size != UINT64_MAX)
        printf(", \"linked_size\": %llu", (unsigned long long)r->linked_size);
    if (r->result == IO_HTTP_OK)
        printf(", \"digest\": \"%016llx\"", digest(r->bytes, r->n));
    put_text("validator", r->validator_now);
    put_text("linked_etag", r->linked_etag);
    put_text("commit", r->commit);
    put_text("error_code", r->error_code);
    put_text("error_text", r->error_text);
    put_text("location", r->location);
    put_text("trouble", r->trouble);
    if (r->hint != NULL)
        put_text("hint", r->hint);
    printf("}\n");
}

static void perform(vram_io *io, vram_ctx *ctx, line *lines, size_t n)
{
    io_request *r = calloc(n > 0 ? n : 1, sizeof(*r));
    if (r == NULL)
        exit(99);
    for (size_t i = 0; i < n; i++)
        r[i] = lines[i].r;
    vram_status s = io_http_perform(io, ctx, r, n);
    if (s != VRAM_OK)
        printf("{\"result\": \"error\", \"code\": %d}\n", (int)s);
    for (size_t i = 0; i < n && s == VRAM_OK; i++)
        show(&r[i]);
    for (size_t i = 0; i < n; i++)
        free(lines[i].text);
    free(r);
    fflush(stdout);
}

static void take_limit(io_http_limits *l, const char *arg)
{
    const struct {
        const char *name;
        unsigned *to;
    } fields[] = { { "connect", &l->connect_s },      { "stall", &l->stall_s }, { "request", &l->request_s },
                   { "total", &l->total_s },          { "tries", &l->tries },   { "hops", &l->hops },
                   { "connections", &l->connections } };
    const char *value = strchr(arg, '=');
    if (value == NULL)
        exit(98);
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        if (strncmp(arg, fields[i].name, strlen(fields[i].name)) == 0 && arg[strlen(fields[i].name)] == '=')
            *fields[i].to = (unsigned)strtoul(value + 1, NULL, 10);
    if (strncmp(arg, "allow_http=", 11) == 0)
        l->allow_http = value[1] == '1';
}

int main(int argc, char **argv)
{
    static line lines[MOST];
    static char text[LINE];
    size_t n = 0;
    vram_io *io;
    vram_ctx *ctx;
    if (vram_io_new(&io) != VRAM_OK || vram_open(&ctx, vram_io_alloc, NULL) != VRAM_OK)
        return 99;
    io_http_limits limits = io_http_limits_of(io);
    for (int i = 1; i < argc; i++)
        take_limit(&limits, argv[i]);
    if (io_http_set_limits(io, &limits) != VRAM_OK)
        return 99;
    while (fgets(text, sizeof(text), stdin) != NULL) {
        if (text[0] == '\n') {
            perform(io, ctx, lines, n);
            n = 0;
            continue;
        }
        if (n == MOST || (lines[n].text = malloc(strlen(text) + 1)) == NULL)
            return 97;
        memcpy(lines[n].text, text, strlen(text) + 1);
        lines[n].r = parse(lines[n].text);
        n++;
    }
    perform(io, ctx, lines, n);
    vram_close(ctx);
    vram_io_free(io);
    return 0;
}
