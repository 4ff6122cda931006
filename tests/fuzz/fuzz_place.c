/* SPDX-License-Identifier: MIT
 * Names of models on any bytes: what is taken can be put into an address or a path of a cache as it is. */
#define _DEFAULT_SOURCE /* strncasecmp */
#include "fuzz.h"

#include <string.h>
#include <strings.h>

#include "io/place.h"

static bool leads_down(const char *path)
{
    size_t n = strlen(path);
    return path[0] != '/' && strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0 &&
           strstr(path, "/../") == NULL && strstr(path, "//") == NULL &&
           (n < 3 || strcmp(path + n - 3, "/..") != 0);
}

static bool printable(const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f)
            return false;
    }
    return true;
}

static void check(const char *text, const char *endpoint)
{
    static const char known[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/:";
    const char *why = "x";
    io_place p;
    if (!io_place_parse(&p, text, endpoint, &why)) {
        CHECK(why != NULL && printable(why));
        return;
    }
    CHECK(why == NULL);
    CHECK(strspn(p.repo, known) == strlen(p.repo) && leads_down(p.repo));
    CHECK(leads_down(p.revision) && printable(p.revision));
    CHECK(leads_down(p.file) && printable(p.file));
    CHECK(printable(p.quant) && strchr(p.quant, '/') == NULL);
    CHECK((p.kind == IO_PLACE_URL) == (p.url[0] != '\0') && printable(p.url));
    CHECK((p.kind == IO_PLACE_PATH || p.kind == IO_PLACE_URL) == (p.repo[0] == '\0'));
    if (p.kind == IO_PLACE_PATH)
        CHECK(p.endpoint[0] == '\0' && p.revision[0] == '\0' && p.file[0] == '\0' && p.quant[0] == '\0');
    if (p.kind == IO_PLACE_URL)
        CHECK(strpbrk(p.url, " #\\") == NULL && strncasecmp(p.url, "http", 4) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    check(text, NULL);
    check(text, "https://hub.example.org:8443/hf/");
    /* what is before the first line end as the endpoint of what is behind it */
    char *end = strchr(text, '\n');
    if (end != NULL) {
        *end = '\0';
        check(end + 1, text);
    }
    free(text);
    return 0;
}
