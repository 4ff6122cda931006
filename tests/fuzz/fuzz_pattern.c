/* SPDX-License-Identifier: MIT
 * A pattern of -ot, a line end, and the name of a tensor. What must hold: the pattern is understood or there
 * is a sentence; what is plain text is found where it stands; all of a name does not find less than each of
 * its beginnings, where no end is asked for. */
#include "fuzz.h"

#include <string.h>

#include "../support/hook.h"
#include "llama/pattern.h"

#define MOST_PATTERN 512
#define MOST_TEXT 256

static bool is_plain(const char *pattern)
{
    return strpbrk(pattern, "\\^$.|?*+()[]{}") == NULL;
}

static void look(const struct vr_pattern *p, const char *pattern, const char *name, size_t n)
{
    bool ended = strpbrk(pattern, "$\\") != NULL, before = false;
    for (size_t i = 0; i <= n; i++) {
        bool found = vr_lm_pattern_found(p, (vr_str){ name, i });
        CHECK(ended || found || !before);
        before = found;
    }
    if (is_plain(pattern))
        CHECK(before == (strstr(name, pattern) != NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char pattern[MOST_PATTERN + 1], name[MOST_TEXT + 1];
    const uint8_t *end = size != 0 ? memchr(data, '\n', size) : NULL;
    size_t n = end != NULL ? (size_t)(end - data) : size, k = size - n;
    hook h = { 0 };
    vram_ctx *ctx;
    const struct vr_pattern *p;
    const char *why;
    n = n < MOST_PATTERN ? n : MOST_PATTERN;
    k = k == 0 ? 0 : k - 1 < MOST_TEXT ? k - 1 : MOST_TEXT;
    if (size != 0)
        memcpy(pattern, data, n);
    pattern[n] = '\0';
    if (k != 0)
        memcpy(name, end + 1, k);
    name[k] = '\0';
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    CHECK(vr_lm_pattern(&p, &why, pattern, &ctx->arena) == VRAM_OK);
    CHECK((p == NULL) == (why != NULL));
    if (p != NULL)
        look(p, pattern, name, strlen(name));
    vram_close(ctx);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
    return 0;
}
